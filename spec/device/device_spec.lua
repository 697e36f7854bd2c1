-- Devices: availability, selection, placement, information.

local tide = require "tide"
local D = require "spec.support.device"

describe("without an accelerator", function()
  it("require and questions work, use says what is missing", function()
    if D.cuda then return pending "is about the CPU alone" end
    local out = D.run({ "-e", [[
      local tide = require "tide"
      print(tide.cuda.is_initialized())
      if not tide.cuda.is_available() then
        print(tide.cuda.device_count())
        local ok, e = pcall(tide.zeros, 2, { device = "cuda" })
        print(ok, e.kind == "LibraryError" or e.kind == "DeviceError", #e.message > 20)
        print(pcall(tide.cuda.manual_seed, 1))
        print(tide.cuda.memory_allocated())
        ok, e = pcall(tide.cuda.preload)
        print(ok, e.kind == "LibraryError" or e.kind == "DeviceError")
        tide.cuda.empty_cache()
        print((tide.zeros(2) + 1):sum():item())
      end]] }, { env = { CUDA_VISIBLE_DEVICES = "" } })
    assert.is_truthy(out:match "^false\n", out)
    if out ~= "false\n" then assert.are.equal("false\n0\nfalse\ttrue\ttrue\ntrue\n0\nfalse\ttrue\n2.0\n", out) end
  end)
end)

describe("tide.device", function()
  it("parses names, ids and objects", function()
    assert.are.equal("cuda:2", tostring(tide.device "cuda:2"))
    assert.are.equal("cuda:2", tostring(tide.device("cuda", 2)))
    assert.are.equal("cuda:2", tostring(tide.device(2)))
    assert.are.equal("cuda", tostring(tide.device "cuda"))
    assert.are.equal("cpu", tostring(tide.device "cpu"))
    assert.are.equal("cuda:1", tostring(tide.device(tide.device "cuda:1")))
    local d = tide.device "cuda:2"
    assert.are.equal("cuda", d.type)
    assert.are.equal(2, d.index)
    assert.is_nil(tide.device("cuda").index)
    assert.is_nil(tide.device("cpu").index)
    assert.is_true(d == tide.device(2))
    assert.is_false(d == tide.device(1))
    assert.is_false(d == tide.device "cpu")
  end)

  it("is the same key of a table each time", function()
    local seen = { [tide.ones(1, { device = D.dev }).device] = true }
    assert.is_true(seen[tide.zeros(2, { device = D.dev }).device])
  end)

  it("refuses what is no device", function()
    for _, bad in ipairs { "cuda:", "cuda:x", "gpu", "cuda:-1", "cpu:5", "", "cuda: 1", "cuda:1 ", "cuda:01", "cuda:+1",
      "cuda:1000", "cuda\0:1", "cpu\0", "cuda:1\0" } do
      local e = D.raises("ArgumentError", tide.device, bad)
      assert.is_nil(e.message:find("nil", 1, true), e.message)
    end
    D.raises("ArgumentError", tide.device, {})
    D.raises("ArgumentError", tide.device, 1.5)
    D.raises("ArgumentError", tide.device, "cuda", "x")
    D.raises("ValueError", tide.device, "cuda", -1)
    assert.are.equal(63, tide.device("cuda", 63).index)
    for _, index in ipairs { 64, 65, 1 << 31, 1 << 32, math.maxinteger, math.mininteger } do
      D.raises("ValueError", tide.device, "cuda", index)
    end
    D.raises("ValueError", tide.device, "cpu", 0)
    D.raises("ArgumentError", tide.device)
    D.raises("ArgumentError", tide.device, 0, 1)
    D.raises("ArgumentError", tide.device, tide.device "cuda", 1)
    local e = D.raises("ValueError", tide.device, math.maxinteger)
    assert.is_truthy(e.message:find(tostring(math.maxinteger), 1, true), e.message)
  end)
end)

describe("default device", function()
  D.watch(before_each, after_each)

  it("is where factories make tensors", function()
    assert.are.equal("cpu", tostring(tide.zeros(1).device))
    assert.are.equal("cpu", tostring(tide.get_default_device()))
    tide.device_scope(D.dev, function()
      assert.are.equal(D.dev, tostring(tide.zeros(1).device))
      assert.are.equal(D.dev, tostring(tide.tensor({ 1 }).device))
      assert.are.equal("cpu", tostring(tide.zeros(1, { device = "cpu" }).device))
    end)
    assert.are.equal("cpu", tostring(tide.zeros(1).device))
    tide.set_default_device(D.dev)
    assert.are.equal(D.dev, tostring(tide.zeros(1).device))
    tide.set_default_device "cpu"
  end)

  it("is every factory's, in both forms of the block", function()
    local function all()
      return { empty = tide.empty(2), ones = tide.ones(2), full = tide.full({ 2 }, 1), arange = tide.arange(2), range = tide.range(1, 2),
        linspace = tide.linspace(0, 1, 2), eye = tide.eye(2), rand = tide.rand(2), randn = tide.randn(2),
        randint = tide.randint(0, 9, { 2 }), randperm = tide.randperm(2), as_tensor = tide.as_tensor { 1 }, tril = tide.tril_indices(2, 2) }
    end
    local function lie_on(name, list)
      for what, x in pairs(list) do assert.are.equal(name, tostring(x.device), what) end
    end
    do
      local _ <close> = tide.device_scope(D.dev)
      lie_on(D.dev, all())
      tide.device_scope("cpu", function() lie_on("cpu", all()) end)
      lie_on(D.dev, { tide.zeros(1) })
      lie_on("cpu", { tide.zeros_like(tide.zeros(1, { device = "cpu" })), tide.zeros(1, { device = "cpu" }):new_ones(1) })
    end
    lie_on("cpu", all())
    D.raises("ArgumentError", tide.set_default_device)
    D.raises("ArgumentError", tide.set_default_device, "gpu")
    D.raises("ArgumentError", tide.device_scope, {}, print)
    if D.devices < 2 then return pending "the rest needs two devices" end
    tide.device_scope("cuda", function() -- the current one, whenever it is used
      assert.are.equal("cuda:0", tostring(tide.zeros(1).device))
      tide.cuda.device(1, function() lie_on("cuda:1", all()) end)
    end)
  end)
end)

if not D.cuda then return end

describe("current device", function()
  D.watch(before_each, after_each)
  local cuda = tide.cuda

  it("answers the questions of a package", function()
    assert.is_true(cuda.is_available())
    cuda.init()
    cuda.init()
    assert.is_true(cuda.is_initialized())
    assert.is_true(cuda.device_count() >= 1)
    assert.are.equal(0, cuda.current_device())
  end)

  it("is set for a block, in both forms", function()
    if D.devices < 2 then return pending "needs two devices" end
    local a, b = cuda.device(1, function(x, y)
      assert.are.equal(1, cuda.current_device())
      assert.are.equal("cuda:1", tostring(tide.zeros(1, { device = "cuda" }).device))
      return x + y, "two"
    end, 3, 4)
    assert.are.equal(7, a)
    assert.are.equal("two", b)
    assert.are.equal(0, cuda.current_device())
    do
      local _ <close> = cuda.device "cuda:1"
      assert.are.equal(1, cuda.current_device())
    end
    assert.are.equal(0, cuda.current_device())
    for _, none in ipairs { -1, "nil" } do
      cuda.device(none ~= "nil" and none or nil, function() assert.are.equal(0, cuda.current_device()) end)
    end
    for _, enter in ipairs { function(f) cuda.device(nil, f) end, function(f) cuda.device(-1, f) end,
      function(f) cuda.device_of(tide.zeros(1), f) end } do
      enter(function() cuda.set_device(1) end)
      assert.are.equal(1, cuda.current_device()) -- left as it was entered: nothing is restored
      cuda.device("cuda", function() cuda.set_device(0) end)
      assert.are.equal(1, cuda.current_device())
      cuda.set_device(0)
    end
    assert.is_true(cuda.device_ctx_manager ~= nil)
    cuda.set_device(1)
    assert.are.equal(1, cuda.current_device())
    cuda.set_device(-1)
    assert.are.equal(1, cuda.current_device())
    cuda.set_device "cuda:0"
    D.raises("ArgumentError", cuda.set_device, nil)
  end)

  it("follows a tensor with device_of", function()
    if D.devices < 2 then return pending "needs two devices" end
    local x = tide.zeros(1, { device = "cuda:1" })
    cuda.device_of(x, function() assert.are.equal(1, cuda.current_device()) end)
    cuda.device_of(tide.zeros(1), function() assert.are.equal(0, cuda.current_device()) end)
    cuda.device_of(x:storage(), function() assert.are.equal(1, cuda.current_device()) end)
  end)

  it("does not change where results go", function()
    if D.devices < 2 then return pending "needs two devices" end
    local x, y = tide.ones(2, { device = "cuda:0" }), tide.ones(2, { device = "cuda:0" })
    cuda.device(1, function()
      local z = x + y
      assert.are.equal("cuda:0", tostring(z.device))
      D.eq({ 2, 2 }, z)
      assert.are.equal("cuda:1", tostring(tide.ones(2):cuda().device))
      assert.are.equal("cuda:0", tostring(tide.ones(2):cuda(0).device))
    end)
  end)

  it("refuses operands on different devices", function()
    local x = tide.ones(2, { device = "cuda:0" })
    local e = D.raises("DeviceError", function() return x + tide.ones(2) end)
    assert.is_truthy(e.message:find("cuda:0", 1, true) and e.message:find("cpu", 1, true), e.message)
    D.eq({ 3, 3 }, x + tide.tensor(2.)) -- a 0-d tensor of the cpu may join
    D.eq({ 3, 3 }, tide.tensor(2.) + x)
    if D.devices < 2 then return pending "the rest needs two devices" end
    e = D.raises("DeviceError", function() return x + tide.ones(2, { device = "cuda:1" }) end)
    assert.is_truthy(e.message:find("cuda:0", 1, true) and e.message:find("cuda:1", 1, true), e.message)
    D.raises("DeviceError", tide.cat, { x, tide.ones(2, { device = "cuda:1" }) })
    D.raises("DeviceError", tide.add, x, x, { out = tide.ones(2) })
    D.raises("DeviceError", function() return tide.ones(2, 2, { device = "cuda:0" }):matmul(tide.ones(2, { device = "cuda:1" })) end)
  end)

  it("refuses devices that are not there", function()
    D.raises("DeviceError", tide.zeros, 1, { device = 63 })
    D.raises("DeviceError", cuda.set_device, 63)
    D.raises("DeviceError", cuda.device, 63)
    D.raises("DeviceError", cuda.get_device_name, 63)
    D.raises("DeviceError", cuda.memory_allocated, 63)
    D.raises("DeviceError", cuda.synchronize, 63)
    assert.are.equal(0, cuda.current_device())
  end)

  it("tells about devices", function()
    assert.is_true(#cuda.get_device_name() > 3)
    local major, minor = cuda.get_device_capability(0)
    assert.is_true(major >= 5 and minor >= 0)
    local p = cuda.get_device_properties "cuda:0"
    assert.are.equal(major, p.major)
    assert.are.equal(p.name, cuda.get_device_name(0))
    assert.are.equal(32, p.warp_size)
    assert.is_true(p.total_memory > 0 and p.multi_processor_count > 0)
    assert.is_truthy(tostring(p):find(p.name, 1, true))
    assert.are.equal(p.total_memory, p:totable().total_memory)
    assert.are.equal(D.simulated, p.simulated)
    assert.is_false(pcall(function() p.name = "x" end))
    D.raises("ValueError", cuda.get_device_name, -1)
    local free, total = cuda.mem_get_info()
    assert.is_true(free <= total and free > 0)
    if D.devices > 1 then
      assert.is_boolean(cuda.can_device_access_peer(0, 1))
      assert.is_boolean(cuda.can_device_access_peer(nil, 1))
      assert.is_false(cuda.can_device_access_peer(0, 0))
      assert.is_truthy(D.raises("DeviceError", cuda.can_device_access_peer, 0, 63).message:find("peer: peer:", 1, true))
      assert.is_nil(D.raises("DeviceError", cuda.can_device_access_peer, 63, 0).message:find("peer: peer:", 1, true))
      assert.is_true(cuda.device(1, cuda.can_device_access_peer, nil, 0) == cuda.can_device_access_peer(1, "cuda:0"))
      local e = D.raises("ArgumentError", cuda.can_device_access_peer, 0)
      assert.is_truthy(e.message:find("peer", 10, true) and not e.message:find("'cpu'", 1, true), e.message)
    end
  end)

  it("is told by every tensor and storage, with its index", function()
    local x, y = tide.zeros(2, { device = "cuda" }), tide.zeros(2)
    assert.are.equal(0, x.device.index)
    assert.is_true(x.device == tide.device("cuda", 0) and x.device ~= tide.device "cuda")
    assert.is_true(x:storage().device == x.device and y:storage().device == tide.device "cpu")
    assert.is_true(x.is_cuda and not x.is_cpu and y.is_cpu and not y.is_cuda)
    assert.are.same({ 0, -1 }, { x:get_device(), y:get_device() })
    D.raises("ArgumentError", function() x.device = "cpu" end)
    D.raises("ArgumentError", function() x.device.index = 1 end)
    if D.devices < 2 then return pending "the rest needs two devices" end
    local z = cuda.device(1, tide.zeros, 2, { device = tide.device "cuda" })
    assert.are.same({ 1, 1 }, { z.device.index, z:get_device() })
    assert.are.equal("cuda:1", tostring(x:to(z).device))
  end)

  it("is set for a block by what lies there, in both forms", function()
    D.raises("ArgumentError", cuda.device_of, 5, print)
    D.raises("ArgumentError", cuda.device_of, nil, print)
    local a, b = cuda.device_of(tide.zeros(1), function(...) return ... end, 1, 2)
    assert.are.same({ 1, 2 }, { a, b })
    if D.devices < 2 then return pending "the rest needs two devices" end
    local x = tide.zeros(1, { device = "cuda:1" })
    do
      local _ <close> = cuda.device_of(x)
      assert.are.equal(1, cuda.current_device())
      cuda.device_of(tide.zeros(1), function() assert.are.equal(1, cuda.current_device()) end)
    end
    assert.is_false(pcall(cuda.device_of, x, error, "out"))
    assert.are.equal(0, cuda.current_device())
    assert.is_true(rawequal(cuda.device_ctx_manager, cuda.device))
  end)

  it("is taken by names and objects, and not by what is none", function()
    for _, dev in ipairs { 0, "cuda", "cuda:0", tide.device "cuda", tide.device(0) } do
      cuda.set_device(dev)
      assert.are.equal(0, cuda.device(dev, cuda.current_device))
    end
    for _, f in ipairs { cuda.set_device, cuda.device } do
      D.raises("DeviceError", f, "cpu")
      D.raises("ArgumentError", f, {})
      D.raises("ArgumentError", f, 0.5)
      D.raises("ArgumentError", f, tide.zeros(1))
    end
  end)

  it("gives way to a device that is named", function()
    if D.devices < 2 then return pending "needs two devices" end
    local last = D.devices - 1
    local name = "cuda:" .. last
    cuda.device(1, function()
      for what, x in pairs {
        tensor = tide.tensor({ 1., 2. }, { device = name }), randn = tide.randn(2, { device = tide.device(name) }),
        to = tide.ones(2):to(name), cuda = tide.ones(2):cuda(last), object = tide.ones(2):cuda(tide.device(last)),
        full = tide.full({ 2 }, 1, { device = last }),
      } do
        assert.are.equal(name, tostring(x.device), what)
      end
      for what, x in pairs { tensor = tide.tensor({ 1. }, { device = "cuda" }), cuda = tide.ones(1):cuda(), to = tide.ones(1):to "cuda" } do
        assert.are.equal("cuda:1", tostring(x.device), what)
      end
    end)
  end)

  it("does not choose the stream of an operation: the tensor's device does", function()
    if D.devices < 2 then return pending "needs two devices" end
    local s, x = cuda.Stream(1), tide.ones(1000, { device = "cuda:1" })
    local _ = x + 1 -- a kernel may be loaded at its first use, which waits for the device
    collectgarbage()
    cuda.synchronize_all()
    cuda.empty_cache() -- so does memory of graphs that were dropped, which goes back to the driver when more is needed
    cuda.stream(s, function()
      cuda.device(0, function()
        cuda.device(1, D.hold)
        local y = x + 1
        assert.is_false(s:query())
        assert.is_true(cuda.default_stream(1):query() and cuda.current_stream(0):query())
        D.release()
        D.eq(2, y[1000]) -- and so does reading
        assert.is_true(s:query())
      end)
    end)
  end)

  it("is the one that questions are about", function()
    if D.devices < 2 then return pending "needs two devices" end
    local x = tide.zeros(1000, { device = "cuda:1", dtype = "uint8" })
    local function same(name, ...)
      local told, asked = table.pack(cuda[name](1, ...)), table.pack(cuda.device(1, cuda[name]))
      assert.are.same(told, asked, name)
      return told[1], cuda[name]()
    end
    for _, name in ipairs { "memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved", "memory_stats",
      "get_device_capability", "get_device_name", "get_per_process_memory_fraction", "memory_stats_as_nested_dict" } do
      same(name)
    end
    local there, here = same "memory_allocated"
    x:free()
    assert.are.equal(there - 1024, cuda.device(1, cuda.memory_allocated))
    assert.are.equal(here, cuda.memory_allocated())
    cuda.device(1, cuda.reset_peak_memory_stats)
    assert.are.equal(cuda.memory_allocated(1), cuda.max_memory_allocated "cuda:1")
    cuda.device(1, function()
      assert.are.equal(1, cuda.current_stream().device.index)
      assert.are.equal(1, cuda.default_stream().device.index)
      assert.is_truthy(cuda.memory_summary():find("cuda:1", 1, true))
    end)
  end)

  it("is not in an error about several, which names each argument's", function()
    local x = tide.ones(2, { device = "cuda:0" })
    local e = D.raises("DeviceError", function() return tide.where(x:gt(0), tide.ones(2), x) end)
    assert.are.equal("where", e.op)
    assert.is_nil(e.device)
    assert.is_truthy(e.message:find "condition on cuda:0.-, x on cpu.-, y on cuda:0", e.message)
    if D.devices < 2 then return pending "the rest needs two devices" end
    e = D.raises("DeviceError", tide.addcmul, x, tide.ones(2, { device = 1 }), tide.ones(2, { device = 1 }))
    assert.is_truthy(e.op == "addcmul" and e.message:find "x on cuda:0.-, a on cuda:1.-, b on cuda:1", e.message)
    tide.ones(2):copy_(x) -- copies are not refused
    x:copy_(tide.ones(2, { device = 1 }))
    x:copy_(tide.ones(1, { dtype = "int64" })) -- nor is a cast and a broadcast on the way
    D.eq({ 1, 1 }, x)
  end)

  it("and others are named in the same ways everywhere", function()
    local names = { "get_device_name", "get_device_capability", "get_device_properties", "memory_usage", "utilization", "temperature",
      "power_draw", "clock_rate", "list_gpu_processes", "device_memory_used", "is_bf16_supported", "is_tf32_supported",
      "current_stream", "default_stream", "synchronize", "memory_allocated", "max_memory_allocated", "memory_reserved",
      "max_memory_reserved", "memory_stats", "memory_stats_as_nested_dict", "mem_get_info", "reset_peak_memory_stats",
      "reset_accumulated_memory_stats", "get_per_process_memory_fraction" }
    local functions = { range = cuda.Stream.priority_range }
    for _, name in ipairs(names) do functions[name] = cuda[name] end
    function functions.external(dev) return cuda.ExternalStream(0, dev) end
    function functions.fraction(dev) return cuda.set_per_process_memory_fraction(1, dev) end
    local wrong = { [63] = "DeviceError", [1 << 30] = "DeviceError", ["cuda:63"] = "DeviceError", cpu = "DeviceError",
      [tide.device "cpu"] = "DeviceError", [-1] = "ValueError", [1 << 40] = "ValueError", gpu = "ArgumentError",
      [0.5] = "ArgumentError", [{}] = "ArgumentError", [true] = "ArgumentError", [tide.zeros(1)] = "ArgumentError" }
    for name, f in pairs(functions) do
      f(nil)
      for _, dev in ipairs { 0, "cuda", "cuda:0", tide.device "cuda", tide.device(0) } do f(dev) end
      for dev, kind in pairs(wrong) do
        local ok, e = pcall(f, dev)
        assert(not ok and e.kind == kind and e.op ~= "device", ("%s of %s: %s"):format(name, tostring(dev), tostring(e)))
      end
    end
  end)
end)

describe("tide.cuda.preload", function()
  it("loads what there is to load, and work goes on meanwhile", function()
    local loaded, all = tide.cuda.preload()
    assert.is_true(math.type(loaded) == "integer" and loaded <= all)
    assert.are.equal(not D.simulated, all > 100) -- simulated devices have no code to load
    local x = tide.arange(1, 5, { device = D.dev })
    while loaded < all do
      x = x:add(1):sub(1):roll(1):roll(-1)
      loaded = tide.cuda.preload(D.dev)
    end
    D.eq({ 1, 2, 3, 4 }, x)
    local n, m = tide.cuda.preload(D.dev, { wait = true })
    assert.are.same({ all, all }, { n, m })
  end)

  it("begins anew after a reset, and ends with the process or the state", function()
    local function ends(how)
      local out, err, code = D.run { "-e", [[local tide = require "tide"
        local _, all = tide.cuda.preload()
        tide.cuda.device_reset()
        local n, m = tide.cuda.preload(0, { wait = true })
        assert(n == all and m == all, n .. " of " .. m)
        tide.cuda.device_reset()
        tide.cuda.preload() ]] .. how }
      assert.are.equal("0 ", code .. " " .. out .. err)
    end
    ends ""
    ends "os.exit(0)"
    ends "os.exit(0, true)"
  end)

  it("takes devices and nothing else", function()
    D.raises("DeviceError", tide.cuda.preload, "cpu")
    D.raises("DeviceError", tide.cuda.preload, 63)
    D.raises("ArgumentError", tide.cuda.preload, 0, { wait = 1 })
    D.raises("ArgumentError", tide.cuda.preload, 0, { sync = true })
  end)
end)

describe("CUDA_VISIBLE_DEVICES", function()
  it("chooses among simulated devices, too", function()
    local function visible(value)
      local out = D.run({ "-e", [[local c = tide.cuda
        local ids = {}
        for d = 0, c.device_count() - 1 do ids[#ids + 1] = c.get_device_properties(d).uuid:sub(-2) end
        print(c.is_available(), table.concat(ids, " "))
        if ids[1] then assert(tide.ones(2, { device = "cuda" }):sum():item() == 2) end]] },
        { env = { TIDE_SIM_DEVICES = "3", CUDA_VISIBLE_DEVICES = value } })
      return out
    end
    assert.are.equal("true\t01\n", visible "1")
    assert.are.equal("true\t02 00\n", visible "2,0")
    assert.are.equal("true\t00\n", visible "0,7,1")
    assert.are.equal("true\t02\n", visible "GPU-74696465-2073-696d-756c-617465640002")
    for _, none in ipairs { "", "7", "0,0", "-1" } do assert.are.equal("false\t\n", visible(none)) end
  end)

  it("leaves the properties torch knows", function()
    if not D.cuda then return pending "needs a device" end
    local p = tide.cuda.get_device_properties(0)
    assert.are.equal(p.name, p.gcnArchName)
  end)
end)
