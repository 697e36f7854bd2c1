-- Small vectors, matrices and quaternions as values of plain Lua: what the same words mean in a kernel.
--
-- A vector has the fields x y z w, a matrix its rows, which are vectors, at 1 to 4; a quaternion is (x, y, z, w). All
-- components are floats. The metatables are made in vectors.c, which knows values by them, and are filled here: a value
-- costs one table and no closure. Operators and methods are called by scripts directly, without a function in C between.
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
local fields = { "x", "y", "z", "w" }

local function new2(x, y) return seal({ x = x, y = y }, vec2) end
local function new3(x, y, z) return seal({ x = x, y = y, z = z }, vec3) end
local function new4(x, y, z, w) return seal({ x = x, y = y, z = z, w = w }, vec4) end
local function newq(x, y, z, w) return seal({ x = x, y = y, z = z, w = w }, quat) end

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

function vec2.__unm(a) return new2(-a.x, -a.y) end
function vec3.__unm(a) return new3(-a.x, -a.y, -a.z) end
function vec4.__unm(a) return new4(-a.x, -a.y, -a.z, -a.w) end
function quat.__unm(a) return newq(-a.x, -a.y, -a.z, -a.w) end

function vec2.__eq(a, b) return getmeta(a) == getmeta(b) and a.x == b.x and a.y == b.y end
function vec3.__eq(a, b) return getmeta(a) == getmeta(b) and a.x == b.x and a.y == b.y and a.z == b.z end
function vec4.__eq(a, b) return getmeta(a) == getmeta(b) and a.x == b.x and a.y == b.y and a.z == b.z and a.w == b.w end
quat.__eq = vec4.__eq

-- {==== Quaternions

function quat.__add(a, b)
  if getmeta(a) ~= getmeta(b) then return refuse_operands("+", a, b) end
  return newq(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w)
end
function quat.__sub(a, b)
  if getmeta(a) ~= getmeta(b) then return refuse_operands("-", a, b) end
  return newq(a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w)
end
function quat.__mul(a, b)
  if getmeta(a) == getmeta(b) then
    return newq(a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y, a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x,
      a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w, a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z)
  end
  if type(b) == "number" then return newq(a.x * b, a.y * b, a.z * b, a.w * b) end
  if type(a) == "number" then return newq(a * b.x, a * b.y, a * b.z, a * b.w) end
  return refuse_operands("*", a, b)
end
function quat.__div(a, b)
  if type(b) ~= "number" then return refuse_operands("/", a, b) end
  return newq(a.x / b, a.y / b, a.z / b, a.w / b)
end

-- {==== Matrices: rows

-- Row r of a matrix by the rows of another.
local function through2(r, m) return new2(r.x * m[1].x + r.y * m[2].x, r.x * m[1].y + r.y * m[2].y) end
local function through3(r, m)
  local a, b, c = m[1], m[2], m[3]
  return new3(r.x * a.x + r.y * b.x + r.z * c.x, r.x * a.y + r.y * b.y + r.z * c.y, r.x * a.z + r.y * b.z + r.z * c.z)
end
local function through4(r, m)
  local a, b, c, d = m[1], m[2], m[3], m[4]
  return new4(r.x * a.x + r.y * b.x + r.z * c.x + r.w * d.x, r.x * a.y + r.y * b.y + r.z * c.y + r.w * d.y,
    r.x * a.z + r.y * b.z + r.z * c.z + r.w * d.z, r.x * a.w + r.y * b.w + r.z * c.w + r.w * d.w)
end

-- A matrix of what f(row, other) gives for each row.
local function by_rows(m, f, b)
  local kind = getmeta(m)
  local n, rows = dims[kind], { f(m[1], b), f(m[2], b) }
  if n > 2 then rows[3] = f(m[3], b) end
  if n > 3 then rows[4] = f(m[4], b) end
  return seal(rows, kind)
end

local function add_rows(a, b, f)
  local rows = {}
  for i = 1, dims[getmeta(a)] do rows[i] = f(a[i], b[i]) end
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
      if not vector.__eq(a[i], b[i]) then return false end
    end
    return true
  end
end

fill_matrix(mat2, vec2, through2, function(m, v)
  local a, b = m[1], m[2]
  return new2(a.x * v.x + a.y * v.y, b.x * v.x + b.y * v.y)
end)
fill_matrix(mat3, vec3, through3, function(m, v)
  local a, b, c = m[1], m[2], m[3]
  return new3(a.x * v.x + a.y * v.y + a.z * v.z, b.x * v.x + b.y * v.y + b.z * v.z, c.x * v.x + c.y * v.y + c.z * v.z)
end)
fill_matrix(mat4, vec4, through4, function(m, v)
  local a, b, c, d = m[1], m[2], m[3], m[4]
  return new4(a.x * v.x + a.y * v.y + a.z * v.z + a.w * v.w, b.x * v.x + b.y * v.y + b.z * v.z + b.w * v.w,
    c.x * v.x + c.y * v.y + c.z * v.z + c.w * v.w, d.x * v.x + d.y * v.y + d.z * v.z + d.w * v.w)
end)

local function inverse2(m)
  local a, b, c, d = m[1].x, m[1].y, m[2].x, m[2].y
  local s = 1 / (a * d - b * c)
  return seal({ new2(d * s, -b * s), new2(-c * s, a * s) }, mat2)
end

local function inverse3(m)
  local p, q, r = m[1], m[2], m[3]
  local a, b, c = q.y * r.z - q.z * r.y, q.z * r.x - q.x * r.z, q.x * r.y - q.y * r.x
  local s = 1 / (p.x * a + p.y * b + p.z * c)
  return seal({
    new3(a * s, (p.z * r.y - p.y * r.z) * s, (p.y * q.z - p.z * q.y) * s),
    new3(b * s, (p.x * r.z - p.z * r.x) * s, (p.z * q.x - p.x * q.z) * s),
    new3(c * s, (p.y * r.x - p.x * r.y) * s, (p.x * q.y - p.y * q.x) * s),
  }, mat3)
end

-- By the minors of the upper two rows (a) and of the lower two (b).
local function inverse4(m)
  local p, q, r, t = m[1], m[2], m[3], m[4]
  local a1, a2, a3 = p.x * q.y - p.y * q.x, p.x * q.z - p.z * q.x, p.x * q.w - p.w * q.x
  local a4, a5, a6 = p.y * q.z - p.z * q.y, p.y * q.w - p.w * q.y, p.z * q.w - p.w * q.z
  local b1, b2, b3 = r.x * t.y - r.y * t.x, r.x * t.z - r.z * t.x, r.x * t.w - r.w * t.x
  local b4, b5, b6 = r.y * t.z - r.z * t.y, r.y * t.w - r.w * t.y, r.z * t.w - r.w * t.z
  local s = 1 / (a1 * b6 - a2 * b5 + a3 * b4 + a4 * b3 - a5 * b2 + a6 * b1)
  return seal({
    new4((q.y * b6 - q.z * b5 + q.w * b4) * s, (p.z * b5 - p.y * b6 - p.w * b4) * s,
      (t.y * a6 - t.z * a5 + t.w * a4) * s, (r.z * a5 - r.y * a6 - r.w * a4) * s),
    new4((q.z * b3 - q.x * b6 - q.w * b2) * s, (p.x * b6 - p.z * b3 + p.w * b2) * s,
      (t.z * a3 - t.x * a6 - t.w * a2) * s, (r.x * a6 - r.z * a3 + r.w * a2) * s),
    new4((q.x * b5 - q.y * b3 + q.w * b1) * s, (p.y * b3 - p.x * b5 - p.w * b1) * s,
      (t.x * a5 - t.y * a3 + t.w * a1) * s, (r.y * a3 - r.x * a5 - r.w * a1) * s),
    new4((q.y * b2 - q.x * b4 - q.z * b1) * s, (p.x * b4 - p.y * b2 + p.z * b1) * s,
      (t.y * a2 - t.x * a4 - t.z * a1) * s, (r.x * a4 - r.y * a2 + r.z * a1) * s),
  }, mat4)
end

-- {==== Methods

local function alike(fn, name, a, b)
  if getmeta(a) ~= getmeta(b) then refuse_argument(fn, name, b, "a " .. told(a) .. ", as the first one") end
end

local function dot2(a, b) return a.x * b.x + a.y * b.y end
local function dot3(a, b) return a.x * b.x + a.y * b.y + a.z * b.z end
local function dot4(a, b) return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w end
local dots = { [vec2] = dot2, [vec3] = dot3, [vec4] = dot4, [quat] = dot4 }

local function dot(a, b)
  alike("dot", "b", a, b)
  return dots[getmeta(a)](a, b)
end

local function cross(a, b)
  if kind_of(b) ~= vec3 then refuse_argument("cross", "b", b, "a vec3") end
  return new3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x)
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
  if type(b) == "number" then return seal({ x = b, y = b, z = b, w = b }, getmeta(v)) end
  if getmeta(b) ~= getmeta(v) then refuse_argument("clamp", name, b, "a number or a " .. told(v)) end
  return b
end

local function clamp(v, low, high)
  local a, b, kind = bound("low", v, low), bound("high", v, high), getmeta(v)
  local x, y = limit(v.x, a.x, b.x), limit(v.y, a.y, b.y)
  if kind == vec2 then return new2(x, y) end
  local z = limit(v.z, a.z, b.z)
  if kind == vec3 then return new3(x, y, z) end
  return new4(x, y, z, limit(v.w, a.w, b.w))
end

local function transpose(m)
  local n, rows = dims[getmeta(m)], {}
  for i = 1, n do
    local f = fields[i]
    if n == 2 then rows[i] = new2(m[1][f], m[2][f]) end
    if n == 3 then rows[i] = new3(m[1][f], m[2][f], m[3][f]) end
    if n == 4 then rows[i] = new4(m[1][f], m[2][f], m[3][f], m[4][f]) end
  end
  return seal(rows, getmeta(m))
end

local function inverse(q)
  local d = dot4(q, q)
  return newq(-q.x / d, -q.y / d, -q.z / d, q.w / d)
end

local function rotate(q, v)
  if kind_of(v) ~= vec3 then refuse_argument("rotate", "v", v, "a vec3") end
  local x, y, z = 2 * (q.y * v.z - q.z * v.y), 2 * (q.z * v.x - q.x * v.z), 2 * (q.x * v.y - q.y * v.x)
  return new3(v.x + q.w * x + (q.y * z - q.z * y), v.y + q.w * y + (q.z * x - q.x * z), v.z + q.w * z + (q.x * y - q.y * x))
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
  if is_matrix[meta] then
    meta.__index = seal(own, { __index = function(_, key) return refuse_key(meta, key) end })
  else
    function meta.__index(v, key)
      local f = own[key]
      if f then return f end
      f = fields[key]
      if f and key <= n then return v[f] end
      return refuse_key(meta, key)
    end
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
  if not is_matrix[kind] then return seal({ x = list[1], y = list[2], z = list[3], w = list[4] }, kind) end
  local n, rows = dims[kind], {}
  local vector = n == 2 and vec2 or n == 3 and vec3 or vec4
  for i = 1, n do
    local at = (i - 1) * n
    rows[i] = assemble(vector, { list[at + 1], list[at + 2], n > 2 and list[at + 3] or nil, n > 3 and list[at + 4] or nil })
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
