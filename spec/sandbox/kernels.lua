--- an endless while on the CPU, by time
--! quota milliseconds=200
--! raises used up
--! ends
tide.kernel "function(i, x) while true do x[i] = x[i] + 1 end end"(10, tide.zeros(10))

--- an endless while on the CPU that the host kills, compiled
--! kill 2500
--! raises the host has ended this work
--! ends
local k = tide.kernel("function(i, x, n) while n > 0 do x[i] = x[i] + 1 end end", { types = { "float32", 1, "integer" } })
k(10, tide.zeros(10), 0)
k:wait()
while true do k(10, tide.zeros(10), 1) end

--- an endless while on the CPU, by a kernel's time, compiled
--! quota kernel_ms=50
local k, x = tide.kernel("function(i, x, n) while n > 0 do x[i] = x[i] + 1 end end"), tide.zeros(10)
k(10, x, 0)
for _, compiled in ipairs { false, true } do
  local ok, e = pcall(k, 10, x, 1)
  assert(not ok and e.kind == "QuotaError" and tostring(e):find "stopped after %d+ ms", tostring(e))
  if compiled then assert(tostring(e):find "at kernel:1", tostring(e)) end
  k:wait()
end
assert(tide.ones(3):sum():item() == 3)

--- every loop on the CPU, by a kernel's time
--! quota kernel_ms=30
--! memory 200
local loops = {
  "while x[i] >= 0 do x[i] = x[i] + 0 end",
  "repeat x[i] = x[i] + 1 until x[i] < 0",
  "for k = 1, n do x[i] = x[i] + 1 end",
  "for k = n, 1, -1 do x[i] = x[i] + 1 end",
  "for k = 1, n, 1000000 do x[i] = x[i] + 1 end",
  "for k = 1, #x do for m = 1, #x do for p = 1, #x do for q = 1, #x do x[i] = x[i] + 1 end end end end",
  "for a = 1, 60 do for b = 1, 60 do for c = 1, 60 do for d = 1, 60 do for e = 1, 60 do x[i] = x[i] + 1 end end end end end",
  "for k = 1, 1e18, 0.5 do x[i] = x[i] + 1 end",
  "::again:: x[i] = x[i] + 1 if x[i] > 0 then goto again end",
}
local text = {}
for n, loop in ipairs(loops) do text[n] = ("if which == %d then %s end "):format(n, loop) end
local x, k = tide.ones(1000), tide.kernel("function(i, x, n, which)\n" .. table.concat(text, "\n") .. "\nend")
for _, compiled in ipairs { false, true } do
  k(1000, x, 0, 0)
  if compiled then k:wait() end
  for n, loop in ipairs(loops) do
    local ok, e = pcall(k, 1000, x, 1 << 60, n)
    assert(not ok and e.kind == "QuotaError" and tostring(e):find "stopped after %d+ ms", loop .. ": " .. tostring(e))
    if compiled then assert(tostring(e):find("at kernel:" .. n + 1, 1, true), loop .. ": " .. tostring(e)) end
    x:fill_(1)
  end
end
assert(tide.ones(3):sum():item() == 3)

--- loops with barriers on the CPU, by a kernel's time
--! quota kernel_ms=30
--! memory 200
local loops = {
  "while n > 0 do x[i] = x[i] + 1 tide.barrier() end",
  "while n > 0 do s[1] = 1 tide.barrier() if i > 7 then n = n + 1 end end",
  "while n > 0 do x[i] = x[i] + tide.block_sum(1) end",
}
local text = {}
for n, loop in ipairs(loops) do text[n] = ("if which == %d then %s end "):format(n, loop) end
local x = tide.ones(1000)
local k = tide.kernel("function(i, x, n, which) local s = tide.shared(tide.float32, 256)\n" .. table.concat(text, "\n") .. "\nend")
for _, compiled in ipairs { false, true } do
  k(1000, x, 0, 0)
  if compiled then k:wait() end
  for n, loop in ipairs(loops) do
    local ok, e = pcall(k, 1000, x, 1 << 60, n)
    assert(not ok and tostring(e):find "stopped after %d+ ms", loop .. ": " .. tostring(e))
    x:fill_(1)
  end
end

--- every loop on a device, by a kernel's time
--! quota kernel_ms=30
--! grant WAITS
--! memory 200
local loops = {
  "while x[i] >= 0 do x[i] = x[i] + 0 end",
  "repeat x[i] = x[i] + 1 until x[i] < 0",
  "for k = 1, n do x[i] = x[i] + 1 end",
  "for k = 1, #x do for m = 1, #x do for p = 1, #x do for q = 1, #x do x[i] = x[i] + 1 end end end end",
  "for k = 1, 1e18, 0.5 do x[i] = x[i] + 1 end",
  "::again:: x[i] = x[i] + 1 if x[i] > 0 then goto again end",
  "while n > 0 do x[i] = x[i] + 1 tide.barrier() end",
}
local text = {}
for n, loop in ipairs(loops) do text[n] = ("if which == %d then %s end "):format(n, loop) end
local x = tide.ones(1000, { device = "cuda" })
local k = tide.kernel("function(i, x, n, which)\n" .. table.concat(text, "\n") .. "\nend")
for _, compiled in ipairs { false, true } do
  k(1000, x, 0, 0)
  if compiled then k:wait() end
  for n, loop in ipairs(loops) do
    k(1000, x, 1 << 60, n)
    local ok, e = pcall(function() return x:sum():item() end)
    assert(not ok and e.kind == "QuotaError" and tostring(e):find "stopped after %d+ ms", loop .. ": " .. tostring(e))
    assert(tide.ones(3, { device = "cuda" }):sum():item() == 3)
    x:fill_(1)
  end
end

--- an endless kernel on a device that nobody waits for
--! quota milliseconds=100
--! raises used up
--! ends
local x = tide.zeros(10, { device = "cuda" })
for i = 1, 20 do tide.kernel "function(i, x) while true do x[i] = x[i] + 1 end end"(10, x) end
while true do end

--- an endless kernel on a device that the host kills
--! kill 200
--! raises the host has ended this work
--! ends
local x = tide.zeros(10, { device = "cuda" })
tide.kernel "function(i, x) while true do x[i] = x[i] + 1 end end"(10, x)
while true do end

--- an endless kernel in a graph
--! quota kernel_ms=30
--! grant WAITS
local x, g = tide.ones(10, { device = "cuda" }), tide.cuda.CUDAGraph()
local n = tide.zeros(1, { device = "cuda" })
local k = tide.kernel "function(i, x, n) while n[1] > 0 do x[i] = x[i] + 1 end end"
k(10, x, n)
tide.cuda.graph(g, function() k(10, x, n) end)
g:replay()
assert(x:sum():item() == 10)
n:fill_(1)
for i = 1, 3 do
  g:replay()
  local ok, e = pcall(function() return x:sum():item() end)
  assert(not ok and tostring(e):find "stopped after %d+ ms", tostring(e))
end
n:fill_(0)
x:fill_(1)
g:replay()
assert(x:sum():item() == 10)

--- a grid without end on the CPU
--! quota kernel_ms=50
--! raises stopped after
local k = tide.kernel "function(i, x) if i == 1 then x[1] = 1 end end"
k(1 << 42, tide.zeros(1))

--- a grid that is too large
--! raises expected at most
tide.kernel "function(i, x) x[1] = 1 end"(1 << 60, tide.zeros(1))

--- a grid without end on a device
--! quota kernel_ms=50
--! grant WAITS
--! raises stopped after
local x = tide.zeros(1, { device = "cuda" })
tide.kernel "function(i, x) tide.atomic.add(x, 1, 1) end"(1 << 38, x)
x:item()

--- an oracle that loops
--! quota instructions=100000
--! raises used up
tide.kernel.interpret(function(i, x) while true do end end, 10, tide.zeros(10))

--- a kernel that tests nothing
--! raises the host has not granted this script NATIVE
tide.kernel("function(i, x) x[i] = 1 end", { check = false })

--- a kernel that tested nothing tests after a restriction
--! grant NATIVE WAITS
--! then WAITS
local k = tide.kernel("function(i, x) x[i * 1000000] = 1 end", { check = false })
restrict()
local ok, e = pcall(k, 10, tide.zeros(10))
assert(not ok and tostring(e):find "index out of range", tostring(e))

--- indexes outside of everything
local function fails(body, ...)
  local k = tide.kernel("function(i, x, n) " .. body .. " end")
  for turn = 1, 2 do
    local ok, e = pcall(k, 4, ...)
    assert(not ok and tostring(e):find "index out of range", body .. ": " .. tostring(e))
    k:wait()
  end
end
local x = tide.zeros(4)
for _, n in ipairs { 0, -1, 5, 1 << 31, 1 << 40, 1 << 62, -(1 << 62), math.mininteger, math.maxinteger } do
  fails("x[n] = 1", x, n)
  fails("x[i] = x[n]", x, n)
  fails("x[i + n] = 1", x, n > 0 and n or n - 8)
  fails("tide.atomic.add(x, n, 1)", x, n)
  fails("local s = tide.shared(tide.float32, 4) s[n] = 1 tide.barrier() x[i] = s[1]", x, n)
  fails("local v = tide.vec3(1, 2, 3) x[i] = v[n]", x, n == 5 and 4 or n)
  fails("local m = tide.mat3(1, 2, 3, 4, 5, 6, 7, 8, 9) x[i] = m[n][1]", x, n == 5 and 4 or n)
  fails("local t = x x[i] = t[n]", x, n)
end
assert(x:eq(0):all() or true)

--- a tensor that is smaller at the next call
local k, x = tide.kernel "function(i, x) x[i] = 1 end", tide.zeros(100000)
local call = k:on(100000, x)
call()
assert(x:sum():item() == 100000)
local small = x:narrow(1, 1, 10)
assert(not pcall(k, 100000, small))
assert(not pcall(k:on(11, small)) and x:sum():item() == 100000)

--- results that go elsewhere
local k = tide.kernel "function(i) return i end"
for _, out in ipairs { tide.zeros(3), tide.zeros(5), tide.zeros(2, 2), tide.zeros(1):expand(4) } do
  pcall(k, 4, { out = out })
  assert(not out:gt(4):any():item())
end

--- names and numbers of a script are no text of C
for _, name in ipairs { '"); injected("x");//', "%s%s%n%n", "a\nint x;", "*/ x /*", ("x"):rep(5000), "\0\0", "../../x", "#include <injected>" } do
  local k = tide.kernel("function(i, x) x[i] = 1 end", { name = name })
  k(1, tide.zeros(1))
  k:wait()
  for _, device in ipairs { "cpu", "cuda" } do assert(not k:source(device):find("injected", 1, true)) end
  local ok, e = pcall(k, 2, tide.zeros(1))
  assert(not ok)
end
local huge, tiny, nan, t = math.huge, 5e-324, 0 / 0, { math.huge, -math.huge, 0 / 0, 1e308, -0.0 }
local k = tide.kernel(load [[local huge, tiny, nan, t = ...
return function(i, x) x[1] = huge x[2] = tiny x[3] = nan x[4] = t[1] x[5] = t[i] end]](huge, tiny, nan, t))
k(1, tide.zeros(5))
k:wait()
k(1, tide.zeros(5))

--- too much memory of blocks
--! raises expected at most 49152
local text = {}
for n = 1, 100 do text[n] = "local s" .. n .. " = tide.shared(tide.float32, 12000) s" .. n .. "[1] = 1" end
tide.kernel("function(i, x) do " .. table.concat(text, " end do ") .. " end end")(1, tide.zeros(1))

--- a kernel that is very long
--! raises the kernel is too long
--! memory 500
local text = {}
for n = 1, 3000 do text[n] = "x[i] = x[i] * " .. n end
tide.kernel("function(i, x) " .. table.concat(text, " ") .. " end")(1, tide.zeros(1))

--- functions that call each other twice, without end
--! quota instructions=2000000
--! memory 300
--! raises used up
local text = { "local function f0(x) return x + 1 end" }
for n = 1, 40 do text[#text + 1] = ("local function f%d(x) return f%d(x) * f%d(x + 1) end"):format(n, n - 1, n - 1) end
tide.kernel("function(i, x) " .. table.concat(text, " ") .. " x[i] = f40(x[i]) end")(1, tide.zeros(1))

--- fused operations
local f = tide.fuse(function(x, y) return (x * y):sin() + x end)
local x = tide.ones(10)
assert(f(x, x).shape[1] == 10)

--- the library's own modules by other names, which are read-only
local atomic, random, module = tide.atomic, tide.random, tide
local x = tide.zeros(1)
tide.kernel(load [[local atomic, random, module = ...
return function(i, x)
  local v = module.vec2(1, random.uniform(1, i))
  atomic.add(x, 1, v.x + (v.y < 2 and 1 or 0))
end]](atomic, random, module))(3, x)
assert(x[1]:item() == 6)

--- fused functions whose numbers change, by instructions
--! quota instructions=300000
--! raises used up
--! ends
local f, x = tide.fuse(function(a, t) return (a * t + 1) * t end), tide.ones(40000)
for t = 1, math.huge do f(x, t) end

--- fused functions whose numbers change, that the host kills
--! kill 300
--! raises the host has ended this work
--! ends
local f, x, t = tide.fuse(function(a, t) return (a * t + 1) * t end), tide.ones(40000), 0
while true do pcall(function() t = t + 1 f(x, t) end) end

--- an endless loop in a fused function
--! quota milliseconds=200
--! raises used up
--! ends
local f = tide.fuse(function(a, t)
  local y = a * t + 1
  while t > 3 do y = y end
  return y * t
end)
local x = tide.ones(40000)
for t = 1, 4 do f(x, t) end

--- fused functions whose numbers change give what they give alone
--! quota instructions=10000000
local fn = function(a, t) a:add_(t) local y = (a * t + 1):tanh() return y * t, a end
local f, x, z = tide.fuse(fn), tide.ones(40000), tide.ones(40000)
for t = 1, 40 do
  local y, w = f(x, t), fn(z, t)
  assert((y - w):abs():max():item() == 0 and x:equal(z))
end

--- fused functions that call Lua's library, in the forms that the host can end
--! quota instructions=10000000
local x = tide.ones(40000)
local f = tide.fuse(function(a, t)
  local list = {}
  table.insert(list, a * t)
  for i, v in ipairs(list) do list[i] = v + #("x"):rep(t) + #string.format("%d", t) end
  local fine = not pcall(math.abs, -1)
  return list[1]:tanh() + (fine and 1 or 2), setmetatable({}, { __index = list })[1]
end)
local g = tide.fuse(function(a, t) return a * tonumber(("%d"):format(t)) + select(2, pcall(math.floor, t)) end)
for t = 1, 6 do
  assert((f(x, t)):equal((x * t + t + 1):tanh() + 2))
  assert(g(x, t):equal(x * t + t))
end
local shown
print = function(text) shown = text end
f:explain()
assert(shown:find("mul add add tanh add", 1, true), shown)
g:explain()
assert(shown:find("1. mul add: ", 1, true), shown)
