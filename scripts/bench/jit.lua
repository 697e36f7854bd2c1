-- jit.lua: kernels from text on cuda:0: compiling, calling, bandwidth. The peer is jit_torch.py.
-- TIDE_KERNEL_CACHE_PATH should name an empty folder: a run after it compiles nothing.
local tide = require "tide"
package.path = arg[0]:match("^(.-)[^/]*$") .. "?.lua;" .. package.path
local bench = require "bench"

local cuda, sync = {device = "cuda"}, tide.cuda.synchronize
local jiterator = tide.cuda.jiterator
local x, y = tide.randn(1024, cuda), tide.randn(1024, cuda)
sync()

-- The first call of each function, until its kernel is queued.
local times = {}
for i = 1, 50 do
  local f = jiterator.create_jit_fn(("template <typename T> T f%d(T x, T y) { return x * T(%d) + y; }"):format(i, i))
  local t = bench.now()
  f(x, y)
  times[i] = (bench.now() - t) * 1e3
end
sync()
local warm = jiterator.cache_info().misses == 0
bench.out(warm and "jit_warm_first" or "jit_cold_first", times[1], "ms")
table.remove(times, 1)
bench.out(warm and "jit_warm_further" or "jit_cold_further", bench.median(times), "ms")
if warm then return end

local f = jiterator.create_jit_fn("template <typename T> T axpy(T x, T y, T alpha) { return x + alpha * y; }", {alpha = 1.0})
local opts = {alpha = 2.0}
bench.host("jit_call", function(n) for _ = 1, n do f(x, y) end end, 5000, sync)
bench.host("jit_call_param", function(n) for _ = 1, n do f(x, y, opts) end end, 5000, sync)
local source = [[extern "C" __global__ void k(const float *x, float *y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}]]
local k = tide.cuda.compile_kernel(source, "k")
local grid = {grid = 4, block = 256}
local bound = k:bind(grid, x, y, 1.0, 1024)
bench.host("kernel_call", function(n) for _ = 1, n do k(grid, x, y, 1.0, 1024) end end, 5000, sync)
bench.host("kernel_bound", function(n) for _ = 1, n do bound() end end, 5000, sync)

local n = 1 << 28
local a, b = tide.randn(n, cuda), tide.randn(n, cuda)
local function bandwidth(case, bytes, g) bench.out("bw_" .. case, bytes / bench.device_ms(g) / 1e6, "GB/s") end
local chain = jiterator.create_jit_fn [[template <typename T> T chain(T x) {
  x = x * T(2) + T(1);
  x = x * x - T(3);
  x = x < T(0) ? -x : x;
  x = x * T(0.5);
  return x + T(4);
}]]
bandwidth("jit_chain7", 8 * n, function() return chain(a) end)
local two = jiterator.create_jit_fn "template <typename T> T two(T x, T y) { return x * y + x; }"
bandwidth("jit_two_inputs", 12 * n, function() return two(a, b) end)
local A = a:view(16384, 16384)
bandwidth("jit_row_broadcast", 8 * n, function() return two(A, A:narrow(1, 1, 1)) end)
