-- ci: --size 48 --steps 220 --width 480 --quiet --device cpu --out ci-cloth.png
--
-- A cloth falls over a ball: points that keep their distances (position-based dynamics, Mueller and others, 2007), and
-- a picture of it that is nothing but tensor operations.
--
--   tide cloth.lua [--size 96] [--steps 320] [--width 1280] [--device cpu|cuda] [--out cloth.png] [--quiet]
--
-- What to look at as a newcomer: `keep`, where the points on both ends of all springs of a kind are two views of one
-- tensor; `draw`, where scatter_reduce_ with "amax" finds what is nearest to the eye in every pixel; the main loop, where a
-- step on a GPU, well over a thousand small operations, is one graph.
local tide = require "tide"

local args = tide.cmdline("A cloth falls over a ball")
  :option("size", 96, "points along each side of the cloth")
  :option("steps", 320, "how many steps of 1/60 s")
  :option("width", 1280, "of the picture, in pixels; it is 4:3")
  :option("device", tide.cuda.is_available() and "cuda" or "cpu", "where to compute: cpu, cuda, cuda:1, ...")
  :option("out", "cloth.png", "the picture to write")
  :flag("quiet", "says nothing but the rate")
  :parse(arg)
for name, least in pairs{size = 4, steps = 1, width = 16} do
  if math.type(args[name]) ~= "integer" or args[name] < least then
    error(("%s: got %s, expected an integer, at least %d"):format(name, args[name], least), 0)
  end
end
local real = {device = args.device}
local function vector(x, y, z) return tide.tensor({x, y, z}, {device = args.device, dtype = "float32"}) end
local function length(v) return v:square():sum(-1, {keepdim = true}):sqrt() end
local function unit(v) return v / length(v):clamp_{min = 1e-9} end
local function dot(a, b) return (a * b):sum(-1, {keepdim = true}) end

-- ---------------------------------------------------------------- physics

local M, SIDE = args.size, 2.3
local BALL, RADIUS = vector(0, 0.62, 0), 0.6
local along = tide.linspace(-SIDE / 2, SIDE / 2, M, real)
local u, v = along:view(1, M):expand(M, M), along:view(M, 1):expand(M, M)
-- A little askew and slanting, or it would fall in a symmetric way.
local cloth = tide.stack({u * 0.94 + v * 0.34 + 0.06, 1.55 + 0.03 * u, v * 0.94 - u * 0.34}, 3) -- [M, M, 3]
local before = cloth:clone()
local step_down = vector(0, -9.8 / 3600, 0)

-- All springs of a kind: between each point and the one `down` rows and `right` columns further.
local function springs(down, right, stiffness)
  local rows, columns = M - down, M - math.abs(right)
  local from, to = right < 0 and 1 - right or 1, right < 0 and 1 or 1 + right
  return {
    rest = SIDE / (M - 1) * math.sqrt(down * down + right * right), stiffness = stiffness,
    ends = function(points)
      return points:narrow(1, 1, rows):narrow(2, from, columns), points:narrow(1, 1 + down, rows):narrow(2, to, columns)
    end,
  }
end
local kinds = {springs(0, 1, 0.5), springs(1, 0, 0.5), springs(1, 1, 0.3), springs(1, -1, 0.3), springs(0, 2, 0.1),
  springs(2, 0, 0.1)}

local function keep(kind)
  local a, b = kind.ends(cloth)
  local apart = b - a
  local move = apart * ((1 - kind.rest / length(apart)) * (0.5 * kind.stiffness))
  a:add_(move)
  b:sub_(move)
end

-- Out of the ball and off the floor; what touches slides with friction.
local function collide()
  local from = cloth - BALL
  local far = length(from)
  local surface = BALL + from / far * (RADIUS + 0.012)
  local touches = far:lt(RADIUS + 0.012)
  cloth:copy_(tide.where(touches, surface, cloth))
  before:copy_(tide.where(touches, before + (cloth - before) * 0.35, before))
  local height = cloth:narrow(3, 2, 1)
  local lies = height:lt(0.012)
  before:copy_(tide.where(lies, before + (cloth - before) * 0.5, before))
  cloth:narrow(3, 2, 1):clamp_{min = 0.012}
end

local function advance()
  local moved = (cloth - before) * 0.992 + step_down
  before:copy_(cloth)
  cloth:add_(moved)
  for _ = 1, math.max(8, M // 4) do
    for _, kind in ipairs(kinds) do keep(kind) end
  end
  collide()
end

-- ---------------------------------------------------------------- the picture

local SCALE = 2 -- it is drawn twice as large and shrunk
local width, height = args.width * SCALE, args.width * 3 // 4 * SCALE
local EYE, LOOK = vector(0.5, 1.75, 3.3), vector(0, 0.42, 0)
local LIGHT = unit(vector(-0.55, 1, 0.45))
local forward = unit(LOOK - EYE)
local right = unit(tide.cross(forward, vector(0, 1, 0)))
local up = tide.cross(right, forward)
local LENS = 2.6 * height / 2 -- pixels at distance 1

-- The points between those of a grid [rows, columns, channels], `times` the number along both sides.
local function finer(grid, times)
  for dim = 1, 2 do
    local n = grid:size(dim)
    local at = tide.linspace(0, n - 1.001, (n - 1) * times, real)
    local low = at:floor()
    local share = (at - low):view(dim == 1 and {-1, 1, 1} or {1, -1, 1})
    low = low:long() + 1
    grid = grid:index_select(dim, low) * (1 - share) + grid:index_select(dim, low + 1) * share
  end
  return grid
end

-- The slopes of a grid of points along both sides; their product stands upright on it.
local function normals(grid)
  local function slope(dim)
    local n = grid:size(dim)
    local inner = grid:narrow(dim, 3, n - 2) - grid:narrow(dim, 1, n - 2)
    local first = (grid:narrow(dim, 2, 1) - grid:narrow(dim, 1, 1)) * 2
    local last = (grid:narrow(dim, n, 1) - grid:narrow(dim, n - 1, 1)) * 2
    return tide.cat({first, inner, last}, dim)
  end
  return unit(tide.cross(slope(1), slope(2)))
end

local image = tide.zeros(height * width, 3, real)
local nearest = tide.zeros(height * width, real)

-- Paints points [N, 3] of these colours: in each pixel the nearest.
local function draw(points, colours)
  local from = points - EYE
  local depth = (from * forward):sum(2)
  local x = ((from * right):sum(2) / depth * LENS + width / 2):floor()
  local y = (height / 2 - (from * up):sum(2) / depth * LENS):floor()
  local seen = (x:ge(0) * x:lt(width) * y:ge(0) * y:lt(height)):nonzero():view(-1)
  local pixel = (y[seen] * width + x[seen]):long() + 1
  local near = 1 / depth[seen]
  nearest:scatter_reduce_(1, pixel, near, "amax")
  local front = near:ge(nearest[pixel]):nonzero():view(-1)
  image:index_copy_(1, pixel[front], colours[seen[front]])
end

-- The shadow on the floor: where points fall along the light, spread a little.
local SHADOW, REACH = 512, 2.6
local shadow = tide.zeros(SHADOW * SHADOW, real)
local function cast(points)
  local h = points:narrow(2, 2, 1)
  local at = (points - LIGHT / LIGHT[2] * h) * (SHADOW / 2 / REACH) + SHADOW / 2
  local cell = at:select(2, 3):clamp(0, SHADOW - 1):floor() * SHADOW + at:select(2, 1):clamp(0, SHADOW - 1):floor()
  shadow:index_fill_(1, cell:long() + 1, 1)
end
local function soft(field, distance)
  for dim = 1, 2 do
    field = field * 0.5 + (field:roll(distance, dim) + field:roll(-distance, dim)) * 0.25
  end
  return field
end

local function shade(colour, normal, points, gloss)
  local facing = dot(normal, LIGHT)
  local to_eye = unit(EYE - points)
  local half = unit(to_eye + LIGHT)
  local shine = dot(normal, half):abs():pow(gloss)
  return colour * (0.30 + 0.75 * facing:clamp(0, 1)) + shine * 0.22
end

local function picture()
  -- The cloth: woven stripes of three colours; its other side is darker.
  local dense = math.ceil(1.6 * LENS / 2.9 * SIDE / (M - 1))
  local points = finer(cloth, dense)
  local normal = finer(normals(cloth), dense)
  local rows, columns = points:size(1), points:size(2)
  local function bands(n, dim)
    local t = tide.linspace(0, 9, n, real):frac()
    local wide, thin = t:gt(0.12) * t:lt(0.5), t:gt(0.72) * t:lt(0.80)
    return wide:float():view(dim == 1 and {-1, 1, 1} or {1, -1, 1}), thin:float():view(dim == 1 and {-1, 1, 1} or {1, -1, 1})
  end
  local wide1, thin1 = bands(rows, 1)
  local wide2, thin2 = bands(columns, 2)
  local colour = vector(0.70, 0.09, 0.10) * (1 - (wide1 + wide2) * 0.36) + vector(0.02, 0.03, 0.10) * (wide1 + wide2) * 0.5
    + vector(0.9, 0.75, 0.35) * (thin1 + thin2) * 0.4
  points, normal, colour = points:view(-1, 3), unit(normal:view(-1, 3)), colour:expand(rows, columns, 3):reshape(-1, 3)
  local away = dot(normal, EYE - points):lt(0)
  normal = tide.where(away, -normal, normal)

  -- The ball.
  local turns = tide.linspace(0, 2 * math.pi, 2400, real):view(1, -1)
  local slant = tide.linspace(0, math.pi, 1200, real):view(-1, 1)
  local out = tide.stack({slant:sin() * turns:cos(), slant:cos() * tide.ones_like(turns), slant:sin() * turns:sin()}, 3):view(-1, 3)
  local ball = BALL + out * RADIUS

  cast(points)
  cast(ball)
  local dark = shadow:view(SHADOW, SHADOW)
  for distance = 1, 5 do dark = soft(dark, distance) end

  -- The floor: each pixel's ray meets it somewhere, far away it is haze.
  local x = ((tide.arange(width, real) + 0.5 - width / 2) / LENS):view(1, -1, 1)
  local y = ((height / 2 - tide.arange(height, real) - 0.5) / LENS):view(-1, 1, 1)
  local ray = forward + right * x + up * y
  local down = (-ray:narrow(3, 2, 1)):clamp_{min = 1e-3}
  local far = EYE[2] / down
  local on_floor = EYE + ray * far
  local cell = ((on_floor * (SHADOW / 2 / REACH) + SHADOW / 2):clamp(0, SHADOW - 1)):floor()
  local lit = 1 - 0.62 * dark:reshape(-1)[(cell:select(3, 3) * SHADOW + cell:select(3, 1)):long() + 1]
  local tile = (on_floor:select(3, 1):mul(1.5):floor() + on_floor:select(3, 3):mul(1.5):floor()):remainder(2):unsqueeze(3)
  local floor = (vector(0.62, 0.60, 0.56) * (1 - tile) + vector(0.52, 0.50, 0.47) * tile) * lit:unsqueeze(3)
  local fade = (far / 14):clamp_{max = 1}
  local sky = vector(0.80, 0.84, 0.88)
  image:copy_((floor * (1 - fade) + sky * fade):view(-1, 3))

  draw(ball, shade(vector(0.25, 0.28, 0.32):expand_as(ball), out, ball, 40))
  draw(points, shade(colour * tide.where(away, 0.55, 1.0), normal, points, 12))
  local small = image:view(height // SCALE, SCALE, width // SCALE, SCALE, 3):mean({2, 4})
  return (small:clamp_{min = 0, max = 1}:pow_(1 / 1.5) * 255):byte()
end

-- ---------------------------------------------------------------- the main loop

local timer = tide.Timer()
local fall, left = advance, args.steps
if tide.device(args.device).type == "cuda" then
  advance() -- what is made at its first call does not belong into the graph
  local graph = tide.cuda.CUDAGraph()
  tide.cuda.graph(graph, advance) -- notes the operations
  fall, left = function() graph:replay() end, left - 1
end
for _ in tide.progress(left, "falling", { show = not args.quiet and nil }) do
  fall()
end
local middle = cloth:select(3, 2):mean():item() -- waits
local took = timer:time().real
print(("%d x %d points, %d steps on %s in %.2f s: %.0f steps/s; mean height %.3f"):format(M, M, args.steps, args.device,
  took, args.steps / took, middle))
tide.save_png(args.out, picture():cpu())
print("wrote " .. args.out)
