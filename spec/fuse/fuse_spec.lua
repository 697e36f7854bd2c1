-- Fused functions.

local tide = require "tide"
local D = require "spec.support.device"
local dev, unpack, type, ipairs, pcall, error, yield = D.dev, table.unpack, type, ipairs, pcall, error, coroutine.yield
local huge = math.huge

local fused = require "spec.support.fused"
local fill, check, explained, quietly = fused.fill, fused.check, fused.explained, fused.quietly

describe("tide.fuse", function()
  D.watch(before_each, after_each)

  it("does a chain in one kernel (FUSE-01)", function()
    local f = check(function(x, y) return ((x * y + 1):tanh() - x / 2):relu() end, 1e-6, fill { 6, 5 }, fill { 6, 5 })
    local kernels = f:kernels()
    assert.are.equal(1, #kernels)
    assert.are.same({ "mul", "add", "tanh", "div", "sub", "relu" }, kernels[1].operations)
    assert.are.equal(12, kernels[1].bytes)
    assert.are.equal(30, kernels[1].elements)
    if D.compiler then assert.is_true(f:ready()) end
    assert.is_truthy(explained(f):find("the last call ran 1 kernel\n  1. mul add tanh div sub relu: reads 2, writes 1, 12 bytes", 1, true))
    assert.is_truthy(explained(tide.fuse(print)):find "not called yet")
    assert.are.equal("tide.fuse(a function)", tostring(tide.fuse(print))) -- of C, which has no line
    local same = tide.fuse(function(x) return x end)
    same(fill({ 3 }))
    assert.is_truthy(explained(same):find "the last call ran 0 kernels")
    assert.is_false(tide.fuse(print):ready())
  end)

  it("reduces operands of any two layouts, along rows and across them", function()
    local function layouts(rows, columns, shift)
      local function every(size) return tide.arange(shift, shift + size[1] * size[2], { dtype = "float32", device = dev }):view(size) end
      return { every { rows, columns }, every { columns, rows }:t(), every { rows, 2 * columns }[{ {}, { 1, -1, 2 } }], every { 2 * rows, columns }[{ { 1, -1, 2 } }],
        every { columns, 2 * rows }:t()[{ { 2, -1, 2 } }], every { 1, columns }:expand(rows, columns), every { rows, 1 }:expand(rows, columns),
        every { rows + 2, columns + 3 }:narrow(1, 2, rows):narrow(2, 3, columns) }
    end
    for dim = 1, 2 do
      local fn = function(a, b) return (a * 2 - b):sum(dim), (a + b):amax(dim, { keepdim = true }) end
      local f = tide.fuse(fn)
      for pass = 1, 2 do
        for _, size in ipairs { { 3, 70 }, { 70, 3 } } do
          for _, x in ipairs(layouts(size[1], size[2], 1)) do
            for _, y in ipairs(layouts(size[1], size[2], -9)) do
              local sum, most = fn(x, y)
              local fused_sum, fused_most = f(x, y)
              D.eq(sum, fused_sum, 1e-5)
              D.eq(most, fused_most)
            end
          end
        end
        if pass == 1 and D.compiler then f:wait() end
      end
    end
  end)

  it("takes any layout, broadcasts, 0-d and empty tensors", function()
    local fn = function(x, y) return (x + y) * x, x - 1 end
    for _, size in ipairs { { 5 }, { 4, 6 }, { 2, 3, 4 }, { 1, 7 }, { 1030 } } do
      local x, y = fill(size), fill(size, "float32", -3)
      for _, a in ipairs(D.layouts(x)) do
        for _, b in ipairs(D.layouts(y)) do
          check(fn, 0, a[2], b[2])
          a[3]() b[3]()
        end
      end
    end
    local x, row, column, one = fill { 3, 4 }, fill { 4 }, fill { 3, 1 }, fill {}
    check(fn, 0, x, row)
    check(fn, 0, x, column)
    check(fn, 0, x, one)
    check(fn, 0, one, one)
    check(fn, 0, fill { 1, 1 }, fill { 1 })
    check(fn, 0, x:narrow(1, 1, 0), row)
    check(function(a, b, c) return a * c + b * c, c * 2 end, 0, column, row, one) -- results of two sizes
  end)

  it("keeps the dtypes of the operations", function()
    for _, a in ipairs { "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64" } do
      for _, b in ipairs { "uint8", "int32", "float16", "float64" } do
        local x, y = fill({ 9 }, a), fill({ 9 }, b, 1)
        check(function(p, q) return (p * q + q):ge(q), p * q * q, (p + q) / 2 end, D.eps[a == "bfloat16" and a or b] or 1e-6, x, y)
      end
    end
    local x = fill({ 9 }, "float32")
    check(function(p) return p:half(), p:to "int8" + 1, (p * 1e9):to "int16", p:bool():float() end, 0, x)
    check(function(p) return (p * 3 + 100):to "uint8" * 2, -p:to "int64" end, 0, x)
    local named = check(function(p, q) return ((p * 2):half() + 1):type_as(q):float() * 3 end, 0, x, x:double())
    assert.are.same({ { "mul", "float16", "add", "float64", "float32", "mul" } }, { named:kernels()[1].operations })
    check(function(p, q) return tide.where(p:gt(0), p, q), p:clamp(-1, 1), p:isnan():logical_not() end, 0, x, x * 2)
    check(function(p) return p ^ 2, p:addcmul(p, p, { value = 3 }), p:add(p, { alpha = 2 }), p:leaky_relu(0.2) end, 1e-6, x)
  end)

  it("reduces rows in the kernel of what is around (FUSE-01)", function()
    local function softmax(x)
      local e = (x - x:amax(-1, { keepdim = true })):exp()
      return e / e:sum(-1, { keepdim = true })
    end
    local function layer_norm(x, w, b)
      local d = x - x:mean(-1, { keepdim = true })
      return d * ((d * d):mean(-1, { keepdim = true }) + 1e-5):rsqrt() * w + b
    end
    for _, size in ipairs { { 1, 1 }, { 6, 5 }, { 2, 3, 64 }, { 3, 1030 }, { 0, 4 } } do
      local x, n = fill(size), size[#size]
      for _, a in ipairs(D.layouts(x)) do
        check(softmax, 1e-6, a[2])
        check(layer_norm, 1e-4, a[2], fill { n }, fill { n })
        a[3]()
      end
    end
    for _, dtype in ipairs { "float16", "bfloat16", "float64" } do
      check(softmax, D.eps[dtype], fill({ 6, 40 }, dtype))
      check(layer_norm, 8 * D.eps[dtype], fill({ 6, 40 }, dtype), fill({ 40 }, dtype), fill({ 40 }, dtype))
    end
    -- Where a warp has a row of a GPU, and from where on a block has: several rows each.
    for _, n in ipairs { 260, 516, 1000, 1024, 1032, 2052, 4100 } do check(softmax, 1e-6, fill { 5, n }) end
    for _, n in ipairs { 1032, 2048, 2056 } do check(softmax, D.eps.float16, fill({ 5, n }, "float16")) end
    local x = fill { 6, 6 }
    local f = check(softmax, 1e-6, x)
    assert.are.same({ "max", "sub", "exp", "sum", "div" }, f:kernels()[1].operations)
    check(function(a) return (a * 2):sum(-1), (a + 1):mean(2, { keepdim = true }), (a * a):sum({ 1, 2 }) end, 1e-5, x)
    check(function(a) return a - (a * 2):sum(-1) end, 1e-5, x) -- along the columns, as it lost its dim
    check(function(a) local m, i = (a * 2):max(2, { keepdim = true }) return a - m, i end, 0, x)
    check(function(a) local m = (a * 2):max(2, { keepdim = true }) return a - m, m * 2 end, 0, x)
    check(function(a) return (a - a:sum(1, { keepdim = true })):sum(2), a:sum(-1, { dtype = "float64" }) + 1 end, 1e-5, x)
    check(function(a) a:sub_(a:mean(-1, { keepdim = true })) return a:sum(-1) end, 1e-5, x)
    x[2][3] = 0 / 0
    check(softmax, 1e-6, x)
  end)

  -- Sizes on both sides of what one kernel's rows take at most, and of what is a part of a row.
  local sizes = { { 6, 5 }, { 20000, 3 }, { 3, 20000 }, { 16385 }, { 130, 129 }, { 2, 3, 16400 } }

  it("says of each function what its own last call has run, where another one calls it too", function()
    local inner = tide.fuse(function(x) return x * 2 + 1 end)
    local outer = tide.fuse(function(x) return inner(x):exp() - 3 end)
    local same, x = tide.fuse(function(f, y) return f(y) end), fill { 5 }
    D.eq((x * 2 + 1):exp() - 3, outer(x), 1e-6)
    assert.are.same({ "mul", "add", "exp", "sub" }, outer:kernels()[1].operations)
    assert.are.equal(0, #(inner:kernels() or {}))
    inner(x)
    assert.are.same({ "mul", "add" }, inner:kernels()[1].operations)
    outer(x)
    same(outer, x)
    assert.are.same({ "mul", "add", "exp", "sub" }, same:kernels()[1].operations)
    assert.are.same({ "mul", "add" }, inner:kernels()[1].operations)
    assert.are.same({ "mul", "add", "exp", "sub" }, outer:kernels()[1].operations)
  end)

  it("reduces rows of any length at the end of a chain (FUSE-01)", function()
    for _, size in ipairs(sizes) do
      local x, y = fill(size), fill(size, "float32", 1.5)
      local f = check(function(a, b)
        local c = a * b
        return c:sum(), c:mean(), (c:max()), (a - b):min()
      end, 1e-5, x, y)
      assert.are.same({ "mul", "sum", "mean", "max", "sub", "min" }, f:kernels()[1].operations)
      assert.are.equal(1, #f:kernels())
      if D.compiler then assert.is_true(f:ready()) end
      check(function(a, b) return (a * b):sum(-1), (a - b):amin(-1), ((a + b):sum(-1) + 1):sqrt() end, 1e-5, x, y)
      check(function(a, b) return (a * b):sum(1, { keepdim = true }), (a - b):amax(1, { keepdim = true }) * 2 end, 1e-5, x, y)
      check(function(a, b) return ((a + b) * a):sum(), (a + b):mean() end, 1e-5, x, fill { size[#size] })
      check(function(a, b) return (a / 1e4 + 1):prod(), a:gt(b):sum(), (a - b):count_nonzero(), a:lt(b):any(), a:lt(b):all() end, 1e-4, x, y)
    end
    local f = check(function(a) return ((a * 2):mean() + 1):sqrt() / 3 end, 1e-6, fill { 20000 })
    assert.are.same({ "mul", "mean", "add", "sqrt", "div" }, f:kernels()[1].operations)
    for _, dtype in ipairs { "int8", "int32", "int64", "float16", "bfloat16", "float64" } do
      local eps = (D.eps[dtype] or 0) * 4
      local x = fill({ 5, 17000 }, dtype)
      check(function(a) return (a + 1):sum(-1), (a + 1):amax(-1), (-a):amin(1) end, eps, x)
      check(function(a) return (a + a):sum(), ((a - 1):max()) end, eps, x)
    end
    local x = fill { 300, 70 }
    for _, layout in ipairs(D.layouts(x)) do
      check(function(a) return (a * 2):sum(), (a * 2):sum(-1), (a + 1):sum(1), (a * 3):amax(1, { keepdim = true }) end, 1e-5, layout[2])
      layout[3]()
    end
    local long = fill { 17000 }
    long[16900] = 0 / 0
    check(function(a) return ((a * 2):max()), ((a * 2):min()), (a * 2):sum() end, 0, long)
  end)

  it("gives the same bits at each call", function()
    local x = tide.randn(3, 50000, { device = dev })
    local f = tide.fuse(function(a) return (a * a):sum(), (a * a):mean(-1), (a + 1):var(1) end)
    f(x)
    if D.compiler then f:wait() end
    local first = { f(x) }
    for _ = 1, 5 do
      for i, r in ipairs { f(x) } do assert.is_true(tide.equal(first[i], r)) end
    end
  end)

  it("knows variances, norms and logsumexp", function()
    for _, size in ipairs(sizes) do
      local x = fill(size)
      check(function(a) local c = a * 2 + 1 return c:var(), c:std(), c:norm(), c:logsumexp(-1) end, 1e-5, x)
      check(function(a) local c = a - 3 return c:var(-1, { correction = 0 }), c:std(-1, { keepdim = true }), c:norm(2, -1) end, 1e-5, x)
      check(function(a) local c = a + 1 return c:norm(1, 1), c:norm(huge, 1), c:norm(-huge, 1), c:norm(0, 1), c:norm(3, 1) end, 1e-5, x)
      check(function(a) return (a - a:mean(-1, { keepdim = true })) / a:std(-1, { keepdim = true }) end, 1e-4, x)
      check(function(a) return (a - a:mean(1, { keepdim = true })) / a:std(1, { keepdim = true }) end, 1e-4, x)
      check(function(a) return a - (a * 1):logsumexp(-1, { keepdim = true }) end, 1e-5, x)
    end
    for _, dtype in ipairs { "float16", "bfloat16", "float64" } do
      local x = fill({ 4, 17000 }, dtype)
      check(function(a) local c = a * 4 return c:var(-1), c:std(-1), c:norm(2, -1), c:logsumexp(-1) end, 4 * D.eps[dtype], x)
    end
    check(function(a) return (a + 0):logsumexp(-1) end, 1e-6, fill({ 4, 40 }, "int32"))
    local x = fill { 4, 40 }
    x[1]:fill_(-math.huge) x[2][3] = math.huge x[3][4] = 0 / 0
    check(function(a) return (a * 1):logsumexp(-1), (a * 1):var(-1), (a * 1):norm(2, -1) end, 1e-6, x)
    local large = function(a) return (a * 1e25):norm() end -- squares of float32 that a GPU's own norm does not hold
    if D.cuda and not D.simulated then
      D.eq(fill({ 40 }, "float64"):norm() * 1e25, tide.fuse(large)(fill({ 40 }, "float64")), 1e-6)
    else
      check(large, 1e-6, fill { 40 })
    end
    check(function(a) return (a * 1):var(-1, { correction = 40 }), (a * 1):std(-1, { correction = 50 }) end, 1e-6, fill { 4, 40 })
  end)

  it("reads long rows once for a variance, beside a large mean too", function()
    for _, size in ipairs { { 20000 }, { 20000, 3 }, { 3, 20001 }, { 17000, 8 } } do
      local x = (tide.randn(size, { device = dev }) + 1e4) -- float32 holds a thousandth there
      local f = tide.fuse(function(a) return (a * 1):var(1), (a * 1):std(1, { keepdim = true }), (a * 1):var(), (a * 1):mean(1) end)
      f(x)
      if D.compiler then f:wait() end
      local d, got = x:double(), { f(x) }
      local all = #size == 1 and d:var() or (x * 1):var():double() -- of several dims it runs alone, as without fuse
      for i, want in ipairs { d:var(1), d:std(1, { keepdim = true }), all, d:mean(1) } do D.eq(want, got[i]:double(), 1e-6) end
    end
    for _, n in ipairs { 17000, 40000, 50001 } do -- a constant varies by nothing at all
      local f, x = tide.fuse(function(a) return (a * 2):var(1) end), tide.ones(n, { device = dev }) * 1.7
      for _ = 1, 2 do
        D.eq(0, f(x):item())
        if D.compiler then f:wait() end
      end
    end
    local x = fill { 3, 20000 } -- more of them than one kernel has results for
    check(function(a) return a:var(-1) * 1, (a * 2):var(-1), (a + 1):std(-1), (a * 3):mean(-1) end, 1e-5, x)
    x[1][5], x[2][6], x[3][1] = 1e6, 1 / 0, 0 / 0
    check(function(a) local c = a * 1 return c:var(-1), c:mean(-1), (a - c:mean(-1, { keepdim = true })) / c:std(-1, { keepdim = true }) end, 1e-4, x)
  end)

  it("waits for the kernels of all stages of a call", function()
    local x = tide.randn(30000, 64, { device = dev })
    local f = tide.fuse(function(a) return (a - a:mean(1, { keepdim = true })) / a:std(1, { keepdim = true }) end)
    f(x)
    if D.compiler then f:wait() end
    f(x)
    assert.is_true(f:ready() or not D.compiler)
  end)

  it("takes rows of several blocks, and large tables with rows and columns", function()
    local function same(fn, tolerance, ...) -- by one comparison, as these are large
      local f = tide.fuse(fn)
      for _ = 1, 2 do
        local want, got = { fn(...) }, { f(...) }
        for i, w in ipairs(want) do
          assert.are.equal(w.dtype, got[i].dtype)
          assert.is_true(tide.allclose(w, got[i], { rtol = tolerance, atol = tolerance }))
        end
        if D.compiler then f:wait() end
      end
    end
    for _, n in ipairs { 16388, 65536, 98305, 131076 } do
      local x = tide.randn(3, n, { device = dev })
      same(function(a) local e = (a - a:amax(-1, { keepdim = true })):exp() return e / e:sum(-1, { keepdim = true }) * n end, 1e-5, x)
      same(function(a) local c = a * 2 return c - c:mean(-1, { keepdim = true }), c / c:norm(2, -1, { keepdim = true }) end, 1e-5, x)
    end
    local x, row, column = tide.randn(1100, 1024, { device = dev }), fill { 1024 }, fill { 1100, 1 }
    same(function(a, b, c) return a * b + c, (a - c):to "float16" end, 1e-6, x, row, column)
    same(function(a, b, c) return a * b + c end, 1e-6, x:narrow(2, 3, 1000), row:narrow(1, 2, 1000), column)
    local f, y, z = tide.fuse(function(a, b) a:mul_(b) end), x:clone(), x * row
    for _ = 1, 2 do
      y:copy_(x)
      f(y, row)
      assert.is_true(tide.allclose(z, y))
      if D.compiler then f:wait() end
    end
  end)

  it("keeps the sizes of row values apart from those of tensors like them", function()
    local x, w = fill { 6, 5 }, fill { 6, 1 }
    check(function(a, v) return (a * 2):sum(-1, { keepdim = true }) * v, v * 2 end, 1e-6, x, w)
    check(function(a, v) local s = (a * 2):sum(-1, { keepdim = true }) return s * v + a, s - v end, 1e-6, x, w)
    check(function(a) local s = (a * 2):sum(-1) return s * s, s:unsqueeze(2) + a end, 1e-6, x)
    check(function(a) local s = (a * 2):sum(-1) return s:sum(), s + a:sum(1):sum() end, 1e-6, x)
  end)

  it("serves rows of other lengths by what one call has shown", function()
    local function fn(a) local e = (a - a:amax(-1, { keepdim = true })):exp() return e / e:sum(-1, { keepdim = true }), (a * 2):sum(-1), (a - 1):var(-1) end
    local f = tide.fuse(fn)
    for _, n in ipairs { 10, 20000, 16384, 16385, 3, 50000 } do
      local x = fill { 2, n }
      for _ = 1, 2 do
        local want, got = { fn(x) }, { f(x) }
        for i = 1, 3 do D.eq(want[i], got[i], 1e-5, n .. ", result " .. i) end
        if D.compiler then f:wait() end
      end
    end
  end)

  it("runs what it cannot fuse between the kernels (FUSE-03)", function()
    local x, w = fill { 4, 4 }, fill({ 4, 4 }, "float32", 1)
    local f = check(function(a, b)
      local h = (a + 1) * 2
      return (h:matmul(b) - h):relu() + h:sum(1), h:t() * 3
    end, 1e-5, x, w)
    assert.are.same({ "add", "mul" }, f:kernels()[1].operations)
    check(function(a) local p, q = unpack((a * 2):split(2)) return p + q, a[1] + a[2] end, 0, x)
    check(function(a) return a:unsqueeze(1) + a, a:t() * a.shape[2] end, 0, x)
    check(function(a) return a / a:numel() + #a end, 0, x)
    check(function(a, i) return a:index_select(1, i) * 2 + tide.cat({ a, a * 2 }, 1):narrow(1, 1, 2) end, 0, x,
      D.tensor({ 2, 1 }, "int64"))
  end)

  it("sees numbers, globals, tables and functions change", function()
    local k, config, x = 2, { scale = 3, deep = { 1 } }, fill { 8 }
    local function helper(t) return t * config.scale + config.deep[1] end
    local f = tide.fuse(function(t, n) return helper(t) * k + n end)
    local function expect(n) D.eq((x * config.scale + config.deep[1]) * k + n, f(x, n)) end
    for _ = 1, 2 do expect(1) end
    for _ = 1, 2 do expect(1.5) end
    k = 5
    for _ = 1, 2 do expect(1) end
    config.scale = -1
    for _ = 1, 2 do expect(1) end
    config.deep[1] = 7
    expect(1)
    helper = function(t) return -t end
    D.eq(-x * 5 + 1, f(x, 1))
    D.eq(-x * 5 + 1, f(x, 1))
    local env = setmetatable({ scale = 2 }, { __index = _G })
    local g = tide.fuse(load("return function(t) return t * scale * math.floor(1.5) end", "chunk", "t", env)())
    for _ = 1, 2 do D.eq(x * 2, g(x)) end
    env.scale = 4
    for _ = 1, 2 do D.eq(x * 4, g(x)) end
    env.math = { floor = function() return 3 end }
    for _ = 1, 2 do D.eq(x * 12, g(x)) end
    env.scale = nil
    assert.is_false((pcall(g, x)))
    _G.scale = x
    D.eq(x * x * 3, g(x))
    _G.scale = nil
  end)

  it("takes tensors in upvalues and tables as they are then", function()
    local w, params, x = fill { 8 }, { a = fill { 8 }, list = { fill { 8 } } }, fill({ 8 }, "float32", 1)
    local f = tide.fuse(function(t) return t * w + params.a - params.list[1] end)
    local function expect() D.eq(x * w + params.a - params.list[1], f(x)) end
    expect() expect()
    w = w + 1
    expect()
    params.a = params.a * 2
    expect()
    w = fill({ 8 }, "float64")
    expect() expect()
    local g = tide.fuse(function(t) return { sum = t.x + t.y, { t.x - t.y, "name" } }, 3, nil end)
    for i = 1, 3 do
      local r, n, none = g { x = x, y = x * i }
      D.eq(x + x * i, r.sum)
      D.eq(x - x * i, r[1][1])
      assert.are.equal("name", r[1][2])
      assert.are.equal(3, n)
      assert.is_nil(none)
    end
  end)

  it("writes in order, in place and by out= (FUSE-04)", function()
    local function fn(x, y, o)
      x:mul_(2)
      local z = x + y
      y:add_(z):sub_(1)
      tide.mul(z, x, { out = o })
      return z - o
    end
    local f = tide.fuse(fn)
    for pass = 1, 3 do
      local a = { fill { 4, 8 }, fill { 4, 8 }, tide.zeros(4, 8, { device = dev }) }
      local b = { a[1]:clone(), a[2]:clone(), a[3]:clone() }
      D.eq(fn(table.unpack(a)), f(table.unpack(b)), 1e-6)
      for i = 1, 3 do D.eq(a[i], b[i], 1e-6, "argument " .. i .. ", pass " .. pass) end
      if D.compiler then f:wait() end
    end
  end)

  it("sees views that overlap", function()
    local function fn(a, b) a:add_(b) return a * 2 end
    local f = tide.fuse(fn)
    local function both(first, length, other)
      local x, y = fill { 40 }, fill { 40 }
      D.eq(fn(x:narrow(1, first, length), x:narrow(1, other, length)), f(y:narrow(1, first, length), y:narrow(1, other, length)))
      D.eq(x, y)
    end
    for _ = 1, 2 do
      both(1, 16, 17)
      both(1, 16, 5)
      both(5, 16, 1)
      both(3, 16, 3)
      if D.compiler then f:wait() end
    end
    local x, y = fill { 40 }, fill { 40 }
    for _ = 1, 3 do D.eq(fn(x, fill { 40 }), f(y, fill { 40 })) D.eq(x, y) end
    local g = tide.fuse(function(a) local v = a[{ { 1, 4 } }] a:mul_(3) return v + 1 end)
    for _ = 1, 3 do
      local z = fill { 8 }
      D.eq(z[{ { 1, 4 } }] * 3 + 1, g(z))
    end
  end)

  it("runs what depends on values, and what has effects, each time (FUSE-01)", function()
    local x = fill { 8 }
    local f = tide.fuse(function(t) if t:sum():item() > 0 then return t * 2 end return t * 3 end)
    D.eq(x:abs() * 2, f(x:abs()))
    D.eq(-x:abs() * 3, f(-x:abs()))
    local n, keep = 0, {}
    local counter = tide.fuse(function(t) n = n + 1 keep[#keep + 1] = t * n return t + n end)
    for i = 1, 3 do D.eq(x + i, counter(x)) D.eq(x * i, keep[i]) end
    local caught = tide.fuse(function(t) pcall(error, "x") return t + 1 end)
    for _ = 1, 3 do D.eq(x + 1, caught(x)) end
    local sized = tide.fuse(function(t) return t / t:size(1) end)
    for i = 1, 20 do D.eq(tide.ones(i) / i, sized(tide.ones(i, { device = dev }))) end
    local weak = setmetatable({ x = x }, { __mode = "v", __index = function() return 3 end })
    local reads = tide.fuse(function(t) return t * weak.missing + weak.x end)
    for _ = 1, 3 do D.eq(x * 4, reads(x)) end
  end)

  it("draws new random numbers at each call", function()
    local f = tide.fuse(function(x) return tide.rand(8, { device = dev }) + x * 0 end)
    local x = fill { 8 }
    local a, b, c = f(x), f(x), f(x)
    assert.is_false(tide.equal(a, b))
    assert.is_false(tide.equal(b, c))
  end)

  it("raises what the function raises, at its line", function()
    local f = tide.fuse(function(x, y)
      return x + y -- this line
    end)
    local line = debug.getinfo(1, "l").currentline - 2
    f(fill { 4 }, fill { 4 })
    for _ = 1, 2 do
      local e = D.raises("ShapeError", f, fill { 4 }, fill { 5 })
      assert.is_truthy(tostring(e):find("fuse_spec.lua:" .. line, 1, true) or e.traceback:find(":" .. line, 1, true))
      D.eq(fill { 4 } * 2, f(fill { 4 }, fill { 4 }))
    end
    D.raises("ArgumentError", tide.fuse, 3)
    D.raises("ArgumentError", tide.fuse, print, { naem = "x" })
  end)

  it("leaves hooks of the script's as they are", function()
    local lines, x = 0, fill { 4 }
    debug.sethook(function() lines = lines + 1 end, "l")
    local f = tide.fuse(function(t) return t + 1 end)
    f(x) f(x)
    local mask = select(2, debug.gethook())
    debug.sethook()
    assert.are.equal("l", mask)
    assert.is_true(lines > 0)
    assert.is_nil((debug.gethook()))
    pcall(tide.fuse(function() error "x" end))
    assert.is_nil((debug.gethook()))
  end)

  it("works in coroutines, also where they end in the middle", function()
    local x = fill { 4 }
    quietly(function()
      local f = tide.fuse(function(t) yield(t) return t + 1 end)
      local co = coroutine.wrap(function() return f(x) end)
      co()
      local other = tide.fuse(function(t) return t * 2 end)
      for _ = 1, 3 do D.eq(x * 2, other(x)) end
      D.eq(x + 1, co())
      for _ = 1, 3 do D.eq(x * 2, other(x)) end
      local dead = coroutine.create(function() return f(x) end)
      coroutine.resume(dead)
      coroutine.close(dead)
      for _ = 1, 3 do D.eq(x * 2, other(x)) end
      dead = coroutine.create(function() return tide.fuse(function(t) yield(t) end)(x) end)
      coroutine.resume(dead)
      dead = nil -- luacheck: ignore
      collectgarbage() collectgarbage()
      local third = tide.fuse(function(t) return t * 4 end)
      for _ = 1, 3 do D.eq(x * 4, third(x)) end
      assert.are.equal(1, #third:kernels())
    end)
  end)

  it("gives memory back where the collector stands still", function()
    local x, f = fill { 20000 }, tide.fuse(function(a) return (a * 2 + 1):relu(), (a - 1):var(), a / a:sum() end)
    f(x)
    if D.compiler then f:wait() end
    collectgarbage "stop"
    local function used() return D.cuda and tide.cuda.memory_allocated() or collectgarbage "count" * 1024 end
    for pass = 1, 40 do
      local before = used()
      for _, r in ipairs { f(x) } do r:free() end
      if pass > 20 then assert.is_true(used() - before < 8192) end
    end
    collectgarbage "restart"
  end)

  it("writes the results of a chain where out= says, also over what it reads", function()
    local function fn(a, o)
      local v = a:narrow(1, 2, 10)
      tide.add(v, 1, { out = o })
      v:mul_(o)
      return v + a:narrow(1, 1, 10), o * 2
    end
    local f = tide.fuse(fn)
    for pass = 1, 4 do
      local x, y = fill { 40 }, fill { 40 }
      for first = 1, 12 do -- from before the view to behind it
        local a, b = { fn(x:narrow(1, 5, 20), x:narrow(1, first, 10)) }, { f(y:narrow(1, 5, 20), y:narrow(1, first, 10)) }
        for i = 1, 2 do D.eq(a[i], b[i], 1e-5, ("pass %d, from %d"):format(pass, first)) end
        D.eq(x, y, 1e-5)
        x:fmod_(3) y:fmod_(3)
      end
      if D.compiler then f:wait() end
    end
  end)

  if D.cuda then
    it("is captured in graphs and runs on streams", function()
      local x, y = fill { 20000 }, fill { 20000 }
      local sums = tide.fuse(function(a, b) return (a * b):sum(), (a - b):std() end)
      local f = tide.fuse(function(a, b) return (a * b + 1):relu() end)
      local graph, first, out = tide.cuda.CUDAGraph(), tide.cuda.CUDAGraph(), nil
      tide.cuda.graph(first, function() out = f(x, y) end) -- noted while it is captured
      x:fill_(2)
      first:replay()
      D.eq((x * y + 1):relu(), out)
      f:wait()
      tide.cuda.graph(graph, function() out = f(x, y) end)
      x:fill_(3)
      graph:replay()
      D.eq((x * y + 1):relu(), out)
      sums(x, y) sums:wait()
      local whole, total, apart = tide.cuda.CUDAGraph(), nil, nil
      tide.cuda.graph(whole, function() total, apart = sums(x, y) end)
      x:fill_(2)
      whole:replay()
      D.eq((x * y):sum(), total, 1e-5)
      D.eq((x - y):std(), apart, 1e-5)
      local stream, r = tide.cuda.Stream(), nil
      stream:wait_stream(tide.cuda.current_stream())
      tide.cuda.stream(stream, function() r = f(x, y) end)
      stream:synchronize()
      D.eq((x * y + 1):relu(), r)
    end)
  end

  it("may call another fused function", function()
    local x = fill { 4 }
    local inner = tide.fuse(function(t) return t * 2 + 1 end)
    local outer = tide.fuse(function(t) return inner(t) - t end)
    for _ = 1, 3 do D.eq(x + 1, outer(x)) end
    assert.are.same({ "mul", "add", "sub" }, outer:kernels()[1].operations)
  end)

  it("is the same for random chains (FUSE-01)", function()
    local seed = 7
    local function roll(n) seed = (seed * 1103515245 + 12345) % 2147483648 return seed // 65536 % n + 1 end
    local unary = { "neg", "abs", "relu", "sigmoid", "square", "floor", "tanh", "sign" }
    local binary = { "add", "sub", "mul", "maximum", "minimum", "lt", "eq" }
    for _ = 1, D.tsan and 3 or 12 do
      local plan, sizes = {}, { { 6, 5 }, { 5 }, { 6, 1 } }
      for i = 1, 3 + roll(8) do
        plan[i] = roll(3) == 1 and { unary[roll(#unary)], roll(2 + i) } or { binary[roll(#binary)], roll(2 + i), roll(2 + i) }
        if roll(4) == 1 then plan[i][4] = ({ "float64", "int32", "float32", "int8" })[roll(4)] end
      end
      local function run(a, b, c)
        local v = { a, b, c }
        for i, p in ipairs(plan) do
          local x, y = v[p[2]], p[3] and v[p[3]]
          if x.dtype == tide.bool then x = x:to "int32" end
          local r = y and x[p[1]](x, y.dtype == tide.bool and y:to "int8" or y) or x[p[1]](x)
          v[i + 3] = p[4] and r:to "float32":clamp(-100, 100):to(p[4]) or r
        end
        return v[#v], v[#v - 1]
      end
      check(run, 1e-4, fill(sizes[1]), fill(sizes[roll(3)], "float64"), fill(sizes[roll(3)], "int32"))
    end
  end)
end)

if D.simulated then
  it("fused functions outlive a reset of the devices", function()
    local f = tide.fuse(function(a) return (a * a + 1):relu(), (a + 1):sum() end)
    for pass = 1, 2 do
      local x = fill { 20000 }
      for _ = 1, 3 do
        local r, s = f(x)
        D.eq((x * x + 1):relu(), r)
        D.eq((x + 1):sum(), s, 1e-6)
      end
      if pass == 1 then tide.cuda.device_reset() end
    end
  end)
end

if D.cuda and not D.simulated then
  -- More than there are threads that compile: several are one program then.
  it("many fused functions and kernels that are made at once are each their own", function()
    local unary, x = { "abs", "neg", "relu", "square", "floor", "ceil", "sigmoid", "tanh" }, fill { 40, 8 }
    local fused, made, expected = {}, {}, {}
    for i = 1, 40 do
      local a, b = unary[i % 8 + 1], unary[i // 8 + 1]
      local fn = function(t) return (t[a](t) * i)[b](t) + t:mean(i % 3 - 2, { keepdim = true }) end
      if i % 3 == 2 then fn = function(t) return t[b](t[a](t) + 1) / 2 end end
      fused[i], expected[i] = tide.fuse(fn), fn(x)
      fused[i](x)
      made[i] = tide.kernel(("function(i, t, r) r[i] = t[i] * %d + 0.5 end"):format(1000 + i),
        { types = { "float32", 1, "float32", 1 } })
    end
    for i = 40, 1, -1 do
      fused[i]:wait()
      D.eq(expected[i], fused[i](x), 1e-5, "fused function " .. i)
      local r = tide.zeros(8, { device = dev })
      made[i]({ 8 }, x[1], r)
      D.eq(x[1] * (1000 + i) + 0.5, r, 1e-5, "kernel " .. i)
    end
  end)

  -- Operations between elements need the driver alone, whose assembler takes what tide writes; NVRTC does without that.
  it("fused functions need NVRTC or the driver's assembler, not both", function()
    local program = [[
      local tide = require "tide"
      local fn = function(a, b) return ((a * b + 0.5):tanh() - a):relu(), a:gt(0):to "int8" + 1 end
      local f = tide.fuse(fn)
      local x, row = tide.randn(40, 33, { device = "cuda" }), tide.randn(33, { device = "cuda" })
      for _, b in ipairs { x, row, x:t():contiguous():t() } do
        f(x, b)
        f:wait()
        local p, q = f(x, b)
        local r, s = fn(x, b)
        print(f:ready(), tide.allclose(p, r, { atol = 1e-6 }), tide.equal(q, s), q.dtype)
      end
    ]]
    for _, without in ipairs { { TIDE_CUDA_LIBRARY_PATH = "/nonexistent" }, { CUDA_DISABLE_PTX_JIT = "1" } } do
      without.TIDE_KERNEL_CACHE = "0"
      local out, err = D.run({ "-e", program }, { env = without })
      assert.are.equal("", err)
      assert.are.equal(("true\ttrue\ttrue\tint8\n"):rep(3), (out:gsub("tide%.", "")))
    end
  end)
end
