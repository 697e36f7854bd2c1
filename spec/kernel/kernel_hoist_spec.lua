-- Loops whose bounds a tensor or a number gives: tests of the elements they read are asked once before them (kernel_hoist.lua), and
-- what they compute and refuse is what plain Lua does, whatever the bounds are.

local tide = require "tide"
local D = require "spec.support.device"
if not D.compiler then return pending "kernels are compiled: needs a compiler" end
local most, least = math.maxinteger, math.mininteger

local bodies = {
  sum = function(i, x, y, at)
    local all = 0
    for k = at[i][1], at[i][2] do all = all + x[k] end
    y[i] = all
  end,
  neighbours = function(i, x, y, at)
    local all = 0
    for k = at[i][1], at[i][2] do
      if k % 3 == 0 then goto next end
      if all > 40 then break end
      all = all + x[k + 2] * x[k - 1] + y[i]
      ::next::
    end
    y[i] = all
  end,
  down = function(i, x, y, at)
    for k = at[i][2], at[i][1], -2 do
      y[i] = y[i] * 3 + x[k]
      x[k] = x[k] + 1
    end
  end,
  up_by_three = function(i, x, y, at)
    for k = at[i][1], at[i][2], 3 do y[i] = y[i] + x[k] * k end
  end,
  a_function_that_returns = function(i, x, y, at)
    local function first_above(limit)
      for k = at[i][1], at[i][2] do
        if x[k] > limit then return k end
      end
      return -1
    end
    y[i] = first_above(4) + 100 * first_above(7)
  end,
  nested = function(i, x, y, at)
    for row = 1, 2 do
      for k = at[i][1], at[i][2] do y[i] = y[i] + x[k] * row end
    end
  end,
}

-- All stay inside of ten elements, with a margin of three, or have no turn.
local inside = { { 4, 7 }, { 4, 4 }, { 5, 4 }, { 9, 2 }, { most, least }, { most, most - 1 }, { 0, least } }
local outside = { { -1, 5 }, { 8, 13 }, { -5, 20 }, { most - 3, most }, { least, least + 2 }, { most, most } }

local function tensors(bounds)
  local on = { device = D.dev, dtype = "int64" }
  return tide.tensor({ 3, 1, 4, 1, 5, 9, 2, 6, 5, 3 }, on), tide.ones({ 1 }, on), tide.tensor({ bounds }, on)
end

describe("loops of kernels whose bounds are data", function()
  for name, body in pairs(bodies) do
    it(name .. " gives what plain Lua does", function()
      local k = tide.kernel(body)
      for compiled = 0, 1 do
        for _, bounds in ipairs(inside) do
          local x, y, at = tensors(bounds)
          local x2, y2 = x:clone(), y:clone()
          k(1, x, y, at)
          tide.kernel.interpret(body, 1, x2, y2, at)
          assert.are.same({ x2:totable(), y2:totable() }, { x:totable(), y:totable() })
        end
        for _, bounds in ipairs(outside) do
          local x, y, at = tensors(bounds)
          local e = D.raises("IndexError", function()
            k(1, x, y, at)
            y:item()
          end)
          local oracle = D.raises("IndexError", tide.kernel.interpret, body, 1, tensors(bounds))
          local function index_of(message) return message:match "got (%-?%d+), expected 1 to 10" end
          assert.is_truthy(index_of(e.message), e.message)
          if name ~= "neighbours" then assert.are.equal(index_of(oracle.message), index_of(e.message)) end -- C says no order there
        end
        if compiled == 0 then k:wait() end
      end
    end)
  end

  it("know what a condition says of their variable", function()
    local steps = { 2, 3, 5, 7 }
    local function guarded(i, x, y)
      local all = 0
      for k = 1, 5 do
        if k > 1 then all = all + steps[k - 1] * x[k - 1] end
        if k <= 4 then all = all + steps[k] end
        if k >= 2 and i > 0 then all = all + steps[6 - k] end
        if k < 5 then all = all * 2 else all = all + x[k + i] end
      end
      y[i] = all
    end
    local function too_far(i, x, y)
      for k = 1, 5 do
        if k >= i then y[1] = y[1] + steps[k - 1] end
      end
    end
    for name, body in pairs { guarded = guarded, too_far = too_far } do
      local k = tide.kernel(body)
      for compiled = 0, 1 do
        local x, y = tensors { 1, 1 }
        local x2, y2 = x:clone(), y:clone()
        if name == "guarded" then
          k(1, x, y)
          tide.kernel.interpret(body, 1, x2, y2)
          assert.are.same(y2:totable(), y:totable())
        else
          D.raises("IndexError", function()
            k(1, x, y)
            y:item()
          end)
        end
        if compiled == 0 then k:wait() end
      end
    end
  end)

  it("test nothing in a turn where both bounds lie inside", function()
    local k = tide.kernel(bodies.sum)
    k(1, tensors(inside[1]))
    for _, device in ipairs { "cuda", "cpu" } do
      local quick, slow = k:source(device):match "first <= last.-{(.-)} else {(.-)\n}"
      assert.is_nil(quick:find("tk_load1", 1, true))
      assert.is_truthy(slow:find("tk_load1", 1, true))
    end
  end)

  it("lets a thread of a GPU do several places that compute little, reading for all before it writes", function()
    local x, y = D.tensor({ 1, 2, 3, 4 }, "float32"), D.tensor({ 0, 0, 0, 0 }, "float32")
    local function places(fn)
      local k = tide.kernel(fn)
      k(4, x, y)
      return tonumber(k:source("cuda"):match "round < (%d+)")
    end
    assert.are.equal(4, places(function(i, x, y) y[i] = x[i] end))
    assert.are.equal(4, places(function(i, x, y) y[i] = x[i] > 2 and x[i] or -y[i] end))
    assert.are.equal(4, places(function(i, x, _) return x[i] + 1 end))
    D.eq({ -1, -2, 3, 4 }, y) -- by the first and the second
    assert.is_nil(places(function(i, x, y) for k = 1, #x do y[i] = y[i] + x[k] end end))
    assert.is_nil(places(function(i, x, y) tide.atomic.add(y, 1, x[i]) end))
    assert.is_nil(places(function(i, x, y) y[i] = x[i]; x[i] = y[i] end)) -- reads behind what it writes
    assert.is_nil(places(function(i, x, y) if x[i] > 2 then y[i] = x[i] end end))
    assert.is_nil(places(function(i, x, y) y[math.floor(x[i])] = x[i] end))
  end)

  it("compares on a GPU where an index wraps around once, and writes out short loops", function()
    local around = tide.kernel(function(i, j, x, y)
      local n, all = #x, 0
      for di = -1, 1 do
        for dj = -1, 1 do if x[(i + di - 1) % n + 1][(j + dj - 1) % n + 1] > 0 then all = all + 1 end end
      end
      y[i][j] = all
    end)
    local x, y = D.tensor({ { 1, 0, 0 }, { 0, 0, 0 }, { 0, 1, 1 } }, "float32"), D.tensor({ { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 } }, "float32")
    around({ 3, 3 }, x, y)
    D.eq({ { 3, 3, 3 }, { 3, 3, 3 }, { 3, 3, 3 } }, y)
    local text = around:source "cuda"
    local slow = text:find("}\nif (fast) {", 1, true)
    local pragma = text:find("#pragma unroll 1", 1, true)
    assert.is_truthy(text:find("if (fast & near) {", 1, true) and slow and pragma > slow)
    assert.is_truthy(text:find("tk_wrap(", 1, true) < slow and text:find("int v1 = 0;", 1, true))
  end)
end)
