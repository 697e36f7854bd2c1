-- cdist: the distance of every pair of points.
--
-- Euclidean distances of many points are |x|^2 + |y|^2 - 2 x y by a matrix product, of rows that are extended by the
-- squares. Where the squares are much larger than the difference this cancels: a point is not quite 0 from itself. The
-- rule by which it is done and the names of the modes are PyTorch's. All others are norms of differences, so many rows
-- of x at a time that the differences stay in a cache. On a CPU the points of y stand side by side for it: the lines are
-- long, and norms of columns are sums of vectors. Products, and sums of absolute differences, are the core's there.

local M = ...
local statistics = use "tensor/statistics"
local builtin, sizes_of, place_of, dtype_of, cdist_of, promoted = use("tensor/compose.c", "builtin", "sizes_of", "place_of", "dtype_of", "cdist_of", "promoted")
local sub, norm, unsqueeze, narrow, empty, cat, square, sum = builtin("sub", "norm", "unsqueeze", "narrow", "empty", "cat", "square", "sum")
local mul, ones_like, matmul, transpose, abs_, ceil_, clamp_ = builtin("mul", "ones_like", "matmul", "transpose", "abs_", "ceil_", "clamp_")
local sqrt_, to, free, zeros, contiguous, expand = builtin("sqrt_", "to", "free", "zeros", "contiguous", "expand")

local few = { points = 25, coordinates = 12 } -- up to which a product does not pay
local distance = { sum = 0, euclidean = 1, by_product = 2 } -- of cdist_of
local long = { points = 64, coordinates = 8 } -- from which on lines of points are better than lines of coordinates
local cached = { cpu = 1 << 18, gpu = 1 << 22 } -- elements

local function by_product(x, y)
  local x_square, y_square = sum(square(x), -1, { keepdim = true }), sum(square(y), -1, { keepdim = true })
  local left = cat({ mul(x, -2), x_square, ones_like(x_square) }, -1)
  local right = cat({ y, ones_like(y_square), y_square }, -1)
  local result = sqrt_(clamp_(matmul(left, transpose(right, -2, -1)), { min = 0 }))
  free(left)
  free(right)
  return result
end

local function by_difference(x, y, p, size)
  local n, rows, each = #size, size[#size - 1], sizes_of(x)[#sizes_of(x)]
  for d = 1, n do
    if d ~= n - 1 then each = each * size[d] end
  end
  local place = place_of(x)
  local count = (place == "cpu" and cached.cpu or cached.gpu) // (each > 0 and each or 1)
  if count < 1 then count = 1 end
  local columns = place == "cpu" and size[n] >= long.points and sizes_of(y)[#sizes_of(y)] >= long.coordinates
  local dim = columns and -2 or -1 -- of the coordinates
  if columns then y = contiguous(transpose(y, -2, -1)) end
  local result, across = empty(size, { dtype = dtype_of(x), device = place }), unsqueeze(y, -3)
  for first = 1, rows, count do
    local length = first + count - 1 > rows and rows - first + 1 or count
    local difference = sub(unsqueeze(narrow(x, #sizes_of(x) - 1, first, length), columns and -1 or -2), across)
    local out = { out = narrow(result, n - 1, first, length) }
    if p == 0 then -- how many differ, and NaN where one is
      sum(clamp_(ceil_(abs_(difference)), { max = 1 }), dim, out)
    else
      norm(difference, p, dim, out)
    end
    free(difference)
  end
  return result
end

-- What the core has: on a CPU all pairs at once, where sums of absolute differences, the squares of few coordinates
-- and products of many are quicker than operations on tensors.
local function on_cpu(x, y, kind, size)
  local function whole(z, points)
    local all = { unpack(size, 1, #size) }
    all[#size - 1], all[#size] = points, sizes_of(z)[#sizes_of(z)]
    return expand(z, all)
  end
  return cdist_of(whole(x, size[#size - 1]), whole(y, size[#size]), kind)
end

-- The size of the result: the dimensions before the last two broadcast.
local function result_size(x, y)
  local s, t, size = sizes_of(x), sizes_of(y), {}
  local n = #s > #t and #s or #t
  local function refuse_sizes(expected)
    fail("ShapeError", called() .. ": got " .. describe(x) .. " and " .. describe(y) .. ", expected " .. expected)
  end
  if #s < 2 or #t < 2 then refuse_sizes("points in at least 2 dimensions") end
  if s[#s] ~= t[#t] then refuse_sizes("as many coordinates") end
  for d = 1, n - 2 do
    local a, b = s[d - n + #s] or 1, t[d - n + #t] or 1
    if a ~= b and a ~= 1 and b ~= 1 then refuse_sizes("batch sizes that are equal or 1") end
    size[d] = a == 1 and b or a
  end
  size[n - 1], size[n] = s[#s - 1], t[#t - 1]
  return size
end

local function check_floating(x, name)
  local dtype, kind = dtype_of(x)
  if kind ~= "F" then reject("DtypeError", name, dtype, "a floating dtype") end
  return dtype
end

function M.cdist(x, y, p, mode)
  local dtype = promoted(check_floating(x, "x"), check_floating(y, "y"))
  if place_of(x) ~= place_of(y) then reject("DeviceError", "y", "one on " .. place_of(y), place_of(x) .. " as x") end
  if not (p >= 0) then reject("ValueError", "p", text(p), "at least 0") end
  local size = result_size(x, y)
  local rows, columns = size[#size - 1], size[#size]
  local wide = statistics.wide_of(dtype) -- squares of 16-bit floats are soon too large for them
  x, y = to(x, wide), to(y, wide)
  if sizes_of(x)[#sizes_of(x)] == 0 then return zeros(size, { dtype = dtype, device = place_of(x) }) end
  local always, is_large = mode == "use_mm_for_euclid_dist", rows > few.points or columns > few.points
  local by_one = p == 2 and (always or mode ~= "donot_use_mm_for_euclid_dist" and is_large)
  local result
  if place_of(x) == "cpu" and (by_one or p == 1) then
    local exact = not always and sizes_of(x)[#sizes_of(x)] <= few.coordinates
    result = on_cpu(x, y, p == 1 and distance.sum or exact and distance.euclidean or distance.by_product, size)
  else
    result = by_one and by_product(x, y) or by_difference(x, y, p, size)
  end
  return to(result, dtype)
end
