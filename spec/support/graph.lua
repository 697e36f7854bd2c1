-- What the specs of graphs share.

local cuda = require "tide".cuda
local M = {}

-- A new graph of the work of fn.
function M.capture(fn, opts)
  local g = cuda.CUDAGraph()
  cuda.graph(g, opts, fn)
  return g
end

-- Releases what graphs hold, after their last replay.
function M.settle()
  collectgarbage()
  collectgarbage()
  cuda.synchronize()
  cuda.synchronize()
end

return M
