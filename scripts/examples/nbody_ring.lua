-- ci: --bodies 300 --steps 5 --device cpu
--
-- Bodies that attract each other, on any number of processes. Each process has some of the bodies; packets of the others
-- travel round a ring, and the next one comes while a process computes with the one it has.
--
--   tide nbody_ring.lua [--bodies 2000] [--steps 50]
--   mpirun -n 4 tide nbody_ring.lua ...                   on 4 processes, or tide --ranks 4 nbody_ring.lua ...
--
-- The order of additions must not depend on the processes, so that the result does not, bit for bit. The bodies are in
-- 24 blocks, and each process has whole ones. The pull of each block is kept apart; they are added in their order.
local tide = require "tide"
local dist = tide.distributed
local args = tide.cmdline("Bodies that attract each other, on any number of processes"):option("bodies", 2000, "how many")
  :option("steps", 50, "steps of time"):option("device", tide.cuda.is_available() and "cuda" or "cpu"):parse(arg)
dist.init_process_group()
local rank, size, blocks = dist.get_rank(), dist.get_world_size(), 24
if size > blocks then error(("ranks: got %d, expected at most %d"):format(size, blocks), 0) end
if args.bodies < blocks then error(("bodies: got %d, expected at least %d"):format(args.bodies, blocks), 0) end

-- The bodies before a block, and the blocks before a process.
local function bodies_before(block) return (block - 1) * args.bodies // blocks end
local function blocks_before(process) return process * blocks // size end
local function bodies_of(process)
  local first = bodies_before(blocks_before(process) + 1)
  return first, bodies_before(blocks_before(process + 1) + 1) - first
end
local first, count = bodies_of(rank)

local real = { dtype = tide.float64, device = args.device }
local most = 0
for r = 0, size - 1 do most = math.max(most, (select(2, bodies_of(r)))) end
local packets = { tide.zeros(most, 4, real), tide.zeros(most, 4, real) } -- position and mass
local x, v, pull = tide.zeros(most, 4, real), tide.zeros(most, 3, real), tide.zeros(blocks, most, 3, real)

-- Of the blocks of each process: where they begin and end in its packet.
local ends = {}
for r = 0, size - 1 do
  local list, before = {}, bodies_of(r)
  for block = blocks_before(r) + 1, blocks_before(r + 1) do
    list[#list + 1] = { bodies_before(block) - before + 1, bodies_before(block + 1) - before }
  end
  ends[r] = tide.tensor(list, { dtype = tide.int64, device = args.device })
end

local begin = tide.kernel(function(i, x, v, first, n)
  for c = 1, 3 do x[i][c] = tide.random.normal(1, first + i, c) end
  x[i][4] = 1 / n
  v[i][1], v[i][2], v[i][3] = -0.4 * x[i][2], 0.4 * x[i][1], 0.0 -- they turn round the third axis
end)

-- The pull of one block on one body.
local attract = tide.kernel(function(i, b, x, packet, ends, pull, before)
  local p, q, r = x[i][1], x[i][2], x[i][3]
  local fx, fy, fz = 0.0, 0.0, 0.0
  for j = ends[b][1], ends[b][2] do
    local dx, dy, dz = packet[j][1] - p, packet[j][2] - q, packet[j][3] - r
    local near = 1 / math.sqrt(dx * dx + dy * dy + dz * dz + 0.01)
    local w = packet[j][4] * near * near * near
    fx, fy, fz = fx + w * dx, fy + w * dy, fz + w * dz
  end
  pull[before + b][i][1], pull[before + b][i][2], pull[before + b][i][3] = fx, fy, fz
end)

local move = tide.kernel(function(i, x, v, pull, dt)
  for c = 1, 3 do
    local a = 0.0
    for b = 1, #pull do a = a + pull[b][i][c] end
    v[i][c] = v[i][c] + a * dt
    x[i][c] = x[i][c] + v[i][c] * dt
  end
end)

begin(count, x, v, first, args.bodies)
local left, right = (rank - 1) % size, (rank + 1) % size
for _ in tide.progress(args.steps, "bodies") do
  packets[1]:copy_(x)
  for hop = 0, size - 1 do
    local here, next_one = packets[hop % 2 + 1], packets[(hop + 1) % 2 + 1]
    local works = {}
    if hop < size - 1 then works = { dist.irecv(next_one, left), dist.isend(here, right) } end
    local owner = (rank - hop) % size
    attract({ count, ends[owner]:size(1) }, x, here, ends[owner], pull, blocks_before(owner))
    for _, work in ipairs(works) do work:wait() end
  end
  move(count, x, v, pull, 0.01)
end

local mine = x:narrow(1, 1, count):cpu()
local place = tide.arange(first, first + count, { dtype = tide.int64 }):view(-1, 1) * 4 + tide.arange(4, { dtype = tide.int64 })
local bits = (mine:contiguous():view(tide.int64) * (2 * place + 1)):sum()
local radius = mine:narrow(2, 1, 3):square():sum(2):sqrt():sum()
dist.all_reduce(bits)
dist.all_reduce(radius)
dist.print(("nbody_ring: %d bodies, %d steps, mean radius %.6f, bits %016x"):format(args.bodies, args.steps,
  radius:item() / args.bodies, bits:item()))
