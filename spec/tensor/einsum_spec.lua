-- einsum and tensordot: values by loops over the equation, in adversarial layouts; errors that say
-- where. Random equations stand in differential/einsum.py.

local tide = require "tide"
local D = require "spec.support.device"

local function same(expected, x, what) D.eq(expected, x, 0, what) end
local function raises(kind, text, f, ...)
  local e = D.raises(kind, f, ...)
  assert.is_truthy(e.message:find(text, 1, true), e.message .. "\nhas no " .. text)
end

-- Whole numbers from -3 to 3.
local function values(...)
  local size, n = { ... }, 1
  for _, s in ipairs(size) do n = n * s end
  return (tide.arange(n, { device = D.dev }) * 5 % 7 - 3):view(size):to "float32"
end

-- The sum by its definition, for terms of letters: at every value of every letter.
local function by_loops(equation, ...)
  local operands, terms, output = { ... }, {}, equation:match "%->(.*)$"
  for term in equation:match "^(.-)%->":gmatch "[^,]+" do terms[#terms + 1] = term end
  local size, letters = {}, {}
  for i, term in ipairs(terms) do
    for d = 1, #term do
      local c = term:sub(d, d)
      if not size[c] then letters[#letters + 1] = c end
      size[c] = operands[i]:size(d)
    end
  end
  local tables, result, at = {}, {}, {}
  for i, x in ipairs(operands) do tables[i] = x:totable() end
  local function visit(k)
    if k <= #letters then
      for v = 1, size[letters[k]] do
        at[letters[k]] = v
        visit(k + 1)
      end
      return
    end
    local product = 1
    for i, term in ipairs(terms) do
      local v = tables[i]
      for c in term:gmatch "." do v = v[at[c]] end
      product = product * v
    end
    local key = output:gsub(".", function(c) return at[c] .. " " end)
    result[key] = (result[key] or 0) + product
  end
  visit(1)
  local function build(k, key)
    if k > #output then return result[key] end
    local list = {}
    for v = 1, size[output:sub(k, k)] do list[v] = build(k + 1, key .. v .. " ") end
    return list
  end
  return build(1, "")
end

describe("einsum", function()
  D.watch(before_each, after_each)

  it("is the sum over what the result has not, in every layout", function()
    for _, case in ipairs { { "ij,jk->ik", { 2, 3 }, { 3, 4 } }, { "ij,jk->ki", { 2, 3 }, { 3, 4 } }, { "ji,kj->ik", { 3, 2 }, { 4, 3 } },
      { "bij,bjk->bik", { 2, 3, 4 }, { 2, 4, 3 } }, { "bij,bkj->ikb", { 2, 3, 4 }, { 2, 5, 4 } }, { "ij,ij->", { 2, 3 }, { 2, 3 } },
      { "ij,ij->j", { 2, 3 }, { 2, 3 } }, { "i,j->ji", { 2 }, { 3 } }, { "ij,kl->", { 2, 3 }, { 2, 2 } }, { "ijk,jil->kl", { 2, 3, 4 }, { 3, 2, 5 } },
      { "ii,ij->j", { 3, 3 }, { 3, 2 } }, { "bihd,bjhd->bhij", { 2, 3, 2, 4 }, { 2, 3, 2, 4 } } } do
      local a, b = values(table.unpack(case[2])), values(table.unpack(case[3]))
      local expected = by_loops(case[1], a, b)
      for _, x in ipairs(D.layouts(a)) do
        for _, y in ipairs(D.layouts(b)) do same(expected, tide.einsum(case[1], x[2], y[2]), case[1] .. " " .. x[1] .. " " .. y[1]) end
      end
    end
  end)

  it("takes one operand", function()
    local x = values(3, 3)
    same(x.T, tide.einsum("ij->ji", x))
    same(x:diagonal(), tide.einsum("ii->i", x))
    same(x:diagonal():sum(), tide.einsum("ii", x))
    same(x:sum(1), tide.einsum("ij->j", x))
    same(x:sum(), tide.einsum("ij->", x))
    same(x, tide.einsum("ij", x))
    same(x.T, tide.einsum("ji", x)) -- the alphabet's order
    local view = tide.einsum("ij->ji", x)
    view[1][2] = 50
    assert.are.equal(50, x[2][1]:item())
    same(5, tide.einsum("", D.tensor(5)))
    assert.are.equal(tide.int64, tide.einsum("i->", D.tensor({ 1, 2 }, "int8")).dtype)
    assert.are.equal(tide.int8, tide.einsum("i,i->", D.tensor({ 1, 2 }, "int8"), D.tensor({ 1, 2 }, "int8")).dtype)
  end)

  it("broadcasts what has no letter, and sizes of 1", function()
    local a, b = values(2, 1, 3, 4), values(5, 4, 2)
    same(a:matmul(b), tide.einsum("...ij,...jk->...ik", a, b))
    same(a:matmul(b), tide.einsum("...ij,...jk", a, b))
    same(a:matmul(b):permute(3, 4, 1, 2), tide.einsum("...ij,...jk->ik...", a, b))
    same(a:sum { 1, 2 }, tide.einsum("...ij->ij", a))
    same(values(2, 3) * values(2, 1), tide.einsum("ij,ij->ij", values(2, 3), values(2, 1)))
    same({ { { 1 }, { 2 } } }, tide.einsum("aib->aib", D.tensor { { { 1 }, { 2 } } }))
    same({ { { 1 }, { 4 } } }, tide.einsum("aib,aib->aib", D.tensor { { { 1 }, { 2 } } }, D.tensor { { { 1 }, { 2 } } }))
  end)

  it("contracts many operands, few or many at a time", function()
    local a, b, c = values(2, 3), values(3, 4), values(4, 2)
    same(by_loops("ij,jk,kl->il", a, b, c), tide.einsum("ij,jk,kl->il", a, b, c))
    same(by_loops("ij,jk,ki->", a, b, c), tide.einsum("ij,jk,ki->", { a, b, c }))
    same(by_loops("ij,ij,ij->i", a, a, a), tide.einsum("ij,ij,ij->i", a, a, a))
    local m, chain, product = values(3, 3), {}, nil
    local letters, terms = "abcdefghijklm", {}
    for n = 1, 11 do
      chain[n], terms[n] = m, letters:sub(n, n + 1)
      product = product and product:matmul(m) or m
      same(product, tide.einsum(table.concat(terms, ",") .. "->a" .. letters:sub(n + 1, n + 1), chain), n)
    end
  end)

  -- Of a chain of matrices the cheap end is multiplied first: the other order would take 10^11 products.
  it("chooses a cheap order", function()
    local n = 2000
    local wide, v = tide.ones(n, n, { device = D.dev }), tide.ones(n, { device = D.dev })
    local before = os.clock()
    same(n * n * n, tide.einsum("ij,jk,k,i->", wide, wide, v, v))
    D.in_time(2, function(limit) assert(os.clock() - before < limit) end)
  end)

  -- What it did for operands that lie as these is kept.
  it("does the same again, and otherwise for another layout", function()
    for n = 1, 3 do
      local a, b = values(4, 4) * n, values(4, 4) + n
      same(by_loops("ij,jk->ki", a, b), tide.einsum("ij,jk->ki", a, b), n)
      same(by_loops("ij,jk->ki", a.T, b), tide.einsum("ij,jk->ki", a.T, b), n)
      same(by_loops("ij,jk->ki", a, a), tide.einsum("ij,jk->ki", a, a), n)
      same(by_loops("ij,ij,ij->", a, b, a), tide.einsum("ij,ij,ij->", a, b, a), n)
      same(by_loops("ij,ij,ij->", a, a, b), tide.einsum("ij,ij,ij->", a, a, b), n)
      same(a:to "int32":matmul(a:to "int32"), tide.einsum("ij,jk", a:to "int32", a:to "int32"), n)
      assert.is_false(rawequal(a, tide.einsum("ij", a)))
    end
    for n = 1, 600 do tide.einsum("i->i", tide.ones(n, { device = D.dev })) end -- more than are kept
    same({ 1, 1 }, tide.einsum("i->i", tide.ones(2, { device = D.dev })))
  end)

  it("is called by a finaliser while it runs", function()
    local a, calls = values(3, 3), 0
    local function litter()
      setmetatable({}, { __gc = function() calls = calls + tide.einsum("ij,ij->", tide.ones(2, 2), tide.ones(2, 2)):item() end })
    end
    for n = 1, 40 do
      local x = values(3, n)
      for _ = 1, 50 do litter() end
      same(a:matmul(x), tide.einsum("ij,jk->ik", a, x), n)
    end
    collectgarbage()
    assert.is_true(calls > 0)
  end)

  it("takes empty operands", function()
    same({ { 0, 0 }, { 0, 0 } }, tide.einsum("ij,jk->ik", values(2, 0), values(0, 2)))
    assert.are.same({ 0, 2 }, tide.einsum("ij,jk->ik", values(0, 3), values(3, 2)):size())
    assert.are.same({ 2, 0 }, tide.einsum("ij,k->ik", values(2, 3), values(0)):size())
  end)

  it("writes to a destination, never to an operand", function()
    local a, out = values(2, 3), tide.empty({ 0 }, { device = D.dev })
    assert.are.equal(out, tide.einsum("ij->ji", a, { out = out }))
    same(a.T, out)
    same(values(2, 3), a)
    out = tide.empty(2, 2, { device = D.dev })
    tide.einsum("ij,kj->ik", a, a, { out = out })
    same(a:matmul(a.T), out)
    raises("ShapeError", "einsum", tide.einsum, "ij,kj->ik", a, a, { out = tide.empty(3, 3, { device = D.dev }) })
  end)

  it("leaves nothing of what it made on the way", function()
    if not D.cuda then return pending "needs a device" end
    local a = values(64, 64)
    tide.einsum("ij,jk,kl,lm->im", a, a, a, a)
    tide.cuda.synchronize()
    collectgarbage "stop"
    local before = tide.cuda.memory_allocated()
    local r = tide.einsum("ij,jk,kl,lm->im", a, a, a, a)
    local after = tide.cuda.memory_allocated()
    collectgarbage "restart"
    assert.are.equal(r:numel() * 4, after - before)
  end)

  it("says where the equation is wrong", function()
    local a, b = values(2, 3), values(3, 4)
    for equation, text in pairs { ["i1,jk"] = "got '1' at character 2 of 'i1,jk'", ["ij,jl->ik"] = "got 'k' in the result at character 8",
      ["ij,jk->ii"] = "got 'i' twice in the result at character 8", ["ij..,jk"] = "got '.' at character 3",
      ["ij-jk"] = "got '-' at character 3", ["ij,jk->i->k"] = "got a second '->' at character 9",
      ["......i,jk"] = "got a second '...' at character 4", ["ij,jk->i,k"] = "got ',' at character 9" } do
      raises("ValueError", "einsum: equation: " .. text, tide.einsum, equation, a, b)
    end
    raises("ValueError", "einsum: operands: got 1, expected 2", tide.einsum, "ij,jk", a)
    raises("ValueError", "einsum: operands: got 0, expected 1", tide.einsum, "ij")
    raises("ShapeError", "einsum: operand 2: got a float32 tensor [3, 4]", tide.einsum, "ij,j", a, b)
    raises("ShapeError", "einsum: operand 1: got a float32 tensor [2, 3]", tide.einsum, "ijk...,jk", a, b)
    raises("ShapeError", "einsum: operand 2: got size 3 of dimension 1 ('i'), expected 2 as in operand 1", tide.einsum, "ij,ij", a, b)
    raises("ShapeError", "einsum: operand 1: got size 3 of dimension 2 ('i'), expected 2 as before", tide.einsum, "ii", a)
    raises("ShapeError", "einsum: operand 2: got size 4", tide.einsum, "...,...", a, values(2, 4))
    raises("DtypeError", "einsum: operand 2: got a float64", tide.einsum, "ij,jk", a, b:double())
    raises("DtypeError", "einsum: operand 1: got a bool", tide.einsum, "i,i->", D.tensor { true }, D.tensor { true })
    raises("ArgumentError", "einsum: tensors[2]: got number 3", tide.einsum, "ij,jk", a, 3)
    raises("ArgumentError", "einsum: equation", tide.einsum, a, b)
    if D.cuda then raises("DeviceError", "einsum: operand 2", tide.einsum, "ij,jk", a, b:cpu()) end
  end)
end)

describe("tensordot", function()
  D.watch(before_each, after_each)

  it("sums over the named dimensions", function()
    local a, b = values(2, 3, 4), values(4, 3, 5)
    same(tide.einsum("ijk,kjl->il", a, b), tide.tensordot(a, b, { { 2, 3 }, { 2, 1 } }))
    same(tide.einsum("ijk,kjl->il", a, b), tide.tensordot(a, b, { { -2, -1 }, { 2, 1 } }))
    for _ = 1, 2 do same(tide.einsum("ijk,kml->ijml", a, b), tide.tensordot(a, b, 1)) end
    same(tide.einsum("ijk,jkl->il", a, b:transpose(1, 2)), tide.tensordot(a, b:transpose(1, 2)))
    assert.are.same({ 2, 3, 4, 2 }, tide.tensordot(a, values(2), 0):size())
    same(a:sum(1):sum(1):sum(1), tide.tensordot(a, values(1) * 0 + 1, { { 3 }, { 1 } }):sum())
    raises("ValueError", "einsum: equation", tide.einsum, "dims 1 1", values(2, 2), values(2, 2))
    tide.tensordot(values(2, 2), values(2, 2), { { 1 }, { 1 } })
    raises("ValueError", "einsum: equation", tide.einsum, "dims 1 1", values(2, 2), values(2, 2))
    raises("ShapeError", "tensordot: got size 4 of dimension 3 of a and 5 of dimension 3 of b", tide.tensordot, a, b, { { 3 }, { 3 } })
    raises("ValueError", "tensordot: dims: got 4", tide.tensordot, a, b, 4)
    raises("ValueError", "tensordot: dims: got 1 of a and 2 of b", tide.tensordot, a, b, { { 1 }, { 1, 2 } })
    raises("ValueError", "tensordot: dims[1]: got dimension 1 twice", tide.tensordot, a, b, { { 1, 1 }, { 1, 2 } })
    raises("IndexError", "tensordot: dims[2]: got dimension 0", tide.tensordot, a, b, { { 1 }, { 0 } })
    raises("ArgumentError", "tensordot: dims", tide.tensordot, a, b, "a")
    raises("DtypeError", "tensordot: b: got a float64", tide.tensordot, a, b:double(), 1)
  end)
end)
