-- Joins, splits and products that are made of other functions, and what numbers a dtype holds.
--
-- `builtin "name"` is a function of the module or a method of tensors, by its name; arguments have been read by the row.

local M = ...
local builtin, sizes_of, place_of, dtype_of, promoted = use("tensor/compose.c", "builtin", "sizes_of", "place_of", "dtype_of", "promoted")
local dtype_kind, plain, is_tensor, cross_of, default_dtype = use("tensor/compose.c", "dtype_kind", "plain", "is_tensor", "cross_of", "default_dtype")
local cat, stack, reshape, narrow = builtin("cat", "stack", "reshape", "narrow")
local unsqueeze, mul, zeros, copy_, flip, full, index_select = builtin("unsqueeze", "mul", "zeros", "copy_", "flip", "full", "index_select")
local triu_indices, arange, meshgrid, cumprod, totable = builtin("triu_indices", "arange", "meshgrid", "cumprod", "totable")
local expand, to, permute, alias, gt, ge, nonzero = builtin("expand", "to", "permute", "view_as", "gt", "ge", "nonzero")
local addcmul_, addcmul, tile, empty, free = builtin("addcmul_", "addcmul", "tile", "empty", "free")

-- ---- joins ----

local function some(tensors)
  if #tensors == 0 then reject("ValueError", "tensors", "an empty table", "at least one tensor") end
  return tensors
end

-- Every tensor, seen by f(x, its sizes).
local function each(tensors, f)
  local list = {}
  for i = 1, #some(tensors) do list[i] = f(tensors[i], sizes_of(tensors[i])) end
  return list
end

local function at_least_1(x, s) return #s == 0 and reshape(x, 1) or x end
local function at_least_2(x, s)
  if #s < 2 then return reshape(x, 1, s[1] or 1) end
  return x
end

local function at_least_3(x, s)
  if #s < 2 then return reshape(x, 1, s[1] or 1, 1) end
  return #s == 2 and unsqueeze(x, 3) or x
end

function M.hstack(tensors)
  local list = each(tensors, at_least_1)
  return cat(list, #sizes_of(list[1]) == 1 and 1 or 2)
end

function M.vstack(tensors) return cat(each(tensors, at_least_2), 1) end

function M.dstack(tensors) return cat(each(tensors, at_least_3), 3) end

function M.column_stack(tensors)
  return cat(each(tensors, function(x, s) return #s < 2 and reshape(x, s[1] or 1, 1) or x end), 2)
end

local rank = { B = 1, U = 2, I = 2, F = 3, C = 4 }
local complex_of = { float32 = "complex64", float64 = "complex128" }

-- The common dtype, to which tensors without dimensions add their kind only, and the device, which is to be the same.
local function common(tensors)
  local place, of_some, of_none = place_of(tensors[1]), nil, nil
  for i = 1, #tensors do
    local dtype = dtype_of(tensors[i])
    if #sizes_of(tensors[i]) > 0 then
      of_some = of_some and promoted(of_some, dtype) or dtype
    else
      of_none = of_none and promoted(of_none, dtype) or dtype
    end
    if place_of(tensors[i]) ~= place then
      reject("DeviceError", "tensors[" .. i .. "]", "one on " .. place_of(tensors[i]), place .. " as of the first")
    end
  end
  if not of_some or not of_none then return of_some or of_none, place end
  local some_rank, none_rank = rank[dtype_kind(of_some)], rank[dtype_kind(of_none)]
  if none_rank <= some_rank then return of_some, place end
  return complex_of[of_some] or promoted(of_some, of_none), place
end

function M.block_diag(tensors)
  if #tensors == 0 then return zeros({ 1, 0 }) end
  local rows, columns, blocks = 0, 0, {}
  for i = 1, #tensors do
    local n = #sizes_of(tensors[i])
    if n > 2 then reject("ShapeError", "tensors[" .. i .. "]", describe(tensors[i]), "at most 2 dimensions") end
    blocks[i] = at_least_2(tensors[i], sizes_of(tensors[i]))
    local s = sizes_of(blocks[i])
    rows, columns = rows + s[1], columns + s[2]
  end
  local dtype, place = common(tensors)
  local result, row, column = zeros({ rows, columns }, { dtype = dtype, device = place }), 1, 1
  for i = 1, #blocks do
    local s = sizes_of(blocks[i])
    copy_(narrow(narrow(result, 1, row, s[1]), 2, column, s[2]), blocks[i])
    row, column = row + s[1], column + s[2]
  end
  return result
end

-- ---- parts ----

local most_parts = 1 << 24

local function check_index(i, k)
  if not is_integer(i) then refuse(i, "sections[" .. k .. "]", "an integer") end
  if i == 0 then
    reject("IndexError", "sections[" .. k .. "]", "index 0", "one from 1, or from the end -1: "
      .. "a part begins at each")
  end
end

-- Before which of n elements each of the cuts lies, from 1 to n + 1, as Lua's string.sub reads indexes.
local function cuts(indexes, n)
  local at, first = {}, index_base()
  for k = 1, #indexes do
    local i = indexes[k]
    check_index(i, k)
    i = i < 0 and i + n + 1 or i + 1 - first
    at[k] = i < 1 and 1 or i > n + 1 and n + 1 or i
  end
  return at
end

local function listed_indexes(sections)
  if not is_tensor(sections) then return plain(sections) end
  local _, kind = dtype_of(sections)
  if (kind ~= "I" and kind ~= "U") or #sizes_of(sections) > 1 then
    refuse(sections, "sections", "an integer, or a table or tensor of integers in one dimension")
  end
  return totable(sections)
end

function M.tensor_split(x, sections, dim)
  local n = sizes_of(x)[dim]
  if not n then fail("ShapeError", called() .. ": x: a tensor without dimensions cannot be split") end
  if is_tensor(sections) or type(sections) == "table" then sections = listed_indexes(sections) end
  local parts = {}
  if type(sections) == "table" then
    local at, first = cuts(sections, n), 1
    for k = 1, #at + 1 do
      local last = at[k] or n + 1
      parts[k] = narrow(x, dim, first, last > first and last - first or 0)
      first = last
    end
    return parts
  end
  if not is_integer(sections) then refuse(sections, "sections", "an integer, or a table or tensor of integers") end
  if sections < 1 or sections > most_parts then reject("ValueError", "sections", sections, "1 to " .. most_parts) end
  local first, size, larger = 1, n // sections, n % sections
  for k = 1, sections do
    local length = k <= larger and size + 1 or size
    parts[k] = narrow(x, dim, first, length)
    first = first + length
  end
  return parts
end

-- ---- choices of elements ----

local most_elements = 1 << 44

local function check_vector(x, name)
  if #sizes_of(x) ~= 1 then reject("ShapeError", name, describe(x), "one dimension") end
end

function M.vander(x, n, increasing)
  check_vector(x, "x")
  local name, kind = dtype_of(x)
  local dtype, rows = (kind == "F" or kind == "C") and name or "int64", sizes_of(x)[1]
  n = n or rows
  local ones = full({ rows, n < 1 and 0 or 1 }, 1, { dtype = dtype, device = place_of(x) })
  if n < 2 then return ones end
  local powers = cumprod(expand(unsqueeze(to(x, dtype), 2), rows, n - 1), 2)
  return cat(increasing and { ones, powers } or { flip(powers, 2), ones }, 2)
end

function M.cartesian_prod(tensors)
  some(tensors)
  local dtype = dtype_of(tensors[1])
  for i = 1, #tensors do
    check_vector(tensors[i], "tensors[" .. i .. "]")
    if dtype_of(tensors[i]) ~= dtype then
      reject("DtypeError", "tensors[" .. i .. "]", dtype_of(tensors[i]), dtype .. " as of the first")
    end
  end
  if #tensors == 1 then return alias(tensors[1], tensors[1]) end
  local list = { meshgrid(tensors) }
  return reshape(stack(list, -1), -1, #list)
end

-- The places of the first r - 1 elements of a choice, rows of `chosen`, and every place that may follow their last.
local function extended(chosen, n, with_replacement)
  local last = narrow(chosen, 2, sizes_of(chosen)[2], 1)
  local places = arange(1, n + 1, { device = place_of(chosen) })
  local following = nonzero((with_replacement and ge or gt)(places, last))
  local rows = index_select(chosen, 1, reshape(narrow(following, 2, 1, 1), -1))
  return cat({ rows, narrow(following, 2, 2, 1) }, 2)
end

-- How many rows there are: a float, which does not wrap.
local function count_choices(n, r, with_replacement)
  local rows, from = 1.0, with_replacement and n + r - 1 or n
  for k = 1, r < from - r and r or from - r do rows = rows * (from - k + 1) / k end
  return rows
end

function M.combinations(x, r, with_replacement)
  check_vector(x, "x")
  local n, place = sizes_of(x)[1], place_of(x)
  if r == 0 then return zeros({ 0 }, { dtype = dtype_of(x), device = place }) end
  if n == 0 or r > n and not with_replacement then return zeros({ 0, r }, { dtype = dtype_of(x), device = place }) end
  if r == 1 then return reshape(x, n, 1) end
  if n == 1 then return tile(reshape(x, 1, 1), 1, r) end
  if r > most_elements or count_choices(n, r, with_replacement) * r > most_elements then
    fail("ValueError", called() .. ": r: got " .. r .. " of " .. n .. " elements, whose choices fit in no memory")
  end
  local chosen = permute(triu_indices(n, n, with_replacement and 0 or 1, { device = place }), 2, 1)
  for _ = 3, r do chosen = extended(chosen, n, with_replacement) end
  return reshape(index_select(x, 1, reshape(chosen, -1)), -1, r)
end

-- ---- products ----

function M.kron(a, b)
  local s, t = sizes_of(a), sizes_of(b)
  local n = #s > #t and #s or #t
  local left, right, result = {}, {}, {}
  for d = 1, n do
    local m, k = s[d - n + #s] or 1, t[d - n + #t] or 1
    left[2 * d - 1], left[2 * d], right[2 * d - 1], right[2 * d], result[d] = m, 1, 1, k, m * k
  end
  a, b = reshape(a, left), reshape(b, right)
  -- Rows as long as the result's: a CPU does not like to begin anew for each block, unless its elements are floats and
  -- fill a vector.
  local least = { float32 = 16, float64 = 8 }
  local dtype = dtype_of(a) == dtype_of(b) and dtype_of(a)
  if n > 0 and place_of(a) == "cpu" and right[2 * n] < (least[dtype] or 1 / 0) then
    local m, k = left[2 * n - 1], right[2 * n]
    left[2 * n], right[2 * n - 1] = k, m
    a, b = expand(a, left), expand(b, right)
    left[2 * n - 1], left[2 * n], right[2 * n - 1], right[2 * n] = m * k, nil, m * k, nil
    a, b = reshape(a, left), reshape(b, right)
  end
  return reshape(mul(a, b), result)
end

-- Component by component into the result.
local function cross_into(result, a, b, dim)
  for i = 1, 3 do
    local j, k = i % 3 + 1, (i + 1) % 3 + 1
    local part = mul(narrow(a, dim, j, 1), narrow(b, dim, k, 1))
    addcmul(part, narrow(a, dim, k, 1), narrow(b, dim, j, 1), { value = -1, out = narrow(result, dim, i, 1) })
    free(part)
  end
end

-- On a CPU vectors of floats are read once if they lie side by side, others component by component; elsewhere there are
-- two operations: components 2, 3, 1 and 3, 1, 2 of the vectors are windows of
-- them written down twice.
function M.cross(a, b, dim)
  local s, t = sizes_of(a), sizes_of(b)
  if #s ~= #t or s[dim] ~= 3 or t[dim] ~= 3 then
    fail("ShapeError", called() .. ": got " .. describe(a) .. " and " .. describe(b)
      .. ", expected as many dimensions, and size 3 of dimension " .. dim)
  end
  local name, kind = dtype_of(a)
  if dtype_of(b) ~= name or kind == "B" then
    fail("DtypeError", called() .. ": got " .. name .. " and " .. dtype_of(b) .. ", expected one dtype of numbers")
  end
  if place_of(a) == "cpu" then
    local size = {}
    for d = 1, #s do size[d] = s[d] == 1 and t[d] or s[d] end
    if dim > 1 and dim == #s and (name == "float32" or name == "float64") then return cross_of(expand(a, size), expand(b, size)) end
    local result = empty(size, { dtype = name, device = "cpu" })
    cross_into(result, a, b, dim)
    return result
  end
  a, b = cat({ a, a }, dim), cat({ b, b }, dim)
  local result = mul(narrow(a, dim, 2, 3), narrow(b, dim, 3, 3))
  return addcmul_(result, narrow(a, dim, 3, 3), narrow(b, dim, 2, 3), { value = -1 })
end

-- ---- dtypes ----

-- Digits of the fraction, largest and smallest exponent, decimals that hold.
local floats = {
  float16 = { 10, 15, -14, 1e-3 }, bfloat16 = { 7, 127, -126, 1e-2 },
  float32 = { 23, 127, -126, 1e-6 }, float64 = { 52, 1023, -1022, 1e-15 },
}
local part_of = { complex64 = "float32", complex128 = "float64" }

function M.finfo(dtype)
  local name = dtype or default_dtype()
  local of = part_of[name] or name
  local f = floats[of]
  if not f then reject("DtypeError", "dtype", name, "a floating or complex one") end
  local most, tiny = (2 - 2.0 ^ -f[1]) * 2.0 ^ f[2], 2.0 ^ f[3]
  local bits = { float16 = 16, bfloat16 = 16, float32 = 32, float64 = 64 }
  return { bits = bits[of], eps = 2.0 ^ -f[1], max = most, min = -most, tiny = tiny, smallest_normal = tiny,
    resolution = f[4], dtype = of }
end

function M.iinfo(dtype)
  local bits = ({ uint8 = 8, int8 = 8, int16 = 16, int32 = 32, int64 = 64 })[dtype]
  if not bits then reject("DtypeError", "dtype", dtype, "an integer one") end
  if dtype == "uint8" then return { bits = 8, max = 255, min = 0, dtype = dtype } end
  return { bits = bits, max = (1 << bits - 1) - 1, min = -(1 << bits - 1), dtype = dtype }
end
