-- Particles that fall and bounce, stepped by a kernel and drawn by LÖVE 11: love scripts/examples/love
-- LUA_CPATH has to find LuaJIT's module: LUA_CPATH="build/lib/lua/5.1/?.so;;". A .love archive runs as well.
local tide = require "tide"

local n, frames = 20000, tonumber(os.getenv "FRAMES")
local size = tide.tensor {800.0, 600.0}
local x, v = tide.rand(n, 2) * size, tide.randn(n, 2):mul_(60)

local step = tide.kernel(function(i, x, v, dt)
  v[i][2] = v[i][2] + 200 * dt
  for d = 1, 2 do
    local most = d == 1 and 800.0 or 600.0
    x[i][d] = x[i][d] + v[i][d] * dt
    if x[i][d] < 0 then x[i][d], v[i][d] = 0.0, -v[i][d] end
    if x[i][d] > most then x[i][d], v[i][d] = most, -0.8 * v[i][d] end
  end
end)

function love.update(dt)
  step(n, x, v, frames and 1 / 60 or math.min(dt, 1 / 30))
  if not frames then return end
  frames = frames - 1
  if frames > 0 then return end
  print(("%d particles, mean height %.0f"):format(n, x:select(2, 2):mean():item()))
  love.event.quit()
end

function love.draw() love.graphics.points(x:totable()) end
