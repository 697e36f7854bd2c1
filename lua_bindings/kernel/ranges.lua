-- Which values an index of a kernel takes over a run of places along the last dimension, as C++ text (text.lua).
--
-- Known are places, sizes, numbers that the kernel is given, constants, variables that are set once, and what follows from
-- these by sums, differences, products with small constants, minima and maxima, division and remainder by constants. The
-- range of every other expression is unknown, and what it indexes stays tested.
--
-- Comparisons of such values, where an `if` or a choice asks for them, are decided for a run likewise: a loop in which they
-- all hold needs no branch.
--
-- Invariant: numbers that are computed with are below 2^40 in size, else the run is not `fast`: nothing wraps around.

local M = ...
local out, typed, known, times, inside, wraps, decided, asked, numbers, late, any, count, alone, block

local function put(text) out[#out + 1] = text end

-- Temporaries that hold a range; one where both bounds are the same. What one thread has and is known to fit in 32 bits is
-- as wide, and cannot wrap around.
local function hold(lo, hi, e)
  count = count + 1
  local a, b = "lo" .. count, lo == hi and "lo" .. count or "hi" .. count
  if alone and a == b and e and e.narrow then
    put("const int " .. a .. " = (int)(" .. lo .. ");\n")
    return a, b
  end
  put("const tide_i " .. a .. " = " .. lo .. (a == b and "" or ", " .. b .. " = " .. hi) .. ";\nfast &= tk_small(" .. a
    .. (a == b and ");\n" or ") & tk_small(" .. b .. ");\n"))
  return a, b
end

-- The type to compute e's bounds in.
local function wide(e) return alone and e.narrow and "(int)" or "(tide_i)" end

local function small_constant(e) return e.op == "const" and e.type == "i" and type(e.value) == "number" and e.value < 1048576 and e.value > -1048576 end

-- The text of a number, which is remembered.
local function number(value)
  local text = literal(value)
  numbers[text] = value
  return text
end

local range

local function both(e)
  local a, b = range(e.a)
  if not a then return end
  local c, d = range(e.b)
  if c then return a, b, c, d end
end

-- The range of a sum or a difference of numbers that are known here; nil: one is not.
local function folded(lo, by_lo, hi, by_hi, sign)
  local a, b, c, d = numbers[lo], numbers[by_lo], numbers[hi], numbers[by_hi]
  if a and b and c and d then return number(a + sign * b), number(c + sign * d) end
end

local ranges = {
  const = function(e)
    if small_constant(e) then return number(e.value), number(e.value) end
  end,
  place = function(e)
    if alone then return "i" .. e.dim, "i" .. e.dim end
    if e.dim == typed.ndim then return "from", "upto" end
    return "first" .. e.dim, "first" .. e.dim
  end,
  size = function(e) return hold("n" .. e.tensor .. "_" .. e.dim, "n" .. e.tensor .. "_" .. e.dim, e) end,
  thread = function(e) return "t" .. e.dim, "t" .. e.dim end,
  block = function(e) return hold("b" .. e.dim, "b" .. e.dim, e) end,
  block_size = function(e) return number(block[e.dim]), number(block[e.dim]) end,
  grid = function(e) return hold("s[" .. e.dim - 1 .. "]", "s[" .. e.dim - 1 .. "]", e) end,
  number = function(e)
    if typed.operands[e.operand].kind == "integer" then return hold("a" .. e.operand, "a" .. e.operand, e) end
  end,
  var = function(e)
    local r = known[e.n]
    if not r then return end
    if r.of then
      local value = r.of
      r.of = nil
      r[1], r[2] = range(value)
    end
    return r[1], r[2]
  end,
  add = function(e)
    local a, b, c, d = both(e)
    if not a then return end
    local low, high = folded(a, c, b, d, 1)
    if low then return low, high end
    return hold(wide(e) .. a .. " + " .. c, wide(e) .. b .. " + " .. d, e)
  end,
  sub = function(e)
    local a, b, c, d = both(e)
    if not a then return end
    local low, high = folded(a, d, b, c, -1)
    if low then return low, high end
    return hold(wide(e) .. a .. " - " .. d, wide(e) .. b .. " - " .. c, e)
  end,
  neg = function(e)
    local a, b = range(e.a)
    if a then return hold("-" .. wide(e) .. b, "-" .. wide(e) .. a, e) end
  end,
  mul = function(e)
    local x, k = e.a, e.b
    if small_constant(x) then x, k = k, x end
    if not small_constant(k) then return end
    local a, b = range(x)
    if not a then return end
    local text = " * " .. wide(e) .. "(" .. literal(k.value) .. ")"
    if k.value < 0 then a, b = b, a end
    return hold(wide(e) .. a .. text, wide(e) .. b .. text, e)
  end,
  idiv = function(e)
    if not (small_constant(e.b) and e.b.value > 0) then return end
    local a, b = range(e.a)
    local type = alone and e.a.narrow and "(int)" or "(tide_i)"
    local text = ", " .. type .. literal(e.b.value) .. ")"
    if a then return hold("tk_div_floor(" .. type .. a .. text, "tk_div_floor(" .. type .. b .. text, e) end
  end,
  mod = function(e)
    if small_constant(e.b) and e.b.value > 0 then return "0", literal(e.b.value - 1) end
    if e.b.op ~= "size" then return end
    local a, b = range(e.b)
    put("fast &= " .. a .. " > 0;\n")
    local c, d
    if alone and e.narrow and e.a.narrow and e.b.narrow then c, d = range(e.a) end
    if c then
      put("near &= (" .. c .. " >= -" .. a .. ") & ((tide_i)" .. d .. " - " .. a .. " < " .. a .. ");\n")
      wraps[e] = true
    end
    local _, last = hold(a .. " - 1", b .. " - 1", e.b)
    return "0", last
  end,
  band = function(e) -- with a mask of 31 bits, which the lower ones of the other operand are enough for
    if small_constant(e.b) and e.b.value >= 0 then return number(0), number(e.b.value) end
    local a, b
    if alone then a, b = range(e.b) end
    if not a then return end
    put("fast &= (" .. a .. " >= 0) & (" .. b .. " <= 0x7fffffff);\n")
    inside[e] = true
    return "0", b
  end,
  choose = function(e)
    local a, b = range(e.yes)
    if not a then return end
    local c, d = range(e.no)
    local type = wide(e)
    if c then return hold("tk_min(" .. type .. a .. ", " .. type .. c .. ")", "tk_max(" .. type .. b .. ", " .. type .. d .. ")", e) end
  end,
  int = function() return "0", "1" end,
  call = function(e)
    if e.fn ~= "min" and e.fn ~= "max" then return end
    local a, b, c, d = both({ a = e.args[1], b = e.args[2] })
    local type = wide(e)
    local name = "tk_" .. e.fn .. "(" .. type
    if a then return hold(name .. a .. ", " .. type .. c .. ")", name .. b .. ", " .. type .. d .. ")", e) end
  end,
}

range = function(e)
  local of = e.type == "i" and ranges[e.op]
  if of then return of(e) end
end

-- Is it so? Said once for all that is asked, and not at all where constants tell.
local function ask(x, sign, y)
  local a, b, text = numbers[x], numbers[y], x .. sign .. y
  if not asked[text] and not (a and b and (sign == " <= " and a <= b or sign == " >= " and a >= b)) then put("fast &= " .. text .. ";\n") end
  asked[text] = true
end

-- Is it known here that it is not so? The run would never be fast.
local function is_never(x, sign, y)
  local a, b = numbers[x], numbers[y]
  return a and b and (sign == " <= " and a > b or sign == " >= " and a < b)
end

-- An element that is read or written: the run is fast where all its indexes lie inside.
local function see(e)
  local sizes, bounds = e.shared and typed.shared[e.shared].sizes or e.constant and typed.constants[e.constant].sizes, {}
  for d = 1, #e.index do
    local a, b = range(e.index[d])
    if not a or is_never(a, " >= ", number(1)) or sizes and is_never(b, " <= ", number(sizes[d])) then return end
    bounds[d] = { a, b }
  end
  for d = 1, #e.index do
    local a, b, size = bounds[d][1], bounds[d][2], sizes and number(sizes[d]) or "n" .. e.tensor .. "_" .. d
    if alone and a == b and not numbers[a] then
      local text = "fast &= !tk_out(" .. a .. ", (tide_x)" .. size .. ");\n"
      if not asked[text] then put(text) end
      asked[text] = true
    else
      ask(a, " >= ", number(1))
      ask(b, " <= ", size)
    end
  end
  inside[e], any = true, true
end

-- Does it hold in the whole run, for all values from a to b on its left and from c to d on its right?
local holds = {
  lt = function(a, b, c, d) return b .. " < " .. c end,
  le = function(a, b, c, d) return b .. " <= " .. c end,
  gt = function(a, b, c, d) return a .. " > " .. d end,
  ge = function(a, b, c, d) return a .. " >= " .. d end,
  ne = function(a, b, c, d) return "(" .. b .. " < " .. c .. ") | (" .. a .. " > " .. d .. ")" end,
  eq = function(a, b, c, d) return "(" .. a .. " == " .. d .. ") & (" .. b .. " == " .. c .. ")" end,
}

-- A condition, of which each part that `and` joins may be decided alone.
local function decide(e)
  if alone then return end -- a thread decides its conditions on its way
  if e.op == "and" then
    decide(e.a)
    decide(e.b)
    return
  end
  if not holds[e.op] or e.a.type ~= "i" or e.b.type ~= "i" then return end
  local a, b, c, d = both(e)
  if not a then return end
  put("holds &= " .. holds[e.op](a, b, c, d) .. ";\n")
  decided[e] = true
end

local function look(e)
  if e.op == "load" then see(e) end
  if e.op == "choose" then decide(e.cond) end
  for _, child in next, { e.a or false, e.b or false, e.cond or false, e.yes or false, e.no or false } do
    if child then look(child) end
  end
  for _, list in next, { e.index or false, e.args or false } do
    for k = 1, list and #list or 0 do look(list[k]) end
  end
end

local function look_at(n, key)
  if n[key] then look(n[key]) end
end

-- The last value of a loop from a known number on, by so much, to another: beyond that one only where there is no turn.
local function last_of(from, to, step)
  local _, last = hold("0", from .. " + tk_div_floor((tide_i)" .. to .. " - (tide_i)" .. from .. ", (tide_i)" .. literal(step) .. ") * " .. literal(step))
  return last
end

-- A variable beside a number: where the condition holds, its range is smaller, if both ends are known here.
local function narrowed(e)
  if e.type ~= "b" or not (e.op == "gt" or e.op == "ge" or e.op == "lt" or e.op == "le") then return end
  local r = e.a.op == "var" and small_constant(e.b) and known[e.a.n]
  local a, b = r and numbers[r[1]], r and numbers[r[2]]
  if not a or not b then return end
  local by = (e.op == "gt" and 1 or e.op == "lt" and -1 or 0) + e.b.value
  if e.op == "gt" or e.op == "ge" then a = a < by and by or a else b = b > by and by or b end
  if a <= b then return e.a.n, { number(a), number(b) } end
end

-- What is known of a variable holds where it was set, to the end of that list of statements.
local walk

local function walk_if(n)
  local var, less = narrowed(n.cond)
  for k = 1, var and #late or 0 do range(late[k]) end
  local before = var and known[var]
  if var then known[var] = less end
  walk(n.yes)
  if var then known[var] = before end
end

walk = function(list)
  local set = {}
  for k = 1, #list do
    local n = list[k]
    for _, key in next, { "value", "expected", "cond", "from", "to", "step" } do look_at(n, key) end
    if n.op == "if" then decide(n.cond) end
    if n.index then
      for d = 1, #n.index do look(n.index[d]) end
      see(n)
    end
    local a, b
    if n.op == "let" and times[n.var] == 1 then
      if n.value.type == "i" then
        late[#late + 1] = { op = "var", n = n.var, type = "i" }
        known[n.var], set[#set + 1] = { of = n.value }, n.var
      end
    elseif n.op == "for" and times[n.var] == 1 and small_constant(n.step) and n.step.value ~= 0 then
      local first, last = n.from, n.to
      if n.step.value < 0 then first, last = last, first end
      local from
      a, from = range(first)
      if a then
        local to
        to, b = range(last)
        if b and to == b and a == from and n.step.value > 1 then b = last_of(a, b, n.step.value) end
      end
    end
    if a and b then known[n.var], set[#set + 1] = { a, b }, n.var end
    if n.op == "if" then walk_if(n) end
    if n.no then walk(n.no) end
    if n.body then walk(n.body) end
    if n.op == "for" then known[n.var] = nil end
  end
  for k = 1, #set do known[set[k]] = nil end
end

local function count_sets(list)
  for k = 1, #list do
    local n = list[k]
    if n.var then times[n.var] = (times[n.var] or 0) + 1 end
    if n.yes then count_sets(n.yes) end
    if n.no then count_sets(n.no) end
    if n.body then count_sets(n.body) end
  end
end

-- M.write(typed [, block]): {text =, inside =, wraps =, decided =, any =}: statements that clear `fast` where an index may lie outside or
-- an innermost stride is not 1, and `holds` where a comparison may not hold; the accesses and comparisons that these speak
-- for; and whether there are any accesses. With the sizes of a block they speak of one thread and its own place, whatever the
-- strides are.
function M.write(of, block_of)
  alone, block = block_of ~= nil, block_of
  out, typed, known, times, inside, wraps, decided, asked, numbers, late, any, count = {}, of, {}, {}, {}, {}, {}, {}, {}, {}, false, 0
  count_sets(of.body)
  walk(of.body)
  for k = 1, #of.operands do
    local x = of.operands[k]
    if x.kind == "tensor" and x.ndim > 0 and not alone then put("fast &= s" .. k .. "_" .. x.ndim .. " == 1;\n") end
  end
  local result = { text = join(out), inside = inside, wraps = wraps, decided = decided, any = any or of.results > 0 }
  out, typed, known, times, inside, wraps, decided, asked, numbers, late = nil, nil, nil, nil, nil, nil, nil, nil, nil, nil
  return result
end
