/* simd16.h: functions of sixteen float32 at once, for AVX-512, without a branch but for sines of huge arguments. The
 * loops of op.def take them where they have them (loops.h). They are inlined there, so that nothing is called and
 * memory is waited for while they compute. Within 1.05 ulp but where it is said; NaN, infinities, zeros and denormals
 * are right.
 *
 * The processor's own instructions scale by powers of two and take numbers apart, rightly for denormals and infinities.
 * Arguments are reduced by constants in two or three parts (W. Cody and W. Waite, "Software manual for the elementary
 * functions", 1980). tanh and erf are polynomials on 32 pieces, between powers of two and their quarters, each around a
 * centre where the function is very nearly a float32. All coefficients are our own minimax fits, rounded one after
 * another. */
#pragma once

#include "base/likely.h"
#include "simd16_pieces.h"

#define WIDE_ADD(a, b, c) _mm512_fmadd_ps(a, b, c)  /* a * b + c */
#define WIDE_SUB(a, b, c) _mm512_fnmadd_ps(a, b, c) /* c - a * b */
#define WIDE(x)           _mm512_set1_ps(x)
#define WIDE_MAGIC        12582912.0f /* 1.5 * 2^23: adding it rounds to an integer, which the low bits hold */

/* In a loop over i: memory is asked for some iterations ahead of a streamed result, because the processor sees few of
 * them at a time, and writes around the caches hold up its own foresight. */
#define WIDE_AHEAD 1024
#define WIDE_LOAD(p)                                                                                                   \
  (stream ? __builtin_prefetch((const float *)(p) + i + WIDE_AHEAD) : (void)0, _mm512_loadu_ps((const float *)(p) + i))
#define WIDE_STORE(p, y) (stream ? _mm512_stream_ps((float *)(p) + i, y) : _mm512_storeu_ps((float *)(p) + i, y))

static inline __m512 wide_bits(__m512i x) { return _mm512_castsi512_ps(x); }
static inline __m512i wide_int(__m512 x) { return _mm512_castps_si512(x); }
static inline __m512 wide_abs(__m512 x) {
  return wide_bits(_mm512_and_si512(wide_int(x), _mm512_set1_epi32(INT32_MAX)));
}
/* x within [low, high]; NaN passes. */
static inline __m512 wide_clamp(__m512 x, float low, float high) {
  return _mm512_min_ps(WIDE(high), _mm512_max_ps(WIDE(low), x));
}

/* ---- square roots ---- */

/* Rounded as the instruction rounds, which is slower: two roots of the reciprocal's kind improve each other (P.
 * Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990), and the last step adds
 * what the square lacks. A mask makes zeros stay; what is not between 2^-64 (float64: 2^-900) and infinity is left to
 * the instruction, so that no step meets a denormal number. */
static inline __m512 wide_sqrt(__m512 x) {
  const __m512 half = WIDE(0.5f);
  __mmask16 some = _mm512_cmp_ps_mask(x, WIDE(0), _CMP_NEQ_UQ);
  __m512i above = _mm512_sub_epi32(wide_int(x), _mm512_set1_epi32(0x1F800000));
  __mmask16 odd = _mm512_mask_cmp_epu32_mask(some, above, _mm512_set1_epi32(0x60000000), _MM_CMPINT_NLT);
  if (TIDE_UNLIKELY(odd != 0)) return _mm512_sqrt_ps(x);
  __m512 y = _mm512_maskz_rsqrt14_ps(some, x), g = x * y, h = y * half, r = WIDE_SUB(g, h, half);
  g = WIDE_ADD(g, r, g), h = WIDE_ADD(h, r, h);
  return WIDE_ADD(WIDE_SUB(g, g, x), h, g);
}

static inline __m512d wide_sqrt_f64(__m512d x) {
  const __m512d half = _mm512_set1_pd(0.5);
  __mmask8 some = _mm512_cmp_pd_mask(x, _mm512_setzero_pd(), _CMP_NEQ_UQ);
  __m512i above = _mm512_sub_epi64(_mm512_castpd_si512(x), _mm512_set1_epi64(0x07B0000000000000));
  __mmask8 odd = _mm512_mask_cmp_epu64_mask(some, above, _mm512_set1_epi64(0x7840000000000000), _MM_CMPINT_NLT);
  if (TIDE_UNLIKELY(odd != 0)) return _mm512_sqrt_pd(x);
  __m512d y = _mm512_maskz_rsqrt14_pd(some, x), g = x * y, h = y * half, r = _mm512_fnmadd_pd(g, h, half);
  g = _mm512_fmadd_pd(g, r, g), h = _mm512_fmadd_pd(h, r, h), r = _mm512_fnmadd_pd(g, h, half);
  g = _mm512_fmadd_pd(g, r, g), h = _mm512_fmadd_pd(h, r, h);
  return _mm512_fmadd_pd(_mm512_fnmadd_pd(g, g, x), h, g);
}

/* ---- exponentials ---- */

/* e^x = (1 + p) * 2^n, where *power is n; for |x| below 200. */
static inline __m512 wide_exp_parts(__m512 x, __m512 *power) {
  __m512 n = WIDE_ADD(x, WIDE(1.44269504088896341f), WIDE(WIDE_MAGIC)) - WIDE(WIDE_MAGIC);
  __m512 r = WIDE_SUB(n, WIDE(1.42860677e-06f), WIDE_SUB(n, WIDE(0.693145752f), x));
  __m512 q = WIDE(0.00138186978f);
  q = WIDE_ADD(q, r, WIDE(0.00836871564f));
  q = WIDE_ADD(q, r, WIDE(0.0416682921f));
  q = WIDE_ADD(q, r, WIDE(0.166665211f));
  q = WIDE_ADD(q, r, WIDE(0.49999994f));
  *power = n;
  return WIDE_ADD(q, r * r, r);
}

/* What is nothing but 0 is not scaled down to it: a processor takes 20 times as long over a number that it loses. */
static inline __m512 wide_exp(__m512 x) {
  __m512 n, p = wide_exp_parts(wide_clamp(x, -105, 90), &n);
  return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, WIDE(EXP_LEAST), _CMP_NLT_UQ), p + WIDE(1), n);
}

/* Within 1.5 ulp. The halves keep 2^128 finite where the result is. The sign is x's, of zero too. */
static inline __m512 wide_expm1(__m512 x) {
  __m512 n, p = wide_exp_parts(wide_clamp(x, -90, 90), &n), less = n - WIDE(1);
  __m512 half = _mm512_scalef_ps(p, less) + (_mm512_scalef_ps(WIDE(1), less) - WIDE(0.5f));
  return wide_bits(_mm512_or_si512(wide_int(half + half), _mm512_and_si512(wide_int(x), _mm512_set1_epi32(INT32_MIN))));
}

static inline __m512 wide_exp2(__m512 x) {
  __m512 y = wide_clamp(x, -151, 130), n = _mm512_roundscale_ps(y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512 r = y - n, q = WIDE(1.43292991e-05f);
  q = WIDE_ADD(q, r, WIDE(0.000154521855f));
  q = WIDE_ADD(q, r, WIDE(0.00133379514f));
  q = WIDE_ADD(q, r, WIDE(0.00961808674f));
  q = WIDE_ADD(q, r, WIDE(0.0555040501f));
  q = WIDE_ADD(q, r, WIDE(0.240226507f));
  q = WIDE_ADD(q, r, WIDE(0.693147182f));
  return _mm512_scalef_ps(WIDE_ADD(q, r, WIDE(1)), n);
}

/* ---- logarithms ---- */

/* x = m * 2^n with m in [0.75, 1.5): log(m), and in *power n. Zero has n = -inf, +inf has inf, below zero is NaN. */
static inline __m512 wide_log_parts(__m512 x, __m512 *power) {
  __m512 m = _mm512_getmant_ps(x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan), n = _mm512_getexp_ps(x);
  *power = _mm512_mask_add_ps(n, _mm512_cmp_ps_mask(m, WIDE(1), _CMP_LT_OQ), n, WIDE(1));
  __m512 f = m - WIDE(1), z = f * f, p = WIDE(-0.0451522693f);
  p = WIDE_ADD(p, f, WIDE(0.10472551f));
  p = WIDE_ADD(p, f, WIDE(-0.131639361f));
  p = WIDE_ADD(p, f, WIDE(0.1447763f));
  p = WIDE_ADD(p, f, WIDE(-0.166468784f));
  p = WIDE_ADD(p, f, WIDE(0.19990848f));
  p = WIDE_ADD(p, f, WIDE(-0.250001103f));
  p = WIDE_ADD(p, f, WIDE(0.333334506f));
  return f + WIDE_ADD(f * z, p, WIDE(-0.5f) * z);
}

static inline __m512 wide_log(__m512 x) {
  __m512 n, y = wide_log_parts(x, &n);
  return WIDE_ADD(n, WIDE(0.693145752f), WIDE_ADD(n, WIDE(1.42860677e-06f), y));
}

/* Within 2 ulp; exact for powers of two. */
static inline __m512 wide_log2(__m512 x) {
  __m512 n, y = wide_log_parts(x, &n);
  return WIDE_ADD(y, WIDE(1.44269504088896341f), n);
}

/* The limits of op.def: NaN, of either, is the result. */
static inline __m512 tide_max_wide(__m512 a, float b) {
  const __m512 limit = WIDE(b);
  return b == b ? _mm512_max_ps(limit, a) : limit;
}
static inline __m512 tide_min_wide(__m512 a, float b) {
  const __m512 limit = WIDE(b);
  return b == b ? _mm512_min_ps(limit, a) : limit;
}
#define WIDE_PICK(name, x)                                                                                             \
  _Generic((x), __m512                                                                                                 \
           : name##_wide, int32_t                                                                                      \
           : name##_i32, int64_t                                                                                       \
           : name##_i64, float                                                                                         \
           : name##_f32, double                                                                                        \
           : name##_f64)
#undef tide_max
#undef tide_min
#define tide_max(a, b) WIDE_PICK(tide_max, a)(a, b)
#define tide_min(a, b) WIDE_PICK(tide_min, a)(a, b)

/* ---- sine and cosine ---- */

/* Where the reduction below has too few digits: through float64. */
static __attribute__((noinline)) __m512 wide_turn_far(__m512 x, int cosine) {
  float v[16];
  _mm512_storeu_ps(v, x);
  if (cosine)
    for (int i = 0; i < 16; i++) v[i] = (float)cos((double)v[i]);
  else
    for (int i = 0; i < 16; i++) v[i] = (float)sin((double)v[i]);
  return _mm512_loadu_ps(v);
}

/* The sine of x plus `cosine` quarter turns, within 1.45 ulp. Quarter turns are taken off |x|; the first product leaves
 * no error, that of the second is kept in `low`. */
static inline __m512 wide_turn(__m512 x, int cosine) {
  __m512 a = wide_abs(x), shifted = WIDE_ADD(a, WIDE(0.636619772367581343f), WIDE(WIDE_MAGIC));
  __m512 n = shifted - WIDE(WIDE_MAGIC), first = WIDE_SUB(n, WIDE(0x1.921fb4p0f), a);
  __m512 r = WIDE_SUB(n, WIDE(0x1.444p-24f), first), z = r * r;
  __m512 low = WIDE_SUB(n, WIDE(0x1.68c234p-39f), WIDE_SUB(n, WIDE(0x1.444p-24f), first - r));
  __m512i quarter = _mm512_add_epi32(wide_int(shifted), _mm512_set1_epi32(cosine));
  __m512 s = WIDE_ADD(WIDE(-0.000195068365f), z, WIDE(0.00833210163f));
  s = WIDE_ADD(s, z, WIDE(-0.166666538f));
  s = r + WIDE_ADD(s * z, r, low);
  __m512 c = WIDE_ADD(WIDE(2.44300827e-05f), z, WIDE(-0.00138872978f));
  c = WIDE_ADD(c, z, WIDE(0.0416666456f));
  c = WIDE_ADD(WIDE_ADD(c, z, WIDE(-0.5f)), z, WIDE(1));
  __m512 y = _mm512_mask_blend_ps(_mm512_test_epi32_mask(quarter, _mm512_set1_epi32(1)), s, c);
  __m512i sign = _mm512_slli_epi32(quarter, 30);
  if (!cosine) sign = _mm512_xor_si512(sign, wide_int(x));
  y = wide_bits(_mm512_ternarylogic_epi32(wide_int(y), sign, _mm512_set1_epi32(INT32_MIN), 0x78)); /* y ^ (sign & .) */
  __mmask16 far = _mm512_cmp_ps_mask(a, WIDE(12800), _CMP_NLE_UQ);
  if (TIDE_UNLIKELY(far != 0)) y = _mm512_mask_blend_ps(far, y, wide_turn_far(x, cosine));
  return y;
}
static inline __m512 wide_sin(__m512 x) { return wide_turn(x, 0); }
static inline __m512 wide_cos(__m512 x) { return wide_turn(x, 1); }

/* ---- pieces (simd16_pieces.h) ---- */

/* An odd function that is 1 from 16 on: the sign is put back at the end. */
static inline __m512 wide_pieces(__m512 x, const float (*piece)[32]) {
  __m512 a = _mm512_min_ps(WIDE(16), wide_abs(x));
  __m512i at = _mm512_srli_epi32(_mm512_max_epi32(wide_int(a), _mm512_set1_epi32(0x1EF << 21)), 21);
#define WIDE_PIECE(k) _mm512_permutex2var_ps(_mm512_loadu_ps(piece[k]), at, _mm512_loadu_ps(piece[k] + 16))
  __m512 t = a - WIDE_PIECE(0), y = WIDE_ADD(WIDE_PIECE(6), t, WIDE_PIECE(5));
  for (int k = 4; k > 1; k--) y = WIDE_ADD(y, t, WIDE_PIECE(k));
  __mmask16 small = _mm512_cmp_ps_mask(a, WIDE(0.125f), _CMP_LT_OQ);
  y = WIDE_ADD(y, t, _mm512_mask_mov_ps(WIDE_PIECE(1), small, a));
#undef WIDE_PIECE
  return wide_bits(_mm512_ternarylogic_epi32(wide_int(y), wide_int(x), _mm512_set1_epi32(INT32_MIN), 0xD8));
}
static inline __m512 wide_tanh(__m512 x) { return wide_pieces(x, wide_tanh_pieces); }
static inline __m512 wide_erf(__m512 x) { return wide_pieces(x, wide_erf_pieces); }

/* ---- powers ---- */

static inline __m512d wide_horner(__m512d x, const double *c, int n) {
  __m512d y = _mm512_set1_pd(c[n - 1]);
  for (int k = n - 2; k >= 0; k--) y = _mm512_fmadd_pd(y, x, _mm512_set1_pd(c[k]));
  return y;
}

/* |a|^b = 2^(b * log2 |a|), in float64 because b magnifies the error of the logarithm. */
static inline __m512d wide_pow_half(__m512d a, __m512d b) {
  const __m512d one = _mm512_set1_pd(1);
  __m512d m = _mm512_getmant_pd(a, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_zero), e = _mm512_getexp_pd(a);
  e = _mm512_mask_add_pd(e, _mm512_cmp_pd_mask(m, one, _CMP_LT_OQ), e, one);
  __m512i at = _mm512_srli_epi64(_mm512_castpd_si512(m), 48);
#define WIDE_POW_AT(t) _mm512_permutex2var_pd(_mm512_loadu_pd(t), at, _mm512_loadu_pd(t + 8))
  __m512d r = _mm512_fmsub_pd(m, WIDE_POW_AT(wide_pow_inverse), one);
  __m512d log2 = _mm512_fmadd_pd(r, wide_horner(r, wide_pow_log2, 8), WIDE_POW_AT(wide_pow_log) + e);
#undef WIDE_POW_AT
  __m512d v = _mm512_min_pd(_mm512_set1_pd(200), _mm512_max_pd(_mm512_set1_pd(-200), b * log2));
  __m512d n = _mm512_roundscale_pd(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  return _mm512_scalef_pd(wide_horner(v - n, wide_pow_exp2, 8), n);
}

static inline __mmask16 wide_is_whole(__m512 x) {
  return _mm512_cmp_ps_mask(_mm512_roundscale_ps(x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC), x, _CMP_EQ_OQ);
}

static inline __m512 wide_pow(__m512 a, __m512 b) {
  __m256 low = _mm512_cvtpd_ps(
      wide_pow_half(_mm512_cvtps_pd(_mm512_castps512_ps256(a)), _mm512_cvtps_pd(_mm512_castps512_ps256(b))));
  __m256 high = _mm512_cvtpd_ps(
      wide_pow_half(_mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1)), _mm512_cvtps_pd(_mm512_extractf32x8_ps(b, 1))));
  __m512 y = _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1), size = wide_abs(a);
  /* Below zero: the sign of odd powers; powers that are not whole have none, unless a is infinite. */
  __mmask16 whole = wide_is_whole(b), odd = whole & (__mmask16)~wide_is_whole(b * WIDE(0.5f));
  __m512i sign = _mm512_and_si512(wide_int(a), _mm512_set1_epi32(INT32_MIN));
  y = wide_bits(_mm512_mask_xor_epi32(wide_int(y), odd, wide_int(y), sign));
  __mmask16 below = _mm512_cmp_ps_mask(a, WIDE(0), _CMP_LT_OQ) & _mm512_cmp_ps_mask(size, WIDE(INFINITY), _CMP_LT_OQ);
  y = _mm512_mask_mov_ps(y, below & (__mmask16)~whole, WIDE(NAN));
  /* 1 to any power, anything to the power 0, and -1 to an infinite one: 1, even for NaN. */
  __mmask16 one = _mm512_cmp_ps_mask(a, WIDE(1), _CMP_EQ_OQ) | _mm512_cmp_ps_mask(b, WIDE(0), _CMP_EQ_OQ);
  one |= _mm512_cmp_ps_mask(size, WIDE(1), _CMP_EQ_OQ) & _mm512_cmp_ps_mask(wide_abs(b), WIDE(INFINITY), _CMP_EQ_OQ);
  return _mm512_mask_mov_ps(y, one, WIDE(1));
}
