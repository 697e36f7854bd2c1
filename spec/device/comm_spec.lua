-- Collectives between the devices of one process.

local tide = require "tide"
local D = require "spec.support.device"
if not D.cuda then return end
local cuda, comm = tide.cuda, tide.cuda.comm

local n = math.min(D.devices, 3)
local devices, last = {}, n - 1
for d = 0, n - 1 do devices[d + 1] = d end
local several = n >= 2
local function on(d) return { device = "cuda:" .. d } end
local function real(x) return D.kind[D.dtype_name(x)] == "C" and tide.view_as_real(x) or x end
local function values(x) return real(x):totable() end
local function names(list)
  local out = {}
  for i, x in ipairs(list) do out[i] = tostring(x.device) end
  return table.concat(out, " ")
end
local all = "cuda:0" .. (n >= 2 and " cuda:1" or "") .. (n >= 3 and " cuda:2" or "")

describe("comm.broadcast", function()
  D.watch(before_each, after_each)

  it("copies to every device, in every dtype and layout", function()
    for _, dtype in ipairs(D.dtypes) do
      local x = tide.arange(24, on(0)):view(2, 3, 4):to(tide[dtype])
      for _, layout in ipairs(D.layouts(x)) do
        local r = comm.broadcast(layout[2], devices)
        assert.are.equal(n, #r)
        assert.are.equal(all, names(r))
        for i = 1, n do
          assert.are.equal(dtype, D.dtype_name(r[i]))
          D.eq(values(x), values(r[i]), 0, dtype .. " " .. layout[1])
        end
        layout[3]()
      end
    end
  end)

  it("gives the tensor itself for its own device", function()
    local x = tide.ones(3, on(last))
    local r = comm.broadcast(x, devices)
    assert.is_true(rawequal(x, r[n]))
    local same = comm.broadcast(x, { last, "cuda:" .. last, tide.device("cuda", last) })
    for i = 1, 3 do assert.is_true(rawequal(x, same[i])) end
    cuda.device(last, function() -- the current one, too, by whichever name
      for _, where in ipairs { "cuda", tide.device "cuda", cuda.current_device() } do
        assert.is_true(rawequal(x, comm.broadcast(x, { where })[1]))
        for _, twice in ipairs { { where, last }, { last, where } } do
          local r = comm.broadcast(x, twice)
          assert.is_true(rawequal(x, r[1]) and rawequal(x, r[2]))
        end
      end
    end)
    if several then
      local twice = comm.broadcast(x, { 0, 0 })
      assert.is_false(twice[1] == twice[2])
      D.eq({ 1, 1, 1 }, twice[2])
    end
  end)

  it("takes the devices by name", function()
    local x = tide.ones(3, on(last))
    assert.are.equal(all, names(comm.broadcast(x, { devices = devices })))
    D.raises("ArgumentError", comm.broadcast, x, devices, { devices = devices })
    D.raises("ArgumentError", comm.broadcast, x, { devices = devices, out = { x } })
  end)

  it("takes sources on the cpu, pinned or not", function()
    for _, pinned in ipairs { false, true } do
      local x = tide.arange(1000, { dtype = "float32", pin_memory = pinned })
      local r = comm.broadcast(x, devices)
      if pinned then cuda.synchronize_all() end -- it is read later
      x:zero_()
      assert.are.equal(all, names(r))
      for i = 1, n do D.eq(999, r[i][1000]) end
    end
    local t = comm.broadcast(tide.tensor { { 1, 2 }, { 3, 4 } }:t(), devices)
    for i = 1, n do D.eq({ { 1, 3 }, { 2, 4 } }, t[i]) end
  end)

  it("of nothing and of a single value", function()
    for i, x in ipairs(comm.broadcast(tide.empty(0, 3, on(0)), devices)) do
      assert.are.same({ 0, 3 }, x:size())
      assert.are.equal(i - 1, x:get_device())
    end
    for _, x in ipairs(comm.broadcast(tide.full({}, 2.5, on(0)), devices)) do D.eq(2.5, x) end
  end)

  it("comes after what was queued and before what is queued later, on every device", function()
    for _ = 1, 20 do
      local x = tide.zeros(1000, on(0))
      for _ = 1, 10 do x:add_(1) end
      local r = comm.broadcast(x, devices)
      x:zero_()
      for i = 2, n do
        r[i]:add_(1)
        D.eq(11, r[i][1000])
      end
      D.eq(0, x[1000])
    end
  end)

  it("uses the current streams", function()
    local streams, r = {}, nil
    for d = 0, n - 1 do streams[d + 1] = cuda.Stream(d) end
    local function inside(d, fn)
      if d == n then return fn() end
      return cuda.stream(streams[d + 1], inside, d + 1, fn)
    end
    local held
    inside(0, function()
      local x = tide.zeros(1000, on(0))
      for _ = 1, 10 do x:add_(1) end
      r = comm.broadcast(x, devices)
      for i = 1, n do r[i]:mul_(2) end
      held = x
    end)
    for d = 0, n - 1 do
      streams[d + 1]:synchronize()
      D.eq(20, r[d + 1][1000])
    end
    held:free()
  end)

  it("writes to out, which is given instead of devices", function()
    local x = tide.arange(6, on(0)):view(2, 3)
    for _, layout in ipairs(D.layouts(tide.zeros(2, 3, { device = "cuda:" .. last, dtype = "int64" }))) do
      local outs = { layout[2], tide.zeros(2, 3, { device = "cuda:0", dtype = "int64" }) }
      local r = comm.broadcast(x, nil, { out = outs })
      assert.is_true(rawequal(outs, r))
      D.eq(values(x), r[1], 0, layout[1])
      D.eq(values(x), r[2])
      layout[3]()
    end
    local from_cpu = comm.broadcast(tide.ones(2), { out = { tide.zeros(2, on(last)) } })
    D.eq({ 1, 1 }, from_cpu[1])
  end)

  it("checks everything before anything is written", function()
    local x, good = tide.ones(2, 3, on(0)), tide.zeros(2, 3, on(last))
    D.raises("ArgumentError", comm.broadcast, x)
    D.raises("ArgumentError", comm.broadcast, x, devices, { out = { good } })
    D.raises("ArgumentError", comm.broadcast, x, devices, { outs = { good } })
    D.raises("ArgumentError", comm.broadcast, 1, devices)
    D.raises("ArgumentError", comm.broadcast, x, 0)
    D.raises("ArgumentError", comm.broadcast, x, { 0, true })
    D.raises("ValueError", comm.broadcast, x, { 0, -1 })
    D.raises("ValueError", comm.broadcast, x, {})
    D.raises("DeviceError", comm.broadcast, x, { "cpu" })
    local e = D.raises("DeviceError", comm.broadcast, x, { 0, D.devices })
    assert.is_truthy(e.message:find("entry 2 of devices", 1, true), e.message)
    e = D.raises("ShapeError", comm.broadcast, x, nil, { out = { good, tide.zeros(3, 2, on(0)) } })
    assert.is_truthy(e.message:find("out 2", 1, true), e.message)
    e = D.raises("DtypeError", comm.broadcast, x, nil, { out = { good, tide.zeros(2, 3, { device = "cuda:0", dtype = "int32" }) } })
    assert.is_truthy(e.message:find("out 2 has another dtype, got int32, expected float32", 1, true), e.message)
    e = D.raises("DeviceError", comm.broadcast, x, nil, { out = { good, tide.zeros(2, 3) } })
    assert.is_truthy(e.message:find("out 2", 1, true), e.message)
    D.raises("ValueError", comm.broadcast, x, nil, { out = { good, tide.zeros(2, 1, on(0)):expand(2, 3) } })
    D.raises("ValueError", comm.broadcast, x, nil, { out = {} })
    D.raises("ArgumentError", comm.broadcast, x, nil, { out = { good, "x" } })
    local gone = tide.zeros(2, 3, on(0))
    gone:free()
    D.raises("StateError", comm.broadcast, x, nil, { out = { good, gone } })
    D.raises("StateError", comm.broadcast, gone, devices)
    D.eq({ { 0, 0, 0 }, { 0, 0, 0 } }, good)
  end)

  it("keeps memory until the copies are done", function()
    local s, owner = cuda.Stream(0), cuda.current_stream(0)
    for i = 1, 5 do
      local x = tide.full({ 4000 }, i, on(0))
      cuda.synchronize(0)
      D.hold(s)
      local r = cuda.stream(s, function() return comm.broadcast(x, devices) end)
      x:free()
      local others = {}
      for k = 1, 4 do others[k] = tide.full({ 4000 }, -1, on(0)) end
      owner:synchronize() -- they are filled, and the copies are still to come
      D.release()
      s:synchronize()
      if several then D.eq(i, r[n][4000]) end
      for k = 1, 4 do D.eq(-1, others[k][4000]) end
    end
  end)
end)

describe("comm.broadcast_coalesced", function()
  D.watch(before_each, after_each)

  local function inputs()
    local list = {}
    for k, dtype in ipairs(D.dtypes) do
      local x = tide.arange(12 + k, on(0)):to(tide[dtype])
      list[#list + 1] = x
      list[#list + 1] = x:narrow(1, 2, 12):view(3, 4):t()
    end
    list[#list + 1] = tide.empty(0, 2, on(0))
    list[#list + 1] = tide.full({}, 7, on(0))
    for i = 1, 200 do list[#list + 1] = tide.full({ i % 7 + 1 }, i, on(0)) end
    return list
  end

  it("gives every device the whole list, the first one the tensors themselves", function()
    for _, size in ipairs { 10485760, 1, 64, 1000 } do
      local list = inputs()
      local r = comm.broadcast_coalesced(list, devices, { buffer_size = size })
      assert.are.equal(n, #r)
      for d = 1, n do
        assert.are.equal(#list, #r[d])
        for i, x in ipairs(list) do
          assert.are.equal(d - 1, r[d][i]:get_device())
          assert.are.equal(D.dtype_name(x), D.dtype_name(r[d][i]))
          D.eq(values(x), values(r[d][i]), 0, ("tensor %d on %d with buffers of %d"):format(i, d, size))
          if d == 1 then assert.is_true(rawequal(x, r[d][i])) end
        end
      end
    end
  end)

  it("puts tensors of one dtype side by side, as many as fit", function()
    if not several then return pending "needs two devices" end
    local list = {}
    for i = 1, 6 do list[i] = tide.full({ 64 }, i + 0.5, on(0)) end -- 256 bytes each
    local function buffers(size)
      local r, seen, count = comm.broadcast_coalesced(list, devices, { buffer_size = size }), {}, 0
      for _, x in ipairs(r[2]) do
        local key = x:storage():data_ptr()
        if not seen[key] then seen[key], count = true, count + 1 end
      end
      return count
    end
    assert.are.equal(1, buffers(6 * 256))
    assert.are.equal(2, buffers(3 * 256))
    assert.are.equal(2, buffers(6 * 256 - 1))
    assert.are.equal(6, buffers(100))
  end)

  it("moves large tensors too, and comes after and before as it must", function()
    if n < 2 then return pending "needs two devices" end
    for _ = 1, 5 do
      local list = { tide.zeros(2000000, on(0)), tide.zeros(10, on(0)), tide.zeros(300000, on(0)) }
      for _, x in ipairs(list) do for _ = 1, 5 do x:add_(1) end end
      local r = comm.broadcast_coalesced(list, devices)
      for _, x in ipairs(list) do x:zero_() end
      for d = 2, n do
        for i, x in ipairs(r[d]) do D.eq(5, x:min(), 0, "tensor " .. i) end
      end
    end
  end)

  it("refuses what is wrong", function()
    local x = tide.ones(3, on(0))
    D.raises("ArgumentError", comm.broadcast_coalesced, x, devices)
    D.raises("ValueError", comm.broadcast_coalesced, { x }, {})
    D.raises("ValueError", comm.broadcast_coalesced, { x }, devices, { buffer_size = 0 })
    D.raises("ArgumentError", comm.broadcast_coalesced, { x }, devices, { buffer = 1 })
    local e = D.raises("DeviceError", comm.broadcast_coalesced, { x, tide.ones(3) }, devices)
    assert.is_truthy(e.message:find("tensor 2", 1, true), e.message)
    if several then D.raises("DeviceError", comm.broadcast_coalesced, { x }, { 1, 0 }) end
    local none = comm.broadcast_coalesced({}, devices)
    assert.are.equal(n, #none)
    assert.are.same({}, none[1])
  end)
end)

describe("comm.reduce_add", function()
  D.watch(before_each, after_each)

  it("sums in every dtype and layout as x + y does", function()
    for _, dtype in ipairs(D.dtypes) do
      local x = tide.arange(24, on(0)):view(2, 3, 4):to(tide[dtype])
      for _, layout in ipairs(D.layouts(x)) do
        local list, want = {}, nil
        for d = 1, n do list[d] = layout[2]:to("cuda:" .. d - 1) end
        list[1] = layout[2]
        for d = 1, n do want = want and want + x or x end
        for to = 0, n - 1 do
          local sum = comm.reduce_add(list, to)
          assert.are.equal(to, sum:get_device())
          assert.are.equal(dtype, D.dtype_name(sum))
          D.eq(values(want), values(sum), 0, dtype .. " " .. layout[1])
        end
      end
    end
  end)

  it("adds in one order: the destination's first, the others as listed", function()
    if n < 3 then return pending "needs three devices" end
    local list = { tide.full({ 1 }, 1e8, on(0)), tide.full({ 1 }, 1.0, on(1)), tide.full({ 1 }, -1e8, on(2)) }
    for _ = 1, 5 do
      D.eq({ 0 }, comm.reduce_add(list, 0)) -- (a + b) + c, where b is lost
      D.eq({ 0 }, comm.reduce_add(list, 1)) -- (b + a) + c
      D.eq({ 1 }, comm.reduce_add({ list[1], list[3], list[2] }, 0)) -- (a + c) + b
    end
  end)

  it("takes the current device, several inputs of one device, and gives a single input back", function()
    local x, y = tide.full({ 5 }, 2, on(0)), tide.full({ 5 }, 3, on(0))
    D.eq({ 5, 5, 5, 5, 5 }, comm.reduce_add { x, y })
    assert.is_true(rawequal(x, comm.reduce_add { x }))
    cuda.device(last, function()
      local sum = comm.reduce_add { x, y, tide.full({ 5 }, 4, on(last)) }
      assert.are.equal(last, sum:get_device())
      D.eq({ 9, 9, 9, 9, 9 }, sum)
    end)
    D.eq({}, comm.reduce_add { tide.empty(0, on(0)), tide.empty(0, on(last)) })
    D.eq(5, comm.reduce_add({ tide.full({}, 2, on(0)), tide.full({}, 3, on(last)) }, 0))
  end)

  it("comes after what was queued and before what is queued later", function()
    if n < 2 then return pending "needs two devices" end
    for _ = 1, several and 20 or 0 do -- a single input is the result
      local list = {}
      for d = 1, n do
        list[d] = tide.zeros(1000, on(d - 1))
        for _ = 1, 10 do list[d]:add_(1) end
      end
      local sum = comm.reduce_add(list, last)
      for d = 1, n do list[d]:zero_() end
      D.eq(10 * n, sum[1000])
    end
  end)

  it("refuses what is wrong", function()
    local x = tide.ones(3, on(0))
    D.raises("ValueError", comm.reduce_add, {})
    D.raises("ArgumentError", comm.reduce_add, x)
    D.raises("ArgumentError", comm.reduce_add, { x, 1 })
    local e = D.raises("ValueError", comm.reduce_add, { x, tide.ones(4, on(0)) })
    assert.is_truthy(e.message:find("input 2 has another size, got [4], expected [3]", 1, true), e.message)
    D.raises("DtypeError", comm.reduce_add, { x, tide.ones(3, { device = "cuda:0", dtype = "int32" }) })
    e = D.raises("DeviceError", comm.reduce_add, { x, tide.ones(3) })
    assert.is_truthy(e.message:find("input 2", 1, true), e.message)
    D.raises("DeviceError", comm.reduce_add, { x, x }, "cpu")
    D.raises("ValueError", comm.reduce_add, { x, x }, -1)
    if several then D.raises("DeviceError", comm.reduce_add, { x, x }, 1) end
  end)
end)

describe("comm.reduce_add_coalesced", function()
  D.watch(before_each, after_each)

  it("is reduce_add of each", function()
    for _, size in ipairs { 10485760, 1, 64, 1000 } do
      local lists = {}
      for d = 1, n do
        local list = {}
        for k, dtype in ipairs(D.dtypes) do
          list[#list + 1] = (tide.arange(12, on(d - 1)) + d * k):to(tide[dtype])
          list[#list + 1] = (tide.arange(12, on(d - 1)) + d):to(tide[dtype]):view(3, 4):t()
        end
        list[#list + 1] = tide.empty(0, on(d - 1))
        for i = 1, 150 do list[#list + 1] = tide.full({ i % 5 + 1 }, i + d, on(d - 1)) end
        list[#list + 1] = tide.full({ 1500000 }, d, on(d - 1))
        lists[d] = list
      end
      for to = 0, n - 1 do
        local sums = comm.reduce_add_coalesced(lists, to, { buffer_size = size })
        assert.are.equal(#lists[1], #sums)
        for i, sum in ipairs(sums) do
          local each = {}
          for d = 1, n do each[d] = lists[d][i] end
          local want = comm.reduce_add(each, to)
          assert.are.equal(to, sum:get_device())
          assert.are.equal(D.dtype_name(want), D.dtype_name(sum))
          if sum:numel() < 1000 then
            D.eq(values(want), values(sum), 0, "tensor " .. i)
          else
            assert.is_true(tide.equal(want, sum))
          end
        end
      end
    end
  end)

  it("refuses what is wrong", function()
    local x, y = tide.ones(3, on(0)), tide.ones(4, on(0))
    D.raises("ValueError", comm.reduce_add_coalesced, {})
    D.raises("ValueError", comm.reduce_add_coalesced, { { x }, { x, x } })
    local e = D.raises("ValueError", comm.reduce_add_coalesced, { { x, x }, { x, y } })
    assert.is_truthy(e.message:find("input 2, tensor 2", 1, true), e.message)
    D.raises("DeviceError", comm.reduce_add_coalesced, { { x }, { tide.ones(3) } })
    if several then
      D.raises("DeviceError", comm.reduce_add_coalesced, { { x, tide.ones(3, on(1)) } })
      D.raises("DeviceError", comm.reduce_add_coalesced, { { x }, { x } }, 1)
    end
    assert.are.same({}, comm.reduce_add_coalesced { {}, {} })
  end)
end)

describe("comm.scatter", function()
  D.watch(before_each, after_each)

  it("splits along every dim as chunk does, in every dtype and layout", function()
    for _, dtype in ipairs(D.dtypes) do
      local x = tide.arange(60, on(0)):view(3, 4, 5):to(tide[dtype])
      for _, layout in ipairs(D.layouts(x)) do
        for _, dim in ipairs { 1, 2, 3, -1 } do
          local parts, want = comm.scatter(layout[2], devices, { dim = dim }), x:chunk(n, dim)
          assert.are.equal(#want, #parts)
          for i, part in ipairs(parts) do
            assert.are.equal(i - 1, part:get_device())
            D.eq(values(want[i]), values(part), 0, ("%s %s dim %d"):format(dtype, layout[1], dim))
          end
        end
      end
    end
  end)

  it("gives a view where the chunk lies already", function()
    local x = tide.zeros(4 * n, on(0))
    local parts = comm.scatter(x, devices)
    parts[1]:fill_(1)
    D.eq(4, x:sum())
    if several then
      parts[2]:fill_(1)
      D.eq(4, x:sum())
    end
  end)

  it("takes chunk sizes, and makes fewer chunks than devices where chunk would", function()
    local x, sizes = tide.arange(10, on(0)), { 10 }
    if n == 2 then sizes = { 7, 3 } elseif n == 3 then sizes = { 1, 7, 2 } end
    local parts, first = comm.scatter(x, devices, { chunk_sizes = sizes }), 1
    for i, part in ipairs(parts) do
      D.eq(x:narrow(1, first, sizes[i]):totable(), part)
      first = first + sizes[i]
    end
    if n >= 3 then assert.are.equal(2, #comm.scatter(tide.arange(4, on(0)):narrow(1, 1, 2), devices)) end
    if n >= 3 then assert.are.equal(2, #comm.scatter(tide.arange(4, on(0)), { 0, 1, 2 })) end
    local empty = comm.scatter(tide.empty(0, 3, on(0)), devices)
    assert.are.equal(n, #empty)
    assert.are.same({ 0, 3 }, empty[n]:size())
  end)

  it("takes sources on the cpu", function()
    for _, pinned in ipairs { false, true } do
      local x = tide.arange(4 * n, { pin_memory = pinned, dtype = "int32" }):view(n, 4)
      for dim = 1, 2 do
        local parts, want = comm.scatter(x, devices, { dim = dim }), x:chunk(n, dim)
        for i, part in ipairs(parts) do
          assert.are.equal(i - 1, part:get_device())
          D.eq(want[i]:totable(), part)
        end
      end
    end
  end)

  it("copies on the streams that are given", function()
    if n < 2 then return pending "needs two devices" end
    local x, streams = tide.arange(8 * n, on(0)), {}
    for d = 0, n - 1 do streams[d + 1] = cuda.Stream(d) end
    for d = 0, n - 1 do
      streams[d + 1]:wait_stream(cuda.current_stream(0))
      D.hold(streams[d + 1])
    end
    local parts = comm.scatter(x, devices, { streams = streams })
    for d = 1, n - 1 do
      cuda.current_stream(d):synchronize() -- which does not wait for the stream that is held
      assert.is_false(streams[d + 1]:query()) -- but the copy does
    end
    D.release()
    for d = 1, n - 1 do
      streams[d + 1]:synchronize()
      D.eq(x:narrow(1, 8 * d + 1, 8):totable(), parts[d + 1])
    end
    streams[1]:synchronize()
    if several then
      local host = comm.scatter(tide.arange(2 * n), devices, { streams = { false, streams[2] } })
      streams[2]:synchronize()
      cuda.synchronize_all()
      D.eq({ 2, 3 }, host[2])
      local e = D.raises("DeviceError", comm.scatter, x, devices, { streams = { streams[1], streams[1] } })
      assert.is_truthy(e.message:find("stream 2 is on another device, got cuda:0, expected cuda:1", 1, true), e.message)
    end
  end)

  it("writes to out", function()
    local x = tide.arange(12, on(0)):view(3, 4)
    local outs = { tide.zeros(3, 1, { device = "cuda:0", dtype = "int64" }),
      tide.zeros(3, 3, { device = "cuda:" .. last, dtype = "int64" }):t() }
    assert.is_true(rawequal(outs, comm.scatter(x, nil, { out = outs, dim = 2 })))
    D.eq({ { 0 }, { 4 }, { 8 } }, outs[1])
    D.eq({ { 1, 2, 3 }, { 5, 6, 7 }, { 9, 10, 11 } }, outs[2])
    local whole = { tide.zeros(3, 4, { device = "cuda:" .. last, dtype = "int64" }) }
    D.eq(x:totable(), comm.scatter(tide.arange(12):view(3, 4), nil, { out = whole })[1])
  end)

  it("checks everything before anything is written", function()
    local x, out = tide.ones(4, on(0)), tide.zeros(2, on(last))
    local two = { 0, last }
    D.raises("ArgumentError", comm.scatter, x)
    D.raises("ValueError", comm.scatter, x, {})
    D.raises("ArgumentError", comm.scatter, x, two, { out = { out, out } })
    D.raises("ArgumentError", comm.scatter, x, two, { sizes = { 2, 2 } })
    D.raises("ValueError", comm.scatter, x, two, { chunk_sizes = { 4 } })
    D.raises("ValueError", comm.scatter, x, two, { chunk_sizes = { 1, 2 } })
    D.raises("ValueError", comm.scatter, x, two, { chunk_sizes = { 3, 1, 1 } })
    D.raises("ValueError", comm.scatter, x, two, { chunk_sizes = { 3, 2 } })
    local e = D.raises("ValueError", comm.scatter, x, two, { chunk_sizes = { 4, 0 } })
    assert.is_truthy(e.message:find("chunk size 2 is not positive", 1, true), e.message)
    D.raises("ValueError", comm.scatter, x, two, { chunk_sizes = { math.maxinteger, math.maxinteger } })
    D.raises("IndexError", comm.scatter, x, two, { dim = 2 })
    D.raises("IndexError", comm.scatter, x, two, { dim = 0 })
    D.raises("ShapeError", comm.scatter, tide.ones({}, on(0)), two)
    D.raises("ValueError", comm.scatter, x, { 0, -1 })
    D.raises("ArgumentError", comm.scatter, x, two, { streams = { 1 } })
    e = D.raises("ShapeError", comm.scatter, x, nil, { out = { out, tide.zeros(2, 1, on(0)) } })
    assert.is_truthy(e.message:find("out 2", 1, true), e.message)
    D.raises("ShapeError", comm.scatter, x, nil, { out = { out, tide.zeros(3, on(0)) } })
    D.raises("DtypeError", comm.scatter, x, nil, { out = { out, tide.zeros(2, { device = "cuda:0", dtype = "int8" }) } })
    D.raises("ArgumentError", comm.scatter, x, nil, { out = { out, out }, chunk_sizes = { 2, 2 } })
    D.eq({ 0, 0 }, out)
  end)

  it("comes after what was queued and before what is queued later", function()
    if n < 2 then return pending "needs two devices" end
    for _ = 1, 20 do
      local x = tide.zeros(1000 * n, on(0))
      for _ = 1, 10 do x:add_(1) end
      local parts = comm.scatter(x, devices)
      x:zero_()
      for d = 2, n do D.eq(10, parts[d][1000]) end
    end
  end)
end)

describe("comm.gather", function()
  D.watch(before_each, after_each)

  it("is the inverse of scatter, in every dtype and layout, also to the cpu", function()
    for _, dtype in ipairs(D.dtypes) do
      local x = tide.arange(60, on(0)):view(3, 4, 5):to(tide[dtype])
      for _, layout in ipairs(D.layouts(x)) do
        for _, dim in ipairs { 1, 2, -1 } do
          local parts = comm.scatter(layout[2], devices, { dim = dim })
          for to = 0, n - 1 do
            local y = comm.gather(parts, { dim = dim, destination = to })
            assert.are.equal(to, y:get_device())
            D.eq(values(x), values(y), 0, ("%s %s dim %d"):format(dtype, layout[1], dim))
          end
          local y = comm.gather(parts, { dim = dim, destination = "cpu" })
          assert.is_false(y.is_cuda)
          D.eq(values(x), values(y), 0, ("%s %s dim %d to the cpu"):format(dtype, layout[1], dim))
        end
      end
    end
  end)

  it("joins layouts of other devices", function()
    local x = tide.arange(12, on(last)):view(3, 4)
    for _, layout in ipairs(D.layouts(x)) do
      D.eq(x:totable(), comm.gather({ layout[2] }, { destination = 0 }), 0, layout[1])
      local wide = comm.gather({ layout[2], layout[2] }, { dim = 2, destination = 0 })
      D.eq(tide.cat({ x, x }, 2):totable(), wide, 0, layout[1])
    end
  end)

  it("goes to the current device, writes to out, and takes the dtype of the first", function()
    local list = { tide.ones(2, on(0)), tide.full({ 3 }, 2, { device = "cuda:" .. last, dtype = "int32" }) }
    local y = comm.gather(list)
    assert.are.equal(0, y:get_device())
    assert.are.equal("float32", D.dtype_name(y))
    D.eq({ 1, 1, 2, 2, 2 }, y)
    cuda.device(last, function() assert.are.equal(last, comm.gather(list):get_device()) end)
    for _, layout in ipairs(D.layouts(tide.zeros(5, on(last)))) do
      assert.is_true(rawequal(layout[2], comm.gather(list, { out = layout[2] })))
      D.eq({ 1, 1, 2, 2, 2 }, layout[2], 0, layout[1])
      layout[3]()
    end
    local host = tide.zeros(5)
    D.eq({ 1, 1, 2, 2, 2 }, comm.gather(list, { out = host }))
    D.eq({}, comm.gather { tide.empty(0, on(0)), tide.empty(0, on(last)) })
  end)

  it("still knows -1 as the cpu", function()
    assert.is_false(comm.gather({ tide.ones(2, on(0)) }, { destination = -1 }).is_cuda)
  end)

  it("checks everything before anything is written", function()
    local x, out = tide.ones(2, 3, on(0)), tide.zeros(4, 3, on(last))
    D.raises("ValueError", comm.gather, {})
    D.raises("ArgumentError", comm.gather, x)
    D.raises("ArgumentError", comm.gather, { x }, { destnation = 0 })
    D.raises("ArgumentError", comm.gather, { x, x }, { out = out, destination = 0 })
    local e = D.raises("DeviceError", comm.gather, { x, tide.ones(2, 3) }, { out = out })
    assert.is_truthy(e.message:find("tensor 2 is not on an accelerator", 1, true), e.message)
    e = D.raises("ShapeError", comm.gather, { x, tide.ones(2, 4, on(0)) }, { out = out })
    assert.is_truthy(e.message:find("tensor 2", 1, true), e.message)
    D.raises("ShapeError", comm.gather, { x, tide.ones(2, on(0)) })
    D.raises("ShapeError", comm.gather, { tide.ones({}, on(0)) })
    D.raises("ShapeError", comm.gather, { x, x, x }, { out = out })
    D.raises("DtypeError", comm.gather, { x, x }, { out = tide.zeros(4, 3, { device = "cuda:0", dtype = "int32" }) })
    D.raises("IndexError", comm.gather, { x }, { dim = 3 })
    D.raises("DeviceError", comm.gather, { x }, { destination = D.devices })
    D.eq(0, out:abs():sum())
  end)

  it("comes after what was queued and before what is queued later", function()
    if n < 2 then return pending "needs two devices" end
    for _ = 1, 20 do
      local list = {}
      for d = 1, n do
        list[d] = tide.zeros(1000, on(d - 1))
        for _ = 1, 10 do list[d]:add_(1) end
      end
      local y = comm.gather(list, { destination = last })
      for d = 1, n do list[d]:zero_() end
      D.eq(10, y:min())
    end
  end)
end)

-- Each collective is captured from each device in turn: all streams that take part are in the capture, and the replays
-- read what the inputs have become.
describe("collectives in a graph", function()
  D.watch(before_each, after_each)
  if not several then return pending "needs two devices" end

  local function value(i) return i end
  local function sum(i) return n * i + n * (n - 1) / 2 end
  local ends = { 0, last }
  local ways = { -- the devices that take part, what is done, the values of the results in replay i
    broadcast = { devices, function(x) return comm.broadcast(x[1], devices) end, value },
    ["broadcast of the last"] = { ends, function(x) return comm.broadcast(x[n], { last, 0 }) end, function(i) return i + n - 1 end },
    scatter = { devices, function(x) return comm.scatter(x[1], devices) end, value },
    gather = { devices, function(x) return { comm.gather(x, 1, 0) } end, value },
    ["gather to the last"] = { ends, function(x) return { comm.gather({ x[1], x[1] }, 1, last) } end, value },
    reduce_add = { devices, function(x) return { comm.reduce_add(x, 0) } end, sum },
    ["reduce_add to the last"] = { devices, function(x) return { comm.reduce_add(x, last) } end, sum },
    broadcast_coalesced = { devices, function(x) return comm.broadcast_coalesced({ x[1], x[1] }, devices)[n] end, value },
  }

  for name, way in pairs(ways) do
    it(name .. " is replayed", function()
      for _, first in ipairs(way[1]) do
        local x, g, out = {}, cuda.CUDAGraph(), nil
        for d = 1, n do x[d] = tide.zeros(1000, on(d - 1)) end
        cuda.synchronize()
        cuda.device(first, function()
          cuda.graph(g, function()
            tide.zeros(1, on(first)):add_(1)
            out = way[2](x)
            for _, d in ipairs(way[1]) do
              if d ~= first then cuda.current_stream(first):wait_stream(cuda.current_stream(d)) end
            end
          end)
        end)
        for i = 1, 3 do
          for d = 1, n do
            local stream = cuda.current_stream(d - 1)
            D.hold(stream, 1000000)
            x[d]:fill_(i + d - 1)
            if d - 1 ~= first then cuda.current_stream(first):wait_stream(stream) end
          end
          cuda.device(first, function() g:replay() end)
          D.release()
          for _, d in ipairs(devices) do
            if d ~= first then cuda.current_stream(d):wait_stream(cuda.current_stream(first)) end
          end
          for k = 1, #out do D.eq(way[3](i), out[k][1], 0, ("%s, %d"):format(name, k)) end
        end
        g:reset()
        out = nil
        collectgarbage()
        cuda.synchronize()
      end
    end)
  end

  it("to the host is refused by its name", function()
    local x = {}
    for d = 1, n do x[d] = tide.zeros(10, on(d - 1)) end
    local e = D.raises("StateError", cuda.graph, cuda.CUDAGraph(), function()
      x[1]:add_(1)
      comm.gather(x, 1, "cpu")
    end)
    assert.matches("^comm.gather", e.message)
  end)
end)
