-- Tensors and events of other processes. The other process is a second runner.

local tide = require "tide"
local D = require "spec.support.device"
if not D.cuda then return end
local cuda = tide.cuda

local function hex(s) return (s:gsub(".", function(c) return ("%02x"):format(c:byte()) end)) end

-- A process that runs `script`, with `arg[1]` the handle. It starts at once; the function returned waits for its end and
-- gives its output. What it prints line by line can be read from `pipe`.
local function other(script, handle)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write([[
    local tide = require "tide"
    local cuda = tide.cuda
    local handle = arg[1] and arg[1]:gsub("%x%x", function(b) return string.char(tonumber(b, 16)) end)
    ]] .. script)
  file:close()
  local pipe = assert(io.popen(("%s %s %s 2>&1"):format(D.quote(D.runner), path, handle and hex(handle) or "")))
  return function()
    local out = pipe:read "a"
    pipe:close()
    os.remove(path)
    return out
  end, pipe
end

local function consume(handle, script)
  local finish = other("local x = cuda.tensor_from_ipc(handle)\n" .. script, handle)
  return finish()
end

describe("tensors of another process", function()
  D.watch(before_each, after_each, cuda.ipc_collect)

  it("have its values, shape, strides and dtype", function()
    local x = tide.arange(24, { device = "cuda", dtype = "int32" }):view(4, 6)
    local out = consume(x:ipc_handle(), [[print(tostring(x.dtype), x.device, table.concat(x.shape, "x"), x[4][6]:item())]])
    assert.are.equal("tide.int32\tcuda:0\t4x6\t23\n", out)
    local view = x:t():slice(1, 2, 6, 2)
    out = consume(view:ipc_handle(), [[print(table.concat(x.shape, "x"), table.concat(x:stride(), "x"), x[1][2]:item(), x[3][4]:item())]])
    assert.are.equal("3x4\t2x6\t7\t23\n", out)
    for dtype, value in pairs { float16 = "1.5", bool = "true", complex64 = "1.5", uint8 = "1" } do
      x = tide.full({ 3 }, 1.5, { device = "cuda", dtype = "float64" }):to(tide[dtype])
      out = consume(x:ipc_handle(), "print((x.dtype == tide.complex64 and x:real() or x)[3]:item())")
      assert.are.equal(value .. "\n", out)
    end
    out = consume(tide.zeros(0, 3, { device = "cuda" }):ipc_handle(), [[print(table.concat(x.shape, "x"))]])
    assert.are.equal("0x3\n", out)
    out = consume(tide.full({}, 2.5, { device = "cuda" }):ipc_handle(), [[print(x:dim(), x:item())]])
    assert.are.equal("0\t2.5\n", out)
  end)

  it("are the same memory", function()
    local x = tide.zeros(1000, { device = "cuda" })
    local out = consume(x:ipc_handle(), [[x:add_(5) cuda.synchronize() print "done"]])
    assert.are.equal("done\n", out)
    D.eq(5, x[1000])
  end)

  it("are moved once to memory that can be shared, with all their views", function()
    local x = tide.arange(1000, { device = "cuda", dtype = "int64" })
    local view = x:slice(1, 501, 1000)
    local other = cuda.Stream()
    other:wait_stream(cuda.current_stream())
    cuda.stream(other, function()
      cuda._sleep(3000000)
      x:add_(1) -- not done yet when the memory moves
    end)
    cuda.current_stream():wait_stream(other)
    local handle = x:ipc_handle()
    local ptr = x:data_ptr()
    assert.are.equal(ptr + 500 * 8, view:data_ptr())
    D.eq(1000, x[1000])
    D.eq(501, view[1])
    local again = view:ipc_handle()
    assert.are.equal(ptr, x:data_ptr())
    assert.are.equal("1000\n", consume(handle, "x[1]:fill_(-5) print(x[1000]:item())"))
    assert.are.equal("500\t501\n", consume(again, "print(#x, x[1]:item())"))
    D.eq(-5, x[1])
  end)

  -- Each gives a function that adds x to y, and knows both from before.
  local floats = { device = "cuda", dtype = "float32" }
  local adders = {
    ["a kernel with its arguments"] = function(x, y)
      return tide.kernel("function(i, a, b) b[i] = b[i] + a[i] end"):on(x:numel(), x, y)
    end,
    ["a raw kernel that is bound"] = function(x, y)
      local k = cuda.compile_kernel([[extern "C" __global__ void add_to(const float *a, float *b, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) b[i] += a[i]; }]], "add_to")
      return k:bind({ grid = 8, block = 128 }, x, y, x:numel())
    end,
    ["a fused function"] = function(x, y)
      local f = tide.fuse(function(a, b) b:add_(a * 1) end)
      return function() f(x, y) f:wait() end
    end,
    ["a graph that they are bound to"] = function(x, y)
      local g, a, b = cuda.CUDAGraph(), tide.zeros(1000, { device = "cuda" }), tide.zeros(1000, { device = "cuda" })
      cuda.graph(g, { inputs = { a = a, b = b } }, function() b:add_(a) end)
      g:bind { a = x, b = y }
      return function() g:replay() end
    end,
    ["views"] = function(x, y)
      local a, b = x:view(10, 100):t(), y:view(10, 100):t()
      return function() b:add_(a) end
    end,
  }

  it("are followed by what was made before they moved", function()
    for what, make in pairs(adders) do
      if D.compiler or not what:find "kernel" then
        local x, y = tide.full({ 1000 }, 1.0, floats), tide.zeros(1000, { device = "cuda" })
        local add = make(x, y)
        for _ = 1, 2 do add() end
        D.eq(2, y[1000], 0, what)
        for _, t in ipairs { x, y } do
          local ok, handle = pcall(t.ipc_handle, t) -- refused where a graph uses it
          if ok then cuda.tensor_from_ipc(handle):free() end
          local others = {}
          for i = 1, 4 do others[i] = tide.full({ 1000 }, 50.0, floats) end -- where it was
          x:add_(1)
          add()
        end
        cuda.synchronize()
        D.eq(2 + 2 + 3, y[1000], 0, what)
        D.eq(7, y[1], 0, what)
      end
    end
  end)

  it("are not moved away from who knows their address", function()
    local x, t = tide.ones(1000, { device = "cuda" }), tide.ones(1000, { device = "cuda" })
    local capsule = x:to_dlpack()
    local a, g, y = tide.zeros(1000, { device = "cuda" }), cuda.CUDAGraph(), nil
    cuda.graph(g, { inputs = { a = a } }, function() y = a + 1 end)
    g:bind { a = t }
    for _, held in ipairs { x, t } do -- refused, unless it lies where it can be shared
      local ptr = held:data_ptr()
      local ok, e = pcall(held.ipc_handle, held)
      assert.are.equal(ptr, held:data_ptr())
      if ok then cuda.tensor_from_ipc(e):free() else assert.are.equal("StateError", e.kind) end
    end
    local same = tide.from_dlpack(capsule)
    x:fill_(3) t:fill_(4)
    g:replay()
    D.eq(3, same[1000])
    D.eq(5, y[1000])
    g:bind { a = a }
    cuda.tensor_from_ipc(t:ipc_handle()):free() -- no graph has it now
    D.eq(4, t[1])
  end)

  it("wait for the work that made them", function()
    local x = tide.zeros(5000, { device = "cuda" })
    assert.are.equal("0.0\n", consume(x:ipc_handle(), "print(x[1]:item())")) -- the first handle moves it, and waits
    for i = 1, 3 do
      D.hold(nil, 600000000) -- longer than the other process takes to start
      x:fill_(i)
      local finish, pipe = other([[
        local x = cuda.tensor_from_ipc(handle)
        local y = x + 0
        print(cuda.current_stream():query()) io.stdout:flush()
        print(y[5000]:item())]], x:ipc_handle())
      local done = pipe:read "l"
      if D.simulated then assert.are.equal("false", done) end
      D.release()
      assert.are.equal(i .. ".0\n", finish())
    end
  end)

  it("are held until the other process has let go", function()
    local before = cuda.memory_allocated()
    local x = tide.full({ 1 << 20 }, 3, { device = "cuda", dtype = "float32" })
    local handle = x:ipc_handle()
    x:free()
    collectgarbage()
    assert.is_true(cuda.memory_allocated() > before)
    local finish, pipe = other([[
      local x = cuda.tensor_from_ipc(handle)
      print "open" io.stdout:flush()
      local y = x + 1
      x:free()
      cuda.synchronize()
      print(y[1]:item())]], handle)
    assert.are.equal("open", pipe:read "l")
    assert.are.equal("4.0\n", finish())
    assert.is_true(cuda.memory_allocated() > before)
    cuda.ipc_collect()
    assert.are.equal(before, cuda.memory_allocated())
  end)

  it("leave no file open in the other process", function()
    local handles = {}
    for i = 1, 5 do handles[i] = tide.full({ 100 }, i, { device = "cuda" }):ipc_handle() end
    local finish = other([[
      -- Memory of other processes that this one has open. A simulated device's thread closes an event's after its work.
      local function shared()
        local pipe = io.popen "ls -l /proc/$PPID/fd | grep -c memfd"
        local n = pipe:read "n"
        pipe:close()
        return n
      end
      for i = 1, 5 do
        local x = cuda.tensor_from_ipc(handle:sub(#handle // 5 * (i - 1) + 1, #handle // 5 * i))
        assert(x:sum():item() == 100 * i)
        x:free()
        cuda.synchronize()
      end
      local tries = 0
      while shared() > 0 and tries < 200 do tries = tries + 1 end
      print(shared())]], table.concat(handles))
    assert.are.equal("0\n", finish())
  end)

  it("are taken back from a process that died with them", function()
    local before = cuda.memory_allocated()
    do
      local x = tide.zeros(1 << 20, { device = "cuda" })
      assert.are.equal("open\n", consume(x:ipc_handle(), [[print "open" io.stdout:flush() os.execute("kill -9 $PPID") while true do end]])
        :match "^open\n")
      x:free()
    end
    cuda.ipc_collect()
    assert.are.equal(before, cuda.memory_allocated())
  end)

  it("are opened once for each handle", function()
    local x = tide.ones(3, { device = "cuda" })
    local handle = x:ipc_handle()
    local script = [[
      local ok, e = pcall(cuda.tensor_from_ipc, handle)
      print(ok, not ok and e.kind)]]
    local finish = other("local x = cuda.tensor_from_ipc(handle)" .. script, handle)
    assert.are.equal("false\tStateError\n", finish())
    cuda.ipc_collect()
    assert.are.equal("false\tStateError\n", (other(script, handle)()))
    assert.are.equal("1.0\n", consume(x:ipc_handle(), "print(x[1]:item())"))
  end)

  it("in the maker itself are the same storage", function()
    local x = tide.ones(3, { device = "cuda" })
    local handle = x[2]:ipc_handle()
    local y = cuda.tensor_from_ipc(handle)
    assert.are.equal(x[2]:data_ptr(), y:data_ptr())
    y:fill_(7)
    D.eq({ 1, 7, 1 }, x)
    D.raises("StateError", cuda.tensor_from_ipc, handle)
  end)

  it("may come from the other side", function()
    local finish, pipe = other [[
      local x = tide.full({ 100 }, 9, { device = "cuda", dtype = "float32" })
      print((x:ipc_handle():gsub(".", function(c) return ("%02x"):format(c:byte()) end))) io.stdout:flush()
      for _ = 1, 1000 do
        cuda.ipc_collect()
        if x:free() or cuda.memory_allocated() == 0 then break end
        os.execute "sleep 0.01"
      end
      print(cuda.memory_allocated())]]
    local handle = pipe:read("l"):gsub("%x%x", function(b) return string.char(tonumber(b, 16)) end)
    local x = cuda.tensor_from_ipc(handle)
    D.eq(900, x:sum())
    D.raises("NotSupportedError", x.ipc_handle, x) -- it is not ours to send on
    x:free()
    cuda.synchronize()
    assert.are.equal("0\n", finish())
    D.raises("StateError", cuda.tensor_from_ipc, handle)
  end)

  it("are not moved away from a graph", function()
    local x = tide.ones(1000, { device = "cuda" })
    local shared = tide.ones(1000, { device = "cuda" })
    local handle = shared:ipc_handle()
    local g = cuda.CUDAGraph()
    local y
    cuda.graph(g, function() y = x + shared end)
    for _, t in ipairs { x, y } do -- refused, unless it lies where it can be shared
      local ptr = t:data_ptr()
      local ok, e = pcall(t.ipc_handle, t)
      assert.are.equal(ptr, t:data_ptr())
      if ok then cuda.tensor_from_ipc(e):free() else assert.are.equal("StateError", e.kind) end
    end
    assert.are.equal("1.0\n", consume(handle, "print(x[1]:item())"))
    assert.are.equal("1.0\n", consume(shared:ipc_handle(), "print(x[1]:item())"))
    x:fill_(4)
    g:replay()
    D.eq(5, y[1000])
    assert.are.equal("5.0\n", consume(y:clone():ipc_handle(), "print(x[1]:item())"))
    g:reset()
    D.raises("StateError", function()
      cuda.graph(cuda.CUDAGraph(), {}, function()
        y = shared + 1
        shared:ipc_handle()
      end)
    end)
    y = nil
    collectgarbage() -- the broken capture goes, and then what was made in it
    cuda.synchronize()
  end)

  it("refuse what is none", function()
    D.raises("DeviceError", function() tide.ones(3):ipc_handle() end)
    D.raises("ArgumentError", cuda.tensor_from_ipc, 5)
    D.raises("ArgumentError", cuda.tensor_from_ipc)
    D.raises("ValueError", cuda.tensor_from_ipc, "abc")
    local good = tide.ones(3, { device = "cuda" }):ipc_handle()
    D.raises("ValueError", cuda.tensor_from_ipc, ("x"):rep(#good))
    for i = 1, #good, 7 do -- garbage makes an error or a tensor, never a crash
      local bad = good:sub(1, i - 1) .. string.char((good:byte(i) + 101) % 256) .. good:sub(i + 1)
      pcall(cuda.tensor_from_ipc, bad)
    end
    pcall(cuda.tensor_from_ipc, good)
  end)
end)

describe("events of another process", function()
  D.watch(before_each, after_each)

  it("have handles of 64 bytes", function()
    local e = cuda.Event { interprocess = true }
    assert.are.equal(64, #e:ipc_handle())
    assert.are.equal("cuda:0", tostring(e.device)) -- it has a device now
    assert.is_true(e:query())
    local seen = {} -- what another process may have opened is no later event's; a driver may use a name again
    for i = 1, D.simulated and 20 or 0 do
      local shared = cuda.Event { interprocess = true }:record()
      local handle = shared:ipc_handle()
      assert(not seen[handle], i)
      seen[handle] = true
      shared = nil
      collectgarbage()
      cuda.synchronize()
    end
    D.raises("ValueError", cuda.Event().ipc_handle, cuda.Event())
    D.raises("ValueError", cuda.Event, { interprocess = true, enable_timing = true })
    D.raises("ValueError", cuda.Event.from_ipc_handle, 0, "short")
    D.raises("ArgumentError", cuda.Event.from_ipc_handle, 0)
    D.raises("DeviceError", cuda.Event.from_ipc_handle, 63, e:ipc_handle())
  end)

  it("tell there when the work here is done", function()
    local e = cuda.Event { interprocess = true }
    e:record()
    e:synchronize()
    local finish, pipe = other([[
      local e = cuda.Event.from_ipc_handle("cuda:0", handle)
      print(e:query(), e.device) io.stdout:flush()
      e:synchronize()
      io.stdout:flush()]], e:ipc_handle())
    assert.are.equal("true\tcuda:0", pipe:read "l")
    finish()
    D.hold(nil, 600000000)
    e:record()
    finish, pipe = other([[
      local e = cuda.Event.from_ipc_handle(0, handle)
      local early = e:query()
      local s = cuda.Stream()
      s:wait_event(e)
      print(early, s:record_event():query()) io.stdout:flush()
      e:synchronize()
      print(e:query())
      s:synchronize()]], e:ipc_handle())
    local early = pipe:read "l"
    assert.is_truthy(early == "false\tfalse" or not D.simulated and early:find "^true", early)
    D.release()
    assert.are.equal("true\n", finish())
    assert.is_true(e:query())
  end)

  it("are recorded there and waited for here", function()
    local e = cuda.Event { interprocess = true }
    local finish, pipe = other([[
      local e = cuda.Event.from_ipc_handle(0, handle)
      cuda._sleep(100000000)
      e:record()
      print "recorded" io.stdout:flush()
      cuda.synchronize()]], e:ipc_handle())
    assert.are.equal("recorded", pipe:read "l")
    e:synchronize()
    assert.is_true(e:query())
    finish()
  end)

  it("that were seen done here may be recorded there again", function()
    local e = cuda.Event { interprocess = true }
    e:record():synchronize()
    assert.is_true(e:query())
    local gate = os.tmpname()
    local finish, pipe = other(([[
      local D = require "spec.support.device"
      local e = cuda.Event.from_ipc_handle(0, handle)
      D.hold(nil, 600000000)
      e:record()
      print "recorded" io.stdout:flush()
      repeat local file = io.open %q if file then file:close() end until not file
      D.release()
      cuda.synchronize()]]):format(gate), e:ipc_handle())
    assert.are.equal("recorded", pipe:read "l")
    local done = e:query()
    os.remove(gate)
    if D.simulated then assert.is_false(done) end
    finish()
    assert.is_true(e:query())
  end)
end)
