-- Reference values for the special functions, in plain Lua doubles: series and asymptotic expansions of the handbooks
-- (Abramowitz and Stegun 6.1, 6.3, 7.1), accurate to about 1e-13 on the ranges that the specs use.

local M = {}

function M.erf(x)
  if x ~= x then return x end
  if math.abs(x) > 6 then return x > 0 and 1 or -1 end
  if math.abs(x) < 2.5 then -- 7.1.6: all terms have one sign
    local term, sum, n = x, x, 0
    repeat
      n = n + 1
      term = term * 2 * x * x / (2 * n + 1)
      sum = sum + term
    until math.abs(term) < 1e-18 * math.abs(sum) or term == 0
    return 2 / math.sqrt(math.pi) * math.exp(-x * x) * sum
  end
  return x > 0 and 1 - M.erfc(x) or M.erfc(-x) - 1
end

function M.erfc(x)
  if x < 2.5 then return 1 - M.erf(x) end
  local f = 0 -- 7.1.14: a continued fraction, from its end
  for k = 60, 1, -1 do f = k / 2 / (x + f) end
  return math.exp(-x * x) / math.sqrt(math.pi) / (x + f)
end

function M.lgamma(x)
  if x <= 0 and x == math.floor(x) then return math.huge end
  if x < 0.5 then return math.log(math.abs(math.pi / math.sin(math.pi * x))) - M.lgamma(1 - x) end
  local shift = 0
  while x < 12 do
    shift = shift - math.log(x)
    x = x + 1
  end
  local z = 1 / (x * x)
  local series = (1 / 12 - z * (1 / 360 - z * (1 / 1260 - z * (1 / 1680 - z / 1188)))) / x
  return shift + (x - 0.5) * math.log(x) - x + 0.5 * math.log(2 * math.pi) + series
end

function M.digamma(x)
  if x < 0.5 then return M.digamma(1 - x) - math.pi / math.tan(math.pi * x) end
  local shift = 0
  while x < 12 do
    shift = shift - 1 / x
    x = x + 1
  end
  local z = 1 / (x * x)
  return shift + math.log(x) - 0.5 / x - z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z / 132))))
end

function M.i0(x) -- 9.6.12; all terms are positive
  local term, sum, k = 1, 1, 0
  repeat
    k = k + 1
    term = term * x * x / 4 / (k * k)
    sum = sum + term
  until term < 1e-18 * sum
  return sum
end

function M.polygamma(n, x) -- 6.4.10, n > 0: the tail by its integral and two more of Euler and Maclaurin's terms
  local sum, s, factorial = 0, n + 1, 1
  for k = 0, 999 do sum = sum + (x + k) ^ -s end
  local y = x + 1000
  sum = sum + y ^ (1 - s) / (s - 1) + y ^ -s / 2 + s * y ^ (-s - 1) / 12
  for k = 2, n do factorial = factorial * k end
  return (n % 2 == 0 and -1 or 1) * factorial * sum
end

-- Of float32.
function M.nextafter(x, y)
  if x ~= x or y ~= y then return x + y end
  if x == y then return y end
  if x == 0 then return y > 0 and 0x1p-149 or -0x1p-149 end
  local bits = string.unpack("i4", string.pack("f", x))
  bits = bits + ((x < y) == (x > 0) and 1 or -1)
  return (string.unpack("f", string.pack("i4", bits)))
end

function M.gcd(a, b)
  while b ~= 0 do a, b = b, a % b end
  return math.abs(a)
end

function M.rint(x)
  if x ~= x or math.abs(x) >= 2 ^ 52 then return x end
  local low = math.floor(x)
  local d = x - low
  if d > 0.5 or (d == 0.5 and low % 2 == 1) then return low + 1.0 end
  return low + 0.0
end

function M.trunc(x) return x < 0 and math.ceil(x) or math.floor(x) end
function M.sinh(x) return (math.exp(x) - math.exp(-x)) / 2 end
function M.cosh(x) return (math.exp(x) + math.exp(-x)) / 2 end
function M.tanh(x) return 1 - 2 / (math.exp(2 * x) + 1) end
function M.asinh(x) return x < 0 and -M.asinh(-x) or math.log(x + math.sqrt(x * x + 1)) end
function M.acosh(x) return math.log(x + math.sqrt(x * x - 1)) end
function M.atanh(x) return 0.5 * math.log((1 + x) / (1 - x)) end

return M
