-- What devices report of themselves.

local tide = require "tide"
local D = require "spec.support.device"
local cuda = tide.cuda

describe("without an accelerator", function()
  it("lists are empty and reports say what is missing", function()
    if D.cuda then return pending "is about the CPU alone" end
    local out = D.run({ "-e", [[
      local tide = require "tide"
      local cuda = tide.cuda
      if cuda.is_available() then print "0\n\nfalse\tfalse\tLibraryError" return end
      print(#cuda.get_arch_list())
      print(cuda.get_gencode_flags())
      local ok, e = pcall(cuda.utilization)
      local kind = (e.kind == "DeviceError" or e.kind == "LibraryError") and "LibraryError" or e.kind
      print(cuda.is_bf16_supported(), ok, kind)]] }, { env = { CUDA_VISIBLE_DEVICES = "" } })
    assert.are.equal("0\n\nfalse\tfalse\tLibraryError\n", out)
  end)
end)

if not D.cuda then return end

describe("devices", function()
  D.watch(before_each, after_each)

  it("have names, capabilities and properties", function()
    assert.are.equal(cuda.get_device_name(), cuda.get_device_name "cuda:0")
    local major, minor = cuda.get_device_capability()
    local p = cuda.get_device_properties()
    assert.are.same({ p.major, p.minor }, { major, minor })
    for _, field in ipairs { "name", "major", "minor", "is_multi_gpu_board", "is_integrated", "multi_processor_count",
      "total_memory", "max_threads_per_multi_processor", "max_threads_per_block", "warp_size", "regs_per_multiprocessor",
      "shared_memory_per_block", "shared_memory_per_block_optin", "shared_memory_per_multiprocessor", "L2_cache_size", "uuid",
      "pci_bus_id", "pci_device_id", "pci_domain_id", "clock_rate", "memory_clock_rate", "memory_bus_width" } do
      assert.is_truthy(p[field] ~= nil, field)
      assert.are.equal(p[field], p:totable()[field])
      assert.is_truthy(tide.help(cuda.get_device_properties):find(field, 1, true), field)
    end
    assert.is_truthy(p.uuid:match "^%x+%-%x+%-%x+%-%x+%-%x+$", p.uuid)
    for _, f in ipairs { cuda.get_device_name, cuda.get_device_capability, cuda.get_device_properties } do
      D.raises("ValueError", f, -1)
      D.raises("DeviceError", f, 63)
      D.raises("DeviceError", f, "cpu")
    end
  end)

  it("tell what the library was compiled for", function()
    local list = cuda.get_arch_list()
    assert.is_true(#list >= 1)
    local flags, lowest = {}, math.huge
    for i, arch in ipairs(list) do
      local number = arch:match "^sm_(%d+)" or arch:match "^compute_(%d+)"
      assert.is_truthy(number, arch)
      flags[i] = "-gencode compute=compute_" .. number .. ",code=" .. arch
      lowest = math.min(lowest, tonumber(number))
    end
    assert.are.equal(table.concat(flags, " "), cuda.get_gencode_flags())
    local major, minor = cuda.min_capability()
    assert.are.equal(lowest, 10 * major + minor)
    major = cuda.get_device_capability()
    assert.are.equal(major >= 8, cuda.is_bf16_supported())
    assert.are.equal(major >= 8, cuda.is_tf32_supported(0))
  end)

  it("report load, heat, power, clock and memory", function()
    local x = tide.zeros(1 << 20, { device = "cuda", dtype = "uint8" })
    for name, most in pairs { utilization = 100, memory_usage = 100, temperature = 150, power_draw = 2e6, clock_rate = 1e4 } do
      local value = cuda[name]()
      assert.are.equal("integer", math.type(value), name)
      assert.is_true(value >= 0 and value <= most, name .. " " .. value)
      assert.are.equal("integer", math.type(cuda[name](0)))
      D.raises("DeviceError", cuda[name], 63)
      D.raises("ValueError", cuda[name], -1)
    end
    assert.is_true(cuda.temperature() > 5 and cuda.clock_rate() > 50)
    local used = cuda.device_memory_used()
    assert.is_true(used >= cuda.memory_reserved(), used)
    if D.simulated then
      D.hold()
      assert.are.equal(100, cuda.utilization())
      D.release()
      cuda.synchronize()
      assert.are.equal(0, cuda.utilization())
    end
    assert.are.equal(0, x[1]:item())
  end)

  it("list the processes that compute on them", function()
    local x = tide.zeros(1 << 20, { device = "cuda", dtype = "uint8" })
    local text, list = cuda.list_gpu_processes()
    assert.is_truthy(text:find("^GPU:0\n"), text)
    assert.is_true(#list >= 1 or text:find("no processes", 1, true) ~= nil, text)
    for _, process in ipairs(list) do
      assert.are.equal("integer", math.type(process.pid))
      assert.is_truthy(text:find(("process %10d uses"):format(process.pid), 1, true), text)
    end
    assert.are.equal(0, x[1]:item())
  end)

  it("lend a cuBLAS handle, where there is cuBLAS", function()
    if D.simulated then
      D.raises("NotSupportedError", cuda.current_blas_handle)
      D.raises("NotSupportedError", cuda.current_blas_handle, {}) -- no options are none that are wrong
    else
      local handle = cuda.current_blas_handle()
      assert.are.equal("userdata", type(handle))
      assert.are.equal("integer", math.type(cuda.current_blas_handle { as = "integer" }))
      assert.are.equal(handle, cuda.stream(cuda.Stream(), cuda.current_blas_handle))
    end
    D.raises("ArgumentError", cuda.current_blas_handle, { as = "string" })
    D.raises("ArgumentError", cuda.current_blas_handle, { form = 1 })
    D.raises("ArgumentError", cuda.current_blas_handle, 1)
  end)

  it("have properties that are printed and not changed", function()
    local p = cuda.get_device_properties()
    local text = tostring(p)
    for _, part in ipairs { p.name, ("cc=%d.%d"):format(p.major, p.minor), ("total_memory=%dMB"):format(p.total_memory >> 20),
      "multi_processor_count=" .. p.multi_processor_count } do
      assert.is_truthy(text:find(part, 1, true), text)
    end
    D.raises("ArgumentError", function() p.major = 3 end)
    D.raises("ArgumentError", function() p.mine = 3 end)
    D.raises("ArgumentError", function() return p.no_such_field end)
    local t = p:totable()
    t.major = -1
    assert.are.equal(p.major, cuda.get_device_properties().major)
    local free, total = cuda.mem_get_info()
    assert.is_true(total <= p.total_memory and free <= total)
    local fell = false -- counts all processes, and another one may free some in between
    for _ = 1, 20 do
      local before = cuda.mem_get_info()
      local x = tide.zeros(64 << 20, { device = "cuda", dtype = "uint8" })
      fell = fell or cuda.mem_get_info() <= before
      x:free()
      cuda.empty_cache()
    end
    assert.is_true(fell)
  end)

  it("have versions of the driver and of what tide was built with", function()
    for _, f in ipairs { cuda.driver_version, cuda.runtime_version } do
      if D.simulated then
        D.raises("NotSupportedError", f)
      else
        assert.is_true(math.type(f()) == "integer" and f() >= 11000)
      end
    end
  end)
end)

describe("peer access", function()
  D.watch(before_each, after_each)
  if D.devices < 2 or not cuda.can_device_access_peer(0, 1) then return pending "needs two devices that reach each other" end

  after_each(function() cuda.set_peer_access(0, 1, false) end)

  local function pair()
    return tide.full({ 3000 }, 2, { device = "cuda:0", dtype = "float32" }), tide.full({ 3000 }, 3, { device = "cuda:1", dtype = "float32" })
  end

  it("is off at the start and asked for by pairs", function()
    assert.is_false(cuda.get_peer_access(0, 1))
    cuda.set_peer_access(0, 1, true)
    assert.is_true(cuda.get_peer_access(0, 1))
    assert.is_false(cuda.get_peer_access(1, 0))
    cuda.set_peer_access("cuda:0", "cuda:1", false)
    assert.is_false(cuda.get_peer_access(0, 1))
    D.raises("ValueError", cuda.set_peer_access, 0, 0, true)
    D.raises("DeviceError", cuda.set_peer_access, 0, 63, true)
    D.raises("ArgumentError", cuda.set_peer_access, 0, 1)
    D.raises("ArgumentError", cuda.get_peer_access, 0)
  end)

  it("lets operations read the peer's operands; the first tensor says where the result is", function()
    local a, b = pair()
    local e = D.raises("DeviceError", function() return a + b end)
    assert.is_truthy(e.message:find "x on cuda:0.-, y on cuda:1", e.message)
    cuda.set_peer_access(0, 1, true)
    local c = a + b
    assert.are.equal("cuda:0", tostring(c.device))
    D.eq(5, c[3000])
    D.raises("DeviceError", function() return b + a end)
    D.raises("DeviceError", function() return tide.add(a, a, { out = b }) end)
    D.raises("DeviceError", function() return a + tide.ones(3000) end)
    D.eq({ { 18000 } }, a:view(1, 3000):matmul(b:view(3000, 1)))
    assert.are.equal("cuda:0", tostring(tide.cat({ a, b }).device))
    D.eq(3, tide.cat({ a, b })[6000])
    assert.is_false(tide.equal(a, b))
    D.eq({ 2 }, a[tide.tensor({ 5 }, { device = "cuda:1" })])
  end)

  it("orders reader and owner, both ways", function()
    cuda.set_peer_access(0, 1, true)
    for i = 1, 20 do
      local a, b = pair()
      cuda.device(1, function() cuda._sleep(300000) end)
      b:fill_(i)                -- late on its device: the reader must wait for it
      cuda._sleep(300000)
      local c = a + b           -- late too: the owner must wait for the reader
      b:fill_(-1)
      D.eq(2 + i, c[3000])
      D.eq(-1, b[1])
    end
  end)

  it("is switched off behind the work that is queued, and not while a graph is captured", function()
    cuda.set_peer_access(0, 1, true)
    local a, b = pair()
    cuda._sleep(300000)
    local c = a + b
    cuda.set_peer_access(0, 1, false)
    D.eq(5, c[3000])
    cuda.set_peer_access(0, 1, true)
    local g = cuda.CUDAGraph()
    local e = D.raises("StateError", cuda.graph, g, function() cuda.set_peer_access(0, 1, false) end)
    assert.is_truthy(e.message:find("set_peer_access", 1, true), e.message)
    assert.is_true(cuda.get_peer_access(0, 1))
  end)

  it("keeps the peer's memory while it is read", function()
    cuda.set_peer_access(0, 1, true)
    for i = 1, 10 do
      local a, b = pair()
      cuda._sleep(300000)
      local c = a * b
      b:free()
      local other = tide.full({ 3000 }, -1, { device = "cuda:1", dtype = "float32" }) -- would get b's memory
      D.eq(6, c[1])
      D.eq(-1, other[i])
    end
  end)
end)
