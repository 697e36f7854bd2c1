-- Copies and casts between any two dtypes, layouts and devices.

local tide = require "tide"
local D = require "spec.support.device"

local function trunc(v) return v < 0 and math.ceil(v) or math.floor(v) end

-- What a value of one kind becomes in a dtype, for small values that every dtype holds.
local function cast(v, dtype)
  local kind = D.kind[dtype]
  if kind == "B" then
    if type(v) == "boolean" then return v end
    return v ~= 0
  end
  if type(v) == "boolean" then v = v and 1 or 0 end
  if kind == "F" or kind == "C" then return v + 0.0 end
  return math.tointeger(trunc(v))
end

local function values(x)
  if D.kind[D.dtype_name(x)] == "C" then
    local parts = tide.view_as_real(x)
    assert.are.equal(0, parts:select(-1, 2):abs():max():item())
    return parts:select(-1, 1):totable()
  end
  return x:totable()
end

describe("copy_", function()
  D.watch(before_each, after_each)

  for _, from in ipairs(D.dtypes) do
    it("casts " .. from .. " to every dtype", function()
      local kind = D.kind[from]
      local data = kind == "F" and { { 0, 1.5, 2.75 }, { 100.5, 3, 7.25 } } or { { 0, 1, 2 }, { 100, 3, 7 } }
      local x = D.tensor(data, kind == "C" and "float32" or from):to(tide[from])
      local held = values(x)
      for _, to in ipairs(D.dtypes) do
        local want = D.map(function(v) return cast(v, to) end, held)
        D.eq(want, values(x:to(tide[to])), 0, from .. " to " .. to)
        local y = tide.zeros(3, 2, { dtype = to, device = D.dev }):t()
        assert.is_true(y:copy_(x) == y)
        D.eq(want, values(y), 0, from .. " to transposed " .. to)
      end
    end)
  end

  it("keeps every layout's values, both ways", function()
    for _, dtype in ipairs { "uint8", "int16", "float32", "float64", "complex128" } do
      local x = tide.arange(24, { device = D.dev }):view(2, 3, 4):to(dtype)
      local want = values(x)
      for _, from in ipairs(D.layouts(x)) do
        D.eq(want, values(from[2]:clone()), 0, "clone of " .. from[1])
        D.eq(want, values(from[2]:contiguous()), 0, "contiguous of " .. from[1])
        for _, to in ipairs(D.layouts(tide.zeros_like(x))) do
          to[2]:copy_(from[2])
          D.eq(want, values(to[2]), 0, from[1] .. " to " .. to[1])
          to[3]()
        end
      end
    end
  end)

  it("broadcasts", function()
    local x = tide.zeros(2, 3, { device = D.dev })
    x:copy_(D.tensor { 1, 2, 3 })
    D.eq({ { 1, 2, 3 }, { 1, 2, 3 } }, x)
    x:copy_(D.tensor(7))
    D.eq({ { 7, 7, 7 }, { 7, 7, 7 } }, x)
    D.raises("ShapeError", x.copy_, x, D.tensor { 1, 2 })
    D.raises("ArgumentError", x.copy_, x, "text")
    D.raises("ArgumentError", x.copy_, x, D.tensor { 1, 2, 3 }, { nonblocking = true })
  end)

  it("turns floats into integers toward zero and back exactly", function()
    D.eq({ -1, 1, -2, 2 }, D.tensor({ -1.9, 1.9, -2.5, 2.5 }):int())
    D.eq({ 1, 255, 44 }, D.tensor({ 1, 255, 300 }):byte())
    D.eq({ 16777216 }, D.tensor({ 16777217 }):float())
    D.eq({ 2049, 65504 }, D.tensor({ 2049, 65504 }):float())
    D.eq({ 2048, 2052, 65504, math.huge }, D.tensor({ 2049., 2051., 65504., 70000. }):half():double())
    D.eq({ 5.960464477539063e-08, 0 }, D.tensor({ 5.96e-8, 1e-9 }, "float64"):half():double())
    D.eq({ 1.0078125, 3.38953139e38 }, D.tensor({ 1.005, 3.39e38 }):bfloat16():double(), 1e-8)
    local nan = D.tensor({ 0 / 0 }):half():double():bfloat16():float()[1]:item()
    assert.is_true(nan ~= nan)
  end)

  it("between overlapping views of one tensor gives what a copy through memory would", function()
    local x = tide.arange(6, { device = D.dev })
    local ok = pcall(function() x:narrow(1, 2, 5):copy_(x:narrow(1, 1, 5)) end)
    if ok then D.eq({ 0, 0, 1, 2, 3, 4 }, x) else D.eq({ 0, 1, 2, 3, 4, 5 }, x) end
  end)

  it("of nothing", function()
    local x = tide.empty(0, 3, { device = D.dev })
    x:copy_(tide.empty(0, 3))
    assert.are.same({ 0, 3 }, x:cpu():size())
  end)
end)

if not D.cuda then return end

describe("copies between devices", function()
  D.watch(before_each, after_each)

  it("go to the GPU and back in every dtype and layout", function()
    for _, dtype in ipairs(D.dtypes) do
      local x = tide.arange(12):view(3, 4):to(tide[dtype])
      for _, layout in ipairs(D.layouts(x)) do
        local there = layout[2]:cuda()
        assert.is_true(there.is_cuda)
        D.eq(values(x), values(there:cpu()), 0, dtype .. " " .. layout[1])
        D.eq(values(x), values(there:t():cpu():t()), 0, dtype .. " " .. layout[1])
      end
    end
  end)

  it("cast on the way", function()
    local x = tide.tensor { { 1.5, 2.5 }, { -3.5, 4 } }
    D.eq({ { 1, 2 }, { -3, 4 } }, x:to("cuda", tide.int32))
    local y = tide.zeros(2, 2, { dtype = "float64" })
    y:t():copy_(x:cuda())
    D.eq({ { 1.5, -3.5 }, { 2.5, 4 } }, y)
    local z = tide.zeros(2, 2, { dtype = "int8", device = D.dev })
    z:copy_(x)
    D.eq({ { 1, 2 }, { -3, 4 } }, z)
  end)

  it("return at once from pinned memory with non_blocking", function()
    if os.getenv "TIDE_CUDA_SANITIZER" == "1" then return pending "not under the stream sanitizer" end -- it tells the race
    local p = tide.arange(1000, { dtype = "float32" }):pin_memory()
    local back = tide.zeros(1000, { pin_memory = true })
    local stream = tide.cuda.current_stream()
    tide.cuda.synchronize()
    D.hold()
    local x = p:to("cuda", { non_blocking = true })
    assert.is_false(stream:query()) -- the host is here, and the copy has not begun
    p:fill_(5) -- so it reads these
    back:copy_(x, { non_blocking = true })
    assert.is_false(stream:query())
    D.release()
    tide.cuda.synchronize()
    D.eq(5, x[1000])
    D.eq(5, back[1000])
  end)

  it("wait when nothing says otherwise", function()
    local p = tide.arange(1000, { dtype = "float32" }):pin_memory()
    local x = p:cuda()
    p:zero_()
    D.eq(999, x[1000])
    local back = tide.zeros(1000, { pin_memory = true })
    back:copy_(x)
    D.eq(999, back[1000])
  end)

  it("keep pinned memory until the copy is done", function()
    for i = 1, 20 do
      local p = tide.full({ 1000 }, i, { dtype = "float32", pin_memory = true })
      local x = p:to("cuda", { non_blocking = true })
      p:free()
      tide.full({ 1000 }, -1, { dtype = "float32", pin_memory = true })
      D.eq(i, x[1000])
    end
  end)

  if D.devices >= 2 then
    it("go from GPU to GPU in every dtype and layout", function()
      for _, dtype in ipairs(D.dtypes) do
        local x = tide.arange(12, { device = "cuda:0" }):view(3, 4):to(tide[dtype])
        for _, layout in ipairs(D.layouts(x)) do
          local there = layout[2]:cuda(1)
          assert.are.equal("cuda:1", tostring(there.device))
          D.eq(values(x), values(there), 0, dtype .. " " .. layout[1])
          local wide = tide.zeros(4, 3, { dtype = "float64", device = "cuda:1" })
          if D.kind[dtype] ~= "C" and dtype ~= "bool" then
            wide:t():copy_(layout[2])
            D.eq(values(x), wide:t(), 0, dtype .. " to float64, " .. layout[1])
          end
        end
      end
    end)

    it("wait for both devices' streams", function()
      for _ = 1, 20 do
        local x = tide.zeros(1000, { device = "cuda:0" })
        for _ = 1, 10 do x:add_(1) end
        local y = x:cuda(1)
        x:zero_()
        y:add_(1)
        D.eq(11, y[1000])
        D.eq(0, x[1000])
      end
    end)
  end
end)
