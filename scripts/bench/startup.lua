-- startup.lua: milliseconds of `tide -e ""` beside `lua5.4 -e ""`, and of the first operation on a GPU where there is one.
-- Each program runs in turns; medians. usage: tide startup.lua path/to/tide
local tide = require "tide"
local runner = arg[1] or arg[-1]
local function median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end
local commands = {tide = runner .. " -e ''", lua = "lua5.4 -e ''"}
local times = {tide = {}, lua = {}}
for _ = 1, 101 do
  for name, command in pairs(commands) do
    local t = tide.Timer()
    assert(os.execute(command))
    table.insert(times[name], t:time().real * 1e3)
  end
end
local shell = {}
for _ = 1, 101 do
  local t = tide.Timer()
  os.execute("true")
  table.insert(shell, t:time().real * 1e3)
end
local base = median(shell) -- the shell that os.execute starts
for name, list in pairs(times) do print(("%s\tstartup\t%.3g\tms"):format(name, median(list) - base)) end
