-- Convolutions of fields on a grid, and values between their points. The expected values are
-- plain Lua's, computed below, in adversarial layouts; what is refused.

local tide = require "tide"
local D = require "spec.support.device"
local F = require "spec.support.field"

local some, at, planes = F.some, F.at, F.planes
local nan = 0 / 0
local function same(expected, x, what) D.eq(expected, x, 0, what) end

describe("convolutions", function()
  D.watch(before_each, after_each)

  -- The sum over the channels of a group and the elements of the kernel, as 3-d planes; o.up: distance of x's elements.
  local function convolved(x, w, bias, o)
    local list, n = planes(x)
    local kernels, k = planes(w)
    local rank, groups = x:dim() - 2, o.groups or 1
    local channels, results = x:size(2), o.transposed and w:size(2) * groups or w:size(1)
    local function option(name, d, standard)
      if d <= 3 - rank then return name == "padding" and 0 or name == "output_padding" and 0 or 1 end
      return o[name] and o[name][d - 3 + rank] or standard
    end
    local size, stride, before, apart = {}, {}, {}, {}
    for d = 1, 3 do
      stride[d], before[d], apart[d] = option("stride", d, 1), option("padding", d, 0), option("dilation", d, 1)
      local wide = (k[d] - 1) * apart[d]
      if o.transposed then
        size[d] = (n[d] - 1) * stride[d] - 2 * before[d] + wide + option("output_padding", d, 0) + 1
      else
        size[d] = (n[d] + 2 * before[d] - wide - 1) // stride[d] + 1
      end
    end
    local b, out, inner = bias and bias:tolist(), {}, channels // groups
    local function source(d, i, t)
      if not o.transposed then
        local p = i * stride[d] - before[d] + t * apart[d]
        return p >= 0 and p < n[d] and p or nil
      end
      local p = i + before[d] - t * apart[d]
      return p >= 0 and p % stride[d] == 0 and p // stride[d] < n[d] and p // stride[d] or nil
    end
    for image = 0, x:size(1) - 1 do
      for r = 0, results - 1 do
        local plane, g = {}, r // (results // groups)
        for z = 0, size[1] - 1 do
          for y = 0, size[2] - 1 do
            for c = 0, size[3] - 1 do
              local sum = b and b[r + 1] or 0
              for i = 0, inner - 1 do
                local from = list[image * channels + g * inner + i + 1]
                local by = o.transposed and kernels[(g * inner + i) * w:size(2) + r % (results // groups) + 1]
                  or kernels[r * inner + i + 1]
                for tz = 0, k[1] - 1 do
                  local pz = source(1, z, tz)
                  for ty = 0, pz and k[2] - 1 or -1 do
                    local py = source(2, y, ty)
                    for tx = 0, py and k[3] - 1 or -1 do
                      local px = source(3, c, tx)
                      if px then sum = sum + at(from, pz, py, px) * at(by, tz, ty, tx) end
                    end
                  end
                end
              end
              table.insert(plane, sum)
            end
          end
        end
        table.insert(out, plane)
      end
    end
    return out
  end

  local shapes_of = { { { 2, 4, 19 }, { 3 } }, { { 2, 4, 7, 9 }, { 3, 2 } }, { { 1, 4, 3, 5, 4 }, { 2, 3, 2 } } }
  local cases = { {}, { stride = 2, padding = 1 }, { dilation = 2, padding = 2 }, { groups = 2, padding = 1 }, { groups = 4 } }

  local function each(rank, p, more)
    local full = { groups = p.groups }
    for name, v in pairs(p) do
      if name ~= "groups" then
        full[name] = {}
        for d = 1, rank do full[name][d] = v end
      end
    end
    for name, v in pairs(more or {}) do full[name] = v end
    return full
  end

  for rank, shape in ipairs(shapes_of) do
    it(("sum over channels and kernels of %d dims"):format(rank), function()
      for _, p in ipairs(cases) do
        local o, groups = each(rank, p), p.groups or 1
        local x = some(table.unpack(shape[1]))
        for _, results in ipairs { 4, 20 } do
          local w, b = some(results, 4 // groups, table.unpack(shape[2])), some(results)
          local expected = convolved(x, w, b, o)
          local f = tide["conv" .. rank .. "d"]
          for i, layout in ipairs(D.layouts(x)) do
            same(expected, f(layout[2], D.layouts(w)[i % 3 + 1][2], b, o):reshape(#expected, -1), layout[1])
          end
          same(convolved(x, w, nil, o), f(x, w, o):reshape(#expected, -1))
          o.transposed = true
          local v, back = some(4, results // groups, table.unpack(shape[2])), tide["conv_transpose" .. rank .. "d"]
          local options = each(rank, p)
          expected = convolved(x, v, b, o)
          same(expected, back(x, v, b, options):reshape(#expected, -1))
          o.transposed = nil
        end
      end
    end)
  end

  it("take every floating dtype, and x without a batch", function()
    local x, w, b = some(2, 16, 6, 5), some(24, 16, 3, 3), some(24)
    local o = { padding = 1 }
    local expected = convolved(x, w, b, { padding = { 1, 1 } })
    for _, dtype in ipairs { "float16", "bfloat16", "float32", "float64" } do
      local y = tide.conv2d(x:to(dtype), w:to(dtype), b:to(dtype), o)
      assert.are.equal(dtype, D.dtype_name(y))
      D.eq(expected, y:reshape(#expected, -1), D.eps[dtype], dtype)
    end
    same(x[1]:conv2d(w, b, o), x:conv2d(w, b, o)[1])
    assert.are.same({ 0, 24, 4, 3 }, tide.zeros(0, 16, 6, 5, { device = D.dev }):conv2d(w):size())
  end)

  it("of complex numbers are those of their parts", function()
    local function pair(...) return some(...), some(...) end
    for _, dtype in ipairs { "complex64", "complex128" } do
      local parts = dtype == "complex64" and "float32" or "float64"
      for rank = 1, 3 do
        local shape, kernel = { 4, 5, 3 }, { 2, 3, 2 }
        local function sized(a, b, list) return a, b, table.unpack(list, 1, rank) end
        for _, back in ipairs { false, true } do
          local f = tide[(back and "conv_transpose" or "conv") .. rank .. "d"]
          local a, b = pair(sized(2, 4, shape))
          local u, v = pair(sized(4, 2, kernel))
          local c, d = pair(4)
          local options = { stride = 2, padding = 1, groups = 2, dilation = 1 }
          local function make(re, im) return tide.complex(re:to(parts), im:to(parts)) end
          local x, w, bias = make(a, b), make(u, v), make(c, d)
          local re, im = f(a, u, options) - f(b, v, options), f(a, v, options) + f(b, u, options)
          local y = f(x, w, options)
          assert.are.equal(dtype, D.dtype_name(y))
          same(re, y:real())
          same(im, y:imag())
          local along = { 1, 4, table.unpack({ 1, 1, 1 }, 1, rank) }
          y = f(x, w, bias, options)
          same(re + c:reshape(along), y:real())
          same(im + d:reshape(along), y:imag())
          y = f(x, u:to(parts), bias, options) -- w is real
          same(f(b, u, d, options), y:imag())
          same(f(a, u, c, options), y:real())
          local out = tide.empty(0, { dtype = dtype, device = D.dev })
          options.out = out
          same(f(x[1], w, options):real(), re[1])
          same(re[1], out:real())
        end
      end
    end
  end)

  it("keep the size, or leave the borders", function()
    local x, w = some(1, 2, 8), some(3, 2, 4)
    same(x:pad({ 1, 2 }):conv1d(w), x:conv1d(w, { padding = "same" }))
    same(x:conv1d(w), x:conv1d(w, { padding = "valid" }))
    assert.are.same({ 1, 3, 18 }, tide.conv_transpose1d(x, some(2, 3, 3), { stride = 2, output_padding = 1 }):size())
  end)

  it("are made in blocks, with tiles that are not whole", function()
    local x, w = some(2, 9, 37, 41), some(130, 9, 3, 3)
    local y = x:conv2d(w, { padding = 1 })
    local sum = tide.zeros(2, 130, 37, 41, { device = D.dev })
    local wide = x:pad { 1, 1, 1, 1 }
    for i = 1, 3 do
      for j = 1, 3 do
        local part = wide[{ {}, {}, { i, i + 36 }, { j, j + 40 } }]:reshape(2, 9, -1)
        sum = sum + w[{ {}, {}, i, j }]:matmul(part):reshape(2, 130, 37, 41)
      end
    end
    same(sum, y)
    D.eq(sum, x:half():conv2d(w:half(), { padding = 1 }):float(), 2e-3)
  end)

  -- Whole numbers, whose sums float32 holds: each dtype gives the one of float64, rounded once.
  local shapes = {
    { "several tiles of results and places", { 2, 40, 13, 17 }, { 136, 40, 3, 3 }, { padding = 1 } },
    { "channels that are not whole chunks", { 1, 70, 9, 12 }, { 20, 70, 3, 3 }, { stride = 2, padding = 1 } },
    { "few channels", { 3, 3, 20, 22 }, { 64, 3, 7, 7 }, { stride = 2, padding = 3 } },
    { "few channels in groups", { 2, 6, 11, 12 }, { 32, 3, 3, 4 }, { groups = 2, dilation = { 1, 2 }, padding = 2 } },
    { "groups", { 2, 32, 14, 14 }, { 160, 16, 3, 3 }, { groups = 2, dilation = 2, padding = 2 } },
    { "images that share a tile", { 9, 24, 7, 7 }, { 16, 24, 1, 1 }, {} },
    { "one dim", { 2, 16, 300 }, { 24, 16, 5 }, { padding = 2 } },
    { "rows of several tiles", { 2, 6, 5, 70 }, { 13, 6, 3, 3 }, { padding = 1 } },
    { "rows of several tiles, without a border", { 1, 6, 6, 75 }, { 8, 6, 3, 3 }, {} },
    { "rows of several tiles of every second place", { 2, 6, 9, 141 }, { 8, 6, 3, 3 }, { padding = { 1, 2 }, stride = 2 } },
    { "small images", { 5, 6, 7, 7 }, { 8, 6, 3, 3 }, { padding = 1 } },
    { "small images in groups", { 3, 8, 5, 7 }, { 12, 4, 2, 3 }, { groups = 2, stride = { 1, 2 }, padding = 1 } },
    { "planes of whole pages", { 1, 6, 32, 64 }, { 8, 6, 1, 1 }, {} },
    { "three dims", { 2, 12, 5, 9, 8 }, { 20, 12, 3, 2, 3 }, { padding = 1, stride = { 1, 2, 1 } } },
    { "a long stride", { 2, 16, 40, 40 }, { 16, 16, 3, 3 }, { stride = 9, padding = 1 } },
    { "each channel alone", { 2, 5, 13, 11 }, { 5, 1, 3, 3 }, { groups = 5, padding = 1 } },
    { "several results of each channel", { 2, 5, 13, 11 }, { 10, 1, 3, 3 }, { groups = 5, stride = 2 } },
    { "each channel alone by 5 x 5", { 2, 3, 9, 7 }, { 3, 1, 5, 5 }, { groups = 3, padding = { 4, 2 } } },
    { "each channel alone by 7 x 7", { 1, 3, 9, 12 }, { 3, 1, 7, 7 }, { groups = 3, padding = 3 } },
    { "each channel alone in one dim", { 2, 3, 21 }, { 3, 1, 4 }, { groups = 3, padding = 3 } },
    { "each channel alone, dilated", { 2, 3, 9, 9 }, { 3, 1, 3, 3 }, { groups = 3, dilation = 2 } },
  }
  for _, case in ipairs(shapes) do
    it("are the same in every dtype: " .. case[1], function()
      local x, w, o = some(table.unpack(case[2])), some(table.unpack(case[3])), case[4]
      local b, f = some(case[3][1]), tide["conv" .. #case[2] - 2 .. "d"]
      local expected = f(x:double(), w:double(), b:double(), o)
      for _, dtype in ipairs { "float16", "bfloat16", "float32" } do
        same(expected:to(dtype), f(x:to(dtype), w:to(dtype), b:to(dtype), o), dtype)
      end
      local matmul = tide.backends.cuda.matmul
      matmul.fp32_precision = "tf32"
      local ok, y = pcall(f, x, w, b, o)
      matmul.fp32_precision = "ieee"
      assert(ok, y)
      same(expected:float(), y, "tf32")
    end)
  end

  it("are, transposed, those of an input with zeros between its elements", function()
    for _, case in ipairs { { 5, 37, 4, 2, 1 }, { 4, 70, 3, 2, 0 }, { 6, 29, 5, 3, 2 }, { 9, 8, 2, 1, 0 } } do
      local rows, columns, kernel, stride, padding = table.unpack(case)
      local x, w = some(2, 7, rows, columns), some(7, 9, kernel, kernel)
      local between = tide.zeros(2, 7, (rows - 1) * stride + 1, (columns - 1) * stride + 1, { device = D.dev })
      between[{ {}, {}, { 1, -1, stride }, { 1, -1, stride } }] = x
      local o = { padding = kernel - 1 - padding }
      local expected = between:conv2d(w:flip(3, 4):transpose(1, 2), o)
      same(expected, x:conv_transpose2d(w, { stride = stride, padding = padding }), rows .. " x " .. columns)
      same(expected:double(), x:double():conv_transpose2d(w:double(), { stride = stride, padding = padding }))
    end
  end)

  it("are captured and replayed with other values", function()
    if not D.cuda then return pending "needs a device" end
    for _, w in ipairs { some(24, 16, 3, 3), some(24, 16, 1, 1) } do
      for _, dtype in ipairs { "float32", "float16" } do
        local x, v, b, y = some(2, 16, 10, 9):to(dtype), w:to(dtype), some(24):to(dtype)
        x:conv2d(v, b) -- opens what it needs
        local g = tide.cuda.CUDAGraph()
        tide.cuda.graph(g, function() y = x:conv2d(v, b) end)
        x:copy_(some(2, 16, 10, 9))
        g:replay()
        same(x:conv2d(v, b), y, dtype)
      end
    end
  end)

  it("refuse what they cannot take", function()
    local x, w = tide.zeros(1, 4, 8, 8, { device = D.dev }), tide.zeros(6, 4, 3, 3, { device = D.dev })
    D.raises("ShapeError", function() x:conv1d(w) end)
    D.raises("ShapeError", function() x:conv2d(w[1]) end)
    D.raises("ShapeError", function() x:conv2d(w:transpose(1, 2)) end)
    D.raises("ShapeError", function() x:conv2d(w, tide.zeros(4, { device = D.dev })) end)
    D.raises("ShapeError", function() x:conv2d(tide.zeros(6, 4, 9, 9, { device = D.dev })) end)
    D.raises("DtypeError", function() x:conv2d(w:double()) end)
    D.raises("DtypeError", function() x:to("int32"):conv2d(w:to("int32")) end)
    local z = x:to("complex64")
    D.raises("DtypeError", function() z:conv2d(w:double()) end)
    D.raises("DtypeError", function() x:conv2d(w:to("complex64")) end)
    D.raises("DtypeError", function() z:conv2d(w, tide.zeros(6, { device = D.dev })) end)
    D.raises("ShapeError", function() z:conv2d(w, tide.zeros(4, { dtype = "complex64", device = D.dev })) end)
    D.raises("ShapeError", function() z:conv1d(w) end)
    D.raises("ValueError", function() x:conv2d(w, { stride = 0 }) end)
    local e = D.raises("ValueError", function() x:conv2d(w, { stride = 1 << 31 }) end)
    assert.is_truthy(e.message:find("expected 1 to 2147483647", 1, true))
    local long, short = tide.zeros(1, 1, 1, { device = D.dev }):expand(1, 1, 1 << 40), tide.zeros(1, 1, 2, { device = D.dev })
    D.raises("OutOfMemoryError", function() tide.conv_transpose1d(long, short, { stride = (1 << 31) - 1 }) end)
    D.raises("ValueError", function() x:conv2d(w, { groups = 3 }) end)
    D.raises("ValueError", function() x:conv2d(w, { padding = -1 }) end)
    D.raises("ValueError", function() x:conv2d(w, { padding = "same", stride = 2 }) end)
    D.raises("ArgumentError", function() x:conv2d(w, { padding = "full" }) end)
    D.raises("ValueError", function() tide.conv_transpose2d(x, tide.zeros(4, 2, 3, 3, { device = D.dev }), { output_padding = 2 }) end)
  end)
end)

describe("tide.grid_sample", function()
  D.watch(before_each, after_each)

  local function inside(p, n, beyond, align)
    if beyond == "zeros" then return p end
    if beyond == "reflection" then
      local low, span = align and 0 or -0.5, align and n - 1 or n
      if span == 0 then return 0 end
      local far = math.abs(p - low)
      local turns, rest = far // span, far % span
      p = turns % 2 == 0 and rest + low or span - rest + low
    end
    return math.max(0, math.min(p, n - 1))
  end

  local function round(p) -- half to even
    local low = math.floor(p)
    if p - low ~= 0.5 then return math.floor(p + 0.5) end
    return low % 2 == 0 and low or low + 1
  end

  -- The places that count along a dim, with weights.
  local function taps(mode, g, n, beyond, align)
    local p = align and (g + 1) / 2 * (n - 1) or ((g + 1) * n - 1) / 2
    if mode == "bicubic" then
      local k, out = math.floor(p), {}
      for t = -1, 2 do
        local d = math.abs(p - (k + t))
        local w = d <= 1 and (1.25 * d - 2.25) * d * d + 1 or ((-0.75 * d + 3.75) * d - 6) * d + 3
        out[#out + 1] = { inside(k + t, n, beyond, align), w }
      end
      return out
    end
    p = inside(p, n, beyond, align)
    if mode == "nearest" then return { { round(p), 1 } } end
    local k = math.floor(p)
    return { { k, k + 1 - p }, { k + 1, p - k } }
  end

  local function sampled(x, grid, mode, beyond, align)
    local list, n = planes(x)
    local rank, channels = x:dim() - 2, x:size(2)
    local points = grid:double():reshape(grid:size(1), -1, rank):tolist()
    local out = {}
    for i, plane in ipairs(list) do
      out[i] = {}
      for j, g in ipairs(points[(i - 1) // channels + 1]) do
        local along, sum = {}, 0
        for d = 1, 3 do along[d] = d <= 3 - rank and { { 0, 1 } } or taps(mode, g[4 - d], n[d], beyond, align) end
        for _, a in ipairs(along[1]) do
          for _, b in ipairs(along[2]) do
            for _, c in ipairs(along[3]) do
              local row = plane[a[1] + 1] and plane[a[1] + 1][b[1] + 1]
              local v = row and row[c[1] + 1]
              if v then sum = sum + a[2] * b[2] * c[2] * v end
            end
          end
        end
        out[i][j] = sum
      end
    end
    return out
  end

  it("gives the values between the points", function()
    for _, shape in ipairs { { 2, 3, 5, 6 }, { 1, 40, 1, 3 }, { 2, 2, 3, 4, 5 } } do
      local rank, x = #shape - 2, some(table.unpack(shape)):double()
      local grid = tide.rand(shape[1], 3, table.unpack(rank == 2 and { 50, 2 } or { 2, 25, 3 })):to(D.dev):double() * 3 - 1.5
      for _, mode in ipairs { "bilinear", "nearest", rank == 2 and "bicubic" or nil } do
        for _, beyond in ipairs { "zeros", "border", "reflection" } do
          for _, align in ipairs { false, true } do
            local options = { mode = mode, padding_mode = beyond, align_corners = align }
            local expected = sampled(x, grid, mode, beyond, align)
            for _, layout in ipairs(D.layouts(x)) do
              local y = tide.grid_sample(layout[2], grid, options)
              D.eq(expected, y:reshape(#expected, -1), 1e-9, mode .. ", " .. beyond .. ", " .. layout[1])
            end
            if mode ~= "nearest" then
              D.eq(expected, tide.grid_sample(x:float(), grid:float(), options):reshape(#expected, -1), 2e-4, mode)
            end
          end
        end
      end
    end
  end)

  it("takes 16-bit floats, and places that are no numbers", function()
    local x = D.tensor { { { { 1., 2. }, { 3., 4. } } } }
    local grid = D.tensor { { { { -1., -1. }, { 1., 1. }, { 0., 0. }, { nan, 0. }, { 1e30, 0. } } } }
    for _, dtype in ipairs { "float16", "bfloat16", "float32", "float64" } do
      local g = grid:clamp(-1000, 1000):to(dtype)
      same({ { { { 1, 4, 2.5 } } } }, tide.grid_sample(x:to(dtype), g[{ {}, {}, { 1, 3 }, {} }], { align_corners = true }), dtype)
    end
    same({ { { { 1, 4, 2.5, 0, 0 } } } }, tide.grid_sample(x, grid, { align_corners = true }))
  end)

  it("takes halves and borders in float32 as they are", function()
    for _, align in ipairs { false, true } do
      local size = align and { 9, 17 } or { 8, 16 } -- places are numbers of float32 then
      local function places(n)
        local p = tide.arange(-2.5, n + 2, 0.5, { dtype = "float64" })
        return align and p * 2 / (n - 1) - 1 or (p * 2 + 1) / n - 1
      end
      local y, x = tide.meshgrid { places(size[1]), places(size[2]) }
      local grid, input = tide.stack({ x, y }, -1):unsqueeze(1):to(D.dev), some(1, 3, size[1], size[2]):double()
      for _, mode in ipairs { "bilinear", "nearest", "bicubic" } do
        for _, beyond in ipairs { "zeros", "border", "reflection" } do
          local values = tide.grid_sample(input:float(), grid:float(), { mode = mode, padding_mode = beyond, align_corners = align })
          D.eq(sampled(input, grid, mode, beyond, align), values:reshape(3, -1), 2e-5, mode .. ", " .. beyond)
        end
      end
    end
  end)

  it("goes with affine_grid", function()
    local theta = D.tensor { { { 1., 0., 0. }, { 0., 1., 0. } }, { { 0., -1., 0.5 }, { 1., 0., 0. } } }
    local x = some(2, 3, 4, 4)
    for _, align in ipairs { false, true } do
      local grid = tide.affine_grid(theta, { 2, 3, 4, 4 }, { align_corners = align })
      assert.are.same({ 2, 4, 4, 2 }, grid:size())
      D.eq(x[1], tide.grid_sample(x, grid, { align_corners = align })[1], 1e-5)
    end
    D.eq({ { { { -0.5, -0.5 }, { 0.5, -0.5 } }, { { -0.5, 0.5 }, { 0.5, 0.5 } } } }, tide.affine_grid(theta[{ { 1, 1 } }], { 1, 1, 2, 2 }), 1e-6)
    D.raises("ArgumentError", tide.affine_grid, -math.huge, print)
    D.raises("ArgumentError", tide.affine_grid, tide.ones(3, 3))
    D.eq({ 1, -1 }, tide.affine_grid(theta, { 2, 1, 2, 2 }, { align_corners = true })[{ 2, 1, 1 }] - D.tensor { 0.5, 0. }, 1e-6)
    local deep = tide.affine_grid(D.tensor { { { 1., 0., 0., 0. }, { 0., 1., 0., 0. }, { 0., 0., 1., 2. } } }, { 1, 1, 2, 3, 4 })
    assert.are.same({ 1, 2, 3, 4, 3 }, deep:size())
    D.eq({ -0.75, -2 / 3, 1.5 }, deep[{ 1, 1, 1, 1 }], 1e-6)
  end)

  it("gives a place of many the value that it has alone", function()
    for _, dtype in ipairs { "float32", "float64", "bfloat16" } do
      for mode, rank in pairs { nearest = 3, bilinear = 2, bicubic = 2 } do
        local size, places = { 2, 5, 9, 11 }, { 2, 70, 91, 2 }
        if rank == 3 then size, places = { 2, 5, 4, 9, 11 }, { 2, 7, 10, 91, 3 } end
        local x = tide.randn(size, { device = D.dev }):to(dtype)
        local grid = (tide.rand(places, { device = D.dev }) * 3 - 1.5):to(dtype)
        x:view(-1)[3] = 0 / 0
        local function values(g)
          return tide.grid_sample(x, g, { mode = mode }):reshape(2, 5, -1):double():nan_to_num { nan = 77 }
        end
        local y, list, one = values(grid), grid:reshape(2, -1, rank), rank == 3 and { 2, 1, 1, 1, 3 } or { 2, 1, 1, 2 }
        for _, k in ipairs { 1, 129, 3000, 5000, 6370 } do
          local alone = values(list:narrow(2, k, 1):reshape(one))
          assert.is_true((alone - y:narrow(3, k, 1)):abs():max():item() <= 8 * D.eps[dtype], dtype .. mode .. k)
        end
      end
    end
  end)

  it("refuses what it cannot take", function()
    local x, grid = tide.zeros(1, 1, 4, 4, { device = D.dev }), tide.zeros(1, 2, 2, 2, { device = D.dev })
    D.raises("ShapeError", function() tide.grid_sample(x[1], grid) end)
    D.raises("ShapeError", function() tide.grid_sample(x, grid:expand(2, 2, 2, 2)) end)
    D.raises("ShapeError", function() tide.grid_sample(x, tide.zeros(1, 2, 2, 3, { device = D.dev })) end)
    D.raises("DtypeError", function() tide.grid_sample(x, grid:double()) end)
    D.raises("DtypeError", function() tide.grid_sample(x:to("int32"), grid:to("int32")) end)
    D.raises("ArgumentError", function() tide.grid_sample(x, grid, { mode = "area" }) end)
    D.raises("ShapeError", function() tide.affine_grid(grid[1], { 1, 1, 2, 2 }) end)
    for _, dtype in ipairs { tide.int64, tide.bool, tide.complex64 } do
      local theta = tide.ones(1, 2, 3, { dtype = dtype, device = D.dev })
      local e = D.raises("DtypeError", function() tide.affine_grid(theta, { 1, 1, 2, 2 }) end)
      assert.matches("theta: got " .. tostring(dtype):gsub("^tide%.", ""), e.message, 1, true)
    end
  end)
end)
