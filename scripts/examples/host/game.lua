-- game.lua: the script of host.c. A ring of particles pulled to the middle; `update(dt)` steps them on the host's stream and
-- returns their mean kinetic energy, a tensor that the host reads back when it is ready. Edit it while the host runs.
local tide = require "tide"
tide.manual_seed(1)
local device = tide.cuda.is_available() and "cuda" or "cpu"
local n = 1 << 16
local opts = {device = device, dtype = tide.float32}
local position, velocity = tide.randn(n, 2, opts), tide.zeros(n, 2, opts)
local frame = 0

function update(dt)
  frame = frame + 1
  if frame == 40 then error("a mistake in the script, at frame " .. frame) end
  if frame == 60 then
    -- An allocation that no device can hold: an ordinary error, after which everything goes on.
    local ok, e = pcall(tide.empty, 1 << 44, opts)
    print("script: " .. (ok and "?" or e.kind) .. ", and goes on")
  end
  return tide.scope(function()
    local r2 = (position * position):sum(2, {keepdim = true}):add_(0.01)
    velocity:sub_(position / r2 * dt)
    position:add_(velocity, {alpha = dt})
    return (velocity * velocity):sum(2):mean() * 0.5
  end)
end
