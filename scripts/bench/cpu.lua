-- cpu.lua: loops over 2^24 float32, single functions, products, and the cost of a call, on the CPU with 2 threads. The peer is cpu_torch.py.
local tide = require "tide"
tide.manual_seed(1)
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
-- Rows that read and write 2^22 numbers.
local S = 1 << 22
local s, u, w = x:slice(1, 1, S) * 10, tide.rand(S), tide.empty(S)
local by, other = y:slice(1, 1, S), {out = w}
local function rate(case, bytes, f) bench.out(case, bytes * S / bench.cpu_s(f) / 1e9, "GB/s") end
rate("remainder", 12, function() tide.remainder(s, by, other) end)
rate("floor_divide", 12, function() tide.floor_divide(s, by, other) end)
rate("fmod", 12, function() tide.fmod(s, by, other) end)
for _, power in ipairs{2, 3, 0.5, -1} do
  rate("pow" .. power, 8, function() tide.pow(u, power, other) end)
end
rate("acos", 8, function() tide.acos(u, other) end)
rate("lgamma", 8, function() tide.lgamma(s, other) end)
local vectors = s:view(S // 4, 4):slice(2, 1, 3):contiguous()
rate("norm_of_3", 4, function() return vectors:norm(2, 2) end)
local mask = s:gt(0)
local some = tide.randn(mask:sum():item())
rate("mask_number", 5, function() s[mask] = 1.5 end)
rate("mask_tensor", 9, function() s[mask] = some end)
local at = tide.randint(1, S + 1, {S}, {dtype = "int64"})
local row, few = at:slice(1, 1, S // 64) % (S // 64) + 1, at % 1024 + 1
local rows, sums, bins = s:view(S // 64, 64), tide.zeros(S // 64, 64), tide.zeros(1024)
rate("gather", 16, function() s:gather(1, at, other) end)
rate("scatter_add", 20, function() w:scatter_add_(1, at, s) end)
rate("scatter_add_1024", 12, function() bins:scatter_add_(1, few, s) end)
rate("select_rows_64", 8, function() rows:index_select(1, row, {out = sums}) end)
rate("add_rows_64", 12, function() sums:index_add_(1, row, rows) end)
rate("histc_100", 4, function() s:histc(100, -20, 20) end)
bench.out("randperm", 2 ^ 20 / bench.cpu_s(function() return tide.randperm(1 << 20) end) / 1e6, "M/s")
local image = tide.fft.fft2(tide.randn(512, 512))
bench.out("fft512x512", 8 * 2 ^ 18 / bench.cpu_s(function() return tide.fft.fft2(image) end) / 1e9, "GB/s")
for _, dtype in ipairs{"float32", "float64"} do
  for _, n in ipairs{512, 1024, 2048, 4096} do
    local a, c = tide.randn(n, n, {dtype = dtype}), {out = tide.empty(n, n, {dtype = dtype})}
    local case = ("matmul%d%s"):format(n, dtype == "float64" and "_f64" or "")
    local seconds = bench.cpu_s(function() tide.matmul(a, a, c) end, n < 2048 and 9 or 3)
    bench.out(case, 2 * n ^ 3 / seconds / 1e9, "GFLOP/s")
  end
end
do
  local p, q = tide.randn(1 << 20, 4, 4), tide.randn(1 << 20, 4, 4)
  local product = {out = tide.empty_like(p)}
  bench.out("bmm4x4_1M", 3 * 64 * 2 ^ 20 / bench.cpu_s(function() p:bmm(q, product) end) / 1e9, "GB/s")
end
local a = tide.randn(1)
local function nosync() end
bench.host("add1", function(n) for _ = 1, n do local _ = a + a end end, 20000, nosync)
bench.host("view", function(n) for _ = 1, n do local _ = x:slice(1, 4, 9) end end, 20000, nosync)
bench.host("empty", function(n) for _ = 1, n do local _ = tide.empty(1) end end, 20000, nosync)
