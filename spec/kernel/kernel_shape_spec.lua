-- What a kernel's text takes for granted of sizes and strides: tensors like another one, and rows read by numbers alone.
-- Each form serves only what it was made for, also behind calls with others.

local tide = require "tide"
local D = require "spec.support.device"
if _VERSION ~= "Lua 5.4" then return pending "the length of a table that stands for a tensor is Lua 5.4's" end

-- Tensors of one dtype in several shapes and strides: whole numbers, each another one.
local function made(sizes, how, from)
  local n = 1
  for d = 1, #sizes do n = n * sizes[d] end
  local x = tide.arange(from, from + 4 * n, { device = D.dev, dtype = "float32" })
  if how == "plain" then return x:narrow(1, 1, n):view(sizes):clone() end
  if how == "across" then
    local turned = {}
    for d = 1, #sizes do turned[d] = sizes[#sizes + 1 - d] end
    x = x:narrow(1, 1, n):view(turned):clone()
    return #sizes == 2 and x:t() or x:permute(3, 2, 1)
  end
  local wide = { table.unpack(sizes) }
  wide[#wide] = 2 * wide[#wide]
  x = x:narrow(1, 1, 2 * n):view(wide):clone()
  return how == "part" and x:narrow(#wide, 2, sizes[#sizes]) or x:slice(#wide, 1, 2 * sizes[#sizes], 2)
end

local kinds = { "plain", "across", "part", "apart" }

-- What fn does with copies of the tensors, in plain Lua, and what the kernel does, on all its ways.
local function compare(k, fn, grid, tensors, what)
  local want, got = {}, {}
  for i, x in ipairs(tensors) do
    want[i] = x:cpu():clone()
    got[i] = x
  end
  tide.kernel.interpret(fn, grid, table.unpack(want))
  k(grid, table.unpack(got))
  for i in ipairs(tensors) do D.eq(want[i]:totable(), got[i], nil, what) end
end

local function bits(n, from) return math.floor(n / 2 ^ from) end
local function pick(list, n) return list[n % #list + 1] end

describe("a kernel's tensors", function()
  D.watch(before_each, after_each)

  it("may be like each other or not, from call to call", function()
    local function fn(i, j, x, y, z)
      local left, up = x[i][(j - 2) % x.shape[2] + 1], y[(i - 2) % #y + 1][j]
      z[i][j] = z[i][j] * 2 + left - up + #z + x.shape[2]
    end
    local k, seed = tide.kernel(fn), 7
    for round = 1, 60 do
      local list = {}
      for n = 1, 3 do
        seed = (seed * 1103515245 + 12345) % 2147483648
        local same = round % 4 == 0 or bits(seed, 20) % 2 == 0
        local sizes = same and { 3, 4 } or { 3 + bits(seed, 8) % 2, 4 + bits(seed, 9) % 2 }
        list[n] = made(sizes, round % 3 == 0 and "plain" or pick(kinds, bits(seed, 12)), 10 * n)
      end
      compare(k, fn, { 3, 4 }, list, "round " .. round)
      if round == 30 then k:wait() end
    end
    k:replace(function(i, j, x, y, z) z[i][j] = x[i][j] * y[i][j] end)
    compare(k, function(i, j, x, y, z) z[i][j] = x[i][j] * y[i][j] end, { 3, 4 },
      { made({ 3, 4 }, "across", 1), made({ 3, 4 }, "plain", 2), made({ 3, 5 }, "part", 3) }, "another body")
  end)

  it("have rows of the size that is read, or of another", function()
    local function fn(i, x, y)
      local v = tide.vec2(x[i][1], x[i][3])
      y[i][2] = v.x - 2 * v.y + x[#x][2]
      y[#y + 1 - i][1] = y[i][2] + i
    end
    local k = tide.kernel(fn)
    for round = 1, 48 do
      local x = made({ 5, 3 + round % 3 }, pick(kinds, math.floor(round / 3)), 1)
      local y = made({ 5, 2 + math.floor(round / 2) % 2 }, pick(kinds, math.floor(round / 5)), 50)
      -- one place, as what a place writes another one may read
      local want, got = { x:cpu():clone(), y:cpu():clone() }, y
      tide.kernel.interpret(fn, 1, want[1], want[2])
      k(1, x, got)
      D.eq(want[2]:totable(), got, nil, "round " .. round)
      if round == 20 then k:wait() end
    end
    D.raises("IndexError", function()
      k(1, made({ 5, 2 }, "plain", 1), made({ 5, 2 }, "plain", 1))
      if D.cuda then tide.cuda.synchronize() end
    end)
    local three = tide.kernel(function(i, x, at) x[at[i][1]][at[i][2]][3] = x[i][i][1] + x[i][i][2] end)
    for _, how in ipairs(kinds) do
      for _, row in ipairs { 3, 4, 3 } do
        local x, at = made({ 2, 4, row }, how, 1), tide.tensor({ { 2, 1 } }, { device = D.dev, dtype = "int64" })
        local want = x:cpu():clone()
        want[2][1][3] = want[1][1][1]:item() + want[1][1][2]:item()
        three(1, x, at)
        D.eq(want:totable(), x, nil, how .. " " .. row)
      end
    end
  end)

  it("of a kernel that was compiled ahead may have any shape", function()
    local k = tide.kernel(function(i, x, y) y[i][1] = x[i][1] + x[i][2] end, { types = { "float32", 2, "float32", 2 } })
    k:wait()
    for _, how in ipairs(kinds) do
      for _, row in ipairs { 2, 3 } do
        local x, y = made({ 3, row }, how, 1), made({ 3, row }, how, 1)
        local want = (x:select(2, 1) + x:select(2, 2)):totable()
        k(3, x, y)
        D.eq(want, y:select(2, 1), nil, how .. " " .. row)
      end
    end
  end)
end)

describe("a kernel's powers and directions", function()
  D.watch(before_each, after_each)

  it("are as exact as four units in the last place", function()
    local x = tide.cat({ tide.linspace(-3, 3, 301, { device = D.dev }), D.tensor({ 0, -0.0, 1 / 0, -1 / 0, 0 / 0, 1e-9, 1e9 }, "float32") })
    local powers = tide.kernel(function(i, x, y)
      local v = x[i]
      y[i][1], y[i][2], y[i][3], y[i][4], y[i][5], y[i][6] = v ^ 3, v ^ 4, v ^ 5, v ^ 6, v ^ 7, v ^ 8
    end)
    local y = tide.zeros(x:numel(), 6, { device = D.dev })
    powers(x:numel(), x, y)
    powers:wait()
    powers(x:numel(), x, y)
    for n = 3, 8 do
      local want = x:cpu():double():pow(n)
      local off = (y:select(2, n - 2):cpu():double() - want):abs() / want:abs():clamp { min = 2.0 ^ -126 }
      for i = 1, x:numel() do
        local a, b = y[i][n - 2]:item(), want[i]:float():item()
        assert.is_true(a == b and (a ~= 0 or 1 / a == 1 / b) or a ~= a and b ~= b or off[i]:item() <= 4 * 2.0 ^ -23, ("%g ^ %d"):format(x[i]:item(), n))
      end
    end
    local turn = tide.kernel(function(i, v, u) u[i] = tide.vec3(v[i]):normalize() end)
    local v = tide.cat({ tide.randn(500, 3, { device = D.dev }), tide.randn(50, 3, { device = D.dev }) * 1e-15, tide.randn(50, 3, { device = D.dev }) * 1e15 })
    local u = v:clone()
    for _ = 1, 2 do
      turn(600, v, u)
      turn:wait()
    end
    local want = v:cpu():double() / (v:cpu():double() ^ 2):sum(2, { keepdim = true }):sqrt()
    assert.is_true(((u:cpu():double() - want):abs() / want:abs()):max():item() < 4 * 2.0 ^ -23)
  end)
end)

describe("kernels on the CPU and on a device", function()
  D.watch(before_each, after_each)

  -- Each place gives what k does there to `from` of its own.
  local function in_turn(k, from, want)
    for _, device in ipairs { "cpu", D.dev, "cpu", D.dev } do
      local x = tide.full({ 4 }, from, { device = device, dtype = tide.float32 })
      k(4, x)
      k:wait()
      k(4, x)
      D.eq(want, x)
    end
  end

  it("have a text for each, in any order", function()
    local k = tide.kernel("function(i, x) x[i] = 2 * x[i] + i end", { types = { "float32", 1 } })
    in_turn(k, 1, { 7, 10, 13, 16 })
    k:replace "function(i, x) x[i] = x[i] - i end"
    in_turn(k, 1, { -1, -3, -5, -7 })
    assert.is_truthy(k:ready())
  end)

  it("run where a tensor from outside lies, if they are given none", function()
    local held = tide.zeros(4, { device = D.dev })
    local k = tide.kernel(function(i) held[i] = held[i] + i end)
    k(4)
    D.eq({ 1, 2, 3, 4 }, held)
    held = tide.zeros(4)
    k(4)
    D.eq({ 1, 2, 3, 4 }, held)
    held = tide.zeros(4, { device = D.dev })
    local bound = k:on(4)
    bound()
    bound()
    D.eq({ 2, 4, 6, 8 }, held)
  end)

  it("give results where out= lies", function()
    local k = tide.kernel(function(i) return i * 0.5 end)
    for _, device in ipairs { D.dev, "cpu", D.dev } do
      local out = tide.zeros(4, { device = device })
      k(4, { out = out })
      D.eq({ 0.5, 1, 1.5, 2 }, out)
    end
  end)
end)
