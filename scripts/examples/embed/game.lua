-- game.lua: the script of game.c. A changed text takes effect while the game runs: what update has changed stays, what the
-- text says anew is taken.
local particles = tide.randn(4096, 2)
local speed, frames = 1, 0

return function(dt)
  particles:mul_(1 - speed * dt)
  frames = frames + 1
  if frames % 20 == 0 then print(frames, (particles * particles):mean():item()) end -- goes on when the value is there
end
