"""Numba's parallel kernels on the CPU with 2 threads: the peer of kernels_cpu.lua, with the same numbers of operations."""
import math

import numba
import numpy as np
from numba import njit, prange

import bench

bench.peer = "numba"
numba.set_num_threads(2)


@njit(parallel=True)
def mandelbrot(out, limit):
    h, w = out.shape
    for i in prange(h):
        for j in range(w):
            cx, cy = np.float32(j * 3 / w - 2), np.float32(i * 2.5 / h - 1.25)
            x, y, n = np.float32(0), np.float32(0), 0
            while x * x + y * y <= np.float32(4) and n < limit:
                x, y = x * x - y * y + cx, np.float32(2) * x * y + cy
                n += 1
            out[i, j] = n


@njit(parallel=True)
def wave(before, now, after):
    h, w = now.shape
    for i in prange(1, h - 1):
        for j in range(1, w - 1):
            around = now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1] - np.float32(4) * now[i, j]
            after[i, j] = np.float32(2) * now[i, j] - before[i, j] + np.float32(0.2) * around


@njit(parallel=True)
def nbody(p, a):
    n = p.shape[0]
    for i in prange(n):
        x, y, z = p[i, 0], p[i, 1], p[i, 2]
        ax = ay = az = np.float32(0)
        for j in range(n):
            dx, dy, dz = p[j, 0] - x, p[j, 1] - y, p[j, 2] - z
            d = dx * dx + dy * dy + dz * dz + np.float32(0.001)
            s = np.float32(1) / (d * math.sqrt(d))
            ax, ay, az = ax + dx * s, ay + dy * s, az + dz * s
        a[i, 0], a[i, 1], a[i, 2] = ax, ay, az


f = np.float32
counts = np.zeros((1024, 1024), np.int32)
before, now, after = (np.random.randn(2048, 2048).astype(f) for _ in range(3))
p, a = np.random.randn(4096, 3).astype(f), np.zeros((4096, 3), f)
for name, call in (
    ("mandelbrot_1024", lambda: mandelbrot(counts, 200)),
    ("wave_2048", lambda: wave(before, now, after)),
    ("nbody_4096", lambda: nbody(p, a)),
):
    t = bench.now()
    call()
    bench.out(name + "_first_call", 1e3 * (bench.now() - t), "ms")
    bench.out(name, 1e3 * bench.seconds(call), "ms")
