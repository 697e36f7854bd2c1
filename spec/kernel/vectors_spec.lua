-- Small vectors, matrices and quaternions as plain values: operators and methods against what is written
-- out here, between them and tensors, and what is refused.

local tide = require "tide"
local D = require "spec.support.device"

local function raises(text, f, ...)
  local e = D.raises("ArgumentError", f, ...)
  assert.is_truthy(e.message:find(text, 1, true), e.message .. "\nhas no " .. text)
end

local sizes = { vec2 = 2, vec3 = 3, vec4 = 4, quat = 4 }
-- The components of a vector, or of a matrix row by row.
local function list(v, n)
  local out = {}
  for i = 1, n do
    if type(v[i]) == "number" then out[i] = v[i] else
      for k = 1, n do out[#out + 1] = v[i][k] end
    end
  end
  return out
end
local function near(expected, got, what)
  assert.are.equal(#expected, #got, what)
  for i = 1, #expected do
    assert.is_true(math.abs(expected[i] - got[i]) <= 1e-12 * math.max(1, math.abs(expected[i])), (what or "") .. " " .. i .. ": " .. got[i])
  end
end
local state = 7
local function random()
  state = (state * 16807) % 2147483647
  return state / 2147483647 * 4 - 2
end
local function randoms(n)
  local out = {}
  for i = 1, n do out[i] = random() end
  return out
end
local unpack = table.unpack or unpack

describe("vectors: small values", function()
  it("have components by name and by index, as floats", function()
    local v = tide.vec4(1, 2, 3, 4)
    assert.are.same({ 1, 2, 3, 4 }, { v.x, v.y, v.z, v.w })
    assert.are.same({ 1, 2, 3, 4 }, list(v, 4))
    if _VERSION == "Lua 5.4" then assert.are.equal("float", math.type(tide.vec2(1, 2).x)) end
    assert.are.same({ 5, 5, 5 }, list(tide.vec3(5), 3))
    assert.are.same({ 1, 2, 3 }, list(tide.vec3(tide.vec2(1, 2), 3), 3))
    assert.are.same({ 1, 2, 3, 4 }, list(tide.quat(1, tide.vec3(2, 3, 4)), 4))
    assert.are.same({ 1, 0, 0, 0, 1, 0, 0, 0, 1 }, list(tide.mat3(1), 3))
    assert.are.same({ 1, 2, 3, 4 }, list(tide.mat2(tide.vec2(1, 2), 3, 4), 2))
    assert.are.same({ 1, 2, 3, 4 }, list(tide.mat2(tide.mat2(1, 2, 3, 4)), 2))
    assert.are.equal(6, tide.mat3(1, 2, 3, 4, 5, 6, 7, 8, 9)[2][3])
    assert.is_truthy(tostring(tide.mat2(1, 2, 3, 0.5)):find "^mat2%(1%.?0?, 2%.?0?, 3%.?0?, 0%.5%)$")
    assert.are.equal(-1 / 0, 1 / (-tide.vec2(0, 1)).x)
  end)

  it("are equal by their components", function()
    assert.is_true(tide.vec3(1, 2, 3) == tide.vec3(1, 2, 3))
    assert.is_false(tide.vec3(1, 2, 3) == tide.vec3(1, 2, 4))
    assert.is_false(tide.vec4(1, 2, 3, 4) == tide.quat(1, 2, 3, 4))
    assert.is_false(tide.vec2(0 / 0, 1) == tide.vec2(0 / 0, 1))
    assert.is_true(tide.mat2(1) == tide.mat2(1, 0, 0, 1))
    assert.is_false(tide.mat2(1) == tide.mat2(1, 0, 1, 1))
  end)

  it("compute by components, with numbers on either side", function()
    local ops = {
      ["+"] = function(a, b) return a + b end, ["-"] = function(a, b) return a - b end,
      ["*"] = function(a, b) return a * b end, ["/"] = function(a, b) return a / b end,
    }
    for _, name in ipairs { "vec2", "vec3", "vec4" } do
      local n = sizes[name]
      local p, q, s = randoms(n), randoms(n), random()
      local a, b = tide[name](unpack(p)), tide[name](unpack(q))
      for sign, f in pairs(ops) do
        local both, right, left = list(f(a, b), n), list(f(a, s), n), list(f(s, a), n)
        for i = 1, n do
          assert.are.equal(f(p[i], q[i]), both[i], name .. sign)
          assert.are.equal(f(p[i], s), right[i], name .. sign)
          assert.are.equal(f(s, p[i]), left[i], name .. sign)
        end
      end
      local minus, mixed, limited = list(-a, n), list(a:mix(b, s), n), list(a:clamp(-1, b * b), n)
      local dot = 0
      for i = 1, n do
        dot = dot + p[i] * q[i]
        assert.are.equal(-p[i], minus[i])
        assert.are.equal(p[i] + (q[i] - p[i]) * s, mixed[i])
        assert.are.equal(math.min(math.max(p[i], -1), q[i] * q[i]), limited[i])
      end
      near({ dot, math.sqrt(a:dot(a)), 1 }, { a:dot(b), a:length(), a:normalize():length() })
      local normal = b:normalize()
      near({ -a:dot(normal), a:length() }, { a:reflect(normal):dot(normal), a:reflect(normal):length() })
    end
    local a, b = tide.vec3(unpack(randoms(3))), tide.vec3(unpack(randoms(3)))
    near({ 0, 0 }, { a:cross(b):dot(a), a:cross(b):dot(b) })
    assert.is_true(tide.vec3(1, 0, 0):cross(tide.vec3(0, 1, 0)) == tide.vec3(0, 0, 1))
  end)

  it("multiply, transpose and invert matrices", function()
    for n = 2, 4 do
      local make, vector = tide["mat" .. n], tide["vec" .. n]
      local p, q, r = randoms(n * n), randoms(n * n), randoms(n)
      local a, b, v = make(unpack(p)), make(unpack(q)), vector(unpack(r))
      local product, times, turned, sum = {}, {}, {}, {}
      for i = 1, n do
        times[i] = 0
        for k = 1, n do
          local s = 0
          for j = 1, n do s = s + p[(i - 1) * n + j] * q[(j - 1) * n + k] end
          product[#product + 1], turned[#turned + 1] = s, p[(k - 1) * n + i]
          sum[#sum + 1] = p[(i - 1) * n + k] + 2 * q[(i - 1) * n + k]
          times[i] = times[i] + p[(i - 1) * n + k] * r[k]
        end
      end
      near(product, list(a * b, n))
      near(times, list(a * v, n))
      near(turned, list(a:transpose(), n))
      near(sum, list(a + b * 2, n))
      near(sum, list(a - -(2 * b), n))
      near(sum, list((2 * a + b / 0.25) / 2, n))
      local one = list(a * a:inverse(), n)
      for i = 1, n * n do assert.is_true(math.abs(one[i] - ((i - 1) % (n + 1) == 0 and 1 or 0)) < 1e-9) end
    end
  end)

  it("turn vectors by quaternions as matrices do", function()
    local q, p = tide.quat(unpack(randoms(4))):normalize(), tide.quat(unpack(randoms(4))):normalize()
    local v = tide.vec3(unpack(randoms(3)))
    near(list((q * p):rotate(v), 3), list(q:rotate(p:rotate(v)), 3))
    near(list(v, 3), list(q:inverse():rotate(q:rotate(v)), 3))
    near({ v:length(), 1 }, { q:rotate(v):length(), (q * p):length() })
    near({ 0, 0, 0, 1 }, list(q * q:inverse(), 4))
    local quarter = tide.quat(tide.vec3(0, 0, 1) * math.sin(math.pi / 4), math.cos(math.pi / 4))
    near({ 0, 1, 0 }, list(quarter:rotate(tide.vec3(1, 0, 0)), 3))
    near(list((q + p) / 2, 4), list(q:mix(p, 0.5), 4))
    near(list(q - p, 4), list(-(p - 2 * q * 0.5), 4))
  end)

  it("are called as functions, beside those of tensors", function()
    local v, w = tide.vec3(1, 2, 3), tide.vec3(4, 5, 6)
    assert.are.equal(32, tide.dot(v, w))
    assert.is_true(tide.cross(v, w) == v:cross(w) and tide.clamp(v, 2, 2) == tide.vec3(2))
    assert.is_true(tide.transpose(tide.mat2(1, 2, 3, 4)) == tide.mat2(1, 3, 2, 4))
    assert.is_true(tide.inverse(tide.mat2(2)) == tide.mat2(0.5))
    assert.is_true(tide.mix(v, w, 0.5) == v:mix(w, 0.5) and tide.length(v) == v:length() and tide.normalize(v) == v:normalize())
    assert.is_true(tide.reflect(v, tide.vec3(0, 1, 0)) == tide.vec3(1, -2, 3))
    assert.is_true(tide.rotate(tide.quat(0, 0, 0, 1), v) == v)
    local x = D.tensor { 1, 2, 3 }
    D.eq(14, tide.dot(x, x))
    D.eq({ 1, 2, 2 }, tide.clamp(x, { max = 2 }))
  end)

  it("refuse what they cannot do, and say what can", function()
    local v, m, q = tide.vec3(1, 2, 3), tide.mat3(1), tide.quat(0, 0, 0, 1)
    raises("vec3 + vec2: there is no such operation, expected beside the vec3 a vec3 or a number", function() return v + tide.vec2(1) end)
    raises("m:transpose() * v", function() return v * m end)
    raises("q:rotate(v)", function() return q * v end)
    raises("a * b:inverse()", function() return m / m end)
    raises("got string 'x'", function() return tide.vec3(1, 2, "x") end)
    raises("got 2 components, expected 3", tide.vec3, 1, 2)
    raises("dot: b: got vec2, expected a vec3", function() return (v:dot(tide.vec2(1))) end)
    raises("mix: t: got nil, expected a number or a vec3", function() return (v:mix(v)) end)
    raises("clamp: high: got nil", function() return (v:clamp(1)) end)
    raises("cross: b: got number 1", tide.cross, v, 1)
    raises("inverse: the first argument: got vec3, expected a quat, mat2, mat3 or mat4", tide.inverse, v)
    raises("there is no w, expected x, y, z, an index from 1 to 3 or one of clamp, cross", function() return v.w end)
    raises("there is no cross, expected", function() return tide.vec2(1).cross end)
    raises("make a new value", function() v[1] = 2 end)
    raises("make a new value", function() m[1].q = 2 end)
    raises("got key x", function() v.x = 5 end)
    raises("got key w", function() q.w = 5 end)
    raises("got key 2", function() m[2] = v end)
    raises("got key y", function() m[2].y = 5 end)
    raises("got key x", function()
      tide.kernel.interpret(function(i, x)
        local u = tide.vec3(1, 2, 3)
        u.x = x[i]
      end, 1, D.tensor { 1. })
    end)
    assert.is_truthy(D.raises("IndexError", function() return v[4] end).message:find("got index 4, expected 1 to 3", 1, true))
    assert.is_truthy(D.raises("IndexError", function() return m[0] end).message:find("got index 0, expected 1 to 3", 1, true))
    assert.is_nil(v[{}])
    assert.is_false(pcall(function() return v < v end))
    assert.are.equal("vec3", getmetatable(v))
  end)
end)

describe("vectors: beside tensors", function()
  D.watch(before_each, after_each)

  it("are read from rows and written to them", function()
    local p = D.tensor({ { 1, 2, 3 }, { 4, 5, 6 } }, "float32")
    assert.is_true(tide.vec3(p[2]) == tide.vec3(4, 5, 6))
    assert.is_true(tide.mat2(D.tensor { { 1, 2 }, { 3, 4 } }) == tide.mat2(1, 2, 3, 4))
    assert.is_true(tide.vec2(D.tensor({ true, false }, "bool")) == tide.vec2(1, 0))
    p[1] = tide.vec3(7, 8, 9.5)
    D.eq({ { 7, 8, 9.5 }, { 4, 5, 6 } }, p)
    p[{ 2, { 1, 2 } }] = tide.vec2(0, 1)
    D.eq({ { 7, 8, 9.5 }, { 0, 1, 6 } }, p)
    local m = tide.zeros({ 2, 2, 2 }, { device = D.dev })
    m[2] = tide.mat2(1, 2, 3, 4)
    D.eq({ { { 0, 0 }, { 0, 0 } }, { { 1, 2 }, { 3, 4 } } }, m)
    local message = D.raises("ShapeError", tide.vec3, p).message
    assert.is_truthy(message:find("got a tensor with 2 dimensions, expected 3 elements in one dimension", 1, true), message)
    D.raises("ShapeError", tide.vec2, p[1])
    raises("got a tensor beside other values", tide.vec4, p[1], 1)
  end)

  it("count as lists of numbers", function()
    local v, x = tide.vec3(1, 2, 3), D.tensor { 1, 1, 1 }
    D.eq({ 2, 3, 4 }, x + v)
    D.eq({ 0, 1, 2 }, v - x)
    D.eq({ 1, 2, 3 }, v / x)
    D.eq({ 2, 4, 6 }, D.tensor(v) * 2)
    D.eq({ { 1, 2, 3 }, { 2, 4, 6 } }, D.tensor { v, v * 2 })
    D.eq({ { 1, 0 }, { 0, 1 } }, D.tensor(tide.mat2(1)))
  end)
end)
