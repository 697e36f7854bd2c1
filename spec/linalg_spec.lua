-- Linear algebra by libraries (API.md T134): results multiplied out again, in adversarial layouts; what is refused.

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

describe("linalg.cholesky", function()
  D.watch(before_each, after_each)

  local ok, why = pcall(tide.linalg.cholesky, tide.eye(1, { device = D.dev }))
  if not ok and tostring(why):find "was not found" then
    it("needs LAPACK", function() return pending(tostring(why)) end)
    return
  end

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
