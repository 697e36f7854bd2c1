-- Functions and scripts in new processes.

local tide = require "tide"
local D = require "spec.support.device"
local spawn = tide.multiprocessing.spawn

local function read(path)
  local file = io.open(path, "rb")
  local text = file and file:read "a" or ""
  if file then file:close() end
  return text
end

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

-- Neither running nor a zombie.
local function is_gone(pid)
  local file = io.open("/proc/" .. pid .. "/stat")
  if file then file:close() end
  return file == nil
end

local function eventually(check, what)
  for _ = 1, 3000 do
    if check() then return end
    os.execute "sleep 0.02"
  end
  error(what .. " did not come", 2)
end

local function clear()
  if D.cuda then tide.cuda.ipc_collect() end
end

describe("tide.multiprocessing.spawn", function()
  D.watch(before_each, after_each, clear)
  local base
  before_each(function() base = os.tmpname() end)
  after_each(function() os.execute("rm -f " .. base .. "*") end)

  it("runs a function in each of several processes, with its rank and arguments", function()
    local results = table.pack(spawn(function(rank, path, t, n, ...)
      assert(select("#", ...) == 2)
      local file = assert(io.open(path .. rank, "w"))
      file:write(rank, " ", t.k[1], " ", tostring(n), " ", math.type(t.one), " ", os.getenv "TIDE_SIM_DEVICES" or "none")
      file:close()
    end, { nprocs = 3, args = table.pack(base, { k = { "v" }, one = 1 }, nil, 5, nil) }))
    assert.are.equal(0, results.n)
    for rank = 0, 2 do
      assert.are.equal(rank .. " v nil integer " .. (os.getenv "TIDE_SIM_DEVICES" or "none"), read(base .. rank))
    end
    spawn(function(rank, path) io.open(path .. "alone", "w"):write(rank):close() end, { args = { base } })
    assert.are.equal("0", read(base .. "alone"))
  end)

  it("runs a script, and modules are found where they were", function()
    write(base .. ".lua", [[
      local rank, path = ...
      io.open(path .. rank, "w"):write(arg[0], " ", (require "spawned_module")):close()]])
    local folder, name = base:match "^(.*/)([^/]*)$"
    write(base .. "_module.lua", "return 'module'")
    package.preload.spawned_module = nil
    local before = package.path
    package.path = folder .. name .. "_module.lua;" .. before
    spawn(base .. ".lua", { nprocs = 2, args = { base } })
    package.path = before
    for rank = 0, 1 do assert.are.equal(base .. ".lua module", read(base .. rank)) end
    write(base .. ".lua", "this is no Lua")
    assert.matches("syntax error", D.raises("StateError", spawn, base .. ".lua").message)
  end)

  it("gives the function its globals and modules", function()
    local shown = require "spec.support.device".show
    D.raises("ArgumentError", spawn, function() return shown end)
    spawn(function(rank, path)
      io.open(path .. rank, "w"):write(D.show { tide.ones(1):item() }, type(print)):close()
    end, { args = { base } })
    assert.are.equal("{1.0}function", read(base .. 0))
    local bare = load(string.dump(function(_, path) io.open(path .. "bare", "w"):write "bare":close() end, true))
    spawn(bare, { args = { base } })
    assert.are.equal("bare", read(base .. "bare"))
  end)

  it("gives each its copy of tensors of the host, with what they share", function()
    local x = tide.arange(6, { dtype = "float32" })
    spawn(function(rank, path, a, b)
      a:add_(rank)
      io.open(path .. rank, "w"):write(tostring(b:sum():item())):close()
    end, { nprocs = 2, args = { base, x, x:view(2, 3) } })
    assert.are.equal("15.0", read(base .. 0))
    assert.are.equal("21.0", read(base .. 1))
    D.eq(15, x:sum())
  end)

  it("gives all the same memory of a GPU", function()
    if not D.cuda then return pending "needs a device" end
    local before = tide.cuda.memory_allocated()
    local x = tide.zeros(4, { device = "cuda" })
    tide.cuda._sleep(5000000)
    x:fill_(1)
    spawn(function(rank, t)
      t.x[rank + 1]:add_(rank)
      tide.cuda.synchronize()
    end, { nprocs = 4, args = { { x = x } } })
    D.eq({ 1, 2, 3, 4 }, x)
    x:free()
    tide.cuda.ipc_collect()
    assert.are.equal(before, tide.cuda.memory_allocated())
    -- One that ends without having opened it, and one that dies with it.
    x = tide.zeros(4, { device = "cuda" })
    assert.matches("without looking", D.raises("StateError", spawn, function() end, { exe = "/bin/true", args = { x } }).message)
    D.raises("StateError", spawn, function() os.execute "kill -9 $PPID" while true do end end, { args = { x } })
    x:free()
    tide.cuda.ipc_collect()
    assert.are.equal(before, tide.cuda.memory_allocated())
  end)

  it("lets the processes share tensors among each other", function()
    if not D.cuda then return pending "needs a device" end
    spawn(function(rank, path)
      local function put(name, text)
        local file = assert(io.open(path .. name .. ".new", "wb"))
        file:write(text)
        file:close()
        os.rename(path .. name .. ".new", path .. name)
      end
      local function get(name)
        for _ = 1, 6000 do
          local file = io.open(path .. name, "rb")
          if file then
            local text = file:read "a"
            file:close()
            return text
          end
          os.execute "sleep 0.01"
        end
        error(name .. " did not come")
      end
      local mine = tide.full({ 1000 }, rank + 1, { device = "cuda" })
      put("h" .. rank, mine:ipc_handle())
      local theirs = tide.cuda.tensor_from_ipc(get("h" .. 1 - rank))
      local sum = (mine + theirs):sum():item()
      theirs:free()
      tide.cuda.synchronize()
      put("done" .. rank, tostring(sum))
      get("done" .. 1 - rank) -- the maker lives as long as the other uses what it made
    end, { nprocs = 2, args = { base } })
    assert.are.equal("3000", read(base .. "done0"):match "%d+")
    assert.are.equal("3000", read(base .. "done1"):match "%d+")
  end)

  it("raises the error of the first that fails and ends the others", function()
    local e = D.raises("StateError", spawn, function(rank, path)
      io.open(path .. rank, "w"):write(io.open "/proc/self/stat":read "n"):close()
      if rank == 1 then
        for other = 0, 2, 2 do
          repeat
            local file = io.open(path .. other)
            local text = file and file:read "a" or ""
            if file then file:close() end
          until #text > 0
        end
        error "boom"
      end
      while true do end
    end, { nprocs = 3, args = { base } })
    assert.are.same({ 1, 1 }, { e.rank, e.exit_code })
    assert.is_nil(e.signal)
    assert.matches("^spawn: rank 1 %(process %d+%) failed with exit code 1: .*spawn_spec.lua:%d+: boom\nstack traceback:", e.message)
    assert.are.equal(read(base .. 1), tostring(e.pid))
    for rank = 0, 2 do assert.is_true(is_gone(tonumber(read(base .. rank)))) end
    e = D.raises("StateError", spawn, function() tide.ones(2):view(3) end)
    assert.matches("spawn_spec.lua:%d+: view: .*stack traceback:.*spawn_spec.lua", e.message)
    e = D.raises("StateError", spawn, function() error { code = 5 } end)
    assert.matches("failed with exit code 1: table: ", e.message)
    e = D.raises("StateError", spawn, function() os.exit(7) end)
    assert.are.equal(7, e.exit_code)
    assert.matches("failed with exit code 7$", e.message)
    e = D.raises("StateError", spawn, function() error(("long "):rep(100000)) end)
    assert.is_true(#e.message > 500000)
    spawn(function() os.exit(0) end)
    spawn(function() os.exit(true, true) end)
  end)

  it("tells of a process that was killed", function()
    local c = spawn(function() while true do end end, { nprocs = 2, join = false })
    local pids = c:pids()
    assert.are.equal(2, #pids)
    assert.is_false(c:join(0.05))
    os.execute("kill -9 " .. pids[1])
    local e = D.raises("StateError", c.join, c)
    assert.are.same({ 0, pids[1], 9 }, { e.rank, e.pid, e.signal })
    assert.is_nil(e.exit_code)
    assert.matches("rank 0 %(process " .. pids[1] .. "%) was ended by signal 9 %(Killed%)$", e.message)
    for _, pid in ipairs(pids) do assert.is_true(is_gone(pid)) end
    assert.is_true(c:join())
    assert.are.same({}, c:pids())
  end)

  it("gives a context that is joined, closed or dropped", function()
    local c = spawn(function(_, path)
      os.execute "sleep 0.1"
      io.open(path .. "done", "w"):write "done":close()
    end, { join = false, args = { base } })
    local pids = c:pids()
    assert.is_true(c:join(300))
    assert.are.equal("done", read(base .. "done"))
    assert.is_true(is_gone(pids[1]))
    do
      local closing <close> = spawn(function() while true do end end, { nprocs = 2, join = false })
      pids = closing:pids()
      assert.is_false(is_gone(pids[2]))
    end
    for _, pid in ipairs(pids) do assert.is_true(is_gone(pid)) end
    c = spawn(function() while true do end end, { join = false })
    pids = c:pids()
    assert.is_false(c:join(-1))
    D.raises("ValueError", c.join, c, 0 / 0)
    c:close()
    c:close()
    assert.is_true(is_gone(pids[1]))
    assert.is_true(c:join())
    pids = spawn(function() end, { join = false }):pids()
    collectgarbage()
    collectgarbage()
    eventually(function()
      spawn(function() end)
      return is_gone(pids[1])
    end, "the end of a dropped process")
    D.raises("ArgumentError", c.join, 5)
    D.raises("ArgumentError", c.join, c, "1")
  end)

  it("ends the processes with the one that started them", function()
    local path = base .. "orphan"
    local _, err, code = D.run({ "-e", ([[
      tide.multiprocessing.spawn(function(_, path)
        local pid = io.open "/proc/self/stat":read "n"
        io.open(path, "w"):write(pid):close()
        while true do end
      end, { join = false, args = { %q } })
      repeat
        local file = io.open(%q)
        local text = file and file:read "a" or ""
        if file then file:close() end
      until #text > 0
      os.execute "kill -9 $PPID"
      while true do end]]):format(path, path) })
    assert.are.equal(137, code, err)
    -- An init that takes no orphans leaves a zombie: it does nothing any more.
    eventually(function() return not read("/proc/" .. read(path) .. "/stat"):match "%) [RSD]" end, "the end of an orphan")
  end)

  it("refuses what another process would not have", function()
    local one, two = 1, { 2 }
    local e = D.raises("ArgumentError", spawn, function() return one, two, print end)
    assert.matches("uses 'one', 'two' from around it", e.message)
    D.raises("ArgumentError", spawn, print)
    D.raises("ArgumentError", spawn)
    D.raises("ArgumentError", spawn, 5)
    D.raises("FileError", spawn, base .. "missing.lua")
    local function f() end
    e = D.raises("ArgumentError", spawn, f, { args = { 1, { g = print } } })
    assert.matches("spawn: value%.args%[2%]%.g: got function", e.message)
    D.raises("ArgumentError", spawn, f, { args = { tide.Generator() } })
    D.raises("ArgumentError", spawn, f, { args = 5 })
    D.raises("ArgumentError", spawn, f, { args = { x = 5 } })
    D.raises("ArgumentError", spawn, f, { args = { 5, x = 5 } })
    D.raises("ArgumentError", spawn, f, { n = 2 })
    D.raises("ArgumentError", spawn, f, 2)
    D.raises("ArgumentError", spawn, f, { nprocs = "2" })
    D.raises("ValueError", spawn, f, { nprocs = 0 })
    D.raises("ArgumentError", spawn, f, { join = 1 })
    D.raises("ArgumentError", spawn, f, { exe = 1 })
    D.raises("FileError", spawn, f, { exe = "/nonexistent/tide" })
    D.raises("FileError", spawn, f, { exe = base }) -- cannot be run
    D.raises("StateError", spawn, f, { exe = "/bin/false" })
    D.raises("StateError", tide.multiprocessing._main)
  end)
end)
