-- A reader of GIF files, written from the GIF89a specification and apart from the writer: frames as lists of rows of
-- colors 0xRRGGBB, their delays, and the loop count (nil: there is none).
local M = {}

local function inflate_lzw(bytes, least)
  local clear, stop = 1 << least, (1 << least) + 1
  local out, codes, width, before = {}, nil, nil, nil
  local at, buffer, bits = 1, 0, 0
  local function reset()
    codes, width, before = {}, least + 1, nil
    for i = 0, clear - 1 do codes[i] = string.char(i) end
    codes.next = clear + 2
  end
  reset()
  while true do
    while bits < width do
      buffer = buffer | assert(bytes:byte(at), "the compressed bytes end too early") << bits
      at, bits = at + 1, bits + 8
    end
    local code = buffer & (1 << width) - 1
    buffer, bits = buffer >> width, bits - width
    if code == stop then break end
    if code == clear then
      reset()
    else
      local text = codes[code] or assert(before and code == codes.next and before .. before:sub(1, 1), "a code that is none")
      out[#out + 1] = text
      if before and codes.next < 4096 then
        codes[codes.next] = before .. text:sub(1, 1)
        codes.next = codes.next + 1
        if codes.next == 1 << width and width < 12 then width = width + 1 end
      end
      before = text
    end
  end
  assert(at > #bytes, "compressed bytes behind the end")
  return table.concat(out)
end

function M.read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  local at = 1
  local function take(format)
    local values = table.pack(string.unpack("<" .. format, text, at))
    at = values[values.n]
    return table.unpack(values, 1, values.n - 1)
  end
  local function blocks()
    local list = {}
    while true do
      local n = take "B"
      if n == 0 then return table.concat(list) end
      list[#list + 1] = text:sub(at, at + n - 1)
      at = at + n
    end
  end
  assert(text:sub(1, 6) == "GIF89a")
  at = 7
  local gif = { w = take "H", h = take "H", delays = {} }
  local flags = take "BBB"
  assert(flags & 0x80 ~= 0)
  local palette = {}
  for i = 0, (2 << (flags & 7)) - 1 do
    local r, g, b = take "BBB"
    palette[i] = r << 16 | g << 8 | b
  end
  local canvas
  while true do
    local kind = take "B"
    if kind == 0x3b then break end
    if kind == 0x21 then
      local label, body = take "B", blocks()
      if label == 0xf9 then gif.delays[#gif.delays + 1] = string.unpack("<H", body, 2) end
      if label == 0xff then gif.loop = string.unpack("<H", body, #"NETSCAPE2.0" + 2) end
    else
      assert(kind == 0x2c)
      local x, y, w, h, none = take "HHHHB"
      assert(none == 0)
      local least = take "B"
      local pixels = inflate_lzw(blocks(), least)
      assert(#pixels == w * h, "a frame of another size")
      local rows = {}
      for i = 1, gif.h do rows[i] = canvas and table.move(canvas[i], 1, gif.w, 1, {}) or {} end
      for i = 1, h do
        for j = 1, w do rows[y + i][x + j] = palette[pixels:byte((i - 1) * w + j)] end
      end
      canvas = rows
      gif[#gif + 1] = rows
      gif.written = (gif.written or 0) + w * h
    end
  end
  assert(at == #text + 1)
  return gif
end

return M
