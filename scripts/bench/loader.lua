-- loader.lua: a loop of load, copy and compute on cuda:0, 128 batches, beside the slowest of the three alone, all of
-- them in turns: 1 is perfect. Loading alone takes the same memory again, the loops leave theirs to the collector.
local tide = require "tide"
tide.manual_seed(1)
package.path = arg[0]:match("^(.-)[^/]*$") .. "?.lua;" .. package.path
local bench = require "bench"

local per, batch, batches, rounds = 1 << 18, 32, 128, 7
local items = {}
for i = 1, 1024 do items[i] = tide.rand(per) end
local function item(i) return items[i % #items + 1] end
local w = tide.rand(1024, 1024, {device = "cuda"})
local product = {out = tide.empty(1024, 1024, {device = "cuda"})}
local pinned = tide.rand(batch, per, {pin_memory = true})

local function loader(device)
  return tide.data.loader(item, {size = batch * batches, batch_size = batch, device = device})
end
local host, gpu = loader(), loader "cuda"

local function load()
  for _, x in host:iter() do x:free() end
end
local function copy()
  for _ = 1, batches do pinned:to("cuda", {non_blocking = true}) end
  tide.cuda.synchronize()
end
local function computing(n)
  for _ = 1, n do w:matmul(w, product) end
end
local function compute(n)
  for _ = 1, batches do computing(n) end
  tide.cuda.synchronize()
end
-- In the loop's own stream a copy comes after what is queued there; with `device` the loader copies beside it.
local function loop(n)
  for _ in gpu:iter() do computing(n) end
  tide.cuda.synchronize()
end
local function one_stream(n)
  for _, x in host:iter() do
    x = x:to("cuda", {non_blocking = true})
    computing(n)
  end
  tide.cuda.synchronize()
end

local alone = bench.turns({load, function() compute(20) end}, rounds)
for _, part in ipairs{{"light", 0.2}, {"equal", 1}, {"heavy", 2}} do
  local n = math.max(1, math.floor(part[2] * alone[1] / alone[2] * 20 + 0.5))
  local function with(f) return function() f(n) end end
  local s = bench.turns({load, copy, with(compute), with(loop), with(one_stream)}, rounds)
  local slowest = math.max(s[1], s[2], s[3])
  local ms = {}
  for i, seconds in ipairs(s) do ms[i] = seconds / batches * 1e3 end
  print(("# a batch of %d MiB, ms: load %.2f, copy %.2f, compute %.2f; the loop %.2f, in one stream %.2f"):format(
    batch * per >> 18, table.unpack(ms)))
  bench.out("loader_" .. part[1], s[4] / slowest, "of 1")
  bench.out("loader_one_stream_" .. part[1], s[5] / slowest, "of 1")
end
