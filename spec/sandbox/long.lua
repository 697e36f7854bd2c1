--- linear algebra that cannot fit the time is not begun
--! quota milliseconds=10000
local a, x = tide.eye(4000), tide.ones(3, 3)
for name, f in pairs { eig = tide.linalg.eig, svd = tide.linalg.svd, eigh = tide.linalg.eigh } do
  local ok, e = pcall(f, a)
  assert(not ok and e.kind == "QuotaError" and e.message:find "takes at least", name .. ": " .. tostring(e))
  assert(x:sum():item() == 9) -- the state has time for something else afterwards
end
--- linear algebra that cannot fit the processor time is not begun
--! quota cpu_ms=1500
local a, x = tide.eye(3000), tide.ones(3, 3)
for name, f in pairs { eig = tide.linalg.eig, svd = tide.linalg.svd, eigh = tide.linalg.eigh } do
  local ok, e = pcall(f, a)
  assert(not ok and e.kind == "QuotaError" and e.message:find "takes at least", name .. ": " .. tostring(e))
  assert(x:sum():item() == 9) -- the state has time for something else afterwards
end
--- linear algebra of our own stops between blocks
--! quota milliseconds=300
--! raises are used up
--! ends
local a = tide.eye(1200) + 1
while true do pcall(tide.linalg.solve, a, a) end -- the last one may be refused, as it takes longer than what is left
--- small linear algebra is not refused
--! quota milliseconds=5000
local a = tide.eye(20) * 2
for i = 1, 3 do
  assert(tide.linalg.svdvals(a):sum():item() > 39)
  assert(tide.linalg.eigh(a) and tide.linalg.eig(a) and tide.linalg.cholesky(a))
end
--- working memory of a long line counts, and is given back
--! quota host_bytes=64000000
local x = tide.ones(16000000, { dtype = "uint8" })
for _, f in ipairs { x.median, function(t) return t:kthvalue(5) end } do
  local ok, e = pcall(f, x)
  assert(not ok and e.kind == "QuotaError" and e.message:find "working memory", tostring(e))
end
for i = 1, 20 do assert(x[{ { 1, 1500000 } }]:median():item() == 1) end
--- working memory of many lines counts for each thread
--! quota host_bytes=34000000
local n = tide.get_num_threads()
local x = tide.ones(n, 1000000, { dtype = "uint8" })
local ok, e
for _ = 1, n == 1 and 1 or 200 do -- on a busy machine one thread may do all lines, one after the other
  ok, e = pcall(x.median, x, 2)
  if not ok then break end
end
assert(ok == (n == 1) and (ok or e.kind == "QuotaError"), tostring(e))
assert(x[1]:median():item() == 1)
--- operations of graphs count as host memory
--! quota host_bytes=1000000
local x = tide.zeros(4, { device = "cuda" })
local g, kept = {}, 0
local ok, e = pcall(function()
  for i = 1, 100 do
    g[i] = tide.cuda.CUDAGraph()
    tide.cuda.graph(g[i], function() for _ = 1, 1000 do x:add_(1) end end)
    kept = kept + 1
  end
end)
assert(not ok and e.kind == "QuotaError" and kept < 5, tostring(e))
--- a replay counts what it launches
--! quota launches=2000
--! raises launches that the host allows are used up
--! ends
local x = tide.zeros(4, { device = "cuda" })
local g = tide.cuda.CUDAGraph()
tide.cuda.graph(g, function() for _ = 1, 300 do x:add_(1) end end)
for i = 1, 20 do assert(i < 8, "it goes on") g:replay() end
--- objects show no handles
local o = { tide.cuda.Stream(), tide.cuda.current_stream(), tide.cuda.default_stream(), tide.cuda.Event(),
  tide.cuda.CUDAGraph(), tide.cuda.graph_pool_handle(), tide.cuda.MemPool(), tide.Generator(), tide.ones(3):storage(),
  tide.cuda.get_device_properties(), tide.device "cuda", tide.fuse(function(x) return x + 1 end),
  tide.kernel "function(i, x) x[i] = 1 end", tide.float32 }
for i, x in pairs(o) do
  assert(not tostring(x):find "0x", ("%d: %s"):format(i, tostring(x)))
end
