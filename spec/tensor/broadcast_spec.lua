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

  -- Many rows times a number each: sizes of the numbers, and of the rows with n for their length.
  local products = {
    { { 70, 1 }, { 70, "n" } }, { { 70, 1 }, { 1, "n" } }, { { 63, 1 }, { 63, "n" } },
    { { 9, 1, 8, 1 }, { 1, 5, 1, "n" } }, { { 9, 5, 1, 1 }, { 9, 1, 8, "n" } }, { { 3, 5, 7, 1 }, { 3, 5, 7, "n" } },
  }
  for _, dtype in ipairs(D.tsan and { "float32" } or { "float32", "float64", "int32", "float16" }) do
    it("are numbers of many rows, short and long, in " .. dtype, function()
      for _, n in ipairs { 2, 7, 8, 15, 16, 17, 31, 32, 65, 2049 } do
        for _, sizes in ipairs(products) do
          local size, full = {}, {}
          for d, s in ipairs(sizes[2]) do size[d] = s == "n" and n or s end
          for d, s in ipairs(size) do full[d] = math.max(s, sizes[1][d]) end
          local a, b = numbers(dtype, table.unpack(sizes[1])), numbers(dtype, table.unpack(size))
          local want = a:expand(full):contiguous() * b:expand(full):contiguous()
          local where = ("%s, %s times %s"):format(dtype, table.concat(sizes[1], " "), table.concat(size, " "))
          assert.is_true(tide.equal(want, a * b), where)
          assert.is_true(tide.equal(want, b * a), where)
          local x = b:expand(full):clone()
          assert.is_true(tide.equal(want, x:mul_(a)), where .. ", in place")
          full[#full] = n + 3
          local out = tide.zeros(full, { dtype = dtype, device = D.dev })
          tide.mul(a, b, { out = out:narrow(#full, 2, n) })
          assert.is_true(tide.equal(want, out:narrow(#full, 2, n)), where .. ", into a part")
          assert.is_true(out:narrow(#full, 1, 1):eq(0):all():item() and out:narrow(#full, n + 2, 2):eq(0):all():item(), where)
        end
      end
    end)
  end

  it("are numbers of rows that they are an element of, of every second row, and of rows beyond the caches", function()
    local x = numbers("float32", 140, 33)
    local column = x:narrow(2, 5, 1)
    local want = x * column:expand(140, 33):contiguous()
    assert.is_true(tide.equal(want:slice(1, 1, 140, 2), x:slice(1, 1, 140, 2) * column:slice(1, 1, 140, 2)))
    assert.is_true(tide.equal(want, x:mul_(column)))
    local odd = tide.tensor({ -0.0, math.huge, -math.huge, 1e-40 }, { device = D.dev }):repeat_interleave(20):view(80, 1)
    local got = odd * tide.full({ 1, 16 }, -1., { device = D.dev })
    assert.is_true(tide.equal((-odd):expand(80, 16), got) and not got:narrow(1, 1, 20):signbit():any():item())
    for _, n in ipairs { 64, 63 } do -- whole cache lines, and not
      local a, b = numbers("float32", 1040, 64, 1), numbers("float32", 1, 64, n)
      assert.is_true(tide.equal(a:expand(1040, 64, n):contiguous() * b, a * b))
    end
  end)
end)
