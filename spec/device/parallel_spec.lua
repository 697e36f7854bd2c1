-- One function on several devices at once.

local tide = require "tide"
local D = require "spec.support.device"
local P, cuda = tide.parallel, tide.cuda

local all = {}
for i = 1, D.devices do all[i] = i - 1 end
local none = not D.cuda
local function rows(n, opts) return tide.arange(2 * n, { dtype = "float32", device = opts and opts.device or D.dev }):view(n, 2) end
local function at(x) return tostring(x.device) end
local function name(i) return none and "cpu" or "cuda:" .. i - 1 end

-- How many devices get any of so many rows: with four of them five rows are parts of 2, 2 and 1.
local function replicas(rows_of)
  local n = none and 1 or D.devices
  local each = (rows_of + n - 1) // n
  return (rows_of + each - 1) // each
end

-- The rows that device i of n gets, by the rule of chunk.
local function share(size, n, i)
  local each = (size + n - 1) // n
  return math.max(0, math.min(size, i * each) - (i - 1) * each)
end

describe("tide.parallel.scatter", function()
  D.watch(before_each, after_each)

  it("cuts tensors along a dimension, one part for each device", function()
    local x = rows(7)
    local parts = P.scatter(x, none and { "cpu" } or all)
    local n = none and 1 or D.devices
    assert.are.equal(replicas(7), #parts)
    for i, part in ipairs(parts) do
      assert.are.equal(name(i), at(part))
      assert.are.equal(share(7, n, i), part:size(1))
    end
    D.eq(x, tide.cat(tide.to(parts, "cpu")))
    local wide = P.scatter(x:t(), nil, { dim = -1 })
    assert.are.equal(replicas(7), #wide)
    D.eq(x:t(), tide.cat(tide.to(wide, "cpu"), 2))
  end)

  it("gives fewer parts than devices where there is too little", function()
    if none then return pending "needs a device" end
    assert.are.equal(1, #P.scatter(rows(1), all))
    assert.are.equal(D.devices, #P.scatter(rows(0), all)) -- all empty
    assert.are.equal(D.devices, #P.scatter(rows(0, { device = "cpu" }), all))
    assert.are.equal(math.min(2, D.devices), #P.scatter(rows(4):narrow(1, 1, 2), all))
    if D.devices == 3 then assert.are.equal(2, #P.scatter(rows(4), all)) end -- 2 and 2
  end)

  it("leaves parts on their own device in place", function()
    local x = rows(6)
    assert.are.equal(x:data_ptr(), P.scatter(x)[1]:data_ptr())
  end)

  it("walks tables, keeps what is shared, and shares other values", function()
    local meta = { __index = { hello = "hello" } }
    local x, f = rows(6), function() end
    local tree = setmetatable({ x, { deep = x, f = f }, word = "w", n = 3 }, meta)
    tree.me = tree
    for i, part in ipairs(P.scatter(tree)) do
      assert.are.equal(name(i), at(part[1]))
      assert.is_true(rawequal(part[1], part[2].deep))
      assert.are.equal(f, part[2].f)
      assert.are.equal("w", part.word)
      assert.are.equal("hello", part.hello)
      assert.are.equal(part, part.me)
      assert.are_not.equal(tree, part)
    end
    assert.is_true(rawequal(x, tree[1]))
  end)

  it("takes tensors of the host, also pinned ones, and of other devices", function()
    for _, x in ipairs { rows(7, { device = "cpu" }), D.cuda and rows(7, { device = "cpu" }):pin_memory() or nil,
      D.devices > 1 and rows(7, { device = "cuda:1" }) or nil } do
      local parts = P.scatter({ x })
      for i, part in ipairs(parts) do assert.are.equal(name(i), at(part[1])) end
      D.eq(rows(7), P.gather(parts, "cpu")[1])
    end
  end)

  it("gives the whole to every device where nothing can be cut", function()
    local parts = P.scatter({ 5, "x" })
    assert.are.equal(none and 1 or D.devices, #parts)
    for _, part in ipairs(parts) do assert.are.same({ 5, "x" }, part) end
  end)

  it("refuses what it cannot cut and devices that are none", function()
    D.raises("ShapeError", P.scatter, tide.ones({}, { device = D.dev }))
    D.raises("IndexError", P.scatter, rows(4), nil, { dim = 0 })
    D.raises("IndexError", P.scatter, rows(4), nil, { dim = 3 })
    D.raises("ArgumentError", P.scatter, rows(4), nil, { dims = 3 })
    D.raises("ArgumentError", P.scatter)
    D.raises("ArgumentError", P.scatter, rows(4), 0)
    D.raises("ValueError", P.scatter, rows(4), {})
    D.raises("DeviceError", P.scatter, rows(4), { "cpu", "cpu" })
  end)

  it("refuses devices that are not there or of two kinds", function()
    if none then return pending "needs a device" end
    D.raises("DeviceError", P.scatter, rows(4), { 63 })
    D.raises("DeviceError", P.scatter, rows(4), { 0, "cpu" })
    D.raises("DeviceError", P.scatter, rows(4), { 0, "cuda:0" })
    D.raises("ValueError", P.scatter, rows(4), { -1 })
    local freed = rows(4)
    freed:free()
    D.raises("StateError", P.scatter, freed)
    if D.devices == 3 then assert.matches("2 parts, expected 3", D.raises("ShapeError", P.scatter, { rows(9), rows(4) }).message) end
  end)
end)

describe("tide.parallel.replicate", function()
  D.watch(before_each, after_each)

  it("copies a tree to every device and shares what is there", function()
    local w = rows(3)
    local net = setmetatable({ w = w, tied = { w }, bias = tide.ones(2), name = "net" }, { __call = function(s, x) return x + s.w end })
    local copies = P.replicate(net, none and { "cpu" } or all)
    assert.are.equal(none and 1 or D.devices, #copies)
    for i, copy in ipairs(copies) do
      assert.are.equal(name(i), at(copy.w))
      assert.are.equal(name(i), at(copy.bias))
      assert.is_true(rawequal(copy.w, copy.tied[1]))
      assert.are.equal("net", copy.name)
      D.eq(w, copy.w)
      D.eq(w + w, copy(copy.w))
    end
    assert.is_true(rawequal(w, copies[1].w))
    D.raises("ArgumentError", P.replicate)
    D.raises("ArgumentError", P.replicate, net, "cuda")
  end)
end)

describe("tide.parallel.gather", function()
  D.watch(before_each, after_each)

  it("joins tensors on a device or on the host", function()
    local x = rows(8)
    local parts = P.scatter(x)
    for _, dev in ipairs { D.dev, "cpu", -1, none and "cpu" or D.devices - 1 } do
      local y = P.gather(parts, dev)
      assert.are.equal(dev == -1 and "cpu" or tostring(tide.device(dev)), at(y))
      D.eq(x, y)
    end
    D.eq(x:t(), P.gather(P.scatter(x:t(), nil, { dim = 2 }), D.dev, { dim = 2 }))
    assert.are.equal(D.cuda and "cuda:0" or "cpu", at(P.gather(parts)))
    local alone = P.gather { x }
    assert.are_not.equal(x:data_ptr(), alone:data_ptr())
  end)

  it("walks tables, and makes a vector of scalars", function()
    local outputs = {}
    for i, part in ipairs(P.scatter(rows(6))) do outputs[i] = { part, sum = part:sum(), more = { nil, part * 2 } } end
    local y = P.gather(outputs, D.dev)
    D.eq(rows(6), y[1])
    D.eq(rows(6) * 2, y.more[2])
    assert.are.same({ #outputs }, y.sum:size())
    D.eq(30 + 36, y.sum:sum())
    assert.matches("no dimensions", D.raises("IndexError", P.gather, { rows(2):sum() }, D.dev, { dim = 2 }).message)
  end)

  it("says which output does not fit", function()
    local x = rows(4)
    D.raises("ArgumentError", P.gather, x)
    D.raises("ValueError", P.gather, {})
    D.raises("IndexError", P.gather, { x }, D.dev, { dim = 0 })
    D.raises("ArgumentError", P.gather, { x }, "nowhere")
    assert.matches("outputs%[2%]", D.raises("ShapeError", P.gather, { x, x:narrow(2, 1, 1) }).message)
    assert.matches("outputs%[2%]", D.raises("ShapeError", P.gather, { x, x:double() }).message)
    assert.matches("outputs%[2%]%.a", D.raises("ArgumentError", P.gather, { { a = x }, { a = 5 } }).message)
    assert.matches("outputs%[1%]%.loss: got number 5", D.raises("ArgumentError", P.gather, { { loss = 5 }, { loss = 5 } }).message)
    assert.matches("2 keys", D.raises("ArgumentError", P.gather, { { a = x }, { a = x, b = x } }).message)
    assert.matches("nothing", D.raises("ArgumentError", P.gather, { { a = x }, { b = x } }).message)
    D.eq({ 2 }, P.gather({ { x:sum() / x:sum() + 1 } })[1])
  end)
end)

describe("tide.parallel.apply", function()
  D.watch(before_each, after_each)

  it("calls each function with its arguments on its device", function()
    local parts = P.scatter(rows(6))
    local fns = {}
    for i in ipairs(parts) do
      fns[i] = function(x, k)
        if D.cuda then assert.are.equal(i - 1, cuda.current_device()) end
        return x * k, i
      end
    end
    local inputs = {}
    for i, part in ipairs(parts) do inputs[i] = { part, i } end
    for _, opts in ipairs { {}, { devices = none and { "cpu" } or { table.unpack(all, 1, #parts) } } } do
      for i, out in ipairs(P.apply(fns, inputs, opts)) do
        D.eq(parts[i] * i, out[1])
        assert.are.equal(i, out[2])
      end
    end
    local out = P.apply(function(x) return x + 1 end, parts) -- one function, single arguments, single results
    for i in ipairs(parts) do D.eq(parts[i] + 1, out[i]) end
    assert.are.same({}, P.apply(function() end, {}))
    local seen = P.apply(function(t) return t.x end, { { x = parts[1] } }) -- named values are one argument
    assert.is_true(rawequal(parts[1], seen[1]))
    local args = P.apply(function(...) return select("#", ...) end, { {}, table.pack(1, nil, nil), table.pack() })
    assert.are.same({ 0, 3, 0 }, args)
    seen = P.apply(function(t) return t.n, t.x end, { { x = parts[1], n = 2 } }) -- here n is one of the names
    assert.are.same({ 2, parts[1] }, seen[1])
  end)

  it("refuses wrong arguments", function()
    D.raises("ArgumentError", P.apply)
    D.raises("ArgumentError", P.apply, print)
    D.raises("ArgumentError", P.apply, { 5 }, { 1 })
    D.raises("ArgumentError", P.apply, { print, print }, { 1 })
    D.raises("ArgumentError", P.apply, print, { 1 }, 5)
    D.raises("ArgumentError", P.apply, print, { 1 }, { device = {} })
    D.raises("ArgumentError", P.apply, print, { 1, 2 }, { devices = { D.dev } })
    D.raises("ArgumentError", P.apply, print, { { 1, 2, x = 3 } })
  end)
end)

describe("tide.parallel.data_parallel", function()
  D.watch(before_each, after_each)

  local function f(x, y)
    local z = (x * 2 + (y or 1)):exp()
    return z, { sum = z:sum(2), max = z:max(2) }
  end

  it("gives the results of the serial call", function()
    for n = 0, 7 do
      local x = rows(n) / 16
      local z, more = P.data_parallel(f, { x, 3 })
      local sz, smore = f(x, 3)
      D.eq(sz, z, 1e-6)
      D.eq(smore.sum, more.sum, 1e-6)
      D.eq(smore.max, more.max, 1e-6)
      assert.are.equal(D.dev, at(z))
    end
    local x = rows(6):view(2, 6)
    local function centre(a) return a - a:mean(1, { keepdim = true }) end
    D.eq(centre(x), P.data_parallel(centre, x, { dim = 2 }))
  end)

  it("puts the results where they are asked for", function()
    for _, where in ipairs { "cpu", -1, none and "cpu" or D.devices - 1 } do
      local z = P.data_parallel(f, rows(5), { output_device = where, devices = D.cuda and all or nil })
      assert.are.equal(where == -1 and "cpu" or tostring(tide.device(where)), at(z))
      D.eq((f(rows(5))), z, 1e-6)
    end
  end)

  it("with one device calls the function as it is", function()
    local s = P.data_parallel(function(x) return x:sum() end, rows(3), { devices = { D.dev } })
    assert.are.equal(0, s:dim())
    D.eq(15, s)
    assert.are.equal("cpu", at(P.data_parallel(function(x) return x end, rows(3), { devices = { D.dev }, output_device = -1 })))
  end)

  it("with one of several devices calls the function there", function()
    if none then return pending "needs a device" end
    assert.are.equal("cpu", at(P.data_parallel(function(x) return x + 1 end, rows(3), { devices = { "cpu" } })))
    local on_last = P.data_parallel(function(x) return x + cuda.current_device() end, rows(3), { devices = { D.devices - 1 } })
    assert.are.equal("cuda:" .. D.devices - 1, at(on_last))
  end)

  it("gives each call its replica", function()
    local tree = { w = rows(2):t():contiguous(), scale = 2 }
    local seen = 0
    local y = P.data_parallel(function(net, x, k)
      seen = seen + 1
      assert.are.equal(at(x), at(net.w))
      return x:matmul(net.w) * net.scale + k
    end, { rows(5), 1 }, { replicate = tree })
    D.eq(rows(5):matmul(tree.w) * 2 + 1, y)
    assert.are.equal(replicas(5), seen)
    local module = setmetatable({ w = tree.w }, { __call = function(self, x) return x:matmul(self.w) end })
    D.eq(rows(5):matmul(tree.w), P.data_parallel(module, rows(5)))
    local host = setmetatable({ w = tree.w:cpu() }, getmetatable(module))
    D.eq(rows(5):matmul(tree.w), P.data_parallel(host, rows(5)))
  end)

  it("takes batches of the host", function()
    local x = rows(6, { device = "cpu" })
    D.eq((f(x)), P.data_parallel(f, x), 1e-6)
    if D.cuda then D.eq((f(x)), P.data_parallel(f, x:pin_memory()), 1e-6) end
  end)

  it("names the replica that fails and restores what is current", function()
    local last = replicas(6)
    local function here() return none and 1 or cuda.current_device() + 1 end
    local function failing(how)
      return function(x)
        if here() == last then
          if D.cuda then cuda.set_stream(cuda.Stream()) end
          how(x)
        end
        return x
      end
    end
    local named = ("replica %d %%(%s%%): "):format(last, name(last))
    local e = D.raises("ShapeError", P.data_parallel, failing(function(x) return x:view(11, 13) end), rows(6))
    assert.matches("data_parallel: " .. named .. "view:", e.message)
    assert.are.equal(last, e.replica)
    assert.are.equal(name(last), tostring(e.device))
    assert.matches("parallel_spec.lua:%d+: ", tostring(e))
    assert.matches("parallel_spec.lua:%d+: in", e.traceback)
    local _, text = pcall(P.data_parallel, failing(function() error "boom" end), rows(6))
    assert.matches("^data_parallel: " .. named .. ".*parallel_spec.lua:%d+: boom\nstack traceback:", text)
    local function deep() error "deep" end
    local where = "parallel_spec.lua:" .. debug.getinfo(1, "l").currentline - 1 .. ": in"
    for _, how in ipairs { deep, function() tide.scope(deep) end, function() tide.scope(function() tide.scope(function() deep() end) end) end } do
      _, text = pcall(P.data_parallel, failing(function() how() return 1 end), rows(6))
      assert.is_truthy(text:match("stack traceback:.*"):find(where, 1, true), text) -- a block that the error leaves cuts nothing off
    end
    local own = {}
    local _, object = pcall(P.data_parallel, failing(function() error(own) end), rows(6))
    assert.are.equal(own, object)
    local closed = 0
    local _, first = pcall(P.data_parallel, function(x)
      local _ <close> = setmetatable({}, { __close = function() closed = closed + 1 end })
      x:sum():item() -- the others come this far before the first goes on
      if here() == 1 then error "first" end
      return x
    end, rows(6))
    assert.matches("replica 1", first)
    assert.are.equal(replicas(6), closed)
    if D.cuda then assert.are.equal(0, cuda.current_device()) end
  end)

  it("frees what is made inside a tide.scope", function()
    if none then return pending "needs a device" end
    local x = rows(6)
    collectgarbage()
    cuda.synchronize_all()
    local before = cuda.memory_allocated()
    local kept = tide.scope(function()
      return P.data_parallel(function(a)
        local y = a + 1
        return tide.scope(function() return (y * 2):sum(2), (y * 3):sum(2) end)
      end, x)
    end)
    D.eq((x + 1):sum(2) * 2, kept)
    kept:free()
    collectgarbage() -- what D.eq made
    cuda.synchronize_all()
    assert.are.equal(before, cuda.memory_allocated())
  end)

  it("passes on what the function yields", function()
    local co = coroutine.wrap(function()
      return "end", P.data_parallel(function(x) return x + coroutine.yield(at(x), 2) end, rows(6))
    end)
    local args, i = {}, 0
    while true do
      local a, b = co(table.unpack(args))
      if a == "end" then
        D.eq(1, b[1][1])
        break
      end
      i = i + 1
      assert.are.same({ name(i), 2 }, { a, b })
      args = { i }
    end
    assert.are.equal(replicas(6), i)
    if D.cuda then assert.are.equal(0, cuda.current_device()) end
    -- One that is never resumed leaves nothing behind.
    local dropped = coroutine.wrap(function() P.data_parallel(function() coroutine.yield() end, rows(6)) end)
    dropped()
    dropped = nil
    tide.get_default_device() -- the coroutine that called last is held until another one calls
  end)

  it("keeps all devices busy, also when the function waits", function()
    if D.devices < 2 then return pending "needs two devices" end
    local came = {}
    -- Holds the device until all have come so far: nobody who waits for its own gets on before.
    local function meet(k, wait)
      came[k] = (came[k] or 0) + 1
      D.hold()
      if came[k] == D.devices then D.release() end
      local result = wait()
      assert.are.equal(D.devices, came[k])
      return result
    end
    local function waiting(x)
      local v = meet(1, function() return x:sum():item() end)
      meet(2, cuda.synchronize)
      return x + v + meet(3, function() return x:sum():cpu():item() end) + meet(4, function() return #x:totable() end)
    end
    P.data_parallel(function(x) return x + x:sum():item() end, rows(2 * D.devices)) -- opens the devices, loads kernels
    cuda.synchronize_all()
    P.data_parallel(waiting, rows(2 * D.devices))
    assert.are.same({ D.devices, D.devices, D.devices, D.devices }, came)
    local issued = 0
    P.data_parallel(function(x)
      D.hold()
      issued = issued + 1
      return x
    end, rows(2 * D.devices, { device = "cuda" }))
    assert.are.equal(D.devices, issued)
    for d = 0, D.devices - 1 do assert.is_false(cuda.current_stream(d):query()) end -- all are busy at once
    D.release()
    cuda.synchronize_all()
  end)

  it("waits in place inside blocks whose setting all share", function()
    local x = rows(6)
    local function around(_, f) return f() end
    local function scope(_, f) return tide.scope(f) end
    -- Blocks of the thread's own, around it and within it, change nothing about that.
    for _, blocks in ipairs { { around, around }, { scope, around }, { around, scope }, { scope, scope } } do
      local y = P.data_parallel(function(a)
        return blocks[1](a, function()
          return tide.device_scope(a.device, function()
            return blocks[2](a, function()
              local v = tide.ones(1)
              a:sum():item()
              local w = tide.ones(1)
              assert.are.equal(at(a), at(v))
              assert.are.equal(at(a), at(w))
              return a + w
            end)
          end)
        end)
      end, x)
      D.eq(x + 1, y)
      assert.are.equal("cpu", tostring(tide.get_default_device()))
    end
  end)

  it("orders what is written to the inputs afterwards behind the copies", function()
    if D.devices < 2 then return pending "needs two devices" end
    local x = tide.ones(1 << 16, 2, { device = D.dev })
    local y = P.data_parallel(function(a) return a * 2 end, x)
    x:zero_()
    D.eq(2 * (1 << 17), y:sum())
  end)

  it("takes a table of named values for its inputs, whatever the names", function()
    local x = rows(4)
    local function f(t) return t.inputs + t.dim end
    D.eq((x + x):totable(), P.data_parallel(f, { inputs = x, dim = x }))
    D.eq((x + x):totable(), P.data_parallel(f, { inputs = x, dim = x }, { dim = 1 }))
    D.eq(x:totable(), P.data_parallel(function(t) return t.devices end, { devices = x }))
  end)

  it("calls what the module has, whatever a script has set in its place", function()
    local x, cat, narrow = rows(4), tide.cat, tide.Tensor.narrow
    local function refuse() error "called" end
    tide.cat, tide.Tensor.narrow = refuse, refuse
    local ok, y = pcall(P.data_parallel, function(a) return a * 2 end, x)
    local joined, z = pcall(P.gather, { x, x })
    tide.cat, tide.Tensor.narrow = cat, narrow
    assert.is_true(ok and joined, tostring(y))
    D.eq((x * 2):totable(), y)
    D.eq({ 8, x:size(2) }, z:size())
  end)

  it("refuses wrong arguments", function()
    local x = rows(4)
    D.raises("ArgumentError", P.data_parallel)
    D.raises("ArgumentError", P.data_parallel, 5, x)
    D.raises("ArgumentError", P.data_parallel, {}, x)
    D.raises("ArgumentError", P.data_parallel, f, x, 5)
    D.raises("ArgumentError", P.data_parallel, f, x, { device = 0 })
    D.raises("ArgumentError", P.data_parallel, f, x, { dim = "1" })
    D.raises("IndexError", P.data_parallel, f, x, { dim = 0 })
    D.raises("ValueError", P.data_parallel, f, x, { output_device = -2 })
    D.raises("ArgumentError", P.data_parallel, f, { x, y = x })
    D.raises("ArgumentError", P.data_parallel, function() return 5 end, x, D.devices < 2 and { devices = 1 } or nil)
  end)
end)

describe("several devices", function()
  it("get their parts beside the work of the first, and nothing makes the host wait", function()
    D.simulate(2, [[
      local x = tide.ones(6, 2, { device = "cuda:0" })
      tide.cuda.synchronize_all()
      local done, D = {}, require "spec.support.device"
      tide.cuda.device(1, D.hold)
      local y = tide.parallel.data_parallel(function(a)
        local b = a + 1
        done[#done + 1] = tide.cuda.Event():record()
        return b
      end, x)
      done[1]:synchronize()
      assert(#done == 2 and not done[2]:query())
      D.release()
      done[2]:synchronize()
      assert(y:sum():item() == 24)]], { TIDE_DEVICE = "cuda" })
  end)

  it("are warned of once when one is much smaller, and when scalars become a vector", function()
    local _, err = D.simulate(3, [[
      local x = tide.ones(6, 2)
      for _ = 1, 2 do tide.parallel.data_parallel(function(a) return a:sum() end, x) end]], { TIDE_SIM_FAULT = "small:1" })
    assert.matches("cuda:1 has less than 75%% of the memory of cuda:0", err)
    assert.matches("no dimensions and become a vector", err)
    assert.are.equal(2, select(2, err:gsub("\n", "\n")))
    _, err = D.simulate(3, [[
      tide.parallel.data_parallel(function(a) return a end, tide.ones(6, 2), { devices = { 0, 2 } })]], { TIDE_SIM_FAULT = "small:1" })
    assert.are.equal("", err)
  end)
end)
