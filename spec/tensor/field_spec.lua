-- Fields on a grid: borders, windows, other sizes.
-- The expected values are plain Lua's, computed below, in adversarial layouts; what is refused.

local tide = require "tide"
local D = require "spec.support.device"
local F = require "spec.support.field"

local some, at, planes = F.some, F.at, F.planes

local nan = 0 / 0
local function same(expected, x, what) D.eq(expected, x, 0, what) end

describe("tide.pad", function()
  D.watch(before_each, after_each)

  -- The place of element i of a padded dim, from 1, in a dim of n; nil: beyond.
  local function place(mode, i, before, n)
    local p = i - before
    if p >= 1 and p <= n then return p end
    if mode == "reflect" then return p < 1 and 2 - p or 2 * n - p end
    if mode == "replicate" then return p < 1 and 1 or n end
    if mode == "circular" then return p < 1 and p + n or p - n end
  end

  local function padded(x, pads, mode, value)
    local t, rows, out = x:tolist(), x:size(1), {}
    local columns = x:size(2)
    for i = 1, rows + pads[3] + pads[4] do
      out[i] = {}
      for j = 1, columns + pads[1] + pads[2] do
        local a, b = place(mode, i, pads[3], rows), place(mode, j, pads[1], columns)
        out[i][j] = a and b and t[a][b] or value
      end
    end
    return out
  end

  it("gives borders of every mode, and crops", function()
    for _, columns in ipairs { 3, 4, 8, 33 } do
      local x = some(4, columns)
      for _, mode in ipairs { "constant", "reflect", "replicate", "circular" } do
        for _, pads in ipairs { { 1, 2, 0, 3 }, { 0, 1, 2, 0 }, { 2, 2, 3, 1 }, { 0, 0, 0, 0 } } do
          for _, layout in ipairs(D.layouts(x)) do
            same(padded(x, pads, mode, 7), tide.pad(layout[2], pads, { mode = mode, value = 7 }), mode .. ", " .. layout[1])
          end
        end
        for _, pads in ipairs { { -1, 2, 0, -2 }, { -1, -1, -3, 0 } } do
          if mode ~= "circular" or pads[2] < 0 then -- what goes round is what is left
            same(padded(x, pads, mode, 7), x:pad(pads, { mode = mode, value = 7 }), mode)
          end
        end
      end
    end
    same({ 3, 1, 2, 3, 1 }, D.tensor({ 1, 2, 3 }):pad({ 1, 1 }, { mode = "circular" }))
  end)

  it("takes every dtype, and dims without elements", function()
    for _, dtype in ipairs(D.dtypes) do
      local x = D.tensor({ 1, 0, 1 }):to(dtype)
      local y = x:pad({ 2, 1 }, { value = 1 })
      assert.are.equal(x.dtype, y.dtype)
      same({ 1, 1, 1, 0, 1, 1 }, y:to("int64"), dtype)
      same({ 0, 1, 0, 1, 0 }, x:pad({ 1, 1 }, { mode = "reflect" }):to("int64"), dtype)
    end
    same({ { 5, 5 }, { 5, 5 } }, tide.empty(0, 2, { device = D.dev }):pad({ 0, 0, 1, 1 }, { value = 5 }))
    assert.are.same({ 2, 0 }, tide.empty(2, 0, { device = D.dev }):pad({ 0, 0 }):size())
    assert.are.same({ 0 }, D.tensor({ 1, 2 }):pad({ -1, -1 }):size())
    same(3, D.tensor(3):pad({}))
  end)

  it("takes many dims", function()
    local x = some(2, 3, 2, 3, 2)
    local y = x:pad { 1, 0, 0, 2, 3, 0, 0, 0, 1, 1 }
    assert.are.same({ 4, 3, 5, 5, 3 }, y:size())
    same(x, y[{ { 2, 3 }, {}, { 4, 5 }, { 1, 3 }, { 2, 3 } }])
    assert.are.equal(x:sum():item(), y:sum():item())
    same(y, x:transpose(1, 5):contiguous():transpose(1, 5):pad { 1, 0, 0, 2, 3, 0, 0, 0, 1, 1 })
    -- more than a cache holds
    local large = tide.arange(1030 * 4099, { dtype = "int32", device = D.dev }):view(1030, 4099)
    for mode, first in pairs { constant = 7, replicate = 0, reflect = 4099 + 1, circular = 1030 * 4099 - 1 } do
      local got = large:pad({ 1, 3, 1, 0 }, { mode = mode, value = 7 })
      assert.is_true(got:narrow(1, 2, 1030):narrow(2, 2, 4099):equal(large), mode)
      assert.are.equal(first, got[{ 1, 1 }]:item(), mode)
      if mode ~= "circular" then -- its right border is that of its last columns alone
        local few = large:narrow(2, 4090, 10):pad({ 0, 3, 1, 0 }, { mode = mode, value = 7 })
        assert.is_true(got:narrow(2, 4101, 3):equal(few:narrow(2, 11, 3)), mode)
      end
    end
  end)

  it("crops beyond its own size where every place has an element", function()
    same(D.tensor { { 1., 1. } }, D.tensor { { 1. } }:pad({ -2, 3 }, { mode = "replicate" }))
    same(D.tensor { { 1., 1., 1., 1. } }, D.tensor { { 1., 2., 3. } }:pad({ 5, -4 }, { mode = "replicate" }))
    same(D.tensor { { 4., 3., 2., 1. } }, D.tensor { { 1., 2., 3., 4., 5., 6. } }:pad({ -7, 5 }, { mode = "reflect" }))
  end)

  it("refuses what it cannot take", function()
    local x = D.tensor { { 1., 2., 3. } }
    D.raises("ValueError", function() x:pad({ 1, 2, 3 }) end)
    D.raises("ArgumentError", function() x:pad({ 1, 1, 1, 1, 1, 1 }) end)
    D.raises("ValueError", function() x:pad({ -2, -2 }) end)
    D.raises("ValueError", function() x:pad({ -4, 4 }) end)
    for _, mode in ipairs { "constant", "circular" } do
      D.raises("ValueError", function() x:pad({ math.mininteger, math.mininteger }, { mode = mode }) end)
    end
    D.raises("ValueError", function() x:pad({ 3, 0 }, { mode = "reflect" }) end)
    D.raises("ValueError", function() x:pad({ 0, 4 }, { mode = "circular" }) end)
    D.raises("ValueError", function() tide.empty(1, 0, { device = D.dev }):pad({ 1, 0 }, { mode = "replicate" }) end)
    D.raises("ArgumentError", function() x:pad({ 1, 1 }, { mode = "mirror" }) end)
    D.raises("ArgumentError", function() x:pad({ 1, "a" }) end)
    D.raises("ValueError", function() x:to("uint8"):pad({ 1, 1 }, { value = 300 }) end)
  end)
end)

-- fold(plane, places, first place) for each window: places are {z, y, x}.
local function windows(x, p, fold)
  local list, n = planes(x)
  local rank, out = x:dim() - 2, {}
  local function option(name, d, standard)
    local v = p[name]
    if d <= 3 - rank then return name == "padding" and 0 or 1 end
    return v and v[d - 3 + rank] or standard
  end
  local k, stride, before, apart, size = {}, {}, {}, {}, {}
  for d = 1, 3 do
    k[d], before[d], apart[d] = option("kernel", d, 1), option("padding", d, 0), option("dilation", d, 1)
    stride[d] = option("stride", d, k[d])
    local room = n[d] + 2 * before[d] - (k[d] - 1) * apart[d] - 1
    size[d] = (room + (p.ceil_mode and stride[d] - 1 or 0)) // stride[d] + 1
    if p.ceil_mode and (size[d] - 1) * stride[d] >= n[d] + before[d] then size[d] = size[d] - 1 end
  end
  for i, plane in ipairs(list) do
    out[i] = {}
    for z = 0, size[1] - 1 do
      for y = 0, size[2] - 1 do
        for c = 0, size[3] - 1 do
          local places, start, all = {}, { z * stride[1] - before[1], y * stride[2] - before[2], c * stride[3] - before[3] }, 1
          for d = 1, 3 do all = all * (math.min(start[d] + k[d], n[d] + before[d]) - start[d]) end
          for a = start[1], start[1] + (k[1] - 1) * apart[1], apart[1] do
            for b = start[2], start[2] + (k[2] - 1) * apart[2], apart[2] do
              for e = start[3], start[3] + (k[3] - 1) * apart[3], apart[3] do
                if a >= 0 and a < n[1] and b >= 0 and b < n[2] and e >= 0 and e < n[3] then places[#places + 1] = { a, b, e } end
              end
            end
          end
          table.insert(out[i], (fold(plane, places, n, all)))
        end
      end
    end
  end
  return out, size
end

local function maximum(plane, places, n)
  local best, where = -math.huge, 0
  for _, q in ipairs(places) do
    local v = at(plane, q[1], q[2], q[3])
    if v > best or v ~= v then best, where = v, (q[1] * n[2] + q[2]) * n[3] + q[3] + 1 end
  end
  return best, where
end
local function place(plane, places, n) return select(2, maximum(plane, places, n)) end
local function mean(by)
  return function(plane, places, _, all)
    local sum = 0
    for _, q in ipairs(places) do sum = sum + at(plane, q[1], q[2], q[3]) end
    return #places > 0 and sum / (by or all) or 0
  end
end
local function inner_mean(plane, places) return mean(#places)(plane, places) end

local shapes = { { 2, 3, 33 }, { 1, 2, 9, 10 }, { 2, 1, 5, 6, 7 }, { 2, 2, 1, 8 } }

describe("windows", function()
  D.watch(before_each, after_each)

  local cases = {
    { kernel = 2 }, { kernel = 3, stride = 1, padding = 1 }, { kernel = 3, stride = 2, padding = 1, ceil_mode = true },
    { kernel = 2, stride = 3 }, { kernel = 1, stride = 2 }, { kernel = 2, stride = 1, padding = 1, ceil_mode = true },
  }

  local function each(rank, p, more)
    local full = { ceil_mode = p.ceil_mode }
    for _, name in ipairs { "kernel", "stride", "padding", "dilation" } do
      local v = p[name] or more and more[name]
      if v then
        full[name] = {}
        -- a dim of one element takes windows of one
        for d = 1, rank do full[name][d] = v end
      end
    end
    return full
  end

  for _, shape in ipairs(shapes) do
    local rank = #shape - 2
    local max_pool, avg_pool = tide["max_pool" .. rank .. "d"], tide["avg_pool" .. rank .. "d"]
    it(("give the maximum and the mean of %d dims"):format(rank), function()
      for _, p in ipairs(cases) do
        local full = each(rank, p)
        if shape[3] == 1 then full.kernel[1], full.padding = 1, full.padding and { 0, p.padding } end
        local x = some(table.unpack(shape))
        local expected, at_place = windows(x, full, maximum), windows(x, full, place)
        local whole, inner = windows(x, full, mean()), windows(x, full, inner_mean)
        for _, layout in ipairs(D.layouts(x)) do
          local y = layout[2]
          local values, indices = max_pool(y, full.kernel, full.stride, full.padding, { ceil_mode = p.ceil_mode, return_indices = true })
          same(expected, values:reshape(#expected, -1), layout[1])
          same(expected, max_pool(y, full.kernel, full.stride, full.padding, { ceil_mode = p.ceil_mode }):reshape(#expected, -1))
          same(at_place, indices:reshape(#expected, -1), layout[1])
          D.eq(whole, avg_pool(y, full.kernel, full.stride, full.padding, { ceil_mode = p.ceil_mode })
            :reshape(#expected, -1), 1e-6, layout[1])
          D.eq(inner, avg_pool(y, full.kernel, full.stride, full.padding,
            { ceil_mode = p.ceil_mode, count_include_pad = false }):reshape(#expected, -1), 1e-6, layout[1])
        end
        D.eq(windows(x, full, mean(5)), avg_pool(x, full.kernel, full.stride, full.padding,
          { ceil_mode = p.ceil_mode, divisor_override = 5 }):reshape(x:size(1) * x:size(2), -1), 1e-6)
      end
    end)
  end

  it("may be spread", function()
    local x = some(2, 2, 12, 11)
    local p = { kernel = { 2, 3 }, stride = { 2, 1 }, padding = { 1, 2 }, dilation = { 3, 2 } }
    same(windows(x, p, maximum), x:max_pool2d(p.kernel, p.stride, p.padding, p.dilation):reshape(4, -1))
    local values, indices = x:max_pool2d(p.kernel, p.stride, p.padding, p.dilation, { return_indices = true })
    same(windows(x, p, maximum), values:reshape(4, -1))
    same(windows(x, p, place), indices:reshape(4, -1))
  end)

  it("let NaN win, in every floating dtype, without a batch too", function()
    for _, dtype in ipairs { "float16", "bfloat16", "float32", "float64" } do
      local x = D.tensor({ { 1., nan, 3., -2., 5. } }, dtype)
      local values, indices = x:max_pool1d(2, 1, { return_indices = true })
      assert.are.equal(x.dtype, values.dtype)
      same({ { nan, nan, 3, 5 } }, values)
      same({ { nan, nan, 3, 5 } }, x:max_pool1d(2, 1))
      same({ { 2, 2, 3, 5 } }, indices)
      same({ { 2, -0.5 } }, D.tensor({ { 1., 3., 3., -4. } }, dtype):avg_pool1d(2))
      local low = -math.huge -- windows of the least value alone
      values, indices = D.tensor({ { low, low, low, 1., low } }, dtype):max_pool1d(2, 1, { return_indices = true })
      assert.are.same({ { low, low, 1.0, 1.0 } }, values:totable())
      same({ { 1, 2, 4, 4 } }, indices)
    end
    assert.are.same({ 0, 2, 2 }, tide.zeros(0, 2, 4, { device = D.dev }):max_pool1d(2):size())
  end)

  -- int64 has no float that is as exact: neighbours differ at the ends of its range.
  it("have maxima of integers, exactly", function()
    tide.manual_seed(11)
    local ends = { uint8 = { 0, 255 }, int8 = { -128, 127 }, int16 = { -32768, 32767 }, int32 = { -2147483648, 2147483647 },
      int64 = { math.mininteger, math.maxinteger } }
    for dtype, e in pairs(ends) do
      local x = D.tensor({ { e[1], e[1], e[1] + 1, e[2] - 1, e[2], e[1] } }, dtype)
      local values, indices = x:max_pool1d(2, 1, { return_indices = true })
      assert.are.equal(x.dtype, values.dtype)
      same({ { e[1], e[1] + 1, e[2] - 1, e[2], e[2] } }, values)
      same({ { 1, 3, 4, 5, 5 } }, indices)
      same({ { e[1], e[2] - 1, e[2] } }, x:max_pool1d(2))
      for rank = 1, 3 do
        local size = { 2, 3, 7, 6, 5 }
        for _ = rank, 2 do table.remove(size) end
        local y = tide.randint(0, 100, size):to(D.dev)
        local pool = tide["max_pool" .. rank .. "d"]
        for _, p in ipairs { { 2, 2, 0 }, { 3, 1, 1 }, { 3, 2, 1 }, { 2, 1, 1, 2 } } do
          local want, places = pool(y:double(), p[1], p[2], p[3], p[4] or 1, { return_indices = true })
          local got, at = pool(y:to(tide[dtype]), p[1], p[2], p[3], p[4] or 1, { return_indices = true })
          assert.is_true(got:double():equal(want) and at:equal(places), dtype .. rank)
          assert.is_true(pool(y:to(tide[dtype]), p[1], p[2], p[3], p[4] or 1):double():equal(want), dtype .. rank)
        end
      end
    end
    local long = tide.arange(5000, { device = D.dev, dtype = "int64" }):reshape(1, 1, 5000)
    same(2049, long:max_pool1d(3, 1, 1)[{ 1, 1, 2049 }]:item())
    same({ 5, 6 }, D.tensor({ { 5, 1, 6, 2 } }, "int16"):max_pool1d(2, { out = tide.empty(0, { dtype = "int16", device = D.dev }) })[1])
  end)

  it("write to destinations", function()
    local x = D.tensor { { 1., 3., 2., 0. } }
    local values, places = tide.empty(0, { device = D.dev }), tide.empty(0, { device = D.dev, dtype = "int64" })
    assert.are.equal(values, x:max_pool1d(2, { out = values }))
    same({ { 3, 2 } }, values)
    x:max_pool1d(3, 1, { return_indices = true, out = { values, places } })
    same({ { 3, 3 } }, values)
    same({ { 2, 2 } }, places)
  end)

  it("are made in segments where rows are long", function()
    local x = tide.arange(5000, { device = D.dev }):float():reshape(1, 1, 5000)
    local y = x:max_pool1d(3, 1, 1)
    assert.are.same({ 1, 1, 5000 }, y:size())
    same(4999, y[{ 1, 1, 5000 }]:item())
    same(2049, y[{ 1, 1, 2049 }]:item())
    same(2047, x:avg_pool1d(3, 1, 1)[{ 1, 1, 2048 }]:item())
    same(2048, x:avg_pool1d(3, 1, 1)[{ 1, 1, 2049 }]:item())
  end)

  it("refuse what they cannot take", function()
    local x = tide.zeros(1, 4, 4, { device = D.dev })
    D.raises("DtypeError", function() x:to("int32"):avg_pool1d(2) end)
    D.raises("DtypeError", function() x:to("bool"):max_pool1d(2) end)
    D.raises("DtypeError", function() x:to("complex64"):avg_pool1d(2) end)
    D.raises("ShapeError", function() x:max_pool3d(2) end)
    D.raises("ShapeError", function() x:max_pool2d(5) end)
    D.raises("ShapeError", function() tide.zeros(1, 1, 0, { device = D.dev }):avg_pool1d(1) end)
    D.raises("ValueError", function() x:max_pool2d(0) end)
    local e = D.raises("ValueError", function() x:max_pool2d(1 << 31) end)
    assert.is_truthy(e.message:find("got 2147483648 for spatial dim 1, expected 1 to 2147483647", 1, true))
    D.raises("ValueError", function() x:max_pool2d(2, 0) end)
    D.raises("ValueError", function() x:max_pool2d(2, 1, 2) end)
    D.raises("ValueError", function() x:max_pool2d({ 2, 2, 2 }) end)
    D.raises("ValueError", function() x:max_pool2d(2, 1, -1) end)
  end)
end)

describe("tide.interpolate", function()
  D.watch(before_each, after_each)

  -- The places that count for element i of a dim, from 0, and their weights.
  local function taps(mode, i, n, m, align, grows)
    local scale = align and (m > 1 and (n - 1) / (m - 1) or 0) or 1 / (grows or m / n)
    local p = align and i * scale or (i + 0.5) * scale - 0.5
    if mode == "nearest" then return { { math.min(math.floor(i * scale + 1e-6), n - 1), 1 } } end
    if mode == "nearest-exact" then return { { math.min(math.floor((i + 0.5) * scale + 1e-6), n - 1), 1 } } end
    if mode == "area" then
      local first, stop, out = i * n // m, -(-(i + 1) * n // m), {}
      for k = first, stop - 1 do out[#out + 1] = { k, 1 / (stop - first) } end
      return out
    end
    if mode == "linear" then
      p = math.max(p, 0)
      local k = math.min(math.floor(p), n - 1)
      return { { k, 1 - (p - k) }, { math.min(k + 1, n - 1), p - k } }
    end
    local k, out = math.floor(p), {}
    for t = -1, 2 do
      local d = math.abs(p - (k + t))
      local w = d <= 1 and (1.25 * d - 2.25) * d * d + 1 or ((-0.75 * d + 3.75) * d - 6) * d + 3
      out[#out + 1] = { math.max(0, math.min(k + t, n - 1)), w }
    end
    return out
  end

  local function resized(x, size, mode, align, grows)
    local list, n = planes(x)
    local rank, m, out = x:dim() - 2, { 1, 1, 1 }, {}
    for d = 1, rank do m[3 - rank + d] = size[d] end
    for i, plane in ipairs(list) do
      out[i] = {}
      for z = 0, m[1] - 1 do
        for y = 0, m[2] - 1 do
          for c = 0, m[3] - 1 do
            local sum = 0
            local function dim(d, k) return d <= 3 - rank and { { 0, 1 } } or taps(mode, k, n[d], m[d], align, grows) end
            for _, a in ipairs(dim(1, z)) do
              for _, b in ipairs(dim(2, y)) do
                for _, e in ipairs(dim(3, c)) do sum = sum + a[2] * b[2] * e[2] * at(plane, a[1], b[1], e[1]) end
              end
            end
            table.insert(out[i], sum)
          end
        end
      end
    end
    return out
  end

  local modes = { { "nearest", "nearest" }, { "nearest-exact", "nearest-exact" }, { "area", "area" }, { "linear", { "linear", "bilinear", "trilinear" } },
    { "cubic", { nil, "bicubic" } } }

  it("gives PyTorch's elements in every mode and layout", function()
    for _, shape in ipairs(shapes) do
      local rank, x = #shape - 2, some(table.unpack(shape))
      for _, m in ipairs(modes) do
        local mode = type(m[2]) == "table" and m[2][rank] or m[2]
        for _, size in ipairs { { 4, 7, 5 }, { 11, 3, 16 }, { 1, 1, 1 }, { 20, 9, 10 } } do
          size = table.move(size, 1, rank, 1, {})
          for _, align in ipairs(type(mode) == "string" and type(m[2]) == "table" and { false, true } or { false }) do
            local options = { size = size, mode = mode }
            if type(m[2]) == "table" then options.align_corners = align end
            if type(mode) == "string" then
              local expected = resized(x, size, m[1], align)
              for _, layout in ipairs(D.layouts(x)) do
                local y = tide.interpolate(layout[2], options)
                D.eq(expected, y:reshape(#expected, -1), 2e-5, mode .. ", " .. layout[1])
              end
            end
          end
        end
      end
    end
  end)

  it("takes images larger than a block of threads, and many that are smaller", function()
    for _, case in ipairs { { some(1, 1, 9, 150):double(), { 19, 263 } }, { some(2, 20, 4, 3), { 9, 5 } } } do
      local x, size = table.unpack(case)
      for _, mode in ipairs { "nearest", "linear", "cubic" } do
        local name = mode == "nearest" and mode or "bi" .. mode
        local expected = resized(x, size, mode)
        D.eq(expected, tide.interpolate(x, { size = size, mode = name }):reshape(#expected, -1), 2e-5, name)
      end
    end
  end)

  it("takes factors", function()
    local x = some(1, 2, 5, 6)
    D.eq(resized(x, { 10, 12 }, "linear"), tide.interpolate(x, { scale_factor = 2, mode = "bilinear" }):reshape(2, -1), 2e-5)
    local y = tide.interpolate(x, { scale_factor = { 1.5, 1.5 }, mode = "bicubic" })
    assert.are.same({ 1, 2, 7, 9 }, y:size())
    D.eq(resized(x, { 7, 9 }, "cubic", false, 1.5), y:reshape(2, -1), 2e-5)
    -- The factor says which elements there are, not the sizes that it leads to, which may be the same. Lines are copied then.
    for _, factor in ipairs { 1.05, 1.1, 1.15, 1.19, 1.3, 0.9, 1 } do
      local size = { math.floor(5 * factor), math.floor(6 * factor) }
      for _, mode in ipairs { "nearest", "nearest-exact", "cubic" } do
        y = tide.interpolate(x, { scale_factor = factor, mode = mode == "cubic" and "bicubic" or mode })
        D.eq(resized(x, size, mode, false, factor), y:reshape(2, -1), 2e-5, mode .. " " .. factor)
      end
    end
  end)

  it("takes every dtype in the nearest mode, and floating ones", function()
    for _, dtype in ipairs(D.dtypes) do
      local x = D.tensor({ { { 1, 0, 1 } } }):to(dtype)
      local y = tide.interpolate(x, { size = 6 })
      assert.are.equal(x.dtype, y.dtype)
      same({ { { 1, 1, 0, 0, 1, 1 } } }, y:to("int64"), dtype)
    end
    for _, dtype in ipairs { "float16", "bfloat16", "float64" } do
      local y = tide.interpolate(D.tensor({ { { 0., 4. } } }, dtype), { size = 4, mode = "linear" })
      same({ { { 0, 1, 3, 4 } } }, y, dtype)
    end
    assert.are.same({ 0, 1, 4 }, tide.interpolate(tide.zeros(0, 1, 2, { device = D.dev }), { size = 4 }):size())
  end)

  it("refuses what it cannot take", function()
    local x = tide.zeros(1, 1, 4, 4, { device = D.dev })
    D.raises("ArgumentError", function() tide.interpolate(x) end)
    D.raises("ArgumentError", function() tide.interpolate(x, { size = 4, scale_factor = 2 }) end)
    D.raises("ArgumentError", function() tide.interpolate(x, { size = 4, mode = "nearest", align_corners = true }) end)
    D.raises("ArgumentError", function() tide.interpolate(x, { size = 4, mode = "lanczos" }) end)
    local e = D.raises("ShapeError", function() tide.interpolate(x, { size = 4, mode = "linear" }) end)
    assert.is_truthy(e.message:find("got 4 dimensions, expected 3 for mode linear", 1, true))
    e = D.raises("ShapeError", function() tide.interpolate(x[1][1], { size = 4 }) end)
    assert.is_truthy(e.message:find("got 2 dimensions, expected 3 to 5 for mode nearest", 1, true))
    D.raises("ShapeError", function() tide.interpolate(x:unsqueeze(1), { size = 4, mode = "bicubic" }) end)
    D.raises("ValueError", function() tide.interpolate(x, { size = 0 }) end)
    D.raises("ValueError", function() tide.interpolate(x, { size = { 4, 4, 4 } }) end)
    e = D.raises("ValueError", function() tide.interpolate(x, { scale_factor = 0.1 }) end)
    assert.is_truthy(e.message:find("scale_factor: got 0.1 of 4 elements, expected one that gives 1 to 9e15", 1, true), e.message)
    D.raises("DtypeError", function() tide.interpolate(x:to("int32"), { size = 4, mode = "bilinear" }) end)
  end)
end)
