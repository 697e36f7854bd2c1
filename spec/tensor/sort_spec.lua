-- Order along a dim, what is first and in the middle of it, what occurs, and searching:
-- PyTorch's values, plain Lua's where ways of sorting meet, adversarial layouts; what is refused.

local tide = require "tide"
local D = require "spec.support.device"

local nan, inf = 0 / 0, math.huge
local function same(expected, x, what) D.eq(expected, x, 0, what) end

-- The places of a list's elements in order; equal ones keep theirs.
local function order_of(list, descending)
  local order = {}
  for i = 1, #list do order[i] = i end
  table.sort(order, function(a, b)
    if list[a] == list[b] then return a < b end
    if descending then return list[a] > list[b] end
    return list[a] < list[b]
  end)
  return order
end

local function pick(list, order, n)
  local out = {}
  for i = 1, n or #order do out[i] = list[order[i]] end
  return out
end

-- Values and places of a sort of the last dim, either way.
local function check(x, what)
  local list = x:dim() == 1 and x:is_floating_point() and x:element_size() >= 4 and not x:isnan():any():item()
  if list then -- the values alone
    local ranks = tide.linspace(0, 1, x:numel(), { dtype = x.dtype, device = D.dev })
    assert.is_true(x:quantile(ranks, 1, { interpolation = "nearest" }):equal((x:sort())), what)
  end
  for _, descending in ipairs { false, true } do
    local values, indices = x:sort(-1, { descending = descending })
    assert.is_true(x:gather(-1, indices):eq(values):logical_or(values:isnan()):all():item(), what)
    local n = x:size(-1)
    local a, b = values:narrow(-1, 1, n - 1), values:narrow(-1, 2, n - 1)
    local is_equal = a:eq(b):logical_or(a:isnan():logical_and(b:isnan()))
    local is_before = (descending and a:gt(b):logical_or(a:isnan()) or a:lt(b):logical_or(b:isnan()))
    assert.is_true(is_equal:logical_or(is_before):all():item(), what)
    local rises = indices:narrow(-1, 1, n - 1):lt(indices:narrow(-1, 2, n - 1))
    assert.is_true(rises:logical_or(is_equal:logical_not()):all():item(), what)
  end
end

describe("sort", function()
  D.watch(before_each, after_each)

  it("finds the place of one value far from the others, wherever it stands", function()
    for _, dtype in ipairs { "int32", "int64", "float32", "float64" } do
      for _, n in ipairs { 40, 100, 300, 1000, 5000 } do
        local near = tide.randint(0, 12, { n }, { dtype = dtype, device = D.dev })
        for _, far in ipairs { 16, 4096, -2 ^ 20 } do
          for _, at in ipairs { 1, n // 2 } do
            local x = near:clone()
            x[at] = far
            for _, descending in ipairs { false, true } do
              local sorted, places = x:sort(1, { descending = descending, stable = true })
              assert.are.equal(far, sorted[(far > 0) == descending and 1 or n]:item())
              local step = sorted:slice(1, 2, n) - sorted:slice(1, 1, n - 1)
              assert.is_true((descending and step:le(0) or step:ge(0)):all():item())
              local after = places:slice(1, 2, n):gt(places:slice(1, 1, n - 1))
              assert.is_true(after:logical_or(step:ne(0)):all():item()) -- equal ones keep their order
              assert.is_true(tide.equal(x[places], sorted))
            end
          end
        end
      end
    end
  end)

  it("gives PyTorch's values", function()
    local x = D.tensor { { 3., 1., 2. }, { -4., 5., 0.5 } }
    local values, indices = x:sort()
    same({ { 1, 2, 3 }, { -4, 0.5, 5 } }, values)
    same({ { 2, 3, 1 }, { 1, 3, 2 } }, indices)
    values, indices = tide.sort(x, 1, { descending = true })
    same({ { 3, 5, 2 }, { -4, 1, 0.5 } }, values)
    same({ { 1, 2, 1 }, { 2, 1, 2 } }, indices)
    assert.are.equal(tide.int64, indices.dtype)
    same({ { 2, 3, 1 }, { 1, 3, 2 } }, x:argsort())
    same({ { 2, 1, 2 }, { 1, 2, 1 } }, tide.argsort(x, 1))
  end)

  it("puts NaN last, joins zeros, and keeps the order of equals", function()
    local x = D.tensor { nan, 0., -0., 1., -nan, -inf, -0., inf }
    for _, dtype in ipairs { "float16", "bfloat16", "float32", "float64" } do
      local values, indices = x:to(dtype):sort { stable = true }
      same({ -inf, 0, 0, 0, 1, inf, nan, nan }, values, dtype)
      same({ 6, 2, 3, 7, 4, 8, 1, 5 }, indices, dtype)
      values, indices = x:to(dtype):sort(1, { descending = true })
      same({ nan, nan, inf, 1, 0, 0, 0, -inf }, values, dtype)
      same({ 1, 5, 8, 4, 2, 3, 7, 6 }, indices, dtype)
      same({ 1 / 0, -1 / 0, -1 / 0 }, 1 / (x:to(dtype):sort():narrow(1, 2, 3)), dtype) -- each zero is the one it was
    end
  end)

  it("takes all real dtypes", function()
    for _, dtype in ipairs { "uint8", "int8", "int16", "int32", "int64" } do
      local list = dtype == "uint8" and { 200, 3, 0, 255, 3 } or { 100, -3, 0, -128, -3 }
      local values, indices = D.tensor(list, dtype):sort()
      same(pick(list, order_of(list)), values, dtype)
      same(order_of(list), indices, dtype)
      assert.are.equal(tide[dtype], values.dtype)
    end
    local values, indices = D.tensor({ true, false, true, false }):sort()
    same({ false, false, true, true }, values)
    same({ 2, 4, 1, 3 }, indices)
    same({ math.mininteger, -1, 0, math.maxinteger }, (D.tensor({ 0, math.maxinteger, -1, math.mininteger }, "int64"):sort()))
  end)

  it("takes nothing, and no dims", function()
    for _, size in ipairs { { 0 }, { 3, 0 }, { 0, 3 } } do
      local values, indices = tide.empty(size, { device = D.dev }):sort()
      assert.are.same(size, values:size())
      assert.are.same(size, indices:size())
    end
    local values, indices = D.tensor(5.):sort()
    same(5, values)
    same(1, indices)
  end)

  it("writes to destinations", function()
    local values, indices = tide.empty(0, { device = D.dev }), tide.empty(0, { device = D.dev, dtype = "int64" })
    local a, b = D.tensor({ 3., 1., 2. }):sort(1, { out = { values, indices } })
    assert.is_true(a == values and b == indices)
    same({ 1, 2, 3 }, values)
    same({ 2, 3, 1 }, D.tensor({ 3., 1., 2. }):argsort(1, { out = indices }))
  end)

  -- The ends of what a warp, a block and a list of the CPU take; many equal elements.
  it("is right around the lengths where the way of sorting changes", function()
    for _, n in ipairs { 2, 16, 17, 31, 32, 33, 64, 65, 255, 257, 511, 513, 1025, 4096, 4097, 40001 } do
      for _, dtype in ipairs(n > 5000 and { "float32" } or { "uint8", "int16", "float32", "int64" }) do
        local x = (tide.arange(n, { dtype = "int64", device = D.dev }) * 7919):remainder(n < 300 and 101 or 251):to(dtype)
        local list = x:tolist()
        local order = order_of(list)
        local values, indices = x:sort()
        same(order, indices, dtype .. " n = " .. n)
        same(pick(list, order), values, dtype .. " n = " .. n)
        local lines = x:unsqueeze(1):expand(3, n):clone()
        lines:narrow(1, 2, 1):fill_(5)
        values, indices = lines:sort(2, { descending = true })
        order = order_of(list, true)
        same(order, indices[3], dtype .. " lines of n = " .. n)
        same(pick(list, order), values[1], dtype .. " lines of n = " .. n)
        assert.is_true(indices[2]:equal(tide.arange(1, n + 1, { dtype = "int64", device = D.dev })))
      end
    end
  end)

  -- On a GPU a byte of the keys that is the same in all elements takes no pass, and so on down to none.
  it("is right in long lines, whichever bytes differ", function()
    for _, size in ipairs { { 40001 }, { 3, 9001 }, { 20, 4097 } } do
      local x = tide.randint(0, 1 << 40, size, { dtype = "int64", device = D.dev })
      for _, case in ipairs { { 1, 1 }, { 1, 0 }, { 250, 1 }, { 1000, 1 << 16 }, { 1 << 20, 1 }, { 1 << 20, 1 << 42 } } do
        local y = x:remainder(case[1]) * case[2] - case[2]
        check(y, "int64 below " .. case[1] .. " times " .. case[2])
        if case[2] <= 1 << 16 then check(y:float(), "float32 below " .. case[1] .. " times " .. case[2]) end
      end
      for _, dtype in ipairs { "uint8", "int8", "int16", "int32", "float16", "bfloat16", "float64" } do
        check((x:remainder(2000) - 900):to(dtype), dtype)
      end
      check(x:remainder(2):bool(), "bool")
      local y = x:remainder(1000):float() - 500
      check(y:masked_fill_(y:lt(-400), nan):masked_fill_(y:gt(400), -inf):mul_(y:gt(-50)), "float32 with NaN")
    end
  end)

  it("is right where a few elements are far from the others, and where most bits tell nothing", function()
    local threads = tide.get_num_threads()
    local x = tide.randint(0, 1 << 40, { 150001 }, { dtype = "int64", device = D.dev })
    local far = x % 5000
    far:narrow(1, 777, 1):fill_(1 << 60)
    local ends = (x % 2) * (1 << 60) + x:bitwise_right_shift(20) % 2048
    local close = tide.arange(150001, { dtype = "int64", device = D.dev }) -- in order but for the last
    close:narrow(1, 150001, 1):fill_(-(1 << 50))
    local fewer = (x:narrow(1, 1, 100001) % (1 << 22)):int() -- as many beside one that is far as a nearer cache holds
    fewer:narrow(1, 50000, 1):fill_(1 << 30)
    local beyond = x:clone() -- a bit more than places leave free, in one that no sample meets
    beyond:narrow(1, 12345, 1):fill_(1 << 40)
    for _, t in ipairs { 1, 3 } do
      tide.set_num_threads(t)
      check(far, "far")
      check(far:double(), "far float64")
      check(ends, "ends")
      check(close, "close")
      check(close:int(), "close int32")
      check(fewer, "one far int32")
      local values, places = x:sort()
      local y, other = x:clone(), tide.empty_like(x)
      tide.sort(y, { out = { other, y } })
      assert.is_true(other:equal(values) and y:equal(places), "places in place")
      for what, y in pairs { ["40 bits"] = x, ["a high part"] = x + (5 << 50), ["below zero"] = x - (1 << 40),
        ["around zero"] = x - (1 << 39), ["41 bits"] = beyond, ["few at a time"] = x % 3 - (1 << 40) } do
        check(y, what)
        assert.is_true(y:argsort():equal(select(2, y:sort())), what)
      end
      check(x:double():sin_(), "float64")
      check(x:float():sin_(), "float32")
      check((x % 100):to(tide.uint8), "uint8")
    end
    tide.set_num_threads(threads)
  end)

  it("sees any layout alike", function()
    local x = tide.randint(-9, 10, { 3, 5, 4 }, { device = D.dev }):float()
    for d = 1, 3 do
      local values, indices = x:sort(d)
      values, indices = values:tolist(), indices:tolist()
      for _, layout in ipairs(D.layouts(x)) do
        local v, i = layout[2]:sort(d)
        same(values, v, layout[1])
        same(indices, i, layout[1])
      end
    end
  end)

  it("does not depend on the number of threads", function()
    local x, threads = tide.randint(0, 1000, { 200000 }, { device = D.dev }), tide.get_num_threads()
    local before = { x:sort() }
    local first = { x:topk(1000) }
    tide.set_num_threads(3)
    local after, again = { x:sort() }, { x:topk(1000) }
    tide.set_num_threads(threads)
    for k = 1, 2 do
      assert.is_true(before[k]:equal(after[k]))
      assert.is_true(first[k]:equal(again[k]))
    end
  end)

  it("refuses what it cannot take", function()
    local x = D.tensor { 1., 2. }
    D.raises("IndexError", function() x:sort(2) end)
    D.raises("IndexError", function() x:sort(0) end)
    D.raises("DtypeError", function() x:to("complex64"):sort() end)
    D.raises("ArgumentError", function() x:sort(1, { descending = 1 }) end)
  end)
end)

describe("sort: the first and the middle", function()
  D.watch(before_each, after_each)

  it("topk of each number of elements are the first ones of a sort", function()
    for _, dtype in ipairs { "int32", "float32" } do
      local x = tide.arange(1000, { device = D.dev }):mul(7919):remainder(1000):mul(37):to(dtype)
      local sorted = x:sort(1, { descending = true })
      for k = 1, 400, D.every do assert.is_true(x:topk(k):equal(sorted:narrow(1, 1, k)), dtype .. " " .. k) end
    end
  end)

  it("topk gives the largest or the smallest in order, the first of equals", function()
    local x = D.tensor { { 3., 1., 3., 2. }, { 0., nan, 7., -1. } }
    local values, indices = x:topk(2)
    same({ { 3, 3 }, { nan, 7 } }, values)
    same({ { 1, 3 }, { 2, 3 } }, indices)
    values, indices = tide.topk(x, 1, 1, { largest = false })
    same({ { 0, 1, 3, -1 } }, values)
    same({ { 2, 1, 1, 2 } }, indices)
    assert.are.same({ 2, 0 }, x:topk(0):size())
    same(4, (D.tensor(4.):topk(1)))
    D.raises("ValueError", function() x:topk(5) end)
    D.raises("ValueError", function() x:topk(-1) end)
  end)

  -- Lines that are selected from, with k up to and beyond what is selected; ties across the border.
  it("topk and kthvalue are right in long lines", function()
    for _, n in ipairs { 600, 5000, 65536, 70001, 200003 } do
      for _, dtype in ipairs { "uint8", "int32", "float32", "float64", "int64" } do
        local x = (tide.arange(n, { dtype = "int64", device = D.dev }) * 7919):remainder(251):to(dtype)
        local values, indices = x:sort()
        for _, k in ipairs { 1, 2, 10, 17, 100, 256, 300, 4096, 4500 } do
          k = math.min(k, n)
          local v, i = x:topk(k, 1, { largest = false })
          assert.is_true(v:equal(values:narrow(1, 1, k)), dtype .. " " .. n .. " " .. k)
          assert.is_true(i:equal(indices:narrow(1, 1, k)), dtype .. " " .. n .. " " .. k)
        end
        for _, k in ipairs { 1, 2, n // 2, n - 1, n } do
          local v, i = x:kthvalue(k)
          assert.are.equal(values[k]:item(), v:item())
          assert.are.equal(indices[k]:item(), i:item())
        end
      end
    end
    local x = tide.zeros(3, 100000, { device = D.dev })
    same({ { 1, 2, 3 }, { 1, 2, 3 }, { 1, 2, 3 } }, (select(2, x:topk(3))))
    x:narrow(2, 99999, 1):fill_(1)
    same({ 99999, 99999, 99999 }, (select(2, x:topk(1))):squeeze(2))
    x = tide.randn(100000, { device = D.dev })
    assert.is_true((x:topk(50)):equal((x:sort(1, { descending = true })):narrow(1, 1, 50)))
    assert.are.equal((x:sort())[777]:item(), (x:kthvalue(777)):item())
  end)

  -- On a GPU a bound is guessed: it may let too few through, or too many.
  it("topk is right in very long lines", function()
    local n = (1 << 20) + 77
    local x = tide.randn(n, { device = D.dev })
    local pattern = tide.arange(n, { dtype = "int64", device = D.dev })
    local few = tide.zeros(n, { device = D.dev })
    few:narrow(1, 1000, 20):fill_(2)
    for what, y in pairs {
      normal = x, zeros = few, ascending = pattern, int8 = pattern:remainder(101):to(tide.int8),
      wide = x:double(), nans = x:masked_fill(x:lt(0), nan), int32 = -pattern:int(),
      rare = x:double():masked_fill(pattern:remainder(100003):eq(99999), nan), -- a few NaN, far from the line's begin
      signs = few:double() * (pattern:remainder(2) * 2 - 1), -- -0.0 and 0.0 are equal
      lines = x:narrow(1, 1, 1 << 20):expand(2, 1 << 20):mul(D.tensor { { 1 }, { -1 } }),
    } do
      for _, largest in ipairs { true, false } do
        local values, indices = y:sort(-1, { descending = largest })
        for _, k in ipairs { 1, 10, 100, 4096 } do
          local v, i = y:topk(k, -1, { largest = largest })
          assert.is_true(i:equal(indices:narrow(-1, 1, k)), what .. " " .. k)
          local expected = values:narrow(-1, 1, k)
          assert.is_true(v:eq(expected):logical_or(expected:isnan()):all():item(), what .. " " .. k)
        end
      end
    end
  end)

  it("kthvalue and median keep or drop the dim", function()
    local x = D.tensor { { 3., 1., 2. }, { 6., 5., 4. } }
    local values, indices = x:kthvalue(2)
    same({ 2, 5 }, values)
    same({ 3, 2 }, indices)
    values, indices = x:kthvalue(1, 1, { keepdim = true })
    same({ { 3, 1, 2 } }, values)
    same({ { 1, 1, 1 } }, indices)
    values, indices = x:median(1)
    same({ 3, 1, 2 }, values)
    same({ 1, 1, 1 }, indices)
    same(3, x:median())
    same(3, tide.median(x))
    same({ { 2 }, { 5 } }, (x:median(2, { keepdim = true })))
    D.raises("ValueError", function() x:kthvalue(0) end)
    D.raises("ValueError", function() x:kthvalue(4) end)
    D.raises("ShapeError", function() tide.empty(2, 0, { device = D.dev }):median(2) end)
    D.raises("ShapeError", function() tide.empty(0, { device = D.dev, dtype = "int64" }):median() end)
    D.raises("ArgumentError", function() x:median { keepdim = true } end)
    same(nan, tide.empty(0, { device = D.dev }):median())
  end)

  it("median gives the first NaN of a line that has one", function()
    local values, indices = D.tensor({ { 1., nan, 3., nan }, { 4., 3., 2., 1. } }):median(2)
    same({ nan, 2 }, values)
    same({ 2, 3 }, indices)
    local x = tide.randn(50000, { device = D.dev })
    assert.are.equal((x:sort())[25000]:item(), x:median():item())
    x:narrow(1, 40000, 2):fill_(nan)
    same(40000, (select(2, x:median(1))))
    assert.are.equal(2, (D.tensor({ 1, 2, 3, 2 }, "uint8"):median()):item())
  end)

  it("each line has its own median and its own first", function()
    for _, n in ipairs { 3, 8, 11, 16, 20, 40, 70, 130, 300, 700, 3000 } do
      for lines = 4, 5 do
        local x = tide.randint(0, 50, { lines, n }, { device = D.dev }):float()
        local ordered, places = x:sort(2, { descending = true })
        local k = math.max(1, n // 8)
        local v, i = x:topk(k, 2)
        assert.is_true(v:equal(ordered:narrow(2, 1, k)) and i:equal(places:narrow(2, 1, k)), n .. " " .. lines)
        local middle, at = x:sort(2)
        v, i = x:median(2)
        assert.is_true(v:equal(middle:select(2, (n + 1) // 2)) and i:equal(at:select(2, (n + 1) // 2)), n .. " " .. lines)
        x:select(1, 2):narrow(1, 2, 2):fill_(nan)
        v, i = x:median(2)
        assert.are.equal(2, i[2]:item())
        assert.is_true(v:isnan():equal(tide.arange(1, lines + 1, { device = D.dev }):eq(2)))
        assert.is_true(i:narrow(1, 3, 2):equal(at:select(2, (n + 1) // 2):narrow(1, 3, 2)))
      end
    end
  end)

  it("mode gives the smallest of what occurs most often", function()
    local values, indices = D.tensor({ { 3, 1, 3, 1, 2 }, { 5, 4, 4, 4, 5 } }):mode()
    same({ 1, 4 }, values)
    same({ 4, 4 }, indices)
    values, indices = D.tensor({ { 3., 1. }, { 3., 2. }, { 1., 2. } }):mode(1, { keepdim = true })
    same({ { 3, 2 } }, values)
    same({ { 2, 3 } }, indices)
    values, indices = D.tensor(7):mode()
    same(7, values)
    same(1, indices)
    D.raises("ShapeError", function() tide.empty(2, 0, { device = D.dev }):mode() end)
  end)

  it("quantile takes the ways of PyTorch", function()
    local x = D.tensor { 4., 1., 3., 2. }
    same(2.5, x:quantile(0.5))
    for way, value in pairs { linear = 2.2, lower = 2, higher = 3, midpoint = 2.5, nearest = 2 } do
      D.eq(value, x:quantile(0.4, 1, { interpolation = way }), 1e-6, way)
    end
    local m = D.tensor({ { 1., 5., 3. }, { 2., nan, 4. } }, "float64")
    same({ { 1, nan }, { 3, nan }, { 5, nan } }, m:quantile({ 0, 0.5, 1 }, 2))
    same({ { { 1.5 }, { nan }, { 3.5 } } }, m:quantile({ 0.5 }, 1, { keepdim = true }):transpose(2, 3))
    same({ { 2 } }, D.tensor({ { 1., 3. } }):quantile(0.5, { keepdim = true }))
    same(5, D.tensor(5.):quantile(0.3))
    same({ 1, 4 }, x:quantile(D.tensor { 0., 1. }))
    D.raises("ValueError", function() x:quantile(1.5) end)
    D.raises("DtypeError", function() D.tensor({ 1, 2 }):quantile(0.5) end)
    D.raises("DtypeError", function() x:quantile(D.tensor({ 0.5 }, "float64")) end)
    D.raises("ShapeError", function() tide.empty(0, { device = D.dev }):quantile(0.5) end)
    D.raises("ArgumentError", function() x:quantile(0.5, 1, { interpolation = "cubic" }) end)
  end)
end)

describe("unique", function()
  D.watch(before_each, after_each)

  it("gives what occurs, where, and how often", function()
    local x = D.tensor { { 3, 1 }, { 2, 3 } }
    same({ 1, 2, 3 }, x:unique())
    local values, inverse, counts = x:unique { return_inverse = true, return_counts = true }
    same({ 1, 2, 3 }, values)
    same({ { 3, 1 }, { 2, 3 } }, inverse)
    same({ 1, 1, 2 }, counts)
    values, counts = tide.unique(x, { return_counts = true, sorted = false })
    same({ 1, 2, 3 }, values)
    same({ 1, 1, 2 }, counts)
    same({ false, true }, D.tensor({ true, false, true }):unique())
    same({ -1, nan, nan }, D.tensor({ nan, -1., nan }):unique())
    same({ 5 }, D.tensor(5):unique())
    values, inverse, counts = tide.empty(2, 0, { device = D.dev }):unique { return_inverse = true, return_counts = true }
    assert.are.same({ 0 }, values:size())
    assert.are.same({ 2, 0 }, inverse:size())
    assert.are.same({ 0 }, counts:size())
  end)

  it("counts many", function()
    local x = tide.arange(100000, { dtype = "int32", device = D.dev }):remainder(997)
    local values, inverse, counts = x:unique { return_inverse = true, return_counts = true }
    assert.is_true(values:equal(tide.arange(997, { dtype = "int32", device = D.dev })))
    assert.is_true(inverse:equal(x:long() + 1))
    assert.are.equal(100000, counts:sum():item())
    assert.are.equal(101, counts[1]:item())
    assert.are.equal(1, select("#", x:unique()))
    x = x:long() * (1 << 40) -- far apart
    values, inverse = x:unique { return_inverse = true }
    assert.is_true(values:equal(tide.arange(997, { dtype = "int64", device = D.dev }) * (1 << 40)))
    assert.is_true(inverse:equal(x / (1 << 40) + 1))
    assert.is_true(x:unique():equal(values))
    same({ math.mininteger, 0, math.maxinteger }, D.tensor({ 0, math.maxinteger, math.mininteger }, "int64"):unique())
    same({ -128, 127 }, D.tensor({ 127, -128, 127 }, "int8"):unique())
  end)

  it("finds what occurs in long lists", function()
    local x = tide.randint(0, 5000, { 1500000 }, { dtype = "int64", device = D.dev })
    x:narrow(1, 1, 5000):copy_(tide.arange(5000, { dtype = "int64", device = D.dev }))
    for _, shift in ipairs { 0, -2500, 1 << 40 } do
      local y = x * 3 + shift
      for _, z in ipairs(shift < 1 << 31 and { y, y:int() } or { y }) do
        local expected = tide.arange(5000, { dtype = "int64", device = D.dev }) * 3 + shift
        assert.is_true(z:unique():equal(expected:to(z.dtype)), tostring(shift))
      end
    end
  end)

  it("takes slices of a dim", function()
    local x = D.tensor { { 2, 1 }, { 1, 9 }, { 2, 1 }, { 1, 3 } }
    local values, inverse, counts = x:unique { dim = 1, return_inverse = true, return_counts = true }
    same({ { 1, 3 }, { 1, 9 }, { 2, 1 } }, values)
    same({ 3, 2, 3, 1 }, inverse)
    same({ 1, 1, 2 }, counts)
    same({ { 1, 2 }, { 9, 1 }, { 1, 2 }, { 3, 1 } }, x:unique { dim = 2 })
    D.raises("ShapeError", function() tide.empty(2, 0, { device = D.dev }):unique { dim = 1 } end)
    D.raises("DtypeError", function() x:to("complex64"):unique() end)
  end)
end)

describe("searching in what is in order", function()
  D.watch(before_each, after_each)

  it("searchsorted finds the same places of many values in any order", function()
    local line = tide.arange(0, 1000, 2, { dtype = "float32", device = D.dev })
    local values = tide.arange(-8, 1016, { dtype = "float32", device = D.dev })
    local expected = (values / 2):ceil():clamp { min = 0, max = 500 }:to "int64" + 1
    local order = tide.randperm(1024, { device = D.dev })
    same(expected, tide.searchsorted(line, values))
    same(expected[order], tide.searchsorted(line, values[order]))
  end)

  it("searchsorted gives the first or the last place that keeps the order, from 1", function()
    local line, v = D.tensor { 1., 3., 3., 5. }, D.tensor { { 0., 3. }, { 5., 9. } }
    same({ { 1, 2 }, { 4, 5 } }, tide.searchsorted(line, v))
    same({ { 1, 4 }, { 5, 5 } }, tide.searchsorted(line, v, { right = true }))
    same({ { 1, 4 }, { 5, 5 } }, tide.searchsorted(line, v, { side = "right" }))
    same(2, tide.searchsorted(line, 3))
    local lines = D.tensor { { 1., 2., 3. }, { 10., 20., 30. } }
    same({ { 3 }, { 1 } }, tide.searchsorted(lines, D.tensor { { 2.5 }, { 5. } }))
    same({ 5, 1 }, tide.searchsorted(line, D.tensor { nan, -inf }))
    same({ 1, 1 }, tide.searchsorted(tide.empty(0, { device = D.dev }), D.tensor { 1., 2. }))
    local mixed = D.tensor { 5., 1., 3. }
    same({ 2, 3 }, tide.searchsorted(mixed, D.tensor { 2., 4. }, { sorter = mixed:argsort() }))
    local inner = D.tensor { -100., 1., 2., 3., 100. }:narrow(1, 2, 3) -- places beyond its ends are those at the ends
    same({ 1, 4 }, tide.searchsorted(inner, D.tensor { -50., 50. }, { sorter = D.tensor({ 0, 2, 4 }, "int64") }))
    for _, dtype in ipairs { "int32", "int64" } do -- behind the greatest number of all
      local most = tide.iinfo(dtype).max
      local ends = D.tensor({ -most - 1, 0, most }, dtype)
      same({ 2, 4 }, tide.searchsorted(ends, D.tensor({ -most - 1, most }, dtype), { right = true }))
      same({ 1, 3 }, tide.searchsorted(ends, D.tensor({ -most - 1, most }, dtype)))
    end
    local zeros = D.tensor { -1., -0., 0., 1., -nan }
    same({ 2, 2, 5 }, tide.searchsorted(zeros, D.tensor { -0., 0., inf }))
    same({ 4, 4, 5 }, tide.searchsorted(zeros, D.tensor { -0., 0., inf }, { right = true }))
    assert.are.equal(tide.int32, tide.searchsorted(line, v, { out_int32 = true }).dtype)
    assert.are.equal(tide.int64, tide.searchsorted(line, v).dtype)
  end)

  it("bucketize is the other way round", function()
    local edges = D.tensor { 1, 3, 5 }
    same({ 1, 2, 3, 4 }, tide.bucketize(D.tensor { 0, 3, 5, 6 }, edges))
    same({ 1, 3, 4, 4 }, tide.bucketize(D.tensor { 0, 3, 5, 6 }, edges, { right = true }))
    same(2, tide.bucketize(2, edges))
    local out = tide.empty(0, { device = D.dev, dtype = "int64" })
    assert.are.equal(out, tide.bucketize(D.tensor { 4 }, edges, { out = out }))
    same({ 3 }, out)
  end)

  it("gives two results to two tensors", function()
    local x, v = D.tensor { 3., 1., 2. }, tide.zeros(3, { device = D.dev })
    for _, f in ipairs { x.sort, x.median, x.mode } do
      assert.is_truthy(D.raises("ValueError", f, x, 1, { out = { v, v } }).message:find("out[2]: got the tensor of out[1]", 1, true))
    end
    same({ 0, 0, 0 }, v)
  end)

  it("numbers are what they are beside tensors of integers", function()
    local edges = D.tensor({ 1, 2, 3 }, "int32")
    for _, case in ipairs { { 2.5, 3, 3 }, { 2.0, 2, 3 }, { 1 / 0, 4, 4 }, { -1e30, 1, 1 }, { 0 / 0, 4, 4 }, { 1 << 40, 4, 4 }, { true, 1, 2 } } do
      same(case[2], tide.bucketize(case[1], edges))
      same(case[3], tide.searchsorted(edges, case[1], { right = true }))
    end
    same(4, tide.bucketize(300, edges:to "uint8"))
    same(1, tide.bucketize(-1, edges:to "uint8"))
    same(3, tide.bucketize(2, D.tensor({ false, true }, "bool")))
    same({ false, false, false }, tide.isin(edges, 2.5))
    same({ false, true, false }, tide.isin(edges, 2.0))
    same({ false, false, false }, tide.isin(edges:to "uint8", 258))
    same({ false, false }, tide.isin(D.tensor({ true, false }, "bool"), 2))
    same(false, tide.isin(0.5, edges))
    local large = D.tensor({ 1 << 53, (1 << 53) + 1 }, "int64")
    same({ false, true }, tide.isin(large, (1 << 53) + 1))
  end)

  it("isin finds elements of any shape and dtype", function()
    local x = D.tensor { { 1., 2. }, { nan, 4. } }
    same({ { true, false }, { false, true } }, tide.isin(x, D.tensor { 4, 1, 7 }))
    same({ { false, true }, { true, false } }, tide.isin(x, D.tensor { 4., 1., nan }, { invert = true }))
    same({ true, false }, tide.isin(D.tensor { 3, 4 }, 3))
    same(true, tide.isin(3, D.tensor { 3, 4 }))
    same({ false, false }, tide.isin(D.tensor { 3, 4 }, tide.empty(0, { device = D.dev })))
  end)

  it("refuses what it cannot take", function()
    local line = D.tensor { 1., 2. }
    D.raises("DtypeError", function() tide.searchsorted(line, D.tensor { 1 }) end)
    D.raises("ShapeError", function() tide.searchsorted(D.tensor { { 1., 2. } }, line) end)
    D.raises("DtypeError", function() tide.searchsorted(line, line, { sorter = line }) end)
    D.raises("ShapeError", function() tide.searchsorted(line, line, { sorter = D.tensor { 1 } }) end)
    D.raises("ValueError", function() tide.searchsorted(line, line, { side = "left", right = true }) end)
    D.raises("ShapeError", function() tide.bucketize(line, D.tensor { { 1., 2. } }) end)
    D.raises("ArgumentError", function() tide.isin(1, 2) end)
  end)
end)
