-- Every distribution stays inside of its support in every dtype: a million draws each, with parameters where rounding to
-- the dtype reaches a bound, overflows or becomes 0.

local tide = require "tide"
local D = require "spec.support.device"
local math, unpack = math, table.unpack or unpack

local is_54 = _VERSION == "Lua 5.4" -- else numbers have 53 bits, and kernels are given as texts
local n = D.tsan and 50000 or 1000000 // D.every
local floats = { "float16", "bfloat16", "float32", "float64" }
local largest = { float16 = 65504, bfloat16 = 0x1.fep127, float32 = 0x1.fffffep127, float64 = 0x1.fffffffffffffp1023 }
local least = { float16 = 2 ^ -24, bfloat16 = 2 ^ -133, float32 = 2 ^ -149, float64 = 2 ^ -1074 }

local function generator(seed) return tide.Generator(D.dev):manual_seed(seed) end

-- Least and greatest of x; NaN if there is one.
local function ends(x)
  local low, high = x:double():aminmax()
  return low:item(), high:item()
end

local function check(name, x, low, high)
  local a, b = ends(x)
  assert.is_true(a >= low and b <= high, ("%s: %.17g to %.17g, expected %.17g to %.17g"):format(name, a, b, low, high))
end

local function filled(dtype, method, ...)
  local args = { ... }
  args[#args + 1] = { generator = generator(#method + 10 * #args) }
  local x = tide.empty({ n }, { dtype = dtype, device = D.dev })
  return x[method](x, unpack(args))
end

-- Have zeros a sign?
local function no_minus_zero(name, x)
  assert.is_false(tide.signbit(x):any():item(), name .. ": a sign, at 0 or below")
end

local function name_of(method, dtype, ...)
  local list = {}
  for i = 1, select("#", ...) do list[i] = ("%.9g"):format((select(i, ...))) end
  return ("%s(%s) of %s"):format(method, table.concat(list, ", "), dtype)
end

describe("uniform numbers", function()
  D.watch(before_each, after_each)

  local ranges = {
    { 0, 1 }, { 1, 2 }, { -1, 0 }, { -1, 1 }, { 1000, 1001 }, { -1001, -1000 }, { 0.1, 0.7 }, { 0.7, 1.3 }, { -0.3, 0.1 }, { 2047, 2049 },
    { 0, 1e-7 }, { -1e-7, 0 }, { -1e-7, 1e-7 }, { 1e-45, 1e-38 }, { 0, 65504 }, { -65504, 65504 }, { 5, 5 + 2 ^ -20 }, { 0.333, 3 },
  }
  local wide = { { -1.7e38, 1.7e38 }, { 0, 3e38 }, { 16777216, 16777220 }, { 16777216, 16777218 }, { 3, 3 + 2 ^ -20 }, { -1e-44, 1e-44 }, { 1e30, 1.0001e30 } }

  it("are in [a, b) in every dtype", function()
    for _, dtype in ipairs(floats) do
      local list = { unpack(ranges) }
      if dtype ~= "float16" then
        for _, range in ipairs(wide) do list[#list + 1] = range end
      end
      if dtype == "float64" then
        for _, range in ipairs { { -8e307, 8e307 }, { 2 ^ 53, 2 ^ 53 + 4 }, { 0, 5e-324 }, { 1, 1 + 2 ^ -50 } } do list[#list + 1] = range end
      end
      for _, range in ipairs(list) do
        local a, b = range[1], range[2]
        local x = filled(dtype, "uniform_", a, b)
        local low, high = ends(x)
        local name = name_of("uniform_", dtype, a, b) .. (": %.17g to %.17g"):format(low, high)
        -- Without a number of the dtype in the range all are a, rounded.
        local rounded = low == high and low == tide.full({}, a, { dtype = dtype }):item()
        assert.is_true(rounded or low >= a and high < b, name)
      end
    end
  end)

  it("are a where nothing else is", function()
    for _, dtype in ipairs(floats) do
      for _, range in ipairs { { 3, 3 }, { 0.7, 0.7 }, { 0, 0 }, { -2, -2 } } do
        local x = filled(dtype, "uniform_", range[1], range[2])
        D.eq(tide.full({ n }, range[1], { dtype = dtype }), x)
      end
    end
    D.eq(tide.full({ n }, 16777216), filled("float32", "uniform_", 16777216, 16777217))
    no_minus_zero("uniform_", filled("float32", "uniform_", -0.0, 1))
  end)

  it("have each number of the dtype as often as the others", function()
    -- 1000 and 1000.5 in float16; eight bfloat16 from 1 to 1.0625, whose steps are 1/128.
    for _, case in ipairs { { "float16", 1000, 1001, 2 }, { "bfloat16", 128, 136, 8 }, { "float16", -1024, -1008, 32 } } do
      local x = filled(case[1], "uniform_", case[2], case[3])
      local length = (case[3] - case[2]) / case[4]
      local counts = ((x:double() - case[2]) / length):long():bincount({ minlength = case[4] })
      assert.are.equal(case[4], counts:numel())
      local off = (counts:double() * case[4] / n - 1):abs():max():item()
      assert.is_true(off < 0.02 * case[4], case[1] .. ": off by " .. off)
    end
  end)

  it("are in [0, 1) from rand and its kin", function()
    for _, dtype in ipairs(floats) do
      local x = tide.rand({ n }, { dtype = dtype, device = D.dev, generator = generator(1) })
      local last = 1 - ({ float16 = 2 ^ -11, bfloat16 = 2 ^ -8, float32 = 2 ^ -24, float64 = 2 ^ -53 })[dtype]
      check("rand of " .. dtype, x, 0, last)
      no_minus_zero("rand of " .. dtype, x)
      check("rand_like of " .. dtype, tide.rand_like(x, { generator = generator(2) }), 0, last)
    end
    for _, dtype in ipairs { "complex64", "complex128" } do
      local x = tide.rand({ n }, { dtype = dtype, device = D.dev, generator = generator(3) })
      check("rand of " .. dtype, tide.view_as_real(x), 0, 1 - (dtype == "complex64" and 2 ^ -24 or 2 ^ -53))
    end
  end)
end)

describe("other distributions", function()
  D.watch(before_each, after_each)

  it("are above 0 and finite where they are exponential", function()
    for _, dtype in ipairs(floats) do
      for _, rate in ipairs { 1, 0.5, 3, 1e-6, 1e6, 1e-30, 1e30, 1e-45, 1e-60, 1e60, 1e-308, 1e308 } do
        local name, x = name_of("exponential_", dtype, rate), filled(dtype, "exponential_", rate)
        check(name, x, least[dtype], largest[dtype])
        no_minus_zero(name, x)
      end
    end
  end)

  it("are finite where they are normal", function()
    for _, dtype in ipairs(floats) do
      local far = largest[dtype]
      for _, p in ipairs { { 0, 1 }, { 0, far / 2 }, { far, far / 4 }, { -far, far }, { 1, 0 }, { 0, 1e-45 }, { 1e4, 2e4 } } do
        local x = filled(dtype, "normal_", p[1], p[2])
        check(name_of("normal_", dtype, p[1], p[2]), x, -far, far)
      end
      check("randn of " .. dtype, tide.randn({ n }, { dtype = dtype, device = D.dev, generator = generator(4) }), -9, 9)
    end
  end)

  it("are finite where they are Cauchy's", function()
    for _, dtype in ipairs(floats) do
      local far = largest[dtype]
      for _, p in ipairs { { 0, 1 }, { 5, 100 }, { 0, 1e4 }, { far, far / 2 }, { 0, 1e-30 } } do
        check(name_of("cauchy_", dtype, p[1], p[2]), filled(dtype, "cauchy_", p[1], p[2]), -far, far)
      end
    end
  end)

  it("are above 0 and finite where their logarithm is normal", function()
    for _, dtype in ipairs(floats) do
      for _, p in ipairs { { 1, 2 }, { 0, 0.25 }, { 0, 100 }, { -200, 1 }, { 200, 1 }, { 0, 1e30 }, { 1e30, 1 }, { -1e30, 1 }, { -16, 1 } } do
        local name, x = name_of("log_normal_", dtype, p[1], p[2]), filled(dtype, "log_normal_", p[1], p[2])
        check(name, x, least[dtype], largest[dtype])
        no_minus_zero(name, x)
      end
    end
  end)

  it("are integers from 1 where they are geometric", function()
    local ranges = { bool = 1, uint8 = 255, int8 = 127, int16 = 32767, int32 = 2147483647, int64 = 2 ^ 63 }
    for _, dtype in ipairs { "float16", "bfloat16", "float32", "float64", "bool", "uint8", "int8", "int16", "int32", "int64" } do
      for _, p in ipairs { 0.5, 0.01, 0.999, 1e-3, 1e-6, 1e-12, 1e-50, 1e-300, 1 - 2 ^ -53, 1 - 2 ^ -30 } do
        local name, x = name_of("geometric_", dtype, p), filled(dtype, "geometric_", p)
        check(name, x, 1, largest[dtype] or ranges[dtype])
        if largest[dtype] then assert.is_true(x:eq(x:floor()):all():item(), name) end
      end
    end
  end)

  it("are 0 or 1 where they are Bernoulli's", function()
    for _, dtype in ipairs { "float16", "bfloat16", "float32", "float64", "bool", "uint8", "int64" } do
      for _, p in ipairs { 0, 1, 0.5, 1e-45, 1 - 2 ^ -53, 5e-324 } do
        local x = filled(dtype, "bernoulli_", p)
        assert.is_true((x:eq(0) | x:eq(1)):all():item(), name_of("bernoulli_", dtype, p))
        if p == 0 or p == 1 then assert.is_true(x:eq(p):all():item(), name_of("bernoulli_", dtype, p)) end
      end
    end
    for _, dtype in ipairs(floats) do
      for p = 0, 1 do
        local x = tide.bernoulli(tide.full({ n }, p, { dtype = dtype, device = D.dev }), { generator = generator(p) })
        assert.is_true(x:eq(p):all():item())
      end
    end
  end)

  it("are integers from 0, and finite, where they are Poisson's", function()
    local m = 200000
    for _, dtype in ipairs(floats) do
      for _, rate in ipairs { 0, least[dtype], 0.1, 9.99, 10, 1000, 65504, largest[dtype] } do
        local x = tide.poisson(tide.full({ m }, rate, { dtype = dtype, device = D.dev }), { generator = generator(6) })
        local name = name_of("poisson", dtype, rate)
        check(name, x, 0, largest[dtype])
        assert.is_true(x:eq(x:floor()):all():item(), name)
        no_minus_zero(name, x)
      end
    end
  end)

  it("are integers of the range where they are rounded to few digits", function()
    local cases = {
      float16 = { { 0, 4097 }, { 0, 2049 }, { -4097, -2048 }, { 2049, 2060 }, { 2047, 2050 }, { 65441, 65505 }, { -65504, 65504 } },
      bfloat16 = { { 0, 512 }, { 255, 259 }, { -1023, 1 }, { 1000, 1010 }, { 10 ^ 9 + 1, 2 * 10 ^ 9 } },
      float32 = { { 0, 2 ^ 25 }, { 16777217, 16777220 }, { 2 ^ 40 + 1, 2 ^ 41 }, { -2 ^ 25 - 1, -2 ^ 25 + 3 } },
      float64 = { { 0, 2 ^ 55 }, { 2 ^ 53 - 1, 2 ^ 53 + 3 }, { -2 ^ 60, 2 ^ 60 } },
    }
    local tointeger = is_54 and math.tointeger or function(x) return x end
    if not is_54 then cases.float64 = nil end
    for dtype, list in pairs(cases) do
      for _, range in ipairs(list) do
        local a, b = tointeger(range[1]), tointeger(range[2])
        local x = filled(dtype, "random_", a, b):double()
        local low, high = x:aminmax()
        local name = name_of("random_", dtype, a, b) .. (": %.17g to %.17g"):format(low:item(), high:item())
        assert.is_true(low:item() >= a and high:item() < b, name)
      end
    end
    for dtype, range in pairs { float16 = { 2049, 2050 }, bfloat16 = { 257, 258 }, float32 = { 16777217, 16777218 } } do
      local x = tide.full({ 3 }, 7, { dtype = dtype, device = D.dev })
      local e = D.raises("ValueError", x.random_, x, range[1], range[2])
      assert.matches(dtype .. " holds no number of the range", e.message, 1, true)
      D.eq({ 7, 7, 7 }, x)
    end
  end)

  it("are the same on every device and in every layout at their limits", function()
    local fills = {
      function(x, g) return x:uniform_(0.7, 1.3, { generator = g }) end,
      function(x, g) return x:exponential_(1e6, { generator = g }) end,
      function(x, g) return x:geometric_(1e-6, { generator = g }) end,
    }
    for _, dtype in ipairs(floats) do
      for i, fill in ipairs(fills) do
        local want = fill(tide.empty(300, 5, { dtype = dtype }), tide.Generator():manual_seed(i))
        for _, layout in ipairs(D.layouts(tide.zeros(300, 5, { dtype = dtype, device = D.dev }))) do
          fill(layout[2], generator(i))
          -- A GPU has a logarithm of its own: geometric_ may round to the next integer.
          local near = { rtol = i == 1 and 0 or D.eps[dtype] * 4, atol = i == 3 and D.cuda and not D.simulated and 2 or 0 }
          assert.is_true(tide.allclose(want:double(), layout[2]:double():cpu(), near), i .. " " .. dtype)
          layout[3]()
        end
      end
    end
  end)

  if D.cuda then
    it("stay inside where a graph draws them", function()
      for _, dtype in ipairs { "float16", "bfloat16" } do
        local x, y = tide.empty({ n }, { dtype = dtype, device = D.dev }), tide.empty({ n }, { dtype = dtype, device = D.dev })
        local graph = tide.cuda.CUDAGraph()
        tide.cuda.graph(graph, function()
          x:uniform_(1, 2)
          y:exponential_(1)
        end)
        graph:replay()
        check("uniform_ of " .. dtype, x, 1, 2 - (dtype == "float16" and 2 ^ -10 or 2 ^ -7))
        check("exponential_ of " .. dtype, y, least[dtype], 40)
      end
    end)
  end

  if D.compiler and is_54 then
    it("are in their ranges in kernels", function()
      local draw = tide.kernel(function(i, u, v, k)
        u[i] = tide.random.uniform(5, i)
        v[i] = tide.random.normal(5, i)
        k[i] = tide.random.integer(5, -3, 4, i)
      end)
      for _ = 1, 2 do
        for _, dtype in ipairs { "float32", "float64" } do
          local u, v = tide.empty({ n }, { dtype = dtype, device = D.dev }), tide.empty({ n }, { dtype = dtype, device = D.dev })
          local k = tide.empty({ n }, { dtype = "int64", device = D.dev })
          draw(n, u, v, k)
          check("uniform of " .. dtype, u, 0, 1 - (dtype == "float32" and 2 ^ -24 or 2 ^ -53))
          no_minus_zero("uniform of " .. dtype, u)
          check("normal of " .. dtype, v, -9, 9)
          check("integer", k, -3, 3)
        end
        draw:wait()
      end
    end)
  end
end)
