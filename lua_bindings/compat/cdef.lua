-- cdef.lua: writes what the public headers declare as LuaJIT's FFI reads it, one declaration a line, while tide is built.
-- usage: tide cdef.lua OUT PREPROCESSED HEADER...      PREPROCESSED: all headers, by the compiler (-E -DTIDE_STATIC)
--
-- A pointer to a function is a void * there: a function of Lua's, which the FFI would make a callback of, is refused, and
-- the address of one in C is taken. So is a FILE *. Inline functions are left out, and constants that are macros become
-- static ones.

local function read(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return text
end

local out, path = assert(io.open(arg[1], "w")), nil
local kept = {}
for line in read(arg[2]):gmatch "[^\n]+" do
  path = line:match '^# %d+ "(.-)"' or path
  if line:sub(1, 1) ~= "#" and path and path:match "include/tide/[^/]+$" then kept[#kept + 1] = line end
end
local text = "; " .. table.concat(kept, " "):gsub("%s+", " ")
text = text:gsub("static inline [^{;]-%b{}", "")
text = text:gsub("typedef [%w_ *]-%( ?%* ?([%w_]+) ?%) ?%b()", "typedef void *%1")
text = text:gsub("([,;({]) ?[%w_ *]-%( ?%* ?([%w_]+) ?%) ?%b()", "%1 void *%2")
text = text:gsub("%f[%w_]FILE%f[^%w_]", "void"):gsub("%f[%w_]pid_t%f[^%w_]", "int"):gsub("%f[%w_]_Bool%f[^%w_]", "bool")

for i = 3, #arg do
  for line in io.lines(arg[i]) do
    local name, value = line:match "^#define +(TIDE_[%w_]+) +%(?(%-?%d+)%)?%f[%s\0]"
    if name then out:write(("static const int %s = %s;\n"):format(name, value)) end
  end
end
-- A declaration ends at a semicolon outside of braces.
local declaration = ""
for piece in text:gmatch "[^;]*;" do
  declaration = declaration .. piece
  local _, opened = declaration:gsub("{", "")
  local _, closed = declaration:gsub("}", "")
  if opened == closed then
    declaration = declaration:gsub("^[; ]+", "")
    if declaration ~= "" then out:write(declaration, "\n") end
    declaration = ""
  end
end
assert(declaration == "", "cdef.lua: braces do not match")
out:close()
