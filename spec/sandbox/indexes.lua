-- A state whose scripts count from 0 (tide_lua_options.indexes): what each says is what torch says.

--- indexes and ranges from 0
--! from 0
--! grant WAITS
local x = tide.tensor { { 1, 2, 3 }, { 4, 5, 6 } }
assert(x[0]:equal(tide.tensor { 1, 2, 3 }) and x[-1]:equal(x[1]) and x[{ 1, 2 }]:item() == 6)
assert(x[{ {}, { 0, 1 } }]:equal(tide.tensor { { 1, 2 }, { 4, 5 } }) and x[{ 0, { 1, -1 } }]:equal(tide.tensor { 2, 3 }))
assert(x[{ {}, { 0, 2, 2 } }]:equal(tide.tensor { { 1, 3 }, { 4, 6 } }) and x[{ { 1, 0 } }].shape[1] == 0)
x[0] = 7 x[{ 1, 0 }] = 8
assert(x:equal(tide.tensor { { 7, 7, 7 }, { 8, 5, 6 } }))
assert(x:select(0, 1):equal(x[1]) and x:narrow(1, 1, 2):equal(x[{ {}, { 1, 2 } }]) and x:slice(1, 0, 2, 2).shape[2] == 2)
assert(x:narrow(0, 2, 0).shape[1] == 0 and x:slice { dim = 1, step = 2 }:equal(x[{ {}, { 0, 2, 2 } }]) and x:slice(1):equal(x))

--- dimensions from 0
--! from 0
local x = tide.zeros(2, 3, 4)
assert(x:size(0) == 2 and x:size(2) == 4 and x:size(-1) == 4 and x:stride(0) == 12)
assert(x:sum(0):size(0) == 3 and x:sum { 0, 2 }:size(0) == 3 and x:mean { dim = 1 }:size(1) == 4)
assert(x:transpose(0, 2):size(0) == 4 and x:permute(2, 0, 1):size(1) == 2 and x:movedim(0, 2):size(2) == 2)
assert(x:unsqueeze(0):size(0) == 1 and x:unsqueeze(3):size(3) == 1 and x:unsqueeze(0):squeeze(0):size(0) == 2)
assert(x:flatten(0, 1):size(0) == 6 and #x:split(2, 2) == 2 and #x:chunk(3, 1) == 3 and #x:unbind(1) == 3)
assert(tide.cat({ x, x }, 1):size(1) == 6 and tide.stack({ x, x }, 0):size(0) == 2 and x:flip { 0 }:size(0) == 2)
assert(x:softmax(2):size(2) == 4 and x:cumsum(0):size(0) == 2 and x:roll(1, 0):size(0) == 2 and x:diff { dim = 0 }:size(0) == 1)
assert(x:diagonal(0, 0, 1):size(1) == 2 and x:unfold(2, 2, 1):size(3) == 2 and x:expand(2, 3, 4):size(0) == 2)
assert(tide.fft.fft(x, { dim = 0 }):size(0) == 2 and x.T:size(0) == 4 and x:repeat_interleave(2, 0):size(0) == 4)
assert(tide.linalg.norm(x, 2, 0):size(0) == 3 and tide.linalg.vector_norm(x, 2, { 0, 1 }):size(0) == 4)
assert(tide.linalg.norm(x, nil, { 1, 2 }):size(0) == 2 and x:norm(2, 0):size(1) == 4)
assert(tide.tensordot(x, tide.zeros(3, 5), { { 1 }, { 0 } }):size(2) == 5 and tide.tensordot(x, tide.zeros(4, 5), 1):size(2) == 5)
assert(tide.cross(tide.zeros(3, 2), tide.zeros(3, 2), { dim = 0 }):size(0) == 3 and tide.trapezoid(x, { dim = 0 }):size(0) == 3)
assert(x:quantile(0.5, 0):size(0) == 3 and x:median(1):size(0) == 2 and x:any(0):size(1) == 4)

--- what is left out stays what it is
--! from 0
local x = tide.tensor { { 1, 2, 3 }, { 4, 5, 6 } }
assert(x:argsort():size(1) == 3 and #x:split(1) == 2 and #x:unbind() == 2 and tide.cat { x, x }:size(0) == 4)
assert(x:float():softmax(-1):size(1) == 3 and x:unfold(-1, 2, 1):size(2) == 2 and #x:tensor_split(2) == 2)

--- tensors of indexes from 0
--! from 0
--! grant WAITS
local function same(x, list) return x:long():equal(tide.tensor(list, { dtype = "int64" })) end
local function at(list) return tide.tensor(list, { dtype = "int64" }) end
local x = tide.tensor { 3., 1., 2., 1. }
local values, places = x:sort(0)
assert(same(places, { 1, 3, 2, 0 }) and same(x:argsort(), { 1, 3, 2, 0 }) and x:argmax():item() == 0 and x:argmin():item() == 1)
values, places = x:max(0)
assert(values:item() == 3 and places:item() == 0)
values, places = x:topk(2)
assert(same(places, { 0, 2 }))
values, places = x:kthvalue(1)
assert(values:item() == 1 and (places:item() == 1 or places:item() == 3))
values, places = x:mode()
assert(values:item() == 1 and x[places:item()]:item() == 1 and select(2, tide.tensor({ 5, 5, 5 }):mode()):item() < 3)
values, places = x:unique { return_inverse = true }
assert(same(places, { 2, 0, 1, 0 }))
values, places = at { 3, 1, 2, 1 }:unique { return_inverse = true }
assert(same(places, { 2, 0, 1, 0 }))
values, places = tide.tensor({ { 2, 2 }, { 1, 1 }, { 2, 2 } }):unique { return_inverse = true, dim = 0 }
assert(same(places, { 1, 0, 1 }))
values, places = x:cummax(0)
assert(same(places, { 0, 0, 0, 0 }))
assert(same(x:gt(1):nonzero(), { { 0 }, { 2 } }) and same(x[at { 3, 0 }], { 1, 3 }) and same(x[{ at { -1 } }], { 1 }))
assert(same(x:index_select(0, at { 2 }), { 2 }) and same(x:gather(0, at { 0, 0 }), { 3, 3 }) and same(x:take(at { 1 }), { 1 }))
assert(same(x:scatter(0, at { 0 }, 9), { 9, 1, 2, 1 }) and same(x:index_fill(0, at { 1 }, 9), { 3, 9, 2, 1 }))
assert(same(x:index_add(0, at { 3 }, tide.ones(1)), { 3, 1, 2, 2 }) and same(x:put_(at { 1 }, tide.tensor { 5. }), { 3, 5, 2, 1 }))
x[{ at { 0, 2 } }] = 0
assert(same(x, { 0, 5, 0, 1 }) and same(tide.searchsorted(tide.tensor { 1., 2., 3. }, 2.), 1) and same(tide.bucketize(0., tide.tensor { 1. }), 0))
assert(tide.randperm(50):min():item() == 0 and tide.randperm(50):max():item() == 49)
assert(tide.multinomial(tide.tensor { 0., 0., 1. }, 1):item() == 2 and same(tide.multinomial(tide.tensor { 0., 1. }, 3, { replacement = true }), { 1, 1, 1 }))
assert(tide.multinomial(tide.ones(2), 2):sum():item() == 1 and same(tide.tril_indices(2, 2), { { 0, 1, 1 }, { 0, 0, 1 } }))
assert(same(tide.one_hot(at { 0, 2 }), { { 1, 0, 0 }, { 0, 0, 1 } }) and same(tide.one_hot(at { 1 }, 2), { { 0, 1 } }))
assert(same(tide.embedding(tide.tensor { { 1, 1 }, { 2, 2 } }, at { 1 }), { { 2, 2 } }))
local picture, where = tide.tensor({ 1, 4, 2, 3 }):view(1, 1, 2, 2):float(), nil
picture, where = tide.max_pool2d(picture, 2, { return_indices = true })
assert(picture:item() == 4 and where:item() == 1)
local parts = tide.arange(5):tensor_split { 1, 3 }
assert(#parts == 3 and parts[1]:size(0) == 1 and parts[2]:size(0) == 2 and #tide.arange(5):tensor_split(at { 2 }) == 2)
assert(tide.arange(5):tensor_split(at { 2 })[1]:size(0) == 2 and tide.arange(5):tensor_split({ -1 })[2]:size(0) == 1)

--- what is made of others is as it was
--! from 0
--! grant WAITS
local x = tide.tensor { { 1., 2. }, { 3., 4. } }
assert(x:quantile(0.5):item() == 2.5 and tide.isin(3., x):item() and tide.einsum("ij,jk->ik", x, x):equal(x:matmul(x)))
assert(math.abs(tide.linalg.det(x):item() + 2) < 1e-6 and tide.hstack { x, x }:size(1) == 4 and tide.vander(x[0]):size(1) == 2)
assert(tide.linalg.matrix_power(x, 3):allclose(x:matmul(x):matmul(x)) and tide.cov(x):size(1) == 2 and tide.cdist(x, x):size(1) == 2)
assert(tide.combinations(x[0], 2):equal(x:narrow(0, 0, 1)) and tide.cartesian_prod(x[0], x[1]):size(0) == 4)
local counts, edges = tide.histogramdd(x, 2)
assert(counts:sum():item() == 2 and #edges == 2 and tide.block_diag(x, x):size(0) == 4 and tide.kron(x, x):size(0) == 4)
assert(tide.linalg.matrix_exp(x):size(1) == 2 and tide.corrcoef(x):size(0) == 2 and x:unique():size(0) == 4)

--- loops over rows
--! from 0
local n, x = 0, tide.tensor { 5, 6, 7 }
for i, v in x:iter() do assert(i == n and x[i] == v) n = n + 1 end
assert(n == 3)
for i, v in pairs(x) do n = n - 1 assert(i == 2 - n) end
assert(n == 0)
for i, v in ipairs(x) do n = n + i end
assert(n == 3)

--- functions of the script's that tide calls, and coroutines
--! from 0
--! grant WAITS
local x = tide.zeros(2, 3)
assert(tide.scope(function() return x:sum(0) end):size(0) == 3)
assert(tide.cuda.memory.scope("a", function() return x:sum(0) end):size(0) == 3)
assert(tide.parallel.apply(function(y) return y:sum(0) end, { { x } })[1]:size(0) == 3)
assert(coroutine.wrap(function() coroutine.yield() return x:sum(0):size(0) end)() == nil)
assert(select(2, pcall(x.sum, x, 0)):size(0) == 3 and coroutine.wrap(x.sum)(x, 0):size(0) == 3)
assert(#tide.parallel.scatter(x, { "cuda:0", "cuda:1" }, 1) == 2 and tide.parallel.scatter(x, { "cuda:0", "cuda:1" }, 1)[1]:size(1) == 2)
assert(tide.parallel.gather(tide.parallel.scatter(x, { "cuda:0", "cuda:1" }, 1), "cuda:0", 1):size(1) == 3)

--- places that are none
--! from 0
local x = tide.zeros(2, 3)
local function says(text, fn, ...)
  local ok, e = pcall(fn, ...)
  assert(not ok and tostring(e):find(text, 1, true), tostring(e))
end
says("expected 0 to 1 or -2 to -1", function() return x[2] end)
says("dim: got 2, expected 0 to 1 or -2 to -1", function() return x:sum(2) end)
says("expected both within 0 to 1", function() return x[{ { 0, 2 } }] end)
says("start: got 3, expected 0 to 1", function() return x:narrow(0, 3, 1) end)
says("expected 0 to 1, or -1 to -2", function() return tide.tensordot(x, x, { { 2 }, { 0 } }) end)
says("dimension 1", function() return x:split({ 1, 1 }, 1) end)

--- a bad index in a tensor, on the cpu
--! from 0
--! raises expected 0 to 1
return tide.zeros(2)[tide.tensor({ 2 }, { dtype = "int64" })]

--- a bad index in a tensor, on a device
--! from 0
--! grant WAITS
--! raises expected 0 to 1
return tide.zeros(2, { device = "cuda" })[tide.tensor({ 2 }, { dtype = "int64", device = "cuda" })]:cpu()

--- tensors of indexes from 0 in a fused function, on the cpu and on a device
--! from 0
--! grant WAITS
for _, device in ipairs { "cpu", "cuda" } do
  local x, i = tide.arange(6, { device = device }):float(), tide.tensor({ 5, 0, -1, 2 }, { dtype = "int64", device = device })
  local f = tide.fuse(function(a, j) return (a[j] * 2):sum(), a:take(j) * 2 + 1 end)
  for _ = 1, 3 do
    local sum, all = f(x, i)
    assert(sum:item() == 24 and all:cpu():equal(tide.tensor { 11, 1, 11, 5 }))
  end
end

--- a bad index in a fused function, on the cpu
--! from 0
--! raises got 6, expected 0 to 5
local x, i = tide.arange(6):float(), tide.tensor({ 5, 0 }, { dtype = "int64" })
local f = tide.fuse(function(a, j) return (a[j] * 2):sum() end)
f(x, i)
i:fill_(6)
return f(x, i)

--- a bad index in a fused function, on a device
--! from 0
--! grant WAITS
--! raises got 6, expected 0 to 5
local x, i = tide.arange(6, { device = "cuda" }):float(), tide.tensor({ 5, 0 }, { dtype = "int64", device = "cuda" })
local f = tide.fuse(function(a, j) return a[j] * 2 + 1 end)
f(x, i)
i:fill_(6)
return f(x, i):cpu()

--- another state counts from 1
local x = tide.tensor { 1, 2, 3 }
assert(x:sum(1) and x:argmax():item() == 3 and not pcall(function() return x[0] end) and x:size(1) == 3)

--- fields of ranks from 0: places and dimensions; ranks and coordinates count from 0 in every state
--! from 0
--! grant PROCESSES WAITS FILES
local dist = tide.distributed
dist.init_process_group()
local grid = dist.cart { dims = { 0, 0 }, periodic = true }
local u = grid:field({ 4, 6 }, { halo = 1, dtype = tide.float64 })
local first, last = grid:range(u, 1)
assert(first == 0 and last == 5 and not pcall(grid.range, grid, u, 2))
grid:rand_(u, 3)
local inside = grid:inside(u)
assert(inside[{ 0, 0 }]:item() == tide.random.uniform(3, 0) and inside[{ 1, 2 }]:item() == tide.random.uniform(3, 8))
grid:halo_exchange(u, { dims = { 1 } })
assert(u[{ 1, 0 }]:equal(inside[{ 0, 5 }]) and u[{ 0, 1 }]:item() == 0)
grid:halo_exchange(u)
assert(u[{ 0, 0 }]:equal(inside[{ 3, 5 }]))
assert(grid:gather(u, { every = { 2, 3 } }):equal(inside[{ { 0, 3, 2 }, { 0, 5, 3 } }]))
assert(grid:shift(0) == 0 and grid:sub({ 1 }):size() == 1 and not pcall(grid.sub, grid, { 2 }))
