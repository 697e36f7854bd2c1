/* quotient.h: fmod, % and // of floats where a fused multiply-add gives them at once, for vectors.
 *
 * Up to a quotient of 2^23 (float64: 2^52) q = trunc(a / b) is the whole part, or one more where the division rounded
 * up; a - q * b is then a float itself, so that the fused step is exact, and tells which by its sign. The results are
 * those of opmath.h, bit for bit. What is not so simple, zeros and infinities of b among it, is left to that. */
#pragma once

#define QUOTIENT_MOST_f32 0x1p23f
#define QUOTIENT_MOST_f64 0x1p52

#define QUOTIENT_HELPERS(s, T, f)                                                                                      \
  /* q: trunc(a / b). */                                                                                               \
  static inline T quick_fmod_##s(T a, T b, T q) {                                                                      \
    T r = __builtin_fma##f(-q, b, a), size = __builtin_fabs##f(b);                                                     \
    r = __builtin_copysign##f(1, a) * r;                                                                               \
    r = r < 0 ? r + size : r;                                                                                          \
    return q == 0 ? a : __builtin_copysign##f(r, a);                                                                   \
  }                                                                                                                    \
  static inline T quick_remainder_##s(T a, T b, T q) {                                                                 \
    T r = quick_fmod_##s(a, b, q);                                                                                     \
    return (r != 0) & ((r < 0) != (b < 0)) ? r + b : r;                                                                \
  }                                                                                                                    \
  static inline T quick_floor_divide_##s(T a, T b, T q) {                                                              \
    T r = quick_fmod_##s(a, b, q), whole = (a - r) / b;                                                                \
    whole = (r != 0) & ((r < 0) != (b < 0)) ? whole - 1 : whole;                                                       \
    T down = __builtin_floor##f(whole);                                                                                \
    down = whole - down > (T)0.5 ? down + 1 : down;                                                                    \
    return whole == 0 ? __builtin_copysign##f(0, a / b) : down;                                                        \
  }
QUOTIENT_HELPERS(f32, float, f)
QUOTIENT_HELPERS(f64, double, )
