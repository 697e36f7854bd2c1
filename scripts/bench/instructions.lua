-- instructions.lua CASE N: does one thing N times, for scripts/bench/instructions, which counts.
local tide = require "tide"
local case, n = arg[1], math.tointeger(arg[2])
local cuda = {device = "cuda"}
local x, y, one = tide.ones(1024, cuda), tide.ones(1024, cuda), tide.ones(1)
local loops = {
  add = function() for _ = 1, n do local _ = x + y end end,
  add_cpu = function() for _ = 1, n do local _ = one + one end end,
  view = function() for _ = 1, n do local _ = x:view(32, 32) end end,
  empty = function() for _ = 1, n do local _ = tide.empty(1024, cuda) end end,
  empty_cpu = function() for _ = 1, n do local _ = tide.empty(1) end end,
}
if case == "bind" then -- an input of a graph of eight kernels, each of one of eight that are replaced together
  local a, b, g = {}, {}, tide.cuda.CUDAGraph()
  for i = 1, 8 do a["x" .. i], b["x" .. i] = tide.zeros(1024, cuda), tide.zeros(1024, cuda) end
  tide.cuda.graph(g, {inputs = a}, function() for i = 1, 8 do a["x" .. i]:add_(1) end end)
  loops.bind = function() for i = 1, n // 8 do g:bind(i % 2 == 0 and a or b) end end
end
-- Both lengths of a loop begin and end with nothing left to collect.
collectgarbage()
loops[case]()
collectgarbage()
