-- The caching allocator as a script sees it: counters, the cache, the cap, running out (API.md MEM, ALLOC, C14, C18).

local tide = require "tide"
local D = require "spec.support.device"
if not D.cuda then return end
local cuda = tide.cuda
local MiB = 1 << 20

local function bytes(n) return tide.empty(n, { dtype = "uint8", device = "cuda" }) end

describe("memory", function()
  D.watch(before_each, after_each)
  before_each(function() cuda.empty_cache() end)

  it("is counted in blocks of 512 bytes", function()
    local before = cuda.memory_allocated()
    local x = bytes(1)
    assert.are.equal(before + 512, cuda.memory_allocated())
    local y = bytes(1000)
    assert.are.equal(before + 512 + 1024, cuda.memory_allocated())
    local v = y:view(10, 100)
    assert.are.equal(before + 512 + 1024, cuda.memory_allocated())
    y:free()
    assert.are.equal(before + 512 + 1024, cuda.memory_allocated())
    v:free()
    x:free()
    assert.are.equal(before, cuda.memory_allocated())
  end)

  it("is reserved in segments as torch's", function()
    local before = cuda.memory_reserved()
    local x = bytes(1000)
    assert.are.equal(before + 2 * MiB, cuda.memory_reserved())
    local y = bytes(2 * MiB)
    assert.are.equal(before + 22 * MiB, cuda.memory_reserved())
    local z = bytes(30 * MiB)
    assert.are.equal(before + 52 * MiB, cuda.memory_reserved())
    for _, t in ipairs { x, y, z } do t:free() end
    assert.are.equal(before + 52 * MiB, cuda.memory_reserved())
    cuda.empty_cache()
    assert.are.equal(before, cuda.memory_reserved())
  end)

  it("is used again by the same stream at once", function()
    local x = bytes(1000)
    local ptr = x:data_ptr()
    x:free()
    local y = bytes(900)
    assert.are.equal(ptr, y:data_ptr())
    y:free()
    local z = cuda.stream(cuda.Stream(), function() return bytes(900) end)
    assert.is_false(ptr == z:data_ptr())
  end)

  it("has peaks that can be reset", function()
    local base = cuda.memory_allocated()
    cuda.reset_peak_memory_stats()
    bytes(3 * MiB):free()
    assert.are.equal(base + 3 * MiB, cuda.max_memory_allocated())
    assert.is_true(cuda.max_memory_reserved() >= cuda.memory_reserved())
    cuda.reset_peak_memory_stats()
    assert.are.equal(base, cuda.max_memory_allocated())
  end)

  it("has statistics with torch's keys", function()
    local s = cuda.memory_stats()
    for _, key in ipairs { "allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes", "active_bytes",
      "inactive_split_bytes", "requested_bytes" } do
      for _, pool in ipairs { "all", "large_pool", "small_pool" } do
        for _, what in ipairs { "current", "peak", "allocated", "freed" } do
          local name = key .. "." .. pool .. "." .. what
          assert.are.equal("integer", math.type(s[name]), name)
        end
      end
    end
    assert.is_truthy(s.num_alloc_retries and s.num_ooms)
    local x = bytes(1000)
    local t = cuda.memory_stats()
    assert.are.equal(s["allocation.all.current"] + 1, t["allocation.all.current"])
    assert.are.equal(s["allocation.all.allocated"] + 1, t["allocation.all.allocated"])
    assert.are.equal(s["requested_bytes.all.current"] + 1000, t["requested_bytes.all.current"])
    assert.are.equal(t["allocated_bytes.all.current"], cuda.memory_allocated())
    assert.are.equal(t["allocated_bytes.small_pool.current"] + t["allocated_bytes.large_pool.current"],
      t["allocated_bytes.all.current"])
    x:free()
    cuda.reset_accumulated_memory_stats()
    assert.are.equal(0, cuda.memory_stats()["allocation.all.allocated"])
  end)

  it("runs out with an error that tells the numbers", function()
    if not D.simulated then return end
    local free, total = cuda.mem_get_info()
    local e = D.raises("OutOfMemoryError", bytes, total + 1)
    assert.is_true(cuda.OutOfMemoryError.is(e))
    assert.are.equal(total, e.total)
    assert.is_true(e.requested >= total + 1)
    assert.is_true(e.free <= free + cuda.memory_reserved())
    assert.are.equal("integer", math.type(e.allocated))
    assert.are.equal("integer", math.type(e.reserved))
    assert.are.equal("cuda:0", tostring(e.device))
    D.eq(0, tide.zeros(3, { device = "cuda" })[3])
    D.raises("OutOfMemoryError", tide.empty, 1 << 40, { device = "cuda" })
    D.raises("OutOfMemoryError", tide.empty, 1 << 50)
  end)

  it("has a size that cannot overflow", function()
    D.raises("OutOfMemoryError", tide.empty, 1 << 40, 1 << 40)
    D.raises("OutOfMemoryError", tide.empty, math.maxinteger)
  end)

  it("obeys a fraction", function()
    if not D.simulated then return end
    local _, total = cuda.mem_get_info()
    cuda.set_per_process_memory_fraction(0.1)
    assert.are.equal(0.1, cuda.get_per_process_memory_fraction())
    local ok, e = pcall(bytes, total // 5)
    cuda.set_per_process_memory_fraction(1)
    assert.is_true(not ok and e.kind == "OutOfMemoryError", tostring(e))
    bytes(total // 5):free()
    D.raises("ValueError", cuda.set_per_process_memory_fraction, 1.5)
    D.raises("ArgumentError", cuda.set_per_process_memory_fraction, "x")
  end)

  it("that Lua has dropped is found before an allocation fails", function()
    if not D.simulated then return end
    local _, total = cuda.mem_get_info()
    collectgarbage "stop"
    local ok, e = pcall(function()
      for _ = 1, 40 do bytes(total // 4) end
    end)
    collectgarbage "restart"
    assert.is_true(ok, tostring(e))
  end)

  it("in cached blocks of other sizes is given back before an allocation fails", function()
    if not D.simulated then return end
    local _, total = cuda.mem_get_info()
    local list = {}
    for i = 1, 10 do list[i] = bytes(total // 12) end
    for i = 1, 10 do list[i]:free() end
    list = nil
    bytes(total // 2):free()
    assert.is_true(cuda.memory_stats()["num_ooms"] >= 0)
  end)

  it("is bounded when allocation k fails", function()
    if not D.simulated then return end
    for k = 1, 6 do
      D.simulate(1, [[
        local tide = require "tide"
        local function work()
          local x = tide.rand(1000, 1000, { device = "cuda" })
          local y = tide.cat { x, x:t() }
          return (y:matmul(x) + 1):sum():item()
        end
        local ok, e = pcall(work)
        assert(ok or e.kind == "OutOfMemoryError", tostring(e))
        collectgarbage()
        collectgarbage()
        tide.cuda.synchronize()
        assert(tide.cuda.memory_allocated() == 0, tide.cuda.memory_allocated())
        work()]], { TIDE_SIM_FAULT = "alloc:" .. k })
    end
  end)
end)
