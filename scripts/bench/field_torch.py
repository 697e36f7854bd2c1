"""field_torch.py: PyTorch's side of field.lua, case by case."""
import torch
import torch.nn.functional as F

import bench

torch.set_grad_enabled(False)


def rate(case, f, reps=20):
    count = f().numel()
    bench.out("field_" + case, count / bench.device_ms(f, reps) / 1e6, "G/s")


x = torch.randn(32, 64, 256, 256, device="cuda")
rate("pad", lambda: F.pad(x, (1, 1, 1, 1)))
rate("pad_reflect", lambda: F.pad(x, (3, 3, 3, 3), mode="reflect"))
rate("max_pool2", lambda: F.max_pool2d(x, 2))
rate("max_pool3_stride2", lambda: F.max_pool2d(x, 3, 2, 1))
rate("max_pool3", lambda: F.max_pool2d(x, 3, 1, 1))
rate("max_pool2_places", lambda: F.max_pool2d(x, 2, return_indices=True)[0])
rate("avg_pool2", lambda: F.avg_pool2d(x, 2))
rate("avg_pool3", lambda: F.avg_pool2d(x, 3, 1, 1))
for mode in ("nearest", "bilinear", "bicubic"):
    rate(mode + "_up2", lambda: F.interpolate(x, scale_factor=2, mode=mode), 5)
    rate(mode + "_down2", lambda: F.interpolate(x, scale_factor=0.5, mode=mode))
rate("area_down2", lambda: F.interpolate(x, scale_factor=0.5, mode="area"))
grid = torch.rand(32, 256, 256, 2, device="cuda") * 2 - 1
smooth = F.affine_grid(torch.randn(32, 2, 3, device="cuda") * 0.3, (32, 64, 256, 256), align_corners=False)
for mode in ("bilinear", "nearest", "bicubic"):
    rate("grid_sample_" + mode, lambda: F.grid_sample(x, smooth, mode, align_corners=False))
rate("grid_sample_anywhere", lambda: F.grid_sample(x, grid, align_corners=False))
del x, grid, smooth


def conv(case, dtype, batch, channels, results, height, width, size, **options):
    a = torch.randn(batch, channels, height, width, device="cuda", dtype=getattr(torch, dtype))
    w = torch.randn(results, channels // options.get("groups", 1), size, size, device="cuda", dtype=a.dtype)
    flop = 2 * F.conv2d(a, w, **options).numel() * w.numel() / results
    bench.out("field_%s_%s" % (case, dtype), flop / bench.device_ms(lambda: F.conv2d(a, w, **options)) / 1e9, "TFLOP/s")


torch.backends.cudnn.benchmark = True
for tf32 in (False, True):
    torch.backends.cudnn.allow_tf32 = tf32
    more = "_tf32" if tf32 else ""
    for dtype in ("float32",) if tf32 else ("float16", "bfloat16", "float32"):
        conv("conv3x3_256" + more, dtype, 64, 256, 256, 64, 32, 3, padding=1)
        conv("conv3x3_64" + more, dtype, 64, 64, 64, 56, 56, 3, padding=1)
        conv("conv7x7_stride2" + more, dtype, 64, 3, 64, 224, 224, 7, stride=2, padding=3)
        conv("conv1x1_512" + more, dtype, 64, 512, 512, 14, 14, 1)
        conv("conv3x3_each_channel" + more, dtype, 64, 128, 128, 56, 56, 3, padding=1, groups=128)
