-- Calls a function while every allocation of Lua's collects all there is and a finaliser runs each time.
local M = { runs = 0 } -- how often one has run, in all calls

-- pcall(f, ...) while finalisers call act, each of which arms the next one.
function M.call(act, f, ...)
  local armed = false
  local function again()
    setmetatable({}, { __gc = function()
      if armed == nil then return end
      if armed then
        M.runs = M.runs + 1
        pcall(act)
      end
      again()
    end })
  end
  local mode = collectgarbage("incremental")
  local pause, multiplier = collectgarbage("setpause", 0), collectgarbage("setstepmul", 1000)
  again()
  collectgarbage() -- from here on the next cycle begins at once
  armed = true
  local results = table.pack(pcall(f, ...))
  armed = nil
  collectgarbage("setpause", pause)
  collectgarbage("setstepmul", multiplier)
  collectgarbage(mode)
  collectgarbage()
  return table.unpack(results, 1, results.n)
end

return M
