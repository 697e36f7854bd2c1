-- Distributions with parameters for each element: normals of tensors, Poisson's, places drawn by weight.

local tide = require "tide"
local D = require "spec.support.device"

local function generator(seed) return tide.Generator(D.dev):manual_seed(seed) end

describe("normals of tensors", function()
  D.watch(before_each, after_each)

  it("have the mean and the deviation of each place", function()
    local zero = tide.normal(D.tensor { 1., -2., 3. }, 0)
    D.eq({ 1, -2, 3 }, zero)
    local n = 100000
    local mean, std = D.tensor({ 5, -5 }, "float64"):unsqueeze(2), D.tensor({ 1., 3. }, "float32"):unsqueeze(2)
    local x = tide.normal(mean:expand(2, n), std, { generator = generator(3) })
    assert.are.equal("float64", D.dtype_name(x))
    D.eq({ 5, -5 }, x:mean(2), 1e-2)
    D.eq({ 1, 3 }, x:std(2), 1e-2)
    x = tide.normal(2, std:expand(2, n), { generator = generator(4) })
    D.eq({ 2, 2 }, x:mean(2), 2e-2)
    D.eq({ 1, 3 }, x:std(2), 1e-2)
    x = tide.normal(tide.full({ n }, 7., { device = D.dev }), { generator = generator(5) })
    D.eq(7, x:mean():item(), 1e-2)
    D.eq(1, x:std():item(), 1e-2)
  end)

  it("of two numbers are those of normal_", function()
    local x = tide.normal(1, 2, { 3, 4 }, { device = D.dev, dtype = "float64", generator = generator(6) })
    assert.are.same({ 3, 4 }, x:size())
    D.eq(x, tide.empty(3, 4, { device = D.dev, dtype = "float64" }):normal_(1, 2, { generator = generator(6) }))
  end)

  it("are the same on every device", function()
    local g = tide.Generator "cpu"
    g:manual_seed(8)
    local mean, std = tide.tensor { { 1., 2., 3. } }, tide.tensor { { 1. }, { 0. }, { 2. } }
    local want = tide.normal(mean, std, { generator = g })
    D.eq(want, tide.normal(mean:to(D.dev), std:to(D.dev), { generator = generator(8) }), 2e-5)
    D.eq({ 1, 2, 3 }, want[2])
  end)

  it("refuse what they cannot take", function()
    local x = D.tensor { 1., 2. }
    D.raises("ArgumentError", function() tide.normal(0, 1) end)
    D.raises("ArgumentError", function() tide.normal(x, 1, { 2 }) end)
    D.raises("ValueError", function() tide.normal(x, -1) end)
    D.raises("ValueError", function()
      tide.normal(0, D.tensor { 1., -1. })
      if D.cuda then tide.cuda.synchronize() end
    end)
    D.raises("ShapeError", function() tide.normal(x, D.tensor { 1., 2., 3. }) end)
    D.raises("DtypeError", function() tide.normal(D.tensor { 1, 2 }, 1) end)
  end)
end)

describe("poisson", function()
  D.watch(before_each, after_each)

  it("has the mean and the variance that are its rate", function()
    local n = 40000
    for i, rate in ipairs { 0.01, 0.7, 3., 9.9, 10., 11., 40., 1000., 1e6 } do
      local x = tide.poisson(tide.full({ n }, rate, { device = D.dev, dtype = "float64" }), { generator = generator(i) })
      local mean, var = x:mean():item(), x:var():item()
      local off = 5 * math.sqrt(rate / n) -- of the mean: five deviations
      assert.is_true(math.abs(mean - rate) < off, ("rate %g: mean %g"):format(rate, mean))
      -- The variance of a sample's variance is (mu4 - var^2) / n with mu4 = rate + 3 rate^2.
      off = 5 * math.sqrt((rate + 2 * rate * rate) / n)
      assert.is_true(math.abs(var - rate) < off, ("rate %g: variance %g"):format(rate, var))
      assert.is_true(x:eq(x:floor()):all():item() and x:ge(0):all():item())
    end
  end)

  it("has each number as often as it should", function()
    local n = 200000
    for i, rate in ipairs { 2.5, 12.5 } do
      local x = tide.poisson(tide.full({ n }, rate, { device = D.dev }), { generator = generator(40 + i) })
      local counts, p, sum = x:to("int64"):bincount({ minlength = 40 }):tolist(), math.exp(-rate), 0
      for k = 0, 39 do
        if n * p > 20 then sum = sum + (counts[k + 1] - n * p) ^ 2 / (n * p) end
        p = p * rate / (k + 1)
      end
      assert.is_true(sum < 60, ("rate %g: chi squared %g"):format(rate, sum)) -- of at most 27 numbers
    end
  end)

  it("is the same on every device, in every layout and dtype", function()
    local g = tide.Generator "cpu"
    local rates = { { 0., 0.5, 3. }, { 20., 150., 2. } }
    for _, dtype in ipairs { "float16", "bfloat16", "float32", "float64" } do
      g:manual_seed(31)
      local want = tide.poisson(tide.tensor(rates, { dtype = dtype }), { generator = g }):totable()
      assert.are.equal(0, want[1][1])
      for _, layout in ipairs(D.layouts(D.tensor(rates, dtype))) do
        local x = tide.poisson(layout[2], { generator = generator(31) })
        D.eq(want, x, 0, layout[1])
        assert.are.equal(dtype, D.dtype_name(x))
      end
    end
    assert.are.same({ 0 }, tide.poisson(tide.empty(0, { device = D.dev })):size())
  end)

  it("refuses what is no rate", function()
    for _, bad in ipairs { -1, 0 / 0, math.huge } do
      D.raises("ValueError", function()
        tide.poisson(D.tensor { 1., bad })
        if D.cuda then tide.cuda.synchronize() end
      end)
    end
    D.raises("DtypeError", function() tide.poisson(D.tensor { 1, 2 }) end)
  end)
end)

describe("multinomial", function()
  D.watch(before_each, after_each)

  it("draws places as often as they weigh", function()
    local n = 100000
    local p = D.tensor { { 1., 0., 3., 6. }, { 0., 0., 5., 0. } }
    local x = p:multinomial(n, { replacement = true, generator = generator(1) })
    assert.are.same({ 2, n }, x:size())
    assert.are.equal("int64", D.dtype_name(x))
    local counts = x[1]:bincount():tolist()
    for i, weight in ipairs { 0, 0.1, 0, 0.3, 0.6 } do
      assert.is_true(math.abs(counts[i] - weight * n) <= 5 * math.sqrt(weight * n), "place " .. i - 1 .. ": " .. counts[i])
    end
    assert.is_true(x[2]:eq(3):all():item())
  end)

  it("takes no place twice without replacement, and the heavier ones first", function()
    local n = 20000
    local p = D.tensor({ 1., 2., 0., 7. }, "float64"):expand(n, 4)
    local x = tide.multinomial(p, 3, { generator = generator(2) })
    assert.is_true(x:sum(2):eq(7):all():item()) -- 1, 2 and 4 in some order
    assert.is_true(x:prod(2):eq(8):all():item())
    -- The first is place i with the chance w_i, the second then j with w_j / (1 - w_i).
    local first = x:select(2, 1):bincount():tolist()
    for i, weight in ipairs { 0, 0.1, 0.2, 0, 0.7 } do
      assert.is_true(math.abs(first[i] - weight * n) <= 5 * math.sqrt(weight * n), "first " .. i - 1 .. ": " .. first[i])
    end
    local second = x:select(2, 2):bincount():tolist()
    local w, chance = { 0.1, 0.2, 0, 0.7 }, 0
    for i, weight in ipairs(w) do
      if i ~= 2 then chance = chance + weight * 0.2 / (1 - weight) end
    end
    assert.is_true(math.abs(second[3] - chance * n) <= 5 * math.sqrt(chance * n), "second: " .. second[3])
  end)

  it("draws many places without replacement as they weigh", function()
    local n, m = 3000, 10000
    local w = tide.ones(m, { dtype = "float64", device = D.dev })
    w:narrow(1, 1, m // 2):fill_(4)
    for _, scale in ipairs { 1, 1e-310, 1e303 } do -- whose parts of a key would leave the range of float64
      local x = (w * scale):multinomial(n, { generator = generator(3) })
      assert.are.same({ n }, x:size())
      assert.are.equal(n, x:unique():numel())
      assert.is_true(x:min():item() >= 1 and x:max():item() <= m)
      -- Of the exponential numbers E / w as many are below t as are drawn: 5000 (1 - e^-4t) + 5000 (1 - e^-t) = 3000.
      local low, high = 0, 10
      for _ = 1, 60 do
        local t = (low + high) / 2
        if 2 - math.exp(-4 * t) - math.exp(-t) < 2 * n / m then low = t else high = t end
      end
      local heavy, want = x:le(m // 2):sum():item(), m / 2 * (1 - math.exp(-4 * low))
      assert.is_true(math.abs(heavy - want) < 5 * math.sqrt(n * 0.25), heavy .. " of " .. want .. " heavy ones")
    end
    local all = w:multinomial(m, { generator = generator(5) }):sort()
    assert.is_true(all:eq(tide.arange(1, m + 1, { device = D.dev })):all():item())
  end)

  it("is the same on every device and in every layout", function()
    local g = tide.Generator "cpu"
    local p = tide.rand({ 3, 50 }, { generator = g:manual_seed(4) })
    for _, replacement in ipairs { true, false } do
      g:manual_seed(17)
      local want = p:multinomial(20, { replacement = replacement, generator = g }):totable()
      for _, layout in ipairs(D.layouts(p:to(D.dev))) do
        D.eq(want, layout[2]:multinomial(20, { replacement = replacement, generator = generator(17) }), 0, layout[1])
      end
      g:manual_seed(17)
      D.eq(want, p:multinomial(20, { replacement = replacement, generator = g }))
    end
    local one = D.tensor({ 0., 1., 0. }):multinomial(1)
    assert.are.same({ 1 }, one:size())
    D.eq({ 2 }, one)
    assert.are.same({ 0, 2 }, tide.empty({ 0, 5 }, { device = D.dev }):multinomial(2):size())
  end)

  it("refuses what it cannot draw from", function()
    local function refused(kind, p, n, options)
      D.raises(kind, function() return D.tensor(p):multinomial(n, options) end)
    end
    for n = 1, 2 do
      refused("ValueError", { 1., -1., 2. }, n)
      refused("ValueError", { 1., 0 / 0, 2. }, n)
      refused("ValueError", { 1., math.huge, 2. }, n)
    end
    refused("ValueError", { 1., math.huge }, 4, { replacement = true })
    refused("ValueError", { { 1., 2. }, { 0., 0. } }, 1)
    refused("ValueError", { 1., 2. }, 0)
    refused("ValueError", { 1., 0., 2. }, 3)
    refused("DtypeError", { 1, 2 }, 1)
    refused("ShapeError", { { { 1. } } }, 1)
    D.raises("ShapeError", function() return tide.empty(0, { device = D.dev }):multinomial(1) end)
  end)
end)
