/* opmath.h: the tide_* helpers that the expressions of op.def call, for the CPU loops.
 *
 * Each helper is a family of functions name_i32, name_i64, name_f32, name_f64, chosen by the type of the first
 * argument. They are branch-free where they can be, so that the loops become vector code.
 *
 * Integers never trap: x / 0 and x % 0, which core refuses, are 0 for every kind of division, the smallest integer
 * divided by -1 wraps to itself, and a negative power is 0 unless the base is 1 or -1. Shift counts below 0 or beyond
 * the width give 0, or the sign for shifts to the right. Rounding leaves integers as they are, and none of them is NaN
 * or infinite. */
#ifndef TIDE_OPMATH_H
#define TIDE_OPMATH_H

#include <complex.h>
#include <stdbool.h>

#include "base/special.h"

#undef I /* complex.h's imaginary unit: a name too short to keep */

#define TIDE_REAL_PICK(name, x)                                                                                        \
  _Generic((x), int32_t : name##_i32, int64_t : name##_i64, float : name##_f32, double : name##_f64)
#define TIDE_FLOAT_PICK(name, x) _Generic((x), float : name##_f32, double : name##_f64)
#define TIDE_INT_PICK(name, x)   _Generic((x), int32_t : name##_i32, int64_t : name##_i64)

/* ---- integers: T and its unsigned twin U ---- */

#define TIDE_INT_HELPERS(s, T, U, BITS)                                                                                \
  static inline T tide_abs_##s(T x) { return x < 0 ? (T)((U)0 - (U)x) : x; }                                           \
  static inline T tide_sign_##s(T x) { return (T)(x > 0) - (T)(x < 0); }                                               \
  static inline T tide_floor_##s(T x) { return x; }                                                                    \
  static inline T tide_ceil_##s(T x) { return x; }                                                                     \
  static inline T tide_rint_##s(T x) { return x; }                                                                     \
  static inline T tide_trunc_##s(T x) { return x; }                                                                    \
  static inline bool tide_isnan_##s(T x) { return (void)x, false; }                                                    \
  static inline bool tide_isinf_##s(T x) { return (void)x, false; }                                                    \
  static inline bool tide_isfinite_##s(T x) { return (void)x, true; }                                                  \
  static inline T tide_nan_to_num_##s(T x, T nan, T high, T low) { return (void)nan, (void)high, (void)low, x; }       \
  static inline T tide_max_##s(T a, T b) { return a > b ? a : b; }                                                     \
  static inline T tide_min_##s(T a, T b) { return a < b ? a : b; }                                                     \
  static inline T tide_fmax_##s(T a, T b) { return a > b ? a : b; }                                                    \
  static inline T tide_fmin_##s(T a, T b) { return a < b ? a : b; }                                                    \
  static inline T tide_div_trunc_##s(T a, T b) {                                                                       \
    if (b == 0) return 0;                                                                                              \
    return b == -1 ? (T)((U)0 - (U)a) : a / b;                                                                         \
  }                                                                                                                    \
  static inline T tide_fmod_##s(T a, T b) { return b == 0 || b == -1 ? 0 : a % b; }                                    \
  static inline T tide_remainder_##s(T a, T b) {                                                                       \
    T r = tide_fmod_##s(a, b);                                                                                         \
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;                                                                   \
  }                                                                                                                    \
  static inline T tide_div_floor_##s(T a, T b) {                                                                       \
    T r = tide_fmod_##s(a, b);                                                                                         \
    return tide_div_trunc_##s(a, b) - (r != 0 && (r < 0) != (b < 0));                                                  \
  }                                                                                                                    \
  static inline T tide_pow_##s(T a, T b) {                                                                             \
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;                                                     \
    U power = 1, base = (U)a;                                                                                          \
    for (; b; b >>= 1, base *= base) power *= b & 1 ? base : 1;                                                        \
    return (T)power;                                                                                                   \
  }                                                                                                                    \
  static inline T tide_gcd_##s(T a, T b) {                                                                             \
    U x = a < 0 ? (U)0 - (U)a : (U)a, y = b < 0 ? (U)0 - (U)b : (U)b;                                                  \
    while (y) {                                                                                                        \
      U r = x % y;                                                                                                     \
      x = y, y = r;                                                                                                    \
    }                                                                                                                  \
    return (T)x;                                                                                                       \
  }                                                                                                                    \
  static inline T tide_lcm_##s(T a, T b) {                                                                             \
    U g = (U)tide_gcd_##s(a, b), x = a < 0 ? (U)0 - (U)a : (U)a, y = b < 0 ? (U)0 - (U)b : (U)b;                       \
    return g ? (T)(x / g * y) : 0;                                                                                     \
  }                                                                                                                    \
  static inline bool tide_signbit_##s(T x) { return x < 0; }                                                           \
  static inline T tide_shl_##s(T a, T b) { return (U)b < BITS ? (T)((U)a << ((U)b % BITS)) : 0; }                      \
  static inline T tide_shr_##s(T a, T b) { return a >> ((U)b < BITS ? (U)b : BITS - 1); }

TIDE_INT_HELPERS(i32, int32_t, uint32_t, 32)
TIDE_INT_HELPERS(i64, int64_t, uint64_t, 64)

/* ---- floats: T and the suffix of its C functions ---- */

#define TIDE_FLOAT_HELPERS(s, T, f)                                                                                    \
  static inline T tide_abs_##s(T x) { return fabs##f(x); }                                                             \
  static inline T tide_sign_##s(T x) { return (T)(x > 0) - (T)(x < 0); }                                               \
  static inline T tide_floor_##s(T x) { return floor##f(x); }                                                          \
  static inline T tide_ceil_##s(T x) { return ceil##f(x); }                                                            \
  static inline T tide_rint_##s(T x) { return rint##f(x); }                                                            \
  static inline T tide_trunc_##s(T x) { return trunc##f(x); }                                                          \
  static inline bool tide_isnan_##s(T x) { return x != x; }                                                            \
  static inline bool tide_isinf_##s(T x) { return fabs##f(x) == (T)INFINITY; }                                         \
  static inline bool tide_isfinite_##s(T x) { return fabs##f(x) < (T)INFINITY; }                                       \
  static inline T tide_nan_to_num_##s(T x, T nan, T high, T low) {                                                     \
    x = x != x ? nan : x;                                                                                              \
    x = x == (T)INFINITY ? high : x;                                                                                   \
    return x == -(T)INFINITY ? low : x;                                                                                \
  }                                                                                                                    \
  static inline T tide_max_##s(T a, T b) { return (!(a <= b) & (b == b)) ? a : b; }                                    \
  static inline T tide_min_##s(T a, T b) { return (!(a >= b) & (b == b)) ? a : b; }                                    \
  static inline T tide_fmax_##s(T a, T b) { return ((a > b) | (b != b)) ? a : b; }                                     \
  static inline T tide_fmin_##s(T a, T b) { return ((a < b) | (b != b)) ? a : b; }                                     \
  static inline T tide_copysign_##s(T a, T b) { return copysign##f(a, b); }                                            \
  static inline bool tide_signbit_##s(T x) { return signbit(x) != 0; }                                                 \
  static inline T tide_entr_##s(T x) { return x > 0 ? -x * log##f(x) : x < 0 ? -(T)INFINITY : x; }                     \
  static inline T tide_frexp_fraction_##s(T x) {                                                                       \
    int exponent;                                                                                                      \
    return frexp##f(x, &exponent);                                                                                     \
  }                                                                                                                    \
  static inline T tide_frexp_exponent_##s(T x) {                                                                       \
    int exponent = 0;                                                                                                  \
    if (fabs##f(x) < (T)INFINITY) frexp##f(x, &exponent);                                                              \
    return (T)exponent;                                                                                                \
  }                                                                                                                    \
  static inline T tide_div_trunc_##s(T a, T b) { return trunc##f(a / b); }                                             \
  static inline T tide_fmod_##s(T a, T b) { return fmod##f(a, b); }                                                    \
  static inline T tide_remainder_##s(T a, T b) {                                                                       \
    T r = fmod##f(a, b);                                                                                               \
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;                                                                   \
  }                                                                                                                    \
  /* The floor of the exact quotient, which a / b may round up to: 1 // 0.1 is 9. */                                   \
  static inline T tide_div_floor_##s(T a, T b) {                                                                       \
    if (b == 0) return a / b;                                                                                          \
    T r = fmod##f(a, b), q = (a - r) / b;                                                                              \
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;                                                                          \
    if (q == 0) return copysign##f(0, a / b);                                                                          \
    T whole = floor##f(q);                                                                                             \
    return q - whole > (T)0.5 ? whole + 1 : whole;                                                                     \
  }                                                                                                                    \
  static inline T tide_pow_##s(T a, T b) { return pow##f(a, b); }                                                      \
  static inline T tide_angle_##s(T x) { return x != x ? x : x < 0 ? (T)3.14159265358979323846 : 0; }                   \
  static inline bool tide_isclose_##s(T a, T b, T rtol, T atol, T equal_nan) {                                         \
    T distance = fabs##f(a - b);                                                                                       \
    bool near = (distance <= atol + rtol * fabs##f(b)) & (distance < (T)INFINITY);                                     \
    return (a == b) | near | ((equal_nan != 0) & (a != a) & (b != b));                                                 \
  }

TIDE_FLOAT_HELPERS(f32, float, f)
TIDE_FLOAT_HELPERS(f64, double, )

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

/* The scaled quotient of a / b, and for a divisor of zero infinities and NaN with the signs of a, whichever the sign of
 * the zero. */
#define TIDE_DIVIDE(s, T)                                                                                              \
  static inline T _Complex tide_divide_##s(T _Complex a, T _Complex b) {                                               \
    bool none = (__real__ b == 0) & (__imag__ b == 0);                                                                 \
    T _Complex quotient = a / b;                                                                                       \
    __real__ quotient = none ? __real__ a * (T)INFINITY : __real__ quotient;                                           \
    __imag__ quotient = none ? __imag__ a * (T)INFINITY : __imag__ quotient;                                           \
    return quotient;                                                                                                   \
  }
TIDE_DIVIDE(c64, float)
TIDE_DIVIDE(c128, double)

#define TIDE_SINC_COMPLEX(s, T, f)                                                                                     \
  static inline T _Complex tide_sinc_##s(T _Complex x) {                                                               \
    T _Complex y = x * (T)3.14159265358979323846;                                                                      \
    return x == 0 ? 1 : tide_divide_##s(csin##f(y), y);                                                                \
  }
TIDE_SINC_COMPLEX(c64, float, f)
TIDE_SINC_COMPLEX(c128, double, )

static inline int32_t tide_conj_i32(int32_t x) { return x; }
static inline int64_t tide_conj_i64(int64_t x) { return x; }
static inline float tide_conj_f32(float x) { return x; }
static inline double tide_conj_f64(double x) { return x; }
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
#if defined(TIDE_ISA_AVX512) /* which has one of vectors, wide.h */
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

#endif
