"""tide_numpy_test.py: both directions of scripts/examples/python/tide_numpy.py: the same memory, who keeps it, what is refused.

usage: tide_numpy_test.py PREFIX [lua54 | luajit21]      scripts/checks/python.sh calls it for each that lupa has
"""
import gc
import os
import sys
import threading
import weakref

import lupa
import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/examples/python"))
from tide_numpy import DTYPES, Tide  # noqa: E402

tide = Tide(sys.argv[1], *sys.argv[2:])
collect = tide.lua.eval("function() collectgarbage() collectgarbage() end")
allocated = tide.lua.eval("require 'tide'.cpu.memory_allocated")


def used():
    gc.collect()
    collect()
    return allocated()


def refused(words, call, *arguments):
    try:
        call(*arguments)
    except Exception as error:
        assert words in str(error), "says '%s', expected '%s'" % (error, words)
        return
    raise AssertionError("was not refused, expected '%s'" % words)


def test_array_to_tensor():
    array = numpy.arange(12, dtype="float64").reshape(3, 4)
    tensor = tide.tensor(array)
    assert tensor.data_ptr(tensor) == array.ctypes.data
    tensor.mul_(tensor, 2)
    assert array[2, 3] == 22
    array[0, 1] = 50
    assert tide.lua.eval("function(x) return x[1][2]:item() end")(tensor) == 50


def test_tensor_to_array():
    tensor = tide.tide.zeros(3, 4)
    array = tide.array(tensor)
    assert array.ctypes.data == tensor.data_ptr(tensor) and array.shape == (3, 4) and array.flags.writeable
    array[1, 2] = 5
    assert tide.lua.eval("function(x) return x[2][3]:item() end")(tensor) == 5
    tensor.fill_(tensor, 9)
    assert (array == 9).all()


def test_layouts():
    base = numpy.arange(24, dtype="int32").reshape(2, 3, 4)
    for array in (base, base.T, base[:, 1:, ::2], base[0, 0], base[0, 0, 1:1], base[1, 2, 3:]):
        tensor = tide.tensor(array)
        again = tide.array(tensor)
        assert again.shape == array.shape and (again == array).all()
        assert not array.size or (again.ctypes.data == array.ctypes.data and again.strides == array.strides)
    column = tide.lua.eval("function(x) return x:t()[2] end")(tide.tide.ones(4, 3))
    assert tide.array(column).strides == (12,)
    scalar = tide.array(tide.tide.tensor(2.5))
    assert scalar.shape == () and scalar == 2.5


def test_dtypes():
    for name, layout in DTYPES.items():
        array = numpy.ones(3, layout)
        tensor = tide.tensor(array)
        assert tide.to_text(tensor.dtype).endswith("." + name), name
        again = tide.array(tensor)
        assert again.dtype == array.dtype and (again == array).all() and again.ctypes.data == array.ctypes.data, name


def test_tensor_keeps_array():
    array = numpy.zeros(1000)
    alive = weakref.ref(array)
    tensor = tide.tensor(array)
    view = tide.lua.eval("function(x) return x[{ {11, 20} }] end")(tensor)
    del array, tensor
    used()
    assert alive() is not None, "the array has gone, and a view is left"
    view.fill_(view, 3)
    assert alive()[15] == 3 and alive()[20] == 0
    del view
    used()  # tide drops the owner,
    used()  # and Lua what it holds of Python
    assert alive() is None, "the array was kept"


def test_array_keeps_tensor():
    before = used()
    tensor = tide.tide.ones(100000)
    array = tide.array(tensor)
    part = array[10:20]
    del tensor, array
    assert used() >= before + 400000, "the tensor has gone, and an array is left"
    assert (part == 1).all()
    del part
    assert used() == before, "the tensor was kept"


def test_freed_tensor_drops_array():
    array = numpy.zeros(1000)
    alive = weakref.ref(array)
    tensor = tide.tensor(array)
    del array
    tensor.free(tensor)
    used()
    assert alive() is None, "the array was kept"


def test_threads():
    means = {}

    def work(number):
        own = Tide(*sys.argv[1:])
        x = own.tensor(numpy.full(10000, number, "float64"))
        f = own.lua.eval("function(x) for _ = 1, 200 do x:add_(1) end return x:mean():item() end")
        means[number] = f(x)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert means == {i: i + 200 for i in range(4)}, means


def test_results_of_work():
    f = tide.lua.eval("function(x) return x * 2 + 1 end")
    for n in (10, 1000000):
        array = numpy.ones(n, "float32")
        result = f(tide.tensor(array))
        array[:] = 7
        assert (tide.array(result) == 3).all()


def test_refusals():
    fixed = numpy.ones(3)
    fixed.flags.writeable = False
    refused("may not be written", tide.tensor, fixed)
    refused("no dtype like uint32", tide.tensor, numpy.ones(3, "uint32"))
    refused("no dtype like >f4", tide.tensor, numpy.ones(3, ">f4"))
    refused("no multiples", tide.tensor, numpy.zeros(3, [("a", "i1"), ("b", "<f4")])["b"])
    refused("stride", tide.tensor, numpy.ones(3)[::-1])
    refused("NumPy has no bfloat16", tide.array, tide.lua.eval("require 'tide'.ones(3):bfloat16()"))
    if tide.tide.cuda.is_available():
        refused("the tensor is on cuda:0", tide.array, tide.lua.eval("require 'tide'.ones(3):cuda()"))
    refused("is not there", Tide, "/nowhere", *sys.argv[2:])


def test_errors():
    refused("matmul: shapes do not fit", tide.lua.eval("function(x) return x:matmul(x) end"), tide.tensor(numpy.ones((2, 3))))

    def fail():
        raise KeyError("of Python's")

    try:
        tide.lua.eval("function(f) f() end")(fail)
    except KeyError:
        return
    raise AssertionError("no KeyError")


tests = [(name, test) for name, test in sorted(globals().items()) if name.startswith("test_")]
for name, test in tests:
    try:
        test()
    except Exception:
        print("%s failed" % name)
        raise
implementation = tide.lua.eval("jit and jit.version or _VERSION")
print("lupa %s, %s, NumPy %s: %d tests" % (lupa.__version__, implementation, numpy.__version__, len(tests)))
