-- softmax and log_softmax: PyTorch's values, lines of every length around the borders of pieces, in
-- adversarial layouts; infinities and NaN; what is refused.

local tide = require "tide"
local D = require "spec.support.device"

local nan, inf = 0 / 0, math.huge

-- In double, by the definition: of a plain list.
local function reference(x, logarithm)
  local most, sum, out = -inf, 0, {}
  for _, v in ipairs(x) do most = math.max(most, v) end
  for _, v in ipairs(x) do sum = sum + math.exp(v - most) end
  for i, v in ipairs(x) do out[i] = logarithm and v - most - math.log(sum) or math.exp(v - most) / sum end
  return out
end

describe("softmax", function()
  D.watch(before_each, after_each)

  it("gives PyTorch's values", function()
    local x = D.tensor { { 1., 2., 3. }, { -4., 5., 0.5 } }
    local p = { { 0.09003057, 0.24472847, 0.66524096 }, { 0.00012204, 0.98889236, 0.01098560 } }
    D.eq(p, x:softmax(2), 1e-6)
    D.eq(p, tide.softmax(x, -1), 1e-6)
    D.eq({ { 0.9933072, 0.04742587, 0.9241418 }, { 0.00669285, 0.9525741, 0.07585818 } }, x:softmax(1), 1e-6)
    local logs = { { -2.4076059, -1.4076059, -0.4076059 }, { -9.0111698, -0.0111698, -4.5111698 } }
    D.eq(logs, x:log_softmax(2), 1e-6)
    D.eq(logs, tide.special.log_softmax(x, 2), 1e-6)
    D.eq(p, tide.special.softmax(x, 2), 1e-6)
  end)

  it("does not overflow, and keeps small logarithms", function()
    D.eq({ 0.5, 0.5, 0 }, D.tensor({ 1e4, 1e4, -1e4 }):softmax(1))
    D.eq({ -0.69314718, -0.69314718, -20000.693 }, D.tensor({ 1e4, 1e4, -1e4 }):log_softmax(1), 1e-6)
    D.eq({ 0, -500 }, D.tensor({ 500., 0. }, "float64"):log_softmax(1), 1e-12)
  end)

  it("makes NaN of what has no value, line by line", function()
    local x = D.tensor { { -inf, -inf, -inf }, { inf, 1, 2 }, { nan, 1, 2 }, { nan, nan, -inf }, { -inf, 0, 0 } }
    for _, y in ipairs { x, x.T:contiguous().T, x:unsqueeze(3):expand(5, 3, 40):contiguous():select(3, 7) } do
      D.eq({ { nan, nan, nan }, { nan, nan, nan }, { nan, nan, nan }, { nan, nan, nan }, { 0, 0.5, 0.5 } }, y:softmax(2))
      local logs = y:log_softmax(2):tolist()
      for i = 1, 4 do D.eq({ nan, nan, nan }, logs[i]) end
      D.eq({ -inf, math.log(0.5), math.log(0.5) }, logs[5], 1e-6)
    end
    -- Lines of several pieces, or of columns that lie side by side; what is special stands at either end of them.
    for _, n in ipairs { 33, 1025, 40000 } do
      for _, at in ipairs { 1, n } do
        local line = tide.full({ n }, -inf, { device = D.dev })
        assert.is_true(line:softmax(1):isnan():all():item())
        line[at] = 3
        local y = line:softmax(1)
        assert.are.equal(1, y[at]:item())
        assert.are.equal(1, y:sum():item())
        local many = line:unsqueeze(2):expand(n, 35):contiguous()
        assert.are.equal(35, many:softmax(1):sum():item())
        for _, v in ipairs { nan, inf } do
          line[at] = v
          assert.is_true(line:softmax(1):isnan():all():item(), n .. " " .. v)
          assert.is_true(line:log_softmax(1):isnan():all():item(), n .. " " .. v)
          many:copy_(line:unsqueeze(2):expand(n, 35))
          assert.is_true(many:softmax(1):isnan():all():item(), n .. " " .. v)
        end
      end
    end
  end)

  it("makes NaN of lines that hold nothing, beside others, in every dtype", function()
    for _, dtype in ipairs { "float16", "bfloat16", "float32", "float64" } do
      for _, n in ipairs { 1, 2, 7, 33, 64, 65, 200, 256, 257, 600, 1025 } do
        local x = tide.randn(5, n, { device = D.dev }):to(dtype)
        x[2], x[4] = -inf, -inf
        for _, logarithm in ipairs { false, true } do
          local y = logarithm and x:log_softmax(2):to("float32"):exp() or x:softmax(2):to("float32")
          local across = logarithm and x:t():log_softmax(1):t():to("float32"):exp() or x:t():softmax(1):t():to("float32")
          for _, z in ipairs { y, across } do
            D.eq({ false, true, false, true, false }, z:isnan():all(2), 0, dtype .. " " .. n)
            D.eq({ false, true, false, true, false }, z:isnan():any(2), 0, dtype .. " " .. n)
            for i = 1, 5, 2 do D.eq(1, z[i]:sum(), 0.1) end
          end
        end
      end
    end
  end)

  -- The CPU's threads share a line of four stretches of 32768 or more; some of them hold nothing.
  it("joins the stretches of a long line, empty ones too", function()
    local values = { 1.5, -2, 0.25, 3 }
    for _, n in ipairs { 98304, 98305, 131073 } do
      for _, places in ipairs { { 1 }, { n }, { n // 2 }, { 3, n }, { n // 3, n // 2, n - 1 }, { 1, 32768, 32769, 65537 } } do
        local dtype = #places % 2 == 1 and "float32" or "float64"
        local line, list = tide.full({ n }, -inf, { device = D.dev, dtype = dtype }), {}
        for i, at in ipairs(places) do line[at], list[i] = values[i], values[i] end
        local want, logs = reference(list), reference(list, true)
        assert.is_true(math.abs(line:logsumexp():item() - (values[1] - logs[1])) < 1e-5)
        for _, x in ipairs { line, line:unsqueeze(2):expand(n, 2):contiguous():select(2, 2) } do
          local y, l = x:softmax(1), x:log_softmax(1)
          assert.are.equal(#places, y:ne(0):sum():item())
          assert.are.equal(n - #places, l:eq(-inf):sum():item())
          for i, at in ipairs(places) do
            D.eq(want[i], y[at]:item(), 1e-6)
            D.eq(logs[i], l[at]:item(), 1e-5)
          end
        end
        for _, v in ipairs { nan, inf } do
          line[places[#places]] = v
          assert.is_true(line:softmax(1):isnan():all():item())
          assert.is_true(line:log_softmax(1):isnan():all():item())
        end
      end
    end
  end)

  it("takes floating dtypes, and casts first where one is named", function()
    for _, dtype in ipairs { "float16", "bfloat16", "float32", "float64" } do
      local y = D.tensor({ 1., 2., 3. }, dtype):softmax(1)
      assert.are.equal(tide[dtype], y.dtype)
      D.eq({ 0.0900305731704, 0.2447284710548, 0.6652409557748 }, y, D.eps[dtype])
      y = D.tensor({ 1, 2, 3 }):log_softmax(1, { dtype = dtype })
      assert.are.equal(tide[dtype], y.dtype)
      D.eq({ -2.407605964444, -1.407605964444, -0.407605964444 }, y, 2 * D.eps[dtype])
    end
    -- Computed in float32: in float16 the sum would be 2048.
    local x = tide.zeros(3000, { device = D.dev, dtype = "float16" })
    D.eq(1 / 3000, x:softmax(1)[7]:item(), 2e-3 / 3000)
    assert.are.equal(tide.float64, D.tensor({ true, false }):softmax(1, { dtype = tide.float64 }).dtype)
  end)

  -- Pieces of the CPU end at multiples of 1024 and 32768; a GPU's rows at powers of 2, and its tiles at 16384.
  it("takes lines of any length", function()
    for _, n in ipairs { 1, 2, 7, 8, 9, 31, 32, 33, 40, 100, 128, 255, 256, 500, 1000, 1024, 1025, 2052, 4096, 5000, 16384, 16385, 40000 } do
      local x = tide.arange(n, { device = D.dev }):mul(37):remainder(101):double():div(7)
      local list = x:tolist()
      for _, logarithm in ipairs { false, true } do
        local want, name = reference(list, logarithm), logarithm and "log_softmax" or "softmax"
        local scale = logarithm and 1 or 1 / n
        for _, dtype in ipairs { "float64", "float32" } do
          local y = x:to(dtype)
          local tolerance = dtype == "float64" and 1e-12 or 2e-5
          local function near(got, what)
            local off = (got:double() - D.tensor(want, "float64")):abs():max():item()
            assert.is_true(off <= tolerance * scale * 20, ("%s, n = %d, %s: off by %g"):format(name, n, what, off))
          end
          near(y[name](y, 1), "a line")
          local columns = y:unsqueeze(2):expand(n, 3):contiguous()
          near(columns[name](columns, 1):select(2, 3), "three columns")
          columns = y:unsqueeze(2):expand(n, 40):contiguous()
          near(columns[name](columns, 1):select(2, 39), "columns")
          local rows = y:unsqueeze(1):expand(9, n):contiguous()
          near(rows[name](rows, 2):select(1, 8), "rows")
          local apart = y:unsqueeze(2):expand(n, 2):contiguous():unsqueeze(1):expand(3, n, 2):contiguous()
          near(apart[name](apart, 2)[3]:select(2, 1), "in the middle")
        end
      end
    end
  end)

  it("sees any layout alike", function()
    local x = tide.randn({ 3, 5, 4 }, { device = D.dev })
    for d = 1, 3 do
      local want = x:softmax(d):tolist()
      for _, layout in ipairs(D.layouts(x)) do
        D.eq(want, layout[2]:softmax(d), 0, layout[1])
        layout[3]()
      end
    end
  end)

  it("takes tensors without elements, and no dims", function()
    for _, size in ipairs { { 0 }, { 3, 0 }, { 0, 3 } } do
      local x = tide.empty(size, { device = D.dev })
      assert.are.same(size, x:softmax(-1):size())
      assert.are.same(size, x:log_softmax(1):size())
    end
    D.eq(1, D.tensor(5.):softmax(1))
    D.eq(0, D.tensor(5.):log_softmax(-1))
  end)

  it("writes to a destination, which may be what it reads", function()
    local x, out = D.tensor { 1., 2., 3. }, tide.empty(0, { device = D.dev })
    assert.are.equal(out, x:softmax(1, { out = out }))
    D.eq({ 0.09003057, 0.24472847, 0.66524096 }, out, 1e-6)
    for _, n in ipairs { 3, 1000, 20000 } do
      for _, name in ipairs { "softmax", "log_softmax" } do
        local y = tide.randn({ n, 34 }, { device = D.dev })
        for d = 1, 2 do
          local want, z = y[name](y, d), y:clone()
          z[name](z, d, { out = z })
          assert.is_true(tide.equal(want, z), name .. " of n = " .. n)
        end
        local line = y:select(2, 1):contiguous()
        local want = line[name](line, 1)
        line[name](line, 1, { out = line })
        assert.is_true(tide.equal(want, line), name .. " of a line of " .. n)
      end
    end
    local m = D.tensor { { 1., 2. }, { 3., 4. } }
    m.T:softmax(1, { out = m }) -- the same elements in another order
    D.eq({ { 0.26894142, 0.26894142 }, { 0.73105858, 0.73105858 } }, m, 1e-6)
  end)

  it("gives equal bits again", function()
    for _, n in ipairs { 300, 100000 } do
      local x = tide.randn({ n }, { device = D.dev })
      local first = x:log_softmax(1)
      for _ = 1, 3 do assert.is_true(tide.equal(first, x:log_softmax(1))) end
    end
  end)

  it("gives equal bits with any number of threads", function()
    if D.cuda then return pending "is about the CPU alone" end
    local x, threads = tide.randn(300000), tide.get_num_threads()
    local many = x:softmax(1)
    tide.set_num_threads(1)
    local one = x:softmax(1)
    tide.set_num_threads(threads)
    assert.is_true(tide.equal(many, one))
  end)

  it("refuses what it cannot take", function()
    local x = D.tensor { 1., 2. }
    D.raises("ArgumentError", function() x:softmax() end)
    D.raises("IndexError", function() x:softmax(2) end)
    D.raises("IndexError", function() x:softmax(0) end)
    D.raises("DtypeError", function() D.tensor({ 1, 2 }):softmax(1) end)
    D.raises("DtypeError", function() x:to("complex64"):log_softmax(1) end)
    D.raises("DtypeError", function() x:softmax(1, { dtype = "int64" }) end)
    D.raises("DtypeError", function() x:softmax(1, { out = tide.empty(2, { dtype = "int32", device = D.dev }) }) end)
    D.raises("ShapeError", function() x:softmax(1, { out = tide.empty(3, { device = D.dev }) }) end)
    D.eq({ 1, 2 }, x)
  end)
end)
