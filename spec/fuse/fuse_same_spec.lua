-- A fused function never differs from the function, whatever changes between two calls.

local tide = require "tide"
local D = require "spec.support.device"
local dev, rawequal, setmetatable, getmetatable, debug = D.dev, rawequal, setmetatable, getmetatable, debug
local collectgarbage, rawget, next, pairs, tostring, tonumber = collectgarbage, rawget, next, pairs, tostring, tonumber
local string, io = string, io
local fused = require "spec.support.fused"
local fill, quietly = fused.fill, fused.quietly

local SIZE = { 40000 } -- large enough for a CPU to follow the function

-- What a call returns, or has raised, with tensors as dtypes, devices and values.
local function call(fn, step)
  local out = table.pack(pcall(fn, table.unpack(step, 1, step.n or #step)))
  if not out[1] then out[2] = "an error" end
  return out
end

local function equal(expected, got, what, tolerance)
  if tide.is_tensor(expected) then
    assert.is_true(tide.is_tensor(got), what)
    assert.are.equal(expected.dtype, got.dtype, what)
    assert.are.equal(expected.device, got.device, what)
    assert.are.same(expected:size(), got:size(), what)
    for d = 1, expected:dim() do -- where one element stands alone, any stride is right
      if expected:size(d) > 1 then assert.are.equal(expected:stride(d), got:stride(d), what) end
    end
    local apart = expected:numel() > 0 and (expected:double() - got:double()):abs():max():item() or 0
    assert.is_true(apart <= (tolerance or 1e-4), what .. ": " .. apart .. " apart")
  else
    assert.are.same(expected, got, what)
  end
end

-- make() gives a function and the calls to make, {arguments ..., n=, before=}: once for the function alone, once more for
-- the fused one, which gets kernels after each call.
local function same(make, tolerance)
  local expected = {}
  local fn, steps = make()
  for i, step in ipairs(steps) do
    if step.before then step.before() end
    expected[i] = call(fn, step)
  end
  quietly(function()
    fn, steps = make()
    local f = tide.fuse(fn)
    for i, step in ipairs(steps) do
      if step.before then step.before() end
      local got = call(f, step)
      assert.are.equal(expected[i].n, got.n, "call " .. i)
      for k = 1, got.n do equal(expected[i][k], got[k], ("call %d, result %d"):format(i, k - 1), tolerance) end
      f:wait()
    end
  end)
end

describe("a fused function is the function", function()
  D.watch(before_each, after_each)

  local order = { 1, 2, 1, 3, 2, 2, 1 }
  -- fn(x, y, n) for x that is an argument and y that fn makes of it; steps of the numbers.
  local function with_numbers(numbers, fn)
    same(function()
      local x, steps = fill(SIZE), {}
      for i, n in ipairs(numbers) do steps[i] = { x, n } end
      return fn, steps
    end)
  end

  it("where what gave its input first converts it later", function()
    local D3 = { tide.float32, tide.float64, tide.int32 }
    local methods = { "float", "double", "int" }
    local like = { fill { 2 }, fill({ 2 }, "float64"), fill({ 2 }, "int32") }
    local devices = { dev, "cpu", dev }
    for _, fn in ipairs {
      function(x, n) return (x * 2 + 1):to(D3[n]) end,
      function(x, n) local y = x * 2 + 1 local z = y:to(D3[n]) return z * 3 - y, rawequal(y, z) end,
      function(x, n) local z = x:to(D3[n]) return z * 3 - x, rawequal(x, z) end,
      function(x, n) return (x * 2 + 1):type(D3[n]) * 2 end,
      function(x, n) local y = x * 2 + 1 return y[methods[n]](y) + 1 end,
      function(x, n) return (x * 2 + 1):type_as(like[n]) * n end,
      function(x, n) return (x * 2 + 1):to(like[n]) + n end,
      function(x, n) return (x * 2 + 1):to(devices[n]) end,
      function(x, n) return (x * 2 + 1):to(devices[n], D3[n]) end,
      function(x, n) local y = x * 2 + 1 local z = y:to(D3[1], { copy = n > 1 }) return z * 3 - y, rawequal(y, z) end,
      function(x, n) return (x * n + 1):cpu() * n end,
      function(x, n) local y = (x * n + 1):contiguous() return y, y:is_contiguous() end,
      function(x, n) return (n == 1 and x * 2 or (x * 2):view(200, 200):t()):contiguous() * n end,
      function(x, n) return (x * 2 + 1):expand(n, -1) * 2 end,
      function(x, n) return (x * 2 + 1):view(n, -1) * 2 end,
      function(x, n) return (x * 2 + 1):reshape(n * 2, -1):flatten() * 2 end,
      function(x, n) return (x * 2 + 1):narrow(1, n, 5):clone() + n end,
      function(x, n) return (x * 2 + 1):to(D3[n]):to(D3[1]):to(D3[n]) end,
      function(x, n) local y = x * 2 + 1 y:add_(y:to(D3[n])) return y end,
    } do
      with_numbers(order, fn)
    end
  end)

  it("where the default dtype changes", function()
    same(function()
      local x = fill(SIZE, "int32")
      local function dtype(d) return function() tide.set_default_dtype(d) end end
      return function(a) return a / 2 + 1, tide.ones(3) + 1 end,
        { { x }, { x }, { x, before = dtype "float64" }, { x }, { x, before = dtype "float32" }, { x } }
    end)
  end)

  it("where tensors come from the host and from a device", function()
    if not D.cuda then return pending "needs a device" end
    same(function()
      local x = fill(SIZE)
      local host = x:cpu()
      return function(a) return a:cuda() + 1, a:cpu() * 2, a * 3 - 1 end, { { x }, { host }, { x }, { x }, { host }, { host } }
    end)
  end)

  it("where the current device changes", function()
    if D.devices < 2 then return pending "needs two devices" end
    same(function()
      tide.cuda.set_device(0)
      local x = fill(SIZE):to "cuda:0"
      local function device(n) return function() tide.cuda.set_device(n) end end
      return function(a, n) return a:cuda() * 2 + n, (a * n):cuda() + 1, tide.ones(2, { device = "cuda" }) + n end,
        { { x, 1 }, { x, 1 }, { x, 1, before = device(1) }, { x, 2 }, { x, 1, before = device(0) }, { x, 3 } }
    end)
  end)

  it("where a metatable is set later, or another one", function()
    local function later(fn, meta)
      for _, first in ipairs { false, true } do
        same(function()
          local x, t, u, mt = fill(SIZE), { 1, 2 }, { 1, 2 }, {}
          if first then setmetatable(t, mt) end
          local function set()
            if first then for k, v in pairs(meta) do mt[k] = v end else setmetatable(t, meta) end
          end
          local function call_it(a, b) return fn(a, b or t, u) end
          return call_it, { { x }, { x }, { x, before = set }, { x }, { x, t }, { x, t } }
        end)
        same(function() -- as an argument
          local x, t, u = fill(SIZE), { 1, 2 }, { 1, 2 }
          return function(a, b, c) return fn(a, b, c) end,
            { { x, t, u }, { x, t, u }, { x, setmetatable({ 1, 2 }, meta), u }, { x, t, u }, { x, t, t } }
        end)
      end
    end
    later(function(x, t) return x * (t.scale or 1) + 1 end, { __index = { scale = 3 } })
    later(function(x, t) return x * (t.scale or 1) + 1 end, { __index = function() return 5 end })
    later(function(x, t) return x * #t + 1 end, { __len = function() return 7 end })
    later(function(x, t, u) return x * (t == u and 3 or 2) + 1 end, { __eq = function() return true end })
    later(function(x, t, u) return x * (t <= u and 3 or 2) + 1 end, { __le = function() return true end })
    later(function(x, t) return x * t + 1 end, { __mul = function(a) return a + 4 end })
    later(function(x, t) return x * t(2) + 1 end, { __call = function(_, n) return n end })
    later(function(x, t) local n = 0 for _, v in pairs(t) do n = n + v end return x * n + 1 end,
      { __pairs = function() return next, { 30 } end })
    later(function(x, t) return x * tonumber(tostring(t):match "^%d*$" or 2) end, { __tostring = function() return "11" end })
  end)

  it("where strings, numbers, nil or objects get other fields", function()
    local function with(value, fn, set)
      same(function()
        local x = fill(SIZE)
        local function at(n) return function() set(n) end end
        return fn, { { x, value, n = 2 }, { x, value, n = 2 }, { x, value, n = 2, before = at(3) }, { x, value, n = 2 },
          { x, value, n = 2, before = at(nil) }, { x, value, n = 2 }, { x, value, n = 2, before = at(5) },
          { x, value, n = 2, before = at(nil) } }
      end)
    end
    local function basic(value)
      return function(n) debug.setmetatable(value, n and { __index = { scale = n } } or nil) end
    end
    local function scaled(x, v)
      local fine, scale = pcall(function() return v.scale end)
      return x * (fine and scale or 2) + 1
    end
    with(12, scaled, basic(12))
    with(nil, scaled, basic(nil))
    with(true, scaled, basic(true))
    with(print, scaled, basic(print))
    local files = getmetatable(io.stdout).__index
    with(io.stdout, function(x, file) return x * (file.scale or 2) + 1 end, function(n) files.scale = n end)
    local sub = string.sub
    with("23", function(x, s) return x * tonumber(s:sub(1, 1)) + 1 end,
      function(n) string.sub = n and function() return tostring(n) end or sub end)
  end)

  it("where tensors or tables are the same one, or no longer", function()
    same(function()
      local x, y = fill(SIZE), fill(SIZE, "float32", 1)
      return function(a, b) return a * (rawequal(a, b) and 3 or 2) + b end,
        { { x, y }, { x, y }, { x, x }, { y, y }, { x, y }, { y, x }, { x, x } }
    end)
    same(function()
      local x, y = fill(SIZE), fill(SIZE, "float32", 1)
      local function by_key(a, b)
        local t = {}
        t[a] = 2
        t[b] = 3
        return a * t[a] + b * t[b]
      end
      return by_key, { { x, y }, { x, y }, { x, x }, { y, y }, { x, y } }
    end)
    same(function()
      local x, y = fill(SIZE), fill(SIZE, "float32", 1)
      local weights = { [x] = 2, [y] = 3 }
      return function(a) return a * weights[a] + 1 end,
        { { x }, { y }, { x }, { x, before = function() weights[x] = 7 end }, { y }, { x, before = function() weights[x] = nil end } }
    end)
    same(function()
      local x, t, u = fill(SIZE), { 1 }, { 1 }
      return function(a, p, q) return a * (p == q and 3 or 2) + (p == t and 1 or 4) + (rawequal(q, u) and 8 or 16) end,
        { { x, t, u }, { x, t, u }, { x, u, u }, { x, u, t }, { x, t, t }, { x, { 1 }, u }, { x, { 1 }, { 1 } }, { x, t, u } }
    end)
    same(function()
      local x, t, u = fill(SIZE), { 1 }, { 1 }
      return function(a, p) return a * (p.left == p.right and 3 or 2) + (p.left == p and 1 or 4) end,
        { { x, { left = t, right = u } }, { x, { left = t, right = u } }, { x, { left = t, right = t } }, { x, { left = t, right = u } } }
    end)
    same(function()
      local x, t, u = fill(SIZE), { 1 }, { 1 }
      return function(a, p) return a * 2 + 1, tostring(p) == tostring(t) end, { { x, t }, { x, t }, { x, u }, { x, t } }
    end)
  end)

  it("where fields come in another order", function()
    local function keys(t)
      local list = {}
      for k in pairs(t) do list[#list + 1] = k end
      return list
    end
    -- Tables with the same fields, whose order depends on what they had before.
    local a, b = { k1 = 1, k2 = 2, k3 = 3, k4 = 4 }, nil
    for more = 1, 200 do
      b = {}
      for i = 1, more do b["y" .. i] = i end
      for i = 4, 1, -1 do b["k" .. i] = i end
      for i = 1, more do b["y" .. i] = nil end
      if table.concat(keys(a)) ~= table.concat(keys(b)) then break end
    end
    assert.are_not.same(keys(a), keys(b))
    same(function()
      local x = fill(SIZE)
      local function chain(y, t)
        for _, v in pairs(t) do y = y * 0.5 + v end
        return y
      end
      return chain, { { x, a }, { x, a }, { x, b }, { x, a }, { x, b } }
    end)
  end)

  -- A call with tensors whose sizes and strides are those of the call before last, or of none before.
  it("where sizes and strides alternate", function()
    local function layouts(n, m)
      local x = fill { n, m }
      return {
        x, fill { 1, m }, fill { n, 1 }, fill { m, n }:t(), fill { n, 2 * m }[{ {}, { 1, m } }], fill { 1, m }:expand(n, m),
        fill { n, 1 }:expand(n, m), fill { 1, 1 }:expand(n, m), fill { 2 * n, m }:slice(1, 1, 2 * n, 2), fill { 1, 1 },
      }
    end
    local kinds = {}
    for _, set in ipairs { layouts(6, 8), layouts(40, 300), layouts(3, 17000), layouts(7, 1), layouts(1, 8) } do
      for k = 1, #set do kinds[#kinds + 1] = { set[k], set[k * 3 % #set + 1], set[1] } end
    end
    for n, fn in ipairs {
      function(a, b) return (a * 2 + b) * a - b end,
      function(a, b, c) return a * b + c, c * 2 - a end,
      function(a, b, c) return (a * b):sum(-1) + c:sum(-1), (c + 1):sum() end,
      function(a, b, c) local y = a * b + c return (y - y:mean(-1, { keepdim = true })) * 2, y:amax(1) end,
      function(a, b, c) c = c * 1 c:add_(a * b) return c + a end,
      function(a, b) local c = a:contiguous() return c + 1, c:view(-1) * 2, a:stride(1), b:is_contiguous() end,
    } do
      for k = (n - 1) % D.every + 1, #kinds, D.every do
        local one, other = kinds[k], kinds[k * 7 % #kinds + 1]
        local swapped = { other[2], other[1], other[3] }
        same(function() return fn, { one, other, one, swapped, one, other, swapped, other } end, 1e-3)
      end
    end
  end)

  it("where a weak table has lost what it had", function()
    local function collect()
      collectgarbage() collectgarbage()
    end
    same(function()
      local x, weak, keep = fill(SIZE), setmetatable({}, { __mode = "v" }), { scale = 3 }
      weak.held = keep
      local function drop()
        keep = nil
        collect()
      end
      return function(a) return a * (weak.held and weak.held.scale or 1) + 1 end, { { x }, { x }, { x, before = drop }, { x } }
    end)
    same(function() -- inside an argument, and with objects as keys
      local x, keep = fill(SIZE), { scale = 3 }
      local o = { t = setmetatable({}, { __mode = "k" }), { setmetatable({ keep }, { __mode = "kv" }) } }
      o.t[keep] = true
      local function drop()
        keep = nil
        collect()
      end
      return function(a, p) return a * (p[1][1][1] and 2 or 1) + (next(p.t) and 3 or 4) end,
        { { x, o }, { x, o }, { x, o, before = drop }, { x, o } }
    end)
  end)
end)
