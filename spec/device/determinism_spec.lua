-- tide.use_deterministic_algorithms.

local tide = require "tide"
local D = require "spec.support.device"

describe("use_deterministic_algorithms", function()
  D.watch(before_each, after_each)
  after_each(function() tide.use_deterministic_algorithms(false) end)

  it("is asked for, and told", function()
    assert.is_false(tide.are_deterministic_algorithms_enabled())
    tide.use_deterministic_algorithms(true)
    assert.is_true(tide.are_deterministic_algorithms_enabled())
    assert.is_false(tide.is_deterministic_algorithms_warn_only_enabled())
    tide.use_deterministic_algorithms(true, { warn_only = true })
    assert.is_true(tide.are_deterministic_algorithms_enabled())
    assert.is_true(tide.is_deterministic_algorithms_warn_only_enabled())
    tide.use_deterministic_algorithms(false, { warn_only = true })
    assert.is_false(tide.are_deterministic_algorithms_enabled())
    D.raises("ArgumentError", tide.use_deterministic_algorithms)
    D.raises("ArgumentError", tide.use_deterministic_algorithms, 1)
    D.raises("ArgumentError", tide.use_deterministic_algorithms, true, true)
    D.raises("ArgumentError", tide.use_deterministic_algorithms, true, { warn = true })
    assert.is_false(tide.are_deterministic_algorithms_enabled())
  end)

  it("writes the last of indexes that repeat", function()
    tide.use_deterministic_algorithms(true)
    local n, rows = 100000, 7
    local order = tide.arange(0, n, { dtype = "int64" })
    local index, value = (order * 31 % rows + 1):to(D.dev), order:to(D.dev)
    local expected = {}
    for i = 0, n - 1 do expected[i * 31 % rows + 1] = i end
    for _, dtype in ipairs { "int64", "int32" } do
      local x = tide.zeros(rows, { dtype = "int64", device = D.dev })
      x[index:to(tide[dtype])] = value
      D.eq(expected, x)
      local y = tide.zeros(rows, 3, { dtype = "int64", device = D.dev })
      y[index:to(tide[dtype]) - rows - 1] = value:view(n, 1):expand(n, 3)
      for i = 1, 3 do D.eq(x, y[{ {}, i }]) end
    end
  end)

  it("adds floats by index in the order of the index", function()
    local n = 5000
    local v = (tide.arange(n, { dtype = "float32" }) * 0.7):sin()
    local index = tide.arange(n, { dtype = "int64" }) % 3 + 1
    local want = tide.zeros(3):index_put_({ index }, v, { accumulate = true })
    tide.use_deterministic_algorithms(true)
    local x = tide.zeros(3, { device = D.dev }):index_put_({ index:to(D.dev) }, v:to(D.dev), { accumulate = true })
    assert.is_true(x:cpu():equal(want))
  end)

  if not D.compiler then pending "sums of floats by index in a kernel from C++ text: needs a compiler"
  else
    local text = "extern \"C\" __global__ void %s(float *x, float a) { %s(x, a); }"

    it("refuses raw kernels whose atomics depend on the order, on a GPU", function()
      local sum = tide.cuda.compile_kernel(text:format("sum", "atomicAdd"), "sum")
      local x = tide.zeros(1, { device = D.dev })
      local launch = sum:bind({ grid = 1, block = 32 }, x, 1)
      tide.use_deterministic_algorithms(true)
      if D.cuda then
        assert.matches("sum: .*atomic", D.raises("NotSupportedError", sum, { grid = 1, block = 32 }, x, 1).message)
        D.raises("NotSupportedError", launch)
        D.eq({ 0 }, x)
        local out, err = D.run { "-e", ([[
          local tide = require "tide"
          local k = tide.cuda.compile_kernel('%s', "sum")
          local x = tide.zeros(1, {device = "cuda"})
          tide.use_deterministic_algorithms(true, {warn_only = true})
          for _ = 1, 3 do k({grid = 1, block = 32}, x, 1) end
          print(x:item())]]):format(text:format("sum", "atomicAdd")) }
        assert.matches("^96", out)
        assert.are.equal(1, select(2, err:gsub("order of threads", "")))
      end
      if D.cuda then tide.use_deterministic_algorithms(false) end
      sum({ grid = 1, block = 32 }, x, 1)
      launch()
      D.eq({ 64 }, x)
      tide.use_deterministic_algorithms(true)
      tide.cuda.compile_kernel('extern "C" __global__ void most(int *x, int a) { atomicMax(x, a); }', "most")({ grid = 1, block = 32 },
        tide.zeros(1, { device = D.dev, dtype = "int32" }), 1)
    end)
  end
end)
