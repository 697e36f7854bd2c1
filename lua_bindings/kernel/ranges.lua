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
local build = use "kernel/build"
local out, typed, everywhere, known, times, inside, wraps, decided, asked, numbers, largest, late, any, count, alone, block

local function put(text) out[#out + 1] = text end

-- Temporaries that hold a range; one where both bounds are the same. What one thread has is an int, without a test, where
-- its size is known to be at most `size`, which fits one.
local function hold(lo, hi, size)
  count = count + 1
  local a, b = "lo" .. count, lo == hi and "lo" .. count or "hi" .. count
  local is_int = alone and size and size < 2147483648.0
  put("const " .. (is_int and "int " or "tide_i ") .. a .. " = " .. lo .. (a == b and "" or ", " .. b .. " = " .. hi) .. ";\n")
  if is_int then
    largest[a], largest[b] = size, size
  else
    put("fast &= tk_small(" .. a .. (a == b and ");\n" or ") & tk_small(" .. b .. ");\n"))
  end
  return a, b
end

-- How large the number of such a text is at most, or nil.
local function size_of(a, b)
  local x, y = largest[a], largest[b]
  return x and y and (x > y and x or y)
end
local function sum(x, y) return x and y and x + y end
local function larger(x, y) return x and y and (x > y and x or y) end

-- The type to compute a bound of that size in.
local function wide(size) return alone and size and size < 2147483648.0 and "(int)" or "(tide_i)" end
local function small(e) return e.narrow and 1073741824.0 or nil end

local function small_constant(e) return e.op == "const" and e.type == "i" and type(e.value) == "number" and e.value < 1048576 and e.value > -1048576 end

-- The text of a number, which is remembered.
local function number(value)
  local text = literal(value)
  numbers[text], largest[text] = value, value < 0 and -value or value
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
    if everywhere then return number(1), (hold("(tide_x)s[" .. e.dim - 1 .. "]", "(tide_x)s[" .. e.dim - 1 .. "]", small(e))) end
    largest["i" .. e.dim] = small(e)
    if alone then return "i" .. e.dim, "i" .. e.dim end
    if e.dim == typed.ndim then return "from", "upto" end
    return "first" .. e.dim, "first" .. e.dim
  end,
  size = function(e) return hold("n" .. e.tensor .. "_" .. e.dim, "n" .. e.tensor .. "_" .. e.dim, small(e)) end,
  thread = function(e)
    largest["t" .. e.dim] = 1024.0
    return "t" .. e.dim, "t" .. e.dim
  end,
  block = function(e) return hold("b" .. e.dim, "b" .. e.dim) end,
  block_size = function(e) return number(block[e.dim]), number(block[e.dim]) end,
  grid = function(e) return hold("s[" .. e.dim - 1 .. "]", "s[" .. e.dim - 1 .. "]") end,
  number = function(e)
    if typed.operands[e.operand].kind == "integer" then return hold("a" .. e.operand, "a" .. e.operand) end
  end,
  var = function(e)
    local r = known[e.n]
    if not r then return end
    if everywhere and r.value then return range(r.value) end
    if r.waits then
      r.waits = nil
      r[1], r[2] = range(r.value)
    end
    return r[1], r[2]
  end,
  add = function(e)
    local a, b, c, d = both(e)
    if not a then return end
    local low, high = folded(a, c, b, d, 1)
    if low then return low, high end
    local size = sum(size_of(a, b), size_of(c, d))
    return hold(wide(size) .. a .. " + " .. c, wide(size) .. b .. " + " .. d, size)
  end,
  sub = function(e)
    local a, b, c, d = both(e)
    if not a then return end
    local low, high = folded(a, d, b, c, -1)
    if low then return low, high end
    local size = sum(size_of(a, b), size_of(c, d))
    return hold(wide(size) .. a .. " - " .. d, wide(size) .. b .. " - " .. c, size)
  end,
  neg = function(e)
    local a, b = range(e.a)
    local size = size_of(a, b)
    if a then return hold("-" .. wide(size) .. b, "-" .. wide(size) .. a, size) end
  end,
  mul = function(e)
    local x, k = e.a, e.b
    if small_constant(x) then x, k = k, x end
    if not small_constant(k) then return end
    local a, b = range(x)
    if not a then return end
    local size = size_of(a, b)
    size = size and size * (k.value < 0 and -k.value or k.value)
    local text = " * " .. wide(size) .. "(" .. literal(k.value) .. ")"
    if k.value < 0 then a, b = b, a end
    return hold(wide(size) .. a .. text, wide(size) .. b .. text, size)
  end,
  idiv = function(e)
    if not (small_constant(e.b) and e.b.value > 0) then return end
    local a, b = range(e.a)
    local size = size_of(a, b)
    local type = wide(size)
    local text = ", " .. type .. literal(e.b.value) .. ")"
    if a then return hold("tk_div_floor(" .. type .. a .. text, "tk_div_floor(" .. type .. b .. text, size) end
  end,
  mod = function(e)
    if small_constant(e.b) and e.b.value > 0 then return number(0), number(e.b.value - 1) end
    if e.b.op ~= "size" then return end
    local a, b = range(e.b)
    put("fast &= " .. a .. " > 0;\n")
    local c, d
    if alone and e.narrow and e.a.narrow and e.b.narrow then -- asked of the whole grid, which no thread has to compute for itself
      local before = everywhere
      everywhere = true
      c, d = range(e.a)
      everywhere = before
    end
    if c then
      -- a is a size and d is not below -a where it counts: the difference fits in 32 bits
      local narrow = largest[a] and largest[d]
      put("near &= (" .. c .. " >= -" .. a .. ") & (" .. (narrow and "(int)((unsigned)" or "((tide_i)") .. d .. " - " .. a .. ") < " .. a .. ");\n")
      wraps[e] = true
    end
    local _, last = hold(a .. " - 1", b .. " - 1", size_of(a, b))
    return number(0), last
  end,
  band = function(e) -- with a mask of 31 bits, which the lower ones of the other operand are enough for
    if small_constant(e.b) and e.b.value >= 0 then return number(0), number(e.b.value) end
    local a, b
    if alone then a, b = range(e.b) end
    if not a then return end
    put("fast &= (" .. a .. " >= 0) & (" .. b .. " <= 0x7fffffff);\n")
    inside[e] = true
    return number(0), b
  end,
  choose = function(e)
    local a, b = range(e.yes)
    if not a then return end
    local c, d = range(e.no)
    local size = c and larger(size_of(a, b), size_of(c, d))
    local type = wide(size)
    if c then return hold("tk_min(" .. type .. a .. ", " .. type .. c .. ")", "tk_max(" .. type .. b .. ", " .. type .. d .. ")", size) end
  end,
  call = function(e)
    if e.fn ~= "min" and e.fn ~= "max" then return end
    local a, b, c, d = both({ a = e.args[1], b = e.args[2] })
    local size = a and larger(size_of(a, b), size_of(c, d))
    local type = wide(size)
    local name = "tk_" .. e.fn .. "(" .. type
    if a then return hold(name .. a .. ", " .. type .. c .. ")", name .. b .. ", " .. type .. d .. ")", size) end
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
  build.children(e, look)
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
    build.expressions(n, look)
    if n.op == "if" then decide(n.cond) end
    if n.index then see(n) end
    local a, b
    if n.op == "let" and times[n.var] == 1 then
      if n.value.type == "i" then
        late[#late + 1] = { op = "var", n = n.var, type = "i" }
        known[n.var], set[#set + 1] = { value = n.value, waits = true }, n.var
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

-- M.write(typed [, block]): {text =, inside =, wraps =, decided =, any =}: statements that clear `fast` where an index may lie outside or
-- an innermost stride is not 1, and `holds` where a comparison may not hold; the accesses and comparisons that these speak
-- for; and whether there are any accesses. With the sizes of a block they speak of one thread and its own place, whatever the
-- strides are.
function M.write(of, block_of)
  alone, block = block_of ~= nil, block_of
  out, typed, known, times, inside, wraps, decided, asked, numbers, largest, late, any, count = {}, of, {}, {}, {}, {}, {}, {}, {}, {}, {}, false, 0
  build.each(of.body, function(n)
    if n.var then times[n.var] = (times[n.var] or 0) + 1 end
  end)
  walk(of.body)
  for k = 1, #of.operands do
    local x = of.operands[k]
    if x.kind == "tensor" and x.ndim > 0 and not alone then put("fast &= s" .. k .. "_" .. x.ndim .. " == 1;\n") end
  end
  local result = { text = join(out), inside = inside, wraps = wraps, decided = decided, any = any or of.results > 0 }
  out, typed, known, times, inside, wraps, decided, asked, numbers, largest, late = nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil
  return result
end
