-- ci: --boids 600 --steps 40 --device cpu --out ci-boids.png
--
-- A flock in space that has no end: each bird looks only at the birds of the 27 cells around it. A cell's number is hashed
-- into a table, so that the grid needs no bounds; counting by atomic operations sorts the birds by it in each step.
--
--   tide boids_grid.lua [--boids 50000] [--steps 400] [--device cpu|cuda] [--out boids_grid.png]
local tide = require "tide"
local args = tide.cmdline("A flock, by a hashed grid"):option("boids", 50000):option("steps", 400, "steps of time")
  :option("device", tide.cuda.is_available() and "cuda" or "cpu"):option("out", "boids_grid.png", "the picture to write"):parse(arg)
local n = args.boids
local world = 6 * (n / 2000) ^ (1 / 3) -- the space grows with the flock
local buckets = 1
while buckets < 2 * n do buckets = buckets * 2 end

local function bucket_of(x, y, z) -- of a cell, by large primes
  return ((x * 73856093) ~ (y * 19349663) ~ (z * 83492791)) & (buckets - 1)
end
local function cell_of(v) return math.floor(v.x), math.floor(v.y), math.floor(v.z) end

local hatch = tide.kernel(function(k, p, v)
  local z, turn = 1 - 2 * tide.random.uniform(1, k), 2 * math.pi * tide.random.uniform(2, k)
  local r = math.sqrt(1 - z * z)
  local out = tide.vec3(r * math.cos(turn), r * math.sin(turn), z)
  local place = out * (world * (0.3 + 0.7 * tide.random.uniform(3, k)))
  p[k] = place
  v[k] = tide.vec3(-place.y, place.x, 0.3 * world * math.sin(turn)):normalize() * 2 -- around an axis
end)

local count = tide.kernel(function(k, p, counts, place)
  local x, y, z = cell_of(tide.vec3(p[k]))
  place[k] = tide.atomic.add(counts, bucket_of(x, y, z) + 1, 1)
end)

local sort = tide.kernel(function(k, p, v, first, place, sorted_p, sorted_v)
  local x, y, z = cell_of(tide.vec3(p[k]))
  local at = first[bucket_of(x, y, z) + 1] + place[k] + 1
  sorted_p[at] = tide.vec3(p[k])
  sorted_v[at] = tide.vec3(v[k])
end)

-- Apart from those too near, along with those near, towards their middle; and home, where it is not too far from there.
local fly = tide.kernel(function(k, p, v, first, next_p, next_v, time)
  local here, speed = tide.vec3(p[k]), tide.vec3(v[k])
  local apart, along, middle, seen = tide.vec3(0), tide.vec3(0), tide.vec3(0), 0
  local x, y, z = cell_of(here)
  for dx = -1, 1 do
    for dy = -1, 1 do
      for dz = -1, 1 do
        local b = bucket_of(x + dx, y + dy, z + dz)
        for m = first[b + 1] + 1, math.min(first[b + 2], first[b + 1] + 24) do -- a crowd counts as a few
          local d = here - tide.vec3(p[m])
          local far = d:dot(d)
          if far < 1 and m ~= k then
            if far < 0.16 then apart = apart + d / (far + 0.01) end
            along, middle, seen = along + tide.vec3(v[m]), middle - d, seen + 1
          end
        end
      end
    end
  end
  local wish = apart * 0.12
  if seen > 0 then wish = wish + (along / seen - speed) * 1.6 + middle / seen * 1.1 end
  local goal = tide.vec3(math.sin(time * 0.31), 0.5 * math.sin(time * 0.47), math.cos(time * 0.23)) * (world * 0.55)
  local home = goal - here
  wish = wish + home * (0.6 / (home:length() + 0.5)) + tide.vec3(-here.z, 0, here.x) * (0.35 / world)
  speed = speed + wish * 0.03
  local fast = speed:length() + 1e-6
  speed = speed * (math.min(math.max(fast, 1.4), 3.2) / fast)
  next_p[k] = here + speed * 0.03
  next_v[k] = speed
end)

-- A stroke along the flight: near birds cover far ones, and a pixel remembers hue and light in one number.
local draw = tide.kernel(function(k, p, v, canvas, seat)
  local rows, columns = canvas.shape[1], canvas.shape[2]
  local turn = tide.quat(seat[1])
  local place, ahead = turn:rotate(tide.vec3(p[k])), turn:rotate(tide.vec3(v[k]))
  local depth = place.z + 1.9 * world
  local hue = math.floor(math.atan(v[k][3], v[k][1]) / math.pi * 127 + 128)
  for s = 0, 11 do
    local dot = place - ahead * (s * 0.012)
    local i = math.floor(rows / 2 - dot.y * rows / depth * 1.25)
    local j = math.floor(columns / 2 + dot.x * rows / depth * 1.25)
    if depth > 0.5 and i >= 1 and i <= rows and j >= 1 and j <= columns then
      local nearness = math.floor(math.min(40 * world / depth, 255.0))
      tide.atomic.max(canvas, { i, j }, nearness << 16 | (12 - s) * 20 << 8 | hue)
    end
  end
end)
local paint = tide.kernel(function(i, j, canvas, picture)
  local up = i / #canvas
  local colour = tide.vec3(0.10, 0.13, 0.26):mix(tide.vec3(0.93, 0.60, 0.42), up * up)
  local code = canvas[i][j]
  if code > 0 then
    local turn, near = (code & 255) / 128 * math.pi, math.min((code >> 16) / 22, 1.0)
    local feather = tide.vec3(0.62 + 0.38 * math.cos(turn), 0.62 + 0.38 * math.cos(turn - 2.1), 0.66 + 0.34 * math.cos(turn + 2.1))
    colour = colour:mix(feather, (code >> 8 & 255) / 250 * (0.35 + 0.65 * near))
  end
  picture[i][j] = colour:clamp(0, 1) * 255
end)

local real, int32 = { dtype = tide.float32, device = args.device }, { dtype = tide.int32, device = args.device }
local p, v, sorted_p, sorted_v = tide.zeros(n, 3, real), tide.zeros(n, 3, real), tide.zeros(n, 3, real), tide.zeros(n, 3, real)
local counts, place, first = tide.zeros({ buckets }, int32), tide.zeros({ n }, int32), tide.zeros({ buckets + 1 }, int32)
hatch(n, p, v)
local clock
for t in tide.progress(args.steps, "flying") do
  if t == args.steps // 2 + 1 then clock = args.device == "cpu" and tide.Timer() or tide.cuda.Timer() end -- all is compiled by then
  counts:zero_()
  count(n, p, counts, place)
  first:narrow(1, 2, buckets):copy_(counts:cumsum(1))
  sort(n, p, v, first, place, sorted_p, sorted_v)
  fly(n, sorted_p, sorted_v, first, p, v, t * 0.03)
end
local ms = clock and 1e3 * clock:time().real / (args.steps - args.steps // 2) or 0
local seat = tide.tensor({ { math.sin(0.25), 0, 0, math.cos(0.25) } }, real) -- looks down a little
local canvas = tide.zeros(540, 960, int32)
local picture = tide.empty({ 540, 960, 3 }, { dtype = tide.uint8, device = args.device })
draw(n, p, v, canvas, seat)
paint({ 540, 960 }, canvas, picture)
tide.save_png(args.out, picture)
print(("boids_grid: %d boids, %.2f ms a step, %.2f fast on average, %s"):format(n, ms, v:norm(2, 2):mean():item(), args.out))
