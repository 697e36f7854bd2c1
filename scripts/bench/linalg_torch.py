"""linalg_torch.py: PyTorch's side of linalg.lua, case by case."""
import torch

import bench

torch.set_grad_enabled(False)
la = torch.linalg


def positive(n, device="cpu"):
    x = torch.randn(n, n, device=device)
    return x @ x.mT / n + torch.eye(n, device=device)


def random(*size):
    return torch.randn(*size, device="cuda")


def row(case, f, *list_):
    bench.out("linalg_" + case, bench.device_ms(lambda: f(*list_), 7), "ms")


if torch.cuda.is_available():
    row("cholesky_4096", la.cholesky, positive(4096, "cuda"))
    row("solve_4096", la.solve, random(4096, 4096), random(4096, 1))
    row("solve_4096x4096", la.solve, random(4096, 4096), random(4096, 4096))
    row("inv_1024", la.inv, random(1024, 1024))
    row("det_1024", la.det, random(1024, 1024))
    row("triangular_4096x64", lambda a, b: la.solve_triangular(a, b, upper=False), positive(4096, "cuda"), random(4096, 64))
    row("qr_1024", la.qr, random(1024, 1024))
    row("qr_16384x64", la.qr, random(16384, 64))
    row("svdvals_1024", la.svdvals, random(1024, 1024))
    row("svd_1024", la.svd, random(1024, 1024))
    row("svd_64x32x32", la.svd, random(64, 32, 32))
    row("eigh_1024", la.eigh, positive(1024, "cuda"))
    row("eigh_512x32", la.eigh, random(512, 32, 32))
    row("eig_512", la.eig, random(512, 512))
    row("solve_65536x4", la.solve, random(1 << 16, 4, 4), random(1 << 16, 4, 1))
    row("inv_65536x4", la.inv, random(1 << 16, 4, 4))
    row("det_65536x4", la.det, random(1 << 16, 4, 4))
    row("cholesky_65536x4", la.cholesky, positive(4, "cuda").expand(1 << 16, 4, 4).contiguous())
    row("matrix_exp_512", la.matrix_exp, random(512, 512))
    row("pinv_512", la.pinv, random(512, 512))


def cpu_row(case, f, *list_):
    bench.out("cpu_linalg_" + case, bench.seconds(lambda: f(*list_), 5) * 1e3, "ms")


cpu_row("cholesky_1024", la.cholesky, positive(1024))
cpu_row("solve_1024", la.solve, torch.randn(1024, 1024), torch.randn(1024, 1))
cpu_row("inv_512", la.inv, torch.randn(512, 512))
cpu_row("qr_512", la.qr, torch.randn(512, 512))
cpu_row("svdvals_256", la.svdvals, torch.randn(256, 256))
cpu_row("svd_256", la.svd, torch.randn(256, 256))
cpu_row("eigh_256", la.eigh, positive(256))
cpu_row("solve_65536x4", la.solve, torch.randn(1 << 16, 4, 4), torch.randn(1 << 16, 4, 1))
cpu_row("det_4", lambda x: [la.det(x) for _ in range(1000)], torch.randn(4, 4))
