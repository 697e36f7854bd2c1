-- What a kernel's function finds outside of its locals: upvalues, globals, fields of tables. Numbers and tensors become operands,
-- which every call passes along; functions are compiled in, tables of numbers are constants (types.lua).
--
-- Invariant: a name is looked up once for each function that is compiled in, by raw reads.

local M = ...
local build, calls, flow, vector_types, lex = use "kernel/build", use "kernel/calls", use "kernel/flow", use "kernel/vector_types", use "kernel/lex.c"

-- M.add_operand(c, operand): its number.
function M.add_operand(c, operand)
  c.operands[#c.operands + 1] = operand
  return #c.operands
end

local function number_value(n, kind)
  local e = { op = "number", operand = n, type = kind == "integer" and "i" or kind == "float" and "f" or "b" }
  return kind == "integer" and build.any_integer(e) or e
end

-- M.operand(c, name, kind, from, dtype, ndim): the value of one that is added.
function M.operand(c, name, kind, from, dtype, ndim)
  local n = M.add_operand(c, { kind = kind, dtype = dtype, ndim = ndim, name = name, from = from, reads = false, writes = false })
  return kind == "tensor" and { what = "tensor", name = name, n = n } or number_value(n, kind)
end

local function with_path(from, key)
  local copy, path = flow.copy_of(from), {}
  for k = 1, from.path and #from.path or 0 do path[k] = from.path[k] end
  path[#path + 1] = key
  copy.path = path
  return copy
end

-- M.outside(c, name, v, from): what a function finds outside of itself.
function M.outside(c, name, v, from)
  local kind = type(v)
  if kind == "nil" then return { what = "nil", name = name } end
  if kind == "number" then return M.operand(c, name, is_integer(v) and "integer" or "float", from) end
  if kind == "boolean" then return M.operand(c, name, "boolean", from) end
  if kind == "string" then return { what = "string", value = v } end
  local dtype, ndim = lex.tensor(v)
  if dtype then return M.operand(c, name, "tensor", from, dtype, ndim) end
  local path = calls.library(c, v)
  if path then return path end
  if kind == "function" then return { what = "function", lua = v, name = name, is_c = lex.shape(v) == nil } end
  local small_kind = kind == "table" and vector_types.small_kind(v)
  if small_kind then
    return vector_types.outside(small_kind, function(row, key)
      local of, at_row, place = v, from, row and "_" .. sub("xyzw", row, row) -- as vectors.lua stores them
      if row then of, at_row = rawget(v, place), with_path(from, place) end
      return M.outside(c, name .. "." .. key, rawget(of, "_" .. key), with_path(at_row, "_" .. key))
    end)
  end
  if kind == "table" then return { what = "table", value = v, from = from, name = name, fields = {} } end
  return { what = "value that kernels do not have, '" .. name .. "'", name = name }
end

local function upvalue_of(fn, name)
  for n = 1, 255 do
    local found, v = upvalue(fn, n)
    if not found then return end
    if found == name then return n, v end
  end
end

-- What is compiled in stays that only as long as it is what stands there.
local function note_name(c, known, from, v)
  if known.what == "function" or known.what == "table" then c.names[#c.names + 1] = { from = from, value = v } end
end

-- M.free(c, node): the value of a name that no local of the function has.
function M.free(c, node)
  local unit, name = c.unit, node.name
  local known = unit.free[name]
  if known then return known end
  local n, v
  if unit.lua then n, v = upvalue_of(unit.lua, name) end
  local from = n and { upvalue = n, of = unit.lua } or { global = name, of = unit.lua }
  if not n then v, from.env = lex.global(name, unit.lua) end
  if v == nil and (name == "math" or name == "tide") then
    known = { what = "module", path = name } -- kernels have these wherever they come from
  else
    known = M.outside(c, name, v, from)
  end
  note_name(c, known, from, v)
  unit.free[name] = known
  return known
end

-- M.table_field(c, node, v, key): of a table that stands outside of the kernel.
function M.table_field(c, node, v, key)
  local known = v.fields[key]
  if known then return known end
  local value, from = rawget(v.value, key), with_path(v.from, key)
  known = M.outside(c, v.name .. "." .. key, value, from)
  note_name(c, known, from, value)
  v.fields[key] = known
  return known
end
