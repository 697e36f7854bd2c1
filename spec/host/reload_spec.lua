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

  it("is seen by functions that loops have called before", function()
    local function sum(f)
      local s = 0
      for _ = 1, 1000 do s = s + f() end
      return s
    end
    local text = "local speed = 1 local M = {} local function its() return speed end function M.step() return its() end return M"
    local M = load(text)
    local old = M.step
    assert.are.equal(1000, sum(old))
    load((text:gsub("speed = 1", "speed = 3")))
    assert.are.same({ 3000, 3000 }, { sum(old), sum(M.step) })
    -- The first text never assigns to n, and the second one does.
    text = "local n = 0 local M = {} function M.get() return n end function M.last() return n end "
      .. "function M.made() return function() return n end end "
    M = load(text .. "return M")
    local last, get, made = M.last, M.get, M.made()
    assert.are.same({ 0, 0, 0 }, { sum(last), sum(get), sum(made) })
    load(text .. "function M.inc() n = n + 1 end return M")
    local inc, new, s = M.inc, M.get, { 0, 0, 0, 0 }
    for _ = 1, 1000 do
      inc()
      s[1], s[2], s[3], s[4] = s[1] + new(), s[2] + get(), s[3] + last(), s[4] + made()
    end
    assert.are.same({ 500500, 500500, 500500, 500500 }, s)
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

  it("does not put back what the program has taken out and the collector has freed", function()
    local text = [[
      local Class = {} Class.__index = Class
      return {cache = {1}, hit = function() return "mine" end, dressed = setmetatable({}, Class)}]]
    local M = load(text)
    M.cache, M.hit = nil, nil
    setmetatable(M.dressed, nil)
    for _ = 1, 2 do
      collectgarbage()
      collectgarbage()
      load(text)
      assert.is_nil(M.cache)
      assert.is_nil(M.hit)
      assert.is_nil(getmetatable(M.dressed))
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

  it("takes for a variable of several functions what the first of them held, where the old ones held different ones", function()
    for _, order in ipairs { "a, b", "b, a", "a, b, a", "b, a, a" } do
      local apart = "local a, b do local n = 0 function a() n = n + 1 return n end end do local n = 0 function b() n = n + 1 return n end end"
      local M = load(apart .. " return {" .. order .. "}")
      assert.are.same({ 1, 1, 2 }, { M[1](), M[2](), M[2]() })
      assert.are.equal(M, load("local n = 0 local function a() n = n + 1 return n end local function b() n = n + 1 return n end return {" .. order .. "}"))
      assert.are.same({ 2, 3, 4 }, { M[1](), M[2](), M[1]() })
      assert(tide.reload("spec_reloaded", "return nil"))
      package.loaded.spec_reloaded = nil
    end
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

  it("does not touch the tables of other modules", function()
    put("return {red = {1, 0, 0}, blue = {0, 0, 1}}", "spec_theme")
    put("return {red = {9}}", "spec_other")
    local M = load [[local c = require("spec_theme") return {color = c.red, lib = string, get = function() return c end}]]
    local theme, format = require "spec_theme", string.format
    load [[local c = require("spec_other") return {color = c.red, lib = math, get = function() return c end}]]
    assert.are.same({ 1, 0, 0 }, theme.red)
    assert.are.equal(require("spec_other").red, M.color)
    assert.are.equal(require "spec_other", M.get())
    assert.are.equal(math, M.lib)
    assert.are.equal(format, string.format)
    assert.is_nil(string.floor)
    load [[local c = {red = {3}} return {color = c.red, lib = {floor = 1}, get = function() return c end}]]
    assert.are.same({ red = { 9 } }, require "spec_other")
    assert.are.equal("function", type(math.floor))
    assert.are.equal(1, M.lib.floor)
  end)

  it("knows a table of another module's at an address where the text had one", function()
    put("local t = {} for i = 1, 2000 do t[i] = {i} end return t", "spec_theme")
    put("collectgarbage() collectgarbage() local t = {} for i = 1, 2000 do t[i] = {i} end return t", "spec_other")
    for _, name in ipairs { "spec_theme", "spec_other" } do
      for _ = 1, 2 do
        package.loaded[name] = nil
        local M = assert(tide.reload("spec_reloaded", ([[
          do local made = {} for i = 1, 2000 do made[i] = {i} end end
          if %q == "spec_theme" then collectgarbage() collectgarbage() end
          local theirs, M = require %q, {}
          for i = 1, #theirs do M[i] = theirs[i] end
          return M]]):format(name, name)))
        local theirs = require(name)
        for i = 1, 2000 do
          assert.is_true(rawequal(theirs[i], M[i]))
          assert.are.equal(i, rawget(theirs[i], 1))
          assert.is_nil(debug.getmetatable(theirs[i]))
        end
      end
    end
  end)

  it("makes what the text registers elsewhere stand for what stayed", function()
    put("return {}", "spec_other")
    local text = [[
      local M = {n = 0, list = {1, 2}}
      function M.count() M.n = M.n + STEP return M.n end
      require("spec_other").game = M
      return M]]
    local other = require "spec_other"
    local M = load((text:gsub("STEP", "1")))
    M.count()
    load((text:gsub("STEP", "10")))
    assert.are.equal(11, other.game.count())
    assert.are.equal(11, other.game.n)
    other.game.n = 5
    assert.are.equal(5, M.n)
    local keys = {}
    for key in pairs(other.game) do keys[#keys + 1] = key end
    table.sort(keys)
    assert.are.same({ "count", "list", "n" }, keys)
    assert.are.equal(2, #other.game.list)
  end)

  it("hands out no function that does not look at its arguments", function()
    put("return {}", "spec_other")
    local text = 'local M = {1, 2, n = 0} require("spec_other").game = M return M'
    load(text)
    load(text)
    local game = require("spec_other").game
    assert.are.equal("string", type(getmetatable(game)))
    assert.is_false(pcall(setmetatable, game, {}))
    local step = pairs(game)
    local meta = debug.getmetatable(game)
    assert.is_true(rawequal(debug.getmetatable(load(text)), nil) and type(meta) == "table")
    for _, f in ipairs { step, meta.__pairs, meta.__len } do
      for _, value in ipairs { 5, true, "text", print, tide.ones(1), io.stdout, coroutine.create(print) } do
        assert.is_false(pcall(f, value))
        assert.is_false(pcall(f, value, 1))
        assert.is_false(pcall(f, debug.setmetatable({}, { __index = value }), "no key"))
      end
      assert.is_false(pcall(f))
      assert.is_false(pcall(f, {}, "no key"))
    end
  end)

  it("treats the globals that the text sets as the module's", function()
    assert.is_true(load "reload_spec_score, reload_spec_top = 0, 10 function reload_spec_hit() reload_spec_score = reload_spec_score + 1 end")
    reload_spec_hit()
    local ok, e = tide.reload("spec_reloaded", "reload_spec_score, reload_spec_extra = 7, 7 error 'stop'")
    assert.is_nil(ok)
    assert.matches("stop", e, 1, true)
    assert.are.same({ 1, 10 }, { reload_spec_score, reload_spec_top })
    assert.is_nil(reload_spec_extra)
    load "reload_spec_score = 0 function reload_spec_hit() reload_spec_score = reload_spec_score + 5 return _ENV end"
    assert.are.equal(_G, reload_spec_hit())
    assert.are.equal(6, reload_spec_score)
    assert.is_nil(reload_spec_top)
    load ""
    assert.is_nil(reload_spec_score)
    assert.is_nil(reload_spec_hit)
  end)

  it("keeps everything where the text is wrong or fails", function()
    local M = load "local n = 1 return {get = function() return n end, x = tide.ones(2), t = {1}}"
    local before = {}
    for key, value in pairs(M) do before[key] = value end
    for text, message in pairs {
      ["return {x = = 1}"] = "spec_reloaded.lua:2: unexpected symbol",
      ["local n = 2 local a = nil + n"] = "arithmetic on a nil value",
      ["tide.ones(2):add(tide.ones(3))"] = "add",
      ["error {kind = 'own'}"] = "table",
      ["error()"] = "nil",
    } do
      put(text)
      local result, e = tide.reload(M)
      assert.is_nil(result)
      assert.matches(message, tostring(e), 1, true)
      for key, value in pairs(before) do assert.is_true(rawequal(value, M[key])) end
      for key in pairs(M) do assert.is_true(before[key] ~= nil) end
      assert.are.equal(1, M.get())
      assert.are.equal(M, require "spec_reloaded")
    end
    put "tide.ones(2):add(tide.ones(3))"
    local _, e = tide.reload(M)
    assert.are.equal("ShapeError", e.kind)
    os.remove(folder .. "/spec_reloaded.lua")
    local result, missing = tide.reload(M)
    assert.is_nil(result)
    assert.matches("spec_reloaded.lua", missing, 1, true)
    assert.are.equal(M, load "local n = 1 return {get = function() return n + 1 end}")
    assert.are.equal(2, M.get())
  end)

  it("knows of a module that require has loaded what it holds, and keeps it", function()
    local text = [[
      local n, x, lazy = 0, tide.zeros(2, {device = device})
      local M = {count = 0, sub = {}}
      function M.step() n, lazy = n + 1, lazy or {} M.count = n x:add_(1) return lazy, x end
      return M]]
    put(text)
    local M = require "spec_reloaded"
    local sub, lazy, x = M.sub, M.step()
    load((text:gsub("M.count = n", "M.count = 10 * n"):gsub("count = 0", "count = 5")))
    local lazy_now, x_now = M.step()
    assert.is_true(rawequal(lazy, lazy_now) and rawequal(x, x_now))
    assert.are.equal(20, M.count)
    assert.are.equal(sub, M.sub)
    load((text:gsub("count = 0", "count = 7")))
    assert.are.equal(7, M.count) -- from now on it knows what the text gave
  end)

  it("takes modules that are functions, and text in place of the file", function()
    local f = load "local n = 0 return function() n = n + 1 return n end"
    assert.are.equal(1, f())
    local g = load "local n = 0 return function() n = n + 10 return n end"
    assert.are.equal(11, g())
    assert.are.equal(g, require "spec_reloaded")
    assert.are.equal("text", assert(tide.reload("spec_reloaded", "return 'text'")))
    assert.are.equal(5, load "return 5")
  end)

  it("keeps streams, events, generators and coroutines", function()
    local text = [[
      local M = {g = tide.Generator(), co = coroutine.create(function() coroutine.yield(1) end), dtype = tide.float32}
      if device ~= "cpu" then M.stream, M.event, M.graph = tide.cuda.Stream(), tide.cuda.Event(), tide.cuda.CUDAGraph() end
      return M]]
    local M = load(text)
    local before = { M.g, M.co, M.stream, M.event, M.graph }
    load((text:gsub("float32", "float64")))
    local after = { M.g, M.co, M.stream, M.event, M.graph }
    assert.are.equal(D.cuda and 5 or 2, #after)
    for i = 1, #before do assert.is_true(rawequal(before[i], after[i])) end
    assert.are.equal(tide.float64, M.dtype)
  end)

  it("takes new kernels, and keeps the old ones where the new do not compile", function()
    if not D.compiler then return pending "a compiler" end
    local text = [[
      local scale = tide.cuda.jiterator.create_jit_fn "template <typename T> T scale(T x) { return x * T(FACTOR); }"
      local k = tide.cuda.compile_kernel("__global__ void put(float *x) { x[threadIdx.x] = FACTOR; }", "put")
      local M, x = {scale = scale}, tide.ones(2, {device = device})
      function M.run() k({grid = 1, block = 2}, x) return scale(x) end
      M.run()
      return M]]
    local M = load((text:gsub("FACTOR", "3")))
    D.eq({ 9, 9 }, M.run())
    load((text:gsub("FACTOR", "5")))
    D.eq({ 25, 25 }, M.run())
    D.eq({ 10, 10 }, M.scale(D.tensor({ 2, 2 }, tide.float32)))
    put((text:gsub("FACTOR", "not_there")))
    local result, e = tide.reload(M)
    assert.is_nil(result)
    assert.matches("not_there", e.message, 1, true)
    D.eq({ 25, 25 }, M.run())
  end)

  it("reads a tree of any depth, and one that refers to itself", function()
    local text = [[
      local M = {depth = DEPTH} M.self, M[M] = M, true
      local t = M
      for i = 1, 20000 do t.next = {i, up = t} t = t.next end
      return M]]
    local M = load((text:gsub("DEPTH", "1")))
    local tenth = M
    for _ = 1, 10 do tenth = tenth.next end
    load((text:gsub("DEPTH", "2")))
    assert.are.equal(2, M.depth)
    assert.are.equal(M, M.self)
    local now = M
    for _ = 1, 10 do now = now.next end
    assert.are.equal(tenth, now)
    assert.are.equal(M, M.next.up)
  end)

  it("refuses what is no module", function()
    for _, value in ipairs { 3, {}, print, true, tide.ones(1) } do
      local e = D.raises("ArgumentError", tide.reload, value)
      assert.matches("reload: module: got", e.message, 1, true)
    end
    D.raises("ArgumentError", tide.reload)
    D.raises("ArgumentError", tide.reload, "spec_reloaded", 3)
    D.raises("ArgumentError", tide.reload, "spec_reloaded", "return 1", 2)
    local result, e = tide.reload "spec_not_there"
    assert.is_nil(result)
    assert.matches("reload: module 'spec_not_there' not found", e, 1, true)
    local chunk = string.dump(function() return 1 end)
    result, e = tide.reload("spec_reloaded", chunk)
    assert.is_nil(result)
    assert.matches("binary", e, 1, true)
  end)

  it("asks no more of package than a search for a file", function()
    local package, result, e = package, nil, nil
    local search = package.searchpath
    for _, other in ipairs { 5, true, "text", print } do
      package.loaded.package = other
      local ok
      ok, result, e = pcall(tide.reload, "spec_not_there")
      package.loaded.package = package
      assert.is_true(ok, result)
      assert.is_nil(result)
      assert.matches("module 'spec_not_there' not found: there is no package.path", e, 1, true)
    end
    for _, other in ipairs { 5, function() end, function() return 5 end, function() return nil, {} end } do
      package.searchpath = other
      local ok
      ok, result, e = pcall(tide.reload, "spec_not_there")
      package.searchpath = search
      assert.is_true(ok, result)
      assert.is_nil(result)
      assert.matches("module 'spec_not_there' not found", e, 1, true)
    end
  end)

  it("works within another reload, and in a coroutine", function()
    put("return {inner = VERSION}", "spec_other")
    local text = "local tide = require 'tide' local o = assert(tide.reload('spec_other', 'return {inner = VERSION}')) return {o = o, t = {VERSION}}"
    for i = 1, 3 do
      coroutine.wrap(function()
        local M = assert(tide.reload("spec_reloaded", (text:gsub("VERSION", i))))
        assert.are.equal(i, M.o.inner)
        assert.are.same({ i }, M.t)
        assert.are.equal(M.o, require "spec_other")
      end)()
    end
  end)

  it("grows by nothing in many reloads", function()
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
    local compiler = rawget(_G, "jit") -- LuaJIT's, whose buffers lie in Lua's heap
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
    if compiler then compiler.off() compiler.flush() end
    reload(100)
    local done, grown, most = 100, nil, compiler and 999 or 64 -- the record of one call, not a byte a reload
    for _ = 1, 3 do -- what a reload kept it would keep in each round; what else Lua keeps comes once
      local heap, host, device = used()
      done = done + 1000 // D.every
      reload(done)
      local heap_now, host_now, device_now = used()
      assert.are.equal(0, host_now - host)
      assert.are.equal(0, device_now - device)
      grown = heap_now - heap
      if grown <= most then break end
    end
    if compiler then compiler.on() end
    assert.is_true(grown <= most, grown)
    local _, steps = package.loaded.spec_reloaded.step()
    assert.are.equal(done + 1, steps)
    assert(tide.reload("spec_reloaded", ""))
  end)
end)
