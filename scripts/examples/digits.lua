-- ci: --steps 120 --hidden 64 --quiet --device cpu --out ci-digits.png
--
-- A network learns to read digits: two layers, trained by stochastic gradient descent. The digits are drawn by the
-- script, each one turned, sheared, stretched and covered with noise, never twice the same.
--
--   tide digits.lua [--steps 1500] [--hidden 256] [--batch 256] [--device cpu|cuda] [--out digits.png] [--quiet]
--
-- The picture: digits that the network has never seen, with what it reads below them (red where it is wrong); how the
-- loss fell; and what the hidden units look for, blue where ink speaks against it and orange where it speaks for it.
--
-- What to look at as a newcomer: `draw`, where a batch of digits is bent by affine_grid and grid_sample; `train`, the
-- gradient of both layers in seven lines.
local tide = require "tide"

local args = tide.cmdline("A network learns to read digits")
  :option("steps", 1500, "how many batches to learn from")
  :option("hidden", 256, "units between the two layers, at least 16")
  :option("batch", 256, "digits in a batch, at least 16")
  :option("device", tide.cuda.is_available() and "cuda" or "cpu", "where to compute: cpu, cuda, cuda:1, ...")
  :option("out", "digits.png", "the picture to write")
  :flag("quiet", "says nothing but how well it reads")
  :parse(arg)
for name, least in pairs{steps = 2, hidden = 16, batch = 16} do
  if math.type(args[name]) ~= "integer" or args[name] < least then
    error(("%s: got %s, expected an integer, at least %d"):format(name, args[name], least), 0)
  end
end
local real = {device = args.device}
tide.manual_seed(11)
local SIDE, BATCH, HIDDEN = 20, args.batch, args.hidden

-- ---------------------------------------------------------------- digits

-- Five dots wide and seven high: one hexadecimal pair a row, 0 to 9.
local GLYPHS = {"0E11131519110E", "040C040404040E", "0E11010608101F", "0E11010601110E", "02060A121F0202",
  "1F101E0101110E", "0608101E11110E", "1F010204080808", "0E11110E11110E", "0E11110F01020C"}
local dots = {}
for i, glyph in ipairs(GLYPHS) do
  dots[i] = {{}}
  for row = 1, 11 do -- with an empty edge of two dots
    dots[i][1][row] = {}
    local bits = row > 2 and row < 10 and tonumber(glyph:sub(2 * row - 5, 2 * row - 4), 16) or 0
    for column = 1, 11 do
      dots[i][1][row][column] = column > 3 and column < 9 and bits >> (8 - column) & 1 or 0
    end
  end
end
dots = tide.tensor(dots, real):float() -- [10, 1, 11, 11]

-- `n` digits and what they are, from 1 for "0": [n, SIDE * SIDE], [n].
local function draw(n)
  local what = tide.randint(1, 11, {n}, {device = args.device, dtype = "int64"})
  local function about(middle, spread) return middle + spread * (tide.rand(n, real) * 2 - 1) end
  local turn, shear, wide, high = about(0, 0.35), about(0, 0.3), about(0.85, 0.2), about(0.85, 0.15)
  local cos, sin = turn:cos(), turn:sin()
  local theta = tide.stack({wide * cos, shear * cos - high * sin, about(0, 0.15),
    wide * sin, shear * sin + high * cos, about(0, 0.15)}, 2):view(n, 2, 3)
  local ink = tide.grid_sample(dots[what], tide.affine_grid(theta, {n, 1, SIDE, SIDE}))
  local strength = about(0.85, 0.15):view(-1, 1, 1, 1)
  return (ink * strength + tide.randn(n, 1, SIDE, SIDE, real) * 0.15):view(n, SIDE * SIDE), what
end

-- ---------------------------------------------------------------- the network

local function weights(from, to) return tide.randn(from, to, real) * math.sqrt(2 / from) end
local parameters = {weights(SIDE * SIDE, HIDDEN), tide.zeros(HIDDEN, real), weights(HIDDEN, 10), tide.zeros(10, real)}
local speeds = {}
for i, p in ipairs(parameters) do speeds[i] = tide.zeros_like(p) end

local function forward(x)
  local hidden = (x:matmul(parameters[1]) + parameters[2]):relu()
  return hidden, (hidden:matmul(parameters[3]) + parameters[4]):log_softmax(2)
end

-- One batch; returns its mean loss, a tensor: nothing waits for it.
local function train(rate)
  local x, what = draw(BATCH)
  local hidden, log_p = forward(x)
  local wanted = what:one_hot(10)
  local at_out = (log_p:exp() - wanted) / BATCH -- the gradient of the loss by what goes into the softmax
  local at_hidden = at_out:matmul(parameters[3]:t()) * hidden:gt(0)
  local gradients = {x:t():matmul(at_hidden), at_hidden:sum(1), hidden:t():matmul(at_out), at_out:sum(1)}
  for i, p in ipairs(parameters) do
    speeds[i]:mul_(0.9):add_(gradients[i])
    p:add_(speeds[i], {alpha = -rate})
  end
  return -(log_p * wanted):sum() / BATCH
end

local timer = tide.Timer()
local losses = tide.empty(args.steps, real)
for step in tide.progress(args.steps, "training", { show = not args.quiet and nil }) do
  losses[step] = train(0.2 * (1 - step / (args.steps + 1)))
end
losses = losses:totable() -- waits
local took = timer:time().real

local x, what = draw(4000)
local _, log_p = forward(x)
local reads = log_p:argmax(2)
local right = reads:eq(what)
print(("%d batches of %d on %s in %.2f s; of 4000 new digits it reads %.1f %%"):format(args.steps, BATCH, args.device,
  took, right:float():mean():item() * 100))

-- ---------------------------------------------------------------- the picture

local ZOOM, GAP, COLUMNS, ROWS = 2, 6, 16, 6
local CELL = SIDE * ZOOM + GAP
local WIDTH = COLUMNS * CELL + GAP
local paper, ink, red = {0.96, 0.95, 0.92}, {0.12, 0.13, 0.18}, {0.85, 0.15, 0.12}
local function colour(c) return tide.tensor(c, real) end
local function sheet(height) return colour(paper):expand(height, WIDTH, 3):clone() end
local function larger(tiles, times) return tiles:repeat_interleave(times, 2):repeat_interleave(times, 3) end

-- Puts tiles [n, h, w, 3] onto a sheet, `columns` in a row, each in a cell of that size.
local function tiled(tiles, columns, cell_height, cell_width)
  local n, h, w = tiles:size(1), tiles:size(2), tiles:size(3)
  local page = sheet(n // columns * cell_height + GAP)
  for i = 1, n do
    local row, column = (i - 1) // columns, (i - 1) % columns
    page:narrow(1, row * cell_height + GAP, h):narrow(2, column * cell_width + GAP, w):copy_(tiles[i])
  end
  return page
end

local count = COLUMNS * ROWS
local seen = larger(x:narrow(1, 1, count):view(count, SIDE, SIDE, 1), ZOOM):clamp(0, 1)
seen = colour(paper) * (1 - seen) + colour(ink) * seen
local read = larger(dots[reads:narrow(1, 1, count)]:view(count, 11, 11, 1):narrow(2, 2, 9), 2)
local read_ink = tide.where(right:narrow(1, 1, count):view(-1, 1, 1, 1), colour({0.25, 0.45, 0.35}), colour(red))
read = colour(paper) * (1 - read) + read_ink * read
local both = colour(paper):expand(count, SIDE * ZOOM + 18, SIDE * ZOOM, 3):clone()
both:narrow(2, 1, SIDE * ZOOM):copy_(seen)
both:narrow(2, SIDE * ZOOM + 1, 18):narrow(3, 10, 22):copy_(read)
local digits = tiled(both, COLUMNS, CELL + 18, CELL)

-- The loss on a logarithmic scale, each point the mean of those around it.
local curve = sheet(150)
local values, span = {}, math.max(1, args.steps // 80)
for i = 1, args.steps do
  local sum, n = 0, 0
  for k = math.max(1, i - span), math.min(args.steps, i + span) do sum, n = sum + losses[k], n + 1 end
  values[i] = math.log(sum / n)
end
local low, high = math.min(table.unpack(values, 1, math.min(args.steps, 4000))), values[1]
for column = GAP, WIDTH - GAP do
  local at = (column - GAP) / (WIDTH - 2 * GAP) * (args.steps - 1)
  local before, after = values[at // 1 + 1 | 0], values[math.min(at // 1 + 2 | 0, args.steps)]
  local row = 8 + (high - before - (after - before) * (at % 1)) / math.max(high - low, 1e-6) * 132
  local top = row // 1 | 0
  curve:narrow(1, top, 150 - top + 1):select(2, column):copy_(colour({0.86, 0.88, 0.90}))
  curve:narrow(1, top - 1, 3):select(2, column):copy_(colour({0.16, 0.35, 0.62}))
end

local units = math.min(HIDDEN // COLUMNS, 4) * COLUMNS
local looks = parameters[1]:t():narrow(1, 1, units)
looks = (looks / looks:abs():amax(2, {keepdim = true})):reshape(units, SIDE, SIDE, 1)
local blue, orange = colour({0.10, 0.36, 0.75}), colour({0.90, 0.45, 0.08})
looks = colour(paper) * (1 - looks:abs()) + orange * looks:clamp{min = 0} + blue * (-looks):clamp{min = 0}
local hidden = tiled(larger(looks, ZOOM), COLUMNS, CELL, CELL)

tide.save_png(args.out, (tide.cat({digits, curve, hidden}, 1):clamp(0, 1) * 255):byte():cpu())
print("wrote " .. args.out)
