"""linalg.py: linear algebra. Factors that are not unique are compared by what they multiply out to."""
import torch

from run import Case, DTYPES

TYPES = ["float32", "float64", "complex64", "complex128"]
UNIQUE = ["solve", "inv", "det", "slogdet", "svdvals", "pinv", "matrix_rank", "matrix_power", "matrix_exp", "cholesky",
          "triangular", "vector_norm", "norm", "lstsq"]
FACTORS = ["lu", "qr", "svd", "eigh", "eig"]
INF = float("inf")


def lua_of(value):
    return {INF: "math.huge", -INF: "-math.huge", None: "nil"}.get(value, repr(value).replace("None", "nil"))


def batch(r):
    return [r.choice([0, 1, 2, 3, 3]) for _ in range(r.choice([0, 0, 1, 1, 2]))]


def values(r, shape, dtype):
    g = torch.Generator().manual_seed(r.getrandbits(40))
    return torch.randn(shape, generator=g, dtype=DTYPES[dtype])


def square(r, shape, n, dtype):
    """Far from singular."""
    return values(r, shape + [n, n], dtype) / max(n, 1) + torch.eye(n, dtype=DTYPES[dtype]) * r.choice([1, 2, -1])


def broadcast(r, shape):
    """A batch that broadcasts to the shape, or, seldom, does not."""
    if r.random() < 0.05:
        return shape + [5]
    shape = shape[r.randint(0, len(shape)):] if r.random() < 0.4 else shape
    return [1 if r.random() < 0.2 else s for s in shape]


def call_vector_norm(r, x, name):
    order = r.choice([0, 1, 2, 3, 0.5, INF, -INF, -1])
    dim = r.choice([None, r.randrange(x.dim())])
    keep = r.random() < 0.5
    lua = "return tide.linalg.%s(..., %s%s, {keepdim = %s})" % (
        name, lua_of(order), "" if dim is None else ", %d" % (dim + 1), str(keep).lower())
    return Case(name, lua, [x], lambda: getattr(torch.linalg, name)(x, order, dim, keep), 10)


def unique(r, name, dtype):
    shape, n = batch(r), r.choice([0, 1, 2, 3, 4, 6, 9])
    if name == "solve":
        a = r.laid_out(square(r, broadcast(r, shape), n, dtype))
        k = r.choice([0, 1, 2, 5])
        left = r.random() < 0.8
        sides = [n, k] if left else [k, n]
        if r.random() < 0.1:
            sides[0] += 1
        b = r.laid_out(values(r, [n] if r.random() < 0.2 and left else broadcast(r, shape) + sides, dtype))
        lua = "local a, b = ... return tide.linalg.solve(a, b, {left = %s})" % str(left).lower()
        return Case(name, lua, [a, b], lambda: torch.linalg.solve(a, b, left=left), 50)
    if name == "triangular":
        upper, left, unit = (r.random() < 0.5 for _ in range(3))
        a = square(r, broadcast(r, shape), n, dtype)
        a = r.laid_out(a.triu() if upper else a.tril())  # PyTorch may read the other triangle of what it was told is none
        b = r.laid_out(values(r, broadcast(r, shape) + ([n, 3] if left else [3, n]), dtype))
        lua = "local a, b = ... return tide.linalg.triangular_solve(a, b, {upper = %s, left = %s, unitriangular = %s})" % tuple(
            str(v).lower() for v in (upper, left, unit))
        return Case(name, lua, [a, b], lambda: torch.linalg.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit), 50)
    if name in ("vector_norm", "norm") and r.random() < 0.6:
        x = r.laid_out(values(r, shape + [r.choice([1, 3, 5])], dtype))
        if name == "norm" and x.dim() > 1:
            return Case(name, "return tide.linalg.norm(...)", [x], lambda: torch.linalg.norm(x), 10)
        return call_vector_norm(r, x, name)
    if name in ("vector_norm", "norm"):
        x = r.laid_out(values(r, shape + [r.randint(1, 5), r.randint(1, 5)], dtype))
        order = r.choice(["fro", "nuc", 1, -1, 2, -2, INF, -INF, 3])
        dims = r.sample(range(x.dim()), 2)
        keep = r.random() < 0.5
        if min(x.shape[d] for d in dims) == 0 or x.numel() == 0:
            x = torch.ones(2, 2, dtype=x.dtype)
            dims = [0, 1]
        lua = "return tide.linalg.norm(..., %s, {%d, %d}, {keepdim = %s})" % (
            lua_of(order).replace("'", '"'), dims[0] + 1, dims[1] + 1, str(keep).lower())
        return Case("norm", lua, [x], lambda: torch.linalg.norm(x, order, dims, keep), 20)
    if name in ("svdvals", "pinv", "matrix_rank"):
        m = r.choice([0, 1, 2, 5, 8])
        x = values(r, shape + [m, n], dtype)
        if m > 1 and r.random() < 0.3:
            x[..., 0, :] = x[..., 1, :]
        x = r.laid_out(x)
        options = r.choice([{}, {}, {"rtol": 0.1}, {"atol": 0.5}, {"atol": 0.5, "rtol": 0.1}]) if name != "svdvals" else {}
        lua = "return tide.linalg.%s(..., {%s})" % (name, ", ".join("%s = %g" % o for o in options.items()))
        return Case(name, lua, [x], lambda: getattr(torch.linalg, name)(x, **options), 100)
    if name == "lstsq":
        m = r.choice([1, 2, 5, 8])
        n = max(n, 1)
        a = r.laid_out(values(r, shape + [m, n], dtype) + torch.eye(m, n, dtype=DTYPES[dtype]) * 4)
        b = r.laid_out(values(r, shape + [m, 2], dtype))
        driver = r.choice(["gelsd", "gels"])
        lua = 'local a, b = ... return (tide.linalg.lstsq(a, b, {driver = "%s"}))' % driver
        return Case(name, lua, [a, b], lambda: torch.linalg.lstsq(a, b, driver=driver).solution, 200)
    x = square(r, shape, n, dtype)
    if name == "cholesky":
        x = x @ x.mH + torch.eye(n, dtype=x.dtype)
    if name == "matrix_exp":
        x = x * r.choice([1e-3, 1, 4])
    x = r.laid_out(x if r.random() < 0.95 else values(r, shape + [n, n + 1], dtype))
    if name == "matrix_power":
        k = r.randint(-3, 6)
        return Case(name, "return tide.linalg.matrix_power(..., %d)" % k, [x], lambda: torch.linalg.matrix_power(x, k), 100)
    return Case(name, "return tide.linalg.%s(...)" % name, [x], lambda: (lambda y: tuple(y) if name == "slogdet" else y)(
        getattr(torch.linalg, name)(x)), 100, name != "matrix_exp")  # PyTorch's does not take every layout


def factors(r, name, dtype):
    shape, n, m = batch(r), r.choice([0, 1, 2, 3, 5, 9]), r.choice([0, 1, 2, 5, 8])
    if name in ("lu", "qr", "svd"):
        x = r.laid_out(values(r, shape + [m, n], dtype))
    else:
        x = square(r, shape, n, dtype)
        x = r.laid_out(x + x.mH if name == "eigh" else x)
    if name == "lu":
        lua = "local P, L, U = tide.linalg.lu(...) return P:matmul(L):matmul(U), P, L:abs(), U:abs()"
        return Case(name, lua, [x], lambda: (lambda p, l, u: (x, p, l.abs(), u.abs()))(*torch.linalg.lu(x)), 50)
    if name == "qr":
        mode = r.choice(["reduced", "complete"])
        lua = 'local Q, R = tide.linalg.qr(..., "%s") return Q:matmul(R), Q.mT:conj():matmul(Q), R:abs()' % mode
        return Case(name, lua, [x], lambda: (lambda q, s: (q @ s, q.mH @ q, s.abs()))(*torch.linalg.qr(x, mode)), 50)
    if name == "svd":
        full = r.random() < 0.5
        lua = """local U, S, V = tide.linalg.svd(..., {full_matrices = %s}) local k = S:size(-1)
                 return (U:narrow(-1, 1, k) * S:unsqueeze(-2):to(U.dtype)):matmul(V:narrow(-2, 1, k)), S,
                 U.mT:conj():matmul(U), V:matmul(V.mT:conj())""" % str(full).lower()
        return Case(name, lua, [x], lambda: (lambda u, s, v: (x, s, u.mH @ u, v @ v.mH))(*torch.linalg.svd(x, full)), 50)
    if name == "eigh":
        upper = r.random() < 0.5
        lua = """local w, V = tide.linalg.eigh(..., {upper = %s})
                 return (V * w:unsqueeze(-2):to(V.dtype)):matmul(V.mT:conj()), w""" % str(upper).lower()
        return Case(name, lua, [x], lambda: (x, torch.linalg.eigvalsh(x)), 50)
    lua = """local w, V = tide.linalg.eig(...) local x = (...):to(V.dtype)
             return x:matmul(V) - V * w:unsqueeze(-2), w:sum(-1), w:prod(-1)"""
    return Case(name, lua, [x], lambda: (lambda w, v: (v * 0, w.sum(-1), w.prod(-1)))(*torch.linalg.eig(x)), 100)


def case(r):
    dtype = r.choice(TYPES) if r.random() < 0.97 else "int64"
    name = r.choice(UNIQUE + FACTORS)
    if dtype == "int64":
        x = torch.ones(2, 2, dtype=torch.int64)
        name = r.choice(["inv", "det", "svdvals", "eigh", "qr", "pinv", "matrix_exp"])
        return Case(name, "return tide.linalg.%s(...)" % name, [x], lambda: getattr(torch.linalg, name)(x))
    return unique(r, name, dtype) if name in UNIQUE else factors(r, name, dtype)
