-- Functions that are made of others: PyTorch's values, dtypes and errors. What is random
-- stands in differential/compose.py.

local tide = require "tide"
local D = require "spec.support.device"

local nan = 0 / 0
local function same(expected, x, what) D.eq(expected, x, 0, what) end
local function raises(kind, text, f, ...)
  local e = D.raises(kind, f, ...)
  assert.is_truthy(e.message:find(text, 1, true), e.message .. "\nhas no " .. text)
end

describe("compose: joins and splits", function()
  D.watch(before_each, after_each)

  it("stack along the first three dimensions", function()
    local v, w, m = D.tensor { 1, 2 }, D.tensor { 3, 4 }, D.tensor { { 5, 6 }, { 7, 8 } }
    same({ 1, 2, 3, 4 }, tide.hstack { v, w })
    same({ 1, 2, 9 }, tide.hstack { v, D.tensor(9) })
    same({ { 5, 6, 5, 6 }, { 7, 8, 7, 8 } }, tide.hstack { m, m })
    same({ { 1, 2 }, { 3, 4 }, { 5, 6 }, { 7, 8 } }, tide.vstack { v, w, m })
    same({ { 9 }, { 9 } }, tide.vstack { D.tensor(9), D.tensor(9) })
    same({ { { 1, 3 }, { 2, 4 } } }, tide.dstack { v, w })
    same({ { { 5, 5 }, { 6, 6 } }, { { 7, 7 }, { 8, 8 } } }, tide.dstack { m, m })
    same({ { 1, 5, 6, 3 }, { 2, 7, 8, 4 } }, tide.column_stack { v, m, w })
    assert.are.equal(tide.float32, tide.vstack({ v, w:to "float32" }).dtype)
    local out = tide.empty({ 0 }, { device = D.dev, dtype = "int64" })
    assert.are.equal(out, tide.hstack({ v, w }, { out = out }))
    same({ 1, 2, 3, 4 }, out)
    raises("ValueError", "hstack: tensors: got an empty table", tide.hstack, {})
    raises("ArgumentError", "vstack: tensors[2]: got number 3, expected a tensor", tide.vstack, { v, 3 })
    raises("ShapeError", "hstack: ", tide.hstack, { v, m })
    raises("ShapeError", "column_stack: ", tide.column_stack, { v, D.tensor { 1, 2, 3 } })
    raises("ArgumentError", "dstack: tensors: got nothing", tide.dstack)
  end)

  it("split into so many parts, or at indexes", function()
    local x = tide.arange(7, { device = D.dev })
    local function parts(...)
      local list = {}
      for i, p in ipairs(x:tensor_split(...)) do list[i] = p:totable() end
      return list
    end
    assert.are.same({ { 0, 1, 2 }, { 3, 4 }, { 5, 6 } }, parts(3))
    assert.are.same({ { 0 }, { 1, 2, 3, 4 }, { 5, 6 } }, parts { 2, -2 })
    assert.are.same({ {}, { 0, 1, 2, 3, 4, 5, 6 }, {} }, parts { 1, 100 })
    assert.are.same({ { 0, 1, 2, 3 }, {}, { 2, 3, 4, 5, 6 } }, parts { 5, 3 })
    assert.are.same({ { 0, 1 }, { 2, 3, 4, 5, 6 } }, parts(tide.tensor { 3 }))
    assert.are.same({ { 0, 1 }, { 2, 3, 4, 5, 6 } }, parts(tide.tensor { 3 }, { dim = -1 }))
    assert.are.equal(9, #x:tensor_split(9))
    local m = tide.zeros(2, 5, { device = D.dev })
    assert.are.same({ 2, 3 }, m:tensor_split(2, 2)[1]:size())
    m:tensor_split(2, 2)[2]:fill_(1) -- views
    same({ 0, 0, 0, 1, 1 }, m[1])
    raises("ValueError", "tensor_split: sections: got 0", x.tensor_split, x, 0)
    raises("ValueError", "tensor_split: sections: got 9223372036854775807", x.tensor_split, x, math.maxinteger)
    raises("IndexError", "tensor_split: sections[2]: got index 0", x.tensor_split, x, { 1, 0 })
    raises("ArgumentError", "tensor_split: sections: got string 'a'", x.tensor_split, x, "a")
    raises("ArgumentError", "tensor_split: sections[1]: got number 1.5", x.tensor_split, x, { 1.5 })
    raises("ShapeError", "tensor_split: x", tide.tensor_split, D.tensor(1), 1)
    raises("IndexError", "tensor_split", x.tensor_split, x, 2, 2)
  end)

  it("puts blocks on a diagonal", function()
    same({ { 1, 2, 0, 0 }, { 3, 4, 0, 0 }, { 0, 0, 5, 6 } }, tide.block_diag(D.tensor { { 1, 2 }, { 3, 4 } }, D.tensor { 5, 6 }))
    same({ { 1, 0 }, { 0, 2.5 } }, tide.block_diag { D.tensor(1), D.tensor(2.5) })
    assert.are.same({ 2, 1 }, tide.block_diag(D.tensor { 1 }, tide.ones({ 0 }, { device = D.dev })):size())
    assert.are.same({ 1, 0 }, tide.block_diag():size())
    raises("ShapeError", "block_diag: tensors[2]", tide.block_diag, D.tensor { 1 }, tide.ones(1, 1, 1))
  end)

  it("choose elements", function()
    local x = D.tensor { 5, 6, 7 }
    same({ { 5, 6 }, { 5, 7 }, { 6, 7 } }, tide.combinations(x))
    same({ { 5, 6, 7 } }, tide.combinations(x, 3))
    same({ { 5, 5 }, { 5, 6 }, { 5, 7 }, { 6, 6 }, { 6, 7 }, { 7, 7 } }, tide.combinations(x, { with_replacement = true }))
    same({ { 5 }, { 6 }, { 7 } }, tide.combinations(x, 1))
    assert.are.same({ 0 }, tide.combinations(x, 0):size())
    assert.are.same({ 0, 4 }, tide.combinations(x, 4):size())
    assert.are.equal(10, tide.combinations(x, 3, { with_replacement = true }):size(1))
    same({ { 5, 1 }, { 5, 2 }, { 6, 1 }, { 6, 2 }, { 7, 1 }, { 7, 2 } }, tide.cartesian_prod(x, D.tensor { 1, 2 }))
    same({ 5, 6, 7 }, tide.cartesian_prod(x))
    same({ { 5, 5, 5 } }, tide.combinations(D.tensor { 5 }, 3, { with_replacement = true }))
    assert.are.same({ 0, 1 << 40 }, tide.combinations(x, 1 << 40):size())
    raises("ValueError", "combinations: r: got 1099511627776 of 3", tide.combinations, x, 1 << 40, { with_replacement = true })
    raises("ValueError", "combinations: r: got -1", tide.combinations, x, -1)
    raises("ShapeError", "combinations: x: got a float32 tensor [1, 1]", tide.combinations, tide.ones(1, 1))
    raises("DtypeError", "cartesian_prod: tensors[2]: got float32", tide.cartesian_prod, x, D.tensor { 1. })
    raises("ShapeError", "cartesian_prod: tensors[2]: got an int64 tensor []", tide.cartesian_prod, x, D.tensor(1))
    raises("ValueError", "cartesian_prod: tensors: got an empty table", tide.cartesian_prod)
  end)
end)

describe("compose: products and statistics", function()
  D.watch(before_each, after_each)

  it("squares of 16-bit floats do not overflow on the way", function()
    for _, dtype in ipairs { "float16", "bfloat16" } do
      local x = (tide.arange(90, { device = D.dev, dtype = "float32" }) * 7 % 401 - 200):reshape(30, 3):to(dtype)
      local y = x:float()
      for _, f in ipairs { function(v) return tide.cdist(v, v) end, function(v) return tide.cov(v:t()) end, tide.corrcoef } do
        assert.are.equal(x.dtype, f(x).dtype)
        assert.is_true(tide.allclose(f(x):float(), f(y), { rtol = 0.01, atol = 0.01 }), dtype)
      end
    end
  end)

  it("give PyTorch's values", function()
    same({ { 1, 1, 1 }, { 4, 2, 1 }, { 9, 3, 1 } }, tide.vander(D.tensor { 1, 2, 3 }))
    same({ { 1, 1, 1, 1 }, { 1, 2, 4, 8 } }, tide.vander(D.tensor { 1., 2. }, { n = 4, increasing = true }))
    assert.are.equal(tide.int64, tide.vander(D.tensor({ 1, 2 }, "int8")).dtype)
    assert.are.same({ 2, 0 }, tide.vander(D.tensor { 1, 2 }, 0):size())
    same({ { 1, 10, 2, 20 }, { 3, 30, 4, 40 } }, tide.kron(D.tensor { { 1, 2 }, { 3, 4 } }, D.tensor { 1, 10 }))
    same({ 3, 6 }, tide.kron(D.tensor(3), D.tensor { 1, 2 }))
    for _, dtype in ipairs { "float32", "float64", "int64" } do -- rows of blocks that fill a vector, and others
      for _, k in ipairs { 7, 8, 15, 16, 33 } do
        local a = tide.arange(1, 61, { device = D.dev, dtype = dtype }):view(12, 5)
        local b = tide.arange(3 * k, { device = D.dev, dtype = dtype }):view(3, k)
        local blocks = a:view(12, 1, 5, 1):expand(12, 3, 5, k):contiguous() * b:view(1, 3, 1, k):expand(12, 3, 5, k):contiguous()
        assert.is_true(tide.equal(blocks:view(36, 5 * k), tide.kron(a, b)), dtype .. " " .. k)
      end
    end
    same({ 8, 8, -8 }, tide.cross(D.tensor { 1, 2, 3 }, D.tensor { 3, -2, 1 }))
    same({ { 0, 0 }, { 0, 1 }, { 1, 0 } }, tide.cross(D.tensor { { 1., 0. }, { 0., 0. }, { 0., 1. } },
      D.tensor { { 0., 1. }, { 1., 0. }, { 0., 0. } }, { dim = 1 }))
    local many = tide.arange(2 * 25000 * 3, { device = D.dev }):mul_(37):remainder_(101):view(2, 25000, 3) -- more than a cache holds
    local x, y, one = many[1], many[2], D.tensor { { 1, 2, 3 } }
    local crossed = tide.cross(x, y)
    D.eq(tide.cross(x:t(), y:t(), { dim = 1 }):t(), crossed)
    assert.is_true(crossed:is_contiguous())
    D.eq(tide.cross(x:narrow(1, 24990, 9), one), tide.cross(x, one):narrow(1, 24990, 9))
    D.eq(tide.cross(one, x:narrow(1, 24990, 9)), tide.cross(one, x):narrow(1, 24990, 9))
    for _, dtype in ipairs { "float32", "float64", "bfloat16" } do -- whole numbers, whose products are exact
      local a, b = (x - 50):to(dtype), (y - 50):to(dtype)
      local exact = tide.cross(x - 50, y - 50):to(dtype)
      D.eq(exact, tide.cross(a, b), dtype == "bfloat16" and 20 or 0, dtype)
      D.eq(exact, tide.cross(a:t():contiguous():t(), b), dtype == "bfloat16" and 20 or 0, dtype)
      D.eq(tide.cross(x - 50, one):to(dtype), tide.cross(a, one:to(dtype)), dtype == "bfloat16" and 20 or 0, dtype)
    end
    same({ { nan, nan, 0 } }, tide.cross(D.tensor { { 1., 2., nan } }, D.tensor { { 2., 4., 1. } }))
    assert.are.same({ 0, 3 }, tide.cross(tide.ones(0, 3, { device = D.dev }), tide.ones(0, 3, { device = D.dev })):size())
    raises("ShapeError", "cross: got an int64 tensor [2]", tide.cross, D.tensor { 1, 2 }, D.tensor { 1, 2 })
    raises("ShapeError", "cross: ", tide.cross, tide.ones(2, 3), tide.ones(3))
    raises("DtypeError", "cross: got int64 and float32", tide.cross, D.tensor { 1, 2, 3 }, D.tensor { 1., 2., 3. })
    raises("ShapeError", "vander: x", tide.vander, tide.ones(1, 1))
    if D.cuda then raises("DeviceError", "block_diag: tensors[2]", tide.block_diag, D.tensor { 1 }, tide.ones(2)) end
  end)

  it("measure how rows go together", function()
    D.eq({ { 0.5, 1 }, { 1, 2 } }, tide.cov(D.tensor { { 1, 2 }, { 3, 5 } }), 1e-6)
    D.eq(7 / 3, D.tensor { 1., 2., 4. }:cov(), 1e-6)
    D.eq({ { 0.25, 0.5 }, { 0.5, 1 } }, tide.cov(D.tensor { { 1, 2 }, { 3, 5 } }, { correction = 0 }), 1e-6)
    local rows, observed = tide.randn(131, 70, { dtype = "float64", device = D.dev }), tide.arange(70, { device = D.dev }) % 3
    local centred = rows - rows:mean(2, { keepdim = true })
    D.eq((centred:matmul(centred:t()) / 69):tolist(), rows:cov(), 1e-12)
    D.eq(rows:repeat_interleave(observed, 2):cov():tolist(), rows:cov { fweights = observed }, 1e-12)
    D.eq(1.5833334, D.tensor { 1., 2., 4. }:cov { fweights = D.tensor { 1, 2, 1 } }, 1e-6)
    -- A row that was observed n times is n rows, each with its weight.
    local weights = tide.rand(70, { dtype = "float64", device = D.dev }) + 0.1
    for _, correction in ipairs { 0, 1, 2 } do
      for _, counts in ipairs { observed, observed * 3 + 1 } do
        D.eq(rows:repeat_interleave(counts, 2):cov({ aweights = weights:repeat_interleave(counts), correction = correction }):tolist(),
          rows:cov { fweights = counts, aweights = weights, correction = correction }, 1e-12)
      end
    end
    D.eq(1.5, D.tensor { 1., 2., 4. }:cov { fweights = D.tensor { 1, 2, 1 }, aweights = D.tensor { .5, 1., 1. } }, 0.2)
    D.eq({ { 1, -1 }, { -1, 1 } }, tide.corrcoef(D.tensor { { 1., 2., 3. }, { 6., 4., 2. } }), 1e-6)
    same(nan, tide.corrcoef(D.tensor { 1., 1. }))
    -- Rows that are multiples of each other: rounding takes none beyond 1.
    for _, dtype in ipairs { "float32", "float64", "complex64" } do
      for seed = 1, 40 do
        local row = (tide.arange(7, { device = D.dev }) * seed * 37 % 101):to(dtype) / 7
        local r = tide.corrcoef(tide.stack { row, row * 3 + 1, row * -0.7 })
        if dtype == "complex64" then -- by i it is all in the other part
          local turned = tide.corrcoef(tide.stack { row, tide.complex(tide.zeros_like(row:real()), row:real() * 3) })
          assert.is_true(turned:imag():abs():le(1):all():item())
          r = r:real()
        end
        assert.is_true(r:abs():le(1):all():item(), dtype)
      end
    end
    raises("ShapeError", "cov: x", tide.cov, tide.ones(1, 1, 1))
    raises("DtypeError", "cov: x: got bool", tide.cov, D.tensor { true })
    raises("DtypeError", "cov: fweights", tide.cov, tide.ones(2, 2), { fweights = tide.ones(2) })
    raises("ShapeError", "cov: aweights", tide.cov, tide.ones(2, 2), { aweights = tide.ones(3) })
    raises("ValueError", "cov: aweights: got a negative weight", tide.cov, tide.ones(2, 2), { aweights = tide.tensor { 1., -1. } })
    raises("ValueError", "cov: the weights add up to 0", tide.cov, tide.ones(2, 2), { aweights = tide.zeros(2) })
  end)

  it("count points in a grid", function()
    local x = D.tensor { { 0., 1. }, { 1., 0. }, { 1., 1. } }
    local hist, edges = tide.histogramdd(x, { 2, 3 })
    same({ { 0, 0, 1 }, { 1, 0, 1 } }, hist)
    same({ 0, 0.5, 1 }, edges[1])
    assert.are.same({ 4 }, edges[2]:size())
    hist = tide.histogramdd(x, { 2, 3 }, { range = { 0, 1, 0, 1 }, weight = D.tensor { 1., 2., 3. }, density = true })
    D.eq({ { 0, 0, 1 }, { 2, 0, 3 } }, hist, 1e-6)
    hist = tide.histogramdd(x, { D.tensor { 0., 0.5, 0.75 }, D.tensor { 0., 0.5, 2. } })
    same({ { 0, 1 }, { 0, 0 } }, hist) -- what is outside does not count
    for _, at in ipairs { 1., -2.5, 0. } do -- bounds that are one value lie half a unit to both sides, or those of no points
      local n, e = tide.histogramdd(D.tensor { { at }, { at }, { at + 3 } }, 2, { range = { at, at } })
      same({ 0, 2 }, n)
      same({ at - 0.5, at, at + 0.5 }, e[1])
    end
    hist = tide.histogramdd(D.tensor { { nan }, { 0.5 }, { 3 } }, 2, { range = { 0, 1 } })
    same({ 0, 1 }, hist)
    same({ 0, 0 }, (tide.histogramdd(tide.ones({ 0, 1 }, { device = D.dev }), 2)))
    -- Each edge opens its own bin, however it was rounded.
    for bins = 1, 40, 3 do
      local _, e = tide.histogramdd(D.tensor { { 0. }, { 1. } }, bins)
      local n = tide.histogramdd(e[1]:unsqueeze(2), bins, { range = { 0, 1 } })
      local expected = tide.ones(bins):totable()
      expected[bins] = 2
      same(expected, n, bins)
    end
    raises("DtypeError", "histogramdd: x: got int64", tide.histogramdd, D.tensor { { 1 } })
    raises("ShapeError", "histogramdd: x", tide.histogramdd, D.tensor { 1. })
    raises("ValueError", "histogramdd: bins: got 1 values, expected 2", tide.histogramdd, x, { 2 })
    raises("ValueError", "histogramdd: bins[1]: got 0", tide.histogramdd, x, { 0, 1 })
    raises("ValueError", "histogramdd: range: got 1 to 0", tide.histogramdd, x, 2, { range = { 1, 0, 0, 1 } })
    raises("ValueError", "histogramdd: range: got 2 numbers", tide.histogramdd, x, 2, { range = { 1, 0 } })
    raises("ValueError", "histogramdd: x: coordinate 1 is not finite", tide.histogramdd, D.tensor { { nan } }, 2)
    for _, edges in ipairs { { 1., 0. }, { 0., nan, 1. } } do
      raises("ValueError", "histogramdd: bins[1]: got edges that do not ascend", tide.histogramdd, x, { D.tensor(edges), D.tensor { 0., 1. } })
    end
    raises("ShapeError", "histogramdd: weight", tide.histogramdd, x, 2, { weight = D.tensor { 1. } })
  end)
end)

describe("compose: what a dtype holds", function()
  it("is told by finfo and iinfo", function()
    assert.are.equal(2.0 ^ -23, tide.finfo "float32".eps)
    assert.are.equal(2.0 ^ -23, tide.finfo().eps)
    assert.are.equal(65504, tide.finfo(tide.float16).max)
    assert.are.equal(-1.7976931348623157e308, tide.finfo "complex128".min)
    assert.are.equal(2.0 ^ -126, tide.finfo "bfloat16".tiny)
    assert.are.equal(64, tide.finfo "float64".bits)
    assert.are.equal(255, tide.iinfo "uint8".max)
    assert.are.equal(-128, tide.iinfo(tide.int8).min)
    assert.are.equal(math.maxinteger, tide.iinfo "int64".max)
    assert.are.equal(math.mininteger, tide.iinfo "int64".min)
    raises("DtypeError", "finfo: dtype: got int8", tide.finfo, "int8")
    raises("DtypeError", "iinfo: dtype: got bool", tide.iinfo, "bool")
    raises("ArgumentError", "iinfo: dtype", tide.iinfo)
  end)

  it("is the dtype of results", function()
    local x = tide.tensor { 1 }
    assert.are.equal(tide.int64, tide.result_type(x, 1))
    assert.are.equal(tide.float32, tide.result_type(x, 1.5))
    assert.are.equal(tide.int8, tide.result_type(x:to "int8", 100))
    assert.are.equal(tide.float16, tide.result_type(x:to "float16", tide.tensor(1.5, { dtype = "float64" })))
    assert.are.equal(tide.float64, tide.result_type(x, x:to "float64"))
    assert.are.equal(tide.int64, tide.result_type(1, 2))
    assert.are.equal(tide.float32, tide.result_type(1, 2.5))
    raises("ArgumentError", "result_type: y", tide.result_type, x, "a")
  end)
end)

describe("compose: distances", function()
  D.watch(before_each, after_each)

  it("are the norms of differences", function()
    local x, y = D.tensor { { 0., 0. }, { 3., 4. } }, D.tensor { { 0., 0. }, { 0., 4. }, { 6., 8. } }
    D.eq({ { 0, 4, 10 }, { 5, 3, 5 } }, tide.cdist(x, y), 1e-6)
    same({ { 0, 4, 14 }, { 7, 3, 7 } }, tide.cdist(x, y, 1))
    same({ { 0, 4, 8 }, { 4, 3, 4 } }, tide.cdist(x, y, math.huge))
    same({ { 0, 1, 2 }, { 2, 1, 2 } }, tide.cdist(x, y, 0))
    for _, scale in ipairs { 1, 0.25, 1e-30, -1e30 } do same({ { 0, 1, 2 }, { 2, 1, 2 } }, tide.cdist(x * scale, y * scale, 0)) end
    D.eq({ { 0, 4, (6 ^ 3 + 8 ^ 3) ^ (1 / 3) }, { (27 + 64) ^ (1 / 3), 3, (27 + 64) ^ (1 / 3) } }, tide.cdist(x, y, 3), 1e-5)
    same({ { nan, 0 } }, tide.cdist(D.tensor { { nan, 0. } }, D.tensor { { 1., 1. }, { 1., 1. } }):isnan():to "float32" * D.tensor { nan, 0. })
    assert.are.same({ 4, 2, 3 }, tide.cdist(tide.ones(4, 2, 5), tide.ones(3, 5)):size())
    same({ { 0, 0 } }, tide.cdist(tide.ones(1, 0, { device = D.dev }), tide.ones(2, 0, { device = D.dev })))
    assert.are.same({ 0, 2 }, tide.cdist(tide.ones(0, 3), tide.ones(2, 3)):size())
  end)

  it("of many points are those of each pair", function()
    local x = tide.arange(2 * 70 * 9, { device = D.dev }):mul_(37):remainder_(101):to "float32":view(2, 70, 9)
    x[2][3][4] = nan
    local y = x:narrow(1, 2, 1):flip(2) -- for both of x's, backwards
    for _, p in ipairs { 0, 1, 2, math.huge } do
      local all = tide.cdist(x, y, p, { compute_mode = "donot_use_mm_for_euclid_dist" })
      assert.are.same({ 2, 70, 70 }, all:size())
      local few = { tide.cdist(x:narrow(2, 1, 3), y:narrow(2, 60, 11), p), tide.cdist(x:narrow(2, 68, 3), y:narrow(2, 1, 20), p) }
      D.eq(few[1], all:narrow(2, 1, 3):narrow(3, 60, 11), 0, p)
      D.eq(few[2], all:narrow(2, 68, 3):narrow(3, 1, 20), 0, p)
      assert.are.equal(70 + 2 * 70 - 1, all:isnan():sum():item())
    end
  end)

  -- Sizes that no piece of a thread, tile or slice of a sum divides. The numbers of threads give the same bits.
  it("of many points are near the norms of differences, on any number of threads", function()
    for _, dtype in ipairs { "float32", "float64" } do
      for _, s in ipairs { { 70, 133, 3, 2 }, { 301, 95, 40, 1 }, { 33, 1, 13, 3 }, { 1, 200, 5, 1 }, { 45, 260, 800, 1 } } do
        local n, m, k, batch = s[1], s[2], s[3], s[4]
        local x = (tide.arange(batch * n * k, { device = D.dev }):mul_(37):remainder_(101):to(dtype) / 101):view(batch, n, k)
        local y = (tide.arange(m * k, { device = D.dev }):mul_(53):remainder_(97):to(dtype) / 97):view(k, m):t()
        for _, p in ipairs { 1, 2 } do
          local exact = tide.cdist(x:double(), y:double(), p, { compute_mode = "donot_use_mm_for_euclid_dist" })
          for _, mode in ipairs { "use_mm_for_euclid_dist", "use_mm_for_euclid_dist_if_necessary" } do
            local what = table.concat({ dtype, n, m, k, p, mode }, " ")
            local all = tide.cdist(x, y, p, { compute_mode = mode })
            assert.are.equal(tide[dtype], all.dtype)
            assert.are.same({ batch, n, m }, all:size())
            D.eq(exact, all, (dtype == "float32" and 1e-5 or 1e-13) * (p == 1 and k or 20), what)
            local threads = tide.get_num_threads()
            tide.set_num_threads(threads % 3 + 1)
            local again = tide.cdist(x, y, p, { compute_mode = mode })
            tide.set_num_threads(threads)
            same(all, again, what)
          end
        end
      end
    end
  end)

  -- 1000 points 1/64 apart, far away from 0: their squares have no digits left for what lies between.
  it("do not cancel where that is asked for", function()
    local x = (tide.arange(1000, { device = D.dev }):to "float32" / 64 + 4096):unsqueeze(2)
    local exact = (x - x:t()):abs()
    same(exact, tide.cdist(x, x, { compute_mode = "donot_use_mm_for_euclid_dist" }))
    same(exact, tide.cdist(x, x, 1))
    assert.is_true((tide.cdist(x, x, { compute_mode = "use_mm_for_euclid_dist" }) - exact):abs():max():item() > 0.1)
    D.eq(exact, tide.cdist(x - 4096, x - 4096), 2e-2) -- more than one piece of a product
    local near = x:narrow(1, 1, 25)
    same(exact:narrow(1, 1, 25):narrow(2, 1, 25), tide.cdist(near, near)) -- few points are exact
    D.eq(exact:narrow(1, 1, 100):narrow(2, 1, 100), tide.cdist((x - 4096):narrow(1, 1, 100), (x - 4096):narrow(1, 1, 100)), 1e-2)
  end)

  it("are refused with a reason", function()
    local x = D.tensor { { 1., 2. } }
    raises("ShapeError", "cdist: got a float32 tensor [1, 2] and a float32 tensor [1, 3], expected as many coordinates", tide.cdist, x:cpu(), tide.ones(1, 3))
    raises("ShapeError", "expected points in at least 2 dimensions", tide.cdist, x, x[1])
    raises("DtypeError", "cdist: y: got int64", tide.cdist, x, x:long())
    raises("ValueError", "cdist: p: got -1", tide.cdist, x, x, -1)
    raises("ArgumentError", "cdist: compute_mode", tide.cdist, x, x, { compute_mode = "quick" })
    if D.cuda then raises("DeviceError", "cdist: y", tide.cdist, x, x:cpu()) end
  end)
end)
