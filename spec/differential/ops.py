"""ops.py: elementwise operations, with operands that broadcast and are of several dtypes."""
import torch

from run import Case, DTYPES

UNARY = """neg abs sign sgn square reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh
cosh tanh asinh acosh atanh floor ceil round trunc frac isnan isinf isfinite logical_not bitwise_not nan_to_num sigmoid
relu erf erfc erfinv lgamma digamma angle conj logit sinc i0 deg2rad rad2deg signbit positive""".split()
SPECIAL = "entr ndtr ndtri".split()
BINARY = """add sub mul div floor_divide remainder fmod pow atan2 hypot logaddexp logaddexp2 xlogy copysign heaviside
nextafter ldexp gcd lcm maximum minimum fmax fmin eq ne lt le gt ge isclose logical_and logical_or logical_xor bitwise_and
bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift float_power""".split()
# PyTorch has these for fewer dtypes, and heaviside, nextafter and the like not between two of them.
WIDER = {"angle", "conj", "frac", "heaviside", "nextafter", "lcm", "gcd", "positive", "hypot", "atan2", "logaddexp", "round",
         "logaddexp2", "isclose", "ldexp", "relu", "signbit", "floor", "ceil", "trunc", "sign", "neg", "fmod", "copysign", "abs",
         "pow", "ndtri", "bitwise_left_shift", "bitwise_right_shift", "floor_divide", "remainder"}
REFUSED = {"nextafter": ("float16", "bfloat16")}  # which PyTorch takes
# Of 16 bits tide computes in float32 and rounds once; PyTorch rounds some steps between.
STEPS = {"logit": 40, "sinc": 20, "ndtri": 20, "lgamma": 20, "digamma": 20, "tan": 20, "pow": 20, "float_power": 20}


def exponent(x):
    """Of an integer power, and a shift: no negative one."""
    return x.abs() if not (x.is_floating_point() or x.is_complex() or x.dtype in (torch.bool, torch.uint8)) else x


def unary(r):
    name = r.choice(UNARY + SPECIAL)
    dtype = r.choice(list(DTYPES))
    x = r.values(r.shape(), dtype)
    if x.is_floating_point() and r.random() < 0.7:
        x = x * 0.3125 if name not in ("logit", "ndtri") else x.abs() * 0.1875
    x = r.laid_out(x)
    special = name in SPECIAL
    lua = "return tide.special.%s(x)" % name if special else r.choice(["return x:%s()", "return tide.%s(x)"]) % name
    f = getattr(torch.special if special else torch, name)
    return Case(name, "local x = ... " + lua, [x], lambda: f(x), STEPS.get(name, 2), name not in WIDER)


def extra(r):
    kind = r.randrange(3)
    x = r.laid_out(r.values(r.shape(), r.choice(["float16", "float32", "float64"])).abs() * 0.4375 + 0.5)
    if kind == 0:
        n = r.randint(0, 4)
        return Case("polygamma", "local x = ... return tide.polygamma(%d, x)" % n, [x], lambda: torch.polygamma(n, x), 400)
    if kind == 1:
        return Case("frexp", "local x = ... return tide.frexp(x)", [x], lambda: tuple(torch.frexp(x)))
    eps = r.choice([0.125, 0.25, 0.4375])
    y = x * 0.25
    return Case("logit eps", "local x = ... return x:logit(%s)" % eps, [y], lambda: torch.logit(y, eps), 40)


def binary(r):
    name = r.choice(BINARY)
    shape = r.shape()
    other = [r.choice([n, n, 1]) for n in shape][r.randint(0, len(shape)):] if r.random() < 0.5 else shape
    dtypes = [r.choice(list(DTYPES))]
    dtypes.append(dtypes[0] if r.random() < 0.5 else r.choice(list(DTYPES)))
    dtypes = ["float32" if d in REFUSED.get(name, ()) else d for d in dtypes]
    x, y = r.values(shape, dtypes[0]), r.values(other, dtypes[1])
    if "pow" in name:  # 0 to a power below 0, and the cut of complex logarithms, have several answers
        x = torch.where(x == 0, torch.ones_like(x), x)
    if name in ("pow", "bitwise_left_shift", "bitwise_right_shift", "ldexp"):
        y = exponent(y)
    if name in ("floor_divide", "remainder", "fmod") and not y.is_complex():
        y = torch.where(y == 0, torch.ones_like(y), y)
    x, y = r.laid_out(x), r.laid_out(y)
    lua = r.choice(["return x:%s(y)", "return tide.%s(x, y)"]) % name
    loose = STEPS.get(name, 2)
    return Case(name, "local x, y = ... " + lua, [x, y], lambda: getattr(torch, name)(x, y), loose, name not in WIDER)


def case(r):
    return r.choice([unary, unary, binary, binary, binary, extra])(r)
