-- game.lua: looks at what scripts/checks/game.sh has had written: every tenth frame, and the script was loaded again, with
-- red and blue exchanged, after the number of frames that the argument says.
--
-- usage: game.lua FOLDER FRAME
local tide = require "tide"
local folder, frame = arg[1], tonumber(arg[2])

local function picture(number)
  local image = tide.load_png(("%s/%04d.png"):format(folder, number))
  assert(image:size(1) == 540 and image:size(2) == 960 and image:size(3) == 4, "the size")
  return image:float()
end

local function brightness(image) return image:narrow(3, 1, 3):amax(3):view(-1) end

-- From 1, the same picture, to 0, one that has nothing to do with it.
local function likeness(a, b)
  local x, y = brightness(a), brightness(b)
  x, y = x - x:mean(), y - y:mean()
  return (x:dot(y) / (x:norm() * y:norm())):item()
end

local function parts(image)
  local lit = image:narrow(3, 1, 3):gt(100):any(3):float():mean():item()
  return lit, image:select(3, 1):mean():item(), image:select(3, 3):mean():item()
end

-- The first picture by the new rules; one was under way when they came.
local new = (frame + 11) // 10 * 10
local first, last, after = picture(10), picture(new - 10), picture(new)
for name, image in pairs { first = first, last = last, after = after } do
  local lit = parts(image)
  assert(lit > 0.01 and lit < 0.9, name .. " is empty, or full: " .. lit)
end
assert(likeness(picture(10), picture(20)) < 0.99 and likeness(picture(20), picture(30)) < 0.99, "the frames are the same")
local _, red, blue = parts(last)
assert(blue > 2 * red, "the old colours")
_, red, blue = parts(after)
assert(red > 2 * blue, "the new colours were not seen")
-- Ten frames later most is near where it was: 0.4. Particles that began anew are elsewhere: 0.01.
local near = likeness(last, after)
assert(near > 0.2, "the particles began anew: " .. near)
