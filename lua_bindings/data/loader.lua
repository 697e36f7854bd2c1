-- tide.data.loader: batches of a data set.
--
-- Lua never runs on a second thread: the items are asked for and checked in the thread that iterates, which allocates the
-- batch as well and notes what is to be copied. The copying is core's (tide/loader.h). The iterator keeps `prefetch`
-- batches ahead of the one it gives out, and waits for the oldest only.
--
-- `self` is what a loader was made of, `it` an iteration's object, and `s` what is known of it: of batch k, counted from
-- 1, s.batches[k] is {value, handles}. The handles belong to no tide.scope before the batch is given out: it may have
-- been prepared in another call.

local M = ...
local trees = use "call/tree"
local stack_items, stack_numbers, plain_shapes, note_own = use("data/loader.c", "stack_items", "stack_numbers", "plain_shapes", "note_own")
local in_scope, pin_tensor, get_items, is_open, begin_batch = use("data/loader.c", "in_scope", "pin_tensor", "get_items", "is_open", "begin_batch")
local queue_batch, take_batch, ask_for_next, close_iteration = use("data/loader.c", "queue_batch", "take_batch", "ask_for_next", "close_iteration")
local length, shuffle, new_iteration, rows_getter, new_loader = use("data/loader.c", "length", "shuffle", "new_iteration", "rows_getter", "new_loader")
local deepest = 100 -- tables in tables: more is a circle
local dimensions, size_of = public("Tensor", "dim", "size")
local is_available = public("tide.cuda", "is_available")

-- ---- how the items of a batch become one value ----

-- Item i of the list does not go with the first.
local function unlike(b, i, path, items)
  fail("ShapeError", "loader: dataset[" .. b.numbers[i] .. "]" .. path .. ": got " .. describe(items[i])
    .. ", expected one like dataset[" .. b.numbers[1] .. "]" .. path .. ", which is " .. describe(items[1])
    .. (path == "" and device_of(items[i]) and "; columns have names or a size: {x = X, y = Y}, or {X, Y} with size = n" or ""))
end

local collate

local function collate_tables(b, items, path, depth)
  local result, of_first = {}, "dataset[" .. b.numbers[1] .. "]"
  local i, keys, expected = trees.other_table(items, b.n)
  if keys then
    fail("ShapeError", "loader: dataset[" .. b.numbers[i] .. "]" .. path .. ": got " .. keys .. " keys, expected the "
      .. expected .. " of " .. of_first .. path)
  end
  if i then unlike(b, i, path, items) end
  for key in next, items[1] do
    local below = path .. (type(key) == "string" and "." .. key or "[" .. text(key) .. "]")
    local column, missing = trees.get_column(items, key, b.n)
    if missing then
      fail("ShapeError", "loader: dataset[" .. b.numbers[missing] .. "]" .. below .. ": got nothing, expected one like "
        .. of_first .. below)
    end
    result[key] = collate(b, column, below, depth + 1)
  end
  return result
end

local collators = {
  userdata = function(b, items) return stack_items(b.it, items, b.n, b.handles) end,
  number = function(b, items) return stack_numbers(b.it, items, b.n, b.handles) end,
  string = function(b, items)
    for i = 2, b.n do
      if type(items[i]) ~= "string" then return nil, i end
    end
    return items
  end,
  table = collate_tables,
}
collators.boolean = collators.number

-- One value for the list of items, which is the loader's own.
function collate(b, items, path, depth)
  plain_shapes(items, b.n)
  if depth > deepest then
    fail("ValueError", "loader: dataset[" .. b.numbers[1] .. "]: got tables nested more than " .. deepest .. " deep, expected fewer")
  end
  local kind = type(items[1])
  if not collators[kind] or kind == "userdata" and not device_of(items[1]) then
    fail("ArgumentError", "loader: dataset[" .. b.numbers[1] .. "]" .. path .. ": got " .. describe(items[1])
      .. ", expected tensors, numbers, booleans, strings or tables of them, or collate= a function that takes such items")
  end
  local value, bad = collators[kind](b, items, path, depth)
  if bad then unlike(b, bad, path, items) end
  return value
end

-- The value that a function of the script's gave, with its tensors in pinned memory where that is wanted, and those that
-- go on to a device in the loader's own. What has to be ended stays: there is no second one of it.
local function pin(b, value)
  local function own(x) note_own(x, b.handles) end
  local function stays(t)
    local meta = getmeta(t)
    if not meta or rawget(meta, "__gc") == nil and rawget(meta, "__close") == nil then return false end
    if b.moves then
      fail("ArgumentError",
        "loader: collate: got a table with __gc or __close, which is not copied, expected none with device=")
    end
    if in_scope() then trees.visit(t, own) end
    return true
  end
  if b.pin or b.moves then
    return trees.copy(value, function(x) return pin_tensor(b.it, x, b.handles, b.pin, b.moves) end, stays)
  end
  if in_scope() then trees.visit(value, own) end
  return value
end

-- ---- iterations ----

-- Asks for the next batch.
local function ask(it, s)
  local self, k = s.self, s.asked
  local start = k * self.batch_size
  local n = s.size - start < self.batch_size and s.size - start or self.batch_size
  local items, numbers = get_items(self.dataset, s.order, start, n)
  local b = { it = it, n = n, numbers = numbers, handles = {}, pin = self.pin_memory, moves = self.moves }
  local value = self.collate and call(self.collate, items)
  if not is_open(it) or s.asked ~= k then
    fail("StateError", "loader: dataset: this iteration was used while it asked for an item")
  end
  begin_batch(it)
  if self.collate then value = pin(b, value) else value = collate(b, items, "", 0) end
  queue_batch(it)
  s.batches[k + 1] = { value, b.handles }
  s.asked = k + 1
end

-- The value of the oldest batch. One that finds no room on the device is there for the next call, one that cannot get
-- there for another reason is left out.
local function take(it, s)
  local k = s.given + 1
  local batch = s.batches[k]
  local kind, message = take_batch(it, batch[2])
  s.given, s.batches[k] = k, nil
  if kind then fail(kind, "loader: batch " .. k .. ": " .. message) end
  return batch[1]
end

function M.step(it, s)
  if is_open(it) then ask_for_next(it) end
  while is_open(it) and s.asked < s.count and s.asked - s.given <= s.self.prefetch do ask(it, s) end
  if not is_open(it) or s.given == s.count then
    close_iteration(it)
    return nil
  end
  local value = take(it, s)
  return s.given, value
end

-- How many items and batches there are now.
function M.length(self)
  local size = self.size or call(length, self.dataset)
  if type(size) ~= "number" or size < 0 or size % 1 ~= 0 then
    fail("ValueError", "loader: dataset: #dataset is " .. describe(size) .. ", expected how many items there are")
  end
  size = size | 0
  local whole = size // self.batch_size
  return not self.drop_last and size % self.batch_size ~= 0 and whole + 1 or whole, size
end

function M.iter(loader, self)
  local count, size = M.length(self)
  local s = { self = self, count = count, size = size, asked = 0, given = 0, batches = {} }
  if self.shuffle and size > 0 then s.order = shuffle(size, self.generator) end
  return new_iteration(loader, s, self.device, self.prefetch, self.pin_memory)
end

-- for batch in loader: Lua calls the loader itself with nil at first, then with the batch that it gave last. The
-- iteration of a loop is found by that batch, so that loops over one loader may stand in each other; the table of them
-- is weak, so that a loop that was broken off ends when its batch goes. A batch that is no object is found at `true`.
function M.call(loader, self, last)
  local function key_of(batch) return (type(batch) == "table" or type(batch) == "userdata") and batch or true end
  self.passes = self.passes or setmeta({}, { __mode = "k" })
  local it
  if last == nil then
    it = M.iter(loader, self)
  else
    local key = key_of(last)
    local pass = self.passes[key]
    if not pass or key == true and pass[2] ~= last then
      fail("StateError", "loader: got a batch that is not the last one of a loop over it, expected one; use loader:iter()")
    end
    self.passes[key] = nil -- it is noted again with its next batch
    it = pass[1]
  end
  local i, batch = call(it)
  if not i then return nil end
  if batch == nil then
    fail("ValueError", "loader: collate: got nil for a batch, expected a value; use loader:iter()")
  end
  local key = key_of(batch)
  self.passes[key] = { it, key == true and batch or nil }
  return batch, i
end

-- ---- what a loader is made of ----

-- A table of tensors, by any keys, as a data set: a function that gives their rows under the same keys, and how many.
-- Without a size all columns have equally many; a list of tensors is a list of items then. The table is copied. Nothing
-- where the dataset is no such table.
local function columns_of(dataset, size)
  local columns, count, first = {}, size, nil
  if type(dataset) ~= "table" or next(dataset) == nil or not size and (dataset[1] ~= nil or getmeta(dataset)) then return end
  for key, x in next, dataset do
    if not device_of(x) then return end
    columns[key] = x
  end
  for key, x in next, columns do
    local rows = dimensions(x) > 0 and size_of(x, 1) or 0
    count, first = count or rows, first or key
    if rows < count or not size and rows > count then
      fail("ShapeError", "loader: dataset[" .. text(key) .. "]: got " .. rows .. " rows, expected " .. (size and "at least the "
        or "the ") .. count .. (size and " of size" or " of dataset[" .. text(first) .. "]"))
    end
  end
  return rows_getter(columns), count
end

local function check_range(value, name, least, most)
  if value and (value < least or value > most) then
    fail("ValueError", "loader: " .. name .. ": got " .. value .. ", expected " .. least .. " to " .. most)
  end
end

function M.new(dataset, batch_size, shuffled, drop_last, pin_memory, collate_own, generator, prefetch, size, device)
  local kind, meta = type(dataset), getmeta(dataset)
  local is_object = kind == "userdata" and meta and rawget(meta, "__len") ~= nil and rawget(meta, "__index") ~= nil
  if kind ~= "table" and kind ~= "function" and not is_object then
    refuse(dataset, "dataset", "what has #dataset and dataset[i], or a function with {size=}")
  end
  check_range(batch_size, "batch_size", 1, 0x7fffffff)
  check_range(prefetch, "prefetch", 0, 1 << 16)
  check_range(size, "size", 0, 1 << 48)
  local rows, count = columns_of(dataset, size)
  if rows then dataset, size = rows, count end
  if (type(dataset) == "function") ~= (size ~= nil) then
    fail("ArgumentError", "loader: size: got " .. (size and "one, expected none: the dataset has a length"
      or "none, expected how many items the function has"))
  end
  if generator and text(generator.device) ~= "cpu" then
    fail("DeviceError", "loader: generator: got one of " .. text(generator.device)
      .. ", expected one of the cpu, which draws the order")
  end
  return new_loader {
    dataset = dataset, batch_size = batch_size, shuffle = shuffled, drop_last = drop_last, collate = collate_own,
    generator = generator, prefetch = prefetch, size = size, pin_memory = pin_memory and is_available(), device = device or -1,
    moves = device ~= nil and device ~= -1,
  }
end
