-- Kernels whose results are reduced: by blocks on a GPU, behind the kernel elsewhere.

local tide = require "tide"
local D = require "spec.support.device"
local dev, huge = D.dev, math.huge
if not D.compiler then return pending "there is no compiler" end

local of = { sum = "sum", prod = "prod", min = "amin", max = "amax" }

describe("results of kernels that are reduced", function()
  D.watch(before_each, after_each)

  it("are those of all places, however many, and of each dtype", function()
    for _, dtype in ipairs { "float32", "float64", "int32", "int64", "float16" } do
      for name, reduction in pairs(of) do
        local k = tide.kernel("function(i, x) return x[i] end", { reduce = name })
        for _, n in ipairs { 1, 31, 256, 257, 70001 } do
          local x = tide.arange(n, { device = dev, dtype = "int64" }):mul(7919):remainder(name == "prod" and 1 or 13):add(name == "prod" and 1 or -5)
          x = x:to(dtype)
          local r = k(n, x)
          local expected = x[reduction](dtype == "float16" and x:to "float32" or x)
          D.eq(expected:to(r.dtype), r, dtype == "float16" and 1e-3 or 1e-6, name .. " " .. dtype .. " " .. n)
        end
      end
    end
  end)

  it("are of one to three dims and several results, of blocks of any size", function()
    local x = tide.rand(37, 5, 70, { device = dev }) - 0.5
    for _, block in ipairs { false, { 2, 3, 10 }, { 1, 1, 1 }, { 1, 5, 33 } } do
      local k = tide.kernel("function(i, j, l, x) local v = x[i][j][l] return v, v > 0 and 1.0 or 0.0, i * j * l end",
        { reduce = "sum", block = block or nil })
      local sum, count, whole = k({ 37, 5, 70 }, x)
      D.eq(x:sum(), sum, 1e-4)
      D.eq(x:gt(0):sum():to "float32", count)
      D.eq((37 * 38 // 2) * (5 * 6 // 2) * (70 * 71 // 2), whole)
    end
    local most = tide.kernel("function(i, j, x) return x[i][1][j] end", { reduce = "max", block = { 1, 100 } })
    D.eq(x:select(2, 1):amax(), most({ 37, 70 }, x))
  end)

  it("come from places that return early, and from those that return nothing", function()
    local x = tide.rand(5000, { device = dev }) - 0.5
    local k = tide.kernel([[function(i, x)
      if x[i] < 0 then return 0.0 end
      for n = 1, i do
        if n > 3 then return x[i] end
      end
      return 2 * x[i]
    end]], { reduce = "sum" })
    local weight = tide.ones(5000, { device = dev })
    weight:narrow(1, 1, 3):fill_(2)
    D.eq((x:relu() * weight):sum(), k(5000, x), 1e-3)
  end)

  it("follow Lua and the reductions of tensors in what is special", function()
    local values = tide.tensor({ 1, 0 / 0, -huge }, { device = dev, dtype = "float32" })
    for name in pairs(of) do
      local r = tide.kernel("function(i, x) return x[i] end", { reduce = name })(3, values):item()
      assert.is_true(r ~= r, name)
    end
    D.eq(-huge, tide.kernel("function(i, x) return x[3] end", { reduce = "min" })(3, values))
    local big = tide.kernel("function(i) return 1 << 62 end", { reduce = "sum" })(6)
    D.eq(tide.full({ 6 }, 1 << 62, { device = dev, dtype = "int64" }):sum(), big)
    D.eq(0, tide.kernel("function(i, x) return x[i] end", { reduce = "sum" })(0, values))
    D.raises("ValueError", tide.kernel("function(i, x) return x[i] end", { reduce = "max" }), 0, values)
    local out = tide.zeros({}, { device = dev, dtype = "float64" })
    tide.kernel("function(i, x) return x[1] * i end", { reduce = "max" })(700, values, { out = out })
    D.eq(700, out)
  end)

  it("are not lost where an index lies outside", function()
    local x = tide.ones(300, { device = dev })
    local k = tide.kernel("function(i, x) return x[i] end", { reduce = "sum" })
    D.eq(300, k(300, x))
    D.raises("IndexError", function() return k(301, x):item() end)
    D.eq(300, k(300, x))
  end)
end)
