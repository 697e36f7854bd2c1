/* elementary.h: exp and log of float32, branch-free, so that loops over them are vector code on every processor.
 *
 * libmvec has both, but leaves the vector for every infinity and every argument out of range, which masks and empty
 * probabilities are full of. Within 2 ulp; infinities, NaN, zeros and denormals are right.
 *
 * Method: W. Cody and W. Waite, "Software manual for the elementary functions" (1980): ln 2 in two parts, and a short
 * polynomial (coefficients: S. Moshier, Cephes, single precision) on the reduced argument. */
#ifndef TIDE_CPU_ELEMENTARY_H
#define TIDE_CPU_ELEMENTARY_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float float_from_bits(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}
static inline uint32_t bits_from_float(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

/* a * b + c, in one step where that is one instruction. */
#if defined(TIDE_ISA_AVX2) || defined(TIDE_ISA_AVX512)
#  define MULTIPLY_ADD(a, b, c) __builtin_fmaf(a, b, c)
#else
#  define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

static inline float fast_expf(float x) {
  /* Beyond these bounds the result is 0 or infinite anyway; NaN passes. */
  float y = x > 89.0f ? 89.0f : x;
  y = y < -104.0f ? -104.0f : y;
  /* Adding and taking off 1.5 * 2^23 rounds to an integer, which the low bits of the sum hold too. */
  float shifted = MULTIPLY_ADD(y, 1.44269504088896341f, 12582912.0f), n = shifted - 12582912.0f;
  float r = MULTIPLY_ADD(n, 2.12194440e-4f, MULTIPLY_ADD(n, -0.693359375f, y));
  float p = 1.9875691500e-4f;
  p = MULTIPLY_ADD(p, r, 1.3981999507e-3f);
  p = MULTIPLY_ADD(p, r, 8.3334519073e-3f);
  p = MULTIPLY_ADD(p, r, 4.1665795894e-2f);
  p = MULTIPLY_ADD(p, r, 1.6666665459e-1f);
  p = MULTIPLY_ADD(p, r, 5.0000001201e-1f);
  p = MULTIPLY_ADD(p, r * r, r) + 1.0f;
  /* 2^n as two factors, either of which is a normal number. */
  int32_t whole = (int32_t)(bits_from_float(shifted) - 0x4B400000u), half = whole >> 1;
  return p * float_from_bits((uint32_t)(half + 127) << 23) * float_from_bits((uint32_t)(whole - half + 127) << 23);
}

static inline float fast_logf(float x) {
  float scaled = x < 1.17549435e-38f ? x * 8388608.0f : x, lost = x < 1.17549435e-38f ? 23.0f : 0.0f;
  /* x = m * 2^n with m between sqrt(1/2) and sqrt(2). */
  uint32_t u = bits_from_float(scaled) - 0x3F3504F3u;
  float n = (float)((int32_t)u >> 23) - lost;
  float m = float_from_bits((u & 0x007FFFFFu) + 0x3F3504F3u) - 1.0f, z = m * m;
  float p = 7.0376836292e-2f;
  p = MULTIPLY_ADD(p, m, -1.1514610310e-1f);
  p = MULTIPLY_ADD(p, m, 1.1676998740e-1f);
  p = MULTIPLY_ADD(p, m, -1.2420140846e-1f);
  p = MULTIPLY_ADD(p, m, 1.4249322787e-1f);
  p = MULTIPLY_ADD(p, m, -1.6668057665e-1f);
  p = MULTIPLY_ADD(p, m, 2.0000714765e-1f);
  p = MULTIPLY_ADD(p, m, -2.4999993993e-1f);
  p = MULTIPLY_ADD(p, m, 3.3333331174e-1f);
  float y = MULTIPLY_ADD(-0.5f, z, MULTIPLY_ADD(m * z, p, n * -2.12194440e-4f));
  y = MULTIPLY_ADD(n, 0.693359375f, m + y);
  y = x == 0.0f ? -INFINITY : y;
  y = x == INFINITY ? x : y;
  return x >= 0.0f ? y : NAN;
}

#endif
