-- tide.cuda.make_graphed_callables: functions of tensors turned into graphs.
--
-- Each function is called a few times on a side stream, so that whatever it does once only is done, and then captured with
-- copies of the sample arguments. What comes of it is a closure of C, which copies its arguments over those copies, replays,
-- and gives the tensors that the capture gave. Functions of one list share one pool, so they are to be called in its order.
--
-- Invariant: nothing of the user's is overwritten: the static inputs are copies.

local M = ...
local trees = use "call/tree"
local current_device, side_stream = use("device/parallel.c", "current_device", "side_stream")
local new_graph, replayer, check_pool = use("device/graphed.c", "new_graph", "replayer", "check_pool")
local clone = public("Tensor", "clone")
local on_stream, synchronize, capture, new_pool = public("tide.cuda", "stream", "synchronize", "graph", "graph_pool_handle")

local function pack(...) return { n = count(...), ... } end

-- Copies of the sample arguments of function number i.
local function copy_samples(args, i)
  local where = "make_graphed_callables: sample_args[" .. i .. "]"
  if type(args) ~= "table" then
    fail("ArgumentError", where .. ": got " .. describe(args) .. ", expected a table of tensors")
  end
  local inputs = {}
  for k = 1, rawlen(args) do
    local x = rawget(args, k)
    if (device_of(x) or -1) < 0 then
      fail("ArgumentError", where .. "[" .. k .. "]: got " .. describe(x) .. ", expected a tensor of a cuda device")
    end
    inputs[k] = clone(x)
  end
  return inputs
end

-- The side stream is of the device that the arguments are on: work on another one would be executed during the capture,
-- and in no replay.
local function graphed(fn, args, i, warmups, pool)
  if not trees.is_callable(fn) then
    fail("ArgumentError", "make_graphed_callables: callables[" .. i .. "]: got " .. describe(fn) .. ", expected a function")
  end
  local inputs = copy_samples(args, i)
  local device = inputs[1] and device_of(inputs[1]) or (current_device())
  local side = side_stream(device)
  local function run() return call(fn, unpack(inputs, 1, #inputs)) end
  on_stream(side, function()
    for _ = 1, warmups do run() end
  end)
  synchronize(device)
  local graph = new_graph()
  return replayer(graph, inputs, capture(graph, { pool = pool, stream = side }, function() return pack(run()) end))
end

function M.make_graphed_callables(callables, samples, warmups, pool)
  local single = trees.is_callable(callables)
  if not single and type(callables) ~= "table" then
    refuse(callables, "callables", "a function or a table of functions")
  end
  if type(samples) ~= "table" then refuse(samples, "sample_args", "a table of tensors, one for each function") end
  local n = rawlen(callables)
  if not single and rawlen(samples) ~= n then
    fail("ArgumentError", "make_graphed_callables: sample_args: got " .. rawlen(samples) .. " tables, expected " .. n
      .. ", one a function")
  end
  if pool == nil then pool = new_pool() else check_pool(pool) end
  if single then return graphed(callables, samples, 1, warmups, pool) end
  local list = {}
  for i = 1, n do list[i] = graphed(rawget(callables, i), rawget(samples, i), i, warmups, pool) end
  return list
end
