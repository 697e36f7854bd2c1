-- Random calls of everything public with arguments that nobody would pass on purpose. Nothing may crash, hang, leak, or
-- raise anything but one of tide's own errors (or what the caller's own function raised).
--
--   tide spec/stress/calls.lua [--calls N] [--trace] [--only PATTERN] [--context context.so] SEED [LAST]
--   sandbox_test tide.so --calls SEED LAST        the same in a state that was granted nothing, with small quotas
--
-- A seed gives the same program each time; --trace prints each call before it is made, so that the last line names the
-- one that crashed. scripts/checks/calls.sh runs many seeds, each in a process of its own. --context, on a GPU: the thread
-- has a context of its own (context.c), and after each call still has it.

local tide = require "tide"

local options = { calls = 300 }
local seeds = {}
do
  local i = 1
  while arg[i] do
    if arg[i] == "--trace" then options.trace = true
    elseif arg[i] == "--calls" then i = i + 1; options.calls = tonumber(arg[i])
    elseif arg[i] == "--only" then i = i + 1; options.only = arg[i]
    elseif arg[i] == "--context" then i = i + 1; options.context = arg[i]
    else seeds[#seeds + 1] = assert(math.tointeger(tonumber(arg[i])), "calls.lua: a seed is an integer") end
    i = i + 1
  end
end
local first, last = seeds[1] or 1, seeds[2] or seeds[1] or 1

-- ---- dice: xorshift, so that no library's generator is disturbed ----

local state
local function roll(n)
  state = state ~ state << 13
  state = state ~ state >> 7
  state = state ~ state << 17
  return (state >> 11) % n + 1
end
local function pick(list) return list[roll(#list)] end
local function one_in(n) return roll(n) == 1 end

-- ---- what is called: every function of the tables, every method of the objects ----

-- Not these, as any argument but the right one is the caller's own fault, or ends or stops the process:
local left_out = {
  ["tide.from_ptr"] = "reads any address",
  ["tide.cuda.ExternalStream"] = "trusts a handle",
  ["tide.cuda.get_stream_from_external"] = "trusts a handle",
  ["tide.cuda.streams.ExternalStream"] = "trusts a handle",
  ["tide.cuda._sleep"] = "sleeps as long as it is told",
  ["tide.multiprocessing.spawn"] = "starts processes",
  ["tide.cuda.CUDAPluggableAllocator"] = "runs a library's code",
  ["tide.cuda.memory.CUDAPluggableAllocator"] = "runs a library's code",
  ["tide.cuda.compile_kernel"] = "runs a text's code, and takes long",
  ["tide.cuda.jiterator.create_jit_fn"] = "likewise",
  ["tide.cuda.jiterator._create_jit_fn"] = "likewise",
  ["tide.cuda.jiterator.create_multi_output_jit_fn"] = "likewise",
  ["tide.cuda.jiterator._create_multi_output_jit_fn"] = "likewise",
}

local functions, names = {}, {}
local function add(name, fn)
  if left_out[name] or (options.only and not name:find(options.only)) then return end
  functions[name] = fn
  names[#names + 1] = name
end
local function walk(t, prefix, seen)
  if seen[t] then return end
  seen[t] = true
  local keys = {}
  for k in pairs(t) do
    if type(k) == "string" then keys[#keys + 1] = k end
  end
  table.sort(keys)
  for _, k in ipairs(keys) do
    local v = t[k]
    local mt = debug.getmetatable(v)
    local is_module = type(v) == "table" or mt and mt.__pairs and type(mt.__index) == "table" -- the latter is read-only
    if type(v) == "function" then add(prefix .. "." .. k, v)
    elseif is_module then
      if mt and mt.__call then add(prefix .. "." .. k, v) end
      walk(v, prefix .. "." .. k, seen)
    end
  end
end
walk(tide, "tide", { [tide.Tensor] = true }) -- whose functions are the methods below

-- The methods of an object, wherever its metatable keeps them, and its metamethods.
local function methods_of(o, class)
  local mt = debug.getmetatable(o)
  if not mt then return end
  local tables = { mt }
  local index = rawget(mt, "__index")
  if type(index) == "table" then tables[#tables + 1] = index end
  if type(index) == "function" then
    for i = 1, 8 do
      local name, value = debug.getupvalue(index, i)
      if not name then break end
      if type(value) == "table" then tables[#tables + 1] = value end
    end
  end
  for _, t in ipairs(tables) do
    local keys = {}
    for k, v in next, t do
      if type(k) == "string" and type(v) == "function" then keys[#keys + 1] = k end
    end
    table.sort(keys)
    for _, k in ipairs(keys) do add(class .. ":" .. k, t[k]) end
  end
end

-- ---- arguments ----

local has_cuda = tide.cuda.is_available()
local devices = { "cpu" }
if has_cuda then
  for i = 0, tide.cuda.device_count() - 1 do devices[#devices + 1] = "cuda:" .. i end
end
local dtypes = { "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
  "complex128" }

local pool -- objects that calls gave, and tensors made here
local program -- the seed, for error texts of our own functions

-- Sizes are small or so large that no memory can hold them: what lies between only takes time.
local integers = { 0, 1, 2, 3, 4, 5, 7, 16, 33, -1, -2, -3, -5, 1 << 46, (1 << 53) + 1, 1 << 60, 1 << 62, math.maxinteger,
  math.mininteger, -(1 << 46) }
local floats = { 0.0, -0.0, 0.5, 1.0, 2.5, -1.5, 1e-300, 1e300, 2.0 ^ 53, 2.0 ^ 63, 2.0 ^ 64, 1 / 0, -1 / 0, 0 / 0 }
local strings = { "", "cpu", "cuda", "cuda:0", "cuda:1", "cuda:99", "cuda:-1", "cuda:99999999999999999999", "float32", "int64",
  "x", "sum", "add", "default", "error", "warn", "ij", "floor", "trunc", "backward", "ortho", "\0", "a\0b", "%s%n%d", "tensor",
  ("x"):rep(5000), "\xff\xfe", "relaxed", "thread_local", "all", "max_split_size_mb:32", "backend:native" }
local keys = { "device", "dtype", "out", "dim", "keepdim", "generator", "pin_memory", "alpha", "value", "min", "max",
  "rounding_mode", "indexing", "base", "non_blocking", "copy", "dims", "norm", "n", "s", "correction", "unbiased", "p", "rtol",
  "atol", "stream", "pool", "priority", "enable_timing", "devices", "batch_size", "size", "foo", "reduce", "mode", "nprocs",
  "precision", "threshold", "nan", "decimals", "offset", "stride", "sizes", "map_location" }

local scratch = os.tmpname() -- paths that calls write to
remove_scratch = setmetatable({}, { __gc = function() os.remove(scratch) end }) -- however the program ends
local function quiet() end

local argument
local function tensor()
  local shapes = { {}, { 0 }, { 1 }, { 5 }, { 2, 3 }, { 3, 3 }, { 4, 0, 7 }, { 2, 1, 3 }, { 1, 2, 2, 2 }, { 300 } }
  local x = tide.zeros(pick(shapes), { dtype = pick(dtypes), device = pick(devices) })
  local what = roll(8)
  if what == 1 then x:fill_(1)
  elseif what == 2 and x.ndim > 1 then x = x:transpose(1, -1)
  elseif what == 3 and x.ndim == 1 and #x > 1 then x = x:slice(1, 2, -1)
  elseif what == 4 then x = x:unsqueeze(1):expand(3, table.unpack(x:size()))
  elseif what == 5 then x:free() end
  return x
end

-- Kernels written in Lua. Those that may go on are for a state whose host stops them.
local kernels = {
  "function(i, x) x[i] = x[i] + 1 end", "function(i, j, x, n) x[i][j] = n end", "function(i, n) return i * n, i end", "function(i, x) x[i",
  "function(i, x, k) x[k] = x[k + i] tide.atomic.add(x, k, 1) end", "function(i, x) for k = 1, 3 do x[i] = x[i] // k % k end end",
  "function(i, x, k) local v = tide.vec3(1, 2, 3) x[i] = v[k] end",
}
if not tide.has("save") then
  for _, text in ipairs { "function(i, x) while true do x[i] = x[i] + 1 end end", "function(i, x, n) for k = 1, n do x[i] = x[i] + k end end",
    "function(i, x, n) repeat x[i] = x[i] + tide.block_sum(1) tide.barrier() until x[i] > n end",
    "function(i, x) for k = 1, #x do for m = 1, #x do x[k] = m end end ::again:: if x[1] > 0 then goto again end end" } do
    kernels[#kernels + 1] = text
  end
end

local makers = {
  function() return pick(kernels) end,
  function() return (select(2, pcall(tide.kernel, pick(kernels)))) end,
  function() return (select(2, pcall(tide.kernel, pick(kernels)))) end,
  function() return nil end,
  function() return one_in(2) end,
  function() return pick(integers) end,
  function() return roll(4) end,
  function() return roll(4) end,
  function() return pick(floats) end,
  function() return pick(strings) end,
  function() return one_in(8) and scratch or "" end,
  function() return tide[pick(dtypes)] end,
  function() return tide.device(pick(devices)) end,
  tensor, tensor, tensor, tensor,
  function() return #pool > 0 and pick(pool) or tensor() end,
  function() return #pool > 0 and pick(pool) or tensor() end,
  function() return #pool > 0 and pick(pool) or tensor() end,
  -- plain tables: sizes, dims, data
  function()
    local t = {}
    for i = 1, roll(4) - 1 do t[i] = one_in(4) and argument(3) or roll(3) end
    return t
  end,
  function() return { { 1, 2 }, { 3, 4 } } end,
  function() return { { 1, 2 }, { 3 } } end,
  function()
    local t = { 1 }
    t[2] = t
    return t
  end,
  function()
    local t = {}
    for i = 1, 300 do t = { t } end
    return t
  end,
  function() return { tensor(), tensor() } end,
  -- options
  function()
    local t = {}
    for _ = 1, roll(3) do t[pick(keys)] = argument(2) end
    return t
  end,
  function() return { device = pick(devices), dtype = tide[pick(dtypes)] } end,
  function() return { out = tensor() } end,
  function() return { dim = pick(integers), keepdim = true } end,
  -- tables that lie
  function() return setmetatable({}, { __len = function() return pick(integers) end }) end,
  function() return setmetatable({ 1, 2 }, { __index = function() error("lie: " .. program) end }) end,
  function() return setmetatable({}, { __len = function() return 3 end, __index = function() coroutine.yield() end }) end,
  function()
    local held
    return setmetatable({ 1, 2 }, { __len = function() held = tensor() return 2 end, __gc = function() held = nil end })
  end,
  function() return setmetatable({}, { __name = pick { 7, "tide.Tensor", "tide.device" } }) end,
  function() return setmetatable({}, { __tostring = function() return nil end, __close = quiet, __call = quiet }) end,
  -- functions
  function() return quiet end,
  function() return function(...) return ... end end,
  function() return function() error("own: " .. program) end end,
  function() return function() error() end end,
  function() return function() return tensor(), tensor() end end,
  function() return function() coroutine.yield(1) return tensor() end end,
  function() return function() for i = #pool, 1, -1 do if one_in(3) then pcall(tide.Tensor.free, pool[i]) end end end end,
  function() return function() collectgarbage() return tensor() + 1 end end,
  function() return coroutine.create(function() return tensor() end) end,
  function() return coroutine.wrap(function() return tensor() end) end,
  -- foreign objects
  function() return io.stderr end,
  function() return _G end,
  function() return tide end,
}

function argument(depth)
  depth = depth or 0
  if depth > 4 then return roll(3) end
  return pick(makers)()
end

-- Finalisers call tide in the middle of whatever runs: they free, make and compute.
local function finaliser()
  setmetatable({}, {
    __gc = function()
      local x = #pool > 0 and pool[#pool]
      if tide.is_tensor(x) then pcall(tide.Tensor.free, x) end
      local y = tide.ones(2, { device = devices[#devices] })
      pcall(function() return y + y end)
    end,
  })
end

-- ---- the program ----

local function show(v, depth)
  local kind = type(v)
  if kind == "string" then return ("%q"):format(#v > 40 and v:sub(1, 40) .. "..." or v) end
  if kind == "number" then return math.type(v) == "integer" and ("%d"):format(v) or ("%.17g"):format(v) end
  if kind == "nil" or kind == "boolean" then return tostring(v) end
  if kind == "table" and (depth or 0) < 2 then
    if debug.getmetatable(v) then return "<table with a metatable>" end
    local parts = {}
    for k, w in next, v do
      parts[#parts + 1] = (type(k) == "string" and k .. "=" or "") .. show(w, (depth or 0) + 1)
      if #parts > 8 then break end
    end
    return "{" .. table.concat(parts, ", ") .. "}"
  end
  if kind == "userdata" and tide.is_tensor(v) then
    local ok, text = pcall(function() return ("tensor(%s, %s, %s)"):format(table.concat(v:size(), "x"), v.dtype, v.device) end)
    return ok and text or "tensor(freed)"
  end
  return "<" .. kind .. ">"
end

local function is_small(x)
  local ok, n = pcall(function() return x:numel() end)
  return not ok or n <= 1 << 16
end

local function keep(...)
  for i = 1, select("#", ...) do
    local v = select(i, ...)
    if (type(v) == "userdata" or (type(v) == "table" and one_in(4))) and (not tide.is_tensor(v) or is_small(v)) then
      pool[#pool + 1] = v
      if #pool > 24 then table.remove(pool, roll(#pool)) end
    end
  end
end

-- What a call may raise: one of tide's errors, or what the functions above raise.
local function is_fair(e)
  local ok, kind, message = pcall(function() return e.kind, e.message end)
  if ok and type(kind) == "string" and type(message) == "string" then
    return not message:find("%(null%)") and not message:find("^bad argument"), message
  end
  if e == nil then return true end
  local text = tostring(e)
  return text:find("lie: ", 1, true) or text:find("own: ", 1, true) or text:find("attempt to yield", 1, true)
    or text:find("__tostring' must return a string", 1, true) or text:find("'__len' must return", 1, true)
    or text:find("object length is not an integer", 1, true) or text:find("C stack overflow", 1, true)
    or text:find("cannot resume dead coroutine", 1, true), text
end

local context
if options.context then
  context = assert(package.loadlib(options.context, "luaopen_context"))()
  if not context.begin() then
    print "calls: skipped, no driver of CUDA's or no GPU"
    os.exit(77)
  end
end

local failed = 0
local function complain(seed, line, text)
  failed = failed + 1
  io.stderr:write(("calls: seed %d: %s: %s\n"):format(seed, line, text))
end

-- Half of the calls are meant to succeed: tensors that fit each other, small numbers.
local shapes = { {}, { 3 }, { 3, 3 }, { 2, 3, 3 }, { 1, 3, 1 }, { 0, 3 } }
local function plausible(n)
  local args, device = { n = n }, pick(devices)
  local shape, dtype = pick(shapes), pick { "float32", "float64", "int64", "bool", "complex64", "float16" }
  for i = 1, n do
    local what = i == 1 and 1 or roll(10)
    if what <= 5 then
      local ones = tide.ones(shape, { dtype = one_in(4) and pick(dtypes) or dtype, device = device })
      args[i] = one_in(6) and ones.ndim > 1 and ones:transpose(1, 2) or ones
    elseif what <= 8 then args[i] = pick { 1, 1, 2, 3, -1, 0 }
    elseif what == 9 then args[i] = pick { 0.5, 1.0, { 1 }, { 1, 2 }, { 3, 3 }, true, { dim = 1 }, { keepdim = true } }
    else args[i] = argument() end
  end
  return args
end

local make = {
  Storage = function() return tide.ones(4, { device = pick(devices) }):storage() end,
  Generator = function() return tide.Generator(pick(devices)) end,
  Stream = function() return tide.cuda.Stream(roll(#devices - 1) - 1) end,
  Event = function() return tide.cuda.Event { enable_timing = one_in(2) } end,
  CUDAGraph = function()
    local g = tide.cuda.CUDAGraph()
    if one_in(2) then
      local x = tide.ones(3, { device = "cuda" })
      tide.cuda.graph(g, function() x:add_(1) end)
    end
    return g
  end,
  properties = function() return tide.cuda.get_device_properties(0) end,
  loader = function() return tide.data.loader({ tide.ones(2), tide.ones(2), tide.ones(2) }, { batch_size = roll(2) }) end,
  Timer = function() return tide.Timer() end,
  device = function() return tide.device(pick(devices)) end,
  dtype = function() return tide[pick(dtypes)] end,
  shape = function() return tide.zeros(2, 3).shape end,
}

local function arguments(name)
  local n, class = roll(5) - 1, name:match "^(%a+):"
  local args = { n = n }
  if one_in(2) then
    args = plausible(math.max(n, 1))
  else
    for i = 1, n do args[i] = argument() end
    if class == "Tensor" then args[1], args.n = tensor(), math.max(n, 1) end
  end
  if make[class] and not one_in(10) then args[1], args.n = make[class](), math.max(args.n, 1) end
  return args
end

local function call(seed, name)
  local made, args = pcall(arguments, name)
  if not made then return end -- what was made on the way has failed: no memory, a capture that is open
  local parts = {}
  for i = 1, args.n do parts[i] = show(args[i]) end
  local line = name .. "(" .. table.concat(parts, ", ") .. ")"
  if options.trace then
    io.stderr:write(line, "\n")
    io.stderr:flush()
  end
  if one_in(6) then finaliser() end
  local fn = functions[name]
  local function run()
    if one_in(5) then
      local co = coroutine.create(function(...) return fn(...) end)
      local results = table.pack(coroutine.resume(co, table.unpack(args, 1, args.n)))
      if coroutine.status(co) == "suspended" and one_in(2) then coroutine.resume(co) end
      if not results[1] then error(results[2], 0) end
      return table.unpack(results, 2, results.n)
    end
    return fn(table.unpack(args, 1, args.n))
  end
  local results = table.pack(pcall(run))
  if context and not context.is_current() then
    complain(seed, line, "leaves another context current")
    os.exit(1)
  end
  if results[1] then
    keep(table.unpack(results, 2, results.n))
    for i = 2, results.n do if one_in(8) then pcall(tostring, tide.is_tensor(results[i]) and is_small(results[i]) and results[i]) end end
  else
    local fair, text = is_fair(results[2])
    if not fair then complain(seed, line, "raises " .. tostring(text)) end
    pcall(tostring, results[2])
  end
end

local function hook()
  debug.sethook()
  pcall(function() return tide.ones(2, { device = devices[#devices] }) + 1 end)
end

local function run(seed)
  state = (seed * 0x9E3779B97F4A7C15) | 1
  for _ = 1, 8 do roll(2) end
  program, pool = "seed " .. seed, {}
  collectgarbage(one_in(2) and "generational" or "incremental")
  if one_in(3) then collectgarbage("setpause", 100) end
  for _ = 1, options.calls do
    if one_in(40) then collectgarbage() end
    if one_in(60) then debug.sethook(hook, "", roll(50)) end
    call(seed, pick(names))
    debug.sethook()
  end
  pool = {}
  collectgarbage()
end

warn "@off"
for _, o in ipairs { { tide.zeros(2), "Tensor" }, { tide.zeros(2):storage(), "Storage" }, { tide.Generator(), "Generator" },
  { tide.device "cpu", "device" }, { tide.float32, "dtype" }, { tide.zeros(2).shape, "shape" },
  { tide.data.loader({ tide.ones(2), tide.ones(2) }), "loader" }, { tide.Timer(), "Timer" } } do
  methods_of(o[1], o[2])
end
if has_cuda then
  for _, o in ipairs { { tide.cuda.Stream(), "Stream" }, { tide.cuda.Event(), "Event" }, { tide.cuda.CUDAGraph(), "CUDAGraph" },
    { tide.cuda.get_device_properties(0), "properties" } } do
    methods_of(o[1], o[2])
  end
end
table.sort(names)
for seed = first, last do run(seed) end
if failed > 0 then
  io.stderr:write(("calls: %d calls raised what is no error of tide's\n"):format(failed))
  os.exit(1, true)
end
