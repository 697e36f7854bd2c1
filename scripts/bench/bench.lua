-- bench.lua: how the Lua benchmarks time and report. Prints `tide <tab> case <tab> value <tab> unit`, one a line; a
-- benchmark that runs a peer itself names that in place of tide.
local tide = require "tide"
local bench = {}

function bench.out(case, value, unit, source)
  print(("%s\t%s\t%.4g\t%s"):format(source or "tide", case, value, unit))
  io.stdout:flush()
end

function bench.median(list)
  table.sort(list)
  return list[(#list + 1) // 2]
end

local clock = tide.Timer()
function bench.now() return clock:time().real end

-- ns a call on the host, over loops of n calls with nothing synchronised inside: the work is still queued, the
-- allocator and the collector are included. `f(n)` is the loop itself, so that no call of ours is counted.
function bench.host(case, f, n, sync)
  n = n or 5000
  f(200)
  sync()
  local issue = {}
  for r = 1, 7 do
    local t0 = bench.now()
    f(n)
    issue[r] = (bench.now() - t0) / n * 1e9
    sync()
  end
  bench.out("host_" .. case, bench.median(issue), "ns")
end

-- Milliseconds on the device between two events around one call of f: median of `reps`.
function bench.device_ms(f, reps)
  for _ = 1, 3 do f() end
  tide.cuda.synchronize()
  local times = {}
  for r = 1, reps or 20 do
    local a = tide.cuda.Event{enable_timing = true}
    local b = tide.cuda.Event{enable_timing = true}
    a:record()
    f()
    b:record()
    b:synchronize()
    times[r] = a:elapsed_time(b)
  end
  return bench.median(times)
end

-- Seconds of one call of each function of a list on the CPU, called in turns, so that what the machine does besides is
-- in all of them: medians of `reps`.
function bench.turns(list, reps)
  local times, medians = {}, {}
  for i, f in ipairs(list) do
    f()
    times[i] = {}
  end
  for r = 1, reps or 9 do
    for i, f in ipairs(list) do
      local t0 = bench.now()
      f()
      times[i][r] = bench.now() - t0
    end
  end
  for i in ipairs(list) do medians[i] = bench.median(times[i]) end
  return medians
end

function bench.cpu_s(f, reps) return bench.turns({f}, reps)[1] end

return bench
