-- Reads and writes at places that index tensors name, element by element and slice by slice. The numbers are
-- PyTorch's, whose indexes count from 0; the kernels gather and scatter do all of it.

local tide = require "tide"
local D = require "spec.support.device"

local function f32(n, shape) return (tide.arange(n, { dtype = "float32" })):view(shape):to(D.dev) end
local function cube() return f32(24, { 2, 3, 4 }) * 0.5 - 3 end
local function I(t, dtype) return D.tensor(t, dtype) end
-- An index of four by two by two, and the same counted from the end.
local function planes()
  local i = I { { { 1, 3, 2, 2 }, { 3, 1, 1, 2 } }, { { 2, 2, 1, 3 }, { 1, 3, 3, 2 } } }
  return i, i - 4
end

describe("gather", function()
  D.watch(before_each, after_each)

  it("reads along each dimension, in every layout", function()
    local i, back = planes()
    local want = { { { -3.0, 1.5, 0.0, 0.5 }, { 1.0, -2.5, -2.0, 0.5 } }, { { 5.0, 5.5, 4.0, 8.5 }, { 3.0, 7.5, 8.0, 6.5 } } }
    for _, x in ipairs(D.layouts(cube())) do
      for _, index in ipairs(D.layouts(i)) do D.eq(want, x[2]:gather(2, index[2]), 0, x[1] .. " by " .. index[1]) end
      D.eq(want, tide.gather(x[2], -2, back:int()), 0, x[1])
      D.eq({ { { -1.5, -3.0 }, { -0.5, -0.5 }, { 2.0, 2.5 } }, { { 3.0, 3.0 }, { 6.5, 6.0 }, { 7.5, 7.0 } } },
        x[2]:gather(3, I { { { 4, 1 }, { 2, 2 }, { 3, 4 } }, { { 1, 1 }, { 4, 3 }, { 2, 1 } } }))
      D.eq({ { { -3.0, 3.5, 4.0 }, { 5.0, -0.5, 0.0 } } }, x[2]:gather(1, I { { { 1, 2, 2 }, { 2, 1, 1 } } }))
    end
  end)

  it("reads every dtype, with indexes of every integer dtype", function()
    for _, dtype in ipairs(D.dtypes) do
      local x = D.tensor({ { 0, 1, 2 }, { 3, 4, 5 } }, "int64"):to(tide[dtype])
      local want = tide.tensor({ { 2, 0 }, { 4, 4 } }):to(tide[dtype])
      for _, index in ipairs { "uint8", "int8", "int16", "int32", "int64" } do
        local r = x:gather(2, I({ { 3, 1 }, { 2, 2 } }, index))
        assert.is_true(r:cpu():equal(want), dtype .. " by " .. index)
        assert.are.equal(x.dtype, r.dtype)
      end
    end
  end)

  it("of nothing, and of one number", function()
    local none = tide.empty(0, 3, { dtype = "int64", device = D.dev })
    assert.are.same({ 0, 3 }, D.tensor({ { 1., 2., 3. } }):gather(1, none):size())
    assert.are.same({ 0, 3 }, tide.ones(0, 3, { device = D.dev }):gather(1, none):size())
    D.eq(7, D.tensor(7.):gather(1, D.tensor(1)))
    D.eq({ 7, 7 }, D.tensor(7.):gather(1, I { 1, -1 }))
    D.raises("IndexError", function() return tide.ones(0, 3, { device = D.dev }):gather(1, I { { 1, 1, 1 } }) end)
  end)

  it("writes to out, which may be an operand or of another dtype", function()
    local i = planes()
    local x, wide = cube(), tide.empty(2, 2, 4, { dtype = "float64", device = D.dev })
    assert.is_true(x:gather(2, i, { out = wide }) == wide)
    D.eq(x:gather(2, i), wide)
    local line, at = D.tensor { 1, 2, 3 }, I { 3, 1, 2 }
    line:gather(1, at, { out = line })
    D.eq({ 3, 1, 2 }, line)
    at:gather(1, at, { out = at })
    D.eq({ 2, 3, 1 }, at)
    D.raises("DtypeError", function() x:gather(2, i, { out = i }) end)
  end)

  it("take reads x as one line, take_along_dim broadcasts", function()
    local t = I { { 24, 1, 6 }, { 6, 18, -16 } }
    for _, x in ipairs(D.layouts(cube())) do
      D.eq({ { 8.5, -3.0, -0.5 }, { -0.5, 5.5, 1.0 } }, x[2]:take(t), 0, x[1])
      D.eq({ { 8.5, -3.0, 7.0 }, { 7.0, 8.0, 1.5 } }, x[2]:permute(3, 1, 2):take(t), 0, x[1])
      D.eq({ { { -2.0, -3.0 }, { 0.0, -1.0 }, { 2.0, 1.0 } }, { { 4.0, 3.0 }, { 6.0, 5.0 }, { 8.0, 7.0 } } },
        x[2]:take_along_dim(I { { { 3, 1 } } }, 3))
      D.eq({ 8.5, -3.0, -0.5, -0.5, 5.5, 1.0 }, tide.take_along_dim(x[2], t))
    end
    local x, at = D.tensor { { 3, 1, 2 }, { 9, 7, 8 } }, D.tensor { { 3, 1, 2 }, { 9, 7, 8 } }:argmin(2):view(2, 1)
    D.eq({ { 1 }, { 7 } }, x:take_along_dim(at, 2))
    D.eq(5, D.tensor { 4, 5 }:take(D.tensor(2)))
  end)

  it("refuses what does not fit, by name", function()
    local x, i = cube(), planes()
    assert.matches("larger than x, got %[3, 2, 4%], expected at most %[2, 3, 4%]",
      D.raises("ShapeError", function() return x:gather(2, tide.ones(3, 2, 4, { dtype = "int64", device = D.dev })) end).message)
    assert.matches("index, got float32", D.raises("DtypeError", function() return x:gather(2, i:float()) end).message)
    D.raises("ShapeError", function() return x:gather(2, i[1]) end)
    D.raises("IndexError", function() return x:gather(4, i) end)
    D.raises("IndexError", function() return x:gather(0, i) end)
    D.raises("ArgumentError", function() return x:gather(2, { 1, 2 }) end)
    D.raises("ArgumentError", function() return x:gather(2, i, { oit = x }) end)
    D.raises("ShapeError", function() return x:take_along_dim(tide.ones(2, 2, 1, { dtype = "int64", device = D.dev }), 3) end)
    if D.cuda then D.raises("DeviceError", function() return x:gather(2, i:cpu()) end) end
  end)
end)

describe("scatter", function()
  D.watch(before_each, after_each)
  local function source() return f32(16, { 2, 2, 4 }) + 1 end

  it("writes, adds and multiplies along a dimension, in every layout", function()
    local i, back = planes()
    local own = I { { { 1, 3, 2, 2 }, { 3, 1, 1, 1 } }, { { 2, 2, 1, 3 }, { 1, 3, 3, 2 } } } -- no element twice
    for _, x in ipairs(D.layouts(cube())) do
      for _, s in ipairs(D.layouts(source())) do
        local what = x[1] .. " from " .. s[1]
        D.eq({ { { -2.0, 3.5, 5.0, -1.5 }, { -1.0, -0.5, 3.0, 12.5 }, { 6.0, 3.5, 2.0, 2.5 } }, { { 16.0, 3.5, 15.0, 4.5 }, { 14.0, 15.5, 6.0, 22.5 }, { 7.0, 21.5, 23.0, 20.5 } } },
          x[2]:scatter_add(2, i, s[2]), 0, what)
        D.eq({ { { 1, 6, 7, 8 }, { 0, 0, 3, 4 }, { 5, 2, 0, 0 } }, { { 13, 0, 11, 0 }, { 9, 10, 0, 16 }, { 0, 14, 15, 12 } } },
          tide.zeros(2, 3, 4, { device = D.dev }):scatter(2, own, s[2]), 0, what)
      end
      D.eq({ { { -6, -5, -4, -1.5 }, { -1, -0.5, 0, 2 }, { 2, 3, 2, 2.5 } }, { { 6, 3.5, 8, 4.5 }, { 10, 11, 6, 13 }, { 7, 15, 16, 17 } } },
        x[2]:scatter(-2, back, 2, { reduce = "multiply" }), 0, x[1])
      D.eq(cube(), x[2])
      assert.is_true(x[2]:scatter_(2, i, 100, { reduce = "add" }) == x[2])
      D.eq(cube():scatter_add(2, i, tide.full({ 2, 2, 4 }, 100., { device = D.dev })), x[2], 0, x[1])
      x[3]()
    end
  end)

  -- Values, what they meet, and their places from 0 in PyTorch: 1 0 3 1 1 3 0.
  it("reduces with and without what is there", function()
    local want = {
      sum = { { 15, 20, 30, 49, 50 }, { 5, 0, 30, 9, 50 } },
      prod = { { -140, -400, 30, 720, 50 }, { -14, -20, 30, 18, 50 } },
      mean = { { 5, 5, 30, 49 / 3, 50 }, { 2.5, 0, 30, 4.5, 50 } },
      amax = { { 10, 20, 30, 40, 50 }, { 7, 4, 30, 6, 50 } },
      amin = { { -2, -5, 30, 3, 50 }, { -2, -5, 30, 3, 50 } },
    }
    local k = I { 2, 1, 4, 2, 2, 4, 1 }
    for reduce, values in pairs(want) do
      for _, dtype in ipairs { "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64" } do
        local v, z = D.tensor({ 1, -2, 3, 4, -5, 6, 7 }, dtype), D.tensor({ 10, 20, 30, 40, 50 }, dtype)
        for n = 1, 2 do
          local expected = tide.tensor(values[n], { dtype = "float64" })
          if D.kind[dtype] == "I" then expected = expected:floor() end -- of a mean
          local r = z:scatter_reduce(1, k, v, reduce, { include_self = n == 1 })
          D.eq(expected, r:double(), D.eps[dtype] and 3 * D.eps[dtype] or 0, reduce .. " " .. dtype)
          assert.are.equal(dtype, D.dtype_name(r))
        end
        assert.is_true(z:scatter_reduce_(1, k, v, reduce) == z)
      end
    end
    local mask, at = D.tensor { true, false, true }, I { 1, 1, 2 }
    D.eq({ false, false, true }, mask:scatter_reduce(1, at, D.tensor { true, false, false }, "prod", { include_self = false }))
    D.eq({ true, false }, tide.zeros(2, { dtype = "bool", device = D.dev }):scatter_reduce(1, at, D.tensor { true, false, false }, "amax"))
    D.eq({ false, false }, tide.ones(2, { dtype = "bool", device = D.dev }):scatter_reduce(1, at, D.tensor { true, false, false }, "amin"))
  end)

  it("NaN wins in amax and amin, as in PyTorch", function()
    local v, nan = D.tensor { 1., 0 / 0, 5., 2. }, 0 / 0
    for _, reduce in ipairs { "amax", "amin" } do
      D.eq({ nan, reduce == "amax" and 5 or 0 }, tide.zeros(2, { device = D.dev }):scatter_reduce(1, I { 1, 1, 2, 1 }, v, reduce))
      D.eq({ nan, 5 }, tide.zeros(2, { device = D.dev }):scatter_reduce(1, I { 1, 1, 2, 1 }, v, reduce, { include_self = false }))
    end
  end)

  it("adds and multiplies complex numbers, which have no largest one", function()
    local c = tide.view_as_complex(D.tensor { { 1., 2. }, { 3., -1. }, { 0., -2. } })
    for _, dtype in ipairs { "complex64", "complex128" } do
      local one, v = tide.ones(2, { dtype = dtype, device = D.dev }), c:to(tide[dtype])
      D.eq({ { 4, -1 }, { 2, 0 } }, tide.view_as_real(one:scatter_add(1, I { 2, 1, 2 }, v)))
      D.eq({ { 3, -1 }, { 4, -2 } }, tide.view_as_real(one:scatter_reduce(1, I { 2, 1, 2 }, v, "prod")))
      D.raises("DtypeError", function() return one:scatter_reduce(1, I { 2, 1, 2 }, v, "amax") end)
    end
  end)

  it("adds every dtype as often as a place is named", function()
    for _, dtype in ipairs(D.dtypes) do
      local x = tide.ones(3, 2, { dtype = dtype, device = D.dev })
      local s = D.tensor({ { 1, 2 }, { 3, 4 }, { 5, 6 }, { 7, 8 } }, "int64"):to(tide[dtype])
      x:scatter_add_(1, I { { 1, 3 }, { 1, 1 }, { -1, 1 }, { 3, 1 } }, s)
      local want = tide.tensor({ { 5, 19 }, { 1, 1 }, { 13, 3 } }):to(tide[dtype])
      assert.is_true(x:cpu():equal(want), dtype .. ": " .. tostring(x))
    end
  end)

  it("takes its operands from x itself", function()
    local x = I { 2, 3, 1, 4 }
    D.eq({ 1, 2, 3, 4 }, x:scatter_(1, x, x))
    local y = D.tensor { { 1, 2 }, { 3, 4 } }
    y:index_add_(1, I { 1, 1 }, y)
    D.eq({ { 5, 8 }, { 3, 4 } }, y)
    y:index_copy_(1, I { 2, 1 }, y)
    D.eq({ { 3, 4 }, { 5, 8 } }, y)
    y:put_(I { 1, 2, 3, 4 }, y:t())
    D.eq({ { 3, 5 }, { 4, 8 } }, y)
  end)

  -- On a GPU blocks note first what they are to write.
  it("writes a number to the few places that a long list names", function()
    local n = (1 << 20) + 3
    for _, dtype in ipairs { "int64", "int32" } do
      local index = tide.arange(n, { dtype = dtype, device = D.dev }):remainder(1000) * 3 + 1
      local want = tide.full({ 3001 }, 9, { dtype = "uint8", device = D.dev })
      want:narrow(1, 1, 3000):view(1000, 3):select(2, 1):fill_(7)
      local x = tide.full({ 3001 }, 9, { dtype = "uint8", device = D.dev })
      assert.is_true(x:scatter_(1, index, 7):equal(want), dtype)
      local every_other = tide.full({ 6002 }, 9, { dtype = "uint8", device = D.dev }):view(3001, 2):select(2, 1)
      assert.is_true(every_other:scatter_(1, index - 3002, 7):equal(want), dtype)
      index:narrow(1, 777, 1):fill_(3002)
      D.raises("IndexError", function() return x:scatter_(1, index, 7):sum():item() end)
    end
  end)

  it("writes nothing for an index without elements, and none where x has none", function()
    local none = tide.empty(0, 4, 2, { dtype = "int64", device = D.dev })
    local x = cube()
    x:scatter_(2, none, 5):scatter_add_(2, none, tide.ones(1, { device = D.dev }))
    D.eq(cube(), x)
    D.raises("IndexError", function() tide.ones(0, { device = D.dev }):scatter_(1, I { 1 }, 5) end)
    D.eq(9, D.tensor(1.):scatter(1, D.tensor(1), 9))
    D.eq(10, D.tensor(1.):scatter_add(1, D.tensor(1), D.tensor(9.)))
  end)

  it("gives out= what it gives without", function()
    local i, x = planes(), cube()
    local wide = tide.empty(0, { dtype = "float64", device = D.dev })
    assert.is_true(x:scatter_add(2, i, source(), { out = wide }) == wide)
    D.eq(x:scatter_add(2, i, source()), wide)
    x:scatter_add(2, i, source(), { out = x })
    D.eq(x, wide)
    D.raises("ShapeError", function() x:scatter(2, i, 1, { out = tide.ones(7, { device = D.dev }) }) end)
  end)

  it("takes the tensor that is written as the index, too: its values of before", function()
    for _, write in ipairs {
      function(x, i) return x:put_(i, x:mul(10)) end, function(x, i) return x:put_(i, x:mul(10), { accumulate = true }) end,
      function(x, i) return x:scatter_(1, i, x:mul(10)) end, function(x, i) return x:scatter_add_(1, i, x:mul(10)) end,
      function(x, i) return x:scatter_reduce_(1, i, x:mul(10), "amax") end, function(x, i) return x:index_fill_(1, i:narrow(1, 2, 2), 40) end,
      function(x, i) return x:index_copy_(1, i, x:mul(10)) end, function(x, i) return x:index_add_(1, i, x:mul(10)) end,
      function(x, i) return x:index_put_({ i }, x:mul(10)) end, function(x, i) x[i] = x:mul(10) end,
      function(x, i) return x:index_put_({ i }, x:mul(10), { accumulate = true }) end, function(x, i) x[i] = 40 end,
      function(x, i) x:unsqueeze(2)[{ i, i:mul(0) + 1 }] = x:mul(10) end, function(x, i) return tide.take(x, i, { out = x }) end,
      function(x, i) return tide.gather(x, 1, i, { out = x }) end, function(x, i) return tide.index_select(x, 1, i, { out = x }) end,
    } do
      for _, n in ipairs { 4, 3000 } do
        for step = 1, 2 do -- dense, and every second one
          local values = ((tide.arange(n * step, { device = D.dev }) // step) * 7 % n + 1):long()
          local x, y = values:clone(), values:clone()
          local shown, apart = x:view(n, step):select(2, 1), y:view(n, step):select(2, 1)
          write(shown, shown)
          write(apart, apart:clone())
          assert.is_true(x:equal(y))
        end
      end
    end
  end)

  it("reports a bad value at the latest when it waits; on the cpu nothing is written then", function()
    for _, bad in ipairs { 0, 5, -5, math.maxinteger, math.mininteger } do
      for _, write in ipairs {
        function(x, i) return x:scatter_(1, i, 7.) end, function(x, i) return x:scatter_add_(1, i, x:clone()) end,
        function(x, i) return x:scatter_reduce_(1, i, x:clone(), "amax", { include_self = false }) end,
        function(x, i) return x:index_add_(1, i, x:clone()) end, function(x, i) return x:index_copy_(1, i, x:clone()) end,
        function(x, i) return x:index_fill_(1, i, 7) end, function(x, i) return x:put_(i, x:clone()) end,
        function(x, i) return x:gather(1, i) end, function(x, i) return x:take(i) end,
      } do
        local x = D.tensor { 1., 2., 3., 4. }
        local e = D.raises("IndexError", function()
          write(x, I { 1, 2, bad, 1 })
          D.sync()
        end)
        assert.is_truthy(e.message:find(("got %d, expected 1 to 4"):format(bad), 1, true), e.message)
        D.sync()
        if not D.cuda then D.eq({ 1, 2, 3, 4 }, x) end
      end
    end
  end)

  it("refuses what does not fit, by name, and changes nothing", function()
    local x, i = cube(), planes()
    D.raises("ShapeError", function() x:scatter_(2, i, source():narrow(3, 1, 3)) end)
    D.raises("ShapeError", function() x:scatter_(2, i[1], source()) end)
    D.raises("ShapeError", function() x:narrow(3, 1, 3):scatter_(2, i, source()) end)
    assert.matches("source, got float64, expected float32", D.raises("DtypeError", function() x:scatter_(2, i, source():double()) end).message)
    D.raises("DtypeError", function() x:scatter_add_(2, i:double(), source()) end)
    D.raises("ArgumentError", function() x:scatter_(2, i, source(), { reduce = "sum" }) end)
    assert.matches("'sum', 'prod', 'mean', 'amax' or 'amin'", D.raises("ArgumentError", function() x:scatter_reduce_(2, i, source(), "max") end).message)
    D.raises("ArgumentError", function() x:scatter_reduce_(2, i, source()) end)
    D.raises("ArgumentError", function() x:scatter_add_(2, i, 1) end)
    D.raises("ValueError", function() x[1]:expand(5, 3, 4):scatter_(1, tide.ones(5, 3, 4, { dtype = "int64", device = D.dev }), 1) end)
    D.raises("ValueError", function() D.tensor({ 1 }, "uint8"):scatter_(1, I { 1 }, 300) end)
    D.eq(cube(), x)
  end)
end)

describe("slices by index", function()
  D.watch(before_each, after_each)
  local function m() return f32(12, { 3, 4 }) end

  it("are added, written and filled, in every layout", function()
    for _, x in ipairs(D.layouts(m())) do
      D.eq({ { 2, 1, 2, 7 }, { 12, 5, 6, 23 }, { 22, 9, 10, 39 } }, x[2]:index_add(2, I { 4, 1, 4 }, f32(9, { 3, 3 }), { alpha = 2 }), 0, x[1])
      D.eq({ { -4, -5, -6, -7 }, { 4, 5, 6, 7 }, { 0, -1, -2, -3 } }, tide.index_copy(x[2], 1, I { 3, -3 }, -f32(8, { 2, 4 })), 0, x[1])
      D.eq({ { 9, 1, 9, 3 }, { 9, 5, 9, 7 }, { 9, 9, 9, 11 } }, x[2]:index_fill(-1, I { 1, 3 }, D.tensor(9)), 0, x[1])
      D.eq(m(), x[2])
      assert.is_true(x[2]:index_add_(1, I({ 1, 1 }, "int32"), tide.ones(2, 4, { device = D.dev })) == x[2])
      D.eq({ { 2, 3, 4, 5 }, { 4, 5, 6, 7 }, { 8, 9, 10, 11 } }, x[2])
      x[2]:index_copy_(2, I { 4 }, tide.zeros(3, 1, { device = D.dev })):index_fill_(1, D.tensor(2), -1)
      D.eq({ { 2, 3, 4, 0 }, { -1, -1, -1, -1 }, { 8, 9, 10, 0 } }, x[2])
      x[3]()
    end
  end)

  it("of every dtype, with long rows and rows of every rest", function()
    for _, dtype in ipairs(D.dtypes) do
      for _, columns in ipairs { 1, 2, 3, 4, 6, 8, 64, 65 } do
        local x, s = tide.ones(5, columns, { dtype = dtype, device = D.dev }), tide.ones(7, columns, { dtype = dtype, device = D.dev })
        x:index_add_(1, I { 1, 4, 1, 5, 1, -1, 3 }, s)
        local want = tide.tensor({ 4, 1, 2, 2, 3 }):to(tide[dtype]):view(5, 1):expand(5, columns)
        assert.is_true(x:cpu():equal(want:contiguous()), dtype .. " of " .. columns)
        local y = tide.zeros(5, columns, { dtype = dtype, device = D.dev }):index_copy(1, I { 2, 4 }, s:narrow(1, 1, 2))
        assert.is_true(y:cpu():equal(tide.tensor({ 0, 1, 0, 1, 0 }):to(tide[dtype]):view(5, 1):expand(5, columns):contiguous()), dtype)
      end
    end
  end)

  it("of x without dimensions or elements", function()
    D.eq(5, D.tensor(2.):index_add(1, D.tensor(1), D.tensor(3.)))
    D.eq({ 2 }, D.tensor({ 0 }):index_copy(1, D.tensor(1), D.tensor(2)))
    local none = tide.empty(0, { dtype = "int64", device = D.dev })
    D.eq(m(), m():index_add(1, none, tide.empty(0, 4, { device = D.dev })))
    assert.are.same({ 3, 0 }, tide.empty(3, 0, { device = D.dev }):index_add(1, I { 1 }, tide.empty(1, 0, { device = D.dev })):size())
  end)

  it("refuse what does not fit, by name", function()
    local x = m()
    D.raises("ShapeError", function() x:index_add_(1, I { 1, 2 }, tide.ones(3, 4, { device = D.dev })) end)
    D.raises("ShapeError", function() x:index_add_(1, I { { 1, 2 } }, tide.ones(2, 4, { device = D.dev })) end)
    D.raises("ShapeError", function() x:index_copy_(2, I { 1 }, tide.ones(1, 4, { device = D.dev })) end)
    D.raises("DtypeError", function() x:index_add_(1, I { 1 }, tide.ones(1, 4, { dtype = "int64", device = D.dev })) end)
    D.raises("DtypeError", function() x:long():index_add_(1, I { 1 }, tide.ones(1, 4, { dtype = "int64", device = D.dev }), { alpha = 0.5 }) end)
    D.raises("ShapeError", function() x:index_fill_(1, I { 1 }, D.tensor { 1., 2. }) end)
    D.raises("ArgumentError", function() x:index_add_(1, I { 1 }, tide.ones(1, 4, { device = D.dev }), { beta = 2 }) end)
    D.eq(m(), x)
  end)

  it("put writes to x as one line, or adds", function()
    for _, x in ipairs(D.layouts(m())) do
      D.eq({ { 0, 11, 2, 3 }, { 4, 55, 6, 7 }, { 8, 9, 10, 51 } },
        x[2]:put(I { { 2, 6 }, { 6, 12 } }, D.tensor { 10., 20., 30., 40. }, { accumulate = true }), 0, x[1])
      assert.is_true(x[2]:t():put_(I { { 2, 6 }, { -5, 12 } }, D.tensor { { 10., 20. }, { 30., 40. } }):equal(x[2]:t()))
      D.eq({ { 0, 1, 2, 3 }, { 10, 5, 30, 7 }, { 8, 20, 10, 40 } }, x[2], 0, x[1])
      x[3]()
    end
    D.raises("ShapeError", function() m():put_(I { 1, 2 }, D.tensor { 1. }) end)
    D.raises("DtypeError", function() m():put_(I { 1 }, D.tensor { 1 }) end)
  end)

  it("masked_scatter, masked_fill and index_put have forms that leave x alone", function()
    local x = m()
    for _, layout in ipairs(D.layouts(x)) do
      D.eq({ { 0, 1, 2, 3 }, { 4, 5, -1, -2 }, { -3, -4, -5, -6 } }, layout[2]:masked_scatter(x:gt(5), -1 - f32(9, { 9 })), 0, layout[1])
      D.eq({ { 7, 1, 7, 3 }, { 7, 5, 7, 7 }, { 7, 9, 7, 11 } }, layout[2]:masked_fill(D.tensor { true, false, true, false }, 7), 0, layout[1])
      D.eq({ { 0, 1, 2, 3 }, { 4, 5, 6, 7 }, { 8, 29, 10, 11 } }, layout[2]:index_put({ I { 3, 3 }, I { 2, 2 } }, 10, { accumulate = true }))
      D.eq(x, layout[2])
      assert.is_true(layout[2]:masked_scatter_(x:eq(0), D.tensor { 5., 6. }) == layout[2])
      D.eq(5, layout[2][{ 1, 1 }])
      layout[3]()
    end
    D.eq({ { 7, 2 }, { 1, 7 } }, D.tensor { 1, 2 }:masked_fill(D.tensor { { true, false }, { false, true } }, 7))
    D.eq({ { 5, 2 }, { 1, 6 } }, D.tensor { 1, 2 }:masked_scatter(D.tensor { { true, false }, { false, true } }, D.tensor { 5, 6 }))
    D.raises("ShapeError", function() x:masked_scatter_(x:gt(5), D.tensor { 1. }) end)
    D.raises("DtypeError", function() x:masked_scatter_(x:gt(5), x:long()) end)
    D.raises("DtypeError", function() x:masked_fill(x, 1) end)
  end)

  it("one_hot and embedding", function()
    D.eq({ { 1, 0, 0 }, { 0, 0, 1 }, { 0, 1, 0 } }, tide.one_hot(I { 1, 3, 2 }))
    D.eq({ { { 0, 0, 1, 0 } }, { { 1, 0, 0, 0 } } }, I({ { 3 }, { 1 } }, "int32"):one_hot(4))
    D.eq({ 0, 1 }, tide.one_hot(D.tensor(2)))
    assert.are.same({ 0, 3 }, tide.one_hot(tide.empty(0, { dtype = "int64", device = D.dev }), 3):size())
    D.raises("ValueError", function() return tide.one_hot(tide.empty(0, { dtype = "int64", device = D.dev })) end)
    D.raises("ValueError", function() return tide.one_hot(I { 1 }, 0) end)
    D.raises("DtypeError", function() return tide.one_hot(D.tensor { 1. }) end)
    D.raises("IndexError", function()
      tide.one_hot(I { 4 }, 3)
      D.sync()
    end)
    D.eq({ { { 8, 9, 10, 11 }, { 0, 1, 2, 3 } } }, tide.embedding(m(), I { { 3, 1 } }))
    D.raises("ShapeError", function() return tide.embedding(m()[1], I { 1 }) end)
  end)
end)

describe("values that meet", function()
  D.watch(before_each, after_each)
  after_each(function() tide.use_deterministic_algorithms(false) end)

  it("are counted exactly, however few the places", function()
    local n = 100000
    for _, places in ipairs { 1, 2, 33, 1000, 12000 } do
      local index = tide.arange(n, { dtype = "int64" }) * 7919 % places + 1
      local want = tide.bincount(index - 1)
      assert.is_true(tide.bincount((index - 1):to(D.dev)):cpu():equal(want), places)
      for _, dtype in ipairs { "int32", "int64", "float32", "float64" } do
        local x = tide.zeros(places, { dtype = dtype, device = D.dev })
        x:scatter_add_(1, index:to(D.dev), tide.ones(n, { dtype = dtype, device = D.dev }))
        assert.is_true(x:cpu():long():equal(want), places .. " " .. dtype)
      end
      local sorted = tide.arange(n, { dtype = "int64" }):floor_divide(n // places + 1) + 1 -- runs of one place
      local x = tide.zeros(places, { device = D.dev }):index_add_(1, sorted:to(D.dev), tide.ones(n, { device = D.dev }))
      assert.is_true(x:cpu():long():equal(tide.bincount(sorted - 1, { minlength = places })), places)
    end
  end)

  -- A sum of floats in another order has another value: the order is the index's, for any number of threads.
  it("meet in order on the cpu, and on a GPU where that is asked for", function()
    local n, places = 60000, 11
    local index = tide.arange(n, { dtype = "int64" }) * 31 % places + 1
    local threads = tide.get_num_threads()
    tide.use_deterministic_algorithms(true)
    for _, dtype in ipairs { "float32", "complex64" } do
      local v = (tide.arange(n, { dtype = "float32" }) * 0.7):sin():to(tide[dtype])
      local rows, row_index = v:narrow(1, 1, 3 * 2000):view(2000, 3), index:narrow(1, 1, 2000)
      tide.set_num_threads(1)
      local sum = tide.zeros(places, { dtype = dtype }):scatter_add(1, index, v)
      local prod = tide.ones(places, { dtype = dtype }):scatter_reduce(1, index, v * 0.01 + 1, "prod")
      local slices = tide.zeros(places, 3, { dtype = dtype }):index_add(1, row_index, rows)
      local last = tide.zeros(places, { dtype = dtype }):scatter(1, index, v)
      for _, t in ipairs { 1, 2, 5 } do
        tide.set_num_threads(t)
        local dev = { dtype = dtype, device = D.dev }
        local i = index:to(D.dev)
        assert.is_true(tide.zeros(places, dev):scatter_add(1, i, v:to(D.dev)):cpu():equal(sum))
        assert.is_true(tide.zeros(places, 3, dev):index_add(1, row_index:to(D.dev), rows:to(D.dev)):cpu():equal(slices))
        assert.is_true(tide.zeros(places, dev):scatter(1, i, v:to(D.dev)):cpu():equal(last))
        local p = tide.ones(places, dev):scatter_reduce(1, i, (v * 0.01 + 1):to(D.dev), "prod"):cpu()
        assert.is_true((p - prod):abs():le(prod:abs() * 1e-5):all():item())
      end
    end
    tide.set_num_threads(threads)
  end)

  it("meet in order where threads share a tensor that no cache holds", function()
    local n, places, threads = 100000, 1 << 23, tide.get_num_threads()
    local index = tide.arange(n, { dtype = "int64" }) * 7919 % 997 * 8413 + 1
    local v = (tide.arange(n, { dtype = "float32" }) * 0.7):sin()
    local sum, last
    for _, t in ipairs { 1, 2, 5 } do
      tide.set_num_threads(t)
      local x = tide.zeros(places)
      x:scatter_add_(1, index, v)
      local got = x:take(index:narrow(1, 1, 997))
      x:scatter_(1, index, v)
      local written = x:take(index:narrow(1, 1, 997))
      sum, last = sum or got, last or written
      assert.is_true(got:equal(sum) and written:equal(last), t)
      assert.are.equal(997, x:ne(0):sum():item())
    end
    tide.set_num_threads(threads)
    D.eq(v:narrow(1, n - 996, 997):sum():item(), last:sum():item(), 1e-3)
  end)
end)

describe("many values and places", function()
  D.watch(before_each, after_each)
  local threads = tide.get_num_threads()
  after_each(function() tide.set_num_threads(threads) end)

  -- Numbers that name all of n places in no order, as 7919 has no factor of n; the last ones counted from the end.
  local function mixed(n, places)
    local index = tide.arange(n, { dtype = "int64", device = D.dev }) * 7919 % places + 1
    index:narrow(1, n - 100, 101):sub_(places + 1)
    return index
  end

  it("of every size come where they belong, in one go or several", function()
    for _, t in ipairs { 1, 3 } do
      tide.set_num_threads(t)
      for _, dtype in ipairs { "uint8", "float16", "float32", "float64", t > 1 and "complex64" or nil } do
        local n, places = dtype == "complex64" and 3400003 or 70001, dtype == "complex64" and 1 << 22 or 1 << 20
        local index, dev = mixed(n, places), { dtype = dtype, device = D.dev }
        local v = (tide.arange(n, { dtype = "int64", device = D.dev }) % 97 + 1):to(tide[dtype])
        local x = tide.zeros(places + 2, dev)
        x:narrow(1, 2, places):scatter_(1, index, v)
        assert.is_true(x:narrow(1, 2, places):take(index):equal(v), dtype)
        assert.are.equal(n, x:ne(0):sum():item())
        local twice = tide.zeros(places * 2, dev):view(places, 2):select(2, 2)
        assert.is_true(twice:scatter_add_(1, index, v):index_add_(1, index, v):equal(x:narrow(1, 2, places) * 2), dtype)
        x:narrow(1, 2, places):put_(index:view(n, 1), tide.full({}, 5, dev):expand(n, 1))
        assert.is_true(x:eq(5):sum():item() >= n)
      end
    end
  end)

  it("count from lists that are read once, and write nothing there if one is bad", function()
    local n, rows = 70001, 300
    for _, t in ipairs { 1, 2 } do
      tide.set_num_threads(t)
      for name, case in pairs {
        ["a line that no near cache holds"] = { 1 << 20, n, { n }, "float32" },
        ["a few sums"] = { 500, 500, { n }, "int64" },
        ["lines of a matrix"] = { rows, 200, { rows, 400 }, "float32" },
        ["a short line"] = { 9000, 9000, { n }, "float64" },
      } do
        local places, named, shape, dtype = table.unpack(case)
        local size, dim, dev = #shape == 1 and { places } or { places, named }, #shape, { dtype = dtype, device = D.dev }
        local index = tide.arange(shape[1] * (shape[2] or 1), { dtype = "int64", device = D.dev }):view(shape) * 31 % named + 1
        local x, v = tide.full(size, 3, dev), tide.ones(shape, dev)
        x:scatter_add_(dim, index, v)
        assert.are.equal(x:numel() * 3 + v:numel(), x:sum():item(), name)
        local before = x:clone()
        index:view(-1):narrow(1, index:numel() - 5, 1):fill_(size[dim] + 1)
        for _, write in ipairs { "scatter_add_", "scatter_" } do
          local e = D.raises("IndexError", function()
            x[write](x, dim, index, v)
            D.sync()
          end)
          local want = ("got %d, expected 1 to %d"):format(size[dim] + 1, size[dim])
          assert.is_truthy(e.message:find(want, 1, true), name .. ": " .. e.message)
          D.sync()
          if not D.cuda then assert.is_true(x:equal(before), name .. " " .. write) end
        end
      end
    end
  end)

  it("fall in the bins of any list", function()
    local v = (tide.arange(100003, { dtype = "float64" }) * 0.37):sin():mul_(4)
    v[7], v[8], v[9], v[10], v[11] = 0 / 0, 1 / 0, -1 / 0, 3, -3
    for _, dtype in ipairs { "float32", "float64" } do
      local x = v:to(tide[dtype])
      local inside = x:ge(-3):logical_and(x:le(3))
      local bin = ((x[inside] + 3) * 100 / 6):long():clamp(0, 99)
      local want = tide.bincount(bin, { minlength = 100 })
      for _, t in ipairs { 1, 2, 5 } do
        tide.set_num_threads(t)
        assert.is_true(x:to(D.dev):histc(100, -3, 3):cpu():long():equal(want), dtype)
      end
    end
  end)
end)

describe("counts", function()
  D.watch(before_each, after_each)

  it("bincount counts, or sums weights", function()
    for _, dtype in ipairs { "uint8", "int8", "int16", "int32", "int64" } do
      local x = D.tensor({ 3, 0, 1, 1, 3, 3 }, dtype)
      local r = tide.bincount(x)
      D.eq({ 1, 2, 0, 3 }, r)
      assert.are.equal("int64", D.dtype_name(r))
      D.eq({ 1, 2, 0, 3, 0, 0 }, x:bincount { minlength = 6 })
      for _, weight in ipairs { "uint8", "int64", "float32", "float64" } do
        local w = tide.bincount(x, D.tensor({ 1, 2, 3, 4, 5, 6 }, weight))
        D.eq({ 2, 7, 0, 12 }, w)
        assert.are.equal(weight == "float32" and "float32" or "float64", D.dtype_name(w))
      end
    end
    D.eq({ 0, 0, 0 }, tide.bincount(tide.empty(0, { dtype = "int64", device = D.dev }), { minlength = 3 }))
    D.eq({ 1, 0, 2 }, D.tensor({ 2, 9, 0, 9, 2 }):slice(1, 1, -1, 2):bincount())
    D.raises("ValueError", function() return tide.bincount(D.tensor { 1, -1 }) end)
    D.raises("ShapeError", function() return tide.bincount(D.tensor { { 1 } }) end)
    D.raises("DtypeError", function() return tide.bincount(D.tensor { 1. }) end)
    D.raises("ShapeError", function() return tide.bincount(D.tensor { 1 }, D.tensor { 1., 2. }) end)
    D.raises("ValueError", function() return tide.bincount(D.tensor { 1 }, { minlength = -1 }) end)
  end)

  local values = { 0.1, 0.9, 2.5, 2.5, 3.9, 4.0, -1, 7, 0.5 }

  it("histc counts what is in its bounds", function()
    local h = D.tensor(values)
    D.eq({ 3, 0, 2, 2 }, h:histc(4, 0, 4))
    D.eq({ 4, 2, 2, 1 }, h:histc(4))
    D.eq({ 3, 0, 2, 2 }, tide.cat({ h, D.tensor { 0 / 0, 1 / 0 } }):histc { bins = 4, min = 0, max = 4 })
    for _, dtype in ipairs { "int32", "float16", "bfloat16", "float64" } do
      local r = D.tensor({ 1, 2, 2, 4, 9 }, dtype):histc(4, 0, 4)
      D.eq({ 0, 1, 2, 1 }, r)
      assert.are.equal(dtype, D.dtype_name(r))
    end
    assert.are.equal(100, D.tensor { 1. }:histc():numel())
    D.eq({ 0, 2, 0 }, D.tensor { 5., 5. }:histc(3))
    for _, dtype in ipairs { "int32", "int64", "float64" } do -- neighbours that are one value as float32
      D.eq({ 1, 1, 1 }, D.tensor({ 16777216, 16777217, 16777218 }, dtype):histc(3))
      D.eq({ 1, 1, 1 }, D.tensor({ -16777218, -16777217, -16777216 }, dtype):histc(3))
    end
    D.eq({ 0, 0 }, tide.empty(0, { device = D.dev }):histc(2))
    local big, out = (tide.arange(200000, { dtype = "float32", device = D.dev }) % 8), tide.empty(8, { device = D.dev })
    assert.is_true(big:histc(8, 0, 8, { out = out }) == out)
    D.eq({ 25000, 25000, 25000, 25000, 25000, 25000, 25000, 25000 }, out)
    D.raises("ValueError", function() return h:histc(4, 2, 1) end)
    D.raises("ValueError", function() return h:histc(0) end)
    D.raises("ValueError", function() return D.tensor { 1., 1 / 0 }:histc(4) end)
    D.raises("DtypeError", function() return D.tensor { true }:histc(4) end)
  end)

  it("histogram gives the edges too", function()
    local h = D.tensor(values):narrow(1, 1, 8)
    local function check(want, edges, counts, found)
      D.eq(want, counts, 1e-6)
      D.eq(edges, found, 1e-6)
    end
    check({ 3, 2, 2, 1 }, { -1, 1, 3, 5, 7 }, h:histogram(4))
    check({ 0, 0, 0, 0 }, { 0, 0.25, 0.5, 0.75, 1 }, h:narrow(1, 1, 0):histogram(4))
    check({ 3, 0, 7, 11 }, { 0, 1, 2, 3, 4 }, h:histogram(4, { range = { 0, 4 }, weight = D.tensor { 1., 2., 3., 4., 5., 6., 7., 8. } }))
    check({ 0.1666666716337204, 0.0625, 0.1388888955116272 }, { -1, 0.5, 2.5, 7 }, h:histogram(D.tensor { -1, 0.5, 2.5, 7 }, { density = true }))
    local counts, edges = tide.empty(0, { device = D.dev }), tide.empty(0, { device = D.dev })
    local a, b = tide.histogram(h, 4, { out = { counts, edges } })
    assert.is_true(a == counts and b == edges)
    D.eq({ -1, 1, 3, 5, 7 }, edges)
    D.raises("DtypeError", function() return D.tensor { 1 }:histogram(2) end)
    D.raises("DtypeError", function() return h:histogram(D.tensor { 1, 2 }) end)
    D.raises("ShapeError", function() return h:histogram(D.tensor { 1. }) end)
    D.raises("ShapeError", function() return h:histogram(2, { weight = D.tensor { 1. } }) end)
    D.raises("ValueError", function() return h:histogram(0) end)
    D.raises("ArgumentError", function() return h:histogram(2, { range = 3 }) end)
    D.raises("ArgumentError", function() return h:histogram(D.tensor { 1., 2. }, { range = { 0, 1 } }) end)
  end)
end)
