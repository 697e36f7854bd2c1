-- Making tensors, looking at them, converting them.

local tide = require "tide"
local D = require "spec.support.device"

local on = { device = D.dev }
local function is(dtype, x) assert.are.equal(dtype, D.dtype_name(x)) end
local function with(t) t.device = D.dev return t end

describe("factories", function()
  D.watch(before_each, after_each)

  it("tensor reads nested tables, numbers and booleans", function()
    D.eq({ { 1, 2 }, { 3, 4 } }, tide.tensor({ { 1, 2 }, { 3, 4 } }, on))
    is("int64", tide.tensor({ 1, 2 }, on))
    is("float32", tide.tensor({ 1., 2 }, on))
    is("float32", tide.tensor({ 1, 2.5 }, on))
    is("bool", tide.tensor({ true, false }, on))
    is("float16", tide.tensor({ 1 }, with { dtype = tide.float16 }))
    assert.are.same({}, tide.tensor(5, on):size())
    assert.are.equal(5, tide.tensor(5, on):item())
    assert.are.equal(true, tide.tensor(true, on):item())
    assert.are.same({ 0 }, tide.tensor({}, on):size())
    assert.are.same({ 2, 0 }, tide.tensor({ {}, {} }, on):size())
    assert.are.same({ 1, 1, 1 }, tide.tensor({ { { 7 } } }, on):size())
    D.eq({ 97, 98 }, tide.tensor("ab", with { dtype = tide.uint8 }))
  end)

  it("tensor keeps 64-bit integers", function()
    D.eq({ math.maxinteger, math.mininteger }, tide.tensor({ math.maxinteger, math.mininteger }, on))
  end)

  it("tensor refuses ragged and mixed tables", function()
    D.raises("ShapeError", tide.tensor, { { 1, 2 }, { 3 } })
    D.raises("ShapeError", tide.tensor, { { 1, 2 }, 3 })
    D.raises("ArgumentError", tide.tensor, { 1, "two" })
    D.raises("ArgumentError", tide.tensor, { 1, {} and print })
    D.raises("ArgumentError", tide.tensor)
  end)

  it("tensor copies a tensor, as_tensor does not", function()
    local x = tide.tensor({ 1., 2. }, on)
    assert.is_false(tide.tensor(x):data_ptr() == x:data_ptr())
    assert.is_true(tide.as_tensor(x) == x)
    is("float64", tide.as_tensor(x, { dtype = tide.float64 }))
    D.eq({ 1, 2 }, tide.as_tensor({ 1, 2 }, on))
  end)

  it("empty, zeros, ones, full", function()
    assert.are.same({ 2, 3 }, tide.empty(2, 3, on):size())
    assert.are.same({ 2, 3 }, tide.empty({ 2, 3 }, on):size())
    assert.are.same({}, tide.empty({}, on):size())
    D.eq({ { 0, 0 } }, tide.zeros(1, 2, on))
    D.eq({ 1, 1 }, tide.ones({ 2 }, with { dtype = tide.int8 }))
    D.eq({ { 7 }, { 7 } }, tide.full({ 2, 1 }, 7, on))
    is("int64", tide.full({ 2 }, 7, on))
    is("float32", tide.full({ 2 }, 7., on))
    is("bool", tide.full({ 2 }, true, on))
    D.raises("ValueError", tide.empty, -1)
    D.raises("ArgumentError", tide.empty, 2, "x")
    D.raises("ArgumentError", tide.empty, 2, { dtyp = tide.int8 })
    D.raises("ValueError", tide.empty, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
  end)

  it("the likes keep layout, dtype and device", function()
    local x = tide.zeros(2, 3, with { dtype = tide.int16 }):t()
    for _, f in ipairs { "empty_like", "zeros_like", "ones_like" } do
      local y = tide[f](x)
      assert.are.same({ 3, 2 }, y:size())
      assert.are.same({ 1, 3 }, y:stride())
      is("int16", y)
      assert.are.equal(x.device, y.device)
    end
    D.eq({ { 5, 5 }, { 5, 5 }, { 5, 5 } }, tide.full_like(x, 5))
    is("float64", tide.ones_like(x, { dtype = tide.float64 }))
    assert.are.same({ 2, 1 }, tide.zeros_like(x, { dtype = "float32" }):contiguous():stride())
    assert.is_true(tide.empty_like(tide.ones(1, on):expand(4)):is_contiguous())
  end)

  it("empty_strided", function()
    assert.are.same({ 1, 2 }, tide.empty_strided({ 2, 3 }, { 1, 2 }, on):stride())
    D.raises("ShapeError", tide.empty_strided, { 2, 3 }, { 1 })
  end)

  it("arange excludes its end, range includes it", function()
    D.eq({ 0, 1, 2 }, tide.arange(3, on))
    is("int64", tide.arange(3, on))
    D.eq({ 1, 3 }, tide.arange(1, 5, 2, on))
    D.eq({ 5, 4, 3 }, tide.arange(5, 2, -1, on))
    D.eq({ 0, 0.25, 0.5, 0.75 }, tide.arange(0, 1, 0.25, on))
    is("float32", tide.arange(0, 1, 0.25, on))
    assert.are.same({ 0 }, tide.arange(0, on):size())
    D.eq({ 1, 2, 3 }, tide.range(3, on))
    D.eq({ 2, 4 }, tide.range(2, 5, 2, on))
    D.eq({ 3, 2, 1 }, tide.range(3, 1, -1, on))
    D.eq({ 0, 0.5, 1 }, tide.range(0, 1, 0.5, on))
    D.raises("ValueError", tide.arange, 0, 5, 0)
    D.raises("ValueError", tide.arange, 5, 0)
  end)

  it("linspace and logspace", function()
    D.eq({ 0, 0.25, 0.5, 0.75, 1 }, tide.linspace(0, 1, 5, on), 1e-7)
    local x = tide.linspace(-1, 1, 1001, on)
    assert.are.equal(-1, x[1]:item())
    assert.are.equal(1, x[-1]:item())
    D.eq(0, (x + x:flip { 1 }):abs():max():item(), 1e-12)
    D.eq({ 3 }, tide.linspace(3, 9, 1, on))
    assert.are.same({ 0 }, tide.linspace(0, 1, 0, on):size())
    D.eq({ 1, 10, 100 }, tide.logspace(0, 2, 3, on), 1e-5)
    D.eq({ 1, 2, 4 }, tide.logspace(0, 2, 3, with { base = 2 }), 1e-5)
    D.raises("ValueError", tide.linspace, 0, 1, -1)
  end)

  it("eye", function()
    D.eq({ { 1, 0 }, { 0, 1 } }, tide.eye(2, on))
    D.eq({ { 1, 0, 0 }, { 0, 1, 0 } }, tide.eye(2, 3, with { dtype = tide.int32 }))
  end)

  it("new_ methods keep dtype and device", function()
    local x = tide.ones(2, with { dtype = tide.float64 })
    D.eq({ { 1, 2 } }, x:new_tensor { { 1, 2 } })
    for _, y in ipairs { x:new_tensor { 1 }, x:new_empty { 2 }, x:new_zeros { 2 }, x:new_ones { 2 }, x:new_full({ 2 }, 3) } do
      is("float64", y)
      assert.are.equal(x.device, y.device)
    end
    assert.are.same({ 2, 3 }, x:new_zeros(2, 3):size())
    is("int8", x:new_zeros({ 2 }, { dtype = "int8" }))
    local y = x:new_empty_strided({ 2, 3 }, { 1, 2 })
    assert.are.same({ { 2, 3 }, { 1, 2 } }, { y:size(), y:stride() })
    is("float64", y)
    assert.are.equal(x.device, y.device)
    -- the reference's cases (TEN-08, TEN-09): a number of another kind is cast to the tensor's dtype
    D.eq({ { 0.3, 0.3 }, { 0.3, 0.3 }, { 0.3, 0.3 } }, tide.empty(2, on):new_full({ 3, 2 }, 0.3), 1e-7)
    is("float32", tide.empty(2, on):new_full({ 3, 2 }, -5))
    is("int64", tide.empty(2, with { dtype = tide.int64 }):new_tensor { { 1., 2., 3. } })
  end)

  it("meshgrid, tril_indices, triu_indices, complex, polar", function()
    local a, b = tide.meshgrid { tide.arange(2, on), tide.arange(3, on) }
    D.eq({ { 0, 0, 0 }, { 1, 1, 1 } }, a)
    D.eq({ { 0, 1, 2 }, { 0, 1, 2 } }, b)
    D.eq({ { 1, 2, 2 }, { 1, 1, 2 } }, tide.tril_indices(2, 2, on))
    D.eq({ { 1, 1, 2 }, { 1, 2, 2 } }, tide.triu_indices(2, 2, on))
    D.eq({ { 1, 2 } }, tide.view_as_real(tide.complex(D.tensor { 1. }, D.tensor { 2. })))
    D.eq({ { 0, 2 } }, tide.view_as_real(tide.polar(D.tensor { 2. }, D.tensor { math.pi / 2 })), 1e-6)
  end)

  it("refuse options among sizes and data, where they would be lost", function()
    for _, f in ipairs { tide.zeros, tide.empty, tide.rand, tide.tensor, tide.as_tensor } do
      local e = D.raises("ArgumentError", f, { 2, 3, device = D.dev })
      assert.is_truthy(e.message:find("'device'", 1, true), e.message)
    end
    D.raises("ArgumentError", tide.zeros(6).view, tide.zeros(6), { 2, 3, dtype = "int8" })
    D.eq({ 1, 2 }, tide.tensor(table.pack(1, 2)))
    D.eq({ { 1, 2 } }, tide.tensor { { 1, 2 } })
    assert.are.same({ 2, 3 }, tide.zeros(table.pack(2, 3)):size())
  end)

  it("take a size, or nothing, and options behind", function()
    assert.are.equal(0, tide.zeros({}):dim()) -- an empty table is a size while there is none
    assert.are.same({ 2 }, tide.zeros(2, {}):size())
    assert.are.same({ 2, 3 }, tide.zeros({ 2, 3 }, {}):size())
    assert.are.same({ 2 }, tide.zeros({ 2 }, { device = D.dev }):size())
    for _, name in ipairs { "zeros", "ones", "empty", "rand", "randn", "arange" } do
      local e = D.raises("ArgumentError", tide[name], 2, { devise = "cpu" })
      assert.is_truthy(e.message:find("'devise'", 1, true) and e.message:find("device", 1, true), e.message)
      assert.are.equal(name, e.op)
    end
  end)
end)

describe("inspection", function()
  D.watch(before_each, after_each)

  it("tells shape, strides, sizes", function()
    local x = tide.zeros(2, 3, with { dtype = tide.int16 })
    assert.are.same({ 2, 3 }, x.shape)
    assert.are.equal(2, x.ndim)
    assert.are.equal(2, x:dim())
    assert.are.equal(3, x:size(2))
    assert.are.equal(3, x:size(-1))
    assert.are.same({ 3, 1 }, x:stride())
    assert.are.equal(1, x:stride(2))
    assert.are.equal(6, x:numel())
    assert.are.equal(2, x:element_size())
    assert.are.equal(12, x:nbytes())
    assert.are.equal(3, x[2]:storage_offset())
    assert.are.equal(x:data_ptr() + 6, x[2]:data_ptr())
    assert.are.equal(2, #x)
    assert.are.equal(D.cuda, x.is_cuda)
    assert.are.equal(D.cuda and 0 or -1, x:get_device())
    assert.are.equal(D.dev, tostring(x.device))
    D.raises("IndexError", x.size, x, 3)
    D.raises("IndexError", x.size, x, 0)
  end)

  it("gives a shape that cannot be changed", function()
    local x = tide.zeros(2, 3)
    assert.is_false(pcall(function() x.shape[1] = 5 end) and x.shape[1] == 5)
    assert.are.same({ 2, 3 }, x:size())
    local s = x:size()
    s[1] = 9
    assert.are.same({ 2, 3 }, x:size())
  end)

  it("gives the sizes one by one, and none beside them", function()
    local next_size, shape, first = pairs(tide.zeros(2, 3).shape)
    assert.are.same({ 1, 2 }, { next_size(shape, first) })
    assert.are.same({ 2, 3 }, { next_size(shape, 1) })
    for _, i in ipairs { 2, 7, -1, math.maxinteger, math.mininteger } do assert.is_nil(next_size(shape, i)) end
    for _, i in ipairs { "x", 0.5, {} } do D.raises("ArgumentError", next_size, shape, i) end
  end)

  it("item reads one element", function()
    for _, dtype in ipairs { "uint8", "int8", "int16", "int32", "int64" } do
      local v = tide.full({ 1, 1 }, 7, with { dtype = dtype }):item()
      assert.are.equal("integer", math.type(v))
      assert.are.equal(7, v)
    end
    for _, dtype in ipairs { "float16", "bfloat16", "float32", "float64" } do
      assert.are.equal("float", math.type(tide.full({}, 7, with { dtype = dtype }):item()))
    end
    assert.are.equal(true, tide.ones({}, with { dtype = "bool" }):item())
    D.raises("ShapeError", function() return tide.zeros(2, on):item() end)
    D.raises("ShapeError", function() return tide.zeros(0, on):item() end)
  end)

  it("totable and tolist give nested tables", function()
    local x = D.tensor { { 1, 2 }, { 3, 4 } }
    assert.are.same({ { 1, 2 }, { 3, 4 } }, x:totable())
    assert.are.same({ { 1, 3 }, { 2, 4 } }, x:t():tolist())
    assert.are.equal(5, D.tensor(5):totable())
    assert.are.same({}, tide.zeros(0, on):totable())
    assert.are.same({ true, false }, D.tensor({ true, false }):totable())
  end)

  it("iterates over rows", function()
    local seen = {}
    for i, row in D.tensor({ { 1, 2 }, { 3, 4 } }):iter() do seen[i] = row:totable() end
    assert.are.same({ { 1, 2 }, { 3, 4 } }, seen)
    D.raises("ShapeError", function() for _ in D.tensor(1):iter() do end end)
    D.raises("ShapeError", function() return #D.tensor(1) end)
  end)

  it("iterates over rows with ipairs and pairs", function()
    local x = D.tensor { { 1, 2 }, { 3, 4 } }
    for _, each in ipairs { ipairs, pairs } do
      local seen, n = {}, 0
      for i, row in each(x) do
        n = n + 1
        seen[i] = row:totable()
      end
      assert.are.equal(2, n)
      assert.are.same({ { 1, 2 }, { 3, 4 } }, seen)
      for _ in each(tide.zeros(0, 3, on)) do error "an empty tensor has no rows" end
    end
    local f, s, last = ipairs(x)
    last = f(s, last)
    last = f(s, last)
    assert.are.equal(2, last)
    assert.is_nil(f(s, last))
    D.raises("IndexError", function() for _ in ipairs(D.tensor(1)) do end end)
    D.raises("ShapeError", pairs, D.tensor(1))
    -- Others are told that they are past the end.
    D.raises("IndexError", function() return x[3] end)
    D.raises("IndexError", table.unpack, x, 1, 3)
    local ok, e = coroutine.resume(coroutine.create(function() return x[3] end))
    assert.is_true(not ok and e.kind == "IndexError")
    D.raises("IndexError", function() return x[-3] end)
    D.raises("IndexError", f, x, 3) -- beyond the one that ends it
  end)

  it("knows tensors and storages", function()
    local x = tide.zeros(2, on)
    assert.is_true(tide.is_tensor(x))
    assert.is_false(tide.is_tensor {})
    assert.is_false(tide.is_tensor(nil))
    assert.is_true(tide.is_storage(x:storage()))
    assert.is_false(tide.is_storage(x))
  end)

  it("reads unknown fields as nil or an error that names them", function()
    local ok, v = pcall(function() return tide.zeros(1).no_such_field end)
    assert.is_true(ok and v == nil or not ok and tostring(v):find("no_such_field", 1, true) ~= nil)
    assert.is_false(pcall(function() tide.zeros(1).shape = 5 end))
  end)
end)

describe("storage", function()
  D.watch(before_each, after_each)

  it("is shared by views", function()
    local x = tide.zeros(2, 3, on)
    local s = x:storage()
    assert.are.equal(24, s:nbytes())
    assert.are.equal(x:data_ptr(), s:data_ptr())
    assert.are.equal(x:t():storage():data_ptr(), s:data_ptr())
    assert.are.equal(D.dev, tostring(s.device))
    s:fill_(0)
    D.eq({ { 0, 0, 0 }, { 0, 0, 0 } }, x)
    assert.matches("bytes_of", D.raises("ArgumentError", function() return s.bytes_of end).message, 1, true)
    D.raises("ArgumentError", function() s.device = "cpu" end)
    assert.are.equal("tide.Storage", getmetatable(s)) -- its finaliser is not called by hand
  end)

  it("moves between devices", function()
    local s = tide.ones(2, on):storage()
    assert.are.equal("cpu", tostring(s:cpu().device))
    assert.is_false(s:is_pinned())
  end)
end)

describe("conversion", function()
  D.watch(before_each, after_each)

  it("to takes a dtype, a device, a tensor", function()
    local x = D.tensor { 1.5, -2.5 }
    assert.is_true(x:to(tide.float32) == x)
    assert.is_true(x:to(D.dev) == x)
    assert.is_false(x:to(D.dev, { copy = true }) == x)
    is("int32", x:to(tide.int32))
    is("int32", x:to "int32")
    is("int64", x:to(D.tensor { 1 }))
    is("float16", x:to("cpu", tide.float16))
    assert.are.equal("cpu", tostring(x:to("cpu", tide.float16).device))
    is("int8", x:type_as(D.tensor({ 1 }, "int8")))
    is("int8", x:type(tide.int8))
    D.raises("ArgumentError", x.to, x, "nowhere")
    D.raises("ArgumentError", x.to, x, "cpu", { nonblocking = true })
  end)

  it("to, cuda and cpu give the tensor itself where nothing changes", function()
    local x = D.tensor { 1.5, -2.5 }
    for what, y in pairs { dtype = x:to(tide.float32), device = x:to(D.dev), both = x:to(D.dev, tide.float32), other = x:to(x),
      non_blocking = x:to(D.dev, { non_blocking = true }), here = D.cuda and x:cuda() or x:cpu(), id = D.cuda and x:cuda(0) or x,
      type = x:type(tide.float32), type_as = x:type_as(x) } do
      assert.is_true(rawequal(x, y), what)
    end
    local copy = x:to(x, { copy = true })
    assert.is_true(copy ~= x and copy.device == x.device and copy.dtype == x.dtype)
    copy:zero_()
    D.eq({ 1.5, -2.5 }, x)
    D.eq({ 1, -2 }, x:to("cpu", "int32"))
    D.eq({ 1, -2 }, x:to(tide.ones(1, { dtype = "int64" })))
    for _, bad in ipairs { 1.5, true, "float31", "" } do D.raises("ArgumentError", x.to, x, bad) end
    D.raises("ArgumentError", x.to, x)
    D.raises("ArgumentError", x.to, x, "cpu", { copy = 1 })
  end)

  it("has a method for each dtype", function()
    local x = D.tensor { 1., 0. }
    local names = { float = "float32", double = "float64", half = "float16", bfloat16 = "bfloat16", int = "int32", long = "int64",
      short = "int16", char = "int8", byte = "uint8", bool = "bool", cfloat = "complex64", cdouble = "complex128" }
    for method, dtype in pairs(names) do is(dtype, x[method](x)) end
    assert.is_true(x:float() == x)
  end)

  it("clone, fill_, zero_", function()
    local x = D.tensor { { 1, 2 }, { 3, 4 } }
    local y = x:t():clone()
    D.eq({ { 1, 3 }, { 2, 4 } }, y)
    assert.are.same({ 1, 2 }, y:stride())
    assert.is_true(y:fill_(7) == y)
    D.eq({ { 7, 7 }, { 7, 7 } }, y)
    D.eq({ { 1, 2 }, { 3, 4 } }, x)
    y:zero_()
    D.eq({ { 0, 0 }, { 0, 0 } }, y)
    x:select(2, 1):fill_(-1)
    D.eq({ { -1, 2 }, { -1, 4 } }, x)
  end)

  it("tide.to walks a tree", function()
    local tree = { w = tide.ones(2), list = { tide.zeros(1), 5, "text" } }
    local moved = tide.to(tree, D.dev)
    assert.are.equal(D.dev, tostring(moved.w.device))
    assert.are.equal(D.dev, tostring(moved.list[1].device))
    assert.are.equal(5, moved.list[2])
    assert.are.equal("text", moved.list[3])
    assert.are.equal("cpu", tostring(tree.w.device))
    tree.self, tree.f = tree, print
    moved = tide.to(tree, D.dev, { non_blocking = true })
    assert.is_true(rawequal(moved.self, moved) and moved.f == print and moved ~= tree)
    assert.are.equal(D.dev, tostring(tide.to(tree.w, D.dev).device))
    D.raises("ArgumentError", tide.to, 5, D.dev)
    D.raises("ArgumentError", tide.to, tree)
    D.raises("ArgumentError", tide.to, tree, D.dev, { blocking = true })
  end)

  it("free and close release at once", function()
    local x = D.tensor { 1., 2. }
    local v = x:view(2)
    assert.is_false(x:free())
    D.eq({ 1, 2 }, v)
    assert.is_true(v:free())
    assert.is_falsy(v:free()) -- again is no error
    D.raises("StateError", v.sum, v)
    local kept
    do
      local y <close> = D.tensor { 1. }
      kept = y
    end
    D.raises("StateError", function() return kept + 1 end)
    assert.is_string(tostring(kept))
  end)
end)

if D.cuda then
  describe("pinned memory", function()
    D.watch(before_each, after_each)

    it("is page-locked host memory", function()
      local x = tide.tensor { 1., 2. }
      assert.is_false(x:is_pinned())
      local p = x:pin_memory()
      assert.is_true(p:is_pinned())
      assert.is_true(p:pin_memory() == p)
      D.eq({ 1, 2 }, p)
      assert.is_true(tide.empty(4, { pin_memory = true }):is_pinned())
      assert.is_true(x:storage():pin_memory():is_pinned())
      D.raises("DeviceError", function() D.tensor({ 1. }):pin_memory() end)
    end)
  end)
end
