-- Kernels from text that are compiled in the background: whether they are ready, and what uses them before.

local tide = require "tide"
local D = require "spec.support.device"
local cuda = tide.cuda
local J = cuda.jiterator
if not D.compiler then return pending "functions from C++ text: needs a compiler" end

local count = 0
-- A text that no cache has seen.
local function fresh(text)
  count = count + 1
  return ("// %d of %s\n"):format(count, os.tmpname()) .. text
end

local function ones(n, dtype) return tide.ones(n, { device = D.dev, dtype = dtype or "float32" }) end

-- Asks until the answer is true; returns how often it was not.
local function wait(ask, ...)
  for n = 0, 20000 do
    if ask(...) then return n end
    os.execute "sleep 0.01"
  end
  error "it never became ready"
end

describe("jiterator.ready", function()
  D.watch(before_each, after_each)

  it("begins to compile, and tells when that is done", function()
    local f = J.create_jit_fn(fresh "template <typename T> T f(T x, T y, T a) { return x * 3 + a * y; }", { a = 2 })
    local x = ones(5, "float64") -- which nobody would guess
    local before = D.cache_info()
    assert.is_false(J.ready(f, x, x))
    assert.is_true(wait(J.ready, f, x, x) >= 0)
    D.eq({ 5, 5, 5, 5, 5 }, f(x, x))
    D.eq({ 4, 4, 4, 4, 4 }, f(x, x, { a = 1 })) -- numbers are no part of it
    local after = J.cache_info()
    assert.are.equal(before.misses + 1, after.misses)
    assert.are.equal(before.ahead + 1, after.ahead)
    assert.is_false(J.ready(f, x:to "int32", x:to "int32")) -- another dtype is another kernel
    assert.is_true(J.ready(f, x, x))
    wait(J.ready, f, x:to "int32", x:to "int32")
  end)

  it("and a call of what is not ready waits for the rest alone", function()
    local f = J.create_jit_fn(fresh "template <typename T> T f(T x) { return x + 41; }")
    local before = D.cache_info().misses
    for _, x in ipairs { ones(3, "float64"), ones(8, "float64"):slice(1, 1, -1, 2) } do
      assert.is_false(J.ready(f, x))
      D.eq(x + 41, f(x))
      assert.is_true(J.ready(f, x))
    end
    assert.are.equal(before + 2, J.cache_info().misses)
    local many = {}
    for i = 1, 6 do
      many[i] = J.create_jit_fn(fresh("template <typename T> T f(T x) { return x + %d; }"):format(i))
      J.ready(many[i], ones(2, "int64"))
    end
    for i = 6, 1, -1 do D.eq({ 1 + i, 1 + i }, many[i](ones(2, "int64"))) end
  end)

  it("needs no kernel for nothing", function()
    local f = J.create_jit_fn(fresh "template <typename T> T f(T x) { return x; }")
    assert.is_true(J.ready(f, ones(0)))
    assert.is_false(J.ready(f, tide.ones({}, { device = D.dev, dtype = "float64" })))
    wait(J.ready, f, tide.ones({}, { device = D.dev, dtype = "float64" }))
  end)

  it("tells what the compiler says, and what is no such function", function()
    local f = J.create_jit_fn(fresh "template <typename T> T f(T x) {\n  return missing(x);\n}")
    local x = ones(3, "float64")
    assert.is_false(J.ready(f, x))
    local e
    repeat
      local ok, said = pcall(J.ready, f, x)
      e = not ok and said
      assert.is_true(ok == false or said == false)
    until e
    assert.are.equal("ValueError", e.kind)
    assert.is_truthy(e.message:find "does not compile.*line 3.*missing" and e.message:find "jit_ready_spec.lua", e.message)
    e = D.raises("ValueError", f, x) -- as a call does
    assert.is_truthy(e.message:find "missing", e.message)
    D.raises("ArgumentError", J.ready)
    D.raises("ArgumentError", J.ready, x, x)
    D.raises("ArgumentError", J.ready, print, x)
    D.raises("ArgumentError", J.ready, f)
    e = D.raises("ArgumentError", J.ready, f, 3)
    assert.is_truthy(e.message:find("argument 1", 1, true), e.message)
    local g = J.create_jit_fn(fresh "template <typename T> T f(T x, T y) { return x + y; }")
    D.raises("ShapeError", J.ready, g, ones(3), ones(4))
  end)

  it("is all a second process does, which finds them on disk", function()
    local path = os.tmpname()
    os.remove(path)
    local program = [[
      local tide = require "tide"
      local J = tide.cuda.jiterator
      local x = tide.ones(3, { device = os.getenv "TIDE_DEVICE" == "cuda" and "cuda" or "cpu", dtype = "float64" })
      local f = J.create_jit_fn "template <typename T> T f(T x) { return x * 7; }"
      while not J.ready(f, x) do os.execute "sleep 0.01" end
      assert(f(x):sum():item() == 21)
      local i = J.cache_info()
      print(i.misses, i.disk_hits)]]
    local function run()
      local out, err, code = D.run({ "-e", program }, { env = { TIDE_KERNEL_CACHE_PATH = path } })
      assert.are.equal("0 ", code .. " " .. err)
      return (out:gsub("%s+", " "))
    end
    assert.are.equal("1 0 ", run())
    assert.are.equal("0 1 ", run())
    os.execute("rm -rf " .. path)
  end)

  it("does not keep a process that ends", function()
    local out, err, code = D.run({ "-e", [[
      local tide = require "tide"
      local J = tide.cuda.jiterator
      local x = tide.ones(3, { device = os.getenv "TIDE_DEVICE" == "cuda" and "cuda" or "cpu" })
      for i = 1, 40 do J.ready(J.create_jit_fn("template <typename T> T f(T x) { return x * " .. i .. "; }"), x) end
      print(pcall(J.ready, J.create_jit_fn "template <typename T> T f(T x) { return x * 0; }", x))]] },
      { env = { TIDE_KERNEL_CACHE = "0" } })
    assert.are.equal("0 true\tfalse\n", code .. " " .. out .. err)
  end)
end)

describe("ready of a kernel", function()
  D.watch(before_each, after_each)

  it("is true where it was compiled, and compiles for other devices", function()
    local k = cuda.compile_kernel(fresh 'extern "C" __global__ void k(float *x) { x[threadIdx.x] += 2; }', "k")
    assert.is_true(k:ready())
    assert.is_true(k:ready(D.dev))
    local x = ones(4)
    k({ grid = 1, block = 4 }, x)
    D.eq({ 3, 3, 3, 3 }, x)
    if D.simulated then
      wait(k.ready, k, "cpu") -- at once where its compiler is known already: both share what the disk holds
      local y = tide.ones(4, { dtype = "float32" })
      k({ grid = 1, block = 4 }, y)
      D.eq({ 3, 3, 3, 3 }, y)
    end
    D.raises("ArgumentError", k.ready, k, "gpu")
    if D.cuda then D.raises("DeviceError", k.ready, k, 63) end
  end)
end)
