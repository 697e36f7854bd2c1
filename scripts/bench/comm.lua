-- comm.lua: collectives on two GPUs: what small calls cost the host, and the bytes a second of large ones, on cuda:0 and
-- cuda:1. The peer is comm_torch.py.
local tide = require "tide"
package.path = arg[0]:match("^(.-)[^/]*$") .. "?.lua;" .. package.path
local bench = require "bench"
local cuda, comm, nccl = tide.cuda, tide.cuda.comm, tide.cuda.nccl
if cuda.device_count() < 2 then
  print "comm: needs two devices"
  os.exit(0)
end

local devices, sync = {0, 1}, cuda.synchronize_all
local function on(d, n) return tide.ones(n, {device = "cuda:" .. d, dtype = tide.float32}) end

local function name(bytes)
  if bytes >= 1 << 20 then return (bytes >> 20) .. "M" end
  return (bytes >> 10) .. "K"
end

-- Bytes a second of `reps` calls in a row, from the first to the end of all work; the median of seven.
local function bandwidth(case, bytes, f)
  local reps = math.max(3, math.min(200, (1 << 30) // bytes))
  for _ = 1, 3 do f() end
  sync()
  local rates = {}
  for r = 1, 7 do
    local t = bench.now()
    for _ = 1, reps do f() end
    sync()
    rates[r] = bytes * reps / (bench.now() - t) / 1e9
  end
  bench.out("bw_" .. case, bench.median(rates), "GB/s")
end

local function cases(bytes)
  local n = bytes // 4
  local a, b = on(0, n), on(1, n)
  local A, lo, hi = a:view(64, n // 64), on(0, n // 2):view(64, n // 128), on(1, n // 2):view(64, n // 128)
  local pair, halves, rows = {a, b}, {lo, hi}, {a:slice(1, 1, n // 2), b:slice(1, 1, n // 2)}
  local many, lists = {}, {{}, {}}
  for i = 1, 100 do
    many[i] = on(0, math.max(1, n // 100))
    lists[1][i], lists[2][i] = on(0, math.max(1, n // 100)), on(1, math.max(1, n // 100))
  end
  local dim2 = {dim = 2}
  local whole = {on(0, 2 * n), on(1, 2 * n)}
  return {
    {"broadcast", function() return comm.broadcast(a, devices) end},
    {"reduce_add", function() return comm.reduce_add(pair, 0) end},
    {"scatter", function() return comm.scatter(a, devices) end},
    {"gather", function() return comm.gather(rows) end},
    {"scatter_dim2", function() return comm.scatter(A, devices, dim2) end},
    {"gather_dim2", function() return comm.gather(halves, dim2) end},
    {"broadcast_coalesced", function() return comm.broadcast_coalesced(many, devices) end},
    {"reduce_add_coalesced", function() return comm.reduce_add_coalesced(lists, 0) end},
    {"nccl_all_reduce", function() return nccl.all_reduce(pair) end},
    {"nccl_broadcast", function() return nccl.broadcast(pair) end},
    {"nccl_all_gather", function() return nccl.all_gather(pair, whole) end},
  }
end

print(("# nccl: %s"):format(nccl.is_available() and table.concat({nccl.version()}, ".") or "none"))
for _, bytes in ipairs{4 << 10, 64 << 10, 512 << 10} do
  for _, case in ipairs(cases(bytes)) do
    local f, n = case[2], case[1]:find "coalesced" and 200 or 1000
    bench.host(case[1] .. "_" .. name(bytes), function(k) for _ = 1, k < 200 and 20 or k do f() end end, n, sync)
  end
end
for _, bytes in ipairs{1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20} do
  for _, case in ipairs(cases(bytes)) do bandwidth(case[1] .. "_" .. name(bytes), bytes, case[2]) end
  collectgarbage()
end
