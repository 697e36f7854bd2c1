-- Random numbers: the published vectors of Philox4x32-10, and the same numbers on every device and in every layout.

local tide = require "tide"
local D = require "spec.support.device"

-- kat_vectors of Random123 (Salmon et al. 2011): counter, key, result.
local vectors = {
  { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
  { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff }, { 0xffffffff, 0xffffffff },
    { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
  { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 }, { 0xa4093822, 0x299f31d0 },
    { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
}

-- The ten rounds, in plain Lua.
local function philox(c, k)
  local c0, c1, c2, c3, k0, k1 = c[1], c[2], c[3], c[4], k[1], k[2]
  for _ = 1, 10 do
    local p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
    c0, c1, c2, c3 = (p1 >> 32) ~ c1 ~ k0, p1 & 0xffffffff, (p0 >> 32) ~ c3 ~ k1, p0 & 0xffffffff
    k0, k1 = (k0 + 0x9E3779B9) & 0xffffffff, (k1 + 0xBB67AE85) & 0xffffffff
  end
  return { c0, c1, c2, c3 }
end

-- Element i (from 0) of a call: draw i % 4 of the group i / 4.
local function draws(seed, offset, n)
  local out = {}
  for i = 0, n - 1 do
    local o = offset // 4
    local group = philox({ o & 0xffffffff, o >> 32, (i // 4) & 0xffffffff, 0 }, { seed & 0xffffffff, seed >> 32 })
    out[i + 1] = group[i % 4 + 1]
  end
  return out
end

local function generator(seed)
  local g = tide.Generator(D.dev)
  g:manual_seed(seed)
  return g
end

describe("Philox4x32-10", function()
  it("gives the published vectors", function()
    for _, v in ipairs(vectors) do assert.are.same(v[3], philox(v[1], v[2])) end
  end)

  it("is what a tensor's random integers are", function()
    local all = 0xffffffff -- a 32-bit draw modulo 2^32 - 1
    local x = tide.empty(4, { dtype = "int64", device = D.dev }):random_(0, all, { generator = generator(0) })
    D.eq(vectors[1][3], x)
    for _, seed in ipairs { 1, 42, 0x299f31d0a4093822 } do
      for _, offset in ipairs { 0, 4, 1 << 36 } do
        local g = generator(seed)
        g:set_offset(offset)
        local y = tide.empty(3, 5, { dtype = "int64", device = D.dev }):random_(0, all, { generator = g })
        local want = draws(seed, offset, 15)
        for i = 1, 15 do want[i] = want[i] % all end
        D.eq(want, y:flatten())
        assert.are.equal(offset + 4, g:get_offset())
      end
    end
  end)

  it("gives uniforms from the upper bits", function()
    local x = tide.empty(9, { device = D.dev }):uniform_(0, 1, { generator = generator(7) })
    local want = draws(7, 0, 9)
    for i = 1, 9 do want[i] = (want[i] >> 8) / 16777216 end
    D.eq(want, x)
  end)

  it("gives normals by Box and Muller", function()
    local x = tide.empty(8, { device = D.dev }):normal_(0, 1, { generator = generator(11) })
    local d, want = draws(11, 0, 8), {}
    for i = 1, 7, 2 do
      local r = math.sqrt(-2 * math.log(((d[i] >> 8) + 1) / 16777216))
      local t = 2 * math.pi * ((d[i + 1] >> 8) / 16777216)
      want[i], want[i + 1] = r * math.cos(t), r * math.sin(t)
    end
    D.eq(want, x, 1e-5)
  end)
end)

describe("random", function()
  D.watch(before_each, after_each)

  local fills = {
    uniform = function(x, g) return x:uniform_(-2, 3, { generator = g }) end,
    normal = function(x, g) return x:normal_(1, 2, { generator = g }) end,
    integers = function(x, g) return x:random_(-5, 100, { generator = g }) end,
    bernoulli = function(x, g) return x:bernoulli_(0.3, { generator = g }) end,
    exponential = function(x, g) return x:exponential_(1.5, { generator = g }) end,
    cauchy = function(x, g) return x:cauchy_(1, 2, { generator = g }) end,
    log_normal = function(x, g) return x:log_normal_(0.5, 0.25, { generator = g }) end,
    geometric = function(x, g) return x:geometric_(0.25, { generator = g }) end,
  }

  for name, fill in pairs(fills) do
    it(name .. " is the same on every device and in every layout", function()
      for _, dtype in ipairs { "float16", "bfloat16", "float32", "float64" } do
        local g = tide.Generator "cpu"
        g:manual_seed(123)
        local want = fill(tide.empty(3, 5, { dtype = dtype }), g):totable()
        for _, layout in ipairs(D.layouts(tide.zeros(3, 5, { dtype = dtype, device = D.dev }))) do
          assert.is_true(fill(layout[2], generator(123)) == layout[2])
          D.eq(want, layout[2], name == "integers" and 0 or D.eps[dtype] * 4, name .. " " .. dtype .. " " .. layout[1])
          layout[3]()
        end
      end
    end)
  end

  it("does not depend on the size of the call", function()
    local long = tide.empty(1000003, { device = D.dev }):uniform_(0, 1, { generator = generator(5) })
    local short = tide.empty(1001, { device = D.dev }):uniform_(0, 1, { generator = generator(5) })
    assert.is_true(tide.equal(long:narrow(1, 1, 1001), short))
  end)

  it("has the right moments", function()
    local n = 200000
    local x = tide.empty(n, { device = D.dev }):uniform_(0, 1, { generator = generator(1) })
    D.eq(0.5, x:mean():item(), 5e-3)
    D.eq(1 / 12, x:var():item(), 5e-3)
    assert.is_true(x:min():item() >= 0 and x:max():item() < 1)
    x:normal_(3, 2, { generator = generator(2) })
    D.eq(3, x:mean():item(), 1e-2)
    D.eq(4, x:var():item(), 2e-2)
    x:exponential_(2, { generator = generator(3) })
    D.eq(0.5, x:mean():item(), 1e-2)
    assert.is_true(x:min():item() >= 0)
    x:bernoulli_(0.25, { generator = generator(4) })
    D.eq(0.25, x:mean():item(), 5e-3)
    x:geometric_(0.5, { generator = generator(5) })
    D.eq(2, x:mean():item(), 2e-2)
    assert.are.equal(1, x:min():item())
    local i = tide.randint(3, 8, { n }, { device = D.dev, generator = generator(6) })
    assert.are.equal(3, i:min():item())
    assert.are.equal(7, i:max():item())
    D.eq(5, i:double():mean():item(), 1e-2)
  end)

  it("keeps 16-bit uniforms below the upper end", function()
    for _, dtype in ipairs { "float16", "bfloat16" } do
      local x = tide.empty(20000, { dtype = dtype, device = D.dev }):uniform_(0, 1, { generator = generator(9) })
      assert.is_true(x:float():max():item() < 1)
      assert.is_true(x:float():min():item() >= 0)
    end
  end)

  it("factories take a generator", function()
    local a = tide.rand(2, 3, { device = D.dev, generator = generator(3) })
    local b = tide.rand({ 2, 3 }, { device = D.dev, generator = generator(3) })
    assert.is_true(tide.equal(a, b))
    assert.are.same({ 2, 3 }, tide.randn(2, 3, { device = D.dev }):size())
    assert.are.equal(D.dev, tostring(tide.rand_like(a).device))
    assert.are.same({ 2, 3 }, tide.randn_like(a):size())
    assert.are.equal("int64", D.dtype_name(tide.randint(0, 5, { 4 }, { device = D.dev })))
    local p = tide.bernoulli(D.tensor { 0., 1., 1., 0. })
    D.eq({ 0, 1, 1, 0 }, p)
  end)

  it("randperm is a permutation of 1..n", function()
    for _, n in ipairs { 0, 1, 2, 1000 } do
      local p = tide.randperm(n, { device = D.dev, generator = generator(8) })
      assert.are.equal("int64", D.dtype_name(p))
      local seen = {}
      for _, v in ipairs(p:totable()) do seen[v] = true end
      assert.are.equal(n, #seen)
    end
    local g = tide.Generator "cpu"
    g:manual_seed(8)
    local want = tide.randperm(1000, { generator = g }):totable()
    D.eq(want, tide.randperm(1000, { device = D.dev, generator = generator(8) }))
    local in_place = 0
    for i, v in ipairs(want) do if i == v then in_place = in_place + 1 end end
    assert.is_true(in_place < 20)
  end)

  it("goes on from call to call and starts again from a seed", function()
    local g = generator(77)
    local a = tide.rand(4, { device = D.dev, generator = g })
    local b = tide.rand(4, { device = D.dev, generator = g })
    assert.is_false(tide.equal(a, b))
    g:manual_seed(77)
    assert.is_true(tide.equal(a, tide.rand(4, { device = D.dev, generator = g })))
    assert.are.equal(77, g:initial_seed())
    local state = g:get_state()
    assert.are.equal(16, state:numel())
    assert.are.equal("uint8", D.dtype_name(state))
    local c = tide.rand(4, { device = D.dev, generator = g })
    g:set_state(state)
    assert.is_true(tide.equal(c, tide.rand(4, { device = D.dev, generator = g })))
    D.raises("ValueError", g.set_offset, g, 3)
    D.raises("ArgumentError", g.set_state, g, tide.zeros(3, { dtype = "uint8" }))
  end)

  it("manual_seed seeds every default generator", function()
    tide.manual_seed(99)
    local a = tide.randn(5, { device = D.dev })
    tide.manual_seed(99)
    assert.is_true(tide.equal(a, tide.randn(5, { device = D.dev })))
    assert.are.equal(99, tide.initial_seed())
    local state = tide.get_rng_state()
    local x = tide.rand(3)
    tide.set_rng_state(state)
    assert.is_true(tide.equal(x, tide.rand(3)))
    assert.is_truthy(math.type(tide.seed()) == "integer")
  end)

  if D.cuda then
    it("has state functions for each GPU", function()
      tide.cuda.manual_seed(5)
      assert.are.equal(5, tide.cuda.initial_seed())
      local state = tide.cuda.get_rng_state()
      local a = tide.rand(3, { device = "cuda" })
      tide.cuda.set_rng_state(state)
      assert.is_true(tide.equal(a, tide.rand(3, { device = "cuda" })))
      assert.are.equal(D.devices, #tide.cuda.get_rng_state_all())
      tide.cuda.set_rng_state_all(tide.cuda.get_rng_state_all())
      tide.cuda.manual_seed_all(6)
      if D.devices > 1 then
        local b = tide.rand(3, { device = "cuda:0" })
        assert.is_true(tide.equal(b, tide.rand(3, { device = "cuda:1" }):cuda(0)))
      end
      assert.is_truthy(math.type(tide.cuda.seed_all()) == "integer")
      D.raises("DeviceError", function() tide.rand(3, { device = "cuda", generator = tide.Generator "cpu" }) end)
    end)
  end

  it("refuses bad arguments", function()
    local x = tide.zeros(3, { device = D.dev })
    D.raises("ValueError", x.uniform_, x, 2, 1)
    D.raises("ValueError", x.normal_, x, 0, -1)
    D.raises("ValueError", x.bernoulli_, x, 1.5)
    D.raises("ValueError", x.exponential_, x, 0)
    D.raises("ValueError", x.geometric_, x, 0)
    for _, no_p in ipairs { {}, { generator = tide.Generator(D.dev) } } do
      assert.matches("geometric_: p: got", D.raises("ArgumentError", x.geometric_, x, no_p).message, 1, true)
    end
    D.raises("ValueError", tide.randint, 5, 5, { 2 })
    D.raises("ValueError", tide.randperm, -1)
    D.raises("DtypeError", function() tide.zeros(3, { dtype = "int32", device = D.dev }):normal_() end)
    D.raises("ArgumentError", x.uniform_, x, "a")
    D.raises("ArgumentError", tide.Generator, "nowhere")
  end)

  it("refuses bounds that the dtype cannot hold", function()
    local function zeros(dtype) return tide.zeros(3, { dtype = dtype, device = D.dev }) end
    for dtype, bounds in pairs {
      float16 = { { 0, 1e5 }, { -1e5, 0 } },
      bfloat16 = { { 0, 1e39 }, { -3e38, 3e38 } },
      float32 = { { 0, 1e39 }, { -1e39, 0 }, { -3e38, 3e38 } },
    } do
      local x = zeros(dtype)
      for _, b in ipairs(bounds) do D.raises("ValueError", x.uniform_, x, b[1], b[2]) end
      D.eq(zeros(dtype), x)
    end
    local whole = zeros("float16"):uniform_(-65504, 65504)
    assert.is_true(whole:isfinite():all():item())
    assert.is_true(zeros("float64"):uniform_(0, 1e39):gt(1e30):all():item())
    assert.is_true(zeros("bool"):random_(1, 2):all():item())
    for _, b in ipairs { { 0, 3 }, { 2, 3 }, { -1, 1 } } do
      D.raises("ValueError", function() zeros("bool"):random_(b[1], b[2]) end)
    end
  end)

  it("refuses a permutation with numbers that the dtype does not hold", function()
    for dtype, most in pairs { uint8 = 255, int8 = 127, float16 = 2048, bfloat16 = 256 } do
      local p = tide.randperm(most, { dtype = dtype, device = D.dev })
      local sorted = p:totable()
      table.sort(sorted)
      for i = 1, most do assert.are.equal(i, math.tointeger(sorted[i])) end
      D.raises("ValueError", tide.randperm, most + 1, { dtype = dtype, device = D.dev })
    end
  end)

  it("refuses probabilities outside of 0 to 1, of a tensor too", function()
    local nan = 0 / 0
    for _, p in ipairs { -0.5, 1.5, nan, 1 / 0 } do
      D.raises("ValueError", function() return tide.zeros(2, { device = D.dev }):bernoulli_(p) end)
      for _, dtype in ipairs { "float32", "float64", "float16" } do
        local chances = tide.full({ 3, 5000 }, 0.5, { dtype = dtype, device = D.dev })
        local x = tide.full({ 3, 5000 }, 7, { device = D.dev })
        chances:t()[{ 4000, 2 }] = p
        local e = D.raises("ValueError", function()
          x:bernoulli_(chances)
          D.sync()
        end)
        assert.matches("0 to 1", e.message)
        if not D.cuda then assert.is_true(x:eq(7):all():item()) end
        D.raises("ValueError", function()
          tide.bernoulli(chances)
          D.sync()
        end)
        chances[{ 2, 4000 }] = 1
        x:bernoulli_(chances)
        assert.are.equal(1, x[{ 2, 4000 }]:item())
      end
    end
  end)
end)
