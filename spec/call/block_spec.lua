-- Scoped blocks on every way out of them.

local tide = require "tide"
local D = require "spec.support.device"

describe("a tide.scope that is dropped", function()
  D.watch(before_each, after_each)

  -- Each script in a process of its own: what it checks for is memory that is used after it was given back.
  local function run(script)
    local out, err, code = D.run({ "-W", "off", "-e", "warn '@off' " .. script .. " print 'done'" },
      { env = D.simulated and { TIDE_SIM_DEVICES = "2" } or nil })
    assert.are.equal("done\n", out, err)
    assert.are.equal(0, code, err)
  end

  it("serves the replicas that began inside it", function()
    run [[
      tide.scope()
      tide.parallel.apply(function()
        collectgarbage() collectgarbage()
        for i = 1, 100 do tide.ones(1) end
      end, { { 1 }, { 2 } })]]
  end)

  it("serves replicas that outlast the function it was opened in", function()
    run [[
      local function open()
        tide.scope()
        return coroutine.wrap(function() end)
      end
      local co = coroutine.wrap(function()
        local s = tide.scope()
        tide.parallel.apply(function() coroutine.yield() for i = 1, 100 do tide.ones(1) end end, { { 1 }, { 2 } })
      end)
      co()
      open()
      collectgarbage() collectgarbage()
      co() co()]]
  end)

  it("hands its tensors to the one around it", function()
    local x, y
    warn "@off"
    tide.scope(function()
      (function()
        tide.scope()
        x = D.tensor { 1. }
      end)()
      collectgarbage()
      collectgarbage()
      y = D.tensor { 2. }
      D.eq({ 1 }, x)
    end)
    warn "@on"
    D.raises("StateError", x.sum, x)
    D.raises("StateError", y.sum, y)
  end)

  it("is the current one no more where the block around it ends", function()
    local x, y
    warn "@off"
    local outer = tide.scope()
    tide.device_scope(D.dev, function()
      tide.scope()
      x = D.tensor { 1. }
    end)
    y = tide.keep(D.tensor { 2. })
    warn "@on"
    outer:close()
    D.raises("StateError", x.sum, x)
    D.eq({ 2 }, y)
  end)

  it("belongs to the coroutine that opened it: no other one ends it, by close() or by <close>", function()
    local function opened()
      return { tide.scope(), tide.device_scope(D.dev), tide.cuda.nvtx.range "range" }
    end
    local function by_name(block) block:close() end
    local function by_close(block) local _ <close> = block end
    local function by_close_of_an_error(block) local _ <close> = block error "mine" end
    for _, ends in ipairs { by_name, by_close, by_close_of_an_error } do
      local blocks = opened()
      for i = #blocks, 1, -1 do
        local here = tostring(tide.zeros(1).device)
        local co = coroutine.create(ends)
        local ok, e = coroutine.resume(co, blocks[i])
        if coroutine.close then coroutine.close(co) end -- not in LuaJIT
        if ends ~= by_close_of_an_error then
          assert.is_false(ok)
          assert.truthy(tostring(e):find("belongs to the coroutine that opened it", 1, true), tostring(e))
        end
        assert.are.equal(here, tostring(tide.zeros(1).device))
        assert.truthy(tostring(blocks[i]):find("(open)", 1, true), tostring(blocks[i]))
        blocks[i]:close()
      end
    end
  end)

  it("keeps no memory of its own", function()
    if D.tsan or os.getenv "ASAN_OPTIONS" then return pending "not under a sanitizer" end -- which hold on to what is given back
    local out = D.run { "-e", [[
      warn "@off"
      local function resident()
        for line in io.lines "/proc/self/status" do
          local n = line:match "^VmRSS:%s*(%d+)"
          if n then return tonumber(n) end
        end
      end
      local function open() tide.scope() tide.ones(1) end
      local function rounds(n) for _ = 1, n do tide.device_scope("cpu", open) end collectgarbage() collectgarbage() end
      rounds(5000)
      local before = resident()
      rounds(60000)
      local grown = resident() - before
      print(grown < 4096 or grown)]] }
    assert.are.equal("true\n", out)
  end)
end)

-- Every closure form: how to begin one around fn, and what shows that it is in force.
local kinds = {}
local function kind(name, begin, value) kinds[#kinds + 1] = { name = name, begin = begin, value = value } end

kind("device_scope", function(fn) return tide.device_scope(D.cuda and "cuda" or "cpu", fn) end,
  function() return tostring(tide.zeros(1).device) end)
kind("fork_rng", function(fn)
  return tide.random.fork_rng(function()
    tide.rand(5, { device = D.dev })
    return fn()
  end)
end, function()
  local state = D.cuda and tide.cuda.get_rng_state() or tide.get_rng_state()
  return table.concat(state:totable(), " ")
end)
kind("nvtx.range", function(fn) return tide.cuda.nvtx.range("block", fn) end, function()
  local depth = tide.cuda.nvtx.range_push "depth"
  tide.cuda.nvtx.range_pop()
  return depth
end)
kind("sync_debug_mode", function(fn) return tide.cuda.sync_debug_mode("warn", fn) end, tide.cuda.get_sync_debug_mode)
local path = os.tmpname()
kind("profiler.trace", function(fn) return tide.cuda.profiler.trace(fn, path) end, function()
  return (pcall(tide.cuda.profiler.trace, function() end, path)) -- one recording at a time
end)
if D.cuda then
  local cuda = tide.cuda
  local last, side, pool = D.devices - 1, cuda.Stream(), cuda.MemPool()
  kind("cuda.device", function(fn) return cuda.device(last, fn) end, cuda.current_device)
  kind("cuda.stream", function(fn) return cuda.stream(side, fn) end, function() return cuda.current_stream().cuda_stream end)
  kind("use_mem_pool", function(fn) return cuda.use_mem_pool(pool, fn) end, function() return true end)
  kind("caching_allocator_disabled", cuda.caching_allocator_disabled, cuda.is_caching_allocator_enabled)
  kind("memory.scope", function(fn) return cuda.memory.scope("block", fn) end, function() return true end)
  kind("graph", function(fn) return cuda.graph(cuda.CUDAGraph(), fn) end, function()
    return (pcall(cuda.synchronize))
  end)
end
if D.cuda then
  kind("scope", tide.scope, function() return tide.cuda.memory_allocated() end)
end

describe("a closure form", function()
  D.watch(before_each, after_each)
  teardown(function() os.remove(path) end)

  -- What shows that blocks are in force is the same before and after `leave(begin, body)`.
  local function check(leave)
    for _, k in ipairs(kinds) do
      collectgarbage()
      collectgarbage()
      local before = k.value()
      collectgarbage "stop" -- nothing is left to the collector
      local inside = false
      leave(k.begin, function(...)
        inside = true
        if k.name == "scope" then tide.ones(1000, { device = "cuda" }) end
        return ...
      end)
      collectgarbage "restart"
      assert.is_true(inside, k.name)
      assert.are.equal(before, k.value(), k.name)
    end
  end

  it("ends where an error ends its coroutine", function()
    check(function(begin, body)
      local co = coroutine.create(function()
        begin(function()
          body()
          error "inside"
        end)
      end)
      local ok, e = coroutine.resume(co)
      assert.is_true(not ok and e:find "inside" ~= nil)
    end)
  end)

  it("ends where the error comes after a yield, and from below other calls", function()
    check(function(begin, body)
      local mark = {}
      local co = coroutine.create(function()
        begin(function()
          body()
          coroutine.yield(7)
          table.sort({ 3, 2, 1 }, function() error(mark) end)
        end)
      end)
      local ok, seven = coroutine.resume(co)
      assert.is_true(ok and seven == 7)
      local e
      ok, e = coroutine.resume(co)
      assert.is_true(not ok and e == mark)
      assert.are.equal("dead", coroutine.status(co))
    end)
  end)

  it("ends where a metamethod began it in a coroutine that dies", function()
    check(function(begin, body)
      local co = coroutine.create(function()
        local t = setmetatable({}, { __len = function() return begin(function() body() error "inside" end) end })
        return #t
      end)
      assert.is_false((coroutine.resume(co)))
    end)
  end)

  it("ends where its coroutine is closed", function()
    check(function(begin, body)
      local co = coroutine.create(function() begin(function() body() coroutine.yield() end) end)
      assert.is_true((coroutine.resume(co)))
      assert.is_true(coroutine.close(co))
    end)
  end)

  it("ends inside others, the inner one first", function()
    check(function(begin, body)
      local co = coroutine.create(function()
        begin(function()
          body()
          tide.device_scope("cpu", function()
            tide.scope(function() tide.keep(5) end)
          end)
        end)
      end)
      assert.is_false((coroutine.resume(co)))
    end)
  end)

  it("gives back what its function does, in a coroutine too", function()
    check(function(begin, body)
      local got = coroutine.wrap(function()
        return table.pack(begin(function() return body(coroutine.yield(1), nil, 3) end))
      end)
      assert.are.equal(1, got())
      local list = got "two"
      if type(list[1]) == "table" then table.remove(list, 1) end
      assert.are.same({ "two", nil, 3 }, { list[1], list[2], list[3] })
    end)
  end)

  it("keeps an error that a pcall around it in the coroutine catches", function()
    check(function(begin, body)
      coroutine.wrap(function()
        local ok, e = pcall(begin, function()
          body()
          tide.keep(5)
        end)
        assert.are.equal("ArgumentError", not ok and e.kind)
        assert.is_truthy(e.traceback:find("block_spec.lua", 1, true))
      end)()
    end)
  end)

  it("ends in the other replicas where one fails, also in a coroutine that dies of it", function()
    local inside
    local co = coroutine.create(function()
      tide.parallel.apply({
        function()
          tide.scope(function()
            inside = D.tensor { 1. }
            inside:sum():item() -- the other one's turn
          end)
        end,
        function() error "the other" end,
      }, { {}, {} })
    end)
    local ok, e = coroutine.resume(co)
    assert.is_true(not ok and e:find "the other" ~= nil)
    D.raises("StateError", inside.sum, inside)
  end)

  it("leaves the traceback to the report of a replica", function()
    local function guilty_function(text) error(text) end
    local ok, e = pcall(tide.parallel.apply, function(text)
      pcall(tide.device_scope, "cpu", error, "caught")
      tide.scope(function()
        tide.device_scope("cpu", function() guilty_function(text) end)
      end)
    end, { { "deep" } })
    assert.is_false(ok)
    assert.is_truthy(e:find("guilty_function", 1, true), e)
    assert.is_nil(e:find("caught", 1, true), e)
  end)
end)

describe("replicas", function()
  it("take and give as many values as there are, also where a host has no library of coroutines", function()
    local out, err = D.run { "-e", [[
      local apply, many = tide.parallel.apply, {}
      for i = 1, 200 do many[i] = i end
      local function all(...) return ... end
      local co = coroutine.wrap(function() return apply(function(...) return coroutine.yield(...) end, { many, many }) end)
      assert(select("#", co()) == 200 and select("#", co(table.unpack(many))) == 200)
      local got = co(table.unpack(many))
      assert(#got == 2 and #got[1] == 200 and #got[2] == 200)
      coroutine, package.loaded.coroutine = nil, nil
      got = apply(all, { many, many })
      assert(#got == 2 and #got[1] == 200 and got[2][200] == 200)
      assert(not pcall(apply, error, { { "x" } }))
      print "done"]] }
    assert.are.equal("done\n", out, err)
  end)
end)
