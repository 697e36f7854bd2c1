-- The caching allocator as a script sees it: counters, the cache, the cap, running out.

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
    cuda.memory.set_allocator_settings "expandable_segments:False"
    cuda.empty_cache()
    local before, pool = cuda.memory_reserved(), cuda.MemPool() -- the cache has nothing for it
    cuda.use_mem_pool(pool, function()
      local x = bytes(1000)
      assert.are.equal(before + 2 * MiB, cuda.memory_reserved())
      local y = bytes(2 * MiB)
      assert.are.equal(before + 22 * MiB, cuda.memory_reserved())
      local z = bytes(30 * MiB)
      assert.are.equal(before + 52 * MiB, cuda.memory_reserved())
      for _, t in ipairs { x, y, z } do t:free() end
    end)
    assert.are.equal(before + 52 * MiB, cuda.memory_reserved())
    cuda.empty_cache()
    assert.are.equal(before, cuda.memory_reserved())
    cuda.memory.set_allocator_settings "expandable_segments:True"
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

  it("has torch's exact figures for a known sequence", function()
    -- Segments of fixed sizes, as torch has them unless asked for others; in a process of its own, which has used nothing.
    local source = [[
      local tide = require "tide"
      local cuda, MiB = tide.cuda, 1 << 20
      local function bytes(n) return tide.empty(n, { dtype = "uint8", device = "cuda" }) end
      local function expect(want)
        local s = cuda.memory_stats()
        for key, value in pairs(want) do
          if s[key] ~= value then error(("%s: got %s, expected %d"):format(key, s[key], value), 2) end
        end
      end
      local a = bytes(100) -- 512 bytes of a segment of 2 MiB
      expect { ["allocation.all.current"] = 1, ["allocated_bytes.small_pool.current"] = 512,
        ["requested_bytes.all.current"] = 100, ["reserved_bytes.all.current"] = 2 * MiB, ["segment.small_pool.current"] = 1,
        ["active_bytes.all.current"] = 512, ["inactive_split.all.current"] = 1,
        ["inactive_split_bytes.all.current"] = 2 * MiB - 512, num_device_alloc = 1 }
      local b = bytes(MiB) -- the largest small one, from the same segment
      expect { ["allocated_bytes.small_pool.current"] = MiB + 512, ["reserved_bytes.all.current"] = 2 * MiB,
        ["inactive_split_bytes.all.current"] = MiB - 512, ["inactive_split.small_pool.current"] = 1 }
      local c = bytes(MiB + 1) -- large: one of 20 MiB
      expect { ["allocated_bytes.large_pool.current"] = MiB + 512, ["reserved_bytes.large_pool.current"] = 20 * MiB,
        ["segment.all.current"] = 2, ["inactive_split_bytes.large_pool.current"] = 19 * MiB - 512 }
      local d = bytes(10 * MiB) -- the best fit is the rest of that
      expect { ["reserved_bytes.large_pool.current"] = 20 * MiB, ["inactive_split_bytes.large_pool.current"] = 9 * MiB - 512 }
      local e = bytes(11 * MiB) -- its own segment, in steps of 2 MiB; a rest of 1 MiB is not split off
      expect { ["reserved_bytes.large_pool.current"] = 32 * MiB, ["allocated_bytes.large_pool.current"] = 23 * MiB + 512,
        ["requested_bytes.large_pool.current"] = 22 * MiB + 1, ["inactive_split.large_pool.current"] = 1 }
      c:free()
      expect { ["inactive_split.large_pool.current"] = 2, ["inactive_split_bytes.large_pool.current"] = 10 * MiB,
        ["allocation.large_pool.freed"] = 1, ["allocated_bytes.large_pool.freed"] = MiB + 512 }
      d:free() -- the pieces of the segment become one again, which could be given back
      expect { ["inactive_split.large_pool.current"] = 0, ["inactive_split_bytes.large_pool.current"] = 0,
        ["allocated_bytes.large_pool.current"] = 12 * MiB, ["allocated_bytes.large_pool.peak"] = 23 * MiB + 512 }
      e:free()
      cuda.empty_cache()
      expect { ["segment.all.current"] = 1, ["segment.all.freed"] = 2, ["reserved_bytes.all.current"] = 2 * MiB,
        ["reserved_bytes.all.peak"] = 34 * MiB, num_device_free = 2, num_ooms = 0, num_alloc_retries = 0 }
      a:free()
      b:free()
      cuda.empty_cache()
      expect { ["reserved_bytes.all.current"] = 0, ["allocation.all.allocated"] = 5, ["allocation.all.freed"] = 5 }
      cuda.reset_peak_memory_stats()
      cuda.reset_accumulated_memory_stats()
      for key, value in pairs(cuda.memory_stats()) do
        local counter = key:find "^num_[sd]" or key == "max_split_size"
        if value ~= 0 and not counter then error(key .. " is not 0 after the resets") end
      end]]
    if D.simulated then
      D.simulate(1, source, { TIDE_ALLOC_CONF = "expandable_segments:False" })
    else
      local out, err, code = D.run({ "-e", source }, { env = { TIDE_ALLOC_CONF = "expandable_segments:False" } })
      assert.are.equal(0, code, out .. err)
    end
  end)

  it("has the statistics in nested tables too", function()
    local x = bytes(1000)
    local flat, nested = cuda.memory_stats(), cuda.memory_stats_as_nested_dict()
    local n = 0
    for key, value in pairs(flat) do
      local at = nested
      for step in key:gmatch "[^.]+" do at = at[step] end
      assert.are.equal(value, at, key)
      n = n + 1
    end
    assert.is_true(n > 100)
    assert.is_true(nested.allocated_bytes.small_pool.current >= 1024)
    x:free()
  end)

  it("counts oversize blocks", function()
    local s = cuda.memory_stats()
    for _, row in ipairs { "oversize_allocations", "oversize_segments" } do
      for _, what in ipairs { "current", "peak", "allocated", "freed" } do
        assert.are.equal("integer", math.type(s[row .. "." .. what]), row)
      end
    end
    assert.are.equal(-1, s.max_split_size)
    D.simulate(1, [[
      local cuda = require "tide".cuda
      local MiB = 1 << 20
      local x = require "tide".empty(30 * MiB, { dtype = "uint8", device = "cuda" })
      local s = cuda.memory_stats()
      assert(s.max_split_size == 21 * MiB and s["oversize_allocations.current"] == 1 and s["oversize_segments.current"] == 1)
      x:free()
      assert(cuda.memory_stats()["oversize_allocations.freed"] == 1)]],
      { TIDE_ALLOC_CONF = "expandable_segments:False,max_split_size_mb:21" })
  end)

  it("of the host has statistics too", function()
    local flat, nested = cuda.host_memory_stats(), cuda.host_memory_stats_as_nested_dict()
    for key, value in pairs(flat) do
      local at = nested
      for step in key:gmatch "[^.]+" do at = at[step] end
      assert.are.equal(value, at, key)
    end
    local x = tide.empty(5000, { dtype = "uint8", pin_memory = true })
    local after = cuda.host_memory_stats()
    assert.are.equal(flat["active_requests.current"] + 1, after["active_requests.current"])
    assert.are.equal(flat["active_bytes.current"] + 8192, after["active_bytes.current"])
    assert.are.equal(flat["active_bytes.allocated"] + 8192, after["active_bytes.allocated"])
    assert.is_true(after["allocated_bytes.current"] >= after["active_bytes.current"])
    assert.is_true(after.num_host_alloc >= 1 and after["host_alloc_time.count"] == after.num_host_alloc)
    assert.is_true(after["host_alloc_time.max"] >= after["host_alloc_time.min"])
    x:free()
    assert.are.equal(flat["active_requests.current"], cuda.host_memory_stats()["active_requests.current"])
    cuda.reset_peak_host_memory_stats()
    cuda.reset_accumulated_host_memory_stats()
    local reset = cuda.host_memory_stats()
    assert.are.equal(reset["active_bytes.current"], reset["active_bytes.peak"])
    assert.are.equal(0, reset["active_bytes.allocated"])
    for _, name in ipairs { "host_memory_stats", "host_memory_stats_as_nested_dict", "reset_peak_host_memory_stats",
      "reset_accumulated_host_memory_stats" } do
      assert.are.equal(cuda[name], cuda.memory[name], name)
    end
  end)

  it("is nothing before the first use", function()
    local source = [[
      local cuda = require "tide".cuda
      assert(next(cuda.memory_stats()) == nil and next(cuda.memory_stats_as_nested_dict()) == nil)
      assert(cuda.memory_allocated() == 0 and cuda.memory_reserved() == 0 and cuda.max_memory_allocated() == 0)
      assert(#cuda.memory_snapshot() == 0 and #cuda.memory_summary() > 0)
      cuda.empty_cache()
      cuda.reset_peak_memory_stats()
      assert(not cuda.is_initialized())]]
    local out, err, code = D.run { "-e", source }
    assert.are.equal(0, code, out .. err)
  end)

  it("answers to the old names, which warn once", function()
    local source = [[
      local cuda = require "tide".cuda
      for _ = 1, 2 do
        assert(cuda.memory_cached() == cuda.memory_reserved() and cuda.max_memory_cached() == cuda.max_memory_reserved())
        cuda.reset_max_memory_allocated()
        cuda.reset_max_memory_cached(0)
      end]]
    local out, err, code = D.run { "-e", source }
    assert.are.equal(0, code, out .. err)
    for _, name in ipairs { "memory_cached", "max_memory_cached", "reset_max_memory_allocated", "reset_max_memory_cached" } do
      local n = select(2, err:gsub("tide%.cuda%." .. name .. " is", ""))
      assert.are.equal(1, n, name .. ": " .. err)
    end
  end)

  it("has every function in tide.cuda.memory as well", function()
    for _, name in ipairs { "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved", "memory_cached",
      "max_memory_cached", "memory_stats", "memory_stats_as_nested_dict", "memory_summary", "memory_snapshot", "mem_get_info",
      "empty_cache", "reset_peak_memory_stats", "reset_accumulated_memory_stats", "reset_max_memory_allocated",
      "reset_max_memory_cached", "set_per_process_memory_fraction", "get_per_process_memory_fraction" } do
      assert.are.equal(cuda[name], cuda.memory[name], name)
      assert.is_truthy(tide.help(name):find("tide.cuda." .. name, 1, true), name)
    end
    for _, name in ipairs { "snapshot", "dump_snapshot", "record_history", "on_oom", "scope" } do
      assert.is_truthy(tide.help("tide.cuda.memory." .. name):find("memory." .. name, 1, true), name)
    end
  end)

  it("has a summary that a person reads", function()
    local x = tide.empty(3 * MiB, { dtype = "uint8", device = "cuda" })
    local line = debug.getinfo(1, "l").currentline - 1
    local text, brief = cuda.memory_summary(), cuda.memory_summary(0, { abbreviated = true })
    assert.is_truthy(text:find("memory of cuda:0", 1, true))
    for _, row in ipairs { "allocated memory", "active memory", "requested memory", "reserved memory", "allocations", "segments" } do
      assert.is_truthy(text:find("| " .. row, 1, true) and brief:find("| " .. row, 1, true), row)
    end
    local now = text:match "| allocated memory%s*| *(.-) *|"
    assert.are.equal(("%.2f MiB"):format(cuda.memory_allocated() / MiB), now)
    -- Each line has the figures of its own counter: now, peak, allocated and freed.
    local units = { B = 1, KiB = 2 ^ 10, MiB = MiB, GiB = 2 ^ 30, TiB = 2 ^ 40 }
    local stats, lines = cuda.memory_stats(), {}
    for name, figures in text:gmatch "| *([%w- ]-) *|([^\n]+)|\n" do lines[#lines + 1] = { name, figures } end
    local place = 1 -- the first line has the titles
    local function check(name, key)
      place = place + 1
      assert.are.equal(name, lines[place][1])
      local column = 0
      for n, unit in lines[place][2]:gmatch "([%d.]+) ?(%a*)" do
        column = column + 1
        local wanted = stats[key .. "." .. ({ "current", "peak", "allocated", "freed" })[column]]
        assert.is_true(math.abs(n * (units[unit] or 1) - wanted) <= 0.01 * wanted, name .. ", " .. key .. ": " .. lines[place][2] .. ", " .. wanted)
      end
      assert.are.equal(4, column)
    end
    for _, row in ipairs { { "allocated memory", "allocated_bytes" }, { "active memory", "active_bytes" }, { "requested memory", "requested_bytes" },
      { "reserved memory", "reserved_bytes" }, { "non-releasable memory", "inactive_split_bytes" }, { "allocations", "allocation" },
      { "active blocks", "active" }, { "segments", "segment" }, { "non-releasable blocks", "inactive_split" } } do
      check(row[1], row[2] .. ".all")
      check("of large blocks", row[2] .. ".large_pool")
      check("of small blocks", row[2] .. ".small_pool")
    end
    check("oversize allocations", "oversize_allocations")
    check("oversize segments", "oversize_segments")
    assert.are.equal(place, #lines)
    assert.is_truthy(text:find("of large blocks", 1, true))
    assert.is_nil(brief:find("of large blocks", 1, true))
    assert.is_truthy(text:find("3.00 MiB in 1 block  [^\n]*memory_spec.lua:" .. line), text)
    local width
    for row in text:gmatch "[^\n]+" do
      if row:find "^[|+]" then
        width = width or #row
        assert.are.equal(width, #row, row)
      end
    end
    D.raises("ArgumentError", cuda.memory_summary, { short = true })
    D.raises("ArgumentError", cuda.memory_summary, 0, { abbreviated = 1 })
    D.raises("DeviceError", cuda.memory_summary, "cpu")
    D.raises("DeviceError", cuda.memory_summary, 63)
    x:free()
  end)

  it("runs out with an error that tells the numbers", function()
    if not D.simulated then return pending "needs simulated devices" end
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
    local message = D.raises("OutOfMemoryError", tide.empty, 1 << 50).message
    assert.matches("^memory: cpu cannot give 4096%.00 TiB; %S+ %a+ of its %S+ %a+ are free", message)
  end)

  it("has a size that cannot overflow", function()
    D.raises("OutOfMemoryError", tide.empty, 1 << 40, 1 << 40)
    D.raises("OutOfMemoryError", tide.empty, math.maxinteger)
  end)

  -- On a small device of its own: simulated memory is filled with poison, and gigabytes take their time.
  local function on_small(source)
    D.simulate(1, [[
      local tide = require "tide"
      local cuda = tide.cuda
      local _, total = cuda.mem_get_info()
      local function bytes(n) return tide.empty(n, { dtype = "uint8", device = "cuda" }) end
      ]] .. source, { TIDE_SIM_MEMORY = "67108864" })
  end

  it("obeys a fraction", function()
    on_small [[
      cuda.set_per_process_memory_fraction(0.1)
      assert(cuda.get_per_process_memory_fraction() == 0.1)
      local ok, e = pcall(bytes, total // 5)
      assert(not ok and e.kind == "OutOfMemoryError", tostring(e))
      cuda.set_per_process_memory_fraction(1)
      bytes(total // 5):free()]]
    D.raises("ValueError", cuda.set_per_process_memory_fraction, 1.5)
    D.raises("ValueError", cuda.set_per_process_memory_fraction, -0.1)
    D.raises("ArgumentError", cuda.set_per_process_memory_fraction, "x")
  end)

  it("comes to an operation whose collection of garbage changes the stream or resets the device", function()
    on_small [[
      collectgarbage "stop"
      local a = bytes(total // 2)
      bytes(total // 4)
      cuda.set_stream(cuda.Stream()) -- held by nothing else
      collectgarbage "step"
      setmetatable({}, { __gc = function()
        cuda.set_stream(cuda.default_stream())
        collectgarbage()
      end })
      local b = bytes(total // 5 * 2):fill_(1)
      cuda.Stream()
      assert(b[1]:item() == 1)]]
    on_small [[
      collectgarbage "stop"
      bytes(total // 3 * 2)
      local ok, e
      setmetatable({}, { __gc = function() ok, e = pcall(cuda.device_reset) end })
      assert(bytes(total // 3 * 2):fill_(1)[1]:item() == 1)
      assert(ok == false and e.kind == "StateError", tostring(e))]]
  end)

  it("that Lua has dropped is found before an allocation fails", function()
    on_small [[
      collectgarbage "stop"
      for _ = 1, 40 do bytes(total // 4) end
      assert(cuda.memory_stats().num_ooms == 0)]]
  end)

  it("in cached blocks of other sizes is given back before an allocation fails", function()
    on_small [[
      local list = {}
      for i = 1, 10 do list[i] = bytes(total // 12) end
      local first = list[1]
      for i = 2, 10 do list[i]:free() end
      bytes(total // 2):free()
      assert(cuda.memory_stats().num_ooms == 0 and cuda.memory_allocated() >= total // 12)
      first:free()]]
  end)

  it("may be forbidden, and the failure says so", function()
    if not D.simulated then return pending "needs simulated devices" end
    D.simulate(1, [[
      local cuda = require "tide".cuda
      cuda.set_per_process_memory_fraction(0)
      local ok, e = pcall(require "tide".ones, 8, { device = "cuda" })
      assert(not ok and e.kind == "OutOfMemoryError" and e.rung == "limit" and e.limit == 0, tostring(e.limit))]])
  end)

  it("is bounded when allocation k fails", function()
    if not D.simulated then return pending "needs simulated devices" end
    for k = 1, 6 do
      D.simulate(1, [[
        local tide = require "tide"
        local function work()
          local x = tide.rand(300, 1000, { device = "cuda" })
          local y = tide.cat { x, x }
          return (y:matmul(x:t()) + 1):sum():item()
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

  it("has peaks of which the old names reset all", function()
    for _, name in ipairs { "reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached" } do
      cuda.use_mem_pool(cuda.MemPool(), function() bytes(30 * MiB):free() end)
      cuda.empty_cache()
      assert.is_true(cuda.max_memory_reserved() > cuda.memory_reserved())
      cuda[name](0)
      local s = cuda.memory_stats()
      for key, value in pairs(s) do
        local at = key:match "^(.*)%.peak$"
        if at then assert.are.equal(s[at .. ".current"], value, name .. " " .. key) end
      end
      assert.are.equal(cuda.memory_allocated(), cuda.max_memory_allocated())
      assert.are.equal(cuda.memory_reserved(), cuda.max_memory_reserved())
    end
  end)

  it("in the cache goes back with empty_cache, that of dead tensors too", function()
    collectgarbage()
    cuda.empty_cache()
    local before, held = cuda.memory_reserved(), bytes(4 * MiB):fill_(7)
    collectgarbage "stop"
    bytes(30 * MiB) -- dead, and nobody has looked
    cuda.empty_cache { collect = false }
    local after = cuda.memory_reserved()
    cuda.empty_cache()
    local left = cuda.memory_reserved()
    collectgarbage "restart"
    assert.is_true(after - left >= 30 * MiB, after - left)
    assert.is_true(left >= before and D.eq(7, held[1]) == nil) -- what tensors hold stays
    cuda.empty_cache { collect = true }
    if D.devices > 1 then -- every device's
      local there = cuda.memory_reserved(1)
      tide.zeros(30 * MiB, { device = "cuda:1", dtype = "uint8" }):free()
      assert.is_true(cuda.memory_reserved(1) > there)
      cuda.empty_cache()
      assert.is_true(cuda.memory_reserved(1) <= there)
    end
    D.raises("ArgumentError", cuda.empty_cache, { colect = true })
    D.raises("ArgumentError", cuda.empty_cache, { collect = 1 })
    D.raises("ArgumentError", cuda.empty_cache, 5)
    held:free()
  end)

  it("of all processes is told by mem_get_info", function()
    cuda.empty_cache()
    local free, total = cuda.mem_get_info(0)
    local x = bytes(64 * MiB)
    local now, same = cuda.mem_get_info "cuda:0"
    assert.are.equal(total, same)
    if D.simulated then assert.are.equal(free - 64 * MiB, now) end
    x:free()
    if D.simulated then assert.are.equal(now, (cuda.mem_get_info())) end -- the cache holds it
    cuda.empty_cache()
    if D.simulated then assert.are.equal(free, (cuda.mem_get_info())) end
  end)

  it("has an error whose text and fields say the same", function()
    if not D.simulated then return pending "needs simulated devices" end
    D.simulate(2, [[
      local tide = require "tide"
      local cuda, MiB = tide.cuda, 1 << 20
      local function bytes(n) return tide.empty(n, { dtype = "uint8", device = "cuda:1" }) end
      local held, small = bytes(24 * MiB), bytes(2 * MiB)
      small:free()
      local ok, e = pcall(bytes, 60 * MiB)
      assert(not ok and cuda.OutOfMemoryError.is(e) and tide.errors.OutOfMemoryError.is(e))
      assert(not cuda.AcceleratorError.is(e) and not cuda.OutOfMemoryError.is "memory")
      assert(e.device == tide.device "cuda:1" and e.requested == 60 * MiB and e.total == 64 * MiB)
      assert(e.allocated == 24 * MiB and e.reserved >= e.allocated and e.free == e.total - e.reserved)
      for _, text in ipairs { "cuda:1", "60.00 MiB", ("%.2f MiB of its 64.00 MiB are free"):format(e.free / MiB),
        "tensors hold 24.00 MiB", ("the cache %s"):format(e.reserved > e.allocated and
        ("%.2f MiB more"):format((e.reserved - e.allocated) / MiB) or "0 bytes more") } do
        assert(e.message:find(text, 1, true), text .. " is not in: " .. e.message)
      end
      assert(cuda.memory_allocated(1) == 24 * MiB and cuda.memory_stats(1).num_ooms == 1)]], { TIDE_SIM_MEMORY = "67108864" })
  end)

  it("obeys fractions of each device, from 0 to 1", function()
    on_small [[
      assert(cuda.get_per_process_memory_fraction() == 1)
      cuda.set_per_process_memory_fraction(0, 0)
      assert(not pcall(bytes, 1) and cuda.get_per_process_memory_fraction "cuda:0" == 0)
      cuda.set_per_process_memory_fraction(0.5)
      bytes(total // 4):free()
      cuda.set_per_process_memory_fraction(1, 0)
      bytes(total // 2 + 1):free()]]
    D.raises("ArgumentError", cuda.set_per_process_memory_fraction, true)
    D.raises("ArgumentError", cuda.set_per_process_memory_fraction)
    D.raises("DeviceError", cuda.set_per_process_memory_fraction, 0.5, 63)
    if D.devices < 2 then return pending "the rest needs two devices" end
    cuda.set_per_process_memory_fraction(0.25, 1)
    assert.are.same({ 1, 0.25 }, { cuda.get_per_process_memory_fraction(0), cuda.get_per_process_memory_fraction(1) })
    cuda.set_per_process_memory_fraction(1, 1)
  end)
end)

describe("device memory that nobody asks for", function()
  if not D.cuda then return end

  it("goes back to the driver after two seconds", function()
    local out, err, code = D.run({ "-e", [[
      local function bytes(n) return tide.empty(n, { dtype = "uint8", device = "cuda" }) end
      local list = {}
      for i = 1, 7 do list[i] = bytes(100 << 20) end
      tide.cuda.synchronize()
      for i = 1, 7 do list[i]:free() end
      assert(tide.cuda.memory_reserved() >= 700 << 20)
      os.execute "sleep 2"
      for _ = 1, 600 do -- a minute at most: the machine may be busy
        os.execute "sleep 0.1"
        if tide.cuda.memory_reserved() < 32 << 20 then break end
      end
      assert(tide.cuda.memory_reserved() < 32 << 20, tide.cuda.memory_reserved())
      bytes(100 << 20):fill_(1)]] }, { env = { TIDE_SIM_DEVICES = D.simulated and "1" or nil } })
    assert.are.equal("", err)
    assert.are.equal(0, code, out)
  end)
end)
