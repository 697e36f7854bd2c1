/* fold.h: template of the reductions of contiguous elements for one instruction set.
 *
 * A reduction runs in lanes: four vectors of 64 bytes, whatever the instruction set, so that the result is the same
 * with each of them. The remainder is padded with the neutral element. */

#define FOLD_LANES(T) (int)(64 / sizeof(T))

/* Vectors are as wide as the registers: wider ones would go through memory. */
#if defined(TIDE_ISA_AVX512)
#  define FOLD_WIDTH 64
#elif defined(TIDE_ISA_AVX2)
#  define FOLD_WIDTH 32
#else
#  define FOLD_WIDTH 16
#endif
#define FOLD_TYPES_OF_WIDTH(s, T, M)                                                                                   \
  typedef T wide_##s __attribute__((vector_size(FOLD_WIDTH)));                                                         \
  typedef T wide_load_##s __attribute__((vector_size(FOLD_WIDTH), aligned(sizeof(T)), may_alias));                     \
  typedef M wide_mask_##s __attribute__((vector_size(FOLD_WIDTH)));
FOLD_TYPES_OF_WIDTH(f32, float, int32_t)
FOLD_TYPES_OF_WIDTH(f64, double, int64_t)
FOLD_TYPES_OF_WIDTH(i32, int32_t, int32_t)
FOLD_TYPES_OF_WIDTH(i64, int64_t, int64_t)
FOLD_TYPES_OF_WIDTH(u64, uint64_t, int64_t)
typedef float half_f32 __attribute__((vector_size(FOLD_WIDTH / 2), aligned(sizeof(float)), may_alias));

/* So many of them are 64 bytes; a loop over them stands for one step of all. */
enum { FOLD_PARTS = 64 / FOLD_WIDTH };
#if defined(__clang__)
#  define FOLD_EACH _Pragma("clang loop unroll(full)") for (int p = 0; p < FOLD_PARTS; p++)
#else
#  define FOLD_EACH _Pragma("GCC unroll 4") for (int p = 0; p < FOLD_PARTS; p++)
#endif

/* The first `count` lanes of v, 64 bytes, come from p; less than all of them. */
#if defined(TIDE_ISA_AVX512)
#  define FOLD_LOAD_SOME(v, p, count)                                                                                  \
    do {                                                                                                               \
      __m512i some = _mm512_loadu_si512(v);                                                                            \
      uint32_t lanes = ((uint32_t)1 << (count)) - 1;                                                                   \
      some = sizeof *(p) == 4 ? _mm512_mask_loadu_epi32(some, (__mmask16)lanes, p)                                     \
                              : _mm512_mask_loadu_epi64(some, (__mmask8)lanes, p);                                     \
      _mm512_storeu_si512(v, some);                                                                                    \
    } while (0)
#else
#  define FOLD_LOAD_SOME(v, p, count) memcpy(v, p, (size_t)(count) * sizeof *(p))
#endif

/* Runs STEP(k of four, 64 bytes) over x. The last ones come from a padded copy. EVERY runs after each FOLD_TURN
 * steps. */
#define FOLD_RUN_AND(T, neutral, STEP, EVERY)                                                                          \
  const int64_t whole = n / (4 * FOLD_LANES(T)) * (4 * FOLD_LANES(T));                                                 \
  int64_t i = 0;                                                                                                       \
  while (i < whole) {                                                                                                  \
    const int64_t turn = FOLD_TURN * 4 * FOLD_LANES(T), end = whole - i < turn ? whole : i + turn;                     \
    for (; i < end; i += 4 * FOLD_LANES(T)) {                                                                          \
      STEP(0, x + i);                                                                                                  \
      STEP(1, x + i + FOLD_LANES(T));                                                                                  \
      STEP(2, x + i + 2 * FOLD_LANES(T));                                                                              \
      STEP(3, x + i + 3 * FOLD_LANES(T));                                                                              \
    }                                                                                                                  \
    EVERY;                                                                                                             \
  }                                                                                                                    \
  if (i + FOLD_LANES(T) <= n) {                                                                                        \
    STEP(0, x + i);                                                                                                    \
    i += FOLD_LANES(T);                                                                                                \
  }                                                                                                                    \
  if (i + FOLD_LANES(T) <= n) {                                                                                        \
    STEP(1, x + i);                                                                                                    \
    i += FOLD_LANES(T);                                                                                                \
  }                                                                                                                    \
  if (i + FOLD_LANES(T) <= n) {                                                                                        \
    STEP(2, x + i);                                                                                                    \
    i += FOLD_LANES(T);                                                                                                \
  }                                                                                                                    \
  if (i < n) {                                                                                                         \
    T rest[FOLD_LANES(T)];                                                                                             \
    for (int j = 0; j < FOLD_LANES(T); j++) rest[j] = neutral;                                                         \
    FOLD_LOAD_SOME(rest, x + i, n - i);                                                                                \
    STEP(3, rest);                                                                                                     \
  }
#define FOLD_RUN(T, neutral, STEP) FOLD_RUN_AND(T, neutral, STEP, (void)0)
enum { FOLD_TURN = 64 };

/* acc: four times 64 bytes of lanes that begin with `neutral`; where it ends, the first of them are all of them. */
#define FOLD_BEGIN(s, neutral)                                                                                         \
  wide_##s acc[4 * FOLD_PARTS];                                                                                        \
  FOLD_EACH acc[p] = acc[p + FOLD_PARTS] = acc[p + 2 * FOLD_PARTS] = acc[p + 3 * FOLD_PARTS] = neutral - (wide_##s) {  \
    0                                                                                                                  \
  }
#define FOLD_ALL(OP, p) ((acc[p] OP acc[p + FOLD_PARTS]) OP(acc[p + 2 * FOLD_PARTS] OP acc[p + 3 * FOLD_PARTS]))
#define FOLD_END(T, OP)                                                                                                \
  T lane[FOLD_LANES(T)];                                                                                               \
  FOLD_EACH acc[p] = FOLD_ALL(OP, p);                                                                                  \
  memcpy(lane, acc, sizeof lane)

#define FOLD_VECTOR(s, at)    (*(const wide_load_##s *)((at) + p * (64 / (int)sizeof *(at) / FOLD_PARTS)))
#define FOLD_ADD_OF(s, k, at) FOLD_EACH acc[(k)*FOLD_PARTS + p] += FOLD_VECTOR(s, at)
#define FOLD_ADD_f32(k, at)   FOLD_ADD_OF(f32, k, at)
#define FOLD_ADD_f64(k, at)   FOLD_ADD_OF(f64, k, at)
#define FOLD_ADD_u64(k, at)   FOLD_ADD_OF(u64, k, at)
/* No lane takes more than FOLD_TURN floats in a row: the sums of turns meet apart, which keeps the digits of long
 * rows. */
static void fold_sum_f32(double out[2], const float *x, int64_t n) {
  FOLD_BEGIN(f32, 0);
  wide_f32 turns[FOLD_PARTS];
  FOLD_EACH turns[p] = (wide_f32){0};
#define FOLD_TURN_ENDS                                                                                                 \
  FOLD_EACH {                                                                                                          \
    turns[p] += FOLD_ALL(+, p);                                                                                        \
    acc[p] = acc[p + FOLD_PARTS] = acc[p + 2 * FOLD_PARTS] = acc[p + 3 * FOLD_PARTS] = (wide_f32){0};                  \
  }
  FOLD_RUN_AND(float, 0, FOLD_ADD_f32, FOLD_TURN_ENDS)
  FOLD_EACH turns[p] += FOLD_ALL(+, p);
  float lane[FOLD_LANES(float)];
  double all[8];
  memcpy(lane, turns, sizeof lane);
  for (int j = 0; j < 8; j++) all[j] = (double)lane[j] + (double)lane[j + 8];
  out[0] = (all[0] + all[2]) + (all[4] + all[6]);
  out[1] = (all[1] + all[3]) + (all[5] + all[7]);
}

/* The sum of each of some short rows, which lie pitch numbers apart. */
static void fold_sum_each_f32(double *out, const float *x, int64_t pitch, int64_t rows, int64_t n) {
  if (n < FOLD_LANES(float)) {
    for (int64_t r = 0; r < rows; r++, x += pitch) {
      float sum = x[0];
      for (int64_t j = 1; j < n; j++) sum += x[j];
      out[r] = (double)sum;
    }
    return;
  }
  for (int64_t r = 0; r < rows; r++, x += pitch) {
    double lanes[2];
    fold_sum_f32(lanes, x, n);
    out[r] = lanes[0] + lanes[1];
  }
}

static void fold_sum_f64(double out[2], const double *x, int64_t n) {
  FOLD_BEGIN(f64, 0);
  FOLD_RUN(double, 0, FOLD_ADD_f64)
  FOLD_END(double, +);
  out[0] = (lane[0] + lane[2]) + (lane[4] + lane[6]);
  out[1] = (lane[1] + lane[3]) + (lane[5] + lane[7]);
}

/* The lanes of acc one after another. */
#define FOLD_LANES_END(T, OP)                                                                                          \
  FOLD_END(T, OP);                                                                                                     \
  for (int j = 1; j < FOLD_LANES(T); j++) lane[0] = lane[0] OP lane[j]

static int64_t fold_sum_i64(const int64_t *signed_x, int64_t n) {
  const uint64_t *x = (const uint64_t *)signed_x;
  FOLD_BEGIN(u64, 0);
  FOLD_RUN(uint64_t, 0, FOLD_ADD_u64)
  FOLD_LANES_END(uint64_t, +);
  return (int64_t)lane[0];
}

static int64_t fold_count_u8(const uint8_t *x, int64_t n) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; i += 128) {
    int64_t end = n - i < 128 ? n : i + 128;
    uint8_t part = 0; /* at most 128 of ones */
    for (int64_t j = i; j < end; j++) part = (uint8_t)(part + (x[j] != 0));
    count += part;
  }
  return count;
}

#define FOLD_MULTIPLY_f64(k, at) FOLD_EACH acc[(k)*FOLD_PARTS + p] *= FOLD_VECTOR(f64, at)
#define FOLD_MULTIPLY_u64(k, at) FOLD_EACH acc[(k)*FOLD_PARTS + p] *= FOLD_VECTOR(u64, at)
static double fold_prod_f64(const double *x, int64_t n) {
  FOLD_BEGIN(f64, 1);
  FOLD_RUN(double, 1, FOLD_MULTIPLY_f64)
  FOLD_LANES_END(double, *);
  return lane[0];
}

/* Sums of squares and products of float32, in float64: the halves of 64 bytes meet. */
#define FOLD_HALF(at, half)                                                                                            \
  __builtin_convertvector(*(const half_f32 *)((at) + ((half)*FOLD_PARTS + p) * (8 / FOLD_PARTS)), wide_f64)
#define FOLD_SQUARE_F32(k, at)                                                                                         \
  FOLD_EACH {                                                                                                          \
    const wide_f64 one = FOLD_HALF(at, 0), two = FOLD_HALF(at, 1);                                                     \
    acc[(k)*FOLD_PARTS + p] += one * one + two * two;                                                                  \
  }
#define FOLD_MULTIPLY_F32(k, at) FOLD_EACH acc[(k)*FOLD_PARTS + p] *= FOLD_HALF(at, 0) * FOLD_HALF(at, 1)
static double fold_squares_f32(const float *x, int64_t n) {
  FOLD_BEGIN(f64, 0);
  FOLD_RUN(float, 0, FOLD_SQUARE_F32)
  FOLD_LANES_END(double, +);
  return lane[0];
}

static double fold_prod_f32(const float *x, int64_t n) {
  FOLD_BEGIN(f64, 1);
  FOLD_RUN(float, 1, FOLD_MULTIPLY_F32)
  FOLD_LANES_END(double, *);
  return lane[0];
}

static int64_t fold_prod_i64(const int64_t *signed_x, int64_t n) {
  const uint64_t *x = (const uint64_t *)signed_x;
  FOLD_BEGIN(u64, 1);
  FOLD_RUN(uint64_t, 1, FOLD_MULTIPLY_u64)
  FOLD_LANES_END(uint64_t, *);
  return (int64_t)lane[0];
}

static double fold_square_dev_f64(const double *x, double mean, int64_t n) {
  FOLD_BEGIN(f64, 0);
#define FOLD_DEVIATION(k, at)                                                                                          \
  FOLD_EACH {                                                                                                          \
    const wide_f64 distance = FOLD_VECTOR(f64, at) - mean;                                                             \
    acc[(k)*FOLD_PARTS + p] += distance * distance;                                                                    \
  }
  FOLD_RUN(double, mean, FOLD_DEVIATION)
  FOLD_LANES_END(double, +);
  return lane[0];
}

/* The best of x by OP; NaN if there is one. The masks select without a branch. The last vector may overlap what was
 * seen: the best of some is the best of some twice. */
#define FOLD_TAKE(s, OP, best, from)                                                                                   \
  do {                                                                                                                 \
    wide_##s y = from;                                                                                                 \
    wide_mask_##s take = y OP best;                                                                                    \
    best = (wide_##s)((take & (wide_mask_##s)y) | (~take & (wide_mask_##s)best));                                      \
  } while (0)
#define FOLD_SEE(s, OP, k, p)                                                                                          \
  do {                                                                                                                 \
    wide_##s seen = *(const wide_load_##s *)(p);                                                                       \
    FOLD_TAKE(s, OP, acc[k], seen);                                                                                    \
    odd[k] |= seen != seen;                                                                                            \
  } while (0)
#define FOLD_BEST(name, s, T, OP, nan)                                                                                 \
  static T name(const T *x, int64_t n) {                                                                               \
    enum { LANES = FOLD_WIDTH / sizeof(T) };                                                                           \
    T best = x[0], lane[LANES];                                                                                        \
    bool any_odd = best != best;                                                                                       \
    if (n < LANES) {                                                                                                   \
      for (int64_t i = 1; i < n; i++) best = x[i] OP best ? x[i] : best, any_odd |= x[i] != x[i];                      \
      return any_odd ? nan : best;                                                                                     \
    }                                                                                                                  \
    wide_##s acc[4];                                                                                                   \
    wide_mask_##s odd[4] = {{0}};                                                                                      \
    for (int k = 0; k < 4; k++) acc[k] = best - (wide_##s){0};                                                         \
    int64_t i = 0;                                                                                                     \
    for (; i + 4 * LANES <= n; i += 4 * LANES)                                                                         \
      for (int k = 0; k < 4; k++) FOLD_SEE(s, OP, k, x + i + k * LANES);                                               \
    for (int k = 0; k < 3 && i + LANES <= n; k++, i += LANES) FOLD_SEE(s, OP, k, x + i);                               \
    if (i < n) FOLD_SEE(s, OP, 3, x + n - LANES);                                                                      \
    for (int k = 1; k < 4; k++) FOLD_TAKE(s, OP, acc[0], acc[k]);                                                      \
    odd[0] |= odd[1] | odd[2] | odd[3];                                                                                \
    memcpy(lane, &acc[0], sizeof lane);                                                                                \
    for (int w = LANES / 2; w > 0; w /= 2)                                                                             \
      for (int j = 0; j < w; j++) lane[j] = lane[j + w] OP lane[j] ? lane[j + w] : lane[j];                            \
    int64_t words[FOLD_WIDTH / 8], any = 0;                                                                            \
    memcpy(words, &odd[0], sizeof words);                                                                              \
    for (int j = 0; j < FOLD_WIDTH / 8; j++) any |= words[j];                                                          \
    return any ? nan : lane[0];                                                                                        \
  }
FOLD_BEST(fold_max_f32, f32, float, >, (float)NAN)
FOLD_BEST(fold_max_f64, f64, double, >, NAN)
FOLD_BEST(fold_max_i32, i32, int32_t, >, 0)
FOLD_BEST(fold_max_i64, i64, int64_t, >, 0)
FOLD_BEST(fold_min_f32, f32, float, <, (float)NAN)
FOLD_BEST(fold_min_f64, f64, double, <, NAN)
FOLD_BEST(fold_min_i32, i32, int32_t, <, 0)
FOLD_BEST(fold_min_i64, i64, int64_t, <, 0)

/* ---- column by column ---- */

/* acc[j] += the sum of x[r * pitch + j]: four rows at a time, so that acc moves less and several streams are
 * fetched. */
static void fold_sum_rows_f32(float *restrict acc, const float *restrict x, int64_t pitch, int64_t rows, int64_t n) {
  for (; rows >= 4; rows -= 4, x += 4 * pitch) {
    const float *a = x, *b = x + pitch, *c = x + 2 * pitch, *d = x + 3 * pitch;
    for (int64_t j = 0; j < n; j++) acc[j] += (a[j] + b[j]) + (c[j] + d[j]);
  }
  for (; rows > 0; rows--, x += pitch)
    for (int64_t j = 0; j < n; j++) acc[j] += x[j];
}

#define FOLD_ARG(name, T, OP)                                                                                          \
  static void name(void *best_, int64_t *restrict index, const void *x_, int64_t row, int64_t n) {                     \
    T *restrict best = best_;                                                                                          \
    const T *restrict x = x_;                                                                                          \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      bool better = (x[i] OP best[i]) | ((x[i] != x[i]) & (best[i] == best[i]));                                       \
      best[i] = better ? x[i] : best[i];                                                                               \
      index[i] = better ? row : index[i];                                                                              \
    }                                                                                                                  \
  }
FOLD_ARG(fold_argmax_i32, int32_t, >)
FOLD_ARG(fold_argmax_i64, int64_t, >)
FOLD_ARG(fold_argmax_f32, float, >)
FOLD_ARG(fold_argmax_f64, double, >)
FOLD_ARG(fold_argmin_i32, int32_t, <)
FOLD_ARG(fold_argmin_i64, int64_t, <)
FOLD_ARG(fold_argmin_f32, float, <)
FOLD_ARG(fold_argmin_f64, double, <)

static void fold_welford(double *restrict mean, double *restrict square_dev, const double *restrict x, double k,
                         int64_t n) {
  double part = 1 / k;
  for (int64_t i = 0; i < n; i++) {
    double before = x[i] - mean[i];
    mean[i] += before * part;
    square_dev[i] += before * (x[i] - mean[i]);
  }
}

/* Pairs of numbers, by the functions of pairs.h. */
#define FOLD_PAIR(name)                                                                                                \
  static void fold_pair_##name(double *restrict first, double *restrict second, const double *restrict x,              \
                               const double *restrict y, int64_t n) {                                                  \
    for (int64_t i = 0; y && i < n; i++) tide_##name##_join_f64(&first[i], &second[i], x[i], y[i]);                    \
    for (int64_t i = 0; !y && i < n; i++) {                                                                            \
      double one, other;                                                                                               \
      tide_##name##_of_f64(&one, &other, x[i]);                                                                        \
      tide_##name##_join_f64(&first[i], &second[i], one, other);                                                       \
    }                                                                                                                  \
  }
#define REDUCTION(NAME, name, rule, empty, fold, kernels, form, doc) TIDE_IF_PAIR(fold, FOLD_PAIR(name))
#include "tide/reduction.def"
#define FOLD_PAIR_SLOT(NAME, name, fold) TIDE_IF_PAIR(fold, [TIDE_##NAME] = fold_pair_##name, )

/* Many norms of few numbers, which are `apart`: the sums of squares in float64, one after another. The counts that
 * vectors of space and colors have are loops without a loop inside, which become vector code. */
#define FOLD_SQUARES(n)                                                                                                \
  for (int64_t r = 0; r < rows; r++, x += pitch) {                                                                     \
    double sum = 0;                                                                                                    \
    for (int64_t i = 0; i < (n); i++) sum += (double)x[i * apart] * (double)x[i * apart];                              \
    out[r] = sqrt(sum);                                                                                                \
  }
#define FOLD_NORMS(s, T)                                                                                               \
  static void fold_norm_each_##s(double *restrict out, const void *x_, int64_t pitch, int64_t apart, int64_t rows,     \
                                 int64_t n) {                                                                          \
    const T *restrict x = x_;                                                                                          \
    switch (n) {                                                                                                       \
    case 2: FOLD_SQUARES(2) break;                                                                                     \
    case 3: FOLD_SQUARES(3) break;                                                                                     \
    case 4: FOLD_SQUARES(4) break;                                                                                     \
    default: FOLD_SQUARES(n) break;                                                                                    \
    }                                                                                                                  \
  }
FOLD_NORMS(f32, float)
FOLD_NORMS(f64, double)

#define FOLD_TABLE                                                                                                     \
  .squares_f32 = fold_squares_f32, .prod_f32 = fold_prod_f32, .norm_each = {fold_norm_each_f32, fold_norm_each_f64},   \
  .sum_rows_f32 = fold_sum_rows_f32, .sum_each_f32 = fold_sum_each_f32, .sum_f32 = fold_sum_f32,                       \
  .sum_f64 = fold_sum_f64, .sum_i64 = fold_sum_i64, .count_u8 = fold_count_u8, .prod_f64 = fold_prod_f64,              \
  .prod_i64 = fold_prod_i64, .max_f32 = fold_max_f32, .max_f64 = fold_max_f64, .max_i32 = fold_max_i32,                \
  .max_i64 = fold_max_i64, .min_f32 = fold_min_f32, .min_f64 = fold_min_f64, .min_i32 = fold_min_i32,                  \
  .min_i64 = fold_min_i64, .square_dev_f64 = fold_square_dev_f64,                                                      \
  .argmax = {fold_argmax_i32, fold_argmax_i64, fold_argmax_f32, fold_argmax_f64},                                      \
  .argmin = {fold_argmin_i32, fold_argmin_i64, fold_argmin_f32, fold_argmin_f64}, .welford = fold_welford
