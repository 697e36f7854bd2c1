-- fuse.lua: tide.fuse on cuda:0 (TIDE_DEVICE=cpu: the CPU, with smaller tensors), beside the same functions one operation
-- at a time. The peer is fuse_torch.py: eager and torch.compile. How long the kernels take to be there: compile.lua.
local tide = require "tide"
tide.manual_seed(1)
package.path = arg[0]:match "^(.-)[^/]*$" .. "?.lua;" .. package.path
local bench = require "bench"
local cpu = os.getenv "TIDE_DEVICE" == "cpu"
local options = { device = cpu and "cpu" or "cuda" }
local sync = cpu and function() end or tide.cuda.synchronize

local function chain(x) return ((x * 2 + 1) * x - 3):abs() * 0.5 + x end -- 7 operations with the last sum
local function softmax(x)
  local e = (x - x:amax(-1, { keepdim = true })):exp()
  return e / e:sum(-1, { keepdim = true })
end
local function layer_norm(x, w, b)
  local d = x - x:mean(-1, { keepdim = true })
  return d * ((d * d):mean(-1, { keepdim = true }) + 1e-5):rsqrt() * w + b
end

local small = tide.rand(1000, options)

-- ---- the host's time ----

local f = tide.fuse(chain)
f(small):free()
f:wait()
bench.host("add", function(n) for _ = 1, n do local _ = small + small end end, 5000, sync)
bench.host("fused7", function(n) for _ = 1, n do local _ = f(small) end end, 5000, sync)
local g, calls = tide.fuse(function(x, t) return ((x * t + 1) * x - 3):abs() * 0.5 + x end), 0
g(small, 2):free()
g:wait()
bench.host("fused7_number", function(n) -- one that differs at each call; on the CPU the function runs alone at that size
  for i = 1, n do local _ = g(small, calls + i) end
  calls = calls + n
end, 5000, sync)
bench.host("eager7", function(n) for _ = 1, n do local _ = chain(small) end end, 2000, sync)

-- ---- bandwidth ----

local function rate(case, bytes, fn, ...)
  local args = table.pack(...)
  local g = tide.fuse(fn)
  g(...):free()
  g:wait()
  for _, pair in ipairs { { "fused", g }, { "eager", fn } } do
    local function run() pair[2](table.unpack(args, 1, args.n)):free() end
    local seconds = cpu and bench.cpu_s(run) or bench.device_ms(run) / 1e3
    bench.out(case .. "_" .. pair[1], bytes / seconds / 1e9, "GB/s")
  end
  print("# " .. case .. ": " .. #g:kernels() .. " kernel, ready " .. tostring(g:ready()))
end
local n = cpu and 1 << 22 or 1 << 28
local big = tide.randn(n, options)
rate("chain7", 2 * 4 * n, chain, big)
if not cpu then -- the same by hand, four elements a thread
  local bare = tide.cuda.compile_kernel([[__device__ float f(float x) { return fabsf((x * 2 + 1) * x - 3) * 0.5f + x; }
extern "C" __global__ void chain7(const float4 *x, float4 *y) {
  const size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  const float4 v = x[i];
  y[i] = make_float4(f(v.x), f(v.y), f(v.z), f(v.w));
}]], "chain7")
  local function run()
    local out = tide.empty_like(big)
    bare({ grid = n // 1024, block = 256 }, big, out)
    out:free()
  end
  bench.out("chain7_bare", 2 * 4 * n / (bench.device_ms(run) / 1e3) / 1e9, "GB/s")
end
local other = tide.randn(n, options)
rate("mean_square", 2 * 4 * n, function(x, y) local d = x - y return (d * d):mean() end, big, other)
rate("std_all", 2 * 4 * n, function(x, y) return (x - y):std() end, big, other)
rate("norm_all", 2 * 4 * n, function(x, y) return (x - y):norm() end, big, other)
other:free()
local tall, across = big:view(-1, 256), big:view(-1, 65536)
rate("columns_256", 4 * n, function(x) return (x * 2 + 1):sum(1) end, tall)
rate("columns_65536", 4 * n, function(x) return (x * 2 + 1):sum(1) end, across)
rate("softmax_65536", 2 * 4 * n, softmax, across)
rate("standardise_columns", 2 * 4 * n, function(x)
  return (x - x:mean(1, { keepdim = true })) / x:std(1, { keepdim = true })
end, tall)
tall:free()
across:free()
big:free()
do -- places all over a source that the caches of a GPU hold, and rows of 1 KB
  local points, source = n // 4, cpu and 1 << 16 or 1 << 22
  local function three(x, i, y) return (x[i] * y + 1):relu() end
  local i = tide.randint(1, source + 1, { points }, { dtype = "int64", device = options.device })
  local x, y = tide.randn(source, options), tide.randn(points, options)
  rate("gather_points", (8 + 4 + 4 + 4) * points, three, x, i, y)
  rate("gather_points_sum", (8 + 4 + 4) * points, function(a, j, b) return (a[j] * b + 1):relu():sum() end, x, i, y)
  local w, r = tide.randn(source // 64, 256, options), tide.randint(1, source // 64 + 1, { points // 256 }, { dtype = "int64", device = options.device })
  rate("gather_rows", 3 * 4 * points, three, w, r, y:view(-1, 256))
end
local rows = cpu and 512 or 4096
for _, dtype in ipairs { "float32", "bfloat16" } do
  local x = tide.randn(rows, 4096, options):to(dtype)
  local w, b = tide.randn(4096, options):to(dtype), tide.randn(4096, options):to(dtype)
  if not cpu then -- what tensors of that size allow
    bench.out("copy_" .. dtype, 2 * x:nbytes() / (bench.device_ms(function() x:clone():free() end) / 1e3) / 1e9, "GB/s")
  end
  rate("softmax_" .. dtype, 2 * x:nbytes(), softmax, x)
  rate("layer_norm_" .. dtype, 2 * x:nbytes(), layer_norm, x, w, b)
end
local wide = tide.randn(rows, 4096, options)
rate("bias_tanh", 2 * wide:nbytes(), function(x, b) return (x + b):tanh() end, wide, tide.randn(4096, options))
