"""library_torch.py: PyTorch's side of library.lua, case by case.
usage: library_torch.py [samples=5 [pattern of cases [threads=2]]]"""
import math
import os
import re
import sys
import tempfile
import time

import numpy
import torch
import torch.nn.functional as F
from torch import rand, randint, randn, randperm

import bench

threads = int(sys.argv[3]) if len(sys.argv) > 3 else 2
now = time.process_time if threads == 1 else bench.now
torch.set_num_threads(threads)
torch.set_grad_enabled(False)
samples = int(sys.argv[1]) if len(sys.argv) > 1 else 5
wanted = re.compile(sys.argv[2].replace("%", "\\") if len(sys.argv) > 2 else "")
SAMPLE = 0.06
# After its turn at waiting a program's two threads share a core until the system moves one: not what is measured here.
WARM = 0 if threads == 1 else 0.04
K, M, L = 1 << 20, 1 << 22, 1 << 24


def rest():
    """Until the threads of OpenMP no longer spin."""
    if threads > 1:
        time.sleep(0.04)


def spell(f, made, long):
    """Calls f until `long` seconds are over: the number of calls, and the seconds they took."""
    calls, t = 0, now()
    while True:
        f(*made)
        calls, seconds = calls + 1, now() - t
        if seconds > long:
            return calls, seconds


def case(name, f, *make):
    """Samples of f of what the functions of `make` give. What a program does between two lines the other one waits for."""
    if not wanted.search(name):
        return
    sys.stdin.readline()
    made = [m() for m in make]
    f(*made)
    rest()
    print(name, flush=True)
    for _ in range(samples):
        sys.stdin.readline()
        spell(f, made, WARM)
        calls, seconds = spell(f, made, SAMPLE)
        rest()
        bench.out(name, calls / seconds, "1/s")


def normals(*size):
    return lambda: randn(size)


def zeros(*size):
    return lambda: torch.zeros(size)


def places(n, *size):
    return lambda: randint(0, n, size)


# Places.
case("gather", lambda x, i: x.gather(0, i), normals(M), places(M, M))
case("gather_rows", lambda x, i: x.gather(1, i), normals(1024, 4096), places(4096, 1024, 4096))
for n in (M, 1024, 8):
    case("scatter_add_into_%d" % n, lambda x, i, y: y.scatter_add_(0, i, x), normals(M), places(n, M), zeros(n))
case("scatter_add_rows", lambda x, i, y: y.scatter_add_(1, i, x), normals(1024, 4096), places(4096, 1024, 4096), zeros(1024, 4096))
case("scatter", lambda x, i, y: y.scatter_(0, i, x), normals(M), places(M, M), zeros(M))
case("scatter_reduce_amax", lambda x, i, y: y.scatter_reduce_(0, i, x, "amax"), normals(M), places(K, M), zeros(K))
case("index_add", lambda x, i, y: y.index_add_(0, i, x), normals(1 << 16, 64), places(1 << 16, 1 << 16), zeros(1 << 16, 64))
case("index_add_numbers", lambda x, i, y: y.index_add_(0, i, x), normals(M), places(K, M), zeros(K))
case("index_copy", lambda x, i, y: y.index_copy_(0, i, x), normals(1 << 16, 64), lambda: randperm(1 << 16), zeros(1 << 16, 64))
case("index_select", lambda x, i: x.index_select(0, i), normals(1 << 16, 64), places(1 << 16, 1 << 16))
case("index_select_columns", lambda x, i: x.index_select(1, i), normals(1024, 4096), places(4096, 4096))
case("index_fill", lambda x, i: x.index_fill_(0, i, 1), normals(1 << 16, 64), places(1 << 16, 1 << 15))
case("take", lambda x, i: x.take(i), normals(M), places(M, M))
case("put", lambda x, i, y: y.put_(i, x), normals(M), lambda: randperm(M), zeros(M))


def masked(name, f, *size):
    def make():
        x = randn(size)
        return x, x > 0, randn(size)

    case(name, lambda made: f(*made), make)


masked("masked_select", lambda x, mask, y: x.masked_select(mask), M)
masked("masked_scatter", lambda x, mask, y: y.masked_scatter_(mask, x), M)
masked("masked_fill", lambda x, mask, y: x.masked_fill_(mask, 1), M)
case("one_hot", lambda i: F.one_hot(i, 16), places(16, 1 << 18))
case("bincount_1024", lambda i: i.bincount(), places(1024, M))
case("bincount_2^20", lambda i: i.bincount(), places(K, M))
case("histc", lambda x: x.histc(100, -3, 3), normals(M))
case("nonzero", lambda x: x.nonzero(), lambda: randn(M).relu())
case("nonzero_2d", lambda x: x.nonzero(), lambda: randn(2048, 2048).relu())
masked("where", lambda x, mask, y: torch.where(mask, x, y), M)
case("embedding", lambda x, i: F.embedding(i, x), normals(10000, 128), places(10000, 1 << 15))
case("roll", lambda x: x.roll((5, 7), (0, 1)), normals(2048, 2048))
case("flip", lambda x: x.flip(0, 1), normals(2048, 2048))
case("tril", lambda x: x.tril(), normals(2048, 2048))
case("repeat_interleave", lambda x: x.repeat_interleave(4), normals(M // 4))

# Scans.
for name in ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "diff"):
    for dim in range(3):
        f = getattr(torch, name)
        case(
            name + ("_dim%d" % dim if dim else "_line"),
            lambda x: f(x, dim=max(dim - 1, 0)),
            lambda: rand(2048, 2048) if dim else rand(M),
        )

# Order.
case("sort_2^20", torch.sort, normals(K))
case("sort_2^24", torch.sort, normals(L))
case("sort_float64", torch.sort, lambda: randn(K, dtype=torch.float64))
case("sort_int64", torch.sort, places(1 << 40, K))
case("sort_int32", torch.sort, lambda: randint(0, 1 << 30, (K,), dtype=torch.int32))
for n in (16, 100, 1000):
    case("sort_lines_of_%d" % n, torch.sort, normals(K // n, n))
case("sort_columns", lambda x: x.sort(0), normals(1024, 1024))
case("argsort_2^20", torch.argsort, normals(K))
for k in (10, 1000):
    case("topk_%d_of_2^22" % k, lambda x: x.topk(k), normals(M))
for n in (16, 100, 1000, 10000):
    case("topk_10_of_lines_of_%d" % n, lambda x: x.topk(10), normals(M // n, n))
case("topk_1_of_lines_of_100", lambda x: x.topk(1), normals(M // 100, 100))
case("kthvalue", lambda x: x.kthvalue(M // 3), normals(M))
case("kthvalue_lines", lambda x: x.kthvalue(300), normals(1024, 1024))
case("median", lambda x: x.median(), normals(M))
case("median_lines", lambda x: x.median(1), normals(1024, 1024))
case("mode_lines", lambda x: x.mode(), places(100, 1024, 1024))
case("quantile", lambda x: x.quantile(0.3), normals(K))
case("quantile_lines", lambda x: x.quantile(0.3, 1), normals(1024, 1024))
case("unique", lambda x: x.unique(), places(1 << 16, K))
case("unique_float32", lambda x: x.unique(), normals(K))
case("unique_inverse", lambda x: x.unique(return_inverse=True, return_counts=True), places(1 << 16, K))
for n in (100, 1 << 16):
    case("searchsorted_in_%d" % n, torch.searchsorted, lambda: randn(n).sort()[0], normals(K))
case("searchsorted_in_order", torch.searchsorted, lambda: randn(1 << 16).sort()[0], lambda: randn(K).sort()[0])
case("searchsorted_lines", torch.searchsorted, lambda: randn(1024, 256).sort()[0], normals(1024, 1024))
case("bucketize", torch.bucketize, normals(K), lambda: torch.linspace(-3, 3, 31))
case("isin_100", torch.isin, places(1000, K), places(1000, 100))
case("isin_2^16", torch.isin, places(1 << 20, K), places(1 << 20, 1 << 16))

# Softmax and its kind.
for name in ("softmax", "log_softmax", "logsumexp"):
    for shape in ((4000, 1000, 2), (256, 16384, 2), (2048, 2048, 1), (40, 100000, 2), (262144, 16, 2)):
        f = getattr(torch, name)
        case("%s_%dx%d_dim%d" % (name, *shape), lambda x: f(x, shape[2] - 1), normals(*shape[:2]))
for dtype in ("bfloat16", "float64"):
    case("softmax_" + dtype, lambda x: x.softmax(1), lambda: randn(4000, 1000).to(getattr(torch, dtype)))


# Products and distances.
def product(equation, *sizes):
    name = re.sub(r"\W+", "_", equation)
    case("einsum_" + name, lambda *x: torch.einsum(equation, *x).contiguous(), *(normals(*s) for s in sizes))


product("ij,jk->ik", (512, 512), (512, 512))
product("bij,bjk->bik", (64, 128, 128), (64, 128, 128))
product("bhid,bhjd->bhij", (4, 8, 256, 64), (4, 8, 256, 64))
product("ij,ij->i", (2048, 2048), (2048, 2048))
product("i,j->ij", (2048,), (2048,))
product("ijk->kji", (128, 128, 256))
product("ij->j", (2048, 2048))


def two(name, a, b, f):
    case(name, f, normals(*a), normals(*b))


two("tensordot", (64, 64, 128), (64, 128, 64), lambda x, y: torch.tensordot(x, y, ((1, 2), (0, 1))))
two("kron", (64, 64), (32, 32), torch.kron)
two("cross", (K, 3), (K, 3), lambda x, y: torch.cross(x, y, dim=1))
two("cross_dim1", (3, K), (3, K), lambda x, y: torch.cross(x, y, dim=0))
two("cdist", (2048, 64), (2048, 64), torch.cdist)
two("cdist_p1", (1024, 64), (1024, 64), lambda x, y: torch.cdist(x, y, 1))
two("cdist_of_3", (2048, 3), (2048, 3), torch.cdist)


# Borders, sizes, windows.
def image(name, f, *size):
    case(name, f, normals(*(size or (4, 16, 256, 256))))


for mode in ("constant", "reflect", "replicate", "circular"):
    image("pad_" + mode, lambda x: F.pad(x, (3, 3, 3, 3), mode=mode))
for scale in (2, 0.5):
    for mode in ("nearest", "bilinear", "bicubic", "area"):
        image("interpolate_%s_%g" % (mode, scale), lambda x: F.interpolate(x, scale_factor=scale, mode=mode), 4, 16, 128, 128)
image("interpolate_linear_2", lambda x: F.interpolate(x, scale_factor=2, mode="linear"), 4, 16, 1 << 14)
image("interpolate_trilinear_2", lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), 2, 4, 32, 64, 64)
for mode in ("bilinear", "nearest", "bicubic"):
    case(
        "grid_sample_" + mode,
        lambda x, grid: F.grid_sample(x, grid, mode, align_corners=False),
        normals(4, 16, 128, 128),
        lambda: rand(4, 128, 128, 2) * 2 - 1,
    )
image("max_pool2d_2", lambda x: F.max_pool2d(x, 2))
image("max_pool2d_3_1", lambda x: F.max_pool2d(x, 3, 1, 1))
image("max_pool2d_3_2", lambda x: F.max_pool2d(x, 3, 2, 1))
image("max_pool2d_places", lambda x: F.max_pool2d(x, 2, return_indices=True))
image("max_pool1d", lambda x: F.max_pool1d(x, 2), 16, 16, 1 << 14)
image("max_pool3d", lambda x: F.max_pool3d(x, 2), 2, 16, 32, 64, 64)
image("avg_pool2d_2", lambda x: F.avg_pool2d(x, 2))
image("avg_pool2d_3_1", lambda x: F.avg_pool2d(x, 3, 1, 1))
image("avg_pool1d", lambda x: F.avg_pool1d(x, 2), 16, 16, 1 << 14)
image("avg_pool3d", lambda x: F.avg_pool3d(x, 2), 2, 16, 32, 64, 64)


# Convolutions: name of the function, sizes of x and of the weights, options.
def conv(name, f, x, w, **options):
    two(name, x, w, lambda a, b: f(a, b, **options))


conv("conv1d_3", F.conv1d, (8, 64, 4096), (64, 64, 3), padding=1)
conv("conv1d_long", F.conv1d, (4, 1, 1 << 18), (16, 1, 31), padding=15)
conv("conv2d_3x3_64", F.conv2d, (4, 64, 56, 56), (64, 64, 3, 3), padding=1)
conv("conv2d_3x3_256", F.conv2d, (4, 256, 14, 14), (256, 256, 3, 3), padding=1)
conv("conv2d_1x1_256", F.conv2d, (4, 256, 28, 28), (256, 256, 1, 1))
conv("conv2d_7x7_stride2", F.conv2d, (4, 3, 224, 224), (64, 3, 7, 7), stride=2, padding=3)
conv("conv2d_5x5_one_channel", F.conv2d, (4, 1, 512, 512), (1, 1, 5, 5), padding=2)
conv("conv2d_groups4", F.conv2d, (4, 64, 56, 56), (64, 16, 3, 3), padding=1, groups=4)
conv("conv2d_depthwise", F.conv2d, (4, 128, 56, 56), (128, 1, 3, 3), padding=1, groups=128)
conv("conv2d_depthwise_stride2", F.conv2d, (4, 128, 56, 56), (128, 1, 3, 3), padding=1, stride=2, groups=128)
conv("conv2d_dilated", F.conv2d, (4, 64, 56, 56), (64, 64, 3, 3), padding=2, dilation=2)
conv("conv3d_3", F.conv3d, (2, 16, 16, 32, 32), (32, 16, 3, 3, 3), padding=1)
conv("conv_transpose1d", F.conv_transpose1d, (4, 64, 2048), (64, 32, 4), stride=2, padding=1)
conv("conv_transpose2d", F.conv_transpose2d, (4, 64, 28, 28), (64, 32, 4, 4), stride=2, padding=1)
conv("conv_transpose3d", F.conv_transpose3d, (1, 32, 8, 16, 16), (32, 16, 4, 4, 4), stride=2, padding=1)

# Random numbers.
case("multinomial_of_1000", lambda p: p.multinomial(1 << 16, True), lambda: rand(1000))
case("multinomial_lines", lambda p: p.multinomial(4, True), lambda: rand(4096, 256))
case("multinomial_once", lambda p: p.multinomial(10), lambda: rand(1024, 1024))
case("normal_of_tensors", torch.normal, normals(M), lambda: rand(M))
case("randn", lambda: randn(M))
case("rand", lambda: rand(M))
case("randint", lambda: randint(0, 1000, (M,)))
for rate in (2, 50):
    case("poisson_of_%d" % rate, torch.poisson, lambda: torch.full((K,), float(rate)))
case("bernoulli", torch.bernoulli, lambda: rand(M))
for name in ("exponential_", "cauchy_", "log_normal_"):
    case(name, lambda x: getattr(x, name)(), lambda: torch.empty(M))

# Functions of one number, and of two.
for dtype in ("float32", "float64"):

    def numbers(low, high):
        return lambda: torch.empty(K, dtype=getattr(torch, dtype)).uniform_(low, high)

    def of(name, low, high):
        f = getattr(torch, name, None) or getattr(torch.special, name, None) or getattr(F, name)
        case(name + "_" + dtype, f, numbers(low, high))

    of("sinc", -5, 5)
    of("erfinv", -1, 1)
    of("erf", -4, 4)
    of("erfc", -4, 4)
    of("lgamma", 0.1, 20)
    of("digamma", 0.1, 20)
    case("polygamma_1_" + dtype, lambda x: torch.polygamma(1, x), numbers(0.1, 20))
    case("polygamma_2_" + dtype, lambda x: torch.polygamma(2, x), numbers(0.1, 20))
    of("i0", -10, 10)
    of("logit", 0, 1)
    of("entr", 0, 1)
    of("ndtr", -4, 4)
    of("ndtri", 0, 1)
    for name in ("exp", "exp2", "expm1", "sin", "tan", "tanh", "sinh", "atan", "asinh", "sigmoid"):
        of(name, -5, 5)
    for name in ("log", "log1p", "log10", "sqrt", "rsqrt"):
        of(name, 0.1, 20)
    of("gelu", -5, 5)
    of("silu", -5, 5)
    of("nan_to_num", -1, 1)
    for name in ("logaddexp", "logaddexp2", "xlogy", "hypot", "atan2", "pow", "ldexp", "fmod", "nextafter", "copysign"):
        case(name + "_" + dtype, getattr(torch, name), numbers(0.1, 5), numbers(0.1, 5))

# Deviations and norms.
for name in ("std", "var"):
    for dim in range(3):
        f = getattr(torch, name)
        case(name + ("_dim%d" % dim if dim else "_all"), lambda x: f(x, dim - 1) if dim else f(x), normals(2048, 2048))
for p in (1, 2, 3, math.inf):
    case("norm_%g" % p, lambda x: x.norm(p, 1), normals(2048, 2048))
case("norm_2_dim1", lambda x: x.norm(2, 0), normals(2048, 2048))
case("aminmax", torch.aminmax, normals(2048, 2048))
case("trapezoid", torch.trapezoid, normals(2048, 2048))
case("cov", torch.cov, normals(256, 4096))

# Files of NumPy's, 16 MiB, in memory.
path = tempfile.mkstemp(suffix=".npy", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)[1]
case("npy_save", lambda x: numpy.save(path, x.numpy()), normals(M))
numpy.save(path, randn(M).numpy())
case("npy_load", lambda: torch.from_numpy(numpy.load(path)))
os.remove(path)
