-- Every elementwise function, reduction and scan over all floating dtypes with values that a loop of a dtype's own may get
-- wrong: NaN, infinities, zeros of both signs, the smallest and largest numbers. The references are the other dtypes: where
-- float64 holds the same numbers, a narrower result is float64's, rounded, to half a unit in the last place of 16-bit
-- numbers, and NaN, infinities and signs of zero are the same everywhere. The rows say which functions there are.

local tide = require "tide"
local D = require "spec.support.device"
if D.tsan then return pending "values: the other sanitizer looks at them" end

local nan, inf = 0 / 0, math.huge
-- A GPU's conversions give NaN no sign, and which zero is the largest depends on the threads that meet.
local on_gpu = D.cuda and not D.simulated

-- Of each dtype: digits of its significand, the smallest normal number, the largest.
local formats = {
  float16 = { 11, 2.0 ^ -14, 65504.0 },
  bfloat16 = { 8, 2.0 ^ -126, 255 * 2.0 ^ 120 },
  float32 = { 24, 2.0 ^ -126, (2 - 2.0 ^ -23) * 2.0 ^ 127 },
}

local random = { rand = true, randn = true, rand_like = true, randn_like = true, bernoulli = true, poisson = true, normal = true,
  empty_like = true }
-- What the dtype itself changes: its neighbours, whether a float64 is far from it, and results that are sums of rounded
-- terms or differences of near ones.
local of_dtype = { nextafter = true, isclose = true, frexp = true, nan_to_num = true }

-- Near their zeros these are differences of numbers near 1: exact to a unit of 1 in float32, as in PyTorch. CUDA's lgamma
-- is, between -10 and -2.
local near_one = { sinc = true, gelu = true, lgamma = on_gpu }

-- Common to all dtypes, in an order that puts NaN first, last and between.
local lines = {
  { 1.0, -2.5, 0.5, 3.0, -0.25, 2.0, 1.5, -1.0, 0.75 },
  { nan, 1.0, -2.5, 0.5, 3.0, -0.25, 2.0, 1.5, -1.0 },
  { 1.0, -2.5, 0.5, 3.0, nan, -0.25, 2.0, 1.5, -1.0 },
  { 1.0, -2.5, 0.5, 3.0, -0.25, 2.0, 1.5, -1.0, nan },
  { inf, 1.0, -2.5, 0.5, 3.0, -0.25, 2.0, 1.5, -1.0 },
  { 1.0, -2.5, 0.5, 3.0, -0.25, 2.0, 1.5, -1.0, -inf },
  { inf, 1.0, -2.5, 0.5, 3.0, -0.25, 2.0, 1.5, -inf },
  { 0.0, -0.0, 0.0, -0.0, 0.0, -0.0, 0.0, -0.0, 0.0 },
  { nan, nan, nan, nan, nan, nan, nan, nan, nan },
  { -inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf },
}
local second = { 2.0, 0.5, -1.0, 0.0, -0.0, inf, -inf, nan, 1.0 }

local function edges(dtype)
  local f = formats[dtype]
  local tiny = f[2] * 2.0 ^ (1 - f[1])
  return { tiny, -tiny, f[2], -f[2], f[3], -f[3], 1 + 2.0 ^ (1 - f[1]), f[2] - tiny, 1.0 }
end

-- ---- comparison ----

-- Half a unit of the dtype's last place at v.
local function half_unit(v, dtype)
  local digits, least = formats[dtype][1], formats[dtype][2]
  local a = math.abs(v)
  if a < least then return least * 2.0 ^ -digits end
  return 2.0 ^ (math.floor(math.log(a, 2) + 1e-12) - digits)
end

local function sign_of(v) return v == 0 and 1 / v or v end

local function near(got, wide, dtype, loose)
  if type(wide) ~= "number" or math.type(wide) == "integer" then return got == wide end
  if wide ~= wide then return got ~= got end
  local most = formats[dtype][3]
  if math.abs(got) == inf or math.abs(wide) == inf then -- what is nearly beyond may be rounded to either
    return got == wide or (math.abs(wide) >= most * (1 - 2.0 ^ -9) and got * wide > 0)
  end
  if got == 0 and wide == 0 then return on_gpu or sign_of(got) == sign_of(wide) end
  -- 16-bit results are float32's, rounded: twice, so a hair more than half a unit. float32 has its own functions.
  local units = dtype == "float32" and 16 or 1 + 2.0 ^ -6
  return math.abs(got - wide) <= (loose and 2.0 ^ -23 or 0) + units * half_unit(wide, dtype) + (dtype == "float32" and 2.0 ^ -140 or 0)
end

local function compare(got, wide, dtype, what, loose)
  if type(got) == "table" then
    assert(#got == #wide, what)
    for i = 1, #got do compare(got[i], wide[i], dtype, what, loose) end
  elseif not near(got, wide, dtype, loose) then
    error(("%s: got %s, float64 gives %s"):format(what, D.show(got), D.show(wide)), 0)
  end
end

-- ---- the functions ----

-- Rows of one noun whose required arguments are n tensors.
local function rows(noun, n, dim)
  local list = {}
  for _, row in ipairs(tide._rows()) do
    if row.path == "tide" and row.noun == noun and not random[row.name] and not of_dtype[row.name] then
      local tensors, other = 0, 0
      for _, p in ipairs(row.params or {}) do
        if not p.optional and (p.type == "any" or p.type == "tide.Tensor") then tensors = tensors + 1
        elseif not p.optional and not (dim and p.name == "dim") then other = other + 1 end
      end
      if tensors == n and other == 0 then list[#list + 1] = row.name end
    end
  end
  return list
end

local function run(name, dtype, ...)
  local args = table.pack(...)
  for i = 1, args.n do
    if type(args[i]) == "table" then args[i] = D.tensor(args[i], dtype) end
  end
  local got = table.pack(pcall(tide[name], table.unpack(args, 1, args.n)))
  if not got[1] then return nil end
  local list = {}
  for i = 2, got.n do
    local v = got[i]
    if tide.is_tensor(v) then v = v:totable() end
    list[#list + 1] = v
  end
  return list
end

local wrong = {}

-- Says all that is wrong, at most so much of it.
local function finish(count, least)
  local found = wrong
  wrong = {}
  assert(#found == 0, ("%d wrong: %s"):format(#found, table.concat(found, "\n", 1, math.min(#found, 20))))
  assert.is_true(count > least, count)
end

-- The narrow call beside the wide one; counts what could be called.
local function beside(count, name, dtype, ...)
  local wide = run(name, "float64", ...)
  local got = run(name, dtype, ...)
  if not wide or not got then return count end
  local shown = {}
  for i = 1, select("#", ...) do shown[i] = D.show((select(i, ...))) end
  if on_gpu and (name == "signbit" or name == "copysign") then return count + 1 end
  local ok, e = pcall(compare, got, wide, dtype, ("%s of %s as %s"):format(name, table.concat(shown, ", "), dtype), near_one[name])
  if not ok then wrong[#wrong + 1] = e end
  return count + 1
end

describe("a dtype's own loops", function()
  D.watch(before_each, after_each)

  for _, dtype in ipairs { "float16", "bfloat16", "float32" } do
    local last = edges(dtype)

    it("of one operand: " .. dtype, function()
      local count = 0
      for _, name in ipairs(rows("ops", 1)) do
        for _, x in ipairs(lines) do count = beside(count, name, dtype, x) end
        if dtype ~= "float32" and name ~= "sinc" then count = beside(count, name, dtype, last) end
      end
      finish(count, 300)
    end)

    it("of two and three operands: " .. dtype, function()
      local count = 0
      for _, name in ipairs(rows("ops", 2)) do
        for _, x in ipairs(lines) do count = beside(count, name, dtype, x, second) end
      end
      for _, name in ipairs(rows("ops", 3)) do
        for _, x in ipairs(lines) do count = beside(count, name, dtype, x, second, lines[1]) end
      end
      finish(count, 200)
    end)

    it("of reductions and scans: " .. dtype, function()
      local count = 0
      for _, noun in ipairs { "reduce", "scan" } do
        for _, name in ipairs(rows(noun, 1, true)) do
          for _, x in ipairs(lines) do
            count = beside(count, name, dtype, x)
            count = beside(count, name, dtype, x, 1)
            -- along both dims of several lines, short and long ones
            count = beside(count, name, dtype, { x, lines[1], x }, 1)
            count = beside(count, name, dtype, { x, lines[1], x }, 2)
          end
        end
      end
      finish(count, 300)
    end)

    -- NaN where it stands alone among many, so that every lane and every thread of a loop is one that has it.
    it("of long lines: " .. dtype, function()
      for _, wide in ipairs { dtype, "float64" } do
        for _, n in ipairs { 8, 31, 100, 1000 } do
          for at = 1, n, n > 100 and 37 or 3 do
            local x = tide.ones({ n }, { dtype = wide, device = D.dev })
            x[at] = nan
            for _, name in ipairs { "amax", "amin", "max", "min", "sum", "prod", "mean", "logsumexp", "norm" } do
              local got = tide[name](x):item()
              assert(got ~= got, ("%s of %d %s with NaN at %d: %s"):format(name, n, wide, at, tostring(got)))
              local row = tide[name](x:reshape(1, n), 2)
              assert(row ~= nil)
              got = (tide.is_tensor(row) and row or tide.amax(x)):item()
              assert(got ~= got, ("%s along a dim of %d %s with NaN at %d"):format(name, n, wide, at))
            end
            assert.are.equal(at, tide.argmax(x):item())
            assert.are.equal(at, tide.argmin(x):item())
          end
        end
      end
    end)
  end

  -- Sums of products: every product and sum here is exact in float32, so the result is rounded once.
  it("of products: half a unit in 16 bits", function()
    local a, b, wide = {}, {}, nil
    for i = 1, 48 do a[i], b[i] = (i * 7 % 11 - 5) / 4, (i * 5 % 13 - 6) / 8 end
    for _, dtype in ipairs { "float16", "bfloat16" } do
      for _, of in ipairs { "float64", dtype } do
        local x, y = D.tensor(a, of), D.tensor(b, of)
        local p, q = x:reshape(6, 8), y:reshape(8, 6)
        local got = {
          tide.einsum("i,i->", x, y), tide.einsum("ij,jk->ik", p, q), tide.einsum("ij,jk->ki", p, q), tide.einsum("ij->j", p),
          tide.einsum("ij,ij->i", p, p), tide.einsum("i,j->ij", x, y), tide.einsum("ij,kj->ik", p, y:reshape(6, 8)),
          p:matmul(q), p:t():matmul(q:t()), x:dot(y), p:matmul(y:narrow(1, 1, 8)), tide.outer(x, y), p:sum(1), p:cumsum(2),
        }
        for i = 1, #got do got[i] = got[i]:to(tide.float64):totable() end
        if of == "float64" then wide = got else compare(got, wide, dtype, "products of " .. dtype) end
      end
    end
  end)

  -- Where float16 has steps of 2^-24: below 2^-14, and one binade above. The middle of two goes to the even one.
  it("round numbers near float16's smallest to the nearest, on the middle to the even one", function()
    local step, given, expected = 2.0 ^ -24, {}, {}
    for k = 0, 2047 do
      for _, part in ipairs { 0, 0.25, 0.5, 0.75 } do
        local up = part > 0.5 or part == 0.5 and k % 2 == 1
        given[#given + 1], expected[#expected + 1] = (k + part) * step, (k + (up and 1 or 0)) * step
      end
    end
    for _, from in ipairs { "float32", "float64" } do
      for sign = -1, 1, 2 do
        local x = D.tensor(given, from):mul(sign):to(tide.float16):to(tide.float64):mul(sign)
        assert.is_true(x:equal(D.tensor(expected, "float64")), from .. " " .. sign)
      end
    end
  end)
end)
