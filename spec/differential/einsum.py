"""einsum.py: sums of products by random equations, and tensordot."""
import torch

from run import Case, DTYPES

TAKES = ["float32"] * 3 + ["float64", "float64", "int64", "int32", "complex64", "complex128", "float16", "bfloat16", "uint8"]
LETTERS = "ijklmnABab"


def operand(r, letters, sizes, dots, dtype):
    """A term and a tensor for it: letters may be repeated, sizes be 1, the dims of '...' be fewer or 1."""
    term = [r.choice(letters) for _ in range(r.randint(0, 4))]
    if r.random() < 0.85:
        term = list(dict.fromkeys(term))
    ones = {c: r.random() < 0.07 for c in term}
    shape = [1 if ones[c] else sizes[c] for c in term]
    if dots is not None and r.random() < 0.7:
        at = r.randint(0, len(term))
        some = [1 if r.random() < 0.2 else n for n in dots[r.randint(0, len(dots)):]]
        term[at:at], shape[at:at] = ["..."], some
    return "".join(term), r.laid_out(r.values(shape, dtype))


def wrong(r, equation):
    """An equation that may no longer be one."""
    at = r.randint(0, len(equation))
    return equation[:at] + r.choice(["z", "1", ".", ",", "->", "-", "..."]) + equation[at:]


def einsum(r):
    dtype = r.choice(TAKES)
    count = r.choice([1, 1, 2, 2, 2, 2, 3, 3, 4, 5, 9])
    letters = LETTERS[: r.randint(2, len(LETTERS))]
    most = 6 if count < 4 else 3
    sizes = {c: r.choice([0] + list(range(1, most)) * 8) for c in letters}
    dots = [r.randint(1, 3) for _ in range(r.randint(0, 2))] if r.random() < 0.25 else None
    terms, tensors = zip(*[operand(r, letters, sizes, dots, dtype) for _ in range(count)])
    equation = ",".join(terms)
    if r.random() < 0.7:
        there = sorted({c for t in terms for c in t if c != "."})
        names = r.sample(there, r.randint(0, min(len(there), 4)))
        if any("..." in t for t in terms) and r.random() < 0.8:
            names.insert(r.randint(0, len(names)), "...")
        equation += "->" + "".join(names)
    if r.random() < 0.1:
        equation = "".join(c + (" " if r.random() < 0.3 and c != "." and c != "-" else "") for c in equation)
    if r.random() < 0.05:
        equation = wrong(r, equation)
    lua = "return tide.einsum('%s', ...)" % equation

    def expected():
        # Integers are added in their own dtype, and of one operand in int64, as sum does it.
        if not DTYPES[dtype].is_floating_point and not DTYPES[dtype].is_complex:
            to = torch.einsum(equation, tensors[0]).dtype if count == 1 else DTYPES[dtype]
            return torch.einsum(equation, *[x.to(torch.int64) for x in tensors]).to(to)
        if dtype in ("float16", "bfloat16"):
            return torch.einsum(equation, *[x.float() for x in tensors]).to(DTYPES[dtype])
        return torch.einsum(equation, *tensors)

    return Case("einsum %d %s" % (count, equation), lua, list(tensors), expected, 10 if dtype != "float16" else 40)


def tensordot(r):
    dtype = r.choice(["float32", "float64", "complex64"])
    shared = [r.randint(0, 4) for _ in range(r.randint(0, 2))]
    left, right = [r.randint(0, 4) for _ in range(r.randint(0, 2))], [r.randint(1, 4) for _ in range(r.randint(0, 2))]
    if r.random() < 0.5:
        x, y = r.laid_out(r.values(left + shared, dtype)), r.laid_out(r.values(shared + right, dtype))
        n = len(shared) + (1 if r.random() < 0.05 else 0)
        return Case("tensordot", "local x, y = ... return tide.tensordot(x, y, %d)" % n, [x, y], lambda: torch.tensordot(x, y, n))
    a = r.sample(range(len(left) + len(shared)), len(shared))
    b = r.sample(range(len(right) + len(shared)), len(shared))
    s, t = list(left), list(right)
    for d, n in sorted(zip(a, shared)):
        s.insert(d, n)
    for d, n in sorted(zip(b, shared)):
        t.insert(d, n)
    if shared and r.random() < 0.1:
        s[a[0]] = 1
    x, y = r.laid_out(r.values(s, dtype)), r.laid_out(r.values(t, dtype))
    lists = ["{%s}" % ", ".join(str(r.choice([d + 1, d - n])) for d in dims) for dims, n in ((a, len(s)), (b, len(t)))]
    lua = "local x, y = ... return tide.tensordot(x, y, {%s})" % ", ".join(lists)
    return Case("tensordot", lua, [x, y], lambda: torch.tensordot(x, y, (a, b)))


def case(r):
    return tensordot(r) if r.random() < 0.15 else einsum(r)
