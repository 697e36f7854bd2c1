-- Places for grid_sample, of several operations on tensors.

local M = ...
local dtype_of = use("tensor/compose.c", "dtype_of")

-- From -1 to 1 over n elements: from the first to the last one, or from border to border.
local function places(theta, n, align)
  local i = theta:new_ones(n):double():cumsum(1)
  if not align then return (i * 2 - 1) / n - 1 end
  return n > 1 and (i - 1) * (2 / (n - 1)) - 1 or i * 0
end

function M.affine_grid(theta, size, align)
  local rank = #size - 2
  local fits = theta:dim() == 3 and theta:size(2) == rank and theta:size(3) == rank + 1 and theta:size(1) == size[1]
  if (rank ~= 2 and rank ~= 3) or not fits then
    reject("ShapeError", "theta", describe(theta) .. " for a size of " .. #size .. " integers, the first "
      .. (size[1] or "missing"), "[batch, 2, 3] for {batch, channels, h, w}, or [batch, 3, 4] for {batch, channels, d, h, w}")
  end
  if not theta:is_floating_point() then reject("DtypeError", "theta", dtype_of(theta), "a floating one") end
  local wide, one = theta:double(), {}
  for d = 1, rank + 2 do one[d] = 1 end
  one[1], one[rank + 2] = size[1], rank
  local sum = wide:select(3, rank + 1):reshape(one)
  for d = 1, rank do
    local along = {}
    for k = 1, rank + 2 do along[k] = 1 end
    along[d + 1] = size[d + 2]
    sum = sum + wide:select(3, rank + 1 - d):reshape(one) * places(theta, size[d + 2], align):reshape(along)
  end
  return sum:to(theta.dtype)
end
