-- Pools of memory: what is allocated in one comes from segments that serve nothing else.

local tide = require "tide"
local D = require "spec.support.device"
local cuda = tide.cuda
local MiB = 1 << 20

local function bytes(n, dev) return tide.empty(n, { dtype = "uint8", device = dev or D.dev }) end

describe("a memory pool", function()
  if not D.cuda then return end
  D.watch(before_each, after_each)

  it("has an id, and serves what is allocated inside its block", function()
    local pool, other = cuda.MemPool(), cuda.MemPool()
    assert.are.equal("integer", math.type(pool.id))
    assert.are_not.equal(pool.id, other.id)
    assert.truthy(tostring(pool):find("MemPool", 1, true))
    local x, y = cuda.use_mem_pool(pool, function(n) return bytes(n), bytes(n) end, 1000)
    local z = bytes(1000)
    local function pool_of(t)
      for _, segment in ipairs(cuda.memory_snapshot { mempool = pool }) do
        if t:data_ptr() >= segment.address and t:data_ptr() < segment.address + segment.total_size then return pool end
      end
    end
    assert.is_true(pool_of(x) == pool and pool_of(y) == pool and pool_of(z) == nil)
    for _, t in ipairs { x, y, z } do t:free() end
  end)

  it("lends nothing to others and borrows nothing", function()
    local pool = cuda.MemPool()
    local x = cuda.use_mem_pool(pool, bytes, 5 * MiB)
    local address = x:data_ptr()
    x:free()
    local y = bytes(5 * MiB)
    assert.are_not.equal(address, y:data_ptr())
    local z = cuda.use_mem_pool(pool, bytes, 5 * MiB)
    assert.are.equal(address, z:data_ptr())
    y:free()
    z:free()
  end)

  it("is left whatever happens inside, in both forms", function()
    local pool, outer = cuda.MemPool(), cuda.MemPool()
    local function segments(p) return #cuda.memory_snapshot { mempool = p } end
    assert.is_false(pcall(cuda.use_mem_pool, pool, function() error "out" end))
    bytes(3 * MiB):free()
    assert.are.equal(0, segments(pool))
    local kept = {} -- what is free may go back to the driver on a machine that stands still
    do
      local _ <close> = cuda.use_mem_pool(outer)
      cuda.use_mem_pool(pool, function() kept[1] = bytes(3 * MiB) end)
      assert.are.equal(1, segments(pool))
      assert.are.equal(0, segments(outer))
      kept[2] = bytes(3 * MiB)
      assert.are.equal(1, segments(outer))
    end
    local co = coroutine.wrap(function()
      cuda.use_mem_pool(pool, function()
        coroutine.yield()
        kept[3] = bytes(100)
      end)
    end)
    co()
    local before = segments(pool)
    bytes(50 * MiB):free() -- the block belongs to the coroutine, which sleeps
    assert.are.equal(before, segments(pool))
    co()
    assert.is_true(segments(pool) > before)
    for _, x in ipairs(kept) do x:free() end
  end)

  it("can be for one device", function()
    if D.devices < 2 then return pending "needs two devices" end
    local pool = cuda.MemPool()
    cuda.use_mem_pool(pool, 1, function()
      bytes(100, "cuda:0"):free()
      assert.are.equal(0, #cuda.memory_snapshot { mempool = pool })
      bytes(100, "cuda:1"):free()
      assert.are.equal(1, #cuda.memory_snapshot { mempool = pool })
    end)
    local _ <close> = cuda.use_mem_pool(pool, "cuda:0")
    bytes(100, "cuda:0"):free()
    assert.are.equal(2, #cuda.memory_snapshot { mempool = pool })
  end)

  it("that nobody holds gives its memory back, when its tensors are gone", function()
    collectgarbage()
    cuda.empty_cache()
    local before = cuda.memory_reserved()
    local x = cuda.use_mem_pool(cuda.MemPool(), bytes, 30 * MiB)
    collectgarbage()
    cuda.empty_cache()
    assert.are.equal(before + 30 * MiB, cuda.memory_reserved()) -- x lives
    x:free()
    local y = bytes(200 * MiB) -- needs new memory: the dead pool's goes first
    assert.is_true(cuda.memory_reserved() <= before + 202 * MiB)
    y:free()
    cuda.empty_cache()
    assert.are.equal(before, cuda.memory_reserved())
    local function of_graph() -- whose pool is of one device
      local g = cuda.CUDAGraph()
      cuda.graph(g, function() bytes(30 * MiB):zero_():free() end)
    end
    for _, use in ipairs { function() cuda.use_mem_pool(cuda.MemPool(), bytes, 30 * MiB):free() end, of_graph } do
      use()
      collectgarbage()
      collectgarbage()
      cuda.synchronize()
      y = bytes(200 * MiB)
      assert.is_true(cuda.memory_reserved() <= before + 202 * MiB)
      y:free()
      cuda.empty_cache()
      assert.are.equal(before, cuda.memory_reserved())
    end
  end)

  it("is asked for with care", function()
    D.raises("ArgumentError", cuda.use_mem_pool)
    D.raises("ArgumentError", cuda.use_mem_pool, {})
    D.raises("ArgumentError", cuda.use_mem_pool, cuda.MemPool(), 0, 5)
    D.raises("DeviceError", cuda.use_mem_pool, cuda.MemPool(), 63, function() end)
    D.raises("DeviceError", cuda.use_mem_pool, cuda.MemPool(), "cpu", function() end)
    D.raises("ArgumentError", function() return cuda.MemPool().name end)
    assert.matches("cannot be assigned", D.raises("ArgumentError", function() cuda.MemPool().name = 1 end).message)
  end)
end)

describe("what is reserved", function()
  if not D.cuda then return end
  D.watch(before_each, after_each)
  after_each(function() cuda.memory.set_allocator_settings "expandable_segments:True" end)

  -- Not with cuda.graph, which empties the cache.
  local function captured(pool, stream, sizes)
    local g, xs = cuda.CUDAGraph(), {}
    cuda.stream(stream, function()
      g:capture_begin { pool = pool }
      for i, n in ipairs(sizes) do xs[i] = bytes(n) end
      g:capture_end()
    end)
    return g, xs
  end
  local function free(xs)
    for _, x in ipairs(xs or {}) do x:free() end
  end

  -- The rounds after the first dozen reserve no more, but for one round's that a slow device may still need; what the
  -- first one returns stays alive.
  local function bounded(what, round)
    for _, grows in ipairs { "False", "True" } do
      cuda.memory.set_allocator_settings("expandable_segments:" .. grows)
      local pool, streams, first, before = cuda.MemPool(), { cuda.Stream(), cuda.Stream() }, nil, nil
      local last = {} -- what a round leaves for the next one
      for i = 1, 24 do
        local xs = round(i, pool, streams, last)
        if first then free(xs) else first = xs end
        cuda.synchronize()
        if i == 12 then before = cuda.memory_reserved() end
      end
      local more = cuda.memory_reserved() - before
      assert.is_true(more <= 24 * MiB, ("%s, expandable_segments:%s: %d more"):format(what, grows, more))
      free(first)
      pool, last = nil, nil
      collectgarbage()
      cuda.empty_cache()
    end
  end

  it("does not grow while graphs of one pool come and go", function()
    bounded("one stream", function(_, pool, streams)
      local g, xs = captured(pool, streams[1], { 64, 5 * MiB })
      g:reset()
      return xs
    end)
    bounded("sizes and streams that alternate", function(i, pool, streams)
      local g, xs = captured(pool, streams[i % 2 + 1], { 64, (i % 3 + 1) * 3 * MiB })
      g:reset()
      return xs
    end)
    bounded("streams that end", function(i, pool)
      local g, xs = captured(pool, cuda.Stream(), { 64, (i % 3 + 1) * 12 * MiB })
      g:reset()
      g = nil
      collectgarbage()
      return xs
    end)
    bounded("graphs that overlap", function(i, pool, streams, last)
      local g, xs = captured(pool, streams[1], { 64, (i % 3 + 1) * 3 * MiB })
      if last.graph then last.graph:reset() end
      last.graph = g
      return xs
    end)
  end)

  it("does not grow where eager work of the pool comes between its captures", function()
    bounded("warm-up", function(i, pool, streams)
      local e = cuda.stream(streams[1], cuda.use_mem_pool, pool, bytes, i % 2 == 0 and 100 or 4 * MiB)
      local g, xs = captured(pool, streams[1], { 64, 5 * MiB })
      g:reset()
      xs[#xs + 1] = e
      return xs
    end)
  end)
end)
