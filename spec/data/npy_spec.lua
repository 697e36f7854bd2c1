-- NumPy's files, both ways, and files of plain values. NumPy itself reads and writes them in spec/differential/files.py.

local tide = require "tide"
local D = require "spec.support.device"
local F = require "spec.support.file"

F.watch(before_each, after_each)

-- The bytes of an array as NumPy writes it.
local function npy(descr, shape, bytes, options)
  options = options or {}
  local head = options.head or ("{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }\n"):format(descr,
    options.fortran and "True" or "False", shape)
  local version = options.version or 1
  return "\x93NUMPY" .. string.char(version, 0) .. string.pack(version == 1 and "<s2" or "<s4", head) .. bytes
end

describe("load_npy", function()
  D.watch(before_each, after_each)

  it("reads every type, in either byte order", function()
    for _, case in ipairs {
      { "|b1", "uint8", "bool", "BBB", { 1, 0, 7 }, { true, false, true } }, { "|i1", "int8", "int8", "bbb", { 1, -2, 3 } },
      { "|u1", "uint8", "uint8", "BBB", { 1, 200, 3 } }, { "i2", "int16", "int16", "hhh", { 1, -300, 3 } },
      { "u2", "uint16", "int32", "HHH", { 1, 65535, 3 } }, { "i4", "int32", "int32", "i4i4i4", { 1, -70000, 3 } },
      { "u4", "uint32", "int64", "I4I4I4", { 1, 4294967295, 3 } }, { "i8", "int64", "int64", "i8i8i8", { 1, -1 << 40, 3 } },
      { "u8", "uint64", "int64", "I8I8I8", { 1, math.maxinteger, 3 } }, { "f2", "float16", "float16", "HHH", { 0x3c00, 0xc000, 0x3800 }, { 1, -2, 0.5 } },
      { "f4", "float32", "float32", "fff", { 1.5, -2.25, 1 / 0 } }, { "f8", "float64", "float64", "ddd", { 1.5, -2.25, 1e300 } } } do
      local descr, _, dtype, form, raw, want = table.unpack(case)
      for _, order in ipairs(#descr == 3 and { "" } or { "<", ">" }) do
        F.put(npy(order .. descr, "3,", string.pack((order == ">" and ">" or "<") .. form, table.unpack(raw))))
        local x = tide.load_npy(F.path)
        assert.are.equal(dtype, D.dtype_name(x))
        D.eq(want or raw, x, 0, order .. descr)
      end
    end
    for _, order in ipairs { "<", ">" } do
      F.put(npy(order .. "c8", "2,", string.pack(order .. "ffff", 1, 2, 3, 4)))
      local x = tide.load_npy(F.path)
      assert.are.equal("complex64", D.dtype_name(x))
      D.eq({ 1, 3 }, x:real())
      D.eq({ 2, 4 }, x:imag())
      F.put(npy(order .. "c16", "", string.pack(order .. "dd", 1, -2)))
      x = tide.load_npy(F.path)
      assert.are.equal("complex128", D.dtype_name(x))
      assert.are.equal(-2, x:imag():item())
    end
  end)

  it("reads both orders, versions 1 to 3, no dims, no elements, more behind the array", function()
    local values = string.pack("<i4i4i4i4i4i4", 1, 2, 3, 4, 5, 6)
    for version = 1, 3 do
      F.put(npy("<i4", "2, 3", values, { version = version }))
      D.eq({ { 1, 2, 3 }, { 4, 5, 6 } }, tide.load_npy(F.path))
      F.put(npy("<i4", "2, 3", values, { version = version, fortran = true }))
      local x = tide.load_npy(F.path)
      D.eq({ { 1, 3, 5 }, { 2, 4, 6 } }, x)
      D.eq({ 1, 2 }, x:stride())
    end
    F.put(npy("<i4", "", values))
    assert.are.equal(1, tide.load_npy(F.path):item())
    for _, fortran in ipairs { false, true } do
      F.put(npy("<i4", "2, 0, 3", "", { fortran = fortran }))
      D.eq({ 2, 0, 3 }, tide.load_npy(F.path):size())
      F.put(npy("<i4", "4294967296, 0, 4294967296, 4294967296", "", { fortran = fortran }))
      assert.are.equal(0, tide.load_npy(F.path):numel())
    end
    F.put(npy(nil, nil, values, { head = '{"shape":(3L,), \n"fortran_order":False,"descr" :"<i4"} ' }))
    D.eq({ 1, 2, 3 }, tide.load_npy(F.path))
  end)

  it("brings the array to a device", function()
    F.put(npy(">f4", "2,", string.pack(">ff", 1, 2)))
    local x = tide.load_npy(F.path, { device = D.dev })
    assert.are.equal(D.dev, tostring(x.device))
    D.eq({ 1, 2 }, x)
  end)

  it("believes nothing in a file", function()
    local good = npy("<i4", "2, 3", ("x"):rep(24))
    for n = 0, #good - 1 do
      F.put(good:sub(1, n))
      D.raises("FileError", tide.load_npy, F.path)
    end
    for _, case in ipairs {
      { npy("|O", "1,", "12345678"), "objects" }, { npy("<U3", "1,", ("x"):rep(12)), "'<U3'" },
      { npy("<f16", "1,", ("x"):rep(16)), "'<f16'" }, { npy("|V2", "1,", "xx"), "'|V2'" }, { npy("<M8[ns]", "1,", "12345678"), "M8" },
      { npy("<B2", "1,", "xx"), "'<B2'" }, { npy("", "1,", "xx"), "type ''" },
      { npy("<i4", "1000000000000", "x"), "[1000000000000]" }, { npy("<i4", "4611686018427387904, 4", "x"), "shape" },
      { npy("<i4", "0, 99999999999999999999999", "x"), "too large" }, { npy("<i4", "-1,", "x"), "a size" },
      { npy("<i4", ("1, "):rep(13), "xxxx"), "12 dimensions" }, { npy("<i4", "1, , 2", "x"), "a size" },
      { npy(nil, nil, "xx", { head = "{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}" }), "records" },
      { npy(nil, nil, "xx", { head = "{'descr': '|i1', 'shape': (1,)}" }), "once each" },
      { npy(nil, nil, "xx", { head = "{'descr': '|i1', 'fortran_order': False, 'shape': (1,), 'order': 'C'}" }), "once each" },
      { npy(nil, nil, "xx", { head = "{'order': 'C', 'descr': '|i1', 'fortran_order': False, 'shape': (1,)}" }), "once each" },
      { npy(nil, nil, "xx", { head = "{'descr': '|i1', 'descr': '|i1', 'fortran_order': False, 'shape': (1,)}" }), "once each" },
      { npy(nil, nil, "xx", { head = "{'descr': '|i1', 'fortran_order': Maybe, 'shape': (1,)}" }), "True or False" },
      { npy(nil, nil, "xx", { head = "{'descr': '|i1', 'fortran_order': False, 'shape': (1,)} + x" }), "once each" },
      { npy(nil, nil, "xx", { head = "{'descr': '|i1\0', 'fortran_order': False, 'shape': (1,)}" }), "zero" },
      { npy(nil, nil, "xx", { head = "__import__('os').system('true')" }), "a dict" },
      { "\x93NUMPY\4\0" .. good:sub(9), "version 4.0" }, { "\x93NUMPY\0\0" .. good:sub(9), "version 0.0" },
      { "\x93NUMPY\1\1" .. good:sub(9), "version 1.1" }, { "\x93NUMPY\3\255" .. good:sub(9), "version 3.255" }, { "\x93NUMPY\2\0\255\255\255\255" .. good, "4294967295" },
      { npy("<u8", "1,", ("\255"):rep(8)), "uint64" }, { "", "too early" }, { ("x"):rep(100), "first bytes" } } do
      F.put(case[1])
      F.refused(case[2], tide.load_npy)
    end
    os.remove(F.path)
    F.refused("No such file", tide.load_npy)
    local e = D.raises("FileError", tide.load_npy, "/dev/zero")
    assert.is_truthy(e.message:find("regular file", 1, true))
    os.execute("mkfifo " .. F.path)
    F.refused("regular file", tide.load_npy) -- and nobody is waited for
    F.refused("regular file", tide.load_npz)
    D.raises("ArgumentError", tide.load_npy, 3)
    D.raises("ValueError", tide.load_npy, "a\0b")
  end)
end)

describe("save_npy", function()
  D.watch(before_each, after_each)

  it("writes what load_npy reads, in every layout", function()
    for _, dtype in ipairs(D.dtypes) do
      local x = D.tensor({ { 1, 0, 1 }, { 0, 0, 1 } }, dtype)
      if dtype == "bfloat16" then
        D.raises("DtypeError", tide.save_npy, F.path, x)
      else
        for _, layout in ipairs(D.layouts(x)) do
          tide.save_npy(F.path, layout[2])
          assert.is_true(tide.equal(tide.load_npy(F.path, { device = D.dev }), x), dtype .. " " .. layout[1])
        end
      end
    end
    for _, size in ipairs { {}, { 0 }, { 2, 0, 3 }, { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2 } } do
      tide.save_npy(F.path, tide.ones(size, { device = D.dev }))
      D.eq(size, tide.load_npy(F.path):size())
    end
  end)

  it("writes the head that NumPy writes", function()
    tide.save_npy(F.path, tide.tensor { 1, 2 })
    local head = "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }"
    assert.are.equal("\x93NUMPY\1\0\x76\0" .. head .. (" "):rep(117 - #head) .. "\n" .. string.pack("<i8i8", 1, 2), F.content())
  end)

  it("writes NumPy's name of each dtype, its tuple of each shape, and fills 64 bytes", function()
    local names = { bool = "|b1", uint8 = "|u1", int8 = "|i1", int16 = "<i2", int32 = "<i4", int64 = "<i8", float16 = "<f2", float32 = "<f4",
      float64 = "<f8", complex64 = "<c8", complex128 = "<c16" }
    local shapes = { ["()"] = {}, ["(3,)"] = { 3 }, ["(0,)"] = { 0 }, ["(2, 3)"] = { 2, 3 }, ["(2, 1, 3)"] = { 2, 1, 3 } }
    shapes["(0, " .. ("1000, "):rep(10) .. "1)"] = { 0, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1 }
    for dtype, name in pairs(names) do
      for text, size in pairs(shapes) do
        if #size < 4 or name == "|u1" then
          tide.save_npy(F.path, tide.ones(size, { dtype = dtype, device = D.dev }))
          local content = F.content()
          local head = ("{'descr': '%s', 'fortran_order': False, 'shape': %s, }"):format(name, text)
          local whole = (10 + #head + 1 + 63) // 64 * 64
          assert.are.equal("\x93NUMPY\1\0" .. string.pack("<I2", whole - 10) .. head .. (" "):rep(whole - 11 - #head) .. "\n", content:sub(1, whole))
        end
      end
    end
  end)

  it("names what is wrong", function()
    D.raises("ArgumentError", tide.save_npy, F.path, { 1 })
    D.raises("FileError", tide.save_npy, "/nowhere/x.npy", tide.ones(1))
  end)
end)

-- ---- zip files by hand ----

local crc_table = {}
for i = 0, 255 do
  local c = i
  for _ = 1, 8 do c = c & 1 == 1 and 0xedb88320 ~ c >> 1 or c >> 1 end
  crc_table[i] = c
end
local function crc32(bytes)
  local c = 0xffffffff
  for i = 1, #bytes do c = crc_table[(c ~ bytes:byte(i)) & 255] ~ c >> 8 end
  return c ~ 0xffffffff
end

-- A zip file of parts {name=, bytes=, ...}; what else a part says replaces the truth. wide: 64-bit fields everywhere;
-- before, after: extra records around theirs, here: "in front of the bytes" or "in the contents", else in both places.
local function zip(parts, options)
  options = options or {}
  local wide, out, table_ = options.wide, {}, {}
  local at = 0
  for _, p in ipairs(parts) do
    local packed = p.packed or #p.bytes
    local size, crc, name = p.size or packed, p.crc or crc32(p.bytes), p.name
    local extra = wide and string.pack("<I2I2I8I8", 1, 16, size, packed) or ""
    local before, after = options.before or "", options.after or ""
    if options.here ~= "in the contents" then extra = before .. extra .. after end
    local small = wide and 0xffffffff
    local head = string.pack("<I4I2I2I2I4I4I4I4I2I2", 0x04034b50, 20, 0, p.method or 0, 0, crc, small or packed, small or size,
      #name, #extra) .. (p.local_name or name) .. extra .. p.bytes
    local far = wide and string.pack("<I2I2I2I2I8I8I8", 99, 0, 1, 24, size, packed, p.at or at) or ""
    if options.here ~= "in front of the bytes" then far = before .. far .. after end
    table_[#table_ + 1] = string.pack("<I4I2I2I2I2I4I4I4I4I2I2I2I2I2I4I4", 0x02014b50, 20, 20, p.flags or 0, p.method or 0, 0, crc,
      small or packed, small or size, #name, #far, 0, 0, 0, 0, small or p.at or at) .. name .. far
    out[#out + 1] = head
    at = at + #head
  end
  local contents, n = table.concat(table_), options.count or #parts
  if wide then
    out[#out + 1] = contents .. string.pack("<I4I8I2I2I4I4I8I8I8I8", 0x06064b50, 44, 45, 45, 0, 0, n, n, #contents, at) ..
      string.pack("<I4I4I8I4", 0x07064b50, 0, options.end64 or at + #contents, 1) ..
      string.pack("<I4I2I2I2I2I4I4I2", 0x06054b50, 0, 0, 0xffff, 0xffff, 0xffffffff, 0xffffffff, 0)
  else
    out[#out + 1] = contents .. string.pack("<I4I2I2I2I2I4I4I2", 0x06054b50, 0, 0, n, n, options.bytes or #contents,
      options.at or at, #(options.comment or "")) .. (options.comment or "")
  end
  return table.concat(out)
end

local one = npy("<i4", "2,", string.pack("<i4i4", 5, 6))
-- Bytes as DEFLATE stores them; last: 1 where they are the stream's last block.
local function piece(last, bytes) return string.pack("<BI2I2", last, #bytes, ~#bytes & 0xffff) .. bytes end

describe("npz", function()
  D.watch(before_each, after_each)

  it("writes what it reads, stored and deflated", function()
    local x, wide = D.tensor({ { 1, 2 }, { 3, 4 } }, "float32"), tide.zeros(300, 300)
    for _, options in ipairs { {}, { compressed = true } } do
      tide.save_npz(F.path, { x:t(), x, a = x, ["ü/b"] = D.tensor(true, "bool"), none = tide.zeros(0, 3), wide = wide }, options)
      local got = tide.load_npz(F.path, { device = D.dev })
      local names = {}
      for name in pairs(got) do names[#names + 1] = name end
      table.sort(names)
      assert.are.same({ "a", "arr_0", "arr_1", "none", "wide", "ü/b" }, names)
      D.eq({ { 1, 3 }, { 2, 4 } }, got.arr_0)
      D.eq(x, got.a)
      assert.is_true(got["ü/b"]:item())
      D.eq({ 0, 3 }, got.none:size())
      assert.are.equal(0, got.wide:sum():item())
      assert.are.equal(D.dev, tostring(got.a.device))
      assert.is_true((#F.content() < 20000) == (options.compressed == true))
    end
    tide.save_npz(F.path, {})
    assert.is_nil(next(tide.load_npz(F.path)))
  end)

  it("gives those that are asked for", function()
    tide.save_npz(F.path, { a = tide.ones(2), b = tide.zeros(2) })
    local got = tide.load_npz(F.path, { names = { "b" } })
    D.eq({ 0, 0 }, got.b)
    assert.is_nil(got.a)
    local e = D.raises("ValueError", tide.load_npz, F.path, { names = { "b", "c" } })
    assert.is_truthy(e.message:find("names[2]: got string 'c'", 1, true))
    e = D.raises("ArgumentError", tide.load_npz, F.path, { names = { b = true } })
    assert.is_truthy(e.message:find("names: got table, expected a table of names", 1, true))
    assert.is_nil(next(tide.load_npz(F.path, { names = {} })))
  end)

  it("is equal for equal arrays", function()
    tide.save_npz(F.path, { a = tide.ones(2), b = tide.zeros(2), c = tide.ones(3) })
    local first = F.content()
    tide.save_npz(F.path, { c = tide.ones(3), b = tide.zeros(2), a = tide.ones(2) })
    assert.are.equal(first, F.content())
  end)

  it("reads what other programs write: 64-bit fields, comments, several parts", function()
    for _, options in ipairs { {}, { comment = "PK\5\6 and more" }, { wide = true } } do
      F.put(zip({ { name = "x.npy", bytes = one }, { name = "dir/y.npy", bytes = one } }, options))
      local got = tide.load_npz(F.path)
      D.eq({ 5, 6 }, got.x)
      D.eq({ 5, 6 }, got["dir/y"])
    end
  end)

  -- A member that is no array of numbers, and what its error says.
  local foreign = {
    { "format", { bytes = npy("|S3", "", "csr") }, "'|S3'" }, { "words", { bytes = npy("<U2", "2,", ("x\0\0\0"):rep(4)) }, "'<U2'" },
    { "objects", { bytes = npy("|O", "1,", "anything") }, "never read" }, { "raw", { bytes = npy("|V1", "2,", "ab") }, "'|V1'" },
    { "times", { bytes = npy("<M8[ns]", "1,", ("x"):rep(8)) }, "M8" }, { "long", { bytes = npy("<f16", "1,", ("x"):rep(16)) }, "'<f16'" },
    { "records", { bytes = npy("", "1,", "", { head = "{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,), }\n" }) }, "records" },
    { "deep", { bytes = npy("|i1", ("1, "):rep(13), "x") }, "12 dimensions" },
    { "big", { bytes = npy("<u8", "1,", ("\xff"):rep(8)) }, "uint64" },
    { "notes.txt", { bytes = "any text", name = "notes.txt" }, "no array" }, { "a/", { bytes = "", name = "a/" }, "no array" },
    { "nothing_at_all", { bytes = "" }, "too early" }, { "words_alone", { bytes = "some text, no array" }, "first bytes" },
    { "later", { bytes = "\x93NUMPY\4\0" .. ("x"):rep(80) }, "version 4.0" }, { "cut", { bytes = one:sub(1, 40) }, "got a head of" },
    { "short", { bytes = npy("|i1", "100,", "x") }, "expected it to fit" },
    { "set", { bytes = npy("|i1", "1,", "x", { head = "{'descr', 'shape'}\n" }) }, "once each" },
    { "npy", { bytes = "", name = "npy" }, "no array" }, { "secret", { bytes = one, flags = 1, size = 3 }, "encrypted" },
    { "zstd", { bytes = "1234", method = 93, size = 200 }, "compression 93" }, { "text.npy", { bytes = "1", method = 12, name = "text.npy.npy", size = 9 }, "compression 12" } }

  it("reads what is beside members that are no arrays of numbers", function()
    for _, case in ipairs(foreign) do
      local name, part, says = table.unpack(case)
      part.name = part.name or name .. ".npy"
      for _, parts in ipairs { { part, { name = "x.npy", bytes = one } }, { { name = "x.npy", bytes = one }, part },
        { { name = "w.npy", bytes = one }, part, { name = "x.npy", bytes = one } } } do
        F.put(zip(parts))
        local got = tide.load_npz(F.path, { device = D.dev })
        D.eq({ 5, 6 }, got.x)
        local n = 0
        for key, x in pairs(got) do n = n + 1 assert.is_true(tide.is_tensor(x), key) end
        assert.are.equal(#parts - 1, n)
        assert.is_nil(got.nothing)
        assert.is_nil(got[1])
        for _ = 1, 2 do
          F.refused(says, function() return got[name] end)
          F.refused(name, function() return got[name] end)
        end
        F.refused(says, tide.load_npz, { names = { "x", name } })
        D.eq({ 5, 6 }, tide.load_npz(F.path, { names = { "x" } }).x)
        local names = tide.npz_names(F.path)
        assert.are.equal(#parts, #names)
        for i, p in ipairs(parts) do assert.are.equal(p == part and name or p.name:sub(1, 1), names[i]) end
      end
      F.put(zip { part }) -- nothing else
      F.refused(says, tide.load_npz)
      assert.are.same({ name }, tide.npz_names(F.path))
    end
  end)

  it("reads all that can be read of many members, and refuses what is broken beside them", function()
    local parts, n = {}, 0
    for _, case in ipairs(foreign) do
      parts[#parts + 1] = case[2]
      parts[#parts + 1] = { name = "x" .. #parts .. ".npy", bytes = one }
    end
    F.put(zip(parts))
    local got = tide.load_npz(F.path)
    for _, x in pairs(got) do n = n + x:numel() end
    assert.are.equal(2 * #foreign, n)
    for _, case in ipairs(foreign) do F.refused(case[3], function() return got[case[1]] end) end
    local saved = F.path .. ".npz"
    tide.save_npz(saved, got) -- the arrays alone
    assert.are.equal(#foreign, #tide.npz_names(saved))
    os.remove(saved)
    parts[2].crc = 1
    F.put(zip(parts))
    F.refused("checksum", tide.load_npz)
  end)

  it("lists names without reading", function()
    tide.save_npz(F.path, { b = tide.zeros(3), ["a/ü"] = tide.ones(2, { dtype = "int8" }), tide.ones(1) }, { compressed = true })
    local names = tide.npz_names(F.path)
    table.sort(names)
    assert.are.same({ "a/ü", "arr_0", "b" }, names)
    F.put(zip { { name = "x.npy", bytes = "broken" } })
    assert.are.same({ "x" }, tide.npz_names(F.path))
    F.put(zip {})
    assert.are.same({}, tide.npz_names(F.path))
    F.put "nothing"
    F.refused("table of contents", tide.npz_names)
    D.raises("FileError", tide.npz_names, "/nowhere")
  end)

  it("passes over extra records of any length, wherever they stand", function()
    local function record(id, n) return string.pack("<I2I2", id, n) .. ("\1"):rep(n) end
    local records = { "", record(0x5455, 9), record(0x7875, 11) .. record(0xcafe, 0), record(2, 1), record(0x9901, 700) }
    for _, before in ipairs(records) do
      for _, after in ipairs(records) do
        for _, wide in ipairs { false, true } do
          for _, here in ipairs { "everywhere", "in front of the bytes", "in the contents" } do
            F.put(zip({ { name = "x.npy", bytes = one }, { name = "y.npy", bytes = one }, { name = "z.npy", bytes = one } },
              { wide = wide, before = before, after = after, here = here }))
            local got = tide.load_npz(F.path)
            for _, name in ipairs { "x", "y", "z" } do D.eq({ 5, 6 }, got[name], 0, here) end
          end
        end
      end
    end
    for _, id in ipairs { 1, 7 } do -- one that says to be longer than all of them
      for _, wide in ipairs { false, true } do
        F.put(zip({ { name = "x.npy", bytes = one } },
          { before = string.pack("<I2I2", id, 50) .. "ab", wide = wide, here = "in the contents" }))
        D.raises("FileError", tide.load_npz, F.path)
      end
    end
  end)

  it("believes nothing in a file", function()
    local good = zip { { name = "x.npy", bytes = one }, { name = "y.npy", bytes = one } }
    for n = 0, #good - 1 do
      F.put(good:sub(1, n))
      D.raises("FileError", tide.load_npz, F.path)
    end
    local big = npy("|i1", "1000000000,", "")
    for _, case in ipairs {
      { { { name = "x.npy", bytes = one }, { name = "x.npy", bytes = one } }, "twice" },
      { { { name = "x.npy", bytes = one }, { name = "y.npy", bytes = one, at = 10 } }, "overlap" },
      { { { name = "x.npy", bytes = one }, { name = "y.npy", bytes = one, at = 0 } }, "overlap" },
      { { { name = "x.npy", bytes = one, at = 1 << 31 } }, "inside the file" },
      { { { name = "x.npy", bytes = one, local_name = "y.npy" } }, "in front of it" },
      { { { name = "x.npy", bytes = one, crc = 1 } }, "checksum" },
      { { { name = "x.npy", bytes = one, method = 14 } }, "compression 14" },
      { { { name = "x.npy", bytes = one, flags = 1 } }, "encrypted" },
      { { { name = "readme.txt", bytes = one } }, "readme.txt" }, { { { name = "x\0.npy", bytes = one } }, "arrays" }, { { { name = "x\0", bytes = one } }, "arrays" },
      { { { name = "x.npy", bytes = one, size = 1 << 31 } }, "claims" },
      { { { name = "x.npy", bytes = one, size = 1 << 31, method = 8 } }, "cannot stand for" },
      { { { name = "x.npy", bytes = one, method = 8 } }, "broken" },
      { { { name = "x.npy", bytes = one, method = 8 } }, "broken" },
      { { { name = "x.npy", bytes = piece(1, one:sub(1, -2)), size = #one, crc = crc32(one), method = 8 } }, "less" },
      { { { name = "x.npy", bytes = piece(0, one), size = #one, crc = crc32(one), method = 8 } }, "less" }, -- no end
      { { { name = "x.npy", bytes = piece(1, one .. "z"), size = #one, crc = crc32(one), method = 8 } }, "more" },
      { { { name = "x.npy", bytes = piece(0, one) .. piece(1, "z"), size = #one, crc = crc32(one), method = 8 } }, "more" },
      { { { name = "x.npy", bytes = one .. "z" } }, "behind its array" }, { { { name = "x.npy", bytes = big } }, "1000000000" },
      { { { name = "x.npy", bytes = one } }, "table of contents", { count = 3 } },
      { { { name = "x.npy", bytes = one } }, "table of contents", { bytes = 1 << 31 } },
      { { { name = "x.npy", bytes = one } }, "table of contents", { at = 3 } },
      { { { name = "x.npy", bytes = one } }, "table of contents", { wide = true, end64 = 1 << 62 } },
      { { { name = "x.npy", bytes = one } }, "table of contents", { wide = true, count = 1 << 60 } },
      { { { name = "x.npy", bytes = one, at = 1 << 62 } }, "table of contents", { wide = true } } } do
      F.put(zip(case[1], case[3]))
      F.refused(case[2], tide.load_npz)
    end
  end)

  it("takes no more memory than it is allowed", function()
    tide.save_npz(F.path, { a = tide.zeros(1 << 20), b = tide.zeros(1 << 20) }, { compressed = true })
    assert.is_true(#F.content() < 20000)
    F.refused("allowed", tide.load_npz, { limit = 5 << 20 })
    assert.are.equal(1 << 20, tide.load_npz(F.path, { limit = 9 << 20 }).b:numel())
    assert.are.equal(1 << 20, tide.load_npz(F.path, { limit = 5 << 20, names = { "b" } }).b:numel())
    -- what is not as long as it claims
    local bytes = F.content()
    local at = bytes:find("PK\1\2", 1, true)
    F.put(bytes:sub(1, at + 23) .. string.pack("<I4", (4 << 20) + 128 - 7) .. bytes:sub(at + 28))
    F.refused("expected it to fit", function() return tide.load_npz(F.path).a or tide.load_npz(F.path).b end)
    F.put(bytes:sub(1, at + 23) .. string.pack("<I4", (4 << 20) + 128 + 7) .. bytes:sub(at + 28))
    F.refused("behind its array", tide.load_npz)
  end)

  it("names what cannot be written, and writes nothing then", function()
    F.put "old"
    D.raises("ArgumentError", tide.save_npz, F.path, { a = 1 })
    D.raises("ArgumentError", tide.save_npz, F.path, tide.ones(2))
    D.raises("ArgumentError", tide.save_npz, F.path, { [true] = tide.ones(2) })
    D.raises("ArgumentError", tide.save_npz, F.path, { a = tide.ones(2) }, { packed = true })
    D.raises("DtypeError", tide.save_npz, F.path, { a = tide.ones(2, { dtype = "bfloat16" }) })
    local e = D.raises("ValueError", tide.save_npz, F.path, { tide.ones(2), arr_0 = tide.zeros(2, { dtype = "uint8" }) })
    assert.is_truthy(e.message:find("got the name 'arr_0' twice", 1, true))
    D.raises("ValueError", tide.save_npz, F.path, { ["\xff"] = tide.ones(2) }) -- NumPy could not open the file
    assert.are.equal("old", F.content())
  end)
end)

describe("from_file", function()
  it("takes nothing of an empty file", function()
    F.put ""
    for _, shared in ipairs { false, true } do
      assert.are.same({ 0, 3 }, tide.from_file(F.path, { 0, 3 }, { dtype = "int32", shared = shared }):size())
    end
  end)

  it("shows the values of a file where they lie", function()
    F.put(string.pack("<i4i4i4i4", 1, 2, 3, 4))
    local x = tide.from_file(F.path, { 2, 2 }, { dtype = "int32" })
    D.eq({ { 1, 2 }, { 3, 4 } }, x)
    D.eq({ 3, 4 }, tide.from_file(F.path, 2, { dtype = tide.int32, offset = 8 }))
    D.eq({ 0 }, tide.from_file(F.path, { 0 }, { dtype = "int32", offset = 8 }):size())
    x:fill_(9) -- this process's own
    assert.are.equal(string.pack("<i4i4i4i4", 1, 2, 3, 4), F.content())
    assert.are.equal(4, tide.from_file(F.path, { 4 }):numel())
  end)

  it("writes back where it is shared, and makes the file longer", function()
    os.remove(F.path)
    local x = tide.from_file(F.path, { 3 }, { dtype = "int16", shared = true })
    D.eq({ 0, 0, 0 }, x)
    x:copy_(tide.tensor { 1, 2, 3 })
    assert.are.equal(string.pack("<i2i2i2", 1, 2, 3), F.content())
    local y = tide.from_file(F.path, { 4 }, { dtype = "int16", offset = 4, shared = true })
    D.eq({ 3, 0, 0, 0 }, y)
    y:add_(1)
    D.eq({ 1, 2, 4 }, x)
    assert.are.equal(12, #F.content())
    x, y = nil, nil
    collectgarbage()
    assert.are.equal(string.pack("<i2i2i2i2i2i2", 1, 2, 4, 1, 1, 1), F.content())
  end)

  it("names what is wrong", function()
    F.put "12345678"
    local e = D.raises("FileError", tide.from_file, F.path, { 3 }, { dtype = "int32" })
    assert.is_truthy(e.message:find("got a file of 8 bytes, expected at least 12", 1, true))
    D.raises("ValueError", tide.from_file, F.path, { 1 }, { dtype = "int32", offset = 2 })
    D.raises("ValueError", tide.from_file, F.path, { 1 }, { dtype = "int32", offset = -4 })
    D.raises("FileError", tide.from_file, "/nowhere/x", { 1 })
    D.raises("FileError", tide.from_file, "/dev/zero", { 1 })
    D.raises("FileError", tide.from_file, "/tmp", { 1 })
    D.raises("OutOfMemoryError", tide.from_file, F.path, { 1 << 62, 4 })
    D.raises("FileError", tide.from_file, F.path, { 1 << 60 }, { dtype = "uint8", shared = true })
    assert.are.equal("12345678", F.content())
    os.remove(F.path)
    D.raises("FileError", tide.from_file, F.path, { 1 << 60 }, { dtype = "uint8", shared = true })
    assert.is_nil(io.open(F.path)) -- nothing was made
  end)
end)
