-- Which of the elements that a loop reads and writes lie inside for all its turns, as C++ text asked before it (text_statements.lua).
--
-- An index is followed that is the loop's variable, plus or minus a small constant, or that is the same in each turn. So a loop
-- over what a tensor gives as bounds, as neighbors in a sorted grid are, is run without a test where both bounds are good.
--
-- Invariant: where the condition holds there is a turn at least, and every value of the variable is a tide_x.

local M = ...
local build, loop_stops = use "kernel/build", use "kernel/stops"
local of, loop, sets, labels, proven, write

local function small_constant(e) return e.op == "const" and e.type == "i" and type(e.value) == "number" and e.value < 1048576 and e.value > -1048576 end

-- How far the index is from the loop's variable; nil: it is no such index.
local function offset_of(e)
  if e.op == "var" then return e.n == loop.var and 0 or nil end
  if e.op ~= "add" and e.op ~= "sub" then return end
  local a, b = e.a, e.b
  if e.op == "add" and small_constant(a) then a, b = b, a end
  if a.op ~= "var" or a.n ~= loop.var or not small_constant(b) then return end
  return e.op == "sub" and -b.value or b.value
end

local leaves = { const = true, place = true, size = true, thread = true, block = true, block_size = true, number = true }

local function is_same(e)
  if e.type ~= "i" then return false end
  if leaves[e.op] then return true end
  if e.op == "var" then return not sets[e.n] and e.n ~= loop.var end
  return (e.op == "add" or e.op == "sub" or e.op == "mul") and is_same(e.a) and is_same(e.b)
end

-- Is the body one without loops and without threads that wait? Notes the variables that it sets, and its labels.
local function is_simple(list)
  return not build.any(list, function(n)
    if n.var then sets[n.var] = true end
    if n.op == "block" then labels["leave" .. n.id] = true end
    return loop_stops.takes_long(n)
  end)
end

-- Conditions are kept by their text, so that each is asked once.
local function note(found, text)
  if not found.asked[text] then found.list[#found.list + 1] = text end
  found.asked[text] = true
end

local function see(found, e)
  if not e.index or #e.index == 0 or proven(e) then return end
  local sizes = e.shared and of.shared[e.shared].sizes or e.constant and of.constants[e.constant].sizes
  local texts = {}
  for d = 1, #e.index do
    local index, size = e.index[d], sizes and "(tide_x)" .. literal(sizes[d]) or "n" .. e.tensor .. "_" .. d
    local by = offset_of(index)
    if by then
      texts[#texts + 1] = "(first >= " .. literal(1 - by) .. ")"
      texts[#texts + 1] = "(last <= (tide_i)" .. size .. " - (" .. literal(by) .. "))"
    elseif is_same(index) then
      texts[#texts + 1] = "!tk_out(" .. write(index) .. ", (tide_x)" .. size .. ")"
    else
      return
    end
  end
  for k = 1, #texts do note(found, texts[k]) end
  found.inside[e], found.any = true, true
end

local function look(found, body)
  local function look_at(e)
    if e.op == "load" then see(found, e) end
    build.children(e, look_at)
  end
  build.each(body, function(n)
    build.expressions(n, look_at)
    if n.index then see(found, n) end
  end)
end

-- M.test(typed, n, is_proven, write_expression) -> {cond =, inside =, labels =} or nil: of a `for` statement whose bounds are in
-- the variables `first`, the lower, and `last` of the text: what to ask, the elements that lie inside where it holds, and the
-- labels that a second copy of the body needs to have for itself.
function M.test(typed, n, is_proven, write_expression)
  of, loop, sets, labels, proven, write = typed, n, {}, { ["next" .. n.id] = true }, is_proven, write_expression
  local found
  if is_simple(n.body) and not sets[n.var] then
    found = { list = {}, asked = {}, inside = {}, labels = labels }
    look(found, n.body)
  end
  of, loop, sets, labels, proven, write = nil, nil, nil, nil, nil, nil
  if not found or not found.any then return end
  found.cond = join(found.list, " & ")
  return found
end
