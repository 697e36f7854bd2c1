"""growth_torch.py: PyTorch's side of growth.lua, size by size.

usage: growth_torch.py [cuda|cpu] [last=30]
"""
import statistics
import sys

import torch

import bench

torch.set_grad_enabled(False)
device = sys.argv[1] if len(sys.argv) > 1 else "cuda" if torch.cuda.is_available() else "cpu"
last = int(sys.argv[2]) if len(sys.argv) > 2 else 26 if device == "cpu" else 30
sync = bench.nothing if device == "cpu" else torch.cuda.synchronize


def randn(*sizes):
    return torch.randn(*sizes, device=device)


def add(n, _):
    x, y = randn(n), randn(n)
    return lambda: x + y


def transpose(n, k):
    x = randn(1 << k // 2, n >> k // 2).t()
    return (lambda: x.contiguous()) if k > 0 else None  # one element is contiguous


def gather(n, _):
    x, at = randn(n), torch.randint(0, n, (n,), device=device)
    return lambda: x.gather(0, at)


def softmax(n, _):
    x = randn(max(1, n >> 10), min(n, 1024))
    return lambda: x.softmax(1)


def matmul(_, k):
    m = 1 << k // 2
    x, y = randn(m, m), randn(m, m)
    return (lambda: x @ y) if k <= 28 else None


def one(call):
    def make(n, _):
        x = randn(n)
        return lambda: call(x)

    return make


operations = {
    "add": add,
    "exp": one(torch.exp),
    "sum": one(torch.sum),
    "transpose": transpose,
    "normal_": one(lambda x: x.normal_()),
    "gather": gather,
    "cumsum": one(lambda x: x.cumsum(0)),
    "softmax": softmax,
    "sort": one(lambda x: x.sort(0)),
    "matmul": matmul,
}


def microseconds(call):
    def loop(n):
        sync()
        start = bench.now()
        for _ in range(n):
            call()
        sync()
        return (bench.now() - start) / n

    loop(1)
    n = max(3, min(5000, round(0.02 / loop(3))))
    return statistics.median(loop(n) for _ in range(3)) * 1e6


for name, make in operations.items():
    for k in range(0, last + 1, 2):
        call = make(1 << k, k)
        if call:
            bench.out(f"growth_{name}_2^{k}", microseconds(call), "us")
        del call
