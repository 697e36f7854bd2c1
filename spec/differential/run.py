"""run.py: random calls of tide beside PyTorch, which is the reference.

    python3 spec/differential/run.py [--device cpu|cuda:0] [--tide build/bin/tide] [--trials 2000] [--seed 0] [family ...]

A family is a file beside this one with a function `case(r)`: it draws one call from r (a Random with the helpers below)
and returns a Case. Each is run by tide in a process of its own (serve.lua) and compared: dtype, shape, values. Where
PyTorch raises, tide has to raise as well.
"""
import argparse
import dataclasses
import importlib
import os
import random
import subprocess
import sys

import torch

DTYPES = {
    "bool": torch.bool, "uint8": torch.uint8, "int8": torch.int8, "int16": torch.int16, "int32": torch.int32,
    "int64": torch.int64, "float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32,
    "float64": torch.float64, "complex64": torch.complex64, "complex128": torch.complex128,
}
NAMES = {v: k for k, v in DTYPES.items()}
# Relative to the largest value that a result has: sums have an order of their own.
TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 3e-5, "float64": 1e-11, "complex64": 3e-5, "complex128": 1e-11}


@dataclasses.dataclass
class Case:
    name: str         # for messages
    lua: str          # the body of a function of the tensors, as `local a, b = ...; return a:gather(1, b)`
    tensors: list     # given to tide as they lie in memory
    torch: object     # a function without arguments: the expected tensor, or a tuple of them
    loose: float = 1  # times the tolerance
    must_raise: bool = True  # where PyTorch does
    after: object = None  # looks at what the call has left, and gives a text where that is wrong


class Random(random.Random):
    device = "cpu"  # under test; what is given to tide's process lies on the CPU

    def shape(self, most=4, size=7, least=0):
        return [self.choice([0, 1] + list(range(1, size)) * 3) for _ in range(self.randint(least, most))]

    def values(self, shape, dtype):
        """Small numbers, which sums of every dtype hold exactly."""
        kind, g = DTYPES[dtype], torch.Generator().manual_seed(self.getrandbits(40))
        x = torch.randint(0 if dtype in ("bool", "uint8") else -4, 2 if dtype == "bool" else 5, shape, generator=g)
        if kind.is_complex:
            return torch.complex(x.double(), torch.randint(-4, 5, shape, generator=g).double()).to(kind)
        return x.to(kind)

    def laid_out(self, x):
        """The same values in another layout: permuted, spread or with an offset."""
        how = self.randrange(4)
        if how == 1 and x.dim() > 1:
            order = self.sample(range(x.dim()), x.dim())
            back = [order.index(d) for d in range(x.dim())]
            return x.permute(order).contiguous().permute(back)
        if how == 2 and x.dim() > 0:
            wide = torch.zeros(x.shape[:-1] + (2 * x.shape[-1] + 1,), dtype=x.dtype, device=x.device)
            view = wide[..., 1::2]
            return view.copy_(x)
        if how == 3:
            room = torch.zeros(x.numel() + 5, dtype=x.dtype, device=x.device)
            view = room[3:3 + x.numel()].view(x.shape)
            return view.copy_(x)
        return x


class Tide:
    def __init__(self, path, device):
        here = os.path.dirname(os.path.abspath(__file__))
        self.process = subprocess.Popen([path, os.path.join(here, "serve.lua"), device], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def call(self, lua, tensors):
        send, receive = self.process.stdin, self.process.stdout
        text = lua.encode()
        send.write(b"%d %d\n" % (len(text), len(tensors)) + text)
        for x in tensors:
            flat = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())
            data = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
            words = [x.dim(), *x.shape, *x.stride(), x.storage_offset(), len(data)]
            send.write(" ".join([NAMES[x.dtype], *map(str, words)]).encode() + b"\n" + data)
        send.flush()
        first = receive.readline().decode().split(" ", 2)
        if not first[0].strip():
            raise SystemExit("tide has ended: %s" % self.process.wait())
        if first[0] == "error":
            return first[1], first[2].strip()
        results = []
        for _ in range(int(first[0])):
            words = receive.readline().decode().split()
            size, bytes_ = [int(w) for w in words[2:-1]], int(words[-1])
            data = receive.read(bytes_)
            flat = torch.frombuffer(bytearray(data), dtype=DTYPES[words[0]]) if bytes_ else torch.empty(0, dtype=DTYPES[words[0]])
            results.append(flat.view(size))
        return results, None


def differs(got, want, loose):
    want = want.to(torch.complex64) if want.dtype == torch.complex32 else want  # tide's smallest
    if got.dtype != want.dtype or got.shape != want.shape:
        return "got %s %s, expected %s %s" % (got.dtype, list(got.shape), want.dtype, list(want.shape))
    name = NAMES[want.dtype]
    if name not in TOLERANCE:
        return None if torch.equal(got, want) else "got %s, expected %s" % (got.tolist(), want.tolist())
    kind = torch.complex128 if want.dtype.is_complex else torch.float64
    a, b = got.to(kind), want.to(kind)
    finite = b[torch.isfinite(b)].abs()
    near = TOLERANCE[name] * loose * max([1.0, *finite.max().reshape(1).tolist()] if finite.numel() else [1.0])
    if torch.allclose(a, b, rtol=0, atol=near, equal_nan=True):
        return None
    return "got %s, expected %s" % (got.tolist(), want.tolist())


def run(tide, case):
    try:
        want = case.torch()
    except (RuntimeError, IndexError, ValueError, TypeError) as e:
        got, text = tide.call(case.lua, case.tensors)
        if text is None and case.must_raise:
            return "no error, expected one as PyTorch's: %s" % str(e).splitlines()[0]
        return None
    got, text = tide.call(case.lua, case.tensors)
    if text is not None:
        return "%s: %s" % (got, text)
    want = want if isinstance(want, tuple) else (want,)
    if len(want) != len(got):
        return "got %d results, expected %d" % (len(got), len(want))
    for g, w in zip(got, want):
        text = differs(g, w.contiguous(), case.loose)
        if text:
            return text
    return case.after() if case.after else None


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, here)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("families", nargs="*")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tide", default=os.path.join(here, "../../build/bin/tide"))
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    torch.set_num_threads(1)
    families = a.families or sorted(f[:-3] for f in os.listdir(here) if f.endswith(".py") and f != "run.py")
    Random.device = a.device
    tide, failures = Tide(a.tide, a.device), 0
    for family in families:
        module, counts = importlib.import_module(family), {}
        for trial in range(a.trials):
            case = module.case(Random(a.seed * 1000003 + trial))
            counts[case.name.split()[0]] = counts.get(case.name.split()[0], 0) + 1
            text = run(tide, case)
            if text:
                failures += 1
                print("%s, trial %d: %s\n  %s\n  %s" % (family, trial, case.name, case.lua, text[:2000]))
                for x in case.tensors:
                    print("   ", NAMES[x.dtype], list(x.shape), x.stride(), x.reshape(-1)[:24].tolist())
        print("%s: %d trials of %d functions, %d failures so far" % (family, a.trials, len(counts), failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.modules["run"] = sys.modules["__main__"]
    sys.exit(main())
