-- Refusals just outside of a range, and what is given just within it; destinations that do not fit, and options that are none.

local D = require "spec.support.device"
local refusal = require "spec.support.refusal"

local rows = [==[
t.zeros(2, { out = ones(2), dtype = 'float64' }) -- DtypeError: zeros: out: got float32 beside dtype float64, expected the same
t.zeros(2, { out = ones(2), dtype = 'float32' }):sum():item() -- = 0
t.zeros(3, { out = ones(2) }) -- ShapeError: zeros: wrong shape of the destination, got [2], expected [3]
t.full({ 2 }, 1, { out = ones(2), dtype = 'int32' }) -- DtypeError: full: out: got float32 beside dtype int32, expected the same
t.arange(3, { out = ix { 1, 2, 3 }, dtype = 'float32' }) -- DtypeError: arange: out: got int64 beside dtype float32, expected the same
t.rand(2, { out = ones(2), dtype = 'float64' }) -- DtypeError: rand: out: got float32 beside dtype float64, expected the same
t.eye(2, { out = ones(2, 2), dtype = 'bool' }) -- DtypeError: eye: out: got float32 beside dtype bool, expected the same
t.zeros(2, { out = 5 }) -- ArgumentError: zeros: out: got number 5, expected a tensor; tide.tensor(5) is one
t.zeros(2, { out = {} }) -- ArgumentError: zeros: out: got table, expected a tensor; tide.tensor(t) makes one of a table
t.linspace(0, 1, 3, { out = ones(3), dtype = 'float64' }) -- DtypeError: linspace: out: got float32 beside dtype float64, expected the same
x:sort({ out = x }) -- ArgumentError: sort: out: got a float32 tensor [2, 3], expected a table of a tensor for each result
x:sort({ out = { x } }) -- ArgumentError: sort: out: got table, expected a table of a tensor for each result
x:sort({ out = { x, x } }) -- ValueError: sort: out[2]: got the tensor of out[1], expected another one
x:sort({ out = { x, 5 } }) -- ArgumentError: sort: out: got number 5, expected a tensor; tide.tensor(5) is one
x:sort({ out = { x, ix { 1 }, x } }) -- ArgumentError: sort: out: got table, expected a table of a tensor for each result
x:sort({ out = { 5, x } }) -- ArgumentError: sort: out: got number 5, expected a tensor; tide.tensor(5) is one
x:topk(1, { out = { x, x } }) -- ValueError: topk: out[2]: got the tensor of out[1], expected another one
x:max(1, { out = { v } }) -- ArgumentError: max: out: got table, expected a table of a tensor for each result
x:max(1, { out = v }) -- ArgumentError: max: out: got a float32 tensor [3], expected a table of a tensor for each result
x:mode({ out = { v, v } }) -- ValueError: mode: out[2]: got the tensor of out[1], expected another one
x:kthvalue(1, { out = { v, v } }) -- ValueError: kthvalue: out[2]: got the tensor of out[1], expected another one
x:cummax(1, { out = { x, x } }) -- ValueError: cummax: out[2]: got the tensor of out[1], expected another one
x:aminmax({ out = { s, s } }) -- ValueError: aminmax: out[2]: got the tensor of out[1], expected another one
x:sum(1, { out = { v } }) -- ArgumentError: sum: out: got table, expected a tensor; tide.tensor(t) makes one of a table
x:sum(1, { out = 5 }) -- ArgumentError: sum: out: got number 5, expected a tensor; tide.tensor(5) is one
L.qr(ones(2, 2), { out = { x, x } }) -- ValueError: qr: out[2]: got the tensor of out[1], expected another one
L.svd(ones(2, 2), { out = { x, x, x } }) -- ValueError: svd: out[2]: got the tensor of out[1], expected another one
L.slogdet(ones(2, 2), { out = { s, s } }) -- ValueError: slogdet: out[2]: got the tensor of out[1], expected another one
x:frexp({ out = { x, x } }) -- ValueError: frexp: out[2]: got the tensor of out[1], expected another one
x:add(1, { 2 }) -- ArgumentError: add: too many arguments: got table as argument 3, expected at most 2 and options; tide.add(x, y [, {alpha=1, out=}]) -> Tensor; x:add(y), x:add_(y), x + y
x:add(1, { alfa = 2 }) -- ArgumentError: add: unknown option 'alfa', expected y, alpha, out; tide.add(x, y [, {alpha=1, out=}]) -> Tensor; x:add(y), x:add_(y), x + y
x:add(1, { [1.5] = 2 }) -- ArgumentError: add: unknown option 'number 1.5', expected y, alpha, out; tide.add(x, y [, {alpha=1, out=}]) -> Tensor; x:add(y), x:add_(y), x + y
x:add(1, { [true] = 2 }) -- ArgumentError: add: unknown option 'boolean true', expected y, alpha, out; tide.add(x, y [, {alpha=1, out=}]) -> Tensor; x:add(y), x:add_(y), x + y
x:add(1, {}, {}) -- ArgumentError: add: too many arguments: got table as argument 3, expected at most 2 and options; tide.add(x, y [, {alpha=1, out=}]) -> Tensor; x:add(y), x:add_(y), x + y
x:sum(nil, { dim = 1 }):numel() -- = 3
x:sum(1, { keepdim = nil }):numel() -- = 3
x:narrow(1, { 1 }) -- ArgumentError: narrow: start: got table, expected an integer
x:narrow({ 1 }) -- ArgumentError: narrow: dim: got table, expected an integer
x:select({ dim = 1 }) -- ArgumentError: select: index: got nothing, expected an integer; x:select(dim, index) -> Tensor
x:select { index = 1, dim = 1, 5 } -- ArgumentError: select: dim: got table, expected an integer
x:flip() -- ArgumentError: flip: dims: got nothing, expected dimensions or a table of them; x:flip(dims... [, {out=}]) -> Tensor
x:permute() -- ArgumentError: permute: dims: got nothing, expected dimensions or a table of them; x:permute(dims...) -> Tensor
x:permute({ 2 }) -- ArgumentError: permute: wrong number of dims, got 1, expected 2
x:permute({ 2, 1, 1 }) -- ArgumentError: permute: wrong number of dims, got 3, expected 2
x:permute({ 2, 1.5 }) -- ArgumentError: permute: dims: got number 1.5, expected an integer
x:sum({ 1, 2, 1 }) -- ArgumentError: sum: dim 1 is given twice, expected every dim at most once
x:sum({ 1, 3 }) -- IndexError: sum: dim: got 3, expected 1 to 2 or -2 to -1
x:sum({ 1, '2' }) -- ArgumentError: sum: dim: got string '2', expected an integer
x:sum({ 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1 }) -- ValueError: sum: dim: got 13 values, expected at most 12
x:norm(2, { 1, 2, 3 }) -- IndexError: norm: dim: got 3, expected 1 to 2 or -2 to -1
t.tensordot(x, x, { { 1 }, { 2 } }) -- ShapeError: tensordot: got size 2 of dimension 1 of a and 3 of dimension 2 of b, expected equal sizes
x:slice(2, 3, 2):numel() -- = 0
x:slice(2, 4, 3):numel() -- = 0
x:slice(2, 4, 2) -- IndexError: slice: range: got 4 to 2 of a dimension of 3, expected both within 1 to 3 (or from the end), in order
x:slice(2, 5, 4) -- IndexError: slice: range: got 5 to 4 of a dimension of 3, expected both within 1 to 3 (or from the end), in order
x:slice(2, -4, 2) -- IndexError: slice: range: got -4 to 2 of a dimension of 3, expected both within 1 to 3 (or from the end), in order
x:slice(2, -3, 2):numel() -- = 4
x:slice(2, 1, -3):numel() -- = 2
x:slice(2, 1, 4) -- IndexError: slice: range: got 1 to 4 of a dimension of 3, expected both within 1 to 3 (or from the end), in order
x[{ {}, { 3, 2 } }]:numel() -- = 0
x[{ {}, { 4, 3 } }]:numel() -- = 0
x[{ {}, { 5, 4 } }] -- IndexError: index: range: got 5 to 4 of a dimension of 3, expected both within 1 to 3 (or from the end), in order
x[{ {}, { 1, 2, 3, 4 } }] -- ValueError: index: range: got 4 values, expected at most 3
x[{ {}, { 1, 2, 0 } }] -- ValueError: index: range: got step 0, expected at least 1
x[{ ix { 1, 3 } }] -- IndexError: index: value out of range in an index tensor, got 3, expected 1 to 2 or -2 to -1
x[{ ix { 1, 2 }, ix { 1, 2, 3 } }] -- ShapeError: index: the indexes' shapes do not fit, got [2] and [3], expected equal sizes or 1
x[{ of({ true, false, true }, 'bool') }] -- ShapeError: index: wrong shape of a mask, got [3], expected the sizes from dim 1 on of [2, 3]
x[of({ 1, 2 }, 'float32')] -- DtypeError: index: wrong dtype of the index, got float32, expected integers
x:diag(2):numel() -- = 1
x:diag(3):numel() -- = 0
x:diag(-2):numel() -- = 0
v:diag(2147483647) -- OutOfMemoryError: diag: too large, got size [2147483650, 2147483650] of float32, expected less than 2^63 bytes
v:diag(2147483648) -- ValueError: diag: k: got 2147483648, expected -2147483647 to 2147483647
v:diag(-2147483647) -- OutOfMemoryError: diag: too large, got size [2147483650, 2147483650] of float32, expected less than 2^63 bytes
v:diag(-2147483648) -- ValueError: diag: k: got -2147483648, expected -2147483647 to 2147483647
F.fft2(x, { 2, 2 }, { 1 }) -- ValueError: fft2: s: got 2 lengths for 1 dimensions, expected one for each
F.fft2(x, { 0, 2 }) -- ValueError: fft2: invalid number of points in dim 1, got 0, expected 1 to 2^31 - 1
F.fft(x, nil, { 1, 2 }) -- ValueError: fft: dim: got 2 dimensions, expected one
F.fft(x, 2, 1, 'orthx') -- ArgumentError: fft: norm: got string 'orthx', expected 'backward', 'ortho' or 'forward'
F.irfft(x, { n = 0 }) -- ValueError: irfft: n: got 0, expected at least 1
F.hfft(x, { n = 1 }):numel() -- = 2
F.fftfreq(-1) -- ValueError: fftfreq: wrong number of points, got -1, expected at least 1
t.randint(5, 4, { 2 }) -- ValueError: randint: empty range, got 5 to 4, expected the upper bound above the lower
t.randint(4, 5, { 2 }):sum():item() -- = 8
t.randint(0, 257, { 2 }, { dtype = 'uint8' }) -- ValueError: randint: value does not fit, got 256, expected one that uint8 can hold
t.randint(-1, 5, { 2 }, { dtype = 'uint8' }) -- ValueError: randint: bound does not fit, got -1, expected one that uint8 can hold
t.randperm(3, { dtype = 'bool' }) -- DtypeError: randperm: dtype not accepted, got bool, expected a real dtype
x:uniform_(1, 1):sum():item() -- = 6
x:bernoulli_(1.5) -- ValueError: bernoulli_: wrong probability, got 1.5, expected 0 to 1
x:bernoulli_(-0.1) -- ValueError: bernoulli_: wrong probability, got -0.1, expected 0 to 1
x:bernoulli_(1):sum():item() -- = 6
x:geometric_(1):sum():item() -- ValueError: geometric: wrong probability, got 1, expected between 0 and 1
x:geometric_(1.5) -- ValueError: geometric: wrong probability, got 1.5, expected between 0 and 1
x:log_normal_(0, -1) -- ValueError: log_normal_: wrong standard deviation, got -1, expected above 0
v:multinomial(4) -- ValueError: multinomial: too many places without replacement, got 4, expected at most 3, the weights above 0
v:multinomial(0) -- ValueError: multinomial: wrong n, got 0, expected at least 1
v:multinomial(3):sum():item() -- = 6
of({ -1, 2 }):multinomial(1) -- ValueError: multinomial: wrong weights, got a line that holds a negative or infinite one, NaN or zeros alone, expected weights from 0 with a finite sum above 0
t.set_rng_state(ix { 1 }) -- ArgumentError: set_rng_state: state: got an int64 tensor [1], expected 16 bytes, as get_state gives them: a uint8 tensor on the cpu
t.set_rng_state(t.get_rng_state():narrow(1, 1, 3)) -- ArgumentError: set_rng_state: state: got a uint8 tensor [3], expected 16 bytes, as get_state gives them: a uint8 tensor on the cpu
x:repeat_interleave(ix { 1, 2, 3 }, 1) -- ShapeError: repeat_interleave: n: got [3], expected one count or 2 in one dim
x:split({ 1, 1, 1 }, 1) -- ShapeError: split: sizes: they add up to another sum than 2, the size of dimension 1
x:split({ 2 }, 1)[1]:numel() -- = 6
x:split({}, 1) -- ShapeError: split: sizes: they add up to another sum than 2, the size of dimension 1
x:split({ 0, 2 }, 1)[1]:numel() -- = 0
x:tensor_split(16777217, 1) -- ValueError: tensor_split: sections: got 16777217, expected 1 to 16777216
t.bucketize(x, x) -- ShapeError: bucketize: boundaries: got 2 dimensions, expected one
ix({ 1, 2 }):bincount({ weights = v }) -- ShapeError: bincount: wrong shape of the weights, got [3], expected [2]
ix({ -1, 2 }):bincount() -- ValueError: bincount: x has a negative value, got -1, expected values from 0
v:histc(3, { 2, 1 }) -- ArgumentError: histc: min: got table, expected a number
v:histc(3, 2, 1) -- ValueError: histc: wrong bounds, got 2 and 1, expected the smaller one first
v:histc(0) -- ValueError: histc: wrong number of bins, got 0, expected at least 1
v:clamp() -- ArgumentError: clamp: got no bound, expected min, max or both: {min=0, max=1}
v:clamp(2, 1):sum():item() -- = 3
v:index_add(1, ix { 1, 4, 2 }, v) -- IndexError: index: value out of range in an index tensor, got 4, expected 1 to 3 or -3 to -1
v:scatter(1, ix { 1, 5 }, v) -- IndexError: index: value out of range in an index tensor, got 5, expected 1 to 3 or -3 to -1
v:scatter(1, ix { 1, 2 }, 'a') -- ArgumentError: scatter: value: got string 'a', expected a tensor or a number
v:gather(1, x:long()) -- ShapeError: gather: wrong number of dims of the index, got [2, 3], expected 1 as x has
v:take(ix { 4 }) -- IndexError: index: value out of range in an index tensor, got 4, expected 1 to 3 or -3 to -1
v:put(ix { 1 }, v) -- ShapeError: put: wrong number of elements of the source, got [3], expected 1 as the index has
x:unfold(2, 3, 1):numel() -- = 6
x:unfold(2, 0, 1):numel() -- = 0
x:as_strided({ 6 }, { 1 }):numel() -- = 6
x:as_strided({ 3 }, { 1 }, 4):numel() -- IndexError: as_strided: outside of the storage, got size [3], strides [1] and offset 4, expected to stay inside 6 elements
x:as_strided({ 3 }, { 1 }, 5) -- IndexError: as_strided: outside of the storage, got size [3], strides [1] and offset 5, expected to stay inside 6 elements
x:as_strided({ 0 }, { 1 }, 7):numel() -- = 0
x:as_strided({ 1, 1 }, { 1 }) -- ShapeError: as_strided: stride: got 1 values, expected 2
]==]

describe("what is at the end of a range", function()
  D.watch(before_each, after_each)

  it("is taken within it and refused outside", function() assert.are.equal("", refusal.wrong(rows)) end)

  it("of a clamp by tensors is applied to x only where both fit", function()
    local x, low, high = D.tensor { 1, 5, 9 }, D.tensor { 2, 2, 2 }, D.tensor { 7, 8, 8 }
    D.raises("ShapeError", x.clamp_, x, low, D.tensor { 7, 8 })
    D.raises("ShapeError", x.clamp, x, low, D.tensor { 7, 8 }, { out = x })
    D.eq({ 1, 5, 9 }, x)
    D.eq({ 2, 5, 8 }, x:clamp(low, high))
    D.eq({ 2, 5, 8 }, x:clamp(low, high, { out = high:clone() }))
    D.eq({ 2, 5, 8 }, x:clamp(low, high, { out = high }))
    D.eq({ 2, 5, 8 }, high)
    D.eq({ 2, 5, 7 }, x:clamp_(low, 7))
  end)
end)
