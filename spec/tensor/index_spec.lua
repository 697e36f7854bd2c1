-- Indexing by number, range, mask and index tensor, for reading and for writing.

local tide = require "tide"
local D = require "spec.support.device"

describe("indexing", function()
  local x
  D.watch(before_each, after_each, function() x = nil end)
  before_each(function() x = D.tensor { { 1, 2, 3 }, { 4, 5, 6 }, { 7, 8, 9 }, { 10, 11, 12 } } end)

  it("reads rows, elements and ranges", function()
    D.eq({ 4, 5, 6 }, x[2])
    D.eq({ 10, 11, 12 }, x[-1])
    D.eq(6, x[{ 2, 3 }])
    assert.are.equal(0, x[{ 2, 3 }]:dim())
    D.eq({ { 4, 5, 6 }, { 7, 8, 9 } }, x[{ { 2, 3 } }])
    D.eq({ 3, 6, 9, 12 }, x[{ {}, 3 }])
    D.eq({ { 1, 2 }, { 7, 8 } }, x[{ { 1, 4, 2 }, { 1, 2 } }])
    D.eq({ { 8, 9 }, { 11, 12 } }, x[{ { -2, -1 }, { 2, -1 } }])
    D.eq({ { 4, 5, 6 } }, x[{ { 2, 2 }, {} }])
  end)

  it("reads every range that there is, and refuses the others", function()
    local n = 5
    local x = tide.arange(1, n + 1, { device = D.dev })
    for first = -n - 2, n + 2 do
      for last = -n - 2, n + 2 do
        local a, b = first < 0 and first + n + 1 or first, last < 0 and last + n + 1 or last
        -- 0 is no place: it only ends the empty range {1, 0}. The last empty one is {n + 1, n}.
        local is_range = a >= 1 and b >= a - 1 and b <= n and (a <= n or last == n) and (last ~= 0 or first == 1)
        if is_range then
          local want = {}
          for k = a, b do want[#want + 1] = k end
          assert.are.same(want, x[{ { first, last } }]:totable(), first .. " to " .. last)
        else
          D.raises("IndexError", function() return x[{ { first, last } }] end)
        end
      end
    end
  end)

  it("views share memory", function()
    x[{ {}, 2 }]:fill_(0)
    D.eq({ { 1, 0, 3 }, { 4, 0, 6 }, { 7, 0, 9 }, { 10, 0, 12 } }, x)
  end)

  it("writes numbers and tensors, broadcasting", function()
    x[1] = 0
    x[{ 2, 2 }] = 50
    x[{ { 3, 4 }, 1 }] = D.tensor { -1, -2 }
    x[{ { 3, 4 }, { 2, 3 } }] = D.tensor { { 8, 9 } }
    D.eq({ { 0, 0, 0 }, { 4, 50, 6 }, { -1, 8, 9 }, { -2, 8, 9 } }, x)
    x[{ {}, 3 }] = D.tensor(7)
    D.eq({ 7, 7, 7, 7 }, x[{ {}, 3 }])
    x[2] = x[1]
    D.eq({ 0, 0, 7 }, x[2])
    D.raises("ShapeError", function() x[1] = D.tensor { 1, 2 } end)
  end)

  it("refuses 0 and what is out of range, with a hint", function()
    local e = D.raises("IndexError", function() return x[0] end)
    assert.is_truthy(e.message:find "1", e.message)
    D.raises("IndexError", function() return x[5] end)
    D.raises("IndexError", function() return x[-5] end)
    D.raises("IndexError", function() return x[{ 1, 4 }] end)
    D.raises("IndexError", function() return x[{ { 1, 5 } }] end)
    D.raises("IndexError", function() return x[{ { 0, 2 } }] end)
    D.raises("IndexError", function() return x[{ 1, 1, 1 }] end)
    D.raises("ValueError", function() return x[{ { 1, 3, 0 } }] end)
    D.raises("IndexError", function() x[0] = 1 end)
    D.raises("IndexError", function() x[{ 5, 1 }] = 1 end)
    D.raises("IndexError", function() return D.tensor(1)[1] end)
    D.raises("ArgumentError", function() return x[1.5] end)
    D.raises("ArgumentError", function() return x[{ "a" }] end)
    D.raises("ArgumentError", function() x[1] = "one" end)
  end)

  it("reads by mask", function()
    D.eq({ 8, 9, 10, 11, 12 }, x[x:gt(7)])
    D.eq({ { 1, 2, 3 }, { 7, 8, 9 } }, x[D.tensor { true, false, true, false }])
    D.eq({ 2, 8 }, x:masked_select(D.tensor { { false, true, false }, { false, false, false }, { false, true, false }, { false, false, false } }))
    assert.are.same({ 0 }, x[x:gt(100)]:size())
    D.eq({ 4, 10 }, x:t()[x:t():eq(4):logical_or(x:t():eq(10))])
    D.eq({ 1, 2, 3, 7, 8, 9 }, x:masked_select(D.tensor { { true }, { false }, { true }, { false } }))
    D.raises("ShapeError", function() return x[D.tensor { true, false }] end)
  end)

  it("writes by mask", function()
    x[x:gt(7)] = 0
    D.eq({ { 1, 2, 3 }, { 4, 5, 6 }, { 7, 0, 0 }, { 0, 0, 0 } }, x)
    x[x:eq(0)] = D.tensor { -1, -2, -3, -4, -5 }
    D.eq({ { 1, 2, 3 }, { 4, 5, 6 }, { 7, -1, -2 }, { -3, -4, -5 } }, x)
    assert.is_true(x:masked_fill_(x:lt(0), 9) == x)
    D.eq({ { 1, 2, 3 }, { 4, 5, 6 }, { 7, 9, 9 }, { 9, 9, 9 } }, x)
    D.raises("ShapeError", function() x[x:eq(9)] = D.tensor { 1, 2 } end)
  end)

  it("reads and writes by index tensor", function()
    local idx = D.tensor { 3, 1, 3 }
    D.eq({ { 7, 8, 9 }, { 1, 2, 3 }, { 7, 8, 9 } }, x[idx])
    D.eq({ { 10, 11, 12 } }, x[D.tensor { -1 }])
    D.eq({ { { 1, 2, 3 }, { 4, 5, 6 } } }, x[D.tensor { { 1, 2 } }])
    D.eq({ { 7, 8, 9 } }, x[D.tensor({ 3 }, "int32")])
    x[D.tensor { 1, 4 }] = 0
    D.eq({ { 0, 0, 0 }, { 4, 5, 6 }, { 7, 8, 9 }, { 0, 0, 0 } }, x)
    x[D.tensor { 2, 3 }] = D.tensor { { 1, 1, 1 }, { 2, 2, 2 } }
    D.eq({ { 0, 0, 0 }, { 1, 1, 1 }, { 2, 2, 2 }, { 0, 0, 0 } }, x)
    D.eq({ { 3, 3, 1 }, { 6, 6, 4 }, { 9, 9, 7 }, { 12, 12, 10 } },
      D.tensor({ { 1, 2, 3 }, { 4, 5, 6 }, { 7, 8, 9 }, { 10, 11, 12 } }):index_select(2, D.tensor { 3, 3, 1 }))
    assert.are.same({ 0, 3 }, x[tide.empty(0, { dtype = "int64", device = D.dev })]:size())
    local y, out = D.tensor { { 1, 2, 3 }, { 4, 5, 6 } }, tide.empty(2, 4, { dtype = "int64", device = D.dev })
    assert.are.equal(out, y:index_select(2, D.tensor { 3, -3, 1, 2 }, { out = out }))
    D.eq({ { 3, 1, 1, 2 }, { 6, 4, 4, 5 } }, out)
    D.eq({ { 5, 4 } }, y[{ { 2 } }]:index_select(-1, D.tensor({ 2, 1 }, "int32"), { out = tide.empty(0, { dtype = "int64", device = D.dev }) }))
    D.raises("ShapeError", function() return y:index_select(2, D.tensor { 1 }, { out = out }) end)
    D.raises("IndexError", function() return y:index_select(2, D.tensor { 1, 2, 3, 4 }, { out = out }):totable() end)
    D.raises("IndexError", function() return y:index_select(3, D.tensor { 1 }, { out = out }) end)
    D.raises("ShapeError", function() return y:index_select(1, D.tensor { { 1 } }, { out = out }) end)
    D.raises("DtypeError", function() return x[D.tensor { 1., 2. }] end)
  end)

  it("gathers from every layout", function()
    for _, layout in ipairs(D.layouts(x)) do
      D.eq({ { 7, 8, 9 }, { 4, 5, 6 } }, layout[2][D.tensor { 3, 2 }], 0, layout[1])
      D.eq({ { 3, 1 }, { 6, 4 }, { 9, 7 }, { 12, 10 } }, layout[2]:index_select(2, D.tensor { 3, 1 }), 0, layout[1])
      layout[2][D.tensor { 4, 1 }] = 0
      D.eq({ { 0, 0, 0 }, { 4, 5, 6 }, { 7, 8, 9 }, { 0, 0, 0 } }, layout[2], 0, layout[1])
      layout[3]()
    end
  end)

  it("reports a bad value in an index tensor, at the latest when it waits, and goes on", function()
    local e = D.raises("IndexError", function()
      local y = x[D.tensor { 1, 9 }]
      y:sum():item()
    end)
    assert.is_truthy(e.message:find "9", e.message)
    assert.is_truthy(e.message:find "1 to 4", e.message)
    e = D.raises("IndexError", function() x[D.tensor { 0 }]:sum():item() end)
    assert.is_truthy(e.message:find("; indexes count from 1", 1, true), e.message)
    D.raises("IndexError", function()
      x[D.tensor { -5 }] = 1
      x:sum():item()
    end)
    D.eq({ 4, 5, 6 }, x[2])
  end)

  it("nonzero and argwhere give positions from 1", function()
    D.eq({ { 1, 2 }, { 2, 1 } }, D.tensor({ { 0, 5 }, { 7, 0 } }):nonzero())
    D.eq({ { 1 }, { 3 } }, tide.argwhere(D.tensor { true, false, true }))
    assert.are.same({ 0, 2 }, D.tensor({ { 0, 0 } }):nonzero():size())
    D.eq({ { 2, 1 }, { 2, 3 } }, D.tensor({ { 0, 2 }, { 0, 0 }, { 0, 1 } }):t():nonzero())
    assert.are.same({ 0, 1 }, D.tensor({ 0, 0 }):nonzero():size())
    assert.are.same({ 1, 0 }, D.tensor(7):nonzero():size())
    D.eq({ { 3, 1, 1 }, { 4, 1, 1 } }, D.tensor({ { { 0 } }, { { 0 } }, { { 1 } }, { { 2 } } }):nonzero())
    D.eq({ { 1, 1, 3 }, { 1, 2, 1 } }, D.tensor({ { { 0, 0, 5 }, { 1, 0, 0 } } }):nonzero())
  end)

  it("tril and triu", function()
    local y = x:narrow(1, 1, 3)
    D.eq({ { 1, 0, 0 }, { 4, 5, 0 }, { 7, 8, 9 } }, y:tril())
    D.eq({ { 1, 2, 3 }, { 0, 5, 6 }, { 0, 0, 9 } }, y:triu())
    D.eq({ { 0, 2, 3 }, { 0, 0, 6 }, { 0, 0, 0 } }, y:triu(1))
    D.eq({ { 1, 2, 0 }, { 4, 5, 6 }, { 7, 8, 9 } }, y:tril(1))
  end)

  it("of a large mask", function()
    local n = 100000
    local big = tide.arange(n, { device = D.dev })
    local even = big[(big % 2):eq(0)]
    assert.are.equal(n // 2, even:numel())
    assert.are.equal((n // 2) * (n // 2 - 1), even:sum():item())
  end)
end)

describe("several index tensors", function()
  D.watch(before_each, after_each)

  local function cube() return tide.arange(120, { device = D.dev }):view(2, 3, 4, 5) end
  local function indexes()
    return D.tensor { 1, 2, 2 }, D.tensor { { 3 }, { 1 } }, D.tensor { { true, false, true }, { false, true, false } }
  end
  local function weight(r) return (r:flatten() * tide.range(r:numel(), { dtype = "int64", device = D.dev })):sum():item() end

  -- Shapes and sums that PyTorch gives for the same entries, counted from 0 there.
  local function cases()
    local I, J, m = indexes()
    return {
      { { I, J }, { 2, 3, 4, 5 }, 484560 },
      { { I, {}, J }, { 2, 3, 3, 5 }, 297420 },
      { { {}, I, J }, { 2, 2, 3, 5 }, 118980 },
      { { {}, I, {}, J }, { 2, 3, 2, 4 }, 66120 },
      { { 1, I, J }, { 2, 3, 5 }, 9390 },
      { { I, 2, J }, { 2, 3, 5 }, 33090 },
      { { m }, { 3, 4, 5 }, 124580 },
      { { m, D.tensor { 1, 2, 4 } }, { 3, 5 }, 8245 },
      { { {}, {}, D.tensor { true, false, true, true }, I }, { 2, 3, 3 }, 13335 },
      { { I, { 1, 2 }, J, 1 }, { 2, 3, 2 }, 4650 },
      { { 2, {}, I, J }, { 3, 2, 3 }, 15864 },
      { { m, {}, D.tensor { 2, 3, 5 } }, { 3, 4 }, 5290 },
      { { I:int(), J, I - 5, J:int() - 6 }, { 2, 3 }, 1292 },
      { { I, J, I, J }, { 2, 3 }, 1292 },
    }
  end

  it("are read pointwise, beside ranges, numbers and masks", function()
    for i, case in ipairs(cases()) do
      for _, layout in ipairs(D.layouts(cube())) do
        local r = layout[2][case[1]]
        assert.are.same(case[2], r:size(), "case " .. i)
        assert.are.equal(case[3], weight(r), "case " .. i .. " " .. layout[1])
        if layout[3] then layout[3]() end
      end
    end
  end)

  it("are written where they are read, by numbers and by tensors that broadcast", function()
    for i, case in ipairs(cases()) do
      local x, y = cube(), cube():permute(3, 1, 4, 2):contiguous():permute(2, 4, 1, 3) -- dense, in another order
      x[case[1]] = x[case[1]] * 2 + 1000
      y[case[1]] = y[case[1]] * 2 + 1000
      assert.is_true(x:equal(y), "case " .. i)
      local changed, mark = x:ne(cube()), tide.zeros(2, 3, 4, 5, { dtype = "bool", device = D.dev })
      mark[case[1]] = true
      assert.is_true(mark:equal(changed), "case " .. i)
      x:index_put_(case[1], D.tensor { -7 })
      assert.are.equal(mark:sum():item(), x:eq(-7):sum():item())
      assert.is_true(x[case[1]]:eq(-7):all():item())
    end
  end)

  it("accumulate: values are added as often as a place is named, in every dtype", function()
    local I, J = D.tensor { 1, 1, 3, 1 }, D.tensor({ 2, 2, -1, 4 }, "int32")
    for _, dtype in ipairs(D.dtypes) do
      local x = tide.ones(3, 4, { dtype = dtype, device = D.dev })
      assert.is_true(x:index_put_({ I, J }, D.tensor({ 1, 2, 3, 4 }, dtype), { accumulate = true }) == x)
      local want = dtype == "bool" and tide.ones(3, 4):bool() or tide.tensor { { 1, 4, 1, 5 }, { 1, 1, 1, 1 }, { 1, 1, 1, 4 } }
      assert.is_true(x:cpu():equal(want:to(dtype)), dtype)
    end
    local rows = tide.zeros(5, 3, { device = D.dev })
    rows:index_put_({ D.tensor { 2, 2, 5 } }, D.tensor { 1., 10., 100. }, { accumulate = true })
    D.eq({ { 0, 0, 0 }, { 2, 20, 200 }, { 0, 0, 0 }, { 0, 0, 0 }, { 1, 10, 100 } }, rows)
    rows:t():index_put_({ {}, D.tensor { 1, 1 } }, 5, { accumulate = true })
    D.eq({ 10, 10, 10 }, rows[1])
    rows:index_put_({ { 4, 5 } }, 1, { accumulate = true })
    D.eq({ { 1, 1, 1 }, { 2, 11, 101 } }, rows[{ { 4, 5 } }])
    local many, n = tide.zeros(3, 7, { device = D.dev }), 30000
    many:index_put_({ tide.full({ n }, 2, { device = D.dev }), tide.full({ n }, 3, { device = D.dev }) }, 1, { accumulate = true })
    assert.are.equal(n, many[{ 2, 3 }]:item())
    assert.are.equal(n, many:sum():item())
  end)

  it("of no elements, and of one", function()
    local x, none = cube(), tide.empty(0, { dtype = "int64", device = D.dev })
    assert.are.same({ 0, 4, 5 }, x[{ none, none }]:size())
    x[{ none, none }] = 5
    D.eq(cube(), x)
    assert.are.same({ 5 }, x[{ D.tensor(2), D.tensor(3), D.tensor(4) }]:size())
    assert.are.equal(119, x[{ D.tensor(2), D.tensor(3), D.tensor(4), D.tensor(5) }]:item())
    assert.are.same({ 0, 5 }, tide.empty(2, 3, 0, 5, { device = D.dev })[{ D.tensor { 1, 2 }, D.tensor { 1, 1 } }]:select(1, 1):size())
  end)

  it("that do not fit are errors; a bad value is one at the next wait at the latest, and changes nothing on the cpu", function()
    local I, J, m = indexes()
    local x = cube()
    D.raises("ShapeError", function() return x[{ I, D.tensor { 1, 2 } }] end)
    D.raises("ShapeError", function() return x[{ I, m }] end)
    D.raises("ShapeError", function() x[{ I, J }] = tide.ones(7, { dtype = "int64", device = D.dev }) end)
    D.raises("IndexError", function() return x[{ I, I, I, I, I }] end)
    D.raises("IndexError", function() return x[{ I, I, I, m }] end)
    D.raises("DtypeError", function() return x[{ I, D.tensor { 1., 2., 3. } }] end)
    D.raises("ArgumentError", function() x:index_put_(I, 5) end)
    D.raises("ArgumentError", function() x:index_put_({ I, J }, 5, { acumulate = true }) end)
    for _, size in ipairs { { 0, 3 }, { 3, 0 }, { 0, 0, 2 } } do
      local empty = tide.zeros(size, { device = D.dev })
      D.raises("IndexError", function() return empty[{ I, J }] end)
      D.raises("IndexError", function() empty[{ I, J }] = 5 end)
      D.raises("IndexError", function() empty:index_put_({ I, J }, 5, { accumulate = true }) end)
    end
    D.raises("IndexError", function() tide.zeros(0, { device = D.dev }):index_put_({ I }, 5, { accumulate = true }) end)
    for _, bad in ipairs { 0, 4, -4, math.mininteger, math.maxinteger } do
      for _, key in ipairs { { I, D.tensor { 1, bad, 2 } }, { D.tensor { 1, 2, 1 }, D.tensor { 3, 1, bad }, I } } do
        local e = D.raises("IndexError", function()
          local r = x[key]
          D.sync()
          return r
        end)
        assert.is_truthy(e.message:find(("got %d, expected 1 to 3"):format(bad), 1, true), e.message)
        D.sync()
        for _, accumulate in ipairs { false, true } do
          local y = cube()
          D.raises("IndexError", function()
            y:index_put_(key, 0, { accumulate = accumulate })
            D.sync()
          end)
          if not D.cuda then D.eq(cube(), y) end
        end
      end
    end
    D.eq(cube(), x)
  end)
end)
