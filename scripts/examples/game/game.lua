-- game.lua: the script of game.c, which loads it again when this file changes. Try it while the game runs: another
-- COLOUR, a longer FADE, a `stir` that pushes away. What stands in tensors and counters goes on.
--
-- A fluid on a grid, which the mouse stirs, carries particles, and each particle leaves light on the picture. Places go
-- from -1 to 1 in both directions, first x, then y, and what leaves on one side comes back on the other.

local WIDTH, HEIGHT = 960, 540 -- of the picture, in pixels; where there is no time for that, a half or a third of it
local COLUMNS, ROWS = 192, 108 -- of the fluid's grid
local LEAST, MOST = 2000, 1 << 20 -- particles

local COLOUR = { 0.25, 0.8, 2.2 } -- how much red, green and blue light is worth
local FADE = 0.88 -- of the light is left after a frame
local FORCE, REACH = 60, 0.09 -- of the mouse
local CALM = 0.3 -- of the speed goes in a second
local LIFE = 400 -- frames, after which a particle begins anew somewhere
local THICK = 2e-4 -- the fluid's viscosity

local count, frames = 20000, 0 -- of particles; since the start
local place = tide.rand(2, MOST):mul_(2):sub_(1)
local velocity = tide.zeros(1, 2, ROWS, COLUMNS)
local zoom, width, height = 1, WIDTH, HEIGHT
local light = tide.zeros(height * width)

-- The middles of the grid's cells, [1, ROWS, COLUMNS, 2], as places.
local cells = tide.affine_grid(tide.tensor { { { 1.0, 0, 0 }, { 0, 1, 0 } } }, { 1, 2, ROWS, COLUMNS })
local one = tide.ones(1)

local game = { width = WIDTH, height = HEIGHT }

local function wrap(x) return x:add_(1):remainder_(2):sub_(1) end

-- Waves of the fluid, along x and y, in turns of a length of 1, and what viscosity leaves of each after a frame.
local wave_x = tide.fft.rfftfreq(COLUMNS, 2 / COLUMNS):view(1, -1)
local wave_y = tide.fft.fftfreq(ROWS, 2 / ROWS):view(-1, 1)
local wave_square = wave_x:square() + wave_y:square()
wave_square:view(-1):narrow(1, 1, 1):fill_(1)

-- Takes out what flows together or apart: of each wave the part along its direction.
local function project(dt)
  local waves = tide.fft.rfft2(velocity)
  local x, y = waves:select(2, 1), waves:select(2, 2)
  local along = (x * wave_x + y * wave_y) / wave_square
  waves:sub_(tide.stack({ along * wave_x, along * wave_y }, 2))
  waves:mul_((wave_square * (-THICK * 39.5 * dt)):exp_())
  velocity = tide.fft.irfft2(waves, { s = { ROWS, COLUMNS } })
end

-- The mouse at x, y, which moves by dx, dy in a second, takes the fluid with it.
local function stir(x, y, dx, dy, dt)
  local far = (cells:select(4, 1) - x):square_() + (cells:select(4, 2) - y):square_()
  local share = far:mul_(-1 / REACH ^ 2):exp_()
  velocity:select(2, 1):add_(share, { alpha = dx * FORCE * dt })
  velocity:select(2, 2):add_(share, { alpha = dy * FORCE * dt })
end

local function flow(dt)
  local from = wrap(cells - velocity:permute(1, 3, 4, 2) * dt)
  velocity = tide.grid_sample(velocity, from, { padding_mode = "border" }):mul_(1 - CALM * dt)
  project(dt)
end

-- Each particle moves as the pixel on which it is flows, and leaves its light there, more where it is fast.
local function carry(dt)
  local here = place:narrow(2, 1, count)
  local x, y = here:select(1, 1) + 1, here:select(1, 2) + 1
  local column, row = x:mul_(width / 2):int(), y:mul_(height / 2):int()
  local index = row:mul_(width):add_(column):add_(1):clamp_ { max = height * width }
  local flows = tide.interpolate(velocity, { size = { height, width }, mode = "bilinear" }):view(2, -1)
  local speed = flows:index_select(2, index)
  wrap(here:add_(speed, { alpha = dt }))
  local some = count // LIFE
  here:narrow(2, frames % LIFE * some + 1, some):uniform_(-1, 1)
  light:mul_(FADE):index_add_(1, index, speed:square():sum(1):sqrt_():mul_(0.4):add_(0.06))
end

-- 256 colours as the bytes of int32: red, green, blue, opaque.
local function colours()
  local level = tide.linspace(0, 4, 256)
  local out = tide.full({ 256 }, 255, { dtype = tide.int32 }):bitwise_left_shift(24)
  for i = 1, 3 do
    local part = ((1 - (level * -COLOUR[i]):exp_()) * 255):int()
    out = out + part:bitwise_left_shift(8 * i - 8)
  end
  return out
end

local function picture()
  local gain = 256 * (20000 / zoom / zoom / count) ^ 0.8
  local level = one:add(light, { alpha = gain }):clamp_ { max = 256 }:int()
  return colours():take(level):view(height, width)
end

local function resize(new)
  zoom, width, height = new, WIDTH // new, HEIGHT // new
  light = tide.zeros(height * width)
end

-- The number of particles that there is time for: `used` is the part of a frame's time that the last one took.
local function fit(used)
  if used > 0.9 then
    if count == LEAST and zoom < 3 then resize(zoom + 1) end
    count = math.max(LEAST, count * 9 // 10)
  elseif used < 0.75 then
    if count > 50000 and zoom > 1 then resize(zoom - 1) end
    count = math.min(MOST, count + count // 50 + 1)
  end
end

-- A frame: dt seconds go by, the mouse is at x, y and moves by dx, dy in a second. used: as for fit, nil: keep the
-- number. The picture, int32 [height, width], and the number of particles.
function game.update(dt, x, y, dx, dy, used)
  if used then fit(used) end
  frames = frames + 1
  stir(x, y, dx, dy, dt)
  flow(dt)
  carry(dt)
  return picture(), count
end

return game
