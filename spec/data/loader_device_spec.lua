-- Batches on a device, and what has to do with one.

local tide = require "tide"
local D = require "spec.support.device"
if not D.cuda then return end

local function range(n)
  local t = {}
  for i = 1, n do t[i] = i end
  return t
end

describe("tide.data.loader beside a GPU", function()
  D.watch(before_each, after_each)

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

  it("brings batches that are larger than what stays in page-locked memory", function()
    local elements = 3 << 18 -- 3 MiB each: a slot of the ring holds two, and the last one is alone
    for _, count in ipairs { 1, 2, 3, 7 } do
      for _, whole in ipairs { false, true } do
        local rows = tide.arange(count):view(count, 1):to("float32"):expand(count, elements):contiguous()
        local function item(i) return rows[i] end
        local loader = tide.data.loader(item, { size = count, batch_size = count, device = "cuda:0",
          collate = whole and function() return rows end or nil })
        for _, b in loader:iter() do
          assert.are.same({ count, elements }, b:size())
          assert.is_true(b:cpu():equal(rows), ("%d items, %s"):format(count, whole and "one tensor" or "stacked"))
        end
      end
    end
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
    if not D.simulated then return pending "needs simulated devices" end
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
    local loader = tide.data.loader(function(i) return tide.full({ n }, i) end, { size = 2, device = "cuda" })
    for i, b in loader:iter() do -- what is made on first use is made
      D.eq(i, b[{ 1, 1 }])
    end
    local it = loader:iter()
    local _, first = it()
    cuda.synchronize()
    D.hold()
    local _, second = it()
    local copied = second:clone() -- waits for what holds the stream, and for the copy
    assert.is_false(cuda.current_stream():query())
    D.release()
    D.eq(2, copied[{ 1, 1 }])
    D.eq(2, copied[{ 1, n }])
    first, second, copied, it = nil, nil, nil, nil
  end)

  it("brings batches of every size, layout and dtype through a little page-locked memory", function()
    local function rand(...) return tide.rand({ ... }, { dtype = "float32" }) end
    local wide = rand(3, 1 << 20):t() -- not dense, in rows of less than a slot
    local items = {
      { rand(7), rand(1 << 19), rand(5 << 19), wide, tide.zeros(0), i = 1 },
      { rand(7):double(), rand(1 << 19), rand(5 << 19), wide + 1, tide.zeros(0), i = 2.5 },
      { rand(7), rand(1 << 19):half(), rand(5 << 19):view(5, 1 << 19):t():reshape(5 << 19), wide + 2, tide.zeros(0), i = 3 },
    }
    for _, collate in ipairs { false, not D.tsan and function(list) return list[1] end or nil } do
      local opts = { size = D.tsan and 6 or 12, batch_size = 3, prefetch = 3, device = D.dev, collate = collate or nil }
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
      assert.is_true(most <= 2 * 4 * 8 << 20, most .. " bytes of page-locked memory") -- of two loaders' slots; four batches are more
    end
  end)

  it("says which line its copies belong to", function()
    if not D.simulated then return pending "needs simulated devices" end
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

  it("brings batches to the device that is current when an iteration begins, where it has no other", function()
    if D.devices < 2 then return pending "needs two devices" end
    for _, pin in ipairs { true, false } do
      local loader = tide.data.loader({ 1, 2, 3, 4, 5 }, { batch_size = 2, device = "cuda", pin_memory = pin })
      for _, d in ipairs { 0, 1, 1, 0, D.devices - 1 } do
        local sum = 0
        tide.cuda.device(d, function()
          for _, b in loader:iter() do
            assert.are.equal("cuda:" .. d, tostring(b.device))
            sum = sum + b:sum():item()
          end
        end)
        assert.are.equal(15, sum)
      end
    end
  end)

  it("copies on a new stream when the devices were reset", function()
    if not D.simulated then return pending "needs simulated devices" end
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

  it("copies nothing while the devices are reset", function()
    if not D.simulated then return pending "needs simulated devices" end
    local out = D.simulate(2, [[
      local tide = require "tide"
      local items, sum = {}, 0
      for i = 1, 8 do items[i] = tide.full({ 1 << 18 }, i) end
      for r = 1, tonumber(os.getenv "ROUNDS") do
        local opts = { batch_size = 1 + r % 3, device = "cuda:" .. r % 2, prefetch = r % 4 }
        local it = tide.data.loader(items, opts):iter()
        for _ = 1, r % 3 do it() end
        tide.cuda.device_reset()
        for _ = 1, 8 do pcall(it) end
        for _, b in tide.data.loader(items, opts):iter() do sum = sum + b:sum():item() end
      end
      print(math.tointeger(sum) >> 18)]], { ROUNDS = D.tsan and "4" or "10" })
    assert.are.equal(D.tsan and "144\n" or "360\n", out)
  end)

  it("queues nothing for an iteration of before a reset", function()
    if not D.simulated then return pending "needs simulated devices" end
    local out = D.simulate(2, [[
      local tide = require "tide"
      local it = tide.data.loader({ tide.ones(9), tide.ones(9) }, { device = "cuda:1", prefetch = 0 }):iter()
      tide.cuda.device_reset()
      local idle = tide.cuda.default_stream(1) -- where the copies went, behind the back of the loader's own
      for i = 1, 2 do
        local ok, e = pcall(it)
        print(e.kind, e.message:match "^loader: batch %d: ", idle:query())
      end
      print(it())]])
    assert.are.equal("StateError\tloader: batch 1: \ttrue\nStateError\tloader: batch 2: \ttrue\nnil\n", out)
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
      setmetatable({}, { __gc = function() -- after what is made from here on
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
      assert.are.same({ true, 2, true, 3 }, { out[1][1], out[1][2], out[2][1], out[2][2] }) -- tensors have no finaliser
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
