-- Where device memory comes from: settings, the driver's own allocator, no caching, a program's allocator, raw pieces.

local tide = require "tide"
local D = require "spec.support.device"
local cuda = tide.cuda
local MiB = 1 << 20

-- The error message of a piece of Lua in a process of its own, run with this environment.
local function fails(source, env)
  return (D.simulate(1, ([[
    local tide = require "tide"
    local ok, e = pcall(function() %s end)
    assert(not ok, "no error was raised")
    print(e.kind .. "|" .. e.message)]]):format(source), env))
end

local function bytes(n) return tide.empty(n, { dtype = "uint8", device = D.dev }) end

describe("the settings of the allocator", function()
  if not D.cuda then return end
  D.watch(before_each, after_each)
  local set = cuda.memory.set_allocator_settings

  it("are refused with their names and what is accepted", function()
    local function refused(text, ...)
      local e = D.raises("ValueError", set, text)
      for _, part in ipairs { ... } do assert.truthy(e.message:find(part, 1, true), e.message) end
    end
    refused("foo:1", '"foo"', "expandable_segments", "pinned_max_cached_size_mb")
    refused("expandable_segments:maybe", "expandable_segments", '"maybe"', "True or False")
    refused("max_split_size_mb:20", "max_split_size_mb", '"20"', "above 20")
    refused("max_split_size_mb:x", "max_split_size_mb", '"x"')
    refused("garbage_collection_threshold:1.5", "garbage_collection_threshold", '"1.5"')
    refused("garbage_collection_threshold:0", "garbage_collection_threshold")
    refused("roundup_power2_divisions:3", "roundup_power2_divisions", '"3"')
    refused("roundup_power2_divisions:[256:1,512:3]", "roundup_power2_divisions", "[256:1,512:3]")
    refused("roundup_power2_divisions:[512:2,256:1]", "roundup_power2_divisions")
    refused("per_process_memory_fraction:2", "per_process_memory_fraction", "0 to 1")
    -- The last that is accepted and the first that is not.
    for name, ends in pairs {
      roundup_power2_divisions = { "1", "128", "256", "0" }, max_split_size_mb = { "21", "1048576", "20", "-1" },
      garbage_collection_threshold = { "0.001", "0.999", "1", "0" }, per_process_memory_fraction = { "0", "1", "1.001", "-0.001" },
    } do
      for i, value in ipairs(ends) do
        if i > 2 then refused(name .. ":" .. value, name) else set(name .. ":" .. value) end
      end
    end
    set "roundup_power2_divisions:1"
    refused("backend:malloc", "backend", "cudaMallocAsync")
    refused("expandable_segments", "expandable_segments", '""')
    D.raises("ArgumentError", set)
    D.raises("ArgumentError", set, 5)
    set ""
    set " expandable_segments : True , max_split_size_mb:4096 "
    assert.are.equal(4096 * MiB, cuda.memory_stats().max_split_size)
    set "max_split_size_mb:unlimited"
    assert.are.equal(-1, cuda.memory_stats().max_split_size)
  end)

  it("change nothing when one of them is wrong", function()
    set "max_split_size_mb:64"
    assert.are.equal(64 * MiB, cuda.memory_stats().max_split_size)
    D.raises("ValueError", set, "max_split_size_mb:128,foo:1")
    assert.are.equal(64 * MiB, cuda.memory_stats().max_split_size)
    set "max_split_size_mb:unlimited"
  end)

  it("come from TIDE_ALLOC_CONF, whose mistakes the first use of a device tells", function()
    if not D.simulated then return pending "needs simulated devices" end
    local text = fails("tide.ones(1, { device = 'cuda' })", { TIDE_ALLOC_CONF = "foo:1" })
    assert.truthy(text:find("ValueError|TIDE_ALLOC_CONF: unknown option, got \"foo\"", 1, true), text)
    text = fails("tide.ones(1, { device = 'cuda' })", { TIDE_ALLOC_CONF = "max_split_size_mb:no" })
    assert.truthy(text:find("TIDE_ALLOC_CONF: max_split_size_mb", 1, true), text)
    D.simulate(1, [[
      local tide = require "tide"
      tide.ones(1) -- the CPU does not mind]], { TIDE_ALLOC_CONF = "foo:1" })
    D.simulate(1, [[
      local tide = require "tide"
      local x = tide.empty(1000, { device = "cuda" })
      assert(tide.cuda.memory_stats().max_split_size == 99 << 20, tide.cuda.memory_stats().max_split_size)
      assert(tide.cuda.get_per_process_memory_fraction() == 0.5)]],
      { TIDE_ALLOC_CONF = "max_split_size_mb:99,per_process_memory_fraction:0.5" })
  end)

  it("and set_per_process_memory_fraction: the last word holds, from before the first use on", function()
    if not D.simulated then return pending "needs simulated devices" end
    D.simulate(2, [[
      local tide = require "tide"
      local cuda = tide.cuda
      local function is(want, dev)
        local got = cuda.get_per_process_memory_fraction(dev)
        assert(got == want, got)
      end
      local function use(dev) tide.empty(1000, { device = dev }) end
      is(0.5, 0)
      cuda.set_per_process_memory_fraction(0.25, 0)
      use "cuda:0"
      is(0.25, 0)
      cuda.memory.set_allocator_settings "max_split_size_mb:99"
      is(0.25, 0)
      cuda.memory.set_allocator_settings "per_process_memory_fraction:0.5"
      is(0.5, 0)
      cuda.set_per_process_memory_fraction(1, 0)
      cuda.set_per_process_memory_fraction(1, 1)
      is(1, 1)
      cuda.memory.set_allocator_settings "per_process_memory_fraction:0.5"
      is(0.5, 0)
      is(0.5, 1)
      use "cuda:1"
      is(0.5, 1)
      assert(not pcall(tide.empty, 40 << 20, { dtype = "uint8", device = "cuda:1" }))]],
      { TIDE_ALLOC_CONF = "per_process_memory_fraction:0.5", TIDE_SIM_MEMORY = "64M" })
  end)

  it("round sizes by divisions of a power of two", function()
    local function held(n)
      local before = cuda.memory_allocated()
      local x = bytes(n)
      local got = cuda.memory_allocated() - before
      x:free()
      return got
    end
    assert.are.equal(1200 * 1024, held(1200 * 1024))
    set "roundup_power2_divisions:4"
    assert.are.equal(1280 * 1024, held(1200 * 1024)) -- 1 MiB, 1.25, 1.5, ...
    assert.are.equal(2 * MiB, held(2 * MiB))
    assert.are.equal(1024, held(1000)) -- too small to be divided
    set "roundup_power2_divisions:[4:2,8:1,>:8]"
    assert.are.equal(3 * MiB, held(2 * MiB + 1))
    assert.are.equal(4 * MiB + 512, held(4 * MiB + 1))
    assert.are.equal(9 * MiB, held(8 * MiB + 1))
    -- Each number, behind a list and behind another number: nothing is left of what was set before.
    for _, before in ipairs { "[4:64,8:16,>:8]", "128", "1" } do
      for k = 0, 7 do
        set("roundup_power2_divisions:" .. before)
        set("roundup_power2_divisions:" .. (1 << k))
        for _, n in ipairs { 2 * MiB, 4 * MiB, 8 * MiB } do
          assert.are.equal(n + (k == 0 and 512 or n >> k), held(n + 1), ("%d divisions behind %s"):format(1 << k, before))
        end
      end
      set("roundup_power2_divisions:" .. before)
      set "roundup_power2_divisions:[4:2]"
      assert.are.equal(3 * MiB, held(2 * MiB + 1), "4:2 behind " .. before)
      assert.are.equal(4 * MiB + 512, held(4 * MiB + 1), "4:2 behind " .. before)
    end
    set "roundup_power2_divisions:1"
    assert.are.equal(2 * MiB + 512, held(2 * MiB + 1))
  end)

  it("keep what is larger than max_split_size_mb whole, and count it", function()
    set "expandable_segments:False,max_split_size_mb:30"
    local pool = cuda.MemPool()
    local stats, reserved = cuda.memory_stats(), cuda.memory_reserved()
    local function more(key) return cuda.memory_stats()[key] - stats[key] end
    cuda.use_mem_pool(pool, function()
      local x = bytes(40 * MiB)
      assert.are.equal(1, more "oversize_allocations.current")
      assert.are.equal(1, more "oversize_segments.current")
      x:free()
      local y = bytes(25 * MiB) -- is not cut from those 40
      assert.are.equal(66 * MiB, cuda.memory_reserved() - reserved)
      local z = bytes(35 * MiB) -- has them whole
      assert.are.equal(66 * MiB, cuda.memory_reserved() - reserved)
      assert.are.equal(2, more "oversize_allocations.allocated")
      y:free()
      z:free()
    end)
    cuda.empty_cache()
    assert.are.equal(0, more "oversize_segments.current")
    assert.are.equal(0, more "oversize_allocations.current")
    set "expandable_segments:True,max_split_size_mb:unlimited"
  end)

  it("collect the cache above a threshold instead of growing it", function()
    if not D.simulated then return pending "needs simulated devices" end
    D.simulate(1, [[
      local tide = require "tide"
      local cuda = tide.cuda
      local keep = {}
      for round = 1, 8 do
        local s = cuda.Stream()
        keep[round] = s -- a lane of its own: nothing of the others fits
        cuda.stream(s, function() tide.empty(20 << 20, { dtype = "uint8", device = "cuda" }):free() end)
        assert(cuda.memory_reserved() <= 0.5 * (128 << 20), cuda.memory_reserved())
      end
      assert(cuda.memory_stats().num_alloc_retries == 0)]],
      { TIDE_SIM_MEMORY = "128M", TIDE_ALLOC_CONF = "garbage_collection_threshold:0.5" })
  end)

  it("collect the cache above a threshold of the process's own limit", function()
    if not D.simulated then return pending "needs simulated devices" end
    D.simulate(1, [[
      local tide = require "tide"
      local cuda = tide.cuda
      local keep = {}
      local function rounds(n, most)
        for round = 1, n do
          local s = cuda.Stream()
          keep[#keep + 1] = s
          cuda.stream(s, function() tide.empty(10 << 20, { dtype = "uint8", device = "cuda" }):free() end)
          assert(cuda.memory_reserved() <= most * (1 << 20), ("%d MiB, expected at most %d"):format(cuda.memory_reserved() >> 20, most))
        end
      end
      cuda.set_per_process_memory_fraction(0.5)
      rounds(8, 32)
      cuda.set_per_process_memory_fraction(0.25)
      cuda.empty_cache()
      rounds(8, 16)
      cuda.set_per_process_memory_fraction(1.0)
      rounds(8, 64)
      assert(cuda.memory_reserved() > 32 << 20, "it keeps what the limit allows")
      assert(cuda.memory_stats().num_alloc_retries == 0)]],
      { TIDE_SIM_MEMORY = "128M", TIDE_ALLOC_CONF = "garbage_collection_threshold:0.5" })
  end)

  it("let segments grow, or not", function()
    local function reserved_for(setting)
      set(setting)
      local pool, before = cuda.MemPool(), cuda.memory_reserved()
      return cuda.use_mem_pool(pool, function()
        local x, y = bytes(12 * MiB), nil
        x:free()
        y = bytes(14 * MiB)
        local got = cuda.memory_reserved() - before
        y:free()
        return got
      end)
    end
    assert.are.equal(26 * MiB, reserved_for "expandable_segments:False")
    assert.are.equal(14 * MiB, reserved_for "expandable_segments:True")
    cuda.empty_cache()
  end)
end)

describe("reserved memory", function()
  if not D.cuda then return end
  D.watch(before_each, after_each)

  -- The highest quotient of peaks over a trace that works in a pool of its own.
  local function ratio(trace)
    collectgarbage()
    cuda.empty_cache()
    local rest = cuda.memory_reserved()
    cuda.reset_peak_memory_stats()
    trace()
    local quotient = (cuda.max_memory_reserved() - rest) / cuda.max_memory_allocated()
    cuda.empty_cache()
    return quotient
  end

  it("stays near what is alive while sizes grow by 3% 200 times", function()
    local q = ratio(function()
      local size, x = MiB, nil
      for _ = 1, 200 do
        local y = bytes(size // 1)
        if x then x:free() end
        x, size = y, size * 1.03
      end
      x:free()
    end)
    assert.is_true(q <= 1.15, q)
  end)

  it("stays near what is alive while sizes alternate", function()
    local q = ratio(function()
      local x
      for i = 1, 60 do
        local y, z = bytes((60 + i % 2 * 25) * MiB), bytes((35 + i % 3 * 9) * MiB)
        if x then x:free() end
        z:free()
        x = y
      end
      x:free()
    end)
    assert.is_true(q <= 1.15, q)
  end)

  it("goes back to the driver, ranges too", function()
    local x, y = bytes(30 * MiB), bytes(50 * MiB)
    cuda.empty_cache()
    local reserved, free = cuda.memory_reserved(), cuda.mem_get_info()
    y:free()
    cuda.empty_cache()
    assert.are.equal(50 * MiB, reserved - cuda.memory_reserved())
    if D.simulated then assert.are.equal(50 * MiB, cuda.mem_get_info() - free) end
    x:free()
  end)

  it("keeps its values while its neighbours come and go", function()
    local kept, spec = {}, { dtype = "int32", device = D.dev }
    for i = 1, 60 do
      kept[#kept + 1] = { i, tide.full({ 1 << (10 + i % 11) }, i, spec) }
      if i % 3 == 0 then table.remove(kept, i % #kept + 1)[2]:free() end
      if i % 10 == 0 then cuda.empty_cache() end
    end
    for _, k in ipairs(kept) do
      D.eq(k[1], k[2]:min())
      D.eq(k[1], k[2]:max())
      k[2]:free()
    end
  end)
end)

describe("backends of the allocator", function()
  if not D.cuda then return end
  D.watch(before_each, after_each)

  it("are named", function()
    assert.are.equal("native", cuda.get_allocator_backend())
    local e = D.raises("StateError", cuda.memory.set_allocator_settings, "backend:cudaMallocAsync")
    assert.truthy(e.message:find("backend", 1, true))
    assert.are.equal("native", cuda.get_allocator_backend())
  end)

  local program = [[
    local tide = require "tide"
    local cuda = tide.cuda
    assert(cuda.get_allocator_backend() == "%s", cuda.get_allocator_backend())
    local dev = { device = "cuda", dtype = "float32" }
    local s = cuda.Stream()
    local x = tide.full({ 1 << 18 }, 3, dev)
    for i = 1, 50 do
      s:wait_stream(cuda.current_stream())
      local y = cuda.stream(s, function() return x * 2 end)
      x:free()
      x = tide.full({ 1 << 18 }, i, dev)
      cuda.current_stream():wait_stream(s)
      assert(y:sum():item() == (i == 1 and 3 or i - 1) * 2 * (1 << 18), i)
      y:free()
    end
    collectgarbage() -- the sums
    assert(cuda.memory_allocated() == 1 << 20, cuda.memory_allocated())
    assert(cuda.memory_reserved() >= 1 << 20)
    assert(cuda.max_memory_allocated() > 1 << 20)
    x:free()
    collectgarbage()
    cuda.synchronize()
    assert(cuda.memory_allocated() == 0)
    cuda.empty_cache()
    assert(cuda.memory_reserved() == 0, cuda.memory_reserved())]]

  it("may be the driver's stream-ordered allocator", function()
    local env = { TIDE_ALLOC_CONF = "backend:cudaMallocAsync", TIDE_SIM_DEVICES = D.simulated and "1" or nil }
    for seed = 1, D.simulated and 3 or 1 do
      env.TIDE_SIM_SEED = tostring(seed)
      local out, err, code = D.run({ "-e", program:format "cudaMallocAsync" }, { env = env })
      assert.are.equal(0, code, out .. err)
    end
  end)

  it("count and give back what the driver's keeps after caching has been switched off", function()
    local env = { TIDE_ALLOC_CONF = "backend:cudaMallocAsync", TIDE_SIM_DEVICES = D.simulated and "1" or nil }
    local out, err, code = D.run({ "-e", [[
      local cuda = tide.cuda
      local function bytes(n) return tide.empty(n, { dtype = "uint8", device = "cuda" }) end
      local x = bytes(100 << 20)
      cuda.synchronize()
      local free = cuda.mem_get_info()
      x:free()
      cuda.caching_allocator_enable(false)
      assert(cuda.memory_reserved() >= 100 << 20, cuda.memory_reserved())
      local y = bytes(1 << 20)
      assert(cuda.memory_stats()["reserved_bytes.all.current"] >= 101 << 20)
      cuda.empty_cache()
      assert(cuda.mem_get_info() >= free + (64 << 20), cuda.mem_get_info())
      assert(cuda.memory_reserved() >= 1 << 20 and cuda.memory_reserved() < 37 << 20, cuda.memory_reserved())
      if not cuda.get_device_properties().simulated then return end
      cuda.caching_allocator_enable(true)
      x = bytes(600 << 20):free()
      cuda.caching_allocator_enable(false)
      x = bytes(cuda.mem_get_info() + (300 << 20)) -- in the place of those 600]] }, { env = env })
    assert.are.equal("", err)
    assert.are.equal(0, code, out)
  end)

  it("have a peak that stays when the driver's cache goes", function()
    local env = { TIDE_ALLOC_CONF = "backend:cudaMallocAsync", TIDE_SIM_DEVICES = D.simulated and "1" or nil }
    local out, err, code = D.run({ "-e", [[
      local cuda = tide.cuda
      local function bytes(n) return tide.empty(n, { dtype = "uint8", device = "cuda" }) end
      local x = bytes(100 << 20)
      bytes(300 << 20):free()
      cuda.caching_allocator_enable(false)
      local y = bytes(200 << 20)
      local most = cuda.memory_reserved() -- 600 MiB, of which the driver's cache has 300
      x:free()
      y:free()
      cuda.empty_cache()
      assert(cuda.memory_reserved() < most, cuda.memory_reserved())
      assert(cuda.max_memory_reserved() >= most, cuda.max_memory_reserved())
      cuda.reset_peak_memory_stats()
      assert(cuda.max_memory_reserved() < most, cuda.max_memory_reserved())]] }, { env = env })
    assert.are.equal("", err)
    assert.are.equal(0, code, out)
  end)

  it("may be the driver alone", function()
    local env = { TIDE_NO_CUDA_MEMORY_CACHING = "1", TIDE_SIM_DEVICES = D.simulated and "1" or nil }
    local out, err, code = D.run({ "-e", program:format "native" .. [[
      assert(not cuda.is_caching_allocator_enabled())
      assert(cuda.memory_stats().num_device_alloc == cuda.memory_stats().num_device_free)]] }, { env = env })
    assert.are.equal(0, code, out .. err)
  end)

  it("cache or do not cache, in both scoped forms", function()
    local function calls() return cuda.memory_stats().num_device_alloc end
    assert.is_true(cuda.is_caching_allocator_enabled())
    bytes(1000):free()
    local before = calls()
    local result = cuda.caching_allocator_disabled(function()
      assert.is_false(cuda.is_caching_allocator_enabled())
      local reserved = cuda.memory_reserved()
      local x = bytes(1000)
      assert.are.equal(before + 1, calls())
      assert.are.equal(reserved + 1024, cuda.memory_reserved())
      x:free()
      assert.are.equal(reserved, cuda.memory_reserved())
      return 7
    end)
    assert.are.equal(7, result)
    do
      local _ <close> = cuda.caching_allocator_disabled()
      bytes(1000):free()
    end
    assert.are.equal(before + 2, calls())
    assert.is_false(pcall(cuda.caching_allocator_disabled, function() error "out" end))
    assert.is_true(cuda.is_caching_allocator_enabled())
    bytes(1000):free()
    assert.are.equal(before + 2, calls())
    cuda.caching_allocator_enable(false)
    assert.is_false(cuda.is_caching_allocator_enabled())
    cuda.caching_allocator_enable()
    assert.is_true(cuda.is_caching_allocator_enabled())
    D.raises("ArgumentError", cuda.caching_allocator_enable, 1)
    D.raises("ArgumentError", cuda.caching_allocator_disabled, 1)
  end)
end)

describe("an allocator of a program's own", function()
  if not D.cuda then return end
  D.watch(before_each, after_each)
  local library = os.tmpname()
  local compiled = os.execute("cc -shared -fPIC -O2 -o " .. library .. " scripts/examples/allocator/logging.c -ldl")

  -- Runs a program with the example and gives the lines that it wrote.
  local function run(source)
    local log = os.tmpname()
    local env = { ALLOCATOR_LOG = log, TIDE_SIM_DEVICES = D.simulated and "2" or nil }
    local out, err, code = D.run({ "-e", ([[
      local tide = require "tide"
      local cuda = tide.cuda
      local allocator = cuda.CUDAPluggableAllocator(%q, "logging_alloc", "logging_free")
      local function bytes(n) return tide.empty(n, { dtype = "uint8", device = "cuda" }) end
      ]]):format(library) .. source }, { env = env })
    assert.are.equal(0, code, out .. err)
    local lines = {}
    for line in io.lines(log) do lines[#lines + 1] = line:match "^%a+ %d+ %d+" end
    os.remove(log)
    return lines
  end

  it("gives all device memory", function()
    assert.is_true(compiled)
    local lines = run [[
      assert(cuda.get_allocator_backend() == "native")
      cuda.change_current_allocator(allocator)
      assert(cuda.get_allocator_backend() == "pluggable")
      local x = tide.ones(1000, { device = "cuda" })
      assert((x + 1):sum():item() == 2000)
      x:free()
      collectgarbage()
      cuda.synchronize()
      assert(cuda.memory_allocated() == 0 and cuda.memory_reserved() == 0)]]
    assert.are.equal("alloc 4096 0", lines[1])
    local live = 0
    for _, line in ipairs(lines) do live = live + (line:match "^alloc" and 1 or -1) end
    assert.are.equal(0, live)
  end)

  it("cannot come too late", function()
    run [[
      bytes(10):free()
      local ok, e = pcall(cuda.change_current_allocator, allocator)
      assert(not ok and e.kind == "StateError", tostring(e))
      assert(cuda.get_allocator_backend() == "native")]]
  end)

  it("gives the segments of a pool, which caches them", function()
    local lines = run [[
      local pool = cuda.MemPool(allocator)
      for i = 1, 3 do
        cuda.use_mem_pool(pool, function() bytes(1000):free() end)
        bytes(1000):free()
      end
      pool = nil
      collectgarbage()
      cuda.empty_cache()]]
    assert.are.same({ "alloc 2097152 0", "free 2097152 0" }, lines)
  end)

  it("is looked for with care", function()
    local e = D.raises("LibraryError", cuda.CUDAPluggableAllocator, "/nowhere/lib.so", "a", "b")
    assert.truthy(e.message:find("/nowhere/lib.so", 1, true))
    e = D.raises("LibraryError", cuda.CUDAPluggableAllocator, library, "logging_alloc", "nothing")
    assert.truthy(e.message:find('"nothing"', 1, true))
    D.raises("ArgumentError", cuda.CUDAPluggableAllocator, library)
    D.raises("ArgumentError", cuda.change_current_allocator, library)
    D.raises("ArgumentError", cuda.MemPool, 5)
    os.remove(library)
  end)
end)

describe("raw memory", function()
  if not D.cuda then return end
  D.watch(before_each, after_each)

  it("is counted, and given back by its address", function()
    local before = cuda.memory_allocated()
    local p = cuda.caching_allocator_alloc(1000)
    assert.are.equal("integer", math.type(p))
    assert.are.equal(before + 1024, cuda.memory_allocated())
    local q = cuda.caching_allocator_alloc(5000, { as = "pointer", device = 0 })
    assert.are.equal("userdata", type(q))
    cuda.caching_allocator_delete(p)
    cuda.caching_allocator_delete(q)
    assert.are.equal(before, cuda.memory_allocated())
    D.raises("ValueError", cuda.caching_allocator_delete, p)
    cuda.caching_allocator_delete(0)
  end)

  it("belongs to the stream it is asked for", function()
    local s = cuda.Stream()
    local p = cuda.caching_allocator_alloc(1000, { stream = s })
    local q = cuda.caching_allocator_alloc(1000, { stream = cuda.current_stream().cuda_stream })
    cuda.caching_allocator_delete(p)
    local r = cuda.caching_allocator_alloc(1000, { stream = s })
    assert.are.equal(p, r) -- the stream has it back at once
    cuda.caching_allocator_delete(q)
    cuda.caching_allocator_delete(r)
    local many = {}
    for i = 1, 300 do many[i] = cuda.caching_allocator_alloc(512 * i) end
    for i = 300, 1, -1 do cuda.caching_allocator_delete(many[i]) end
  end)

  it("is asked for with care", function()
    D.raises("ArgumentError", cuda.caching_allocator_alloc)
    D.raises("ArgumentError", cuda.caching_allocator_alloc, "10")
    D.raises("ValueError", cuda.caching_allocator_alloc, -1)
    D.raises("ArgumentError", cuda.caching_allocator_alloc, 10, { strem = 1 })
    D.raises("ArgumentError", cuda.caching_allocator_alloc, 10, { stream = "x" })
    D.raises("ArgumentError", cuda.caching_allocator_alloc, 10, { as = "x" })
    D.raises("ArgumentError", cuda.caching_allocator_delete, "x")
    D.raises("OutOfMemoryError", cuda.caching_allocator_alloc, 1 << 60)
    if D.devices > 1 then
      D.raises("DeviceError", cuda.caching_allocator_alloc, 10, { device = 1, stream = cuda.default_stream(0) })
    end
  end)
end)
