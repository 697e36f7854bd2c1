"""sort_torch.py: PyTorch's side of sort.lua, case by case."""
import sys

import torch

import bench

torch.set_grad_enabled(False)


def cases(device, n, rate):
    x = torch.randn(n, device=device)
    rate("float32", n, lambda: x.sort())
    rate("float32_down", n, lambda: x.sort(descending=True))
    rate("argsort", n, lambda: x.argsort())
    rate("topk_100", n, lambda: x.topk(100))
    rate("topk_2000", n, lambda: x.topk(2000))
    rate("kthvalue", n, lambda: x.kthvalue(n // 3))
    rate("median", n, lambda: x.median())
    rate("quantile", n // 8, lambda: x[: n // 8].quantile(0.3))
    half = x.bfloat16()
    rate("bfloat16", n, lambda: half.sort())
    del half
    i = torch.randint(0, 1 << 40, (n,), device=device)
    rate("int64", n, lambda: i.sort())
    i = torch.randint(0, 1 << 20, (n,), device=device)
    rate("unique_2^20", n, lambda: i.unique(), 5)
    rate("unique_inverse_2^20", n, lambda: i.unique(return_inverse=True, return_counts=True), 5)
    i = i.int()
    rate("unique_int32_2^20", n, lambda: i.unique(), 5)
    edges = x[: 1 << 16].sort()[0]
    rate("searchsorted_2^16", n, lambda: torch.searchsorted(edges, x))
    del i, edges
    for length in (16, 100, 1000, 4096, 100000):
        lines = x[: n // length * length].view(-1, length)
        rate("lines_of_%d" % length, lines.numel(), lambda: lines.sort(), 5)
        rate("topk_10_of_%d" % length, lines.numel(), lambda: lines.topk(10), 5)


if torch.cuda.is_available() and "cpu" not in sys.argv:
    for name, n in (("2^26", 1 << 26), ("5e7+1", 50000001)):
        cases("cuda", n, lambda case, count, f, reps=20: bench.out(
            "sort_%s_%s" % (case, name), count / bench.device_ms(f, reps) / 1e6, "G/s"))
for bits in (20, 24):
    cases("cpu", 1 << bits, lambda case, count, f, reps=3: bench.out(
        "sort_cpu_%s_of_2^%d" % (case, bits), count / bench.seconds(f, 3) / 1e6, "M/s"))
