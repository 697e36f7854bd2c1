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
    x, y, z, a = torch.randn(N), torch.randn(N), torch.empty(N), torch.randn(1)
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
    # Rows that read and write 2^22 numbers.
    S = 1 << 22
    s, u, w, by = x[:S] * 10, torch.rand(S), torch.empty(S), y[:S]
    vectors, mask = s.view(S // 4, 4)[:, :3].contiguous(), s > 0
    some = torch.randn(int(mask.sum()))

    def rate(case, size, f):
        bench.out(case, size * S / bench.seconds(f) / 1e9, "GB/s")

    rate("remainder", 12, lambda: torch.remainder(s, by, out=w))
    rate("floor_divide", 12, lambda: torch.floor_divide(s, by, out=w))
    rate("fmod", 12, lambda: torch.fmod(s, by, out=w))
    for power in (2, 3, 0.5, -1):
        rate(f"pow{power}", 8, lambda: torch.pow(u, power, out=w))
    rate("acos", 8, lambda: torch.acos(u, out=w))
    rate("lgamma", 8, lambda: torch.lgamma(s, out=w))
    rate("norm_of_3", 4, lambda: torch.linalg.vector_norm(vectors, 2, 1))
    rate("mask_number", 5, lambda: s.__setitem__(mask, 1.5))
    rate("mask_tensor", 9, lambda: s.__setitem__(mask, some))
    at = torch.randint(0, S, (S,))
    row, few = at[: S // 64] % (S // 64), at % 1024
    rows, sums, bins = s.view(S // 64, 64), torch.zeros(S // 64, 64), torch.zeros(1024)
    rate("gather", 16, lambda: torch.gather(s, 0, at, out=w))
    rate("scatter_add", 20, lambda: w.scatter_add_(0, at, s))
    rate("scatter_add_1024", 12, lambda: bins.scatter_add_(0, few, s))
    rate("select_rows_64", 8, lambda: torch.index_select(rows, 0, row, out=sums))
    rate("add_rows_64", 12, lambda: sums.index_add_(0, row, rows))
    rate("histc_100", 4, lambda: s.histc(100, -20, 20))
    bench.out("randperm", 2**20 / bench.seconds(lambda: torch.randperm(1 << 20)) / 1e6, "M/s")
    image = torch.fft.fft2(torch.randn(512, 512))
    bench.out("fft512x512", 8 * 2**18 / bench.seconds(lambda: torch.fft.fft2(image)) / 1e9, "GB/s")
    for dtype in (torch.float32, torch.float64):
        for n in (512, 1024, 2048, 4096):
            m, c = torch.randn(n, n, dtype=dtype), torch.empty(n, n, dtype=dtype)
            case = f"matmul{n}" + ("_f64" if dtype == torch.float64 else "")
            seconds = bench.seconds(lambda: torch.matmul(m, m, out=c), 9 if n < 2048 else 3)
            bench.out(case, 2 * n**3 / seconds / 1e9, "GFLOP/s")
    p, q = torch.randn(1 << 20, 4, 4), torch.randn(1 << 20, 4, 4)
    product = torch.empty_like(p)
    bench.out("bmm4x4_1M", 3 * 64 * 2**20 / bench.seconds(lambda: torch.bmm(p, q, out=product)) / 1e9, "GB/s")
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
    bench.out("matmul1024", 2 * 1024**3 / bench.seconds(lambda: m @ m) / 1e9, "GFLOP/s")
    host("add1", lambda: a + a, 20000)
    host("view", lambda: x[3:9], 20000)
    host("empty", lambda: np.empty(1, "f"), 20000)
