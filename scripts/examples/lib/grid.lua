-- Particles in a grid of square cells, sorted by cell, so that those near to one another lie near to one another in
-- memory and a particle's neighbors are three short ranges: its cell with the ones to its left and right, in its row
-- of cells and in the rows above and below.
--
--   local grid = Grid.new{width = 16, height = 9, cell = 0.1, most = 24, device = device}
--   local order = grid:sort(place)             -- put every tensor that has a row a particle into this order: t[order]
--   local near, there = grid:neighbors()      -- [N, 3 * most]: which rows are near, and 1 or 0: whether there is one
--
-- Places are [N, 2], x and y inside the box. A particle sees at most `most` others in each of the three ranges.
local tide = require "tide"

local Grid = {}
Grid.__index = Grid

function Grid.new(t)
  local self = setmetatable({cell = t.cell, most = t.most or 24}, Grid)
  self.columns = math.ceil(t.width / t.cell) + 2 -- a column on either side stays empty: no range leaves its row
  self.rows = math.ceil(t.height / t.cell) + 2
  self.edges = tide.arange(self.columns * self.rows + 1, {dtype = "int64", device = t.device})
  self.steps = tide.arange(self.most, {dtype = "int64", device = t.device}):view(1, 1, -1)
  self.beside = (tide.tensor({-1, 0, 1}, {dtype = "int64", device = t.device}) * self.columns):view(1, 3)
  return self
end

-- Which cell each particle is in, from 0; sorts, and returns the order.
function Grid:sort(place)
  local at = (place / self.cell):floor():long()
  local column = at:select(2, 1):clamp(0, self.columns - 3) + 1
  local row = at:select(2, 2):clamp(0, self.rows - 3) + 1
  local order
  self.of, order = (row * self.columns + column):sort(1, {stable = true})
  self.first = tide.searchsorted(self.of, self.edges) -- of each cell, where its particles begin
  return order
end

function Grid:neighbors()
  local middle = self.of:view(-1, 1) + self.beside + 1 -- cells count from 0, rows of a tensor from 1
  local from, to = self.first[middle - 1], self.first[middle + 2]
  local near = from:unsqueeze(3) + self.steps
  local there = near:lt(to:unsqueeze(3))
  local n = self.of:size(1)
  return near:clamp(1, n):view(n, -1), there:view(n, -1)
end

return Grid
