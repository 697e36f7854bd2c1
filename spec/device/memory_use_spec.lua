-- Memory of one stream that work on another one uses: one table of operations, each with its operands freed, and their
-- memory used again, before the work begins.
--
-- Operands belong to the default streams. The operation is queued on side streams, which are held. The operands are
-- freed, memory of the same sizes is taken and filled on the default streams, and the side streams go on. The results
-- must be those of the same operation done without haste, and what took the memory must keep its values.

local tide = require "tide"
local D = require "spec.support.device"
if not D.cuda then return end
local cuda, comm = tide.cuda, tide.cuda.comm

local n = math.min(D.devices, 3)
local last = n - 1
local devices = {}
for d = 0, last do devices[d + 1] = d end

-- ---- the frame ----

local function collect(out, x)
  if tide.is_tensor(x) then out[#out + 1] = x
  elseif type(x) == "table" then
    for i = 1, #x do collect(out, x[i]) end
  end
  return out
end

local function values(results)
  local out = {}
  for i, x in ipairs(collect({}, results)) do out[i] = x:cpu():flatten():totable() end
  return out
end

-- f() with the side streams as the current ones of all devices.
local function beside(side, f)
  local function on(d)
    if d > last then return f() end
    return cuda.stream(side[d], function() return on(d + 1) end)
  end
  return on(0)
end

-- `count` tensors for each place, filled on the default streams, which are waited for.
local function take_again(places, count)
  local again = {}
  for _, p in ipairs(places) do
    for _ = 1, count do
      local x = tide.empty(p.size, p.options)
      x:fill_(p.options.dtype == tide.bool and true or 77)
      again[#again + 1] = x
    end
  end
  for d = 0, last do cuda.current_stream(d):synchronize() end
  return again
end

-- The streams that are not held come as far as they can.
local function settle(side, held)
  for _ = 1, 5 do
    local busy = false
    for d = 0, last do busy = busy or not (held == "all" or held == d or side[d]:query()) end
    if not busy then return end
    os.execute "sleep 0.002"
  end
end

-- held: the device whose side stream is held, or "all".
local function check_held(make, run, side, places, want, held)
  local operands = make()
  cuda.synchronize_all()
  for _, x in ipairs(take_again(places, 2)) do x:free() end
  tide.manual_seed(5)
  for d = 0, last do
    if held == "all" or held == d then D.hold(side[d]) end
  end
  cuda.set_sync_debug_mode "error" -- an operation that waits would never return
  local results = table.pack(pcall(beside, side, function() return run(operands) end))
  cuda.set_sync_debug_mode "default"
  assert(results[1], results[2])
  table.remove(results, 1)
  for _, x in ipairs(collect({}, operands)) do x:free() end
  settle(side, held)
  local again = take_again(places, 4)
  D.release()
  cuda.synchronize_all()
  for i, x in ipairs(values(results)) do D.eq(want[i], x, 1e-6, ("result %d, %s held"):format(i, held)) end
  for _, x in ipairs(again) do
    local filled = x.dtype == tide.bool and true or 77
    assert.is_true(x:eq(filled):all():item(), ("what took the memory has changed, %s held"):format(held))
  end
end

local function check(make, run, several)
  local side, places = {}, {}
  for d = 0, last do side[d] = cuda.Stream(d) end
  collectgarbage()
  cuda.empty_cache() -- what earlier pools have left is waited for when it goes
  -- Without haste: what should come out, and from then on both sides have memory without asking the driver.
  local operands = make()
  cuda.synchronize_all()
  for _, x in ipairs(collect({}, operands)) do
    local options = { dtype = x.dtype, device = x.device, pin_memory = x:is_pinned() or nil }
    places[#places + 1] = { size = x:size(), options = options }
  end
  tide.manual_seed(5)
  local want = { beside(side, function() return run(operands) end) }
  cuda.synchronize_all()
  want, operands = values(want), nil -- luacheck: ignore
  check_held(make, run, side, places, want, "all")
  for d = 0, several and last or -1 do check_held(make, run, side, places, want, d) end
end

-- ---- operands ----

local function ramp(count, options)
  options = options or {}
  return tide.arange(count, { dtype = options.dtype or "float32", device = options.device or "cuda:0" })
end
-- Some of `count` values each.
local function some(k, count, dtype)
  return function()
    local out = {}
    for i = 1, k do out[i] = ramp(count or 6000, { dtype = dtype }) + i end
    return out
  end
end
local function square(k, dtype)
  return function()
    local out = {}
    for i = 1, k do out[i] = (ramp(4096, { dtype = dtype }) % 61 + i):view(64, 64):clone() end
    return out
  end
end
local function with_index() return { ramp(6000), (ramp(2000, { dtype = "int64" }) * 3) % 6000 + 1, ramp(2000) } end

-- What the current streams see of results.
local function plus(list)
  local out = {}
  for i = 1, #list do out[i] = type(list[i]) == "table" and plus(list[i]) or list[i] + 1 end
  return out
end

local function case(name, make, run, least)
  it(name, function()
    if least and D.devices < least then return pending("needs " .. least .. " devices") end
    check(make, run, least)
  end)
end

describe("memory that another stream uses", function()
  D.watch(before_each, after_each)

  describe("in elementwise operations:", function()
    case("one operand", some(1), function(o) return o[1]:sqrt() end)
    case("two operands", some(2), function(o) return o[1] * o[2] end)
    case("a number of the device", function() return { ramp(6000), tide.full({}, 3, { device = "cuda:0" }) } end,
      function(o) return o[1] * o[2] end)
    case("three operands", function() return { ramp(6000) % 2, ramp(6000), ramp(6000) + 9 } end,
      function(o) return tide.where(o[1]:to "bool", o[2], o[3]) end)
    case("the result", some(3), function(o) tide.add(o[1], o[2], { out = o[3] }) end)
    case("in place", some(2), function(o) o[1]:mul_(o[2]) end)
    case("filling", some(1), function(o) o[1]:fill_(3) end)
    case("lerp", some(3), function(o) return tide.lerp(o[1], o[2], 0.25), tide.addcmul(o[1], o[2], o[3]) end)
    case("views", square(2), function(o) return o[1]:t() + o[2]:narrow(1, 3, 1), o[1]:select(2, 5):expand(3, 64) * 2 end)
    case("masks", function() return { ramp(6000), ramp(6000) % 3 } end,
      function(o) return o[1]:masked_fill(o[2]:eq(1), -1) end)
    case("a mask", function() return { ramp(6000), (ramp(6000) % 3):eq(1) } end,
      function(o) return o[1]:masked_fill(o[2], -1) end)
  end)

  describe("in reductions, scans and orders:", function()
    for _, f in ipairs { "sum", "mean", "prod", "amax", "argmax", "logsumexp", "var", "any", "count_nonzero" } do
      case(f, square(1), function(o) return o[1][f](o[1], 2) end)
    end
    case("sum of all", some(1), function(o) return o[1]:sum(), o[1]:max(), o[1]:norm() end)
    case("max with places", square(1), function(o) return o[1]:max(1) end)
    case("running sums", square(1), function(o) return o[1]:cumsum(1), o[1]:cummax(2) end)
    case("softmax", square(1), function(o) return tide.softmax(o[1], 2), tide.log_softmax(o[1], 1) end)
    case("sorting", square(1), function(o) return o[1]:sort(2), o[1]:topk(5), o[1]:argsort(1), o[1]:median(2) end)
    case("searching", some(2), function(o) return tide.searchsorted(o[1], o[2]) end)
    case("the result", function() return { ramp(4096):view(64, 64), ramp(64) } end,
      function(o) tide.sum(o[1], 1, { out = o[2] }) end)
  end)

  describe("in copies:", function()
    local function pinned(k)
      return function()
        local out = {}
        for i = 1, k do out[i] = (tide.arange(6000, { dtype = "float32" }) + i):pin_memory() end
        return out
      end
    end
    case("on the device", square(1), function(o) return o[1]:clone(), o[1]:t():contiguous(), o[1]:to "float64" end)
    case("to what is there", some(2), function(o) o[1]:copy_(o[2]) end)
    case("with another dtype to what is there", function() return { ramp(6000), ramp(6000, { dtype = "int64" }) } end,
      function(o) o[1]:copy_(o[2]) end)
    case("from locked memory", pinned(1), function(o) return o[1]:to("cuda:0", { non_blocking = true }) end)
    case("from locked memory to what is there", function() return { ramp(6000), pinned(1)()[1] } end,
      function(o) o[1]:copy_(o[2], { non_blocking = true }) end)
    case("to locked memory", function() return { ramp(6000), pinned(1)()[1] } end,
      function(o) o[2]:copy_(o[1], { non_blocking = true }) end)
    case("to locked memory that is kept", function() return { ramp(6000) } end, function(o)
      local to = tide.empty(6000, { pin_memory = true })
      to:copy_(o[1], { non_blocking = true })
      return to
    end)
    case("to another device", some(1), function(o) return o[1]:to("cuda:1", { non_blocking = true }) + 1 end, 2)
    case("from another device", function() return { ramp(6000, { device = "cuda:1" }) } end,
      function(o) return o[1]:to("cuda:0", { non_blocking = true }) + 1 end, 2)
    case("between devices, to what is there", function() return { ramp(6000, { device = "cuda:1" }), ramp(6000) + 1 } end,
      function(o) o[1]:copy_(o[2], { non_blocking = true }) end, 2)
    case("between devices, packed and cast", function()
      return { ramp(4096):view(64, 64), ramp(4096, { device = "cuda:1", dtype = "int32" }):view(64, 64) }
    end, function(o) o[2]:t():copy_(o[1], { non_blocking = true }) end, 2)
  end)

  describe("by index:", function()
    case("reading", with_index, function(o) return o[1]:index_select(1, o[2]), o[1]:gather(1, o[2]), o[1]:take(o[2]) end)
    case("writing", with_index, function(o) return o[1]:index_add(1, o[2], o[3]), o[1]:scatter(1, o[2], o[3]) end)
    case("writing in place", with_index, function(o) o[1]:index_copy_(1, o[2], o[3]) end)
    case("in brackets", with_index, function(o) return o[1][o[2]] end)
    case("into brackets", with_index, function(o) o[1][o[2]] = o[3] end)
    case("moving", square(2), function(o)
      return tide.cat({ o[1], o[2] }, 2), tide.stack { o[1], o[2] }, o[1]:flip(1), o[1]:roll(3, 2), o[1]:tile(2, 1)
    end)
    case("triangles", square(1), function(o) return o[1]:tril(), o[1]:triu(1), o[1]:diagonal():clone() end)
  end)

  describe("in products, transforms and fields:", function()
    case("matrices", square(2), function(o) return o[1]:matmul(o[2]), o[1]:matmul(o[2]:select(1, 3)) end)
    case("batches", function() return { (ramp(8192) % 7):view(2, 64, 64), (ramp(8192) % 5):view(2, 64, 64) } end,
      function(o) return tide.bmm(o[1], o[2]) end)
    case("with a sum", square(3), function(o) return tide.addmm(o[1], o[2], o[3]) end)
    case("16 bits", square(2, "float16"), function(o) return o[1]:matmul(o[2]) end)
    case("vectors", some(2), function(o) return tide.dot(o[1] / 6000, o[2] / 6000) end)
    case("into what is there", square(3), function(o) tide.matmul(o[1], o[2], { out = o[3] }) end)
    case("einsum", square(2), function(o) return tide.einsum("ij,kj->ik", o[1], o[2]) end)
    case("Fourier transforms", square(1), function(o)
      return tide.fft.rfft(o[1]), tide.fft.fft2(o[1]), tide.fft.irfft(o[1]:to "complex64")
    end)
    case("convolutions", function() return { ramp(4096):view(1, 1, 64, 64) % 9, ramp(9):view(1, 1, 3, 3) } end,
      function(o) return tide.conv2d(o[1], o[2]), tide.max_pool2d(o[1], 2) end)
    case("borders and sizes", function() return { ramp(4096):view(1, 1, 64, 64) } end,
      function(o) return tide.pad(o[1], { 1, 2 }, { mode = "reflect" }), tide.interpolate(o[1], { size = { 32, 32 } }) end)
  end)

  describe("in random numbers:", function()
    case("in place", some(1), function(o) o[1]:normal_() end)
    case("by chances", function() return { ramp(6000) / 6000 } end, function(o) return tide.bernoulli(o[1]) end)
    case("by means", some(1), function(o) return tide.normal(o[1], 1) end)
  end)

  describe("in storages:", function()
    case("filling", some(1), function(o) o[1]:storage():fill_(3) end)
    case("copying", some(2), function(o) o[1]:storage():copy_(o[2]:storage()) end)
    case("viewing", some(1), function(o) return o[1]:view(60, 100):t():clone(), o[1]:view "int32" + 1 end)
  end)
end)

describe("memory that another stream uses", function()
  D.watch(before_each, after_each)

  describe("in kernels:", function()
    local kernel = tide.kernel "function(i, x, y, out) out[i] = 2 * x[i] + y[i] end"
    local result = tide.kernel "function(i, x, y) return 2 * x[i] + y[i] end"
    case("written in Lua", some(3), function(o) kernel(6000, o[1], o[2], o[3]) end)
    case("written in Lua and bound", some(3), function(o)
      local launch = kernel:on(6000, o[1], o[2], o[3])
      launch()
      launch = nil -- luacheck: ignore
      collectgarbage()
      collectgarbage()
    end)
    case("written in Lua, with a result", some(2), function(o) return result(6000, o[1], o[2]) end)
    case("fused", some(2), function(o)
      local f = tide.fuse(function(a, b) return (a * 2 + b):sqrt() end)
      local r
      for _ = 1, 3 do r = f(o[1], o[2]) end
      return r
    end)
    case("from text", some(2), function(o)
      if not D.compiler then return o[1] + o[2] end
      return cuda.jiterator.create_jit_fn "template <typename T> T f(T x, T y) { return x * 3 + y; }"(o[1], o[2])
    end)
  end)

  describe("in graphs:", function()
    it("that are replayed on another stream and dropped", function()
      check(function()
        local x, y = ramp(6000), nil
        local g = cuda.CUDAGraph()
        cuda.graph(g, function() y = x * 2 + 1 end)
        return { x, y, g = g }
      end, function(o)
        o.g:replay()
        local r = o[2] + 1
        o.g = nil
        collectgarbage()
        collectgarbage()
        return r
      end)
    end)
    it("whose inputs are replaced", function()
      local g, x, y = cuda.CUDAGraph(), ramp(6000), nil
      cuda.graph(g, { inputs = { x = x } }, function() y = x * 2 + 1 end)
      check(function() return { ramp(6000) + 5 } end, function(o)
        g:bind { x = o[1] }
        g:replay()
        local r = y + 1
        g:bind { x = x }
        return r
      end)
      g:reset()
    end)
  end)

  describe("in collectives:", function()
    -- Alone, and between other work of the devices, which comes before and behind it.
    local function collective(name, make, run)
      case(name, make, run, 2)
      case(name .. ", between other work", make, function(o)
        for _, x in ipairs(collect({}, o)) do x:add_(1) end
        local results = { run(o) }
        for _, x in ipairs(collect({}, o)) do x:fill_(9) end
        return results
      end, 2)
    end
    local function parts()
      local out = {}
      for d = 0, last do out[d + 1] = ramp(6000, { device = "cuda:" .. d }) + d end
      return out
    end
    local function lists()
      local out = {}
      for d = 0, last do
        out[d + 1] = { ramp(3000, { device = "cuda:" .. d }) + d, ramp(900, { device = "cuda:" .. d }):view(30, 30) }
      end
      return out
    end
    collective("broadcast", some(1), function(o)
      local r = comm.broadcast(o[1], devices)
      return plus { table.unpack(r, 2) }
    end)
    collective("broadcast to what is there", parts, function(o) comm.broadcast(o[1], nil, { out = o }) end)
    collective("broadcast of much", function() return { ramp(1 << 18) } end, function(o)
      return plus { table.unpack(comm.broadcast(o[1], devices), 2) }
    end)
    collective("broadcast of what lies in pieces", square(1), function(o)
      return plus { table.unpack(comm.broadcast(o[1]:t(), devices), 2) }
    end)
    collective("scatter", some(1), function(o)
      return plus(comm.scatter(o[1], devices))
    end)
    collective("gather", parts, function(o) return comm.gather(o, { destination = 0 }) + 1 end)
    collective("gather to what is there", function() return { parts(), ramp(6000 * n) } end,
      function(o) comm.gather(o[1], { out = o[2] }) end)
    collective("gather to what is on a device of none of them", function() return { { table.unpack(parts(), 2) }, ramp(6000 * last) } end,
      function(o) comm.gather(o[1], { out = o[2] }) end)
    collective("gather to another device", parts, function(o) return comm.gather(o, { destination = last }) + 1 end)
    collective("reduce_add", parts, function(o) return comm.reduce_add(o, 0) + 1 end)
    collective("reduce_add on another device", parts, function(o) return comm.reduce_add(o, last) + 1 end)
    collective("reduce_add of what lies in pieces", function()
      local out = parts()
      for i = 1, #out do out[i] = out[i]:view(60, 100):narrow(2, 1, 50) end
      return out
    end, function(o) return comm.reduce_add(o, 0) + 1 end)
    collective("broadcast_coalesced", function() return lists()[1] end, function(o)
      local r = comm.broadcast_coalesced(o, devices)
      return plus { table.unpack(r, 2) }
    end)
    collective("reduce_add_coalesced", lists, function(o) return plus(comm.reduce_add_coalesced(o, 0)) end)
    for _, f in ipairs { "all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter" } do
      local function ins()
        local out = {}
        for d = 0, last do out[d + 1] = ramp(600 * n, { device = "cuda:" .. d }) + d end
        return out
      end
      local function outs()
        local out, count = {}, f == "all_gather" and 600 * n * n or f == "reduce_scatter" and 600 or 600 * n
        for d = 0, last do out[d + 1] = tide.zeros(count, { device = "cuda:" .. d }) end
        return out
      end
      local function call(from, to)
        if f == "broadcast" then cuda.nccl.broadcast(from)
        elseif f == "reduce" then cuda.nccl.reduce(from, { output = to[1] })
        else cuda.nccl[f](from, to) end
      end
      collective("nccl." .. f .. " to what is there", function() return { ins(), outs() } end, function(o) call(o[1], o[2]) end)
      collective("nccl." .. f, ins, function(o)
        local to = f == "broadcast" and o or outs()
        call(o, to)
        return plus(to)
      end)
    end
  end)

  describe("by peer access:", function()
    local function make() return { ramp(6000), ramp(6000, { device = "cuda:1" }) } end
    for name, run in pairs {
      ["kernels that read another device's memory"] = function(o) return o[1] + o[2] end,
      ["and between other work"] = function(o)
        o[2]:add_(1)
        local r = o[1] + o[2]
        o[2]:fill_(9)
        return r
      end } do
      it(name, function()
        if D.devices < 2 then return pending "needs two devices" end
        if not cuda.can_device_access_peer(0, 1) then return pending "needs peer access" end
        cuda.set_peer_access(0, 1, true)
        local ok, e = pcall(check, make, run, true)
        cuda.set_peer_access(0, 1, false)
        assert(ok, e)
      end)
    end
  end)

  it("that is noted by hand serves nobody else meanwhile", function()
    local s, x = cuda.Stream(), ramp(6000)
    local at = x:data_ptr()
    D.hold(s)
    x:record_stream(s)
    x:free()
    local held = {}
    for i = 1, 20 do
      held[i] = tide.empty(6000, { device = "cuda:0" })
      assert.is_true(held[i]:data_ptr() ~= at)
    end
  end)
end)

describe("a block between those of another stream", function()
  it("goes back there once the stream that borrowed it is done", function()
    if not D.simulated then return pending "needs simulated devices" end
    D.simulate(1, [[
      local tide = require "tide"
      local D = require "spec.support.device"
      local cuda, elements = tide.cuda, 9 * 2^20 // 4
      local on, s = { device = "cuda:0" }, cuda.Stream()
      local held, between = cuda.stream(s, function() return tide.empty(elements, on), tide.empty(elements, on) end)
      between:free()
      local total = cuda.get_device_properties(0).total_memory
      cuda.set_per_process_memory_fraction(cuda.memory_reserved() / total)
      local x = tide.empty(elements, on)
      cuda.set_per_process_memory_fraction(1)
      x:fill_(5)
      local r = tide.empty(elements, on)
      cuda.synchronize()
      D.hold()
      r:copy_(x)
      x:free()
      cuda.stream(s, function() tide.empty(elements, on):fill_(7) end)
      s:synchronize()
      D.release()
      cuda.synchronize()
      assert(r:min():item() == 5 and r:max():item() == 5, "the borrowed block was used again too early")
      assert(held)]], { TIDE_DEVICE = "cuda", TIDE_ALLOC_CONF = "expandable_segments:False" })
  end)
end)
