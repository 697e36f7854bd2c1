-- Recordings: the timeline of a function and the table of what took its time.
local tide = require "tide"
local D = require "spec.support.device"
local T = require "spec.support.trace"
local G = require "spec.support.graph"
local cuda = tide.cuda
local profiler, nvtx = cuda.profiler, cuda.nvtx

local path
local function trace(fn, opts)
  local results = table.pack(profiler.trace(fn, path, opts))
  return T.read(path), table.unpack(results, 1, results.n)
end

-- The table of a function, with the text that was printed.
local function summary(fn, ...)
  local said, before = {}, print
  _G.print = function(...) said[#said + 1] = table.concat({ ... }, "\t") end
  local results = table.pack(pcall(profiler.summary, fn, ...))
  _G.print = before
  assert(results[1], results[2])
  return results[2], table.concat(said, "\n"), table.unpack(results, 3, results.n)
end

local function here() return debug.getinfo(2, "l").currentline end

describe("profiler.trace", function()
  D.watch(before_each, after_each)
  before_each(function() path = os.tmpname() end)
  after_each(function() os.remove(path) end)

  it("gives the function's results and writes a valid trace", function()
    local t, a, b, c = trace(function() return 1, nil, 3 end)
    assert.are.same({ 1, 3 }, { a, c })
    assert.is_nil(b)
    assert.are.equal(0, #t.host)
    assert.is_truthy(t.other.program:match "^tide %d")
  end)

  it("shows every operation with its line and how long the host took", function()
    local x, line = D.tensor { 1., 2., 3. }, nil
    local t = trace(function()
      line = here() + 1
      local y = x + x
      return (y * y):sum():item()
    end)
    local add = T.find(t.host, "^add")
    assert.are.equal(1, #add)
    assert.is_truthy(add[1].name:find("profiler_spec.lua:" .. line, 1, true))
    assert.is_truthy(add[1].args.line:find("profiler_spec.lua:" .. line, 1, true))
    assert.are.equal(D.dev, add[1].args.device)
    assert.are.equal(36, add[1].args.bytes)
    assert.are.equal(1, #T.find(t.host, "^mul"))
    assert.are.equal(1, #T.find(t.host, "^sum"))
  end)

  it("names operations by the file of their line alone, in a folder of folders too", function()
    for _, path in ipairs { "one/two/wave.lua", "/one/two/three/wave.lua", "wave.lua" } do
      local add = load("local x = ... return function() return x + x end", "@" .. path)(D.tensor { 1. })
      add = T.find(trace(add).host, "^add")[1]
      assert.are.same({ "add  wave.lua:1", path .. ":1" }, { add.name, add.args.line })
    end
  end)

  it("measures what the CPU does itself", function()
    local a = tide.ones(200, 200)
    local t = trace(function() return a:matmul(a) end)
    local found = T.find(t.host, "^matmul")
    assert.are.equal(1, #found)
    assert.are.equal("cpu", found[1].cat)
    assert.is_true(found[1].dur > 1)
  end)

  it("shows ranges around what ran in them, marks, and ranges that overlap", function()
    local x = D.tensor { 1., 2. }
    local long
    nvtx.range_push "before"
    local t = trace(function()
      nvtx.range("outer", function()
        local _ <close> = nvtx.range "inner"
        x:exp()
      end)
      long = nvtx.range_start "long"
      nvtx.mark "now"
      nvtx.range_push "still open"
    end)
    nvtx.range_pop()
    nvtx.range_pop()
    nvtx.range_end(long)
    local outer, inner, exp = T.find(t.ranges, "^outer$")[1], T.find(t.ranges, "^inner$")[1], T.find(t.host, "^exp")[1]
    assert.is_true(outer.ts <= inner.ts and inner.ts <= exp.ts)
    assert.is_true(exp.ts + exp.dur <= inner.ts + inner.dur and inner.ts + inner.dur <= outer.ts + outer.dur)
    assert.are.equal(outer.tid, exp.tid)
    assert.are.equal(1, #T.find(t.marks, "^now$"))
    assert.are.equal(1, #T.find(t.ranges, "^still open$"))
    assert.are.equal(0, T.find(t.ranges, "^before$")[1].ts)
    assert.are.equal("b", T.find(t.ranges, "^long$")[1].ph)
  end)

  it("shows ranges that end out of order as pieces that nest, each of its own time", function()
    local x = D.tensor { 1., 2. }
    local t = trace(function()
      local list = {}
      for i, name in ipairs { "lower", "middle", "upper" } do
        list[i] = coroutine.wrap(function()
          local range = nvtx.range(name)
          coroutine.yield()
          range:close()
        end)
        list[i]()
        x:exp()
      end
      for _, i in ipairs { 2, 1, 3 } do
        list[i]()
        x:exp()
      end
    end) -- T.read has compared what nests
    for name, count in pairs { lower = 1, middle = 1, upper = 3 } do
      local pieces = T.find(t.ranges, "^" .. name .. "$")
      assert.are.equal(count, #pieces, name)
      table.sort(pieces, function(a, b) return a.ts < b.ts end)
      for i = 2, count do
        assert.is_true(pieces[i].ts >= pieces[i - 1].ts + pieces[i - 1].dur - 0.001, name .. " " .. i)
      end
    end
  end)

  it("keeps any text readable", function()
    local odd = '"quotes" \\ \n\t\1 \xff\xc0\xaf\xed\xa0\x80 <b> ünïcödé \u{1F600}'
    local t = trace(function() nvtx.range(odd, function() end) end)
    local name = t.ranges[1].name
    assert.is_truthy(name:find('"quotes" \\ \n\t\1 \u{FFFD}', 1, true))
    assert.is_truthy(name:find("ünïcödé \u{1F600}", 1, true))
  end)

  it("writes the file when the function fails, and the error goes on", function()
    local x = D.tensor { 1. }
    local e = { "mine" }
    local ok, got = pcall(profiler.trace, function()
      x:exp()
      error(e)
    end, path)
    assert.is_false(ok)
    assert.are.equal(e, got)
    assert.are.equal(1, #T.find(T.read(path).host, "^exp"))
    assert.are.equal(1, (profiler.trace(function() return 1 end, path)))
  end)

  it("refuses a second recording, naming the first, which goes on", function()
    local x = D.tensor { 1. }
    local t = trace(function()
      local e = D.raises("StateError", profiler.trace, function() end, path)
      assert.is_truthy(e.message:find("trace: a recording is under way already, got one of profiler.trace", 1, true))
      D.raises("StateError", profiler.summary, function() end)
      x:exp()
    end)
    assert.are.equal(1, #T.find(t.host, "^exp"))
    summary(function() D.raises("StateError", profiler.trace, function() end, path) end)
  end)

  it("leaves no file where it is refused, and one that was there as it was", function()
    local f = assert(io.open(path, "w"))
    f:write "mine"
    f:close()
    summary(function() D.raises("StateError", profiler.trace, function() end, path) end)
    assert.are.equal("mine", assert(io.open(path)):read "a")
    os.remove(path)
    summary(function() D.raises("StateError", profiler.trace, function() end, path) end)
    assert.is_nil(io.open(path))
  end)

  it("refuses a path that cannot be written before it runs anything", function()
    local ran = false
    local e = D.raises("FileError", profiler.trace, function() ran = true end, "/nowhere/at/all.json")
    assert.is_truthy(e.message:find("/nowhere/at/all.json", 1, true))
    assert.is_false(ran)
  end)

  it("says when the file could not be written", function()
    local e = D.raises("FileError", profiler.trace, function() end, "/dev/full")
    assert.is_truthy(e.message:find("/dev/full", 1, true))
    trace(function() end)
  end)

  it("refuses wrong arguments", function()
    D.raises("ArgumentError", profiler.trace)
    D.raises("ArgumentError", profiler.trace, path)
    D.raises("ArgumentError", profiler.trace, function() end)
    D.raises("ArgumentError", profiler.trace, function() end, 5)
    D.raises("ArgumentError", profiler.trace, function() end, path, 5)
    D.raises("ArgumentError", profiler.trace, function() end, path, { evens = true })
    D.raises("ArgumentError", profiler.trace, function() end, path, { events = 1 })
    D.raises("ArgumentError", profiler.summary)
    D.raises("ArgumentError", profiler.summary, {})
    D.raises("ArgumentError", profiler.profile, 5)
  end)

  it("lets a function yield, and ends with a coroutine that dies", function()
    local x = D.tensor { 1. }
    local co = coroutine.wrap(function() return profiler.trace(function() return x:exp() and coroutine.yield(1) end, path) end)
    assert.are.equal(1, co())
    assert.are.equal(2, co(2))
    assert.are.equal(1, #T.find(T.read(path).host, "^exp"))
    co = coroutine.create(function() profiler.trace(coroutine.yield, path) end)
    coroutine.resume(co)
    D.raises("StateError", profiler.trace, function() end, path)
    coroutine.close(co)
    co = coroutine.create(function() profiler.trace(coroutine.yield, path) end)
    coroutine.resume(co)
    co = nil
    collectgarbage()
    collectgarbage()
    trace(function() end)
  end)

  it("lets a program end in the middle", function()
    for _, last in ipairs { "os.exit(0, true)", "os.exit(0)", "error 'x'" } do
      local out, err, code = D.run { "-e",
        ("local tide = require 'tide' tide.cuda.profiler.trace(function() local x = tide.ones(2, {device='%s'}) %s end, '%s')")
          :format(D.dev, last, path) }
      assert.are.equal(last:find "error" and 1 or 0, code, out .. err)
    end
  end)
end)

if D.cuda then
  for _, way in ipairs { "tracer", "events" } do
    local opts = way == "events" and { events = true } or nil
    describe("profiler.trace of a device, by its " .. way, function()
      D.watch(before_each, after_each)
      before_each(function() path = os.tmpname() end)
      after_each(function() os.remove(path) end)

      it("shows kernels and copies on their streams, with an arrow from the line", function()
        local host = tide.ones(1000):pin_memory()
        local line
        local t = trace(function()
          local x = host:to("cuda", { non_blocking = true })
          line = here() + 1
          local y = x + x
          return y:to "cpu"
        end, opts)
        assert.are.equal(way == "events" and "events" or t.other.device_times, t.other.device_times)
        local copies = T.find(t.device, "^copy$", "kernel")
        assert.are.equal(0, #copies)
        local into, out = T.find(t.device, "^copy to the device$"), T.find(t.device, "^copy to the host$")
        assert.are.equal(1, #into)
        assert.are.equal(1, #out)
        assert.are.equal(4000, into[1].args.bytes)
        assert.are.equal(4000, out[1].args.bytes)
        local add = T.find(t.device, "^add$")
        assert.are.equal(1, #add)
        assert.is_true(add[1].dur > 0)
        assert.is_truthy(add[1].args.line:find("profiler_spec.lua:" .. line, 1, true))
        assert.are.equal("default stream", t.threads[add[1].pid .. "." .. add[1].tid])
        assert.are.equal(100, add[1].pid)
        local arrow
        for _, a in pairs(t.arrows) do
          if a.f.ts == add[1].ts then arrow = a end
        end
        local from = T.find(t.host, "^add")[1]
        assert.is_true(arrow.s.ts >= from.ts and arrow.s.ts <= from.ts + from.dur)
        assert.is_true(into[1].ts <= add[1].ts and add[1].ts <= out[1].ts)
        assert.is_true(add[1].ts >= from.ts - 200, "the clocks of host and device differ")
      end)

      it("shows where the host waits", function()
        local x, line = D.tensor { 1. }, nil
        local t = trace(function()
          line = here() + 2
          cuda._sleep(D.simulated and 200000000 or 20000000)
          cuda.synchronize()
          local e = cuda.Event()
          e:record()
          e:synchronize()
          return x:item(), x:cpu()
        end, opts)
        local wait = T.find(t.waits, "^wait: .*synchronize$")[1]
        assert.is_true(D.virtual or wait.dur > 5000)
        assert.is_truthy(wait.args.line:find("profiler_spec.lua:" .. line, 1, true))
        assert.are.equal(1, #T.find(t.waits, "^wait: event_synchronize$"))
        local item, inside = T.find(t.waits, "^wait: item$")[1], T.find(t.host, "^item")[1]
        assert.is_true(item.ts <= inside.ts and inside.ts + inside.dur <= item.ts + item.dur)
        assert.is_true(#t.waits >= 4)
      end)

      it("shows work of two streams that overlaps", function()
        local gate, a, b = cuda.Stream(), cuda.Stream(), cuda.Stream()
        cuda._sleep(1)
        cuda.synchronize()
        local t = trace(function()
          D.hold(gate)
          for _, s in ipairs { a, b } do
            s:wait_stream(gate)
            cuda.stream(s, function() cuda._sleep(D.simulated and 100000000 or 20000000) end)
          end
          D.release()
          cuda.synchronize()
        end, opts)
        local sleeps = T.find(t.device, "sleep")
        table.sort(sleeps, function(x, y) return x.ts < y.ts end)
        assert.are.equal(3, #sleeps)
        assert.are_not.equal(sleeps[2].tid, sleeps[3].tid)
        for i = 2, 3 do assert.is_true(sleeps[i].dur > 5000 and sleeps[i].ts >= sleeps[1].ts + sleeps[1].dur - 1) end
        assert.is_true(T.overlap(sleeps[2], sleeps[3]) > 3000)
      end)

      it("gives the kernels of a replay to the line that replays", function()
        local x = D.tensor { 1., 2. }
        local out
        local g = G.capture(function() out = (x + 1) * 2 end)
        local line
        local t = trace(function()
          line = here() + 1
          g:replay()
          g:replay()
        end, opts)
        local of_line = T.find(t.device, "profiler_spec.lua:" .. line, "line")
        assert.is_true(#of_line >= 1)
        assert.are.equal("graph replay", of_line[1].args.op)
        if t.other.device_times ~= "events" then assert.is_true(#of_line >= 2) end
        D.eq({ 4, 6 }, out)
        g:reset()
        out = nil
        G.settle()
      end)

      it("shows what is captured on the host alone", function()
        local x, g = D.tensor { 1., 2. }, nil
        local t = trace(function() g = G.capture(function() return x + 1 end) end, opts)
        assert.are.equal(1, #T.find(t.host, "^add"))
        assert.are.equal(0, #T.find(t.device, "^add"))
        g:reset()
        G.settle()
      end)

      it("may stand inside a capture, which goes on", function()
        local x, t = D.tensor { 1., 2. }, nil
        local g = G.capture(function()
          t = trace(function() x:add_(1) end, opts)
          summary(function() x:mul_(2) end)
          x:sub_(1)
        end)
        assert.are.equal(1, #T.find(t.host, "^add"))
        assert.are.equal(0, #T.find(t.device, "^add"))
        g:replay()
        D.eq({ 3, 5 }, x)
        g:reset()
        G.settle()
      end)

      it("takes thousands of operations", function()
        local x = D.tensor { 1. }
        local t = trace(function()
          for _ = 1, 3000 do x:add_(1) end
        end, opts)
        assert.are.equal(3000, #T.find(t.host, "^add"))
        assert.are.equal(3000, #T.find(t.device, "^add$"))
        assert.are.equal(0, t.other.lost)
        local last = 0
        for _, e in ipairs(T.find(t.device, "^add$")) do
          assert.is_true(e.ts >= last - 1000)
          last = e.ts
        end
      end)

      it("counts allocated memory", function()
        local before = cuda.memory_allocated()
        local t = trace(function()
          local x = tide.zeros(1 << 18, { device = "cuda" })
          x:free()
          tide.zeros(1, { device = "cuda" })
        end, opts)
        local most = 0
        for _, e in ipairs(t.events) do
          if e.ph == "C" and e.pid == 100 then most = math.max(most, e.args.bytes) end
        end
        assert.is_true(most >= before + (1 << 20))
        collectgarbage()
      end)

      if D.devices > 1 then
        it("shows each device as a process", function()
          local x = tide.ones(10, { device = "cuda:1" })
          local t = trace(function() return (x + x):to "cuda:0" end, opts)
          assert.are.equal(101, T.find(t.device, "^add$")[1].pid)
          assert.is_true(#T.find(t.device, "copy") >= 1)
        end)
      end
    end)
  end

  describe("profiler", function()
    D.watch(before_each, after_each)
    before_each(function() path = os.tmpname() end)
    after_each(function() os.remove(path) end)

    it("raises a failure of the work that it waited for", function()
      local x = D.tensor { 1., 2., 3. }
      local bad = tide.tensor({ 9 }, { dtype = "int64", device = D.dev })
      D.raises("IndexError", profiler.trace, function() x:index_select(1, bad) end, path)
      assert.are.equal(1, #T.find(T.read(path).host, "^gather"))
    end)

    it("starts where no device was used before", function()
      local out = D.run { "-e", ([[local tide = require "tide"
        tide.cuda.profiler.trace(function() return tide.ones(3, {device = "cuda"}):exp():sum():item() end, "%s")]]):format(path) }
      assert.are.equal("", out)
      local t = T.read(path)
      assert.are.equal(1, #T.find(t.device, "^exp$"))
    end)

    if D.simulated then
      it("writes the file when the device is lost, and the first cause goes on", function()
        for _, opts in ipairs { "{}", "{events = true}" } do
          local out = D.simulate(1, ([[local tide = require "tide"
            local x = tide.ones(64, {device = "cuda"})
            local ok, e = pcall(tide.cuda.profiler.trace, function() for _ = 1, 5 do x:add_(1) end end, "%s", %s)
            print(ok, e.kind, e.sticky)]]):format(path, opts), { TIDE_SIM_FAULT = "sticky:4" })
          assert.are.equal("false\tAcceleratorError\ttrue\n", out)
          assert.is_true(#T.find(T.read(path).host, "^add") >= 3)
        end
      end)

      it("says why it measures by events on a modelled clock", function()
        local out = D.simulate(1, [[local tide = require "tide"
          local x = tide.ones(1 << 20, {device = "cuda"})
          local t = tide.cuda.profiler.summary(function() return x + x end)
          print(t.source, t.note, t.rows[1].op)
          assert(math.abs(t.rows[1].mean_us - 6.1) < 0.2, t.rows[1].mean_us)]], { TIDE_SIM_DRY = "1" })
        assert.is_truthy(out:find("events\tprofiler: simulated devices in dry mode", 1, true))
      end)
    end
  end)
end

describe("profiler.summary", function()
  D.watch(before_each, after_each)

  it("calls a kernel in Lua by its name", function()
    local x = tide.ones(64, { device = D.dev })
    local named = tide.kernel("function(i, a) a[i] = a[i] + 1 end", { name = "grow" })
    local unnamed = tide.kernel "function(i, a) a[i] = a[i] * 2 end"
    local bound = named:on(64, x)
    local function run()
      bound()
      for _, k in ipairs { named, unnamed } do k(64, x) end
      if D.cuda then cuda.synchronize() end
    end
    run()
    local t = summary(run)
    local found = {}
    for _, row in ipairs(t.rows) do found[row.kernel] = (found[row.kernel] or 0) + row.calls end
    assert.are.same({ grow = 2, ["kernel:1"] = 1 }, found)
  end)

  it("tells which lines and kernels took the time, largest first", function()
    local a = tide.randn(96, 96, { device = D.dev })
    local line
    local t, text, one, two = summary(function(x, n)
      line = here() + 2
      for _ = 1, n do
        x = x:matmul(a):tanh()
      end
      return x:sum():item(), n
    end, a, 7)
    assert.is_number(one)
    assert.are.equal(7, two)
    local last, percent, found = math.huge, 0, {}
    for _, row in ipairs(t.rows) do
      assert.is_true(row.total_ms <= last)
      last = row.total_ms
      if row.device == D.dev then percent = percent + row.percent end
      found[row.op] = row
      assert.is_true(row.min_us <= row.mean_us + 1e-9 and row.mean_us <= row.max_us + 1e-9)
    end
    assert.is_true(math.abs(percent - 100) < 1e-6)
    assert.are.equal(7, found.tanh.calls)
    assert.is_truthy(found.tanh.line:find("profiler_spec.lua:" .. line, 1, true))
    assert.are.equal(7 * 2 * 4 * 96 * 96, found.tanh.bytes)
    assert.is_true(found.tanh.gb_per_s > 0 and found.tanh.host_ms > 0)
    assert.is_truthy(text:find("profiler_spec.lua:" .. line, 1, true))
    assert.is_truthy(text:find("tanh", 1, true))
    assert.is_truthy(text:find("total ms", 1, true))
    assert.is_true(t.wall_ms >= t.host_ms * 0.5 and t.operations >= 15)
    if D.cuda then
      local d = t.devices["cuda:0"]
      assert.is_true(math.abs(d.busy_ms + d.idle_ms - t.wall_ms) < 1e-6)
      assert.is_true(d.busy_ms <= d.kernel_ms + d.copy_ms + 1e-6)
      assert.is_truthy(text:find("cuda:0: busy", 1, true))
      assert.is_true(t.wait_ms > 0 and t.wait_ms <= t.wall_ms)
    else
      assert.are.equal("", t.source)
      assert.is_nil(next(t.devices))
    end
  end)

  it("sums up copies", function()
    if not D.cuda then return pending "needs a device" end
    local x = tide.ones(1 << 16)
    local t, text = summary(function() return x:cuda():cpu() end)
    assert.are.equal(1, t.copies.to_device.calls)
    assert.are.equal(1 << 18, t.copies.to_device.bytes)
    assert.are.equal(1 << 18, t.copies.to_host.bytes)
    assert.is_true(t.copies.to_device.gb_per_s > 0)
    assert.is_truthy(text:find("copies to devices: 1, 0.250 MiB", 1, true))
  end)

  it("is nothing for a function that does nothing", function()
    local t, text = summary(function() end)
    assert.are.equal(0, #t.rows)
    assert.are.equal(0, t.operations)
    assert.is_truthy(text:find("host: 0.000 ms", 1, true))
  end)

  it("lets errors through and can run again", function()
    local ok, e = pcall(profiler.summary, function() error("oops", 0) end)
    assert.are.same({ false, "oops" }, { ok, e })
    summary(function() end)
  end)
end)

describe("profiler.start, stop and profile", function()
  it("do nothing where nobody waits for them", function()
    assert.are.equal(0, select("#", profiler.start()))
    assert.are.equal(0, select("#", profiler.stop()))
    assert.are.same({ 2, 1, 2 }, { profiler.profile(function(...) return select("#", ...), ... end, 1, 2) })
    local ok, e = pcall(profiler.profile, function() error("oops", 0) end)
    assert.are.same({ false, "oops" }, { ok, e })
    local _ <close> = profiler.profile()
  end)
end)
