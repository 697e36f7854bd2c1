/* elementary.h: exp and log of float32, branch-free, so that loops over them are vector code on every processor.
 *
 * libmvec has both, but leaves the vector for every infinity and every argument out of range, which masks and empty
 * probabilities are full of. Within 2 ulp; infinities, NaN, zeros and denormals are right.
 *
 * Method: W. Cody and W. Waite, "Software manual for the elementary functions" (1980): ln 2 in two parts, and a short
 * polynomial (coefficients: S. Moshier, Cephes, single precision) on the reduced argument. */
#pragma once

#include <math.h>
#include <stdbool.h>
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

/* Below it e^x is 0. */
#define EXP_LEAST (-103.98f)

static inline float fast_expf(float x) {
  /* Beyond these bounds the result is 0 or infinite anyway; NaN passes. A 0 that comes of numbers too small to be held
   * takes a processor 20 times as long as other products. */
  const bool none = x < EXP_LEAST;
  float y = x > 89.0f ? 89.0f : x;
  y = none ? 0 : y;
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
  y = p * float_from_bits((uint32_t)(half + 127) << 23) * float_from_bits((uint32_t)(whole - half + 127) << 23);
  return none ? 0 : y;
}

/* asin(s) / s - 1 for s up to 1 / 2; z = s * s. */
static inline float asin_rest(float z) {
  float p = 4.2163199048e-2f;
  p = MULTIPLY_ADD(p, z, 2.4181311049e-2f);
  p = MULTIPLY_ADD(p, z, 4.5470025998e-2f);
  p = MULTIPLY_ADD(p, z, 7.4953002686e-2f);
  p = MULTIPLY_ADD(p, z, 1.6666752422e-1f);
  return p * z;
}

/* Beyond 1 / 2: asin x = pi / 2 - 2 asin(sqrt((1 - x) / 2)). */
static inline float fast_asinf(float x) {
  float a = __builtin_fabsf(x), half = MULTIPLY_ADD(-0.5f, a, 0.5f), z = a > 0.5f ? half : a * a;
  float s = a > 0.5f ? __builtin_sqrtf(half) : a, y = MULTIPLY_ADD(s, asin_rest(z), s);
  y = a > 0.5f ? 1.57079637f - MULTIPLY_ADD(2, y, 4.37113883e-8f) : y;
  return __builtin_copysignf(y, x);
}

static inline float fast_acosf(float x) {
  float a = __builtin_fabsf(x), half = MULTIPLY_ADD(-0.5f, a, 0.5f), z = a > 0.5f ? half : x * x;
  float s = a > 0.5f ? __builtin_sqrtf(half) : x, y = MULTIPLY_ADD(s, asin_rest(z), s);
  float far = x > 0 ? 2 * y : 3.14159274f - MULTIPLY_ADD(2, y, 8.74227766e-8f);
  return a > 0.5f ? far : 1.57079637f - (y + 4.37113883e-8f);
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

/* As tide_erfinv_f32 of special.h, without a branch. */
static inline float fast_erfinvf(float x) {
  float w = -fast_logf((1.0f - x) * (1.0f + x)), t = w < 5.0f ? w - 2.5f : __builtin_sqrtf(w) - 3.0f;
  float p = w < 5.0f ? 2.81022636e-08f : -0.000200214257f;
  p = MULTIPLY_ADD(p, t, w < 5.0f ? 3.43273939e-07f : 0.000100950558f);
  p = MULTIPLY_ADD(p, t, w < 5.0f ? -3.5233877e-06f : 0.00134934322f);
  p = MULTIPLY_ADD(p, t, w < 5.0f ? -4.39150654e-06f : -0.00367342844f);
  p = MULTIPLY_ADD(p, t, w < 5.0f ? 0.00021858087f : 0.00573950773f);
  p = MULTIPLY_ADD(p, t, w < 5.0f ? -0.00125372503f : -0.0076224613f);
  p = MULTIPLY_ADD(p, t, w < 5.0f ? -0.00417768164f : 0.00943887047f);
  p = MULTIPLY_ADD(p, t, w < 5.0f ? 0.246640727f : 1.00167406f);
  p = MULTIPLY_ADD(p, t, w < 5.0f ? 1.50140941f : 2.83297682f);
  return __builtin_fabsf(x) == 1.0f ? x * INFINITY : p * x;
}

/* The sine of pi x, by x's distance to the nearest whole number; its sign may be the other. */
static inline double fast_sinpi(double x) {
  double r = x - rint(x), y = r * r, sine = -2.2948428997269856e-08;
  sine = sine * y + 7.9520540014755080e-07, sine = sine * y - 2.1915353447830204e-05;
  sine = sine * y + 0.00046630280576761234, sine = sine * y - 0.0073704309457143483;
  sine = sine * y + 0.082145886611128190, sine = sine * y - 0.59926452932079188;
  sine = sine * y + 2.5501640398773451, sine = sine * y - 5.1677127800499690;
  return (sine * y + 3.1415926535897932) * r;
}

/* The logarithm of the gamma function, in float64. From 8 on Stirling's series (M. Abramowitz and I. Stegun, "Handbook
 * of mathematical functions", 6.1.41); below, that of x + 8 divided by x (x + 1) ... (x + 7); below zero the reflection
 * 6.1.17, with the sine of pi times the distance to the nearest whole number. */
static inline float fast_lgammaf(float value) {
  double x = (double)value, z = x < 0 ? 1 - x : x, t = z < 8 ? z + 8 : z;
  double shift = z * (z + 1) * (z + 2) * (z + 3) * ((z + 4) * (z + 5) * (z + 6) * (z + 7));
  shift = z < 8 ? shift : 1;
  double u = 1 / t, v = u * u, series = 1.0 / 156;
  series = series * v - 691.0 / 360360, series = series * v + 1.0 / 1188, series = series * v - 1.0 / 1680;
  series = series * v + 1.0 / 1260, series = series * v - 1.0 / 360, series = series * v + 1.0 / 12;
  double stirling = (t - 0.5) * log(t) - t + 0.91893853320467274178 + series * u;
  double other = log(x < 0 ? 3.14159265358979323846 * shift / fabs(fast_sinpi(x)) : shift);
  double result = x < 0 ? other - stirling : stirling - other;
  result = (x == 1) | (x == 2) ? 0 : result;
  return fabs(x) == INFINITY ? INFINITY : (float)result;
}
