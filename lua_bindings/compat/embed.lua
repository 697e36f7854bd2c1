-- embed.lua: writes texts as C: a list of {name, text, length}. What is in Lua is translated for LuaJIT.
-- usage: tide embed.lua OUT FILE...
local translate = dofile((arg[0]:gsub("embed%.lua$", "translate.lua")))

local out = assert(io.open(arg[1], "w"))
for i = 2, #arg do
  local name = arg[i]:match "[^/]*/[^/]*$"
  local file = assert(io.open(arg[i]))
  local text = file:read "*a"
  file:close()
  if name:match "%.lua$" then text = translate(text, name) end
  out:write(('{"=[tide %s]", (const char[]){'):format(name), (text:gsub(".", function(c) return c:byte() .. "," end)), "}, ",
    #text, "},\n")
end
out:close()
