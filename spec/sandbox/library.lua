-- What Lua's own library would let a script do, and what a host has not given it.

--- no io, os, package, debug, require
assert(not io and not os and not package and not debug and not require and not dofile and not loadfile)

--- bytecode given as text
local bytes = string.dump(function() return 1 end)
local f, message = load(bytes)
assert(not f and message:find "attempt to load a binary chunk")

--- bytecode by its mode
local f = load(string.dump(function() return 1 end), "x", "b")
assert(not f)

--- bytecode from a reader
local pieces = { string.dump(function() return 1 end) }
local f = load(function() return table.remove(pieces) end, "x", "bt", {})
assert(not f)

--- text is loaded, in an environment, too
assert(load "return 1 + 1"() == 2 and load("return x", "x", "t", { x = 3 })() == 3 and load("return x", "x", nil, { x = 4 })() == 4)
assert(not load "return return" and select(2, load("?", "=name")):find "^name")

--- the library in an environment of its own
assert(load("return string.dump", "x", "t", {}) and not pcall(load("return string.dump", "x", "t", {})))

--- a finaliser
--! raises got a metatable with __gc
setmetatable({}, { __gc = function() while true do end end })

--- a finaliser that comes later
local meta = {}
local t = setmetatable({}, meta)
meta.__gc = function() ran = true end
t = nil
collectgarbage()
collectgarbage()
assert(not ran)

--- a finaliser that comes later, in a copy
local meta = {}
local t = setmetatable({ tide.ones(2) }, meta)
meta.__gc = function() ran = true end
local copy = tide.to(t, "cpu", { copy = true })
assert(getmetatable(copy) == meta and meta.__gc and copy ~= t)
t, copy = nil, nil
collectgarbage()
collectgarbage()
assert(not ran)

--- a finaliser under another metatable
--! raises got a metatable with __gc
local t = setmetatable({}, {})
setmetatable(t, { __gc = true })

--- setmetatable is as ever otherwise
assert(setmetatable({}, { __index = { x = 1 } }).x == 1 and getmetatable(setmetatable({}, nil)) == nil)
assert(not pcall(setmetatable, 1, {}) and not pcall(setmetatable, {}) and not pcall(setmetatable, tide.ones(1), {}))

--- the functions of strings for every string
--! raises attempt to index a string value
getmetatable("").__index = function() return print end

--- a forged tensor
local real = tide.ones(2)
local forged = setmetatable({}, { __index = real, __name = "tide.Tensor" })
assert(not pcall(tide.add, forged, 1) and not pcall(tide.Tensor.item, forged))

--- the metamethods of a tensor for another value
local x = tide.ones(2)
assert(not pcall(tide.Tensor.add, tide.float32, 1) and not pcall(tide.Tensor.add, tide.cuda.Stream(), 1))
assert(not pcall(tide.Tensor.add, x.shape, 1))

--- an error with a __tostring of the script's
local ok, e = pcall(error, setmetatable({}, { __tostring = function() return "mine" end }))
assert(not ok and tostring(e) == "mine")

--- a library's name through require's table
assert(_G.package == nil and rawget(_G, "require") == nil)

--- the globals through an environment
local env = _ENV
assert(env.os == nil and env.io == nil and _G.os == nil)
