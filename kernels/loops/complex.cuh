/* complex.cuh: the functions of complex numbers of op.def on the GPU, with the values of C's cexp and its kin at
 * infinities, NaN, signed zeros and along branch cuts.
 *
 * Each is written once for float and double, over their real functions. Inverse functions follow W. Kahan, "Branch cuts
 * for complex elementary functions" (1987), and are logarithms where squares would overflow. tan, sin, asin and atan
 * are turns of the hyperbolic ones.
 *
 * Invariant: parts are never multiplied by a zero that stands for "none", so that an infinity does not become NaN. */
#pragma once

namespace tidek {

#define C Complex<T>

/* What depends on the width. */
template <class T> struct limits;
template <> struct limits<float> {
  static constexpr float pi = 3.14159265358979323846f, ln2 = 0.69314718055994530942f, big = 1.7e38f / 4, tiny = 1e-30f,
                         up = 0x1p40f, root_up = 0x1p-20f, exp_most = 88.0f, tanh_far = 11.0f, far = 0x1p24f;
};
template <> struct limits<double> {
  static constexpr double pi = 3.14159265358979323846, ln2 = 0.69314718055994530942, big = 8.9e307 / 4, tiny = 1e-290,
                          up = 0x1p100, root_up = 0x1p-50, exp_most = 709.0, tanh_far = 22.0, far = 0x1p53;
};
template <class T> TIDEK_MATH bool is_finite(T x) { return fabs(x) <= limits<T>::big * 8 || x - x == 0; }

/* factor * (cos im + i sin im), of which the imaginary part keeps a zero. */
template <class T> TIDEK_MATH C turned(T factor, T im) { return C(factor * cos(im), im == 0 ? im : factor * sin(im)); }

template <class T> TIDEK_LONG C exp(C z) {
  if (z.im == 0) return C(exp(z.re), z.im);
  if (!is_finite(z.re) && z.re == z.re && !is_finite(z.im))
    return z.re < 0 ? C((T)0, copysign((T)0, z.im)) : C(z.re, z.im - z.im);
  if (z.re <= limits<T>::exp_most || !is_finite(z.re)) return turned(exp(z.re), z.im);
  T half = exp(z.re / 2); /* the whole may be infinite where the product is not */
  C part = turned(half, z.im);
  return C(part.re * half, part.im * half);
}

/* log(re^2 + im^2) / 2, near 1 from what the sum has above 1. */
template <class T> TIDEK_LONG T log_size(T re, T im) {
  T a = fmax(fabs(re), fabs(im)), b = fmin(fabs(re), fabs(im));
  if (re != re || im != im) return a - a == 0 || a != a ? re + im : a; /* an infinity counts before NaN */
  if (a > limits<T>::big) return log(hypot(a / 2, b / 2)) + limits<T>::ln2;
  if (a < limits<T>::tiny) return log(hypot(a * limits<T>::up, b * limits<T>::up)) - log(limits<T>::up);
  if (!(a > (T)0.5 && a < (T)1.5 && b < (T)1)) return log(hypot(a, b));
  T d = a - 1, dd = d * d, dd_low = fma(d, d, -dd), bb = b * b, bb_low = fma(b, b, -bb);
  T sum = 2 * d + bb, back = sum - 2 * d, sum_low = (2 * d - (sum - back)) + (bb - back);
  T all = sum + dd, more = all - sum, all_low = (sum - (all - more)) + (dd - more);
  return log1p(all + (all_low + sum_low + dd_low + bb_low)) / 2;
}
template <class T> TIDEK_MATH C log(C z) { return C(log_size(z.re, z.im), atan2(z.im, z.re)); }
template <class T> TIDEK_MATH C log2(C z) {
  C l = log(z);
  return C(l.re / limits<T>::ln2, l.im / limits<T>::ln2);
}
template <class T> TIDEK_MATH C log10(C z) {
  C l = log(z);
  return C(l.re / (T)2.30258509299404568402, l.im / (T)2.30258509299404568402);
}
template <class T> TIDEK_LONG C log1p(C z) {
  if (!(fabs(z.re) < (T)0.5 && fabs(z.im) < (T)0.5)) return log(C(1 + z.re, z.im));
  T square = fma(z.re, z.re, fma(z.im, z.im, 2 * z.re));
  return C(log1p(square) / 2, atan2(z.im, 1 + z.re));
}
/* log(exp(a) + exp(b)). */
template <class T> TIDEK_LONG C tide_log_add(C a, C b) {
  C low = a.re < b.re ? a : b, high = a.re < b.re ? b : a;
  if (a.re != a.re || a.im != a.im || b.re != b.re || b.im != b.im) return C((T)CUDART_NAN, (T)CUDART_NAN);
  if (low.re == high.re && !is_finite(high.re)) return high.re < 0 ? high : log(exp(a) + exp(b));
  return high + log1p(exp(low - high));
}
template <class T> TIDEK_LONG C exp2(C z) {
  if (z.im == 0) return C(exp2(z.re), z.im);
  if (!is_finite(z.re) || !is_finite(z.im)) return exp(C(z.re, z.im * limits<T>::ln2));
  C unit = turned((T)1, z.im * limits<T>::ln2);
  T half = exp2(z.re / 2); /* the whole may be infinite where the product is not */
  return C(half * unit.re * half, half * unit.im * half);
}
template <class T> TIDEK_LONG C expm1(C z) {
  if (z.im == 0) return C(expm1(z.re), z.im);
  if (!is_finite(z.re) || !is_finite(z.im) || fabs(z.re) > limits<T>::tanh_far * 2) {
    C e = exp(z);
    return C(e.re - 1, e.im);
  }
  T half = sin(z.im / 2);
  return C(expm1(z.re) * cos(z.im) - 2 * half * half, exp(z.re) * sin(z.im));
}

template <class T> TIDEK_LONG C sqrt(C z) {
  T re = z.re, im = z.im, scale = 1;
  if (re == 0 && im == 0) return C((T)0, im);
  if (!is_finite(im) && im == im) return C(fabs(im), im);
  if (!is_finite(re) && re == re)
    return re > 0 ? C(re, im == im ? copysign((T)0, im) : im) : C(im == im ? (T)0 : im, copysign(-re, im));
  if (re != re || im != im) return C(re + im, re + im);
  T most = fmax(fabs(re), fabs(im));
  if (most > limits<T>::big) re /= 4, im /= 4, scale = 2;
  if (most < limits<T>::tiny) re *= limits<T>::up, im *= limits<T>::up, scale = limits<T>::root_up;
  T t = ::sqrt((fabs(re) + hypot(re, im)) / 2);
  if (re >= 0) return C(scale * t, scale * (im / (2 * t)));
  return C(scale * (fabs(im) / (2 * t)), scale * copysign(t, im));
}

/* ---- hyperbolic, and what is a turn of them ---- */

template <class T> TIDEK_LONG C sinh(C z) {
  if (z.im == 0) return C(sinh(z.re), z.im);
  if (z.re == 0) return is_finite(z.im) ? C(z.re * cos(z.im), sin(z.im)) : C(z.re, z.im - z.im);
  if (!is_finite(z.re) && z.re == z.re && !is_finite(z.im)) return C(z.re, z.im - z.im);
  if (fabs(z.re) <= limits<T>::exp_most || !is_finite(z.re)) return C(sinh(z.re) * cos(z.im), cosh(z.re) * sin(z.im));
  T half = exp(fabs(z.re) / 2);
  return C(copysign(half / 2, z.re) * cos(z.im) * half, half / 2 * sin(z.im) * half);
}
template <class T> TIDEK_LONG C cosh(C z) {
  if (z.im == 0) return C(cosh(z.re), z.re == z.re ? copysign((T)1, z.re) * z.im : z.im);
  if (z.re == 0) return C(is_finite(z.im) ? cos(z.im) : z.im - z.im, is_finite(z.im) ? z.re * sin(z.im) : z.re);
  if (!is_finite(z.re) && z.re == z.re && !is_finite(z.im)) return C(fabs(z.re), z.im - z.im);
  if (fabs(z.re) <= limits<T>::exp_most || !is_finite(z.re)) return C(cosh(z.re) * cos(z.im), sinh(z.re) * sin(z.im));
  T half = exp(fabs(z.re) / 2);
  return C(half / 2 * cos(z.im) * half, copysign(half / 2, z.re) * sin(z.im) * half);
}
template <class T> TIDEK_LONG C tanh(C z) {
  if (z.im == 0) return C(tanh(z.re), z.im);
  if (!is_finite(z.re) && z.re == z.re)
    return C(copysign((T)1, z.re), is_finite(z.im) ? copysign((T)0, sin(z.im) * cos(z.im)) : copysign((T)0, z.im));
  if (!is_finite(z.im)) return C(z.re == 0 ? z.re : z.im - z.im, z.im - z.im);
  if (fabs(z.re) > limits<T>::tanh_far)
    return C(copysign((T)1, z.re), 4 * sin(z.im) * cos(z.im) * exp(-2 * fabs(z.re)));
  T t = tan(z.im), s = sinh(z.re), beta = 1 + t * t, rho = ::sqrt(1 + s * s);
  if (!is_finite(t)) return C(rho / s, 1 / t);
  T below = 1 + beta * s * s;
  return C(beta * rho * s / below, t / below);
}
template <class T> TIDEK_MATH C sin(C z) {
  C w = sinh(C(-z.im, z.re));
  return C(w.im, -w.re);
}
template <class T> TIDEK_MATH C cos(C z) { return cosh(C(-z.im, z.re)); }
template <class T> TIDEK_MATH C tan(C z) {
  C w = tanh(C(-z.im, z.re));
  return C(w.im, -w.re);
}

/* ---- their inverses ---- */

/* So far out that 1 does not count beside z: infinities and NaN too. */
template <class T> TIDEK_MATH bool is_far(C z) { return !(fabs(z.re) < limits<T>::far && fabs(z.im) < limits<T>::far); }
template <class T> TIDEK_MATH T log_double(C z) { return log_size(z.re, z.im) + limits<T>::ln2; }

template <class T> TIDEK_LONG C asin(C z) {
  if (is_far(z)) return C(z.re == 0 ? z.re : atan2(z.re, fabs(z.im)), copysign(log_double(z), z.im));
  C low = sqrt(C(1 - z.re, -z.im)), high = sqrt(C(1 + z.re, z.im));
  return C(atan2(z.re, low.re * high.re - low.im * high.im),
           copysign(asinh(low.re * high.im - low.im * high.re), z.im));
}
template <class T> TIDEK_LONG C acos(C z) {
  if (is_far(z)) return C(z.re == 0 ? limits<T>::pi / 2 : atan2(fabs(z.im), z.re), copysign(log_double(z), -z.im));
  C low = sqrt(C(1 - z.re, -z.im)), high = sqrt(C(1 + z.re, z.im));
  return C(2 * atan2(low.re, high.re), copysign(asinh(high.re * low.im - high.im * low.re), -z.im));
}
template <class T> TIDEK_MATH C asinh(C z) {
  C w = asin(C(-z.im, z.re));
  return C(w.im, -w.re);
}
template <class T> TIDEK_LONG C acosh(C z) {
  if (is_far(z)) return C(log_double(z), z.re == 0 ? copysign(limits<T>::pi / 2, z.im) : atan2(z.im, z.re));
  C low = sqrt(C(z.re - 1, z.im)), high = sqrt(C(z.re + 1, z.im));
  return C(asinh(low.re * high.re + low.im * high.im), 2 * atan2(low.im, high.re));
}
template <class T> TIDEK_LONG C atanh(C z) {
  T x = fabs(z.re), y = z.im, re, im;
  if (is_far(z)) { /* pi / 2 i + 1 / z */
    bool whole = is_finite(x) && is_finite(y);
    T d = fmax(x, fabs(y)), u = x / d, v = y / d;
    bool infinite = d - d != 0 && d == d;
    re = whole ? u / (u * u + v * v) / d : infinite || x == 0 ? (T)0 : x + y;
    im = y != y ? y : x != x && is_finite(y) ? x : copysign(limits<T>::pi / 2, y);
  } else if (x == 1 && y == 0) {
    re = (T)CUDART_INF, im = y;
  } else {
    T gap = (1 - x) * (1 - x) + y * y;
    re = x == 1 && fabs(y) < 1 / limits<T>::far ? -(log(fabs(y)) - limits<T>::ln2) / 2 : log1p(4 * x / gap) / 4;
    im = atan2(2 * y, (1 - x) * (1 + x) - y * y) / 2;
  }
  return C(copysign(re, z.re), im);
}
template <class T> TIDEK_MATH C atan(C z) {
  C w = atanh(C(-z.im, z.re));
  return C(w.im, -w.re);
}

/* ---- powers ---- */

/* Small whole powers are products, which are exact where they can be. NaN where one is too large or small. */
template <class T> TIDEK_LONG C whole_power(C a, int n) {
  C power = C((T)1, (T)0);
  for (int left = n < 0 ? -n : n; left; left >>= 1) {
    if (left & 1) power = power * a;
    a = C((a.re - a.im) * (a.re + a.im), 2 * a.re * a.im);
  }
  return n < 0 ? C((T)1, (T)0) / power : power;
}
template <class T> TIDEK_LONG C tide_pow(C a, C b) {
  T n = b.re;
  bool real = b.im == 0, none = a.re == 0 && a.im == 0;
  if (none && n > 0) return C((T)0, (T)0);
  if (real && n == 0) return C((T)1, (T)0);
  if (real && is_finite(a.re) && is_finite(a.im) && fabs(n) <= 16 && n == floor(n) && (n > 0 || !none)) {
    C power = whole_power(a, (int)n);
    if (power.re == power.re && power.im == power.im) return power;
  }
  C l = log(a);
  return exp(real ? C(l.re * n, l.im * n) : C(l.re * n - l.im * b.im, l.re * b.im + l.im * n));
}

/* ---- tests ---- */

template <class T> TIDEK_MATH bool tide_isnan(C x) { return x.re != x.re || x.im != x.im; }
template <class T> TIDEK_MATH bool tide_isinf(C x) {
  return fabs(x.re) == (T)CUDART_INF || fabs(x.im) == (T)CUDART_INF;
}
template <class T> TIDEK_MATH bool tide_isfinite(C x) { return x.re - x.re == 0 && x.im - x.im == 0; }

/* ---- directions and distances ---- */

template <class T> TIDEK_MATH C tide_sinc(C x) {
  C y = x * C((T)3.14159265358979323846);
  return !x ? C(1) : sin(y) / y;
}

/* As on the CPU sizes are of float64, so that no float32 is too far for them. An infinite or undefined one has no
 * direction. */
template <class T> TIDEK_LONG C tide_sgn(C x) {
  double size = hypot((double)x.re, (double)x.im), one = size / size;
  return size == 0 ? x : C((T)(x.re / size * one), (T)(x.im / size * one));
}
template <class T> TIDEK_MATH C tide_nan_to_num(C x, C nan, C most, C least) {
  return C(tide_nan_to_num(x.re, nan.re, most.re, least.re), tide_nan_to_num(x.im, nan.re, most.re, least.re));
}
template <class T> TIDEK_LONG bool tide_isclose(C a, C b, C rtol, C atol, C equal_nan) {
  if (a == b) return true;
  if (tide_isnan(a) || tide_isnan(b)) return equal_nan.re != 0 && tide_isnan(a) && tide_isnan(b);
  double distance = hypot((double)a.re - b.re, (double)a.im - b.im);
  return distance - distance == 0 && distance <= atol.re + (double)rtol.re * hypot((double)b.re, (double)b.im);
}

#undef C
} // namespace tidek
