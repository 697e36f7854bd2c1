-- linalg.lua: linear algebra, milliseconds of one call: on cuda:0 where there is one, then on the CPU. The peer is
-- linalg_torch.py.
local tide = require "tide"
tide.manual_seed(1)
package.path = arg[0]:match("^(.-)[^/]*$") .. "?.lua;" .. package.path
local bench = require "bench"

local la = tide.linalg

-- Symmetric, with eigenvalues far from 0.
local function positive(n, device)
  local x = tide.randn(n, n, { device = device })
  return x:matmul(x.mT) / n + tide.eye(n, { device = device })
end

if tide.cuda.is_available() then
  local function random(...) return tide.randn({ ... }, { device = "cuda" }) end
  local function row(case, f, ...)
    local list, n = { ... }, select("#", ...)
    bench.out("linalg_" .. case, bench.device_ms(function() f(table.unpack(list, 1, n)) end, 7), "ms")
  end
  row("cholesky_4096", la.cholesky, positive(4096, "cuda"))
  row("solve_4096", la.solve, random(4096, 4096), random(4096, 1))
  row("solve_4096x4096", la.solve, random(4096, 4096), random(4096, 4096))
  row("inv_1024", la.inv, random(1024, 1024))
  row("det_1024", la.det, random(1024, 1024))
  row("triangular_4096x64", function(a, b) la.triangular_solve(a, b, { upper = false }) end,
    positive(4096, "cuda"), random(4096, 64))
  row("qr_1024", la.qr, random(1024, 1024))
  row("qr_16384x64", la.qr, random(16384, 64))
  row("svdvals_1024", la.svdvals, random(1024, 1024))
  row("svd_1024", la.svd, random(1024, 1024))
  row("svd_64x32x32", la.svd, random(64, 32, 32))
  row("eigh_1024", la.eigh, positive(1024, "cuda"))
  row("eigh_512x32", la.eigh, random(512, 32, 32))
  row("eig_512", la.eig, random(512, 512))
  row("solve_65536x4", la.solve, random(1 << 16, 4, 4), random(1 << 16, 4, 1))
  row("inv_65536x4", la.inv, random(1 << 16, 4, 4))
  row("det_65536x4", la.det, random(1 << 16, 4, 4))
  row("cholesky_65536x4", la.cholesky, positive(4, "cuda"):expand(1 << 16, 4, 4):contiguous())
  row("matrix_exp_512", la.matrix_exp, random(512, 512))
  row("pinv_512", la.pinv, random(512, 512))
end

local function row(case, f, ...)
  local list, n = { ... }, select("#", ...)
  bench.out("cpu_linalg_" .. case, bench.cpu_s(function() f(table.unpack(list, 1, n)) end, 5) * 1e3, "ms")
end
local function random(...) return tide.randn({ ... }) end
row("cholesky_1024", la.cholesky, positive(1024))
row("solve_1024", la.solve, random(1024, 1024), random(1024, 1))
row("inv_512", la.inv, random(512, 512))
row("qr_512", la.qr, random(512, 512))
row("svdvals_256", la.svdvals, random(256, 256))
row("svd_256", la.svd, random(256, 256))
row("eigh_256", la.eigh, positive(256))
row("solve_65536x4", la.solve, random(1 << 16, 4, 4), random(1 << 16, 4, 1))
row("det_4", function(x) for _ = 1, 1000 do la.det(x) end end, random(4, 4))
