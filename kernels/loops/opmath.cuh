/* opmath.cuh: the vocabulary of op.def on the GPU: the tide_* helpers and the mathematical functions, for int32, int64,
 * float, double and, where an op takes them, complex numbers.
 *
 * Functions whose code is long are not inlined: a kernel applies an op to several elements, and one copy of such a
 * function keeps the library small and its build short. Integers wrap around; a division of integers by zero gives
 * zero. */
#pragma once

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
template <class T> TIDEK_MATH C tide_divide(C a, C b) { return a / b; }
#undef C

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
template <class T> TIDEK_MATH T tide_nextafter(T a, T b) { return ::nextafter(a, b); }

/* ---- base/mathematics/helpers.h ---- */

#define H(name)     tide_##name
#define HELPER      TIDEK_MATH
#define HELPER_LONG TIDEK_LONG
#include "base/mathematics/helpers.h"

} // namespace tidek

#include "complex.cuh"
