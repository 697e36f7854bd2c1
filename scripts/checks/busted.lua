-- Runs busted inside the tide runner: tide scripts/checks/busted.lua [options] spec
--
-- TIDE_PENDING names a file for the cases that were left out, counted by reason: a suite that passed is silent, so that
-- scripts/test says it of all suites at the end.
local path, reasons, counts = os.getenv "TIDE_PENDING", {}, {}

local function count(message)
  local reason = tostring(message):gsub("^.-:%d+: ", ""):gsub("^.*: ", "")
  if not counts[reason] then reasons[#reasons + 1] = reason end
  counts[reason] = (counts[reason] or 0) + 1
end

local function write()
  local file = assert(io.open(path, "w"))
  table.sort(reasons)
  for _, reason in ipairs(reasons) do file:write(counts[reason], "\t", reason, "\n") end
  file:close()
  return nil, true
end

if path then
  local meta = getmetatable(require "busted")
  local begin = meta.__call -- which the runner calls with its new core
  meta.__call = function(self, core)
    core.subscribe({ "pending" }, function(_, _, message) count(message) return nil, true end)
    core.subscribe({ "test", "end" }, function(element) -- a pending without a case around it has its reason in its name
      if element.descriptor == "pending" then count(element.name) end
      return nil, true
    end)
    core.subscribe({ "suite", "end" }, write)
    return begin(self, core)
  end
end
require "busted.runner" { standalone = false }
