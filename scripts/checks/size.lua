-- size.lua: no room grows without a decision: each has a budget of lines, and so has the whole. Counts what is built:
-- C, CUDA, lists, texts of kernels and Lua chunks; not specs, scripts, examples and manuals.
--
--   tide scripts/checks/size.lua [--print]     --print: the sizes as the table below has them

local budget = {
  ["core"] = 200,
  ["core/backend"] = 1150,
  ["core/backend/cpu"] = 18280,
  ["core/backend/cuda"] = 5350,
  ["core/backend/sim"] = 3500,
  ["core/base"] = 4300,
  ["core/comm"] = 3050,
  ["core/data"] = 550,
  ["core/distributed"] = 3235,
  ["core/graph"] = 1550,
  ["core/include"] = 3250,
  ["core/io"] = 2600,
  ["core/jit"] = 8850,
  ["core/memory"] = 5700,
  ["core/os"] = 2050,
  ["core/runtime"] = 800,
  ["core/stream"] = 2950,
  ["core/tensor"] = 8200,
  ["core/watch"] = 2850,
  ["kernels"] = 9450,
  ["lua_bindings"] = 700,
  ["lua_bindings/call"] = 6760,
  ["lua_bindings/compat"] = 1750,
  ["lua_bindings/data"] = 2750,
  ["lua_bindings/device"] = 4000,
  ["lua_bindings/distributed"] = 2500,
  ["lua_bindings/fuse"] = 400,
  ["lua_bindings/help"] = 850,
  ["lua_bindings/host"] = 3000,
  ["lua_bindings/kernel"] = 11370,
  ["lua_bindings/plot"] = 1200,
  ["lua_bindings/quota"] = 2150,
  ["lua_bindings/runner"] = 3650,
  ["lua_bindings/tensor"] = 8500,
}
local whole = 136560

-- A folder directly under core, core/backend, kernels or lua_bindings is a room; the files directly in these four are one too.
local function room_of(path)
  return path:match "^(core/backend/[^/]+)/" or path:match "^(core/include)/" or path:match "^(core/[^/]+)/" or path:match "^(lua_bindings/[^/]+)/"
    or path:match "^([^/]+)/"
end

local lines, total = {}, 0
for path in io.popen "git ls-files -co --exclude-standard core kernels lua_bindings":lines() do
  local file = path:find "%.[chl]u?a?h?$" or path:find "%.def$" or path:find "%.cuh?$" or path:find "%.cxx$" or path:find "%.sym$"
  local source = file and io.open(path)
  if source then
    local n, room = 0, room_of(path)
    for _ in source:lines() do n = n + 1 end
    source:close()
    lines[room], total = (lines[room] or 0) + n, total + n
  end
end

local names, broken = {}, 0
for room in pairs(lines) do names[#names + 1] = room end
table.sort(names)
if arg[1] == "--print" then
  for _, room in ipairs(names) do print(("  [%q] = %d,"):format(room, (lines[room] + 49) // 50 * 50)) end
  print(("local whole = %d"):format((total + 99) // 100 * 100))
  return
end
local function complain(...)
  io.stderr:write("size: ", string.format(...), "\n")
  broken = broken + 1
end
for _, room in ipairs(names) do
  if not budget[room] then complain("%s has no budget, and %d lines", room, lines[room])
  elseif lines[room] > budget[room] then complain("%s has %d lines, its budget is %d: remove some, or raise it in scripts/checks/size.lua and say why in the commit", room, lines[room], budget[room]) end
end
for room in pairs(budget) do
  if not lines[room] then complain("%s has a budget, and is no room", room) end
end
if total > whole then complain("all rooms have %d lines, their budget is %d: remove some, or raise `whole` in scripts/checks/size.lua and say why in the commit", total, whole) end
print(("size: %d lines of %d in %d rooms"):format(total, whole, #names))
os.exit(broken == 0, true)
