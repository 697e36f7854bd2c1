-- More elements than 32 bits count: 2^32 + 3 bytes on a GPU that has the memory, through each kind of operation. What an
-- offset in 32 bits would do is wrong at the last places only, so those are what is looked at.

local tide = require "tide"
local D = require "spec.support.device"

local n = (1 << 32) + 3
local gib = 1 << 30

-- Runs where a real GPU has that many GiB free beside what the tensors take.
local function with(needed, what, body)
  it(what, function()
    if not D.cuda or D.simulated then return pending "needs a GPU" end
    collectgarbage()
    tide.cuda.empty_cache()
    if tide.cuda.mem_get_info() < needed * gib then return pending(("needs %d GiB on the GPU"):format(needed)) end
    body()
    collectgarbage()
    tide.cuda.empty_cache()
  end)
end

local int8 = { dtype = "int8", device = D.dev }

-- 0 but for a 3 in the first place, 5 in place 2^31, -7 in place 2^32 + 1 and 9 in the last.
local places = { 1, 1 << 31, (1 << 32) + 1, n }
local marks = { 3, 5, -7, 9 }
local function marked()
  local x = tide.zeros(n, int8)
  for i, at in ipairs(places) do x[at] = marks[i] end
  return x
end
local function at_places(x)
  local list = {}
  for i, at in ipairs(places) do list[i] = x[at]:item() end
  return list
end

describe("a tensor of 2^32 + 3 bytes", function()
  D.watch(before_each, after_each)

  with(30, "is read and written by elementwise operations", function()
    local x = marked()
    assert.are.same(marks, at_places(x))
    local y = x * 2 + 1
    assert.are.same({ 7, 11, -13, 19 }, at_places(y))
    assert.are.equal(1, y[n - 1]:item())
    y:sub_(x)
    assert.are.same({ 4, 6, -6, 10 }, at_places(y))
    assert.are.same({ false, false, true, false }, at_places(x:lt(0)))
    assert.are.same({ 3, 5, 0, 9 }, at_places(tide.where(x:lt(0), 0, x):to("int8")))
  end)

  with(20, "is reduced", function()
    local x = marked()
    assert.are.equal(10, x:sum():item())
    assert.are.equal(9, x:max():item())
    assert.are.equal(-7, x:min():item())
    assert.are.equal(n, x:argmax():item())
    assert.are.equal((1 << 32) + 1, x:argmin():item())
    assert.are.equal(4, x:count_nonzero():item())
    assert.are.equal(1, x:narrow(1, 1, n - 1):view(3, -1):sum(2):sum():item())
    local odd = x:narrow(1, 2, n - 1):view(2, -1):sum(1)
    assert.are.equal(7, odd:sum():item())
  end)

  with(60, "is scanned", function()
    local x = marked()
    local sums = x:cumsum(1, { dtype = "int16" })
    assert.are.same({ 3, 8, 1, 10 }, at_places(sums))
    assert.are.equal(3, sums[(1 << 31) - 1]:item())
    sums = nil
    local values, indices = x:cummax(1)
    assert.are.same({ 3, 5, 5, 9 }, at_places(values))
    assert.are.same({ 1, 1 << 31, 1 << 31, n }, at_places(indices))
  end)

  with(110, "is sorted", function()
    local values, indices = marked():sort(1)
    assert.are.equal(-7, values[1]:item())
    assert.are.equal((1 << 32) + 1, indices[1]:item())
    assert.are.same({ 0, 3, 5, 9 }, values:narrow(1, n - 3, 4):totable())
    assert.are.same({ 1, 1 << 31, n }, indices:narrow(1, n - 2, 3):totable())
  end)

  with(60, "has different elements: of 2^30 integers, a range of 2^32", function()
    local x, last = tide.zeros(1 << 30, { dtype = "int32", device = D.dev }), (1 << 31) - 1
    x[1], x[1 << 30] = last, -last
    assert.are.same({ -last, 0, last }, x:unique():totable())
  end)

  with(30, "is indexed", function()
    local x = marked()
    local at = tide.tensor(places, { dtype = "int64", device = D.dev })
    assert.are.same(marks, x[at]:totable())
    assert.are.same(marks, x:index_select(1, at):totable())
    assert.are.same(marks, x:gather(1, at):totable())
    x:index_fill_(1, at, 11)
    assert.are.same({ 11, 11, 11, 11 }, at_places(x))
    x:scatter_(1, at, tide.tensor({ 1, 2, 3, 4 }, int8))
    assert.are.same({ 1, 2, 3, 4 }, at_places(x))
    x:index_add_(1, at, tide.tensor({ 1, 1, 1, 1 }, int8))
    assert.are.same({ 2, 3, 4, 5 }, at_places(x))
    assert.are.same({ 2, 3, 4, 5 }, x:masked_select(x:ne(0)):totable())
    assert.are.same(places, x:nonzero():view(-1):totable())
  end)

  with(40, "is copied", function()
    local x = marked()
    assert.are.same(marks, at_places(x:clone()))
    assert.are.same(marks, at_places(x:to("int16")))
    local back = x:flip(1)
    assert.are.equal(9, back[1]:item())
    assert.are.equal(-7, back[3]:item())
    assert.are.equal(5, back[n + 1 - places[2]]:item())
    assert.are.equal(3, back[n]:item())
    back = nil
    local turned = x:narrow(1, 1, n - 1):view(2, -1):t():contiguous()
    assert.are.equal(-7, turned:view(-1)[2 * (places[3] - (n - 1) // 2)]:item())
    local tail = x:narrow(1, n - 9, 10):cpu()
    assert.are.same({ 0, 0, 0, 0, 0, 0, 0, -7, 0, 9 }, tail:totable())
  end)
end)
