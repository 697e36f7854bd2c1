-- The special functions beside values of 40 digits (spec/support/special_table.lua), in units of the last place, and at
-- infinities, NaN, zeros and poles.

local tide = require "tide"
local D = require "spec.support.device"
local T = require "spec.support.special_table"

local nan, inf = 0 / 0, math.huge
local FLOAT64, FLOAT32 = 10, 4 -- what the error may be; the GPU's own float32 functions have up to 6
if D.cuda and not D.simulated then FLOAT32 = 8 end

local function call(name, ...)
  local plain, n = name:match "^(%a[%a%d]*) ?(%d*)$"
  if n ~= "" then return (...):polygamma(tonumber(n)) end
  return (tide.has(plain) and tide or tide.special)[plain](...)
end

-- The distance of two numbers of a dtype of so many digits, of which the second is exact, in its last places.
local function ulps(got, want, digits, least)
  if got == want or (got ~= got and want ~= want) then return 0 end
  if got ~= got or want ~= want or math.abs(got) == inf or math.abs(want) == inf then return inf end
  local exponent = want == 0 and least or math.floor(math.log(math.abs(want)) / math.log(2)) + 1
  return math.abs(got - want) / 2.0 ^ math.max(exponent - digits, least)
end

local function columns(points)
  local out = {}
  for i, point in ipairs(points) do
    for k = 1, #point do
      out[k] = out[k] or {}
      out[k][i] = point[k]
    end
  end
  return out
end

-- Fails for the worst of all values that are too far off.
local function compare(name, points, dtype, alone)
  local wide, list = dtype == "float64", columns(points)
  local want, args, worst, where = table.remove(list), {}, 0, 0
  for k, column in ipairs(list) do args[k] = D.tensor(column, dtype) end
  local got
  if alone then
    got = {}
    for i = 1, #want do
      local one = {}
      for k = 1, #args do one[k] = args[k]:narrow(1, i, 1):clone() end
      got[i] = call(name, table.unpack(one)):item()
    end
  else
    got = call(name, table.unpack(args)):totable()
  end
  for i = 1, #want do
    local far = ulps(got[i], want[i], wide and 53 or 24, wide and -1074 or -149)
    if not wide and math.abs(want[i]) > 0x1.fffffep127 then far = math.abs(got[i]) == inf and 0 or far end
    if far > worst then worst, where = far, i end
  end
  local most = wide and FLOAT64 or FLOAT32
  if name == "digamma" and D.cuda and not D.simulated then most = 20 end -- near its zeros, as its help says
  assert.is_true(worst <= most, worst > 0 and ("%s of %s: %a gives %a, expected %a: %g ulp, expected at most %d"):format(name,
    dtype, points[where][1], got[where], want[where], worst, most) or name)
end

local names = {}
for name in pairs(T) do names[#names + 1] = name end
table.sort(names)

describe("special functions", function()
  D.watch(before_each, after_each)

  it("of float64 are within 10 ulp", function()
    for _, name in ipairs(names) do compare(name:gsub("^wide ", ""), T[name], "float64") end
  end)

  it("of float32 are within 4 ulp", function()
    for _, name in ipairs(names) do
      if not name:find "^wide " then compare(name, T[name], "float32") end
    end
  end)

  it("of an element alone are the same", function()
    for _, name in ipairs(names) do
      if name:find "^polygamma [123]$" or not name:find "^polygamma" then
        compare(name:gsub("^wide ", ""), T[name], "float64", true)
        if not name:find "^wide " then compare(name, T[name], "float32", true) end
      end
    end
  end)

  it("of many elements are the same, whatever their signs", function()
    for _, name in ipairs { "lgamma", "digamma", "i0", "ndtri", "erfinv", "sinc", "ndtr", "polygamma 1" } do
      local many = {}
      for i = 1, 700 do many[i] = T[name][(i * 7 + i // 50) % #T[name] + 1] end
      compare(name, many, "float64")
      compare(name, many, "float32")
    end
  end)

  it("at infinities, NaN, zeros and poles", function()
    local edges = {
      erf = { { inf, 1 }, { -inf, -1 }, { 0, 0 } },
      erfc = { { inf, 0 }, { -inf, 2 }, { 0, 1 } },
      erfinv = { { 1, inf }, { -1, -inf }, { 1.5, nan }, { 0, 0 } },
      lgamma = { { inf, inf }, { -inf, inf }, { 0, inf }, { -0., inf }, { -1, inf }, { -4, inf }, { 1, 0 }, { 2, 0 } },
      digamma = { { inf, inf }, { 0, -inf }, { -0., inf }, { -2, nan } },
      ["polygamma 1"] = { { inf, 0 }, { 0, inf }, { -0., inf }, { -3, inf }, { -inf, nan } },
      ["polygamma 2"] = { { inf, 0 }, { 0, -inf }, { -3, -inf }, { -inf, nan } },
      ["polygamma 120"] = { { inf, 0 }, { 0, -inf }, { 1e-6, -inf } },
      ["polygamma 1500"] = { { inf, 0 }, { 1, -inf } },
      i0 = { { inf, inf }, { -inf, inf }, { 0, 1 }, { 1e6, inf } },
      sinc = { { 0, 1 }, { -0., 1 }, { inf, nan }, { 1, 0 }, { -7, 0 }, { 2 ^ 20, 0 } },
      entr = { { 0, 0 }, { -1, -inf }, { inf, -inf }, { 1, 0 } },
      ndtr = { { inf, 1 }, { -inf, 0 }, { 0, 0.5 }, { -50, 0 }, { 50, 1 } },
      ndtri = { { 0, -inf }, { 1, inf }, { 0.5, 0 }, { -0.1, nan }, { 1.1, nan } },
      logit = { { 0, -inf }, { 1, inf }, { 0.5, 0 }, { 1.5, nan } },
      sigmoid = { { inf, 1 }, { -inf, 0 }, { 0, 0.5 } },
    }
    for name, points in pairs(edges) do
      points[#points + 1] = { nan, nan }
      for _, dtype in ipairs { "float32", "float64" } do
        compare(name, points, dtype)
        compare(name, points, dtype, true)
      end
    end
  end)

  it("of 16-bit floats are those of float32, rounded", function()
    for _, dtype in ipairs { "float16", "bfloat16" } do
      local x = D.tensor({ 0.25, 1.5, 3, 7 }, dtype)
      for _, f in ipairs { "lgamma", "digamma", "i0", "sinc", "ndtr" } do
        assert.is_true(call(f, x):equal(call(f, x:float()):to(tide[dtype])), f .. " of " .. dtype)
      end
    end
  end)
end)
