"""What NVRTC alone takes, as the limit of compile.lua: kernels of CUDA C to machine code, one after another and eight from as
many threads, an empty one and a chain of seven arithmetic operations, without headers. Needs libnvrtc, no GPU.
usage: bare_nvrtc.py [sm_90 [libnvrtc.so]]"""
import ctypes
import random
import statistics
import sys
import threading

import bench
from bench import now, out

bench.peer = "nvrtc"
nvrtc = ctypes.CDLL(sys.argv[2] if len(sys.argv) > 2 else "libnvrtc.so")
options = ["--std=c++17", "-w", "--minimal", "--no-cache", "-D__CUDA_RUNTIME_H__", "-arch=" + (sys.argv[1] if len(sys.argv) > 1 else "sm_90")]
options = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
salt = random.randrange(1 << 30)


def text(i, body):
    return (
        f'// {salt + i}\nextern const uint3 __attribute__((device_builtin)) threadIdx, blockIdx;\n'
        f'extern "C" __attribute__((global)) void k(const float *x, float *y, int n) {{ {body} }}\n'
    ).encode()


CHAIN = "const int i = blockIdx.x * 256 + threadIdx.x; if (i < n) { const float v = x[i]; y[i] = fabsf((v * 2 + 1) * v - 3) * 0.5f + v; }"


def compile(source):
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"k", 0, None, None)
    assert nvrtc.nvrtcCompileProgram(program, len(options), options) == 0
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    assert size.value > 0
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def timed(fn):
    start = now()
    fn()
    return (now() - start) * 1e3


def at_once(body, i):
    threads = [threading.Thread(target=compile, args=(text(i + k, body),)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


for name, body in (("empty", ""), ("chain7", CHAIN)):
    first = timed(lambda: compile(text(0, body)))
    if name == "empty":
        out("nvrtc_first", first, "ms")
    out(f"nvrtc_{name}", statistics.median(timed(lambda: compile(text(i, body))) for i in range(1, 9)), "ms")
    rounds = [timed(lambda: at_once(body, 10 + 8 * r)) / 8 for r in range(3)]
    out(f"nvrtc_{name}_eight_at_once_each", statistics.median(rounds), "ms")
