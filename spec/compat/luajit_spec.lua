-- What LuaJIT has otherwise than Lua 5.4 (lua_bindings/compat/README.md): the FFI, numbers.
local tide = require "tide"
local D = require "spec.support.device"

local is_luajit = rawget(_G, "jit") ~= nil

-- What the text writes in a LuaJIT of its own.
local function run(text)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  local pipe = assert(io.popen(("LUA_CPATH=%s luajit %s 2>&1"):format(D.quote(package.cpath), path)))
  local out = pipe:read "*a"
  pipe:close()
  os.remove(path)
  return out
end

describe("the FFI", function()
  it("is no script's whose host has withheld it", function()
    if not is_luajit then return pending "needs LuaJIT" end
    local try = "print((pcall(require, 'ffi')), package.loaded.ffi, require 'tide'.full({1}, 2^53 + 2, {dtype = 'int64'}):item())"
    for _, before in ipairs { "package.preload.ffi = nil require 'tide' ", "require 'tide' package.preload.ffi = nil " } do
      assert.are.equal("false\tnil\t9007199254740994LL\n", run(before .. try))
    end
  end)

  it("is one in a state, whoever has opened it first", function()
    if not is_luajit then return pending "needs LuaJIT" end
    local use = [[
      local ffi = require "ffi"
      ffi.cdef "typedef struct { int a, b; } pair;"
      local pair = ffi.new("pair", 3, 4)]]
    local check = [[
      local tide = require "tide"
      assert(require "ffi" == ffi and pair.b == 4 and ffi.new("pair", 5, 6).a == 5)
      print(tide.full({1}, 2^53 + 2, {dtype = "int64"}):item())]]
    assert.are.equal("9007199254740994LL\n", run(use .. check))
    assert.are.equal("9007199254740994LL\n", run("require 'tide' " .. use .. check))
  end)
end)

describe("tide.ffi", function()
  it("has all of the FFI that the state has, and is no name of Lua 5.4's", function()
    assert.are.equal(is_luajit, tide.has "ffi")
    if is_luajit then return assert.is_true(tide.ffi.cast == require "ffi".cast) end
    assert.is_truthy(D.raises("ArgumentError", function() return tide.ffi end).message:find("LuaJIT", 1, true))
  end)

  it("is no script's whose host has withheld it", function()
    if not is_luajit then return pending "needs LuaJIT" end
    local try = " print(tide.has 'ffi', pcall(function() return tide.ffi end))"
    for _, before in ipairs { "package.preload.ffi = nil tide = require 'tide'", "tide = require 'tide' package.preload.ffi = nil" } do
      assert.is_truthy(run(before .. try):find "^false\tfalse\t.*the host has withheld")
    end
    assert.are.equal("true\ttrue\t8\n", run "tide = require 'tide' print(tide.has 'ffi', pcall(function() return tide.ffi.sizeof 'double' end))")
  end)
end)

describe("a pointer of the FFI", function()
  D.watch(before_each, after_each)

  local function pointer_of(x) return x:ffi_ptr() end

  it("is an error that names data_ptr in Lua 5.4", function()
    if is_luajit then return pending "needs Lua 5.4" end
    local e = D.raises("NotSupportedError", pointer_of, tide.ones(2, { device = D.dev }))
    assert.is_truthy(e.message:find("LuaJIT", 1, true) and e.message:find("x:data_ptr()", 1, true))
  end)

  it("is what the elements are, at the address of the first", function()
    if not is_luajit then return pending "needs LuaJIT" end
    local ffi = require "ffi"
    local types = { bool = "bool", uint8 = "uint8_t", int8 = "int8_t", int16 = "int16_t", int32 = "int32_t", int64 = "int64_t",
      float16 = "uint16_t", bfloat16 = "uint16_t", float32 = "float", float64 = "double", complex64 = "complex float",
      complex128 = "complex double" }
    for _, dtype in ipairs(D.dtypes) do
      local x = tide.ones({ 2, 3 }, { dtype = dtype, device = D.dev })
      local p = x:ffi_ptr()
      assert.is_true(ffi.istype(D.cuda and "void *" or types[dtype] .. " *", p), dtype)
      assert.are.equal(x:data_ptr(), tonumber(ffi.cast("intptr_t", p)))
      assert.are.equal(x[2]:data_ptr(), tonumber(ffi.cast("intptr_t", x[2]:ffi_ptr())))
    end
  end)

  it("reads and writes tensors of the cpu, by their strides", function()
    if not is_luajit then return pending "needs LuaJIT" end
    local x = tide.arange(1, 7, { dtype = tide.int32 }):view(2, 3)
    for _, v in ipairs { x, x:t(), x[{ {}, { 2, 3 } }] } do
      local p, a, b = v:ffi_ptr(), v:stride(1), v:stride(2)
      for i = 1, v:size(1) do
        for j = 1, v:size(2) do assert.are.equal(v[i][j]:item(), p[(i - 1) * a + (j - 1) * b]) end
      end
    end
    local p, sum = x:ffi_ptr(), 0
    for _ = 1, 300 do
      for i = 0, 5 do sum = sum + p[i] end
    end
    assert.are.equal(300 * 21, sum)
    p[4] = -7
    D.eq({ { 1, 2, 3 }, { 4, -7, 6 } }, x)
    local z = tide.ones(2, { dtype = tide.complex64 })
    z:ffi_ptr()[1] = tide.ffi.new("complex float", 1, 2)
    D.eq({ 0, 2 }, z:imag())
    local half = tide.ones(1, { dtype = tide.float16 })
    assert.are.equal(0x3c00, half:ffi_ptr()[0])
    local pinned = D.cuda and tide.ones(3, { pin_memory = true })
    if pinned then assert.are.equal(1, pinned:ffi_ptr()[2]) end
  end)

  it("is none that the host can read of a tensor on a GPU", function()
    if not is_luajit then return pending "needs LuaJIT" end
    if not D.cuda then return pending "needs a device" end
    local p = tide.ones(2, { device = D.dev }):ffi_ptr()
    assert.is_false((pcall(function() return p[0] end)))
  end)

  it("keeps the memory until it is collected itself", function()
    if not is_luajit then return pending "needs LuaJIT" end
    local function bytes()
      jit.flush()
      for _ = 1, 3 do collectgarbage() end
      tide.cpu.empty_cache()
      return tide.cpu.memory_allocated()
    end
    local before, n = bytes(), 100000
    local x = tide.ones(n)
    local p = x:ffi_ptr()
    assert.is_false(x:free())
    assert.is_true(bytes() >= before + 4 * n)
    x = nil
    bytes()
    local others = {}
    for i = 1, 20 do others[i] = tide.zeros(n) end
    assert.are.equal(1, p[n - 1])
    local inner = tide.scope(function() return tide.full({ n }, 3.5):ffi_ptr() end)
    others = nil
    bytes()
    assert.are.equal(3.5, inner[n - 1])
    p, inner = nil, nil
    assert.are.equal(before, bytes())
  end)

  it("is refused of what is freed, and of what is no tensor; of nothing it points nowhere", function()
    if not is_luajit then return pending "needs LuaJIT" end
    local x = tide.ones(2, { device = D.dev })
    x:free()
    D.raises("StateError", pointer_of, x)
    D.raises("ArgumentError", tide.Tensor.ffi_ptr, 7)
    D.raises("ArgumentError", tide.Tensor.ffi_ptr, tide.ones(1), 7)
    assert.are.equal("cdata", type(tide.ones(0, { device = D.dev }):ffi_ptr()))
  end)
end)

describe("a number", function()
  D.watch(before_each, after_each)

  it("keeps the sign of a zero", function()
    local x = tide.zeros(2, { device = D.dev })
    D.eq({ true, true }, x:fill_(-0.):signbit())
    D.eq({ false, false }, x:fill_(0):signbit())
    D.eq({ -1, -1 }, tide.copysign(tide.ones(2, { device = D.dev }), -0.))
    for _, dtype in ipairs { "float16", "bfloat16", "float32", "float64" } do
      D.eq({ true }, tide.full({ 1 }, -0., { dtype = dtype, device = D.dev }):signbit())
    end
    D.eq({ -math.huge, -math.huge }, 1 / (x * -0.))

    D.eq({ true, false }, x:fill_(0):index_put_({ tide.tensor({ 1 }, { dtype = tide.int64, device = D.dev }) }, -0.):signbit())
    assert.are.equal(-math.huge, 1 / tide.deserialize(tide.serialize(-0.)))
    assert.are.equal(is_luajit and tide.int64 or tide.float32, tide.full({ 1 }, -0., { device = D.dev }).dtype)
    assert.are.equal(tide.int64, tide.full({ 1 }, 0, { device = D.dev }).dtype)
    local whole = { dtype = tide.int64, device = D.dev }
    D.eq({ 0, 0 }, tide.ones({ 2 }, whole):fill_(-0.))
    D.eq({ 7, 7 }, tide.full({ 2 }, 7, whole):roll(-0.))
  end)

  it("is an integer in LuaJIT also as the opposite of 0", function()
    if not is_luajit then return pending "needs LuaJIT" end
    local k = 0
    local x = tide.full({ 2 }, 7, { dtype = tide.int64, device = D.dev })
    D.eq({ 7, 7 }, x:add_(-k))
    D.eq({ 0, 0 }, x:bitwise_and(-k))
    D.eq({ 7, 7 }, x:clamp_ { min = -k })
    D.eq({ 0, 7 }, x:index_fill(1, tide.tensor({ 1 }, { dtype = tide.int64, device = D.dev }), -k))
    for _, y in ipairs { x + -k, x * -k, -k - x, x:where(x:gt(-k), -k), tide.full({ 2 }, -k, { device = D.dev }),
      tide.arange(-k, 5, { device = D.dev }), x:clone():fill_(-k) } do assert.are.equal(tide.int64, y.dtype) end
    x[1] = -k
    D.eq({ 0, 7 }, x)
  end)

  it("beyond every dtype is refused", function()
    if not is_luajit then return pending "needs LuaJIT" end
    local x, uint = tide.zeros(2, { dtype = tide.int64, device = D.dev }), require "ffi".typeof "uint64_t"
    for _, large in ipairs { uint(0) - 1, uint(2 ^ 63) } do
      D.raises("ArgumentError", x.fill_, x, large)
      D.raises("ArgumentError", tide.full, { 1 }, large, { device = D.dev })
      D.raises("ArgumentError", x.add, x, large)
      assert.has_error(function() return x + large end)
      assert.has_error(function() x[1] = large end)
      D.raises("ArgumentError", tide.tensor, { large }, { device = D.dev })
    end
    D.eq({ 0, 0 }, x)
    assert.are.equal(math.maxinteger, x:fill_(uint(2 ^ 63) - 1)[1]:item())
  end)
end)
