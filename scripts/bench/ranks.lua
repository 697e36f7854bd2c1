-- all_reduce of host tensors between processes. usage: mpirun -n 2 tide scripts/bench/ranks.lua [LEVEL]
-- Prints, for each size, the best of 30 batches in microseconds an operation. LEVEL is that of set_debug_level.
local tide = require "tide"
local dist = tide.distributed
dist.init_process_group()
dist.set_debug_level(arg and arg[1] or "info")
for _, bytes in ipairs { 8, 512, 4096, 65536, 1048576, 67108864 } do
  local x = tide.zeros(bytes / 4)
  local count = bytes < 40000 and 200 or bytes < 4e6 and 20 or 2
  local best = math.huge
  for _ = 1, 30 do
    dist.barrier()
    local timer = tide.Timer()
    for _ = 1, count do dist.all_reduce(x) end
    best = math.min(best, timer:time().real / count)
  end
  dist.print(("%9d B  %10.2f us"):format(bytes, best * 1e6))
end
