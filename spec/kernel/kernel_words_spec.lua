-- What kernels written in Lua can call, in plain Lua, and tide.kernel.interpret (KER-11), which
-- runs a kernel's function there: what other specs hold kernels to.

local tide = require "tide"
local D = require "spec.support.device"

local interpret = tide.kernel.interpret
local is_54 = _VERSION == "Lua 5.4"
local function raises(kind, text, f, ...)
  local e = D.raises(kind, f, ...)
  assert.is_truthy(e.message:find(text, 1, true), e.message .. "\nhas no " .. text)
end

describe("kernel words: random numbers", function()
  it("are Philox's of the seed and the counters", function()
    -- 6627e8d5 e169c58d bc57ac4c 9b00dbd8 of counter 0 and key 0 (Random123's kat_vectors)
    local function bits53(low, high) return (high * 2 ^ 21 + math.floor(low / 2048)) / 2 ^ 53 end
    assert.are.equal(bits53(0x6627e8d5, 0xe169c58d), tide.random.uniform(0, 0))
    assert.are.equal(tide.random.uniform(0, 0), tide.random.uniform(0, 0, 0))
    local u, v = bits53(0x6627e8d5, 0xe169c58d) + 1 / 2 ^ 53, bits53(0xbc57ac4c, 0x9b00dbd8)
    assert.is_true(math.abs(math.sqrt(-2 * math.log(u)) * math.cos(2 * math.pi * v) - tide.random.normal(0, 0)) < 1e-15)
    local sum, squares, n, seen = 0, 0, 2000, {}
    for i = 1, n do
      local x, k = tide.random.normal(5, i, 2, 3), tide.random.integer(5, -2, 3, i)
      sum, squares = sum + x, squares + x * x
      assert.is_true(k >= -2 and k < 3)
      seen[k] = (seen[k] or 0) + 1
      local y = tide.random.uniform(5, i, 2, 3)
      assert.is_true(y >= 0 and y < 1 and y ~= tide.random.uniform(5, i, 3, 2) and y ~= tide.random.uniform(6, i, 2, 3))
    end
    assert.is_true(math.abs(sum / n) < 0.1 and math.abs(squares / n - 1) < 0.1)
    for k = -2, 2 do assert.is_true(seen[k] > n / 5 * 0.8) end
    assert.are.equal(4, tide.random.integer(1, 4, 4, 1))
    raises("ArgumentError", "uniform: i: got nothing, expected an integer", tide.random.uniform, 1)
    raises("ArgumentError", "normal: seed: got number 0.5, expected an integer", tide.random.normal, 0.5, 1)
  end)

  it("are whole numbers of any range that a kernel computes, and what follows of the range holds", function()
    if _VERSION ~= "Lua 5.4" then return pending "texts of functions are Lua 5.4's" end
    for _, range in ipairs { { "math.min(i, 3) - 3", "4" }, { "-(i % 3)", "i" }, { "i % 5 - 4", "i + 3" }, { "(i > 2 and -7 or -2)", "2" }, { "2 - i", "math.max(i, 3)" },
      { "-3", "i % 2" }, { "i", "i" }, { "1 - i", "1 - i" } } do
      local text = ([[function(i, y, z, v, w)
        local r = tide.random.integer(5, %s, %s, i)
        y[i], z[i], v[i], w[i] = r % 3, math.abs(r), r < 0 and 1 or 0, math.max(r, -1)
      end]]):gsub("%%s", function() return table.remove(range, 1) end)
      local n, f = 64, load("local tide = ... return " .. text)(tide)
      local want, got = { {}, {}, {}, {} }, {}
      for k = 1, 4 do got[k] = tide.zeros(n, { dtype = "int64", device = D.dev }) end
      tide.kernel(text)(n, got[1], got[2], got[3], got[4])
      for i = 1, n do f(i, want[1], want[2], want[3], want[4]) end
      for k = 1, 4 do D.eq(want[k], got[k], 0, text) end
    end
  end)

  it("are float32's where the kernel is", function()
    local single = interpret(function(i) return tide.random.uniform(3, i) end, 4)
    local double = interpret(function(i) return tide.random.uniform(3, i) end, 4, { float = tide.float64 })
    assert.are.equal(tide.float32, single.dtype)
    assert.are.equal(tide.float64, double.dtype)
    for i = 1, 4 do
      assert.are.equal(tide.random.uniform(3, i), double[i]:item())
      assert.is_true(single[i]:item() * 2 ^ 24 % 1 == 0)
    end
  end)
end)

describe("kernel words: atomic operations", function()
  it("change an element and give what was there", function()
    local x = tide.tensor({ { 1, 2 }, { 3, 4 } }, { dtype = tide.int32 })
    assert.are.equal(4, tide.atomic.add(x, { 2, 2 }, 5))
    assert.are.equal(9, tide.atomic.sub(x, { 2, 2 }, 1))
    assert.are.equal(8, tide.atomic.min(x, { 2, 2 }, 7))
    assert.are.equal(7, tide.atomic.max(x, { 2, 2 }, 3))
    assert.are.equal(7, tide.atomic.exchange(x, { 2, 2 }, 12))
    assert.are.equal(12, tide.atomic.cas(x, { 2, 2 }, 11, 1))
    assert.are.equal(12, tide.atomic.cas(x, { 2, 2 }, 12, 6))
    assert.are.equal(6, tide.atomic.band(x, { 2, 2 }, 3))
    assert.are.equal(2, tide.atomic.bor(x, { 2, 2 }, 9))
    assert.are.equal(11, tide.atomic.bxor(x, { 2, 2 }, 1))
    D.eq({ { 1, 2 }, { 3, 10 } }, x)
    local y = tide.tensor({ 0.5, 250 }, { dtype = tide.float32 })
    assert.are.equal(0.5, tide.atomic.add(y, 1, 0.25))
    D.eq({ 0.75, 250 }, y)
    local z = y:to "uint8"
    assert.are.equal(250, tide.atomic.add(z, 2, 10)) -- wraps around
    D.eq({ 0, 4 }, z)
  end)

  it("refuse what is no place or no such number", function()
    local x = tide.zeros(2, 3)
    raises("IndexError", "add: index: got 1 indexes, expected 2", tide.atomic.add, x, 1, 1)
    raises("IndexError", "add: index out of range in dimension 2, got 4, expected 1 to 3", tide.atomic.add, x, { 1, 4 }, 1)
    raises("IndexError", "got -1, expected 1 to 2", tide.atomic.add, x, { -1, 1 }, 1)
    raises("ArgumentError", "max: v: got string 'a', expected a number", tide.atomic.max, x, { 1, 1 }, "a")
    raises("DtypeError", "bor: dtype not accepted, got float32, expected integers", tide.atomic.bor, x, { 1, 1 }, 1)
    raises("ArgumentError", "add: x: got table, expected a tensor", tide.atomic.add, {}, 1, 1)
    if D.cuda then raises("DeviceError", "expected one on the cpu", tide.atomic.add, x:to(D.dev), { 1, 1 }, 1) end
    D.eq({ { 0, 0, 0 }, { 0, 0, 0 } }, x)
  end)
end)

describe("kernel interpret", function()
  D.watch(before_each, after_each)

  it("gives a tensor per result, and writes to the arguments", function()
    local x, out = D.tensor({ { 1, 2, 3 }, { 4, 5, 6 } }, "float32"), tide.zeros({ 2 }, { device = D.dev, dtype = tide.int8 })
    local sum, is_large, count = interpret(function(i, x, out)
      local s = 0
      for j = 1, x.shape[2] do s = s + x[i][j] * x[{ i, j }] end
      out[i] = s * 10
      return s, s > 20, i
    end, 2, x, out)
    D.eq({ 14, 77 }, sum)
    D.eq({ false, true }, is_large)
    D.eq({ 1, 2 }, count)
    if is_54 then assert.are.same({ tide.float32, tide.bool, tide.int64 }, { sum.dtype, is_large.dtype, count.dtype }) end
    D.eq({ -116, 2 }, out)
    local total = interpret("function(i, j, k) return i * 100 + j * 10 + k end", { 2, 1, 2 }, { reduce = "max" })
    D.eq(212, total)
    D.eq({ 2 }, interpret("function(i) return math.floor(2.5) + (os == nil and 0 or 1) + tide.vec2(0).x end", 1)) -- no other globals
    local into = tide.zeros(3)
    assert.are.equal(into, interpret(function(i) return i / 2 end, 3, { out = into }))
    D.eq({ 0.5, 1, 1.5 }, into)
    assert.is_nil((interpret(function(i, j) return i + j end, { 0, 2 }))) -- nothing was there to say what it returns
    assert.is_nil((interpret(function() end, 3)))
  end)

  it("refuses a text that is no Lua", function()
    raises("ArgumentError", "interpret: fn: got a text that is no Lua: ", interpret, "/ 2", 3)
  end)

  it("stores as the dtype does", function()
    local function one(dtype, value)
      local x = tide.zeros({ 1 }, { dtype = dtype, device = D.dev })
      interpret(function(i, x) x[i] = value end, 1, x)
      return x[1]:item()
    end
    for _, dtype in ipairs { "float16", "bfloat16", "float32", "float64" } do
      for _, v in ipairs { 1 / 3, -70000.5, 65519.9, 65520, 1e-7, 6e-8, 2049, 1 / 0, 1e-45, -5e-324 } do
        assert.are.equal(tide.tensor({ v }, { dtype = "float64" }):to(dtype)[1]:item(), one(dtype, v), dtype .. " " .. v)
      end
      assert.is_true(one(dtype, 0 / 0) ~= one(dtype, 0 / 0))
    end
    assert.are.same({ 255, -1, -3, true, 0, 1 },
      { one("uint8", -1), one("int8", 255), one("int32", -3.9), one("bool", 0.1), one("int16", 65536), one("int64", true) })
  end)

  it("shows tensors, functions and numbers that the function reaches", function()
    local x, scale = D.tensor { 1, 2, 3 }, 2
    local sim = { grid = { field = D.tensor { 10, 20, 30 } } }
    local function twice(i) return x[i] * scale end
    local y = interpret(function(i)
      sim.grid.field[i] = sim.grid.field[i] + 1
      return twice(i) + sim.grid.field[i]
    end, 3)
    D.eq({ 13, 25, 37 }, y)
    D.eq({ 11, 21, 31 }, sim.grid.field)
    D.eq({ 1, 2, 3 }, x) -- it is the tensor again
    raises("ArgumentError", "a kernel assigns no global and no field of a table", interpret, function() sim.grid.field = 1 end, 1)
    D.eq({ 11, 21, 31 }, sim.grid.field)
    assert.is_false(pcall(interpret, function(i) return twice(i + 1) end, 3))
    D.eq({ 2, 4, 6 }, x * scale)
  end)

  it("shows tensors in lists, and how long these are", function()
    local list, at = { tide.tensor { 1, 2, 3 }, tide.tensor { 10, 20, 30 } }, { deep = { { 5, 7 }, { 6, 8 } } }
    local function add(i, x) x[i] = x[i] + list[2][i] * #list + at.deep[2][1] end
    local plain, x = tide.ones(3), tide.ones(3, { device = D.dev })
    interpret(add, 3, plain)
    D.eq({ 27, 47, 67 }, plain)
    if _VERSION ~= "Lua 5.4" then return pending "the spec's text is translated, so that no kernel finds it" end
    for k = 1, 2 do list[k] = list[k]:to(D.dev) end
    tide.kernel(add)(3, x)
    D.eq(plain, x)
  end)

  it("runs the threads of a block up to what they wait for", function()
    local x, sums = D.tensor({ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }, "float32"), tide.zeros(3)
    local turned, all, warp = interpret(function(i, x, sums)
      local tile, t, n = tide.shared(tide.float32, 4), tide.thread(), tide.block_size()
      tile[t] = x[i]
      tide.barrier()
      local other = i <= 8 and tile[n + 1 - t] or 0
      local all = tide.block_sum(x[i])
      if t == 1 then sums[tide.block()] = all end
      return other, all, tide.warp_sum(1)
    end, 10, x, sums, { block = 4 })
    D.eq({ 4, 3, 2, 1, 8, 7, 6, 5, 0, 0 }, turned)
    D.eq({ 10, 10, 10, 10, 26, 26, 26, 26, 19, 19 }, all)
    D.eq({ 4, 4, 4, 4, 4, 4, 4, 4, 2, 2 }, warp)
    D.eq({ 10, 26, 19 }, sums)
    local a, b = interpret(function() return tide.block() end, { 2, 600 }), nil
    assert.are.equal(1, a[1][256]:item())
    a, b = interpret(function()
      local _, across = tide.block()
      return across, tide.block_sum(1)
    end, { 2, 300 }, { block = { 2, 256 } })
    assert.are.same({ 1, 2, 512, 88 }, { a[1][256]:item(), a[2][257]:item(), b[1][1]:item(), b[2][300]:item() })
    local warps, ones = interpret(function(i)
      local w = i <= 32 and tide.warp_sum(i) or 0
      tide.barrier()
      return w, tide.block_sum(1)
    end, 64, { block = 64 })
    assert.are.same({ 528, 0, 64 }, { warps[1]:item(), warps[33]:item(), ones[64]:item() })
    raises("StateError", "wait for each other at different places", interpret, function(i)
      if i == 1 then tide.barrier() else tide.block_sum(1) end
    end, 2)
    raises("StateError", "barrier: it is a word of kernels, got a call outside of one", tide.barrier)
    raises("StateError", "thread: it is a word of kernels", tide.thread)
    raises("ArgumentError", "shared: n: got number 0, expected an integer of at least 1", interpret, function() tide.shared(tide.int32, 0) end, 1)
  end)

  it("finds accesses of tide.shared that no barrier orders", function()
    local x, bins = tide.zeros(8, 2), tide.zeros(4)
    local function fails(message, fn) raises("StateError", message, interpret, fn, 8, x, bins, { block = 8 }) end
    fails("thread 5 reads element 4 of an array of tide.shared, which thread 4 writes, expected tide.barrier() between them", function()
      local s, t = tide.shared(tide.int32, 8), tide.thread()
      s[t] = t
      if t > 4 then s[t] = s[9 - t] end
    end)
    fails("thread 1 reads element 8, 2 of an array of tide.shared, which no thread has written, expected a write and tide.barrier() before", function(i, x)
      local s, t = tide.shared(tide.float32, 8, 2), tide.thread()
      s[t] = tide.vec2(x[i])
      x[i][1] = s[9 - t][2]
    end)
    fails("thread 8 writes element 8 of an array of tide.shared, which thread 1 reads, expected", function()
      local s, t = tide.shared(tide.int32, 8), tide.thread()
      s[t] = t
      tide.barrier()
      local last = t == 1 and s[8] or 0
      if t == 8 then s[t] = last end
    end)
    fails("thread 2 changes element 1 of an array of tide.shared, which thread 1 writes, expected", function()
      local s, t = tide.shared(tide.int32, 8), tide.thread()
      if t % 2 == 1 then s[(t + 1) // 2] = 0 end
      tide.atomic.add(s, (t + 1) // 2, 1)
    end)
    local function count(i, x, bins)
      local s, t = tide.shared(tide.int32, 8), tide.thread()
      s[1] = 0 -- all threads write the same value
      tide.barrier()
      tide.atomic.add(s, 1, i)
      tide.barrier()
      if t == 1 then s[2] = s[1] end
      bins[1] = tide.block_sum(1)
      bins[2] = s[2]
    end
    interpret(count, 8, x, bins, { block = 8 })
    D.eq({ 8, 36, 0, 0 }, bins)
  end)

  it("says what a compiled kernel gives, where an integer comes from a float", function()
    if not D.compiler then pending("needs a compiler") end
    local text = "function(i, x) return math.ceil(math.max(-9, math.min(9, x[i]))) / 3 end"
    local x, k = D.tensor({ -0.5, 0.5, -1.5 }, "float64"), tide.kernel(text)
    k(3, x)
    k:wait()
    local expected, got = interpret(text, 3, x), k(3, x)
    D.eq(expected:totable(), got)
    assert.are.equal(1 / 0, 1 / got[1]:item()) -- an integer has no -0
  end)

  it("has vectors and atomic operations", function()
    local p = D.tensor({ { 3, 4, 0 }, { 0, 0, 2 } }, "float32")
    local h = tide.zeros({ 2 }, { dtype = tide.int64, device = D.dev })
    local old = interpret(function(i, p, h)
      local v = tide.vec3(p[i])
      p[i] = v:normalize() * 2
      return tide.atomic.add(h, 1, v:length() // 1)
    end, 2, p, h)
    D.eq({ { 1.2, 1.6, 0 }, { 0, 0, 2 } }, p, 1e-6)
    D.eq({ 0, 5 }, old)
    D.eq({ 7, 0 }, h)
  end)

  it("refuses what no kernel does, and changes nothing then", function()
    local x = D.tensor { 1, 2, 3 }
    raises("IndexError", "kernel: index out of range in dimension 1 of x, got 4, expected 1 to 3", interpret, function(i, x)
      x[i] = 0
      return x[i + 1]
    end, 3, x)
    D.eq({ 1, 2, 3 }, x)
    raises("IndexError", "got 0, expected 1 to 3", interpret, function(i, x) return x[i - 1] end, 3, x)
    raises("ArgumentError", "index of x: got number 1.5, expected an integer", interpret, function(i, x) return x[i + 0.5] end, 3, x)
    raises("ArgumentError", "kernel: x: got string 'a', expected a number or a boolean", interpret, function(i, x) x[i] = "a" end, 3, x)
    raises("ArgumentError", "there is no sum of a tensor in a kernel", interpret, function(i, x) return x:sum() end, 3, x)
    raises("ArgumentError", "returns 0 values at one place and 1 at another", interpret, function(i) if i == 1 then return 1 end end, 2)
    raises("ArgumentError", "kernel: result 1: got table, expected a number", interpret, function(_, x) return x end, 2, x)
    raises("ArgumentError", "fn: got number 3, expected a function of Lua", interpret, 3, 1)
    raises("ArgumentError", "grid: got nil", interpret, function() end)
    raises("ArgumentError", "grid: got number -1, expected integers of at least 0", interpret, function() end, -1)
    raises("ArgumentError", "unknown option 'colour'", interpret, function() end, 1, { colour = 1 })
    raises("ArgumentError", "y: got string 'a', expected a tensor, a number or a boolean", interpret, function(i, y) return i + y end, 1, "a")
    raises("DtypeError", "got complex64, expected real numbers", interpret, function() end, 1, tide.zeros({ 1 }, { dtype = tide.complex64 }))
  end)

  it("takes modules, functions and tables from outside by any name, and says what it has not", function()
    if not is_54 then return pending "texts of functions are Lua 5.4's" end
    local atomic, m, make, single, uneven = tide.atomic, math, tide.zeros, tide.float32, { 1, { 2 } }
    local counter = { step = 10 }
    function counter:next(a) return self.step + a end
    local x = D.tensor({ 1, 2, 3 }, "float32")
    tide.kernel(function(i, y) atomic.add(y, 1, m.max(i, 2)) end)(3, x)
    D.eq({ 8, 2, 3 }, x, 0)
    D.eq({ 11, 12 }, tide.kernel(function(i) return counter:next(i) end)(2), 0)
    for text, f in pairs {
      ["function that kernels do not have, tide.zeros"] = function(i) return make(i) end,
      ["got dtype float32, expected a function"] = function(i) return single(i) end,
      ["of numbers and tables, expected one of numbers"] = function(i) return uneven[i] end,
      ["method 'step'"] = function(i) return counter:step(i) end,
    } do
      local _, e = pcall(tide.kernel(f), 2)
      assert.is_truthy(tostring(e):find(text, 1, true), tostring(e))
    end
  end)
end)
