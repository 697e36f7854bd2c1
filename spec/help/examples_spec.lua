-- The worked examples of the reference: the page that shows them beside PyTorch's words is read, and what it shows is run on
-- three simulated devices, each example in a process of its own, so that "the current GPU" means what it says.

local D = require "spec.support.device"

local room = "scripts/examples/reference/"
local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

-- What the page shows: {name=, python=, lua=, prints= or nil}, in order.
local function shown()
  local list = {}
  for section in read(room .. "README.md"):gsub("\n## ", "\0"):gmatch "\0([^\0]+)" do
    list[#list + 1] = {
      name = section:match "<code>(ex%d%d_%w+)%.lua</code>",
      python = section:match "```python\n(.-)```",
      lua = section:match "```lua\n(.-)```",
      prints = section:match "```text\n(.-)```",
    }
  end
  return list
end

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
assert(elapsed_ms >= 5, elapsed_ms)
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

describe("the worked examples", function()
  local examples = shown()

  it("are all on the page, in both languages, and each is a file", function()
    local seen = {}
    for _, e in ipairs(examples) do
      assert.is_truthy(e.name and e.python and e.lua)
      assert.matches("^import [%w_]+", e.python)
      assert.are.equal(read(room .. e.name .. ".lua"), e.lua, e.name)
      seen[e.name] = true
    end
    for i = 1, 10 do
      local any = false
      for name in pairs(seen) do any = any or name:sub(1, 4) == ("ex%02d"):format(i) end
      assert.is_true(any, "example " .. i)
    end
    local files = 0
    for path in io.popen("ls " .. room):lines() do
      if path:match "%.lua$" then
        files = files + 1
        assert.is_true(seen[path:match "^(.*)%.lua$"], path)
      end
    end
    assert.are.equal(#examples, files)
  end)

  it("print what the page shows", function()
    local printed = 0
    for _, e in ipairs(examples) do
      if e.name ~= "ex02_race" then
        assert.are.equal(e.prints, (D.simulate(3, e.lua):gsub("\t", " ")), e.name)
        printed = printed + 1
      end
    end
    assert.are.equal(#examples - 1, printed)
    -- and these words come from the reference
    assert.are.equal("Outside device is 0\nInside device is 1\nOutside device is still 0\n", (D.simulate(3, read(room .. "ex07_outside.lua"))))
  end)

  it("are clean in the eyes of the sanitizer, but for the one that shows a race", function()
    if not D.cuda then return pending "needs a device" end -- as above: their devices are simulated
    for _, e in ipairs(examples) do
      if e.name ~= "ex02_race" then D.simulate(3, e.lua, { TIDE_CUDA_SANITIZER = "1" }) end
    end
    for seed = 1, 3 do
      local env = { TIDE_CUDA_SANITIZER = "1", TIDE_SIM_SEED = tostring(seed) }
      local ok, err = pcall(D.simulate, 3, read(room .. "ex02_race.lua"), env)
      assert.is_false(ok)
      assert.matches("sum: race: sum %(.-:4%) on stream .* reads what normal %(.-:2%) on the default stream .*wait_stream", err)
    end
    D.simulate(3, read(room .. "ex02_race.lua"), { TIDE_CUDA_SANITIZER = "0", TSAN_OPTIONS = "report_bugs=0" }) -- else it ends
  end)

  it("EX-02 gives the sum in every schedule once it waits", function()
    for seed = 1, 5 do
      assert.are.equal("true\n", (D.simulate(3, read(room .. "ex02_fixed.lua"), { TIDE_SIM_SEED = tostring(seed) })))
    end
  end)

  it("EX-02 incorrect really is a race", function()
    local wrong = 0
    for seed = 1, 5 do
      -- A thread sanitizer sees it too, as ours does, and is told that this is the point.
      local env = { TIDE_SIM_SEED = tostring(seed), TSAN_OPTIONS = "report_bugs=0", TIDE_CUDA_SANITIZER = "0" }
      wrong = wrong + tonumber((D.simulate(1, race, env)))
    end
    assert.is_true(wrong > 0)
  end)

  it("EX-03 times the work", function() D.simulate(3, timing) end)

  it("EX-04 stays on the CPU where it is told to, or where there is nothing else", function()
    local out, err = D.run({ room .. "ex04_device.lua", "--disable-cuda" }, { env = { TIDE_SIM_DEVICES = "3" } })
    assert.are.equal("cpu\n", out, err)
    out, err = D.run({ room .. "ex05_network.lua" }, { env = { TIDE_SIM_DEVICES = "0", CUDA_VISIBLE_DEVICES = "" } })
    assert.are.equal("cpu\tcpu\tcpu\n", out, err)
  end)

  it("EX-04 a command line gives an option the type of its default", function()
    local line = tide.cmdline("title"):flag("on"):option("count", 3, "how many"):option("rate", 0.5):option("name", "x")
    assert.are.same({ on = false, count = 3, rate = 0.5, name = "x" }, line:parse {})
    local args = line:parse { "--on", "first", "--count=1e3", "--rate", "2", "--name", "7", "second" }
    assert.are.same({ "first", "second", on = true, count = 1000, rate = 2.0, name = "7" }, args)
    assert.are.same({ "integer", "float" }, { math.type(args.count), math.type(args.rate) })
    for _, wrong in ipairs { "--count=2.5", "--count=x", "--rate=x", "--rate", "--on=1", "--off" } do
      D.raises("ValueError", line.parse, line, { wrong })
    end
    D.raises("ArgumentError", line.option, line, "table", {})
    D.raises("ArgumentError", line.flag, line, "on", 5)
    D.raises("ArgumentError", line.flag, line)
    D.raises("ArgumentError", tide.cmdline)
  end)

  -- What is shipped to be run or copied: the examples, small, and the README's blocks.
  local function shipped()
    local out = os.tmpname()
    local list = {
      { "memory", "scripts/examples/memory.lua", "--steps", "4", "--out", out },
      { "profile", "scripts/examples/profile.lua", "--steps", "2", "--out", out },
      { "solar_system", "scripts/examples/solar_system.lua", "--years", "0.002", "--quiet", "--device", "cuda", "--out", out },
      { "wave", "scripts/examples/wave.lua", "--steps", "5", "--size", "64", "--quiet", "--device", "cuda", "--out", out },
      { "wave as a graph", "scripts/examples/wave.lua", "--steps", "5", "--size", "64", "--graph", "--device", "cuda", "--out", out },
    }
    local files = { out }
    for text in read("README.md"):gmatch "\n```lua\n(.-)\n```" do
      local path = os.tmpname()
      local file = assert(io.open(path, "w"))
      file:write(text)
      file:close()
      files[#files + 1] = path
      list[#list + 1] = { "README.md, block " .. #files - 1, path }
    end
    assert.are.equal(2, #files - 1)
    return list, function()
      for _, path in ipairs(files) do os.remove(path) end
    end
  end

  it("and what the README shows are ordered in every schedule", function()
    if not D.cuda then return pending "needs a device" end -- their devices are simulated in any case: once is enough
    local list, remove = shipped()
    for _, e in ipairs(list) do
      for seed = 0, D.tsan and 0 or 3 do -- what is not ordered is seen in any schedule that runs it
        local env = { TIDE_SIM_DEVICES = "2", TIDE_SIM_SEED = tostring(seed), TIDE_CUDA_SANITIZER = "1" }
        local out, err, code = D.run({ table.unpack(e, 2) }, { env = env })
        assert.are.equal(0, code, ("%s, seed %d: %s%s"):format(e[1], seed, out, err))
      end
    end
    remove()
  end)

  it("of the README run where there is no GPU", function()
    local list, remove = shipped()
    for _, e in ipairs(list) do
      if e[1]:match "README" then
        local out, err, code = D.run({ e[2] }, { env = { TIDE_SIM_DEVICES = "0", CUDA_VISIBLE_DEVICES = "" } })
        assert.are.equal(0, code, ("%s: %s%s"):format(e[1], out, err))
      end
    end
    remove()
  end)

  it("EX-06 brings every item", function() D.simulate(3, loader) end)

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
end)
