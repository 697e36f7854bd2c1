-- Vectors, matrices and quaternions in a kernel: values of several floats, which are gone in the typed tree.
--
-- They mean what kernel/vectors.lua makes of the same words in plain Lua, operation for operation, so that a kernel that computes
-- in float64 gives the same bits. Components lie in `parts`, those of matrices row by row.
--
-- Invariant: a part that is used more than once is held in a variable first.

local M = ...
local build, expr, flow, parse = use "kernel/build", use "kernel/expr", use "kernel/flow", use "kernel/parse"
local types = use "kernel/types"
local small = use("kernel/vectors.c", "metatables")()
local dims = { vec2 = 2, vec3 = 3, vec4 = 4, quat = 4, mat2 = 2, mat3 = 3, mat4 = 4 }
local is_matrix = { mat2 = true, mat3 = true, mat4 = true }
local vectors = { "", "vec2", "vec3", "vec4" } -- by the number of components
local names, fields = { "x", "y", "z", "w" }, { x = 1, y = 2, z = 3, w = 4 }

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

local function dot(a, b, from_a, step_a, from_b, step_b, n)
  local e
  for k = 0, n - 1 do
    local product = mul(a.parts[from_a + k * step_a], b.parts[from_b + k * step_b])
    e = e and add(e, product) or product
  end
  return e
end

local function matrix_product(c, a, b)
  local n = dims[a.kind]
  a, b = flow.hold(c, a), flow.hold(c, b)
  return make_of(a.kind, function(i, k) return dot(a, b, (i - 1) * n + 1, 1, k, n, n) end)
end

local function matrix_vector(c, m, v)
  local n = dims[m.kind]
  v = flow.hold(c, v)
  return make_of(v.kind, function(_, k) return dot(m, v, (k - 1) * n + 1, 1, 1, 1, n) end)
end

local function hamilton(c, a, b)
  a, b = flow.hold(c, a), flow.hold(c, b)
  local ax, ay, az, aw = unpack(a.parts, 1, 4)
  local bx, by, bz, bw = unpack(b.parts, 1, 4)
  return make("quat", {
    sub_of(add(add(mul(aw, bx), mul(ax, bw)), mul(ay, bz)), mul(az, by)), add(add(sub_of(mul(aw, by), mul(ax, bz)), mul(ay, bw)), mul(az, bx)),
    add(sub_of(add(mul(aw, bz), mul(ax, by)), mul(ay, bx)), mul(az, bw)), sub_of(sub_of(sub_of(mul(aw, bw), mul(ax, bx)), mul(ay, by)), mul(az, bz)),
  })
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
    if a.kind == b.kind and op == "mul" then return (kind == "quat" and hamilton or matrix_product)(c, a, b) end
    if op == "mul" and is_matrix[a.kind] and b.kind == vectors[dims[a.kind]] then return matrix_vector(c, a, b) end
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

local function dot_of(a, b) return dot(a, b, 1, 1, 1, 1, #a.parts) end

function functions.dot(c, node, v, args)
  no_matrix(c, node, v, "dot")
  return dot_of(v, alike(c, node, v, args[1], "dot"))
end

function functions.cross(c, node, v, args)
  if v.kind ~= "vec3" then bad(c, node, "got a " .. v.kind .. ", expected a vec3 for cross") end
  local a, b = flow.hold(c, v).parts, flow.hold(c, alike(c, node, v, args[1], "cross")).parts
  return make("vec3", {
    sub_of(mul(a[2], b[3]), mul(a[3], b[2])), sub_of(mul(a[3], b[1]), mul(a[1], b[3])), sub_of(mul(a[1], b[2]), mul(a[2], b[1])),
  })
end

function functions.length(c, node, v)
  no_matrix(c, node, v, "length")
  v = flow.hold(c, v)
  return build.call_float("sqrt", dot_of(v, v))
end

function functions.normalize(c, node, v)
  no_matrix(c, node, v, "normalize")
  v = flow.hold(c, v)
  local l = flow.hold(c, functions.length(c, node, v))
  return each_part(v, function(x) return div(x, l) end)
end

function functions.reflect(c, node, v, args)
  if is_matrix[v.kind] or v.kind == "quat" then bad(c, node, "got a " .. v.kind .. ", expected a vector for reflect") end
  v = flow.hold(c, v)
  local n = flow.hold(c, alike(c, node, v, args[1], "reflect"))
  local d = flow.hold(c, mul(build.const(2.0, "f"), dot_of(v, n)))
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
  return make_of(v.kind, function(i, k) return v.parts[(k - 1) * dims[v.kind] + i] end)
end

-- a * b - x * y
local function minor(a, b, x, y) return sub_of(mul(a, b), mul(x, y)) end

local inverses = {}

function inverses.quat(_, v)
  local x, y, z, w = unpack(v.parts, 1, 4)
  local d = dot_of(v, v)
  return d, function(s)
    return make("quat", { div(build.negate(x), s), div(build.negate(y), s), div(build.negate(z), s), div(w, s) })
  end
end

local one = build.const(1.0, "f")

function inverses.mat2(_, v)
  local a, b, c2, d = unpack(v.parts, 1, 4)
  return div(one, minor(a, d, b, c2)), function(s)
    return make("mat2", { mul(d, s), mul(build.negate(b), s), mul(build.negate(c2), s), mul(a, s) })
  end
end

function inverses.mat3(c, v)
  local px, py, pz, qx, qy, qz, rx, ry, rz = unpack(v.parts, 1, 9)
  local a, b = flow.hold(c, minor(qy, rz, qz, ry)), flow.hold(c, minor(qz, rx, qx, rz))
  local d = flow.hold(c, minor(qx, ry, qy, rx))
  return div(one, add(add(mul(px, a), mul(py, b)), mul(pz, d))), function(s)
    return make("mat3", {
      mul(a, s), mul(minor(pz, ry, py, rz), s), mul(minor(py, qz, pz, qy), s), mul(b, s), mul(minor(px, rz, pz, rx), s), mul(minor(pz, qx, px, qz), s),
      mul(d, s), mul(minor(py, rx, px, ry), s), mul(minor(px, qy, py, qx), s),
    })
  end
end

-- By the minors of the upper two rows (a) and of the lower two (b).
function inverses.mat4(c, v)
  local px, py, pz, pw, qx, qy, qz, qw, rx, ry, rz, rw, tx, ty, tz, tw = unpack(v.parts, 1, 16)
  local function hold(a, b, x, y) return flow.hold(c, minor(a, b, x, y)) end
  local a1, a2, a3 = hold(px, qy, py, qx), hold(px, qz, pz, qx), hold(px, qw, pw, qx)
  local a4, a5, a6 = hold(py, qz, pz, qy), hold(py, qw, pw, qy), hold(pz, qw, pw, qz)
  local b1, b2, b3 = hold(rx, ty, ry, tx), hold(rx, tz, rz, tx), hold(rx, tw, rw, tx)
  local b4, b5, b6 = hold(ry, tz, rz, ty), hold(ry, tw, rw, ty), hold(rz, tw, rw, tz)
  local d = add(sub_of(mul(a1, b6), mul(a2, b5)), mul(a3, b4))
  d = add(sub_of(add(d, mul(a4, b3)), mul(a5, b2)), mul(a6, b1))
  return div(one, d), function(s)
    local function plus(x, i, y, j, z, k) return mul(add(sub_of(mul(x, i), mul(y, j)), mul(z, k)), s) end
    local function minus(x, i, y, j, z, k) return mul(sub_of(sub_of(mul(x, i), mul(y, j)), mul(z, k)), s) end
    return make("mat4", {
      plus(qy, b6, qz, b5, qw, b4), minus(pz, b5, py, b6, pw, b4), plus(ty, a6, tz, a5, tw, a4), minus(rz, a5, ry, a6, rw, a4),
      minus(qz, b3, qx, b6, qw, b2), plus(px, b6, pz, b3, pw, b2), minus(tz, a3, tx, a6, tw, a2), plus(rx, a6, rz, a3, rw, a2),
      plus(qx, b5, qy, b3, qw, b1), minus(py, b3, px, b5, pw, b1), plus(tx, a5, ty, a3, tw, a1), minus(ry, a3, rx, a5, rw, a1),
      minus(qy, b2, qx, b4, qz, b1), plus(px, b4, py, b2, pz, b1), minus(ty, a2, tx, a4, tz, a1), plus(rx, a4, ry, a2, rz, a1),
    })
  end
end

function functions.inverse(c, node, v)
  local of = inverses[v.kind]
  if not of then bad(c, node, "got a " .. v.kind .. ", expected a matrix or a quat for inverse") end
  local s, finish = of(c, flow.hold(c, v))
  return finish(flow.hold(c, s))
end

function functions.rotate(c, node, v, args)
  local w = args[1]
  if v.kind ~= "quat" or not w or w.kind ~= "vec3" then
    bad(c, node, "got " .. flow.describe(v) .. " and " .. (w and flow.describe(w) or "nothing") .. ", expected a quat and a vec3 for rotate")
  end
  v, w = flow.hold(c, v), flow.hold(c, w)
  local qx, qy, qz, qw = unpack(v.parts, 1, 4)
  local vx, vy, vz = unpack(w.parts, 1, 3)
  local two = build.const(2.0, "f")
  local x = flow.hold(c, mul(two, minor(qy, vz, qz, vy)))
  local y = flow.hold(c, mul(two, minor(qz, vx, qx, vz)))
  local z = flow.hold(c, mul(two, minor(qx, vy, qy, vx)))
  return make("vec3", {
    add(add(vx, mul(qw, x)), minor(qy, z, qz, y)), add(add(vy, mul(qw, y)), minor(qz, x, qx, z)), add(add(vz, mul(qw, z)), minor(qx, y, qy, x)),
  })
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
