"""bench.py: how the Python benchmarks time and report, as bench.lua does for ours."""
import statistics
import time

now = time.perf_counter
peer = "torch"


def out(case, value, unit):
    """Prints `peer <tab> case <tab> value <tab> unit`."""
    print(f"{peer}\t{case}\t{value:.4g}\t{unit}", flush=True)


def nothing():
    """What synchronises where nothing is queued."""


def host(case, f, n=5000, sync=nothing):
    """ns a call of f on the host, over loops of n calls with nothing synchronised inside."""
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


def seconds(f, reps=9, sync=nothing):
    """Seconds until one call of f is done: median of `reps`."""
    f()
    sync()
    times = []
    for _ in range(reps):
        t = now()
        f()
        sync()
        times.append(now() - t)
    return statistics.median(times)


def device_ms(f, reps=20):
    """Milliseconds on the device between two events around one call of f: median of `reps`."""
    from torch import cuda

    for _ in range(3):
        f()
    cuda.synchronize()
    times = []
    for _ in range(reps):
        a, b = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        a.record()
        f()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b))
    return statistics.median(times)


def repeated(n, f):
    """A function that calls f n times."""

    def loop():
        for _ in range(n):
            f()

    return loop
