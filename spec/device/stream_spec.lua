-- Streams: queues that only events and waits order.

local tide = require "tide"
local D = require "spec.support.device"
if not D.cuda then return end
local cuda = tide.cuda

-- Keeps the stream busy for about 20 ms.
local function busy(s) cuda.stream(s, function() cuda._sleep(20000000) end) end

describe("streams", function()
  D.watch(before_each, after_each)

  it("have a device, a priority and a handle of their own", function()
    local s = cuda.Stream()
    assert.are.equal("cuda:0", tostring(s.device))
    assert.are.equal(0, s.priority)
    assert.are.equal("integer", math.type(s.cuda_stream))
    assert.is_string(tostring(s))
    local seen = {}
    local all = {}
    for i = 1, 40 do
      all[i] = cuda.Stream()
      assert.is_nil(seen[all[i].cuda_stream])
      seen[all[i].cuda_stream] = true
    end
    local least, greatest = cuda.Stream.priority_range()
    assert.is_true(greatest < least)
    assert.are.equal(greatest, cuda.Stream({ priority = -100 }).priority)
    assert.are.equal(least, cuda.Stream({ priority = 100 }).priority)
    if D.devices > 1 then
      assert.are.equal("cuda:1", tostring(cuda.Stream(1).device))
      assert.are.equal("cuda:1", tostring(cuda.Stream { device = 1 }.device))
    end
    D.raises("ArgumentError", cuda.Stream, "nowhere")
    D.raises("ArgumentError", cuda.Stream, { prio = 1 })
    D.raises("DeviceError", cuda.Stream, 63)
  end)

  it("of which a thousand are alive are a thousand", function()
    local seen, all = {}, {}
    for round = 1, 2 do -- the second time they are those that were let go
      for i = 1, 1000 do
        all[i] = cuda.Stream({ priority = -(i % 3) })
        local handle = all[i].cuda_stream
        assert.is_true(seen[handle] ~= round and handle ~= 0)
        seen[handle] = round
      end
      all = {}
      collectgarbage()
      cuda.synchronize()
    end
    local a = cuda.Stream()
    local x = tide.full({ 1000 }, 4, { device = "cuda" })
    a:wait_stream(cuda.current_stream())
    local y = cuda.stream(a, function() return x + 1 end)
    cuda.current_stream():wait_stream(a)
    D.eq(5, y[1000])
  end)

  it("wait for each other around a copy from device to device", function()
    if D.devices < 2 then return pending "needs two devices" end
    for i = 1, 20 do
      local x, y = tide.zeros(3000, { device = "cuda:0" }), tide.zeros(3000, { device = "cuda:1" })
      cuda.device(1, function() cuda._sleep(300000) end)
      y:fill_(100)         -- late: the copy must not come before it
      cuda._sleep(300000)
      x:fill_(i)           -- late: the copy must come after it
      y:copy_(x)
      x:fill_(-1)          -- must not come before the copy
      y:add_(1)            -- nor must this
      D.eq(i + 1, y[3000])
      D.eq(i + 1, y[1])
      D.eq(-1, x[1])
    end
  end)

  it("that a copy uses are the current ones of both devices", function()
    if D.devices < 2 then return pending "needs two devices" end
    for i = 1, 10 do
      local x, y = tide.zeros(3000, { device = "cuda:0" }), tide.zeros(3000, { device = "cuda:1" })
      cuda.synchronize_all()
      local a, b = cuda.Stream(0), cuda.Stream(1)
      cuda.stream(a, function()
        cuda.stream(b, function()
          cuda._sleep(200000)
          y:fill_(100)
          cuda.device(0, function() cuda._sleep(200000) end)
          x:fill_(i)
          y:copy_(x)
          y:add_(1)
        end)
      end)
      b:synchronize()
      D.eq(i + 1, y[3000])
    end
  end)

  it("compare by what they are", function()
    local s = cuda.Stream()
    cuda.stream(s, function() assert.is_true(cuda.current_stream() == s) end)
    assert.is_true(cuda.default_stream() == cuda.default_stream "cuda:0")
    assert.is_false(s == cuda.default_stream())
    assert.is_false(cuda.default_stream().cuda_stream == 0)
  end)

  it("become current for a block, in both forms", function()
    local s = cuda.Stream()
    local default = cuda.current_stream()
    local got = cuda.stream(s, function(x)
      assert.is_true(cuda.current_stream() == s)
      return x
    end, 5)
    assert.are.equal(5, got)
    assert.is_true(cuda.current_stream() == default)
    do
      local _ <close> = cuda.stream(s)
      assert.is_true(cuda.current_stream() == s)
      cuda.stream(nil, function() assert.is_true(cuda.current_stream() == s) end)
    end
    assert.is_true(cuda.current_stream() == default)
    s:use(function() assert.is_true(cuda.current_stream() == s) end)
    do
      local _ <close> = cuda.StreamContext(s)
      assert.is_true(cuda.current_stream() == s)
    end
    cuda.set_stream(s)
    assert.is_true(cuda.current_stream() == s)
    cuda.set_stream(nil)
    assert.is_true(cuda.current_stream() == s)
    cuda.set_stream(default)
    D.raises("ArgumentError", cuda.stream, 5)
  end)

  it("of another device switch the device too", function()
    if D.devices < 2 then return pending "needs two devices" end
    local s = cuda.Stream(1)
    local before = cuda.current_stream(1)
    cuda.stream(s, function()
      assert.are.equal(1, cuda.current_device())
      assert.is_true(cuda.current_stream() == s)
      assert.is_true(cuda.current_stream(1) == s)
      assert.is_false(cuda.current_stream(0) == s)
    end)
    assert.are.equal(0, cuda.current_device())
    assert.is_true(cuda.current_stream(1) == before)
  end)

  it("run behind the host", function()
    local s = cuda.Stream()
    D.hold(s)
    assert.is_false(s:query())
    D.release()
    s:synchronize()
    assert.is_true(s:query())
    busy(s)
    cuda.synchronize()
    assert.is_true(s:query() and s:query())
    local other = cuda.Stream() -- work is all that a stream waits for, too
    D.hold(other)
    s:wait_stream(other)
    assert.is_false(s:query())
    D.release()
    other:synchronize()
    while not s:query() do end
    local graph, x = cuda.CUDAGraph(), tide.zeros(3, { device = "cuda" })
    cuda.graph(graph, function() x:add_(1) D.hold() end)
    cuda.stream(s, graph.replay, graph)
    assert.is_false(s:query())
    D.release()
    s:synchronize()
    assert.is_true(s:query())
    assert.is_true(s.cuda_stream ~= 0 and s:query() and s:query()) -- others may queue work now: the driver is asked
    graph:reset()
  end)

  it("wait for streams and events, the host does not", function()
    for _ = 1, 5 do
      local a, b = cuda.Stream(), cuda.Stream()
      local x = tide.zeros(1000, { device = "cuda" })
      a:wait_stream(cuda.current_stream())
      cuda.stream(a, function()
        cuda._sleep(2000000)
        x:add_(1)
      end)
      b:wait_stream(a)
      local y = cuda.stream(b, function() return x * 2 end)
      assert.is_false(b:query() and not a:query())
      b:synchronize()
      D.eq(2, y[1000])
      local e = a:record_event()
      assert.is_true(e:query() or true)
      cuda.stream(a, function() x:add_(1) end)
      local f = a:record_event(cuda.Event())
      cuda.current_stream():wait_event(f)
      D.eq(2, x[1000])
      assert.is_true(a:record_event(f) == f)
    end
  end)

  it("wait for several, and all for all", function()
    local list, x = {}, {}
    for i = 1, 3 do
      list[i] = cuda.Stream()
      cuda.stream(list[i], function()
        cuda._sleep(1000000 * i)
        x[i] = tide.full({ 10 }, i, { device = "cuda", dtype = "int64" })
      end)
    end
    local s = cuda.Stream()
    s:wait_streams(list)
    local sum = cuda.stream(s, function() return x[1] + x[2] + x[3] end)
    s:synchronize()
    D.eq(6, sum[1])
    cuda.stream_barrier(list)
    cuda.stream_barrier {}
    s:wait_streams {}
    D.raises("ArgumentError", s.wait_streams, s, { s, 5 })
    D.raises("ArgumentError", s.wait_streams, s)
    D.raises("ArgumentError", cuda.stream_barrier, { s, "x" })
    D.raises("ArgumentError", cuda.stream_barrier, s)
    for _, named in ipairs { { x = s }, { [0] = s } } do
      D.raises("ArgumentError", s.wait_streams, s, named)
      D.raises("ArgumentError", cuda.stream_barrier, named)
    end
    cuda.stream(list[1], function() return D.eq(5, (x[2] + x[3])[1]) end)
  end)

  it("keep memory that another stream still uses", function()
    local s = cuda.Stream()
    for i = 1, 10 do
      local x = tide.full({ 5000 }, i, { device = "cuda", dtype = "float32" })
      s:wait_stream(cuda.current_stream())
      local y = cuda.stream(s, function()
        cuda._sleep(1000000)
        return x + 0
      end)
      x:free()
      tide.full({ 5000 }, -1, { device = "cuda", dtype = "float32" }) -- would get x's memory
      s:synchronize()
      D.eq(i, y[5000])
    end
  end)

  it("take note of a tensor with record_stream", function()
    local s = cuda.Stream()
    local x = tide.zeros(1000, { device = "cuda" })
    x:record_stream(s)
    D.raises("ArgumentError", x.record_stream, x, 5)
    D.raises("DeviceError", function() tide.zeros(1):record_stream(s) end)
  end)

  it("wrap foreign handles", function()
    local legacy = cuda.ExternalStream(0)
    assert.are.equal(0, legacy.cuda_stream)
    local s = cuda.Stream()
    local same = cuda.ExternalStream(s.cuda_stream)
    assert.are.equal(s.cuda_stream, same.cuda_stream)
    local y = cuda.stream(same, function() return tide.ones(10, { device = "cuda" }) + 1 end)
    same:synchronize()
    D.eq(2, y[10])
    assert.are.equal(s.cuda_stream, cuda.get_stream_from_external(s.cuda_stream).cuda_stream)
    D.raises("ArgumentError", cuda.ExternalStream, "x")
    D.raises("ArgumentError", cuda.ExternalStream, "0") -- a number in a string is no handle
    D.raises("ArgumentError", cuda.Stream, { priority = "-1" })
    D.raises("ArgumentError", cuda.ExternalStream)
    D.raises("ArgumentError", cuda.ExternalStream, 1.5)
    D.raises("DeviceError", cuda.ExternalStream, 0, 63)
    for _, nowhere in ipairs { 3, 8, 4096, -7, -8, math.maxinteger, math.maxinteger - 7 } do
      local e = D.raises("ValueError", cuda.ExternalStream, nowhere)
      assert.is_truthy(e.message:find("not a stream", 1, true), e.message)
    end
    -- A lightuserdata is taken, and is no stream, which a driver would read as one.
    if D.simulated then D.raises("ValueError", cuda.ExternalStream, debug.upvalueid(D.raises, 1)) end
    if D.devices > 1 then D.raises("ValueError", cuda.ExternalStream, s.cuda_stream, 1) end
    if D.devices > 1 then assert.are.equal("cuda:1", tostring(cuda.ExternalStream(0, 1).device)) end
  end)

  it("of others that are wrapped in every frame are the same each time, with their memory", function()
    local own = cuda.Stream()
    for _, handle in ipairs { 0, own.cuda_stream } do
      local function frame()
        local s = cuda.ExternalStream(handle)
        local x = cuda.stream(s, tide.zeros, 1 << 19, { device = "cuda" })
        s:synchronize()
        x:free()
      end
      frame()
      local reserved = cuda.memory_reserved()
      for i = 1, 60 do
        frame()
        if i % 3 == 0 then collectgarbage() end
      end
      assert.are.equal(reserved, cuda.memory_reserved())
    end
    local x, list = tide.zeros(100, { device = "cuda" }), {}
    cuda.synchronize()
    for i = 1, 100 do -- more than are remembered
      list[i] = cuda.Stream()
      local s = cuda.ExternalStream(list[i].cuda_stream)
      assert.is_true(s == list[i])
      cuda.stream(s, x.add_, x, 1)
      s:synchronize()
    end
    D.eq(100, x[100])
    list = nil
    collectgarbage()
    cuda.empty_cache() -- streams end here
    x:free() -- which they have used
    cuda.synchronize()
  end)

  it("of others that are wrapped and dropped have their launches told when one of them fails", function()
    if not D.simulated then return pending "needs simulated devices" end
    local out = D.simulate(1, [[
      local tide = require "tide"
      local cuda = tide.cuda
      local weak = setmetatable({}, { __mode = "k" })
      local function frame()
        local s = cuda.ExternalStream(0)
        weak[s] = true
        cuda.stream(s, function()
          cuda._sleep(50000000)
          local x = tide.ones(10, { device = "cuda" }) -- launch 2
          for _ = 1, 5 do x = x + 1 end
        end)
      end
      frame()
      collectgarbage()
      collectgarbage()
      assert(not next(weak))
      for _ = 1, 3 do tide.zeros(3, { device = "cuda" }):free() end
      local streams = { cuda.Stream(), cuda.Stream() } -- ended ones are looked at
      local ok, e = pcall(cuda.synchronize)
      assert(not ok and #streams == 2)
      for _, c in ipairs(e.candidates) do
        if c.op == "add" then print(c.line:match ":(%d+)$", c.count, c.stream) end
      end]], { TIDE_SIM_FAULT = "launch:4" })
    assert.are.equal("10\t5\t0\n", out)
  end)

  it("end with their work done", function()
    local x = tide.zeros(1000, { device = "cuda" })
    cuda.synchronize()
    do
      local s = cuda.Stream()
      cuda.stream(s, function()
        cuda._sleep(1000000)
        x:add_(3)
      end)
    end
    collectgarbage()
    cuda.synchronize()
    D.eq(3, x[1])
  end)

  it("report errors of their work once, with the script's line", function()
    if not D.simulated then return pending "needs simulated devices" end
    D.simulate(1, [[
      local tide = require "tide"
      local x = tide.zeros(10, { device = "cuda" })
      local function queue() for i = 1, 10 do x:add_(1) end end
      tide.cuda.synchronize()
      queue()
      local ok, e = pcall(tide.cuda.synchronize)
      assert(not ok and e.kind == "AcceleratorError", tostring(e))
      assert(e.code == 719 and e.name == "cudaErrorLaunchFailure" and e.sticky == false)
      assert(tostring(e.device) == "cuda:0")
      tide.cuda.synchronize()
      x:zero_()
      assert(x[1]:item() == 0)]], { TIDE_SIM_FAULT = "launch:4" })
  end)

  it("that serve again name the launches of now", function()
    if not D.simulated then return pending "needs simulated devices" end
    D.simulate(1, [[
      local tide = require "tide"
      local cuda = tide.cuda
      local x = tide.zeros(10, { device = "cuda" })
      cuda.synchronize()
      local s = cuda.Stream()
      local handle = s.cuda_stream
      s:use(function()
        local w = tide.zeros(10, { device = "cuda" })
        for i = 1, 100 do w:add_(1) end
        w:free()
      end)
      s:synchronize()
      s = nil
      collectgarbage()
      cuda.synchronize()
      s = cuda.Stream()
      assert(s.cuda_stream == handle and s:query())
      s:use(function()
        for i = 1, 40 do x:add_(1) end
        for i = 1, 40 do x:mul_(1) end
      end)
      local ok, e = pcall(s.synchronize, s)
      assert(not ok and e.kind == "AcceleratorError")
      local named
      for _, c in ipairs(e.candidates) do named = named or (c.line .. " " .. c.op):find ":20.*mul" end
      assert(named and #e.candidates <= 32, e.message)]], { TIDE_SIM_FAULT = "launch:160" })
  end)

  it("lose the device after a sticky error, and the process lives", function()
    if not D.simulated then return pending "needs simulated devices" end
    D.simulate(2, [[
      local tide = require "tide"
      local x = tide.zeros(10, { device = "cuda" })
      for i = 1, 10 do pcall(x.add_, x, 1) end
      local ok, first = pcall(tide.cuda.synchronize)
      assert(not ok and first.kind == "AcceleratorError" and first.sticky, tostring(first))
      for _, f in ipairs { function() return x + 1 end, function() return tide.zeros(1, { device = "cuda" }) end,
        function() return x:totable() end, tide.cuda.synchronize } do
        local ok, e = pcall(f)
        assert(not ok and e.kind == "AcceleratorError" and e.message == first.message, tostring(e))
      end
      local y = tide.ones(3, { device = "cuda:1" })
      assert((y + 1)[3]:item() == 2)
      assert((tide.ones(2) + 1)[1]:item() == 2)]], { TIDE_SIM_FAULT = "sticky:5" })
  end)

  it("are made on the current device unless told", function()
    for _, none in ipairs { -1, false } do assert.are.equal("cuda:0", tostring(cuda.Stream(none or nil).device)) end
    D.raises("DeviceError", cuda.Stream, "cpu")
    D.raises("ArgumentError", cuda.Stream, { priority = 1.5 })
    D.raises("ArgumentError", cuda.Stream, 0, 5)
    D.raises("ArgumentError", cuda.Stream, 0, { priority = 0 }, 5)
    D.raises("ArgumentError", cuda.Stream, { device = 0 }, { priority = 0 })
    D.raises("ArgumentError", cuda.Stream, 0, { device = 0 })
    for _, bad in ipairs { "x", 1.5, {} } do D.raises("ArgumentError", cuda._sleep, bad) end
    D.raises("ArgumentError", cuda._sleep)
    assert.are.equal(-1, cuda.Stream(0, { priority = -1 }).priority)
    local least, greatest = cuda.Stream.priority_range(0)
    assert.are.same({ least, greatest }, { cuda.Stream.priority_range "cuda" })
    assert.are.equal(least, cuda.Stream({ priority = math.maxinteger }).priority)
    assert.are.equal(greatest, cuda.Stream({ priority = math.mininteger }).priority)
    D.raises("DeviceError", cuda.Stream.priority_range, 63)
    if D.devices < 2 then return pending "the rest needs two devices" end
    local s = cuda.device(1, function() return cuda.Stream() end)
    assert.are.equal("cuda:1", tostring(s.device))
    assert.are.equal("cuda:1", tostring(cuda.Stream(1, { priority = -1 }).device))
    assert.are.equal("cuda:1", tostring(cuda.current_stream(1).device))
    assert.are.equal("cuda:1", tostring(cuda.default_stream("cuda:1").device))
  end)

  it("have fields that are read and not written", function()
    local s = cuda.Stream()
    D.raises("ArgumentError", function() s.priority = 1 end)
    D.raises("ArgumentError", function() s.name = "mine" end)
    D.raises("ArgumentError", function() return s.name end)
    assert.is_truthy(tostring(s):find(("cuda:0, priority=0, cuda_stream=0x%x"):format(s.cuda_stream), 1, true), tostring(s))
    assert.is_truthy(tostring(cuda.ExternalStream(0)):find("cuda_stream=0x0", 1, true))
  end)

  it("are as before on both devices after a block on another one", function()
    if D.devices < 2 then return pending "needs two devices" end
    local mine, there = cuda.Stream(0), cuda.Stream(1)
    local function spoil()
      cuda.set_stream(cuda.Stream(1))
      cuda.set_stream(cuda.Stream(0))
    end
    for _, before in ipairs { cuda.default_stream(0), mine } do
      cuda.set_stream(before)
      cuda.stream(there, spoil)
      assert.is_false(pcall(cuda.stream, there, function()
        spoil()
        error "out"
      end))
      do
        local _ <close> = cuda.stream(there)
        spoil()
      end
      there:use(spoil)
      assert.is_true(cuda.current_stream(0) == before)
      assert.is_true(cuda.current_stream(1) == cuda.default_stream(1))
      assert.are.equal(0, cuda.current_device())
    end
    cuda.stream(mine, cuda.set_device, 1) -- the device too
    assert.are.equal(0, cuda.current_device())
    cuda.set_stream(there)
    assert.are.equal(1, cuda.current_device()) -- set_stream selects the device too
    cuda.set_stream(cuda.default_stream(1))
    cuda.set_stream(cuda.default_stream(0))
  end)

  it("are left also when their device is lost inside", function()
    if not D.simulated then return pending "needs simulated devices" end
    D.simulate(2, [[
      local tide = require "tide"
      local cuda = tide.cuda
      local x, mine = tide.zeros(10, { device = "cuda:1" }), cuda.Stream(0)
      cuda.synchronize(1)
      cuda.set_stream(mine)
      local ok, e = pcall(cuda.stream, cuda.Stream(1), function()
        cuda.set_stream(cuda.Stream(0))
        cuda.set_device(1)
        for _ = 1, 10 do x:add_(1) end
        cuda.synchronize()
      end)
      assert(not ok and e.sticky and tostring(e.device) == "cuda:1", tostring(e))
      assert(cuda.current_device() == 0 and cuda.current_stream() == mine)
      assert((tide.ones(2, { device = "cuda" }) + 1)[1]:item() == 2)]], { TIDE_SIM_FAULT = "sticky:5" })
  end)

  it("open no device that is not used, in blocks either", function()
    if not D.simulated then return pending "needs simulated devices" end
    D.simulate(2, [[
      local tide = require "tide"
      local cuda = tide.cuda
      local s = cuda.Stream(1)
      cuda.stream(s, function() assert(tide.ones(3, { device = "cuda" }):sum():item() == 3) end)
      assert(not cuda._is_open(0) and cuda._is_open(1) and cuda.current_device() == 0)]])
  end)

  it("of a device are waited for by synchronize, those of others are not", function()
    if D.devices < 2 then return pending "needs two devices" end
    local all = { cuda.Stream(0), cuda.Stream(0), cuda.Stream(1) }
    local function work() for _, s in ipairs(all) do busy(s) end end
    busy(all[1])
    busy(all[2])
    D.hold(all[3])
    cuda.synchronize(0)
    assert.is_true(all[1]:query() and all[2]:query())
    assert.is_false(all[3]:query())
    D.release()
    cuda.synchronize "cuda:1"
    assert.is_true(all[3]:query())
    work()
    cuda.device(1, function() cuda.synchronize() end)
    assert.is_true(all[3]:query())
    work()
    cuda.synchronize_all()
    for _, s in ipairs(all) do assert.is_true(s:query()) end
    D.raises("ValueError", cuda.synchronize, -1)
    D.raises("DeviceError", cuda.synchronize, "cpu")
  end)

  it("meet at a barrier, on several devices too", function()
    local list, x, y = {}, {}, {}
    for i = 1, 4 do
      list[i] = cuda.Stream(i % D.devices)
      x[i] = tide.zeros(1000, { device = list[i].device })
    end
    cuda.synchronize_all()
    for round = 1, 5 do
      for i, s in ipairs(list) do
        cuda.stream(s, function()
          cuda._sleep(500000 * (5 - i))
          x[i]:fill_(round * 10 + i)
        end)
      end
      cuda.stream_barrier(list)
      for i, s in ipairs(list) do -- every stream reads what all of its device have written
        cuda.stream(s, function()
          y[i] = tide.zeros(1000, { device = s.device })
          for k = 1, 4 do
            if x[k].device == s.device then y[i]:add_(x[k]) end
          end
        end)
      end
      for i, s in ipairs(list) do
        s:synchronize()
        local want = 0
        for k = 1, 4 do
          if x[k].device == s.device then want = want + round * 10 + k end
        end
        D.eq(want, y[i][1000])
      end
      cuda.stream_barrier(list) -- nobody writes before all have read
    end
    local s = cuda.Stream(0)
    cuda.stream(list[4], function() cuda._sleep(20000000) end)
    s:wait_streams { list[3], list[4] }
    s:synchronize()
    assert.is_true(list[4]:query())
  end)

  it("named by record_stream, several of them, keep the memory until the last one is done", function()
    for _, count in ipairs { 2, 3 } do
      for late = 1, count do -- the held one
        local streams = {}
        for i = 1, count do streams[i] = cuda.Stream() end
        local n = 300000 + 1000 * (count * 4 + late)
        local x = tide.full({ n }, 5, { device = "cuda", dtype = "float32" })
        local r = tide.zeros(n, { device = "cuda", dtype = "float32" })
        cuda.synchronize()
        for _, s in ipairs(streams) do x:record_stream(s) end
        D.hold(streams[late])
        cuda.stream(streams[late], function() r:copy_(x) end)
        x:free()
        for i, s in ipairs(streams) do
          if i ~= late then s:synchronize() end
        end
        local again = {}
        for i = 1, 3 do again[i] = tide.full({ n }, 7, { device = "cuda", dtype = "float32" }) end
        cuda.current_stream():synchronize()
        D.release()
        cuda.synchronize()
        assert.are.equal(5, r:min():item(), ("stream %d of %d"):format(late, count))
      end
    end
  end)

  it("named by record_stream keep the memory of a tensor that is gone", function()
    local s = cuda.Stream()
    local x = tide.zeros(5000, { device = "cuda" })
    local at = x:data_ptr()
    D.hold(s) -- work that nobody but the script knows to use x
    x:record_stream(s)
    x:free()
    local other = tide.zeros(5000, { device = "cuda" })
    assert.are_not.equal(at, other:data_ptr())
    D.release()
    s:synchronize()
    local y = tide.zeros(5000, { device = "cuda" })
    assert.are.equal(at, y:data_ptr())
  end)
end)
