"""fft_torch.py: PyTorch's side of fft.lua, case by case."""
import torch

import bench

torch.set_grad_enabled(False)
fft, cuda = torch.fft, "cuda"


def real(*size):
    return torch.randn(*size, device=cuda)


def complex_(*size):
    return torch.complex(real(*size), real(*size))


def row(case, x, f):
    bench.out("fft_" + case, bench.device_ms(bench.repeated(10, lambda: f(x))) * 1e3 / 10, "us")


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
bench.host("fft_16x64", lambda: fft.fft(small), 2000, torch.cuda.synchronize)
