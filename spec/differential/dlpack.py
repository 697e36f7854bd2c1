"""dlpack.py: tensors that go between tide and PyTorch in one process, both ways and without a copy.

Here tide is libtide.so in PyTorch's own process, through ctypes; the call of tide's other process is left empty.
"""
import ctypes
import os

import torch
import torch.utils.dlpack

from run import Case, DTYPES

here = os.path.dirname(os.path.abspath(__file__))
lib = ctypes.CDLL(os.environ.get("TIDE_LIBRARY", os.path.join(here, "../../build/lib/libtide.so")))
lib.tide_tensor_data.restype = ctypes.c_void_p
lib.tide_tensor_numel.restype = ctypes.c_int64
lib.tide_dtype_name.restype = ctypes.c_char_p
lib.tide_error_get.restype = ctypes.POINTER(ctypes.c_int)
for n in ("tide_tensor_data", "tide_tensor_numel", "tide_tensor_dtype", "tide_tensor_release", "tide_tensor_ndim"):
    getattr(lib, n).argtypes = [ctypes.c_void_p]
api = ctypes.pythonapi
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
WORDS = [b"dltensor", b"dltensor_versioned"]
TAKEN = [b"used_dltensor", b"used_dltensor_versioned"]  # the names live as long as the capsules
TAKE = [lib.tide_from_dlpack_unversioned, lib.tide_from_dlpack]
GIVE = [lib.tide_tensor_to_dlpack_unversioned, lib.tide_tensor_to_dlpack]
for f in TAKE + GIVE:
    f.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
assert lib.tide_init(None) == 0


def capsule(x, versioned):
    return x.__dlpack__(max_version=(1, 0)) if versioned else torch.utils.dlpack.to_dlpack(x)


def exchange(x, versioned, back):
    """x to tide, and from there to PyTorch again: one memory, the same values, and nobody holds it in the end."""
    c, handle, managed = capsule(x, versioned), ctypes.c_void_p(), ctypes.c_void_p()
    pointer = api.PyCapsule_GetPointer(c, WORDS[versioned])
    if TAKE[versioned](ctypes.byref(handle), pointer, None) != 0:
        return "tide did not take it"
    api.PyCapsule_SetName(c, TAKEN[versioned])
    name = lib.tide_dtype_name(lib.tide_tensor_dtype(handle)).decode()
    if DTYPES[name] != x.dtype or lib.tide_tensor_ndim(handle) != x.dim() or lib.tide_tensor_numel(handle) != x.numel():
        return "got %s" % name
    if x.numel() and lib.tide_tensor_data(handle) != x.data_ptr():
        return "it was copied"
    if GIVE[back](ctypes.byref(managed), handle, None) != 0:
        return "tide did not give it"
    lib.tide_tensor_release(handle)
    y = torch.from_dlpack(api.PyCapsule_New(managed, WORDS[back], None))
    same = y.dtype == x.dtype and y.shape == x.shape and torch.equal(x, y)
    moved = x.numel() and (y.data_ptr() != x.data_ptr() or [s for s, n in zip(y.stride(), y.shape) if n > 1] !=
                           [s for s, n in zip(x.stride(), x.shape) if n > 1])
    del y
    lib.tide_memory_pump()
    return None if same and not moved else "got other values or another place"


def case(r):
    x = r.laid_out(r.values(r.shape(least=0), r.choice(list(DTYPES))))
    versioned, back = r.randrange(2), r.randrange(2)
    return Case("dlpack", "return tide.ones(1)", [], lambda: torch.ones(1), after=lambda: exchange(x, versioned, back))
