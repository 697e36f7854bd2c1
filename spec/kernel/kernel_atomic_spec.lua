-- Kernels that add to a few elements: a part of a CPU's grid adds to elements of its own first (kernel_own.lua).

local tide = require "tide"
local D = require "spec.support.device"
local dev = D.dev
if not D.compiler then return pending "there is no compiler" end

local n = 200003
local function places(of) return tide.arange(n, { device = dev, dtype = "int64" }):mul(7919):remainder(of):add(1) end
local function zeros(size, dtype) return tide.zeros(size, { device = dev, dtype = dtype }) end

-- What each of so many elements is named by how many places, as the function alone counts it.
local function counts(p, of) return tide.bincount(p - 1, nil, of) end

local add = "function(i, p, x, by) tide.atomic.add(x, p[i], by) end"

-- Run by the compiled kernel.
local function run(k, ...)
  k(0, ...)
  k:wait()
  k(n, ...)
end

describe("kernels that add to a few elements", function()
  D.watch(before_each, after_each)

  it("give the sums, in each dtype", function()
    for _, dtype in ipairs { "int32", "int64", "float32", "float64" } do
      for _, of in ipairs { 1, 10, 256, 2048, 2049, 60000 } do
        local p, x = places(of), zeros(of, dtype)
        run(tide.kernel(add), p, x, 3)
        D.eq(counts(p, of) * 3, x:to "int64", 0, dtype .. " " .. of)
      end
    end
    local p, x = places(10), tide.full({ 10 }, -5, { device = dev, dtype = "int32" })
    run(tide.kernel "function(i, p, x) tide.atomic.sub(x, p[i], 2) end", p, x)
    D.eq(counts(p, 10) * -2 - 5, x:to "int64")
    local wraps = tide.full({ 1 }, 2147483647, { device = dev, dtype = "int32" })
    run(tide.kernel(add), places(1), wraps, 1)
    D.eq({ -2147483648 + n - 1 }, wraps)
  end)

  it("give them in views, in several tensors, of several dimensions", function()
    local p, wide = places(6), zeros({ 6, 2 }, "int32")
    run(tide.kernel(add), p, wide:select(2, 1), 1)
    D.eq(counts(p, 6), wide:select(2, 1):to "int64")
    D.eq(0, wide:select(2, 2):sum())
    local x, y, z, m = zeros(6, "int32"), zeros(6, "float32"), zeros(6, "int64"), zeros({ 3, 2 }, "int32")
    run(tide.kernel [[function(i, p, x, y, z, m)
      local at = p[i]
      tide.atomic.add(x, at, 1)
      tide.atomic.add(y, at, 0.5)
      tide.atomic.sub(z, 7 - at, 1)
      if at > 2 then tide.atomic.add(m, { (at + 1) // 2, (at + 1) % 2 + 1 }, 2) end
    end]], p, x, y, z, m)
    D.eq(counts(p, 6), x:to "int64")
    D.eq(counts(p, 6) / 2, y)
    D.eq(-counts(p, 6):flip(1), z)
    local expected = counts(p, 6):view(3, 2) * 2
    expected[1] = 0
    D.eq(expected, m:to "int64")
  end)

  it("have loops that are written twice", function()
    local p, x, sums = places(5), zeros(5, "int64"), zeros(4, "int32")
    run(tide.kernel [[function(i, p, w, x, sums)
      local s = 0
      for k = 1, #w do
        if w[k] > 2 then goto next end
        s = s + w[k]
        tide.atomic.add(sums, k, 1)
        ::next::
      end
      tide.atomic.add(x, p[i], s)
    end]], p, tide.tensor({ 1, 2, 3, 1 }, { device = dev }), x, sums)
    D.eq(counts(p, 5) * 4, x)
    D.eq({ n, n, 0, n }, sums)
  end)

  it("see what they have added where they read it", function()
    local p = places(5)
    local x, low = zeros(5, "int64"), zeros(5, "int64")
    run(tide.kernel "function(i, p, x, low) tide.atomic.add(x, p[i], 1); if x[p[i]] < 1 then tide.atomic.add(low, 1, 1) end end", p, x, low)
    D.eq(counts(p, 5), x)
    D.eq(0, low:sum())
    local seen, old = zeros(5, "int64"), zeros(5, "int64") -- the same memory under another name
    run(tide.kernel "function(i, p, x, again, low) tide.atomic.add(x, p[i], 1); if again[p[i]] < 1 then tide.atomic.add(low, 1, 1) end end",
      p, seen, seen:view(5), old)
    D.eq(counts(p, 5), seen)
    D.eq(0, old:sum())
    local most, last = zeros(1, "int64"), zeros(1, "int64")
    run(tide.kernel "function(i, x, most) local was = tide.atomic.add(x, 1, 1); tide.atomic.max(most, 1, was) end", last, most)
    D.eq({ n }, last)
    D.eq({ n - 1 }, most)
  end)

  -- Each step by itself: the first call is interpreted, the second one compiled.
  it("do each operation as plain Lua does", function()
    local steps = {
      add = function(a, b) return a + b end, sub = function(a, b) return a - b end,
      min = math.min, max = math.max, exchange = function(_, b) return b end,
      band = function(a, b) return a & b end, bor = function(a, b) return a | b end, bxor = function(a, b) return a ~ b end,
    }
    local from, by = { 12, -7, 5, 0, 2147483647, -1 }, { 10, 3, -5, -1, 1, 12 }
    local real, whole = { "add", "sub", "min", "max", "exchange" }, { "add", "sub", "min", "max", "exchange", "band", "bor", "bxor" }
    for dtype, names in pairs { int32 = whole, int64 = whole, float32 = real, float64 = real } do
      local lines, expected, before = {}, {}, {}
      for r, name in ipairs(names) do
        lines[r] = ("old[{%d, i}] = tide.atomic.%s(x, {%d, i}, by[i])"):format(r, name, r)
        expected[r], before[r] = {}, from
        for i = 1, #from do expected[r][i] = steps[name](from[i], by[i]) end
      end
      if dtype == "int32" then expected[1][5] = -2147483648 end
      local k = tide.kernel("function(i, x, by, old) " .. table.concat(lines, " ") .. " end")
      for round = 1, 2 do
        local x, old = D.tensor(before, dtype), tide.zeros({ #names, #from }, { device = dev, dtype = dtype })
        k(#from, x, D.tensor(by, dtype), old)
        D.eq(D.tensor(expected, dtype), x, 0, dtype .. " " .. round)
        D.eq(D.tensor(before, dtype), old, 0, dtype .. " " .. round)
        k:wait()
      end
    end
    local k = tide.kernel "function(i, x, old, new, was) was[i] = tide.atomic.cas(x, i, old[i], new[i]) end"
    for _ = 1, 2 do
      local x, was = D.tensor({ 1, 2, 3 }, "int64"), zeros(3, "int64")
      k(3, x, D.tensor({ 1, 9, 3 }, "int64"), D.tensor({ 7, 8, -9 }, "int64"), was)
      D.eq({ 7, 2, -9 }, x)
      D.eq({ 1, 2, 3 }, was)
      k:wait()
    end
  end)

  it("compare and swap with what each place expects, or one value, and put what each place has, or one value", function()
    for dtype, from in pairs { int32 = { 5, 2, -3, 5, 0, 2 }, int64 = { 5, 2, -3, 5, 0, 1 << 40 } } do
      local ways = { old = { 5, 9, -3, 4, 0, from[6] }, one_old = { 5, 5, 5, 5, 5, 5 } }
      for expects, old in pairs(ways) do
        for _, puts in ipairs { "new[i]", "7" } do
          local expected = {}
          for i, v in ipairs(from) do expected[i] = v ~= old[i] and v or puts == "7" and 7 or 10 * i end
          local k = tide.kernel(("function(i, x, old, new, was) was[i] = tide.atomic.cas(x, i, %s, %s) end"):format(
            expects == "old" and "old[i]" or "5", puts))
          for round = 1, 2 do -- interpreted, compiled
            local x, was = D.tensor(from, dtype), zeros(6, dtype)
            k(6, x, D.tensor(old, dtype), D.tensor({ 10, 20, 30, 40, 50, 60 }, dtype), was)
            D.eq(expected, x, 0, ("%s, %s, %s, round %d"):format(dtype, expects, puts, round))
            D.eq(from, was)
            k:wait()
          end
        end
      end
    end
  end)

  it("name an index outside, and have added the others or not", function()
    local p, x = places(5), zeros(4, "int32")
    local k = tide.kernel(add)
    k(0, p, x, 1)
    k:wait()
    D.raises("IndexError", function()
      k(n, p, x, 1)
      return x:sum():item()
    end)
  end)
end)
