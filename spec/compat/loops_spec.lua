-- Loops of reads, long enough for LuaJIT to compile them (lua_bindings/compat/hot.c): what goes wrong in the middle of one is
-- the ordinary error, and what needs more than a read is done as ever.
local tide = require "tide"
local D = require "spec.support.device"

local on = { device = D.dev }
local rounds = 300

-- Calls read(i) in a loop, with another argument at the end.
local function loop(read, last)
  local result
  for i = 1, rounds do result = read(i == rounds and last or nil) end
  return result
end

describe("a loop of reads", function()
  D.watch(before_each, after_each)

  it("gives elements of every dtype, rows, sizes", function()
    local x, sum = tide.arange(12, { dtype = tide.float64, device = D.dev }):view(3, 4), 0
    for i = 1, rounds do
      local row = x[i % 3 + 1]
      sum = sum + row[i % 4 + 1]:item() + row:numel() + row:dim() + x:size(2) + x:size(-2)
    end
    assert.are.equal(rounds / 12 * 66 + rounds * 12, sum)
    for _, dtype in ipairs { "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64" } do
      local one, all = tide.ones({}, { dtype = dtype, device = D.dev }), true
      for _ = 1, rounds do all = all and one:item() == (dtype == "bool" or 1) end
      assert.is_true(all, dtype)
    end
    local z = tide.zeros(1, { dtype = tide.complex64, device = D.dev })
    for _ = 1, rounds do assert.are.equal(2, select("#", z:item())) end
  end)

  it("gives integers that no double holds", function()
    local large = tide.full({}, math.maxinteger - 1, { dtype = tide.int64, device = D.dev })
    assert.are.equal(math.maxinteger - 1, loop(function() return large:item() end))
  end)

  it("gives a number for the bits of every NaN", function()
    for _, bits in ipairs { -1, -0x800000000001, -0x1800000000001, -0x2000000000000 } do
      local x = tide.full({}, bits, { dtype = tide.int64, device = D.dev }):view(tide.float64)
      for _ = 1, rounds do
        local v = x:item()
        assert(type(v) == "number" and v ~= v)
      end
    end
  end)

  it("refuses what it is given at last as ever", function()
    local x = tide.ones(2, 3, on)
    D.raises("ShapeError", loop, function(y) return (y or x[1][1]):item() end, x)
    D.raises("IndexError", loop, function(i) return x[i or 1] end, 3)
    D.raises("IndexError", loop, function(i) return x[i or 1] end, 0)
    D.raises("ArgumentError", loop, function(i) return x[i or 1] end, 1.5)
    for _, d in ipairs { 3, -3, 100, 101, 1e300 } do
      assert.has_error(function() loop(function(last) return x:size(last or 1) end, d) end)
    end
    D.raises("IndexError", loop, function(d) return x:size(d or 1) end, 100)
    local one = x[1][1]
    for _, read in ipairs {
      function(...) return one:item(...) end, function(...) return x:numel(...) end, function(...) return x:dim(...) end,
      function(...) return x:size(1, ...) end,
    } do
      assert.has_error(function()
        for i = 1, rounds do if i == rounds then read(nil, 5) else read() end end
      end)
    end
    D.raises("IndexError", loop, function(d) return x:size(d or 1) end, 3)
    D.raises("ArgumentError", loop, function(y) return (tide.Tensor.item(y or x[1][1])) end, 7)
    D.raises("ArgumentError", loop, function(y) return (x.numel(y or x)) end, io.stdout)
    D.raises("ArgumentError", loop, function(y) return (x.dim(y or x)) end, "a string")
    assert.are.equal(-1, loop(function(i) return i and x[i]:sum():item() - 4 or 0 end, -1))
  end)

  it("sees what becomes of a tensor", function()
    local x, n = tide.ones(4, on), 0
    local ok, e = pcall(function()
      for i = 1, rounds do
        if i == rounds then x:free() end
        n = n + x:numel()
      end
    end)
    assert.is_false(ok)
    assert.are.equal("StateError", e.kind)
    assert.are.equal(4 * (rounds - 1), n)
  end)

  it("frees the rows that a scope was around", function()
    local x, row = tide.ones(2, 3, on), nil
    for i = 1, rounds do
      if i % 100 == 0 then
        tide.scope(function() row = x[1] end)
        D.raises("StateError", row.numel, row)
      else
        row = x[1]
      end
      assert.are.equal(i % 100 ~= 0, (pcall(row.numel, row)))
    end
  end)

  it("calls the method that a script has put there", function()
    local x, item, seen = tide.ones(1, on), tide.Tensor.item, 0
    for i = 1, rounds do
      if i == rounds then tide.Tensor.item = function() return "mine" end end
      if x:item() == "mine" then seen = seen + 1 end
    end
    tide.Tensor.item = item
    assert.are.equal(1, seen)
  end)
end)
