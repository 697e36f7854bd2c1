-- From the typed tree of a kernel to the code of the block interpreter (core/backend/cpu/jit/blocks.h): text, one
-- instruction a line.
--
-- `cur` is the mask of the lanes that run; what reads, writes or reports is never run with an empty mask, so whatever lets
-- lanes go jumps to where their mask ends if none is left. A branch that only some lanes may take has a mask of its own, and
-- so has the body of a loop or block that they leave one by one: who leaves is dropped from all masks between. Branches and
-- loops that all lanes go through together are jumps. A variable that belongs to the lanes that run is set without a mask
-- (uniform.lua says which does).
--
-- A grid has `rows` code, and where it has several dims also `flat` code for short rows, in which every place is a register
-- of lanes. Threads that wait for each other have `threads` code, in which a block is all lanes.
--
-- Invariant: masks are numbered as they nest, so those between two are the numbers between.

local M = ...
local build, kernel, lanes, cxx, uniform = use "kernel/build", use "kernel/kernel", use "kernel/lanes", use "kernel/text", use "kernel/uniform"
local typed, flow, opts, w, now
local frames, ends, drops, mutable, slot_of, dropped_at, base, begun, narrows

local write_list

local function k(n) return "k" .. n end

-- A mask inside cur; `over`: where its lanes' statements end; `by`: the loop or block that its lanes leave for good.
local function open_mask(over, by)
  now.cur = now.cur + 1
  if now.cur >= now.masks then now.masks = now.cur + 1 end
  ends[now.cur], drops[now.cur], begun[now.cur], narrows[now.cur] = over, 0, by or false, false
  return now.cur
end

-- Where statements of mask m end: a mask that loses lanes is worked on in fewer and fewer strips.
local function widen(m)
  if narrows[m] then w.emit("widen", k(m)) end
end

-- Lanes may have left for somewhere outside: if none is here any more, what follows is not for them.
local function go_on(before)
  if drops[now.cur] ~= before then w.emit("jump_none", k(now.cur), ends[now.cur]) end
end

-- ---- variables ----

local function register_of(n)
  local type = typed.vars[n].type
  if flow.vary[n] then return { type = type, r = w.take(type) } end
  local s = w.new_number()
  mutable[s] = true
  return { type = type, s = s }
end

-- A number that nothing changes later.
local function kept(s)
  if not mutable[s] then return s end
  local copy = w.new_number()
  w.emit("copy_i", copy, s)
  return copy
end

-- Is it enough to remember the value itself? Numbers and lines that are set once.
local function bind(n, v)
  if flow.sets[n] ~= 1 or flow.loose[n] or v.r or v.type ~= "i" and v.s and mutable[v.s] then return false end
  if v.s and not v.line and flow.vary[n] then return false end
  now.vars[n] = { type = v.type, s = v.s and kept(v.s), line = v.line, k = v.k, c = v.c, value = v.value }
  return true
end

local function declare(n)
  now.vars[n], slot_of[n] = register_of(n), now.cur
end

-- Has who is not in cur left the block or loop that uses the variable last? What it holds for these does not matter.
local function unread(n)
  local by = begun[now.cur]
  return slot_of[n] == now.cur - 1 and by and flow.home[n][flow.last[n]] == by
end

-- A count, n = n + a number, of lanes of cur alone.
local function count(node, r)
  local e = node.value
  if e.op ~= "add" or e.type ~= "i" or e.a.op ~= "var" or e.a.n ~= node.var then return false end
  if flow.varies(e.b) then return false end
  local by = w.eval(e.b)
  if not w.is_one(by) then return false end
  w.emit("count", r, k(now.cur), by.s)
  return true
end

local function let(node)
  local n, here = node.var, flow.declares[node] and not flow.loose[node.var]
  if here then slot_of[n] = now.cur end
  local var = now.vars[n]
  if here and not flow.vary[n] then
    local v = w.eval(node.value)
    if bind(n, v) then return end
    declare(n)
    w.emit("copy" .. w.suffix[v.type], now.vars[n].s, v.s)
    return
  end
  if not flow.vary[n] then
    local v = w.eval(node.value)
    w.emit("copy" .. w.suffix[v.type], var.s, v.s)
    return
  end
  if here then
    -- the register is taken after the value is known, so that a line needs none
    local v = w.eval(node.value)
    if bind(n, v) then return end
    slot_of[n] = now.cur
    if v.temp then
      now.vars[n], v.temp = { type = v.type, r = v.r }, nil
      return
    end
    declare(n)
    w.move(v, now.vars[n].r)
    return
  end
  if not flow.loose[n] and (slot_of[n] == now.cur or unread(n)) then
    w.move(w.eval(node.value, var.r), var.r)
  elseif not count(node, var.r) then
    w.put(w.eval(node.value), var.r)
  end
end

-- ---- stores ----

local function number_value(v, type)
  if v.type == type then return v end
  if type == "f" then return w.lane("float_i", "f", nil, v) end
  return w.lane("int_r", "i", nil, w.lane("trunc_r", "f", nil, v))
end

local function value_for(e)
  local v = w.eval(e)
  return v.line and w.spread(v) or v
end

local function store(node, tests)
  local v = value_for(node.value)
  local a = w.access(node, v.type, tests)
  w.emit("store", a, v.r or v.s, k(now.cur))
  w.give(v)
end

local function result(node)
  local index = {}
  for d = 1, typed.ndim do index[d] = { op = "place", dim = d, type = "i" } end
  store({ tensor = #typed.operands - typed.results + node.n, index = index, value = node.value }, false)
end

local atomic_kinds = { add = 0, sub = 0, min = 1, max = 2, exchange = 3, cas = 4, band = 5, bor = 6, bxor = 7 }
local atomic_dtypes = { int32 = "i", int64 = "i", float32 = "f", float64 = "f" }

local function atomic(node)
  local type = atomic_dtypes[w.array_of(node).dtype]
  local v = number_value(value_for(node.value), type)
  if node.kind == "sub" then v = w.lane("neg" .. w.suffix[type], type, nil, v) end
  local expected = node.expected and number_value(value_for(node.expected), type) or w.zero(type)
  if node.var and flow.declares[node] and not flow.loose[node.var] then declare(node.var) end
  local old = node.var and now.vars[node.var].r or w.take(type)
  local a = w.access(node, type, w.tests())
  w.emit("atomic", old, a, atomic_kinds[node.kind], v.r or v.s, expected.r or expected.s, k(now.cur))
  w.give(v)
  w.give(expected)
  if not node.var then w.give_register(old) end
end

-- ---- branches ----

local function leave(id, which)
  local frame = frames[id]
  local to = which == "next" and frame.inner or frame.slot
  local label = which == "next" and frame.over or frame.done
  if to == now.cur then return w.emit("jump", label) end
  for m = to, now.cur - 1 do
    w.emit("mask_drop", k(m), k(now.cur))
    drops[m] = drops[m] + 1
  end
  w.emit("jump", ends[now.cur])
end

-- `if cond then leave end` by lanes of the mask that they leave: they are taken out of it; `off`: where cond is false.
local function leaves_at_once(node, cond, off)
  local only = #node.yes == 1 and #node.no == 0 and node.yes[1]
  if not only or only.op ~= "leave" and only.op ~= "next" then return false end
  local frame = frames[only.id]
  local to, label = frame.slot, frame.done
  if only.op == "next" then to, label = frame.inner, frame.over end
  if to ~= now.cur or to == frame.outer then return false end
  w.emit(off and "mask_and" or "mask_less", k(now.cur), k(now.cur), cond.r, label)
  narrows[to] = true
  drops[now.cur] = drops[now.cur] + 1
  w.give(cond)
  return true
end

local function branch(node, cond)
  local other, done, no = {}, {}, #node.no > 0 and node.no
  w.emit("jump_zero", cond.s, no and other or done)
  write_list(node.yes)
  if no then
    w.emit("jump", done)
    w.mark(other)
    write_list(no)
  end
  w.mark(done)
end

local function side(off, outer, cond, list, over)
  open_mask(over)
  w.emit(off and "mask_less" or "mask_and", k(now.cur), k(outer), cond, over)
  write_list(list)
  now.cur = outer
  w.mark(over)
end

local function divided(node, cond)
  local outer, before, no = now.cur, drops[now.cur], #node.no > 0 and node.no
  if no and not cond.temp then
    -- a variable that the first side may change
    local r = w.take("b")
    w.emit("copy_m", r, cond.r)
    cond = { type = "b", r = r, temp = true }
  end
  side(false, outer, cond.r, node.yes, {})
  if no then side(true, outer, cond.r, no, {}) end
  w.give(cond)
  go_on(before)
end

-- ---- loops ----

local function uses_next(list, id)
  return build.any(list, function(node) return node.op == "next" and node.id == id end)
end

-- The body of a loop or block, in the masks that it needs: {slot = of all that are in the loop, inner = of those of this
-- time, over, done = where they go on}.
local function begin_frame(node, outer)
  local frame = { over = {}, done = {}, slot = outer, inner = outer, outer = outer }
  frames[node.id] = frame
  return frame
end

-- The same with a mask of its own where lanes leave it one by one.
local function begin_masked(node, outer)
  local frame = begin_frame(node, outer)
  if flow.parts[node.id] then
    frame.slot = open_mask(frame.done, node)
    frame.inner = frame.slot
    w.emit("mask_copy", k(frame.slot), k(outer))
  end
  return frame
end

local function times(node, frame)
  if flow.parts[node.id] and uses_next(node.body, node.id) then
    frame.inner = open_mask(frame.over)
    w.emit("mask_copy", k(frame.inner), k(frame.slot))
  end
  if node.op == "for" then frame.set() end
  write_list(node.body)
  now.cur = frame.slot
  w.mark(frame.over)
  if frame.inner ~= frame.slot then widen(frame.inner) end
end

-- All of them are here again.
local function end_frame(frame)
  w.mark(frame.done)
  if frame.slot ~= frame.outer then widen(frame.slot) end
  now.cur = frame.outer
end

local function loop(node)
  local before, top, frame = drops[now.cur], {}, begin_masked(node, now.cur)
  w.mark(top)
  times(node, frame)
  if frame.inner ~= frame.slot and drops[frame.slot] > 0 then w.emit("jump_none", k(frame.slot), frame.done) end
  w.emit("jump", top)
  end_frame(frame)
  go_on(before)
end

local function block(node)
  local before, frame = drops[now.cur], begin_masked(node, now.cur)
  if node == typed.body[#typed.body] then base = frame.slot end
  write_list(node.body)
  if node == typed.body[#typed.body] then base = 0 end
  end_frame(frame)
  go_on(before)
end

-- The variable of a loop takes its value from `at`, which counts.
local function loop_variable(node, at)
  local n = node.var
  return function()
    slot_of[n] = now.cur
    if flow.sets[n] == 1 and not flow.loose[n] and (at.r or not flow.vary[n]) then
      now.vars[n] = { type = "i", r = at.r, s = at.s, borrowed = true }
      return
    end
    if not flow.loose[n] then declare(n) end
    local var = now.vars[n]
    if var.s then
      w.emit("copy_i", var.s, at.s)
    elseif flow.loose[n] then
      w.put({ type = "i", r = at.r, s = at.s }, var.r)
    else
      w.move({ type = "i", r = at.r, s = at.s }, var.r)
    end
  end
end

local function held(v)
  if v.line then return w.spread(v) end
  if v.s then return { type = "i", s = kept(v.s) } end
  if v.temp then return v end
  local r = w.take("i")
  w.emit("copy_i", r, v.r)
  return { type = "i", r = r, temp = true }
end

local function new_number() return { type = "i", s = w.new_number() } end

local function numbered(node)
  local outer, before, top, site = now.cur, drops[now.cur], {}, literal(node.site or 0)
  local frame = begin_frame(node, outer)
  local from, to, step = w.eval(node.from), w.eval(node.to), held(w.eval(node.step))
  if from.line then from = w.spread(from) end
  if to.line then to = w.spread(to) end
  local same = w.is_one(from) and w.is_one(step)
  local each = not (same and w.is_one(to))
  local at = same and new_number() or { type = "i", r = w.take("i"), temp = true }
  local left = each and { type = "i", r = w.take("i"), temp = true } or new_number()
  if flow.parts[node.id] then
    frame.slot = open_mask(frame.done, node)
    frame.inner = frame.slot
  end
  if each then
    w.emit("each_begin", k(frame.slot), k(outer), at.r or at.s, left.r, from.r or from.s, to.r or to.s, step.r or step.s, site, frame.done)
    narrows[frame.slot] = true
  else
    if frame.slot ~= outer then w.emit("mask_copy", k(frame.slot), k(outer)) end
    w.emit("for_begin", at.s, left.s, from.s, to.s, step.s, site, frame.done)
  end
  w.give(from)
  w.give(to)
  frame.set = loop_variable(node, at)
  w.mark(top)
  times(node, frame)
  dropped_at(node.body, 0)
  if frame.slot ~= outer and drops[frame.slot] > 0 then w.emit("jump_none", k(frame.slot), frame.done) end
  if each then
    w.emit("each_next", k(frame.slot), at.r or at.s, left.r, step.r or step.s, frame.done)
    w.emit("jump", top)
  else
    w.emit("for_next", at.s, left.s, step.s, top)
  end
  end_frame(frame)
  w.give(at)
  w.give(left)
  w.give(step)
  go_on(before)
end

-- ---- statements ----

local function block_sum(node)
  local v = number_value(value_for(node.value), typed.vars[node.var].type)
  if flow.declares[node] and not flow.loose[node.var] then declare(node.var) end
  w.emit("sum", now.vars[node.var].r, v.r or v.s, k(now.cur), node.site or 0, node.op == "warp_sum" and 1 or 0, base)
  w.give(v)
end

local statements = {
  let = let,
  store = function(node) store(node, w.tests()) end,
  result = result,
  ["if"] = function(node)
    local off = node.cond.op == "not"
    local cond = w.eval(off and node.cond.a or node.cond)
    if off and not w.is_one(cond) and leaves_at_once(node, cond, true) then return end
    if off then cond = w.lane("not_m", "b", nil, cond) end
    if w.is_one(cond) then return branch(node, cond) end
    if not leaves_at_once(node, cond) then divided(node, cond) end
  end,
  block = block,
  loop = loop,
  ["for"] = numbered,
  leave = function(node) leave(node.id, "leave") end,
  next = function(node) leave(node.id, "next") end,
  atomic = atomic,
  barrier = function(node) w.emit("barrier", k(now.cur), node.site or 0, base) end,
  block_sum = block_sum,
  warp_sum = block_sum,
}

write_list = function(list)
  for n = 1, #list do
    now.line = list[n].line or now.line
    statements[list[n].op](list[n])
    dropped_at(list, n)
  end
end

-- ---- the text ----

-- Which variables' registers are free again after each statement: {list -> {place -> variables}}.
local function find_ends()
  local by = {}
  for n, list in next, flow.home do
    if not flow.loose[n] then
      by[list] = by[list] or {}
      local at = flow.last[n]
      by[list][at] = by[list][at] or {}
      local all = by[list][at]
      all[#all + 1] = n
    end
  end
  return function(list, at)
    local all = by[list] and by[list][at]
    for n = 1, all and #all or 0 do
      local var = now.vars[all[n]]
      if var and var.r and not var.borrowed then w.give_register(var.r) end
      now.vars[all[n]] = nil
    end
  end
end

local function write_part(out, name, list, before)
  out[#out + 1] = name
  for n = 1, #list do
    local inst, words = list[n], {}
    for m = 1, #inst do
      local word = inst[m]
      if type(word) == "table" then word = "L" .. literal(word.at - 1 + before) end
      words[m] = type(word) == "number" and literal(word) or word
    end
    out[#out + 1] = join(words, " ")
  end
end

local function write_code(out, mode)
  flow = uniform.begin(typed, mode)
  w = lanes.begin(typed, flow, mode, opts)
  now = w.now
  frames, ends, drops, mutable, slot_of, base, begun, narrows = {}, { [0] = {} }, { [0] = 0 }, {}, {}, 0, {}, {}
  dropped_at = find_ends()
  for n in next, flow.loose do
    local type = typed.vars[n].type
    now.vars[n] = { type = type, r = w.new(w.registers[type]) }
    w.parts.block[#w.parts.block + 1] = { "fill_" .. w.registers[type], now.vars[n].r, w.zero(type).s }
  end
  write_list(typed.body)
  w.mark(ends[0])
  w.emit("end")
  local c, p = w.count, w.parts
  if now.long then out[#out + 1] = "long " .. literal(now.long) end -- which no interpreter takes
  out[#out + 1] = join({ "code", mode, literal(c.s), literal(c.w), literal(c.r), literal(c.m), literal(now.masks) }, " ")
  for n = 1, #w.accesses do out[#out + 1] = w.accesses[n] end
  p.launch[#p.launch + 1], p.row[#p.row + 1] = { "end" }, { "end" }
  write_part(out, "launch", p.launch, 0)
  write_part(out, "row", p.row, 0)
  write_part(out, "block_part", p.block, 0)
  write_part(out, nil, p.body, #p.launch + #p.row + #p.block)
end

local function write_tables(out)
  for n = 1, #typed.shared do
    local a = typed.shared[n]
    local words = { "shared", a.dtype, literal(#a.sizes) }
    for d = 1, #a.sizes do words[#words + 1] = literal(a.sizes[d]) end
    out[#out + 1] = join(words, " ")
  end
  for n = 1, #typed.constants do
    local c = typed.constants[n]
    local words = { "table", c.dtype, literal(#c.sizes) }
    for d = 1, #c.sizes do words[#words + 1] = literal(c.sizes[d]) end
    for i = 1, #c.values do words[#words + 1] = c.dtype == "float64" and w.real_text(c.values[i]) or w.whole_text(c.values[i]) end
    out[#out + 1] = join(words, " ")
  end
end

-- M.write(typed, opts): the code; opts as of cxx.write.
function M.write(of, of_opts)
  local ndim = of.ndim
  typed, opts = of, { check = of_opts.check, block = of_opts.block or (ndim == 1 and { 256 } or ndim == 2 and { 1, 256 } or { 1, 1, 256 }) }
  local first, slots = kernel.slots(typed)
  local out, codes = {
    typed.float, "ndim " .. literal(ndim), "slots " .. literal(slots), "sites " .. literal(#typed.sites),
    "mail " .. literal(kernel.mail_index) .. " " .. literal(kernel.mail_zero), "run " .. literal(cxx.run(typed)),
  }, {}
  if typed.barriers then
    local words = { "threads" }
    for d = 1, ndim do words[d + 1] = literal(opts.block[d]) end
    out[#out + 1] = join(words, " ")
    write_code(codes, "threads")
  else
    write_code(codes, "rows")
    if ndim > 1 then write_code(codes, "flat") end
  end
  for n = 1, #typed.operands do
    local x = typed.operands[n]
    if x.kind == "tensor" then out[#out + 1] = join({ "tensor", literal(first[n]), literal(x.ndim), x.dtype }, " ") end
  end
  write_tables(out)
  -- nothing of a script's is kept alive
  lanes.finish()
  typed, flow, opts, w, now = nil, nil, nil, nil, nil
  frames, ends, drops, mutable, slot_of, dropped_at, begun, narrows = nil, nil, nil, nil, nil, nil, nil, nil
  return join(out, "\n") .. "\n" .. join(codes, "\n") .. "\n"
end
