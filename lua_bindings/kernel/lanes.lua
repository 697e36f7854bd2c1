-- From the expressions of a kernel's typed tree to the block interpreter's instructions (code.lua has the rest).
--
-- What uniform.lua shows to be uniform is one number in an `s` register, computed where it belongs: once for a launch,
-- a row or a block where it follows from sizes, numbers and places alone. An integer that goes up by the same step from
-- lane to lane is kept as first value and step (`line`): as an index it needs no lanes, and beside a number its comparison
-- is where it crosses that. Everything else is a register of lanes.
--
-- Invariant: a register is free, or one variable's or value's; a value is given back by whoever used it up.

local M = ...
local build, kernel, uniform = use "kernel/build", use "kernel/kernel", use "kernel/uniform"
local registers = { i = "w", f = "r", b = "m" }
local suffix = { i = "_i", f = "_r", b = "_m" }

local typed, flow, mode, opts
local parts, cache, level, count, free -- what is written: launch, row, block, body; which registers there are
local accesses, places, first
local now -- {cur = mask of the lanes that run, masks = how many there are, vars = values of variables}

local eval

-- ---- what is written ----

local function emit(...)
  local body = parts.body
  body[#body + 1] = { ... }
end

local section = { "launch", "row", "block" }

local function mark(label) label.at = #parts.body + 1 end

-- A float as a whole number and a power of 2.
local function real_text(x)
  if x ~= x then return "nan 0" end
  if x == 0 then return 1 / x < 0 and "-0 0" or "0 0" end
  if x == 1 / 0 or x == -1 / 0 then return x > 0 and "inf 0" or "-inf 0" end
  local power = 0
  while x % 1 ~= 0 do x, power = x * 2, power - 1 end
  while x >= 9007199254740992 or x <= -9007199254740992 do x, power = x / 2, power + 1 end
  return literal(x) .. " " .. literal(power)
end

local function whole_text(x) return type(x) == "string" and x or literal(x) end

-- ---- values: {type =, s = register of one number [, value = a small constant]}, {type =, r = register of lanes, temp =},
-- {type = "i", line = true, s = register or nil, k = constant, c = step} ----

local most = 4096 -- that the interpreter has of a kind (core/backend/cpu/jit/blocks_read.c)

local function new(kind)
  local n = count[kind]
  if n == most then now.long = now.long or now.line or 0 end
  count[kind] = n + 1
  return kind .. n
end

local function take(type)
  local kind = registers[type]
  local list = free[kind]
  if #list == 0 then return new(kind) end
  local r = list[#list]
  list[#list] = nil
  return r
end

local function give_register(r)
  local list = free[sub(r, 1, 1)]
  list[#list + 1] = r
end

local function give(v)
  if v.temp then give_register(v.r) end
  v.temp = nil
end

local function lanes(type, r, dest) return { type = type, r = r, temp = r ~= dest } end

-- A register of one number that is set where it stands.
local function new_number()
  local s = new "s"
  level[s] = 3
  return s
end

-- The register of that kind that an instruction in one of the parts before the body fills, once for all who ask by the key.
local function cached(kind, at, key, name, ...)
  if not cache[key] then
    local r, list = new(kind), parts[section[at + 1]]
    cache[key] = r
    list[#list + 1] = { name, r, ... }
  end
  return cache[key]
end

-- Something that does not follow from what is known of all levels.
local function one_at(at, type, name, ...)
  local s = cached("s", at, join({ name, ... }, " "), name, ...)
  level[s] = at
  return { type = type, s = s }
end

-- An instruction on numbers: where it may be done once for all, done once.
local function one(type, name, ...)
  local args, of = { ... }, 0
  for k = 1, #args do
    if level[args[k]] and level[args[k]] > of then of = level[args[k]] end
  end
  if of < 3 then return one_at(of, type, name, ...) end
  local s = new_number()
  emit(name, s, ...)
  return { type = type, s = s }
end

local function integer(n)
  local v = one("i", "integer", whole_text(n))
  if type(n) == "number" and n < 1073741824 and n > -1073741824 then v.value = n end
  return v
end

local function zero(type) return type == "i" and integer(0) or type == "f" and one("f", "real", "0", "0") or one("b", "boolean", "0") end

-- A register of lanes that lasts, filled in one of the parts before the body.
local function lasting(type, at, name, ...)
  return { type = type, r = cached(registers[type], at, join({ "lanes", name, ... }, " "), name, ...) }
end

-- The value in lanes, in `dest` if one is given.
local function spread(v, dest)
  if v.r then return v end
  local kind = registers[v.type]
  if v.line then
    local s = v.s or integer(0).s
    if not dest and level[s] < 3 then return lasting("i", 2, "line", s, v.k, v.c) end
    local r = dest or take("i")
    emit("line", r, s, v.k, v.c)
    return lanes("i", r, dest)
  end
  if not dest and level[v.s] < 3 then return lasting(v.type, level[v.s] == 0 and 0 or 2, "fill_" .. kind, v.s) end
  local r = dest or take(v.type)
  emit("fill_" .. kind, r, v.s)
  return lanes(v.type, r, dest)
end

local function move(v, dest)
  if v.r == dest then return end
  if v.r then
    emit("copy" .. suffix[v.type], dest, v.r)
  else
    spread(v, dest)
  end
  give(v)
end

local function is_one(v) return v.s and not v.line end

-- An instruction on lanes, or on numbers alone; an operand is either.
local function lane(name, type, dest, ...)
  local list, all = { ... }, true
  local n = #list
  for k = 1, n do
    all = all and is_one(list[k])
    if list[k].line then list[k] = spread(list[k]) end
  end
  local words = {}
  for k = 1, n do words[k] = list[k].r or list[k].s end
  if all then return one(type, name, unpack(words, 1, n)) end
  for k = 1, n do give(list[k]) end
  local r = dest or take(type)
  emit(name, r, unpack(words, 1, n))
  return lanes(type, r, dest)
end

-- A function of <math.h>; the result may not take the place of an operand that is still needed, so these are kept.
local function math(dest, fn, ...)
  local list, all = { ... }, true
  for k = 1, #list do all = all and is_one(list[k]) end
  for k = 1, #list do list[k] = all and list[k] or spread(list[k]) end
  local a, b = list[1], list[2]
  if all then return one("f", "math" .. #list, fn, a.s, b and b.s), a, b end
  local r = dest or take("f")
  if b then emit("math2", r, fn, a.r, b.r) else emit("math1", r, fn, a.r) end
  return lanes("f", r, dest), a, b
end

-- ---- lines ----

local function small(n) return n < 1073741824 and n > -1073741824 end

-- A value as line, or nil: numbers are lines of step 0.
local function as_line(v)
  if v.line then return v.s, v.k, v.c end
  if v.value then return nil, v.value, 0 end
  if v.s then return v.s, 0, 0 end
end

local function line(s, k, c)
  if small(k) and c < 1048576 and c > -1048576 then return { type = "i", line = true, s = s, k = k, c = c } end
end

local function line_of(op, a, b)
  if not (a.line or b.line) then return end
  if not (a.line or a.s) or not (b.line or b.s) then return end
  local s, k, c = as_line(a)
  local t, l, d = as_line(b)
  if op == "mul" then
    if a.line and b.line then return end
    local by = a.line and b.value or b.line and a.value
    if not by or by > 1048576 or by < -1048576 or not small(by * (a.line and k or l)) then return end
    local of = a.line and s or t
    if b.line then k, c = l, d end
    return line(of and one("i", "mul_i", of, integer(by).s).s, k * by, c * by)
  end
  if op == "sub" then
    if t then t = one("i", "neg_i", t).s end
    l, d = -l, -d
  end
  return line(s and t and one("i", "add_i", s, t).s or s or t, k + l, c + d)
end

-- ---- expressions ----

-- What stands in an access for the indexes; they are given back.
local function access(e, value, tests)
  local index, text = {}, {}
  for d = 1, #e.index do
    local v = eval(e.index[d])
    index[d] = v
    if v.line then
      text[d] = (v.s or "-") .. " " .. literal(v.k) .. " " .. literal(v.c)
    elseif v.value then
      text[d] = "- " .. literal(v.value) .. " 0"
    else
      text[d] = (v.s or v.r) .. " 0 0"
    end
  end
  local all = true
  for d = 1, #index do
    all = all and is_one(index[d])
    give(index[d])
  end
  local place = e.shared and places.shared + e.shared - 1 or e.constant and places.constants + e.constant - 1 or places[e.tensor]
  accesses[#accesses + 1] = "access " .. place .. " " .. (tests and "1 " or "0 ") .. registers[value] .. " " .. literal(e.site or 0) .. " "
    .. join(text, " ")
  return "a" .. #accesses - 1, all
end

local function tests() return opts.check ~= false end

local function array_of(e)
  return e.shared and typed.shared[e.shared] or e.constant and typed.constants[e.constant] or typed.operands[e.tensor]
end

-- With fewer lanes: those of mask cur that are on in `cond`, or `off` in it; over(label) where there are none.
local function narrowed(off, cond, label, fn)
  local before = now.cur
  now.cur = now.cur + 1
  if now.cur >= now.masks then now.masks = now.cur + 1 end
  emit(off and "mask_less" or "mask_and", "k" .. now.cur, "k" .. before, cond, label)
  fn()
  now.cur = before
end

local function put(v, dest)
  if v.line then v = spread(v) end
  emit("put_" .. registers[v.type], dest, "k" .. now.cur, v.r or v.s)
  give(v)
end

-- Only one of two is evaluated, by lanes or by all of them. `fill` puts a value where it is wanted.
local function pick(e, cond, yes, no)
  local other, done, s = {}, {}, not flow.varies(e)
  local r = s and new_number() or take(e.type)
  local function fill(x)
    local v = x.op and eval(x) or x
    if s then
      emit("copy" .. suffix[e.type], r, v.s)
    else
      move(v, r)
    end
  end
  if is_one(cond) then
    emit("jump_zero", cond.s, other)
    fill(yes)
    emit("jump", done)
    mark(other)
    fill(no)
    mark(done)
    return s and { type = e.type, s = r } or { type = e.type, r = r, temp = true }
  end
  narrowed(false, cond.r, other, function() put(yes.op and eval(yes) or yes, r) end)
  mark(other)
  narrowed(true, cond.r, done, function() put(no.op and eval(no) or no, r) end)
  mark(done)
  give(cond)
  return { type = e.type, r = r, temp = true }
end

local function logic(e, dest)
  local a = eval(e.a)
  if build.may_report(e.b) then
    local known = one("b", "boolean", e.op == "and" and "0" or "1")
    return pick(e, a, e.op == "and" and e.b or known, e.op == "and" and known or e.b)
  end
  return lane(e.op .. "_m", "b", dest, a, eval(e.b))
end

local function choose(e, dest)
  local cond = eval(e.cond)
  if is_one(cond) or build.may_report(e.yes) or build.may_report(e.no) then return pick(e, cond, e.yes, e.no) end
  return lane("choose" .. suffix[e.type], e.type, dest, cond, eval(e.yes), eval(e.no))
end

-- a * b + c, a * b - c and c - a * b in one instruction.
local function fused(e, dest)
  local product, other, name = e.a, e.b, e.op == "add" and "muladd_r" or "mulsub_r"
  if product.op ~= "mul" then product, other, name = e.b, e.a, e.op == "add" and "muladd_r" or "submul_r" end
  if product.op ~= "mul" then return end
  local a, b = eval(product.a), eval(product.b)
  local c = eval(other)
  return lane(name, "f", dest, a, b, c)
end

local function divide(e, dest)
  local a, b = eval(e.a), eval(e.b)
  local known = e.b.op == "const" and e.b.value ~= 0
  local name, site, k = e.op == "idiv" and "idiv" or "imod", literal(e.site or 0), "k" .. now.cur
  if is_one(a) and is_one(b) then
    if known then return one("i", name, a.s, b.s, site, "k0") end
    local s = new_number()
    emit(name, s, a.s, b.s, site, k)
    return { type = "i", s = s }
  end
  if a.line then a = spread(a) end
  if b.line then b = spread(b) end
  give(a)
  give(b)
  local r = dest or take("i")
  emit(name, r, a.r or a.s, b.r or b.s, site, k)
  return lanes("i", r, dest)
end

local function float_power(e, dest)
  if e.b.op == "const" and e.b.value == 2 then
    local a = eval(e.a)
    return lane("mul_r", "f", dest, a, a)
  end
  local p, a, b = math(nil, "pow", eval(e.a), eval(e.b))
  return lane("power_r", "f", dest, a, b, p)
end

local function arithmetic(e, dest)
  local op = e.op
  if e.type == "i" then
    if op == "idiv" or op == "mod" then return divide(e, dest) end
    local a, b = eval(e.a), eval(e.b)
    local v = (op == "add" or op == "sub" or op == "mul") and line_of(op, a, b)
    return v or lane(op .. "_i", "i", dest, a, b)
  end
  if op == "pow" then return float_power(e, dest) end
  if op == "add" or op == "sub" then
    local v = fused(e, dest)
    if v then return v end
  end
  if op == "mod" then
    local m, a, b = math(nil, "fmod", eval(e.a), eval(e.b))
    give(a)
    return lane("modulo_r", "f", dest, m, b)
  end
  local v = lane((op == "idiv" and "div" or op) .. "_r", "f", op ~= "idiv" and dest or nil, eval(e.a), eval(e.b))
  return op == "idiv" and lane("floor_r", "f", dest, v) or v
end

local turned = { lt = "gt", le = "ge", gt = "lt", ge = "le", eq = "eq", ne = "ne" }
local compare_kinds = { lt = 0, le = 1, gt = 2, ge = 3, eq = 4, ne = 5 }

local function compare(e, dest)
  local op, a, b = e.op, eval(e.a), eval(e.b)
  if a.type ~= b.type then
    if a.type == "f" then op, a, b = turned[op], b, a end
    return lane(op .. "_ir", "b", dest, a, b)
  end
  if a.type == "b" then return lane(op .. "_m", "b", dest, a, b) end
  if b.line and is_one(a) then op, a, b = turned[op], b, a end
  if a.line and is_one(b) then
    local r = dest or take("b")
    emit("compare", r, a.s or integer(0).s, a.k, a.c, b.s, compare_kinds[op])
    return lanes("b", r, dest)
  end
  if op == "gt" or op == "ge" then op, a, b = turned[op], b, a end
  return lane(op .. suffix[a.type], "b", dest, a, b)
end

local function random(e, dest)
  local args, n, any = e.args, e.op == "integer" and 4 or 2, false
  local v = {}
  for k = 1, #args do
    v[k] = eval(args[k])
    if not is_one(v[k]) then v[k], any = spread(v[k]), true end
  end
  local seed, i, j = v[1], v[n] or integer(0), v[n + 1] or integer(0)
  if any and not (seed.r or i.r or j.r) then i = spread(i) end
  emit("draw", seed.r or seed.s, i.r or i.s, j.r or j.s)
  for k = n + 2, #args do emit("more", seed.r or seed.s, v[k].r or v[k].s) end
  for k = 1, #args do give(v[k]) end
  give(i)
  local r = not any and new_number() or dest or take(e.type)
  if e.op == "integer" then
    emit("between", r, v[2].r or v[2].s, v[3].r or v[3].s)
  else
    emit(e.op, r)
  end
  return any and lanes(e.type, r, dest) or { type = e.type, s = r }
end

local float_lanes = { abs = "abs_r", fabs = "abs_r", floor = "floor_r", ceil = "ceil_r", trunc = "trunc_r", sqrt = "sqrt_r" }

local function call(e, dest)
  local fn, args = e.fn, e.args
  local a, b = eval(args[1]), args[2] and eval(args[2])
  if a.type == "i" then
    if fn == "ult" then return lane("ult_i", "b", dest, a, b) end
    if b then return lane(fn .. "_i", "i", dest, a, b) end
    return lane(fn .. "_i", "i", dest, a)
  end
  if fn == "min" or fn == "max" then return lane(fn .. "_r", "f", dest, a, b) end
  if float_lanes[fn] then return lane(float_lanes[fn], "f", dest, a) end
  local v, x, y = math(dest, fn, a, b)
  give(x)
  if y then give(y) end
  return v
end

local function place(e)
  if mode == "rows" and e.dim == typed.ndim then return { type = "i", line = true, s = one_at(2, "i", "first", e.dim - 1).s, k = 0, c = 1 } end
  if mode == "rows" then return one_at(1, "i", "first", e.dim - 1) end
  if mode == "threads" and typed.ndim == 1 then return { type = "i", line = true, s = one_at(1, "i", "first", 0).s, k = 1, c = 1 } end
  return lasting("i", 2, "place", e.dim - 1)
end

local function load(e, dest)
  local a, all = access(e, e.type, tests())
  if all then
    local s = new_number()
    emit("load", s, a, "k" .. now.cur)
    return { type = e.type, s = s }
  end
  local r = dest or take(e.type)
  emit("load", r, a, "k" .. now.cur)
  return lanes(e.type, r, dest)
end

local of = {
  const = function(e)
    if e.type == "b" then return one("b", "boolean", e.value and "1" or "0") end
    if e.type == "i" then return integer(e.value) end
    local x = e.value
    if x ~= x then return one("f", "special", "0") end
    if x == 1 / 0 or x == -1 / 0 then return one("f", "special", x > 0 and "1" or "-1") end
    if x == 0 and 1 / x < 0 then return one("f", "special", "2") end
    return one("f", "real", real_text(x))
  end,
  var = function(e)
    local v = now.vars[e.n]
    return { type = v.type, s = v.s, r = v.r, line = v.line, k = v.k, c = v.c, value = v.value }
  end,
  place = place,
  grid = function(e) return one("i", "number", e.dim - 1, 0) end,
  size = function(e) return one("i", "size", places[e.tensor], e.dim - 1) end,
  number = function(e)
    local kind = typed.operands[e.operand].kind
    return one(e.type, "number", first[e.operand], kind == "integer" and 0 or kind == "float" and 1 or 2)
  end,
  load = load,
  thread = function(e)
    if typed.ndim == 1 then return { type = "i", line = true, k = 1, c = 1 } end
    return lasting("i", 0, "thread", e.dim - 1)
  end,
  block = function(e) return one_at(1, "i", "block", e.dim - 1) end,
  block_size = function(e) return integer(opts.block[e.dim]) end,
  neg = function(e, dest)
    local a = eval(e.a)
    local v = a.line and line_of("sub", integer(0), a)
    if v then return v end
    return lane("neg" .. suffix[e.type], e.type, dest, a)
  end,
  bnot = function(e, dest) return lane("bnot_i", "i", dest, eval(e.a)) end,
  ["not"] = function(e, dest) return lane("not_m", "b", dest, eval(e.a)) end,
  ["and"] = logic,
  ["or"] = logic,
  choose = choose,
  float = function(e, dest)
    local a = eval(e.a)
    if a.type == "f" then return a end
    return lane(a.type == "i" and "float_i" or "float_m", "f", dest, a)
  end,
  floor_int = function(e, dest) return lane("int_r", "i", dest, eval(e.a)) end,
  call = call,
  uniform = random, normal = random, integer = random,
}
for op in next, { add = 1, sub = 1, mul = 1, div = 1, idiv = 1, mod = 1, pow = 1, shl = 1, shr = 1, band = 1, bor = 1, bxor = 1 } do
  of[op] = arithmetic
end
for op in next, compare_kinds do of[op] = compare end

-- dest: a register of lanes that may be used for the result, which need not.
eval = function(e, dest) return of[e.op](e, dest) end

-- M.begin(typed, flow, mode, opts): begins a code; {eval =, emit =, ...} to write it with. What was written is in
-- `parts`, and `accesses`, `count` are complete when all is.
function M.begin(of_typed, of_flow, of_mode, of_opts)
  typed, flow, mode, opts = of_typed, of_flow, of_mode, of_opts
  parts, cache, level = { launch = {}, row = {}, block = {}, body = {} }, {}, {}
  count, free, accesses, places = { s = 0, w = 0, r = 0, m = 0 }, { w = {}, r = {}, m = {} }, {}, {}
  now = { cur = 0, masks = 1, vars = {} }
  first = kernel.slots(typed)
  local n = 0
  for k = 1, #typed.operands do
    if typed.operands[k].kind == "tensor" then places[k], n = n, n + 1 end
  end
  places.shared, places.constants = n, n + #typed.shared
  return {
    now = now, parts = parts, accesses = accesses, count = count, registers = registers, suffix = suffix,
    emit = emit, mark = mark, take = take, give = give, give_register = give_register, new = new, new_number = new_number, spread = spread,
    move = move, zero = zero, eval = eval, access = access, tests = tests,
    put = put, is_one = is_one, array_of = array_of, real_text = real_text, whole_text = whole_text, lane = lane,
  }
end

-- Lets go of the last code's tree.
function M.finish()
  uniform.finish()
  typed, flow, opts, parts, cache, now = nil, nil, nil, nil, nil, nil
end
