-- Every elementwise operation of op.def: one row each, run over its dtypes, adversarial layouts, broadcasting, numbers, the
-- method, the in-place and the out= form. Expected values come from plain Lua arithmetic on what the tensors hold.

local tide = require "tide"
local D = require "spec.support.device"
local S = require "spec.support.special"

local nan, inf = 0 / 0, math.huge
local function isnan(v) return v ~= v end
local function truth(v) return v == true or (v ~= false and v ~= 0) end
local function bits(f)
  return function(a, b)
    if type(a) == "boolean" then return f(a and 1 or 0, b and 1 or 0) ~= 0 end
    return f(a, b)
  end
end

-- ---- the table: name of op.def = {f = reference, call = how the operation is called, x, y, z = values, only = dtypes} ----

local any = { -2.5, -1, -0.5, 0, 0.5, 1, 1.5, 2.25, 3, -3.75, 7, 10 }
local positive = { 0.25, 0.5, 1, 1.5, 2, 2.5, 3, 4, 5.5, 7, 8, 10 }
local unit = { -0.9, -0.75, -0.5, -0.25, -0.125, 0, 0.1, 0.25, 0.375, 0.5, 0.75, 0.95 }
local above_one = { 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4, 5, 6, 7, 10 }
local second = { 2, -1.5, 3, 0.5, -2, 1, 4, -0.25, 2.5, -3, 1.25, 6 }
local third = { 0.5, 0.25, 1, 2, -1, 3, 0.75, -0.5, 1.5, 2.5, -2, 0 }
local small = { 1, 2, 3, 0, 1, 2, 4, 1, 0, 3, 2, 1 }
local whole = { 3, -7, 12, 0, 5, -1, 100, 64, -33, 8, 2, 1 }

local ops = {
  neg = { f = function(x) return -x end },
  positive = { f = function(x) return x end },
  abs = { f = math.abs },
  sign = { f = function(x) return x > 0 and 1 or x < 0 and -1 or 0 end },
  sgn = { f = function(x) return x > 0 and 1 or x < 0 and -1 or 0 end },
  square = { f = function(x) return x * x end },
  reciprocal = { f = function(x) return 1 / x end, x = second },
  sqrt = { f = math.sqrt, x = positive },
  rsqrt = { f = function(x) return 1 / math.sqrt(x) end, x = positive },
  exp = { f = math.exp },
  exp2 = { f = function(x) return 2.0 ^ x end },
  expm1 = { f = function(x) return math.exp(x) - 1 end },
  log = { f = math.log, x = positive },
  log2 = { f = function(x) return math.log(x, 2) end, x = positive },
  log10 = { f = function(x) return math.log(x, 10) end, x = positive },
  log1p = { f = function(x) return math.log(1 + x) end, x = positive },
  sin = { f = math.sin },
  cos = { f = math.cos },
  tan = { f = math.tan, x = unit },
  asin = { f = math.asin, x = unit },
  acos = { f = math.acos, x = unit },
  atan = { f = math.atan },
  sinh = { f = S.sinh, x = unit },
  cosh = { f = S.cosh, x = unit },
  tanh = { f = S.tanh },
  asinh = { f = S.asinh },
  acosh = { f = S.acosh, x = above_one },
  atanh = { f = S.atanh, x = unit },
  floor = { f = math.floor },
  ceil = { f = math.ceil },
  round = { f = S.rint },
  round_decimals = { f = function(x) return S.rint(x * 10) / 10 end, x = { 0.26, 1.44, -2.36, 0, 5.5, 7, 8.11, 1.1, 2.2, 3.3, 4.4, -1.77 },
    call = function(x, o) return tide.round(x, o { decimals = 1 }) end, method = "round", only = "F", loose = 2 },
  trunc = { f = S.trunc },
  frac = { f = function(x) return x - S.trunc(x) end },
  isnan = { f = isnan, x = { nan, 1, inf, -inf, 0, 2, nan, 3, -1, 4, 5, 6 } },
  isinf = { f = function(x) return x == inf or x == -inf end, x = { nan, 1, inf, -inf, 0, 2, nan, 3, -1, 4, 5, 6 } },
  isfinite = { f = function(x) return x == x and x ~= inf and x ~= -inf end, x = { nan, 1, inf, -inf, 0, 2, nan, 3, -1, 4, 5, 6 } },
  logical_not = { f = function(x) return not truth(x) end, bool = true },
  bitwise_not = { f = function(x) if type(x) == "boolean" then return not x end return ~x end, bool = true, x = whole },
  nan_to_num = { f = function(x) return x ~= x and 9 or x == inf and 100 or x == -inf and -100 or x end,
    x = { nan, 1, inf, -inf, 0, 2, nan, 3, -1, 4, 5, 6 },
    call = function(x, o) return tide.nan_to_num(x, o { nan = 9, posinf = 100, neginf = -100 }) end },
  sigmoid = { f = function(x) return 1 / (1 + math.exp(-x)) end },
  relu = { f = function(x) return x > 0 and x or 0 end },
  gelu = { f = function(x) return 0.5 * x * (1 + S.erf(x * math.sqrt(0.5))) end, only = "F" },
  silu = { f = function(x) return x / (1 + math.exp(-x)) end, only = "F" },
  softplus = { f = function(x) return math.log(1 + math.exp(x)) end, only = "F" },
  leaky_relu = { f = function(x) return x > 0 and x or 0.25 * x end, only = "F",
    call = function(x, o) return tide.leaky_relu(x, 0.25, o()) end, args = { 0.25 } },
  elu = { f = function(x) return x > 0 and x or 2 * (math.exp(x) - 1) end, only = "F",
    call = function(x, o) return tide.elu(x, 2, o()) end, args = { 2 } },
  erf = { f = S.erf },
  erfc = { f = S.erfc, x = unit },
  erfinv = { f = function(x) -- solved by bisection
    local low, high = -6.0, 6.0
    for _ = 1, 200 do
      local middle = (low + high) / 2
      if S.erf(middle) < x then low = middle else high = middle end
    end
    return (low + high) / 2
  end, x = unit, loose = 4 },
  lgamma = { f = S.lgamma, x = positive, loose = 4 },
  digamma = { f = S.digamma, x = positive, loose = 4 },
  angle = { f = function(x) return x < 0 and math.pi or 0 end },
  logit = { f = function(x) return math.log(x / (1 - x)) end, x = { 0.1, 0.25, 0.5, 0.75, 0.9, 0.3, 0.2, 0.6, 0.125, 0.8, 0.4, 0.95 }, only = "F" },
  sinc = { f = function(x) return x == 0 and 1 or math.sin(math.pi * x) / (math.pi * x) end },
  i0 = { f = S.i0, loose = 2 },
  polygamma = { f = function(x) return S.polygamma(2, x) end, x = positive, loose = 4,
    call = function(x, o) return tide.polygamma(2, x, o()) end, args = { 2 } },
  deg2rad = { f = math.rad },
  rad2deg = { f = math.deg },
  signbit = { f = function(x) return x < 0 end },
  entr = { f = function(x) return x > 0 and -x * math.log(x) or x < 0 and -inf or 0 end, home = "special", no_inplace = true },
  ndtr = { f = function(x) return 0.5 * S.erfc(-x * math.sqrt(0.5)) end, home = "special", no_inplace = true, loose = 4 },
  ndtri = { f = function(p) -- solved by bisection
    local low, high = -9.0, 9.0
    for _ = 1, 200 do
      local middle = (low + high) / 2
      if S.erfc(-middle * math.sqrt(0.5)) < 2 * p then low = middle else high = middle end
    end
    return (low + high) / 2
  end, x = { 0.001, 0.1, 0.25, 0.5, 0.75, 0.9, 0.3, 0.6, 0.125, 0.8, 0.4, 0.99 }, only = "F", home = "special", no_inplace = true, loose = 4 },
  frexp_fraction = { part_of = "frexp" },
  frexp_exponent = { part_of = "frexp" },
  clamp = { f = function(x) return math.min(math.max(x, 1), 5) end,
    call = function(x, o) return tide.clamp(x, o { min = 1, max = 5 }) end },
  clamp_min = { f = function(x) return math.max(x, 1) end,
    call = function(x, o) return tide.clamp(x, o { min = 1 }) end, method = "clamp" },
  clamp_max = { f = function(x) return math.min(x, 2) end,
    call = function(x, o) return tide.clamp(x, o { max = 2 }) end, method = "clamp" },
  conj = { f = function(x) return x end },

  add = { f = function(a, b) return a + b end },
  add_scaled = { f = function(a, b) return a + 3 * b end, call = function(a, b, o) return tide.add(a, b, o { alpha = 3 }) end, method = "add" },
  sub = { f = function(a, b) return a - b end },
  mul = { f = function(a, b) return a * b end },
  div = { f = function(a, b) return a / b end },
  div_trunc = { f = function(a, b) return S.trunc(a / b) end, call = function(a, b, o) return tide.div(a, b, o { rounding_mode = "trunc" }) end, method = "div" },
  floor_divide = { f = function(a, b) return math.floor(a / b) end },
  remainder = { f = function(a, b) return a - b * math.floor(a / b) end },
  fmod = { f = function(a, b) return a - b * S.trunc(a / b) end },
  pow = { f = function(a, b) return a ^ b end, x = positive, y = small },
  atan2 = { f = math.atan },
  hypot = { f = function(a, b) return math.sqrt(a * a + b * b) end, only = "F" },
  logaddexp = { f = function(a, b) return math.log(math.exp(a) + math.exp(b)) end },
  logaddexp2 = { f = function(a, b) return math.log(2.0 ^ a + 2.0 ^ b, 2) end },
  xlogy = { f = function(a, b) return a == 0 and 0 or a * math.log(b) end, y = positive },
  copysign = { f = function(a, b) return b < 0 and -math.abs(a) or math.abs(a) end },
  heaviside = { f = function(a, b) return a < 0 and 0 or a == 0 and b or 1 end },
  nextafter = { f = S.nextafter, only = "W", loose = 0 },
  nextafter_half = { part_of = "nextafter" },
  nextafter_bfloat16 = { part_of = "nextafter" },
  ldexp = { f = function(a, b) return a * 2.0 ^ b end, y = small },
  gcd = { f = bits(S.gcd), bool = true, x = whole, y = small },
  lcm = { f = function(a, b) return S.gcd(a, b) == 0 and 0 or math.abs(a * b) // S.gcd(a, b) end, x = whole, y = small, only = "I" },
  maximum = { f = math.max },
  minimum = { f = math.min },
  fmax = { f = math.max },
  fmin = { f = math.min },
  eq = { f = function(a, b) return a == b end, y = { -2.5, 1, -0.5, 2, 3, 1, 0, 2.25, 4, 5, 7, 9 } },
  ne = { f = function(a, b) return a ~= b end, y = { -2.5, 1, -0.5, 2, 3, 1, 0, 2.25, 4, 5, 7, 9 } },
  lt = { f = function(a, b) return a < b end, y = { -2.5, 1, -0.5, 2, 3, 1, 0, 2.25, 4, 5, 7, 9 } },
  le = { f = function(a, b) return a <= b end, y = { -2.5, 1, -0.5, 2, 3, 1, 0, 2.25, 4, 5, 7, 9 } },
  gt = { f = function(a, b) return a > b end, y = { -2.5, 1, -0.5, 2, 3, 1, 0, 2.25, 4, 5, 7, 9 } },
  ge = { f = function(a, b) return a >= b end, y = { -2.5, 1, -0.5, 2, 3, 1, 0, 2.25, 4, 5, 7, 9 } },
  isclose = { f = function(a, b) return math.abs(a - b) <= 0.5 + 0.125 * math.abs(b) end,
    call = function(a, b, o) return tide.isclose(a, b, o { rtol = 0.125, atol = 0.5 }) end },
  logical_and = { f = function(a, b) return truth(a) and truth(b) end, bool = true, y = small },
  logical_or = { f = function(a, b) return truth(a) or truth(b) end, bool = true, y = small },
  logical_xor = { f = function(a, b) return truth(a) ~= truth(b) end, bool = true, y = small },
  bitwise_and = { f = bits(function(a, b) return a & b end), bool = true, x = whole, y = small },
  bitwise_or = { f = bits(function(a, b) return a | b end), bool = true, x = whole, y = small },
  bitwise_xor = { f = bits(function(a, b) return a ~ b end), bool = true, x = whole, y = small },
  bitwise_left_shift = { f = function(a, b) return a << b end, x = small, y = small, only = "I" },
  bitwise_right_shift = { f = function(a, b) return a // (1 << b) end, x = whole, y = small, only = "I" },

  addcmul = { f = function(a, b, c) return a + 2 * b * c end, call = function(a, b, c, o) return tide.addcmul(a, b, c, o { value = 2 }) end },
  addcdiv = { f = function(a, b, c) return a + 2 * b / c end, z = second, only = "F",
    call = function(a, b, c, o) return tide.addcdiv(a, b, c, o { value = 2 }) end },
  lerp = { f = function(a, b, c) return a + c * (b - a) end, only = "F" },
  where = { f = function(a, b, c) if truth(a) then return b end return c end, bool_first = true, no_inplace = true },
}

-- ---- what op.def says ----

local rule, operands, order = {}, {}, {}
for line in io.lines "core/include/tide/op.def" do
  local kind, name, r = line:match "^(%u+)%(([%w_]+), (%u+),"
  if kind and kind ~= "op" then
    rule[name] = r
    operands[name] = kind == "UNARY" and 1 or kind == "BINARY" and 2 or 3
    order[#order + 1] = name
  end
end

local function accepted(name)
  if ops[name].only == "W" then return { "float32" } end
  if ops[name].only == "I" then return { "uint8", "int16", "int32", "int64" } end
  if rule[name] == "BITS" then return { "bool", "uint8", "int16", "int32", "int64" } end
  if ops[name].only == "F" then return { "float16", "bfloat16", "float32", "float64" } end
  local list = { "uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64" }
  if ops[name].bool then table.insert(list, 1, "bool") end
  return list
end

local function result_dtype(name, dtype)
  local r, kind = rule[name], D.kind[dtype]
  if r == "TEST" or r == "COMPARE" or r == "EQUALC" or r == "CLOSE" or r == "LOGIC" then return "bool" end
  if (r == "FLOAT" or r == "EXACT" or r == "FLOATC" or r == "MATHC") and kind ~= "F" then return "float32" end
  return dtype
end

-- The values of a row as a {3, 4} tensor of the dtype: integers truncated, unsigned ones made positive, shifts untouched.
local function operand(values, dtype)
  local rows, kind = { {}, {}, {} }, D.kind[dtype]
  for i, v in ipairs(values) do
    if kind ~= "F" and (v ~= v or v == inf or v == -inf) then v = 0 end
    if kind == "B" then v = v ~= 0 and v ~= 1
    elseif kind == "U" or kind == "I" then
      v = math.tointeger(S.trunc(v))
      if kind == "U" then v = math.abs(v) end
    end
    rows[(i - 1) // 4 + 1][(i - 1) % 4 + 1] = v
  end
  return D.tensor(rows, dtype)
end

-- Integer divisors must not be zero.
local function divisor(x, name)
  local r = name:match "div" or name:match "mod" or name == "remainder"
  if not r or D.kind[D.dtype_name(x)] == "F" then return x end
  return tide.where(x:eq(0), tide.full_like(x, 3), x)
end

-- Integers come out of the references exact, or as floats when something divided: brought into the dtype's range.
local range = { uint8 = { 8, false }, int8 = { 8, true }, int16 = { 16, true }, int32 = { 32, true } }
local function stored(v, dtype)
  if D.kind[dtype] == "B" or D.kind[dtype] == "F" then return v end
  v = math.tointeger(S.trunc(v))
  local r = range[dtype]
  if not r then return v end
  v = v & ((1 << r[1]) - 1)
  if r[2] and v >= 1 << (r[1] - 1) then v = v - (1 << r[1]) end
  return v
end

local function as_numbers(t, dtype)
  if D.kind[dtype] == "F" then return D.map(function(v) return v + 0.0 end, t) end
  return t
end

local function expected(name, dtype, ...)
  local out, f = result_dtype(name, dtype), ops[name].f
  return D.map(function(...) return stored(f(...), out) end, ...)
end

local function tolerance(name, dtype)
  local out = result_dtype(name, dtype)
  if D.kind[out] ~= "F" then return 0 end
  local t = D.eps[out]
  if operands[name] == 3 then t = 4 * t end -- two roundings
  if name == "remainder" or name == "fmod" or name == "frac" then t = 4 * t end
  return t * (ops[name].loose or 1)
end

local function caller(name)
  return ops[name].call or function(...)
    local args = table.pack(...)
    local options = args[args.n]()
    args[args.n] = options
    local home = ops[name].home
    return (home and tide[home] or tide)[name](table.unpack(args, 1, options and args.n or args.n - 1))
  end
end

-- `o` merges the options of a row with those of the case.
local function with(extra)
  return function(own)
    if not own and not extra then return nil end
    local all = {}
    for k, v in pairs(own or {}) do all[k] = v end
    for k, v in pairs(extra or {}) do all[k] = v end
    return all
  end
end

local function inputs(name, dtype)
  local row = ops[name]
  local list = { operand(row.x or any, row.bool_first and "bool" or dtype) }
  if operands[name] >= 2 then list[2] = divisor(operand(row.y or second, dtype), name) end
  if operands[name] == 3 then list[3] = operand(row.z or third, dtype) end
  local values = {}
  for i, x in ipairs(list) do values[i] = as_numbers(x:totable(), D.dtype_name(x)) end
  return list, values
end

local function check_layouts(name, dtype)
  local list, values = inputs(name, dtype)
  local want, close, call = expected(name, dtype, table.unpack(values)), tolerance(name, dtype), caller(name)
  local layouts = {}
  for i, x in ipairs(list) do layouts[i] = D.layouts(x) end
  for k = 1, #layouts[1] do
    local args = {}
    for i = 1, #list do args[i] = layouts[i][(k + i - 2) % #layouts[i] + 1][2] end
    args[#args + 1] = with()
    local got = call(table.unpack(args))
    local what = name .. " " .. dtype .. " " .. layouts[1][k][1]
    assert.are.equal(result_dtype(name, dtype), D.dtype_name(got), what)
    assert.are.same({ 3, 4 }, got:size())
    D.eq(want, got, close, what)
    for i = 1, #list do layouts[i][(k + i - 2) % #layouts[i] + 1][3]() end
  end
end

local function check_out(name, dtype)
  local list, values = inputs(name, dtype)
  local want, close = expected(name, dtype, table.unpack(values)), tolerance(name, dtype)
  local out = tide.empty(4, 3, { dtype = result_dtype(name, dtype), device = D.dev }):t()
  list[#list + 1] = with { out = out }
  local got = caller(name)(table.unpack(list))
  assert.is_true(got == out, name .. ": out= is not what came back")
  D.eq(want, out, close, name .. " out=")
end

local function check_inplace(name, dtype)
  local row = ops[name]
  local list, values = inputs(name, dtype)
  local want, close = expected(name, dtype, table.unpack(values)), tolerance(name, dtype)
  for _, layout in ipairs(D.layouts(list[1])) do
    local x, args = layout[2], {}
    for i = 2, #list do args[#args + 1] = list[i] end
    for _, v in ipairs(row.args or {}) do args[#args + 1] = v end
    local method = x[(row.method or name) .. "_"]
    assert.is_truthy(method, "no method " .. (row.method or name) .. "_")
    local options
    if row.call then
      local all = { table.unpack(list) }
      all[#all + 1] = function(own)
        options = own
        return own
      end
      row.call(table.unpack(all))
    end
    if options then args[#args + 1] = options end
    local got = method(x, table.unpack(args))
    assert.is_true(got == x, name .. "_: does not return the tensor itself")
    D.eq(want, x, close, name .. "_ " .. dtype .. " " .. layout[1])
    layout[3]()
  end
end

local function check_broadcast(name, dtype)
  local row = ops[name]
  local a = operand(row.x or any, row.bool_first and "bool" or dtype)
  local b = divisor(operand(row.y or second, dtype), name)
  local av = as_numbers(a:totable(), D.dtype_name(a))
  local bv = as_numbers(b:totable(), dtype)
  local c = operands[name] == 3 and operand(row.z or third, dtype)
  local cv = c and as_numbers(c:totable(), dtype)
  local call, close = caller(name), tolerance(name, dtype)
  local function check(x, y, xv, yv, what)
    local args, lists = { x, y, c or nil }, { xv, yv, cv or nil }
    args[#args + 1] = with()
    D.eq(expected(name, dtype, table.unpack(lists)), call(table.unpack(args)), close, name .. " " .. what)
  end
  local function spread(v) return { v, v, v } end
  local function along(v) -- column {3, 1}
    return { { v[1], v[1], v[1], v[1] }, { v[2], v[2], v[2], v[2] }, { v[3], v[3], v[3], v[3] } }
  end
  check(a, b[1], av, spread(bv[1]), "with a row")
  check(a, b:narrow(2, 2, 1), av, along { bv[1][2], bv[2][2], bv[3][2] }, "with a column")
  check(a[2], b, spread(av[2]), bv, "of a row")
  local same_value = bv[1][1]
  check(a, b[{ 1, 1 }], av, along { same_value, same_value, same_value }, "with a 0-d tensor")
end

-- ---- the cases ----

describe("elementwise", function()
  D.watch(before_each, after_each)

  it("refuses a dtype in either place", function()
    local kinds = {}
    for k, dtype in ipairs { "bool", "int32", "float32", "complex64" } do kinds[k] = tide.ones(2, { dtype = dtype, device = D.dev }) end
    for _, name in ipairs(order) do
      local call = operands[name] == 2 and caller(name)
      for i = 1, call and #kinds or 0 do
        for j = 1, i - 1 do
          local there, back = pcall(call, kinds[i], kinds[j], with()), pcall(call, kinds[j], kinds[i], with())
          assert.are.equal(there, back, ("%s of %s and %s"):format(name, D.dtype_name(kinds[i]), D.dtype_name(kinds[j])))
        end
      end
    end
  end)

  it("has a row for every line of op.def", function()
    for _, name in ipairs(order) do assert.is_truthy(ops[name], name) end
    for name in pairs(ops) do assert.is_truthy(rule[name], name) end
  end)

  for _, name in ipairs(order) do
    if ops[name].part_of then goto continue end -- whose case is below
    it(name, function()
      for _, dtype in ipairs(accepted(name)) do check_layouts(name, dtype) end
      local main = rule[name] == "BITS" and "int32" or "float32"
      check_out(name, main)
      if operands[name] > 1 then check_broadcast(name, main) end
      local writable = result_dtype(name, main) == main and not ops[name].no_inplace
      if writable then check_inplace(name, main) end
      if writable and not ops[name].only and result_dtype(name, "int32") ~= "float32" then check_inplace(name, "int32") end
    end)

    it(name .. " of nothing and of one", function()
      local dtype = rule[name] == "BITS" and "int32" or "float32"
      local empty = tide.empty(0, 3, { dtype = dtype, device = D.dev })
      local args = {}
      for i = 1, operands[name] do args[i] = i == 1 and ops[name].bool_first and empty:bool() or empty end
      args[#args + 1] = with()
      assert.are.same({ 0, 3 }, caller(name)(table.unpack(args)):size())
      local list, values = inputs(name, dtype)
      for i = 1, #list do list[i], values[i] = list[i][{ 2, 3 }], values[i][2][3] end
      list[#list + 1] = with()
      local got = caller(name)(table.unpack(list))
      assert.are.equal(0, got:dim())
      D.eq(expected(name, dtype, table.unpack(values)), got:item(), tolerance(name, dtype), name)
    end)
    ::continue::
  end
end)

describe("operators", function()
  local a, b, i, j
  D.watch(before_each, after_each, function() a, b, i, j = nil, nil, nil, nil end)
  before_each(function()
    a, b = D.tensor { 7., -2., 3. }, D.tensor { 2., 4., -2. }
    i, j = D.tensor { 7, -7, 12 }, D.tensor { 2, 3, 5 }
  end)

  it("take tensors on both sides", function()
    D.eq({ 9, 2, 1 }, a + b)
    D.eq({ 5, -6, 5 }, a - b)
    D.eq({ 14, -8, -6 }, a * b)
    D.eq({ 3.5, -0.5, -1.5 }, a / b)
    D.eq({ 3, -1, -2 }, a // b)
    D.eq({ 1, 2, -1 }, a % b)
    D.eq({ 49, 16, 1 / 9 }, a ^ b, 1e-6)
    D.eq({ -7, 2, -3 }, -a)
    D.eq({ 7 & 2, -7 & 3, 12 & 5 }, i & j)
    D.eq({ 7 | 2, -7 | 3, 12 | 5 }, i | j)
    D.eq({ 7 ~ 2, -7 ~ 3, 12 ~ 5 }, i ~ j)
    D.eq({ ~7, ~-7, ~12 }, ~i)
    D.eq({ 28, -56, 384 }, i << j)
    D.eq({ 1, -1, 0 }, i >> j)
  end)

  it("take a number on either side", function()
    D.eq({ 8, -1, 4 }, a + 1)
    D.eq({ 8, -1, 4 }, 1 + a)
    D.eq({ -6, 3, -2 }, 1 - a)
    D.eq({ 14, -4, 6 }, 2 * a)
    D.eq({ 1 / 7, -0.5, 1 / 3 }, 1 / a, 1e-6)
    D.eq({ 128, 0.25, 8 }, 2 ^ a, 1e-6)
    D.eq({ 2, -3, 4 }, i // 3)
    D.eq({ 1, 2, 0 }, i % 3)
    D.eq({ 1, -7 & 1, 0 }, i & 1)
  end)

  it("ask for the same view with ==", function()
    local same = a
    assert.is_true(a == same)
    assert.is_true(a == a:view(3))
    assert.is_false(a == a:clone())
    assert.is_false(a == b)
  end)
end)

describe("edge values", function()
  D.watch(before_each, after_each)

  it("of maximum and fmax", function()
    local x, y = D.tensor { nan, 1., nan, 2. }, D.tensor { 1., nan, nan, 3. }
    D.eq({ nan, nan, nan, 3 }, tide.maximum(x, y))
    D.eq({ nan, nan, nan, 2 }, tide.minimum(x, y))
    D.eq({ 1, 1, nan, 3 }, tide.fmax(x, y))
    D.eq({ 1, 1, nan, 2 }, tide.fmin(x, y))
    D.eq({ nan, 1, nan, 2 }, x:relu())
    D.eq({ nan, 1, nan, 1.5 }, x:clamp { max = 1.5 })
    D.eq({ 0, 1, 0, 1 }, x:sign())
  end)

  it("of logaddexp", function()
    local x, y = D.tensor { inf, -inf, inf, -inf, nan, 1e4, -1e4, 3. }, D.tensor { inf, -inf, -inf, 2., 1., 1e4, -1e4, nan }
    D.eq({ inf, -inf, inf, 2, nan, 1e4 + math.log(2), -1e4 + math.log(2), nan }, tide.logaddexp(x, y), 1e-7)
    D.eq({ math.log(2) }, D.tensor({ 0 }, "int64"):logaddexp(0), 1e-6)
  end)

  it("of division", function()
    local x = D.tensor { 1., -1., 0. }
    D.eq({ inf, -inf, nan }, x / 0)
    D.eq({ -4, 3 }, D.tensor { -7, 7 } // 2)
    D.eq({ -3, 3 }, tide.div(D.tensor { -7, 7 }, 2, { rounding_mode = "trunc" }))
    D.eq({ -4, 3 }, tide.div(D.tensor { -7., 7. }, 2, { rounding_mode = "floor" }))
    D.eq({ 1, 1 }, D.tensor { -7, 7 } % 2)
    D.eq({ -1, 1 }, tide.fmod(D.tensor { -7, 7 }, 2))
    D.eq({ -1, 0 }, tide.remainder(D.tensor { 7, -8 }, -2))
  end)

  it("of rounding", function()
    D.eq({ -2, -2, -0., 0, 2, 2, 4 }, D.tensor { -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5 }:round())
    D.eq({ 1.23 }, tide.round(D.tensor({ 1.2345 }, "float64"), { decimals = 2 }), 1e-12)
    assert.are.equal("-0.0", tostring(D.tensor({ -0.4 }, "float64"):round():item()))
  end)

  it("of integers that wrap", function()
    D.eq({ 44 }, D.tensor({ 200 }, "uint8") + 100)
    D.eq({ -128 }, D.tensor({ 127 }, "int8") + 1)
    D.eq({ -128 }, D.tensor({ -128 }, "int8"):abs())
    D.eq({ math.mininteger }, D.tensor { math.maxinteger } + 1)
    D.eq({ 255 }, D.tensor({ 0 }, "uint8") - 1)
  end)

  it("of large integers, which a double would round", function()
    local big = 9007199254740993
    D.eq({ big + 2 }, D.tensor { big } + 2)
    assert.are.equal(big * 3, (D.tensor { big } * 3)[1]:item())
    assert.is_true(D.tensor { big }:eq(big):item())
    assert.is_false(D.tensor { big }:eq(big - 1):item())
    assert.are.equal(4052555153018976267, (D.tensor { 3 } ^ 39):item())
  end)

  it("of isclose and allclose", function()
    local x, y = D.tensor { 1., inf, nan }, D.tensor { 1.000001, inf, nan }
    D.eq({ true, true, false }, tide.isclose(x, y))
    D.eq({ true, true, true }, tide.isclose(x, y, { equal_nan = true }))
    assert.is_true(tide.allclose(x, y, { equal_nan = true }))
    assert.is_false(tide.allclose(x, y))
    assert.is_true(tide.equal(D.tensor { 1, 2 }, D.tensor { 1, 2 }))
    assert.is_false(tide.equal(D.tensor { 1, 2 }, D.tensor { 1, 3 }))
    assert.is_false(tide.equal(D.tensor { 1, 2 }, D.tensor { { 1, 2 } }))
  end)

  it("of clamp with one bound, and with none", function()
    D.eq({ 2, 2, 3 }, D.tensor { 1, 2, 3 }:clamp { min = 2 })
    D.eq({ 1, 2, 2 }, D.tensor { 1, 2, 3 }:clamp { max = 2 })
    D.raises("ArgumentError", tide.clamp, D.tensor { 1 }, {})
  end)

  it("in place on an operand that is also the other one", function()
    local x = D.tensor { 1., 2., 3. }
    x:add_(x)
    D.eq({ 2, 4, 6 }, x)
    x:mul_(x)
    D.eq({ 4, 16, 36 }, x)
  end)

  it("reads an input that the output overlaps before it writes, and refuses an output that overlaps itself", function()
    local x = tide.arange(10, { dtype = "float32", device = D.dev })
    tide.add(x:narrow(1, 1, 9), 10, { out = x:narrow(1, 2, 9) })
    D.eq({ 0, 10, 11, 12, 13, 14, 15, 16, 17, 18 }, x)
    D.raises("ValueError", function() tide.zeros(1, { device = D.dev }):expand(4):add_(1) end)
  end)

  it("of complex absolute values and angles, which are real", function()
    local z = tide.complex(D.tensor { 3., -1., 0. }, D.tensor { 4., 0., -2. })
    D.eq({ 5, 1, 2 }, z:abs())
    D.eq({ math.atan(4, 3), math.pi, -math.pi / 2 }, z:angle(), 1e-6)
    assert.are.equal(z:real().dtype, z:abs().dtype)
    assert.are.equal(tide.float64, tide.complex(D.tensor { 1. }:double(), D.tensor { 1. }:double()):abs().dtype)
    local ok, e = pcall(tide.abs, z, { out = z:real():narrow(1, 1, 2) })
    assert.is_true(not ok and e.kind == "ShapeError" and e.message:find "^abs:" ~= nil)
  end)

  it("of complex arithmetic", function()
    local x = tide.complex(D.tensor { 1., 2. }, D.tensor { 2., -1. })
    local y = tide.complex(D.tensor { 3., 0. }, D.tensor { -1., 1. })
    local function parts(z) return tide.view_as_real(z) end
    D.eq({ { 4, 1 }, { 2, 0 } }, parts(x + y))
    D.eq({ { -2, 3 }, { 2, -2 } }, parts(x - y))
    D.eq({ { 5, 5 }, { 1, 2 } }, parts(x * y), 1e-6)
    D.eq({ { 0.1, 0.7 }, { -1, -2 } }, parts(x / y), 1e-6)
    D.eq({ { 1, -2 }, { 2, 1 } }, parts(x:conj()))
    D.eq({ true, false }, x:eq(tide.complex(D.tensor { 1., 2. }, D.tensor { 2., 1. })))
    D.raises("DtypeError", tide.lt, x, y)
  end)

  it("of where with numbers", function()
    local c = D.tensor { true, false }
    D.eq({ 1, 5 }, tide.where(c, 1, D.tensor { 4, 5 }))
    D.eq({ 4, 0 }, D.tensor { 4, 5 }:where(c, 0))
  end)
end)

describe("apply_ and map_", function()
  it("call a function for each element on the cpu", function()
    local x = tide.tensor { { 1., 2. }, { 3., 4. } }:t()
    assert.is_true(x:apply_(function(v) return v * 10 end) == x)
    D.eq({ { 10, 30 }, { 20, 40 } }, x)
    x:map_(tide.tensor { { 1., 2. }, { 3., 4. } }, function(v, w) return v + w end)
    D.eq({ { 11, 32 }, { 23, 44 } }, x)
  end)
  if D.cuda then
    it("are an error on a GPU", function()
      D.raises("DeviceError", function() D.tensor({ 1. }):apply_(math.abs) end)
    end)
  end

  it("integers divided by a tensor that holds 0: an error, at once on the CPU, at the next wait on a device", function()
    for _, dtype in ipairs { "uint8", "int8", "int16", "int32", "int64" } do
      local on = { dtype = dtype, device = D.dev }
      local a, zero = tide.full({ 3, 2000 }, 7, on), tide.ones(3, 2000, on)
      zero[{ 2, 1999 }] = 0
      for _, name in ipairs { "floor_divide", "remainder", "fmod" } do
        for _, b in ipairs { zero, zero:t():contiguous():t(), zero[{ 2 }], zero[{ 2, 1999 }], zero[{ {}, { 1999 } }] } do
          local e = D.raises("ValueError", function()
            tide[name](a, b)
            D.sync()
          end)
          assert.matches("divided by zero", e.message)
        end
        D.raises("ValueError", function()
          tide[name](5, zero)
          D.sync()
        end)
        local kept = a:clone()
        D.raises("ValueError", function()
          kept[name .. "_"](kept, zero)
          D.sync()
        end)
        if not D.cuda then assert.is_true(kept:equal(a)) end
        tide[name](a, zero[1])
        tide[name](a:float(), zero)
        tide[name](tide.empty(0, on), tide.empty(0, on))
        D.sync()
      end
      D.raises("ValueError", function()
        tide.div(a, zero, { rounding_mode = "trunc" })
        D.sync()
      end)
      local out = tide.empty(0, on)
      D.raises("ValueError", function() return tide.floor_divide(a, tide.tensor(0, { dtype = dtype }), { out = out }) end)
      if not D.cuda then D.raises("ValueError", tide.floor_divide, a, zero, { out = out }) end
      assert.are.same({ 0 }, out:size())
    end
  end)

  it("complex numbers divided by 0, the square of bool, the sign of NaN", function()
    local function complex(t) return tide.complex(D.tensor(t[1]), D.tensor(t[2])) end
    for _, dtype in ipairs { "complex64", "complex128" } do
      local c = complex { { 1., 0., inf, nan, -2. }, { 2., 0., 0., 0., 0. } }:to(dtype)
      for _, q in ipairs { c / 0, c / tide.zeros(5, { dtype = dtype, device = D.dev }) } do
        D.eq({ inf, nan, inf, nan, -inf }, q:real())
        D.eq({ inf, nan, nan, nan, nan }, q:imag())
      end
      D.eq({ inf }, complex({ { 0. }, { 0. } }):to(dtype):reciprocal():real())
    end
    local s = D.tensor({ true, false }):square()
    assert.are.equal("int64", D.dtype_name(s))
    D.eq({ 1, 0 }, s)
    D.eq({ 0, 0, 1, -1 }, D.tensor({ nan, -0., inf, -3. }):sign())
  end)
end)

describe("denormal numbers", function()
  it("are what the exponential ends in", function()
    local x = D.tensor { -87.4, -100., -103., -103.9, -103.97, -103.98, -104., -1000., -math.huge }
    D.eq(x:double():exp(), x:exp(), 1.5e-45)
    D.eq({ 0, 0, 0, 0 }, x:narrow(1, 6, 4):exp(), 0)
    assert.is_true(x:narrow(1, 1, 5):exp():gt(0):all():item())
  end)

  it("never run on more threads than there is room for", function()
    local before = tide.get_num_threads()
    for n, want in pairs { [1] = 1, [7] = 7, [255] = 255, [256] = 256, [257] = 256, [1024] = 256 } do
      tide.set_num_threads(n)
      assert.are.equal(want, tide.get_num_threads())
    end
    tide.set_num_threads(before)
  end)

  it("are flushed where it is asked for, on every thread of the CPU", function()
    local threads = tide.get_num_threads()
    tide.set_num_threads(3)
    tide.set_flush_denormal(false)
    local x = tide.full({ 1 << 20 }, 1e-40, { dtype = "float32" })
    local n = x:numel()
    local can = tide.set_flush_denormal(true)
    local least = math.ult(0, 1) and 0x1p-1074
    local flushed, small = x * 1, least * 1
    assert.are.equal(can, tide.set_flush_denormal(false))
    local kept = x * 1
    tide.set_num_threads(threads)
    assert.are.equal(can and 0 or n, flushed:ne(0):sum():item())
    assert.are.equal(n, kept:ne(0):sum():item())
    assert.is_true(not can or small == 0)
    D.raises("ArgumentError", tide.set_flush_denormal, 1)
    D.raises("ArgumentError", tide.set_flush_denormal)
  end)
end)
