-- Which tensors of a kernel are only added to, by atomic operations whose old value nobody asks for: a histogram's, say. Threads
-- of a CPU that add to the same few elements wait for each other's caches, so that each part of a grid adds to elements of its
-- own, and these at its end to the tensor's (text.lua).
--
-- Invariant: what is given here is read and written by nothing else in the kernel, unless another operand is the same memory.

local M = ...
local build = use "kernel/build"
local most = 2 -- tensors: each takes a part of the grid 16 KiB of its stack

local function only_adds(n)
  return n.op == "atomic" and (n.kind == "add" or n.kind == "sub") and not n.var
end

-- M.operands(typed): the list of their operands, and {operand -> its place in the list}
function M.operands(typed)
  local list, at, other, adds = {}, {}, {}, {}
  if not typed.atomics or typed.barriers then return list, at end
  local function look(e)
    if e.tensor and e.op ~= "size" then other[e.tensor] = true end
    build.children(e, look)
  end
  build.each(typed.body, function(n)
    if n.tensor then (only_adds(n) and adds or other)[n.tensor] = true end
    build.expressions(n, look)
  end)
  for k = 1, #typed.operands do
    if adds[k] and not other[k] and #list < most then
      list[#list + 1] = k
      at[k] = #list
    end
  end
  return list, at
end
