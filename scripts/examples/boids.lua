-- ci: --boids 1500 --steps 160 --width 640 --quiet --device cpu --out ci-boids.png
--
-- Boids (Craig Reynolds, 1987): each bird sees those near it and does three things, keeps its distance, flies as they
-- fly and stays with them. Flocks come of it. The picture is what their lights leave behind.
--
--   tide boids.lua [--boids 8192] [--steps 500] [--width 1600] [--device cpu|cuda] [--out boids.png] [--quiet]
--
-- What to look at as a newcomer: lib/grid.lua, where a sort by cell makes a neighborhood three ranges of memory;
-- `fly`, the three rules over a table [boids, neighbors] at once; `shine`, which adds four soft pixels for each bird by
-- index_add_.
local tide = require "tide"
package.path = (arg[0]:match("^(.*/)") or "./") .. "lib/?.lua;" .. package.path
local Grid = require "grid"

local args = tide.cmdline("Flocks of birds")
  :option("boids", 8192, "how many birds")
  :option("steps", 500, "how many steps of time")
  :option("width", 1600, "of the picture, in pixels; it is 16:9")
  :option("device", tide.cuda.is_available() and "cuda" or "cpu", "where to compute: cpu, cuda, cuda:1, ...")
  :option("out", "boids.png", "the picture to write")
  :flag("quiet", "says nothing but the rate")
  :parse(arg)
for _, name in ipairs{"boids", "steps", "width"} do
  if math.type(args[name]) ~= "integer" or args[name] < 1 then
    error(("%s: got %s, expected a positive integer"):format(name, args[name]), 0)
  end
end
local real = {device = args.device}
tide.manual_seed(7)

local N, WIDTH, HEIGHT = args.boids, 16, 9
local SIGHT = math.max(0.12, math.sqrt(WIDTH * HEIGHT / N) * 1.1) -- how far a bird sees: about four neighbors at first
local SPEED, NEAR = 1.6, 0.45 * SIGHT
local dt = 0.12 * SIGHT / SPEED * 2

local place = tide.rand(N, 2, real) * tide.tensor({WIDTH, HEIGHT}, real)
local angle = tide.rand(N, real) * (2 * math.pi)
local speed = tide.stack({angle:cos(), angle:sin()}, 2) * SPEED -- [N, 2]
local grid = Grid.new{width = WIDTH, height = HEIGHT, cell = SIGHT, most = 16, device = args.device}
local box = tide.tensor({WIDTH, HEIGHT}, real)

-- One step of all birds.
local function fly()
  local order = grid:sort(place)
  place, speed = place[order], speed[order]
  local near, there = grid:neighbors()
  local away = place:unsqueeze(2) - place[near] -- [N, neighbors, 2]
  local distance = away:square():sum(3):sqrt()
  local sees = (there * distance:lt(SIGHT) * distance:gt(0)):float()
  local count = sees:sum(2, {keepdim = true}):clamp_{min = 1}

  local mean_speed = (speed[near] * sees:unsqueeze(3)):sum(2) / count
  local to_middle = -(away * sees:unsqueeze(3)):sum(2) / count
  local crowd = (sees * (1 - distance / NEAR):clamp_{min = 0} / (distance + 1e-6)):unsqueeze(3)
  local apart = (away * crowd):sum(2)
  local alone = sees:sum(2, {keepdim = true}):eq(0)
  mean_speed = tide.where(alone, speed, mean_speed)

  -- A soft push back from the edges of the box, stronger the nearer they are.
  local low, high = (1 - place / 0.9):clamp_{min = 0}, (1 - (box - place) / 0.9):clamp_{min = 0}
  local push = (mean_speed - speed) * 2.2 + to_middle * (1.3 * SPEED / SIGHT) + apart * (7.0 * SPEED)
    + (low - high) * (9 * SPEED)
  speed:add_(push * dt)
  local fast = speed:square():sum(2, {keepdim = true}):sqrt()
  speed:mul_(fast:clamp(0.7 * SPEED, 1.25 * SPEED) / (fast + 1e-6))
  place:add_(speed * dt):clamp_{min = 0.001}
  place = tide.minimum(place, box - 0.001)
end

local width, height = args.width, args.width * HEIGHT // WIDTH
local light = tide.zeros(width * height, 3, real)
local phases = tide.tensor({0.0, 2.1, 4.2}, real)

-- Adds the birds' lights as they were `ago` seconds before, coloured by where they fly to, each spread over the four
-- pixels around it.
local function shine(gain, ago)
  local at = (place - speed * ago) * (width / WIDTH) - 0.5
  local corner = at:floor()
  local part = at - corner
  local heading = tide.atan2(speed:select(2, 2), speed:select(2, 1)):unsqueeze(2)
  local colour = ((heading + phases):cos() * 0.5 + 0.55) * gain
  for dx = 0, 1 do
    for dy = 0, 1 do
      local column, row = corner:select(2, 1) + dx, corner:select(2, 2) + dy
      local share = (part:select(2, 1) - (1 - dx)):abs() * (part:select(2, 2) - (1 - dy)):abs()
      local pixel = row:clamp(0, height - 1) * width + column:clamp(0, width - 1) + 1
      light:index_add_(1, pixel:long(), colour * share:unsqueeze(2))
    end
  end
end

local timer = tide.Timer()
for step in tide.progress(args.steps, "flying", { show = not args.quiet and nil }) do
  fly()
  local left = args.steps - step
  if left < 140 then
    for part = 0, 2 do -- lines, not dots; what was long ago is dim
      shine(0.008 + 0.3 * math.exp(-(left + part / 3) / 30), part / 3 * dt)
    end
  end
end
shine(5, 0)
if tide.device(args.device).type == "cuda" then
  tide.cuda.synchronize()
end
local took = timer:time().real
print(("%d birds, %d steps on %s in %.2f s: %.0f steps/s"):format(N, args.steps, args.device, took, args.steps / took))

local gain = 1.2 * width * width / 2.56e6
local sky = tide.linspace(0, 1, height, real):view(-1, 1, 1) * tide.tensor({0.012, 0.008, 0.024}, real) + 0.002
local image = (light:view(height, width, 3) * gain + sky)
local shown = (1 - (-image):exp_()):pow_(1 / 2.2) * 255
tide.save_png(args.out, shown:clamp_{min = 0, max = 255}:byte():cpu())
print("wrote " .. args.out)
