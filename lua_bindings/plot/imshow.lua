-- imshow: tensors as pictures in a terminal.
--
-- A character is one pixel wide and two high, which its foreground and background show. Large pictures are made small by
-- the means of blocks, on the tensor's own device, so that only what is shown is copied; NaN in a block makes it NaN.

local M = ...
local colors = use "plot/colors"
local numbers, terminal_colors, picture, general = use("plot/picture.c", "numbers", "terminal_colors", "picture", "general")
local nan_color = 0xff00ff
local MOST_PIXELS = 1 << 24

local function refuse_shape(x)
  reject("ShapeError", "x", describe(x), "[h, w] or a picture [h, w, 3] or [3, h, w]")
end

-- x as [h, w] or [3, h, w].
local function planes_of(x)
  local n = x:dim()
  local function is_color(d) return n == 3 and (x:size(d) == 3 or x:size(d) == 4) end
  if is_color(3) then
    x = x:permute(3, 1, 2)
  elseif n == 3 and not is_color(1) or n == 3 and x:size(3) == 1 then
    local d = x:size(3) == 1 and 3 or 1
    if x:size(d) ~= 1 then refuse_shape(x) end
    x, n = x:select(d, 1), 2
  elseif n ~= 2 and n ~= 3 then
    refuse_shape(x)
  end
  if x:numel() == 0 then refuse_shape(x) end
  return n == 3 and x:narrow(1, 1, 3) or x
end

-- Means of blocks along dim, of as many elements as make it no longer than twice `most`.
function M.pool_blocks(x, dim, most)
  local size = x:size(dim)
  local f = size // most
  if f < 2 then return x end
  local n = size // f
  return x:narrow(dim, 1, n * f):unflatten(dim, { n, f }):mean(dim + 1)
end

-- A list of lists: for each row from 1 the colors of its pixels.
local function pixels_of(planes, width, height, opts, is_byte)
  local n = planes:dim()
  local h, w = planes:size(n - 1), planes:size(n)
  local list = numbers(planes)
  local low, high = colors.finite_range(list)
  local missing, of = 0, nil
  if n == 2 then
    low, high = opts.vmin or low or 0, opts.vmax or high or 0
    of = colors.color_scale(opts.cmap, low, high, nan_color)
  else
    low, high = opts.vmin or 0, opts.vmax or is_byte and 255 or 1
  end
  local span = high ~= low and high - low or 1
  local function channel(v)
    local t = (v - low) / span
    return ((t > 1 and 1 or t > 0 and t or 0) * 255 + 0.5) // 1 | 0
  end
  local rows, plane = {}, h * w
  for y = 1, height do
    local row, from = {}, ((y - 0.5) * h / height // 1 | 0) * w
    for x = 1, width do
      local at = from + ((x - 0.5) * w / width // 1 | 0) + 1
      local v = list[at]
      if n == 2 then
        row[x] = of(v)
      else
        local g, b = list[at + plane], list[at + 2 * plane]
        row[x] = (v ~= v or g ~= g or b ~= b) and nan_color or channel(v) << 16 | channel(g) << 8 | channel(b)
      end
      if row[x] == nan_color then missing = missing + 1 end
    end
    rows[y] = row
  end
  return rows, low, high, missing
end

-- ---- ways to show a color ----

local function true_color(c) return (c >> 16) .. ";" .. (c >> 8 & 255) .. ";" .. (c & 255) end

local levels = { 0, 95, 135, 175, 215, 255 }
local function nearest_level(v) return v < 48 and 0 or v < 115 and 1 or (v - 35) // 40 end

-- The nearest of a cube of 6 * 6 * 6 colors and 24 greys.
local known = {}
local function of_256(c)
  if known[c] then return known[c] end
  local r, g, b = c >> 16, c >> 8 & 255, c & 255
  local i, j, k = nearest_level(r), nearest_level(g), nearest_level(b)
  local grey = (r + g + b) // 3
  local step = grey < 8 and 0 or grey > 238 and 23 or (grey - 3) // 10
  local function distance(x, y, z) return (x - r) ^ 2 + (y - g) ^ 2 + (z - b) ^ 2 end
  local v = 8 + 10 * step
  local is_grey = distance(v, v, v) < distance(levels[i + 1], levels[j + 1], levels[k + 1])
  known[c] = is_grey and 232 + step or 16 + 36 * i + 6 * j + k
  return known[c]
end

local function colored(rows, width, wide)
  local out, of = {}, wide and true_color or of_256
  local front, back = wide and "\27[38;2;" or "\27[38;5;", wide and "\27[48;2;" or "\27[48;5;"
  for y = 1, #rows, 2 do
    local upper, lower, was_up, was_low = rows[y], rows[y + 1], nil, nil
    for x = 1, width do
      local up, low = upper[x], lower and lower[x]
      if up ~= was_up then out[#out + 1] = front .. of(up) .. "m" end
      if low and low ~= was_low then out[#out + 1] = back .. of(low) .. "m" end
      out[#out + 1] = "\u{2580}"
      was_up, was_low = up, low
    end
    out[#out + 1] = "\27[0m\n"
  end
  return out
end

local ramp = { " ", ".", ":", "-", "=", "+", "*", "#", "%", "@" }
local function brightness(c) return 0.299 * (c >> 16) + 0.587 * (c >> 8 & 255) + 0.114 * (c & 255) end

local function plain(rows, width)
  local out = {}
  for y = 1, #rows, 2 do
    local upper, lower = rows[y], rows[y + 1] or rows[y]
    for x = 1, width do
      local up, low = upper[x], lower[x]
      local nan = up == nan_color or low == nan_color
      out[#out + 1] = nan and "?" or ramp[((brightness(up) + brightness(low)) / 510 * 9.999 // 1 | 0) + 1]
    end
    out[#out + 1] = "\n"
  end
  return out
end

-- ---- in a notebook ----

-- Small tensors are magnified by a whole number, large ones made small.
local function picture_width(w) return w > 800 and 800 or w * (w < 384 and 384 // w or 1) end

local function in_one_list(rows)
  local list = {}
  for y = 1, #rows do
    for x = 1, #rows[y] do list[#list + 1] = rows[y][x] end
  end
  return list
end

function M.imshow(x, opts)
  local columns, color = columns(), terminal_colors()
  if opts.color ~= "auto" then color = opts.color end
  local dtype = text(x.dtype)
  if find(dtype, "complex") then reject("DtypeError", "x", describe(x), "real values: x:abs()") end
  local planes = planes_of(x)
  local n = planes:dim()
  local h, w = planes:size(n - 1), planes:size(n)
  local is_notebook = has "runner/runner_notebook.c" and not opts.text and opts.color == "auto"
  local width = opts.width or is_notebook and picture_width(w) or (w < columns and w or columns)
  if width < 1 then reject("ValueError", "width", text(width), "at least 1") end
  local height = (h * width / w + 0.5) // 1 | 0
  height = height > 0 and height or 1
  if width * 1.0 * height > MOST_PIXELS then
    reject("ValueError", "width", text(width) .. " columns, which makes " .. text(height) .. " rows of pixels of "
      .. describe(x), "at most " .. MOST_PIXELS .. " pixels")
  end
  planes = M.pool_blocks(M.pool_blocks(planes:to(dtype == "tide.float64" and "float64" or "float32"), n - 1, height), n, width)
  local rows, low, high, missing = pixels_of(planes, width, height, opts, dtype == "tide.uint8")
  if is_notebook then return use("runner/runner_notebook.c").show_picture(picture(in_one_list(rows), height, width)) end
  local out = color == "none" and plain(rows, width) or colored(rows, width, color == "true")
  local note = n == 2 and general(low, 4) .. " to " .. general(high, 4) or ""
  if missing > 0 then note = note .. (note ~= "" and ", " or "") .. missing .. " of NaN" end
  if note ~= "" then out[#out + 1] = note .. "\n" end
  local said = join(out)
  if opts.text then return said end
  print_text(said)
end
