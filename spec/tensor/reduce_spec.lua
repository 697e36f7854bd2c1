-- Reductions over any set of dims: values against plain Lua, in adversarial layouts.

local tide = require "tide"
local D = require "spec.support.device"

local nan, inf = 0 / 0, math.huge

-- ---- references over plain lists ----

local function sum(l) local s = 0 for _, v in ipairs(l) do s = s + v end return s end
local function mean(l) return sum(l) / #l end
local function var(l, correction)
  local m, s = mean(l), 0
  for _, v in ipairs(l) do s = s + (v - m) ^ 2 end
  return s / (#l - (correction or 1))
end
local reference = {
  sum = sum,
  nansum = function(l) local s = 0 for _, v in ipairs(l) do if v == v then s = s + v end end return s end,
  mean = mean,
  prod = function(l) local p = 1 for _, v in ipairs(l) do p = p * v end return p end,
  amax = function(l) return math.max(table.unpack(l)) end,
  amin = function(l) return math.min(table.unpack(l)) end,
  var = var,
  std = function(l) return math.sqrt(var(l)) end,
  all = function(l) for _, v in ipairs(l) do if v == 0 or v == false then return false end end return true end,
  any = function(l) for _, v in ipairs(l) do if v ~= 0 and v ~= false then return true end end return false end,
  logsumexp = function(l) local s = 0 for _, v in ipairs(l) do s = s + math.exp(v) end return math.log(s) end,
  count_nonzero = function(l) local n = 0 for _, v in ipairs(l) do if v ~= 0 and v ~= false then n = n + 1 end end return n end,
}

-- The elements of a {2, 3, 4} table, grouped by the dims that are kept: a flat list of lists in row-major order.
local size = { 2, 3, 4 }
local function groups(t, dims)
  local reduced, order, out = {}, {}, {}
  for _, d in ipairs(dims) do reduced[d] = true end
  for i = 1, 2 do
    for j = 1, 3 do
      for k = 1, 4 do
        local at, key = { i, j, k }, ""
        for d = 1, 3 do if not reduced[d] then key = key .. at[d] .. "," end end
        if not out[key] then
          out[key] = {}
          order[#order + 1] = key
        end
        table.insert(out[key], t[i][j][k])
      end
    end
  end
  for n, key in ipairs(order) do order[n] = out[key] end
  return order
end

local subsets = { { 1 }, { 2 }, { 3 }, { 1, 2 }, { 1, 3 }, { 2, 3 }, { 1, 2, 3 } }
local floats = { "float16", "bfloat16", "float32", "float64" }
local numbers = { "uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64" }
local dtypes = { mean = floats, var = floats, std = floats, nansum = floats, logsumexp = floats }

local function data(dtype)
  local t, v = {}, { 3, -1, 2, 0, 5, 1, -2, 4, 1, 1, -3, 2, 2, 0, 1, -1, 4, 2, 1, 3, -2, 1, 5, 2 }
  for i = 1, 2 do
    t[i] = {}
    for j = 1, 3 do
      t[i][j] = {}
      for k = 1, 4 do
        local x = v[(i - 1) * 12 + (j - 1) * 4 + k]
        if dtype == "uint8" then x = math.abs(x) end
        if dtype == "bool" then x = x ~= 0 end
        if D.kind[dtype] == "F" then x = x / 2 end
        t[i][j][k] = x
      end
    end
  end
  return t
end

local function kept(dims)
  local reduced, out = {}, {}
  for _, d in ipairs(dims) do reduced[d] = true end
  for d = 1, 3 do if not reduced[d] then out[#out + 1] = size[d] end end
  return out
end

describe("reductions", function()
  D.watch(before_each, after_each)

  for name, f in pairs(reference) do
    it(name .. " over every set of dims", function()
      for _, dtype in ipairs(dtypes[name] or numbers) do
        local t = data(dtype)
        local x, close = D.tensor(t, dtype), (D.eps[dtype] or 0) * 4
        for _, layout in ipairs(D.layouts(x)) do
          for _, dims in ipairs(subsets) do
            local want = {}
            for n, list in ipairs(groups(t, dims)) do want[n] = f(list) end
            local got = layout[2][name](layout[2], dims)
            assert.are.same(kept(dims), got:size())
            D.eq(want, got:flatten(), close, ("%s %s %s over %d dims from %d"):format(name, dtype, layout[1], #dims, dims[1]))
          end
          local all = {}
          for _, list in ipairs(groups(t, { 1, 2, 3 })) do all = list end
          D.eq(f(all), layout[2][name](layout[2]):item(), close, name .. " of all")
        end
      end
    end)

    it(name .. " keeps dims and counts from the end", function()
      local x = D.tensor(data "float32")
      assert.are.same({ 2, 1, 4 }, x[name](x, 2, { keepdim = true }):size())
      assert.are.same({ 1, 3, 1 }, x[name](x, { 1, -1 }, { keepdim = true }):size())
      D.eq(x[name](x, 3):totable(), x[name](x, -1))
      D.eq(x[name](x, 2):totable(), tide[name](x, 2))
      D.raises("IndexError", x[name], x, 4)
      D.raises("IndexError", x[name], x, 0)
      D.raises("ArgumentError", x[name], x, { 1, 1 })
      D.raises("ArgumentError", x[name], x, 1, { keepdims = true })
    end)
  end

  it("sum and prod of nothing", function()
    local x = tide.empty(0, 3, { device = D.dev })
    D.eq({ 0, 0, 0 }, x:sum(1))
    D.eq({ 1, 1, 1 }, x:prod(1))
    assert.are.equal(0, x:sum():item())
    assert.are.same({ 0 }, x:sum(2):size())
    assert.are.equal(true, x:all():item())
    assert.are.equal(false, x:any():item())
    assert.is_true(x:mean():isnan():item())
    D.raises("ValueError", x.max, x)
    D.raises("ValueError", x.amax, x, 1)
    D.raises("ValueError", x.argmax, x)
    assert.are.same({ 0 }, x:amax(2):size())
  end)

  it("sum takes a dtype and out=", function()
    local x = D.tensor({ 200, 100 }, "uint8")
    assert.are.equal(300, x:sum():item())
    assert.are.equal(44, x:sum({ dtype = tide.uint8 }):item())
    assert.are.equal("float64", D.dtype_name(x:sum({ dtype = tide.float64 })))
    local out = tide.zeros(2, { dtype = "int64", device = D.dev })
    assert.is_true(tide.sum(D.tensor { { 1, 2 }, { 3, 4 } }, 1, { out = out }) == out)
    D.eq({ 4, 6 }, out)
  end)

  it("sum of many float32 is accurate", function()
    local n = 1000000
    local x = tide.full({ n }, 0.1, { dtype = "float32", device = D.dev })
    local each = x[1]:item()
    assert.is_true(math.abs(x:sum():item() / (each * n) - 1) < 1e-6)
    assert.is_true(math.abs(x:mean():item() / each - 1) < 1e-6)
    assert.is_true(math.abs(x:view(1000, 1000):sum(1):max():item() / (each * 1000) - 1) < 1e-6)
  end)

  it("max and min over a dim give values and indexes from 1", function()
    local x = D.tensor { { 1., 9., 9. }, { 4., 2., 6. } }
    local values, indices = x:max(2)
    D.eq({ 9, 6 }, values)
    D.eq({ 2, 3 }, indices)
    values, indices = x:min(1, { keepdim = true })
    D.eq({ { 1, 2, 6 } }, values)
    D.eq({ { 1, 2, 2 } }, indices)
    assert.are.equal(9, x:max():item())
    assert.are.equal(1, x:min():item())
    values, indices = x:t():max(1)
    D.eq({ 9, 6 }, values)
    D.eq({ 2, 3 }, indices)
    local low, high = x:aminmax()
    assert.are.equal(1, low:item())
    assert.are.equal(9, high:item())
  end)

  it("argmax and argmin take the first of equals", function()
    local x = D.tensor { { 1, 9, 9 }, { 4, 1, 6 } }
    assert.are.equal(2, x:argmax():item())
    assert.are.equal(1, x:argmin():item())
    D.eq({ 2, 3 }, x:argmax(2))
    D.eq({ 1, 2, 2 }, x:argmin(1))
    D.eq({ { 2 }, { 3 } }, x:argmax(2, { keepdim = true }))
    assert.are.equal(3, x:t():argmax():item()) -- row-major in the transposed tensor
    for _, layout in ipairs(D.layouts(x)) do
      D.eq({ 2, 3 }, layout[2]:argmax(-1), 0, layout[1])
      assert.are.equal(2, layout[2]:argmax():item())
    end
    local n = 100000
    local big = tide.zeros(n, { device = D.dev })
    big[77777] = 1
    big[77778] = 1
    assert.are.equal(77777, big:argmax():item())
  end)

  it("NaN wins in max, min, argmax, argmin and is skipped by nansum", function()
    local x = D.tensor { 1., nan, 3. }
    D.eq(nan, x:max():item())
    D.eq(nan, x:min():item())
    D.eq(nan, x:amax(1):item())
    assert.are.equal(2, x:argmax():item())
    assert.are.equal(2, x:argmin():item())
    assert.are.equal(4, x:nansum():item())
    D.eq(nan, x:sum():item())
    assert.are.equal(inf, D.tensor({ 1., inf }):max():item())
    assert.are.equal(-inf, D.tensor({ -inf, -inf }):max():item())
  end)

  it("var, std, var_mean take a correction", function()
    local l = { 1, 2, 4, 7 }
    local x = D.tensor({ 1., 2., 4., 7. }, "float64")
    D.eq(var(l), x:var():item(), 1e-12)
    D.eq(var(l, 0), x:var({ correction = 0 }):item(), 1e-12)
    D.eq(math.sqrt(var(l, 0)), x:std(1, { correction = 0 }):item(), 1e-12)
    local v, m = x:var_mean()
    D.eq(var(l), v:item(), 1e-12)
    D.eq(mean(l), m:item(), 1e-12)
    D.eq(nan, D.tensor({ 5. }):var():item())
    local far = tide.arange(1000, { dtype = "float32", device = D.dev }) + 1e6
    D.eq(83416.6666, far:var():item(), 1e-3)
  end)

  it("logsumexp neither overflows nor loses infinities and NaN", function()
    local x = D.tensor { { 1000., 1000. }, { -inf, -inf }, { inf, 3. }, { inf, -inf }, { nan, inf }, { -1000., -inf } }
    D.eq({ 1000 + math.log(2), -inf, inf, inf, nan, -1000 }, x:logsumexp(2), 1e-6)
    D.eq({ nan, inf }, x:logsumexp(1))
    assert.are.equal(-inf, D.tensor({}, "float32"):logsumexp():item())
    assert.are.same({ 3, 1 }, tide.empty(3, 0, { device = D.dev }):logsumexp(2, { keepdim = true }):size())
    local whole = D.tensor({ 0, 1, 2 }, "int64"):logsumexp()
    assert.are.equal(tide.float32, whole.dtype)
    D.eq(math.log(1 + math.exp(1) + math.exp(2)), whole:item(), 1e-6)
    D.raises("ArgumentError", x.logsumexp, x, 1, { dtype = "float64" })
  end)

  it("logsumexp and softmax of many short rows, in every layout", function()
    local special = { [3] = inf, [4] = -inf, [5] = nan }
    for _, n in ipairs { 1, 2, 3, 4, 5, 8, 13, 16, 17, 31, 32, 33 } do
      local x = D.tensor(tide.arange(70 * n):reshape(70, n):remainder(7):tolist(), "float32")
      for row, v in pairs(special) do x[row][(row * 5) % n + 1] = v end
      x[6] = -inf
      local wide = tide.full({ 70, n + 3 }, nan, { device = D.dev })
      wide:narrow(2, 2, n):copy_(x)
      for _, rows in ipairs { x, wide:narrow(2, 2, n), x.T:contiguous().T, x:unsqueeze(1):expand(2, 70, n)[2] } do
        local sums, shares, logs = rows:logsumexp(2):tolist(), rows:softmax(2):tolist(), rows:log_softmax(2):tolist()
        for l, line in ipairs(x:tolist()) do
          local sum, what = 0, ("row %d of %d"):format(l, n)
          for _, v in ipairs(line) do sum = sum + math.exp(v) end
          D.eq(math.log(sum), sums[l], 1e-6, what)
          for i, v in ipairs(line) do
            local none = sum == 0 or sum == inf
            D.eq(none and nan or math.exp(v) / sum, shares[l][i], 1e-6, what)
            D.eq(none and nan or v - math.log(sum), logs[l][i], 2e-6, what)
          end
        end
      end
    end
  end)

  it("logsumexp of long rows and of columns", function()
    for _, n in ipairs { 31, 33, 1000, 70001 } do
      local x = tide.arange(n, { device = D.dev, dtype = "float64" }):remainder(7)
      local each = n // 7
      local sum = 0
      for r = 0, 6 do sum = sum + math.exp(r) * (each + (r < n % 7 and 1 or 0)) end
      D.eq(math.log(sum), x:logsumexp():item(), 1e-13)
      local columns = tide.stack({ x, x + 1, x - 2, x }, 2)
      local want = math.log(sum)
      D.eq({ want, want + 1, want - 2, want }, columns:logsumexp(1), 1e-13)
      D.eq({ want, want + 1, want - 2, want }, columns:float():logsumexp(1), 1e-5)
    end
    for _, width in ipairs { 5, 40 } do -- few columns are walked with their neighbours' rows
      local x = tide.zeros(200, width, { device = D.dev })
      x[{ 150, 1 }], x[{ 130, 2 }], x[{ 131, 2 }] = inf, nan, inf
      x:narrow(2, 3, 1):fill_(-inf)
      x:narrow(1, 1, 100):narrow(2, 4, 1):fill_(-inf)
      for dtype, far in pairs { float64 = 1e-13, float32 = 1e-6, bfloat16 = 0.02 } do
        D.eq({ inf, nan, -inf, math.log(100), math.log(200) }, x:to(dtype):logsumexp(1):narrow(1, 1, 5), far, dtype)
      end
    end
  end)

  it("norm of every order", function()
    local x = D.tensor { { 3., -4. }, { 0., 5. } }
    D.eq(math.sqrt(50), x:norm():item(), 1e-6)
    D.eq({ 5, 5 }, x:norm(2, 2), 1e-6)
    D.eq({ 7, 5 }, x:norm(1, 2), 1e-6)
    D.eq({ 4, 5 }, x:norm(inf, 2))
    D.eq({ 3, 0 }, x:norm(-inf, 2))
    D.eq({ 2, 1 }, x:norm(0, 2))
    D.eq((27 + 64 + 125) ^ (1 / 3), x:norm(3):item(), 1e-5)
    assert.are.same({ 2, 1 }, x:norm(2, 2, { keepdim = true }):size())
    D.raises("DtypeError", function() return D.tensor({ 1, 2 }):norm() end)
  end)

  it("over long and odd shapes", function()
    for _, n in ipairs { 1, 31, 32, 33, 1023, 1025, 70000 } do
      local x = tide.range(n, { device = D.dev })
      assert.are.equal(n * (n + 1) // 2, x:sum():item())
      assert.are.equal(n, x:max():item())
      assert.are.equal(n, x:argmax():item())
      local y = x:view(n, 1):expand(n, 3)
      D.eq({ n * (n + 1) // 2, n * (n + 1) // 2, n * (n + 1) // 2 }, y:sum(1))
      D.eq({ n, n, n }, (y:argmax(1)))
    end
  end)

  it("norms of few numbers each, in any layout", function()
    for _, dtype in ipairs { "float32", "float64" } do
      local x = tide.arange(0, 2100, { device = D.dev, dtype = dtype }):view(100, 3, 7)
      for dim = 1, 3 do
        local want = x:square():sum(dim):sqrt()
        assert.is_true(x:norm(2, dim):allclose(want), dtype .. " over dim " .. dim)
        assert.is_true(x:transpose(1, 3):norm(2, dim):allclose(x:transpose(1, 3):square():sum(dim):sqrt()))
      end
      assert.is_true(x:norm(2, 2, { keepdim = true }):allclose(x:norm(2, 2):unsqueeze(2)))
      local large = dtype == "float32" and 1e18 or 1e150 -- whose squares are numbers
      local many = tide.full({ 40, 3 }, large, { device = D.dev, dtype = dtype })
      assert.is_true(many:norm(2, 2):allclose(tide.full({ 40 }, math.sqrt(3) * large, { device = D.dev, dtype = dtype })))
    end
  end)
end)
