/* convert.h: template of the conversions between dtypes for one instruction set.
 *
 * All pairs of the ten dtypes that C knows, and float16 and bfloat16 from and to float32; the other pairs of these two
 * take two steps. A float becomes an integer through int64, truncated; what does not fit is the smallest int64, and the
 * result wraps. Complex to real drops the imaginary part, to bool is != 0. */

#include "elementary.h"

static inline int64_t integer_of(double x) {
  return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? (int64_t)x : INT64_MIN;
}

#define CONVERT_TO_B(D, x) ((x) != 0)
#define CONVERT_TO_F(D, x) (x)
#define CONVERT_TO_U(D, x) _Generic((x), float : integer_of(x), double : integer_of(x), default : (x))
#define CONVERT_TO_I(D, x) CONVERT_TO_U(D, x)

#define CONVERT_NAME_(to, from) convert_##to##_##from
#define CONVERT_NAME(to, from)  CONVERT_NAME_(to, from)

#define CONVERT(name, D, kind)                                                                                         \
  static void CONVERT_NAME(name, SN)(void *out, const void *in, int64_t n) {                                           \
    const S *restrict s = in;                                                                                          \
    D *restrict d = out;                                                                                               \
    for (int64_t i = 0; i < n; i++) d[i] = (D)CONVERT_TO_##kind(D, s[i]);                                              \
  }

/* Floats to narrow integers: vector code converts a piece that fits in int32. The loop over other pieces is rare. */
#define CONVERT_NARROW(name, D)                                                                                        \
  static void CONVERT_NAME(name, SN)(void *out, const void *in, int64_t n) {                                           \
    const S *restrict s = in;                                                                                          \
    D *restrict d = out;                                                                                               \
    for (int64_t i = 0; i < n; i += 512) {                                                                             \
      int64_t end = n - i < 512 ? n : i + 512;                                                                         \
      int wide = 0;                                                                                                    \
      for (int64_t j = i; j < end; j++) wide |= !(s[j] < 2147483648.0f && s[j] > -2147483648.0f);                      \
      if (!wide) {                                                                                                     \
        for (int64_t j = i; j < end; j++) d[j] = (D)(int32_t)s[j];                                                     \
      } else {                                                                                                         \
        for (int64_t j = i; j < end; j++) {                                                                            \
          d[j] = (D)integer_of(s[j]);                                                                                  \
          __asm__ volatile("" ::: "memory"); /* no vectors */                                                          \
        }                                                                                                              \
      }                                                                                                                \
    }                                                                                                                  \
  }

/* Pairs that few programs convert take two steps, through a dtype between them whose pieces stay in the first cache. */
static void convert_two_steps(void *out, int64_t out_size, const void *in, int64_t in_size, int64_t n,
                              tide__convert first, tide__convert second) {
  enum { PIECE = 512 };
  double between[PIECE];
  for (int64_t i = 0; i < n; i += PIECE) {
    int64_t count = n - i < PIECE ? n - i : PIECE;
    first(between, (const char *)in + i * in_size, count);
    second((char *)out + i * out_size, between, count);
  }
}
#define CONVERT_BY(name, D, between)                                                                                   \
  static void CONVERT_NAME(name, SN)(void *out, const void *in, int64_t n) {                                           \
    convert_two_steps(out, sizeof(D), in, sizeof(S), n, CONVERT_NAME(between, SN), CONVERT_NAME(name, between));       \
  }

static void convert_complex64_float32(void *, const void *, int64_t);
static void convert_complex128_float64(void *, const void *, int64_t);

#define S  uint8_t
#define SN b8
#include "convert_from.h"
#define S  uint8_t
#define SN uint8
#include "convert_from.h"
#define S  int8_t
#define SN int8
#include "convert_from.h"
#define S  int16_t
#define SN int16
#include "convert_from.h"
#define S  int32_t
#define SN int32
#include "convert_from.h"
#define S  int64_t
#define SN int64
#include "convert_from.h"
#define CONVERT_FLOAT
#define S  float
#define SN float32
#include "convert_from.h"
#define S  double
#define SN float64
#include "convert_from.h"
#undef CONVERT_FLOAT
#define S  float
#define SN float32
CONVERT(complex64, float _Complex, F)
CONVERT(complex128, double _Complex, F)
#undef S
#undef SN
#define S  double
#define SN float64
CONVERT(complex128, double _Complex, F)
CONVERT(complex64, float _Complex, F)
#undef S
#undef SN
#define CONVERT_COMPLEX
#define S         float _Complex
#define SN        complex64
#define REAL_NAME float32
CONVERT(float32, float, F)
CONVERT_BY(float64, double, float32)
#include "convert_from.h"
#define S         double _Complex
#define SN        complex128
#define REAL_NAME float64
CONVERT(float64, double, F)
CONVERT_BY(float32, float, float64)
#include "convert_from.h"
#undef CONVERT_COMPLEX

/* ---- 16-bit floats ---- */

static inline float half_widen(uint16_t h) {
  uint32_t magnitude = (uint32_t)(h & 0x7FFF) << 13, sign = (uint32_t)(h & 0x8000) << 16;
  /* The exponents differ by 112; a product mends the denormals too. */
  uint32_t number = bits_from_float(float_from_bits(magnitude) * 0x1p112f), special = magnitude | 0x7F800000;
  uint32_t quiet = (h & 0x3FF) ? 0x400000 : 0;
  return float_from_bits(sign | ((h & 0x7C00) == 0x7C00 ? special | quiet : number));
}

/* Rounds to nearest, halves to even. */
static inline uint16_t half_narrow(float f) {
  uint32_t u = bits_from_float(f), sign = (u >> 16) & 0x8000, magnitude = u & 0x7FFFFFFF;
  uint32_t normal = (magnitude + 0xC8000FFF + ((magnitude >> 13) & 1)) >> 13;
  uint32_t denormal = bits_from_float(float_from_bits(magnitude) + 0.5f) - 0x3F000000;
  uint32_t special = magnitude > 0x7F800000 ? 0x7E00 | (magnitude >> 13 & 0x1FF) : 0x7C00;
  uint32_t small = magnitude < 0x38800000 ? denormal : normal;
  return (uint16_t)(sign | (magnitude >= 0x47800000 ? special : small));
}

static inline uint16_t bfloat16_narrow(float f) {
  uint32_t u = bits_from_float(f), rounded = (u + 0x7FFF + ((u >> 16) & 1)) >> 16;
  return (uint16_t)((u & 0x7FFFFFFF) > 0x7F800000 ? (u >> 16) | 0x40 : rounded);
}

static void convert_float32_float16(void *out, const void *in, int64_t n) {
  const uint16_t *restrict s = in;
  float *restrict d = out;
  int64_t i = 0;
#if defined(TIDE_ISA_AVX512)
  for (; i + 16 <= n; i += 16) _mm512_storeu_ps(d + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(s + i))));
#elif defined(TIDE_ISA_AVX2)
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(s + i))));
#endif
  for (; i < n; i++) d[i] = half_widen(s[i]);
}

static void convert_float16_float32(void *out, const void *in, int64_t n) {
  const float *restrict s = in;
  uint16_t *restrict d = out;
  int64_t i = 0;
#if defined(TIDE_ISA_AVX512)
  for (; i + 16 <= n; i += 16)
    _mm256_storeu_si256((__m256i *)(d + i), _mm512_cvtps_ph(_mm512_loadu_ps(s + i), _MM_FROUND_TO_NEAREST_INT));
#elif defined(TIDE_ISA_AVX2)
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128((__m128i *)(d + i), _mm256_cvtps_ph(_mm256_loadu_ps(s + i), _MM_FROUND_TO_NEAREST_INT));
#endif
  for (; i < n; i++) d[i] = half_narrow(s[i]);
}

static void convert_float32_bfloat16(void *out, const void *in, int64_t n) {
  const uint16_t *restrict s = in;
  uint32_t *restrict d = out;
  for (int64_t i = 0; i < n; i++) d[i] = (uint32_t)s[i] << 16;
}

static void convert_bfloat16_float32(void *out, const void *in, int64_t n) {
  const float *restrict s = in;
  uint16_t *restrict d = out;
  for (int64_t i = 0; i < n; i++) d[i] = bfloat16_narrow(s[i]);
}

#define CONVERT_ROW(TO, to)                                                                                            \
  converts[TIDE_##TO][TIDE_BOOL] = convert_##to##_b8;                                                                  \
  converts[TIDE_##TO][TIDE_UINT8] = convert_##to##_uint8;                                                              \
  converts[TIDE_##TO][TIDE_INT8] = convert_##to##_int8;                                                                \
  converts[TIDE_##TO][TIDE_INT16] = convert_##to##_int16;                                                              \
  converts[TIDE_##TO][TIDE_INT32] = convert_##to##_int32;                                                              \
  converts[TIDE_##TO][TIDE_INT64] = convert_##to##_int64;                                                              \
  converts[TIDE_##TO][TIDE_FLOAT32] = convert_##to##_float32;                                                          \
  converts[TIDE_##TO][TIDE_FLOAT64] = convert_##to##_float64;                                                          \
  converts[TIDE_##TO][TIDE_COMPLEX64] = convert_##to##_complex64;                                                      \
  converts[TIDE_##TO][TIDE_COMPLEX128] = convert_##to##_complex128
/* Statements that store the conversions there are. */
#define CONVERT_FILL                                                                                                   \
  CONVERT_ROW(BOOL, b8);                                                                                               \
  CONVERT_ROW(UINT8, uint8);                                                                                           \
  CONVERT_ROW(INT8, int8);                                                                                             \
  CONVERT_ROW(INT16, int16);                                                                                           \
  CONVERT_ROW(INT32, int32);                                                                                           \
  CONVERT_ROW(INT64, int64);                                                                                           \
  CONVERT_ROW(FLOAT32, float32);                                                                                       \
  CONVERT_ROW(FLOAT64, float64);                                                                                       \
  CONVERT_ROW(COMPLEX64, complex64);                                                                                   \
  CONVERT_ROW(COMPLEX128, complex128);                                                                                 \
  converts[TIDE_FLOAT32][TIDE_FLOAT16] = convert_float32_float16;                                                      \
  converts[TIDE_FLOAT16][TIDE_FLOAT32] = convert_float16_float32;                                                      \
  converts[TIDE_FLOAT32][TIDE_BFLOAT16] = convert_float32_bfloat16;                                                    \
  converts[TIDE_BFLOAT16][TIDE_FLOAT32] = convert_bfloat16_float32;
