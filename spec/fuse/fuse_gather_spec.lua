-- Reads by an index in fused functions.

local tide = require "tide"
local D = require "spec.support.device"
local fused = require "spec.support.fused"
local dev, ipairs, pcall = D.dev, ipairs, pcall
local fill, check, explained = fused.fill, fused.check, fused.explained

-- Places from 1 to n, each of them some time, and some from the end.
local function places(size, n, dtype)
  local count = tide.zeros(size):numel()
  local i = tide.arange(0, count, { device = dev }) * 7 % n + 1
  local from_end = (tide.arange(0, count, { device = dev }) % 3):eq(1)
  if dtype == "uint8" then return i:view(size):to(dtype) end
  return tide.where(from_end, i - n - 1, i):view(size):to(dtype or "int64")
end

-- The operations of the kernel that gathers, or nil: on the CPU a chain that ends without a reduction is faster apart.
local function gathering(f)
  for _, kernel in ipairs(f:kernels()) do
    for _, name in ipairs(kernel.operations) do
      if name == "gather" and #kernel.operations > 1 then return kernel.operations end
    end
  end
end

describe("tide.fuse, gathers:", function()
  D.watch(before_each, after_each)

  it("reads by an index in the kernel of what follows (FUSE-01)", function()
    local forms = {
      { function(x, i) return (x[i] * 2 + 1):relu() end, { 50 }, { 40 }, 50 },
      { function(x, i) return (x[i] * 2 + 1):relu() end, { 50 }, { 3, 4 }, 50 },
      { function(x, i) return (x[i] * 2 + 1):relu() end, { 9, 5 }, { 7 }, 9 },
      { function(x, i) return (x[i] * 2 + 1):relu() end, { 9, 5, 2 }, { 3, 4 }, 9 },
      { function(x, i) return (x[i] * 2 + 1):relu() end, { 9, 5 }, {}, 9 },
      { function(x, i) return x:index_select(2, i) * 2 + 1 end, { 9, 5 }, { 7 }, 5 },
      { function(x, i) return x:index_select(-2, i) * 2 + 1 end, { 3, 9, 5 }, { 7 }, 9 },
      { function(x, i) return x:index_select(1, i) * 2 + 1 end, { 1, 5 }, { 4 }, 1 },
      { function(x, i) return x:gather(2, i) * 2 + 1 end, { 9, 5 }, { 9, 8 }, 5 },
      { function(x, i) return x:gather(1, i) * 2 + 1 end, { 9, 5 }, { 3, 5 }, 9 },
      { function(x, i) return x:gather(1, i) * 2 + 1 end, { 9, 5 }, { 3, 2 }, 9 }, -- of a part of x: alone
      { function(x, i) return x:take_along_dim(i, 2) * 2 + 1 end, { 9, 5 }, { 9, 2 }, 5 },
      { function(x, i) return x:take_along_dim(i, 2) * 2 + 1 end, { 9, 5 }, { 1, 2 }, 5 }, -- broadcasts: alone
      { function(x, i) return x:take(i) * 2 + 1 end, { 5, 10 }, { 4, 3 }, 50 },
      { function(x, i) return x:take(i) * 2 + 1 end, {}, { 4, 3 }, 1 },
      { function(x, i) return x[i] * 2 + 1 end, { 9, 5 }, { 0 }, 9 },
    }
    for _, form in ipairs(forms) do
      local fn, size, index, n = form[1], form[2], form[3], form[4]
      check(fn, 0, fill(size), places(index, n))
      check(function(x, i) return fn(x, i):sum(), (fn(x, i)) * 2 end, 1e-5, fill(size), places(index, n))
    end
    local f = check(forms[1][1], 0, fill { 50 }, places({ 40 }, 50))
    if D.cuda then
      assert.are.same({ "gather", "mul", "add", "relu" }, gathering(f))
      assert.are.equal(1, #f:kernels())
      assert.is_truthy(explained(f):find("gather mul add relu: reads 2, writes 1, 16 bytes an element", 1, true))
    end
    f = check(function(x, i) return (x[i] * 2):sum() end, 1e-5, fill { 50 }, places({ 40 }, 50))
    assert.are.same({ "gather", "mul", "sum" }, gathering(f))
    if D.compiler then assert.is_true(f:ready()) end
    f = check(function(x, i) return x[i], x * 2 end, 0, fill { 50 }, places({ 40 }, 50))
    assert.is_nil(gathering(f)) -- one that stands alone has a kernel of its own
  end)

  it("computes the index, and indexes by what was gathered", function()
    local x, i, w = fill { 50 }, places({ 40 }, 50, "int32"), fill { 9, 5 }
    local f = check(function(a, j) return a[j:clamp(1, 25) * 2 - 1] * 2, j + 1 end, 0, x, i)
    if D.cuda then assert.are.same({ "clamp", "mul", "sub", "gather", "mul", "add" }, gathering(f)) end
    f = check(function(a, j) return (a[j:abs():to "int64"] * 2):sum() end, 1e-5, x, i)
    assert.are.same({ "abs", "int64", "gather", "mul", "sum" }, gathering(f))
    f = check(function(a, p, j) return (a[p[j] + 1] + 1):mean() end, 1e-5, x, places({ 40 }, 40):clamp(1, 40), places({ 20 }, 40))
    assert.are.same({ "gather", "add", "gather", "add", "mean" }, gathering(f))
    check(function(a, j) return a[j:clamp(1, 9)] * 2, a:index_select(2, j:clamp(1, 5)) + 1 end, 0, w, places({ 7 }, 9))
    check(function(a, j) return a:gather(2, j:clamp(1, 5)) * 2 end, 0, w, places({ 9, 3 }, 5))
    check(function(a, j) return (a * 2)[j] + 1, (a + 1):take(j) * 3 end, 0, x, i) -- the source is computed
    check(function(a, j) return a[j] + a, a[j] * a[-j] end, 0, x, places({ 50 }, 50))
    check(function(a) return a[a:count_nonzero() - 20] * 2, a[{ { 2, 4 } }] * 2, a[a:gt(0)] * 2 end, 0, x)
  end)

  it("keeps dtypes, takes any layout, and broadcasts", function()
    for _, dtype in ipairs { "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64" } do
      local x, i = fill({ 50 }, dtype), places({ 40 }, 50)
      check(function(a, j) return a[j] * a[j] + 2, a[j] end, D.eps[dtype] or 0, x, i)
    end
    for _, dtype in ipairs { "uint8", "int8", "int16", "int32", "int64" } do
      check(function(a, j) return a[j] * 2 + 1, (a[j] * 2):sum() end, 1e-5, fill { 50 }, places({ 40 }, 50, dtype))
    end
    for _, x in ipairs(D.layouts(fill { 9, 5 })) do
      for _, i in ipairs(D.layouts(places({ 9, 5 }, 5))) do
        check(function(a, j) return a:gather(2, j) * 2 + 1, a:take(j) - 1 end, 0, x[2], i[2])
        check(function(a, j) return (a[j] * 2):sum(-1), a[j] * 2 + a[1] end, 1e-5, x[2], i[2])
        i[3]()
      end
      x[3]()
    end
    local x, i = fill { 9, 5 }, places({ 7 }, 9)
    check(function(a, j, y) return a[j] * y + 1 end, 0, x, i, fill { 3, 7, 5 })
    check(function(a, j, y) return a[j] * y + 1 end, 0, x, i, fill { 7, 1 })
    check(function(a, j, y) return a[j] * y + 1 end, 0, fill { 9, 1 }, i, fill { 7, 5 })
    check(function(a, j) return a[j] + j:unsqueeze(2) end, 0, x, i)
    check(function(a, j) return a[j] * 2 + 1 end, 0, x:narrow(1, 1, 1):expand(9, 5), i)
  end)

  it("reads tensors of every number of dimensions", function()
    local names = { "gather", "mul", "add" }
    for n = 1, 12 do
      local size, x = {}, nil
      for d = 1, n do size[d] = d > n - 2 and 5 or 1 end
      x = fill(size)
      local f = check(function(a, j) return a:index_select(n, j) * 2 + 1 end, 0, x, places({ 7 }, 5))
      if D.cuda then assert.are.same(names, gathering(f), n) end
      size[n] = 3
      f = check(function(a, j) return a:gather(n, j) * 2 + 1 end, 0, x, places(size, 5))
      if D.cuda then assert.are.same(names, gathering(f), n) end
      size = {}
      for d = 1, n do size[d] = d == 1 and 4 or 1 end
      f = check(function(a, j) return a[j] * 2 + 1 end, 0, fill { 5 }, places(size, 5))
      if D.cuda then assert.are.same(names, gathering(f), n) end
    end
  end)

  it("reduces what was gathered, rows of any length", function()
    for _, case in ipairs { { { 9, 5 }, { 7 } }, { { 40, 3 }, { 20000 } }, { { 9, 20000 }, { 3 } }, { { 30, 70 }, { 300 } } } do
      local x, i = fill(case[1]), places(case[2], case[1][1])
      check(function(a, j) return (a[j] * 2):sum(-1), (a[j] + 1):amax(1), (a[j] - 1):mean(), (a[j] * 1):var() end, 1e-4, x, i)
      check(function(a, j)
        local e = (a[j] - a[j]:amax(-1, { keepdim = true })):exp()
        return e / e:sum(-1, { keepdim = true })
      end, 1e-5, x, i)
    end
    local x, i = fill { 100 }, places({ 50000 }, 100)
    local f = check(function(a, j) return (a[j] * 2):sum(), (a[j] - 1):std() end, 1e-4, x, i)
    if D.compiler then f:wait() end
    assert.are.equal(f(x, i):item(), f(x, i):item())
  end)

  it("serves tensors of other sizes by what one call has shown", function()
    local function fn(x, i, y) return x[i] * y + 1, (x[i] * y):sum(-1) end
    local f = tide.fuse(fn)
    for _, n in ipairs { 7, 9, 300, 4000, 7 } do
      local x, i, y = fill { n // 2 + 3, 5 }, places({ n }, n // 2 + 3), fill { n, 5 }
      for _ = 1, 2 do
        local want, got = { fn(x, i, y) }, { f(x, i, y) }
        for k = 1, 2 do D.eq(want[k], got[k], 1e-5) end
        if D.compiler then f:wait() end
      end
    end
  end)

  it("reads what writes before it have left (FUSE-04)", function()
    local function fn(x, i, o)
      x:mul_(2)
      local y = x[i] * 3 + 1
      x:add_(1)
      local z = x:take(i) - y
      x:sub_(z:sum())
      tide.mul(x[i], y, { out = o })
      o:add_(x[i])
      return y, z, x[i] * 2, o * 2
    end
    local f = tide.fuse(fn)
    for pass = 1, 3 do
      local i = places({ 8 }, 8)
      local a, b = { fill { 8 }, i, fill { 8 } }, { fill { 8 }, i:clone(), fill { 8 } }
      local want, got = { fn(table.unpack(a)) }, { f(table.unpack(b)) }
      for k = 1, 4 do D.eq(want[k], got[k], 1e-5, "result " .. k .. ", pass " .. pass) end
      for k = 1, 3 do D.eq(a[k], b[k], 1e-5, "argument " .. k .. ", pass " .. pass) end
      if D.compiler then f:wait() end
    end
    local function shift(x, i) x:copy_(x[i] * 2) return x + 1 end -- from itself
    local g = tide.fuse(shift)
    for _ = 1, 3 do
      local a, b, i = fill { 8 }, fill { 8 }, places({ 8 }, 8)
      D.eq(shift(a, i), g(b, i))
      D.eq(a, b)
      if D.compiler then g:wait() end
    end
  end)

  -- What it raises, but for the line, which is that of whoever needed the value.
  local function problem(fn, ...)
    local ok, said = pcall(function(...)
      local r = fn(...)
      if D.cuda then tide.cuda.synchronize() end
      return r
    end, ...)
    assert.is_false(ok)
    assert.are.equal("IndexError", said.kind)
    return (said.message:gsub(" used at [^,]*", ""))
  end

  it("ends in the error of the function itself where an index is outside", function()
    local forms = {
      { function(x, i) return (x[i] * 2):sum() end, { 9 } },
      { function(x, i) return x[i] * 2 + 1 end, { 9 } },
      { function(x, i) return x[i] * 2 + 1 end, { 9, 5 } },
      { function(x, i) return (x:take(i) * 2):tanh() end, { 9 } },
      { function(x, i) return (x[i] * 2):sum(-1) end, { 9, 70 } },
      { function(x, i) return (x[i] * 2):sum(1) end, { 9, 5 } },
    }
    for _, form in ipairs(forms) do
      for _, bad in ipairs { 10, 0, -10, 1 << 40, math.mininteger } do
        local fn, x, i = form[1], fill(form[2]), places({ 300 }, 9)
        local f, j = tide.fuse(fn), i:clone()
        j[200] = bad
        for pass = 1, 3 do
          assert.are.equal(problem(fn, x, j), problem(f, x, j))
          D.eq(fn(x, i), f(x, i), 1e-5)
          if pass == 2 and D.compiler then f:wait() end
        end
      end
    end
    local f = tide.fuse(function(x, i) return (x[i] * 2):sum(-1) end)
    local x, i = fill { 9, 5 }, places({ 4 }, 9)
    D.eq((x[i] * 2):sum(-1), f(x, i))
    assert.is_false((pcall(f, fill { 0, 5 }, i)))
    assert.is_false((pcall(f, x, i:to "float32")))
    D.eq((x[i] * 2):sum(-1), f(x, i))
  end)

  if D.cuda then
    it("is captured in graphs, and tells of a bad index at their replay", function()
      local x, i = fill { 20000 }, places({ 30000 }, 20000)
      local f = tide.fuse(function(a, j) return (a[j] * 2 + 1):relu() end)
      f(x, i)
      f:wait()
      local graph, out = tide.cuda.CUDAGraph(), nil
      tide.cuda.graph(graph, function() out = f(x, i) end)
      x:mul_(-1)
      graph:replay()
      D.eq((x[i] * 2 + 1):relu(), out)
      i[17] = 20001
      assert.is_truthy(problem(function() graph:replay() end):find "got 20001, expected 1 to 20000")
      i[17] = 20000
      graph:replay()
      D.eq((x[i] * 2 + 1):relu(), out)
    end)
  end
end)
