-- all_reduce, and messages to and fro, of host tensors between processes.
-- usage: mpirun -n 2 tide scripts/bench/ranks.lua [LEVEL]
-- Prints microseconds for each size: an all_reduce, and one message; the best of 30 batches. LEVEL: see set_debug_level.
local tide = require "tide"
local dist = tide.distributed
dist.init_process_group()
dist.set_debug_level(arg and arg[1] or "info")
for _, bytes in ipairs { 8, 512, 4096, 65536, 1048576, 67108864 } do
  local x = tide.zeros(bytes / 4)
  local count = bytes < 40000 and 200 or bytes < 4e6 and 20 or 2
  local function measure(operation)
    local best = math.huge
    for _ = 1, 30 do
      dist.barrier()
      local timer = tide.Timer()
      for _ = 1, count do operation() end
      best = math.min(best, timer:time().real / count)
    end
    return best * 1e6
  end
  local rank = dist.get_rank()
  local reduced = measure(function() dist.all_reduce(x) end)
  local sent = dist.get_world_size() > 1 and measure(function()
    if rank == 0 then
      dist.send(x, 1)
      dist.recv(x, 1)
    elseif rank == 1 then
      dist.recv(x, 0)
      dist.send(x, 0)
    end
  end) / 2 or 0
  dist.print(("%9d B  %10.2f us  %10.2f us"):format(bytes, reduced, sent))
end
