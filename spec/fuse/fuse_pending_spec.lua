-- Pending values of fused functions: who needs them, and what writes to what they read.

local tide = require "tide"
local D = require "spec.support.device"
local dev, ipairs, pcall, collectgarbage, coroutine, tostring = D.dev, ipairs, pcall, collectgarbage, coroutine, tostring

local fill = require("spec.support.fused").fill

-- The value that a fused function has kept, and not returned.
local function keep(fn, ...)
  local kept
  tide.fuse(function(...) kept = fn(...) end)(...)
  return kept
end

describe("a pending value", function()
  D.watch(before_each, after_each)

  it("is computed before its input is written, whatever writes", function()
    local y, mask, index = fill({ 6, 5 }, "float32", 1), fill({ 6, 5 }):gt(0), tide.tensor({ 1, 3 }, { device = dev })
    local double = tide.kernel "function(i, j, x) x[i][j] = x[i][j] * 2 end"
    for i, write in ipairs {
      function(x) x:add_(1) end, function(x) x:mul_(y) end, function(x) x:exp_() end, function(x) x:fill_(3) end,
      function(x) x:zero_() end, function(x) x:copy_(y) end, function(x) x:copy_(y:to "cpu") end,
      function(x) x:clamp_(-1, 1) end, function(x) tide.add(y, 1, { out = x }) end, function(x) tide.where(mask, y, x, { out = x }) end,
      function(x) tide.matmul(y, fill { 5, 5 }, { out = x }) end, function(x) tide.cumsum(x, 1, { out = x }) end,
      function(x) tide.sort(y, 2, { out = { x, tide.zeros(6, 5, { dtype = "int64", device = dev }) } }) end,
      function(x) tide.sum(y, 1, { keepdim = true, out = x:narrow(1, 2, 1) }) end,
      function(x) x:uniform_() end, function(x) x:normal_() end, function(x) x:bernoulli_(0.5) end, function(x) x:random_(0, 5) end,
      function(x) x[1] = 9 end, function(x) x[mask] = 2 end, function(x) x[index] = 7 end, function(x) x[{ 2, { 2, 3 } }] = 1 end,
      function(x) x:index_add_(1, index, tide.ones(2, 5, { device = dev })) end, function(x) x:masked_fill_(mask, 4) end,
      function(x) x:scatter_(1, tide.ones(1, 5, { dtype = "int64", device = dev }), y) end,
      function(x) x:view(-1):put_(index, tide.ones(2, { device = dev })) end, function(x) x:t():mul_(3) end,
      function(x) x[2]:neg_() end, function(x) x:masked_scatter_(mask, y) end, function(x) double({ 6, 5 }, x) end,
      function(x) x:storage() x:view(-1)[3] = 8 end, function(x) tide.fuse(function(a) a:sub_(3):mul_(2) end)(x) end,
      function(x) x:index_fill_(1, index, 0) end, function(x) tide.cat({ y[{ { 1, 3 } }], y[{ { 1, 3 } }] }, 1, { out = x }) end,
    } do
      local x = fill { 6, 5 }
      local want, after = x * 3 + 1, x:clone()
      local kept = keep(function(a) return a * 3 + 1 end, x)
      tide.manual_seed(i)
      write(x)
      D.eq(want, kept, 1e-6, "write " .. i)
      tide.manual_seed(i)
      write(after)
      D.eq(after, x, 1e-6, "written " .. i)
    end
  end)

  it("is what anybody reads", function()
    local x = fill { 4, 5 }
    local want = x * 2 + 1
    for i, read in ipairs {
      function(v) return v end, function(v) return v:clone() end, function(v) return v:t():t() end,
      function(v) return tide.tensor(v:tolist(), { device = dev }) end, function(v) return v:view(20):view(4, 5) end,
      function(v) return tide.cat({ v[{ { 1, 2 } }], v[{ { 3, 4 } }] }, 1) end, function(v) return v:contiguous() end,
      function(v) return v:to "float64":float() end, function(v) return tide.stack { v }[1] end, function(v) return v:matmul(tide.eye(5, { device = dev })) end,
      function(v) return v:to("cpu"):to(dev) end, function(v) local o = tide.zeros(4, 5, { device = dev }) o:copy_(v) return o end,
      function(v) return v:unsqueeze(1):expand(2, 4, 5)[2] end,
    } do
      D.eq(want, read(keep(function(a) return a * 2 + 1 end, x)), 1e-6, "read " .. i)
    end
    local shown = tostring(want)
    assert.are.equal(shown, tostring(keep(function(a) return a * 2 + 1 end, x)))
    assert.are.equal(want[1][1]:item(), keep(function(a) return a * 2 + 1 end, x)[1][1]:item())
    assert.is_true(tide.equal(want, keep(function(a) return a * 2 + 1 end, x)))
  end)

  it("knows its shape, dtype and device without its values", function()
    local x = fill { 4, 5 }
    local v = keep(function(a) return (a:t() * 2):gt(1) end, x)
    assert.are.same({ 5, 4 }, v:size())
    assert.are.equal(tide.bool, v.dtype)
    assert.are.equal(x.device, v.device)
    assert.are.equal(1, v:stride(1))
    D.eq((x:t() * 2):gt(1), v)
  end)

  it("is written in place, and replaced by what is written", function()
    local x = fill { 8 }
    local function fn(a)
      local h = a * 2
      local before = h + 1
      h:add_(3):relu_()
      h[2] = 50
      local after = h * 1
      h:zero_()
      return before, after, h
    end
    local want, got = { fn(x) }, { tide.fuse(fn)(x) }
    for i = 1, 3 do D.eq(want[i], got[i], 1e-6, "result " .. i) end
  end)

  it("outlives its inputs, the function and the coroutine", function()
    local x = fill { 30 }
    local want, kept = x * 5 - 1, nil
    do
      local own, f = x:clone(), nil
      f = tide.fuse(function(a) kept = a * 5 - 1 error "ends here" end)
      local co = coroutine.create(function() return f(own) end)
      assert.is_false((coroutine.resume(co)))
      own:free()
    end
    collectgarbage() collectgarbage()
    D.eq(want, kept, 1e-6)
    -- After an error, and beside a function that has yielded, operations outside compute at once.
    local outside = x + 1
    D.eq(fill { 30 } + 1, outside)
    local yielding = coroutine.wrap(function() return tide.fuse(function(a) coroutine.yield(a * 2) return a * 3 end)(x) end)
    local y = yielding()
    x:add_(1)
    D.eq((x - 1) * 2, y, 1e-6)
    D.eq(x * 3, yielding(), 1e-6)
  end)

  it("is the default dtype's of when it was made, and takes long chains and many results", function()
    local i = fill({ 8 }, "int32", 2)
    local v = keep(function(a) return a / 3 end, i)
    tide.set_default_dtype "float64"
    assert.are.equal(tide.float32, v.dtype)
    D.eq((i:float() / 3), v, 1e-6)
    tide.set_default_dtype "float32"
    local function chain(a) for k = 1, 300 do a = a * 0.5 + k % 3 end return a end
    D.eq(chain(fill { 50 }), tide.fuse(chain)(fill { 50 }), 1e-5)
    local function many(a) local r = { a } for k = 2, 30 do r[k] = a * k + r[k - 1] end return r end
    local want, got = many(fill { 9 }), tide.fuse(many)(fill { 9 })
    for k = 1, 30 do D.eq(want[k], got[k], 1e-4, "result " .. k) end
    local function tree(a, from, n) -- of more nodes than 16 bits count with an operand
      if n == 1 then return a * (from % 7) end
      return tree(a, from, n // 2) + tree(a, from + n // 2, n - n // 2)
    end
    local leaves, sum = D.tsan and 600 or 6000, 0
    for k = 1, leaves do sum = sum + k % 7 end
    D.eq(fill { 4 } * sum, tide.fuse(function(a) return tree(a, 1, leaves) end)(fill { 4 }), 1e-3)
    local x, list = fill { 3 }, {}
    for k = 1, 14 do list[k] = fill({ 3 }, "float32", k) end
    local function wide(a) for k = 1, 14 do a = a + list[k] * k end return a end
    D.eq(wide(x), tide.fuse(wide)(x), 1e-4)
  end)

  if D.cuda then
    it("is computed on the stream where it was made, before captures and replays", function()
      local x, s = fill { 4096 }, tide.cuda.Stream()
      local want, kept = x * 2 + 1, nil
      s:wait_stream(tide.cuda.current_stream())
      tide.cuda.stream(s, function() kept = keep(function(a) return a * 2 + 1 end, x) end)
      D.eq(want, kept, 1e-6)
      local graph, out = tide.cuda.CUDAGraph(), nil
      local before = keep(function(a) return a * 4 end, x)
      tide.cuda.graph(graph, function() out = x * 3 end)
      D.eq(want * 2 - 2, before, 1e-6)
      graph:replay()
      local of = keep(function(a) return a + 1 end, out)
      local three = x * 3 + 1
      x:fill_(7)
      graph:replay()
      D.eq(three, of, 1e-6)
      D.eq(fill { 4096 } * 0 + 21, out)
    end)

    it("that cannot be computed stays pending", function()
      if not D.simulated then return pending "needs simulated devices" end
      local x = fill { 1 << 20 }
      local kept = keep(function(a) return a * 2 + 1 end, x)
      tide.cuda.set_per_process_memory_fraction(1e-9)
      tide.cuda.empty_cache()
      local ok, said = pcall(function() return kept:clone() end)
      tide.cuda.set_per_process_memory_fraction(1)
      assert.is_false(ok)
      assert.are.equal("OutOfMemoryError", said.kind)
      D.eq((x * 2 + 1)[5], kept[5])
    end)
  end
end)
