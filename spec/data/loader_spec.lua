-- Batches of a dataset.

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
  for _ = 1, 3000 do
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
      local g = tide.Generator()
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
    assert.is_true(count_to(before) <= before)
    local kept = loader:iter()
    kept()
    assert.is_true(count_to(before + 1) <= before + 1)
    do
      local _ <close> = kept
    end
    assert.is_true(count_to(before) <= before)
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

  it("is walked by itself", function()
    local loader = tide.data.loader(range(7), { batch_size = 3 })
    for _ = 1, 2 do
      local seen, numbers = {}, {}
      for batch, i in loader do
        seen[#seen + 1], numbers[#numbers + 1] = batch:totable(), i
      end
      assert.are.same({ { 1, 2, 3 }, { 4, 5, 6 }, { 7 } }, seen)
      assert.are.same({ 1, 2, 3 }, numbers)
    end
    local n, sum = 0, 0
    for outer in loader do
      for inner in loader do
        n = n + 1
        if #inner == 1 then break end
        for again in loader do sum = sum + again[1]:item() break end
      end
      n = n + 100 * #outer
    end
    assert.are.equal(9 + 700, n)
    assert.are.equal(6, sum)
    for _ in tide.data.loader({}) do error "an empty dataset has no batches" end
    D.raises("StateError", function() return loader(nil, tide.ones(1)) end)
    -- Batches that are no objects.
    local numbers, plain = {}, tide.data.loader(range(4), { batch_size = 2, collate = function(items) return #items + items[1] end })
    for batch in plain do numbers[#numbers + 1] = batch end
    assert.are.same({ 3, 5 }, numbers)
    D.raises("StateError", function() return plain(nil, 99) end)
    local none = tide.data.loader(range(4), { collate = function() end })
    D.raises("ValueError", function() for _ in none do error "nothing" end end)
  end)

  it("frees what a loop that was left early had prepared", function()
    local loader = tide.data.loader(tide.rand(64, 1024), { batch_size = 8, prefetch = 4 })
    collectgarbage()
    collectgarbage()
    local before = collectgarbage "count"
    for _ = 1, 50 do
      for _ in loader do break end
    end
    collectgarbage()
    collectgarbage()
    assert.is_true(collectgarbage "count" - before < 64)
  end)

  it("takes the first rows of a table of tensors", function()
    local x, y = tide.arange(10):view(5, 2), tide.range(1, 5)
    local seen = {}
    for batch in tide.data.loader({ x, y }, { size = 4, batch_size = 3 }) do
      assert.are.equal(2, #batch)
      seen[#seen + 1] = { batch[1]:totable(), batch[2]:totable() }
    end
    assert.are.same({ { { { 0, 1 }, { 2, 3 }, { 4, 5 } }, { 1, 2, 3 } }, { { { 6, 7 } }, { 4 } } }, seen)
    for batch in tide.data.loader({ x = x, y = y }, { size = 5, batch_size = 5 }) do
      assert.are.same({ 1, 2, 3, 4, 5 }, batch.y:totable())
      assert.are.equal(x:sum():item(), batch.x:sum():item())
    end
    local e = D.raises("ShapeError", tide.data.loader, { x, y }, { size = 6 })
    assert.truthy(e.message:find("got 5 rows, expected at least the 6 of size", 1, true))
    D.raises("ArgumentError", tide.data.loader, { 1, 2 }, { size = 2 })
    D.raises("ArgumentError", tide.data.loader, x, { size = 2 })
    assert.are.equal(2, #tide.data.loader { x, x }) -- without a size these are two items
  end)

  it("takes all rows of columns that have names", function()
    local x, y, seen = tide.arange(10):view(5, 2), tide.range(1, 5), {}
    for batch in tide.data.loader({ x = x, y = y }, { batch_size = 2 }) do
      assert.are.equal(#batch.x, #batch.y)
      for _, v in ipairs(batch.y:totable()) do seen[#seen + 1] = v end
    end
    assert.are.same({ 1, 2, 3, 4, 5 }, seen)
    local e = D.raises("ShapeError", tide.data.loader, { x = x, y = tide.range(1, 6) })
    assert.truthy(e.message:find("^loader: dataset%[[xy]%]: got [56] rows, expected the [56] of dataset%[[xy]%]$"), e.message)
    e = D.raises("ShapeError", function() return tide.data.loader({ x, y }, { batch_size = 2 }):iter()() end)
    assert.truthy(e.message:find("columns have names or a size: {x = X, y = Y}", 1, true), e.message)
  end)
end)
