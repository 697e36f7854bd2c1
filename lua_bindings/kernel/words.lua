-- What a kernel written in Lua sees when plain Lua runs it: tensors as boxes, atomic operations, the words of a block.
--
-- A box holds the values of a tensor, or of an array of tide.shared, in one list of numbers and booleans as they are
-- read, row by row. box[i] with a dimension left is a box of the same list further on, made once. What is stored is
-- rounded to the dtype by `stored`. The fields of a box that scripts are not to see have tables for keys.
--
-- Atomic operations work on boxes and on tensors of the cpu by the same arithmetic.
--
-- An array of tide.shared knows which threads have read and written each element since the last barrier. Two accesses by
-- different threads that no barrier orders raise, if one is a write, and so does a read of what no thread has written.
--
-- The words of a block ask `running`, what interpret.lua runs now. Until it has seen one that needs threads beside
-- each other it runs one after the other; the first such word raises `needs_threads`, and it begins again.
--
-- Invariant: an index that is no place in its dimension raises before anything is written.

local M = ...
local stored, wrapped, single = use("kernel/oracle.c", "stored", "wrapped", "single")
local sizes_of, place_of, is_tensor, dtype_of = use("tensor/compose.c", "sizes_of", "place_of", "is_tensor", "dtype_of")
local DATA, OFFSET, STRIDE, DEPTH, ROWS, DTYPE, NAME, ROOT = {}, {}, {}, {}, {}, {}, {}, {}
local meta = { boxed = true, __metatable = "tide.kernel tensor" }

local function fail_index(box, dim, i, n)
  local where = " in dimension " .. dim .. " of " .. box[ROOT][NAME]
  if n == 0 then
    fail("IndexError", "kernel: index out of range" .. where .. ", got " .. text(i) .. ", but the dimension is empty")
  end
  fail("IndexError", "kernel: index out of range" .. where .. ", got " .. text(i) .. ", expected 1 to " .. n)
end

local running -- what interpret.lua runs

local conflicts = { reads = { "writes", "changes" }, writes = { "reads", "writes", "changes" }, changes = { "reads", "writes" } }

local function fail_race(root, at, message, ...)
  local name = root.columns and (at - 1) // root.columns + 1 .. ", " .. (at - 1) % root.columns + 1 or at
  fail("StateError", "kernel: thread " .. running.number .. " " .. message .. " element " .. name .. " of an array of tide.shared, which " .. join({ ... }, ""))
end

-- The running thread reads, writes or changes (by an atomic operation) an element; is_same: it writes what is there.
local function watch(root, at, access, is_same)
  local own, seen = running.number, root.seen[at]
  if not seen then
    if access ~= "writes" then fail_race(root, at, access, "no thread has written, expected a write and tide.barrier() before") end
    seen = {}
    root.seen[at] = seen
  end
  if seen.epoch ~= running.epoch then
    seen = { epoch = running.epoch }
    root.seen[at] = seen
  end
  for _, other in next, conflicts[access] do
    local thread = seen[other]
    if thread == own then thread = seen[other .. " too"] end
    if thread and not (is_same and other == "writes") then
      fail_race(root, at, access, "thread ", thread, " ", other, ", expected tide.barrier() between them")
    end
  end
  if not seen[access] then seen[access] = own elseif seen[access] ~= own then seen[access .. " too"] = own end
end

-- The place of an index in the first dimension that is left, from 0.
local function offset_of(box, i)
  if not is_integer(i) then
    fail("ArgumentError", "kernel: index of " .. box[ROOT][NAME] .. ": got " .. describe(i) .. ", expected an integer")
  end
  local n = box.shape[1]
  if i < 1 or i > n then fail_index(box, box[DEPTH], i, n) end
  return box[OFFSET] + (i - 1) * box[STRIDE]
end

local function row_of(box, i)
  local offset = offset_of(box, i)
  local row = box[ROWS][i]
  if not row then
    local shape = {}
    for d = 2, #box.shape do shape[d - 1] = box.shape[d] end
    row = setmeta({ shape = shape, [DATA] = box[DATA], [OFFSET] = offset, [STRIDE] = box[STRIDE] // shape[1], [DEPTH] = box[DEPTH] + 1,
      [ROWS] = {}, [ROOT] = box[ROOT] }, meta)
    box[ROWS][i] = row
  end
  return row
end

-- The box in which the last index of a list counts, and that index.
local function last_of(box, key)
  local n = #box.shape
  if type(key) ~= "table" then return box, key, n end
  if rawlen(key) ~= n then
    fail("IndexError", "kernel: index of " .. box[ROOT][NAME] .. ": got " .. rawlen(key) .. " indexes, expected " .. n)
  end
  for d = 1, n - 1 do box = row_of(box, rawget(key, d)) end
  return box, rawget(key, n), 1
end

function meta.__index(box, key)
  if type(key) == "string" then
    if sub(key, 1, 2) == "__" then return nil end
    fail("ArgumentError", "kernel: there is no " .. key .. " of a tensor in a kernel, expected .shape or an index")
  end
  local inner, i, left = last_of(box, key)
  if left > 1 then return row_of(inner, i) end
  local at = offset_of(inner, i) + 1
  if inner[ROOT].seen then watch(inner[ROOT], at, "reads") end
  return inner[DATA][at]
end

local function write(box, i, value, access)
  local at = offset_of(box, i) + 1
  local kept = stored(box[ROOT][DTYPE], value)
  if kept == nil then
    fail("ArgumentError", "kernel: " .. box[ROOT][NAME] .. ": got " .. describe(value) .. ", expected a number or a boolean")
  end
  if box[ROOT].seen then watch(box[ROOT], at, access or "writes", kept == box[DATA][at]) end
  box[DATA][at] = kept
  box[ROOT].written = true
end

function meta.__newindex(box, key, value)
  local inner, i, left = last_of(box, key)
  if left == 1 then return write(inner, i, value) end
  local row, list = row_of(inner, i), plain_shape(value)
  if list == value or left > 2 or #list ~= row.shape[1] then
    fail("ArgumentError", "kernel: " .. box[ROOT][NAME] .. ": got " .. describe(value) .. " for a row of " .. row.shape[1]
      .. ", expected a vector of as many components")
  end
  for k = 1, #list do write(row, k, list[k]) end
end

function meta.__len(box) return box.shape[1] end
function meta.__tostring(box) return "tensor of a kernel: " .. box[ROOT][NAME] end

-- M.new_box(dtype, sizes, values, name): the box, and what all its rows share: `written`, and its values.
function M.new_box(dtype, sizes, values, name)
  local stride = 1
  for d = 2, #sizes do stride = stride * sizes[d] end
  local root = { [DTYPE] = dtype, [NAME] = name, values = values, written = false }
  return setmeta({ shape = sizes, [DATA] = values, [OFFSET] = 0, [STRIDE] = stride, [DEPTH] = 1, [ROWS] = {}, [ROOT] = root }, meta), root
end

-- {==== Atomic operations

local is_float = { float16 = true, bfloat16 = true, float32 = true, float64 = true }

-- What an atomic operation writes, from what is there.
local function next_value(kind, old, v, expected, float)
  if kind == "add" or kind == "sub" then
    local sign = kind == "add" and "+" or "-"
    if not float then return wrapped(sign, old, v) end
    return kind == "add" and old + v or old - v
  end
  if kind == "min" then return v < old and v or old end
  if kind == "max" then return v > old and v or old end
  if kind == "exchange" then return v end
  if kind == "cas" then return old == expected and v or old end
  return wrapped(kind == "band" and "&" or kind == "bor" and "|" or "^", old, v)
end

-- As the kind of number that the operation computes with.
local function operand(name, value, float)
  if type(value) == "boolean" then value = value and 1 or 0 end
  if type(value) ~= "number" and not is_integer(value) then refuse(value, name, "a number") end
  if float then return value * 1.0 end
  return stored("int64", value)
end

local function is_box(x) return type(x) == "table" and getmeta(x) == meta end

-- The same on a tensor: its element as a tensor without dimensions.
local function element_of(x, index)
  local sizes, list = sizes_of(x), type(index) == "table" and index or { index }
  if place_of(x) ~= "cpu" then
    fail("DeviceError", called() .. ": x: got a tensor on " .. place_of(x) .. ", expected one on the cpu: in plain Lua atomic operations are the host's")
  end
  if rawlen(list) ~= #sizes then
    fail("IndexError", called() .. ": index: got " .. rawlen(list) .. " indexes, expected " .. #sizes)
  end
  local element = x
  for d = 1, #sizes do
    local i = rawget(list, d)
    if not is_integer(i) then refuse(i, "index", "an integer for each dimension of x") end
    if i < 1 or i > sizes[d] then
      fail("IndexError", called() .. ": index out of range in dimension " .. d .. ", got " .. text(i) .. ", expected 1 to " .. sizes[d])
    end
    element = element:select(1, i)
  end
  return element
end

function M.atomic(kind, x, index, v, w)
  local expected = kind == "cas" and v or nil
  if kind == "cas" then v = w end
  local box, i, element, dtype
  if is_box(x) then
    local left
    box, i, left = last_of(x, index)
    if left > 1 then fail("IndexError", kind .. ": index: got 1 index, expected " .. left) end
    offset_of(box, i)
    dtype = box[ROOT][DTYPE]
  else
    if not is_tensor(x) then refuse(x, "x", "a tensor, or an array of tide.shared") end
    element, dtype = element_of(x, index), (dtype_of(x))
  end
  local float = is_float[dtype] or false
  if float and (kind == "band" or kind == "bor" or kind == "bxor") then
    fail("DtypeError", kind .. ": dtype not accepted, got " .. dtype .. ", expected integers")
  end
  v = operand("v", v, float)
  if kind == "cas" then expected = operand("expected", expected, float) end
  local there
  if element then there = element:item() else there = box[DATA][offset_of(box, i) + 1] end
  local old = operand("x", there, float)
  local value = next_value(kind, old, v, expected, float)
  if element then element:fill_(stored(dtype, value)) else write(box, i, value, "changes") end
  return old
end

-- {==== The words of a block

M.needs_threads = {}

-- What interpret.run runs: {place, block, block_size (lists), float, is_threads, arrays = {}, made, number and epoch: of the
-- thread in its block, and how many barriers the block has passed}; returns the one before.
function M.run_block(now)
  local before = running
  running = now
  single(now ~= nil and now.float == "float32")
  return before
end

local function make_shared(dtype, n, m)
  local at = running.made + 1
  running.made = at
  local array = running.arrays[at]
  if not array then
    local sizes, count, values, root = { n, m }, n * (m or 1), {}, nil
    for i = 1, count do values[i] = stored(dtype, false) end
    array, root = M.new_box(dtype, sizes, values, "an array of tide.shared")
    root.seen, root.columns = {}, m
    running.arrays[at] = array
  end
  return array
end

local function size_of(name, value)
  if not is_integer(value) or value < 1 then
    fail("ArgumentError", "shared: " .. name .. ": got " .. describe(value) .. ", expected an integer of at least 1")
  end
  return value
end

-- The result, or true: the word is to be yielded.
function M.block_word(word, ...)
  if not running then
    fail("StateError", word .. ": it is a word of kernels, got a call outside of one, expected tide.kernel or tide.kernel.interpret around it")
  end
  local list = running[word]
  if list then return unpack(list, 1, #list) end
  if not running.is_threads then throw(M.needs_threads) end
  if word ~= "shared" then return true end
  local dtype, n, m = ...
  dtype = replace(text(dtype), "tide.", "")
  if stored(dtype, false) == nil then refuse(dtype, "dtype", "a dtype") end
  return make_shared(dtype, size_of("n", n), m ~= nil and size_of("m", m) or nil)
end
