-- translate.lua: turns a text in Lua 5.4's syntax into one that LuaJIT reads, line by line the same. Written in what
-- both read, since the build runs it in one and the specs in the other.
--
-- What LuaJIT has no syntax for becomes a call: x // y is __idiv(x, y), and so are the operators on bits (__band, __bor,
-- __bxor, __shl, __shr, __bnot). Behind `local x <close> = e` the rest of the block becomes a function, which __with
-- calls: where the block is a function's, its results are what the function returns; in any other block, a return, break
-- or goto is refused. <const> goes. Integers beyond 2^53 become int64_t. Comments go, but for their line breaks.

local keywords = {}
for word in ("and break do else elseif end false for function goto if in local nil not or repeat return then true until while"):gmatch("%a+") do
  keywords[word] = true
end

-- By precedence; on the right, where lower, of what associates to the right.
local binary = {
  ["or"] = { 1, 1 }, ["and"] = { 2, 2 },
  ["<"] = { 3, 3 }, [">"] = { 3, 3 }, ["<="] = { 3, 3 }, [">="] = { 3, 3 }, ["~="] = { 3, 3 }, ["=="] = { 3, 3 },
  ["|"] = { 4, 4, "__bor" }, ["~"] = { 5, 5, "__bxor" }, ["&"] = { 6, 6, "__band" },
  ["<<"] = { 7, 7, "__shl" }, [">>"] = { 7, 7, "__shr" },
  [".."] = { 9, 8 }, ["+"] = { 10, 10 }, ["-"] = { 10, 10 },
  ["*"] = { 11, 11 }, ["/"] = { 11, 11 }, ["//"] = { 11, 11, "__idiv" }, ["%"] = { 11, 11 }, ["^"] = { 14, 13 },
}
local unary = { ["not"] = true, ["-"] = true, ["#"] = true, ["~"] = true }
local unary_precedence = 12

-- {==== Words

local function line_of(text, at)
  local _, breaks = text:sub(1, at):gsub("\n", "")
  return breaks + 1
end

-- The end of a long bracket that begins at `at`, or nil: there is none.
local function long_end(text, at)
  local level = text:match("^%[(=*)%[", at)
  if not level then return nil end
  local _, last = text:find("]" .. level .. "]", at, true)
  return last or #text
end

local function string_end(text, at)
  local quote, i = text:sub(at, at), at + 1
  while text:sub(i, i) ~= quote do
    if i > #text then error("a string without an end in line " .. line_of(text, at), 0) end
    i = i + (text:sub(i, i) == "\\" and 2 or 1)
  end
  return i
end

-- Blanks and comments before `at`, as blanks with the same line breaks, and where they end.
local function blanks(text, at)
  local out = ""
  while true do
    local space = text:match("^%s+", at)
    if space then
      out, at = out .. space, at + #space
    elseif text:sub(at, at + 1) == "--" then
      local last = long_end(text, at + 2)
      if not last then last = (text:find("\n", at, true) or #text + 1) - 1 end
      out, at = out .. " " .. text:sub(at, last):gsub("[^\n]", ""), last + 1
    else
      return out, at
    end
  end
end

-- A list of {blanks, text, kind}: kinds are name, number, string and the text itself of anything else.
local function words(text)
  local list, at = {}, 1
  if text:sub(1, 1) == "#" then at = text:find("\n", 1, true) or #text + 1 end
  while true do
    local space
    space, at = blanks(text, at)
    if at > #text then
      list[#list + 1] = { space, "", "end of text" }
      return list
    end
    local c, word, kind = text:sub(at, at), nil, nil
    if c:find "[%a_]" then
      word = text:match("^[%w_]+", at)
      kind = keywords[word] and word or "name"
    elseif c:find "%d" or text:find("^%.%d", at) then
      word = text:match("^0[xX][%x.]*[pP][+-]?%d+", at) or text:match("^0[xX][%x.]*", at) or
        text:match("^[%d.]+[eE][+-]?%d+", at) or text:match("^[%d.]+", at)
      word, kind = word .. (text:match("^[uU]?LL", at + #word) or ""), "number"
    elseif c == '"' or c == "'" then
      word, kind = text:sub(at, string_end(text, at)), "string"
    elseif long_end(text, at) then
      word, kind = text:sub(at, long_end(text, at)), "string"
    else
      word = text:match("^%.%.%.", at) or text:match("^%.%.", at) or text:match("^[=~<>]=", at) or text:match("^//", at) or
        text:match("^::", at) or text:match("^<<", at) or text:match("^>>", at) or c
      kind = word
    end
    list[#list + 1] = { space, word, kind }
    at = at + #word
  end
end

-- {==== Blocks and expressions: each function of the parser returns the text that it has read, translated

-- marks: lists of nothing but integers as they are written are given to __integers, which returns them.
local function translate(text, name, marks)
  local list, at = words(text), 1
  local fn -- the function around: is_vararg, leaves (how many returns, breaks and gotos it has so far)
  local expression, block

  local function fail(message)
    local line = 1
    for i = 1, at do line = line + select(2, (list[i][1] .. (i < at and list[i][2] or "")):gsub("\n", "")) end
    error((name or "?") .. ":" .. line .. ": " .. message, 0)
  end
  local function peek(ahead) return (list[at + (ahead or 0)] or list[#list])[3] end
  local function take(kind)
    local word = list[at]
    if kind and word[3] ~= kind then fail("got '" .. word[2] .. "', expected " .. kind) end
    at = at + 1
    return word[1] .. word[2]
  end
  local function expressions()
    local out = expression(0)
    while peek() == "," do out = out .. take() .. expression(0) end
    return out
  end

  -- Blanks stay in front of what is put before an expression.
  local function in_call(helper, ...)
    local space, first = (...):match "^(%s*)(.*)$"
    local second = select(2, ...)
    return space .. helper .. "(" .. first .. (second and "," .. second or "") .. ")"
  end

  local function body()
    local outer = fn
    fn = { leaves = 0 }
    local out = take "("
    while peek() ~= ")" do
      if peek() == "..." then fn.is_vararg = true end
      out = out .. take()
    end
    out = out .. take ")" .. block(true) .. take "end"
    fn = outer
    return out
  end

  local function table_of()
    local out = take "{"
    local is_integers = marks and peek() ~= "}"
    while peek() ~= "}" do
      if peek() == "-" and peek(1) == "number" and (peek(2) == "," or peek(2) == "}") then out = out .. take() end
      is_integers = is_integers and peek() == "number" and list[at][2]:find "^%d+$" and (peek(1) == "," or peek(1) == "}")
      if peek() == "[" then
        out = out .. take() .. expression(0) .. take "]" .. take "=" .. expression(0)
      elseif peek() == "name" and peek(1) == "=" then
        out = out .. take() .. take() .. expression(0)
      else
        out = out .. expression(0)
      end
      if peek() == "," or peek() == ";" then out = out .. take() end
    end
    out = out .. take "}"
    return is_integers and out:gsub("{", "(__integers{", 1) .. ")" or out
  end

  local function arguments()
    if peek() == "string" then return take() end
    if peek() == "{" then return table_of() end
    local out = take "("
    if peek() ~= ")" then out = out .. expressions() end
    return out .. take ")"
  end

  -- A variable or call; the second result: is it a call?
  local function suffixed()
    local out, is_call = nil, false
    if peek() == "(" then
      out = take() .. expression(0) .. take ")"
    else
      out = take "name"
    end
    while true do
      local k = peek()
      if k == "." then
        out, is_call = out .. take() .. take "name", false
      elseif k == "[" then
        out, is_call = out .. take() .. expression(0) .. take "]", false
      elseif k == ":" then
        out, is_call = out .. take() .. take "name" .. arguments(), true
      elseif k == "(" or k == "{" or k == "string" then
        out, is_call = out .. arguments(), true
      else
        return out, is_call
      end
    end
  end

  local function number()
    local word = list[at][2]
    local is_integer = word:find "^%d+$" or word:find "^0[xX]%x+$"
    return take() .. (is_integer and tonumber(word) >= 2 ^ 53 and "LL" or "")
  end

  local function simple()
    local k = peek()
    if k == "number" then return number() end
    if k == "string" or k == "nil" or k == "true" or k == "false" or k == "..." then return take() end
    if k == "{" then return table_of() end
    if k == "function" then return take() .. body() end
    return (suffixed())
  end

  function expression(limit)
    local out
    if unary[peek()] then
      if peek() == "~" then
        local space = list[at][1]
        take()
        out = space .. in_call("__bnot", expression(unary_precedence))
      else
        out = take() .. expression(unary_precedence)
      end
    else
      out = simple()
    end
    while binary[peek()] and binary[peek()][1] > limit do
      local op = binary[peek()]
      if op[3] then
        local space = list[at][1]
        take()
        out = in_call(op[3], out .. space, expression(op[2]))
      else
        out = out .. take() .. expression(op[2])
      end
    end
    return out
  end

  -- What is behind `local`; the second result: the name that is to be closed.
  local function names()
    local out, closes = "", nil
    repeat
      out = out .. (peek() == "," and take() or "") .. take "name"
      if peek() == "<" then
        local variable = list[at - 1][2]
        take()
        if list[at][2] == "close" then closes = variable end
        take "name"
        take ">"
      end
    until peek() ~= ","
    return out, closes
  end

  local function closed(variable, is_function)
    local before, dots = fn.leaves, fn.is_vararg and "..." or ""
    local rest = block(is_function)
    if not is_function and fn.leaves ~= before then fail "return, break or goto behind <close> in a block of its own" end
    return (is_function and "; return" or ";") .. " __with(" .. variable .. ", function(" .. dots .. ")" .. rest .. " end" ..
      (dots ~= "" and ", ..." or "") .. ")"
  end

  local function leave(out)
    fn.leaves = fn.leaves + 1
    return out
  end

  local function statement(is_function)
    local k = peek()
    if k == "if" then
      local out = take() .. expression(0) .. take "then" .. block()
      while peek() == "elseif" do out = out .. take() .. expression(0) .. take "then" .. block() end
      if peek() == "else" then out = out .. take() .. block() end
      return out .. take "end"
    elseif k == "while" then
      return take() .. expression(0) .. take "do" .. block() .. take "end"
    elseif k == "do" then
      return take() .. block() .. take "end"
    elseif k == "for" then
      local out = take() .. take "name"
      while peek() == "," do out = out .. take() .. take "name" end
      out = out .. (peek() == "=" and take "=" or take "in") .. expressions()
      return out .. take "do" .. block() .. take "end"
    elseif k == "repeat" then
      return take() .. block() .. take "until" .. expression(0)
    elseif k == "function" then
      local out = take() .. take "name"
      while peek() == "." or peek() == ":" do out = out .. take() .. take "name" end
      return out .. body()
    elseif k == "local" and peek(1) == "function" then
      return take() .. take() .. take "name" .. body()
    elseif k == "local" then
      local out, list_of_names, closes = take(), names()
      out = out .. list_of_names
      if peek() == "=" then out = out .. take() .. expressions() end
      return closes and out .. closed(closes, is_function) or out
    elseif k == "return" then
      local out = leave(take())
      local next_kind = peek()
      if not (next_kind == "end" or next_kind == "else" or next_kind == "elseif" or next_kind == "until" or next_kind == ";" or
        next_kind == "end of text") then
        out = out .. expressions()
      end
      return out
    elseif k == "break" then
      return leave(take())
    elseif k == "name" or k == "(" then
      local out, is_call = suffixed()
      if is_call and peek() ~= "=" and peek() ~= "," then return out end
      while peek() == "," do out = out .. take() .. suffixed() end
      return out .. take "=" .. expressions()
    elseif k == "goto" then
      return leave(take() .. take "name")
    elseif k == "::" then
      return take() .. take "name" .. take "::"
    elseif k == ";" then
      return take()
    end
    fail("unexpected '" .. list[at][2] .. "'")
  end

  local ends = { ["end"] = true, ["else"] = true, ["elseif"] = true, ["until"] = true, ["end of text"] = true }
  function block(is_function)
    local out = {}
    while not ends[peek()] do out[#out + 1] = statement(is_function) end
    return table.concat(out)
  end

  fn = { is_vararg = true, leaves = 0 }
  local out = block(true)
  return out .. take "end of text"
end

return translate
