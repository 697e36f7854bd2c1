-- What the specs share: the device they run on, adversarial layouts, comparison, the check for leaks.
--
-- TIDE_DEVICE chooses: "cpu" (default) or "cuda", which may be simulated (TIDE_SIM_DEVICES). `watch()` at the top of a
-- describe block fails a case that leaves bytes, another current device or another current stream behind.

local tide = require "tide"
local checks = require "spec.support.checks"
local errors = require "spec.support.errors"

tide.manual_seed(20261128) -- what specs draw without a generator is the same in every run

local M = { cuda = (os.getenv "TIDE_DEVICE" or "cpu") ~= "cpu" }
M.dev = M.cuda and "cuda:0" or "cpu"
M.devices = M.cuda and tide.cuda.device_count() or 0
M.tsan = os.getenv "TSAN_OPTIONS" ~= nil -- the thread sanitizer: slow, and hungry for memory
M.asan = os.getenv "ASAN_OPTIONS" ~= nil
-- Walks that look for bad accesses take each call where those are seen, elsewhere one in `step`. Walks that compare values
-- take each of them without a sanitizer, with one only one in `every`: the accesses and threads of the rest are the same.
M.step = M.asan and 1 or 4
M.every = (M.asan or M.tsan) and 5 or 1
M.simulated = M.cuda and tide.cuda.get_device_properties(0).simulated or false
M.virtual = M.simulated and os.getenv "TIDE_SIM_CLOCK" == "virtual" -- the device's time is not the host's
-- Texts become kernels: NVRTC is a GPU's own, elsewhere the machine's compiler makes them.
M.compiler = M.cuda and not M.simulated or os.execute "command -v c++ g++ clang++ >/dev/null" ~= nil
M.runner = arg and arg[-1] or "build/bin/tide"
do -- the program that runs us stands at the lowest index
  local i = 0
  while arg and arg[i - 1] do i = i - 1 end
  if arg and arg[i] and arg[i]:match "tide$" then M.runner = arg[i] end
end

M.dtypes = { "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
  "complex128" }
-- Loops over elements differ by dtype, and know of no threads. Simulated devices run the CPU's, which its suite has.
if M.tsan or M.asan and M.simulated then M.dtypes = { "bool", "int64", "float16", "float32", "complex128" } end
M.kind = { bool = "B", uint8 = "U", int8 = "I", int16 = "I", int32 = "I", int64 = "I", float16 = "F", bfloat16 = "F",
  float32 = "F", float64 = "F", complex64 = "C", complex128 = "C" }
-- Relative error of one operation whose result is rounded to the dtype.
M.eps = { float16 = 2e-3, bfloat16 = 1.6e-2, float32 = 2e-6, float64 = 1e-12, complex64 = 2e-6, complex128 = 1e-12 }

function M.dtype_name(x) return (tostring(x.dtype):gsub("^.*%.", "")) end

-- A tensor on the device under test.
function M.tensor(data, dtype) return tide.tensor(data, { dtype = dtype, device = M.dev }) end

-- ---- comparison ----

local function show(v)
  if type(v) ~= "table" then return tostring(v) end
  local parts = {}
  for i = 1, #v do parts[i] = show(v[i]) end
  return "{" .. table.concat(parts, ", ") .. "}"
end
M.show = show

local function near(a, b, tolerance)
  if a == b then return true end
  if type(a) ~= "number" or type(b) ~= "number" then return false end
  if a ~= a or b ~= b then return a ~= a and b ~= b end
  if a == math.huge or a == -math.huge then return false end
  return math.abs(a - b) <= tolerance * math.max(1, math.abs(b))
end

local function same(a, b, tolerance)
  if type(a) ~= "table" or type(b) ~= "table" then return near(a, b, tolerance) end
  if #a ~= #b then return false end
  for i = 1, #a do
    if not same(a[i], b[i], tolerance) then return false end
  end
  return true
end

-- Fails unless x (a tensor, a nested table or a number) has the values of `expected`; NaN equals NaN.
function M.eq(expected, x, tolerance, what)
  checks.count = checks.count + 1
  local got = x
  if tide.is_tensor(x) then got = x:totable() end
  if tide.is_tensor(expected) then expected = expected:totable() end
  if not same(got, expected, tolerance or 0) then
    error(("%sgot %s, expected %s"):format(what and what .. ": " or "", show(got), show(expected)), 2)
  end
end

function M.flat(t, out)
  out = out or {}
  for i = 1, #t do
    if type(t[i]) == "table" then M.flat(t[i], out) else out[#out + 1] = t[i] end
  end
  return out
end

-- Maps f over nested tables of one shape.
function M.map(f, a, ...)
  if type(a) ~= "table" then return f(a, ...) end
  local out, others = {}, table.pack(...)
  for i = 1, #a do
    local rest = {}
    for k = 1, others.n do
      rest[k] = others[k]
      if type(rest[k]) == "table" then rest[k] = rest[k][i] end
    end
    out[i] = M.map(f, a[i], table.unpack(rest, 1, others.n))
  end
  return out
end

-- The error object that f(...) raises, of the given kind, with a message that has a colon (what: what was wrong).
function M.raises(kind, f, ...)
  checks.count = checks.count + 1
  local ok, e = pcall(f, ...)
  if ok then error("no error was raised, expected " .. kind, 2) end
  if type(e) ~= "table" and type(e) ~= "userdata" then error("not an error object: " .. tostring(e), 2) end
  if e.kind ~= kind then error(("got %s: %s, expected %s"):format(tostring(e.kind), tostring(e), kind), 2) end
  if not e.message:find(":", 1, true) then error("the message does not say what failed: " .. e.message, 2) end
  if not M.cuda or M.simulated then errors.check(e) end
  return e
end

-- ---- layouts ----

-- What is around a tensor, as plain numbers.
local function around(x)
  if M.kind[M.dtype_name(x)] == "C" then x = x:real() end
  return M.flat { x:totable() }
end

local function hole(x)
  if M.kind[M.dtype_name(x)] == "F" then return 0 / 0 end
  return M.dtype_name(x) == "bool" and true or 77
end

-- Copies of x, with the same values, in layouts that a careless loop gets wrong: {name, tensor, check}. check() fails when
-- something outside the tensor was written.
function M.layouts(x)
  local out = { { "contiguous", x:clone(), function() end } }
  local n, dims = x:dim(), {}
  for d = 1, n do dims[d] = n + 1 - d end
  if n >= 2 then
    local base = x:permute(table.unpack(dims)):contiguous():clone()
    out[#out + 1] = { "transposed", base:permute(table.unpack(dims)), function() end }
  end
  if n >= 1 and x:numel() > 0 then
    local size = x:size()
    local wide = { table.unpack(size) }
    wide[n] = 2 * wide[n] + 1
    local base = tide.empty(wide, { dtype = x.dtype, device = x.device }):fill_(hole(x))
    local view = base:slice(n, 2, -1, 2)
    view:copy_(x)
    out[#out + 1] = { "holes", view, function()
      for _, v in ipairs(around(base:slice(n, 1, -1, 2))) do
        assert(v == hole(x) or v ~= v, "a hole between the elements was written")
      end
    end }
    local padded = tide.empty(x:numel() + 7, { dtype = x.dtype, device = x.device }):fill_(hole(x))
    local offset = padded:narrow(1, 4, x:numel()):view(size)
    offset:copy_(x)
    out[#out + 1] = { "offset", offset, function()
      local all = around(padded)
      for i = 1, #all do
        assert(i >= 4 and i < 4 + x:numel() or all[i] == hole(x) or all[i] ~= all[i], "an element outside was written")
      end
    end }
  end
  return out
end

-- What a device found on its way is an error here.
function M.sync()
  if M.cuda then tide.cuda.synchronize() end
end

-- ---- order, without a clock ----

local wake, held

-- Ends what hold() began; nothing otherwise.
function M.release()
  if not held or not M.simulated then return end
  held = false
  local path = M.runner:gsub("bin/tide$", "spec/wake.so")
  wake = wake or assert(package.loadlib(path, "wake"))
  wake()
end

-- Nothing that is queued on the stream from here on (nil: the current one) runs before release(), or the end of the case
-- under watch(). A real GPU is held for `cycles` instead: by default long enough to queue work and to ask.
function M.hold(stream, cycles)
  local function sleep() tide.cuda._sleep(M.simulated and 100000000000 or cycles or 200000000) end
  if stream then tide.cuda.stream(stream, sleep) else sleep() end
  held = true
end

-- check(limit), and if it fails check(10 * limit): on a machine that stood still for so many seconds what was merely late
-- was taken for what does not come.
function M.in_time(limit, check)
  if not pcall(check, limit) then check(10 * limit) end
end

-- ---- leaks ----

local function now()
  local s = { bytes = {} }
  if not M.cuda then return s end
  s.device, s.stream = tide.cuda.current_device(), tide.cuda.current_stream().cuda_stream
  for d = 0, M.devices - 1 do s.bytes[d] = tide.cuda.memory_allocated(d) end
  return s
end

-- What the counts of cache_info are from now on is of the case alone: nothing that others began is still compiled.
function M.cache_info()
  local info = tide.cuda.jiterator.cache_info
  while info().pending > 0 do os.execute "sleep 0.01" end
  return info()
end

local function same_bytes(a, b)
  for d = 0, M.devices - 1 do
    if a.bytes[d] ~= b.bytes[d] then return false end
  end
  return true
end

local last -- what the case before left

local function state()
  if rawget(_G, "jit") then jit.flush() end -- what LuaJIT compiled keeps the tensors that it took for constants
  collectgarbage()
  collectgarbage()
  if M.cuda then tide.cuda.synchronize_all() end
  last = now()
  return last
end

-- Collecting all there is takes long in a large heap: it is done again only if something has come or gone since.
local function state_before()
  local s = now()
  local same = last and s.device == last.device and s.stream == last.stream and same_bytes(s, last)
  return same and last or state()
end

-- busted gives before_each and after_each to the spec's environment, hence as arguments. `clear` drops what the spec's own
-- before_each made. late: what a case has sent may be released by another thread, soon after it.
function M.watch(before_each, after_each, clear, late)
  local before
  before_each(function() before = state_before() end)
  after_each(function()
    M.release() -- what a case that failed has held
    if clear then clear() end
    local after = state()
    if not M.cuda then return end
    for _ = 1, late and 500 or 0 do
      if same_bytes(after, before) then break end
      os.execute "sleep 0.01"
      after = state()
    end
    for d = 0, M.devices - 1 do
      assert(after.bytes[d] == before.bytes[d], ("the case left %d bytes on cuda:%d"):format(after.bytes[d] - before.bytes[d], d))
    end
    assert(after.device == before.device, "the case changed the current device")
    assert(after.stream == before.stream, "the case changed the current stream")
  end)
end

-- ---- other processes ----

local function quote(s) return "'" .. s:gsub("'", "'\\''") .. "'" end
M.quote = quote

-- Runs the runner: env a table, args a list of strings or a ready command tail, input a string, limit seconds after which
-- it is ended with code 124. Returns stdout, stderr and the exit code.
function M.run(args, options)
  options = options or {}
  local out, err, inp = os.tmpname(), os.tmpname(), os.tmpname()
  local file = assert(io.open(inp, "wb"))
  file:write(options.input or "")
  file:close()
  local words = {}
  for k, v in pairs(options.env or {}) do words[#words + 1] = k .. "=" .. quote(v) end
  table.sort(words)
  table.insert(words, 1, "env")
  if options.limit then table.insert(words, 1, ("timeout -k 5 %d"):format(options.limit)) end
  words[#words + 1] = quote(M.runner)
  if type(args) == "string" then words[#words + 1] = args
  else for _, a in ipairs(args) do words[#words + 1] = quote(a) end end
  local _, how, code = os.execute(table.concat(words, " ") .. " >" .. out .. " 2>" .. err .. " <" .. inp)
  local function take(path)
    local f = assert(io.open(path, "rb"))
    local text = f:read "a"
    f:close()
    os.remove(path)
    return text
  end
  os.remove(inp)
  return take(out), take(err), how == "signal" and 128 + code or code
end

-- Runs a piece of Lua in a process of its own on n simulated devices; fails unless it ends well, within `limit` seconds
-- where that is given. Returns its output.
function M.simulate(n, source, env, limit)
  checks.count = checks.count + 1
  local all = { TIDE_SIM_DEVICES = tostring(n) }
  for k, v in pairs(env or {}) do all[k] = v end
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(source)
  file:close()
  local out, err, code = M.run({ path }, { env = all, limit = limit })
  os.remove(path)
  if code == 124 then error("has not ended within " .. limit .. " s: " .. out .. err, 2) end
  if code ~= 0 then error(("exit code %s: %s%s"):format(code, out, err), 2) end
  return out, err
end

return M
