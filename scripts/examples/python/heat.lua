-- heat.lua: one step of the heat equation, for heat.py. The plate's edge stays as it is.
local tide = require "tide"

local spread = tide.kernel(function(i, j, new, old, rate)
  if i > 1 and i < old.shape[1] and j > 1 and j < old.shape[2] then
    local around = old[i - 1][j] + old[i + 1][j] + old[i][j - 1] + old[i][j + 1]
    new[i][j] = old[i][j] + rate * (around - 4 * old[i][j])
  end
end)

-- steps(plate, n, rate): n steps in place; gives the mean.
return function(plate, n, rate)
  local old, new = plate, plate:clone()
  for _ = 1, n do
    spread({ plate:size(1), plate:size(2) }, new, old, rate)
    old, new = new, old
  end
  if n % 2 == 1 then plate:copy_(old) end
  return plate:mean():item()
end
