-- From the expressions of a kernel's typed tree to their text (text.lua has the rest).
--
-- Expressions become expressions, lazily evaluated as they are in Lua. Integers that are `narrow` are C's int, all others are
-- 64 bits wide. An element is read by a call that tests its indexes, or, where these are known to lie inside, as an array's.
--
-- w is the writer of a text (text.lua).
--
-- Invariant: what was not shown to lie inside is tested.

local M = ...
local storage = {
  bool = "tk_bool", uint8 = "unsigned char", int8 = "signed char", int16 = "short", int32 = "int", int64 = "long long",
  float16 = "tk_half", bfloat16 = "tk_bf16", float32 = "float", float64 = "double",
}
local kinds = { i = "tide_i", f = "tide_r", b = "bool" }

local write

local function integer_text(value)
  if type(value) == "string" then return "(tide_i)" .. value .. "ull" end
  if value < 0 then return "(-" .. (value == -value and "9223372036854775807ll - 1" or literal(-value) .. "ll") .. ")" end
  return literal(value) .. (value > 2147483647 and "ll" or "")
end

local function float_text(w, value, kind)
  local cast = "(" .. (kind or "tide_r") .. ")"
  if value ~= value then return cast .. "NAN_" end
  if value == 1 / 0 then return cast .. "INF_" end
  if value == -1 / 0 then return "(-" .. cast .. "INF_)" end
  local text = literal(value)
  if not (find(text, ".") or find(text, "e")) then text = text .. ".0" end
  text = text .. ((kind == "double" or w.typed.float == "float64") and "" or "f")
  return (value < 0 or 1 / value < 0) and "(" .. text .. ")" or text
end

local function place_of(w, e)
  w.accesses = w.accesses + 1
  if e.shared then
    local sizes, name = w.typed.shared[e.shared].sizes, "sh" .. e.shared
    return name, sizes
  end
  if e.constant then return "c" .. e.constant, w.typed.constants[e.constant].sizes end
  return "p" .. e.tensor
end

-- The size and the stride of an element's dimension d of n.
local function extent(w, e, sizes, d, n)
  if not sizes then
    local of = e.tensor .. "_" .. d
    return "n" .. of, w.unit and d == n and "(tide_x)1" or "s" .. of
  end
  local step = 1
  for k = d + 1, n do step = step * sizes[k] end
  return "(tide_x)" .. sizes[d], "(tide_x)" .. step
end

-- The arguments that name an element: slots, site, address, then index, size and stride of each dim.
local function place_text(w, e)
  local name, sizes = place_of(w, e)
  local list, n = { "s, " .. (e.site and e.site - 1 or 0) .. ", " .. name }, #e.index
  w.ndims[n] = true
  for d = 1, n do list[#list + 1] = write(w, e.index[d]) .. ", " .. join({ extent(w, e, sizes, d, n) }, ", ") end
  return join(list, ", "), n
end

-- An element whose indexes lie inside. It is an expression without calls, as compilers take their time for each of them.
local function element_text(w, e)
  local name, sizes = place_of(w, e)
  local list, n = {}, #e.index
  for d = 1, n do
    local _, stride = extent(w, e, sizes, d, n)
    list[d] = "((tide_x)" .. write(w, e.index[d]) .. " - 1)" .. (stride == "(tide_x)1" and "" or " * " .. stride)
  end
  return name .. "[" .. join(list, " + ") .. "]"
end

local function dtype_of(w, e)
  if e.shared or e.constant then return w.typed[e.shared and "shared" or "constants"][e.shared or e.constant].dtype end
  return w.typed.operands[e.tensor].dtype
end

-- What needs more than a cast to be read or written.
local packed = { bool = true, float16 = true, bfloat16 = true }

-- Need it be tested?
local function tests(w, e) return w.check and not (w.fast and w.inside[e] or w.sure[e]) end

-- The function that tests an element's indexes: tk_at, or tk_load which reads as well.
local function tested(w, kind, n) return "tk_" .. w.apart .. kind .. n end

local narrow_signs = { add = " + ", sub = " - ", mul = " * " }
local float_signs = { add = " + ", sub = " - ", mul = " * ", div = " / " }
local compare_signs = { eq = " == ", ne = " != ", lt = " < ", le = " <= ", gt = " > ", ge = " >= " }
local bit_signs = { band = " & ", bor = " | ", bxor = " ^ " }
local float_calls = { abs = "TIDE_M(fabs)", min = "tk_fmin", max = "tk_fmax" } -- the others are those of C
local powers_of_2 = { [1.0] = true, [2.0] = true, [4.0] = true, [8.0] = true, [16.0] = true }
local few_factors = { [3.0] = true, [4.0] = true, [5.0] = true, [6.0] = true, [7.0] = true, [8.0] = true }
local float_functions = { idiv = "tk_fdiv", mod = "tk_fmodulo", pow = "tk_pow" }

local function wide(w, e) return "(tide_i)" .. write(w, e) end

local function pair(w, e, sign) return "(" .. write(w, e.a) .. sign .. write(w, e.b) .. ")" end

-- Both as int where both are narrow, else both of 64 bits.
local function call_pair(w, name, a, b)
  if a.narrow and b.narrow then return name .. "((int)" .. write(w, a) .. ", (int)" .. write(w, b) .. ")" end
  return name .. "(" .. wide(w, a) .. ", " .. wide(w, b) .. ")"
end

local function arithmetic(w, e)
  local op = e.op
  if e.type == "f" then
    local fast = not w.host and w.typed.float ~= "float64" -- as exact as what CUDA has for it: 4 units in the last place
    if fast and e.by_inverse then return "(" .. write(w, e.a) .. " * (1.0f / " .. write(w, e.b) .. "))" end
    if fast and op == "pow" and e.b.op == "const" and few_factors[e.b.value] then return "tk_power<" .. integer_text(e.b.value // 1 | 0) .. ">(" .. write(w, e.a) .. ")" end
    if float_signs[op] then return pair(w, e, float_signs[op]) end
    local exact = op == "mod" and e.b.op == "const" and powers_of_2[e.b.value] and "_2" or "" -- a quotient that is rounded at most below 1
    return float_functions[op] .. exact .. "(" .. write(w, e.a) .. ", " .. write(w, e.b) .. ")"
  end
  if e.narrow and e.a.narrow and e.b.narrow and narrow_signs[op] then return pair(w, e, narrow_signs[op]) end
  local cast = e.narrow and "(int)" or ""
  if op == "idiv" or op == "mod" then
    if w.wraps[e] then return "tk_wrap(" .. write(w, e.a) .. ", " .. write(w, e.b) .. ")" end
    local name = op == "idiv" and "tk_div_floor" or "tk_remainder"
    if e.b.op == "const" and e.b.value ~= 0 then return cast .. call_pair(w, name, e.a, e.b) end
    local short = e.narrow and e.a.narrow and e.b.narrow
    local a, b = short and "(int)" .. write(w, e.a) or wide(w, e.a), short and "(int)" .. write(w, e.b) or wide(w, e.b)
    return cast .. (op == "idiv" and "tk_idiv" or "tk_" .. w.apart .. "imod") .. "(s, " .. (e.site - 1) .. ", " .. a .. ", " .. b .. ")"
  end
  return cast .. "tk_" .. op .. "(" .. wide(w, e.a) .. ", " .. wide(w, e.b) .. ")"
end

-- An integer beside a float, exactly: tk_order gives -1, 0, 1, or 2 beside nan.
local function compare_mixed(w, e)
  local a, b, op = e.a, e.b, e.op
  local i, f = a.type == "i" and a or b, a.type == "i" and b or a
  if i.lo >= -16777216 and i.hi <= 16777216 then return "((tide_r)" .. write(w, a) .. compare_signs[op] .. "(tide_r)" .. write(w, b) .. ")" end
  if not i.narrow and (op == "eq" or op == "ne") then return (op == "eq" and "tk_same(" or "!tk_same(") .. wide(w, i) .. ", " .. write(w, f) .. ")" end
  if a.narrow or b.narrow then return "((double)" .. write(w, a) .. compare_signs[op] .. "(double)" .. write(w, b) .. ")" end
  if a.type == "i" then
    local order = "tk_order(" .. write(w, a) .. ", " .. write(w, b) .. ")"
    if op == "gt" or op == "ge" then return "(" .. order .. " != 2 && " .. order .. (op == "gt" and " > 0)" or " >= 0)") end
    return "(" .. order .. compare_signs[op] .. "0)"
  end
  local turned = { lt = "gt", le = "ge", gt = "lt", ge = "le", eq = "eq", ne = "ne" }
  return compare_mixed(w, { op = turned[op], a = b, b = a })
end

local function random_text(w, e)
  local args, words, first = e.args, "tk_draw(", e.op == "integer" and 4 or 2
  w.random = true
  local seed = wide(w, args[1])
  words = words .. seed .. ", " .. (args[first] and wide(w, args[first]) or "0") .. ", " .. (args[first + 1] and wide(w, args[first + 1]) or "0") .. ")"
  for k = first + 2, #args do words = "tk_more(" .. words .. ", " .. seed .. ", " .. wide(w, args[k]) .. ")" end
  if e.op == "integer" then return "tk_integer(" .. words .. ", " .. wide(w, args[2]) .. ", " .. wide(w, args[3]) .. ")" end
  return "TIDE_R(tk_" .. e.op .. ")(" .. words .. ")"
end

local writers = {
  const = function(w, e)
    if e.type == "b" then return e.value and "true" or "false" end
    return e.type == "i" and integer_text(e.value) or float_text(w, e.value)
  end,
  var = function(w, e) return "v" .. e.n end,
  place = function(w, e) return "i" .. e.dim end,
  grid = function(w, e) return (e.narrow and "(int)" or "") .. "s[" .. (e.dim - 1) .. "]" end,
  size = function(w, e) return (e.narrow and "(int)" or "(tide_i)") .. "n" .. e.tensor .. "_" .. e.dim end,
  number = function(w, e) return "a" .. e.operand end,
  load = function(w, e)
    local kind, kept, cast = kinds[e.type], dtype_of(w, e), e.narrow and "(int)" or ""
    if tests(w, e) then
      local place, n = place_text(w, e)
      return cast .. tested(w, "load", n) .. "<" .. kind .. ">(" .. place .. ")"
    end
    if packed[kept] then return cast .. "tk_as<" .. kind .. ", " .. storage[kept] .. ">::get(" .. element_text(w, e) .. ")" end
    return "(" .. cast .. "(" .. kind .. ")" .. element_text(w, e) .. ")"
  end,
  thread = function(w, e) return "t" .. e.dim end,
  block = function(w, e) return "b" .. e.dim end,
  block_size = function(w, e) return literal(w.block[e.dim]) end,
  neg = function(w, e)
    if e.type == "f" or e.narrow and e.a.narrow then return "(-" .. write(w, e.a) .. ")" end
    return "tk_neg(" .. wide(w, e.a) .. ")"
  end,
  bnot = function(w, e) return "(~" .. write(w, e.a) .. ")" end,
  ["not"] = function(w, e) return "(!" .. write(w, e.a) .. ")" end,
  ["and"] = function(w, e) return pair(w, e, " && ") end,
  ["or"] = function(w, e) return pair(w, e, " || ") end,
  choose = function(w, e)
    local kind = kinds[e.type]
    if e.narrow then kind = "int" end
    return "(" .. write(w, e.cond) .. " ? (" .. kind .. ")" .. write(w, e.yes) .. " : (" .. kind .. ")" .. write(w, e.no) .. ")"
  end,
  float = function(w, e) return "(tide_r)" .. write(w, e.a) end,
  floor_int = function(w, e) return (e.narrow and "(int)" or "") .. "tk_to_int(TIDE_M(floor)(" .. write(w, e.a) .. "))" end,
  call = function(w, e)
    local args = e.args
    if e.args[1].type == "i" then
      local name, cast = "tk_" .. e.fn, e.narrow and "(int)" or ""
      if #args == 1 then return cast .. name .. "(" .. wide(w, args[1]) .. ")" end
      if e.fn == "ult" then return name .. "(" .. wide(w, args[1]) .. ", " .. wide(w, args[2]) .. ")" end
      return cast .. call_pair(w, name, args[1], args[2])
    end
    local list = {}
    for k = 1, #args do list[k] = write(w, args[k]) end
    return (float_calls[e.fn] or "TIDE_M(" .. e.fn .. ")") .. "(" .. join(list, ", ") .. ")"
  end,
  uniform = random_text, normal = random_text, integer = random_text,
}
for op in next, { add = 1, sub = 1, mul = 1, div = 1, idiv = 1, mod = 1, pow = 1, shl = 1, shr = 1 } do writers[op] = arithmetic end

-- The lowest 32 bits of an integer.
local function low(w, e)
  local sign = bit_signs[e.op] or narrow_signs[e.op]
  return sign and "(" .. low(w, e.a) .. sign .. low(w, e.b) .. ")" or "(unsigned)" .. write(w, e)
end

for op, sign in next, bit_signs do
  writers[op] = function(w, e)
    if w.fast and w.inside[e] then return "(int)" .. low(w, e) end
    return (e.narrow and "(int)" or "") .. pair(w, e, sign)
  end
end
for op, sign in next, compare_signs do
  writers[op] = function(w, e)
    if w.decided[e] then return "true" end
    if e.a.type ~= e.b.type then return compare_mixed(w, e) end
    return pair(w, e, sign)
  end
end

write = function(w, e) return writers[e.op](w, e) end

M.write, M.wide, M.integer_text, M.float_text, M.place_text, M.element_text = write, wide, integer_text, float_text, place_text, element_text
M.dtype_of, M.packed, M.tests, M.tested, M.storage, M.kinds = dtype_of, packed, tests, tested, storage, kinds
