-- loader.lua: a loop of load, copy and compute on cuda:0, 128 batches, beside the slowest of the three alone: 1 is
-- perfect.
local tide = require "tide"
package.path = arg[0]:match("^(.-)[^/]*$") .. "?.lua;" .. package.path
local bench = require "bench"

local per, batch, batches = 1 << 18, 32, 128
local items = {}
for i = 1, 1024 do items[i] = tide.rand(per) end
local function item(i) return items[i % #items + 1] end
local w = tide.rand(1024, 1024, {device = "cuda"})
local product = {out = tide.empty(1024, 1024, {device = "cuda"})}

local function loader(device)
  return tide.data.loader(item, {size = batch * batches, batch_size = batch, device = device})
end
local host, gpu = loader(), loader "cuda"
local function seconds(f)
  return bench.cpu_s(function()
    f()
    tide.cuda.synchronize()
  end, 5)
end
local function computing(rounds) for _ = 1, rounds do w:matmul(w, product) end end

local load = seconds(function() for _, x in host:iter() do x:free() end end)
local pinned = tide.rand(batch, per, {pin_memory = true})
local copy = seconds(function() for _ = 1, batches do pinned:to("cuda", {non_blocking = true}) end end)
local once = seconds(function() for _ = 1, batches do computing(20) end end) / 20
print(("# a batch of %d MiB: loaded in %.2f ms, copied in %.2f"):format(batch * per >> 18, load / batches * 1e3, copy / batches * 1e3))

-- In the loop's own stream a copy comes after what is queued there; with `device` the loader copies beside it.
local function loop(rounds) for _ in gpu:iter() do computing(rounds) end end
local function one_stream(rounds)
  for _, x in host:iter() do
    x = x:to("cuda", {non_blocking = true})
    computing(rounds)
  end
end
for _, part in ipairs{{"light", 0.2}, {"equal", 1}, {"heavy", 2}} do
  local rounds = math.max(1, math.floor(part[2] * load / once + 0.5))
  local slowest = math.max(load, copy, seconds(function() for _ = 1, batches do computing(rounds) end end))
  for name, f in pairs{loader = loop, loader_one_stream = one_stream} do
    bench.out(name .. "_" .. part[1], seconds(function() f(rounds) end) / slowest, "of 1")
  end
end
