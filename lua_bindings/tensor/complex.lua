-- Functions of complex numbers that are made of those of real ones, or of others of complex numbers.

local M = ...
local builtin, sizes_of, dtype_of = use("tensor/compose.c", "builtin", "sizes_of", "dtype_of")
local real, imag, complex, add, sub, exp, log, sum, amax = builtin("real", "imag", "complex", "add", "sub", "exp", "log", "sum", "amax")
local where, isfinite, clone, narrow, logaddexp, copy_ = builtin("where", "isfinite", "clone", "narrow", "logaddexp", "copy_")
local reshape, numel = builtin("reshape", "numel")

-- The greatest real part is taken out, so that no exponential overflows.
function M.logsumexp(x, dim, keepdim)
  if numel(x) == 0 then return log(sum(x, dim, { keepdim = keepdim })) end
  local most = amax(real(x), dim, { keepdim = true })
  most = where(isfinite(most), most, 0)
  local total = log(sum(exp(sub(x, most)), dim, { keepdim = keepdim }))
  return add(total, reshape(most, sizes_of(total)))
end

-- Each element is joined with the one 1, 2, 4, ... before it.
function M.logcumsumexp(x, dim)
  local y = clone(x)
  local n, step = sizes_of(x)[dim] or 1, 1
  while step < n do
    local rest = narrow(y, dim, step + 1, n - step)
    copy_(rest, logaddexp(rest, narrow(y, dim, 1, n - step)))
    step = 2 * step
  end
  return y
end

-- (a + ib) * (u + iv) is a * u - b * v + i(a * v + b * u).
local function convolve(x, w, bias, options)
  local name, a, b = called(), real(x), imag(x)
  local f, dtype, parts = builtin(name), (dtype_of(x)), (dtype_of(a))
  for what, y in next, { w = w, bias = bias } do
    local got = (dtype_of(y))
    if got ~= dtype and (what == "bias" or got ~= parts) then
      fail("DtypeError", name .. ": dtypes differ, got " .. got .. " for " .. what .. ", expected that of x, " .. dtype)
    end
  end
  local c, d = bias and real(bias), bias and imag(bias)
  if dtype_of(w) == parts then return complex(f(a, w, c, options), f(b, w, d, options)) end
  local u, v = real(w), imag(w)
  return complex(sub(f(a, u, c, options), f(b, v, nil, options)), add(f(a, v, d, options), f(b, u, nil, options)))
end

function M.conv(x, w, bias, stride, padding, dilation, groups)
  return convolve(x, w, bias, { stride = stride, padding = padding, dilation = dilation, groups = groups })
end

function M.conv_transpose(x, w, bias, stride, padding, output_padding, groups, dilation)
  return convolve(x, w, bias,
    { stride = stride, padding = padding, output_padding = output_padding, groups = groups, dilation = dilation })
end
