-- kernels_examples.lua: the kernels that scripts/examples/kernels spend their time in, beside the same ones in CUDA C by hand.
-- Each program runs as it is, but larger; then the last call of its kernel is repeated, by tide.kernel and in CUDA C, on the
-- same tensors, after both have given the same numbers. TIDE_DEVICE=cpu: on the CPU, smaller.
-- Prints lines as scripts/bench/kernels.tsv has them: the program, what was run, milliseconds of a call, the same in CUDA C,
-- and the device, between tabs. Medians of nine rounds.
local tide = require "tide"
local here = arg[0]:match "^(.-)[^/]*$"
package.path = here .. "?.lua;" .. package.path
local bench = require "bench"
local gpu = os.getenv "TIDE_DEVICE" ~= "cpu"
local cuda, kernel = tide.cuda, tide.kernel
local device = gpu and cuda.get_device_name() or "the CPU"

-- What stands before every text below: one thread a place, k from 0.
local head = [[
#define PLACE int k = blockIdx.x * blockDim.x + threadIdx.x; if (k >= count) return
__device__ static int near_edge(int at, int by, int n) { at += by; return at < 0 ? 0 : at >= n ? n - 1 : at; }
__device__ static int around(int at, int by, int n) { at += by; return at < 0 ? at + n : at >= n ? at - n : at; }
__device__ static int clamped(float at, int n) { return (int)floorf(fmaxf(fminf(at, n - 1.0f), 0.0f)); }
]]

local life = [[
extern "C" __global__ void life(int count, const int *age, int *next, int n) {
  PLACE;
  int i = k / n, j = k % n, live = 0;
  for (int di = -1; di <= 1; di++)
    for (int dj = -1; dj <= 1; dj++) live += age[around(i, di, n) * n + around(j, dj, n)] > 0 && (di || dj);
  int now = age[k];
  next[k] = live == 3 || (live == 2 && now > 0) ? max(now, 0) + 1 : min(now, 0) - 1;
}]]

local wave = [[
extern "C" __global__ void wave(int count, const float *h, float *last, const float *ground, int n) {
  PLACE;
  int i = k / n, j = k % n;
  float here = h[k], speed = 0.45f * ground[k];
  float up = h[near_edge(i, -1, n) * n + j], down = h[near_edge(i, 1, n) * n + j];
  float left = h[i * n + near_edge(j, -1, n)], right = h[i * n + near_edge(j, 1, n)];
  float edge = (float)min(min(i + 1, n - i), min(j + 1, n - j)) / n;
  float kept = 0.9995f - 0.06f * fmaxf(1 - edge * 14, 0.0f);
  last[k] = kept * (here + (here - last[k]) * kept + speed * (up + down + left + right - 4 * here));
}]]

local react = [[
__device__ static float lack(const float *f, int i, int j, int n) {
  int up = around(i, -1, n) * n, down = around(i, 1, n) * n, left = around(j, -1, n), right = around(j, 1, n);
  return 0.2f * (f[up + j] + f[down + j] + f[i * n + left] + f[i * n + right])
    + 0.05f * (f[up + left] + f[up + right] + f[down + left] + f[down + right]) - f[i * n + j];
}
extern "C" __global__ void react(int count, const float *u, const float *v, float *next_u, float *next_v, int n) {
  PLACE;
  int i = k / n, j = k % n;
  float feed = 0.014f + 0.050f * j / n, rate = sqrtf(feed) / 2 - feed + 0.007f * i / n - 0.001f;
  float a = u[k], b = v[k], eaten = a * b * b;
  next_u[k] = a + lack(u, i, j, n) - eaten + feed * (1 - a);
  next_v[k] = b + 0.5f * lack(v, i, j, n) + eaten - (feed + rate) * b;
}]]

local sph = [[
extern "C" __global__ void push(int count, const float *p, const float *v, const int *first, const float *rho,
                                float *next_p, float *next_v, float gap, float reach, int columns, int rows) {
  PLACE;
  const float sound = 9, pi = 3.14159265f;
  float x = p[2 * k], y = p[2 * k + 1], vx = v[2 * k], vy = v[2 * k + 1], fx = 0, fy = -9.8f;
  int r = clamped(y / reach, rows), c = clamped(x / reach, columns);
  float pressure = sound * sound * fmaxf(rho[k] - 1, 0.0f) / rho[k];
  for (int row = max(r - 1, 0); row <= min(r + 1, rows - 1); row++) {
    int end = first[row * columns + min(c + 1, columns - 1) + 1];
    for (int m = first[row * columns + max(c - 1, 0)]; m < end; m++) {
      float dx = x - p[2 * m], dy = y - p[2 * m + 1], far = sqrtf(dx * dx + dy * dy);
      if (m == k || far >= reach || far <= 0) continue;
      float q = 1 - far / reach, other = sound * sound * fmaxf(rho[m] - 1, 0.0f) / rho[m];
      float weight = gap * gap * 8 / (pi * reach * reach) * q, push = weight * 3.2f * (pressure + other) / (far * reach);
      float drag = weight * 0.35f * sound / reach;
      fx += dx * push + (v[2 * m] - vx) * drag, fy += dy * push + (v[2 * m + 1] - vy) * drag;
    }
  }
  float dt = 0.25f * gap / 9, most = 0.4f * sound, low = 0.5f * gap;
  vx = fminf(fmaxf(vx + fx * dt, -most), most), vy = fminf(fmaxf(vy + fy * dt, -most), most);
  x += vx * dt, y += vy * dt;
  if (x < low || x > 2 - low) vx *= -0.3f;
  if (y < low || y > 1 - low) vy *= -0.3f;
  next_p[2 * k] = fminf(fmaxf(x, low), 2 - low), next_p[2 * k + 1] = fminf(fmaxf(y, low), 1 - low);
  next_v[2 * k] = vx, next_v[2 * k + 1] = vy;
}]]

local boids = [[
extern "C" __global__ void fly(int count, const float *p, const float *v, const int *first, float *next_p,
                               float *next_v, float time, float world, int buckets) {
  PLACE;
  float hx = p[3 * k], hy = p[3 * k + 1], hz = p[3 * k + 2], sx = v[3 * k], sy = v[3 * k + 1], sz = v[3 * k + 2];
  float ax = 0, ay = 0, az = 0, lx = 0, ly = 0, lz = 0, mx = 0, my = 0, mz = 0;
  int seen = 0, x = (int)floorf(hx), y = (int)floorf(hy), z = (int)floorf(hz);
  for (int dx = -1; dx <= 1; dx++)
    for (int dy = -1; dy <= 1; dy++)
      for (int dz = -1; dz <= 1; dz++) {
        int b = ((x + dx) * 73856093u ^ (y + dy) * 19349663u ^ (z + dz) * 83492791u) & (buckets - 1);
        int end = min(first[b + 1], first[b] + 24);
        for (int m = first[b]; m < end; m++) {
          float ex = hx - p[3 * m], ey = hy - p[3 * m + 1], ez = hz - p[3 * m + 2], far = ex * ex + ey * ey + ez * ez;
          if (far >= 1 || m == k) continue;
          if (far < 0.16f) ax += ex / (far + 0.01f), ay += ey / (far + 0.01f), az += ez / (far + 0.01f);
          lx += v[3 * m], ly += v[3 * m + 1], lz += v[3 * m + 2];
          mx -= ex, my -= ey, mz -= ez, seen++;
        }
      }
  float wx = ax * 0.12f, wy = ay * 0.12f, wz = az * 0.12f;
  if (seen > 0) {
    wx += (lx / seen - sx) * 1.6f + mx / seen * 1.1f, wy += (ly / seen - sy) * 1.6f + my / seen * 1.1f;
    wz += (lz / seen - sz) * 1.6f + mz / seen * 1.1f;
  }
  float gx = sinf(time * 0.31f) * world * 0.55f - hx, gy = 0.5f * sinf(time * 0.47f) * world * 0.55f - hy;
  float gz = cosf(time * 0.23f) * world * 0.55f - hz, home = 0.6f / (sqrtf(gx * gx + gy * gy + gz * gz) + 0.5f);
  wx += gx * home - hz * (0.35f / world), wy += gy * home, wz += gz * home + hx * (0.35f / world);
  sx += wx * 0.03f, sy += wy * 0.03f, sz += wz * 0.03f;
  float fast = sqrtf(sx * sx + sy * sy + sz * sz) + 1e-6f, keep = fminf(fmaxf(fast, 1.4f), 3.2f) / fast;
  sx *= keep, sy *= keep, sz *= keep;
  next_p[3 * k] = hx + sx * 0.03f, next_p[3 * k + 1] = hy + sy * 0.03f, next_p[3 * k + 2] = hz + sz * 0.03f;
  next_v[3 * k] = sx, next_v[3 * k + 1] = sy, next_v[3 * k + 2] = sz;
}]]

-- The random numbers are Philox's, too, of other counters: the two pictures have the same light on average.
local path = [[
struct vec { float x, y, z; };
__device__ static vec v3(float x, float y, float z) { return {x, y, z}; }
__device__ static vec operator+(vec a, vec b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
__device__ static vec operator-(vec a, vec b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
__device__ static vec operator*(vec a, vec b) { return {a.x * b.x, a.y * b.y, a.z * b.z}; }
__device__ static vec operator*(vec a, float s) { return {a.x * s, a.y * s, a.z * s}; }
__device__ static float dot(vec a, vec b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
__device__ static vec unit(vec a) { return a * (1 / sqrtf(dot(a, a))); }
__device__ static vec cross(vec a, vec b) { return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x}; }
__device__ static vec mirror(vec a, vec n) { return a - n * (2 * dot(a, n)); }
__device__ static vec mix(vec a, vec b, float t) { return a + (b - a) * t; }
__device__ static float uniform(unsigned seed, unsigned a, unsigned b, unsigned c) {
  unsigned x[4] = {a, b, c, 0}, k0 = seed, k1 = 0;
  for (int round = 0; round < 10; round++) {
    unsigned long long p = 0xD2511F53ull * x[0], q = 0xCD9E8D57ull * x[2];
    unsigned y[4] = {(unsigned)(q >> 32) ^ x[1] ^ k0, (unsigned)q, (unsigned)(p >> 32) ^ x[3] ^ k1, (unsigned)p};
    x[0] = y[0], x[1] = y[1], x[2] = y[2], x[3] = y[3], k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return (x[0] >> 8) * (1.0f / 16777216.0f);
}
__device__ static int meet(vec from, vec ray, const float *scene, int n, float *nearest) {
  int which = -1;
  *nearest = 1e9f;
  for (int s = 0; s < n; s++) {
    const float *row = scene + 8 * s;
    vec to = from - v3(row[0], row[1], row[2]);
    float b = dot(to, ray), d = b * b - dot(to, to) + row[3] * row[3];
    if (d <= 0) continue;
    float root = sqrtf(d), t = -b - root;
    if (t < 2e-3f) t = -b + root;
    if (t > 2e-3f && t < *nearest) *nearest = t, which = s;
  }
  return which;
}
__device__ static vec sky(vec ray) {
  float sun = fmaxf(dot(ray, unit(v3(0.70f, 0.30f, -0.65f))), 0.0f), up = fmaxf(ray.y, 0.0f);
  return mix(v3(1.0f, 0.66f, 0.42f), v3(0.20f, 0.34f, 0.62f), sqrtf(up)) * 0.75f
    + v3(1.0f, 0.8f, 0.5f) * (powf(sun, 8) * 0.6f + powf(sun, 600) * 60);
}
__device__ static vec anywhere(float u, float v) {
  float z = 1 - 2 * u, turn = 2 * 3.14159265f * v, r = sqrtf(fmaxf(1 - z * z, 0.0f));
  return v3(r * cosf(turn), r * sinf(turn), z);
}
extern "C" __global__ void trace(int count, float *image, const float *scene, const float *camera, int seed, int rows,
                                 int columns, int spheres, int bounces) {
  PLACE;
  int i = k / columns + 1, j = k % columns + 1, pixel = i * columns + j;
  float x = (j - 0.5f * columns + uniform(seed, pixel, 1, 0) - 0.5f) / rows;
  float y = (0.5f * rows - i + uniform(seed, pixel, 2, 0) + 0.5f) / rows;
  vec from = v3(camera[0], camera[1], camera[2]), q = v3(camera[4], camera[5], camera[6]), to = v3(x, y, -camera[3]);
  vec t2 = cross(q, to) * 2, ray = unit(to + t2 * camera[7] + cross(q, t2)), light = v3(0, 0, 0), left = v3(1, 1, 1);
  for (int bounce = 1; bounce <= bounces; bounce++) {
    float t;
    int s = meet(from, ray, scene, spheres, &t);
    if (s < 0) {
      light = light + left * sky(ray);
      break;
    }
    const float *row = scene + 8 * s;
    vec colour = v3(row[4], row[5], row[6]), place = from + ray * t;
    vec normal = (place - v3(row[0], row[1], row[2])) * (1 / row[3]);
    if (row[7] == 3) {
      light = light + left * colour * 6;
      break;
    }
    float u = uniform(seed, pixel, bounce, 3), v = uniform(seed, pixel, bounce, 4);
    if (row[7] == 0) {
      int cell = (int)floorf(place.x) + (int)floorf(place.z);
      if (s == 0 && cell % 2 == 0) colour = colour * 0.55f;
      ray = normal + anywhere(u, v) * 0.999f;
    } else if (row[7] == 1) {
      ray = mirror(ray, normal) + anywhere(u, v) * 0.06f;
    } else {
      float cosine = -dot(ray, normal), ratio = cosine > 0 ? 1 / 1.5f : 1.5f;
      vec side = cosine > 0 ? normal : normal * -1;
      cosine = fabsf(cosine);
      float bent = 1 - ratio * ratio * (1 - cosine * cosine), dim = 1 - cosine;
      bool mirrored = bent < 0 || u < 0.04f + 0.96f * dim * dim * dim * dim * dim;
      ray = mirrored ? mirror(ray, side) : ray * ratio + side * (ratio * cosine - sqrtf(fmaxf(bent, 0.0f)));
    }
    ray = unit(ray), from = place, left = left * colour;
  }
  image[3 * k] += light.x, image[3 * k + 1] += light.y, image[3 * k + 2] += light.z;
}]]

local function side_of(a) return a[1]:size(1) end

-- number: the kernel's among those the program makes. written: its arguments that it writes. more: what CUDA C takes besides.
-- gpu, cpu: the options of the program there; scalars: how many arguments at the end are no tensors.
local cases = {
  { program = "life", number = 1, name = "life", text = life, written = { 2 }, gpu = "--size 4096 --steps 4",
    cpu = "--size 256 --steps 4",
    what = "a generation of %d x %d cells", more = function(a) return side_of(a) end },
  { program = "wave", number = 2, name = "wave", text = wave, written = { 2 }, gpu = "--size 4096 --steps 4",
    cpu = "--size 256 --steps 16",
    what = "a step of %d x %d points", more = function(a) return side_of(a) end },
  { program = "reaction_diffusion", number = 1, name = "react", text = react, written = { 3, 4 },
    gpu = "--size 4096 --steps 4", cpu = "--size 256 --steps 4", what = "a step of %d x %d points", more = function(a) return side_of(a) end },
  { program = "sph", number = 5, name = "push", text = sph, written = { 5, 6 }, gpu = "--particles 1000000 --seconds 0.002",
    cpu = "--particles 3000 --seconds 0.02", what = "the forces on %d particles",
    more = function(_, n)
      local gap = 0.7 / math.sqrt(n)
      local reach = 2.4 * gap
      return gap, reach, 2 // reach + 1 | 0, 1 // reach + 1 | 0
    end },
  { program = "boids_grid", number = 4, name = "fly", text = boids, written = { 4, 5 }, gpu = "--boids 1000000 --steps 20",
    cpu = "--boids 2000 --steps 5", what = "a step of %d boids",
    more = function(a, n) return a[6], 6 * (n / 2000) ^ (1 / 3), a[3]:numel() - 1 end, scalars = 1 },
  { program = "path_tracer", number = 1, name = "trace", text = path, written = { 1 }, gpu = "--width 1280 --height 720 --samples 4",
    cpu = "--width 96 --height 54 --samples 4", what = "a ray through each of %d x %d pixels", mean = true,
    more = function(a) return a[4], a[1]:size(1), a[1]:size(2), a[2]:size(1), 6 end, scalars = 1 },
}

-- Runs the program; gives its kernel, and the grid and arguments that it was called with last.
local function last_call(case)
  local made, last = 0, nil
  rawset(tide, "kernel", setmetatable({}, { __index = kernel, __call = function(_, ...)
    local k = kernel(...)
    made = made + 1
    if made ~= case.number then return k end
    return function(grid, ...)
      last = { kernel = k, grid = grid, args = { ... } }
      return k(grid, ...)
    end
  end }))
  local before_arg, before_print, picture = arg, print, os.tmpname()
  arg, print = { [0] = here .. "../examples/kernels/" .. case.program .. ".lua" }, function() end
  for word in (gpu and case.gpu or case.cpu):gmatch "%S+" do arg[#arg + 1] = word end
  for _, word in ipairs { "--device", gpu and "cuda" or "cpu", "--out", picture } do arg[#arg + 1] = word end
  local ok, e = pcall(dofile, arg[0])
  arg, print = before_arg, before_print
  rawset(tide, "kernel", kernel)
  os.remove(picture)
  assert(ok, e)
  return last
end

local function sync() if gpu then cuda.synchronize() end end

-- Milliseconds of a call of each, in turns.
local function time(lua, c)
  local times = { {}, {} }
  for round = 0, 9 do
    for n, fn in ipairs { lua, c } do
      sync()
      local timer = gpu and cuda.Timer() or tide.Timer()
      for _ = 1, 10 do fn() end
      times[n][round] = timer:time().real * 100
    end
  end
  return bench.median(times[1]), bench.median(times[2]) -- without the first round
end

for _, case in ipairs(cases) do
  local last = last_call(case)
  local sizes = type(last.grid) == "table" and last.grid or { last.grid }
  local count = sizes[1] * (sizes[2] or 1)
  local by_hand = cuda.compile_kernel(head .. case.text, case.name)
  local block = { grid = (count + 255) // 256, block = 256 }
  local function arguments() -- of one of the two: with its own copies of what is written
    local args = { table.unpack(last.args) }
    for _, n in ipairs(case.written) do args[n] = args[n]:clone() end
    return args
  end
  local ours, theirs = arguments(), arguments()
  local given = { table.unpack(theirs, 1, #theirs - (case.scalars or 0)) }
  for _, x in ipairs { case.more(theirs, count) } do given[#given + 1] = x end
  local function lua() last.kernel(last.grid, table.unpack(ours)) end
  local function c() by_hand(block, count, table.unpack(given)) end
  lua()
  last.kernel:wait()
  c()
  for _, n in ipairs(case.written) do
    local a, b = ours[n]:to(tide.float32), theirs[n]:to(tide.float32)
    local off
    if case.mean then -- of light, which is only as much the same as two samples are
      off = 0.05 * math.abs(a:mean():item() / b:mean():item() - 1)
    else
      off = (a - b):abs():max():item() / b:abs():max():item()
    end
    assert(off < 2e-3, ("%s: argument %d differs by %g of its largest"):format(case.program, n, off))
  end
  local lua_time, c_time = time(lua, c)
  print(("%s\t%s\t%.3g\t%.3g\t%s"):format(case.program, case.what:format(sizes[1], sizes[2]), lua_time, c_time, device))
end
