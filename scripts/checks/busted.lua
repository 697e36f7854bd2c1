-- Runs busted inside the tide runner: tide scripts/checks/busted.lua [options] spec
--
-- TIDE_PENDING names a file for the cases that were left out, counted by reason: a suite that passed is silent, so that
-- scripts/test says it of all suites at the end.
--
-- TIDE_TIMES names a folder; each run writes a file there: processor time and time, in seconds, of each case and, with what
-- is done around the cases, of each spec. Processes that a case starts count in the second alone.
local path, reasons, counts = os.getenv "TIDE_PENDING", {}, {}
local times = os.getenv "TIDE_TIMES"

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

-- Calls f with busted's core once the runner has made it, and `after`, if any, once its functions are there.
local function on_begin(f, after)
  local meta = getmetatable(require "busted")
  local begin = meta.__call -- which the runner calls with its new core
  meta.__call = function(self, core)
    f(core)
    local result = begin(self, core)
    if after then after(core) end
    return result
  end
end

if path then
  on_begin(function(core)
    core.subscribe({ "pending" }, function(_, _, message) count(message) return nil, true end)
    core.subscribe({ "test", "end" }, function(element) -- a pending without a case around it has its reason in its name
      if element.descriptor == "pending" then count(element.name) end
      return nil, true
    end)
    core.subscribe({ "suite", "end" }, write)
  end)
end
if times then
  on_begin(function(core)
    local name = (path or "specs"):match "[^/]+$"
    local process = assert(io.open("/proc/self/stat")):read "n"
    local file = assert(io.open(("%s/%s.%d"):format(times, name, process), "w"))
    local started = {}
    local function begin(element) started[element.descriptor] = os.clock() return nil, true end
    local function finish(element)
      local spec = element.trace and ("%s:%d"):format(element.trace.short_src, element.trace.currentline) or ""
      file:write(("%.3f\t%.3f\t%s\t%s\n"):format(os.clock() - started[element.descriptor], element.duration, spec, element.name))
      return nil, true
    end
    for _, kind in ipairs { "test", "file" } do
      core.subscribe({ kind, "start" }, begin)
      core.subscribe({ kind, "end" }, finish)
    end
  end)
end

-- ---- cases that check nothing ----

-- A case that returns early looks as if it had succeeded: it has to be pending, with a reason. So each calls an assertion
-- or a checking function of spec/support.
do
  local checks = require "spec.support.checks"
  local function counted(f)
    return function(...)
      checks.count = checks.count + 1
      return f(...)
    end
  end
  assert = counted(assert) -- luacheck: ignore
  on_begin(function(busted)
    busted.subscribe({ "test", "start" }, function(element)
      local run, before = element.run, checks.count
      element.run = function(...)
        run(...)
        if checks.count == before and not rawget(_G, "jit") then -- LuaJIT loads the support of specs twice
          error("the case has checked nothing, expected an assertion, or pending with a reason", 0)
        end
      end
      return nil, true
    end)
  end, function(busted)
    local luassert = require "luassert"
    busted.export("assert", setmetatable({}, {
      __index = function(_, key)
        checks.count = checks.count + 1
        return luassert[key]
      end,
      __call = function(_, ...)
        checks.count = checks.count + 1
        return luassert(...)
      end,
    }))
  end)
end

-- ---- a small heap ----

-- A spec is compiled when its turn comes, and what it has left in busted's tree is dropped behind it: specs collect all
-- there is many thousand times, and a collection takes as long as the heap is large.
local files = require "busted.modules.files.lua"
local load_now = files.load
function files.load(busted, path)
  local _, trace = load_now(busted, "/dev/null")
  local environment = require "busted.compatibility"
  return function()
    local chunk = assert(loadfile(path))
    return environment.setfenv(chunk, environment.getfenv(1))()
  end, trace
end

-- busted's tree holds each element by its parent and by its children; the output, a copy of each that succeeded.
local outputs = require "busted.outputHandlers.base"
package.loaded["busted.outputHandlers.base"] = function(...)
  local handler = outputs(...)
  setmetatable(handler.successes, { __mode = "v" })
  return handler
end

on_begin(function(busted)
  for _, relation in ipairs { "parent", "children" } do
    local _, elements = debug.getupvalue(busted.context[relation], 1)
    if type(elements) == "table" then setmetatable(elements, { __mode = "k" }) end
  end
  busted.subscribe({ "test", "end" }, function(element)
    element.env = nil
    return nil, true
  end)
  busted.subscribe({ "file", "end" }, function(file)
    local tide = package.loaded.tide
    local left = tide and tostring(tide.get_default_device()) or "cpu"
    if left ~= "cpu" then -- later files would fail for it
      tide.set_default_device "cpu"
      busted.publish({ "error", "file" }, file, busted.context.parent(file), "the file has left " .. left .. " as the default device",
        { traceback = "", message = "", short_src = file.name, currentline = 1 })
    end
    local children = busted.context.children(file)
    for i = #children, 1, -1 do children[i] = nil end
    for descriptor in pairs(busted.executors) do file[descriptor] = nil end
    return nil, true
  end)
end)

require "busted.runner" { standalone = false }
