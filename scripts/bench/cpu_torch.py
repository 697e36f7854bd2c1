"""cpu_torch.py: the side of PyTorch's CPU build and of NumPy of cpu.lua, 2 threads each, case by case."""
import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "2"
import sys

import bench

N, host = 1 << 24, bench.host
bench.peer = sys.argv[1] if len(sys.argv) > 1 else "torch"


def bandwidth(case, size, f):
    bench.out(case, size * N / bench.seconds(f) / 1e9, "GB/s")


if bench.peer == "torch":
    import torch

    torch.set_num_threads(2)
    torch.set_grad_enabled(False)
    x, y, z, a, m = torch.randn(N), torch.randn(N), torch.empty(N), torch.randn(1), torch.randn(1024, 1024)
    X, Z = x.view(4096, 4096), z.view(4096, 4096)
    bandwidth("add", 12, lambda: torch.add(x, y, out=z))
    bandwidth("mul2", 8, lambda: torch.mul(x, 2.0, out=z))
    bandwidth("exp", 8, lambda: torch.exp(x, out=z))
    bandwidth("sin", 8, lambda: torch.sin(x, out=z))
    bandwidth("tanh", 8, lambda: torch.tanh(x, out=z))
    bandwidth("sum", 4, lambda: x.sum())
    bandwidth("max", 4, lambda: x.max())
    bandwidth("sum_rows", 4, lambda: X.sum(1))
    bandwidth("sum_cols", 4, lambda: X.sum(0))
    bandwidth("transpose", 8, lambda: Z.copy_(X.t()))
    bandwidth("normal_", 4, lambda: z.normal_())
    bandwidth("uniform_", 4, lambda: z.uniform_())
    bandwidth("matmul1024", 2 * 1024**3 / N, lambda: m @ m)  # GFLOP/s
    host("add1", lambda: a + a, 20000)
    host("view", lambda: x[3:9], 20000)
    host("empty", lambda: torch.empty(1), 20000)
else:
    import numpy as np

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(N, dtype="f"), rng.standard_normal(N, dtype="f")
    z, a, m = x.copy(), x[:1].copy(), rng.standard_normal((1024, 1024), dtype="f")
    X, Z = x.reshape(4096, 4096), z.reshape(4096, 4096)
    bandwidth("add", 12, lambda: np.add(x, y, out=z))
    bandwidth("mul2", 8, lambda: np.multiply(x, np.float32(2), out=z))
    bandwidth("exp", 8, lambda: np.exp(x, out=z))
    bandwidth("sin", 8, lambda: np.sin(x, out=z))
    bandwidth("tanh", 8, lambda: np.tanh(x, out=z))
    bandwidth("sum", 4, lambda: x.sum())
    bandwidth("max", 4, lambda: x.max())
    bandwidth("sum_rows", 4, lambda: X.sum(1))
    bandwidth("sum_cols", 4, lambda: X.sum(0))
    bandwidth("transpose", 8, lambda: np.copyto(Z, X.T))
    bandwidth("matmul1024", 2 * 1024**3 / N, lambda: m @ m)  # GFLOP/s
    host("add1", lambda: a + a, 20000)
    host("view", lambda: x[3:9], 20000)
    host("empty", lambda: np.empty(1, "f"), 20000)
