-- Ranks that save a field over and over until one of them is killed, and the check of what is left.
-- usage: mpirun -n 3 tide spec/stress/ranks_save.lua FILE SECONDS      rank 1 is killed after that time
--        tide spec/stress/ranks_save.lua FILE                          prints the step of the file, or raises
--
-- The field of step k has k at every place, so a file of two steps is seen.
local tide = require "tide"
local dist = tide.distributed
dist.init_process_group { timeout = 60 }
local path, seconds = arg[1], arg[2]
local grid = dist.cart { dims = { 0, 0, 0 } }

if not seconds then
  local s = grid:load(path)
  local least, most = grid:min(s.u), grid:max(s.u)
  assert(least == s.k and most == s.k and #s.u:size() == 3, ("step %s, with values from %s to %s"):format(s.k, least, most))
  print("step " .. s.k)
  return
end

if dist.get_rank() == 1 then
  local pid = io.open "/proc/self/stat":read "n"
  os.execute(("(sleep %s; kill -9 %d) >/dev/null 2>&1 &"):format(seconds, pid))
end
local u = grid:field({ 96, 96, 96 }, { halo = 1, dtype = tide.float64 })
for k = 1, 1000000 do
  u:fill_(k)
  grid:save(path, { u = u, k = k })
end
