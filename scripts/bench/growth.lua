-- growth.lua: how the time of a call grows with the number of elements: ten operations over 1 to 2^30 float32 (2^26 on
-- the CPU), results allocated. The peer is growth_torch.py; growth_picture.lua draws what both print.
--
--   growth.lua [--device cuda|cpu] [--last 30]     prints `tide <tab> growth_NAME_2^K <tab> us <tab> us`
--
-- A time is the mean of calls that fill 20 ms, at least 3, until all are done: where calls are short it is
-- what a call costs the host or the device, whichever is more; where they are long it is the device's. The median of 3.
local tide = require "tide"
tide.manual_seed(1)
package.path = arg[0]:match("^(.-)[^/]*$") .. "?.lua;" .. package.path
local bench = require "bench"

local on_gpu = tide.cuda.is_available()
local args = tide.cmdline("How the time of a call grows")
  :option("device", on_gpu and "cuda" or "cpu", "cuda or cpu")
  :option("last", on_gpu and 30 or 26, "the largest size, as a power of two")
  :parse(arg)
local sync = args.device == "cpu" and function() end or tide.cuda.synchronize
local real = {device = args.device}

-- What makes a call over n = 2^k elements. The peer's list has the same names in the same order.
local operations = {
  {"add", function(n) local x, y = tide.randn(n, real), tide.randn(n, real) return function() return x + y end end},
  {"exp", function(n) local x = tide.randn(n, real) return function() return x:exp() end end},
  {"sum", function(n) local x = tide.randn(n, real) return function() return x:sum() end end},
  {"transpose", function(n, k)
    local x = tide.randn(1 << k // 2, n >> k // 2, real):t()
    return k > 0 and function() return x:contiguous() end or nil -- one element is contiguous
  end},
  {"normal_", function(n) local x = tide.empty(n, real) return function() return x:normal_() end end},
  {"gather", function(n)
    local x, at = tide.randn(n, real), tide.randint(1, n + 1, {n}, {device = args.device, dtype = "int64"})
    return function() return x:gather(1, at) end
  end},
  {"cumsum", function(n) local x = tide.randn(n, real) return function() return x:cumsum(1) end end},
  {"softmax", function(n)
    local x = tide.randn(math.max(1, n >> 10), math.min(n, 1024), real)
    return function() return x:softmax(2) end
  end},
  {"sort", function(n) local x = tide.randn(n, real) return function() return x:sort(1) end end},
  {"matmul", function(n, k)
    local m = 1 << k // 2
    local x, y = tide.randn(m, m, real), tide.randn(m, m, real)
    return k <= 28 and function() return x:matmul(y) end or nil -- 2^28: 16384 x 16384
  end},
}

local function microseconds(call)
  local function loop(n)
    sync()
    local t0 = bench.now()
    for _ = 1, n do call() end
    sync()
    return (bench.now() - t0) / n
  end
  loop(1)
  local n = math.max(3, math.min(5000, math.ceil(0.02 / loop(3))))
  return bench.median{loop(n), loop(n), loop(n)} * 1e6
end

for _, operation in ipairs(operations) do
  local name, make = table.unpack(operation)
  for k = 0, args.last, 2 do
    local call = make(1 << k, k)
    if call then bench.out(("growth_%s_2^%d"):format(name, k), microseconds(call), "us") end
    call = nil
    collectgarbage()
  end
end
