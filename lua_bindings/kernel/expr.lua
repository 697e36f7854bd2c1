-- The expressions of a kernel's function: from the syntax tree to values (flow.lua says what these are).
--
-- An expression stays an expression of the typed tree as long as nothing in it has to be written as a statement: a call that
-- is inlined, an atomic operation. Where an operand writes statements, the operands before it are held in variables first,
-- so that everything happens in Lua's order, from left to right.
--
-- Invariant: what a value depends on is evaluated once, except for what costs nothing.

local M = ...
local build, calls, flow, outside = use "kernel/build", use "kernel/calls", use "kernel/flow", use "kernel/outside"
local parse, types, vector_types, lex = use "kernel/parse", use "kernel/types", use "kernel/vector_types", use "kernel/lex.c"
local integer_dtypes = {
  uint8 = { 0.0, 255.0 }, int8 = { -128.0, 127.0 }, int16 = { -32768.0, 32767.0 }, int32 = { -2147483648.0, 2147483647.0 },
  int64 = { -9223372036854775808.0, 9223372036854775808.0 },
}
local float_dtypes = { float16 = true, bfloat16 = true, float32 = true, float64 = true }

local function bad(c, node, message) parse.fail(c.unit.name, node, message) end

-- M.bad(c, node, message): an error at that place of the script.
function M.bad(c, node, message) bad(c, node, message) end

-- Pieces of the script between two words.
local function text_of(c, node)
  local list, words = {}, c.unit.words
  if not node.first then return "" end
  for k = node.first, node.last - 4, 4 do
    local word = text(words[k + 1])
    local before = words[k - 4]
    if k > node.first and (before == "," or before == "name" and words[k] == "name") then word = " " .. word end
    list[#list + 1] = word
  end
  local all = join(list)
  return #all > 60 and sub(all, 1, 57) .. "..." or all
end

-- M.site(c, node): the number of a place in the script that may report something.
function M.site(c, node)
  local known = c.site_of[node]
  if known then return known end
  c.sites[#c.sites + 1] = { line = node.sign_line or node.line, column = node.sign_column or node.column, text = text_of(c, node), name = c.unit.name }
  c.site_of[node] = #c.sites
  return #c.sites
end

-- ---- what is wanted of a value ----

-- The names that the function that is compiled can see, but for that one.
local function visible(c, name)
  local names, fn = { math = true, tide = true }, c.unit.lua
  for k = 1, #c.order do
    if sub(c.order[k].name, 1, 1) ~= "(" then names[c.order[k].name] = true end
  end
  for n = 1, fn and 255 or 0 do
    local up = upvalue(fn, n)
    if not up then break end
    names[up] = up ~= "" and true or nil
  end
  names[name] = nil
  return names
end

local function unusable(c, node, v, expected)
  if v.what == "mixed" then bad(c, node, "got " .. v.reason .. ", expected " .. expected .. ": give it one of that type first") end
  if v.what == "maybe" then bad(c, node, "got " .. flow.describe(v) .. ", expected " .. expected .. ": write `or` and a value behind it") end
  if v.what == "nil" then
    local of = v.name and "'" .. v.name .. "', which is nil" or "nil"
    local near = v.name and not v.missing and (calls.meant(v.name) or lex.nearest(v.name, visible(c, v.name)))
    bad(c, node, "got " .. of .. ", expected " .. expected .. (near and ", did you mean '" .. near .. "'?"
      or v.name and ": " .. (v.missing or "give it a value, or pass it as an argument") or ""))
  end
  if v.what == "row" then
    local missing = M.ndim(c, v.base) - #v.index
    bad(c, node, "got a row of a tensor, expected " .. expected .. ": " .. missing .. (missing > 1 and " more indexes are" or " more index is") .. " missing; " .. (missing == 2 and "tide.mat3(rows) reads 3 rows of 3 numbers" or "tide.vec3(row) reads a row of 3 numbers"))
  end
  if v.what == "tensor" and not v.shared and M.ndim(c, v) == 0 then
    bad(c, node, "got tensor '" .. v.name .. "' of no dimensions, expected " .. expected .. ": pass x:item(), or x:view(1) for x[1]")
  end
  if v.what == "tensor" then bad(c, node, "got tensor '" .. v.name .. "', expected " .. expected .. ": write which element, such as " .. v.name .. "[i]") end
  local hint = not v.what and v.type == "b" and expected == "a number" and ": write (condition) and 1 or 0"
    or v.what == "vector" and ": write its components, or a row, x[i] = v" or ""
  local name = v.op == "number" and "'" .. c.operands[v.operand].name .. "', " or v.op == "place" and "the place, " or ""
  bad(c, node, "got " .. name .. flow.describe(v) .. ", expected " .. expected .. hint)
end

-- M.number(c, node, v): an integer or a float.
function M.number(c, node, v, expected)
  if v.what or v.type == "b" then unusable(c, node, v, expected or "a number") end
  return v
end

local number = M.number

function M.integer(c, node, v, expected)
  number(c, node, v, expected or "an integer")
  if v.type == "f" then
    if v.op == "const" and v.value % 1 == 0 and v.value > -1e15 and v.value < 1e15 then return build.const(v.value, "i") end
    bad(c, node, "got a float, expected " .. (expected or "an integer") .. ": write math.floor(...), or // in place of /")
  end
  return v
end

-- M.truth(c, node, v): as a condition.
function M.truth(c, node, v)
  if not v.what then return v.type == "b" and v or build.const(true, "b") end
  if v.what == "nil" then return build.const(false, "b") end
  if v.what == "maybe" then return v.cond end
  if v.what == "mixed" then unusable(c, node, v, "a condition of one type") end
  return build.const(true, "b")
end

-- ---- the order of evaluation ----

-- M.value(c, node): one value.
function M.value(c, node) return M.values(c, node, 1)[1] end

local value = M.value

-- M.each(c, list, get): get of each node; what comes before one that writes statements is held.
function M.each(c, list, get)
  local values = {}
  for k = 1, #list do
    local before = #c.out
    values[k] = get(list[k], k)
    if #c.out > before then
      for i = 1, k - 1 do values[i] = flow.hold_at(c, before, values[i]) end
    end
  end
  return values
end

local function value_pair(c, node)
  local list = M.each(c, { node.a, node.b }, function(n) return value(c, n) end)
  return list[1], list[2]
end

-- M.list_of(c, list): the values of a list of expressions, of which a call at the end may give several.
function M.list_of(c, list, wanted)
  local last
  local values = M.each(c, list, function(n, k)
    if k < #list then return value(c, n) end
    last = M.values(c, n, wanted and wanted - k + 1)
    return last[1] or { what = "nil" }
  end)
  for k = 2, last and #last or 0 do values[#list + k - 1] = last[k] end
  if last and #last == 0 then values[#list] = nil end
  return values
end

-- ---- elements of tensors ----

-- M.ndim(c, base): of a tensor, an array in shared memory or a table of numbers.
function M.ndim(c, base)
  if base.shared then return #c.shared[base.shared].sizes end
  if base.constant then return #c.constants[base.constant].sizes end
  return c.operands[base.n].ndim
end

function M.dtype(c, base)
  if base.shared then return c.shared[base.shared].dtype end
  if base.constant then return c.constants[base.constant].dtype end
  return c.operands[base.n].dtype
end

function M.size(c, base, dim)
  local of = base.shared and c.shared[base.shared] or base.constant and c.constants[base.constant]
  if of then return build.const(of.sizes[dim], "i") end
  return build.ranged({ op = "size", tensor = base.n, dim = dim }, 0.0, c.most)
end

-- M.place(c, base, index, node): where an element is, for a load, a store or an atomic operation.
function M.place(c, base, index, node)
  local place = { index = index, site = M.site(c, node) }
  place.tensor, place.shared, place.constant = not (base.shared or base.constant) and base.n or nil, base.shared, base.constant
  return place
end

-- M.check_dtype(c, base, node): are its elements such as kernels have?
function M.check_dtype(c, base, node)
  local dtype = M.dtype(c, base)
  if dtype == "bool" or float_dtypes[dtype] or integer_dtypes[dtype] then return dtype end
  bad(c, node, "got tensor '" .. base.name .. "' of " .. dtype .. ", expected one of real numbers or booleans")
end

-- M.as(dtype, v): v for an element of that dtype; floats get what an integer is where it is none.
function M.as(dtype, v) return v.dual and float_dtypes[dtype] and build.float(v) or v end

-- M.load(c, row, node): the element.
function M.load(c, row, node)
  local dtype, e = M.check_dtype(c, row.base, node), M.place(c, row.base, row.index, node)
  e.op = "load"
  if e.tensor then c.operands[e.tensor].reads = true end
  if dtype == "bool" then
    e.type = "b"
  elseif float_dtypes[dtype] then
    e.type = "f"
  else
    local range = integer_dtypes[dtype]
    build.ranged(e, range[1], range[2])
  end
  return e
end

-- M.row_of(v, more): the row v, or all of the tensor v, with the indexes of the list behind its own.
function M.row_of(v, more)
  local row, index = v.what == "tensor" and { base = v, index = {} } or v, {}
  for k = 1, #row.index do index[k] = row.index[k] end
  for k = 1, more and #more or 0 do index[#index + 1] = more[k] end
  return { what = "row", base = row.base, index = index }
end

local row_of = M.row_of

-- Whole rows are elements where no index is missing.
local function element(c, row, node)
  local missing = M.ndim(c, row.base) - #row.index
  if missing > 0 then return row end
  return M.load(c, row, node)
end

local function with_index(c, row, node, e)
  local ndim, n = M.ndim(c, row.base), #row.index
  if ndim == 0 then bad(c, node, "got an index of '" .. row.base.name .. "', which has no dimensions, expected one with them: pass x:view(1) for x[1], or x:item()") end
  if n >= ndim then
    bad(c, node, "got " .. n + 1 .. " indexes, expected " .. ndim .. ": '" .. row.base.name .. "' has " .. ndim .. (ndim > 1 and " dimensions" or " dimension"))
  end
  return row_of(row, { e })
end

-- M.no_row(c, node, v): an error where v, of which an element is wanted, is one itself.
function M.no_row(c, node, v)
  if v.op ~= "load" or not v.tensor then return end
  local n, name = #v.index, c.operands[v.tensor].name
  bad(c, node, "got " .. n + 1 .. " indexes, expected " .. n .. ": '" .. name .. "' has " .. n .. (n > 1 and " dimensions" or " dimension"))
end

-- M.index_list(c, items): the integers in x[{i, j}].
function M.index_list(c, items)
  return M.each(c, items, function(n) return M.integer(c, n, value(c, n), "an integer as index") end)
end

local function keys_of(c, node, key)
  if key.op == "table" then
    if key.named or #key.items == 0 then bad(c, key, "got a table that is no list of integers, expected one such as x[{i, j}]") end
    return M.index_list(c, key.items)
  end
  local e = value(c, key)
  if e.what == "string" then bad(c, node, "got field '" .. e.value .. "' of a tensor, expected an integer as index") end
  return { M.integer(c, key, e, "an integer as index") }
end

-- v, held where evaluating what stands behind it writes statements, and what fn gives.
local function after(c, v, fn)
  local before = #c.out
  local result = fn()
  if #c.out > before then v = flow.hold_at(c, before, v) end
  return v, result
end

-- M.row(c, v, node, key): v[key] of a tensor or row, as a row, be it complete.
function M.row(c, v, node, key)
  local row, list = after(c, v.what == "tensor" and row_of(v) or v, function() return keys_of(c, node, key) end)
  for k = 1, #list do row = with_index(c, row, node, list[k]) end
  return row
end

-- ---- fields ----

local function shape_index(c, node, shape, key)
  local d = M.integer(c, node.key, key, "an integer as dimension")
  local ndim = M.ndim(c, shape.base) - shape.skip
  if d.op ~= "const" then bad(c, node.key, "got a dimension that is computed, expected a constant: x.shape[1]") end
  local n = d.value
  if n < 1 or n > ndim then
    bad(c, node.key, "got dimension " .. text(d.value) .. ", expected 1 to " .. ndim .. " as '" .. shape.base.name .. "' has")
  end
  return M.size(c, shape.base, n + shape.skip)
end

local function v_name(row) return #row.index == 0 and row.base.name or row.base.name .. "[i]" end

local function tensor_field(c, node, v)
  local row = row_of(v)
  if node.name == "shape" then return { what = "shape", base = row.base, skip = #row.index } end
  bad(c, node, "got field '" .. node.name .. "' of a tensor, expected " .. (node.name == "ndim" and "#" .. v_name(row) .. ".shape" or ".shape[d] or an index"))
end

local function field(c, node)
  local v = value(c, node.a)
  if v.what == "module" then return calls.module_field(c, node, v, node.name) end
  if v.what == "table" then return outside.table_field(c, node, v, node.name) end
  if v.what == "tensor" or v.what == "row" then return tensor_field(c, node, v) end
  if v.what == "vector" then return vector_types.field(c, node, v, node.name) end
  unusable(c, node.a, v, "what has a field '" .. node.name .. "'")
end

local function index(c, node)
  local v, key = value(c, node.a), node.key
  if v.what == "tensor" or v.what == "row" then return element(c, M.row(c, v, node, key), node) end
  local e
  v, e = after(c, v, function() return value(c, key) end)
  if v.what == "shape" then return shape_index(c, node, v, e) end
  if v.what == "table" then return calls.table_index(c, node, v, e) end
  if v.what == "vector" then return vector_types.index(c, node, v, e) end
  M.no_row(c, node, v)
  unusable(c, node.a, v, "a tensor")
end

local function length(c, node)
  local v = value(c, node.a)
  if v.what == "tensor" or v.what == "row" then return M.size(c, row_of(v).base, #row_of(v).index + 1) end
  if v.what == "shape" then return build.const(M.ndim(c, v.base) - v.skip, "i") end
  if v.what == "table" then return build.const(rawlen(v.value), "i") end
  if v.what == "string" then return build.const(#v.value, "i") end
  unusable(c, node.a, v, "what has a length")
end

-- ---- and, or ----

-- Of two values one, by a condition that is known when the kernel runs. get_yes, get_no: evaluate it where it is wanted.
local function either(c, node, cond, get_yes, get_no)
  if cond.op == "const" then return cond.value and get_yes() or get_no() end
  local yes, no
  local state = flow.copy_of(c.state)
  local yes_list = flow.list(c, function() yes = get_yes() end)
  local no_list = flow.list(c, function() no = get_no() end)
  if #yes_list == 0 and #no_list == 0 then
    if not yes.what and not no.what and (yes.type == "b") == (no.type == "b") then return build.choose(cond, yes, no) end
    if yes.what == "vector" and no.what == "vector" and yes.kind == no.kind then
      local parts, held = {}, flow.hold(c, cond)
      for k = 1, #yes.parts do parts[k] = build.choose(held, yes.parts[k], no.parts[k]) end
      return { what = "vector", kind = yes.kind, parts = parts }
    end
    if no.what == "maybe" then
      local held = flow.hold(c, cond)
      return { what = "maybe", cond = build.logic("or", held, no.cond), is_nil = no.is_nil,
        value = either(c, node, held, function() return yes end, function() return no.value end) }
    end
  end
  c.state = state
  local decl = { name = "(and/or)", assigned = true }
  flow.declare(c, decl, { what = "nil" })
  flow.branch(c, cond, function() flow.assign(c, decl, get_yes()) end, function() flow.assign(c, decl, get_no()) end)
  return c.state[decl] or { what = "nil" }
end

local function is_boolean(v) return not v.what and v.type == "b" end

-- The value of the second operand as a boolean, of which the first decides whether it is wanted.
local function both(c, node, a)
  if node.op == "and" then
    local v = either(c, node, a, function() return value(c, node.b) end, function() return build.const(false, "b") end)
    return v
  end
  return either(c, node, a, function() return build.const(true, "b") end, function() return value(c, node.b) end)
end

-- The kind of the second operand, without what it writes: for `boolean and number` and `boolean or number`.
local function peek(c, node)
  local state, v = flow.copy_of(c.state), nil
  local list = flow.list(c, function() v = value(c, node) end)
  c.state = state
  return v, #list
end

-- Where `a and b` is no value: is it nil, false (nil here), or either, as a and b say?
local function nil_of(a, b)
  if not a.is_nil == not b then return b end
  return "either"
end

local function logic_and(c, node)
  local a = value(c, node.a)
  if a.what == "nil" then return a end
  local cond = M.truth(c, node.a, a)
  if cond.op == "const" then return cond.value and value(c, node.b) or a end
  local b, statements = peek(c, node.b)
  if is_boolean(b) and not a.is_nil then return statements == 0 and build.logic("and", cond, b) or both(c, node, cond) end
  if b.what == "nil" then return { what = "maybe", cond = build.const(false, "b"), value = b, is_nil = nil_of(a, true) } end
  if b.what == "maybe" and statements == 0 then
    return { what = "maybe", cond = build.logic("and", cond, b.cond), value = b.value, is_nil = nil_of(a, b.is_nil) }
  end
  if statements > 0 then -- the value is computed where it is wanted, and kept
    local held, truth, decl = flow.hold(c, cond), b.what == "maybe" and { name = "(and)", assigned = true }, { name = "(and)", assigned = true }
    flow.declare(c, decl, M.zero(truth and b.value or b))
    if truth then flow.declare(c, truth, build.const(false, "b")) end
    flow.branch(c, held, function()
      local v = value(c, node.b)
      if truth then flow.assign(c, truth, v.cond) end
      flow.assign(c, decl, truth and v.value or v)
    end)
    return { what = "maybe", cond = truth and c.state[truth] or held, value = c.state[decl], is_nil = truth and nil_of(a, b.is_nil) or a.is_nil }
  end
  return { what = "maybe", cond = cond, value = b, is_nil = a.is_nil }
end

-- M.zero(v): a value of the same type.
function M.zero(v)
  if not v.what then return build.const(v.type == "b" and false or v.type == "f" and 0.0 or v.type == "i" and 0, v.type) end
  if v.what ~= "vector" then return v end
  local parts = {}
  for k = 1, #v.parts do parts[k] = M.zero(v.parts[k]) end
  return { what = "vector", kind = v.kind, parts = parts }
end

local function logic_or(c, node)
  local a = value(c, node.a)
  if a.what == "nil" then return value(c, node.b) end
  local cond = M.truth(c, node.a, a)
  if a.what == "maybe" then
    return either(c, node, cond, function() return a.value end, function() return value(c, node.b) end)
  end
  if cond.op == "const" then return cond.value and a or value(c, node.b) end
  local b, statements = peek(c, node.b)
  if is_boolean(b) then return statements == 0 and build.logic("or", cond, b) or both(c, node, cond) end
  if b.what == "nil" then return a end
  return { what = "either", cond = cond, value = b }
end

-- ---- operators ----

local arithmetic = { add = true, sub = true, mul = true, div = true, idiv = true, mod = true, pow = true }
local bits = { band = true, bor = true, bxor = true, shl = true, shr = true }
local comparisons = { lt = true, le = true, gt = true, ge = true }

local function bit_operand(c, node, v)
  number(c, node, v, "an integer")
  return M.integer(c, node, v, "an integer for an operator on bits")
end

local function small_power(c, a, n)
  local x = flow.hold(c, a)
  local y = build.arithmetic("mul", x, x)
  if n == 3 then return build.arithmetic("mul", y, x) end
  y = flow.hold(c, y)
  return build.arithmetic("mul", y, y)
end

local function operate(c, node)
  local a, b = value_pair(c, node)
  local op = node.op
  if a.what == "vector" or b.what == "vector" then return vector_types.operator(c, node, a, b) end
  if bits[op] then return build.arithmetic(op, bit_operand(c, node.a, a), bit_operand(c, node.b, b)) end
  number(c, node.a, a)
  number(c, node.b, b)
  if op == "pow" and b.op == "const" and (b.value == 3 or b.value == 4) then return small_power(c, build.float(a), b.value) end
  if a.dual then a = flow.hold(c, a) end
  if b.dual then b = flow.hold(c, b) end
  local site = a.type == "i" and b.type == "i" and (op == "idiv" or op == "mod") and M.site(c, node) or nil
  if site and b.op == "const" and b.value == 0 then
    bad(c, node.b, "got 0, expected another divisor: integers cannot be divided by 0 (write 0.0 for a float)")
  end
  return build.arithmetic(op, a, b, site)
end

local function equal(c, node)
  local a, b = value_pair(c, node)
  if a.what == "vector" and b.what == "vector" then return vector_types.equal(c, node, a, b) end
  local same
  if a.what == "mixed" then unusable(c, node.a, a, "a value of one type") end
  if b.what == "mixed" then unusable(c, node.b, b, "a value of one type") end
  if a.what == "maybe" and b.what == "nil" or b.what == "maybe" and a.what == "nil" then
    local m = a.what == "maybe" and a or b
    if m.is_nil == "either" then unusable(c, node, m, "a value of one type") end
    same = m.is_nil and build.logical_not(m.cond) or build.const(false, "b")
  elseif a.what == "maybe" or a.what == "either" then
    unusable(c, node.a, a, "a value of one type")
  elseif b.what == "maybe" or b.what == "either" then
    unusable(c, node.b, b, "a value of one type")
  elseif a.what or b.what then
    same = build.const(a.what == b.what and (a.what == "nil" or a.what == "string" and a.value == b.value or a.what == "tensor" and a.n == b.n), "b")
  elseif (a.type == "b") ~= (b.type == "b") then
    bad(c, node, "got a boolean and a number, which are never equal, expected two of one type: write the condition alone, or (condition) and 1 or 0")
  else
    return build.compare(node.op, a, b)
  end
  return node.op == "ne" and build.logical_not(same) or same
end

local function compare(c, node)
  local a, b = value_pair(c, node)
  return build.compare(node.op, number(c, node.a, a), number(c, node.b, b))
end

-- ---- all of them ----

local cannot = {
  table = "got a table, expected numbers: a kernel has none (several values are several locals; tide.vec3 and tensors hold several numbers)",
  string = "got a string, expected numbers: a kernel has none",
  vararg = "got ..., expected arguments that have names",
  concat = "got .., which joins strings, expected numbers: a kernel has no strings",
}

local evaluate = {
  ["nil"] = function() return { what = "nil" } end,
  ["true"] = function() return build.const(true, "b") end,
  ["false"] = function() return build.const(false, "b") end,
  integer = function(_, e) return build.const(e.value, "i") end,
  float = function(_, e) return build.const(e.value, "f") end,
  string = function(_, e) return { what = "string", value = e.value } end,
  paren = function(c, e) return value(c, e.a) end,
  ["local"] = function(c, e)
    local v = c.state[e.decl]
    if not v then bad(c, e, "got '" .. e.decl.name .. "' where it has no value yet, expected one") end
    return v
  end,
  free = function(c, e) return outside.free(c, e) end,
  ["function"] = function(c, e) return { what = "function", node = e, unit = c.unit } end,
  field = field, index = index, len = length,
  ["and"] = logic_and, ["or"] = logic_or, eq = equal, ne = equal,
  ["not"] = function(c, e) return build.logical_not(M.truth(c, e.a, value(c, e.a))) end,
  neg = function(c, e)
    local v = value(c, e.a)
    if v.what == "vector" then return vector_types.negate(c, e, v) end
    return build.negate(number(c, e.a, v))
  end,
  bnot = function(c, e) return build.bnot(bit_operand(c, e.a, value(c, e.a))) end,
}
for op in next, arithmetic do evaluate[op] = operate end
for op in next, bits do evaluate[op] = operate end
for op in next, comparisons do evaluate[op] = compare end

-- M.values(c, node, wanted): all values that an expression gives, one but for calls.
function M.values(c, node, wanted)
  if node.op == "call" or node.op == "method" then return types.call(c, node, wanted) end
  local of = evaluate[node.op]
  if not of then bad(c, node, cannot[node.op]) end
  return { of(c, node) }
end

-- M.unusable(c, node, v, expected): raises what is wrong with the value.
function M.unusable(c, node, v, expected) unusable(c, node, v, expected) end
