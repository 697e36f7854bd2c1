"""sort.py: lines in order, the first of them, their middles, what occurs in them, searching.

Where elements are equal PyTorch leaves open which of them a place stands for: places are compared by what they name,
and must all be different where all are asked for.
"""
import torch

from run import Case, DTYPES

REAL = [d for d in DTYPES if not d.startswith("complex")]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
NAMES = ["sort", "argsort", "topk", "kthvalue", "median", "mode", "quantile", "unique", "unique_dim", "searchsorted",
         "bucketize", "isin"]


def draw(r, shape, dtype):
    x = r.values(shape, dtype)
    if dtype in ("float32", "float64", "int64") and r.random() < 0.4:
        x = torch.randn(shape, generator=torch.Generator().manual_seed(r.getrandbits(40))).mul(1000).to(x.dtype)
    if x.is_floating_point():
        for value in (float("nan"), -float("nan"), -0.0, float("inf"), -float("inf")):
            if r.random() < 0.15:
                x = torch.where(torch.rand(shape) < 0.1, torch.full_like(x, value), x)
    return x


def none():
    raise ValueError("of no elements")


def lua_bool(b):
    return "true" if b else "false"


def case(r):
    one = draw_case(r)
    if any(x.dtype == torch.bool for x in one.tensors):  # PyTorch orders bool in some functions, tide in all
        one.must_raise = False
    return one


def draw_case(r):
    name = r.choice(NAMES)
    dtype = r.choice(REAL if name != "quantile" else ["float32", "float64"])
    shape = r.shape()
    if r.random() < 0.15:
        shape = [r.randint(1, 6000), r.randint(1, 4)][:: r.choice([1, -1])]
    if name == "unique_dim" and shape:
        shape = [min(s, 7) for s in shape]
    x = r.laid_out(draw(r, shape, dtype))
    dim = r.randrange(len(shape)) if shape else 0
    at = r.choice([dim + 1, dim - max(len(shape), 1)])
    n = shape[dim] if shape else 1
    down, keep = r.random() < 0.5, r.random() < 0.5
    if name == "sort":  # of stable ones the places are known
        lua = "local x = ... local v, i = x:sort(%d, {descending = %s, stable = true}) return v, i - 1" % (at, lua_bool(down))
        return Case(name, lua, [x], lambda: tuple(torch.sort(x, dim=dim, descending=down, stable=True)))
    if name == "argsort":
        lua = "local x = ... return x:argsort(%d, {descending = %s}) - 1" % (at, lua_bool(down))
        return Case(name, lua, [x], lambda: torch.argsort(x, dim=dim, descending=down, stable=True))
    if name == "topk":
        k = r.choice([r.randint(0, n + 1), min(n, 3)])
        lua = ("local x = ... local v, i = x:topk(%d, %d, {largest = %s}) local g = x:dim() == 0 and x or x:gather(%d, i) "
               "return v, g, i:sort(%d):diff{dim = %d}:eq(0):any()") % (k, at, lua_bool(down), at, at, at)
        if not shape:
            k = 1
            lua = "local x = ... local v, i = x:topk(%d, %d) return v, x, i:eq(2)" % (k, at)

        def want():
            v, _ = x.topk(k, dim, largest=down)
            return v, v, torch.tensor(False)
        return Case(name, lua, [x], want)
    if name in ("kthvalue", "median"):
        k = r.randint(1, n) if n else 1
        call = "x:kthvalue(%d, %d" % (k, at) if name == "kthvalue" else "x:median(%d" % at
        lua = ("local x = ... local v, i = %s, {keepdim = true}) "
               "return v, x:dim() == 0 and x or x:gather(%d, i)") % (call, at)
        if name == "median" and r.random() < 0.3:
            return Case(name, "local x = ... return x:median()", [x], (lambda: x.median()) if x.numel() else none, must_raise=False)

        def want():
            if name == "kthvalue" and x.is_floating_point():  # PyTorch's own order of NaN varies
                v = x.sort(dim)[0].select(dim, k - 1).unsqueeze(dim) if shape else x
            else:
                v = (x.kthvalue(k, dim, keepdim=True) if name == "kthvalue" else x.median(dim, keepdim=True))[0]
            return v, v
        return Case(name, lua, [x], want)
    if name == "mode":
        lua = "local x = ... local v, i = x:mode(%d, {keepdim = true}) return v, x:dim() == 0 and x or x:gather(%d, i)" % (at, at)

        def want():
            v = x.mode(dim, keepdim=True)[0]
            return v, v
        if dtype == "bool" or (x.is_floating_point() and x.isnan().any()):
            return Case(name, lua, [x.nan_to_num().to(torch.int8)], lambda: (lambda y: (y, y))(x.nan_to_num().to(torch.int8).mode(dim, keepdim=True)[0]))
        return Case(name, lua, [x], want)
    if name == "quantile":
        way = r.choice(["linear", "lower", "higher", "midpoint", "nearest"])
        q = r.choice([r.random(), [r.random(), 1.0, 0.0], [0.5]])
        x = torch.where(x.isinf(), torch.zeros_like(x), x)
        text = "{%s}" % ", ".join(map(repr, q)) if isinstance(q, list) else repr(q)
        whole = r.random() < 0.3
        lua = "local x = ... return x:quantile(%s, %s, {keepdim = %s, interpolation = '%s'})" % (
            text, "nil" if whole else at, lua_bool(keep), way)
        where = None if whole else dim
        return Case(name, lua, [x], lambda: x.quantile(torch.tensor(q, dtype=x.dtype), where, keepdim=keep, interpolation=way), 30)
    if name == "unique":
        lua = "local x = ... local v, i, c = x:unique{return_inverse = true, return_counts = true} return v, i - 1, c"
        if r.random() < 0.3:
            return Case(name, "local x = ... return x:unique()", [x], lambda: x.unique())
        if x.is_floating_point():  # which NaN is which is left open
            x = torch.where(x.isnan(), torch.zeros_like(x), x)
        return Case(name, lua, [x], lambda: x.unique(return_inverse=True, return_counts=True))
    if name == "unique_dim":
        if x.is_floating_point():
            x = torch.where(x.isnan(), torch.zeros_like(x), x)
        lua = "local x = ... local v, i, c = x:unique{dim = %d, return_inverse = true, return_counts = true} return v, i - 1, c" % at
        return Case(name, lua, [x], lambda: x.unique(dim=dim, return_inverse=True, return_counts=True), must_raise=False)
    right = r.random() < 0.5
    number = r.choice([2.5, -1.5, 2, 0, -3, 1.0])
    if name == "isin" and r.random() < 0.2:
        lua = "local x = ... return tide.isin(x, %r, {invert = %s})" % (number, lua_bool(keep))
        return Case(name, lua, [x], lambda: torch.isin(x, number, invert=keep))
    if name == "isin":
        y = draw(r, r.shape(2), r.choice(REAL))
        lua = "local x, y = ... return tide.isin(x, y, {invert = %s})" % lua_bool(keep)
        return Case(name, lua, [x, r.laid_out(y)], lambda: torch.isin(x, y, invert=keep))
    n = r.choice([0, 1, 5, 300])
    own = name == "searchsorted" and len(shape) > 0 and r.random() < 0.5
    line = draw(r, (shape[:-1] if own else []) + [n], dtype)
    if line.is_floating_point():  # PyTorch's search among NaN depends on where it looks first
        line = torch.where(line.isnan(), torch.zeros_like(line), line)
    line, order = line.sort(-1)
    if name == "bucketize" and r.random() < 0.2:
        number = abs(number) if dtype == "uint8" else number  # PyTorch's -3 wraps to 253
        lua = "local line = ... return tide.bucketize(%r, line, {right = %s}) - 1" % (number, lua_bool(right))
        return Case(name, lua, [r.laid_out(line)], lambda: torch.bucketize(number, line, right=right))
    if name == "bucketize":
        lua = "local x, line = ... return tide.bucketize(x, line, {right = %s}) - 1" % lua_bool(right)
        return Case(name, lua, [x, r.laid_out(line)], lambda: torch.bucketize(x, line, right=right))
    if r.random() < 0.3:
        mixed = torch.empty_like(line).scatter_(-1, order, line)
        lua = "local x, line, order = ... return tide.searchsorted(line, x, {right = %s, sorter = order + 1}) - 1" % lua_bool(right)
        return Case(name, lua, [x, mixed, order], lambda: torch.searchsorted(mixed, x, right=right, sorter=order))
    lua = "local x, line = ... return tide.searchsorted(line, x, {side = '%s', out_int32 = true}) - 1" % ("right" if right else "left")
    return Case(name, lua, [x, r.laid_out(line)], lambda: torch.searchsorted(line, x, right=right, out_int32=True))
