-- The module's tables are read as ever, and cannot be changed.

--- an assignment to the module
--! raises fields cannot be assigned
tide.zeros = function() return "mine" end

--- a new name in the module
--! raises fields cannot be assigned
tide.mine = 1

--- an assignment to the methods of tensors
--! raises fields cannot be assigned
function tide.Tensor.add() return "mine" end

--- a new method of tensors
--! raises fields cannot be assigned
function tide.Tensor.mine() end

--- rawset on the module
--! raises table expected
rawset(tide, "zeros", print)

--- rawset on the methods
--! raises table expected
rawset(tide.Tensor, "add", print)

--- rawset on a module in it
--! raises table expected
rawset(tide.cuda.memory, "memory_stats", print)

--- an assignment to an error class
--! raises fields cannot be assigned
tide.errors.ValueError.is = function() return true end

--- an assignment to a class
--! raises fields cannot be assigned
tide.cuda.Stream.priority_range = print

--- table.insert and table.move
assert(not pcall(table.insert, tide, 1))
assert(not pcall(table.move, { print }, 1, 1, 1, tide))

--- the table that pairs walks
local walk, state = pairs(tide)
assert(type(state) ~= "table" and not pcall(rawset, state, "zeros", print))
assert(not pcall(function() state.zeros = print end))
assert(not pcall(walk, {}, nil) and not pcall(walk, "x"))

--- the metatable of the module
assert(getmetatable(tide) == "tide" and not pcall(setmetatable, tide, {}))

--- the metatable of the methods, of a tensor, of a class, of an error
local _, e = pcall(tide.zeros, "x")
for _, value in ipairs { tide.Tensor, tide.zeros(2), tide.cuda.Stream, tide.cuda.Stream(), e, tide.float32, tide.zeros(2).shape } do
  local meta = getmetatable(value)
  assert(type(meta) ~= "table", tostring(value))
end

--- fields of a tensor
assert(not pcall(function() tide.zeros(2).shape[1] = 3 end))
assert(not pcall(function() tide.zeros(2).mine = 3 end))

--- the metatable of strings
assert(type(getmetatable "") ~= "table")
assert(("x"):rep(2) == "xx")

--- reading is as ever
local n = 0
for key, value in pairs(tide) do
  assert(tide[key] == value)
  n = n + 1
end
assert(n > 300 and tide.cuda.memory.memory_stats and tide.Tensor.add(tide.ones(1), 1):item() == 2)
assert(tide.help(tide) == tide.help() and tide.help():find "x:view")
assert(tide.help(tide.cuda):find "It has" and tide.has "cuda.Stream" and tide.cuda.OutOfMemoryError.is(1) == false)
assert(tide.cuda.Stream():query() and tide.cuda.Event() and tide.cuda.CUDAGraph())
assert(select(2, pcall(function() return tide.zeroes end)).message:find "did you mean zeros")

--- a colon where a dot belongs
--! raises is called with a dot
tide:zeros(3)
