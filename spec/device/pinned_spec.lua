-- Page-locked host memory and copies that do not wait.

local tide = require "tide"
local D = require "spec.support.device"
if not D.cuda then return end
local cuda = tide.cuda

describe("page-locked memory", function()
  D.watch(before_each, after_each)

  it("is a copy, or the tensor itself if it is there", function()
    local x = tide.arange(12, { dtype = "float32" }):view(3, 4)
    assert.is_false(x:is_pinned())
    local p = x:pin_memory()
    assert.is_true(p:is_pinned() and p.is_cpu)
    D.eq(x, p)
    x:zero_()
    assert.are.equal(11, p[3][4]:item())
    assert.is_true(p:pin_memory() == p)
    assert.is_true(rawequal(p:pin_memory(), p))
    assert.is_true(p[1]:is_pinned()) -- a view is as pinned as what it shows
    D.eq(p:t(), p:t():pin_memory())
  end)

  it("serves again once its copy has ended, though nobody has waited or asked since", function()
    local x, done = tide.ones(1 << 20, { device = "cuda", dtype = "uint8" }), cuda.Event()
    local function copy()
      local y = tide.empty(1 << 20, { dtype = "uint8", pin_memory = true })
      y:copy_(x, { non_blocking = true })
      y:free() -- marks the stream: from there on the memory is free
      done:record()
      repeat until done:query()
    end
    cuda.memory.empty_host_cache() -- else what others have left may be all that is kept
    copy()
    local before = cuda.host_memory_stats()["num_host_alloc"]
    for _ = 1, 5 do copy() end
    assert.are.equal(before, cuda.host_memory_stats()["num_host_alloc"])
  end)

  it("is locked once for a program that goes round in it", function()
    local function made() return cuda.host_memory_stats()["num_host_alloc"] end
    local function round()
      local list = {}
      for i = 1, 10 do list[i] = tide.empty(1 << 26, { dtype = "uint8", pin_memory = true }) end
      for _, x in ipairs(list) do x:free() end
    end
    round()
    local before = made()
    round()
    assert.are.equal(before, made())
    cuda.memory.empty_host_cache() -- from here on what is in use counts anew
    local x = tide.empty(1 << 30, { dtype = "uint8", pin_memory = true })
    x:free()
    local after = cuda.host_memory_stats()["allocated_bytes.current"]
    cuda.memory.empty_host_cache()
    assert.is_true(after >= 1 << 30 and cuda.host_memory_stats()["allocated_bytes.current"] < 1 << 30)
  end)

  it("is there for storages", function()
    local x = tide.arange(5, { dtype = "int64" })
    local s = x:storage():pin_memory()
    assert.is_true(s:is_pinned() and s:nbytes() == 40)
    assert.is_true(s:pin_memory() == s)
    assert.is_false(x:storage():is_pinned())
    D.raises("DeviceError", function() return x:cuda():storage():pin_memory() end)
  end)

  it("is made by every factory", function()
    local o = { pin_memory = true }
    local like = tide.zeros(3)
    for name, x in pairs {
      empty = tide.empty(3, o), zeros = tide.zeros(3, o), ones = tide.ones(3, o), full = tide.full({ 3 }, 7, o),
      arange = tide.arange(3, o), linspace = tide.linspace(0, 1, 3, o), eye = tide.eye(3, o), rand = tide.rand(3, o),
      randn = tide.randn(3, o), randint = tide.randint(0, 9, { 3 }, o), randperm = tide.randperm(3, o),
      tensor = tide.tensor({ 1, 2 }, o), zeros_like = tide.zeros_like(like, o), empty_like = tide.empty_like(like, o),
      ones_like = tide.ones_like(like, o), full_like = tide.full_like(like, 2, o), new_zeros = like:new_zeros(3, o),
      from_string = tide.from_string("abc", o),
    } do
      assert.is_true(x:is_pinned() and x.is_cpu, name)
    end
    D.eq({ 7, 7, 7 }, tide.full({ 3 }, 7, o))
    D.eq({ 1, 2 }, tide.tensor({ 1, 2 }, o))
  end)

  it("is not for tensors on a GPU", function()
    D.raises("DeviceError", function() return tide.zeros(2, { device = "cuda" }):pin_memory() end)
    assert.is_false(tide.zeros(2, { device = "cuda" }):is_pinned())
    assert.is_false(pcall(tide.zeros, 2, { device = "cuda", pin_memory = true }))
    assert.is_false(pcall(tide.zeros, 2, { pin_memory = "yes" }))
  end)

  it("serves again only when the copies that use it are done", function()
    local seen = {}
    for i = 1, 30 do
      local p = tide.full({ 5000 }, i, { dtype = "float32", pin_memory = true })
      seen[i] = p:to("cuda", { non_blocking = true })
      p:free()
      tide.full({ 5000 }, -1, { dtype = "float32", pin_memory = true }) -- would overwrite it
    end
    for i = 1, 30 do D.eq(i, seen[i][5000]) end
    local source = tide.zeros(5000, { device = "cuda" })
    for i = 1, 30 do
      source:fill_(i)
      local back = source:to("cpu", { non_blocking = true })
      back:free() -- what comes back late must not land in somebody else's memory
      local other = tide.full({ 5000 }, -1, { dtype = "float32", pin_memory = true })
      cuda.synchronize()
      D.eq(-1, other[5000])
    end
  end)
end)

describe("copies that do not wait", function()
  D.watch(before_each, after_each)
  local n = 1 << 16

  -- Does f return while what was queued before it is held, so that a copy cannot be done?
  local function asynchronous(f)
    cuda.synchronize()
    D.hold()
    local result = f()
    local busy = not cuda.current_stream():query()
    D.release()
    cuda.synchronize()
    return busy, result
  end

  -- Is there nothing left to do when f returns?
  local function waits(f)
    collectgarbage() -- memory that a copy has used is given back by an event on its stream, which the question would see
    cuda.synchronize()
    cuda._sleep(20000000)
    f()
    return cuda.current_stream():query()
  end

  it("to the device: from pinned memory with non_blocking alone", function()
    local p = tide.ones(n, { pin_memory = true })
    local x = tide.zeros(n, { device = "cuda" })
    for name, f in pairs {
      to = function() return p:to("cuda", { non_blocking = true }) end, cuda = function() return p:cuda({ non_blocking = true }) end,
      copy = function() return x:copy_(p, { non_blocking = true }) end,
      tree = function() return tide.to({ p }, "cuda", { non_blocking = true })[1] end,
      cast = function() return p:to("cuda", tide.float64, { non_blocking = true }) end,
      view = function() return p:narrow(1, 11, 100):to("cuda", { non_blocking = true }) end,
      transposed = function() return p:view(256, 256):t():to("cuda", { non_blocking = true }) end,
    } do
      local busy, y = asynchronous(f)
      assert(busy, name)
      assert.are.equal(y:numel(), y:sum():item(), name)
    end
    assert.is_true(waits(function() return p:cuda() end))
  end)

  it("to the host: into pinned memory with non_blocking alone", function()
    local x = tide.ones(n, { device = "cuda" })
    local p, paged = tide.zeros(n, { pin_memory = true }), tide.zeros(n)
    for name, f in pairs {
      copy = function() return p:zero_():copy_(x, { non_blocking = true }) end,
      to = function() return x:to("cpu", { non_blocking = true }) end, cpu = function() return x:cpu({ non_blocking = true }) end,
      cast = function() return x:to("cpu", tide.float16, { non_blocking = true }) end,
      transposed = function() return x:view(256, 256):t():to("cpu", { non_blocking = true }) end,
      part = function() return p:zero_():narrow(1, 1, 100):copy_(x:narrow(1, 7, 100), { non_blocking = true }) end,
    } do
      local busy, y = asynchronous(f)
      assert(busy, name)
      assert(y:is_pinned(), name)
      assert.are.equal(y:numel(), y:to(tide.float32):sum():item(), name)
    end
    assert.is_true(waits(function() return paged:copy_(x, { non_blocking = true }) end))
    assert.is_true(waits(function() return p:copy_(x) end))
    assert.is_true(waits(function() return x:cpu() end))
    D.eq(1, paged[n])
    for i = 1, 64 do -- nothing of tide's own stays behind on the stream
      paged:copy_(x)
      assert(cuda.current_stream():query(), i)
    end
  end)

  it("give the same values in every layout and dtype", function()
    for _, dtype in ipairs(D.dtypes) do
      local x = tide.arange(12):view(3, 4):to(tide[dtype])
      for _, layout in ipairs(D.layouts(x)) do
        local there = layout[2]:pin_memory():to("cuda", { non_blocking = true })
        local back = there:to("cpu", { non_blocking = true })
        local turned = there:t():to("cpu", { non_blocking = true })
        cuda.synchronize()
        assert.is_true(tide.equal(x, back) and tide.equal(x:t(), turned), dtype .. " " .. layout[1])
      end
    end
  end)

  it("refuse options that are none", function()
    D.raises("ArgumentError", function() return tide.zeros(1):cuda({ non_blocking = 1 }) end)
    D.raises("ArgumentError", function() return tide.zeros(1):to("cuda", { nonblocking = true }) end)
    D.raises("ArgumentError", function() return tide.zeros(1):copy_(tide.zeros(1), { copy = true }) end)
  end)
end)
