-- kernels.lua: kernels written in Lua beside the same ones in CUDA C, which tide.cuda.compile_kernel compiles: the wave
-- equation, bodies that attract each other by tiles in shared memory, a histogram by atomics, what launches cost the host,
-- and how long the first calls take. TIDE_DEVICE=cpu: on the CPU, smaller and without launches. `salt`, a number, makes
-- all kernels new to NVRTC's own cache, and TIDE_KERNEL_CACHE_PATH should name an empty folder where that is measured.
-- Prints lines as bench.lua does, `cuda` those of CUDA C (of places_3d: of fill_); `compare kernels` makes a table of them, beside NVIDIA Warp's.
local tide = require "tide"
tide.manual_seed(1)
package.path = arg[0]:match "^(.-)[^/]*$" .. "?.lua;" .. package.path
local bench = require "bench"
local salt = tonumber(arg[1] or 0)
local gpu = os.getenv "TIDE_DEVICE" ~= "cpu"
local on = { device = gpu and "cuda" or "cpu" }
local cuda, kernel = tide.cuda, tide.kernel
local function sync() if gpu then cuda.synchronize() end end

local function report(case, lua, c, unit)
  bench.out(case, lua, unit)
  if c then bench.out(case, c, unit, "cuda") end
end

-- Milliseconds of one call: the median of rounds of n calls, by the device's clock.
local function ms(fn, n)
  local times = {}
  for _ = 1, 3 do fn() end
  for round = 1, 9 do
    sync()
    local first, last = gpu and cuda.Event { enable_timing = true }, gpu and cuda.Event { enable_timing = true }
    local start = bench.now()
    if gpu then first:record() end
    for _ = 1, n do fn() end
    if gpu then last:record() end
    sync()
    times[round] = gpu and first:elapsed_time(last) / n or (bench.now() - start) * 1e3 / n
  end
  return bench.median(times)
end

-- Milliseconds until a call has come back and its work is done.
local function once(fn)
  sync()
  local start = bench.now()
  fn()
  sync()
  return (bench.now() - start) * 1e3
end

local function c_kernel(name, text) return cuda.compile_kernel(text .. "\n// " .. salt, name) end

-- ---- the wave equation on n x n, a kernel a step ----

local n = gpu and 4096 or 1024
local u, before = tide.rand(n, n, on), tide.rand(n, n, on)
local wave_text = [[function(i, j, u, before, c)
  local here = u[i][j]
  local around = u[math.max(i - 1, 1)][j] + u[math.min(i + 1, #u)][j] + u[i][math.max(j - 1, 1)] + u[i][math.min(j + 1, u.shape[2])]
  before[i][j] = 2 * here - before[i][j] + c * (around - 4 * here)
end -- ]] .. salt
local wave, unchecked
local first = once(function()
  wave = kernel(wave_text)
  wave({ n, n }, u, before, 0.1)
end)
local further = once(function()
  unchecked = kernel(wave_text, { check = false })
  unchecked({ n, n }, u, before, 0.1)
end)
wave:wait()
unchecked:wait()
local wave_c = c_kernel("wave", [[extern "C" __global__ void wave(const float *u, float *before, float c, int rows, int columns) {
  int at = blockIdx.x * blockDim.x + threadIdx.x, i = at / columns, j = at % columns;
  if (i >= rows) return;
  float here = u[at];
  float around = u[max(i - 1, 0) * columns + j] + u[min(i + 1, rows - 1) * columns + j] + u[i * columns + max(j - 1, 0)]
    + u[i * columns + min(j + 1, columns - 1)];
  before[at] = 2 * here - before[at] + c * (around - 4 * here);
}]])
local sizes = { grid = n * n // 256, block = 256 }
local c_time = ms(function() wave_c(sizes, u, before, 0.1, n, n) end, 20)
local checked_time = ms(function() wave({ n, n }, u, before, 0.1) end, 20)
local free_time = ms(function() unchecked({ n, n }, u, before, 0.1) end, 20)
report("wave", checked_time, c_time, "ms")
report("wave_unchecked", free_time, c_time, "ms")
report("wave_rate", 12 * n * n / checked_time / 1e6, 12 * n * n / c_time / 1e6, "GB/s")

-- ---- bodies ----

local bodies = gpu and 65536 or 4096
local p, a, a_c = tide.rand(bodies, 4, on), tide.zeros(bodies, 4, on), tide.zeros(bodies, 4, on)
local nbody = kernel([[function(i, p, a, n)
  local tile, t = tide.shared(tide.float32, 256, 4), tide.thread()
  local x, y, z = p[i][1], p[i][2], p[i][3]
  local ax, ay, az = 0.0, 0.0, 0.0
  for first = 1, n, 256 do
    for c = 1, 4 do tile[t][c] = p[first + t - 1][c] end
    tide.barrier()
    for k = 1, 256 do
      local dx, dy, dz = tile[k][1] - x, tile[k][2] - y, tile[k][3] - z
      local d = dx * dx + dy * dy + dz * dz + 1e-4
      local w = tile[k][4] / (d * math.sqrt(d))
      ax, ay, az = ax + dx * w, ay + dy * w, az + dz * w
    end
    tide.barrier()
  end
  a[i][1], a[i][2], a[i][3] = ax, ay, az
end -- ]] .. salt)
local nbody_c = c_kernel("nbody", [[extern "C" __global__ void nbody(const float *p, float *a, int n) {
  __shared__ float tile[256][4];
  int t = threadIdx.x, i = blockIdx.x * 256 + t;
  float x = p[4 * i], y = p[4 * i + 1], z = p[4 * i + 2], ax = 0, ay = 0, az = 0;
  for (int first = 0; first < n; first += 256) {
    for (int c = 0; c < 4; c++) tile[t][c] = p[4 * (first + t) + c];
    __syncthreads();
    for (int k = 0; k < 256; k++) {
      float dx = tile[k][0] - x, dy = tile[k][1] - y, dz = tile[k][2] - z;
      float d = dx * dx + dy * dy + dz * dz + 1e-4f;
      float w = tile[k][3] / (d * sqrtf(d));
      ax += dx * w, ay += dy * w, az += dz * w;
    }
    __syncthreads();
  }
  a[4 * i] = ax, a[4 * i + 1] = ay, a[4 * i + 2] = az;
}]])
local function bodies_c() nbody_c({ grid = bodies // 256, block = 256 }, p, a_c, bodies) end
nbody(bodies, p, a, bodies)
nbody:wait()
bodies_c()
report("nbody", ms(function() nbody(bodies, p, a, bodies) end, 3), ms(bodies_c, 3), "ms")
local off = (a - a_c):abs():max():item() / a_c:abs():max():item()
assert(off < 1e-3, "n-body: the two differ by " .. off)

-- ---- a histogram ----

local count = gpu and 1 << 28 or 1 << 22
local values = tide.randint(0, 256, { count }, { device = on.device, dtype = "uint8" })
local bins, bins_c = tide.zeros(256, { device = on.device, dtype = "int32" }), tide.zeros(256, { device = on.device, dtype = "int32" })
local histogram = kernel("function(i, x, bins) tide.atomic.add(bins, {x[i] + 1}, 1) end -- " .. salt)
local histogram_c = c_kernel("histogram", [=[extern "C" __global__ void histogram(const unsigned char *x, int *bins, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&bins[x[i]], 1);
}]=])
local function count_c() histogram_c({ grid = count // 256, block = 256 }, values, bins_c, count) end
histogram(count, values, bins)
histogram:wait()
count_c()
assert(bins:equal(bins_c), "histogram: the two differ")
report("histogram", ms(function() histogram(count, values, bins) end, 3), ms(count_c, 3), "ms")

-- ---- more places than 2^28, in three dimensions: beside x:fill_(0) ----

do
  local m = gpu and 800 or 100
  local x = tide.zeros(m, m, m, on)
  local places = kernel("function(i, j, k, x) x[i][j][k] = i * 3 + j - k end -- " .. salt)
  places({ m, m, m }, x)
  places:wait()
  report("places_3d", ms(function() places({ m, m, m }, x) end, 3), ms(function() x:fill_(0) end, 3), "ms")
  x:free()
end

-- ---- the first call, compiled and from the cache ----

report("first_call", first, nil, "ms")
report("first_call_further", further, nil, "ms")
report("first_call_known", once(function() kernel((wave_text:gsub("%-%- ", "-- again ")))({ n, n }, u, before, 0.1) end), nil, "ms")
if not gpu then return end

-- ---- launches, microseconds of the host's ----

local x = tide.zeros(1024, on)
local small = kernel("function(i, x, a) x[i] = x[i] + a end -- " .. salt)
local small_c = c_kernel("small", [[extern "C" __global__ void small(float *x, float a) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 1024) x[i] += a;
}]])
local four = { grid = 4, block = 256 }
small(1024, x, 1.0)
small_c(four, x, 1.0)
local function us(fn)
  local best = math.huge
  for _ = 1, 9 do
    sync()
    local start = bench.now()
    for _ = 1, 500 do fn() end
    best = math.min(best, (bench.now() - start) * 1e6 / 500)
    sync()
  end
  return best
end
report("launch_prebound", us(small:on(1024, x, 1.0)), us(small_c:bind(four, x, 1.0)), "us")
report("launch_called", us(function() small(1024, x, 1.0) end), us(function() small_c(four, x, 1.0) end), "us")
report("launch_add_", us(function() x:add_(1) end), nil, "us")
