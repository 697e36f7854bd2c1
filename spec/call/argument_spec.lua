-- What functions are given: arguments that cannot be meant are refused, those that can are taken alike everywhere.
local tide = require "tide"
local D = require "spec.support.device"

local on = { device = D.dev }

describe("an argument that cannot be meant is refused:", function()
  D.watch(before_each, after_each)

  it("a condition that is not bool", function()
    local x = tide.ones(2, on)
    local e = D.raises("DtypeError", function() return x:where(3, 4) end)
    assert.truthy(e.message:find("bool", 1, true))
    D.raises("DtypeError", tide.where, x, x, x)
    D.raises("DtypeError", tide.where, x, 1, 2)
    D.raises("DtypeError", tide.where, x:to "uint8", x, x)
    D.raises("DtypeError", tide.where, 1, x, x)
    D.eq({ 1, 5 }, tide.where(D.tensor { true, false }, x, 5))
    e = D.raises("ArgumentError", tide.where, x == 1, x, 5)
    assert.truthy(e.message:find("condition: got boolean false", 1, true))
    D.eq({ 5, 5 }, x:where(x:gt(1), 5))
  end)

  it("a step of arange that leads away from its end", function()
    local e = D.raises("ValueError", tide.arange, 0, 10, -1, on)
    assert.truthy(e.message:find("got -1, which leads away from 0 to 10", 1, true))
    D.raises("ValueError", tide.arange, -3, on)
    D.raises("ValueError", tide.arange, 10, 0, 1, on)
    D.raises("ValueError", tide.arange, 0.5, 2.5, -0.5, on)
    D.raises("ValueError", tide.arange, math.mininteger, math.maxinteger, -1, on)
    D.eq({}, tide.arange(3, 3, -1, on))
    D.eq({}, tide.arange(0, on))
    D.eq({ 2, 1 }, tide.arange(2, 0, -1, on))
    D.eq({}, tide.range(5, 1, on)) -- as a loop of Lua
  end)

  it("a number for a text, which Lua's own functions would take", function()
    for _, name in ipairs { "from_string", "load", "load_csv", "load_npy", "load_npz", "load_png", "load_safetensors", "kernel", "cmdline" } do
      local e = D.raises("ArgumentError", tide[name], 12)
      assert.truthy(e.message:find("got number 12, expected a", 1, true), e.message)
    end
    for _, name in ipairs { "save", "save_csv", "save_gif", "save_npy", "save_png" } do
      local e = D.raises("ArgumentError", tide[name], 12, tide.zeros(2, 3, { dtype = tide.uint8 }))
      assert.truthy(e.message:find("got number 12, expected a", 1, true), e.message)
    end
  end)

  it("an n beside values that does not count them", function()
    D.raises("ArgumentError", tide.zeros, { 2, 3, n = 5 })
    D.raises("ArgumentError", tide.tensor, { 1, 2, n = 3 })
    D.raises("ArgumentError", tide.tensor, { 1, 2, n = "2" })
    assert.are.equal(6, tide.zeros(table.pack(2, 3)):numel())
    D.eq({ 1, 2 }, tide.tensor(table.pack(1, 2), on))
  end)

  it("an element of a shape", function()
    local x = tide.zeros(2, 3, on)
    local shape = x.shape
    D.raises("ArgumentError", function() shape[1] = 9 end)
    D.raises("ArgumentError", function() shape[3] = 9 end)
    D.raises("ArgumentError", function() x.shape.n = 2 end)
    D.raises("ArgumentError", table.insert, shape, 4)
    assert.are.equal("{2, 3}", tostring(x.shape))
    assert.are.equal("tide.Shape", getmetatable(shape))
  end)

  it("a size that a shape does not have, but for the one behind its end", function()
    local shape = tide.zeros(2, 3, on).shape
    assert.are.same({ 3, 2 }, { shape[-1], shape[-2] })
    local e = D.raises("IndexError", function() return shape[0] end)
    assert.truthy(e.message:find("got 0, expected 1 to 2 or -2 to -1; indexes and dimensions count from 1", 1, true))
    D.raises("IndexError", function() return shape[-3] end)
    assert.is_nil(shape[3]) -- where ipairs ends
    assert.is_nil(shape[0.5] or shape.none)
  end)
end)

describe("a shape", function()
  D.watch(before_each, after_each)

  it("is read as a list", function()
    local shape, seen = tide.zeros(2, 3, on).shape, {}
    assert.are.equal("table", type(shape))
    assert.are.equal(2, #shape)
    assert.are.equal(3, shape[2])
    assert.is_nil(shape[3])
    for i, n in ipairs(shape) do seen[#seen + 1] = i .. "=" .. n end
    for i, n in pairs(shape) do seen[#seen + 1] = i .. ":" .. n end
    local following = pairs(shape) -- behind the last one, and behind what is no dimension, there is nothing
    for _, i in ipairs { #shape, #shape + 1, math.maxinteger, -1, -2, math.mininteger } do assert.are.equal(0, select("#", following(shape, i))) end
    assert.are.same({ "1=2", "2=3", "1:2", "2:3" }, seen)
    assert.are.same({ 2, 3 }, { table.unpack(shape) })
    assert.are.equal("2x3", table.concat(shape, "x"))
    assert.are.equal(0, #tide.ones({}, on).shape)
  end)

  it("equals others and plain tables", function()
    local x = tide.zeros(2, 3, on)
    assert.is_true(x.shape == tide.ones(2, 3).shape)
    assert.is_true(x.shape == { 2, 3 } and { 2, 3 } == x.shape)
    assert.is_false(x.shape == { 2 } or x.shape == { 2, 4 } or x.shape == x:t().shape)
    collectgarbage()
    assert.is_true(x.shape == { 2, 3 })
  end)

  it("is taken wherever sizes are", function()
    local x, flat = tide.zeros(2, 3, on), tide.zeros(6, on)
    for name, y in pairs {
      zeros = tide.zeros(x.shape, on), bare = tide.zeros(x.shape), full = tide.full(x.shape, 1, on), randn = tide.randn(x.shape),
      new_zeros = x:new_zeros(x.shape), view = flat:view(x.shape), reshape = flat:reshape(x.shape),
      expand = tide.zeros(3, on):expand(x.shape), as_strided = flat:as_strided(x.shape, x:stride()),
    } do assert.are.same({ 2, 3 }, y:size(), name) end
    assert.are.equal(0, tide.zeros(tide.ones({}, on).shape):dim())
    assert.are.same({ 2, 3 }, tide.zeros(5, on):split(x.shape)[2].shape == { 3 } and { 2, 3 })
    D.eq({ 2, 3 }, tide.tensor(x.shape, on))
    D.eq({ { 2, 3 }, { 6, 0 } }, tide.tensor({ x.shape, { 6, 0 } }, on))
  end)

  it("is a key as a plain table is", function()
    local x = D.tensor { { 1, 2, 3 }, { 4, 5, 6 } }
    D.eq(6, x[x.shape])
    D.eq({ { 2, 3 }, { 5, 6 } }, x[{ {}, x.shape }])
    x[x.shape] = 9
    x[{ 1, x.shape }] = 0
    D.eq({ { 1, 0, 0 }, { 4, 5, 9 } }, x)
  end)

  it("is saved as a plain table", function()
    local x = tide.zeros(2, 3, on)
    local back = tide.deserialize(tide.serialize { x.shape, x.shape, other = x:t().shape })
    assert.are.same({ { 2, 3 }, { 2, 3 }, other = { 3, 2 } }, back)
    back[1][1] = 7 -- no shape of a tensor's
    assert.is_true(x.shape == { 2, 3 })
  end)
end)

describe("what can be meant is taken:", function()
  D.watch(before_each, after_each)

  it("a mask without dimensions", function()
    local x, scalar = D.tensor { { 1, 2 }, { 3, 4 } }, D.tensor(5)
    local yes, no = D.tensor(true), D.tensor(false)
    D.eq({ { { 1, 2 }, { 3, 4 } } }, x[yes])
    assert.are.same({ 0, 2, 2 }, x[no]:size())
    D.eq({ 5 }, scalar[yes])
    D.eq({}, scalar[no])
    scalar[no] = 6
    D.eq(5, scalar)
    scalar[yes] = 7
    D.eq(7, scalar)
    x[no] = D.tensor { 8, 9 }
    D.eq({ { 1, 2 }, { 3, 4 } }, x)
    x[yes] = D.tensor { 8, 9 }
    D.eq({ { 8, 9 }, { 8, 9 } }, x)
    D.raises("IndexError", function() return scalar[1] end)
    D.raises("IndexError", function() return scalar[D.tensor(1)] end)
    assert.is_truthy(D.raises("IndexError", function() return x[{ yes, 1 }] end).message:find("expected it alone", 1, true))
  end)

  it("fill_diagonal_ beyond two dimensions", function()
    local x = tide.zeros(3, 3, 3, on):fill_diagonal_(2)
    assert.are.equal(6, x:sum():item())
    for i = 1, 3 do assert.are.equal(2, x[{ i, i, i }]:item()) end
    local wide = tide.zeros(2, 4, on):t():fill_diagonal_(1)
    D.eq({ { 1, 0 }, { 0, 1 }, { 0, 0 }, { 0, 0 } }, wide)
    D.raises("ShapeError", function() return tide.zeros(4, 3, 3, on):fill_diagonal_(2) end)
    D.raises("ShapeError", function() return tide.zeros(3, on):fill_diagonal_(2) end)
    assert.are.equal(0, tide.zeros(0, 0, 0, on):fill_diagonal_(2):numel())
  end)

  it("a tensor of counts for repeat_interleave", function()
    local x = D.tensor { { 1, 2 }, { 3, 4 } }
    D.eq({ 1, 1, 3, 4, 4, 4 }, x:repeat_interleave(D.tensor { 2, 0, 1, 3 }))
    D.eq({ { 1, 2 }, { 3, 4 }, { 3, 4 } }, x:repeat_interleave(D.tensor { 1, 2 }, 1))
    D.eq({ { 1, 1, 2 }, { 3, 3, 4 } }, x:t():contiguous():t():repeat_interleave(tide.tensor { 2, 1 }, 2)) -- counts on the host
    D.eq({ 1, 1, 2, 2, 3, 3, 4, 4 }, x:repeat_interleave(D.tensor { 2 }))
    D.eq({ 5, 5, 5 }, D.tensor(5):repeat_interleave(D.tensor(3, "int32")))
    assert.are.same({ 0, 2 }, x:repeat_interleave(D.tensor { 0, 0 }, 1):size())
    D.raises("ShapeError", x.repeat_interleave, x, D.tensor { 1, 2, 3 }, 1)
    D.raises("ValueError", x.repeat_interleave, x, D.tensor { 1, -1 }, 1)
    D.raises("DtypeError", x.repeat_interleave, x, D.tensor { 1.5, 1 }, 1)
    D.raises("ArgumentError", x.repeat_interleave, x, { dim = 2 }) -- which is no count
    D.raises("OutOfMemoryError", x.repeat_interleave, x, D.tensor { 1 << 62, 1 << 62 }, 1)
    local wide = tide.empty(0, 1 << 61, { device = D.dev })
    for count = 1, 8 do D.raises("OutOfMemoryError", wide.repeat_interleave, wide, D.tensor { count }, 2) end
    assert.are.same({ 0, 0 }, wide:repeat_interleave(D.tensor { 0 }, 2):size())
  end)
end)

describe("a message", function()
  D.watch(before_each, after_each)

  -- Calls f with things that it cannot take, in each of its places.
  local function messages(f)
    local x, bad, out = tide.ones(2, 2, on), io.stdout, {}
    for _, args in ipairs { {}, { bad }, { x }, { x, bad }, { x, x, bad }, { x, x, x, bad }, { 1, bad }, { 1, 1, bad },
      { { x, x }, bad }, { x, 1, bad }, { x, 1, 1, bad }, { { 2, 2 }, bad }, { x, 1, x, bad }, { 1, 1, 1, bad } } do
      local ok, e = pcall(f, table.unpack(args))
      if not ok and e.message then out[#out + 1] = e.message end
    end
    return out
  end

  it("calls a parameter what the help calls it", function()
    if D.tsan then return pending "not under the thread sanitizer" end -- which counts the frames that errors jump over
    local n = 0
    local aside = { set_default_device = true, set_num_threads = true, manual_seed = true, seed = true, save = true, warn = true, note = true, help = true, scope = true, device_scope = true, set_printoptions = true, load = true,
      free = true, ipc_handle = true }
    for path, space in pairs { ["tide."] = tide, ["tide.fft."] = tide.fft, ["Tensor:"] = tide.Tensor } do
      for name, f in pairs(space) do
        if type(f) == "function" and not aside[name] then
          local signature = tide.help(path .. name):match "^[^\n]*"
          for _, message in ipairs(messages(f)) do
            local parameter = message:match "^[%w_]+: ([%w_]+): got"
            local known = not parameter or (" " .. signature .. " "):find("[^%w_]" .. parameter .. "[^%w_]")
            n = n + (parameter and 1 or 0)
            assert.is_truthy(known, path .. name .. ": " .. message .. " | " .. signature)
          end
        end
      end
    end
    assert.is_true(n > 2000)
  end)

  it("calls a parameter what the help calls it, in tide.cuda too", function()
    local n, x = 0, tide.ones(2, on)
    for name, f in pairs(tide.cuda) do
      local help = type(f) == "function" and name ~= "device_reset" and tide.help(f)
      local signature = help and not help:find("another name of", 1, true) and help:match "^[^\n]*"
      for _, args in ipairs(signature and { { io.stdout }, { 0, io.stdout }, { x, io.stdout } } or {}) do
        local ok, e = pcall(f, table.unpack(args))
        local parameter = not ok and e.message and e.message:match "^[%w_]+: ([%w_]+): got"
        local known = not parameter or parameter == "argument" or (" " .. signature .. " "):find("[^%w_]" .. parameter .. "[^%w_]")
        n = n + (parameter and 1 or 0)
        assert.is_truthy(known, name .. ": " .. tostring(parameter and e.message) .. " | " .. signature)
      end
    end
    assert.is_true(n > 40, tostring(n))
  end)

  it("calls the operands so that do not fit, too", function()
    local e = D.raises("ArgumentError", tide.where, D.tensor { true }, 1, io.stdout)
    assert.truthy(e.message:find("where: y: got", 1, true))
    e = D.raises("ShapeError", function() return tide.ones(2, 3, on) + tide.ones(2, on) end)
    assert.truthy(e.message:find("for y", 1, true))
    e = D.raises("ShapeError", function() return tide.ones(2, 3, on):pow(tide.ones(2, on)) end)
    assert.truthy(e.message:find("for b", 1, true))
  end)

  it("of the help says what a tensor is in a condition", function()
    for _, name in ipairs { "any", "all", "eq", "ne", "lt", "le", "gt", "ge" } do
      local text = tide.help(tide[name])
      assert.truthy(text:find("every tensor is true", 1, true), name)
      local example = text:match "if (%S+) then"
      assert.truthy(load("local x, a, b = ...; return " .. example)(D.tensor { true }, D.tensor { 1 }, D.tensor { 1 }) ~= nil)
    end
    local readme = assert(io.open "README.md"):read "a"
    assert.truthy(readme:find("a tensor is always true", 1, true))
    assert.truthy(readme:find("in a condition every tensor is true", 1, true))
  end)
end)

describe("arguments and options", function()
  D.watch(before_each, after_each)

  it("are taken by place and by name alike", function()
    local x = tide.arange(24, on):reshape(2, 3, 4)
    local function same(a, b)
      if type(a) ~= "table" then a, b = { a }, { b } end
      assert.are.equal(#a, #b)
      for i = 1, #a do assert.is_true(tide.is_tensor(a[i]) and tide.equal(a[i], b[i]) or a[i] == b[i]) end
    end
    same(x:select(2, 3), x:select { dim = 2, index = 3 })
    same(x:select(2, 3), x:select(2, { index = 3 }))
    same(x:narrow(3, 2, 2), x:narrow { dim = 3, start = 2, length = 2 })
    same(x:slice(3, 1, 2), x:slice { dim = 3, last = 2 })
    same(x:slice(3, 1, 4, 2), x:slice(3, { step = 2 }))
    same(x:unsqueeze(2), x:unsqueeze { dim = 2 })
    same(x[{ { 1 } }]:squeeze(1), x[{ { 1 } }]:squeeze { dim = 1 })
    same(x:transpose(1, 3), x:transpose { dim1 = 1, dim2 = 3 })
    same(x:permute(3, 1, 2), x:permute { dims = { 3, 1, 2 } })
    same(x:movedim(1, 3), x:movedim { source = 1, destination = 3 })
    same(x:flatten(2), x:flatten { start = 2 })
    same(x:flatten(1, 2), x:flatten { stop = 2 })
    same(x:unflatten(3, { 2, 2 }), x:unflatten { dim = 3, sizes = { 2, 2 } })
    same(x:diagonal(0, 2, 3), x:diagonal { dim1 = 2, dim2 = 3 })
    same(x:unfold(3, 2, 1), x:unfold { dim = 3, size = 2, step = 1 })
    same(x:split(2, 3), x:split(2, { dim = 3 }))
    same(x:split({ 1, 3 }, 3), x:split { size = { 1, 3 }, dim = 3 })
    same(x:chunk(2, 3), x:chunk(2, { dim = 3 }))
    same(x:unbind(2), x:unbind { dim = 2 })
    same(x:flip(1, 3), x:flip { dims = { 1, 3 } })
    same(x:roll(1, 2), x:roll { shifts = 1, dims = 2 })
    same(x:rot90(1, { 2, 3 }), x:rot90 { dims = { 2, 3 } })
    same(x:repeat_interleave(2, 3), x:repeat_interleave(2, { dim = 3 }))
    same(x:index_select(2, D.tensor { 3, 1 }), x:index_select { dim = 2, index = D.tensor { 3, 1 } })
    same(tide.select(x, 2, 3), tide.select(x, { dim = 2, index = 3 }))
    same(tide.cat({ x, x }, 2), tide.cat({ x, x }, { dim = 2 }))
    same(tide.stack({ x, x }, 2), tide.stack({ x, x }, { dim = 2 }))
    same(x:sum(2), x:sum { dim = 2 })
    assert.are.equal(x:size(2), x:size { dim = 2 })
    same(tide.Generator("cpu").device, tide.Generator { device = "cpu" }.device) -- a first one that may be missing, too
    D.raises("ArgumentError", tide.Generator, "cpu", { device = "cpu" })
    D.raises("ArgumentError", tide.arange, 5, { start = 1 })
    if D.cuda then
      same(tide.cuda.memory_allocated(0), tide.cuda.memory_allocated { device = 0 })
      same(tide.cuda.get_device_name(0), tide.cuda.get_device_name { device = "cuda:0" })
    end
    assert.are.equal(x:stride(2), x:stride { dim = 2 })
    local f = x:float()
    same(f:norm(1, 2), f:norm { p = 1, dim = 2 })
    same(tide.fft.rfft(f, nil, 2), tide.fft.rfft(f, { dim = 2 }))
    same(tide.fft.rfft(f, 3, 2, "ortho"), tide.fft.rfft(f, { n = 3, dim = 2, norm = "ortho" }))
    same(tide.fft.fft2(f, { 2, 2 }, { 1, 2 }), tide.fft.fft2(f, { s = { 2, 2 }, dim = { 1, 2 } }))
    same(tide.fft.rfft(f, 3, { dim = 2 }), tide.fft.rfft(f, { n = 3, dim = 2 }))
    same(tide.fft.fftshift(f, 2), tide.fft.fftshift(f, { dim = 2 }))
    if D.devices < 2 then return pending "the rest needs two devices" end
    local parts = tide.cuda.comm.scatter(f, { 0, 1 }, nil, 3)
    same(parts, tide.cuda.comm.scatter(f, { 0, 1 }, { dim = 3 }))
    same(tide.cuda.comm.gather(parts, 3, 0), tide.cuda.comm.gather(parts, { dim = 3, destination = 0 }))
    same(tide.parallel.scatter(f, { 0, 1 }, 3), tide.parallel.scatter(f, { 0, 1 }, { dim = 3 }))
    same(tide.parallel.gather(parts, 0, 3), tide.parallel.gather(parts, 0, { dim = 3 }))
  end)

  it("that are lists name the entry that is none, and may not be empty where one is needed", function()
    local x, gone = tide.zeros(2, 3, on), tide.zeros(2, on)
    gone:free()
    assert.matches("cat: tensors%[2%]: got number 5, expected a tensor", D.raises("ArgumentError", tide.cat, { x, 5 }).message)
    assert.matches("stack: tensors%[1%]: got a freed tensor", D.raises("StateError", tide.stack, { gone, x }).message)
    assert.matches("cat: tensors: got number 5, expected a table of tensors", D.raises("ArgumentError", tide.cat, 5).message)
    assert.matches("among the values", D.raises("ArgumentError", tide.cat, { x, y = x }).message)
    for _, call in ipairs { { tide.cat, {} }, { tide.cat, {}, 1 }, { tide.stack, {}, 2 }, { tide.meshgrid, {} } } do
      assert.matches("tensors: got an empty list", D.raises("ValueError", table.unpack(call)).message)
    end
    assert.are.same({}, tide.broadcast_tensors {})
    D.raises("IndexError", tide.cat, { x, x }, 3)
    assert.are.same({ 2, 3, 2 }, tide.stack({ x, x }, 3):size())
    D.raises("IndexError", tide.stack, { x, x }, 4)
  end)

  it("that are unknown or given twice are refused", function()
    local x = tide.zeros(2, 3, on)
    D.raises("ArgumentError", x.select, x, 1, 2, { dim = 1 })
    D.raises("ArgumentError", x.select, x, { dim = 1, indx = 1 })
    D.raises("ArgumentError", x.select, x, { dim = 1, 2 })
    D.raises("ArgumentError", x.select, x, { index = 1 })
    D.raises("ArgumentError", x.unbind, x, 1, { dim = 1 })
    D.raises("ArgumentError", x.unsqueeze, x, { dim = 1, dims = 2 })
    D.raises("ArgumentError", tide.fft.fft, x, 2, { n = 2 })
    D.raises("ArgumentError", tide.fft.fft, x, 2, 1, "ortho", 5)
    local opts = { dim = 1, index = 2 }
    x:select(opts)
    assert.are.same({ dim = 1, index = 2 }, opts) -- it is only read
  end)
end)

describe("a nested table beside a tensor", function()
  D.watch(before_each, after_each)

  it("is an operand", function()
    local x = D.tensor { { 1, 2, 3 }, { 4, 5, 6 } }
    D.eq({ { 11, 22, 33 }, { 14, 25, 36 } }, x + { 10, 20, 30 })
    D.eq({ { 9, 18, 27 }, { 6, 15, 24 } }, { 10, 20, 30 } - x)
    D.eq({ { 10, 20, 30 }, { 80, 100, 120 } }, x * { { 10 }, { 20 } })
    D.eq({ { true, false, false }, { false, false, false } }, x:eq { 1, 1, 1 })
    D.eq({ { 1, 4, 9 }, { 16, 25, 36 } }, x:pow { 2, 2, 2 })
    D.eq({ { 2, 2, 3 }, { 4, 4, 4 } }, x:clamp({ 2, 2, 2 }, { 4, 4, 4 }))
    D.eq({ { 2, 2, 3 }, { 4, 5, 6 } }, x:clamp { min = { 2, 2, 2 } })
    D.eq({ { 1, 0, 3 }, { 4, 0, 6 } }, tide.where({ true, false, true }, x, 0))
    D.eq({ { 1, 8, 3 }, { 4, 8, 6 } }, x:where({ true, false, true }, { 7, 8, 9 }))
    D.eq({ { 3, 2, 2 }, { 6, 5, 5 } }, x + D.tensor { { 2, 0, -1 } })
    x:add_ { 1, 1, 1 }
    D.eq({ { 2, 3, 4 }, { 5, 6, 7 } }, x)
    D.eq({ { 3, 4, 5 }, { 6, 7, 8 } }, tide.add(x, { 1, 1, 1 }, { out = tide.empty(2, 3, { dtype = tide.int64, device = D.dev }) }))
  end)

  it("has the dtype that numbers would have, and its device", function()
    local function dtype_of(x, list) return D.dtype_name(x + list) end
    for _, dtype in ipairs { "int8", "int32", "float16", "float32", "float64" } do
      local x = tide.ones(2, { dtype = dtype, device = D.dev })
      assert.are.equal(dtype, dtype_of(x, { 1, 2 }))
      assert.are.equal(D.dtype_name(x + 1.5), dtype_of(x, { 1.5, 2 }))
      assert.are.equal(tostring(x.device), tostring((x + { 1, 2 }).device))
    end
    D.eq({ 1 + 1e-12 }, tide.ones(1, { dtype = "float64", device = D.dev }) + { 1e-12 }) -- read in float64 at once
    D.raises("ValueError", function() return tide.ones(1, { dtype = "int8" }) + { 300 } end)
    D.raises("ShapeError", function() return tide.ones(3, on) + { 1, 2 } end)
    D.raises("ShapeError", function() return tide.ones(3, on) + { { 1, 2 }, { 3 } } end)
    D.raises("ArgumentError", function() return tide.ones(3, on) + { "a" } end)
    D.raises("ArgumentError", function() return tide.ones(3, on) + { a = 1 } end)
    D.raises("ArgumentError", tide.add, { 1 }, { 2 })
  end)
end)

describe("a message about tensors that do not go together", function()
  D.watch(before_each, after_each)

  local function line() return debug.getinfo(2, "l").currentline end
  local function made(e, ...)
    for _, at in ipairs { ... } do
      local text = "made at spec/call/argument_spec.lua:" .. at
      if not e.message:find(text, 1, true) then error(("got %q, expected %q in it"):format(e.message, text), 2) end
    end
  end

  it("names the lines that made them", function()
    local a, la = tide.ones(2, 3, on), line()
    local b, lb = tide.tensor({ 1, 2 }, on), line()
    local c, lc = tide.randn(4, 5, on), line()
    local d, ld = tide.arange(7, on), line()
    made(D.raises("ShapeError", function() return a + b end), la, lb)
    made(D.raises("ShapeError", function() return a:t() * c end), la, lc) -- views are of their tensor's line
    made(D.raises("ShapeError", a.copy_, a, d), la, ld)
    made(D.raises("ShapeError", a.matmul, a, c), la, lc)
    made(D.raises("DtypeError", a.matmul, a, b), la, lb)
    made(D.raises("ShapeError", tide.cat, { a, c }), la, lc)
    made(D.raises("ShapeError", tide.add, a, 1, { out = c }), lc)
    local large, ll = tide.ones(128, 128, on) + 1, line()
    made(D.raises("ShapeError", function() return large + d end), ll, ld)
  end)

  it("names devices and lines", function()
    if not D.cuda then return pending "needs a device" end
    local a, la = tide.ones(2, 3, on), line()
    local b, lb = tide.ones(2, 3), line()
    local e = D.raises("DeviceError", function() return a + b end)
    made(e, la, lb)
    assert.truthy(e.message:find("x on cuda:0 made at", 1, true) and e.message:find("y on cpu made at", 1, true))
    made(D.raises("DeviceError", a.matmul, a, b), la, lb)
    made(D.raises("DeviceError", tide.cat, { a, b }), la, lb)
    local c, lc = a * 2, line() -- a small result, too
    made(D.raises("DeviceError", function() return c + b end), lc, lb)
  end)

  it("says nothing where no line is known", function()
    local e = D.raises("ShapeError", function() return tide.empty(2) + tide.empty(3) end)
    assert.is_nil(e.message:find("made at", 1, true)) -- tide.empty on the CPU pays for no line where it is small
  end)
end)
