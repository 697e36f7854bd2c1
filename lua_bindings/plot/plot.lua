-- plot: curves, dots, histograms and maps of colors between axes, as a picture.
--
-- The data are read into columns, which say what the axes span; the axes give room to their numbers and words; what is
-- left is drawn on. Colors of series are those of Okabe and Ito ("Color universal design", 2008), which color-blind
-- people tell apart.

local M = ...
local canvas, colors, imshow = use "plot/canvas", use "plot/colors", use "plot/imshow"
local numbers, log10, general, picture, save_picture = use("plot/picture.c", "numbers", "log10", "general", "picture", "save_picture")
local series_colors = { 0x0072b2, 0xd55e00, 0x009e73, 0xcc79a7, 0xe69f00, 0x56b4e9, 0x000000, 0xb8a900 }
local ink, faint, missing = 0x333333, 0xe4e4e4, 0xc8c8c8
local nan = 0 / 0

local function complain(kind, message) fail(kind, called() .. ": " .. message) end

-- ---- reading ----

local function refuse_complex(v, name)
  if find(text(v.dtype), "complex") then
    complain("DtypeError", name .. ": got " .. describe(v) .. ", expected real values: x:abs()")
  end
end

local function column_of(v, name)
  if device_of(v) then
    refuse_complex(v, name)
    local list, n = numbers(v)
    if n > 1 then complain("ShapeError", name .. ": got " .. describe(v) .. ", expected one dimension") end
    return list
  end
  if type(v) ~= "table" then refuse(v, name, "a tensor, or a list of numbers or of tensors") end
  local list = {}
  for i = 1, rawlen(v) do
    local x = rawget(v, i)
    if type(x) ~= "number" then refuse(x, name .. "[" .. i .. "]", "a number") end
    list[i] = x + 0.0
  end
  return list
end

local MOST_SERIES = 1000 -- more lines than that no picture shows

-- Lists of numbers: of a tensor [n, k] its k columns, of a list of tensors or lists each of them.
local function columns_of(v, name)
  local list, series = {}, device_of(v) and v:dim() == 2 and v:size(2) or type(v) == "table" and rawlen(v) or 1
  local first = type(v) == "table" and rawget(v, 1)
  local is_list = type(first) == "table" or device_of(first)
  if series > MOST_SERIES and (is_list or device_of(v)) then
    complain("ValueError", name .. ": got " .. text(series) .. " series, expected at most " .. MOST_SERIES)
  end
  if device_of(v) then
    if v:dim() ~= 2 then return { column_of(v, name) } end
    for k = 1, v:size(2) do list[k] = column_of(v:select(2, k), name) end
    return list
  end
  if not is_list then return { column_of(v, name) } end
  for k = 1, rawlen(v) do list[k] = column_of(rawget(v, k), name .. "[" .. k .. "]") end
  return list
end

local function counted(n)
  local list = {}
  for i = 1, n do list[i] = i + 0.0 end
  return list
end

-- The series {x = list, y = list}.
local function series_of(x, y)
  local all = {}
  local xs, ys = columns_of(x, "x"), y ~= nil and columns_of(y, "y")
  if not ys then xs, ys = {}, xs end
  if #xs > 1 and #xs ~= #ys then complain("ShapeError", "x: got " .. #xs .. " series, expected 1 or those of y, " .. #ys) end
  for k = 1, #ys do
    local across = xs[k] or xs[1] or counted(#ys[k])
    if #across ~= #ys[k] then
      complain("ShapeError", "y: got " .. #ys[k] .. " values, expected as many as x has, " .. #across)
    end
    all[k] = { x = across, y = ys[k] }
  end
  return all
end

-- The largest end of a scale and the shortest scale: beyond these sums and quotients of their ends are not finite.
local LARGEST, SMALLEST = 1e300, 1e-290

local function near(v, low, high) return v < low and low or v > high and high or v end
local function differ(a, b) return (a < b and b - a or a - b) >= SMALLEST end

local function limits_of(v, name)
  if v == nil then return nil end
  local a, b = rawget(v, 1), rawget(v, 2)
  local is_pair = type(a) == "number" and type(b) == "number" and near(a, -LARGEST, LARGEST) == a and near(b, -LARGEST, LARGEST) == b
  if not is_pair or not differ(a, b) then
    complain("ValueError", name .. ": got {" .. text(a) .. ", " .. text(b) .. "}, expected {first, last}: two numbers that differ")
  end
  return a + 0.0, b + 0.0
end

-- ---- scales ----

-- The least and the greatest number of the key's lists; of positive ones alone where the axis is logarithmic.
local function range_of(all, key, is_log)
  local low, high
  for k = 1, #all do
    local list = all[k][key]
    for i = 1, #list do
      local v = list[i]
      if v - v == 0 and (v > 0 or not is_log) then
        if not low or v < low then low = v end
        if not high or v > high then high = v end
      end
    end
  end
  return low, high
end

-- A scale from low to high, with some room on either side where the data give them.
local function new_scale(low, high, is_log, given_low, given_high, room)
  local least = 1 / LARGEST
  if is_log and given_low and (given_low < least or given_high < least) then
    complain("ValueError", "log: got limits {" .. text(given_low) .. ", " .. text(given_high) .. "}, expected them above 0, from "
      .. text(least) .. " on")
  end
  local s = { log = is_log }
  local function inside(v) return is_log and log10(near(v, least, LARGEST)) or near(v, -LARGEST, LARGEST) end
  if given_low then
    s.low, s.high = inside(given_low), inside(given_high)
  else
    s.low, s.high = inside(low or is_log and 1 or 0.0), inside(high or 1.0)
    if not differ(s.low, s.high) then
      local by = is_log and 0.5 or s.low ~= 0 and 0.1 * (s.low < 0 and -s.low or s.low) or 0.5
      if by < SMALLEST then by = SMALLEST end
      s.low, s.high = s.low - by, s.high + by
    end
    local by = (s.high - s.low) * (room or 0.04)
    s.low, s.high = s.low - by, s.high + by
  end
  return s
end

local function place(s, v)
  if s.log then v = v > 0 and log10(v) or nan end
  return s.first + (v - s.low) / (s.high - s.low) * (s.last - s.first)
end

-- ---- ticks ----

local function power(e) return e >= 0 and 10.0 ^ e or 1 / 10.0 ^ -e end

local function step_for(span, most)
  local base = power(log10(span / most) // 1)
  for _, m in next, { 1, 2, 5 } do
    if span / (m * base) <= most then return m * base end
  end
  return 10 * base
end

local function magnitude(v) return v ~= 0 and log10(v < 0 and -v or v) // 1 or 0 end

-- Numbers at even steps, with as many digits as tell them apart. Large and small ones lose a power of ten, and those that
-- differ in their last digits alone what is common to them, which `note` tells.
local function linear_ticks(s, most)
  local low, high, common = s.low, s.high, 0
  if low > high then low, high = high, low end
  local step = step_for(high - low, most)
  if magnitude(-low > high and low or high) - magnitude(step) > 5 then
    common = ((low + high) / 2 / (100 * step) + 0.5) // 1 * (100 * step)
    low, high = low - common, high - common
  end
  local e = magnitude(-low > high and low or high)
  e = (e >= 5 or e <= -4) and e or 0
  local decimals = e - magnitude(step * 1.000001)
  decimals = decimals > 0 and decimals < 16 and decimals // 1 | 0 or 0
  local note = (e ~= 0 and "1e" .. (e // 1 | 0) or "") .. (common > 0 and " +" or "") .. (common ~= 0 and general(common, 15) or "")
  local list = { note = note ~= "" and note or nil }
  for i = (low / step - 1e-9) // 1 + 1, high / step + 1e-9 do
    list[#list + 1] = { at = i * step + common, text = i == 0 and "0" or fixed(i * step / power(e), decimals) }
    if #list > 50 then break end
  end
  return list
end

-- Powers of ten; of less than three of them 2 and 5 times as well.
local function log_ticks(s, most)
  local low, high = s.low, s.high
  if low > high then low, high = high, low end
  local list, every = {}, 1 + (high - low) // most
  for e = low // 1, high // 1 do
    for _, m in next, high - low < 3 and { 1, 2, 5 } or { 1 } do
      local at = e + log10(m)
      if at >= low - 1e-9 and at <= high + 1e-9 and (m > 1 or e % every == 0) then
        local v = m * power(e)
        list[#list + 1] = { at = v, text = (e > 5 or e < -3) and m .. "e" .. (e // 1 | 0) or general(v, 6) }
      end
    end
  end
  return #list > 1 and list or nil
end

local function ticks_of(s, most)
  local list = s.log and log_ticks(s, most)
  if list then return list end
  if not s.log then return linear_ticks(s, most) end
  return linear_ticks({ low = 10.0 ^ s.low, high = 10.0 ^ s.high }, most) -- too narrow for powers of ten
end

local function widest(ticks)
  local most = 0
  for i = 1, #ticks do
    local w = canvas.text_width(ticks[i].text)
    if w > most then most = w end
  end
  return most
end

-- ---- drawing ----

local function draw_axes(c, area, xs, ys, x_ticks, y_ticks, opts, with_grid)
  local left, top, right, bottom = area[1], area[2], area[3], area[4]
  for i = 1, #x_ticks do
    local t = x_ticks[i]
    local u = place(xs, t.at) // 1 | 0
    if with_grid then canvas.fill_rect(c, u, top, u, bottom, faint) end
    canvas.fill_rect(c, u, bottom + 1, u, bottom + 5, ink)
    canvas.draw_text(c, u, bottom + 10, t.text, ink, 0.5)
  end
  for i = 1, #y_ticks do
    local t = y_ticks[i]
    local v = place(ys, t.at) // 1 | 0
    if with_grid then canvas.fill_rect(c, left, v, right, v, faint) end
    canvas.fill_rect(c, left - 5, v, left - 1, v, ink)
    canvas.draw_text(c, left - 9, v - canvas.text_height // 2, t.text, ink, 1)
  end
  if x_ticks.note then canvas.draw_text(c, right, bottom + 12 + canvas.text_height + 4, x_ticks.note, ink, 1) end
  if y_ticks.note then canvas.draw_text(c, left - 4, top - canvas.text_height - 8, y_ticks.note, ink, 0) end
  local middle = (left + right) / 2
  if opts.title then canvas.draw_text(c, middle, 14, opts.title, 0, 0.5) end
  if opts.xlabel then canvas.draw_text(c, middle, c.height - 12 - canvas.text_height, opts.xlabel, ink, 0.5) end
  if opts.ylabel then canvas.draw_text(c, 10, (top + bottom) / 2, opts.ylabel, ink, 0.5, true) end
end

local function draw_frame(c, area)
  local left, top, right, bottom = area[1] - 1, area[2] - 1, area[3] + 1, area[4] + 1
  canvas.fill_rect(c, left, top, right, top, ink)
  canvas.fill_rect(c, left, bottom, right, bottom, ink)
  canvas.fill_rect(c, left, top, left, bottom, ink)
  canvas.fill_rect(c, right, top, right, bottom, ink)
end

-- Points that fall into one column of pixels, next to each other, are the first, the lowest, the highest and the last.
local function thinned(xs, ys)
  local us, vs, i, n = {}, {}, 1, #xs
  local function add(x, y) us[#us + 1], vs[#vs + 1] = x, y end
  while i <= n do
    local column, last = xs[i] // 1, i
    while last < n and xs[last + 1] // 1 == column and ys[last + 1] == ys[last + 1] do last = last + 1 end
    if last - i < 4 then
      for k = i, last do add(xs[k], ys[k]) end
    else
      local low, high = i, i
      for k = i, last do
        if ys[k] < ys[low] then low = k end
        if ys[k] > ys[high] then high = k end
      end
      if low > high then low, high = high, low end
      add(xs[i], ys[i])
      add(xs[low], ys[low])
      add(xs[high], ys[high])
      add(xs[last], ys[last])
    end
    i = last + 1
  end
  return us, vs
end

-- Where the points of a series lie on the canvas. What is too far away to be seen comes nearer, so that sums stay exact.
local function placed(series, xs, ys, area)
  local us, vs = {}, {}
  for i = 1, #series.x do
    us[i] = near(place(xs, series.x[i]), area[1] - 1e6, area[3] + 1e6)
    vs[i] = near(place(ys, series.y[i]), area[2] - 1e6, area[4] + 1e6)
  end
  return us, vs
end

local function draw_series(c, area, all, xs, ys, kind)
  for k = 1, #all do
    local color = series_colors[(k - 1) % #series_colors + 1]
    local us, vs = placed(all[k], xs, ys, area)
    if kind == "scatter" then
      local alpha = #us > 2000 and 0.35 or 0.8
      for i = 1, #us do
        if us[i] == us[i] and vs[i] == vs[i] then canvas.draw_dot(c, area, us[i], vs[i], #us > 2000 and 2 or 3.5, color, alpha) end
      end
    else
      us, vs = thinned(us, vs)
      canvas.draw_path(c, area, us, vs, 1.0, color)
    end
  end
end

-- The corner of the area in which the fewest points lie, or the fewest bars, which reach down.
local function emptiest(all, xs, ys, area, width, height, kind)
  local best, fewest
  for corner = 0, 3 do
    local left = corner & 1 == 1 and area[1] + 10 or area[3] - 10 - width
    local top = corner & 2 == 2 and area[4] - 10 - height or area[2] + 10
    local n = 0
    for k = 1, #all do
      local s = all[k]
      for i = 1, #s.y, 1 + #s.y // 5000 do
        local u, v = place(xs, s.x[i]), place(ys, s.y[i])
        local below = v > top - 10 or kind == "hist"
        if u > left - 10 and u < left + width + 10 and below and v < top + height + 10 then n = n + 1 end
      end
    end
    if not fewest or n < fewest then best, fewest = { left, top }, n end
  end
  return best[1], best[2]
end

local function draw_legend(c, area, all, xs, ys, labels, kind)
  local rows, width = {}, 0
  for k = 1, #all do
    local said = labels and rawget(labels, k)
    if type(said) == "number" then said = text(said) end
    if said ~= nil and type(said) ~= "string" then refuse(said, "labels[" .. k .. "]", "a string or a number") end
    if said then
      rows[#rows + 1] = { text = said, color = series_colors[(k - 1) % #series_colors + 1] }
      local w = canvas.text_width(said)
      if w > width then width = w end
    end
  end
  if #rows == 0 then return end
  local height = #rows * 22 + 10
  width = width + 56
  local left, top = emptiest(all, xs, ys, area, width, height, kind)
  left, top = left // 1 | 0, top // 1 | 0
  canvas.fill_rect(c, left, top, left + width, top + height, 0xffffff, 0.85)
  draw_frame(c, { left + 1, top + 1, left + width - 1, top + height - 1 })
  for i = 1, #rows do
    local v = top + 22 * i - 6
    if kind == "line" then
      canvas.draw_path(c, { left, top, left + width, top + height }, { left + 10, left + 36 }, { v + 0.5, v + 0.5 }, 1.0, rows[i].color)
    elseif kind == "scatter" then
      canvas.draw_dot(c, { left, top, left + width, top + height }, left + 23, v + 0.5, 4, rows[i].color, 1)
    else
      canvas.fill_rect(c, left + 14, v - 6, left + 32, v + 6, rows[i].color)
    end
    canvas.draw_text(c, left + 46, v - 6, rows[i].text, ink)
  end
end

-- ---- histograms ----

-- Series of bars: x are the edges, from the first to the last, and y how many lie between them.
local function counted_in(all, bins, low, high)
  if bins < 1 or bins > 100000 then complain("ValueError", "bins: got " .. bins .. ", expected 1 to 100000") end
  if not low then low, high = 0.0, 1.0 end
  if low > high then low, high = high, low end -- an axis that falls
  low, high = near(low, -LARGEST, LARGEST), near(high, -LARGEST, LARGEST)
  if low == high then low, high = low - 0.5, high + 0.5 end
  local bars = {}
  for k = 1, #all do
    local counts, edges, list = {}, {}, all[k].y
    for i = 1, bins do counts[i] = 0 end
    for i = 0, bins do edges[i + 1] = low + (high - low) * i / bins end
    for i = 1, #list do
      local v = list[i]
      if v >= low and v <= high then
        local at = ((v - low) / (high - low) * bins // 1 | 0) + 1
        at = at > bins and bins or at
        counts[at] = counts[at] + 1
      end
    end
    bars[k] = { x = edges, y = counts }
  end
  return bars
end

local function draw_bars(c, area, bars, xs, ys)
  local zero = place(ys, 0)
  zero = zero < area[4] and zero or area[4] + 1
  for k = 1, #bars do
    local color, b = series_colors[(k - 1) % #series_colors + 1], bars[k]
    local us, vs = {}, {}
    for i = 1, #b.y do
      local u0, u1, v = place(xs, b.x[i]), place(xs, b.x[i + 1]), place(ys, b.y[i])
      if b.y[i] > 0 then
        local first, last = (u0 < u1 and u0 or u1) // 1, (u0 < u1 and u1 or u0) // 1 - 1
        canvas.fill_rect(c, first < area[1] and area[1] or first, v < area[2] and area[2] or v // 1, last > area[3] and area[3] or last,
          (zero // 1) - 1, color, #bars > 1 and 0.45 or 0.75)
      end
      us[#us + 1], vs[#vs + 1] = u0, v
      us[#us + 1], vs[#vs + 1] = u1, v
    end
    canvas.draw_path(c, area, us, vs, 0.5, color)
  end
end

-- ---- maps of colors ----

local function draw_map(c, area, list, h, w, scale)
  for v = area[2], area[4] do
    local from = ((v - area[2] + 0.5) * h / (area[4] - area[2] + 1) // 1 | 0) * w + 1
    local at = v * c.width + 1
    for u = area[1], area[3] do
      c.px[at + u] = scale(list[from + ((u - area[1] + 0.5) * w / (area[3] - area[1] + 1) // 1 | 0)])
    end
  end
end

-- Beside the area, with its numbers.
local function draw_color_bar(c, area, scale, s, ticks)
  local left, right = area[3] + 22, area[3] + 42
  s.first, s.last = area[4] + 0.5, area[2] + 0.5
  for v = area[2], area[4] do
    local t = s.low + (area[4] - v) / (area[4] - area[2]) * (s.high - s.low)
    canvas.fill_rect(c, left, v, right, v, scale(t))
  end
  draw_frame(c, { left, area[2], right, area[4] })
  for i = 1, #ticks do
    local v = place(s, ticks[i].at) // 1 | 0
    canvas.fill_rect(c, right + 2, v, right + 6, v, ink)
    canvas.draw_text(c, right + 10, v - canvas.text_height // 2, ticks[i].text, ink)
  end
  if ticks.note then canvas.draw_text(c, left, area[2] - canvas.text_height - 8, ticks.note, ink) end
end

-- ---- the whole ----

-- The area that is left between what stands around it.
local function area_of(c, x_ticks, y_ticks, opts, beside)
  local left = 24 + widest(y_ticks) + (opts.ylabel and canvas.text_height + 14 or 0)
  local bottom = c.height - 32 - canvas.text_height - (opts.xlabel and canvas.text_height + 12 or x_ticks.note and canvas.text_height + 4 or 0)
  local top = (opts.title and 42 or 14) + (y_ticks.note and 20 or 4)
  local after = x_ticks[#x_ticks]
  local right = c.width - 20 - (beside > 0 and beside or after and canvas.text_width(after.text) // 2 or 0)
  if right - left < 20 or bottom - top < 20 then
    complain("ValueError", "width, height: got " .. c.width .. " and " .. c.height .. ", expected room for a plot within its words")
  end
  return { left, top, right, bottom }
end

local function set_places(xs, ys, area)
  xs.first, xs.last = area[1] + 0.5, area[3] + 0.5
  ys.first, ys.last = area[4] + 0.5, area[2] + 0.5
end

local function most_ticks(size, each) return size // each > 2 and size // each or 2 end

-- As many as have room beside each other.
local function across_ticks(s, width)
  for most = most_ticks(width, 70), 3, -1 do
    local ticks = ticks_of(s, most)
    if #ticks * (widest(ticks) + 18) <= width then return ticks end
  end
  return ticks_of(s, 2)
end

local function plot_map(c, x, opts)
  if not device_of(x) or x:dim() ~= 2 or x:numel() == 0 then
    refuse(x, "x", "a tensor [h, w] of at least one element for a heat map")
  end
  refuse_complex(x, "x")
  local h, w = x:size(1), x:size(2)
  local small = imshow.pool_blocks(imshow.pool_blocks(x:to(text(x.dtype) == "tide.float64" and "float64" or "float32"), 1, c.height), 2, c.width)
  local list = numbers(small)
  local low, high = colors.finite_range(list)
  low, high = opts.vmin or low or 0.0, opts.vmax or high or 1.0
  if low - low ~= 0 or high - high ~= 0 then
    complain("ValueError", "vmin, vmax: got " .. text(low) .. " and " .. text(high) .. ", expected finite numbers")
  end
  low, high = near(low, -LARGEST, LARGEST), near(high, -LARGEST, LARGEST)
  local scale = colors.color_scale(opts.cmap, low, high, missing)
  local bar = new_scale(low, high, false, differ(low, high) and low or nil, high, 0)
  local bar_ticks = ticks_of(bar, most_ticks(c.height, 50))
  local x0, x1 = limits_of(opts.xlim, "xlim")
  local y0, y1 = limits_of(opts.ylim, "ylim")
  local xs = new_scale(0, 1, false, x0 or 0.5, x1 or w + 0.5)
  local ys = new_scale(0, 1, false, y0 or h + 0.5, y1 or 0.5)
  local x_ticks, y_ticks = across_ticks(xs, c.width - 100), ticks_of(ys, most_ticks(c.height, 50))
  local area = area_of(c, x_ticks, y_ticks, opts, 54 + widest(bar_ticks))
  set_places(xs, ys, area)
  draw_map(c, area, list, small:size(1), small:size(2), scale)
  draw_axes(c, area, xs, ys, x_ticks, y_ticks, opts, false)
  draw_frame(c, area)
  draw_color_bar(c, area, scale, bar, bar_ticks)
end

local function plot_series(c, x, y, opts, kind)
  local x0, x1 = limits_of(opts.xlim, "xlim")
  local y0, y1 = limits_of(opts.ylim, "ylim")
  local all = series_of(x, y)
  local log_x, log_y = opts.log == "x" or opts.log == "xy", opts.log == "y" or opts.log == "xy"
  if kind == "hist" then
    if y ~= nil or log_x then complain("ArgumentError", "a histogram is of x alone, whose axis is linear") end
    local low, high = range_of(all, "y", false)
    all = counted_in(all, opts.bins, x0 or low, x1 or high)
  end
  local low, high = range_of(all, "x", log_x)
  local xs = new_scale(low, high, log_x, x0, x1, kind == "hist" and 0.02 or nil)
  low, high = range_of(all, "y", log_y)
  local ys = new_scale(low, high, log_y, y0, y1)
  if kind == "hist" and not y0 and not log_y then ys.low, ys.high = 0.0, high > 0 and high * 1.05 or 1.0 end
  local x_ticks, y_ticks = across_ticks(xs, c.width - 100), ticks_of(ys, most_ticks(c.height, 50))
  local area = area_of(c, x_ticks, y_ticks, opts, 0)
  set_places(xs, ys, area)
  draw_axes(c, area, xs, ys, x_ticks, y_ticks, opts, true)
  if kind == "hist" then draw_bars(c, area, all, xs, ys) else draw_series(c, area, all, xs, ys, kind) end
  draw_frame(c, area)
  draw_legend(c, area, all, xs, ys, opts.labels, kind)
end

function M.plot(x, y, opts)
  local width, height, kind = opts.width, opts.height, opts.kind
  if width > 4096 or height > 4096 then
    complain("ValueError", "width, height: got " .. width .. " and " .. height .. ", expected at most 4096")
  end
  local c = canvas.new(width, height)
  if kind == "heat" then plot_map(c, x, opts) else plot_series(c, x, y, opts, kind) end
  local image = picture(c.px, height, width)
  if opts.path then save_picture(opts.path, image) end
  if has "runner/runner_notebook.c" then use("runner/runner_notebook.c").show_picture(image) end
  return image
end
