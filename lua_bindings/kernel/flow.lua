-- How values flow through a kernel: its variables, branches, loops and what is jumped to (types.lua).
--
-- c, the compilation, holds the running state: c.state says what each declaration of the script is bound to here, c.out is
-- the list of statements that is written, c.live is false behind a jump. A value is an expression with a type, or a table
-- with `what`: tensor, row, vector, function, nil and others, which only the compiler knows.
--
-- A declaration that is assigned once is its value, or one variable. One that is assigned again has a variable for each
-- type that it takes (c.slots): where paths meet and it has the same type on all of them, nothing is to be done; where it
-- is an integer on one and a float on another, the integer is made a float at the end of that path. Other differences
-- are an error where the value is used ("mixed"). A loop is typed again until what comes back is of the types it began with.
--
-- c.order lists the declarations that are there, in the order in which they came: wherever all are gone through it is in that
-- order, so that the same function gives the same text whenever it is compiled.
--
-- Invariant: a declaration that is assigned again and has a number in c.state has it also in the variable of that type.

local M = ...
local build = use "kernel/build"

local function emit(c, op, node)
  node.op, node.line = op, c.line
  c.out[#c.out + 1] = node
  return node
end

M.emit = emit

function M.new_id(c)
  c.ids = c.ids + 1
  return c.ids
end

-- ---- variables ----

-- M.new_var(c, type, fixed): fixed: set once wherever it is read.
function M.new_var(c, kind, fixed)
  local n = #c.vars + 1
  c.vars[n] = { type = kind, fixed = fixed }
  return n
end

local new_var = M.new_var

-- M.var(n, value): a variable that holds the value now.
function M.var(n, value)
  local e = { op = "var", n = n, type = value.type }
  if value.type == "i" then build.ranged(e, value.lo, value.hi) end
  return e
end

local var = M.var

function M.let(c, n, value)
  emit(c, "let", { var = n, value = value })
end

local let = M.let

-- M.is_stable(c, e): is e the same wherever it is evaluated from here on?
function M.is_stable(c, e)
  return not build.has(e, function(x) return x.op == "load" or x.op == "var" and not c.vars[x.n].fixed end)
end

local is_stable = M.is_stable

-- M.copy_of(t): a table of the same keys and values.
function M.copy_of(t)
  local copy = {}
  for key, x in next, t do copy[key] = x end
  return copy
end

local copy_of = M.copy_of

local function map_parts(v, fn)
  local copy, list = copy_of(v), v.what == "row" and "index" or "parts"
  copy[list] = {}
  for k = 1, #v[list] do copy[list][k] = fn(v[list][k]) end
  return copy
end

-- What a value is made of: fn of each expression in it.
local function map_value(v, fn)
  if not v.what then return fn(v) end
  if v.what == "row" or v.what == "vector" then return map_parts(v, fn) end
  if v.what == "maybe" or v.what == "either" then
    return { what = v.what, cond = fn(v.cond), value = map_value(v.value, fn), is_nil = v.is_nil }
  end
  return v
end

local simple = { const = true, place = true, grid = true, size = true, number = true, thread = true, block = true, block_size = true, var = true }

local function hold(c, e)
  local n = new_var(c, e.type, true)
  let(c, n, e)
  return var(n, e)
end

-- e with what it is where it is no integer in variables of their own; what nobody reads of them goes in the end.
local function hold_all(c, e)
  local dual = e.dual
  if not dual then return hold(c, e) end
  if e.op == "floor_int" then
    e = build.whole(hold(c, dual.other))
    dual = e.dual
  else
    dual = { fits = hold(c, dual.fits), other = hold(c, dual.other), float = dual.float and hold(c, dual.float) }
  end
  e = hold(c, e)
  e.dual = dual
  return e
end

-- M.plain(e): an integer of which it is known that it is one.
function M.plain(e)
  if not e.dual then return e end
  local copy = copy_of(e)
  copy.dual = nil
  return copy
end

-- M.hold(c, v): the value in variables of its own, unless it costs nothing and stays as it is.
function M.hold(c, v)
  return map_value(v, function(e)
    if simple[e.op] and is_stable(c, e) then return e end
    return hold_all(c, e)
  end)
end

-- M.hold_at(c, list, place, v): the same, in front of what has been written from that place on.
function M.hold_at(c, place, v)
  local out, behind = c.out, {}
  for k = place + 1, #out do
    behind[#behind + 1] = out[k]
    out[k] = nil
  end
  for k = #out, place + 1, -1 do out[k] = nil end
  v = map_value(v, function(e) return is_stable(c, e) and e or hold_all(c, e) end)
  for k = 1, #behind do out[#out + 1] = behind[k] end
  return v
end

-- ---- declarations ----

-- A variable of a declaration for values of that type; part: of a vector.
local function slot(c, decl, kind, part)
  local slots = c.slots[decl]
  local key = kind .. (part or "")
  if not slots[key] then slots[key] = new_var(c, kind) end
  return slots[key]
end

local function put_one(c, decl, kind, part, e)
  local n = slot(c, decl, kind, part)
  if not (e.op == "var" and e.n == n) then let(c, n, e) end
  return var(n, { type = kind })
end

-- Of the integer v what it is where it is none, into variables of the declaration; part: of a vector.
local function put_dual(c, decl, v, part)
  part = part or ""
  local fits, other = v.dual and v.dual.fits or build.const(true, "b"), v.dual and v.dual.other or build.const(0.0, "f")
  return { fits = put_one(c, decl, "b", part .. " fits", fits), other = put_one(c, decl, "f", part .. " other", other) }
end

-- Puts a value into the variables of a declaration; returns what the variables are.
local function put(c, decl, v)
  if not v.what then
    local n = slot(c, decl, v.type)
    if v.dual and not is_stable(c, v) then v = hold_all(c, v) end -- it may be made of what is set
    local dual = v.dual and put_dual(c, decl, v)
    if not (v.op == "var" and v.n == n) then let(c, n, v) end
    local e = var(n, v)
    e.dual = dual
    return e
  end
  if v.what ~= "vector" then return v end
  local held, parts = v, {}
  -- parts may be made of the variables that are set
  if #v.parts > 1 then held = map_value(v, function(e) return is_stable(c, e) and e or hold(c, e) end) end
  for k = 1, #held.parts do
    local e = held.parts[k]
    local n = slot(c, decl, e.type, k)
    let(c, n, e)
    parts[k] = var(n, e)
  end
  return { what = "vector", kind = v.kind, parts = parts }
end

-- M.begin(c, decl): it has no variables yet.
function M.begin(c, decl)
  c.slots[decl] = {}
  if c.in_order[decl] then return end
  c.order[#c.order + 1] = decl
  c.in_order[decl] = true
end

-- M.forget(c, count): the declarations behind that many are no more.
function M.forget(c, count)
  for k = #c.order, count + 1, -1 do
    local decl = c.order[k]
    c.state[decl], c.in_order[decl], c.order[k] = nil, nil, nil
  end
end

-- M.declare(c, decl, v): a declaration begins to be.
function M.declare(c, decl, v)
  M.begin(c, decl)
  if not decl.assigned then
    c.state[decl] = M.hold(c, v)
    return
  end
  M.assign(c, decl, v)
end

function M.assign(c, decl, v)
  local whole = put(c, decl, v)
  if not v.what and is_stable(c, v) then whole = v end
  c.state[decl] = whole
end

-- ---- paths that meet ----

-- A place that paths lead to: c.joins holds those that are open, since a loop that is typed again takes back what led there.
function M.new_join(c)
  local j = { entries = {} }
  c.joins[#c.joins + 1] = j
  return j
end

-- M.join_from(c, j): the running path leads there; what it has still to do can be put in front.
function M.join_from(c, j)
  if not c.live then return end
  local fix = emit(c, "seq", { list = {} })
  j.entries[#j.entries + 1] = { state = copy_of(c.state), fix = fix.list, line = c.line }
end

-- What values of a kind have in common where they are the same; other kinds never are.
local identity = {
  ["nil"] = {}, mixed = {}, tensor = { "n", "shared" }, ["function"] = { "node", "lua" }, row = { "base" }, const = { "value", "type" },
  var = { "n", "lo", "hi" }, place = { "dim" }, grid = { "dim" }, thread = { "dim" }, block = { "dim" }, size = { "dim", "tensor" },
}

local function same_value(a, b)
  local keys = identity[a.what or a.op]
  if a == b then return true end
  if not keys or a.what ~= b.what or a.op ~= b.op then return false end
  for k = 1, #keys do
    if a[keys[k]] ~= b[keys[k]] then return false end
  end
  if a.what == "row" then
    local same = #a.index == #b.index
    for k = 1, #a.index do same = same and same_value(a.index[k], b.index[k]) end
    return same
  end
  local p, q = a.dual, b.dual
  if a.op == "var" and p ~= q then return p and q and same_value(p.fits, q.fits) and same_value(p.other, q.other) end
  return a.op ~= "const" or a.value ~= 0 or 1 / a.value == 1 / b.value
end

-- fn(c, ...), which writes in front of a jump.
local function in_front(c, entry, fn, ...)
  local out, line = c.out, c.line
  c.out, c.line = entry.fix, entry.line
  local result = fn(c, ...)
  c.out, c.line = out, line
  return result
end

-- In front of a jump: the declaration's value into its variable of that type; or what an integer is where it is none.
local function convert(c, entry, decl, v, kind, part)
  if v.type ~= kind then in_front(c, entry, let, slot(c, decl, kind, part), build.float(v)) end
end
local function convert_dual(c, entry, decl, v, part) return in_front(c, entry, put_dual, decl, v, part) end

local kind_names = { i = "an integer", f = "a float", b = "a boolean" }

-- M.describe(v): what a value is, in words.
function M.describe(v)
  if not v.what then return kind_names[v.type] end
  if v.what == "vector" then return "a " .. v.kind end
  if v.what == "row" then return "a row of a tensor" end
  if v.what == "nil" then return "nil" end
  if v.what == "maybe" then return "a value that may be " .. (v.is_nil == "either" and "false or nil" or v.is_nil and "nil" or "false") end
  if v.what == "either" then return "a value that may be true" end
  if v.what == "mixed" then return v.reason end
  if v.what == "builtin" then return "the function " .. v.name end
  return "a " .. v.what
end

local function mixed(a, b, line_a, line_b)
  if a.what == "mixed" then return a end
  if b.what == "mixed" then return b end
  return { what = "mixed", reason = M.describe(a) .. " by one way and " .. M.describe(b) .. " by another",
    is_nil = a.what == "nil" or b.what == "nil" }
end

-- The type that holds numbers of both, or nil.
local function common(a, b)
  if a == b then return a end
  if a ~= "b" and b ~= "b" then return "f" end
end

local function merge_scalars(c, decl, entries, values, part)
  local kind, lo, hi = values[1].type, 1 / 0, -1 / 0
  for k = 2, #values do kind = kind and common(kind, values[k].type) end
  if not kind then return end
  local some, dual = false, nil
  for k = 1, #values do some = some or values[k].dual ~= nil end
  for k = 1, #values do
    local v = values[k]
    convert(c, entries[k], decl, v, kind, part)
    if some and kind == "i" then dual = convert_dual(c, entries[k], decl, v, part) end
    if v.type == "i" and v.lo < lo then lo = v.lo end
    if v.type == "i" and v.hi > hi then hi = v.hi end
  end
  local merged = var(slot(c, decl, kind, part), { type = kind, lo = lo, hi = hi })
  merged.dual = dual
  return merged
end

local function merge_vectors(c, decl, entries, values)
  local parts = {}
  for p = 1, #values[1].parts do
    local list = {}
    for k = 1, #values do
      if values[k].kind ~= values[1].kind then return end
      list[k] = values[k].parts[p]
    end
    parts[p] = merge_scalars(c, decl, entries, list, p)
  end
  return { what = "vector", kind = values[1].kind, parts = parts }
end

local function merge(c, decl, entries, values)
  local same, what, first = true, values[1].what, values[1].of or values[1]
  for k = 2, #values do same = same and (values[k].of or values[k]) == first end
  if same then return values[1] == values[2] and values[1] or first end
  same = true
  for k = 2, #values do
    same = same and same_value(values[1], values[k])
    if values[k].what ~= what then what = "different" end
  end
  if same then return values[1] end
  local merged
  if what == nil then merged = merge_scalars(c, decl, entries, values) end
  if what == "vector" then merged = merge_vectors(c, decl, entries, values) end
  if merged then return merged end
  for k = 2, #values do
    if values[k].what ~= values[1].what or not same_value(values[1], values[k]) then return mixed(values[1], values[k]) end
  end
end

-- M.join(c, j): goes on where the paths meet.
function M.join(c, j)
  for k = #c.joins, 1, -1 do -- it is closed, and so are those within
    local is_it = c.joins[k] == j
    c.joins[k] = nil
    if is_it then break end
  end
  local entries = j.entries
  c.live = #entries > 0
  if not c.live then return end
  local state = {}
  for i = 1, #c.order do
    local decl, values, everywhere = c.order[i], {}, true
    for k = 1, #entries do
      values[k] = entries[k].state[decl]
      everywhere = everywhere and values[k]
    end
    if everywhere then state[decl] = #entries == 1 and values[1] or merge(c, decl, entries, values) end
  end
  c.state = state
end

-- M.list(c, fn): the statements that fn writes.
function M.list(c, fn)
  local out = c.out
  c.out = {}
  fn()
  local list = c.out
  c.out = out
  return list
end

-- The same value, of which more is known: `of` is what it was. The range may be open on one side.
local function within(v, lo, hi)
  local copy = copy_of(v)
  copy.of = v.of or v
  copy.lo, copy.hi = lo > v.lo and lo or v.lo, hi < v.hi and hi or v.hi
  copy.narrow = copy.lo >= -2147483648.0 and copy.hi <= 2147483647.0
  return copy
end

local function note_within(c, e, lo, hi)
  if e.op == "const" then return end
  for k = 1, #c.order do
    local decl = c.order[k]
    local v = c.state[decl]
    if v and (v.of or v) == (e.of or e) and v.lo <= hi and v.hi >= lo and (v.lo < lo or v.hi > hi) then c.state[decl] = within(v, lo, hi) end
  end
end

local any = 1 / 0
local refines = {
  lt = function(c, a, b)
    note_within(c, a, -any, b.hi - 1)
    note_within(c, b, a.lo + 1, any)
  end,
  le = function(c, a, b)
    note_within(c, a, -any, b.hi)
    note_within(c, b, a.lo, any)
  end,
  eq = function(c, a, b)
    note_within(c, a, b.lo, b.hi)
    note_within(c, b, a.lo, a.hi)
  end,
}
refines.gt = function(c, a, b) refines.lt(c, b, a) end
refines.ge = function(c, a, b) refines.le(c, b, a) end
local opposite = { lt = "ge", ge = "lt", gt = "le", le = "gt", eq = "ne", ne = "eq" }

-- Where the condition holds, or does not, the integers in it that declarations are bound to are in smaller ranges.
local function refine(c, cond, holds)
  local op = cond.op
  if op == "not" then return refine(c, cond.a, not holds) end
  if op == "and" and holds or op == "or" and not holds then
    refine(c, cond.a, holds)
    return refine(c, cond.b, holds)
  end
  if not opposite[op] or cond.a.type ~= "i" or cond.b.type ~= "i" then return end
  local of = refines[holds and op or opposite[op]]
  if of then of(c, cond.a, cond.b) end
end

-- Declarations that are another small integer on either side, and known there: they are chosen behind the branch, by an
-- expression whose range is known, in place of a variable that was set twice. Most of them are indexes at the edge of a grid.
local function chosen(c, state, entries)
  local list = {}
  if #entries ~= 2 or entries[1].side == entries[2].side then return list end
  for k = 1, #c.order do
    local decl = c.order[k]
    local yes, no = entries[1].state[decl], entries[2].state[decl]
    if decl.assigned and yes and no and yes.type == "i" and no.type == "i" and yes.narrow and no.narrow and (yes.of or yes) ~= (no.of or no) and not same_value(yes, no)
      and is_stable(c, yes) and is_stable(c, no) then
      list[#list + 1] = { decl = decl, yes = yes, no = no }
    end
  end
  return list
end

-- M.branch(c, cond, yes, no): one of two functions that write statements.
function M.branch(c, cond, yes, no)
  local j, state, node, line = M.new_join(c), c.state, {}, c.line
  local function side(fn, name)
    c.state, c.live = copy_of(state), true
    refine(c, cond, name == "yes")
    return M.list(c, function()
      if fn then fn() end
      local before = #j.entries
      M.join_from(c, j)
      if #j.entries > before then j.entries[#j.entries].side = name end
    end)
  end
  node.yes, node.no = side(yes, "yes"), side(no, "no")
  c.line = line
  local list = chosen(c, state, j.entries)
  node.cond = #list > 0 and M.hold(c, cond) or cond
  emit(c, "if", node)
  M.join(c, j)
  for k = 1, #list do M.assign(c, list[k].decl, M.hold(c, build.choose(node.cond, list[k].yes, list[k].no))) end
end

-- ---- loops ----

local function mark(c)
  local counts = {}
  for k = 1, #c.joins do counts[k] = #c.joins[k].entries end
  return { joins = #c.joins, counts = counts, out = #c.out }
end

local function take_back(c, m)
  for k = #c.joins, m.joins + 1, -1 do c.joins[k] = nil end
  for k = 1, m.joins do
    local entries = c.joins[k].entries
    for i = #entries, m.counts[k] + 1, -1 do entries[i] = nil end
  end
  for k = #c.out, m.out + 1, -1 do c.out[k] = nil end
end

-- What a loop may change: its own declarations of outside, and those that functions change.
local function changed(c, sets)
  local list = {}
  for k = 1, #c.order do
    local decl = c.order[k]
    if c.state[decl] and (sets[decl] or decl.shared) then list[#list + 1] = decl end
  end
  return list
end

local wide = 1073741824.0

-- How a value of the head is held while the loop is typed. p.wide: an integer of it grows, perhaps to a bound that the loop
-- itself tests; p.full: nothing is known of it.
local function head_value(c, decl, v, kind, p, part)
  if kind == "f" and v.type == "i" then
    let(c, slot(c, decl, "f", part), build.float(v))
    return var(slot(c, decl, "f", part), { type = "f" })
  end
  local e = var(slot(c, decl, v.type, part), v)
  if v.type ~= "i" then return e end
  if v.dual or p.dual then e.dual = put_dual(c, decl, v, part) end
  if p.full or p.wide and not (v.lo >= -wide and v.hi <= wide) then return build.any_integer(e) end
  if p.wide then build.ranged(e, v.lo >= 0 and 0.0 or -wide, wide) end
  return e
end

local function enter_head(c, list, plan)
  for k = 1, #list do
    local decl = list[k]
    local v, p = c.state[decl], plan[decl] or {}
    if p.mixed then
      c.state[decl] = p.mixed
    elseif not v.what then
      c.state[decl] = head_value(c, decl, v, p.kind, p)
    elseif v.what == "vector" then
      local parts = {}
      for i = 1, #v.parts do parts[i] = head_value(c, decl, v.parts[i], "f", p, i) end
      c.state[decl] = { what = "vector", kind = v.kind, parts = parts }
    end
  end
end

-- Does what comes back fit the head? Else the plan is changed, and the loop typed again.
local function fits_head(c, list, head, back, plan)
  local ok = true
  for k = 1, #list do
    local decl = list[k]
    local want, got = head[decl], back[decl]
    local p = plan[decl] or {}
    plan[decl] = p
    if want.what or got.what then
      local alike = want.what == "vector" and got.what == "vector" and want.kind == got.kind
      if not alike and want.what ~= "mixed" and not same_value(want, got) then p.mixed, ok = mixed(want, got), false end
    elseif not common(want.type, got.type) then
      p.mixed, ok = mixed(want, got), false
    elseif want.type == "i" and got.type == "f" then
      p.kind, ok = "f", false
    elseif want.type == "i" and got.dual and not want.dual then
      p.dual, ok = true, false
    elseif want.type == "i" and not (got.lo >= want.lo and got.hi <= want.hi) then
      p.full, p.wide, ok = p.wide or c.depth > 2, true, false
    end
  end
  return ok
end

-- M.loop(c, sets, body): body(back) writes the loop's statements, with c.state as it is at its head, and has every path
-- that begins it again lead to `back`. Returns the state of the head.
function M.loop(c, sets, body)
  local plan, state, line, m = {}, c.state, c.line, mark(c)
  local list = changed(c, sets)
  c.depth = c.depth + 1
  if c.depth > 2 then
    for k = 1, #list do plan[list[k]] = { full = true } end
  end
  while true do
    c.state, c.live, c.line = copy_of(state), true, line
    enter_head(c, list, plan)
    local head, back = copy_of(c.state), M.new_join(c)
    body(back)
    local ok = true
    for k = 1, #back.entries do ok = fits_head(c, list, head, back.entries[k].state, plan) and ok end
    if ok then
      for k = 1, #back.entries do
        local entry = back.entries[k]
        for i = 1, #list do
          local want, got = head[list[i]], entry.state[list[i]]
          if not want.what then convert(c, entry, list[i], got, want.type) end
          if not want.what and want.dual then convert_dual(c, entry, list[i], got) end
        end
      end
      c.depth, c.joins[#c.joins] = c.depth - 1, nil
      return head
    end
    take_back(c, m)
  end
end
