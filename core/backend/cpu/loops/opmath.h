/* opmath.h: the tide_* helpers that the expressions of op.def call, for the CPU loops: those of
 * base/mathematics/helpers.h as families of functions name_i32, name_i64, name_f32, name_f64, chosen by the type of the
 * first argument, and those that only C needs to have written out. */
#pragma once

#include <complex.h>
#include <stdbool.h>

#include "base/special.h"

#undef I /* complex.h's imaginary unit: a name too short to keep */

#define TIDE_REAL_PICK(name, x)                                                                                        \
  _Generic((x), int32_t : name##_i32, int64_t : name##_i64, float : name##_f32, double : name##_f64)
#define TIDE_FLOAT_PICK(name, x) _Generic((x), float : name##_f32, double : name##_f64)
#define TIDE_INT_PICK(name, x)   _Generic((x), int32_t : name##_i32, int64_t : name##_i64)

/* ---- the helpers of each type ---- */

#define TIDE_HELPER_(name, s) tide_##name##_##s
#define TIDE_HELPER(name, s)  TIDE_HELPER_(name, s)
#define H(name)               TIDE_HELPER(name, S)
#define HELPER                static inline
#define HELPER_LONG           static inline
#include "base/mathematics/helpers.h"

/* The bits of a float are in the order of its sizes; from a zero the step is to the least one of b's sign. */
#define TIDE_NEXTAFTER(s, T, I, SIGN)                                                                                  \
  static inline T tide_nextafter_##s(T a, T b) {                                                                       \
    I from, to, least;                                                                                                 \
    memcpy(&from, &a, sizeof from), memcpy(&to, &b, sizeof to);                                                        \
    least = (to & SIGN) | 1;                                                                                           \
    from = a == 0 ? least : from + ((a < b) == (a > 0) ? 1 : -1);                                                      \
    T next;                                                                                                            \
    memcpy(&next, &from, sizeof next);                                                                                 \
    next = a == b ? b : next;                                                                                          \
    return (a != a) | (b != b) ? a + b : next;                                                                         \
  }
TIDE_NEXTAFTER(f32, float, int32_t, INT32_MIN)
TIDE_NEXTAFTER(f64, double, int64_t, INT64_MIN)

/* ---- complex numbers ---- */

/* A product that is rounded before anything is added to it. GCC 12 has one rounding for products whose differences and
 * sums alternate, as those of complex numbers do, with fp-contract=off too; not for calls. */
#if defined(TIDE_TARGET) && !defined(__clang__)
#  define TIDE_ROUNDED(f, x, y) __builtin_fma##f(x, y, -0.0##f)
#else
#  define TIDE_ROUNDED(f, x, y) ((x) * (y))
#endif

/* The product, and the scaled quotient: for a divisor of zero infinities and NaN with the signs of a, whichever the
 * sign of the zero. */
#define TIDE_DIVIDE(s, T, f)                                                                                           \
  static inline T _Complex tide_times_##s(T _Complex a, T _Complex b) {                                                \
    T _Complex product;                                                                                                \
    __real__ product = TIDE_ROUNDED(f, __real__ a, __real__ b) - __imag__ a * __imag__ b;                              \
    __imag__ product = TIDE_ROUNDED(f, __real__ a, __imag__ b) + __imag__ a * __real__ b;                              \
    return product;                                                                                                    \
  }                                                                                                                    \
  static inline T _Complex tide_divide_##s(T _Complex a, T _Complex b) {                                               \
    const bool none = (__real__ b == 0) & (__imag__ b == 0);                                                           \
    const bool turned = __builtin_fabs##f(__real__ b) < __builtin_fabs##f(__imag__ b);                                 \
    const T large = turned ? __imag__ b : __real__ b, small = turned ? __real__ b : __imag__ b;                        \
    const T ratio = small / large, size = small * ratio + large;                                                       \
    const T re = TIDE_ROUNDED(f, __real__ a, ratio), im = TIDE_ROUNDED(f, __imag__ a, ratio);                          \
    T _Complex quotient;                                                                                               \
    __real__ quotient = (turned ? re + __imag__ a : im + __real__ a) / size;                                           \
    __imag__ quotient = (turned ? im - __real__ a : __imag__ a - re) / size;                                           \
    __real__ quotient = none ? __real__ a * (T)INFINITY : __real__ quotient;                                           \
    __imag__ quotient = none ? __imag__ a * (T)INFINITY : __imag__ quotient;                                           \
    return quotient;                                                                                                   \
  }
TIDE_DIVIDE(c64, float, f)
TIDE_DIVIDE(c128, double, )

#define TIDE_SINC_COMPLEX(s, T, f)                                                                                     \
  static inline T _Complex tide_sinc_##s(T _Complex x) {                                                               \
    T _Complex y = x * (T)3.14159265358979323846;                                                                      \
    return x == 0 ? 1 : tide_divide_##s(csin##f(y), y);                                                                \
  }
TIDE_SINC_COMPLEX(c64, float, f)
TIDE_SINC_COMPLEX(c128, double, )

#define tide_conj(x)                                                                                                   \
  _Generic((x), int32_t                                                                                                \
           : tide_conj_i32, int64_t                                                                                    \
           : tide_conj_i64, float                                                                                      \
           : tide_conj_f32, double                                                                                     \
           : tide_conj_f64, float _Complex                                                                             \
           : conjf, double _Complex                                                                                    \
           : conj)(x)

#define tide_abs(x)                        TIDE_REAL_PICK(tide_abs, x)(x)
#define tide_sign(x)                       TIDE_REAL_PICK(tide_sign, x)(x)
#define tide_sgn(x)                        tide_sign(x)
#define tide_floor(x)                      TIDE_REAL_PICK(tide_floor, x)(x)
#define tide_ceil(x)                       TIDE_REAL_PICK(tide_ceil, x)(x)
#define tide_rint(x)                       TIDE_REAL_PICK(tide_rint, x)(x)
#define tide_trunc(x)                      TIDE_REAL_PICK(tide_trunc, x)(x)
#define tide_isnan(x)                      TIDE_REAL_PICK(tide_isnan, x)(x)
#define tide_isinf(x)                      TIDE_REAL_PICK(tide_isinf, x)(x)
#define tide_isfinite(x)                   TIDE_REAL_PICK(tide_isfinite, x)(x)
#define tide_nan_to_num(x, nan, high, low) TIDE_REAL_PICK(tide_nan_to_num, x)(x, nan, high, low)
#define tide_max(a, b)                     TIDE_REAL_PICK(tide_max, a)(a, b)
#define tide_min(a, b)                     TIDE_REAL_PICK(tide_min, a)(a, b)
#define tide_fmax(a, b)                    TIDE_REAL_PICK(tide_fmax, a)(a, b)
#define tide_fmin(a, b)                    TIDE_REAL_PICK(tide_fmin, a)(a, b)
#define tide_div_trunc(a, b)               TIDE_REAL_PICK(tide_div_trunc, a)(a, b)
#define tide_div_floor(a, b)               TIDE_REAL_PICK(tide_div_floor, a)(a, b)
#define tide_remainder(a, b)               TIDE_REAL_PICK(tide_remainder, a)(a, b)
#define tide_fmod(a, b)                    TIDE_REAL_PICK(tide_fmod, a)(a, b)
#if defined(TIDE_ISA_AVX512) /* which has one of vectors, simd16.h */
#  define tide_pow(a, b) _Generic((a), __m512 : wide_pow, default : tide_pow_one(a))(a, b)
#else
#  define tide_pow(a, b) tide_pow_one(a)(a, b)
#endif
#define tide_pow_one(a)                                                                                                \
  _Generic((a), int32_t : tide_pow_i32, int64_t : tide_pow_i64, float : tide_pow_f32, default : tide_pow_f64)
#define tide_shl(a, b)                            TIDE_INT_PICK(tide_shl, a)(a, b)
#define tide_shr(a, b)                            TIDE_INT_PICK(tide_shr, a)(a, b)
#define tide_isclose(a, b, rtol, atol, equal_nan) TIDE_FLOAT_PICK(tide_isclose, a)(a, b, rtol, atol, equal_nan)
#define tide_angle(x)                             TIDE_FLOAT_PICK(tide_angle, x)(x)
#define tide_erfinv(x)                            _Generic((x), float : fast_erfinvf, double : tide_erfinv_f64)(x)
#define tide_lgamma(x)                            _Generic((x), float : fast_lgammaf, double : tide_lgamma_f64)(x)
#define tide_digamma(x)                           TIDE_FLOAT_PICK(tide_digamma, x)(x)
#define tide_i0(x)                                TIDE_FLOAT_PICK(tide_i0, x)(x)
#define tide_polygamma(x, n)                      TIDE_FLOAT_PICK(tide_polygamma, x)(x, n)
#define tide_ndtri(x)                             TIDE_FLOAT_PICK(tide_ndtri, x)(x)
#define tide_ndtr(x)                              TIDE_FLOAT_PICK(tide_ndtr, x)(x)
#define tide_sinc(x)                                                                                                   \
  _Generic((x), float                                                                                                  \
           : tide_sinc_f32, double                                                                                     \
           : tide_sinc_f64, float _Complex                                                                             \
           : tide_sinc_c64, default                                                                                    \
           : tide_sinc_c128)(x)
#define tide_log_add(a, b)     TIDE_FLOAT_PICK(tide_log_add, a)(a, b)
#define tide_entr(x)           TIDE_FLOAT_PICK(tide_entr, x)(x)
#define tide_frexp_fraction(x) TIDE_FLOAT_PICK(tide_frexp_fraction, x)(x)
#define tide_frexp_exponent(x) TIDE_FLOAT_PICK(tide_frexp_exponent, x)(x)
#define tide_copysign(a, b)    TIDE_FLOAT_PICK(tide_copysign, a)(a, b)
#define tide_nextafter(a, b)   TIDE_FLOAT_PICK(tide_nextafter, a)(a, b)
#define tide_signbit(x)        TIDE_REAL_PICK(tide_signbit, x)(x)
#define tide_gcd(a, b)         TIDE_INT_PICK(tide_gcd, a)(a, b)
#define tide_lcm(a, b)         TIDE_INT_PICK(tide_lcm, a)(a, b)
