-- Trees of values and tensors as bytes.

local tide = require "tide"
local D = require "spec.support.device"

describe("tide.serialize", function()
  D.watch(before_each, after_each)

  it("keeps values, shapes, strides, dtypes and devices", function()
    local tree = { 1, 2.5, "text\0with a zero", true, false, nested = { [2.5] = "a", [true] = "b", deep = {} }, dtype = tide.int16,
      device = tide.device "cuda:1", cpu = tide.device "cpu", math.huge, math.mininteger }
    local back = tide.deserialize(tide.serialize(tree))
    assert.are.same(tree, back)
    assert.are.equal("integer", math.type(back[1]))
    for _, v in ipairs { 5, "x", true, tide.float32 } do assert.are.equal(v, tide.deserialize(tide.serialize(v))) end
    assert.is_nil(tide.deserialize(tide.serialize(nil)))
    for _, dtype in ipairs(D.dtypes) do
      local x = tide.arange(24, { device = D.dev }):view(2, 3, 4):remainder(5):to(tide[dtype])
      for _, layout in ipairs(D.layouts(x)) do
        local y = tide.deserialize(tide.serialize(layout[2]))
        assert.are.equal(x.dtype, y.dtype)
        assert.are.equal(x.device, y.device)
        assert.are.same(layout[2]:stride(), y:stride())
        D.eq(x, y, 0, dtype .. " " .. layout[1])
      end
    end
    for _, size in ipairs { {}, { 0 }, { 3, 0, 2 } } do
      assert.are.same(size, tide.deserialize(tide.serialize(tide.zeros(size, { device = D.dev }))):size())
    end
  end)

  it("keeps what is shared and what refers to itself", function()
    local x = tide.zeros(3, 4, { device = D.dev })
    local tree = { x, x, x:t(), { row = x[2] } }
    tree.me = tree
    local bytes = tide.serialize(tree)
    assert.is_true(#bytes < 3 * 48 + 600) -- one storage
    local back = tide.deserialize(bytes)
    assert.are.equal(back, back.me)
    assert.is_true(rawequal(back[1], back[2]))
    back[1]:fill_(7)
    D.eq({ 7, 7, 7, 7 }, back[4].row)
    D.eq(0, x:sum())
    back.me, tree.me = nil, nil
  end)

  it("puts tensors where map_location says", function()
    local bytes = tide.serialize { tide.arange(3, { device = D.dev }) }
    assert.are.equal("cpu", tostring(tide.deserialize(bytes, { map_location = "cpu" })[1].device))
    assert.are.equal("cpu", tostring(tide.deserialize(bytes, { map_location = { [D.dev] = "cpu" } })[1].device))
    assert.are.equal(D.dev, tostring(tide.deserialize(bytes, { map_location = {} })[1].device))
    local seen
    local x = tide.deserialize(bytes, { map_location = function(name) seen = name end })[1]
    assert.are.equal(D.dev, seen)
    assert.are.equal(D.dev, tostring(x.device))
    D.raises("ArgumentError", tide.deserialize, bytes, { map_location = "nowhere" })
    D.raises("ArgumentError", tide.deserialize, bytes, { where = "cpu" })
    if D.devices > 1 then
      assert.are.equal("cuda:1", tostring(tide.deserialize(bytes, { map_location = 1 })[1].device))
    end
    local there = D.simulate(3, [[io.write(tide.serialize(tide.ones(2, { device = "cuda:2" })))]])
    if D.devices < 3 then
      assert.matches("cuda:2.*map_location", D.raises("DeviceError", tide.deserialize, there).message)
    end
    D.eq({ 1, 1 }, tide.deserialize(there, { map_location = D.dev }))
  end)

  it("refuses what cannot be written, and names where it is", function()
    assert.matches("value%.a%[2%]%.f: got function", D.raises("ArgumentError", tide.serialize, { a = { 1, { f = print } } }).message)
    assert.matches("value: got tide.Generator", D.raises("ArgumentError", tide.serialize, tide.Generator()).message)
    local freed = tide.ones(3)
    freed:free()
    D.raises("StateError", tide.serialize, { freed })
    local deep = {}
    local at = deep
    for _ = 1, 5000 do
      at.next = {}
      at = at.next
    end
    D.raises("ValueError", tide.serialize, deep)
  end)

  it("refuses tables in tables without end: as values, behind keys that are tables, and as keys", function()
    local head, one = tide.serialize(1):match "^(.*)(i........)$"
    for _, form in ipairs { { "Ts" .. ("<I8"):pack(1) .. "a", one, "z" }, { "TTz", one, "z" }, { "T", one .. one .. "z", one .. "z" } } do
      for _, depth in ipairs { 900, 5000 } do
        local ok, e = pcall(tide.deserialize, head .. form[1]:rep(depth) .. form[2] .. form[3]:rep(depth))
        assert.are.equal(depth < 1000, ok, tostring(e))
        if not ok then assert.is_truthy(e.message:find("tables are nested too deeply", 1, true), e.message) end
      end
    end
  end)

  it("survives bytes that are broken", function()
    local x = tide.arange(4, { dtype = "int32" })
    local bytes = tide.serialize { x, x:view(2, 2), text = "text", n = 1.5, dt = tide.bool, d = tide.device "cpu" }
    for i = 0, #bytes - 1 do D.raises("FileError", tide.deserialize, bytes:sub(1, i)) end
    for i = 1, #bytes do
      for _, flip in ipairs { 1, 64, 128, 255 } do
        local ok, e = pcall(tide.deserialize, bytes:sub(1, i - 1) .. string.char(bytes:byte(i) ~ flip) .. bytes:sub(i + 1))
        assert.is_true(ok or e.kind == "FileError", tostring(e))
      end
    end
    D.raises("ArgumentError", tide.deserialize, 5)
    D.raises("ArgumentError", tide.deserialize)
  end)
end)

describe("tide.save and tide.load", function()
  D.watch(before_each, after_each)

  it("leave the file that is there alone if the value cannot be saved", function()
    local path, gone = os.tmpname(), tide.ones(3, { device = D.dev })
    gone:free()
    tide.save(path, "kept")
    assert.matches("value.list[2]", D.raises("ArgumentError", tide.save, path, { list = { 1, print } }).message, 1, true)
    D.raises("StateError", tide.save, path, { gone })
    local deep = {}
    for _ = 1, 2000 do deep = { deep } end
    D.raises("ValueError", tide.save, path, deep)
    assert.are.equal("kept", tide.load(path))
    os.remove(path)
  end)

  if D.cuda then
    it("leave the file alone if the device cannot be read", function()
      local path, x = os.tmpname(), tide.ones(3, { device = "cuda" })
      tide.save(path, "kept")
      tide.cuda.synchronize()
      D.raises("StateError", function() tide.cuda.graph(tide.cuda.CUDAGraph(), function() tide.save(path, { x }) end) end)
      assert.are.equal("kept", tide.load(path))
      os.remove(path)
    end)
  end

  it("read back every empty tensor, with its strides", function()
    local x = tide.empty(4, 0, 7, 3, { device = D.dev })
    local empty = { x, x:select(1, 2), x:select(1, 4):transpose(1, 3), x:narrow(1, 4, 1),
      tide.empty(0, 5, { device = D.dev }):select(2, 5), tide.ones(10, { device = D.dev }):narrow(1, 11, 0),
      tide.empty(0, { dtype = "complex128", device = D.dev }):expand(5, 0) }
    for i, y in ipairs(empty) do
      local z = tide.deserialize(tide.serialize(y))
      assert.are.same({ y:size() }, { z:size() }, i)
      assert.are.same({ y:stride() }, { z:stride() }, i)
      assert.are.equal(y:storage_offset(), z:storage_offset())
      assert.are.equal(0, (z:to "float64"):sum():item())
    end
    D.raises("IndexError", x.as_strided, x, { 1, 0 }, { 1, 1 }, math.maxinteger)
    D.raises("IndexError", x.as_strided, x, { 1 }, { 1 }, 1)
  end)

  it("map a file instead of reading it", function()
    local path = os.tmpname()
    local big, small = tide.arange(1 << 20, { dtype = "float32" }), tide.arange(10, { dtype = "int64" })
    tide.save(path, { "odd", big = big, view = big:narrow(1, 3, 5), small = small, empty = tide.zeros(0), on = big:to(D.dev) })
    local function bytes()
      local file = assert(io.open(path, "rb"))
      local text = file:read "a"
      file:close()
      return text
    end
    local saved = bytes()
    local function mappings() -- of the file, in this process
      local n = 0
      for line in io.lines "/proc/self/maps" do n = n + (line:find(path, 1, true) and 1 or 0) end
      return n
    end
    local function resident() return tonumber(io.open("/proc/self/statm"):read("a"):match "%d+ (%d+)") end
    local before = resident()
    local t = tide.load(path, { mmap = true, map_location = "cpu" })
    assert.is_true(resident() - before < 512) -- of 2048 pages
    assert.are.equal(1, mappings())
    D.eq(big, t.big)
    D.eq(big, t.on)
    D.eq(small, t.small)
    assert.are.equal(0, t.empty:numel())
    assert.are.equal("odd", t[1])
    t.view:fill_(-1)
    D.eq({ big[2]:item(), -1, -1 }, t.big:narrow(1, 2, 3))
    assert.is_true(saved == bytes()) -- what was written stays in this process
    D.eq(big, tide.load(path, { mmap = true }).big)
    tide.save(path, "another") -- which takes its place, not its bytes
    D.eq(big:narrow(1, 100, 1000), t.big:narrow(1, 100, 1000))
    assert.are.equal("another", tide.load(path, { mmap = true }))
    t = nil
    collectgarbage()
    collectgarbage()
    tide.zeros(1)
    assert.are.equal(0, mappings())
    D.eq(big, tide.deserialize(saved).on)
    for _, n in ipairs { #saved - 1, #saved // 2, 5000, 20, 0 } do
      local file = assert(io.open(path, "wb"))
      file:write(saved:sub(1, n))
      file:close()
      D.raises("FileError", tide.load, path, { mmap = true })
    end
    local pipe = io.popen("cat " .. path)
    assert.matches("regular file", D.raises("FileError", tide.load, pipe, { mmap = true }).message)
    pipe:close()
    D.raises("FileError", tide.load, "/dev/zero", { mmap = true })
    local file = assert(io.open(path, "w+b"))
    file:write "head"
    tide.save(file, { big })
    tide.save(file, big)
    file:seek("set", 4)
    D.eq(big, tide.load(file, { mmap = true })[1])
    D.eq(big, tide.load(file, { mmap = true }))
    file:close()
    D.raises("ArgumentError", tide.load, path, { mmap = 1 })
    D.raises("ArgumentError", tide.deserialize, saved, { mmap = true })
    os.remove(path)
  end)

  it("name the file that is at fault, and say what is wrong with it", function()
    local path = os.tmpname()
    local function matches(text, f, ...) assert.matches(text, D.raises("FileError", f, ...).message, 1, true) end
    local file = assert(io.open(path, "wb"))
    file:write "something else"
    file:close()
    matches(path .. ": the bytes are not", tide.load, path)
    file = assert(io.open(path, "rb"))
    matches("file: Bad file descriptor", tide.save, file, 1)
    file:close()
    os.remove(path)
    matches("/tmp: Is a directory", tide.load, "/tmp")
    for _, n in ipairs { 1, 100000 } do matches("/dev/full: No space left", tide.save, "/dev/full", tide.ones(n)) end
  end)

  it("leave what was saved before as it was until all of the new is there", function()
    local path = os.tmpname()
    local folder, base = path:match "^(.*/)(.*)$"
    local function whole(value)
      assert.are.equal(value, tide.load(path))
      local list = io.popen("ls " .. folder)
      assert.is_nil(list:read("a"):find(base .. ".part", 1, true))
      list:close()
    end
    tide.save(path, "old")
    os.execute("chmod 640 " .. path)
    -- A disk that is full in the middle: the shell's limit of a file's size, in blocks of 512 or 1024 bytes.
    local shell = io.popen(("trap '' XFSZ; ulimit -f 8; %s -e 'local tide = require [[tide]]; " ..
      "print(select(2, pcall(tide.save, [[%s]], tide.ones(100000))).message)' 2>&1"):format(D.runner, path))
    local out = shell:read "a"
    shell:close()
    assert.matches(path .. ": File too large", out, 1, true)
    whole "old"
    if D.cuda then
      tide.cuda.set_sync_debug_mode "error"
      local ok = pcall(tide.save, path, tide.ones(8, { device = D.dev }))
      tide.cuda.set_sync_debug_mode "default"
      assert.is_false(ok)
      whole "old"
    end
    local link = path .. ".link"
    assert.is_true(os.execute(("ln -s %s %s"):format(path, link)))
    tide.save(link, "new") -- the file behind it is replaced, and keeps its rights
    whole "new"
    local rights = io.popen("ls -l " .. path)
    assert.matches("^%-rw%-r%-%-%-%-%-", rights:read "a")
    rights:close()
    os.remove(path)
    tide.save(link, "through") -- as any program would
    whole "through"
    os.remove(link)
    os.remove(path)
    path = folder .. base .. ("x"):rep(250 - #base) -- no room for another name beside it
    for _, value in ipairs { "old", "new" } do
      tide.save(path, value)
      whole(value)
    end
    os.remove(path)
  end)

  it("go through files by name and by handle", function()
    local path = os.tmpname()
    local x = tide.randn(100, 10, { device = D.dev })
    tide.save(path, { weight = x })
    D.eq(x, tide.load(path).weight)
    local file = assert(io.open(path, "w+b"))
    file:write "head\n"
    tide.save(file, x)
    tide.save(file, "second")
    file:seek("set", 0)
    assert.are.equal("head", file:read "l")
    D.eq(x, tide.load(file))
    assert.are.equal("second", tide.load(file))
    file:close()
    D.raises("StateError", tide.load, file)
    os.remove(path)
    assert.matches(path, D.raises("FileError", tide.load, path).message, 1, true)
    D.raises("FileError", tide.save, "/nonexistent/x", 1)
    D.raises("FileError", tide.save, "/dev/full", x)
    D.raises("ArgumentError", tide.save, 5, x)
    D.raises("ArgumentError", tide.save, path)
    D.raises("ArgumentError", tide.serialize)
    D.raises("ArgumentError", tide.load)
  end)
end)
