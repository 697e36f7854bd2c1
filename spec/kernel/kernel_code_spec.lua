-- Kernels written in Lua where there is no compiler: the block interpreter beside plain Lua (tide.kernel.interpret), by
-- random programs and by what its code does apart: masks, short rows, blocks of threads.
--
-- ctest runs it as specs-interpreted, with TIDE_CXX naming no compiler; elsewhere a compiler would take over.

local tide = require "tide"
local D = require "spec.support.device"
local math, load = math, load or loadstring
if (os.getenv "TIDE_CXX" or "") ~= "/nonexistent" then return pending "the interpreter alone: needs TIDE_CXX=/nonexistent" end
if _VERSION ~= "Lua 5.4" then return pending "random programs use Lua 5.4's integers" end

local programs = tonumber(os.getenv "TIDE_KERNEL_PROGRAMS" or 60)
local first = tonumber(os.getenv "TIDE_KERNEL_SEED" or 1)

-- ---- random programs over x (int64), u (float64), results y (int64) and v (float64) ----

local R, scope, lines, indent, loops, depth_left
local names = { "i", "j", "k" }
local ndim

local function line(text) lines[#lines + 1] = ("  "):rep(indent) .. text end

local function any(kind)
  local found = {}
  for _, v in ipairs(scope) do
    if v.kind == kind then found[#found + 1] = v.name end
  end
  return found[R(#found)]
end

local integer, float, boolean

local function place() return names[R(ndim)] end

-- An index that is inside: x and u have 11 elements.
local function inside(depth) return ("(%s) %% 11 + 1"):format(integer(depth - 1)) end

integer = function(depth)
  local r = depth <= 0 and R(4) or R(15)
  if r == 1 then return tostring(R(-9, 9)) end
  if r == 2 or r == 3 then return any "integer" end
  if r == 4 then return R(6) == 1 and ({ "math.maxinteger", "math.mininteger", "0x7fffffff", "4294967296" })[R(4)] or place() end
  if r <= 8 then return ("(%s %s %s)"):format(integer(depth - 1), ({ "+", "-", "*", "-" })[R(4)], integer(depth - 1)) end
  if r == 9 then return ("(%s %s %s)"):format(integer(depth - 1), ({ "&", "|", "~" })[R(3)], integer(depth - 1)) end
  if r == 10 then return ("(%s %s %s)"):format(integer(depth - 1), R(2) == 1 and "<<" or ">>", integer(depth - 1)) end
  if r == 11 then return ("(%s %s %s)"):format(integer(depth - 1), R(2) == 1 and "//" or "%", ({ "3", "-4", "16", "-1" })[R(4)]) end
  if r == 12 then return ("(%s %s (%s | 1))"):format(integer(depth - 1), R(2) == 1 and "//" or "%", integer(depth - 1)) end
  if r == 13 then return ("x[%s]"):format(inside(depth)) end
  if r == 14 then return ("math.%s(%s, %s)"):format(R(2) == 1 and "min" or "max", integer(depth - 1), integer(depth - 1)) end
  return ("%s(%s)"):format(({ "-", "~", "math.abs" })[R(3)], integer(depth - 1))
end

float = function(depth)
  local r = depth <= 0 and R(2) or R(11)
  if r == 1 then return ({ "0.5", "-2.25", "1e10", "3.0", "1e-300", "(1/0)" })[R(6)] end
  if r == 2 or r == 3 then return any "float" end
  if r <= 6 then return ("(%s %s %s)"):format(float(depth - 1), ({ "+", "-", "*", "/" })[R(4)], float(depth - 1)) end
  if r == 7 then return ("(%s %s %s)"):format(float(depth - 1), R(2) == 1 and "//" or "%", ({ "0.75", "-3.0", float(depth - 1) })[R(3)]) end
  if r == 8 then return ("u[%s]"):format(inside(depth)) end
  if r == 9 then return ("math.sqrt(%s)"):format(float(depth - 1)) end
  if r == 10 then return ("(%s + 0.0)"):format(integer(depth - 1)) end
  return ("math.%s(%s, %s)"):format(R(2) == 1 and "min" or "max", float(depth - 1), float(depth - 1))
end

boolean = function(depth)
  local r = depth <= 0 and R(4) or R(7)
  local sign = ({ "<", "<=", ">", ">=", "==", "~=" })[R(6)]
  if r <= 2 then return ("%s %s %s"):format(integer(depth - 1), sign, integer(depth - 1)) end
  if r == 3 then return ("%s %s %s"):format(float(depth - 1), sign, float(depth - 1)) end
  if r == 4 then return ("%s %s %s"):format(integer(depth - 1), sign, float(depth - 1)) end
  if r == 5 then return ("not (%s)"):format(boolean(depth - 1)) end
  return ("(%s) %s (%s)"):format(boolean(depth - 1), r == 6 and "and" or "or", boolean(depth - 1))
end

local statements

local function nested(count)
  local before = #scope
  indent, depth_left = indent + 1, depth_left - 1
  statements(count)
  indent, depth_left = indent - 1, depth_left + 1
  while #scope > before do scope[#scope] = nil end
end

local function fresh(kind)
  local name = kind:sub(1, 1) .. #lines .. "_" .. #scope
  return { name = name, kind = kind }
end

local function body(count)
  loops = loops + 1
  nested(count)
  loops = loops - 1
end

local kinds = {
  function()
    local v = fresh(R(2) == 1 and "integer" or "float")
    line(("local %s = %s"):format(v.name, v.kind == "integer" and integer(3) or float(3)))
    scope[#scope + 1] = v
  end,
  function()
    local kind = R(2) == 1 and "integer" or "float"
    local name = any(kind)
    if name == "i" or name == "j" or name == "k" then return line(("y[%s] = %s"):format(table.concat(names, "][", 1, ndim), integer(3))) end
    line(("%s = %s"):format(name, kind == "integer" and integer(3) or float(3)))
  end,
  function()
    line(("if %s then"):format(boolean(2)))
    nested(R(3))
    if R(2) == 1 then
      line "else"
      nested(R(3))
    end
    line "end"
  end,
  function()
    local v = fresh "integer"
    line(("for %s = %s, %s, %s do"):format(v.name, R(2) == 1 and R(-2, 2) or integer(1) .. " % 3", integer(1) .. " % 6",
      ({ "1", "2", "-1", "1" })[R(4)]))
    scope[#scope + 1] = v
    body(R(3))
    scope[#scope] = nil
    line "end"
  end,
  function()
    local v = fresh "integer"
    line(("local %s = %s %% 5"):format(v.name, integer(1)))
    line(("while %s > 0 and not (%s) do"):format(v.name, boolean(1)))
    line(("  %s = %s - 1"):format(v.name, v.name))
    body(R(3))
    line "end"
  end,
  function()
    if loops > 0 then line(("if %s then break end"):format(boolean(2))) end
  end,
}

statements = function(count)
  for _ = 1, count do
    local r = depth_left > 0 and R(#kinds) or R(2)
    if #lines > 60 then r = R(2) end
    kinds[r]()
  end
end

local function program(seed)
  math.randomseed(seed)
  R, scope, lines, indent, loops, depth_left = math.random, {}, {}, 1, 0, 3
  ndim = R(3)
  for d = 1, ndim do scope[d] = { name = names[d], kind = "integer" } end
  scope[#scope + 1] = { name = "n", kind = "integer" }
  scope[#scope + 1] = { name = "a", kind = "float" }
  line "local p, q = 0, 0.0"
  scope[#scope + 1] = { name = "p", kind = "integer" }
  scope[#scope + 1] = { name = "q", kind = "float" }
  statements(R(3, 7))
  local at = table.concat(names, "][", 1, ndim)
  line(("y[%s] = %s"):format(at, integer(2)))
  line(("v[%s] = %s"):format(at, float(2)))
  local grid = ({ { ({ 3, 40, 300, 520 })[R(4)] }, { 3, ({ 2, 17, 128, 270 })[R(4)] }, { 2, 3, ({ 1, 30, 140 })[R(3)] } })[ndim]
  return ("function(%s, x, u, y, v, n, a)\n%s\nend"):format(table.concat(names, ", ", 1, ndim), table.concat(lines, "\n")), grid
end

local function arrays(grid, device)
  local x = tide.tensor({ 5, -3, 0, 7, 1 << 40, -1, 2, 13, -8, 100, 4 }, { dtype = "int64", device = device })
  local u = tide.tensor({ 0.5, -1.5, 3, 1e300, 0, -0.0, 2, 7.25, 1 / 0, -9, 0.1 }, { dtype = "float64", device = device })
  return x, u, tide.zeros(grid, { dtype = "int64", device = device }), tide.zeros(grid, { dtype = "float64", device = device })
end

local function same(a, b)
  if type(a) ~= "table" then return a == b or a ~= a and b ~= b end
  for k = 1, #a do
    if not same(a[k], b[k]) then return false end
  end
  return true
end

describe("kernels without a compiler", function()
  D.watch(before_each, after_each)

  it("give what plain Lua gives, random programs", function()
    for seed = first, first + programs - 1 do
      local text, grid = program(seed)
      local n, a = R(-5, 20), R() * 10 - 5
      local x, u, y, v = arrays(grid, D.dev)
      local ran, problem = pcall(tide.kernel(text, { float = tide.float64 }), grid, x, u, y, v, n, a)
      local hx, hu, hy, hv = arrays(grid, "cpu")
      local plain, other = pcall(tide.kernel.interpret, load("return " .. text)(), grid, hx, hu, hy, hv, n, a, { float = tide.float64 })
      local equal = ran == plain and same(y:cpu():totable(), hy:totable()) and same(v:cpu():totable(), hv:totable())
      assert(equal, ("seed %d: kernel %s, plain Lua %s\n%s"):format(seed, ran and "differs" or tostring(problem),
        plain and "ran" or tostring(other), text))
    end
  end)

  local function beside_plain_lua(fn, grid, ...)
    local given, host = { ... }, {}
    for k, a in ipairs(given) do host[k] = tide.is_tensor(a) and a:clone() or a end
    for k, a in ipairs(given) do given[k] = tide.is_tensor(a) and a:to(D.dev) or a end
    tide.kernel(fn)(grid, table.unpack(given))
    tide.kernel.interpret(fn, grid, table.unpack(host))
    for k, a in ipairs(host) do
      if tide.is_tensor(a) then assert.is_true(same(given[k]:cpu():totable(), a:totable()), "argument " .. k .. " of " .. #grid .. " dims") end
    end
  end

  -- How often lane i turns: least at both ends of the grid, most in its middle, or anyhow.
  local function turns(n, how)
    local t = {}
    for i = 1, n do t[i] = how == "anyhow" and i * 7919 % 23 or math.max(0, 40 - math.abs(2 * i - n) * 60 // n) end
    return tide.tensor(t, { dtype = "int64" })
  end

  it("end loops at the ends of a block first, and go on with all lanes behind them", function()
    for _, n in ipairs { 31, 257, 1100 } do
      for _, how in ipairs { "from both ends", "anyhow" } do
        beside_plain_lua(function(i, turn, y, v)
          local n, s, last = 0, 0.0, i
          while n < turn[i] do
            n = n + 1
            if n % 3 == i % 3 then goto continue end
            for k = 1, (turn[i] - n) % 5 do
              s = s * 0.5 + k * i
              if s > 900 then break end
              last = last + turn[(last + k) % #turn + 1]
            end
            if n > 30 and i % 2 == 0 then break end
            ::continue::
          end
          y[i] = last * 100 + n
          v[i] = s + math.sqrt(i)
        end, { n }, turns(n, how), tide.zeros({ n }, { dtype = "int64" }), tide.zeros({ n }, { dtype = "float64" }))
      end
    end
  end)

  it("read what is held or goes round at an edge of the grid", function()
    for _, columns in ipairs { 16, 130, 300 } do
      for _, dtype in ipairs { "float32", "float16", "int64" } do
        local x = (tide.arange(3 * columns) * 37 % 101):reshape(3, columns):to(tide[dtype])
        for _, from in ipairs { x, x:t():contiguous():t() } do
          beside_plain_lua(function(i, j, x, y)
            local w = x.shape[2]
            local left, right = x[i][math.max(j - 1, 1)], x[i][math.min(j + 1, w)]
            local round, back = x[i][j % w + 1], x[(i + 1) % 3 + 1][(j - 2) % w + 1]
            y[i][j] = left + 2 * right + 4 * round + 8 * back + 16 * x[2][w + 1 - j]
          end, { 3, columns }, from, tide.zeros({ 3, columns }, { dtype = "float64" }))
        end
      end
    end
  end)

  it("name the index that is outside at the first or the last lane of a block", function()
    for _, n in ipairs { 300, 1024 } do
      local x, y = tide.ones({ n }, { device = D.dev }), tide.zeros({ n }, { device = D.dev })
      for by, index in pairs { [-1] = 0, [1] = n + 1 } do
        for _, fn in ipairs {
          function(i, x, y, by) y[i] = x[i + by] end,
          function(i, x, y, by) y[i] = x[math.max(i, 1) + by] end,
          function(i, x, y, by) if i % 3 ~= 5 then y[i] = x[i + by] end end,
        } do
          local k = tide.kernel(fn)
          local ok, problem = pcall(function()
            k(n, x, y, by)
            if D.dev ~= "cpu" then tide.cuda.synchronize() end
          end)
          assert.is_false(ok)
          local told = ("got %d, expected 1 to %d"):format(index, n)
          assert.is_truthy(tostring(problem):find(told, 1, true), tostring(problem))
        end
      end
    end
  end)

  it("says at which line a kernel keeps too many values", function()
    local x, y = tide.ones({ 8 }, { device = D.dev }), tide.ones({ 8 }, { device = D.dev })
    local at = {}
    for shift = 0, 1 do
      local text = { ("\n"):rep(7 * shift) .. "function(i, x, y, n)\nlocal a = x[i]\n" }
      for k = 1, 4300 do text[#text + 1] = ("a = a * (n * %d.5 + n / %d)\n"):format(k, k) end
      text[#text + 1] = "y[i] = a\nend"
      local ok, problem = pcall(tide.kernel(table.concat(text)), 8, x, y, 3)
      assert.is_false(ok)
      at[shift] = tonumber(tostring(problem):match "too long at line (%d+)")
      assert.is_truthy(at[shift], tostring(problem))
    end
    assert.equal(7, at[1] - at[0])
    assert.is_true(at[0] > 10 and at[0] < 4300)
  end)
end)
