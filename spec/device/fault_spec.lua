-- Faults of queued work: which launch it was, and what lives on. On simulated
-- devices, in processes of their own.

local tide = require "tide"
local D = require "spec.support.device"
if not D.simulated then return end

-- A loop of a thousand launches of different lines: launch k is op k % 40 of the list. Prints what the error says.
local loop = [[
  local tide = require "tide"
  local ops, lines = {}, {}
  local x = tide.ones(64, { device = "cuda" })
  for i = 1, 40 do
    ops[i] = assert(load("return function(x) x:" .. (i % 2 == 0 and "add_" or "mul_") .. "(1) end", "=line" .. i))()
  end
  tide.cuda.synchronize()
  local e
  for k = 1, 1000 do
    local ok, err = pcall(ops[(k - 1) % 40 + 1], x)
    if not ok then e = err break end
  end
  if not e then
    local ok, err = pcall(tide.cuda.synchronize)
    e = not ok and err
  end
  assert(e, "no error was told")
  print(e.kind, e.name, e.code, e.sticky, tostring(e.device), #e.candidates)
  for _, c in ipairs(e.candidates) do print("candidate", c.op, c.line, c.count, math.type(c.stream)) end
  print(e.message)
]]

local function run(k, kind, env)
  env = env or {}
  env.TIDE_SIM_FAULT = kind .. ":" .. k
  env.TIDE_SIM_SEED = env.TIDE_SIM_SEED or tostring(k)
  return (D.simulate(1, loop, env))
end

describe("a fault at a launch", function()
  -- tide.ones is launch 1 of the device.
  for _, kind in ipairs { "sticky", "launch" } do
    it("of a thousand is among at most 32 candidates: " .. kind, function()
      math.randomseed(4711)
      for _ = 1, 8 do
        local k = math.random(2, 1000)
        local out = run(k, kind)
        local head = out:match "^[^\n]*"
        local name, code, sticky, device, n = head:match "^AcceleratorError\t(%S+)\t(%d+)\t(%S+)\t(%S+)\t(%d+)$"
        assert(name, out)
        assert.are.same({ "cudaErrorLaunchFailure", "719", tostring(kind == "sticky"), "cuda:0" }, { name, code, sticky, device })
        local i = (k - 2) % 40 + 1
        local op = i % 2 == 0 and "add" or "mul"
        assert.is_truthy(out:find(("candidate\t%s\tline%d:1\t1\tinteger\n"):format(op, i), 1, true), k .. ": " .. out)
        assert.is_true(tonumber(n) <= 32, n .. " candidates")
        assert.is_truthy(out:find(("  %s at line%d:1"):format(op, i), 1, true), out)
        assert.is_truthy(out:find("may be reported late; set CUDA_LAUNCH_BLOCKING=1", 1, true), out)
      end
    end)

    it("is named exactly with CUDA_LAUNCH_BLOCKING: " .. kind, function()
      for _, k in ipairs { 2, 17, 500 } do
        local out = run(k, kind, { CUDA_LAUNCH_BLOCKING = "1" })
        local i = (k - 2) % 40 + 1
        local op = i % 2 == 0 and "add" or "mul"
        assert.is_truthy(out:find(("\tcuda:0\t1\ncandidate\t%s\tline%d:1\t1\tinteger\n%s: "):format(op, i, op), 1, true),
          k .. ": " .. out)
        assert.is_nil(out:find("reported late", 1, true))
      end
    end)
  end

  it("on one of several streams is found on its own", function()
    local out = D.simulate(1, [[
      local tide = require "tide"
      local cuda = tide.cuda
      local x, y = tide.ones(64, { device = "cuda" }), tide.ones(64, { device = "cuda" })
      local s = cuda.Stream()
      for _ = 1, 40 do y:neg_() end
      cuda.synchronize() -- what is known to be done is no candidate any more
      s:wait_stream(cuda.current_stream())
      local ok, e = pcall(function()
        cuda.stream(s, function() for _ = 1, 40 do x:exp_() end end) -- launches 43 to 82
        cuda.synchronize()
      end)
      assert(not ok)
      for _, c in ipairs(e.candidates) do
        assert(c.op == "exp" and c.stream == s.cuda_stream and c.line:match ":9$", c.op .. c.line)
      end
      print(#e.candidates, e.candidates[1].count <= 16)]], { TIDE_SIM_FAULT = "sticky:61" })
    assert.are.equal("1\ttrue\n", out)
  end)

  it("is told for copies too", function()
    local out = D.simulate(1, [[
      local tide = require "tide"
      local p = tide.ones(1000, { pin_memory = true })
      local x = tide.from_ptr(4096, { 1000 }, { device = "cuda" })
      local y = tide.zeros(1000, { device = "cuda" })
      tide.cuda.synchronize()
      local ok, e = pcall(function()
        x:copy_(p, { non_blocking = true })
        tide.cuda.synchronize()
      end)
      assert(not ok and e.name == "cudaErrorIllegalAddress" and e.code == 700 and e.sticky, tostring(e))
      print(#e.candidates, e.candidates[1].op, e.candidates[1].line:match ":(%d+)$")]])
    assert.are.equal("1\tcopy to the device\t7\n", out)
  end)

  it("has no candidates where there are none", function()
    local ok, e = pcall(error, {})
    assert.is_false(ok)
    assert.is_nil(e.candidates)
    local _, other = pcall(tide.zeros, -1)
    assert.is_nil(other.candidates)
  end)
end)

describe("after a sticky fault", function()
  local lost = [[
    local tide = require "tide"
    local cuda = tide.cuda
    local s, ev = cuda.Stream(), cuda.Event()
    local x, p = tide.ones(64, { device = "cuda" }), tide.ones(64, { pin_memory = true })
    cuda.synchronize()
    ev:record()
    pcall(function() x:add_(1) cuda.synchronize() end)
    local ok, first = pcall(cuda.synchronize)
    assert(not ok and first.sticky, tostring(first))
  ]]
  local function after(source, env, devices)
    env = env or {}
    env.TIDE_SIM_FAULT = "sticky:2"
    return (D.simulate(devices or 1, lost .. source, env))
  end

  it("every call fails with the first cause", function()
    after [[
      for name, f in pairs {
        launch = function() return x + 1 end, allocation = function() return tide.zeros(1, { device = "cuda" }) end,
        read = function() return x:totable() end, copy = function() return p:cuda() end, stream = function() return cuda.Stream() end,
        record = function() ev:record() end, query = function() return s:query() end, wait = function() s:wait_event(ev) end,
        sync = function() s:synchronize() end, event = function() ev:synchronize() end, sleep = function() cuda._sleep(1) end,
        pinned = function() return p:to("cuda", { non_blocking = true }) end, info = function() return cuda.mem_get_info() end,
      } do
        local ok, e = pcall(f)
        assert(not ok and e.kind == "AcceleratorError" and e.message == first.message and e.code == 719, name .. tostring(e))
        assert(#e.candidates == #first.candidates and e.candidates[1].line == first.candidates[1].line, name)
        assert(cuda.AcceleratorError.is(e))
      end]]
  end)

  it("fails fast, without asking the driver", function()
    after [[
      local function cost(other)
        local least = math.huge
        for _ = 1, 40 do
          local t = os.clock()
          for _ = 1, 100 do pcall(x.add_, x, other) end
          least = math.min(least, os.clock() - t)
        end
        return least
      end
      local lost, refused = cost(1), cost "1" -- an argument that is wrong is no question for the driver either
      assert(lost < 5 * refused, lost / refused)]]
  end)

  it("fails again from the same place for little more than raising a table", function()
    if D.tsan or os.getenv "ASAN_OPTIONS" then return pending "not under a sanitizer" end
    after [[
      local function cost(f, arg)
        local least = math.huge
        for _ = 1, 40 do
          local t = os.clock()
          for _ = 1, 500 do pcall(f, arg) end
          least = math.min(least, os.clock() - t)
        end
        return least
      end
      local lost, bare = cost(function() x:add_(1) end), cost(function() error {} end)
      assert(lost < 12 * bare, lost / bare)]]
  end)

  it("gives every call an error of its own with all fields", function()
    after [[
      local function again(n) -- the second and third are made from the first
        local list = {}
        for i = 1, n do local _, e = pcall(function() return x + 1 end) list[i] = e end
        return table.unpack(list)
      end
      local a, b, c = again(3)
      assert(rawequal(a, b) == false and rawequal(b, c) == false)
      for key in pairs(first) do
        local same = key == "op" or key == "where" or key == "traceback"
        assert(b[key] ~= nil and (same or b[key] == first[key] or type(b[key]) ~= "string"), key)
      end
      assert(a.traceback == b.traceback and a.where == b.where and tostring(a) == tostring(b))
      assert(cuda.AcceleratorError.is(b) and not cuda.OutOfMemoryError.is(b))
      assert(getmetatable(b) == getmetatable(a))
      b.message, b.note = "mine", 1
      assert(c.message == a.message and c.note == nil and tostring(b):find "mine")
      local fields = {}
      local next0 = next
      next = nil -- luacheck: ignore
      for key, value in pairs(c) do fields[key] = value end
      next = next0 -- luacheck: ignore
      for key, value in pairs(a) do assert(fields[key] == value, key) end
      assert(cuda.AcceleratorError.is(c) and next(c))
      local _, d = pcall(function() return
        x + 1 end)
      assert(d.where ~= a.where and d.traceback ~= a.traceback)
      local _, e = coroutine.resume(coroutine.create(function() return x + 1 end))
      assert(e.message == a.message and e.traceback ~= a.traceback)
      local function deep(n) if n == 0 then return x + 1 end return (deep(n - 1)) end
      local _, shallow = pcall(deep, 3)
      for _ = 1, 2 do
        local _, far = pcall(deep, 60)
        assert(far.traceback:find "%.%.%." and far.traceback ~= shallow.traceback)
      end
      -- What is kept holds no closure and nothing that one holds.
      local held = setmetatable({}, { __mode = "v" })
      for i = 1, 200 do
        local big = { i }
        held[i] = big
        pcall(function() return x + 1, big end)
      end
      collectgarbage() collectgarbage()
      assert(next(held) == nil)]]
  end)

  it("says in healthy() that the device serves no more, and of others that they do", function()
    after([[
      local lost, other, cpu = tide.device "cuda:0", tide.device "cuda:1", tide.device "cpu"
      local ok, e = lost:healthy()
      assert(ok == false and e.kind == "AcceleratorError" and e.sticky and e.message == first.message)
      assert(e.candidates[1].line == first.candidates[1].line and e.device == lost)
      assert(tide.device("cuda"):healthy() == false)
      assert(other:healthy() == true and cpu:healthy() == true and select("#", cpu:healthy()) == 1)
      tide.ones(3, { device = "cuda:1" })
      assert(other:healthy() == true)
      assert(lost.type == "cuda" and lost.index == 0)
      local refused, why = pcall(function() return lost.helthy end)
      assert(not refused and why.message:find("healthy", 1, true), tostring(why))
      local missing, text = pcall(tide.device("cuda:60").healthy, tide.device "cuda:60")
      assert(not missing and text.kind == "DeviceError", tostring(text))
      cuda.device_reset(0)
      assert(lost:healthy() == true)]], {}, 2)
  end)

  it("is noticed by healthy() itself, which waits for nothing", function()
    local out = D.simulate(1, [[
      local tide = require "tide"
      local d, x = tide.device "cuda:0", tide.ones(64, { device = "cuda" })
      tide.cuda.synchronize()
      assert(d:healthy())
      local D = require "spec.support.device"
      D.hold()
      assert(d:healthy() and not tide.cuda.current_stream():query())
      D.release()
      x:add_(1) -- the fault
      local ok, e
      repeat ok, e = d:healthy() until not ok
      print(e.name, e.sticky)]], { TIDE_DEVICE = "cuda", TIDE_SIM_FAULT = "sticky:2" })
    assert.are.equal("cudaErrorLaunchFailure\ttrue\n", out)
  end)

  it("is asked by healthy() without ending a capture", function()
    local out = D.simulate(1, [[
      local tide = require "tide"
      local d, x, g = tide.device "cuda:0", tide.ones(4, { device = "cuda" }), tide.cuda.CUDAGraph()
      tide.cuda.graph(g, function()
        x:add_(1)
        assert(d:healthy())
      end)
      g:replay()
      print(x[1]:item())]])
    assert.are.equal("2.0\n", out)
  end)

  it("the CPU, other devices, collection, close and exit go on", function()
    local out = after([[
      assert((tide.ones(3) + 1)[1]:item() == 2)
      assert(p[1]:item() == 1)
      local y = tide.ones(3, { device = "cuda:1" })
      assert((y + 1)[1]:item() == 2)
      assert(cuda.current_device() == 0 and cuda.device(1, cuda.current_device) == 1)
      assert(cuda.memory_allocated() > 0)
      x:free()
      assert(cuda.memory_allocated() == 0)
      s, ev, x = nil
      collectgarbage()
      collectgarbage()
      cuda.empty_cache()
      assert(pcall(tostring, first))
      print "alive"]], {}, 2)
    assert.are.equal("alive\n", out)
  end)

  it("tells what is lost and that the rest goes on", function()
    after [[
      assert(first.message:find("lost to this process", 1, true) and first.message:find("other devices", 1, true), first.message)
      assert(first.message:find("device_reset", 1, true), first.message) -- what helps]]
  end)

  it("ends the runner with code 1 when nobody catches it", function()
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    file:write [[
      local tide = require "tide"
      local x = tide.ones(64, { device = "cuda" })
      x:add_(1)
      tide.cuda.synchronize()]]
    file:close()
    local out, err, code = D.run({ path }, { env = { TIDE_SIM_DEVICES = "1", TIDE_SIM_FAULT = "sticky:2" } })
    os.remove(path)
    assert.are.equal(1, code, out .. err)
    assert.is_truthy(err:find("cudaErrorLaunchFailure", 1, true), err)
    assert.is_truthy(err:find("  add at ", 1, true), err)
  end)

  it("the prompt goes on", function()
    local out, err, code = D.run({ "-i" }, { env = { TIDE_SIM_DEVICES = "2", TIDE_SIM_FAULT = "sticky:2" }, input = [[
x = tide.ones(64, { device = "cuda" })
x:add_(1) tide.cuda.synchronize()
x:sum()
:mem
1 + 41
(tide.ones(2, { device = "cuda:1" }) * 21):sum():item()
]] })
    local all = out .. err
    assert.are.equal(0, code, all)
    assert.is_truthy(all:find("cudaErrorLaunchFailure", 1, true), all)
    assert.is_truthy(all:find("go on", 1, true), all)
    assert.is_truthy(all:find("\ncuda:0 +[^\n]*cudaErrorLaunchFailure[^\n]*\ncuda:1 [^\n]*free\nlua "), all)
    assert.are.equal(2, select(2, all:gsub("%f[%d]42", "")), all)
  end)
end)

describe("CUDA_LAUNCH_BLOCKING", function()
  it("and other switches of the environment are off where they are empty or 0", function()
    local source = [[
      local tide = require "tide"
      local cuda, g, y = tide.cuda, tide.cuda.CUDAGraph(), nil
      cuda.graph(g, function() y = tide.ones(3, { device = "cuda" }) end)
      g:replay()
      local first = g:output(y)
      g:replay() -- in the debug mode the first result is gone
      print(cuda.launch_blocking(), cuda.sanitizer.is_enabled(), not cuda.is_caching_allocator_enabled(), not pcall(first.totable, first))]]
    for value, on in pairs { ["1"] = "true", ["0"] = "false", [""] = "false" } do
      local out = D.simulate(1, source, { TIDE_SIM_CLOCK = value == "" and "" or "real", CUDA_LAUNCH_BLOCKING = value, TIDE_CUDA_SANITIZER = value,
        TIDE_NO_CUDA_MEMORY_CACHING = value, TIDE_GRAPH_DEBUG = value })
      assert.are.equal(("\t" .. on):rep(4):sub(2) .. "\n", out, value)
    end
  end)

  it("makes every launch complete before the next line", function()
    D.simulate(1, [[
      local tide = require "tide"
      local x = tide.ones(64, { device = "cuda" })
      for _ = 1, 50 do
        x:add_(1)
        assert(tide.cuda.current_stream():query())
      end]], { CUDA_LAUNCH_BLOCKING = "1" })
  end)
end)

describe("device_reset", function()
  it("brings a lost device back, without what lay on it", function()
    D.simulate(2, [[
      local tide = require "tide"
      local cuda = tide.cuda
      local s, ev, other_s, token = cuda.Stream(), cuda.Event(), cuda.Stream(), cuda.graph_pool_handle()
      local x, p, c = tide.ones(64, { device = "cuda" }), tide.ones(64, { pin_memory = true }), tide.ones(64)
      cuda.graph(cuda.CUDAGraph(), function() return x + 1 end)
      local view, other, bytes = x:view(8, 8), tide.ones(3, { device = "cuda:1" }), x:storage()
      cuda.synchronize()
      ev:record(s)
      cuda.set_stream(s)
      assert(not pcall(function() for _ = 1, 20 do x:add_(1) end cuda.synchronize() end))
      local ok, e = pcall(function() return x + 1 end)
      assert(not ok and e.sticky)
      cuda.device_reset()
      for name, f in pairs {
        op = function() return x + 1 end, view = function() return view:sum() end, read = function() return x:totable() end,
        pinned = function() return p:sum() end, other = function() return other:item() end, into = function() x:copy_(c) end,
        stream = function() s:synchronize() end, block = function() cuda.stream(s, print) end, event = function() ev:record() end,
        wait = function() cuda.current_stream():wait_stream(s) end, use = function() tide.ones(3):cuda():record_stream(s) end,
        pool = function() cuda.graph(cuda.CUDAGraph(), { pool = token }, print) end, printing = function() return tostring(x) end,
      } do
        local ok, e = pcall(f)
        assert(not ok and e.kind == "StateError", name .. ": " .. tostring(e))
      end
      assert(s ~= other_s and s ~= cuda.ExternalStream(0))
      cuda.empty_cache()
      assert(c:sum():item() == 64)
      assert(cuda.memory_allocated(0) == 0 and cuda.memory_reserved(0) == 0 and cuda.memory_allocated(1) == 0)
      local y = c:cuda() + 1
      assert(y:sum():item() == 128 and cuda.current_stream() == cuda.default_stream())
      local q = tide.ones(4, { pin_memory = true }):to("cuda", { non_blocking = true })
      assert(q:sum():item() == 4)
      cuda.stream(cuda.Stream(), function() assert(tide.zeros(5, { device = "cuda:1" }):sum():item() == 0) end)
      local g = cuda.CUDAGraph()
      cuda.graph(g, function() y:add_(1) end)
      g:replay()
      g:replay()
      assert(y:sum():item() == 256)
      y:sub_(2)
      g:reset()
      x, p, view, other, s, ev, bytes = nil
      collectgarbage()
      collectgarbage()
      assert(y:sum():item() == 128)
      y, q = nil
      collectgarbage()
      assert(cuda.memory_allocated(0) == 0, cuda.memory_allocated(0))
      cuda.device_reset(1)
      cuda.device_reset(0)
      assert(c:cuda(1):sum():item() == 64)]], { TIDE_SIM_FAULT = "sticky:18" })
  end)

  it("refuses what is no device, and a capture", function()
    D.raises("DeviceError", tide.cuda.device_reset, "cpu")
    D.raises("DeviceError", tide.cuda.device_reset, 63)
    D.raises("ArgumentError", tide.cuda.device_reset, {})
    D.raises("ArgumentError", tide.cuda.device_reset, 0, 1)
    D.raises("ArgumentError", tide.cuda.device_reset, 0, { all = true })
    local x = tide.zeros(3, { device = "cuda" })
    local e = D.raises("StateError", tide.cuda.graph, tide.cuda.CUDAGraph(), function()
      x:add_(1)
      tide.cuda.device_reset()
    end)
    assert.is_truthy(e.message:find("device_reset", 1, true), e.message)
    assert.are.equal(0, x:sum():item())
  end)
end)
