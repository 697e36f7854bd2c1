-- Edge values of the elementwise operations that are seldom asked for: infinities, NaN, signs of zero, poles, and what is
-- several operations.

local tide = require "tide"
local D = require "spec.support.device"
local S = require "spec.support.special"

local nan, inf = 0 / 0, math.huge

describe("edge values", function()
  D.watch(before_each, after_each)

  it("of logaddexp2 and xlogy", function()
    local x, y = D.tensor { inf, -inf, inf, 2000., nan }, D.tensor { inf, -inf, -inf, 2000., 1. }
    D.eq({ inf, -inf, inf, 2001, nan }, tide.logaddexp2(x, y))
    D.eq({ 0, 0, nan, -inf, nan }, tide.xlogy(D.tensor { 0., 0., 0., 2., nan }, D.tensor { 0., inf, nan, 0., 1. }))
    D.eq({ 0, 2 * math.log(3) }, tide.xlogy(D.tensor { 0, 2 }, 3), 1e-6)
    D.eq({ 0, math.log(2) }, tide.xlogy(1, D.tensor { 1, 2 }), 1e-6)
  end)

  it("of logit", function()
    D.eq({ -inf, inf, nan, nan, 0 }, D.tensor { 0., 1., -0.5, nan, 0.5 }:logit())
    local far = math.log(0.9 / 0.1)
    D.eq({ -far, far, -far, nan, 0 }, D.tensor { 0., 1., -0.5, nan, 0.5 }:logit(0.1), 1e-6)
    D.eq({ -far }, tide.logit(D.tensor { 0. }, { eps = 0.1 }), 1e-6)
    D.eq({ far }, D.tensor { 3 }:logit(0.1), 1e-6)
  end)

  it("of signs", function()
    D.eq({ true, false, true, false, true }, D.tensor { -0., 0., -inf, inf, -3. }:signbit())
    D.eq({ true, false }, D.tensor { -1, 0 }:signbit())
    D.eq({ -0., 2, -3 }, tide.copysign(D.tensor { 0., -2., 3. }, D.tensor { -1., 0., -0. }))
    assert.are.equal(-inf, 1 / tide.copysign(D.tensor { 0. }, -1)[1]:item())
    D.eq({ 0, 7, 1, 0 }, tide.heaviside(D.tensor { -2., 0., 3., nan }, 7))
    assert.has_error(function() D.tensor({ 1. }, "complex64"):signbit() end)
  end)

  it("of nextafter", function()
    local x = D.tensor({ 0., 1., 1., inf, 2., nan }, "float64")
    local got = x:nextafter(D.tensor({ 1., 2., 0., 0., 2., 1. }, "float64"))
    D.eq({ 0x1p-1074, 1 + 0x1p-52, 1 - 0x1p-53, 0x1.fffffffffffffp1023, 2, nan }, got)
  end)

  -- Every number of 16 bits: the bits of a float are in the order of its sizes.
  it("of nextafter in 16 bits", function()
    local most = { float16 = 0x7C00, bfloat16 = 0x7F80 }
    for dtype, infinity in pairs(most) do
      local bits = tide.arange(0, infinity + 1, { dtype = "int64" }):to(tide.int16):to(D.dev)
      local x = bits:view(dtype)
      local up = (bits + 1):clamp { max = infinity }:to(tide.int16):view(dtype)
      assert.is_true(x:nextafter(D.tensor({ inf }, dtype)):equal(up), dtype)
      assert.is_true((-x):nextafter(D.tensor({ -inf }, dtype)):equal(-up), dtype)
      local down = (bits - 1):clamp { min = 0 }:to(tide.int16):view(dtype)
      assert.is_true(x:nextafter(D.tensor({ 0. }, dtype)):equal(down), dtype)
      local y = x:clone()
      assert.is_true(y:nextafter_(0) == y and y:equal(down), dtype)
      assert.is_true((-x):nextafter(0):equal(-down), dtype)
      assert.is_true((-x):nextafter(0):signbit():narrow(1, 2, infinity):all():item(), dtype)
      local least = up[1]:item()
      D.eq({ -least, least, nan, nan }, D.tensor({ 0., -0., nan, 1. }, dtype):nextafter(D.tensor({ -1., 1., 1., nan }, dtype)))
      assert.are.equal(dtype, D.dtype_name(tide.nextafter(x, 1)))
      -- beside a wider dtype the step is that dtype's
      D.eq({ 1 + 2 ^ -23 }, D.tensor({ 1. }, dtype):nextafter(D.tensor { 2. }))
    end
    local out = tide.empty(1, { dtype = "float64", device = D.dev })
    D.eq({ 1 + 2 ^ -10 }, tide.nextafter(D.tensor({ 1. }, "float16"), 2, { out = out }))
  end)

  it("of gcd and lcm", function()
    D.eq({ 6, 0, 5, 4, 1 }, D.tensor { 12, 0, 0, -4, 7 }:gcd(D.tensor { 18, 0, 5, 8, -1 }))
    D.eq({ 36, 0, 0, 8, 7 }, D.tensor { 12, 0, 0, -4, 7 }:lcm(D.tensor { 18, 0, 5, 8, -1 }))
    D.eq({ 1 << 62 }, D.tensor { math.mininteger }:gcd(1 << 62))
    D.eq({ 200 }, D.tensor({ 200 }, "uint8"):gcd(D.tensor({ 0 }, "uint8")))
    assert.has_error(function() tide.gcd(D.tensor { 1.5 }, 2) end)
  end)

  it("of frexp", function()
    for _, dtype in ipairs { "float16", "bfloat16", "float32", "float64" } do
      local m, e = tide.frexp(D.tensor({ 0., 1., -3., 0.375, inf, nan, 96. }, dtype))
      assert.are.equal(dtype, D.dtype_name(m))
      assert.are.equal("int32", D.dtype_name(e))
      D.eq({ 0, 0.5, -0.75, 0.75, inf, nan, 0.75 }, m)
      D.eq({ 0, 1, 2, -1, 0, 0, 7 }, e)
    end
    local m, e = D.tensor { 10 }:frexp()
    D.eq({ 0.625 }, m)
    D.eq({ 4 }, e)
    local x, y = D.tensor { 0. }, D.tensor({ 0 }, "int32")
    m, e = tide.frexp(D.tensor { 5. }, { out = { x, y } })
    assert.is_true(m == x and e == y)
    D.eq({ 0.625 }, x)
    D.eq({ 5 }, tide.ldexp(x, y))
    assert.has_error(function() D.tensor({ 1. }, "complex64"):frexp() end)
  end)

  it("of polygamma", function()
    D.eq({ math.pi ^ 2 / 6, math.pi ^ 2 / 2 }, D.tensor({ 1., 0.5 }, "float64"):polygamma(1), 1e-14)
    D.eq({ S.digamma(2.5) }, tide.polygamma(0, D.tensor { 2.5 }), 1e-6)
    -- of negative numbers: the recurrence from above 0
    local x = D.tensor({ -0.5, -2.25, -1e6 + 0.5 }, "float64")
    D.eq({ S.polygamma(1, -0.5), S.polygamma(1, -2.25), math.pi ^ 2 - 1e-6 }, x:polygamma(1), 1e-10)
    D.eq({ S.polygamma(2, -0.5), S.polygamma(2, -2.25) }, x[{ { 1, 2 } }]:polygamma(2), 1e-10)
    D.eq({ inf, inf, nan, 0 }, D.tensor { 0., -3., nan, inf }:polygamma(1))
    D.eq({ -inf, -inf, nan, 0 }, D.tensor { 0., -3., nan, inf }:polygamma(2))
    for _, dtype in ipairs { "float32", "float64" } do -- orders whose terms underflow end, too
      local y = D.tensor({ 0.25, 1.5, 3, -2.75, -2.25 }, dtype)
      D.eq({ inf, inf, inf, inf, inf }, y:polygamma(5001))
      D.eq({ -inf, -inf, -inf, -inf, inf }, y:polygamma(5000))
      assert.are.equal(5, y:polygamma(math.maxinteger):numel())
    end
    local ok, e = pcall(tide.polygamma, -1, x)
    assert.is_false(ok)
    assert.are.equal("polygamma: n: got -1, expected at least 0", e.message)
  end)

  it("of i0 and tide.special", function()
    D.eq({ 1, inf, inf, nan, S.i0(29.5), S.i0(30.5) }, D.tensor({ 0., inf, -inf, nan, -29.5, 30.5 }, "float64"):i0(), 1e-14)
    local p = D.tensor({ 0., 1., -1., 2., 1e-300, nan }, "float64"):contiguous()
    D.eq({ -inf, inf, nan, nan, -37.0470962993612, nan }, tide.special.ndtri(p), 1e-13)
    D.eq({ 1e-300 }, tide.special.ndtr(tide.special.ndtri(p[{ { 5, 5 } }])), 1e-10)
    D.eq({ 0, -inf, nan, 0 }, tide.special.entr(D.tensor { 0., -1., nan, 1. }))
    assert.are.equal(tide.sigmoid, tide.special.expit)
    assert.are.equal(tide.lgamma, tide.special.gammaln)
    for _, name in ipairs { "erf", "erfc", "erfinv", "logit", "exp2", "expm1", "log1p", "logsumexp", "digamma", "polygamma", "i0", "sinc", "xlogy" } do
      assert.are.equal(tide[name], tide.special[name], name)
    end
  end)

  -- Functions that take the usual arguments a block at a time, and others one by one.
  it("of an element, whatever stands beside it", function()
    for _, dtype in ipairs { "float32", "float64" } do
      local x = tide.linspace(-7.03, 25.1, 203, { dtype = dtype, device = D.dev })
      for name, v in pairs { erfinv = x / 20, lgamma = x, digamma = x, i0 = x, polygamma = x } do
        local function f(y) return name == "polygamma" and y:polygamma(1) or y[name](y) end
        local all = f(v):tolist()
        for i = 1, 203, 3 do D.eq({ all[i] }, f(v:narrow(1, i, 1):clone())) end
      end
      D.eq({ nan, -inf, inf, nan, 0 }, D.tensor({ -1.5, -1, 1, nan, 0 }, dtype):erfinv())
      D.eq({ inf, inf, inf, nan, 0, 0 }, D.tensor({ 0, -3, inf, nan, 1, 2 }, dtype):lgamma())
    end
  end)

  it("of erfinv near 0 and near 1", function()
    local known = { -- to 60 digits, by mpmath's erfc and Newton's steps
      { 1e-300, 8.86226925452758e-301 }, { 1e-9, 0x1.e7355a02875c3p-31 }, { 0.25, 0x1.cd70681d5ff7p-3 },
      { 0.5, 0x1.e861fbb24c00ap-2 }, { 0.75, 0x1.a07890f6b2ba1p-1 }, { 0.85, 0x1.04954184f8aa5p+0 },
      { 0.9998999, 0x1.601d3e245fe58p+1 }, { 0.9999001, 0x1.60287c97abda3p+1 }, { 1 - 2 ^ -20, 0x1.bb95ab2ef976fp+1 },
      { 1 - 2 ^ -53, 0x1.7744f8f74e94ap+2 } }
    for _, case in ipairs(known) do
      for _, sign in ipairs { 1, -1 } do
        local x = D.tensor({ sign * case[1] }, "float64")
        local got = x:erfinv():item() / (sign * case[2])
        assert.is_true(math.abs(got - 1) < 1.2e-15, string.format("erfinv(%a): %a too large", sign * case[1], got - 1))
      end
    end
    local zero = D.tensor({ 0., -0., 5e-324, -5e-324 }, "float64"):erfinv():tolist()
    assert.are.same({ inf, -inf, 5e-324, -5e-324 }, { 1 / zero[1], 1 / zero[2], zero[3], zero[4] })
  end)

  it("of float_power", function()
    local got = tide.float_power(D.tensor { 2, 3 }, 3)
    assert.are.equal("float64", D.dtype_name(got))
    D.eq({ 8, 27 }, got)
    D.eq({ 0.5, 1 / 3 }, tide.float_power(D.tensor { 2, 3 }, D.tensor { -1, -1 }), 1e-15)
    D.eq({ 1.5 ^ 0.1 }, tide.float_power(1.5, D.tensor { 0.1 }), 1e-7)
    assert.are.equal("complex128", D.dtype_name(tide.float_power(D.tensor({ 1. }, "complex64"), 2)))
    assert.has_error(function() tide.float_power(2, 3) end)
  end)
end)
