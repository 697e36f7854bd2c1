-- tide.reload: a module's text again, while what it holds stays.

local tide = require "tide"
local D = require "spec.support.device"

local folder, path

-- Writes the text of the module spec_reloaded.
local function put(text, name)
  local file = assert(io.open(("%s/%s.lua"):format(folder, name or "spec_reloaded"), "w"))
  file:write('local tide, device = require "tide", "' .. D.dev .. '"\n', text)
  file:close()
end

local function load(text)
  put(text)
  return assert(tide.reload "spec_reloaded")
end

describe("reload", function()
  before_each(function()
    folder, path = os.tmpname(), package.path
    os.remove(folder)
    assert(os.execute("mkdir " .. folder))
    package.path = folder .. "/?.lua;" .. path
  end)
  after_each(function()
    os.execute("rm -r " .. folder)
    package.path = path
    for _, name in ipairs { "spec_reloaded", "spec_other", "spec_theme" } do
      package.loaded[name] = nil
    end
    assert(tide.reload("spec_reloaded", "return nil")) -- so that nothing is remembered of the case before
    package.loaded.spec_reloaded = nil
  end)
  D.watch(before_each, after_each)

  it("loads a module as require does, with its name, its file and what was there", function()
    local M = load "local name, file, old = ... return {name = name, file = file, old = old}"
    assert.are.equal("spec_reloaded", M.name)
    assert.are.equal(folder .. "/spec_reloaded.lua", M.file)
    assert.is_nil(M.old)
    assert.are.equal(M, require "spec_reloaded")
    local again = load "local _, _, old = ... local M = old M.again = true return M"
    assert.are.equal(M, again)
    assert.is_true(M.again)
  end)

  it("takes new functions, in tables and in local variables", function()
    local M = load [[
      local function inner() return "old inner" end
      return {f = function() return "old", inner() end, deep = {g = function() return "old g" end}, gone = function() end}]]
    assert.are.same({ "old", "old inner" }, { M.f() })
    local deep = M.deep
    assert.are.equal(M, load [[
      local function inner() return "new inner" end
      return {f = function() return "new", inner() end, deep = {g = function() return "new g" end}, more = function() return 1 end}]])
    assert.are.same({ "new", "new inner" }, { M.f() })
    assert.are.equal("new g", deep.g())
    assert.is_nil(M.gone)
    assert.are.equal(1, M.more())
  end)

  it("keeps what has changed and takes what was edited", function()
    local M = load [[
      local counter, speed = 0, 3
      local M = {count = 0, gravity = 9.8, name = "first", on = true, list = {1, 2}, none = 0 / 0}
      function M.step() counter, M.count = counter + 1, M.count + 1 return counter, speed end
      return M]]
    M.step()
    M.step()
    M.name, M.added, M.list[3] = "at run time", "too", 30
    load [[
      local counter, speed = 0, 4
      local M = {count = 0, gravity = 1.6, name = "first", on = true, list = {1, 2, nil, 4}, none = 0 / 0, second = 2}
      function M.step() counter, M.count = counter + 1, M.count + 1 return counter, speed end
      return M]]
    assert.are.same({ 3, 4 }, { M.step() })
    assert.are.equal(3, M.count)
    assert.are.equal(1.6, M.gravity)
    assert.are.equal("at run time", M.name)
    assert.are.equal("too", M.added)
    assert.are.equal(2, M.second)
    assert.are.same({ 1, 2, 30, 4 }, M.list)
    load [[
      local counter = 100
      local M = {count = 1.0, list = {1}}
      function M.step() counter = counter + 1 return counter end
      return M]]
    assert.are.equal(101, M.step())
    assert.are.equal("float", math.type(M.count))
    assert.is_nil(M.gravity)
    assert.are.equal("too", M.added)
    assert.are.same({ 1, nil, 30 }, M.list)
  end)

  it("keeps tensors by name, in the table, in tables in it and in variables", function()
    local text = [[
      local velocity = tide.zeros(4, {device = device})
      local M = {position = tide.zeros(4, 2, {device = device}), parts = {mass = tide.ones(3, {device = device})}}
      function M.move() velocity:add_(1) M.position:add_(2) return velocity end
      return M]]
    local M = load(text)
    local position, mass, velocity = M.position, M.parts.mass, M.move()
    load((text:gsub("add_%(2%)", "add_(10)")))
    assert.is_true(rawequal(position, M.position))
    assert.is_true(rawequal(mass, M.parts.mass))
    assert.is_true(rawequal(velocity, M.move()))
    D.eq({ 2, 2, 2, 2 }, velocity)
    D.eq({ { 12, 12 }, { 12, 12 }, { 12, 12 }, { 12, 12 } }, position)
    load((text:gsub("zeros%(4, 2", "zeros(5, 2"):gsub("ones%(3, {", "ones(3, {dtype = tide.float64, ")))
    assert.are.same({ 5, 2 }, { M.position:size(1), M.position:size(2) })
    assert.are.equal(tide.float64, M.parts.mass.dtype)
    assert.is_true(rawequal(velocity, M.move()))
    -- A name that refers to one that stays refers to what stayed.
    load((text:gsub("return M", "M.alias = velocity M.all = {velocity, {M}} return M")))
    assert.is_true(rawequal(velocity, M.alias))
    assert.is_true(rawequal(velocity, M.all[1]))
    assert.are.equal(M, M.all[2][1])
  end)

  it("keeps what the program has put in a place, and what it has taken out", function()
    local text = "return {big = tide.ones(3), on_hit = function() return 'mine' end, target = {}, removed = 1}"
    local M = load(text)
    local target, callback = {}, function() return "theirs" end
    M.big, M.removed, M.target, M.on_hit = nil, nil, target, callback
    for _ = 1, 2 do
      load(text)
      assert.is_nil(M.big)
      assert.is_nil(M.removed)
      assert.are.equal(target, M.target)
      assert.are.equal(callback, M.on_hit)
      assert.are.same({}, target)
    end
  end)

  it("gives functions that were kept elsewhere the variables of the new ones", function()
    local text = [[
      local n, fresh, unused = 0
      local function add(k) n = n + k return n end
      return {f = function() return add(1) end, get = function() return n end}]]
    local M = load(text)
    local f = M.f
    f()
    for i = 1, 3 do
      load((text:gsub("add%(1%)", "add(10)")))
      f() -- is what it was
      M.f()
      assert.are.equal(1 + 11 * i, M.get())
    end
    -- A new function that is the only one to hold a variable of that name finds it.
    load [[local n = 0 return {other = function() return n end}]]
    assert.are.equal(34, M.other())
  end)

  it("keeps variables of the same name apart", function()
    local text = [[
      local M = {list = {}}
      do local n = 0 function M.a() n = n + 1 return n end end
      do local n = 100 function M.b() n = n + 1 return n end end
      for i = 1, 3 do M.list[i] = function() i = i + 10 return i end end
      return M]]
    local M = load(text)
    assert.are.same({ 1, 101, 11, 13 }, { M.a(), M.b(), M.list[1](), M.list[3]() })
    load(text)
    assert.are.same({ 2, 102, 21, 12, 23 }, { M.a(), M.b(), M.list[1](), M.list[2](), M.list[3]() })
  end)

  it("gives objects the new methods of their class, and classes their metatables", function()
    local text = [[
      local Base = {} Base.__index = Base
      function Base.kind() return "base VERSION" end
      local Ball = setmetatable({}, Base) Ball.__index = Ball
      Ball.__call = function() return "called VERSION" end
      function Ball:name() return self.n .. " VERSION" end
      local M = setmetatable({}, {__index = function(_, k) return k .. " VERSION" end})
      function M.new(n) return setmetatable({n = n}, Ball) end
      M.first = M.new "first"
      return M]]
    local M = load((text:gsub("VERSION", "old")))
    local ball, first = M.new "b", M.first
    first.n = "changed"
    local class, meta = getmetatable(ball), getmetatable(M)
    load((text:gsub("VERSION", "new")))
    assert.are.same({ "b new", "base new", "called new", "missing new" }, { ball:name(), ball:kind(), ball(), M.missing })
    assert.are.equal(class, getmetatable(M.new "c"))
    assert.are.equal(meta, getmetatable(M))
    assert.are.equal(first, M.first)
    assert.are.equal("changed new", M.first:name())
    load "return {}"
    assert.is_nil(getmetatable(M))
    assert.is_nil(M.first)
  end)

  it("grows by nothing in 1,000 reloads", function()
    local text = [[
      local M, tensors, shared = {kernels = {}, tensors = {}}, {}, 0
      local Class = {} Class.__index = Class
      for i = 1, 25 do
        M.tensors[i], tensors[i] = tide.zeros(100, {device = device}), tide.zeros(100 + i, {device = device})
      end
      for i = 1, 20 do
        M.kernels[i] = tide.cuda.jiterator.create_jit_fn("template <typename T> T f(T x) { return x + T(" .. i .. "); }")
      end
      function M.step() shared = shared + 1 for i = 1, 25 do tensors[i]:add_(VERSION) end return setmetatable({}, Class), shared end
      reload_spec_global = function() return VERSION end
      return M]]
    local versions = { (text:gsub("VERSION", "1")), (text:gsub("VERSION", "2")) }
    local function used()
      for _ = 1, 3 do
        collectgarbage()
        if D.cuda then tide.cuda.synchronize_all() end
        tide.zeros(1):free() -- what waits for an allocation goes
      end
      collectgarbage()
      return collectgarbage "count" * 1024, tide.cpu.memory_allocated(), D.cuda and tide.cuda.memory_allocated() or 0
    end
    local reload = coroutine.wrap(function(n) -- which keeps what Lua needs for deep calls
      for i = 1, math.huge do
        local M = assert(tide.reload("spec_reloaded", 'local tide, device = require "tide", "' .. D.dev .. '"\n' .. versions[i % 2 + 1]))
        M.step()
        if i % n == 0 then n = coroutine.yield() end
      end
    end)
    reload(100)
    local heap, host, device = used()
    reload(1100) -- of which the first 100 are done
    local heap_now, host_now, device_now = used()
    assert.is_true(heap_now - heap <= 64, heap_now - heap) -- the record of one call, which Lua keeps at times, not a byte a reload
    assert.are.equal(0, host_now - host)
    assert.are.equal(0, device_now - device)
    local _, steps = package.loaded.spec_reloaded.step()
    assert.are.equal(1101, steps)
    assert(tide.reload("spec_reloaded", ""))
  end)
end)
