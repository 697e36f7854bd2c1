-- A canvas: colors 0xRRGGBB in a list, row by row, on which plots are drawn. Coordinates count pixels from 0, and the
-- middle of the first one is at 0.5. Lines and dots have soft edges: what they cover of a pixel is how much of it they
-- color.

local M = ...
local bytes = use("plot/picture.c", "bytes")

function M.new(width, height)
  local px = {}
  for i = 1, width * height do px[i] = 0xffffff end
  return { px = px, width = width, height = height }
end

-- a of the color and the rest of what is there.
local function blend(px, i, color, a)
  local o = px[i]
  local r, g, b = o >> 16, o >> 8 & 255, o & 255
  r = r + ((color >> 16) - r) * a
  g = g + ((color >> 8 & 255) - g) * a
  b = b + ((color & 255) - b) * a
  px[i] = (r + 0.5) // 1 << 16 | (g + 0.5) // 1 << 8 | (b + 0.5) // 1 | 0
end

-- clip: {left, top, right, bottom}, the first and the last pixels.
local function within(low, high, first, last) return low > first and low or first, high < last and high or last end

function M.fill_rect(c, left, top, right, bottom, color, a)
  local px, x0, x1 = c.px, within(left, right, 0, c.width - 1)
  local y0, y1 = within(top, bottom, 0, c.height - 1)
  for y = y0 // 1 | 0, y1 // 1 | 0 do
    local at = y * c.width + 1
    for i = at + (x0 // 1 | 0), at + (x1 // 1 | 0) do
      if a then blend(px, i, color, a) else px[i] = color end
    end
  end
end

local function cover(covered, i, a) if a > (covered[i] or 0) then covered[i] = a < 1 and a or 1.0 end end

-- Notes how much of each pixel lies within `half` of the line.
local function cover_line(covered, stride, clip, x0, y0, x1, y1, half)
  local dx, dy = x1 - x0, y1 - y0
  local steep = dy * dy > dx * dx
  if steep then x0, y0, x1, y1, dx, dy = y0, x0, y1, x1, dy, dx end -- along u, across v
  local step_u, step_v = steep and stride or 1, steep and 1 or stride
  local u_first, u_last = clip[steep and 2 or 1], clip[steep and 4 or 3]
  local v_first, v_last = clip[steep and 1 or 2], clip[steep and 3 or 4]
  local square, slope = dx * dx + dy * dy, dx ~= 0 and dy / dx or 0
  local reach = (half + 0.5) * (1 + slope * slope) ^ 0.5 + 1
  local low, high = x0 < x1 and x0 or x1, x0 < x1 and x1 or x0
  low, high = within(low - half - 1, high + half + 1, u_first, u_last)
  if not (low <= high) then return end
  for u = low // 1 | 0, high // 1 | 0 do
    local pu = u + 0.5 - x0
    local t = dx ~= 0 and pu / dx or 0
    local v_mid = y0 + (t < 0 and 0 or t > 1 and 1 or t) * dy
    local v_low, v_high = within(v_mid - reach, v_mid + reach, v_first, v_last)
    if v_low <= v_high then
      for v = v_low // 1 | 0, v_high // 1 | 0 do
        local pv = v + 0.5 - y0
        local s = square > 0 and (pu * dx + pv * dy) / square or 0
        s = s < 0 and 0 or s > 1 and 1 or s
        local a = half + 0.5 - ((pu - s * dx) ^ 2 + (pv - s * dy) ^ 2) ^ 0.5
        if a > 0 then cover(covered, u * step_u + v * step_v + 1, a) end
      end
    end
  end
end

-- A line through points, which breaks where a coordinate is no number. What lies on itself colors once.
function M.draw_path(c, clip, xs, ys, half, color)
  local covered, px = {}, c.px
  for i = 1, #xs do
    local x, y = xs[i], ys[i]
    local x0, y0 = xs[i - 1], ys[i - 1]
    local ends = x == x and y == y
    if ends and i > 1 and x0 == x0 and y0 == y0 then
      cover_line(covered, c.width, clip, x0, y0, x, y, half)
    elseif ends then
      local next_x, next_y = xs[i + 1], ys[i + 1]
      if i == #xs or next_x ~= next_x or next_y ~= next_y then cover_line(covered, c.width, clip, x, y, x, y, 2 * half + 0.5) end -- one alone
    end
  end
  for i, a in next, covered do blend(px, i, color, a) end
end

function M.draw_dot(c, clip, x, y, radius, color, alpha)
  local x0, x1 = within(x - radius - 1, x + radius + 1, clip[1], clip[3])
  local y0, y1 = within(y - radius - 1, y + radius + 1, clip[2], clip[4])
  if not (x0 <= x1 and y0 <= y1) then return end
  for v = y0 // 1 | 0, y1 // 1 | 0 do
    for u = x0 // 1 | 0, x1 // 1 | 0 do
      local a = radius + 0.5 - ((u + 0.5 - x) ^ 2 + (v + 0.5 - y) ^ 2) ^ 0.5
      if a > 0 then blend(c.px, v * c.width + u + 1, color, (a < 1 and a or 1) * alpha) end
    end
  end
end

-- ---- text ----

-- The characters from ! to ~. Each is its rows from the top, a digit of base 32 for five pixels, the highest at the left;
-- seven of them above the line, and two below it for those that reach there.
local glyphs = [[4444404 aaa0000 aavavaa 4fke5u4 op248j3 cik8lid 4440000 2488842 8422248 04lel40 044v440 00000c480 000v000
  00000cc 01248g0 ehjlphe 4c4444e eh1248v v2421he 26aiv22 vgu11he 68guhhe v124888 ehhehhe ehhf12c 0cc0cc0 0cc0c48 248g842
  00v0v00 8421248 eh12404 eh1dlle ehhvhhh uhhuhhu ehggghe sihhhis vgguggv vgguggg ehgnhhf hhhvhhh e44444e 72222ic hikokih
  ggggggv hrllhhh hhpljhh ehhhhhe uhhuggg ehhhlid uhhukih fgge11u v444444 hhhhhhe hhhhha4 hhhllla hha4ahh hhha444 v1248gv
  e88888e 0g84210 e22222e 4ah0000 0000000v 8420000 00e1fhf ggmphhu 00egghe 11djhhf 00ehvge 698s888 00fhhhf1e ggmphhh 40c444e
  2062222ic ggikoki c44444e 00qllhh 00mphhh 00ehhhe 00uhhhugg 00fhhhf11 00mpggg 00ege1u 88s8896 00hhhjd 00hhha4 00hhlla 00ha4ah
  00hhhhf1e 00v248v 2448442 4444444 8442448 008l200]]

local font

local function read_font()
  font = {}
  local b, rows, code = bytes(glyphs), {}, 33
  for i = 1, #b + 1 do
    local v = b[i]
    if v and v > 32 then
      rows[#rows + 1] = v < 58 and v - 48 or v - 87
    elseif #rows > 0 then
      font[code], code, rows = rows, code + 1, {}
    end
  end
  font.other = { 31, 17, 17, 17, 17, 17, 31 } -- a box
end

local function is_set(rows, x, y) return x >= 0 and x < 5 and y >= 1 and y <= 9 and (rows[y] or 0) >> 4 - x & 1 == 1 end

-- The pixels {x, y, x, y, ...} of a glyph that is twice as large. A corner is rounded where the two pixels beside it agree
-- with each other and not with those across.
local large = {}
local function enlarged(code)
  local list = large[code]
  if list then return list end
  local rows = font[code] or font.other
  list = {}
  for y = 1, 9 do
    for x = 0, 4 do
      local here = is_set(rows, x, y)
      local up, down, left, right = is_set(rows, x, y - 1), is_set(rows, x, y + 1), is_set(rows, x - 1, y), is_set(rows, x + 1, y)
      for k = 0, 3 do
        local h, v, other_h, other_v = left, up, right, down
        if k & 1 == 1 then h, other_h = right, left end
        if k & 2 == 2 then v, other_v = down, up end
        local on = here
        if h == v and h ~= other_v and v ~= other_h then on = h end
        if on then list[#list + 1], list[#list + 2] = 2 * x + (k & 1), 2 * y - 2 + (k >> 1) end
      end
    end
  end
  large[code] = list
  return list
end

-- The codes of the characters of a text in UTF-8; what is not ASCII is 0.
local function codes_of(said)
  local b, list = bytes(said), {}
  for i = 1, #b do
    if b[i] < 128 then list[#list + 1] = b[i] elseif b[i] >= 192 then list[#list + 1] = 0 end
  end
  return list
end

M.text_height = 14
function M.text_width(said) return #codes_of(said) * 12 - 2 end

-- x, y: the left end of its line and the top of its capitals, or, where it is turned, the bottom of both; anchor: how much
-- of it stands before that.
function M.draw_text(c, x, y, said, color, anchor, turned)
  if not font then read_font() end
  local list, px = codes_of(said), c.px
  local before = ((anchor or 0) * M.text_width(said) + 0.5) // 1 | 0
  x, y = (x + 0.5) // 1 | 0, (y + 0.5) // 1 | 0
  for k = 1, #list do
    if list[k] ~= 32 then
      local dots, at = enlarged(list[k]), (k - 1) * 12 - before
      for i = 1, #dots, 2 do
        local u, v = x + at + dots[i], y + dots[i + 1]
        if turned then u, v = x + dots[i + 1], y - at - dots[i] end
        if u >= 0 and u < c.width and v >= 0 and v < c.height then px[v * c.width + u + 1] = color end
      end
    end
  end
end
