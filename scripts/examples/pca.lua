-- ci: --faces 600 --side 32 --quiet --device cpu --out ci-pca.png
--
-- Faces and what they differ in: a principal component analysis of pictures (the eigenfaces of Turk and Pentland, 1991).
-- The script draws many faces from a dozen numbers each; the analysis, which does not know of these, finds few pictures
-- whose sums are all faces.
--
--   tide pca.lua [--faces 4000] [--side 64] [--keep 40] [--device cpu|cuda] [--out pca.png] [--quiet]
--
-- The picture: in the first row faces; below them the same from 2, 6, 15 and `keep` components; then the mean face and
-- the first components, blue where they darken and orange where they lighten.
--
-- What to look at as a newcomer: `draw`, where all faces are drawn at once by broadcasting [faces, 1, 1] against
-- [side, side], and the four lines of the analysis.
local tide = require "tide"

local args = tide.cmdline("Principal components of faces")
  :option("faces", 4000, "how many faces")
  :option("side", 64, "pixels along each side of a face")
  :option("keep", 40, "components that are kept")
  :option("device", tide.cuda.is_available() and "cuda" or "cpu", "where to compute: cpu, cuda, cuda:1, ...")
  :option("out", "pca.png", "the picture to write")
  :flag("quiet", "says nothing but what was found")
  :parse(arg)
for name, least in pairs{faces = 16, side = 16, keep = 15} do
  if math.type(args[name]) ~= "integer" or args[name] < least then
    error(("%s: got %s, expected an integer, at least %d"):format(name, args[name], least), 0)
  end
end
if args.keep > args.side * args.side then
  error(("keep: got %d, expected at most %d, the pixels of a face"):format(args.keep, args.side * args.side), 0)
end
local real = {device = args.device}
tide.manual_seed(3)
local N, SIDE = args.faces, args.side

-- ---------------------------------------------------------------- faces

-- What a face has of something: [N, 1, 1] about `middle`, give or take `spread`.
local function trait(middle, spread) return middle + spread * tide.randn(N, 1, 1, real) end

-- 1 inside, 0 outside and soft at the edge, of a distance that is negative inside.
local function inside(distance, softness) return (-distance / (softness or 0.03)):sigmoid() end
local function ellipse(x, y, width, height) return (((x / width):square() + (y / height):square()):sqrt() - 1) * 0.4 end

local function draw()
  local x = tide.linspace(-1, 1, SIDE, real):view(1, 1, -1)
  local y = tide.linspace(-1.1, 1.1, SIDE, real):view(1, -1, 1)
  local turn, lean = trait(0, 0.10), trait(0, 0.06) -- the head turns and leans
  x, y = x - lean * y, y + lean * x
  local width, height = trait(0.62, 0.05), trait(0.86, 0.05)
  local skin, light = trait(0.72, 0.07), trait(0, 0.16)
  local face = tide.ones(N, SIDE, SIDE, real) * 0.16
  local function paint(mask, tone) face = face + mask * (tone - face) end

  local hair, fringe = trait(0.22, 0.10):clamp(0.04, 0.6), trait(-0.52, 0.09)
  paint(inside(ellipse(x, y + 0.10, width * 1.16, height * 1.08), 0.02), hair)
  paint(inside(x:abs() - 0.24, 0.05) * inside(0.5 - y, 0.04), skin * 0.8) -- the neck
  local head = inside(ellipse(x, y - 0.04, width, height), 0.02)
  local tone = skin + light * x - 0.10 * y
  paint(head * (1 - inside(y - fringe + 0.25 * x:square(), 0.04)), tone)

  local middle = turn * 0.9
  local apart, eye_y, open = trait(0.25, 0.02), trait(-0.14, 0.03), trait(0.050, 0.014):clamp_{min = 0.012}
  local brow, tilt = trait(0.14, 0.02), trait(0, 0.12)
  for _, side in ipairs{-1, 1} do
    local ex, ey = x - middle - apart * side, y - eye_y
    paint(inside(ellipse(ex, ey, 0.11, open + 0.02), 0.02), 0.92)
    paint(inside(ellipse(ex - turn * 0.2, ey, 0.055, open + 0.01), 0.02), 0.10)
    paint(inside((ey + brow + tilt * side * ex):abs() - 0.022, 0.012) * inside(ex:abs() - 0.13, 0.02), hair * 0.8)
  end
  local nose = middle * 1.25
  paint(inside(((x - nose - 0.05):abs() + (y - 0.12):abs() * 0.35) - 0.07, 0.03) * 0.35, skin * 0.6)
  local smile, mouth_y, mouth = trait(0.10, 0.35), trait(0.40, 0.03), trait(0.20, 0.03)
  local mx = x - middle
  local curve = y - mouth_y + smile * mx:square() * 2.2 - smile * 0.05
  paint(inside(curve:abs() - trait(0.028, 0.008), 0.014) * inside(mx:abs() - mouth, 0.02), 0.30)
  local beard = trait(-0.3, 0.5):clamp(0, 0.8)
  paint(head * inside(0.30 - y + 0.5 * (mx:abs() - 0.3):clamp_{min = 0}, 0.06) * inside(-(curve:abs() - 0.07), 0.02) * beard, hair)
  return face:clamp(0, 1)
end

local timer = tide.Timer()
local faces = draw():view(N, SIDE * SIDE)

-- ---------------------------------------------------------------- the analysis

local mean = faces:mean(1, {keepdim = true})
local centred = faces - mean
local variance, directions = tide.linalg.eigh(centred:t():matmul(centred) / (N - 1)) -- ascending
local components = directions:flip(2):narrow(2, 1, args.keep) -- [pixels, keep], the largest first
local weights = centred:matmul(components) -- [faces, keep]: what is left of a face
local share = (variance:flip(1):narrow(1, 1, args.keep) / variance:sum()):totable()
local took = timer:time().real

local sum = 0
for i, part in ipairs(share) do
  sum = sum + part
  if not args.quiet and i <= 8 then print(("component %d: %.1f %% of the variance"):format(i, part * 100)) end
end
print(("%d faces of %d x %d on %s in %.2f s: %d components hold %.1f %% of the variance"):format(N, SIDE, SIDE,
  args.device, took, args.keep, sum * 100))

-- ---------------------------------------------------------------- the picture

local COLUMNS, GAP = 12, 3
local zoom = math.max(1, 96 // SIDE)

-- Tiles [n, SIDE, SIDE, 3] side by side.
local function row(tiles)
  local n = tiles:size(1)
  local frame = tide.full({n, SIDE * zoom + GAP, SIDE * zoom + GAP, 3}, 0.07, real)
  local large = tiles:repeat_interleave(zoom, 2):repeat_interleave(zoom, 3)
  frame:narrow(2, 1, SIDE * zoom):narrow(3, 1, SIDE * zoom):copy_(large)
  return frame:permute(2, 1, 3, 4):reshape(SIDE * zoom + GAP, -1, 3)
end
local warm = tide.tensor({1.0, 0.96, 0.90}, real)
local function grey(rows) return row(rows:reshape(-1, SIDE, SIDE, 1):clamp(0, 1) * warm) end

local shown = faces:narrow(1, 1, COLUMNS)
local rows = {grey(shown)}
for _, k in ipairs{2, 6, 15, args.keep} do
  local part = weights:narrow(1, 1, COLUMNS):narrow(2, 1, k):matmul(components:narrow(2, 1, k):t())
  rows[#rows + 1] = grey(part + mean)
end
local function signed(values) -- [n, pixels]
  local v = (values / values:abs():amax(2, {keepdim = true})):reshape(-1, SIDE, SIDE, 1)
  local up, down = v:clamp{min = 0}, (-v):clamp{min = 0}
  return row((0.10 + up * tide.tensor({0.95, 0.55, 0.15}, real) + down * tide.tensor({0.15, 0.45, 0.95}, real)):clamp(0, 1))
end
local parts = components:t():contiguous()
local first = tide.cat({grey(mean), signed(parts:narrow(1, 1, COLUMNS - 1))}, 2)
rows[#rows + 1] = tide.full({GAP * 3, first:size(2), 3}, 0.07, real)
rows[#rows + 1] = first
if args.keep >= 2 * COLUMNS - 1 then rows[#rows + 1] = signed(parts:narrow(1, COLUMNS, COLUMNS)) end
tide.save_png(args.out, (tide.cat(rows, 1) * 255):byte():cpu())
print("wrote " .. args.out)
