-- Random kernels in Lua: programs(seed) gives a text and arguments for it, the same each time. What they compute is said
-- by plain Lua (tide.kernel.interpret); spec/stress/kernels.lua holds kernels to it.
--
-- Every variable keeps its kind, integer, float or boolean, as plain Lua has no other way to tell them. Loops end by
-- construction, divisors of integers are odd, indexes are taken modulo the size, so that a program that raises is a bug.
--
-- A grid has one or two dimensions. Some programs of one have blocks whose threads share an array, wait for each other
-- between statements, and sum over the block or the warp.
--
-- There are two modes. "exact": float64 and operations that IEEE 754 defines, so that all numbers must be equal to the
-- bit, infinities and nans among them. "smooth": float32 or float64 with math.*, bounded step by step and never compared or
-- made integers, so that rounding stays small; the integers beside them must be equal all the same. A GPU rounds a * b + c
-- once: programs that are to be exact there have no products of floats.

local M, compile = {}, load

-- xorshift, so that no library's generator is disturbed
local state
local function roll(n)
  state = state ~ state << 13
  state = state ~ state >> 7
  state = state ~ state << 17
  return (state >> 11) % n + 1
end
local function pick(list) return list[roll(#list)] end
local function one_in(n) return roll(n) == 1 end

-- The program that is being written: lines, how deep they stand, variables in reach by kind, names used.
local p

local function put(text) p.lines[#p.lines + 1] = ("  "):rep(p.depth) .. text end
local function name(prefix)
  p.names = p.names + 1
  return prefix .. p.names
end
-- A variable of the kind that may be assigned to, or nil.
local function variable(kind)
  local list = {}
  for _, v in ipairs(p.vars) do
    if v.kind == kind and not v.fixed then list[#list + 1] = v.name end
  end
  return #list > 0 and pick(list) or nil
end
local function known(kind)
  local list = {}
  for _, v in ipairs(p.vars) do
    if v.kind == kind then list[#list + 1] = v.name end
  end
  return #list > 0 and pick(list) or nil
end
local function declare(kind, text, fixed)
  p.vars[#p.vars + 1] = { kind = kind, name = text, fixed = fixed }
end
local function scope(body)
  local before = #p.vars
  p.depth = p.depth + 1
  body()
  p.depth = p.depth - 1
  for k = #p.vars, before + 1, -1 do p.vars[k] = nil end
end

-- ---- expressions ----

local expression, leaf

local function integer_literal()
  return pick { "0", "1", "2", "3", "-1", "7", "10", "255", "-13", "65536", "2147483647", "-2147483648", "4294967296", "1000003",
    "9223372036854775807", "math.mininteger", "0x7f", "0xffff" }
end

local function float_literal()
  if p.smooth then return pick { "0.5", "1.0", "-1.25", "0.1", "2.0", "0.75" } end
  return pick { "0.0", "0.5", "1.0", "-1.25", "0.1", "1e10", "-3.0", "1e300", "2.0^-3", "(1/0)", "7.0", "1e-310" }
end

-- An index of a dimension with the size n, which is a text.
local function index(n, depth) return "(" .. expression("i", depth - 1) .. ") % " .. n .. " + 1" end

local function load(t, depth)
  if t.own then return p.at_place and t.name .. p.place or leaf(t.kind) end
  if t.ndim == 1 then return t.name .. "[" .. (p.at_place and one_in(2) and "i" or index("#" .. t.name, depth)) .. "]" end
  local a, b = index("#" .. t.name, depth), index(t.name .. ".shape[2]", depth)
  return one_in(2) and ("%s[%s][%s]"):format(t.name, a, b) or ("%s[{%s, %s}]"):format(t.name, a, b)
end

local function condition(depth)
  local kind = (p.smooth or one_in(2)) and "i" or "f"
  local other = kind == "f" and one_in(4) and "i" or kind
  return "(" .. expression(kind, depth - 1) .. ") " .. pick { "<", "<=", ">", ">=", "==", "~=" } .. " (" .. expression(other, depth - 1) .. ")"
end

local function constant(kind, depth)
  if not p.outer then return leaf(kind) end
  local list = kind == "i" and "whole" or "real"
  return one_in(2) and list .. "[(" .. expression("i", depth) .. ") % #" .. list .. " + 1]" or "outer_" .. kind
end

local integers = {
  function(d) return constant("i", d) end,
  function(d) return "(" .. expression("i", d) .. ") " .. pick { "+", "-", "*" } .. " (" .. expression("i", d) .. ")" end,
  function(d) return "(" .. expression("i", d) .. ") " .. pick { "//", "%" } .. " ((" .. expression("i", d) .. ") | 1)" end,
  function(d) return "(" .. expression("i", d) .. ") " .. pick { "&", "|", "~" } .. " (" .. expression("i", d) .. ")" end,
  function(d) return "(" .. expression("i", d) .. ") " .. pick { "<<", ">>" } .. " (" .. (one_in(2) and expression("i", d) or roll(70) - 5) .. ")" end,
  function(d) return pick { "-", "~" } .. "(" .. expression("i", d) .. ")" end,
  function(d) return pick { "math.max", "math.min" } .. "(" .. expression("i", d) .. ", " .. expression("i", d) .. ")" end,
  function(d) return "math.abs(" .. expression("i", d) .. ")" end,
  function(d) return "(" .. condition(d) .. " and " .. expression("i", d) .. " or " .. expression("i", d) .. ")" end,
  function(d) return load(pick(p.integers), d) end,
  function(d) return one_in(2) and load(pick(p.integers), d) or "tide.random.integer(7, -5, 100, " .. expression("i", d) .. ")" end,
  function(d)
    if p.smooth then return "#" .. p.floats[roll(2)].name end
    return "math." .. pick { "floor", "ceil" } .. "(math.max(-1e9, math.min(1e9, " .. expression("f", d) .. ")))"
  end,
}

local exact_floats = {
  function(d) return constant("f", d) end,
  function(d) return "(" .. expression("f", d) .. ") " .. pick(p.products and { "+", "-", "*", "/" } or { "+", "-", "/" }) .. " (" .. expression("f", d) .. ")" end,
  function(d) -- Lua 5.4 computes -0.0 - 0 as -0.0 + 0, which is 0.0
    local whole = expression("i", d)
    local sign = pick(p.products and { "+", "-", "*" } or { "+", "-" })
    return "(" .. expression("f", d) .. ") " .. sign .. " (" .. (whole == "0" and "1" or whole) .. ")"
  end,
  function(d) return "(" .. expression("i", d) .. ") / (" .. expression("i", d) .. ")" end,
  function(d) return "(" .. expression("f", d) .. ") " .. pick { "//", "%" } .. " (" .. expression("f", d) .. ")" end,
  function(d) return "-(" .. expression("f", d) .. ")" end,
  function(d) return pick { "math.max", "math.min" } .. "(" .. expression("f", d) .. ", " .. expression("f", d) .. ")" end,
  function(d) return pick { "math.abs", "math.sqrt" } .. "(" .. expression("f", d) .. ")" end,
  function(d) return p.products and "(" .. expression("f", d) .. ")^2" or expression("f", d) end,
  function(d) return "(" .. condition(d) .. " and " .. expression("f", d) .. " or " .. expression("f", d) .. ")" end,
  function(d) return load(pick(p.floats), d) end,
  function(d) return load(pick(p.floats), d) end,
  function(d) return "math.fmod(" .. expression("f", d) .. ", " .. expression("f", d) .. ")" end,
  function(d) return "tide.random.uniform(3, " .. expression("i", d) .. ", i)" end,
}

-- Bounded by 4 or so, with small derivatives.
local smooth_floats = {
  function(d) return constant("f", d) end,
  function(d) return "((" .. expression("f", d) .. ") " .. pick { "+", "-" } .. " (" .. expression("f", d) .. ")) / 2" end,
  function(d) return "math.sin((" .. expression("f", d) .. ") * (" .. expression("f", d) .. "))" end,
  function(d) return "math." .. pick { "sin", "cos" } .. "(" .. expression("f", d) .. ")" end,
  function(d) return "math.exp(-math.abs(" .. expression("f", d) .. "))" end,
  function(d) return "math.sqrt(1 + (" .. expression("f", d) .. ")^2) / 2" end,
  function(d) return "math.log(1.5 + math.abs(" .. expression("f", d) .. "))" end,
  function(d) return "(" .. expression("f", d) .. ") / (2 + math.abs(" .. expression("f", d) .. "))" end,
  function(d) return "((" .. expression("i", d) .. ") % 17) / 17" end,
  function(d) return "(" .. condition(d) .. " and " .. expression("f", d) .. " or " .. expression("f", d) .. ")" end,
  function(d) return load(pick(p.floats), d) end,
  function(d) return pick { "math.max", "math.min" } .. "(" .. expression("f", d) .. ", " .. expression("f", d) .. ")" end,
  function(d) return "tide.random.uniform(11, " .. expression("i", d) .. ", i, 5)" end,
}

leaf = function(kind)
  if one_in(3) then return kind == "i" and integer_literal() or kind == "f" and float_literal() or pick { "true", "false" } end
  return known(kind) or (kind == "b" and "true" or kind == "i" and "i" or "a")
end

expression = function(kind, depth)
  if depth <= 0 or one_in(5) then return leaf(kind) end
  if kind == "b" then
    if one_in(3) then return pick { "not (%s)", "(%s)" }:format(expression("b", depth - 1)) end
    if one_in(3) then return "(" .. expression("b", depth - 1) .. ") " .. pick { "and", "or", "==", "~=" } .. " (" .. expression("b", depth - 1) .. ")" end
    return condition(depth)
  end
  if #p.functions > 0 and one_in(6) then
    local f = pick(p.functions)
    if f.kind == kind then return f.name .. "(" .. expression("i", depth - 1) .. ", " .. expression("f", depth - 1) .. ")" end
  end
  return pick(kind == "i" and integers or p.smooth and smooth_floats or exact_floats)(depth - 1)
end

-- ---- statements ----

local statements, block

local function new_local(kind)
  local v = name(kind)
  put("local " .. v .. " = " .. expression(kind, 3))
  declare(kind, v)
end

-- Everyone writes to the shared array, waits, reads anywhere and waits again; and sums.
local function phase()
  if one_in(2) then
    put("s[t] = " .. expression("i", 2))
    put "tide.barrier()"
    new_local "i"
    put("local " .. p.vars[#p.vars].name .. "s = s[(" .. expression("i", 2) .. ") % #s + 1]")
    declare("i", p.vars[#p.vars].name .. "s")
    put "tide.barrier()"
    if one_in(2) then
      put "s[t] = 0"
      put "tide.barrier()"
      put("tide.atomic." .. pick { "add", "max", "bxor" } .. "(s, (" .. expression("i", 2) .. ") % #s + 1, " .. expression("i", 2) .. ")")
      put "tide.barrier()"
    end
  else
    local v = name "i"
    put("local " .. v .. " = tide." .. pick { "block_sum", "warp_sum" } .. "(" .. expression("i", 2) .. ")")
    declare("i", v)
  end
end

local function limit(depth) return "math.abs((" .. expression("i", depth) .. ") % 5)" end

local kinds_of_statement = {
  function() new_local(pick { "i", "f", "b" }) end,
  function() new_local(pick { "i", "f" }) end,
  function()
    local kind = pick { "i", "f", "b" }
    local v = variable(kind)
    if v then put(v .. " = " .. expression(kind, 3)) end
  end,
  function()
    local a, b = variable "f", variable "f"
    if a and a ~= b then put(a .. ", " .. b .. " = " .. b .. ", " .. a) end
  end,
  function()
    put("if " .. expression("b", 2) .. " then")
    block(2)
    if one_in(3) then
      put("elseif " .. expression("b", 2) .. " then")
      block(2)
    end
    if one_in(2) then
      put "else"
      block(2)
    end
    put "end"
  end,
  function() -- a loop over a range, from either side
    local k = name "k"
    local range = pick { "1, %s", "%s, 0, -1", "0, %s, 2", "%s, 7, 3" }:format(limit(1))
    put("for " .. k .. " = " .. range .. " do")
    scope(function()
      declare("i", k, true)
      statements(2)
      if one_in(4) then put("if " .. expression("b", 2) .. " then break end") end
    end)
    put "end"
  end,
  function() -- while and repeat count
    local k = name "w"
    put("local " .. k .. " = 0")
    local is_while = one_in(2)
    put(is_while and "while " .. k .. " < " .. limit(1) .. " and (" .. expression("b", 1) .. ") do" or "repeat")
    scope(function()
      put(k .. " = " .. k .. " + 1")
      declare("i", k, true)
      statements(2)
    end)
    put(is_while and "end" or "until " .. k .. " >= " .. roll(4) .. " or (" .. expression("b", 1) .. ")")
    declare("i", k, true)
  end,
  function() -- continue
    local k, label = name "g", name "next"
    put("for " .. k .. " = 1, 4 do")
    scope(function()
      put("do")
      scope(function()
        declare("i", k, true)
        put("if " .. expression("b", 2) .. " then goto " .. label .. " end")
        statements(1)
      end)
      put("end")
      put("::" .. label .. "::")
    end)
    put "end"
  end,
  function()
    local t = pick(p.written)
    put(t.name .. p.place .. " = " .. expression(t.kind, 3))
  end,
  function()
    local kind = pick { "add", "min", "max", "band", "bor", "bxor", "sub" }
    p.atomics[kind] = true
    put("tide.atomic." .. kind .. "(h_" .. kind .. ", (" .. expression("i", 2) .. ") % 4 + 1, " .. expression("i", 2) .. ")")
  end,
  function() -- a function of several results
    local f, a, b = name "pair", name "f", name "i"
    local vars = p.vars
    p.vars, p.at_place = {}, false
    put("local function " .. f .. "(i, a)")
    scope(function()
      declare("i", "i", true)
      declare("f", "a", true)
      if one_in(2) then put("if " .. expression("b", 1) .. " then return " .. expression("f", 1) .. ", " .. expression("i", 1) .. " end") end
      put("return " .. expression("f", 2) .. ", " .. expression("i", 2))
    end)
    put "end"
    p.vars, p.at_place = vars, true
    put(("local %s, %s = %s(%s, %s)"):format(a, b, f, expression("i", 2), expression("f", 2)))
    declare("f", a)
    declare("i", b)
  end,
  function() -- a loop over floats
    local t = name "t"
    put("for " .. t .. " = " .. pick { "0.0, 1.0, 0.25", "1.0, -1.0, -0.5", "0.5, 0.0", "1, 3, 0.5" } .. " do")
    scope(function()
      declare("f", t, true)
      statements(1)
    end)
    put "end"
  end,
  function() -- matrices and quaternions
    if not p.products then return end
    local m, v, f = name "m", name "v", name "f"
    local a, b, c = expression("f", 1), expression("f", 1), expression("f", 1)
    if one_in(2) then
      put(("local %s = tide.mat2(%s, %s, %s, 1)"):format(m, a, b, c))
      put(("local %s = (%s%s) * tide.vec2(%s, 0.5)"):format(v, m, p.smooth and "" or pick { "", " * " .. m, ":transpose()", " * 2", ":inverse()" }, b))
    else
      put(("local %s = tide.quat(%s, %s, 0.25, %s)"):format(m, a, b, c))
      put(("local %s = %s%s"):format(v, m, p.smooth and ":normalize():rotate(tide.vec3(0.5, 0.25, 1))" or pick { ":rotate(tide.vec3(1, 2, 3))", " * " .. m, ":inverse()" }))
      if p.smooth then put(v .. " = tide.vec3(0.1) / (1 + " .. v .. ":length())") end -- of length 0 it would be nan
    end
    put(("local %s = %s"):format(f, p.smooth and ("%s.x / (2 + %s:length())"):format(v, v) or v .. ".x + " .. v .. "[2]"))
    declare("f", f)
  end,
  function() -- vectors
    if not p.products then return end
    local v, n = name "v", roll(3) + 1
    local list = {}
    for k = 1, n do list[k] = expression("f", 1) end
    local f = name "f"
    put("local " .. v .. " = tide.vec" .. n .. "(" .. table.concat(list, ", ") .. ")")
    if p.smooth then
      put(("local %s = (%s:mix(tide.vec%d(%s), 0.25) * 0.5):dot(%s) / (2 + %s:length())"):format(f, v, n, expression("f", 1), v, v))
    else
      put(v .. " = (" .. v .. pick { " + ", " * ", " - " } .. pick { v, "(" .. expression("f", 1) .. ")" } .. ")" .. pick { "", " / 3" })
      put("local " .. f .. " = " .. pick { "%s.x", "%s[2]", "%s:dot(%s)", "%s:length()", "(-%s).y", "%s:clamp(-1, 1).x" }:gsub("%%s", v))
    end
    declare("f", f)
  end,
}

statements = function(n)
  for _ = 1, n do
    if #p.lines > 60 then return end
    pick(kinds_of_statement)()
  end
end

block = function(n) scope(function() statements(n) end) end

-- A local function in front of the kernel, or inside of it.
local function helper(kind)
  local f, vars = name "fn", p.vars
  p.vars, p.at_place = {}, false
  put("local function " .. f .. "(i, a)")
  scope(function()
    declare("i", "i", true)
    declare("f", "a", true)
    if one_in(3) then
      put("if " .. expression("b", 1) .. " then return " .. expression(kind, 1) .. " end")
    end
    put("return " .. expression(kind, 2))
  end)
  put "end"
  p.vars, p.at_place = vars, true
  p.functions[#p.functions + 1] = { name = f, kind = kind }
end

-- ---- arguments ----

local function integers_of(n, dtype)
  local list = {}
  for k = 1, n do
    list[k] = pick { 0, 1, -1, roll(100), -roll(1000), roll(1 << 40), math.maxinteger, math.mininteger, 2147483647, -2147483648 }
  end
  return tide_tensor(list, "int64"):to(dtype)
end

local function floats_of(n, dtype)
  local list = {}
  for k = 1, n do
    local u = roll(1 << 20) / (1 << 20) * 4 - 2
    list[k] = p.smooth and u or pick { u, u, u * 1e6, 0.0, -0.0, 1.0, -3.5, roll(9) + 0.0, 1 / 0, 0 / 0, 1e-300, u * 1e300 }
  end
  return tide_tensor(list, dtype)
end

-- program(seed, tide, on_gpu): {seed, text, fn (the text, or the function of a text that has constants around it), smooth,
-- grid, options, float, args, written: places among args of tensors that are written}
function M.program(seed, tide, on_gpu)
  state = seed * 0x9E3779B97F4A7C15 + 0x1234567
  for _ = 1, 8 do roll(2) end
  local smooth = one_in(3)
  p = { lines = {}, depth = 0, vars = {}, names = 0, functions = {}, atomics = {}, smooth = smooth, at_place = true, place = "[i]" }
  p.products, p.outer = smooth or not on_gpu, one_in(4)
  local dtype = smooth and pick { "float32", "float64", "float32" } or "float64"
  local n, rows = one_in(12) and roll(700) or roll(40) + 3, roll(5)
  local block = one_in(6) and pick { 8, 32, 64, 100 } or nil
  local width = not block and one_in(4) and (one_in(6) and roll(400) or roll(9)) or nil
  if block then n = block * roll(3) end
  if width then n, p.place = n // width + 1, pick { "[i][j]", "[{i, j}]" } end
  local shape = { n, width }
  function tide_tensor(list, kind) return tide.tensor(list, { dtype = kind }) end
  local x, z = floats_of(n, dtype), floats_of(rows * 3, dtype):view(rows, 3)
  local y = integers_of(n, pick { "int64", "int64", "int32", "uint8", "int16" })
  local args = { x, y, z, tide.zeros(shape, { dtype = dtype }), tide.zeros(shape, { dtype = "int64" }), smooth and 0.5 or 1.5, roll(9) - 3 }
  p.floats = { { name = "x", ndim = 1 }, { name = "z", ndim = 2 } }
  p.integers = { { name = "y", ndim = 1 } }
  if one_in(3) then
    p.floats[3], p.integers[2] = { name = "o", own = true, kind = "f" }, { name = "q", own = true, kind = "i" }
  end
  p.written = { { name = "o", kind = "f" }, { name = "q", kind = "i" } }
  local bins = { "add", "min", "max", "band", "bor", "bxor", "sub" }
  for k = 1, #bins do args[#args + 1] = tide.zeros({ 4 }, { dtype = "int64" }) end
  if p.outer then
    put("local tide, outer_i, outer_f = require 'tide', " .. roll(50) - 20 .. ", " .. float_literal())
    put("local whole, real = { 3, -7, 12, 1 << 40 }, { 0.5, -1.25, 1.5 }")
  end
  put((p.outer and "return " or "") .. "function(i, " .. (width and "j, " or "") .. "x, y, z, o, q, a, n, h_" .. table.concat(bins, ", h_") .. ")")
  scope(function()
    declare("i", "i", true)
    if width then declare("i", "j", true) end
    declare("i", "n")
    declare("f", "a")
    for _ = 1, roll(3) - 1 do helper(pick { "i", "f" }) end
    if block then
      put("local s, t, b = tide.shared(tide.int64, " .. block .. "), tide.thread(), tide.block()")
      declare("i", "t", true)
      declare("i", "b", true)
    end
    for _ = 1, block and 3 or 1 do
      statements(block and roll(3) or roll(6) + 1)
      if block then phase() end
    end
    put("o" .. p.place .. " = " .. expression("f", 3))
    put("q" .. p.place .. " = " .. expression("i", 3))
    put("return " .. expression("f", 2) .. ", " .. expression("i", 2) .. ", " .. expression("b", 2))
  end)
  put "end"
  local text = table.concat(p.lines, "\n")
  return {
    seed = seed, text = text, fn = p.outer and assert(compile(text, text))() or text, smooth = smooth, float = dtype, grid = shape, options = { block = block }, args = args,
    written = { 4, 5, 8, 9, 10, 11, 12, 13, 14 },
  }
end

-- ---- comparison ----

local function values(x) return x:cpu():reshape(-1):totable() end

-- Where two lists of values differ, or nil. Floats of a smooth program may by a little.
local function difference(expected, got, smooth)
  if tostring(expected.dtype) ~= tostring(got.dtype) then return ("dtype %s, expected %s"):format(got.dtype, expected.dtype) end
  local a, b = values(expected), values(got)
  if #a ~= #b then return ("%d values, expected %d"):format(#b, #a) end
  for k = 1, #a do
    local u, v = a[k], b[k]
    local equal = u == v and (u ~= 0 or type(u) ~= "number" or math.type(u) == "integer" or 1 / u == 1 / v) or u ~= u and v ~= v
    if smooth and math.type(u) == "float" and math.type(v) == "float" then equal = equal or math.abs(u - v) <= 2e-3 * math.max(1, math.abs(u)) end
    if not equal then return ("place %d: %s, expected %s"):format(k, v, u) end
  end
end

local function copies(program, device)
  local list = {}
  for k, v in ipairs(program.args) do list[k] = type(v) == "userdata" and v:clone():to(device or "cpu") or v end
  return list
end

-- run(program, call): what call(grid, args...) gives, with what it has written behind its results.
function M.run(program, call, device)
  local args = copies(program, device)
  local results = { call(program.grid, table.unpack(args)) }
  for _, k in ipairs(program.written) do results[#results + 1] = args[k] end
  return results
end

local names = { "result 1", "result 2", "result 3", "o", "q", "h_add", "h_min", "h_max", "h_band", "h_bor", "h_bxor", "h_sub" }
function M.compare(program, expected, got)
  for k = 1, #names do
    local where = difference(expected[k], got[k], program.smooth)
    if where then return names[k] .. ": " .. where end
  end
end

return M
