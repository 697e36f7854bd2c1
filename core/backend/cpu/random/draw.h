/* draw.h: template of the random loops for one instruction set. random.h defines every value; here are its loops over
 * many groups, and a sine and cosine of a whole turn for the normals. */

#include "backend/cpu/loops/elementary.h"
#include "base/random.h"

/* One of the ten rounds on c0..c3, whose keys are the seed's words plus r steps. */
#define DRAW_ROUND(r)                                                                                                  \
  do {                                                                                                                 \
    uint64_t p0 = (uint64_t)TIDE_PHILOX_M0 * c0, p1 = (uint64_t)TIDE_PHILOX_M1 * c2;                                   \
    uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ (k0 + (r)*TIDE_PHILOX_W0);                                               \
    uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ (k1 + (r)*TIDE_PHILOX_W1);                                               \
    c1 = (uint32_t)p1, c3 = (uint32_t)p0, c0 = n0, c2 = n2;                                                            \
  } while (0)

#if defined(TIDE_ISA_AVX512) || defined(TIDE_ISA_AVX2)
/* Groups in lanes of 64 bits, of which a product reads the lower half alone: what is in the upper one does not
 * matter. */
#  if defined(TIDE_ISA_AVX512)
typedef uint64_t draw_lanes __attribute__((vector_size(64)));
#    define DRAW_MUL(a, b) (draw_lanes) _mm512_mul_epu32((__m512i)(a), (__m512i)(b))
/* x0 y0 x1 y1 ... */
static inline void draw_store_pairs(uint32_t *out, draw_lanes x, draw_lanes y) {
  const __m512i first = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0), then = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
  _mm512_storeu_si512(out, _mm512_permutex2var_epi64((__m512i)x, first, (__m512i)y));
  _mm512_storeu_si512(out + 16, _mm512_permutex2var_epi64((__m512i)x, then, (__m512i)y));
}
#  else
typedef uint64_t draw_lanes __attribute__((vector_size(32)));
#    define DRAW_MUL(a, b) (draw_lanes) _mm256_mul_epu32((__m256i)(a), (__m256i)(b))
static inline void draw_store_pairs(uint32_t *out, draw_lanes x, draw_lanes y) {
  __m256i even = _mm256_unpacklo_epi64((__m256i)x, (__m256i)y), odd = _mm256_unpackhi_epi64((__m256i)x, (__m256i)y);
  _mm256_storeu_si256((__m256i *)(void *)out, _mm256_permute2x128_si256(even, odd, 0x20));
  _mm256_storeu_si256((__m256i *)(void *)(out + 8), _mm256_permute2x128_si256(even, odd, 0x31));
}
#  endif

/* As many groups as are whole vectors; returns their number. */
static int64_t draw_philox_lanes(uint32_t *out, uint64_t seed, uint64_t offset, uint64_t group, int64_t groups) {
  enum { LANES = sizeof(draw_lanes) / sizeof(uint64_t) };
  const draw_lanes zero = {0}, m0 = zero + TIDE_PHILOX_M0, m1 = zero + TIDE_PHILOX_M1;
  draw_lanes at = zero + group, key[10][2] = {{zero + (seed & UINT32_MAX), zero + (seed >> 32)}};
  int64_t g = 0;
  for (int l = 0; l < LANES; l++) at[l] += (uint64_t)l;
  for (int r = 1; r < 10; r++) key[r][0] = key[r - 1][0] + TIDE_PHILOX_W0, key[r][1] = key[r - 1][1] + TIDE_PHILOX_W1;
  for (; g + LANES <= groups; g += LANES, at += LANES) {
    draw_lanes c0 = zero + offset / 4, c1 = c0 >> 32, c2 = at, c3 = at >> 32;
    for (int r = 0; r < 10; r++) {
      draw_lanes p0 = DRAW_MUL(c0, m0), p1 = DRAW_MUL(c2, m1);
      c0 = p1 >> 32 ^ c1 ^ key[r][0], c2 = p0 >> 32 ^ c3 ^ key[r][1];
      c1 = p1, c3 = p0;
    }
    draw_store_pairs(out + 4 * g, (c0 & UINT32_MAX) | c1 << 32, (c2 & UINT32_MAX) | c3 << 32);
  }
  return g;
}
#else
static int64_t draw_philox_lanes(uint32_t *out, uint64_t seed, uint64_t offset, uint64_t group, int64_t groups) {
  return 0;
}
#endif

static void draw_philox(uint32_t *restrict out, uint64_t seed, uint64_t offset, uint64_t group, int64_t groups) {
  const uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  const uint32_t o0 = (uint32_t)(offset / 4), o1 = (uint32_t)(offset / 4 >> 32);
  for (int64_t g = draw_philox_lanes(out, seed, offset, group, groups); g < groups; g++) {
    uint64_t at = group + (uint64_t)g;
    uint32_t c0 = o0, c1 = o1, c2 = (uint32_t)at, c3 = (uint32_t)(at >> 32);
    DRAW_ROUND(0u);
    DRAW_ROUND(1u);
    DRAW_ROUND(2u);
    DRAW_ROUND(3u);
    DRAW_ROUND(4u);
    DRAW_ROUND(5u);
    DRAW_ROUND(6u);
    DRAW_ROUND(7u);
    DRAW_ROUND(8u);
    DRAW_ROUND(9u);
    out[4 * g] = c0, out[4 * g + 1] = c1, out[4 * g + 2] = c2, out[4 * g + 3] = c3;
  }
}

static void draw_unit_f32(float *restrict out, const uint32_t *restrict bits, int64_t n, int width, float a,
                          float scale, float end) {
  for (int64_t i = 0; i < n; i++) out[i] = tide_uniform_f32(tide_unit_f32(bits[i], width), a, scale, end);
}

static inline uint64_t draw_wide(const uint32_t *bits) { return (uint64_t)bits[0] | (uint64_t)bits[1] << 32; }

static void draw_unit_f64(double *restrict out, const uint32_t *restrict bits, int64_t n, double a, double scale,
                          double end) {
  for (int64_t i = 0; i < n; i++) out[i] = tide_uniform_f64(tide_unit_f64(draw_wide(bits + 2 * i)), a, scale, end);
}

/* The sine and cosine of u turns, 0 <= u < 1. The nearest quarter turn is taken off exactly (adding a large number
 * rounds to an integer, without the instruction for it, which older processors lack); what is left lies within an
 * eighth of a turn, where short series serve (coefficients: S. Moshier, Cephes, single precision). */
static inline void draw_turn_f32(float u, float *sine, float *cosine) {
  float quarter = (u * 4.0f + 12582912.0f) - 12582912.0f, x = (u - quarter * 0.25f) * 6.28318530717958647692f,
        z = x * x;
  float s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * x + x;
  float c = ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1.0f;
  int32_t q = (int32_t)quarter;
  float along = q & 1 ? c : s, across = q & 1 ? s : c;
  *sine = q & 2 ? -along : along;
  *cosine = (q + 1) & 2 ? -across : across;
}

static inline void draw_turn_f64(double u, double *sine, double *cosine) {
  double quarter = (u * 4.0 + 6755399441055744.0) - 6755399441055744.0,
         x = (u - quarter * 0.25) * 6.28318530717958647692, s = sin(x), c = cos(x);
  int64_t q = (int32_t)quarter;
  double along = q & 1 ? c : s, across = q & 1 ? s : c;
  *sine = q & 2 ? -along : along;
  *cosine = (q + 1) & 2 ? -across : across;
}

static void draw_normal_f32(float *restrict out, const uint32_t *restrict bits, int64_t groups, float mean,
                            float deviation) {
  for (int64_t i = 0; i < 2 * groups; i++) {
    float sine, cosine, radius = sqrtf(-2.0f * fast_logf(tide_unit_open_f32(bits[2 * i])));
    draw_turn_f32(tide_unit_f32(bits[2 * i + 1], 24), &sine, &cosine);
    out[2 * i] = mean + deviation * (radius * cosine);
    out[2 * i + 1] = mean + deviation * (radius * sine);
  }
}

static void draw_normal_f64(double *restrict out, const uint32_t *restrict bits, int64_t groups, double mean,
                            double deviation) {
  for (int64_t i = 0; i < groups; i++) {
    double sine, cosine, radius = sqrt(-2.0 * log(tide_unit_open_f64(draw_wide(bits + 4 * i))));
    draw_turn_f64(tide_unit_f64(draw_wide(bits + 4 * i + 2)), &sine, &cosine);
    out[2 * i] = mean + deviation * (radius * cosine);
    out[2 * i + 1] = mean + deviation * (radius * sine);
  }
}

#define DRAW_TABLE                                                                                                     \
  .philox = draw_philox, .unit_f32 = draw_unit_f32, .unit_f64 = draw_unit_f64, .normal_f32 = draw_normal_f32,          \
  .normal_f64 = draw_normal_f64
