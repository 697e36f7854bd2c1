"""dlpack.py: tensors that go between tide and PyTorch in one process, both ways and without a copy.

Here tide is libtide.so in PyTorch's own process, through ctypes; the call of tide's other process is left empty. On a GPU
both work in streams of their own: what one of them makes late, the other one has to wait for.
"""
import ctypes
import os

import torch
import torch.utils.dlpack

from run import Case, DTYPES, Random

here = os.path.dirname(os.path.abspath(__file__))
lib = ctypes.CDLL(os.environ.get("TIDE_LIBRARY", os.path.join(here, "../../build/lib/libtide.so")))


class Scalar(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_char), ("i", ctypes.c_int64), ("re", ctypes.c_double), ("im", ctypes.c_double)]


pointer = ctypes.c_void_p
lib.tide_tensor_data.restype = pointer
lib.tide_tensor_numel.restype = ctypes.c_int64
lib.tide_dtype_name.restype = ctypes.c_char_p
for n in ("tide_tensor_data", "tide_tensor_numel", "tide_tensor_dtype", "tide_tensor_release", "tide_tensor_ndim"):
    getattr(lib, n).argtypes = [pointer]
lib.tide_fill.argtypes = [pointer, Scalar]
lib.tide_stream_wrap.argtypes = [pointer, ctypes.c_int, ctypes.c_uint64]
api = ctypes.pythonapi
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [pointer, ctypes.c_char_p, pointer]
api.PyCapsule_GetPointer.restype = pointer
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
WORDS = [b"dltensor", b"dltensor_versioned"]
TAKEN = [b"used_dltensor", b"used_dltensor_versioned"]  # the names live as long as the capsules
TAKE = [lib.tide_from_dlpack_unversioned, lib.tide_from_dlpack]
GIVE = [lib.tide_tensor_to_dlpack_unversioned, lib.tide_tensor_to_dlpack]
for f in TAKE + GIVE:
    f.argtypes = [pointer, pointer, pointer]
assert lib.tide_init(None) == 0
sides = []  # of a GPU: a stream of PyTorch's, and tide's handle of it


def late(x):
    """On a GPU a copy of x that is there after some milliseconds, in a stream of PyTorch's; of the CPU's x itself."""
    if not x.is_cuda:
        return x, None
    if not sides:
        handle = pointer()
        sides.append(torch.cuda.Stream(x.device))
        assert lib.tide_stream_wrap(ctypes.byref(handle), x.device.index, sides[0].cuda_stream) == 0
        sides.append(handle)
    y = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
    torch.cuda.synchronize()
    with torch.cuda.stream(sides[0]):
        torch.cuda._sleep(2000000)
        y.copy_(x)
    return y, sides[1]


def capsule(x, versioned):
    if not versioned:
        return torch.utils.dlpack.to_dlpack(x)
    return x.__dlpack__(max_version=(1, 0), stream=-1 if x.is_cuda else None)  # -1: nothing waits, tide shall


def exchange(given, versioned, back, fills):
    """To tide, and from there to PyTorch again: one memory, the same values or those that tide has put there, and nobody
    holds it in the end."""
    x, side = late(given)
    c, handle, managed = capsule(x, versioned), pointer(), pointer()
    if TAKE[versioned](ctypes.byref(handle), api.PyCapsule_GetPointer(c, WORDS[versioned]), side) != 0:
        return "tide did not take it"
    api.PyCapsule_SetName(c, TAKEN[versioned])
    name = lib.tide_dtype_name(lib.tide_tensor_dtype(handle)).decode()
    if DTYPES[name] != x.dtype or lib.tide_tensor_ndim(handle) != x.dim() or lib.tide_tensor_numel(handle) != x.numel():
        return "got %s" % name
    if x.numel() and lib.tide_tensor_data(handle) != x.data_ptr():
        return "it was copied"
    if fills and lib.tide_fill(handle, Scalar(b"I", 1, 1.0, 0.0)) != 0:
        return "tide did not fill it"
    if GIVE[back](ctypes.byref(managed), handle, side) != 0:
        return "tide did not give it"
    lib.tide_tensor_release(handle)
    y = torch.from_dlpack(api.PyCapsule_New(managed, WORDS[back], None))
    with torch.cuda.stream(sides[0] if side else None):
        same = y.dtype == x.dtype and y.shape == x.shape and y.device == x.device and \
            torch.equal(y, torch.ones_like(given) if fills else given)
    moved = x.numel() and (y.data_ptr() != x.data_ptr() or [s for s, n in zip(y.stride(), y.shape) if n > 1] !=
                           [s for s, n in zip(x.stride(), x.shape) if n > 1])
    del y
    lib.tide_memory_pump()
    return None if same and not moved else "got other values or another place"


def case(r):
    x = r.laid_out(r.values(r.shape(least=0), r.choice(list(DTYPES))).to(Random.device))
    versioned, back, fills = r.randrange(2), r.randrange(2), r.random() < 0.5
    return Case("dlpack", "return tide.ones(1)", [], lambda: torch.ones(1), after=lambda: exchange(x, versioned, back, fills))
