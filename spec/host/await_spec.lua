-- tide.await: a coroutine that waits for a device while whoever resumes it goes on.

local tide = require "tide"
local D = require "spec.support.device"

-- Resumes until the coroutine ends: how often it yielded, and what it returned.
local function drive(fn)
  local co, yields = coroutine.create(fn), 0
  while true do
    local out = table.pack(coroutine.resume(co))
    assert(out[1], out[2])
    if coroutine.status(co) == "dead" then return yields, table.unpack(out, 2, out.n) end
    assert.are.equal(1, out.n) -- it yields nothing
    yields = yields + 1
  end
end

describe("await", function()
  D.watch(before_each, after_each)

  it("gives what item and totable give", function()
    local x = D.tensor { { 1, 2 }, { 3, 4.5 } }
    local _, value = drive(function() return tide.await(x:sum()) end)
    assert.are.equal(10.5, value)
    local _, rows = drive(function() return tide.await(x) end)
    assert.are.same({ { 1, 2 }, { 3, 4.5 } }, rows)
    local _, turned = drive(function() return tide.await(x:t()) end)
    assert.are.same({ { 1, 3 }, { 2, 4.5 } }, turned)
    local _, truth = drive(function() return tide.await(x:gt(100):any()) end)
    assert.is_false(truth)
    local _, none = drive(function() return tide.await(x:narrow(1, 1, 0)) end)
    assert.are.same({}, none)
    assert.are.equal(10.5, tide.await(x:sum())) -- not in a coroutine of ours: busted's
  end)

  it("gives the values as they were when it was called", function()
    local x = D.tensor { 1, 2, 3 }
    local co = coroutine.create(function() return tide.await(x) end)
    local ok, out = coroutine.resume(co)
    x:fill_(9)
    while ok and coroutine.status(co) ~= "dead" do ok, out = coroutine.resume(co) end
    assert.are.same({ 1, 2, 3 }, out)
  end)

  it("names what it cannot wait for", function()
    local e = D.raises("ArgumentError", tide.await, "soon")
    assert.matches("await: what: got string 'soon', expected a tensor", e.message, 1, true)
    D.raises("ArgumentError", tide.await)
    local x = D.tensor { 1 }
    x:free()
    D.raises("StateError", tide.await, x)
  end)

  it("yields in a coroutine, and outside of one waits", function()
    if not D.cuda then return pending "a GPU" end
    local n = 0
    local stream = tide.cuda.Stream()
    local function work()
      tide.cuda.stream(stream, function() tide.cuda._sleep(2e7) end)
    end
    work()
    local event = stream:record_event()
    local yields = drive(function() assert.are.equal(0, select("#", tide.await(event))) end)
    assert.is_true(yields > 0)
    assert.is_true(event:query())
    work()
    assert.is_true(drive(function() tide.await(stream) n = n + 1 end) > 0)
    assert.is_true(stream:query())
    assert.are.equal(1, n)
    work()
    coroutine.wrap(function() -- no coroutine of the script's may yield across this
      table.sort({ 2, 1 }, function(a, b) tide.await(stream) return a < b end)
    end)()
    assert.is_true(stream:query())
  end)

  it("waits for the last replay of a graph, on whatever stream", function()
    if not D.cuda then return pending "a GPU" end
    local x, graph, side = D.tensor { 1 }, tide.cuda.CUDAGraph(), tide.cuda.Stream()
    D.raises("StateError", tide.await, graph)
    tide.cuda.graph(graph, function()
      tide.cuda._sleep(2e7)
      x:add_(1)
    end)
    tide.cuda.stream(side, function() graph:replay() end)
    assert.is_true(drive(function() tide.await(graph) end) > 0)
    assert.is_true(side:query())
    assert.are.equal(2, x:item())
  end)

  it("takes turns with the other replicas of data_parallel", function()
    if not D.cuda or tide.cuda.device_count() < 2 then return pending "two GPUs" end
    local out = tide.parallel.apply(function(x) return tide.await(x:sum()) end,
      { { tide.ones(3, { device = "cuda:0" }) }, { tide.ones(4, { device = "cuda:1" }) } }, { devices = { 0, 1 } })
    assert.are.same({ 3, 4 }, out)
  end)

  it("leaves nothing behind in a coroutine that is dropped", function()
    local before = D.cuda and tide.cuda.memory_allocated() or 0
    local function drop() -- in a function of its own: nothing stays in a register
      assert(coroutine.resume(coroutine.create(function() return tide.await(tide.ones(100, { device = D.dev })) end)))
    end
    for _ = 1, 20 do drop() end
    for _ = 1, 2 do -- what the last call held goes with the next one
      collectgarbage()
      collectgarbage()
      D.sync()
    end
    if D.cuda then assert.are.equal(before, tide.cuda.memory_allocated()) end
  end)
end)
