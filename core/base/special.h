/* special.h: the special functions that C's <math.h> lacks, for C and for CUDA. The only definition of each.
 *
 *   erfinv   float64: M. Wichura, "Algorithm AS 241: the percentage points of the normal distribution", Applied
 *            Statistics 37 (1988), PPND16 with p = (1 + x) / 2, so that no digit is lost near -1 and 1.
 *            float32: M. Giles, "Approximating the erfinv function", GPU Computing Gems 2 (2010).
 *   digamma  recurrence up to x >= 10, then the asymptotic series 6.3.18 of Abramowitz and Stegun, "Handbook of
 *            mathematical functions" (1964); below zero the reflection 6.3.7. A zero gives an infinity of the opposite
 *            sign, a negative integer NaN. Near its roots the error is some ulp of 1, not of the result.
 *   i0       the power series 9.6.12 of the same book, whose terms are all positive, and from 20 on the asymptotic
 *            series 9.7.1. At most 4 ulp.
 *   polygamma  (-1)^(n+1) n! times Hurwitz's zeta function of n + 1 and x, which is its first terms, and Euler and
 *            Maclaurin's sum of the others (23.1.30 there). Powers of 2 are kept apart, or large orders would overflow.
 *   sinc, ndtr  the sine of pi x over pi x, and half of erfc(-x / sqrt(2)), without the error of the product.
 *   ndtri    the quantile of the normal distribution, by AS 241 as erfinv.
 *   lgamma   the libraries' own, without the global variable that C's lgamma writes.
 *   log_add  log(exp(a) + exp(b)). Equal infinities have the distance 0; NaN passes. */
#pragma once

#include <string.h>

#include "random.h"

/* A function so long that a call of it in the loops of the CPU costs nothing beside it. */
#ifdef __CUDACC__
#  define TIDE_FN_LONG TIDE_FN
#else
#  define TIDE_FN_LONG static __attribute__((noinline, unused))
#endif

TIDE_FN float tide_erfinv_f32(float x) {
  float w = -logf((1.0f - x) * (1.0f + x)), p;
  if (!(w <= 88.0f)) return x == 1.0f || x == -1.0f ? x * (float)INFINITY : x - x + (float)NAN;
  if (w < 5.0f) {
    w -= 2.5f;
    p = 2.81022636e-08f;
    p = p * w + 3.43273939e-07f;
    p = p * w - 3.5233877e-06f;
    p = p * w - 4.39150654e-06f;
    p = p * w + 0.00021858087f;
    p = p * w - 0.00125372503f;
    p = p * w - 0.00417768164f;
    p = p * w + 0.246640727f;
    p = p * w + 1.50140941f;
  } else {
    w = sqrtf(w) - 3.0f;
    p = -0.000200214257f;
    p = p * w + 0.000100950558f;
    p = p * w + 0.00134934322f;
    p = p * w - 0.00367342844f;
    p = p * w + 0.00573950773f;
    p = p * w - 0.0076224613f;
    p = p * w + 0.00943887047f;
    p = p * w + 1.00167406f;
    p = p * w + 2.83297682f;
  }
  return p * x;
}

/* The three ranges of AS 241, as quotients of polynomials. */
TIDE_FN double tide_ppnd16_centre(double r) {
  double n = 2.5090809287301226727e+3;
  n = n * r + 3.3430575583588128105e+4, n = n * r + 6.7265770927008700853e+4, n = n * r + 4.5921953931549871457e+4;
  n = n * r + 1.3731693765509461125e+4, n = n * r + 1.9715909503065514427e+3, n = n * r + 1.3314166789178437745e+2;
  n = n * r + 3.3871328727963666080e+0;
  double d = 5.2264952788528545610e+3;
  d = d * r + 2.8729085735721942674e+4, d = d * r + 3.9307895800092710610e+4, d = d * r + 2.1213794301586595867e+4;
  d = d * r + 5.3941960214247511077e+3, d = d * r + 6.8718700749205790830e+2, d = d * r + 4.2313330701600911252e+1;
  return n / (d * r + 1.0);
}
TIDE_FN double tide_ppnd16_middle(double r) {
  double n = 7.74545014278341407640e-4;
  n = n * r + 2.27238449892691845833e-2, n = n * r + 2.41780725177450611770e-1, n = n * r + 1.27045825245236838258e+0;
  n = n * r + 3.64784832476320460504e+0, n = n * r + 5.76949722146069140550e+0, n = n * r + 4.63033784615654529590e+0;
  n = n * r + 1.42343711074968357734e+0;
  double d = 1.05075007164441684324e-9;
  d = d * r + 5.47593808499534494600e-4, d = d * r + 1.51986665636164571966e-2, d = d * r + 1.48103976427480074590e-1;
  d = d * r + 6.89767334985100004550e-1, d = d * r + 1.67638483018380384940e+0, d = d * r + 2.05319162663775882187e+0;
  return n / (d * r + 1.0);
}
TIDE_FN double tide_ppnd16_tail(double r) {
  double n = 2.01033439929228813265e-7;
  n = n * r + 2.71155556874348757815e-5, n = n * r + 1.24266094738807843860e-3, n = n * r + 2.65321895265761230930e-2;
  n = n * r + 2.96560571828504891230e-1, n = n * r + 1.78482653991729133580e+0, n = n * r + 5.46378491116411436990e+0;
  n = n * r + 6.65790464350110377720e+0;
  double d = 2.04426310338993978564e-15;
  d = d * r + 1.42151175831644588870e-7, d = d * r + 1.84631831751005468180e-5, d = d * r + 7.86869131145613259100e-4;
  d = d * r + 1.48753612908506148525e-2, d = d * r + 1.36929880922735805310e-1, d = d * r + 5.99832206555887937690e-1;
  return n / (d * r + 1.0);
}

TIDE_FN double tide_erfinv_f64(double x) {
  const double inv_sqrt2 = 0.70710678118654752440, half_sqrt_pi = 0.88622692545275801365;
  double a = fabs(x);
  if (!(a < 1.0)) return a == 1.0 ? x * INFINITY : x - x + NAN;
  if (a <= 0.85) {
    double y = tide_ppnd16_centre(0.180625 - 0.25 * x * x) * x * (0.5 * inv_sqrt2);
    return y - (erf(y) - x) * exp(y * y) * half_sqrt_pi; /* a step of Newton: from 5 ulp to 2 */
  }
  double r = sqrt(-log((1.0 - a) * 0.5));
  double y = r <= 5.0 ? tide_ppnd16_middle(r - 1.6) : tide_ppnd16_tail(r - 5.0);
  return copysign(y * inv_sqrt2, x);
}

TIDE_FN_LONG double tide_digamma_f64(double x) {
  const double pi = 3.14159265358979323846;
  double sum = 0.0;
  if (x == 0.0) return copysign((double)INFINITY, -x);
  if (x < 0.0) {
    double near = rint(x); /* the difference is exact, and small next to a pole */
    if (x == near) return NAN;
    sum = -pi / tan(pi * (x - near));
    x = 1.0 - x;
  }
  for (; x < 10.0; x += 1.0) sum -= 1.0 / x;
  double z = 1.0 / (x * x);
  double series = 8.33333333333333333333e-2;
  series = series * z - 2.10927960927960927961e-2, series = series * z + 7.57575757575757575758e-3;
  series = series * z - 4.16666666666666666667e-3, series = series * z + 3.96825396825396825397e-3;
  series = series * z - 8.33333333333333333333e-3, series = series * z + 8.33333333333333333333e-2;
  return sum + log(x) - 0.5 / x - z * series;
}
TIDE_FN float tide_digamma_f32(float x) { return (float)tide_digamma_f64((double)x); }

TIDE_FN_LONG double tide_i0_f64(double x) {
  double a = fabs(x), sum = 1.0, term = 1.0;
  if (!(a <= 20.0)) {
    for (int k = 1; k < 40 && term > sum * 1e-17; k++) {
      term *= (2 * k - 1) * (2 * k - 1) / (8.0 * k * a);
      sum += term;
    }
    double half = exp(0.5 * a); /* the whole may be infinite where the product is not */
    return a <= 1e300 ? half * (sum / sqrt(6.28318530717958647693 * a)) * half : a;
  }
  /* The error of the square, which the sum makes a / 2 times as large, comes back by way of the derivative. */
  double half = 0.5 * a, quarter = half * half, lost = fma(half, half, -quarter);
  for (int k = 1; term > sum * 1e-17; k++) {
    term *= quarter / ((double)k * k);
    sum += term;
  }
  return sum + sum * (lost / sqrt(1.0 + quarter));
}
TIDE_FN float tide_i0_f32(float x) { return (float)tide_i0_f64((double)x); }

TIDE_FN float tide_lgamma_f32(float x) {
#ifdef __CUDACC__
  return lgammaf(x);
#else
  int sign;
  return lgammaf_r(x, &sign);
#endif
}
TIDE_FN double tide_lgamma_f64(double x) {
#ifdef __CUDACC__
  return lgamma(x);
#else
  int sign;
  return lgamma_r(x, &sign);
#endif
}

/* x^-s of a whole s > 1, below 6 by products: less than 3 ulp from the true power, at a third of what pow costs. */
TIDE_FN double tide_inverse_power(double x, double s) {
  double power = x;
  if (s > 5.0) return pow(x, -s);
  for (double k = 1.0; k < s; k += 1.0) power *= x;
  return 1.0 / power;
}

/* The sum of (x + k)^-s over k, k + 1, ..., for s > 1 and x + k > 0, times 1 / scale^(s - 1), which is a power of 2
 * near the largest term. x + k is taken exactly: s times its rounding would show. */
TIDE_FN_LONG double tide_zeta(double s, double x, double k, double scale) {
  double sum = 0.0, high, power, least = 9.0 + 1.35 * s;
  for (;; k += 1.0) {
    high = x + k;
    double part = high - x, low = (x - (high - part)) + (k - part);
    power = tide_inverse_power(high * scale, s) * (1.0 - s * low / high);
    if (!(high < least)) break;
    sum += power * scale;
    if (power * scale <= 1e-18 * sum) return sum; /* also of a sum that is 0 */
  }
  /* Bernoulli's numbers 2, 4, ... over their factorials, times s (s + 1) ... x^-1, x^-3, ... */
  const double b[8] = {8.33333333333333333333e-2,  -1.38888888888888888889e-3, 3.30687830687830687831e-5,
                       -8.26719576719576719577e-7, 2.08767569878680989792e-8,  -5.28419013868749318484e-10,
                       1.33825365306846788328e-11, -3.38968029632258286683e-13};
  double factor = s / high, series = 0.5;
  for (int j = 0; j < 8; j++) {
    series += b[j] * factor;
    factor *= (s + (2 * j + 1)) / high * ((s + (2 * j + 2)) / high);
  }
  return sum + power * (series * scale + high * scale / (s - 1.0));
}

/* The sum of (x + k)^-s over k >= 0 is right for negative x too: it is the sum over all whole k, less the terms far
 * below. */
TIDE_FN_LONG double tide_polygamma_f64(double x, double n) {
  if (n == 0.0) return tide_digamma_f64(x);
  double s = n + 1.0, near = x > 0.0 ? x : x - rint(x), odd = s == 2.0 * floor(0.5 * s) ? 1.0 : -1.0, sum;
  int power, shift = 0;
  if (near == 0.0) return odd * INFINITY;
  if (!(fabs(near) < INFINITY)) return near == INFINITY ? 0.0 : NAN;
  frexp(near, &power);
  power = power < -1000 ? -1000 : power - 1;
  double scale = ldexp(1.0, -power);
  if (x > 0.0)
    sum = tide_zeta(s, x, 0.0, scale);
  else
    sum = pow(near * scale, -s) * scale + tide_zeta(s, near, 1.0, scale) +
          odd * (tide_zeta(s, -near, 1.0, scale) - tide_zeta(s, -x, 1.0, scale));
  if (n > 1000.0) { /* few digits: the factorial as an exponential, and of a sum that underflows its largest term */
    double size = sum == 0.0 ? -s * log(fabs(near)) : log(fabs(sum)) - power * n * 0.69314718055994530942;
    return odd * copysign(exp(tide_lgamma_f64(s) + size), sum == 0.0 && near < 0.0 ? odd : sum);
  }
  double high = 1.0, low = 0.0; /* the factorial, in two parts */
  for (double k = 2.0; k <= n; k += 1.0) {
    double product = high * k;
    low = low * k + fma(high, k, -product), high = product;
    if (high > 1e100) high *= 0x1p-332, low *= 0x1p-332, shift += 332;
  }
  return odd * ldexp(high * sum + low * sum, shift - power * (int)n);
}
TIDE_FN float tide_polygamma_f32(float x, float n) { return (float)tide_polygamma_f64((double)x, (double)n); }

TIDE_FN_LONG double tide_ndtri_f64(double p) {
  double q = p - 0.5;
  if (!(p > 0.0 && p < 1.0)) return p == 0.0 ? -(double)INFINITY : p == 1.0 ? (double)INFINITY : NAN;
  if (fabs(q) <= 0.425) return tide_ppnd16_centre(0.180625 - q * q) * q;
  double r = sqrt(-log(q < 0.0 ? p : 1.0 - p));
  double y = r <= 5.0 ? tide_ppnd16_middle(r - 1.6) : tide_ppnd16_tail(r - 5.0);
  return q < 0.0 ? -y : y;
}
TIDE_FN float tide_ndtri_f32(float p) { return (float)tide_ndtri_f64((double)p); }

/* The sine of pi x by way of x's distance to the nearest whole number, which the sum with BIG rounds to, and whose last
 * bit is that of the sum. */
#define TIDE_SINC(s, T, U, f, BIG, BITS)                                                                               \
  TIDE_FN T tide_sinc_##s(T x) {                                                                                       \
    const T pi = (T)3.14159265358979323846;                                                                            \
    T shifted = x + (T)BIG, sine = sin##f(pi * (x - (shifted - (T)BIG)));                                              \
    U last, bits;                                                                                                      \
    memcpy(&last, &shifted, sizeof last);                                                                              \
    memcpy(&bits, &sine, sizeof bits);                                                                                 \
    bits ^= last << BITS;                                                                                              \
    memcpy(&sine, &bits, sizeof bits);                                                                                 \
    return x == 0 ? (T)1 : sine / (pi * x);                                                                            \
  }
TIDE_SINC(f32, float, uint32_t, f, 0x1.8p23, 31)
TIDE_SINC(f64, double, uint64_t, , 0x1.8p52, 63)

/* erfc's argument z is taken in two parts: its rounding would show x^2 times. Of the second part the derivative is
 * enough, and of that, for z > 0, erfc(z) times z + sqrt(z^2 + 4 / pi), a bound of 7.1.13 of Abramowitz and Stegun:
 * what it lacks is less than 1 / z^2 of it. Below zero the rounding is at most 1/4 ulp. */
TIDE_FN double tide_ndtr_f64(double x) {
  const double root = 0.70710678118654752440;
  double z = x * -root, rest = fma(x, -root, -z) + x * 4.8336466567264567e-17, whole = erfc(z);
  rest *= z + sqrt(z * z + 1.27323954473516268615);
  return 0.5 * (whole - whole * (z > 0.0 && z < 30.0 ? rest : 0.0));
}
TIDE_FN float tide_ndtr_f32(float x) {
  double exact = (double)x * -0.70710678118654752440;
  float z = (float)exact, rest = (float)(exact - (double)z), whole = erfcf(z);
  rest *= z + sqrtf(z * z + 1.27323954473516268615f);
  return 0.5f * (whole - whole * (z > 0.0f && z < 15.0f ? rest : 0.0f));
}

/* nextafter of a and b in the 16-bit floats that lack `lost` bits of float32: 13 in float16, whose steps are all alike
 * below 2^-14, or 16 in bfloat16, whose exponents are those of float32. */
TIDE_FN float tide_nextafter_narrow(float a, float b, int lost) {
  const int half = lost == 13, up = a < b;
  if (a != a || b != b) return a + b;
  if (a == b) return b;
  float size = fabsf(a), least = half ? 0x1p-24f : 0x1p-133f;
  if (a == 0) return copysignf(least, up ? 1.0f : -1.0f);
  const int away = up == (a > 0);
  if (half && (size < 0x1p-14f || (size == 0x1p-14f && !away))) return copysignf(away ? size + least : size - least, a);
  if (half && size > 65504.0f) size = 65536.0f; /* infinity, which it becomes again */
  uint32_t bits;
  memcpy(&bits, &size, sizeof bits);
  bits += (away ? 1u : ~0u) << lost;
  memcpy(&size, &bits, sizeof size);
  return copysignf(size, a);
}

#define TIDE_LOG_ADD(s, T, f)                                                                                          \
  TIDE_FN T tide_log_add_##s(T a, T b) {                                                                               \
    T low = a < b ? a : b, high = a < b ? b : a, apart = a == b ? (T)0 : low - high;                                   \
    return a != a ? a : b != b ? b : high + log1p##f(exp##f(apart));                                                   \
  }
TIDE_LOG_ADD(f32, float, f)
TIDE_LOG_ADD(f64, double, )
