-- The whole text of each error that D.raises sees, of the specs that have a list: spec/corpus/errors/ROOM_NOUN.txt has
-- the texts that ROOM/NOUN_spec.lua may see, on any device, in order. An error of another text fails.
--
-- TIDE_ERRORS=record adds the new texts to a spec's list, and makes one where there is none. What has changed on purpose
-- is removed by hand, or with the list.
local M = {}

local recording = os.getenv "TIDE_ERRORS" == "record"
local lists = {} -- by a spec's path: {path =, texts = {text = true}}, or false

-- The path of the running spec: "device/stream".
local function running()
  for level = 3, math.huge do
    local info = debug.getinfo(level, "S")
    if not info then return nil end
    local name = info.source:match "^@.-spec/([%w_]+/[%w_]+)_spec%.lua$"
    if name then return name end
  end
end

local function list_of(spec)
  if lists[spec] == nil then
    local path = "spec/corpus/errors/" .. spec:gsub("/", "_") .. ".txt"
    local file = io.open(path)
    lists[spec] = (file or recording) and { path = path, texts = {} } or false
    for line in file and file:lines() or function() end do lists[spec].texts[line] = true end
    if file then file:close() end
  end
  return lists[spec]
end

-- The text without what differs between runs: addresses, temporary files, lines of specs, amounts of memory.
local function stable(e)
  local text = ("%s: %s"):format(e.kind, e.message):gsub("\n", "\\n")
  text = text:gsub("0x%x+", "0x*"):gsub("handle %d+", "handle *"):gsub("process %d+", "process *"):gsub("/tmp/[%w_./-]+", "/tmp/*")
  text = text:gsub("such range is open, got %d+", "such range is open, got *")
  text = text:gsub("[%w_./-]*(spec/[%w_/]+%.lua):%d+", "%1:*")
  text = text:gsub("[\0-\31\127-\255]", function(c) return ("\\x%02x"):format(c:byte()) end)
  if e.kind == "OutOfMemoryError" then text = text:gsub("%d[%d.]*", "*"):match "^[^;]*" end -- then what the process holds
  return text
end

local function save(list)
  local sorted = {}
  for text in pairs(list.texts) do sorted[#sorted + 1] = text end
  table.sort(sorted)
  local file = assert(io.open(list.path, "w"))
  file:write(table.concat(sorted, "\n"), "\n")
  file:close()
end

function M.check(e)
  if rawget(_G, "jit") then return end -- LuaJIT shows some numbers otherwise
  local spec = running()
  local list = spec and list_of(spec)
  if not list then return end
  local text = stable(e)
  if list.texts[text] then return end
  if not recording then error(("%s lacks '%s'; TIDE_ERRORS=record adds it"):format(list.path, text), 3) end
  list.texts[text] = true
  save(list)
end

return M
