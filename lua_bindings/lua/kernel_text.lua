-- From the typed tree of a kernel to its text: CUDA C for NVRTC, C++ for the compiler of the CPU.
--
-- Expressions become expressions, lazily evaluated as they are in Lua; a statement that leaves or repeats a block is a goto.
-- On a GPU a thread works at one place of the grid. On the CPU a block is a run of places of the last dimension, one loop.
-- A loop with tests of indexes in it is no vector code. So the range of each index over the run is computed first, where it
-- follows from places, sizes and numbers alone: if all lie inside, a second loop runs that has none of these tests, and if
-- conditions hold for the whole run, a third that has none of these either. Where they do not, which is at the edges of a
-- grid as a rule, the first and the last place are done apart.
--
-- The ranges are computed with numbers below 2^40 only (tk_small), so that they cannot wrap around.
--
-- Invariant: what was not shown to lie inside is tested.

local storage = {
  bool = "tk_bool", uint8 = "unsigned char", int8 = "signed char", int16 = "short", int32 = "int", int64 = "long long",
  float16 = "tk_half", bfloat16 = "tk_bf16", float32 = "float", float64 = "double",
}
local kinds = { i = "tide_i", f = "tide_r", b = "bool" }

-- w, the writer: `out`, the text of the running function, and what it needs to know (begin).

local function put(w, text) w.out[#w.out + 1] = text end

-- ---- expressions ----

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
local integer_calls = { abs = "tk_iabs", min = "tk_imin", max = "tk_imax", ult = "tk_ult" }
local float_calls = {
  abs = "TIDE_M(fabs)", min = "tk_fmin", max = "tk_fmax", floor = "TIDE_M(floor)", ceil = "TIDE_M(ceil)", trunc = "TIDE_M(trunc)",
  fmod = "TIDE_M(fmod)",
}
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
    if float_signs[op] then return pair(w, e, float_signs[op]) end
    return float_functions[op] .. "(" .. write(w, e.a) .. ", " .. write(w, e.b) .. ")"
  end
  if e.narrow and e.a.narrow and e.b.narrow and narrow_signs[op] then return pair(w, e, narrow_signs[op]) end
  local cast = e.narrow and "(int)" or ""
  if op == "idiv" or op == "mod" then
    local name = op == "idiv" and "div" or "mod"
    if e.b.op == "const" and e.b.value ~= 0 then return cast .. call_pair(w, "tk_floor_" .. name, e.a, e.b) end
    local short = e.narrow and e.a.narrow and e.b.narrow
    local a, b = short and "(int)" .. write(w, e.a) or wide(w, e.a), short and "(int)" .. write(w, e.b) or wide(w, e.b)
    return cast .. (op == "idiv" and "tk_idiv" or "tk_imod") .. "(s, " .. (e.site - 1) .. ", " .. a .. ", " .. b .. ")"
  end
  return cast .. "tk_" .. op .. "(" .. wide(w, e.a) .. ", " .. wide(w, e.b) .. ")"
end

-- An integer beside a float, exactly: tk_order gives -1, 0, 1, or 2 beside nan.
local function compare_mixed(w, e)
  local a, b, op = e.a, e.b, e.op
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
  return "tk_" .. e.op .. "(" .. words .. ", (tide_r)0)"
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
  truth = function(w, e) return "(" .. write(w, e.a) .. " != 0)" end,
  int = function(w, e) return "(" .. (e.narrow and "int" or "tide_i") .. ")" .. write(w, e.a) end,
  call = function(w, e)
    local args = e.args
    if e.args[1].type == "i" then
      local name, cast = integer_calls[e.fn], e.narrow and "(int)" or ""
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
for op, sign in next, bit_signs do
  writers[op] = function(w, e) return (e.narrow and "(int)" or "") .. pair(w, e, sign) end
end
for op, sign in next, compare_signs do
  writers[op] = function(w, e)
    if w.decided[e] then return "true" end
    if e.a.type ~= e.b.type then return compare_mixed(w, e) end
    return pair(w, e, sign)
  end
end

write = function(w, e) return writers[e.op](w, e) end

-- ---- statements ----

local write_all

-- The body of a loop that `next` begins again, and the label behind it where leaving is no break; `within`: in two of C.
local function loop_body(w, node, within)
  local before = w.loop
  w.loop = not within and node.id
  write_all(w, node.body)
  w.loop = before
end

-- Loops in which others turn, or threads wait, take a GPU's compiler as long as all that is in them, times how often it
-- writes them out, and it would gain little; of a copy for what lies outside, all loops.
local function is_inner(list)
  for k = 1, #list do
    local n = list[k]
    local waits = n.op == "for" or n.op == "loop" or n.op == "barrier" or n.op == "block_sum" or n.op == "warp_sum"
    if waits or n.yes and not is_inner(n.yes) or n.no and not n.type and not is_inner(n.no) or n.body and not is_inner(n.body) then
      return false
    end
  end
  return true
end

local function once(w, node)
  if w.host or not w.outside and is_inner(node.body) then return "" end
  return "#pragma unroll 1\n"
end

-- A label of this copy of the body. Of those within a loop that is written twice, one is the first copy's.
local function name_of(w, kind, id)
  return kind .. id .. "_" .. w.copy .. (w.own and w.own[kind .. id] and "_in" or "")
end

local function label(w, node, kind)
  if w.wanted[kind .. node.id] then put(w, "  " .. name_of(w, kind, node.id) .. ":;\n") end
end

local function leave(w, kind, id)
  w.wanted[kind .. id] = true
  put(w, "goto " .. name_of(w, kind, id) .. ";\n")
end

local function stops(n, rounds) return "TIDE_STOPS(" .. (n.site or 1) - 1 .. ", " .. rounds .. ")\n" end

-- A loop by a constant, in numbers of that type. One that looks whether to end is two: the one within is as short as it can be.
local function counted(w, n, type, from, to, constant)
  local h, up, step = "h" .. n.id, constant > 0, integer_text(constant)
  local size, sign = literal(up and constant or -constant), up and " <= " or " >= "
  local two = w.stops[n] and constant < 1024 and constant > -1024
  local var = "v" .. n.var .. " = " .. (w.typed.vars[n.var].narrow and "(int)" or "") .. h .. ";\n"
  if two then
    put(w, "{ " .. type .. " " .. h .. " = " .. from .. ";\nfor (const " .. type .. " to = " .. to .. "; " .. h .. sign .. "to;) {\n"
      .. "const tide_u all = " .. (up and "(tide_u)to - (tide_u)" .. h or "(tide_u)" .. h .. " - (tide_u)to") .. ";\n"
      .. "const int some = all > TIDE_ROUNDS * " .. size .. " ? TIDE_ROUNDS * " .. size .. " : (int)all;\n" .. stops(n, "1 + some / " .. size)
      .. once(w, n) .. "for (const " .. type .. " upto = " .. h .. (up and " + " or " - ") .. "some; " .. h .. sign .. "upto; " .. h .. " += " .. step .. ") {\n" .. var)
  else
    put(w, once(w, n) .. "for (" .. type .. " " .. h .. " = " .. from .. ", to = " .. to .. "; " .. h .. sign .. "to; " .. h .. " += " .. step .. ") {\n" .. var
      .. (w.stops[n] and stops(n, 1) or ""))
  end
  loop_body(w, n, two)
  label(w, n, "next")
  put(w, two and "}\n} }\n" or "}\n")
end

-- from, to: the texts of its bounds.
local function for_loop(w, n, constant, from, to)
  local h, step = "h" .. n.id, n.step
  local var = "v" .. n.var .. " = " .. (w.typed.vars[n.var].narrow and "(int)" or "") .. h .. ";\n"
  if n.narrow and constant and constant ~= 0 then
    counted(w, n, "int", from, to, constant)
  else
    put(w, "{ tide_i " .. h .. " = (tide_i)" .. from .. ", to = (tide_i)" .. to .. ", by = " .. wide(w, step) .. ";\n")
    if not constant then put(w, "if (by == 0) tk_report(s, " .. ((n.site or 1) - 1) .. ", 0, 1, TIDE_ZERO);\n") end
    put(w, "if (by > 0 ? " .. h .. " <= to : by < 0 && " .. h .. " >= to) {\n"
      .. "tide_u left = by > 0 ? ((tide_u)to - (tide_u)" .. h .. ") / (tide_u)by : ((tide_u)" .. h .. " - (tide_u)to) / (0 - (tide_u)by);\n"
      .. "for (unsigned some, went;; left -= went + 1ull) {\nsome = went = left < TIDE_ROUNDS ? (unsigned)left : TIDE_ROUNDS;\n"
      .. stops(n, "went + 1") .. once(w, n) .. "do {\n" .. var)
    loop_body(w, n, true)
    label(w, n, "next")
    put(w, "} while (" .. h .. " = tk_add(" .. h .. ", by), some-- != 0);\nif (left == went) break;\n}\n} }\n")
  end
end

-- A loop in which elements lie inside if its bounds do is written twice: without their tests, and with them. False: there are
-- none. The copy of a GPU's text that is there for what lies outside has tests alone.
local function hoisted(w, n, constant)
  if not w.check or w.outside or constant >= 1024 or constant <= -1024 then return false end
  local found = kernel_hoist(w.typed, n, function(e) return not tests(w, e) end, function(e) return write(w, e) end)
  if not found then return false end
  local h, from, to, up = "h" .. n.id, "from" .. n.id, "to" .. n.id, constant > 0
  put(w, "{ const tide_i " .. from .. " = " .. wide(w, n.from) .. ", " .. to .. " = " .. wide(w, n.to) .. ", first = " .. (up and from or to) .. ", last = "
    .. (up and to or from) .. ";\n" .. (n.narrow and "" or "const tide_i far = " .. (w.small and "0x7ffffc00" or "0x7ffffffffffffc00ll") .. ";\n")
    .. "if ((first <= last) & " .. (n.narrow and "" or "(first > -far) & (last < far) & ") .. found.cond .. ") {\n")
  local line = w.line
  w.sure, w.own = found.inside, found.labels
  counted(w, n, "tide_x", "(tide_x)" .. from, "(tide_x)" .. to, constant)
  w.sure, w.own, w.line = {}, nil, line
  put(w, "} else {\n")
  for_loop(w, n, constant, from, to)
  put(w, "}\n}\n")
  return true
end

local statements = {
  let = function(w, n) put(w, "v" .. n.var .. " = " .. write(w, n.value) .. ";\n") end,
  store = function(w, n)
    local value, kept = write(w, n.value), dtype_of(w, n)
    if tests(w, n) then
      local place, ndim = place_text(w, n)
      put(w, "{ const auto x = " .. value .. "; if (auto at = " .. tested(w, "at", ndim) .. "(" .. place .. ")) tk_put(*at, x); }\n")
    elseif packed[kept] or n.value.type == "f" and not find(kept, "float") then
      put(w, "tk_put(" .. element_text(w, n) .. ", " .. value .. ");\n")
    else
      put(w, element_text(w, n) .. " = (" .. storage[kept] .. ")" .. value .. ";\n")
    end
  end,
  ["if"] = function(w, n)
    put(w, "if (" .. write(w, n.cond) .. ") {\n")
    write_all(w, n.yes)
    if n.no and #n.no > 0 then
      put(w, "} else {\n")
      write_all(w, n.no)
    end
    put(w, "}\n")
  end,
  block = function(w, n)
    put(w, "{\n")
    write_all(w, n.body)
    put(w, "}\n")
    label(w, n, "leave")
  end,
  loop = function(w, n)
    local unroll = w.host and "" or once(w, n)
    if unroll == "" and not w.host then unroll = kernel_unrolls(n, w.typed) end
    put(w, "for (;;) {\n" .. unroll .. "for (int round = 0; round < TIDE_ROUNDS; round++) {\n")
    loop_body(w, n, true)
    label(w, n, "next")
    put(w, "}\nif (tk_stops(s)) return tk_stopped(s, " .. n.site - 1 .. ");\n}\n")
    label(w, n, "leave")
  end,
  ["for"] = function(w, n)
    local step = n.step
    local constant = step.op == "const" and type(step.value) == "number" and step.value
    if not constant or constant == 0 or not hoisted(w, n, constant) then for_loop(w, n, constant, write(w, n.from), write(w, n.to)) end
    label(w, n, "leave")
  end,
  leave = function(w, n)
    if n.id == w.loop then put(w, "break;\n") else leave(w, "leave", n.id) end
  end,
  next = function(w, n) leave(w, "next", n.id) end,
  atomic = function(w, n)
    local place, ndim = place_text(w, n)
    local float = find(dtype_of(w, n), "float")
    local kind = float and "tide_r" or "tide_i"
    local value, call = "(" .. kind .. ")(" .. write(w, n.value) .. ")", n.kind
    if call == "sub" then call, value = "add", float and "-" .. value or "tk_neg(" .. value .. ")" end
    if n.expected then value = "(" .. kind .. ")(" .. write(w, n.expected) .. "), " .. value end
    local var = n.var and "v" .. n.var .. " = "
    put(w, "{ auto at = " .. (tests(w, n) and tested(w, "at", ndim) or "tk_in" .. ndim) .. "(" .. place .. ");\n" .. (var and var .. "0;\n" or "")
      .. "if (at) " .. (var and var .. "(" .. kind .. ")" or "") .. "tk_atomic_" .. call .. "(at, " .. value .. "); }\n")
  end,
  barrier = function(w) put(w, "__syncthreads();\n") end,
  block_sum = function(w, n)
    local kind = kinds[w.typed.vars[n.var].type]
    w.sums[kind] = true
    put(w, "v" .. n.var .. " = tk_sum_" .. kind .. (n.op == "warp_sum" and "_in_warp" or "") .. "(t, " .. write(w, n.value) .. ");\n")
  end,
  result = function(w, n)
    local operands, typed = w.typed.operands, w.typed
    local k, offset = #operands - typed.results + n.n, {}
    for d = 1, typed.ndim do offset[d] = "(tide_x)(i" .. d .. " - 1) * " .. (w.unit and d == typed.ndim and "1" or "s" .. k .. "_" .. d) end
    put(w, "tk_put(p" .. k .. "[" .. join(offset, " + ") .. "], " .. write(w, n.value) .. ");\n")
  end,
}
statements.warp_sum = statements.block_sum

-- What follows is our own text again.
local function end_line(w) return w.plain and "" or "#line 1 \"tide\"\n" end

write_all = function(w, list)
  for k = 1, #list do
    local n = list[k]
    if n.line and n.line ~= w.line and not w.plain then
      w.line = n.line
      put(w, "#line " .. n.line .. "\n")
    end
    statements[n.op](w, n)
  end
end

-- ---- what the body works on ----

-- Addresses, sizes, strides and numbers as the slots have them. What results are written to may have any strides.
local function write_operands(w, typed)
  local first, units = kernel_slots(typed), w.units and #typed.operands - typed.results or 0
  for k = 1, #typed.operands do
    local x, at = typed.operands[k], first[k]
    if x.kind == "tensor" then
      put(w, storage[x.dtype] .. " *const p" .. k .. " = (" .. storage[x.dtype] .. " *)s[" .. at .. "];\n")
      for d = 1, x.ndim do
        local stride = d == x.ndim and k <= units and "1" or "(tide_x)s[" .. at + x.ndim + d .. "]"
        put(w, "const tide_x n" .. k .. "_" .. d .. " = (tide_x)s[" .. at + d .. "], s" .. k .. "_" .. d .. " = " .. stride .. ";\n")
      end
    elseif x.kind == "float" then
      put(w, "const tide_r a" .. k .. " = (tide_r)tk_bits<double>(s[" .. at .. "]);\n")
    else
      put(w, "const " .. (x.kind == "boolean" and "bool a" or "tide_i a") .. k .. " = " .. (x.kind == "boolean" and "0 != " or "") .. "s[" .. at .. "];\n")
    end
  end
end

local function write_vars(w, typed)
  for k = 1, #typed.vars do
    local v = typed.vars[k]
    put(w, (v.narrow and "int" or kinds[v.type]) .. " v" .. k .. " = 0;\n")
  end
end

local function write_tables(w, typed)
  for k = 1, #typed.constants do
    local c, list = typed.constants[k], {}
    local float = c.dtype == "float64"
    for i = 1, #c.values do
      list[i] = float and float_text(w, c.values[i], "double") or integer_text(c.values[i])
    end
    put(w, "TIDE_TABLE const " .. storage[c.dtype] .. " c" .. k .. "[] = {" .. join(list, ", ") .. "};\n")
  end
  for k = 1, #typed.shared do
    local a, n = typed.shared[k], 1
    for d = 1, #a.sizes do n = n * a.sizes[d] end
    put(w, "static TIDE_SHARED " .. storage[a.dtype] .. " sh" .. k .. "[" .. n .. "];\n")
  end
end

-- The place of a thread in its block and in the grid; blocks are counted with the last dimension fastest. On a GPU that one is
-- the launch's first, and the second and third count the others (program_launch.c).
local function write_place(w, typed, of_block, of_gpu)
  local ndim, block = typed.ndim, w.block
  local is_apart = of_gpu and ndim > 1
  put(w, "unsigned rest = " .. (is_apart and "blockIdx.z * 65535u + blockIdx.y" or of_block) .. ", inner = t;\n")
  for d = ndim, 1, -1 do
    local of = "rest"
    if is_apart and d == ndim then
      of = of_block
    elseif d > 1 then
      put(w, "const unsigned along" .. d .. " = (unsigned)((s[" .. d - 1 .. "] + " .. block[d] - 1 .. ") / " .. block[d] .. ");\n")
      of = "(rest % along" .. d .. ")"
    end
    put(w, "const long long b" .. d .. " = (long long)" .. of .. " + 1;\n")
    if of ~= of_block and d > 1 then put(w, "rest /= along" .. d .. ";\n") end
    put(w, "const int t" .. d .. " = (int)" .. (d == 1 and "inner" or "(inner % " .. block[d] .. ")") .. " + 1;\n")
    if d > 1 then put(w, "inner /= " .. block[d] .. ";\n") end
    put(w, "const tide_x i" .. d .. " = (tide_x)((b" .. d .. " - 1) * " .. block[d] .. ") + t" .. d .. ";\n")
  end
end

local function write_outside(w, typed)
  local tests = {}
  for d = 1, typed.ndim do tests[d] = "i" .. d .. " > (tide_x)s[" .. d - 1 .. "]" end
  put(w, "if (" .. join(tests, " || ") .. ") return;\n")
end

local function write_clear(w)
  local any
  for kind in next, w.sums do
    put(w, "tk_sum_" .. kind .. "_clear(t);\n")
    any = true
  end
  if any then put(w, "__syncthreads();\n") end
end

-- The body for one thread. Where the indexes of its place are known, they are tested together, and a thread whose indexes
-- all lie inside tests none of them on its way: so it may begin all that it reads at once. Those of a block that wait for
-- each other go the same way. What the other threads do is rare, and takes a compiler longer than all the rest; so their
-- accesses are calls, where there are more than a few.
local function write_body(w, typed, of_gpu)
  local ranges = of_gpu and w.check and kernel_ranges(typed, w.block)
  if ranges and next(ranges.inside) then
    put(w, "bool fast = true;\n" .. ranges.text)
    if typed.barriers then put(w, "fast = __syncthreads_and(fast);\n") end
    put(w, "if (fast) {\n")
    w.fast, w.inside, w.copy, w.wanted = true, ranges.inside, 2, {}
    write_all(w, typed.body)
    put(w, end_line(w) .. "return;\n}\n")
    w.fast, w.copy, w.wanted, w.line, w.outside = false, 1, {}, nil, true
    if w.accesses > 3 then w.apart = "apart_" end
  end
  write_all(w, typed.body)
end

-- What fn(w, ...) writes, as a text.
local function written(w, fn, ...)
  local before = w.out
  w.out = {}
  fn(w, ...)
  local text = join(w.out)
  w.out = before
  return text
end

-- A function of one thread: the kernel of a GPU, or what runs by turns on the CPU.
local function write_thread(w, typed, head, of_block, of_gpu)
  local inner = written(w, write_body, typed, of_gpu)
  put(w, head)
  write_place(w, typed, of_block, of_gpu)
  write_clear(w)
  write_outside(w, typed)
  if next(w.stops) then put(w, "int tk_left = TIDE_ROUNDS;\n" .. (of_gpu and "unsigned tk_looks = 0;\nif ((tide_u)gridDim.x * gridDim.y * gridDim.z > 4096 && tk_stops(s)) return tk_stopped(s, 0);\n" or "")) end
  write_operands(w, typed)
  write_vars(w, typed)
  put(w, inner)
  put(w, end_line(w) .. "}\n")
end

-- The writer of a text, at its begin.
local function begin(typed, opts, host)
  local w = {
    out = {}, typed = typed, host = host, check = opts.check ~= false, small = opts.small, units = opts.unit, plain = opts.plain, ndims = {}, sums = {}, wanted = {}, copy = 1, inside = {}, sure = {}, decided = {}, accesses = 0, apart = "",
    block = opts.block or (typed.ndim == 1 and { 256 } or typed.ndim == 2 and { 1, 256 } or { 1, 1, 256 }),
  }
  w.threads, w.stops = 1, kernel_stops(typed.body)
  for d = 1, typed.ndim do w.threads = w.threads * w.block[d] end
  -- what sums over a block is known before the body is written
  local function look(list)
    for k = 1, #list do
      local n = list[k]
      if n.op == "block_sum" or n.op == "warp_sum" then w.sums[kinds[typed.vars[n.var].type]] = true end
      if n.yes then look(n.yes) end
      if n.no and not n.type then look(n.no) end
      if n.body then look(n.body) end
    end
  end
  look(typed.body)
  return w
end

local function finish(w, typed, opts, host)
  local first, slots = kernel_slots(typed)
  local body = written(w, write_tables, typed) .. join(w.out)
  return kernel_prelude({
    host = host, float = typed.float, slots = slots, threads = w.threads, small = w.small, ndims = w.ndims, sums = w.sums,
    random = w.random, index = kernel_mail_index, zero = kernel_mail_zero, stopped = kernel_mail_stopped, stops = next(w.stops) ~= nil,
  }, body) .. body
end

local function device_text(typed, opts)
  local w = begin(typed, opts)
  write_thread(w, typed, "extern \"C\" __global__ void __launch_bounds__(" .. w.threads
    .. ") tide_program(const __grid_constant__ tide_slots s) {\nTIDE_WAIT\nconst unsigned t = threadIdx.x;\n", "blockIdx.x", true)
  return finish(w, typed, opts, false), w
end

-- Threads that wait for each other.
local function turns_text(typed, opts)
  local w = begin(typed, opts, true)
  write_thread(w, typed, "static void tide_thread(const void *packed, unsigned t) {\nTIDE_S s = (TIDE_S)packed;\n"
    .. "threadIdx = {t, 0, 0};\n", "blockIdx.x")
  put(w, "static int tide_loop(const void *packed, const unsigned *dims, long long begin, long long end) {\n"
    .. "for (long long b = begin; b < end; b++) {\nblockIdx = {(unsigned)b, 0, 0};\n"
    .. "if (int rc = tide_hook->block(tide_hook->self, " .. w.threads .. ", tide_thread, packed)) return rc;\n}\nreturn 0;\n}\n"
    .. "TIDE_KERNEL(tide_loop)\n")
  return finish(w, typed, opts, true)
end

-- ---- a run of places on the CPU ----

-- How many places of the last dimension a launch counts as one: a part of a grid is not smaller. Where a place has a loop
-- it is worth a thread sooner.
local function loops(list)
  for k = 1, #list do
    local n = list[k]
    if n.op == "loop" or n.op == "for" then return true end
    if n.yes and loops(n.yes) or n.no and not n.type and loops(n.no) or n.body and loops(n.body) then return true end
  end
  return false
end
local most_places = 4096
function kernel_run(typed) return loops(typed.body) and 256 or most_places end

local function host_text(typed, opts)
  local w = begin(typed, opts, true)
  local ndim = typed.ndim
  local run, places = { 1, 1, 1 }, kernel_run(typed)
  run[ndim] = places
  w.block = run
  local ranges = kernel_ranges(typed)
  local declared, operands, place = written(w, write_vars, typed), written(w, write_operands, typed), {}
  for d = 1, ndim - 1 do place[d] = "const tide_x i" .. d .. " = first" .. d .. ";\n" end
  -- level 0: every index and condition is tested; 1: the indexes of the whole run lie inside; 2: conditions hold as well
  local function body(level)
    w.fast, w.unit, w.copy, w.wanted, w.line = level > 0, level > 0, level + 1, {}, nil
    w.inside, w.decided = ranges.inside, level == 2 and ranges.decided or {}
    local inner = written(w, write_all, typed.body)
    w.fast, w.unit = false, false
    return "#pragma GCC ivdep\nfor (tide_x i" .. ndim .. " = from; i" .. ndim .. " <= upto; i" .. ndim .. "++) {\n"
      .. declared .. inner .. end_line(w) .. "}\n"
  end
  local slow, quick, straight = body(0), ranges.any and body(1), ranges.any and next(ranges.decided) and body(2)
  put(w, "TIDE_FN void tide_run(TIDE_S s" .. (ndim > 1 and ", tide_x first1" or "") .. (ndim > 2 and ", tide_x first2" or "")
    .. ", tide_x from, tide_x upto, int level) {\n" .. (next(w.stops) and "int tk_left = TIDE_ROUNDS;\n" or "") .. operands .. join(place))
  if straight then put(w, "if (level == 2) {\n" .. straight .. "return;\n}\n") end
  if quick then put(w, "if (level) {\n" .. quick .. "return;\n}\n") end
  put(w, slow .. "}\n")
  local passed = (ndim > 1 and ", first1" or "") .. (ndim > 2 and ", first2" or "")
  local params = (ndim > 1 and ", tide_x first1" or "") .. (ndim > 2 and ", tide_x first2" or "")
  if quick then
    put(w, "static int tide_level(TIDE_S s" .. params .. ", tide_x from, tide_x upto) {\n" .. operands
      .. "bool fast = true, holds = " .. (straight and "true" or "false") .. ";\n" .. ranges.text .. "return fast + (fast & holds);\n}\n")
  end
  put(w, "static int tide_loop(const void *packed, const unsigned *dims, long long begin, long long end) {\nTIDE_S s = (TIDE_S)packed;\n"
    .. "for (long long b = begin, many; b < end; b += many) {\nlong long rest = b, runs = (s[" .. ndim - 1 .. "] + " .. places - 1 .. ") / " .. places
    .. ", first = rest % runs;\nmany = runs - first < end - b ? runs - first : end - b;\n"
    .. "if (many > " .. most_places // places .. ") many = " .. most_places // places .. ";\n"
    .. "const long long size = s[" .. ndim - 1 .. "], least = first * " .. places .. ", most = least + many * " .. places .. ";\n"
    .. "const tide_x from = (tide_x)(least + 1), upto = (tide_x)(most < size ? most : size);\n"
    .. "rest /= runs;\n")
  if ndim == 2 then put(w, "const tide_x first1 = (tide_x)rest + 1;\n") end
  if ndim == 3 then put(w, "const tide_x first1 = (tide_x)(rest / s[1]) + 1, first2 = (tide_x)(rest % s[1]) + 1;\n") end
  if quick then
    local function all(a, z) return "tide_run(s" .. passed .. ", " .. a .. ", " .. z .. ", tide_level(s" .. passed .. ", " .. a .. ", " .. z .. "));\n" end
    put(w, "const int level = tide_level(s" .. passed .. ", from, upto);\n"
      .. "if (level == " .. (straight and 2 or 1) .. " || upto - from < 8) { tide_run(s" .. passed .. ", from, upto, level); continue; }\n"
      .. "tide_run(s" .. passed .. ", from, from, 0);\n" .. all("from + 1", "upto - 1") .. "tide_run(s" .. passed .. ", upto, upto, 0);\n")
  else
    put(w, "tide_run(s" .. passed .. ", from, upto, 0);\n")
  end
  put(w, "}\nreturn 0;\n}\nTIDE_KERNEL(tide_loop)\n")
  return finish(w, typed, opts, true), run
end

-- kernel_text(typed, opts): opts.plain leaves out from which lines of the script it comes, so that a kernel that has moved is
-- the same text. It gives {device =, host =, host_head =, block =, threads =, host_block =, waits =}; waits: the text for
-- a GPU waits itself for the kernel before it, so that it may be launched while that one ends.
function kernel_text(typed, opts)
  local result = { waits = true }
  local device, w = device_text(typed, opts)
  result.device, result.block, result.threads = device, w.block, w.threads
  if typed.barriers then
    result.host, result.host_block, result.host_head = turns_text(typed, opts), w.block, "#define TIDE_FIBERS 1\n"
  else
    result.host, result.host_block = host_text(typed, opts)
    result.host_head = ""
  end
  return result
end
