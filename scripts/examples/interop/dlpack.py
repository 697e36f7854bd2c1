"""dlpack.py: arrays of NumPy and PyTorch and tensors of tide on the same memory, in one process.

    python3 dlpack.py [.../libtide.so]

tide is its library through ctypes. `Tensor` below speaks Python's protocol for DLPack, so that numpy.from_dlpack(t) and
torch.from_dlpack(t) take a tensor of tide's, and Tensor.of(x) takes whatever speaks it. What is written on one side is
looked at on the other; so is who keeps the memory. Versions before 2.1 of either are left out: such a NumPy
imports arrays that may not be written. Ends with 77 where there is neither.
"""
import ctypes
import importlib
import os
import re
import sys
import weakref

# The folder of this file is none to import from.
sys.path = [p for p in sys.path if os.path.abspath(p or ".") != os.path.dirname(os.path.abspath(__file__))]


def library(module, name):
    """The module, or None, and says why."""
    try:
        found = importlib.import_module(module)
    except ImportError:
        print("%s is not installed: left out" % name)
        return None
    if tuple(int(n) for n in re.findall("[0-9]+", found.__version__)[:2]) >= (2, 1):
        return found
    print("%s %s is too old, 2.1 is the first that will do: left out" % (name, found.__version__))
    return None


numpy, torch = library("numpy", "NumPy"), library("torch", "PyTorch")

pointer, text = ctypes.c_void_p, ctypes.c_char_p
CPU, CUDA = 1, 2  # DLPack's numbers of devices; tide's are -1 and 0, 1, ...


class Scalar(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_char), ("i", ctypes.c_int64), ("re", ctypes.c_double), ("im", ctypes.c_double)]


class Options(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int), ("device", ctypes.c_int), ("pin_memory", ctypes.c_bool)]


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", text)]  # and more


def load(path):
    lib = ctypes.CDLL(path)
    number, size, status = ctypes.c_int64, ctypes.c_size_t, ctypes.c_int
    for name, result, *arguments in [
            ("init", status, pointer), ("shutdown", None), ("error_get", ctypes.POINTER(Error)),
            ("device_count", ctypes.c_int), ("dtype_parse", ctypes.c_bool, pointer, text),
            ("stream_wrap", status, pointer, ctypes.c_int, ctypes.c_uint64), ("stream_release", None, pointer),
            ("memory_cpu_allocated", size), ("memory_pump", None),
            ("empty", status, pointer, ctypes.POINTER(number), ctypes.c_int, ctypes.POINTER(Options)),
            ("fill", status, pointer, Scalar), ("item", status, ctypes.POINTER(Scalar), pointer),
            ("select", status, pointer, pointer, ctypes.c_int, number), ("tensor_release", None, pointer),
            ("tensor_ndim", ctypes.c_int, pointer), ("tensor_size", ctypes.POINTER(number), pointer),
            ("tensor_stride", ctypes.POINTER(number), pointer), ("tensor_data", pointer, pointer),
            ("tensor_device", ctypes.c_int, pointer), ("dlpack_release", None, pointer),
            ("from_dlpack", status, pointer, pointer, pointer),
            ("from_dlpack_unversioned", status, pointer, pointer, pointer),
            ("tensor_to_dlpack", status, pointer, pointer, pointer),
            ("tensor_to_dlpack_unversioned", status, pointer, pointer, pointer)]:
        function = getattr(lib, "tide_" + name)
        function.restype, function.argtypes = result, arguments
    return lib


def check(status):
    if status:
        raise ValueError(tide.tide_error_get().contents.message.decode())


# ---- capsules of Python, by its C functions ----

def python(name, result, *arguments):
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


new_capsule = python("PyCapsule_New", ctypes.py_object, pointer, text, pointer)
address_in = python("PyCapsule_GetPointer", pointer, ctypes.py_object, text)
is_capsule = python("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, text)
rename = python("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, text)
# A destructor is given an object that has no references left, and shall have none of ours.
dying_is = python("PyCapsule_IsValid", ctypes.c_int, pointer, text)
address_in_dying = python("PyCapsule_GetPointer", pointer, pointer, text)
PLAIN, VERSIONED = b"dltensor", b"dltensor_versioned"
USED = {PLAIN: b"used_dltensor", VERSIONED: b"used_dltensor_versioned"}  # capsules point to these for as long as we run


@ctypes.PYFUNCTYPE(None, pointer)
def destroy(capsule):  # of a capsule that nobody took
    if dying_is(capsule, VERSIONED):
        tide.tide_dlpack_release(address_in_dying(capsule, VERSIONED))
    elif dying_is(capsule, PLAIN):
        back = pointer()
        check(tide.tide_from_dlpack_unversioned(ctypes.byref(back), address_in_dying(capsule, PLAIN), None))
        tide.tide_tensor_release(back)


def wrapped(device, stream):
    """A stream as the protocol tells it, for tide; of the CPU, or where nobody shall wait (-1): none."""
    if device < 0 or stream == -1:
        return None
    handle = pointer()
    check(tide.tide_stream_wrap(ctypes.byref(handle), device, 0 if stream in (None, 1) else stream))
    return handle


# ---- a tensor of tide's ----

class Tensor:
    def __init__(self, handle):
        self.handle = handle

    @classmethod
    def empty(cls, size, dtype, device=-1):
        handle, kind = pointer(), ctypes.c_int()
        assert tide.tide_dtype_parse(ctypes.byref(kind), dtype.encode())
        options = Options(kind.value, device, False)
        check(tide.tide_empty(ctypes.byref(handle), (ctypes.c_int64 * len(size))(*size), len(size), options))
        return cls(handle)

    @classmethod
    def of(cls, x, stream=None):
        """x's memory. stream: a handle, in which the values are made late, on a GPU; PyTorch need not wait for it."""
        kind, index = x.__dlpack_device__()
        device = index if kind == CUDA else -1
        try:
            capsule = x.__dlpack__(max_version=(1, 0), **({"stream": -1} if kind == CUDA else {}))
        except TypeError:  # a library from before the versions
            capsule = x.__dlpack__(**({"stream": -1} if kind == CUDA else {}))
        name = VERSIONED if is_capsule(capsule, VERSIONED) else PLAIN
        take = tide.tide_from_dlpack if name == VERSIONED else tide.tide_from_dlpack_unversioned
        handle, producer = pointer(), wrapped(device, stream)
        try:
            check(take(ctypes.byref(handle), address_in(capsule, name), producer))
        finally:
            tide.tide_stream_release(producer)
        rename(capsule, USED[name])
        return cls(handle)

    def __dlpack_device__(self):
        device = tide.tide_tensor_device(self.handle)
        return (CPU, 0) if device < 0 else (CUDA, device)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("tide hands out the memory itself, where it is")
        versioned = max_version is not None and max_version[0] >= 1
        give = tide.tide_tensor_to_dlpack if versioned else tide.tide_tensor_to_dlpack_unversioned
        managed, consumer = pointer(), wrapped(tide.tide_tensor_device(self.handle), stream)
        try:
            check(give(ctypes.byref(managed), self.handle, consumer))
        finally:
            tide.tide_stream_release(consumer)
        return new_capsule(managed, VERSIONED if versioned else PLAIN, ctypes.cast(destroy, pointer))

    def at(self, *index):
        """A view of what lies at the index, of as many dims as it has not."""
        handle = pointer(self.handle.value)
        for k, i in enumerate(index):
            view = pointer()
            check(tide.tide_select(ctypes.byref(view), handle, 0, i))
            if k:
                tide.tide_tensor_release(handle)
            handle = view
        return Tensor(handle)

    def fill(self, value):
        check(tide.tide_fill(self.handle, Scalar(b"F", 0, value, 0)))

    def item(self):
        scalar = Scalar()
        check(tide.tide_item(ctypes.byref(scalar), self.handle))
        return scalar.re if scalar.kind == b"F" else scalar.i

    @property
    def data(self):
        return tide.tide_tensor_data(self.handle)

    @property
    def layout(self):
        n = tide.tide_tensor_ndim(self.handle)
        return tuple(tide.tide_tensor_size(self.handle)[:n]), tuple(tide.tide_tensor_stride(self.handle)[:n])

    def __del__(self):
        tide.tide_tensor_release(self.handle)


def alive():
    """Bytes of tide's on the CPU. A deleter may be called on any thread, so that tide lets go later: here."""
    tide.tide_memory_pump()
    return tide.tide_memory_cpu_allocated()


# ---- the other side, whichever it is ----

class NumPy:
    name = "NumPy"

    @staticmethod
    def grid():  # [3, 4], transposed: not contiguous
        return numpy.arange(12, dtype="float32").reshape(4, 3).T

    of = staticmethod(lambda x: numpy.from_dlpack(x))
    data = staticmethod(lambda x: x.ctypes.data)
    layout = staticmethod(lambda x: (x.shape, tuple(s // x.itemsize for s in x.strides)))


class PyTorch:
    name = "PyTorch"

    @staticmethod
    def grid():
        return torch.arange(12, dtype=torch.float32).reshape(4, 3).T

    of = staticmethod(lambda x: torch.from_dlpack(x))
    data = staticmethod(lambda x: x.data_ptr())
    layout = staticmethod(lambda x: (tuple(x.shape), x.stride()))


def taken(side):
    """tide uses the other's memory, as it lies there, and keeps it."""
    x = side.grid()
    t = Tensor.of(x)
    assert t.data == side.data(x) and t.layout == side.layout(x), "it was copied"
    t.at(1).fill(50)
    assert [float(v) for v in x[1]] == [50, 50, 50, 50] and float(x[0, 1]) == 3 and float(x[2, 1]) == 5
    x[2, 3] = 7
    assert t.at(2, 3).item() == 7
    base = weakref.ref(x) if side is NumPy else None
    del x
    assert t.at(1, 2).item() == 50 and (not base or base() is not None), "it was let go"
    del t
    assert not base or base() is None, "it was kept"


def given(side):
    """The other uses tide's memory, and keeps it when tide has let go."""
    before = alive()
    t = Tensor.empty([2, 300], "float64")
    t.fill(1.5)
    x = side.of(t)
    assert side.data(x) == t.data and side.layout(x) == t.layout, "it was copied"
    x[1, 7] = -4
    assert t.at(1, 7).item() == -4 and t.at(1, 8).item() == 1.5
    t.at(0).fill(9)
    assert float(x[0].sum()) == 2700 and float(x[1, 7]) == -4
    del t
    assert alive() >= before + 4800, "it was let go"
    assert float(x[0, 299]) == 9
    del x
    assert alive() == before, "it was kept"


def unused():
    """A capsule that nobody takes lets the memory go, with a version and without."""
    before = alive()
    for version in (None, (1, 0)):
        Tensor.empty([1000], "int32").__dlpack__(max_version=version)
    assert alive() == before, "it was kept"


def dtypes(side):
    for dtype in ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64",
                  "complex128"]:
        t = Tensor.empty([3], dtype)
        t.fill(1)
        x = side.of(t)
        assert str(x.dtype).split(".")[-1] == dtype and bool((x == 1).all()) and Tensor.of(x).data == t.data, dtype


def read_only():
    """What may not be written is copied; what tide has no dtype for is refused, and stays as it was."""
    x = numpy.ones(5, "float32")
    x.flags.writeable = False
    t = Tensor.of(x)
    t.fill(3)
    assert t.data != x.ctypes.data and x.sum() == 5
    x = numpy.ones(5, "uint32")
    try:
        Tensor.of(x)
        assert False, "uint32 was taken"
    except ValueError as error:
        assert "from_dlpack" in str(error)
    assert x.sum() == 5


def all_three():
    a = NumPy.grid()
    t = Tensor.of(a)
    b = torch.from_dlpack(t)
    c = numpy.from_dlpack(b)
    assert a.ctypes.data == t.data == b.data_ptr() == c.ctypes.data
    b.mul_(2)
    t.at(0, 0).fill(-1)
    assert a[0, 0] == -1 and a[2, 3] == c[2, 3] == 22 and c[0, 0] == b[0, 0] == -1


def on_a_gpu():
    """On a GPU each works in a stream of its own, and waits on the device for what the other makes late."""
    side = torch.cuda.Stream()
    x = torch.zeros(1 << 20, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(20000000)
        x.fill_(3)
    t = Tensor.of(x, stream=side.cuda_stream)
    assert t.data == x.data_ptr() and t.at((1 << 20) - 1).item() == 3, "tide did not wait"
    own = Tensor.empty([1 << 20], "float32", 0)
    own.fill(5)
    y = torch.from_dlpack(own)  # tells tide the stream that is current here, which then waits
    assert y.data_ptr() == own.data and float(y.sum()) == 5 * (1 << 20)
    y.fill_(6)
    torch.cuda.synchronize()
    assert own.at(0).item() == 6


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    if not numpy and not torch:
        print("skipped: Python has neither NumPy nor PyTorch of 2.1 or later")
        sys.exit(77)
    tide = load(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "../../../build/lib/libtide.so"))
    check(tide.tide_init(None))
    for side, module in ((NumPy, numpy), (PyTorch, torch)):
        if not module:
            continue
        taken(side), given(side), dtypes(side)
        print("%s %s: the same memory both ways, no copy" % (side.name, module.__version__))
    unused()
    if numpy:
        read_only()
    if numpy and torch:
        all_three()
        print("one array in NumPy, tide and PyTorch")
    if torch and torch.cuda.is_available() and tide.tide_device_count():
        on_a_gpu()
        print("PyTorch on %s: the same memory both ways, in order" % torch.cuda.get_device_name())
    else:
        print("no GPU that both PyTorch and tide use: only the CPU's memory was shared")
    tide.tide_shutdown()
