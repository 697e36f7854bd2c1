-- Files that tide writes are whole or stay as they were, whoever writes them.

local tide = require "tide"
local D = require "spec.support.device"
local F = require "spec.support.file"

-- Each writes more than 8 KiB to `path`.
local writers = {
  save = "tide.save(path, tide.ones(100000))",
  save_npy = "tide.save_npy(path, tide.ones(100000))",
  save_npz = "tide.save_npz(path, {tide.ones(100000)})",
  save_npz_compressed = "tide.save_npz(path, {tide.rand(10000)}, {compressed = true})",
  save_safetensors = "tide.save_safetensors(path, {x = tide.ones(100000)})",
  save_png = "tide.save_png(path, tide.randint(0, 256, {200, 200}):to('uint8'))",
  trace = [[
    local x = tide.ones(1, {device = dev})
    tide.cuda.profiler.trace(function() for i = 1, 200 do x:add_(1) end end, path)]],
}
if D.cuda then
  writers.dump_snapshot = [[
    tide.cuda.memory.record_history(true)
    for i = 1, 200 do tide.ones(100, {device = dev}) end
    tide.cuda.memory.dump_snapshot(path)]]
  writers.debug_dump = [[
    local g, x = tide.cuda.CUDAGraph(), tide.ones(1, {device = dev})
    g:enable_debug_mode()
    tide.cuda.graph(g, function() for i = 1, 300 do x:add_(1) end end)
    g:debug_dump(path)]]
end

-- What the writer says in a process of its own, with files limited to `blocks` of 512 or 1024 bytes.
local function write(text, path, blocks)
  local script = ("local tide, path, dev = require 'tide', [[%s]], [[%s]]; local ok, e = pcall(function() %s end); " ..
    "print(ok and 'written' or tostring(e.kind) .. ' ' .. tostring(e))"):format(path, D.dev, text)
  local limit = blocks and "trap '' XFSZ; ulimit -f " .. blocks .. ";" or ""
  local shell = io.popen(("%s TIDE_KERNEL_CACHE=0 exec timeout 60 %s -e '%s' 2>&1"):format(limit, D.runner,
    (script:gsub("'", "'\\''"))))
  local out = shell:read "a"
  shell:close()
  return out
end

local function shell(command)
  local pipe = io.popen(command)
  local out = pipe:read "a"
  pipe:close()
  return out
end

for name, text in pairs(writers) do
  describe("a file of " .. name, function()
    local folder
    before_each(function() folder = shell("mktemp -d"):match "%S+" end)
    after_each(function() os.execute("rm -rf " .. folder) end)

    local function alone(file) assert.are.equal(file .. "\n", shell("ls " .. folder)) end

    it("takes the place of another when all of it is written", function()
      local path = folder .. "/x"
      F.put(("old "):rep(100000), path)
      assert.matches("^written", write(text, path))
      assert.is_nil(F.content(path):find("old old", 1, true))
      assert.is_true(#F.content(path) > 8192)
      alone "x"
    end)

    it("stays as it was where the disk is full", function()
      local path = folder .. "/x"
      F.put("old", path)
      local said = write(text, path, 4)
      assert.matches("^FileError", said)
      assert.matches(path, said, 1, true)
      assert.are.equal("old", F.content(path))
      alone "x"
      os.remove(path)
      assert.matches("^FileError", write(text, path, 4))
      assert.are.equal("", shell("ls " .. folder))
    end)

    it("stays as it was where no other name fits beside it", function()
      local file = ("x"):rep(250)
      local path = folder .. "/" .. file
      F.put("old", path)
      assert.matches("^FileError", write(text, path, 4))
      assert.are.equal("old", F.content(path))
      assert.matches("^written", write(text, path))
      local bytes = F.content(path)
      assert.is_true(#bytes > 8192 and bytes:sub(1, 3) ~= "old")
      alone(file)
      os.remove(path)
      assert.matches("^FileError", write(text, path, 4))
      assert.are.equal("", shell("ls " .. folder))
    end)

    it("is written into a device or a pipe, and follows a link", function()
      local said = write(text, "/dev/full") -- the driver does not say whether it could write to a device
      if name ~= "debug_dump" or D.simulated then assert.matches("^FileError.*/dev/full", said) end
      assert.matches("^c", shell "ls -l /dev/full")
      local path, other = folder .. "/pipe", folder .. "/out"
      assert.is_true(os.execute(("mkfifo %s && (cat %s > %s &)"):format(path, path, other)))
      assert.matches("^written", write(text, path))
      assert.matches("^p", shell("ls -l " .. path))
      assert.is_true(os.execute(("for i in $(seq 600); do [ $(wc -c < %s) -gt 8192 ] && exit 0; sleep 0.1; done; exit 1"):format(other)))
      local link, target = folder .. "/link", folder .. "/target"
      assert.is_true(os.execute(("ln -s target %s"):format(link)))
      assert.matches("^FileError", write(text, link, 4))
      assert.is_false(os.execute("test -e " .. target) == true)
      for _ = 1, 2 do
        assert.matches("^written", write(text, link))
        assert.matches("^l", shell("ls -l " .. link))
        assert.is_true(#F.content(target) > 8192)
      end
    end)

    it("names what cannot be written", function()
      for _, path in ipairs { folder, folder .. "/none/x", folder .. "/" .. ("x"):rep(300) } do
        local said = write(text, path)
        assert.matches("^FileError", said)
        assert.matches(path, said, 1, true)
      end
      assert.are.equal("", shell("ls " .. folder))
    end)
  end)
end

it("leave no descriptor open, whole, cut off, broken and not written", function()
  if not os.execute "test -d /proc/self/fd" then return pending "needs Linux" end
  local folder = shell("mktemp -d"):match "%S+"
  local function open()
    if _VERSION ~= "Lua 5.4" then collectgarbage() end -- which closes files there
    return shell("ls -l /proc/$PPID/fd | grep -e " .. folder .. " -e /dev/full")
  end
  local x, picture = tide.rand(40, 3), tide.randint(0, 256, { 4, 6, 5 }):to "uint8"
  local formats = {
    save = { tide.save, tide.load, { x, picture } }, npy = { tide.save_npy, tide.load_npy, x }, npz = { tide.save_npz, tide.load_npz, { x = x, y = picture } },
    compressed = { function(path, v) tide.save_npz(path, v, { compressed = true }) end, tide.load_npz, { x = x, y = picture } },
    safetensors = { tide.save_safetensors, tide.load_safetensors, { x = x, y = picture } }, png = { tide.save_png, tide.load_png, picture[1] },
    csv = { tide.save_csv, tide.load_csv, x }, gif = { tide.save_gif, nil, picture },
    raw = { function(path) F.put(("x"):rep(400), path) end, function(path) return tide.from_file(path, { 100 }) end },
  }
  for name, format in pairs(formats) do
    local path, other = folder .. "/" .. name, folder .. "/other"
    local write, read, value = table.unpack(format, 1, 3)
    local function closed(what) assert.are.equal("", open(), name .. ": " .. what) end
    write(path, value)
    closed "written"
    if name ~= "raw" then
      for _, place in ipairs { folder, folder .. "/none/x", "/dev/full" } do
        assert.is_false((pcall(write, place, value)))
        closed("not written to " .. place)
      end
    end
    if read then
      for _ = 1, 3 do read(path) end
      closed "read"
      local bytes = F.content(path)
      for at = 0, #bytes - 1, math.max(1, #bytes // 20) do
        F.put(bytes:sub(1, at), other)
        pcall(read, other)
        closed("cut off at " .. at)
        F.put(bytes:sub(1, at) .. string.char(bytes:byte(at + 1) ~ 0x55) .. bytes:sub(at + 2), other)
        pcall(read, other)
        closed("broken at " .. at)
      end
      assert.is_false((pcall(read, folder .. "/none")))
      assert.is_false((pcall(read, folder)))
      closed "not there"
    end
  end
  os.execute("rm -r " .. folder)
end)

it("files keep their rights when they are replaced, and one that is protected stays", function()
  local path = os.tmpname()
  F.put("old", path)
  os.execute("chmod 640 " .. path)
  tide.save_png(path, tide.zeros({ 2, 2 }, { dtype = "uint8" }))
  assert.matches("^%-rw%-r%-%-%-%-%-", shell("ls -l " .. path))
  if shell("id -u"):match "%d+" ~= "0" then
    os.execute("chmod 440 " .. path)
    local bytes = F.content(path)
    D.raises("FileError", tide.save, path, 1)
    assert.are.equal(bytes, F.content(path))
  end
  os.remove(path)
end)
