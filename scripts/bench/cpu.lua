-- cpu.lua: loops over 2^24 float32 and the cost of a call, on the CPU with 2 threads. The peer is cpu_torch.py.
local tide = require "tide"
package.path = arg[0]:match("^(.-)[^/]*$") .. "?.lua;" .. package.path
local bench = require "bench"
tide.set_num_threads(2)
local N = 1 << 24
local x, y, z = tide.randn(N), tide.randn(N), tide.empty(N)
local X, Z = x:view(4096, 4096), z:view(4096, 4096)
local Xt, out = X:t(), {out = z}
local function bandwidth(case, bytes, f) bench.out(case, bytes * N / bench.cpu_s(f) / 1e9, "GB/s") end
bandwidth("add", 12, function() tide.add(x, y, out) end)
bandwidth("mul2", 8, function() tide.mul(x, 2.0, out) end)
bandwidth("exp", 8, function() tide.exp(x, out) end)
bandwidth("sin", 8, function() tide.sin(x, out) end)
bandwidth("tanh", 8, function() tide.tanh(x, out) end)
bandwidth("sum", 4, function() return x:sum() end)
bandwidth("max", 4, function() return x:max() end)
bandwidth("sum_rows", 4, function() return X:sum(2) end)
bandwidth("sum_cols", 4, function() return X:sum(1) end)
bandwidth("transpose", 8, function() Z:copy_(Xt) end)
bandwidth("normal_", 4, function() z:normal_() end)
bandwidth("uniform_", 4, function() z:uniform_() end)
local m = tide.randn(1024, 1024)
bench.out("matmul1024", 2 * 1024 ^ 3 / bench.cpu_s(function() return m:matmul(m) end) / 1e9, "GFLOP/s")
local a = tide.randn(1)
local function nosync() end
bench.host("add1", function(n) for _ = 1, n do local _ = a + a end end, 20000, nosync)
bench.host("view", function(n) for _ = 1, n do local _ = x:slice(1, 4, 9) end end, 20000, nosync)
bench.host("empty", function(n) for _ = 1, n do local _ = tide.empty(1) end end, 20000, nosync)
