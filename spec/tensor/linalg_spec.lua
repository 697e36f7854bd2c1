-- Linear algebra by libraries: results multiplied out again, in adversarial layouts; known values;
-- matrices without elements; what is refused.

local tide = require "tide"
local D = require "spec.support.device"

local dtypes = { float32 = 1e-5, float64 = 1e-13, complex64 = 1e-5, complex128 = 1e-13 }
local function adjoint(x) return x.mT:conj() end

-- Positive definite matrices of the size.
local function positive(dtype, ...)
  local r = tide.randn(..., { dtype = dtype, device = D.dev })
  local n = r:size(-1)
  return r:matmul(adjoint(r)) + tide.eye(n, { dtype = dtype, device = D.dev })
end

local la = tide.linalg
local ok, why = pcall(la.cholesky, tide.eye(1, { device = D.dev }))
if not ok and tostring(why):find "was not found" then
  describe("linalg", function()
    it("needs LAPACK", function() return pending(tostring(why)) end)
  end)
  return
end

describe("linalg.cholesky", function()
  D.watch(before_each, after_each)

  for dtype, close in pairs(dtypes) do
    it("factors " .. dtype, function()
      for _, size in ipairs { { 1, 1 }, { 5, 5 }, { 3, 4, 4 }, { 2, 3, 17, 17 }, { 2, 130, 130 } } do
        local a = positive(dtype, size)
        local n = size[#size]
        for _, layout in ipairs(D.layouts(a)) do
          local l = tide.linalg.cholesky(layout[2])
          local u = tide.linalg.cholesky(layout[2], { upper = true })
          assert.are.same(size, l:size())
          assert.are.equal(a.dtype, l.dtype)
          local slack = close * n * a:abs():max():item()
          assert.is_true((l:matmul(adjoint(l)) - a):abs():max():item() < slack, layout[1])
          assert.is_true((adjoint(u):matmul(u) - a):abs():max():item() < slack, layout[1])
          assert.are.equal(0, l:triu(1):abs():max():item())
          assert.are.equal(0, u:tril(-1):abs():max():item())
        end
      end
    end)
  end

  it("gives what is known", function()
    local a = D.tensor { { 4., 12., -16. }, { 12., 37., -43. }, { -16., -43., 98. } }
    D.eq({ { 2, 0, 0 }, { 6, 1, 0 }, { -8, 5, 3 } }, tide.linalg.cholesky(a), 1e-5)
    D.eq({ { 2, 6, -8 }, { 0, 1, 5 }, { 0, 0, 3 } }, tide.linalg.cholesky(a, { upper = true }), 1e-5)
  end)

  it("reads one triangle alone", function()
    local nan = 0 / 0
    D.eq({ { 2, 0 }, { 1, 3 } }, tide.linalg.cholesky(D.tensor { { 4., nan }, { 2., 10. } }), 1e-6)
    D.eq({ { 2, 1 }, { 0, 3 } }, tide.linalg.cholesky(D.tensor { { 4., 2. }, { nan, 10. } }, { upper = true }), 1e-6)
  end)

  it("takes nothing, and a destination that may be its operand", function()
    assert.are.same({ 0, 0 }, tide.linalg.cholesky(tide.empty(0, 0, { device = D.dev })):size())
    assert.are.same({ 0, 3, 3 }, tide.linalg.cholesky(tide.empty(0, 3, 3, { device = D.dev })):size())
    local a, out = D.tensor { { 4., 2. }, { 2., 10. } }, tide.empty(0, { device = D.dev })
    assert.are.equal(out, tide.linalg.cholesky(a, { out = out }))
    D.eq({ { 2, 0 }, { 1, 3 } }, out, 1e-6)
    tide.linalg.cholesky(a, { out = a })
    D.eq({ { 2, 0 }, { 1, 3 } }, a, 1e-6)
  end)

  it("names the matrix and the minor that are not positive definite", function()
    local x = tide.eye(4, { device = D.dev }):expand(2, 3, 4, 4):clone()
    x[{ 2, 1, 3, 3 }] = -1
    x[{ 2, 3, 1, 1 }] = 0
    local out = tide.zeros(2, 3, 4, 4, { device = D.dev })
    local message = D.raises("ValueError", tide.linalg.cholesky, x, { out = out })
    assert.truthy(tostring(message):find("batch [2, 1]", 1, true), message)
    assert.truthy(tostring(message):find("order 3", 1, true), message)
    assert.are.equal(0, out:abs():max():item())
    D.raises("ValueError", tide.linalg.cholesky, x[{ 2, 3 }])
    if not D.cuda or D.simulated then D.raises("ValueError", tide.linalg.cholesky, D.tensor { { 0 / 0 } }) end -- cuSOLVER gives NaN
  end)

  it("refuses what it cannot factor", function()
    D.raises("ShapeError", tide.linalg.cholesky, tide.ones(2, 3, { device = D.dev }))
    D.raises("ShapeError", tide.linalg.cholesky, tide.ones(3, { device = D.dev }))
    D.raises("DtypeError", tide.linalg.cholesky, D.tensor({ { 1 } }, "int64"))
    D.raises("DtypeError", tide.linalg.cholesky, D.tensor({ { 1 } }, "float16"))
    D.raises("ArgumentError", tide.linalg.cholesky, D.tensor { { 1. } }, { lower = true })
    D.raises("ArgumentError", tide.linalg.cholesky, 1)
  end)
end)

-- Random matrices, far from singular where they are square.
local function matrices(dtype, ...)
  local x = tide.randn(type(...) == "table" and ... or { ... }, { dtype = dtype, device = D.dev })
  return x + tide.eye(x:size(-2), x:size(-1), { dtype = dtype, device = D.dev }) * 4
end

local function near(expected, got, slack, what)
  assert.are.same(expected:size(), got:size(), what)
  assert.are.equal(expected.dtype, got.dtype, what)
  if expected:numel() == 0 then return end
  local off = (expected - got):abs():max():item()
  assert.is_true(off <= slack, (what or "") .. " is off by " .. off)
end

local function has_orthonormal_columns(q, slack, what)
  near(tide.eye(q:size(-1), { dtype = q.dtype, device = D.dev }):expand_as(q.mT:matmul(q)), adjoint(q):matmul(q), slack, what)
end

local squares = { { 1, 1 }, { 5, 5 }, { 3, 4, 4 }, { 2, 3, 9, 9 }, { 40, 2, 2 }, { 2, 17, 17 }, { 3, 33, 33 }, { 70, 70 } }
local oblongs = { { 1, 1 }, { 5, 3 }, { 3, 5 }, { 2, 4, 4 }, { 3, 2, 7, 4 }, { 2, 4, 9 }, { 80, 70 }, { 70, 80 } }

local function of_all_dtypes(name, sizes, check)
  for dtype, close in pairs(dtypes) do
    it(name .. " " .. dtype, function()
      for _, size in ipairs(sizes) do
        local a = matrices(dtype, size)
        for _, layout in ipairs(D.layouts(a)) do
          check(layout[2], close * math.max(a:size(-1), a:size(-2)) * 40, a, layout[1] .. " " .. table.concat(size, " x "))
        end
      end
    end)
  end
end

describe("linalg.solve", function()
  D.watch(before_each, after_each)

  it("takes no vectors from the right, one or one for each matrix", function()
    local eye = tide.eye(3, { device = D.dev })
    D.raises("ShapeError", la.solve, eye, tide.ones(3, { device = D.dev }), { left = false })
    local two, b = eye:expand(2, 3, 3), tide.ones(2, 3, { device = D.dev })
    assert.matches("got vectors", D.raises("ShapeError", la.solve, two, b, { left = false }).message)
    D.eq({ { 1, 1, 1 }, { 1, 1, 1 } }, la.solve(eye, b, { left = false }))
    D.eq({ { 1, 1, 1 }, { 1, 1, 1 } }, la.solve(two, b)) -- from the left they are
  end)

  of_all_dtypes("solves", squares, function(x, slack, a, what)
    local size = a:size()
    size[#size] = 3
    local b = tide.randn(size, { dtype = a.dtype, device = D.dev })
    for _, layout in ipairs(D.layouts(b)) do near(b, a:matmul(la.solve(x, layout[2])), slack, what .. layout[1]) end
    near(b.mT, la.solve(x, b.mT, { left = false }):matmul(a), slack, what)
    near(a, a:matmul(la.inv(x)):matmul(a), slack * 8, what)
    local v = tide.randn(a:size(-1), { dtype = a.dtype, device = D.dev })
    near(v:expand(a:matmul(v):size()), a:matmul(la.solve(x, v):unsqueeze(-1)):squeeze(-1), slack, what)
  end)

  it("solves large ones with many right sides", function()
    for dtype, close in pairs(dtypes) do
      local a = matrices(dtype, 2, 150, 150)
      local b = tide.randn(2, 150, 80, { dtype = dtype, device = D.dev })
      for _, x in ipairs { a, a.mT } do
        near(b, x:matmul(la.solve(x, b)), close * 6000, dtype)
        near(x, x:matmul(la.inv(x)):matmul(x), close * 60000, dtype)
      end
      local few = matrices(dtype, 3, 3)
      b = tide.randn(3, 2000, { dtype = dtype, device = D.dev })
      near(b, few:matmul(la.solve(few, b)), close * 400, dtype)
    end
  end)

  it("gives what is known, and takes a destination", function()
    local a, b = D.tensor { { 2., 1. }, { 1., 3. } }, D.tensor { 3., 5. }
    D.eq({ 0.8, 1.4 }, la.solve(a, b), 1e-6)
    D.eq({ { 0.6, -0.2 }, { -0.2, 0.4 } }, la.inv(a), 1e-6)
    local out = tide.empty(0, { device = D.dev })
    assert.are.equal(out, la.inv(a, { out = out }))
    D.eq({ { 0.6, -0.2 }, { -0.2, 0.4 } }, out, 1e-6)
    la.solve(a, b, { out = b })
    D.eq({ 0.8, 1.4 }, b, 1e-6)
  end)

  it("broadcasts batches", function()
    local a, b = matrices("float64", 2, 1, 3, 3), tide.randn(4, 3, 2, { dtype = "float64", device = D.dev })
    near(b:expand(2, 4, 3, 2), a:matmul(la.solve(a, b)), 1e-11)
    near(b, a[{ 1, 1 }]:matmul(la.solve(a[{ 1, 1 }], b)), 1e-11)
    near(b:narrow(1, 1, 1):expand(2, 1, 3, 2), a:matmul(la.solve(a, b:narrow(1, 1, 1))), 1e-11)
    assert.are.same({ 2, 3 }, la.solve(a:squeeze(2), tide.ones(3, { dtype = "float64", device = D.dev })):size())
  end)

  it("takes nothing", function()
    local function zeros(...) return tide.zeros({ ... }, { device = D.dev }) end
    assert.are.same({ 0, 3, 3 }, la.inv(zeros(0, 3, 3)):size())
    assert.are.same({ 2, 0, 0 }, la.inv(zeros(2, 0, 0)):size())
    assert.are.same({ 3, 0 }, la.solve(tide.eye(3, { device = D.dev }), zeros(3, 0)):size())
    assert.are.same({ 0, 3, 2 }, la.solve(zeros(0, 3, 3), zeros(3, 2)):size())
  end)

  it("names the matrix that is singular, and changes nothing", function()
    local x = tide.eye(3, { device = D.dev }):expand(2, 2, 3, 3):clone()
    x[{ 2, 1, 2, 2 }] = 0
    local out = tide.ones(2, 2, 3, 3, { device = D.dev })
    for _, message in ipairs { D.raises("ValueError", la.inv, x, { out = out }),
      D.raises("ValueError", la.solve, x, tide.ones(3, 1, { device = D.dev })) } do
      assert.truthy(tostring(message):find("batch [2, 1] is singular", 1, true), message)
      assert.truthy(tostring(message):find("row 2", 1, true), message)
    end
    assert.are.equal(1, out:min():item())
    assert.truthy(tostring(D.raises("ValueError", la.inv, tide.zeros(2, 2, { device = D.dev }))):find "inv: x is singular")
    -- Large ones are done by halves, and each half by halves again: the row is one of the whole.
    for _, n in ipairs { 4, 33, 64, 100, 200 } do
      for _, row in ipairs { 1, n // 3 + 1, n // 2 + 1, n - 1, n } do
        for _, dtype in ipairs { "float32", "float64", "complex64" } do
          x = tide.eye(n, { device = D.dev, dtype = dtype })
          x[{ row, row }] = 0
          for _, f in ipairs { la.inv, function(a) return la.solve(a, x) end } do
            local message = tostring(D.raises("ValueError", f, x))
            assert.truthy(message:find("singular, got a zero on the diagonal of U in row " .. row .. ",", 1, true), n .. ": " .. message)
          end
          x[{ row, row }] = -1
          local message = tostring(D.raises("ValueError", la.cholesky, x))
          assert.truthy(message:find("leading minor of order " .. row .. " ", 1, true), n .. ": " .. message)
        end
      end
    end
  end)

  it("refuses what does not fit", function()
    local a = matrices("float32", 3, 3)
    D.raises("ShapeError", la.solve, tide.ones(2, 3, { device = D.dev }), a)
    D.raises("ShapeError", la.solve, a, tide.ones(2, 3, { device = D.dev }))
    D.raises("ShapeError", la.solve, a, tide.ones(2, { device = D.dev }))
    D.raises("ShapeError", la.solve, a:expand(2, 3, 3), tide.ones(3, 3, 1, { device = D.dev }))
    local many = tide.ones(1, 1, { device = D.dev }) -- libraries count in 32 bits
    for _, f in ipairs { la.inv, la.svdvals, la.det } do
      local e = D.raises("ShapeError", f, many:expand(1 << 32, 1, 1))
      assert.truthy(e.message:find("too many matrices, got 4294967296, expected at most 2147483647", 1, true))
    end
    for _, sides in ipairs { many:expand(1, 1 << 32), many:expand(1 << 20, 1, 1 << 12) } do
      assert.truthy(D.raises("ShapeError", la.solve, many, sides).message:find("too many right sides, got 4294967296", 1, true))
    end
    D.raises("ShapeError", la.triangular_solve, many, many:expand(1, 1 << 32))
    D.raises("DtypeError", la.solve, a, tide.ones(3, 3, { dtype = "float64", device = D.dev }))
    for _, f in ipairs { la.inv, la.det, la.slogdet, la.lu, la.qr, la.svd, la.svdvals, la.eigh, la.eig, la.matrix_exp } do
      D.raises("DtypeError", f, D.tensor({ { 1, 2 }, { 3, 4 } }, "int64"))
      D.raises("ShapeError", f, D.tensor { 1., 2. })
      D.raises("ArgumentError", f, 1)
    end
    for _, f in ipairs { la.inv, la.det, la.slogdet, la.eigh, la.eig, la.matrix_exp } do
      D.raises("ShapeError", f, tide.ones(2, 3, { device = D.dev }))
    end
  end)
end)

describe("linalg.triangular_solve", function()
  D.watch(before_each, after_each)

  of_all_dtypes("solves", squares, function(x, slack, a, what)
    local size = a:size()
    size[#size] = 3
    local b = tide.randn(size, { dtype = a.dtype, device = D.dev })
    local one = tide.eye(a:size(-1), { dtype = a.dtype, device = D.dev })
    if a:size(-1) > 20 then return end -- triangles of random numbers are nearly singular
    for _, upper in ipairs { true, false } do
      local t = upper and a:triu() or a:tril()
      near(b, t:matmul(la.triangular_solve(x, b, { upper = upper })), slack * 100, what)
      near(b.mT, la.triangular_solve(x, b.mT, { upper = upper, left = false }):matmul(t), slack * 100, what)
      t = (upper and a:triu(1) or a:tril(-1)) / 8 + one
      near(b, t:matmul(la.triangular_solve(x / 8, b, { upper = upper, unitriangular = true })), slack * 100, what)
    end
  end)

  it("solves large ones", function()
    for dtype, close in pairs(dtypes) do
      local t = tide.randn(150, 150, { dtype = dtype, device = D.dev }) / 150 + tide.eye(150, { dtype = dtype, device = D.dev })
      for _, upper in ipairs { true, false } do
        local part = upper and t:triu() or t:tril()
        for _, x in ipairs { t, t.mT:contiguous().mT } do
          for _, k in ipairs { 1, 90 } do
            local b = tide.randn(150, k, { dtype = dtype, device = D.dev })
            near(b, part:matmul(la.triangular_solve(x, b, { upper = upper })), close * 2000)
            near(b.mT, la.triangular_solve(x, b.mT, { upper = upper, left = false }):matmul(part), close * 2000)
          end
        end
      end
    end
  end)

  it("gives what is known, and broadcasts", function()
    local a = D.tensor { { 2., 1. }, { 7., 4. } }
    D.eq({ { 0.5 }, { 1 } }, la.triangular_solve(a, D.tensor { { 2. }, { 4. } }), 1e-6)
    D.eq({ { 1 }, { -0.75 } }, la.triangular_solve(a, D.tensor { { 2. }, { 4. } }, { upper = false }), 1e-6)
    assert.are.same({ 4, 2, 1 }, la.triangular_solve(a, tide.ones(4, 2, 1, { device = D.dev })):size())
    assert.are.same({ 4, 2, 1 }, la.triangular_solve(a:expand(4, 2, 2), tide.ones(2, 1, { device = D.dev })):size())
    D.raises("ShapeError", la.triangular_solve, a, tide.ones(3, 1, { device = D.dev }))
    D.raises("ShapeError", la.triangular_solve, a, tide.ones(2, { device = D.dev }))
  end)
end)

describe("linalg.det", function()
  D.watch(before_each, after_each)

  it("gives what is known", function()
    local x = D.tensor({ { { 1., 2. }, { 3., 4. } }, { { 0., 1. }, { 1., 0. } }, { { 1., 2. }, { 2., 4. } } }, "float64")
    D.eq({ -2, -1, 0 }, la.det(x), 1e-12)
    local sign, log = la.slogdet(x)
    D.eq({ -1, -1, 0 }, sign, 1e-12)
    D.eq({ math.log(2), 0, -math.huge }, log, 1e-12)
    D.eq(1, la.det(tide.zeros(0, 0, { device = D.dev })))
    assert.are.same({ 2 }, la.det(tide.zeros(2, 0, 0, { device = D.dev })):size())
  end)

  of_all_dtypes("is the product of eigenvalues", { { 1, 1 }, { 40, 3, 3 }, { 2, 17, 17 }, { 3, 33, 33 }, { 70, 70 } },
    function(x, slack, a, what)
      local w = la.eig(a)
      local sign, log = la.slogdet(x)
      local direction = w:sgn():prod(-1)
      near(w:abs():log():sum(-1), log, slack, what)
      near(a:is_complex() and direction or direction:real(), sign, slack, what)
      if a:size(-1) < 20 then near(sign * log:exp():to(sign.dtype) / la.det(x), sign:sgn() / sign, slack * 40, what) end
    end)

  it("trace sums the diagonal", function()
    D.eq({ 5, 0 }, la.trace(D.tensor({ { { 1, 2 }, { 3, 4 } }, { { 0, 1 }, { 1, 0 } } }, "int64")))
    D.eq(6, la.trace(D.tensor { { 1., 2., 3. }, { 4., 5., 6. } }))
    assert.are.same({ 2 }, la.trace(tide.zeros(2, 0, 3, { device = D.dev })):size())
    D.raises("ShapeError", la.trace, D.tensor { 1., 2. })
  end)

  of_all_dtypes("agrees with the product of eigenvalues", { { 4, 4 }, { 3, 5, 5 } }, function(x, slack, a, what)
    local w = la.eig(x)
    near(w:prod(-1), la.det(x):to(w.dtype), slack * 1000, what)
    local sign, log = la.slogdet(x)
    near(la.det(x), sign * log:exp(), slack * 1000, what)
  end)
end)

describe("linalg.lu and qr", function()
  D.watch(before_each, after_each)

  of_all_dtypes("are multiplied out again", oblongs, function(x, slack, a, what)
    local p, l, u = la.lu(x)
    local k = math.min(a:size(-1), a:size(-2))
    near(a, p:matmul(l):matmul(u), slack, what)
    near(l, l:tril(), 0, what)
    near(u, u:triu(), 0, what)
    near(tide.ones_like(l:diagonal(0, -2, -1)), l:diagonal(0, -2, -1), 0, what)
    D.eq(1, p:real():sum(-1):max())
    local q, r = la.qr(x)
    near(a, q:matmul(r), slack, what)
    near(r, r:triu(), 0, what)
    has_orthonormal_columns(q, slack, what)
    assert.are.same({ k, k }, { q:size(-1), r:size(-2) })
    q, r = la.qr(x, { mode = "complete" })
    near(a, q:matmul(r), slack, what)
    has_orthonormal_columns(q, slack, what)
    assert.are.same({ a:size(-2), a:size(-2) }, { q:size(-1), r:size(-2) })
    local none, same = la.qr(x, "r")
    assert.are.equal(0, none:numel())
    near(adjoint(a):matmul(a), adjoint(same):matmul(same), slack * 100, what)
  end)

  it("take nothing, and destinations", function()
    local q, r = la.qr(tide.zeros(2, 3, 0, { device = D.dev }), { mode = "complete" })
    D.eq({ { 1, 0, 0 }, { 0, 1, 0 }, { 0, 0, 1 } }, q[{ 1 }])
    assert.are.same({ 2, 3, 0 }, r:size())
    local p, l, u = la.lu(tide.zeros(2, 0, 3, { device = D.dev }))
    assert.are.same({ { 2, 0, 0 }, { 2, 0, 0 }, { 2, 0, 3 } }, { p:size(), l:size(), u:size() })
    local one, two = tide.empty(0, { device = D.dev }), tide.empty(0, { device = D.dev })
    local a = matrices("float32", 3, 3)
    local got = la.qr(a, { out = { one, two } })
    assert.are.equal(one, got)
    near(a, one:matmul(two), 1e-4)
    D.raises("ArgumentError", la.qr, a, "all")
  end)

  it("of several results look at the destinations before the work, which has another mistake here", function()
    local none = tide.ones(3, { device = D.dev }) -- no matrix
    for name, n in pairs { eig = 2, eigh = 2, lu = 3, qr = 2, slogdet = 2, svd = 3 } do
      local out = {}
      for i = 1, n do out[i] = tide.empty(0, { device = D.dev }) end
      D.raises("ShapeError", la[name], none, { out = out })
      out[n] = out[1]
      assert.matches("out%[" .. n .. "%]: got the tensor of out%[1%]", D.raises("ValueError", la[name], none, { out = out }).message)
      out[n] = 5
      assert.matches("out", D.raises("ArgumentError", la[name], none, { out = out }).message)
      out[n] = nil
      assert.matches("out: got .*, expected a table of a tensor for each result", D.raises("ArgumentError", la[name], none, { out = out }).message)
      assert.matches("out: got .*, expected a table of a tensor for each result", D.raises("ArgumentError", la[name], none, { out = out[1] }).message)
    end
  end)
end)

describe("linalg.svd and eigenvalues", function()
  D.watch(before_each, after_each)

  of_all_dtypes("svd", oblongs, function(x, slack, a, what)
    local m, n = a:size(-2), a:size(-1)
    local k = math.min(m, n)
    local u, s, vh = la.svd(x, { full_matrices = false })
    near(a, (u * s:unsqueeze(-2):to(u.dtype)):matmul(vh), slack, what)
    has_orthonormal_columns(u, slack, what)
    has_orthonormal_columns(adjoint(vh), slack, what)
    near(s, la.svdvals(x), slack, what)
    assert.is_true(s:min():item() >= 0)
    if k > 1 then assert.is_true(s:diff():max():item() <= 0) end
    local fu, fs, fvh = la.svd(x)
    has_orthonormal_columns(fu, slack, what)
    has_orthonormal_columns(adjoint(fvh), slack, what)
    assert.are.same({ m, n }, { fu:size(-1), fvh:size(-2) })
    near(a, (fu:narrow(-1, 1, k) * fs:unsqueeze(-2):to(u.dtype)):matmul(fvh:narrow(-2, 1, k)), slack, what)
  end)

  of_all_dtypes("eigh", squares, function(x, slack, a, what)
    local h = x + adjoint(x)
    for _, upper in ipairs { false, true } do
      local w, v = la.eigh(upper and h:triu() or h:tril(), { upper = upper })
      near(h:matmul(v), v * w:unsqueeze(-2):to(v.dtype), slack * 4, what)
      has_orthonormal_columns(v, slack, what)
      if w:size(-1) > 1 then assert.is_true(w:diff():min():item() >= 0) end
    end
  end)

  of_all_dtypes("eig", squares, function(x, slack, a, what)
    local w, v = la.eig(x)
    near(a:to(v.dtype):matmul(v), v * w:unsqueeze(-2), slack * 4, what)
    near(tide.ones_like(w:abs()), v:abs():square():sum(-2):sqrt(), slack, what)
  end)

  it("keep their accuracy where matrices are nearly singular", function()
    for dtype, close in pairs(dtypes) do
      local n = 60
      local q = la.qr(tide.randn(80, n, { dtype = dtype, device = D.dev }))
      local p = la.qr(tide.randn(n, n, { dtype = dtype, device = D.dev }))
      local s = tide.tensor(10, { dtype = "float64", device = D.dev }):pow(-tide.arange(n, { dtype = "float64", device = D.dev }) / 3)
      local x = (q * s:to(q.dtype)):matmul(p)
      for _, a in ipairs { x, x.mT, x * 0, x * 0 + 1 } do
        local u, values, vh = la.svd(a, false)
        near(a, (u * values:to(u.dtype)):matmul(vh), close * n, dtype)
        has_orthonormal_columns(u, close * n, dtype)
        has_orthonormal_columns(adjoint(vh), close * n, dtype)
        near(values, (values:sort(-1, { descending = true })), 0, dtype)
        near(values, la.svdvals(a), close * 60, dtype)
      end
      near(s:to(la.svdvals(x).dtype), la.svdvals(x), close * 10, dtype)
    end
  end)

  it("give what is known", function()
    D.eq({ 4, 3 }, la.svdvals(D.tensor { { 0., 3., 0. }, { -4., 0., 0. } }), 1e-5)
    local w = la.eigh(D.tensor { { 2., 1. }, { 1., 2. } })
    D.eq({ 1, 3 }, w, 1e-5)
    w = la.eig(D.tensor({ { 0., 1. }, { -1., 0. } }, "float64")) -- i and -i
    D.eq({ 0, 0 }, w:real(), 1e-12)
    D.eq({ 1, 1 }, w:imag():abs(), 1e-12)
    D.eq({ 5, 0 }, la.svdvals(D.tensor({ { 1., 2. }, { 2., 4. }, { 0., 0. } }, "float64")), 1e-12)
  end)

  it("take nothing", function()
    local u, s, vh = la.svd(tide.zeros(2, 3, 0, { device = D.dev }))
    assert.are.same({ { 2, 3, 3 }, { 2, 0 }, { 2, 0, 0 } }, { u:size(), s:size(), vh:size() })
    D.eq({ { 1, 0, 0 }, { 0, 1, 0 }, { 0, 0, 1 } }, u[{ 2 }])
    u, s, vh = la.svd(tide.zeros(0, 3, { device = D.dev }), { full_matrices = false })
    assert.are.same({ { 0, 0 }, { 0 }, { 0, 3 } }, { u:size(), s:size(), vh:size() })
    local w, v = la.eigh(tide.zeros(0, 3, 3, { device = D.dev }))
    assert.are.same({ { 0, 3 }, { 0, 3, 3 } }, { w:size(), v:size() })
    w, v = la.eig(tide.zeros(2, 0, 0, { device = D.dev }))
    assert.are.same({ { 2, 0 }, { 2, 0, 0 } }, { w:size(), v:size() })
  end)

  it("refuse what is not finite", function()
    for _, bad in ipairs { 0 / 0, math.huge } do
      local x = tide.eye(3, { device = D.dev })
      x[{ 2, 2 }] = bad
      for _, f in ipairs { la.svd, la.svdvals, la.eigh, la.eig } do
        assert.truthy(tostring(D.raises("ValueError", f, x)):find "finite")
      end
    end
  end)
end)

describe("linalg.pinv, matrix_rank and lstsq", function()
  D.watch(before_each, after_each)

  of_all_dtypes("pinv and lstsq", oblongs, function(x, slack, a, what)
    local p = la.pinv(x)
    near(a, a:matmul(p):matmul(a), slack * 10, what)
    near(p, p:matmul(a):matmul(p), slack * 10, what)
    local size = a:size()
    size[#size] = 2
    local b = tide.randn(size, { dtype = a.dtype, device = D.dev })
    for _, driver in ipairs { "gelsd", "gels" } do
      local found, left, rank, s = la.lstsq(x, b, { driver = driver })
      near(p:matmul(b), found, slack * 10, what)
      if driver == "gelsd" then
        near(la.svdvals(x), s, slack, what)
        assert.are.equal(math.min(a:size(-1), a:size(-2)), rank:min():item())
      end
      if a:size(-2) > a:size(-1) then
        near((a:matmul(found) - b):abs():square():sum(-2), left, slack * 10, what)
      else
        assert.are.equal(0, left:numel())
      end
    end
  end)

  it("count what is not nearly 0", function()
    local x = D.tensor({ { { 1., 0. }, { 0., 1e-3 } }, { { 1., 1. }, { 1., 1. } }, { { 0., 0. }, { 0., 0. } } }, "float64")
    D.eq({ 2, 1, 0 }, la.matrix_rank(x))
    D.eq({ 1, 1, 0 }, la.matrix_rank(x, { rtol = 0.01 }))
    D.eq({ 1, 1, 0 }, la.matrix_rank(x, { atol = 0.01 }))
    D.eq({ 1, 1, 0 }, la.matrix_rank(x, { atol = 0.01, hermitian = true }))
    D.eq({ 1, 0, 0 }, la.matrix_rank(x, { atol = D.tensor({ 0.5, 3, 1 }, "float64") }))
    assert.are.equal("tide.int64", tostring(la.matrix_rank(x).dtype))
    -- One limit given, the other is 0; none given, it is the dtype's.
    for _, dtype in ipairs { "float32", "float64" } do
      local small = dtype == "float32" and 1e-9 or 1e-17
      local z = D.tensor({ { 1., 0. }, { 0., small } }, dtype)
      for _, hermitian in ipairs { false, true } do
        for _, case in ipairs { { 1 }, { 2, atol = small / 10 }, { 1, atol = small * 10 }, { 2, rtol = small / 10 }, { 2, atol = 0 },
          { 1, atol = small / 10, rtol = small * 10 }, { 1, atol = small * 10, rtol = small / 10 } } do
          local how = { atol = case.atol, rtol = case.rtol, hermitian = hermitian }
          assert.are.equal(case[1], la.matrix_rank(z, how):item(), dtype)
          local last = la.pinv(z, how)[{ 2, 2 }]:item()
          assert.is_true(case[1] == 1 and last == 0 or math.abs(last * small - 1) < 1e-5, dtype)
        end
      end
    end
    D.eq({ { 0.25, 0.25 }, { 0.25, 0.25 } }, la.pinv(x[{ 2 }]), 1e-12)
    D.eq({ { 0.25, 0.25 }, { 0.25, 0.25 } }, la.pinv(x[{ 2 }], { hermitian = true }), 1e-12)
    D.eq({ { 1, 0 }, { 0, 0 } }, la.pinv(x[{ 1 }], { rtol = 0.01 }), 1e-12)
    assert.are.same({ 3, 0 }, la.pinv(tide.zeros(0, 3, { device = D.dev })):size())
    D.eq({ 0, 0 }, la.matrix_rank(tide.zeros(2, 0, 3, { device = D.dev })))
    D.raises("ArgumentError", la.pinv, x, { rtol = "small" })
  end)

  it("find the smallest of many solutions", function()
    local a = D.tensor({ { 1., 1. }, { 1., 1. } }, "float64")
    local x, left, rank = la.lstsq(a, D.tensor({ { 2. }, { 4. } }, "float64"))
    D.eq({ { 1.5 }, { 1.5 } }, x, 1e-12)
    assert.are.same({ 0, 1 }, { left:numel(), rank:item() })
    D.raises("ShapeError", la.lstsq, a, tide.ones(3, 1, { dtype = "float64", device = D.dev }))
    D.raises("ArgumentError", la.lstsq, a, a, { driver = "best" })
  end)
end)

describe("linalg.matrix_power and matrix_exp", function()
  D.watch(before_each, after_each)

  it("matrix_power multiplies as often", function()
    local x = D.tensor({ { 1., 1. }, { 0., 2. } }, "float64")
    D.eq({ { 1, 31 }, { 0, 32 } }, la.matrix_power(x, 5), 1e-12)
    D.eq({ { 1, 0 }, { 0, 1 } }, la.matrix_power(x, 0))
    D.eq({ { 1, 1 }, { 0, 2 } }, la.matrix_power(x, 1))
    D.eq({ { 1, -0.75 }, { 0, 0.25 } }, la.matrix_power(x, -2), 1e-12)
    D.eq({ { 1, 0 }, { 0, 1 } }, la.matrix_power(tide.eye(2, { device = D.dev }), math.mininteger))
    assert.are.same({ 3, 2, 2 }, la.matrix_power(x:expand(3, 2, 2), 0):size())
    D.raises("ValueError", la.matrix_power, tide.zeros(2, 2, { device = D.dev }), -1)
    D.raises("ShapeError", la.matrix_power, tide.zeros(2, 3, { device = D.dev }), 2)
  end)

  it("matrix_exp turns, and each matrix by itself", function()
    for _, dtype in ipairs { "float32", "float64" } do
      local close = dtype == "float32" and 1e-4 or 1e-12
      local angles = D.tensor({ 0, 1e-3, 0.5, 3, 100 }, dtype)
      local j = D.tensor({ { 0., 1. }, { -1., 0. } }, dtype)
      local r = la.matrix_exp(j * angles:view(5, 1, 1))
      near(angles:cos(), r:select(-1, 1):select(-1, 1), close)
      near(angles:sin(), r:select(-1, 2):select(-1, 1), close)
    end
    D.eq({ { 1, 5 }, { 0, 1 } }, la.matrix_exp(D.tensor({ { 0., 5. }, { 0., 0. } }, "float64")), 1e-12)
    assert.is_true(la.matrix_exp(D.tensor { { 0 / 0, 1. }, { 1., 1. } }):isnan():any():item())
    assert.are.same({ 0, 2, 2 }, la.matrix_exp(tide.zeros(0, 2, 2, { device = D.dev })):size())
  end)

  it("matrix_exp undoes itself", function()
    for dtype, close in pairs(dtypes) do
      local x = tide.randn(3, 6, 6, { dtype = dtype, device = D.dev })
      local product = la.matrix_exp(x):matmul(la.matrix_exp(-x))
      near(tide.eye(6, { dtype = dtype, device = D.dev }):expand(3, 6, 6), product, close * 1e4)
    end
  end)
end)

describe("linalg.norm and vector_norm", function()
  D.watch(before_each, after_each)

  it("measure vectors", function()
    local x = D.tensor({ { 3., -4. }, { 0., 0. } }, "float64")
    D.eq(5, la.norm(x), 1e-12)
    D.eq(7, la.vector_norm(x, 1), 1e-12)
    D.eq(3, la.vector_norm(x[1][1], 2, 1), 1e-12)
    D.eq({ 5, 0 }, la.vector_norm(x, 2, -1), 1e-12)
    D.eq({ { 4 }, { 0 } }, la.vector_norm(x, math.huge, 2, { keepdim = true }), 1e-12)
    D.eq({ 2, 0 }, la.vector_norm(x, 0, -1), 1e-12)
    D.eq({ 3, 0 }, la.norm(x, -math.huge, -1), 1e-12)
    D.eq((27 + 64) ^ (1 / 3), la.vector_norm(x, 3), 1e-12)
    D.eq({ 5, 0 }, la.norm(x, nil, -1), 1e-12)
    assert.are.equal("tide.float64", tostring(la.vector_norm(D.tensor({ 1, 2 }, "int64"), 2, { dtype = "float64" }).dtype))
    assert.are.equal("tide.float32", tostring(la.norm(D.tensor({ 3., 4. }, "complex64")).dtype))
    D.raises("DtypeError", la.vector_norm, D.tensor({ 1, 2 }, "int64"))
    D.raises("DtypeError", la.norm, D.tensor({ 1, 2 }, "int64"))
  end)

  it("measure matrices", function()
    local x = D.tensor({ { 1., -2., 0. }, { 3., 4., -1. } }, "float64")
    local s = la.svdvals(x)
    D.eq(31 ^ 0.5, la.norm(x, "fro"), 1e-12)
    D.eq(s:sum():item(), la.norm(x, "nuc"), 1e-12)
    D.eq(s:max():item(), la.norm(x, 2), 1e-12)
    D.eq(s:min():item(), la.norm(x, -2), 1e-12)
    D.eq(6, la.norm(x, 1), 1e-12)
    D.eq(1, la.norm(x, -1), 1e-12)
    D.eq(8, la.norm(x, math.huge), 1e-12)
    D.eq(3, la.norm(x, -math.huge), 1e-12)
    D.eq(8, la.norm(x, 1, { 2, 1 }), 1e-12)
    local many = x:expand(4, 2, 3):permute(2, 1, 3)
    for _, ord in ipairs { "fro", "nuc", 2, -2, 1, -1, math.huge, -math.huge } do
      near(la.norm(x, ord):expand(4), la.norm(many, ord, { 1, 3 }), 1e-12)
      near(la.norm(x, ord):view(1, 1, 1):expand(1, 4, 1), la.norm(many, ord, { 1, -1 }, { keepdim = true }), 1e-12)
      near(la.norm(x.mT, ord):expand(4), la.norm(many, ord, { 3, 1 }), 1e-12)
    end
    D.raises("ValueError", la.norm, x, 3)
    D.raises("ArgumentError", la.norm, x, "all")
    D.raises("ValueError", la.norm, x, "fro", 1)
    D.raises("ShapeError", la.norm, many, 1)
  end)
end)

-- Kernels of libraries read whole tiles: without a tail this ends the process.
describe("matrices at the end of a mapping", function()
  it("are given to libraries with memory behind them", function()
    D.simulate(1, [[
      local tide = require "tide"
      local la = tide.linalg
      for _, dtype in ipairs { "float32", "float64", "complex64", "complex128" } do
        local x = tide.randn({ 64, 64 }, { dtype = dtype, device = "cuda" }) -- whole pages, and nothing behind them
        for n = 1, 64, 3 do
          local y = x:narrow(2, 1, n):contiguous()
          la.svd(y) la.svd(y, { full_matrices = false }) la.qr(y) la.qr(y, "complete")
        end
        local s = x:matmul(x.mT:conj())
        la.eigh(s) la.eig(x) la.solve(x, x) la.inv(x) la.det(x) la.lu(x) la.cholesky(s + 10 * tide.eye(64, { dtype = dtype, device = "cuda" }))
        la.triangular_solve(s, x, { upper = true })
      end]], { TIDE_NO_CUDA_MEMORY_CACHING = "1" })
  end)
end)
