"""special_table.py: makes special_table.lua, by mpmath with 40 digits (pip install mpmath).

The arguments are numbers of float32, so that one table serves both dtypes. They keep away from zeros and poles where a
function's help says that its error is relative to 1.
usage: special_table.py > special_table.lua"""
import random
import struct

import mpmath as mp

mp.mp.dps = 40
random.seed(27)
ROOT2 = mp.sqrt(2)


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def spread(low, high, n):
    return [random.uniform(low, high) for _ in range(n)]


def sizes(low, high, n):
    return [2 ** random.uniform(low, high) for _ in range(n)]


def newton(q, y):  # erfc(y) = q
    for _ in range(100):
        d = (mp.erfc(y) - q) / (-2 / mp.sqrt(mp.pi) * mp.exp(-y * y))
        before, y = y, y - d / (1 + d * y)
        if abs(y - before) <= abs(y) * mp.mpf(10) ** -37:
            break
    return y


def erfinv(x):
    q = 1 - abs(x)
    y = mp.erfinv(abs(x)) if q > 0.1 else newton(q, mp.sqrt(-mp.log(q)))
    return y if x > 0 else -y


def ndtri(p):
    q = 2 * min(p, 1 - p)
    y = mp.erfinv(1 - q) if q > 0.1 else newton(q, mp.sqrt(-mp.log(q)))
    return (y if p > 0.5 else -y) * ROOT2


def lgamma(x):
    return mp.loggamma(x) if x > 0 else mp.log(abs(mp.pi / mp.sinpi(x))) - mp.loggamma(1 - x)


def polygamma(n):
    def f(x):
        steps = max(0, int(mp.ceil(-x)) + 1)
        low = sum((x + k) ** -(n + 1) for k in range(steps))
        return mp.polygamma(n, x + steps) - (-1) ** n * mp.factorial(n) * low

    return f


unit, ten = spread(-1, 1, 8), spread(-10, 10, 10)
tiny, huge = sizes(-120, -10, 3), sizes(10, 120, 3)
positive = sizes(-4, 7, 10)
below = [-k - t for k, t in zip((0, 0, 1, 2, 5, 9, 17), (0.125, 0.8, 0.25, 0.7, 0.3, 0.75, 0.2))]
near1 = [1 - s for s in sizes(-22, -1, 6)]
FUNCTIONS = {
    "erf": (mp.erf, unit + spread(-5, 5, 8) + tiny),
    "erfc": (mp.erfc, unit + spread(-5, 9, 8) + spread(9, 26, 4) + tiny),
    "erfinv": (erfinv, unit + near1 + tiny),
    "lgamma": (lgamma, positive + huge + tiny + below + [1.5, 2.5, 1 + 2**-10, 2 - 2**-9, 7.5, 8.5]),
    "digamma": (mp.digamma, positive + huge + tiny + [-0.25, -1.125, -3.75, -7.2, -15.25, 9.5, 10.5]),
    "i0": (lambda x: mp.besseli(0, x), ten + spread(11, 32, 8) + spread(-80, 80, 4) + tiny),
    "sinc": (lambda x: mp.sinpi(x) / (mp.pi * x), ten + tiny + [100.25, 65537.5, -1000.75]),
    "entr": (lambda x: -x * mp.log(x), positive + huge + tiny),
    "ndtr": (lambda x: mp.erfc(-x / ROOT2) / 2, spread(-4, 4, 8) + spread(-13, -4, 6) + spread(-36, -13, 4) + tiny),
    "ndtri": (ndtri, spread(0.01, 0.45, 6) + spread(0.55, 0.99, 4) + near1[:3] + sizes(-120, -10, 5)),
    "logit": (lambda x: mp.log(x / (1 - x)), spread(0.01, 0.3, 5) + spread(0.7, 0.99, 4) + near1[:3] + tiny),
    "sigmoid": (lambda x: 1 / (1 + mp.exp(-x)), spread(-80, 80, 6) + ten),
    "softplus": (lambda x: mp.log1p(mp.exp(x)), spread(-80, 19, 8) + unit),
    "silu": (lambda x: x / (1 + mp.exp(-x)), spread(-80, 80, 6) + ten),
    "gelu": (lambda x: x * mp.erfc(-x / ROOT2) / 2, spread(-0.5, 6, 8)),
    "exp": (mp.exp, spread(-80, 80, 6) + unit + tiny),
    "exp2": (lambda x: mp.mpf(2) ** x, spread(-120, 120, 6) + unit + tiny),
    "expm1": (mp.expm1, spread(-20, 80, 6) + unit + tiny),
    "log": (mp.log, positive + huge + tiny),
    "log2": (lambda x: mp.log(x, 2), positive + huge + tiny),
    "log10": (mp.log10, positive + huge + tiny),
    "log1p": (mp.log1p, positive + huge + tiny + [-t for t in near1]),
    "sin": (mp.sin, ten + tiny),
    "cos": (mp.cos, ten + tiny),
    "tan": (mp.tan, ten + tiny),
    "asin": (mp.asin, unit + near1 + tiny),
    "acos": (mp.acos, unit + near1 + tiny),
    "atan": (mp.atan, ten + huge + tiny),
    "sinh": (mp.sinh, spread(-80, 80, 5) + unit + tiny),
    "cosh": (mp.cosh, spread(-80, 80, 5) + unit + tiny),
    "tanh": (mp.tanh, ten + unit + tiny),
    "asinh": (mp.asinh, ten + huge + tiny),
    "acosh": (mp.acosh, [1 + t for t in positive] + huge),
    "atanh": (mp.atanh, unit + near1 + tiny),
    "logaddexp": (lambda a, b: mp.log(mp.exp(a) + mp.exp(b)), list(zip(spread(1, 80, 8), spread(1, 80, 8)))),
    "logaddexp2": (lambda a, b: mp.log(mp.mpf(2) ** a + mp.mpf(2) ** b, 2), list(zip(spread(1, 80, 8), spread(1, 80, 8)))),
    "xlogy": (lambda a, b: a * mp.log(b), list(zip(spread(-9, 9, 8), sizes(-60, 60, 8)))),
    "atan2": (mp.atan2, list(zip(spread(-9, 9, 8), spread(-9, 9, 8)))),
    "hypot": (mp.hypot, list(zip(sizes(-60, 60, 8), sizes(-60, 60, 8)))),
    "pow": (mp.power, list(zip(sizes(-6, 6, 8), spread(-9, 9, 8)))),
}
for n in (1, 2, 3, 4, 7, 12, 20):
    FUNCTIONS["polygamma %d" % n] = (polygamma(n), spread(0.1, 30, 8) + positive + below)
# Beyond float32.
WIDE = {
    "polygamma 1": [1e-150, 1e120, 1e157, 1e160, 3e200, 1e300],
    "polygamma 2": [1e-90, 1e120, 1e140],
    "polygamma 120": [0.5, 12.25, 40.0, 1000.0, -3.25],
    "lgamma": [1e-300, 1e300],
    "digamma": [1e-300, 1e300],
    "i0": [300.0, 700.0],
    "erfc": [26.5],
    "ndtr": [-37.0],
    "ndtri": [1e-300],
    "erfinv": [1e-300],
}
FUNCTIONS["polygamma 120"] = (polygamma(120), [])


def huge_trigamma(x):
    return 1 / x + 1 / (2 * x * x)


def line(name, f, x):
    args = x if isinstance(x, tuple) else (x,)
    exact = [mp.mpf(a) for a in args]
    if name == "polygamma 1" and args[0] > 1e50:
        value = huge_trigamma(exact[0])
    elif name == "polygamma 2" and args[0] > 1e50:
        value = -1 / exact[0] ** 2
    else:
        with mp.workdps(400 if abs(args[0]) < 1e-20 else 80):
            value = f(*exact)
    return "{ " + ", ".join(float(a).hex() for a in args + (mp.mpf(value),)) + " }"


print("-- Values of special functions, each rounded once: { argument, ..., value }. Made by special_table.py; `wide` has the")
print("-- arguments that are no numbers of float32.\nreturn {")
for name, (f, points) in FUNCTIONS.items():
    points = [tuple(map(f32, p)) if isinstance(p, tuple) else f32(p) for p in points]
    for key, some in ((name, points), ("wide " + name, WIDE.get(name, []))):
        if some:
            print('  ["%s"] = {' % key)
            row = "   "
            for text in [line(name, f, x) for x in some]:
                if len(row) + len(text) > 118:
                    print(row)
                    row = "   "
                row += " %s," % text
            print(row)
            print("  },")
print("}")
