-- Random exchanges of halos against a model: grids, periods, sizes, halos, widths, dims, faces, several fields, async ones.
-- usage: mpirun -n 4 tide spec/stress/ranks_halo.lua PROGRAMS SEED
--
-- All ranks draw the same numbers. The model knows of each place where it comes from: this piece, a border of the whole
-- field, or other pieces along some dims, and how far in them.
local tide = require "tide"
local dist = tide.distributed
dist.init_process_group { timeout = 300 }
local programs, seed = tonumber(arg[1]) or 100, tonumber(arg[2]) or 1
local device = os.getenv "TIDE_DEVICE" or "cpu"

local state
local function draw(n) -- 1 to n, by the Lehmer generator of Park and Miller, 1988
  state = state * 48271 % 2147483647
  return state % n + 1
end

local dtypes = { tide.int32, tide.int64, tide.float64, tide.float32 }
local checked = 0

-- What stands at each place of the field before and after, as flat lists.
local function model(grid, f, opts)
  local before, after, n = {}, {}, #f.sizes
  local at = {}
  local function walk(d)
    if d <= n then
      for i = 1, f.count[d] + 2 * f.halo[d] do
        at[d] = i
        walk(d + 1)
      end
      return
    end
    local code, others, outside, fits = f.number, 0, 0, true
    for k = 1, n do
      local a, g = at[k] - f.halo[k], f.first[k] + at[k] - f.halo[k] - 1
      local away = a < 1 and 1 - a or a > f.count[k] and a - f.count[k] or 0
      local from, to = grid:shift(k)
      if away > 0 and not (a < 1 and from or a > 1 and to) then
        outside = outside + 1
      elseif away > 0 then
        others = others + 1
        fits = fits and opts.along[k] and away <= (opts.width or f.halo[k])
        g = (g - 1) % f.sizes[k] + 1
      end
      code = code * 50 + g + 10
    end
    if opts.corners == false then fits = fits and others == 1 and outside == 0 end
    before[#before + 1] = others == 0 and code or -1
    after[#after + 1] = (others == 0 or fits) and code or -1
  end
  walk(1)
  return before, after
end

for program = seed, seed + programs - 1 do
  state = program * 7919 % 2147483646 + 1
  draw(2)
  local n = draw(3)
  local dims, periodic, sizes, least = {}, {}, {}, 99
  for d = 1, n do dims[d], periodic[d] = draw(3) == 1 and 1 or 0, draw(2) == 1 end
  dims[draw(n)] = 0
  local grid = dist.cart { dims = dims, periodic = periodic }
  for d = 1, n do sizes[d] = grid.dims[d] * (1 + draw(n == 3 and 2 or 6)) + draw(grid.dims[d]) - 1 end
  local fields, list = {}, {}
  for k = 1, draw(3) do
    local f = { sizes = sizes, number = k, halo = {}, first = {}, count = {} }
    for d = 1, n do
      f.halo[d] = draw(3) - 1
      least = math.min(least, f.halo[d])
    end
    f.u = grid:field(sizes, { halo = f.halo, dtype = dtypes[draw(#dtypes)], device = device })
    for d = 1, n do
      local first, last = grid:range(f.u, d)
      f.first[d], f.count[d] = first, last - first + 1
    end
    fields[k], list[k] = f, f.u
  end
  local opts = { async_op = draw(2) == 1, corners = draw(3) > 1, along = {} }
  if draw(3) == 1 then opts.width = draw(least + 1) - 1 end
  if draw(3) == 1 then
    opts.dims = { draw(n) }
    opts.along[opts.dims[1]] = true
    local other = draw(n)
    if not opts.along[other] then opts.dims[2] = other end
    opts.along[other] = true
  else
    for d = 1, n do opts.along[d] = true end
  end
  for _, f in ipairs(fields) do
    local before
    before, f.expected = model(grid, f, opts)
    f.u:copy_(tide.tensor(before):view(f.u:size()):to(f.u.dtype))
  end
  local exchange = grid:halo_exchange(list, { async_op = opts.async_op, corners = opts.corners, width = opts.width, dims = opts.dims })
  if exchange then exchange:wait() end
  for k, f in ipairs(fields) do
    local got = f.u:cpu():to(tide.int64):view(-1):totable()
    for i = 1, #f.expected do
      if got[i] ~= f.expected[i] then
        error(("program %d: field %d, place %d: got %d, expected %d"):format(program, k, i, got[i], f.expected[i]))
      end
    end
    checked = checked + 1
  end
end
dist.barrier()
dist.print { all = true, programs .. " programs, " .. checked .. " results" }
