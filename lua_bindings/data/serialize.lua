-- tide.save and load: the walks over trees of values and tensors. The bytes are core's (tide/values.h).
--
-- Tables and tensors are numbered as they are met, and one that was met before is written as its number, so what is shared
-- stays shared, and a table may hold itself. What is neither goes between tables and the file in C.

local M = ...
local put_reference, put_tensor, put_table, put_pairs, put = use("data/serialize.c", "put_reference", "put_tensor", "put_table", "put_pairs", "put")
local read, broken, read_pairs, put_storage, open_handle = use("data/serialize.c", "read", "broken", "read_pairs", "put_storage", "open_handle")
local deepest = 1000 -- tables in tables

-- "value.layers[2]"
local function place_of(keys, depth)
  local place = "value"
  for i = 1, depth do
    local key = keys[i]
    place = place .. (type(key) == "string" and "." .. key or "[" .. text(key) .. "]")
  end
  return place
end

-- handles: a list that takes the IPC handles of tensors of accelerators, which are shared then instead of copied; or nil.
function M.write_value(values, root, handles)
  local numbers, count, keys = {}, 0, {}
  local function put_object(value, depth)
    local is_tensor = device_of(value)
    if depth > deepest then
      fail("ValueError", called() .. ": got tables nested more than " .. deepest .. " deep, expected fewer")
    end
    if not is_tensor and type(value) ~= "table" then
      fail("ArgumentError", called() .. ": " .. place_of(keys, depth) .. ": got " .. describe(value)
        .. ", expected tensors, numbers, strings, booleans and tables of them")
    end
    if numbers[value] then return put_reference(values, numbers[value]) end
    count = count + 1
    numbers[value] = count
    if is_tensor then return put_tensor(values, value, handles) end
    put_table(values)
    local t, key, below, is_key = plain_shape(value), nil, nil, nil
    repeat
      key, below, is_key = put_pairs(values, t, key)
      keys[depth + 1] = key
      if is_key then put_object(key, depth + 1) end
      if key ~= nil and not (is_key and put(values, below)) then put_object(below, depth + 1) end
    until key == nil
  end
  if not put(values, root) then put_object(root, 0) end
end

-- map: map_location, or nil; shared: may the bytes name shared tensors?
function M.read_value(values, map, shared)
  local objects = {}
  local resolve

  local function get(depth) return resolve(depth, read(values)) end

  local function note(object)
    objects[#objects + 1] = object
    return object
  end

  local function get_table(depth)
    if depth >= deepest then broken(values, "tables are nested too deeply") end
    local t = note {}
    while true do
      local key, value, kind, is_key = read_pairs(values, t)
      if not kind then return t end
      if is_key then
        key = resolve(depth + 1, value, kind)
        t[key] = get(depth + 1)
      else
        t[key] = resolve(depth + 1, value, kind)
      end
    end
  end

  -- What a value that was read means, by its kind; one without a kind means itself.
  function resolve(depth, value, kind)
    if not kind then return value end
    if kind == "table" then return get_table(depth) end
    if kind == "tensor" then return note(value) end
    if kind == "place" then
      local to
      if type(map) == "table" then to = map[value] elseif type(map) == "function" then to = map(value) else to = map end
      put_storage(values, to == nil and value or to)
      return get(depth)
    end
    if kind == "reference" then return objects[value] or broken(values, "a reference is wrong") end
    if not shared then broken(values, "a tensor of another process") end
    return note(open_handle(value))
  end

  return get(0)
end
