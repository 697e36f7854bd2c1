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

-- ---- cutting, copying whole ----

local function plan(tree, dim, devices)
  local cut = { tree = tree, dim = dim, devices = devices, sources = {}, sent = {} }
  visit(tree, function(x, source)
    local parts, size = count_parts(x, dim, #devices)
    if cut.n and cut.n ~= parts then
      fail("ShapeError", called() .. ": got a tensor of size " .. size .. " in dimension " .. dim .. ", which makes " .. parts
        .. " parts, expected " .. cut.n .. " as of the tensor before it")
    end
    cut.n = parts
    if source >= 0 then cut.sources[source] = true end
  end)
  cut.n = cut.n or #devices -- nothing to cut: every device gets what there is
  return cut
end

local function part(cut, i)
  local device = cut.devices[i]
  return copy(cut.tree, function(x, source)
    if device < 0 or source < 0 then return send_part(x, cut.dim, #cut.devices, i, device) end
    local parts = cut.sent[x] -- all at once, by the collective
    if not parts then
      parts = send_parts(x, cut.dim, cut.devices, cut.n, cut.side)
      cut.sent[x] = parts
    end
    return parts[i]
  end)
end

local function moved(tree, device)
  return copy(tree, function(x, source) return source == device and x or move(x, device) end)
end

local function replicate_to(tree, devices, n)
  local list, number = {}, {}
  local replicas = { moved(tree, devices[1]) }
  if n > 1 then
    visit(replicas[1], function(x)
      list[#list + 1] = x
      number[x] = #list
    end)
  end
  local copies = #list > 0 and send_copies(list, devices, n) -- small ones travel together
  for i = 2, n do replicas[i] = copy(replicas[1], function(x) return copies[i][number[x]] end) end
  return replicas
end

-- ---- putting together ----

local function refuse(i, path, got, expected)
  fail("ArgumentError", called() .. ": outputs[" .. i .. "]" .. path .. ": got " .. got .. ", expected " .. expected)
end

local told_of_scalars

local function join_tensors(list, n, dim, device, path)
  for i = 2, n do
    if not device_of(list[i]) then refuse(i, path, describe(list[i]), "a tensor as in outputs[1]") end
    if not joins_to(list[1], list[i], dim) then
      fail("ShapeError", called() .. ": outputs[" .. i .. "]" .. path .. ": got " .. describe(list[i])
        .. ", expected one that joins to " .. describe(list[1]))
    end
  end
  if dimensions(list[1]) == 0 then
    if dim ~= 1 and dim ~= -1 then
      fail("IndexError", called() .. ": dim: got " .. dim .. ", but outputs" .. path .. " have no dimensions, expected 1")
    end
    if not told_of_scalars then
      told_of_scalars = true
      warn(called() .. ": outputs" .. path .. " have no dimensions and become a vector of one element for each device")
    end
  end
  return join(list, n, dim, device)
end

local join_trees

local function join_tables(list, n, dim, device, path)
  local result = {}
  local tables = plain_list(list, n)
  local i, keys, expected = other_table(tables, n)
  if keys then refuse(i, path, keys .. " keys", expected .. " as in outputs[1]") end
  if i then refuse(i, path, describe(list[i]), "a table as in outputs[1]") end
  for key in next, tables[1] do
    local below = path .. (type(key) == "string" and "." .. key or "[" .. text(key) .. "]")
    local column, missing = get_column(tables, key, n)
    if missing then refuse(missing, below, "nothing", "one as in outputs[1]") end
    result[key] = join_trees(column, n, dim, device, below)
  end
  return setmeta(result, getmeta(tables[1]))
end

-- One value for the n values of the list: the tensors in it joined along dim on the device.
function join_trees(list, n, dim, device, path)
  local first = list[1]
  if device_of(first) then return join_tensors(list, n, dim, device, path) end
  if type(first) == "table" then return join_tables(list, n, dim, device, path) end
  if first ~= nil then refuse(1, path, describe(first), "tensors or tables of them; a number can be given as a tensor") end
  for i = 2, n do
    if list[i] ~= nil then refuse(i, path, describe(list[i]), "nothing as in outputs[1]") end
  end
end

-- ---- the replicas ----

-- The n of table.pack; nil where there is none, or other names beside it, of which it is then one.
local function packed_count(list)
  if not is_integer(list.n) then return end
  for key in next, list do
    if type(key) == "string" and key ~= "n" then return end
  end
  return list.n
end

-- The arguments that a value means: the values of an array (with those of table.pack the nils too), else itself.
local function spread(value)
  if value == nil then return end
  if type(value) ~= "table" or getmeta(value) then return value end
  local n, packed = #value, packed_count(value)
  if packed and packed > n then n = packed end
  if n == 0 and not packed and next(value) ~= nil then return value end -- named values alone are one argument
  if n > 200 then fail("ValueError", called() .. ": inputs: got " .. n .. " arguments for one call, expected at most 200") end
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
-- each call gave, of which the values are from 2 to n. `side`: what lets the side streams end, or nil.
local function run(what, devices, n, side, begin, finish)
  local threads, results, left, i = {}, {}, n, 0
  local function close()
    for k = 1, n do
      if threads[k] then close_thread(threads[k]) end
    end
    if side then join_side(side) end
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

-- ---- what scripts call, with what has been read of their arguments ----

function scatter(tree, devices, dim)
  local cut, parts = plan(tree, dim, devices), {}
  for i = 1, cut.n do parts[i] = part(cut, i) end
  return parts
end

function replicate(tree, devices) return replicate_to(tree, devices, #devices) end

function gather(outputs, n, dim, device)
  local list = {}
  for i = 1, n do list[i] = rawget(outputs, i) end
  return join_trees(list, n, dim, device, "")
end

-- fns: a function, or a table of them where `many` says so. devices: given, or nil for those of the inputs, `otherwise`
-- where one has no tensor.
function apply(fns, many, inputs, devices, otherwise)
  local n, on = rawlen(inputs), devices or {}
  for i = 1, devices and 0 or n do
    visit(rawget(inputs, i), function(_, device) on[i] = on[i] or device end)
    on[i] = on[i] or otherwise
  end
  local function begin(i) return many and rawget(fns, i) or fns, spread(rawget(inputs, i)) end
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
    if not size.memory[d] then return end
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
function data_parallel(fn, inputs, devices, dim, output_device, tree)
  warn_of_imbalance(devices)
  local cut = plan(inputs, dim, devices)
  local is_module = tree == nil and type(fn) == "table"
  if is_module then tree = fn end
  local replicas = tree ~= nil and replicate_to(tree, devices, cut.n)
  cut.side = open_side(cut.sources, devices, cut.n)
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
