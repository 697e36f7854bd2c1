-- Makes one HTML page of a memory snapshot: who holds device memory, in which segments, and how that changed over time.
--
-- usage: tide scripts/memory_page.lua snapshot.json page.html
-- A script writes the snapshot: tide.cuda.memory.record_history() at its start, then tide.cuda.memory.dump_snapshot(path).
-- The page needs nothing else: the snapshot, the styles and the code are in it.

local function stop(text)
  io.stderr:write("memory_page: ", text, "\n")
  os.exit(1)
end

local function read(path, what)
  local file, why = io.open(path, "rb")
  if not file then stop(("cannot read %s: %s"):format(what, why)) end
  local text = file:read "a"
  file:close()
  return text
end

local source, target = arg[1], arg[2]
if not source or not target then stop "usage: tide scripts/memory_page.lua snapshot.json page.html" end
local here = arg[0]:match "^(.*)/[^/]*$" or "."

local snapshot = read(source, "the snapshot")
if not (snapshot:find '^%s*{"version":1,' and snapshot:find '"segments":%[' and snapshot:find '"device_traces":%[.*%]%s*}%s*$') then
  stop(("%s is no whole snapshot, expected what tide.cuda.memory.dump_snapshot writes"):format(source))
end
if snapshot:find("</", 1, true) then stop(source .. " holds the end of a script, which no snapshot does") end

local page = read(here .. "/memory_page.html", "the template")
local before, after = page:match "^(.-)/%*SNAPSHOT%*/null(.*)$"
if not before then stop "the template has no place for the snapshot" end
local file, why = io.open(target, "wb")
if not file then stop("cannot write the page: " .. why) end
file:write(before, snapshot, after)
if not file:close() then stop("could not write all of " .. target) end
print("written: " .. target)
