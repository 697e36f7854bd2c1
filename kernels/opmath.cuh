/* opmath.cuh: the vocabulary of op.def on the GPU: the tide_* helpers and the mathematical functions, for int32, int64,
 * float, double and, where an op takes them, complex numbers.
 *
 * Functions whose code is long are not inlined: a kernel applies an op to several elements, and one copy of such a
 * function keeps the library small and its build short. Integers wrap around; a division of integers by zero gives
 * zero. */
#ifndef TIDEK_OPMATH_CUH
#define TIDEK_OPMATH_CUH

#include <math.h>
#include <math_constants.h>

#include "base/special.h"
#include "types.cuh"

#define TIDEK_MATH static __device__ __forceinline__
#ifndef TIDEK_LONG
#  define TIDEK_LONG static __device__ __noinline__
#endif

namespace tidek {

/* ---- complex arithmetic ---- */

#define C Complex<T>
template <class T> TIDEK_MATH C operator+(C a, C b) { return C(a.re + b.re, a.im + b.im); }
template <class T> TIDEK_MATH C operator-(C a, C b) { return C(a.re - b.re, a.im - b.im); }
template <class T> TIDEK_MATH C operator-(C a) { return C(-a.re, -a.im); }
template <class T> TIDEK_MATH C operator*(C a, C b) { return C(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re); }
template <class T> TIDEK_MATH bool operator==(C a, C b) { return a.re == b.re && a.im == b.im; }
template <class T> TIDEK_MATH bool operator!=(C a, C b) { return !(a == b); }

/* Scaled by the larger part of b, so that |b|^2 neither overflows nor vanishes (R. Smith, CACM 5, 1962). */
template <class T> TIDEK_MATH C operator/(C a, C b) {
  if (b.re == 0 && b.im == 0) return C(a.re * (T)CUDART_INF, a.im * (T)CUDART_INF);
  bool wide = fabs(b.re) >= fabs(b.im);
  T p = wide ? b.re : b.im, q = wide ? b.im : b.re;
  T r = q / p, d = p + q * r;
  T re = wide ? a.re + a.im * r : a.re * r + a.im;
  T im = wide ? a.im - a.re * r : a.im * r - a.re;
  return C(re / d, im / d);
}
template <class T> TIDEK_MATH bool operator!(C a) { return a.re == 0 && a.im == 0; }
template <class T> TIDEK_MATH bool operator&&(C a, C b) { return !!a && !!b; }
template <class T> TIDEK_MATH bool operator||(C a, C b) { return !!a || !!b; }
template <class T> TIDEK_MATH C tide_conj(C x) { return C(x.re, -x.im); }
#undef C
template <class T> TIDEK_MATH T tide_conj(T x) { return x; }
template <class T> TIDEK_MATH T tide_divide(T a, T b) { return a / b; }

/* ---- long functions, one copy in each file ---- */

#define LONG1(name)                                                                                                    \
  TIDEK_LONG float name(float x) { return ::name##f(x); }                                                              \
  TIDEK_LONG double name(double x) { return ::name(x); }
LONG1(sin)
LONG1(cos)
LONG1(tan)
LONG1(asin)
LONG1(acos)
LONG1(atan)
LONG1(sinh)
LONG1(cosh)
LONG1(asinh)
LONG1(acosh)
LONG1(atanh)
LONG1(erfc)
LONG1(lgamma)
LONG1(erfinv)
#undef LONG1
#define LONG2(name)                                                                                                    \
  TIDEK_LONG float name(float a, float b) { return ::name##f(a, b); }                                                  \
  TIDEK_LONG double name(double a, double b) { return ::name(a, b); }
LONG2(pow)
LONG2(fmod)
LONG2(atan2)
LONG2(hypot)
#undef LONG2

/* In float these are short enough to be inlined, and have to be for the memory to be the limit. */
#define LONG_DOUBLE(name)                                                                                              \
  TIDEK_MATH float name(float x) { return ::name##f(x); }                                                              \
  TIDEK_LONG double name(double x) { return ::name(x); }
LONG_DOUBLE(exp)
LONG_DOUBLE(exp2)
LONG_DOUBLE(expm1)
LONG_DOUBLE(log)
LONG_DOUBLE(log2)
LONG_DOUBLE(log10)
LONG_DOUBLE(log1p)
LONG_DOUBLE(tanh)
LONG_DOUBLE(erf)
#undef LONG_DOUBLE

TIDEK_MATH float sqrt(float x) { return ::sqrtf(x); } /* beside that of complex numbers */
TIDEK_MATH double sqrt(double x) { return ::sqrt(x); }

template <class T> TIDEK_MATH T tide_erfinv(T x) { return erfinv(x); }
template <class T> TIDEK_MATH T tide_lgamma(T x) { return lgamma(x); }
template <class T> TIDEK_MATH T tide_angle(T x) { return x != x ? x : x < 0 ? (T)3.14159265358979323846 : (T)0; }

TIDEK_LONG double tide_digamma(double x) { return tide_digamma_f64(x); }
TIDEK_MATH float tide_digamma(float x) { return (float)tide_digamma((double)x); }

TIDEK_LONG double tide_i0(double x) { return tide_i0_f64(x); }
TIDEK_MATH float tide_i0(float x) { return (float)tide_i0((double)x); }
TIDEK_LONG double tide_polygamma(double x, double n) { return tide_polygamma_f64(x, n); }
TIDEK_MATH float tide_polygamma(float x, float n) { return (float)tide_polygamma((double)x, (double)n); }
TIDEK_LONG double tide_ndtr(double x) { return tide_ndtr_f64(x); }
TIDEK_LONG float tide_ndtr(float x) { return tide_ndtr_f32(x); }
TIDEK_LONG double tide_sinc(double x) { return tide_sinc_f64(x); }
TIDEK_LONG float tide_sinc(float x) { return tide_sinc_f32(x); }
TIDEK_LONG double tide_ndtri(double x) { return tide_ndtri_f64(x); }
TIDEK_MATH float tide_ndtri(float x) { return (float)tide_ndtri((double)x); }
TIDEK_MATH float tide_log_add(float a, float b) { return tide_log_add_f32(a, b); }
TIDEK_MATH double tide_log_add(double a, double b) { return tide_log_add_f64(a, b); }
template <class T> TIDEK_MATH T tide_entr(T x) { return x > 0 ? -x * log(x) : x < 0 ? -(T)CUDART_INF : x; }
template <class T> TIDEK_MATH T tide_frexp_fraction(T x) {
  int exponent;
  return ::frexp(x, &exponent);
}
template <class T> TIDEK_MATH T tide_frexp_exponent(T x) {
  int exponent = 0;
  if (x - x == 0) ::frexp(x, &exponent);
  return (T)exponent;
}
template <class T> TIDEK_MATH T tide_copysign(T a, T b) { return ::copysign(a, b); }
template <class T> TIDEK_MATH T tide_nextafter(T a, T b) { return ::nextafter(a, b); }

/* ---- integers ---- */

template <class T> struct unsigned_of { using type = uint32_t; };
template <> struct unsigned_of<int64_t> { using type = uint64_t; };
#define INTEGER  class T, std::enable_if_t<std::is_integral_v<T>, int> = 0
#define FLOATING class T, std::enable_if_t<std::is_floating_point_v<T>, int> = 0

template <INTEGER> TIDEK_MATH T tide_abs(T x) { return x < 0 ? (T)(0 - (typename unsigned_of<T>::type)x) : x; }
template <INTEGER> TIDEK_MATH T tide_sign(T x) { return (T)((x > 0) - (x < 0)); }
template <INTEGER> TIDEK_MATH T tide_sgn(T x) { return tide_sign(x); }
template <INTEGER> TIDEK_MATH T tide_floor(T x) { return x; }
template <INTEGER> TIDEK_MATH T tide_ceil(T x) { return x; }
template <INTEGER> TIDEK_MATH T tide_rint(T x) { return x; }
template <INTEGER> TIDEK_MATH T tide_trunc(T x) { return x; }
template <INTEGER> TIDEK_MATH bool tide_isnan(T) { return false; }
template <INTEGER> TIDEK_MATH bool tide_isinf(T) { return false; }
template <INTEGER> TIDEK_MATH bool tide_isfinite(T) { return true; }
template <INTEGER> TIDEK_MATH T tide_nan_to_num(T x, T, T, T) { return x; }
template <INTEGER> TIDEK_MATH T tide_max(T a, T b) { return a > b ? a : b; }
template <INTEGER> TIDEK_MATH T tide_min(T a, T b) { return a < b ? a : b; }
template <INTEGER> TIDEK_MATH T tide_fmax(T a, T b) { return a > b ? a : b; }
template <INTEGER> TIDEK_MATH T tide_fmin(T a, T b) { return a < b ? a : b; }

template <INTEGER> TIDEK_MATH bool tide_signbit(T x) { return x < 0; }
template <INTEGER> TIDEK_LONG T tide_gcd(T a, T b) {
  using U = typename unsigned_of<T>::type;
  U x = a < 0 ? 0 - (U)a : (U)a, y = b < 0 ? 0 - (U)b : (U)b;
  while (y) {
    U r = x % y;
    x = y, y = r;
  }
  return (T)x;
}
template <INTEGER> TIDEK_MATH T tide_lcm(T a, T b) {
  using U = typename unsigned_of<T>::type;
  U g = (U)tide_gcd(a, b), x = a < 0 ? 0 - (U)a : (U)a, y = b < 0 ? 0 - (U)b : (U)b;
  return g ? (T)(x / g * y) : 0;
}

/* Division by -1 is negation, which wraps, where the instruction would have no result. */
template <INTEGER> TIDEK_LONG T tide_div_trunc(T a, T b) {
  if (b == 0) return 0;
  return b == -1 ? (T)(0 - (typename unsigned_of<T>::type)a) : a / b;
}
template <INTEGER> TIDEK_LONG T tide_fmod(T a, T b) { return b == 0 || b == -1 ? 0 : a % b; }
template <INTEGER> TIDEK_LONG T tide_div_floor(T a, T b) {
  T q = tide_div_trunc(a, b);
  return b != 0 && b != -1 && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
template <INTEGER> TIDEK_LONG T tide_remainder(T a, T b) {
  T r = tide_fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
template <INTEGER> TIDEK_LONG T tide_pow(T a, T b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
  typename unsigned_of<T>::type out = 1, base = (typename unsigned_of<T>::type)a;
  for (; b; b >>= 1, base *= base)
    if (b & 1) out *= base;
  return (T)out;
}
template <INTEGER> TIDEK_MATH T tide_shl(T a, T b) {
  return b < 0 || b >= (T)(8 * sizeof(T)) ? 0 : (T)((typename unsigned_of<T>::type)a << b);
}
template <INTEGER> TIDEK_MATH T tide_shr(T a, T b) {
  return a >> (b < 0 || b >= (T)(8 * sizeof(T)) ? (T)(8 * sizeof(T) - 1) : b);
}

/* ---- floating point ---- */

TIDEK_MATH float tide_abs(float x) { return fabsf(x); }
TIDEK_MATH double tide_abs(double x) { return fabs(x); }
template <FLOATING> TIDEK_MATH T tide_sign(T x) { return (T)((x > 0) - (x < 0)); }
template <FLOATING> TIDEK_MATH T tide_sgn(T x) { return tide_sign(x); }
template <FLOATING> TIDEK_MATH bool tide_signbit(T x) { return ::signbit(x); }
template <FLOATING> TIDEK_MATH T tide_floor(T x) { return floor(x); }
template <FLOATING> TIDEK_MATH T tide_ceil(T x) { return ceil(x); }
template <FLOATING> TIDEK_MATH T tide_rint(T x) { return rint(x); }
template <FLOATING> TIDEK_MATH T tide_trunc(T x) { return trunc(x); }
template <FLOATING> TIDEK_MATH bool tide_isnan(T x) { return x != x; }
template <FLOATING> TIDEK_MATH bool tide_isinf(T x) { return tide_abs(x) == (T)CUDART_INF; }
template <FLOATING> TIDEK_MATH bool tide_isfinite(T x) { return tide_abs(x) < (T)CUDART_INF; }
template <FLOATING> TIDEK_MATH T tide_nan_to_num(T x, T nan, T most, T least) {
  return x != x ? nan : tide_isinf(x) ? (x > 0 ? most : least) : x;
}
template <FLOATING> TIDEK_MATH T tide_max(T a, T b) { return a > b || a != a ? a : b; }
template <FLOATING> TIDEK_MATH T tide_min(T a, T b) { return a < b || a != a ? a : b; }
TIDEK_MATH float tide_fmax(float a, float b) { return fmaxf(a, b); }
TIDEK_MATH double tide_fmax(double a, double b) { return fmax(a, b); }
TIDEK_MATH float tide_fmin(float a, float b) { return fminf(a, b); }
TIDEK_MATH double tide_fmin(double a, double b) { return fmin(a, b); }
template <FLOATING> TIDEK_MATH T tide_div_trunc(T a, T b) { return trunc(a / b); }
template <FLOATING> TIDEK_MATH T tide_fmod(T a, T b) { return fmod(a, b); }
template <FLOATING> TIDEK_MATH T tide_pow(T a, T b) { return pow(a, b); }
template <FLOATING> TIDEK_MATH T tide_remainder(T a, T b) {
  T r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
/* The exact quotient's floor: the rounding of a / b alone could pass a whole number. */
template <FLOATING> TIDEK_MATH T tide_div_floor(T a, T b) {
  if (b == 0) return a / b;
  T r = fmod(a, b), q = (a - r) / b;
  if (r != 0 && (r < 0) != (b < 0)) q -= 1;
  T whole = floor(q);
  if (q == 0) return copysign((T)0, a / b);
  return q - whole > (T)0.5 ? whole + 1 : whole;
}
/* Equal infinities are close; an infinite distance is not within an infinite tolerance. */
template <FLOATING> TIDEK_MATH bool tide_isclose(T a, T b, T rtol, T atol, T equal_nan) {
  if (a == b) return true;
  if (a != a || b != b) return equal_nan != 0 && a != a && b != b;
  T distance = tide_abs(a - b);
  return tide_isfinite(distance) && distance <= atol + rtol * tide_abs(b);
}

} // namespace tidek
#undef INTEGER
#undef FLOATING

#include "complex.cuh"

#endif
