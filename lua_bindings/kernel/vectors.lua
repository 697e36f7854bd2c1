-- Small vectors, matrices and quaternions as values of plain Lua: what the same words mean in a kernel.
--
-- A vector has the fields x y z w, a matrix its rows, which are vectors, at 1 to 4; a quaternion is (x, y, z, w). All
-- components are floats. The table has them as _x _y _z _w: Lua asks a metatable only about keys that a table does not
-- have, so x and 1 are read by __index, and __newindex refuses v.x = 5. The metatables are made in vectors.c, which
-- knows values by them, and are filled here: a value costs one table and no closure. Operators and methods are called by
-- scripts directly, without a function in C between.
--
-- The order of the operations is part of what they mean: a kernel in float64 gives the same bits.
--
-- Invariant: a value has all of its components, and what an operator returns is a new one.

local M = ...
local metatables, seal, sqrt, filled, written = use("kernel/vectors.c", "metatables", "seal", "sqrt", "filled", "written")
local is_tensor, sizes_of = use("tensor/compose.c", "is_tensor", "sizes_of")
local small = metatables()
local vec2, vec3, vec4, quat = small.vec2, small.vec3, small.vec4, small.quat
local mat2, mat3, mat4 = small.mat2, small.mat3, small.mat4
local name_of = { [vec2] = "vec2", [vec3] = "vec3", [vec4] = "vec4", [quat] = "quat", [mat2] = "mat2", [mat3] = "mat3", [mat4] = "mat4" }
local dims = { [vec2] = 2, [vec3] = 3, [vec4] = 4, [quat] = 4, [mat2] = 2, [mat3] = 3, [mat4] = 4 }
local is_matrix = { [mat2] = true, [mat3] = true, [mat4] = true }
local fields = { "_x", "_y", "_z", "_w" }

local function new2(x, y) return seal({ _x = x, _y = y }, vec2) end
local function new3(x, y, z) return seal({ _x = x, _y = y, _z = z }, vec3) end
local function new4(x, y, z, w) return seal({ _x = x, _y = y, _z = z, _w = w }, vec4) end
local function newq(x, y, z, w) return seal({ _x = x, _y = y, _z = z, _w = w }, quat) end

-- The kind of a value, or nil.
local function kind_of(v)
  local meta = type(v) == "table" and getmeta(v)
  return meta and name_of[meta] and meta or nil
end

-- Does it stand for a tensor, as what a function gets that kernel.interpret runs?
local function is_boxed(x)
  local meta = type(x) == "table" and getmeta(x)
  return meta and rawget(meta, "boxed")
end

local function told(v) return kind_of(v) and name_of[getmeta(v)] or describe(v) end

-- {==== Refusals

local function expected_beside(kind, sign)
  local vectors = sign == "*" and ", a vector" or ""
  if (is_matrix[kind] or kind == quat) and sign == "/" then return "a number on the right" end
  local number = sign == "*" and " or a number" or ""
  if is_matrix[kind] then return "a " .. name_of[kind] .. vectors .. number end
  return kind == quat and "a quat" .. number or "a " .. name_of[kind] .. " or a number"
end

local function refuse_operands(sign, a, b)
  local x, y = kind_of(a), kind_of(b)
  local hint = ""
  if x == quat and y == vec3 and sign == "*" then
    hint = "; q:rotate(v) turns a vector"
  elseif is_matrix[y] and sign == "*" and x and not is_matrix[x] then
    hint = "; m * v takes the vector on the right, m:transpose() * v is the other product"
  elseif (is_matrix[y] or y == quat) and sign == "/" then
    hint = "; a * b:inverse()"
  end
  fail("ArgumentError", told(a) .. " " .. sign .. " " .. told(b) .. ": there is no such operation, expected beside the "
    .. name_of[x or y] .. " " .. expected_beside(x or y, sign) .. hint)
end

local function refuse_argument(fn, name, got, expected)
  fail("ArgumentError", fn .. ": " .. name .. ": got " .. told(got) .. ", expected " .. expected)
end

-- {==== Vectors: by components, or with a number on either side

-- What stands beside a vector: tensors take its components as a list.
local function other(sign, a, b)
  if is_tensor(a) or is_tensor(b) then
    if not is_tensor(a) then a = plain_shape(a) else b = plain_shape(b) end
    if sign == "+" then return a + b elseif sign == "-" then return a - b elseif sign == "*" then return a * b end
    return a / b
  end
  return refuse_operands(sign, a, b)
end

-- The operators of vectors of n components. They are written out for these, as a call for each would cost more than the operator.
local function fill_vector(meta, new, n)
  local function parts(form)
    local list = {}
    for k = 1, n do list[k] = replace(form, "@", fields[k]) end
    return join(list, ", ")
  end
  local operator = "local getmeta, type, new, other = ... return function(a, b)"
    .. " if getmeta(a) == getmeta(b) then return new(" .. parts "a.@ % b.@" .. ") end"
    .. " if type(b) == 'number' then return new(" .. parts "a.@ % b" .. ") end"
    .. " if type(a) == 'number' then return new(" .. parts "a % b.@" .. ") end"
    .. " return other('%', a, b) end"
  for name, sign in next, { __add = "+", __sub = "-", __mul = "*", __div = "/" } do
    meta[name] = written(replace(operator, "%", sign))(getmeta, type, new, other)
  end
end
fill_vector(vec2, new2, 2)
fill_vector(vec3, new3, 3)
fill_vector(vec4, new4, 4)

function vec2.__unm(a) return new2(-a._x, -a._y) end
function vec3.__unm(a) return new3(-a._x, -a._y, -a._z) end
function vec4.__unm(a) return new4(-a._x, -a._y, -a._z, -a._w) end
function quat.__unm(a) return newq(-a._x, -a._y, -a._z, -a._w) end

function vec2.__eq(a, b) return getmeta(a) == getmeta(b) and a._x == b._x and a._y == b._y end
function vec3.__eq(a, b) return getmeta(a) == getmeta(b) and a._x == b._x and a._y == b._y and a._z == b._z end
function vec4.__eq(a, b) return getmeta(a) == getmeta(b) and a._x == b._x and a._y == b._y and a._z == b._z and a._w == b._w end
quat.__eq = vec4.__eq

-- {==== Quaternions

function quat.__add(a, b)
  if getmeta(a) ~= getmeta(b) then return refuse_operands("+", a, b) end
  return newq(a._x + b._x, a._y + b._y, a._z + b._z, a._w + b._w)
end
function quat.__sub(a, b)
  if getmeta(a) ~= getmeta(b) then return refuse_operands("-", a, b) end
  return newq(a._x - b._x, a._y - b._y, a._z - b._z, a._w - b._w)
end
function quat.__mul(a, b)
  if getmeta(a) == getmeta(b) then
    return newq(a._w * b._x + a._x * b._w + a._y * b._z - a._z * b._y, a._w * b._y - a._x * b._z + a._y * b._w + a._z * b._x,
      a._w * b._z + a._x * b._y - a._y * b._x + a._z * b._w, a._w * b._w - a._x * b._x - a._y * b._y - a._z * b._z)
  end
  if type(b) == "number" then return newq(a._x * b, a._y * b, a._z * b, a._w * b) end
  if type(a) == "number" then return newq(a * b._x, a * b._y, a * b._z, a * b._w) end
  return refuse_operands("*", a, b)
end
function quat.__div(a, b)
  if type(b) ~= "number" then return refuse_operands("/", a, b) end
  return newq(a._x / b, a._y / b, a._z / b, a._w / b)
end

-- {==== Matrices: rows

-- Row r of a matrix by the rows of another.
local function through2(r, m) return new2(r._x * m._x._x + r._y * m._y._x, r._x * m._x._y + r._y * m._y._y) end
local function through3(r, m)
  local a, b, c = m._x, m._y, m._z
  return new3(r._x * a._x + r._y * b._x + r._z * c._x, r._x * a._y + r._y * b._y + r._z * c._y, r._x * a._z + r._y * b._z + r._z * c._z)
end
local function through4(r, m)
  local a, b, c, d = m._x, m._y, m._z, m._w
  return new4(r._x * a._x + r._y * b._x + r._z * c._x + r._w * d._x, r._x * a._y + r._y * b._y + r._z * c._y + r._w * d._y,
    r._x * a._z + r._y * b._z + r._z * c._z + r._w * d._z, r._x * a._w + r._y * b._w + r._z * c._w + r._w * d._w)
end

-- A matrix of what f(row, other) gives for each row.
local function by_rows(m, f, b)
  local kind = getmeta(m)
  local n, rows = dims[kind], { _x = f(m._x, b), _y = f(m._y, b) }
  if n > 2 then rows._z = f(m._z, b) end
  if n > 3 then rows._w = f(m._w, b) end
  return seal(rows, kind)
end

local function add_rows(a, b, f)
  local rows = {}
  for i = 1, dims[getmeta(a)] do rows[fields[i]] = f(a[fields[i]], b[fields[i]]) end
  return seal(rows, getmeta(a))
end

local function fill_matrix(meta, vector, through, times)
  function meta.__add(a, b)
    if getmeta(a) ~= getmeta(b) then return refuse_operands("+", a, b) end
    return add_rows(a, b, vector.__add)
  end
  function meta.__sub(a, b)
    if getmeta(a) ~= getmeta(b) then return refuse_operands("-", a, b) end
    return add_rows(a, b, vector.__sub)
  end
  function meta.__mul(a, b)
    local p, q = getmeta(a), getmeta(b)
    if p == q then return by_rows(a, through, b) end
    if p == meta and q == vector then return times(a, b) end
    if type(b) == "number" then return by_rows(a, vector.__mul, b) end
    if type(a) == "number" then return by_rows(b, vector.__mul, a) end
    return refuse_operands("*", a, b)
  end
  function meta.__div(a, b)
    if type(b) ~= "number" then return refuse_operands("/", a, b) end
    return by_rows(a, vector.__div, b)
  end
  function meta.__unm(a) return by_rows(a, vector.__unm) end
  function meta.__eq(a, b)
    if getmeta(a) ~= getmeta(b) then return false end
    for i = 1, dims[meta] do
      if not vector.__eq(a[fields[i]], b[fields[i]]) then return false end
    end
    return true
  end
end

fill_matrix(mat2, vec2, through2, function(m, v)
  local a, b = m._x, m._y
  return new2(a._x * v._x + a._y * v._y, b._x * v._x + b._y * v._y)
end)
fill_matrix(mat3, vec3, through3, function(m, v)
  local a, b, c = m._x, m._y, m._z
  return new3(a._x * v._x + a._y * v._y + a._z * v._z, b._x * v._x + b._y * v._y + b._z * v._z, c._x * v._x + c._y * v._y + c._z * v._z)
end)
fill_matrix(mat4, vec4, through4, function(m, v)
  local a, b, c, d = m._x, m._y, m._z, m._w
  return new4(a._x * v._x + a._y * v._y + a._z * v._z + a._w * v._w, b._x * v._x + b._y * v._y + b._z * v._z + b._w * v._w,
    c._x * v._x + c._y * v._y + c._z * v._z + c._w * v._w, d._x * v._x + d._y * v._y + d._z * v._z + d._w * v._w)
end)

local function inverse2(m)
  local a, b, c, d = m._x._x, m._x._y, m._y._x, m._y._y
  local s = 1 / (a * d - b * c)
  return seal({ _x = new2(d * s, -b * s), _y = new2(-c * s, a * s) }, mat2)
end

local function inverse3(m)
  local p, q, r = m._x, m._y, m._z
  local a, b, c = q._y * r._z - q._z * r._y, q._z * r._x - q._x * r._z, q._x * r._y - q._y * r._x
  local s = 1 / (p._x * a + p._y * b + p._z * c)
  return seal({
    _x = new3(a * s, (p._z * r._y - p._y * r._z) * s, (p._y * q._z - p._z * q._y) * s),
    _y = new3(b * s, (p._x * r._z - p._z * r._x) * s, (p._z * q._x - p._x * q._z) * s),
    _z = new3(c * s, (p._y * r._x - p._x * r._y) * s, (p._x * q._y - p._y * q._x) * s),
  }, mat3)
end

-- By the minors of the upper two rows (a) and of the lower two (b).
local function inverse4(m)
  local p, q, r, t = m._x, m._y, m._z, m._w
  local a1, a2, a3 = p._x * q._y - p._y * q._x, p._x * q._z - p._z * q._x, p._x * q._w - p._w * q._x
  local a4, a5, a6 = p._y * q._z - p._z * q._y, p._y * q._w - p._w * q._y, p._z * q._w - p._w * q._z
  local b1, b2, b3 = r._x * t._y - r._y * t._x, r._x * t._z - r._z * t._x, r._x * t._w - r._w * t._x
  local b4, b5, b6 = r._y * t._z - r._z * t._y, r._y * t._w - r._w * t._y, r._z * t._w - r._w * t._z
  local s = 1 / (a1 * b6 - a2 * b5 + a3 * b4 + a4 * b3 - a5 * b2 + a6 * b1)
  return seal({
    _x = new4((q._y * b6 - q._z * b5 + q._w * b4) * s, (p._z * b5 - p._y * b6 - p._w * b4) * s,
      (t._y * a6 - t._z * a5 + t._w * a4) * s, (r._z * a5 - r._y * a6 - r._w * a4) * s),
    _y = new4((q._z * b3 - q._x * b6 - q._w * b2) * s, (p._x * b6 - p._z * b3 + p._w * b2) * s,
      (t._z * a3 - t._x * a6 - t._w * a2) * s, (r._x * a6 - r._z * a3 + r._w * a2) * s),
    _z = new4((q._x * b5 - q._y * b3 + q._w * b1) * s, (p._y * b3 - p._x * b5 - p._w * b1) * s,
      (t._x * a5 - t._y * a3 + t._w * a1) * s, (r._y * a3 - r._x * a5 - r._w * a1) * s),
    _w = new4((q._y * b2 - q._x * b4 - q._z * b1) * s, (p._x * b4 - p._y * b2 + p._z * b1) * s,
      (t._y * a2 - t._x * a4 - t._z * a1) * s, (r._x * a4 - r._y * a2 + r._z * a1) * s),
  }, mat4)
end

-- {==== Methods

local function alike(fn, name, a, b)
  if getmeta(a) ~= getmeta(b) then refuse_argument(fn, name, b, "a " .. told(a) .. ", as the first one") end
end

local function dot2(a, b) return a._x * b._x + a._y * b._y end
local function dot3(a, b) return a._x * b._x + a._y * b._y + a._z * b._z end
local function dot4(a, b) return a._x * b._x + a._y * b._y + a._z * b._z + a._w * b._w end
local dots = { [vec2] = dot2, [vec3] = dot3, [vec4] = dot4, [quat] = dot4 }

local function dot(a, b)
  alike("dot", "b", a, b)
  return dots[getmeta(a)](a, b)
end

local function cross(a, b)
  if kind_of(b) ~= vec3 then refuse_argument("cross", "b", b, "a vec3") end
  return new3(a._y * b._z - a._z * b._y, a._z * b._x - a._x * b._z, a._x * b._y - a._y * b._x)
end

local function length(a) return sqrt(dots[getmeta(a)](a, a)) end
local function normalize(a) return a / length(a) end

local function reflect(v, n)
  alike("reflect", "n", v, n)
  return v - 2 * dots[getmeta(v)](v, n) * n
end

local function mix(a, b, t)
  alike("mix", "b", a, b)
  if type(t) ~= "number" and (getmeta(t) ~= getmeta(a) or getmeta(a) == quat) then
    refuse_argument("mix", "t", t, getmeta(a) == quat and "a number" or "a number or a " .. told(a))
  end
  return a + (b - a) * t
end

local function limit(x, low, high)
  if x < low then x = low end
  if high < x then x = high end
  return x * 1.0
end

local function bound(name, v, b)
  if type(b) == "number" then return seal({ _x = b, _y = b, _z = b, _w = b }, getmeta(v)) end
  if getmeta(b) ~= getmeta(v) then refuse_argument("clamp", name, b, "a number or a " .. told(v)) end
  return b
end

local function clamp(v, low, high)
  local a, b, kind = bound("low", v, low), bound("high", v, high), getmeta(v)
  local x, y = limit(v._x, a._x, b._x), limit(v._y, a._y, b._y)
  if kind == vec2 then return new2(x, y) end
  local z = limit(v._z, a._z, b._z)
  if kind == vec3 then return new3(x, y, z) end
  return new4(x, y, z, limit(v._w, a._w, b._w))
end

local function transpose(m)
  local n, rows = dims[getmeta(m)], {}
  for i = 1, n do
    local f = fields[i]
    if n == 2 then rows[f] = new2(m._x[f], m._y[f]) end
    if n == 3 then rows[f] = new3(m._x[f], m._y[f], m._z[f]) end
    if n == 4 then rows[f] = new4(m._x[f], m._y[f], m._z[f], m._w[f]) end
  end
  return seal(rows, getmeta(m))
end

local function inverse(q)
  local d = dot4(q, q)
  return newq(-q._x / d, -q._y / d, -q._z / d, q._w / d)
end

local function rotate(q, v)
  if kind_of(v) ~= vec3 then refuse_argument("rotate", "v", v, "a vec3") end
  local x, y, z = 2 * (q._y * v._z - q._z * v._y), 2 * (q._z * v._x - q._x * v._z), 2 * (q._x * v._y - q._y * v._x)
  return new3(v._x + q._w * x + (q._y * z - q._z * y), v._y + q._w * y + (q._z * x - q._x * z), v._z + q._w * z + (q._x * y - q._y * x))
end

local of_vectors = { dot = dot, length = length, normalize = normalize, reflect = reflect, mix = mix, clamp = clamp }
local of_vec3 = { cross = cross }
for name, f in next, of_vectors do of_vec3[name] = f end
local methods = {
  [vec2] = of_vectors, [vec3] = of_vec3, [vec4] = of_vectors,
  [quat] = { dot = dot, length = length, normalize = normalize, mix = mix, inverse = inverse, rotate = rotate },
  [mat2] = { transpose = transpose, inverse = inverse2 },
  [mat3] = { transpose = transpose, inverse = inverse3 },
  [mat4] = { transpose = transpose, inverse = inverse4 },
}

-- M.method_of(name of a kind, name): a method or metamethod, for kernels, which run it on symbols.
function M.method_of(kind, name) return rawget(methods[small[kind]], name) or rawget(small[kind], name) end

-- tide.NAME(v, ...), whose first argument is one of these values, and v:NAME(...) are one function.
function M.call(name, v, ...)
  local kind = kind_of(v)
  local f = kind and rawget(methods[kind], name)
  if f then return f(v, ...) end
  local kinds = {}
  for _, meta in next, { vec2, vec3, vec4, quat, mat2, mat3, mat4 } do
    if rawget(methods[meta], name) then kinds[#kinds + 1] = name_of[meta] end
  end
  local list = kinds[1]
  for i = 2, #kinds do list = list .. (i == #kinds and " or " or ", ") .. kinds[i] end
  refuse_argument(name, "the first argument", v, "a " .. list)
end

-- {==== Fields and indexes

local function listed(names)
  local list = {}
  for name in next, names do list[#list + 1] = name end
  local function before(a, b) return a < b end
  for i = 2, #list do
    local k = i
    while k > 1 and before(list[k], list[k - 1]) do list[k], list[k - 1], k = list[k - 1], list[k], k - 1 end
  end
  local text = ""
  for i = 1, #list do text = text .. (i > 1 and ", " or "") .. list[i] end
  return text
end

-- What v[key] is where the value has no such field. A script may call it with anything.
local function refuse_key(kind, key)
  local n, name = dims[kind], name_of[kind]
  if type(key) == "number" then
    fail("IndexError", name .. ": got index " .. text(key) .. ", expected 1 to " .. n)
  end
  if type(key) ~= "string" or sub(key, 1, 2) == "__" then return nil end
  fail("ArgumentError", name .. ": there is no " .. key .. ", expected " .. (is_matrix[kind] and "an index from 1 to " .. n
    or "x, y" .. (n > 2 and ", z" or "") .. (n > 3 and ", w" or "") .. ", an index from 1 to " .. n) .. " or one of " .. listed(methods[kind]))
end

local function fill(meta)
  local own, n, name = methods[meta], dims[meta], name_of[meta]
  local places = {}
  for i = 1, n do
    places[i] = fields[i]
    if not is_matrix[meta] then places[sub(fields[i], 2)] = fields[i] end
  end
  function meta.__index(v, key)
    local place = places[key]
    if place then return v[place] end
    return own[key] or refuse_key(meta, key)
  end
  function meta.__pairs(v)
    local list = {}
    for key, place in next, places do
      if is_matrix[meta] or type(key) == "string" then list[key] = v[place] end
    end
    return next, list
  end
  function meta.__newindex(_, key)
    fail("ArgumentError", name .. ": a component is not assigned: make a new value, as v = tide.vec3(1, v.y, v.z), got key " .. text(key))
  end
  function meta.__len() return n end
  function meta.__tostring(v)
    local list, out = plain_shape(v), name .. "("
    for i = 1, n do
      local row = is_matrix[meta] and plain_shape(list[i]) or { list[i] }
      for k = 1, #row do out = out .. (i + k > 2 and ", " or "") .. text(row[k]) end
    end
    return out .. ")"
  end
end
for meta in next, name_of do fill(meta) end
filled(small)

-- {==== Making them

-- The numbers that an argument brings, appended to the list.
local function take(name, list, value, place)
  local kind = kind_of(value)
  if type(value) == "number" then
    list[#list + 1] = value * 1.0
  elseif kind and not is_matrix[kind] then
    for i = 1, dims[kind] do list[#list + 1] = value[fields[i]] end
  elseif is_tensor(value) or is_boxed(value) then
    fail("ArgumentError", name .. ": got a tensor beside other values, expected it alone: tide." .. name .. "(p[i])")
  else
    refuse_argument(name, "argument " .. place, value, "a number, a vector, or the row of a tensor alone")
  end
end

-- The components of a row (a tensor, or what stands for one in kernel.interpret), or of the matrix in it.
local function row_list(name, x, kind)
  local n, size = dims[kind], is_tensor(x) and sizes_of(x) or x.shape
  local want, list = is_matrix[kind] and 2 or 1, {}
  for d = 1, want do
    if #size ~= want or size[d] ~= n then
      fail("ShapeError", name .. ": got a tensor with " .. (#size == 1 and size[1] .. " elements" or #size .. " dimensions")
        .. ", expected " .. (want == 1 and n .. " elements in one dimension: p[i]" or n .. " rows of " .. n))
    end
  end
  local values = is_tensor(x) and x:totable() or x
  for i = 1, n do
    for k = 1, want == 2 and n or 1 do
      local v = want == 2 and values[i][k] or values[i]
      if type(v) == "boolean" then v = v and 1 or 0 end
      if type(v) ~= "number" then refuse_argument(name, "argument 1", x, "a tensor of real numbers") end
      list[#list + 1] = v * 1.0
    end
  end
  return list
end

local function assemble(kind, list)
  if kind == vec2 then return new2(list[1], list[2]) end
  if kind == vec3 then return new3(list[1], list[2], list[3]) end
  if not is_matrix[kind] then return seal({ _x = list[1], _y = list[2], _z = list[3], _w = list[4] }, kind) end
  local n, rows = dims[kind], {}
  local vector = n == 2 and vec2 or n == 3 and vec3 or vec4
  for i = 1, n do
    local at = (i - 1) * n
    rows[fields[i]] = assemble(vector, { list[at + 1], list[at + 2], n > 2 and list[at + 3] or nil, n > 3 and list[at + 4] or nil })
  end
  return seal(rows, kind)
end

-- One number: in each component, of a matrix on its diagonal.
local function spread(kind, x)
  local n, list = dims[kind], {}
  if not is_matrix[kind] then return assemble(kind, { x, x, x, x }) end
  for i = 1, n * n do list[i] = (i - 1) % (n + 1) == 0 and x or 0.0 end
  return assemble(kind, list)
end

function M.new(name, ...)
  local kind, n, first = small[name], count(...), (...)
  local wanted = is_matrix[kind] and dims[kind] * dims[kind] or dims[kind]
  if n == 1 and type(first) == "number" and kind ~= quat then return spread(kind, first * 1.0) end
  if n == 1 and (is_tensor(first) or is_boxed(first)) then return assemble(kind, row_list(name, first, kind)) end
  if n == 1 and is_matrix[kind] and kind_of(first) == kind then return by_rows(first, function(row) return row * 1 end) end
  local args, list = { ... }, {}
  for i = 1, n do take(name, list, args[i], i) end
  if #list ~= wanted then
    fail("ArgumentError", name .. ": got " .. #list .. " components, expected " .. wanted
      .. (kind == quat and ": x, y, z and w" or ", or one number, or the row of a tensor"))
  end
  return assemble(kind, list)
end
