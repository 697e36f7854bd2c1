-- What a script takes of memory, time and work is bounded, and an error about it is not swallowed.

--- an endless loop
--! quota instructions=100000
--! raises the 100000 instructions that the host allows are used up
--! ends
while true do end

--- an endless loop, by time
--! quota milliseconds=50
--! raises microseconds that the host allows are used up
--! ends
while true do end

--- an endless loop that the host kills
--! kill 50
--! raises the host has ended this work
--! ends
while true do end

--- errors of its own that it catches when the host kills it
--! kill 50
--! raises the host has ended this work
--! ends
while true do pcall(error, "mine") end

--- errors in coroutines that it catches when the host kills it
--! kill 50
--! raises the host has ended this work
while true do
  coroutine.resume(coroutine.create(error), "mine")
  xpcall(coroutine.wrap(error), tostring, tide)
end

--- errors of an operation that it catches when the host kills it
--! kill 50
--! raises the host has ended this work
while true do pcall(tide.ge, 1) end

--- an error on its way when a finaliser takes what is left
--! give finalisers
--! quota launches=10
--! raises the 10 launches that the host allows are used up
--! ends
local x = tide.ones(4)
pcall(function()
  setmetatable({}, { __gc = function() for _ = 1, 20 do x:add_(1) end end })
  collectgarbage()
  error "mine"
end)

--- pcall in a loop
--! quota instructions=100000
--! raises used up
--! ends
while true do pcall(function() while true do end end) end

--- pcall of pcall of pcall
--! quota instructions=100000
--! raises used up
local function again() return pcall(pcall, pcall, function() while true do end end) end
while true do again() again() end

--- xpcall with a handler that goes on
--! quota instructions=100000
--! raises used up
while true do xpcall(function() while true do end end, function() while true do end end) end

--- a coroutine that swallows
--! quota instructions=100000
--! raises used up
--! ends
while true do coroutine.resume(coroutine.create(function() while true do end end)) end

--- coroutine.wrap in pcall
--! quota instructions=100000
--! raises used up
while true do pcall(coroutine.wrap(function() while true do end end)) end

--- coroutines in coroutines
--! quota instructions=100000
--! raises used up
local function deeper(n)
  while true do
    local co = coroutine.wrap(function() deeper(n - 1) end)
    if n > 0 then pcall(co) end
  end
end
deeper(60)

--- coroutines that were made before
--! quota instructions=300000
--! raises used up
local list = {}
for i = 1, 200 do
  list[i] = coroutine.create(function() while true do pcall(coroutine.yield) end end)
end
while true do
  for i = 1, 200 do coroutine.resume(list[i]) end
end

--- a coroutine for each few instructions
--! quota milliseconds=200
--! raises used up
--! ends
while true do coroutine.wrap(function() local x = 1 for i = 1, 50 do x = x + i end end)() end

--- coroutine.wrap that closes what loops
--! quota instructions=100000
--! raises used up
--! ends
coroutine.wrap(function()
  local guard <close> = setmetatable({}, { __close = function() while true do end end })
  while true do end
end)()

--- coroutine.close of what was ended
--! quota instructions=100000
--! raises the host has ended this coroutine
local co = coroutine.create(function()
  local guard <close> = setmetatable({}, { __close = function() while true do end end })
  while true do end
end)
local parent <close> = setmetatable({}, { __close = function() coroutine.close(co) end })
coroutine.resume(co)

--- coroutines are as ever otherwise
local log = {}
local f = coroutine.wrap(function(a)
  local guard <close> = setmetatable({}, { __close = function(_, e) log[#log + 1] = e end })
  local b = coroutine.yield(a + 1)
  error(b)
end)
assert(f(1) == 2)
local ok, e = pcall(f, "no")
assert(not ok and e:find "no" and log[1] and log[1]:find "no")
assert(select(2, pcall(f)):find "cannot resume dead coroutine" and not pcall(coroutine.wrap, 1))
local co = coroutine.create(function() local x <close> = setmetatable({}, { __close = function() error "late" end }) coroutine.yield() end)
coroutine.resume(co)
local closed, message = coroutine.close(co)
assert(not closed and message:find "late" and coroutine.status(co) == "dead")
local ok, message = xpcall(error, function(m) return m .. "!" end, "x")
assert(not ok and message == "x!" and select("#", xpcall(function(...) return ... end, print, 1, 2, 3)) == 4)
local inner = coroutine.wrap(function() return pcall(function() return coroutine.yield(1) end) end)
assert(inner() == 1 and select(2, inner(5)) == 5)

--- coroutine.close with a __close that loops
--! quota instructions=100000
--! raises used up
local co = coroutine.create(function()
  local guard <close> = setmetatable({}, { __close = function() while true do end end })
  coroutine.yield()
end)
coroutine.resume(co)
coroutine.close(co)
while true do end

--- __close that goes on after the end
--! quota instructions=100000
--! raises used up
--! ends
local function guard() return setmetatable({}, { __close = function() while true do pcall(function() while true do end end) end end }) end
local a <close>, b <const> = guard(), 1
local c <close> = guard()
while true do end

--- __index that loops
--! quota instructions=100000
--! raises used up
local t = setmetatable({}, { __index = function() while true do end end })
while true do pcall(function() return t.x end) end

--- __eq, __lt, __concat, __len and __call that loop
--! quota instructions=100000
--! raises used up
local function forever() while true do end end
local meta = { __eq = forever, __lt = forever, __concat = forever, __len = forever, __call = forever }
local a, b = setmetatable({}, meta), setmetatable({}, meta)
for _, f in ipairs { function() return a == b end, function() return a < b end, function() return a .. b end,
  function() return #a end, function() return a() end } do pcall(f) end

--- an error whose __tostring loops
--! quota instructions=100000
--! raises used up
error(setmetatable({}, { __tostring = function() while true do end end }))

--- an error whose __tostring is no string
local ok, e = pcall(error, setmetatable({}, { __tostring = function() return {} end }))
assert(not ok and not pcall(tostring, e))

--- a comparator of sort that loops
--! quota instructions=100000
--! raises used up
table.sort({ 3, 2, 1 }, function() while true do end end)

--- a replacement of gsub that loops
--! quota instructions=100000
--! raises used up
string.gsub("abc", ".", function() while true do end end)

--- a reader of load that loops
--! quota instructions=100000
--! raises used up
while true do load(function() while true do end end) end

--- a function for each element that loops
--! quota instructions=100000
--! raises used up
--! ends
tide.ones(3):apply_(function() while true do end end)

--- a function for two tensors that catches
--! quota instructions=100000
--! raises used up
while true do
  pcall(function() tide.ones(3):map_(tide.ones(3), function(a, b) while true do end end) end)
end

--- a loop in a stream's block
--! quota instructions=100000
--! raises used up
--! ends
tide.cuda.stream(tide.cuda.Stream(), function() while true do end end)

--- a loop in a scope
--! quota instructions=100000
--! raises used up
tide.scope(function() while true do pcall(function() while true do end end) end end)

--- a loop in a capture
--! quota instructions=100000
--! raises used up
tide.cuda.graph(tide.cuda.CUDAGraph(), function() while true do end end)

--- a data set that loops
--! quota instructions=100000
--! raises used up
local data = setmetatable({}, { __len = function() return 10 end, __index = function() while true do end end })
for batch in tide.data.loader(data, { batch_size = 2 }):iter() do end

--- a collate that loops
--! quota instructions=100000
--! raises used up
for batch in tide.data.loader({ 1, 2, 3, 4 }, { batch_size = 2, collate = function() while true do end end }):iter() do end

--- replicas that loop
--! quota instructions=100000
--! raises used up
tide.parallel.data_parallel(function(x) while true do end end, tide.ones(4, 2, { device = "cuda" }))

--- replicas that loop where they are closed
--! quota instructions=100000
--! raises used up
tide.parallel.data_parallel(function(x)
  local guard <close> = setmetatable({}, { __close = function() while true do end end })
  while true do end
end, tide.ones(4, 2, { device = "cuda" }))

--- operations without end
--! quota launches=1000
--! raises the 1000 launches that the host allows are used up
--! ends
local x = tide.ones(4)
while true do x = x + 1 end

--- operations without end on a device, caught
--! quota launches=1000
--! raises used up
--! ends
local x = tide.ones(4, { device = "cuda" })
while true do pcall(function() x:add_(1) end) end

--- replays without end
--! quota launches=1000
--! raises used up
local g, x = tide.cuda.CUDAGraph(), tide.ones(4, { device = "cuda" })
tide.cuda.graph(g, function() x:add_(1) end)
while true do g:replay() end

--- one long operation, by time
--! quota milliseconds=100
--! raises used up
--! ends
local x = tide.ones(1 << 12, 1 << 12)
while true do x:matmul(x) end

--- one long operation that the host kills
--! kill 100
--! raises the host has ended this work
--! ends
local x = tide.ones(1 << 12, 1 << 12)
while true do pcall(function() return x:matmul(x) end) end

--- a long sum that the host kills
--! kill 50
--! raises the host has ended this work
local x = tide.ones(1 << 20):expand(1 << 12, 1 << 20)
while true do pcall(function() return x:sum() end) end

--- a table of a large tensor, by time
--! quota milliseconds=100
--! memory 2000
--! raises used up
local x = tide.zeros(1 << 24)
while true do x:totable() end

--- host memory
--! quota host_bytes=1000000
--! raises expected at most the 1000000 bytes in host memory
tide.zeros(1 << 20)

--- host memory in small pieces
--! quota host_bytes=1000000
--! raises bytes in host memory that the host allows
local list = {}
while true do list[#list + 1] = tide.zeros(1) end

--- host memory of empty tensors
--! quota host_bytes=1000000
--! raises bytes in host memory that the host allows
local list = {}
while true do list[#list + 1] = tide.zeros(0) end

--- host memory that is page-locked
--! quota host_bytes=1000000
--! raises bytes in host memory
tide.zeros(1 << 20, { pin_memory = true })

--- host memory by a product of sizes
--! quota host_bytes=1000000
for _, f in ipairs { function() return tide.zeros(1 << 40, 1 << 40) end, function() return tide.zeros(1 << 62) end,
  function() return tide.arange(1 << 50) end, function() return tide.eye(1 << 20) end,
  function() return tide.ones(1 << 12):tile(1 << 20) end, function() return tide.ones(1 << 12, 1):expand(1 << 12, 1 << 20):clone() end,
  function() return tide.cartesian_prod(tide.arange(1000), tide.arange(1000), tide.arange(1000)) end,
  function() return tide.combinations(tide.arange(1000), 5) end, function() return tide.plot({ 1 }, { width = 1 << 20, height = 1 << 20 }) end,
  function() return tide.ones(2):repeat_interleave(1 << 40) end } do
  local ok, e = pcall(f)
  assert(not ok, tostring(e))
end

--- host memory comes back
--! quota host_bytes=10000000
for i = 1, 100 do
  local x = tide.zeros(1 << 20)
  x = nil
  if i % 2 == 0 then collectgarbage() end
end
local x <close> = tide.zeros(1 << 20)
assert(not pcall(tide.zeros, 1 << 21) and tide.zeros(1 << 10):sum():item() == 0)

--- streams without end
--! quota host_bytes=10000000
--! raises bytes in host memory that the host allows
local list = {}
while true do list[#list + 1] = tide.cuda.Stream() end

--- events without end
--! quota host_bytes=10000000
--! raises bytes in host memory that the host allows
local list = {}
while true do list[#list + 1] = tide.cuda.Event() end

--- graphs without end
--! quota host_bytes=10000000
--! raises bytes in host memory that the host allows
local list = {}
while true do list[#list + 1] = tide.cuda.CUDAGraph() end

--- streams, events and graphs that are dropped
--! quota host_bytes=10000000
for i = 1, 3000 do
  local s, e, g = tide.cuda.Stream(), tide.cuda.Event(), tide.cuda.CUDAGraph()
  if i % 30 == 0 then collectgarbage() end
end

--- views without end
--! memory 8
--! raises not enough memory
local x, list = tide.ones(2, 2), {}
while true do list[#list + 1] = x:t() end

--- batches ahead without end
--! quota host_bytes=1000000
for _, n in ipairs { 1 << 20, 1 << 40, 1 << 62 } do
  pcall(function() for _ in tide.data.loader({ 1, 2, 3, 4 }, { prefetch = n }):iter() do end end)
end

--- scopes in scopes without end
--! quota instructions=1000000
--! raises overflow
local function f() return tide.scope(f) end
f()

--- a capture that stays open
tide.cuda.set_stream(tide.cuda.Stream())
tide.cuda.CUDAGraph():capture_begin()

--- device memory
--! quota device_bytes=1000000
--! raises expected at most the 1000000 bytes on devices
tide.zeros(1 << 20, { device = "cuda" })

--- device memory of several devices
--! quota device_bytes=5000000
--! raises bytes on devices that the host allows
local a = tide.zeros(1 << 20, { device = "cuda:0" })
local b = tide.zeros(1 << 20, { device = "cuda:1" })

--- device memory in a coroutine
--! quota device_bytes=1000000
--! raises bytes on devices that the host allows
coroutine.wrap(function() tide.zeros(1 << 20, { device = "cuda" }) end)()

--- device memory in a pool
--! quota device_bytes=1000000
--! raises bytes on devices that the host allows
tide.cuda.use_mem_pool(tide.cuda.MemPool(), function() tide.zeros(1 << 20, { device = "cuda" }) end)

--- device memory in a capture
--! quota device_bytes=1000000
--! raises bytes on devices that the host allows
tide.cuda.graph(tide.cuda.CUDAGraph(), function() tide.zeros(1 << 20, { device = "cuda" }) end)

--- memory that pools keep, with nothing in it
--! quota device_bytes=20000000
local pools, before, most = {}, tide.cuda.memory_reserved(), 0
for i = 1, 100 do -- one that the quota refuses may go on later, where pieces without work have gone back
  pools[i] = tide.cuda.MemPool()
  pcall(tide.cuda.use_mem_pool, pools[i], function() tide.zeros(1 << 18, { device = "cuda" }):free() end)
  most = math.max(most, tide.cuda.memory_reserved() - before)
end
assert(most <= 20000000, most)

--- memory that graphs keep, with nothing in it
--! quota device_bytes=40000000
local graphs, s, before, most = {}, tide.cuda.Stream(), tide.cuda.memory_reserved(), 0
for i = 1, 100 do
  graphs[i] = tide.cuda.CUDAGraph()
  pcall(tide.cuda.graph, graphs[i], { stream = s }, function() (tide.zeros(1 << 18, { device = "cuda" }) + 1):free() end)
  most = math.max(most, tide.cuda.memory_reserved() - before)
end
assert(most <= 40000000, most)

--- pools that are dropped
--! grant WAITS
--! quota device_bytes=20000000
for i = 1, 100 do
  tide.cuda.use_mem_pool(tide.cuda.MemPool(), function() tide.zeros(1 << 18, { device = "cuda" }) end)
end

--- one pool that serves again and again
--! quota device_bytes=20000000
local pool = tide.cuda.MemPool()
for i = 1, 100 do
  tide.cuda.use_mem_pool(pool, function() tide.zeros(1 << 18, { device = "cuda" }):free() end)
end

--- device memory by data_parallel
--! quota device_bytes=1000000
--! raises bytes on devices that the host allows
tide.parallel.data_parallel(function(x) return tide.zeros(1 << 20, { device = x.device }) end, tide.ones(4, 2, { device = "cuda" }))

--- compilations
--! grant NATIVE
--! quota compiles=2
--! raises the 2 compilations that the host allows are used up
local own = tostring({}):match "0x%x+" -- no text that the disk's cache has
for i = 1, 10 do
  tide.cuda.jiterator.create_jit_fn("template <typename T> T sandbox(T x) { return x + " .. own .. "u + " .. i .. "; }")(tide.ones(2))
end

--- a wait that hides in item
--! raises would make the host wait for a device
tide.ones(2, { device = "cuda" }):sum():item()

--- a wait that hides in print
--! raises would make the host wait for a device
tostring(tide.ones(2, { device = "cuda" }))

--- a wait that hides in a copy
--! raises would make the host wait for a device
tide.ones(2, { device = "cuda" }):cpu()

--- a wait that hides in a mask
--! raises would make the host wait for a device
local x = tide.ones(2, { device = "cuda" })
return x[x:gt(0)]

--- a wait that hides in await, outside of a coroutine
--! raises await: the host has not granted this script WAITS
assert(tide.await(tide.ones(2))[1] == 1)
local x = tide.ones(2, { device = "cuda" })
local got
local co = coroutine.wrap(function() got = tide.await(x) return true end)
repeat until co()
assert(got[1] == 1)
for _, what in ipairs { tide.cuda.current_stream(), tide.cuda.current_stream():record_event(), tide.cuda.CUDAGraph() } do
  assert(not pcall(tide.await, what))
end
tide.await(x)

--- a wait that hides in the begin of a capture
--! quota kernel_ms=500
local x, g = tide.zeros(10, { device = "cuda" }), tide.cuda.CUDAGraph()
tide.kernel "function(i, x) while true do x[i] = x[i] + 1 end end"(10, x)
local done = tide.cuda.current_stream():record_event()
tide.cuda.graph(g, function() local y = tide.ones(2, { device = "cuda" }) + 1 end)
assert(not done:query(), "it waited")

--- a wait in a coroutine, after a restriction
--! grant WAITS
--! then
--! raises would make the host wait for a device
local x = tide.ones(2, { device = "cuda" })
assert(x:sum():item() == 2)
restrict()
coroutine.wrap(function() return x:sum():item() end)()

--- the hook is not the script's to remove
assert(not debug)

--- a hook of debug.sethook, or none, hides no quota
--! give debug
--! quota instructions=100000
--! raises used up
--! ends
debug.sethook()
while true do end

--- a hook of lines hides no time
--! give debug
--! quota milliseconds=100
--! raises used up
--! ends
debug.sethook(function() end, "l")
while true do end

--- a script that is killed under a hook of lines
--! give debug
--! kill 100
--! raises the host has ended this work
--! ends
debug.sethook(function() end, "l")
while true do pcall(function() while true do end end) end

--- processor time
--! quota cpu_ms=100
--! raises microseconds of processor time that the host allows are used up
--! ends
while true do end

--- processor time in coroutines that catch
--! quota cpu_ms=100
--! raises used up
--! ends
while true do coroutine.wrap(function() pcall(function() while true do end end) end)() end

--- Lua's memory is the host's allocator's: a string
--! memory 16
--! raises not enough memory
local s = "x"
while true do s = s .. s end

--- Lua's memory: string.rep
--! memory 16
--! raises not enough memory
return ("x"):rep(1 << 30)

--- Lua's memory: a table
--! memory 16
--! raises not enough memory
local t = {}
while true do t[#t + 1] = {} end

--- Lua's memory: string.format and table.concat
--! memory 16
assert(not pcall(string.format, "%99999d", 1) and not pcall(table.concat, setmetatable({}, { __len = function() return 1 << 40 end })))
assert(not pcall(string.rep, "x", 1 << 60) and not pcall(table.unpack, {}, 1, 1 << 30))

--- Lua's memory: totable
--! memory 16
--! raises not enough memory
tide.zeros(1 << 22):totable()

--- Lua's memory: bytes
--! memory 16
--! raises not enough memory
tide.zeros(1 << 24):tostring_bytes()

--- Lua's memory: serialize
--! memory 16
local ok, e = pcall(function() return tide.serialize(tide.zeros(1 << 24)) end)
assert(not ok, "it fits")

--- a deep recursion
--! memory 256
--! raises stack overflow
local function f() return 1 + f() end
f()

--- a deep recursion of C
--! raises C stack overflow
local t = {}
for i = 1, 300 do t = setmetatable({}, { __index = t }) end
assert(not pcall(string.rep, nil))
local function f(x) return (string.gsub("a", "a", f)) end
f()

--- a tree that holds itself
local t = {}
t.t = t
assert(tide.deserialize(tide.serialize(t)).t)
assert(not pcall(tide.zeros, t) and not pcall(tide.tensor, t) and not pcall(tide.cat, t))

--- bytes that serialize did not write
local bytes = tide.serialize { x = tide.ones(3), y = { 1, 2, 3 } }
for i = 1, #bytes do
  pcall(tide.deserialize, bytes:sub(1, i - 1) .. string.char((bytes:byte(i) + 1) % 256) .. bytes:sub(i + 1))
  pcall(tide.deserialize, bytes:sub(1, i))
end

--- compilations of kernels written in Lua
--! quota compiles=2
--! raises the 2 compilations that the host allows are used up
local x, own = tide.ones(2), tostring({}):match "0x%x+" -- no text that the disk's cache has
for i = 1, 10 do tide.kernel("function(i, x) x[i] = x[i] + " .. own .. " + " .. i .. " end")(2, x) end

--- launches of kernels written in Lua
--! quota launches=50
--! raises the 50 launches that the host allows are used up
local x, k = tide.ones(2), tide.kernel "function(i, x) x[i] = 1 end"
for i = 1, 100 do k(2, x) end

--- small tensors that are dropped, in a heap of few megabytes
--! memory 8
for i = 1, 300000 do local x = tide.ones(4) + 1 end

--- a CSV file without an end
--! grant FILES
--! memory 1024
--! quota milliseconds=50
--! raises microseconds that the host allows are used up
--! ends
tide.load_csv("/dev/zero", { header = false })
