-- Walks over trees of tensors, nested tables with tensors and other values in them, and tables beside each other.
--
-- Every table and tensor that was met is noted by identity, so that a tree that shares parts, or refers to itself, is
-- walked once. Values are read raw: a walk runs no code of the script's. Keys are never changed.

local M = ...
local deepest = 1000 -- tables in tables

local function too_deep()
  fail("ValueError", called() .. ": got tables nested more than " .. deepest .. " deep, expected fewer")
end

function M.is_callable(value)
  local meta = getmeta(value)
  return type(value) == "function" or meta and rawget(meta, "__call") ~= nil
end

-- The n of table.pack; nil where there is none that counts the values, or other names are beside it, of which it is then one.
function M.packed_count(list)
  local n = rawget(list, "n")
  if not is_integer(n) or n < rawlen(list) then return end
  for key in next, list do
    if type(key) == "string" and key ~= "n" then return end
  end
  return n
end

-- Calls fn with each tensor and the number of its device.
function M.visit(tree, fn)
  local seen = {}
  local function walk(value, depth)
    if depth > deepest then too_deep() end
    local device = device_of(value)
    if not device and type(value) ~= "table" or seen[value] then return end
    seen[value] = true
    if device then
      fn(value, device)
      return
    end
    for _, below in next, value do walk(below, depth + 1) end
  end
  walk(tree, 0)
end

-- A copy with what leaf(x, device) gives in the place of each tensor; tables of which stays(t) is true stay what they are.
function M.copy(tree, leaf, stays)
  local made = {}
  local function walk(value, depth)
    if depth > deepest then too_deep() end
    local device = device_of(value)
    if not device and (type(value) ~= "table" or stays and stays(value)) then return value end
    if made[value] == nil and device then
      made[value] = leaf(value, device)
    elseif made[value] == nil then
      local t = {}
      made[value] = t
      for key, below in next, value do t[key] = walk(below, depth + 1) end
      local meta = getmeta(value)
      if meta then setmeta(t, meta) end
    end
    return made[value]
  end
  return walk(tree, 0)
end

-- Nothing where all n are tables of as many keys. Else the number of one that is none, or also how many keys it has and
-- how many the first.
function M.other_table(list, n)
  local first
  for i = 1, n do
    if type(list[i]) ~= "table" then return i end
    local keys = 0
    for _ in next, list[i] do keys = keys + 1 end
    first = first or keys
    if keys ~= first then return i, keys, first end
  end
end

-- A list of what each of the n has there; or nil and the number of one that has nothing.
function M.get_column(tables, key, n)
  local column = {}
  for i = 1, n do
    column[i] = rawget(tables[i], key)
    if column[i] == nil then return nil, i end
  end
  return column
end
