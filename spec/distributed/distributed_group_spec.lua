-- Groups of ranks, and which message is whose. Alone it runs as a group of one; CI also starts it with mpirun on 2, 3 and 4
-- ranks: all ranks run the same cases in the same order.

local tide = require "tide"
local D = require "spec.support.device"
local dist = require "spec.support.ranks"

local rank, size = dist.get_rank(), dist.get_world_size()
local here = { device = D.dev }

local function filled(n, value) return tide.full({ n }, value, { device = D.dev, dtype = tide.float32 }) end
local function values(x) return x:to("cpu"):totable() end
local function raises(pattern, f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok)
  assert.truthy(tostring(e):find(pattern), tostring(e))
end

describe("distributed: groups", function()
  it("have ranks in the order given", function()
    local order = {}
    for r = size - 1, 0, -1 do order[#order + 1] = r end
    local g = dist.new_group(order)
    assert.are.same(order, dist.get_process_group_ranks(g))
    assert.are.equal(size - 1 - rank, g:rank())
    assert.are.equal(size, g:size())
    local out = tide.zeros(size, here)
    dist.all_gather_into_tensor(out, filled(1, rank), { group = g })
    assert.are.same(order, values(out))
  end)

  it("of some ranks work beside each other", function()
    local even, odd = {}, {}
    for r = 0, size - 1 do table.insert(r % 2 == 0 and even or odd, r) end
    local a = dist.new_group(even)
    local b = #odd > 0 and dist.new_group(odd) or false
    assert.are.equal(rank % 2 == 0, a ~= false)
    local mine, ranks = rank % 2 == 0 and a or b, rank % 2 == 0 and even or odd
    local x, sum = filled(3, rank), 0
    for _, r in ipairs(ranks) do sum = sum + r end
    dist.all_reduce(x, { group = mine })
    assert.are.equal(sum, x:max():item())
    x = filled(2, rank)
    dist.broadcast(x, ranks[#ranks], { group = mine })
    assert.are.equal(ranks[#ranks], x:max():item())
    if size > 1 then raises("ranks of the group, counted from 0", dist.broadcast, x, 1 - ranks[1], { group = mine }) end
    if rank % 2 == 1 then raises("not in", dist.all_reduce, x, { group = a }) end
    raises("got " .. size, dist.new_group, { size })
    raises(size > 1 and "twice" or "at most 1", dist.new_group, { 0, 0 })
  end)

  it("of some ranks have objects of their own, of different lengths", function()
    local low, high = {}, {}
    for r = 0, size - 1 do table.insert(r < size // 2 and low or high, 1, r) end
    local a, b = #low > 0 and dist.new_group(low), dist.new_group(high)
    local mine, ranks = a or b, rank < size // 2 and low or high
    local function word(r, n) return ("x"):rep(r * 100 + n) .. "," .. r end
    local o = { group = mine }
    for _, root in ipairs(ranks) do
      local parts, out, list = {}, {}, {}
      for i, r in ipairs(ranks) do parts[i] = { word(r, 7), at = i } end
      dist.scatter_object_list(out, rank == root and parts or nil, root, o)
      assert.are.same({ { word(rank, 7), at = mine:rank() + 1 } }, out)
      dist.gather_object(word(rank, 5), list, root, o)
      for i, r in ipairs(ranks) do assert.are.equal(rank == root and word(r, 5) or nil, list[i]) end
      dist.all_gather_object(list, word(rank, root), o)
      for i, r in ipairs(ranks) do assert.are.equal(word(r, root), list[i]) end
      list = rank == root and { word(root, 3), root } or {}
      dist.broadcast_object_list(list, root, o)
      assert.are.same({ word(root, 3), root }, list)
    end
  end)
end)

describe("distributed: long messages", function()
  -- The pieces of a long one follow its head: those of a later receive are not to come first, whichever is asked for first.
  it("keep their order where receives from any rank are asked for in another one", function()
    local to, from, n, count = (rank + 1) % size, (rank - 1) % size, 5000, 4
    for round = 1, 30 do
      local rooms, works, sends = {}, {}, {}
      for i = 1, count do
        rooms[i] = tide.zeros(n, here)
        works[i] = i % 4 == round % 4 and dist.irecv(rooms[i], from) or dist.irecv(rooms[i])
      end
      for i = 1, count do sends[i] = dist.isend(filled(n, 100 * rank + i), to) end
      for i = count, 1, -1 do
        local done = works[i]:is_completed() -- before the others had a turn
        if not done then works[i]:wait() end
      end
      for _, send in ipairs(sends) do send:wait() end
      for i = 1, count do
        assert.are.same({ 100 * from + i, 100 * from + i }, { rooms[i]:min():item(), rooms[i]:max():item() }, "round " .. round)
      end
    end
  end)
end)
