-- temporaries.lua: a = b + c with temporaries of 16 GiB on a GPU, or of 4 MiB on the CPU, nothing collected by hand. Prints the time
-- of the loop, of the same additions in place and into an existing tensor, and the peak; on the CPU also the time of additions
-- into three tensors in turns, which is what memory allows to temporaries: in place a loop moves half the bytes, through one buffer.
-- usage: tide temporaries.lua [iterations] [GiB] [cuda | cpu]
local tide = require "tide"
tide.manual_seed(1)
local device = arg[3] or "cuda"
local n, gib = tonumber(arg[1]) or 2000, tonumber(arg[2]) or (device == "cpu" and 1 / 256 or 16)
local memory = device == "cpu" and tide.cpu or tide.cuda
local function wait() if device ~= "cpu" then tide.cuda.synchronize() end end
local elements = gib * 2 ^ 28 // 1 | 0
local b = tide.randn(elements, {device = device})
local c = tide.randn(elements, {device = device})
wait()
memory.reset_peak_memory_stats()
local timer = tide.Timer()
local a
for _ = 1, n do a = b + c end
wait()
local total = timer:time().real
local most = memory.max_memory_allocated() / 2 ^ 30
-- What the device alone needs for these additions, without any allocation.
local function bare(times, add)
  timer:reset()
  for _ = 1, times do add() end
  wait()
  return timer:time().real / times * n
end
local times = math.min(n, device == "cpu" and n or 50)
local into = bare(times, function() tide.add(b, c, {out = a}) end)
local turns = into
if device == "cpu" then
  local list, k = { { out = a }, { out = b + c }, { out = b + c } }, 0
  turns = bare(times, function()
    k = k % 3 + 1
    tide.add(b, c, list[k])
  end)
end
a = nil
local place = bare(times, function() b:add_(c) end)
print(("tide\ttemporaries_%.4gGiB\t%.4g\ts for %d; in place %.4g s, into one tensor %.4g s, three %.4g s; overhead %.2f%%, %.2f%% and %.2f%%; peak %.4g GiB"):format(
  gib, total, n, place, into, turns, (total / place - 1) * 100, (total / into - 1) * 100, (total / turns - 1) * 100, most))
