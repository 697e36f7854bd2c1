-- Lua 5.4's syntax as LuaJIT reads it: what a translated text gives is what the text gives, here where both can run.
require "tide"
require "spec.support.device"
if _VERSION ~= "Lua 5.4" then return pending "compares with Lua 5.4" end

local translate = dofile "lua_bindings/compat/translate.lua"

-- What LuaJIT's module has under these names.
local calls = {
  __idiv = function(a, b) return a // b end, __band = function(a, b) return a & b end, __bor = function(a, b) return a | b end,
  __bxor = function(a, b) return a ~ b end, __shl = function(a, b) return a << b end, __shr = function(a, b) return a >> b end,
  __bnot = function(a) return ~a end,
}
setmetatable(calls, { __index = _G })

local function same(text)
  local translated = translate(text, "text")
  local want = table.pack(assert(load((text:gsub("^#[^\n]*", ""))))())
  local got = table.pack(assert(load(translated, "=translated", "t", calls), translated)())
  assert.are.same(want, got, translated)
  assert.are.equal(select(2, text:gsub("\n", "")), select(2, translated:gsub("\n", "")), translated)
end

describe("a text that is translated for LuaJIT", function()
  it("ends with a comment, or begins with one", function()
    for _, ending in ipairs { "", "\n", " ", "--", "--\n", "-- comment", "-- comment\n", " --x", "--[[long]]", "--[[long]]\n", "--[==[ ]] ]==]", "--[[ two\nlines ]]", "--[x", "--[=", ";", ";--;" } do
      same("return 1" .. ending)
      same("-- " .. (ending:gsub("\n", " ")) .. "\nreturn 2" .. ending)
      if not ending:find ";" then same("return" .. ending .. "\n 3") end
      same("#!shebang" .. (ending:gsub("\n", " ")) .. "\nreturn 4" .. ending)
    end
    same "-- nothing else"
    same "--"
    same ""
  end)

  it("has operators of every precedence", function()
    local operators = { "+", "-", "*", "/", "//", "%", "^", "..", "&", "|", "~", "<<", ">>", "and", "or" }
    for _, a in ipairs(operators) do
      for _, b in ipairs(operators) do
        for _, text in ipairs { "return 7 %s 3 %s 2", "return 7 %s(3 %s 2)", "return 7 %s -3 %s 2", "return - 7 %s 3 %s - 2", "return (7 %s 3)%s 2 == 1" } do
          text = text:format(a, b)
          if pcall(load(text)) then same(text) end
        end
      end
    end
    for _, text in ipairs { "return ~5 & 3 | 8 ~ 2", "return #'abc' // 2", "return not (5 // 2)", "return -2 ^ 2 // 1", "return 1 .. 2 .. 3 // 2", "return 2 ^ 3 ^ 2", "return 1 << 2 + 3" } do same(text) end
  end)

  it("has words of every kind", function()
    for _, text in ipairs { "return 0x10, 0xA.8p1, 1e3, .5, 3., 1e-2, 1E+2", "return 'a\\'b', \"a\\\"b\", 'a\\\\', '--', \"[[\"", "return [[a]] .. [==[b]]c]==]", "return [[\nfirst\nsecond]]",
      "local a <const>, b = 1, 2 return a // b, a, b", "local t = {1, 2; 3, x = 4, ['y'] = 5} return t[3], t.x, t.y, #t", "local function f(...) return select('#', ...), ... end return f(1, nil, 3)",
      "goto done do return 1 end ::done:: return 2", "for i = 1, 3 do if i == 2 then goto continue end x = i ::continue:: end return x", "local s = 0 for i = 10, 1, -3 do s = s + i // 2 end return s",
      "local t = setmetatable({}, {__index = function(_, k) return k end}) return t.a, t[1 // 1], t:a__ and 1", "return ('x'):rep(5 // 2), #'abc' >> 1", "local f = function(a, b) return a // b end return f(7, 2), (f(9, 2))",
      "repeat local x = 7 // 2 until x == 3 return 'end'", "while true do break end return 1 ~= 2, 1 <= 2, 1 >= 2, 1 == 1" } do
      if load(text) then same(text) end
    end
  end)
end)
