"""jit_torch.py: PyTorch's side of jit.lua, case by case. PYTORCH_KERNEL_CACHE_PATH should name an empty folder."""
import statistics
import time

import torch
from torch.cuda.jiterator import _create_jit_fn

torch.set_grad_enabled(False)
now = time.perf_counter
sync = torch.cuda.synchronize


def out(case, value, unit):
    print(f"torch\t{case}\t{value:.4g}\t{unit}", flush=True)


def host(case, f, n=5000):
    for _ in range(200):
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
    for _ in range(3):
        f()
    sync()
    times = []
    for _ in range(20):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        f()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b))
    out("bw_" + case, size / statistics.median(times) / 1e6, "GB/s")


x, y = torch.randn(1024, device="cuda"), torch.randn(1024, device="cuda")
sync()
times = []
for i in range(1, 51):
    f = _create_jit_fn(f"template <typename T> T f{i}(T x, T y) {{ return x * T({i}) + y; }}")
    t = now()
    f(x, y)
    times.append((now() - t) * 1e3)
out("jit_cold_first", times[0], "ms")
out("jit_cold_further", statistics.median(times[1:]), "ms")

f = _create_jit_fn("template <typename T> T axpy(T x, T y, T alpha) { return x + alpha * y; }", alpha=1.0)
host("jit_call", lambda: f(x, y))
host("jit_call_param", lambda: f(x, y, alpha=2.0))
source = """extern "C" __global__ void k(const float *x, float *y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}"""
k = torch.cuda._compile_kernel(source, "k")
host("kernel_call", lambda: k(grid=(4, 1, 1), block=(256, 1, 1), args=(x, y, 1.0, 1024)))

n = 1 << 28
a, b = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
chain = _create_jit_fn("""template <typename T> T chain(T x) {
  x = x * T(2) + T(1);
  x = x * x - T(3);
  x = x < T(0) ? -x : x;
  x = x * T(0.5);
  return x + T(4);
}""")
bandwidth("jit_chain7", 8 * n, lambda: chain(a))
two = _create_jit_fn("template <typename T> T two(T x, T y) { return x * y + x; }")
bandwidth("jit_two_inputs", 12 * n, lambda: two(a, b))
A = a.view(16384, 16384)
bandwidth("jit_row_broadcast", 8 * n, lambda: two(A, A[:1]))
