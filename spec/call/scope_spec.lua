-- Scoped blocks in both forms, and tide.scope.

local tide = require "tide"
local D = require "spec.support.device"

describe("tide.scope", function()
  D.watch(before_each, after_each)

  it("frees what was made inside and gives back what is returned", function()
    local inside
    local a, b, c = tide.scope(function()
      inside = D.tensor { 1., 2. }
      local x = inside + 1
      return x * 2, 5, { deep = { x } }
    end)
    D.eq({ 4, 6 }, a)
    assert.are.equal(5, b)
    D.eq({ 2, 3 }, c.deep[1])
    D.raises("StateError", function() return inside + 1 end)
  end)

  it("keeps what is kept, for good", function()
    local kept
    tide.scope(function()
      tide.scope(function()
        kept = tide.keep(D.tensor { 7. })
        assert.is_true(tide.keep(kept) == kept)
      end)
    end)
    D.eq({ 7 }, kept)
    D.raises("ArgumentError", tide.keep, 5)
  end)

  it("hands what survives an inner scope to the outer one", function()
    local x
    tide.scope(function()
      x = tide.scope(function() return D.tensor { 1. } end)
      D.eq({ 1 }, x)
    end)
    D.raises("StateError", function() return x:sum() end)
  end)

  it("takes cycles in what is returned", function()
    local t = tide.scope(function()
      local t = { x = D.tensor { 3. } }
      t.self = t
      return t
    end)
    D.eq({ 3 }, t.x)
  end)

  it("looks through what is returned to any depth", function()
    local t = tide.scope(function()
      local t = { D.tensor { 5. } }
      for _ = 1, 300000 do t = { t } end
      return t
    end)
    while type(t) == "table" do t = t[1] end
    D.eq({ 5 }, t)
  end)

  it("frees on an error and passes it on with its traceback", function()
    local inside
    local ok, e = pcall(tide.scope, function()
      inside = D.tensor { 1. }
      error({ mine = true })
    end)
    assert.is_false(ok)
    assert.is_true(e.mine)
    D.raises("StateError", function() return inside:sum() end)
    local ok2, e2 = pcall(tide.scope, function() return D.tensor({ 1. }) + "x" end)
    assert.is_false(ok2)
    assert.is_truthy(e2.traceback == nil or type(e2.traceback) == "string")
  end)

  it("has an object form", function()
    local inside
    do
      local _ <close> = tide.scope()
      inside = D.tensor { 1. }
      D.eq({ 1 }, inside)
    end
    D.raises("StateError", function() return inside:sum() end)
    local s = tide.scope()
    local x = D.tensor { 1. }
    s:close()
    s:close() -- again is no error
    D.raises("StateError", function() return x:sum() end)
  end)

  it("passes arguments where the function takes them and refuses others", function()
    local function all(...) return select("#", ...), ... end
    assert.are.same({ 3, 1, nil, 3 }, { tide.scope(all, 1, nil, 3) })
    assert.are.same({ 3, 1, nil, 3 }, { tide.device_scope(D.dev, all, 1, nil, 3) })
    D.raises("ArgumentError", tide.scope, 5)
  end)

  it("does not free what views outside still use", function()
    local base = D.tensor { 1., 2., 3. }
    local view = tide.scope(function() return base:narrow(1, 2, 2) end)
    D.eq({ 2, 3 }, view)
    D.eq({ 1, 2, 3 }, base)
  end)

  it("takes tensors that are freed or collected inside", function()
    local x
    local left, kept = setmetatable({}, { __mode = "k" }), D.tensor { 3. }
    local r = tide.scope(function()
      x = D.tensor { 1. }
      x:free()
      for _ = 1, 100 do left[D.tensor { 1. }] = true end
      collectgarbage()
      return kept + 1
    end)
    collectgarbage()
    D.eq({ 4 }, r)
    D.raises("StateError", function() return x + 1 end)
    if not rawget(_G, "jit") then assert.is_nil(next(left)) end -- compiled code may hold some
  end)

  if D.cuda then
    it("gives the bytes back at once", function()
      local before = tide.cuda.memory_allocated()
      collectgarbage "stop"
      for _ = 1, 50 do
        tide.scope(function()
          local x = tide.zeros(1000, { device = "cuda" })
          return nil, (x + 1) * 2
        end)
      end
      local held = tide.cuda.memory_allocated() - before
      collectgarbage "restart"
      assert.is_true(held <= 51 * 4096, held)
    end)
  end
end)

describe("scope objects", function()
  D.watch(before_each, after_each)

  it("close in order; another order is an error that changes nothing", function()
    local outer, inner = tide.scope(), tide.scope()
    D.raises("StateError", outer.close, outer)
    inner:close()
    outer:close()
  end)

  it("warn when they are dropped", function()
    local _, err = D.run({ "-e", [[
      local function open()
        local s = tide.scope()
      end
      open()
      collectgarbage()
      collectgarbage()
      print "done"]] })
    assert.is_truthy(err:lower():find "warning", err)
    assert.is_truthy(err:find(":2 was dropped", 1, true), err)
  end)

  it("of every kind warn with their line, and restore nothing late", function()
    if not D.simulated then return pending "needs simulated devices" end
    for _, block in ipairs { "cuda.device(1)", "cuda.device_of(x)", "cuda.stream(cuda.Stream(1))", "cuda.StreamContext(cuda.Stream(1))",
      "cuda.use_mem_pool(cuda.MemPool(), 1)", "cuda.sync_debug_mode(1)", "cuda.caching_allocator_disabled()", "tide.device_scope(1)",
      "cuda.memory.scope 'x'", "cuda.device(1, nil)" } do
      local out, err = D.simulate(2, ([[
        local tide = require "tide"
        local cuda = tide.cuda
        local x = tide.zeros(1, { device = "cuda:1" })
        do
          local s = %s
        end
        collectgarbage()
        collectgarbage()
        print(cuda.current_device())]]):format(block))
      assert.is_truthy(err:find(":5 was dropped", 1, true), block .. ": " .. err)
      local selects = block:find "device%(1" or block:find "device_of" or block:find "Stream%(1"
      assert.are.equal(selects and "1\n" or "0\n", out, block)
    end
  end)
end)

describe("tide.device_scope", function()
  it("is undone after an error", function()
    pcall(tide.device_scope, D.dev, function() error "x" end)
    assert.are.equal("cpu", tostring(tide.zeros(1).device))
  end)
end)

if not D.cuda then return end
local cuda = tide.cuda

describe("device and stream blocks", function()
  D.watch(before_each, after_each)
  local last = D.devices - 1

  it("restore after an error, and the error is the same", function()
    local s = cuda.Stream()
    local before = cuda.current_stream()
    local mark = {}
    local ok, e = pcall(cuda.stream, s, function() error(mark) end)
    assert.is_true(not ok and e == mark)
    assert.is_true(cuda.current_stream() == before)
    ok, e = pcall(cuda.device, last, function() error "plain text" end)
    assert.is_true(not ok and e:find "plain text" ~= nil)
    assert.are.equal(0, cuda.current_device())
    pcall(function()
      local _ <close> = cuda.device(last)
      error "x"
    end)
    assert.are.equal(0, cuda.current_device())
  end)

  it("keep the traceback of the place that failed", function()
    local trace
    xpcall(cuda.device, function(e) trace = debug.traceback(e) end, last, function()
      local function guilty_function() error "deep" end
      guilty_function()
    end)
    assert.is_truthy(trace:find("guilty_function", 1, true), trace)
  end)

  it("nest", function()
    local a, b = cuda.Stream(), cuda.Stream()
    cuda.stream(a, function()
      cuda.device(last, function()
        cuda.stream(b, function()
          assert.is_true(cuda.current_stream() == b)
          assert.are.equal(0, cuda.current_device())
        end)
        assert.are.equal(last, cuda.current_device())
      end)
      assert.is_true(cuda.current_stream() == a)
    end)
  end)

  it("pass many arguments and results", function()
    local list = {}
    for i = 1, 200 do list[i] = i end
    local got = table.pack(cuda.device(0, function(...) return ... end, table.unpack(list)))
    assert.are.equal(200, got.n)
    assert.are.equal(0, select("#", cuda.device(0, function() end)))
  end)

  it("belong to the coroutine that runs them", function()
    local s = cuda.Stream()
    local co = coroutine.wrap(function()
      cuda.device(last, function()
        assert.are.equal(last, cuda.current_device())
        coroutine.yield "in device"
        assert.are.equal(last, cuda.current_device())
      end)
      assert.are.equal(0, cuda.current_device())
      cuda.stream(s, function()
        coroutine.yield "in stream"
        assert.is_true(cuda.current_stream() == s)
      end)
      return "end"
    end)
    local default = cuda.current_stream()
    assert.are.equal("in device", co())
    assert.are.equal(0, cuda.current_device())
    assert.are.equal("in stream", co())
    assert.is_true(cuda.current_stream() == default)
    assert.are.equal("end", co())
    assert.are.equal(0, cuda.current_device())
  end)

  it("are inherited by a coroutine from the one that resumed it, at its first call", function()
    local co = coroutine.create(function()
      local first = cuda.current_device()
      coroutine.yield(first)
      return cuda.current_device()
    end)
    local _, first = cuda.device(last, function() return coroutine.resume(co) end)
    assert.are.equal(last, first)
    assert.are.equal(0, cuda.current_device())
    local _, second = coroutine.resume(co)
    assert.are.equal(last, second)
    local late = coroutine.wrap(function() -- what counts is who has resumed it when it first calls tide
      coroutine.yield()
      return cuda.current_device()
    end)
    late()
    assert.are.equal(last, cuda.device(last, late))
  end)

  it("are inherited also after other coroutines have run there", function()
    local function first() return coroutine.wrap(cuda.current_device)() end
    local twice = coroutine.wrap(function()
      while true do
        cuda.current_device()
        coroutine.yield()
      end
    end)
    cuda.device(last, function()
      for _ = 1, 4 do assert.are.equal(last, first()) end
    end)
    twice()
    coroutine.wrap(function() -- resumes a coroutine that another one has resumed before
      cuda.set_device(last)
      first()
      twice()
      assert.are.equal(last, first())
    end)()
    assert.are.equal(0, first())
  end)

  it("hold also where a finaliser makes the first call in their coroutine", function()
    collectgarbage()
    local mode = collectgarbage "generational"
    collectgarbage "stop"
    setmetatable({}, { __gc = function() cuda.set_device(last) end })
    coroutine.wrap(function()
      collectgarbage "restart"
      cuda.current_device()
      for _ = 1, 3 do collectgarbage() end
      cuda.set_device(last)
      cuda.device(0, function() end)
      assert.are.equal(last, cuda.current_device())
    end)()
    collectgarbage(mode)
    assert.are.equal(0, cuda.current_device())
  end)

  it("serve a coroutine that a finaliser resumes after it was collected", function()
    local got
    local function leave_behind()
      local co = coroutine.create(function()
        tide.scope(function() end)
        coroutine.yield()
        local x = tide.scope(function() return tide.ones(2, { device = "cuda" }) end)
        got = { cuda.device(last, function() return cuda.current_device(), x:sum():item() end) }
      end)
      setmetatable({ co }, { __gc = function(o) assert(coroutine.resume(o[1])) end })
      coroutine.resume(co)
    end
    leave_behind()
    for _ = 1, 2 do collectgarbage() end
    assert.are.same({ last, 2 }, got)
    assert.are.equal(0, cuda.current_device())
  end)

  -- The collector finds dead coroutines in the middle of operations; each result below would count from 0 if the
  -- operation lost what its own coroutine has selected.
  it("outlast the collection of other coroutines during an operation", function()
    local x, wrong = tide.tensor { 1., 5., 2. }, 0
    local mode = collectgarbage("incremental", 1, 400) -- collects all the time
    collectgarbage()
    for _ = 1, 300 do
      coroutine.wrap(function() return x:sum() end)()
      if x:argmax():item() ~= 2 then wrong = wrong + 1 end
    end
    collectgarbage("incremental", 200, 100)
    collectgarbage(mode)
    assert.are.equal(0, wrong)
  end)

  it("outlast finalisers that run coroutines during an operation", function()
    if D.devices < 2 then return pending "needs two devices" end
    local options, wrong = { device = "cuda" }, 0
    local meta = { __gc = function() coroutine.wrap(function() cuda.set_device(last) end)() end }
    local mode = collectgarbage("incremental", 1, 400)
    collectgarbage()
    for _ = 1, 100 do
      for _ = 1, 10 do setmetatable({}, meta) end
      for _ = 1, 30 do
        if tide.empty(3, options).device.index ~= 0 then wrong = wrong + 1 end
      end
    end
    collectgarbage("incremental", 200, 100)
    collectgarbage(mode)
    assert.are.equal(0, wrong)
  end)

  it("of every kind outlast finalisers that run coroutines while they are made and left", function()
    local side, pool, wrong = cuda.Stream(), cuda.MemPool(), {}
    local meta = { __gc = function() coroutine.wrap(function() cuda.set_device(0) end)() end }
    local function make() return tide.ones(2, { device = "cuda" }) end
    local loader = tide.data.loader({ 1 }, { device = "cuda" })
    local kinds = {
      device = function() local _ <close> = cuda.device(last) end,
      stream = function() local _ <close> = cuda.stream(side) end,
      pool = function() local _ <close> = cuda.use_mem_pool(pool) end,
      label = function() local _ <close> = cuda.memory.scope "label" end,
      counts = function() assert(select(2, cuda.memory.scope("label", make)).allocations == 1) end,
      scope = function()
        local x
        do
          local _ <close> = tide.scope()
          x = make()
        end
        assert(not pcall(x.sum, x))
      end,
      made = function() assert(cuda.device(last, function() return cuda.Stream().device.index end) == last) end,
      batch = function()
        local it = cuda.device(last, function() return loader:iter() end)
        assert(select(2, it()).device.index == last)
      end,
    }
    local mode = collectgarbage("incremental", 1, 400)
    collectgarbage() -- from here on the next cycle begins at once
    for _ = 1, 6 do
      for name, f in pairs(kinds) do
        for _ = 1, 10 do setmetatable({}, meta) end
        for _ = 1, 10 do
          local ok, e = pcall(f)
          if not ok then wrong[#wrong + 1] = name .. ": " .. tostring(e) end
        end
        if cuda.current_device() ~= 0 or cuda.current_stream() == side then wrong[#wrong + 1] = name .. " lasts" end
      end
    end
    collectgarbage("incremental", 200, 100)
    collectgarbage(mode)
    assert.are.equal("", table.concat(wrong, "\n"))
  end)

  it("are lost with a coroutine that is dropped inside", function()
    warn "@off" -- each of them is reported
    for _ = 1, 20 do
      local co = coroutine.wrap(function() cuda.device(last, coroutine.yield) end)
      co()
    end
    assert.are.equal(0, cuda.current_device()) -- and no coroutine is the last that called
    collectgarbage()
    collectgarbage()
    warn "@on"
    assert.are.equal(0, cuda.current_device())
  end)

  it("of functions that run side by side are blocks of their own", function()
    local list = {}
    for i = 1, 40 do -- more than serve again
      list[i] = coroutine.wrap(function()
        cuda.device(i % D.devices, function()
          coroutine.yield(cuda.current_device())
          cuda.device((i + 1) % D.devices, function() coroutine.yield(cuda.current_device()) end)
          coroutine.yield(cuda.current_device())
        end)
        return cuda.current_device()
      end)
      assert.are.equal(i % D.devices, list[i]())
    end
    for step = 1, 3 do
      for i = 40, 1, -1 do
        assert.are.equal(({ (i + 1) % D.devices, i % D.devices, 0 })[step], list[i]())
      end
    end
    assert.are.equal(0, cuda.current_device())
  end)

  it("refuse to close around a function that runs", function()
    local outer = cuda.device(last)
    cuda.device(0, function()
      local e = D.raises("StateError", outer.close, outer)
      assert.is_truthy(e.message:find("running", 1, true), e.message)
      assert.are.equal(0, cuda.current_device())
    end)
    assert.are.equal(last, cuda.current_device())
    outer:close()
    assert.are.equal(0, cuda.current_device())
  end)

  it("are closed by coroutine.close", function()
    local co = coroutine.create(function()
      local _ <close> = cuda.device(last)
      coroutine.yield()
    end)
    coroutine.resume(co)
    assert.is_true(coroutine.close(co))
    assert.are.equal(0, cuda.current_device())
  end)

  it("are not closed by another coroutine, whose own blocks stay", function()
    local device, arena
    local co = coroutine.wrap(function()
      device, arena = cuda.device(last), tide.scope()
      local x = tide.ones(4, { device = "cuda" })
      coroutine.yield()
      for _ = 1, 3 do x = x + 1 end
      assert.are.equal(last, cuda.current_device())
      D.eq({ 4, 4, 4, 4 }, x)
      arena:close()
      device:close()
      D.raises("StateError", x.sum, x)
    end)
    co()
    tide.scope(function()
      local mine = tide.ones(4, { device = "cuda" })
      for _, block in ipairs { arena, device } do
        local e = D.raises("StateError", block.close, block)
        assert.is_truthy(e.message:find("coroutine", 1, true) and e.message:find("scope_spec.lua:%d"), e.message)
        D.raises("StateError", function() local _ <close> = block end)
      end
      assert.are.equal(0, cuda.current_device())
      D.eq({ 2, 2, 2, 2 }, mine + 1)
    end)
    co()
    assert.are.equal(0, cuda.current_device())
    device:close() -- again, wherever that is
  end)

  it("take a scope inside", function()
    local x = cuda.device(last, function()
      return tide.scope(function() return tide.ones(2, { device = "cuda" }) * 3 end)
    end)
    assert.are.equal("cuda:" .. last, tostring(x.device))
    D.eq({ 3, 3 }, x)
  end)
end)
