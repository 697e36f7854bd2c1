-- Collectives in graphs, with outputs that share streams or memory, without access between devices, and when a device
-- does not come.

local tide = require "tide"
local D = require "spec.support.device"
if not D.cuda then return end
local cuda, comm = tide.cuda, tide.cuda.comm

local n = math.min(D.devices, 3)
local devices, last = {}, n - 1
for d = 0, n - 1 do devices[d + 1] = d end
local function on(d) return { device = "cuda:" .. d } end
-- A program whose wait for a peer does not end fails here, not at the suite's limit.
local function simulate(count, source, env) return D.simulate(count, source, env, D.tsan and 600 or 120) end

describe("collectives in a graph", function()
  D.watch(before_each, after_each, function() collectgarbage() end)

  it("are captured and replayed", function()
    local x, s, g = tide.zeros(6 * n, on(0)), cuda.Stream(0), cuda.CUDAGraph()
    comm.reduce_add(comm.broadcast(x, devices)) -- opens the ways between the devices
    comm.gather(comm.scatter(x, devices))
    local sum, joined, lists
    s:wait_stream(cuda.current_stream(0))
    cuda.stream(s, function()
      cuda.graph(g, { stream = s }, function()
        local y = x * 2
        local r = comm.broadcast(y, devices)
        for d = 2, n do r[d]:add_(1) end
        sum = comm.reduce_add(r, 0)
        joined = comm.gather(comm.scatter(y, devices), { destination = 0 })
        lists = comm.reduce_add_coalesced(comm.broadcast_coalesced({ y, y }, devices), 0)
      end)
    end)
    for i = 1, 3 do
      x:fill_(i)
      cuda.current_stream(0):synchronize()
      g:replay()
      cuda.synchronize_all()
      D.eq(2 * i * n + (n - 1), sum[6 * n])
      D.eq(2 * i, joined[6 * n])
      D.eq(2 * i * n, lists[2][1])
    end
    g:reset()
  end)

  it("refuse what makes the host wait", function()
    local x, g = tide.ones(4, on(0)), cuda.CUDAGraph()
    D.raises("StateError", cuda.graph, g, function() comm.gather({ x }, { destination = "cpu" }) end)
    cuda.synchronize_all()
  end)
end)

describe("outputs of collectives", function()
  D.watch(before_each, after_each)

  it("come after and before the current stream of their own device, whatever the stream of the copy", function()
    local s, late = cuda.Stream(0), D.simulated and 5000000 or 20000000
    for _ = 1, 5 do
      local x, out, rest = tide.zeros(4, on(0)), tide.zeros(2, on(0)), tide.zeros(2, on(last))
      cuda.synchronize_all()
      cuda._sleep(late)
      x:fill_(7)
      comm.scatter(x, nil, { out = { out, rest }, streams = { s, false } })
      local copy = out + 0
      D.eq({ 7, 7 }, copy)
      D.eq({ 7, 7 }, rest)
      cuda.stream(s, function() cuda._sleep(late) end)
      comm.scatter(x, nil, { out = { out, rest }, streams = { s, false } })
      x:zero_()
      s:synchronize()
      D.eq({ 7, 7 }, out)
    end
  end)

  it("may be views of the inputs, which are read before they are written", function()
    local function w() return tide.arange(4, { device = "cuda:0", dtype = "float32" }) end
    local x, p = w(), tide.zeros(2, on(last))
    comm.gather({ x:narrow(1, 3, 2), x:narrow(1, 1, 2) }, { out = x })
    D.eq({ 2, 3, 0, 1 }, x)
    comm.gather({ x:narrow(1, 1, 2), x:narrow(1, 3, 2) }, { out = x })
    D.eq({ 2, 3, 0, 1 }, x)
    x = w()
    comm.scatter(x, nil, { out = { x:narrow(1, 3, 2), p } })
    D.eq({ 2, 3 }, p)
    D.eq({ 0, 1, 0, 1 }, x)
    x = w()
    comm.scatter(x, nil, { out = { x:narrow(1, 2, 2), p } })
    D.eq({ 2, 3 }, p)
    D.eq({ 0, 0, 1, 3 }, x)
    x, p = w(), tide.zeros(3, on(last))
    comm.broadcast(x:narrow(1, 1, 3), nil, { out = { x:narrow(1, 2, 3), p } })
    D.eq({ 0, 1, 2 }, p)
    D.eq({ 0, 0, 1, 2 }, x)
    comm.broadcast(x, nil, { out = { x, tide.zeros(4, on(last)) } })
    D.eq({ 0, 0, 1, 2 }, x)
    x = w():view(2, 2)
    comm.scatter(x, nil, { out = { x:narrow(2, 2, 1), x:narrow(2, 1, 1) }, dim = 2 })
    D.eq({ { 1, 0 }, { 3, 2 } }, x)
  end)

  it("lie apart from each other", function()
    local x, out = tide.ones(4, on(0)), tide.zeros(3, on(last))
    for _, outs in ipairs { { out:narrow(1, 1, 2), out:narrow(1, 2, 2) }, { out:narrow(1, 1, 2), out:narrow(1, 1, 2) } } do
      local e = D.raises("ValueError", comm.scatter, x, nil, { out = outs })
      assert.is_truthy(e.message:find("out 2 shares memory with out 1", 1, true), e.message)
      D.raises("ValueError", comm.broadcast, x:narrow(1, 1, 2), nil, { out = outs })
    end
    D.eq({ 0, 0, 0 }, out)
  end)
end)

describe("collectives between devices that do not see each other's memory", function()
  it("take the general way", function()
    if not D.simulated then return pending "needs simulated devices" end
    simulate(3, [[
      local tide = require "tide"
      local comm = tide.cuda.comm
      local x = tide.arange(24, { device = "cuda:0" }):view(4, 6)
      local function same(a, b) assert(tide.equal(a:cpu(), b:cpu())) end
      for _, y in ipairs { x, x:t(), x:slice(2, 1, 6, 2) } do
        local r = comm.broadcast(y, { 0, 1, 2 })
        for i = 1, 3 do same(r[i], y) end
        same(comm.reduce_add(r, 1), y * 3)
        for dim = 1, 2 do same(comm.gather(comm.scatter(y, { 0, 1, 2 }, { dim = dim }), { dim = dim, destination = 2 }), y) end
        local lists = comm.broadcast_coalesced({ y, x, y }, { 0, 1, 2 })
        for i, sum in ipairs(comm.reduce_add_coalesced(lists, 2)) do same(sum, lists[1][i] * 3) end
      end]], { TIDE_SIM_FAULT = "peer:off" })
  end)
end)

describe("comm.broadcast of much to several devices", function()
  D.watch(before_each, after_each)

  it("has the same values over the ring of a collective library", function()
    if n < 3 then return pending "needs three devices" end
    local x = tide.arange(1 << 20, { device = "cuda:0", dtype = "int64" }):view(1024, 1024)
    for _, y in ipairs { x, x:t() } do
      for _ = 1, D.tsan and 1 or 3 do
        x:add_(1)
        local r = comm.broadcast(y, { 1, 2, 0 })
        local far = comm.broadcast(y, { 1, 2 }) -- the source takes part unlisted
        local want = y:cpu()
        y:zero_()
        for i = 1, 2 do
          assert.is_true(tide.equal(want, r[i]:cpu()))
          assert.is_true(tide.equal(want, far[i]:cpu()))
        end
        assert.is_true(rawequal(y, r[3]))
        y:copy_(want)
      end
    end
    if D.simulated then
      D.in_time(0.2, function(limit)
        local out = simulate(3, ([[
          local tide = require "tide"
          tide.cuda.comm.set_timeout(%g)
          local x = tide.zeros(1 << 20, { device = "cuda:0" })
          local r = tide.cuda.comm.broadcast(x, { 2, 1 })
          local ok, e = pcall(tide.cuda.synchronize, 0)
          print(e.message:match "^(.-) of ")]]):format(limit), { TIDE_SIM_FAULT = "dead:1" })
        assert.are.equal("comm.broadcast: rank 2 (cuda:1) has not come to operation 1\n", out)
      end)
    end
  end)
end)

describe("a peer that does not come", function()
  local least = D.tsan and 0.6 or 0.3
  -- Runs `what` with device 1 as the fault says; prints the error of the wait that follows.
  local function run(limit, what, fault, wait)
    return simulate(3, ([[
      local tide = require "tide"
      local cuda, comm = tide.cuda, tide.cuda.comm
      local list = {}
      for d = 0, 2 do list[d + 1] = tide.ones(1000, { device = "cuda:" .. d }) end
      comm.set_timeout(%g)
      assert(comm.get_timeout() == %g)
      local devices = { 0, 1, 2 }
      local result = %s
      for _ = 1, 2 do -- and it stays so
        local ok, e = pcall(%s)
        assert(not ok, "no error was told")
        print(e.kind, e.name, e.device, e.sticky, e.message)
      end]]):format(limit, limit, what, wait or "cuda.synchronize, 0"), { TIDE_SIM_FAULT = fault })
  end

  local cases = {
    { "comm.broadcast(list[1], devices)", "comm.broadcast: rank 2 (cuda:1) has not finished operation 1 of " },
    { "comm.broadcast(list[2], devices)", "comm.broadcast: the source (cuda:1) has not come to operation 1 of " },
    { "comm.scatter(list[1], devices)", "comm.scatter: rank 2 (cuda:1) has not finished operation 1 of " },
    { "comm.gather(list)", "comm.gather: rank 2 (cuda:1) has not finished operation 1 of " },
    { "comm.gather(list, { destination = 1 })", "comm.gather: the destination (cuda:1) has not come to operation 1 of " },
    { "comm.reduce_add(list)", "comm.reduce_add: rank 2 (cuda:1) has not come to operation 1 of " },
    { "comm.reduce_add(list, 1)", "comm.reduce_add: the destination (cuda:1) has not finished operation 1 of " },
    { "comm.broadcast_coalesced({ list[1] }, devices)", "comm.broadcast_coalesced: rank 2 (cuda:1) has not finished operation 1 of " },
    { "comm.reduce_add_coalesced { { list[1] }, { list[2] } }",
      "comm.reduce_add_coalesced: rank 2 (cuda:1) has not come to operation 1 of " },
  }
  for _, case in ipairs(cases) do
    it("ends the waits of the others: " .. case[1], function()
      if not D.simulated then return pending "needs simulated devices" end
      D.in_time(least, function(limit)
        local out = run(limit, case[1], "dead:1")
        for line in out:gmatch "[^\n]+" do
          local head, message = line:match "^(.-\t.-\t.-\t.-)\t(.*)$"
          assert.are.equal("AcceleratorError\tcommTimeout\tcuda:1\tfalse", head)
          assert.are.equal(case[2], message:sub(1, #case[2]))
          assert.is_truthy(message:find(("expected at most %g s"):format(limit), 1, true), message)
          assert.is_truthy(message:find(":8, got", 1, true), message) -- the line that queued it
        end
      end)
    end)
  end

  it("ends reads, gathers to the cpu and questions too", function()
    if not D.simulated then return pending "needs simulated devices" end
    for _, way in ipairs {
      { "comm.reduce_add(list)", "result.item, result[1]" },
      { "nil", [[comm.gather, list, { destination = "cpu" }]] },
      { "comm.broadcast(list[1], devices)", [[function()
        local s = cuda.current_stream(0)
        repeat until s:query()
      end]] } } do
      D.in_time(least, function(limit)
        assert.is_truthy(run(limit, way[1], "dead:1", way[2]):find("rank 2 (cuda:1)", 1, true), way[1])
      end)
    end
  end)

  it("may be slow: then the operation is done in the end", function()
    if not D.simulated then return pending "needs simulated devices" end
    local out = simulate(2, [[
      local tide = require "tide"
      local cuda, comm = tide.cuda, tide.cuda.comm
      local x = tide.ones(1000, { device = "cuda:0" })
      local D = require "spec.support.device"
      cuda.synchronize(0)
      cuda.device(1, D.hold)
      comm.set_timeout(0.1)
      local r = comm.broadcast(x, { 0, 1 })
      local ok, e = pcall(cuda.synchronize, 1)
      print(ok, e.message:match "^(.-) of ")
      comm.set_timeout(0)
      D.release()
      while not pcall(cuda.synchronize, 1) do end
      print(r[2]:sum():item())
      cuda.synchronize(0)]], { TIDE_DEVICE = "cuda" })
    assert.are.equal("false\tcomm.broadcast: rank 2 (cuda:1) has not finished operation 1\n1000.0\n", out)
  end)

  it("is no matter to devices that take no part", function()
    if not D.simulated then return pending "needs simulated devices" end
    simulate(3, [[
      local tide = require "tide"
      local cuda, comm = tide.cuda, tide.cuda.comm
      local x = tide.ones(1000, { device = "cuda:0" })
      comm.set_timeout(0.05)
      local r = comm.broadcast(x, { 0, 1 })
      assert(not pcall(cuda.synchronize, 0))
      local y = tide.ones(1000, { device = "cuda:2" })
      assert(y:sum():item() == 1000)
      cuda.synchronize(2)]], { TIDE_SIM_FAULT = "dead:1" })
  end)

  it("has ten minutes if nothing is said", function()
    assert.are.equal(600, comm.get_timeout())
    D.raises("ValueError", comm.set_timeout, -1)
    D.raises("ValueError", comm.set_timeout, 0 / 0)
    D.raises("ArgumentError", comm.set_timeout, "1")
  end)
end)
