-- loader.lua: a loop of load, copy and compute on cuda:0, beside the slowest of the three alone: 1 is perfect.
local tide = require "tide"
package.path = arg[0]:match("^(.-)[^/]*$") .. "?.lua;" .. package.path
local bench = require "bench"

local per, batch, count = 1 << 18, 32, 512
local items = {}
for i = 1, count do items[i] = tide.rand(per) end
local w = tide.rand(4096, 4096, {device = "cuda"})
local product = {out = tide.empty(4096, 4096, {device = "cuda"})}
local batches = count // batch

local function loader(prefetch)
  return tide.data.loader(items, {batch_size = batch, pin_memory = true, prefetch = prefetch}):iter()
end
local function seconds(f)
  return bench.cpu_s(function()
    f()
    tide.cuda.synchronize()
  end, 7)
end
local function computing(rounds) for _ = 1, rounds do w:matmul(w, product) end end

local load = seconds(function() for _ in loader(2) do end end)
local pinned = tide.rand(batch, per, {pin_memory = true})
local copy = seconds(function() for _ = 1, batches do pinned:to("cuda", {non_blocking = true}) end end)
local once = seconds(function() for _ = 1, batches do computing(1) end end)
for name, part in pairs{light = 0.2, equal = 1, heavy = 2} do
  local rounds = math.max(1, math.floor(part * load / once + 0.5))
  local compute = seconds(function() for _ = 1, batches do computing(rounds) end end)
  local loop = seconds(function()
    for _, x in loader(2) do
      x = x:to("cuda", {non_blocking = true})
      computing(rounds)
    end
  end)
  bench.out("loader_" .. name, loop / math.max(load, copy, compute), "of 1")
end
