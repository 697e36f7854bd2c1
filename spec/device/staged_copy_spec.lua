-- A copy from pageable memory may return before the bytes are on the device, and nobody can tell.

local tide = require "tide"
local D = require "spec.support.device"
if not D.cuda then return end
local cuda = tide.cuda
local dev = { device = "cuda" }

-- The last step of a copy waits behind what its stream is busy with; on simulated devices every copy is late as well.
local busy = 100000000

describe("a blocking copy from pageable memory", function()
  local function values(n) return tide.full(n, 7, {}) end
  local ways = {
    ["x:copy_(y)"] = function(x, y) x:copy_(y) end,
    ["a copy with a cast"] = function(x, y) x:copy_(y:double()) end,
    ["a copy to a view with strides"] = function(x, y) x:view(8, -1).T:copy_(y:view(8, -1).T) end,
    ["x[i] = table"] = function(x) x[{}] = tide.full(x:numel(), 7, {}) end,
  }

  for name, copy in pairs(ways) do
    it("is there for another stream: " .. name, function()
      for _, n in ipairs { 64, 4096, 16384 } do
        local x, y, s, out = tide.zeros(n, dev), values(n), cuda.Stream(), nil
        cuda.synchronize()
        cuda._sleep(busy)
        copy(x, y)
        cuda.stream(s, function() out = x + 1 end)
        s:synchronize()
        D.eq(8, out[1])
        D.eq(8, out[n])
      end
    end)
  end

  it("is there for a copy, a read and a second stream after the first", function()
    local x, y = tide.zeros(1000, dev), values(1000)
    local s, t, p = cuda.Stream(), cuda.Stream(), tide.zeros(1000, { pin_memory = true })
    cuda.synchronize()
    cuda._sleep(busy)
    x:copy_(y)
    cuda.stream(s, function() p:copy_(x, { non_blocking = true }) end)
    local out = cuda.stream(t, function() return x:clone() end)
    local sum = cuda.stream(s, function() return x:sum():item() end)
    D.eq(7000, sum)
    cuda.synchronize()
    D.eq(7, p[1000])
    D.eq(7, out[1])
  end)

  it("is there where the second stream is made after it", function()
    local out, err, code = D.run({ "-e", [[
      local x = tide.zeros(100, { device = "cuda" })
      tide.cuda.synchronize()
      tide.cuda._sleep(100000000)
      x:copy_(tide.full(100, 7, {}))
      local s = tide.cuda.Stream()
      local y = tide.cuda.stream(s, function() return x + 1 end)
      s:synchronize()
      assert(tide.cuda.stream(s, function() return y[100]:item() end) == 8)]] },
      { env = { TIDE_SIM_DEVICES = D.simulated and "1" or nil } })
    assert.are.equal("", err)
    assert.are.equal(0, code, out)
  end)

  it("is there for a graph that is replayed on another stream", function()
    local x, y, out, s = tide.zeros(100, dev), values(100), nil, cuda.Stream()
    local g = cuda.CUDAGraph()
    cuda.graph(g, function() out = x + 1 end)
    cuda.synchronize()
    cuda.stream(s, function() g:replay() end)
    s:synchronize()
    cuda._sleep(busy)
    x:copy_(y)
    cuda.stream(s, function() g:replay() end)
    s:synchronize()
    D.eq(8, cuda.stream(s, function() return out[100] end))
  end)

  it("is there for whoever takes the address", function()
    local x, y = tide.zeros(100, dev), values(100)
    cuda.synchronize()
    cuda._sleep(busy)
    x:copy_(y)
    local at = x:data_ptr()
    local other = cuda.Stream()
    local seen = cuda.stream(other, function() return tide.from_ptr(at, { 100 }, dev)[100]:item() end)
    D.eq(7, seen)
  end)

  it("keeps other work of its stream out of the wait", function()
    local x, y, s = tide.zeros(100, dev), values(100), cuda.Stream()
    cuda.synchronize()
    x:copy_(y)
    D.hold()
    local out = cuda.stream(s, function() return (x + 1)[100]:item() end)
    local still = not cuda.current_stream():query()
    D.release()
    cuda.synchronize()
    D.eq(8, out)
    assert.is_true(still)
  end)

  it("leaves nothing that the stream sanitizer calls a race, where other copies do", function()
    local program = [[
      local x, y = tide.zeros(100, { device = "cuda" }), tide.full(100, 7, %s)
      local s = tide.cuda.Stream()
      tide.cuda.synchronize()
      x:copy_(y%s)
      local z = tide.cuda.stream(s, function() return x + 1 end)
      tide.cuda.synchronize()]]
    local function run(...)
      return D.run({ "-e", program:format(...) },
        { env = { TIDE_CUDA_SANITIZER = "1", TIDE_SIM_DEVICES = D.simulated and "1" or nil } })
    end
    local out, err, code = run("{}", "")
    assert.are.equal("", err)
    assert.are.equal(0, code, out)
    _, err = run("{ pin_memory = true }", ", { non_blocking = true }")
    assert.is_truthy(err:find "race", err)
  end)

  it("serves streams that come and go, and outlives a reset", function()
    local x = tide.zeros(10, dev)
    cuda.synchronize() -- nothing else orders the zeros before the other streams' copies
    for i = 1, 50 do
      local s, t = cuda.Stream(), cuda.Stream()
      cuda.stream(s, function() x:copy_(tide.full(10, i, {})) end)
      D.eq(i, cuda.stream(t, function() return x[10]:item() end))
    end
    collectgarbage()
    local out, err, code = D.run({ "-e", [[
      local x = tide.zeros(10, { device = "cuda" })
      local s = tide.cuda.Stream()
      x:copy_(tide.ones(10))
      tide.cuda.device_reset(0)
      x:free()
      s, x = nil, tide.zeros(10, { device = "cuda" })
      x:copy_(tide.ones(10))
      local t = tide.cuda.Stream()
      assert(tide.cuda.stream(t, function() return x[1]:item() end) == 1)]] },
      { env = { TIDE_SIM_DEVICES = D.simulated and "1" or nil } })
    assert.are.equal("", err)
    assert.are.equal(0, code, out)
  end)
end)
