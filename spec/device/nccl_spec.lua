-- tide.cuda.nccl: collectives over lists of tensors, one of each device. On simulated devices over a simulated NCCL, and,
-- where that is switched off, over copies between the devices: the results are the same.

local tide = require "tide"
local D = require "spec.support.device"
if not D.cuda then return end
local cuda, nccl = tide.cuda, tide.cuda.nccl

local n = math.min(D.devices, 3)
local last = n - 1
local function on(d) return { device = "cuda:" .. d } end
local function each(f)
  local out = {}
  for i = 1, n do out[i] = f(i - 1, i) end
  return out
end
local function values(x)
  if D.kind[D.dtype_name(x)] == "C" then x = tide.view_as_real(x) end
  return x:totable()
end

local fold = {
  sum = function(a, b) return a + b end,
  prod = function(a, b) return a * b end,
  max = function(a, b) return tide.maximum(a, b) end,
  min = function(a, b) return tide.minimum(a, b) end,
}
fold.avg = fold.sum

-- What the op gives, computed on the cpu.
local function joined(list, op)
  local out = list[1]:cpu()
  for i = 2, #list do out = fold[op](out, list[i]:cpu()) end
  if op ~= "avg" then return out end
  local kind = D.kind[D.dtype_name(out)]
  if kind == "F" or kind == "C" then return out / #list end
  return tide.div(out, #list, { rounding_mode = "trunc" }):to(out.dtype)
end

local function input(dtype, d, count)
  local x = (tide.arange(count or 12, on(d)) % 5 + d + 1):to(tide[dtype])
  if D.kind[dtype] == "C" then x = tide.complex(tide.arange(12, on(d)):double(), tide.full({ 12 }, d + 1.0, on(d)):double()):to(tide[dtype]) end
  if dtype == "bool" then x = (tide.arange(count or 12, on(d)) % (d + 2)):eq(0) end
  return x
end

local function works(dtype, op)
  local kind = D.kind[dtype]
  return not ((kind == "C" and (op == "max" or op == "min")) or (kind == "B" and op == "avg"))
end

describe("nccl", function()
  D.watch(before_each, after_each)

  it("tells its version, or why there is none", function()
    if nccl.is_available() then
      local major, minor, patch = nccl.version()
      assert.are.equal("integer integer integer", table.concat({ math.type(major), math.type(minor), math.type(patch) }, " "))
    else
      assert.is_truthy(D.raises("LibraryError", nccl.version).message:find("NCCL", 1, true))
    end
  end)

  it("tells which tensors could go over it", function()
    local list = each(function(d) return tide.ones(4, on(d)) end)
    assert.are.equal(nccl.is_available(), nccl.is_available(list))
    assert.is_false(nccl.is_available { tide.ones(4) })
    assert.is_false(nccl.is_available { list[1], list[1] })
    assert.is_false(nccl.is_available { tide.ones(4, 2, on(0)):t() })
  end)

  it("have no order of complex numbers, and no average of booleans", function()
    for _, case in ipairs { { "complex64", "max" }, { "complex64", "min" }, { "complex128", "max" }, { "bool", "avg" } } do
      local a = each(function(d) return tide.zeros(2 * n, { device = "cuda:" .. d, dtype = case[1] }) end)
      local outs = each(function(d) return tide.zeros(2, { device = "cuda:" .. d, dtype = case[1] }) end)
      D.raises("DtypeError", nccl.all_reduce, a, { op = case[2] })
      D.raises("DtypeError", nccl.reduce, a, { op = case[2] })
      D.raises("DtypeError", nccl.reduce_scatter, a, outs, { op = case[2] })
    end
  end)

  for _, op in ipairs { "sum", "prod", "max", "min", "avg" } do
    it("all_reduce, reduce and reduce_scatter in every dtype: " .. op, function()
      for _, dtype in ipairs(D.dtypes) do
        if works(dtype, op) then
          local function make(count) return each(function(d) return input(dtype, d, count) end) end
          local a = make()
          local want = values(joined(a, op))
          local outs = each(function(d) return tide.zeros_like(a[d + 1]) end)
          assert.is_true(rawequal(outs, nccl.all_reduce(a, outs, { op = op })))
          for i = 1, n do D.eq(want, values(outs[i]), 1e-6, dtype) end
          for i = 1, n do D.eq(values(input(dtype, i - 1)), values(a[i]), 0, dtype .. ": an input has changed") end
          assert.is_true(rawequal(a, nccl.all_reduce(a, { op = op })))
          for i = 1, n do D.eq(want, values(a[i]), 1e-6, dtype .. " in place") end

          local b = make()
          local out = tide.zeros_like(b[n])
          assert.is_true(rawequal(out, nccl.reduce(b, out, { op = op, root = n })))
          D.eq(want, values(out), 1e-6, dtype)
          assert.is_true(rawequal(b[n], nccl.reduce(b, { op = op, root = n })))
          D.eq(want, values(b[n]), 1e-6, dtype)
          for i = 1, n - 1 do D.eq(values(input(dtype, i - 1)), values(b[i]), 0, dtype .. ": an input has changed") end

          local c = make()
          local parts = each(function(d) return tide.zeros(12 // n, { device = "cuda:" .. d, dtype = dtype }) end)
          nccl.reduce_scatter(c, parts, { op = op })
          local whole = joined(c, op)
          for i = 1, n do
            D.eq(values(whole:narrow(1, 1 + (i - 1) * (12 // n), 12 // n)), values(parts[i]), 1e-6, dtype)
          end
        end
      end
    end)
  end

  it("knows torch's constants", function()
    assert.are.same({ 0, 1, 2, 3, 4 }, { nccl.SUM, nccl.PROD, nccl.MAX, nccl.MIN, nccl.AVG })
    local a = each(function(d) return tide.full({ 3 }, d + 2.0, on(d)) end)
    local want = joined(a, "prod")
    D.eq(want:totable(), nccl.all_reduce(a, { op = nccl.PROD })[1])
  end)

  it("broadcast and all_gather in every dtype", function()
    for _, dtype in ipairs(D.dtypes) do
      local list = each(function(d) return input(dtype, d) end)
      local want = values(list[n])
      assert.is_true(rawequal(list, nccl.broadcast(list, { root = n })))
      for i = 1, n do D.eq(want, values(list[i]), 0, dtype) end
      local inputs = each(function(d) return input(dtype, d) end)
      local outs = each(function(d) return tide.zeros(n, 12, { device = "cuda:" .. d, dtype = dtype }) end)
      assert.is_true(rawequal(outs, nccl.all_gather(inputs, outs)))
      for i = 1, n do
        for j = 1, n do D.eq(values(inputs[j]), values(outs[i][j]), 0, dtype) end
      end
      local places = each(function(d, i)
        outs[i]:zero_()
        local place = outs[i][i]
        place:copy_(input(dtype, d))
        return place
      end)
      nccl.all_gather(places, outs) -- in place
      for i = 1, n do
        for j = 1, n do D.eq(values(inputs[j]), values(outs[i][j]), 0, dtype .. " in place") end
      end
    end
  end)

  it("takes any shapes of as many elements, and nothing at all", function()
    local a = each(function(d) return tide.ones(2, 3, on(d)) end)
    a[n] = tide.ones(6, on(last))
    nccl.all_reduce(a)
    D.eq({ { n, n, n }, { n, n, n } }, n > 1 and a[1] or a[1]:view(2, 3))
    nccl.all_reduce(each(function(d) return tide.empty(0, on(d)) end))
    D.eq(n, nccl.all_reduce(each(function(d) return tide.full({}, 1.0, on(d)) end))[n])
  end)

  it("runs on the streams that are given, and on the current ones else", function()
    for _ = 1, 10 do
      local a = each(function(d) return tide.zeros(1000, on(d)) end)
      for i = 1, n do for _ = 1, 10 do a[i]:add_(1) end end
      nccl.all_reduce(a)
      for i = 1, n do
        a[i]:add_(1)
        D.eq(10 * n + 1, a[i][1000])
      end
      local streams = each(function(d) return cuda.Stream(d) end)
      for i = 1, n do
        streams[i]:wait_stream(cuda.current_stream(i - 1))
        cuda.stream(streams[i], function() a[i]:fill_(i) end)
      end
      nccl.all_reduce(a, { streams = streams })
      for i = 1, n do
        cuda.stream(streams[i], function() a[i]:mul_(2) end)
        streams[i]:synchronize()
        D.eq(n * (n + 1), a[i][1000])
      end
      nccl.broadcast(a, { streams = { false } })
      cuda.synchronize_all()
    end
  end)

  it("is captured into a graph", function()
    local a, s, g = each(function(d) return tide.ones(8, on(d)) end), cuda.Stream(0), cuda.CUDAGraph()
    nccl.all_reduce(each(function(d) return tide.ones(8, on(d)) end))
    cuda.synchronize_all()
    cuda.stream(s, function()
      cuda.graph(g, { stream = s }, function()
        a[1]:add_(1)
        nccl.all_reduce(a)
      end)
    end)
    for i = 1, n do D.eq(1, a[i][1]) end
    g:replay()
    cuda.synchronize_all()
    for i = 1, n do D.eq(n + 1, a[i][8]) end
    g:reset()
  end)

  it("checks everything before anything is written", function()
    local a = each(function(d) return tide.ones(6, on(d)) end)
    local x = a[1]
    D.raises("ArgumentError", nccl.all_reduce, x)
    D.raises("ValueError", nccl.all_reduce, {})
    D.raises("ArgumentError", nccl.all_reduce, a, { op = "mean" })
    D.raises("ArgumentError", nccl.all_reduce, a, { op = 5 })
    D.raises("ArgumentError", nccl.all_reduce, a, { root = 1 })
    D.raises("DeviceError", nccl.all_reduce, { tide.ones(6) })
    local e = D.raises("DeviceError", nccl.all_reduce, { x, tide.ones(6, on(0)) })
    assert.is_truthy(e.message:find("input 2", 1, true), e.message)
    D.raises("ValueError", nccl.all_reduce, { tide.ones(3, 2, on(0)):t() })
    D.raises("ValueError", nccl.all_reduce, a, { x, x, x, x })
    D.raises("ValueError", nccl.all_reduce, a, { streams = { false, false, false, false } })
    D.raises("ArgumentError", nccl.all_reduce, a, { streams = cuda.Stream(0) })
    D.raises("ValueError", nccl.broadcast, {})
    D.raises("ValueError", nccl.reduce, {}, { root = 1 })
    D.raises("IndexError", nccl.broadcast, a, { root = 0 })
    D.raises("IndexError", nccl.reduce, a, { root = n + 1 })
    D.raises("ShapeError", nccl.reduce, a, tide.ones(7, on(0)))
    D.raises("DtypeError", nccl.reduce, a, tide.ones(6, { device = "cuda:0", dtype = "int32" }))
    D.raises("ShapeError", nccl.all_gather, a, a == nil or each(function(d) return tide.ones(6 * n + 1, on(d)) end))
    D.raises("ShapeError", nccl.reduce_scatter, a, each(function(d) return tide.ones(7, on(d)) end))
    D.raises("DtypeError", nccl.all_reduce, each(function(d) return tide.ones(6, on(d)):bool() end), { op = "avg" })
    D.raises("DtypeError", nccl.all_reduce, each(function(d) return tide.ones(6, { device = "cuda:" .. d, dtype = "complex64" }) end), { op = "max" })
    if n >= 2 then
      e = D.raises("DeviceError", nccl.all_reduce, a, { streams = { false, cuda.Stream(0) } })
      assert.is_truthy(e.message:find("stream 2", 1, true), e.message)
      e = D.raises("ShapeError", nccl.all_reduce, { x, tide.ones(5, on(1)) })
      assert.is_truthy(e.message:find("input 2", 1, true), e.message)
      D.raises("DtypeError", nccl.all_reduce, { x, tide.ones(6, { device = "cuda:1", dtype = "int32" }) })
      D.raises("DeviceError", nccl.reduce, a, tide.ones(6, on(1)))
      D.raises("ShapeError", nccl.reduce_scatter, each(function(d) return tide.ones(7, on(d)) end), a)
    end
    for i = 1, n do D.eq(6, a[i]:sum()) end
  end)
end)

describe("nccl that is not there", function()
  it("is replaced by copies between the devices", function()
    if not D.simulated or os.getenv "TIDE_SIM_FAULT" then return pending "needs simulated devices" end
    local out, err, code = D.run({ "scripts/checks/busted.lua", "spec/device/nccl_spec.lua" },
      { env = { TIDE_DEVICE = "cuda", TIDE_SIM_DEVICES = tostring(D.devices), TIDE_SIM_FAULT = "nccl:off" } })
    assert.are.equal(0, code, out .. err)
    D.simulate(2, [[
      local tide = require "tide"
      local nccl = tide.cuda.nccl
      assert(not nccl.is_available())
      local ok, e = pcall(nccl.version)
      assert(not ok and e.kind == "LibraryError", tostring(e))]], { TIDE_SIM_FAULT = "nccl:off" })
  end)
end)

describe("a rank that does not come", function()
  it("is named for the first operation of a row, and for one after other work", function()
    if not D.simulated then return pending "needs simulated devices" end
    D.in_time(0.2, function(limit)
      local out = D.simulate(2, ([[
        local tide = require "tide"
        local cuda, nccl = tide.cuda, tide.cuda.nccl
        cuda.comm.set_timeout(%g)
        local list = {}
        for d = 0, 1 do list[d + 1] = tide.ones(1000, { device = "cuda:" .. d }) end
        local D = require "spec.support.device"
        local function late()
          cuda.device(1, D.hold)
          for _ = 1, 3 do nccl.all_reduce(list) end
          print(select(2, pcall(cuda.synchronize, 0)).message:match "^(.-) of ")
          D.release()
          for d = 0, 1 do
            while not pcall(cuda.synchronize, d) do end
          end
        end
        late()
        for _ = 1, 3 do nccl.all_reduce(list) end
        for d = 0, 1 do cuda.synchronize(d) end
        late()]]):format(limit), { TIDE_DEVICE = "cuda" })
      assert.are.equal("nccl.all_reduce: rank 2 (cuda:1) has not come to operation 1\n" ..
        "nccl.all_reduce: rank 2 (cuda:1) has not come to operation 7\n", out)
    end)
  end)

  for _, over in ipairs { "", ",nccl:off" } do
    it("is named, with the operation: dead:1" .. over, function()
      if not D.simulated then return pending "needs simulated devices" end
      D.in_time(0.3, function(limit)
        local out = D.simulate(3, ([[
          local tide = require "tide"
          local cuda, nccl = tide.cuda, tide.cuda.nccl
          cuda.comm.set_timeout(%g)
          local list = {}
          for d = 0, 2 do list[d + 1] = tide.ones(1000, { device = "cuda:" .. d }) end
          nccl.all_reduce(list)
          local ok, e = pcall(cuda.synchronize, 0)
          print(e.kind, e.name, e.device, e.message:match "^(.-) of ")
          if nccl.is_available() then
            cuda.synchronize(0) -- the communicator was aborted: the others go on
            cuda.synchronize(2)
          end]]):format(limit), { TIDE_SIM_FAULT = "dead:1" .. over })
        assert.are.equal("AcceleratorError\tcommTimeout\tcuda:1\tnccl.all_reduce: rank 2 (cuda:1) has not come to operation 1\n", out)
      end)
    end)
  end
end)
