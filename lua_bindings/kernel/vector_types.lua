-- Vectors, matrices and quaternions in a kernel: values of several floats, which are gone in the typed tree.
--
-- They mean what kernel/vectors.lua makes of the same words in plain Lua, operation for operation, so that a kernel that computes
-- in float64 gives the same bits. Products, inverses and the like are written there alone: in_lua runs them on symbols in place
-- of numbers. Components lie in `parts`, those of matrices row by row.
--
-- Invariant: a part that is used more than once is held in a variable first.

local M = ...
local build, expr, flow, parse = use "kernel/build", use "kernel/expr", use "kernel/flow", use "kernel/parse"
local types = use "kernel/types"
local metatables, seal = use("kernel/vectors.c", "metatables", "seal")
local plain_lua = use "kernel/vectors"
local small = metatables()
local dims = { vec2 = 2, vec3 = 3, vec4 = 4, quat = 4, mat2 = 2, mat3 = 3, mat4 = 4 }
local is_matrix = { mat2 = true, mat3 = true, mat4 = true }
local vectors = { "", "vec2", "vec3", "vec4" } -- by the number of components
local names, fields, keys = { "x", "y", "z", "w" }, { x = 1, y = 2, z = 3, w = 4 }, { "_x", "_y", "_z", "_w" }

local function bad(c, node, message) expr.bad(c, node, message) end

local function make(kind, parts) return { what = "vector", kind = kind, parts = parts } end

-- One of what fn(i, k) gives: component k, of a matrix in row i.
local function make_of(kind, fn)
  local n, parts = dims[kind], {}
  for i = 1, is_matrix[kind] and n or 1 do
    for k = 1, n do parts[#parts + 1] = fn(i, k) end
  end
  return make(kind, parts)
end

local function add(a, b) return build.arithmetic("add", a, b) end
local function sub_of(a, b) return build.arithmetic("sub", a, b) end
local function mul(a, b) return build.arithmetic("mul", a, b) end
local function div(a, b) return build.arithmetic("div", a, b) end

-- M.small_kind(v): which of them a table is, or nil.
function M.small_kind(v)
  local meta = getmeta(v)
  for kind in next, dims do
    if meta and meta == small[kind] then return kind end
  end
end

-- M.outside(kind, number): one that stands outside of the kernel; number(row or nil, field) is a component.
function M.outside(kind, number)
  return make_of(kind, function(i, k) return build.float(number(is_matrix[kind] and i or nil, names[k])) end)
end

-- ---- functions of plain Lua ----

local symbols = {} -- the metatable
local now -- {uses = how often each symbol is an operand, count = symbols so far, c = where expressions are built, or nil}

local function symbol(e)
  now.count = now.count + 1
  return setmeta({ number = now.count, e = e }, symbols)
end

local function operand(x)
  if type(x) == "number" then return build.const(x * 1.0, "f") end
  now.uses[x.number] = (now.uses[x.number] or 0) + 1
  return x.e
end

-- What fn makes of the operands is held where it is used more than once.
local function computed(fn, ...)
  if not now.c then return symbol() end
  local e = fn(...)
  return symbol(now.uses[now.count + 1] and now.uses[now.count + 1] > 1 and flow.hold(now.c, e) or e)
end

for key, op in next, { __add = "add", __sub = "sub", __mul = "mul", __div = "div" } do
  symbols[key] = function(a, b) return computed(build.arithmetic, op, operand(a), operand(b)) end
end
function symbols.__unm(a) return computed(build.negate, operand(a)) end

-- A vector or matrix of plain Lua whose components are symbols.
local function to_lua(v)
  local n = dims[v.kind]
  local function filled(kind, from)
    local t = {}
    for k = 1, n do t[keys[k]] = from and symbol(v.parts[from + k]) or filled(vectors[n], (k - 1) * n) end
    return seal(t, small[kind])
  end
  return filled(v.kind, not is_matrix[v.kind] and 0)
end

local function from_lua(x)
  local kind = M.small_kind(x)
  if not kind then return x.e end
  return make_of(kind, function(i, k) return (is_matrix[kind] and x[keys[i]] or x)[keys[k]].e end)
end

-- What the function of plain Lua gives for these vectors: it runs once to count how often it uses a number, and once to
-- build expressions.
local function in_lua(c, f, ...)
  local args, at = { ... }, 0
  local function run(where)
    local list = {}
    now.count, now.c = 0, where
    for k = 1, #args do list[k] = to_lua(args[k]) end
    return f(unpack(list, 1, #list))
  end
  now = { uses = {} }
  run()
  for k = 1, #args do
    local again = false
    for i = 1, #args[k].parts do again = again or (now.uses[at + i] or 0) > 1 end
    at = at + #args[k].parts
    if again then args[k] = flow.hold(c, args[k]) end
  end
  local result = from_lua(run(c))
  now = nil
  return result
end

-- ---- what they are made of ----

-- A call checks that the rows of the tensor are such vectors or matrices, but where a kernel takes them for several kinds.
local function fix_rows(c, base, kind)
  local x = base.n and c.operands[base.n]
  if not x then return end
  local row, rows = dims[kind], is_matrix[kind] and dims[kind] or 0
  if x.row and (x.row ~= row or x.rows ~= rows) then row, rows = 0, 0 end
  x.row, x.rows = row, rows
end

-- The place of component k, of a matrix in row i, of the vector or matrix in that row of a tensor.
local function place_in(row, kind, i, k)
  local last = build.const(k, "i")
  return expr.row_of(row, is_matrix[kind] and { build.const(i, "i"), last } or { last })
end

-- The elements of a row of a tensor.
local function from_row(c, node, kind, row)
  local missing = expr.ndim(c, row.base) - #row.index
  local want = is_matrix[kind] and 2 or 1
  if missing ~= want then
    bad(c, node, "got " .. (missing == 0 and "an element" or missing .. " dimensions") .. " of tensor '" .. row.base.name .. "', expected "
      .. (want == 1 and "a row, p[i]" or "rows, p[i] of a tensor of " .. #row.index + 2 .. " dimensions") .. " for tide." .. kind)
  end
  fix_rows(c, row.base, kind)
  row = flow.hold(c, row)
  return make_of(kind, function(i, k)
    local e = expr.load(c, place_in(row, kind, i, k), node)
    return e.type == "b" and build.choose(e, build.const(1.0, "f"), build.const(0.0, "f")) or build.float(e)
  end)
end

local function diagonal(kind, e)
  local zero = build.const(0.0, "f")
  return make_of(kind, function(i, k) return (i == k or not is_matrix[kind]) and e or zero end)
end

-- M.make(c, node, kind, args): tide.vec3(...) and the like.
function M.make(c, node, kind, args)
  local values, parts = expr.list_of(c, args), {}
  local first, want = values[1], is_matrix[kind] and dims[kind] * dims[kind] or dims[kind]
  if #values == 1 and (first.what == "row" or first.what == "tensor") then
    return from_row(c, node, kind, expr.row_of(first))
  end
  if #values == 1 and not first.what and kind ~= "quat" then
    return diagonal(kind, flow.hold(c, build.float(expr.number(c, args[1], first))))
  end
  if #values == 1 and first.kind == kind then return first end
  for k = 1, #values do
    local v, at = values[k], args[k] or node
    if v.what == "row" or v.what == "tensor" then bad(c, at, "got a row of a tensor beside other values, expected it alone: tide." .. kind .. "(p[i])") end
    if v.what == "vector" and is_matrix[v.kind] then bad(c, at, "got a " .. v.kind .. ", expected numbers and vectors for tide." .. kind) end
    if v.what == "vector" then
      for i = 1, #v.parts do parts[#parts + 1] = v.parts[i] end
    else
      parts[#parts + 1] = build.float(expr.number(c, at, v, "a number or a vector for tide." .. kind))
    end
  end
  if #parts ~= want then bad(c, node, "got " .. #parts .. " components, expected " .. want .. (kind == "quat" and "" or " or 1") .. " for tide." .. kind) end
  return make(kind, parts)
end

-- ---- parts ----

local function row_at(m, i)
  local n = dims[m.kind]
  return make_of(vectors[n], function(_, k) return m.parts[(i - 1) * n + k] end)
end

function M.field(c, node, v, name)
  local k = not is_matrix[v.kind] and fields[name]
  if k and k <= dims[v.kind] then return v.parts[k] end
  local has = is_matrix[v.kind] and "an index from 1 to " .. dims[v.kind] or sub("x, y, z, w", 1, 3 * dims[v.kind] - 2)
  bad(c, node, "got field '" .. name .. "' of a " .. v.kind .. ", expected " .. has)
end

-- An index that is computed, read from a table of as many numbers where it may lie outside, since that reports it.
local function inside(c, node, e, n)
  if e.lo >= 1 and e.hi <= n then return e end
  local name = vectors[n]
  if not c.counts[n] then
    local values = {}
    for k = 1, n do values[k] = k end
    c.constants[#c.constants + 1] = { dtype = "int64", sizes = { n }, values = values }
    c.counts[n] = #c.constants
  end
  return build.ranged(expr.load(c, { base = { constant = c.counts[n], name = name }, index = { e } }, node), 0.0, n + 0.0)
end

function M.index(c, node, v, key)
  local e, n = expr.integer(c, node.key, key, "an integer as index"), dims[v.kind]
  local function at(k) return is_matrix[v.kind] and row_at(v, k) or v.parts[k] end
  if e.op == "const" then
    if not (e.value >= 1 and e.value <= n) then bad(c, node.key, "got index " .. text(e.value) .. ", expected 1 to " .. n .. " of a " .. v.kind) end
    return at(e.value)
  end
  e, v = flow.hold(c, inside(c, node, e, n)), flow.hold(c, v)
  local chosen = at(n)
  for k = n - 1, 1, -1 do
    local cond, one = build.compare("eq", e, build.const(k, "i")), at(k)
    if one.what then
      local otherwise = chosen
      chosen = make_of(one.kind, function(_, i) return build.choose(cond, one.parts[i], otherwise.parts[i]) end)
    else
      chosen = build.choose(cond, one, chosen)
    end
  end
  return chosen
end

-- M.store(c, node, row, v): p[i] = v.
function M.store(c, node, row, v)
  local missing, n = expr.ndim(c, row.base) - #row.index, dims[v.kind]
  local want = is_matrix[v.kind] and 2 or 1
  if missing ~= want then
    bad(c, node, "got a " .. v.kind .. " for " .. (missing == 0 and "an element" or missing .. " dimensions") .. " of tensor '" .. row.base.name
      .. "', expected " .. (missing == 0 and "a number, such as v.x" or "as many indexes as leave " .. want))
  end
  fix_rows(c, row.base, v.kind)
  row, v = flow.hold(c, row), flow.hold(c, v)
  for k = 1, #v.parts do types.store(c, place_in(row, v.kind, (k - 1) // n + 1, (k - 1) % n + 1), v.parts[k], node) end
end

-- ---- operators ----

local function each_part(a, fn)
  local n = dims[a.kind]
  return make_of(a.kind, function(i, k) return fn(a.parts[(i - 1) * n + k], (i - 1) * n + k) end)
end

local function by_parts(op, a, b) return each_part(a, function(x, k) return build.arithmetic(op, x, b.parts[k]) end) end

local function with_number(c, op, a, b)
  if a.what then
    b = flow.hold(c, build.float(b))
    return each_part(a, function(x) return build.arithmetic(op, x, b) end)
  end
  a = flow.hold(c, build.float(a))
  return each_part(b, function(y) return build.arithmetic(op, a, y) end)
end

local function is_number(v) return not v.what and v.type ~= "b" end

local function hint(op, a, b)
  if op == "mul" and a.kind == "quat" and b.kind == "vec3" then return ": q:rotate(v) turns a vector" end
  if op == "mul" and b.kind and is_matrix[b.kind] and a.kind then return ": m * v takes the vector on the right, m:transpose() * v is the other product" end
  if op == "div" and b.kind and (is_matrix[b.kind] or b.kind == "quat") then return ": a * b:inverse()" end
  return ""
end

-- M.operator(c, node, a, b): one of them is a vector.
function M.operator(c, node, a, b)
  local op = node.op
  local known = op == "add" or op == "sub" or op == "mul" or op == "div"
  local kind = a.kind or b.kind
  local plain = not is_matrix[kind] and kind ~= "quat"
  if known and a.what == "vector" and b.what == "vector" then
    if a.kind == b.kind and (plain or op == "add" or op == "sub") then return by_parts(op, a, b) end
    if a.kind == b.kind and op == "mul" then return in_lua(c, plain_lua.method_of(kind, "__mul"), a, b) end
    if op == "mul" and is_matrix[a.kind] and b.kind == vectors[dims[a.kind]] then return in_lua(c, plain_lua.method_of(a.kind, "__mul"), a, b) end
  elseif known and (is_number(a) or is_number(b)) then
    if plain or op == "mul" or op == "div" and a.what == "vector" then return with_number(c, op, a, b) end
  end
  bad(c, node, "got " .. flow.describe(a) .. " " .. parse.sign(op) .. " " .. flow.describe(b) .. ", which there is not, expected two of the same kind, or a number"
    .. hint(op, a, b))
end

function M.negate(_, _, v) return each_part(v, build.negate) end

-- M.equal(c, node, a, b)
function M.equal(_, node, a, b)
  local same = build.const(a.kind == b.kind, "b")
  for k = 1, a.kind == b.kind and #a.parts or 0 do same = build.logic("and", same, build.compare("eq", a.parts[k], b.parts[k])) end
  return node.op == "ne" and build.logical_not(same) or same
end

-- ---- functions ----

local functions = {} -- fn(c, node, v, args): args are values

local function alike(c, node, v, w, name)
  if not w or w.what ~= "vector" or w.kind ~= v.kind then
    bad(c, node, "got " .. (w and flow.describe(w) or "nothing") .. ", expected a " .. v.kind .. " as second argument of " .. name)
  end
  return w
end

local function no_matrix(c, node, v, name)
  if is_matrix[v.kind] then bad(c, node, "got a " .. v.kind .. ", expected a vector or a quat for " .. name) end
end

local function dot_of(c, a, b) return in_lua(c, plain_lua.method_of(a.kind, "dot"), a, b) end

function functions.dot(c, node, v, args)
  no_matrix(c, node, v, "dot")
  return dot_of(c, v, alike(c, node, v, args[1], "dot"))
end

function functions.cross(c, node, v, args)
  if v.kind ~= "vec3" then bad(c, node, "got a " .. v.kind .. ", expected a vec3 for cross") end
  return in_lua(c, plain_lua.method_of(v.kind, "cross"), v, alike(c, node, v, args[1], "cross"))
end

function functions.length(c, node, v)
  no_matrix(c, node, v, "length")
  v = flow.hold(c, v)
  return build.call_float("sqrt", dot_of(c, v, v))
end

function functions.normalize(c, node, v)
  no_matrix(c, node, v, "normalize")
  v = flow.hold(c, v)
  local l = flow.hold(c, functions.length(c, node, v))
  return each_part(v, function(x)
    local e = div(x, l)
    e.by_inverse = e.op == "div" -- a length is never so small or large that this loses more than the last bit
    return e
  end)
end

function functions.reflect(c, node, v, args)
  if is_matrix[v.kind] or v.kind == "quat" then bad(c, node, "got a " .. v.kind .. ", expected a vector for reflect") end
  v = flow.hold(c, v)
  local n = flow.hold(c, alike(c, node, v, args[1], "reflect"))
  local d = flow.hold(c, mul(build.const(2.0, "f"), dot_of(c, v, n)))
  return each_part(v, function(x, k) return sub_of(x, mul(d, n.parts[k])) end)
end

function functions.mix(c, node, v, args)
  no_matrix(c, node, v, "mix")
  v = flow.hold(c, v)
  local b, t = alike(c, node, v, args[1], "mix"), args[2]
  if t and t.what == "vector" and v.kind ~= "quat" then
    if t.kind ~= v.kind then bad(c, node, "got a " .. t.kind .. ", expected a number or a " .. v.kind .. " as third argument of mix") end
  else
    t = flow.hold(c, build.float(expr.number(c, node, t or { what = "nil" }, "a number as third argument of mix")))
  end
  return each_part(v, function(x, k) return add(x, mul(sub_of(b.parts[k], x), t.what and t.parts[k] or t)) end)
end

function functions.clamp(c, node, v, args)
  if is_matrix[v.kind] or v.kind == "quat" then bad(c, node, "got a " .. v.kind .. ", expected a vector for clamp") end
  local limits = {}
  for k = 1, 2 do
    local w = args[k] or { what = "nil" }
    if w.what == "vector" then
      limits[k] = alike(c, node, v, w, "clamp")
    else
      limits[k] = diagonal(v.kind, flow.hold(c, build.float(expr.number(c, node, w, "a number or a " .. v.kind .. " as limit of clamp"))))
    end
  end
  return each_part(v, function(x, k) return build.extreme("min", build.extreme("max", x, limits[1].parts[k]), limits[2].parts[k]) end)
end

function functions.transpose(c, node, v)
  if not is_matrix[v.kind] then bad(c, node, "got a " .. v.kind .. ", expected a matrix for transpose") end
  return in_lua(c, plain_lua.method_of(v.kind, "transpose"), v)
end

function functions.inverse(c, node, v)
  if not is_matrix[v.kind] and v.kind ~= "quat" then bad(c, node, "got a " .. v.kind .. ", expected a matrix or a quat for inverse") end
  return in_lua(c, plain_lua.method_of(v.kind, "inverse"), v)
end

function functions.rotate(c, node, v, args)
  local w = args[1]
  if v.kind ~= "quat" or not w or w.kind ~= "vec3" then
    bad(c, node, "got " .. flow.describe(v) .. " and " .. (w and flow.describe(w) or "nothing") .. ", expected a quat and a vec3 for rotate")
  end
  return in_lua(c, plain_lua.method_of(v.kind, "rotate"), v, w)
end

-- M.method(c, node, v): v:dot(w) and the like.
function M.method(c, node, v)
  local of = functions[node.name]
  if not of then bad(c, node, "got method '" .. node.name .. "' of a " .. v.kind .. ", expected dot, cross, length, normalize, reflect, mix, clamp, transpose, inverse or rotate") end
  local before = #c.out
  local args = expr.list_of(c, node.args)
  if #c.out > before then v = flow.hold_at(c, before, v) end
  return { of(c, node, v, args) }
end

local of_numbers = { clamp = "math.min(math.max(x, low), high)", mix = "a + (b - a) * t", length = "math.abs(x)" }

-- M.call(c, node, name, args): tide.dot(v, w) and the like.
function M.call(c, node, name, args)
  local values = expr.list_of(c, args)
  local v, rest = values[1], {}
  if not v or v.what ~= "vector" then
    bad(c, args[1] or node, "got " .. (v and flow.describe(v) or "nothing") .. ", expected a vector, a matrix or a quat as first argument of tide." .. name
      .. (v and not v.what and of_numbers[name] and ": of numbers it is " .. of_numbers[name] or ""))
  end
  for k = 2, #values do rest[k - 1] = values[k] end
  return functions[name](c, node, v, rest)
end
