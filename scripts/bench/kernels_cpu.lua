-- kernels_cpu.lua: kernels written in Lua on the CPU with 2 threads, milliseconds a call: compiled, and by the block
-- interpreter, which runs them until a compiler is done. The peer is kernels_cpu_numba.py, Numba's parallel kernels.
local tide = require "tide"
tide.manual_seed(1)
package.path = arg[0]:match("^(.-)[^/]*$") .. "?.lua;" .. package.path
local bench = require "bench"
tide.set_num_threads(2)

local function mandelbrot(i, j, out, limit)
  local h, w = out.shape[1], out.shape[2]
  local cx, cy = (j - 1) * 3 / w - 2, (i - 1) * 2.5 / h - 1.25
  local x, y, n = 0.0, 0.0, 0
  while x * x + y * y <= 4 and n < limit do
    x, y = x * x - y * y + cx, 2 * x * y + cy
    n = n + 1
  end
  out[i][j] = n
end

local function wave(i, j, before, now, after)
  local h, w = now.shape[1], now.shape[2]
  if i > 1 and i < h and j > 1 and j < w then
    local around = now[i - 1][j] + now[i + 1][j] + now[i][j - 1] + now[i][j + 1] - 4 * now[i][j]
    after[i][j] = 2 * now[i][j] - before[i][j] + 0.2 * around
  end
end

local function nbody(i, p, a)
  local x, y, z = p[i][1], p[i][2], p[i][3]
  local ax, ay, az = 0.0, 0.0, 0.0
  for j = 1, #p do
    local dx, dy, dz = p[j][1] - x, p[j][2] - y, p[j][3] - z
    local d = dx * dx + dy * dy + dz * dz + 0.001
    local s = 1 / (d * math.sqrt(d))
    ax, ay, az = ax + dx * s, ay + dy * s, az + dz * s
  end
  a[i][1], a[i][2], a[i][3] = ax, ay, az
end

local counts = tide.zeros(1024, 1024, {dtype = "int32"})
local before, now, after = tide.randn(2048, 2048), tide.randn(2048, 2048), tide.zeros(2048, 2048)
local p, a = tide.randn(4096, 3), tide.zeros(4096, 3)
local cases = {
  {"mandelbrot_1024", mandelbrot, {1024, 1024}, counts, 200},
  {"wave_2048", wave, {2048, 2048}, before, now, after},
  {"nbody_4096", nbody, 4096, p, a},
}
for _, case in ipairs(cases) do
  local k = tide.kernel(case[2])
  local function call() k(table.unpack(case, 3)) end
  local t = bench.now()
  call()
  bench.out(case[1] .. "_first_call", 1e3 * (bench.now() - t), "ms")
  bench.out(case[1] .. "_interpreted", 1e3 * bench.cpu_s(call), "ms")
  k:wait()
  bench.out(case[1], 1e3 * bench.cpu_s(call), "ms")
end
