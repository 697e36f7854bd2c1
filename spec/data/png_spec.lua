-- Pictures in PNG files: reading gives the samples in the file, and writing them gives the same samples back.

local tide = require "tide"
local D = require "spec.support.device"
local F = require "spec.support.file"
local P = require "spec.support.png"

F.watch(before_each, after_each)

-- Samples that differ everywhere and reach both ends.
local function samples(depth, seed)
  local top = (1 << depth) - 1
  local ends = { 0, top, top // 2, top - 1, 1, 1000, 32768, 38 }
  return function(y, x, c)
    local k = y * 31 + x * 7 + c * 3 + seed
    return (k % 3 == 0 and ends[k // 3 % #ends + 1] or k * 2654435761 >> 7) & top
  end
end

-- The colors of a palette, and the alpha of its first ones.
local function palette(depth)
  local colors, alpha = {}, {}
  for i = 0, (1 << depth) - 1 do colors[i] = { i * 37 & 255, 255 - i & 255, i * i & 255 } end
  for i = 0, (1 << depth) // 2 do alpha[i] = i * 91 & 255 end
  return colors, alpha
end

-- The picture p as lists, at p.bits bits: each pixel from p.sample, the palette and the transparent color.
local function expected(p, bits)
  local top = (1 << p.depth) - 1
  local function scale(v) -- of the file's depth
    if bits == 16 then return v * (65535 // top) end
    return p.depth == 16 and (v * 255 + 32767) // 65535 or v * (255 // top)
  end
  local function byte(v) return bits == 16 and v * 257 or v end
  local full = bits == 16 and 65535 or 255
  local out = {}
  for y = 0, p.h - 1 do
    out[y + 1] = {}
    for x = 0, p.w - 1 do
      local pixel, raw = {}, {}
      for c = 0, P.channels[p.type] - 1 do raw[c + 1] = p.sample(y, x, c) end
      if p.type == 3 then
        for c = 1, 3 do pixel[c] = byte(p.colors[raw[1]][c]) end
        if p.alpha then pixel[4] = byte(p.alpha[raw[1]] or 255) end
      else
        for c = 1, #raw do pixel[c] = scale(raw[c]) end
        if p.key then
          local same = true
          for c = 1, #raw do same = same and raw[c] == p.key[c] end
          pixel[#pixel + 1] = same and 0 or full
        end
      end
      out[y + 1][x + 1] = pixel
    end
  end
  return out
end

-- A picture of the kind, whose transparent color is one of its pixels'.
local function picture(type, depth, transparent, w, h)
  local p = { type = type, depth = depth, w = w, h = h, sample = samples(depth, type * 5 + depth), late = {}, early = {} }
  if type == 3 then
    local bytes = {}
    p.colors, p.alpha = palette(depth)
    for i = 0, (1 << depth) - 1 do bytes[i + 1] = string.char(table.unpack(p.colors[i])) end
    p.palette = table.concat(bytes)
    if transparent then
      bytes = {}
      for i = 0, #p.alpha do bytes[i + 1] = string.char(p.alpha[i]) end
      p.late[1] = { "tRNS", table.concat(bytes) }
    else
      p.alpha = nil
    end
  elseif transparent then
    p.key = {}
    for c = 1, P.channels[type] do p.key[c] = p.sample(h - 1, w - 1, c - 1) end
    p.late[1] = { "tRNS", string.pack((">" .. ("I2"):rep(#p.key)), table.unpack(p.key)) }
  end
  return p
end

-- Calls f with every kind of picture.
local function each_kind(f)
  for type, depths in pairs(P.depths) do
    for _, depth in ipairs(depths) do
      for transparent = 0, type < 4 and 1 or 0 do f(picture(type, depth, transparent == 1, 9, 5)) end
    end
  end
end

local function holds(want, dtype, x, what)
  assert.are.equal(dtype, D.dtype_name(x), what)
  D.eq(want, x, 0, what)
end

describe("load_png", function()
  D.watch(before_each, after_each)

  it("gives the samples in the file, of every type, depth, order and filter", function()
    each_kind(function(p)
      local bits = p.depth == 16 and 16 or 8
      local want, dtype = expected(p, bits), bits == 16 and "int32" or "uint8"
      for _, interlaced in ipairs { false, true } do
        for _, filter in ipairs { 0, "all" } do
          p.interlaced, p.filter = interlaced, filter
          F.put(P.build(p))
          holds(want, dtype, tide.load_png(F.path), ("type %d, depth %d%s"):format(p.type, p.depth, interlaced and ", interlaced" or ""))
        end
      end
    end)
  end)

  it("reads pictures of few pixels, where passes are empty", function()
    for w = 1, 9 do
      for _, h in ipairs { 1, 2, 5 } do
        for _, depth in ipairs { 1, 2, 8, 16 } do
          local p = picture(0, depth, false, w, h)
          p.interlaced = true
          F.put(P.build(p))
          D.eq(expected(p, depth == 16 and 16 or 8), tide.load_png(F.path), 0, w .. " x " .. h)
        end
      end
    end
  end)

  it("changes no sample for what the file says of colors", function()
    local says = { { "gAMA", string.pack(">I4", 100000) }, { "gAMA", string.pack(">I4", 45455) }, { "gAMA", string.pack(">I4", 20000) },
      { "sRGB", "\0" }, { "cHRM", string.pack(">I4I4I4I4I4I4I4I4", 31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000) },
      { "iCCP", "bad\0\0nothing" }, { "sBIT", "\4" } }
    each_kind(function(p)
      local bits = p.depth == 16 and 16 or 8
      local want = expected(p, bits)
      for _, chunk in ipairs(says) do
        p.early = { chunk }
        if chunk[1] == "sBIT" then p.early = { { "sBIT", (p.depth > 3 and "\3" or "\1"):rep(p.type == 3 and 3 or P.channels[p.type]) } } end
        F.put(P.build(p))
        D.eq(want, tide.load_png(F.path), 0, chunk[1] .. " of type " .. p.type .. ", depth " .. p.depth)
      end
    end)
  end)

  it("scales samples to the bits that are asked for", function()
    each_kind(function(p)
      F.put(P.build(p))
      holds(expected(p, 8), "uint8", tide.load_png(F.path, { bits = 8 }), "8 bits of " .. p.type .. ", " .. p.depth)
      holds(expected(p, 16), "int32", tide.load_png(F.path, { bits = 16 }), "16 bits of " .. p.type .. ", " .. p.depth)
    end)
    for _, bad in ipairs { 0, 1, 4, 12, 32, 1 << 40 } do
      local e = D.raises("ValueError", tide.load_png, F.path, { bits = bad })
      assert.is_truthy(e.message:find("bits: got " .. bad, 1, true) and e.message:find("8 or 16", 1, true), e.message)
    end
  end)

  it("corrects samples by gAMA where that is asked for", function()
    for _, depth in ipairs { 8, 16 } do
      local p, top = picture(0, depth, false, 16, 16), (1 << depth) - 1
      p.sample = function(y, x) return (y * 16 + x) * (top // 255) end
      for _, gamma in ipairs { 100000, 45455, 60000 } do
        p.early = { { "gAMA", string.pack(">I4", gamma) } }
        F.put(P.build(p))
        local x = tide.load_png(F.path, { gamma = true }):flatten():to "float64"
        local want = (tide.arange(256, { dtype = "float64" }) / 255):pow(1e5 / (gamma * 2.2)) * top
        assert.is_true((x - want):abs():max():item() <= top / 255 * 1.01, gamma)
        D.eq({ 0, top }, x[{ { 1, 256, 255 } }])
      end
      p.early = {}
      F.put(P.build(p))
      assert.is_true(tide.equal(tide.load_png(F.path), tide.load_png(F.path, { gamma = true })))
      p.early = { { "sRGB", "\0" }, { "gAMA", string.pack(">I4", 45455) } }
      F.put(P.build(p))
      assert.is_true((tide.load_png(F.path) - tide.load_png(F.path, { gamma = true })):abs():max():item() <= 1)
    end
  end)

  it("refuses what is broken or cannot be", function()
    local p = picture(2, 8, false, 11, 9)
    local whole = P.build(p)
    for n = 0, #whole - 1, 7 do
      F.put(whole:sub(1, n))
      F.refused("load_png", tide.load_png)
    end
    local data = whole:find("IDAT", 1, true)
    for _, at in ipairs { 1, 5, 13, 17, 25, 30, data, data + 4, data + 30, #whole - 13 } do -- not in the text of IEND's checksum
      F.put(whole:sub(1, at - 1) .. string.char(whole:byte(at) ~ 0x21) .. whole:sub(at + 1))
      F.refused("load_png", tide.load_png)
    end
    for _, bad in ipairs { { 0, 3 }, { 0, 32 }, { 1, 8 }, { 2, 4 }, { 3, 16 }, { 4, 4 }, { 6, 1 }, { 9, 8 } } do
      F.put(whole:sub(1, 8) .. P.chunk("IHDR", string.pack(">I4I4BBBBB", 11, 9, bad[2], bad[1], 0, 0, 0)) .. whole:sub(34))
      F.refused("load_png", tide.load_png)
    end
    for _, size in ipairs { { 0, 9 }, { 11, 0 }, { 1 << 31, 1 }, { (1 << 31) - 1, (1 << 31) - 1 }, { 100000, 1000 }, { 999999, 999999 } } do
      F.put(whole:sub(1, 8) .. P.chunk("IHDR", string.pack(">I4I4BBBBB", size[1], size[2], 8, 2, 0, 0, 0)) .. whole:sub(34))
      F.refused("load_png", tide.load_png)
    end
  end)

  it("takes no memory for a width that the file's bytes cannot hold", function()
    local whole = P.build(picture(2, 8, false, 11, 9))
    F.put(whole:sub(1, 8) .. P.chunk("IHDR", string.pack(">I4I4BBBBB", 400000000, 3, 8, 6, 0, 0, 0)) .. whole:sub(34))
    F.refused("load_png", tide.load_png)
    local out, err = D.run({ "-e", ([[
      print(pcall(require "tide".load_png, %q))
      local file = io.open "/proc/self/status"
      print("peak " .. (file and file:read "a":match "VmHWM:%%s*(%%d+) kB" or 0))]]):format(F.path) })
    assert.is_truthy(out:find("bytes can hold", 1, true), out .. err)
    assert.is_true(tonumber(out:match "peak (%d+)") < 800000, "a row of 1.6 GB: " .. out)
  end)
end)

describe("save_png", function()
  D.watch(before_each, after_each)

  it("writes what load_png gives, sample by sample", function()
    each_kind(function(p)
      F.put(P.build(p))
      local x = tide.load_png(F.path)
      for _, there in ipairs { x, x:to(D.dev) } do
        tide.save_png(F.path, there)
        local y = tide.load_png(F.path)
        assert.are.equal(x.dtype, y.dtype)
        assert.is_true(tide.equal(x, y), p.type .. ", " .. p.depth)
      end
    end)
  end)

  it("writes 16 bits from int32, in any layout", function()
    for channels = 1, 4 do
      local x = D.tensor(tide.randint(0, 65536, { channels, 7, 5 }), "int32"):permute(3, 2, 1)
      local before = x:clone()
      tide.save_png(F.path, x)
      assert.are.equal(16, F.content():byte(25))
      assert.is_true(tide.equal(before, x))
      assert.is_true(tide.equal(x:cpu(), tide.load_png(F.path)))
    end
    local grey = D.tensor({ { 0, 1000 }, { 32768, 65535 } }, "int32")
    tide.save_png(F.path, grey)
    D.eq({ { 0, 1000 }, { 32768, 65535 } }, tide.load_png(F.path):squeeze(3))
    D.eq({ { 0, 4 }, { 128, 255 } }, tide.load_png(F.path, { bits = 8 }):squeeze(3))
  end)

  it("refuses other values, dtypes and shapes, and leaves the file", function()
    F.put "before"
    for _, v in ipairs { -1, 65536, math.mininteger >> 33, -(1 << 31) } do
      local e = D.raises("ValueError", tide.save_png, F.path, D.tensor({ { 1, v } }, "int32"))
      assert.is_truthy(e.message:find("0 to 65535", 1, true), e.message)
    end
    for _, dtype in ipairs { "bool", "int8", "int16", "int64", "float32", "complex64" } do
      D.raises("DtypeError", tide.save_png, F.path, tide.zeros(2, 2, { dtype = dtype, device = D.dev }))
    end
    for _, size in ipairs { { 2 }, { 2, 2, 5 }, { 2, 2, 0 }, { 0, 2 }, { 2, 0, 3 }, { 1, 2, 2, 3 } } do
      for _, dtype in ipairs { "uint8", "int32" } do
        D.raises("ShapeError", tide.save_png, F.path, tide.zeros(size, { dtype = dtype, device = D.dev }))
      end
    end
    assert.are.equal("before", F.content())
  end)
end)
