-- The last step of a kernel's typed tree: what was written on the way and is of no use goes.
--
-- Lists within lists become one; a block that nothing leaves becomes its statements; a jump to where the path goes anyway
-- goes, and so do variables that nothing reads. What is left is numbered anew, and an integer variable is of 32 bits where
-- all that is put into it is.
--
-- Invariant: what may report an error stays, also where its value is of no use.

local M = ...
local build, loop_stops = use "kernel/build", use "kernel/stops"

-- ---- lists ----

local function flat_list(list, out)
  for k = 1, #list do
    local s = list[k]
    if s.op == "seq" then
      flat_list(s.list, out)
    else
      build.map_lists(s, function(inner) return flat_list(inner, {}) end)
      out[#out + 1] = s
    end
  end
  return out
end

-- Jumps out of that block at the end of it.
local function trim(list, id)
  local last = list[#list]
  if not last then return end
  if last.op == "leave" and last.id == id then
    list[#list] = nil
    trim(list, id)
  elseif last.op == "if" then
    trim(last.yes, id)
    trim(last.no, id)
  elseif last.op == "block" then
    trim(last.body, id)
  end
end

-- Blocks that are left only at their end.
local function open_blocks(list)
  local out = {}
  for k = 1, #list do
    local s = list[k]
    if s.op == "block" then trim(s.body, s.id) end
    build.map_lists(s, open_blocks)
    if s.op == "block" and not build.any(s.body, function(n) return n.op == "leave" and n.id == s.id end) then
      for i = 1, #s.body do out[#out + 1] = s.body[i] end
    else
      out[#out + 1] = s
    end
  end
  return out
end

-- ---- what nothing reads ----

local may_report = build.may_report

local function count_reads(body)
  local reads, own = {}, nil -- own: what a variable gets of itself is no read of it
  local function look(e)
    if e.op == "var" and e.n ~= own then reads[e.n] = (reads[e.n] or 0) + 1 end
    build.children(e, look)
  end
  build.each(body, function(s)
    own = s.op == "let" and s.var or nil
    build.expressions(s, look)
  end)
  return reads
end

local changed

local function is_idle(s, reads)
  if s.op == "let" then return not reads[s.var] and not may_report(s.value) or s.value.op == "var" and s.value.n == s.var end
  if s.op == "if" then return #s.yes == 0 and #s.no == 0 and not may_report(s.cond) end
  if s.op == "block" then return #s.body == 0 end
  if s.op == "for" then return #s.body == 0 and s.step.op == "const" and not (may_report(s.from) or may_report(s.to)) end
end

local function drop_idle(list, reads)
  local out = {}
  for k = 1, #list do
    local s = list[k]
    build.map_lists(s, function(inner) return drop_idle(inner, reads) end)
    if s.op == "if" and #s.yes == 0 and #s.no > 0 then s.cond, s.yes, s.no = build.logical_not(s.cond), s.no, s.yes end
    if s.op == "atomic" and s.var and not reads[s.var] then s.var = nil end
    if is_idle(s, reads) then
      changed = true
    else
      out[#out + 1] = s
    end
  end
  return out
end

-- ---- numbers ----

local function note(range, n, lo, hi)
  local r = range[n]
  if not r then
    r = { lo = lo, hi = hi, less = 0.0, more = 0.0 }
    range[n] = r
  end
  if lo < r.lo then r.lo = lo end
  if hi > r.hi then r.hi = hi end
  return r
end

-- times: how often the list is done at most. A variable that only grows by so much each time has a range, too.
local function find_ranges(c, list, range, times)
  for k = 1, #list do
    local s = list[k]
    if s.op == "for" then
      note(range, s.var, s.lo, s.hi)
    elseif s.var and c.vars[s.var].type == "i" then
      local e = s.value
      if s.op == "let" and e.op == "add" and e.a.op == "var" and e.a.n == s.var then
        local r = note(range, s.var, 1 / 0, -1 / 0)
        r.less, r.more = r.less + (e.b.lo < 0 and e.b.lo * times or 0), r.more + (e.b.hi > 0 and e.b.hi * times or 0)
      elseif s.op == "let" then
        note(range, s.var, e.lo, e.hi)
      else
        note(range, s.var, -1 / 0, 1 / 0)
      end
    end
    local inner = (s.op == "for" or s.op == "loop") and times * (loop_stops.rounds(s) or 1 / 0) or times
    build.lists(s, function(within) find_ranges(c, within, range, inner) end)
  end
end

local function number_all(c, body)
  local range, vars, renamed, sites, site_numbers, seen = {}, {}, {}, {}, {}, {}
  find_ranges(c, body, range, 1.0)
  local function rename(n)
    if not renamed[n] then
      local r = range[n]
      vars[#vars + 1] = { type = c.vars[n].type, narrow = r ~= nil and r.lo <= r.hi and r.lo + r.less >= -2147483648.0 and r.hi + r.more <= 2147483647.0 }
      renamed[n] = #vars
    end
    return renamed[n]
  end
  local function site(of)
    if not of.site then return end
    local place = c.sites[of.site]
    local key = place.name .. ":" .. place.line -- a report names the line: one site does for all of it
    if not site_numbers[key] then
      sites[#sites + 1] = place
      site_numbers[key] = #sites
    end
    of.site = site_numbers[key]
  end
  local function look(e)
    if seen[e] then return end
    seen[e] = true
    site(e)
    if e.op == "var" then
      e.n = rename(e.n)
      if vars[e.n].narrow then e.narrow = true end
    end
    build.children(e, look)
  end
  build.each(body, function(s)
    site(s)
    if s.var then s.var = rename(s.var) end
    build.expressions(s, look)
  end)
  return vars, sites
end

-- M.tree(c) -> the typed tree of a compilation (types.lua), with its statements, variables and sites.
function M.tree(c)
  local body = open_blocks(flat_list(c.out, {}))
  repeat
    changed = false
    body = drop_idle(body, count_reads(body))
  until not changed
  c.typed.body, c.typed.vars, c.typed.sites = body, number_all(c, body)
  return c.typed
end
