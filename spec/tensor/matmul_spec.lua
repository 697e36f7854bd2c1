-- Matrix products: every form of matmul, mm, bmm, mv, dot, outer, addmm, in every dtype and layout.

local tide = require "tide"
local D = require "spec.support.device"

local function product(a, b)
  local out = {}
  for i = 1, #a do
    out[i] = {}
    for j = 1, #b[1] do
      local s = 0
      for k = 1, #b do s = s + a[i][k] * b[k][j] end
      out[i][j] = s
    end
  end
  return out
end

local function matrix(n, m, seed)
  local out = {}
  for i = 1, n do
    out[i] = {}
    for j = 1, m do out[i][j] = (i * 7 + j * 13 + seed * 5) % 11 - 5.0 end
  end
  return out
end

describe("matmul", function()
  D.watch(before_each, after_each)

  it("adds up all of long inner dimensions", function()
    local last = 0
    for _, dtype in ipairs { "float32", "float64", "float16", "complex64" } do
      for _, size in ipairs { { 64, 300, 1500 }, { 300, 64, 1100 }, { 130, 140, 777 }, { 5, 300, 2100 }, { 300, 3, 2100 }, { 1, 40, 3000 } } do
        local m, n, k = table.unpack(size)
        local a = tide.randint(-2, 3, { m, k }, { device = D.dev }):to(dtype)
        local b = tide.randint(-2, 3, { k, n }, { device = D.dev }):to(dtype)
        local c = a:matmul(b):to(D.kind[dtype] == "C" and "complex128" or "float64")
        local wide = c.dtype
        local off = (c:sum(2) - a:to(wide):matmul(b:to(wide):sum(2, { keepdim = true })):squeeze(2)):abs():max():item()
        assert.is_true(off <= (dtype == "float16" and n or 0), ("%s, %d x %d x %d: off by %g"):format(dtype, m, k, n, off))
        last = last + 1
      end
    end
    assert.are.equal(24, last)
  end)

  for _, dtype in ipairs { "float16", "bfloat16", "float32", "float64" } do
    it("of " .. dtype .. " matrices in every layout", function()
      local a, b = matrix(3, 4, 1), matrix(4, 5, 2)
      local want = product(a, b)
      for _, la in ipairs(D.layouts(D.tensor(a, dtype))) do
        for _, lb in ipairs(D.layouts(D.tensor(b, dtype))) do
          local c = la[2]:matmul(lb[2])
          assert.are.equal(dtype, D.dtype_name(c))
          D.eq(want, c, D.eps[dtype], la[1] .. " " .. lb[1])
        end
      end
    end)
  end

  it("of odd and larger sizes", function()
    for _, n in ipairs { 1, 2, 17, 64, 65 } do
      local a, b = matrix(n, 33, 3), matrix(33, n + 1, 4)
      D.eq(product(a, b), D.tensor(a):mm(D.tensor(b)), 1e-5)
    end
  end)

  -- Small whole numbers: every sum is exact, whatever its order.
  local function whole(dtype, n, m)
    return tide.randint(-4, 4, { n, m }, { device = D.dev }):to(dtype)
  end

  for _, dtype in ipairs { "float32", "float64", "int32", "complex64" } do
    it("of every number of rows in " .. dtype .. ", dense, transposed and rows of wider matrices", function()
      for rows = 1, 31 do
        local k, columns = 5 + rows * 3, 70 - rows
        local wide, high = whole(dtype, rows, 1024), whole(dtype, k, 1024)
        local as = { whole(dtype, rows, k), whole(dtype, k, rows):t(), wide:slice(2, 3, k + 2) }
        local bs = { whole(dtype, k, columns), whole(dtype, columns, k):t(), high:slice(2, 2, columns + 1) }
        for i, a in ipairs(as) do
          for j, b in ipairs(bs) do
            local want = (a:unsqueeze(3) * b:unsqueeze(1)):sum(2):to(dtype)
            local got = a:mm(b)
            assert.is_true(got:equal(want), ("%d rows, layouts %d and %d"):format(rows, i, j))
          end
        end
      end
    end)
  end

  it("of vectors, matrices and batches", function()
    local a, b = D.tensor(matrix(3, 4, 1)), D.tensor(matrix(4, 2, 2))
    local v, w = D.tensor { 1., 2., 3., 4. }, D.tensor { 1., -1., 2. }
    assert.are.equal(30, v:matmul(v):item())
    assert.are.equal(0, v:matmul(v):dim())
    D.eq((a * v):sum(2):totable(), a:matmul(v), 1e-6)
    D.eq((w:unsqueeze(2) * a):sum(1):totable(), w:matmul(a), 1e-6)
    D.eq(a:matmul(b):totable(), tide.matmul(a, b))
    local batch = tide.stack { a, a * 2, a - 1, a * 0, a, a }:view(2, 3, 3, 4)
    local c = batch:matmul(b)
    assert.are.same({ 2, 3, 3, 2 }, c:size())
    D.eq((a * 2):matmul(b):totable(), c[{ 1, 2 }], 1e-6)
    local right = tide.stack { b, b + 1, b * 3 }
    c = batch:matmul(right)
    assert.are.same({ 2, 3, 3, 2 }, c:size())
    D.eq((a - 1):matmul(b * 3):totable(), c[{ 1, 3 }], 1e-6)
    assert.are.same({ 3, 3, 2 }, a:matmul(right):size())
    assert.are.same({ 2, 3, 3 }, batch:matmul(v):size())
  end)

  -- Four batch dims, each in both operands, in one alone, or 1 in both: no two of them need be one.
  it("of batches that are broadcast in every way", function()
    local sizes, at = { 2, 3, 2, 4 }, 0
    local function values(s)
      at = at + 1
      local n = 1
      for d = 1, #s do n = n * s[d] end
      return (tide.arange(n, { device = D.dev, dtype = "float32" }) * (at % 7 + 1) % 11 - 5):view(s)
    end
    for way = 0, 255, D.every do
      local a, b, whole = {}, {}, {}
      for d = 1, 4 do
        local how = way >> 2 * (d - 1) & 3
        a[d], b[d] = how % 2 == 0 and 1 or sizes[d], how < 2 and 1 or sizes[d]
        whole[d] = math.max(a[d], b[d])
      end
      a[5], a[6], b[5], b[6] = 2, 3, 3, 2
      local x, y = values(a), values(b)
      D.eq((x:unsqueeze(-1) * y:unsqueeze(-3)):sum(-2), x:matmul(y), 0, table.concat(whole, "x") .. " " .. way)
    end
  end)

  it("mm, bmm, mv, dot, outer check their dimensions", function()
    local a, b, v = D.tensor(matrix(3, 4, 1)), D.tensor(matrix(4, 2, 2)), D.tensor { 1., 2., 3., 4. }
    D.eq(a:matmul(b):totable(), a:mm(b))
    D.eq(a:matmul(v):totable(), a:mv(v))
    assert.are.equal(30, v:dot(v):item())
    D.eq({ { 2, 4 }, { 3, 6 } }, D.tensor({ 2., 3. }):outer(D.tensor { 1., 2. }))
    local batch = tide.stack { a, a + 1 }
    D.eq((a + 1):mm(b):totable(), batch:bmm(tide.stack { b, b })[2], 1e-6)
    D.raises("ShapeError", a.mm, a, a)
    D.raises("ShapeError", a.mm, a, v)
    D.raises("ShapeError", a.bmm, a, b)
    D.raises("ShapeError", a.mv, a, D.tensor { 1., 2. })
    D.raises("ShapeError", v.dot, v, D.tensor { 1., 2. })
    D.raises("ShapeError", v.dot, a, v)
    D.raises("ShapeError", a.matmul, a, D.tensor(matrix(3, 2, 1)))
    D.raises("ShapeError", a.matmul, a, D.tensor(1.))
    D.raises("DtypeError", a.mm, a, b:double())
    D.raises("ArgumentError", a.mm, a, 2)
  end)

  it("addmm, baddbmm and addmv of integers are exact", function()
    local function ints(data) return D.tensor(data, "int64") end
    local factors, big, far = { beta = 3, alpha = 5 }, 1048577, 1099511627777 -- 2^20 + 1, 2^40 + 1
    local a, b, want = { { big, 1 } }, { { 3 }, { big } }, 3 * far + 5 * (3 * big + big)
    D.eq({ { want } }, tide.addmm(ints { { far } }, ints(a), ints(b), factors))
    D.eq({ { want } }, tide.addmm(ints { far }, ints(a), ints(b), { beta = 3, alpha = 5, out = ints { { 0 } } }))
    D.eq({ { want } }, ints({ { far } }):addmm_(ints(a), ints(b), factors))
    D.eq({ want }, tide.addmv(ints { far }, ints(a), ints { 3, big }, factors))
    local none = { dtype = "int64", device = D.dev }
    D.eq({ { 3 * far } }, tide.addmm(ints { { far } }, tide.ones(1, 0, none), tide.ones(0, 1, none), factors)) -- nothing to add up
    D.eq({ { { want } } }, tide.baddbmm(ints { { { far } } }, ints { a }, ints { b }, factors))
    D.raises("ValueError", tide.addmm, ints { { far } }, ints(a), ints(b), { beta = 0.5 })
    D.raises("ValueError", tide.addmm, ints { { far } }, ints(a), ints(b), { alpha = 1.5 })
  end)

  it("addmm, baddbmm, addmv", function()
    local a, b = matrix(3, 4, 1), matrix(4, 2, 2)
    local c = matrix(3, 2, 5)
    local ta, tb, tc = D.tensor(a), D.tensor(b), D.tensor(c)
    local ab = product(a, b)
    D.eq(D.map(function(x, y) return x + y end, c, ab), tide.addmm(tc, ta, tb), 1e-6)
    local want = D.map(function(x, y) return 0.5 * x + 2 * y end, c, ab)
    D.eq(want, tide.addmm(tc, ta, tb, { beta = 0.5, alpha = 2 }), 1e-6)
    D.eq(ab, tide.addmm(tc * (0 / 0), ta, tb, { beta = 0 }), 1e-6)
    D.eq(D.map(function(y) return y + 1 end, ab), tide.addmm(D.tensor { 1. }, ta, tb), 1e-6)
    local d = tc:clone()
    assert.is_true(d:addmm_(ta, tb, { beta = 0.5, alpha = 2 }) == d)
    D.eq(want, d, 1e-6)
    local three = tide.baddbmm(tide.stack { tc, tc }, tide.stack { ta, ta }, tide.stack { tb, tb })
    D.eq(D.map(function(x, y) return x + y end, c, ab), three[2], 1e-6)
    D.eq({ 31 }, tide.addmv(D.tensor { 1. }, D.tensor { { 1., 2., 3., 4. } }, D.tensor { 1., 2., 3., 4. }))
    D.raises("ShapeError", tide.addmm, D.tensor(matrix(2, 3, 1)), ta, tb)
  end)

  it("of nothing gives zeros", function()
    D.eq({ { 0, 0 }, { 0, 0 } }, tide.ones(2, 0, { device = D.dev }):mm(tide.ones(0, 2, { device = D.dev })))
    assert.are.same({ 0, 3 }, tide.ones(0, 2, { device = D.dev }):mm(tide.ones(2, 3, { device = D.dev })):size())
  end)

  it("writes into out=, whatever its layout", function()
    local a, b = matrix(3, 4, 1), matrix(4, 2, 2)
    local out = tide.zeros(2, 3, { device = D.dev }):t()
    assert.is_true(tide.mm(D.tensor(a), D.tensor(b), { out = out }) == out)
    D.eq(product(a, b), out, 1e-6)
    D.raises("ShapeError", tide.mm, D.tensor(a), D.tensor(b), { out = tide.zeros(2, 2, { device = D.dev }) })
  end)

  it("gives an empty out= the size of the result", function()
    local a, b, c = D.tensor(matrix(2, 3, 1)), D.tensor(matrix(3, 2, 2)), D.tensor(matrix(2, 2, 3))
    local v, w, many = D.tensor { 1., 2., 3. }, D.tensor { 1., -1. }, tide.stack { c, c + 1 }
    for name, args in pairs { matmul = { a, b }, mm = { a, b }, mv = { a, v }, bmm = { many, many }, outer = { v, w },
      addmm = { c, a, b }, addmv = { w, a, v }, baddbmm = { many, many, many } } do
      local out, expected = tide.empty(0, { device = D.dev }), tide[name](table.unpack(args))
      args[#args + 1] = { out = out }
      assert.is_true(tide[name](table.unpack(args)) == out, name)
      D.eq(expected, out, 0, name)
    end
  end)

  -- Of at most 8 by 8, of which backends have their own loops, and just above; many, one, and many rows against one.
  it("small matrices in batches have the sums of products", function()
    local function whole(dtype, ...)
      local n = 1
      for _, s in ipairs { ... } do n = n * s end
      return (tide.arange(n, { device = D.dev }) * 5 % 11 - 5):view(...):to(dtype)
    end
    local function check(a, b, what)
      local expected = (a:unsqueeze(-1) * b:unsqueeze(-3)):sum(-2)
      for _, x in ipairs(D.layouts(a)) do
        for _, y in ipairs(D.layouts(b)) do D.eq(expected, x[2]:matmul(y[2]), 0, what .. " " .. x[1] .. " " .. y[1]) end
      end
      local out = tide.full(expected.shape, 0 / 0, { device = D.dev, dtype = a.dtype })
      D.eq(expected, tide.matmul(a, b, { out = out }), 0, what)
    end
    for _, dtype in ipairs { "float32", "float64", "float16", "complex64" } do
      for _, n in ipairs { 1, 2, 3, 4, 5, 8, 9 } do
        check(whole(dtype, 19, n, n), whole(dtype, 19, n, n), dtype .. " " .. n)
        check(whole(dtype, 19, n, n), whole(dtype, n, n), dtype .. " by one " .. n)
        check(whole(dtype, n, n), whole(dtype, 19, n, n), dtype .. " one by many " .. n)
        check(whole(dtype, 37, n), whole(dtype, n, n), dtype .. " rows " .. n)
      end
      check(whole(dtype, 300, 4, 4), whole(dtype, 300, 4, 4), dtype)
      check(whole(dtype, 21, 3, 7), whole(dtype, 21, 7, 4), dtype .. " 3x7x4")
      check(whole(dtype, 21, 8, 1), whole(dtype, 21, 1, 4), dtype .. " 8x1x4")
      check(whole(dtype, 20, 33), whole(dtype, 33, 18), dtype .. " 20x33x18")
    end
    local c, a, b = whole("float32", 5, 4, 4), whole("float32", 5, 4, 4), whole("float32", 5, 4, 4)
    D.eq(c * 3 + a:matmul(b) * 2, tide.baddbmm(c, a, b, { beta = 3, alpha = 2 }))
    D.eq(a:matmul(b) * 2, tide.baddbmm(c * (0 / 0), a, b, { beta = 0, alpha = 2 }))
  end)

  it("float32 is exact to float32 unless tf32 is asked for", function()
    local x = tide.full({ 64, 64 }, 1 + 2 ^ -12, { device = D.dev, dtype = "float32" })
    local y = x:mm(tide.eye(64, { device = D.dev }))
    assert.are.equal(1 + 2 ^ -12, y[{ 5, 7 }]:item())
  end)

  it("asks no library of the system, whose threads would stand beside ours", function()
    local function libraries()
      local n = 0
      for line in io.lines "/proc/self/maps" do
        if line:match "lib[%w_]*blas[%w_]*%.so" and not line:find "libcublas" then n = n + 1 end
      end
      return n
    end
    local before = libraries() -- tide.linalg may have opened one
    local x = tide.randn(300, 300, { device = D.dev })
    x:matmul(x):sum():item()
    assert.are.equal(before, libraries())
  end)
end)
