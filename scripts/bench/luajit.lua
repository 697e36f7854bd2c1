-- What calls cost the host under LuaJIT and under Lua 5.4: nanoseconds of one call, the best of nine rounds. All of it is
-- on the CPU or, for blocks, on a simulated device, so that the binding is what is measured. Compare by running both:
--   TIDE_SIM_DEVICES=1 LUA_CPATH="build/lib/lua/5.1/?.so" luajit scripts/bench/luajit.lua
--   TIDE_SIM_DEVICES=1 LUA_CPATH="build/lib/lua/5.4/?.so" lua5.4 scripts/bench/luajit.lua
local tide = require "tide"

local function measure(name, n, f)
  local best = math.huge
  for _ = 1, 9 do
    collectgarbage()
    local start = os.clock()
    f(n)
    best = math.min(best, os.clock() - start)
  end
  print(("%-32s %8.1f"):format(name, best / n * 1e9))
end

tide.set_num_threads(1)
local one, matrix, line = tide.ones(1), tide.ones(8, 8), tide.ones(1000)

print(jit and jit.version or _VERSION)
measure("x:item()", 1e6, function(n)
  local sum = 0
  for _ = 1, n do sum = sum + one:item() end
  assert(sum == n)
end)
measure("x[i]:item()", 1e6, function(n)
  local sum = 0
  for i = 1, n do sum = sum + line[i % 1000 + 1]:item() end
  assert(sum == n)
end)
measure("x:numel()", 1e6, function(n)
  local sum = 0
  for _ = 1, n do sum = sum + matrix:numel() end
  assert(sum == 64 * n)
end)
measure("x:size(2)", 1e6, function(n)
  local sum = 0
  for _ = 1, n do sum = sum + matrix:size(2) end
  assert(sum == 8 * n)
end)
measure("x[i], a view", 3e5, function(n)
  local row
  for i = 1, n do row = matrix[i % 8 + 1] end
  assert(row:dim() == 1)
end)
measure("x:view(64)", 3e5, function(n)
  local flat
  for _ = 1, n do flat = matrix:view(64) end
  assert(flat:dim() == 1)
end)
measure("a + a of one element", 3e5, function(n)
  local sum
  for _ = 1, n do sum = one + one end
  assert(sum:item() == 2)
end)
measure("a:add_(a) of one element", 3e5, function(n)
  local zero = tide.zeros(1)
  for _ = 1, n do zero:add_(zero) end
  assert(zero:item() == 0)
end)
if tide.cuda.is_available() then
  local stream = tide.cuda.Stream()
  local function nothing() end
  measure("a stream block", 3e5, function(n)
    for _ = 1, n do tide.cuda.stream(stream, nothing) end
  end)
end
