"""index_torch.py: PyTorch's side of index.lua, case by case."""
import torch

import bench

torch.set_grad_enabled(False)
n = 1 << 26


def rate(case, count, f, reps=20):
    bench.out("index_" + case, count / bench.device_ms(f, reps) / 1e6, "G/s")


x, v, out = (torch.randn(n, device="cuda") for _ in range(3))
index = torch.randint(0, n, (n,), device="cuda")
rate("gather", n, lambda: torch.gather(x, 0, index, out=out))
rate("take", n, lambda: torch.take(x, index, out=out))
rate("scatter", n, lambda: out.scatter_(0, index, v))
m, M, wide = index.view(8192, 8192) % 8192, x.view(8192, 8192), out.view(8192, 8192)
rate("gather_rows", n, lambda: torch.gather(M, 1, m, out=wide))
rate("gather_columns", n, lambda: torch.gather(M, 0, m, out=wide))
del m, M, wide

for places in (26, 20, 10, 0):
    at, sums = index % (1 << places), torch.zeros(1 << places, device="cuda")
    rate("scatter_add_2^%d" % places, n, lambda: sums.scatter_add_(0, at, v))
    rate("index_add_2^%d" % places, n, lambda: sums.index_add_(0, at, v))
at = index % (1 << 20)
most = torch.zeros(1 << 20, device="cuda")
rate("amax_2^20", n, lambda: most.scatter_reduce_(0, at, v, "amax"))
torch.use_deterministic_algorithms(True)
rate("scatter_add_in_order_2^20", n, lambda: most.scatter_add_(0, at, v), 5)
torch.use_deterministic_algorithms(False)

for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
    rows, row_at = x.view(-1, 64).to(dtype), torch.randint(0, n // 64, (n // 64,), device="cuda")
    target = torch.zeros(n // 64, 64, device="cuda", dtype=dtype)
    rate("select_rows_" + name, n, lambda: torch.index_select(rows, 0, row_at, out=target))
    rate("add_rows_" + name, n, lambda: target.index_add_(0, row_at, rows))

for bins in (10, 20):
    values = index % (1 << bins)
    rate("bincount_2^%d" % bins, n, lambda: values.bincount())
rate("histc_100", n, lambda: x.histc(100, -4, 4))
mask = x > 0
rate("masked_select", n, lambda: x.masked_select(mask))
rate("nonzero", n, lambda: mask.nonzero())
