-- Just beyond a range: every argument that is an integer refuses 2^63 and what lies beyond, the ends of every integer dtype
-- are kept and the next numbers refused, and ranges of indexes end where the dimension does.

local tide = require "tide"
local D = require "spec.support.device"

local above, below = 2.0 ^ 63, -2.0 ^ 63 - 2.0 ^ 11 -- the first floats that int64 does not hold
local ends = { uint8 = { 0, 255 }, int8 = { -128, 127 }, int16 = { -32768, 32767 }, int32 = { -2 ^ 31 | 0, 2 ^ 31 - 1 | 0 },
  int64 = { math.mininteger, math.maxinteger } }

-- Those that end the process, or wait for as long as they are asked to.
local left_out = { ["tide.cuda._sleep"] = true, ["tide.parallel.exit"] = true }

-- A value for each required argument but `which`, which gets v.
local function arguments(params, which, v)
  local list = {}
  for _, p in ipairs(params) do
    if p == which then
      list[#list + 1] = v
      return list
    end
    if p.optional or p.option then return nil end
    if p.type:find "tide.Tensor%[%]" then list[#list + 1] = { D.tensor { 1., 2. } }
    elseif p.type:find "tide.Tensor" or p.type == "any" then list[#list + 1] = D.tensor({ { 1, 2 }, { 2, 1 } }, p.name:find "^ind" and "int64" or "float32")
    elseif p.type:find "integer" or p.type:find "number" then list[#list + 1] = 1
    elseif p.type:find "string" then list[#list + 1] = "x"
    else return nil end
  end
end

describe("beyond a range", function()
  D.watch(before_each, after_each)

  it("no integer of an argument is 2^63", function()
    local asked = 0
    for _, row in ipairs(tide._rows()) do
      local name = row.path .. "." .. row.name
      local f = row.path == "tide" and row.callable and tide[row.name] or row.path == "Tensor" and row.callable and tide.Tensor[row.name]
      for _, p in ipairs(type(f) == "function" and not left_out[name] and row.params or {}) do
        for _, v in ipairs(p.type == "integer" and { above, below, 0.5, 2.0 ^ 64, 1 / 0 } or {}) do
          local list = arguments(row.params, p, v)
          if list then
            asked = asked + 1
            local ok, e = pcall(f, table.unpack(list))
            assert(not ok, ("%s takes %s for %s"):format(name, v, p.name))
            assert(type(e) ~= "string" and e.kind, ("%s, %s = %s: %s"):format(name, p.name, v, tostring(e)))
          end
        end
      end
    end
    assert.is_true(asked > 300, asked)
  end)

  it("the ends of a dtype are kept, and the next numbers refused", function()
    for dtype, range in pairs(ends) do
      local low, high = range[1], range[2]
      D.eq({ low, high }, D.tensor({ low, high }, dtype))
      local x = D.tensor({ 0, 0 }, dtype)
      x:fill_(high)
      D.eq({ high, high }, x)
      x[1] = low
      D.eq({ low, high }, x)
      D.eq({ low }, tide.full({ 1 }, low, { dtype = dtype, device = D.dev }))
      assert.are.equal(high, x:max():item())
      assert.are.equal(low, x:min():item())
      -- Down to -255 a number is its remainder in uint8, as in PyTorch.
      local outside = dtype == "int64" and { above, below } or { high + 1, dtype == "uint8" and -256 or low - 1, above, below }
      for _, v in ipairs(outside) do
        local what = ("%s %s"):format(dtype, v)
        assert(not pcall(x.fill_, x, v), "fill_: " .. what)
        assert(not pcall(tide.full, { 1 }, v, { dtype = dtype, device = D.dev }), "full: " .. what)
        assert(not pcall(function() x[1] = v end), "an element: " .. what)
        assert(not pcall(D.tensor, { v }, dtype), "tensor: " .. what)
        assert(not pcall(tide.masked_fill, x, D.tensor({ true, false }), v), "masked_fill: " .. what)
        D.eq({ low, high }, x)
      end
    end
  end)

  it("ranges of indexes end with the dimension", function()
    for _, n in ipairs { 1, 5 } do
      local t = {}
      for i = 1, n do t[i] = i end
      local x = D.tensor(t, "int64")
      D.eq({ n }, x[{ { n, -1 } }])
      D.eq(t, x[{ { 1, -1 } }])
      D.eq(t, x[{ { -n, n } }])
      D.eq({}, x[{ { n + 1, n } }]) -- empty, behind the last
      D.eq({}, x[{ { 1, 0 } }])
      D.eq({}, x:slice(1, n + 1, n))
      D.eq({}, x:narrow(1, n + 1, 0))
      x[{ { n + 1, n } }] = 7
      for _, range in ipairs { { n + 1, -1 }, { n + 2, -1 }, { 1, n + 1 }, { n + 1, n + 1 }, { -n - 1, n }, { 0, n }, { n + 2, 1 }, { 1, -n - 2 },
        { math.maxinteger, -1 }, { 1, math.maxinteger }, { math.mininteger, n } } do
        local ok, got = pcall(function() return x[{ range }] end)
        assert(not ok, ("{%d, %d} of %d gives %s"):format(range[1], range[2], n, tostring(got)))
        assert.are.equal("IndexError", got.kind)
        assert(not pcall(function() x[{ range }] = 0 end))
      end
      D.eq(t, x)
      assert.are.equal(n, x[n]:item())
      assert.are.equal(1, x[-n]:item())
      for _, i in ipairs { n + 1, 0, -n - 1, math.maxinteger, math.mininteger } do
        D.raises("IndexError", function() return x[i]:item() end)
      end
    end
  end)

  it("windows end with what they stand in", function()
    if D.cuda and not D.simulated then return pending "the same code decides" end
    for _, stride in ipairs { 1, 2, 3 } do
      for _, padding in ipairs { 0, 1 } do
        local x, n = D.tensor { { { 1., 2., 3., 4., 5. } } }, 5 + 2 * padding
        for kernel = 2, n + stride + 1 do
          for _, ceil in ipairs { false, true } do
            local options = { stride = stride, padding = padding, ceil_mode = ceil }
            local ok, got = pcall(tide.max_pool1d, x, kernel, options)
            local windows = (n - kernel + (ceil and stride - 1 or 0)) // stride + 1
            if ceil and (windows - 1) * stride >= 5 + padding then windows = windows - 1 end
            local what = ("kernel %d, stride %d, padding %d, ceil %s: %s"):format(kernel, stride, padding, ceil, tostring(got))
            assert(ok == (kernel >= 2 * padding and windows > 0), what)
            if ok then assert(got:size(3) == windows, what) else assert(got.kind == "ShapeError" or got.kind == "ValueError", what) end
          end
        end
      end
    end
  end)

  it("no size is beyond memory, though another one is 0", function()
    D.raises("OutOfMemoryError", tide.empty, 0, math.maxinteger, { device = D.dev })
    D.raises("OutOfMemoryError", tide.empty, math.maxinteger, 0, { device = D.dev })
    D.raises("ValueError", tide.empty, 0, -1, { device = D.dev })
    assert.are.equal(0, tide.empty(0, 1 << 40, { device = D.dev }):numel())
  end)

  it("integers to the power of a number: 0 is inside, -1 is not", function()
    for dtype in pairs(ends) do
      local x = D.tensor({ 0, 1, 3 }, dtype)
      D.eq({ 1, 1, 1 }, x ^ 0)
      D.eq({ 1, 1, 1 }, tide.pow(x, 0))
      D.eq({ 0, 1, 3 }, x ^ 1)
      assert(not pcall(tide.pow, x, -1), dtype)
    end
  end)

  -- Dims whose strides no two share are never joined, and then each needs its place in every table.
  it("tensors may have as many dims as there can be, in any layout", function()
    local most, size, turned, narrow = 12, {}, {}, {}
    for d = 1, most do size[d], turned[d], narrow[d] = d % 6 == 0 and 3 or 2, (d * 5) % most + 1, d end
    local n = 9 * 2 ^ 10 // 1 | 0
    local plain = tide.arange(n, { dtype = "int64", device = D.dev }):reshape(table.unpack(size))
    assert(not pcall(plain.unsqueeze, plain, 1))
    local holes = plain:new_zeros(table.unpack(size)):permute(table.unpack(turned))
    holes:copy_(plain:permute(table.unpack(turned)))
    local x = holes
    local dense = x:clone():contiguous()
    local function same(name, f)
      local got, want = f(x), f(dense)
      assert(tide.equal(got:contiguous(), want:contiguous()), name)
    end
    for _, dim in ipairs { 1, 2, most // 2, most } do
      local at = tide.zeros(x:size(dim), { dtype = "int64", device = D.dev }) + 1
      local where = tide.ones_like(dense)
      same("index_select", function(y) return y:index_select(dim, at) end)
      same("gather", function(y) return y:gather(dim, where) end)
      same("index_add", function(y) return y:index_add(dim, at, y) end)
      same("index_copy", function(y) return y:index_copy(dim, at:narrow(1, 1, 1), y:narrow(dim, 2, 1)) end)
      same("index_fill", function(y) return y:index_fill(dim, at, -1) end)
      same("scatter_add", function(y) return y:scatter_add(dim, where, y) end)
      same("scatter_add into holes", function(y) local z = y:clone() z:permute(table.unpack(turned)):scatter_add_(dim, where:permute(table.unpack(turned)), y:permute(table.unpack(turned))) return z end)
      same("scatter", function(y) return y:scatter(dim, where, -5) end)
      same("sum", function(y) return y:sum(dim) end)
      same("cumsum", function(y) return y:cumsum(dim) end)
      same("sort", function(y) return (y:sort(dim)) end)
      same("argmax", function(y) return y:argmax(dim) end)
      same("flip", function(y) return y:flip { dim } end)
      same("roll", function(y) return y:roll(1, dim) end)
      same("cat", function(y) return tide.cat({ y, y }, dim) end)
    end
    same("a mask", function(y) return y[y:remainder(3):eq(0)] end)
    same("masked_fill", function(y) return y:masked_fill(y:remainder(3):eq(0), 7) end)
    same("masked_scatter", function(y) return y:masked_scatter(y:remainder(3):eq(0), dense) end)
    same("take", function(y) return y:take(dense + 1) end)
    same("put", function(y) return y:put(dense + 1, y, { accumulate = true }) end)
    same("+", function(y) return y + y:clone() end)
    same("where", function(y) return tide.where(y:gt(100), y, dense) end)
  end)
end)
