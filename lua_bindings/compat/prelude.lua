-- prelude.lua: what the bindings have in Lua of LuaJIT's own: gets the FFI, three functions of open.c and a
-- table with weak keys.

local ffi, protect, closer, throw, kept = ...
local int, uint = ffi.typeof "int64_t", ffi.typeof "uint64_t"

-- An integer that a double does not hold, and int64 does: what is beyond has no dtype, and is no number to tide.
local function is_wide(x) return ffi.istype(int, x) or ffi.istype(uint, x) and x <= 0x7fffffffffffffffULL end

-- Its lower 32 bits, without a sign, and its upper ones, with it.
local function parts(x)
  local low = int(x) % 4294967296LL
  if low < 0 then low = low + 4294967296LL end
  return tonumber(low), tonumber((int(x) - low) / 4294967296LL)
end

local function join(low, high) return int(high) * 4294967296LL + int(low) end

local function finish(value, ok, ...)
  local close = closer(value)
  if close then
    if ok then close(value, nil) else close(value, (...)) end
  end
  if not ok then throw((...)) end
  return ...
end

-- The block behind `local value <close>`.
local function with(value, block, ...) return finish(value, protect(block, ...)) end

-- An address as a pointer, beside which `alive` is kept. In place of such a table a finaliser could do that, but a cdata
-- has one, and that is the script's.
local function point(ctype, at, alive)
  local p = ffi.cast(ctype, at)
  kept[p] = alive
  return p
end

return is_wide, parts, join, with, point
