"""tide in Python, by lupa: arrays of NumPy and tensors of tide on the same memory.

    from tide_numpy import Tide
    tide = Tide()                        # a Lua state that has required tide
    x = tide.tensor(array)               # a tensor on the array's memory
    a = tide.array(x)                    # an array on the tensor's memory
    step = tide.load("heat.lua")         # what a Lua file returns

Neither direction copies. Who uses the memory keeps it: the tensor keeps the array, and the array keeps the tensor.
lupa 2 runs Lua 5.4, or LuaJIT where asked to; Debian's lupa 1 runs LuaJIT.
"""
import os
import sys

import lupa
import numpy

# tide's dtypes and NumPy's names of the same layout; NumPy has no bfloat16.
DTYPES = {
    "bool": "|b1", "uint8": "|u1", "int8": "|i1", "int16": "<i2", "int32": "<i4", "int64": "<i8",
    "float16": "<f2", "float32": "<f4", "float64": "<f8", "complex64": "<c8", "complex128": "<c16",
}
NAMES = {layout: name for name, layout in DTYPES.items()}


def lua_runtime(name):
    """A Lua state whose implementation shows its symbols to C modules."""
    if not hasattr(lupa, "allow_lua_module_loading"):  # lupa 1, which has one implementation
        return lupa.LuaRuntime(unpack_returned_tuples=True)
    with lupa.allow_lua_module_loading():
        lua = __import__("lupa." + name, fromlist=[name])
    return lua.LuaRuntime(unpack_returned_tuples=True)


# lupa shows what debug.traceback makes of an error, which passes on what is no text. Errors of tide are tables; an exception
# of Python's, which is userdata, goes through as it is.
ERRORS_AS_TEXT = """
local traceback = debug.traceback
function debug.traceback(message, ...)
  return traceback(type(message) == "table" and tostring(message) or message, ...)
end
"""


class Memory:
    """What numpy.asarray takes: memory of a tensor, which it keeps."""

    def __init__(self, tensor, interface):
        self.tensor, self.__array_interface__ = tensor, interface


class Tide:
    def __init__(self, prefix=None, lua="lua54"):
        """prefix: where tide is installed, TIDE_PREFIX or this Python's own; lua: lua54 or luajit21, of lupa 2."""
        prefix = prefix or os.environ.get("TIDE_PREFIX", sys.prefix)
        self.lua = lua_runtime(lua)
        self.version = self.lua.eval("_VERSION").split()[-1]
        module = os.path.join(prefix, "lib/lua", self.version, "tide.so")
        if not os.path.exists(module):
            raise FileNotFoundError("{} is not there: where is tide installed? pass its prefix".format(module))
        self.lua.eval("function(path) package.cpath = path .. ';' .. package.cpath end")(module)
        self.lua.execute(ERRORS_AS_TEXT)
        self.tide = self.lua.execute("return (require 'tide')")
        self.to_text = self.lua.eval("tostring")

    def load(self, path):
        """What the Lua file returns. Kernels are written in files: tide reads their source there."""
        return self.lua.eval("dofile")(path)

    def tensor(self, array):
        """A tensor on the memory of the array, which lives as long as the tensor and its views do."""
        name = NAMES.get(array.dtype.str)
        if not name:
            raise ValueError("tensor: tide has no dtype like {}, only {}".format(array.dtype, ", ".join(DTYPES)))
        if not array.flags.writeable:
            raise ValueError("tensor: the array may not be written; pass a copy of it")
        if any(step % array.itemsize for step in array.strides):
            raise ValueError("tensor: strides of {} bytes are no multiples of {}".format(array.strides, array.itemsize))
        table = self.lua.table_from
        strides = table([step // array.itemsize for step in array.strides])
        options = table({"dtype": name, "stride": strides, "owner": array})
        return self.tide.from_ptr(array.ctypes.data, table(list(array.shape)), options)

    def array(self, tensor):
        """An array on the memory of the tensor, which lives as long as the array does."""
        device, name = self.to_text(tensor.device), self.to_text(tensor.dtype).split(".")[-1]
        if device != "cpu":
            raise ValueError("array: the tensor is on {}: pass x.cpu(x)".format(device))
        if name not in DTYPES:
            raise ValueError("array: NumPy has no {}; convert the tensor".format(name))
        layout = numpy.dtype(DTYPES[name])
        strides = tuple(step * layout.itemsize for step in tensor.stride(tensor).values())
        return numpy.asarray(Memory(tensor, {
            "version": 3, "typestr": layout.str, "shape": tuple(tensor.size(tensor).values()), "strides": strides,
            "data": (int(tensor.data_ptr(tensor)), False),
        }))
