-- gpu.lua: host cost of small calls, bandwidth of large ones, matrix products, on cuda:0. The peer is gpu_torch.py.
local tide = require "tide"
tide.manual_seed(1)
package.path = arg[0]:match("^(.-)[^/]*$") .. "?.lua;" .. package.path
local bench = require "bench"

local t0 = bench.now()
tide.cuda.init()
tide.ones(1, {device = "cuda"}):item()
bench.out("first_cuda_op", (bench.now() - t0) * 1e3, "ms")

local cuda, sync = {device = "cuda"}, tide.cuda.synchronize
local x, y = tide.randn(1024, cuda), tide.randn(1024, cuda)
local z, m = tide.empty_like(x), tide.randn(64, 64, cuda)
local s, e = tide.cuda.Stream(), tide.cuda.Event()
local stream = tide.cuda.stream
local function nothing() end
local host = bench.host
host("add_alloc", function(n) for _ = 1, n do local _ = x + y end end, 5000, sync)
host("add_inplace", function(n) for _ = 1, n do x:add_(y) end end, 5000, sync)
tide.cuda.sanitizer.enable() -- what it costs where it costs most, beside the row before
host("add_inplace_sanitizer", function(n) for _ = 1, n do x:add_(y) end end, 5000, sync)
tide.cuda.sanitizer.disable()
host("add_out", function(n) local o = {out = z} for _ = 1, n do tide.add(x, y, o) end end, 5000, sync)
host("mul_scalar", function(n) for _ = 1, n do local _ = x * 2.0 end end, 5000, sync)
host("exp", function(n) for _ = 1, n do local _ = x:exp() end end, 5000, sync)
host("view_slice", function(n) for _ = 1, n do local _ = x:slice(1, 11, 20) end end, 5000, sync)
host("view_slice_index", function(n) for _ = 1, n do local _ = x[{{11, 20}}] end end, 5000, sync)
host("view_reshape", function(n) for _ = 1, n do local _ = x:view(32, 32) end end, 5000, sync)
host("empty", function(n) for _ = 1, n do local _ = tide.empty(1024, cuda) end end, 5000, sync)
host("zeros", function(n) for _ = 1, n do local _ = tide.zeros(1024, cuda) end end, 5000, sync)
host("sum", function(n) for _ = 1, n do local _ = x:sum() end end, 5000, sync)
host("matmul64", function(n) for _ = 1, n do local _ = m:matmul(m) end end, 5000, sync)
host("copy_", function(n) for _ = 1, n do z:copy_(x) end end, 5000, sync)
host("event_record", function(n) for _ = 1, n do e:record() end end, 5000, sync)
e:record()
sync()
host("event_query", function(n) for _ = 1, n do e:query() end end, 5000, sync)
local here = tide.cuda.current_stream()
host("stream_query", function(n) for _ = 1, n do here:query() end end, 5000, sync)
local allocated = tide.cuda.memory_allocated
host("memory_allocated", function(n) for _ = 1, n do allocated() end end, 5000, sync)
host("record_stream", function(n) for _ = 1, n do x:record_stream(s) end end, 5000, sync)
local alloc, delete = tide.cuda.caching_allocator_alloc, tide.cuda.caching_allocator_delete
if alloc then host("alloc_free", function(n) for _ = 1, n do delete(alloc(4096)) end end, 5000, sync) end
host("stream_switch", function(n) for _ = 1, n do stream(s, nothing) end end, 5000, sync)
host("stream_switch_close", function(n) for _ = 1, n do local _ <close> = stream(s) end end, 5000, sync)
local first = x[1]
do -- a graph of 100 small kernels: until it is queued, and until it is done
  local w, g = tide.zeros(1024, cuda), tide.cuda.CUDAGraph()
  tide.cuda.graph(g, function() for _ = 1, 100 do w:add_(1) end end)
  host("graph_replay100", function(n) for _ = 1, n do g:replay() end end, 500, sync)
  local times = {}
  for r = 1, 21 do
    sync()
    local t = bench.now()
    for _ = 1, 100 do g:replay() end
    sync()
    times[r] = (bench.now() - t) / 100 * 1e6
  end
  bench.out("graph_replay100_done", bench.median(times), "us")
end
do -- other inputs for a graph: of one kernel each, and until a replay on them is queued
  local a, b, g, names = {}, {}, tide.cuda.CUDAGraph(), {}
  for i = 1, 8 do a["x" .. i], b["x" .. i], names[i] = tide.zeros(1024, cuda), tide.ones(1024, cuda), "x" .. i end
  tide.cuda.graph(g, {inputs = a}, function() for i = 1, 8 do a[names[i]]:add_(1) end end)
  host("graph_bind8", function(n) for i = 1, n do g:bind(i % 2 == 0 and a or b) end end, 500, sync)
  host("graph_replay8", function(n) for _ = 1, n do g:replay() end end, 500, sync)
  host("graph_bind8_replay8", function(n) for i = 1, n do g:bind(i % 2 == 0 and a or b) g:replay() end end, 500, sync)
end
host("item", function(n) for _ = 1, n do local _ = x[1]:item() end end, 2000, sync)
host("item_only", function(n) for _ = 1, n do local _ = first:item() end end, 2000, sync)

do
  local live = {}
  for i = 1, 10000 do live[i] = tide.empty(16, cuda) end
  bench.out("collect_10000", bench.cpu_s(collectgarbage) * 1e3, "ms")
end
collectgarbage()

local n = 1 << 28
local a, b, c = tide.randn(n, cuda), tide.randn(n, cuda), tide.empty(n, cuda)
local function bandwidth(case, bytes, f, reps) bench.out("bw_" .. case, bytes / bench.device_ms(f, reps) / 1e6, "GB/s") end
local out = {out = c}
bandwidth("copy", 8 * n, function() c:copy_(a) end)
bandwidth("add", 12 * n, function() tide.add(a, b, out) end)
bandwidth("exp", 8 * n, function() tide.exp(a, out) end)
bandwidth("mul_scalar", 8 * n, function() tide.mul(a, 2.0, out) end)
bandwidth("fill", 4 * n, function() c:fill_(1.0) end)
bandwidth("sum", 4 * n, function() return a:sum() end)
bandwidth("max", 4 * n, function() return a:max() end)
local A, C = a:view(16384, 16384), c:view(16384, 16384)
local row, At = b:slice(1, 1, 16384), a:view(16384, 16384):t()
bandwidth("sum_rows", 4 * n, function() return A:sum(2) end)
bandwidth("sum_cols", 4 * n, function() return A:sum(1) end)
bandwidth("argmax_rows", 4 * n, function() return A:argmax(2) end)
local line, lines = a:slice(1, 1, 1 << 26), a:slice(1, 1, 1 << 26):view(16384, 4096)
local outl, outs = {out = c:slice(1, 1, 1 << 26)}, {out = c:slice(1, 1, 1 << 26):view(16384, 4096)}
bandwidth("cumsum", 8 << 26, function() line:cumsum(1, outl) end)
bandwidth("cumsum_rows", 8 << 26, function() lines:cumsum(2, outs) end)
bandwidth("cumsum_cols", 8 << 26, function() lines:cumsum(1, outs) end)
bandwidth("transpose_copy", 8 * n, function() C:copy_(At) end)
local outC = {out = C}
bandwidth("bcast_row_add", 8 * n, function() tide.add(A, row, outC) end)
bandwidth("softmax_16384", 8 * n, function() A:softmax(2, outC) end)
bandwidth("softmax_cols", 8 * n, function() A:softmax(1, outC) end)
do
  local thousands = {out = c:slice(1, 1, 1000 << 18):view(1 << 18, 1000)}
  local rows = a:slice(1, 1, 1000 << 18):view(1 << 18, 1000)
  bandwidth("softmax_1000", 8000 << 18, function() rows:softmax(2, thousands) end)
  bandwidth("log_softmax_1000", 8000 << 18, function() rows:log_softmax(2, thousands) end)
end
local ab = a:to(tide.bfloat16)
local bb = tide.empty_like(ab)
bandwidth("cast_f32_bf16", 6 * n, function() bb:copy_(a) end)
local outb = {out = bb}
bandwidth("add_bf16", 6 * n, function() tide.add(ab, ab, outb) end)
bandwidth("normal_", 4 * n, function() c:normal_() end)
bandwidth("uniform_", 4 * n, function() c:uniform_() end)
ab, bb, outb = nil, nil, nil
do
  local pinned = tide.empty(1 << 28, {dtype = tide.uint8, pin_memory = true}):random_()
  local paged = tide.empty(1 << 28, {dtype = tide.uint8}):random_()
  local dev = tide.empty(1 << 28, {dtype = tide.uint8, device = "cuda"})
  bandwidth("h2d_pinned", 1 << 28, function() dev:copy_(pinned, {non_blocking = true}) end)
  bandwidth("d2h_pinned", 1 << 28, function() pinned:copy_(dev, {non_blocking = true}) end)
  local function wall(case, f)
    f()
    local times = {}
    for r = 1, 7 do
      local t = bench.now()
      f()
      sync()
      times[r] = bench.now() - t
    end
    bench.out("bw_" .. case, (1 << 28) / bench.median(times) / 1e9, "GB/s")
  end
  wall("h2d_pageable", function() dev:copy_(paged) end)
  wall("d2h_pageable", function() paged:copy_(dev) end)
  -- A copy and about as much computing, apart and at once: 1 is perfect.
  local p, q = tide.randn(4096, 4096, cuda), tide.randn(4096, 4096, cuda)
  local product, side = {out = tide.empty(4096, 4096, cuda)}, tide.cuda.Stream()
  local function seconds(f)
    return bench.cpu_s(function()
      f()
      sync()
    end)
  end
  local once = seconds(function() p:matmul(q, product) end)
  local function overlap(case, copy)
    local copying = seconds(copy)
    local rounds = math.max(1, math.floor(copying / once + 0.5))
    local function compute() for _ = 1, rounds do p:matmul(q, product) end end
    local computing = seconds(compute)
    local both = seconds(function()
      stream(side, copy)
      compute()
    end)
    bench.out("overlap_" .. case, both / math.max(copying, computing), "of 1")
  end
  overlap("h2d", function() dev:copy_(pinned, {non_blocking = true}) end)
  overlap("d2h", function() pinned:copy_(dev, {non_blocking = true}) end)
end
a, b, c, A, C, At, row, out, outC = nil, nil, nil, nil, nil, nil, nil, nil, nil
collectgarbage()

for _, case in ipairs{{"f32", tide.float32}, {"f16", tide.float16}, {"bf16", tide.bfloat16}, {"f64", tide.float64}} do
  local opts = {device = "cuda", dtype = case[2]}
  local p, q = tide.randn(8192, 8192, opts), tide.randn(8192, 8192, opts)
  local product = {out = tide.empty(8192, 8192, opts)}
  bench.out("matmul8192_" .. case[1], 2 * 8192 ^ 3 / bench.device_ms(function() p:matmul(q, product) end, 9) / 1e9, "TFLOP/s")
end
do
  local function randn(...) return tide.randn(..., {device = "cuda"}) end
  local p, q, m, rows = randn{1 << 20, 4, 4}, randn{1 << 20, 4, 4}, randn{4, 4}, randn{1 << 22, 4}
  local product, turned = {out = tide.empty_like(p)}, {out = tide.empty_like(rows)}
  bench.out("bmm4x4_1M", 3 * 64 * 2 ^ 20 / bench.device_ms(function() p:bmm(q, product) end, 9) / 1e6, "GB/s")
  bench.out("rows4x4_4M", 2 * 16 * 2 ^ 22 / bench.device_ms(function() rows:mm(m, turned) end, 9) / 1e6, "GB/s")
end
