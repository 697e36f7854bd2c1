-- The typed tree of a kernel written in Lua, from the syntax tree of its function: statements, calls, and the whole.
--
-- A kernel is specialised for the kinds of its arguments: dtype and ndim of tensors, integer, float or boolean. Every call of
-- a function is written out where it stands, so that types flow through it. What a function finds outside of itself is an
-- operand (numbers and tensors), compiled in (functions) or a constant (tables of numbers). The tree is described in
-- text.lua and code.lua, which make something of it.
--
-- Invariant: no name of the script's and no value that it can change is in the tree, but for numbers and dtypes.

local M = ...
local build, calls, expr, finder = use "kernel/build", use "kernel/calls", use "kernel/expr", use "kernel/find"
local flow, kernel, outside, parse = use "kernel/flow", use "kernel/kernel", use "kernel/outside", use "kernel/parse"
local vector_types = use "kernel/vector_types"
local statements -- of a block

local function bad(c, node, message) expr.bad(c, node, message) end

local function at(c, node)
  c.line = c.unit == c.main and node.line or nil
end

-- ---- calls ----

local function unit_of(c, lua)
  local unit = c.units[lua]
  if unit then return unit end
  unit = finder.syntax(kernel.source(lua))
  unit.free = {}
  c.units[lua] = unit
  return unit
end

local function bind(c, f, args)
  for k = 1, #f.params do flow.declare(c, f.params[k], args[k] or { what = "nil", name = f.params[k].name }) end
end

-- The values of a function whose return statements are one, its last.
local function run_straight(c, f, ret)
  ret.straight = true
  statements(c, f.body)
  return ret.values or {}
end

-- The values of a function that returns from within, or from several places: variables that every return sets.
local function run_block(c, f, ret)
  ret.id, ret.join, ret.decls, ret.count = flow.new_id(c), flow.new_join(c), {}, 0
  local list = flow.list(c, function()
    statements(c, f.body)
    if c.live then
      flow.join_from(c, ret.join)
      ret.ends = true
    end
  end)
  flow.emit(c, "block", { id = ret.id, body = list })
  flow.join(c, ret.join)
  local values = {}
  for k = 1, ret.count do
    values[k] = c.live and c.state[ret.decls[k]] or { what = "mixed", reason = "a value by one way and nothing by another" }
  end
  return values
end

-- M.inline(c, node, unit, f, args): the values that the function gives, and how it ended.
function M.inline(c, node, unit, f, args)
  if c.active[f] then
    bad(c, node, "got a call of a function within itself, expected a loop: kernels have no recursion")
  end
  if f.vararg then parse.fail(unit.name, f.vararg, "got ..., expected parameters that have names") end
  local before = { unit = c.unit, ret = c.ret, labels = c.labels, line = c.line, breaks = c.breaks }
  c.active[f] = true
  local declared = #c.order
  bind(c, f, args)
  c.unit, c.ret, c.labels, c.breaks = unit, {}, {}, nil
  local last, ret = f.body[#f.body], c.ret
  local straight = f.returns == 0 or f.returns == 1 and last.op == "return"
  local values = (straight and run_straight or run_block)(c, f, ret)
  c.unit, c.ret, c.labels, c.line, c.breaks = before.unit, before.ret, before.labels, before.line, before.breaks
  c.active[f] = nil
  flow.forget(c, declared)
  return values, ret
end

-- The running path leads to the join; returns the statement that goes there.
local function jump(c, join, op, id)
  flow.join_from(c, join)
  c.live = false
  return flow.emit(c, op, { id = id })
end

local function returns(c, s)
  local ret, values = c.ret, expr.list_of(c, s.values)
  ret.last = s
  if ret.straight then
    ret.values = values
    return
  end
  if ret.counts and ret.counts ~= #values then ret.differs = s end
  ret.counts = #values
  for k = 1, #values do
    if not ret.decls[k] then ret.decls[k] = { name = "(result)", assigned = true } end
    if not c.slots[ret.decls[k]] then flow.begin(c, ret.decls[k]) end
    flow.assign(c, ret.decls[k], values[k])
  end
  if #values > ret.count then ret.count = #values end
  jump(c, ret.join, "leave", ret.id)
end

local function call_function(c, node, f, args)
  if f.is_c then
    bad(c, node, "got function '" .. f.name .. "', which is not written in Lua, expected " .. (calls.instead(f.name)
      or "one that is, or one of math and tide that kernels have"))
  end
  if f.node then return (M.inline(c, node, f.unit, f.node, args)) end
  local unit = unit_of(c, f.lua)
  return (M.inline(c, node, unit, unit.fn, args))
end

local function call(c, node, wanted)
  local f = expr.value(c, node.fn)
  if f.what == "builtin" then return calls.builtin(c, node, f.name, node.args, wanted) end
  if f.what == "dtype" then
    bad(c, node, "got dtype " .. f.name .. ", expected a function: numbers are converted where they are stored, and math.floor(x) gives an integer")
  end
  if f.what ~= "function" then expr.unusable(c, node.fn, f, "a function") end
  return call_function(c, node, f, expr.list_of(c, node.args))
end

local function method(c, node, wanted)
  local object = expr.value(c, node.a)
  if object.what == "tensor" or object.what == "row" then return calls.tensor_method(c, node, object) end
  if object.what == "vector" then return vector_types.method(c, node, object) end
  if object.what == "table" then
    local f = outside.table_field(c, node, object, node.name)
    if f.what ~= "function" then expr.unusable(c, node, f, "method '" .. node.name .. "'") end
    local args = expr.list_of(c, node.args)
    for k = #args, 1, -1 do args[k + 1] = args[k] end
    args[1] = object
    return call_function(c, node, f, args)
  end
  local plain = not object.what and calls.meant(node.name)
  if plain then bad(c, node, "got method '" .. node.name .. "' of a number, expected a function: " .. plain .. "(x)") end
  expr.unusable(c, node.a, object, "what has a method '" .. node.name .. "'")
end

-- M.call(c, node, wanted): the values of a call.
function M.call(c, node, wanted)
  c.calls = c.calls + 1
  if c.calls > 20000 then bad(c, node, "got more than 20000 calls, expected a kernel in which fewer are written out") end
  local line = c.line
  local values = (node.op == "method" and method or call)(c, node, wanted)
  c.line = line
  return values
end

-- ---- assignment ----

local run = {}

run["local"] = function(c, s)
  for k = 1, #s.decls do
    if s.attribs[k] == "close" then bad(c, s, "got <close>, expected a variable: nothing in a kernel is to be closed") end
  end
  local values = expr.list_of(c, s.values, #s.decls)
  for k = 1, #s.decls do flow.declare(c, s.decls[k], values[k] or { what = "nil", name = s.decls[k].name }) end
end

run.localfunction = function(c, s)
  flow.declare(c, s.decl, { what = "function", node = s.fn, unit = c.unit, name = s.decl.name })
end

local function target(c, t)
  if t.op == "local" then return { what = "local", decl = t.decl } end
  if t.op == "free" then
    bad(c, t, "got an assignment to '" .. t.name .. "', which is no local, expected a local or an element of a tensor: kernels give values by x[i] = v or return")
  end
  local v = expr.value(c, t.a)
  if v.what == "tensor" or v.what == "row" then
    if t.op == "field" then bad(c, t, "got an assignment to field '" .. t.name .. "' of a tensor, expected one to an element: x[i] = v") end
    return expr.row(c, v, t, t.key)
  end
  if v.what == "vector" then
    bad(c, t, "got an assignment to a part of a " .. v.kind .. ", which is a value, expected a new one: v = tide." .. v.kind .. "(...)")
  end
  expr.no_row(c, t, v)
  expr.unusable(c, t, v, "a tensor whose element is assigned to")
end

local function store(c, node, row, v, of)
  if row.base.constant then bad(c, node, "got an assignment to a table, expected one to a tensor: tables are constants in a kernel") end
  if v.what == "vector" then return vector_types.store(c, node, row, v) end
  if #row.index < expr.ndim(c, row.base) then expr.unusable(c, node, row, "an element that is assigned to") end
  if v.what then expr.unusable(c, of or node, v, "a number or a boolean") end
  M.store(c, row, v, node)
end

function M.store(c, row, v, node)
  local place = expr.place(c, row.base, row.index, node)
  place.value = expr.as(expr.check_dtype(c, row.base, node), v)
  if place.tensor then c.operands[place.tensor].writes = true end
  flow.emit(c, "store", place)
end

run.assign = function(c, s)
  local targets = expr.each(c, s.targets, function(t) return target(c, t) end)
  local before = #c.out
  local values = expr.list_of(c, s.values, #targets)
  if #c.out > before then
    for k = 1, #targets do targets[k] = flow.hold_at(c, before, targets[k]) end
  end
  if #targets > 1 then
    for k = 1, #targets do targets[k] = flow.hold(c, targets[k]) end
    for k = 1, #targets do values[k] = flow.hold(c, values[k] or { what = "nil" }) end
  end
  for k = #targets, 1, -1 do
    local t, v = targets[k], values[k] or { what = "nil" }
    if t.what == "local" then
      flow.assign(c, t.decl, v)
    else
      store(c, s.targets[k], t, v, s.values[k])
    end
  end
end

run.call = function(c, s)
  expr.values(c, s.call, 0)
end

run["return"] = returns

-- ---- branches and loops ----

local function branch(c, tests, k, orelse)
  local test = tests[k]
  if not test then
    if orelse then statements(c, orelse) end
    return
  end
  at(c, test)
  local cond = expr.truth(c, test.cond, expr.value(c, test.cond))
  if cond.op == "const" then
    if cond.value then return statements(c, test.body) end
    return branch(c, tests, k + 1, orelse)
  end
  flow.branch(c, cond, function() statements(c, test.body) end, function() branch(c, tests, k + 1, orelse) end)
end

run["if"] = function(c, s) branch(c, s.tests, 1, s.orelse) end
run["do"] = function(c, s) statements(c, s.body) end

-- What `break` in the body leads to: `fn` writes the loop.
local function with_breaks(c, id, fn)
  local before = c.breaks
  c.breaks = { join = flow.new_join(c), id = id, nodes = {} }
  fn(c.breaks)
  local breaks = c.breaks
  c.breaks = before
  return breaks
end

local function leave_if(c, cond, breaks)
  local function leave() jump(c, breaks.join, "leave", breaks.id) end
  if cond.op ~= "const" then flow.branch(c, cond, leave) elseif cond.value then leave() end
end

local function endless(c, s, fn)
  local id = flow.new_id(c)
  local breaks = with_breaks(c, id, function(breaks)
    flow.loop(c, s.sets, function(back)
      local list = flow.list(c, function()
        fn(breaks)
        flow.join_from(c, back)
      end)
      at(c, s)
      flow.emit(c, "loop", { id = id, site = expr.site(c, s), body = list })
    end)
  end)
  flow.join(c, breaks.join)
end

run["while"] = function(c, s)
  endless(c, s, function(breaks)
    leave_if(c, build.logical_not(expr.truth(c, s.cond, expr.value(c, s.cond))), breaks)
    if c.live then statements(c, s.body) end
  end)
end

run["repeat"] = function(c, s)
  endless(c, s, function(breaks)
    statements(c, s.body)
    if c.live then
      at(c, s.cond)
      leave_if(c, expr.truth(c, s.cond, expr.value(c, s.cond)), breaks)
    end
  end)
end

run["break"] = function(c, s)
  if not c.breaks then bad(c, s, "got break outside of a loop, expected it within one") end
  local nodes = c.breaks.nodes
  nodes[#nodes + 1] = jump(c, c.breaks.join, "leave", c.breaks.id)
end

-- The last value that an integer loop comes to, where it is given as a float.
local function limit(c, to, step)
  if to.type == "i" then return to end
  local up = step.op ~= "const" or step.value > 0
  local most, least = build.const("9223372036854775807", "i"), build.const("9223372036854775808", "i")
  if to.op == "const" then
    local x = to.value
    if x ~= x then return up and least or most end
    if x >= 9007199254740992 then return most end
    if x <= -9007199254740992 then return least end
    return build.const(up and x - x % 1 or -(-x - -x % 1), "i")
  end
  to = flow.hold(c, to)
  if up then return build.choose(build.compare("ge", to, build.const(9007199254740992.0, "f")), most, build.floor(to)) end
  local ceiling = build.negate(build.floor(build.negate(to)))
  return build.choose(build.compare("gt", to, build.const(-9007199254740992.0, "f")), ceiling,
    build.choose(build.compare("eq", to, to), least, most))
end

local function loop_range(from, to, step)
  local up, down = step.lo >= 0, step.hi <= 0
  if up then return from.lo, to.hi > from.lo and to.hi or from.lo end
  if down then return to.lo < from.hi and to.lo or from.hi, from.hi end
  return from.lo < to.lo and from.lo or to.lo, from.hi > to.hi and from.hi or to.hi
end

local function integer_loop(c, s, from, to, step)
  local id = flow.new_id(c)
  local node = { id = id, from = from, to = to, step = step, site = expr.site(c, s) }
  local constant = step.op == "const" and step.value
  node.narrow = from.narrow and to.narrow and constant and constant > -2147483648 and constant < 2147483648
    and to.hi + constant < 2147483648 and to.lo + constant >= -2147483648 or false
  local head
  local breaks = with_breaks(c, id, function()
    head = flow.loop(c, s.sets, function(back)
      local n = flow.new_var(c, "i", not s.decl.assigned)
      local here = build.ranged({ op = "var", n = n }, loop_range(from, to, step))
      local list = flow.list(c, function()
        flow.begin(c, s.decl)
        c.slots[s.decl].i = n
        c.state[s.decl] = here
        statements(c, s.body)
        flow.join_from(c, back)
      end)
      at(c, s)
      flow.emit(c, "for", { id = id, var = n, from = from, to = to, step = step, site = node.site, narrow = node.narrow,
        lo = here.lo, hi = here.hi, body = list })
    end)
  end)
  -- the loop's own end is one way out of it; what that way has to do must not be done behind a break
  local list = flow.list(c, function()
    c.state, c.live = head, true
    flow.join_from(c, breaks.join)
  end)
  local last = c.out[#c.out]
  flow.join(c, breaks.join)
  if #list[1].list > 0 and #breaks.nodes > 0 then
    local outer = flow.new_id(c)
    for k = 1, #breaks.nodes do breaks.nodes[k].id = outer end
    c.out[#c.out] = nil
    flow.emit(c, "block", { id = outer, body = { last, list[1] } })
  else
    c.out[#c.out + 1] = list[1]
  end
end

-- Floats are counted as Lua counts them, by adding.
local function float_loop(c, s, from, to, step)
  to, step = flow.hold(c, build.float(to)), flow.hold(c, build.float(step))
  local counter = { name = "(for)", assigned = true }
  flow.declare(c, counter, build.float(from))
  local sets = { [counter] = true }
  for decl in next, s.sets do sets[decl] = true end
  endless(c, { sets = sets, line = s.line }, function(breaks)
    local now = c.state[counter]
    local zero = build.const(0.0, "f")
    local goes = build.choose(build.compare("gt", step, zero), build.compare("le", now, to),
      build.logic("and", build.compare("lt", step, zero), build.compare("ge", now, to)))
    leave_if(c, build.logical_not(goes), breaks)
    if not c.live then return end
    local id, j = flow.new_id(c), flow.new_join(c)
    local list = flow.list(c, function()
      flow.declare(c, s.decl, c.state[counter])
      statements(c, s.body)
      flow.join_from(c, j)
    end)
    flow.emit(c, "block", { id = id, body = list })
    flow.join(c, j)
    if c.live then flow.assign(c, counter, build.arithmetic("add", c.state[counter], step)) end
  end)
end

run["for"] = function(c, s)
  local list = expr.each(c, { s.from, s.to, s.step }, function(n) return expr.number(c, n, expr.value(c, n)) end)
  local from, to, step = list[1], list[2], list[3] or build.const(1, "i")
  if step.op == "const" and step.value == 0 then bad(c, s.step, "got a step of 0, expected another: the loop would not end") end
  if from.type == "i" and step.type == "i" then return integer_loop(c, s, from, limit(c, to, step), step) end
  float_loop(c, s, from, to, step)
end

run.forin = function(c, s)
  bad(c, s, "got a for with in, expected one that counts: for k = 1, #x do")
end

-- ---- goto ----

local function jumps(list, first, last, name)
  local function within(s)
    if s.op == "goto" then return s.name == name end
    if s.tests then
      for k = 1, #s.tests do
        if jumps(s.tests[k].body, 1, #s.tests[k].body, name) then return true end
      end
      if s.orelse and jumps(s.orelse, 1, #s.orelse, name) then return true end
    end
    return s.body and jumps(s.body, 1, #s.body, name)
  end
  for k = first, last do
    if within(list[k]) then return true end
  end
  return false
end

run["goto"] = function(c, s)
  local label = c.labels[s.name]
  if not label then
    bad(c, s, "got goto " .. s.name .. ", expected a label in this block or one around it (and not within a loop that a goto makes)")
  end
  jump(c, label.join, label.back and "next" or "leave", label.id)
end

local function with_label(c, name, label, fn)
  local before = c.labels[name]
  c.labels[name] = label
  fn()
  c.labels[name] = before
end

local some

-- Statements in front of a label that they jump to.
local function forward(c, list, first, at_label)
  local name = list[at_label].name
  if not jumps(list, first, at_label - 1, name) then return some(c, list, first, at_label - 1) end
  local label = { id = flow.new_id(c), join = flow.new_join(c) }
  local body = flow.list(c, function()
    with_label(c, name, label, function() some(c, list, first, at_label - 1) end)
    flow.join_from(c, label.join)
  end)
  flow.emit(c, "block", { id = label.id, body = body })
  flow.join(c, label.join)
end

-- Statements behind a label that they jump back to: a loop that is left at their end.
local function backward(c, list, at_label, last)
  local label, id = list[at_label], flow.new_id(c)
  local out = flow.new_join(c)
  flow.loop(c, label.sets, function(back)
    local body = flow.list(c, function()
      with_label(c, label.name, { id = id, join = back, back = true }, function() some(c, list, at_label + 1, last) end)
      flow.join_from(c, out)
      if c.live then flow.emit(c, "leave", { id = id }) end
    end)
    flow.emit(c, "loop", { id = id, site = expr.site(c, label), body = body })
  end)
  flow.join(c, out)
end

-- Statements first to last of a block, which may hold labels.
some = function(c, list, first, last)
  local at_label, back
  for k = first, last do
    if list[k].op == "label" then
      at_label, back = k, jumps(list, k + 1, last, list[k].name)
      if back then break end
    end
  end
  if at_label then
    forward(c, list, first, at_label)
    if not c.live then return end
    if back then return backward(c, list, at_label, last) end
    return some(c, list, at_label + 1, last)
  end
  for k = first, last do
    if not c.live then return end
    local s = list[k]
    at(c, s)
    run[s.op](c, s)
  end
end

statements = function(c, list) some(c, list, 1, #list) end

-- ---- the whole ----

local function new_compilation(options)
  return {
    options = options, most = options.small and 1073741823.0 or 9007199254740992.0, state = {}, slots = {}, out = {}, live = true,
    vars = {}, order = {}, in_order = {}, operands = {}, sites = {}, site_of = {}, shared = {}, constants = {}, joins = {}, units = {}, names = {}, active = {},
    labels = {},
    ids = 0, depth = 0, calls = 0, libraries = nil, shared_of = {}, counts = {},
  }
end

local function arguments(c, f)
  local args, ndim, signature = {}, c.options.ndim, c.options.signature or {}
  if f.vararg then parse.fail(c.main.name, f.vararg, "got ..., expected parameters that have names") end
  if #signature > 0 and #signature > #f.params - ndim then
    local names = {}
    for k = 1, #f.params do names[k] = (k > 1 and ", " or "") .. f.params[k].name end
    parse.fail(c.main.name, f, "got " .. #signature .. (#signature > 1 and " arguments" or " argument") .. " after a grid of "
      .. (ndim > 1 and ndim .. " sizes" or "one size") .. ", expected " .. (#f.params > ndim and "at most " .. #f.params - ndim or "none")
      .. ": of the parameters (" .. join(names) .. ") the first " .. (ndim > 1 and ndim .. " are" or "one is") .. " the place")
  end
  for d = 1, ndim do args[d] = build.ranged({ op = "place", dim = d }, 1.0, c.most) end
  for k = 1, #signature do
    local s, name = signature[k], f.params[ndim + k].name
    args[ndim + k] = outside.operand(c, name, s.kind, { argument = k }, s.dtype, s.ndim)
  end
  for k = ndim + #signature + 1, #f.params do
    args[k] = { what = "nil", name = f.params[k].name, missing = "pass it as an argument; the call has "
      .. (#signature > 0 and #signature or "none") .. " after a grid of " .. (ndim > 1 and ndim .. " sizes" or "one size") }
  end
  return args
end

local result_dtypes = { i = "int64", b = "bool" }

local function add_results(c, f, values, ret)
  if ret.differs then parse.fail(c.main.name, ret.differs, "got another number of results than at a return before, expected the same") end
  if #values > 0 and ret.ends then
    parse.fail(c.main.name, f, "got an end of the function without a return, expected one that gives " .. #values .. " as the others do")
  end
  if #values > 8 then parse.fail(c.main.name, ret.last, "got " .. #values .. " results, expected at most 8: write others into a tensor") end
  c.line = nil
  for k = 1, #values do
    if values[k].what then expr.unusable(c, ret.last or f, values[k], "a number or a boolean as result " .. k) end
    if #values > 1 then values[k] = flow.hold(c, values[k]) end
  end
  for k = 1, #values do flow.emit(c, "result", { n = k, value = values[k] }) end
  return values
end

local function float_of(c)
  local float = c.options.float
  for k = 1, #c.operands do
    local x = c.operands[k]
    if x.dtype == "float64" and (x.reads or x.writes) then float = float or "float64" end
  end
  return float or "float32"
end

-- M.infer(syntax, options) -> c: its typed tree, which tidy.tree finishes. options: ndim (of the grid), signature (of each
-- argument behind the place {kind =, dtype =, ndim =}), small (every size and offset is below 2^30), float ("float32" or
-- "float64"; nil: the widest that is read or written).
function M.infer(unit, options)
  local c = new_compilation(options)
  unit.free = {}
  c.main, c.unit = unit, unit
  if unit.lua then c.units[unit.lua] = unit end
  statements(c, unit.before)
  local values, ret = M.inline(c, unit.fn, unit, unit.fn, arguments(c, unit.fn))
  local results = add_results(c, unit.fn, values, ret)
  c.typed = {
    ndim = options.ndim, float = float_of(c), operands = c.operands, results = #results, constants = c.constants, shared = c.shared,
    names = c.names, barriers = c.barriers or false, random = c.random or false, atomics = c.atomics or false,
  }
  for k = 1, #results do
    local kind = results[k].type
    outside.add_operand(c, { kind = "tensor", dtype = result_dtypes[kind] or c.typed.float, ndim = options.ndim, reads = false, writes = true,
      name = "result " .. k, from = { result = k } })
  end
  return c
end
