-- ci: --particles 600 --seconds 0.04 --device cpu --out ci-sph.png
--
-- Smoothed particle hydrodynamics: a dam of water breaks. Each step sorts the particles into a grid of cells by counting
-- with atomic operations, so that a particle finds its neighbors in nine cells; then come density, forces and a move.
--
--   tide sph.lua [--particles 10000] [--seconds 0.7] [--device cpu|cuda] [--out sph.png]
local tide = require "tide"
local args = tide.cmdline("A dam breaks"):option("particles", 10000):option("seconds", 0.7, "how long the water runs")
  :option("device", tide.cuda.is_available() and "cuda" or "cpu"):option("out", "sph.png", "the picture to write"):parse(arg)
local n, gap = args.particles, 0.7 / math.sqrt(args.particles) -- the box is 2 by 1, the water stands 0.7 by 0.7 at the left
local reach = 2.4 * gap
local columns, rows = 2 // reach + 1 | 0, 1 // reach + 1 | 0
local sound, dt = 9.0, 0.25 * gap / 9

local fill = tide.kernel(function(k, p, v)
  local side = math.ceil(math.sqrt(n))
  local r, c = (k - 1) // side + 0.5, (k - 1) % side + 0.5
  p[k] = tide.vec2(c + 0.1 * tide.random.uniform(3, k), r + 0.1 * tide.random.uniform(4, k)) * gap
  v[k] = tide.vec2(0)
end)

local function cell_of(x, y)
  local c = math.floor(math.max(math.min(x / reach, columns - 1.0), 0.0))
  local r = math.floor(math.max(math.min(y / reach, rows - 1.0), 0.0))
  return r, c
end

-- counts[cell] and which place the particle has in its cell; then, with the sums of the counts, where it goes.
local count = tide.kernel(function(k, p, counts, place)
  local r, c = cell_of(p[k][1], p[k][2])
  place[k] = tide.atomic.add(counts, r * columns + c + 1, 1)
end)
local move_to_cell = tide.kernel(function(k, p, v, first, place, sorted_p, sorted_v)
  local r, c = cell_of(p[k][1], p[k][2])
  local at = first[r * columns + c + 1] + place[k] + 1
  sorted_p[at], sorted_v[at] = tide.vec2(p[k]), tide.vec2(v[k])
end)

-- Density by the kernel (1 - (r / h)^2)^3 of two dimensions, whose integral is pi h^2 / 4.
local density = tide.kernel(function(k, p, first, rho)
  local here, sum = tide.vec2(p[k]), 0.0
  local r, c = cell_of(here.x, here.y)
  for row = math.max(r - 1, 0), math.min(r + 1, rows - 1) do
    for m = first[row * columns + math.max(c - 1, 0) + 1] + 1, first[row * columns + math.min(c + 1, columns - 1) + 2] do
      local d = here - tide.vec2(p[m])
      local q = 1 - d:dot(d) / (reach * reach)
      if q > 0 then sum = sum + q * q * q end
    end
  end
  rho[k] = sum * gap * gap * 4 / (math.pi * reach * reach)
end)

local push = tide.kernel(function(k, p, v, first, rho, next_p, next_v)
  local here, speed, force = tide.vec2(p[k]), tide.vec2(v[k]), tide.vec2(0, -9.8)
  local r, c = cell_of(here.x, here.y)
  local pressure = sound * sound * math.max(rho[k] - 1, 0.0) / rho[k]
  for row = math.max(r - 1, 0), math.min(r + 1, rows - 1) do
    local at = row * columns
    for m = first[at + math.max(c - 1, 0) + 1] + 1, first[at + math.min(c + 1, columns - 1) + 2] do
      local d = here - tide.vec2(p[m])
      local far = d:length()
      if m ~= k and far < reach and far > 0 then
        local q = 1 - far / reach
        local other = sound * sound * math.max(rho[m] - 1, 0.0) / rho[m]
        local weight = gap * gap * 8 / (math.pi * reach * reach) * q
        force = force + d * (weight * 3.2 * (pressure + other) / (far * reach))
        force = force + (tide.vec2(v[m]) - speed) * (weight * 0.35 * sound / reach) -- what is beside it takes it along
      end
    end
  end
  speed = (speed + force * dt):clamp(-0.4 * sound, 0.4 * sound)
  here = here + speed * dt
  local x, y = here.x, here.y
  if x < 0.5 * gap or x > 2 - 0.5 * gap then speed = tide.vec2(-0.3 * speed.x, speed.y) end
  if y < 0.5 * gap or y > 1 - 0.5 * gap then speed = tide.vec2(speed.x, -0.3 * speed.y) end
  next_p[k] = tide.vec2(math.min(math.max(x, 0.5 * gap), 2 - 0.5 * gap), math.min(math.max(y, 0.5 * gap), 1 - 0.5 * gap))
  next_v[k] = speed
end)

-- A drop for each particle, coloured by its speed; a pixel keeps the fastest drop on it.
local splat = tide.kernel(function(k, p, v, heat, pixels)
  local x, y, radius = p[k][1] * pixels, (1 - p[k][2]) * pixels, math.max(0.62 * gap * pixels, 0.8)
  local fast = math.min(tide.vec2(v[k]):length() / 3, 1.0)
  for i = math.max(math.floor(y - radius) + 1, 1), math.min(math.ceil(y + radius), #heat) do
    for j = math.max(math.floor(x - radius) + 1, 1), math.min(math.ceil(x + radius), heat.shape[2]) do
      local far = tide.vec2(j - 0.5 - x, i - 0.5 - y):length() / radius
      if far < 1 then tide.atomic.max(heat, { i, j }, math.floor(1 + 200 * fast + 54 * (1 - far * far))) end
    end
  end
end)
local paint = tide.kernel(function(i, j, heat, picture)
  local colour, t = tide.vec3(0.05, 0.06, 0.09):mix(tide.vec3(0.10, 0.12, 0.18), i / #heat), heat[i][j] / 255
  if t > 0 then
    colour = tide.vec3(0.03, 0.17, 0.42):mix(tide.vec3(0.10, 0.55, 0.85), math.min(t * 2, 1.0))
    if t > 0.4 then colour = colour:mix(tide.vec3(0.96, 0.99, 1.0), (t - 0.4) / 0.6) end
  end
  picture[i][j] = colour * 255
end)

local real, int32 = { dtype = tide.float32, device = args.device }, { dtype = tide.int32, device = args.device }
local p, v, sorted_p, sorted_v = tide.zeros(n, 2, real), tide.zeros(n, 2, real), tide.zeros(n, 2, real), tide.zeros(n, 2, real)
local rho, counts, place = tide.zeros({ n }, real), tide.zeros({ rows * columns }, int32), tide.zeros({ n }, int32)
local first = tide.zeros({ rows * columns + 1 }, int32) -- how many particles stand in the cells before
local behind = first:narrow(1, 2, rows * columns)
fill(n, p, v)
local steps, clock = args.seconds // dt | 0, nil
for step in tide.progress(steps, "flowing") do
  if step == steps // 2 + 1 then clock = args.device == "cpu" and tide.Timer() or tide.cuda.Timer() end -- all is compiled by then
  counts:zero_()
  count(n, p, counts, place)
  behind:copy_(counts:cumsum(1))
  move_to_cell(n, p, v, first, place, sorted_p, sorted_v)
  density(n, sorted_p, first, rho)
  push(n, sorted_p, sorted_v, first, rho, p, v)
end
local ms = clock and 1e3 * clock:time().real / (steps - steps // 2) or 0
local pixels, heat = 480, tide.zeros(480, 960, int32)
local picture = tide.empty({ pixels, 2 * pixels, 3 }, { dtype = tide.uint8, device = args.device })
splat(n, p, v, heat, pixels)
paint({ pixels, 2 * pixels }, heat, picture)
tide.save_png(args.out, picture)
print(("sph: %d particles, %.2f ms a step, density %.2f on average, %s"):format(n, ms, rho:mean():item(), args.out))
