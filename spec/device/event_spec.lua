-- Events.

local tide = require "tide"
local D = require "spec.support.device"
if not D.cuda then return end
local cuda = tide.cuda

describe("events", function()
  D.watch(before_each, after_each)

  it("never recorded are complete and make nobody wait", function()
    local e = cuda.Event()
    assert.is_true(e:query())
    e:synchronize()
    e:wait()
    assert.is_nil(e.device)
    D.raises("ValueError", function() return cuda.Event { enable_timing = true }:elapsed_time(cuda.Event { enable_timing = true }) end)
  end)

  it("are bound to the device that records them first", function()
    local e = cuda.Event()
    assert.is_true(e:record() == e)
    assert.are.equal("cuda:0", tostring(e.device))
    assert.are.equal("integer", math.type(e.cuda_event))
    if D.devices > 1 then
      local s = cuda.Stream(1)
      D.raises("DeviceError", e.record, e, s)
      e:wait(s) -- any device may wait
    end
    assert.are.equal("tide.cuda.Event(device=cuda:0)", tostring(e))
    assert.are.equal("tide.cuda.Event(not recorded)", tostring(cuda.Event()))
  end)

  -- Records e behind work that waits: e is done when that is, and not before.
  local function tells_when_done(e)
    D.hold()
    e:record()
    assert.is_false(e:query())
    D.release()
    e:synchronize()
    assert.is_true(e:query())
  end

  it("tell when the work before them is done", function() tells_when_done(cuda.Event()) end)

  it("order streams", function()
    for _ = 1, 10 do
      local s = cuda.Stream()
      local x = tide.zeros(1000, { device = "cuda" })
      cuda._sleep(500000)
      x:add_(1)
      local e = cuda.record()
      e:wait(s)
      local y = cuda.stream(s, function() return x + 1 end)
      s:synchronize()
      D.eq(2, y[1000])
    end
  end)

  it("measure time", function()
    local a, b = cuda.Event { enable_timing = true }, cuda.Event { enable_timing = true }
    local host = tide.Timer()
    a:record()
    D.hold()
    b:record()
    D.raises("StateError", a.elapsed_time, a, b)
    D.release()
    a:record()
    cuda._sleep(20000000)
    b:record():synchronize()
    local ms = a:elapsed_time(b)
    assert.is_true(ms > 2, tostring(ms))
    assert.is_true(D.virtual or ms <= host:time().real * 1000 + 1, tostring(ms))
    assert.is_true(b:elapsed_time(a) < 0)
    D.raises("ValueError", a.elapsed_time, a, cuda.Event():record())
    D.raises("ArgumentError", a.elapsed_time, a, 5)
  end)

  it("have errors of their own for times that are not there", function()
    local timed = cuda.Event { enable_timing = true }:record()
    cuda.synchronize()
    local never = cuda.Event { enable_timing = true }
    local plain = cuda.Event():record()
    D.hold()
    local late = cuda.Event { enable_timing = true }:record()
    for event, says in pairs { [never] = "was never recorded", [plain] = "keeps no time", [late] = "is not complete" } do
      local kind = event == late and "StateError" or "ValueError"
      assert.matches("the end event " .. says, D.raises(kind, timed.elapsed_time, timed, event).message)
      assert.matches("the start event " .. says, D.raises(kind, timed.elapsed_time, event, timed).message)
    end
    D.release()
    late:synchronize()
    assert.is_true(timed:elapsed_time(late) > 0)
    if D.devices > 1 then
      local there = cuda.device(1, function() return cuda.Event { enable_timing = true }:record() end)
      there:synchronize()
      D.raises("ValueError", timed.elapsed_time, timed, there)
    end
  end)

  it("order streams of two devices", function()
    if D.devices < 2 then return pending "needs two devices" end
    for i = 1, 10 do
      local x, y = tide.zeros(1000, { device = "cuda:0" }), tide.zeros(1000, { device = "cuda:1" })
      local s = cuda.Stream(1)
      s:wait_stream(cuda.current_stream(1))
      cuda._sleep(500000)
      x:fill_(i)
      local e = cuda.Event():record()
      assert.are.equal("cuda:0", tostring(e.device))
      e:wait(s)
      local mine = s:record_event()
      assert.is_false(mine:query() and not e:query())
      s:synchronize()
      assert.is_true(e:query())
      D.eq(i, x[1000])
      D.eq(0, y[1])
    end
  end)

  it("wait for what was recorded last when the wait was queued", function()
    local a, b = cuda.Stream(), cuda.Stream()
    local e = cuda.Event()
    e:record(a)
    b:wait_event(e)
    D.hold(a)
    e:record(a) -- later than the wait: b does not wait for this
    b:synchronize()
    assert.is_false(a:query())
    D.release()
    e:synchronize()
    assert.is_true(a:query())
  end)

  it("may be recorded again", function()
    local e = cuda.Event()
    for _ = 1, 100 do e:record() end
    e:synchronize()
    assert.is_true(e:query())
  end)

  it("that were seen done are not done when they are recorded again", function()
    for _, options in ipairs { {}, { blocking = true }, { enable_timing = true }, { interprocess = true } } do
      local e = cuda.Event(options)
      e:record():synchronize()
      assert.is_true(e:query())
      tells_when_done(e)
    end
  end)

  it("may be dropped at any moment", function()
    for _ = 1, 100 do
      cuda._sleep(1000)
      cuda.Event():record()
    end
    collectgarbage()
    cuda.synchronize()
    -- What they were made of serves again, and is not done before its time.
    local events = {}
    D.hold()
    for i = 1, 100 do events[i] = cuda.Event():record() end
    for i = 1, 100 do assert.is_false(events[i]:query()) end
    D.release()
    cuda.synchronize()
    for i = 1, 100 do assert.is_true(events[i]:query()) end
  end)

  it("refuse unknown options and objects", function()
    D.raises("ArgumentError", cuda.Event, { timing = true })
    D.raises("ArgumentError", cuda.Event, 5)
    D.raises("ArgumentError", function() cuda.Event():record(5) end)
    D.raises("ArgumentError", function() cuda.Event():wait "x" end)
    D.raises("NotSupportedError", cuda.Event, { external = true })
    D.raises("ArgumentError", cuda.Event, { blocking = 1 })
    D.raises("ArgumentError", function() return cuda.Event().no_such_field end)
    local e = cuda.Event { enable_timing = false, blocking = true, interprocess = false, external = false }
    cuda._sleep(1000000)
    e:record():synchronize()
    assert.is_true(e:query())
  end)

  it("are recorded on the stream that is told, or the current one", function()
    local s, e = cuda.Stream(), cuda.Event()
    D.hold(s)
    e:record():synchronize() -- the current stream is idle
    assert.is_false(s:query())
    e:record(s)
    assert.is_false(e:query())
    local f = cuda.stream(s, function() return cuda.record { enable_timing = true } end)
    assert.is_false(f:query())
    local g = s:record_event()
    D.release()
    s:synchronize()
    assert.is_true(e:query() and f:query() and g:query())
    assert.is_true(s:record_event(g) == g)
    D.raises("ArgumentError", s.record_event, s, 5)
    if D.devices < 2 then return pending "the rest needs two devices" end
    local there = cuda.device(1, cuda.record)
    assert.are.equal("cuda:1", tostring(there.device))
    D.raises("DeviceError", there.record, there) -- the current stream is one of cuda:0
    cuda.device(1, function() there:record() end)
  end)

  it("have fields that are read and not written", function()
    local e = cuda.Event()
    assert.are.equal(0, e.cuda_event)
    D.raises("ArgumentError", function() e.device = 0 end)
    assert.is_true(e:record().cuda_event ~= 0)
  end)

  it("make a timer of the device", function()
    local host, t = tide.Timer(), cuda.Timer()
    local function within(seconds, timer) -- no longer than the host saw; the clocks are two
      assert.is_true(D.virtual or seconds <= timer:time().real + 0.001, seconds)
    end
    cuda._sleep(20000000)
    local first = t:time().real
    assert.is_true(first > 0.002, first)
    within(first, host)
    assert.is_true(cuda.current_stream():query()) -- asking waits
    assert.is_true(t:time().real >= first)
    host:reset()
    assert.is_true(t:reset() == t)
    within(t:time().real, host)
    local s = cuda.Stream()
    local inside = cuda.stream(s, cuda.Timer)
    cuda.stream(s, function()
      cuda._sleep(20000000)
      assert.is_true(inside:time().real > 0.002)
    end)
    for _ = 1, 5 do -- begun behind work of a stream that is not waited for otherwise
      cuda.stream(s, function() cuda._sleep(50000000) end)
      local late = cuda.stream(s, cuda.Timer)
      assert.are.equal("float", math.type(late:time().real))
      assert.is_true(s:query())
    end
    if D.devices > 1 then
      local there = cuda.device(1, cuda.Timer)
      assert.is_true(there:time().real >= 0) -- on the device where it was started
    end
    D.raises("ArgumentError", t.time, tide.Timer())
    D.raises("ArgumentError", cuda.Timer, 5)
    local host = tide.Timer()
    assert.is_true(host:time().real >= 0 and host:time().user >= 0 and host:time().sys >= 0)
    assert.is_true(host:reset() == host)
  end)
end)
