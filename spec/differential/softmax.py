"""softmax.py: softmax and its logarithm."""
import torch

from run import Case, DTYPES

FLOATS = ["float16", "bfloat16", "float32", "float64"]


def case(r):
    name, dtype = r.choice(["softmax", "log_softmax"]), r.choice(FLOATS)
    shape = r.shape()
    if r.random() < 0.2:
        shape = [r.randint(1, 5000), r.choice([1, 2, 3, 15, 16, 17, 40, 300])][:: r.choice([1, -1])]
        while shape[0] * shape[1] > 200000:
            shape = [max(1, n // 2) for n in shape]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(r.getrandbits(40))) * r.choice([1, 10, 100])
    for value in (float("nan"), float("inf"), -float("inf")):
        if r.random() < 0.1:
            x = torch.where(torch.rand(shape) < r.choice([0.02, 0.5, 1]), torch.full_like(x, value), x)
    x = x.to(DTYPES[dtype])
    dim = r.randrange(len(shape)) if shape else 0
    at = r.choice([dim + 1, dim - max(len(shape), 1)])
    how = r.random()
    if how < 0.1 and x.numel() > 0:  # without elements PyTorch takes any dtype
        x = r.values(shape, r.choice([d for d in DTYPES if d not in FLOATS]))
        return Case(name, "local x = ... return x:%s(%d)" % (name, at), [x], lambda: getattr(torch, name)(x, dim))
    if how < 0.3:
        to, x = r.choice(FLOATS), r.values(shape, r.choice(list(DTYPES)[:10])) if how < 0.2 else x
        lua = "local x = ... return tide.special.%s(x, %d, {dtype = '%s'})" % (name, at, to)
        return Case(name, lua, [r.laid_out(x)], lambda: getattr(torch, name)(x, dim, dtype=DTYPES[to]), 3)
    return Case(name, "local x = ... return tide.%s(x, %d)" % (name, at), [r.laid_out(x)],
                lambda: getattr(torch, name)(x, dim), 3)
