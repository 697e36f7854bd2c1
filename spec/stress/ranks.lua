-- Random programs of several ranks against a model: collectives, groups, messages in a legal order, asynchronous ones.
-- usage: mpirun -n 4 tide spec/stress/ranks.lua PROGRAMS SEED
--
-- All ranks draw the same numbers, so each knows what every rank has and does: the model is plain arithmetic on tables of
-- what all ranks hold. Integers, so that results are exact in every order of additions.
local tide = require "tide"
local dist = tide.distributed
dist.init_process_group { timeout = 300 }
local rank, size = dist.get_rank(), dist.get_world_size()
local programs, seed = tonumber(arg[1]) or 100, tonumber(arg[2]) or 1

local state
local function draw(n) -- 1 to n, by the Lehmer generator of Park and Miller, 1988
  state = state * 48271 % 2147483647
  return state % n + 1
end

local dtypes = { tide.int32, tide.int64, tide.float32, tide.float64, tide.int16 }

-- The groups: of all ranks, and of others that the seed chooses. A group is {handle, ranks}.
local groups = { { nil, dist.get_process_group_ranks() } }
local function add_group()
  local ranks, taken = {}, {}
  for _ = 1, draw(size) do
    local r = draw(size) - 1
    if not taken[r] then
      taken[r] = true
      ranks[#ranks + 1] = r
    end
  end
  groups[#groups + 1] = { dist.new_group(ranks), ranks }
end

-- held[r + 1]: what rank r has, n numbers. Own tensor and model side by side.
local function fresh(n)
  local held = {}
  for r = 1, size do
    held[r] = {}
    for i = 1, n do held[r][i] = draw(9) - 5 end
  end
  return held
end

local checked = 0
local function check(what, x, expected)
  local got = x:to(tide.float64):to("cpu"):totable()
  for i = 1, #expected do
    if got[i] ~= expected[i] then
      error(("%s: place %d: got %s, expected %s"):format(what, i, got[i], expected[i]))
    end
  end
  checked = checked + 1
end

local pending = {} -- works with what is to be checked when they are done
local function later(work, what, x, expected)
  if work then pending[#pending + 1] = { work, what, x, expected } else check(what, x, expected) end
end

-- TIDE_DEVICE=cuda: on devices, where all that is queued in between is queued on streams.
local device = (os.getenv "TIDE_DEVICE" or "cpu") ~= "cpu" and "cuda" or "cpu"
local function zeros(n, dtype) return tide.zeros(n, { dtype = dtype, device = device }) end

local function tensor(numbers, dtype)
  local x = tide.tensor(numbers, { dtype = dtype, device = device })
  return draw(3) == 1 and tide.stack({ x, x }, 2):select(2, 1) or x -- strided now and then: `draw` is the same on all
end

local function join(held, ranks)
  local out = {}
  for _, r in ipairs(ranks) do for _, v in ipairs(held[r + 1]) do out[#out + 1] = v end end
  return out
end

local operations = {}

function operations.all_reduce(group, ranks, place, dtype, n, opts)
  local held, op, expected = fresh(n), ({ "sum", "min", "max" })[draw(3)], {}
  for i = 1, n do
    local value = held[ranks[1] + 1][i]
    for k = 2, #ranks do
      local v = held[ranks[k] + 1][i]
      value = op == "sum" and value + v or op == "min" and math.min(value, v) or op == "max" and math.max(value, v)
    end
    expected[i] = value
  end
  local x = tensor(held[rank + 1], dtype)
  if place then later(dist.all_reduce(x, { op = op, group = group, async_op = opts }), "all_reduce", x, expected) end
end

function operations.broadcast(group, ranks, place, dtype, n, opts)
  local held, src = fresh(n), ranks[draw(#ranks)]
  local x = tensor(held[rank + 1], dtype)
  if place then later(dist.broadcast(x, src, { group = group, async_op = opts }), "broadcast", x, held[src + 1]) end
end

function operations.all_gather(group, ranks, place, dtype, n, opts)
  local held = fresh(n)
  local x, out = tensor(held[rank + 1], dtype), zeros(n * #ranks, dtype)
  if place then later(dist.all_gather_into_tensor(out, x, { group = group, async_op = opts }), "all_gather", out, join(held, ranks)) end
end

function operations.reduce_scatter(group, ranks, place, dtype, n, opts)
  local held, expected = fresh(n * #ranks), {}
  for i = 1, n do
    expected[i] = 0
    for _, r in ipairs(ranks) do expected[i] = expected[i] + held[r + 1][((place or 1) - 1) * n + i] end
  end
  local x, out = tensor(held[rank + 1], dtype), zeros(n, dtype)
  if place then later(dist.reduce_scatter_tensor(out, x, { group = group, async_op = opts }), "reduce_scatter", out, expected) end
end

function operations.all_to_all(group, ranks, place, dtype, n, opts)
  local held, expected = fresh(n * #ranks), {}
  for _, r in ipairs(ranks) do
    for i = 1, n do expected[#expected + 1] = held[r + 1][((place or 1) - 1) * n + i] end
  end
  local x, out = tensor(held[rank + 1], dtype), zeros(n * #ranks, dtype)
  if place then later(dist.all_to_all_single(out, x, { group = group, async_op = opts }), "all_to_all", out, expected) end
end

function operations.shift(group, ranks, place, dtype, n)
  local held, by, tag = fresh(n), draw(#ranks), draw(100)
  local x, y = tensor(held[rank + 1], dtype), zeros(n, dtype)
  if not place then return end
  local to, from = ranks[(place - 1 + by) % #ranks + 1], ranks[(place - 1 - by) % #ranks + 1]
  dist.sendrecv(x, to, y, from, { group = group, tag = tag })
  check("sendrecv", y, held[from + 1])
end

function operations.messages(group, ranks, place, dtype, n)
  local held, src, dst, tag = fresh(n), draw(#ranks), draw(#ranks), draw(100)
  local x, y = tensor(held[rank + 1], dtype), zeros(n, dtype)
  if place == dst then later(dist.irecv(y, ranks[src], { group = group, tag = tag }), "irecv", y, held[ranks[src] + 1]) end
  if place == src then pending[#pending + 1] = { dist.isend(x, ranks[dst], { group = group, tag = tag }), "isend", x, held[rank + 1] } end
end

local names = { "all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "shift", "messages" }

local function finish()
  while #pending > 0 do
    local one = table.remove(pending)
    one[1]:wait()
    check(one[2], one[3], one[4])
  end
end

for program = seed, seed + programs - 1 do
  state = program * 7919 % 2147483646 + 1
  draw(2) -- the first ones are alike
  if #groups < 8 then add_group() end
  for _ = 1, 4 + draw(12) do
    local name, g = names[draw(#names)], groups[draw(#groups)]
    local dtype, n, async = dtypes[draw(#dtypes)], draw(6) == 1 and 5000 + draw(5000) or draw(40), draw(2) == 1
    local place
    for k, r in ipairs(g[2]) do if r == rank then place = k end end
    operations[name](place and g[1] or nil, g[2], place, dtype, n, async)
    if draw(4) == 1 then finish() end
  end
  finish()
end
dist.barrier()
dist.print { all = true, programs .. " programs, " .. checked .. " results" }
