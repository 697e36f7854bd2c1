"""field.py: borders, windows, convolutions, other sizes and values between the points, beside torch.nn.functional."""
import torch
import torch.nn.functional as F

from run import Case, DTYPES

FLOATS = ["float16", "bfloat16", "float32", "float64"]


def lua_list(values):
    return "{%s}" % ", ".join(map(str, values))


def pad(r):
    dtype, mode = r.choice(list(DTYPES)), r.choice(["constant", "constant", "reflect", "replicate", "circular"])
    shape = r.shape(most=5, least=1)
    if mode != "constant":
        dtype, shape = r.choice(FLOATS), [r.randint(1, 6) for _ in range(r.randint(2, 5))]
    x = r.laid_out(r.values(shape, dtype))
    pairs = r.randint(0, len(shape)) if mode == "constant" else r.choice([n for n in (1, 2, 3) if 1 <= len(shape) - n <= 2])
    pads = [r.randint(-2, 3) if r.random() < 0.4 else r.randint(0, 3) for _ in range(2 * pairs)]
    if mode == "circular":  # what is cropped as well goes round in PyTorch only where enough is left
        pads = [max(p, 0) for p in pads]
    value = r.choice([0, 1]) if dtype in ("bool", "uint8") else r.choice([0, -3, 2])
    if mode == "constant":
        lua = "local x = ... return x:pad(%s, {value = %d})" % (lua_list(pads), value)
        return Case("pad", lua, [x], lambda: F.pad(x, pads, value=value))
    lua = "local x = ... return tide.pad(x, %s, {mode = '%s'})" % (lua_list(pads), mode)
    return Case("pad_" + mode, lua, [x], lambda: F.pad(x, pads, mode=mode), must_raise=False)


def each(r, rank, low, high):
    values = [r.randint(low, high) for _ in range(rank)]
    return values if r.random() < 0.5 else values[:1] * rank


def field(r, rank, least=1, most=9):
    shape = [r.randint(0, 2), r.randint(1, 3)] + [r.randint(least, most) for _ in range(rank)]
    return r.laid_out(r.values(shape if r.random() < 0.8 else shape[1:], r.choice(FLOATS)))


def pool(r):
    rank, kind = r.randint(1, 3), r.choice(["max", "avg"])
    x = field(r, rank)
    if kind == "max" and r.random() < 0.2:
        x = torch.where(torch.rand(x.shape) < 0.1, torch.full_like(x, float("nan")), x)
    kernel, stride = each(r, rank, 1, 4), each(r, rank, 1, 3)
    padding, dilation, ceil = [r.randint(0, k // 2) for k in kernel], each(r, rank, 1, 2), r.random() < 0.3
    if min(x.shape[-rank:]) < 3:  # PyTorch's places of windows without elements are outside of the plane
        dilation = [1] * rank
    args = "%s, %s, %s" % tuple(map(lua_list, (kernel, stride, padding)))
    function = getattr(F, "%s_pool%dd" % (kind, rank))
    if kind == "max":
        both = r.random() < 0.5
        lua = "local x = ... local v, i = tide.max_pool%dd(x, %s, %s, {ceil_mode = %s, return_indices = %s}) return v%s" % (
            rank, args, lua_list(dilation), str(ceil).lower(), str(both).lower(), ", i - 1" if both else "")
        return Case("max_pool%dd" % rank, lua, [x], lambda: function(x, kernel, stride, padding, dilation, ceil, both),
                    must_raise=False)  # on GPUs it refuses some layouts
    border, divisor = r.random() < 0.5, r.choice([0, 0, 3]) if rank > 1 else 0
    lua = "local x = ... return x:avg_pool%dd(%s, {ceil_mode = %s, count_include_pad = %s, divisor_override = %d})" % (
        rank, args, str(ceil).lower(), str(border).lower(), divisor)
    more = (divisor or None,) if rank > 1 else ()
    wide = x.float() if rank == 3 and x.dtype in (torch.float16, torch.bfloat16) else x  # which it has on GPUs alone
    return Case("avg_pool%dd" % rank, lua, [x],
                lambda: function(wide, kernel, stride, padding, ceil, border, *more).to(x.dtype), must_raise=False)


def interpolate(r):
    rank = r.randint(1, 3)
    mode = r.choice(["nearest", "nearest-exact", "area", {1: "linear", 2: "bilinear", 3: "trilinear"}[rank], "bicubic"])
    rank = 2 if mode == "bicubic" else rank
    shape = [r.randint(0, 2), r.randint(1, 3)] + [r.randint(1, 9) for _ in range(rank)]
    x = r.laid_out(r.values(shape, r.choice(FLOATS)))
    align = mode in ("linear", "bilinear", "bicubic", "trilinear") and r.random() < 0.5
    options = {"mode": mode}
    if align or (mode not in ("nearest", "nearest-exact", "area") and r.random() < 0.3):
        options["align_corners"] = align
    if r.random() < 0.6:
        options["size"] = [r.randint(1, 20) for _ in range(rank)]
    else:
        options["scale_factor"] = [r.choice([0.5, 1.0, 1.3, 2.0, 2.5, 3.7]) for _ in range(rank)]
        if any(int(n * s) < 1 for n, s in zip(shape[2:], options["scale_factor"])):
            options["scale_factor"] = [2.0] * rank
    if mode == "nearest":  # where a scale leaves the size as it is, PyTorch's paths differ
        options = {k: [s if int(n * s) != n else 1.0 for n, s in zip(shape[2:], v)] if k == "scale_factor" else v
                   for k, v in options.items()}
    text = {k: lua_list(v) if isinstance(v, list) else "'%s'" % v if isinstance(v, str) else str(v).lower()
            for k, v in options.items()}
    lua = "local x = ... return tide.interpolate(x, {%s})" % ", ".join("%s = %s" % p for p in text.items())
    # Weights near 0 and 1 differ by the rounding of a place, which is some float32.
    return Case("interpolate " + mode, lua, [x], lambda: F.interpolate(x, **options), 4)


def conv(r):
    rank, transposed = r.randint(1, 3), r.random() < 0.4
    groups, dtype = r.choice([1, 1, 2, 3]), r.choice(FLOATS + ["complex64", "complex128"])
    channels, results = groups * r.randint(1, 3), groups * r.randint(1, 3)
    if r.random() < 0.3:  # what GPUs multiply in tiles, and each channel alone
        groups, channels, results = r.choice([(1, 40, 140), (1, 3, 9), (1, 70, 20), (2, 20, 16), (5, 5, 5), (4, 4, 8)])
    shape = [r.randint(0, 3), channels] + [r.randint(1, 9) for _ in range(rank)]
    x = r.laid_out(r.values(shape if r.random() < 0.8 else shape[1:], dtype))
    kernel, stride, dilation = (each(r, rank, 1, m) for m in (r.choice([3, 3, 5]), 3, 2))
    padding = [r.randint(0, 3) for _ in range(rank)]
    first, second = (channels, results // groups) if transposed else (results, channels // groups)
    w = r.laid_out(r.values([first, second] + kernel, dtype))
    b = r.values([results], dtype) if r.random() < 0.5 else None
    text = {"stride": stride, "padding": padding, "dilation": dilation}
    given = dict(text, groups=groups)
    if transposed:
        text["output_padding"] = given["output_padding"] = [r.randint(0, max(s, d) - 1) for s, d in zip(stride, dilation)]
    elif r.random() < 0.2:
        given.update(padding=r.choice(["same", "valid"]), stride=[1] * rank)
        text.update(padding=given["padding"], stride=given["stride"])
    options = ", ".join("%s = %s" % (k, "'%s'" % v if isinstance(v, str) else lua_list(v)) for k, v in text.items())
    name = "conv%s%dd" % ("_transpose" if transposed else "", rank)
    lua = "local x, w, b = ... return tide.%s(x, w, %s{%s, groups = %d})" % (name, "b, " if b is not None else "", options, groups)
    f = getattr(F, name)
    up = [t if t is None or dtype not in ("float16", "bfloat16") else t.float() for t in (x, w, b)]
    return Case(name, lua, [t for t in (x, w, b) if t is not None], lambda: f(*up, **given).to(x.dtype),
                must_raise=not transposed)  # its paths differ in whether nothing may be left


def grid_sample(r):
    rank, dtype = r.choice([2, 2, 3]), r.choice(["float32", "float64", "float64"])
    batch, channels = r.randint(1, 2), r.randint(1, 3)
    mode = r.choice(["bilinear", "nearest"] + ["bicubic"] * (rank == 2))
    beyond, align = r.choice(["zeros", "border", "reflection"]), r.random() < 0.5
    x = r.laid_out(r.values([batch, channels] + [r.randint(1, 6) for _ in range(rank)], dtype))
    g = torch.Generator().manual_seed(r.getrandbits(40))
    grid = torch.rand([batch] + [r.randint(1, 7) for _ in range(rank)] + [rank], generator=g, dtype=torch.float64)
    grid = r.laid_out((grid * r.choice([2, 3, 12]) - r.choice([1, 2, 6])).to(DTYPES[dtype]))
    lua = "local x, g = ... return tide.grid_sample(x, g, {mode = '%s', padding_mode = '%s', align_corners = %s})" % (
        mode, beyond, str(align).lower())
    return Case("grid_sample " + mode, lua, [x, grid], lambda: F.grid_sample(x, grid, mode, beyond, align), 30)


def affine_grid(r):
    rank = r.choice([2, 3])
    size = [r.randint(1, 3) for _ in range(2)] + [r.randint(1, 6) for _ in range(rank)]
    theta, align = r.laid_out(r.values([size[0], rank, rank + 1], r.choice(["float32", "float64"]))), r.random() < 0.5
    lua = "local t = ... return tide.affine_grid(t, %s, {align_corners = %s})" % (lua_list(size), str(align).lower())
    return Case("affine_grid", lua, [theta], lambda: F.affine_grid(theta, size, align), 4)


CASES = [pad, pool, interpolate, conv, conv, grid_sample, affine_grid]


def case(r):
    return r.choice(CASES)(r)
