"""comm_torch.py: PyTorch's side of comm.lua, case by case. Prints `torch <tab> case <tab> value <tab> unit`, one a line."""
import statistics
import sys
import time

import torch
from torch.cuda import comm, nccl

now = time.perf_counter
if torch.cuda.device_count() < 2:
    print("comm: needs two devices")
    sys.exit(0)
torch.set_grad_enabled(False)
devices = [0, 1]


def out(case, value, unit):
    print(f"torch\t{case}\t{value:.4g}\t{unit}", flush=True)


def sync():
    for d in devices:
        torch.cuda.synchronize(d)


def host(case, f, n):
    for _ in range(20):
        f()
    sync()
    issue = []
    for _ in range(7):
        t = now()
        for _ in range(n):
            f()
        issue.append((now() - t) / n * 1e9)
        sync()
    out("host_" + case, statistics.median(issue), "ns")


def bandwidth(case, size, f):
    reps = max(3, min(200, (1 << 30) // size))
    for _ in range(3):
        f()
    sync()
    rates = []
    for _ in range(7):
        t = now()
        for _ in range(reps):
            f()
        sync()
        rates.append(size * reps / (now() - t) / 1e9)
    out("bw_" + case, statistics.median(rates), "GB/s")


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
        host(f"{case}_{name(size)}", f, 200 if "coalesced" in case else 1000)
for size in (1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20):
    for case, f in cases(size):
        bandwidth(f"{case}_{name(size)}", size, f)
