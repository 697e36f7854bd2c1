-- The language of kernels written in Lua: each program runs as a kernel and in plain Lua, by
-- kernel.interpret, and both give the same to the bit. Programs are few and long, since each one is compiled.

local tide = require "tide"
local D = require "spec.support.device"

local is_54 = _VERSION == "Lua 5.4"
local unpack = unpack or table.unpack
local f64 = { float = tide.float64 }

local function copy(args)
  local list = {}
  for k, v in ipairs(args) do list[k] = tide.is_tensor(v) and v:clone() or v end
  return list
end

local function same(want, got, what)
  assert.are.equal(D.dtype_name(want), D.dtype_name(got), what)
  local a, b = D.flat(want:cpu():totable()), D.flat(got:cpu():totable())
  assert.are.equal(#a, #b, what)
  for i = 1, #a do
    -- NVRTC joins a product and a sum into one rounding, and a GPU's functions are its own.
    local rounding = D.cuda and not D.simulated and type(a[i]) == "number" and 1e-13 * math.max(math.abs(a[i]), 1) or 0
    if a[i] ~= b[i] and (a[i] == a[i] or b[i] == b[i]) and not (math.abs(a[i] - b[i]) <= rounding) then
      error(("%s: place %d: plain Lua gives %s, the kernel %s"):format(what, i, tostring(a[i]), tostring(b[i])), 2)
    end
  end
end

-- Runs it in plain Lua and as a kernel, which is interpreted where its device does that until a compiler has finished; and
-- compiled, where `forms` says so: that takes a second or more of a processor.
local function run_both(forms, fn, grid, ...)
  local k, plain = tide.kernel(fn, f64), copy { ... }
  local want = { tide.kernel.interpret(fn, grid, unpack(plain)) }
  for _, form in ipairs(forms) do
    local args = copy { ... }
    local got = { k(grid, unpack(args)) }
    assert.are.equal(#want, #got)
    for i = 1, #want do same(want[i], got[i], form .. ", result " .. i) end
    for i, v in ipairs(plain) do
      if tide.is_tensor(v) then same(v, args[i], form .. ", argument " .. i) end
    end
    if form ~= forms[#forms] then k:wait() end
  end
end

local function agree(...) run_both({ "the first call" }, ...) end
local function agree_compiled(...) run_both({ "the first call", "compiled" }, ...) end

local function floats(...) return tide.randn({ ... }, { dtype = tide.float64, device = D.dev }) * 3 end
local function integers(...) return tide.randint(-9, 10, { ... }, { dtype = tide.int64, device = D.dev }) end

local function settle()
  collectgarbage()
  collectgarbage()
  if D.cuda then tide.cuda.synchronize_all() end
end

describe("the language of kernels", function()
  D.watch(before_each, after_each)
  after_each(settle)
  before_each(function() tide.manual_seed(7) end)

  local half, three, sin, floor = 0.5, 3, math.sin, math.floor
  local weights, steps, pairs_of = { 0.25, 0.5, 0.25 }, { 3, 1, 2 }, { { 1, 2 }, { 3, 4 }, { 5, 6 } }
  local settings = { dt = 0.25, inner = { k = 2 } }
  local function square(x) return x * x end
  local function limit(v, low, high)
    if v < low then return low elseif v > high then return high end
    return v
  end
  local function swapped(a, b) return b, a end
  local function find(x, v)
    for k = 1, #x do
      if x[k] == v then return k end
    end
    return 0
  end
  local function sum(row)
    local s = 0.0
    for k = 1, #row do s = s + row[k] end
    return s
  end
  local function put(x, i, v)
    x[i] = v
    return v
  end

  it("computes with integers as Lua does", function()
    agree_compiled(function(i, n, o)
      local v, r = n[i], o[i]
      local h = 1469598103934665603
      for k = 1, 8 do h = h * 1099511628211 + (v % 256) * k end
      r[1], r[2], r[3], r[4] = v // 3, v % 3, v // -2, v % -7
      r[5], r[6], r[7], r[8] = v * v * v, h, h % 1000, h // 7
      r[9], r[10], r[11], r[12] = -v, math.abs(v), math.max(v, 2, -3), math.min(v, i)
      return math.fmod(v, 4)
    end, 40, integers(40), integers(40, 12))
  end)

  it("computes with bits as Lua does", function()
    if not is_54 then return pending "needs Lua 5.4" end
    agree(assert(load [[return function(i, n, o)
      local v, r = n[i], o[i]
      local h = 0xcbf29ce484222325
      for k = 1, 8 do h = (h ~ (v & 255)) * 0x100000001b3 end
      r[1], r[2], r[3], r[4] = v & 12, v | 5, v ~ 3, ~v
      r[5], r[6], r[7], r[8] = v << 3, v >> 1, v << 62, v >> -2
      r[9], r[10], r[11], r[12] = v << i, h, h >> 33, math.maxinteger + v
      return math.ult(v, -1), math.mininteger // -1, 9007199254740993 + v, 0xffffffffffffffff
    end]])(), 12, integers(12), integers(12, 12))
  end)

  it("computes with floats as Lua does, and with both", function()
    agree_compiled(function(i, x, n, o)
      local v, w, r = x[i], n[i], o[i]
      r[1], r[2], r[3], r[4] = v + w, v - 1, v * w, w / 2
      r[5], r[6], r[7], r[8] = v / 3, v // 1.5, v % 1.5, v % -2
      r[9], r[10], r[11], r[12] = w % 2.5, v ^ 2, -v, math.abs(v)
      local whole, rest = math.modf(v)
      r[13], r[14], r[15], r[16] = whole, rest, math.sqrt(math.abs(v)), math.fmod(v, 1.5)
      return math.max(v, 1), math.min(v, w), 1 / (v - v), math.huge, math.deg(v), 1 / (-0.0), -0.0
    end, 30, floats(30), integers(30), floats(30, 16))
    agree(function(i, x, n, o)
      local v, w, r = x[i], n[i], o[i]
      r[1], r[2], r[3], r[4] = math.floor(v), math.ceil(v), floor(w), math.tointeger(w / 1) or -1
      return v < w, v <= w, v == w, w ~= v, w >= 2.5, i == 2.0, 2 < w, v > -1e300
    end, 30, floats(30), integers(30), integers(30, 4))
  end)

  it("keeps Lua's order where an operand writes", function()
    agree(function(i, x)
      local a = x[1] + put(x, 1, 100.0) + x[1]
      x[2] = a
      local b = x[1] > 0 and put(x, 1, 7.0) or put(x, 3, -5.0)
      if x[1] > 0 and put(x, 1, 9.0) > 100 or put(x, 4, 7) > 8 then x[5] = 1 else x[5] = 2 end
      x[6], x[7] = x[7], x[6]
      local c, d = 1, 2
      c, d = d, c + d
      x[c], c = d, 4
      return b, c, d
    end, 1, floats(8))
  end)

  it("has and, or and not as values", function()
    agree(function(i, x)
      local v = x[i]
      local p, q = v > 0, v < 1
      local r = not p and q or v > 2
      return p and v or -v, v > 1 and 1 or v < -1 and 2 or 3, r, p == q, p and q, (p or q) and 1.5 or i, not (p and q)
    end, 20, floats(20))
  end)

  it("has branches and loops, and variables that are integers by one way and floats by another", function()
    agree(function(i, x)
      local s, t, found = 0, 1, false
      if x[i] > 0 then s = x[i] elseif x[i] < -2 then s = 3 end
      for k = 1, i do s = s + x[k] end
      while t < 20 do
        t = t * 2 + 1
        if t == 7 then break end
      end
      local n, last = i
      repeat
        local digit = n % 3
        last = digit
        n = n // 3
      until n == 0 or digit == 2
      for k = i, -i, -2 do
        if k == 0 then found = true end
        t = t + k
      end
      for v = 0.0, 1.0, 0.25 do s = s + v end
      for k = 1, i * 0.7 do
        local j = k
        k = k * 2
        t = t + k + j
      end
      return s * 1.0, t, found, last
    end, 12, floats(12))
  end)

  it("has goto, break and return from within", function()
    agree_compiled(assert((loadstring or load) [[return function(i, x)
      local s, n = 0.0, 0
      for k = 1, #x do
        for j = 1, #x do
          if x[j] < 0 then goto continue end
          if k * j > 20 then goto done end
          s = s + x[j]
          ::continue::
        end
      end
      ::done::
      ::again::
      n = n + i
      if n < 20 then goto again end
      if n > 25 then goto out end
      n = n * 2
      ::out::
      for k = 1, #x do
        if x[k] + x[i] > 6 then return s, n + k end
      end
      if x[i] > 0 then return s, n end
      return x[i], -n
    end]])(), 12, floats(12))
  end)

  it("writes functions out where they are called", function()
    agree(function(i, x, rows)
      local total = 0
      local function add(v) total = total + v end
      local function twice(f, v) return f(f(v)) end
      for k = 1, i do add(k) end
      local a, b = swapped(x[i], i)
      local function optional(p, q)
        if q == nil then return p end
        return p + q
      end
      rows[i][1] = rows[i][1] + sin(0)
      return square(x[i]) + limit(x[i], -1, half), twice(square, x[i]), a - b, total, find(x, x[i]), sum(rows[i]), optional(i) + optional(i, 2)
    end, 6, floats(6), floats(6, 3))
  end)

  it("reads numbers, tables and tensors outside of the function", function()
    local field, offset = floats(4), 1
    local fn = function(i)
      local s = settings.dt * settings.inner.k
      for k = 1, #weights do s = s + weights[k] * steps[k] + pairs_of[k][2] end
      return s + field[i] * half + three + offset, weights[2], steps[i % 3 + 1]
    end
    agree(fn, 4)
    local k = tide.kernel(fn, f64)
    local before = k(4)
    offset, settings.dt = 2, 0.75
    D.eq(before + 2, k(4))
    settings.dt = 0.25
  end)

  it("parts a float into an integer and the rest", function()
    agree(function(i, x)
      local whole, rest = math.modf(x[i])
      return whole, rest, whole // 2, math.modf(i)
    end, 30, floats(30))
  end)

  it("takes remainders at the ends of the integers as Lua does", function()
    for _, dtype in ipairs { "int32", "int64" } do
      local list = { 0, 1, -1, 2, -2, 3, -3, 5, 100, -100, 2147483647, -2147483647, -2147483648 }
      if dtype == "int64" and is_54 then
        for _, v in ipairs { math.maxinteger, math.mininteger, math.mininteger + 1 } do list[#list + 1] = v end
      end
      local x = tide.tensor(list, { dtype = dtype, device = D.dev })
      agree_compiled(function(i, j, x)
        local by = x[j] == 0 and 7 or x[j]
        return x[i] % by, x[(x[i] % #x + j - 3) % #x + 1]
      end, { #list, #list }, x)
    end
  end)

  it("keeps minus zero, infinities and NaN of tables and literals", function()
    local odd, pairs_of_odd = { -0.0, 1 / 0, 2, 0 / 0, -1 / 0, 0.0 }, { { -0.0, 3 }, { 0.0, -1 / 0 } }
    agree_compiled(function(i, x)
      return x[i] * odd[i], odd[i], 1 / odd[i], 1 / odd[1], 1 / pairs_of_odd[(i - 1) % 2 + 1][1], pairs_of_odd[2][i % 2 + 1], 1 / -0.0
    end, 6, floats(6))
  end)

  it("runs loops over many places, of which a thread takes some", function()
    local threads = tide.get_num_threads()
    finally(function() tide.set_num_threads(threads) end)
    for _, n in ipairs { 1, 3 } do
      tide.set_num_threads(n)
      agree_compiled(function(i, x)
        local sum = 0.0
        for k = 1, i % 7 do sum = sum + x[(i + k) % #x + 1] end
        return sum
      end, 9001, floats(9001))
      agree(function(i, j, x)
        local n = j
        while n % 5 ~= 0 do n = n + i end
        return x[i][j] + n
      end, { 3, 700 }, floats(3, 700))
      agree(function(i, j, k, x)
        local sum = 0.0
        for l = 1, j do sum = sum + x[i][l][k] end
        return sum
      end, { 2, 3, 513 }, floats(2, 3, 513))
    end
  end)

  it("keeps what places had when they left a loop, where it is read later", function()
    agree(function(i, x)
      local a, b, n, total = x[i], 0.5, 0, 0.0
      while a < 4 and n < 20 do -- a and b are read in the loop alone, n behind it
        a, b, n = a * 1.25 + b, b + a * 0.125, n + 1
      end
      local c, d, m = x[i], 1.0, 1
      for round = 1, 3 do -- c, d and m come back in the next round, total in another statement
        local e = d
        while c < 2 * round do
          if c < round then e = e + 1 else m = m + 2 end
          c, d = c + 0.75, d + e
          if d > 9 then break end
        end
        total = total + d
        if i % 3 == 0 then goto over end
        e = e * 2
        total = total - e
        ::over::
      end
      local k = 0
      repeat
        k = k + i
        if k > 7 then return n, total, m, c, -k end
      until not (k < 5)
      return n, total, m, c, k
    end, 300, floats(300))
  end)

  it("has sizes, rows and lists of indexes", function()
    agree(function(i, x, y)
      local row = x[i]
      row[1] = row[2] + row[#row]
      x[{ i, 2 }] = x[{ i, 1 }] * 2
      local a = x
      if i > 1 then a = y end
      return #x, x.shape[2], #row, row.shape[1], #x.shape, #row.shape
    end, 3, floats(3, 4), floats(3, 4))
    agree(function(i, j, u, v)
      local left, right = j - 1, j + 1
      if left < 1 then left = #u[i] end
      if right > #u[i] then right = 1 end
      v[i][j] = v[i][j] + 0.125 * (u[math.max(i - 1, 1)][j] + u[math.min(i + 1, #u)][j] + u[i][left] + u[i][right] - 4 * u[i][j])
    end, { 5, 7 }, floats(5, 7), floats(5, 7))
  end)

  it("wraps indexes around by sizes", function()
    local fn = function(i, x, y)
      local n = #x
      y[i] = x[(i + n - 2) % n + 1] + x[i % #x + 1] + (i * 7) // n + i // #y
    end
    agree_compiled(fn, 7, floats(7), floats(7))
    local k, empty = tide.kernel(fn, f64), floats(0)
    local e = D.raises("ValueError", function()
      k(1, empty, floats(1))
      if D.cuda then tide.cuda.synchronize() end
    end)
    assert.is_truthy(e.message:find("divided by zero", 1, true), e.message)
  end)

  -- A processor may have an instruction for each product here and what is added to it, which rounds once.
  it("rounds each product, where differences and sums of them alternate", function()
    agree_compiled(function(i, p, q, x, y, z)
      local k = 2 * i
      p[i][1], p[i][2] = x[i][1] * y[i][1] - z[i][1], x[i][2] * y[i][2] + z[i][2]
      p[i][3], p[i][4] = x[i][3] * y[i][3] - z[i][3], x[i][4] * y[i][4] + z[i][4]
      q[k - 1], q[k] = x[i][1] * y[i][1] + z[i][1], x[i][2] * y[i][2] - z[i][2]
    end, 100, floats(100, 4), floats(200), floats(100, 4), floats(100, 4), floats(100, 4))
  end)

  it("has vectors, matrices and quaternions", function()
    local gravity, m = tide.vec3(0, -9.75, 0.5), tide.mat2(1, 2, 3, 4)
    agree_compiled(function(i, p, v, q, n)
      local a, b = tide.vec3(p[i]) - gravity / 3, tide.vec3(v[i])
      for k = 1, 3 do
        a = a:cross(b) + a * 0.5
        if a.y < 0 then a = -a end
      end
      p[i] = a:normalize() + b:reflect(tide.vec3(0, 1, 0)):clamp(-1, a)
      v[i] = tide.quat(q[i]):normalize():rotate(a) + tide.mix(a, b, 0.25)
      q[i] = tide.quat(q[i]) * tide.quat(a, 1):inverse() + tide.quat(q[i]) / 2
      local s = tide.mat3(a, b, gravity)
      s = s * s:inverse() + s:transpose() - tide.mat3(2)
      for k = 1, 3 do n[i][k] = s[k] end
      return a:dot(b), a[1] + a[i], (m * tide.vec2(1, i)):length(), a == b, s[2].z
    end, 3, floats(3, 3) / 4, floats(3, 3) / 4, floats(3, 4) / 4, floats(3, 3, 3)) -- small: their products cancel
  end)
end)

describe("the text of a kernel", function()
  D.watch(before_each, after_each)
  after_each(settle)

  -- Are sums that are put into a variable of 64 bits?
  local function is_wide(text, ...)
    local k = tide.kernel(text)
    k(1, ...)
    return k:source("cpu"):find("%f[%w]v%d+ = tk_add") ~= nil
  end

  it("counts in 32 bits where a test of the loop or a branch bounds the count", function()
    local x, n = tide.ones(4, { device = D.dev }), tide.ones(4, { device = D.dev, dtype = tide.int64 })
    assert.is_false(is_wide("function(i, x) local n = 0 while n < 50 and x[i] > 0 do n = n + 1 x[i] = x[i] - 1 end x[i] = n end", x))
    assert.is_false(is_wide("function(i, x) local n = 0 while true do n = n + 2 if n > 100 then break end end x[i] = n end", x))
    assert.is_true(is_wide("function(i, x) local n = 0 while x[i] > 0 do n = n + 1 x[i] = x[i] - 1 end x[i] = n end", x))
    assert.is_false(is_wide("function(i, n) local k = n[i] if k > 0 and k < 9 then k = k + 1 n[i] = k end end", n))
    assert.is_true(is_wide("function(i, n) local k = n[i] if k > 0 then k = k + 1 n[i] = k end end", n))
    D.eq({ 2, 1, 1, 1 }, n:clamp { max = 2 })
  end)
end)

-- What a newcomer reads: {text, what the message has}. x: float32 of one dim, m: of two.
local refused = {
  { "function(i, x) x[i] = y end", "1:23: got 'y', which is nil, expected a number or a boolean: give it a value, or pass it as an argument" },
  { "function(i, x) local t = {1} end", "1:26: got a table, expected numbers" },
  { "function(i, x) x[i] = 'a' end", "1:23: got a string, expected a number" },
  { "function(i, x) print(x[i]) end", "got function 'print', which is not written in Lua, expected none: write into a tensor" },
  { "function(i, x) x[i] += 1 end", "1:21: got '+', expected a statement: Lua has no +=, write x = x + ..." },
  { "function(i, x) y = 3 end", "got an assignment to 'y', which is no local" },
  { "function(i, x) x[i / 2] = 3 end", "1:18: got a float, expected an integer as index: write math.floor(...), or // in place of /" },
  { "function(i, x, m) m[i] = 3 end", "got a row of a tensor, expected an element that is assigned to: 1 more index is missing" },
  { "function(i, x, m) return tide.vec2(m[i]) end", "got a vec2, expected a number or a boolean as result 1: write its components, or a row, x[i] = v" },
  { "function(i, x) tide.atomic.add(x, i, i, 1) end", "got 4 arguments, expected 3 for tide.atomic.add(x, i, v), with {i, j} for two indexes" },
  { "function(i, x, m) local s = m[i] + 1 end", "1:29: got a row of a tensor, expected a number: 1 more index is missing" },
  { "function(i, x) x[{i, 1}] = 1 end", "got 2 indexes, expected 1: 'x' has 1 dimension" },
  { "function(i, x)\n  for k, v in ipairs(x) do x[i] = v end end", "2:3: got a for with in, expected one that counts: for k = 1, #x do" },
  { "function(i, x) x[i] = math.random() end", "got math.random, which kernels do not have, expected tide.random.uniform(seed, i)" },
  { "function(i, x) x[i] = x:sum() end", "got method 'sum' of a tensor, expected a loop over its elements" },
  { "function(i, x) x[i] = x + 1 end", "got tensor 'x', expected a number: write which element, such as x[i]" },
  { "function(i, x) x[i] = i .. 'a' end", "got .., which joins strings" },
  { "function(i, x) local function f(n) if n < 1 then return 1 end return f(n - 1) end x[i] = f(3) end", "1:70: got a call of a function within itself" },
  { "function(i, x) x[i] = x[i] & 3 end", "got a float, expected an integer for an operator on bits" },
  { "function(i, x) x[i] = i // 0 end", "got 0, expected another divisor" },
  { "function(i, x) local best if x[i] > 0 then best = 1 end x[i] = best end", "1:64: got an integer by one way and nil by another" },
  { "function(i, x) x[i] = x[i] > 0 and 1 end", "got a value that may be false, expected a number or a boolean: write `or` and a value behind it" },
  { "function(i, x) x[i] = (x[i] > 0) + 1 end", "got a boolean, expected a number: write (condition) and 1 or 0" },
  { "function(i, x) if x[i] > 0 then return 1 end end", "got an end of the function without a return" },
  { "function(i, x) if x[i] > 0 then return 1 end return 1, 2 end", "1:46: got another number of results" },
  { "function(i, x) local v = tide.vec3(1, 2, 3) v.x = 3 end", "got an assignment to a part of a vec3" },
  { "function(i, x) local v = tide.vec3(1, 2) end", "got 2 components, expected 3 or 1 for tide.vec3" },
  { "function(i, x) local v = tide.quat(1, 2, 3, 4) * tide.vec3(1) end", "q:rotate(v) turns a vector" },
  { "function(i, x) break end", "got break outside of a loop" },
  { "function(i, x) goto nowhere end", "got goto nowhere, expected a label" },
  { "function(i, x) ::here:: x[i] = 1\n::here:: end", "2:1: got label 'here' of line 1 again, expected another name" },
  { "function(i, x) ::here:: for k = 1, 3 do ::here:: x[i] = k end end", "got label 'here' of line 1 again" },
  { "function(i, x, ) x[i] = 1 end", "got ')', expected a name" },
  { "function(i, x) for k = 1, 3, 0 do end end", "got a step of 0" },
  { "function(i, x, ...) end", "got ..., expected parameters that have names" },
  { "function(i, x) if x[i] = 3 then end end", "1:24: got '=', expected 'then': equality is written ==" },
  { "function(i, x) if x[i] != 3 then end end", "1:24: got !, expected ~= for not equal, or not" },
  { "function(i, x) x[i] = 3x end", "got digits that are no number" },
  { "function(i, x) x[i] = 3", "got the end of the text, expected 'end' for the 'function' of line 1" },
  { "function(i, x) local s <const> = 3 s = 4 end", "got an assignment to 's', which is <const>" },
  { "x[i] = 3", "got a text that returns no function" },
  { "function(i, x) tide.atomic.band(x, 1, 3) end", "expected one of int32 or int64 for tide.atomic.band" },
  { "function(i, x) local s = tide.shared(tide.float32, i) end", "got a size that is computed" },
  { "function(i, x) x[i] = math.sine(1) end", "1:23: got math.sine, which kernels do not have, did you mean math.sin?" },
  { "function(i, x) x[i] = tide.tread() end", "got tide.tread, which kernels do not have, did you mean tide.thread?" },
  { "function(i, x) tide.atomic.ads(x, i, 1) end", "did you mean tide.atomic.add?" },
  { "function(i, x) x[i] = tide.zeros(3) end", "got tide.zeros, which kernels do not have, expected a tensor that is passed, or tide.shared" },
  { "function(i, x) x[i] = tide.matmul(x, x) end", "got tide.matmul, which kernels do not have, expected arithmetic, math.*" },
  { "function(i, x) x[i] = tide.exp(x[i]) end", "got tide.exp, which kernels do not have, expected math.exp" },
  { "function(i, x) x[i] = tide.maximum(x[i], 0) end", "got tide.maximum, which kernels do not have, expected math.max" },
  { "function(i, x) x[i] = tide.pow(x[i], 2) end", "got tide.pow, which kernels do not have, expected x ^ y" },
  { "function(i, x) x[i] = math.sign(x[i]) end", "expected x > 0 and 1 or x < 0 and -1 or 0" },
  { "function(i, x) x[i] = tide.clamp(x[i], 0, 1) end", "of tide.clamp: of numbers it is math.min(math.max(x, low), high)" },
  { "function(i, x) x[i] = sqrt(x[i]) end", "got 'sqrt', which is nil, expected a function, did you mean 'math.sqrt'?" },
  { "function(i, x) x[i] = x[i]:exp() end", "got method 'exp' of a number, expected a function: math.exp(x)" },
  { "function(i, x) x[i] = tide.int32(x[i]) end", "got dtype int32, expected a function: numbers are converted where they are stored" },
  { "function(i, x) x[i] = threadIdx.x end", "got 'threadIdx', which is nil, expected what has a field 'x', did you mean 'tide.thread()'?" },
  { "function(i, x) __syncthreads() end", "did you mean 'tide.barrier()'?" },
  { "function(i, x) x[i] = x.shape[-1] end", "got dimension -1, expected 1 to 1 as 'x' has" },
  { "function(i, x) local value = 2 x[i] = valeu end", "1:39: got 'valeu', which is nil, expected a number or a boolean, did you mean 'value'?" },
  { "function(i, x) x[i] = mth.sin(1) end", "got 'mth', which is nil, expected what has a field 'sin', did you mean 'math'?" },
  { "function(i, x, a) x[i] = a end", "1:26: got 'a', which is nil, expected a number or a boolean: pass it as an argument; the call has 1 after a grid of one size" },
  { "function(i, x) io.write(x[i]) end", "got function 'io.write', which is not written in Lua, expected none: write into a tensor, and print that" },
  { "function(i, x) x[i] = string.format 'a' end", "expected none: a kernel has no strings" },
  { "function(i, x) x[i] = os.time() end", "expected none: pass its value as an argument" },
  { "function(i, ...) local x = ... x[i] = 1 end", "1:13: got ..., expected parameters that have names" },
  { "function(i) return 1 end", "1:1: got 1 argument after a grid of one size, expected none: of the parameters (i) the first one is the place" },
  { "function(i, x) if (x[i] > 0) == 1 then x[i] = 2 end end", "got a boolean and a number, which are never equal" },
  { "function(i, x) x[i][1] = 2 end", "1:16: got 2 indexes, expected 1: 'x' has 1 dimension" },
  { "function(i, x) local v = x[i][1] end", "1:26: got 2 indexes, expected 1: 'x' has 1 dimension" },
  { "function(i, x) local s = #x s[1] = 2 end", "got an integer, expected a tensor whose element is assigned to" },
  { "function(i, x) local s = i s[1] = 2 end", "got the place, an integer, expected a tensor whose element is assigned to" },
  { "function(i, x) x[i] = x[i, 1] end", "got ',', expected ']': several indexes are x[i][j] or x[{i, j}]" },
  { "function(i, x) i++ end", "1:17: got '+', expected a statement: Lua has no ++, write x = x + 1" },
  { "function(i, x) for k = 1, 3 do continue end end", "Lua has no continue, write goto next, and ::next:: at the loop's end" },
  { "function(i, x) float s = 3 end", "1:22: got 's', expected a statement: Lua has no float, write local" },
  { "function(i, x) retrun x end", "1:23: got 'x', expected a statement, did you mean 'return' by 'retrun'?" },
  { "function(i, x) for (k = 0; k < 3; k++) end", "expected a name: a loop that counts is for k = 1, n do" },
  { "function(i, x) x[i] = i > 2 ? 1 : 2 end", "1:29: got ?, expected condition and a or b" },
  { "function(i, x) x[i] = i $ 2 end", "1:25: got $, which Lua has no use for" },
  { "function(i, x) // all of it\n x[i] = 2 end", "got '//', expected an expression: a comment begins with --" },
  { "function(i, x) /* all of it */ x[i] = 2 end", "got '/', expected an expression: a comment begins with --" },
  { "function(i, x) local s <cnst> = 3 end", "1:25: got 'cnst', expected const or close" },
  { "function(i, x) x[i] = math.sin() end", "got 0 arguments, expected 1 for math.sin" },
  { "function(i, x) x[i] = tide.random.uniform(3) end", "got 1 argument, expected 2 to 16" },
}

describe("an error of a kernel's text", function()
  D.watch(before_each, after_each)
  local x, m = tide.zeros(3, { device = D.dev }), tide.zeros(3, 3, { device = D.dev })

  it("says where it is, what is wrong and what to write", function()
    for _, case in ipairs(refused) do
      local text, want = case[1], case[2]
      local e = D.raises("ValueError", function()
        local k = tide.kernel(text)
        if text:find("m)", 1, true) then k(3, x, m) else k(3, x) end
      end)
      assert.is_truthy(e.message:find(want, 1, true), text .. "\n" .. e.message .. "\nhas no " .. want)
    end
    D.eq({ 0, 0, 0 }, x)
  end)

  -- LuaJIT's compiler refuses operators of Lua 5.4, so it is not asked.
  local it_of_lua = _VERSION == "Lua 5.4" and it or pending
  it_of_lua("refuses where nothing runs what Lua refuses", function()
    for text, want in pairs {
      ["function(i, x) if false then break end end"] = "break outside loop at line 1",
      ["  function(i, x) if false then goto away end end"] = "no visible label 'away'",
      ["function(i, x) goto on local y = 1 ::on:: x[i] = 1 end"] = "jumps into the scope of local 'y'",
      ["return function(i, x) if false then x[i] = ... end end"] = "cannot use '...'",
    } do
      local e = D.raises("ValueError", function() tide.kernel(text)(3, x) end)
      assert.is_truthy(e.message:find(want, 1, true), e.message)
    end
    local lines = { "function(i, x)" } -- a limit of Lua's compiler is none of a kernel's
    for k = 1, 250 do lines[#lines + 1] = "local a" .. k .. " = i + " .. k end
    tide.kernel(table.concat(lines, "\n") .. " x[i] = a250 end")(3, x)
    D.eq({ 251, 252, 253 }, x)
    for _, text in ipairs { "function(i, x) do ::on:: end do goto on ::on:: x[i] = 1 end end",
      "function(i, x) ::on:: local function f() ::on:: return 1 end x[i] = f() end" } do
      tide.kernel(text)(3, x)
      D.eq({ 1, 1, 1 }, x)
    end
  end)
end)
