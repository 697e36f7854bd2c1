-- What tide.linalg makes of factors and solutions. Arguments have been checked by the rows (tensor/api/linalg.def); dims count
-- from 1. Matrices are the last two dims.

local M = ...
local solve, determinant, lu_factor, row_order = use("tensor/linalg.c", "solve", "determinant", "lu_factor", "row_order")
local factor_qr, solve_triangle, factor_svd = use("tensor/linalg.c", "factor_qr", "solve_triangle", "factor_svd")
local factor_eigh, factor_eig, epsilon = use("tensor/linalg.c", "factor_eigh", "factor_eig", "epsilon")
local eye, arange, full_like = use("tensor/compose.c", "builtin")("eye", "arange", "full_like")

local function identity(n, m, x) return eye(n, m, { dtype = x.dtype, device = x.device }) end

local function check_matrices(x, is_square)
  if x:dim() >= 2 and (not is_square or x:size(-1) == x:size(-2)) then return end
  fail("ShapeError", called() .. ": x is " .. (is_square and "not square" or "no batch of matrices") .. ", got " .. describe(x) ..
    ", expected [..., " .. (is_square and "n, n]" or "m, n]"))
end

local function check_float(x)
  if x:is_complex() or x:is_floating_point() then return end
  fail("DtypeError", called() .. ": dtype not accepted, got " .. sub(text(x.dtype), 6) .. ", expected a floating or complex dtype")
end

-- {==== Systems and LU

function M.solve(a, b, is_left)
  if is_left then return solve(a, b) end
  local vectors = a:dim() == b:dim() + 1
  for d = 1, vectors and b:dim() or 0 do vectors = vectors and a:size(d) == b:size(d) end
  if a:dim() < 2 or b:dim() < 2 or vectors then -- of the shape of one vector for each matrix they would be such with left=true
    fail("ShapeError", called() .. ": left=false takes matrices, [..., n, n] and [..., k, n]" .. (vectors and ", got vectors" or ""))
  end
  return solve(a.mT, b.mT).mT
end

function M.inv(x) return solve(x) end

function M.det(x) return determinant(x, false) end

function M.slogdet(x) return determinant(x, true) end

function M.trace(x)
  check_matrices(x)
  return x:diagonal(0, -2, -1):sum(-1)
end

function M.lu(x)
  check_matrices(x)
  local lu, pivots = lu_factor(x)
  local m, n = x:size(-2), x:size(-1)
  local k = m < n and m or n
  local order = row_order(pivots, m):unsqueeze(-2)
  local p = order:eq(arange(m, { device = x.device }):unsqueeze(-1)):to(x.dtype)
  return p, lu:narrow(-1, 1, k):tril(-1) + identity(m, k, x), lu:narrow(-2, 1, k):triu()
end

function M.qr(x, mode)
  if mode ~= "r" then return factor_qr(x, mode) end
  local r = factor_qr(x, mode)
  return identity(0, 0, x):view(0), r
end

function M.triangular_solve(a, b, is_upper, is_left, is_unit)
  return solve_triangle(a, b, is_upper, is_left, is_unit)
end

-- {==== Singular values and eigenvalues

function M.svd(x, is_full) return factor_svd(x, is_full) end

function M.svdvals(x) return (factor_svd(x)) end

function M.eigh(x, is_upper) return factor_eigh(x, is_upper, true) end

function M.eig(x) return factor_eig(x, true) end

local function adjoint(x) return x:is_complex() and x.mT:conj() or x.mT end

-- {==== What is made of singular values

-- The limit up to which values whose sizes are s count as 0: the larger one of atol and rtol times the largest.
local function limit(s, x, atol, rtol)
  local m, n = x:size(-2), x:size(-1)
  rtol = rtol or atol and 0 or epsilon(x) * (m > n and m or n)
  local least = s:amax(-1, { keepdim = true }) * (type(rtol) == "number" and rtol or rtol:unsqueeze(-1))
  if not atol then return least end
  return least:maximum(type(atol) == "number" and full_like(least, atol) or atol:unsqueeze(-1):to(least.dtype))
end

local function check_limit(value, name)
  if value ~= nil and type(value) ~= "number" and not device_of(value) then refuse(value, name, "a number or a tensor") end
end

function M.pinv(x, atol, rtol, is_hermitian)
  check_limit(atol, "atol")
  check_limit(rtol, "rtol")
  check_matrices(x, is_hermitian)
  local m, n = x:size(-2), x:size(-1)
  if m == 0 or n == 0 then return x.mT:clone() end
  local u, s, vh
  if is_hermitian then
    s, u = factor_eigh(x, false, true)
    vh = adjoint(u)
  else
    u, s, vh = factor_svd(x, false)
  end
  local size = s:abs()
  local inverse = s:reciprocal():where(size:gt(limit(size, x, atol, rtol)), 0):to(x.dtype)
  return (adjoint(vh) * inverse:unsqueeze(-2)):matmul(adjoint(u))
end

function M.matrix_rank(x, atol, rtol, is_hermitian)
  check_limit(atol, "atol")
  check_limit(rtol, "rtol")
  check_matrices(x, is_hermitian)
  local s = is_hermitian and factor_eigh(x, false, false):abs() or factor_svd(x)
  if s:size(-1) == 0 then return s:gt(0):sum(-1) end
  return s:gt(limit(s, x, atol, rtol)):sum(-1)
end

-- Columns of b against rows of a: batches broadcast by themselves.
local function check_sides(a, b)
  if b:dim() >= 2 and b:size(-2) == a:size(-2) then return end
  fail("ShapeError", called() .. ": b does not fit a, got " .. describe(b) .. " and " .. describe(a) .. ", expected [..., m, k] and [..., m, n]")
end

local function square_of(x) return x:is_complex() and x:abs():square() or x:square() end

function M.lstsq(a, b, rcond, driver)
  check_matrices(a)
  check_sides(a, b)
  local m, n = a:size(-2), a:size(-1)
  local none = identity(0, 0, a):abs():view(0)
  local x, rank, s
  if driver == "gels" then
    if m >= n then
      local q, r = factor_qr(a, "reduced")
      x = solve_triangle(r, adjoint(q):matmul(b), true, true, false)
    else
      local q, r = factor_qr(adjoint(a), "reduced")
      x = q:matmul(solve_triangle(adjoint(r), b, false, true, false))
    end
    rank, s = arange(0, { device = a.device }), none
  else
    local u, vh
    u, s, vh = factor_svd(a, false)
    if m == 0 or n == 0 then
      x = adjoint(vh):matmul(adjoint(u):matmul(b))
      rank = s:gt(0):sum(-1)
    else
      local is_counted = s:gt(limit(s, a, nil, rcond))
      rank = is_counted:sum(-1)
      local inverse = s:reciprocal():where(is_counted, 0):to(a.dtype)
      x = adjoint(vh):matmul(inverse:unsqueeze(-1) * adjoint(u):matmul(b))
    end
  end
  local left = none
  if m > n and (driver == "gels" or rank:numel() == 0 or rank:amin():item() == n) then
    left = square_of(a:matmul(x) - b):sum(-2)
  end
  return x, left, rank, s
end

-- {==== Powers

local function power(x, n) -- n counts without a sign: 2^63 is one, too
  local result
  while n ~= 0 do
    if n & 1 == 1 then result = result and result:matmul(x) or x end
    n = n >> 1
    if n ~= 0 then x = x:matmul(x) end
  end
  return result
end

function M.matrix_power(x, n)
  check_matrices(x, true)
  if n == 0 then return identity(x:size(-1), x:size(-1), x):expand(x:size()):clone() end
  if n < 0 then return power(solve(x), -n) end
  return n == 1 and x:clone() or power(x, n)
end

-- The Taylor polynomial of degree 16 in four pieces of x, x^2, x^3 and x^4.
-- Source: M. Paterson, L. Stockmeyer, "On the number of nonscalar multiplications necessary to evaluate polynomials",
-- SIAM J. Comput. 2 (1973).
local function taylor(x)
  local powers = { x }
  for k = 2, 4 do powers[k] = powers[k - 1]:matmul(x) end
  local one = identity(x:size(-1), x:size(-1), x)
  local factorial = { [0] = 1 }
  for k = 1, 16 do factorial[k] = factorial[k - 1] * k end
  local sum = powers[4] * (1 / factorial[16])
  for piece = 3, 0, -1 do
    local first = 4 * piece
    if piece < 3 then sum = sum:matmul(powers[4]) end
    for k = 1, 3 do sum = sum + powers[k] * (1 / factorial[first + k]) end
    sum = sum + one * (1 / factorial[first])
  end
  return sum
end

-- x is halved until its 1-norm is so small that the polynomial's error is one of rounding, and the result squared as
-- often; each matrix of a batch by itself.
-- Source: A. Al-Mohy, N. Higham, "Computing the action of the matrix exponential", SIAM J. Sci. Comput. 33 (2011), table
-- 3.1: the bounds for degree 15.
function M.matrix_exp(x)
  check_matrices(x, true)
  check_float(x)
  local n = x:size(-1)
  if x:numel() == 0 then return x:clone() end
  if n == 1 then return x:exp() end
  local size = x:abs():sum(-2):amax(-1):unsqueeze(-1):unsqueeze(-1)
  local steps = (size / (epsilon(x) < 1e-10 and 0.64 or 2.2)):log2():ceil():clamp(0, 1100)
  local result = taylor(x / (size * 0 + 2):pow(steps))
  local most = steps:amax():item()
  if most ~= most then most = 0 end
  for k = 1, most do result = result:matmul(result):where(steps:ge(k), result) end
  return result
end

-- {==== Norms

function M.vector_norm(x, ord, dim, is_kept, dtype)
  if dtype then x = x:to(dtype) end
  check_float(x)
  return x:norm(ord, dim, { keepdim = is_kept })
end

local function from_values(x, rows, columns, is_kept, fold)
  local s = fold(factor_svd(x:movedim({ rows, columns }, { -2, -1 })))
  if not is_kept then return s end
  return rows < columns and s:unsqueeze(rows):unsqueeze(columns) or s:unsqueeze(columns):unsqueeze(rows)
end

local matrix_norms = {
  fro = function(x, rows, columns, is_kept) return x:norm(2, { rows, columns }, { keepdim = is_kept }) end,
  nuc = function(x, rows, columns, is_kept)
    return from_values(x, rows, columns, is_kept, function(s) return s:sum(-1) end)
  end,
}

local function matrix_norm(x, ord, rows, columns, is_kept)
  if matrix_norms[ord] then return matrix_norms[ord](x, rows, columns, is_kept) end
  local size = type(ord) == "number" and (ord < 0 and -ord or ord)
  local extreme = size and (ord < 0 and "amin" or "amax")
  if size == 2 then
    return from_values(x, rows, columns, is_kept, function(s) return s[extreme](s, -1) end)
  end
  if size ~= 1 and size ~= 1 / 0 then
    reject("ValueError", "ord", text(ord), "'fro', 'nuc', math.huge, -math.huge, 1, -1, 2 or -2 for matrices")
  end
  local first, second = rows, columns -- what is summed over, and what the largest sum is of
  if size ~= 1 then first, second = columns, rows end
  local sums = x:abs():sum(first, { keepdim = true })
  local result = sums[extreme](sums, second, { keepdim = true })
  if is_kept then return result end
  return rows < columns and result:squeeze(columns):squeeze(rows) or result:squeeze(rows):squeeze(columns)
end

function M.norm(x, ord, dim, is_kept, dtype)
  if dtype then x = x:to(dtype) end
  check_float(x)
  if ord == nil then return x:norm(2, dim, { keepdim = is_kept }) end
  if type(ord) ~= "number" and ord ~= "fro" and ord ~= "nuc" then refuse(ord, "ord", "a number, 'fro' or 'nuc'") end
  local n = x:dim()
  local dims = type(dim) == "table" and dim or { dim }
  if dim == nil then
    if n ~= 1 and n ~= 2 then reject("ShapeError", "ord without dim", n .. " dims of x", "1 or 2") end
    dims = n == 1 and { 1 } or { 1, 2 }
  end
  if rawlen(dims) == 1 then
    if type(ord) ~= "number" then reject("ValueError", "ord", "'" .. ord .. "'", "a number for vectors") end
    return x:norm(ord, dims[1], { keepdim = is_kept })
  end
  if rawlen(dims) ~= 2 then reject("ValueError", "dim", rawlen(dims) .. " dims", "1 or 2 with ord") end
  local rows, columns = dims[1], dims[2]
  if rows < 0 then rows = rows + n + 1 end
  if columns < 0 then columns = columns + n + 1 end
  return matrix_norm(x, ord, rows, columns, is_kept)
end
