-- What makes the host wait, and the debug mode that finds it.

local tide = require "tide"
local D = require "spec.support.device"
if not D.cuda then return end
local cuda = tide.cuda

-- The warnings that a piece of Lua gives on simulated devices, one a line; `here` in the text is the script's name.
local function warnings(source)
  local _, err = D.simulate(2, source, { TIDE_CUDA_SANITIZER = "0" }) -- it has a word about early reads too
  local list = {}
  for line in err:gmatch "Lua warning: ([^\n]*)" do list[#list + 1] = line end
  return list, err
end

describe("work on a device", function()
  D.watch(before_each, after_each)

  it("is queued and the host goes on", function()
    local x = tide.ones(100, { device = "cuda" })
    x:add_(-1) -- a kernel may be loaded at its first use, which waits for the device
    cuda.synchronize()
    D.hold()
    x:add_(1)
    assert.is_false(cuda.current_stream():query())
    D.release()
    cuda._sleep(20000000)
    x:add_(1)
    assert.are.equal(2, x[1]:item()) -- waits by itself
  end)

  it("comes in order with copies in both directions, without a word of the script", function()
    for i = 1, 10 do
      local x = tide.full({ 1000 }, i, { dtype = "float32" }):cuda()
      x:mul_(2)
      D.eq(2.0 * i, x:cpu()[1000])
    end
  end)
end)

describe("the synchronisation debug mode", function()
  D.watch(before_each, after_each)
  after_each(function() cuda.set_sync_debug_mode "default" end)

  it("is set by name or number and told as a number", function()
    assert.are.equal(0, cuda.get_sync_debug_mode())
    for n, name in ipairs { "warn", "error" } do
      cuda.set_sync_debug_mode(name)
      assert.are.equal(n, cuda.get_sync_debug_mode())
    end
    cuda.set_sync_debug_mode(0)
    assert.are.equal(0, cuda.get_sync_debug_mode())
    cuda.set_sync_debug_mode(2)
    assert.are.equal(2, cuda.get_sync_debug_mode())
    cuda.set_sync_debug_mode "default"
    assert.are.equal(0, cuda.get_sync_debug_mode())
  end)

  it("refuses what is no mode and changes nothing", function()
    cuda.set_sync_debug_mode "error"
    for _, mode in ipairs { "loud", "", 3, -1, math.maxinteger } do
      local e = D.raises("ValueError", cuda.set_sync_debug_mode, mode)
      assert.is_truthy(e.message:find("'warn'", 1, true), e.message)
    end
    for _, mode in ipairs { 1.5, true, {}, print } do D.raises("ArgumentError", cuda.set_sync_debug_mode, mode) end
    D.raises("ArgumentError", cuda.set_sync_debug_mode)
    D.raises("ArgumentError", cuda.sync_debug_mode, "warn", 5)
    D.raises("ValueError", cuda.sync_debug_mode, "loud", print)
    assert.are.equal(2, cuda.get_sync_debug_mode())
  end)

  it("raises at the line of every operation that makes the host wait", function()
    local x, y = tide.ones(4, { device = "cuda" }), tide.ones(4, { device = "cuda" })
    local pinned, paged = tide.zeros(4, { pin_memory = true }), tide.zeros(4)
    local mask = x:gt(0)
    local waits = {
      item = function() return x[1]:item() end, totable = function() return x:totable() end,
      tostring = function() return tostring(x) end, nonzero = function() return x:nonzero() end,
      mask = function() return x[mask] end, equal = function() return tide.equal(x, y) end,
      cpu = function() return x:cpu() end, to = function() return x:to "cpu" end,
      cuda = function() return paged:cuda() end, pageable = function() return paged:to("cuda", { non_blocking = true }) end,
      pinned = function() return pinned:cuda() end, copy_out = function() pinned:copy_(x) end,
      copy_paged = function() paged:copy_(x, { non_blocking = true }) end,
      cast = function() return tide.zeros(4, { pin_memory = true, dtype = "float64" }):copy_(x, { non_blocking = true }) end,
      strided = function() tide.zeros(8, { pin_memory = true }):slice(1, 1, -1, 2):copy_(x, { non_blocking = true }) end,
      strided_in = function() x:copy_(tide.zeros(8, { pin_memory = true }):slice(1, 1, -1, 2), { non_blocking = true }) end,
      repeated = function() tide.zeros({ 3, 4 }, { pin_memory = true }):copy_(x, { non_blocking = true }) end,
      tensor = function() return tide.tensor({ 1, 2 }, { device = "cuda" }) end,
      all_close = function() return tide.allclose(x, y) end,
    }
    for name, f in pairs(waits) do
      local ok, e = pcall(cuda.sync_debug_mode, "error", f)
      assert(not ok, name .. " was let through")
      assert.are.equal("StateError", e.kind, name .. ": " .. tostring(e))
      assert.is_truthy(e.message:find("sync_spec.lua:%d+"), e.message)
      assert.is_truthy(e.message:find("wait", 1, true), e.message)
      if name == "cpu" or name == "tostring" then assert.are.equal(name, e.op) end
      f() -- and afterwards all is as before
    end
  end)

  it("lets through what does not wait, and waits that are asked for", function()
    local x = tide.ones(4, { device = "cuda" })
    local pinned = tide.zeros(4, { pin_memory = true })
    local s, ev = cuda.Stream(), cuda.Event()
    cuda.sync_debug_mode("error", function()
      local y = x + 1
      y:add_(x):mul_(2)
      local z = tide.zeros(4, { device = "cuda" })
      z:copy_(y)
      local there = pinned:to("cuda", { non_blocking = true })
      pinned:copy_(y, { non_blocking = true })
      local back = y:to("cpu", { non_blocking = true })
      ev:record()
      s:wait_event(ev)
      s:query()
      ev:query()
      ev:synchronize()
      s:synchronize()
      cuda.synchronize()
      assert.are.equal(6, pinned[1]:item())
      assert.are.equal(6, back[1]:item())
      if D.devices > 1 then y:cuda(1) end
      return there
    end)
  end)

  it("comes back after a block, also after an error and in the other form", function()
    local got = table.pack(cuda.sync_debug_mode("warn", function(...)
      assert.are.equal(1, cuda.get_sync_debug_mode())
      cuda.sync_debug_mode(2, function() assert.are.equal(2, cuda.get_sync_debug_mode()) end)
      assert.are.equal(1, cuda.get_sync_debug_mode())
      return ...
    end, 7, nil, 8))
    assert.are.same({ 7, nil, 8, n = 3 }, got)
    assert.are.equal(0, cuda.get_sync_debug_mode())
    local ok, e = pcall(cuda.sync_debug_mode, "warn", function() error "mine" end)
    assert.is_true(not ok and e:find "mine" ~= nil)
    assert.are.equal(0, cuda.get_sync_debug_mode())
    do
      local block <close> = cuda.sync_debug_mode "error"
      assert.are.equal(2, cuda.get_sync_debug_mode())
      block:close()
      block:close()
      assert.are.equal(0, cuda.get_sync_debug_mode())
    end
    assert.are.equal(0, cuda.get_sync_debug_mode())
  end)

  it("warns each time with the line", function()
    local list, text = warnings [[
      local tide = require "tide"
      local x = tide.ones(4, { device = "cuda" })
      tide.cuda.set_sync_debug_mode "warn"
      for _ = 1, 3 do x:sum():item() end
      tide.cuda.synchronize()
      assert(x:nonzero():size(1) == 4)
      tide.cuda.set_sync_debug_mode "default"
      x:sum():item()]]
    assert.are.equal(4, #list, text)
    for i = 1, 3 do assert.is_truthy(list[i]:match "^item: .*:4$", list[i]) end
    assert.is_truthy(list[4]:match "^nonzero: .*:6$", list[4])
  end)

  it("warns under the name that was called", function()
    local list, text = warnings [[
      local tide = require "tide"
      local x = tide.ones(4, { device = "cuda" })
      tide.cuda.set_sync_debug_mode "warn"
      local _ = x:cpu(), x:totable(), tostring(x), x:new_tensor { 1 }]]
    for i, name in ipairs { "cpu", "totable", "tostring", "new_tensor" } do
      assert.are.equal(name, (list[i] or text):match "^([%w_]+): makes the host wait .*:4$")
    end
  end)

  it("tells a coroutine's own line", function()
    local list, text = warnings [[
      local tide = require "tide"
      local x = tide.ones(4, { device = "cuda" })
      tide.cuda.set_sync_debug_mode "warn"
      coroutine.wrap(function()
        x:sum():item()
      end)()]]
    assert.are.equal(1, #list, text)
    assert.is_truthy(list[1]:match ":5$", list[1])
  end)
end)

describe("values that are still on their way", function()
  D.watch(before_each, after_each)
  after_each(function() cuda.set_sync_debug_mode "default" end)

  local function fetch()
    local x = tide.arange(1000, { dtype = "float32", device = "cuda" })
    local line = debug.getinfo(1, "l").currentline + 1
    local back = x:to("cpu", { non_blocking = true })
    return back, line
  end

  it("are not to be read, in error mode, with the copy's line", function()
    cuda.set_sync_debug_mode "error"
    local back, line = fetch()
    for name, f in pairs {
      item = function() return back[2]:item() end, totable = function() return back:totable() end,
      tostring = function() return tostring(back) end, sum = function() return back:sum() end,
      add = function() return back + 1 end, write = function() back:zero_() end, clone = function() return back:clone() end,
      serialize = function() return tide.serialize(back) end,
    } do
      local e = D.raises("StateError", f)
      assert.is_truthy(e.message:find("sync_spec.lua:" .. line, 1, true), name .. ": " .. e.message)
    end
    local z = tide.ones(3) + 1 -- other tensors are not concerned
    assert.are.equal(2, z[1]:item())
    cuda.current_stream():synchronize()
    assert.are.equal(999, back[1000]:item())
    assert.are.equal(499500, back:sum():item())
  end)

  it("are there after a wait for the stream, the device, an event, or a stream behind it", function()
    cuda.set_sync_debug_mode "error"
    local s = cuda.Stream()
    for _, wait in ipairs {
      function() cuda.current_stream():synchronize() end, function() cuda.synchronize() end,
      function() cuda.current_stream():record_event():synchronize() end,
      function() s:wait_stream(cuda.current_stream()) s:synchronize() end,
      function() s:wait_event(cuda.current_stream():record_event()) s:synchronize() end,
      function() s:wait_stream(cuda.current_stream()) s:record_event():synchronize() end,
      function() repeat until cuda.current_stream():query() end,
      function() local ev = cuda.current_stream():record_event() repeat until ev:query() end,
    } do
      local back = fetch()
      D.raises("StateError", function() return back[2]:item() end)
      wait()
      assert.are.equal(1, back[2]:item())
    end
  end)

  it("are not there after a wait for something else", function()
    cuda.set_sync_debug_mode "error"
    local s, before = cuda.Stream(), cuda.current_stream():record_event()
    local back = fetch()
    s:synchronize()
    before:synchronize()
    D.raises("StateError", function() return back[2]:item() end)
    cuda.synchronize()
    assert.are.equal(1, back[2]:item())
  end)

  it("are not there after a wait for what a stream had done before it waited for the copy", function()
    cuda.set_sync_debug_mode "error"
    for _, wait in ipairs {
      function(early) early:synchronize() end, function(early) repeat until early:query() end,
    } do
      local s, early = cuda.Stream(), nil
      cuda.stream(s, function()
        tide.ones(4, { device = "cuda" }):add_(1)
        early = s:record_event()
        tide.ones(4, { device = "cuda" }):add_(1)
      end)
      local back = fetch()
      s:wait_stream(cuda.current_stream())
      wait(early)
      D.raises("StateError", function() return back[2]:item() end)
      s:record_event():synchronize()
      assert.are.equal(1, back[2]:item())
    end
  end)

  it("bring a warning in warn mode", function()
    if D.tsan then return pending "not under the thread sanitizer" end -- the early read is a race, as it says
    local list, text = warnings [[
      local tide = require "tide"
      tide.cuda.set_sync_debug_mode "warn"
      local x = tide.ones(4, { device = "cuda" })
      local back = x:to("cpu", { non_blocking = true })
      back[1]:item()
      back:sum()
      tide.cuda.synchronize()
      assert(back[1]:item() == 1)]]
    assert.are.equal(2, #list, text)
    for i = 1, 2 do assert.is_truthy(list[i]:match "on their way.*:4 ", list[i]) end
  end)
end)
