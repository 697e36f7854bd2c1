"""NVIDIA Warp's kernels (`pip install warp-lang`, 1.19): the peer of kernels.lua, the same operations on the same sizes,
forward alone. `lean` is Warp's launch without its loop over the grid; `untiled` reads all bodies from the GPU's memory,
where `nbody` has tiles in shared memory. TIDE_DEVICE=cpu: on the CPU (one thread), smaller and without launches.
Every run compiles anew, in a cache of its own; `kernels_warp.py known DIR` times a first call that finds the kernel there."""
import os
import statistics
import subprocess
import sys
import tempfile

import bench
from bench import now, out

try:
    import numpy as np
    import warp as wp
except ImportError as problem:
    print(f"kernels_warp.py: left out, as Warp cannot be imported ({problem}): pip install warp-lang", file=sys.stderr)
    sys.exit(0)

bench.peer = "warp"
gpu = os.environ.get("TIDE_DEVICE") != "cpu"
cache = tempfile.TemporaryDirectory() if sys.argv[1:2] != ["known"] else None
wp.config.kernel_cache_dir = cache.name if cache else sys.argv[2]
wp.config.log_level = wp.LOG_WARNING
wp.config.enable_backward = False
wp.init()
if gpu and not wp.is_cuda_available():
    sys.exit("kernels_warp.py: Warp finds no GPU; TIDE_DEVICE=cpu runs on the CPU")
wp.set_device("cuda:0" if gpu else "cpu")
TILE = 256


def wave(u: wp.array2d(dtype=wp.float32), before: wp.array2d(dtype=wp.float32), c: wp.float32):
    i, j = wp.tid()
    here = u[i, j]
    around = (
        u[wp.max(i - 1, 0), j] + u[wp.min(i + 1, u.shape[0] - 1), j]
        + u[i, wp.max(j - 1, 0)] + u[i, wp.min(j + 1, u.shape[1] - 1)]
    )  # fmt: skip
    before[i, j] = 2.0 * here - before[i, j] + c * (around - 4.0 * here)


@wp.func
def pull(at: wp.vec4, other: wp.vec4):
    d = wp.vec3(other[0] - at[0], other[1] - at[1], other[2] - at[2])
    square = wp.dot(d, d) + 1.0e-4
    return d * (other[3] / (square * wp.sqrt(square)))


def nbody(p: wp.array(dtype=wp.vec4), a: wp.array(dtype=wp.vec4), n: wp.int32):
    i = wp.tid()
    at = p[i]
    sum = wp.vec3(0.0, 0.0, 0.0)
    for first in range(0, n, TILE):
        tile = wp.tile_load(p, shape=TILE, offset=first, storage="shared")
        for k in range(TILE):
            sum += pull(at, tile[k])
    a[i] = wp.vec4(sum[0], sum[1], sum[2], 0.0)


def nbody_untiled(p: wp.array(dtype=wp.vec4), a: wp.array(dtype=wp.vec4), n: wp.int32):
    i = wp.tid()
    at = p[i]
    sum = wp.vec3(0.0, 0.0, 0.0)
    for k in range(n):
        sum += pull(at, p[k])
    a[i] = wp.vec4(sum[0], sum[1], sum[2], 0.0)


def histogram(x: wp.array(dtype=wp.uint8), bins: wp.array(dtype=wp.int32)):
    wp.atomic_add(bins, wp.int32(x[wp.tid()]), 1)


def small(x: wp.array(dtype=wp.float32), a: wp.float32):
    i = wp.tid()
    x[i] = x[i] + a


def kernel(function, lean=False):
    """Each in a module of its own, so that its first call compiles it alone."""
    return wp.kernel(function, module="unique", grid_stride=not lean)


def once(f):
    """Milliseconds until a call has come back and its work is done."""
    wp.synchronize()
    start = now()
    f()
    wp.synchronize()
    return (now() - start) * 1e3


def ms(f, n):
    """Milliseconds of one call: the median of rounds of n, by the device's clock."""
    times = []
    for _ in range(3):
        f()
    for _ in range(9):
        wp.synchronize()
        start = now()
        if gpu:
            first, last = wp.Event(enable_timing=True), wp.Event(enable_timing=True)
            wp.record_event(first)
        for _ in range(n):
            f()
        if gpu:
            wp.record_event(last)
        wp.synchronize()
        times.append((wp.get_event_elapsed_time(first, last) if gpu else (now() - start) * 1e3) / n)
    return statistics.median(times)


def us(f):
    """Microseconds of the host's for a call: the best of nine rounds of 500, nothing synchronised inside."""
    best = float("inf")
    for _ in range(9):
        wp.synchronize()
        start = now()
        for _ in range(500):
            f()
        best = min(best, (now() - start) * 1e6 / 500)
        wp.synchronize()
    return best


rng = np.random.default_rng(1)


def device(values, dtype):
    return wp.array(values, dtype=dtype)


def fields(n):
    u, before = (rng.random((n, n), dtype=np.float32) for _ in range(2))
    return u, before, device(u, wp.float32), device(before, wp.float32)


def waves(k, u, before):
    return lambda: wp.launch(k, u.shape, inputs=[u, before, 0.1])


def pulls(k, p, a):
    return lambda: wp.launch(k, p.shape, inputs=[p, a, p.shape[0]], block_dim=TILE)


def counts(k, x, bins):
    return lambda: wp.launch(k, x.shape, inputs=[x, bins])


n = 4096 if gpu else 1024
_, _, u, before = fields(n)
first = once(lambda: waves(kernel(wave), u, before)())
if not cache:
    print(first)
    sys.exit()

# ---- the wave equation ----

out("first_call", first, "ms")
out("first_call_further", once(lambda: waves(kernel(wave, lean=True), u, before)()), "ms")
step, lean = waves(kernel(wave), u, before), waves(kernel(wave, lean=True), u, before)
time = ms(step, 20)
out("wave", time, "ms")
out("wave_lean", ms(lean, 20), "ms")
out("wave_rate", 12 * n * n / time / 1e6, "GB/s")
here, last, u, before = fields(64)
edges = np.pad(here, 1, mode="edge")
around = edges[:-2, 1:-1] + edges[2:, 1:-1] + edges[1:-1, :-2] + edges[1:-1, 2:]
expected = 2 * here - last + np.float32(0.1) * (around - 4 * here)
for k in (kernel(wave), kernel(wave, lean=True)):
    after = device(last, wp.float32)
    waves(k, u, after)()
    assert np.allclose(after.numpy(), expected, atol=1e-5), "wave: differs from NumPy's"

# ---- bodies ----

bodies = 65536 if gpu else 4096
p, a = device(rng.random((bodies, 4), dtype=np.float32), wp.vec4), wp.zeros(bodies, dtype=wp.vec4)
few = rng.random((2 * TILE, 4), dtype=np.float32)
d = few[None, :, :3].astype(np.float64) - few[:, None, :3]
square = (d * d).sum(-1) + 1e-4
expected = (d * (few[None, :, 3] / square**1.5)[..., None]).sum(1)
for name, k in (("", kernel(nbody)), ("_lean", kernel(nbody, lean=True)), ("_untiled", kernel(nbody_untiled))):
    out("nbody" + name, ms(pulls(k, p, a), 3), "ms")
    pulled = wp.zeros(2 * TILE, dtype=wp.vec4)
    pulls(k, device(few, wp.vec4), pulled)()
    off = np.abs(pulled.numpy()[:, :3] - expected).max() / np.abs(expected).max()
    assert off < 1e-3, f"nbody{name}: differs from NumPy's by {off}"

# ---- a histogram ----

count = 1 << 28 if gpu else 1 << 22
values = np.frombuffer(rng.bytes(count), np.uint8)
x, bins = device(values, wp.uint8), wp.zeros(256, dtype=wp.int32)
part = device(values[:100000], wp.uint8)
for name, k in (("", kernel(histogram)), ("_lean", kernel(histogram, lean=True))):
    out("histogram" + name, ms(counts(k, x, bins), 3), "ms")
    some = wp.zeros(256, dtype=wp.int32)
    counts(k, part, some)()
    assert (some.numpy() == np.bincount(values[:100000], minlength=256)).all(), f"histogram{name}: differs from NumPy's"

# ---- the first call of another process, which finds the kernel on disk ----

known = subprocess.run([sys.executable, __file__, "known", cache.name], stdout=subprocess.PIPE, text=True, timeout=120, check=True)
out("first_call_known", float(known.stdout.split()[-1]), "ms")
if not gpu:
    sys.exit()

# ---- launches, microseconds of the host's ----

x, k = wp.zeros(1024, dtype=wp.float32), kernel(small)
wp.launch(k, 1024, inputs=[x, 1.0])
assert (x.numpy() == 1).all(), "small: not what was added"
bound = wp.launch(k, 1024, inputs=[x, 1.0], record_cmd=True)
out("launch_prebound", us(bound.launch), "us")
out("launch_called", us(lambda: wp.launch(k, 1024, inputs=[x, 1.0])), "us")
