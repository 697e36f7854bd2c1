-- Views and shape. Views share the storage; what copies is said to.

local tide = require "tide"
local D = require "spec.support.device"

local function count(...) -- {1, 2, 3, ...} in the shape
  local n = 1
  for _, s in ipairs { ... } do n = n * s end
  return tide.range(n, { device = D.dev, dtype = "int64" }):view(...)
end
local function shape(...) return { ... } end

describe("views", function()
  local x
  D.watch(before_each, after_each, function() x = nil end)
  before_each(function() x = count(2, 3) end)

  -- A write through the view is seen in x, and nothing was allocated.
  local function shares(view)
    local before = x:sum():item()
    view:add_(1)
    assert.are.equal(before + view:numel(), x:sum():item())
    view:sub_(1)
    return view
  end

  it("view", function()
    D.eq({ { 1, 2 }, { 3, 4 }, { 5, 6 } }, shares(x:view(3, 2)))
    D.eq({ 1, 2, 3, 4, 5, 6 }, x:view { -1 })
    D.eq({ { 1, 2, 3, 4, 5, 6 } }, x:view({ 1, -1 }))
    D.eq({ { 1, 2, 3 }, { 4, 5, 6 } }, x:view(6):view_as(x))
    D.raises("ShapeError", x.view, x, 4, 2)
    D.raises("ShapeError", x.view, x, -1, -1)
    D.raises("ShapeError", x.view, x, -1, 4)
    D.raises("ShapeError", function() x:t():view(6) end)
    assert.are.same(shape(0, 5), tide.empty(0, { device = D.dev }):view(0, 5):size())
  end)

  it("gives other shapes of what is not contiguous, with dims of size 1 at any place and of any stride", function()
    local x = count(2, 3, 2):select(3, 1) -- strides 6 and 2: one run
    for _, odd in ipairs { 0, 1, 2, 5, 100 } do
      for _, dims in ipairs { { 2, 3 }, { 1, 2, 3 }, { 2, 1, 3 }, { 2, 3, 1 }, { 1, 2, 1, 3 }, { 2, 1, 1, 3 }, { 1, 2, 1, 3, 1 } } do
        local strides = {}
        for d, n in ipairs(dims) do strides[d] = n == 2 and 6 or n == 3 and 2 or odd end
        local y = x:as_strided(dims, strides)
        for _, size in ipairs { { 6 }, { 3, 2 }, { 1, 6, 1 }, { 2, 3 }, { 3, 1, 2 } } do
          local v = y:view(size)
          assert.are.equal(x:data_ptr(), v:data_ptr())
          D.eq({ 1, 3, 5, 7, 9, 11 }, v:flatten(), 0, D.show(dims) .. " by " .. odd)
        end
      end
    end
    local apart = count(2, 3, 4):narrow(3, 1, 2) -- no run
    for _, y in ipairs { apart, apart:unsqueeze(2), apart:unsqueeze(3), apart:unsqueeze(4) } do
      D.raises("ShapeError", y.view, y, 12)
      D.eq({ { 1, 2 }, { 5, 6 }, { 9, 10 }, { 13, 14 }, { 17, 18 }, { 21, 22 } }, y:view(6, 2))
    end
  end)

  it("reshape copies only when it must", function()
    D.eq({ { 1, 2 }, { 3, 4 }, { 5, 6 } }, shares(x:reshape(3, 2)))
    D.eq({ 1, 4, 2, 5, 3, 6 }, x:t():reshape(6))
    D.eq({ { 1, 4 }, { 2, 5 }, { 3, 6 } }, x:t():reshape_as(x:t()))
    assert.is_true(x:reshape(2, 3):data_ptr() == x:data_ptr())
    assert.is_false(x:t():reshape(6):data_ptr() == x:data_ptr())
    D.raises("ShapeError", x.reshape, x, 7)
  end)

  it("flatten and unflatten", function()
    local y = count(2, 3, 2)
    assert.are.same(shape(12), y:flatten():size())
    assert.are.same(shape(2, 6), y:flatten(2):size())
    assert.are.same(shape(6, 2), y:flatten(1, 2):size())
    D.eq({ 1, 4, 2, 5, 3, 6 }, x:t():flatten())
    assert.are.same(shape(1), tide.tensor(5, { device = D.dev }):flatten():size())
    assert.are.same(shape(2, 3, 1, 2), y:unflatten(2, { 3, 1 }):size())
    assert.are.same(shape(2, 3, 2), count(12):unflatten(1, { 2, -1, 2 }):size())
    D.raises("ShapeError", y.unflatten, y, 2, { 2, 2 })
  end)

  it("squeeze and unsqueeze", function()
    local y = count(1, 3, 1)
    assert.are.same(shape(3), y:squeeze():size())
    assert.are.same(shape(3, 1), y:squeeze(1):size())
    assert.are.same(shape(1, 3, 1), y:squeeze(2):size())
    assert.are.same(shape(1, 3), y:squeeze(-1):size())
    assert.are.same(shape(1, 2, 3), x:unsqueeze(1):size())
    assert.are.same(shape(2, 3, 1), x:unsqueeze(-1):size())
    assert.are.same(shape(2, 1, 3), shares(x:unsqueeze(2)):size())
    D.raises("IndexError", x.unsqueeze, x, 5)
    -- A new dimension strides over all behind it, in any layout: what is dense stays so, for libraries that look at strides.
    for _, case in ipairs { { count(2, 3, 4), 12, 4, 1 }, { count(4, 3, 2):transpose(1, 3), 1, 2, 6 }, { count(3):expand(2, 4, 3), 0, 0, 1 } } do
      local z, strides = case[1], { table.unpack(case, 2) }
      for d = 1, 4 do
        local want = table.move(strides, 1, 3, 1, {})
        table.insert(want, d, d < 4 and strides[d] * z:size(d) or 1)
        assert.are.same(want, z:unsqueeze(d):stride())
        assert.are.same(strides, z:unsqueeze(d):squeeze(d):stride())
      end
    end
  end)

  it("transpose, t, swapaxes, T", function()
    local want = { { 1, 4 }, { 2, 5 }, { 3, 6 } }
    D.eq(want, shares(x:t()))
    D.eq(want, x:transpose(1, 2))
    D.eq(want, x:swapaxes(-1, 1))
    D.eq(want, x.T)
    assert.are.same(shape(1, 3), x:t():stride())
    D.raises("IndexError", x.transpose, x, 1, 3)
    D.raises("IndexError", x.transpose, x, 0, 1)
    D.raises("ShapeError", function() count(2, 2, 2):t() end)
  end)

  it("permute and movedim", function()
    local y = count(2, 3, 4)
    assert.are.same(shape(4, 2, 3), y:permute(3, 1, 2):size())
    assert.are.same(shape(4, 2, 3), y:permute({ -1, 1, 2 }):size())
    assert.are.equal(y[{ 2, 3, 4 }]:item(), y:permute(3, 1, 2)[{ 4, 2, 3 }]:item())
    assert.are.same(shape(3, 4, 2), y:movedim(1, -1):size())
    assert.are.same(shape(4, 3, 2), y:movedim({ 1, 3 }, { 3, 1 }):size())
    D.raises("ArgumentError", y.permute, y, 1, 2)
    D.raises("ArgumentError", y.permute, y, 1, 1, 2)
    for _, twice in ipairs { { { 1, 1 }, { 1, 2 } }, { { 1, 2 }, { 3, 3 } }, { { 1, -3 }, { 1, 2 } }, { { 1, 2 }, { -1, 3 } } } do
      D.raises("ArgumentError", y.movedim, y, twice[1], twice[2])
    end
  end)

  it("expand, expand_as, broadcast_to", function()
    local row = D.tensor { { 1, 2, 3 } }
    D.eq({ { 1, 2, 3 }, { 1, 2, 3 } }, row:expand(2, 3))
    D.eq({ { 1, 2, 3 }, { 1, 2, 3 } }, row:expand(2, -1))
    D.eq({ { 1, 2, 3 }, { 1, 2, 3 } }, row:expand_as(x))
    assert.are.same(shape(4, 2, 3), x:broadcast_to({ 4, 2, 3 }):size())
    assert.are.same(shape(0, 1), row:expand(2, 3):stride())
    D.raises("ShapeError", x.expand, x, 4, 3)
    D.raises("ShapeError", x.expand, x, 3)
  end)

  it("select, narrow, slice", function()
    D.eq({ 4, 5, 6 }, shares(x:select(1, 2)))
    D.eq({ 3, 6 }, x:select(2, -1))
    D.eq({ { 2, 3 }, { 5, 6 } }, shares(x:narrow(2, 2, 2)))
    assert.are.same(shape(2, 0), x:narrow(2, 2, 0):size())
    D.eq({ { 1, 3 }, { 4, 6 } }, shares(x:slice(2, 1, 3, 2)))
    D.eq({ { 2, 3 }, { 5, 6 } }, x:slice(2, -2, -1))
    D.eq({ { 2, 3 }, { 5, 6 } }, x:slice(2, 2))
    D.raises("IndexError", x.select, x, 1, 3)
    D.raises("IndexError", x.select, x, 1, 0)
    D.raises("IndexError", x.narrow, x, 2, 3, 2)
    D.raises("IndexError", x.slice, x, 2, 1, 4)
    D.raises("ValueError", x.slice, x, 2, 1, 3, 0)
  end)

  it("split, chunk, unbind", function()
    local parts = count(5):split(2)
    assert.are.equal(3, #parts)
    D.eq({ 5 }, parts[3])
    parts = count(5):split { 1, 4 }
    D.eq({ 2, 3, 4, 5 }, parts[2])
    D.raises("ShapeError", function() count(5):split { 1, 3 } end)
    parts = x:chunk(2, 2)
    D.eq({ { 1, 2 }, { 4, 5 } }, parts[1])
    D.eq({ { 3 }, { 6 } }, parts[2])
    assert.are.equal(3, #x:chunk(7, 2))
    parts = x:unbind()
    D.eq({ 4, 5, 6 }, shares(parts[2]))
    D.eq({ 3, 6 }, x:unbind(2)[3])
    D.raises("ValueError", x.split, x, 0)
    D.raises("ValueError", x.chunk, x, 0)
  end)

  it("diagonal", function()
    D.eq({ 1, 5 }, shares(x:diagonal()))
    D.eq({ 2, 6 }, x:diagonal(1))
    D.eq({ 4 }, x:diagonal(-1))
    assert.are.same(shape(0), x:diagonal(5):size())
    assert.are.same(shape(4, 2), count(2, 4, 3):diagonal(0, 1, 3):size())
    D.raises("ArgumentError", x.diagonal, x, 0, 1, 1)
  end)

  it("unfold", function()
    D.eq({ { 1, 2, 3 }, { 3, 4, 5 } }, count(5):unfold(1, 3, 2))
    D.eq({ { { 1, 2 }, { 2, 3 } }, { { 4, 5 }, { 5, 6 } } }, x:unfold(2, 2, 1))
    D.raises("ValueError", x.unfold, x, 2, 4, 1)
    D.raises("ValueError", x.unfold, x, 2, 2, 0)
  end)

  it("as_strided", function()
    D.eq({ { 1, 3 }, { 2, 4 } }, shares(x:as_strided({ 2, 2 }, { 1, 2 })))
    D.eq({ 4, 5 }, x:as_strided({ 2 }, { 1 }, 3))
    D.raises("IndexError", x.as_strided, x, { 7 }, { 1 })
    D.raises("ValueError", x.as_strided, x, { 2 }, { -1 })
    D.raises("ShapeError", x.as_strided, x, { 2, 2 }, { 1 })
  end)

  it("view_dtype, real, imag, view_as_real, view_as_complex", function()
    local f = D.tensor({ 1., -2. }, "float32")
    D.eq({ 0x3f800000, -0x40000000 }, f:view_dtype(tide.int32))
    assert.are.same(shape(8), f:view_dtype("uint8"):size())
    D.eq({ 1, -2 }, f:view_dtype("uint8"):view_dtype("float32"))
    local z = tide.view_as_complex(D.tensor { { 1., 2. }, { 3., 4. } })
    assert.are.equal("complex64", D.dtype_name(z))
    D.eq({ 1, 3 }, z:real())
    D.eq({ 2, 4 }, z:imag())
    z:imag():fill_(9)
    D.eq({ { 1, 9 }, { 3, 9 } }, tide.view_as_real(z))
    D.raises("ShapeError", tide.view_as_complex, D.tensor { 1., 2., 3. })
    D.raises("DtypeError", tide.view_as_complex, D.tensor { 1, 2 })
    D.raises("DtypeError", tide.view_as_real, f)
    D.raises("ShapeError", function() D.tensor({ 1, 2, 3 }, "uint8"):view_dtype("int32") end)
  end)

  it("view_dtype and view_as_complex take any stride of a dim of size 1", function()
    local f = tide.arange(0, 12, { dtype = "float32", device = D.dev })
    local function layout(v) return { v:size(), v:stride(), v:storage_offset() } end
    local function is(size, stride, offset, v) assert.are.same({ size, stride, offset }, layout(v)) end
    local one = f:as_strided({ 2, 1 }, { 3, 2 }, 1)
    is({ 2, 2 }, { 6, 1 }, 2, one:view_dtype "int16")
    D.eq({ 1, 4 }, one:view_dtype("int16"):contiguous():view_dtype("float32"):flatten())
    is({ 1, 2 }, { 1, 1 }, 1, f:as_strided({ 1, 4 }, { 3, 1 }, 2):view_dtype "float64")
    is({ 2, 1 }, { 2, 1 }, 2, f:as_strided({ 2, 2 }, { 4, 1 }, 4):view_dtype "int64")
    is({ 1, 2 }, { 5, 1 }, 3, f:as_strided({ 1, 2 }, { 5, 1 }, 3):view_dtype "int32")
    local z = f:as_strided({ 1, 3, 2 }, { 5, 2, 1 }, 2):view_as_complex()
    is({ 1, 3 }, { 2, 1 }, 1, z)
    D.eq({ { 2, 4, 6 } }, z:real())
    D.eq({ { 3, 5, 7 } }, z:imag())
    for _, odd in ipairs { { { 1, 4 }, { 3, 1 }, 1 }, { { 2, 2 }, { 3, 1 }, 0 }, { { 2, 3 }, { 4, 1 }, 0 }, { { 1, 2 }, { 4, 2 }, 0 } } do
      D.raises("ShapeError", function() return f:as_strided(table.unpack(odd)):view_dtype "float64" end)
      D.raises("ShapeError", function() return f:as_strided(table.unpack(odd)):view_as_complex() end)
    end
  end)

  it("view_dtype of columns of a vertex of 30 bytes", function()
    local place, half = D.tensor({ { 1, 2, 3 }, { 4, 5, 6 } }, "float32"), D.tensor({ { 7 }, { 8 } }, "float16")
    local bytes = tide.zeros({ 2, 30 }, { dtype = "uint8", device = D.dev })
    bytes[{ {}, { 3, 14 } }], bytes[{ {}, { 29, 30 } }] = place:view_dtype "uint8", half:view_dtype "uint8"
    local ok, problem = pcall(function() return bytes[{ {}, { 3, 14 } }]:view_dtype "float32" end)
    assert.is_false(ok)
    assert.is_truthy(tostring(problem):find("got [2, 12] with strides [30, 1] and offset 2, expected multiples of 4", 1, true), tostring(problem))
    assert.is_truthy(tostring(problem):find("as a contiguous copy", 1, true))
    D.eq(place, bytes[{ {}, { 3, 14 } }]:contiguous():view_dtype "float32")
    D.eq(half, bytes[{ {}, { 29, 30 } }]:contiguous():view_dtype "float16")
    D.eq(half, bytes[{ {}, { 29, 30 } }]:view_dtype "float16") -- whose strides are multiples
  end)

  it("repeat_tensor, tile, repeat_interleave", function()
    D.eq({ { 1, 2, 3, 1, 2, 3 }, { 4, 5, 6, 4, 5, 6 } }, x:repeat_tensor(1, 2))
    assert.are.same(shape(3, 4, 3), x:repeat_tensor(3, 2, 1):size())
    assert.are.same(shape(2, 6), x:tile(2):size())
    assert.are.same(shape(2, 0), x:tile(0):size())
    D.eq({ 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6 }, x:repeat_interleave(2))
    D.eq({ { 1, 2, 3 }, { 1, 2, 3 }, { 4, 5, 6 }, { 4, 5, 6 } }, x:repeat_interleave(2, 1))
    D.raises("ShapeError", x.repeat_tensor, x, 2)
    D.raises("ValueError", x.tile, x, -1)
  end)

  it("flip, roll, rot90", function()
    D.eq({ { 6, 5, 4 }, { 3, 2, 1 } }, x:flip { 1, 2 })
    D.eq({ { 3, 2, 1 }, { 6, 5, 4 } }, x:flip(2))
    D.eq({ { 3, 1, 2 }, { 6, 4, 5 } }, x:roll(1, 2))
    D.eq({ { 6, 1, 2 }, { 3, 4, 5 } }, x:roll(1))
    D.eq({ { 5, 6, 4 }, { 2, 3, 1 } }, x:roll({ 1, -1 }, { 1, 2 }))
    D.eq({ { 3, 6 }, { 2, 5 }, { 1, 4 } }, x:rot90())
    D.eq({ { 6, 5, 4 }, { 3, 2, 1 } }, x:rot90(2))
    D.eq({ { 4, 1 }, { 5, 2 }, { 6, 3 } }, x:rot90(-1, { 1, 2 }))
    D.raises("ArgumentError", x.flip, x, { 1, 1 })
  end)

  it("cat and stack of many, and of many bytes", function()
    for _, dtype in ipairs { "uint8", "float16", "float64", "complex64" } do
      local list, sizes, at = {}, {}, 0
      for i = 1, 300 do
        sizes[i] = i % 7 == 0 and 0 or i == 50 and 100003 or i * 37 % 91
        list[i] = tide.arange(at, at + sizes[i], { dtype = "int64" }):remainder(101):to(D.dev):to(tide[dtype])
        at = at + sizes[i]
      end
      local all = tide.arange(at, { dtype = "int64" }):remainder(101):to(D.dev):to(tide[dtype])
      assert.is_true(tide.equal(all, tide.cat(list)))
      for i = 1, 300 do list[i] = list[i]:unsqueeze(1) end
      assert.is_true(tide.equal(all:unsqueeze(1), tide.cat(list, 2)))
      list[3] = list[3]:to(tide.float32) -- another dtype among them
      assert.is_true(tide.equal(all:unsqueeze(1):to(tide.promote_types(tide[dtype], tide.float32)), tide.cat(list, 2)))
    end
    local rows = {}
    for i = 1, 33 do rows[i] = tide.full({ 1 << 17 }, i, { device = D.dev, dtype = "float32" }) end
    local x = tide.stack(rows)
    assert.are.same(shape(33, 1 << 17), x:size())
    D.eq(tide.arange(1, 34, { dtype = "float32" }), x:amin(2):cpu())
    D.eq(tide.arange(1, 34, { dtype = "float32" }), x:amax(2):cpu())
    assert.is_true(tide.stack(rows, { out = x }) == x)
    assert.is_true(tide.equal(x:t(), tide.stack(rows, 2)))
    assert.are.same(shape(0), tide.cat { tide.empty(0), tide.empty(0) }:size())
    assert.are.same(shape(2, 0), tide.stack { tide.empty(0), tide.empty(0) }:size())
  end)

  it("cat and stack", function()
    D.eq({ { 1, 2, 3 }, { 4, 5, 6 }, { 1, 2, 3 }, { 4, 5, 6 } }, tide.cat { x, x })
    D.eq({ { 1, 2, 3, 1 }, { 4, 5, 6, 4 } }, tide.cat({ x, x:narrow(2, 1, 1) }, 2))
    D.eq({ { 1, 4, 1, 4 }, { 2, 5, 2, 5 }, { 3, 6, 3, 6 } }, tide.cat({ x:t(), x:t() }, -1))
    assert.are.equal("float32", D.dtype_name(tide.cat { x, x:float() }))
    assert.are.same(shape(3, 2, 3), tide.stack({ x, x, x }):size())
    assert.are.same(shape(2, 3, 2), tide.stack({ x, x }, -1):size())
    D.eq({ { 1, 1 }, { 2, 2 }, { 3, 3 } }, tide.stack({ x[1], x[1] }, 2))
    local out = tide.empty(4, 3, { dtype = "int64", device = D.dev })
    assert.is_true(tide.cat({ x, x }, { out = out }) == out)
    D.raises("ShapeError", tide.cat, { x, count(2, 2) })
    D.raises("ShapeError", tide.stack, { x, count(2, 2) })
    D.raises("ValueError", tide.cat, {})
    D.raises("ArgumentError", tide.cat, { x, 5 })
    D.raises("IndexError", tide.cat, { x, x }, 3)
  end)

  it("broadcast_tensors", function()
    local list = tide.broadcast_tensors { x, D.tensor { { 7 }, { 8 } }, D.tensor(5) }
    for _, y in ipairs(list) do assert.are.same(shape(2, 3), y:size()) end
    D.eq({ { 7, 7, 7 }, { 8, 8, 8 } }, list[2])
    D.raises("ShapeError", tide.broadcast_tensors, { x, count(4) })
  end)

  it("resize_ and set_", function()
    local y = count(2, 3)
    assert.is_true(y:resize_ { 3 } == y)
    D.eq({ 1, 2, 3 }, y)
    y:resize_ { 2, 5 }
    assert.are.same(shape(2, 5), y:size())
    D.eq({ 1, 2, 3 }, y[1]:narrow(1, 1, 3))
    local z = tide.empty(0, { dtype = "int64", device = D.dev })
    z:set_(x)
    assert.is_true(z:data_ptr() == x:data_ptr())
    assert.are.same(shape(2, 3), z:size())
  end)

  it("contiguous", function()
    assert.is_true(x:is_contiguous())
    assert.is_false(x:t():is_contiguous())
    assert.is_true(x:contiguous() == x)
    local y = x:t():contiguous()
    assert.is_true(y:is_contiguous())
    D.eq({ { 1, 4 }, { 2, 5 }, { 3, 6 } }, y)
  end)

  it("of twelve dimensions and of none", function()
    local y = tide.zeros({ 1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3 }, { device = D.dev })
    assert.are.same({ 2, 3 }, y:squeeze():size())
    D.raises("ShapeError", y.unsqueeze, y, 1)
    local s = D.tensor(4)
    assert.are.same({}, s:size())
    D.eq(4, s:view({}):item())
    assert.are.same({ 1 }, s:view(1):size())
  end)

  it("of no dimensions go by the name of dim 1", function()
    local n = tide.tensor(5., { device = D.dev })
    for _, view in ipairs { n:squeeze(1), n:squeeze(-1), n:transpose(1, 1), n:transpose(-1, 1), n:flip(1), n:flip { -1 } } do
      assert.are.equal(0, view:dim())
      assert.are.equal(5, view:item())
    end
    for _, f in ipairs { n.squeeze, n.flip, n.unbind, n.chunk, n.split } do
      assert.is_false(pcall(f, n, 2))
    end
    D.raises("IndexError", n.transpose, n, 1, 2)
    D.raises("IndexError", n.size, n, 1)
  end)

  it("of a dimension of size 0: as many chunks as asked for, one part of 0", function()
    local none = tide.zeros(0, 3, { device = D.dev })
    local chunks, parts = none:chunk(3), none:split(0)
    assert.are.equal(3, #chunks)
    for _, c in ipairs(chunks) do assert.are.same(shape(0, 3), c:size()) end
    assert.are.equal(1, #parts)
    assert.are.same(shape(0, 3), parts[1]:size())
    assert.are.equal(1, #none:split(2))
    assert.are.same(shape(0, 1), none:chunk(3, 2)[3]:size())
    assert.matches("size 2", D.raises("ValueError", x.split, x, 0).message)
  end)
end)
