-- The worked examples of the API, as written, on three simulated devices. Each runs in a process of its own, so that
-- "default CUDA device" means what it says.

local D = require "spec.support.device"

local placement = [[
-- EX-01 placement
local cuda  = tide.device("cuda")      -- default CUDA device
local cuda0 = tide.device("cuda:0")
local cuda2 = tide.device("cuda:2")    -- GPU 2 (ids are 0-based)
local x = tide.tensor({1., 2.}, {device = cuda0})    -- x.device is cuda:0
local y = tide.tensor({1., 2.}):cuda()               -- y.device is cuda:0
do
  local _ <close> = tide.cuda.device(1)
  local a  = tide.tensor({1., 2.}, {device = cuda})  -- allocated on GPU 1
  local b  = tide.tensor({1., 2.}):cuda()            -- CPU to GPU 1
  local b2 = tide.tensor({1., 2.}):to(cuda)          -- a, b, b2 on cuda:1
  local c = a + b                                    -- cuda:1
  local z = x + y                                    -- cuda:0, whatever is selected
  local d = tide.randn(2, {device = cuda2})
  local e = tide.randn(2):to(cuda2)
  local f = tide.randn(2):cuda(cuda2)                -- d, e, f on cuda:2
  for name, t in pairs { a = a, b = b, b2 = b2, c = c } do assert(tostring(t.device) == "cuda:1", name) end
  for name, t in pairs { d = d, e = e, f = f } do assert(tostring(t.device) == "cuda:2", name) end
  for name, t in pairs { x = x, y = y, z = z } do assert(tostring(t.device) == "cuda:0", name) end
  assert(c[1]:item() == 2 and z[2]:item() == 4)
end
assert(tide.cuda.current_device() == 0)
]]

local streams = [[
-- EX-02, the fixed form
local s = tide.cuda.Stream()
local A = tide.empty({100, 100}, {device = "cuda"}):normal_(0.0, 1.0)
s:wait_stream(tide.cuda.default_stream("cuda"))             -- fix 1
local B = tide.cuda.stream(s, function() return tide.sum(A) end)
A:record_stream(s)                                          -- fix 2
s:synchronize()
assert(math.abs(B:item() - A:cpu():sum():item()) < 1e-2)
]]

-- Nothing orders the sum behind normal_: in some schedule it reads what was there before.
local race = [[
-- EX-02 incorrect
local s = tide.cuda.Stream()
local wrong = 0
for i = 1, 200 do
  local A = tide.zeros({100}, {device = "cuda"})
  tide.cuda.synchronize()
  A:fill_(1)
  local B
  tide.cuda.stream(s, function() B = tide.sum(A) end)
  s:synchronize()
  tide.cuda.synchronize()
  if B:item() ~= 100 then wrong = wrong + 1 end
end
io.write(wrong)
]]

local timing = [[
-- EX-03 timing
local t0 = tide.cuda.Event{enable_timing = true}
local t1 = tide.cuda.Event{enable_timing = true}
t0:record()
-- run some things here
tide.cuda._sleep(5000000)
t1:record()
tide.cuda.synchronize()                -- wait for the events to be recorded
local elapsed_ms = t0:elapsed_time(t1)
assert(elapsed_ms >= 5 and elapsed_ms < 1000, elapsed_ms)
]]

local agnostic = [[
-- EX-04 device-agnostic script
local args = tide.cmdline("tide example"):flag("disable-cuda", "Disable CUDA"):parse(arg)
args.device = (not args.disable_cuda and tide.cuda.is_available())
              and tide.device("cuda") or tide.device("cpu")

local function Network() return { weight = tide.ones(3, 2), layers = { { bias = tide.zeros(2) } } } end
-- EX-05
local xa  = tide.empty({8, 42}, {device = args.device})
local net = tide.to(Network(), args.device)     -- any table of tensors

assert(xa.device.type == args.device.type)
assert(net.weight.device.type == args.device.type and net.layers[1].bias.device.type == args.device.type)
print(args.disable_cuda, args.device.type)
]]

local loader = [[
local cuda0 = tide.device("cuda:0")
local train_loader = tide.data.loader({ tide.ones(4), tide.ones(4) * 2, tide.ones(4) * 3 })
local seen = {}
-- EX-06
for i, batch in train_loader:iter() do
  batch = batch:to(cuda0, {non_blocking = true})
  seen[i] = batch
end
assert(#seen == 3)
for i, batch in ipairs(seen) do assert(tostring(batch.device) == "cuda:0" and batch[1][4]:item() == i) end
]]

local outside = [[
-- EX-07
print("Outside device is 0")
tide.cuda.device(1, function() print("Inside device is 1") assert(tide.cuda.current_device() == 1) end)
print("Outside device is still 0")
assert(tide.cuda.current_device() == 0)
]]

local printing = [[
-- EX-08
local x_cpu      = tide.empty(2)
local x_gpu      = tide.empty(2, {device = "cuda"})
local x_cpu_long = tide.empty(2, {dtype = tide.int64})
print(x_cpu:new_full({3, 2}, 0.3))   --> tensor([[ 0.3000,  0.3000], ...
print(x_gpu:new_full({3, 2}, -5))    --> ... device='cuda:0')
print(x_cpu_long:new_tensor({{1, 2, 3}}))

-- EX-09
local y_cpu, y_gpu = tide.ones_like(x_cpu), tide.zeros_like(x_gpu)
assert(not y_cpu.is_cuda and y_gpu.is_cuda)
print(y_cpu)
print(y_gpu)
]]

describe("the worked examples", function()
  it("EX-01 placement", function() D.simulate(3, placement) end)
  it("EX-02 streams", function() for seed = 1, 5 do D.simulate(3, streams, { TIDE_SIM_SEED = tostring(seed) }) end end)
  it("EX-02 incorrect really is a race", function()
    local wrong = 0
    for seed = 1, 5 do
      -- A thread sanitizer sees it too, as ours does, and is told that this is the point.
      local env = { TIDE_SIM_SEED = tostring(seed), TSAN_OPTIONS = "report_bugs=0", TIDE_CUDA_SANITIZER = "0" }
      wrong = wrong + tonumber((D.simulate(1, race, env)))
    end
    assert.is_true(wrong > 0)
  end)
  it("EX-02 incorrect is flagged, and the fixed one is not", function()
    for seed = 1, 3 do
      local env = { TIDE_SIM_SEED = tostring(seed), TIDE_CUDA_SANITIZER = "1" }
      D.simulate(3, streams, env)
      local ok, e = pcall(D.simulate, 1, race, env)
      assert.is_false(ok)
      assert.matches(":9: sum: race: sum %(.-:9%) on stream .* reads what fill %(.-:7%) on the default stream", e)
    end
  end)
  it("EX-03 timing", function() D.simulate(3, timing) end)
  it("EX-04 and EX-05 device-agnostic", function()
    assert.are.equal("false\tcuda\n", (D.simulate(3, agnostic)))
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    file:write(agnostic)
    file:close()
    local out, err = D.run({ path, "--disable-cuda" }, { env = { TIDE_SIM_DEVICES = "3" } })
    os.remove(path)
    assert.are.equal("true\tcpu\n", out, err)
  end)
  it("EX-06 loader", function() D.simulate(3, loader) end)
  it("EX-07 outside, inside, outside", function()
    assert.are.equal("Outside device is 0\nInside device is 1\nOutside device is still 0\n", (D.simulate(3, outside)))
  end)
  it("waves give the same picture step by step and replayed as a graph", function()
    local pictures = {}
    for i, way in ipairs { "--quiet", "--graph" } do
      local path = os.tmpname()
      local _, err, code = D.run({ "scripts/examples/wave.lua", "--steps", "40", "--size", "128", "--device", "cuda", way, "--out", path },
        { env = { TIDE_SIM_DEVICES = "1" } })
      local file = assert(io.open(path, "rb"))
      pictures[i] = file:read "a"
      file:close()
      os.remove(path)
      assert.is_true(#pictures[i] > 1000, way .. ": " .. tostring(code) .. tostring(err))
    end
    assert.are.equal(pictures[1], pictures[2])
  end)
  it("EX-08 and EX-09 printing", function()
    assert.are.equal([==[
tensor([[0.3000, 0.3000],
        [0.3000, 0.3000],
        [0.3000, 0.3000]])
tensor([[-5., -5.],
        [-5., -5.],
        [-5., -5.]], device='cuda:0')
tensor([[1, 2, 3]])
tensor([1., 1.])
tensor([0., 0.], device='cuda:0')
]==], (D.simulate(3, printing)))
  end)
end)
