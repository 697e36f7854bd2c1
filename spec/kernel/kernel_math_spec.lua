-- The functions of math in kernels beside those of plain Lua, over special values: interpreted, and compiled. Kernels are
-- made of a list of functions: each writes its results into a row, as Lua's number would be put there.

local tide = require "tide"
local D = require "spec.support.device"
local math, load, unpack = math, load, table.unpack or unpack
local inf, nan, tiny = math.huge, 0 / 0, 2.0 ^ -1074

-- exact: the same value to the bit; else it may differ in the last places.
local one = {
  { "math.abs(x)", exact = true }, { "math.ceil(x)", exact = true }, { "math.floor(x)", exact = true },
  { "math.sqrt(x)", exact = true }, { "math.tointeger(x) or -7", exact = true },
  { "(math.modf(x))", exact = true }, { "select_second(x)", exact = true }, { "math.max(x)", exact = true }, { "math.min(x)", exact = true },
  { "math.exp(x)" }, { "math.log(x)" }, { "math.log(x, 2)" }, { "math.log(x, 10)" }, { "math.log(x, 3)" },
  { "math.sin(x)" }, { "math.cos(x)" }, { "math.tan(x)" }, { "math.asin(x)" }, { "math.acos(x)" }, { "math.atan(x)" },
  { "math.deg(x)" }, { "math.rad(x)" },
  -- What is computed with the results of those that give integers where they can.
  { "math.floor(x) + 1", exact = true }, { "-math.floor(x)", exact = true }, { "math.ceil(x) * 2 - 3", exact = true },
  { "math.abs(math.floor(x))", exact = true }, { "x - math.floor(x)", exact = true }, { "math.floor(x) // 2", exact = true },
  { "math.floor(x) % 3", exact = true }, { "math.max(math.floor(x), 2)", exact = true }, { "math.min(5, math.ceil(x), 7)", exact = true },
  { "math.fmod(math.floor(x), 4)", exact = true }, { "math.floor(x) / 4", exact = true }, { "math.floor(x) ^ 2", exact = true },
  { "math.floor(x) == x and 1 or 0", exact = true }, { "math.floor(x) == math.ceil(x) and 1 or 0", exact = true },
  { "math.floor(x) < 1.5 and 1 or 0", exact = true }, { "math.floor(x) >= x - 0.5 and 1 or 0", exact = true },
  { "math.floor(x) * math.ceil(x)", exact = true }, { "math.floor(math.floor(x) + 0.5)", exact = true },
  { "math.tointeger(math.floor(x)) or -7", exact = true }, { "(x > 0 and math.floor(x) or math.ceil(x))", exact = true },
  { "of_variable(x)", exact = true }, { "of_loop(x)", exact = true }, { "of_branch(x)", exact = true }, { "of_return(x)", exact = true },
}
local two = {
  { "math.fmod(x, z)", exact = true, divides = true }, { "math.max(x, z)", exact = true }, { "math.min(x, z)", exact = true },
  { "math.max(z, x, 1)", exact = true }, { "math.atan(x, z)" }, { "math.log(x, z)" },
}
local of_integers = { { "math.ult(x, z) and 1 or 0", exact = true } }

local helpers = [[
local function select_second(x) local _, rest = math.modf(x) return rest end
local function of_variable(x) local k = 0 k = math.floor(x) k = k + 1 return k end
local function of_loop(x) local k = math.floor(x) for _ = 1, 3 do k = k * 2 + 1 end return k end
local function of_branch(x) local k = 1 if x > 2 or x ~= x then k = math.ceil(x) elseif x < -2 then k = math.floor(x) - 1 end return k end
local function of_return(x) if x < 0 then return math.ceil(x) end return math.floor(x) end
]]

local function program(list, arguments, dtype)
  local lines = { helpers, "return function(i, y", arguments, ")\n", "local x = x[i]\n" }
  if arguments:find "z" then lines[#lines + 1] = "local z = z[i]\n" end
  for k, f in ipairs(list) do
    local value = "y[" .. k .. "][i] = " .. f[1] .. "\n"
    lines[#lines + 1] = (f.divides and dtype == "int64" and "if z ~= 0 then " .. value .. "end\n") or value
  end
  lines[#lines + 1] = "end"
  return table.concat(lines)
end

local values = {
  0.0, -0.0, inf, -inf, nan, 1e300, -1e300, 1e19, -1e19, tiny, -tiny, 2.0 ^ -1022, 2.0 ^ -1022 - tiny, 5e-324 * 3, 2.0 ^ 1023,
  2.0 ^ 53, 2.0 ^ 53 - 1, 2.0 ^ 53 + 2, -2.0 ^ 53, -2.0 ^ 53 + 1, -2.0 ^ 53 - 2, 2.0 ^ 63, 2.0 ^ 63 - 1024, 2.0 ^ 63 + 2048, -2.0 ^ 63,
  -2.0 ^ 63 - 2048, -2.0 ^ 63 + 1024, 2.0 ^ 62, 2.0 ^ 64, 2.0 ^ 52 + 0.5, -2.0 ^ 52 - 0.5, 2.0 ^ 31, 2.0 ^ 31 - 1, -2.0 ^ 31, -2.0 ^ 31 - 1, 2.0 ^ 32,
  0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.5, 0.49999999999999994, -0.49999999999999994, 0.9999999999999999, -0.9999999999999999, 1.0000000000000002,
  1.0, -1.0, 2.0, -2.0, 3.0, 7.0, -7.0, 10.0, 100.25, -100.75, 1e10, -1e10, 1e15 + 0.5, 16777216.0, 16777217.0, 8388607.5, 65504.0,
}
local whole = {
  0, 1, -1, 2, -2, 3, -3, 7, -7, 10, math.maxinteger or 0, math.mininteger or 0, (math.maxinteger or 1) - 1, (math.mininteger or 0) + 1,
  2 ^ 31 // 1 | 0, -(2 ^ 31 // 1 | 0), (2 ^ 31 // 1 | 0) - 1, 2 ^ 53 // 1 | 0, (2 ^ 53 // 1 | 0) + 1, (2 ^ 53 // 1 | 0) - 1,
  -(2 ^ 53 // 1 | 0) - 1, 2 ^ 62 // 1 | 0, 1 << 40,
}

local function tensor(list, dtype) return tide.tensor(list, { dtype = dtype, device = D.dev }) end

local function bits(v) return v ~= v and "nan" or v == 0 and (1 / v < 0 and "-0" or "0") or v end

local function near(a, b, exact, epsilon)
  if bits(a) == bits(b) then return true end
  if exact and not (D.cuda and not D.simulated and epsilon > 1e-10) then return false end
  if a ~= a or b ~= b or a == inf or b == inf or a == -inf or b == -inf then return false end
  return math.abs(a - b) <= epsilon * math.max(math.abs(a), math.abs(b), 2.0 ^ -1022)
end

-- Of the numbers in lists, one each for x and z: what Lua gives, as elements of that dtype.
local function expected(list, fn_of, arguments, dtype)
  local rows = {}
  for k, f in ipairs(list) do
    local row = {}
    for i = 1, #arguments[1] do
      local x, z = arguments[1][i], arguments[2] and arguments[2][i]
      row[i] = f.divides and math.type(z) == "integer" and z == 0 and 0 or fn_of[k](x, z)
    end
    rows[k] = tensor(row, dtype):totable()
  end
  return rows
end

local function functions(list)
  local fns = {}
  for k, f in ipairs(list) do fns[k] = load(helpers .. "local x, z = ... return " .. f[1], "=math") end
  return fns
end

-- Each function of the list in plain Lua, in the interpreter, and compiled; result: the dtype of what it is put into.
local function compare(list, dtype, result, epsilon, ...)
  local tensors, arguments = {}, {}
  for k, v in ipairs { ... } do
    tensors[k] = tensor(v, dtype)
    arguments[k] = tensors[k]:totable()
  end
  local want = expected(list, functions(list), arguments, result)
  local names = #arguments == 2 and ", x, z" or ", x"
  local fn = load(program(list, names, dtype))()
  local k = tide.kernel(fn, dtype == "float32" and {} or { float = tide.float64 })
  local passes, compared = D.compiler and 2 or 1, 0
  for pass = 1, passes do
    local y = tide.zeros(#list, #arguments[1], { dtype = result, device = D.dev })
    k(#arguments[1], y, unpack(tensors))
    local got = y:totable()
    for row, f in ipairs(list) do
      for i = 1, #arguments[1] do
        local a, b = want[row][i], got[row][i]
        compared = compared + 1
        if not near(a, b, f.exact, epsilon) then
          local z = arguments[2] and ", z = " .. ("%.17g"):format(arguments[2][i]) or ""
          error(("%s of %s%s, %s: plain Lua gives %.17g, the kernel %.17g"):format(f[1],
            math.type(arguments[1][i]) == "integer" and tostring(arguments[1][i]) or ("%.17g"):format(arguments[1][i]), z,
            pass == 1 and "at the first call" or "compiled", a, b), 0)
        end
      end
    end
    if D.compiler then k:wait() end
  end
  assert.are.equal(passes * #list * #arguments[1], compared)
end

local function pairs_of(list)
  local xs, zs = {}, {}
  for _, x in ipairs(list) do
    for _, z in ipairs(list) do xs[#xs + 1], zs[#zs + 1] = x, z end
  end
  return xs, zs
end

describe("math in kernels", function()
  D.watch(before_each, after_each)

  if not math.type then return pending "plain Lua's numbers are those of Lua 5.4" end

  it("is Lua's for float64", function()
    compare(one, "float64", "float64", 4e-16, values)
    compare(two, "float64", "float64", 8e-16, pairs_of(values))
  end)

  it("is Lua's for integers", function()
    compare(one, "int64", "float64", 4e-16, whole)
    compare(two, "int64", "float64", 8e-16, pairs_of(whole))
    compare(of_integers, "int64", "int64", 0, pairs_of(whole))
    local exact = {}
    for _, f in ipairs(one) do
      if f.exact and not (f[1]:find "/ 4" or f[1]:find "%^" or f[1]:find "%.5" or f[1]:find "sqrt") then exact[#exact + 1] = f end
    end
    compare(exact, "int64", "int64", 0, whole)
  end)

  it("is Lua's for float32, rounded to it", function()
    local list = {}
    for _, f in ipairs(one) do
      if not f[1]:find "^math.floor%(x%) [%+%*%^/]" and not f[1]:find "of_loop" and not f[1]:find "%* 2 %- 3" then list[#list + 1] = f end
    end
    compare(list, "float32", "float32", 1e-6, values)
  end)

  it("stores numbers of every dtype as conversions do", function()
    local copy = tide.kernel(function(i, h, b, f, d, from, places)
      h[i], b[i], f[i], d[i], places[i] = from[i], from[i], from[i], from[i], i + 250
    end)
    local numbers, to = { 0, 1, 127, 259, 261, 263, 2049, 2051, 4099, 16777217, -129, -259, -2049, -4101, 0.1, -1 / 3, 1e30 }, { "float16", "bfloat16", "float32", "float64" }
    for _, from in ipairs { "bool", "uint8", "int16", "int64", "float32", "float64" } do
      local values, places = {}, {}
      for _, v in ipairs(numbers) do
        local fits = D.kind[from] == "F" or v % 1 == 0 and math.abs(v) < (from == "int16" and 32768 or 1 << 30) and (from ~= "uint8" or v >= 0 and v < 256)
        if fits then values[#values + 1] = v end
      end
      for i = 1, #values do places[i] = i + 250 end
      local x, y = tide.tensor(values, { dtype = "float64" }):to(from):to(D.dev), {}
      for _ = 1, 2 do -- interpreted perhaps, then compiled
        for k = 1, 5 do y[k] = tide.zeros(#values, { dtype = to[k] or "bfloat16", device = D.dev }) end
        copy(#values, y[1], y[2], y[3], y[4], x, y[5])
        for k, dtype in ipairs(to) do D.eq(x:to(dtype):double(), y[k]:double(), 0, from .. " to " .. dtype) end
        D.eq(tide.tensor(places):bfloat16():double(), y[5]:double(), 0, "places")
        if D.compiler then copy:wait() end
      end
    end
  end)

  -- A loop of nothing else, which compilers make vectors of: GCC then takes x ^ 0.5 for a root.
  it("is Lua's for constant powers", function()
    local bases = {}
    for k = 1, 64 do bases[k] = ({ -inf, -0.0, 4.0, inf, 0.0, -1.0, nan, 2.0 })[k % 8 + 1] end
    for _, power in ipairs { "0.5", "-0.5", "0.25", "1.5", "3", "4", "-1" } do
      local f = load("return function(x) return x ^ " .. power .. " end")()
      for _, dtype in ipairs { "float32", "float64" } do
        local k = tide.kernel("function(i, x, y) y[i] = x[i] ^ " .. power .. " end", { float = dtype })
        local x, y = tensor(bases, dtype), tide.zeros(64, { dtype = dtype, device = D.dev })
        k(64, x, y)
        if D.compiler then k:wait() end
        k(64, x, y)
        for n, v in ipairs(y:totable()) do
          assert.is_true(near(f(bases[n]), v, false, 1e-6), dtype .. ": " .. bases[n] .. " ^ " .. power .. " is " .. v)
        end
      end
    end
  end)

  -- Programs of spec/stress/kernels.lua. 9200072: the absolute value of the smallest integer is no positive number.
  it("is Lua's where compilers once took another way", function()
    if _VERSION ~= "Lua 5.4" or not D.compiler then return pending "needs Lua 5.4's integers, and a compiler" end
    local programs = require "spec.support.kernel_programs"
    for _, seed in ipairs { 9200072 } do
      local program = programs.program(seed, tide, D.cuda)
      local expected = programs.run(program, function(grid, ...)
        local args = { ... }
        args[#args + 1] = program.options
        return tide.kernel.interpret(program.fn, grid, unpack(args))
      end)
      local k = tide.kernel(program.fn, program.options)
      programs.run(program, k, D.dev)
      k:wait()
      assert.is_nil(programs.compare(program, expected, programs.run(program, k, D.dev)), seed)
    end
  end)
end)
