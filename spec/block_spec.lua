-- Scoped blocks on every way out of them (API.md C3, C4, C14, C22).

local tide = require "tide"
local D = require "spec.support.device"

describe("a tide.scope that is dropped", function()
  D.watch(before_each, after_each)

  -- Each script in a process of its own: what it checks for is memory that is used after it was given back.
  local function run(script)
    local out, err, code = D.run({ "-W", "off", "-e", "warn '@off' " .. script .. " print 'done'" },
      { env = D.simulated and { TIDE_SIM_DEVICES = "2" } or nil })
    assert.are.equal("done\n", out, err)
    assert.are.equal(0, code, err)
  end

  it("serves the replicas that began inside it", function()
    run [[
      tide.scope()
      tide.parallel.apply(function()
        collectgarbage() collectgarbage()
        for i = 1, 100 do tide.ones(1) end
      end, { { 1 }, { 2 } })]]
  end)

  it("serves replicas that outlast the function it was opened in", function()
    run [[
      local function open()
        tide.scope()
        return coroutine.wrap(function() end)
      end
      local co = coroutine.wrap(function()
        local s = tide.scope()
        tide.parallel.apply(function() coroutine.yield() for i = 1, 100 do tide.ones(1) end end, { { 1 }, { 2 } })
      end)
      co()
      open()
      collectgarbage() collectgarbage()
      co() co()]]
  end)

  it("hands its tensors to the one around it", function()
    local x, y
    warn "@off"
    tide.scope(function()
      (function()
        tide.scope()
        x = D.tensor { 1. }
      end)()
      collectgarbage()
      collectgarbage()
      y = D.tensor { 2. }
      D.eq({ 1 }, x)
    end)
    warn "@on"
    D.raises("StateError", x.sum, x)
    D.raises("StateError", y.sum, y)
  end)

  it("is the current one no more where the block around it ends", function()
    local x, y
    warn "@off"
    local outer = tide.scope()
    tide.device_scope(D.dev, function()
      tide.scope()
      x = D.tensor { 1. }
    end)
    y = tide.keep(D.tensor { 2. })
    warn "@on"
    outer:close()
    D.raises("StateError", x.sum, x)
    D.eq({ 2 }, y)
  end)

  it("keeps no memory of its own", function()
    if D.tsan or os.getenv "ASAN_OPTIONS" then return end -- which hold on to what is given back
    local out = D.run { "-e", [[
      warn "@off"
      local function resident()
        for line in io.lines "/proc/self/status" do
          local n = line:match "^VmRSS:%s*(%d+)"
          if n then return tonumber(n) end
        end
      end
      local function open() tide.scope() tide.ones(1) end
      local function rounds(n) for _ = 1, n do tide.device_scope("cpu", open) end collectgarbage() collectgarbage() end
      rounds(5000)
      local before = resident()
      rounds(60000)
      local grown = resident() - before
      print(grown < 4096 or grown)]] }
    assert.are.equal("true\n", out)
  end)
end)
