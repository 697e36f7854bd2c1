-- The picture of solar_system.lua: inner planets on the left, outer ones on the right, seen from above the ecliptic
-- at a slant; below, the Moon's way about the Earth and the Sun's about the barycentre, many times enlarged.
local Canvas = require "canvas"

local WIDTH, HEIGHT = 1920, 1080
local ELEVATION = math.rad(52) -- of the eye above the ecliptic
local WHITE, GREY, SUNLIGHT = { 0.8, 0.9, 1.0 }, { 0.42, 0.5, 0.66 }, { 1.0, 0.80, 0.48 }
local COLOURS = {
  Sun = SUNLIGHT, Mercury = { 0.78, 0.68, 0.58 }, Venus = { 1.0, 0.80, 0.42 }, Earth = { 0.25, 0.55, 1.0 },
  Moon = { 0.72, 0.76, 0.86 }, Mars = { 1.0, 0.32, 0.16 }, Jupiter = { 1.0, 0.62, 0.34 }, Saturn = { 0.95, 0.82, 0.45 },
  Uranus = { 0.35, 0.88, 0.92 }, Neptune = { 0.26, 0.40, 1.0 }, Pluto = { 0.85, 0.58, 0.72 },
}
local SIZES = {
  Mercury = 3, Venus = 4.2, Earth = 4.4, Mars = 3.6, Jupiter = 7, Saturn = 6.2, Uranus = 5, Neptune = 5, Pluto = 2.8,
}

-- au about a panel's centre to pixels, and how near to the eye that is: about 1, more in front, less behind.
local function project(panel, point)
  local x, y, z = point[1], point[2], point[3]
  local up = y * math.sin(ELEVATION) + z * math.cos(ELEVATION)
  local depth = y * math.cos(ELEVATION) - z * math.sin(ELEVATION)
  return panel.x + x * panel.scale, panel.y - up * panel.scale, 1 - 0.6 * depth / panel.reach
end

-- A trail: brightest where the body is now, fading towards the past.
local function draw_trail(canvas, panel, path, first, colour, width, strength)
  local points = {}
  for s = first, #path, math.max(1, (#path - first) // 2400) do
    local x, y, near = project(panel, path[s])
    local age = (#path - s) / (#path - first)
    local n = #points
    points[n + 1], points[n + 2] = x, y
    points[n + 3] = strength * near * (0.05 + 0.95 * math.exp(-2.8 * age))
  end
  canvas:curve(points, width, colour)
end

local function draw_rings(canvas, labels, panel)
  for _, au in ipairs(panel.rings) do
    local points = {}
    for i = 0, 180 do
      local x, y, near = project(panel, { au * math.cos(i * math.pi / 90), au * math.sin(i * math.pi / 90), 0 })
      table.move({ x, y, 0.022 * near }, 1, 3, #points + 1, points)
    end
    canvas:curve(points, 1.1, GREY)
    local x, y = project(panel, { 0, -au, 0 })
    labels:text(x - 12, y - 13, ("%g au"):format(au), 1, GREY, 0.25)
  end
end

-- A name on the side of its body that is away from the Sun.
local function draw_label(labels, panel, x, y, words, colour)
  local dx, dy = x - panel.x, y - panel.y
  local far = math.sqrt(dx * dx + dy * dy)
  local left = dx < 0 and Canvas.text_width(words, 1.7) or 0
  labels:text(x + 20 * dx / far - left, y + 20 * dy / far - 6, words, 1.7, colour, 0.6)
end

local function draw_panel(canvas, labels, run, panel)
  draw_rings(canvas, labels, panel)
  canvas:dot(panel.x, panel.y, panel.sun * 6, SUNLIGHT, 0.10)
  canvas:dot(panel.x, panel.y, panel.sun * 2.2, SUNLIGHT, 0.9)
  canvas:dot(panel.x, panel.y, panel.sun, { 1, 0.95, 0.85 }, 4)
  for i, body in ipairs(run.bodies) do
    if body.around == "Sun" and panel.shows(body.period) then
      local path, colour = run.path(i), COLOURS[body.name] or WHITE
      local revolution = math.ceil(body.measured / run.step)
      local first = math.max(1, #path - revolution) -- the last revolution, or all there is of the first
      draw_trail(canvas, panel, path, first, colour, 1.5, 0.9)
      draw_trail(canvas, panel, path, first, colour, 6, 0.05)
      local x, y = project(panel, path[#path])
      local size = SIZES[body.name] or 4
      canvas:dot(x, y, size * 2.4, colour, 0.5)
      canvas:dot(x, y, size, { 0.5 + 0.5 * colour[1], 0.5 + 0.5 * colour[2], 0.5 + 0.5 * colour[3] }, 3)
      draw_label(labels, panel, x, y, body.name, colour)
    end
  end
  local words = panel.title
  labels:text(panel.x - Canvas.text_width(words, 2) / 2, 118, words, 2, WHITE, 0.32)
end

-- A path on its own, seen from straight above, as large as `size` pixels.
local function draw_inset(canvas, labels, x, y, size, path, first, colour, strength, lines)
  local reach = 0
  for s = first, #path do
    reach = math.max(reach, math.sqrt(path[s][1] ^ 2 + path[s][2] ^ 2))
  end
  local points = {}
  for s = first, #path do
    local n = #points
    points[n + 1], points[n + 2] = x + size * path[s][1] / reach, y - size * path[s][2] / reach
    points[n + 3] = strength * (0.06 + 0.5 * ((s - first) / (#path - first)) ^ 3)
  end
  canvas:curve(points, 1.1, colour)
  canvas:dot(points[#points - 2], points[#points - 1], 4, colour, 2)
  canvas:dot(x, y, 3, WHITE, 0.8)
  for i, words in ipairs(lines) do
    labels:text(x + size + 26, y - 34 + 20 * i, words, 1.4, GREY, 0.6)
  end
  labels:text(x + size + 26, y + 46, ("radius %.4f au"):format(reach), 1.4, GREY, 0.4)
end

local function draw_stars(canvas)
  math.randomseed(1969)
  for _ = 1, 900 do
    local x, y, warmth = math.random() * WIDTH, math.random() * HEIGHT, math.random()
    local colour, gain = { 0.7 + 0.3 * warmth, 0.85, 1.1 - 0.3 * warmth }, 0.02 + 0.5 * math.random() ^ 5
    canvas:dot(x, y, 0.9 + 0.5 * math.random(), colour, gain)
  end
end

return function(run)
  local canvas, labels = Canvas.new(WIDTH, HEIGHT), Canvas.new(WIDTH, HEIGHT) -- letters do not glow
  draw_stars(canvas)
  draw_panel(canvas, labels, run, {
    title = "inner planets", x = 490, y = 500, scale = 420 / 1.68, reach = 1.68, sun = 9, rings = { 0.5, 1, 1.5 },
    shows = function(period) return period < 1000 end,
  })
  draw_panel(canvas, labels, run, {
    title = "outer planets", x = 1420, y = 500, scale = 420 / 34, reach = 34, sun = 5, rings = { 10, 20, 30 },
    shows = function(period) return period >= 1000 end,
  })
  local moon, sun = run.path(run.bodies.Moon), run.path(1)
  local year = math.ceil(365.25 / run.step)
  draw_inset(canvas, labels, 166, 938, 100, moon, math.max(1, #moon - year), COLOURS.Moon, 0.5,
    { "the Moon about", "the Earth, the", "last year" })
  draw_inset(canvas, labels, 1096, 938, 100, sun, 1, COLOURS.Sun, 1,
    { "the Sun about", "the barycentre of", "all, the whole run" })
  labels:text(64, 48, "the solar system", 4, WHITE, 0.55)
  labels:text(WIDTH - 64 - Canvas.text_width(run.title, 1.7), 50, run.title, 1.7, GREY, 0.7)
  labels:text(WIDTH - 64 - Canvas.text_width(run.note, 1.7), 74, run.note, 1.7, GREY, 0.5)
  return Canvas.develop(canvas, labels, { 0.0035, 0.006, 0.016 }, run.device)
end
