-- From the text of a Lua function to its syntax tree, for tide.kernel (types.lua).
--
-- The whole grammar of Lua 5.4 is read. What a kernel has no use for (tables, strings, generic for) stays in the tree,
-- where types.lua says what to write instead if the function comes to it. Names are resolved here: a local is the
-- record of its declaration, any other name is a free one, an upvalue or a global of the function that is compiled.
--
-- A declaration: {name =, line =, column =, assigned = by more than its declaration, shared = by a function within}.
-- Loops, and labels that are jumped back to, hold `sets`: the declarations outside of them that they assign to.
--
-- Invariant: every node has the line and column of its first word.

local M = ...
local lex = use "kernel/lex.c"
local words, at, chunk -- {kind, value, line, column, ...}, where the next word is, the name of the file
local scope            -- the innermost block: {names, outer =, fn =}
local fn               -- the function that is read: {outer =, loops =}

local keyword_names = {
  add = "+", sub = "-", mul = "*", div = "/", idiv = "//", mod = "%", pow = "^", shl = "<<", shr = ">>", band = "&", bor = "|",
  bxor = "~", concat = "..", eq = "==", ne = "~=", lt = "<", le = "<=", gt = ">", ge = ">=",
}
-- By sign: operation, precedence on its left and on its right.
local binary = {
  ["or"] = { "or", 1, 1 }, ["and"] = { "and", 2, 2 }, ["|"] = { "bor", 4, 4 }, ["~"] = { "bxor", 5, 5 }, ["&"] = { "band", 6, 6 },
  ["<"] = { "lt", 3, 3 }, [">"] = { "gt", 3, 3 }, ["<="] = { "le", 3, 3 }, [">="] = { "ge", 3, 3 }, ["~="] = { "ne", 3, 3 },
  ["=="] = { "eq", 3, 3 }, ["<<"] = { "shl", 7, 7 }, [">>"] = { "shr", 7, 7 }, [".."] = { "concat", 9, 8 }, ["+"] = { "add", 10, 10 },
  ["-"] = { "sub", 10, 10 }, ["*"] = { "mul", 11, 11 }, ["/"] = { "div", 11, 11 }, ["//"] = { "idiv", 11, 11 },
  ["%"] = { "mod", 11, 11 }, ["^"] = { "pow", 14, 13 },
}
local unary = { ["not"] = "not", ["-"] = "neg", ["#"] = "len", ["~"] = "bnot" }
local unary_precedence = 12

-- M.sign(op): as it is written.
function M.sign(op) return keyword_names[op] or op end

-- M.fail(chunk, node, message): raises it with its place.
function M.fail(name, node, message, kind)
  fail(kind or "ValueError", name .. ":" .. node.line .. ":" .. node.column .. ": " .. message)
end

-- ---- words ----

local function kind() return words[at] end
local function value() return words[at + 1] end

local function here() return { line = words[at + 2], column = words[at + 3] } end

local function shown()
  local k = kind()
  if k == "end of text" then return "the end of the text" end
  if k == "string" then return "a string" end
  return "'" .. text(value()) .. "'"
end

local function wrong(expected) M.fail(chunk, here(), "got " .. shown() .. ", expected " .. expected) end

local function skip() at = at + 4 end

local function is(k) return words[at] == k end

-- A word that is a sign or a keyword: these are kinds of their own, but for single signs.
local function take(sign)
  if words[at] ~= sign then return false end
  at = at + 4
  return true
end

local function expect(sign, why)
  if take(sign) then return end
  if is("=") and (sign == "then" or sign == "do" or sign == ")") then why = ": equality is written ==" end
  wrong("'" .. sign .. "'" .. (why or ""))
end

local function expect_end(opened, what)
  if take("end") then return end
  wrong("'end' for the '" .. what .. "' of line " .. opened.line)
end

local function name()
  if kind() ~= "name" then wrong("a name") end
  local n = value()
  skip()
  return n
end

local function node(op, place)
  place.op = op
  return place
end

-- ---- names ----

local function open_scope() scope = { names = {}, outer = scope, fn = fn } end
local function close_scope() scope = scope.outer end

local function declare(n, place)
  local d = { name = n, line = place.line, column = place.column, fn = fn, depth = #fn.loops }
  scope.names[n] = d
  return d
end

local function find_local(n)
  local s = scope
  while s do
    local d = s.names[n]
    if d then return d end
    s = s.outer
  end
end

-- Every loop around, in whichever function, that the declaration stands outside of.
local function note_set(d, place)
  if d.const then M.fail(chunk, place, "got an assignment to '" .. d.name .. "', which is <const>, expected one to a variable") end
  d.assigned = true
  if d.fn ~= fn then
    d.shared = true
    return
  end
  for k = d.depth + 1, #fn.loops do fn.loops[k].sets[d] = true end
end

local function reference(n, place)
  local d = find_local(n)
  if d then
    place.decl = d
    return node("local", place)
  end
  place.name = n
  return node("free", place)
end

-- ---- expressions ----

local expression, block, function_body

local function expression_list()
  local list = { expression() }
  while take(",") do list[#list + 1] = expression() end
  return list
end

local function table_constructor()
  local e, open = node("table", here()), here()
  skip()
  e.items = {}
  while not is("}") do
    if is("name") and words[at + 4] == "=" then
      e.named = true
      skip()
      skip()
      expression()
    elseif is("[") then
      e.named = true
      skip()
      expression()
      expect("]")
      expect("=")
      expression()
    else
      e.items[#e.items + 1] = expression()
    end
    if not (take(",") or take(";")) then break end
  end
  expect("}", " for the '{' of line " .. open.line)
  return e
end

local function arguments()
  if is("string") then
    local e = node("string", here())
    e.value = value()
    skip()
    return { e }
  end
  if is("{") then return { table_constructor() } end
  local open = here()
  expect("(")
  local list = is(")") and {} or expression_list()
  expect(")", " for the '(' of line " .. open.line)
  return list
end

local function primary()
  local place = here()
  if is("name") then return reference(name(), place) end
  if not is("(") then
    local before, sign = words[at - 4], kind()
    local hint = before == sign and (before == "&" and ": and is written and" or before == "|" and ": or is written or"
      or (before == "+" or before == "-") and ": there is no " .. before .. before .. ", write x = x " .. before .. " 1")
    if sign == "//" or sign == "/" and words[at + 4] == "*" then hint = ": a comment begins with --" end
    wrong("an expression" .. (hint or ""))
  end
  skip()
  local e = node("paren", place)
  e.a = expression()
  expect(")", " for the '(' of line " .. place.line)
  return e
end

local function field(a, n, place)
  place.a, place.name = a, n
  return node("field", place)
end

local function suffixed()
  local first = at
  local e = primary()
  while true do
    local place = { line = e.line, column = e.column }
    if is(".") then
      skip()
      e = field(e, name(), place)
    elseif is("[") then
      skip()
      place.a, place.key = e, expression()
      expect("]", is(",") and ": several indexes are x[i][j] or x[{i, j}]")
      e = place.key.op == "string" and field(e, place.key.value, { line = place.line, column = place.column }) or node("index", place)
    elseif is(":") then
      skip()
      place.a, place.name = e, name()
      if not (is("(") or is("{") or is("string")) then wrong("the arguments of method '" .. place.name .. "'") end
      place.args = arguments()
      e = node("method", place)
    elseif is("(") or is("{") or is("string") then
      place.fn, place.args = e, arguments()
      e = node("call", place)
    else
      return e
    end
    e.first, e.last = first, at
  end
end

local literals = {
  integer = true, float = true, string = true,
}

local function simple()
  local place, k = here(), kind()
  if literals[k] then
    place.value = value()
    skip()
    return node(k, place)
  elseif k == "nil" or k == "true" or k == "false" or k == "..." then
    skip()
    return node(k == "..." and "vararg" or k, place)
  elseif k == "{" then
    return table_constructor()
  elseif k == "function" then
    skip()
    return function_body(place)
  end
  return suffixed()
end

local depth = 0

local function operand_of(limit)
  local place, op = here(), unary[kind()]
  if not op then return simple() end
  skip()
  place.a = expression(unary_precedence)
  return node(op, place), limit
end

expression = function(limit)
  limit = limit or 0
  depth = depth + 1
  if depth > 150 then M.fail(chunk, here(), "got an expression within 150 others, expected a simpler one: name its parts by locals") end
  local left = operand_of()
  while true do
    local b = binary[kind()]
    if not b or b[2] <= limit then break end
    local e = { line = left.line, column = left.column, sign_line = words[at + 2], sign_column = words[at + 3] }
    skip()
    e.a, e.b = left, expression(b[3])
    left = node(b[1], e)
  end
  depth = depth - 1
  return left
end

-- ---- functions ----

local function parameters(f)
  expect("(")
  while not is(")") do
    local place = here()
    if is("...") then
      f.vararg = place
      skip()
      break
    end
    f.params[#f.params + 1] = declare(name(), place)
    if not take(",") then break end
    if is(")") then wrong("a name") end
  end
  expect(")")
end

-- Behind the word `function` and its name.
function_body = function(place, method)
  local f = node("function", place)
  f.params, f.from, f.returns = {}, words[at + 2], 0
  fn = { outer = fn, loops = {}, labels = {}, node = f }
  open_scope()
  if method then f.params[1] = declare("self", place) end
  parameters(f)
  f.body = block()
  f.to = words[at + 2]
  expect_end(place, "function")
  close_scope()
  fn = fn.outer
  return f
end

-- ---- statements ----

local function open_loop(n)
  n.sets = {}
  fn.loops[#fn.loops + 1] = n
end

local function close_loop() fn.loops[#fn.loops] = nil end

local function scoped_block()
  open_scope()
  local body = block()
  close_scope()
  return body
end

local statements = {}

statements["if"] = function(s, place)
  s.tests = {}
  repeat
    local test = here()
    test.cond = expression()
    expect("then")
    test.body = scoped_block()
    s.tests[#s.tests + 1] = test
  until not take("elseif")
  if take("else") then s.orelse = scoped_block() end
  expect_end(place, "if")
end

statements["while"] = function(s, place)
  open_loop(s)
  s.cond = expression()
  expect("do")
  s.body = scoped_block()
  close_loop()
  expect_end(place, "while")
end

statements["do"] = function(s, place)
  s.body = scoped_block()
  expect_end(place, "do")
end

statements["repeat"] = function(s, place)
  open_loop(s)
  open_scope()
  s.body = block()
  if not take("until") then wrong("'until' for the 'repeat' of line " .. place.line) end
  s.cond = expression()
  close_scope()
  close_loop()
end

statements["for"] = function(s, place)
  local at_name = here()
  if is("(") then wrong("a name: a loop that counts is for k = 1, n do") end
  local n = name()
  if is(",") or is("in") then
    s.op = "forin"
    while take(",") do name() end
    expect("in")
    expression_list()
  else
    expect("=", " or 'in'")
    s.from = expression()
    expect(",")
    s.to = expression()
    if take(",") then s.step = expression() end
  end
  expect("do")
  open_loop(s)
  open_scope()
  s.decl = declare(n, at_name)
  s.body = block()
  close_scope()
  close_loop()
  expect_end(place, "for")
end

local function local_function(s)
  s.op = "localfunction"
  local place = here()
  s.decl = declare(name(), place)
  s.fn = function_body({ line = s.line, column = s.column })
end

statements["local"] = function(s)
  if take("function") then return local_function(s) end
  local names, places = {}, {}
  s.attribs = {}
  repeat
    places[#places + 1] = here()
    names[#names + 1] = name()
    if take("<") then
      if value() ~= "const" and value() ~= "close" then wrong("const or close") end
      s.attribs[#names] = name()
      expect(">")
    end
  until not take(",")
  s.values = take("=") and expression_list() or {}
  s.decls = {}
  for k = 1, #names do
    s.decls[k] = declare(names[k], places[k])
    s.decls[k].const = s.attribs[k] == "const"
  end
end

statements["function"] = function(s, place)
  s.op = "assign"
  local to, method = reference(name(), { line = place.line, column = place.column }), false
  while is(".") or is(":") do
    method = is(":")
    skip()
    to = field(to, name(), { line = place.line, column = place.column })
    if method then break end
  end
  if to.decl then note_set(to.decl, to) end
  local f = function_body({ line = place.line, column = place.column }, method)
  f.from = place.line
  s.targets, s.values = { to }, { f }
end

statements["return"] = function(s)
  local k = kind()
  local none = k == "end" or k == "else" or k == "elseif" or k == "until" or k == "end of text" or k == ";"
  s.values = none and {} or expression_list()
  take(";")
  k = kind()
  if not (k == "end" or k == "else" or k == "elseif" or k == "until" or k == "end of text") then wrong("'end' behind return") end
end

statements["break"] = function() end
statements["goto"] = function(s) s.name = name() end
statements["::"] = function(s)
  s.op, s.name = "label", name()
  local other = fn.labels[s.name]
  if other then M.fail(chunk, s, "got label '" .. s.name .. "' of line " .. other.line .. " again, expected another name") end
  fn.labels[s.name] = s
  expect("::")
  open_loop(s) -- to the end of its block
end

local keywords = {
  ["break"] = 1, ["do"] = 1, ["else"] = 1, ["elseif"] = 1, ["end"] = 1, ["for"] = 1, ["function"] = 1, ["goto"] = 1, ["if"] = 1, ["local"] = 1,
  ["repeat"] = 1, ["return"] = 1, ["then"] = 1, ["until"] = 1, ["while"] = 1,
}
local of_others = {
  continue = "goto next, and ::next:: at the loop's end", elif = "elseif", switch = "if and elseif", let = "local", var = "local", const = "local",
  auto = "local", int = "local", float = "local", double = "local", bool = "local", long = "local", unsigned = "local",
}

-- What was meant by a text that begins like an assignment or a call, and is none.
local function meant(first)
  local op, name_of = kind(), first.op == "free" and first.name
  if words[at + 4] == "=" and binary[op] then return ": Lua has no " .. op .. "=, write x = x " .. op .. " ..." end
  if words[at + 4] == op and op == "+" then return ": Lua has no ++, write x = x + 1" end
  local other = name_of and of_others[name_of]
  if other then return ": Lua has no " .. name_of .. ", write " .. other end
  local near = name_of and lex.nearest(name_of, keywords)
  if near then return ", did you mean '" .. near .. "' by '" .. name_of .. "'?" end
  return ": an assignment or a call"
end

local function assignment(s)
  local first = suffixed()
  if not (is("=") or is(",")) then
    if first.op ~= "call" and first.op ~= "method" then wrong("a statement" .. meant(first)) end
    s.call = first
    return node("call", s)
  end
  s.targets = { first }
  while take(",") do s.targets[#s.targets + 1] = suffixed() end
  expect("=")
  s.values = expression_list()
  for k = 1, #s.targets do
    local t = s.targets[k]
    if t.op == "local" then
      note_set(t.decl, t)
    elseif t.op ~= "free" and t.op ~= "index" and t.op ~= "field" then
      M.fail(chunk, t, "got a value on the left of =, expected a variable or an element")
    end
  end
  return node("assign", s)
end

local function statement()
  local place, k = here(), kind()
  local s = { line = place.line, column = place.column }
  local read = statements[k]
  if not read then return assignment(s) end
  skip()
  s.op = k
  read(s, place)
  if k == "return" then fn.node.returns = fn.node.returns + 1 end
  return s
end

local ends = { ["end"] = true, ["else"] = true, ["elseif"] = true, ["until"] = true, ["end of text"] = true }

-- A label holds the rest of its block like a loop does.
block = function()
  local list = {}
  while not ends[kind()] do
    if not take(";") then
      local s = statement()
      list[#list + 1] = s
      if s.op == "return" then break end
    end
  end
  for k = 1, #list do
    if list[k].op == "label" then
      fn.labels[list[k].name] = nil
      close_loop()
    end
  end
  return list
end

-- ---- a text, or a function within one ----

local function begin(list, n, file)
  words, at, chunk, scope, fn, depth = list, 1, file, nil, { loops = {}, labels = {}, node = { returns = 0 } }, 0
  words[n + 1], words[n + 2] = "end of text", ""
  words[n + 3], words[n + 4] = words[n - 1] or 1, words[n] or 1
  open_scope()
end

local function finish() words, scope, fn = nil, nil, nil end

-- M.function_at(list, n, file, k) -> node or nil, problem: the function whose word `function` is at k of n words. Its `first`
-- and `last` are where its words begin and end, `from` the line that Lua says it is defined in.
function M.function_at(list, n, file, k)
  begin(list, n, file)
  at = k + 4
  local method
  while is("name") or is(".") or is(":") do
    method = is(":")
    skip()
    if method then skip() end
  end
  local place = { line = list[k + 2], column = list[k + 3] }
  local named = at > k + 4 and list[k - 4] ~= "local"
  if not is("(") then return finish() end
  local f
  local read, problem = try(function() f = function_body(place, method) end)
  local last = at
  finish()
  if not read then return nil, problem end
  if named then f.from = place.line end
  f.first, f.last = k, last
  return f
end

-- M.whole_text(list, n, file) -> node, statements in front of it: of `function (...) ... end`, or of a chunk that ends with
-- `return function (...) ... end`.
function M.whole_text(list, n, file)
  begin(list, n, file)
  if is("function") and words[at + 4] == "(" then
    local place = here()
    skip()
    local f = function_body(place)
    if not is("end of text") then wrong("the end of the text behind the function") end
    finish()
    return f, {}
  end
  local body = block()
  if not is("end of text") then wrong("the end of the text") end
  local last = body[#body]
  local f = last and last.op == "return" and #last.values == 1 and last.values[1]
  if not f or f.op ~= "function" then
    M.fail(chunk, last or { line = 1, column = 1 }, "got a text that returns no function, expected 'function(i, ...) ... end', or one that ends with "
      .. "'return function(i, ...) ... end'")
  end
  body[#body] = nil
  finish()
  return f, body
end
