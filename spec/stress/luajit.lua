-- luajit.lua: random programs over tensors under LuaJIT, beside a model in plain Lua. Each seed chooses how the compiler works
-- (jit.opt), how the collector does, and a text of operations in a loop, in which most come to be machine code that calls
-- hot.c through the FFI. What is freed, collected or out of range in the middle of such a loop must be the ordinary error, and
-- what is read must be what the model has.
-- usage: LUA_CPATH=build/lib/lua/5.1/?.so luajit spec/stress/luajit.lua [--seconds N] [--device cuda] FIRST LAST
-- Prints the seed of a program that went wrong, with its text, and exits with 1.
local tide = require "tide"
local ffi = require "ffi"

local options, seeds = { seconds = "inf", device = "cpu" }, {}
do
  local i = 1
  while arg[i] do
    local name = arg[i]:match "^%-%-(%a+)$"
    if name then
      assert(options[name], arg[i])
      options[name], i = arg[i + 1], i + 2
    else
      seeds[#seeds + 1], i = tonumber(arg[i]), i + 1
    end
  end
end
local first, last = seeds[1] or 1, seeds[2] or seeds[1] or 1
local device, limit = options.device, tonumber(options.seconds) or math.huge
local on_cpu = device == "cpu"
local calls, done = 0, 0

-- ---- the model: views of lists of numbers ----

local function model_of(shape, fill)
  local n, strides = 1, {}
  for d = #shape, 1, -1 do strides[d], n = n, n * shape[d] end
  local store = {}
  for k = 0, n - 1 do store[k] = fill + k end
  return { store = store, at = 0, shape = shape, strides = strides, numel = n }
end

local function model_row(m, i)
  local shape, strides = {}, {}
  for d = 2, #m.shape do shape[d - 1], strides[d - 1] = m.shape[d], m.strides[d] end
  return { store = m.store, at = m.at + (i - 1) * m.strides[1], shape = shape, strides = strides, numel = m.numel / m.shape[1] }
end

-- The place of the k-th element (from 0) in the store.
local function place(m, k)
  local at = m.at
  for d = #m.shape, 1, -1 do
    at = at + k % m.shape[d] * m.strides[d]
    k = math.floor(k / m.shape[d])
  end
  return at
end

-- ---- what programs call ----

local W = { tide = tide, ffi = tide.ffi, lib = tide.ffi.lib }

local function differ(what, got, expected) error(("%s: got %s, expected %s"):format(what, tostring(got), tostring(expected)), 0) end

function W.same(what, got, expected)
  calls = calls + 1
  if got ~= expected then differ(what, got, expected) end
end

function W.fails(kind, f, ...)
  calls = calls + 1
  local ok, e = pcall(f, ...)
  if ok then differ("no error", e, kind) end
  if type(e) ~= "table" and type(e) ~= "userdata" or e.kind ~= kind then differ("another error", e, kind) end
end

local dtypes = { "float64", "float32", "int64", "int32", "int16" }
function W.make(a, b, fill, dtype)
  local shape = b > 0 and { a, b } or { a }
  local m = model_of(shape, fill)
  local x = tide.arange(fill, fill + m.numel, { dtype = dtypes[dtype], device = device })
  return { x = b > 0 and x:view(a, b) or x, m = m, dtype = dtype }
end

function W.row_of(v, i) return { x = v.x[i], m = model_row(v.m, i), dtype = v.dtype } end

-- The k-th element, by rows; `x` may be freed on the way.
function W.element(v, k)
  local x, m = v.x, v.m
  if #m.shape == 2 then
    local row = x[math.floor(k / m.shape[2]) + 1]
    return row[k % m.shape[2] + 1]:item()
  elseif #m.shape == 1 then
    return x[k + 1]:item()
  end
  return x:item()
end
W.place = place

function W.add(v, by)
  v.x:add_(by)
  for k = 0, v.m.numel - 1 do
    local at = place(v.m, k)
    v.m.store[at] = v.m.store[at] + by
  end
end

function W.sum_of(v, w)
  local m = model_of(v.m.shape, 0)
  for k = 0, m.numel - 1 do m.store[k] = v.m.store[place(v.m, k)] + w.m.store[place(w.m, k)] end
  return { x = v.x + w.x, m = m, dtype = math.min(v.dtype, w.dtype) }
end

-- Can they be added, with a result that every dtype holds?
function W.alike(v, w)
  for k = 0, v.m.numel - 1 do
    if math.abs(v.m.store[place(v.m, k)]) > 5000 then return false end
  end
  if #v.m.shape ~= #w.m.shape then return false end
  for d = 1, #v.m.shape do
    if v.m.shape[d] ~= w.m.shape[d] then return false end
  end
  for k = 0, w.m.numel - 1 do
    if math.abs(w.m.store[place(w.m, k)]) > 5000 then return false end
  end
  return true
end

-- All elements of a contiguous one in a line, in the same store.
function W.line(m)
  return { store = m.store, at = m.at, shape = { m.numel }, strides = { 1 }, numel = m.numel }
end

-- ---- texts of programs ----

local function make_random(seed)
  local state = seed % 2147483647 + 1
  for _ = 1, 3 do state = state * 16807 % 2147483647 end
  return function(n)
    state = state * 16807 % 2147483647
    return math.floor(state / 65536) % n + 1
  end
end

-- Each gives a statement; `a` and `b` are the names of two records, `r` gives random numbers.
local statements = {
  function(a) return ("local k = i %% %s.m.numel same('item', element(%s, k), %s.m.store[place(%s.m, k)])"):format(a, a, a, a) end,
  function(a) return ("local k = (i * 7) %% %s.m.numel same('item again', element(%s, k), %s.m.store[place(%s.m, k)])"):format(a, a, a, a) end,
  function(a) return ("same('numel', %s.x:numel(), %s.m.numel)"):format(a, a) end,
  function(a) return ("same('dim', %s.x:dim(), #%s.m.shape)"):format(a, a) end,
  function(a) return ("for d = 1, #%s.m.shape do same('size', %s.x:size(d), %s.m.shape[d]) end"):format(a, a, a) end,
  function(a) return ("if #%s.m.shape > 0 then same('last size', %s.x:size(-1), %s.m.shape[#%s.m.shape]) end"):format(a, a, a, a) end,
  function(a, b) return ("if #%s.m.shape > 0 then %s = row_of(%s, i %% %s.m.shape[1] + 1) end"):format(a, b, a, a) end,
  function(a) return ("if #%s.m.shape > 0 then fails('IndexError', function() return %s.x[%s.m.shape[1] + 1] end) end"):format(a, a, a) end,
  function(a) return ("if #%s.m.shape > 0 then fails('IndexError', function() return %s.x[0] end) end"):format(a, a) end,
  function(a) return ("if %s.m.numel > 1 then fails('ShapeError', %s.x.item, %s.x) end"):format(a, a, a) end,
  function(a, _, r) return ("add(%s, %d)"):format(a, r(5) - 3) end,
  function(a, b) return ("if alike(%s, %s) then %s = sum_of(%s, %s) end"):format(a, b, b, a, b) end,
  function(a) return ("if #%s.m.shape == 1 then %s.x[i %% %s.m.numel + 1] = i %% 50 %s.m.store[place(%s.m, i %% %s.m.numel)] = i %% 50 end"):format(a, a, a, a, a, a) end,
  function(a, b, r) return ("%s = make(%d, %d, %d, %d)"):format(b, r(4), r(5) - 1, r(20), r(#dtypes)) end,
  -- The tensor that a table alone holds is let go in the middle of a loop.
  function(a, b, r) return ("local t = { x = %s.x } local n = t.x:numel() t.x = nil t = { {}, {}, {} } same('gone', n, %s.m.numel)"):format(a, a) end,
  function(a, b, r)
    return ("if i %% %d == 0 then local v = make(%d, 3, 1, 1) local x = v.x x:free() fails('StateError', x.numel, x) " ..
      "fails('StateError', x.dim, x) fails('StateError', function() return x[1] end) fails('StateError', x.item, x) end"):format(r(9), r(4))
  end,
  -- One that is freed while others of its storage are read.
  function(a) return ("local v = { x = %s.x:view_as(%s.x), m = %s.m } same('view', element(v, 0), %s.m.store[place(%s.m, 0)]) v.x:free() fails('StateError', v.x.numel, v.x)"):format(a, a, a, a, a) end,
  function(a) return ("local kept tide.scope(function() kept = %s.x + 1 same('in a scope', kept:numel(), %s.m.numel) end) fails('StateError', kept.dim, kept)"):format(a, a) end,
  function(a) return ("if #%s.m.shape > 0 then local kept tide.scope(function() kept = %s.x[1] end) fails('StateError', kept.numel, kept) end"):format(a, a) end,
  function(a, b)
    return ("local f = coroutine.wrap(function() for j = 1, 3 do coroutine.yield(element(%s, j %% %s.m.numel)) end end) " ..
      "for j = 1, 3 do same('in a coroutine', f(), %s.m.store[place(%s.m, j %% %s.m.numel)]) same('between', %s.x:dim(), #%s.m.shape) end")
      :format(a, a, a, a, a, b, b)
  end,
  function(a) return ("local co = coroutine.create(function() local x = %s.x coroutine.yield(x) return x:numel() end) coroutine.resume(co)"):format(a) end,
  function(_, _, r) return ("if i %% %d == 0 then collectgarbage() end"):format(r(40)) end,
  function(_, _, r) return ("collectgarbage('step', %d)"):format(r(100)) end,
  function() return "local t = {} for j = 1, 20 do t[j] = { j } end" end,
  function(a) return ("local s = tostring(i) .. %s.x:numel() same('text', s, i .. '' .. %s.m.numel)"):format(a, a) end,
  function(a) return ("fails('ArgumentError', %s.x.numel, i)"):format(a) end,
  function(a) return ("fails('ArgumentError', %s.x.item, newproxy())"):format(a) end,
  function(_, _, r) return ("if i == %d then jit.flush() end"):format(r(60)) end,
}
-- The C library, by pointers that keep what is freed.
local of_library = {
  function(a) return ("local p = W.ffi.tensor(%s.x) same('C', tonumber(W.lib.tide_tensor_numel(p)), %s.m.numel)"):format(a, a) end,
  function(a)
    return ("local p = W.ffi.tensor(%s.x) for j = 1, 20 do same('ndim', W.lib.tide_tensor_ndim(p), #%s.m.shape) end"):format(a, a)
  end,
  function(_, _, r)
    return ("local v = make(%d, 3, 5, 1) local p = W.ffi.tensor(v.x) v.x:free() fails('StateError', W.ffi.tensor, v.x) v = nil " ..
      "collectgarbage('step', 30) same('kept', element({ x = W.ffi.wrap(p), m = { shape = { %d, 3 } } }, 1), 6)"):format(3, 3)
  end,
  function(a, b)
    return ("local out = W.ffi.new 'tide_tensor *[1]' local status = W.lib.tide_view(out, W.ffi.tensor(%s.x), W.ffi.new('int64_t[1]', -1), 1) " ..
      "if status == 0 then %s = { x = W.ffi.wrap(out[0]), m = W.line(%s.m), dtype = %s.dtype } W.lib.tide_tensor_release(out[0]) end"):format(a, b, a, a)
  end,
  function() return "fails('ArgumentError', W.ffi.wrap, W.ffi.cast('tide_tensor *', 0))" end,
}
for _, s in ipairs(of_library) do statements[#statements + 1] = s end

-- What only tensors in the host's memory have.
local of_cpu = {
  function(a) return ("local p = %s.x:ffi_ptr() same('pointer', tonumber(p[0]), %s.m.store[place(%s.m, 0)])"):format(a, a, a) end,
  function(a, b, r)
    return ("local v = make(%d, 0, i %% 30, %d) local p = v.x:ffi_ptr() v.x:free() v = nil collectgarbage('step', 50) " ..
      "same('kept', tonumber(p[0]), i %% 30) p = nil"):format(r(4), r(#dtypes))
  end,
  function(a, b, r)
    return ("local v = make(%d, %d, 3, 1) local p, sum = v.x:ffi_ptr(), 0 for k = 0, v.m.numel - 1 do p[k] = p[k] + 1 sum = sum + p[k] end " ..
      "local expected = 0 for k = 0, v.m.numel - 1 do expected = expected + 4 + k end same('loop', sum, expected) " ..
      "same('written', element(v, 0), 4)"):format(r(4), r(4))
  end,
}
if on_cpu then
  for _, s in ipairs(of_cpu) do statements[#statements + 1] = s end
end

local names = { "v1", "v2", "T.v3", "T.v4" }
local function program(r)
  local out = { "local W, T = ...", "local same, fails, make, row_of, element, place, add, sum_of, alike = W.same, W.fails, W.make, W.row_of, W.element, W.place, W.add, W.sum_of, W.alike",
    "local tide = W.tide" }
  for _, name in ipairs(names) do
    out[#out + 1] = ("%s%s = make(%d, %d, %d, %d)"):format(name:sub(1, 1) == "v" and "local " or "", name, r(4), r(5) - 1, r(20), r(#dtypes))
  end
  for _ = 1, r(3) do
    out[#out + 1] = ("for i = 1, %d do"):format(r(80) + 10)
    for _ = 1, r(7) do out[#out + 1] = "  do " .. statements[r(#statements)](names[r(#names)], names[r(#names)], r) .. " end" end
    out[#out + 1] = "end"
  end
  for _, name in ipairs(names) do
    out[#out + 1] = ("for k = 0, %s.m.numel - 1 do same('at the end', element(%s, k), %s.m.store[place(%s.m, k)]) end"):format(name, name, name, name)
  end
  return table.concat(out, "\n")
end

-- ---- how the compiler and the collector work ----

local switches = { "fold", "cse", "dce", "narrow", "loop", "fwd", "dse", "abc", "sink", "fuse" }
local function choose(r)
  local list = { "hotloop=" .. r(6), "hotexit=" .. r(4) }
  local level = r(8)
  if level <= 4 then list[#list + 1] = tostring(level - 1) end -- -O0 to -O3
  for _, s in ipairs(switches) do
    if r(6) == 1 then list[#list + 1] = "-" .. s end
  end
  if r(4) == 1 then list[#list + 1] = "maxtrace=" .. 10 + r(40) end
  if r(4) == 1 then list[#list + 1] = "maxrecord=" .. 50 + r(400) end
  if r(4) == 1 then list[#list + 1] = "maxmcode=" .. 32 * r(4) end
  if r(4) == 1 then list[#list + 1] = "maxsnap=" .. 20 + r(100) end
  if r(4) == 1 then list[#list + 1] = "loopunroll=" .. r(20) end
  if r(4) == 1 then list[#list + 1] = "tryside=" .. r(4) end
  return list
end

-- ---- several states: one is made, runs a program of its own in the middle of this one, and is closed ----

ffi.cdef [[
typedef struct lua_State lua_State;
lua_State *luaL_newstate(void);
void luaL_openlibs(lua_State *L);
int luaL_loadstring(lua_State *L, const char *text);
int lua_pcall(lua_State *L, int args, int results, int handler);
const char *lua_tolstring(lua_State *L, int index, size_t *length);
void lua_close(lua_State *L);
]]
local inner = [[
  package.cpath = %q
  local tide = require "tide"
  jit.opt.start("hotloop=2", "hotexit=2")
  local x, sum = tide.arange(12, {dtype = "float64", device = %q}):view(3, 4), 0
  local proxy = newproxy(true)
  getmetatable(proxy).__gc = function() pcall(function() for i = 1, 20 do x[1]:numel() x[1][1]:item() end end) end
  for i = 1, 60 do
    sum = sum + x[i %% 3 + 1][i %% 4 + 1]:item() + x:numel()
    if i %% %d == 0 then collectgarbage() end
  end
  assert(sum == 60 / 12 * 66 + 60 * 12, sum)
]]
local function other_state(r)
  local C, L = ffi.C, ffi.C.luaL_newstate()
  C.luaL_openlibs(L)
  local failed = C.luaL_loadstring(L, inner:format(package.cpath, device, r(20))) ~= 0 or C.lua_pcall(L, 0, 0, 0) ~= 0
  local why = failed and ffi.string(C.lua_tolstring(L, -1, nil))
  C.lua_close(L)
  if failed then error("another state: " .. why, 0) end
  calls = calls + 180
end
jit.off(other_state) -- it runs Lua, which compiled code must not call C for

-- ---- the seeds ----

local began = os.time()
for seed = first, last do
  local r = make_random(seed)
  local chosen = choose(r)
  jit.flush()
  jit.opt.start(3)
  jit.opt.start("hotloop=56", "hotexit=10", "maxtrace=1000", "maxrecord=4000", "maxmcode=512", "maxsnap=500", "loopunroll=15", "tryside=4")
  jit.opt.start(unpack(chosen))
  collectgarbage("setpause", ({ 1, 50, 100, 200 })[r(4)])
  collectgarbage("setstepmul", r(12) == 1 and 1000000 or 100 * r(10)) -- the former: a whole cycle at each step
  local text = program(r)
  local run = assert(loadstring(text, "=program"))
  local ok, e = pcall(run, W, {})
  if ok and r(8) == 1 then ok, e = pcall(other_state, r) end
  if not ok then
    print(("luajit: seed %d: %s\njit.opt %s\n%s"):format(seed, tostring(e), table.concat(chosen, " "), text))
    os.exit(1)
  end
  done = done + 1
  if os.time() - began >= limit then break end
end
print(("luajit: %d programs from seed %d on, %d calls, %d s, device %s"):format(done, first, calls, os.time() - began, device))
