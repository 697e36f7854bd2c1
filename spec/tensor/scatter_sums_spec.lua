-- Sums at places that repeat: how far a scatter, a put, an index_add or a histogram may be from the sum of the same
-- numbers in a wider dtype, which is rounded once.

local tide = require "tide"
local D = require "spec.support.device"

local function full(n, v, dtype) return tide.full({ n }, v, { dtype = dtype, device = D.dev }) end
local function ones(n) return full(n, 1, "int64") end

-- Every way to add v at place `at` of x, n values in all. Each gives the element there.
local ways = {
  scatter_add = function(x, at, v) return x:scatter_add(1, at, v) end,
  scatter_add_ = function(x, at, v) return x:clone():scatter_add_(1, at, v) end,
  ["scatter add"] = function(x, at, v) return x:scatter(1, at, v, { reduce = "add" }) end,
  ["scatter sum"] = function(x, at, v) return x:scatter_reduce(1, at, v, "sum") end,
  ["sum without self"] = function(x, at, v) return x:scatter_reduce(1, at, v, "sum", { include_self = false }) end,
  index_add = function(x, at, v) return x:index_add(1, at, v) end,
  index_add_ = function(x, at, v) return x:clone():index_add_(1, at, v) end,
  ["index_add of half"] = function(x, at, v) return x:index_add(1, at, v + v, { alpha = 0.5 }) end,
  put = function(x, at, v) return x:put(at, v, { accumulate = true }) end,
  put_ = function(x, at, v) return x:clone():put_(at, v, { accumulate = true }) end,
  index_put = function(x, at, v) return x:index_put({ at }, v, { accumulate = true }) end,
  index_put_ = function(x, at, v) return x:clone():index_put_({ at }, v, { accumulate = true }) end,
  ["index_put of a number"] = function(x, at, v) return x:index_put({ at }, v[1]:item(), { accumulate = true }) end,
  ["out="] = function(x, at, v) return x:scatter_add(1, at, v, { out = x:clone() }) end,
  ["wide out="] = function(x, at, v) return x:index_add(1, at, v, { out = x:double() }) end,
}

-- What becomes of a number in a dtype.
local function rounded(v, dtype) return tide.tensor({ v }, { dtype = "float64" }):to(tide[dtype])[1]:item() end

local function each_way(n, length, dtype, want, tolerance)
  for name, way in pairs(ways) do
    local x, v = full(length, 0, dtype), full(n, 1, dtype)
    local got = way(x, ones(n) * 3, v)
    D.eq({ 0, 0, want, 0 }, got:narrow(1, 1, 4), tolerance, ("%s of %s, %d into %d"):format(name, dtype, n, length))
    D.eq(full(length, 0, dtype), x)
  end
end

describe("sums at places that repeat", function()
  D.watch(before_each, after_each)
  after_each(function() tide.use_deterministic_algorithms(false) end)

  it("do not stall in 16 bits, into few places and into many", function()
    for _, ordered in ipairs { false, true } do
      tide.use_deterministic_algorithms(ordered)
      for _, length in ipairs { 4, 1000, 300000 } do
        each_way(5000, length, "float16", 5000)
        each_way(5000, length, "bfloat16", rounded(5000, "bfloat16"))
      end
    end
  end)

  it("round once in 16 bits, however few values meet", function()
    for _, length in ipairs { 2, 5000 } do
      for dtype, unit in pairs { float16 = 2 ^ -11, bfloat16 = 2 ^ -8 } do
        -- half a unit is lost each time that it is added alone
        local x, at = full(length, 1, dtype), full(2, 2, "int64")
        local got = x:scatter_add(1, at, full(2, unit, dtype))
        D.eq({ 1, 1 + 2 * unit }, got:narrow(1, 1, 2), 0, dtype)
        got = x:put(at, full(2, unit, dtype), { accumulate = true })
        D.eq({ 1, 1 + 2 * unit }, got:narrow(1, 1, 2), 0, dtype)
      end
    end
  end)

  it("are the wide sums rounded once, of random values in any layout", function()
    tide.manual_seed(5)
    local n, rows = 3000, 7
    for _, length in ipairs { 5, 700, 60000 } do
      local at = tide.randint(1, math.min(length, 700) + 1, { n }, { dtype = "int64" })
      local v = tide.randn(n, rows, { dtype = "float64" })
      for _, dtype in ipairs { "float16", "bfloat16", "float32", "complex64" } do
        local x, y = tide.ones(length, rows, { dtype = dtype }), v:to(tide[dtype])
        local wide = tide[D.kind[dtype] == "C" and "complex128" or "float64"]
        local want = x:to(wide):index_add(1, at, y:to(wide)):to(tide[dtype])
        -- of 16 bits sums are kept in float32; float32's own, where few values meet, in float32
        local eps = ({ float16 = 2 ^ -10, bfloat16 = 2 ^ -7 })[dtype] or 2e-5
        for _, source in ipairs(D.layouts(y:to(D.dev))) do
          local got = x:to(D.dev):index_add(1, at:to(D.dev), source[2])
          local far = (got:cpu():to(wide) - want:to(wide)):abs()
          assert.is_true((far - want:to(wide):abs() * eps):max():item() <= 3e-5, dtype .. source[1] .. length)
          local exact = far:eq(0):sum():item() / far:numel()
          assert.is_true(D.kind[dtype] == "C" or eps == 2e-5 or exact > 0.99, ("%s: %g are exact"):format(dtype, exact))
        end
      end
    end
  end)

  it("go on beyond 2^24 in float32", function()
    local n = D.tsan and 1 << 12 or (1 << 24) + 1000
    local at, v = ones(n), full(n, 1, "float32")
    for _, length in ipairs { 1, 1000 } do
      local x = full(length, 0, "float32")
      D.eq(n, x:scatter_add(1, at, v)[1]:item())
      D.eq(n, x:clone():index_add_(1, at, v)[1]:item())
      D.eq(n, x:put(at, v, { accumulate = true })[1]:item())
      D.eq(n, x:index_put({ at }, v, { accumulate = true })[1]:item())
      D.eq(n, x:scatter_reduce(1, at, v, "sum")[1]:item())
      D.eq(1, x:scatter_reduce(1, at, v, "mean", { include_self = false })[1]:item())
    end
    D.eq({ 0, n }, (at):bincount(v))
    D.eq({ 0, n }, (v:histogram(2, { range = { 0, 1 }, weight = v })))
  end)

  it("of one crowded place of a tensor as large as the index, on the cpu", function()
    local n = 200000
    local x, at, v = tide.zeros(n), tide.full({ n }, 7, { dtype = "int64" }), tide.full({ n }, 0.1)
    at:narrow(1, 1, 10):copy_(tide.arange(10) + 100)
    local want = v[1]:item() * (n - 10)
    D.eq({ 0, want / want }, x:scatter_add(1, at, v):narrow(1, 6, 2):double() / want, 1e-7)
    D.eq({ v[1]:item() }, x:scatter_add(1, at, v):narrow(1, 102, 1))
    D.raises("IndexError", function() at[3] = n + 1 x:scatter_add_(1, at, v) end)
    assert.is_false(x:any():item())
  end)

  it("of rows that repeat in a large table", function()
    for _, dtype in ipairs { "float16", "bfloat16" } do
      local table_ = full(40000, 1, dtype):view(10000, 4)
      local rows, at = full(4 * 3000, 1, dtype):view(3000, 4), ones(3000) * 9999
      at[1], at[2] = 1, 10000
      local got = table_:index_add(1, at, rows)
      D.eq({ { 2, 2, 2, 2 }, { 1, 1, 1, 1 } }, got:narrow(1, 1, 2))
      local far = rounded(2999, dtype)
      D.eq({ { far, far, far, far }, { 2, 2, 2, 2 } }, got:narrow(1, 9999, 2))
      got = table_:index_put({ at }, 1, { accumulate = true })
      D.eq({ { far, far, far, far }, { 2, 2, 2, 2 } }, got:narrow(1, 9999, 2))
      local thin = table_:t()
      thin = thin:index_add(2, at, rows:t())
      D.eq({ { far, 2 }, { far, 2 }, { far, 2 }, { far, 2 } }, thin:narrow(2, 9999, 2))
    end
  end)

  it("have products that round once, too", function()
    for _, length in ipairs { 1, 1000 } do
      local x, at = full(length, 1, "float16"), ones(3)
      local v = D.tensor({ 300, 300, 0.001 }, "float16")
      local want = tide.tensor({ 300 * 300 * v[3]:item() }, { dtype = "float32" }):half():item()
      D.eq(want, x:scatter(1, at, v, { reduce = "multiply" })[1]:item())
      D.eq(want, x:scatter_reduce(1, at, v, "prod")[1]:item())
    end
  end)

  it("leave alone what a bad index comes with, on the cpu", function()
    for _, length in ipairs { 4, 100000 } do
      local x, at, v = tide.ones(length, { dtype = "float16" }), tide.ones(5000, { dtype = "int64" }),
        tide.ones(5000, { dtype = "float16" })
      at[5000] = length + 1
      D.raises("IndexError", function() x:scatter_add_(1, at, v) end)
      D.raises("IndexError", function() x:put_(at, v, { accumulate = true }) end)
      assert.is_true(x:eq(1):all():item())
    end
  end)
end)

describe("means at places that repeat", function()
  D.watch(before_each, after_each)

  it("neither wrap nor overflow", function()
    for dtype, v in pairs { uint8 = 200, int8 = -100, int16 = 30000, int32 = 2000000000, float16 = 60000., bfloat16 = 200. } do
      for _, length in ipairs { 2, 5000 } do
        local x, n = full(length, 0, dtype), 5000
        local got = x:scatter_reduce(1, full(n, 2, "int64"), full(n, v, dtype), "mean", { include_self = false })
        D.eq({ 0, rounded(v, dtype) }, got:narrow(1, 1, 2), 0, dtype)
        assert.are.equal(dtype, D.dtype_name(got))
        x[2] = v
        x:scatter_reduce_(1, full(n, 2, "int64"), full(n, v, dtype), "mean")
        D.eq({ 0, rounded(v, dtype) }, x:narrow(1, 1, 2), 0, dtype)
      end
    end
  end)

  it("round integers down, and floats once", function()
    D.eq({ -2, 3 }, D.tensor({ -2, 3 }, "int8"):scatter_reduce(1, D.tensor { 1, 1, 2 }, D.tensor({ -1, -1, 4 }, "int8"), "mean"))
    D.eq({ 1 + 2 ^ -10 }, D.tensor({ 1. }, "float16"):scatter_reduce(1, D.tensor { 1 }, D.tensor({ 1 + 2 ^ -9 }, "float16"), "mean"))
    D.eq({ 60000 }, D.tensor({ 60000. }, "float16"):scatter_reduce(1, D.tensor { 1 }, D.tensor({ 60000. }, "float16"), "mean"))
  end)
end)

describe("weighted counts", function()
  D.watch(before_each, after_each)

  it("of 16-bit and float32 weights are wide sums", function()
    local n = 5000
    for dtype in pairs { float16 = 1, bfloat16 = 1 } do
      local x, w = full(n, 0.5, dtype), full(n, 1, dtype)
      D.eq({ 0, rounded(n, dtype) }, (x:histogram(2, { range = { 0, 1 }, weight = w })))
      D.eq({ 0, n }, full(n, 1, "int64"):bincount(w))
    end
    tide.manual_seed(3)
    local at, w = tide.randint(0, 3, { 100000 }), tide.rand(100000)
    local want = at:bincount(w:double())
    local got = at:to(D.dev):bincount(w:to(D.dev))
    assert.are.equal("float32", D.dtype_name(got))
    assert.is_true(((got:cpu():double() - want) / want):abs():max():item() < 1e-7)
  end)
end)
