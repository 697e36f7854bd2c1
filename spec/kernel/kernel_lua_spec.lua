-- Kernels written in Lua: tide.kernel: calls, results, errors, what they share with every other operation.

local tide = require "tide"
local D = require "spec.support.device"
local T = require "spec.support.trace"
local cuda, math = tide.cuda, math -- busted gives specs an environment of its own
if not D.compiler then return pending "kernels are compiled: needs a compiler" end

local function tensor(values, dtype) return tide.tensor(values, { device = D.dev, dtype = dtype or "float32" }) end
local function zeros(...) return tide.zeros({ ... }, { device = D.dev, dtype = "float32" }) end
local function settle()
  collectgarbage()
  collectgarbage()
  if D.cuda then cuda.synchronize_all() end
end

-- Kernels that several cases use are compiled once.
local add = tide.kernel(function(i, x, a) x[i] = x[i] + a end)
local twice = tide.kernel(function(i, x) return x[i] * 2 end)
local unchecked = tide.kernel(function(i, x, a) x[i] = x[i] + a end, { check = false })

describe("tide.kernel", function()
  D.watch(before_each, after_each)
  after_each(settle)

  it("runs a function at every place of a grid of one to three dims", function()
    local x = zeros(5)
    add(5, x, 2.5)
    D.eq({ 2.5, 2.5, 2.5, 2.5, 2.5 }, x)
    add({ 3 }, x, 1.0)
    D.eq({ 3.5, 3.5, 3.5, 2.5, 2.5 }, x)
    add(x.shape, x, 1.0)
    add(0, x, 1.0)
    D.eq({ 4.5, 4.5, 4.5, 3.5, 3.5 }, x)
    local y = zeros(2, 3)
    tide.kernel(function(i, j, y) y[i][j] = 10 * i + j end)({ 2, 3 }, y)
    D.eq({ { 11, 12, 13 }, { 21, 22, 23 } }, y)
    local z = zeros(2, 1, 2)
    tide.kernel(function(i, j, k, z) z[{ i, j, k }] = 100 * i + 10 * j + k end)(z.shape, z)
    D.eq({ { { 111, 112 } }, { { 211, 212 } } }, z)
  end)

  it("reads sources where the host keeps them", function()
    local name, text = "game.pack/step.lua", "return function(i, x) x[i] = x[i] * 3 end"
    local function loaded() return assert((loadstring or load)(text, "@" .. name))() end
    local function triples()
      local x = tensor { 1, 2 }
      tide.kernel(loaded())(2, x)
      D.eq({ 3, 6 }, x)
    end
    local function fails(why)
      local e = D.raises("ValueError", tide.kernel, loaded())
      assert.is_truthy(e.message:find(why, 1, true), e.message)
    end
    local asked
    fails "its file cannot be read"
    tide.kernel.set_source_reader(function(asked_for)
      asked = asked_for
      return text
    end)
    triples()
    assert.are.equal(name, asked)
    tide.kernel(function(i, x) x[i] = 1 end) -- of a file that the reader does not know
    tide.kernel.set_source_reader(function() return nil end)
    fails "its file cannot be read"
    tide.kernel.set_source_reader(function() return {} end)
    local e = D.raises("ArgumentError", tide.kernel, loaded())
    assert.is_truthy(e.message:find("read('game.pack/step.lua'): got table, expected the text, or nil", 1, true), e.message)
    tide.kernel.set_source_reader(function() error("the pack is closed", 0) end)
    local ok, said = pcall(tide.kernel, loaded())
    assert.is_false(ok)
    assert.is_truthy(tostring(said):find("the pack is closed", 1, true), said)
    if _VERSION == "Lua 5.4" then
      tide.kernel.set_source_reader(function() return "return function(i, x) x[i] = x[i] * 4 end" end)
      fails "its file was edited"
    end
    tide.kernel.set_source_reader()
    fails "its file cannot be read"
    local globals = getmetatable(_G) and getmetatable(_G).__index
    if type(globals) ~= "table" then globals = _G end
    local before = rawget(globals, "love")
    rawset(globals, "love", { filesystem = { read = function(wanted) return wanted == name and text or nil, "no such file" end } })
    ok, said = pcall(triples)
    rawset(globals, "love", before)
    assert(ok, said)
    e = D.raises("ArgumentError", tide.kernel.set_source_reader, 3)
    assert.is_truthy(e.message:find("read: got", 1, true), e.message)
  end)

  it("works on views of any strides and dtypes, one kernel a combination of these", function()
    local base = zeros(4, 6)
    add(3, base:t()[2]:slice(1, 1, 3), 1.0)
    D.eq({ 1, 1, 1, 0 }, base:t()[2])
    for _, dtype in ipairs { "int64", "uint8", "float64", "float16" } do
      local x = tensor({ 1, 2, 3 }, dtype)
      add(3, x, 1)
      D.eq({ 2, 3, 4 }, x, 0, dtype)
    end
    local before = tide.kernel.cache_stats()
    local x = zeros(100)
    for n = 1, 100, 33 do add(n, x, n * 1.5) end
    local now = tide.kernel.cache_stats()
    assert.are.equal(before.compiled + before.disk_hits, now.compiled + now.disk_hits)
  end)

  it("makes a tensor of the grid's shape of each result", function()
    local x = tensor { 1, 2, 3 }
    local y = twice(3, x)
    D.eq({ 2, 4, 6 }, y)
    assert.are.equal(x.device, y.device)
    local several = tide.kernel(function(i, j, x) return x[j] / 2, i * j, x[i] > 1 end)
    local half, product, more = several({ 2, 3 }, x)
    D.eq({ { 0.5, 1, 1.5 }, { 0.5, 1, 1.5 } }, half)
    D.eq({ { 1, 2, 3 }, { 2, 4, 6 } }, product)
    D.eq({ { false, false, false }, { true, true, true } }, more)
    assert.are.same({ "float32", "int64", "bool" }, { D.dtype_name(half), D.dtype_name(product), D.dtype_name(more) })
    local out = { zeros(2, 3), tide.empty(0, { device = D.dev, dtype = "int64" }), tide.empty(2, 3, { device = D.dev, dtype = "bool" }) }
    local a, b = several({ 2, 3 }, x, { out = out })
    assert.are.equal(out[1], a)
    D.eq({ { 1, 2, 3 }, { 2, 4, 6 } }, out[2])
    assert.are.equal(out[2], b)
    D.raises("ArgumentError", several, { 2, 3 }, x, { out = half })
    D.raises("ShapeError", twice, 3, x, { out = zeros(4) })
    D.raises("DtypeError", twice, 3, x, { out = tensor({ 1, 2, 3 }, "int64") })
    D.raises("ArgumentError", twice, 3, x, { oud = y })
    D.raises("ArgumentError", add, 3, x, 1.0, { out = y })
  end)

  it("writes to out= what it would give, whatever that shares with the arguments", function()
    local shift = tide.kernel(function(i, x) return x[math.max(i - 1, 1)] end)
    local x = tide.arange(1, 1001, { device = D.dev, dtype = "float32" })
    local expected = shift(1000, x)
    shift(1000, x, { out = x })
    assert.is_true(expected:equal(x))
    local wide = tide.zeros(1000, { device = D.dev, dtype = "float64" })
    shift(1000, x, { out = wide })
    assert.is_true(wide:equal(shift(1000, x):to "float64"))
  end)

  it("reduces what it returns", function()
    local x = tide.arange(1, 101, { device = D.dev, dtype = "float32" })
    for name, value in pairs { sum = 5050, min = 1, max = 100 } do
      local k = tide.kernel(function(i, x)
        return x[i]
      end, { reduce = name })
      local r = k(100, x)
      assert.are.equal(0, r:dim())
      assert.are.equal(value, r:item(), name)
    end
    assert.are.equal(120, tide.kernel(function(i) return i end, { reduce = "prod" })(5):item())
    local out = tide.zeros({}, { device = D.dev, dtype = "float32" })
    tide.kernel(function(i, x)
      return x[i] * 2
    end, { reduce = "sum" })(100, x, { out = out })
    assert.are.equal(10100, out:item())
    D.raises("ArgumentError", tide.kernel, function() end, { reduce = "mean" })
  end)

  it("reads numbers from outside at each call, and takes tensors along", function()
    local dt, t, cfg = 0.5, tensor { 1, 2, 3 }, { gain = 2, table = { 10, 20, 30 } }
    local function scaled(v) return v * dt * cfg.gain end
    local k = tide.kernel(function(i, x) x[i] = scaled(t[i]) + cfg.table[i] end)
    local x = zeros(3)
    k(3, x)
    D.eq({ 11, 22, 33 }, x)
    local before = tide.kernel.cache_stats()
    dt, cfg.gain = 1.5, 4
    k(3, x)
    D.eq({ 16, 32, 48 }, x)
    t = tensor { 0, 0, 1 }
    k(3, x)
    D.eq({ 10, 20, 36 }, x)
    local now = tide.kernel.cache_stats()
    assert.are.equal(before.compiled + before.disk_hits, now.compiled + now.disk_hits)
    t = tensor({ 1, 1, 1 }, "int64") -- of another kind: compiled anew
    k(3, x)
    D.eq({ 16, 26, 36 }, x)
    function scaled(v) return v end
    k(3, x)
    D.eq({ 11, 21, 31 }, x)
    t = nil
    D.raises("ValueError", k, 3, x)
  end)

  it("reads globals, and those of the function's own environment", function()
    _G.tide_kernel_gain = 3
    local k = tide.kernel "function(i, x) x[i] = tide_kernel_gain end"
    local x = zeros(2)
    k(2, x)
    _G.tide_kernel_gain = 4
    k(2, x)
    D.eq({ 4, 4 }, x)
    _G.tide_kernel_gain = nil
    D.raises("ValueError", k, 2, x)
  end)

  it("computes in the widest float there is, or in the one that it is told", function()
    local x = tensor({ 0 }, "float64")
    tide.kernel(function(i, x) x[i] = 1 / 3 end)(1, x)
    assert.are.equal(1 / 3, x:item())
    local third = tide.kernel(function(i)
      return 1 / 3
    end, { float = tide.float64 })
    assert.are.equal("float64", D.dtype_name(third(1)))
    D.raises("DtypeError", tide.kernel, function() end, { float = "int64" })
  end)

  it("takes its text from a string", function()
    local k = tide.kernel("function(i, n) return i // n end", { name = "quotient" })
    D.eq({ 0, 1, 1, 2 }, k(4, 2))
    assert.are.equal("tide.kernel(quotient)", tostring(k))
    assert.are.equal("quotient", k.name)
    assert.are.equal("kernel_lua_spec.lua:19", twice.name:match "[^/]*$")
    assert.is_truthy(k:source("cuda"):find("tide_kernel", 1, true))
    assert.is_truthy(k:source("cpu"):find("tide_loop", 1, true))
    assert.are.equal(k:source(tide.cuda.is_available() and "cuda" or "cpu"), k:source())
    D.raises("ArgumentError", k.source, k, "gpu")
    local fresh = tide.kernel "function(i) return i end"
    D.raises("StateError", fresh.source, fresh)
    D.raises("ArgumentError", function() return k.nothing end)
  end)

  it("gives a compiler no more text than the kernel names", function()
    local function has(k, word, ...)
      for _, device in ipairs { "cuda", "cpu", ... } do
        if not k:source(device):find(word, 1, true) then return false end
      end
      return true
    end
    local plain = tide.kernel(function(i, x) x[i] = x[i] * 2 end)
    plain(4, D.tensor({ 1, 2, 3, 4 }, "float32"))
    for _, word in ipairs { "tk_atomic", "tk_half", "tk_bf16", "tk_div_floor", "tk_philox", "tk_sum", "tk_shl", "NAN_", "@" } do
      for _, device in ipairs { "cuda", "cpu" } do
        assert.is_nil((plain:source(device):find(word, 1, true)), word .. " for " .. device)
      end
    end
    assert.is_true(has(plain, "tk_report(") and has(plain, "tk_put("))
    local more = tide.kernel(function(i, x, n)
      tide.atomic.min(n, 1, i // 2 << 3)
      x[i] = tide.random.uniform(1, i) + 0 / 0
    end)
    more(2, D.tensor({ 0, 0 }, "float16"), D.tensor({ 99 }, "int32"))
    assert.is_true(has(more, "tk_atomic_min(") or has(more, "TIDE_ATOMIC(min"))
    for _, word in ipairs { "struct tk_half", "tk_div_floor(", "tk_shl(", "tk_philox(", "TIDE_ATOMIC(min", "tk_narrow(" } do
      assert.is_true(has(more, word), word)
    end
    assert.is_false(has(more, "TIDE_ATOMIC(max"))
  end)

  it("calls what tests the indexes of a GPU's threads at an edge", function()
    local k = tide.kernel(function(i, x, y) if i > 1 and i < #x then y[i] = x[i - 1] + x[i + 1] + x[i] end end)
    local few = tide.kernel(function(i, x, y) y[i] = x[i] end)
    local x, y = D.tensor({ 1, 2, 3, 4 }, "float32"), D.tensor({ 0, 0, 0, 0 }, "float32")
    k(4, x, y)
    D.eq({ 0, 6, 9, 0 }, y)
    few(4, x, y)
    local text, short = k:source "cuda", few:source "cuda"
    assert.is_truthy(text:find("p2[((tide_x)i1 - 1) * s2_1] = (float)", 1, true))
    assert.is_truthy(text:find("tk_apart_load1<", 1, true) and text:find("tk_apart_at1(", 1, true))
    assert.is_nil((text:find("tk_load1", 1, true)))
    assert.is_nil((short:find("apart", 1, true)))
    assert.is_nil((k:source("cpu"):find("apart", 1, true)))
  end)

  it("sums over threads by shuffles on a GPU, and writes out inner loops alone", function()
    local k = tide.kernel(function(i, x)
      local all = 0
      for _ = 1, 30 do
        for n = 1, 4 do all = all + n end
      end
      return all + tide.block_sum(x[i]) + tide.warp_sum(x[i])
    end)
    local x = D.tensor({ 1, 2, 3 }, "float64")
    D.eq({ 312, 312, 312 }, k(3, x))
    local text = k:source "cuda"
    assert.is_truthy(text:find("shfl.sync.idx", 1, true))
    assert.is_nil((text:find("_each", 1, true)))
    assert.are.equal(3, select(2, text:gsub("#pragma unroll 1\n", ""))) -- two of them in the copy that tests its indexes
    assert.is_nil((k:source("cpu"):find("#pragma unroll", 1, true)))
  end)

  it("finds a function among others of its lines", function()
    local function make(x) return tide.kernel(function(i, n)
        return i * n end), x
    end
    D.eq({ 2, 4 }, make()(2, 2))
    local out, err, code = D.run({ "-e", [[
      local tide = require "tide"
      local x = tide.zeros(2)
      tide.kernel(function(i, x) x[i] = i end)(2, x)
      print(x:sum():item())]] })
    assert.are.equal("3.0 0 ", out:gsub("%s+", " ") .. code .. " " .. err)
  end)

  it("tells functions of one line apart by what they do", function()
    local a, b, c, d = function(i, n) return i * n end, function(i, n) return i + n end, function(i, n) return i * n end, function(i, n) return n end
    D.eq({ 3, 6 }, tide.kernel(a)(2, 3))
    D.eq({ 4, 5 }, tide.kernel(b)(2, 3))
    D.eq({ 3, 6 }, tide.kernel(c)(2, 3))
    D.eq({ 3, 3 }, tide.kernel(d)(2, 3))
    local k, m = 10, 20
    local by = { one = function(i, n) return i * n + k - m end, two = function(i, n) return i - n + k - m end }
    D.eq({ -7, -4 }, tide.kernel(by.one)(2, 3))
    D.eq({ -12, -11 }, tide.kernel(by.two)(2, 3))
    local chunk = load "local function f(i) return i end\r\nlocal g, h = function(i) return f(i) * 2 end, function(i) return f(i) * 3 end\r\nreturn g, h"
    local g, h = chunk()
    D.eq({ 2, 4 }, tide.kernel(g)(2))
    D.eq({ 3, 6 }, tide.kernel(h)(2))
    -- where a body is left out, what the function around them has for upvalues changes, and with it both
    local function outer() return function(i) return i + k + 0 end, function(i) return i + k + 1 end end
    local first, second = outer()
    for n, fn in ipairs { first, second } do
      local ok, e = pcall(function() return tide.kernel(fn)(1) end)
      if ok then D.eq({ 10 + n }, e) else assert.is_truthy(e.message:find("write each in a line of its own", 1, true), e.message) end
    end
  end)

  it("says why a text cannot be had", function()
    local e = D.raises("ValueError", tide.kernel, load(string.dump(function() end, true)))
    assert.is_truthy(e.message:find("as a string", 1, true), e.message)
    D.raises("ValueError", tide.kernel, print)
    D.raises("ArgumentError", tide.kernel, 3)
    D.raises("ArgumentError", tide.kernel)
    D.raises("ArgumentError", tide.kernel, function() end, { blok = 3 })
    D.raises("ArgumentError", tide.kernel, function() end, { block = 0 })
    D.raises("ValueError", tide.kernel, function() end, { block = { 64, 64 } })
    local path = os.tmpname()
    local function write(text)
      local f = assert(io.open(path, "w"))
      f:write(text)
      f:close()
    end
    write "return function(i, x) x[i] = 1 end"
    local fn = dofile(path)
    tide.kernel(fn)
    write "return function(i, x) x[i] = 2 end"
    e = D.raises("ValueError", tide.kernel, fn)
    assert.is_truthy(e.message:find("edited", 1, true), e.message)
    os.remove(path)
    D.raises("ValueError", tide.kernel, fn)
  end)

  it("refuses calls that fit no parameter, before anything is queued", function()
    local x, e = zeros(3)
    for _, grid in ipairs { "3", 1.5, {}, { 1, 2, 3, 4 }, { 1, "2" }, x } do D.raises("ArgumentError", add, grid, x, 1) end
    D.raises("ArgumentError", add)
    D.raises("ArgumentError", add, nil, x, 1)
    D.raises("ValueError", add, -1, x, 1)
    e = D.raises("ArgumentError", add, 3, x, "1")
    assert.is_truthy(e.message:find("argument 2: got string", 1, true), e.message)
    D.raises("ArgumentError", add, 3, x, print)
    D.raises("ArgumentError", add, 3, x, setmetatable({}, { __index = error }), 1)
    e = D.raises("ValueError", add, 3, x)
    assert.is_truthy(e.message:find("kernel_lua_spec.lua:18", 1, true), e.message)
    D.raises("ValueError", add, 3, x, 1, 2)
    local freed = zeros(3)
    add(3, freed, 1)
    freed:free()
    D.raises("StateError", add, 3, freed, 1)
    D.raises("ValueError", add, 3, zeros(1):expand(3), 1.0)
    D.raises("ArgumentError", getmetatable(add) and tide.kernel, setmetatable({}, {}))
    if D.cuda then
      local copy = tide.kernel(function(i, x, y) x[i] = y[i] end)
      D.raises("DeviceError", copy, 3, x, tide.zeros(3, { dtype = "float32" }))
    end
    D.eq({ 0, 0, 0 }, x)
  end)

  it("reports a place outside with its line, index and size, and the device lives on", function()
    local x = zeros(10)
    local e = D.raises("IndexError", function()
      add(12, x, 1.0)
      x:sum():item()
    end)
    assert.is_truthy(e.message:find "kernel_lua_spec.lua:18, got 1[12], expected 1 to 10", e.message)
    D.eq({ 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 }, x) -- what lies inside was done
    local zero = tide.kernel(function(i, x, n)
      x[i] = i // n
    end)
    e = D.raises("ValueError", function()
      zero(10, x, 0)
      x:sum():item()
    end)
    assert.is_truthy(e.message:find("divided by zero at", 1, true), e.message)
    unchecked(10, x, 1.0)
    add(10, x, 1.0)
    assert.is_true(x:gt(0):all():item())
  end)

  it("is bound to a grid and arguments, which may be changed", function()
    local x, y = zeros(4), zeros(4)
    local call = add:on(4, x, 1.5)
    D.eq({ 0, 0, 0, 0 }, x)
    call()
    call()
    D.eq({ 3, 3, 3, 3 }, x)
    assert.are.equal(call, call:set(2, 0.5))
    call()
    D.eq({ 3.5, 3.5, 3.5, 3.5 }, x)
    call:set(2, 2):set(1, y) -- of another kind
    call()
    D.eq({ 2, 2, 2, 2 }, y)
    D.raises("ValueError", call.set, call, 3, 1)
    D.raises("ValueError", call.set, call, 0, 1)
    D.raises("ArgumentError", call.set, call, 1, "x")
    D.raises("ArgumentError", call.set, add, 1, 1)
    local a, b = twice:on(4, y), twice:on(2, y, { out = zeros(2) })
    D.eq({ 4, 4, 4, 4 }, a())
    assert.are_not.equal(a(), a())
    D.eq({ 4, 4 }, b())
    local step = 1
    local grow = tide.kernel(function(i, x) x[i] = x[i] + step end):on(4, x)
    grow()
    step = 10
    grow()
    D.eq({ 14.5, 14.5, 14.5, 14.5 }, x)
    D.raises("ValueError", add.on, add, 4, x)
  end)

  it("replaces its body, or keeps the old one where the new one does not compile", function()
    local k = tide.kernel(function(i, x, a) x[i] = a end)
    local x = zeros(3)
    local call = k:on(3, x, 5.0)
    call()
    assert.are.equal(k, k:replace(function(i, x, a) x[i] = a * 2 end))
    call()
    D.eq({ 10, 10, 10 }, x)
    D.raises("ValueError", k.replace, k, function(i, x, a) x[i] = a .. "!" end)
    D.raises("ValueError", k.replace, k, "function(i, x, a) x[i] = end")
    D.raises("ArgumentError", k.replace, k, 3)
    k(3, x, 1.0)
    D.eq({ 2, 2, 2 }, x)
    k:replace "function(i, x, a) x[i] = a + 1 end"
    k(3, x, 1.0)
    D.eq({ 2, 2, 2 }, x)
  end)

  it("is compiled ahead for the kinds that it is told", function()
    -- The counts are the process's: what earlier cases began in the background may end meanwhile, but not each time.
    local function compiled_by_a_call(n)
      local k = tide.kernel("function(i, j, x, n, on) x[i][j] = on and n or " .. n .. ".0 end",
        { types = { tide.float32, 2, "number", "boolean" } })
      assert.are.equal(k, k:wait())
      assert.is_true(k:ready())
      local before = tide.kernel.cache_stats()
      local x = tide.zeros(2, 2, { device = tide.cuda.is_available() and "cuda" or "cpu" }) -- what it is compiled for
      k({ 2, 2 }, x, 1.5, true)
      D.eq({ { 1.5, 1.5 }, { 1.5, 1.5 } }, x)
      local now = tide.kernel.cache_stats()
      return now.compiled + now.disk_hits - before.compiled - before.disk_hits
    end
    local n = 1
    while n < 10 and compiled_by_a_call(n) > 0 do n = n + 1 end
    assert.is_true(n < 10)
    D.raises("ValueError", tide.kernel, function() end, { types = { "float32", 1 } })
    D.raises("ArgumentError", tide.kernel, function(i, x)
      x[i] = 1
    end, { types = { "flot32", 1 } })
    D.raises("ArgumentError", tide.kernel, function(i, x)
      x[i] = 1
    end, { types = "float32" })
  end)

  it("holds what it needs as long as it needs it", function()
    local k = tide.kernel(function(i, x, a) x[i] = x[i] + a end)
    local x = zeros(3)
    local call = k:on(3, x, 1.0)
    k, x = nil, setmetatable({ x }, { __mode = "v" })
    settle()
    call()
    D.eq({ 1, 1, 1 }, x[1])
    call = nil -- luacheck: ignore
    settle()
    assert.is_nil(x[1])
  end)

  it("survives a finaliser that replaces it in the middle of a call", function()
    local k = tide.kernel(function(i, x) return x[i] end)
    local x = tensor { 1, 2, 3 }
    k(3, x)
    for n = 1, 20 do
      setmetatable({}, { __gc = function() k:replace("function(i, x) return x[i] + " .. n .. " * 0 end") end })
      collectgarbage "step"
      D.eq({ 1, 2, 3 }, k(3, x))
    end
  end)

  it("refuses more than a launch can carry", function()
    local lines, x = {}, zeros(3)
    for k = 1, 400 do lines[k] = "x[i] = x[i] + " .. k end
    local e = D.raises("NotSupportedError", tide.kernel("function(i, x)\n" .. table.concat(lines, "\n") .. "\nend"), 3, x)
    assert.is_truthy(e.message:find("expected two kernels", 1, true), e.message)
    D.eq({ 0, 0, 0 }, x)
    local params, args = {}, {}
    for k = 1, 70 do params[k], args[k] = "a" .. k, k end
    D.raises("ArgumentError", tide.kernel("function(i, " .. table.concat(params, ", ") .. ") end"), 3, table.unpack(args))
  end)

  it("refuses sizes that no device has", function()
    local x = zeros(3)
    D.raises("ValueError", add, math.maxinteger, x, 1)
    D.raises("OutOfMemoryError", tide.kernel "function(i, j) return i end", { 1 << 31, 1 << 31 })
    assert.are.same({ 0, 3 }, { table.unpack(tide.kernel "function(i, j) return i end"({ 0, 3 }):size()) })
    D.raises("ValueError", tide.kernel("function(i) return i end", { reduce = "min" }), 0)
  end)

  it("calls what tide.func makes of a function or a text", function()
    local square = tide.func "function(x) return x * x end"
    local most = tide.func("local k = 2\nreturn function(a, b) return math.max(a, b) * k end")
    local function own(x) return x + 1 end
    assert.are.equal(own, tide.func(own))
    assert.are.equal(9, square(3))
    assert.are.equal(10, most(1, 5))
    local x = tide.tensor({ 1, 2, 3 }, { device = D.device })
    local function body(i, x) return square(x[i]) + most(x[i], 2) + own(x[i]) end
    assert.are.same({ 7, 11, 19 }, tide.kernel(body)(3, x):totable())
    assert.are.same({ 7, 11, 19 }, tide.kernel.interpret(body, 3, x):totable())
    assert.are.same({ 2, 4 }, tide.kernel.interpret("local k = 2 return function(i, x) return x[i] * k end", 2, x):totable())
    local e = D.raises("ArgumentError", tide.func, 3)
    assert.is_truthy(e.message:find("func: fn: got number 3, expected a function of Lua, or its text", 1, true), e.message)
    e = D.raises("ValueError", tide.func, "function(a")
    assert.is_truthy(e.message:find("kernel:1:10: got the end of the text, expected ')'", 1, true), e.message)
    D.raises("ValueError", tide.func, "return 3")
    D.raises("ValueError", tide.func, print)
  end)

  it("takes tensors whose elements do not lie side by side, and writes to them", function()
    local k = tide.kernel(function(i, j, x, y)
      y[i][j] = y[i][j] + 10 * x[i][j]
      return x[i][j] * 2
    end)
    local function both() return tide.arange(1, 13, { device = D.dev, dtype = "float32" }):view(3, 4), zeros(3, 4) end
    for compiled = 0, 1 do
      local x, y = both()
      local want = x:clone()
      D.eq((want * 2):totable(), k({ 3, 4 }, x, y)) -- side by side
      D.eq((want * 10):totable(), y)
      x, y = x:t():contiguous():t(), zeros(4, 3):t()
      D.eq((want * 2):totable(), k({ 3, 4 }, x, y))
      D.eq((want * 10):totable(), y)
      x, y = both()
      local wide = zeros(3, 8)
      k({ 3, 4 }, x, y, { out = wide:slice(2, 2, 8, 2) })
      D.eq((want * 2):totable(), wide:slice(2, 2, 8, 2))
      D.eq({ 0, 0, 0 }, wide:select(2, 3))
      x, y = both()
      k({ 3, 4 }, x:slice(2, 1, 1):expand(3, 4), y) -- one column, as wide as four
      D.eq((want:slice(2, 1, 1) * 10):expand(3, 4):totable(), y)
      if compiled == 0 then k:wait() end
    end
  end)

  it("has every place of a grid once, however long its sides are", function()
    local place = tide.kernel(function(i, j, k, x, rows, columns)
      tide.atomic.add(x, (i - 1) * rows * columns + (j - 1) * columns + k, i + j * 3 + k * 7)
    end)
    for _, grid in ipairs { { 70000, 3, 2 }, { 3, 70000, 2 }, { 2, 3, 70000 }, { 1, 1, 1 }, { 300, 300, 2 } } do
      local x = tide.zeros(grid[1] * grid[2] * grid[3], { device = D.dev, dtype = "int64" })
      place(grid, x, grid[2], grid[3])
      local function along(n) return tide.arange(1, n + 1, { device = D.dev, dtype = "int64" }) end
      local want = along(grid[1]):view(-1, 1, 1) + along(grid[2]):view(-1, 1) * 3 + along(grid[3]) * 7
      assert.is_true(x:equal(want:flatten()))
    end
    local rows = tide.zeros({ 140001, 2 }, { device = D.dev, dtype = "int32" })
    tide.kernel(function(i, j, x) x[i][j] = x[i][j] + i * 2 + j end)({ 140001, 2 }, rows)
    assert.are.same({ 280003, 280004 }, rows[140001]:totable())
    assert.are.equal(140001 * 140002 * 2 + 140001 * 3, rows:sum():item())
  end)

  it("works in coroutines that die, and in others", function()
    local x = zeros(3)
    local co = coroutine.create(function()
      add(3, x, 1.0)
      coroutine.yield()
      add(4, x, 1.0)
      return x:sum():item()
    end)
    assert.is_true(coroutine.resume(co))
    assert.is_false((coroutine.resume(co)))
    add(3, x, 1.0)
    D.eq({ 3, 3, 3 }, x)
  end)
end)

if not D.cuda then return end

describe("tide.kernel on a GPU", function()
  D.watch(before_each, after_each)
  after_each(settle)

  it("runs in the order of its stream, and waits for nothing", function()
    local x, s = zeros(1000), cuda.Stream()
    cuda.synchronize()
    cuda.stream(s, function()
      cuda._sleep(20000000)
      add(1000, x, 1.0)
      assert.is_false(s:query())
      add(1000, x, 2.0)
    end)
    s:synchronize()
    assert.are.equal(3000, x:sum():item())
  end)

  it("is part of graphs", function()
    local x, y = zeros(4), nil
    add(4, x, 1.0)
    twice(4, x)
    local g = cuda.CUDAGraph()
    cuda.graph(g, function()
      add(4, x, 1.0)
      y = twice(4, x)
    end)
    for _ = 1, 3 do g:replay() end
    D.eq({ 4, 4, 4, 4 }, x)
    D.eq({ 8, 8, 8, 8 }, y)
  end)

  it("is seen by the sanitizer, each operand as it is used", function()
    local x, y, s = zeros(64), zeros(64), cuda.Stream()
    local copy = tide.kernel(function(i, x, y) x[i] = y[i] end)
    copy(64, x, y)
    cuda.synchronize()
    local was = cuda.sanitizer.is_enabled and cuda.sanitizer.is_enabled()
    cuda.sanitizer.enable()
    local ok, e = pcall(function()
      copy(64, x, y)
      cuda.stream(s, function()
        twice(64, y) -- both read
        assert.is_false((pcall(twice, 64, x)))
      end)
    end)
    if not was then cuda.sanitizer.disable() end
    assert(ok, e)
  end)

  it("is seen by the profiler, with its line", function()
    local x, path = zeros(64), os.tmpname()
    add(64, x, 1.0)
    cuda.profiler.trace(function()
      add(64, x, 1.0)
      cuda.synchronize()
    end, path)
    local found = T.find(T.read(path).host, "^compiled kernel")
    os.remove(path)
    assert.are.equal(1, #found)
    assert.is_truthy(found[1].args.line:find("kernel_lua_spec.lua", 1, true))
  end)

  it("refuses what depends on the order of threads where that is asked for", function()
    local sum = tide.kernel(function(i, x, y) tide.atomic.add(y, { 1 }, x[i]) end)
    local count = tide.kernel(function(i, n) tide.atomic.add(n, { 1 }, 1) end)
    local x, y, n = tide.ones(100, { device = D.dev, dtype = "float32" }), zeros(1), tensor({ 0 }, "int64")
    sum(100, x, y)
    tide.use_deterministic_algorithms(true)
    local ok, e = pcall(sum, 100, x, y)
    count(100, n)
    tide.use_deterministic_algorithms(false)
    assert.is_false(ok)
    assert.is_truthy(e.message:find("atomic", 1, true), e.message)
    assert.are.equal(100, y:item())
    assert.are.equal(100, n:item())
  end)

  it("survives a reset of the devices, which ends what is bound", function()
    local out, err, code = D.run({ "-e", [[
      local tide = require "tide"
      local k = tide.kernel("function(i, x, a) x[i] = x[i] + a end")
      local function zeros() return tide.zeros(4, {device = "cuda"}) end
      local x = zeros()
      k(4, x, 1)
      local call = k:on(4, x, 1)
      call()
      tide.cuda.device_reset()
      assert(not pcall(k, 4, x, 1))
      for _ = 1, 2 do
        local ok, e = pcall(call)
        assert(not ok and e.kind == "StateError", tostring(e))
        x = zeros()
        k(4, x, 1)
        assert(x:sum():item() == 4)
      end
      print "good"]] }, { env = { TIDE_DEVICE = "cuda" } })
    assert.are.equal("good 0 ", out:gsub("%s+", " ") .. code .. " " .. err)
  end)

  if D.devices < 2 then return end

  it("runs where its tensors are", function()
    local a = tide.zeros(3, { device = "cuda:0", dtype = "float32" })
    local b = tide.zeros(3, { device = "cuda:1", dtype = "float32" })
    add(3, a, 1.0)
    add(3, b, 2.0)
    D.eq({ 1, 1, 1 }, a)
    D.eq({ 2, 2, 2 }, b)
    local copy = tide.kernel(function(i, x, y) x[i] = y[i] end)
    D.raises("DeviceError", copy, 3, a, b)
    local c = cuda.device(1, function() return tide.kernel(function(i) return i end)(3) end)
    assert.are.equal("cuda:1", tostring(c.device))
  end)
end)
