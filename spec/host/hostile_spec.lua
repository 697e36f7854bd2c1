-- User code that runs in the middle of a function and changes what the function reads.
local D = require "spec.support.device"
local collecting = require "spec.support.collecting".call
local tide = require "tide"

describe("user code in the middle", function()
  it("that grows a table while it becomes a tensor is an error", function()
    local caught = 0
    for _, change in ipairs {
      function(t) for i = 1, 4096 do t[i] = { 1, 2 } end end,
      function(t) t[1] = { 1, 2, 3, 4, 5, 6, 7, 8 } end,
      function(t) t[2] = tide.ones(5000) end,
      function(t) t[1] = 5 end,
      function(t) t[2][1] = { 1, 2, 3 } end,
      function(t) t[2][2] = "x" end,
      function(t) t[1][2] = nil end,
      function(t) t[2][1] = tide.ones(300):select(1, 1) end,
    } do
      local t = { { 1, 2 }, { 3, 4 } }
      local ok, e = collecting(function() change(t) end, function() return tide.tensor(t) end)
      if not ok then
        caught = caught + 1
        assert.is_true(type(e) == "table" and e.kind ~= nil, tostring(e))
      end
    end
    assert.is_true(caught >= 4, caught)
  end)

  it("that reshapes a tensor inside a table is an error or too late", function()
    local x = tide.ones(4, { dtype = tide.float64 })
    local ok, e = collecting(function() x:resize_(4000) end, function() return tide.tensor { x, x } end)
    assert.is_true(ok or e.kind ~= nil)
  end)

  it("that closes the file of load or save is an error", function()
    local path = os.tmpname()
    tide.save(path, { a = tide.ones(3000), b = tide.ones(3000), c = { tide.ones(2) } })
    for _, table_of in ipairs { false, true } do
      local f = assert(io.open(path, "rb"))
      local function close() f:close() return "cpu" end
      local map = close
      if table_of then map = setmetatable({}, { __index = close }) end
      D.raises("StateError", tide.load, f, { map_location = map })
    end
    local f = assert(io.open(path, "rb"))
    local ok, e = collecting(function() f:close() end, function() return tide.load(f) end)
    assert.is_false(ok)
    assert.are.equal("StateError", e.kind)
    f = assert(io.open(path, "wb"))
    local list = {}
    for i = 1, 50 do list[i] = tide.ones(100):narrow(1, 2, 50) end
    ok, e = collecting(function() f:close() end, function() return tide.save(f, list) end)
    assert.is_false(ok)
    assert.are.equal("StateError", e.kind)
    os.remove(path)
  end)

  it("is not believed by cuda.device_of", function()
    for _, name in ipairs { 5, {}, false, "tide.Storage", print } do
      local o = setmetatable({ device = "cpu" }, { __name = name })
      D.raises("ArgumentError", tide.cuda.device_of, o, function() end)
    end
  end)

  it("may hand anything to cmdline", function()
    local function parser() return tide.cmdline("t"):option("n", 1, "a number"):flag("v", "loud") end
    for _, wrong in ipairs { {}, 5, { name = {} }, { name = "x" }, { name = 5, help = "h" }, print, setmetatable({}, { __index = error }) } do
      local p = parser()
      p[1] = wrong
      D.raises("ArgumentError", p.parse, p, { "--n", "3" })
      D.raises("ArgumentError", p.help, p)
    end
    local p = parser()
    local args = setmetatable({}, { __len = function() return 1 << 40 end, __index = function() return {} end })
    assert.are.equal(1, p:parse(args).n)
    assert.are.equal(7, p:parse({ "--n", 7, 8 }).n)
    D.eq({ "8" }, { tostring(p:parse({ "--n=7", 8 })[1]) })
    D.raises("ArgumentError", p.parse, p, { {} })
    D.raises("ValueError", p.parse, p, { "--x" })
    local exit, print0 = os.exit, io.write
    os.exit = function() end -- luacheck: ignore
    assert.is_true((pcall(p.parse, p, { "--help", "--n", "5" })))
    os.exit, io.write = exit, print0 -- luacheck: ignore
    local changing = parser()
    collecting(function() changing[1] = { name = print } end, function() return changing:parse { "--n", "3", "--v" } end)
  end)

  it("may print the table of sizes as anything", function()
    local show = debug.getmetatable(tide.ones(1).shape).__tostring
    for _, v in ipairs { io.stdout, 5, "x", {}, { {}, true }, print, tide.ones(2) } do
      local ok, text = pcall(show, v)
      assert.are.equal("string", type(ok and text or text.message), tostring(v))
      assert.is_true(ok or text.kind == "ArgumentError", tostring(text))
    end
  end)

  it("may come with 200 arguments, with no library of coroutines", function()
    local resume = coroutine.resume
    local many = {}
    for i = 1, 200 do many[i] = i end
    local devices = D.devices > 1 and { 0, 1 } or { "cpu" }
    local inputs = D.devices > 1 and { many, many } or { many }
    for _, library in ipairs { true, false } do
      if not library then coroutine.resume = nil end -- luacheck: ignore
      local ok, out = pcall(tide.parallel.apply, function(...) return select("#", ...) end, inputs, { devices = devices })
      coroutine.resume = resume -- luacheck: ignore
      assert.is_true(ok, tostring(out))
      D.eq(D.devices > 1 and { 200, 200 } or { 200 }, out)
    end
  end)
end)
