-- sort.lua: lines in order and what stands on them: on cuda:0 billions of elements a second between two events, on the
-- CPU millions. The peer is sort_torch.py. Without a GPU, or with the word cpu, the CPU's alone.
local tide = require "tide"
tide.manual_seed(1)
package.path = arg[0]:match("^(.-)[^/]*$") .. "?.lua;" .. package.path
local bench = require "bench"

local function cases(device, n, rate)
  local on, long = { device = device }, { device = device, dtype = "int64" }
  local x = tide.randn(n, on)
  rate("float32", n, function() x:sort() end)
  rate("float32_down", n, function() x:sort { descending = true } end)
  rate("argsort", n, function() x:argsort() end)
  rate("topk_100", n, function() x:topk(100) end)
  rate("topk_2000", n, function() x:topk(2000) end)
  rate("kthvalue", n, function() x:kthvalue(n // 3) end)
  rate("median", n, function() x:median() end)
  rate("quantile", n // 8, function() x:narrow(1, 1, n // 8):quantile(0.3) end)
  local half = x:bfloat16()
  rate("bfloat16", n, function() half:sort() end)
  half = nil
  local i = tide.randint(0, 1 << 40, { n }, long)
  rate("int64", n, function() i:sort() end)
  i = tide.randint(0, 1 << 20, { n }, long)
  rate("unique_2^20", n, function() i:unique() end, 5)
  rate("unique_inverse_2^20", n, function() i:unique { return_inverse = true, return_counts = true } end, 5)
  i = i:int()
  rate("unique_int32_2^20", n, function() i:unique() end, 5)
  local edges = (x:narrow(1, 1, 1 << 16):sort())
  rate("searchsorted_2^16", n, function() tide.searchsorted(edges, x) end)
  i, edges = nil, nil
  for _, length in ipairs { 16, 100, 1000, 4096, 100000 } do
    local lines = x:narrow(1, 1, n // length * length):view(-1, length)
    rate("lines_of_" .. length, lines:numel(), function() lines:sort() end, 5)
    rate("topk_10_of_" .. length, lines:numel(), function() lines:topk(10) end, 5)
  end
end

if tide.cuda.is_available() and arg[1] ~= "cpu" then
  for _, case in ipairs { { "2^26", 1 << 26 }, { "5e7+1", 50000001 } } do
    local name, n = case[1], case[2]
    cases("cuda", n, function(what, count, f, reps)
      bench.out("sort_" .. what .. "_" .. name, count / bench.device_ms(f, reps) / 1e6, "G/s")
    end)
  end
end
for _, bits in ipairs { 20, 24 } do
  cases("cpu", 1 << bits, function(case, count, f)
    bench.out("sort_cpu_" .. case .. "_of_2^" .. bits, count / bench.cpu_s(f, 3) / 1e6, "M/s")
  end)
end
