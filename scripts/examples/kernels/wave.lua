-- ci: --size 128 --steps 700 --device cpu --out ci-kernel-wave.png
--
-- Waves on water: a step of time is one kernel, where each point looks at its four neighbors. Drops fall, the
-- waves meet an island and a shoal, over which they are slower and bend.
--
--   tide wave.lua [--size 1024] [--steps 700] [--device cpu|cuda] [--out wave.png]
local tide = require "tide"
local args = tide.cmdline("Waves around an island"):option("size", 1024, "points along each side")
  :option("steps", 700, "steps of time, for a size of 1024"):option("device", tide.cuda.is_available() and "cuda" or "cpu")
  :option("out", "wave.png", "the picture to write"):parse(arg)
local size = args.size

-- How deep the water is, from 0 on land to 1, at a place from (0, 0) to (1, 1).
local function depth(y, x)
  local island = tide.vec2(x - 0.62, y - 0.40):length() + 0.012 * math.sin(5 * math.atan(y - 0.40, x - 0.62))
  local shoal = tide.vec2((x - 0.30) * 0.8, y - 0.72):length()
  local deep = math.min(math.max((island - 0.10) * 9, 0.0), 1.0)
  return deep * (1 - 0.75 * math.exp(-(shoal / 0.12) ^ 2))
end

local pour = tide.kernel(function(i, j, h, last, ground, seed)
  local n = #h
  local y, x = (i - 0.5) / n, (j - 0.5) / n
  local height = 0.0
  for k = 1, 5 do
    local drop = tide.vec2(0.08 + 0.84 * tide.random.uniform(seed, k, 1), 0.08 + 0.84 * tide.random.uniform(seed, k, 2))
    local far = (tide.vec2(x, y) - drop):length() * (110 - 12 * k)
    height = height + math.exp(-far * far) * (1 + k / 3)
  end
  h[i][j] = height
  last[i][j] = height
  ground[i][j] = depth(y, x)
end)

-- Leapfrog: the next height from this one, the last one and the neighbors; the sheet swallows what comes to its edge.
local step = tide.kernel(function(i, j, h, last, ground)
  local n = #h
  local here, k = h[i][j], 0.45 * ground[i][j]
  local up, down = h[math.max(i - 1, 1)][j], h[math.min(i + 1, n)][j]
  local left, right = h[i][math.max(j - 1, 1)], h[i][math.min(j + 1, n)]
  local edge = math.min(math.min(i, n + 1 - i), math.min(j, n + 1 - j)) / n
  local kept = 0.9995 - 0.06 * math.max(1 - edge * 14, 0.0)
  last[i][j] = kept * (here + (here - last[i][j]) * kept + k * (up + down + left + right - 4 * here))
end)

-- Water as the sun sees it from the side: the slope decides how bright, the depth how green.
local paint = tide.kernel(function(i, j, h, ground, picture, strength)
  local n = #h
  local dx = (h[i][math.min(j + 1, n)] - h[i][math.max(j - 1, 1)]) * strength
  local dy = (h[math.min(i + 1, n)][j] - h[math.max(i - 1, 1)][j]) * strength
  local normal = tide.vec3(-dx, -dy, 1):normalize()
  local light = math.max(normal:dot(tide.vec3(-0.45, -0.55, 0.70)), 0.0)
  local deep = ground[i][j]
  local water = tide.vec3(0.20, 0.58, 0.56):mix(tide.vec3(0.03, 0.19, 0.36), deep)
  local colour = water * (0.35 + 0.95 * light) + 0.9 * light ^ 30
  if deep < 0.02 then
    local grain = 0.9 + 0.1 * tide.random.uniform(1, i, j)
    colour = tide.vec3(0.86, 0.78, 0.58) * grain * (0.75 + 0.25 * light)
  elseif deep < 0.12 then
    colour = colour:mix(tide.vec3(0.95, 0.97, 0.95), 0.5) -- surf
  end
  picture[i][j] = colour:clamp(0, 1) * 255
end)

local real = { dtype = tide.float32, device = args.device }
local h, last, ground = tide.zeros(size, size, real), tide.zeros(size, size, real), tide.zeros(size, size, real)
local picture = tide.empty({ size, size, 3 }, { dtype = tide.uint8, device = args.device })
local grid = { size, size }
pour(grid, h, last, ground, 21)
for _ in tide.progress(args.steps * size // 1024, "steps") do
  step(grid, h, last, ground)
  h, last = last, h
end
paint(grid, h, ground, picture, 0.06 * size)
tide.save_png(args.out, picture)
print(("wave: heights from %.3f to %.3f, %s"):format(h:min():item(), h:max():item(), args.out))
