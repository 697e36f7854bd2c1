-- Which kernels read a few elements, compute little, and write: those wait for memory, so that a GPU's thread does several of
-- their places, and reads for all of them before it writes (text.lua).
--
-- Invariant: no element is read behind one that is written, whose index follows from the place alone.

local M = ...
local build = use "kernel/build"
local most = 48 -- of what is computed for a place

local free = { const = true, place = true, size = true, number = true, grid = true, var = true }
local dear = { uniform = 100, normal = 100, integer = 100, thread = 100, block = 100, pow = 16, mod = 16, idiv = 16, call = 8 }
local cost, loads

local function look(e)
  cost = cost + (dear[e.op] or free[e.op] and 0 or 1)
  if e.op == "load" then
    loads = loads + 1
    if e.shared then cost = cost + most end
  end
  build.children(e, look)
end

local function is_of_place(e)
  if e.op == "place" or e.op == "const" or e.op == "size" then return true end
  return (e.op == "add" or e.op == "sub") and is_of_place(e.a) and is_of_place(e.b)
end

local function are_lets(list)
  for k = 1, #list do
    local n = list[k]
    if n.op == "if" then
      look(n.cond)
      if not (are_lets(n.yes) and are_lets(n.no)) then return false end
    elseif n.op == "let" then
      look(n.value)
    else
      return false
    end
  end
  return true
end

-- M.is_flat(typed)
function M.is_flat(typed)
  local body, behind = typed.body, nil
  if typed.barriers or typed.atomics then return false end
  cost, loads = 0, 0
  for k = 1, #body do
    local n, before = body[k], loads
    if n.op == "store" or n.op == "result" then
      look(n.value)
      for d = 1, n.index and #n.index or 0 do
        if not is_of_place(n.index[d]) then return false end
      end
      if n.shared or behind and loads > before then return false end
      behind = true
    elseif not are_lets({ n }) or behind and loads > before then
      return false
    end
  end
  return behind and cost <= most
end
