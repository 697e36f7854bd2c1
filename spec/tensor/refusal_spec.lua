-- What the functions of tensors refuse, and the whole text of each refusal: its kind, the function, what it got and
-- expected. A line of `rows` is a call and, behind the last " -- ", its error without places and devices.

local D = require "spec.support.device"
local refusal = require "spec.support.refusal"

local rows = [==[
x:narrow(3, 1, 1) -- IndexError: narrow: dim: got 3, expected 1 to 2 or -2 to -1
x:narrow(2, 4, 1) -- IndexError: narrow: length: got 1 from 4, expected at most 0
x:narrow(2, 0, 1) -- IndexError: narrow: start: got 0, expected 1 to 3 or from the end, of a dimension of 3; indexes count from 1
s:narrow(1, 1, 1) -- IndexError: narrow: dim: got 1, but the tensor has no dimensions
x:select(3, 1) -- IndexError: select: dim: got 3, expected 1 to 2 or -2 to -1
x:select(2, 4) -- IndexError: select: index: got 4, expected 1 to 3 or -3 to -1
x:select(2, -4) -- IndexError: select: index: got -4, expected 1 to 3 or -3 to -1
s:select(1, 1) -- IndexError: select: dim: got 1, but the tensor has no dimensions
x:slice(2, 1, 2, 0) -- ValueError: slice: step: got 0, expected at least 1
x:slice(3, 1, 2) -- IndexError: slice: dim: got 3, expected 1 to 2 or -2 to -1
s:slice(1, 1, 1) -- IndexError: slice: dim: got 1, but the tensor has no dimensions
x:view(-1, -1) -- ShapeError: view: sizes do not fit, got [-1, -1] for a tensor of 6 elements ([2, 3]), expected as many
e:view(-1, 0) -- ShapeError: view: the size for -1 is not determined, got [-1, 0] beside a size of 0
x:view(4, -1) -- ShapeError: view: sizes do not fit, got [4, -1] for a tensor of 6 elements ([2, 3]), expected as many
x:t():view(6) -- ShapeError: view: no strides give this shape, got [3, 2] with strides [1, 3] to [6], expected a tensor whose memory allows it: use reshape
x:reshape(-1, 4) -- ShapeError: reshape: sizes do not fit, got [-1, 4] for a tensor of 6 elements ([2, 3]), expected as many
x:view(2, -2) -- ValueError: view: sizes: got -2 in place 2, expected at least -1
x:transpose(1, 3) -- IndexError: transpose: dim2: got 3, expected 1 to 2 or -2 to -1
x:permute(1, 1) -- ArgumentError: permute: dim 1 is given twice, expected every dim once
x:permute(1, 3) -- IndexError: permute: dims: got 3, expected 1 to 2 or -2 to -1
x:movedim(1, 3) -- IndexError: movedim: destination: got 3, expected 1 to 2 or -2 to -1
x:movedim({ 1, 1 }, { 1, 2 }) -- ArgumentError: movedim: dim 1 is given twice, expected every dim at most once
x:movedim({ 1, 2 }, { 1, 1 }) -- ArgumentError: movedim: dim 1 is given twice, expected every dim at most once
x:unsqueeze(4) -- IndexError: unsqueeze: dim: got 4, expected 1 to 3 or -3 to -1
x:squeeze(3) -- IndexError: squeeze: dim: got 3, expected 1 to 2 or -2 to -1
x:expand(2) -- ShapeError: expand: x does not expand, got [2, 3] to [2], expected equal sizes or 1 in x
x:expand(-1, 2, 3) -- ShapeError: expand: x does not expand, got [2, 3] to [-1, 2, 3], expected equal sizes or 1 in x
x:expand(2, -1, 4) -- ShapeError: expand: x does not expand, got [2, 3] to [2, -1, 4], expected equal sizes or 1 in x
x:expand(3, -2) -- ValueError: expand: sizes: got -2 in place 2, expected at least -1
x:diagonal(0, 1, 1) -- ArgumentError: diagonal: both dims are 1, expected two different ones
v:diagonal() -- ShapeError: diagonal: x: got 1 dimensions, expected at least 2
x:diagonal(0, 1, 3) -- IndexError: diagonal: dim2: got 3, expected 1 to 2 or -2 to -1
x:unfold(2, 4, 1) -- ValueError: unfold: wrong window, got size 4 and step 1, expected size 0 to 3 and step of at least 1
x:unfold(2, 2, 0) -- ValueError: unfold: wrong window, got size 2 and step 0, expected size 0 to 3 and step of at least 1
x:unfold(3, 1, 1) -- IndexError: unfold: dim: got 3, expected 1 to 2 or -2 to -1
s:unfold(1, 2, 1) -- ValueError: unfold: wrong window, got size 2 and step 1, expected size 0 to 1 and step of at least 1
x:unfold(2, -1, 1) -- ValueError: unfold: wrong window, got size -1 and step 1, expected size 0 to 3 and step of at least 1
x:as_strided({ 2 }, { -1 }) -- ValueError: as_strided: stride: got -1 in place 1, expected at least 0
x:as_strided({ 7 }, { 1 }) -- IndexError: as_strided: outside of the storage, got size [7], strides [1] and offset 0, expected to stay inside 6 elements
x:as_strided({ 2, -1 }, { 1, 1 }) -- ValueError: as_strided: size: got -1 in place 2, expected at least 0
x:as_strided({ 2 }, { 1 }, 9) -- IndexError: as_strided: outside of the storage, got size [2], strides [1] and offset 9, expected to stay inside 6 elements
x:unflatten(2, { 2, 2 }) -- ShapeError: unflatten: sizes do not fit, got [2, 2] for a tensor of 3 elements ([3]), expected as many
x:unflatten(3, { 2 }) -- IndexError: unflatten: dim: got 3, expected 1 to 2 or -2 to -1
x:flatten(2, 1) -- ArgumentError: flatten: the first dim comes after the last, got 2 and 1, expected them in order
x:flatten(1, 3) -- IndexError: flatten: stop: got 3, expected 1 to 2 or -2 to -1
x:view_dtype 'float64' -- ShapeError: view_dtype: shape, strides and offset are not multiples of the new element, got [2, 3] with strides [3, 1] and offset 0, expected multiples of 2 and a contiguous last dim, as a contiguous copy of whole elements has
x:t():view_dtype 'int16' -- ShapeError: view_dtype: the last dim is not contiguous, got strides [1, 3], expected 1 at the end
x:t():view_dtype 'float64' -- ShapeError: view_dtype: shape, strides and offset are not multiples of the new element, got [3, 2] with strides [1, 3] and offset 0, expected multiples of 2 and a contiguous last dim, as a contiguous copy of whole elements has
s:view_dtype 'int16' -- ShapeError: view_dtype: the last dim is not contiguous, got strides [], expected 1 at the end
s:view_dtype 'float64' -- ShapeError: view_dtype: shape, strides and offset are not multiples of the new element, got [] with strides [] and offset 0, expected multiples of 2 and a contiguous last dim, as a contiguous copy of whole elements has
x:view_as_complex() -- ShapeError: view_as_complex: wrong layout, got [2, 3] with strides [3, 1] and offset 0, expected a last dim of 2 with stride 1 and the others even
ones(2, 3, 2):t():view_as_complex() -- ShapeError: t: x: got 3 dimensions, expected at most 2; use transpose or permute
x:to('int32'):view_as_complex() -- DtypeError: view_as_complex: dtype not accepted, got int32, expected float32 or float64
x:view_as_real() -- DtypeError: view_as_real: dtype not accepted, got float32, expected a complex dtype
s:view_as_complex() -- ShapeError: view_as_complex: wrong layout, got [] with strides [] and offset 0, expected a last dim of 2 with stride 1 and the others even
v:narrow(1, 2, 2):view_as_complex() -- ShapeError: view_as_complex: wrong layout, got [2] with strides [1] and offset 1, expected a last dim of 2 with stride 1 and the others even
x:imag() -- DtypeError: imag: dtype not accepted, got float32, expected a complex dtype
x:split(0) -- ValueError: split: size: got 0, expected at least 1 for a dimension of size 2
x:split(-1, 2) -- ValueError: split: size: got -1, expected at least 1 for a dimension of size 3
x:split({ 1, 1 }, 2) -- ShapeError: split: sizes: they add up to another sum than 3, the size of dimension 2
x:split({ 4, -1 }, 2) -- ShapeError: split: sizes: they add up to another sum than 3, the size of dimension 2
s:split(1) -- ShapeError: split: x: a tensor without dimensions cannot be split
x:chunk(0) -- ValueError: chunk: n: got 0, expected at least 1
x:chunk(2, 3) -- IndexError: chunk: dim: got 3, expected 1 to 2 or -2 to -1
s:chunk(1) -- ShapeError: chunk: x: a tensor without dimensions cannot be split
x:tensor_split(0) -- ValueError: tensor_split: sections: got 0, expected 1 to 16777216
x:tensor_split({ 2 }, 3) -- IndexError: tensor_split: dim: got 3, expected 1 to 2 or -2 to -1
s:tensor_split(2) -- ShapeError: tensor_split: x: a tensor without dimensions cannot be split
s:unbind() -- ShapeError: unbind: x: a tensor without dimensions cannot be split
x:unbind(3) -- IndexError: unbind: dim: got 3, expected 1 to 2 or -2 to -1
ones(2, 2, 2):t() -- ShapeError: t: x: got 3 dimensions, expected at most 2; use transpose or permute
x:swapaxes(1, 3) -- IndexError: swapaxes: dim2: got 3, expected 1 to 2 or -2 to -1
x:broadcast_to(2) -- ShapeError: expand: x does not expand, got [2, 3] to [2], expected equal sizes or 1 in x
x:broadcast_to(4, 3) -- ShapeError: expand: x does not expand, got [2, 3] to [4, 3], expected equal sizes or 1 in x
t.broadcast_tensors { x, ones(4) } -- ShapeError: broadcast: shapes do not fit, got [2, 3] and [4], expected equal sizes or 1
t.cat({}) -- ValueError: cat: tensors: got an empty list, expected at least one tensor
t.cat({ x, ones(2, 4) }) -- ShapeError: cat: shapes do not fit along dim 1, got [2, 4] for tensor 2 beside [2, 3], expected equal sizes in the other dims
t.cat({ x, v }) -- ShapeError: cat: shapes do not fit along dim 1, got [3] for tensor 2 beside [2, 3], expected equal sizes in the other dims
t.cat({ x, x }, 3) -- IndexError: cat: dim: got 3, expected 1 to 2 or -2 to -1
t.cat({ s, s }) -- ShapeError: cat: 0-d tensors cannot be joined, got a 0-d tensor, expected at least one dim: use stack
t.cat({ x, ones(3, 3) }, 2) -- ShapeError: cat: shapes do not fit along dim 2, got [3, 3] for tensor 2 beside [2, 3], expected equal sizes in the other dims
t.stack({}) -- ValueError: stack: tensors: got an empty list, expected at least one tensor
t.stack({ x, ones(2, 4) }) -- ShapeError: stack: shapes do not fit along dim 1, got [2, 4] for tensor 2 beside [2, 3], expected equal sizes in the other dims
t.stack({ x, x }, 4) -- IndexError: stack: dim: got 4, expected 1 to 3 or -3 to -1
t.cat({ x, x }, 1, { out = ones(4, 4) }) -- ShapeError: cat: wrong shape of the destination, got [4, 4], expected [4, 3]
t.stack({ x, x }, 1, { out = ones(2, 3) }) -- ShapeError: stack: wrong shape of the destination, got [2, 3], expected [2, 2, 3]
t.cat({ x, x }, 1, { out = x }) -- ShapeError: cat: wrong shape of the destination, got [2, 3], expected [4, 3]
x:flip(1, 1) -- ArgumentError: flip: dim 1 is given twice, expected every dim at most once
x:flip(3) -- IndexError: flip: dims: got 3, expected 1 to 2 or -2 to -1
x:roll({ 1, 2 }, { 1 }) -- ShapeError: roll: shifts: got 2, expected 1, one for each dimension
x:roll(1, 3) -- IndexError: roll: dims: got 3, expected 1 to 2 or -2 to -1
x:rot90(1, { 1, 1 }) -- ArgumentError: rot90: both dims are 1, expected two different ones
v:rot90() -- ShapeError: rot90: x: got 1 dimensions, expected at least 2
x:rot90(1, { 1, 3 }) -- IndexError: rot90: dims: got 3, expected 1 to 2 or -2 to -1
x:rot90(1, { 1 }) -- ShapeError: rot90: dims: expected a table of two dimensions
x:tile(-1) -- ValueError: tile: repeats: got -1 in place 1, expected at least 0
x:repeat_interleave(-1) -- ValueError: repeat_interleave: n: got -1, expected at least 0
x:repeat_interleave(ix { 1, 2 }, 2) -- ShapeError: repeat_interleave: n: got [2], expected one count or 3 in one dim
x:repeat_interleave(of({ 1.5, 2 }), 1) -- DtypeError: repeat_interleave: n: got float32, expected integers
x:repeat_interleave(ix { 1, -2 }, 1) -- ValueError: repeat_interleave: n: got -2, expected at least 0
x:repeat_interleave(2, 3) -- IndexError: repeat_interleave: dim: got 3, expected 1 to 2 or -2 to -1
t.block_diag(ones(1, 1, 1)) -- ShapeError: block_diag: tensors[1]: got a float32 tensor [1, 1, 1], expected at most 2 dimensions
t.meshgrid {} -- ValueError: meshgrid: tensors: got an empty list, expected at least one tensor
t.meshgrid { x } -- ShapeError: meshgrid: tensors: number 1 has 2 dimensions, expected at most 1
t.cartesian_prod { x, v } -- ShapeError: cartesian_prod: tensors[1]: got a float32 tensor [2, 3], expected one dimension
t.combinations(x) -- ShapeError: combinations: x: got a float32 tensor [2, 3], expected one dimension
t.combinations(v, -1) -- ValueError: combinations: r: got -1, expected at least 0
v:tril() -- ShapeError: tril: too few dims, got [3], expected at least 2 dims
v:triu() -- ShapeError: triu: too few dims, got [3], expected at least 2 dims
t.tril_indices(-1, 2) -- ValueError: tril_indices: n: got -1, expected at least 0
t.vander(x) -- ShapeError: vander: x: got a float32 tensor [2, 3], expected one dimension
t.vander(v, -1) -- ValueError: vander: n: got -1, expected at least 0
t.hstack {} -- ValueError: hstack: tensors: got an empty table, expected at least one tensor
x:resize_(-1) -- ValueError: resize_: sizes: got -1 in place 1, expected at least 0
t.one_hot(of { 0, 1 }) -- DtypeError: one_hot: wrong dtype of the index, got float32, expected integers
t.one_hot(ix { 1, 5 }, 3) -- IndexError: index: value out of range in an index tensor, got 5, expected 1 to 3 or -3 to -1
t.one_hot(ix { -1 }) -- IndexError: one_hot: the largest index is -1, expected at least 1
t.one_hot(ix { 1 }, 0) -- ValueError: one_hot: wrong number of classes, got 0, expected at least 1
t.embedding(x, of { 1 }) -- DtypeError: index: wrong dtype of the index, got float32, expected integers
t.embedding(v, ix { 1 }) -- ShapeError: embedding: weight: got 1 dimensions, expected 2
t.embedding(x, ix { 9 }) -- IndexError: index: value out of range in an index tensor, got 9, expected 1 to 2 or -2 to -1
x:index_select(3, ix { 1 }) -- IndexError: index_select: dim: got 3, expected 1 to 2 or -2 to -1
x:index_select(1, of { 1 }) -- DtypeError: index: wrong dtype of the index, got float32, expected integers
x:index_select(1, ix { { 1 } }) -- ShapeError: index_select: index: got 2 dimensions, expected 1
x:index_select(1, ix { 3 }) -- IndexError: index: value out of range in an index tensor, got 3, expected 1 to 2 or -2 to -1
x:index_select(1, ix { 0 }) -- IndexError: index: value out of range in an index tensor, got 0, expected 1 to 2 or -2 to -1; indexes count from 1
x:index_fill(1, ix { 1 }, v) -- ShapeError: index_fill: wrong shape of the value, got [3], expected a number or a tensor without dims
x:index_fill(1, of { 1 }, 2) -- DtypeError: index_fill: wrong dtype of the index, got float32, expected integers
x:index_fill(3, ix { 1 }, 2) -- IndexError: index_fill: dim: got 3, expected 1 to 2 or -2 to -1
x:index_fill(1, ix { 3 }, 2) -- IndexError: index: value out of range in an index tensor, got 3, expected 1 to 2 or -2 to -1
x:index_copy(1, ix { 1 }, ones(2, 3)) -- ShapeError: index_copy: wrong shape of the source, got [2, 3], expected that of x, [2, 3], with 1 along dim 1
x:index_copy(1, ix { 1 }, ones(1, 2)) -- ShapeError: index_copy: wrong shape of the source, got [1, 2], expected that of x, [2, 3], with 1 along dim 1
x:index_copy(1, ix { { 1 } }, ones(1, 3)) -- ShapeError: index_copy: wrong shape of the index, got [1, 1], expected one dim
x:index_copy(1, ix { 1 }, of({ { 1, 2, 3 } }, 'int32')) -- DtypeError: index_copy: wrong dtype of the source, got int32, expected float32 as x has
x:index_add(1, ix { 1 }, ones(2, 3)) -- ShapeError: index_add: wrong shape of the source, got [2, 3], expected that of x, [2, 3], with 1 along dim 1
x:index_add(1, ix { 1, 1, 1 }, ones(2, 3)) -- ShapeError: index_add: wrong shape of the source, got [2, 3], expected that of x, [2, 3], with 3 along dim 1
x:index_add(3, ix { 1 }, x) -- IndexError: index_add: dim: got 3, expected 1 to 2 or -2 to -1
b:index_add(1, ix { 1 }, b) -- ShapeError: index_add: wrong shape of the source, got [2], expected that of x, [2], with 1 along dim 1
x:gather(1, ix { { 3 } }) -- IndexError: index: value out of range in an index tensor, got 3, expected 1 to 2 or -2 to -1
x:gather(1, ix { 1 }) -- ShapeError: gather: wrong number of dims of the index, got [1], expected 2 as x has
x:gather(1, of { { 1 } }) -- DtypeError: gather: wrong dtype of the index, got float32, expected integers
x:gather(3, ix { { 1 } }) -- IndexError: gather: dim: got 3, expected 1 to 2 or -2 to -1
x:gather(1, ones(1, 4):to('int64')) -- ShapeError: gather: the index is larger than x, got [1, 4], expected at most [2, 3], but along dim
x:take_along_dim(ix { 1 }, 1) -- ShapeError: take_along_dim: wrong number of dims of the index, got [1], expected 2 as x has
x:take_along_dim(ix { { 1, 1 } }, 1) -- ShapeError: take_along_dim: the shapes do not fit, got [2, 3] and [1, 2], expected equal sizes or 1, but along dim
x:take_along_dim(of({ { 1 } }), 1) -- DtypeError: take_along_dim: wrong dtype of the index, got float32, expected integers
x:scatter(1, ix { { 3 } }, 1) -- IndexError: index: value out of range in an index tensor, got 3, expected 1 to 2 or -2 to -1
x:scatter(1, ix { { 1, 1 } }, ones(1, 1)) -- ShapeError: scatter: the index is larger than the source, got [1, 2], expected at most [1, 1]
x:scatter(1, ix { { 1 } }, of({ { 1 } }, 'int32')) -- DtypeError: scatter: wrong dtype of the source, got int32, expected float32 as x has
x:scatter(1, of({ { 1 } }), 1) -- DtypeError: scatter: wrong dtype of the index, got float32, expected integers
x:scatter(3, ix { { 1 } }, 1) -- IndexError: scatter: dim: got 3, expected 1 to 2 or -2 to -1
x:scatter(1, ix { 1 }, 1) -- ShapeError: scatter: wrong number of dims of the index, got [1], expected 2 as x has
x:scatter_add(1, ones(1, 4):to('int64'), ones(1, 4)) -- ShapeError: scatter: the index is larger than x, got [1, 4], expected at most [2, 3], but along dim
x:scatter_add(1, ix { { 1 } }, ones(1)) -- ShapeError: scatter: wrong number of dims of the source, got [1], expected 2 as x has
c:scatter_reduce(1, ix { 1 }, c:narrow(1, 1, 1), 'amax') -- DtypeError: scatter: complex numbers have no order, got complex64, expected a real dtype
x:take(of { 1 }) -- DtypeError: take: wrong dtype of the index, got float32, expected integers
x:take(ix { 7 }) -- IndexError: index: value out of range in an index tensor, got 7, expected 1 to 6 or -6 to -1
x:take(ix { 0 }) -- IndexError: index: value out of range in an index tensor, got 0, expected 1 to 6 or -6 to -1; indexes count from 1
x:put(ix { 7 }, of { 1 }) -- IndexError: index: value out of range in an index tensor, got 7, expected 1 to 6 or -6 to -1
x:put(of { 1 }, of { 1 }) -- DtypeError: put: wrong dtype of the index, got float32, expected integers
x:put(ix { 1, 2 }, of { 1 }) -- ShapeError: put: wrong number of elements of the source, got [1], expected 2 as the index has
x:put(ix { 1 }, of({ 1 }, 'int32')) -- DtypeError: put: wrong dtype of the source, got int32, expected float32 as x has
x:masked_fill(x, 1) -- DtypeError: masked_fill: wrong dtype of the mask, got float32, expected bool
x:masked_fill(of({ true, false }, 'bool'), 1) -- ShapeError: broadcast: shapes do not fit, got [2, 3] and [2], expected equal sizes or 1
x:masked_fill(b, x) -- ShapeError: masked_fill: value: got a tensor of 2 dimensions, expected a number or a tensor without dimensions
x:masked_select(x) -- DtypeError: masked_select: wrong dtype of the mask, got float32, expected bool
x:masked_select(of({ true, false }, 'bool')) -- ShapeError: masked_select: wrong shape of the mask, got [2], expected one that broadcasts to [2, 3]
x:masked_scatter(x, x) -- DtypeError: masked_scatter: wrong dtype of the mask, got float32, expected bool
x:masked_scatter(ones(2, 3):to('bool'), v) -- ShapeError: masked_scatter: too few elements in the source, got 3, expected at least 6, as many as the mask holds
x:masked_scatter(ones(2, 3):to('bool'), of({ 1, 2, 3, 4, 5, 6 }, 'int32')) -- DtypeError: masked_scatter: wrong dtype of the source, got int32, expected float32 as x has
x:index_put({ x }, x) -- DtypeError: index_put: wrong dtype of an index, got float32, expected integers or bool
x:index_put({ ix { 1 }, ix { 1 }, ix { 1 } }, 1) -- IndexError: index: got 3 entries, expected at most 2, one for each dimension; a range is a table in it: x[{ {1, 2} }]
x:index_put({ ix { 3 } }, 1) -- IndexError: index: value out of range in an index tensor, got 3, expected 1 to 2 or -2 to -1
x:index_put({ ix { 1, 2 }, ix { 1, 2, 3 } }, 1) -- ShapeError: index_put: the indexes' shapes do not fit, got [2] and [3], expected equal sizes or 1
x:index_put({ ix { 1, 2 } }, ones(2, 2)) -- ShapeError: index: wrong shape of the value, got [2, 2], expected one that broadcasts to [2, 3]
x:index_put({ of({ true }, 'bool') }, 1) -- ShapeError: index_put: wrong shape of a mask, got [1], expected the sizes from dim 1 on of [2, 3]
x[{ 3 }] -- IndexError: index: key: got 3, expected 1 to 2 or -2 to -1
x[3] -- IndexError: index: key: got 3, expected 1 to 2 or -2 to -1
x[of({ true, true, true }, 'bool')] -- ShapeError: index: key: the mask has 3 elements in dimension 1, expected 2 as the tensor has
x[{ 1, 2, 3 }] -- IndexError: index: got 3 entries, expected at most 2, one for each dimension; a range is a table in it: x[{ {1, 2} }]
e[{ 1 }] -- IndexError: index: key: got 1, but the dimension is empty
e:index_select(1, ix { 1 }) -- IndexError: index: the indexed dim has size 0, got 1 index values, expected none
e:index_put({ ix { 1 } }, 1) -- IndexError: index: the indexed dim has size 0, got 1 index values, expected none
x:sum(3) -- IndexError: sum: dim: got 3, expected 1 to 2 or -2 to -1
x:sum({ 1, 1 }) -- ArgumentError: sum: dim 1 is given twice, expected every dim at most once
x:mean(1, { dtype = 'int32' }) -- DtypeError: mean: dtype not accepted, got int32, expected a floating or complex dtype: give one as dtype
x:to('int32'):mean() -- DtypeError: mean: dtype not accepted, got int32, expected a floating or complex dtype: give one as dtype
x:sum(1, { out = ones(2) }) -- ShapeError: sum: wrong shape of the destination, got [2], expected [3]
x:argmax(3) -- IndexError: argmax: dim: got 3, expected 1 to 2 or -2 to -1
e:argmax() -- ValueError: argmax: nothing to choose from, got size 0 in dim 1 of [0, 3], expected at least one element
e:amax() -- ValueError: max: nothing to choose from, got size 0 in dim 1 of [0, 3], expected at least one element
e:max(1) -- ValueError: max: nothing to choose from, got size 0 in dim 1 of [0, 3], expected at least one element
e:aminmax() -- ValueError: min: nothing to choose from, got size 0 in dim 1 of [0, 3], expected at least one element
c:amax() -- DtypeError: max: dtype not accepted, got complex64, expected a real dtype
c:argmax() -- DtypeError: argmax: dtype not accepted, got complex64, expected a real dtype
c:median() -- DtypeError: median: dtype not accepted, got complex64, expected a real dtype
c:sort() -- DtypeError: sort: dtype not accepted, got complex64, expected a real dtype
c:aminmax(1) -- DtypeError: min: dtype not accepted, got complex64, expected a real dtype
c:max(1) -- DtypeError: max: dtype not accepted, got complex64, expected a real dtype
x:var(3) -- IndexError: var: dim: got 3, expected 1 to 2 or -2 to -1
x:to('int32'):var() -- DtypeError: var: dtype not accepted, got int32, expected a floating dtype
x:std({ 1, 1 }) -- ArgumentError: std: dim 1 is given twice, expected every dim at most once
b:sum(2) -- IndexError: sum: dim: got 2, expected 1 to 1 or -1 to -1
x:to('int32'):norm() -- DtypeError: norm: dtype not accepted, got int32, expected a floating dtype
x:norm(2, 3) -- IndexError: norm: dim: got 3, expected 1 to 2 or -2 to -1
x:kthvalue(0) -- ValueError: kthvalue: k does not fit, got 0, expected 1 to 3
x:kthvalue(4) -- ValueError: kthvalue: k does not fit, got 4, expected 1 to 3
x:kthvalue(1, 3) -- IndexError: kthvalue: dim: got 3, expected 1 to 2 or -2 to -1
s:kthvalue(2) -- ValueError: kthvalue: k does not fit, got 2, expected 1 to 1
c:kthvalue(1) -- DtypeError: kthvalue: dtype not accepted, got complex64, expected a real dtype
x:quantile(1.5) -- ValueError: quantile: q: got a value below 0 or above 1, expected 0 to 1
x:quantile(0.5, 3) -- IndexError: quantile: dim: got 3, expected 1 to 2 or -2 to -1
x:to('int32'):quantile(0.5) -- DtypeError: quantile: x: got int32, expected float32 or float64
x:quantile(ones(1, 1)) -- ShapeError: quantile: q: got 2 dimensions, expected at most one
e:quantile(0.5) -- ShapeError: quantile: x: got no elements, expected some
c:mode() -- DtypeError: mode: dtype not accepted, got complex64, expected a real dtype
x:mode(3) -- IndexError: mode: dim: got 3, expected 1 to 2 or -2 to -1
c:all(2) -- IndexError: all: dim: got 2, expected 1 to 1 or -1 to -1
x:count_nonzero(3) -- IndexError: count_nonzero: dim: got 3, expected 1 to 2 or -2 to -1
x:prod(3) -- IndexError: prod: dim: got 3, expected 1 to 2 or -2 to -1
x:nansum(3) -- IndexError: nansum: dim: got 3, expected 1 to 2 or -2 to -1
c:nansum() -- DtypeError: nansum: dtype not accepted, got complex64, expected a real dtype
ones(0):max(1) -- ValueError: max: nothing to choose from, got size 0 in dim 1 of [0], expected at least one element
ones(0):argmin() -- ValueError: argmin: nothing to choose from, got size 0 in dim 1 of [0], expected at least one element
x:max(3) -- IndexError: max: dim: got 3, expected 1 to 2 or -2 to -1
x:max(1, { out = { v, v } }) -- ValueError: max: out[2]: got the tensor of out[1], expected another one
x:median(1, { out = { v, ones(2) } }) -- ShapeError: median: wrong shape of the destination, got [2], expected [3]
x:cumsum(3) -- IndexError: cumsum: dim: got 3, expected 1 to 2 or -2 to -1
x:cumprod(0) -- IndexError: cumprod: dim: got 0, expected 1 to 2 or -2 to -1; indexes and dimensions count from 1
c:cummax(1) -- DtypeError: cummax: dtype not accepted, got complex64, expected a real dtype
x:to('int32'):logcumsumexp(1) -- DtypeError: logcumsumexp: dtype not accepted, got int32, expected a floating dtype
x:cummin(3) -- IndexError: cummin: dim: got 3, expected 1 to 2 or -2 to -1
x:diff { n = -1 } -- ValueError: diff: n: got -1, expected at least 0
x:diff { dim = 3 } -- IndexError: diff: dim: got 3, expected 1 to 2 or -2 to -1
s:diff() -- ShapeError: diff: x has no dims, got a tensor of one element, expected at least one dim
x:diff { prepend = ones(3, 1) } -- ShapeError: diff: prepend: got a float32 tensor [3, 1], expected the sizes of x, a float32 tensor [2, 3], but for dimension 2
x:cumsum(1, { out = v }) -- ShapeError: cumsum: wrong shape of the destination, got [3], expected [2, 3]
t.trapezoid(s) -- ShapeError: trapezoid: y has no dimensions, got a single number, expected points in a line
t.trapezoid(x, v, { dim = 3 }) -- IndexError: trapezoid: dim: got 3, expected 1 to 2 or -2 to -1
t.cumulative_trapezoid(s) -- ShapeError: cumulative_trapezoid: y has no dimensions, got a single number, expected points in a line
x:cumsum(1, { dtype = 'bool' }) -- DtypeError: cumsum: dtype not accepted, got bool, expected a dtype of numbers
x:sort(3) -- IndexError: sort: dim: got 3, expected 1 to 2 or -2 to -1
x:topk(4) -- ValueError: topk: k does not fit, got 4, expected 0 to 3
x:topk(-1) -- ValueError: topk: k does not fit, got -1, expected 0 to 3
x:topk(1, 3) -- IndexError: topk: dim: got 3, expected 1 to 2 or -2 to -1
s:topk(2) -- ValueError: topk: k does not fit, got 2, expected 0 to 1
s:topk(0) -- ValueError: topk: k does not fit, got 0 of a tensor without dims, expected 1
c:topk(1) -- DtypeError: topk: dtype not accepted, got complex64, expected a real dtype
c:argsort() -- DtypeError: sort: dtype not accepted, got complex64, expected a real dtype
x:argsort(3) -- IndexError: argsort: dim: got 3, expected 1 to 2 or -2 to -1
t.searchsorted(x, v) -- ShapeError: searchsorted: wrong shape of sorted, got [2, 3], expected one dim, or the dims of x, [3], but for the last
t.searchsorted(c, c) -- DtypeError: searchsorted: wrong dtypes, got sorted complex64 and x complex64, expected one real dtype
t.searchsorted(v, c) -- DtypeError: searchsorted: wrong dtypes, got sorted float32 and x complex64, expected one real dtype
t.searchsorted(v, v, { sorter = v }) -- DtypeError: searchsorted: wrong dtype of the sorter, got float32, expected int64
t.searchsorted(v, v, { sorter = ix { 1 } }) -- ShapeError: searchsorted: wrong shape of the sorter, got [1], expected [3]
t.searchsorted(v, of({ 1 }, 'int32')) -- DtypeError: searchsorted: wrong dtypes, got sorted float32 and x int32, expected one real dtype
t.searchsorted(s, v) -- ShapeError: searchsorted: wrong shape of sorted, got [], expected one dim, or the dims of x, [3], but for the last
t.bucketize(v, x) -- ShapeError: bucketize: boundaries: got 2 dimensions, expected one
c:unique() -- DtypeError: unique: dtype not accepted, got complex64, expected a real dtype
x:unique { dim = 3 } -- IndexError: unique: dim: got 3, expected 1 to 2 or -2 to -1
x:sort(1, { out = { v, v } }) -- ValueError: sort: out[2]: got the tensor of out[1], expected another one
c:unique { dim = 1 } -- DtypeError: unique: dtype not accepted, got complex64, expected a real dtype
t.isin(c, c) -- DtypeError: isin: dtype not accepted, got complex64, expected a real dtype
t.bincount(x) -- ShapeError: bincount: wrong shape of x, got [2, 3], expected one dim
t.bincount(v) -- DtypeError: bincount: wrong dtype of x, got float32, expected integers
t.bincount(ix { -1 }) -- ValueError: bincount: x has a negative value, got -1, expected values from 0
t.bincount(ix { 1, 2 }, v) -- ShapeError: bincount: wrong shape of the weights, got [3], expected [2]
t.bincount(ix { 1 }, nil, -1) -- ValueError: bincount: minlength: got -1, expected at least 0
t.bincount(ix { { 1 } }) -- ShapeError: bincount: wrong shape of x, got [1, 1], expected one dim
x:histc(0) -- ValueError: histc: wrong number of bins, got 0, expected at least 1
x:histc(4, 2, 1) -- ValueError: histc: wrong bounds, got 2 and 1, expected the smaller one first
c:histc(4) -- DtypeError: histc: wrong dtype of x, got complex64, expected real numbers
x:histc(4, 0, 1/0) -- ValueError: histc: the bounds are not finite, got 0 and inf, expected finite ones
of({ 0/0, 1 }):histc(4) -- ValueError: histc: the bounds are not finite, got nan and nan, expected finite ones
t.histogram(x, x) -- ShapeError: histogram: wrong shape of the edges, got [2, 3], expected one dim of at least 2
t.histogram(x, of { 1 }) -- ShapeError: histogram: wrong shape of the edges, got [1], expected one dim of at least 2
t.histogram(x, 0) -- ValueError: histogram: bins: got 0, expected at least 1
t.histogram(x, 3, { range = { 2, 1 } }) -- ValueError: histogram: wrong bounds, got 2 and 1, expected the smaller one first
t.histogram(x, 3, { range = { 0, 1/0 } }) -- ValueError: histogram: the bounds are not finite, got 0 and inf, expected finite ones
t.histogram(x:to('int32'), 3) -- DtypeError: histogram: wrong dtype of x, got int32, expected floats
t.histogram(x, 3, { weight = v }) -- ShapeError: histogram: wrong shape of the weights, got [3], expected [2, 3]
t.histogramdd(v, { 2 }) -- ShapeError: histogramdd: x: got a float32 tensor [3], expected points [..., d] in at least 2 dimensions
t.histogramdd(x, { 2 }) -- ValueError: histogramdd: bins: got 1 values, expected 3, one for each coordinate
t.histogramdd(x, { 2, 2, 0 }) -- ValueError: histogramdd: bins[3]: got 0, expected at least 1
t.histogramdd(x:to('int32'), { 2, 2, 2 }) -- DtypeError: histogramdd: x: got int32, expected float32 or float64
t.histogramdd(x, { of { 1, 2 }, of { 1 }, of { 1, 2 } }) -- ShapeError: histogramdd: bins[2]: got a float32 tensor [1], expected at least 2 edges in one dimension
t.histogram(x, of({ 1, 2 }, 'int32')) -- DtypeError: histogram: wrong dtype of the edges, got int32, expected float32 as x has
t.matmul(x, x) -- ShapeError: matmul: shapes do not fit, got [2, 3] and [2, 3], expected the last size of the first equal to the last but one of the second
t.matmul(s, x) -- ShapeError: matmul: shapes do not fit, got [] and [2, 3], expected at least one dim each
t.matmul(x, of({ 1, 2, 3 }, 'float64')) -- DtypeError: matmul: different dtypes, got float32 and float64, expected one dtype
t.matmul(ones(2, 2, 3), ones(3, 3, 2)) -- ShapeError: matmul: shapes do not fit, got [2, 2, 3] and [3, 3, 2], expected batch dims that are equal or 1
t.mm(x, v) -- ShapeError: mm: wrong number of dims, got [2, 3] and [3], expected 2 and 2 dims
t.mm(x, x) -- ShapeError: mm: shapes do not fit, got [2, 3] and [2, 3], expected the last size of the first equal to the last but one of the second
t.bmm(x, x) -- ShapeError: bmm: wrong number of dims, got [2, 3] and [2, 3], expected 3 and 3 dims
t.bmm(ones(2, 2, 3), ones(3, 3, 2)) -- ShapeError: bmm: shapes do not fit, got [2, 2, 3] and [3, 3, 2], expected equal batch sizes
t.bmm(ones(2, 2, 3), ones(2, 2, 3)) -- ShapeError: bmm: shapes do not fit, got [2, 2, 3] and [2, 2, 3], expected the last size of the first equal to the last but one of the second
t.mv(x, ones(2)) -- ShapeError: mv: shapes do not fit, got [2, 3] and [2], expected the last size of the first equal to the last but one of the second
t.mv(v, v) -- ShapeError: mv: wrong number of dims, got [3] and [3], expected 2 and 1 dims
t.dot(v, ones(2)) -- ShapeError: dot: shapes do not fit, got [3] and [2], expected the last size of the first equal to the last but one of the second
t.dot(x, v) -- ShapeError: dot: wrong number of dims, got [2, 3] and [3], expected 1 and 1 dims
t.outer(x, v) -- ShapeError: outer: got 2 and 1 dimensions, expected 1 and 1
t.addmm(ones(4), x, x:t()) -- ShapeError: addmm: wrong shape of c, got [4], expected one that broadcasts to [2, 2]
t.addmm(ones(2, 2), x, x) -- ShapeError: addmm: shapes do not fit, got [2, 3] and [2, 3], expected the last size of the first equal to the last but one of the second
t.addmm(ones(2, 2):to('float64'), x, x:t()) -- DtypeError: addmm: different dtypes, got float64 for c beside float32, expected one dtype
t.addmv(v, x, v) -- ShapeError: addmm: wrong shape of c, got [3], expected one that broadcasts to [2]
t.addmv(ones(2), x, ones(2)) -- ShapeError: addmm: shapes do not fit, got [2, 3] and [2], expected the last size of the first equal to the last but one of the second
t.baddbmm(ones(2, 2), ones(2, 2, 3), ones(2, 2, 3)) -- ShapeError: addmm: shapes do not fit, got [2, 2, 3] and [2, 2, 3], expected the last size of the first equal to the last but one of the second
t.baddbmm(ones(2, 2), x, x) -- ShapeError: baddbmm: got factors of 2 and 2 dimensions, expected 3 and 3
t.addmm(v, x, v) -- ShapeError: addmm: got factors of 2 and 1 dimensions, expected 2 and 2
t.matmul(b, b) -- DtypeError: matmul: dtype not accepted, got bool, expected numbers
t.tensordot(x, x, 3) -- ValueError: tensordot: dims: got 3 of a float32 tensor [2, 3] and a float32 tensor [2, 3], expected 0 to 2
t.tensordot(x, x, 1) -- ShapeError: tensordot: got size 3 of dimension 2 of a and 2 of dimension 1 of b, expected equal sizes
t.tensordot(x, x, { { 1 }, { 1, 2 } }) -- ValueError: tensordot: dims: got 1 of a and 2 of b, expected as many
t.cross(ones(2), ones(2)) -- ShapeError: cross: got a float32 tensor [2] and a float32 tensor [2], expected as many dimensions, and size 3 of dimension 1
t.cross(v, v, { dim = 2 }) -- IndexError: cross: dim: got 2, expected 1 to 1 or -1 to -1
t.cdist(v, x) -- ShapeError: cdist: got a float32 tensor [3] and a float32 tensor [2, 3], expected points in at least 2 dimensions
t.cdist(x, ones(2, 4)) -- ShapeError: cdist: got a float32 tensor [2, 3] and a float32 tensor [2, 4], expected as many coordinates
t.cdist(x, x:to('int32')) -- DtypeError: cdist: y: got int32, expected a floating dtype
t.cdist(c, c) -- DtypeError: cdist: x: got complex64, expected a floating dtype
t.cdist(ones(2, 2, 3), ones(3, 2, 3)) -- ShapeError: cdist: got a float32 tensor [2, 2, 3] and a float32 tensor [3, 2, 3], expected batch sizes that are equal or 1
t.einsum('ij,jk', x, x) -- ShapeError: einsum: operand 2: got size 2 of dimension 1 ('j'), expected 3 as in operand 1, of 'ij,jk'
t.matmul(x, x:t(), { out = ones(3, 3) }) -- ShapeError: matmul: wrong shape of the destination, got [3, 3], expected [2, 2]
L.cholesky(x) -- ShapeError: cholesky: x is not square, got [2, 3], expected [..., n, n]
L.cholesky(v) -- ShapeError: cholesky: x is not square, got [3], expected [..., n, n]
L.cholesky(of { { 1, 2 }, { 2, 1 } }) -- ValueError: cholesky: x is not positive definite, got a leading minor of order 2 that is not, expected all of them to be
L.cholesky(of { { { 1, 0 }, { 0, 1 } }, { { 1, 2 }, { 2, 1 } } }) -- ValueError: cholesky: x of batch [2] is not positive definite, got a leading minor of order 2 that is not, expected all of them to be
L.cholesky(of({ { 1 } }, 'int32')) -- DtypeError: cholesky: dtype of x not accepted, got int32, expected float32, float64 or a complex dtype
L.inv(of { { 1, 1 }, { 1, 1 } }) -- ValueError: inv: x is singular, got a zero on the diagonal of U in row 2, expected an invertible matrix
L.inv(of { { { 1, 0 }, { 0, 1 } }, { { 1, 1 }, { 1, 1 } } }) -- ValueError: inv: x of batch [2] is singular, got a zero on the diagonal of U in row 2, expected an invertible matrix
L.inv(of { { { { 1 } }, { { 1 } } }, { { { 0 } }, { { 1 } } } }) -- ValueError: inv: x of batch [2, 1] is singular, got a zero on the diagonal of U in row 1, expected an invertible matrix
L.inv(x) -- ShapeError: inv: x is not square, got [2, 3], expected [..., n, n]
L.solve(of { { 1, 1 }, { 1, 1 } }, ones(2, 1)) -- ValueError: solve: a is singular, got a zero on the diagonal of U in row 2, expected an invertible matrix
L.solve(ones(2, 2), ones(3, 1)) -- ShapeError: solve: b does not fit a, got [3] of b and 2 of a, expected as many
L.solve(ones(2, 2), s) -- ShapeError: solve: b is no batch of matrices, got [], expected [..., n, k]
L.solve(ones(3, 2, 2), ones(2, 2, 1)) -- ShapeError: solve: batches do not broadcast, got [3] and [2]
L.solve(x, x) -- ShapeError: solve: a is not square, got [2, 3], expected [..., n, n]
L.solve(ones(2, 2), ones(2, 1):to('float64')) -- DtypeError: solve: a and b have different dtypes, got float32 and float64, expected one
L.det(x) -- ShapeError: det: x is not square, got [2, 3], expected [..., n, n]
L.slogdet(v) -- ShapeError: slogdet: x is not square, got [3], expected [..., n, n]
L.eigh(x) -- ShapeError: eigh: x is not square, got [2, 3], expected [..., n, n]
L.eig(x) -- ShapeError: eig: x is not square, got [2, 3], expected [..., n, n]
L.eigh(of { { 0/0 } }) -- ValueError: eigh: x holds infinities or NaN, expected finite values
L.eig(of { { 1/0 } }) -- ValueError: eig: x holds infinities or NaN, expected finite values
L.svd(of { { 0/0 } }) -- ValueError: svd: x holds infinities or NaN, expected finite values
L.svd(v) -- ShapeError: svd: x is no batch of matrices, got [3], expected [..., m, n]
L.qr(v) -- ShapeError: qr: x is no batch of matrices, got [3], expected [..., m, n]
L.qr(x:to('int64')) -- DtypeError: qr: dtype of x not accepted, got int64, expected float32, float64 or a complex dtype
L.lu(v) -- ShapeError: lu: x is no batch of matrices, got a float32 tensor [3], expected [..., m, n]
L.lstsq(x, v) -- ShapeError: lstsq: b does not fit a, got a float32 tensor [3] and a float32 tensor [2, 3], expected [..., m, k] and [..., m, n]
L.lstsq(x, ones(3, 1)) -- ShapeError: lstsq: b does not fit a, got a float32 tensor [3, 1] and a float32 tensor [2, 3], expected [..., m, k] and [..., m, n]
L.lstsq(v, v) -- ShapeError: lstsq: x is no batch of matrices, got a float32 tensor [3], expected [..., m, n]
L.triangular_solve(ones(2, 2), ones(3, 1)) -- ShapeError: triangular_solve: b does not fit a, got [3] of b and 2 of a, expected as many
L.triangular_solve(x, ones(2, 1)) -- ShapeError: triangular_solve: a is not square, got [2, 3], expected [..., n, n]
L.triangular_solve(ones(2, 2), ones(2, 1):to('float64')) -- DtypeError: triangular_solve: a and b have different dtypes, got float32 and float64, expected one
L.matrix_power(x, 2) -- ShapeError: matrix_power: x is not square, got a float32 tensor [2, 3], expected [..., n, n]
L.matrix_power(of { { 1, 1 }, { 1, 1 } }, -1) -- ValueError: matrix_power: x is singular, got a zero on the diagonal of U in row 2, expected an invertible matrix
L.matrix_exp(x) -- ShapeError: matrix_exp: x is not square, got a float32 tensor [2, 3], expected [..., n, n]
L.pinv(v) -- ShapeError: pinv: x is no batch of matrices, got a float32 tensor [3], expected [..., m, n]
L.matrix_rank(v) -- ShapeError: matrix_rank: x is no batch of matrices, got a float32 tensor [3], expected [..., m, n]
L.vector_norm(x, 2, 3) -- IndexError: vector_norm: dim: got 3, expected 1 to 2 or -2 to -1
L.trace(v) -- ShapeError: trace: x is no batch of matrices, got a float32 tensor [3], expected [..., m, n]
L.svdvals(v) -- ShapeError: svdvals: x is no batch of matrices, got [3], expected [..., m, n]
F.fft(x, 0) -- ValueError: fft: n: got 0, expected at least 1
F.fft(x, nil, 3) -- IndexError: fft: dim: got 3, expected 1 to 2 or -2 to -1
F.fft(x:to('float16')) -- DtypeError: fft: dtype not accepted, got float16, expected float32, float64, complex64 or complex128
F.fft(x:to('bfloat16')) -- DtypeError: fft: dtype not accepted, got bfloat16, expected float32, float64, complex64 or complex128
F.rfft(c) -- DtypeError: rfft: dtype not accepted, got complex64, expected a real one
F.fftn(x, { 2, 2, 2 }) -- IndexError: fftn: got a tensor of 2 dimensions, expected at least 3
F.fftn(x, { 2 }, { 1, 2 }) -- ValueError: fftn: s: got 1 lengths for 2 dimensions, expected one for each
F.fftn(x, nil, { 1, 1 }) -- ValueError: fftn: dim 1 is given twice, expected different dims
F.fft(s) -- IndexError: fft: got a tensor of 0 dimensions, expected at least 1
F.fft2(v) -- IndexError: fft2: got a tensor of 1 dimensions, expected at least 2
F.fftfreq(0) -- ValueError: fftfreq: wrong number of points, got 0, expected at least 1
F.rfftfreq(-1) -- ValueError: rfftfreq: wrong number of points, got -1, expected at least 1
F.fftshift(x, 3) -- IndexError: fftshift: dim: got 3, expected 1 to 2 or -2 to -1
F.irfft(c, 0) -- ValueError: irfft: n: got 0, expected at least 1
F.fftn(x, { -2, 2 }) -- ValueError: fftn: invalid number of points in dim 1, got -2, expected 1 to 2^31 - 1
F.hfft(c, 0) -- ValueError: hfft: n: got 0, expected at least 1
F.rfft(x, 1 << 40) -- ValueError: rfft: invalid number of points in dim 2, got 1099511627776, expected 1 to 2^31 - 1
F.ihfft(c) -- DtypeError: ihfft: dtype not accepted, got complex64, expected a real one
t.conv1d(x, x) -- ShapeError: conv1d: w has the wrong number of dims, got 2, expected 3
t.conv1d(v, v) -- ShapeError: conv1d: x has the wrong number of dims, got 1, expected 3 or, without a batch, 2
t.conv2d(ones(1, 2, 4, 4), ones(1, 3, 2, 2)) -- ShapeError: conv2d: w does not fit x, got size [1, 3, 2, 2] for 2 channels in 1 groups
t.conv2d(ones(1, 2, 4, 4), ones(1, 2, 5, 5)) -- ShapeError: conv2d: the kernel is larger than what it stands in, got 5 elements for 4
t.conv2d(ones(1, 2, 4, 4), ones(1, 2, 2, 2):to('float64')) -- DtypeError: conv2d: dtypes differ, got float64 for w, expected that of x, float32
t.conv2d(ones(1, 2, 4, 4):to('int32'), ones(1, 2, 2, 2):to('int32')) -- DtypeError: conv2d: dtype of x not accepted, got int32, expected a real floating dtype
t.conv2d(ones(1, 2, 4, 4), ones(1, 2, 2, 2), ones(2)) -- ShapeError: conv2d: bias, got size [2], expected one element for each of 1 results
t.conv2d(ones(1, 2, 4, 4), ones(1, 2, 2, 2), { stride = 0 }) -- ValueError: conv2d: stride, got 0 for spatial dim 1, expected 1 to 2147483647
t.conv2d(ones(1, 2, 4, 4), ones(1, 2, 2, 2), { dilation = 0 }) -- ValueError: conv2d: dilation, got 0 for spatial dim 1, expected 1 to 2147483647
t.conv2d(ones(1, 2, 4, 4), ones(1, 2, 2, 2), { padding = -1 }) -- ValueError: conv2d: padding, got -1 for spatial dim 1, expected 0 to 2147483647
t.conv2d(ones(1, 2, 4, 4), ones(3, 1, 2, 2), { groups = 2 }) -- ValueError: conv2d: groups, got 2 for 2 channels and 3 results, expected a divisor of both
t.conv2d(ones(1, 3, 4, 4), ones(2, 1, 2, 2), { groups = 2 }) -- ValueError: conv2d: groups, got 2 for 3 channels and 2 results, expected a divisor of both
t.conv2d(ones(1, 2, 4, 4), ones(1, 2, 2, 2), { groups = 0 }) -- ValueError: conv2d: groups, got 0 for 2 channels and 1 results, expected a divisor of both
t.conv2d(ones(1, 2, 4, 4), ones(1, 2, 2, 2), { padding = { 1, 2, 3 } }) -- ValueError: conv2d: padding: got 3 integers, expected 1 or 2
t.conv_transpose2d(ones(1, 2, 4, 4), ones(2, 1, 2, 2), { output_padding = 1 }) -- ValueError: conv_transpose2d: output_padding, got 1, expected less than stride or dilation
t.conv_transpose2d(ones(1, 2, 4, 4), ones(2, 1, 2, 2), { output_padding = -1 }) -- ValueError: conv_transpose2d: output_padding, got -1 for spatial dim 1, expected 0 to 2147483647
t.conv_transpose1d(ones(1, 2, 4), ones(3, 1, 2)) -- ShapeError: conv_transpose1d: w does not fit x, got size [3, 1, 2] for 2 channels in 1 groups
t.conv_transpose1d(ones(1, 2, 4), ones(2, 1, 2), ones(2)) -- ShapeError: conv_transpose1d: bias, got size [2], expected one element for each of 1 results
t.conv_transpose1d(ones(1, 1, 1), ones(1, 1, 1), { padding = 3 }) -- ShapeError: conv_transpose1d: nothing is left of spatial dim 1, got -5 elements
t.conv2d(ones(1, 2, 4, 4), ones(1, 2, 0, 2)) -- ValueError: conv2d: the kernel's size, got 0 for spatial dim 1, expected 1 to 2147483647
t.conv1d(ones(1, 2, 4), ones(1, 2, 2), ones(1):to('float64')) -- DtypeError: conv1d: dtypes differ, got float64 for bias, expected that of x, float32
t.max_pool2d(x, 2) -- ShapeError: max_pool2d: x has the wrong number of dims, got 2, expected 4 or one less, without a batch
t.max_pool1d(x, 4) -- ShapeError: max_pool1d: a window is larger than what it stands in, got 4 elements for 3
t.avg_pool1d(x, 0) -- ValueError: avg_pool1d: kernel, got 0 for spatial dim 1, expected 1 to 2147483647
t.avg_pool1d(x, 2, 0) -- ValueError: avg_pool1d: stride, got 0 for spatial dim 1, expected 1 to 2147483647
t.avg_pool1d(x, 2, 1, 2) -- ValueError: avg_pool1d: padding, got 2, expected at most half of what a window covers, 1
t.max_pool1d(x, 2, 1, -1) -- ValueError: max_pool1d: padding, got -1 for spatial dim 1, expected 0 to 2147483647
t.max_pool1d(c:view(1, 2), 1) -- DtypeError: max_pool1d: dtype not accepted, got complex64, expected a real floating or an integer dtype
t.avg_pool1d(x:to('int32'), 2) -- DtypeError: avg_pool1d: dtype not accepted, got int32, expected a real floating dtype
t.max_pool1d(b:view(1, 2), 1) -- DtypeError: max_pool1d: dtype not accepted, got bool, expected a real floating or an integer dtype
t.max_pool1d(x, 2, { dilation = 0 }) -- ValueError: max_pool1d: dilation, got 0 for spatial dim 1, expected 1 to 2147483647
t.max_pool1d(x, 2, { dilation = 4 }) -- ShapeError: max_pool1d: a window is larger than what it stands in, got 5 elements for 3
t.max_pool1d(s, 1) -- ShapeError: max_pool1d: x has the wrong number of dims, got 0, expected 3 or one less, without a batch
t.max_pool1d(ones(1, 2, 0), 1) -- ShapeError: max_pool1d: x has no elements along dim 3, got size [1, 2, 0], expected some in spatial dims
x:pad({ 1, 1, 1, 1, 1, 1 }) -- ArgumentError: pad: too many pads, got 3 pairs for a tensor of 2 dims
x:pad({ 1 }) -- ValueError: pad: pad: got 1 integers, expected pairs: before and behind each dimension, the last one first
x:pad({ -2, -2 }) -- ValueError: pad: more is cropped than there is, got -2 and -2 for dim 2 of size 3
x:pad({ 3, 0 }, { mode = 'reflect' }) -- ValueError: pad: too much to reflect, got 3 for dim 2, expected less than its size, 3
x:pad({ 4, 0 }, { mode = 'circular' }) -- ValueError: pad: goes round more than once, got 4 for dim 2, expected at most its size, 3
x:pad({ -1, -3 }, { mode = 'replicate' }) -- ValueError: pad: more is cropped than there is, got -1 and -3 for dim 2 of size 3
e:pad({ 0, 0, 1, 1 }, { mode = 'replicate' }) -- ValueError: pad: nothing to replicate, got dim 1 of size 0
e:pad({ 0, 0, 1, 1 }, { mode = 'circular' }) -- ValueError: pad: goes round more than once, got 1 for dim 1, expected at most its size, 0
t.grid_sample(x, x) -- ShapeError: grid_sample: x has the wrong number of dims, got 2, expected 4 or 5
t.grid_sample(ones(1, 1, 2, 2), ones(1, 2, 2, 3)) -- ShapeError: grid_sample: grid does not fit x, got size [1, 2, 2, 3], expected 4 dims, x's batch of 1 first and 2 last
t.grid_sample(ones(1, 1, 2, 2), ones(2, 2, 2, 2)) -- ShapeError: grid_sample: grid does not fit x, got size [2, 2, 2, 2], expected 4 dims, x's batch of 1 first and 2 last
t.grid_sample(ones(1, 1, 2, 2), ones(1, 2, 2, 2):to('float64')) -- DtypeError: grid_sample: dtypes differ, got float64 for grid, expected that of x, float32
t.grid_sample(ones(1, 1, 2, 2, 2), ones(1, 2, 2, 2, 3), { mode = 'bicubic' }) -- ShapeError: grid_sample: x has the wrong number of dims, got 5, expected 4 for the cubic mode
t.grid_sample(ones(1, 1, 0, 2), ones(1, 2, 2, 2)) -- ShapeError: grid_sample: x has no elements, got size [1, 1, 0, 2], expected some in spatial dims
t.grid_sample(ones(1, 1, 2, 2):to('int32'), ones(1, 2, 2, 2):to('int32')) -- DtypeError: grid_sample: dtype not accepted, got int32, expected a real floating dtype
t.affine_grid(x, { 1, 1, 2, 2 }) -- ShapeError: affine_grid: theta: got a float32 tensor [2, 3] for a size of 4 integers, the first 1, expected [batch, 2, 3] for {batch, channels, h, w}, or [batch, 3, 4] for {batch, channels, d, h, w}
t.affine_grid(ones(1, 2, 3), { 2, 1, 2, 2 }) -- ShapeError: affine_grid: theta: got a float32 tensor [1, 2, 3] for a size of 4 integers, the first 2, expected [batch, 2, 3] for {batch, channels, h, w}, or [batch, 3, 4] for {batch, channels, d, h, w}
t.affine_grid(ones(1, 2, 3), { 1, 1, 2 }) -- ShapeError: affine_grid: theta: got a float32 tensor [1, 2, 3] for a size of 3 integers, the first 1, expected [batch, 2, 3] for {batch, channels, h, w}, or [batch, 3, 4] for {batch, channels, d, h, w}
t.affine_grid(ones(1, 3, 4), { 1, 1, 2, 2 }) -- ShapeError: affine_grid: theta: got a float32 tensor [1, 3, 4] for a size of 4 integers, the first 1, expected [batch, 2, 3] for {batch, channels, h, w}, or [batch, 3, 4] for {batch, channels, d, h, w}
t.affine_grid(ones(1, 2, 3):to('int32'), { 1, 1, 2, 2 }) -- DtypeError: affine_grid: theta: got int32, expected a floating one
t.interpolate(x, { size = 4 }) -- ShapeError: interpolate: x: got 2 dimensions, expected 3 to 5 for mode nearest: batch, channels, and those to resize
t.interpolate(ones(1, 1, 2), { size = 0 }) -- ValueError: interpolate: size, got 0, expected at least 1
t.interpolate(ones(1, 1, 2), { size = 4, scale_factor = 2 }) -- ArgumentError: interpolate: got both, expected one of size and scale_factor
t.interpolate(ones(1, 1, 2), { size = 4, mode = 'bicubic' }) -- ShapeError: interpolate: x: got 3 dimensions, expected 4 for mode bicubic: batch, channels, and those to resize
t.interpolate(ones(1, 1, 0), { size = 4 }) -- ShapeError: interpolate: x has no elements along dim 3, got size [1, 1, 0], expected some in spatial dims
t.interpolate(ones(1, 1, 2), { size = { 4, 4 } }) -- ValueError: interpolate: size: got 2 integers, expected 1
x + ones(2) -- ShapeError: add: shapes do not fit, got [2, 3] and [2] for y, expected equal sizes or 1
x + ones(4, 3) -- ShapeError: add: shapes do not fit, got [2, 3] and [4, 3] for y, expected equal sizes or 1
x:add_(ones(4, 2, 3)) -- ShapeError: add: wrong shape of the destination, got [2, 3], expected [4, 2, 3]
x:add(x, { out = v }) -- ShapeError: add: wrong shape of the destination, got [3], expected [2, 3]
x:bitwise_and(x) -- DtypeError: bitwise_and: dtype not accepted, got float32, expected integers or bool
x:bitwise_not() -- DtypeError: bitwise_not: dtype not accepted, got float32, expected integers or bool
c:lt(c) -- DtypeError: lt: dtype not accepted, got complex64, expected a real dtype
c:floor() -- DtypeError: floor: dtype not accepted, got complex64, expected a real dtype
c:remainder(2) -- DtypeError: remainder: dtype not accepted, got complex64, expected a real dtype
x:gcd(x) -- DtypeError: gcd: dtype not accepted, got float32, expected integers or bool
x:ldexp('a') -- ArgumentError: ldexp: b: got string 'a', expected a tensor or a number
b:sub(b) -- DtypeError: sub: dtype not accepted, got bool, expected numbers: use logical_xor, logical_not or bitwise_not
b:neg() -- DtypeError: neg: dtype not accepted, got bool, expected a number: use logical_not or bitwise_not
c:maximum(c) -- DtypeError: maximum: dtype not accepted, got complex64, expected a real dtype
x:to('int64'):div_(2) -- DtypeError: div: the result cannot be written to the destination, got int64, expected float32 or a wider one
x:to('int64'):add_(1.5) -- DtypeError: add: the result cannot be written to the destination, got int64, expected float32 or a wider one
x:copy_(ones(4)) -- ShapeError: copy_: wrong shape of the source, got [4], expected one that broadcasts to [2, 3]
x:clamp() -- ArgumentError: clamp: got no bound, expected min, max or both: {min=0, max=1}
x:clamp(c) -- DtypeError: maximum: dtype not accepted, got complex64, expected a real dtype
x:pow(c).x -- ShapeError: pow: shapes do not fit, got [2, 3] and [2] for b, expected equal sizes or 1
ix { 2 }:pow(-1) -- ValueError: pow: integers cannot be raised to a negative power, got exponent -1, expected at least 0 or a floating tensor
x:lerp(ones(4), 1) -- ShapeError: lerp: shapes do not fit, got [2, 3] and [4] for b, expected equal sizes or 1
x:addcmul(ones(4), x) -- ShapeError: addcmul: shapes do not fit, got [2, 3] and [4] for a, expected equal sizes or 1
t.where(x, x, x) -- DtypeError: where: dtype not accepted, got float32, expected bool for the condition: use ne(0) or a comparison
t.where(b, x, x) -- ShapeError: where: shapes do not fit, got [2] and [2, 3] for x, expected equal sizes or 1
x:fill_(v) -- ShapeError: fill_: value: got a tensor of 1 dimensions, expected a number or a tensor without dimensions
x:fill_(c) -- ShapeError: fill_: value: got a tensor of 1 dimensions, expected a number or a tensor without dimensions
x:expand(4, 2, 3):add_(1) -- ValueError: add: the destination cannot be written, got a tensor expanded along dim 1 (several elements share one address), expected one without overlap: clone it first
x:item() -- ShapeError: item: x has not one element, got [2, 3], expected a single element
e:item() -- ShapeError: item: x has not one element, got [0, 3], expected a single element
t.complex(x, ones(2)) -- ShapeError: broadcast: shapes do not fit, got [2, 3] and [2], expected equal sizes or 1
t.complex(c, c) -- DtypeError: complex: got complex64 parts, expected float32 or float64
t.isclose(x, ones(2)) -- ShapeError: isclose: shapes do not fit, got [2, 3] and [2] for y, expected equal sizes or 1
x:polygamma(-1) -- ValueError: polygamma: n: got -1, expected at least 0
x:heaviside(c) -- DtypeError: heaviside: dtype not accepted, got complex64, expected a real dtype
c:erf() -- DtypeError: erf: dtype not accepted, got complex64, expected a real dtype
x:bitwise_left_shift(1) -- DtypeError: bitwise_left_shift: dtype not accepted, got float32, expected integers or bool
c:sign() -- DtypeError: sign: dtype not accepted, got complex64, expected a real dtype
x:logical_and(ones(5)) -- ShapeError: logical_and: shapes do not fit, got [2, 3] and [5] for b, expected equal sizes or 1
x:copysign(c) -- DtypeError: copysign: dtype not accepted, got complex64, expected a real dtype
c:atan2(c) -- DtypeError: atan2: dtype not accepted, got complex64, expected a real dtype
c:frexp() -- DtypeError: frexp: dtype not accepted, got complex64, expected a real dtype
x:to('int32'):sigmoid_() -- DtypeError: sigmoid: the result cannot be written to the destination, got int32, expected float32 or a wider one
t.rand(-1) -- ValueError: rand: sizes: got -1 in place 1, expected at least 0
t.randint(5, 5, { 2 }) -- ValueError: randint: empty range, got 5 to 5, expected the upper bound above the lower
t.randint(0, { 2 }) -- ValueError: randint: empty range, got 0 to 0, expected the upper bound above the lower
t.randint(1, 3, { 2 }, { dtype = 'complex64' }) -- DtypeError: randint: dtype not accepted, got complex64, expected a real dtype
x:normal_(0, -1) -- ValueError: normal_: wrong standard deviation, got -1, expected at least 0
x:uniform_(2, 1) -- ValueError: uniform: wrong range, got 2 to 1, expected finite bounds in order
x:uniform_(0, 1/0) -- ValueError: uniform: wrong range, got 0 to inf, expected finite bounds in order
x:to('int32'):uniform_() -- DtypeError: uniform: dtype not accepted, got int32, expected a floating dtype
x:to('int32'):normal_() -- DtypeError: normal_: dtype not accepted, got int32, expected a floating dtype
x:exponential_(0) -- ValueError: exponential: wrong rate, got 0, expected above 0
x:exponential_(-1) -- ValueError: exponential: wrong rate, got -1, expected above 0
x:cauchy_(0, 0) -- ValueError: cauchy: wrong sigma, got 0, expected above 0
x:log_normal_(0, 0) -- ValueError: log_normal_: wrong standard deviation, got 0, expected above 0
x:geometric_(0) -- ValueError: geometric: wrong probability, got 0, expected between 0 and 1
x:geometric_(1) -- ValueError: geometric: wrong probability, got 1, expected between 0 and 1
x:bernoulli_(2) -- ValueError: bernoulli_: wrong probability, got 2, expected 0 to 1
x:bernoulli_(-0.5) -- ValueError: bernoulli_: wrong probability, got -0.5, expected 0 to 1
c:bernoulli_(0.5) -- DtypeError: bernoulli_: dtype not accepted, got complex64, expected a real dtype
c:exponential_() -- DtypeError: exponential: dtype not accepted, got complex64, expected a floating dtype
x:random_(5, 5) -- ValueError: random_: empty range, got 5 to 5, expected the upper bound above the lower
x:random_(0) -- ValueError: random_: empty range, got 0 to 0, expected the upper bound above the lower
of({ 1 }, 'int8'):random_(300) -- ValueError: random_: value does not fit, got 299, expected one that int8 can hold
of({ 1 }, 'uint8'):random_(-5, 5) -- ValueError: random_: bound does not fit, got -5, expected one that uint8 can hold
c:random_() -- DtypeError: random_: dtype not accepted, got complex64, expected a real dtype
t.bernoulli(of { 2 }) -- ValueError: bernoulli: wrong probability in a tensor, got 2, expected 0 to 1
t.bernoulli(of({ 1 }, 'int32')) -- DtypeError: bernoulli: dtype not accepted, got int32, expected a floating dtype
t.poisson(of { -1 }) -- ValueError: poisson: wrong rate or deviation in a tensor, got -1, expected a finite number, at least 0
t.poisson(of({ 1 }, 'int32')) -- DtypeError: poisson: dtype not accepted, got int32, expected a floating dtype
t.multinomial(x, 0) -- ValueError: multinomial: wrong n, got 0, expected at least 1
t.multinomial(x, 4) -- ValueError: multinomial: too many places without replacement, got 4, expected at most 3, the weights above 0
t.multinomial(of { 0, 0 }, 1) -- ValueError: multinomial: wrong weights, got a line that holds a negative or infinite one, NaN or zeros alone, expected weights from 0 with a finite sum above 0
t.multinomial(of { -1, 2 }, 1) -- ValueError: multinomial: wrong weights, got a line that holds a negative or infinite one, NaN or zeros alone, expected weights from 0 with a finite sum above 0
t.multinomial(of({ 1, 2 }, 'int32'), 1) -- DtypeError: multinomial: wrong dtype of p, got tide.int32, expected a floating dtype
t.multinomial(s, 1) -- ShapeError: multinomial: wrong shape of p, got 0 dimensions, expected one or two
t.multinomial(ones(1, 1, 1), 1) -- ShapeError: multinomial: wrong shape of p, got 3 dimensions, expected one or two
t.multinomial(of { 1, 0 }, 2) -- ValueError: multinomial: too many places without replacement, got 2, expected at most 1, the weights above 0
t.normal(x, ones(4)) -- ShapeError: normal: the deviation does not broadcast to the mean, got [4], expected like [2, 3]
t.normal(0, of { -1 }) -- ValueError: normal: wrong rate or deviation in a tensor, got -1, expected a finite number, at least 0
t.normal(c, 1) -- DtypeError: normal: dtype not accepted, got complex64, expected a floating dtype
t.randperm(-1) -- ValueError: randperm: negative length, got -1, expected at least 0
t.randperm(3, { dtype = 'complex64' }) -- DtypeError: randperm: dtype not accepted, got complex64, expected a real dtype
t.randperm(300, { dtype = 'uint8' }) -- ValueError: randperm: uint8 does not hold every number, got up to 300, expected at most 255
t.rand(2, { dtype = 'int32' }) -- DtypeError: uniform: dtype not accepted, got int32, expected a floating dtype
t.randn(2, { dtype = 'bool' }) -- DtypeError: randn: dtype not accepted, got bool, expected a floating dtype
t.rand(2, { generator = 5 }) -- ArgumentError: rand: generator: got number 5, expected a tide.Generator
t.normal(0, -1, { 2 }) -- ValueError: normal: wrong standard deviation, got -1, expected at least 0
t.ones(-1) -- ValueError: ones: sizes: got -1 in place 1, expected at least 0
t.empty_strided({ 2 }, { -1 }) -- ValueError: empty_strided: stride: got -1 in place 1, expected at least 0
t.empty_strided({ 2, 2 }, { 1 << 62, 1 << 62 }) -- ValueError: empty_strided: strides too large, got [4611686018427387904, 4611686018427387904], expected less than 2^63 bytes
t.eye(-1) -- ValueError: eye: n: got -1, expected at least 0
t.linspace(0, 1, -1) -- ValueError: linspace: n: got -1, expected at least 0
t.linspace(0, 1, 2, { dtype = 'bool' }) -- DtypeError: linspace: dtype not accepted, got bool, expected integers or floats
t.logspace(0, 1, -1) -- ValueError: logspace: n: got -1, expected at least 0
t.arange(0, 1, 0) -- ValueError: arange: step: got 0, expected another number
t.arange(0, 1, -1) -- ValueError: arange: step: got -1, which leads away from 0 to 1, expected a positive one; tide.range gives an empty tensor
t.arange(0, 3, { dtype = 'bool' }) -- DtypeError: arange: dtype not accepted, got bool, expected integers or floats
t.arange(0, 1/0) -- ValueError: arange: the range has no end
t.arange(0, 3, { dtype = 'complex64' }) -- DtypeError: arange: dtype not accepted, got complex64, expected integers or floats
t.full({ 2 }, 'a') -- ArgumentError: full: value: got string 'a', expected a number or a boolean
t.full({ 2 }, 300, { dtype = 'uint8' }) -- ValueError: full: value does not fit, got 300, expected one that uint8 can hold
t.polar(x, ones(2)) -- ShapeError: broadcast: shapes do not fit, got [2, 3] and [2], expected equal sizes or 1
t.diag(v, 1 << 31) -- ValueError: diag: k: got 2147483648, expected -2147483647 to 2147483647
t.diag(v, -1 << 31) -- ValueError: diag: k: got -2147483648, expected -2147483647 to 2147483647
t.diag(v, m) -- ValueError: diag: k: got -9223372036854775808, expected -2147483647 to 2147483647
t.diag(v, M) -- ValueError: diag: k: got 9223372036854775807, expected -2147483647 to 2147483647
x:narrow(2, m, 1) -- IndexError: narrow: start: got -9223372036854775808, expected 1 to 3 or from the end, of a dimension of 3
x:narrow(2, M, 1) -- IndexError: narrow: start: got 9223372036854775807, expected 1 to 3 or from the end, of a dimension of 3
x:narrow(2, 2, M) -- IndexError: narrow: length: got 9223372036854775807 from 2, expected at most 2
x:narrow(2, 1, m) -- IndexError: narrow: length: got -9223372036854775808 from 1, expected at most 3
x:select(2, m) -- IndexError: select: index: got -9223372036854775808, expected 1 to 3 or -3 to -1
x:select(2, M) -- IndexError: select: index: got 9223372036854775807, expected 1 to 3 or -3 to -1
x:slice(2, 1, 2, m) -- ValueError: slice: step: got -9223372036854775808, expected at least 1
x:slice(2, M, 2) -- IndexError: slice: range: got 9223372036854775807 to 2 of a dimension of 3, expected both within 1 to 3 (or from the end), in order
x:repeat_interleave(m) -- ValueError: repeat_interleave: n: got -9223372036854775808, expected at least 0
x:repeat_interleave(M) -- OutOfMemoryError: repeat_interleave: too large, got size [9223372036854775807] of float32, expected less than 2^63 bytes
x:tile(m) -- ValueError: tile: repeats: got -9223372036854775808 in place 1, expected at least 0
x:tile(M) -- OutOfMemoryError: tile: too large, got size [2, 9223372036854775807] of float32, expected less than 2^63 bytes
x:topk(m) -- ValueError: topk: k does not fit, got -9223372036854775808, expected 0 to 3
x:topk(M) -- ValueError: topk: k does not fit, got 9223372036854775807, expected 0 to 3
x:kthvalue(m) -- ValueError: kthvalue: k does not fit, got -9223372036854775808, expected 1 to 3
x:kthvalue(M) -- ValueError: kthvalue: k does not fit, got 9223372036854775807, expected 1 to 3
x:chunk(m) -- ValueError: chunk: n: got -9223372036854775808, expected at least 1
x:split(m) -- ValueError: split: size: got -9223372036854775808, expected at least 1 for a dimension of size 2
x:split({ m, M }) -- ShapeError: split: sizes: they add up to another sum than 2, the size of dimension 1
x:tensor_split(m) -- ValueError: tensor_split: sections: got -9223372036854775808, expected 1 to 16777216
x:polygamma(m) -- ValueError: polygamma: n: got -9223372036854775808, expected at least 0
ix({ 1, 2 }):bincount({ minlength = m }) -- ValueError: bincount: minlength: got -9223372036854775808, expected at least 0
ix({ 1, 2 }):bincount({ minlength = M }) -- OutOfMemoryError: bincount: too large, got size [9223372036854775807] of int64, expected less than 2^63 bytes
t.one_hot(ix { 1, 2 }, m) -- ValueError: one_hot: wrong number of classes, got -9223372036854775808, expected at least 1
t.one_hot(ix { 1, 2 }, M) -- OutOfMemoryError: one_hot: too large, got size [2, 9223372036854775807] of int64, expected less than 2^63 bytes
x:unsqueeze(m) -- IndexError: unsqueeze: dim: got -9223372036854775808, expected 1 to 3 or -3 to -1
x:unsqueeze(M) -- IndexError: unsqueeze: dim: got 9223372036854775807, expected 1 to 3 or -3 to -1
x:squeeze(m) -- IndexError: squeeze: dim: got -9223372036854775808, expected 1 to 2 or -2 to -1
x:sum(m) -- IndexError: sum: dim: got -9223372036854775808, expected 1 to 2 or -2 to -1
x:sum(M) -- IndexError: sum: dim: got 9223372036854775807, expected 1 to 2 or -2 to -1
x:view(m) -- ValueError: view: sizes: got -9223372036854775808 in place 1, expected at least -1
x:view(M, M) -- ShapeError: view: sizes do not fit, got [9223372036854775807, 9223372036854775807] for a tensor of 6 elements ([2, 3]), expected as many
x:expand(M, M, 3) -- ShapeError: expand: x does not expand, got [2, 3] to [9223372036854775807, 9223372036854775807, 3], expected equal sizes or 1 in x
x:unfold(2, M, 1) -- ValueError: unfold: wrong window, got size 9223372036854775807 and step 1, expected size 0 to 3 and step of at least 1
x:unfold(2, 1, m) -- ValueError: unfold: wrong window, got size 1 and step -9223372036854775808, expected size 0 to 3 and step of at least 1
x:transpose(m, 1) -- IndexError: transpose: dim1: got -9223372036854775808, expected 1 to 2 or -2 to -1
x:transpose(1, M) -- IndexError: transpose: dim2: got 9223372036854775807, expected 1 to 2 or -2 to -1
t.zeros(m) -- ValueError: zeros: sizes: got -9223372036854775808 in place 1, expected at least 0
t.zeros(M, 2) -- OutOfMemoryError: zeros: too large, got size [9223372036854775807, 2] of float32, expected less than 2^63 bytes
t.eye(m) -- ValueError: eye: n: got -9223372036854775808, expected at least 0
t.eye(M) -- OutOfMemoryError: eye: too large, got size [9223372036854775807, 9223372036854775807] of float32, expected less than 2^63 bytes
t.arange(M) -- OutOfMemoryError: arange: too large, got size [9223372036854775807] of int64, expected less than 2^63 bytes
t.linspace(0, 1, m) -- ValueError: linspace: n: got -9223372036854775808, expected at least 0
t.linspace(0, 1, M) -- OutOfMemoryError: linspace: too large, got size [9223372036854775807] of float32, expected less than 2^63 bytes
t.randperm(m) -- ValueError: randperm: negative length, got -9223372036854775808, expected at least 0
t.randperm(M) -- OutOfMemoryError: randperm: too large, got size [9223372036854775807] of int64, expected less than 2^63 bytes
F.rfft(x, { n = m }) -- ValueError: rfft: n: got -9223372036854775808, expected at least 1
F.rfft(x, { n = M }) -- ValueError: rfft: invalid number of points in dim 2, got 9223372036854775807, expected 1 to 2^31 - 1
F.rfft(x, { n = 1 << 31 }) -- ValueError: rfft: invalid number of points in dim 2, got 2147483648, expected 1 to 2^31 - 1
x[m] -- IndexError: index: key: got -9223372036854775808, expected 1 to 2 or -2 to -1
x[M] -- IndexError: index: key: got 9223372036854775807, expected 1 to 2 or -2 to -1
x[{ { m, 1 } }] -- IndexError: index: range: got -9223372036854775808 to 1 of a dimension of 2, expected both within 1 to 2 (or from the end), in order
x[{ { 1, M } }] -- IndexError: index: range: got 1 to 9223372036854775807 of a dimension of 2, expected both within 1 to 2 (or from the end), in order
v[{ { 1, 2, m } }] -- ValueError: index: range: got step -9223372036854775808, expected at least 1
t.histc(v, m) -- ValueError: histc: wrong number of bins, got -9223372036854775808, expected at least 1
t.histc(v, M) -- OutOfMemoryError: histc: too large, got size [9223372036854775807] of int64, expected less than 2^63 bytes
x:pad({ m, 0 }) -- ValueError: pad: more is cropped than there is, got -9223372036854775808 and 0 for dim 2 of size 3
t.max_pool1d(x, M) -- ValueError: max_pool1d: kernel, got 9223372036854775807 for spatial dim 1, expected 1 to 2147483647
t.max_pool1d(x, 1 << 31) -- ValueError: max_pool1d: kernel, got 2147483648 for spatial dim 1, expected 1 to 2147483647
t.conv1d(ones(1, 2, 4), ones(1, 2, 2), { stride = m }) -- ValueError: conv1d: stride, got -9223372036854775808 for spatial dim 1, expected 1 to 2147483647
t.conv1d(ones(1, 2, 4), ones(1, 2, 2), { padding = M }) -- ValueError: conv1d: padding, got 9223372036854775807 for spatial dim 1, expected 0 to 2147483647
t.conv1d(ones(1, 2, 4), ones(1, 2, 2), { padding = 1 << 31 }) -- ValueError: conv1d: padding, got 2147483648 for spatial dim 1, expected 0 to 2147483647
t.combinations(v, m) -- ValueError: combinations: r: got -9223372036854775808, expected at least 0
t.vander(v, m) -- ValueError: vander: n: got -9223372036854775808, expected at least 0
x:index_select(1, ix { m }) -- IndexError: index: value out of range in an index tensor, got -9223372036854775808, expected 1 to 2 or -2 to -1
x:take(ix { M }) -- IndexError: index: value out of range in an index tensor, got 9223372036854775807, expected 1 to 6 or -6 to -1
x:polygamma('2') -- ArgumentError: polygamma: n: got string '2', expected an integer
t.polygamma('2', x) -- ArgumentError: polygamma: x: got string '2', expected a tensor or a number; a method is called with a colon: x:polygamma(...)
x:narrow(2, '1', 1) -- ArgumentError: narrow: start: got string '1', expected an integer
x:narrow('2', 1, 1) -- ArgumentError: narrow: dim: got string '2', expected an integer
x:select(2, '1') -- ArgumentError: select: index: got string '1', expected an integer
x:slice(2, 1, '2') -- ArgumentError: slice: last: got string '2', expected an integer
x:topk('1') -- ArgumentError: topk: k: got string '1', expected an integer
x:chunk('2') -- ArgumentError: chunk: n: got string '2', expected an integer
x:roll('1', 1) -- ArgumentError: roll: shifts: got string '1', expected an integer
x:sum('1') -- ArgumentError: sum: dim: got string '1', expected an integer
x:view('6') -- ArgumentError: view: sizes: got string '6', expected an integer
x:pad({ '1', 1 }) -- ArgumentError: pad: pad: got string '1', expected an integer
t.zeros('3') -- ArgumentError: zeros: sizes: got string '3', expected an integer
t.eye('2') -- ArgumentError: eye: n: got string '2', expected an integer
t.arange('3') -- ArgumentError: arange: stop: got string '3', expected a number or a boolean
t.linspace(0, 1, '3') -- ArgumentError: linspace: n: got string '3', expected an integer
t.linspace('0', 1, 3) -- ArgumentError: linspace: a: got string '0', expected a number
t.randperm('3') -- ArgumentError: randperm: n: got string '3', expected an integer
t.full({ 2 }, '1') -- ArgumentError: full: value: got string '1', expected a number or a boolean
t.full({ '2' }, 1) -- ArgumentError: full: sizes: got string '2', expected an integer
t.manual_seed('1') -- ArgumentError: manual_seed: seed: got string '1', expected an integer
x:clamp('0') -- ArgumentError: clamp: min: got string '0', expected a tensor or a number
x:pow('2') -- ArgumentError: pow: b: got string '2', expected a tensor or a number
x:add('1') -- ArgumentError: add: y: got string '1', expected a tensor or a number
x + '1' -- ArgumentError: add: y: got string '1', expected a tensor or a number
x[{ '1', 2 }] -- ArgumentError: index: key: got string '1', expected an integer, a range {first, last [, step]}, {} or a tensor
x[{ { '1', 2 } }] -- ArgumentError: index: range: got string '1', expected an integer
L.matrix_power(ones(2, 2), '2') -- ArgumentError: matrix_power: n: got string '2', expected an integer
F.rfft(x, { n = '2' }) -- ArgumentError: rfft: n: got string '2', expected an integer
x:repeat_interleave('2') -- ArgumentError: repeat_interleave: n: got string '2', expected an integer
t.one_hot(ix { 1, 2 }, '3') -- ArgumentError: one_hot: num_classes: got string '3', expected an integer
x:round({ decimals = '1' }) -- ArgumentError: round: decimals: got string '1', expected a number
]==]

describe("what is refused", function()
  D.watch(before_each, after_each)

  it("says the kind, the function, what it got and what it expected", function()
    assert.are.equal("", refusal.wrong(rows))
  end)
end)
