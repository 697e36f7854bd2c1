-- Collectives of device tensors between processes, a GPU each: rates and host cost. ranks_cuda_torch.py has PyTorch's side.
-- usage: tide --ranks 2 scripts/bench/ranks_cuda.lua
-- A row: case, size of the whole result in bytes, GB/s of that size (median of 7), host microseconds a call, and
-- microseconds of a call and a wait for the device.
local tide = require "tide"
local dist = tide.distributed
dist.init_process_group { backend = "nccl" }
local size = dist.get_world_size()

local function median(values)
  table.sort(values)
  return values[#values // 2 + 1]
end

local function measure(name, bytes, f)
  local count = bytes < 1 << 20 and 200 or bytes < 1 << 26 and 50 or 10
  for _ = 1, 5 do f() end
  tide.cuda.synchronize()
  local rates, host, waited = {}, {}, {}
  for _ = 1, 7 do
    dist.barrier()
    local first, last = tide.cuda.Event { enable_timing = true }, tide.cuda.Event { enable_timing = true }
    first:record()
    for _ = 1, count do f() end
    last:record()
    last:synchronize()
    rates[#rates + 1] = bytes * count / first:elapsed_time(last) / 1e6
    local timer = tide.Timer()
    for _ = 1, 20 do f() end
    host[#host + 1] = timer:time().real / 20 * 1e6
    tide.cuda.synchronize()
    timer = tide.Timer()
    for _ = 1, 20 do
      f()
      tide.cuda.synchronize()
    end
    waited[#waited + 1] = timer:time().real / 20 * 1e6
  end
  dist.print(("tide\t%s\t%d\t%.4g\tGB/s\t%.2f\tus\t%.2f\tus"):format(name, bytes, median(rates), median(host), median(waited)))
end

for _, bytes in ipairs { 4096, 65536, 1 << 20, 1 << 24, 1 << 28, 1 << 30 } do
  local whole = tide.ones(bytes // 4, { device = "cuda" })
  local part = tide.ones(bytes // 4 // size, { device = "cuda" })
  measure("all_reduce", bytes, function() dist.all_reduce(whole, { op = "max" }) end)
  measure("broadcast", bytes, function() dist.broadcast(whole, 0) end)
  measure("all_gather", bytes, function() dist.all_gather_into_tensor(whole, part) end)
  measure("reduce_scatter", bytes, function() dist.reduce_scatter_tensor(part, whole, { op = "max" }) end)
end
