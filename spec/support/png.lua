-- PNG files of every kind the format has, written here sample by sample: what a reader is compared with.
--
-- build{type=, depth=, w=, h=, sample=, palette=, interlaced=, filter=, early=, late=} gives the bytes. sample(y, x, c) is the
-- number stored there, from 0. The zlib stream is of stored blocks.

local M = {}

local crcs = {}
for i = 0, 255 do
  local c = i
  for _ = 1, 8 do c = c & 1 == 1 and 0xedb88320 ~ c >> 1 or c >> 1 end
  crcs[i] = c
end

local function crc32(text)
  local c = 0xffffffff
  for i = 1, #text do c = crcs[(c ~ text:byte(i)) & 255] ~ c >> 8 end
  return c ~ 0xffffffff
end

local function adler32(text)
  local a, b = 1, 0
  for i = 1, #text do
    a = (a + text:byte(i)) % 65521
    b = (b + a) % 65521
  end
  return b << 16 | a
end

function M.chunk(name, bytes) return string.pack(">I4", #bytes) .. name .. bytes .. string.pack(">I4", crc32(name .. bytes)) end

local function stored(raw)
  local out = { "\x78\x01" }
  local at = 1
  repeat
    local piece = raw:sub(at, at + 65534)
    at = at + #piece
    out[#out + 1] = string.pack("<BI2I2", at > #raw and 1 or 0, #piece, ~#piece & 0xffff) .. piece
  until at > #raw
  out[#out + 1] = string.pack(">I4", adler32(raw))
  return table.concat(out)
end

M.channels = { [0] = 1, [2] = 3, [3] = 1, [4] = 2, [6] = 4 }
M.depths = { [0] = { 1, 2, 4, 8, 16 }, [2] = { 8, 16 }, [3] = { 1, 2, 4, 8 }, [4] = { 8, 16 }, [6] = { 8, 16 } }

-- One row of samples, packed from the highest bit on.
local function packed(list, depth)
  local out, bits, n = {}, 0, 0
  for _, v in ipairs(list) do
    if depth == 16 then
      out[#out + 1] = string.pack(">I2", v)
    else
      bits, n = bits << depth | v, n + depth
      if n == 8 then out[#out + 1], bits, n = string.char(bits), 0, 0 end
    end
  end
  if n > 0 then out[#out + 1] = string.char(bits << (8 - n)) end
  return table.concat(out)
end

local function paeth(a, b, c)
  local pa, pb, pc = math.abs(b - c), math.abs(a - c), math.abs(a + b - 2 * c)
  return pa <= pb and pa <= pc and a or pb <= pc and b or c
end

-- The row behind its filter's number; `before` is the row above, unfiltered.
local function filtered(row, before, filter, step)
  local out = {}
  for i = 1, #row do
    local a, b, c = row:byte(i - step) or 0, before:byte(i) or 0, i > step and before:byte(i - step) or 0
    if i <= step then a = 0 end
    local guess = filter == 0 and 0 or filter == 1 and a or filter == 2 and b or filter == 3 and (a + b) // 2 or paeth(a, b, c)
    out[i] = string.char((row:byte(i) - guess) & 255)
  end
  return string.char(filter) .. table.concat(out)
end

local passes = { { 0, 0, 8, 8 }, { 0, 4, 8, 8 }, { 4, 0, 8, 4 }, { 0, 2, 4, 4 }, { 2, 0, 4, 2 }, { 0, 1, 2, 2 }, { 1, 0, 2, 1 } }

local function rows(p)
  local out, channels = {}, M.channels[p.type]
  local step = math.max(1, channels * p.depth // 8)
  for _, pass in ipairs(p.interlaced and passes or { { 0, 0, 1, 1 } }) do
    local y0, x0, dy, dx = table.unpack(pass)
    local before = ""
    for y = y0, p.h - 1, dy do
      local list = {}
      for x = x0, p.w - 1, dx do
        for c = 0, channels - 1 do list[#list + 1] = p.sample(y, x, c) end
      end
      if #list > 0 then
        local row = packed(list, p.depth)
        out[#out + 1] = filtered(row, before, (p.filter or 0) == "all" and y % 5 or p.filter or 0, step)
        before = row
      end
    end
  end
  return table.concat(out)
end

function M.build(p)
  local parts = { "\137PNG\r\n\26\n", M.chunk("IHDR", string.pack(">I4I4BBBBB", p.w, p.h, p.depth, p.type, 0, 0, p.interlaced and 1 or 0)) }
  for _, c in ipairs(p.early or {}) do parts[#parts + 1] = M.chunk(c[1], c[2]) end
  if p.palette then parts[#parts + 1] = M.chunk("PLTE", p.palette) end
  for _, c in ipairs(p.late or {}) do parts[#parts + 1] = M.chunk(c[1], c[2]) end
  parts[#parts + 1] = M.chunk("IDAT", stored(rows(p)))
  parts[#parts + 1] = M.chunk("IEND", "")
  return table.concat(parts)
end

return M
