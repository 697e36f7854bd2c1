"""index.py: reads and writes at indexed places, counts of values."""
import torch

from run import Case, DTYPES

REAL = [d for d in DTYPES if not d.startswith("complex")]
REDUCES = {"sum": DTYPES, "prod": DTYPES, "mean": [d for d in REAL if d != "bool"], "amax": REAL, "amin": REAL}


def index_in(r, shape, length, distinct_along=None):
    """An index from 0 as PyTorch has it, and the same from 1, some of it counted from the end, for tide."""
    g = torch.Generator().manual_seed(r.getrandbits(40))
    if distinct_along is None or not shape:
        zero = torch.randint(0, max(length, 1), shape, generator=g)
    else:
        zero = torch.rand([*shape[:distinct_along], length, *shape[distinct_along + 1:]], generator=g)
        zero = zero.argsort(distinct_along).narrow(distinct_along, 0, shape[distinct_along])
    one = torch.where(torch.rand(shape, generator=g) < 0.3, zero - length, zero + 1)
    dtype = r.choice([torch.int64, torch.int64, torch.int32])
    return zero, r.laid_out(one.to(dtype))


def within(r, shape, dim, along):
    return [along if d == dim else r.randint(0 if r.random() < 0.05 else min(n, 1), n) for d, n in enumerate(shape)]


def tensor(r, shape, dtypes):
    dtype = r.choice(list(dtypes))
    return dtype, r.laid_out(r.values(shape, dtype))


def pick(r):
    """x, a dim and its place for Lua."""
    shape = r.shape(least=1)
    if r.random() < 0.05:
        shape = [r.randint(1, 3) * 300, 5][:r.randint(1, 2)]
    dim = r.randrange(len(shape))
    return shape, dim, r.choice([dim + 1, dim - len(shape)])


def form(r, call, name):
    """In place, or out of place with or without out=: all give the result."""
    how = r.randrange(3)
    if how == 0:
        return "x:%s_(%s) return x" % (name, call)
    if how == 1:
        return "return x:%s(%s)" % (name, call)
    return "return tide.%s(x, %s)" % (name, call)


def gather(r):
    shape, dim, at = pick(r)
    dtype, x = tensor(r, shape, DTYPES)
    zero, one = index_in(r, within(r, shape, dim, r.randint(0, 9) if shape[dim] else 0), shape[dim])
    return Case("gather", "local x, i = ... return x:gather(%d, i)" % at, [x, one], lambda: x.gather(dim, zero))


def take(r):
    shape = r.shape()
    dtype, x = tensor(r, shape, DTYPES)
    zero, one = index_in(r, r.shape() if x.numel() else [0], x.numel())
    return Case("take", "local x, i = ... return x:take(i)", [x, one], lambda: x.take(zero))


def take_along_dim(r):
    shape, dim, at = pick(r)
    dtype, x = tensor(r, shape, DTYPES)
    if r.random() < 0.2:
        zero, one = index_in(r, r.shape() if x.numel() else [0], x.numel())
        return Case("take_along_dim flat", "local x, i = ... return x:take_along_dim(i)", [x, one],
                    lambda: x.take_along_dim(zero), must_raise=False)
    size = [r.choice([1, n]) for n in shape]
    size[dim] = r.randint(1, 6) if shape[dim] else 0
    zero, one = index_in(r, size, shape[dim])
    return Case("take_along_dim", "local x, i = ... return x:take_along_dim(i, %d)" % at, [x, one],
                lambda: x.take_along_dim(zero, dim))


def put(r):
    shape = r.shape()
    dtype, x = tensor(r, shape, DTYPES)
    accumulate = r.random() < 0.6
    size = [r.randint(0, 12)] if accumulate else [r.randint(0, x.numel())]
    zero, one = index_in(r, size if x.numel() else [0], x.numel(), None if accumulate else 0)
    source = r.laid_out(r.values(zero.shape, dtype))
    lua = form(r, "i, s, {accumulate = %s}" % str(accumulate).lower(), "put")
    return Case("put", "local x, i, s = ... " + lua, [x, one, source], lambda: x.clone().put_(zero, source, accumulate))


def scatter(r):
    shape, dim, at = pick(r)
    reduce = r.choice([None, None, "add", "multiply"])
    dtype, x = tensor(r, shape, DTYPES)
    along = r.randint(0, shape[dim]) if reduce is None else r.randint(0, 9) if shape[dim] else 0
    size = within(r, shape, dim, along)
    zero, one = index_in(r, size, shape[dim], dim if reduce is None else None)
    option = "" if reduce is None else ", {reduce = '%s'}" % reduce
    named = {} if reduce is None else {"reduce": reduce}
    if r.random() < 0.3:
        value = dtype == "bool" or r.randint(1, 3)
        lua = form(r, "%d, i, %s%s" % (at, str(value).lower(), option), "scatter")
        return Case("scatter number " + dtype, "local x, i = ... " + lua, [x, one],
                    lambda: x.clone().scatter_(dim, zero, value, **named), must_raise=False)
    source = r.laid_out(r.values([n + r.choice([0, 0, 1]) for n in size], dtype))
    lua = form(r, "%d, i, s%s" % (at, option), "scatter")
    return Case("scatter " + dtype, "local x, i, s = ... " + lua, [x, one, source],
                lambda: x.clone().scatter_(dim, zero, source, **named), must_raise=False)


def scatter_add(r):
    shape, dim, at = pick(r)
    dtype, x = tensor(r, shape, DTYPES)
    size = within(r, shape, dim, r.randint(0, 9) if shape[dim] else 0)
    zero, one = index_in(r, size, shape[dim])
    source = r.laid_out(r.values([n + r.choice([0, 0, 1]) for n in size], dtype))
    return Case("scatter_add " + dtype, "local x, i, s = ... " + form(r, "%d, i, s" % at, "scatter_add"), [x, one, source],
                lambda: x.clone().scatter_add_(dim, zero, source))


def scatter_reduce(r):
    shape, dim, at = pick(r)
    reduce = r.choice(list(REDUCES))
    dtype, x = tensor(r, shape, REDUCES[reduce])
    size = within(r, shape, dim, r.randint(0, 9) if shape[dim] else 0)
    zero, one = index_in(r, size, shape[dim])
    source = r.values(size, dtype)
    if dtype.startswith(("float", "bfloat")) and source.numel() and r.random() < 0.2:
        source.view(-1)[r.randrange(source.numel())] = r.choice([float("nan"), float("inf")])
    source, include = r.laid_out(source), r.random() < 0.5
    lua = form(r, "%d, i, s, '%s', {include_self = %s}" % (at, reduce, str(include).lower()), "scatter_reduce")
    return Case("scatter_reduce %s %s" % (reduce, dtype), "local x, i, s = ... " + lua, [x, one, source],
                lambda: x.clone().scatter_reduce_(dim, zero, source, reduce, include_self=include), must_raise=False)


def slices(r, name):
    shape, dim, at = pick(r)
    dtype, x = tensor(r, shape, DTYPES)
    adds = name == "index_add"
    k = (r.randint(0, 9) if adds else r.randint(0, shape[dim])) if shape[dim] else 0
    zero, one = index_in(r, [k], shape[dim], None if adds else 0)
    source = r.laid_out(r.values([k if d == dim else n for d, n in enumerate(shape)], dtype))
    return shape, dim, at, dtype, x, zero, one, source


def index_add(r):
    shape, dim, at, dtype, x, zero, one, source = slices(r, "index_add")
    alpha = r.choice([1, 1, 2, -3]) if dtype not in ("bool", "uint8") else 1
    return Case("index_add " + dtype, "local x, i, s = ... " + form(r, "%d, i, s, {alpha = %d}" % (at, alpha), "index_add"),
                [x, one, source], lambda: x.clone().index_add_(dim, zero, source, alpha=alpha))


def index_copy(r):
    shape, dim, at, dtype, x, zero, one, source = slices(r, "index_copy")
    return Case("index_copy " + dtype, "local x, i, s = ... " + form(r, "%d, i, s" % at, "index_copy"), [x, one, source],
                lambda: x.clone().index_copy_(dim, zero, source))


def index_fill(r):
    shape, dim, at, dtype, x, zero, one, source = slices(r, "index_fill")
    value = dtype == "bool" or r.randint(0, 4)
    lua = form(r, "%d, i, %s" % (at, str(value).lower()), "index_fill")
    return Case("index_fill " + dtype, "local x, i = ... " + lua, [x, one], lambda: x.clone().index_fill_(dim, zero, value))


def index_put(r):
    shape = r.shape(least=1)
    dtype, x = tensor(r, shape, DTYPES)
    dims = r.randint(1, len(shape))
    accumulate = r.random() < 0.6
    common = r.shape(2, 5, 1) if 0 not in shape[:dims] else [0]
    pairs = [index_in(r, common if accumulate else [min(c, 1) for c in common], shape[d]) for d in range(dims)]
    zeros, ones = [p[0] for p in pairs], [p[1] for p in pairs]
    value = r.laid_out(r.values([*zeros[0].shape, *shape[dims:]], dtype))
    names = ", ".join("i%d" % d for d in range(dims))
    lua = form(r, "{%s}, s, {accumulate = %s}" % (names, str(accumulate).lower()), "index_put")
    return Case("index_put " + dtype, "local x, s, %s = ... %s" % (names, lua), [x, value, *ones],
                lambda: x.clone().index_put_(zeros, value, accumulate))


def masked(r):
    shape = r.shape()
    dtype, x = tensor(r, shape, DTYPES)
    mask = r.laid_out(r.values([r.choice([n, n, 1]) for n in shape], "bool"))
    if r.random() < 0.4:
        value = dtype == "bool" or r.randint(0, 4)
        lua = form(r, "m, %s" % str(value).lower(), "masked_fill")
        return Case("masked_fill " + dtype, "local x, m = ... " + lua, [x, mask], lambda: x.clone().masked_fill_(mask, value))
    if r.random() < 0.5:
        return Case("masked_select " + dtype, "local x, m = ... return " + r.choice(["x:masked_select(m)", "x[m:expand_as(x)]"]),
                    [x, mask], lambda: x.masked_select(mask))
    source = r.laid_out(r.values([x.numel() + r.randint(0, 3)], dtype))
    return Case("masked_scatter " + dtype, "local x, m, s = ... " + form(r, "m, s", "masked_scatter"), [x, mask, source],
                lambda: x.clone().masked_scatter_(mask, source))


def one_hot(r):
    classes = r.randint(1, 6)
    zero, one = index_in(r, r.shape(3), classes)
    return Case("one_hot", "local i = ... return tide.one_hot(i, %d)" % classes, [one],
                lambda: torch.nn.functional.one_hot(zero, classes))


def embedding(r):
    rows = r.randint(1, 9)
    dtype, x = tensor(r, [rows, r.randint(0, 9)], ["float16", "bfloat16", "float32", "float64"])
    zero, one = index_in(r, r.shape(3), rows)
    return Case("embedding", "local w, i = ... return tide.embedding(w, i)", [x, one],
                lambda: torch.nn.functional.embedding(zero, x))


def bincount(r):
    n, least = r.randint(0, 40), r.choice([0, 0, 3, 20])
    dtype = r.choice(["uint8", "int8", "int16", "int32", "int64"])
    x = r.laid_out(torch.randint(0, r.randint(1, 30), [n], generator=torch.Generator().manual_seed(r.getrandbits(40))).to(DTYPES[dtype]))
    if r.random() < 0.5:
        return Case("bincount", "local x = ... return tide.bincount(x, {minlength = %d})" % least, [x],
                    lambda: x.bincount(minlength=least))
    _, w = tensor(r, [n], ["uint8", "int32", "int64", "float32", "float64"])
    return Case("bincount weights", "local x, w = ... return tide.bincount(x, w, %d)" % least, [x, w],
                lambda: x.bincount(w, least))


def floats(r, dtype, shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(r.getrandbits(40)), dtype=DTYPES[dtype]) * 3
    return r.laid_out(x.round() if r.random() < 0.3 else x)


def histc(r):
    dtype = r.choice(["float32", "float64"])
    x, bins = floats(r, dtype, [n or 1 for n in r.shape(2, 40)]), r.randint(1, 12)
    low, high = r.choice([(0, 0), (-2, 3), (0, 1), (-3.5, 3.5)])
    return Case("histc " + dtype, "local x = ... return x:histc(%d, %r, %r)" % (bins, low, high), [x],
                lambda: x.histc(bins, low, high))


def histogram(r):
    dtype = r.choice(["float32", "float64"])
    x, bins, density = floats(r, dtype, [n + 2 for n in r.shape(2, 40, 1)]), r.randint(1, 12), r.random() < 0.3
    lua, named = "density = %s" % str(density).lower(), {"density": density}
    tensors = [x]
    if r.random() < 0.4:
        w = r.values(x.shape, dtype).abs() + 1
        tensors.append(w)
        lua, named = lua + ", weight = w", {**named, "weight": w}
    if r.random() < 0.4:
        edges = torch.rand([bins + 1], dtype=DTYPES[dtype], generator=torch.Generator().manual_seed(r.getrandbits(40))).mul(8).sub(4).sort()[0]
        names = "x, w, e" if len(tensors) == 2 else "x, e"
        return Case("histogram edges", "local %s = ... return x:histogram(e, {%s})" % (names, lua), [*tensors, edges],
                    lambda: tuple(x.histogram(edges, **named)))
    # no value on an edge but the outermost: what a library rounds an edge to decides there
    x = r.laid_out(torch.rand(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(r.getrandbits(40))).mul(5).sub(2))
    tensors[0] = x
    if r.random() < 0.5:
        lua, named = lua + ", range = {-2, 3}", {**named, "range": (-2, 3)}
    return Case("histogram", "local x, w = ... return x:histogram(%d, {%s})" % (bins, lua), tensors,
                lambda: tuple(x.histogram(bins, **named)), loose=4)


FUNCTIONS = [gather, gather, take, take_along_dim, put, scatter, scatter, scatter_add, scatter_add, scatter_reduce,
             scatter_reduce, scatter_reduce, index_add, index_add, index_copy, index_fill, index_put, masked, one_hot,
             embedding, bincount, histc, histogram]


def case(r):
    return r.choice(FUNCTIONS)(r)
