/* blocks_loops.h: template of the loops over lanes of the block interpreter for one instruction set: blocks.def, and
 * those that bring elements to lanes and back. Defines tide__lanes_<TIDE_ISA_NAME> and what fills it, by code, which is
 * half of what relocations would take. With AVX-512 only those that gain from it are made, the others are AVX2's. The
 * loops hold no state; products and sums are never fused, so that every instruction set gives the same numbers. */
#include "backend/cpu/vector.h"

#include "base/mathematics/kernel_numbers.h"
#include "blocks.h"

/* Of registers, whose lanes go on to the end of a strip. */
#define LANE_EACH TIDE_IVDEP for (int64_t i = 0; i < ((n + TIDE_BLOCK_STRIP - 1) & -TIDE_BLOCK_STRIP); i++)
#define LANE_SOME TIDE_IVDEP for (int64_t i = 0; i < n; i++)

#define lane_whole(a) _Generic((a), float : tk_whole_f32, double : tk_whole_f64)(a)

#define LANE_TYPE_I      int64_t
#define LANE_TYPE_M      uint8_t
#define LANE_TYPE_R      T
#define LANE_NAME_(n, s) lane_##n##_##s
#define LANE_NAME(n, s)  LANE_NAME_(n, s)
#define LANE_HEAD(name)                                                                                                \
  static void LANE_NAME(name, S)(void *d_, const void *a_, const void *b_, const void *c_, unsigned vary,              \
                                 int64_t strips)
#define LANE_IN(X, v, bit)                                                                                             \
  const LANE_TYPE_##X *v##s = v##_;                                                                                    \
  const int64_t v##_step = vary & bit ? TIDE_BLOCK_STRIP : 0;
#define LANE_STRIP TIDE_IVDEP _Pragma("GCC unroll 1") for (int i = 0; i < TIDE_BLOCK_STRIP; i++)
#define LANE1(name, D, A, expr)                                                                                        \
  LANE_HEAD(name) {                                                                                                    \
    LANE_TYPE_##D *d = d_;                                                                                             \
    LANE_IN(A, a, 1)                                                                                                   \
    (void)b_, (void)c_;                                                                                                \
    for (; strips > 0; strips--, d += TIDE_BLOCK_STRIP, as += a_step) LANE_STRIP {                                     \
        const LANE_TYPE_##A a = as[i];                                                                                 \
        d[i] = (LANE_TYPE_##D)(expr);                                                                                  \
      }                                                                                                                \
  }
#define LANE2(name, D, A, B, expr)                                                                                     \
  LANE_HEAD(name) {                                                                                                    \
    LANE_TYPE_##D *d = d_;                                                                                             \
    LANE_IN(A, a, 1)                                                                                                   \
    LANE_IN(B, b, 2)                                                                                                   \
    (void)c_;                                                                                                          \
    for (; strips > 0; strips--, d += TIDE_BLOCK_STRIP, as += a_step, bs += b_step) LANE_STRIP {                       \
        const LANE_TYPE_##A a = as[i];                                                                                 \
        const LANE_TYPE_##B b = bs[i];                                                                                 \
        d[i] = (LANE_TYPE_##D)(expr);                                                                                  \
      }                                                                                                                \
  }
#define LANE3(name, D, A, B, C, expr)                                                                                  \
  LANE_HEAD(name) {                                                                                                    \
    LANE_TYPE_##D *d = d_;                                                                                             \
    LANE_IN(A, a, 1)                                                                                                   \
    LANE_IN(B, b, 2)                                                                                                   \
    LANE_IN(C, c, 4)                                                                                                   \
    for (; strips > 0; strips--, d += TIDE_BLOCK_STRIP, as += a_step, bs += b_step, cs += c_step) LANE_STRIP {         \
        const LANE_TYPE_##A a = as[i];                                                                                 \
        const LANE_TYPE_##B b = bs[i];                                                                                 \
        const LANE_TYPE_##C c = cs[i];                                                                                 \
        d[i] = (LANE_TYPE_##D)(expr);                                                                                  \
      }                                                                                                                \
  }

/* The masks that comparisons make become bytes in one step. */
#ifdef TIDE_ISA_AVX512
#  define LANE_BITS_R(p, q, kind) (uint32_t) _mm512_cmp_ps_mask(_mm512_loadu_ps(p), _mm512_loadu_ps(q), LANE_R_##kind)
#  define LANE_BITS_I(p, q, kind)                                                                                      \
    (uint32_t) _mm512_cmp_epi64_mask(_mm512_loadu_si512(p), _mm512_loadu_si512(q), LANE_I_##kind)
#  define LANE_R_eq         _CMP_EQ_OQ
#  define LANE_R_ne         _CMP_NEQ_UQ
#  define LANE_R_lt         _CMP_LT_OQ
#  define LANE_R_le         _CMP_LE_OQ
#  define LANE_I_eq         _MM_CMPINT_EQ
#  define LANE_I_ne         _MM_CMPINT_NE
#  define LANE_I_lt         _MM_CMPINT_LT
#  define LANE_I_le         _MM_CMPINT_LE
#  define LANE_EACH_R(kind) LANE_BITS_R(as, bs, kind) | LANE_BITS_R(as + 16, bs + 16, kind) << 16
#  define LANE_EACH_I(kind)                                                                                            \
    LANE_BITS_I(as, bs, kind) | LANE_BITS_I(as + 8, bs + 8, kind) << 8 | LANE_BITS_I(as + 16, bs + 16, kind) << 16 |   \
        LANE_BITS_I(as + 24, bs + 24, kind) << 24
#  define LANE_ORDERED(name, A, kind)                                                                                  \
    LANE_HEAD(name) {                                                                                                  \
      uint8_t *d = d_;                                                                                                 \
      LANE_IN(A, a, 1)                                                                                                 \
      LANE_IN(A, b, 2)                                                                                                 \
      (void)c_;                                                                                                        \
      for (; strips > 0; strips--, d += TIDE_BLOCK_STRIP, as += a_step, bs += b_step)                                  \
        _mm256_storeu_si256((void *)d, _mm256_maskz_set1_epi8(LANE_EACH_##A(kind), 1));                                \
    }
#  define LANE_ORDER(name, A, sign, kind) LANE_ORDERED(name, A, kind)
#endif

#define LANES_FLOAT
#define T            float
#define S            f32
#define LANE_M(name) name##f
#include "blocks.def"
#undef T
#undef S
#undef LANE_M
#ifndef TIDE_ISA_AVX512
#  define T            double
#  define S            f64
#  define LANE_M(name) name
#  include "blocks.def"
#  undef T
#  undef S
#  undef LANE_M
#endif
#undef LANES_FLOAT
#define LANES_WHOLE
#define S whole
#ifdef TIDE_ISA_AVX512
#  define LANE_ORDER(name, A, sign, kind) LANE_ORDERED(name, A, kind)
#endif
#include "blocks.def"
#undef S
#undef LANES_WHOLE
#undef LANE1
#undef LANE2
#undef LANE3

/* ---- elements of 1, 2, 4 and 8 bytes ---- */

#define LANE_ITEMS(bits)                                                                                               \
  static void lane_fill_##bits(void *d_, const void *value, int64_t n) {                                               \
    uint##bits##_t *d = d_, v = *(const uint##bits##_t *)value;                                                        \
    LANE_SOME d[i] = v;                                                                                                \
  }                                                                                                                    \
  static void lane_gather_##bits(void *d_, const void *from_, const int64_t *at, int64_t n) {                          \
    uint##bits##_t *d = d_;                                                                                            \
    const uint##bits##_t *from = from_;                                                                                \
    LANE_SOME d[i] = from[at[i]];                                                                                      \
  }                                                                                                                    \
  static void lane_pick_##bits(void *d_, const void *from_, const int64_t *at, const uint8_t *on, int64_t n) {         \
    uint##bits##_t *d = d_;                                                                                            \
    const uint##bits##_t *from = from_;                                                                                \
    for (int64_t i = 0; i < n; i++) d[i] = on[i] ? from[at[i]] : 0;                                                    \
  }                                                                                                                    \
  static void lane_scatter_##bits(void *to_, const void *a_, const int64_t *at, const uint8_t *on, int64_t n) {        \
    uint##bits##_t *to = to_;                                                                                          \
    const uint##bits##_t *a = a_;                                                                                      \
    for (int64_t i = 0; i < n; i++)                                                                                    \
      if (on[i]) to[at[i]] = a[i];                                                                                     \
  }                                                                                                                    \
  static void lane_stride_##bits(void *d_, const void *from_, int64_t step, int64_t n) {                               \
    uint##bits##_t *d = d_;                                                                                            \
    const uint##bits##_t *from = from_;                                                                                \
    LANE_SOME d[i] = from[i * step];                                                                                   \
  }
#define LANE_PUT(bits)                                                                                                 \
  static void lane_put_##bits(void *d_, const uint8_t *on, const void *a_, int64_t same, int64_t n) {                  \
    uint##bits##_t *d = d_, one = *(const uint##bits##_t *)a_;                                                         \
    const uint##bits##_t *a = a_;                                                                                      \
    if (same)                                                                                                          \
      LANE_EACH d[i] = on[i] ? one : d[i];                                                                             \
    else                                                                                                               \
      LANE_EACH d[i] = on[i] ? a[i] : d[i];                                                                            \
  }
#ifndef TIDE_ISA_AVX512
#  define LANE_KEEP(bits)                                                                                              \
    static void lane_keep_##bits(void *to_, const void *a_, const uint8_t *on, int64_t n) {                            \
      uint##bits##_t *to = to_;                                                                                        \
      const uint##bits##_t *a = a_;                                                                                    \
      for (int64_t i = lane_keep_lanes_##bits(to_, a_, on, n); i < n; i++)                                             \
        if (on[i]) to[i] = a[i];                                                                                       \
    }
/* As many as are whole vectors; returns their number. */
#  define lane_keep_lanes_8(to, a, on, n)  0
#  define lane_keep_lanes_16(to, a, on, n) 0
#  if defined(TIDE_ISA_AVX2)
static int64_t lane_keep_lanes_32(void *to, const void *a, const uint8_t *on, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256i some =
        _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(on + i))));
    _mm256_maskstore_epi32((int *)to + i, some, _mm256_loadu_si256((const void *)((const int *)a + i)));
  }
  return i;
}
static int64_t lane_keep_lanes_64(void *to, const void *a, const uint8_t *on, int64_t n) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    int32_t four;
    memcpy(&four, on + i, sizeof four);
    __m256i some = _mm256_sub_epi64(_mm256_setzero_si256(), _mm256_cvtepu8_epi64(_mm_cvtsi32_si128(four)));
    _mm256_maskstore_epi64((long long *)to + i, some, _mm256_loadu_si256((const void *)((const long long *)a + i)));
  }
  return i;
}
#  else
#    define lane_keep_lanes_32(to, a, on, n) 0
#    define lane_keep_lanes_64(to, a, on, n) 0
#  endif
LANE_KEEP(8)
LANE_KEEP(16)
LANE_KEEP(32)
LANE_KEEP(64)
LANE_ITEMS(8)
LANE_ITEMS(16)
LANE_ITEMS(32)
LANE_ITEMS(64)
#endif
#ifdef TIDE_ISA_AVX512
static void lane_pick_32(void *d, const void *from, const int64_t *at, const uint8_t *on, int64_t n) {
  for (int64_t i = 0; i < n; i += 8) {
    const __m128i some = _mm_loadl_epi64((const void *)(on + i));
    const __mmask8 k = (__mmask8)_mm_test_epi8_mask(some, some);
    __m256i got = _mm256_setzero_si256();
    if (k) got = _mm512_mask_i64gather_epi32(got, k, _mm512_loadu_si512(at + i), from, 4);
    _mm256_storeu_si256((void *)((int *)d + i), got);
  }
}
#endif
LANE_PUT(8)
LANE_PUT(16)
LANE_PUT(32)
LANE_PUT(64)

#ifdef TIDE_ISA_AVX512
static void lane_count(int64_t *d, const uint8_t *on, int64_t by, int64_t n) {
  const __m512i each = _mm512_set1_epi64(by);
  for (int64_t i = 0; i < n; i += 8) {
    const __m128i some = _mm_loadl_epi64((const void *)(on + i));
    const __m512i now = _mm512_loadu_si512(d + i);
    _mm512_storeu_si512(d + i, _mm512_mask_add_epi64(now, (__mmask8)_mm_test_epi8_mask(some, some), now, each));
  }
}
#else
static void lane_count(int64_t *d, const uint8_t *on, int64_t by, int64_t n) { LANE_EACH d[i] += -(int64_t)on[i] & by; }
#endif

static void lane_line(int64_t *d, int64_t first, int64_t step, int64_t n) { LANE_EACH d[i] = first + i * step; }

#ifndef TIDE_ISA_AVX512
static bool lane_steady(const int64_t *a, int64_t n) {
  const int64_t first = a[0];
  uint64_t other = 0;
  if (a[n - 1] - first != n - 1) return false;
  LANE_SOME other |= (uint64_t)(a[i] - i - first);
  return !other;
}
#endif

static void lane_index(int64_t *at, uint8_t *bad, const int64_t *index, int64_t more, int64_t size, int64_t step,
                       bool begin, int64_t n) {
  const int64_t keep = begin ? 0 : -1;
  LANE_EACH {
    const int64_t k = index[i] + more - 1;
    bad[i] = (uint8_t)((bad[i] & keep) | ((uint64_t)k >= (uint64_t)size)), at[i] = (at[i] & keep) + k * step;
  }
}

#ifdef TIDE_ISA_AVX512
#  define LANE_MASKS(name, join)                                                                                       \
    static int64_t lane_##name(uint8_t *d, const uint8_t *a, const uint8_t *b, int64_t blocks) {                       \
      __m512i sum = _mm512_setzero_si512();                                                                            \
      for (int64_t left = TIDE_BLOCK * blocks; left > 0; left -= 64, d += 64, a += 64, b += 64) {                      \
        const __mmask64 in = left < 64 ? ((__mmask64)1 << left) - 1 : ~(__mmask64)0;                                   \
        const __m512i x = _mm512_maskz_loadu_epi8(in, a), y = _mm512_maskz_loadu_epi8(in, b), z = join;                \
        _mm512_mask_storeu_epi8(d, in, z);                                                                             \
        sum = _mm512_add_epi64(sum, _mm512_sad_epu8(z, _mm512_setzero_si512()));                                       \
      }                                                                                                                \
      return _mm512_reduce_add_epi64(sum);                                                                             \
    }
LANE_MASKS(mask_and, _mm512_and_si512(x, y))
LANE_MASKS(mask_less, _mm512_andnot_si512(y, x))
#else
#  define LANE_MASKS(name, join)                                                                                       \
    static int64_t lane_##name(uint8_t *d, const uint8_t *a, const uint8_t *b, int64_t blocks) {                       \
      int64_t sum = 0;                                                                                                 \
      for (; blocks > 0; blocks--, d += TIDE_BLOCK, a += TIDE_BLOCK, b += TIDE_BLOCK) {                                \
        uint8_t some = 0;                                                                                              \
        for (int i = 0; i < TIDE_BLOCK; i++) d[i] = (join);                                                            \
        for (int i = 0; i < TIDE_BLOCK; i++) some = (uint8_t)(some + d[i]);                                            \
        sum += some;                                                                                                   \
      }                                                                                                                \
      return sum;                                                                                                      \
    }
LANE_MASKS(mask_and, a[i] & b[i])
LANE_MASKS(mask_less, a[i] & (b[i] ^ 1))
#endif

#ifndef TIDE_ISA_AVX512
/* ---- division of integers that a double divides exactly enough: the floor of the rounded quotient is that of the
 * exact one ---- */

static bool lane_small(const int64_t *a, int64_t n) {
  uint64_t all = 0;
  LANE_EACH all |= (uint64_t)a[i] + 0x40000000u;
  return all >> 31 == 0;
}

static void lane_divide_small(int64_t *d, const int64_t *a, const int64_t *b, int64_t b_apart, bool remainder,
                              int64_t n) {
  const int64_t one = b[0];
  for (int64_t from = 0; from < n; from += TIDE_BLOCK) {
    int32_t x[TIDE_BLOCK], y[TIDE_BLOCK], q[TIDE_BLOCK];
    for (int i = 0; i < TIDE_BLOCK; i++) x[i] = (int32_t)a[from + i];
    for (int i = 0; i < TIDE_BLOCK; i++) y[i] = b_apart ? (int32_t)b[from + i] : (int32_t)one;
    for (int i = 0; i < TIDE_BLOCK; i++) {
      double whole = (double)x[i] / (double)y[i];
      int32_t t = (int32_t)whole;
      q[i] = t - ((double)t > whole);
    }
    if (remainder)
      for (int i = 0; i < TIDE_BLOCK; i++) d[from + i] = x[i] - (int64_t)q[i] * y[i];
    else
      for (int i = 0; i < TIDE_BLOCK; i++) d[from + i] = q[i];
  }
}

/* ---- random numbers ---- */

static void lane_philox(uint32_t *words, const int64_t *key, int64_t key_apart, const int64_t *more, int64_t more_apart,
                        int64_t apart, int64_t n) {
  uint32_t *restrict x = words, *restrict y = words + apart, *restrict z = words + 2 * apart;
  uint32_t *restrict w = words + 3 * apart;
  LANE_EACH {
    uint64_t k = (uint64_t)key[i * key_apart] ^ (more ? (uint64_t)more[i * more_apart] : 0);
    const tide_philox drawn = tk_philox(x[i], y[i], z[i], w[i], k);
    x[i] = drawn.v[0], y[i] = drawn.v[1], z[i] = drawn.v[2], w[i] = drawn.v[3];
  }
}
#endif

/* ---- the table ---- */

#define LANE1(name, D, A, expr)       LANE_SLOT(name)
#define LANE2(name, D, A, B, expr)    LANE_SLOT(name)
#define LANE3(name, D, A, B, C, expr) LANE_SLOT(name)
#define LANE_SLOT(name)               LANE_SLOT_(name, S)
#define LANE_SLOT_(name, s)           LANE_SLOT__(name, s)
#define LANE_SLOT__(name, s)          *next++ = lane_##name##_##s;
#define LANE_FOUR(name)                                                                                                \
  t->name[0] = lane_##name##_8, t->name[1] = lane_##name##_16, t->name[2] = lane_##name##_32,                          \
  t->name[3] = lane_##name##_64;

tide__lanes TIDE_JOIN(tide__lanes, TIDE_ISA_NAME);

void TIDE_JOIN(tide__lanes_fill, TIDE_ISA_NAME)(void) {
  tide__lanes *t = &TIDE_JOIN(tide__lanes, TIDE_ISA_NAME);
  tide__lane_op *next;
#ifdef TIDE_ISA_AVX512
  tide__lanes_fill_avx2();
  *t = tide__lanes_avx2;
#else
  LANE_FOUR(fill)
  LANE_FOUR(gather)
  LANE_FOUR(pick)
  LANE_FOUR(scatter)
  LANE_FOUR(keep)
  LANE_FOUR(stride)
  t->steady = lane_steady, t->small = lane_small, t->divide_small = lane_divide_small, t->philox = lane_philox;
#endif
#ifdef TIDE_ISA_AVX512
  t->pick[2] = lane_pick_32;
#endif
  LANE_FOUR(put)
  t->count = lane_count, t->line = lane_line, t->index = lane_index;
  t->mask_and = lane_mask_and, t->mask_less = lane_mask_less;
  next = t->real[0];
#define LANES_FLOAT
#define S f32
#include "blocks.def"
#undef S
#ifndef TIDE_ISA_AVX512
  next = t->real[1];
#  define S f64
#  include "blocks.def"
#  undef S
#endif
#undef LANES_FLOAT
  next = t->whole;
#define LANES_WHOLE
#define S whole
#include "blocks.def"
}

#if defined(__clang__) && defined(TIDE_TARGET)
#  pragma clang attribute pop
#endif
