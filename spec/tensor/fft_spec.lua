-- Fourier transforms: against the definition, in every layout, and the cache of their plans.

local tide = require "tide"
local D = require "spec.support.device"
local fft = tide.fft
local nan = 0 / 0

-- Complex numbers here are two lists, of real and of imaginary parts. The sum of the definition, sign -1 forward.
local function dft(re, im, sign)
  local n = #re
  local out_re, out_im, c, s = {}, {}, {}, {}
  for k = 0, n - 1 do
    c[k], s[k] = math.cos(2 * math.pi * k / n), sign * math.sin(2 * math.pi * k / n)
  end
  for k = 0, n - 1 do
    local a, b = 0.0, 0.0
    for j = 0, n - 1 do
      local e = j * k % n
      a = a + re[j + 1] * c[e] - im[j + 1] * s[e]
      b = b + re[j + 1] * s[e] + im[j + 1] * c[e]
    end
    out_re[k + 1], out_im[k + 1] = a, b
  end
  return out_re, out_im
end

local function numbers(n, seed)
  local out = {}
  for i = 1, n do out[i] = math.sin(i * i * 0.7 + seed) + (i * 7 % 5 == 1 and 0.5 or 0) end
  return out
end

local function complex(re, im, dtype)
  local z = tide.complex(tide.tensor(re, { dtype = "float64" }), tide.tensor(im, { dtype = "float64" }))
  return z:to(dtype or "complex128"):to(D.dev)
end
local function real(re, dtype) return tide.tensor(re, { dtype = dtype or "float64", device = D.dev }) end

-- The largest difference, relative to the largest value.
local function off(got, want)
  local function parts(x)
    if D.kind[D.dtype_name(x)] == "C" then return x:real():double(), x:imag():double() end
    return x:double(), x:double() * 0
  end
  assert.are.same(want:size(), got:size())
  local a, b = parts(got)
  local c, d = parts(want)
  local function most(x) return x:numel() == 0 and 0 or x:abs():max():item() end
  local worst = math.max(most(a - c), most(b - d))
  if worst ~= worst then return math.huge end
  return worst / math.max(most(c), most(d), 1e-30)
end

local function near(got, want, tolerance)
  local o = off(got, want)
  if not (o <= (tolerance or 1e-13)) then error(("off by %g"):format(o), 2) end
end

local lengths = { 97, 127, 100, 105, 128, 210, 243, 256, 315, 500, 509, 1009, 1024 }
for n = 1, 64 do table.insert(lengths, n, n) end

describe("tide.fft", function()
  D.watch(before_each, after_each)

  it("fft and ifft are the sums of the definition, for every length", function()
    for _, n in ipairs(lengths) do
      local re, im = numbers(n, 1), numbers(n, 2)
      local want, back = complex(dft(re, im, -1)), complex(dft(re, im, 1)) / n
      near(fft.fft(complex(re, im)), want, 4e-14)
      near(fft.ifft(complex(re, im)), back, 4e-14)
      near(fft.fft(complex(re, im, "complex64")), want, 2e-6)
      assert.are.equal("complex64", D.dtype_name(fft.fft(complex(re, im, "complex64"))))
    end
  end)

  it("rfft, irfft, hfft, ihfft are parts of it, for every length", function()
    for _, n in ipairs(lengths) do
      local re, zero = numbers(n, 3), {}
      for i = 1, n do zero[i] = 0.0 end
      local want, half = complex(dft(re, zero, -1)), n // 2 + 1
      for _, dtype in ipairs { "float64", "float32" } do
        local tolerance = dtype == "float64" and 4e-14 or 3e-6
        local x = real(re, dtype)
        local h = fft.rfft(x)
        assert.are.equal(dtype == "float64" and "complex128" or "complex64", D.dtype_name(h))
        near(h, want:narrow(1, 1, half), tolerance)
        near(fft.irfft(h, { n = n }), x, tolerance)
        near(fft.ihfft(x), want:narrow(1, 1, half):conj() / n, tolerance)
        near(fft.hfft(fft.ihfft(x), { n = n }), x, tolerance)
        near(fft.fft(x), want, tolerance)
      end
    end
  end)

  it("a long line is right: a few frequencies of it, and the way back", function()
    for _, n in ipairs(D.tsan and { 6000, 8192, 10007 } or { 4096, 6000, 8192, 10007, 65536, 100003 }) do
      local x = tide.randn(n, { dtype = "float64", device = D.dev })
      local z = tide.complex(x, x:roll(5))
      local f, t = fft.fft(z), tide.arange(n, { dtype = "float64", device = D.dev })
      for _, k in ipairs { 0, 1, n // 3, n - 1 } do
        local angle = (t * k):remainder(n) * (-2 * math.pi / n)
        local c, s = angle:cos(), angle:sin()
        local re = (z:real() * c - z:imag() * s):sum():item()
        local im = (z:real() * s + z:imag() * c):sum():item()
        assert(math.abs(f:real()[k + 1]:item() - re) < 1e-9 * math.sqrt(n), ("real part %d of %d"):format(k, n))
        assert(math.abs(f:imag()[k + 1]:item() - im) < 1e-9 * math.sqrt(n), ("imaginary part %d of %d"):format(k, n))
      end
      near(fft.ifft(f), z, 1e-13)
      near(fft.rfft(x), fft.fft(x):narrow(1, 1, n // 2 + 1), 1e-13)
      near(fft.irfft(fft.rfft(x), { n = n }), x, 1e-13)
      near(fft.irfft(fft.rfft(x:float()), { n = n }), x, 3e-6)
    end
  end)

  it("norm divides once, however many dims there are", function()
    for dims = 1, 9 do
      local size, count = {}, 2 ^ dims
      for d = 1, dims do size[d] = 2 end
      local x = tide.rand(count, { dtype = "float64", device = D.dev })
      local z = fft.fft(x):reshape(table.unpack(size))
      local function line(y) return y:reshape(y:numel()) end
      for norm, factor in pairs { backward = 1, forward = 1 / count, ortho = 1 / math.sqrt(count) } do
        near(line(fft.fftn(z, { norm = norm })), line(fft.fftn(z)) * factor, 1e-12)
        near(line(fft.ifftn(fft.fftn(z, { norm = norm }), { norm = norm })), line(z), 1e-12)
        local y = x:reshape(table.unpack(size))
        near(line(fft.irfftn(fft.rfftn(y, { norm = norm }), { norm = norm })), x, 1e-12)
      end
    end
  end)

  it("norm divides one way, the other, or both by the root", function()
    local re, im = numbers(12, 1), numbers(12, 5)
    local z, x = complex(re, im), real(re)
    local plain = fft.fft(z)
    near(fft.fft(z, { norm = "backward" }), plain)
    near(fft.fft(z, { norm = "forward" }), plain / 12)
    near(fft.fft(z, { norm = "ortho" }), plain / math.sqrt(12))
    near(fft.ifft(z, { norm = "forward" }), fft.ifft(z) * 12)
    near(fft.ifft(z, { norm = "ortho" }), fft.ifft(z) * math.sqrt(12))
    for _, norm in ipairs { "backward", "ortho", "forward" } do
      near(fft.ifft(fft.fft(z, { norm = norm }), { norm = norm }), z)
      near(fft.irfft(fft.rfft(x, { norm = norm }), { norm = norm }), x)
      near(fft.hfft(fft.ihfft(x, { norm = norm }), { norm = norm }), x)
      near(fft.ifft2(fft.fft2(z:view(3, 4), { norm = norm }), { norm = norm }), z:view(3, 4))
      near(fft.irfftn(fft.rfftn(x:view(3, 4), { norm = norm }), { norm = norm }), x:view(3, 4))
    end
    near(fft.hfft(z, { norm = "forward" }), fft.hfft(z) / 22)
    near(fft.rfft2(x:view(3, 4), { norm = "ortho" }), fft.rfft2(x:view(3, 4)) / math.sqrt(12))
  end)

  it("keeps the energy (Parseval)", function()
    for _, n in ipairs { 30, 97, 1024 } do
      local x = tide.randn(n, { dtype = "float64", device = D.dev })
      local f = fft.fft(x)
      local energy = (f:real() ^ 2 + f:imag() ^ 2):sum():item() / n
      assert(math.abs(energy - (x ^ 2):sum():item()) < 1e-9 * energy)
    end
  end)

  it("n crops and pads with zeros, at the end", function()
    local re, im = numbers(10, 4), numbers(10, 6)
    local z, x = complex(re, im), real(re)
    near(fft.fft(z, { n = 7 }), fft.fft(z:narrow(1, 1, 7)))
    local padded = tide.cat { z, z:narrow(1, 1, 4) * 0 }
    near(fft.fft(z, { n = 14 }), fft.fft(padded))
    near(fft.rfft(x, { n = 7 }), fft.rfft(x:narrow(1, 1, 7)))
    near(fft.rfft(x, { n = 14 }), fft.rfft(tide.cat { x, x:narrow(1, 1, 4) * 0 }))
    near(fft.irfft(z, { n = 9 }), fft.irfft(z:narrow(1, 1, 5), { n = 9 }))
    near(fft.irfft(z, { n = 30 }), fft.irfft(tide.cat { z, z:narrow(1, 1, 6) * 0 }, { n = 30 }))
    assert.are.same({ 18 }, fft.irfft(z):size())
    assert.are.same({ 3, 6 }, fft.fft2(tide.ones(5, 4, { device = D.dev }), { s = { 3, 6 } }):size())
    assert.are.same({ 5, 4, 6 }, fft.rfftn(tide.ones(5, 4, 2, { device = D.dev }), { s = { -1, 10 } }):size())
  end)

  it("any dim, any layout", function()
    local x = tide.randn(5, 6, 7, { dtype = "float64", device = D.dev })
    local z = tide.complex(x, x:roll(11))
    for dim = 1, 3 do
      local want = fft.fft(z:transpose(dim, 3):contiguous()):transpose(dim, 3)
      local halved = fft.rfft(x:transpose(dim, 3):contiguous()):transpose(dim, 3)
      for _, case in ipairs(D.layouts(z)) do
        near(fft.fft(case[2], { dim = dim }), want)
        near(fft.ifft(fft.fft(case[2], { dim = dim - 4 }), { dim = dim }), z)
        near(case[2], z, 0)
      end
      for _, case in ipairs(D.layouts(x)) do
        near(fft.rfft(case[2], { dim = dim }), halved)
        near(fft.fft(case[2], { dim = dim }), fft.fft(tide.complex(x, x * 0), { dim = dim }))
        near(case[2], x, 0)
      end
      for _, case in ipairs(D.layouts(halved:contiguous())) do
        near(fft.irfft(case[2], { dim = dim, n = x:size(dim) }), x)
        near(case[2], halved, 0)
      end
    end
    near(fft.fft(z:flip(3)), fft.fft(z:flip(3):contiguous()))
    near(fft.fft(z[1]:unsqueeze(1):expand(4, 6, 7)), fft.fft(z[1]):unsqueeze(1):expand(4, 6, 7))
    near(fft.fft(z:narrow(3, 1, 1):expand(5, 6, 8)), fft.fft(z:narrow(3, 1, 1):expand(5, 6, 8):contiguous()))
    local frames = x:view(210):as_strided({ 38, 16 }, { 5, 1 }, 1)
    near(fft.rfft(frames), fft.rfft(frames:contiguous()))
  end)

  it("several dims are one after the other", function()
    local x = tide.randn(3, 4, 5, 6, { dtype = "float64", device = D.dev })
    local z = tide.complex(x, x:roll(7))
    local function each(t, f, dims)
      for _, d in ipairs(dims) do t = f(t, { dim = d }) end
      return t
    end
    near(fft.fft2(z), each(z, fft.fft, { 3, 4 }))
    near(fft.ifft2(z, { dim = { 1, 3 } }), each(z, fft.ifft, { 1, 3 }))
    near(fft.fft2(z, { dim = { 3, 1 } }), each(z, fft.fft, { 1, 3 }))
    near(fft.fftn(z), each(z, fft.fft, { 1, 2, 3, 4 }))
    near(fft.ifftn(z, { dim = { 1, 2, 4 } }), each(z, fft.ifft, { 1, 2, 4 }))
    near(fft.fftn(z:permute(4, 2, 1, 3)), fft.fftn(z):permute(4, 2, 1, 3))
    for _, dims in ipairs { { 3, 4 }, { 4, 1 }, { 2, 1, 3 }, { 1, 2, 3, 4 }, { 4, 3, 2, 1 } } do
      local last = dims[#dims]
      local want = each(fft.rfft(x, { dim = last }), fft.fft, { table.unpack(dims, 1, #dims - 1) })
      local got, s = fft.rfftn(x, { dim = dims }), {}
      near(got, want)
      for i, d in ipairs(dims) do s[i] = x:size(d) end
      local kept = got:clone()
      near(fft.irfftn(got, { dim = dims, s = s }), x)
      near(got, kept, 0)
      near(fft.hfftn(got:conj(), { dim = dims, s = s, norm = "forward" }), x)
      near(fft.ihfftn(x, { dim = dims, norm = "forward" }), want:conj())
    end
    near(fft.irfft2(fft.rfft2(x)), x)
    near(fft.hfft2(fft.ihfft2(x)), x)
    local sizes = { 2, 1, 3, 2, 1, 2, 4 } -- more dims than one call takes, and dims of one point
    for n = 1, #sizes do
      local some = tide.randn({ table.unpack(sizes, 1, n) }, { dtype = "float64", device = D.dev })
      local pair, dims, last = tide.complex(some, some:roll(1)), {}, n
      for d = 1, n do dims[d] = d end
      near(fft.fftn(pair), each(pair, fft.fft, dims))
      near(fft.ifftn(pair), each(pair, fft.ifft, dims))
      local back = pair:permute(n, table.unpack(dims, 1, n - 1))
      near(fft.fftn(back), each(back, fft.fft, dims))
      near(fft.rfftn(some), each(fft.rfft(some, { dim = last }), fft.fft, { table.unpack(dims, 1, n - 1) }))
      near(fft.irfftn(fft.rfftn(some), { s = { table.unpack(sizes, 1, n) } }), some)
      for d = 1, n do
        for _, length in ipairs { 1, sizes[d] + 1 } do
          local cut = length == 1 and pair:narrow(d, 1, 1) or tide.cat({ pair, pair:narrow(d, 1, 1) * 0 }, d)
          near(fft.fft(pair, { n = length, dim = d }), fft.fft(cut:contiguous(), { dim = d }))
        end
      end
    end
    near(fft.fftn(z, { s = { 8, 3 } }), fft.fft(fft.fft(z, { n = 8, dim = 3 }), { n = 3, dim = 4 }))
    near(fft.fftn(z, { dim = {} }), z)
    local w = tide.complex(x, x * 0)
    for _, dims in ipairs { { 4 }, { 1 }, { 4, 2 }, { 1, 3, 2 }, { 1, 2, 3, 4 } } do
      for _, case in ipairs(D.layouts(x)) do near(fft.fftn(case[2], { dim = dims }), fft.fftn(w, { dim = dims })) end
    end
    near(fft.fftn(x, { s = { 7, 4 } }), fft.fftn(w, { s = { 7, 4 } }))
    near(fft.fftn(x, { s = { 5, 9 } }), fft.fftn(w, { s = { 5, 9 } }))
  end)

  it("irfft ignores what a real signal cannot have", function()
    local h = complex({ 1, 2, 3 }, { 5, 1, 7 })
    local clean = complex({ 1, 2, 3 }, { 0, 1, 0 })
    near(fft.irfft(clean), real { 2, -1, 0, 0 })
    if not D.cuda or D.simulated then near(fft.irfft(h), fft.irfft(clean)) end
  end)

  it("lines do not disturb each other", function()
    for _, n in ipairs { 8, 15, 97 } do
      local x = tide.randn(9, n, { dtype = "float64", device = D.dev })
      local z = x:clone()
      z[4]:fill_(nan)
      z[7]:mul_(1e200)
      local f, g = fft.rfft(z), fft.rfft(x)
      for _, row in ipairs { 1, 2, 3, 5, 6, 8, 9 } do near(f[row], g[row], 1e-14) end
      assert.is_true(f[4]:real()[1]:item() ~= f[4]:real()[1]:item())
    end
  end)

  it("integers become the default float, 16-bit floats are an error", function()
    local i = tide.arange(6, { device = D.dev })
    assert.are.equal("complex64", D.dtype_name(fft.fft(i)))
    near(fft.rfft(i), fft.rfft(i:float()), 0)
    near(fft.irfft(i), fft.irfft(i:float()), 0)
    assert.are.equal("float64", D.dtype_name(fft.irfft(i:double())))
    near(fft.fft(tide.tensor({ true, false }, { device = D.dev })), complex({ 1, 1 }, { 0, 0 }, "complex64"), 0)
    for _, dtype in ipairs { "float16", "bfloat16" } do
      D.raises("DtypeError", fft.fft, i:to(dtype))
      D.raises("DtypeError", fft.rfft, i:to(dtype))
    end
    D.raises("DtypeError", fft.rfft, fft.fft(i))
    D.raises("DtypeError", fft.ihfft, fft.fft(i))
  end)

  it("writes into out=", function()
    local x = tide.randn(4, 6, { dtype = "float64", device = D.dev })
    local want = fft.rfft(x)
    for _, case in ipairs(D.layouts(want * 0)) do
      assert.is_true(fft.rfft(x, { out = case[2] }) == case[2])
      near(case[2], want)
      case[3]()
    end
    local z = fft.fft(x)
    local all = fft.fft(z)
    fft.fft(z, { out = z })
    near(z, all)
    fft.ifft2(z, { out = z })
    near(z, fft.ifft(fft.fft(x), { dim = 1 }))
    local wide = tide.zeros(4, 9, { dtype = "complex128", device = D.dev })
    fft.fft(x, { out = wide:narrow(2, 3, 6) })
    near(wide:narrow(2, 3, 6), fft.fft(tide.complex(x, x * 0)))
    near(wide:narrow(2, 9, 1), wide:narrow(2, 9, 1) * 0, 0)
    D.raises("ShapeError", fft.rfft, x, { out = tide.zeros(4, 3, { dtype = "complex128", device = D.dev }) })
    D.raises("DtypeError", fft.rfft, x, { out = tide.zeros(4, 4, { dtype = "float64", device = D.dev }) })
    D.raises("DtypeError", fft.fft, x, { out = tide.zeros(4, 6, { dtype = "float32", device = D.dev }) })
  end)

  it("no batch gives nothing, no points are an error", function()
    local empty = tide.ones(0, 8, { device = D.dev })
    assert.are.same({ 0, 5 }, fft.rfft(empty):size())
    assert.are.same({ 0, 8 }, fft.fft(empty):size())
    D.raises("ValueError", fft.fft, empty, { dim = 1 })
    assert.are.same({ 4, 8 }, fft.fft(empty, { dim = 1, n = 4 }):size())
    D.raises("ValueError", fft.fft, tide.ones(3, { device = D.dev }), { n = 0 })
    D.raises("ValueError", fft.fft, tide.ones(3, { device = D.dev }), { n = -2 })
    D.raises("ValueError", fft.irfft, tide.ones(1, { device = D.dev }))
    near(fft.irfft(tide.ones(1, { device = D.dev }), { n = 1 }), real({ 1 }, "float32"), 0)
  end)

  it("bad calls say what is wrong", function()
    local x = tide.ones(3, 4, { device = D.dev })
    D.raises("IndexError", fft.fft, x, { dim = 0 })
    D.raises("IndexError", fft.fft, x, { dim = 3 })
    D.raises("IndexError", fft.fft, x, { dim = -3 })
    D.raises("IndexError", fft.fft2, x[1])
    D.raises("IndexError", fft.fft, x[1][1])
    D.raises("ValueError", fft.fft2, x, { dim = { 1, 1 } })
    D.raises("ValueError", fft.fft2, x, { dim = { 1, -2 } })
    D.raises("ValueError", fft.fftn, x, { s = { 1, 2 }, dim = { 1 } })
    D.raises("IndexError", fft.fftn, x, { s = { 1, 2, 3 } })
    D.raises("ValueError", fft.rfftn, x, { dim = {} })
    D.raises("ArgumentError", fft.fft, x, { norm = "both" })
    D.raises("ArgumentError", fft.fft, x, { norm = 1 })
    D.raises("ArgumentError", fft.fft, x, { s = { 2 } })
    D.raises("ArgumentError", fft.fft, x, { n = 2.5 })
    D.raises("ArgumentError", fft.fft, 3)
    D.raises("ArgumentError", fft.fft)
    D.raises("ValueError", fft.fftfreq, 0)
    D.raises("DtypeError", fft.fftfreq, 4, { dtype = "int32" })
    assert(D.raises("DtypeError", fft.fftfreq, 4, { dtype = "complex64" }).message:find "fftfreq.*expected a floating one")
    D.raises("IndexError", fft.fftshift, x, 3)
    assert(D.raises("DtypeError", fft.irfft2, x:half()).message:find "irfft2")
  end)

  it("fftfreq and rfftfreq", function()
    local o = { device = D.dev, dtype = "float64" }
    D.eq({ 0, 1 / 5, 2 / 5, -2 / 5, -1 / 5 }, fft.fftfreq(5, o), 1e-15)
    D.eq({ 0, 0.5, -1, -0.5 }, fft.fftfreq(4, 0.5, o), 1e-15)
    D.eq({ 0 }, fft.fftfreq(1, o))
    D.eq({ 0, 1 / 5, 2 / 5 }, fft.rfftfreq(5, o), 1e-15)
    D.eq({ 0, 0.125, 0.25 }, fft.rfftfreq(4, 2, o), 1e-15)
    assert.are.equal("float32", D.dtype_name(fft.fftfreq(3)))
    assert.are.equal(D.dev, tostring(fft.rfftfreq(3, o).device))
  end)

  it("fftshift and ifftshift", function()
    D.eq({ 4, 5, 1, 2, 3 }, fft.fftshift(real { 1, 2, 3, 4, 5 }))
    D.eq({ 3, 4, 5, 1, 2 }, fft.ifftshift(real { 1, 2, 3, 4, 5 }))
    local x = tide.arange(12, { device = D.dev }):view(3, 4)
    D.eq({ { 10, 11, 8, 9 }, { 2, 3, 0, 1 }, { 6, 7, 4, 5 } }, fft.fftshift(x))
    D.eq({ { 8, 9, 10, 11 }, { 0, 1, 2, 3 }, { 4, 5, 6, 7 } }, fft.fftshift(x, 1))
    D.eq({ { 2, 3, 0, 1 }, { 6, 7, 4, 5 }, { 10, 11, 8, 9 } }, fft.fftshift(x, { -1 }))
    D.eq(x, fft.ifftshift(fft.fftshift(x)))
    D.eq(x, fft.ifftshift(fft.fftshift(x, { 1 }), { dim = 1 }))
  end)
end)

describe("cufft_plan_cache", function()
  if not D.cuda then return end
  local cache = tide.backends.cuda.cufft_plan_cache
  D.watch(before_each, after_each, function()
    for d = 0, D.devices - 1 do
      cache[d]:clear()
      cache[d].max_size = 4096
    end
  end)
  local function use(n, device) return fft.fft(tide.ones(n, { dtype = "complex64", device = device or D.dev })) end

  it("keeps one plan for each geometry (FFT-01, FFT-03, FFT-06)", function()
    cache:clear()
    assert.are.equal(0, cache.size)
    use(8)
    use(8)
    assert.are.equal(1, cache.size)
    fft.ifft(tide.ones(8, { dtype = "complex64", device = D.dev }))
    assert.are.equal(1, cache.size)
    use(9)
    fft.rfft(tide.ones(8, { device = D.dev }))
    fft.fft(tide.ones(2, 8, { dtype = "complex64", device = D.dev }))
    fft.fft(tide.ones(8, { dtype = "complex128", device = D.dev }))
    assert.are.equal(5, cache.size)
    local e = D.raises("ArgumentError", function() cache.size = 3 end)
    assert(e.message:find "read%-only")
  end)

  it("max_size is 4096, evicts what was used longest ago, and 0 keeps nothing (FFT-02)", function()
    assert.are.equal(4096, cache.max_size)
    cache:clear()
    for n = 1, 6 do use(n) end
    cache.max_size = 3
    assert.are.equal(3, cache.max_size)
    assert.are.equal(3, cache.size)
    use(4) -- now 5 is the oldest
    use(7)
    assert.are.equal(3, cache.size)
    cache.max_size = 0
    assert.are.equal(0, cache.size)
    near(use(4), complex({ 4, 0, 0, 0 }, { 0, 0, 0, 0 }, "complex64"), 0)
    assert.are.equal(0, cache.size)
    D.raises("ValueError", function() cache.max_size = -1 end)
    D.raises("ArgumentError", function() cache.max_size = "many" end)
    D.raises("ArgumentError", function() cache.most = 1 end)
    D.raises("ArgumentError", function() return cache.most end)
  end)

  it("clear empties it (FFT-04)", function()
    use(5)
    assert(cache.size > 0)
    assert.are.equal(0, select("#", cache:clear()))
    D.raises("ArgumentError", cache.clear)
    D.raises("ArgumentError", cache.clear, 5)
    assert.are.equal(0, cache.size)
    near(use(2), complex({ 2, 0 }, { 0, 0 }, "complex64"), 0)
  end)

  it("is indexed by device (FFT-05)", function()
    local last = D.devices - 1
    cache[0].max_size = 7
    assert.are.equal(7, cache["cuda:0"].max_size)
    assert.are.equal(7, cache[tide.device("cuda", 0)].max_size)
    assert.are.equal(7, cache.cuda.max_size)
    D.raises("DeviceError", function() return cache[D.devices] end)
    D.raises("DeviceError", function() return cache.cpu end)
    D.raises("ValueError", function() return cache[-1] end)
    if last == 0 then return pending "the rest needs two devices" end
    cache[0]:clear()
    use(11, "cuda:" .. last)
    assert.are.equal(0, cache.size)
    assert.are.equal(1, cache[last].size)
    tide.cuda.device(last, function() assert.are.equal(1, cache.size) end)
  end)

  it("sets another device's capacity (EX-10)", function()
    if D.devices < 2 then return pending "needs two devices" end
    tide.backends.cuda.cufft_plan_cache[1].max_size = 10
    assert.are.equal(10, tide.backends.cuda.cufft_plan_cache[1].max_size)
    assert.are.equal(4096, tide.backends.cuda.cufft_plan_cache[0].max_size)
    for n = 1, 12 do use(n, "cuda:1") end
    assert.are.equal(10, tide.backends.cuda.cufft_plan_cache[1].size)
  end)

  it("plans serve several streams", function()
    local z = tide.complex(tide.randn(64, 96), tide.randn(64, 96)):to(D.dev)
    local want, got = fft.fft(z), {}
    tide.cuda.synchronize()
    for i = 1, 4 do
      tide.cuda.stream(tide.cuda.Stream(), function() got[i] = fft.ifft(fft.fft(z)) end)
    end
    tide.cuda.synchronize()
    for i = 1, 4 do near(got[i], z, 1e-5) end
    near(fft.fft(z), want, 0)
  end)

  it("a graph replays a transform whose plan has left the cache, during the capture or after it", function()
    cache:clear()
    use(5) -- a plan that no graph needs goes with the others
    local x, y = tide.ones(6, 16, { device = D.dev })
    local g = tide.cuda.CUDAGraph()
    tide.cuda.graph(g, nil, function()
      local half = fft.rfft(x)
      cache:clear()
      assert.are.equal(0, cache.size)
      y = fft.irfft(half, { norm = "forward" })
    end)
    cache:clear()
    for i = 1, 3 do
      x:fill_(i)
      g:replay()
      near(y, tide.ones(6, 16, { device = D.dev }) * 16 * i, 1e-6)
    end
    g:reset()
    y, g = nil, nil
    for _ = 1, 2 do
      collectgarbage()
      tide.cuda.synchronize()
    end
  end)
end)
