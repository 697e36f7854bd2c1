-- Complex numbers in every function that takes them: values against plain formulas over real ones, branch cuts and signed
-- zeros, infinities as C's functions have them, reductions and random ones.

local tide = require "tide"
local D = require "spec.support.device"

local nan, inf, pi = 0 / 0, math.huge, math.pi

local function make(re, im, dtype)
  return tide.complex(tide.tensor(re, { dtype = "float64", device = D.dev }), tide.tensor(im, { dtype = "float64", device = D.dev })):to(dtype)
end

-- ---- references: pairs of real and imaginary part ----

local function exp(a, b) return math.exp(a) * math.cos(b), math.exp(a) * math.sin(b) end
local function log(a, b) return math.log(a * a + b * b) / 2, math.atan(b, a) end
local function mul(a, b, c, d) return a * c - b * d, a * d + b * c end
local function div(a, b, c, d) return (a * c + b * d) / (c * c + d * d), (b * c - a * d) / (c * c + d * d) end
local function root(a, b)
  local t = math.sqrt((math.abs(a) + math.sqrt(a * a + b * b)) / 2)
  if t == 0 then return 0, b end
  if a >= 0 then return t, b / (2 * t) end
  return math.abs(b) / (2 * t), b < 0 and -t or t
end
local function sinh(a, b)
  local e, f = math.exp(a), math.exp(-a)
  return (e - f) / 2 * math.cos(b), (e + f) / 2 * math.sin(b)
end
local function cosh(a, b)
  local e, f = math.exp(a), math.exp(-a)
  return (e + f) / 2 * math.cos(b), (e - f) / 2 * math.sin(b)
end
local function tanh(a, b)
  local c, d = cosh(a, b)
  local s, t = sinh(a, b)
  return div(s, t, c, d)
end
local function asinh(a, b) -- log(z + sqrt(z^2 + 1)), from the side where nothing cancels
  if a < 0 then
    local r, i = asinh(-a, -b)
    return -r, -i
  end
  local r, i = root(a * a - b * b + 1, 2 * a * b)
  return log(a + r, b + i)
end
local function atanh(a, b)
  local r, i = log(1 + a, b)
  local s, t = log(1 - a, -b)
  return (r - s) / 2, (i - t) / 2
end
local function turned(f) -- of sinh, sin; of tanh, tan; and so on
  return function(a, b)
    local r, i = f(-b, a)
    return i, -r
  end
end
local asin = turned(asinh)
local function scaled(f, by)
  return function(a, b)
    local r, i = f(a, b)
    return r / by, i / by
  end
end

local functions = {
  exp = exp, log = log, sqrt = root, sinh = sinh, cosh = cosh, tanh = tanh, asinh = asinh, atanh = atanh, asin = asin,
  sin = turned(sinh), tan = turned(tanh), atan = turned(atanh),
  cos = function(a, b) return cosh(-b, a) end,
  acos = function(a, b)
    local r, i = asin(a, b)
    return pi / 2 - r, -i
  end,
  acosh = function(a, b)
    local r, i = asin(a, b)
    r, i = pi / 2 - r, -i
    if b < 0 then return i, -r end
    return -i, r
  end,
  exp2 = function(a, b) return exp(a * math.log(2), b * math.log(2)) end,
  log2 = scaled(log, math.log(2)), log10 = scaled(log, math.log(10)),
  expm1 = function(a, b)
    local r, i = exp(a, b)
    return r - 1, i
  end,
  log1p = function(a, b) return log(1 + a, b) end,
  rsqrt = function(a, b) return div(1, 0, root(a, b)) end,
  reciprocal = function(a, b) return div(1, 0, a, b) end,
  square = function(a, b) return mul(a, b, a, b) end,
  sigmoid = function(a, b)
    local r, i = exp(-a, -b)
    return div(1, 0, 1 + r, i)
  end,
  silu = function(a, b)
    local r, i = exp(-a, -b)
    return div(a, b, 1 + r, i)
  end,
  neg = function(a, b) return -a, -b end,
  conj = function(a, b) return a, -b end,
}

local re, im = {}, {}
for i = 1, 40 do
  local angle, size = i * 2.39996, 0.03 * i * i ^ 0.55
  re[i], im[i] = size * math.cos(angle), size * math.sin(angle)
end
for _, z in ipairs { { 0.5, 1e-3 }, { 1.5, -1e-3 }, { -0.9, 0.2 }, { 1e-4, -1e-4 }, { 2, 3 } } do re[#re + 1], im[#im + 1] = z[1], z[2] end

local function near(want_re, want_im, x, eps, what)
  local r, i = x:real():totable(), x:imag():totable()
  for k = 1, #r do
    local size = math.max(math.abs(want_re[k]), math.abs(want_im[k]), 1e-3)
    assert.is_true(math.abs(r[k] - want_re[k]) <= eps * size and math.abs(i[k] - want_im[k]) <= eps * size,
      ("%s, element %d: got %.17g %+.17gi, expected %.17g %+.17gi"):format(what, k, r[k], i[k], want_re[k], want_im[k]))
  end
end

describe("complex numbers", function()
  D.watch(before_each, after_each)

  it("in functions of one", function()
    for _, dtype in ipairs { "complex64", "complex128" } do
      local z = make(re, im, dtype)
      local a, b = z:real():totable(), z:imag():totable()
      for name, f in pairs(functions) do
        local r, i = {}, {}
        for k = 1, #a do r[k], i[k] = f(a[k], b[k]) end
        local eps = dtype == "complex64" and 3e-6 or 1e-11
        near(r, i, tide[name](z), eps, name .. " of " .. dtype)
        assert.are.equal(dtype, D.dtype_name(tide[name](z)))
        near(r, i, z:clone()[name .. "_"](z:clone()), eps, name .. "_ of " .. dtype)
        near(r, i, tide[name](z:view(5, 9):t():contiguous():t()):reshape(45), eps, name .. ", strided")
        near(r, i, tide[name](z, { out = tide.empty_like(z) }), eps, name .. " with out")
      end
    end
  end)

  -- A processor may have an instruction for a product and what is added to it, which rounds once.
  it("in products and quotients, each step rounded", function()
    if D.cuda and not D.simulated then return pending "not on a real GPU" end
    for part, dtype in pairs { float32 = "complex64", float64 = "complex128" } do
      for _, n in ipairs { 1, 2, 15, 100 } do
        local function pair() return tide.randn(n, { dtype = part, device = D.dev }), tide.randn(n, { dtype = part, device = D.dev }) end
        local a, b = pair()
        local c, d = pair()
        local e, f = pair()
        local x, y, z = tide.complex(a, b), tide.complex(c, d), tide.complex(e, f)
        local turned = c:abs():lt(d:abs())
        local function over(p, q) -- the parts of (p + q i) / y
          local ratio = tide.where(turned, c / d, d / c)
          local size = tide.where(turned, c * ratio + d, d * ratio + c)
          return tide.where(turned, p * ratio + q, q * ratio + p) / size, tide.where(turned, q * ratio - p, q - p * ratio) / size
        end
        local function same(what, got, re, im)
          assert.are.equal(dtype, D.dtype_name(got))
          D.eq(re:tolist(), got:real(), 0, what)
          D.eq(im:tolist(), got:imag(), 0, what)
        end
        local re, im = mul(a, b, c, d)
        same("x * y", x * y, re, im)
        same("x * conj(x)", x * x:conj(), a * a + b * b, a * 0)
        same("addcmul", z:addcmul(x, y, { value = 2 }), e + mul(a * 2, b * 2, c, d), f + select(2, mul(a * 2, b * 2, c, d)))
        same("lerp", x:lerp(y, z), a + mul(e, f, c - a, d - b), b + select(2, mul(e, f, c - a, d - b)))
        same("add", x:add(y, { alpha = 3 }), a + c * 3, b + d * 3)
        re, im = over(a, b)
        same("x / y", x / y, re, im)
        re, im = over(a * 2, b * 2)
        same("addcdiv", z:addcdiv(x, y, { value = 2 }), e + re, f + im)
      end
    end
  end)

  it("in powers: of each other, of numbers, and numbers of them; small whole ones are exact", function()
    for _, dtype in ipairs { "complex64", "complex128" } do
      local z, w = make(re, im, dtype), make({ 0.5 }, { -1.25 }, dtype)
      local a, b = z:real():totable(), z:imag():totable()
      local r, i, s, t = {}, {}, {}, {}
      for k = 1, #a do
        r[k], i[k] = exp(mul(0.5, -1.25, log(a[k], b[k])))
        s[k], t[k] = exp(a[k] * math.log(2.5), b[k] * math.log(2.5))
      end
      near(r, i, z ^ w, dtype == "complex64" and 1e-5 or 1e-11, "z ^ w")
      near(s, t, tide.pow(2.5, z), dtype == "complex64" and 1e-5 or 1e-11, "2.5 ^ z")
      local five = make({ 1, -3 }, { 2, -4 }, dtype)
      D.eq({ -3, -7 }, (five ^ 2):real())
      D.eq({ 4, 24 }, (five ^ 2):imag())
      D.eq({ -11, 117 }, (five ^ 3):real())
      near({ 0.2, -0.12 }, { -0.4, 0.16 }, five ^ -1, 1e-6, "z ^ -1")
      D.eq({ 1, 1 }, (five ^ 0):real())
      local none = make({ 0, 0 }, { 0, 0 }, dtype)
      D.eq({ 0, 0 }, (none ^ 2.5):real())
      D.eq({ 1, 1 }, (none ^ 0):real())
      local size = dtype == "complex64" and 1e30 or 1e200
      local far, near_zero = make({ size, 0, -size }, { 0, size, size }, dtype), make({ 1 / size, 0 }, { 0, 1 / size }, dtype)
      for n = 2, 16 do -- what is too large on the way to a product
        D.eq({ 0, 0, 0 }, (far ^ -n):abs())
        D.eq({ 0, 0 }, (near_zero ^ n):abs())
        assert.is_true((far ^ n):isinf():all():item(), n)
        assert.is_true((near_zero ^ -n):isinf():all():item(), n)
        assert.is_false((far ^ n):isnan():any():item(), n)
        assert.is_false((near_zero ^ -n):isnan():any():item(), n)
      end
    end
  end)

  -- What C's functions give (C11, annex G), signs of zeros included where it says them.
  it("at branch cuts, infinities and zeros", function()
    local z = 0.0
    local cases = {
      { "sqrt", -4, z, 0, 2 }, { "sqrt", -4, -z, 0, -2 }, { "sqrt", -inf, 1, 0, inf }, { "sqrt", inf, -1, inf, -z }, { "sqrt", nan, inf, inf, inf },
      { "sqrt", 3, -inf, inf, -inf }, { "sqrt", 1e-30, 0, 1e-15, 0 }, { "sqrt", -z, -z, 0, -z },
      { "log", -1, z, 0, pi }, { "log", -1, -z, 0, -pi }, { "log", 0, 0, -inf, 0 }, { "log", -z, z, -inf, pi }, { "log", inf, -inf, inf, -pi / 4 },
      { "log", -inf, 5, inf, pi }, { "log", nan, inf, inf, nan }, { "log", 1, nan, nan, nan },
      { "exp", -inf, 1, 0, 0 }, { "exp", -inf, inf, 0, 0 }, { "exp", inf, z, inf, 0 }, { "exp", inf, 2, -inf, inf }, { "exp", 1, inf, nan, nan }, { "exp", nan, z, nan, 0 },
      { "exp", -1e4, 3, -z, 0 },
      { "tanh", inf, 1, 1, 0 }, { "tanh", -1e4, 2, -1, -z }, { "tanh", nan, z, nan, 0 }, { "tanh", 1, inf, nan, nan },
      { "sinh", z, inf, 0, nan }, { "sinh", inf, 1, inf, inf }, { "sinh", -inf, 2, inf, inf }, { "cosh", -inf, 2, -inf, -inf }, { "cosh", inf, z, inf, 0 },
      { "asin", 2, z, pi / 2, 1.3169578969248166 }, { "asin", 2, -z, pi / 2, -1.3169578969248166 }, { "acos", -2, z, pi, -1.3169578969248166 },
      { "acos", -2, -z, pi, 1.3169578969248166 }, { "acosh", -2, -z, 1.3169578969248166, -pi }, { "acosh", 0.5, z, 0, 1.0471975511965979 },
      { "atanh", 2, z, 0.5493061443340549, pi / 2 }, { "atanh", 2, -z, 0.5493061443340549, -pi / 2 }, { "atanh", 1, z, inf, 0 }, { "atanh", inf, 3, 0, pi / 2 },
      { "asinh", inf, inf, inf, pi / 4 }, { "asinh", -inf, 1, -inf, 0 }, { "acos", -inf, inf, 3 * pi / 4, -inf }, { "acos", 0, nan, pi / 2, nan },
      { "atan", inf, z, pi / 2, 0 }, { "atan", 0, 2, pi / 2, 0.5493061443340549 }, { "sin", 0, inf, 0, inf }, { "cos", 0, inf, inf, -z },
      { "expm1", 1e-8, 1e-8, 1.0e-8, 1.0000000100000e-8 }, { "log1p", 1e-9, 1e-9, 1e-9, 9.99999999e-10 }, { "log1p", -1, z, -inf, 0 },
      { "log", 1, 1e-6, 4.99999999999750e-13, 9.99999999999666667e-07 }, { "exp2", 3, z, 8, 0 }, { "log2", 8, z, 3, 0 }, { "log10", -1000, z, 3, 1.3643763538418414 },
    }
    for _, dtype in ipairs { "complex64", "complex128" } do
      for _, c in ipairs(cases) do
        local name, x = c[1], make({ c[2] }, { c[3] }, dtype)
        local y = tide[name](x)
        local got = { y:real():item(), y:imag():item() }
        for k = 1, 2 do
          local want, value = c[3 + k], got[k]
          local eps = (dtype == "complex64" and 1e-6 or 1e-14) * math.abs(want)
          local same = want == value or (want ~= want and value ~= value) or math.abs(want - value) <= eps
          assert.is_true(same and (want ~= 0 or 1 / want == 1 / value or name == "cos" or name == "cosh" or name == "exp"),
            ("%s(%g%+gi) of %s: got %.17g %+.17gi, expected %.17g %+.17gi"):format(name, c[2], c[3], dtype, got[1], got[2], c[4], c[5]))
        end
      end
    end
  end)

  it("in tests and in logic", function()
    for _, dtype in ipairs { "complex64", "complex128" } do
      local x = make({ 0, nan, 1, inf, 0, 2 }, { 0, 1, nan, 0, -inf, -3 }, dtype)
      D.eq({ false, true, true, false, false, false }, x:isnan())
      D.eq({ false, false, false, true, true, false }, x:isinf())
      D.eq({ true, false, false, false, false, true }, x:isfinite())
      D.eq({ true, false, false, false, false, false }, x:logical_not())
      local a, b = make({ 0, 0, 1, 0 }, { 0, 2, 0, 0 }, dtype), make({ 0, 0, 0, 0 }, { 0, 0, -1, 3 }, dtype)
      D.eq({ false, false, true, false }, a:logical_and(b))
      D.eq({ false, true, true, true }, a:logical_or(b))
      D.eq({ false, true, false, true }, a:logical_xor(b))
      D.eq({ false, true, true, false }, a:logical_and(1))
    end
    local z = make({ 1 }, { 1 }, "complex64")
    for _, name in ipairs { "floor", "lgamma", "erf", "relu", "sign" } do D.raises("DtypeError", tide[name], z) end
    for _, name in ipairs { "atan2", "maximum", "lt", "remainder" } do D.raises("DtypeError", tide[name], z, z) end
  end)

  it("in directions, in what stands for NaN and in distances", function()
    for _, dtype in ipairs { "complex64", "complex128" } do
      local eps = dtype == "complex64" and 1e-6 or 1e-14
      local function is(re, im, z)
        assert.are.equal(dtype, D.dtype_name(z))
        D.eq(re, z:real(), eps)
        D.eq(im, z:imag(), eps)
      end
      local x = make({ 3, 0, -2, nan, inf, 1e-30, 3e37 }, { -4, 0, 0, 1, 1, 0, 4e37 }, dtype)
      is({ 0.6, 0, -1, nan, nan, 1, 0.6 }, { -0.8, 0, 0, nan, nan, 0, 0.8 }, x:sgn())
      local y = make({ nan, inf, 1, -inf, 0 }, { 2, -inf, nan, 0, -3 }, dtype)
      is({ 5, 7, 1, -8, 0 }, { 2, -8, 5, 0, -3 }, y:nan_to_num { nan = 5, posinf = 7, neginf = -8 })
      local most = dtype == "complex64" and tide.tensor({ 0x1.fffffep127 }):item() or 0x1.fffffffffffffp1023
      is({ 0, most, 1, -most, 0 }, { 2, -most, 0, 0, -3 }, y:nan_to_num())
      is({ 0, most, 1, -most, 0 }, { 2, -most, 0, 0, -3 }, y:clone():nan_to_num_())

      local a = make({ inf, 1, inf, nan, 3, 3, inf }, { 0, 1, 1, 1, 4, 4, 1 }, dtype)
      local b = make({ inf, 1, -inf, 1, 3, 3, inf }, { 1, 1 + 1e-5, 1, nan, 4.02, 4.08, 1 }, dtype)
      local opts = { rtol = 0.01, atol = 1e-4 } -- the size of b is about 5
      D.eq({ false, true, false, false, true, false, true }, tide.isclose(a, b, opts))
      opts.equal_nan = true
      D.eq({ false, true, false, true, true, false, true }, tide.isclose(a, b, opts))
      assert.is_false(tide.allclose(a, b, opts))
      assert.is_true(tide.allclose(a, a, opts))
      assert.is_true(tide.allclose(x:nan_to_num(), x:nan_to_num()))
      D.eq({ true, false }, tide.isclose(make({ 1, 1 }, { 0, 1 }, dtype), 1))
      assert.is_true(b:equal(b:clone()) == false) -- NaN equals nothing
      is({ 0, 0.25, 0.5 }, { 0, 0, 0 }, tide.linspace(0, 0.5, 3, { dtype = dtype, device = D.dev }))
      is({ 1, 2, 4 }, { 0, 0, 0 }, tide.logspace(0, 2, 3, { base = 2, dtype = dtype, device = D.dev }))
    end
    D.eq({ 0, -1, 0, 1 }, D.tensor { nan, -2, 0, inf }:sgn())
    local strange = make({ nan, 1 }, { 1, 2 }, "complex64"):unsqueeze(2):expand(2, 3):t()
    D.eq({ { 0, 1 }, { 0, 1 }, { 0, 1 } }, strange:nan_to_num():real())
    D.raises("DtypeError", tide.arange, 1, 3, { dtype = "complex64", device = D.dev })
  end)

  it("in reductions: norms of their sizes, the variance of both parts", function()
    for _, dtype in ipairs { "complex64", "complex128" } do
      local z = make({ 1, -3 }, { 2, -4 }, dtype)
      local eps = dtype == "complex64" and 1e-6 or 1e-14
      for _, n in ipairs { { 2, 30 ^ 0.5 }, { 1, 5 ^ 0.5 + 5 }, { 0, 2 }, { inf, 5 }, { -inf, 5 ^ 0.5 }, { 3, (5 ^ 1.5 + 125) ^ (1 / 3) } } do
        local norm = z:norm(n[1])
        D.eq(n[2], norm, eps)
        assert.are.equal(dtype == "complex64" and "float32" or "float64", D.dtype_name(norm))
      end
      D.eq(26, z:var(), eps)
      D.eq(26 ^ 0.5, z:std(), eps)
      local var, mean = tide.var_mean(z)
      D.eq(26, var, eps)
      assert.are.same({ -1, -1 }, { mean:item() })
      local m = tide.stack({ z, z:conj(), z * 0 }, 1)
      D.eq({ 30 ^ 0.5, 30 ^ 0.5, 0 }, m:norm { dim = 2 }, eps)
      assert.are.same({ 3, 1 }, m:std(2, { keepdim = true }):size())
      assert.are.same({ 5, -10 }, { z:prod():item() })
    end
  end)

  it("in logarithms of sums, without overflow", function()
    for _, dtype in ipairs { "complex64", "complex128" } do
      local eps = dtype == "complex64" and 1e-3 or 1e-10
      -- Imaginary parts may be 2 pi apart, so that exponentials are compared.
      local function same_exp(want, x, what)
        local got = x:to("complex128"):exp()
        near(want:real():totable(), want:imag():totable(), got, eps, dtype .. " " .. what)
      end
      local a, b = make(re, im, dtype), make(im, re, dtype):flip(1)
      local far = 2000 -- whose exponential is infinite
      local sums = a:to("complex128"):exp() + b:to("complex128"):exp()
      same_exp(sums, (a + far):logaddexp(b + far) - far, "logaddexp")
      assert.are.equal(dtype, D.dtype_name(a:logaddexp(b)))
      for n = 0, 9 do -- lines of every length
        local z = a:narrow(1, 1, n)
        same_exp(z:to("complex128"):exp():cumsum(1), (z + far):logcumsumexp(1) - far, "logcumsumexp")
      end
      local m = make({ 1, 2, 3, -4, 5, 0.5 }, { 1, -1, 0.5, 2, 0.25, 3 }, dtype):reshape(2, 3)
      local e = m:to("complex128"):exp()
      for dim = 1, 2 do
        same_exp(e:sum(dim), (m + far):logsumexp(dim) - far, "logsumexp")
        assert.are.same(m:sum(dim, { keepdim = true }):size(), m:logsumexp(dim, { keepdim = true }):size())
        same_exp(e:cumsum(dim):reshape(-1), m:logcumsumexp(dim):reshape(-1), "logcumsumexp of a matrix")
        same_exp(e:cumsum(dim):t():reshape(-1), m:t():logcumsumexp(3 - dim):reshape(-1), "logcumsumexp of a transposed one")
      end
      same_exp(e:sum():reshape(1), m:logsumexp():reshape(1), "logsumexp of all")
      same_exp(e:sum():reshape(1), m:logsumexp({ 1, 2 }):reshape(1), "logsumexp of two dims")
      local out = tide.empty({ 3 }, { dtype = dtype, device = D.dev })
      tide.logsumexp(m, 1, { out = out })
      same_exp(e:sum(1), out, "logsumexp into a tensor")
      tide.logcumsumexp(m[1], 1, { out = out })
      same_exp(e[1]:cumsum(1), out, "logcumsumexp into a tensor")
    end
    local z = make({ -inf, -inf, inf, nan, 1 }, { 0, 1, 0, 0, 0 }, "complex128")
    D.eq({ -inf, 2, inf, nan, 1 + math.log(2) }, z:logaddexp(make({ -inf, 2, 1, 1, 1 }, { 0, 0, 0, 0, 0 }, "complex128")):real(), 1e-15)
    D.eq(inf, make({ inf, inf }, { 0, 0 }, "complex128"):logsumexp():real())
    local none = tide.zeros({ 0, 2 }, { dtype = "complex64", device = D.dev })
    D.eq({ -inf, -inf }, none:logsumexp(1):real())
    assert.are.same({ 0, 2 }, none:logcumsumexp(1):size())
    local single = make(3, 4, "complex64")
    assert.are.same({ 3, 4 }, { single:logcumsumexp(1):item() })
    near({ 3 }, { 4 - 2 * pi }, single:logsumexp(1):reshape(1), 1e-6, "of one")
  end)

  it("at random: normal with the variance in both parts together, uniform in each", function()
    for _, dtype in ipairs { "complex64", "complex128" } do
      tide.manual_seed(7)
      local r = tide.randn(100000, { dtype = dtype, device = D.dev })
      assert.are.equal(dtype, D.dtype_name(r))
      for _, part in ipairs { r:real(), r:imag() } do
        assert.is_true(math.abs(part:mean():item()) < 0.02 and math.abs(part:var():item() - 0.5) < 0.02)
      end
      assert.is_true(math.abs((r:real() * r:imag()):mean():item()) < 0.02)
      tide.manual_seed(7)
      assert.is_true(r:equal(tide.randn(100000, { dtype = dtype, device = D.dev })))
      local u = tide.rand_like(r)
      assert.is_true((u:real():ge(0):all() * u:imag():lt(1):all()):item())
      assert.is_true(math.abs(u:imag():mean():item() - 0.5) < 0.02)
      r:normal_(3, 2)
      assert.is_true(math.abs(r:real():mean():item() - 3) < 0.05 and math.abs(r:imag():var():item() - 2) < 0.08)
      D.raises("DtypeError", r.exponential_, r)
    end
  end)
end)
