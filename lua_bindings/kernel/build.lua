-- Expressions of a kernel's typed tree, made of others that have types already.
--
-- Integers carry the range that they are in, lo to hi, as floats: what lies within 32 bits is `narrow`, and the kernel's
-- text computes it so. Of a range beyond what a double counts exactly nothing is known: the value may have wrapped around.
-- Constants are folded as long as a double holds them. Floats are folded in double precision.
--
-- What Lua gives as a float where it is beyond an integer, as math.floor does, is an integer with a `dual`: .fits says
-- whether it is one, .other is the float that it is else, and .float, where there is one, is that float in both cases.
--
-- Invariant: nothing here evaluates twice or reorders what it is given, but for a dual, and nothing has an effect.

local M = ...
local least, beyond = -9223372036854775808.0, 9223372036854775808.0
local least_int, most_int = -2147483648.0, 2147483647.0
local exact = 9007199254740992.0

-- M.ranged(e, lo, hi): e, an integer expression, with its range.
function M.ranged(e, lo, hi)
  if not (lo >= -exact and hi <= exact) then lo, hi = least, beyond end
  e.type, e.lo, e.hi = "i", lo, hi
  e.narrow = lo >= least_int and hi <= most_int
  return e
end

local ranged = M.ranged

function M.any_integer(e) return ranged(e, least, beyond) end

-- M.const(value, type)
function M.const(value, kind)
  local e = { op = "const", type = kind, value = value }
  if kind == "i" then
    if type(value) == "string" then return ranged(e, least, beyond) end
    return ranged(e, value + 0.0, value + 0.0)
  end
  return e
end

local const = M.const

local function is_const(e) return e.op == "const" and type(e.value) ~= "string" end

local function is_exact(x) return x >= -exact and x <= exact end

-- M.float(e): a number as a float.
function M.float(e)
  if e.type == "f" then return e end
  if is_const(e) then return const(e.value + 0.0, "f") end
  local float, dual = { op = "float", type = "f", a = e }, e.dual
  if not dual then return float end
  return dual.float or { op = "choose", type = "f", cond = dual.fits, yes = float, no = dual.other }
end

local to_float = M.float

-- The float that e is where not all of what it is made of is an integer.
local function other_of(e, single) return single and e.dual and e.dual.other or to_float(e) end

-- Notes that e, made of the integers a and b, is other(a, b) of floats where one of them is none.
local function note_dual(e, a, b, other)
  local p, q = a.dual, b and b.dual
  if e.dual or not p and not q then return e end
  local single = not (p and q)
  e.dual = { fits = p and q and M.logic("and", p.fits, q.fits) or (p or q).fits, other = other(other_of(a, single), b and other_of(b, single)) }
  return e
end

M.note_dual = note_dual

local function both_float(op, a, b)
  return { op = op, type = "f", a = to_float(a), b = to_float(b) }
end

-- ---- ranges ----

local function least_of(a, b) return a < b and a or b end
local function most_of(a, b) return a > b and a or b end

-- The smallest 2^n - 1 that is at least x.
local function ones(x)
  local n = 1.0
  while n <= x do n = n * 2 end
  return n - 1
end

local function bit_range(op, a, b)
  if a.lo >= 0 or b.lo >= 0 then
    if op == "band" then return 0.0, a.lo < 0 and b.hi or b.lo < 0 and a.hi or least_of(a.hi, b.hi) end
    if a.lo >= 0 and b.lo >= 0 then return 0.0, ones(most_of(a.hi, b.hi)) end
  end
  if a.narrow and b.narrow then return least_int, most_int end
  return least, beyond
end

local function product_range(a, b)
  local p, q, r, s = a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi
  return least_of(least_of(p, q), least_of(r, s)), most_of(most_of(p, q), most_of(r, s))
end

local function floor_div(x, n)
  local q = x / n
  return q - q % 1
end

local range_of = {
  add = function(a, b) return a.lo + b.lo, a.hi + b.hi end,
  sub = function(a, b) return a.lo - b.hi, a.hi - b.lo end,
  mul = product_range,
  -- by 0 it is 0, behind the report of it
  idiv = function(a, b)
    if b.lo < 0 then return least, beyond end
    local low, high = most_of(b.lo, 1.0), most_of(b.hi, 1.0)
    local lo, hi = floor_div(a.lo, a.lo < 0 and low or high), floor_div(a.hi, a.hi < 0 and high or low)
    if b.lo >= 1 then return lo, hi end
    return least_of(lo, 0.0), most_of(hi, 0.0)
  end,
  mod = function(a, b)
    local lo, hi = least_of(b.lo + 1, 0.0), most_of(b.hi - 1, 0.0)
    if b.lo >= 0 and a.lo >= 0 then return 0.0, least_of(a.hi, hi) end
    return lo, hi
  end,
  shl = function(a, b)
    if is_const(b) and b.value >= 0 and b.value < 64 then return a.lo * 2.0 ^ b.value, a.hi * 2.0 ^ b.value end
    return least, beyond
  end,
  shr = function(a, b)
    if not (is_const(b) and b.value >= 0 and b.value < 64) then return least, beyond end
    if a.lo >= 0 then return floor_div(a.lo, 2.0 ^ b.value), floor_div(a.hi, 2.0 ^ b.value) end
    if b.value == 0 then return a.lo, a.hi end
    return 0.0, 2.0 ^ (64 - b.value) - 1
  end,
}

-- ---- arithmetic ----

local folds = {
  add = function(a, b) return a + b end,
  sub = function(a, b) return a - b end,
  mul = function(a, b) return a * b end,
  div = function(a, b) return a / b end,
  pow = function(a, b) return a ^ b end,
}
local float_folds = { add = true, sub = true, mul = true, div = true, pow = true }

local function fold(op, a, b, kind)
  if not (is_const(a) and is_const(b)) then return end
  local x, y = a.value, b.value
  if kind == "f" then return float_folds[op] and const(folds[op](x * 1.0, y * 1.0), "f") end
  if op == "idiv" or op == "mod" then
    if y == 0 then return end
    local q = x // y
    return const(op == "idiv" and q or x - q * y, "i")
  end
  local f = folds[op]
  if not f or op == "div" or op == "pow" then return end
  if not is_exact((x + 0.0) * (y + 0.0)) then return end -- else it may wrap around
  local z = f(x, y)
  return is_exact(z) and const(z + 0, "i")
end

local function integers(op, a, b, site)
  local folded = fold(op, a, b, "i")
  if folded then return folded end
  if is_const(b) then
    if b.value == 0 and (op == "add" or op == "sub" or op == "shl" or op == "shr") or b.value == 1 and (op == "mul" or op == "idiv") then return a end
  end
  if is_const(a) and (a.value == 0 and op == "add" or a.value == 1 and op == "mul") then return b end
  -- one of 32 bits by -1 may not fit them
  if (op == "idiv" or op == "mod") and is_const(b) and b.value == -1 then b = { op = "const", type = "i", value = -1, lo = -1.0, hi = -1.0 } end
  local e = { op = op, a = a, b = b, site = site }
  local of = range_of[op]
  if of then
    if op ~= "shl" and op ~= "shr" then note_dual(e, a, b, function(x, y) return both_float(op, x, y) end) end
    return ranged(e, of(a, b))
  end
  return ranged(e, bit_range(op, a, b))
end

-- M.arithmetic(op, a, b, site): of two numbers; bit operations and shifts of two integers.
function M.arithmetic(op, a, b, site)
  if op == "div" or op == "pow" or a.type == "f" or b.type == "f" then
    a, b = to_float(a), to_float(b)
    return fold(op, a, b, "f") or both_float(op, a, b)
  end
  return integers(op, a, b, site)
end

function M.negate(a)
  if a.type == "f" then
    if is_const(a) then return const(-a.value, "f") end
    return { op = "neg", type = "f", a = a }
  end
  if is_const(a) then return const(0 - a.value, "i") end
  return ranged(note_dual({ op = "neg", a = a }, a, nil, M.negate), -a.hi, -a.lo)
end

function M.bnot(a)
  if is_const(a) then return const(-1 - a.value, "i") end
  return ranged({ op = "bnot", a = a }, -a.hi - 1, -a.lo - 1)
end

-- ---- comparison and truth ----

local function truth_of(op, x, y)
  if op == "eq" then return x == y end
  if op == "ne" then return x ~= y end
  if op == "lt" then return x < y end
  if op == "le" then return x <= y end
  if op == "gt" then return x > y end
  return x >= y
end

-- Exact in every float that a kernel computes with.
local function is_small(x) return x >= -16777216 and x <= 16777216 end

-- M.compare(op, a, b): of two numbers, an integer beside a float exactly, or of two booleans.
function M.compare(op, a, b)
  if is_const(a) and is_const(b) then return const(truth_of(op, a.value, b.value), "b") end
  if a.dual and (b.type == "f" or b.dual) then a = to_float(a) end
  if b.dual and a.type == "f" then b = to_float(b) end
  if a.type ~= b.type then
    if a.type == "i" and is_const(a) and is_small(a.value) then a = to_float(a) end
    if b.type == "i" and is_const(b) and is_small(b.value) then b = to_float(b) end
  end
  return { op = op, type = "b", a = a, b = b }
end

function M.logical_not(a)
  if is_const(a) then return const(not a.value, "b") end
  if a.op == "not" then return a.a end
  return { op = "not", type = "b", a = a }
end

-- M.logic(op, a, b): "and" or "or" of booleans.
function M.logic(op, a, b)
  if is_const(a) then
    if op == "and" then return a.value and b or a end
    return a.value and a or b
  end
  if is_const(b) and b.value == (op == "and") then return a end
  return { op = op, type = "b", a = a, b = b }
end

-- M.choose(cond, yes, no): of two numbers, or of two booleans.
function M.choose(cond, yes, no)
  if is_const(cond) then
    local e = cond.value and yes or no
    return (yes.type == "f" or no.type == "f") and to_float(e) or e
  end
  if yes.type == "i" and no.type == "i" then
    local e = { op = "choose", cond = cond, yes = yes, no = no }
    local p, q = yes.dual, no.dual
    if p or q then
      local always, none = const(true, "b"), const(0.0, "f")
      e.dual = { fits = M.choose(cond, p and p.fits or always, q and q.fits or always),
        other = M.choose(cond, p and p.other or none, q and q.other or none) }
      if (p and p.float or not p and yes.narrow) and (q and q.float or not q and no.narrow) then
        e.dual.float = M.choose(cond, to_float(yes), to_float(no))
      end
    end
    return ranged(e, least_of(yes.lo, no.lo), most_of(yes.hi, no.hi))
  end
  if yes.type == "b" then return { op = "choose", type = "b", cond = cond, yes = yes, no = no } end
  return { op = "choose", type = "f", cond = cond, yes = to_float(yes), no = to_float(no) }
end

-- ---- functions ----

-- M.call_float(fn, a, b): of floats, by C's name.
function M.call_float(fn, a, b)
  return { op = "call", type = "f", fn = fn, args = { to_float(a), b and to_float(b) } }
end

-- M.extreme(fn, a, b): min or max as Lua's, by one comparison.
function M.extreme(fn, a, b)
  if a.type == "f" or b.type == "f" then return M.call_float(fn, a, b) end
  local e = note_dual({ op = "call", fn = fn, args = { a, b } }, a, b, function(x, y) return M.call_float(fn, x, y) end)
  local of = fn == "min" and least_of or most_of
  if is_const(a) and is_const(b) then return const(of(a.value, b.value), "i") end
  return ranged(e, of(a.lo, b.lo), of(a.hi, b.hi))
end

function M.abs(a)
  if a.type == "f" then return M.call_float("abs", a) end
  if a.lo >= 0 then return a end
  local e = note_dual({ op = "call", fn = "abs", args = { a } }, a, nil, M.abs)
  return ranged(e, 0.0, most_of(-a.lo, a.hi))
end

-- M.floor(a): a float as an integer, rounded down.
function M.floor(a)
  if a.type == "i" then return a end
  return M.any_integer({ op = "floor_int", a = a })
end

-- M.whole(a): a float without a fraction as Lua's math.floor gives it.
function M.whole(a)
  if a.type == "i" then return a end
  local e = M.floor(a)
  local fits = M.logic("and", M.compare("ge", a, const(least, "f")), M.compare("lt", a, const(beyond, "f")))
  e.dual = { fits = fits, other = a, float = both_float("add", a, const(0.0, "f")) } -- an integer is no -0.0
  return e
end

-- ---- what a tree is made of ----

local function visit_lists(node, visit)
  local index, args = node.index, node.args
  if index then for k = 1, #index do visit(index[k]) end end
  if args then for k = 1, #args do visit(args[k]) end end
end

-- M.children(e, visit): the expressions in an expression. A compiler does little else.
function M.children(e, visit)
  if e.a then visit(e.a) end
  if e.b then visit(e.b) end
  if e.cond then visit(e.cond) end
  if e.yes then visit(e.yes) end
  if e.no then visit(e.no) end
  visit_lists(e, visit)
end

-- M.expressions(s, visit): those in a statement.
function M.expressions(s, visit)
  if s.value then visit(s.value) end
  if s.cond then visit(s.cond) end
  if s.expected then visit(s.expected) end
  if s.from then visit(s.from) end
  if s.to then visit(s.to) end
  if s.step then visit(s.step) end
  visit_lists(s, visit)
end

-- M.has(e, test): does the test hold for the expression, or for one in it?
function M.has(e, test)
  if test(e) then return true end
  local found = false
  M.children(e, function(child) found = found or M.has(child, test) end)
  return found
end

-- M.may_report(e): may computing it report an error?
function M.may_report(e)
  return M.has(e, function(x) return x.op == "load" or (x.op == "idiv" or x.op == "mod") and x.type == "i" and x.b.op ~= "const" end)
end

-- M.map_lists(s, fn): each list of statements in a statement becomes what fn gives of it.
function M.map_lists(s, fn)
  if s.op == "if" then s.yes, s.no = fn(s.yes), fn(s.no) end
  if s.body then s.body = fn(s.body) end
end

-- M.lists(s, visit): the lists of statements in a statement.
function M.lists(s, visit)
  if s.op == "if" then
    visit(s.yes)
    visit(s.no)
  end
  if s.body then visit(s.body) end
end

-- M.each(list, visit): the statements of a list, each before those in it.
function M.each(list, visit)
  for k = 1, #list do
    visit(list[k])
    M.lists(list[k], function(inner) M.each(inner, visit) end)
  end
end

-- M.any(list, test): does the test hold for a statement of the list, or for one in it?
function M.any(list, test)
  local found = false
  for k = 1, #list do
    found = found or test(list[k])
    if not found then M.lists(list[k], function(inner) found = found or M.any(inner, test) end) end
  end
  return found
end
