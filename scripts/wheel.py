#!/usr/bin/env python3
"""Packs an unpacked tarball as Python wheels: tide, and tide-cuda, which adds the kernels for GPUs to it.

pip unpacks them to the prefix of a Python, a virtual environment say: the runner to bin/, the modules for Lua and their
library to lib/. tide_numpy.py, for lupa, is the only Python code inside. scripts/release calls this.

usage: wheel.py TREE VERSION GLIBC FOLDER      TREE: the unpacked tarball; GLIBC: the oldest that it runs with, as 2.28
"""
import base64
import hashlib
import os
import sys
import time
import zipfile

METADATA = """Metadata-Version: 2.1
Name: {name}
Version: {version}
Summary: {summary}
License: MIT
License-File: LICENSE
Classifier: Environment :: Console
Classifier: Environment :: GPU :: NVIDIA CUDA
Classifier: Intended Audience :: Developers
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C
"""


class Wheel:
    """A zip archive with its list of files. Times are SOURCE_DATE_EPOCH's, so that equal input gives equal bytes."""

    def __init__(self, folder, name, version, glibc):
        underlined = name.replace("-", "_")
        self.tag = "py3-none-manylinux_{}_x86_64".format(glibc.replace(".", "_"))
        self.root = "{}-{}".format(underlined, version)
        self.path = os.path.join(folder, "{}-{}.whl".format(self.root, self.tag))
        self.zip = zipfile.ZipFile(self.path, "w", zipfile.ZIP_DEFLATED)
        self.record = []
        self.when = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))[:6]

    def write(self, name, data, mode=0o644):
        info = zipfile.ZipInfo(name, self.when)
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = (0o100000 | mode) << 16
        self.zip.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append("{},sha256={},{}".format(name, digest, len(data)))

    def close(self, metadata, licence):
        info = self.root + ".dist-info/"
        self.write(info + "METADATA", metadata.encode())
        self.write(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: tide\nRoot-Is-Purelib: false\nTag: {}\n".format(self.tag).encode())
        self.write(info + "licenses/LICENSE", licence)
        record = info + "RECORD"
        self.zip.writestr(zipfile.ZipInfo(record, self.when), "\n".join(self.record + [record + ",,"]) + "\n")
        self.zip.close()
        print("wheel: " + os.path.basename(self.path))


def read(*parts):
    with open(os.path.join(*parts), "rb") as file:
        return file.read()


def names_below(tree, folder):
    for at, _, files in sorted(os.walk(os.path.join(tree, folder))):
        for file in sorted(files):
            yield os.path.relpath(os.path.join(at, file), tree)


def pack_tide(tree, version, glibc, folder):
    wheel = Wheel(folder, "tide", version, glibc)
    wheel.write(wheel.root + ".data/scripts/tide", read(tree, "bin/tide"), 0o755)
    # A wheel has no links: the library lies under the name that the modules ask for, which is that of a link.
    links = [n for n in os.listdir(os.path.join(tree, "lib")) if n.startswith("libtide.so.") and os.path.islink(os.path.join(tree, "lib", n))]
    if len(links) != 1:
        sys.exit("wheel: {}/lib has {} links named libtide.so.*, expected one".format(tree, len(links)))
    wheel.write(wheel.root + ".data/data/lib/" + links[0], read(tree, "lib", links[0]), 0o755)
    for name in names_below(tree, "lib/lua"):
        wheel.write(wheel.root + ".data/data/" + name, read(tree, name), 0o755)
    for folder_of in ("share/man", "share/tide/manual", "share/tide/notebook", "share/tide/stubs"):
        for name in names_below(tree, folder_of):
            wheel.write(wheel.root + ".data/data/" + name, read(tree, name))
    # pip removes a folder only where a file is in it, and not in folders below alone.
    wheel.write(wheel.root + ".data/data/share/tide/README.md", read(tree, "share/doc/tide/README.md"))
    wheel.write("tide_numpy.py", read(tree, "share/tide/examples/python/tide_numpy.py"))
    metadata = METADATA.format(name="tide", version=version, summary="Embeddable Lua runtime for GPU work: the runner and the modules for Lua")
    metadata += "Provides-Extra: numpy\n" + "".join('Requires-Dist: {}; extra == "numpy"\n'.format(n) for n in ("lupa", "numpy"))
    wheel.close(metadata, read(tree, "share/doc/tide/LICENSE"))


def pack_cuda(tree, version, glibc, folder):
    wheel = Wheel(folder, "tide-cuda", version, glibc)
    wheel.write(wheel.root + ".data/data/lib/libtide_cuda.so", read(tree, "lib/libtide_cuda.so"), 0o755)
    metadata = METADATA.format(name="tide-cuda", version=version, summary="Kernels of tide for NVIDIA GPUs")
    wheel.close(metadata + "Requires-Dist: tide=={}\n".format(version), read(tree, "share/doc/tide/LICENSE"))


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__[__doc__.index("usage"):].strip())
    pack_tide(*sys.argv[1:])
    if os.path.exists(os.path.join(sys.argv[1], "lib/libtide_cuda.so")):
        pack_cuda(*sys.argv[1:])
