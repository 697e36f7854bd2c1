-- What the specs of files share: a path for each case, what stands in the file, and how reading one is refused.
local D = require "spec.support.device"

local M = { path = nil }

-- A path of its own for each case of the block, which goes with it.
function M.watch(before_each, after_each)
  before_each(function() M.path = os.tmpname() end)
  after_each(function() os.remove(M.path) end)
end

-- Of the case's own file where no other path is given.
function M.put(bytes, path)
  local file = assert(io.open(path or M.path, "wb"))
  file:write(bytes)
  file:close()
end

function M.content(path)
  local file = assert(io.open(path or M.path, "rb"))
  local bytes = file:read "a"
  file:close()
  return bytes
end

-- f(path, ...) fails with a FileError that names the file and says `what`.
function M.refused(what, f, ...)
  local e = D.raises("FileError", f, M.path, ...)
  local says = e.message:find(M.path, 1, true) and e.message:find(what, 1, true)
  assert(says, ("got '%s', expected it to say '%s' of %s"):format(e.message, what, M.path))
end

return M
