"""fft_torch.py: PyTorch's side of fft.lua, case by case."""
import statistics
import time

import torch

torch.set_grad_enabled(False)
fft, cuda = torch.fft, "cuda"


def out(case, value, unit):
    print(f"torch\t{case}\t{value:.4g}\t{unit}", flush=True)


def real(*size):
    return torch.randn(*size, device=cuda)


def complex_(*size):
    return torch.complex(real(*size), real(*size))


def row(case, x, f):
    for _ in range(3):
        f(x)
    torch.cuda.synchronize()
    times = []
    for _ in range(20):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        for _ in range(10):
            f(x)
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b))
    out("fft_" + case, statistics.median(times) * 1e3 / 10, "us")


row("c2c_16M", complex_(1, 1 << 24), fft.fft)
row("c2c_4096x1024", complex_(4096, 1024), fft.fft)
row("c2c_65536x256", complex_(65536, 256), fft.fft)
row("c2c_64x65536", complex_(64, 65536), fft.fft)
row("c2c_16384x1009", complex_(16384, 1009), fft.fft)
row("z2z_16384x1024", complex_(16384, 1024).to(torch.complex128), fft.fft)
row("r2c_65536x1024", real(65536, 1024), fft.rfft)
row("c2c2_64x512x512", complex_(64, 512, 512), fft.fft2)
row("r2c2_64x512x512", real(64, 512, 512), fft.rfft2)
row("c2c3_256", complex_(256, 256, 256), fft.fftn)
row("c2c_dim1_4096x4096", complex_(4096, 4096), lambda x: fft.fft(x, dim=0))
row("c2r_65536x513", complex_(65536, 513), fft.irfft)
row("real_input_65536x1024", real(65536, 1024), fft.fft)
row("c2c_ortho_4096x1024", complex_(4096, 1024), lambda x: fft.fft(x, norm="ortho"))

small = complex_(16, 64)
for _ in range(200):
    fft.fft(small)
torch.cuda.synchronize()
issue = []
for _ in range(7):
    t = time.perf_counter()
    for _ in range(2000):
        fft.fft(small)
    issue.append((time.perf_counter() - t) / 2000 * 1e9)
    torch.cuda.synchronize()
out("host_fft_16x64", statistics.median(issue), "ns")
