-- Programs that race and programs that do not, for the stream sanitizer: each a small function with a name.
--
-- A program gets p: streams p.s, p.t and p.u, the current stream p.d, all idle and with nothing before them. A racy one
-- calls p.first() and p.second() on the lines of the two operations that race, or with the function whose first line it is.
-- `devices` says how many it needs. The programs themselves are in the files that are required at the end.

local tide = require "tide"
local M = { racy = {}, clean = {} }

local function add(list)
  return function(name, fn, devices) list[#list + 1] = { name = name, fn = fn, devices = devices or 1 } end
end
M.race, M.fine = add(M.racy), add(M.clean)

-- Zeros that nobody has to wait for.
function M.ready(...)
  local x = tide.zeros({ ... }, { device = "cuda" })
  tide.cuda.synchronize()
  return x
end

package.loaded[...] = M -- for those that follow
require "spec.support.races_order"
require "spec.support.races_bytes"
require "spec.support.races_memory"

return M
