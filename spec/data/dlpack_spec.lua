-- Tensors that are handed to other libraries and taken from them. The structs are looked at in spec/c/tensor/dlpack_test.c, and
-- PyTorch is the other side in spec/differential/dlpack.py.

local tide = require "tide"
local D = require "spec.support.device"

describe("a capsule", function()
  D.watch(before_each, after_each)

  it("carries a tensor of every dtype and layout without a copy", function()
    for _, dtype in ipairs(D.dtypes) do
      for _, layout in ipairs(D.layouts(D.tensor({ { 1, 0, 1 }, { 0, 0, 1 } }, dtype))) do
        local x = layout[2]
        local y = tide.from_dlpack(x:to_dlpack())
        assert.is_true(tide.equal(x, y), dtype .. " " .. layout[1])
        D.eq(x:stride(), y:stride())
        assert.are.equal(x:data_ptr(), y:data_ptr())
        assert.are.equal(tostring(x.device), tostring(y.device))
        assert.are.equal(dtype, D.dtype_name(y))
        y:fill_(1)
        assert.is_true(x:to("bool"):all():item())
      end
    end
    for _, size in ipairs { {}, { 0 }, { 2, 0, 3 } } do
      D.eq(size, tide.from_dlpack(tide.ones(size, { device = D.dev }):to_dlpack()):size())
    end
  end)

  it("is for one use", function()
    local x = D.tensor({ 1, 2 }, "float32")
    local capsule = x:to_dlpack()
    assert.are.equal("tide.DLPack", tostring(capsule))
    local y = tide.from_dlpack(capsule)
    assert.are.equal("tide.DLPack(taken)", tostring(capsule))
    D.raises("StateError", tide.from_dlpack, capsule)
    D.eq({ 1, 2 }, y)
  end)

  it("keeps the memory, whatever becomes of the tensor, and lets it go unused", function()
    local x = D.tensor({ 1, 2, 3 }, "float32")
    local capsule = x:to_dlpack()
    x:resize_(1000):fill_(7)
    x = nil
    collectgarbage()
    D.eq({ 1, 2, 3 }, tide.from_dlpack(capsule))
    capsule = nil
    do local closed <close> = D.tensor({ 1 }, "float32"):to_dlpack() end
    for _ = 1, 10 do tide.ones(1000, { device = D.dev }):to_dlpack() end -- the watch counts what is left
  end)

  it("orders the consumer's stream behind the current one", function()
    if not D.cuda then return pending "needs a device" end
    local s = tide.cuda.Stream()
    local x = tide.zeros(1000, { device = D.dev })
    D.hold()
    x:fill_(3)
    local capsule = x:to_dlpack { stream = s }
    local y, copy
    tide.cuda.stream(s, function()
      y = tide.from_dlpack(capsule)
      copy = y:clone()
    end)
    x, y, capsule = nil, nil, nil
    collectgarbage()
    local other = tide.zeros(1000, { device = D.dev }):fill_(9) -- not in the memory that s still reads
    D.release()
    tide.cuda.synchronize()
    assert.are.equal(3000, copy:sum():item())
    assert.are.equal(9000, other:sum():item())
  end)

  it("orders the current stream behind the producer's", function()
    if not D.cuda then return pending "needs a device" end
    local s = tide.cuda.Stream()
    local x = tide.zeros(1000, { device = D.dev })
    tide.cuda.synchronize()
    D.hold(s)
    tide.cuda.stream(s, function() x:fill_(3) end)
    local y = tide.from_dlpack(x:to_dlpack(), { stream = s })
    local copy = y:clone()
    D.release()
    assert.are.equal(3000, copy:sum():item())
  end)

  it("names what is wrong", function()
    D.raises("ArgumentError", tide.from_dlpack, tide.ones(1))
    D.raises("ArgumentError", tide.from_dlpack)
    D.raises("ArgumentError", tide.from_dlpack, io.stdout)
  end)

  it("gives the stream of a device to none of the host's tensors", function()
    if not D.cuda then return pending "needs a device" end
    local x = tide.ones(1)
    D.raises("DeviceError", x.to_dlpack, x, { stream = tide.cuda.Stream() })
  end)
end)
