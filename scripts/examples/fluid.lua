-- ci: --particles 1000 --steps 700 --width 640 --quiet --device cpu --out ci-fluid.png
--
-- A dam breaks: water as particles (smoothed particle hydrodynamics, after Mueller, Charypar and Gross, 2003). Each
-- particle's density is a sum over those near it, pressure pushes from where it is dense, viscosity evens out speeds.
--
--   tide fluid.lua [--particles 6000] [--steps 1400] [--width 1600] [--device cpu|cuda] [--out fluid.png] [--quiet]
--
-- What to look at as a newcomer: lib/grid.lua, where a sort by cell makes a neighborhood three ranges of memory;
-- `forces`, which sums over a table [particles, neighbors]; `picture`, where scatter_add_ of soft dots gives a surface
-- that is lit as if it were one.
local tide = require "tide"
package.path = (arg[0]:match("^(.*/)") or "./") .. "lib/?.lua;" .. package.path
local Grid = require "grid"

local args = tide.cmdline("A dam breaks")
  :option("particles", 6000, "how many particles")
  :option("steps", 1400, "how many steps of time")
  :option("width", 1600, "of the picture, in pixels; it is 16:9")
  :option("device", tide.cuda.is_available() and "cuda" or "cpu", "where to compute: cpu, cuda, cuda:1, ...")
  :option("out", "fluid.png", "the picture to write")
  :flag("quiet", "says nothing but the rate")
  :parse(arg)
for _, name in ipairs{"particles", "steps", "width"} do
  if math.type(args[name]) ~= "integer" or args[name] < 1 then
    error(("%s: got %s, expected a positive integer"):format(name, args[name]), 0)
  end
end
local real = {device = args.device}
tide.manual_seed(1)

-- ---------------------------------------------------------------- the scene: a block of water in the left of a basin

local WIDTH, HEIGHT = 16, 9
local SPACING = math.sqrt(5.2 * 7.2 / args.particles) -- of the particles at rest
local REACH = 2.2 * SPACING -- of the kernels: about 15 neighbors
local MASS = SPACING * SPACING -- the density at rest is 1
local GRAVITY, SOUND = 9.8, 55 -- sound is slower than in water, but five times faster than what moves here
local VISCOSITY = 0.9 * SPACING
local dt = 0.25 * REACH / SOUND

local rows = math.floor(7.2 / SPACING)
local number = tide.arange(args.particles, real)
local column = (number / rows):floor()
local place = (tide.stack({column, number - column * rows}, 2) + 0.5) * SPACING
place = place + (tide.rand_like(place) - 0.5) * (0.1 * SPACING)
local speed = tide.zeros_like(place)
local grid = Grid.new{width = WIDTH, height = HEIGHT, cell = REACH, most = 20, device = args.device}
local low = tide.tensor({0.5, 0.5}, real) * SPACING
local high = tide.tensor({WIDTH, HEIGHT * 3}, real) - low
local fall = tide.tensor({0, -GRAVITY}, real)
local stone, STONE = tide.tensor({9.4, 0.3}, real), 1.25 -- a round stone in the way, and its radius

-- ---------------------------------------------------------------- physics

-- The kernel poly6 in two dimensions, and the slope of the spiky one, over distances r below REACH.
local POLY6 = 4 / (math.pi * REACH ^ 8)
local SPIKY = 30 / (math.pi * REACH ^ 5)

local function forces()
  local near, there = grid:neighbors()
  local away = place:unsqueeze(2) - place[near] -- [N, neighbors, 2]
  local square = away:square():sum(3)
  local inside = (REACH * REACH - square):clamp_{min = 0} * there
  local density = (inside:pow(3)):sum(2) * (POLY6 * MASS)
  density:clamp_{min = 0.9} -- at the surface half of the neighbors are missing: no suction from that
  local pressure = (density - 1) * (SOUND * SOUND / 7)
  local over = pressure / density:square()

  local distance = square:sqrt()
  local gap = ((REACH - distance):clamp_{min = 0} * there)
  local push = gap:square() * (over:unsqueeze(2) + over[near]) * (SPIKY * MASS * 0.5) / (distance + 1e-3 * REACH)
  local drag = gap * (VISCOSITY * MASS * SOUND * 8 / REACH ^ 4) / density[near]
  local mean = (speed[near] - speed:unsqueeze(2)) * drag:unsqueeze(3)
  return (away * push:unsqueeze(3) + mean):sum(2) + fall
end

local function advance()
  local order = grid:sort(place)
  place, speed = place[order], speed[order]
  speed:add_(forces() * dt)
  place:add_(speed * dt)
  -- Walls give back a quarter of the speed.
  local out = place:lt(low):logical_or_(place:gt(high))
  speed = tide.where(out, speed * -0.25, speed)
  place = tide.minimum(tide.maximum(place, low), high)
  -- The stone takes what goes into it of the speed, and puts the particle back onto itself.
  local from = place - stone
  local distance = from:square():sum(2, {keepdim = true}):sqrt()
  local normal = from / distance
  local inside = distance:lt(STONE)
  local into = (speed * normal):sum(2, {keepdim = true}):clamp_{max = 0}
  speed = tide.where(inside, speed - normal * into, speed)
  place = tide.where(inside, stone + normal * STONE, place)
end

-- ---------------------------------------------------------------- the picture

local width, height = args.width, args.width * HEIGHT // WIDTH

-- Adds a soft dot of each particle's values, [N, channels], to a field [height * width, channels].
local function splat(values, radius)
  local field = tide.zeros(width * height, values:size(2), real)
  local scale = width / WIDTH
  local x, y = place:select(2, 1) * scale, height - place:select(2, 2) * scale
  local column, row = x:floor(), y:floor()
  for dx = -radius, radius do
    for dy = -radius, radius do
      local c, r = column + dx, row + dy
      local square = ((c + 0.5 - x):square() + (r + 0.5 - y):square()) / (radius * radius)
      local seen = square:lt(1) * c:ge(0) * c:lt(width) * r:ge(0) * r:lt(height)
      local weight = (1 - square):clamp_{min = 0}:square() * seen
      local pixel = (r:clamp(0, height - 1) * width + c:clamp(0, width - 1) + 1):long()
      field:index_add_(1, pixel, values * weight:unsqueeze(2))
    end
  end
  return field:view(height, width, -1)
end

local SOFT = 2.6 -- how far a particle's dot reaches, in spacings

local function slope(field, dim)
  local inside = field:size(dim) - 2
  local out = tide.zeros_like(field)
  out:narrow(dim, 2, inside):copy_((field:narrow(dim, 3, inside) - field:narrow(dim, 1, inside)) * 0.5)
  return out
end

local function picture()
  local fast = speed:square():sum(2, {keepdim = true}):sqrt()
  local radius = math.max(2, math.ceil(SOFT * SPACING * width / WIDTH))
  local field = splat(tide.cat({tide.ones_like(fast), fast}, 2), radius)
  local amount = field:select(3, 1)
  local quick = (field:select(3, 2) / (amount + 1e-3) / 9):clamp(0, 1):unsqueeze(3)
  local full = SOFT * SOFT * math.pi / 3 -- of the sum where particles stand at rest
  local thick = (amount / full):clamp_{max = 1.2}
  local cover = ((thick - 0.35) * 5):clamp(0, 1):unsqueeze(3)

  -- The edge of the water bends light: lit from the upper left by the slope of its thickness.
  local dx, dy = slope(thick, 2) * radius, slope(thick, 1) * radius
  local light = ((dx + dy) * 0.55):clamp(-0.35, 0.8):unsqueeze(3)
  local depth = tide.linspace(0, 1, height, real):view(-1, 1, 1)
  local deep, shallow = tide.tensor({0.01, 0.09, 0.24}, real), tide.tensor({0.05, 0.36, 0.62}, real)
  local foam = tide.tensor({0.86, 0.95, 1.0}, real)
  local water = shallow * (1 - depth) + deep * depth
  water = water * (1 - quick) + foam * quick * 0.9 + water * quick * 0.1
  water = (water + light * foam * 0.5):clamp_{min = 0}
  local wall = tide.tensor({0.93, 0.90, 0.84}, real) * (1 - 0.35 * depth)
  local across = (tide.arange(width, real) + 0.5):view(1, -1) * (WIDTH / width) - stone[1]
  local down = (tide.arange(height, real) + 0.5):view(-1, 1) * (-WIDTH / width) + (HEIGHT - stone[2])
  local square = (across:square() + down:square()) / (STONE * STONE)
  local disc = ((1 - square:sqrt()) * (STONE * width / WIDTH) + 0.5):clamp(0, 1):unsqueeze(3)
  local round = (0.55 + 0.4 * (down - across) / STONE * 0.7 + 0.3 * (1 - square):clamp_{min = 0}:sqrt()):unsqueeze(3)
  wall = wall * (1 - disc) + tide.tensor({0.52, 0.47, 0.43}, real) * round:clamp_{min = 0.1} * disc
  return ((water * cover + wall * (1 - cover)):clamp_{max = 1}:pow_(1 / 1.6) * 255):byte()
end

-- ---------------------------------------------------------------- the main loop

local timer = tide.Timer()
for step in tide.progress(args.steps, "flowing", { show = not args.quiet and nil }) do
  advance()
end
local centre = place:mean(1):totable() -- waits
local took = timer:time().real
print(("%d particles, %d steps (%.2f s) on %s in %.2f s: %.0f steps/s"):format(args.particles, args.steps,
  args.steps * dt, args.device, took, args.steps / took))
print(("the water's centre is at %.2f, %.2f"):format(centre[1], centre[2]))
tide.save_png(args.out, picture():cpu())
print("wrote " .. args.out)
