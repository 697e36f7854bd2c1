-- compile.lua: how long it takes until a kernel that is made from text is there: fused chains of seven arithmetic operations
-- and of six functions (tanh, exp, floor and others, each with an addition), and kernels written in Lua, on cuda:0
-- (TIDE_DEVICE=cpu: the CPU). usage: compile.lua [salt [fuse|kernel]]
-- `salt`, a number, makes other kernels of all of them; the word after it says what this process makes first, as its first
-- kernel opens the compiler: `kernel` makes no fused function. TIDE_KERNEL_CACHE_PATH should name a
-- folder of its own, empty, and then once more as the first run has left it, with the same salt: what a warm start takes.
-- NVRTC keeps a cache of its own (CUDA_CACHE_DISABLE=1 turns it off).
local tide = require "tide"
tide.manual_seed(1)
package.path = arg[0]:match "^(.-)[^/]*$" .. "?.lua;" .. package.path
local bench = require "bench"
local salt, first = tonumber(arg[1] or os.time()) % 100000, arg[2] or "fuse"
local cpu = os.getenv "TIDE_DEVICE" == "cpu"
local options = { device = cpu and "cpu" or "cuda" }
local sync = cpu and function() end or tide.cuda.synchronize

-- ---- what is made, and a function that calls it ----

local arithmetic = {
  function(a) return a * 2 end, function(a) return a + 1 end, function(a, x) return a * x end, function(a, x) return a + x end,
  function(a) return a:abs() end, function(a, x) return x - a end, function(a) return a - 3 end,
}
local functions = { "abs", "neg", "relu", "square", "floor", "ceil", "sign", "trunc", "sigmoid", "tanh", "exp", "sqrt" }
for k, name in ipairs(functions) do functions[k] = function(a) return a[name](a) + 1 end end
local x, y = tide.rand(64, 64, options), tide.rand(64, 64, options)

-- Differ by their operations, as numbers are no part of a fused function's text.
local function chain_of(list, steps, i)
  local chosen, n = {}, salt * 31 + i
  for k = 1, steps do chosen[k], n = list[n % #list + 1], n // #list + 7 * k end
  local f = tide.fuse(function(a)
    local r = a
    for k = 1, steps do r = chosen[k](r, a) end
    return r
  end)
  return f, function() f(x):free() end
end
local function chain(i) return chain_of(arithmetic, 7, i) end
local function function_chain(i) return chain_of(functions, 6, i) end

-- What it is for is said when it is made where several are, as a call would wait for each of them.
local function kernel(i, several)
  local k = tide.kernel(([[function(i, j, a, b)
  if i > 1 and i < #a and j > 1 and j < a.shape[2] then
    b[i][j] = %d * a[i][j] - b[i][j] + 0.1 * (a[i - 1][j] + a[i + 1][j] + a[i][j - 1] + a[i][j + 1])
  end
end]]):format(salt * 100 + i), { name = "step", types = several and { "float32", 2, "float32", 2 } or nil })
  return k, function() k({ 64, 64 }, x, y) end
end

-- ---- how long it takes ----

local function out(case, seconds) bench.out("compile_" .. case, seconds * 1e3, "ms") end

-- From before the first call to the end of one that its kernel has run.
local function one(make, i)
  local made, call = make(i)
  sync()
  local start = bench.now()
  call()
  local called = bench.now() - start
  made:wait()
  call()
  sync()
  return bench.now() - start, called
end

local function measure(name, make)
  local all, called = one(make, 1)
  out(name .. "_first_call", called)
  out(name .. "_first", all)
  local further = {}
  for i = 2, 9 do further[i - 1] = one(make, i) end
  out(name .. "_further", bench.median(further))
  local list, start = {}, bench.now()
  for i = 10, 17 do
    local made, begin = make(i, true)
    if name ~= "kernel" then begin() end
    list[i] = made
  end
  for i = 10, 17 do list[i]:wait() end
  out(name .. "_eight_at_once_each", (bench.now() - start) / 8)
end

local _ = x + y -- the device and its first kernel are there
sync()
if first == "fuse" then
  measure("fuse", chain)
  measure("fuse_functions", function_chain)
end
measure("kernel", kernel)
local i = tide.cuda.jiterator.cache_info()
print(("# compiled %d, from the disk %d, compiler opened: %s"):format(i.misses, i.disk_hits, i.compiler_opened))
