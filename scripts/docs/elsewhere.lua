-- The page of names that other libraries have and tide has not, with what there is instead: lua_bindings/call/api/instead.def,
-- which help and the errors read, too. Returns its Markdown, the number of rows, and the hint of each name.
local path = "lua_bindings/call/api/instead.def"

local titles = {
  { "ANY", "Subjects", "Names of other libraries that nothing in tide has." },
  { "TENSOR", "Methods of tensors", "Methods and fields that a tensor of another library has." },
  { "MODULE", "Functions", "Functions of other libraries' modules." },
}

-- The rows of the file: {where=, names={...}, hint=}. Adjacent literals are joined, a word is replaced by its macro.
local function rows_of(text, macros)
  local rows, at = {}, 1
  while true do
    local _, head, where = text:find("\nINSTEAD%((%u+),", at)
    if not head then return rows end
    local fields, field = {}, {}
    at = head + 1
    while true do
      at = text:match("^%s*()", at)
      local literal, next = text:match('^"([^"\\]*)"()', at)
      if not literal then
        literal, next = text:match("^([%u_]+)()", at)
        literal = literal and assert(macros[literal], path .. ": no macro " .. literal)
      end
      if literal then
        field[#field + 1], at = literal, next
      else
        fields[#fields + 1], field = table.concat(field), {}
        local separator = text:sub(at, at)
        at = at + 1
        if separator == ")" then break end
        assert(separator == ",", path .. ": unexpected " .. separator .. " behind " .. fields[#fields])
      end
    end
    local names = {}
    for name in fields[1]:gmatch "%S+" do names[#names + 1] = "`" .. name .. "`" end
    rows[#rows + 1] = { where = where, names = names, hint = fields[2] }
  end
end

local function escape(text) return (text:gsub("[\\`*_%[%]<>#{}|~]", "\\%0")) end

return function(root)
  local text, macros = "", {}
  for line in io.lines(root .. path) do
    if not line:find("LTIDE_FFI", 1, true) then text = text .. "\n" .. line end -- differs between Lua 5.4 and LuaJIT
  end
  for line in io.lines(root .. "lua_bindings/call/did_you_mean.c") do
    local name, value = line:match '^#define ([%u_]+)%s+"([^"]*)"$'
    if name then macros[name] = value end
  end
  local rows = rows_of(text, macros)
  assert(#rows > 0, path .. " has no rows")
  local out = { "# Names from elsewhere\n\nNames that people look for and that tide does not have, with what there is instead.\n" ..
    "`help \"name\"` at the prompt and the errors for unknown names say the same.\n" }
  for _, title in ipairs(titles) do
    out[#out + 1] = ("## %s\n\n%s\n\n| you look for | here |\n| --- | --- |"):format(title[2], title[3])
    for _, row in ipairs(rows) do
      if row.where == title[1] then out[#out + 1] = ("| %s | %s |"):format(table.concat(row.names, ", "), escape(row.hint)) end
    end
    out[#out + 1] = ""
  end
  local hints = {}
  for _, row in ipairs(rows) do
    for _, name in ipairs(row.names) do hints[name:sub(2, -2)] = hints[name:sub(2, -2)] or escape(row.hint) end
  end
  return table.concat(out, "\n"), #rows, hints
end
