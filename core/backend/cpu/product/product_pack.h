/* product_pack.h: template of the loops that pack the operands of matrix products (product.h), for one instruction set.
 *
 * Numbers that lie along k become numbers that lie side by side: a square of lanes and k at a time, in registers. The
 * last square of a panel begins where it ends with the panel, so some lanes are written twice.
 *
 * Invariant: every number of a panel is written, and nothing behind it. */

#if defined(TIDE_ISA_AVX512)
#  define SQUARE_4 8
#elif defined(__x86_64__)
#  define SQUARE_4 4
#else
#  define SQUARE_4 0
#endif
#if defined(TIDE_ISA_AVX512) || defined(TIDE_ISA_AVX2)
#  define SQUARE_8 4
#elif defined(__x86_64__)
#  define SQUARE_8 2
#else
#  define SQUARE_8 0
#endif

/* out[k][lane] = row[lane][k], 16 bytes of each of SQUARE rows; `width` lanes lie between two k. */
#if SQUARE_4 == 8
static inline __m256 halves_ps(const float *low, const float *high) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
}
static inline void pack_square_4(uint32_t *out, int width, const uint32_t *const *row, int64_t k) {
  const float *in[8];
  float *to = (float *)(void *)out;
  PRODUCT_UNROLL
  for (int l = 0; l < 8; l++) in[l] = (const float *)(const void *)(row[l] + k);
  __m256 a = halves_ps(in[0], in[4]), b = halves_ps(in[1], in[5]), c = halves_ps(in[2], in[6]),
         d = halves_ps(in[3], in[7]);
  __m256 low = _mm256_unpacklo_ps(a, b), high = _mm256_unpacklo_ps(c, d);
  _mm256_storeu_ps(to, _mm256_shuffle_ps(low, high, 0x44));
  _mm256_storeu_ps(to + width, _mm256_shuffle_ps(low, high, 0xEE));
  low = _mm256_unpackhi_ps(a, b), high = _mm256_unpackhi_ps(c, d);
  _mm256_storeu_ps(to + 2 * width, _mm256_shuffle_ps(low, high, 0x44));
  _mm256_storeu_ps(to + 3 * width, _mm256_shuffle_ps(low, high, 0xEE));
}
#elif SQUARE_4 == 4
static inline void pack_square_4(uint32_t *out, int width, const uint32_t *const *row, int64_t k) {
  __m128 in[4];
  float *to = (float *)(void *)out;
  PRODUCT_UNROLL
  for (int l = 0; l < 4; l++) in[l] = _mm_loadu_ps((const float *)(const void *)(row[l] + k));
  _MM_TRANSPOSE4_PS(in[0], in[1], in[2], in[3]);
  PRODUCT_UNROLL
  for (int l = 0; l < 4; l++) _mm_storeu_ps(to + l * width, in[l]);
}
#else
static inline void pack_square_4(uint32_t *out, int width, const uint32_t *const *row, int64_t k) {}
#endif
#if SQUARE_8 == 4
static inline __m256d halves_pd(const double *low, const double *high) {
  return _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(low)), _mm_loadu_pd(high), 1);
}
static inline void pack_square_8(uint64_t *out, int width, const uint64_t *const *row, int64_t k) {
  const double *in[4];
  double *to = (double *)(void *)out;
  PRODUCT_UNROLL
  for (int l = 0; l < 4; l++) in[l] = (const double *)(const void *)(row[l] + k);
  __m256d a = halves_pd(in[0], in[2]), b = halves_pd(in[1], in[3]);
  _mm256_storeu_pd(to, _mm256_unpacklo_pd(a, b));
  _mm256_storeu_pd(to + width, _mm256_unpackhi_pd(a, b));
}
#elif SQUARE_8 == 2
static inline void pack_square_8(uint64_t *out, int width, const uint64_t *const *row, int64_t k) {
  const double *one = (const double *)(const void *)(row[0] + k), *two = (const double *)(const void *)(row[1] + k);
  double *to = (double *)(void *)out;
  __m128d a = _mm_loadu_pd(one), b = _mm_loadu_pd(two);
  _mm_storeu_pd(to, _mm_unpacklo_pd(a, b)), _mm_storeu_pd(to + width, _mm_unpackhi_pd(a, b));
}
#else
static inline void pack_square_8(uint64_t *out, int width, const uint64_t *const *row, int64_t k) {}
#endif

/* Panels are packed side by side, out[panel][k][lane], `width` lanes wide. The first `tall` of them hold `high` lanes
 * of the operand, the others one less; lanes that are missing repeat numbers of the operand. */
#define U         uint32_t
#define NAME(f)   f##_rows_4
#define WIDTH     PRODUCT_ROWS
#define SQUARE(f) f##_square_4
#define SQUARES   SQUARE_4
#include "panels_template.h"
#define U         uint64_t
#define NAME(f)   f##_rows_8
#define WIDTH     PRODUCT_ROWS
#define SQUARE(f) f##_square_8
#define SQUARES   SQUARE_8
#include "panels_template.h"
#define U         uint32_t
#define NAME(f)   f##_lanes_4
#define WIDTH     2 * PRODUCT_LANES(uint32_t)
#define SQUARE(f) f##_square_4
#define SQUARES   SQUARE_4
#include "panels_template.h"
#define U         uint64_t
#define NAME(f)   f##_lanes_8
#define WIDTH     2 * PRODUCT_LANES(uint64_t)
#define SQUARE(f) f##_square_8
#define SQUARES   SQUARE_8
#include "panels_template.h"

/* What lanes of two vectors come from: words of 4 bytes, so that numbers of 8 bytes are two of them. */
#if defined(TIDE_ISA_AVX512) || defined(TIDE_ISA_AVX2)
enum { PIECE_WORDS = FOLD_WIDTH / 4 };
#  if defined(TIDE_ISA_AVX512)
typedef __mmask16 piece_mask;
#    define PIECE_FIRST(from, mask)   _mm512_maskz_loadu_ps(mask, from)
#    define PIECE_MORE(v, from, mask) _mm512_mask_loadu_ps(v, mask, from)
#    define PIECE_STORE(to, v)        _mm512_storeu_ps(to, v)
static piece_mask piece_mask_of(int64_t begin, int64_t end) { return (piece_mask)((1u << end) - (1u << begin)); }
#  else
typedef __m256i piece_mask;
#    define PIECE_FIRST(from, mask)   _mm256_maskload_ps(from, mask)
#    define PIECE_MORE(v, from, mask) _mm256_or_ps(v, _mm256_maskload_ps(from, mask))
#    define PIECE_STORE(to, v)        _mm256_storeu_ps(to, v)
static piece_mask piece_mask_of(int64_t begin, int64_t end) {
  int32_t words[PIECE_WORDS];
  for (int i = 0; i < PIECE_WORDS; i++) words[i] = i >= begin && i < end ? -1 : 0;
  return _mm256_loadu_si256((const __m256i *)words);
}
#  endif
#  define PIECES(count)                                                                                                \
    for (int64_t r = 0; r < k; r++, out += 2 * PIECE_WORDS) {                                                          \
      const char *at = base + row[r] * item;                                                                           \
      PRODUCT_UNROLL                                                                                                   \
      for (int h = 0; h < 2; h++) {                                                                                    \
        __typeof__(PIECE_FIRST(out, p.mask[0][0])) v = PIECE_FIRST((const void *)(at + p.from[h][0]), p.mask[h][0]);   \
        for (int64_t i = 1; i < count; i++) v = PIECE_MORE(v, (const void *)(at + p.from[h][i]), p.mask[h][i]);        \
        PIECE_STORE(out + h * PIECE_WORDS, v);                                                                         \
      }                                                                                                                \
    }
/* Nothing here gains from unrolling. */
#  if defined(__clang__)
#    define PIECES_SMALL
#  else
#    define PIECES_SMALL __attribute__((noinline, optimize("O2")))
#  endif
typedef struct pieces {
  piece_mask mask[2][PIECE_WORDS];
  int64_t from[2][PIECE_WORDS], most; /* bytes behind a row's number 0, of the vector's; pieces of a vector, at most */
} pieces;
PIECES_SMALL static void find_pieces(pieces *p, const tide__run *runs, int count, int item) {
  int64_t n[2] = {0};
  for (int r = 0; r < count; r++)
    for (int h = 0; h < 2; h++) {
      const int64_t begin = runs[r].to * item / 4 - h * PIECE_WORDS, end = begin + runs[r].count * item / 4;
      if (begin >= PIECE_WORDS || end <= 0) continue;
      p->mask[h][n[h]] = piece_mask_of(begin > 0 ? begin : 0, end < PIECE_WORDS ? end : PIECE_WORDS);
      p->from[h][n[h]++] = runs[r].from * item - begin * 4;
    }
  p->most = n[0] > n[1] ? n[0] : n[1];
  if (PIECE_WORDS == 8 && p->most < 2) p->most = 2;
  for (int h = 0; h < 2; h++)
    for (int64_t i = n[h]; i < p->most; i++) p->mask[h][i] = piece_mask_of(0, 0), p->from[h][i] = p->from[0][0];
}
PIECES_SMALL static void pack_runs(void *out_, const void *base_, const int64_t *row, int64_t k, const tide__run *runs,
                                   int count, int item) {
  const char *base = base_;
  float *restrict out = out_;
  pieces p;
  find_pieces(&p, runs, count, item);
  if (SQUARE_4 == 8 && p.most == 1)
    PIECES(1)
  else if (p.most == 2)
    PIECES(2)
  else if (SQUARE_4 == 8 && p.most == 3)
    PIECES(3)
  else
    PIECES(p.most)
}
#else
static void pack_runs(void *out_, const void *base, const int64_t *row, int64_t k, const tide__run *runs, int count,
                      int item) {
  char *out = out_;
  for (int64_t r = 0; r < k; r++, out += 2 * FOLD_WIDTH) {
    const int64_t end = (runs[count - 1].to + runs[count - 1].count) * item;
    memset(out + end, 0, (size_t)(2 * FOLD_WIDTH - end));
    for (int i = 0; i < count; i++)
      memcpy(out + runs[i].to * item, (const char *)base + (row[r] + runs[i].from) * item,
             (size_t)(runs[i].count * item));
  }
}
#endif
