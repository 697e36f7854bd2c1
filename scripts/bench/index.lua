-- index.lua: reads, writes and sums at indexed places on cuda:0, billions of elements a second between two events. The
-- peers are index_torch.py and bare_index.cu.
local tide = require "tide"
tide.manual_seed(1)
package.path = arg[0]:match("^(.-)[^/]*$") .. "?.lua;" .. package.path
local bench = require "bench"

local n, cuda, long = 1 << 26, {device = "cuda"}, {device = "cuda", dtype = "int64"}
local function rate(case, count, f, reps) bench.out("index_" .. case, count / bench.device_ms(f, reps) / 1e6, "G/s") end

local x, v, out = tide.randn(n, cuda), tide.randn(n, cuda), tide.empty(n, cuda)
local index, into = tide.randint(1, n + 1, {n}, long), {out = out}
rate("gather", n, function() x:gather(1, index, into) end)
rate("take", n, function() x:take(index, into) end)
rate("scatter", n, function() out:scatter_(1, index, v) end)
local m, M = index:view(8192, 8192), x:view(8192, 8192)
m = m:remainder(8192) + 1
local wide = {out = out:view(8192, 8192)}
rate("gather_rows", n, function() M:gather(2, m, wide) end)
rate("gather_columns", n, function() M:gather(1, m, wide) end)
m, M, wide = nil, nil, nil

for _, places in ipairs{26, 20, 10, 0} do
  local at, sums = index:remainder(1 << places) + 1, tide.zeros(1 << places, cuda)
  rate("scatter_add_2^" .. places, n, function() sums:scatter_add_(1, at, v) end)
  rate("index_add_2^" .. places, n, function() sums:index_add_(1, at, v) end)
end
local at = index:remainder(1 << 20) + 1
local most = tide.zeros(1 << 20, cuda)
rate("amax_2^20", n, function() most:scatter_reduce_(1, at, v, "amax") end)
tide.use_deterministic_algorithms(true)
rate("scatter_add_in_order_2^20", n, function() most:scatter_add_(1, at, v) end, 5)
tide.use_deterministic_algorithms(false)

-- Rows of 64 numbers, a million of them.
for _, dtype in ipairs{"float32", "bfloat16"} do
  local rows, row_at = x:view(-1, 64):to(tide[dtype]), tide.randint(1, n // 64 + 1, {n // 64}, long)
  local target = tide.zeros(n // 64, 64, {device = "cuda", dtype = dtype})
  rate("select_rows_" .. dtype, n, function() rows:index_select(1, row_at, {out = target}) end)
  rate("add_rows_" .. dtype, n, function() target:index_add_(1, row_at, rows) end)
end

for _, bins in ipairs{10, 20} do
  local values = index:remainder(1 << bins)
  rate("bincount_2^" .. bins, n, function() values:bincount() end)
end
rate("histc_100", n, function() x:histc(100, -4, 4) end)
do -- half of all are held
  local mask = x:gt(0)
  rate("masked_select", n, function() return x:masked_select(mask) end)
  rate("nonzero", n, function() return mask:nonzero() end)
end
