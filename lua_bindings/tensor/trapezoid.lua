-- tide.trapezoid and cumulative_trapezoid: the area under lines of points, by trapezoids, as operations of tensors.

local M = ...

-- How wide the trapezoids are, so that they go with what stands between the points of y.
local function widths(y, x, dim)
  local n, ndim = y:size(dim), y:dim()
  if x:dim() == 1 and x:size(1) ~= n then
    fail("ShapeError", called() .. ": x has other points than y, got " .. x:size(1) .. ", expected " .. n)
  elseif x:dim() == 1 then
    local size = {}
    for d = 1, ndim do size[d] = d == dim and n or 1 end
    x = x:view(size)
  end
  if x:dim() > ndim then
    fail("ShapeError", called() .. ": x has more dimensions than y, got " .. x:dim() .. ", expected at most " .. ndim)
  end
  while x:dim() < ndim do x = x:unsqueeze(1) end
  for d = 1, ndim do
    if x:size(d) ~= y:size(d) and (d == dim or x:size(d) ~= 1 and y:size(d) ~= 1) then
      fail("ShapeError", called() .. ": x: got " .. describe(x) .. ", expected a place for each point along dim, and sizes that broadcast to those of y, "
        .. describe(y))
    end
  end
  return x:diff { dim = dim }
end

-- The sum of both ends of each trapezoid.
local function ends(y, dim)
  local n = y:size(dim)
  if n == 0 then return y end
  return y:narrow(dim, n > 1 and 2 or 1, n - 1) + y:narrow(dim, 1, n - 1)
end

local function check(y)
  if y:dim() == 0 then fail("ShapeError", called() .. ": y has no dimensions, got a single number, expected points in a line") end
  if text(y.dtype) == "bool" or text(y.dtype) == "tide.bool" then
    fail("DtypeError", called() .. ": dtype not accepted, got bool, expected numbers")
  end
end

function M.trapezoid(y, x, dx, dim)
  check(y)
  local n = y:size(dim)
  if x then
    local w = widths(y, x, dim)
    return n == 0 and y:sum(dim):to(y.dtype) or (w * ends(y, dim)):sum(dim) / 2
  end
  if n == 0 then return y:sum(dim):to(y.dtype) end
  return (y:sum(dim) - (y:select(dim, 1) + y:select(dim, n)) * 0.5) * dx
end

function M.cumulative_trapezoid(y, x, dx, dim)
  check(y)
  if x then return (widths(y, x, dim) * ends(y, dim)):cumsum(dim) / 2 end
  return (ends(y, dim) * (dx / 2)):cumsum(dim)
end
