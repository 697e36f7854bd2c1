-- The text of a Lua function: which of the functions of a file it is, by what Lua's debug information says of it.
--
-- Two functions that begin and end in the same lines and have the same parameters are told apart by the names that they find
-- outside of themselves, which have to be the function's upvalues, and then by their code.

local M = ...
local parse, lex = use "kernel/parse", use "kernel/lex.c"
local function_in = use("kernel/source_text.c", "function_in")

local function same_shape(f, shape)
  if f.from ~= shape.first or f.to ~= shape.last or #f.params ~= #shape.params then return false end
  for k = 1, #f.params do
    if f.params[k].name ~= shape.params[k] then return false end
  end
  return true
end

local function read_words(source, first, last)
  local list, n, line, column = lex.words(source.text, first, last)
  if not list then parse.fail(source.name, { line = line, column = column }, n) end
  return list, n
end

-- Of functions that are alike so far, the one without whose body the text does not hold the function any more; where each may
-- be left out they are the same. nil: that cannot be told, as what else there is changes with a body.
local function told_apart(found, source, list)
  local chosen
  for k = 1, #found do
    local open, last = found[k].first, found[k].last - 4
    while list[open] ~= ")" do open = open + 4 end
    local without = lex.blank(source.text, list[open + 2], list[open + 3] + 1, list[last + 2], list[last + 3])
    local holds = function_in(source.fn, without, source.chunk)
    if holds == nil or not holds and chosen then return end
    if not holds then chosen = found[k] end
  end
  return chosen or found[1]
end

-- Which of the functions that begin there it is: the one whose free names are the function's upvalues.
local function choose(found, source, list)
  if #found == 1 then return found[1] end
  local alike = {}
  for k = 1, #found do
    local same = true
    for i = 1, 255 do
      local up = upvalue(source.fn, i)
      if not up then break end
      same = same and (up == "_ENV" or up == "" or found[k].free[up])
    end
    if same then alike[#alike + 1] = found[k] end
  end
  if #alike < 2 then return alike[1] end
  return told_apart(alike, source, list) or parse.fail(source.name, alike[2],
    "got several functions with the same parameters in one line, expected one: write each in a line of its own, or pass its text as a string")
end

local function note_free(f, list)
  f.free = {}
  for k = f.first, f.last - 1, 4 do
    if list[k] == "name" then f.free[list[k + 1]] = true end
  end
end

-- Of the functions that begin there: one around it, which ends behind it, cannot be read.
local function find_function(source)
  local shape, found, problem = lex.shape(source.fn), {}, nil
  local list, n = read_words(source, shape.first, shape.last)
  for k = 1, n, 4 do
    if list[k] == "function" and list[k + 2] <= shape.first then
      local f, why = parse.function_at(list, n, source.name, k)
      problem = problem or why
      if f and same_shape(f, shape) then
        note_free(f, list)
        found[#found + 1] = f
      end
    end
  end
  local f = #found > 0 and choose(found, source, list)
  if not f and problem then throw(problem) end
  if not f then
    fail("StateError", source.name .. ":" .. shape.first .. ": the function that was loaded is not what stands there now, expected the text that was "
      .. "loaded: load the file again, or pass the text as a string")
  end
  return f, {}, list
end

local function read_text(source)
  local list, n = read_words(source, 1, 2147483647)
  local f, before = parse.whole_text(list, n, source.name)
  return f, before, list
end

-- M.syntax(source) -> syntax: {fn = node, before = statements in front of it, name =, lua = the function or nil, words =}.
-- source: {text =, name = of the file, fn = the function whose text it is part of, or nil: all of the text}.
function M.syntax(source)
  local f, before, words
  if source.fn then
    f, before, words = find_function(source)
  else
    f, before, words = read_text(source)
  end
  return { fn = f, before = before, name = source.name, lua = source.fn, words = words, globals = source.globals }
end
