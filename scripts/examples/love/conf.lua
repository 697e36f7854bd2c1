-- LÖVE reads this first. With FRAMES in the environment there is no window, and main.lua ends after so many frames.
function love.conf(t)
  t.identity = "tide"
  t.window.title = "particles by tide"
  if os.getenv "FRAMES" then t.modules.window, t.modules.graphics, t.modules.audio = false, false, false end
end
