-- The prompt: local variables that live as long as the session, completion, and how results are shown.

local M = ...
local help = use "help/help"
local libraries, compile, share_upvalue, globals, is_c, help_line = use("runner/repl_session.c", "libraries", "compile", "share_upvalue", "globals", "is_c", "help_line")
local row_line, last_result, number, option_keys, is_help = use("runner/repl_session.c", "row_line", "last_result", "number", "option_keys", "is_help")
local tide = use("help/doc.c", "tide")
local string, table = libraries()
local find, match, sub, rep = string.find, string.match, string.sub, string.rep

local function end_of(_, to) return to end

local function set(words)
  local result = {}
  for word in string.gmatch(words, "%S+") do result[word] = true end
  return result
end

-- ---- tokens of Lua text ----
-- Strings, comments and numbers are stepped over as Lua does it; nothing is judged, for the compiler does that.

local words = set "and break do else elseif end false for function goto if in local nil not or repeat return then true until while"
local longer = { "...", "..", "==", "~=", "<=", ">=", "//", "::", "<<", ">>" }

-- The last place of a quoted string or of a number; nil where the string does not end.
local function quoted_end(text, at)
  local p, quote = at + 1, sub(text, at, at)
  while true do
    local _, to, char = find(text, "([\\\n" .. quote .. "])", p)
    if char ~= "\\" then return char == quote and to or nil end
    p = to + 2
    if sub(text, to + 1, to + 1) == "z" then p = find(text, "%S", p) or #text + 1 end
  end
end

local function number_end(text, at)
  local _, sign = find(text, find(text, "^0[xX]", at) and "^[%w.]-[pP][+-]" or "^[%w.]-[eE][+-]", at)
  return end_of(find(text, "^[%w.]*", (sign or at - 1) + 1))
end

local function scan(text, at)
  local level = match(text, "^%[(=*)%[", at)
  if find(text, "^[%a_]", at) then return "name", end_of(find(text, "^[%w_]+", at)) end
  if find(text, "^%.?%d", at) then return "number", number_end(text, at) end
  if level or find(text, "^[\"']", at) then
    local to = level and end_of(find(text, "]" .. level .. "]", at + 2 + #level, true)) or not level and quoted_end(text, at)
    return to and "string" or "open", to or #text
  end
  for _, sign in next, longer do
    if sub(text, at, at + #sign - 1) == sign then return "sign", at + #sign - 1 end
  end
  return "sign", at
end

-- The list of tokens; false where the text ends in a comment. A token is known by `is` where it is a name or a sign.
local function tokens(text)
  local list, at = {}, find(text, "%S")
  while at do
    if sub(text, at, at + 1) == "--" then
      local level = match(text, "^%-%-%[(=*)%[", at)
      local _, to = find(text, level and "]" .. level .. "]" or "\n", at + (level and 4 + #level or 2), true)
      if not to then return list, false end
      at = to
    else
      local kind, to = scan(text, at)
      local token = { kind = kind, text = sub(text, at, to), to = to }
      token.is = (kind == "name" or kind == "sign") and token.text or nil
      token.variable = kind == "name" and not words[token.text]
      list[#list + 1] = token
      at = to
    end
    at = find(text, "%S", at + 1)
  end
  return list, true
end

local none = {}
local function is(list, i, text) return (list[i] or none).is == text end

-- ---- local variables ----
-- A chunk typed at the prompt is a function of its own, so its locals would end with it. Here they are those of Lua in
-- all else: behind each `local` statement of the chunk's outermost block stands a call that gets, for every name, a
-- function which has the variable as its upvalue, and the session keeps that. A later chunk that mentions the name
-- becomes a function with an upvalue of that name, which is joined to the kept one. So functions share variables as they
-- would in one text; a second `local x` makes a new x and leaves the old one to those who have it; what was declared
-- before an error stays; <const> is kept, and <close> ends with its chunk as it must.
--
-- A chunk is compiled as it was typed first: so errors and "it goes on" are told of what the user wrote.

local kept, constant = {}, {} -- by name: a function whose first upvalue is the variable; is it one?

local opening, closing = set "( { [ function do if repeat", set ") } ] end until"
local prefix, constants = set "- not # ~", set "nil true false ..."
local binary = set "+ - * / // % ^ .. == ~= < > <= >= & | ~ << >> and or ,"

-- How the token changes the depth of blocks and brackets. The `do` of a loop opens it.
local function deeper(token) return opening[token.is] and 1 or closing[token.is] and -1 or 0 end

-- From an opening token to behind the one that closes it.
local function skip_block(list, i)
  local depth = 0
  repeat
    depth = depth + deeper(list[i])
    i = i + 1
  until depth <= 0 or not list[i]
  return i
end

-- Behind an operand with what stands before and behind it; nil where none stands there.
local function skip_operand(list, i)
  local function token() return list[i] or none end
  while prefix[token().is] do i = i + 1 end
  local kind = token().kind
  if is(list, i, "function") or is(list, i, "(") or is(list, i, "{") then i = skip_block(list, i)
  elseif token().variable or kind == "number" or kind == "string" or constants[token().is] then i = i + 1
  else return nil end
  while true do
    if is(list, i, ".") or is(list, i, ":") then
      i = i + 1
      if not token().variable then return nil end
      i = i + 1
    elseif is(list, i, "(") or is(list, i, "[") or is(list, i, "{") then i = skip_block(list, i)
    elseif token().kind == "string" then i = i + 1
    else return i end
  end
end

local function skip_expressions(list, i)
  repeat
    i = skip_operand(list, i)
    local more = i and binary[(list[i] or none).is]
    if more then i = i + 1 end
  until not more
  return i
end

-- Behind the statement that begins with the `local` at i, and what it declares: {name, attribute} each; nil where Lua
-- would not take it.
local function declared(list, i)
  local names = {}
  if is(list, i + 1, "function") then
    names[1] = { (list[i + 2] or none).is }
    return skip_block(list, i + 1), names
  end
  repeat
    i = i + 1
    if not (list[i] or none).variable then return nil end
    local name = { list[i].is }
    names[#names + 1] = name
    i = i + 1
    if is(list, i, "<") then
      name[2] = (list[i + 1] or none).is
      i = i + 3
    end
  until not is(list, i, ",")
  if is(list, i, "=") then i = skip_expressions(list, i + 1) end
  return i, names
end

-- The text with the calls that keep what it declares; nil where it declares nothing.
local function with_calls(text, list)
  local out, copied, depth, i = {}, 1, 0, 1
  while list[i] do
    local behind, names
    if depth == 0 and is(list, i, "local") then behind, names = declared(list, i) end
    if behind then
      out[#out + 1] = sub(text, copied, list[behind - 1].to)
      copied, i = list[behind - 1].to + 1, behind
      for _, name in next, names do
        if name[1] ~= "_" and name[1] ~= "_ENV" and name[2] ~= "close" then
          out[#out + 1] = ";_tide_keep_('" .. (name[2] == "const" and "!" or "") .. name[1] .. "',function()return " .. name[1] .. " end);"
        end
      end
    else
      depth = depth + deeper(list[i])
      i = i + 1
    end
  end
  return copied > 1 and table.concat(out) .. sub(text, copied) or nil
end

-- "!name" is a constant. One that the compiler has put in place has no upvalue and gets one.
local function keep(name, get)
  local fixed = sub(name, 1, 1) == "!"
  if fixed then name = sub(name, 2) end
  if not upvalue(get, 1) then
    local value = get()
    function get() return value end
  end
  kept[name], constant[name] = get, fixed
end

-- Compiles a chunk "stdin" that sees the session's local variables, and whose own ones stay.
local function load_chunk(text)
  local chunk, message = compile(text)
  if not chunk then return nil, message end
  local list, mentioned, head = tokens(text), {}, ""
  for _, token in next, list do
    local name = token.kind == "name" and token.text
    if kept[name] and not mentioned[name] then
      mentioned[name] = true
      head = head .. "," .. name .. (constant[name] and "<const>" or "")
    end
  end
  local body = with_calls(text, list)
  if head == "" and not body then return chunk end
  chunk, message = compile("local _tide_keep_" .. head .. " = ... return function(...) " .. (body or text) .. "\nend")
  if not chunk then return nil, message end
  chunk = chunk(keep)
  local i, name = 1, upvalue(chunk, 1)
  while name do
    if mentioned[name] and kept[name] then share_upvalue(chunk, i, kept[name]) end
    i = i + 1
    name = upvalue(chunk, i)
  end
  return chunk
end

-- The names of the session's local variables, as keys.
function M.prompt_locals() return kept end

-- The text as it is. Where it begins as no statement does, as 2**3, the error is the one of an expression.
local function load_text(text)
  local chunk, e = load_chunk(text)
  local first = e and match(e, ":1: unexpected symbol near '([^']+)'$")
  if not first or sub(match(text, "^%s*(.*)"), 1, #first) ~= first then return chunk, e end
  local _, wrong = load_chunk("return " .. text)
  return nil, wrong and not match(wrong, "<eof>$") and wrong or e
end

-- As "return text" if that works, else as it is. help matmul, ?matmul and matmul?, which are no Lua, ask for help.
function M.prompt_load(text)
  local name = match(text, "^%s*help%s+([%a_][%w_.:]*)%s*$") or match(text, "^%s*%?%s*([%a_][%w_.:]*)%s*$")
    or match(text, "^%s*([%a_][%w_.:]*)%s*%?%s*$")
  if name then text = "help '" .. match(name, "[^:]*$") .. "'" end
  local chunk = load_chunk("return " .. (sub(text, 1, 1) == "=" and sub(text, 2) or text))
  if chunk then return chunk end
  return load_text(text)
end

-- quit, exit, with blanks or empty brackets: the words that people try first. A variable of that name is one.
function M.prompt_leaves(text)
  local name = match(text, "^%s*(%a+)%s*$") or match(text, "^%s*(%a+)%s*%(%s*%)%s*$")
  return (name == "quit" or name == "exit") and rawget(globals(), name) == nil and not kept[name]
end

-- ---- completion ----
-- Before the cursor stands a chain, a.b.c or x:exp():sum, and the beginning of a word. The chain is followed without
-- running any code of the user's: by raw reads, where objects of tide keep the tables of their methods and fields in the
-- upvalues of their __index, the methods first; and behind a call by what the called function's help says that it gives.
-- Such a result is known by its metatable alone. Within the braces of a call the words are those of the options in its
-- help, within help '...' the names that help knows.
--
-- What a chain is, is told by two values: "value" and the value, "object" and the metatable, or nil.

local commands = { ":mem", ":devices", ":time ", ":help", ":quit" }

local function add(c, name, more)
  if sub(name, 1, #c.word) ~= c.word or c.word == "" and sub(name, 1, 1) == "_" then return end
  name = name .. (more or "")
  if not c.known[name] then c.known[name], c[#c + 1] = true, name end
end

-- Tables in which names behind it are found: its own keys, then those that __index has.
local function tables_of(what, value)
  local list = {}
  if what == "value" and type(value) == "table" then list[1] = value end
  local meta = value
  if what ~= "object" then meta = getmeta(value) end
  local index = meta and rawget(meta, "__index")
  if type(index) == "table" then list[#list + 1] = index end
  local i = is_c(index) and 1
  while i do
    local name, held = upvalue(index, i)
    if type(held) == "table" then list[#list + 1] = held end
    i = name and i + 1
  end
  return list
end

local function add_keys(c, what, value, functions)
  for _, t in next, tables_of(what, value) do
    for key, held in next, t do
      if type(key) == "string" and (not functions or type(held) == "function") then add(c, key) end
    end
  end
end

local function is_tensor(what, value)
  local meta = value
  if what == "value" then meta = getmeta(value) end
  return what and meta == class "tide.Tensor"
end

local function member(what, value, name)
  if is_tensor(what, value) and (name == "T" or name == "mT" or name == "H") then return what, value end
  for _, t in next, tables_of(what, value) do
    local held = rawget(t, name)
    if held ~= nil then return "value", held end
  end
end

local function signature(value) return row_line(value) or help_line(value) end

-- What a call of the function or class gives.
local function result_of(what, value)
  local name = what == "value" and match(signature(value) or "", "%-> (%a*)")
  for _, room in next, { "tide.", "tide.cuda.", "tide.data.", "tide.parallel." } do
    local meta = name and class(room .. name)
    if meta then return "object", meta end
  end
end

local function variable(name)
  if kept[name] then return "value", end_of(upvalue(kept[name], 1)) end
  local value = rawget(globals(), name)
  if value == nil and name == "_" then value = last_result() end
  if value ~= nil then return "value", value end
end

local opens, closes = set "( [ {", set ") ] }"
local function ends_callee(list, i)
  local token = list[i] or none
  return token.variable or token.is == ")" or token.is == "]"
end

-- From the bracket at i, step by step, to the one that belongs to it, or nil.
local function partner(list, i, step)
  local depth = 0
  while list[i] do
    depth = depth + (opens[list[i].is] and step or closes[list[i].is] and -step or 0)
    if depth == 0 then return i end
    i = i + step
  end
end

-- The innermost bracket that is open before place i.
local function open_bracket(list, i)
  while list[i] and not opens[list[i].is] do
    i = (closes[list[i].is] and partner(list, i, -1) or i) - 1
  end
  return i
end

-- Where the chain begins whose last token is at i; nil if there is none.
local function chain_start(list, i)
  while list[i] do
    if list[i].variable then
      if not is(list, i - 1, ".") and not is(list, i - 1, ":") then return i end
      i = i - 2
    elseif list[i].kind == "string" then
      if not ends_callee(list, i - 1) then return i end
      i = i - 1
    elseif closes[list[i].is] then
      local paren = is(list, i, ")")
      i = partner(list, i, -1) or 0
      if not ends_callee(list, i - 1) then return paren and i > 0 and i or nil end
      i = i - 1
    else
      return nil
    end
  end
end

-- (x + 1): a tensor where one of the names in the brackets is one.
local function bracket(list, from, to)
  for i = from + 1, to - 1 do
    if list[i].variable and not is(list, i - 1, ".") and not is(list, i - 1, ":") then
      local what, value = variable(list[i].is)
      if is_tensor(what, value) then return what, value end
    end
  end
end

-- x[...]: of a tensor a tensor; of a table what it has for a number, a name or a string.
local function element(list, what, value, from, to)
  if is_tensor(what, value) then return what, value end
  if what ~= "value" or type(value) ~= "table" or to ~= from + 2 then return end
  local token, key, _ = list[from + 1], nil, nil
  if token.kind == "string" then key = sub(token.text, 2, -2)
  elseif token.kind == "number" then key = number(token.text)
  else _, key = variable(token.text) end
  local held
  if key ~= nil then held = rawget(value, key) end
  if held ~= nil then return "value", held end
end

-- What the chain of the tokens from..to is.
local function follow(list, from, to)
  local i, what, value = from + 1, "value", list[from].text
  if is(list, from, "(") then
    local close = partner(list, from, 1) or #list
    what, value = bracket(list, from, close)
    i = close + 1
  elseif list[from].variable then
    what, value = variable(value)
  end
  while i <= to and what do
    local close = partner(list, i, 1) or #list
    if is(list, i, ".") or is(list, i, ":") then
      close = i + 1
      what, value = member(what, value, list[close].text)
    elseif is(list, i, "[") then
      what, value = element(list, what, value, i, close)
    else
      what, value = result_of(what, value)
    end
    i = close + 1
  end
  return what, value
end

local function complete_member(c, list)
  local from = chain_start(list, #list - 1)
  if not from then return end
  local what, value = follow(list, from, #list - 1)
  if what then add_keys(c, what, value, is(list, #list, ":")) end
end

-- In the braces of a call, where a key may stand. Functions have a row, classes a signature.
local function complete_option(c, list)
  local brace = open_bracket(list, #list)
  if not is(list, brace, "{") or not (brace == #list or is(list, #list, ",")) then return end
  local callee = brace - 1
  if not ends_callee(list, callee) then
    local paren = open_bracket(list, callee)
    if not is(list, paren, "(") then return end
    callee = paren - 1
  end
  local from = chain_start(list, callee)
  if not from then return end
  local what, value = follow(list, from, callee)
  local keys = what == "value" and option_keys(value)
  for _, key in next, keys or none do add(c, key, " = ") end
  local braces = what == "value" and not keys and match(signature(value) or "", "{(.*)}")
  for key in string.gmatch(braces and "," .. braces or "", "[{,]%s*([%l_%d]+)%s*=") do add(c, key, " = ") end
end

-- A name as help takes it: "cuda.stream", "tide.zeros", "Tensor:view", "matmul".
local function complete_help(c, text)
  local what, value, first = "value", tide(), true
  for name in string.gmatch(text, "([^.:]*)[.:]") do
    if first and name == "Tensor" then what, value = "object", class "tide.Tensor"
    elseif not first or name ~= "tide" then what, value = member(what, value, name) end
    first = false
  end
  c.word = match(text, "[^.:]*$")
  if what then add_keys(c, what, value) end
  if not first then return end
  add(c, "tide")
  add(c, "Tensor")
  add_keys(c, "object", class "tide.Tensor")
end

local function complete_code(c, text)
  local list, whole = tokens(text)
  local last = list[#list] or none
  if not whole then return end
  if last.kind == "open" then
    if is(list, #list - (is(list, #list - 1, "(") and 2 or 1), "help") then complete_help(c, sub(last.text, 2)) end
    return
  end
  if last.to == #text and last.kind == "number" then return end
  if last.to == #text and last.kind == "name" then c.word, list[#list] = last.text, nil end
  if is(list, #list, ".") or is(list, #list, ":") then return complete_member(c, list) end
  complete_option(c, list)
  if c[1] then return end
  for name in next, kept do add(c, name) end
  add_keys(c, "value", globals())
end

-- The names in columns, at most so many.
local function columns(names)
  local shown, widest, out = #names < 240 and #names or 240, 0, { "\n" }
  for i = 1, shown do widest = #names[i] > widest and #names[i] or widest end
  local across = widest < 78 and 79 // (widest + 2) or 1
  local down = (shown + across - 1) // across
  for row = 1, down do
    for i = row, shown, down do
      out[#out + 1] = names[i] .. (i + down <= shown and rep(" ", widest + 2 - #names[i]) or "")
    end
    out[#out + 1] = "\n"
  end
  if shown < #names then out[#out + 1] = "... and " .. #names - shown .. " more\n" end
  return table.concat(out)
end

-- The sorted names that may stand where the text ends; `word` is what they begin with.
local function completions(text)
  local c = { word = "", known = {} }
  if sub(text, 1, 6) == ":time " then complete_code(c, sub(text, 7))
  elseif sub(text, 1, 6) == ":help " then complete_help(c, sub(text, 7))
  elseif find(text, "^:[^:]") or text == ":" then
    c.word = text
    for _, command in next, commands do add(c, command) end
  else complete_code(c, text) end
  table.sort(c)
  return c
end

-- What may stand where the text ends: what is to be inserted there, "" where all is; or nil and the names, to be
-- printed; or nothing.
function M.prompt_complete(text)
  local c = completions(text)
  if not c[1] then return end
  local common = #c[1]
  for i = 2, #c do
    while sub(c[i], 1, common) ~= sub(c[1], 1, common) do common = common - 1 end
  end
  if common > #c.word or not c[2] then return sub(c[1], #c.word + 1, common) end
  return nil, columns(c)
end

-- ---- cells of notebooks ----

local function behind_first(_, ...) return ... end

-- A chunk whose values are the expression's; nil where it is none. The nil keeps a call from being a tail call, which no
-- traceback shows.
local function load_result(before, expression)
  local cell = load_chunk(before .. "return nil," .. expression)
  return cell and function() return behind_first(cell()) end
end

-- M.cell_load(text): as prompt_load. What the last line of the cell begins is an expression, if it can be one, whose values
-- are the result. It stands outside all blocks and begins with a name or a number, so that no statement goes on there. A
-- semicolon at the end hides the result.
function M.cell_load(text)
  local list = tokens(text)
  if is(list, #list, ";") then return load_chunk(text) end
  local chunk = load_result("", text)
  if chunk then return chunk end
  local depth, starts = 0, {}
  for _, token in next, list do
    local from = token.to - #token.text + 1
    local is_start = depth == 0 and (token.variable or token.kind == "number") and find(sub(text, 1, from - 1), "\n%s*$")
    if is_start then starts[#starts + 1] = from end
    depth = depth + deeper(token)
  end
  for i = #starts, 1, -1 do
    chunk = load_result(sub(text, 1, starts[i] - 1), sub(text, starts[i]))
    if chunk then return chunk end
  end
  return load_text(text)
end

-- M.cell_complete(text): the word before the end of the text, and the names that it may become, each on a line.
function M.cell_complete(text)
  local c = completions(text)
  return c.word, table.concat(c, "\n")
end

-- M.cell_inspect(text): the help for the chain that the text ends with, or for the call whose arguments it ends in; or nil.
function M.cell_inspect(text)
  local list = tokens(text)
  local at = #list
  if not (list[at] or none).variable then at = open_bracket(list, at) - 1 end
  local from = chain_start(list, at)
  if not from then return end
  local what, value = follow(list, from, at)
  local found
  local function look(query) found = help.answer(query) end
  if what == "value" and value ~= nil and type(value) ~= "string" then try(look, value) end
  if not found then try(look, sub(text, list[from].to - #list[from].text + 1, list[at].to)) end
  return found
end

-- ---- results ----

local show

-- A table without __tostring: up to 24 entries, the list first, then the others by their keys, nested once.
local function show_table(t, depth)
  local out, n, named, is_whole = {}, rawlen(t), {}, rawlen(t) <= 24
  for i = 1, n < 24 and n or 24 do out[i] = show(rawget(t, i), depth + 1) end
  for key, value in next, t do
    local listed = is_integer(key) and key >= 1 and key <= n
    if not is_whole or not listed and #out + #named == 24 then
      is_whole = false
      break
    end
    if not listed then
      local name = type(key) == "string" and find(key, "^[%w_]+$") and key or "[" .. show(key, 2) .. "]"
      named[#named + 1] = name .. " = " .. show(value, depth + 1)
    end
  end
  table.sort(named)
  table.move(named, 1, #named, #out + 1, out)
  return "{" .. table.concat(out, ", ") .. (is_whole and "}" or ", ...}")
end

-- A picture, such as tide.plot gives, is no list of numbers to look at; print(x) shows its bytes.
local function picture_line(value)
  local s = device_of(value) and text(value.dtype) == "tide.uint8" and value.shape
  if s and #s == 3 and (s[3] == 3 or s[3] == 4) and s[1] * s[2] > 4096 then
    return "picture of " .. s[2] .. " x " .. s[1] .. " pixels: x:imshow() shows it, tide.save_png writes it"
  end
end

function show(value, depth)
  local meta = type(value) == "table" and getmeta(value)
  if type(value) == "table" and depth < 2 and not (meta and rawget(meta, "__tostring") ~= nil) then return show_table(value, depth) end
  if depth > 0 then return type(value) == "string" and "'" .. value .. "'" or text(value) end
  local line = row_line(value) -- it is looked at, or meant to be called
  return line and "function: " .. line or picture_line(value) or text(value)
end

-- Beside each other, or below each other where one has several lines.
function M.prompt_show(...)
  local out, values, joint = {}, { ... }, "\t"
  if count(...) == 1 and (is_help(...) or ({ [tide()] = true })[...]) then return help.wrapped(help.answer()) .. "\n" end
  for i = 1, count(...) do
    out[i] = show(values[i], 0)
    if find(out[i], "\n") then joint = "\n" end
  end
  return table.concat(out, joint) .. "\n"
end

-- M.cell_show(...): the same for the results of a cell; nil where there are none but pictures that it has shown.
function M.cell_show(...)
  local values, n = {}, 0
  for i = 1, count(...) do
    local value = unpack({ ... }, i, i)
    if not (has "runner/runner_notebook.c" and use("runner/runner_notebook.c").picture_shown(value)) then
      n = n + 1
      values[n] = value
    end
  end
  if n > 0 then return M.prompt_show(unpack(values, 1, n)) end
end
