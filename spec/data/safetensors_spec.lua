-- Safetensors files, both ways. The format's own library reads and writes them in spec/differential/files.py.

local tide = require "tide"
local D = require "spec.support.device"
local F = require "spec.support.file"

F.watch(before_each, after_each)

local function file(head, bytes) return string.pack("<I8", #head) .. head .. bytes end

describe("load_safetensors", function()
  D.watch(before_each, after_each)

  it("reads every dtype, at any place, and the metadata", function()
    local list = { { "BOOL", "bool", "BB", { 1, 0 }, { true, false } }, { "U8", "uint8", "BB", { 1, 255 } },
      { "I8", "int8", "bb", { 1, -2 } }, { "U16", "int32", "<HH", { 1, 65535 } }, { "I16", "int16", "<hh", { 1, -2 } },
      { "F16", "float16", "<HH", { 0x3c00, 0xc000 }, { 1, -2 } }, { "BF16", "bfloat16", "<HH", { 0x3f80, 0xc000 }, { 1, -2 } },
      { "U32", "int64", "<I4I4", { 1, 4294967295 } }, { "I32", "int32", "<i4i4", { 1, -2 } }, { "F32", "float32", "<ff", { 1, -2 } },
      { "U64", "int64", "<I8I8", { 1, math.maxinteger } }, { "I64", "int64", "<i8i8", { 1, -2 } }, { "F64", "float64", "<dd", { 1, -2 } } }
    for shift = 0, 3 do -- blanks behind the head move what follows
      local head, bytes = '{"__metadata__":{"format":"pt","of":"a\\u00fc\\ud83d\\ude00\\n"}', {}
      local at = 0
      for _, case in ipairs(list) do
        local b = string.pack(case[3], table.unpack(case[4]))
        head = head .. (',\n"%s": {"shape":[2 , 1],"data_offsets":[%d,%d], "dtype":"%s"}'):format(case[1], at, at + #b, case[1])
        at, bytes[#bytes + 1] = at + #b, b
      end
      F.put(file(head .. "}" .. (" "):rep(shift), table.concat(bytes)))
      local got, notes = tide.load_safetensors(F.path, { device = D.dev })
      for _, case in ipairs(list) do
        assert.are.equal(case[2], D.dtype_name(got[case[1]]))
        assert.are.equal(D.dev, tostring(got[case[1]].device))
        D.eq(case[5] or case[4], got[case[1]]:flatten())
        D.eq({ 2, 1 }, got[case[1]]:size())
      end
      assert.are.same({ format = "pt", of = "aü😀\n" }, notes)
    end
  end)

  it("reads many tensors and much metadata", function()
    local head, notes, bytes = { }, {}, {}
    for i = 1, 300 do
      notes[i] = ('"key %d":"value %d"'):format(i, i)
      head[i] = ('"x%d":{"dtype":"I16","shape":[1],"data_offsets":[%d,%d]}'):format(i, 2 * i - 2, 2 * i)
      bytes[i] = string.pack("<i2", i)
    end
    F.put(file('{"__metadata__":{' .. table.concat(notes, ",") .. "}," .. table.concat(head, ",") .. "}", table.concat(bytes)))
    local got, said = tide.load_safetensors(F.path)
    for i = 1, 300 do
      assert.are.equal("value " .. i, said["key " .. i])
      assert.are.equal(i, got["x" .. i]:item())
    end
  end)

  it("shows the file's memory on the cpu, which is not written", function()
    F.put(file('{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', string.pack("<ff", 1, 2)))
    local before = tide.cpu and F.content()
    local x = tide.load_safetensors(F.path).a
    x:fill_(3)
    D.eq({ 3, 3 }, x)
    assert.are.equal(before, F.content())
    D.eq({ 1, 2 }, tide.load_safetensors(F.path).a)
    os.remove(F.path)
    D.eq({ 3, 3 }, x) -- the memory stays as long as the tensor
  end)

  it("gives those that are asked for", function()
    tide.save_safetensors(F.path, { a = tide.ones(2), b = tide.zeros(2) })
    local got = tide.load_safetensors(F.path, { names = { "b" } })
    D.eq({ 0, 0 }, got.b)
    assert.is_nil(got.a)
    D.raises("ValueError", tide.load_safetensors, F.path, { names = { "c" } })
    D.raises("ArgumentError", tide.load_safetensors, F.path, { names = { 3 } })
  end)

  it("gives floats of 8 bits as their bytes, with the dtypes' names beside", function()
    local words = { "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ" }
    local head, bytes, want = "{", "", {}
    for i, word in ipairs(words) do
      head = head .. ('"%s":{"dtype":"%s","shape":[2,3],"data_offsets":[%d,%d]},'):format("t" .. i, word, 6 * i - 6, 6 * i)
      bytes = bytes .. string.char(0, 0x7f, 0x80, 0xff, i, 6)
      want["t" .. i] = word
    end
    head = head .. '"x":{"dtype":"BF16","shape":[1],"data_offsets":[30,32]},"none":{"dtype":"F8_E4M3","shape":[0,2],"data_offsets":[32,32]}}'
    want.x, want.none = "BF16", "F8_E4M3"
    F.put(file(head, bytes .. "\x80\x3f"))
    local got = tide.load_safetensors(F.path, { device = D.dev })
    for i in ipairs(words) do
      local x = got["t" .. i]
      assert.are.equal("uint8", D.dtype_name(x))
      D.eq({ { 0, 0x7f, 0x80 }, { 0xff, i, 6 } }, x)
      D.eq(x, tide.load_safetensors(F.path, { names = { "t" .. i } })["t" .. i])
    end
    D.eq({ 0, 2 }, got.none:size())
    D.eq({ 1 }, got.x)
    local names, dtypes = tide.safetensors_names(F.path)
    assert.are.same(want, dtypes)
    table.sort(names)
    assert.are.same({ "none", "t1", "t2", "t3", "t4", "t5", "x" }, names)
  end)

  it("reads what is beside tensors of unknown dtypes", function()
    local deep = ("1,"):rep(12) .. "1"
    for _, case in ipairs { { "F4", "[3]", 2 }, { "F6_E2M3", "[4]", 3 }, { "I128", "[1]", 16 }, { "", "[]", 1 }, { ("Q"):rep(300), "[2]", 0 }, { "f32", "[1]", 4 },
      { "U8", "[" .. deep .. "]", 1, "12 dimensions" }, { "U64", "[1]", 8, "uint64" } } do
      local word, shape, n, says = table.unpack(case)
      local head = ('{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"odd":{"dtype":"%s","shape":%s,"data_offsets":[4,%d]},' ..
        '"b":{"dtype":"U8","shape":[2],"data_offsets":[%d,%d]}}'):format(word, shape, 4 + n, 4 + n, 6 + n)
      F.put(file(head, string.pack("<f", 1.5) .. ("\xff"):rep(n) .. "\1\2"))
      local got = tide.load_safetensors(F.path, { device = D.dev })
      D.eq({ 1.5 }, got.a)
      D.eq({ 1, 2 }, got.b)
      says = says or "the dtype '" .. word:sub(1, 40) .. "'"
      F.refused(says, function() return got.odd end)
      F.refused(says, tide.load_safetensors, { names = { "a", "odd" } })
      D.eq({ 1, 2 }, tide.load_safetensors(F.path, { names = { "b" } }).b)
      local names, dtypes = tide.safetensors_names(F.path)
      table.sort(names)
      assert.are.same({ "a", "b", "odd" }, names)
      assert.are.same({ a = "F32", b = "U8", odd = word }, dtypes)
      F.put(file(head, string.pack("<f", 1.5) .. ("\xff"):rep(n) .. "\1"))
      F.refused("bytes of values", tide.load_safetensors)
    end
  end)

  it("believes nothing in a file", function()
    local good = file('{"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', string.pack("<ff", 1, 2))
    for n = 0, #good - 1 do
      F.put(good:sub(1, n))
      D.raises("FileError", tide.load_safetensors, F.path)
    end
    local function one(fields) return '{"a":{' .. fields .. "}}" end
    local shape, dtype, at = '"shape":[2],', '"dtype":"F32",', '"data_offsets":[0,8]'
    local eight = "12345678"
    for _, case in ipairs {
      { string.pack("<I8", 1 << 62) .. eight, "no length of a head" }, { string.pack("<i8", -1) .. eight, "no length of a head" },
      { string.pack("<I8", 100000001) .. eight, "no length of a head" }, { "", "too early" },
      { file(" {}", ""), "first byte" }, { file("", ""), "first byte" }, { file("[]", ""), "first byte" },
      { file("{}", "x"), "got 1 bytes of values, expected 0" }, { file("{} x", ""), "behind the dict" }, { file("{}\0", ""), "zero" },
      { file('{"a":1}', ""), "dtype, shape" }, { file('{"a":{}}', ""), "a string" }, { file('{"a"{}}', ""), "colon" },
      { file('{"a\1":{}}', ""), "control" }, { file('{"\\x":{}}', ""), "escapes" }, { file('{"\\ud800":{}}', ""), "escapes" },
      { file('{"\\u0000":{}}', ""), "escapes" }, { file('{"\xff":{}}', ""), "UTF-8" }, { file('{"a', ""), "control" },
      { file('{"__metadata__":{"a":1}}', ""), "a string" }, { file('{"__metadata__":{},"__metadata__":{}}', ""), "once" },
      { file('{"__metadata__":[]}', ""), "texts" },
      { file(one(dtype .. shape .. '"data_offsets":[0,8],"x":1'), eight), "once each" }, { file(one(dtype .. dtype .. shape .. at), eight), "once each" },
      { file(one(dtype .. '"data_offsets":[0,8]'), eight), "once each" }, { file(one('"dtype":"F8_E4M3",' .. shape .. at), eight), "8 bytes for the shape [2] of F8_E4M3" },
      { file(one('"dtype":"F4",' .. shape .. at), eight), "F4" }, { file(one('"dtype":4,' .. shape .. at), eight), "a string" },
      { file(one(dtype .. '"shape":[3],' .. at), eight), "8 bytes for the shape [3]" },
      { file(one(dtype .. '"shape":[-2],' .. at), eight), "at least 0" }, { file(one(dtype .. '"shape":[2.5],' .. at), eight), "end of a list" },
      { file(one(dtype .. '"shape":[02],' .. at), eight), "at least 0" }, { file(one(dtype .. '"shape":[09],' .. at), eight), "at least 0" },
      { file(one(dtype .. '"shape":[00],' .. at), eight), "at least 0" }, { file('{"\\ud800\\ue000":{}}', ""), "escapes" },
      { file('{"\\ud800\\udbff":{}}', ""), "escapes" }, { file('{"\\udc00":{}}', ""), "escapes" }, { file('{"\\udfff":{}}', ""), "escapes" }, { file(one(dtype .. '"shape":2,' .. at), eight), "a list" },
      { file(one(dtype .. '"shape":[99999999999999999999],' .. at), eight), "too large" },
      { file(one(dtype .. '"shape":[4611686018427387904,8],' .. at), eight), "for the shape" },
      { file(one(dtype .. '"shape":[1,1,1,1,1,1,1,1,1,1,1,1,1],' .. at), eight), "12 dimensions" },
      { file(one(dtype .. shape .. '"data_offsets":[0,8,9]'), eight), "two numbers" }, { file(one(dtype .. shape .. '"data_offsets":[8]'), eight), "[begin, end]" },
      { file(one(dtype .. shape .. '"data_offsets":[8,0]'), eight), "[begin, end]" }, { file(one(dtype .. shape .. '"data_offsets":[1,9]'), eight .. "x"), "begin at 1" },
      { file(one(dtype .. shape .. '"data_offsets":[0,8]'), eight .. "x"), "got 9 bytes" },
      { file(one(dtype .. shape .. '"data_offsets":[0,8]'), "x"), "got 1 bytes" },
      { file('{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}', eight), "twice" },
      { file('{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}}', eight), "begin at 3, expected 4" },
      { file('{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}', "1234"), "begin at 0, expected 4" },
      { file('{"a":' .. ("{"):rep(10000), ""), "a string" }, { file(("["):rep(10000), ""), "first byte" },
      { file(one('"dtype":"U64","shape":[1],' .. at), ("\xff"):rep(8)), "uint64" } } do
      F.put(case[1])
      F.refused(case[2], tide.load_safetensors)
    end
    os.remove(F.path)
    F.refused("No such file", tide.load_safetensors)
  end)

  it("takes no mark of JSON twice, none less and none more", function()
    local head = '{"__metadata__":{"k":"v","l":"w"},"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[0],"data_offsets":[8,8]}}'
    F.put(file(head, "12345678"))
    assert.is_truthy(tide.load_safetensors(F.path).a)
    for at, mark in head:gmatch '()([%]%[{}":,])' do
      local before, after = head:sub(1, at - 1), head:sub(at + 1)
      local comma = mark == '"' and mark or "," -- in a string it is a letter
      for _, text in ipairs { before .. after, before .. mark .. mark .. after, before .. comma .. mark .. after, before .. mark .. comma .. after } do
        F.put(file(text, "12345678"))
        local ok, e = pcall(tide.load_safetensors, F.path)
        assert.is_true(not ok and e.kind == "FileError", text)
      end
    end
  end)
end)

describe("save_safetensors", function()
  D.watch(before_each, after_each)

  it("writes what load_safetensors reads, in every layout", function()
    local all = {}
    for _, dtype in ipairs(D.dtypes) do
      local x = D.tensor({ { 1, 0, 1 }, { 0, 0, 1 } }, dtype)
      if dtype ~= "complex128" then
        for _, layout in ipairs(D.layouts(x)) do all[dtype .. " <" .. layout[1] .. ">"] = layout[2] end
      end
    end
    all["none"], all["0-d \"\\\nü"] = tide.zeros({ 3, 0 }, { device = D.dev }), D.tensor(2, "int8")
    tide.save_safetensors(F.path, all, { metadata = { a = "b", ["<ü>"] = "" } })
    local got, notes = tide.load_safetensors(F.path, { device = D.dev })
    for name, x in pairs(all) do
      assert.is_true(tide.equal(x, got[name]), name)
      assert.are.equal(D.dtype_name(x), D.dtype_name(got[name]))
      got[name] = nil
    end
    assert.is_nil(next(got))
    assert.are.same({ a = "b", ["<ü>"] = "" }, notes)
  end)

  it("writes what the format asks for: values aligned, largest elements first, equal for equal tensors", function()
    tide.save_safetensors(F.path, { a = tide.tensor({ 1 }, { dtype = "uint8" }), b = tide.tensor({ 2 }, { dtype = "int64" }) })
    local head = '{"b":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},"a":{"dtype":"U8","shape":[1],"data_offsets":[8,9]}}'
    head = head .. (" "):rep(-#head % 8)
    assert.are.equal(file(head, string.pack("<i8B", 2, 1)), F.content())
    tide.save_safetensors(F.path, {})
    assert.are.equal(file("{}      ", ""), F.content())
    local got, notes = tide.load_safetensors(F.path)
    assert.is_nil(next(got))
    assert.is_nil(next(notes))
  end)

  it("names what cannot be written, and writes nothing then", function()
    F.put "old"
    local x = tide.ones(2)
    D.raises("DtypeError", tide.save_safetensors, F.path, { a = tide.ones(2, { dtype = "complex128" }) })
    D.raises("ValueError", tide.save_safetensors, F.path, { __metadata__ = x })
    D.raises("ValueError", tide.save_safetensors, F.path, { ["\xff"] = x })
    D.raises("ArgumentError", tide.save_safetensors, F.path, { x })
    D.raises("ArgumentError", tide.save_safetensors, F.path, { a = x, b = 1 })
    D.raises("ValueError", tide.save_safetensors, F.path, { ["a\0b"] = x })
    D.raises("ArgumentError", tide.save_safetensors, F.path, { a = x }, { metadata = { a = 1 } })
    D.raises("ValueError", tide.save_safetensors, F.path, { a = x }, { metadata = { a = "\xff" } })
    D.raises("ArgumentError", tide.save_safetensors, F.path, { a = x }, { meta = {} })
    D.raises("ArgumentError", tide.save_safetensors, F.path)
    assert.are.equal("old", F.content())
    D.raises("FileError", tide.save_safetensors, "/nowhere/x", { a = x })
  end)
end)
