-- Scans along a dim and differences: PyTorch's values, plain Lua's around the borders of tiles, in
-- adversarial layouts; what is refused.

local tide = require "tide"
local D = require "spec.support.device"

local nan, inf = 0 / 0, math.huge
local function same(expected, x, what) D.eq(expected, x, 0, what) end

describe("scan: sums, products and extremes", function()
  D.watch(before_each, after_each)

  it("give PyTorch's values", function()
    local x = D.tensor { { 1., 2., 3. }, { -4., 5., 0.5 } }
    same({ { 1, 2, 3 }, { -3, 7, 3.5 } }, x:cumsum(1))
    same({ { 1, 3, 6 }, { -4, 1, 1.5 } }, tide.cumsum(x, -1))
    same({ { 1, 2, 6 }, { -4, -20, -10 } }, x:cumprod(2))
    D.eq({ { 1, 2.3132616, 3.4076059 }, { -4, 5.0001235, 5.0111698 } }, x:logcumsumexp(2), 1e-5)
    local values, indices = x:cummax(1)
    same({ { 1, 2, 3 }, { 1, 5, 3 } }, values)
    same({ { 1, 1, 1 }, { 1, 2, 1 } }, indices)
    values, indices = x:cummin(2)
    same({ { 1, 1, 1 }, { -4, -4, -4 } }, values)
    same({ { 1, 1, 1 }, { 1, 1, 1 } }, indices)
  end)

  it("let NaN win, and the last one of equals", function()
    local values, indices = D.tensor({ 1., 3., 3., nan, 2., nan, 5. }):cummax(1)
    same({ 1, 3, 3, nan, nan, nan, nan }, values)
    same({ 1, 2, 3, 4, 4, 6, 6 }, indices)
    values, indices = D.tensor({ 3., 1., 1., nan, 2. }):cummin(1)
    same({ 3, 1, 1, nan, nan }, values)
    same({ 1, 2, 3, 4, 4 }, indices)
    values, indices = D.tensor({ true, false, true }):cummax(1)
    same({ true, true, true }, values)
    same({ 1, 1, 3 }, indices)
  end)

  it("keep logarithms of sums finite", function()
    D.eq({ 1000, 1000.6931472, 1001.0986123 }, D.tensor({ 1000., 1000., 1000. }, "float64"):logcumsumexp(1), 1e-6)
    same({ -inf, -inf, 1, inf, inf }, D.tensor({ -inf, -inf, 1., inf, 3. }):logcumsumexp(1))
    same({ 1, nan, nan }, D.tensor({ 1., nan, 2. }):logcumsumexp(1))
  end)

  it("keep the digits of logarithms of sums that rise, fall and spread", function()
    local function of(n, f)
      local x, sums, sum = {}, {}, -inf
      for i = 1, n do
        x[i] = f(i)
        local high, low = math.max(sum, x[i]), math.min(sum, x[i])
        local part = high == low and 1 or math.exp(low - high)
        -- log(1 + part), of which small parts lose nothing
        if high ~= -inf then sum = high + (part < 1e-4 and part - part * part / 2 or math.log(1 + part)) end
        sums[i] = sum
      end
      return x, sums
    end
    local forms = {
      rising = function(i) return i * 0.02 - 100 end,
      falling = function(i) return 100 - i * 0.02 end,
      steps = function(i) return i // 1000 * 9 - 30 end,
      spread = function(i) return i * 7919 % 1009 - 500 end,
      close = function(i) return i * 7919 % 1009 / 1009 end,
      late = function(i) return i < 3000 and -inf or i * 7919 % 1009 / 1009 end,
    }
    for name, f in pairs(forms) do
      for _, n in ipairs { 1, 2, 15, 17, 1025, 20000 } do
        local x, sums = of(n, f)
        D.eq(sums, D.tensor(x, "float64"):logcumsumexp(1), 1e-10, name .. ", n = " .. n)
        D.eq(sums, D.tensor(x, "float32"):logcumsumexp(1), 1e-4, name .. ", n = " .. n)
        local columns = D.tensor(x, "float64"):unsqueeze(2):expand(n, 3):clone():logcumsumexp(1)
        D.eq(sums, columns:select(2, 2), 1e-10, name .. ", n = " .. n)
      end
    end
    for _, n in ipairs { 2, 17, 1025, 9000 } do -- nothing yet, up to each border of blocks and pieces; then one number
      for _, none in ipairs { 0, 1, 15, 16, 17, 1023, 1024, 1025, 4096 } do
        if none < n then
          local x, sums = of(n, function(i) return i <= none and -inf or 0.5 end)
          D.eq(sums, D.tensor(x, "float64"):logcumsumexp(1), 1e-10, none .. " of " .. n)
          D.eq(sums, D.tensor(x, "float64"):unsqueeze(2):expand(n, 3):clone():logcumsumexp(1):select(2, 3), 1e-10,
            none .. " of " .. n)
          for _, v in ipairs { nan, inf } do
            x[none + 1] = v
            for i = none + 1, n do sums[i] = v end
            D.eq(sums, D.tensor(x, "float64"):logcumsumexp(1), 1e-10, v .. " after " .. none .. " of " .. n)
          end
        end
      end
    end
    local x, sums = of(20000, forms.close)
    x[18000], x[19000] = inf, nan
    for i = 18000, 20000 do sums[i] = i < 19000 and inf or nan end
    D.eq(sums, D.tensor(x, "float64"):logcumsumexp(1), 1e-10)
  end)

  it("take and give PyTorch's dtypes", function()
    for _, dtype in ipairs { "bool", "uint8", "int8", "int16", "int32", "int64" } do
      local x = D.tensor({ 1, 0, 1, 1 }):to(dtype)
      assert.are.equal(tide.int64, x:cumsum(1).dtype)
      same({ 1, 1, 2, 3 }, x:cumsum(1))
      same({ 1, 0, 0, 0 }, x:cumprod(1))
      assert.are.equal(x.dtype, (x:cummax(1)).dtype)
    end
    for _, dtype in ipairs { "float16", "bfloat16", "float32", "float64", "complex64", "complex128" } do
      local x = D.tensor({ 1, 2, 3 }):to(dtype)
      assert.are.equal(x.dtype, x:cumsum(1).dtype)
      same({ 1, 3, 6 }, x:cumsum(1):real())
      same({ 1, 2, 6 }, x:cumprod(1):real())
    end
    local wrapped = D.tensor({ 1, 2, 300 }, "int16"):cumsum(1, { dtype = "uint8" })
    same({ 1, 3, 47 }, wrapped)
    same({ 1, 3 }, D.tensor({ 1.5, 2. }):cumsum(1, { dtype = "int64" }))
    assert.are.equal(tide.uint8, wrapped.dtype)
  end)

  it("take lines without elements, and no dims", function()
    for _, size in ipairs { { 0 }, { 3, 0 }, { 0, 3 } } do
      local x = tide.empty(size, { device = D.dev })
      assert.are.same(size, x:cumsum(-1):size())
      local values, indices = x:cummin(1)
      assert.are.same(size, values:size())
      assert.are.same(size, indices:size())
    end
    local x = D.tensor(5.)
    same(5, x:cumsum(1))
    local values, indices = x:cummax(-1)
    same(5, values)
    same(1, indices)
  end)

  it("write to a destination, and in place", function()
    local x, out = D.tensor { 1., 2., 3. }, tide.empty(0, { device = D.dev })
    assert.are.equal(out, x:cumsum(1, { out = out }))
    same({ 1, 3, 6 }, out)
    assert.are.equal(x, x:cumsum_(1))
    same({ 1, 3, 6 }, x)
    same({ 1, 3, 18 }, x:cumprod_(1))
    local i = D.tensor({ 1, 2, 3 }, "int32")
    same({ 1, 3, 6 }, i:cumsum_(1))
    assert.are.equal(tide.int32, i.dtype)
    local m = D.tensor { { 1., 2. }, { 3., 4. } }
    same({ { 1, 3 }, { 3, 7 } }, m.T:cumsum_(1).T)
    local values, indices = tide.empty(0, { device = D.dev }), tide.empty(0, { device = D.dev, dtype = "int64" })
    D.tensor({ 1., 3., 2. }):cummax(1, { out = { values, indices } })
    same({ 1, 3, 3 }, values)
    same({ 1, 2, 2 }, indices)
  end)

  -- The tiles of both kinds of backends end at multiples of 256; the columns of a GPU have tiles of 128 rows.
  it("join tiles in order", function()
    for _, n in ipairs { 31, 33, 127, 129, 255, 257, 1023, 1025, 4097, 8193, 16383, 16385, 70001 } do
      local x = tide.arange(n, { device = D.dev }):remainder(7)
      local sums, s = {}, 0
      for i = 1, n do
        s = s + (i - 1) % 7
        sums[i] = s
      end
      same(sums, x:cumsum(1), "n = " .. n)
      same(sums, x:double():cumsum(1), "n = " .. n)
      local y = x:unsqueeze(2):float()
      same(sums, y:expand(n, 3):clone():cumsum(1)[{ {}, 2 }], "three lines of n = " .. n)
      same(sums, y:expand(n, 40):clone():cumsum(1)[{ {}, 40 }], "columns of n = " .. n)
      local values, indices = x:float():cummax(1)
      local at = {}
      for i = 1, n do at[i] = (i - 1) % 7 == 6 and i or i < 7 and i or at[i - 1] end
      same(at, indices, "n = " .. n)
      same(tide.minimum(tide.arange(n, { device = D.dev }), D.tensor(6)):tolist(), values)
    end
  end)

  it("join what is far behind, of lines that begin anywhere", function()
    local n = (1 << 23) + (1 << 18) + 12345 -- float32 counts further
    local counted = tide.arange(n, { device = D.dev }) + 1
    assert.is_true(tide.equal(counted:float(), tide.ones(n, { device = D.dev }):cumsum(1)))
    local values, indices = counted:float():cummax(1)
    assert.is_true(tide.equal(counted:float(), values))
    assert.is_true(tide.equal(counted, indices))
    for _, length in ipairs { 301, 3001, 100001 } do
      local lines = counted:slice(1, 1, length):expand(5, length)
      for _, dtype in ipairs { "float32", "float64", "int64", "bool" } do
        local x = tide.ones(5, length, { device = D.dev }):to(tide[dtype])
        assert.is_true(tide.equal(lines, x:cumsum(2):long()), dtype .. ", " .. length)
      end
      local wide = tide.ones(5 * length + 1, { device = D.dev }):slice(1, 2, 5 * length + 1)
      assert.is_true(tide.equal(lines, wide:view(5, length):cumsum(2):long()), "behind one, " .. length)
    end
  end)

  it("wrap products of integers", function()
    for _, n in ipairs { 1, 7, 8, 9, 100, 1031, 20011 } do
      local x = tide.arange(n, { dtype = "int64", device = D.dev }) * 2 + 3
      local products, product = {}, 1
      for i = 1, n do
        product = product * (2 * i + 1)
        products[i] = product
      end
      assert.are.same(products, x:cumprod(1):tolist())
      assert.are.same(products, x:cumprod_(1):tolist())
    end
  end)

  it("see any layout alike", function()
    local x = tide.randint(-9, 10, { 3, 5, 4 }, { device = D.dev }):float()
    for d = 1, 3 do
      local sums, best, at = x:cumsum(d):tolist(), x:cummax(d)
      best, at = best:tolist(), at:tolist()
      for _, layout in ipairs(D.layouts(x)) do
        same(sums, layout[2]:cumsum(d), layout[1])
        local values, indices = layout[2]:cummax(d)
        same(best, values, layout[1])
        same(at, indices, layout[1])
      end
    end
  end)

  it("give equal bits again", function()
    local x = tide.randn(100000, { device = D.dev })
    local first = x:cumsum(1)
    for _ = 1, 3 do assert.is_true(tide.equal(first, x:cumsum(1))) end
  end)

  it("give equal bits with any number of threads", function()
    local x, threads = tide.randn(200000, { device = D.dev }), tide.get_num_threads()
    local first = {}
    for n = 1, 3 do
      tide.set_num_threads(n)
      for _, name in ipairs { "cumsum", "cumprod", "logcumsumexp", "cummax" } do
        local y = x[name](x, 1)
        assert.is_true(tide.equal(first[name] or y, y), name .. ", " .. n .. " threads")
        first[name] = y
      end
    end
    tide.set_num_threads(threads)
  end)

  it("refuse what they cannot take", function()
    local x = D.tensor { 1., 2. }
    D.raises("IndexError", function() x:cumsum(2) end)
    D.raises("IndexError", function() x:cumsum(0) end)
    D.raises("DtypeError", function() D.tensor({ 1, 2 }):logcumsumexp(1) end)
    D.raises("DtypeError", function() x:to("complex64"):cummax(1) end)
    D.raises("DtypeError", function() x:cumsum(1, { dtype = "bool" }) end)
    D.raises("DtypeError", function() D.tensor({ true, true }):cumsum_(1) end)
    same({ 1, 2 }, x)
  end)
end)

describe("diff", function()
  D.watch(before_each, after_each)

  it("takes neighbours from each other", function()
    local x = D.tensor { 1, 4, 9, 16 }
    same({ 3, 5, 7 }, x:diff())
    same({ 2, 2 }, x:diff { n = 2 })
    same({ 1, 4, 9, 16 }, x:diff { n = 0 })
    assert.are.same({ 0 }, x:diff({ n = 9 }):size())
    same({ { 3, 3 } }, D.tensor({ { 1, 2 }, { 4, 5 } }):diff { dim = 1 })
    same({ true, false }, D.tensor({ true, false, false }):diff())
  end)

  it("takes more before and behind", function()
    local x, other = D.tensor { 1, 4, 9 }, D.tensor { 10, 20 }
    same({ 10, -19, 3, 5 }, x:diff { prepend = other })
    same({ 3, 5, 1, 10 }, x:diff { append = other })
    same({ -29, 22, 2, -4, 9 }, x:diff { prepend = other, append = other, n = 2 })
    local m = D.tensor { { 1, 2 }, { 4, 5 } }
    same({ { 1, 2 }, { 3, 3 } }, m:diff { dim = 1, prepend = D.tensor { { 0, 0 } } })
    for _, name in ipairs { "prepend", "append" } do
      for _, wrong in ipairs { D.tensor { { 1 } }, D.tensor { 1, 2 }, D.tensor(1) } do
        local e = D.raises("ShapeError", function() m:diff { dim = 1, [name] = wrong } end)
        assert.is_truthy(e.message:find("diff: " .. name .. ": got ", 1, true))
      end
    end
  end)

  it("refuses what it cannot take", function()
    D.raises("ShapeError", function() D.tensor(4):diff() end)
    D.raises("ValueError", function() D.tensor({ 1, 2 }):diff { n = -1 } end)
  end)
end)

describe("trapezoid", function()
  D.watch(before_each, after_each)

  it("gives the area under points, and the areas up to each", function()
    local y = D.tensor { 1., 5., 10. }
    same(10.5, y:trapezoid())
    same(21, tide.trapezoid(y, { dx = 2 }))
    same(28.5, y:trapezoid(D.tensor { 1., 3., 6. }))
    same({ 3, 10.5 }, y:cumulative_trapezoid())
    same({ 6, 28.5 }, tide.cumulative_trapezoid(y, D.tensor { 1., 3., 6. }))
    local m = D.tensor { { 0, 1, 2 }, { 3, 4, 5 }, { 6, 7, 8 } }
    same({ 2, 8, 14 }, m:trapezoid())
    same({ 6, 8, 10 }, m:trapezoid { dim = 1 })
    same({ 16.5, 21.5, 26.5 }, m:trapezoid(D.tensor { 1, 3, 6 }, { dim = 1 }))
    same({ { 1.5, 2.5, 3.5 }, { 6, 8, 10 } }, m:cumulative_trapezoid { dim = 1 })
    same({ 0.5, 12.5, 35.5 }, m:trapezoid(D.tensor { { 1, 2, 2 }, { 1, 2, 4 }, { 1, 3, 6 } }))
    assert.are.equal(tide.float32, m:trapezoid().dtype)
  end)

  it("takes one point and none", function()
    same(0, D.tensor({ 5. }):trapezoid())
    assert.are.same({ 0 }, D.tensor({ 5. }):cumulative_trapezoid():size())
    same({ 0, 0 }, tide.empty({ 2, 0 }, { device = D.dev }):trapezoid())
    assert.are.same({ 2, 0 }, tide.empty({ 2, 0 }, { device = D.dev }):cumulative_trapezoid():size())
  end)

  it("refuses what it cannot take", function()
    local y = D.tensor { 1., 2., 3. }
    D.raises("ShapeError", function() y:trapezoid(D.tensor { 1., 2. }) end)
    D.raises("ShapeError", function() y:trapezoid(D.tensor { { 1., 2., 3. } }) end)
    local e = D.raises("ShapeError", function() D.tensor({ { 1., 2. }, { 3., 4. } }):trapezoid(D.tensor { { 1. }, { 2. } }) end)
    assert.is_truthy(e.message:find("trapezoid: x: got ", 1, true))
    same({ 4, 8 }, D.tensor({ { 1., 1., 1. } }):trapezoid(D.tensor { { 1., 2., 5. }, { 0., 1., 8. } }))
    D.raises("ShapeError", function() D.tensor(1.):trapezoid() end)
    D.raises("DtypeError", function() D.tensor({ true, false }):cumulative_trapezoid() end)
    D.raises("IndexError", function() y:trapezoid { dim = 2 } end)
  end)

  it("sum very long lines as short ones, in place too", function()
    for _, dtype in ipairs { "float32", "float64", "int64" } do
      for _, n in ipairs { 1 << 20, (1 << 20) + 12289 } do
        local x = tide.range(n, { dtype = "int64", device = D.dev }):remainder(7):sub(3):to(dtype) -- sums that are exact
        local y = x:cumsum(1)
        local ends = y[{ { 1, n, 4099 } }]:long()
        local whole = x:long():reshape(1, n):cumsum(2) -- int64, of whatever tile
        assert.is_true(ends:equal(whole[1][{ { 1, n, 4099 } }]), dtype .. n)
        assert.are.equal(x:long():sum():item(), y[n]:item())
        local z = x:clone()
        assert.is_true(z:cumsum_(1):equal(y))
      end
    end
  end)

  it("give many short lines what lines side by side get", function()
    for _, n in ipairs { 1, 3, 5, 17, 64 } do
      local numbers = tide.arange(n * 350, { device = D.dev }):mul_(37):remainder_(11):remainder_(3):sub_(1):reshape(350, n)
      for _, dtype in ipairs { "float32", "bfloat16", "int64", "bool", "complex64" } do
        local x = numbers:to(dtype)
        if dtype == "float32" then x[{ 349, 1 }], x[{ 11, n }] = nan, inf end
        local beside = x:t():contiguous()
        for _, name in ipairs { "cumsum", "cumprod", "cummax", "cummin", "logcumsumexp" } do
          local is_choice, is_log = name:find "cumm", name == "logcumsumexp"
          if not (is_choice and dtype == "complex64") and not (is_log and (dtype == "int64" or dtype == "bool")) then
            local y, places = x[name](x, 2)
            local want, wanted = beside[name](beside, 1)
            D.eq(want:t(), y, is_log and 1e-2 or 0, name .. dtype .. n)
            if is_choice then D.eq(wanted:t(), places, 0, name .. dtype .. n) end
          end
        end
      end
    end
  end)
end)
