-- chunks.lua: what the chunks of lua_bindings take from each other is there, and is of a room below (floors.lua). What C
-- calls by name, "ROOM/NAME.function", is there too. luacheck.sh finds names that a chunk did not take.
-- usage, in the source tree: tide scripts/checks/chunks.lua

local failures, count = 0, 0
local function complain(path, ...)
  failures = failures + 1
  print(path .. ": " .. string.format(...))
end

local read = dofile("scripts/docs/file.lua").read

local function list(command)
  local out = {}
  for path in io.popen(command):lines() do out[#out + 1] = path end
  return out
end

local calls = {} -- room -> {room -> may it call that?}
for _, room in ipairs(dofile("scripts/checks/floors.lua").bindings) do
  calls[room[1]] = { [room[1]] = true }
  for _, name in ipairs(room.calls) do calls[room[1]][name] = true end
end

-- Without comments and strings, except for the names that are taken.
local function code_of(text)
  text = text:gsub("%[(=*)%[.-%]%1%]", '""'):gsub("%-%-[^\n]*", "")
  return (text:gsub('"[^"\n]*"', function(s) return s:find "^\"%w+/[%w_]+%.?c?\"$" and s or '""' end))
end

-- {"ROOM/NAME" -> {name -> true}} of what chunks give, and {"ROOM/NAME.c" -> the text of the C file}.
local made = { ["kernel/texts"] = true, ["help/examples"] = true } -- by CMake
local gives, lists, texts = { ["kernel/texts"] = {}, ["help/examples"] = {} }, {}, {}
for _, path in ipairs(list "ls lua_bindings/*/*.lua") do
  local name, text = path:match "^lua_bindings/(.*)%.lua$", read(path)
  if not name:find "^compat/" then
    gives[name], texts[name] = {}, text
    for field in text:gmatch "\nfunction M%.([%w_]+)%(" do gives[name][field] = true end
    for fields in text:gmatch "\n(M%.[%w_., ]+) = " do
      for field in fields:gmatch "M%.([%w_]+)" do gives[name][field] = true end
    end
  end
end
for _, path in ipairs(list "grep -lE 'ltide_script_give|LTIDE_GIVE|LTIDE_SCRIPT|const luaL_Reg ltide_' lua_bindings/*/*.c") do
  lists[path:match "^lua_bindings/(.*)$"] = read(path)
end

local function check_gives(path, from, field)
  count = count + 1
  if lists[from] then
    if not lists[from]:find("%f[%w_]" .. field .. "%f[^%w_]") then complain(path, "%s gives no %s", from, field) end
  elseif not made[from] and not gives[from][field] then
    complain(path, "%s gives no %s", from, field)
  end
end

local function check_chunk(name, text)
  local path, room, code = "lua_bindings/" .. name .. ".lua", name:match "^%w+", code_of(text)
  for from in code:gmatch '%f[%w_]use%(?%s?"([^"\n]+)"' do
    local to = from:match "^%w+"
    if not gives[from] and not lists[from] then complain(path, "there is no %s", from) end
    local is_optional = text:find('has "' .. from .. '"', 1, true) -- of the runner
    if not calls[room][to] and not is_optional then complain(path, "%s stands on no floor above %s", room, from) end
  end
  for from, fields in text:gmatch '%f[%w_]use%("(%l+/[%l_]+%.?c?)", ([^\n]-)%)' do
    for field in fields:gmatch '"([%w_]+)"' do check_gives(path, from, field) end
  end
  for names, values in code:gmatch '\nlocal ([%w_, ]+) = (use "[^\n]*)' do
    local aliases = {}
    for alias in names:gmatch "[%w_]+" do aliases[#aliases + 1] = alias end
    local k = 0
    for from in values:gmatch '"([^"]*)"' do
      k = k + 1
      for field in code:gmatch("%f[%w_.:]" .. aliases[k] .. "%.([%a_][%w_]*)") do check_gives(path, from, field) end
    end
  end
  for field in code:gmatch "%f[%w_.:]M%.([%a_][%w_]*)" do check_gives(path, name, field) end
end

for name, text in pairs(texts) do check_chunk(name, text) end
for _, path in ipairs(list "find lua_bindings -name '*.[ch]' -o -name '*.def'") do
  local text = read(path)
  for name in text:gmatch "ltide_script_%l+%(L, \"([^\"]*)\"" do
    if not name:find "/" then complain(path, "%s has no room and file", name) end
  end
  for from, field in text:gmatch '"(%l+/[%l_]+%.c)%.([%l_]+)"' do check_gives(path, from, field) end
  for from, field in text:gmatch '"(%l+/[%l_]+)%.([%w_]*)"' do
    if field ~= "c" and field ~= "h" and field ~= "def" then
      if not gives[from] then complain(path, "there is no %s", from)
      elseif field ~= "" then check_gives(path, from, field) end
    end
  end
end
if count < 1000 then complain("chunks", "only %d names were found: this check sees nothing", count) end
print(failures == 0 and ("chunks: %d names are there"):format(count) or ("chunks: %d are not"):format(failures))
os.exit(failures == 0, true)
