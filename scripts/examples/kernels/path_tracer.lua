-- ci: --width 96 --height 54 --samples 4 --device cpu --out ci-path-tracer.png
--
-- Light that is followed backwards through spheres of clay, metal and glass: one kernel, written with vectors, random
-- numbers by counter, and a camera that a quaternion turns.
--
--   tide path_tracer.lua [--width 640] [--height 360] [--samples 64] [--device cpu|cuda] [--out path_tracer.png]
local tide = require "tide"
local args = tide.cmdline("Spheres, lit by a low sun and lamps"):option("width", 640):option("height", 360)
  :option("samples", 64, "rays through each pixel"):option("bounces", 6, "how often a ray is thrown back at most")
  :option("device", tide.cuda.is_available() and "cuda" or "cpu"):option("out", "path_tracer.png", "the picture to write"):parse(arg)
local width, height, bounces = args.width, args.height, args.bounces

-- A row each: centre and radius, colour and what it is of.
local CLAY, METAL, GLASS, LAMP = 0, 1, 2, 3
local spheres = {
  { 0, -1000, 0, 1000, 0.42, 0.40, 0.38, CLAY }, { 0, 1, 0, 1, 0.98, 0.98, 0.98, GLASS },
  { -2.15, 1, -0.9, 1, 0.80, 0.28, 0.16, CLAY }, { 2.1, 1, -0.7, 1, 0.95, 0.80, 0.56, METAL },
}
for k = 1, 46 do -- along a spiral, like seeds of a sunflower
  local turn, far = k * 2.39996, 1.45 * math.sqrt(k / 4 + 1)
  local hue, radius = k * 0.61803 % 1 * 2 * math.pi, 0.2 + 0.05 * math.sin(k * 5)
  local kind = k % 7 == 0 and LAMP or k % 3 == 0 and METAL or k % 5 == 0 and GLASS or CLAY
  local function colour(shift) return 0.55 + 0.4 * math.cos(hue + shift) end
  spheres[#spheres + 1] = { far * math.cos(turn), radius, far * math.sin(turn) + 0.3, radius, colour(0), colour(2.1), colour(4.2), kind }
end
for _, big in ipairs { 2, 3, 4 } do -- what would stand in a big one goes
  for k = #spheres, 5, -1 do
    local a, b = spheres[big], spheres[k]
    if (a[1] - b[1]) ^ 2 + (a[2] - b[2]) ^ 2 + (a[3] - b[3]) ^ 2 < (a[4] + b[4]) ^ 2 then table.remove(spheres, k) end
  end
end

-- Where the ray meets a sphere first: how far away, and which; 0 where it meets none.
local function meet(from, ray, scene)
  local nearest, which = 1e9, 0
  for k = 1, #scene do
    local to = from - tide.vec3(scene[k][1], scene[k][2], scene[k][3])
    local b = to:dot(ray)
    local d = b * b - to:dot(to) + scene[k][4] * scene[k][4]
    if d > 0 then
      local root = math.sqrt(d)
      local t = -b - root
      if t < 2e-3 then t = -b + root end
      if t > 2e-3 and t < nearest then nearest, which = t, k end
    end
  end
  return nearest, which
end

local function sky(ray)
  local sun = math.max(ray:dot(tide.vec3(0.70, 0.30, -0.65):normalize()), 0.0)
  local up = math.max(ray.y, 0.0)
  local low, high = tide.vec3(1.0, 0.66, 0.42), tide.vec3(0.20, 0.34, 0.62)
  return low:mix(high, math.sqrt(up)) * 0.75 + tide.vec3(1.0, 0.8, 0.5) * (sun ^ 8 * 0.6 + sun ^ 600 * 60)
end

-- A direction anywhere on a sphere.
local function anywhere(u, v)
  local z, turn = 1 - 2 * u, 2 * math.pi * v
  local r = math.sqrt(math.max(1 - z * z, 0.0))
  return tide.vec3(r * math.cos(turn), r * math.sin(turn), z)
end

local trace = tide.kernel(function(i, j, image, scene, camera, seed)
  local rows, columns = image.shape[1], image.shape[2]
  local pixel = i * columns + j
  local x = (j - 0.5 * columns + tide.random.uniform(seed, pixel, 1) - 0.5) / rows
  local y = (0.5 * rows - i + tide.random.uniform(seed, pixel, 2) + 0.5) / rows
  local from = tide.vec3(camera[1][1], camera[1][2], camera[1][3])
  local ray = tide.quat(camera[2]):rotate(tide.vec3(x, y, -camera[1][4])):normalize()
  local light, left = tide.vec3(0), tide.vec3(1)
  for bounce = 1, bounces do
    local t, k = meet(from, ray, scene)
    if k == 0 then
      light = light + left * sky(ray)
      break
    end
    local colour, kind, place = tide.vec3(scene[k][5], scene[k][6], scene[k][7]), scene[k][8], from + ray * t
    local normal = (place - tide.vec3(scene[k][1], scene[k][2], scene[k][3])) / scene[k][4]
    if kind == LAMP then
      light = light + left * colour * 6
      break
    end
    local u, v = tide.random.uniform(seed, pixel, 2 * bounce + 1), tide.random.uniform(seed, pixel, 2 * bounce + 2)
    if kind == CLAY then
      if k == 1 and (place.x // 1 + place.z // 1) % 2 == 0 then colour = colour * 0.55 end
      ray = normal + anywhere(u, v) * 0.999
    elseif kind == METAL then
      ray = ray:reflect(normal) + anywhere(u, v) * 0.06
    else
      local cosine = -ray:dot(normal)
      local ratio = cosine > 0 and 1 / 1.5 or 1.5
      local side = cosine > 0 and normal or -normal
      cosine = math.abs(cosine)
      local bent = 1 - ratio * ratio * (1 - cosine * cosine)
      local is_mirror = bent < 0 or u < 0.04 + 0.96 * (1 - cosine) ^ 5
      ray = is_mirror and ray:reflect(side) or ray * ratio + side * (ratio * cosine - math.sqrt(math.max(bent, 0.0)))
    end
    ray, from, left = ray:normalize(), place, left * colour
  end
  image[i][j] = tide.vec3(image[i][j]) + light
end)

local develop = tide.kernel(function(i, j, c, image, bytes, samples)
  local v = image[i][j][c] / samples
  v = v * (2.51 * v + 0.03) / (v * (2.43 * v + 0.59) + 0.14) -- bright light goes into white gently
  bytes[i][j][c] = 255 * math.min(math.max(v, 0.0), 1.0) ^ 0.4545 + 0.5
end)

local function turned(axis, angle) return tide.quat(axis * math.sin(angle / 2), math.cos(angle / 2)) end
local q = turned(tide.vec3(0, 1, 0), 0.30) * turned(tide.vec3(1, 0, 0), -0.24)
local eye = q:rotate(tide.vec3(0, 0, 9.2)) + tide.vec3(0, 0.75, 0)
local real = { dtype = tide.float32, device = args.device }
local scene, camera = tide.tensor(spheres, real), tide.tensor({ { eye.x, eye.y, eye.z, 1.5 }, { q.x, q.y, q.z, q.w } }, real)
local image, bytes = tide.zeros(height, width, 3, real), tide.empty({ height, width, 3 }, { dtype = tide.uint8, device = args.device })
for sample in tide.progress(args.samples, "tracing") do trace({ height, width }, image, scene, camera, sample) end
develop({ height, width, 3 }, image, bytes, args.samples)
tide.save_png(args.out, bytes)
print(("path_tracer: %d x %d, %d rays a pixel, %s"):format(width, height, args.samples, args.out))
