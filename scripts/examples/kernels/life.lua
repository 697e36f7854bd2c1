-- ci: --size 96 --steps 60 --device cpu --out ci-life.png
--
-- Conway's Game of Life as one kernel: a cell lives where three neighbors do, or two and it lived before. What has died
-- glows on for a while, so that the picture shows where gliders came from.
--
--   tide life.lua [--size 512] [--steps 600] [--device cpu|cuda] [--out life.png]
local tide = require "tide"
local args = tide.cmdline("Life, and what it leaves behind"):option("size", 512, "cells along each side")
  :option("steps", 600, "generations"):option("device", tide.cuda.is_available() and "cuda" or "cpu")
  :option("out", "life.png", "the picture to write"):parse(arg)
local size = args.size

-- age: how many generations a cell has lived, or, below 0, how long ago it died.
local step = tide.kernel(function(i, j, age, next_age)
  local n, around = #age, 0
  for di = -1, 1 do
    for dj = -1, 1 do
      local near = age[(i + di - 1) % n + 1][(j + dj - 1) % n + 1]
      if near > 0 and (di ~= 0 or dj ~= 0) then around = around + 1 end
    end
  end
  local now = age[i][j]
  if around == 3 or around == 2 and now > 0 then
    next_age[i][j] = math.max(now, 0) + 1
  else
    next_age[i][j] = math.min(now, 0) - 1
  end
end)

-- A cell is a square of `scale` points: white when young, green and blue as it grows old, embers when it is gone.
local paint = tide.kernel(function(i, j, age, picture, scale)
  local a = age[(i - 1) // scale + 1][(j - 1) // scale + 1]
  local colour = tide.vec3(0.02, 0.025, 0.05)
  if a > 0 then
    local old = 1 - math.exp(-(a - 1) / 12)
    colour = tide.vec3(1.0, 1.0, 0.85):mix(tide.vec3(0.16, 0.62, 0.78), old)
  else
    local gone = math.exp(a / 25)
    colour = colour + tide.vec3(0.85, 0.26, 0.10) * (gone * gone) + tide.vec3(0.20, 0.05, 0.25) * gone
  end
  local border = (i - 1) % scale == 0 or (j - 1) % scale == 0
  if scale > 3 and border then colour = colour * 0.72 end
  picture[i][j] = colour:clamp(0, 1) * 255
end)

-- A soup in the middle, and gliders that come towards it from the corners.
local soup = tide.kernel(function(i, j, age, seed)
  local n = #age
  local far = tide.vec2(i - n / 2, j - n / 2):length()
  age[i][j] = far < n * 0.22 and tide.random.uniform(seed, i, j) < 0.36 and 1 or -200
end)
local glider = { { 0, 1 }, { 1, 2 }, { 2, 0 }, { 2, 1 }, { 2, 2 } }

local int32 = { dtype = tide.int32, device = args.device }
local age, next_age = tide.zeros(size, size, int32), tide.zeros(size, size, int32)
soup({ size, size }, age, 11)
for at = 6, size // 3, 14 do
  for _, cell in ipairs(glider) do
    age[{ at + cell[1], at // 2 + cell[2] }] = 1 -- down to the right
    age[{ size - at - cell[1], size - at // 2 - cell[2] }] = 1 -- and up to the left
  end
end
for _ in tide.progress(args.steps, "generations") do
  step({ size, size }, age, next_age)
  age, next_age = next_age, age
end
local scale = math.max(1, 768 // size)
local picture = tide.empty({ size * scale, size * scale, 3 }, { dtype = tide.uint8, device = args.device })
paint({ size * scale, size * scale }, age, picture, scale)
tide.save_png(args.out, picture)
print(("life: %d cells live after %d generations, %s"):format(age:gt(0):sum():item(), args.steps, args.out))
