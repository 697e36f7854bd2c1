-- What a fused function does besides its kernels: looks, writes and calls.

local tide = require "tide"
local D = require "spec.support.device"
local rawset, rawget, math, load, pairs = rawset, rawget, math, load, pairs
local dev, unpack, ipairs, pcall, tostring, huge = D.dev, table.unpack, ipairs, pcall, tostring, math.huge

local fused = require "spec.support.fused"
local fill, check, quietly = fused.fill, fused.check, fused.quietly

describe("a fused function", function()
  D.watch(before_each, after_each)

  it("looks at devices and dtypes", function()
    for _, fn in ipairs {
      function(x) return x.device.type == "cpu" and x * 2 + 1 or x * 3 end,
      function(x, y) return x.device == y.device and x * 2 + 1 or x * 3 end,
      function(x) return tostring(x.device) == "cpu" and x * 2 + 1 or x * 3 end,
      function(x) return x.dtype.is_floating_point and x * x.dtype.itemsize or x end,
      function(x) return tostring(x.dtype) == "tide.float32" and x * 2 + 1 or x end,
    } do
      local f = check(fn, 0, fill { 5 }, fill { 5 })
      assert.is_true(#f:kernels() <= 1)
      local wide = fill({ 5 }, "float64")
      D.eq(fn(wide, wide), f(wide, wide))
    end
  end)

  it("tells numbers apart as they are, NaN too", function()
    local f = tide.fuse(function(x, n) return x / n end)
    local x = tide.ones(2, { device = dev })
    for _ = 1, 2 do
      D.eq({ huge, huge }, f(x, 0.0))
      D.eq({ -huge, -huge }, f(x, -0.0))
      D.eq({ 0 / 0, 0 / 0 }, f(x, 0 / 0))
      D.eq({ huge, huge }, f(x, 0))
    end
  end)

  it("writes to globals and libraries, and reads all of them", function()
    local x = fill { 8 }
    local function get(text) return load("local name = ... return function(a) " .. text .. " return a * 3 - 1 end", "=writes")("fuse_name") end
    quietly(function()
      for _, case in ipairs {
        { "fuse_name = a * 2 + 1" },
        { "_G[name] = a * 2 + 1" },
        { "_ENV[name] = a * 2 + 1" },
        { "rawset(_G, name, a * 2 + 1)" },
        { "(function() fuse_name = a * 2 + 1 end)()" },
        { "math.fuse_name = a * 2 + 1", math },
        { "local m = {} m = math m[name] = a * 2 + 1", math },
      } do
        local f, where = tide.fuse(get(case[1])), case[2] or _G
        for i = 1, 3 do
          rawset(where, "fuse_name", nil)
          D.eq(x * i * 3 - 1, f(x * i), 1e-6)
          D.eq(x * i * 2 + 1, rawget(where, "fuse_name"), 1e-6)
        end
        rawset(where, "fuse_name", nil)
      end
      local counts = tide.fuse(get "for _, v in pairs(_G) do if v == 'fuse' then a = a + 1 end end")
      D.eq(x * 3 - 1, counts(x))
      rawset(_G, "fuse_name", "fuse")
      D.eq((x + 1) * 3 - 1, counts(x))
      rawset(_G, "fuse_name", nil)
      -- What it writes to is its own.
      local own = tide.fuse(get "local t, list = { y = a * 2, [1] = a }, {} for i = 1, 3 do list[i] = a * i end a = t.y - list[3] + t[1]")
      for i = 1, 3 do D.eq(x * 0 - 1, own(x * i), 1e-5) end
      assert.are.equal(1, #own:kernels())
    end)
  end)

  it("tells all kernels of a call, also those before it called another fused function", function()
    local x = fill { 6, 5 }
    local function inside(a) return a * 3 - 1 end
    local fused = tide.fuse(inside)
    local function call_of(f, deep)
      return function(a)
        local y = a * 2 + 1
        local n = y:sum():item()
        local z = deep and f(f(y)) or f(y)
        local m = (z + n):amax():item()
        return f(z * m) - 1
      end
    end
    for _, deep in ipairs { false, true } do
      local plain, nested = tide.fuse(call_of(inside, deep)), tide.fuse(call_of(fused, deep))
      for _ = 1, 2 do
        D.eq(plain(x):tolist(), nested(x), 1e-5)
        local expected = plain:kernels()
        assert.is_true(#expected >= 3)
        assert.are.equal(#expected, #nested:kernels())
        for i, kernel in ipairs(nested:kernels()) do assert.are.same(expected[i].operations, kernel.operations) end
      end
      fused(x)
      assert.are.equal(1, #fused:kernels())
    end
  end)

  it("closes what it has made on the way", function()
    local x = fill { 6, 5 }
    local f = check(function(a)
      local y <close> = a * 2 + 1
      local z <close> = y:tanh()
      return z * 2 - y
    end, 1e-6, x)
    assert.are.equal(1, #f:kernels())
    f = check(function(a)
      local y = a * 2 + 1
      local z = y:tanh()
      y:free()
      return z * 2 - 1
    end, 1e-6, x)
    assert.are.equal(1, #f:kernels())
    quietly(function()
      for _ = 1, 2 do -- an argument
        local own, frees = x:clone(), tide.fuse(function(a) local y = a * 2 + 1 a:free() return y end)
        D.eq(x * 2 + 1, frees(own))
        assert.is_false((pcall(function() return own + 1 end)))
      end
      local gone = tide.fuse(function(a) local y <close> = a * 2 return y end)
      for _ = 1, 3 do assert.is_false((pcall(function() return gone(x) + 1 end))) end
      local ends = tide.fuse(function(a) local b <close> = a return b * 2 + 1 end)
      for _ = 1, 3 do
        local own = x:clone()
        D.eq(x * 2 + 1, ends(own))
        assert.is_false((pcall(function() return own + 1 end)))
      end
    end)
  end)

  it("tells its name and where it stands", function()
    local function fn(x) return x end
    assert.are.equal("tide.fuse(smooth)", tostring(tide.fuse(fn, { name = "smooth" })))
    assert.matches("^tide.fuse%(.*fuse_calls_spec.lua:%d+%)$", tostring(tide.fuse(fn)))
  end)

  it("calls kernels written in Lua between its own (FUSE-03)", function()
    local factor, w = 2, tide.ones(8, { device = dev })
    local scale = tide.kernel("function(i, x, a) x[i] = x[i] * a end", { name = "scale" })
    local grow = tide.kernel(function(i, x) w[i] = w[i] + x[i] * factor end)
    local bound = scale:on(8, w, 0.5)
    local function fn(x)
      local y, before = x + 1, w * 3
      scale(8, y, 2)
      grow(8, y)
      bound()
      return y * 2 - 1, before, w + 1
    end
    local f, x = tide.fuse(fn), fill { 8 }
    local function same()
      local start = w:clone()
      local want = { fn(x) }
      w:copy_(start)
      for k, got in ipairs { f(x) } do D.eq(want[k], got, 1e-6, "result " .. k) end
    end
    for pass = 1, 4 do
      factor = pass
      same()
    end
    scale:replace "function(i, x, a) x[i] = x[i] + a end"
    same()
    quietly(function()
      scale:replace "function(i, x, a) x[i] = x[i] - a return i end"
      same()
    end)
  end)

  it("assigns to elements in order (FUSE-04)", function()
    local mask, index = fill { 4, 5 }:gt(0), tide.tensor({ 1, 3 }, { device = dev })
    local function fn(x, y)
      local before = x * 2
      x[1] = 0
      x[{ 2, { 2, 3 } }] = y * 3
      x[3][2] = 7
      local row = x[2]
      x[4] = row + x[1]
      x[mask] = -1
      x[{ 1, index }] = x[{ 1, index }] + 5
      return before, x + 1, row
    end
    local f, want = tide.fuse(fn), fill { 4, 5 }
    local a, b, c = fn(want, fill { 2 })
    for pass = 1, 3 do
      local x = fill { 4, 5 }
      local p, q, r = f(x, fill { 2 })
      for k, pair in ipairs { { a, p }, { b, q }, { c, r }, { want, x } } do D.eq(pair[1], pair[2], 0, "pass " .. pass .. ", " .. k) end
    end
  end)

  it("writes more than one kernel can have as results (FUSE-04)", function()
    local function move(x, y, z, vx, vy, vz, age, dt)
      vy:sub_(9.5 * dt)
      x:add_(vx * dt)
      y:add_(vy * dt)
      z:add_(vz * dt)
      age:add_(dt)
      vx:mul_(0.5)
      vz:mul_(0.5)
      local out = {}
      for k = 1, 8 do out[k] = x * k + y end
      return (vx * vx + vy * vy + vz * vz) / 2, out
    end
    local function arguments()
      local list = {}
      for k = 1, 7 do list[k] = fill({ 50 }, "float32", k) end
      list[8] = 0.25
      return list
    end
    local f = tide.fuse(move)
    for pass = 1, 3 do
      local a, b = arguments(), arguments()
      local want, got = { move(unpack(a)) }, { f(unpack(b)) }
      D.eq(want[1], got[1], 1e-6)
      for k = 1, 8 do D.eq(want[2][k], got[2][k], 1e-6) end
      for k = 1, 7 do D.eq(a[k], b[k], 1e-6, "pass " .. pass .. ", argument " .. k) end
      if pass == 2 and D.compiler then f:wait() end
    end
  end)

  it("writes once where something fails behind that", function()
    local one, inside, outside = tide.tensor { 1 }, tide.tensor { 1, 2 }, tide.tensor { 1, 9 }
    for _, write in ipairs {
      function(x) x:index_add_(1, one, tide.ones(1)) end,
      function(x) x[1] = x[1] + 1 end,
      function(x) tide.cumsum(x, 1, { out = x }) end,
    } do
      local function fn(x, y, i)
        write(x)
        return (y[i] * 2 + 1):sum()
      end
      local f, x, y = tide.fuse(fn), tide.ones(3), tide.ones(5)
      for _ = 1, 3 do f(x, y, inside) end
      local want = x:clone()
      local _, said = pcall(fn, want, y, outside)
      local e = D.raises("IndexError", f, x, y, outside)
      assert.are.equal(said.message, (e.message:gsub(" used at [^,]*", "")))
      D.eq(want, x)
    end
  end)
end)
