-- tide.kernel.interpret: a kernel's function run by plain Lua, place after place, as the oracle of kernels.
--
-- Tensors among the arguments, in upvalues and in tables and globals that are reached from there become boxes
-- (words.lua) over copies of their values for as long as the function runs. Afterwards what it has written is
-- copied back. Upvalues are exchanged and put back; tables are not touched: the function sees one in front of them.
--
-- Places run one after the other. Where the function turns out to have words for which the threads of a block must be
-- there together, everything begins again with a coroutine for each thread: they yield what they want (barrier, sums), and
-- go on when all that have not ended want the same.
--
-- Invariant: whatever ends the run, upvalues hold what they held, and after an error no tensor has been written to.

local M = ...
local words = use "kernel/words"
local dtype_name = use("kernel/specialize.c", "dtype_name")
local builtin, dtype_of, sizes_of, is_tensor, plain = use("tensor/compose.c", "builtin", "dtype_of", "sizes_of", "is_tensor", "plain")
local is_lua, set_upvalue, kernel_thread, function_of, parameter = use("kernel/oracle.c", "is_lua", "set_upvalue", "kernel_thread", "function_of", "parameter")
local to_cpu, totable, tensor, copy_, view, numel, reshape = builtin("cpu", "totable", "tensor", "copy_", "view", "numel", "reshape")

-- {==== What the function sees

-- The values of a tensor in one list, row by row.
local function values_of(x)
  if numel(x) == 0 then return {} end
  local flat = reshape(to_cpu(x), -1)
  return totable(flat)
end

local function note_float(run, dtype)
  if dtype == "float64" then run.float = "float64" end
end

-- Tensors become boxes, once each; those without dimensions are boxes of one place, which no index reaches.
local function boxed(run, x, name)
  local known = run.boxes[x]
  if known then return known end
  local dtype, kind = dtype_of(x)
  if kind == "C" then
    fail("DtypeError", "interpret: " .. name .. ": dtype not accepted, got " .. dtype .. ", expected real numbers, integers or bool")
  end
  if not run.set_float then note_float(run, dtype) end
  local box, root = words.new_box(dtype, sizes_of(x), values_of(x), name)
  run.boxes[x] = box
  run.list[#run.list + 1] = { x = x, box = box, root = root }
  return box
end

local see_function

-- Is it a list of numbers, or of lists of them? Nothing in it is seen otherwise.
local function is_numbers(t)
  local first = rawget(t, 1)
  if type(first) == "table" then first = rawget(first, 1) end
  return rawlen(t) > 0 and not is_tensor(first) and (type(first) == "number" or is_integer(first))
end

local function is_shown(value) return type(value) == "table" and getmeta(value) == nil and not is_numbers(value) end

-- A table in front of another one, which shows what is in that as a kernel sees it.
local function front(run, t)
  local known = run.fronts[t]
  if known then return known end
  local seen = {}
  run.fronts[t] = seen
  local function show(key, value)
    if is_tensor(value) then return boxed(run, value, text(key)) end
    if type(value) == "function" then see_function(run, value) end
    return is_shown(value) and front(run, value) or value
  end
  for k = 1, rawlen(t) do seen[k] = show(k, rawget(t, k)) end -- it is as long as the other
  return setmeta(seen, {
    __index = function(_, key) return show(key, t[key]) end,
    __newindex = function(_, key)
      fail("ArgumentError", "kernel: '" .. text(key) .. "': a kernel assigns no global and no field of a table, expected a local or a tensor")
    end,
  })
end

local function see_value(run, value, name)
  if is_tensor(value) then return boxed(run, value, name) end
  if type(value) == "function" then see_function(run, value) end
  if type(value) == "table" and name == "_ENV" or is_shown(value) then return front(run, value) end
  return value
end

-- The upvalues of a function of Lua, and of those it calls.
see_function = function(run, f)
  if run.functions[f] or not is_lua(f) then return end
  run.functions[f] = true
  local i = 1
  local name, value = upvalue(f, i)
  while name do
    if not run.replaced[value] then
      local seen = see_value(run, value, name)
      if seen ~= value and type(seen) == "table" then
        run.changes[#run.changes + 1] = { f, i, value }
        run.replaced[seen] = true
        set_upvalue(f, i, seen)
      end
    end
    i = i + 1
    name, value = upvalue(f, i)
  end
end

local function put_back(run)
  for k = #run.changes, 1, -1 do
    local c = run.changes[k]
    set_upvalue(c[1], c[2], c[3])
  end
  run.changes, run.functions, run.replaced = {}, {}, setmeta({}, { __mode = "k" })
end

-- {==== Places

-- Calls visit(place) for each place of the grid, the last dimension fastest.
local function each_place(sizes, visit)
  local n = #sizes
  for i = 1, sizes[1] do
    for j = 1, sizes[2] or 1 do
      for k = 1, sizes[3] or 1 do visit { i, n > 1 and j or nil, n > 2 and k or nil } end
    end
  end
end

-- How many values each place returns: the same number everywhere.
local function keep(run, at, n, ...)
  if run.results and run.results ~= n then
    fail("ArgumentError", "kernel: it returns " .. n .. " values at one place and " .. run.results .. " at another, expected one number of values")
  end
  run.results = n
  local list = { ... }
  for k = 1, n do
    run.values[k] = run.values[k] or {}
    run.values[k][at] = list[k]
    if type(list[k]) ~= "number" and type(list[k]) ~= "boolean" and not is_integer(list[k]) then
      fail("ArgumentError", "kernel: result " .. k .. ": got " .. describe(list[k]) .. ", expected a number or a boolean")
    end
  end
end

local function arguments_at(run, place)
  local list = {}
  for d = 1, #place do list[d] = place[d] end
  for k = 1, run.n do list[#place + k] = run.args[k] end
  return list, #place + run.n
end

local function call_at(run, place, at)
  local list, n = arguments_at(run, place)
  local function kept(...) return keep(run, at, count(...), ...) end
  kept(run.fn(unpack(list, 1, n)))
end

-- Sets where the running thread is, from its place.
local function set_words(run, now, place)
  run.place = place
  for d = 1, #place do
    local b = run.block[d]
    now.thread[d], now.block[d] = (place[d] - 1) % b + 1, (place[d] - 1) // b + 1
  end
  now.made = 0
end

local function new_words(run, is_threads)
  return { thread = {}, block = {}, block_size = run.block, float = run.float, is_threads = is_threads, arrays = {}, made = 0, epoch = 0 }
end

local function run_places(run)
  local now, at = new_words(run, false), 0
  local before = words.run_block(now)
  local ok, e = try(each_place, run.sizes, function(place)
    at = at + 1
    set_words(run, now, place)
    call_at(run, place, at)
  end)
  words.run_block(before)
  return ok, e
end

-- {==== Blocks of coroutines

-- Lets a thread run until it wants something: its want is {word, value}, or nil when it has ended.
local function go_on(run, now, t, ...)
  set_words(run, now, t.place)
  now.made, now.number = t.made, t.number
  local function asked(ok, word, value)
    if not ok then throw(word) end
    t.made = now.made
    t.word, t.value = nil, nil
    if not has_ended(t.co) then t.word, t.value = word, value end
    t.ended = t.word == nil
  end
  asked(resume(t.co, ...))
end

-- The sum of what the threads have asked with, warp by warp as kernels add.
local function sum_of(threads, first, last)
  local sum, parts = 0, 0
  for k = first, last do
    local t = threads[k]
    if t and not t.ended then parts = parts + t.value end
    if k % 32 == 0 or k == last then sum, parts = sum + parts, 0 end
  end
  return sum
end

-- Do all threads of that range that have not ended want the word? How many want anything is the second result.
local function all_want(threads, first, last, word)
  local wanting = 0
  for k = first, last do
    local t = threads[k]
    if t and not t.ended then
      wanting = wanting + 1
      if t.word ~= word then return false, wanting end
    end
  end
  return wanting > 0, wanting
end

local function release(run, now, threads, first, last, value)
  for k = first, last do
    local t = threads[k]
    if t and not t.ended then go_on(run, now, t, value) end
  end
end

-- Lets those go on whose want can be met; false: nobody's can.
local function meet(run, now, threads, size)
  for first = 1, size, 32 do
    local last = first + 31 < size and first + 31 or size
    if all_want(threads, first, last, "warp_sum") then
      release(run, now, threads, first, last, sum_of(threads, first, last))
      return true
    end
  end
  for _, word in next, { "barrier", "block_sum" } do
    if all_want(threads, 1, size, word) then
      now.epoch = now.epoch + 1
      release(run, now, threads, 1, size, word == "block_sum" and sum_of(threads, 1, size) or nil)
      return true
    end
  end
  return false
end

local function run_threads(run, now, threads, size)
  for k = 1, size do
    local t = threads[k]
    if t then go_on(run, now, t) end
  end
  while meet(run, now, threads, size) do end
  for k = 1, size do
    local t = threads[k]
    if t and not t.ended then
      fail("StateError", "kernel: the threads of a block wait for each other at different places, got " .. t.word
        .. " that not all of them come to, expected the same words in all")
    end
  end
end

-- The number of a place from 1, the last dimension fastest.
local function number_of(sizes, place)
  local at = 0
  for d = 1, #sizes do at = at * sizes[d] + place[d] - 1 end
  return at + 1
end

local function new_thread_at(run, place, number)
  local at = number_of(run.sizes, place)
  return { place = place, number = number, made = 0, ended = false, co = kernel_thread(function() call_at(run, place, at) end) }
end

local function run_blocks(run)
  local size, counts = 1, {}
  for d = 1, #run.sizes do
    size = size * run.block[d]
    counts[d] = (run.sizes[d] + run.block[d] - 1) // run.block[d]
  end
  local before = words.run_block(nil)
  local ok, e = try(each_place, counts, function(block)
    local now, threads, at = new_words(run, true), {}, 0
    words.run_block(now)
    each_place(run.block, function(inner)
      local place, inside = {}, true
      at = at + 1
      for d = 1, #inner do
        place[d] = (block[d] - 1) * run.block[d] + inner[d]
        inside = inside and place[d] <= run.sizes[d]
      end
      threads[at] = inside and new_thread_at(run, place, at) or false
    end)
    run_threads(run, now, threads, size)
  end)
  words.run_block(before)
  return ok, e
end

-- {==== The call

local function read_grid(grid)
  local list = type(grid) == "table" and plain(grid) or { grid }
  local n = rawlen(list)
  if n < 1 or n > 3 then fail("ArgumentError", "interpret: grid: got " .. describe(grid) .. ", expected a number or up to three sizes") end
  local sizes = {}
  for d = 1, n do
    sizes[d] = rawget(list, d)
    if not is_integer(sizes[d]) or sizes[d] < 0 then refuse(sizes[d], "grid", "integers of at least 0") end
  end
  return sizes
end

local keys = { out = true, block = true, float = true, reduce = true }
local reductions = { sum = "sum", prod = "prod", min = "amin", max = "amax" }

local function read_options(last)
  if type(last) ~= "table" or getmeta(last) ~= nil or rawlen(last) > 0 then return nil end
  for key in next, last do
    if not keys[key] then fail("ArgumentError", "interpret: unknown option '" .. text(key) .. "', expected block, float, out or reduce") end
  end
  if last.reduce ~= nil and not reductions[last.reduce] then refuse(last.reduce, "reduce", "'sum', 'prod', 'min' or 'max'") end
  return last
end

local function read_block(option, n)
  local block = { n == 1 and 256 or 1, n == 2 and 256 or n == 3 and 1 or nil, n == 3 and 256 or nil }
  if type(option) == "table" then
    for d = 1, n do block[d] = rawget(option, d) end
  elseif option ~= nil then
    block[n] = option
  end
  for d = 1, n do
    if not is_integer(block[d]) or block[d] < 1 then refuse(block[d], "block", "threads of a block, integers of at least 1") end
  end
  return block
end

local function read_function(fn)
  if type(fn) == "string" then fn = function_of(fn) end
  if not is_lua(fn) then refuse(fn, "fn", "a function of Lua or the text of one") end
  return fn
end

local function new_run(fn, grid, options, n, args)
  local run = { fn = read_function(fn), sizes = read_grid(grid), n = n, given = args, options = options or {} }
  run.block = read_block(run.options.block, #run.sizes)
  if run.options.float ~= nil then
    run.set_float = true
    local float = dtype_name(run.options.float, "float")
    if float ~= "float32" and float ~= "float64" then fail("DtypeError", "interpret: float: got " .. float .. ", expected float32 or float64") end
    run.options_float = float
  end
  return run
end

-- Everything that a run changes, before it.
local function prepare(run)
  run.boxes, run.list, run.fronts, run.functions = {}, {}, {}, {}
  run.changes, run.replaced = {}, setmeta({}, { __mode = "k" })
  run.values, run.results, run.args, run.float = {}, nil, {}, run.options_float or "float32"
  for k = 1, run.n do
    local value = run.given[k]
    local name = parameter(run.fn, #run.sizes + k) or "argument " .. k
    if is_tensor(value) then
      run.args[k] = boxed(run, value, name)
    elseif type(value) == "number" or type(value) == "boolean" or is_integer(value) or plain_shape(value) ~= value then
      run.args[k] = value
    else
      refuse(value, name, "a tensor, a number or a boolean")
    end
  end
  see_function(run, run.fn)
end

-- One tensor of the grid's shape of what the places have returned.
local function result_of(run, values, total)
  local integers, floats, booleans = 0, 0, 0
  for i = 1, total do
    local v = values[i]
    if type(v) == "boolean" then booleans = booleans + 1 elseif is_integer(v) then integers = integers + 1 else floats = floats + 1 end
  end
  if booleans > 0 and booleans < total then
    fail("ArgumentError", "kernel: it returns booleans at some places and numbers at others, expected one of them")
  end
  local dtype = booleans > 0 and "bool" or floats > 0 and run.float or "int64"
  return view(tensor(values, { dtype = dtype }), run.sizes)
end

-- Values as tensors of a dtype, of these sizes.
local function as_tensor(x, values)
  local host = tensor(values, { dtype = (dtype_of(x)) })
  return view(host, sizes_of(x))
end

local function write_back(run)
  for k = 1, #run.list do
    local entry = run.list[k]
    if entry.root.written and #entry.root.values > 0 then copy_(entry.x, as_tensor(entry.x, entry.root.values)) end
  end
end

local function results_of(run)
  local total, list, out = 1, {}, run.options.out
  for d = 1, #run.sizes do total = total * run.sizes[d] end
  for k = 1, run.results or 0 do
    local x = result_of(run, run.values[k], total)
    if run.options.reduce then x = builtin(reductions[run.options.reduce])(x) end
    local into = out ~= nil and (is_tensor(out) and k == 1 and out or type(out) == "table" and rawget(out, k)) or nil
    list[k] = into and copy_(into, x) or x
  end
  return unpack(list, 1, #list)
end

-- Adds the place to an error that Lua raised in the function.
local function with_place(e, place)
  return type(e) == "string" and place and e .. " (at the place " .. join(place, ", ") .. ")" or e
end

-- tide.kernel.interpret(fn, grid, ... [, {block=, float=, out=, reduce=}]); of a kernel, made is what kernel/kernel.lua keeps of it.
function M.run(made, fn, grid, ...)
  local n, args, options = count(...), { ... }, {}
  local given = n > 0 and read_options(args[n]) or nil
  if given then n = n - 1 end
  if made then fn, options = made.source.fn or made.source.text, { block = made.block, float = made.float, reduce = made.reduce } end
  for key, value in next, given or {} do options[key] = value end
  local run = new_run(fn, grid, options, n, args)
  local function attempt(how)
    local ok, e = try(function()
      prepare(run)
      local done, failure = how(run)
      if not done then throw(failure) end
    end)
    put_back(run)
    return ok, e
  end
  local ok, e = attempt(run_places)
  if not ok and e == words.needs_threads then ok, e = attempt(run_blocks) end
  if not ok then throw(with_place(e, run.place)) end
  write_back(run)
  return results_of(run)
end

