-- The seeds that default generators begin with: the system's entropy, another one for each process and device.

local tide = require "tide"
local D = require "spec.support.device"
local math = math

local function outputs(code, times)
  local list = {}
  for i = 1, times do
    local out, err, status = D.run({ "-e", "local tide = require 'tide' " .. code }, {})
    assert.are.equal(0, status, err)
    list[i] = out
  end
  return list
end

local function all_differ(list)
  local seen = {}
  for _, v in ipairs(list) do
    assert.is_nil(seen[v], "twice: " .. tostring(v))
    seen[v] = true
  end
end

describe("the first seed", function()
  D.watch(before_each, after_each)

  it("is another one in each process, and so are the numbers", function()
    all_differ(outputs("print(tide.initial_seed())", 4))
    all_differ(outputs("print(table.concat(tide.rand(4):tolist(), ' '))", 3))
    all_differ(outputs("print(table.concat(tide.randperm(50):tolist(), ' '))", 3))
  end)

  it("is an integer from 0 to 2^53 that starts the numbers again", function()
    for _, out in ipairs(outputs([[
      local seed = tide.initial_seed()
      local first = tide.randn(5)
      assert(seed >= 0 and seed < 2 ^ 53 and math.floor(seed) == seed)
      tide.manual_seed(seed)
      assert(tide.initial_seed() == seed and tide.equal(first, tide.randn(5)))
      local g = tide.Generator():manual_seed(seed)
      assert(tide.equal(first, tide.randn(5, { generator = g })))
      local again = tide.seed()
      assert(again ~= seed and again == tide.initial_seed() and again >= 0 and again < 2 ^ 53)
      print "same"]], 3)) do assert.are.equal("same\n", out) end
  end)

  it("does not matter where a seed is set", function()
    local list = outputs("tide.manual_seed(12) print(tide.initial_seed(), table.concat(tide.rand(4):tolist(), ' '))", 2)
    assert.are.equal(list[1], list[2])
    assert.matches("^12\t", list[1])
  end)

  it("of a generator of one's own is always the same", function()
    local a, b = tide.Generator(D.dev), tide.Generator(D.dev)
    assert.are.equal(67280421310721, a:initial_seed())
    assert.is_true(tide.equal(tide.rand(3, { device = D.dev, generator = a }), tide.rand(3, { device = D.dev, generator = b })))
  end)

  if D.cuda then
    it("is another one on each device", function()
      local out, err = D.run({ "-e", [[
        local tide = require "tide"
        local list = { tide.initial_seed() }
        for i = 0, tide.cuda.device_count() - 1 do list[#list + 1] = tide.cuda.initial_seed(i) end
        for i = 1, #list do
          assert(list[i] >= 0 and list[i] < 2 ^ 53)
          for j = 1, i - 1 do assert(list[i] ~= list[j]) end
        end
        tide.cuda.manual_seed_all(3)
        for i = 0, tide.cuda.device_count() - 1 do assert(tide.cuda.initial_seed(i) == 3) end
        assert(tide.initial_seed() == list[1])
        print "differ"]] }, {})
      assert.are.equal("differ\n", out, err)
    end)
  end

  it("is another one in each rank that is spawned", function()
    if _VERSION ~= "Lua 5.4" then return pending "the processes run Lua 5.4" end
    local base = os.tmpname()
    tide.random.fork_rng(function()
      tide.manual_seed(5) -- is this process's alone
      tide.multiprocessing.spawn(function(rank, path)
        local tide = require "tide"
        local file = assert(io.open(path .. rank, "w"))
        file:write(tide.initial_seed(), " ", table.concat(tide.rand(4):tolist(), " "))
        file:close()
      end, { nprocs = 3, args = { base } })
    end)
    local list = {}
    for rank = 0, 2 do
      local file = assert(io.open(base .. rank))
      list[#list + 1] = file:read "*a"
      file:close()
      os.remove(base .. rank)
      assert.is_nil(list[#list]:match "^5 ")
    end
    os.remove(base)
    all_differ(list)
  end)
end)
