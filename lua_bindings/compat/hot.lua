-- hot.lua: what loops call most, so that LuaJIT compiles it: reads of single elements, sizes and rows go through the FFI to
-- hot.c. Where that answers 0 the ordinary function is called, which also raises. Gets the FFI, tide's state, the
-- functions of hot.c, the metatable of tensors, their methods, and functions of Lua's own library.
--
-- tide.await becomes the function of its chunk, since a coroutine cannot yield below a function in C.
--
-- The other metamethods become functions in Lua around those in C, since a trace ends at a metamethod in C and goes on
-- behind a call of one.

local ffi, state_at, read_at, size_at, row_at, refill, chunk, meta, methods, module, type, getmetatable, rawget, next, select = ...
local state = ffi.cast("void *", state_at)
local read = ffi.cast("int (*)(void *, void *, double *)", read_at)
local size = ffi.cast("double (*)(void *, void *, int, double)", size_at)
local row = ffi.cast("int (*)(void *, void *, double, void *)", row_at)
local value = ffi.new "double[1]"

-- The FFI takes the address of any userdata: hot.c reads there only what a tensor has.
local function is_tensor(x) return type(x) == "userdata" and getmetatable(x) == "tide.Tensor" end

local fast = {} -- by the function in C that it stands before

local item = methods.item
fast[item] = function(x, ...)
  if is_tensor(x) and select("#", ...) == 0 then
    local kind = read(state, x, value)
    if kind == 1 then return value[0] end
    if kind ~= 0 then return kind == 3 end
  end
  return item(x, ...)
end

local SIZE, NUMEL, DIM = 0, 1, 2 -- as in hot.c

local function count(name, what)
  local whole = methods[name]
  fast[whole] = function(x, ...)
    if is_tensor(x) and select("#", ...) == 0 then
      local n = size(state, x, what, 0)
      if n >= 0 then return n end
    end
    return whole(x, ...)
  end
end
count("numel", NUMEL)
count("dim", DIM)

local size_of = methods.size
fast[size_of] = function(x, ...)
  local dim = ...
  if select("#", ...) == 1 and type(dim) == "number" and is_tensor(x) then
    local n = size(state, x, SIZE, dim)
    if n >= 0 then return n end
  end
  return size_of(x, ...)
end

-- Empty handles for rows: compiled code can make none.
local rows, left = {}, 0

local index = meta.__index
function meta.__index(x, key)
  if type(key) == "string" then
    local method = rawget(methods, key)
    if method then return fast[method] or method end
  elseif type(key) == "number" and is_tensor(x) then
    if left == 0 then left = refill(rows) end
    local u = rows[left]
    if u and row(state, x, key, u) ~= 0 then
      rows[left] = false
      left = left - 1
      return u
    end
  end
  local result = index(x, key)
  return result
end

local set = meta.__newindex
function meta.__newindex(x, key, v) set(x, key, v) end

local function wrap(f)
  return function(a, b)
    local result = f(a, b)
    return result
  end
end
local kept = { __index = true, __newindex = true, __gc = true, __close = true, __pairs = true, __tostring = true, __call = true }
local around = {}
for name, f in next, meta do
  if type(f) == "function" and not kept[name] then around[name] = wrap(f) end
end
for name, f in next, around do meta[name] = f end

local waits = { ["tide.Tensor"] = true, ["tide.cuda.Event"] = true, ["tide.cuda.Stream"] = true, ["tide.cuda.CUDAGraph"] = true }
local await = module and module.await
if await then
  function module.await(what, ...)
    local is_one = type(what) == "userdata" and select("#", ...) == 0
    if not (is_one and waits[getmetatable(what)]) then return await(what, ...) end
    return chunk "host/await.await"(what)
  end
end
