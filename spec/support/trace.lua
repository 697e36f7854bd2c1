-- Reads a trace file and holds it against the trace-event format, strictly: what Perfetto would drop or draw wrongly is an
-- error here.
local json = require "spec.support.json"
local M = {}

local function fail(e, what)
  local parts = {}
  for k, v in pairs(e) do parts[#parts + 1] = tostring(k) .. "=" .. tostring(v) end
  table.sort(parts)
  error(what .. ": " .. table.concat(parts, " "), 0)
end

local function number(e, key)
  if type(e[key]) ~= "number" or e[key] < 0 or e[key] ~= e[key] then fail(e, key .. " is no time") end
end

local needs = {
  M = function(e) if type(e.args) ~= "table" then fail(e, "metadata without arguments") end end,
  X = function(e) number(e, "ts") number(e, "dur") end,
  i = function(e) number(e, "ts") if e.s ~= "t" then fail(e, "an instant without a scope") end end,
  C = function(e) number(e, "ts") for _, v in pairs(e.args) do assert(type(v) == "number") end end,
  b = function(e) number(e, "ts") assert(e.id and e.cat) end,
  e = function(e) number(e, "ts") assert(e.id and e.cat) end,
  s = function(e) number(e, "ts") assert(e.id and e.cat) end,
  f = function(e) number(e, "ts") assert(e.id and e.bp == "e") end,
}

-- Slices of one thread follow each other or lie within each other: anything else is drawn wrongly.
local function check_nesting(slices)
  table.sort(slices, function(a, b) return a.ts < b.ts or (a.ts == b.ts and a.dur > b.dur) end)
  local open = {}
  for _, e in ipairs(slices) do
    while #open > 0 and open[#open] <= e.ts + 0.0005 do open[#open] = nil end
    local stop = e.ts + e.dur
    if #open > 0 and stop > open[#open] + 0.0005 then fail(e, "a slice that ends after the one around it") end
    open[#open + 1] = stop
  end
end

-- What begins by id ends by it; arrows go from a slice to a slice.
local function check_pairs(events, from, to)
  local begun = {}
  for _, e in ipairs(events) do
    if e.ph == from then begun[e.id] = e end
  end
  for _, e in ipairs(events) do
    if e.ph == to then
      if not begun[e.id] then fail(e, "an end without a beginning") end
      begun[e.id] = nil
    end
  end
  if next(begun) then error("a beginning without an end: " .. tostring(next(begun)), 0) end
end

local function check(events)
  local threads, slices = {}, {}
  for _, e in ipairs(events) do
    if type(e.name) ~= "string" or math.type(e.pid) ~= "integer" or math.type(e.tid) ~= "integer" then fail(e, "no event") end
    if not needs[e.ph] then fail(e, "an unknown phase") end
    needs[e.ph](e)
    local key = e.pid .. "." .. e.tid
    if e.ph == "M" and e.name == "thread_name" then
      if threads[key] then fail(e, "a second name of one thread") end
      threads[key] = e.args.name
    end
    if e.ph == "X" then
      slices[key] = slices[key] or {}
      table.insert(slices[key], e)
    end
  end
  for key, list in pairs(slices) do
    if not threads[key] then fail(list[1], "a thread without a name") end
    check_nesting(list)
  end
  check_pairs(events, "b", "e")
  check_pairs(events, "s", "f")
  return threads
end

-- The trace in the file: events, threads (names by "pid.tid"), and lists of slices: host (operations), device, ranges, waits.
function M.read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  assert(utf8.len(text), "the file is not UTF-8")
  local all = json.decode(text)
  local t = { events = all.traceEvents, other = all.otherData, host = {}, device = {}, ranges = {}, waits = {}, marks = {}, arrows = {} }
  t.threads = check(t.events)
  for _, e in ipairs(t.events) do
    if e.ph == "X" and e.pid >= 100 then table.insert(t.device, e)
    elseif e.ph == "X" and e.cat == "wait" then table.insert(t.waits, e)
    elseif e.ph == "X" and e.cat ~= "range" then table.insert(t.host, e)
    elseif e.ph == "X" or e.ph == "b" then table.insert(t.ranges, e)
    elseif e.ph == "i" then table.insert(t.marks, e)
    elseif e.ph == "s" or e.ph == "f" then
      t.arrows[e.id] = t.arrows[e.id] or {}
      t.arrows[e.id][e.ph] = e
    end
  end
  return t
end

-- The slices of a list whose name, or whose argument of that key, matches the pattern.
function M.find(list, pattern, key)
  local out = {}
  for _, e in ipairs(list) do
    local text = key and e.args[key] or e.name
    if text:find(pattern) then out[#out + 1] = e end
  end
  return out
end

-- Microseconds during which both run.
function M.overlap(a, b)
  return math.max(0, math.min(a.ts + a.dur, b.ts + b.dur) - math.max(a.ts, b.ts))
end

return M
