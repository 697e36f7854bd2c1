-- What may happen while a graph is captured, and what ends the capture.

local tide = require "tide"
local D = require "spec.support.device"
local graphs = require "spec.support.graph"
if not D.cuda then return end
local cuda = tide.cuda
local dev = { device = "cuda" }

local capture, settle = graphs.capture, graphs.settle

describe("what cannot be captured", function()
  local x, p, other, event, timed, graph
  D.watch(before_each, after_each, function()
    x, p, other, event, timed, graph = nil, nil, nil, nil, nil, nil
    settle()
  end)
  local cases = {
    { "item", function() return x:sum():item() end },
    { "read", function() return x:totable() end, "to" },
    { "synchronize", function() cuda.synchronize() end },
    { "synchronize", function() cuda.current_stream():synchronize() end },
    { "synchronize", function() other:synchronize() end },
    { "synchronize", function() event:synchronize() end },
    { "query", function() event:query() end },
    { "query", function() cuda.record():query() end },
    { "elapsed_time", function() timed:elapsed_time(timed) end },
    { "query", function() other:query() end },
    { "copy", function() x:copy_(tide.ones(10)) end },
    { "copy", function() tide.ones(10):copy_(x) end },
    { "copy", function() p:copy_(x) end },
    { "tensor", function() return tide.tensor({ 1, 2 }, dev) end },
    { "cpu", function() return x:cpu() end },
    { "nonzero", function() return x:nonzero() end },
    { "mask", function() return x[x:gt(0)] end },
    { "equal", function() return x:equal(x + 1) end },
    { "empty_cache", function() cuda.empty_cache() end },
    { "stream", function() cuda.stream(cuda.ExternalStream(0), function() end) end },
    { "wait_stream", function() cuda.current_stream():wait_stream(cuda.ExternalStream(0)) end },
    { "wait_stream", function() cuda.current_stream():wait_stream(other) end },
    { "wait_event", function() cuda.current_stream():wait_event(event) end },
    { "replay", function() graph:replay() end },
    { "another graph", function() cuda.graph(cuda.CUDAGraph(), function() end) end },
  }

  before_each(function()
    x, p, other = tide.ones(10, dev), tide.ones(10, { pin_memory = true }), cuda.Stream()
    event, timed = cuda.record(), cuda.Event { enable_timing = true }
    timed:record()
    graph = capture(function() x:add_(0) end)
    cuda.synchronize()
  end)

  for i, case in ipairs(cases) do
    it(("raises at its own line: %s (%d)"):format(case[1], i), function()
      local before, g, line = cuda.current_stream(), cuda.CUDAGraph()
      local e = D.raises("StateError", cuda.graph, g, function()
        local t = x + 1
        case[2]()
        error "the operation was allowed"
      end)
      assert.is_truthy(e.message:find(case[1], 1, true) or e.message:find(case[3] or case[1], 1, true), e.message)
      local from = debug.getinfo(case[2], "S").linedefined
      assert.is_truthy(tostring(e):find("graph_capture_spec.lua:" .. from .. ":", 1, true), tostring(e))
      -- The capture has ended, the streams are usable, and there is no second error.
      assert.is_false(cuda.is_current_stream_capturing())
      assert.is_true(cuda.current_stream() == before)
      D.raises("StateError", g.replay, g)
      D.eq(20, (x + 1):sum())
      cuda.stream(other, function() D.eq(1, x[3]) end)
      cuda.graph(g, function() x:add_(1) end)
      g:replay()
      D.eq(2, x[1])
    end)
  end

  it("ends the capture also where the error is caught", function()
    local g = cuda.CUDAGraph()
    local e = D.raises("StateError", cuda.graph, g, function()
      assert.is_false(pcall(function() return x:sum():item() end))
      assert.is_false(cuda.is_current_stream_capturing())
      D.eq(10, x:sum():item()) -- what follows is executed
    end)
    assert.matches("ended by item at .*graph_capture_spec", e.message)
    cuda.graph(g, function() end)
  end)

  it("is said of an event that was recorded in a capture, after it too", function()
    local e
    local g = capture(function() e = cuda.record() end)
    D.raises("StateError", e.query, e)
    D.raises("StateError", e.synchronize, e)
    D.raises("StateError", e.wait, e)
    e:record()
    e:synchronize()
    g:replay()
  end)

  it("does not concern the cpu, nor what is only queued", function()
    local a = tide.arange(10)
    local g = capture(function()
      assert.are.equal(45, a:sum():item())
      assert.is_true(a:equal(a))
      assert.are.equal("tensor(..., device='cuda:0', size=(10,), dtype=tide.float32)", tostring(x))
      assert.are.same({ 10 }, x:size())
      assert.is_number(cuda.memory_allocated())
      x:record_stream(other)
      local _ = cuda.Stream(), cuda.Event()
    end)
    g:replay()
  end)

  it("does not concern an error of the script, which goes on as it is", function()
    local g = cuda.CUDAGraph()
    local ok, e = pcall(cuda.graph, g, function()
      local _ = x + 1
      error { mine = true }
    end)
    assert.is_false(ok)
    assert.are.same({ mine = true }, e)
    assert.is_false(cuda.is_current_stream_capturing())
    ok, e = pcall(function()
      local _ <close> = cuda.graph(g)
      local _ = x + 1
      error "also mine"
    end)
    assert.is_false(ok)
    assert.matches("also mine", e)
    assert.is_false(cuda.is_current_stream_capturing())
    D.raises("ShapeError", cuda.graph, g, function() return x + tide.ones(3, dev) end)
    cuda.graph(g, function() x:add_(1) end)
    g:replay()
    D.eq(2, x[1])
  end)

  it("does not concern a block that is left because its coroutine is closed: the capture is dropped", function()
    local graphs = { cuda.CUDAGraph(), cuda.CUDAGraph() }
    local function work()
      x:add_(1)
      coroutine.yield()
      x:add_(10)
    end
    for i, body in ipairs { function(g) cuda.graph(g, work) end, function(g)
      local _ <close> = cuda.graph(g)
      work()
    end } do
      local co = coroutine.create(body)
      assert.is_true(coroutine.resume(co, graphs[i]))
      assert.is_true(coroutine.close(co))
      assert.is_false(cuda.is_current_stream_capturing())
      D.raises("StateError", graphs[i].replay, graphs[i])
      cuda.graph(graphs[i], function() x:add_(1) end)
      graphs[i]:replay()
    end
    D.eq(3, x[1])
    local failed = cuda.CUDAGraph()
    assert.is_false(pcall(cuda.graph, failed, function() error() end)) -- nil is an error too
    D.raises("StateError", failed.replay, failed)
    local function fail()
      local _ <close> = cuda.graph(failed)
      x:add_(1)
      error(nil)
    end
    for _, left in ipairs { function() pcall(fail) end, function() pcall(coroutine.wrap(fail)) end } do
      left()
      assert.is_false(cuda.is_current_stream_capturing())
      D.raises("StateError", failed.replay, failed)
    end
    local closed = cuda.graph(failed)
    assert.is_true(pcall(closed.close, closed)) -- from C too, close() ends in order
    failed:replay()
    local co = coroutine.wrap(function(g) -- that ends in order, it is a capture as any
      local _ <close> = cuda.graph(g)
      x:add_(1)
      coroutine.yield()
      x:add_(1)
    end)
    local g = cuda.CUDAGraph()
    co(g)
    co()
    g:replay()
    D.eq(5, x[1])
  end)

  it("is dropped with the graph", function()
    do
      local g = cuda.CUDAGraph()
      cuda.stream(other, function()
        g:capture_begin()
        x:add_(1)
        assert.is_true(cuda.is_current_stream_capturing())
        g = nil
        collectgarbage()
        assert.is_false(cuda.is_current_stream_capturing())
      end)
    end
    D.eq(1, x[1])
  end)

  it("says what has ended it until it is reset", function()
    local x, g = tide.ones(3, dev), cuda.CUDAGraph()
    for _ = 1, 2 do
      D.raises("StateError", cuda.graph, g, function() return x:sum():item() end)
      assert.matches("ended by item", D.raises("StateError", g.capture_end, g).message)
      g:reset()
      assert.matches("no capture is under way", D.raises("StateError", g.capture_end, g).message)
    end
  end)

  it("has room for 64 streams of a simulated device", function()
    if not D.simulated then return pending "of a simulated device" end
    local function try(count)
      local y, streams = {}, {}
      for i = 1, count - 1 do streams[i] = cuda.Stream() end
      local g = cuda.CUDAGraph()
      local ok, e = pcall(cuda.graph, g, function()
        local current = cuda.current_stream()
        for i, s in ipairs(streams) do
          s:wait_stream(current)
          y[i] = cuda.stream(s, function() return tide.full({ 3 }, i, dev) end)
          current:wait_stream(s)
        end
      end)
      if ok then
        g:replay()
        for i = 1, #streams do D.eq(i, y[i][3]) end
      end
      return ok, e
    end
    assert.is_true(try(64))
    local ok, e = try(65)
    assert(not ok and e.kind == "AcceleratorError", tostring(e))
    assert.is_true(try(64))
  end)

  it("is what a lack of memory leaves behind", function()
    local g = cuda.CUDAGraph()
    D.raises("OutOfMemoryError", cuda.graph, g, function()
      return tide.empty(1 << 50, { device = "cuda", dtype = "uint8" })
    end)
    assert.is_false(cuda.is_current_stream_capturing())
    cuda.graph(g, function() x:add_(1) end)
    g:replay()
    D.eq(2, x[1])
  end)
end)

describe("collection during a capture", function()
  D.watch(before_each, after_each, settle)

  it("is harmless after every operation", function()
    for round = 1, 30 do
      local x, y, s = tide.ones(100, dev), tide.ones(100, dev), cuda.Stream()
      local junk = { tide.zeros(100, dev), cuda.record(), cuda.Stream(), capture(function() end), tide.zeros(10, { pin_memory = true }) }
      cuda.stream(s, function() junk[1]:add_(1) end)
      junk[4]:replay()
      local out
      local g = capture(function()
        local t = x + y
        collectgarbage()
        junk = nil
        collectgarbage()
        t = t * 2
        collectgarbage()
        x, y = nil, nil
        s:wait_stream(cuda.current_stream())
        collectgarbage()
        local u = cuda.stream(s, function() return t + 1 end)
        t = nil
        collectgarbage()
        cuda.current_stream():wait_stream(s)
        out = u * 10
        u, s = nil, nil
        collectgarbage()
      end)
      collectgarbage()
      for _ = 1, 3 do g:replay() end
      D.eq(50, out[round])
    end
  end)
end)

describe("memory that is not cached", function()
  D.watch(before_each, after_each, settle)

  -- The stream still works on what is let go while it is captured: neither the capture nor the memory may break.
  for name, let_go in pairs {
    ["freed by hand"] = function(held) held[1]:free() end,
    ["collected"] = function(held)
      held[1] = nil
      collectgarbage()
      tide.empty(10, dev)
    end,
  } do
    it("stays until its stream is done when it is " .. name .. " in a capture", function()
      local s, y, out = cuda.Stream(), tide.ones(1000, dev)
      cuda.synchronize()
      local _ <close> = cuda.caching_allocator_disabled()
      local held, seen = {}, tide.zeros(1 << 16, dev)
      cuda.synchronize()
      cuda.stream(s, function()
        held[1] = tide.full(1 << 16, 7, dev)
        cuda._sleep(50000000)
        seen:copy_(held[1])
      end)
      local reserved = cuda.memory_reserved()
      local g = cuda.CUDAGraph()
      cuda.graph(g, { stream = s }, function()
        out = y + 1
        let_go(held)
        assert(cuda.memory_reserved() >= reserved)
      end)
      g:replay()
      settle()
      D.eq(2, out[1])
      D.eq(7, seen:min():item())
      assert(cuda.memory_reserved() < reserved + (2 << 20))
      D.eq(3, (y + 2)[1])
    end)
  end
end)
