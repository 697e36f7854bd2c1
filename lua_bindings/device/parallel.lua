-- tide.parallel: trees of tensors over several devices, and the turns of a function's calls on them.
--
-- A tensor is cut along one dimension into as many parts as there are devices, by the rule of chunk, so a short one gives
-- fewer. Every tensor of a tree must give the same number, else a part would have no partner. Parts of the host's tensors
-- are sent one by one, as they are asked for: between them work can be queued.
--
-- Nothing starts a thread. Work on a device is queued and returns, so one thread that calls the function for each device
-- in turn keeps all of them busy. Each call, a replica, runs in a coroutine of its own, with its device as the current
-- one: whatever it selects is gone with it, also when it fails. A function that waits for its device (item, totable ...)
-- would keep the others from being issued. So before such a wait a replica yields `turn` and the next one runs; the wait
-- itself comes when all others wait too or have ended. Another yield of the function is passed on to whoever resumes the
-- caller.
--
-- Devices are numbers as core has them, -1 for the CPU; dim is as the script counts it.
--
-- Invariant: a replica that has started has ended, or is closed, when apply and data_parallel return or raise.

local M = ...
local trees = use "call/tree"
local current_device, device_size, device_object, read_device = use("device/parallel.c", "current_device", "device_size", "device_object", "read_device")
local move, side_stream, check_unnamed, join_side = use("device/parallel.c", "move", "side_stream", "check_unnamed", "join_side")
local traceback, close_thread, new_thread, is_turn = use("device/parallel_replica.c", "traceback", "close_thread", "new_thread", "is_turn")

-- After a collective the source's current stream goes on behind the copies, and the source's own part of the work with it.
-- So data_parallel lets a side stream of each source stand for it meanwhile, which waits for what was queued before; at the
-- end the current stream waits for it, and what is written to the source after that is ordered as ever. All is queued:
-- nothing here waits for a device, unless memory of the host takes part.

local dimensions, size_of, narrow, view, dtype_of = public("Tensor", "dim", "size", "narrow", "view", "type")
local cat = public("tide", "cat")
local on_stream = public("tide.cuda", "stream")
local send, send_all, collect = public("tide.cuda.comm", "scatter", "broadcast_coalesced", "gather")

-- ---- what is given ----

-- The devices in the order in which they take part: accelerators, each once, or the CPU alone; of nil every accelerator, or
-- the CPU where there is none.
local function check_devices(devices)
  if not devices then
    devices = {}
    local current, n = current_device()
    for i = 1, n do devices[i] = i - 1 end
    return n > 0 and devices or { current }
  end
  if #devices == 0 then reject("ValueError", "devices", "an empty list", "at least one device") end
  for i = 1, #devices do
    local d = devices[i]
    device_size(d) -- it is there
    for k = 1, i - 1 do
      local what = devices[k] == d and "twice" or (devices[k] < 0) ~= (d < 0) and "beside another kind of device"
      if what then
        reject("DeviceError", "devices", text(device_object(d)) .. " "
          .. what, "accelerators, each once, or the cpu alone")
      end
    end
  end
  return devices
end

-- Where results go: the option, of which -1 means the CPU as torch has it, or else that device.
local function check_output(device, name, otherwise)
  if device == nil then return otherwise end
  if device == -1 then return -1 end
  device = read_device(device, name)
  device_size(device)
  return device
end

local function check_dim(dim)
  if dim == 0 then fail("IndexError", called() .. ": dim: got 0; dimensions count from 1") end
end

local function check_tree(tree)
  if tree == nil then refuse(tree, "tree", "a tensor or a table of tensors") end
end

-- ---- cutting, copying whole ----

-- Elements of a dimension of `size` in each of the parts for n devices; the last part may have fewer.
local function part_size(size, n) return (size + n - 1) // n end

local function plan(tree, dim, devices)
  check_dim(dim)
  local n = #devices
  local cut = { tree = tree, dim = dim, devices = devices, sources = {}, sent = {} }
  trees.visit(tree, function(x, source)
    if dimensions(x) == 0 then
      fail("ShapeError", called() .. ": got a tensor without dimensions, expected ones that can be cut; pass it as a number, "
        .. "or let replicate= copy it")
    end
    local size = size_of(x, dim)
    local parts = size > 0 and part_size(size, part_size(size, n)) or n -- n empty parts, as torch has it
    if cut.n and cut.n ~= parts then
      fail("ShapeError", called() .. ": got a tensor of size " .. size .. " in dimension " .. dim .. ", which makes " .. parts
        .. " parts, expected " .. cut.n .. " as of the tensor before it")
    end
    cut.n = parts
    if source >= 0 then cut.sources[source] = true end
  end)
  cut.n = cut.n or n -- nothing to cut: every device gets what there is
  return cut
end

-- All parts of x at once, by the collective, on the side stream where there is one.
local function send_parts(cut, x, source)
  local side = cut.side and cut.side[source]
  if side then return on_stream(side, send, x, cut.devices, nil, cut.dim) end
  return send(x, cut.devices, nil, cut.dim)
end

local function part(cut, i)
  local device = cut.devices[i]
  return trees.copy(cut.tree, function(x, source)
    if device < 0 or source < 0 then
      local size = size_of(x, cut.dim)
      local each = part_size(size, #cut.devices)
      local start = each * (i - 1)
      return move(narrow(x, cut.dim, start + 1, size - start < each and size - start or each), device)
    end
    local parts = cut.sent[x]
    if not parts then
      parts = send_parts(cut, x, source)
      cut.sent[x] = parts
    end
    return parts[i]
  end)
end

local function moved(tree, device)
  return trees.copy(tree, function(x, source) return source == device and x or move(x, device) end)
end

local function replicate_to(tree, devices, n)
  local list, number = {}, {}
  local replicas = { moved(tree, devices[1]) }
  if n > 1 then
    trees.visit(replicas[1], function(x)
      list[#list + 1] = x
      number[x] = #list
    end)
  end
  local copies = #list > 0 and send_all(list, { unpack(devices, 1, n) }) -- small ones travel together
  for i = 2, n do replicas[i] = trees.copy(replicas[1], function(x) return copies[i][number[x]] end) end
  return replicas
end

-- Of each device with tensors that are sent on the stream that stands for its current one in the copies.
local function open_side(cut)
  local side = {}
  for source in next, cut.sources do
    for i = 1, cut.n do
      if cut.devices[i] >= 0 and cut.devices[i] ~= source then side[source] = side[source] or side_stream(source) end
    end
  end
  return side
end

-- ---- putting together ----

local function unlike(i, path, got, expected)
  reject("ArgumentError", "outputs[" .. i .. "]" .. path, got, expected)
end

-- Do they differ in the size of that dimension at most?
local function joins_to(first, x, dim)
  local n = dimensions(first)
  if dimensions(x) ~= n or dtype_of(x) ~= dtype_of(first) then return false end
  if n > 0 then size_of(first, dim) end -- raises where there is no such dimension
  for d = 1, n do
    if d ~= dim and d ~= dim + n + 1 and size_of(x, d) ~= size_of(first, d) then return false end
  end
  return true
end

local told_of_scalars

local function join_tensors(list, n, dim, device, path)
  for i = 2, n do
    if not device_of(list[i]) then unlike(i, path, describe(list[i]), "a tensor as in outputs[1]") end
    if not joins_to(list[1], list[i], dim) then
      reject("ShapeError", "outputs[" .. i .. "]" .. path, describe(list[i]), "one that joins to " .. describe(list[1]))
    end
  end
  if dimensions(list[1]) == 0 then
    if dim ~= 1 and dim ~= -1 then
      reject("IndexError", "dim", dim .. ", but outputs" .. path .. " have no dimensions", "1")
    end
    if not told_of_scalars then
      told_of_scalars = true
      warn(called() .. ": outputs" .. path .. " have no dimensions and become a vector of one element for each device")
    end
    for i = 1, n do list[i] = view(list[i], 1) end
  end
  if device_of(list[1]) >= 0 then return collect(list, dim, device < 0 and "cpu" or device) end
  return move(cat(list, dim), device, true) -- the collective is for accelerators
end

local join_trees

local function join_tables(list, n, dim, device, path)
  local result = {}
  local tables = {}
  for i = 1, n do tables[i] = plain_shape(list[i]) end
  local i, keys, expected = trees.other_table(tables, n)
  if keys then unlike(i, path, keys .. " keys", expected .. " as in outputs[1]") end
  if i then unlike(i, path, describe(list[i]), "a table as in outputs[1]") end
  for key in next, tables[1] do
    local below = path .. (type(key) == "string" and "." .. key or "[" .. text(key) .. "]")
    local column, missing = trees.get_column(tables, key, n)
    if missing then unlike(missing, below, "nothing", "one as in outputs[1]") end
    result[key] = join_trees(column, n, dim, device, below)
  end
  return setmeta(result, getmeta(tables[1]))
end

-- One value for the n values of the list: the tensors in it joined along dim on the device.
function join_trees(list, n, dim, device, path)
  local first = list[1]
  if device_of(first) then return join_tensors(list, n, dim, device, path) end
  if type(first) == "table" then return join_tables(list, n, dim, device, path) end
  if first ~= nil then unlike(1, path, describe(first), "tensors or tables of them; a number can be given as a tensor") end
  for i = 2, n do
    if list[i] ~= nil then unlike(i, path, describe(list[i]), "nothing as in outputs[1]") end
  end
end

-- ---- the replicas ----

-- The arguments that a value means: the values of an array (with those of table.pack the nils too), else itself.
local function spread(value)
  if value == nil then return end
  if type(value) ~= "table" or getmeta(value) then return value end
  local packed = trees.packed_count(value)
  local n = packed or #value
  if n == 0 and not packed and next(value) ~= nil then return value end -- named values alone are one argument
  if n > 200 then reject("ValueError", "inputs", n .. " arguments for one call", "at most 200") end
  if n > 0 and not packed then check_unnamed(value, n, "inputs") end
  return unpack(value, 1, n)
end

local function pack(...) return { n = count(...), ... } end

-- Raises the error of replica i under its name. Its coroutine's stack is still there for a plain message's traceback.
local function blame(what, i, device, co, e)
  local head = what .. ": replica " .. i .. " (" .. (device < 0 and "cpu" or "cuda:" .. device) .. "): "
  if is_error(e) then
    local named = {}
    for key, value in next, e do named[key] = value end
    named.message = head .. named.message
    named.replica = i
    if named.device == nil then named.device = device_object(device) end
    throw(setmeta(named, getmeta(e)))
  end
  if type(e) == "string" or type(e) == "number" then throw(head .. e .. "\n" .. traceback(co, e)) end
  throw(e)
end

-- Calls begin(i), which gives a function and its arguments, on devices[i] for i to n, and finish with the table of what
-- each call gave, of which the values are from 2 to n. `side`: the side streams, which end then, or nil.
local function run(what, devices, n, side, begin, finish)
  local threads, results, left, i = {}, {}, n, 0
  local function close()
    for k = 1, n do
      if threads[k] then close_thread(threads[k]) end
    end
    for source, stream in next, side or {} do join_side(source, stream) end
  end
  local _ <close> = setmeta({}, { __close = close })
  while left > 0 do
    i = i % n + 1
    local co, out = threads[i], nil
    if co then
      out = pack(resume(co))
    elseif co == nil then
      local call = pack(begin(i))
      co = new_thread(devices[i], n > 1, call[1])
      threads[i] = co
      out = pack(resume(co, unpack(call, 2, call.n)))
    end
    while out do
      if not out[1] then blame(what, i, devices[i], co, out[2]) end
      if has_ended(co) then
        threads[i], results[i], left, out = false, out, left - 1, nil
      elseif out.n == 2 and is_turn(out[2]) then
        out = nil
      else
        out = pack(resume(co, yield(unpack(out, 2, out.n))))
      end
    end
  end
  return finish(results)
end

-- ---- what scripts call ----

function M.scatter(tree, devices, dim)
  check_tree(tree)
  local cut, parts = plan(tree, dim, check_devices(devices)), {}
  for i = 1, cut.n do parts[i] = part(cut, i) end
  return parts
end

function M.replicate(tree, devices)
  check_tree(tree)
  devices = check_devices(devices)
  return replicate_to(tree, devices, #devices)
end

function M.gather(outputs, device, dim)
  if type(outputs) ~= "table" then refuse(outputs, "outputs", "a table of what each device gave") end
  local list, n = {}, rawlen(outputs)
  if n == 0 then fail("ValueError", "gather: outputs: got an empty table, expected at least one value") end
  device = check_output(device, "device", (current_device()))
  check_dim(dim)
  for i = 1, n do list[i] = rawget(outputs, i) end
  return join_trees(list, n, dim, device, "")
end

function M.apply(fns, inputs, devices)
  local single = trees.is_callable(fns)
  if not single and type(fns) ~= "table" then refuse(fns, "fns", "a function or a table of functions") end
  if type(inputs) ~= "table" then refuse(inputs, "inputs", "a table with the arguments of each function") end
  local n = rawlen(inputs)
  local function check_number(what, got)
    if got ~= n then
      fail("ArgumentError", "apply: " .. what .. ": got " .. got .. ", expected " .. n .. ", one for each input")
    end
  end
  if not single then
    check_number("fns", rawlen(fns))
    for i = 1, n do
      local fn = rawget(fns, i)
      if not trees.is_callable(fn) then
        fail("ArgumentError", "apply: fns[" .. i .. "]: got " .. describe(fn) .. ", expected a function")
      end
    end
  end
  local on = devices and check_devices(devices) or {} -- else those of the inputs
  if devices then check_number("devices", #devices) end
  local otherwise = current_device()
  for i = 1, devices and 0 or n do
    trees.visit(rawget(inputs, i), function(_, device) on[i] = on[i] or device end)
    on[i] = on[i] or otherwise
  end
  local function begin(i) return single and fns or rawget(fns, i), spread(rawget(inputs, i)) end
  return run("apply", on, n, nil, begin, function(results)
    local outputs = {}
    for i = 1, n do
      local r = results[i]
      if r.n > 2 then outputs[i] = { unpack(r, 2, r.n) } else outputs[i] = r[2] end
    end
    return outputs
  end)
end

-- A device that is much smaller than another one makes the others wait: said once for each.
local told_of_size = {}

local function warn_of_imbalance(devices)
  local size, largest, owner = { memory = {}, processors = {} }, { memory = -1, processors = -1 }, {}
  for i = 1, #devices do
    local d = devices[i]
    size.memory[d], size.processors[d] = device_size(d)
    if d < 0 then return end
    for what, of in next, size do
      if of[d] > largest[what] then largest[what], owner[what] = of[d], d end
    end
  end
  for i = 1, #devices do
    local d = devices[i]
    local what = size.memory[d] < 0.75 * largest.memory and "memory"
      or size.processors[d] < 0.75 * largest.processors and "processors"
    if what and not told_of_size[d] then
      told_of_size[d] = true
      warn("data_parallel: cuda:" .. d .. " has less than 75% of the " .. what .. " of cuda:" .. owner[what]
        .. " and will keep the others waiting; devices= can leave it out")
    end
  end
end

-- tree: what each call gets a replica of before its arguments, or nil; a table that is called is its own.
function M.data_parallel(fn, inputs, devices, dim, output_device, tree)
  if not trees.is_callable(fn) then refuse(fn, "fn", "a function, or a table that can be called") end
  devices = check_devices(devices)
  output_device = check_output(output_device, "output_device", devices[1])
  warn_of_imbalance(devices)
  local cut = plan(inputs, dim, devices)
  local is_module = tree == nil and type(fn) == "table"
  if is_module then tree = fn end
  local replicas = tree ~= nil and replicate_to(tree, devices, cut.n)
  cut.side = open_side(cut)
  local function begin(i)
    if is_module then return replicas[i], spread(part(cut, i)) end
    if replicas then return fn, replicas[i], spread(part(cut, i)) end
    return fn, spread(part(cut, i))
  end
  return run("data_parallel", devices, cut.n, cut.side, begin, function(results)
    local most, joined = 0, {}
    for i = 1, cut.n do most = results[i].n - 1 > most and results[i].n - 1 or most end
    for k = 1, most do
      local list = {}
      for i = 1, cut.n do list[i] = results[i][k + 1] end
      if #devices > 1 then
        joined[k] = join_trees(list, cut.n, dim, output_device, "")
      else
        joined[k] = moved(list[1], output_device)
      end
    end
    return unpack(joined, 1, most)
  end)
end
