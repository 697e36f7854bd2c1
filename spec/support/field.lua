-- Fields on a grid as nested tables, for the specs that compute with them in plain Lua.

local tide = require "tide"
local D = require "spec.support.device"

local M = {}

-- A tensor of small whole numbers, which sums of every dtype hold exactly.
function M.some(...) return tide.randint(-4, 5, { ... }, { device = D.dev }):float() end

-- The element of a volume at a place from 0.
function M.at(t, z, y, x) return t[z + 1][y + 1][x + 1] end

-- Planes of one to three dims as three, [batch * channels][z][y][x], and their size.
function M.planes(x)
  local s = x:size()
  local rank = #s - 2
  local dims = { 1, 1, 1 }
  for d = 1, rank do dims[3 - rank + d] = s[2 + d] end
  return x:double():reshape(-1, dims[1], dims[2], dims[3]):tolist(), dims
end

return M
