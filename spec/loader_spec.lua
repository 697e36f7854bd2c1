-- Batches of a dataset (API.md PIN-04, PIN-05, D12, EX-06).

local tide = require "tide"
local D = require "spec.support.device"

local function range(n)
  local t = {}
  for i = 1, n do t[i] = i end
  return t
end

local function threads()
  for line in io.lines "/proc/self/status" do
    local n = line:match "^Threads:%s*(%d+)"
    if n then return tonumber(n) end
  end
end

-- A thread that has been waited for may be counted for a moment still.
local function count_to(n)
  for _ = 1, 100 do
    if threads() <= n then break end
    os.execute "sleep 0.01"
  end
  return threads()
end

-- The values of all batches, each as a table.
local function all(loader)
  local out = {}
  for i, batch in loader:iter() do
    assert.are.equal(#out + 1, i)
    out[i] = batch:totable()
  end
  return out
end

describe("tide.data.loader", function()
  D.watch(before_each, after_each)

  it("gives batches of a table in order, the last one shorter", function()
    for _, prefetch in ipairs { 0, 1, 2, 50 } do
      local loader = tide.data.loader(range(10), { batch_size = 4, prefetch = prefetch })
      assert.are.equal(3, #loader)
      assert.are.same({ { 1, 2, 3, 4 }, { 5, 6, 7, 8 }, { 9, 10 } }, all(loader))
      assert.are.same({ { 1, 2, 3, 4 }, { 5, 6, 7, 8 }, { 9, 10 } }, all(loader)) -- each time anew
    end
    assert.are.same({ { 1 }, { 2 } }, all(tide.data.loader(range(2))))
    assert.are.equal(0, #tide.data.loader({}, { batch_size = 3 }))
    assert.are.same({}, all(tide.data.loader({}, { shuffle = true })))
  end)

  it("drops the short batch at the end when asked", function()
    local loader = tide.data.loader(range(10), { batch_size = 4, drop_last = true })
    assert.are.equal(2, #loader)
    assert.are.same({ { 1, 2, 3, 4 }, { 5, 6, 7, 8 } }, all(loader))
    assert.are.same({}, all(tide.data.loader(range(3), { batch_size = 4, drop_last = true })))
  end)

  it("shuffles each time by the generator", function()
    local function two(seed)
      local g = tide.generator and tide.generator() or tide.Generator()
      g:manual_seed(seed)
      local loader = tide.data.loader(range(50), { batch_size = 50, shuffle = true, generator = g })
      return all(loader)[1], all(loader)[1]
    end
    local a, b = two(7)
    local c, d = two(7)
    assert.are.same(a, c)
    assert.are.same(b, d)
    assert.are_not.same(a, b)
    table.sort(a)
    assert.are.same(range(50), a)
    tide.manual_seed(3)
    local first = all(tide.data.loader(range(50), { batch_size = 7, shuffle = true }))
    tide.manual_seed(3)
    assert.are.same(first, all(tide.data.loader(range(50), { batch_size = 7, shuffle = true })))
  end)

  it("takes the rows of a tensor", function()
    local x = tide.arange(12, { dtype = "float32" }):view(6, 2)
    local seen = {}
    for i, batch in tide.data.loader(x, { batch_size = 4 }):iter() do
      seen[i] = batch
      assert.are.equal(tide.float32, batch.dtype)
    end
    D.eq(x:narrow(1, 1, 4), seen[1])
    D.eq(x:narrow(1, 5, 2), seen[2])
    assert.are.same({ { 0, 1, 2 }, { 3, 4 } }, all(tide.data.loader(tide.arange(5), { batch_size = 3 })))
    local t = tide.arange(6, { dtype = "int64" }):view(2, 3):t() -- rows that are not dense
    assert.are.same({ { { 0, 3 }, { 1, 4 }, { 2, 5 } } }, all(tide.data.loader(t, { batch_size = 3 })))
  end)

  it("takes objects with a length and a function with a size", function()
    local object = setmetatable({}, { __len = function() return 3 end, __index = function(_, i) return i * i end })
    assert.are.same({ { 1, 4 }, { 9 } }, all(tide.data.loader(object, { batch_size = 2 })))
    local f = function(i) return tide.full({ 2 }, i, { dtype = "int32" }) end
    assert.are.same({ { { 1, 1 }, { 2, 2 } }, { { 3, 3 } } }, all(tide.data.loader(f, { size = 3, batch_size = 2 })))
  end)

  it("walks tables and keeps strings a list", function()
    local function f(i)
      return { x = tide.full({ 2 }, i), label = i, weight = i == 1 and 1 or i / 2, good = i % 2 == 0, name = "n" .. i,
        { tide.tensor(i), i } }
    end
    for _, prefetch in ipairs { 0, 2 } do
      for i, b in tide.data.loader(f, { size = 4, batch_size = 2, prefetch = prefetch }):iter() do
        local p, q = 2 * i - 1, 2 * i
        D.eq({ { p, p }, { q, q } }, b.x)
        D.eq({ p, q }, b.label)
        D.eq({ p == 1 and 1 or p / 2, q / 2 }, b.weight)
        assert.are.same({ false, true }, b.good:totable())
        assert.are.same({ "n" .. p, "n" .. q }, b.name)
        D.eq({ p, q }, b[1][1])
        D.eq({ p, q }, b[1][2])
        assert.are.equal(tide.int64, b.label.dtype)
        assert.are.equal(tide.float32, b.weight.dtype)
        assert.are.equal(tide.bool, b.good.dtype)
        local pinned = D.cuda
        assert.are.equal(pinned, b.x:is_pinned() and b.label:is_pinned() and b[1][1]:is_pinned())
      end
    end
  end)

  it("promotes dtypes as stack does", function()
    local data = { tide.tensor({ 1, 2 }, { dtype = "int32" }), tide.tensor({ 0.5, 1.5 }, { dtype = "float64" }) }
    for _, b in tide.data.loader(data, { batch_size = 2 }):iter() do
      assert.are.equal(tide.float64, b.dtype)
      D.eq({ { 1, 2 }, { 0.5, 1.5 } }, b)
    end
  end)

  it("calls collate with the list of items", function()
    local lists = {}
    local function collate(items)
      lists[#lists + 1] = items
      return { sum = tide.stack(items):sum(1), n = #items }
    end
    local data = { tide.ones(3), tide.ones(3) * 2, tide.ones(3) * 3 }
    local seen = {}
    for i, b in tide.data.loader(data, { batch_size = 2, collate = collate }):iter() do
      seen[i] = b
      assert.are.equal(D.cuda, b.sum:is_pinned())
    end
    assert.are.same({ 2, 1 }, { seen[1].n, seen[2].n })
    assert.is_true(rawequal(lists[1][1], data[1]))
    D.eq({ 3, 3, 3 }, seen[1].sum)
    D.eq({ 3, 3, 3 }, seen[2].sum)
    local nothing = tide.data.loader(range(2), { collate = function() end })
    local n = 0
    for i, b in nothing:iter() do
      n = i
      assert.is_nil(b)
    end
    assert.are.equal(2, n)
  end)

  it("leaves batches unpinned when told", function()
    for _, b in tide.data.loader(range(3), { pin_memory = false }):iter() do assert.is_false(b:is_pinned()) end
  end)

  it("copies large batches behind the loop", function()
    local n = 1 << 16
    local data = {}
    for i = 1, 8 do data[i] = tide.full({ n }, i, { dtype = "float32" }) end
    local g = tide.data.loader(data, { batch_size = 2, prefetch = 3 })
    for _ = 1, 5 do
      for i, b in g:iter() do
        collectgarbage("step")
        assert.are.equal((2 * i - 1) * n, b[1]:sum():item())
        assert.are.equal(2 * i * n, b[2]:sum():item())
      end
    end
  end)

  it("asks for no more than prefetch batches ahead", function()
    local asked = 0
    local loader = tide.data.loader(function(i)
      asked = i
      return i
    end, { size = 20, batch_size = 2, prefetch = 3 })
    assert.are.equal(0, asked)
    for i in loader:iter() do
      assert.are.equal(math.min(20, 2 * (i + 3)), asked)
    end
  end)

  it("ends well when the loop is left early", function()
    local data = {}
    for i = 1, 20 do data[i] = tide.full({ 10000 }, i) end
    local loader = tide.data.loader(data, { batch_size = 2, prefetch = 4 })
    for i in loader:iter() do
      if i == 2 then break end
    end
    assert.is_false(pcall(function()
      for _ in loader:iter() do error "stop" end
    end))
    os.execute "sleep 0.1"
    local before = threads()
    for _ = 1, 5 do loader:iter()() end -- dropped, for the collector
    collectgarbage()
    assert.are.equal(before, count_to(before))
    local kept = loader:iter()
    kept()
    assert.are.equal(before + 1, count_to(before + 1))
    do
      local _ <close> = kept
    end
    assert.are.equal(before, count_to(before))
    assert.is_nil(kept())
    local it = loader:iter()
    for i = 1, 10 do assert.are.equal(i, (it())) end
    assert.is_nil(it())
    assert.is_nil(it())
  end)

  it("gives batches to the scope that they are given out in", function()
    local it = tide.data.loader(range(4), { prefetch = 2 }):iter()
    local inner
    tide.scope(function() inner = select(2, it()) end)
    D.raises("StateError", function() return inner:sum() end)
    local _, second = it()
    D.eq({ 2 }, second)
  end)

  it("gives what collate makes to the scope that it is given out in, too", function()
    local own = tide.ones(1)
    local function collate(items) return { tide.tensor(items, { device = D.dev }), own, { inner = tide.tensor(items) } } end
    for _, pin in ipairs { true, false } do
      local it = tide.data.loader(range(6), { prefetch = 2, collate = collate, pin_memory = pin }):iter()
      local inner
      tide.scope(function() inner = select(2, it()) end)
      D.raises("StateError", function() return inner[1]:sum() end)
      D.raises("StateError", function() return inner[3].inner:sum() end)
      for i = 2, 3 do
        local _, b = it()
        D.eq({ i }, b[1])
        D.eq({ i }, b[3].inner)
      end
      D.eq({ 1 }, own)
    end
  end)

  it("passes errors of the dataset and of collate through", function()
    local bad = true
    local function f(i)
      if bad and i == 3 then error({ item = i }) end
      return i
    end
    local loader = tide.data.loader(f, { size = 4, prefetch = 1 })
    local ok, e = pcall(all, loader)
    assert.is_false(ok)
    assert.are.same({ item = 3 }, e)
    bad = false
    assert.are.same({ { 1 }, { 2 }, { 3 }, { 4 } }, all(loader))
    local function deep_in_collate() error "no" end
    local broken = tide.data.loader(range(2), { collate = function() deep_in_collate() return 1 end })
    local trace = select(2, xpcall(all, debug.traceback, broken))
    assert.is_truthy(trace:find("deep_in_collate", 1, true))
  end)

  it("names the item that does not fit", function()
    local function fails(kind, data, ...)
      local e = D.raises(kind, function() all(tide.data.loader(data, { batch_size = 4 })) end)
      for _, text in ipairs { ... } do
        if not e.message:find(text, 1, true) then error(e.message .. " lacks " .. text) end
      end
    end
    fails("ShapeError", { tide.ones(2), tide.ones(2), tide.ones(3) }, "dataset[3]", "[3]", "[2]")
    fails("ShapeError", { { x = tide.ones(2) }, { x = tide.ones(2, 1) } }, "dataset[2].x")
    fails("ShapeError", { 1, 2, "3" }, "dataset[3]")
    fails("ShapeError", { true, 1 }, "dataset[2]")
    fails("ShapeError", { "a", 1 }, "dataset[2]")
    fails("ShapeError", { { 1, 2 }, { 1 } }, "dataset[2]", "1 keys")
    fails("ShapeError", { { a = 1 }, { b = 1 } }, "dataset[2].a")
    fails("ShapeError", { { 1 }, 1 }, "dataset[2]")
    fails("ShapeError", { tide.ones(1), 1 }, "dataset[2]")
    fails("ArgumentError", { print }, "dataset[1]", "collate")
    fails("ArgumentError", { { f = { print } } }, "dataset[1].f[1]")
    local circle = {}
    circle[1] = circle
    fails("ValueError", { circle }, "dataset[1]", "nested")
    fails("ValueError", setmetatable({}, { __len = function() return 2 end }), "dataset[1]", "nil")
    fails("ValueError", setmetatable({}, { __len = function() return "x" end }), "#dataset")
    local freed = tide.ones(2)
    freed:free()
    fails("StateError", { freed }, "freed")
  end)

  it("refuses bad arguments", function()
    local function fails(kind, text, ...)
      local e = D.raises(kind, tide.data.loader, ...)
      if not e.message:find(text, 1, true) then error(e.message .. " lacks " .. text) end
    end
    fails("ArgumentError", "dataset")
    fails("ArgumentError", "dataset", 3)
    fails("ArgumentError", "dataset", "text")
    fails("ArgumentError", "options", {}, 3)
    fails("ArgumentError", "unknown option 'workers'", {}, { workers = 2 })
    fails("ArgumentError", "batch_size", {}, { batch_size = "2" })
    fails("ArgumentError", "batch_size", {}, { batch_size = 1.5 })
    fails("ValueError", "batch_size", {}, { batch_size = 0 })
    fails("ValueError", "prefetch", {}, { prefetch = -1 })
    fails("ValueError", "size", print, { size = -1 })
    fails("ArgumentError", "size", print)
    fails("ArgumentError", "size", {}, { size = 2 })
    fails("ArgumentError", "shuffle", {}, { shuffle = 1 })
    fails("ArgumentError", "pin_memory", {}, { pin_memory = 1 })
    fails("ArgumentError", "drop_last", {}, { drop_last = "no" })
    fails("ArgumentError", "collate", {}, { collate = {} })
    fails("ArgumentError", "generator", {}, { generator = 7 })
    fails("ArgumentError", "device", {}, { device = "gpu" })
    fails("ArgumentError", "device", {}, { device = true })
    if D.cuda then D.raises("DeviceError", function() tide.data.loader({}, { device = "cuda:60" }):iter() end) end
    D.raises("ArgumentError", tide.data.loader({}).iter)
    D.raises("ArgumentError", tide.data.loader({}).iter, {})
  end)

  if not D.cuda then return end

  it("feeds a GPU without waiting (EX-06)", function()
    local data = {}
    for i = 1, 16 do data[i] = tide.full({ 1000 }, i, { dtype = "float32" }) end
    local train_loader = tide.data.loader(data, { batch_size = 4 })
    local cuda0 = tide.device "cuda:0"
    local sums = {}
    for i, batch in train_loader:iter() do
      assert.is_true(batch:is_pinned())
      batch = batch:to(cuda0, { non_blocking = true })
      sums[i] = batch:sum()
    end
    for i = 1, 4 do assert.are.equal((16 * i - 6) * 1000, sums[i]:item()) end
  end)

  it("gives batches on a device", function()
    local function f(i)
      return { x = tide.full({ 2 }, i), label = i, name = "n" .. i, { tide.tensor(i) }, there = tide.full({ 1 }, i, { device = "cuda" }) }
    end
    local current = tide.cuda.current_stream().cuda_stream
    for d = 0, D.devices - 1 do
      for _, prefetch in ipairs { 0, 1, 5 } do
        for _, pin in ipairs { true, false } do
          local device, n = "cuda:" .. d, 0
          local loader = tide.data.loader(f, { size = 5, batch_size = 2, prefetch = prefetch, pin_memory = pin, device = device })
          for i, b in loader:iter() do
            local p = { 2 * i - 1, i < 3 and 2 * i or nil }
            for _, y in ipairs { b.x:select(2, 1), b.label, b[1][1], b.there:select(2, 1) } do
              assert.are.equal(device, tostring(y.device))
              D.eq(p, y)
            end
            assert.are.equal("n" .. p[1], b.name[1])
            n = i
          end
          assert.are.equal(3, n)
          assert.are.equal(current, tide.cuda.current_stream().cuda_stream)
        end
      end
    end
    for _, b in tide.data.loader({ 1 }, { device = "cpu" }):iter() do assert.is_true(b:is_pinned()) end
  end)

  it("gives what collate makes on a device, and leaves its own where it is", function()
    local own, pinned = tide.full({ 3 }, 7), tide.full({ 3 }, 8):pin_memory()
    local function collate(items) return { own, pinned, { tide.tensor(items) }, "text" } end
    for _, pin in ipairs { true, false } do
      for i, b in tide.data.loader(range(4), { batch_size = 2, collate = collate, device = "cuda", pin_memory = pin }):iter() do
        D.eq({ 7, 7, 7 }, b[1])
        D.eq({ 8, 8, 8 }, b[2])
        D.eq({ 2 * i - 1, 2 * i }, b[3][1])
        assert.is_true(b[1].is_cuda and b[2].is_cuda and b[3][1].is_cuda)
        assert.are.equal("text", b[4])
      end
      assert.is_false(own.is_cuda or pinned.is_cuda)
      D.eq({ 8, 8, 8 }, pinned)
    end
  end)

  it("has copied what collate gives when its batch has come", function()
    local n, buffer = 1 << 16, tide.empty(1 << 16, { pin_memory = true })
    for _, pin in ipairs { true, false } do
      local got = {}
      local function collate(items) return buffer:fill_(items[1]) end
      for i, b in tide.data.loader(range(4), { prefetch = 0, device = "cuda", collate = collate, pin_memory = pin }):iter() do
        got[i] = b
        buffer:fill_(-1)
      end
      for i = 1, 4 do D.eq(i * n, got[i]:sum()) end
    end
  end)

  it("keeps what is shared in a batch, and what its tables are", function()
    local Batch = { __name = "Batch" }
    local function collate(items)
      local x, sub = tide.tensor(items), {}
      local b = setmetatable({ x = x, same = x, sub, sub }, Batch)
      b.itself, sub.x = b, x
      return b
    end
    for _, opts in ipairs { { device = "cuda" }, { pin_memory = true } } do
      opts.collate = collate
      for i, b in tide.data.loader(range(2), opts):iter() do
        assert.are.equal(Batch, getmetatable(b))
        assert.are.equal(opts.device ~= nil, b.x.is_cuda)
        assert.is_true(b.x.is_cuda or b.x:is_pinned())
        assert.is_true(rawequal(b.x, b.same) and rawequal(b[1], b[2]) and rawequal(b[1].x, b.x) and rawequal(b.itself, b))
        D.eq({ i }, b.x)
      end
    end
  end)

  it("finds memory on the device with the script's own stream selected", function()
    if not D.simulated then return end
    local out = D.simulate(1, [[
      local tide = require "tide"
      local cuda = tide.cuda
      collectgarbage "stop"
      local x, y = tide.zeros(4, {device = "cuda"}), tide.zeros(4, {device = "cuda"})
      cuda.synchronize()
      cuda.set_per_process_memory_fraction(12 / 1024)
      local own, seen = cuda.current_stream(), {}
      local function garbage()
        setmetatable({t = tide.empty(1 << 21, {dtype = "float32", device = "cuda"})}, {__gc = function()
          seen[#seen + 1] = cuda.current_stream() == own
          x:add_(1)
          for _, b in tide.data.loader({5}, {device = "cuda"}):iter() do y:copy_(b) end
        end})
      end
      garbage()
      cuda._sleep(50000000)
      x:fill_(7)
      local big = tide.data.loader(function(i) return tide.full({1 << 21}, i, {dtype = "float32"}) end, {size = 2, device = "cuda"})
      local _, b = big:iter()()
      print(#seen, seen[1], x[1]:item(), y[1]:item(), b[{1, 1}]:item(), cuda.current_stream() == own)
      b = nil
      local kept, other = tide.empty(1 << 21, {dtype = "float32", device = "cuda"}), cuda.Stream()
      cuda.memory.on_oom(function() -- when it is asked for, and when it is given out
        seen.oom = seen.oom ~= false and cuda.current_stream() == (seen.oom and other or own)
        cuda.set_stream(other)
      end)
      print(pcall(big:iter()) , seen.oom, cuda.current_stream() == other)]])
    assert.are.equal("1\ttrue\t8.0\t5.0\t1.0\ttrue\nfalse\ttrue\ttrue\n", out)
  end)

  it("copies to a device beside the work of the loop", function()
    local cuda = tide.cuda
    local n = 10 << 20 -- more than the page-locked memory in between holds, so much has been copied when a batch is there
    local loader = tide.data.loader(function(i) return tide.full({ n }, i) end, { size = 4, device = "cuda" })
    for i, b in loader:iter() do -- what is made on first use is made
      D.eq(i, b[{ 1, 1 }])
    end
    local it = loader:iter()
    local _, first = it()
    cuda.synchronize()
    cuda._sleep(400000000)
    local _, second = it()
    local copied = second:clone() -- waits for the sleep and the copy
    assert.is_false(cuda.current_stream():query())
    D.eq(2, copied[{ 1, 1 }])
    D.eq(2, copied[{ 1, n }])
    first, second, copied, it = nil, nil, nil, nil
  end)

  it("brings batches of every size, layout and dtype through a little page-locked memory", function()
    local function rand(...) return tide.rand({ ... }, { dtype = "float32" }) end
    local wide = rand(3, 1 << 20):t() -- not dense, in rows of less than a slot
    local items = {
      { rand(7), rand(1 << 19), rand(3 << 20), wide, tide.zeros(0), i = 1 },
      { rand(7):double(), rand(1 << 19), rand(3 << 20), wide + 1, tide.zeros(0), i = 2.5 },
      { rand(7), rand(1 << 19):half(), rand(3 << 20):view(3, 1 << 20):t():reshape(3 << 20), wide + 2, tide.zeros(0), i = 3 },
    }
    for _, collate in ipairs { false, function(list) return list[1] end } do
      local opts = { size = 30, batch_size = 3, prefetch = 3, device = D.dev, collate = collate or nil }
      local loader = tide.data.loader(function(i) return items[(i - 1) % 3 + 1] end, opts)
      tide.cuda.reset_peak_host_memory_stats()
      local before = tide.cuda.host_memory_stats()["active_bytes.current"]
      for _, b in loader:iter() do
        for k = 1, 5 do
          local expected = collate and items[1][k] or tide.stack { items[1][k], items[2][k], items[3][k] }
          assert.are.equal(expected.dtype, b[k].dtype)
          assert.are.same(expected:size(), b[k]:size())
          assert.is_true(b[k].is_cuda and b[k]:cpu():equal(expected))
        end
        if not collate then D.eq({ 1, 2.5, 3 }, b.i) end
      end
      local most = tide.cuda.host_memory_stats()["active_bytes.peak"] - before
      assert.is_true(most <= 2 * 4 * 8 << 20, most .. " bytes of page-locked memory") -- a batch of each loader is larger
    end
  end)

  it("says which line its copies belong to", function()
    if not D.simulated then return end
    local out = D.simulate(1, [[
      local tide = require "tide"
      local path = os.tmpname()
      tide.cuda.profiler.trace(function()
        for _ in tide.data.loader({ 1, 2 }, { device = "cuda" }):iter() do end
      end, path)
      for line in io.open(path):read "a":gmatch '"name":"copy to the device","cat":"copy",[^{]*{"line":"[^"]*:(%d+)"' do print(line) end
      os.remove(path)]])
    assert.are.equal("4\n4\n", out)
  end)

  it("gives out no more batches than the device keeps up with", function()
    local bytes, loader = 1 << 20, function(prefetch)
      return tide.data.loader(function(i) return tide.full({ 1 << 18 }, i) end, { size = 12, device = "cuda", prefetch = prefetch })
    end
    for _, prefetch in ipairs { 0, 2 } do
      tide.cuda.reset_peak_memory_stats()
      local before = tide.cuda.memory_allocated()
      for _, b in loader(prefetch):iter() do
        tide.cuda._sleep(2000000)
        b:add_(1)
        b:free()
      end
      local peak = (tide.cuda.max_memory_allocated() - before) // bytes
      assert.is_true(peak <= 2 * prefetch + 2, "peak of " .. peak)
    end
  end)

  it("keeps a batch that finds no room on the device for the next call", function()
    local cuda = tide.cuda
    local n = D.simulated and 1 << 22 or 1 << 26 -- more than lies free between what is in use
    local big = function(i) return tide.full({ n }, i) end
    local it = tide.data.loader(function(i) return { big(i), big(-i) } end, { size = 3, device = "cuda" }):iter()
    collectgarbage()
    cuda.empty_cache()
    local more = D.simulated and 24 << 20 or 2 << 20 -- simulated: for one of the two, not for both
    cuda.set_per_process_memory_fraction((cuda.memory_reserved() + more) / cuda.get_device_properties().total_memory)
    local ok, e = pcall(it)
    local again, e2 = pcall(it)
    cuda.set_per_process_memory_fraction(1)
    assert.is_false(ok or again)
    assert.are.equal("OutOfMemoryError", e.kind)
    assert.are.equal("OutOfMemoryError", e2.kind)
    for i = 1, 3 do
      local k, b = it()
      assert.are.equal(i, k)
      D.eq(i, b[1][{ 1, n }])
      D.eq(-i, b[2][{ 1, n }])
      b[1]:free()
      b[2]:free()
    end
    assert.is_nil(it())
  end)

  it("copies on a new stream when the devices were reset", function()
    if not D.simulated then return end
    local out = D.simulate(2, [[
      local tide = require "tide"
      local loader = tide.data.loader({ 1, 2, 3 }, { device = "cuda:1" })
      local function sum()
        local s = 0
        for _, b in loader:iter() do s = s + b:item() end
        return s
      end
      print(sum(), sum())
      local it = loader:iter()
      it()
      tide.cuda.device_reset()
      for i = 2, 3 do
        local ok, e = pcall(it)
        print(ok, e.kind, e.message:match "^loader: batch %d: ")
      end
      print(it(), sum())]])
    assert.are.equal("6\t6\nfalse\tStateError\tloader: batch 2: \nfalse\tStateError\tloader: batch 3: \nnil\t6\n", out)
  end)

  it("stacks items of a GPU there", function()
    local x = tide.arange(6, { device = D.dev }):view(3, 2)
    for i, b in tide.data.loader(x, { batch_size = 2 }):iter() do
      assert.is_true(b.is_cuda)
      D.eq(x:narrow(1, 2 * i - 1, i == 1 and 2 or 1), b)
    end
    local mixed = tide.data.loader({ tide.ones(1), tide.ones(1, { device = D.dev }) }, { batch_size = 2 })
    assert.matches("got a float32 tensor [1] on cuda:0, expected one like", D.raises("ShapeError", mixed.iter(mixed)).message, 1, true)
  end)

  it("makes no second one of what has a finaliser", function()
    for _, event in ipairs { "__gc", "__close" } do
      local meta, given = { [event] = function() end }, {}
      local function collate(items)
        given[#given + 1] = setmetatable({ x = items[1] }, meta)
        return { inner = given[#given], x = items[1] }
      end
      for i, b in tide.data.loader({ tide.ones(2), tide.ones(2) }, { collate = collate }):iter() do
        assert.is_true(rawequal(given[i], b.inner))
        assert.are.same({ false, true }, { b.inner.x:is_pinned(), b.x:is_pinned() })
      end
      local it = tide.data.loader({ tide.ones(2) }, { collate = collate, device = D.dev }):iter()
      assert.matches("loader: collate: got a table with __gc or __close", D.raises("ArgumentError", it).message, 1, true)
    end
  end)

  it("ends where a finaliser asks for batches, or iterates, after what it uses was finalised", function()
    local out = {}
    local function drop(device)
      local items, later = { tide.ones(2), tide.ones(2), tide.ones(2) }, nil
      local it = tide.data.loader(items, { device = device }):iter()
      setmetatable({}, { __gc = function() -- after what is made from here on, the batches ahead among it
        out = { { pcall(it) }, { pcall(it) }, { pcall(later.iter, later) } }
      end })
      it()
      later = tide.data.loader(items)
    end
    for _, device in ipairs { "cpu", D.dev } do
      tide.scope(function()
        drop(device)
        collectgarbage()
        collectgarbage()
      end)
      assert.matches("loader: got a batch with a freed tensor, expected all alive", out[1][2].message, 1, true)
      assert.are.same({ true }, out[2])
      assert.matches("loader: got a freed loader, expected one that is alive", out[3][2].message, 1, true)
      out = {}
    end
  end)

  it("refuses a generator that cannot draw the order", function()
    local g = tide.Generator(D.dev)
    local e = D.raises("DeviceError", tide.data.loader, { 1, 2 }, { shuffle = true, generator = g })
    assert.matches("loader: generator: got one of cuda:0, expected one of the cpu", e.message, 1, true)
  end)
end)
