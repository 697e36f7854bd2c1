-- Sums, pictures, random numbers and files of fields. Alone it runs as a group of one; CI also
-- starts it with mpirun on 2, 3 and 4 ranks, and each launch loads what the one before has saved.

local tide = require "tide"
local D = require "spec.support.device"
local dist = require "spec.support.ranks"

local rank, size = dist.get_rank(), dist.get_world_size()

local function raises(pattern, f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok)
  assert.truthy(tostring(e):find(pattern), tostring(e))
end

-- All ranks use the same name.
local function temporary()
  local list = { rank == 0 and os.tmpname() or false }
  dist.broadcast_object_list(list, 0)
  return list[1]
end
local function remove(path)
  dist.barrier()
  if rank == 0 then os.remove(path) end
end
local function exists(path)
  local file = io.open(path)
  if file then file:close() end
  return file ~= nil
end

local function each_cut(n, f)
  for d = 1, n do
    local dims = {}
    for k = 1, n do dims[k] = k == d and 0 or 1 end
    f(dist.cart { dims = dims })
  end
  local all = {}
  for k = 1, n do all[k] = 0 end
  f(dist.cart { dims = all })
end

-- The whole field of numbers 1, 2, ... and this rank's piece of it.
local function numbered(grid, sizes, opts)
  local numel = 1
  for _, n in ipairs(sizes) do numel = numel * n end
  local whole = tide.arange(1, numel + 1, { dtype = tide.int64 }):view(sizes)
  local u, piece = grid:field(sizes, opts), whole
  for d = 1, #sizes do
    local first, last = grid:range(u, d)
    piece = piece:narrow(d, first, last - first + 1)
  end
  grid:inside(u):copy_(piece:to(u.dtype))
  return u, whole, piece
end

describe("distributed: whole fields", function()
  D.watch(before_each, after_each, nil, true)

  it("are of several tensors at once, for which ranks wait in different orders", function()
    local x, works = {}, {}
    for i = 1, 8 do
      x[i] = tide.full(9000 * i, i + rank, { device = D.dev })
      works[i] = dist.all_reduce(x[i], { async_op = true })
    end
    for i = 0, 7 do works[(i * (2 * rank + 1)) % 8 + 1]:wait() end
    for i = 1, 8 do assert.is_true(tide.equal(x[i], tide.full(9000 * i, i * size + size * (size - 1) / 2, { device = D.dev }))) end
  end)

  it("have sums and extremes without halos", function()
    each_cut(3, function(grid)
      for _, name in ipairs { "float64", "float32", "int32", "int64" } do
        local u = numbered(grid, { 5, 6, 7 }, { halo = 1, dtype = tide[name], device = D.dev })
        local v = grid:field({ 5, 6, 7 }, { halo = 0, dtype = tide.float32, device = D.dev })
        grid:inside(v):fill_(2)
        local inside = grid:inside(u):clone()
        u:fill_(9999)
        grid:inside(u):copy_(inside)
        assert.are.equal(210 * 211 / 2, grid:sum(u))
        assert.are.equal(210, grid:max(u))
        assert.are.equal(1, grid:min(u))
        assert.are.equal(210 * 211, grid:dot(u, v))
        assert.are.equal(210 * 211 * 421 / 6, grid:dot(u, u))
      end
      local z = grid:field({ 5, 6, 7 }, { dtype = tide.complex64, device = D.dev })
      raises("max", grid.max, grid, z)
    end)
  end)

  it("come to one rank, thinned", function()
    each_cut(2, function(grid)
      for dst = 0, size - 1 do
        for _, every in ipairs { 1, 2, 3, 5, 20 } do
          local u, whole = numbered(grid, { 11, 13 }, { halo = 2, dtype = tide.float64, device = D.dev })
          local x = grid:gather(u, { dst = dst, every = every })
          assert.are.equal(rank == dst, x ~= nil)
          local rows, columns = tide.arange(1, 12, every, { dtype = tide.int64 }), tide.arange(1, 14, every, { dtype = tide.int64 })
          if x then assert.is_true(tide.equal(x:to("cpu"):to(tide.int64), whole:index_select(1, rows):index_select(2, columns))) end
        end
      end
      local u, whole = numbered(grid, { 11, 13 }, { device = D.dev })
      local x = grid:gather(u, { every = { 11, 2 } })
      if x then assert.is_true(tide.equal(x:to("cpu"):to(tide.int64), whole:narrow(1, 1, 1):index_select(2, tide.arange(1, 14, 2, { dtype = tide.int64 })))) end
      raises("gather: every: got 0", grid.gather, grid, u, { every = 0 })
      raises("gather: every: got 1 integers, expected one for each of the 2", grid.gather, grid, u, { every = { 2 } })
      raises("gather: dst: got rank " .. size, grid.gather, grid, u, { dst = size })
    end)
  end)

  it("get the same random numbers in every cut", function()
    local sizes = { 6, 5, 4, 7 }
    for n = 1, 4 do
      local shape, numel = { table.unpack(sizes, 5 - n) }, 1
      for _, k in ipairs(shape) do numel = numel * k end
      for _, name in ipairs { "float32", "float64" } do
        for _, kind in ipairs { "rand_", "randn_" } do
          local word = kind == "rand_" and "uniform" or "normal"
          local expected = tide.kernel("function(i) return tide.random." .. word .. "(42, i - 1) end", { float = tide[name] })(numel):to("cpu")
          each_cut(n, function(grid)
            local u = grid:field(shape, { dtype = tide[name], device = D.dev, halo = n == 4 and 0 or 1 })
            u:fill_(-7)
            assert.are.equal(u, grid[kind](grid, u, 42))
            local x = grid:gather(u)
            if x then
              assert.is_true(tide.equal(x:to("cpu"):view(-1), expected), kind)
              local slack = D.cuda and not D.simulated and 1e-15 or 0 -- a GPU has its own logarithm
              if name == "float64" then assert.is_near(tide.random[word](42, numel - 1), expected[numel]:item(), slack) end
            end
            if grid:inside(u):numel() < u:numel() then assert.are.equal(-7, u:view(-1)[1]:item()) end
          end)
        end
      end
    end
    local grid = dist.cart { dims = { 0 } }
    raises("rand_: field: got int32, expected a floating dtype", grid.rand_, grid, grid:field({ 40 }, { dtype = tide.int32 }), 1)
  end)
end)

describe("distributed: files", function()
  it("hold fields of every dtype and cut, and values", function()
    local path = temporary()
    local names = { "float64", "uint8", "float32", "int16", "bool", "complex64", "bfloat16" }
    for n = 1, 3 do
      each_cut(n, function(grid)
        local sizes, tree = { table.unpack({ 9, 5, 7 }, 1, n) }, { t = 0.5, step = 12, name = 'a "name"\n\\', whole = 3.0, ok = true, far = -1 / 0 }
        local wholes = {}
        for _, name in ipairs(names) do
          tree[name], wholes[name] = numbered(grid, sizes, { halo = n == 2 and { 1, 0 } or 1, dtype = tide[name], device = D.dev })
        end
        tree.list = { 1, { tide.tensor { 1, 2, 3 }, deep = "x" } }
        grid:save(path, tree)
        local s = grid:load(path, { device = D.dev })
        for _, name in ipairs(names) do -- in the same order on all ranks, as pairs would not be
          local x, whole = grid:gather(s[name]), wholes[name]
          if x then assert.is_true(tide.equal(x:to("cpu"), whole:to(tide[name]))) end
          assert.are.same(tree[name]:size(), s[name]:size())
          assert.are.equal(D.dev, tostring(s[name].device))
        end
        grid:halo_exchange(tree.float64)
        assert.is_true(tide.equal(tree.float64, s.float64))
        for _, key in ipairs { "t", "step", "name", "whole", "ok", "far" } do
          assert.are.equal(tree[key], s[key])
          assert.are.equal(math.type(tree[key]), math.type(s[key]))
        end
        assert.are.equal("x", s.list[2].deep)
        assert.are.same({ 1, 2, 3 }, s.list[2][1]:totable())
        local arrays = tide.load_safetensors(path) -- what other programs see
        assert.is_true(tide.equal(arrays.float64, wholes.float64:to(tide.float64)))
        assert.is_false(exists(path .. ".tmp"))
        dist.barrier()
      end)
    end
    remove(path)
  end)

  it("of other programs become fields", function()
    local path = temporary()
    if rank == 0 then tide.save_safetensors(path, { u = tide.arange(20.):view(4, 5), one = tide.ones(3) }, { metadata = { format = "pt", lr = "0.5" } }) end
    dist.barrier()
    local grid = dist.cart { dims = { 0, 1 }, periodic = true }
    local s = grid:load(path, { halo = 1 })
    assert.are.equal(190, grid:sum(s.u))
    assert.are.equal((grid:range(s.u, 1) + 2) % 4 * 5, s.u[1][2]:item())
    assert.are.same({ 1, 1, 1 }, s.one:totable())
    assert.are.same({ "pt", 0.5 }, { s.format, s.lr })
    remove(path)
  end)

  it("that cannot be written leave the old one, and all ranks get the error", function()
    local path = temporary()
    local grid = dist.cart { dims = { 0, 0 } }
    local u = grid:field { 8, 8 }
    grid:save(path, { u = u, k = 1 })
    raises("save: u%.x: got function", grid.save, grid, path, { u = { x = print } })
    raises("save: got the key \"a%.b\", expected", grid.save, grid, path, { ["a.b"] = 1 })
    raises("save: got the key \"7\", expected", grid.save, grid, path, { ["7"] = 1 })
    raises("save: z: got complex128, which safetensors has no name for", grid.save, grid, path, { z = tide.ones(2, { dtype = tide.complex128 }) })
    raises("UTF%-8", grid.save, grid, path, { bad = "\xff" })
    raises("tree: got", grid.save, grid, path, 3)
    raises("/no/such/file%.tmp could not be written", grid.save, grid, "/no/such/file", { u = u })
    if size > 1 then
      raises("rank 0 saves u float32 8,8; rank 1 saves u float32 8,8; v float32 3, bytes %x+, expected the same",
        grid.save, grid, path, { u = u, v = rank == 1 and tide.ones(3) or nil })
      raises("save: v: got function", grid.save, grid, path, { u = u, v = rank == 1 and print or nil }) -- one rank's error
    end
    if size > 1 then raises("rank 0 saves v .- expected the same", grid.save, grid, path, { v = tide.full({ 3 }, rank) }) end
    local other = dist.cart { dims = { 0, 0 } }
    raises("save: u: got a field of another grid", other.save, other, path, { u = u })
    raises("got a field of another grid", other.halo_exchange, other, u)
    assert.are.equal(1, grid:load(path).k)
    assert.is_false(exists(path .. ".tmp"))
    raises("no_such", grid.load, grid, "no_such")
    raises("sizes%[1%]: got 8", grid.load, grid, path, { halo = 9 })
    remove(path)
  end)

  it("hold a tree of each rank", function()
    local path = temporary()
    dist.save(path, { rank = rank, x = tide.full({ rank + 1 }, rank, { device = D.dev }), text = ("x"):rep(rank) })
    local s = dist.load(path)
    assert.are.equal(rank, s.rank)
    assert.are.equal(("x"):rep(rank), s.text)
    assert.are.same(tide.full({ rank + 1 }, rank):totable(), s.x:totable())
    dist.barrier()
    if rank == 0 then
      local parts = { ["rank.0"] = tide.zeros(3, { dtype = tide.uint8 }) }
      for r = 1, size do parts["rank." .. r] = parts["rank.0"] end
      tide.save_safetensors(path, parts)
    end
    dist.barrier()
    raises("load: .-: got the trees of " .. size + 1 .. " ranks, expected " .. size, dist.load, path)
    remove(path)
  end)

  it("are loaded by any number of ranks", function()
    local path = os.getenv "TIDE_RANKS_FILE" -- of the launch before
    if not path then return pending "one launch" end
    local grid = dist.cart { dims = { 0, 0, 0 }, periodic = { true, false, true } }
    local u = grid:field({ 9, 7, 11 }, { halo = 1, dtype = tide.float64, device = D.dev })
    grid:randn_(u, 5)
    grid:halo_exchange(u)
    if exists(path) then
      local s = grid:load(path, { device = D.dev })
      assert.is_true(tide.equal(u, s.u))
    end
    dist.barrier()
    grid:save(path, { u = u })
    assert.is_true(exists(path))
  end)
end)
