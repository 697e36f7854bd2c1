"""comm_torch.py: PyTorch's side of comm.lua, case by case."""
import sys

import torch
from torch.cuda import comm, nccl

import bench

if torch.cuda.device_count() < 2:
    print("comm: needs two devices")
    sys.exit(0)
torch.set_grad_enabled(False)
devices = [0, 1]


def sync():
    for d in devices:
        torch.cuda.synchronize(d)


def bandwidth(case, size, f):
    reps = max(3, min(200, (1 << 30) // size))
    bench.out("bw_" + case, size * reps / bench.seconds(bench.repeated(reps, f), 7, sync) / 1e9, "GB/s")


def name(size):
    return f"{size >> 20}M" if size >= 1 << 20 else f"{size >> 10}K"


def on(d, n):
    return torch.ones(n, device=f"cuda:{d}")


def cases(size):
    n = size // 4
    a, b = on(0, n), on(1, n)
    A, lo, hi = a.view(64, n // 64), on(0, n // 2).view(64, n // 128), on(1, n // 2).view(64, n // 128)
    pair, halves, rows = [a, b], [lo, hi], [a[: n // 2], b[: n // 2]]
    many = [on(0, max(1, n // 100)) for _ in range(100)]
    lists = [[on(d, max(1, n // 100)) for _ in range(100)] for d in devices]
    whole = [on(0, 2 * n), on(1, 2 * n)]
    return [
        ("broadcast", lambda: comm.broadcast(a, devices)),
        ("reduce_add", lambda: comm.reduce_add(pair, 0)),
        ("scatter", lambda: comm.scatter(a, devices)),
        ("gather", lambda: comm.gather(rows)),
        ("scatter_dim2", lambda: comm.scatter(A, devices, dim=1)),
        ("gather_dim2", lambda: comm.gather(halves, dim=1)),
        ("broadcast_coalesced", lambda: comm.broadcast_coalesced(many, devices)),
        ("reduce_add_coalesced", lambda: comm.reduce_add_coalesced(lists, 0)),
        ("nccl_all_reduce", lambda: nccl.all_reduce(pair)),
        ("nccl_broadcast", lambda: nccl.broadcast(pair)),
        ("nccl_all_gather", lambda: nccl.all_gather(pair, whole)),
    ]


for size in (4 << 10, 64 << 10, 512 << 10):
    for case, f in cases(size):
        bench.host(f"{case}_{name(size)}", f, 200 if "coalesced" in case else 1000, sync)
for size in (1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20):
    for case, f in cases(size):
        bandwidth(f"{case}_{name(size)}", size, f)
