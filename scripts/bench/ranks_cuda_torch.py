"""ranks_cuda_torch.py: PyTorch's side of ranks_cuda.lua, row by row. usage: python3 scripts/bench/ranks_cuda_torch.py [ranks]"""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def measure(rank, name, size, f):
    count = 200 if size < 1 << 20 else 50 if size < 1 << 26 else 10
    for _ in range(5):
        f()
    torch.cuda.synchronize()
    rates, host, waited = [], [], []
    for _ in range(7):
        dist.barrier()
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        for _ in range(count):
            f()
        last.record()
        last.synchronize()
        rates.append(size * count / first.elapsed_time(last) / 1e6)
        begin = time.perf_counter()
        for _ in range(20):
            f()
        host.append((time.perf_counter() - begin) / 20 * 1e6)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(20):
            f()
            torch.cuda.synchronize()
        waited.append((time.perf_counter() - begin) / 20 * 1e6)
    if rank == 0:
        columns = f"{statistics.median(rates):.4g}\tGB/s\t{statistics.median(host):.2f}\tus\t{statistics.median(waited):.2f}\tus"
        print(f"torch\t{name}\t{size}\t{columns}", flush=True)


def run(rank, ranks):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=ranks, device_id=torch.device("cuda", rank))
    for size in (4096, 65536, 1 << 20, 1 << 24, 1 << 28, 1 << 30):
        whole = torch.ones(size // 4, device="cuda")
        part = torch.ones(size // 4 // ranks, device="cuda")
        measure(rank, "all_reduce", size, lambda: dist.all_reduce(whole, op=dist.ReduceOp.MAX))
        measure(rank, "broadcast", size, lambda: dist.broadcast(whole, 0))
        measure(rank, "all_gather", size, lambda: dist.all_gather_into_tensor(whole, part))
        measure(rank, "reduce_scatter", size, lambda: dist.reduce_scatter_tensor(part, whole, op=dist.ReduceOp.MAX))
    dist.destroy_process_group()


if __name__ == "__main__":
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    mp.spawn(run, args=(ranks,), nprocs=ranks)
