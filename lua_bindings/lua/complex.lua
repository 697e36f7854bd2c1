-- Functions of complex numbers that are made of others.

local real, add, sub, exp = builtin "real", builtin "add", builtin "sub", builtin "exp"
local log, sum, amax, where, isfinite, clone = builtin "log", builtin "sum", builtin "amax", builtin "where", builtin "isfinite", builtin "clone"
local narrow, logaddexp, copy_, reshape, numel = builtin "narrow", builtin "logaddexp", builtin "copy_", builtin "reshape", builtin "numel"

-- The greatest real part is taken out, so that no exponential overflows.
function complex_logsumexp(x, dim, keepdim)
  if numel(x) == 0 then return log(sum(x, dim, { keepdim = keepdim })) end
  local most = amax(real(x), dim, { keepdim = true })
  most = where(isfinite(most), most, 0)
  local total = log(sum(exp(sub(x, most)), dim, { keepdim = keepdim }))
  return add(total, reshape(most, sizes_of(total)))
end

-- Each element is joined with the one 1, 2, 4, ... before it.
function complex_logcumsumexp(x, dim)
  local y = clone(x)
  local n, step = sizes_of(x)[dim] or 1, 1
  while step < n do
    local rest = narrow(y, dim, step + 1, n - step)
    copy_(rest, logaddexp(rest, narrow(y, dim, 1, n - step)))
    step = 2 * step
  end
  return y
end
