-- From the statements of a kernel's typed tree to their text (text.lua has the rest).
--
-- A statement that leaves or repeats a block is a goto, or a break where C's means the same. A loop by a constant is C's
-- `for`; one whose elements lie inside where its bounds do is written twice, without their tests and with them. Loops that may
-- go on for long look now and then whether somebody wants the kernel to end (stops.lua).
--
-- w is the writer of a text (text.lua).
--
-- Invariant: a label is written where something goes to it, under a name that only one copy of the body has.

local M = ...
local build, hoist, loop_stops, of, uniform = use "kernel/build", use "kernel/hoist", use "kernel/stops", use "kernel/text_expressions", use "kernel/uniform"
local write, wide, integer_text, place_text, element_text = of.write, of.wide, of.integer_text, of.place_text, of.element_text
local dtype_of, packed, tests, tested, storage, kinds = of.dtype_of, of.packed, of.tests, of.tested, of.storage, of.kinds

local function put(w, text) w.out[#w.out + 1] = text end

local write_all

-- The body of a loop that `next` begins again, and the label behind it where leaving is no break; `within`: in two of C.
local function loop_body(w, node, within)
  local before, turns = w.loop, w.meets and w.meets.loops[node]
  w.loop = not within and node.id
  if turns then
    put(w, "tk_n" .. node.id .. "++;\n")
    turns, w.turns = w.turns, "(" .. w.turns .. " * 31u + tk_n" .. node.id .. ")"
  end
  write_all(w, node.body)
  w.turns = turns or w.turns
  w.loop = before
end

-- ---- threads that wait for each other ----

-- What not all threads may come to: they meet at one place, in the same turn of the loops around it, or at the end.
local function meet(w, n)
  local at = w.meets and w.meets[n]
  if at then put(w, "if (tk_meet(s, tk_round, " .. at .. "u << 16 | (" .. w.turns .. " & 0xffffu), " .. n.site - 1 .. ")) return;\n") end
  return at
end

local function meet_at_end(w)
  if w.meets then put(w, "if (tk_meet(s, tk_round, ~0u, 0)) return;\n") end
end

-- Where threads that return are no longer waited for: the body's last block, which they leave.
local function is_last(w, n) return n.op == "block" and n == w.typed.body[#w.typed.body] end

local function write_body(w)
  local body = w.typed.body
  write_all(w, body)
  if #body == 0 or not is_last(w, body[#body]) then meet_at_end(w) end
end

-- M.meets(typed): the numbers of all barriers and sums of a block, and the loops around them, where there is one that not
-- all threads may come to; else nil.
function M.meets(typed)
  local flow, meets, count, some = uniform.begin(typed, "threads"), { loops = {} }, 0, nil
  local function look(list)
    local any = false
    for k = 1, #list do
      local n = list[k]
      local found = n.op == "barrier" or n.op == "block_sum"
      some = some or flow.apart[n]
      if found then
        count = count + 1
        meets[n] = count
      end
      build.lists(n, function(inner) found = look(inner) or found end)
      if found and (n.op == "loop" or n.op == "for") then
        meets.loops[n] = true
        meets.loops[#meets.loops + 1] = n.id
      end
      any = any or found
    end
    return any
  end
  look(typed.body)
  uniform.finish()
  return some and meets or nil
end

-- Loops in which others turn, or threads wait, take a GPU's compiler as long as all that is in them, times how often it
-- writes them out, and it would gain little; of a copy for what lies outside, all loops.
local function is_inner(list) return not build.any(list, loop_stops.takes_long) end

local function once(w, node)
  if w.host or not w.outside and (is_inner(node.body) or loop_stops.is_short(node)) then return "" end
  return "#pragma unroll 1\n"
end

-- A label of this copy of the body. Of those within a loop that is written twice, one is the first copy's.
local function name_of(w, kind, id)
  return kind .. id .. "_" .. w.copy .. (w.own and w.own[kind .. id] and "_in" or "")
end

local function label(w, node, kind)
  if w.wanted[kind .. node.id] then put(w, "  " .. name_of(w, kind, node.id) .. ":;\n") end
end

local function leave(w, kind, id)
  w.wanted[kind .. id] = true
  put(w, "goto " .. name_of(w, kind, id) .. ";\n")
end

local function stops(n, rounds) return "TIDE_STOPS(" .. (n.site or 1) - 1 .. ", " .. rounds .. ")\n" end

-- A loop by a constant, in numbers of that type. One that looks whether to end is two: the one within is as short as it can be.
local function counted(w, n, type, from, to, constant)
  local h, up, step = "h" .. n.id, constant > 0, integer_text(constant)
  local size, sign = literal(up and constant or -constant), up and " <= " or " >= "
  local two = w.stops[n] and constant < 1024 and constant > -1024
  local var = "v" .. n.var .. " = " .. (w.typed.vars[n.var].narrow and "(int)" or "") .. h .. ";\n"
  if two then
    put(w, "{ " .. type .. " " .. h .. " = " .. from .. ";\nfor (const " .. type .. " to = " .. to .. "; " .. h .. sign .. "to;) {\n"
      .. "const tide_u all = " .. (up and "(tide_u)to - (tide_u)" .. h or "(tide_u)" .. h .. " - (tide_u)to") .. ";\n"
      .. "const int some = all > TIDE_ROUNDS * " .. size .. " ? TIDE_ROUNDS * " .. size .. " : (int)all;\nif (some >= 32 * " .. size .. ") " .. stops(n, "1 + some / " .. size)
      .. once(w, n) .. "for (const " .. type .. " upto = " .. h .. (up and " + " or " - ") .. "some; " .. h .. sign .. "upto; " .. h .. " += " .. step .. ") {\n" .. var)
  else
    put(w, once(w, n) .. "for (" .. type .. " " .. h .. " = " .. from .. ", to = " .. to .. "; " .. h .. sign .. "to; " .. h .. " += " .. step .. ") {\n" .. var
      .. (w.stops[n] and stops(n, 1) or ""))
  end
  loop_body(w, n, two)
  label(w, n, "next")
  put(w, two and "}\n} }\n" or "}\n")
end

-- from, to: the texts of its bounds.
local function for_loop(w, n, constant, from, to)
  local h, step = "h" .. n.id, n.step
  local var = "v" .. n.var .. " = " .. (w.typed.vars[n.var].narrow and "(int)" or "") .. h .. ";\n"
  if n.narrow and constant and constant ~= 0 then
    counted(w, n, "int", from, to, constant)
  else
    put(w, "{ tide_i " .. h .. " = (tide_i)" .. from .. ", to = (tide_i)" .. to .. ", by = " .. wide(w, step) .. ";\n")
    if not constant then put(w, "if (by == 0) tk_report(s, " .. ((n.site or 1) - 1) .. ", 0, 1, TIDE_ZERO);\n") end
    put(w, "if (by > 0 ? " .. h .. " <= to : by < 0 && " .. h .. " >= to) {\n"
      .. "tide_u left = by > 0 ? ((tide_u)to - (tide_u)" .. h .. ") / (tide_u)by : ((tide_u)" .. h .. " - (tide_u)to) / (0 - (tide_u)by);\n"
      .. "for (unsigned some, went;; left -= went + 1ull) {\nsome = went = left < TIDE_ROUNDS ? (unsigned)left : TIDE_ROUNDS;\n"
      .. stops(n, "went + 1") .. once(w, n) .. "do {\n" .. var)
    loop_body(w, n, true)
    label(w, n, "next")
    put(w, "} while (" .. h .. " = tk_add(" .. h .. ", by), some-- != 0);\nif (left == went) break;\n}\n} }\n")
  end
end

-- A loop in which elements lie inside if its bounds do is written twice: without their tests, and with them. False: there are
-- none. The copy of a GPU's text that is there for what lies outside has tests alone.
local function hoisted(w, n, constant)
  if not w.check or w.outside or constant >= 1024 or constant <= -1024 then return false end
  local found = hoist.test(w.typed, n, function(e) return not tests(w, e) end, function(e) return write(w, e) end)
  if not found then return false end
  local from, to, up = "from" .. n.id, "to" .. n.id, constant > 0
  put(w, "{ const tide_i " .. from .. " = " .. wide(w, n.from) .. ", " .. to .. " = " .. wide(w, n.to) .. ", first = " .. (up and from or to) .. ", last = "
    .. (up and to or from) .. ";\n" .. (n.narrow and "" or "const tide_i far = " .. (w.small and "0x7ffffc00" or "0x7ffffffffffffc00ll") .. ";\n")
    .. "if ((first <= last) & " .. (n.narrow and "" or "(first > -far) & (last < far) & ") .. found.cond .. ") {\n")
  local line = w.line
  w.sure, w.own = found.inside, found.labels
  counted(w, n, "tide_x", "(tide_x)" .. from, "(tide_x)" .. to, constant)
  w.sure, w.own, w.line = {}, nil, line
  put(w, "} else {\n")
  for_loop(w, n, constant, from, to)
  put(w, "}\n}\n")
  return true
end

-- Where what is written to an element is put: there, or, where a thread reads for several places first, in what is kept for it.
local function later(w, to, kind)
  local list = w.later
  if not list then return to end
  list[#list + 1] = { to = to, kind = kind }
  return "k" .. #list .. "[round]"
end

local statements = {
  let = function(w, n) put(w, "v" .. n.var .. " = " .. write(w, n.value) .. ";\n") end,
  store = function(w, n)
    local value, kept = write(w, n.value), dtype_of(w, n)
    local to = not tests(w, n) and later(w, element_text(w, n), storage[kept])
    if not to then
      local place, ndim = place_text(w, n)
      put(w, (w.later and "if (in) " or "") .. "{ const auto x = " .. value .. "; if (auto at = " .. tested(w, "at", ndim) .. "(" .. place .. ")) tk_put(*at, x); }\n")
    elseif packed[kept] or n.value.type == "f" and not find(kept, "float") then
      put(w, "tk_put(" .. to .. ", " .. value .. ");\n")
    else
      put(w, to .. " = (" .. storage[kept] .. ")" .. value .. ";\n")
    end
  end,
  ["if"] = function(w, n)
    put(w, "if (" .. write(w, n.cond) .. ") {\n")
    write_all(w, n.yes)
    if #n.no > 0 then
      put(w, "} else {\n")
      write_all(w, n.no)
    end
    put(w, "}\n")
  end,
  block = function(w, n)
    put(w, "{\n")
    write_all(w, n.body)
    if is_last(w, n) then meet_at_end(w) end
    put(w, "}\n")
    label(w, n, "leave")
  end,
  loop = function(w, n)
    if w.meets and w.meets.loops[n] then put(w, "tk_n" .. n.id .. " = 0;\n") end
    local unroll = w.host and "" or once(w, n)
    if unroll == "" and not w.host then unroll = loop_stops.unrolls(n, w.typed) end
    put(w, "for (;;) {\n" .. unroll .. "for (int round = 0; round < TIDE_ROUNDS; round++) {\n")
    loop_body(w, n, true)
    label(w, n, "next")
    put(w, "}\nif (tk_stops(s)) return tk_stopped(s, " .. n.site - 1 .. ");\n}\n")
    label(w, n, "leave")
  end,
  ["for"] = function(w, n)
    if w.meets and w.meets.loops[n] then put(w, "tk_n" .. n.id .. " = 0;\n") end
    local step = n.step
    local constant = step.op == "const" and type(step.value) == "number" and step.value
    if not constant or constant == 0 or not hoisted(w, n, constant) then for_loop(w, n, constant, write(w, n.from), write(w, n.to)) end
    label(w, n, "leave")
  end,
  leave = function(w, n)
    if n.id == w.loop then put(w, "break;\n") else leave(w, "leave", n.id) end
  end,
  next = function(w, n) leave(w, "next", n.id) end,
  atomic = function(w, n)
    local place, ndim = place_text(w, n)
    local float = find(dtype_of(w, n), "float")
    local kind = float and "tide_r" or "tide_i"
    local value, call = "(" .. kind .. ")(" .. write(w, n.value) .. ")", n.kind
    if call == "sub" then call, value = "add", float and "-" .. value or "tk_neg(" .. value .. ")" end
    if n.expected then value = "(" .. kind .. ")(" .. write(w, n.expected) .. "), " .. value end
    local var, own = n.var and "v" .. n.var .. " = ", w.adds_at and w.adds_at[n.tensor]
    if own then value = value .. ", own" end
    put(w, "{ auto at = " .. (tests(w, n) and tested(w, "at", ndim) or "tk_in" .. ndim) .. "(" .. place .. ");\n" .. (var and var .. "0;\n" or "")
      .. "if (at) " .. (var and var .. "(" .. kind .. ")" or "") .. (own and "tk_add_own(" or "tk_atomic_" .. call .. "(") .. "at, " .. value .. "); }\n")
  end,
  barrier = function(w, n)
    if not meet(w, n) then put(w, "__syncthreads();\n") end
  end,
  block_sum = function(w, n)
    local kind = kinds[w.typed.vars[n.var].type]
    w.sums[kind] = true
    meet(w, n)
    put(w, "v" .. n.var .. " = tk_sum_" .. kind .. (n.op == "warp_sum" and "_in_warp" or "") .. "(t, " .. write(w, n.value) .. ");\n")
  end,
  result = function(w, n)
    local operands, typed = w.typed.operands, w.typed
    if w.joined then
      put(w, "q" .. n.n .. " = " .. write(w, n.value) .. ";\n")
      return
    end
    local k, offset = #operands - typed.results + n.n, {}
    for d = 1, typed.ndim do offset[d] = "(tide_x)(i" .. d .. " - 1) * " .. (w.unit and d == typed.ndim and "1" or "s" .. k .. "_" .. d) end
    put(w, "tk_put(" .. later(w, "p" .. k .. "[" .. join(offset, " + ") .. "]", storage[operands[k].dtype]) .. ", " .. write(w, n.value) .. ");\n")
  end,
}
statements.warp_sum = statements.block_sum

-- What follows is our own text again.
local function end_line(w) return w.plain and "" or "#line 1 \"tide\"\n" end

write_all = function(w, list)
  for k = 1, #list do
    local n = list[k]
    if n.line and n.line ~= w.line and not w.plain then
      w.line = n.line
      put(w, "#line " .. n.line .. "\n")
    end
    statements[n.op](w, n)
  end
end

-- Write a text; a list of statements; the body of a kernel. M.end_line(w): what text of our own begins with.
M.put, M.write_all, M.write_body, M.end_line = put, write_all, write_body, end_line
