"""files.py: arrays in files: NumPy and the safetensors library write what tide reads, and read what it writes."""
import os
import tempfile
import zipfile

import numpy as np
import safetensors.torch
import torch

from run import Case, DTYPES

NUMPY = ["bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64", "complex64", "complex128"]
WIDER = {"uint16": torch.int32, "uint32": torch.int64, "uint64": torch.int64}
folder = tempfile.TemporaryDirectory(prefix="tide-files-")
NAMES = ["x", "a b", "layer.0/weight", "\u00fc\U0001f600", "quote\"\\", "end.npy"]


def path(name):
    return os.path.join(folder.name, name)


def array(r):
    """An array of NumPy's, in some byte order and layout, and what tide makes of it."""
    dtype = r.choice(NUMPY + list(WIDER))
    x = r.values(r.shape(least=0), dtype if dtype in NUMPY else "int32").numpy()
    if dtype in WIDER:
        x = np.asarray(np.abs(x)).astype(dtype)
    if r.random() < 0.5:
        x = x.astype(x.dtype.newbyteorder(r.choice("<>")))
    if r.random() < 0.4:
        x = np.asfortranarray(x)
    plain = np.asarray(x.astype(x.dtype.newbyteorder("=")).astype(str(WIDER[dtype])[6:] if dtype in WIDER else dtype))
    return x, torch.from_numpy(plain.copy())


def read_npy(r):
    x, want = array(r)
    with open(path("x.npy"), "wb") as f:
        np.lib.format.write_array(f, x, version=r.choice([None, (1, 0), (2, 0), (3, 0)]))
    return Case("load_npy", "return tide.load_npy('%s')" % path("x.npy"), [], lambda: want)


def read_npz(r):
    arrays = {name: array(r) for name in r.sample(NAMES, r.randint(1, 4))}
    name = r.choice(list(arrays))
    save = np.savez_compressed if r.random() < 0.5 else np.savez
    save(path("x.npz"), **{k: x for k, (x, _) in arrays.items()})
    lua = "return tide.load_npz('%s')[ [==[%s]==] ]" % (path("x.npz"), name)
    return Case("load_npz", lua, [], lambda: arrays[name][1])


def tensors(r, dtypes):
    return [r.laid_out(r.values(r.shape(least=0), r.choice(dtypes))) for _ in range(r.randint(1, 4))]


def table(names):
    return ", ".join("[ [==[%s]==] ] = given[%d]" % (n, i + 1) for i, n in enumerate(names))


def write_and_read(r, kind, dtypes, lua, read):
    given = tensors(r, dtypes)
    names = r.sample(NAMES, len(given))
    where = path("w." + kind)
    body = "local given = {...}; %s; return tide.ones(1)" % (lua % (where, table(names)))

    return Case("save_" + kind, body, given, lambda: torch.ones(1),
                after=lambda: different(read(where), dict(zip(names, given))))


def different(got, want):
    if sorted(got) != sorted(want):
        return "got the names %s, expected %s" % (sorted(got), sorted(want))
    for name, x in want.items():
        y = got[name]
        if y.dtype != x.dtype or y.shape != x.shape or not torch.equal(y, x):
            return "%s: got %s %s, expected %s %s" % (name, y.dtype, y, x.dtype, x)
    return None


def read_zip(where):
    assert zipfile.ZipFile(where).testzip() is None
    with np.load(where) as z:
        return {k: torch.from_numpy(v.copy()) for k, v in z.items()}


def write_npy(r):
    x = tensors(r, NUMPY)[0]
    return Case("save_npy", "tide.save_npy('%s', ...); return tide.ones(1)" % path("w.npy"), [x], lambda: torch.ones(1),
                after=lambda: different({"x": torch.from_numpy(np.load(path("w.npy")).copy())}, {"x": x}))


def write_npz(r):
    compressed = r.choice(["true", "false"])
    return write_and_read(r, "npz", NUMPY, "tide.save_npz('%%s', {%%s}, {compressed = %s})" % compressed, read_zip)


SAFE = [d for d in DTYPES if d != "complex128"]


def write_safetensors(r):
    return write_and_read(r, "safetensors", SAFE, "tide.save_safetensors('%s', {%s}, {metadata = {format = 'pt'}})",
                          safetensors.torch.load_file)


def read_safetensors(r):
    given = {n: x.contiguous() for n, x in zip(NAMES, tensors(r, SAFE))}
    name = r.choice(list(given))
    safetensors.torch.save_file(given, path("x.safetensors"), {"a": "b"})
    lua = "local t, m = tide.load_safetensors('%s'); assert(m.a == 'b'); return t[ [==[%s]==] ]"
    return Case("load_safetensors", lua % (path("x.safetensors"), name), [], lambda: given[name])


def case(r):
    return r.choice([read_npy, read_npz, read_safetensors, write_npy, write_npz, write_safetensors])(r)
