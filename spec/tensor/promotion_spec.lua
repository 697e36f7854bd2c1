-- Which dtype an operation gives: torch's result types as a table of facts.

local tide = require "tide"
local D = require "spec.support.device"

local function one(dtype) return tide.ones(2, { dtype = dtype, device = D.dev }) end
local function scalar(dtype) return tide.ones({}, { dtype = dtype, device = D.dev }) end
local function is(dtype, x) assert.are.equal(dtype, D.dtype_name(x)) end

-- Row by row: the result of the row's dtype with each column's.
local columns = { "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
  "complex128" }
local short = { b = "bool", u1 = "uint8", i1 = "int8", i2 = "int16", i4 = "int32", i8 = "int64", f2 = "float16", bf = "bfloat16",
  f4 = "float32", f8 = "float64", c8 = "complex64", c16 = "complex128" }
local facts = {
  bool = "b u1 i1 i2 i4 i8 f2 bf f4 f8 c8 c16",
  uint8 = "u1 u1 i2 i2 i4 i8 f2 bf f4 f8 c8 c16",
  int8 = "i1 i2 i1 i2 i4 i8 f2 bf f4 f8 c8 c16",
  int16 = "i2 i2 i2 i2 i4 i8 f2 bf f4 f8 c8 c16",
  int32 = "i4 i4 i4 i4 i4 i8 f2 bf f4 f8 c8 c16",
  int64 = "i8 i8 i8 i8 i8 i8 f2 bf f4 f8 c8 c16",
  float16 = "f2 f2 f2 f2 f2 f2 f2 f4 f4 f8 c8 c16",
  bfloat16 = "bf bf bf bf bf bf f4 bf f4 f8 c8 c16",
  float32 = "f4 f4 f4 f4 f4 f4 f4 f4 f4 f8 c8 c16",
  float64 = "f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 c16 c16",
  complex64 = "c8 c8 c8 c8 c8 c8 c8 c8 c8 c16 c8 c16",
  complex128 = "c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16",
}

describe("promotion", function()
  D.watch(before_each, after_each)

  for _, row in ipairs(columns) do
    it("of " .. row .. " tensors", function()
      local i = 0
      for cell in facts[row]:gmatch "%S+" do
        i = i + 1
        is(short[cell], one(row) * one(columns[i]))
      end
      assert.are.equal(12, i)
    end)
  end

  it("takes Lua numbers as weak", function()
    for _, dtype in ipairs { "uint8", "int8", "int32", "int64" } do
      is(dtype, one(dtype) + 1)
      is("float32", one(dtype) + 1.5)
      is("float32", one(dtype) / 2)
    end
    for _, dtype in ipairs { "float16", "bfloat16", "float32", "float64" } do
      is(dtype, one(dtype) + 1)
      is(dtype, one(dtype) + 1.5)
      is(dtype, 2 ^ one(dtype))
    end
    is("int64", one "bool" + 1)
    is("float32", one "bool" + 1.5)
    is("bool", one "bool" * true)
    is("complex64", one "complex64" * 2.5)
    D.eq({ 255, 255 }, (one "uint8" - 2))
  end)

  it("takes 0-d tensors as weak within their category", function()
    is("int32", one "int32" + scalar "int64")
    is("float32", one "float32" + scalar "float64")
    is("float64", one "int32" + scalar "float64")
    is("float16", one "float16" + scalar "int64")
    is("int64", scalar "int32" + scalar "int64")
    is("float16", scalar "float16" * one "int64")
    is("float32", scalar "float32" * scalar "float16")
  end)

  it("makes comparisons bool and divisions floating", function()
    is("bool", one "int32":lt(one "float64"))
    is("bool", one "int32":eq(1))
    is("float32", one "int32" / one "int64")
    is("float64", one "int32" / one "float64")
    is("int32", one "int32" // 2)
    is("float32", one "int64":exp())
    is("float16", one "float16":exp())
    is("int64", one "int64":floor())
    is("bool", one "float32":isnan())
    is("bool", one "int32":logical_not())
  end)

  it("follows the default dtype", function()
    tide.set_default_dtype(tide.float64)
    local ok, e = pcall(function()
      is("float64", one "int32" + 1.5)
      is("float64", one "int32" / 2)
      is("float64", tide.zeros(2))
      is("float64", tide.tensor { 1.5 })
    end)
    tide.set_default_dtype(tide.float32)
    assert.is_true(ok, tostring(e))
    D.raises("DtypeError", tide.set_default_dtype, tide.int32)
  end)

  it("of reductions", function()
    is("int64", one "int32":sum())
    is("int64", one "bool":sum())
    is("int64", one "uint8":prod())
    is("float16", one "float16":sum())
    is("float64", one "float32":sum({ dtype = tide.float64 }))
    is("int32", one "int32":max())
    is("int64", one "float32":argmax())
    is("bool", one "float32":all())
    is("int64", one "float32":count_nonzero())
    D.raises("DtypeError", function() return one "int32":mean() end)
    D.raises("DtypeError", function() return one "int32":std() end)
    is("float32", one "int32":mean({ dtype = tide.float32 }))
  end)

  it("refuses an in-place result that the tensor cannot hold", function()
    D.raises("DtypeError", function() one "int32":add_(1.5) end)
    D.raises("DtypeError", function() one "int32":div_(2) end)
    D.raises("DtypeError", function() one "bool":add_(1) end)
    D.raises("DtypeError", function() one "float32":add_(one "complex64") end)
    D.raises("DtypeError", function() tide.exp(one "float32", { out = one "int32" }) end)
    is("uint8", one "uint8":add_(one "int64"))
    is("float16", one "float16":add_(one "float64"))
    is("float32", one "float32":add_(one "int64"))
    is("float64", tide.add(one "float32", one "float32", { out = one "float64" }))
  end)

  it("refuses what a dtype cannot do", function()
    D.raises("DtypeError", function() return one "float32" & one "int32" end)
    D.raises("DtypeError", function() return ~one "float32" end)
    D.raises("DtypeError", function() return one "float32" << 1 end)
    D.raises("DtypeError", function() return one "complex64":floor() end)
    D.raises("DtypeError", function() return one "complex64":lt(1) end)
  end)
end)

describe("dtypes", function()
  it("have names, aliases and sizes", function()
    local size = { bool = 1, uint8 = 1, int8 = 1, int16 = 2, int32 = 4, int64 = 8, float16 = 2, bfloat16 = 2, float32 = 4,
      float64 = 8, complex64 = 8, complex128 = 16 }
    for _, name in ipairs(columns) do
      assert.is_truthy(tide[name], name)
      assert.are.equal(size[name], tide.empty(1, { dtype = tide[name] }):element_size())
      assert.is_true(tide[name] == tide.empty(1, { dtype = name }).dtype)
    end
    local alias = { half = "float16", float = "float32", double = "float64", long = "int64", int = "int32", short = "int16",
      char = "int8", byte = "uint8", cfloat = "complex64", cdouble = "complex128" }
    for a, name in pairs(alias) do assert.is_true(tide[a] == tide[name], a) end
  end)

  it("are refused when unknown", function()
    D.raises("ArgumentError", tide.zeros, 2, { dtype = "float99" })
    D.raises("ArgumentError", tide.zeros, 2, { dtype = 3 })
  end)
end)
