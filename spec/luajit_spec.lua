-- What LuaJIT has beside Lua 5.4 (lua_bindings/compat/README.md): the FFI.
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
