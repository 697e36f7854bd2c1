-- Ranges for profilers: how they nest and end, and what a profiler gets to see of them.
local tide = require "tide"
local D = require "spec.support.device"
local nvtx = tide.cuda.nvtx

-- The profiler that the build makes for this; nil in a tree without it.
local recorder = (function()
  local path = D.runner:gsub("bin/tide$", "spec/nvtx_recorder.so")
  local file = io.open(path, "rb")
  if file then file:close() end
  return file and path
end)()

-- What the recorder saw of a script, as a list.
local function seen(source)
  local script, record = os.tmpname(), os.tmpname()
  local file = assert(io.open(script, "w"))
  file:write("local tide = require 'tide'\nlocal nvtx = tide.cuda.nvtx\n" .. source)
  file:close()
  local out, err, code = D.run({ script }, { env = { NVTX_INJECTION64_PATH = recorder, NVTX_RECORD = record } })
  local list = {}
  for line in io.lines(record) do list[#list + 1] = line end
  os.remove(script)
  os.remove(record)
  assert(code == 0, out .. err)
  return list, out
end

local function depth()
  local d = nvtx.range_push "probe"
  nvtx.range_pop()
  return d
end

describe("nvtx.range_push and range_pop", function()
  it("give depths from 0, with or without a profiler, and -1 where nothing is open", function()
    assert.are.equal(0, nvtx.range_push "a")
    assert.are.equal(1, nvtx.range_push "b")
    assert.are.equal(1, nvtx.range_pop())
    assert.are.equal(1, nvtx.range_push "c")
    assert.are.equal(1, nvtx.range_pop())
    assert.are.equal(0, nvtx.range_pop())
    assert.are.equal(-1, nvtx.range_pop())
    assert.are.equal(-1, nvtx.range_pop())
    assert.are.equal(0, nvtx.range_push "d")
    assert.are.equal(0, nvtx.range_pop())
  end)

  it("nest a thousand deep, with long names", function()
    for i = 0, 999 do assert.are.equal(i, nvtx.range_push(("x"):rep(i))) end
    for i = 999, 0, -1 do assert.are.equal(i, nvtx.range_pop()) end
  end)
end)

describe("nvtx.range", function()
  it("names a block and passes arguments and results", function()
    assert.are.same({ 0, 2, nil, 3 }, { nvtx.range("a", function(...) return depth() - 1, ... end, 2, nil, 3) })
    assert.are.equal(0, depth())
  end)

  it("has an object form", function()
    do
      local _ <close> = nvtx.range "a"
      assert.are.equal(1, depth())
    end
    assert.are.equal(0, depth())
    local r = nvtx.range "a"
    r:close()
    r:close()
    assert.are.equal(0, depth())
  end)

  it("ends by an error, which goes on as it was", function()
    local ok, e = pcall(nvtx.range, "a", function() error("oops", 0) end)
    assert.are.same({ false, "oops" }, { ok, e })
    assert.are.equal(0, depth())
  end)

  it("ends out of order where coroutines interleave", function()
    local a = coroutine.wrap(function() nvtx.range("a", coroutine.yield) end)
    local b = coroutine.wrap(function() nvtx.range("b", coroutine.yield) end)
    a()
    b()
    assert.are.equal(2, depth())
    a()
    assert.are.equal(1, depth())
    b()
    assert.are.equal(0, depth())
  end)

  it("ends when its coroutine dies", function()
    local co = coroutine.create(function()
      local _ <close> = nvtx.range "a"
      coroutine.yield()
    end)
    coroutine.resume(co)
    assert.are.equal(1, depth())
    coroutine.close(co)
    assert.are.equal(0, depth())
    co = coroutine.create(function() nvtx.range("b", coroutine.yield) end)
    coroutine.resume(co)
    assert.are.equal(1, depth())
    warn "@off"
    co = nil
    collectgarbage()
    collectgarbage()
    warn "@on"
    assert.are.equal(0, depth())
  end)
end)

describe("nvtx.range_start", function()
  it("gives an id that range_end takes once, in any order", function()
    local a, b = nvtx.range_start "a", nvtx.range_start "b"
    assert.are_not.equal(a, b)
    assert.are.equal(0, depth())
    nvtx.range_end(a)
    nvtx.range_end(b)
    local e = D.raises("ValueError", nvtx.range_end, a)
    assert.is_truthy(e.message:find(tostring(a), 1, true))
    e = D.raises("ValueError", nvtx.range_end, -1)
    assert.is_truthy(e.message:find("got -1,", 1, true), e.message)
  end)
end)

describe("nvtx", function()
  it("refuses what is no text", function()
    for _, name in ipairs { "mark", "range", "range_push", "range_start" } do
      D.raises("ArgumentError", nvtx[name])
      D.raises("ArgumentError", nvtx[name], 5)
      D.raises("ArgumentError", nvtx[name], {})
      D.raises("ValueError", nvtx[name], "a\0b")
    end
    D.raises("ArgumentError", nvtx.range, "a", 5)
    D.raises("ArgumentError", nvtx.range_end)
    D.raises("ArgumentError", nvtx.range_end, "1")
    D.raises("ArgumentError", nvtx.range_end, 1.5)
    assert.are.equal(0, depth())
  end)

  it("is a silent no-op without a profiler, and says so", function()
    local script = [[local nvtx = require "tide".cuda.nvtx
      nvtx.mark "x"
      print(nvtx.available, nvtx.range_push "a", nvtx.range_pop(), (pcall(function() return nvtx.nothing end)))]]
    for _, path in ipairs { "", "/nowhere/profiler.so", "/dev/null" } do
      local out, err = D.run({ "-e", script }, { env = { NVTX_INJECTION64_PATH = path } })
      assert.are.equal("false\t0\t0\tfalse\n", out)
      assert.are.equal("", err)
    end
  end)

  it("tells a profiler what begins and ends", function()
    if not recorder then return pending "no recorder beside the runner" end
    local list, out = seen [[
      print(nvtx.available)
      nvtx.range("outer", function()
        nvtx.mark "here"
        nvtx.range_push "inner"
        nvtx.range_pop()
        pcall(nvtx.range, "fails", error)
      end)
      local id = nvtx.range_start "long"
      nvtx.range_end(id)
      nvtx.range_pop()]]
    assert.are.equal("true\n", out)
    assert.are.same({ "push outer", "mark here", "push inner", "pop", "push fails", "pop", "pop", "start long", "end" },
      list)
  end)

  it("keeps a profiler's stack nested where ranges end out of order", function()
    if not recorder then return pending "no recorder beside the runner" end
    local list = seen [[
      local a = coroutine.wrap(function() nvtx.range("a", coroutine.yield) end)
      local b = coroutine.wrap(function() nvtx.range("b", coroutine.yield) end)
      a() b() a() b()]]
    assert.are.same({ "push a", "push b", "pop", "pop", "push b", "pop" }, list)
  end)
end)
