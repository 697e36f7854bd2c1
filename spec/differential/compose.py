"""compose.py: joins, splits, products and statistics that are made of other functions."""
import torch

from run import Case, DTYPES

ALL = list(DTYPES)
NUMBERS = [d for d in ALL if d != "bool"]
FLOATS = ["float32", "float64", "complex64", "complex128"]


def stacks(r, name):
    n = r.randint(1, 4)
    dtypes = [r.choice(ALL)] * n if r.random() < 0.5 else [r.choice(ALL) for _ in range(n)]
    shape = r.shape(most=3)
    shapes = [list(shape) for _ in range(n)]
    along = {"hstack": 1 if len(shape) > 1 else 0, "vstack": 0, "dstack": 2, "column_stack": 1}[name]
    if r.random() < 0.5 and along < len(shape) and (name != "vstack" or len(shape) > 1):
        for s in shapes:
            s[along] = r.randint(0, 3)
    if r.random() < 0.1:
        shapes[0] = r.shape(most=2)
    xs = [r.laid_out(r.values(s, d)) for s, d in zip(shapes, dtypes)]
    return Case(name, "return tide.%s {...}" % name, xs, lambda: getattr(torch, name)(xs))


def tensor_split(r):
    x = r.laid_out(r.values(r.shape(), r.choice(ALL)))
    dim = r.randrange(x.dim()) if x.dim() else 0
    if r.random() < 0.5:
        n = r.randint(0 if r.random() < 0.1 else 1, 6)
        lua, f = "%d" % n, lambda: x.tensor_split(n, dim)
    else:
        at = [r.choice([-1, 1]) * r.randint(1, 8) for _ in range(r.randint(0, 3))]
        cuts = [i if i < 0 else i - 1 for i in at]  # tide's count from 1
        lua, f = "{%s}" % ", ".join(map(str, at)), lambda: x.tensor_split(cuts, dim)
        if r.random() < 0.3 and at:
            lua = "tide.tensor(%s)" % lua
    return Case("tensor_split", "return table.unpack((...):tensor_split(%s, %d))" % (lua, dim + 1), [x], f)


def vander(r):
    x = r.laid_out(r.values([r.randint(0, 5)] if r.random() < 0.95 else [2, 2], r.choice(NUMBERS)))
    n, up = r.choice([None, 0, 1, 2, 3, 4]), r.random() < 0.5
    lua = "return tide.vander(..., %s, {increasing = %s})" % (n if n is not None else "nil", str(up).lower())
    return Case("vander", lua, [x], lambda: torch.vander(x, n, up), 3)


def block_diag(r):
    dtypes = [d for d in ALL if d not in ("float16", "bfloat16")]  # they are half of a complex number's there
    xs = [r.laid_out(r.values(r.shape(most=2 if r.random() < 0.97 else 3), r.choice(dtypes))) for _ in range(r.randint(1, 4))]
    return Case("block_diag", "return tide.block_diag(...)", xs, lambda: torch.block_diag(*xs))


def cartesian_prod(r):
    dtype = r.choice(ALL)
    xs = [r.laid_out(r.values([r.randint(0, 4)], dtype)) for _ in range(r.randint(1, 4))]
    if r.random() < 0.1:
        xs[-1] = r.values(r.shape(most=2), r.choice(ALL))
    return Case("cartesian_prod", "return tide.cartesian_prod(...)", xs, lambda: torch.cartesian_prod(*xs))


def combinations(r):
    x = r.laid_out(r.values([r.randint(0, 6)], r.choice(ALL)))
    k, again = r.randint(0, 4), r.random() < 0.5
    lua = "return tide.combinations(..., %d, {with_replacement = %s})" % (k, str(again).lower())
    return Case("combinations", lua, [x], lambda: torch.combinations(x, k, again))


def kron(r):
    x, y = (r.laid_out(r.values(r.shape(most=3, size=4), r.choice(ALL))) for _ in range(2))
    return Case("kron", "local x, y = ... return tide.kron(x, y)", [x, y], lambda: torch.kron(x, y),
                must_raise=False)  # it takes no views of some


def cross(r):
    dtype, shape = r.choice(NUMBERS), r.shape(least=1)
    dim = r.randrange(len(shape))
    shape[dim] = 3 if r.random() < 0.95 else 2
    other = [1 if d != dim and r.random() < 0.2 else n for d, n in enumerate(shape)]
    x, y = r.laid_out(r.values(shape, dtype)), r.laid_out(r.values(other, dtype if r.random() < 0.95 else r.choice(NUMBERS)))
    lua = "local x, y = ... return tide.cross(x, y, {dim = %d})" % r.choice([dim + 1, dim - len(shape)])
    return Case("cross", lua, [x, y], lambda: torch.linalg.cross(x, y, dim=dim))


def cov(r):
    x = r.laid_out(r.values(r.shape(most=2), r.choice(FLOATS + ["int64", "int32", "uint8", "bool"])))
    n = x.shape[-1] if x.dim() else 1
    correction = r.choice([0, 1, 1, 2])
    f = r.values([n], "uint8").to(torch.int64) if r.random() < 0.3 else None
    a = r.values([n], "uint8").to(torch.float64 if x.dtype in (torch.float64, torch.complex128) else torch.float32) / 4 \
        if not x.is_complex() and r.random() < 0.3 else None
    options, tensors = ["correction = %d" % correction], [x]
    for name, w in (("fweights", f), ("aweights", a)):
        if w is not None:
            tensors.append(w)
            options.append("%s = (select(%d, ...))" % (name, len(tensors)))
    lua = "return tide.cov((...), {%s})" % ", ".join(options)
    return Case("cov", lua, tensors, lambda: torch.cov(x, correction=correction, fweights=f, aweights=a))


def corrcoef(r):
    x = r.laid_out(r.values(r.shape(most=2), r.choice(FLOATS + ["int64"])))
    return Case("corrcoef", "return tide.corrcoef(...)", [x], lambda: torch.corrcoef(x), 3)


def histogramdd(r):
    dtype, d = r.choice(["float32", "float64"]), r.randint(1, 3)
    shape = r.shape(most=3, least=1)[:2] + [d]
    x = r.laid_out(r.values(shape, dtype) / r.choice([1, 4]))
    n, density = x.numel() // d, r.random() < 0.3
    w = r.values(shape[:-1], dtype) if r.random() < 0.3 else None
    if w is not None and density:
        w = w.abs() + 1
    tensors, options, kw = [x], ["density = %s" % str(density).lower()], {"density": density}
    if w is not None:
        tensors.append(w)
        options.append("weight = (select(%d, ...))" % len(tensors))
        kw["weight"] = w
    if r.random() < 0.3:
        bins = [torch.tensor(sorted(r.randint(-5, 5) for _ in range(r.randint(2, 5))), dtype=DTYPES[dtype]) for _ in range(d)]
        tensors += bins
        lua = "{%s}" % ", ".join("(select(%d, ...))" % (len(tensors) - d + i + 1) for i in range(d))
    else:
        bins = r.randint(1, 5) if r.random() < 0.5 else [r.randint(1, 5) for _ in range(d)]
        lua = str(bins) if isinstance(bins, int) else "{%s}" % ", ".join(map(str, bins))
        if r.random() < 0.5:
            kw["range"] = [float(v) for _ in range(d) for v in sorted([r.randint(-4, 4), r.randint(-4, 4)])]
            options.append("range = {%s}" % ", ".join(map(str, kw["range"])))
    lua = "local h, edges = tide.histogramdd((...), %s, {%s}) return h, table.unpack(edges)" % (lua, ", ".join(options))

    def expected():
        h, edges = torch.histogramdd(x, bins, **kw)
        return (h, *edges)

    return Case("histogramdd", lua, tensors, expected)


def cdist(r):
    dtype, m = r.choice(["float32", "float64"]), r.choice([0, 1, 2, 3, 5, 9, 20])
    batch = r.shape(most=2, size=3)
    other = [n if r.random() < 0.8 else 1 for n in batch][r.randint(0, len(batch)):]
    n, k = r.choice([0, 1, 3, 8, 30]), r.choice([0, 1, 5, 40, 80])
    x, y = r.laid_out(r.values(batch + [n, m], dtype)), r.laid_out(r.values(other + [k, m + (r.random() < 0.03)], dtype))
    p = r.choice([0.0, 0.5, 1.0, 1.5, 2.0, 2.0, 2.0, 3.0, float("inf"), -1.0 if r.random() < 0.1 else 2.0])
    mode = r.choice(["use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"])
    if r.random() < 0.2 and x.numel() and p != float("inf"):  # there it may lose NaN
        # By a product, which of few coordinates is not always necessary, infinities cancel.
        odd = float("nan") if mode.endswith("necessary") else r.choice([float("nan"), float("inf")])
        x = torch.where(torch.rand(x.shape) < 0.1, torch.full_like(x, odd), x)
    text = "math.huge" if p == float("inf") else str(p)
    lua = "local x, y = ... return tide.cdist(x, y, %s, {compute_mode = '%s'})" % (text, mode)
    return Case("cdist", lua, [x, y], lambda: torch.cdist(x, y, p, compute_mode=mode), 20)


SIMPLE = [cdist, cdist, tensor_split, vander, block_diag, cartesian_prod, combinations, kron, cross, cov, corrcoef, histogramdd]


def case(r):
    if r.random() < 0.25:
        return stacks(r, r.choice(["hstack", "vstack", "dstack", "column_stack"]))
    return r.choice(SIMPLE)(r)
