-- Lists of thousands of entries wherever a list is taken: what a function leaves on Lua's stack for each entry, and what
-- it keeps of one, shows here.
local tide = require "tide"
local D = require "spec.support.device"

local n = 3000
local on = { device = D.dev }

local function list(f)
  local t = {}
  for i = 1, n do t[i] = f(i) end
  return t
end
local function numbers() return list(function(i) return i end) end

describe("a list of thousands", function()
  D.watch(before_each, after_each)

  it("of tensors is joined", function()
    local x = D.tensor { 1, 2 }
    local many = list(function() return x end)
    assert.are.same({ 2 * n }, tide.cat(many):size())
    assert.are.same({ n, 2 }, tide.stack(many):size())
    assert.are.same({ n, 2 }, tide.vstack(many):size())
    assert.are.same({ 2 * n }, tide.hstack(many):size())
    assert.are.same({ 2, n }, tide.column_stack(many):size())
    assert.are.same({ 2 * n, 1 }, tide.cat(list(function() return x:view(2, 1) end)):size())
    assert.are.same({ 2 * n }, tide.cat(many, { out = tide.empty(2 * n, { dtype = x.dtype, device = D.dev }) }):size())
    local both = tide.broadcast_tensors(many)
    assert.are.same({ n, { 2 } }, { #both, both[n]:size() })
    D.raises("ArgumentError", tide.cat, list(function(i) return i < n and x or 5 end))
    assert.matches("tensors%[" .. n .. "%]", D.raises("ArgumentError", tide.stack, list(function(i) return i < n and x or 5 end)).message)
  end)

  it("of numbers, rows and tensors is a tensor", function()
    local x = tide.tensor(numbers(), { dtype = "int64", device = D.dev })
    assert.are.equal(n * (n + 1) // 2, tonumber(x:sum():item()))
    assert.are.same({ n, 2 }, tide.tensor(list(function(i) return { i, -i } end), on):size())
    assert.are.same({ n, 2 }, tide.tensor(list(function(i) return tide.tensor { i, -i } end), on):size())
    assert.are.same({ n, 1 }, tide.tensor(list(function(i) return { i % 2 == 0 } end), on):size())
    assert.are.same({ n }, x:index_select(1, x):size())
    D.eq({ 1, n }, x[{ { 1, n, n - 1 } }])
    x[{}] = numbers()
    D.eq(numbers(), x + list(function() return 0 end))
    D.raises("ArgumentError", tide.tensor, list(function(i) return i < n and 1 or "x" end))
    D.raises("ShapeError", tide.tensor, list(function(i) return i < n and { 1, 2 } or { 1 } end))
    D.raises("ValueError", tide.zeros, numbers())
    D.raises("ValueError", x.view, x, numbers())
  end)

  it("of parts is what a tensor is split into", function()
    local x = tide.arange(n, on)
    assert.are.equal(n, #x:split(1))
    assert.are.equal(n, #x:split(list(function() return 1 end)))
    assert.are.equal(n, #x:chunk(n))
    assert.are.equal(n, #x:unbind())
    assert.are.equal(n, #x:tensor_split(n))
    assert.are.equal(n + 1, #x:tensor_split(numbers()))
    D.raises("ShapeError", x.split, x, list(function(i) return i < n and 1 or 2 end))
    assert.are.equal(n, #x:totable())
  end)

  it("is saved and read", function()
    local x = tide.ones(1)
    local back = tide.deserialize(tide.serialize { numbers(), list(function(i) return "s" .. i end), list(function() return x end),
      list(function(i) return { i } end) })
    assert.are.same({ n, n, n, n, "s" .. n, n }, { #back[1], #back[2], #back[3], back[1][n], back[2][n], back[4][n][1] })
    local named, path = {}, os.tmpname()
    for i = 1, 300 do named["x" .. i] = tide.full({ 1 }, i) end
    for _, way in ipairs { "npz", "safetensors" } do
      tide["save_" .. way](path, named)
      local read, count = tide["load_" .. way](path), 0
      for name, y in pairs(read) do
        count = count + 1
        assert.are.equal(name, "x" .. math.tointeger(y:item()))
      end
      assert.are.equal(300, count)
    end
    local names = list(function(i) return "c" .. i end)
    tide.save_csv(path, tide.arange(n):view(1, n), { header = names })
    local table_of, header = tide.load_csv(path, { header = true })
    assert.are.same({ { 1, n }, names }, { table_of:size(), header })
    assert.are.same({ 1, n }, tide.load_csv(path, { header = true, columns = names }):size())
    assert.are.same({ 1, n }, tide.load_csv(path, { header = true, columns = numbers() }):size())
    D.raises("ValueError", tide.load_csv, path, { header = true, columns = list(function(i) return i + 1 end) })
    os.remove(path)
  end)

  it("is batched, and read from a command line", function()
    local batches = 0
    for _, b in tide.data.loader(list(function(i) return { i, tide.full({ 1 }, i), "s" } end), { batch_size = n }):iter() do
      batches = batches + 1
      assert.are.same({ { n }, { n, 1 }, n }, { b[1]:size(), b[2]:size(), #b[3] })
    end
    assert.are.equal(1, batches)
    local args = tide.cmdline("title"):option("n", 1):parse(list(function(i) return i == n and "--n=7" or "word" end))
    assert.are.same({ 7, n - 1 }, { args.n, #args })
  end)

  it("goes over devices and streams", function()
    if D.devices < 2 then return pending "needs two devices" end
    local x, s, n = tide.ones(2, on), tide.cuda.Stream(), 400
    local many = table.move(list(function() return x end), 1, n, 1, {})
    local copies = tide.cuda.comm.broadcast_coalesced(many, { 0, 1 })
    assert.are.same({ n, n }, { #copies[1], #copies[2] })
    assert.are.equal(n, #tide.cuda.comm.reduce_add_coalesced(copies))
    s:wait_streams(list(function() return s end))
    tide.cuda.stream_barrier(list(function() return s end))
    local parts = tide.parallel.scatter({ x = numbers(), y = many }, { 0, 1 })
    assert.are.same({ 3000, n }, { #parts[1].x, #parts[2].y })
    assert.are.equal(n, #tide.parallel.gather(tide.parallel.replicate(many, { 0, 1 })))
    D.raises("ArgumentError", s.wait_streams, s, list(function(i) return i < n and s or 5 end))
    assert.matches("more than 64", D.raises("ValueError", tide.cuda.graph, tide.cuda.CUDAGraph(), { inputs = many }, function() end).message)
    D.sync()
  end)
end)
