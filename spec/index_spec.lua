-- Indexing by number, range, mask and index tensor, for reading and for writing (API.md 4.5).

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
    D.raises("IndexError", function() x[D.tensor { 0 }]:sum():item() end)
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
