"""gpu_torch.py: PyTorch's side of gpu.lua, case by case."""
import functools
import gc

import torch

import bench
from bench import now, out, repeated

sync = torch.cuda.synchronize
host, seconds = functools.partial(bench.host, sync=sync), functools.partial(bench.seconds, sync=sync)
start = now()
torch.ones(1, device="cuda").item()
out("first_cuda_op", (now() - start) * 1e3, "ms")
torch.backends.cuda.matmul.allow_tf32 = False


def bandwidth(case, size, f, reps=20):
    out("bw_" + case, size / bench.device_ms(f, reps) / 1e6, "GB/s")


torch.set_grad_enabled(False)
x, y = torch.randn(1024, device="cuda"), torch.randn(1024, device="cuda")
z, m = torch.empty_like(x), torch.randn(64, 64, device="cuda")
s, e = torch.cuda.Stream(), torch.cuda.Event()


def switch():
    with torch.cuda.stream(s):
        pass


host("add_alloc", lambda: x + y)
host("add_inplace", lambda: x.add_(y))
host("add_out", lambda: torch.add(x, y, out=z))
host("mul_scalar", lambda: x * 2.0)
host("exp", lambda: x.exp())
host("view_slice", lambda: x[10:20])
host("view_slice_index", lambda: x[10:20])
host("view_reshape", lambda: x.view(32, 32))
host("empty", lambda: torch.empty(1024, device="cuda"))
host("zeros", lambda: torch.zeros(1024, device="cuda"))
host("sum", lambda: x.sum())
host("matmul64", lambda: m @ m)
host("copy_", lambda: z.copy_(x))
host("event_record", lambda: e.record())
e.record()
sync()
host("event_query", lambda: e.query())
here = torch.cuda.current_stream()
host("stream_query", lambda: here.query())
host("memory_allocated", lambda: torch.cuda.memory_allocated())
host("record_stream", lambda: x.record_stream(s))
host("alloc_free", lambda: torch.cuda.caching_allocator_delete(torch.cuda.caching_allocator_alloc(4096)))
host("stream_switch", switch)
host("stream_switch_close", switch)
w, g = torch.zeros(1024, device="cuda"), torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    for _ in range(100):
        w.add_(1)
host("graph_replay100", g.replay, 500)
out("graph_replay100_done", seconds(repeated(100, g.replay), 21) / 100 * 1e6, "us")
host("item", lambda: x[0].item(), 2000)
first = x[0]
host("item_only", lambda: first.item(), 2000)

live = [torch.empty(16, device="cuda") for _ in range(10000)]
out("collect_10000", seconds(gc.collect) * 1e3, "ms")
del live

n = 1 << 28
a, b, c = torch.randn(n, device="cuda"), torch.randn(n, device="cuda"), torch.empty(n, device="cuda")
bandwidth("copy", 8 * n, lambda: c.copy_(a))
bandwidth("add", 12 * n, lambda: torch.add(a, b, out=c))
bandwidth("exp", 8 * n, lambda: torch.exp(a, out=c))
bandwidth("mul_scalar", 8 * n, lambda: torch.mul(a, 2.0, out=c))
bandwidth("fill", 4 * n, lambda: c.fill_(1.0))
bandwidth("sum", 4 * n, lambda: a.sum())
bandwidth("max", 4 * n, lambda: a.max())
A, C, row = a.view(16384, 16384), c.view(16384, 16384), b[:16384]
bandwidth("sum_rows", 4 * n, lambda: A.sum(1))
bandwidth("sum_cols", 4 * n, lambda: A.sum(0))
bandwidth("argmax_rows", 4 * n, lambda: A.argmax(1))
line, outl = a[: 1 << 26], c[: 1 << 26]
lines, outs = line.view(16384, 4096), outl.view(16384, 4096)
bandwidth("cumsum", 8 << 26, lambda: torch.cumsum(line, 0, out=outl))
bandwidth("cumsum_rows", 8 << 26, lambda: torch.cumsum(lines, 1, out=outs))
bandwidth("cumsum_cols", 8 << 26, lambda: torch.cumsum(lines, 0, out=outs))
bandwidth("transpose_copy", 8 * n, lambda: C.copy_(A.t()))
bandwidth("bcast_row_add", 8 * n, lambda: torch.add(A, row, out=C))
bandwidth("softmax_16384", 8 * n, lambda: torch.softmax(A, 1, out=C))
bandwidth("softmax_cols", 8 * n, lambda: torch.softmax(A, 0, out=C))
rows, thousands = a[: 1000 << 18].view(-1, 1000), c[: 1000 << 18].view(-1, 1000)
bandwidth("softmax_1000", 8000 << 18, lambda: torch.softmax(rows, 1, out=thousands))
bandwidth("log_softmax_1000", 8000 << 18, lambda: torch.log_softmax(rows, 1, out=thousands))
del rows, thousands
ab = a.to(torch.bfloat16)
bb = torch.empty_like(ab)
bandwidth("cast_f32_bf16", 6 * n, lambda: bb.copy_(a))
bandwidth("add_bf16", 6 * n, lambda: torch.add(ab, ab, out=bb))
bandwidth("normal_", 4 * n, lambda: c.normal_())
bandwidth("uniform_", 4 * n, lambda: c.uniform_())
del ab, bb
pinned = torch.empty(1 << 28, dtype=torch.uint8).random_().pin_memory()
paged = torch.empty(1 << 28, dtype=torch.uint8).random_()
dev = torch.empty(1 << 28, dtype=torch.uint8, device="cuda")
bandwidth("h2d_pinned", 1 << 28, lambda: dev.copy_(pinned, non_blocking=True))
bandwidth("d2h_pinned", 1 << 28, lambda: pinned.copy_(dev, non_blocking=True))
for case, f in (("h2d_pageable", lambda: dev.copy_(paged)), ("d2h_pageable", lambda: paged.copy_(dev))):
    out("bw_" + case, (1 << 28) / seconds(f, 7) / 1e9, "GB/s")
p, q = torch.randn(4096, 4096, device="cuda"), torch.randn(4096, 4096, device="cuda")
product, side = torch.empty_like(p), torch.cuda.Stream()
once = seconds(lambda: torch.matmul(p, q, out=product))


def overlap(case, copy):
    copying = seconds(copy)
    rounds = max(1, int(copying / once + 0.5))

    compute = repeated(rounds, lambda: torch.matmul(p, q, out=product))

    def both():
        with torch.cuda.stream(side):
            copy()
        compute()

    out("overlap_" + case, seconds(both) / max(copying, seconds(compute)), "of 1")


overlap("h2d", lambda: dev.copy_(pinned, non_blocking=True))
overlap("d2h", lambda: pinned.copy_(dev, non_blocking=True))
del a, b, c, A, C, row, pinned, paged, dev, p, q, product
for case, dtype in (("f32", torch.float32), ("f16", torch.float16), ("bf16", torch.bfloat16), ("f64", torch.float64)):
    p = torch.randn(8192, 8192, device="cuda", dtype=dtype)
    q = torch.randn(8192, 8192, device="cuda", dtype=dtype)
    product = torch.empty(8192, 8192, device="cuda", dtype=dtype)
    out("matmul8192_" + case, 2 * 8192**3 / bench.device_ms(lambda: torch.matmul(p, q, out=product), 9) / 1e9, "TFLOP/s")
p, q = torch.randn(1 << 20, 4, 4, device="cuda"), torch.randn(1 << 20, 4, 4, device="cuda")
m, rows = torch.randn(4, 4, device="cuda"), torch.randn(1 << 22, 4, device="cuda")
product, turned = torch.empty_like(p), torch.empty_like(rows)
out("bmm4x4_1M", 3 * 64 * 2**20 / bench.device_ms(lambda: torch.bmm(p, q, out=product), 9) / 1e6, "GB/s")
out("rows4x4_4M", 2 * 16 * 2**22 / bench.device_ms(lambda: torch.mm(rows, m, out=turned), 9) / 1e6, "GB/s")
