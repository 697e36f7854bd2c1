-- What chunks take and give (lua_bindings/call/script.c), seen from a hook: scripts cannot get at it.

local tide = require "tide"
local D = require "spec.support.device"
local x = tide.tensor { 1, 2 }

local function globals_of(func)
  if debug.getfenv then return debug.getfenv(func) end -- LuaJIT
  for i = 1, 255 do
    local name, value = debug.getupvalue(func, i)
    if not name or name == "_ENV" then return value end
  end
end

-- Calls act(globals) once while a function of einsum.lua runs.
local function within(act)
  local ok, problem
  debug.sethook(function()
    local info = debug.getinfo(2, "Sf")
    if ok == nil and info.source == "=[tide tensor/einsum.lua]" and globals_of(info.func) then ok, problem = pcall(act, globals_of(info.func)) end
  end, "c")
  pcall(tide.einsum, "1", x)
  debug.sethook()
  if not ok then error(problem or "no function of einsum.lua was seen", 0) end
end

local function raises(pattern, fn)
  local ok, message = pcall(fn)
  assert.is_false(ok)
  assert.is_truthy(message:find(pattern, 1, true), message)
end

describe("a chunk", function()
  it("has the functions of script.c as globals, and no other", function()
    within(function(env)
      assert.is_function(env.use)
      raises("a chunk has no global 'print'", function() return env.print end)
      raises("a chunk has no global 'leak'", function() env.leak = 1 end)
    end)
  end)

  it("takes only what others give", function()
    within(function(env)
      local use, has = env.use, env.has
      assert.is_function(use("tensor/statistics").cov)
      assert.are.equal(use "tensor/statistics", use "tensor/statistics")
      assert.is_function((use("tensor/compose.c", "sizes_of", "builtin")))
      assert.is_false(has "nowhere/nothing.c")
      raises("there is no chunk 'nowhere/nothing'", function() use "nowhere/nothing" end)
      raises("tensor/statistics gives no nothing", function() return use("tensor/statistics").nothing end)
      raises("tensor/compose.c gives no nothing", function() use("tensor/compose.c", "nothing") end)
    end)
  end)

  -- In programs of their own: here another spec may have loaded the chunk. `act` is run when its main chunk begins.
  local function first_load(act)
    local text = [[
local function globals_of(func) return select(2, debug.getupvalue(func, 1)) end
local x, own, begun = tide.tensor { 1, 2 }, nil, 0
debug.sethook(function()
  local info = debug.getinfo(2, "Sf")
  if info.source ~= "=[tide tensor/trapezoid.lua]" or info.what ~= "main" then return end
  begun, own = begun + 1, select(2, debug.getlocal(2, -1))
  assert(own == globals_of(info.func).use "tensor/trapezoid")
  ]] .. act .. [[

end, "c")
local result = { pcall(tide.trapezoid, x) }
print(result[1], tostring(result[2]), tide.trapezoid(x):item(), begun)]]
    return (D.run { "-e", text })
  end

  it("is loaded once, when a field of it is read first, and not in a circle", function()
    local said = first_load "print(pcall(function() return own.nothing end))"
    assert.is_truthy(said:find("tensor/trapezoid.nothing is read while tensor/trapezoid is loaded", 1, true), said)
    assert.is_truthy(said:find "true\t[^\n]*\t1.5\t1\n$", said)
  end)

  it("is loaded again if its loading failed", function()
    local said = first_load "if begun == 1 then error('planted', 0) end"
    assert.is_truthy(said:find "^false\t.*planted.*\t1.5\t2\n$", said)
  end)
end)
