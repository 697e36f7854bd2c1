-- Ops over elements of one byte, which have loops of their own, against the same ops over int32 and what is stored of them.

local tide = require "tide"
local D = require "spec.support.device"

local binary = { "add", "sub", "mul", "bitwise_and", "bitwise_or", "bitwise_xor", "eq", "ne", "logical_and", "logical_or",
  "logical_xor", "lt", "maximum" }
local numbers = { 0, 1, 2, 127, 128, -1, -128, 255, 256, 300 }

-- All pairs of the values of a dtype.
local function pairs_of(dtype)
  local low, high = 0, 255
  if dtype == "int8" then low, high = -128, 127 end
  if dtype == "bool" then high = 1 end
  local all = tide.arange(low, high + 1, { dtype = "int32" })
  local n = all:numel()
  local a, b = all:view(n, 1):expand(n, n):flatten(), all:view(1, n):expand(n, n):flatten()
  return a:to(D.dev), b:to(D.dev)
end

describe("elements of one byte", function()
  D.watch(before_each, after_each)

  for _, dtype in ipairs { "uint8", "int8", "bool" } do
    it("give what int32 gives, as " .. dtype, function()
      local a, b = pairs_of(dtype)
      local x, y = a:to(dtype), b:to(dtype)
      for _, name in ipairs(binary) do
        local ok, got = pcall(tide[name], x, y)
        if ok then assert.is_true(tide.equal(tide[name](a, b):to(got.dtype), got), name) end
        assert.is_true(ok or dtype == "bool", name)
      end
      for _, name in ipairs { "neg", "logical_not", "bitwise_not" } do
        local ok, got = pcall(tide[name], x)
        local want = tide[dtype == "bool" and "logical_not" or name](a)
        if ok then assert.is_true(tide.equal(want:to(got.dtype), got), name) end
      end
    end)

    it("meet numbers, which wrap where they do not fit, as " .. dtype, function()
      local a = pairs_of(dtype)
      local x = a:to(dtype)
      for _, name in ipairs { "add", "mul", "eq", "ne", "lt" } do
        for _, number in ipairs(numbers) do
          local ok, got = pcall(tide[name], x, number)
          local where = ("%s %s %d"):format(dtype, name, number)
          local wrapped = number
          if dtype ~= "bool" then wrapped = tide.tensor({ number }, { dtype = "int32" }):to(dtype):item() end
          if ok then assert.is_true(tide.equal(tide[name](a, wrapped):to(got.dtype), got), where) end
        end
      end
    end)
  end

  it("wrap in place and into results of other dtypes", function()
    local a, b = pairs_of "uint8"
    local x, y = a:to "uint8", b:to "uint8"
    local wide = tide.zeros(a:numel(), { dtype = "int32", device = D.dev })
    assert.is_true(tide.equal(tide.sub(x, y, { out = wide }), tide.sub(x, y):to "int32"))
    local z = x:clone():sub_(y)
    assert.is_true(tide.equal(z:to "int32", (a - b):remainder(256)))
    assert.is_true(tide.equal(x:slice(1, 1, 65536, 3) + y:slice(1, 1, 65536, 3), (x + y):slice(1, 1, 65536, 3)))
  end)
end)
