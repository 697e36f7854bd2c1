-- LÖVE reads this first. FRAMES=60 in the environment opens no window, and main.lua ends after 60 frames.
function love.conf(t)
  t.identity = "tide"
  t.window.title = "particles by tide"
  if os.getenv "FRAMES" then t.modules.window, t.modules.graphics, t.modules.audio = false, false, false end
end
