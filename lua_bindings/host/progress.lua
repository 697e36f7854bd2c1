-- tide.progress: a loop that shows how far it is.
--
-- On a terminal one line is drawn again and again; in a log whole lines are written now and then. A notebook is drawn to
-- as a terminal that knows no escape sequences. Of loops inside of each other the outermost one is shown.

local M = ...
local floor, clock, where, draw = use("host/note.c", "floor", "clock", "where", "draw")
local note = public("tide", "note")
local is_initialized, get_rank = public("tide.distributed", "is_initialized"), public("tide.distributed", "get_rank")
local blocks = { "▏", "▎", "▍", "▌", "▋", "▊", "▉" }
local shown = setmeta({}, { __mode = "v" }) -- [1]: the loop that is being shown

-- ---- the text ----

local function two(n) return n < 10 and "0" .. n or text(n) end

local function duration(seconds)
  if seconds < 1 then return fixed(1000 * seconds, seconds < 0.01 and 2 or 0) .. " ms" end
  if seconds < 60 then return fixed(seconds, seconds < 10 and seconds % 1 ~= 0 and 1 or 0) .. " s" end
  local s = floor(seconds)
  local minutes, hours = s // 60 % 60, s // 3600
  if hours == 0 then return minutes .. ":" .. two(s % 60) end
  return hours .. ":" .. two(minutes) .. ":" .. two(s % 60)
end

-- Of what is left, whole seconds.
local function left(seconds) return duration(seconds < 60 and floor(seconds) + 1 or seconds) end

local function rate(n, seconds)
  local r = n / seconds
  if r < 1 then return duration(seconds / n) .. " each" end
  return fixed(r, r < 100 and 1 or 0) .. "/s"
end

local function bar(fraction, width)
  local eighths = floor(fraction * width * 8)
  local line = {}
  for i = 1, eighths // 8 do line[i] = "█" end
  line[#line + 1] = blocks[eighths % 8]
  for i = #line + 1, width do line[i] = " " end
  return join(line)
end

local function line(p, seconds, width)
  local out = p.label ~= "" and p.label .. " " or ""
  if p.total and p.total > 0 then
    local fraction = p.n < p.total and p.n / p.total or 1
    out = out .. pad(floor(100 * fraction), 3) .. "% "
    local rest = " " .. p.n .. "/" .. p.total
    if p.n > 0 and seconds > 0 then
      rest = rest .. " " .. rate(p.n, seconds)
      if p.n < p.total then rest = rest .. " " .. left(seconds / p.n * (p.total - p.n)) .. " left" end
    end
    local room = width - #out - 40
    return out .. (room >= 5 and "▕" .. bar(fraction, room < 40 and room or 40) .. "▏" or "") .. rest
  end
  return out .. p.n .. (p.n > 0 and seconds > 0 and " " .. rate(p.n, seconds) or "")
end

local function last_line(p, seconds)
  local out = p.label ~= "" and p.label .. " " or ""
  out = out .. p.n .. (p.total and p.n ~= p.total and " of " .. p.total or "") .. " in " .. duration(seconds)
  return p.n > 0 and seconds > 0 and out .. ", " .. rate(p.n, seconds) or out
end

-- ---- when ----

-- Draws the line over the one before; `more` ends it.
local function draw_line(p, drawn, more)
  draw((p.is_notebook and "\r" .. pad(drawn .. "      ", -80) or "\r\27[K" .. drawn) .. more)
end

local function show(p, now)
  p.due = now + (p.is_terminal and 0.1 or p.every)
  if shown[1] ~= p then return end
  if p.is_terminal then
    local _, width = where()
    draw_line(p, line(p, now - p.began, width), "\r")
  else
    note(line(p, now - p.began, 0))
  end
end

local function finish(p)
  if p.is_over then return end
  p.is_over = true
  if shown[1] ~= p then return end
  shown[1] = nil
  local sum = last_line(p, clock() - p.began)
  if p.is_terminal then draw_line(p, sum, "\n") else note(sum) end
end

local function count_step(p, first, ...)
  if first == nil then return finish(p) end
  local now = clock()
  if now >= p.due then show(p, now) end
  p.n = p.n + 1
  return first, ...
end

-- ---- what it iterates over ----

local expected = "a number of steps, a list, a tensor, a loader or an iterator"

-- The next step, and how many there are, if that is known. What a loop calls is a function or an object.
local function steps_of(of)
  local i, kind, meta = 0, type(of), getmeta(of)
  if kind == "function" then return of end
  if kind == "number" and of >= 0 and of % 1 == 0 and of < 2 ^ 53 then
    return function()
      i = i + 1
      if i <= of then return i end
    end, floor(of)
  end
  local is_object = kind == "table" or kind == "userdata"
  if is_object and meta and rawget(meta, "__call") then return of, rawget(meta, "__len") and #of or nil end
  if kind ~= "table" and not (is_object and device_of(of)) then refuse(of, "of", expected) end
  local n = #of
  return function()
    i = i + 1
    if i <= n then return i, of[i] end
  end, n
end

-- Is it shown, and as what?
local function is_shown(wanted)
  if wanted == false or (is_initialized() and get_rank() > 0) then return false end
  local place = where()
  local is_notebook = place == "notebook"
  return wanted or place ~= "pipe", is_notebook or place == "terminal", is_notebook
end

function M.progress(of, label, total, wanted, every)
  if not (every >= 0) then refuse(every, "every", "seconds, at least 0") end
  local step, n = steps_of(of)
  local visible, is_terminal, is_notebook = is_shown(wanted)
  if not visible then return step end
  local now = clock()
  local p = { label = label or "", total = total or n, n = 0, began = now, due = now + (is_terminal and 0.1 or every),
    every = every, is_terminal = is_terminal, is_notebook = is_notebook }
  shown[1] = shown[1] or p
  local over = setmeta({}, { __close = function() finish(p) end })
  return function(_, last) return count_step(p, step(_, last)) end, nil, nil, over
end
