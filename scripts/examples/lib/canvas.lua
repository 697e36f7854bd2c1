-- A canvas of light: soft dots, lines and letters are added up pixel by pixel in Lua, and tensor operations turn
-- the sum into a picture with a glow, a tone curve and 8-bit colours.
--
--   local canvas = Canvas.new(1920, 1080)
--   canvas:dot(x, y, radius, {r, g, b}, gain)          -- adds light; 1.0 is about as bright as a screen gets
--   canvas:curve({x1, y1, gain1, x2, y2, gain2, ...}, radius, {r, g, b})
--   canvas:text(x, y, "words", size, {r, g, b}, gain)
--   tide.save_png("picture.png", Canvas.develop(canvas, nil, {0, 0, 0}, device))
local tide = require "tide"

local Canvas = {}
Canvas.__index = Canvas

-- Capital letters, digits and a few signs, five dots wide and seven high: one hexadecimal pair a row.
local GLYPHS = {}
for sign, rows in ([[
A 0E11111F111111 B 1E11111E11111E C 0E11101010110E D 1E11111111111E E 1F10101E10101F F 1F10101E101010
G 0E11101711110F H 1111111F111111 I 0E04040404040E J 0702020202120C K 11121418141211 L 1010101010101F
M 111B1515111111 N 11111915131111 O 0E11111111110E P 1E11111E101010 Q 0E11111115120D R 1E11111E141211
S 0F10100E01011E T 1F040404040404 U 1111111111110E V 11111111110A04 W 11111115151B11 X 11110A040A1111
Y 11110A04040404 Z 1F01020408101F 0 0E11131519110E 1 040C040404040E 2 0E11010608101F 3 0E11010601110E
4 02060A121F0202 5 1F101E0101110E 6 0608101E11110E 7 1F010204080808 8 0E11110E11110E 9 0E11110F01020C
- 0000001F000000 . 00000000000C0C , 000000000C0408 : 000C0C000C0C00 + 0004041F040400 / 01010204081010
]]):gmatch("(%S) (%x+)") do
  GLYPHS[sign] = rows
end

function Canvas.new(width, height)
  return setmetatable({ width = width, height = height, red = {}, green = {}, blue = {} }, Canvas)
end

-- Adds a round spot that falls off smoothly to nothing at `radius` (in pixels, as everything here).
function Canvas:dot(x, y, radius, colour, gain)
  local red, green, blue = self.red, self.green, self.blue
  local r, g, b = colour[1] * gain, colour[2] * gain, colour[3] * gain
  local reach = 1 / (radius * radius)
  local left, right = math.max(0, (x - radius) // 1 | 0), math.min(self.width - 1, (x + radius) // 1 | 0)
  for row = math.max(0, (y - radius) // 1 | 0), math.min(self.height - 1, (y + radius) // 1 | 0) do
    local dy = (row - y) * (row - y)
    for column = left, right do
      local fall = 1 - ((column - x) * (column - x) + dy) * reach
      if fall > 0 then
        local pixel = row * self.width + column + 1 -- tensors count from 1
        fall = fall * fall
        red[pixel] = (red[pixel] or 0) + r * fall
        green[pixel] = (green[pixel] or 0) + g * fall
        blue[pixel] = (blue[pixel] or 0) + b * fall
      end
    end
  end
end

-- The cubic through b and c that keeps the slopes between a and c, b and d (Catmull and Rom), at t from 0 to 1.
local function between(a, b, c, d, t)
  return b + 0.5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)))
end

-- A smooth line through points given as x, y, gain in turn: dots half a pixel apart, so that its brightness does
-- not depend on how far the points are from one another.
function Canvas:curve(points, radius, colour)
  local left_over, last = 0, #points - 2
  for i = 1, last - 3, 3 do
    local before, after = math.max(1, i - 3), math.min(last, i + 6)
    local x, y, gain = points[i], points[i + 1], points[i + 2]
    local x_next, y_next, more = points[i + 3], points[i + 4], points[i + 5] - gain
    local length = math.sqrt((x_next - x) ^ 2 + (y_next - y) ^ 2)
    local along = left_over
    while along < length do
      local t = along / length
      self:dot(between(points[before], x, x_next, points[after], t),
        between(points[before + 1], y, y_next, points[after + 1], t), radius, colour, 0.45 * (gain + t * more))
      along = along + 0.5
    end
    left_over = along - length
  end
end

-- Words from (x, y), their top left corner; `size` is the distance of two dots of a letter.
function Canvas:text(x, y, words, size, colour, gain)
  for sign in words:upper():gmatch(".") do
    local rows = GLYPHS[sign] or ""
    for row = 0, #rows // 2 - 1 do
      local bits = tonumber(rows:sub(2 * row + 1, 2 * row + 2), 16)
      for column = 0, 4 do
        if bits >> (4 - column) & 1 == 1 then
          self:dot(x + column * size, y + row * size, 0.8 * size + 0.5, colour, gain)
        end
      end
    end
    x = x + 6 * size
  end
end

function Canvas.text_width(words, size)
  return (6 * #words - 1) * size
end

-- The light as a float32 tensor [height, width, 3].  Only pixels that were touched travel: their places as an
-- index tensor, their colours as rows.
function Canvas:light(device)
  local places, colours = {}, {}
  for pixel, red in pairs(self.red) do
    local n = #places
    places[n + 1] = pixel
    colours[3 * n + 1], colours[3 * n + 2], colours[3 * n + 3] = red, self.green[pixel], self.blue[pixel]
  end
  local image = tide.zeros({ self.height, self.width, 3 }, { dtype = tide.float32, device = device })
  if #places > 0 then
    local rows = tide.tensor(colours, { dtype = tide.float32, device = device }):view(#places, 3)
    image:view(-1, 3)[tide.tensor(places, { dtype = tide.int64, device = device })] = rows
  end
  return image
end

-- Softens [height, width, 3] along a dimension with weights 1 2 1 at a distance, through shifted views.
local function soften(image, dim, distance)
  local rest = image:size(dim) - distance
  local soft = image * 0.5
  soft:narrow(dim, 1, rest):add_(image:narrow(dim, 1 + distance, rest), { alpha = 0.25 })
  soft:narrow(dim, 1 + distance, rest):add_(image:narrow(dim, 1, rest), { alpha = 0.25 })
  return soft
end

-- Light to a picture.  `glowing` is spread over its surroundings, `plain` (another canvas, may be nil) is not; a
-- curve lets highlights run out gently, then comes the screen's gamma, and noise of one step so that dark gradients
-- do not show bands.  Returns uint8 [height, width, 3].
function Canvas.develop(glowing, plain, background, device)
  local image = glowing:light(device)
  local glow = image
  for level = 0, 5 do
    glow = soften(soften(glow, 1, 1 << level), 2, 1 << level)
    image = image + 0.12 * glow
  end
  if plain then
    image:add_(plain:light(device))
  end
  local across = tide.linspace(-1, 1, glowing.width, { device = device }):view(1, -1, 1)
  local down = tide.linspace(-1, 1, glowing.height, { device = device }):view(-1, 1, 1)
  local vignette = 1 - 0.4 * across:square() - 0.4 * down:square()
  image:add_(vignette * tide.tensor(background, { dtype = tide.float32, device = device }))
  local shown = (1 - (-image):exp_()):pow_(1 / 2.2)
  return shown:mul_(254):add_(tide.rand_like(shown)):clamp_({ min = 0, max = 255 }):byte()
end

return Canvas
