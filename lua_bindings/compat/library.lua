-- library.lua: tide.ffi, the C library through LuaJIT's FFI: gets the FFI, what the public headers declare (cdef.lua), the
-- file of the library, its sizes and offsets as {struct, field or false, bytes}, what raises, tide's state, two functions
-- and what refuses a name of library.c, and the table that has the others. It fills that, and gives what tells the address
-- of a pointer to a tensor.

local ffi, declarations, file, layout, differ, state_at, begin_at, end_at, absent, space = ...

-- A script may have declared some of it itself: then each is tried alone, and the layout tells whether it is right.
if not pcall(ffi.cdef, declarations) then
  for line in declarations:gmatch "[^\n]+" do pcall(ffi.cdef, line) end
end

-- What LuaJIT makes of the declarations is what the library was compiled to.
for _, place in ipairs(layout) do
  local struct, field, bytes = place[1], place[2], place[3]
  local known, ctype = pcall(ffi.typeof, struct)
  local here = known and (field and ffi.offsetof(ctype, field) or not field and ffi.sizeof(ctype)) or nil
  if here ~= bytes then differ(struct, field, bytes, here) end
end

local found, library = pcall(ffi.load, file)
if not found then library = ffi.C end -- a host that holds tide itself, and exports it

-- While a function runs, core's hooks must not call Lua or collect: compiled code that calls C has left Lua's stack as it
-- was before. So each is called between two others, which say so to them.
local state = ffi.cast("void *", state_at)
local first = ffi.cast("void *(*)(void *)", begin_at)
local finally = ffi.cast("void (*)(void *, void *)", end_at)

local enums, functions = {}, {}
for name in declarations:gmatch "typedef enum ([%w_]+) {" do enums[name] = true end
for result, name, parameters in declarations:gmatch "\n([%w_ *]-)([%w_]+)(%b());" do
  local n = parameters == "(void)" and 0 or 1 + select(2, parameters:gsub(",", ""))
  functions[name] = { n, enums[result:match "^[%w_]*"] }
end

local makers = {}
local function maker(n, gives_enum)
  local key = n .. (gives_enum and "e" or "")
  if not makers[key] then
    local names = {}
    for i = 1, n do names[i] = "a" .. i end
    makers[key] = assert(loadstring(("local f, state, first, finally, tonumber = ... return function(%s) " ..
      "local before = first(state) local result = f(%s) finally(state, before) return %s end"):format(
      table.concat(names, ", "), table.concat(names, ", "), gives_enum and "tonumber(result)" or "result"), "=[tide ffi]"))
  end
  return makers[key]
end

space.lib = setmetatable({}, {
  __metatable = "tide.ffi.lib",
  __index = function(lib, name)
    local is = functions[name]
    local value = library[name]
    if is then value = maker(is[1], is[2])(value, state, first, finally, tonumber) end
    rawset(lib, name, value)
    return value
  end,
})
for name, value in pairs(ffi) do
  if rawget(space, name) == nil then space[name] = value end
end
setmetatable(space, { __metatable = "tide.ffi", __index = absent })

local tensor, constant = ffi.typeof "tide_tensor *", ffi.typeof "const tide_tensor *"
local function address(p)
  if not (ffi.istype(tensor, p) or ffi.istype(constant, p)) then return nil end
  return tonumber(ffi.cast("intptr_t", p))
end
return address
