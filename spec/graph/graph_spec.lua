-- Graphs: what is queued once and replayed.

local tide = require "tide"
local D = require "spec.support.device"
local graphs = require "spec.support.graph"
if not D.cuda then return end
local cuda = tide.cuda
local dev = { device = "cuda" }

local capture, settle = graphs.capture, graphs.settle

describe("a graph", function()
  D.watch(before_each, after_each, settle)

  it("executes nothing while it is captured, and everything at each replay", function()
    local x, y = tide.ones(1000, dev)
    local g = capture(function()
      x:add_(1)
      y = x * 2
    end)
    D.eq(1, x[7])
    for i = 1, 20 do
      g:replay()
      D.eq(1 + i, x[1000])
      D.eq(2 * (1 + i), y[3])
    end
    x:fill_(10)
    g:replay()
    D.eq(22, y[1])
  end)

  it("is captured by the methods alone", function()
    local g, s, x = cuda.CUDAGraph(), cuda.Stream(), tide.zeros(10, dev)
    cuda.synchronize()
    assert.is_false(cuda.is_current_stream_capturing())
    cuda.stream(s, function()
      g:capture_begin()
      assert.is_true(cuda.is_current_stream_capturing())
      x:add_(3)
      g:capture_end()
      assert.is_false(cuda.is_current_stream_capturing())
    end)
    g:replay()
    g:replay()
    D.eq(6, x[1])
    assert.matches("cuda:0", tostring(g))
    g:reset()
    assert.matches("empty", tostring(g))
    cuda.stream(s, function()
      g:capture_begin { capture_error_mode = "relaxed" }
      x:add_(1)
      g:capture_end()
    end)
    g:replay()
    D.eq(7, x[1])
  end)

  it("is captured by a scope object, in every mode", function()
    for _, mode in ipairs { "global", "thread_local", "relaxed" } do
      local g, x = cuda.CUDAGraph(), tide.zeros(5, dev)
      local before = cuda.current_stream()
      do
        local _ <close> = cuda.graph(g, { capture_error_mode = mode })
        assert.is_true(cuda.is_current_stream_capturing())
        assert.is_false(cuda.current_stream() == before)
        x:add_(1)
      end
      assert.is_true(cuda.current_stream() == before)
      g:replay()
      D.eq(1, x[5])
    end
    local g, x = cuda.CUDAGraph(), tide.zeros(5, dev)
    local block = cuda.graph(g)
    x:add_(1)
    block:close "what is given is no error"
    g:replay()
    D.eq(1, x[5])
  end)

  it("gives on the results of the closure, and its arguments to it", function()
    local g, x = cuda.CUDAGraph(), tide.ones(5, dev)
    local a, b, y = cuda.graph(g, {}, function(p, q) return p, q, x + 1 end, "p", 5)
    assert.are.same({ "p", 5 }, { a, b })
    g:replay()
    D.eq(2, y[1])
  end)

  it("uses the stream it is given, on any device", function()
    local s, x = cuda.Stream(), tide.ones(5, dev)
    cuda.synchronize()
    local g = cuda.CUDAGraph()
    cuda.graph(g, { stream = s }, function()
      assert.is_true(cuda.current_stream() == s)
      x:mul_(2)
    end)
    g:replay()
    D.eq(2, x[1])
    if D.devices > 1 then
      local y, h = tide.ones(5, { device = "cuda:1" }), cuda.CUDAGraph()
      cuda.device(1, function() cuda.graph(h, function() y:mul_(3) end) end)
      assert.are.equal(0, cuda.current_device())
      h:replay()
      D.eq(3, y[1])
    end
  end)

  it("tells the current stream's state without making a context", function()
    local out = D.run({ "-e", "print(tide.cuda.is_current_stream_capturing(), tide.cuda.is_initialized())" },
      { env = D.simulated and { TIDE_SIM_DEVICES = "1" } or nil })
    assert.are.equal("false\tfalse\n", out)
  end)

  it("takes in other streams that wait for it, and is waited for by others", function()
    local x, y, z = tide.ones(100000, dev), tide.zeros(100000, dev)
    local a, b = cuda.Stream(), cuda.Stream()
    local g = capture(function()
      local main = cuda.current_stream()
      x:add_(1)
      a:wait_stream(main)
      b:wait_event(main:record_event())
      cuda.stream(a, function()
        assert.is_true(cuda.is_current_stream_capturing())
        cuda._sleep(100000)
        y:copy_(x):mul_(10)
      end)
      local w = cuda.stream(b, function() return x * 100 end)
      main:wait_stream(a)
      main:wait_event(b:record_event())
      z = y + w
    end)
    assert.is_false(cuda.stream(a, cuda.is_current_stream_capturing))
    for i = 1, 10 do
      g:replay()
      D.eq(110 * (1 + i), z[i], 0)
      D.eq(110 * (1 + i), z[100000], 0)
    end
    cuda.stream(a, function() x:add_(1) end) -- the streams are free again
    a:synchronize()
    b:synchronize()
  end)

  it("orders replays on several streams one after the other", function()
    local x = tide.zeros(1000, dev)
    local g = capture(function()
      local y = x + 1
      cuda._sleep(20000)
      x:copy_(y)
    end)
    local streams = { cuda.Stream(), cuda.Stream(), cuda.current_stream() }
    for i = 1, 30 do cuda.stream(streams[i % 3 + 1], g.replay, g) end
    cuda.synchronize()
    D.eq(30, x[1000])
  end)

  it("records copies of page-locked memory, both ways", function()
    local from, to = tide.ones(100, { pin_memory = true }), tide.zeros(100, { pin_memory = true })
    local x = tide.zeros(100, dev)
    local g = capture(function()
      x:copy_(from, { non_blocking = true })
      x:mul_(2)
      to:copy_(x, { non_blocking = true })
    end)
    cuda.synchronize()
    D.eq(0, to[1])
    for i = 1, 5 do
      from:fill_(i)
      g:replay()
      cuda.synchronize()
      D.eq(2 * i, to[100])
    end
  end)

  it("records products, reductions and permutations of strides", function()
    local a, b = tide.arange(64, { device = "cuda", dtype = "float32" }):view(8, 8), tide.eye(8, dev)
    local c, s, m
    local g = capture(function()
      c = a:t():matmul(b) + a
      s, m = c:sum(1), c:max()
    end)
    g:replay()
    local expected = a:t() + a
    D.eq(expected, c)
    D.eq(expected:sum(1), s)
    D.eq(expected:max(), m)
  end)

  it("takes in copies between devices", function()
    if D.devices < 2 then return pending "needs two devices" end
    local x, y = tide.ones(100, dev), tide.zeros(100, { device = "cuda:1" })
    cuda.synchronize_all()
    local g = capture(function()
      x:add_(1)
      y:copy_(x)
      x:copy_(y * 1)
    end)
    for i = 1, 5 do
      g:replay()
      D.eq(1 + i, x[100])
      D.eq(1 + i, y[100])
    end
    cuda.synchronize_all()
  end)

  it("may be empty", function()
    local g, x = capture(function() end), tide.zeros(4, dev)
    for i = 1, 3 do
      x:add_(1)
      g:replay()
      x:mul_(2)
      D.eq(2 ^ (i + 1) - 2, x[1])
    end
  end)

  it("reports a bad index of a replay at the next wait", function()
    local x, i = tide.arange(10, dev), tide.tensor({ 1, 2 }, { device = "cuda" })
    local y
    local g = capture(function() y = x:index_select(1, i) end)
    g:replay()
    D.eq({ 0, 1 }, y)
    i:fill_(77)
    g:replay()
    local e = D.raises("IndexError", cuda.synchronize)
    assert.matches("77", e.message)
    i:fill_(3)
    g:replay()
    D.eq({ 2, 2 }, y)
  end)

  it("begins with the device at rest and its caches empty", function()
    local s = cuda.Stream()
    tide.ones(5 << 20, dev):free()
    tide.ones(5 << 20, { pin_memory = true }):free()
    assert.is_true(cuda.host_memory_stats()["allocated_bytes.current"] >= 20 << 20)
    local reserved = cuda.memory_reserved()
    cuda.stream(s, function() cuda._sleep(20000000) end)
    cuda.graph(cuda.CUDAGraph(), function()
      assert.is_true(cuda.memory_reserved() <= reserved - (20 << 20))
      assert.is_true(cuda.host_memory_stats()["allocated_bytes.current"] < 20 << 20)
    end)
    assert.is_true(s:query())
  end)

  it("is captured by its own coroutine, whichever a finaliser ran before", function()
    local x, g = tide.zeros(1, { device = "cuda" }), cuda.CUDAGraph()
    setmetatable({}, { __gc = function() coroutine.wrap(cuda.current_device)() end })
    cuda.graph(g, function()
      assert.is_true(cuda.is_current_stream_capturing())
      x:add_(1)
    end)
    g:replay()
    g:replay()
    assert.are.equal(2, x:item())
  end)

  it("shows tensors without values while it is captured", function()
    local x, text = tide.ones(3, dev)
    local g = capture(function() text = tostring(x) end)
    assert.are.equal("tensor(..., device='cuda:0', size=(3,), dtype=tide.float32)", text)
    assert.is_truthy(tostring(x):find("1., 1., 1.", 1, true))
    assert.are.equal(1, #g:pools())
    assert.is_true(g:pools()[1] == g:pool())
    D.raises("StateError", function() return cuda.CUDAGraph():pools() end)
    D.raises("ArgumentError", function() g.pool = nil end)
  end)
end)

describe("the state of a graph", function()
  D.watch(before_each, after_each, settle)

  it("is checked by every method", function()
    local g = cuda.CUDAGraph()
    D.raises("StateError", g.replay, g)
    D.raises("StateError", g.pool, g)
    D.raises("StateError", g.capture_end, g)
    D.raises("StateError", g.instantiate, g)
    D.raises("StateError", g.debug_dump, g, "/tmp/x")
    g:reset() -- nothing to do
    cuda.graph(g, function() end)
    D.raises("StateError", cuda.graph, g, function() end)
    cuda.stream(cuda.Stream(), function() D.raises("StateError", g.capture_begin, g) end)
    local e = D.raises("StateError", cuda.CUDAGraph().capture_begin, cuda.CUDAGraph())
    assert.matches("default stream", e.message)
    D.raises("StateError", g.instantiate, g) -- it is ready
    D.raises("StateError", g.debug_dump, g, "/tmp/x") -- nothing was kept
    g:replay()
    g:reset()
    D.raises("StateError", g.replay, g)
    cuda.graph(g, function() end)
    g:replay()
  end)

  it("with keep_graph is ready after instantiate, or the first replay", function()
    local x = tide.zeros(4, dev)
    for _, how in ipairs { "instantiate", "replay", "twice" } do
      local g = cuda.CUDAGraph { keep_graph = true }
      cuda.graph(g, function() x:add_(1) end)
      if how ~= "replay" then g:instantiate() end
      g:replay()
      if how == "twice" then g:instantiate() end
      g:replay()
    end
    D.eq(6, x[1])
  end)

  it("refuses wrong arguments", function()
    local g = cuda.CUDAGraph()
    D.raises("ArgumentError", cuda.CUDAGraph, 5)
    D.raises("ArgumentError", cuda.CUDAGraph, { keep = true })
    D.raises("ArgumentError", cuda.CUDAGraph, { keep_graph = 1 })
    D.raises("ArgumentError", cuda.graph, 5, function() end)
    D.raises("ArgumentError", cuda.graph, g, 5)
    D.raises("ArgumentError", cuda.graph, g, { pol = 1 }, function() end)
    D.raises("ArgumentError", cuda.graph, g, { pool = 1 }, function() end)
    D.raises("ArgumentError", cuda.graph, g, { stream = 1 }, function() end)
    D.raises("ArgumentError", cuda.graph, g, { capture_error_mode = "loose" }, function() end)
    D.raises("ArgumentError", g.capture_begin, g, 5)
    D.raises("ArgumentError", g.capture_begin, g, { stream = cuda.Stream() })
    D.raises("ArgumentError", g.register_generator_state, g, 5)
    D.raises("DeviceError", g.register_generator_state, g, tide.Generator())
    D.raises("ArgumentError", g.debug_dump, g)
    D.raises("ArgumentError", g.output, g, 5)
    assert.matches("got nothing", D.raises("ArgumentError", g.pool).message)
    assert.is_false(cuda.is_current_stream_capturing())
  end)

  it("is found under both names", function()
    for _, name in ipairs { "CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables" } do
      assert.is_true(rawequal(cuda[name], cuda.graphs[name]), name)
      assert.is_string(tide.help("cuda." .. name))
    end
  end)

  it("is refused inside another one, which goes on", function()
    local g, x = cuda.CUDAGraph(), tide.zeros(3, dev)
    cuda.graph(g, function()
      x:add_(1)
      local e = D.raises("StateError", cuda.graph, cuda.CUDAGraph(), function() end)
      assert.matches("^graph: .*another graph", e.message)
      x:add_(1)
    end)
    g:replay()
    D.eq({ 2, 2, 2 }, x)
  end)

  it("of a stream that joined and is not waited for is an error of the end", function()
    local g, s, x = cuda.CUDAGraph(), cuda.Stream(), tide.zeros(10, dev)
    local e = D.raises("StateError", cuda.graph, g, function()
      s:wait_stream(cuda.current_stream())
      cuda.stream(s, function() x:add_(1) end)
    end)
    assert.matches("joined", e.message)
    assert.is_false(cuda.is_current_stream_capturing())
    cuda.stream(s, function() x:add_(1) end)
    s:synchronize()
    D.eq(1, x[1])
    cuda.graph(g, function() x:add_(1) end)
    g:replay()
    D.eq(2, x[1])
  end)
end)

describe("the memory of a graph", function()
  D.watch(before_each, after_each, settle)

  it("is held by the graph: inputs, outputs and what lies between", function()
    local g, out = cuda.CUDAGraph()
    do
      local x = tide.ones(4096, dev)
      cuda.graph(g, function()
        local t = x + 1
        out = (t * 3):clone()
      end)
    end
    settle()
    cuda.empty_cache()
    local junk = {}
    for i = 1, 20 do junk[i] = tide.full({ 4096 }, -1, dev) end
    g:replay()
    D.eq(6, out[1])
    D.eq(6, out[4096])
    for i = 1, 20 do D.eq(-1, junk[i][17]) end
    out = nil
    settle()
    cuda.empty_cache()
    g:replay() -- nobody can see what it writes, and nobody else has that memory
    for i = 1, 20 do D.eq(-1, junk[i][4000]) end
  end)

  it("serves again inside a capture", function()
    local x = tide.ones(1 << 20, dev) -- 4 MiB
    collectgarbage()
    cuda.empty_cache()
    local before = cuda.memory_reserved()
    local g = capture(function()
      local y = x
      for _ = 1, 50 do
        local z = y + 1
        if y ~= x then y:free() end
        y = z
      end
      x:copy_(y)
    end)
    assert.is_true(cuda.memory_reserved() - before <= 64 << 20, "temporaries of a capture do not share memory")
    g:replay()
    g:replay()
    D.eq(101, x[12345])
  end)

  it("goes back after reset, and not before the last replay is done", function()
    cuda.empty_cache()
    local reserved, g, x = cuda.memory_reserved(), cuda.CUDAGraph(), tide.zeros(10, dev)
    cuda.graph(g, function()
      local t = tide.ones(1 << 22, dev)
      cuda._sleep(1000000)
      x:add_(t[5])
    end)
    for _ = 1, 5 do g:replay() end
    g:reset()
    cuda.synchronize()
    D.eq(5, x[1])
    settle()
    cuda.empty_cache()
    x = nil
    settle()
    cuda.empty_cache()
    assert.is_true(cuda.memory_reserved() <= reserved, ("%d %d"):format(reserved, cuda.memory_reserved()))
  end)

  it("outlives a graph that is dropped while it runs", function()
    local x = tide.zeros(1000, dev)
    for _ = 1, 20 do
      do
        local g = capture(function()
          cuda._sleep(100000)
          x:add_(tide.ones(1000, dev))
        end)
        g:replay()
      end
      collectgarbage()
      local _ = tide.full({ 1000 }, 7, dev)
    end
    cuda.synchronize()
    D.eq(20, x[1000])
  end)

  it("is shared by graphs of one pool", function()
    local pool, x = cuda.graph_pool_handle(), tide.ones(1 << 20, dev)
    assert.is_true(pool == pool and pool ~= cuda.graph_pool_handle())
    assert.is_string(tostring(pool))
    collectgarbage()
    cuda.empty_cache()
    local a = capture(function() x:copy_((x + 1) * 2) end, { pool = pool })
    collectgarbage() -- the handles of its temporaries are gone: their memory serves the next capture
    local reserved = cuda.memory_reserved()
    local b = capture(function() x:copy_((x - 1) * 3) end, { pool = a:pool() })
    assert.is_true(a:pool() == pool and b:pool() == pool)
    assert.are.equal(reserved, cuda.memory_reserved())
    a:replay()
    b:replay()
    D.eq(9, x[1]) -- ((1 + 1) * 2 - 1) * 3
    a, pool = nil, nil
    settle()
    b:replay()
    D.eq(24, x[1])
  end)

  it("may come from a MemPool", function()
    local pool, x = cuda.MemPool(), tide.zeros(10, dev)
    local g = capture(function() x:add_(tide.ones(10, dev)) end, { pool = pool })
    g:replay()
    D.eq(1, x[10])
  end)

  it("serves nothing else of that pool while the graph lives", function()
    local pool, s, x, y = cuda.MemPool(), cuda.Stream(), tide.ones(1000, dev)
    local g = cuda.CUDAGraph()
    local function zeros()
      return cuda.stream(s, function()
        return cuda.use_mem_pool(pool, function() return tide.zeros(1000, dev) end)
      end)
    end
    settle()
    cuda.empty_cache()
    zeros():free()
    local reserved = cuda.memory_reserved()
    cuda.graph(g, { pool = pool, stream = s }, function()
      local t = x * 2
      y = t + 1
      t:free()
    end)
    assert.are.equal(reserved, cuda.memory_reserved()) -- what is free in the pool serves the capture
    local eager = zeros() -- not where t was
    cuda.stream(s, function() g:replay() end)
    cuda.synchronize()
    D.eq(0, eager[1000])
    D.eq(3, y[1000])
    eager = nil
    settle()
    cuda.empty_cache() -- of the eager tensor's memory
    assert.are.equal(reserved, cuda.memory_reserved())
    y, g = nil, g:reset()
    settle()
    eager = zeros()
    assert.are.equal(reserved, cuda.memory_reserved())
  end)

  it("has outputs that may outlive the graph", function()
    local y
    do
      local g = capture(function() y = tide.full({ 100 }, 5, dev) end)
      g:replay()
      g:reset()
    end
    settle()
    cuda.empty_cache()
    D.eq(5, y[100])
    D.eq(6, (y + 1)[1])
  end)

  it("that several streams of a capture used is not reused too early", function()
    local x, s, out = tide.ones(10000, dev), cuda.Stream(), {}
    local g = capture(function()
      local main = cuda.current_stream()
      for i = 1, 5 do
        local t = x * i
        s:wait_stream(main)
        cuda.stream(s, function()
          cuda._sleep(50000)
          out[i] = t + 1
        end)
        t:free()
        local _ = tide.full({ 10000 }, -100, dev) -- would take t's place
      end
      main:wait_stream(s)
    end)
    for _ = 1, 5 do
      g:replay()
      for i = 1, 5 do D.eq(i + 1, out[i][777]) end
    end
  end)
end)

describe("a debug mode of graphs", function()
  D.watch(before_each, after_each, settle)

  it("draws what was recorded for Graphviz", function()
    local x, s, path = tide.ones(10, dev), cuda.Stream(), os.tmpname()
    for _, how in ipairs { "debug", "keep" } do
      local g = cuda.CUDAGraph { keep_graph = how == "keep" }
      if how == "debug" then g:enable_debug_mode() end
      cuda.graph(g, function()
        s:wait_stream(cuda.current_stream())
        local a = cuda.stream(s, function() return x + 1 end)
        local b = x:exp()
        cuda.current_stream():wait_stream(s)
        x:copy_(a + b)
      end)
      g:debug_dump(path)
      local file = assert(io.open(path))
      local text = file:read "a"
      file:close()
      assert.matches("^digraph", text)
      assert.matches("%->", text)
      assert.is_truthy(select(2, text:gsub("{", "{")) == select(2, text:gsub("}", "}")))
      D.raises("FileError", g.debug_dump, g, "/nowhere/at/all.dot")
    end
    os.remove(path)
  end)

  it("finds reads of outputs that a later replay has overwritten", function()
    local x, y = tide.ones(10, dev)
    local g = cuda.CUDAGraph()
    g:enable_debug_mode()
    cuda.graph(g, function() y = x + 1 end)
    g:replay()
    local first = g:output(y)
    local view = first:view(2, 5)[1]
    D.eq(2, first[1])
    D.eq({ 2, 2, 2, 2, 2 }, view)
    local copy = first:clone()
    g:replay()
    for _, read in ipairs {
      function() return first[1]:item() end, function() return first:totable() end, function() return tostring(first) end,
      function() return view:totable() end, function() return first:cpu() end, function() return first:clone() end,
    } do
      local e = D.raises("StateError", read)
      assert.matches("gone", e.message)
    end
    local z, m = tide.ones(10, dev), first:view(2, 5)
    for _, read in ipairs {
      function() return first + z end, function() return z:mul_(first) end, function() return first:add_(1) end,
      function() return first:sum() end, function() return first:argmax() end, function() return m:matmul(m:t()) end,
      function() return first:dot(z) end, function() return tide.cat { z, first } end,
      function() return tide.stack { z, first } end, function() return first:tile(2) end,
      function() return first:flip { 1 } end, function() return z[first:gt(1)] end, function() return tide.equal(first, z) end,
      function() return tide.bernoulli(first) end, function() return tide.fft.fft(first) end,
      function() return z:copy_(first) end, function() z[{ { 1, 5 } }] = view end, function() return first:to "float64" end,
      function() return tide.zeros(10):copy_(first) end, function() return tide.zeros(10, { dtype = "int32" }):copy_(first) end,
      function() return first:tolist() end, function() return first:contiguous():sum() end, function() return first:sort() end,
      function() return first:cumsum(1) end, function() return tide.where(z:gt(0), first, z) end, function() return z:index_select(1, first:long()) end,
    } do
      assert.matches("gone", D.raises("StateError", read).message)
    end
    D.eq({ 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 }, z)
    first:view(2, 5):fill_(0) -- writing reads nothing
    g:replay()
    D.eq(2, copy[1])
    D.eq(2, y[1]) -- the captured handle is whatever is there
    D.eq(2, g:output(y)[1])
  end)

  it("is off unless it is asked for", function()
    local y
    local g = capture(function() y = tide.ones(3, dev) end)
    g:replay()
    local first = g:output(y)
    g:replay()
    D.eq({ 1, 1, 1 }, first)
    cuda.graphs.set_debug(true)
    local ok, e = pcall(function()
      local h = capture(function() y = tide.ones(3, dev) end)
      h:replay()
      first = h:output(y)
      h:replay()
      D.raises("StateError", first.totable, first)
    end)
    cuda.graphs.set_debug(false)
    assert(ok, e)
    D.raises("ArgumentError", cuda.graphs.set_debug, 5)
  end)
end)
