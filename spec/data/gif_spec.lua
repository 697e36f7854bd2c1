-- save_gif, read back by a reader of its own.

local tide = require "tide"
local D = require "spec.support.device"
local read = require("spec.support.gif").read

local path = os.tmpname()

-- The colors of frames [n, h, w, 3] of bytes, or grey ones [n, h, w], as the reader gives them.
local function colors(x, scale)
  scale = scale or 1
  local list, is_grey = x:to("int64"):totable(), x.ndim == 3
  for k, picture in ipairs(list) do
    local rows = {}
    for y = 1, #picture * scale do
      rows[y] = {}
      for at = 1, #picture[1] * scale do
        local v = picture[(y - 1) // scale + 1][(at - 1) // scale + 1]
        rows[y][at] = is_grey and v * 0x10101 or v[1] << 16 | v[2] << 8 | v[3]
      end
    end
    list[k] = rows
  end
  return list
end

local function saved(...)
  tide.save_gif(path, ...)
  return read(path)
end

local function same(want, gif, what)
  assert.are.equal(#want, #gif, what)
  for k, rows in ipairs(want) do
    for y, row in ipairs(rows) do
      for x, c in ipairs(row) do
        if gif[k][y][x] ~= c then
          error(("%s: frame %d, row %d, column %d: got %06x, expected %06x"):format(what, k, y, x, gif[k][y][x] or -1, c))
        end
      end
    end
  end
end

describe("save_gif", function()
  D.watch(before_each, after_each)
  teardown(function() os.remove(path) end)

  it("writes bytes as they are: greys, black and white, up to 256 colors", function()
    local g = tide.Generator():manual_seed(3)
    local grey = tide.randint(0, 256, { 3, 70, 61 }, { generator = g }):to(tide.uint8)
    same(colors(grey), saved(grey:to(D.dev)), "grey")
    local life = tide.rand(4, 33, 90, { generator = g }):gt(0.5)
    same(colors(life:to(tide.uint8) * 255), saved(life), "life")
    for _, n in ipairs { 1, 2, 3, 5, 64, 65, 256 } do
      local palette = tide.randint(0, 256, { n, 3 }, { generator = g })
      local index = tide.randint(1, n + 1, { 2 * 40 * 30 }, { generator = g })
      local x = palette:index_select(1, index):view(2, 40, 30, 3):to(tide.uint8)
      same(colors(x), saved(x), n .. " colors")
    end
  end)

  it("warns of a list whose pictures are one tensor, or two that take turns", function()
    local function warning(list)
      local _, err = D.simulate(1, "local a, b = tide.zeros(4, 4), tide.ones(4, 4) tide.save_gif('" .. path .. "', {" .. list .. "})")
      return err:match "Lua warning: ([^\n]*)"
    end
    assert.are.equal("save_gif: all 5 frames are one tensor: keep x:clone() of one that changes", warning "a, a, a, a, a")
    assert.are.equal("save_gif: all 6 frames are two tensors: keep x:clone() of one that changes", warning "a, b, a, b, a, b")
    assert.is_nil(warning "a, b, a, b")
    assert.is_nil(warning "a, b, a:clone(), b, a")
  end)

  it("writes every layout alike", function()
    local x = tide.arange(0, 72, { dtype = tide.int32 }):mul(37):remainder(256)
    for what, frames in pairs { grey = x:to(tide.uint8):view(2, 6, 6), color = x:to(tide.uint8):view(2, 4, 3, 3), life = x:view(2, 6, 6):gt(99) } do
      local want = saved(frames)
      for _, layout in ipairs(D.layouts(frames:to(D.dev))) do same(want, saved(layout[2]), what .. ", " .. layout[1]) end
    end
  end)

  it("writes long runs and noise, through the whole table of codes", function()
    local x = tide.zeros(2, 200, 300, { dtype = tide.uint8 })
    same(colors(x), saved(x), "one color")
    x = (tide.arange(0, 120000) * tide.arange(0, 120000) / 7):remainder(256):to(tide.uint8):view(2, 200, 300)
    same(colors(x), saved(x), "noise")
  end)

  it("writes of a frame what has changed", function()
    local x = tide.zeros(12, 50, 40, { dtype = tide.uint8 })
    for k = 1, 12 do x[{ k, { k, k + 20 }, { 3, k + 5 } }] = k * 9 end
    x[5] = x[4]
    x[{ 6, 50, 40 }] = 200
    x[{ 7, 1, 1 }] = 201
    local gif = saved(x, { scale = 3 })
    same(colors(x, 3), gif, "parts")
    assert.are.equal(150, gif.h)
    assert.are.equal(120, gif.w)
    x = tide.zeros(10, 50, 40, { dtype = tide.uint8 })
    assert.are.equal(50 * 40 + 9, saved(x).written)
  end)

  it("reduces more colors to 256 that are near", function()
    local x = tide.linspace(0, 255, 64):view(1, 64, 1, 1):expand(2, 64, 48, 3) * tide.tensor { 1, 0.5, 0.25 } + tide.linspace(0, 90, 48):view(1, 1, 48, 1)
    x = x:clamp(0, 255):to(tide.uint8)
    local gif, kinds, count, sum, worst = saved(x), {}, 0, 0, 0
    for k, rows in ipairs(colors(x)) do
      for y, row in ipairs(rows) do
        for at, c in ipairs(row) do
          local got = gif[k][y][at]
          if not kinds[got] then kinds[got], count = true, count + 1 end
          for shift = 0, 16, 8 do
            local off = math.abs((c >> shift & 255) - (got >> shift & 255))
            sum, worst = sum + off, math.max(worst, off)
          end
        end
      end
    end
    assert.is_true(count <= 256 and count > 200, count)
    assert.is_true(worst <= 20, worst)
    assert.is_true(sum / x:numel() < 4, sum / x:numel())
  end)

  it("shows other values by their range and a color map", function()
    local x = tide.tensor { { { -1, 0 }, { 1, 3 } } }:to(tide.float32)
    same(colors(tide.tensor { { { 0, 64 }, { 128, 255 } } }), saved(x), "range of floats")
    same(colors(tide.tensor { { { 0, 64 }, { 128, 255 } } }), saved(x:to(tide.int64)), "range of integers")
    same(colors(tide.tensor { { { 0, 0 }, { 128, 255 } } }), saved(x, { vmin = 0, vmax = 2 }), "limits")
    local gif = saved(x, { cmap = "viridis" })
    assert.are.equal(0x440154, gif[1][1][1])
    assert.are.equal(0xfde725, gif[1][2][2])
    x[{ 1, 1, 2 }] = 0 / 0
    x[{ 1, 2, 1 }] = math.huge
    same(colors(tide.tensor { { { 0, 0 }, { 255, 255 } } }), saved(x), "NaN and infinity")
    same(colors(tide.tensor { { { 0, 0 } } }), saved(tide.full({ 1, 1, 2 }, 7.)), "one value")
    same(colors(tide.tensor { { { 0, 0 } } }), saved(tide.full({ 1, 1, 2 }, 0 / 0)), "NaN alone")
    same(colors(tide.tensor { { { { 0, 128, 255 }, { 255, 255, 0 } } } }), saved(tide.tensor { { { { 0, 0.5, 1 }, { 2, 1, -1 } } } }), "colors")
  end)

  it("takes a list of pictures", function()
    local a, b = tide.zeros(3, 4, { dtype = tide.uint8 }), tide.full({ 3, 4 }, 9, { dtype = tide.uint8 })
    same(colors(tide.stack { a, b, a }), saved { a, b, a }, "list")
  end)

  it("has frames a second, and loops", function()
    local x = tide.rand(7, 3, 3)
    assert.are.same({ 5, 5, 5, 5, 5, 5, 5 }, saved(x).delays)
    assert.are.same({ 3, 4, 3, 3, 4, 3, 3 }, saved(x, { fps = 30 }).delays)
    assert.are.same({ 200, 200, 200, 200, 200, 200, 200 }, saved(x, { fps = 0.5 }).delays)
    assert.are.equal(0, saved(x).loop)
    assert.are.equal(2, saved(x, { loop = 3 }).loop)
    assert.is_nil(saved(x, { loop = 1 }).loop)
  end)

  it("refuses what it cannot show", function()
    local function fails(kind, what, ...)
      local e = D.raises(kind, tide.save_gif, ...)
      assert.is_truthy(e.message:find(what, 1, true), e.message)
    end
    local x = tide.rand(2, 4, 4)
    fails("ShapeError", "expected [n, h, w] or [n, h, w, 3]", path, tide.rand(4, 4))
    fails("ShapeError", "expected [n, h, w] or [n, h, w, 3]", path, tide.rand(2, 4, 4, 4))
    fails("ShapeError", "with no size 0", path, tide.rand(0, 4, 4))
    fails("ArgumentError", "frames: got number 5, expected a tensor, or a list", path, 5)
    fails("DtypeError", "expected real values", path, tide.zeros(2, 4, 4, { dtype = tide.complex64 }))
    fails("ValueError", "fps: got 0", path, x, { fps = 0 })
    fails("ValueError", "fps: got 101", path, x, { fps = 101 })
    fails("ValueError", "scale: got 0", path, x, { scale = 0 })
    fails("ValueError", "at most 65535 pixels a side", path, tide.zeros(1, 1, 2000), { scale = 33 })
    fails("ValueError", "loop: got 65537", path, x, { loop = 65537 })
    fails("FileError", "no_such_folder", "/no_such_folder/x.gif", x)
    assert.are.equal(2, #saved(x))
  end)
end)
