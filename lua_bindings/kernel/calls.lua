-- What a kernel may call besides functions of the script's: math, what tide has for kernels, and methods of tensors.
--
-- They are found by their place (math.sin, tide.atomic.add), and where a script has put one into a variable of its own
-- (local sin = math.sin), by what they are.
--
-- Invariant: results are those of Lua 5.4's library, of the same types.

local M = ...
local build, expr, flow, outside = use "kernel/build", use "kernel/expr", use "kernel/flow", use "kernel/outside"
local special, lex = use "kernel/special", use "kernel/lex.c"
local modules = { tide = true, ["tide.atomic"] = true, ["tide.random"] = true }
local builtins = {} -- by name: fn(c, node, args): args are nodes

local function bad(c, node, message) expr.bad(c, node, message) end

-- The function of that path, or nil.
local function builtin(path)
  if builtins[path] then return builtins[path] end
  if sub(path, 1, 5) == "tide." then return special.call(sub(path, 6)) end
end

-- ---- what takes the place of what ----

-- module: as the script has it, a table, or what stands for one that it must not change. Gives that table.
local function note_library(map, path, module)
  local of = lex.thawed(module)
  if not of then return end
  map[module], map[of] = path, path
  for key, v in next, of do
    local kind = type(v)
    if type(key) == "string" and (kind == "function" or kind == "table" or kind == "userdata") then
      local name = path .. "." .. key
      if builtin(name) or not map[v] then map[v] = name end
    end
  end
  return of
end

local function libraries(c)
  if c.libraries then return c.libraries end
  local map, all = {}, loaded()
  note_library(map, "math", rawget(all, "math") or lex.global "math")
  local tide = rawget(all, "tide")
  local of = note_library(map, "tide", tide)
  for _, name in next, of and { "atomic", "random" } or {} do
    local module = rawget(of, name)
    if of ~= tide then module = tide[name] end -- ours, which reads a copy
    note_library(map, "tide." .. name, module)
  end
  c.libraries = map
  return map
end

-- M.library(c, v): v as a function or a table of math's or tide's; nil: it is none.
function M.library(c, v)
  local path = libraries(c)[v]
  if not path then return end
  if path == "math" or modules[path] then return { what = "module", path = path } end
  if builtin(path) then return { what = "builtin", name = path } end
  local dtype = lex.dtype_name(v)
  if dtype then return { what = "dtype", name = dtype } end
  return { what = "function that kernels do not have, " .. path }
end

local math_constants = { pi = 3.141592653589793, huge = 1 / 0 }
local dtypes = {}
for name in next, { bool = 1, uint8 = 1, int8 = 1, int16 = 1, int32 = 1, int64 = 1, float16 = 1, bfloat16 = 1, float32 = 1, float64 = 1 } do dtypes[name] = true end

local instead = {
  ["math.random"] = "tide.random.uniform(seed, i) in [0, 1), tide.random.normal(seed, i) or tide.random.integer(seed, low, high, i)",
  ["math.randomseed"] = "a seed as the first argument of tide.random.uniform",
  ["math.pow"] = "x ^ y", ["math.mod"] = "x % y", ["math.cosh"] = "(math.exp(x) + math.exp(-x)) / 2",
  ["math.sinh"] = "(math.exp(x) - math.exp(-x)) / 2", ["math.tanh"] = "1 - 2 / (math.exp(2 * x) + 1)", ["math.log10"] = "math.log(x, 10)",
  ["math.atan2"] = "math.atan(y, x)", ["math.ldexp"] = "x * 2.0 ^ n", ["math.round"] = "math.floor(x + 0.5)",
  ["math.sign"] = "x > 0 and 1 or x < 0 and -1 or 0", ["math.clamp"] = "math.min(math.max(x, low), high)",
  ["tide.rand"] = "tide.random.uniform(seed, i)", ["tide.randn"] = "tide.random.normal(seed, i)", ["tide.where"] = "condition and a or b",
  ["tide.maximum"] = "math.max", ["tide.minimum"] = "math.min", ["tide.relu"] = "math.max(x, 0)", ["tide.sigmoid"] = "1 / (1 + math.exp(-x))",
  ["tide.atomic_add"] = "tide.atomic.add(x, i, v)", ["tide.sync"] = "tide.barrier()", ["tide.syncthreads"] = "tide.barrier()", ["tide.tid"] = "the first parameters, which are the place",
  ["math.hypot"] = "math.sqrt(x * x + y * y)", ["math.lerp"] = "a + (b - a) * t", ["tide.pi"] = "math.pi", ["tide.inf"] = "math.huge",
  ["tide.noise"] = "tide.random.uniform(seed, i, j) of the corners around the place, mixed",
}
for name in next, { pow = 1, tanh = 1, sinh = 1, cosh = 1, log10 = 1, atan2 = 1, round = 1, sign = 1, hypot = 1, lerp = 1 } do instead["tide." .. name] = instead["math." .. name] end
for name in next, { zeros = 1, ones = 1, empty = 1, tensor = 1 } do instead["tide." .. name] = "a tensor that is passed, or tide.shared(tide.float32, 256)" end

local in_place_of = {
  print = "none: write into a tensor, and print that; tide.kernel.interpret runs the function in Lua, where print works",
  assert = "none: write what went wrong into a tensor; tide.kernel.interpret runs the function in Lua, where assert works",
  error = "none: write what went wrong into a tensor; tide.kernel.interpret runs the function in Lua, where error works",
  pairs = "a loop that counts: for k = 1, #x do", ipairs = "a loop that counts: for k = 1, #x do", tostring = "none: a kernel has no strings",
  tonumber = "math.floor for an integer, x + 0.0 for a float", type = "none: types are known when a kernel is compiled", unpack = "x[1], x[2]",
  ["table.unpack"] = "x[1], x[2]", select = "parameters that have names", pcall = "none: a kernel has no errors to catch",
  require = "none: require it outside, and use it as an upvalue", setmetatable = "none: a kernel has no tables",
}
local in_place_of_library = {
  ["io."] = "none: write into a tensor, and print that", ["string."] = "none: a kernel has no strings",
  ["table."] = "none: a kernel has no tables", ["os."] = "none: pass its value as an argument", ["coroutine."] = "none: threads run side by side",
}

-- M.instead(name): what stands for a function of Lua's libraries, or nil.
function M.instead(name)
  local dot = find(name, ".")
  return in_place_of[name] or dot and in_place_of_library[sub(name, 1, dot)]
end

local function add_names(names, path, list)
  for name in next, list do
    if sub(name, 1, #path) == path and not find(sub(name, #path + 1), ".") then names[sub(name, #path + 1)] = true end
  end
end

-- What CUDA C, Python and LuaJIT call otherwise.
local of_cuda = {
  threadIdx = "tide.thread()", blockIdx = "tide.block()", blockDim = "tide.block_size()", __syncthreads = "tide.barrier()",
  atomicAdd = "tide.atomic.add(x, {i}, v)", atomicMax = "tide.atomic.max(x, {i}, v)", atomicMin = "tide.atomic.min(x, {i}, v)",
  atomicCAS = "tide.atomic.cas(x, {i}, expected, v)", atomicExch = "tide.atomic.exchange(x, {i}, v)",
  int = "math.floor(x)", float = "x + 0.0", bit = "the operators &, |, ~, << and >>",
}

-- M.meant(name): what stands for a name that nothing has, or nil.
function M.meant(name) return of_cuda[name] or builtins["math." .. name] and "math." .. name end

-- What to write for a name that the module has not for kernels.
local function other_name(path, name)
  local names = {}
  add_names(names, path .. ".", builtins)
  if sub(path, 1, 4) == "tide" then add_names(names, sub(path .. ".", 6), special.names()) end
  if path == "math" then add_names(names, "", { pi = 1, huge = 1, maxinteger = 1, mininteger = 1 }) end
  if path == "tide" then add_names(names, "", dtypes) end
  if path == "tide" and builtins["math." .. name] then return ", expected math." .. name end
  local near = lex.nearest(name, names)
  if near then return ", did you mean " .. path .. "." .. near .. "?" end
  return ", expected arithmetic, math.*, or of tide: atomic, random, vectors, shared, barrier, thread and the like"
end

function M.module_field(c, node, module, name)
  local path = module.path .. "." .. name
  if module.path == "math" then
    if math_constants[name] then return build.const(math_constants[name], "f") end
    if name == "maxinteger" then return build.const("9223372036854775807", "i") end
    if name == "mininteger" then return build.const("9223372036854775808", "i") end
  end
  if builtin(path) then return { what = "builtin", name = path } end
  if modules[path] then return { what = "module", path = path } end
  if module.path == "tide" and dtypes[name] then return { what = "dtype", name = name } end
  bad(c, node, "got " .. path .. ", which kernels do not have" .. (instead[path] and ", expected " .. instead[path] or other_name(module.path, name)))
end

-- M.builtin(c, node, name, args, wanted): the values that it gives.
function M.builtin(c, node, name, args, wanted) return builtin(name)(c, node, args, wanted) end

-- ---- math ----

-- The arguments as numbers; a call at the end may give several.
local function numbers(c, node, args, least, most, name)
  local values = expr.list_of(c, args)
  if #values < least or #values > (most or #values) then
    bad(c, node, "got " .. #values .. (#values == 1 and " argument" or " arguments") .. ", expected " .. least .. (most and most > least and " or " .. most or most and "" or " or more") .. " for " .. name)
  end
  for k = 1, #values do expr.number(c, args[k] or node, values[k]) end
  return values
end

local function one_float(lua_name, c_name)
  builtins["math." .. lua_name] = function(c, node, args)
    local a = numbers(c, node, args, 1, 1, "math." .. lua_name)
    return { build.call_float(c_name or lua_name, a[1]) }
  end
end
for name in next, { cos = 1, sin = 1, tan = 1, acos = 1, asin = 1, exp = 1, sqrt = 1 } do one_float(name) end

builtins["math.atan"] = function(c, node, args)
  local a = numbers(c, node, args, 1, 2, "math.atan")
  return { a[2] and build.call_float("atan2", a[1], a[2]) or build.call_float("atan", a[1]) }
end

builtins["math.log"] = function(c, node, args)
  local a = numbers(c, node, args, 1, 2, "math.log")
  local base = a[2]
  if not base then return { build.call_float("log", a[1]) } end
  if base.op == "const" and base.value == 2 then return { build.call_float("log2", a[1]) } end
  if base.op == "const" and base.value == 10 then return { build.call_float("log10", a[1]) } end
  return { build.arithmetic("div", build.call_float("log", a[1]), build.call_float("log", base)) }
end

local function scaled(name, factor)
  builtins["math." .. name] = function(c, node, args)
    return { build.arithmetic("mul", build.float(numbers(c, node, args, 1, 1, "math." .. name)[1]), build.const(factor, "f")) }
  end
end
scaled("deg", 180 / 3.141592653589793)
scaled("rad", 3.141592653589793 / 180)

builtins["math.abs"] = function(c, node, args) return { build.abs(numbers(c, node, args, 1, 1, "math.abs")[1]) } end
for name in next, { floor = 1, ceil = 1 } do
  builtins["math." .. name] = function(c, node, args)
    local a = numbers(c, node, args, 1, 1, "math." .. name)[1]
    return { a.type == "i" and a or build.whole(build.call_float(name, a)) }
  end
end

for name in next, { min = 1, max = 1 } do
  builtins["math." .. name] = function(c, node, args)
    local a = numbers(c, node, args, 1, nil, "math." .. name)
    for k = 1, #a do a[k] = a[k].dual and flow.hold(c, a[k]) or a[k] end
    local e = a[1]
    for k = 2, #a do e = build.extreme(name, e, a[k]) end
    return { e }
  end
end

-- The remainder of a division towards 0, which has the sign of a.
builtins["math.fmod"] = function(c, node, args)
  local v = numbers(c, node, args, 2, 2, "math.fmod")
  if v[1].type == "f" or v[2].type == "f" then return { build.call_float("fmod", v[1], v[2]) } end
  local a, b, zero = flow.hold(c, v[1]), flow.hold(c, v[2]), build.const(0, "i")
  if b.op == "const" and b.value == 0 then bad(c, args[2] or node, "got 0, expected another divisor for math.fmod") end
  local m = flow.hold(c, build.arithmetic("mod", a, b, expr.site(c, node)))
  local other = build.logic("and", build.compare("ne", m, zero), build.compare("lt", build.arithmetic("bxor", a, b), zero))
  local e = build.choose(other, build.arithmetic("sub", flow.plain(m), flow.plain(b)), flow.plain(m))
  return { build.note_dual(e, a, b, function(x, y) return build.call_float("fmod", x, y) end) }
end

-- The whole part, as an integer, and the rest.
builtins["math.modf"] = function(c, node, args)
  local a = numbers(c, node, args, 1, 1, "math.modf")[1]
  if a.type == "i" then return { a, build.const(0.0, "f") } end
  a = flow.hold(c, a)
  local whole = flow.hold(c, build.call_float("trunc", a))
  return { build.whole(whole), build.choose(build.compare("eq", whole, a), build.const(0.0, "f"), build.arithmetic("sub", a, whole)) }
end

builtins["math.tointeger"] = function(c, node, args)
  local a = numbers(c, node, args, 1, 1, "math.tointeger")[1]
  if a.type == "i" and a.dual then
    a = flow.hold(c, a)
    return { { what = "maybe", cond = a.dual.fits, value = flow.plain(a), is_nil = true } }
  end
  if a.type == "i" then return { a } end
  if a.op == "const" and a.value % 1 == 0 and a.value > -1e15 and a.value < 1e15 then return { build.const(a.value, "i") } end
  a = flow.hold(c, a)
  local within = build.logic("and", build.compare("ge", a, build.const(-9223372036854775808.0, "f")),
    build.compare("lt", a, build.const(9223372036854775808.0, "f")))
  local whole = build.logic("and", within, build.compare("eq", build.call_float("floor", a), a))
  return { { what = "maybe", cond = flow.hold(c, whole), value = build.floor(a), is_nil = true } }
end

builtins["math.ult"] = function(c, node, args)
  local a = numbers(c, node, args, 2, 2, "math.ult")
  for k = 1, 2 do a[k] = expr.integer(c, args[k] or node, a[k]) end
  return { { op = "call", type = "b", fn = "ult", args = a } }
end

builtins["math.type"] = function(c, node, args)
  local a = numbers(c, node, args, 1, 1, "math.type")[1]
  return { { what = "string", value = a.type == "i" and "integer" or "float" } }
end

-- ---- methods of tensors ----

local in_place_of_methods = {
  size = "x.shape[d]", dim = "#x.shape", ndimension = "#x.shape", numel = "x.shape[1] * x.shape[2]", item = "its element, such as x[1]",
  sum = "a loop over its elements", max = "a loop over its elements", min = "a loop over its elements", mean = "a loop over its elements",
}

-- M.tensor_method(c, node, v)
function M.tensor_method(c, node)
  bad(c, node, "got method '" .. node.name .. "' of a tensor, expected " .. (in_place_of_methods[node.name] or "x[i][j], #x or x.shape[d]: these are what a kernel has of it"))
end

-- ---- tables of numbers ----

local function add_constant(c, values, sizes)
  local float = false
  for k = 1, #values do float = float or not is_integer(values[k]) end
  if float then
    -- a float stays as it is: -0.0 + 0.0 is 0.0
    for k = 1, #values do values[k] = is_integer(values[k]) and values[k] + 0.0 or values[k] end
  end
  c.constants[#c.constants + 1] = { dtype = float and "float64" or "int64", sizes = sizes, values = values }
  return #c.constants
end

-- The numbers of a list, or of a list of lists of the same length.
local function read_table(c, node, v)
  local list, values, sizes = v.value, {}, { rawlen(v.value) }
  for i = 1, sizes[1] do
    local x = rawget(list, i)
    local row = type(x) == "table" and x or nil
    if row and (i == 1 or sizes[2]) then
      sizes[2] = sizes[2] or rawlen(row)
      if rawlen(row) ~= sizes[2] then bad(c, node, "got table '" .. v.name .. "' with rows of several lengths, expected one") end
    elseif row or sizes[2] then
      bad(c, node, "got table '" .. v.name .. "' of numbers and tables, expected one of numbers")
    end
    for k = 1, row and sizes[2] or 1 do
      local n = x
      if row then n = rawget(row, k) end
      if type(n) ~= "number" then bad(c, node, "got table '" .. v.name .. "' with a " .. type(n) .. " at " .. i .. ", expected one of numbers") end
      values[#values + 1] = n
    end
  end
  if #values == 0 then bad(c, node, "got table '" .. v.name .. "' without numbers, expected some") end
  if #values > 4096 then bad(c, node, "got table '" .. v.name .. "' of " .. #values .. " numbers, expected at most 4096: make a tensor of them") end
  return add_constant(c, values, sizes)
end

-- M.table_index(c, node, v, key): of a table that stands outside of the kernel.
function M.table_index(c, node, v, key)
  if key.what == "string" then return outside.table_field(c, node, v, key.value) end
  local e = expr.integer(c, node.key, key, "an integer as index")
  local first = e.op == "const" and rawget(v.value, e.value)
  if e.op == "const" and type(first) ~= "number" and type(first) ~= "table" then return outside.table_field(c, node, v, e.value) end
  if not v.constant then v.constant = read_table(c, node, v) end
  local base = { what = "tensor", name = v.name, constant = v.constant }
  local row = { what = "row", base = base, index = { e } }
  if expr.ndim(c, base) > 1 then return row end
  return expr.load(c, row, node)
end
