-- Who holds device memory and what happened to it: lines of blocks, snapshots, the history, labelled scopes, what an
-- allocation that failed tells.

local tide = require "tide"
local D = require "spec.support.device"
local json = require "spec.support.json"
if not D.cuda then return end
local cuda = tide.cuda
local M = cuda.memory
local MiB = 1 << 20

local uint8 = { dtype = "uint8", device = "cuda" }
local function bytes(n) return tide.empty(n, uint8) end
local function here(level) return "history_spec.lua:" .. debug.getinfo(level or 2, "l").currentline end
local function ends_in(text, tail)
  assert.is_true(type(text) == "string" and text:sub(-#tail) == tail, tostring(text) .. " does not end in " .. tail)
end

-- The block at the address of a tensor.
local function block_of(x, segments)
  for _, s in ipairs(segments or cuda.memory_snapshot()) do
    for _, b in ipairs(s.blocks) do
      if b.address == x:data_ptr() then return b, s end
    end
  end
end

local function actions(trace)
  local out = {}
  for i, e in ipairs(trace or {}) do out[i] = e.action end
  return table.concat(out, " ")
end

describe("memory_snapshot", function()
  D.watch(before_each, after_each)
  before_each(function() cuda.empty_cache() end)

  it("names the line of every block", function()
    local x, line = tide.empty(1000, uint8), here()
    local y, other = x + 1, here()
    local b = block_of(x)
    ends_in(b.line, line)
    ends_in(b.frames[1].filename, "history_spec.lua")
    assert.are.equal(tonumber(line:match "%d+$"), b.frames[1].line)
    ends_in(block_of(y).line, other)
    x:free()
    y:free()
  end)

  it("has torch's fields, whose sums are the statistics", function()
    local keep = { bytes(1000), bytes(100), bytes(3 * MiB), bytes(30 * MiB) }
    local segments = cuda.memory_snapshot()
    local total, allocated, active, requested = 0, 0, 0, 0
    for _, s in ipairs(segments) do
      for _, key in ipairs { "device", "address", "total_size", "allocated_size", "active_size", "requested_size", "stream" } do
        assert.are.equal("integer", math.type(s[key]), key)
      end
      assert.is_true(s.segment_type == "small" or s.segment_type == "large")
      local at = s.address
      for _, b in ipairs(s.blocks) do
        assert.are.equal(at, b.address)
        at = at + b.size
      end
      if s.device == 0 then
        total, allocated, active = total + s.total_size, allocated + s.allocated_size, active + s.active_size
        requested = requested + s.requested_size
      end
      assert.is_true(s.is_expandable or at == s.address + s.total_size)
    end
    local t = cuda.memory_stats(0)
    assert.are.equal(t["reserved_bytes.all.current"], total)
    assert.are.equal(t["allocated_bytes.all.current"], allocated)
    assert.are.equal(t["active_bytes.all.current"], active)
    assert.are.equal(t["requested_bytes.all.current"], requested)
    local b, s = block_of(keep[1], segments)
    assert.are.equal(1024, b.size)
    assert.are.equal(1000, b.requested_size)
    assert.are.equal("active_allocated", b.state)
    assert.are.equal("small", s.segment_type)
    assert.are.equal("large", select(2, block_of(keep[3], segments)).segment_type)
    for _, x in ipairs(keep) do x:free() end
    for _, g in ipairs(cuda.memory_snapshot()) do
      for _, free in ipairs(g.blocks) do
        if free.state == "inactive" then assert.is_nil(free.line) end
      end
    end
  end)

  it("shows what other streams still use", function()
    local s = cuda.Stream()
    local x, line = tide.empty(1000, uint8), here()
    local ptr = x:data_ptr()
    tide.empty(1, uint8):fill_(1) -- a kernel's first use may wait for all work
    cuda.synchronize()
    D.hold(s)
    cuda.stream(s, function() x:fill_(1) end)
    x:free()
    local found
    for _, g in ipairs(cuda.memory_snapshot()) do
      for _, b in ipairs(g.blocks) do
        if b.address == ptr then found = b end
      end
    end
    assert.are.equal("active_pending_free", found.state)
    ends_in(found.line, line)
    D.release()
    cuda.synchronize()
    for _, g in ipairs(cuda.memory_snapshot()) do
      assert.are.equal(g.active_size, g.allocated_size)
    end
  end)

  it("can leave the lines out, and refuses what it does not know", function()
    local x = bytes(1000)
    assert.is_nil(block_of(x, cuda.memory_snapshot { include_traces = false }).line)
    assert.are.equal(0, #cuda.memory_snapshot { mempool = math.maxinteger })
    D.raises("ArgumentError", cuda.memory_snapshot, { nonsense = 1 })
    D.raises("ArgumentError", cuda.memory_snapshot, { mempool = "x" })
    D.raises("ArgumentError", cuda.memory_snapshot, { mempool = x })
    D.raises("ArgumentError", cuda.memory_snapshot, { include_traces = 1 })
    D.raises("ArgumentError", cuda.memory_snapshot, 3)
    x:free()
  end)
end)

describe("memory history", function()
  D.watch(before_each, after_each)
  before_each(function() cuda.empty_cache() end)
  after_each(function() M.record_history(false) end)

  it("is off unless asked for", function()
    bytes(100):free()
    assert.are.equal(0, #M.snapshot().device_traces)
  end)

  it("tells each event with its line", function()
    M.record_history()
    local x, line = tide.empty(1000, uint8), here()
    local ptr = x:data_ptr()
    x:free()
    local freed = here(2)
    local trace = M.snapshot().device_traces[1]
    local list = {}
    for _, e in ipairs(trace) do
      if not e.action:find "^segment" then list[#list + 1] = e end
    end
    assert.are.equal("alloc free_requested free_completed", actions(list))
    assert.are.equal("alloc", list[1].action)
    ends_in(list[1].line, line)
    ends_in(list[2].line, "history_spec.lua:" .. (tonumber(freed:match "%d+$") - 1))
    ends_in(list[2].owner, line)
    for i, e in ipairs(list) do
      assert.are.equal(ptr, e.addr)
      assert.are.equal(1024, e.size)
      assert.is_true(e.time_us > 1e15 and (i == 1 or e.time_us >= list[i - 1].time_us))
      assert.are.equal("integer", math.type(e.stream))
      ends_in(e.frames[1].filename, "history_spec.lua")
    end
  end)

  it("tells of segments and of failures", function()
    M.record_history()
    bytes(30 * MiB):free()
    cuda.empty_cache()
    local text = actions(M.snapshot().device_traces[1])
    assert.is_truthy(text:find "segment_alloc" or text:find "segment_map", text)
    assert.is_truthy(text:find "segment_free" or text:find "segment_unmap", text)
    pcall(bytes, 1 << 50)
    local trace = M.snapshot().device_traces[1]
    assert.are.equal("oom", trace[#trace].action)
    assert.are.equal(1 << 50, trace[#trace].size)
  end)

  it("keeps the last events alone", function()
    M.record_history(true, { max_entries = 6 })
    for _ = 1, 10 do bytes(100):free() end
    local s = M.snapshot()
    assert.are.equal(6, #s.device_traces[1])
    assert.is_true(s.lost_entries >= 24)
    assert.are.equal("free_completed", s.device_traces[1][6].action)
    M.record_history(true)
    assert.are.equal(0, #M.snapshot().device_traces)
    M.record_history(false)
    bytes(100):free()
    assert.are.equal(0, #M.snapshot().device_traces)
  end)

  it("can leave events out", function()
    bytes(100):free()
    M.record_history(true, { skip_actions = { "free_requested", "free_completed" } })
    bytes(100):free()
    assert.are.equal("alloc", actions(M.snapshot().device_traces[1]))
  end)

  it("can keep whole stacks", function()
    local function inner()
      local x = tide.empty(100, uint8)
      return x
    end
    local function outer()
      local x = inner()
      return x
    end
    M.record_history(true, { stacks = true })
    local x = outer()
    local frames = block_of(x).frames
    assert.is_true(#frames >= 3, #frames)
    ends_in(frames[1].filename, "history_spec.lua")
    assert.are.equal(frames[1].line + 4, frames[2].line)
    assert.are.equal("inner", frames[1].name)
    assert.are.equal("outer", frames[2].name)
    local e = M.snapshot().device_traces[1]
    assert.is_true(#e[#e].frames >= 3)
    x:free()
  end)

  it("is written as JSON", function()
    local path = os.tmpname()
    M.record_history()
    local x = M.scope('a "label" </script>', function() return bytes(1000) end)
    M.dump_snapshot(path)
    local file = assert(io.open(path, "rb"))
    local text = file:read "a"
    file:close()
    os.remove(path)
    assert.is_nil(text:find("</", 1, true))
    local s = json.decode(text)
    local b = block_of(x, s.segments)
    assert.are.equal(1000, b.requested_size)
    assert.are.equal('a "label" </script>', b.label)
    ends_in(b.frames[1].filename, "history_spec.lua")
    local last = s.device_traces[1][#s.device_traces[1]]
    assert.are.equal("alloc", last.action)
    assert.are.equal(x:data_ptr(), last.addr)
    x:free()
    D.raises("FileError", M.dump_snapshot, "/no/such/folder/x.json")
    D.raises("ArgumentError", M.dump_snapshot)
    D.raises("ArgumentError", M.dump_snapshot, path, { what = 1 })
  end)

  it("takes any name of a file or a label", function()
    local path, folder = os.tmpname(), os.tmpname()
    os.remove(folder)
    local script = folder .. " in x:1/a.lua"
    assert(os.execute(("mkdir '%s'"):format(script:match "^(.*)/")))
    local file = assert(io.open(script, "w"))
    file:write(([[
      local tide = require "tide"
      tide.cuda.memory.record_history(true, {stacks = arg[1] == "stacks"})
      local function make() return (tide.empty(100, {device = "cuda"})) end
      local x = tide.cuda.memory.scope("a\xff\u{e9}", make)
      local f = tide.cuda.memory.snapshot().device_traces[1]
      f = f[#f].frames[1]
      print(f.filename, f.line, f.name)
      tide.cuda.memory.dump_snapshot(%q)]]):format(path))
    file:close()
    for mode, name in pairs { stacks = "make", lines = "" } do
      local out, err, code = D.run { script, mode }
      assert.are.equal(0, code, out .. err)
      assert.are.equal(("%s\t3\t%s\n"):format(script, mode == "stacks" and out:match "\t3\t(.*)\n" or name), out)
      file = assert(io.open(path, "rb"))
      local text = file:read "a"
      file:close()
      assert.is_truthy(utf8.len(text))
      local trace = json.decode(text).device_traces[1]
      assert.are.equal(script, trace[#trace].frames[1].filename)
      assert.are.equal(3, trace[#trace].frames[1].line)
    end
    os.execute(("rm -r '%s'"):format(script:match "^(.*)/"))
    os.remove(path)
  end)

  it("finds the leak of the example", function()
    local path = os.tmpname()
    local out, err, code = D.run({ "scripts/examples/memory.lua", "--steps", "12", "--out", path },
      { env = { TIDE_SIM_DEVICES = "1" } })
    assert.are.equal(0, code, out .. err)
    local held, blocks = out:match "held most by\n[^\n]*\n *(%S+ %S+) in (%d+) blocks  scripts/examples/memory.lua:31\n"
    assert.are.equal("3.00 MiB", held, out)
    assert.are.equal("12", blocks)
    local file = assert(io.open(path, "rb"))
    local trace = json.decode(file:read "a").device_traces[1]
    assert.are.equal("oom", trace[#trace].action)
    file:close()
    os.remove(path)
  end)

  it("makes a page that needs nothing else", function()
    local path, page = os.tmpname(), os.tmpname()
    M.record_history()
    local x = tide.empty(1000, uint8)
    M.dump_snapshot(path)
    local out, err, code = D.run { "scripts/memory_page.lua", path, page }
    assert.are.equal(0, code, out .. err)
    local file = assert(io.open(page, "rb"))
    local text = file:read "a"
    file:close()
    assert.is_truthy(text:find '^<!DOCTYPE html>.*"device_traces":.*</html>%s*$')
    assert.is_nil(text:find "https?://" or text:find "src=" or text:find "href=" or text:find "@import")
    assert.are.equal(1, select(2, text:gsub("</script>", "")))
    _, err, code = D.run { "scripts/memory_page.lua", "README.md", page }
    assert.is_true(code ~= 0 and err:find "no whole snapshot" ~= nil, err)
    os.remove(path)
    os.remove(page)
    x:free()
  end)

  it("refuses what it does not know", function()
    D.raises("ArgumentError", M.record_history, "yes")
    D.raises("ArgumentError", M.record_history, true, { entries = 1 })
    D.raises("ValueError", M.record_history, true, { max_entries = 0 })
    D.raises("ValueError", M.record_history, true, { max_entries = 1.5 })
    D.raises("ArgumentError", M.record_history, true, { max_entries = "x" })
    D.raises("ValueError", M.record_history, true, { skip_actions = { "nothing" } })
    D.raises("ValueError", M.record_history, true, { skip_actions = { alloc = true } })
    D.raises("ArgumentError", M.record_history, true, { skip_actions = "alloc" })
    D.raises("ArgumentError", M.snapshot, 1)
  end)
end)

describe("memory.scope", function()
  D.watch(before_each, after_each)

  it("gives the results and then the counts", function()
    local a, nothing, c, stats, more = M.scope("work", function(p, q)
      bytes(1000):free()
      return p, nil, bytes(q)
    end, "p", 5000)
    assert.are.equal("p", a)
    assert.is_nil(nothing)
    assert.is_nil(more)
    assert.are.equal(1024 + 5120, stats.allocated_bytes)
    assert.are.equal(1024, stats.freed_bytes)
    assert.are.equal(5120, stats.live_bytes)
    assert.are.equal(5120, stats.peak_bytes)
    assert.are.equal(2, stats.allocations)
    assert.are.equal("work", block_of(c).label)
    c:free()
    assert.are.equal(5120, stats.live_bytes)
  end)

  it("gives a block object and the counts without a function", function()
    local block, stats = M.scope "object"
    local x = bytes(100)
    assert.are.equal(0, stats.allocations)
    block:close()
    block:close()
    assert.are.equal(1, stats.allocations)
    local y = bytes(100)
    assert.are.equal("object", block_of(x).label)
    assert.is_nil(block_of(y).label)
    x:free()
    y:free()
    do
      local _ <close> = M.scope "again"
      bytes(100):free()
    end
  end)

  it("nests", function()
    local x, inner, outer = M.scope("outer", function()
      local y, s = M.scope("inner", function() return bytes(100) end)
      return y, s
    end)
    assert.are.equal("outer/inner", block_of(x).label)
    assert.are.equal(512, inner.allocated_bytes)
    assert.are.equal(512, outer.live_bytes)
    x:free()
  end)

  it("ends with an error, and passes it on", function()
    local e = D.raises("ShapeError", M.scope, "bad", function() return tide.zeros(2, { device = "cuda" }):view(3) end)
    assert.is_truthy(e.traceback:find "history_spec")
    local x = bytes(100)
    assert.is_nil(block_of(x).label)
    x:free()
    collectgarbage()
    collectgarbage()
    cuda.synchronize()
  end)

  it("belongs to its coroutine", function()
    local co = coroutine.wrap(function()
      return M.scope("in the coroutine", function()
        local x = bytes(100)
        coroutine.yield(x)
        return bytes(100)
      end)
    end)
    local x = co()
    local mine = bytes(100)
    local y, stats = co()
    assert.are.equal("in the coroutine", block_of(x).label)
    assert.are.equal("in the coroutine", block_of(y).label)
    assert.is_nil(block_of(mine).label)
    assert.are.equal(2, stats.allocations)
    for _, t in ipairs { x, y, mine } do t:free() end
    local counted = M.scope("resumes", function() coroutine.wrap(function() bytes(100):free() end)() end)
    assert.are.equal(1, counted.allocations) -- a coroutine that is first resumed inside inherits the block
  end)

  it("labels the history", function()
    M.record_history()
    M.scope("seen", function() bytes(100):free() end)
    local labels = {}
    for _, e in ipairs(M.snapshot().device_traces[1]) do labels[e.action] = e.label end
    M.record_history(false)
    assert.are.equal("seen", labels.alloc)
    assert.are.equal("seen", labels.free_completed)
  end)

  it("refuses what it does not know", function()
    D.raises("ArgumentError", M.scope)
    D.raises("ArgumentError", M.scope, 5, print)
    D.raises("ArgumentError", M.scope, "x", 5)
  end)
end)

describe("an allocation that fails", function()
  D.watch(before_each, after_each)
  before_each(function() cuda.empty_cache() end)

  it("names the lines that hold most, and holds nothing", function()
    local before = cuda.memory_allocated()
    local big, line = tide.empty(8 * MiB, uint8), here()
    local small, other = tide.empty(3 * MiB, uint8), here()
    local allocated = cuda.memory_allocated()
    local e = D.raises("OutOfMemoryError", bytes, 1 << 50)
    assert.are.equal(allocated, cuda.memory_allocated())
    assert.are.equal(allocated, e.allocated)
    assert.are.equal(1 << 50, e.requested)
    assert.is_true(e.reserved >= e.allocated)
    local free, total = cuda.mem_get_info()
    assert.are.equal(total, e.total)
    assert.is_true(e.free <= total and free <= total)
    assert.are.equal("integer", math.type(e.largest_free))
    assert.is_true(e.fragmentation >= 0 and e.fragmentation <= 1)
    assert.are.equal("size", e.rung)
    assert.is_nil(e.limit)
    assert.is_true(#e.sites >= 2 and #e.sites <= 5)
    ends_in(e.sites[1].line, line)
    assert.are.equal(8 * MiB, e.sites[1].bytes)
    assert.are.equal(1, e.sites[1].blocks)
    ends_in(e.sites[2].line, other)
    assert.is_truthy(e.message:find(line, 1, true), e.message)
    assert.is_truthy(e.message:find("8.00 MiB", 1, true), e.message)
    for _, v in pairs(e) do assert.is_true(type(v) ~= "userdata" or not tide.is_tensor(v)) end
    big:free()
    small:free()
    assert.are.equal(before, cuda.memory_allocated())
  end)

  -- On small devices of their own: simulated memory is filled with poison, and a gigabyte takes its time.
  it("says which step failed", function()
    D.simulate(1, [[
      local tide = require "tide"
      local cuda = tide.cuda
      local uint8 = { dtype = "uint8", device = "cuda" }
      local _, total = cuda.mem_get_info()
      local half = tide.empty(total // 2, uint8)
      local ok, e = pcall(tide.empty, total // 4 * 3, uint8)
      assert(not ok and e.kind == "OutOfMemoryError" and e.rung == "driver" and e.limit == nil, tostring(e))
      cuda.set_per_process_memory_fraction(0.6)
      ok, e = pcall(tide.empty, total // 4, uint8)
      assert(not ok and e.rung == "limit" and e.limit == math.floor(total * 0.6), tostring(e))
      assert(e.message:find("may reserve", 1, true))
      cuda.set_per_process_memory_fraction(1)
      assert(pcall(tide.empty, total // 4, uint8))
      assert(cuda.memory_stats().num_ooms == 2)]], { TIDE_SIM_MEMORY = "67108864" })
  end)

  it("says that a capture keeps the cache where it is; what was dead before it is not in its way", function()
    D.simulate(1, [[
      local tide = require "tide"
      local cuda = tide.cuda
      local uint8 = { dtype = "uint8", device = "cuda" }
      local _, total = cuda.mem_get_info()
      local big = total // 4 * 3
      collectgarbage "stop"
      tide.empty(big, uint8)
      collectgarbage "restart" -- a stopped collector would stay so
      local g, x = cuda.CUDAGraph()
      cuda.graph(g, function() x = tide.empty(big, uint8) end)
      g:reset()
      x:free()
      x = tide.empty(big, uint8)
      local ok, e = pcall(cuda.graph, g, function()
        x:free()
        return tide.empty(big, uint8)
      end)
      assert(not ok and e.rung == "driver" and e.largest_free >= big, tostring(e))
      assert(e.message:find("while a graph is captured", 1, true) and e.message:find("before the capture", 1, true), e.message)
      -- The pool of a graph serves nothing else, full or not.
      x, e = nil, nil
      cuda.graph(g, function() tide.empty(big, uint8):free() end)
      ok, e = pcall(tide.empty, big, uint8)
      assert(not ok and e.message:find("the cache belongs to graphs", 1, true), e.message)
      g:reset()
      assert(pcall(tide.empty, big, uint8))]], { TIDE_SIM_MEMORY = "67108864" })
  end)

  it("can be tried again with half the size", function()
    D.simulate(1, [[
      local tide = require "tide"
      local cuda = tide.cuda
      local function bytes(n) return tide.empty(n, { dtype = "uint8", device = "cuda" }) end
      local _, total = cuda.mem_get_info()
      local keep = {}
      for _ = 1, 6 do -- each time as much as fits, by halves
        local size, x = total * 2, nil
        repeat
          local before = cuda.memory_allocated()
          local ok, got = pcall(bytes, size)
          if ok then x = got else
            assert(got.kind == "OutOfMemoryError" and cuda.memory_allocated() == before, tostring(got))
            size = size // 2
          end
        until x or size < 1 << 16
        if not x then break end
        keep[#keep + 1] = x
      end
      assert(cuda.memory_allocated() >= total // 8 * 7, cuda.memory_allocated())]], { TIDE_SIM_MEMORY = "67108864" })
  end)

  it("is told to observers first", function()
    local seen, at = {}, nil
    local remove = M.on_oom(function(device, requested, figures)
      seen[#seen + 1] = { device, requested, figures }
      at = bytes(100)
      at:free()
    end)
    local failing = M.on_oom(function() error "an observer that fails" end)
    local quiet = M.on_oom(function() pcall(bytes, 1 << 50) end)
    warn "@off"
    local e = D.raises("OutOfMemoryError", bytes, 1 << 51)
    warn "@on"
    assert.are.equal(1, #seen)
    assert.are.equal("cuda:0", tostring(seen[1][1]))
    assert.are.equal(1 << 51, seen[1][2])
    assert.are.equal(e.total, seen[1][3].total)
    assert.are.equal(e.rung, seen[1][3].rung)
    assert.are.equal(1 << 51, e.requested)
    remove()
    remove()
    failing()
    quiet()
    D.raises("OutOfMemoryError", bytes, 1 << 51)
    assert.are.equal(1, #seen)
    D.raises("ArgumentError", M.on_oom)
    D.raises("ArgumentError", M.on_oom, "x")
  end)

  it("takes observers that come twice or go meanwhile", function()
    local seen, remove = "", nil
    local function twice() seen = seen .. "t" end
    local first, second = M.on_oom(twice), M.on_oom(twice)
    remove = M.on_oom(function()
      seen = seen .. "r"
      remove()
    end)
    local last = M.on_oom(function() seen = seen .. "l" end)
    D.raises("OutOfMemoryError", bytes, 1 << 50)
    assert.are.equal("ttrl", seen)
    first()
    first()
    D.raises("OutOfMemoryError", bytes, 1 << 50)
    assert.are.equal("ttrltl", seen)
    second()
    last()
    D.raises("OutOfMemoryError", bytes, 1 << 50)
    assert.are.equal("ttrltl", seen)
  end)

  it("warns of observers that fail", function()
    local out, err = D.run({ "-e", [[
      local tide = require "tide"
      tide.cuda.memory.on_oom(function() error "boo" end)
      print(pcall(tide.empty, 1 << 50, { device = "cuda" }))]] })
    assert.is_truthy(err:find "on_oom" and err:find "boo", err)
    assert.is_truthy(out:find "false", out)
  end)
end)
