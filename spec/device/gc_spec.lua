-- The collector and bytes that it does not see.

local tide = require "tide"
local D = require "spec.support.device"

describe("the collector", function()
  D.watch(before_each, after_each)

  it("gives everything back after one full collection", function()
    if not D.cuda then return pending "needs a device" end
    collectgarbage()
    tide.cuda.synchronize()
    local before = tide.cuda.memory_allocated()
    local x = tide.zeros(1000, { device = "cuda" })
    local t = { x, x + 1, { x * 2 } }
    t.self = t
    x, t = nil, nil
    collectgarbage()
    assert.are.equal(before, tide.cuda.memory_allocated())
  end)

  it("follows the bytes of cpu tensors", function()
    if D.tsan then return pending "not under the thread sanitizer" end -- each byte has four more in that sanitizer's shadow
    local out = D.run({ "-e", [[
      local live, peak = setmetatable({}, { __mode = "v" }), 0
      for i = 1, 2500 do
        live[i] = tide.ones(1 << 18) -- 1 MiB
        if i % 100 == 0 then
          local n = 0
          for _ in pairs(live) do n = n + 1 end
          peak = math.max(peak, n)
        end
      end
      print(peak < 2000 or peak)]] })
    assert.are.equal("true\n", out)
  end)

  it("does not let small results on a device pile up", function()
    if not D.cuda then return pending "needs a device" end
    if D.tsan then return pending "not under the thread sanitizer" end -- which is slow
    local x, y = tide.ones(256, { device = "cuda" }), nil
    collectgarbage()
    local before, most = collectgarbage "count", 0
    for i = 1, 100000 do
      y = x * 2
      if i % 1000 == 0 then most = math.max(most, collectgarbage "count" - before) end
    end
    assert.is_true(most < 2048, most .. " KiB of handles")
  end)

  it("leaves handles that another finaliser may still see", function()
    local makes = { Storage = function() return tide.ones(1):storage() end }
    local uses = { Storage = function(s) return s:nbytes(), s == tide.ones(1):storage() end }
    if D.cuda then
      makes.Stream, makes.Event = tide.cuda.Stream, tide.cuda.Event
      uses.Stream = function(s) return s == tide.cuda.current_stream(), s.device end
      uses.Event = function(ev) return ev.device end
    end
    for name, make in pairs(makes) do
      local kind
      local owner = setmetatable({}, { __gc = function(o) kind = select(2, pcall(uses[name], o.handle)).kind end })
      owner.handle = make() -- made later, so it is finalised first
      owner = nil
      collectgarbage()
      assert.are.equal("StateError", kind, name)
    end
  end)

  it("is safe in any order at the end of a state", function()
    local out, err, code = D.run({ "-e", [[
      x = tide.zeros(10)
      setmetatable({}, { __gc = function() y = x + 1; print(y:sum():item()) end })
      local s = tide.scope()]] }, { env = D.simulated and { TIDE_SIM_DEVICES = "1" } or nil })
    assert.are.equal(0, code)
    assert.are.equal("10.0\n", out, err)
  end)

  it("runs a loop of temporaries of an eighth of the device in under 5% of its time", function()
    if D.tsan then return pending "not under the thread sanitizer" end -- the host's time is what is measured
    local out = D.simulate(1, [[
      local tide = require "tide"
      local n = 1 << 28 -- 1 GiB of float32
      local b, c = tide.empty(n, { device = "cuda" }), tide.empty(n, { device = "cuda" })
      local start, stop = tide.cuda.Event { enable_timing = true }, tide.cuda.Event { enable_timing = true }
      start:record()
      local host = os.clock()
      for i = 1, 100000 do local a = b + c end
      host = os.clock() - host
      stop:record()
      tide.cuda.synchronize()
      local device = start:elapsed_time(stop) / 1000
      io.write(host, " ", device)]], { TIDE_SIM_DRY = "1", TIDE_SIM_MEMORY = tostring(8 << 30) })
    local host, device = out:match "(%S+) (%S+)"
    host, device = tonumber(host), tonumber(device)
    assert.is_true(device > 50 and device < 200, out)
    -- All of the host's time, the collector's included.
    assert.is_true(host < 0.05 * device, ("%.2f s of the host for %.1f s of the device"):format(host, device))
  end)

  it("runs the same loop with generations and with views", function()
    local source = [[
      local tide = require "tide"
      collectgarbage "%s"
      local b = tide.empty(1 << 28, { device = "cuda" })
      for i = 1, 3000 do local a = (b + 1):view(1 << 14, -1)[1]; local t = { a } end]]
    for _, mode in ipairs { "generational", "incremental" } do
      D.simulate(1, source:format(mode), { TIDE_SIM_DRY = "1", TIDE_SIM_MEMORY = tostring(8 << 30) })
    end
  end)

  it("is not needed where close and scope free", function()
    if not D.cuda then return pending "needs a device" end
    collectgarbage "stop"
    local before = tide.cuda.memory_allocated()
    for _ = 1, 100 do
      local x <close> = tide.zeros(100, { device = "cuda" })
    end
    local held = tide.cuda.memory_allocated() - before
    collectgarbage "restart"
    assert.are.equal(0, held)
  end)

  it("finds the tensors of coroutines and upvalues", function()
    for _ = 1, 10 do
      local co = coroutine.wrap(function(x)
        local y = x + 1
        coroutine.yield(y)
        return y
      end)
      D.eq({ 2 }, co(D.tensor { 1. }))
    end
  end)

  it("stays stopped where it was stopped, until memory has run out", function()
    local out, err = D.simulate(1, [[
      local tide = require "tide"
      local fired, dev = 0, { device = "cuda" }
      local function canary() setmetatable({}, { __gc = function() fired = fired + 1 end }) end
      local function garbage(n) for _ = 1, n do tide.empty(1 << 26, dev) end end -- 256 MiB each
      canary()
      collectgarbage "stop"
      garbage(20)
      for _ = 1, 300 do tide.empty(1 << 18) end -- and on the CPU
      local g, x = tide.cuda.CUDAGraph(), tide.ones(1, dev)
      tide.cuda.graph(g, function() x:add_(1) end)
      tide.cuda.empty_cache { collect = false }
      local before = fired
      garbage(30)
      local after = fired
      garbage(60)
      canary()
      tide.cuda.empty_cache { collect = true }
      io.write(before, " ", after, " ", fired)]], { TIDE_SIM_DRY = "1", TIDE_SIM_MEMORY = tostring(8 << 30) })
    assert.are.equal("0 1 2", out)
    local _, said = err:gsub("collector is stopped", "")
    assert.are.equal(1, said, err)
  end)
end)
