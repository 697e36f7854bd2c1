-- jit.lua: how long run-time kernels take to compile, what a call of one costs the host, and the bandwidth of a chain,
-- on cuda:0 (TIDE_DEVICE=cpu: the first part on the CPU). The peer is jit_torch.py. `order`, `kernels` and `salt`:
--   turn   make a function, call it, then the next one;   first   make all, then call all
-- Compare a folder of its own in TIDE_KERNEL_CACHE_PATH, empty and then full. NVRTC keeps a cache of its own, so that each
-- run should have its own salt, a number that stands in every kernel, unless that cache is what is measured.
local tide = require "tide"
tide.manual_seed(1)
package.path = arg[0]:match "^(.-)[^/]*$" .. "?.lua;" .. package.path
local bench = require "bench"
local order, kernels, salt = arg[1] or "turn", tonumber(arg[2] or 50), tonumber(arg[3] or os.time()) % 1000000 * 100
local device = os.getenv "TIDE_DEVICE" == "cpu" and "cpu" or "cuda"
local J = tide.cuda.jiterator

local forms = {
  "x * T(%d) + y", "abs(x - T(%d)) * y", "(x + T(%d)) / (y * y + T(1))", "x > y ? x * T(%d) : y",
  "exp(-x * T(%d)) + y", "x * tanh(y + T(%d))", "sqrt(x * x + y * y + T(%d))", "log1p(abs(x)) * y + T(%d)",
}
local function code(i)
  return ("template <typename T> T bench_%d(T x, T y) { return %s; }"):format(salt + i, forms[i % #forms + 1]:format(salt + i))
end

local x, y = tide.randn(1000, { device = device }), tide.randn(1000, { device = device })
local _ = x + y
if device == "cuda" then tide.cuda.synchronize() end
local f, times = {}, {}
local start = bench.now()
if order == "first" then
  for i = 1, kernels do f[i] = J.create_jit_fn(code(i)) end
end
for i = 1, kernels do
  local t = bench.now()
  f[i] = f[i] or J.create_jit_fn(code(i))
  local _ = f[i](x, y)
  times[i] = (bench.now() - t) * 1e3
end
bench.out("jit_" .. order .. "_all", (bench.now() - start) * 1e3, "ms")
bench.out("jit_" .. order .. "_first", table.remove(times, 1), "ms")
bench.out("jit_" .. order .. "_further", bench.median(times), "ms")
bench.out("jit_" .. order .. "_further_least", times[1], "ms")
local i = J.cache_info()
print(("# hits %d misses %d ahead %d stored %d compiler_opened %s"):format(i.hits, i.misses, i.ahead, i.stored,
  i.compiler_opened))
if device == "cpu" or order ~= "turn" then return end

local sync = tide.cuda.synchronize
local g, scaled = f[1], J.create_jit_fn("template <typename T> T scaled(T x, T y, T a) { return x + a * y; }", { a = 1 })
bench.host("jit_call", function(n) for _ = 1, n do local _ = g(x, y) end end, 5000, sync)
bench.host("jit_call_scalar", function(n) for _ = 1, n do local _ = scaled(x, y, { a = 2 }) end end, 5000, sync)
local k = tide.cuda.compile_kernel([[extern "C" __global__ void k(const float *x, float *y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}]], "k")
local sizes = { grid = 4, block = 256 }
bench.host("kernel_call", function(n) for _ = 1, n do k(sizes, x, y, 1.0, 1000) end end, 5000, sync)
local bound = k:bind(sizes, x, y, 1.0, 1000)
bench.host("kernel_bound", function(n) for _ = 1, n do bound() end end, 5000, sync)

local n = 1 << 28
local big = tide.randn(n, { device = "cuda" })
for name, text in pairs {
  chain7 = "T y = x * T(2) + T(1); y = y * y - T(3); y = abs(y) + x; return y * T(0.5);",
  gelu = "return x * T(0.5) * (T(1) + erf(x * T(0.70710678)));",
  sincos = "return sin(x) * cos(x);",
  pow = "return pow(x, T(2.5)) + T(1);",
} do
  local h = J.create_jit_fn("template <typename T> T h(T x) { " .. text .. " }")
  bench.out("jit_" .. name, 2 * 4 * n / bench.device_ms(function() h(big):free() end) / 1e6, "GB/s")
end
local two = J.create_jit_fn "template <typename T> T two(T x, T y) { return x * y + x; }"
local A = big:view(16384, 16384)
bench.out("jit_row_broadcast", 2 * 4 * n / bench.device_ms(function() two(A, A:narrow(1, 1, 1)):free() end) / 1e6, "GB/s")
