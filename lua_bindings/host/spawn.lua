-- tide.multiprocessing.spawn: a function or a script in new processes.
--
-- Each process is a runner started anew, which asks tide.multiprocessing._main for its task: a table with the function's
-- bytecode or the script's name, the rank and the arguments, written by serialize.c. Tensors of the host go by value, those
-- of accelerators as IPC handles, one for each process. What a process fails with it writes where its task was, so a
-- message of any length fits and nobody has to read while it runs.

local M = ...
local trees = use "call/tree"
local cannot_use, own_program, pid_of, end_all, count_processes = use("host/spawn.c", "cannot_use", "own_program", "pid_of", "end_all", "count_processes")
local now, how_ended, sleep, dump, new_context, write_task = use("host/spawn.c", "now", "how_ended", "sleep", "dump", "new_context", "write_task")
local start, hand_out, load, set_upvalue, tell_begun = use("host/spawn.c", "start", "hand_out", "load", "set_upvalue", "tell_begun")
local check_unnamed = use("device/parallel.c", "check_unnamed")

-- ---- in the parent ----

local function find_program(exe)
  local why = exe and cannot_use(exe, true)
  if why then fail("FileError", "spawn: exe: " .. exe .. ": " .. why .. ", expected a program") end
  exe = exe or own_program()
  if not exe then
    fail("FileError", "spawn: no program to start: tide was not found beside the module, in ../../../bin or in PATH, expected "
      .. "exe= with its path, or that of a Lua 5.4 that can require tide")
  end
  return exe
end

-- The modules that fn uses from around it, the globals as _G, under the numbers of its upvalues. It may use nothing else,
-- which stays here. What _ENV is here are perhaps not the globals, but there it will be.
local function modules_of(fn)
  local names, modules, others, i = {}, {}, nil, 1
  for name, module in next, loaded() do
    if type(name) == "string" and type(module) == "table" then names[module] = name end
  end
  local name, value = upvalue(fn, i)
  while name do
    modules[i] = name == "_ENV" and "_G" or names[value]
    if not modules[i] then others = (others and others .. ", '" or "'") .. name .. "'" end
    i = i + 1
    name, value = upvalue(fn, i)
  end
  if others then
    fail("ArgumentError", "spawn: fn: got a function that uses " .. others .. " from around it, expected one that uses only "
      .. "globals and modules so: another process does not have the rest, pass it in args")
  end
  return modules
end

-- The child finds modules where we do.
local function path_of(key)
  local package = rawget(loaded(), "package")
  local path = type(package) == "table" and package[key]
  return type(path) == "string" and path or nil
end

-- Ends all processes and raises the error of one: what became of it, a number with its name, and what it told.
local function blame(context, rank, what, key, code, told)
  local fields = { rank = rank, pid = pid_of(context, rank) }
  if key then fields[key] = code end
  end_all(context)
  fail("StateError", "spawn: rank " .. rank .. " (process " .. fields.pid .. ") " .. what .. (told and ": " .. told or ""), fields)
end

function M.list_pids(context)
  local pids = {}
  for rank = 0, count_processes(context) - 1 do pids[rank + 1] = pid_of(context, rank) end
  return pids
end

-- Waits until all have ended well, or for so long.
function M.join_context(context, timeout)
  local seconds = timeout or 1 / 0
  if seconds ~= seconds then fail("ValueError", "join: timeout: got nan, expected seconds") end
  local stop, nap = now() + seconds, 2e-4
  while true do
    local all = true
    for rank = 0, count_processes(context) - 1 do
      local well, what, key, code, told = how_ended(context, rank)
      if what then blame(context, rank, what, key, code, told) end
      all = all and well
    end
    local left = stop - now()
    if all then end_all(context) end
    if all or left <= 0 then return all end
    sleep(nap < left and nap or left)
    if nap < 1e-2 then nap = 1.5 * nap end
  end
end

-- The number of arguments in the table, which may be one of table.pack.
local function count_args(args)
  if type(args) ~= "table" then refuse(args, "args", "an array of arguments") end
  local count = trees.packed_count(args)
  if not count then
    count = rawlen(args)
    if count > 0 then check_unnamed(args, count, "args") end
    if count == 0 and next(args) ~= nil then refuse(args, "args", "an array of arguments") end
  end
  if count > 200 then fail("ValueError", "spawn: args: got " .. count .. ", expected at most 200") end
  return count
end

function M.spawn(fn, nprocs, args, join, exe)
  local script, code = type(fn) == "string" and fn, type(fn) == "function" and dump(fn)
  if not script and not code then refuse(fn, "fn", "a function of Lua or the name of a script") end
  if nprocs < 1 or nprocs > 1024 then fail("ValueError", "spawn: nprocs: got " .. nprocs .. ", expected 1 to 1024") end
  args = args == nil and {} or args
  local count = count_args(args)
  local why = script and cannot_use(script, false)
  if why then fail("FileError", "spawn: " .. script .. ": " .. why .. ", expected a script") end
  exe = find_program(exe)
  local task = { script = script or nil, args = args, count = count, path = path_of "path", cpath = path_of "cpath" }
  if not script then task.upvalues, task.code = modules_of(fn), code end
  local context <close> = new_context(nprocs)
  for rank = 0, nprocs - 1 do write_task(context, task, rank) end
  for rank = 0, nprocs - 1 do
    why = start(context, rank, exe)
    if why then
      end_all(context)
      fail("FileError", "spawn: rank " .. rank .. ": " .. exe .. " could not be started: " .. why)
    end
  end
  if not join then return hand_out(context) end
  M.join_context(context)
end

-- ---- in the child ----

-- Runs the task. Nothing but the function holds its arguments while it runs.
function M.run_task(task, file)
  local package, globals = rawget(loaded(), "package"), rawget(loaded(), "_G")
  if type(package) == "table" then package.path, package.cpath = task.path or package.path, task.cpath or package.cpath end
  globals.arg = { [0] = task.script }
  local fn = load(task.script, task.code)
  for i, name in next, task.upvalues or {} do set_upvalue(fn, i, (globals.require(name))) end
  tell_begun(file)
  return fn(task.rank, unpack(task.args, 1, task.count))
end
