"""The peer of jit.lua: torch.cuda.jiterator on the same functions. PYTORCH_KERNEL_CACHE_PATH: its cache."""
import statistics
import sys
import time

import torch

import bench
from bench import now, out

order, kernels = (sys.argv + ["turn"])[1], int((sys.argv + ["turn", "50"])[2])
salt = (int(sys.argv[3]) if len(sys.argv) > 3 else int(time.time())) % 1000000 * 100
forms = [
    "x * T(%d) + y", "abs(x - T(%d)) * y", "(x + T(%d)) / (y * y + T(1))", "x > y ? x * T(%d) : y",
    "exp(-x * T(%d)) + y", "x * tanh(y + T(%d))", "sqrt(x * x + y * y + T(%d))", "log1p(abs(x)) * y + T(%d)",
]


def code(i):
    return "template <typename T> T bench_%d(T x, T y) { return %s; }" % (salt + i, forms[i % len(forms)] % (salt + i))


create = torch.cuda.jiterator._create_jit_fn
x = torch.randn(1000, device="cuda")
y = torch.randn(1000, device="cuda")
x + y
torch.cuda.synchronize()
times, f = [], {}
start = now()
if order == "first":
    f = {i: create(code(i)) for i in range(1, kernels + 1)}
for i in range(1, kernels + 1):
    t = now()
    if i not in f:
        f[i] = create(code(i))
    f[i](x, y)
    times.append((now() - t) * 1e3)
out("jit_%s_all" % order, (now() - start) * 1e3, "ms")
out("jit_%s_first" % order, times[0], "ms")
out("jit_%s_further" % order, statistics.median(times[1:]), "ms")
out("jit_%s_further_least" % order, min(times[1:]), "ms")
if order != "turn":
    sys.exit()


def host(case, g):
    bench.host(case, g, sync=torch.cuda.synchronize)


scaled = create("template <typename T> T scaled(T x, T y, T a) { return x + a * y; }", a=1)
host("jit_call", lambda: f[1](x, y))
host("jit_call_scalar", lambda: scaled(x, y, a=2))

k = torch.cuda._compile_kernel("""extern "C" __global__ void k(const float *x, float *y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}""", "k")
host("kernel_call", lambda: k(grid=(4, 1, 1), block=(256, 1, 1), args=(x, y, 1.0, 1000)))

n = 1 << 28
big = torch.randn(n, device="cuda")
for name, text in {
    "chain7": "T y = x * T(2) + T(1); y = y * y - T(3); y = abs(y) + x; return y * T(0.5);",
    "gelu": "return x * T(0.5) * (T(1) + erf(x * T(0.70710678)));",
    "sincos": "return sin(x) * cos(x);",
    "pow": "return pow(x, T(2.5)) + T(1);",
}.items():
    h = create("template <typename T> T h(T x) { %s }" % text)
    out("jit_" + name, 2 * 4 * n / bench.device_ms(lambda: h(big)) / 1e6, "GB/s")

two = create("template <typename T> T two(T x, T y) { return x * y + x; }")
A = big.view(16384, 16384)
out("jit_row_broadcast", 2 * 4 * n / bench.device_ms(lambda: two(A, A[:1])) / 1e6, "GB/s")
