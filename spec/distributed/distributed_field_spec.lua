-- Fields that are cut over ranks, and their halos. Alone it runs as a group of one; CI
-- also starts it with mpirun on 2, 3 and 4 ranks.

local tide = require "tide"
local D = require "spec.support.device"
local dist = require "spec.support.ranks"

local rank, size = dist.get_rank(), dist.get_world_size()

local function raises(pattern, f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok)
  assert.truthy(tostring(e):find(pattern), tostring(e))
end

-- Along each dimension of the grid: the global place of each local one, from 1; does it lie outside of the whole field,
-- where that ends; and is it in the halo?
local function places(grid, u, sizes, halo)
  local out = {}
  for d = 1, #sizes do
    local first, last = grid:range(u, d)
    local shape = {}
    for k = 1, #sizes do shape[k] = k == d and -1 or 1 end
    local g = tide.arange(first - halo, last + halo + 1, { dtype = tide.int64 })
    local outside = g:lt(1):logical_or(g:gt(sizes[d]))
    local away = g:lt(first):logical_or(g:gt(last))
    if grid.periodic[d] then
      g = (g - 1) % sizes[d] + 1
      outside = g:lt(1)
    end
    out[d] = { g = g:view(shape), outside = outside:view(shape), away = away:view(shape) }
  end
  return out
end

-- The values of the whole field at each local place; the places that an exchange fills, and those of the faces alone.
local function model(grid, u, sizes, halo)
  local code, filled, count = 0, false, 0
  local p, inner = places(grid, u, sizes, halo), nil
  for d = 1, #sizes do
    code = code * 100 + p[d].g
    local from_other = p[d].away:logical_and(p[d].outside:logical_not())
    filled = d == 1 and from_other or filled:logical_or(from_other)
    count = count + p[d].away:to(tide.int64)
    inner = inner and inner + from_other:to(tide.int64) or from_other:to(tide.int64)
  end
  local whole = u.shape
  return code:expand(whole), filled:expand(whole), (count:eq(1):logical_and(inner:eq(1))):expand(whole)
end

local function fresh(grid, u, code, filled) u:copy_(tide.where(filled, code * 0 - 1, code):to(u.dtype)) end

local function check(u, expected) assert.is_true(tide.equal(u:to("cpu"):to(tide.int64), expected)) end

local grids = { { 0 }, { 0, 0 }, { 1, 0 }, { 0, 1, 1 }, { 0, 0, 0 }, { 1, 1, 0 } }
local function each_grid(f)
  for i, dims in ipairs(grids) do
    for bits = 0, 2 ^ #dims - 1 do
      local periodic = {}
      for d = 1, #dims do periodic[d] = bits // 2 ^ (d - 1) % 2 == 1 end
      f(dist.cart { dims = dims, periodic = periodic }, i)
    end
  end
end

describe("distributed: a grid of ranks", function()
  it("has places and neighbours", function()
    local grid = dist.cart { dims = { 0, 0 }, periodic = { true, false } }
    local a, b = grid.dims[1], grid.dims[2]
    assert.are.equal(size, a * b)
    assert.is_true(a >= b)
    assert.are.same({ rank // b, rank % b }, grid.coords)
    assert.are.equal(rank, grid:rank_at(grid.coords))
    assert.are.equal(rank, grid:rank_at { grid.coords[1] + a, grid.coords[2] })
    assert.is_nil(grid:rank_at { 0, b })
    local from, to = grid:shift(1, 1)
    assert.are.equal((rank // b + 1) % a * b + rank % b, to)
    assert.are.equal((rank // b - 1) % a * b + rank % b, from)
    from, to = grid:shift(2)
    assert.are.equal(rank % b > 0 and rank - 1 or nil, from)
    assert.are.equal(rank % b < b - 1 and rank + 1 or nil, to)
    assert.are.equal(("tide.distributed.Grid(%d x %d ranks)"):format(a, b), tostring(grid))
  end)

  it("chooses equal numbers, the largest first, and keeps given ones", function()
    assert.are.same({ size }, dist.cart { dims = { 0 } }.dims)
    assert.are.same({ 1, size }, dist.cart { dims = { 1, 0 } }.dims)
    assert.are.same(({ { 1, 1, 1 }, { 2, 1, 1 }, { 3, 1, 1 }, { 2, 2, 1 } })[size] or dist.cart { dims = { 0, 0, 0 } }.dims,
      dist.cart { dims = { 0, 0, 0 } }.dims)
  end)

  it("has rows and planes as groups", function()
    local grid = dist.cart { dims = { 0, 0 } }
    local row, column, one = grid:sub { 2 }, grid:sub { 1 }, grid:sub {}
    assert.are.same({ grid.dims[2], grid.dims[1], 1 }, { row:size(), column:size(), one:size() })
    assert.are.same({ grid.coords[2], grid.coords[1] }, { row:rank(), column:rank() })
    local x = tide.tensor { rank }
    dist.all_reduce(x, { op = "max", group = row })
    assert.are.equal(grid.coords[1] * grid.dims[2] + grid.dims[2] - 1, x:item())
  end)

  it("refuses what does not fit", function()
    raises("cart: dims: got", dist.cart, {})
    raises("cart: dims: got {" .. size + 1 .. "} for " .. size .. " ranks", dist.cart, { dims = { size + 1 } })
    raises("cart: dims%[2%]: got %-1, expected an integer", dist.cart, { dims = { 0, -1 } })
    raises("cart: periodic: got 1 values, expected one for each of the 2", dist.cart, { dims = { 0, 0 }, periodic = { true } })
    local grid = dist.cart { dims = { 0, 0 } }
    raises("shift: dim", grid.shift, grid, 3)
    raises("rank_at: coords: got 1 integers", grid.rank_at, grid, { 0 })
    raises("Grid: no field or method 'rows', expected dims", function() return grid.rows end)
    raises("fields cannot be assigned", function() grid.dims = 1 end)
  end)
end)

describe("distributed: a field", function()
  D.watch(before_each, after_each, nil, true)

  it("is cut into pieces that differ by one place at most", function()
    local grid = dist.cart { dims = { 0, 0 } }
    local u = grid:field({ 13, 11 }, { halo = 2, dtype = tide.float64, device = D.dev })
    local covered, most, least = tide.zeros({ 13, 11 }), 0, 100
    local a, b = grid:range(u, 1)
    local c, d = grid:range(u, 2)
    assert.are.same({ b - a + 5, d - c + 5 }, u:size())
    assert.are.same({ b - a + 1, d - c + 1 }, grid:inside(u):size())
    covered:narrow(1, a, b - a + 1):narrow(2, c, d - c + 1):add_(1)
    dist.all_reduce(covered)
    assert.is_true(tide.equal(covered, tide.ones({ 13, 11 })))
    local lists = {}
    dist.all_gather_object(lists, { b - a + 1 })
    for _, l in ipairs(lists) do most, least = math.max(most, l[1]), math.min(least, l[1]) end
    assert.is_true(most - least <= 1)
    assert.are.equal(tide.float64, u.dtype)
    grid:inside(u):fill_(3)
    assert.are.equal(3 * (b - a + 1) * (d - c + 1), u:sum():item())
    assert.are.equal(tide.get_default_dtype(), grid:field { 20, 20 }.dtype)
  end)

  it("refuses what does not fit", function()
    local grid = dist.cart { dims = { 0 } }
    raises("field: sizes%[1%]: got " .. 2 * size .. " for " .. size .. " ranks, which is 2 for the last one, expected at least 1, and the halo of 3",
      grid.field, grid, { 2 * size }, { halo = 3 })
    raises("field: sizes: got 2 integers, expected one for each of the 1", grid.field, grid, { 30, 30 })
    raises("field: halo%[1%]: got %-1", grid.field, grid, { 30 }, { halo = -1 })
    local u = grid:field { 40 }
    raises("inside: field: got .- expected a field, which grid:field has made", grid.inside, grid, u:clone())
    raises("range: dim", grid.range, grid, u, 2)
    raises("halo_exchange: fields%[2%]: got", grid.halo_exchange, grid, { u, tide.ones(3) })
    raises("halo_exchange: width: got 2, expected an integer from 0 to the halo, which is 1 along dimension 1", grid.halo_exchange, grid, u, { width = 2 })
    raises("halo_exchange: dim", grid.halo_exchange, grid, u, { dims = { 2 } })
    local other = dist.cart { dims = { 0 } }
    raises("inside: field: got a field of another grid", other.inside, other, u)
  end)
end)

describe("distributed: halos", function()
  D.watch(before_each, after_each, nil, true)

  for _, form in ipairs { "blocking", "async" } do
    it("are filled, corners too, in every grid: " .. form, function()
      each_grid(function(grid, i)
        local halo, sizes = 1 + i % 2, ({ { 17 }, { 13, 9 }, { 5, 16 }, { 13, 4, 3 }, { 9, 8, 7 }, { 3, 5, 11 } })[i]
        local u = grid:field(sizes, { halo = halo, dtype = tide.float64, device = D.dev })
        local code, filled = model(grid, u, sizes, halo)
        fresh(grid, u, code, filled)
        if form == "async" then
          local exchange = grid:halo_exchange(u, { async_op = true })
          while not exchange:is_completed() do end
          exchange:wait()
          exchange:wait() -- again
        else
          grid:halo_exchange(u)
        end
        check(u, code)
      end)
    end)
  end

  it("are faces alone without corners", function()
    each_grid(function(grid, i)
      local sizes = ({ { 17 }, { 13, 9 }, { 5, 16 }, { 13, 4, 3 }, { 9, 8, 7 }, { 3, 5, 11 } })[i]
      local u = grid:field(sizes, { halo = 2, dtype = tide.int32, device = D.dev })
      local code, filled, faces = model(grid, u, sizes, 2)
      fresh(grid, u, code, filled)
      local before = u:to("cpu"):to(tide.int64)
      grid:halo_exchange(u, { corners = false })
      check(u, tide.where(faces, code, before))
    end)
  end)

  it("are filled in inner layers of every width, corners too, in every grid", function()
    each_grid(function(grid, i)
      local sizes, halo = ({ { 17 }, { 13, 9 }, { 5, 16 }, { 13, 4, 3 }, { 9, 8, 7 }, { 3, 5, 11 } })[i], i % 2 + 2
      for width = 0, halo do
        for _, options in ipairs { {}, { async_op = true }, { corners = false } } do
          local u = grid:field(sizes, { halo = halo, dtype = tide.int32, device = D.dev })
          local code, filled, faces = model(grid, u, sizes, halo)
          local before = tide.arange(u:numel(), { dtype = tide.int64 }):view(u:size()) -- each place of each rank has another value
          before = tide.where(filled, -1000 * (rank + 1) - before, code)
          u:copy_(before)
          options.width = width
          local exchange = grid:halo_exchange(u, options)
          if exchange then exchange:wait() end
          local now = options.corners == false and faces or filled
          for d, p in ipairs(places(grid, u, sizes, halo)) do
            local first, last = grid:range(u, d)
            local g = tide.arange(first - halo, last + halo + 1, { dtype = tide.int64 }):view(p.away.shape)
            local beyond = g:lt(first - width):logical_or(g:gt(last + width)):logical_and(p.outside:logical_not())
            now = now:logical_and(beyond:logical_not())
          end
          check(u, tide.where(now, code, before))
        end
      end
    end)
  end)

  it("of several fields of several dtypes and widths travel together", function()
    local grid, sizes = dist.cart { dims = { 0, 0 }, periodic = true }, { 9, 8 }
    local fields, codes = {}, {}
    for i, name in ipairs { "float64", "uint8", "float32", "int16", "complex64", "float16" } do
      fields[i] = grid:field(sizes, { halo = i % 2 + 1, dtype = tide[name], device = D.dev })
      local code, filled = model(grid, fields[i], sizes, i % 2 + 1)
      codes[i] = code % 97 + 1
      fresh(grid, fields[i], codes[i], filled)
    end
    grid:halo_exchange(fields)
    for i, u in ipairs(fields) do
      if u.dtype == tide.complex64 then u = u:real() end
      check(u, codes[i])
    end
  end)

  it("are filled along some dims, and in inner layers", function()
    local grid, sizes = dist.cart { dims = { 0, 0 }, periodic = true }, { 12, 12 }
    local u = grid:field(sizes, { halo = 3, device = D.dev })
    local code, filled = model(grid, u, sizes, 3)
    fresh(grid, u, code, filled)
    grid:halo_exchange(u, { dims = { 2 } })
    grid:halo_exchange(u, { dims = 1 })
    local n, m = u:size(1), u:size(2)
    check(u:narrow(2, 4, m - 6), code:narrow(2, 4, m - 6))
    assert.are.equal(-1, u:narrow(1, 1, 3):narrow(2, 1, 3):max():item()) -- a corner: neither took the other's halo
    fresh(grid, u, code, filled)
    grid:halo_exchange(u, { width = 1 })
    check(u:narrow(1, 3, n - 4):narrow(2, 3, m - 4), code:narrow(1, 3, n - 4):narrow(2, 3, m - 4))
    assert.are.equal(-1, u:narrow(1, 1, 2):max():item())
  end)

  it("of different widths along dims", function()
    local grid, sizes = dist.cart { dims = { 0, 1 }, periodic = true }, { 16, 3 }
    local u = grid:field(sizes, { halo = { 2, 0 }, device = D.dev })
    grid:inside(u):fill_(rank + 1)
    grid:halo_exchange(u)
    local from, to = grid:shift(1)
    assert.are.same({ from + 1, to + 1 }, { u[1][1]:item(), u[u:size(1)][3]:item() })
    assert.are.same({ 3 }, { u:size(2) })
  end)

  it("work with views of larger memory, kernels and fused functions", function()
    local grid = dist.cart { dims = { 0 }, periodic = true }
    local u = grid:field({ 64 }, { dtype = tide.float64, device = D.dev })
    local v = grid:field({ 64 }, { dtype = tide.float64, device = D.dev })
    local n = grid:inside(u):numel()
    local first = grid:range(u, 1)
    local double = tide.fuse(function(x) return x * 2 + 1 end)
    local mean = tide.kernel(function(i, x, y) y[i + 1] = (x[i] + x[i + 2]) / 2 end)
    grid:inside(u):copy_(double(tide.arange(first, first + n, { dtype = tide.float64, device = D.dev })))
    grid:halo_exchange(u)
    mean(n, u, v)
    local g = tide.arange(first, first + n, { dtype = tide.float64 })
    local expected = g * 2 + 1
    if first == 1 then expected[1] = (5 + 129) / 2 end
    if first + n == 65 then expected[n] = (3 + 127) / 2 end
    assert.is_true(tide.equal(grid:inside(v):to("cpu"), expected))
  end)

  it("of two exchanges at once do not mix", function()
    local grid, sizes = dist.cart { dims = { 0, 0 }, periodic = true }, { 8, 8 }
    local u, v = grid:field(sizes, { device = D.dev }), grid:field(sizes, { device = D.dev })
    local code, filled = model(grid, u, sizes, 1)
    fresh(grid, u, code, filled)
    fresh(grid, v, code + 5, filled)
    local a, b = grid:halo_exchange(u, { async_op = true }), grid:halo_exchange(v, { async_op = true })
    b:wait()
    a:wait()
    check(u, code)
    check(v, code + 5)
  end)

  it("of other dtypes on another rank are refused, and the next exchange is right", function()
    if size == 1 then return pending "nothing travels" end
    local grid = dist.cart { dims = { 0 } }
    local list = {}
    for i, name in ipairs { "float32", "int32", "int64", "float64" } do list[i] = grid:field({ 4 * size }, { dtype = tide[name], device = D.dev }) end
    local a, b = rank == 0 and "float32, int32" or "int32, float32", rank == 0 and "int32, float32" or "float32, int32"
    if rank > 1 then b = nil end -- its neighbors have the same
    for _, options in ipairs { {}, { corners = false }, { async_op = true } } do
      local function exchange()
        local h = grid:halo_exchange({ list[rank == 0 and 1 or 2], list[rank == 0 and 2 or 1] }, options)
        if h then h:wait() end
        if D.cuda then tide.cuda.synchronize(D.dev) end
      end
      if b then raises("got a message of 8 bytes %(" .. b .. "%) from rank %d, expected the 8 bytes %(" .. a .. "%)", exchange) else exchange() end
      list[3]:fill_(rank)
      list[4]:fill_(rank)
      grid:halo_exchange({ list[3], list[4] })
      for i = 3, 4 do
        assert.are.equal(rank > 0 and rank - 1 or rank, list[i][1]:item())
        assert.are.equal(rank < size - 1 and rank + 1 or rank, list[i][6]:item())
      end
    end
  end)

  it("of fields that other ranks cut in another way are refused on all, and the next exchange is right", function()
    if size == 1 then return pending "nothing travels" end
    local grid = dist.cart { dims = { 0, 1 } }
    local own = rank == size - 1 and 1 or 0
    for _, sizes in ipairs { { 4 * size, 8 + own }, { 4 * size + own, 8 } } do
      local u = grid:field(sizes, { device = D.dev })
      raises("halo_exchange: fields: got {%d+, %d+} with a halo of {1, 1} on rank " .. rank .. " and {.*expected the same on all",
        function() grid:halo_exchange(u) end)
    end
    local u = grid:field({ 4 * size, 8 }, { device = D.dev })
    u:fill_(rank)
    grid:halo_exchange(u)
    assert.are.equal(rank > 0 and rank - 1 or rank, u[1][2]:item())
  end)

  it("cannot be exchanged with other ranks while a graph is captured", function()
    if D.dev == "cpu" then return pending "graphs are of GPUs" end
    local grid = dist.cart { dims = { 0 }, periodic = true }
    local u = grid:field({ 8 * size }, { device = D.dev })
    local g = tide.cuda.CUDAGraph()
    grid:inside(u):fill_(1)
    local ok, e = pcall(tide.cuda.graph, g, function() grid:halo_exchange(u) end)
    assert.are.equal(size == 1, ok)
    if size > 1 then
      assert.truthy(tostring(e):find "halo_exchange: a graph is being captured, which cannot hold messages to other ranks")
    else
      u:fill_(0)
      grid:inside(u):fill_(7)
      g:replay()
      assert.are.equal(7, u:min():item())
    end
  end)
end)
