-- The package: what starts the driver, what waits for it, what an old device gets.

local tide = require "tide"
local D = require "spec.support.device"

describe("the package", function()
  it("has one API for both kinds of device", function()
    for _, dev in ipairs { "cpu", D.dev } do
      local x = tide.tensor({ 1., 2. }, { device = dev })
      D.eq(6, (x * 2):sum())
      assert.are.equal(dev, tostring((x + x).device))
    end
  end)

  it("offers names under their nested tables too", function()
    for _, name in ipairs { "Stream", "Event", "ExternalStream" } do
      assert.are.equal(tide.cuda[name], tide.cuda.streams[name])
    end
    for _, name in ipairs { "manual_seed", "get_rng_state", "set_rng_state", "seed_all" } do
      assert.are.equal(tide.cuda[name], tide.cuda.random[name])
    end
  end)

  it("starts no driver by questions and seeds", function()
    if not D.simulated then return pending "needs simulated devices" end
    D.simulate(2, [[
      local tide = require "tide"
      local cuda = tide.cuda
      assert(cuda.is_available() and cuda.device_count() == 2)
      cuda.manual_seed(3)
      cuda.manual_seed_all(4)
      cuda.seed()
      cuda.set_rng_state(tide.zeros(16, { dtype = "uint8" }))
      cuda.empty_cache()
      assert(cuda.memory_allocated() == 0)
      cuda.get_device_name(0)
      cuda.get_arch_list()
      assert(not cuda.is_initialized())
      cuda.init()
      assert(cuda.is_initialized())
      cuda.init()]])
  end)

  it("keeps what was seeded before the first use, in order", function()
    if not D.simulated then return pending "needs simulated devices" end
    D.simulate(2, [[
      local tide = require "tide"
      tide.cuda.manual_seed(3)
      tide.manual_seed(4)
      assert(tide.cuda.initial_seed() == 4)
      tide.cuda.manual_seed(5)
      local a = tide.rand(4, { device = "cuda" })
      tide.cuda.manual_seed(5)
      assert(tide.equal(a, tide.rand(4, { device = "cuda" })))]])
    local out = D.run({ "-e", [[
      local tide = require "tide"
      local s = tide.zeros(16, { dtype = "uint8" })
      s[1] = 77
      tide.cuda.set_rng_state(s, 1)
      print(tide.cuda.get_rng_state(1)[1]:item(), tide.cuda.get_rng_state(0)[1]:item())]] }, { env = { TIDE_SIM_DEVICES = "2" } })
    assert.is_truthy(out:match "^77\t", out)
  end)

  it("tells at the first use what an early call got wrong, once, with its line", function()
    if not D.simulated then return pending "needs simulated devices" end
    D.simulate(2, [[
      local tide = require "tide"
      local state = tide.zeros(16, { dtype = "uint8" })
      local function early() tide.cuda.set_rng_state(state, 7) end
      early()
      tide.cuda.set_rng_state(state, 1)
      local ok, e = pcall(tide.zeros, 2, { device = "cuda" })
      assert(not ok and e.kind == "DeferredCudaCallError", tostring(e))
      assert(tide.cuda.DeferredCudaCallError.is(e) and not tide.cuda.AcceleratorError.is(e))
      assert(e.message:find "cuda:7" and e.message:find ":3:" and e.message:find "traceback", e.message)
      assert(tide.ones(2, { device = "cuda" }):sum():item() == 2)
      local ok, e = pcall(tide.cuda.set_rng_state, state, 7)
      assert(not ok and e.kind == "DeviceError", tostring(e))]])
  end)

  it("warns of a device that it was not compiled for", function()
    if not D.simulated then return pending "needs simulated devices" end
    local script = [[local tide = require "tide"
      local x = tide.zeros(2, { device = "cuda:1" }) + 1
      print(tide.cuda.is_bf16_supported(1), tide.cuda.min_capability())]]
    local _, err = D.simulate(2, script, { TIDE_SIM_CAPABILITY = "7.5" })
    assert.is_truthy(err:find("capability 7.5", 1, true) and err:find("cuda:1", 1, true), err)
    assert.is_nil(err:find("cuda:0", 1, true), err)
    local out, quiet = D.simulate(2, script)
    assert.are.equal("", quiet)
    assert.are.equal("true\t9\t0\n", out)
  end)

  it("refuses numbers of simulated devices that cannot be, as they were given", function()
    for given, said in pairs { ["65"] = "got 65,", ["1000"] = "got 1000,", ["-1"] = '"-1"', many = '"many"', ["1.5"] = '"1.5"' } do
      local _, err, code = D.run({ "-e", "" }, { env = { TIDE_SIM_DEVICES = given } })
      assert.are.equal(1, code)
      assert.is_truthy(err:find(said, 1, true), err)
    end
  end)

  it("opens the devices that are used, no others", function()
    if not D.simulated then return pending "needs simulated devices" end
    D.simulate(3, [[
      local tide = require "tide"
      local x = tide.ones(5, { device = "cuda:1" })
      tide.cuda.device(1, function() return (x + x):sum():item() end)
      tide.cuda.get_device_properties(2)
      tide.cuda.memory_allocated(2)
      assert(tide.cuda.current_device() == 0 and tide.cuda.device(2, tide.cuda.current_device) == 2)
      assert(tide.cuda.can_device_access_peer(0, 2) and not tide.cuda.get_peer_access(2, 0))
      collectgarbage()
      tide.cuda.synchronize_all()
      tide.cuda.empty_cache()
      for d = 0, 2 do assert(tide.cuda._is_open(d) == (d == 1), d) end]])
  end)

  it("has the functions of random numbers, streams and graphs under both names, all of them", function()
    local names = {
      random = { "get_rng_state", "get_rng_state_all", "set_rng_state", "set_rng_state_all", "manual_seed", "manual_seed_all",
        "seed", "seed_all", "initial_seed" },
      streams = { "Stream", "Event", "ExternalStream" },
      graphs = { "CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables" },
    }
    for where, list in pairs(names) do
      for _, name in ipairs(list) do
        assert.is_truthy(tide.cuda[name] and rawequal(tide.cuda[name], tide.cuda[where][name]), where .. "." .. name)
      end
    end
  end)

  it("can be asked for devices without the driver, and never fails", function()
    local source = [[
      local cuda = require "tide".cuda
      print(cuda.is_available(), cuda.device_count() > 0, cuda.is_initialized())
      print(select("#", cuda.init), pcall(cuda.is_available))]]
    for _, check in ipairs { "0", "1" } do
      local out, err, code = D.run({ "-e", source }, { env = { TIDE_NVML_BASED_CUDA_CHECK = check } })
      assert.are.equal(0, code, out .. err)
      local have, some, begun = out:match "^(%a+)\t(%a+)\t(%a+)\n"
      assert.are.equal(have, some)
      assert.are.equal("false", begun)
      if D.cuda then assert.are.equal("true", have) end
      if not D.simulated then -- nothing is visible
        out = D.run({ "-e", source }, { env = { TIDE_NVML_BASED_CUDA_CHECK = check, CUDA_VISIBLE_DEVICES = "-1", TIDE_SIM_DEVICES = "0" } })
        assert.are.equal("false\tfalse\tfalse", out:match "^[^\n]*")
      end
    end
  end)

  it("is initialised by the first question that needs a device", function()
    if not D.simulated then return pending "needs simulated devices" end
    for _, use in ipairs { "current_device()", "init()", "current_stream()", "Stream()", "mem_get_info()", "get_rng_state()" } do
      D.simulate(1, ([[
        local cuda = require "tide".cuda
        assert(not cuda.is_initialized())
        local x = cuda.%s
        assert(cuda.is_initialized())]]):format(use))
    end
  end)

  it("reads no other project's variables", function()
    if not D.simulated then return pending "needs simulated devices" end
    D.simulate(1, [[
      local tide = require "tide"
      local x = tide.ones(2, { device = "cuda" })
      assert(tide.cuda.is_caching_allocator_enabled() and tide.cuda.memory_stats().max_split_size == -1)]],
      { PYTORCH_CUDA_ALLOC_CONF = "max_split_size_mb:64", PYTORCH_ALLOC_CONF = "foo:1", PYTORCH_NO_CUDA_MEMORY_CACHING = "1" })
  end)

  it("warns through Lua's own warn, which may be off", function()
    local out, err = D.run { "-e", [[
      local tide = require "tide"
      tide.warn("first")
      warn "@off"
      tide.warn("second")]] }
    assert.are.equal("", out)
    assert.is_truthy(err:find("Lua warning: first", 1, true) and not err:find("second", 1, true), err)
  end)

  it("has the simulated devices that CUDA_VISIBLE_DEVICES leaves, in its order", function()
    local source = [[
      local cuda, list = require("tide").cuda, {}
      for d = 0, cuda.device_count() - 1 do
        local p = cuda.get_device_properties(d)
        list[#list + 1] = p.pci_bus_id .. p.uuid:sub(-1)
      end
      print(table.concat(list, " "))]]
    for text, want in pairs { ["0,1,2,3"] = "10 21 32 43", ["3,1,2"] = "43 21 32", ["2,0"] = "32 10", ["1"] = "21", ["3,2,1,0"] = "43 32 21 10" } do
      assert.are.equal(want .. "\n", (D.run({ "-e", source }, { env = { TIDE_SIM_DEVICES = "4", CUDA_VISIBLE_DEVICES = text } })), text)
    end
  end)

  it("has the devices that CUDA_VISIBLE_DEVICES leaves, as the driver has", function()
    if not D.cuda or D.simulated or os.getenv "CUDA_VISIBLE_DEVICES" then return pending "needs a real GPU" end
    local uuid = "GPU-" .. tide.cuda.get_device_properties(0).uuid
    local source = [[
      local tide = require "tide"
      local n = tide.cuda.device_count()
      assert(not tide.cuda.is_initialized() and tide.cuda.is_available() == (n > 0))
      for d = 0, n do assert(pcall(tide.zeros, 1, { device = d }) == (d < n), d) end
      assert(tide.cuda.device_count() == n)
      print(n, n > 0 and tide.cuda.get_device_properties(0).uuid or "none")]]
    for text, want in pairs { ["0"] = 1, [""] = 0, ["-1"] = 0, ["0,-1"] = 1, ["0gpu7"] = 1, ["99"] = 0, ["0,0"] = 0, none = 0,
      [uuid] = 1, [uuid:sub(1, 14)] = 1, ["GPU-zz"] = 0 } do
      for _, check in ipairs { "0", "1" } do
        local out, err, code = D.run({ "-e", source }, { env = { CUDA_VISIBLE_DEVICES = text, TIDE_NVML_BASED_CUDA_CHECK = check } })
        assert.are.equal(0, code, text .. ": " .. out .. err)
        assert.are.equal(want .. "\t" .. (want > 0 and uuid:sub(5) or "none") .. "\n", out, text)
      end
    end
    if D.devices < 2 then return pending "the rest needs two devices" end
    local out = D.run({ "-e", source }, { env = { CUDA_VISIBLE_DEVICES = "1,0" } })
    assert.are.equal("2\t" .. tide.cuda.get_device_properties(1).uuid .. "\n", out)
  end)
end)
