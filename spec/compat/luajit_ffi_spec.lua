-- tide.ffi under LuaJIT: the C library by what the public headers declare, and what is compared before it is used
-- (lua_bindings/compat/library.c).
local tide = require "tide"
local D = require "spec.support.device"

if rawget(_G, "jit") == nil then return pending "needs LuaJIT" end

local on = { device = D.dev }
local ffi = require "ffi"
local lib = tide.ffi.lib

-- What the text writes in a LuaJIT of its own; env: "A=b ".
local function run(text, env)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  local pipe = assert(io.popen(("%sLUA_CPATH=%s luajit %s 2>&1"):format(env or "", D.quote(package.cpath), path)))
  local out = pipe:read "*a"
  pipe:close()
  os.remove(path)
  return out
end

describe("tide.ffi", function()
  D.watch(before_each, after_each)

  it("has the functions and constants of the headers, and LuaJIT's own", function()
    assert.are.equal(tide._VERSION, ffi.string(lib.tide_version()))
    assert.are.equal(-1, lib.TIDE_CPU)
    assert.are.equal(12, lib.TIDE_MAX_DIMS)
    assert.are.equal(0, lib.TIDE_OK)
    assert.are.equal("float64", ffi.string(lib.tide_dtype_name(lib.TIDE_FLOAT64)))
    assert.are.equal(lib.TIDE_INT64, lib.tide_dtype_promote(lib.TIDE_INT32, lib.TIDE_INT64))
    assert.are.equal(true, lib.tide_dtype_can_cast(lib.TIDE_INT32, lib.TIDE_FLOAT32))
    assert.are.equal(ffi.new, tide.ffi.new)
    assert.has_error(function() return lib.tide_nothing end)
    D.raises("ArgumentError", function() return tide.ffi.nothing end)
    assert.is_true(tide.has "ffi.tensor" and tide.has "ffi.lib.tide_elementwise" and not tide.has "ffi.nothing")
    assert.is_truthy(tide._rows and D.raises("ArgumentError", tide.ffi.tensor, 7).message:find("tensor", 1, true))
  end)

  it("gives tensors to C, in loops that are compiled too", function()
    local x = tide.ones(2, 3, on)
    local p, sum = tide.ffi.tensor(x), 0
    for _ = 1, 300 do sum = sum + lib.tide_tensor_ndim(p) + tonumber(lib.tide_tensor_numel(p)) end
    assert.are.equal(300 * 8, sum)
    assert.are.equal(D.cuda and x.device.index or -1, lib.tide_tensor_device(p))
    assert.are.equal(3, tonumber(lib.tide_tensor_size(p)[1]))
    assert.are.equal(x:data_ptr(), tonumber(ffi.cast("intptr_t", lib.tide_tensor_data(p))))
  end)

  it("takes tensors from C, each with a reference of its own", function()
    local size, options = ffi.new("int64_t[2]", 2, 3), ffi.new "tide_options"
    local five = ffi.new "tide_scalar"
    five.kind, five.i, five.re = ("I"):byte(), 5, 5
    options.dtype, options.device = lib.TIDE_FLOAT32, D.cuda and 0 or lib.TIDE_CPU
    local out = ffi.new "tide_tensor *[1]"
    for _ = 1, 100 do
      tide.ffi.check(lib.tide_full(out, size, 2, five, options))
      local x = tide.ffi.wrap(out[0])
      lib.tide_tensor_release(out[0])
      D.eq({ { 5, 5, 5 }, { 5, 5, 5 } }, x)
      assert.are.equal(tide.float32, x.dtype)
    end
  end)

  it("raises what a function of C says", function()
    local x, y = tide.ffi.tensor(tide.ones(2, on)), tide.ffi.tensor(tide.ones(3, on))
    local operands, out = ffi.new "tide_operand[2]", ffi.new "tide_tensor *[1]"
    operands[0].tensor, operands[1].tensor = x, y
    local status = lib.tide_elementwise(out, lib.TIDE_OP_add, operands, nil, nil)
    assert.are.equal(lib.TIDE_SHAPE, status)
    D.raises("ShapeError", tide.ffi.check, status)
    assert.is_true(out[0] == nil)
    assert.is_nil(tide.ffi.check(lib.TIDE_OK))
  end)

  it("makes no callback of a function of Lua's", function()
    for _, f in ipairs { lib.tide_interrupt_set, lib.tide_site_set, lib.tide_warn_set } do
      assert.has_error(function() f(function() return 0 end, nil) end)
    end
    assert.is_true(ffi.istype("void *", ffi.new("tide_config").log))
  end)

  it("keeps a tensor for as long as a pointer to it lives", function()
    local x = tide.full({ 3 }, 7, on)
    local p = tide.ffi.tensor(x)
    x:free()
    x = nil
    collectgarbage()
    collectgarbage()
    local others = {}
    for i = 1, 50 do others[i] = tide.zeros(3, on) end
    assert.are.equal(3, tonumber(lib.tide_tensor_numel(p)))
    D.eq({ 7, 7, 7 }, tide.ffi.wrap(p))
    local inner = tide.scope(function() return tide.ffi.tensor(tide.full({ 2 }, 4, on)) end)
    collectgarbage()
    D.eq({ 4, 4 }, tide.ffi.wrap(inner))
  end)

  it("refuses what is no pointer to a tensor, and what is freed", function()
    for _, wrong in ipairs { 7, "x", tide.ones(1), ffi.new "int[1]", ffi.cast("void *", 0), ffi.cast("tide_tensor *", 0) } do
      local e = D.raises("ArgumentError", tide.ffi.wrap, wrong)
      assert.is_truthy(e.message:find("tide_tensor *", 1, true))
    end
    local x = tide.ones(2, on)
    x:free()
    D.raises("StateError", tide.ffi.tensor, x)
    D.raises("ArgumentError", tide.ffi.check, "x")
  end)

  it("collects nothing while a function of C runs out of memory", function()
    if not D.cuda then return pending "needs a device" end
    local options, size, out = ffi.new "tide_options", ffi.new("int64_t[1]", 2 ^ 50), ffi.new "tide_tensor *[1]"
    options.dtype, options.device = lib.TIDE_FLOAT32, 0
    local garbage, seen = false, 0
    getmetatable(newproxy(true)).__gc = function() garbage = true end
    collectgarbage "stop"
    for _ = 1, 200 do
      local status = lib.tide_empty(out, size, 1, options)
      seen = seen + (status == lib.TIDE_MEMORY and 1 or 0)
    end
    local collected = garbage
    D.raises("OutOfMemoryError", tide.empty, { 2 ^ 50 }, on) -- a function of Lua's collects all the same
    collectgarbage "restart"
    assert.are.equal(200, seen)
    assert.is_false(collected)
    assert.is_true(garbage)
    assert.are.equal(3, tide.ones(3, on):sum():item())
  end)
end)

describe("the module for LuaJIT", function()
  local other = D.runner:gsub("bin/tide$", "spec/other_abi.so")
  local function require_with(how) return run("print(pcall(require, 'tide'))", ("LD_PRELOAD=%s OTHER_ABI=%s "):format(other, D.quote(how))) end

  -- The number of a mark, and its value, by the library itself.
  local function find(wanted)
    local marks, count = ffi.new "const tide_abi_mark *[1]", ffi.new "size_t[1]"
    lib.tide_abi(marks, count)
    local n = 0
    for line in io.lines((D.runner:gsub("bin/tide$", "script/tide_marks.inc"))) do
      if line:find(wanted, 1, true) then return n, marks[0][n].value end
      n = n + 1
    end
  end

  it("is loaded where libtide is of its build", function()
    local at, bytes = find "ABI_FIELD(tide_error, message,"
    assert.are.equal(8, bytes)
    assert.is_truthy(require_with(at .. " " .. bytes):find "^true")
  end)

  it("names the struct and the field that are others in libtide, and both versions", function()
    local version = ("libtide %s (ABI 1) and this module, built with %s (ABI 1)"):format(tide._VERSION, tide._VERSION)
    local function expect(how, what)
      local out = require_with(how)
      assert.is_truthy(out:find "^false", out)
      assert.is_truthy(out:find(version, 1, true), out)
      assert.is_truthy(out:find(what, 1, true), out)
    end
    expect(find "ABI_FIELD(tide_error, message," .. " 16", "tide_error.message lies at byte 16 in libtide and at 8 here")
    expect(find "ABI_STRUCT(tide_scalar," .. " 48", "tide_scalar has 48 bytes in libtide and 32 here")
    expect("named " .. find "ABI_FIELD(tide_scalar, re,", "libtide has something else in the place of tide_scalar.re")
    expect(find 'ABI_TEXT("op.def",' .. " 1", "tide/op.def is another one")
    expect("fewer", "libtide has fewer headers")
    assert.is_truthy(require_with "abi":find("libtide " .. tide._VERSION .. " (ABI 99) and this module", 1, true))
  end)

  it("tells a script that has declared a struct otherwise, and takes what it has declared alike", function()
    local wrong = run [[
      local ffi = require "ffi"
      ffi.cdef "typedef struct tide_stat { int32_t current, peak, allocated, freed; } tide_stat;"
      print(pcall(function() return require "tide".ffi end))]]
    assert.is_truthy(wrong:find "^false" and wrong:find("tide_stat: ", 1, true) and wrong:find("is 32 there and 16 here", 1, true), wrong)
    local alike = run [[
      local ffi = require "ffi"
      ffi.cdef "typedef struct tide_stat { int64_t current, peak, allocated, freed; } tide_stat; typedef struct tide_tensor tide_tensor;"
      local tide = require "tide"
      print(tide.ffi.lib.tide_tensor_ndim(tide.ffi.tensor(tide.ones(2, 2))))]]
    assert.are.equal("2\n", alike)
  end)

  it("is one however often it is loaded", function()
    assert.are.equal("true\ttrue\t4\t2\n", run [[
      local tide = require "tide"
      local x, space = tide.ones(2, 2), tide.ffi
      package.loaded.tide = nil
      local again = require "tide"
      print(tide == again, space == again.ffi, x:sum():item(), again.ffi.lib.tide_tensor_ndim(again.ffi.tensor(x)))]])
  end)

  it("may be loaded in states beside each other, each with tide.ffi", function()
    assert.are.equal("2\t2\n2\t2\n2\t2\n", run(([[
      local ffi = require "ffi"
      ffi.cdef("typedef struct lua_State lua_State; lua_State *luaL_newstate(void); void luaL_openlibs(lua_State *L);" ..
        "int luaL_loadstring(lua_State *L, const char *s); int lua_pcall(lua_State *L, int a, int r, int h); void lua_close(lua_State *L);")
      local text = [=[package.cpath = %q local t = require 'tide' local x = t.ones(2, 2) print(t.ffi.lib.tide_tensor_ndim(t.ffi.tensor(x)), x:dim())]=]
      for _ = 1, 2 do
        local L = ffi.C.luaL_newstate()
        ffi.C.luaL_openlibs(L)
        assert(ffi.C.luaL_loadstring(L, text) == 0 and ffi.C.lua_pcall(L, 0, 0, 0) == 0)
        ffi.C.lua_close(L)
      end
      loadstring(text)()]]):format(package.cpath)))
  end)
end)

describe("functions of C in each other", function()
  it("look for the script's line not far, where tail calls have left none", function()
    local n = 0
    local function nested()
      n = n + 1
      if n == 3000 then error "enough" end
      return tide.scope(nested)
    end
    local start = os.clock()
    assert.is_false((pcall(nested)))
    assert.are.equal(3000, n)
    assert.is_true(os.clock() - start < 20, "it looks further in each than in the one before")
  end)
end)

describe("compiled reads", function()
  it("of a tensor whose state ends are refused as ever", function()
    local out = run [[
      local tide = require "tide"
      local x = tide.arange(4)
      local proxy = newproxy(true)
      getmetatable(proxy).__gc = function()
        local ok, e
        for _ = 1, 200 do
          ok, e = pcall(function() return x:numel() + x[1]:item() end)
        end
        io.stdout:write(tostring(ok), "\n")
      end]]
    assert.is_truthy(out == "false\n" or out == "true\n", out)
  end)

  it("of page-locked memory that a reset has ended are errors", function()
    if not D.cuda then return pending "needs a device" end
    local out = run([[
      local tide = require "tide"
      local x, y = tide.ones(3, {pin_memory = true}), tide.ones(3)
      local kinds = {}
      for i = 1, 300 do
        if i == 200 then tide.cuda.device_reset() end
        local ok, e = pcall(function() return x[1]:item() end)
        kinds[i] = ok and "read" or e.kind
      end
      print(kinds[1], kinds[199], kinds[201], kinds[300], y[1]:item())]], "TIDE_SIM_DEVICES=2 ")
    assert.are.equal("read\tread\tStateError\tStateError\t1\n", out)
  end)
end)
