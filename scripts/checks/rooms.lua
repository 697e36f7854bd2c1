-- The floors of core and of the bindings: who may call whom, and how large a circle of files may be. It reads the
-- symbols of the built objects (nm -P), so what counts is what is called, not what is included. Prints every edge that is not
-- allowed by floors.lua, with its symbols, and exits with 1 if there is one.
-- usage, in the source tree: tide scripts/checks/rooms.lua BUILD     (any Lua 5.4 will do)
--
-- A lower floor never calls a higher one. Where it has to tell one something, the higher one registers: a step of the
-- shutdown, a backend, what follows a wait; or the lower one takes a hook; or it speaks to the observer bus.

local build = arg[1] or "build"

local floors = dofile("scripts/checks/floors.lua")
local house = { "the house", calls = {} } -- core/tide.c, which starts and ends all of them
for _, floor in ipairs(floors) do house.calls[#house.calls + 1] = floor[1] end
floors[#floors + 1] = house

-- In one room, so many files may call each other in a circle.
local most_in_circle = 8

-- ---- what is built ----
local function lines_of(command)
  local pipe = assert(io.popen(command))
  local out = {}
  for line in pipe:lines() do out[#out + 1] = line end
  pipe:close()
  return out
end

local function room_of(file) return file:match("^(backend/%w+)/") or file:match("^(%w+)/") or "the house" end

-- file: the source's path in core, without its suffix. needs[file] = set of symbols; home[symbol] = file.
local files, needs, home = {}, {}, {}
local function read_objects(folder, top)
  local file, sources = nil, {}
  for _, source in ipairs(lines_of(("find %s -name '*.c'"):format(top))) do sources[source] = true end
  for _, line in ipairs(lines_of(("find '%s' -name '*.c.o' 2>/dev/null | sort | xargs -r nm -P -A 2>/dev/null"):format(folder))) do
    local path, symbol, kind = line:match("^(.-)%.c%.o:? (%S+) (%a)")
    -- An object whose source has gone stays in a build tree.
    if path and sources[path:match("/(" .. top .. "/.*)$") .. ".c"] then
      file = path:match("/" .. top .. "/(.*)$")
      if not needs[file] then files[#files + 1], needs[file] = file, {} end
      if kind == "U" then
        needs[file][symbol] = true
      elseif kind:match("[TDBRVWC]") then
        home[symbol] = file
      end
    end
  end
end
read_objects(build .. "/CMakeFiles/tide_objects.dir/core", "core")
read_objects(build .. "/CMakeFiles/tide_cuda.dir/core", "core")
read_objects(build .. "/CMakeFiles/tide_distributed.dir/core", "core")
if #files < 50 then
  print(("rooms: %s holds %d objects of core, expected a built tree"):format(build, #files))
  os.exit(1)
end

-- ---- edges between rooms ----
local allowed, known = {}, {}
for _, floor in ipairs(floors) do
  known[floor[1]] = true
  for _, room in ipairs(floor.calls) do allowed[floor[1] .. " -> " .. room] = true end
end

local calls, edges, failures = {}, {}, 0
local function complain(...)
  failures = failures + 1
  print((...):format(select(2, ...)))
end

for _, file in ipairs(files) do
  calls[file] = {}
  if not known[room_of(file)] then complain("core/%s.c lies in no room that this list knows", file) end
  for symbol in pairs(needs[file]) do
    local to = home[symbol]
    if to and to ~= file then
      calls[file][to] = true
      local edge = room_of(file) .. " -> " .. room_of(to)
      if room_of(file) ~= room_of(to) and not allowed[edge] then
        edges[edge] = edges[edge] or { count = 0 }
        if not edges[edge][symbol] then
          edges[edge].count, edges[edge][symbol] = edges[edge].count + 1, {}
        end
        table.insert(edges[edge][symbol], file)
      end
    end
  end
end

local function sorted(t)
  local keys = {}
  for key in pairs(t) do if key ~= "count" then keys[#keys + 1] = key end end
  table.sort(keys)
  return keys
end

for _, edge in ipairs(sorted(edges)) do
  complain("%s: %d symbols, expected none", edge, edges[edge].count)
  for _, symbol in ipairs(sorted(edges[edge])) do
    local from = edges[edge][symbol]
    table.sort(from)
    print(("    %s (core/%s.c) from %s"):format(symbol, home[symbol], table.concat(from, " ")))
  end
end

-- ---- circles of files: Tarjan's strongly connected components ----
local function circles_of(counts)
  local index, low, on_stack, stack, circles, at = {}, {}, {}, {}, {}, 0
  local function visit(file)
    at = at + 1
    index[file], low[file], on_stack[file] = at, at, true
    stack[#stack + 1] = file
    for to in pairs(calls[file]) do
      if not counts(file, to) then
        -- another search looks at that edge
      elseif not index[to] then
        visit(to)
        low[file] = math.min(low[file], low[to])
      elseif on_stack[to] then
        low[file] = math.min(low[file], index[to])
      end
    end
    if low[file] ~= index[file] then return end
    local circle = {}
    repeat
      local top = table.remove(stack)
      on_stack[top] = nil
      circle[#circle + 1] = top
    until top == file
    table.sort(circle)
    if #circle > 1 then circles[#circles + 1] = circle end
  end
  for _, file in ipairs(files) do if not index[file] then visit(file) end end
  return circles
end

for _, circle in ipairs(circles_of(function(a, b) return room_of(a) == room_of(b) end)) do
  local room = room_of(circle[1])
  local most = most_in_circle
  if #circle > most then
    complain("%s: a circle of %d files, expected at most %d: %s", room, #circle, most, table.concat(circle, " "))
  elseif arg[2] == "--circles" then
    print(("%s: a circle of %d files: %s"):format(room, #circle, table.concat(circle, " ")))
  end
end

for _, circle in ipairs(circles_of(function() return true end)) do
  local rooms, names = {}, {}
  for _, file in ipairs(circle) do rooms[room_of(file)] = true end
  for room in pairs(rooms) do names[#names + 1] = room end
  table.sort(names)
  if #names > 1 then
    complain("a circle spans the rooms %s: %s", table.concat(names, ", "), table.concat(circle, " "))
  end
end

-- ---- the bindings: files on floors, and circles within one ----
files, needs, home, calls = {}, {}, {}, {}
read_objects(build .. "/CMakeFiles/tide_binding_objects.dir/lua_bindings", "lua_bindings")
read_objects(build .. "/CMakeFiles/tide_runner.dir/lua_bindings", "lua_bindings")
local bindings, floor_of = floors.bindings, {}
for height, floor in ipairs(bindings) do
  for _, file in ipairs(floor) do floor_of[file] = height end
end
for _, file in ipairs(files) do
  calls[file] = {}
  if not floor_of[file] then complain("lua_bindings/%s.c stands on no floor that floors.lua knows", file) end
  for symbol in pairs(needs[file]) do
    local to = home[symbol]
    if to and to ~= file then
      calls[file][to] = true
      if (floor_of[to] or 0) > (floor_of[file] or #bindings) then
        complain("lua_bindings/%s.c calls %s of %s.c, which is on a higher floor", file, symbol, to)
      end
    end
  end
end
for _, circle in ipairs(circles_of(function() return true end)) do
  if #circle > bindings.most_in_circle then
    complain("lua_bindings: a circle of %d files, expected at most %d: %s", #circle, bindings.most_in_circle,
      table.concat(circle, " "))
  elseif arg[2] == "--circles" then
    print(("lua_bindings: a circle of %d files: %s"):format(#circle, table.concat(circle, " ")))
  end
end

print(failures == 0 and "rooms: all kept" or ("rooms: %d broken"):format(failures))
os.exit(failures == 0 and 0 or 1)
