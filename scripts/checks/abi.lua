-- Compares what the public headers and libtide.so are with what they were at the last release, which abi.txt holds: exported
-- functions and their types, structs with the sizes and offsets of their fields, the values of constants. What a program
-- was built with then must still hold: additions pass, and a struct that begins with `struct_size` may grow at its end.
-- All else needs a new soname, which a new major version brings, and until 1.0 a new minor version.
--
-- The compiler's preprocessor finds the declarations, a C program prints their sizes, and where the text of a function's
-- type has changed the compiler is asked whether the type has.
-- usage: tide scripts/checks/abi.lua BUILD LUA_INCLUDE [--record | --exact | --against FILE | --print]
--   --record  writes abi.txt; refuses to break a version that CHANGELOG.md does not call "not released yet"
--   --against compares with another record; --print writes what a record of this tree would be
--   --exact   fails where abi.txt is of another version or lacks an addition: for scripts/release
local root = (arg[0]:match "^(.*/)" or "./") .. "../../"
local build, lua_include, mode, record_path = arg[1], arg[2], arg[3], root .. "scripts/checks/abi.txt"
if mode == "--against" then mode, record_path = nil, arg[4] end
if not lua_include or not record_path or (mode and mode ~= "--record" and mode ~= "--exact" and mode ~= "--print") then
  io.stderr:write "usage: tide scripts/checks/abi.lua BUILD LUA_INCLUDE [--record | --exact | --against FILE | --print]\n"
  os.exit(2)
end

local function fail(...)
  print("abi: " .. (...):format(select(2, ...)))
  os.exit(1)
end

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  assert(file:write(text))
  assert(file:close())
end

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local function output_of(command)
  local pipe = assert(io.popen(command .. " 2>&1"))
  local text = pipe:read "a"
  return text, pipe:close()
end

local function must(command)
  local text, good = output_of(command)
  if not good then fail("%s\n%s", command, text) end
  return text
end

local folder = must("mktemp -d"):match "%S+"
local exit = os.exit
function os.exit(code)
  os.execute("rm -rf " .. quote(folder))
  exit(code)
end
local flags = ("-std=c11 -I%s -I%s -I%s"):format(quote(root .. "core/include"), quote(root .. "lua_bindings"), quote(lua_include))

-- ---- the declarations ----

local includes = {}
for path in must("ls " .. quote(root) .. "core/include/tide/*.h"):gmatch "[^\n]+" do
  includes[#includes + 1] = ('#include "tide/%s"\n'):format(path:match "[^/]+$")
end
includes[#includes + 1] = '#include "tide_lua.h"\n'
includes = table.concat(includes)

-- What the preprocessor makes of our headers, without what they include of others, in one line.
local function preprocessed()
  write(folder .. "/headers.c", includes)
  local out, ours = {}, false
  for line in must("cc -E " .. flags .. " " .. quote(folder .. "/headers.c")):gmatch "[^\n]+" do
    local file = line:match '^# %d+ "([^"]*)"'
    if file then
      ours = file:find("/include/tide/", 1, true) ~= nil or file:find("tide_lua.h", 1, true) ~= nil
    elseif ours then
      out[#out + 1] = line
    end
  end
  return (table.concat(out, " "):gsub("%s+", " "))
end

-- The names of a struct's fields. Between two semicolons is one declaration of one or more of them.
local function fields_of(body)
  local names = {}
  for declaration in body:gmatch "[^;]+" do
    declaration = declaration:gsub("%b[]", "")
    local pointer = declaration:match "%(%*([%w_]+)%)%s*%b()"
    if pointer then
      names[#names + 1] = pointer
    else
      for part in (declaration .. ","):gmatch "(.-)," do
        local name = part:match "([%a_][%w_]*)%s*$"
        if name then names[#names + 1] = name end
      end
    end
  end
  return names
end

-- {functions = {name = text}, types = {name = text}, structs = {{name, fields}}, constants = {name}}
local function declarations()
  local exported = '__attribute__((visibility("default"))) '
  -- What else is an attribute, such as `deprecated`, is none of the type.
  local text = preprocessed():gsub("__attribute__ ?(%b()) ?", function(list) return list:find("visibility", 1, true) and exported or "" end)
  local found = { functions = {}, types = {}, structs = {}, constants = {} }
  for declaration in text:gmatch(exported:gsub("%p", "%%%0") .. "([^;{]*%)) ?;") do
    found.functions[declaration:match "([%w_]+) ?%(" or fail("not understood: %s", declaration)] = declaration
  end
  for declaration, name in text:gmatch "(typedef [^;{]*%(%*([%w_]+)%)%([^;{]*%));" do found.types[name] = declaration end
  for name, body in text:gmatch "typedef struct ([%w_]+) (%b{})" do
    if body:find("{", 2, true) then fail("struct %s has a struct or union inside, which abi.lua does not understand", name) end
    found.structs[#found.structs + 1] = { name, fields_of(body:sub(2, -2)) }
  end
  for body in text:gmatch "enum [%w_ ]*(%b{})" do
    for item in body:sub(2, -2):gmatch "[^,]+" do
      local name = item:match "^ *(TIDE_[%w_]+)"
      -- A count of the others grows with each.
      if name and not name:find "_COUNT$" then found.constants[#found.constants + 1] = name end
    end
  end
  for name in read(root .. "core/include/tide/tide.h"):gmatch "\n#define (TIDE_[%u_]+) +%(?%-?%d" do
    if not name:find "^TIDE_VERSION" then found.constants[#found.constants + 1] = name end
  end
  return found
end

-- ---- facts: a line of the record each, {kind = {name = value}} ----

local function measured(found)
  local lines = { "#include <stddef.h>\n#include <stdio.h>\n", includes, "int main(void) {\n" }
  local function add(...) lines[#lines + 1] = (...):format(select(2, ...)) end
  for _, struct in ipairs(found.structs) do
    local name = struct[1]
    add('  printf("struct %s %%zu\\n", sizeof(%s));\n', name, name)
    for _, field in ipairs(struct[2]) do
      add('  printf("field %s.%s %%zu %%zu\\n", offsetof(%s, %s), sizeof(((%s *)0)->%s));\n', name, field, name, field, name, field)
    end
  end
  for _, name in ipairs(found.constants) do add('  printf("constant %s %%lld\\n", (long long)%s);\n', name, name) end
  add("  return 0;\n}\n")
  write(folder .. "/print.c", table.concat(lines))
  must(("cc -w %s -c -o %s %s"):format(flags, quote(folder .. "/print.o"), quote(folder .. "/print.c")))
  -- The inline functions of tide_lua.h name functions of Lua and tide, which are never called here.
  must(("cc -Wl,--unresolved-symbols=ignore-all -o %s %s"):format(quote(folder .. "/print"), quote(folder .. "/print.o")))
  return must(quote(folder .. "/print"))
end

local kinds = { "soname", "function", "type", "struct", "field", "constant" }

local function facts_of(text)
  local facts = {}
  for _, kind in ipairs(kinds) do facts[kind] = {} end
  for line in text:gmatch "[^\n]+" do
    local kind, name, value = line:match "^(%l+) ([%w_.]+) (.+)$"
    if facts[kind] then facts[kind][name] = value end
  end
  return facts
end

local library = build .. "/lib/libtide.so"
local function current()
  local found, lines = declarations(), {}
  local soname = must("readelf -d " .. quote(library)):match "%(SONAME%)[^%[]*%[([^%]]+)%]"
  lines[#lines + 1] = "soname " .. (soname or fail("%s has no soname", library)) .. " 1"
  local exported = {}
  for name in must("nm -D --defined-only " .. quote(library)):gmatch "([%w_]+)\n" do exported[name] = true end
  for name, text in pairs(found.functions) do
    if exported[name] then lines[#lines + 1] = ("function %s %s"):format(name, text) end
  end
  for name, text in pairs(found.types) do lines[#lines + 1] = ("type %s %s"):format(name, text) end
  for line in measured(found):gmatch "[^\n]+" do lines[#lines + 1] = line end
  table.sort(lines)
  return table.concat(lines, "\n") .. "\n"
end

-- ---- the comparison ----

-- Of {name = text}, declarations of functions and types: the ones that the compiler refuses behind the headers, since
-- their type there is another one, or gone.
local function conflicting(declared)
  local names, lines, found = {}, {}, {}
  for name in pairs(declared) do names[#names + 1] = name end
  for i, name in ipairs(names) do lines[i] = declared[name] .. ";\n" end
  write(folder .. "/headers.h", includes)
  write(folder .. "/again.c", '#include "headers.h"\n' .. table.concat(lines))
  local text, good = output_of(("LC_ALL=C cc -w -fsyntax-only -fmax-errors=0 %s %s"):format(flags, quote(folder .. "/again.c")))
  for number in text:gmatch "again%.c:(%d+):%d+: error:" do found[names[tonumber(number) - 1]] = true end
  if not good and not next(found) then fail("the compiler says\n%s", text) end
  return found
end

-- What no longer holds of what `old` says: a list of sentences.
local function broken(old, new)
  local out, moved = {}, 0
  local function say(...) out[#out + 1] = (...):format(select(2, ...)) end
  local changed = {}
  for _, kind in ipairs { "function", "type" } do
    for name, text in pairs(old[kind]) do
      if not new[kind][name] then
        say("%s %s is gone: it was `%s`", kind, name, text)
      elseif new[kind][name] ~= text then
        changed[name] = text
      end
    end
  end
  if next(changed) then
    for name in pairs(conflicting(changed)) do
      say("%s has another type: it was `%s`, and is `%s`", name, changed[name], new["function"][name] or new.type[name])
    end
  end
  for name, size in pairs(old.struct) do
    local now = new.struct[name]
    local may_grow = old.field[name .. ".struct_size"] ~= nil
    if not now then
      say("struct %s is gone", name)
    elseif now ~= size and not (may_grow and tonumber(now) > tonumber(size)) then
      say("struct %s has %s bytes, and had %s", name, now, size)
    end
  end
  for name, place in pairs(old.field) do
    local now = new.field[name]
    if not now and new.struct[name:match "^[^.]+"] then say("field %s is gone", name) end
    if now and now ~= place then say("field %s is at offset and of size %s, and was %s", name, now:gsub(" ", ", "), (place:gsub(" ", ", "))) end
  end
  for name, value in pairs(old.constant) do
    local now = new.constant[name]
    if not now then say("constant %s is gone: it was %s", name, value) end
    if now and now ~= value then
      moved = moved + 1
      say("constant %s is %s, and was %s", name, now, value)
    end
  end
  table.sort(out)
  if moved > 1 then say("%d constants moved: a new line of op.def, of another list or of an enum goes behind all others", moved) end
  return out
end

local function added(old, new)
  local n = 0
  for _, kind in ipairs(kinds) do
    for name in pairs(new[kind]) do n = n + (old[kind][name] and 0 or 1) end
  end
  return n
end

-- ---- what is asked ----

local version = read(root .. "core/include/tide/tide.h"):match '#define TIDE_VERSION +"([^"]+)"'
local text = current()
if mode == "--print" then
  io.write("# version ", version, "\n", text)
  os.exit(0)
end
local new = facts_of(text)
local file = io.open(record_path, "rb")
local recorded = file and file:read "a"
if file then file:close() end
if not recorded and mode ~= "--record" then fail("%s is not there; --record writes it", record_path) end

local old_version = recorded and recorded:match "^# version (%S+)" or version
local old = facts_of(recorded or "")
local same_soname = next(old.soname) == nil or next(old.soname) == next(new.soname)
local problems = same_soname and broken(old, new) or {}
local unreleased = read(root .. "CHANGELOG.md"):find("## " .. old_version .. ", not released yet", 1, true)

if mode == "--record" then
  if #problems > 0 and not unreleased then
    print(table.concat(problems, "\n"))
    fail("%s is released: what is above needs a soname other than %s, by a new major version (until 1.0: minor version)", old_version, next(old.soname))
  end
  write(record_path, ("# version %s\n# Written by scripts/checks/abi.lua --record\n%s"):format(version, text))
  print(("abi: recorded for %s, %s; %d that broke"):format(version, next(new.soname), #problems))
  os.exit(0)
end
if not same_soname then
  print(("abi: the last release had %s and this is %s: nothing has to hold"):format(next(old.soname), next(new.soname)))
elseif #problems > 0 then
  print(table.concat(problems, "\n"))
  print(("abi: what was built with %s and asks for %s does not work with this tree"):format(old_version, next(old.soname)))
  fail(unreleased and "%s is not released: if that is meant, run `build/bin/tide scripts/checks/abi.lua build %s --record`"
    or "%s is released: keep what is above, or bring a new major version (until 1.0: minor version)%.0s", old_version, lua_include)
end
if mode == "--exact" and (old_version ~= version or recorded:gsub("^#[^\n]*\n#[^\n]*\n", "") ~= text) then
  fail("abi.txt is of %s, or lacks additions: run `build/bin/tide scripts/checks/abi.lua build %s --record` for %s", old_version, lua_include, version)
end
local count = 0
for _ in pairs(new["function"]) do count = count + 1 end
print(("abi: %d functions, %s as of %s, %d additions"):format(count, next(new.soname), old_version, added(old, new)))
os.exit(0)
