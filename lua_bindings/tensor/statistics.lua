-- Covariances and counts over grids.

local M = ...
local builtin, dtype_of, sizes_of, place_of = use("tensor/compose.c", "builtin", "dtype_of", "sizes_of", "place_of")
local default_dtype, plain, is_tensor = use("tensor/compose.c", "default_dtype", "plain", "is_tensor")
local reshape, sum, sub, mul, div, matmul, transpose = builtin("reshape", "sum", "sub", "mul", "div", "matmul", "transpose")
local conj, squeeze, item, clamp, diagonal, sqrt, real = builtin("conj", "squeeze", "item", "clamp", "diagonal", "sqrt", "real")
local imag, complex, unsqueeze, to, take, add, where, lt = builtin("imag", "complex", "unsqueeze", "to", "take", "add", "where", "lt")
local le, ge, logical_and, bincount, narrow, diff, select = builtin("le", "ge", "logical_and", "bincount", "narrow", "diff", "select")
local linspace, amin, amax, zeros_like, any, numel, totable = builtin("linspace", "amin", "amax", "zeros_like", "any", "numel", "totable")
local all, empty, copy_ = builtin("all", "empty", "copy_")
local huge = 1 / 0

local function refuse_shape(name, x, expected)
  reject("ShapeError", name, describe(x), expected)
end

-- In what sums of products are made that are too large for 16-bit floats.
function M.wide_of(dtype) return (dtype == "float16" or dtype == "bfloat16") and "float32" or dtype end

-- ---- covariances ----

local function check_weights(weights, name, kinds, expected, n)
  local _, kind = dtype_of(weights)
  if not find(kinds, kind) then reject("DtypeError", name, describe(weights), "one of " .. expected) end
  local s = sizes_of(weights)
  if #s > 1 or (s[1] or 1) ~= n then refuse_shape(name, weights, n .. " elements in one dimension, one for each observation") end
  if n > 0 and item(any(lt(weights, 0))) then reject("ValueError", name, "a negative weight", "none below 0") end
end

-- And the dtype that the result is to have.
-- x times `other`, whose product of n by n is symmetric: of many rows a CPU leaves out a quarter, and mirrors it.
local function symmetric_product(x, other, n)
  if n < 128 or place_of(x) ~= "cpu" or dtype_of(other) ~= dtype_of(x) then return matmul(x, other) end
  local c, h = empty({ n, n }, { dtype = dtype_of(x) }), n // 2
  local top, low = narrow(c, 1, 1, h), narrow(c, 1, h + 1, n - h)
  matmul(narrow(x, 1, 1, h), other, { out = top })
  matmul(narrow(x, 1, h + 1, n - h), narrow(other, 2, h + 1, n - h), { out = narrow(low, 2, h + 1, n - h) })
  copy_(narrow(low, 2, 1, h), transpose(narrow(top, 2, h + 1, n - h), 1, 2))
  return c
end

local function covariance(x, correction, fweights, aweights)
  local s, name, kind = sizes_of(x), dtype_of(x)
  if #s > 2 then refuse_shape("x", x, "at most 2 dimensions") end
  if kind == "B" then reject("DtypeError", "x", "bool", "a dtype of numbers") end
  if kind ~= "F" and kind ~= "C" then name = default_dtype() end
  x = to(x, M.wide_of(name))
  if #s < 2 then x = reshape(x, 1, s[1] or 1) end
  local n = sizes_of(x)[2]
  if fweights then check_weights(fweights, "fweights", "IU", "integers", n) end
  if aweights then check_weights(aweights, "aweights", "F", "floats", n) end
  local w = fweights and aweights and mul(fweights, aweights) or fweights or aweights
  local total = w and numel(x) > 0 and item(sum(w)) or n
  if w and total == 0 then fail("ValueError", called() .. ": the weights add up to 0, expected another sum") end
  local free = total - correction
  if aweights and correction ~= 0 and numel(x) > 0 then
    free = total - correction * item(sum(mul(w, aweights))) / total
  end
  if free <= 0 then
    warn(called() .. ": no degrees of freedom are left: the sums are divided by 0")
    free = 0
  end
  x = sub(x, div(sum(w and mul(x, w) or x, 2, { keepdim = true }), total))
  local weighted = w and to(mul(x, w), (dtype_of(x))) or x
  local other = transpose(weighted, 1, 2)
  local c = kind == "C" and matmul(x, conj(other)) or symmetric_product(x, other, sizes_of(x)[1])
  return squeeze(div(c, free)), name
end

function M.cov(x, correction, fweights, aweights)
  local c, dtype = covariance(x, correction, fweights, aweights)
  return to(c, dtype)
end

function M.corrcoef(x)
  local c, dtype = covariance(x, 1)
  if #sizes_of(c) == 0 then return to(div(c, c), dtype) end
  local _, kind = dtype_of(c)
  local spread = diagonal(c)
  spread = sqrt(kind == "C" and real(spread) or spread)
  c = div(div(c, unsqueeze(spread, 2)), unsqueeze(spread, 1))
  if kind ~= "C" then return to(clamp(c, { min = -1, max = 1 }), dtype) end
  return complex(clamp(real(c), { min = -1, max = 1 }), clamp(imag(c), { min = -1, max = 1 }))
end

-- ---- counts over a grid ----

-- A list of d values: the table, or one value for all.
local function for_each(value, d, name)
  if type(value) ~= "table" then
    local list = {}
    for i = 1, d do list[i] = value end
    return list
  end
  local list = plain(value)
  if #list ~= d then reject("ValueError", name, #list .. " values", d .. ", one for each coordinate") end
  return list
end

local function check_range(range, d)
  if type(range) ~= "table" then refuse(range, "range", "a table of numbers {low, high, ...}") end
  range = plain(range)
  if #range ~= 2 * d then
    reject("ValueError", "range", #range .. " numbers", 2 * d .. ", low and high for each coordinate")
  end
  for i = 1, 2 * d do
    if type(range[i]) ~= "number" then refuse(range[i], "range[" .. i .. "]", "a number") end
    if not (range[i] > -huge and range[i] < huge) or (i % 2 == 0 and range[i] < range[i - 1]) then
      reject("ValueError", "range", text(range[i - (i + 1) % 2]) .. " to "
        .. text(range[i - (i + 1) % 2 + 1]), "finite numbers in ascending order")
    end
  end
  return range
end

-- The smallest and the largest coordinate; of no points 0 and 1.
local function extent(x, d)
  if sizes_of(x)[1] == 0 then
    local range = {}
    for i = 1, d do range[2 * i - 1], range[2 * i] = 0, 1 end
    return range
  end
  local low, high, range = totable(amin(x, 1)), totable(amax(x, 1)), {}
  for i = 1, d do
    if not (low[i] > -huge and high[i] < huge) then
      fail("ValueError", called() .. ": x: coordinate " .. i .. " is not finite everywhere, expected finite ones, or a range")
    end
    range[2 * i - 1], range[2 * i] = low[i], high[i]
  end
  return range
end

-- The number of the bin, from 1, of each coordinate of v, and whether it is in one. A bin holds its lower edge, and the
-- last one its upper edge too. `low`, `high`: of bins of one width, whose number is computed and then compared with
-- the edges; else it is searched for.
local function bins_of(v, edges, n, low, high)
  local at
  if low then
    at = clamp(add(to(clamp(mul(sub(v, low), n / (high - low)), { min = 0, max = n }), "int64"), 1), { min = 1, max = n })
    at = sub(at, to(lt(v, take(edges, at)), "int64"))
    at = clamp(at, { min = 1, max = n })
    at = add(at, to(ge(v, take(edges, add(at, 1))), "int64"))
  else
    at = to(zeros_like(v), "int64") -- so many edges are known to be at or below
    local step = 1
    while step <= n do step = step * 2 end
    while step >= 1 do
      local higher = add(at, step)
      local reaches = logical_and(le(higher, n + 1), le(take(edges, clamp(higher, { max = n + 1 })), v))
      at = where(reaches, higher, at)
      step = step // 2
    end
  end
  local inside = logical_and(ge(v, select(edges, 1, 1)), le(v, select(edges, 1, n + 1)))
  return clamp(at, { min = 1, max = n }), inside
end

local function check_edges(edges, i, x)
  if dtype_of(edges) ~= dtype_of(x) then
    reject("DtypeError", "bins[" .. i .. "]", describe(edges), "one of " .. dtype_of(x) .. " as x")
  end
  local s = sizes_of(edges)
  if #s ~= 1 or s[1] < 2 then refuse_shape("bins[" .. i .. "]", edges, "at least 2 edges in one dimension") end
  if not item(all(ge(diff(edges), 0))) then
    reject("ValueError", "bins[" .. i .. "]", "edges that do not ascend, or NaN", "ascending ones")
  end
  return s[1] - 1
end

-- The edges of each coordinate, how many bins they make, and the range where all bins have one width.
local function grid(x, bins, range, d)
  if is_tensor(bins) then refuse(bins, "bins", "an integer, or a table of integers or tensors") end
  bins = for_each(bins or 10, d, "bins")
  local given, edges, counts = is_tensor(bins[1]), {}, {}
  for i = 1, d do
    if given and not is_tensor(bins[i]) then refuse(bins[i], "bins[" .. i .. "]", "a tensor as bins[1]") end
    if not given and not is_integer(bins[i]) then refuse(bins[i], "bins[" .. i .. "]", "an integer, or tensors of edges") end
    if not given and bins[i] < 1 then reject("ValueError", "bins[" .. i .. "]", bins[i], "at least 1") end
  end
  if given and range then reject("ArgumentError", "range", "it beside tensors of edges", "one of them") end
  if given then
    for i = 1, d do edges[i], counts[i] = bins[i], check_edges(bins[i], i, x) end
    return edges, counts
  end
  range = range and check_range(range, d) or extent(x, d)
  for i = 1, d do
    if range[2 * i - 1] == range[2 * i] then range[2 * i - 1], range[2 * i] = range[2 * i] - 0.5, range[2 * i] + 0.5 end
    local options = { dtype = dtype_of(x), device = place_of(x) }
    edges[i], counts[i] = linspace(range[2 * i - 1], range[2 * i], bins[i] + 1, options), bins[i]
  end
  return edges, counts, range
end

function M.histogramdd(x, bins, range, weight, density)
  local s, dtype = sizes_of(x), dtype_of(x)
  if dtype ~= "float32" and dtype ~= "float64" then reject("DtypeError", "x", dtype, "float32 or float64") end
  if #s < 2 or s[#s] == 0 then refuse_shape("x", x, "points [..., d] in at least 2 dimensions") end
  local d, n = s[#s], 1
  for i = 1, #s - 1 do n = n * s[i] end
  x = reshape(x, n, d)
  if weight then
    if dtype_of(weight) ~= dtype then
      reject("DtypeError", "weight", describe(weight), "one of " .. dtype .. " as x")
    end
    if numel(weight) ~= n then refuse_shape("weight", weight, "one of " .. n .. " elements, one for each point") end
    weight = reshape(weight, n)
  end
  local edges, counts, ends = grid(x, bins, range, d)
  local cell, inside, cells = nil, nil, 1
  for i = 1, d do
    local at, is_in = bins_of(select(x, 2, i), edges[i], counts[i], ends and ends[2 * i - 1], ends and ends[2 * i])
    at = sub(at, 1)
    cell = cell and add(mul(cell, counts[i]), at) or at
    inside = inside and logical_and(inside, is_in) or is_in
    cells = cells * counts[i]
    if cells > 1 << 40 then reject("ValueError", "bins", "a grid of more than " .. (1 << 40) .. " cells", "fewer") end
  end
  cell = where(inside, cell, cells) -- one cell more, for points outside
  local hist = bincount(cell, weight, { minlength = cells + 1 })
  hist = reshape(to(narrow(hist, 1, 1, cells), dtype), counts)
  if density then
    hist = div(hist, sum(hist))
    for i = 1, d do
      local across = {}
      for k = 1, d do across[k] = k == i and counts[i] or 1 end
      hist = div(hist, reshape(diff(edges[i]), across))
    end
  end
  return hist, edges
end
