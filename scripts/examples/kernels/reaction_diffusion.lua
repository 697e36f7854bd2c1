-- ci: --size 96 --steps 400 --device cpu --out ci-reaction-diffusion.png
--
-- Gray and Scott's reaction: u feeds v, which eats it, makes more of itself and dies. Both spread. How fast u comes and v
-- goes differs from place to place, so that one picture holds spots, worms, mazes and waves.
--
--   tide reaction_diffusion.lua [--size 512] [--steps 8000] [--device cpu|cuda] [--out reaction_diffusion.png]
local tide = require "tide"
local args = tide.cmdline("Patterns out of two substances"):option("size", 512, "points along each side")
  :option("steps", 8000, "steps of time"):option("device", tide.cuda.is_available() and "cuda" or "cpu")
  :option("out", "reaction_diffusion.png", "the picture to write"):parse(arg)
local size = args.size

-- The field at a place with the edges joined, and what it lacks of its neighbors' mean.
local function lack(f, i, j)
  local n = #f
  local up, down, left, right = (i - 2) % n + 1, i % n + 1, (j - 2) % n + 1, j % n + 1
  return 0.2 * (f[up][j] + f[down][j] + f[i][left] + f[i][right])
    + 0.05 * (f[up][left] + f[up][right] + f[down][left] + f[down][right]) - f[i][j]
end

local react = tide.kernel(function(i, j, u, v, next_u, next_v)
  local n = #u
  local feed = 0.014 + 0.050 * (j - 1) / n -- more from left to right
  local kill = math.sqrt(feed) / 2 - feed + 0.007 * (i - 1) / n - 0.001 -- and, around where patterns end, from top to bottom
  local a, b = u[i][j], v[i][j]
  local eaten = a * b * b
  next_u[i][j] = a + lack(u, i, j) - eaten + feed * (1 - a)
  next_v[i][j] = b + 0.5 * lack(v, i, j) + eaten - (feed + kill) * b
end)

local sow = tide.kernel(function(i, j, u, v)
  local spot = tide.random.uniform(4, i // 8, j // 8) < 0.12
  u[i][j] = spot and 0.5 or 1.0
  v[i][j] = spot and 0.25 + 0.1 * tide.random.uniform(5, i, j) or 0.0
end)

-- v as a height that light falls on from the upper left, from ink over jade to ivory.
local paint = tide.kernel(function(i, j, v, picture, scale)
  local n = #v
  local r, c = (i - 1) // scale + 1, (j - 1) // scale + 1
  local h = math.min(v[r][c] * 2.6, 1.0)
  local slope = tide.vec3(v[r][(c - 2) % n + 1] - v[r][c % n + 1], v[(r - 2) % n + 1][c] - v[r % n + 1][c], 0.12):normalize()
  local light = math.max(slope:dot(tide.vec3(-0.5, -0.6, 0.62)), 0.0)
  local ink, jade, ivory = tide.vec3(0.03, 0.05, 0.12), tide.vec3(0.06, 0.47, 0.44), tide.vec3(1.0, 0.93, 0.78)
  local colour = h < 0.5 and ink:mix(jade, h * 2) or jade:mix(ivory, h * 2 - 1)
  local shine = light ^ 24 * 0.5 * h
  picture[i][j] = (colour * (0.35 + light) + shine):clamp(0, 1) * 255
end)

local real = { dtype = tide.float32, device = args.device }
local u, v, next_u, next_v = tide.zeros(size, size, real), tide.zeros(size, size, real), tide.zeros(size, size, real), tide.zeros(size, size, real)
sow({ size, size }, u, v)
for _ in tide.progress(args.steps // 2, "reacting") do
  react({ size, size }, u, v, next_u, next_v)
  react({ size, size }, next_u, next_v, u, v)
end
local scale = math.max(1, 768 // size)
local picture = tide.empty({ size * scale, size * scale, 3 }, { dtype = tide.uint8, device = args.device })
paint({ size * scale, size * scale }, v, picture, scale)
tide.save_png(args.out, picture)
print(("reaction_diffusion: %.4f of v on average after %d steps, %s"):format(v:mean():item(), args.steps, args.out))
