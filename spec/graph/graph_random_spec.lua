-- Random numbers in captured work.

local tide = require "tide"
local D = require "spec.support.device"
local graphs = require "spec.support.graph"
if not D.cuda then return end
local cuda = tide.cuda
local dev = { device = "cuda" }

local capture, settle = graphs.capture, graphs.settle

describe("random numbers of a graph", function()
  D.watch(before_each, after_each, settle)

  local function draw(gen)
    local o = { device = "cuda", generator = gen }
    local p = tide.rand(50, o)
    return { p, tide.randn(1000, o), tide.randint(0, 100, { 33 }, o), tide.randperm(100, o),
      tide.empty(40, { device = "cuda", dtype = "float64" }):normal_(1, 2, { generator = gen }),
      tide.bernoulli(p, { generator = gen }), tide.empty(9, dev):exponential_(2, { generator = gen }) }
  end
  local function values(list)
    local out = {}
    for i, x in ipairs(list) do out[i] = x:totable() end
    return out
  end

  it("are those of as many eager calls, bit for bit", function()
    for _, gen in ipairs { false, tide.Generator "cuda" } do
      gen = gen or nil
      local function seed()
        if gen then gen:manual_seed(77) else tide.manual_seed(77) end
      end
      local eager, out = {}
      seed()
      for i = 1, 5 do eager[i] = values(draw(gen)) end
      local after = tide.rand(3, { device = "cuda", generator = gen }):totable()
      seed()
      local g = capture(function() out = draw(gen) end)
      for i = 1, 5 do
        g:replay()
        assert.are.same(eager[i], values(out), "replay " .. i)
      end
      assert.are.same(after, tide.rand(3, { device = "cuda", generator = gen }):totable())
      seed() -- a new seed holds from the next replay on
      g:replay()
      assert.are.same(eager[1], values(out))
    end
  end)

  it("come from several generators, each at its own place", function()
    local a, b = tide.Generator "cuda", tide.Generator "cuda"
    a:manual_seed(1)
    b:manual_seed(2)
    local x, y, eager = nil, nil, {}
    for i = 1, 3 do
      eager[i] = { tide.rand(5, { device = "cuda", generator = a }):totable(), tide.rand(5, { device = "cuda", generator = b }):totable() }
    end
    a:manual_seed(1)
    b:manual_seed(2)
    local g = cuda.CUDAGraph()
    g:register_generator_state(a)
    cuda.graph(g, function()
      g:register_generator_state(b)
      x = tide.rand(5, { device = "cuda", generator = a })
      y = tide.rand(5, { device = "cuda", generator = b })
    end)
    assert.are.equal(0, a:get_offset())
    for i = 1, 3 do
      g:replay()
      assert.are.same(eager[i], { x:totable(), y:totable() })
      assert.are.equal(4 * i, a:get_offset())
    end
    a, b = nil, nil
    settle()
    g:replay() -- the graph holds them
    cuda.synchronize()
  end)

  it("can be led to another sequence and back", function()
    local a, b = tide.Generator "cuda", tide.Generator "cuda"
    a:manual_seed(1)
    b:manual_seed(2)
    local first, second = tide.rand(5, { device = "cuda", generator = a:clone_state() }):totable(),
      tide.rand(5, { device = "cuda", generator = b:clone_state() }):totable()
    local x
    local g = capture(function() x = tide.rand(5, { device = "cuda", generator = a }) end)
    local home = a:graphsafe_get_state()
    assert.are.equal(1, home:initial_seed())
    g:replay()
    assert.are.same(first, x:totable())
    a:graphsafe_set_state(b)
    g:replay()
    assert.are.same(second, x:totable())
    assert.are.same({ 4, 4, 4 }, { a:get_offset(), b:get_offset(), home:get_offset() })
    a:graphsafe_set_state(home):set_offset(0)
    g:replay()
    assert.are.same(first, x:totable())
    D.raises("DeviceError", a.graphsafe_set_state, a, tide.Generator())
    D.raises("ArgumentError", a.graphsafe_set_state, a, 5)
    local shared = cuda.default_generators[1]:graphsafe_get_state()
    tide.manual_seed(9)
    assert.are.equal(9, shared:initial_seed())
  end)

  it("have no seed or state set between them, since replays would not set it", function()
    local own, x, y = tide.Generator "cuda"
    local state = cuda.get_rng_state()
    tide.manual_seed(5)
    own:manual_seed(5)
    local g = capture(function()
      x = tide.rand(5, dev)
      for _, set in ipairs {
        function() cuda.manual_seed(3) end, function() cuda.manual_seed_all(3) end, cuda.seed, cuda.seed_all,
        function() cuda.set_rng_state(state) end, function() cuda.set_rng_state_all { state } end,
        function() tide.manual_seed(3) end, tide.seed, function() tide.random.fork_rng(function() end) end,
        function() own:manual_seed(3) end, function() own:seed() end, function() own:set_state(state) end,
        function() own:set_offset(40) end,
      } do
        assert.matches("while a graph is captured", D.raises("StateError", set).message)
      end
      tide.random.fork_rng({ devices = {} }, function() tide.rand(3) end) -- the CPU's is no part of it
      tide.Generator():manual_seed(3):set_offset(8)
      y = tide.rand(5, { device = "cuda", generator = own:clone_state() })
    end)
    assert.are.equal(5, cuda.initial_seed())
    assert.are.equal(5, own:initial_seed())
    g:replay()
    D.eq(x, y)
  end)

  it("are right when replays alternate between streams", function()
    local x
    tide.manual_seed(5)
    local eager = {}
    for i = 1, 20 do eager[i] = tide.rand(64, dev):totable() end
    tide.manual_seed(5)
    local g = capture(function() x = tide.rand(64, dev) end)
    local streams, got = { cuda.Stream(), cuda.Stream() }, {}
    for i = 1, 20 do
      cuda.stream(streams[i % 2 + 1], function()
        g:replay()
        got[i] = x:clone()
      end)
      streams[(i + 1) % 2 + 1]:wait_stream(streams[i % 2 + 1]) -- the next replay overwrites x
    end
    cuda.synchronize()
    for i = 1, 20 do assert.are.same(eager[i], got[i]:totable()) end
  end)
end)
