-- Operands that repeat their rows, their columns or all of them, against the same operations over the copies that they
-- stand for, with rows around the lengths at which the loops change.

local tide = require "tide"
local D = require "spec.support.device"

local lengths = { 1, 15, 16, 63, 64, 65, 100, 257, 2047, 2048, 2049, 5000 }
local ROWS = 7

local function numbers(dtype, ...) return (tide.randn(...) * 10):to(dtype):to(D.dev) end

describe("operands that are repeated", function()
  D.watch(before_each, after_each)

  -- A matrix of its own, a row, a column, one value, and every second row of a larger matrix.
  local function operands(dtype, n)
    return {
      numbers(dtype, ROWS, n), numbers(dtype, n), numbers(dtype, ROWS, 1), numbers(dtype, 1, 1),
      numbers(dtype, 2 * ROWS, n):slice(1, 1, 2 * ROWS, 2),
    }
  end

  local function all_pairs(dtype, name)
    for _, n in ipairs(lengths) do
      local list = operands(dtype, n)
      for i, a in ipairs(list) do
        for j, b in ipairs(list) do
          local whole_a, whole_b = a:expand(ROWS, n):contiguous(), b:expand(ROWS, n):contiguous()
          local got = tide[name](a:expand(ROWS, n), b)
          local where = ("%s %s of %d columns, operands %d and %d"):format(dtype, name, n, i, j)
          assert.is_true(tide.equal(got, tide[name](whole_a, whole_b)), where)
          local out = tide.zeros(ROWS, n + 3, { dtype = got.dtype, device = D.dev })
          tide[name](a:expand(ROWS, n), b, { out = out:narrow(2, 2, n) })
          assert.is_true(tide.equal(out:narrow(2, 2, n), got), where .. ", into a part")
          assert.is_true(out:narrow(2, 1, 1):eq(0):all():item() and out:narrow(2, n + 2, 2):eq(0):all():item(), where)
        end
      end
    end
  end

  for _, dtype in ipairs(D.tsan and { "float32" } or { "float32", "float64", "int32", "float16", "uint8" }) do
    it("give what their copies give, in " .. dtype, function()
      all_pairs(dtype, "sub")
      all_pairs(dtype, "lt")
    end)
  end

  it("serve as three operands and in place", function()
    for _, n in ipairs(lengths) do
      local mask, row, column = numbers("float32", ROWS, 1):gt(0), numbers("float32", n), numbers("float32", ROWS, 1)
      local function whole(x) return x:expand(ROWS, n):contiguous() end
      assert.is_true(tide.equal(tide.where(mask, row, column), tide.where(whole(mask), whole(row), whole(column))))
      local x = numbers("float32", ROWS, n)
      local want = x + whole(column)
      x:add_(column)
      assert.is_true(tide.equal(want, x))
      want = x * whole(row)
      x:mul_(row)
      assert.is_true(tide.equal(want, x))
    end
  end)
end)
