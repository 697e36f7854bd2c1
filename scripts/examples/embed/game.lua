-- game.lua: the script of game.c. What is kept from one loading to the next is a global; the rest is made anew.
particles = particles or tide.randn(4096, 2)
local speed, frames = 1, 0

return function(dt)
  particles:mul_(1 - speed * dt)
  frames = frames + 1
  if frames % 20 == 0 then print("energy", (particles * particles):mean():item()) end -- goes on when the value is there
end
