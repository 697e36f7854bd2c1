"""scan.py: running sums, products and extremes, differences of neighbours."""
import torch

from run import Case, DTYPES

REAL = [d for d in DTYPES if not d.startswith("complex")]
TAKES = {"cumsum": DTYPES, "cumprod": DTYPES, "cummax": REAL, "cummin": REAL,
         "logcumsumexp": ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"], "diff": DTYPES,
         "trapezoid": DTYPES, "cumulative_trapezoid": DTYPES}


def area(r, name, y, dim, at):
    if r.random() < 0.5:
        dx = r.choice([1, 2, 0.5])
        return Case(name, "local y = ... return tide.%s(y, {dx = %s, dim = %d})" % (name, dx, at), [y],
                    lambda: getattr(torch, name)(y, dx=dx, dim=dim), 30)
    n = y.shape[dim]
    shape = r.choice([[n], list(y.shape), list(y.shape)[1:], [n + 1 if n else 0]])
    if n in (0, 2) and ([1] * (y.dim() - len(shape)) + shape)[dim] == 1:  # PyTorch takes one place, and no trapezoid is left
        shape = list(y.shape)
    x = r.laid_out(r.values(shape, "float32" if not y.is_complex() else "complex64"))
    return Case(name, "local y, x = ... return y:%s(x, {dim = %d})" % (name, at), [y, x],
                lambda: getattr(torch, name)(y, x, dim=dim), 30)


def case(r):
    name = r.choice(list(TAKES))
    dtype = r.choice(list(TAKES[name]))
    shape = r.shape(least=0 if name in ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp") else 1)
    if r.random() < 0.1:
        shape = [r.randint(1, 3000), r.randint(1, 5)][:: r.choice([1, -1])]
    x = r.values(shape, dtype)
    if name == "cumprod":  # products stay small: signs, and a zero now and then
        x = torch.where(x == 0, x, x / x) if x.is_floating_point() or x.is_complex() else (x != 0).to(x.dtype)
    elif x.is_floating_point() and r.random() < 0.1:
        x = torch.where(torch.rand(shape) < 0.05, torch.full_like(x, float("nan")), x)
    x = r.laid_out(x)
    dim = r.randrange(len(shape)) if shape else 0
    at = r.choice([dim + 1, dim - max(len(shape), 1)])
    if name.endswith("trapezoid"):
        return area(r, name, x if x.numel() else x.float(), dim, at)  # of nothing PyTorch takes bools, too
    if name == "diff" and r.random() < 0.5:
        more = [r.laid_out(r.values(shape[:dim] + [r.randint(0, 3)] + shape[dim + 1:], r.choice([dtype, "int32"])))
                for _ in range(2)]
        lua = "local x, p, a = ... return x:diff{n = %d, dim = %d, prepend = p, append = a}"
        n = r.randint(0, 3)
        return Case(name, lua % (n, at), [x] + more, lambda: x.diff(n, dim, *more), must_raise=False)
    if name == "diff":
        n = r.randint(0, 3)
        return Case(name, "local x = ... return x:diff{n = %d, dim = %d}" % (n, at), [x], lambda: x.diff(n, dim))
    if name == "logcumsumexp" and x.is_complex():  # imaginary parts may be 2 pi apart
        return Case(name, "local x = ... return x:logcumsumexp(%d):exp()" % at, [x], lambda: x.logcumsumexp(dim).exp(), 30)
    if name in ("cummax", "cummin"):
        lua = "local x = ... local v, i = x:%s(%d) return v, i - 1" % (name, at)
        return Case(name, lua, [x], lambda: tuple(getattr(x, name)(dim)))
    if name in ("cumsum", "cumprod") and r.random() < 0.3:
        to = r.choice([d for d in DTYPES if d != "bool"]) if not dtype.startswith("complex") else "complex128"
        lua = "local x = ... return tide.%s(x, %d, {dtype = tide.%s})" % (name, at, to)
        return Case(name, lua, [x], lambda: getattr(x, name)(dim, dtype=DTYPES[to]), 30)
    return Case(name, "local x = ... return x:%s(%d)" % (name, at), [x], lambda: getattr(x, name)(dim), 30)
