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

describe("a number", function()
  D.watch(before_each, after_each)

  it("keeps the sign of a zero", function()
    local x = tide.zeros(2, { device = D.dev })
    D.eq({ true, true }, x:fill_(-0.):signbit())
    D.eq({ false, false }, x:fill_(0):signbit())
    D.eq({ -1, -1 }, tide.copysign(tide.ones(2, { device = D.dev }), -0.))
    assert.are.equal(tide.float32, tide.full({ 1 }, -0., { device = D.dev }).dtype)
    assert.are.equal(tide.int64, tide.full({ 1 }, 0, { device = D.dev }).dtype)
    local whole = { dtype = tide.int64, device = D.dev }
    D.eq({ 0, 0 }, tide.ones({ 2 }, whole):fill_(-0.))
    D.eq({ 7, 7 }, tide.full({ 2 }, 7, whole):roll(-0.))
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
