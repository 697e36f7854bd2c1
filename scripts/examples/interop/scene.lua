-- scene.lua: what vulkan.c and opengl.c draw. It is given the renderer's own memory, a vertex buffer [rows, columns, 4]
-- and a texture [height, width, 4] of bytes, and returns a function that writes both for the time t. Of the renderer it
-- sees two tensors; whose turn it is with them is the host's business.
local tide = require "tide"
local vertices, texture = ...

-- Two axes from -1 to 1, and the distance from the middle.
local function plane(rows, columns)
  local opts = { device = vertices.device }
  local y = tide.linspace(1, -1, rows, opts):view(rows, 1)
  local x = tide.linspace(-1, 1, columns, opts):view(1, columns)
  return x, y, (x * x + y * y):sqrt()
end

local x, y, r = plane(vertices.shape[1], vertices.shape[2])
local u, v, d = plane(texture.shape[1], texture.shape[2])
local angle = v:atan2(u)
local w = y * 0.9 + 2.4 -- the distance from the eye, row by row from the far side to the near one

local function put(to, channel, values) to:select(3, channel):copy_(values) end

return function(t)
  return tide.scope(function()
    local height = (r * 12 - t * 4):cos() * 0.22 / (r * 2 + 0.5)
    put(vertices, 1, x * 2)
    put(vertices, 2, height * 1.6 + y * 1.3 + 0.05)
    put(vertices, 3, w * 0.5)
    put(vertices, 4, w)
    local bands = (angle * 6 + d * 10 - t * 2):sin()
    put(texture, 1, bands * 110 + 140)
    put(texture, 2, ((d * 14 - t * 3):sin() * 0.5 + 0.5) * bands:abs() * 220 + 20)
    put(texture, 3, d * -90 + 230)
    texture:select(3, 4):fill_(255)
  end)
end
