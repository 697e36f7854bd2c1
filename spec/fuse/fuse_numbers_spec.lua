-- Fused functions with numbers that change: what they do is done by the same kernels.

local tide = require "tide"
local D = require "spec.support.device"
local dev, unpack, type, ipairs, pcall, error, yield = D.dev, table.unpack, type, ipairs, pcall, error, coroutine.yield
local rawset, rawget, load = rawset, rawget, load
local next, select, tostring, tonumber, math = next, select, tostring, tonumber, math

local fused = require "spec.support.fused"
local fill, quietly = fused.fill, fused.quietly

local size = { 200, 170 }

-- Of large tensors, so without a look at each element.
local function eq(expected, got, tolerance, what)
  if not tide.is_tensor(expected) or expected:numel() < 1000 then return D.eq(expected, got, tolerance, what) end
  assert.are.same(expected:size(), got:size())
  local apart = (expected:double() - got:double()):abs():max():item()
  assert.is_true(apart <= (tolerance or 0), ("%s: %g apart"):format(what or "", apart))
end

-- The fused function, called with each number, gives what the function gives.
local function same(fn, numbers, ...)
  local f = tide.fuse(fn)
  local args = { ... }
  local function call(g, n)
    local own = {}
    for i, x in ipairs(args) do own[i] = x:clone() end
    own[#own + 1] = n
    local results = { g(unpack(own)) }
    for i = 1, #args do results[#results + 1] = own[i] end
    return results
  end
  for pass, n in ipairs(numbers) do
    local a, b = call(fn, n), call(f, n)
    assert.are.equal(#a, #b)
    for i = 1, #a do
      if tide.is_tensor(a[i]) then
        assert.are.equal(a[i].dtype, b[i].dtype)
        assert.are.same(a[i]:size(), b[i]:size())
        assert.are.same(a[i]:stride(), b[i]:stride())
        eq(a[i]:to "float64", b[i]:to "float64", 1e-5, ("number %d (%s), result %d"):format(pass, tostring(n), i))
      elseif math.type(a[i]) == "float" and (D.tsan or os.getenv "ASAN_OPTIONS") then -- their loops sum in another order
        assert.is_near(b[i], a[i], 1e-6 * math.abs(a[i]))
      else
        assert.are.same(a[i], b[i])
      end
    end
    if pass == 1 and D.compiler then f:wait() end
  end
  return f
end

local numbers = {}
for i = 1, 20 do numbers[i] = i * 0.25 end

describe("a fused function with numbers that change", function()
  D.watch(before_each, after_each)

  it("runs for its numbers, and one kernel does the work", function()
    local x, y = fill(size), fill(size, "float32", 1)
    local f = same(function(a, b, t) return ((a * b + t):tanh() - a / (t + 2)):relu() end, numbers, x, y)
    assert.are.same({ "mul", "add", "tanh", "div", "sub", "relu" }, f:kernels()[1].operations)
    assert.are.equal(1, #f:kernels())
    if D.compiler then assert.is_true(f:ready()) end
  end)

  it("has its old numbers back where they come again", function()
    local x, f = fill(size), nil
    f = tide.fuse(function(t, k) return t * k + k end)
    for _, k in ipairs { 2, 3, 2, 5, 5, 2, 3 } do eq(x * k + k, f(x, k)) end
  end)

  it("sees them in upvalues, fields and globals", function()
    local x, env = fill(size), { k = 1, config = { scale = 2, deep = { shift = 0.5 } }, rate = 1.5 }
    local f = tide.fuse(load("local rate = rate return function(t) return (t * k + config.deep.shift) * config.scale - rate end",
      "chunk", "t", env)())
    for i = 1, 20 do
      env.k, env.config.scale, env.config.deep.shift = i, i * 0.5, i - 0.5
      eq((x * i + (i - 0.5)) * (i * 0.5) - 1.5, f(x), 1e-3)
    end
    local k = 1
    local g = tide.fuse(function(t) return t * k + k end)
    for i = 1, 5 do
      k = i
      eq(x * i + i, g(x))
    end
  end)

  it("computes with them as Lua does", function()
    same(function(x, t)
      local s = 0
      for i = 1, 3 do s = s + math.sin(t * i) end
      local w = tonumber(("%.3f"):format(s))
      return x * w + (t > 100 and 1 or 0), x - s
    end, numbers, fill(size))
  end)

  it("keeps dtypes, integers and floats apart", function()
    local x = fill(size, "int32", 6)
    same(function(a, n) return a * n + n, (a + n):float() / n, a:gt(n) end, { 1, 2, 3, 4 }, x)
    local f = tide.fuse(function(a, n) return a * n + n end)
    for _ = 1, 2 do
      assert.are.equal(tide.int32, f(x, 2).dtype)
      assert.are.equal(tide.float32, f(x, 2.0).dtype)
      assert.are.equal(tide.int32, f(x, 3).dtype)
      eq(x:float() * 2.5 + 2.5, f(x, 2.5))
    end
    for _, dtype in ipairs { "float16", "bfloat16", "float64", "uint8" } do
      local y = fill(size, dtype, 0)
      local g = tide.fuse(function(a, n) return (a * n + n):to "float32" end)
      for n = 1, 4 do eq((y * n + n):to "float32", g(y, n), dtype == "float64" and 1e-6 or dtype == "uint8" and 0 or 0.1) end
    end
  end)

  it("reduces, casts, broadcasts and looks at sizes", function()
    local x, row = fill(size), fill { size[2] }
    same(function(a, t)
      local e = ((a - a:amax(-1, { keepdim = true })) / t):exp()
      return e / e:sum(-1, { keepdim = true })
    end, numbers, x)
    same(function(a, b, t) return (a:half() * t + b):float() - b:unsqueeze(1) * t, a.T * t + a.T end, { 1, 2, 3 }, x, row)
    same(function(a, t) return (a * t / a:size(1) + a:dim()):sum(), (a * t):mean(1) end, { 1.5, 2.5, 3.5 }, x)
    same(function(a, t) return (a * t):std(1, { correction = 0 }), (a * t):norm(3, 2), (a + t):logsumexp(2) end, { 1.5, 2.5, 3.5 }, x)
    same(function(a, t) return (a * t + 1):float():type_as(a) end, { 1, 2, 3 }, x)
  end)

  it("takes them in options, and looks at lengths", function()
    local x, y = fill(size), fill(size, "float32", 1)
    same(function(a, b, t) return a:add(b, { alpha = -t }) * 2, tide.addcmul(a, a, b, { value = t }), a:clamp { min = -t, max = t } + 1 end,
      { 1, 2, 3 }, x, y)
    same(function(a, t) return (a * t + #a):clamp(-t, { max = t * 2 }), (a - t):round { decimals = 1 } end, { 1, 2, 3 }, x)
    quietly(function() -- a cast that copies, and one that may not be there
      same(function(a, t)
        local b = a * t + 1
        if t == 2 then return tide.to(b, "float64") * 2, b:to("float16", { copy = true }), tide.to({ b, { b } }, a)[2][1] end
        return b:to "float64" * 2
      end, { 1, 2, 3, 2 }, x)
      same(function(a, t)
        local b = a * t + 1
        local c = (b + 1):mean()
        return b * 1 + (t == 2 and { c } or 1)
      end, { 1, 3, 2, 3 }, x)
    end)
  end)

  it("makes other calls in the middle (FUSE-03)", function()
    local x, w = fill(size), fill { size[2], size[2] } / 64
    for _, fn in ipairs {
      function(a, b, t) return (a * t + 1):tanh():matmul(b) * t - a end,
      function(a, _, t) return (a * t + 1):roll(1, 1) * t + a:roll(t, 2) - 1 end,
      function(a, _, t) local y = a * t + 1 return tide.cat({ y, { 1 } and y * 2 }, 2) * t - 1 end,
      function(a, _, t) local y = (a * t + 1):flip { 1 } return y * t - 1, y end,
      function(a, _, t) local v, i = (a * t + 1):max(2) return v * t - 1, i end,
      function(a, _, t) return (a * t + 1):narrow(1, t, 3) * t - 1, (a - t):view(2 * t, -1) * t + 1 end,
      function(a, _, t) return (a * t + 1):t() * t - 1, (a * t + 1).T[1] * 2 - t end,
      function(a, _, t) return ((a * t + 1):unsqueeze(2) * t - 1):sum(), (a * t - 1):sort(2) * 2 + t end,
      function(a, _, t) local p = (a * t + 1):chunk(2, 1) return p[1] * t - 1 + p[2] end,
      function(a, _, t) return tide.softmax(a * t + 1, 2) * t - a, (a * t - t):cumsum(1) * 2 - 1 end,
      function(a, _, t) return (a * t + 1):masked_select(a:gt(0)) * t - 1 end,
      function(a, b, t) local y = a * t + 1 for _ = 1, 3 do y = (y * t - 1):tanh():matmul(b) + a end return y * 2 - t end,
    } do
      local f = same(fn, { 1, 2, 4, 5, 1, 2 }, x, w)
    end
    quietly(function()
      local kept
      for _, fn in ipairs { -- what is computed on the way, behind such a call
        function(a, b, t) local y = a * t + 1 local z = y:tanh():matmul(b) * t - 1 return t == 4 and y * 2 or z * 2 end,
        function(a, b, t) local y = a * t + 1 local z = y:tanh():matmul(b) * t - 1 if t == 4 then return y, z end return z end,
        function(a, b, t) local y = a * t + 1 local z = y:tanh():matmul(b) if t == 4 then kept = y:clone() end return z * t - 1 end,
        function(a, b, t) local y = a * t + 1 y:add_(t) local z = y:tanh():matmul(b) return z * t - 1 + y end,
        function(a, b, t) local y = (a * t + 1):tanh() a:add_(t) return a:matmul(b) * t - 1 + y end,
        function(a, _, t) local i = (a * t):gt(1):nonzero() return i * 2 * t + 1, (a * t + 1):tanh() end,
        function(a, b, t) return (a * t + 1):matmul(t == 4 and b:t() or b) * t - 1 end,
        function(a, _, t) -- one that fails, and is caught
          local y = a * t + 1
          local fine, part = pcall(y.narrow, y, 1, t * 60, 3)
          if not fine then return y:clone() end
          return part * t - 1
        end,
        function(a, _, t)
          local y = a * t + 1
          local z = (y * t):tanh()
          local fine, part = pcall(z.narrow, z, 1, t * 60, 3)
          if not fine then return y:tanh() * 2, z:tolist()[1][1] end
          return part * t - 1
        end,
      } do
        same(fn, { 1, 2, 4, 5, 4, 3, 2 }, x, w)
      end
      eq(x * 4 + 1, kept, 1e-5)
    end)
    local f = tide.fuse(function(a, b, t) return ((a * t + 1):matmul(b) * t - 1):tanh() end)
    for t = 1, 3 do f(x, w, t) end
    local ok, said = pcall(f, x, fill { 3, 3 }, 9)
    assert.is_false(ok)
    assert.matches("fuse_numbers_spec.lua:%d+: .*matmul", tostring(said))
  end)

  it("writes to arguments, in order (FUSE-04)", function()
    local p, v = fill(size), fill(size, "float32", 1)
    same(function(x, s, dt)
      s:mul_(1 - dt):add_(x * -dt)
      x:add_(s * dt)
      return x * 2
    end, numbers, p, v)
    same(function(x, s, dt)
      local y = x * dt
      y:add_(s)
      y:mul_(dt)
      tide.add(x, y, { out = s })
      return y, s
    end, numbers, p, v)
  end)

  it("goes on alone where it does something else", function()
    local x = fill(size)
    same(function(a, t) return t > 2 and (a * t + 1) * t or (a - t) / t end, numbers, x)
    same(function(a, t)
      local y = a * t + 1
      if t > 1 and t < 3 then y = y:exp():neg() end
      return y - t
    end, numbers, x)
    quietly(function()
      same(function(a, t)
        local y = (a * t + 1):tanh()
        if t > 1 and t < 3 then return y, y:sum():item() end
        return y
      end, numbers, x)
    end)
    -- What is computed on the way is a result then.
    same(function(a, t)
      local y = a * t
      local z = (y + 1):tanh()
      if t == 2.5 then return y, z end
      return z, z
    end, numbers, x)
    local f = tide.fuse(function(a, t) if t == 3 then return a * t + 1 end return (a - t) / t end)
    for t = 1, 3 do f(x, t) end
    assert.are.same({ "mul", "add" }, f:kernels()[1].operations)
    quietly(function() -- another way at each call is not worth it
      same(function(a, t) return t * 4 % 2 < 1 and (a * t + 1) * t or (a - t) / t end, numbers, x)
    end)
  end)

  it("has done everything before anything else can look", function()
    local x, seen = fill(size), {}
    local function add(what, t) seen[what] = t end
    for _, look in ipairs {
      function(y) return y:sum():item() end,
      function(y) return y[1][1]:item() end,
      function(y) return tide.cat({ y, y }, 1) end,
      function(y) return y:t():contiguous() end,
      function(y) return y.T:clone() end,
      function(y) return y:narrow(1, 2, 3) + 1 end,
      function(y) return y:max(2) end,
      function(y) return y:clone() end,
      function(y) return y:contiguous():stride(1) end,
      function(y) return tide.stack { y, y } end,
      function(y) return y:view(-1)[5]:item() end,
      function(y) return tide.equal(y, y + 0) end,
      function(y) return tostring(y):len() > 0 end,
      function(y) return #y end,
      function(y) y[1] = 3 return y end,
      function(y) return tide.where(y:gt(0), y, -y) end,
      function(y) return y:data_ptr() ~= 0 and y:storage_offset() end,
      function(y) return select(2, pcall(y.add, y, "a")) ~= nil and y end,
      function(y) return y:is_contiguous() end,
      function(y) add("kept", y) return seen.kept end,
    } do
      quietly(function()
        local function fn(a, t)
          local y = (a * t + 1) * 2
          if t == 3 or t == 4 then return y - 1, look(y), y end
          return y - 1
        end
        local f = tide.fuse(fn)
        for _, t in ipairs { 1, 2, 3, 4, 2, 3 } do
          local a, b = { fn(x, t) }, { f(x, t) }
          assert.are.equal(#a, #b)
          for i = 1, #a do
            if tide.is_tensor(a[i]) then eq(a[i], b[i], 1e-6) else assert.are.same(a[i], b[i]) end
          end
        end
      end)
    end
  end)

  it("gives values to what it keeps elsewhere", function()
    local x, keep = fill(size), { at = false }
    local function fn(a, t)
      local y = a * t + 1
      if t == 3 then keep.at = y end
      return y:tanh() - t
    end
    local f = tide.fuse(fn)
    quietly(function() for t = 1, 5 do eq(fn(x, t), f(x, t), 1e-6) end end)
    eq(x * 3 + 1, keep.at)
    local lists = tide.fuse(function(a, t)
      local out = {}
      for i = 1, 3 do out[i] = a * i * t + 1 end
      return out
    end)
    quietly(function() for t = 1, 4 do for i = 1, 3 do eq(x * i * t + 1, lists(x, t)[i], 1e-5) end end end)
    -- In the globals, which nobody looks through.
    local k = tide.fuse(load("return function(a, t) local y = a * t + 1 if t == 3 then fuse_escaped = y end return y:tanh() - t end", "=globals")())
    quietly(function() for t = 1, 5 do eq((x * t + 1):tanh() - t, k(x, t), 1e-6) end end)
    eq(x * 3 + 1, rawget(_G, "fuse_escaped"))
    rawset(_G, "fuse_escaped", nil)
    local names = tide.fuse(load("return function(a, t, name) local y = a * t + 1 if t > 2 then rawset(_G, name, y) end return y:tanh() - t end",
      "=names")())
    quietly(function() for t = 1, 5 do eq((x * t + 1):tanh() - t, names(x, t, "fuse_escaped"), 1e-6) end end)
    eq(x * 5 + 1, rawget(_G, "fuse_escaped"))
    rawset(_G, "fuse_escaped", nil)
    -- A tensor in the place of another one, by an upvalue too.
    local at, state = fill(size), { v = fill(size) }
    local g = tide.fuse(function(a, t)
      local y = a * t + at * state.v
      if t == 3 then at, state.v = y, y end
      return y:tanh()
    end)
    quietly(function() for t = 1, 2 do g(x, t) end end)
    local was = at * state.v
    quietly(function() g(x, 3) end)
    eq(x * 3 + was, at, 1e-5)
    eq(x * 3 + was, state.v, 1e-5)
  end)

  it("returns numbers, tables and nil as it does alone", function()
    local x = fill(size)
    local f = tide.fuse(function(a, t) return { y = a * t + 1, { t * 2, "name" } }, t, nil, { { a - t } } end)
    for t = 1, 6 do
      local r, n, none, deep = f(x, t)
      eq(x * t + 1, r.y)
      assert.are.same({ t * 2, "name" }, r[1])
      assert.are.equal(t, n)
      assert.is_nil(none)
      eq(x - t, deep[1][1])
    end
    -- A function that holds one is no table: it gets its values as well.
    local g = tide.fuse(function(a, t)
      local y = a * t + 1
      if t > 2 then return function() return y end end
      return y
    end)
    quietly(function() for t = 1, 5 do eq(x * t + 1, t > 2 and g(x, t)() or g(x, t)) end end)
  end)

  it("raises the function's own errors, and has done what came before", function()
    local x, k = fill(size), fill(size, "int32", 6)
    local f = tide.fuse(function(a, n)
      a:add_(1)
      local y = a * n
      if n == 3 then error "three" end
      return y // n
    end)
    f(k, 1) f(k, 2)
    local before = k:clone()
    local ok, said = pcall(f, k, 3)
    assert.is_false(ok)
    assert.matches("fuse_numbers_spec.lua:%d+: three", said)
    eq(before + 1, k)
    ok, said = pcall(f, k, 0)
    assert.is_false(ok)
    assert.matches("divisor 0", tostring(said))
    eq(before + 2, k)
    eq((before + 3) * 5 // 5, f(k, 5))
    -- Shapes and dtypes are what they are in the function.
    local g = tide.fuse(function(a, n) return (a * n + 1):view(n, -1) end)
    quietly(function()
      for _, n in ipairs { 1, 2, 4 } do assert.are.same({ n, size[1] * size[2] // n }, g(x, n):size()) end
      assert.is_false((pcall(g, x, 7)))
    end)
    -- What a pcall inside has caught.
    local h = tide.fuse(function(a, n)
      local y = a * n + 1
      local fine = pcall(function() if n > 2 then error "x" end end)
      return fine and y or y * 2
    end)
    quietly(function() for n = 1, 4 do eq((x * n + 1) * (n > 2 and 2 or 1), h(x, n)) end end)
  end)

  it("can be left in the middle, and used by several coroutines", function()
    local x = fill(size)
    local f = tide.fuse(function(a, t)
      local y = a * t + 1
      a:add_(t)
      if t > 2 then yield(y) end
      return y * 2 - a
    end)
    quietly(function() for t = 1, 2 do f(x:clone(), t) end end)
    local own = { x:clone(), x:clone() }
    local a = coroutine.wrap(function() return f(own[1], 3) end)
    local b = coroutine.wrap(function() return f(own[2], 4) end)
    eq(x * 3 + 1, a())
    eq(x * 4 + 1, b())
    eq(x + 3, own[1])
    eq(x + 4, own[2])
    eq((x * 4 + 1) * 2 - (x + 4), b())
    eq((x * 3 + 1) * 2 - (x + 3), a())
    -- One that has failed, and that nobody has closed: its writes have happened.
    local g = tide.fuse(function(p, t)
      p:mul_(t):add_(1)
      if t == 3 then error "gone" end
      return p * 2 + 1
    end)
    quietly(function() for t = 1, 2 do g(x:clone(), t) end end)
    local y = x:clone()
    local co = coroutine.create(function(...) return g(...) end)
    assert.is_false((coroutine.resume(co, y, 3)))
    eq(x * 3 + 1, y)
    local z = x:clone()
    co = coroutine.create(function(...) return g(...) end)
    assert.is_false((coroutine.resume(co, z, 3)))
    co = nil -- luacheck: ignore
    collectgarbage() collectgarbage()
    eq(x * 3 + 1, z)
    for t = 4, 6 do eq((x * t + 1) * 2 + 1, g(x:clone(), t), 1e-4) end
  end)

  it("closes what it has made on the way", function()
    local x = fill(size)
    same(function(a, t)
      local y <close> = a * t + 1
      local z <close> = y:tanh()
      return z * 2 - t
    end, numbers, x)
    same(function(a, t)
      local y = a * t + 1
      local z = y:tanh()
      y:free()
      return z * 2 - t
    end, numbers, x)
    quietly(function()
      local f = tide.fuse(function(a, t) local y <close> = a * t + 1 return t > 2 and y or y * 2 end)
      for t = 1, 4 do
        local y = f(x, t)
        if t > 2 then assert.is_false((pcall(function() return y + 1 end))) else eq((x * t + 1) * 2, y) end
      end
      local own, g = x:clone(), tide.fuse(function(a, t) local b <close> = t > 2 and a or nil return a * t + 1 end)
      for t = 1, 4 do
        local y = t > 3 or g(own, t)
        if t < 4 then eq(x * t + 1, y) else assert.is_false((pcall(g, own, t))) end
      end
    end)
  end)

  it("calls itself and others that are fused", function()
    local x = fill(size)
    local inner = tide.fuse(function(a, t) return a * t + 1 end)
    local f = tide.fuse(function(a, t) return inner(a, t):tanh() - inner(a, t + 1) end)
    for t = 1, 8 do eq((x * t + 1):tanh() - (x * (t + 1) + 1), f(x, t), 1e-5) end
    local g
    g = tide.fuse(function(a, n) if n == 0 then return a * 2 + 1 end return g(a, n - 1) * n + 1 end)
    local function plain(a, n) if n == 0 then return a * 2 + 1 end return plain(a, n - 1) * n + 1 end
    quietly(function() for n = 0, 6 do eq(plain(x, n), g(x, n), 1e-2) end end)
  end)

  it("takes no memory for what is computed on the way", function()
    if not D.simulated then return pending "needs simulated devices" end
    local x = fill { 512, 512 }
    local f = tide.fuse(function(a, t) return ((((a * t + 1) * 2 - a) * t + a) * 3 - t) * t end)
    f(x, 1) f(x, 2)
    tide.cuda.synchronize(dev)
    collectgarbage() collectgarbage()
    local before = tide.cuda.memory_allocated(dev)
    tide.cuda.reset_peak_memory_stats(dev)
    local y = f(x, 3)
    local peak = tide.cuda.max_memory_allocated(dev) - before
    assert.is_true(peak < 1.5 * y:nbytes(), ("%d bytes of %d"):format(peak, y:nbytes()))
  end)

  it("keeps nothing behind", function()
    local x = fill(size)
    local f = tide.fuse(function(a, t) return (a * t + 1):tanh() * t end)
    for t = 1, 5 do f(x, t) end
    local function used()
      for _ = 1, 4 do collectgarbage() end
      return collectgarbage "count"
    end
    local before = used()
    for t = 1, 300 do f(x, t) end
    assert.is_true(used() - before < 30, used() - before)
    assert.are.equal(nil, (next(f:kernels()[2] or {})))
  end)

  it("leaves a hook of the script's alone", function()
    local x, lines, calls = fill(size), 0, 0
    local function fn(a, t)
      local y = a * t + 1
      return y:tanh()
    end
    local f = tide.fuse(fn)
    f(x, 1)
    local function count() calls = calls + 1 end
    debug.sethook(function() lines = lines + 1 end, "l")
    for t = 1, 5 do eq(fn(x, t), f(x, t), 1e-6) end
    local hooked = debug.gethook() ~= nil
    debug.sethook()
    assert.is_true(hooked and lines > 20)
    debug.sethook(count, "", 50)
    for t = 1, 5 do eq(fn(x, t), f(x, t), 1e-6) end
    hooked = debug.gethook() == count
    debug.sethook()
    assert.is_true(hooked and calls > 0)
    f(x, 9)
    assert.is_nil((debug.gethook()))
  end)

end)
