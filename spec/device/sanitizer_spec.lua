-- The stream sanitizer: what it finds, what it says, what it costs.

local tide = require "tide"
local D = require "spec.support.device"
local sanitizer = tide.cuda.sanitizer
local cuda, on = tide.cuda, { device = "cuda" }

-- The suite may run with the sanitizer on.
local was = sanitizer.is_enabled()
local function restore()
  if was then sanitizer.enable() else sanitizer.disable() end
end

local function settle()
  restore()
  collectgarbage()
  collectgarbage()
  if D.cuda then cuda.synchronize_all() end
end

local function line_of(access) return tonumber((access.line or ""):match ":(%d+)$") end

-- The two operations of a race that an error or an entry of errors() tells, as "add 3 write".
local function told(e)
  local function one(a) return a.op .. " " .. line_of(a) .. " " .. a.access end
  return one(e.earlier), one(e.later)
end

describe("the stream sanitizer", function()
  D.watch(before_each, after_each, settle)

  it("is switched on and off, more than once too", function()
    sanitizer.disable()
    sanitizer.disable()
    assert.is_false(sanitizer.is_enabled())
    for _, opts in ipairs { {}, { action = "error" }, { action = "warn" } } do
      sanitizer.enable(opts)
      assert.is_true(sanitizer.is_enabled())
      assert.are.same({ count = 0 }, sanitizer.errors())
    end
    sanitizer.enable()
    sanitizer.disable()
    assert.is_false(sanitizer.is_enabled())
  end)

  it("refuses wrong arguments and stays as it was", function()
    sanitizer.disable()
    D.raises("ValueError", sanitizer.enable, { action = "count" })
    D.raises("ArgumentError", sanitizer.enable, { action = 1 })
    D.raises("ArgumentError", sanitizer.enable, { aktion = "warn" })
    D.raises("ArgumentError", sanitizer.enable, "warn")
    D.raises("ArgumentError", sanitizer.enable, print)
    assert.is_false(sanitizer.is_enabled())
  end)

  it("has its help", function()
    for _, name in ipairs { "enable", "disable", "errors", "is_enabled" } do
      assert.is_string(tide.help("tide.cuda.sanitizer." .. name))
    end
  end)

  it("leaves the CPU alone", function()
    sanitizer.enable()
    local x = tide.ones(10)
    x:add_(1):mul_(2)
    assert.are.equal(40, x:sum():item())
    assert.are.same({ count = 0 }, sanitizer.errors())
  end)
end)

if not D.cuda then return end
local races = require "spec.support.races"

describe("the corpus", function()
  D.watch(before_each, after_each, settle)

  -- Runs a program under the sanitizer: whether it ended well, the error, errors(), the lines it marked.
  local function run(program)
    local p = { s = cuda.Stream(), t = cuda.Stream(), u = cuda.Stream(), d = cuda.current_stream() }
    local first, second
    function p.first() first = debug.getinfo(2, "l").currentline end
    function p.second(fn) second = fn and debug.getinfo(fn, "S").linedefined or debug.getinfo(2, "l").currentline end
    sanitizer.enable()
    local ok, e = pcall(program.fn, p)
    local list = sanitizer.errors()
    cuda.synchronize_all()
    restore()
    return ok, e, list, first, second
  end

  it("is large enough", function()
    assert.is_true(#races.racy >= 50 and #races.clean >= 50)
  end)

  for _, program in ipairs(races.racy) do
    it("finds the race: " .. program.name, function()
      if D.devices < program.devices then return pending "needs more devices" end
      local ok, e, list, first, second = run(program)
      assert(not ok, "the race was not found")
      assert(type(e) == "table" and e.kind == "StateError" and e.earlier, tostring(e))
      assert.are.equal(first, line_of(e.earlier), e.message)
      assert.are.equal(second, line_of(e.later), e.message)
      assert.are.equal(1, #list)
      assert.are.equal(list[1].message:match ": (.*)", e.message:match ": (.*)")
    end)
  end

  for _, program in ipairs(races.clean) do
    it("raises no alarm: " .. program.name, function()
      if D.devices < program.devices then return pending "needs more devices" end
      local ok, e, list = run(program)
      assert(ok, tostring(e))
      assert.are.same({ count = 0 }, list)
    end)
  end
end)

describe("a race", function()
  local s
  D.watch(before_each, after_each, function()
    s = nil
    settle()
  end)
  before_each(function() s = cuda.Stream() end)

  it("is told with both operations, the bytes and the missing wait", function()
    sanitizer.enable()
    local x = tide.empty({ 100, 100 }, on):normal_()
    local line = debug.getinfo(1, "l").currentline
    local e = D.raises("StateError", cuda.stream, s, function() return x:select(1, 3):sum() end)
    local a, b = told(e)
    assert.are.equal(("normal %d write"):format(line - 1), a)
    assert.are.equal(("sum %d read"):format(line + 1), b)
    assert.are.same({ 800, 1199 }, e.bytes)
    assert.are.equal(cuda.default_stream().cuda_stream, e.earlier.stream)
    assert.are.equal(s.cuda_stream, e.later.stream)
    assert.are.equal("cuda:0", tostring(e.earlier.device))
    assert.are.equal("cuda:0", tostring(e.later.device))
    assert.matches("^sum: race: ", e.message)
    assert.matches("sanitizer_spec.lua:" .. line - 1, e.message, 1, true)
    assert.matches("the default stream of cuda:0", e.message, 1, true)
    assert.matches("nothing makes stream 0x%x+ of cuda:0 wait for the default stream", e.edge)
    assert.matches("wait_stream", e.edge)
  end)

  it("says that a wait was there but too early", function()
    local x = tide.zeros(8, on)
    sanitizer.enable()
    x:fill_(1)
    s:wait_stream(cuda.current_stream())
    x:fill_(2)
    local e = D.raises("StateError", cuda.stream, s, function() return x + 1 end)
    assert.matches("only up to an earlier point", e.edge)
  end)

  it("of the host names no stream and asks for a synchronize", function()
    local x, host = tide.zeros(8, on), tide.zeros(8, { pin_memory = true })
    cuda.synchronize()
    sanitizer.enable()
    host:copy_(x, { non_blocking = true })
    local e = D.raises("StateError", function() return host[8]:item() end)
    assert.is_nil(e.later.stream)
    assert.are.equal("cpu", tostring(e.later.device))
    assert.are.same({ 28, 31 }, e.bytes)
    assert.matches("the host has not waited", e.edge)
    assert.matches("synchronize", e.edge)
  end)

  it("of a replay names the line of the capture and that of the replay", function()
    local x, y = tide.zeros(8, on), nil
    cuda.synchronize()
    sanitizer.enable()
    local g = cuda.CUDAGraph()
    cuda.graph(g, function() y = x + 1 end)
    g:replay()
    local line = debug.getinfo(1, "l").currentline
    local e = D.raises("StateError", cuda.stream, s, function() return y:sum() end)
    assert.are.equal(line - 2, line_of(e.earlier))
    assert.are.equal(line - 1, tonumber(e.earlier.replay:match ":(%d+)$"))
    assert.is_nil(e.later.replay)
  end)

  it("keeps the operation from being done, and the program goes on", function()
    local x = tide.zeros(8, on)
    cuda.synchronize()
    sanitizer.enable()
    cuda.stream(s, function() x:fill_(1) end)
    D.raises("StateError", x.fill_, x, 2)
    cuda.current_stream():wait_stream(s)
    D.eq({ 1, 1, 1, 1, 1, 1, 1, 1 }, x)
    x:fill_(2)
    D.eq(2, x[8])
    assert.are.equal(1, #sanitizer.errors())
  end)

  it("leaves generators where they were, those of graphs too", function()
    sanitizer.disable()
    local x, g = tide.zeros(100, on), cuda.CUDAGraph()
    local function draws(f)
      cuda.manual_seed(5)
      x:fill_(1)
      f()
      cuda.synchronize()
      return x:totable()
    end
    local function elsewhere(f) D.raises("StateError", cuda.stream, s, f) end
    local function normal() x:normal_() end
    local function shuffle() tide.randperm(100, { device = "cuda", dtype = "int64" }) end
    local first = draws(normal)
    local second = draws(function() shuffle() normal() end)
    sanitizer.enable()
    assert.are.same(first, draws(function() elsewhere(normal) normal() end))
    assert.are.same(second, draws(function() elsewhere(normal) shuffle() normal() end))
    cuda.graph(g, function()
      local here = cuda.current_stream()
      s:wait_stream(here)
      x:mul_(2)
      elsewhere(normal)
      here:wait_stream(s)
      normal()
    end)
    local function replay() g:replay() end
    cuda.stream(s, function()
      s:wait_stream(cuda.default_stream())
      replay()
    end)
    cuda.synchronize()
    assert.are.same(first, draws(function()
      elsewhere(replay)
      cuda.synchronize()
      replay()
    end))
  end)

  it("leaves every generator of a graph where it was, however many draws it has of each", function()
    local x, g, own = tide.zeros(100, on), cuda.CUDAGraph(), {}
    cuda.synchronize()
    sanitizer.enable()
    for i = 1, 3 do own[i] = tide.Generator("cuda"):manual_seed(i) end
    cuda.graph(g, function()
      for i, generator in ipairs(own) do
        for _ = 1, i do x:normal_(0, 1, { generator = generator }) end
      end
    end)
    local function offsets()
      local list = {}
      for i, generator in ipairs(own) do list[i] = generator:get_offset() end
      return list
    end
    local function replay() g:replay() end
    cuda.stream(s, replay) -- a replay elsewhere would wait for this one's stream
    cuda.synchronize()
    local before = offsets()
    x:fill_(1)
    D.raises("StateError", cuda.stream, s, replay)
    assert.are.same(before, offsets())
    cuda.synchronize()
    replay()
    for i, offset in ipairs(offsets()) do assert.are.equal(before[i] + 4 * i, offset) end
  end)

  it("is a warning, once for each pair of lines, and counted, if that is asked for", function()
    local _, err = D.simulate(1, [[
      local tide = require "tide"
      local cuda = tide.cuda
      local s, x = cuda.Stream(), tide.zeros(8, { device = "cuda" })
      cuda.synchronize()
      cuda.sanitizer.enable { action = "warn" }
      for i = 1, 10 do
        cuda.stream(s, function() x:add_(1) end)
        x:add_(1)
      end
      x:mul_(2)
      local list = cuda.sanitizer.errors()
      assert(#list == 3, #list)
      assert(list[1].count == 10 and list[2].count == 9 and list[3].count == 1)
      assert(list.count == 20)
      cuda.sanitizer.disable()
      assert(#cuda.sanitizer.errors() == 3, "errors stay after disable")
      cuda.sanitizer.enable()
      assert(#cuda.sanitizer.errors() == 0 and cuda.sanitizer.errors().count == 0)]],
      { TIDE_CUDA_SANITIZER = "0", TSAN_OPTIONS = "report_bugs=0" })
    local n = 0
    for line in err:gmatch "Lua warning: ([^\n]*)" do
      n = n + 1
      assert.matches("race", line)
    end
    assert.are.equal(3, n, err)
  end)

  it("is found in the tenth round as in the first", function()
    local x = tide.zeros(8, on)
    cuda.synchronize()
    sanitizer.enable()
    for _ = 1, 10 do
      D.raises("StateError", function()
        cuda.stream(s, function() x:add_(1) end)
        x:add_(1)
      end)
      cuda.current_stream():wait_stream(s)
      x:add_(1)
      s:wait_stream(cuda.current_stream())
    end
    assert.are.equal(1, #sanitizer.errors())
    assert.are.equal(10, sanitizer.errors()[1].count)
  end)

  it("ends with the sanitizer: what was done before and without it does not count", function()
    local x = tide.zeros(8, on)
    cuda.synchronize()
    sanitizer.enable()
    cuda.stream(s, function() x:add_(0) end) -- seen, its end is not
    for _ = 1, 3 do
      sanitizer.disable()
      cuda.synchronize()
      cuda.stream(s, function() x:add_(0) end)
      cuda.synchronize()
      sanitizer.enable()
      x:add_(0)
    end
    sanitizer.disable()
    cuda.synchronize()
    assert.are.same({ count = 0 }, sanitizer.errors())
  end)

  it("of a kernel from text is found by its parameters", function()
    if not D.compiler then return pending "needs a compiler" end
    local kernel = cuda.compile_kernel([[
      extern "C" __global__ void move(const float *from, float *to) { to[threadIdx.x] = from[threadIdx.x]; }]], "move")
    local shape = { grid = 1, block = 8 }
    local lua = tide.kernel "function(i, from, to) to[i] = from[i] end"
    for _, launch in ipairs { function(...) kernel(shape, ...) end, function(...) kernel:bind(shape, ...)() end, function(...) lua(8, ...) end,
      function(...) lua:on(8, ...)() end } do
      local x, y, z = tide.zeros(8, on), tide.zeros(8, on), tide.zeros(8, on)
      cuda.synchronize_all()
      sanitizer.enable()
      launch(x, y)
      cuda.stream(s, function() launch(x, z) end) -- both read x
      local e = D.raises("StateError", cuda.stream, s, function() launch(y, z) end)
      assert.are.equal("write", e.earlier.access)
      assert.are.equal("read", e.later.access)
      e = D.raises("StateError", launch, y, x) -- which the other stream reads
      assert.are.equal("read", e.earlier.access)
      assert.are.equal("write", e.later.access)
      sanitizer.disable()
    end
  end)
end)

describe("the sanitizer in the long run", function()
  D.watch(before_each, after_each, settle)

  it("keeps more streams apart than it has places", function()
    local x = tide.zeros(8, on)
    cuda.synchronize()
    sanitizer.enable()
    local streams = {}
    for i = 1, 300 do
      streams[i] = cuda.Stream()
      streams[i]:wait_stream(cuda.current_stream())
      cuda.stream(streams[i], function() x:add_(1) end)
      cuda.current_stream():wait_stream(streams[i])
    end
    for i = 1, 300 do -- those that lost their place
      streams[i]:wait_stream(cuda.current_stream())
      cuda.stream(streams[i], function() x:add_(1) end)
      cuda.current_stream():wait_stream(streams[i])
    end
    D.raises("StateError", function()
      cuda.stream(streams[7], function() x:add_(1) end)
      x:add_(1)
    end)
  end)

  it("is right about views in every direction, against a search element by element", function()
    local seed = 7
    local function random(n)
      seed = seed * 1103515245 + 12345 & 0x7fffffff
      return seed // 65536 % n
    end
    local function view(x)
      local size, stride = {}, {}
      for d = 1, 1 + random(3) do size[d], stride[d] = 1 + random(4), 1 + random(12) end
      return x:as_strided(size, stride, random(40)), size, stride
    end
    local function elements(v, size, stride)
      local at, set, shared = { v:storage_offset() }, {}, false
      for d = 1, #size do
        local more = {}
        for _, o in ipairs(at) do
          for i = 0, size[d] - 1 do more[#more + 1] = o + i * stride[d] end
        end
        at = more
      end
      for _, o in ipairs(at) do
        shared = shared or set[o]
        set[o] = true
      end
      return set, shared
    end
    local s, x, met, apart = cuda.Stream(), tide.zeros(200, on), 0, 0
    cuda.synchronize()
    sanitizer.enable()
    for i = 1, 600 do
      local a, size_a, stride_a = view(x)
      local b, size_b, stride_b = view(x)
      local in_a, shared = elements(a, size_a, stride_a)
      local in_b = elements(b, size_b, stride_b)
      local meets = false
      for o in pairs(in_b) do meets = meets or in_a[o] == true end
      -- A view that shows an element twice cannot be written.
      if not shared and pcall(a.fill_, a, 1) then
        local clean = pcall(cuda.stream, s, function() return b:sum() end)
        assert(clean ~= meets, ("case %d, %s: %d %s and %d %s"):format(i, meets and "missed" or "false alarm",
          a:storage_offset(), D.show { size_a, stride_a }, b:storage_offset(), D.show { size_b, stride_b }))
        if meets then met = met + 1 else apart = apart + 1 end
        cuda.synchronize()
      end
    end
    assert(met > 50 and apart > 50, met .. " met, " .. apart .. " were apart")
  end)

  it("makes a loop of small operations at most five times slower", function()
    if D.tsan then return pending "not under the thread sanitizer" end
    local x, y = tide.ones(64, on), tide.ones(64, on)
    -- The best of several rounds in turn: other work of the machine only ever makes a round slower. It may take many.
    local best = { enable = math.huge, disable = math.huge }
    for round = 1, 200 do
      if round > 15 and best.enable < 5 * best.disable then break end
      for state, least in pairs(best) do
        sanitizer[state]()
        cuda.synchronize()
        local timer = tide.Timer()
        for _ = 1, 500 do local _ = x:add_(y) + y end
        best[state] = math.min(least, timer:time().real)
      end
    end
    sanitizer.enable()
    local times = best.enable / best.disable
    assert(times < 5, ("%.2f times"):format(times))
  end)

  it("forgets what is gone", function()
    sanitizer.enable()
    for _ = 1, 2000 do
      local x = tide.ones(8, on)
      x:add_(1)
      x:free()
    end
    assert.are.equal(0, sanitizer.errors().count)
  end)

  it("is on from the start where the environment says so", function()
    local program = [[
      local tide = require "tide"
      local cuda = tide.cuda
      print(cuda.sanitizer.is_enabled())
      local x, s = tide.zeros(8, { device = "cuda" }), cuda.Stream()
      print(pcall(cuda.stream, s, function() return x + 1 end))
      cuda.synchronize()]]
    local out = D.simulate(1, program, { TIDE_CUDA_SANITIZER = "1" })
    assert.matches("^true\nfalse\t.*race", out)
    local err
    out, err = D.simulate(1, program, { TIDE_CUDA_SANITIZER = "warn", TSAN_OPTIONS = "report_bugs=0" })
    assert.matches("^true\ntrue\t", out)
    assert.matches("Lua warning: add: race", err)
    out = D.simulate(1, program, { TIDE_CUDA_SANITIZER = "0", TSAN_OPTIONS = "report_bugs=0" })
    assert.matches("^false\ntrue\t", out)
  end)

  it("starts anew after a reset of the devices", function()
    D.simulate(1, [[
      local tide = require "tide"
      local cuda = tide.cuda
      cuda.sanitizer.enable()
      local s, x = cuda.Stream(), tide.zeros(8, { device = "cuda" })
      cuda.device_reset()
      local t, y = cuda.Stream(), tide.zeros(8, { device = "cuda" })
      t:wait_stream(cuda.current_stream())
      cuda.stream(t, function() y:add_(1) end)
      assert(not pcall(y.add_, y, 1))
      x, s = nil, nil
      collectgarbage()
      assert(cuda.sanitizer.errors().count == 1)]])
  end)
end)
