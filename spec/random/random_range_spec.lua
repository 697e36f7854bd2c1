-- Integers below a bound are equally likely, whatever the bound: chi squared for ranges of 3 * 2^k from every source.
-- A draw modulo such a range favours the lowest third as soon as the range is not far below the draw's width.

local tide = require "tide"
local D = require "spec.support.device"
local math = math
local is_54 = _VERSION == "Lua 5.4" -- integers of 64 bits

local function generator(seed, device) return tide.Generator(device or D.dev):manual_seed(seed) end

-- Of n values counted in kinds of one size.
local function chi(counts, n)
  local sum, want = 0, n / #counts
  for _, count in ipairs(counts) do sum = sum + (count - want) ^ 2 / want end
  return sum
end

-- 5 degrees of freedom: 50 is exceeded by chance once in 7e8 trials.
local most = 50

-- Kinds of x (int64), which is in low to low + 3 * 2^k - 1: the third and the last bit.
local function counts_of(x, low, k)
  local from = x - low -- wraps around for k = 62
  local third = from:bitwise_right_shift(k)
  if k > 61 then third = third:bitwise_and(3) end
  assert.is_true((third:ge(0) & third:lt(3)):all():item(), "outside of the range, k = " .. k)
  return (third * 2 + from:bitwise_and(1)):bincount({ minlength = 6 }):tolist()
end

local function even(name, x, low, k)
  local sum = chi(counts_of(x, low, k), x:numel())
  assert.is_true(sum < most, ("%s, range 3 * 2^%d: chi squared %g"):format(name, k, sum))
end

local n = 1 << 17
local function power(k) return 1 << k end

describe("integers below a bound", function()
  D.watch(before_each, after_each)
  if not is_54 then return pending "ranges of 64 bits need Lua 5.4's integers" end

  it("are even from randint", function()
    for k = 1, 61, D.every do
      even("randint", tide.randint(0, 3 * power(k), { n }, { device = D.dev, generator = generator(k) }), 0, k)
    end
  end)

  it("are even from random_, from a low bound, in every layout", function()
    for k = 1, 62, 3 * D.every do
      local low = k > 60 and math.mininteger or -power(k)
      for _, layout in ipairs(D.layouts(tide.zeros({ 64, 128 }, { dtype = "int64", device = D.dev }))) do
        even("random_, " .. layout[1], layout[2]:random_(low, low + 3 * power(k), { generator = generator(100 + k) }):flatten(), low, k)
        layout[3]()
      end
    end
  end)

  it("are even from random_ in other dtypes", function()
    for dtype, last in pairs { int8 = 5, uint8 = 6, int16 = 13, int32 = 29, float16 = 9, bfloat16 = 6, float32 = 22, float64 = 51 } do
      for k = last, 1, -D.every do
        local x = tide.empty({ n }, { dtype = dtype, device = D.dev }):random_(0, 3 * power(k), { generator = generator(200 + k) })
        even("random_ of " .. dtype, x:to("int64"), 0, k)
      end
    end
  end)

  it("are the same on every device, in pieces of any length", function()
    for _, range in ipairs { 3 << 30, (1 << 31) + 1, (1 << 32) - 1, 3 << 61, (1 << 62) + 1, math.maxinteger } do
      local want = tide.randint(0, range, { 5003 }, { generator = generator(7, "cpu") })
      local x = tide.randint(0, range, { 5003 }, { device = D.dev, generator = generator(7) })
      D.eq(want, x)
      D.eq(want:slice(1, 1, 1001), tide.randint(0, range, { 1001 }, { device = D.dev, generator = generator(7) }))
      local t = tide.empty({ 2, 5003 }, { dtype = "int64", device = D.dev }):t():select(2, 1)
      D.eq(want, t:random_(0, range, { generator = generator(7) }))
    end
  end)

  if D.cuda then
    it("are even, and those of a call, where a graph draws them", function()
      for _, k in ipairs { 1, 30, 31, 61 } do
        local g = generator(31)
        local x = tide.empty({ n }, { dtype = "int64", device = D.dev })
        local graph = tide.cuda.CUDAGraph()
        graph:register_generator_state(g)
        tide.cuda.graph(graph, function() x:random_(0, 3 * power(k), { generator = g }) end)
        g:manual_seed(32)
        graph:replay()
        even("a graph", x, 0, k)
        D.eq(tide.randint(0, 3 * power(k), { n }, { device = D.dev, generator = generator(32) }), x)
      end
    end)
  end

  it("are even in plain Lua", function()
    local m = 1 << 12
    for k = 62, 1, -D.every do
      local low, counts = k > 61 and math.mininteger or -5, { 0, 0, 0, 0, 0, 0 }
      for i = 1, m do
        local from = tide.random.integer(k, low, low + 3 * power(k), i) - low
        local kind = (from >> k & 3) * 2 + (from & 1) + 1
        counts[kind] = counts[kind] + 1
      end
      local sum = chi(counts, m)
      assert.is_true(sum < most, ("plain Lua, range 3 * 2^%d: chi squared %g"):format(k, sum))
    end
  end)

  if D.compiler then
    local draw = tide.kernel(function(i, x, seed, low, high) x[i] = tide.random.integer(seed, low, high, i) end)
    local same = tide.kernel(function(i, x, seed, low, high) x[i] = tide.random.integer(seed, low, high, 7) end)
    it("are even in kernels, at once and once compiled, and those of plain Lua", function()
      for _ = 1, 2 do
        for k = 62, 1, -D.every do
          local low = k > 61 and math.mininteger or -5
          local x = tide.zeros({ n }, { dtype = "int64", device = D.dev })
          draw(n, x, k, low, low + 3 * power(k))
          even("a kernel", x, low, k)
          local list = x:narrow(1, 1, 50):tolist()
          for i = 1, 50 do assert.are.equal(tide.random.integer(k, low, low + 3 * power(k), i), list[i]) end
        end
        draw:wait()
      end
      for seed = 1, 40 do
        local x = tide.zeros({ 3 }, { dtype = "int64", device = D.dev })
        same(3, x, seed, math.mininteger, math.mininteger + (3 << 62))
        D.eq(tide.full({ 3 }, tide.random.integer(seed, math.mininteger, math.mininteger + (3 << 62), 7), { dtype = "int64" }), x)
      end
    end)
  end
end)

describe("orders and places", function()
  D.watch(before_each, after_each)

  it("are even from randperm", function()
    local g, counts = generator(3), {}
    for _ = 1, 3000 do
      local p = tide.randperm(4, { device = D.dev, generator = g }):tolist()
      local key = table.concat(p)
      counts[key] = (counts[key] or 0) + 1
    end
    local list = {}
    for _, count in pairs(counts) do list[#list + 1] = count end
    assert.are.equal(24, #list)
    assert.is_true(chi(list, 3000) < 85) -- 23 degrees of freedom
    -- The place of each third of the numbers, in orders that are sorted in one, in few and in many buckets.
    for _, m in ipairs { 30, 3 << 9, 3 << 12, 3 << 17 } do
      local sums = { 0, 0, 0 }
      local times = math.max(1, 30000 // m)
      for _ = 1, times do
        local third = (tide.randperm(m, { device = D.dev, generator = g }) - 1):floor_divide(m // 3)
        local first = third:narrow(1, 1, m // 3):bincount({ minlength = 3 }):tolist()
        for i = 1, 3 do sums[i] = sums[i] + first[i] end
      end
      assert.is_true(chi(sums, times * m / 3) < 40, "randperm of " .. m)
    end
  end)

  it("are even from a data loader that shuffles", function()
    local data, counts = tide.arange(1, 5, { dtype = "int64" }), {}
    local loader = tide.data.loader(data, { batch_size = 4, shuffle = true, generator = tide.Generator():manual_seed(5) })
    for _ = 1, 2400 do
      for batch in loader do
        local key = table.concat(batch:tolist())
        counts[key] = (counts[key] or 0) + 1
      end
    end
    local list = {}
    for _, count in pairs(counts) do list[#list + 1] = count end
    assert.are.equal(24, #list)
    assert.is_true(chi(list, 2400) < 85)
  end)

  it("are even from multinomial of equal weights", function()
    for k = 1, 18, 4 do
      local m = math.floor(3 * 2 ^ k)
      local w = tide.ones(m, { device = D.dev })
      local x = w:multinomial(n, { replacement = true, generator = generator(k) }) - 1
      even("multinomial", x, 0, k)
      local one = tide.ones({ 4096, 6 }, { device = D.dev }):multinomial(2, { generator = generator(k) }) - 1
      assert.is_true(chi(one:select(2, 1):bincount({ minlength = 6 }):tolist(), 4096) < most)
      assert.is_true(chi(one:select(2, 2):bincount({ minlength = 6 }):tolist(), 4096) < most)
    end
  end)

  it("have a weight above 0, in multinomial", function()
    local w = D.tensor({ 0., 5e-324, 0., 1e-323, 0. }, "float64")
    for _, replacement in ipairs { true, false } do
      for seed = 1, 20 do
        local x = w:multinomial(2, { replacement = replacement, generator = generator(seed) })
        assert.is_true((x:eq(2) | x:eq(4)):all():item())
      end
    end
  end)
end)
