-- Options of all functions: an unknown one is refused by each, and each that allocates takes out=.
local D = require "spec.support.device"
local calls = require "spec.support.calls"
local tide = require "tide"

local device = D.cuda and "cuda" or "cpu"

-- What gives views, converts or reads: there is no result to put elsewhere.
local no_out = {}
for name in ([[as_strided broadcast_to clone contiguous cpu diagonal expand expand_as flatten imag movedim narrow
  new_empty_strided new_tensor permute real reshape reshape_as select slice squeeze swapaxes t to transpose type_as
  unflatten unfold unsqueeze view view_as view_as_complex view_as_real view_dtype as_tensor empty_strided from_string
  get_rng_state keep meshgrid tensor bfloat16 bool byte cdouble cfloat char complex128 complex64 double float float16
  cuda pin_memory aminmax cummax cummin frexp histogram histogramdd var_mean float32 float64 half int int16 int32 int64 int8 long short uint8 kthvalue mode sort topk unique plot]]):gmatch "%S+" do no_out[name] = true end

local function short(call) return call.name:match "[%w_]+$" end

local function quiet(f)
  local print0 = print
  print = function() end -- luacheck: ignore
  local ok, e = pcall(f)
  print = print0 -- luacheck: ignore
  if not ok then error(e, 0) end
end

describe("options", function()
  local all

  setup(function() quiet(function() all = calls.all(device) end) end)

  it("that no function knows are refused by each", function()
    assert.is_true(#all > 350)
    for _, call in ipairs(all) do
      local args = call.make()
      args[#args + 1] = { no_such_option = 1 }
      local ok, e
      quiet(function() ok, e = pcall(call.fn, table.unpack(args)) end)
      assert.is_false(ok, call.name .. " takes an unknown option")
      assert.are.equal("ArgumentError", type(e) == "table" and e.kind or tostring(e), call.name .. ": " .. tostring(e))
    end
  end)

  it("that no function knows are refused behind a device, too, and by the methods of objects", function()
    local cuda, refused = tide.cuda, 0
    local function refuses(name, f, ...)
      local args = table.pack(...)
      args[args.n + 1] = { no_such_option = 1 }
      local ok, e = pcall(f, table.unpack(args, 1, args.n + 1))
      assert.is_false(ok, name .. " takes an unknown option")
      assert.are.equal("ArgumentError", type(e) == "table" and e.kind or tostring(e), name .. ": " .. tostring(e))
      refused = refused + 1
    end
    for name in ([[memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_stats mem_get_info
      memory_stats_as_nested_dict reset_peak_memory_stats reset_accumulated_memory_stats get_per_process_memory_fraction
      utilization memory_usage temperature power_draw clock_rate device_memory_used list_gpu_processes is_bf16_supported is_tf32_supported _is_open
      get_device_name get_device_capability get_device_properties current_stream default_stream synchronize set_device
      get_rng_state initial_seed manual_seed seed _sleep]]):gmatch "%S+" do
      refuses(name, cuda[name], 0)
    end
    for name in ("ipc_collect graph_pool_handle driver_version runtime_version"):gmatch "%S+" do refuses(name, cuda[name]) end
    for name, f in pairs(tide.cpu) do refuses("cpu." .. name, f) end
    refuses("get_peer_access", cuda.get_peer_access, 0, 1)
    refuses("set_peer_access", cuda.set_peer_access, 0, 1, false)
    refuses("ExternalStream", cuda.ExternalStream, 0, 0)
    refuses("MemPool", cuda.MemPool, nil)
    refuses("empty_cache", cuda.empty_cache, {})
    refuses("sanitizer.enable", cuda.sanitizer.enable, {})
    refuses("set_allocator_settings", cuda.memory.set_allocator_settings, "")
    refuses("caching_allocator_enable", cuda.caching_allocator_enable, true)
    refuses("on_oom", cuda.memory.on_oom, print)
    refuses("nccl.is_available", cuda.nccl.is_available, {})
    refuses("parallel.replicate", tide.parallel.replicate, {}, { "cpu" })
    refuses("use_deterministic_algorithms", tide.use_deterministic_algorithms, false, {})
    refuses("is_tensor", tide.is_tensor, 1)
    refuses("device", tide.device, "cuda", 0)
    refuses("device:healthy", tide.device("cpu").healthy, tide.device "cpu")
    refuses("save", tide.save, os.tmpname(), 1)
    refuses("load", tide.load, os.tmpname(), {})
    refuses("deserialize", tide.deserialize, tide.serialize(1), {})
    refuses("save_png", tide.save_png, os.tmpname(), tide.ones(1))
    refuses("load_png", tide.load_png, os.tmpname())
    if D.cuda then
      local stream, event, graph = cuda.Stream(), cuda.Event { enable_timing = true }, cuda.CUDAGraph()
      for _, name in ipairs { "wait_stream", "wait_streams" } do refuses("s:" .. name, stream[name], stream, stream) end
      for _, name in ipairs { "wait_event", "record_event" } do refuses("s:" .. name, stream[name], stream, event) end
      for _, name in ipairs { "record", "wait" } do refuses("e:" .. name, event[name], event, stream) end
      refuses("e:elapsed_time", event.elapsed_time, event, event)
      refuses("set_stream", cuda.set_stream, stream)
      for _, name in ipairs { "pool", "pools" } do refuses("g:" .. name, graph[name], graph) end
      refuses("g:output", graph.output, graph, tide.ones(1))
    end
    assert.is_true(refused > 60, refused)
  end)

  it("may name arguments by the words of other functions: dim for dims, diagonal for k", function()
    local x = D.tensor { { 1., 2. }, { 3., 4. } }
    D.eq({ { 3, 4 }, { 1, 2 } }, x:flip { dim = 1 })
    D.eq({ { 3, 4 }, { 1, 2 } }, x:roll(1, { dim = 1 }))
    D.eq({ { 1, 3 }, { 2, 4 } }, x:permute { dim = { 2, 1 } })
    D.eq({ { 1, 2 }, { 3, 4 } }, x:tril { diagonal = 1 })
    D.eq({ { 0, 2 }, { 0, 0 } }, x:triu { k = 1 })
    D.eq({ 2 }, x:diag { diagonal = 1 })
    D.raises("ArgumentError", x.flip, x, { dims = 1, dim = 1 })
    D.raises("ArgumentError", x.tril, x, 1, { diagonal = 1 })
    assert.is_truthy(D.raises("ArgumentError", x.flip, x, { wrong = 1 }).message:find("x:flip(dims...", 1, true))
  end)

  it("refuse what is beyond the last argument", function()
    local x = D.tensor { 1., 2. }
    for name, f in pairs { numel = x.numel, free = x.free, clone = x.clone, item = x.item, float = x.float, zero_ = x.zero_ } do
      D.raises("ArgumentError", f, x, 3)
      assert.is_true(pcall(f, x:narrow(1, 1, 1), nil, nil), name)
    end
    assert.are.equal(2, x:numel(nil))
    do local y <close> = x:clone() end -- luacheck: ignore
  end)

  it("out= is taken by all that allocate, and an empty one is resized", function()
    local count = 0
    for _, call in ipairs(all) do
      local wanted = call.fn(table.unpack(call.make()))
      if tide.is_tensor(wanted) and not no_out[short(call)] and not short(call):find "_$" then
        local args, out = call.make(), tide.empty(0, { dtype = wanted.dtype, device = wanted.device })
        args[#args + 1] = { out = out }
        assert.is_true(rawequal(out, (call.fn(table.unpack(args)))), call.name)
        D.eq(wanted.shape, out.shape, call.name)
        if not short(call):find "empty" then
          assert.are.equal(tostring(wanted), tostring(out), call.name)
        end
        -- One that is full already has to have the shape, and stays as it is otherwise.
        local other = tide.full({ 2, 2, 5 }, 1, { dtype = wanted.dtype, device = wanted.device })
        args = call.make()
        args[#args + 1] = { out = other }
        assert.is_false(pcall(call.fn, table.unpack(args)), call.name)
        D.eq({ 2, 2, 5 }, other.shape)
        assert.are.equal(20, other:eq(1):sum():item(), call.name)
        for _, wrong in ipairs { 1, "x", {} } do
          args = call.make()
          args[#args + 1] = { out = wrong }
          assert.is_false(pcall(call.fn, table.unpack(args)), call.name)
        end
        count = count + 1
      end
    end
    assert.is_true(count > 150, count)
  end)

  it("out= of several results is a table", function()
    local x = D.tensor { { 1., 5., 3. }, { 4., 2., 6. } }
    local function pair(second)
      return tide.empty(0, { device = device }), tide.empty(0, { dtype = second or tide.float32, device = device })
    end
    local v, i = pair(tide.int64)
    local a, b = x:max(2, { out = { v, i } })
    assert.is_true(rawequal(a, v) and rawequal(b, i))
    D.eq({ 5, 6 }, v)
    D.eq({ 2, 3 }, i)
    x:min(1, { out = { v:resize_(0), i:resize_(0) } })
    D.eq({ 1, 2, 3 }, v)
    local low, high = pair()
    x:aminmax { dim = 2, out = { low, high } }
    D.eq({ 1, 2 }, low)
    D.eq({ 5, 6 }, high)
    local var, mean = pair()
    x:var_mean(2, { out = { var, mean } })
    D.eq({ 3, 4 }, mean)
    local m = tide.empty(0, { device = device })
    assert.is_true(rawequal(m, x:max(x * 2, { out = m })))
    D.eq({ { 2, 10, 6 }, { 8, 4, 12 } }, m)
    D.raises("ArgumentError", x.max, x, 2, { out = v })
    D.raises("ArgumentError", x.max, x, 2, { out = { v } })
    D.raises("ArgumentError", x.max, x, x, { keepdim = true })
  end)

  it("out= of several results is written wholly or not at all", function()
    local x = D.tensor { { 1., 5., 3. }, { 4., 2., 6. } }
    local long, float = { dtype = tide.int64, device = device }, { device = device }
    for _, case in ipairs {
      { "DtypeError", tide.zeros(2, { dtype = tide.bool, device = device }) }, { "ShapeError", tide.zeros(3, long) },
      { "ValueError", tide.zeros(1, long):expand(2) }, { "StateError", tide.zeros(2, long) },
    } do
      local v, empty = tide.full({ 2 }, 7., float), tide.empty(0, float)
      if case[1] == "StateError" then case[2]:free() end
      D.raises(case[1], x.max, x, 2, { out = { v, case[2] } })
      D.raises(case[1], x.min, x, 2, { out = { empty, case[2] } })
      D.eq({ 7, 7 }, v)
      D.eq({ 0 }, empty.shape)
    end
    if device ~= "cpu" then
      local v = tide.full({ 3 }, 7., float)
      D.raises("DeviceError", x.aminmax, x, 1, { out = { v, tide.zeros(3) } })
      D.eq({ 7, 7, 7 }, v)
    end
  end)

  it("out= of a factory says dtype and device", function()
    local out = tide.empty(3, { dtype = tide.int32, device = device })
    D.eq({ 1, 1, 1 }, tide.ones(3, { out = out }))
    D.eq({ 7, 7, 7 }, tide.full({ 3 }, 7, { out = out, dtype = tide.int32 }))
    D.eq({ 0, 1, 2 }, tide.arange(3, { out = out }))
    assert.are.equal(tide.int32, out.dtype)
    D.raises("DtypeError", tide.zeros, 3, { out = out, dtype = tide.float32 })
    D.raises("ShapeError", tide.zeros, 4, { out = out })
    if device ~= "cpu" then D.raises("DeviceError", tide.zeros, 3, { out = out, device = "cpu" }) end
    D.eq({ 0, 1, 2 }, out)
  end)

  it("out= that is empty but an operand or a view keeps what is not its own", function()
    local x, y = D.tensor { 1., 2., 3. }, tide.empty(0, { device = device })
    local view = x:narrow(1, 1, 0)
    D.eq({ 2, 4, 6 }, tide.mul(x:clone(), 2, { out = view }))
    D.eq({ 1, 2, 3 }, x)
    local one = tide.empty(1, 0, { device = device })
    D.raises("ShapeError", one.add_, one, tide.empty(3, 0, { device = device }))
    D.raises("ShapeError", tide.add, one, tide.empty(3, 0, { device = device }), { out = one })
    D.eq({ 1, 0 }, one.shape)
    local a, b = tide.empty(2, 0, { device = device }), tide.empty(0, 3, { device = device })
    D.raises("ShapeError", tide.matmul, a, b, { out = a })
    D.eq({ 2, 0 }, a.shape)
    D.eq({ { 0, 0, 0 }, { 0, 0, 0 } }, tide.matmul(a, b, { out = y }))
    D.raises("DtypeError", tide.nonzero or x.nonzero, x, { out = tide.empty(0, { dtype = tide.bool, device = device }) })
  end)

  it("apply_ and map_ take a function and nothing behind it", function()
    local x = tide.tensor { 1., 2., 3. }
    local function twice(v) return 2 * v end
    D.raises("ArgumentError", x.apply_, x, twice, 5)
    D.raises("ArgumentError", x.apply_, x, twice, { out = x })
    D.raises("ArgumentError", x.map_, x, x, twice, 5)
    D.raises("ArgumentError", x.map_, x, x, twice, { 1, 2, 3 })
    D.eq({ 1, 2, 3 }, x)
    D.eq({ 2, 4, 6 }, x:apply_(twice, nil))
    D.eq({ 3, 6, 9 }, x:map_(tide.tensor { 1., 2., 3. }, function(v, w) return v + w end, {}))
  end)
end)
