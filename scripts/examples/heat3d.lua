-- ci: --size 24 --steps 30 --device cpu --quiet --out ci-heat3d.png
--
-- Heat in a box with cold walls, fed by two sources that move. The box is cut over any number of processes, each with a
-- device of its own; the result is the same, bit for bit, for every number of them.
--
--   tide heat3d.lua [--size 96] [--steps 400] [--out heat3d.png]
--   mpirun -n 4 tide heat3d.lua ...                        on 4 processes, or tide --ranks 4 heat3d.lua ...
--   mpirun -n 4 tide heat3d.lua --save heat.safetensors    saves at the end, and every --every steps
--   mpirun -n 2 tide heat3d.lua --resume heat.safetensors  goes on with any number of processes
--   mpirun -n 4 tide heat3d.lua --bench weak               times steps of --size points along each side of each process;
--                                                          --bench strong: of the whole box
--
-- A step sends the border of the piece, computes what needs no halo meanwhile, waits for the halos, and computes the
-- border. Halos at walls stay 0, which keeps the walls cold.
local tide = require "tide"
local dist = tide.distributed
local args = tide.cmdline("Heat in a box, on any number of processes")
  :option("size", 96, "points along each side")
  :option("steps", 400, "steps of time")
  :option("device", tide.cuda.is_available() and "cuda" or "cpu", "cpu, or cuda for the device of this process")
  :option("out", "heat3d.png", "the picture of a slice to write")
  :option("save", "", "a file for the state")
  :option("every", 100, "steps between two saves")
  :option("resume", "", "a file to go on from")
  :option("bench", "", "weak or strong: times steps instead")
  :flag("quiet", "no line for each save")
  :parse(arg)
dist.init_process_group()
if args.bench ~= "" and args.bench ~= "weak" and args.bench ~= "strong" then error("bench: expected weak or strong", 0) end

local grid = dist.cart { dims = { 0, 0, 0 } }
local sizes = {}
for d = 1, 3 do sizes[d] = args.size * (args.bench == "weak" and grid.dims[d] or 1) end

-- One step at the places from (a, b, c) on. `x1 ... z2` is where the sources are, in places of the whole box.
local diffuse = tide.kernel(function(i, j, k, u, v, a, b, c, first1, first2, first3, x1, y1, z1, x2, y2, z2, radius)
  local p, q, r = i + a + 1, j + b + 1, k + c + 1 -- the halo is 1 wide
  local here = u[p][q][r]
  local around = u[p - 1][q][r] + u[p + 1][q][r] + u[p][q - 1][r] + u[p][q + 1][r] + u[p][q][r - 1] + u[p][q][r + 1]
  local x, y, z = p - 2 + first1, q - 2 + first2, r - 2 + first3
  local far1 = ((x - x1) * (x - x1) + (y - y1) * (y - y1) + (z - z1) * (z - z1)) / radius
  local far2 = ((x - x2) * (x - x2) + (y - y2) * (y - y2) + (z - z2) * (z - z2)) / radius
  local heat = 0.0
  if far1 < 1 then heat = heat + (1 - far1) * (1 - far1) end
  if far2 < 1 then heat = heat + 0.5 * (1 - far2) * (1 - far2) end
  v[p][q][r] = here + 0.15 * (around - 6 * here) + 0.02 * heat
end)

local state = { step = 0 }
if args.resume ~= "" then
  state = grid:load(args.resume, { device = args.device })
else
  state.u = grid:field(sizes, { halo = 1, dtype = tide.float32, device = args.device })
  grid:rand_(state.u, 1) -- by place: the same for any number of processes
  grid:inside(state.u):mul_(0.01)
end
local u, v = state.u, grid:field(sizes, { halo = 1, dtype = tide.float32, device = args.device })

local first, count = {}, {}
for d = 1, 3 do
  local a, b = grid:range(u, d)
  first[d], count[d] = a, b - a + 1
end

-- The piece as boxes {from, to}: the first needs no halo of another process; the others are its sides.
local boxes = { { { 1, 1, 1 }, { table.unpack(count) } } }
for d = 1, 3 do
  local from, to = grid:shift(d)
  local inner = boxes[1]
  for side = 1, 2 do
    if (side == 1 and from or side == 2 and to) and inner[1][d] <= inner[2][d] then
      local box = { { table.unpack(inner[1]) }, { table.unpack(inner[2]) } }
      if side == 1 then
        box[2][d], inner[1][d] = inner[1][d], inner[1][d] + 1
      else
        box[1][d], inner[2][d] = inner[2][d], inner[2][d] - 1
      end
      boxes[#boxes + 1] = box
    end
  end
end

local n1, n2, n3 = sizes[1], sizes[2], sizes[3]
local function compute(box, step)
  local from, to = box[1], box[2]
  local extent = { to[1] - from[1] + 1, to[2] - from[2] + 1, to[3] - from[3] + 1 }
  if extent[1] < 1 or extent[2] < 1 or extent[3] < 1 then return end
  local turn = step * 0.02
  diffuse(extent, u, v, from[1] - 1, from[2] - 1, from[3] - 1, first[1], first[2], first[3],
    n1 * (0.5 + 0.3 * math.cos(turn)), n2 * (0.5 + 0.3 * math.sin(turn)), n3 * 0.5,
    n1 * 0.5, n2 * (0.5 - 0.25 * math.sin(1.7 * turn)), n3 * (0.5 + 0.3 * math.cos(1.7 * turn)), (n1 * 0.08) ^ 2)
end

local function advance(step)
  local halos = grid:halo_exchange(u, { async_op = true, corners = false })
  compute(boxes[1], step)
  halos:wait()
  for i = 2, #boxes do compute(boxes[i], step) end
  u, v = v, u
end

-- Seconds a step of fn(step), the slowest process's.
local function time(fn)
  for step = 1, 3 do fn(step) end
  dist.barrier()
  local timer = tide.Timer()
  for step = 1, args.steps do fn(step) end
  if u.is_cuda then tide.cuda.synchronize() end
  local seconds = tide.tensor({ timer:time().real / args.steps }, { dtype = tide.float64 })
  dist.all_reduce(seconds, { op = "max" })
  return seconds:item()
end

if args.bench ~= "" then
  local whole = { { 1, 1, 1 }, { table.unpack(count) } }
  local alone = time(function(step)
    compute(whole, step)
    u, v = v, u
  end)
  local blocking = time(function(step)
    grid:halo_exchange(u, { corners = false })
    compute(whole, step)
    u, v = v, u
  end)
  local overlapped = time(advance)
  local cells = n1 * n2 * n3 / 1e6
  dist.print(("heat3d: %s scaling, %d processes as %d x %d x %d, %d x %d x %d points"):format(args.bench, dist.get_world_size(),
    grid.dims[1], grid.dims[2], grid.dims[3], n1, n2, n3))
  for _, row in ipairs { { "without halos", alone }, { "exchange, then compute", blocking }, { "overlapped", overlapped } } do
    dist.print(("  %-24s %9.3f ms a step  %9.1f million points a second"):format(row[1], row[2] * 1e3, cells / row[2]))
  end
  local hidden = (blocking - overlapped) / (blocking - alone)
  dist.print(("  %.1f %% of the time of the exchange is hidden"):format(100 * hidden))
  return
end

for i in tide.progress(args.steps - state.step, "heat", { show = not args.quiet and nil }) do
  local step = state.step + i
  advance(step)
  if args.save ~= "" and (step % args.every == 0 or step == args.steps) then
    grid:save(args.save, { u = u, step = step })
    if not args.quiet then dist.print(("heat3d: step %d is in %s"):format(step, args.save)) end
  end
end

-- Two runs with equal sums of all bits, each weighed by its place, have the same field.
local function bits_of(field)
  local place = 0
  for d = 1, 3 do
    local along = tide.arange(first[d], first[d] + count[d], { dtype = tide.int64 })
    place = place * 100003 + along:view(d == 1 and { -1, 1, 1 } or d == 2 and { 1, -1, 1 } or { 1, 1, -1 })
  end
  local bits = (grid:inside(field):cpu():contiguous():view(tide.int32):to(tide.int64) * (2 * place + 1)):sum()
  dist.all_reduce(bits)
  return bits:item()
end

-- A slice through the middle of the third dimension, dark where it is cold.
local picture = grid:gather(u, { every = math.max(1, args.size // 192) })
local most, sum, bits = grid:max(u), grid:sum(u), bits_of(u)
if picture then
  local slice = (picture:select(3, (picture:size(3) + 1) // 2):cpu() / most):sqrt()
  local channels = {}
  for c = 1, 3 do channels[c] = (slice * 3 - (c - 1)):clamp { min = 0, max = 1 } end
  tide.save_png(args.out, (tide.stack(channels, 3) * 255):to(tide.uint8))
  print(("heat3d: %d steps, largest %.5f, sum %.3f, bits %016x, %s"):format(args.steps, most, sum, bits, args.out))
end
