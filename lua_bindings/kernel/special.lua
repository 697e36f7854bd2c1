-- What only kernels have: atomic operations, memory that a block shares, barriers and sums, random numbers by counter.
--
-- Each is found by its name behind "tide.": fn(c, node, args, wanted), where args are syntax and what is given back
-- is the list of values.
--
-- Invariant: what is done to a tensor here counts as read and written.

local M = ...
local build, expr, flow, vector_types = use "kernel/build", use "kernel/expr", use "kernel/flow", use "kernel/vector_types"
local special = {}

local function bad(c, node, message) expr.bad(c, node, message) end

local usage = { shared = "(dtype, n [, m])" }

local function want(c, node, args, least, most, name)
  if #args >= least and #args <= most then return end
  bad(c, node, "got " .. #args .. (#args == 1 and " argument" or " arguments") .. ", expected " .. least .. (most > least and " to " .. most or "") .. " for tide." .. name .. (usage[name] or ""))
end

-- M.call(name): the function, or nil.
function M.call(name) return special[name] end

-- M.names(): a table of them.
function M.names() return special end

-- ---- atomic operations ----

local atomic_dtypes = { int32 = "i", int64 = "i", float32 = "f", float64 = "f" }
local of_bits = { band = true, bor = true, bxor = true }

local function atomic(kind)
  local name, most = "atomic." .. kind, kind == "cas" and 4 or 3
  usage[name] = kind == "cas" and "(x, i, old, new), with {i, j} for two indexes" or "(x, i, v), with {i, j} for two indexes"
  special[name] = function(c, node, args, wanted)
    want(c, node, args, most, most, name)
    local list = expr.each(c, args, function(n, k)
      if k == 2 and n.op == "table" then return { what = "row", index = expr.index_list(c, n.items) } end
      return expr.value(c, n)
    end)
    local x, key = list[1], list[2]
    if x.what ~= "tensor" and x.what ~= "row" then bad(c, args[1], "got " .. flow.describe(x) .. ", expected a tensor for tide." .. name) end
    local keys = key.what == "row" and not key.base and key.index or { expr.integer(c, args[2], key, "an integer or a list {i, j} as index") }
    local row = expr.row_of(x, keys)
    local base, index = row.base, row.index
    if #index ~= expr.ndim(c, base) then
      bad(c, args[2], "got " .. #index .. (#index == 1 and " index" or " indexes") .. ", expected " .. expr.ndim(c, base) .. " of '" .. base.name .. "'")
    end
    local dtype = expr.dtype(c, base)
    local kind_of = atomic_dtypes[dtype]
    if base.constant or not kind_of or of_bits[kind] and kind_of == "f" then
      bad(c, args[1], "got a tensor of " .. dtype .. ", expected one of int32" .. (of_bits[kind] and " or int64" or ", int64, float32 or float64") .. " for tide." .. name)
    end
    local place = expr.place(c, base, index, node)
    place.kind, place.value = kind, expr.as(dtype, expr.number(c, args[most], list[most]))
    if kind == "cas" then place.expected = expr.as(dtype, expr.number(c, args[3], list[3])) end
    if place.tensor then c.operands[place.tensor].reads, c.operands[place.tensor].writes = true, true end
    c.atomics = true
    local e = { op = "var", type = kind_of }
    if wanted ~= 0 then
      place.var = flow.new_var(c, kind_of, true)
      e.n = place.var
      if kind_of == "i" then
        e = build.any_integer(e)
        if dtype == "int32" then e = build.ranged(e, -2147483648.0, 2147483647.0) end
      end
    end
    flow.emit(c, "atomic", place)
    return wanted ~= 0 and { e } or {}
  end
end
for kind in next, { add = 1, sub = 1, min = 1, max = 1, exchange = 1, cas = 1, band = 1, bor = 1, bxor = 1 } do atomic(kind) end

-- ---- blocks ----

local sizes_of_dtypes = { bool = 1, uint8 = 1, int8 = 1, int16 = 2, float16 = 2, bfloat16 = 2, int32 = 4, float32 = 4, int64 = 8, float64 = 8 }

function special.shared(c, node, args)
  want(c, node, args, 2, 3, "shared")
  local dtype, sizes, bytes = expr.value(c, args[1]), {}, nil
  local name = dtype.what == "dtype" and dtype.name or dtype.what == "string" and dtype.value
  bytes = name and sizes_of_dtypes[name]
  if not bytes then bad(c, args[1], "got " .. (name or flow.describe(dtype)) .. ", expected a dtype for tide.shared, such as tide.float32") end
  for k = 2, #args do
    local n = expr.integer(c, args[k], expr.value(c, args[k]), "a constant integer as size")
    if n.op ~= "const" or n.value < 1 then
      bad(c, args[k], "got a size that is " .. (n.op == "const" and text(n.value) or "computed") .. ", expected a constant from 1: tide.shared(tide.float32, 256)")
    end
    sizes[k - 1], bytes = n.value, bytes * n.value
  end
  local n = c.shared_of[node]
  if not n then
    c.shared_bytes = (c.shared_bytes or 0) + bytes
    if c.shared_bytes > 49152 then
      bad(c, node, "got " .. text(c.shared_bytes) .. " bytes" .. (#c.shared > 0 and " in all" or "") .. ", expected at most 49152 for tide.shared")
    end
    c.shared[#c.shared + 1] = { dtype = name, sizes = sizes }
    n = #c.shared
    c.shared_of[node] = n
  end
  c.barriers = true
  return { { what = "tensor", shared = n, name = "shared" } }
end

function special.barrier(c, node, args)
  want(c, node, args, 0, 0, "barrier")
  c.barriers = true
  flow.emit(c, "barrier", { site = expr.site(c, node) })
  return {}
end

-- One number for each dimension of the grid.
local function place(name, most)
  special[name] = function(c, node, args)
    want(c, node, args, 0, 0, name)
    c.barriers = true
    local list = {}
    for d = 1, c.options.ndim do list[d] = build.ranged({ op = name, dim = d }, 1.0, most or c.most) end
    return list
  end
end
place("thread", 1024.0)
place("block")
place("block_size", 1024.0)

local function sum(name)
  special[name] = function(c, node, args)
    want(c, node, args, 1, 1, name)
    local v = expr.number(c, args[1], expr.value(c, args[1]))
    local n = flow.new_var(c, v.type, true)
    c.barriers = true
    flow.emit(c, name, { var = n, value = v, site = name == "block_sum" and expr.site(c, node) or nil })
    local e = { op = "var", n = n, type = v.type }
    return { v.type == "i" and build.any_integer(e) or e }
  end
end
sum "block_sum"
sum "warp_sum"

-- ---- random numbers ----

local function random(name, fixed)
  special["random." .. name] = function(c, node, args)
    want(c, node, args, fixed, 16, "random." .. name)
    local list = expr.list_of(c, args)
    for k = 1, #list do
      list[k] = expr.integer(c, args[k] or node, list[k], k == 1 and "an integer as seed of tide.random." .. name or "an integer as counter of tide.random." .. name)
    end
    c.random = true
    local e = { op = name, args = list }
    if name ~= "integer" then
      e.type = "f"
      return { e }
    end
    local low, high = list[2], list[3]
    return { build.ranged(e, low.lo, high.hi > low.lo and high.hi - 1 or low.lo) }
  end
end
random("uniform", 2)
random("normal", 2)
random("integer", 4)

-- ---- vectors ----

for name in next, { vec2 = 1, vec3 = 1, vec4 = 1, mat2 = 1, mat3 = 1, mat4 = 1, quat = 1 } do
  special[name] = function(c, node, args) return { vector_types.make(c, node, name, args) } end
end
for name in next, { dot = 1, cross = 1, length = 1, normalize = 1, reflect = 1, mix = 1, clamp = 1, transpose = 1, inverse = 1, rotate = 1 } do
  special[name] = function(c, node, args) return { vector_types.call(c, node, name, args) } end
end
