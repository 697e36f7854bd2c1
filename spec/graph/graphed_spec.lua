-- Functions turned into graphs.

local tide = require "tide"
local D = require "spec.support.device"
if not D.cuda then return end
local cuda = tide.cuda
local dev = { device = "cuda" }

-- Releases what graphs hold, after their last replay.
local function settle()
  collectgarbage()
  collectgarbage()
  cuda.synchronize()
  cuda.synchronize()
end

describe("graphed callables", function()
  D.watch(before_each, after_each, settle)

  it("compute what the function computes, from copies of the arguments", function()
    local calls, sample = 0, tide.ones(4, dev)
    local f = cuda.make_graphed_callables(function(a, b)
      calls = calls + 1
      return a * b, { sum = (a + b):sum(), more = { b - a } }, "text", nil
    end, { sample, sample })
    assert.are.equal(4, calls) -- three to warm up, one captured
    for i = 1, 5 do
      local a, b = tide.full({ 4 }, i + 0.0, dev), tide.full({ 4 }, 10.0, dev)
      local r, t, s = f(a, b)
      D.eq({ 10 * i, 10 * i, 10 * i, 10 * i }, r)
      D.eq(4 * (10 + i), t.sum)
      D.eq(10 - i, t.more[1][1])
      assert.are.equal("text", s)
    end
    assert.are.equal(4, calls)
    D.eq({ 1, 1, 1, 1 }, sample) -- was not written
    assert.are.equal(4, select("#", f(sample, sample)))
  end)

  it("run on the device of their arguments, whichever is selected", function()
    if D.devices < 2 then return pending "needs two devices" end
    local x = tide.ones(3, { device = "cuda:1" })
    local f = cuda.make_graphed_callables(function(a) return a + 1 end, { x })
    assert.are.equal(0, cuda.current_device())
    D.eq({ 2, 2, 2 }, f(x))
    D.eq({ 6, 6, 6 }, f(x * 5))
    D.eq({ 8, 8, 8 }, cuda.device(1, f, x * 7))
  end)

  it("may give tables that refer to themselves", function()
    local class = { __index = { kind = "net" } }
    local f = cuda.make_graphed_callables(function(a)
      local t = setmetatable({ y = a * 2 }, class)
      t.me, t.again = t, t.y
      return t
    end, { tide.ones(2, dev) })
    local first, t = f(tide.ones(2, dev)), f(tide.full({ 2 }, 3.0, dev))
    assert.is_true(t.me == t and t ~= first)
    assert.is_true(rawequal(t.y, t.again))
    assert.are.equal("net", t.kind)
    D.eq({ 6, 6 }, t.y)
  end)

  it("of a list share a pool and run in order", function()
    local w = tide.full({ 4 }, 3.0, dev)
    local f = cuda.make_graphed_callables({ function(a) return a * w end, function(a) return a + w end },
      { { tide.ones(4, dev) }, { tide.ones(4, dev) } }, { num_warmup_iters = 1, pool = cuda.graph_pool_handle() })
    assert.are.equal(2, #f)
    for i = 1, 4 do D.eq(3 * i + 3, f[2](f[1](tide.full({ 4 }, i + 0.0, dev)))[2]) end
  end)

  it("of a list each have their own arguments", function()
    local fns, samples = {}, {}
    for i = 1, 3 do fns[i], samples[i] = function(a, b) return b and a:sum() + b or a:sum() + i end, { tide.zeros(i, dev), i == 3 and tide.zeros(1, dev) or nil } end
    local f = cuda.make_graphed_callables(fns, samples, { num_warmup_iters = 1 })
    for i = 1, 2 do D.eq(3.5 * i, f[i](tide.full({ i }, 2.5, dev))) end
    D.eq({ 13 }, f[3](tide.full({ 3 }, 2.5, dev), tide.full({ 1 }, 5.5, dev)))
    local e = D.raises("ShapeError", f[2], tide.zeros(3, dev))
    assert.is_truthy(e.message:find("got a float32 tensor [3] on cuda:0, expected a float32 tensor [2] on cuda:0, like the sample", 1, true), e.message)
    e = D.raises("ShapeError", f[1], tide.zeros(1))
    assert.is_truthy(e.message:find("got a float32 tensor [1] on cpu, expected a float32 tensor [1] on cuda:0,", 1, true), e.message)
  end)

  it("draw new random numbers at each call", function()
    local f = cuda.make_graphed_callables(function(a) return a + tide.rand(4, dev) end, { tide.zeros(4, dev) })
    local x = tide.zeros(4, dev)
    local first = f(x):totable()
    assert.are_not.same(first, f(x):totable())
  end)

  it("give results whose use after the next call is found in debug mode", function()
    cuda.graphs.set_debug(true)
    local ok, f = pcall(cuda.make_graphed_callables, function(a) return a + 1 end, { tide.zeros(4, dev) })
    cuda.graphs.set_debug(false)
    assert(ok, f)
    local r1 = f(tide.ones(4, dev))
    D.eq(2, r1[1])
    local r2 = f(tide.zeros(4, dev))
    D.raises("StateError", r1.totable, r1)
    D.eq(1, r2[1])
  end)

  it("refuse wrong arguments", function()
    local one = tide.ones(4, dev)
    local make = cuda.make_graphed_callables
    local function id(a) return a end
    D.raises("ArgumentError", make, 5, { one })
    D.raises("ArgumentError", make, id, one)
    D.raises("ArgumentError", make, id, { 5 })
    D.raises("ArgumentError", make, id, { tide.ones(4) })
    D.raises("ArgumentError", make, { id }, { one })
    D.raises("ArgumentError", make, { id, id }, { { one } })
    D.raises("ArgumentError", make, { 5 }, { { one } })
    D.raises("ArgumentError", make, id, { one }, { warmups = 1 })
    D.raises("ValueError", make, id, { one }, { num_warmup_iters = -1 })
    D.raises("ArgumentError", make, id, { one }, { pool = 5 })
    local f = make(function(a) return a * 2 end, { one })
    D.raises("ArgumentError", f)
    D.raises("ArgumentError", f, one, one)
    D.raises("ArgumentError", f, 5)
    D.raises("ShapeError", f, tide.ones(5, dev))
    D.raises("ShapeError", f, tide.ones(4))
    D.raises("ShapeError", f, tide.ones(4, { device = "cuda", dtype = "float64" }))
    D.eq({ 2, 2, 2, 2 }, f(one))
    local ok, e = pcall(make, function(a) return a:item() end, { tide.ones(1, dev) })
    assert.is_false(ok)
    assert.matches("item", e.message)
    assert.is_false(cuda.is_current_stream_capturing())
  end)
end)
