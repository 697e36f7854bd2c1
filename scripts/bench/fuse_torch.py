"""The peer of fuse.lua: the same functions in eager PyTorch and by torch.compile (TORCHINDUCTOR_CACHE_DIR: its cache)."""
import torch

import bench
from bench import now, out


def chain(x):
    return ((x * 2 + 1) * x - 3).abs() * 0.5 + x


def softmax(x):
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def layer_norm(x, w, b):
    d = x - x.mean(-1, keepdim=True)
    return d * ((d * d).mean(-1, keepdim=True) + 1e-5).rsqrt() * w + b


small = torch.rand(1000, device="cuda")
small + small
torch.cuda.synchronize()
t = now()
f = torch.compile(chain)
f(small)
torch.cuda.synchronize()
out("compile_fuse_first", (now() - t) * 1e3, "ms")


def host(case, g):
    bench.host(case, g, sync=torch.cuda.synchronize)


host("add", lambda: small + small)
host("fused7", lambda: f(small))
host("eager7", lambda: chain(small))


def rate(case, size, fn, *args):
    compiled = torch.compile(fn, dynamic=False)
    compiled(*args)
    for name, g in (("fused", compiled), ("eager", fn)):
        out(case + "_" + name, size / bench.device_ms(lambda: g(*args)) / 1e6, "GB/s")


n = 1 << 28
big, other = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
rate("chain7", 2 * 4 * n, chain, big)
rate("mean_square", 2 * 4 * n, lambda x, y: ((x - y) * (x - y)).mean(), big, other)
rate("std_all", 2 * 4 * n, lambda x, y: (x - y).std(), big, other)
rate("norm_all", 2 * 4 * n, lambda x, y: (x - y).norm(), big, other)
del other
tall, across = big.view(-1, 256), big.view(-1, 65536)
rate("columns_256", 4 * n, lambda x: (x * 2 + 1).sum(0), tall)
rate("columns_65536", 4 * n, lambda x: (x * 2 + 1).sum(0), across)
rate("softmax_65536", 2 * 4 * n, softmax, across)
rate("standardise_columns", 2 * 4 * n, lambda x: (x - x.mean(0, keepdim=True)) / x.std(0, keepdim=True), tall)
del tall, across, big
points, source = n // 4, 1 << 22


def three(x, i, y):
    return (x[i] * y + 1).relu()


i = torch.randint(0, source, (points,), device="cuda")
x, y = torch.randn(source, device="cuda"), torch.randn(points, device="cuda")
rate("gather_points", (8 + 4 + 4 + 4) * points, three, x, i, y)
rate("gather_points_sum", (8 + 4 + 4) * points, lambda a, j, b: (a[j] * b + 1).relu().sum(), x, i, y)
w, r = torch.randn(source // 64, 256, device="cuda"), torch.randint(0, source // 64, (points // 256,), device="cuda")
rate("gather_rows", 3 * 4 * points, three, w, r, y.view(-1, 256))
del i, x, y, w, r
for dtype in (torch.float32, torch.bfloat16):
    name = str(dtype).split(".")[1]
    x = torch.randn(4096, 4096, device="cuda").to(dtype)
    w, b = (torch.randn(4096, device="cuda").to(dtype) for _ in range(2))
    size = 2 * x.numel() * x.element_size()
    rate("softmax_" + name, size, softmax, x)
    rate("layer_norm_" + name, size, layer_norm, x, w, b)
wide = torch.randn(4096, 4096, device="cuda")
rate("bias_tanh", 2 * 4 * wide.numel(), lambda x, b: (x + b).tanh(), wide, torch.randn(4096, device="cuda"))
