-- Dropped memory is no longer counted after a collection and one synchronization, whatever held it.

local tide = require "tide"
local D = require "spec.support.device"
local cuda = tide.cuda

-- The bytes that are counted on each device.
local function counted()
  local out = {}
  for d = 0, D.devices - 1 do
    local stats = cuda.memory_stats(d)
    out[#out + 1] = stats["requested_bytes.all.current"]
    out[#out + 1] = stats["active_bytes.all.current"]
    out[#out + 1] = stats["allocated_bytes.all.current"]
  end
  return out
end

local function collect()
  if rawget(_G, "jit") then jit.flush() end
  collectgarbage()
  collectgarbage()
end

-- Calls make n times. Nothing that it made may be counted after one wait.
local function check(n, make, wait)
  wait = wait or cuda.synchronize
  make(0)
  for _ = 1, 4 do
    collect()
    cuda.synchronize_all()
  end
  local before, late = counted(), 0
  for i = 1, n do
    make(i)
    collect()
    wait()
    local after = counted()
    for k = 1, #before do
      if after[k] ~= before[k] then late = late + 1 break end
    end
  end
  assert.are.equal(0, late, ("%d of %d tries left memory that is counted"):format(late, n))
end

local tries = D.tsan and 20 or 200

describe("after one synchronization", function()
  if not D.cuda then return pending "needs a device" end
  D.watch(before_each, after_each)
  local on = { device = "cuda" }

  it("a dropped graph is not counted", function()
    check(tries, function()
      local g, x, y = cuda.CUDAGraph(), tide.ones(50000, on), nil
      cuda.graph(g, function() y = x * 2 + 1 end)
      for _ = 1, 3 do g:replay() end
      return y
    end)
  end)

  it("a graph that was reset is not counted", function()
    check(tries, function()
      local g, x, y = cuda.CUDAGraph(), tide.ones(50000, on), nil
      cuda.graph(g, function() y = x * 2 + 1 end)
      g:replay()
      y:free()
      g:reset()
    end)
  end)

  it("a graph is not counted whose memory other streams have used", function()
    local s, t = cuda.Stream(), cuda.Stream()
    check(tries, function()
      local g, x, y = cuda.CUDAGraph(), tide.ones(50000, on), nil
      cuda.graph(g, function() y = x * 2 + 1 end)
      s:wait_stream(cuda.current_stream())
      cuda.stream(s, function()
        g:replay()
        y:add_(1)
      end)
      t:wait_stream(s)
      cuda.stream(t, function() x:mul_(2) y:mul_(2) end)
      x:record_stream(s)
      x:record_stream(t)
    end)
  end)

  it("a graph with inputs that are bound is not counted", function()
    check(tries, function()
      local g, x, y = cuda.CUDAGraph(), tide.ones(5000, on), nil
      cuda.graph(g, { inputs = { x = x } }, function() y = x * 2 + 1 end)
      local s = cuda.Stream()
      g:bind { x = cuda.stream(s, function() return tide.ones(5000, on) end) }
      cuda.current_stream():wait_stream(s)
      g:replay()
      return y
    end)
  end)

  it("many tensors that another stream has used are not counted", function()
    local s = cuda.Stream()
    check(tries // 4, function()
      for i = 1, 40 do
        local x = tide.ones(1000 * i, on)
        x:record_stream(s)
        if i % 3 == 0 then x:free() end
      end
    end)
  end)

  it("the memory of streams that are dropped too is not counted", function()
    check(tries, function()
      local s = cuda.Stream()
      local x = cuda.stream(s, function() return tide.ones(300000, on) end)
      cuda.current_stream():wait_stream(s)
      x:add_(1)
    end)
  end)

  it("memory of a pool of its own is not counted", function()
    local s = cuda.Stream()
    check(tries, function()
      local x
      cuda.use_mem_pool(cuda.MemPool(), function() x = tide.ones(300000, on) end)
      x:record_stream(s)
      cuda.stream(s, function() return tide.ones(5, on) end)
    end)
  end)

  it("the driver has all memory of a dropped graph after one empty_cache", function()
    local s, late = cuda.Stream(), 0
    collect()
    cuda.synchronize()
    cuda.empty_cache()
    local before = cuda.memory_reserved()
    for _ = 1, tries // 4 do
      local g, x, y = cuda.CUDAGraph(), tide.ones(50000, on), nil
      cuda.graph(g, function() y = x * 2 + 1 end)
      g:replay()
      s:wait_stream(cuda.current_stream())
      cuda.stream(s, function() y:add_(1) end)
      g, x, y = nil, nil, nil
      collect()
      cuda.empty_cache()
      if cuda.memory_reserved() ~= before then late = late + 1 end
    end
    assert.are.equal(0, late)
  end)

  -- The sum of what is alive is known at each step.
  it("nothing is counted but what is alive, of a random program", function()
    local seed = 11
    local function dice(n)
      seed = seed * 48271 % 2147483647
      return seed % n + 1
    end
    local streams, alive = { cuda.Stream(), cuda.Stream() }, {}
    collect()
    cuda.synchronize_all()
    local base = cuda.memory_stats()["requested_bytes.all.current"]
    local function make()
      local x = cuda.stream(streams[dice(2)], function() return tide.empty(dice(400000), on):fill_(1) end)
      alive[#alive + 1] = x
      return x
    end
    local steps = {
      make,
      make,
      function() -- one of the streams uses it, and the other waits
        local x, k = alive[dice(#alive)], dice(2)
        streams[k]:wait_stream(streams[3 - k])
        cuda.stream(streams[k], function() x:add_(1) end)
        streams[3 - k]:wait_stream(streams[k])
      end,
      function() alive[dice(#alive)]:record_stream(streams[dice(2)]) end,
      function() table.remove(alive, dice(#alive)):free() end,
      function() table.remove(alive, dice(#alive)) end,
      function()
        tide.scope(function()
          local x, s = tide.empty(dice(300000), on):fill_(2), streams[dice(2)]
          x:record_stream(s)
          s:wait_stream(cuda.current_stream())
          cuda.stream(s, function() return x * 2 end)
        end)
      end,
    }
    for round = 1, D.tsan and 10 or 100 do
      for _ = 1, 30 do
        if #alive == 0 then make() end
        steps[dice(#steps)]()
      end
      collect()
      cuda.synchronize()
      local live = 0
      for _, x in ipairs(alive) do live = live + x:numel() * x:element_size() end
      local now = cuda.memory_stats()["requested_bytes.all.current"] - base
      assert.are.equal(live, now, ("round %d: %d bytes too many"):format(round, now - live))
    end
  end)

  it("of all devices, nothing is counted that two of them have used", function()
    if D.devices < 2 then return pending "needs two devices" end
    local there = { device = "cuda:1" }
    check(tries, function()
      local x, y = tide.ones(100000, on), tide.ones(100000, there)
      local a, b = x:to("cuda:1", { non_blocking = true }), y:to("cuda:0", { non_blocking = true })
      cuda.device(1, function()
        local g, z = cuda.CUDAGraph(), nil
        cuda.graph(g, function() z = y * 2 end)
        g:replay()
        return z
      end)
      return a, b
    end, cuda.synchronize_all)
  end)
end)
