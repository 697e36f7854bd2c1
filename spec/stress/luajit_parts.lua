-- luajit_parts.lua: writes spec/sandbox/*.lua as LuaJIT reads them into FOLDER/spec/sandbox, for sandbox_test as a host with
-- LuaJIT. usage: tide spec/stress/luajit_parts.lua FOLDER
local translate = dofile "lua_bindings/compat/translate.lua"

local closes = "there is no coroutine.close, and no value that closes"
local finalisers = "tables have no finalisers"
local one_hook = "a state of LuaJIT has one hook, which the host gives away with debug"
local left_out = {
  ["files by name"] = "pairs knows no metamethod",
  ["the table that pairs walks"] = "pairs knows no metamethod",
  ["reading is as ever"] = "pairs knows no metamethod",
  ["fields of a tensor"] = "a shape is a plain table of its own",
  ["an error on its way when a finaliser takes what is left"] = finalisers,
  ["coroutine.wrap that closes what loops"] = closes,
  ["coroutine.close of what was ended"] = closes,
  ["coroutines are as ever otherwise"] = closes,
  ["coroutine.close with a __close that loops"] = closes,
  ["__close that goes on after the end"] = closes,
  ["replicas that loop where they are closed"] = closes,
  ["an error whose __tostring is no string"] = "tostring gives what that gives",
  ["host memory comes back"] = closes,
  ["bytecode given as text"] = "its message is another one, which luajit_host.c knows",
  ["the globals through an environment"] = "there is no _ENV",
  ["compilations"] = "the text is translated before it is loaded, so that no kernel finds it",
  ["indexes outside of everything"] = "indexes of 64 bits are no numbers there",
  ["a deep recursion of C"] = "LuaJIT does not end a recursion of functions in C",
  ["a hook of debug.sethook, or none, hides no quota"] = one_hook,
  ["a hook of lines hides no time"] = one_hook,
  ["a script that is killed under a hook of lines"] = one_hook,
  ["scopes in scopes without end"] = "LuaJIT does not end a recursion of functions in C",
}
local whole_files = { ["spec/sandbox/bounded.lua"] = "LuaJIT's own functions of strings and tables run to their end" }
-- Nor does a host bound the heap of LuaJIT without GC64, or count its indexes from 0.

for path in assert(io.popen "ls spec/sandbox/*.lua"):lines() do
  local file = assert(io.open(path))
  local text = "\n" .. file:read "a" .. "\n--- "
  file:close()
  local out = assert(io.open(arg[1] .. "/" .. path, "w"))
  local at = text:find "\n%-%-%- "
  while true do
    local next_at = text:find("\n%-%-%- ", at + 1)
    if not next_at then break end
    local name, body = text:sub(at + 1, next_at):match "^%-%-%- ([^\n]*)\n(.*)"
    local settings = ""
    for line in body:gmatch "[^\n]*\n" do
      if line:sub(1, 4) ~= "--! " then break end
      settings = settings .. line
    end
    local is_heap = name:find("^Lua's memory") or settings:find("--! memory", 1, true)
    if not left_out[name] and not whole_files[path] and not is_heap and not settings:find("from 0", 1, true) then
      body = translate(body:sub(#settings + 1), name)
      if body:find("__shl", 1, true) then body = "local function __shl(x, n) return x * 2 ^ n end " .. body end
      out:write("--- ", name, "\n", settings, body, "\n")
    end
    at = next_at
  end
  out:close()
end
