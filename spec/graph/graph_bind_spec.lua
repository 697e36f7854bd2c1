-- Graphs whose inputs are replaced: the tensors that a capture names are other ones in later replays.

local tide = require "tide"
local D = require "spec.support.device"
local graphs = require "spec.support.graph"
local cuda = tide.cuda
local dev = { device = "cuda" }

if not D.cuda then
  describe("bind without an accelerator", function()
    it("says that cpu has no graphs", function()
      local g = cuda.CUDAGraph()
      assert.error_matches(function() g:bind { x = tide.zeros(3) } end, "graph is empty")
      assert.error_matches(function() g:capture_begin { inputs = { x = tide.zeros(3) } } end, "graph")
    end)
  end)
  return
end

local capture, settle = graphs.capture, graphs.settle

-- A graph of y = fn(x), and what it writes.
local function graph_of(fn, x, opts)
  local y
  local g = capture(function() y = fn(x) end, opts or { inputs = { x = x } })
  return g, function() return y end
end

describe("graph:bind", function()
  D.watch(before_each, after_each, settle)

  it("replaces an input in every replay that follows, and back again", function()
    local x, t = tide.arange(1, 9, 1, { dtype = "float32", device = "cuda" }), tide.full({ 8 }, 5.0, { dtype = "float32", device = "cuda" })
    local g, y = graph_of(function(a) return a * 2 + 1 end, x)
    g:replay()
    D.eq(17, y()[8])
    for i = 1, 5 do
      g:bind { x = t }
      g:replay()
      D.eq(11, y()[8])
      t:fill_(5)
      g:bind { x = x }
      g:replay()
      D.eq(17, y()[8], "time " .. i)
    end
    x:fill_(0)
    g:replay()
    D.eq(1, y()[8])
  end)

  it("takes inputs by name and by place, all or some of them", function()
    local a, b = tide.full({ 4 }, 1.0, dev), tide.full({ 4 }, 2.0, dev)
    local y
    local g = capture(function() y = a * 10 + b end, { inputs = { a, b } })
    g:replay()
    D.eq(12, y[1])
    g:bind { tide.full({ 4 }, 3.0, dev), tide.full({ 4 }, 4.0, dev) }
    g:replay()
    D.eq(34, y[1])
    g:bind { [2] = tide.full({ 4 }, 9.0, dev) }
    g:replay()
    D.eq(39, y[1])
    g:bind {}
    g:replay()
    D.eq(39, y[1])
  end)

  it("replaces inputs of one operation together and one by one, named in any order", function()
    local function of(i) return tide.full({ 6 }, i + 0.0, dev) end
    local now, x, y, z = { a = 1, b = 2, c = 3 }, {}, nil, nil
    for name, i in pairs(now) do x[name] = of(i) end
    local g = capture(function()
      y = tide.cat { x.c, x.a, x.b, x.a }
      z = x.a * 10000 + x.c * 100 + x.b
    end, { inputs = x })
    for i = 1, 24 do
      local other = {}
      for k, name in ipairs { "c", "b", "a" } do
        if i % (k + 1) == 0 then
          now[name] = 3 * i + k
          other[name] = of(now[name])
        end
      end
      g:bind(other)
      g:replay()
      for k, name in ipairs { "c", "a", "b", "a" } do D.eq(now[name], y[6 * k], name .. " of time " .. i) end
      D.eq(now.a * 10000 + now.c * 100 + now.b, z[6], "time " .. i)
    end
  end)

  it("replaces what the graph writes", function()
    local x, out, other = tide.full({ 6 }, 3.0, dev), tide.zeros(6, dev), tide.zeros(6, dev)
    local g = capture(function()
      tide.mul(x, 2, { out = out })
      out:add_(1)
    end, { inputs = { x = x, out = out } })
    g:replay()
    g:bind { out = other }
    x:fill_(10)
    g:replay()
    D.eq(7, out[6])
    D.eq(21, other[6])
  end)

  it("follows views of an input, and inputs that are views", function()
    local big = tide.zeros(4, 100, dev)
    for i = 1, 4 do big[i] = i end
    local x = big[2]
    local y, z
    local g = capture(function()
      y = x:narrow(1, 51, 50):sum()
      z = x:view { 10, 10 }:t():contiguous()
    end, { inputs = { x = x } })
    g:replay()
    D.eq(100, y:item())
    for i = 4, 1, -1 do
      g:bind { x = big[i] }
      g:replay()
      D.eq(50 * i, y:item())
      D.eq(i, z[3][7])
    end
    local t = tide.arange(0, 100, 1, { dtype = "float32", device = "cuda" })
    g:bind { x = t }
    g:replay()
    D.eq((50 + 99) * 25, y:item())
    D.eq(62, z[3][7])
  end)

  it("replaces an input beside memory of the same storage that the work uses too, up to its first and last byte", function()
    for _, around in ipairs { { 1, 4 }, { 13, 16 }, { 1, 8 }, { 9, 16 }, { 5, 8 }, { 8, 9 }, { 12, 13 }, { 1, 9 }, { 12, 16 } } do
      local big = tide.arange(1, 17, 1, { dtype = "float32", device = "cuda" })
      local x, other, y, z = big:narrow(1, 9, 4), big:narrow(1, around[1], around[2] - around[1] + 1), nil, nil
      local is_beside = around[2] < 9 or around[1] > 12
      local g = capture(function() y, z = x * 2, other * 3 end, { inputs = { x = x } })
      g:replay()
      D.eq({ 18, 20, 22, 24 }, y)
      local ok, err = pcall(g.bind, g, { x = tide.full({ 4 }, 7, { dtype = "float32", device = "cuda" }) })
      local inside = around[1] >= 9 and around[2] <= 12
      assert.are.equal(is_beside or inside, ok, tostring(err))
      if ok then
        g:replay()
        D.eq({ 14, 14, 14, 14 }, y)
        assert.are.equal(3 * around[1], z[1]:item())
      else
        assert.matches("memory around it", tostring(err))
      end
    end
  end)

  it("keeps memory that the work uses beside an input, when nobody else has it any more", function()
    for _, around in ipairs { { 1, 4 }, { 13, 4 }, { 1, 8 } } do
      local y, z
      local function make()
        local big = tide.arange(1, 17, 1, { dtype = "float32", device = "cuda" })
        local x, other = big:narrow(1, 9, 4), big:narrow(1, around[1], around[2])
        local g = capture(function() y, z = x * 2, other * 3 end, { inputs = { x = x } })
        g:bind { x = tide.full({ 4 }, 7, { dtype = "float32", device = "cuda" }) }
        return g
      end
      local g = make()
      settle()
      local others = {} -- they would get its memory
      for i = 1, 8 do others[i] = tide.full({ 16 }, -1, { dtype = "float32", device = "cuda" }) end
      g:replay()
      D.eq({ 14, 14, 14, 14 }, y)
      D.eq(tide.arange(around[1], around[1] + around[2]):to("float32") * 3, z:cpu())
      for _, x in ipairs(others) do assert.are.equal(-1, x:max():item()) end
    end
  end)

  it("takes strided inputs, and addresses that are less aligned", function()
    local base = tide.arange(0, 200, 1, { dtype = "float32", device = "cuda" })
    local x, y = base:view { 10, 20 }:t(), nil
    local g = capture(function() y = x + 0.5 end, { inputs = { x = x } })
    local room = tide.zeros(401, dev)
    for offset = 0, 3 do
      local t = room:narrow(1, 1 + offset, 200)
      t:copy_(base):mul_(2)
      g:bind { x = t:view { 10, 20 }:t() }
      g:replay()
      D.eq(2 * 43 + 0.5, y[4][3], "offset " .. offset)
    end
    assert.error_matches(function() g:bind { x = tide.zeros(20, 10, dev) } end, "'x' has other strides")
  end)

  it("goes to and fro between addresses that are aligned otherwise", function()
    local room = tide.zeros(4000, dev)
    local function of(value, offset) return room:narrow(1, 1 + 64 * value + offset, 8):fill_(value) end
    local a, b, y, z = tide.ones(8, dev), tide.ones(8, dev) * 2, nil, nil
    local g = capture(function()
      y = a * 100 + b
      z = b + 0.5
    end, { inputs = { a = a, b = b } })
    local value = 2 -- of b, which is first of all the tensor of the capture, so that its places are learnt late
    for i = 0, 40 do
      local other, case = { a = of(i, i % 3 // 2) }, i // 3 % 4
      if i % 5 < 4 then
        value = case % 2 == 0 and 2 or 62 - i
        other.b = case % 2 == 0 and b or of(value, (3 - case) // 2)
      end
      g:bind(other)
      g:replay()
      D.eq(i * 100 + value, y[8], "time " .. i)
      D.eq(value + 0.5, z[1], "time " .. i)
    end
  end)

  -- Each kind of kernel, and those that take scratch memory, several kernels or a plan.
  local works = {
    add = function(a) return a + 1 end,
    sum = function(a) return a:sum() end,
    mean_of_dim = function(a) return a:mean(2) end,
    matmul = function(a) return a:matmul(a:t()) end,
    sort = function(a) return (a:sort(2)) end,
    cumsum = function(a) return a:cumsum(1) end,
    softmax = function(a) return a:softmax(2) end,
    argmax = function(a) return a:argmax(2):to "float32" end,
    index = function(a) return a:index_select(1, tide.tensor({ 3, 1, 2 }, { dtype = "int64", device = "cuda" })) end,
    double = function(a) return a:to "float64" end,
    cat = function(a) return tide.cat({ a, a }, 1) end,
    flip = function(a) return a:flip(1) end,
    pad = function(a) return tide.pad(a, { 1, 1 }) end,
    fft = function(a) return tide.fft.rfft(a):abs() end,
    fft2 = function(a) return tide.fft.fft2(a):abs() end,
    logsumexp = function(a) return a:logsumexp(2) end,
    roll = function(a) return a:roll(1, 1) end,
    conv = function(a) return tide.conv2d(a:view(1, 1, 32, 33), a:view(1, 1, 32, 33):narrow(3, 1, 3):narrow(4, 1, 3)) end,
    product = function(a) return tide.cat({ a, a, a, a, a, a, a, a }, 1):matmul(a:t()) end,
    scatter = function(a) return tide.zeros(32, 33, dev):scatter_add(1, (a * 0):to "int64" + 1, a) end,
    where = function(a) return tide.where(a:gt(0), a, a * 2) end,
  }
  for name, work in pairs(works) do
    it("replaces the input of " .. name, function()
      local index = work
      if name == "index" then -- its places are made before the capture
        local at = tide.tensor({ 3, 1, 2 }, { dtype = "int64", device = "cuda" })
        index = function(a) return a:index_select(1, at) end
      end
      local function sample(k)
        local i = tide.arange(0, 32 * 33, 1, { dtype = "float32", device = "cuda" })
        return ((i * k) % 17 - 8):view { 32, 33 }:contiguous()
      end
      local x = sample(3)
      index(x) -- compiled and planned before
      local g, y = graph_of(index, x)
      for _, k in ipairs { 5, 7, 3, 11 } do
        local t = sample(k)
        local expected = index(t)
        g:bind { x = t }
        g:replay()
        assert.is_true(tide.allclose(expected, y()), "with " .. k)
      end
    end)
  end

  it("replaces what kernels of text and fused functions use", function()
    if not D.compiler then return pending "needs a compiler" end
    local scale = tide.fuse(function(a, b) return tide.exp(a) * 2 + b end)
    local x, b = tide.full({ 100 }, 0.0, dev), tide.full({ 100 }, 1.0, dev)
    scale(x, b)
    local y
    local g = capture(function() y = scale(x, b) end, { inputs = { x = x, b = b } })
    g:bind { b = tide.full({ 100 }, 40.0, dev) }
    g:replay()
    D.eq(42, y[100])
    g:bind { x = b, b = b }
    g:replay()
    D.eq(math.exp(1) * 2 + 1, y[100], 1e-6)
  end)

  it("replaces what copies to and from page-locked memory use", function()
    local h, k = tide.full({ 64 }, 3.0, { dtype = "float32", pin_memory = true }), tide.full({ 64 }, 4.0, { dtype = "float32", pin_memory = true })
    local out, other = tide.zeros({ 64 }, { pin_memory = true }), tide.zeros({ 64 }, { pin_memory = true })
    local x = tide.zeros(64, dev)
    local g = capture(function()
      x:copy_(h, { non_blocking = true })
      x:mul_(2)
      out:copy_(x, { non_blocking = true })
    end, { inputs = { h = h, out = out } })
    g:replay()
    cuda.synchronize()
    D.eq(6, out[64])
    g:bind { h = k, out = other }
    g:replay()
    cuda.synchronize()
    D.eq(8, other[64])
    D.eq(6, out[64])
    assert.error_matches(function() g:bind { h = tide.zeros(64) } end, "'h' lies elsewhere.*page%-locked")
  end)

  it("leaves replays that are queued already what they had", function()
    local s = cuda.Stream()
    local x, out = tide.full({ 1000 }, 1.0, dev), tide.zeros(1000, dev)
    local g = capture(function() out:add_(x) end, { inputs = { x = x } })
    cuda.synchronize()
    cuda.stream(s, function()
      cuda._sleep(2000000)
      g:replay()
      local kept = tide.full({ 1000 }, 10.0, dev)
      g:bind { x = kept }
      g:replay()
      g:bind { x = tide.full({ 1000 }, 100.0, dev) }
      kept = nil
      collectgarbage()
      g:replay()
    end)
    s:synchronize()
    D.eq(111, out[1000])
  end)

  it("keeps what it is bound to, and lets go of what it was", function()
    local g, y = graph_of(function(a) return a + 1 end, tide.full({ 1000 }, 1.0, dev))
    collectgarbage()
    collectgarbage()
    g:replay()
    D.eq(2, y()[1])
    local before = cuda.memory_allocated()
    for i = 1, 20 do
      g:bind { x = tide.full({ 1000 }, i + 0.0, dev) }
      g:replay()
      collectgarbage()
    end
    D.eq(21, y()[1000])
    cuda.synchronize()
    collectgarbage()
    assert.is_true(cuda.memory_allocated() <= before + 4096)
  end)

  it("does not replay on an input that was freed by name", function()
    local x = tide.full({ 10 }, 1.0, dev)
    local g, y = graph_of(function(a) return a + 1 end, x)
    g:replay()
    x:free()
    assert.error_matches(function() g:replay() end, "input 'x' was freed")
    assert.error_matches(function() g:replay() end, "input 'x' was freed")
    local t = tide.full({ 10 }, 2.0, dev)
    g:bind { x = t }
    g:replay()
    D.eq(3, y()[10])
    local view = t:narrow(1, 1, 5)
    t:free()
    g:replay() -- a view of it is there
    view:free()
    assert.error_matches(function() g:replay() end, "input 'x' was freed")
    tide.scope(function()
      g:bind { x = tide.full({ 10 }, 7.0, dev) }
      g:replay()
    end)
    assert.error_matches(function() g:replay() end, "input 'x' was freed")
    local larger = tide.full({ 10 }, 1.0, dev)
    g:bind { x = larger }
    larger:resize_(5000)
    assert.error_matches(function() g:replay() end, "input 'x' was freed")
    g:bind { x = tide.full({ 10 }, 7.0, dev) }
    g:replay()
    D.eq(8, y()[10])
  end)

  it("refuses what does not fit, by its name, and changes nothing", function()
    local x, w = tide.full({ 4, 4 }, 1.0, { dtype = "float32", device = "cuda" }), tide.full({ 4, 4 }, 5.0, { dtype = "float32", device = "cuda" })
    local y, own
    local g = capture(function()
      own = tide.zeros(4, 4, dev)
      y = x + w
      w:add_(0)
    end, { inputs = { x = x } })
    local good = tide.full({ 4, 4 }, 3.0, { dtype = "float32", device = "cuda" })
    g:bind { x = good }
    local bad = {
      { { x = tide.zeros(4, 4, { dtype = "float64", device = "cuda" }) }, "'x' has another dtype, got .*float64" },
      { { x = tide.zeros(4, 5, dev) }, "x" },
      { { x = tide.zeros(16, dev) }, "x" },
      { { x = tide.zeros(4, 4) }, "'x' lies elsewhere, got cpu, expected cuda:0" },
      { { x = tide.zeros(4, 4, dev):t() }, "'x' has other strides" },
      { { x = own }, "'x' is memory of the graph's own" },
      { { x = y }, "'x' is memory of the graph's own" },
      { { x = w }, "'x' shares memory with what the graph uses otherwise" },
      { { x = 3 }, "x" },
      { { z = good }, "no input 'z'" },
      { { x = tide.zeros(4, 4, dev), z = good }, "no input 'z'" },
      { { [1.5] = good }, "bad key" },
      { { good }, "no input '1'" },
    }
    for i, case in ipairs(bad) do
      assert.error_matches(function() g:bind(case[1]) end, case[2])
      g:replay()
      D.eq(8, y[4][4], "after case " .. i)
    end
    assert.error_matches(function() g:bind() end, "inputs")
    assert.error_matches(function() g:bind(good) end, "inputs")
    local plain = capture(function() y = x + 1 end)
    assert.error_matches(function() plain:bind { x = good } end, "has no inputs")
    assert.error_matches(function() cuda.CUDAGraph():bind { x = good } end, "empty")
  end)

  it("refuses inputs that would share what the graph writes", function()
    local a, b = tide.full({ 8 }, 1.0, dev), tide.full({ 8 }, 2.0, dev)
    local g = capture(function() b:add_(a) end, { inputs = { a = a, b = b } })
    local both = tide.full({ 12 }, 3.0, dev)
    assert.error_matches(function() g:bind { a = both:narrow(1, 1, 8), b = both:narrow(1, 5, 8) } end, "shares memory")
    assert.error_matches(function() g:bind { a = b } end, "'a' shares memory with 'b'")
    assert.error_matches(function() g:bind { b = a } end, "'b' shares memory with 'a'")
    assert.error_matches(function() g:bind { a = both:narrow(1, 1, 8), b = both:narrow(1, 1, 8) } end, "shares memory")
    g:bind { a = b, b = a } -- exchanged
    g:replay()
    D.eq(3, a[8])
    D.eq(2, b[8])
    local y
    local reads = capture(function() y = a + b end, { inputs = { a = a, b = b } })
    reads:bind { a = b }
    reads:replay()
    D.eq(4, y[1])
  end)

  it("refuses names and inputs that are none", function()
    local x = tide.zeros(8, dev)
    local function bad(inputs, text, fn)
      local g = cuda.CUDAGraph()
      assert.error_matches(function() cuda.graph(g, { inputs = inputs }, fn or function() x:add_(1) end) end, text)
      assert.is_false(cuda.is_current_stream_capturing())
      assert.error_matches(function() g:replay() end, "empty")
    end
    bad({ x = tide.zeros(3) }, "'x' is on cpu")
    bad({ x = 4 }, "x")
    bad({ [""] = x }, "bad name")
    bad({ [("n"):rep(64)] = x }, "bad name")
    bad({ x = x, y = x:narrow(1, 3, 2) }, "shares memory")
    bad(7, "inputs")
    local most = {}
    for i = 1, 65 do most["x" .. i] = tide.zeros(1, dev) end
    bad(most, "too many inputs, got more than 64")
    x:add_(1)
    D.eq(1, x[1])
  end)

  it("says which operation keeps an input: the first of several", function()
    local big = tide.zeros(4, 8, dev)
    local x, y, line = big[2], nil, nil
    local g = capture(function()
      y, line = big:sum() + x, debug.getinfo(1, "l").currentline
      big:add_(1)
      big:mul_(0)
    end, { inputs = { x = x } })
    g:replay()
    assert.error_matches(function() g:bind { x = tide.zeros(8, dev) } end, "'x' cannot be replaced: .*graph_bind_spec.lua:" .. line .. "$")
    g:replay()
    D.eq(0, y[1])
  end)

  -- A graph on two devices whose result lies on the second one: all[1] is made of x there.
  local function on_two_devices(make)
    local x, all = tide.full({ 8 }, 1.0, dev), nil
    local side = cuda.Stream { device = "cuda:1" }
    local g = capture(function()
      side:wait_stream(cuda.current_stream())
      cuda.stream(side, function() all = make(x) end)
      cuda.current_stream():wait_stream(side)
    end, { inputs = { x = x } })
    g:replay()
    local ok, err = pcall(g.bind, g, { x = tide.full({ 8 }, 6.0, dev) })
    g:replay()
    cuda.synchronize_all()
    return ok, tostring(err), all[8]
  end

  it("says so of a collective, too", function()
    if D.devices < 2 then return pending "needs two devices" end
    if not cuda.can_device_access_peer(1, 0) then return pending "needs peer access" end
    local ok, err, value = on_two_devices(function(x) return cuda.comm.broadcast(x, { "cuda:0", "cuda:1" })[2] end)
    assert.is_false(ok)
    assert.matches("'x' cannot be replaced", err)
    D.eq(1, value)
  end)

  it("replaces what a copy to another device reads", function()
    if D.devices < 2 then return pending "needs two devices" end
    local ok, err, value = on_two_devices(function(x) return x:to("cuda:1", { non_blocking = true }) end)
    assert.is_true(ok, err)
    D.eq(6, value)
  end)

  it("is refused while a graph is captured", function()
    local x = tide.zeros(8, dev)
    local g = graph_of(function(a) return a + 1 end, x)
    assert.error_matches(function()
      capture(function() g:bind { x = tide.zeros(8, dev) } end)
    end, "not allowed while a graph is captured")
    g:replay()
  end)

  it("lasts when a graph that keeps what it recorded is made ready again", function()
    local x, t = tide.full({ 4 }, 1.0, dev), tide.full({ 4 }, 6.0, dev)
    local g = cuda.CUDAGraph { keep_graph = true }
    local y
    cuda.graph(g, { inputs = { x = x } }, function() y = x * 2 end)
    g:bind { x = t }
    g:replay()
    D.eq(12, y[1])
    g:instantiate()
    g:replay()
    D.eq(12, y[4])
    g:bind { x = x }
    g:replay()
    D.eq(2, y[4])
  end)

  it("has each input as it was bound last, whenever it is made ready again", function()
    local x, y, s = tide.full({ 50 }, 2.0, dev), tide.full({ 50 }, 3.0, dev), cuda.Stream()
    local g, copied, product, sum = cuda.CUDAGraph { keep_graph = true }, tide.zeros(50, dev), nil, nil
    cuda.graph(g, { inputs = { x = x, y = y } }, function()
      local main = cuda.current_stream()
      s:wait_stream(main)
      cuda.stream(s, function() product = x * y end)
      copied:copy_(y)
      sum = (x + 1):cumsum(1)
      main:wait_stream(s)
    end)
    local now = { x = x, y = y }
    local function check()
      g:replay()
      cuda.synchronize()
      local a, b = now.x[1]:item(), now.y[1]:item()
      assert.same({ b, a * b, 50 * (a + 1) }, { copied[50]:item(), product[50]:item(), sum[50]:item() })
    end
    check()
    for k, name in ipairs { "x", "y", "y", "x" } do
      now[name] = tide.full({ 50 }, 10.0 + k, dev)
      g:bind { [name] = now[name] }
      if k ~= 3 then check() end -- or before it has ever been replayed so
      for _ = 1, 2 do
        g:instantiate()
        check()
      end
    end
    now = { x = x, y = y }
    g:bind(now)
    g:instantiate()
    check()
  end)

  it("binds in a graph of several streams", function()
    local x, y, z = tide.full({ 50 }, 2.0, dev), nil, nil
    local s = cuda.Stream()
    local g = capture(function()
      local main = cuda.current_stream()
      s:wait_stream(main)
      cuda.stream(s, function() z = x * 3 end)
      y = x * x
      main:wait_stream(s)
    end, { inputs = { x = x } })
    g:bind { x = tide.full({ 50 }, 4.0, dev) }
    g:replay()
    D.eq(16, y[50])
    D.eq(12, z[50])
  end)

  it("tells the allocator and the sanitizer of the new tensor", function()
    local s, other = cuda.Stream(), cuda.Stream()
    local x, t = tide.full({ 1000 }, 1.0, dev), tide.full({ 1000 }, 2.0, dev)
    local was = cuda.sanitizer.is_enabled()
    cuda.sanitizer.enable { action = "error" }
    local g = graph_of(function(a) return a + 1 end, x)
    local function write(target)
      return pcall(cuda.stream, other, function() target:fill_(7) end)
    end
    cuda.synchronize()
    g:bind { x = t }
    cuda.stream(s, function() g:replay() end)
    local old, new = write(x), write(t)
    cuda.synchronize()
    g:bind { x = x }
    cuda.stream(s, function() g:replay() end)
    local back, gone = write(x), write(t)
    cuda.synchronize()
    if not was then cuda.sanitizer.disable() end
    assert.same({ true, false, false, true }, { old, new, back, gone })
  end)

  it("tells the sanitizer which bytes of its storage the new tensor has", function()
    local s, other = cuda.Stream(), cuda.Stream()
    local was = cuda.sanitizer.is_enabled()
    for _, fn in ipairs { function(a) return a + 1 end, function(a) return a:mul_(2) end } do
      local a, b = tide.zeros({ 3000 }, dev), tide.zeros({ 3000 }, dev)
      local function part(of, k) return of:narrow(1, 1000 * k - 999, 1000) end
      cuda.synchronize()
      cuda.sanitizer.enable { action = "error" }
      local g = graph_of(fn, part(a, 2))
      for _, to in ipairs { { a, 2 }, { a, 3 }, { b, 3 }, { b, 1 }, { a, 1 }, { b, 2 } } do
        g:bind { x = part(to[1], to[2]) }
        for k = 1, 3 do
          cuda.synchronize()
          cuda.stream(s, function() g:replay() end)
          local ok = pcall(cuda.stream, other, function() part(to[1], k):fill_(7) end)
          assert.are.equal(k ~= to[2], ok, ("part %d, bound to part %d"):format(k, to[2]))
        end
      end
      cuda.synchronize()
      if not was then cuda.sanitizer.disable() end
    end
  end)

  it("ends with an empty table after a reset", function()
    local x = tide.full({ 4 }, 1.0, dev)
    local g = graph_of(function(a) return a + 1 end, x)
    g:bind { x = tide.full({ 4 }, 2.0, dev) }
    g:reset()
    assert.error_matches(function() g:bind { x = x } end, "empty")
    local y
    cuda.graph(g, { inputs = { z = x } }, function() y = x + 2 end)
    g:bind { z = tide.full({ 4 }, 5.0, dev) }
    g:replay()
    D.eq(7, y[1])
  end)
end)
