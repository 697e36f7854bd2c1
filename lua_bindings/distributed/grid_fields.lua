-- What fields of tide.distributed.cart have beside their halos: sums over all ranks, pictures on one rank, random numbers.

local M = ...
local grids = use "distributed/grid"
local builtin, dtype_of, sizes_of = use("tensor/compose.c", "builtin", "dtype_of", "sizes_of")
local region, start_message, finish_message = use("distributed/distributed_grid.c", "region", "start_message", "finish_message")
local all_reduce = public("tide.distributed", "all_reduce")
local make_zeros, make_kernel = public("tide", "zeros", "kernel")
local sum, amax, amin, convert, multiply, move = builtin("sum", "max", "min", "to", "mul", "to")

-- ---- over all ranks ----

local wide = { F = "float64", C = "complex128" }

-- Adds in the widest dtype of its kind.
local function add_all(x)
  local _, kind = dtype_of(x)
  local own = move(sum(x, { dtype = wide[kind] or "int64" }), "cpu")
  all_reduce(own)
  return own:item()
end

function M.sum(grid, u) return add_all(grids.inside(grid, u)) end

local function find_extreme(grid, u, op, find_own)
  local own = move(find_own(grids.inside(grid, u)), "cpu")
  all_reduce(own, { op = op })
  return own:item()
end

function M.max(grid, u) return find_extreme(grid, u, "max", amax) end
function M.min(grid, u) return find_extreme(grid, u, "min", amin) end

function M.dot(grid, u, v)
  grids.look(grid, v, "other")
  local a, b = grids.inside(grid, u), grids.inside(grid, v)
  local _, kind = dtype_of(a)
  local _, other = dtype_of(b)
  local dtype = (kind == "C" or other == "C") and "complex128" or (kind == "F" or other == "F") and "float64" or "int64"
  return add_all(multiply(convert(a, dtype), convert(b, dtype)))
end

-- ---- on one rank ----

local gather_tag = 30000

-- Of n places from `first` on, those at 1, 1 + every and so on of the whole field: the first of them in the piece, their
-- number, and the place of the first among all of them.
local function thin(first, n, every)
  local skipped = (every - (first - 1) % every) % every
  return skipped + 1, n > skipped and (n - skipped + every - 1) // every or 0, (first - 1 + skipped) // every + 1
end

function M.gather(grid, u, dst, every)
  local f, n = grids.look(grid, u), #grid.dims
  every = every == nil and 1 or every
  if dst < 0 or dst >= grid.size then reject("ValueError", "dst", "rank " .. dst, "0 to " .. grid.size - 1) end
  if type(every) == "table" and rawlen(every) ~= n then
    reject("ValueError", "every", rawlen(every) .. " integers", "one for each of the " .. n .. " dimensions")
  end
  local steps, whole = {}, {}
  for d = 1, n do
    steps[d] = every
    if type(every) == "table" then steps[d] = rawget(every, d) end
    if not is_integer(steps[d]) or steps[d] < 1 then
      reject("ValueError", "every", text(steps[d]), "integers of at least 1")
    end
    whole[d] = (f.sizes[d] + steps[d] - 1) // steps[d]
  end
  -- In the piece of a rank; where they belong in the picture; how many.
  local function part_of(rank)
    local first, count = grids.piece(grid, f.sizes, grids.coords_of(grid, rank))
    local from, to, size, numel = {}, {}, {}, 1
    for d = 1, n do
      from[d], size[d], to[d] = thin(first[d], count[d], steps[d])
      from[d], numel = from[d] + f.halo[d], numel * size[d]
    end
    return from, to, size, numel
  end
  local from, to, size, numel = part_of(grid.rank)
  local own = numel > 0 and region(u, from, size, steps):clone()
  if grid.rank ~= dst then
    if own then finish_message(start_message(true, own, grid.group, dst, gather_tag)) end
    return
  end
  local out = make_zeros(whole, { dtype = u.dtype, device = u.device })
  if own then region(out, to, size):copy_(own) end
  local parts = {}
  for rank = 0, grid.size - 1 do
    local _, place, places, elements = part_of(rank)
    if rank ~= dst and elements > 0 then
      local x = make_zeros(places, { dtype = u.dtype, device = u.device })
      parts[#parts + 1] = { x = x, place = place, size = places, work = start_message(false, x, grid.group, rank, gather_tag) }
    end
  end
  for i = 1, #parts do
    finish_message(parts[i].work)
    region(out, parts[i].place, parts[i].size):copy_(parts[i].x)
  end
  return out
end

-- ---- random numbers ----

-- Philox's counter is the place in the whole field, from 0: place(i, j, k) = i * a + j * b + k * c + base.
local kernels = {}
local function draw_kernel(name, n)
  local key = name .. n
  if not kernels[key] then
    local lists = { { "i", "x[i]" }, { "i, j", "x[i][j]" }, { "i, j, k", "x[i][j][k]" } }
    local factors = { "i * c", "i * b + j * c", "i * a + j * b + k * c" }
    kernels[key] = make_kernel(nil, "function(" .. lists[n][1] .. ", x, seed, base, a, b, c) " .. lists[n][2] .. " = tide.random."
      .. name .. "(seed, base + " .. factors[n] .. ") end", { name = "grid_" .. name })
  end
  return kernels[key]
end

local function draw(name, x, seed, strides, first, base, d, n)
  if n - d > 3 then -- a kernel has three dimensions
    for i = 1, x:size(1) do draw(name, x:select(1, i), seed, strides, first, base + (first[d + 1] + i - 2) * strides[d + 1], d + 1, n) end
    return
  end
  local rest = n - d
  for k = d + 1, n do base = base + (first[k] - 2) * strides[k] end
  draw_kernel(name, rest)(sizes_of(x), x, seed, base, rest > 2 and strides[n - 2] or 0, rest > 1 and strides[n - 1] or 0, strides[n])
end

local function fill(grid, u, seed, name)
  local f, inner = grids.look(grid, u), grids.inside(grid, u)
  local dtype, kind = dtype_of(u)
  if kind ~= "F" then reject("DtypeError", "field", dtype, "a floating dtype") end
  local strides, stride = {}, 1
  for d = #f.sizes, 1, -1 do
    strides[d], stride = stride, stride * f.sizes[d]
  end
  draw(name, inner, seed, strides, f.first, 0, 0, #f.sizes)
  return u
end

function M.rand_(grid, u, seed) return fill(grid, u, seed, "uniform") end
function M.randn_(grid, u, seed) return fill(grid, u, seed, "normal") end
