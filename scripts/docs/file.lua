-- Whole files, for the scripts here.
local M = {}

-- The bytes of a file; nil and why not.
function M.read(path)
  local file, why = io.open(path, "rb")
  if not file then return nil, why end
  local text = file:read "a"
  file:close()
  return text
end

function M.write(path, text)
  local file = assert(io.open(path, "wb"))
  assert(file:write(text))
  assert(file:close())
end

return M
