-- The random states of GPUs.

local tide = require "tide"
local D = require "spec.support.device"
local cuda = tide.cuda

local function draw(dev, n) return tide.rand(n or 4, { device = dev }):totable() end

describe("tide.random.fork_rng", function()
  D.watch(before_each, after_each)

  it("gives the default generators their states back", function()
    local function all()
      local out = { draw "cpu" }
      for i = 0, D.devices - 1 do out[#out + 1] = draw(i) end
      return out
    end
    tide.manual_seed(3)
    all() -- not at the beginning of the sequences
    local states = { tide.get_rng_state(), table.unpack(D.cuda and cuda.get_rng_state_all() or {}) }
    local want = all()
    tide.set_rng_state(states[1])
    if D.cuda then cuda.set_rng_state_all { table.unpack(states, 2) } end
    local a, b = tide.random.fork_rng(function(x, y)
      tide.manual_seed(77)
      all()
      return x, y
    end, 1, 2)
    assert.are.same({ 1, 2 }, { a, b })
    assert.are.same(want, all())
    tide.set_rng_state(states[1])
    if D.cuda then cuda.set_rng_state_all { table.unpack(states, 2) } end
    pcall(tide.random.fork_rng, function()
      all()
      error "also then"
    end)
    do
      local _ <close> = tide.random.fork_rng()
      tide.manual_seed(5)
    end
    assert.are.same(want, all())
  end)

  it("forks the named GPUs alone, and the CPU", function()
    tide.manual_seed(3)
    local host = draw "cpu"
    tide.manual_seed(3)
    tide.random.fork_rng({ devices = {} }, function() tide.manual_seed(9) end)
    assert.are.same(host, draw "cpu")
    if D.devices < 2 then return pending "the rest needs two devices" end
    cuda.manual_seed_all(3)
    local first = draw(0)
    cuda.manual_seed_all(3)
    tide.random.fork_rng({ devices = { 0 } }, function() cuda.manual_seed_all(9) end)
    assert.are.same(first, draw(0))
    assert.are.equal(9, cuda.default_generators[2]:initial_seed())
    D.raises("ArgumentError", tide.random.fork_rng, { devices = 0 })
    D.raises("DeviceError", tide.random.fork_rng, { devices = { "cpu" } })
    D.raises("DeviceError", tide.random.fork_rng, { devices = { 63 } })
  end)

  it("gives back what was before the first of blocks that overlap", function()
    for _, order in ipairs { { 1, 2 }, { 2, 1 }, { 1, 2, 3 }, { 3, 1, 2 }, { 2, 1, 3 } } do
      tide.manual_seed(3)
      local blocks = {}
      for i = 1, #order do
        blocks[i] = coroutine.wrap(function()
          tide.random.fork_rng(function()
            draw "cpu"
            draw(D.dev)
            coroutine.yield()
            draw "cpu"
          end)
        end)
        blocks[i]()
      end
      for _, i in ipairs(order) do blocks[i]() end
      local host, device = draw "cpu", draw(D.dev)
      tide.manual_seed(3)
      assert.are.same({ draw "cpu", draw(D.dev) }, { host, device })
    end
  end)

  it("gives the states back where a block in a coroutine never ends", function()
    tide.manual_seed(3)
    local co
    tide.random.fork_rng(function()
      co = coroutine.create(function() tide.random.fork_rng(coroutine.yield) end)
      coroutine.resume(co)
      draw "cpu"
    end)
    local host = draw "cpu"
    coroutine.close(co)
    tide.manual_seed(3)
    assert.are.same(draw "cpu", host)
  end)

  it("refuses wrong arguments", function()
    D.raises("ArgumentError", tide.random.fork_rng, { device = {} })
    D.raises("ArgumentError", tide.random.fork_rng, 5)
  end)
end)

describe("a generator", function()
  D.watch(before_each, after_each)

  it("has a seed, an offset in steps of 4, and a clone of its own", function()
    local g = tide.Generator(D.dev)
    assert.are.equal(g, g:manual_seed(11))
    assert.are.equal(0, g:get_offset())
    for _, n in ipairs { 1, 4, 5, 100003 } do -- one call, one step, whatever its size
      local before = g:get_offset()
      tide.rand(n, { device = D.dev, generator = g })
      assert.are.equal(before + 4, g:get_offset())
    end
    local c = g:clone_state()
    assert.are.equal(D.dev, tostring(tide.rand(1, { device = D.dev, generator = c }).device))
    assert.are.equal(g:get_offset() + 4, c:get_offset())
    assert.are.equal(g:initial_seed(), c:initial_seed())
    local offset = c:get_offset()
    local x = tide.rand(3, { device = D.dev, generator = c }):totable()
    assert.are.equal(c, c:set_offset(offset))
    D.eq(x, tide.rand(3, { device = D.dev, generator = c }))
    assert.are.equal(g, g:set_state(c:get_state()))
    assert.are.equal(c:get_offset(), g:get_offset())
    local seed = g:seed()
    assert.are.equal(seed, g:initial_seed())
    assert.are_not.equal(seed, g:seed())
    assert.are.equal(0, g:get_offset())
  end)

  it("of tide.manual_seed is the CPU's default one", function()
    local g = tide.manual_seed(21)
    assert.are.equal(21, g:initial_seed())
    local before = g:get_offset()
    draw "cpu"
    assert.are.equal(before + 4, g:get_offset())
  end)
end)

describe("without a GPU", function()
  it("seeding is ignored and the states of all are none (RNG-02, RNG-05 to RNG-08)", function()
    local _, err, code = D.run({ "-e", [[
      for _, f in ipairs { "manual_seed", "manual_seed_all" } do assert(select("#", tide.cuda[f](5)) == 0) end
      assert(math.type(tide.cuda.seed()) == "integer" and math.type(tide.cuda.seed_all()) == "integer")
      assert(not tide.cuda.is_initialized() and #tide.cuda.get_rng_state_all() == 0)
      assert(not pcall(tide.cuda.initial_seed) and not pcall(tide.cuda.get_rng_state))]] },
      { env = { TIDE_SIM_DEVICES = "0", CUDA_VISIBLE_DEVICES = "" } })
    assert.are.equal(0, code, err)
  end)
end)

if not D.cuda then return end

describe("tide.cuda", function()
  D.watch(before_each, after_each)
  local last = D.devices - 1

  it("get_rng_state is 16 bytes of the current GPU or of the one given (RNG-01)", function()
    for i = 0, last do cuda.default_generators[i + 1]:manual_seed(100 + i) end
    for _, dev in ipairs { false, -1, "cuda", 0, "cuda:0", tide.device(0) } do
      local state = cuda.get_rng_state(dev or nil)
      assert.are.equal("cpu", tostring(state.device))
      assert.are.equal("uint8", D.dtype_name(state))
      assert.are.equal(16, state:numel())
      assert.are.equal(100, state[1]:item())
    end
    cuda.device(last, function() assert.are.equal(100 + last, cuda.get_rng_state()[1]:item()) end)
    assert.are.equal(100 + last, cuda.get_rng_state(last)[1]:item())
    local state = cuda.get_rng_state()
    draw(0)
    assert.are.equal(100, state[1]:item()) -- a copy
    assert.is_false(tide.equal(state, cuda.get_rng_state()))
    D.raises("DeviceError", cuda.get_rng_state, "cpu")
    D.raises("DeviceError", cuda.get_rng_state, 63)
    local out = D.simulate(1, "io.write(tostring(tide.cuda.is_initialized())) tide.cuda.get_rng_state() print(tide.cuda.is_initialized())")
    assert.are.equal("falsetrue\n", out)
  end)

  it("get_rng_state_all and set_rng_state_all: entry i + 1 is device i (RNG-02, RNG-04)", function()
    for i = 0, last do cuda.default_generators[i + 1]:manual_seed(50 + i) end
    local states = cuda.get_rng_state_all()
    assert.are.equal(D.devices, #states)
    local want = {}
    for i = 0, last do
      assert.are.equal(50 + i, states[i + 1][1]:item())
      want[i] = draw(i)
    end
    cuda.set_rng_state_all(states)
    for i = 0, last do assert.are.same(want[i], draw(i)) end
    local before, torn = cuda.get_rng_state_all(), { states[1]:clone() }
    for i = 2, D.devices do torn[i] = states[i] end
    torn[D.devices] = tide.zeros(15, { dtype = "uint8" })
    local e = D.raises("ArgumentError", cuda.set_rng_state_all, torn)
    assert.is_truthy(e.message:find(("states[%d]: got"):format(D.devices), 1, true), e.message)
    e = D.raises("ArgumentError", cuda.set_rng_state_all, { states[1], cpu = states[1] })
    assert.is_truthy(e.message:find("got the key cpu", 1, true), e.message)
    D.raises("ArgumentError", cuda.set_rng_state_all, { [0] = states[1] })
    for i = 1, D.devices do D.eq(before[i], cuda.get_rng_state(i - 1)) end -- none was set
    states[#states + 1] = states[1]
    D.raises("ValueError", cuda.set_rng_state_all, states)
    D.raises("ArgumentError", cuda.set_rng_state_all, states[1])
  end)

  it("set_rng_state takes the bytes back (RNG-03)", function()
    for _, dev in ipairs { false, -1, "cuda", 0, last } do
      local at = type(dev) == "number" and dev > 0 and dev or 0
      local state = cuda.get_rng_state(dev or nil)
      local want = draw(at)
      cuda.set_rng_state(state, dev or nil)
      assert.are.same(want, draw(at))
    end
    D.raises("ArgumentError", cuda.set_rng_state, 5)
    D.raises("ArgumentError", cuda.set_rng_state, tide.zeros(15, { dtype = "uint8" }))
    D.raises("ArgumentError", cuda.set_rng_state, tide.zeros(16))
    D.raises("DeviceError", cuda.set_rng_state, cuda.get_rng_state(), "cpu")
    -- It waits for the first use, and a failure is that of the call then: see package_spec.
    assert.are.equal("false\n7\n", (D.simulate(2, [[
      local s = tide.zeros(16, { dtype = "uint8" })
      s[1] = 7
      tide.cuda.set_rng_state(s, 1)
      print(tide.cuda.is_initialized())
      print(tide.cuda.get_rng_state(1)[1]:item())]])))
  end)

  it("manual_seed seeds the current GPU alone, or the one given (RNG-05)", function()
    cuda.manual_seed_all(1)
    cuda.device(last, function() cuda.manual_seed(2) end)
    if last > 0 then assert.are.equal(1, cuda.initial_seed()) end
    assert.are.equal(2, cuda.initial_seed(last))
    cuda.manual_seed(3, last)
    assert.are.equal(3, cuda.initial_seed("cuda:" .. last))
    local a = draw(last)
    cuda.manual_seed(3, last)
    assert.are.same(a, draw(last))
    D.raises("ArgumentError", cuda.manual_seed)
    D.raises("ArgumentError", cuda.manual_seed, "1")
    D.raises("DeviceError", cuda.manual_seed, 1, "cpu")
  end)

  it("manual_seed_all seeds every GPU (RNG-06)", function()
    cuda.manual_seed_all(8)
    local first = draw(0)
    for i = 1, last do assert.are.same(first, draw(i)) end
    for i = 0, last do assert.are.equal(8, cuda.initial_seed(i)) end
    D.raises("ArgumentError", cuda.manual_seed_all)
  end)

  it("seed seeds the current GPU at random and tells how (RNG-07)", function()
    cuda.manual_seed_all(1)
    local seed = cuda.device(last, function() return cuda.seed() end)
    assert.are.equal("integer", math.type(seed))
    assert.are.equal(seed, cuda.initial_seed(last))
    if last > 0 then assert.are.equal(1, cuda.initial_seed(0)) end
    assert.are_not.equal(seed, cuda.seed(last))
    local a = draw(last)
    cuda.manual_seed(cuda.initial_seed(last), last)
    assert.are.same(a, draw(last))
  end)

  it("seed_all gives all the same random seed (RNG-08)", function()
    local seed = cuda.seed_all()
    for i = 0, last do assert.are.equal(seed, cuda.initial_seed(i)) end
    assert.are_not.equal(seed, cuda.seed_all())
  end)

  it("initial_seed is the seed of the current GPU, and starts it (RNG-09)", function()
    cuda.manual_seed(123)
    draw(0)
    assert.are.equal(123, cuda.initial_seed())
    assert.are.equal("false\ttrue\n", (D.simulate(1, [[
      local before = tide.cuda.is_initialized()
      tide.cuda.initial_seed()
      print(before, tide.cuda.is_initialized())]])))
  end)

  it("default_generators are those that operations draw from", function()
    assert.are.equal(D.devices, #cuda.default_generators)
    for i = 0, last do
      local g = cuda.default_generators[i + 1]
      g:manual_seed(4)
      draw(i)
      assert.are.equal(4, g:get_offset())
    end
    assert.is_nil(cuda.default_generators[D.devices + 1])
    assert.is_nil(cuda.default_generators[0])
    D.raises("ArgumentError", function() cuda.default_generators[1] = tide.Generator "cuda" end)
    assert.matches("draw from", tide.help(cuda.default_generators))
  end)
end)
