-- ci: --steps 60 --size 256 --quiet --device cpu --out ci-wave.png
--
-- Waves on a sheet of 1024 x 1024 points: they pass a double slit, are bent by a lens of glass and broken by
-- pillars.  Shown in the terminal while they run, and written as a picture at the end.
--
--   tide wave.lua [--steps 1400] [--size 1024] [--every 20] [--device cpu|cuda] [--graph] [--out wave.png] [--quiet]
--
-- What to look at as a newcomer: `views_of` (a field and its four neighbors are views of one block of memory),
-- `advance` (a step of physics in six operations that allocate nothing), and the main loop, where one stream computes
-- while a second one shrinks, colours and copies the last frame to pinned memory, ordered by events.  With --graph all
-- steps of a frame are recorded once and replayed by one call: what differs between frames is in `strengths`, memory
-- that is overwritten before each replay.
local tide = require "tide"
tide.manual_seed(1)
local here = arg[0]:match("^(.*/)") or "./"
package.path = here .. "lib/?.lua;" .. package.path
local Terminal = require "terminal"

local args = tide.cmdline("Waves through slits and a lens")
  :option("steps", 1400, "how many steps of time")
  :option("size", 1024, "points along each side")
  :option("every", 20, "steps between two pictures in the terminal, at least 2")
  :option("device", tide.cuda.is_available() and "cuda" or "cpu", "where to compute: cpu, cuda, cuda:1, ...")
  :option("out", "wave.png", "the picture to write")
  :flag("graph", "on a GPU, replay the steps of a frame as one graph")
  :flag("quiet", "nothing in the terminal but the figures")
  :parse(arg)
local size, every = args.size, math.max(2, args.every)
if size < 64 then
  error(("size: got %s, expected at least 64"):format(size), 0)
end
local real = { dtype = tide.float32, device = tide.device(args.device) }
local on_gpu = real.device.type == "cuda"
if args.graph and not on_gpu then
  error("graph: needs a GPU, got --device " .. args.device, 0)
elseif args.graph then
  every = every + every % 2 -- the two fields change roles in each step: a replay has to leave them as it found them
end
local frames = math.ceil(args.steps / every)

-- ---------------------------------------------------------------- the scene

-- Shapes are given for a sheet of 1024 and scaled; each is 1 inside, 0 outside, and soft over one point at its edge.
local unit = size / 1024
local across = (tide.arange(size, real) / unit):view(1, size)
local down = (tide.arange(size, real) / unit):view(size, 1)

local function soft(distance_inside)
  return (distance_inside * unit + 0.5):clamp_ { min = 0, max = 1 }
end

local function disc(x, y, radius)
  return soft(radius - ((across - x):square() + (down - y):square()):sqrt())
end

local function box(x, y, width, height)
  return tide.minimum(soft(width / 2 - (across - x):abs()), soft(height / 2 - (down - y):abs()))
end

local wall = tide.zeros(size, size, real)
for _, shape in ipairs { box(270, 30, 12, 140), box(270, 255, 12, 190), box(270, 482, 12, 144), disc(800, 720, 26),
  disc(870, 640, 26), disc(870, 800, 26), disc(800, 880, 26), disc(800, 560, 26) } do
  wall = tide.maximum(wall, shape)
end
local glass = tide.minimum(disc(290, 765, 250), disc(610, 765, 250))
local edge = tide.minimum(tide.minimum(across, 1023 - across), tide.minimum(down, 1023 - down))
local friction = 0.125 * (1 - edge / 84):clamp_({ min = 0 }):square() -- swallows what leaves the sheet

-- The wave equation with friction, u'' = c^2 (the Laplacian of u) - 2 f u', stepped as
--   (1 + f) next = 2 now - (1 - f) last + k (up + down + left + right - 4 now),   k = c^2 in points per step,
-- and nothing where there is wall.  All that does not change is multiplied out beforehand:
--   next = last * of_last + now * of_now + neighbors * of_near
local k = 0.45 / (1 + 0.6 * glass):square() -- waves are 1.6 times slower in glass
local open = (1 - wall) / (1 + friction)
local function inside(field)
  return field:narrow(1, 2, size - 2):narrow(2, 2, size - 2)
end
local of_last, of_now, of_near = inside(open * (friction - 1)), inside(open * (2 - 4 * k)), inside(open * k)

local speed, wavelength = math.sqrt(0.45), 32 * unit
local turn = 2 * math.pi * speed / wavelength -- radians a step
local times = tide.arange(1, frames * every + 1, { dtype = tide.float64, device = real.device })
local all_strengths = ((times * turn):sin() * (times / 120):clamp_ { max = 1 } * (2 * speed * turn)):to(real.dtype)
local strengths = tide.empty(every, real) -- of the source, in each step of this frame
local strength = {}
for i = 1, every do
  strength[i] = strengths:narrow(1, i, 1)
end
local front = (-(((down - 512) / 420) ^ 6)):exp_():view(size):narrow(1, 2, size - 2)

-- ---------------------------------------------------------------- physics

local function views_of(field)
  local function window(row, column)
    return field:narrow(1, row, size - 2):narrow(2, column, size - 2)
  end
  return {
    field = field, here = window(2, 2), above = window(1, 2), below = window(3, 2), left = window(2, 1),
    right = window(2, 3), source = window(2, 2):select(2, math.floor(96 * unit)),
  }
end

local now, next_field = views_of(tide.zeros(size, size, real)), views_of(tide.zeros(size, size, real))
local near = tide.empty(size - 2, size - 2, real)
local into_near = { out = near }

local function advance(i)
  tide.add(now.above, now.below, into_near)
  near:add_(now.left):add_(now.right)
  next_field.here:mul_(of_last):addcmul_(now.here, of_now):addcmul_(near, of_near)
  next_field.source:addcmul_(front, strength[i])
  now, next_field = next_field, now
end
local bytes_per_step = (3 + 3 + 3 + 3 + 4 + 4) * near:nbytes() -- operands read and written by the six operations

-- ---------------------------------------------------------------- colours

-- From ice over night to fire; each entry is where it stands, from -1 to 1, and red, green, blue.
local STOPS = { { -1, 0.80, 0.98, 1.00 }, { -0.6, 0.16, 0.66, 0.94 }, { -0.25, 0.05, 0.24, 0.52 },
  { 0, 0.02, 0.03, 0.07 }, { 0.25, 0.46, 0.09, 0.22 }, { 0.6, 0.96, 0.44, 0.14 }, { 1, 1.00, 0.96, 0.74 } }
local ramp, stop = {}, 1
for i = 0, 255 do
  local value = i / 127.5 - 1
  while value > STOPS[stop + 1][1] do
    stop = stop + 1
  end
  local a, b = STOPS[stop], STOPS[stop + 1]
  local part = (value - a[1]) / (b[1] - a[1])
  ramp[i + 1] = { a[2] + part * (b[2] - a[2]), a[3] + part * (b[3] - a[3]), a[4] + part * (b[4] - a[4]) }
end
ramp = tide.tensor(ramp, real) -- [256, 3]

-- Heights to colours: each height becomes an index into the ramp.  [rows, columns] -> [rows, columns, 3]
local function colours_of(height)
  local places = (height * 64 + 128.5):clamp_({ min = 1, max = 256 }):long()
  return ramp[places:view(-1)]:view(height:size(1), height:size(2), 3)
end

local function blend(image, mask, colour)
  mask = mask:unsqueeze(3)
  return image * (1 - mask) + mask * tide.tensor(colour, real)
end

-- For the terminal: the mean of every square block of the sheet, with the walls, as bytes.
local pixels = math.min(Terminal.columns(), 120, size) // 2 * 2
local block = size // pixels
local function blocks_of(field)
  local whole = field:narrow(1, 1, pixels * block):narrow(2, 1, pixels * block)
  return whole:unflatten(2, { pixels, block }):unflatten(1, { pixels, block }):mean({ 2, 4 })
end
local small_wall, small_glass = blocks_of(wall), blocks_of(glass)
local function thumbnail() -- brighter, for the mean takes from the crests
  local image = blend(colours_of(1.6 * blocks_of(now.field)), small_glass * 0.12, { 0.75, 0.9, 1 })
  return (blend(image, small_wall, { 0.55, 0.57, 0.62 }) * 255):byte():view(pixels, pixels * 3)
end

-- For the file: lit from the upper left as if the heights were hills.
local function picture()
  local slope = tide.zeros(size, size, real)
  inside(slope):copy_((now.right - now.left) + (now.below - now.above))
  local light = (1 + 0.9 * slope):clamp_ { min = 0.45, max = 1.9 }:unsqueeze(3)
  local image = blend(colours_of(now.field) * light, glass * 0.10, { 0.75, 0.9, 1 })
  image = blend(image, wall, { 0.42, 0.45, 0.52 })
  return (image * 255 + tide.rand_like(image)):clamp_({ min = 0, max = 255 }):byte()
end

-- ---------------------------------------------------------------- the main loop

-- On the CPU there are no streams, and everything simply happens in order.
local compute = on_gpu and tide.cuda.Stream(real.device) or nil
local painter = on_gpu and tide.cuda.Stream(real.device) or nil
local Event = tide.cuda.Event
local computed, seen, arrived = on_gpu and Event(), on_gpu and Event(), on_gpu and Event()
local pinned = tide.empty(pixels, pixels * 3, { dtype = tide.uint8, device = "cpu", pin_memory = on_gpu })
local timer, busy = tide.Timer(), 0
local marks = {} -- on the GPU, pairs of events around the physics of each frame
local live = not args.quiet and Terminal.is_tty(1)

if on_gpu then
  compute:wait_stream(tide.cuda.current_stream(real.device)) -- the scene was built there
  painter:wait_stream(tide.cuda.current_stream(real.device))
end

local graph = args.graph and tide.cuda.CUDAGraph()
if graph then
  tide.cuda.graph(graph, { stream = compute }, function() -- nothing in here is executed, only noted
    for i = 1, every do
      advance(i)
    end
  end)
end

local function show(frame)
  if on_gpu then
    arrived:synchronize() -- the host waits for the copy alone; the next frame is being computed meanwhile
  end
  io.write(frame > 1 and ("\27[%dA"):format(pixels // 2) or "", Terminal.half_blocks(pinned:totable()))
end

for frame in tide.progress(frames, "frames", { show = not args.quiet and not live and nil }) do
  tide.cuda.stream(compute, function()
    local start, began = on_gpu and Event { enable_timing = true }:record(), timer:time().real
    strengths:copy_(all_strengths:narrow(1, (frame - 1) * every + 1, every))
    if graph then
      compute:wait_event(seen) -- the painter has read the last frame
      graph:replay()
    else
      for i = 1, every do
        if i == 2 and on_gpu and frame > 1 then
          compute:wait_event(seen) -- this step overwrites the field that the painter reads
        end
        advance(i)
      end
    end
    if on_gpu then
      marks[frame] = { start, Event { enable_timing = true }:record() }
      computed:record()
    end
    busy = busy + timer:time().real - began
  end)
  if live and frame > 1 then
    show(frame - 1)
  end
  tide.cuda.stream(painter, function()
    if on_gpu then
      painter:wait_event(computed)
    end
    local image = thumbnail()
    if on_gpu then
      seen:record()
    end
    pinned:copy_(image, { non_blocking = true })
    if on_gpu then
      arrived:record()
    end
  end)
end

if on_gpu then
  tide.cuda.synchronize(real.device)
  busy = 0
  for _, pair in ipairs(marks) do
    busy = busy + pair[1]:elapsed_time(pair[2]) / 1000
  end
end
if live then
  show(frames)
elseif not args.quiet then
  io.write(Terminal.ascii(pinned:totable()))
end
local steps = frames * every
print(("%d steps of %d x %d points on %s in %.2f s: %.0f steps/s, %.1f GB/s"):format(steps, size, size, args.device,
  busy, steps / busy, steps * bytes_per_step / busy / 1e9))
tide.save_png(args.out, picture():cpu())
print("wrote " .. args.out)
