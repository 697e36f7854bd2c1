-- Runs busted under LuaJIT: luajit scripts/checks/luajit.lua MODULE_FOLDER RUNNER [options] spec...
--
-- The specs are in Lua 5.4's syntax: lua_bindings/compat/translate.lua translates what is loaded from files here. What
-- Lua 5.4's library has and LuaJIT's has not is made here, as far as specs use it. RUNNER is the tide for Lua 5.4, which
-- some specs start. Cases of spec/luajit.lua are left out, each for the reason that stands there.
local translate = dofile "lua_bindings/compat/translate.lua"
local module_folder, runner = table.remove(arg, 1), table.remove(arg, 1)
package.cpath = module_folder .. "/?.so;" .. package.cpath
package.path = "./?.lua;" .. package.path
arg[-1] = runner
arg[-2] = nil
package.loadlib(module_folder .. "/../../libtide.so", "*") -- whose names a library of the specs needs

local ffi, bit = require "ffi", require "bit"
local int64, uint64 = ffi.typeof "int64_t", ffi.typeof "uint64_t"
local function is_wide(x) return ffi.istype(int64, x) or ffi.istype(uint64, x) end

-- ---- the syntax ----

local plain_loadstring, plain_loadfile = loadstring, loadfile

function load(text, name, mode, env)
  if type(text) == "function" then
    local parts = {}
    for part in text do parts[#parts + 1] = part end
    text = table.concat(parts)
  end
  if text:sub(1, 1) ~= "\27" then
    local ok, translated = pcall(translate, text, name, true)
    if not ok then return nil, translated end
    text = translated
  end
  local chunk, message = plain_loadstring(text, name)
  if chunk and env then setfenv(chunk, env) end
  return chunk, message
end

function loadfile(path, mode, env)
  local file, message = io.open(path)
  if not file then return nil, message end
  local text = file:read "*a"
  file:close()
  if path:find "_spec%.lua$" then text = ("local it = __it(it, pending, %q) "):format(path) .. text end
  return load(text, "@" .. path, mode, env)
end

function dofile(path) return assert(loadfile(path))() end

local function own_file(name)
  local path = name:gsub("%.", "/") .. ".lua"
  local file = name:find "^s[pc]" and io.open(path) -- spec, scripts
  if not file then return "\n\tno file '" .. path .. "' of ours" end
  file:close()
  return assert(loadfile(path))
end
table.insert(package.loaders, 2, own_file)

-- ---- operators ----

local function operator(name, f)
  local function by_metamethod(a, b)
    local mt = debug.getmetatable(a)
    local mm = mt and mt[name]
    if not mm then
      mt = debug.getmetatable(b)
      mm = mt and mt[name]
    end
    if not mm then error("attempt to perform arithmetic on a " .. type(a) .. " value", 3) end
    return mm(a, b)
  end
  _G[name] = function(a, b)
    if b == nil then b = a end
    local plain = (type(a) == "number" or is_wide(a)) and (type(b) == "number" or is_wide(b))
    if plain then return f(a, b) end
    return by_metamethod(a, b)
  end
end
local function bits(f)
  return function(a, b)
    local r = f(int64(a), int64(b))
    return r >= -9007199254740992LL and r <= 9007199254740992LL and tonumber(r) or r
  end
end
operator("__idiv", function(a, b)
  if is_wide(a) or is_wide(b) then
    a, b = int64(a), int64(b)
    return a / b - ((a % b ~= 0 and (a < 0) ~= (b < 0)) and 1 or 0)
  end
  return math.floor(a / b)
end)
operator("__band", bits(bit.band))
operator("__bor", bits(bit.bor))
operator("__bxor", bits(bit.bxor))
operator("__shl", bits(function(a, b) return b >= 64 and 0LL or bit.lshift(a, tonumber(b)) end))
operator("__shr", bits(function(a, b) return b >= 64 and 0LL or int64(bit.rshift(a, tonumber(b))) end))
operator("__bnot", bits(function(a) return bit.bnot(a) end))

function __with(value, block, ...)
  local close = value and (debug.getmetatable(value) or {}).__close
  local function finish(ok, ...)
    if close then
      if ok then close(value, nil) else close(value, (...)) end
    end
    if not ok then error((...), 0) end
    return ...
  end
  return finish(pcall(block, ...))
end

-- ---- the library ----

-- Patterns of LuaJIT's end at a zero.
local substitute = string.gsub
for _, name in ipairs { "find", "match", "gmatch", "gsub" } do
  local plain = string[name]
  string[name] = function(text, pattern, ...)
    if name == "find" and select(2, ...) then return plain(text, pattern, ...) end
    if type(pattern) == "string" then pattern = (substitute(pattern, "%z", "%%%%z")) end
    return plain(text, pattern, ...)
  end
end
math.maxinteger, math.mininteger = 9223372036854775807LL, -9223372036854775807LL - 1
function math.type(x)
  if is_wide(x) then return "integer" end
  if type(x) ~= "number" then return nil end
  return x == math.floor(x) and math.abs(x) <= 2 ^ 53 and "integer" or "float"
end
function math.tointeger(x)
  x = tonumber(x)
  return math.type(x) == "integer" and x or nil
end
function math.ult(a, b) return uint64(a) < uint64(b) end
local atan = math.atan
function math.atan(y, x) return x and math.atan2(y, x) or atan(y) end
local log = math.log
function math.log(x, base) return base and log(x) / log(base) or log(x) end
table.pack = function(...) return { n = select("#", ...), ... } end
table.unpack = unpack
table.move = table.move or require "table.move"
local plain_pairs = pairs
function pairs(t)
  local mt = debug.getmetatable(t)
  if mt and mt.__pairs then return mt.__pairs(t) end
  return plain_pairs(t)
end
function rawlen(x) return #x end
utf8 = {
  charpattern = "[%z\1-\127\194-\244][\128-\191]*",
  char = function(...)
    local out = {}
    for i, c in ipairs { ... } do
      local function tail(shift) return 128 + math.floor(c / 2 ^ shift) % 64 end
      out[i] = c < 128 and string.char(c) or c < 2048 and string.char(192 + math.floor(c / 64), tail(0)) or
        c < 65536 and string.char(224 + math.floor(c / 4096), tail(6), tail(0)) or
        string.char(240 + math.floor(c / 2 ^ 18), tail(12), tail(6), tail(0))
    end
    return table.concat(out)
  end,
  len = function(s) return select(2, s:gsub("[^\128-\191]", "")) end,
}

-- Of formats: single numbers, and strings with the length in front, as sN.
local c_types = { b = "int8_t", B = "uint8_t", h = "int16_t", H = "uint16_t", j = "int64_t", f = "float", d = "double",
  i = "int%d_t", I = "uint%d_t", l = "int64_t", L = "uint64_t" }
local function each_item(format)
  local places = {}
  for letter, size in format:gsub("[<=! ]", ""):gmatch "(%a)(%d*)" do
    local bits = 8 * (tonumber(size) or 4)
    places[#places + 1] = { letter == "s" and "s" or ffi.typeof((c_types[letter]:format(bits)) .. "[1]"), ffi.typeof(("uint%d_t[1]"):format(bits)) }
  end
  return places
end
function string.pack(format, ...)
  local out, is_turned = {}, format:sub(1, 1) == ">"
  format = format:gsub("^>", "")
  for i, item in ipairs(each_item(format)) do
    local value = select(i, ...)
    if item[1] == "s" then
      out[i] = ffi.string(item[2](#value), ffi.sizeof(item[2])) .. value
    else
      out[i] = ffi.string(item[1](value), ffi.sizeof(item[1]))
      if is_turned then out[i] = out[i]:reverse() end
    end
  end
  return table.concat(out)
end
local function plain_of(x) return tonumber(x) and is_wide(x) and math.abs(tonumber(x)) < 2 ^ 53 and tonumber(x) or x end
function string.unpack(format, text, at)
  local out, n = {}, 0
  at = at or 1
  for i, item in ipairs(each_item(format)) do
    local ctype = item[1] == "s" and item[2] or item[1]
    local to = ctype()
    ffi.copy(to, text:sub(at, at + ffi.sizeof(ctype) - 1), ffi.sizeof(ctype))
    at, n = at + ffi.sizeof(ctype), i
    out[i] = plain_of(to[0])
    if item[1] == "s" then out[i], at = text:sub(at, at + out[i] - 1), at + out[i] end
  end
  out[n + 1] = at
  return unpack(out, 1, n + 1)
end

-- Of what 5.4 gives: true or nil, "exit" or "signal", and a code.
local function status(code)
  local how = code % 256 == 0 and "exit" or "signal"
  code = how == "exit" and math.floor(code / 256) or code % 128
  return (how == "exit" and code == 0) or nil, how, code
end
local plain_execute = os.execute
function os.execute(command) return status(plain_execute(command)) end

local plain_collect = collectgarbage
function collectgarbage(what, n)
  if what == "incremental" or what == "generational" then return "incremental" end
  return plain_collect(what, n)
end

function warn(...) io.stderr:write("Lua warning: ", ..., "\n") end

-- ---- cases that are left out ----

tide = require "tide" -- as the runner has it

-- ---- lists of integers ----

-- In LuaJIT a list of numbers is float32. The specs write such lists for indexes: where a list was written with integers
-- alone, tide.tensor makes it int64 as in Lua 5.4.
local integers = setmetatable({}, { __mode = "k" })
function __integers(list)
  integers[list] = true
  return list
end
local function are_integers(list)
  if type(list) ~= "table" then return false end
  if integers[list] then return true end
  for _, row in ipairs(list) do
    if not are_integers(row) then return false end
  end
  return #list > 0
end
local plain_tensor = tide.tensor
function tide.tensor(data, options, ...)
  local has_dtype = type(options) == "table" and rawget(options, "dtype")
  if are_integers(data) and not has_dtype and (options == nil or type(options) == "table") and select("#", ...) == 0 then
    local with = { dtype = tide.int64 }
    for k, v in pairs(options or {}) do with[k] = v end
    options = with
  end
  if options == nil then return plain_tensor(data) end
  return plain_tensor(data, options, ...)
end

local left_out = require "spec.luajit"

-- Takes the place of `it` in the file of that path.
function __it(it, pending, path)
  local reasons = left_out[path] or {}
  return function(name, ...)
    if not reasons[name] then return it(name, ...) end
    return it(name, function() pending(reasons[name]) end)
  end
end

local load_ours = loadfile
function loadfile(path, ...)
  local reason = left_out[path]
  if type(reason) == "string" then return load(("it(%q, function() pending(%q) end)"):format(path, reason), "@" .. path) end
  return load_ours(path, ...)
end

require "scripts.checks.busted"
