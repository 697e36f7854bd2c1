-- temporaries.lua: a = b + c with temporaries of 16 GiB on a GPU, nothing collected by hand. Prints the time of the loop, the
-- number of collections' share of it and the peak. usage: tide temporaries.lua [iterations] [GiB]
local tide = require "tide"
local n, gib = tonumber(arg[1]) or 2000, tonumber(arg[2]) or 16
local b = tide.randn(gib << 28, {device = "cuda"})
local c = tide.randn(gib << 28, {device = "cuda"})
tide.cuda.synchronize()
local timer = tide.Timer()
local a
for _ = 1, n do a = b + c end
tide.cuda.synchronize()
local total = timer:time().real
a = nil
-- What the device alone needs for these additions, in place, without any allocation.
timer:reset()
for _ = 1, 50 do b:add_(c) end
tide.cuda.synchronize()
local bare = timer:time().real / 50 * n
print(("tide\ttemporaries_%dGiB\t%.4g\ts for %d; in place %.4g s; overhead %.2f%%; peak %.1f GiB"):format(gib, total, n, bare,
  (total / bare - 1) * 100, tide.cuda.max_memory_allocated() / 2 ^ 30))
