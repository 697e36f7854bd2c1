-- What is made of sorted lines by operations on whole tensors: x:unique, x:mode, x:quantile, tide.isin.

local M = ...
local builtin, is_tensor, dtype_of = use("tensor/compose.c", "builtin", "is_tensor", "dtype_of")
local extremes, sorted, search = use("tensor/sort.c", "extremes", "sorted", "search")
local tensor = builtin "tensor"

-- Of lines in order, along the last dimension, which elements differ from the one before them.
local function starts(lines, n)
  local first = lines:new_empty(lines:size(), { dtype = "bool" })
  first:narrow(-1, 1, 1):fill_(true)
  if n > 1 then lines:narrow(-1, 2, n - 1):ne(lines:narrow(-1, 1, n - 1), { out = first:narrow(-1, 2, n - 1) }) end
  return first
end

-- ---- unique ----

-- The rows of a matrix in order, the first column being what counts most: sorted by one column after the other.
local function order_of_rows(rows, n, columns)
  local order = rows:select(2, columns):argsort(1)
  for k = columns - 1, 1, -1 do
    order = order:index_select(1, rows:select(2, k):index_select(1, order):argsort(1))
  end
  return order
end

-- For n things in the order `order`, where `first` says which of them are new: the places of these, from 1, in order;
-- for each thing which one it is; how often each occurs.
local function numbers(first, order, n, inverse, counts)
  local at, which, often = first:nonzero():select(2, 1)
  if inverse then which = order:new_empty { n }:scatter_(1, order, first:cumsum(1)) end
  if counts then
    local ends = at:new_full({ at:numel() + 1 }, n + 1)
    ends:narrow(1, 1, at:numel()):copy_(at)
    often = ends:diff()
  end
  return at, which, often
end

local function give(values, which, often, inverse, counts)
  if not inverse then
    which = often
  elseif index_base() == 0 then
    which = which - 1
  end
  if inverse and counts then return values, which, often end
  if inverse or counts then return values, which end
  return values
end

local function unique_slices(x, dim, inverse, counts)
  local n = x:size(dim)
  local moved = x:movedim(dim, 1)
  if x:numel() == 0 then
    if n > 0 then reject("ShapeError", "x", "no elements in its slices", "some") end
    local none = x:new_empty({ 0 }, { dtype = "int64" })
    return give(x:clone(), none, none, inverse, counts)
  end
  local rows = moved:reshape(n, x:numel() // n)
  local order = order_of_rows(rows, n, rows:size(2))
  local lines, first = rows:index_select(1, order), x:new_empty({ n }, { dtype = "bool" }):fill_(true)
  if n > 1 then lines:narrow(1, 2, n - 1):ne(lines:narrow(1, 1, n - 1)):any(2, { out = first:narrow(1, 2, n - 1) }) end
  local at, which, often = numbers(first, order, n, inverse, counts)
  return give(x:index_select(dim, order:index_select(1, at)), which, often, inverse, counts)
end

-- The least of n integers, and how many values there may be from it to the greatest; nil: they are no integers, or so
-- many that sorting is better. What overflows is a long range.
local function short_range(x, n)
  if not find(text(x.dtype), "int") then return nil end
  local low, high = extremes(x)
  local range = high - low + 1
  if range <= 0 or range > 4 * n + 256 or low == -1 << 31 then return nil end
  return low, range
end

-- These are counted: one place for each value there may be.
local function unique_counted(x, low, range, inverse, counts)
  local at = (x:element_size() < 4 and x:int() or range >= 1 << 31 and x:long() or x) - (low - 1)
  local often = x:new_zeros({ range }, { dtype = counts and "int64" or "uint8" })
  often:scatter_(1, at:reshape(-1), 1, counts and { reduce = "add" } or nil)
  local is_there = often:ne(0)
  local values = (is_there:nonzero():select(2, 1) + (low - 1)):to(x.dtype)
  local which = inverse and is_there:cumsum(1):take(at)
  return give(values, which, counts and often:masked_select(is_there), inverse, counts)
end

function M.unique_values(x, _, inverse, counts, dim) -- they are always sorted
  if dim then
    if x:dim() == 0 then x = x:reshape(1) end
    return unique_slices(x, dim, inverse, counts)
  end
  local n, line, order = x:numel(), x:reshape(-1), nil
  if n == 0 then
    local none = x:new_empty({ 0 }, { dtype = "int64" })
    return give(x:new_empty { 0 }, none:reshape(x:size()), none, inverse, counts)
  end
  local low, range = short_range(x, n)
  if low then return unique_counted(x, low, range, inverse, counts) end
  if inverse then line, order = line:sort(1) else line = sorted(line, 1) end
  local first = starts(line, n)
  if not inverse and not counts then return line:masked_select(first) end
  local at, which, often = numbers(first, order, n, inverse, counts)
  return give(line:index_select(1, at), which and which:reshape(x:size()), often, inverse, counts)
end

-- ---- mode ----

-- An element of an ordered line has as many equals before it as places lie between it and the start of its run.
function M.most_frequent(x, dim, keepdim)
  local is_scalar = x:dim() == 0
  local lines = is_scalar and x:reshape(1) or x:movedim(dim, -1)
  local n = lines:size(-1)
  if n == 0 then reject("ShapeError", "x", "nothing along dim", "at least one element there") end
  local values, indices = lines:sort(-1)
  local place = indices:new_ones({ n }):cumsum(1)
  local run = place - (starts(values, n):mul(place):cummax(-1))
  local last = run:argmax(-1, { keepdim = true })
  values, indices = values:gather(-1, last), indices:gather(-1, last)
  if index_base() == 0 then indices = indices - 1 end
  if is_scalar then return values:reshape {}, indices:reshape {} end
  if keepdim then return values:movedim(-1, dim), indices:movedim(-1, dim) end
  return values:squeeze(-1), indices:squeeze(-1)
end

-- ---- quantile ----

-- q's values on x's device, in one dimension. Those of the host are filled in: a copy would wait for the device.
local function placed(q, x, on_host)
  q = q:reshape(-1)
  if not on_host or text(x.device) == "cpu" then return q:to(x.device) end
  local made, values = x:new_empty(q:size(), { dtype = q.dtype }), q:totable()
  for i = 1, #values do made:narrow(1, i, 1):fill_(values[i]) end
  return made
end

local function parts_of(x, q)
  if not is_tensor(q) then
    if type(q) ~= "number" and type(q) ~= "table" then refuse(q, "q", "a number, a list of numbers or a tensor") end
    return tensor(q, { dtype = x.dtype, device = "cpu" })
  end
  if q.dtype ~= x.dtype then reject("DtypeError", "q", text(q.dtype), text(x.dtype) .. " as of x") end
  if q:dim() > 1 then reject("ShapeError", "q", q:dim() .. " dimensions", "at most one") end
  return q
end

function M.quantile_of(x, q, dim, keepdim, interpolation)
  local dtype = dtype_of(x)
  if dtype ~= "float32" and dtype ~= "float64" then reject("DtypeError", "x", dtype, "float32 or float64") end
  if x:numel() == 0 then reject("ShapeError", "x", "no elements", "some") end
  q = parts_of(x, q)
  local on_host = not q.is_cuda
  if on_host and not q:ge(0):logical_and(q:le(1)):all():item() then
    reject("ValueError", "q", "a value below 0 or above 1", "0 to 1")
  end
  local lines = dim and x:dim() > 0 and x:movedim(dim, -1) or x:reshape(-1)
  local n, count = lines:size(-1), q:numel()
  lines = sorted(lines, lines:dim())
  local wide = n >= 1 << 24 and q:double() or q -- ranks are whole numbers and parts
  local nans, size = lines:narrow(-1, n, 1):isnan(), lines:size()
  size[#size] = count
  local ranks = (placed(wide, x, on_host):clamp(0, 1) * (n - 1)):expand(size):masked_fill(nans, n - 1)
  local function at(places) return lines:gather(-1, places:long() + 1) end
  local result
  if interpolation == "nearest" then
    result = at(ranks:round())
  elseif interpolation == "higher" then
    result = at(ranks:ceil())
  else
    local below = ranks:floor()
    result = at(below)
    if interpolation ~= "lower" then
      local weight = interpolation == "midpoint" and ranks:new_full(size, 0.5) or ranks - below
      result = result:lerp(at(ranks:ceil()), weight:to(x.dtype))
    end
  end
  result = result:movedim(-1, 1)
  if keepdim then
    local kept = x:size()
    for d = 1, #kept do kept[d] = (not dim or d == dim) and 1 or kept[d] end
    result = result:reshape(count, unpack(kept, 1, #kept))
  end
  return q:dim() == 0 and result:select(1, 1) or result
end

-- ---- isin ----

function M.is_in(x, test, invert)
  local found
  if test:numel() == 0 or x:numel() == 0 then
    found = x:new_empty(x:size(), { dtype = "bool" }):fill_(false)
  else
    local line = sorted(test:reshape(-1), 1)
    found = line:take(search(line, x):clamp_max(line:numel())):eq(x)
  end
  return invert and found:logical_not() or found
end
