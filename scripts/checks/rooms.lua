-- The floors of core and of lua_bindings: who may call whom, and how large a circle of files may be. It reads the
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

-- The most files of one room that may call each other in a circle. The number only falls.
local most_in_circle = 3

local failures = 0
local function complain(text, ...)
  failures = failures + 1
  print(text:format(...))
end

local function lines_of(command)
  local pipe = assert(io.popen(command))
  local out = {}
  for line in pipe:lines() do out[#out + 1] = line end
  pipe:close()
  return out
end

local function sorted(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys)
  return keys
end

-- ---- what is built ----
-- files: the paths of sources in `top`, without suffix; needs[file]: set of symbols; home[symbol]: file.
local function read_objects(top, targets)
  local files, needs, home, sources = {}, {}, {}, {}
  for _, source in ipairs(lines_of(("find %s -name '*.c'"):format(top))) do sources[source] = true end
  for _, target in ipairs(targets) do
    local folder = ("%s/CMakeFiles/%s.dir/%s"):format(build, target, top)
    for _, line in ipairs(lines_of(("find '%s' -name '*.c.o' 2>/dev/null | sort | xargs -r nm -P -A 2>/dev/null"):format(folder))) do
      local path, symbol, kind = line:match("^(.-)%.c%.o:? (%S+) (%a)")
      -- An object whose source has gone stays in a build tree.
      if path and sources[path:match("/(" .. top .. "/.*)$") .. ".c"] then
        local file = path:match("/" .. top .. "/(.*)$")
        if not needs[file] then files[#files + 1], needs[file] = file, {} end
        if kind == "U" then
          needs[file][symbol] = true
        elseif kind:match("[TDBRVWC]") then
          home[symbol] = file
        end
      end
    end
  end
  return files, needs, home
end

-- ---- circles of files: Tarjan's strongly connected components ----
-- calls: of each file, its callees. counts(a, b): does this edge?
local function circles_of(files, calls, counts)
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


-- ---- one tree: its rooms, lowest floor first, and the room of a file ----
local function check(top, rooms, targets, room_of)
  local files, needs, home = read_objects(top, targets)
  local allowed, known, calls, edges = {}, {}, {}, {}
  if #files < 50 then complain("%s holds %d objects of %s, expected a built tree", build, #files, top) end
  for _, room in ipairs(rooms) do
    known[room[1]] = true
    for _, below in ipairs(room.calls) do allowed[room[1] .. " -> " .. below] = true end
  end
  for _, file in ipairs(files) do
    calls[file] = {}
    if not known[room_of(file)] then complain("%s/%s.c is in no room that floors.lua knows", top, file) end
    for symbol in pairs(needs[file]) do
      local to = home[symbol]
      if to and to ~= file then
        calls[file][to] = true
        local edge = room_of(file) .. " -> " .. room_of(to)
        if room_of(file) ~= room_of(to) and not allowed[edge] then
          edges[edge] = edges[edge] or {}
          edges[edge][("%s (%s/%s.c) from %s.c"):format(symbol, top, home[symbol], file)] = true
        end
      end
    end
  end
  for _, edge in ipairs(sorted(edges)) do
    complain("%s: expected no calls", edge)
    for _, symbol in ipairs(sorted(edges[edge])) do print("    " .. symbol) end
  end

  for _, circle in ipairs(circles_of(files, calls, function(a, b) return room_of(a) == room_of(b) end)) do
    local text = ("%s/%s: a circle of %d files"):format(top, room_of(circle[1]), #circle)
    if #circle > most_in_circle then
      complain("%s, expected at most %d: %s", text, most_in_circle, table.concat(circle, " "))
    elseif arg[2] == "--circles" then
      print(text .. ": " .. table.concat(circle, " "))
    end
  end
  for _, circle in ipairs(circles_of(files, calls, function() return true end)) do
    local spans = {}
    for _, file in ipairs(circle) do spans[room_of(file)] = true end
    local names = sorted(spans)
    if #names > 1 then complain("a circle spans the rooms %s: %s", table.concat(names, ", "), table.concat(circle, " ")) end
  end
end

check("core", floors, { "tide_objects", "tide_cuda", "tide_distributed" },
  function(file) return file:match("^(backend/%w+)/") or file:match("^(%w+)/") or "the house" end)
check("lua_bindings", floors.bindings, { "tide_binding_objects", "tide_runner" },
  function(file) return file:match("^(%w+)/") or "the module" end)

-- ---- LuaJIT's stand-in for Lua's C API: every file of the bindings calls it, so it calls none of them ----
do
  local _, needs, home = read_objects("lua_bindings", { "tide_luajit_module" })
  for symbol in pairs(needs["compat/luajit"] or {}) do
    if home[symbol] then complain("compat/luajit.c takes %s of %s.c, expected nothing of the bindings", symbol, home[symbol]) end
  end
end

-- ---- a folder that can be seen at a glance ----
local most_in_folder = 40
for _, folder in ipairs(lines_of "find core kernels lua_bindings spec -type d") do
  local count = #lines_of(("find '%s' -maxdepth 1 -type f"):format(folder))
  if count > most_in_folder then complain("%s holds %d files, expected at most %d", folder, count, most_in_folder) end
end

print(failures == 0 and "rooms: all kept" or ("rooms: %d broken"):format(failures))
os.exit(failures == 0 and 0 or 1)
