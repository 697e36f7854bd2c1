-- game.lua: the script of game.c. What is kept from one loading to the next is a global; the rest is made anew.
particles = particles or tide.randn(4096, 2)
local speed = 1

function update(dt)
  particles:mul_(1 - speed * dt)
  return (particles * particles):mean()
end
