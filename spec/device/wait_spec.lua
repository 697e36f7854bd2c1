-- What the help of the tensor library says of waiting: where it says that nothing waits on a GPU, nothing does, and a
-- graph that captures the call gives what the call gives; where it says that it synchronises, it does.

local tide = require "tide"
local D = require "spec.support.device"
local cuda = tide.cuda

local real = { device = D.dev }
local x, n, line, image = tide.randn(6, 8, real), tide.randint(1, 5, { 6, 8 }, real), tide.randn(20, real), tide.randn(2, 3, 8, 8, real)
local order, parts, weights = line:sort(), tide.rand(2, real), tide.rand(6, 8, real)
local kernel, square, theta, grid = tide.randn(4, 3, 3, 3, real), tide.randn(5, 5, real), tide.randn(2, 2, 3, real), tide.rand(2, 4, 4, 2, real)

-- Help, call.
local asynchronous = {
  { "sort", function() return x:sort(1) end }, { "argsort", function() return x:argsort(2) end },
  { "topk", function() return x:topk(3) end }, { "kthvalue", function() return x:kthvalue(2) end },
  { "median", function() return x:median() end }, { "median", function() return x:median(1) end },
  { "mode", function() return n:mode(1) end }, { "quantile", function() return x:quantile(0.3) end },
  { "quantile", function() return x:quantile({ 0.1, 0.5 }, 1, { interpolation = "nearest" }) end },
  { "quantile", function() return x:quantile(parts, 1, { keepdim = true }) end },
  { "searchsorted", function() return tide.searchsorted(order, x) end },
  { "searchsorted", function() return tide.searchsorted(n:sort(2)[1], 2.5) end },
  { "bucketize", function() return tide.bucketize(x, order) end }, { "isin", function() return tide.isin(n, n[1]) end },
  { "isin", function() return tide.isin(n, 3) end }, { "softmax", function() return x:softmax(1) end },
  { "log_softmax", function() return x:log_softmax(2) end }, { "cumsum", function() return x:cumsum(1) end },
  { "cummax", function() return x:cummax(2) end }, { "logcumsumexp", function() return x:logcumsumexp(1) end },
  { "diff", function() return x:diff { prepend = x } end }, { "trapezoid", function() return x:trapezoid(x) end },
  { "cumulative_trapezoid", function() return x:cumulative_trapezoid() end },
  { "pad", function() return x:pad({ 1, 1 }, { mode = "reflect" }) end },
  { "max_pool2d", function() return image:max_pool2d(2, { return_indices = true }) end },
  { "avg_pool2d", function() return image:avg_pool2d(3, 2) end },
  { "interpolate", function() return tide.interpolate(image, { scale_factor = 2, mode = "bicubic" }) end },
  { "conv2d", function() return image:conv2d(kernel) end },
  { "conv_transpose2d", function() return image:conv_transpose2d(kernel:transpose(1, 2)) end },
  { "grid_sample", function() return tide.grid_sample(image, grid) end },
  { "affine_grid", function() return tide.affine_grid(theta, { 2, 3, 4, 4 }) end },
  { "hstack", function() return tide.hstack { x, x } end }, { "vstack", function() return tide.vstack { line, line } end },
  { "dstack", function() return tide.dstack { x, x } end }, { "column_stack", function() return tide.column_stack { line, line } end },
  { "vander", function() return tide.vander(line, 3) end }, { "block_diag", function() return tide.block_diag(x, line) end },
  { "cartesian_prod", function() return tide.cartesian_prod(line, line) end }, { "kron", function() return tide.kron(x, x) end },
  { "cross", function() return tide.cross(x:narrow(1, 1, 3), x:narrow(1, 2, 3), { dim = 1 }) end },
  { "einsum", function() return tide.einsum("ij,kj,kl->il", x, x, x) end },
  { "tensordot", function() return tide.tensordot(x, x, 2) end }, { "cdist", function() return tide.cdist(x, x) end },
  { "cdist", function() return tide.cdist(image, image, 1) end }, { "corrcoef", function() return tide.corrcoef(x) end },
  { "linalg.trace", function() return tide.linalg.trace(square) end },
  { "linalg.vector_norm", function() return tide.linalg.vector_norm(x) end },
}

local synchronous = {
  { "unique", function() return x:unique() end }, { "histogramdd", function() return tide.histogramdd(x, 2) end },
  { "combinations", function() return tide.combinations(line) end }, { "bincount", function() return n[1]:bincount() end },
  { "multinomial", function() return weights:multinomial(2) end }, { "nonzero", function() return x:nonzero() end },
  { "triu_indices", function() return tide.triu_indices(3, 3, real) end },
  { "cov", function() return tide.cov(x, { aweights = weights[1] }) end },
  { "tensor_split", function() return x:tensor_split(n[1]:narrow(1, 1, 2)) end },
}
if pcall(tide.linalg.inv, square) then -- there is a library
  for _, name in ipairs { "inv", "det", "slogdet", "lu", "qr", "svd", "eigh", "matrix_exp", "pinv" } do
    synchronous[#synchronous + 1] = { "linalg." .. name, function() return tide.linalg[name](square) end }
  end
end

local function unsynchronised(f)
  cuda.set_sync_debug_mode "error"
  local results = table.pack(pcall(f))
  cuda.set_sync_debug_mode "default"
  return table.unpack(results, 1, results.n)
end

local function same(a, b) return tide.allclose(a, b, { rtol = 1e-4, atol = 1e-5, equal_nan = true }) end

describe("on a GPU", function()
  if not D.cuda then return pending "needs a device" end

  it("what says that nothing waits does not wait, and can be captured", function()
    for _, case in ipairs(asynchronous) do
      local text = tide.help("tide." .. case[1])
      assert.is_truthy(text:find "[Nn]othing waits" or text:find("Does not wait for a GPU", 1, true), case[1])
      local want, got = table.pack(case[2]()), nil
      local ok, e = unsynchronised(case[2])
      assert.is_true(ok, case[1] .. ": " .. tostring(e))
      local graph = cuda.CUDAGraph()
      cuda.graph(graph, function() got = table.pack(case[2]()) end)
      graph:replay()
      assert.are.equal(want.n, got.n)
      for i = 1, want.n do assert.is_true(same(want[i], got[i]), case[1]) end
    end
  end)

  it("what says that it synchronises does", function()
    for _, case in ipairs(synchronous) do
      assert.is_truthy(tide.help("tide." .. case[1]):find "ynchroni[sz]e", case[1])
      case[2]()
      local ok, e = unsynchronised(case[2])
      assert.is_false(ok, case[1])
      assert.is_truthy(e.message:find("makes the host wait", 1, true), e.message)
    end
  end)
end)
