/* isa.h: the inner loops of the CPU backend, as a table for each instruction set. They work on short contiguous pieces;
 * the kernels around them know layouts and threads and are compiled once. */
#pragma once

#include <complex.h>

#include "cpu.h"

#undef I

/* The compute types, by their place in tables. */
typedef enum tide__ctype {
  TIDE_C_I32,
  TIDE_C_I64,
  TIDE_C_F32,
  TIDE_C_F64,
  TIDE_C_C64,
  TIDE_C_C128,
  TIDE_CTYPES
} tide__ctype;

/* Loops run over whole blocks of this many elements: no remainders, and element i has the same value wherever it
 * stands. */
#define TIDE_BLOCK 16

/* Heights of the tiles of matrix products, at most; rows of b that are asked for before they are needed. */
enum { TIDE__PRODUCT_HEIGHTS = 8, TIDE__PRODUCT_AHEAD = 8 };

/* out = op(a, b, c) for `blocks` blocks; out may be a, b or c itself. p: three parameters of the compute type. Tests
 * write 0 and 1 as int32, or int64 where the compute type is int64 or float64. */
typedef void (*tide__loop)(void *out, const void *a, const void *b, const void *c, const void *p, int64_t blocks);
/* out[panel][k][lane] = in[lane * lanes_apart + k * k_apart]; one of the distances is 1. The first `tall` panels hold
 * `high` lanes of in, the others one less. */
typedef void (*tide__pack)(void *out, const void *in, int64_t lanes_apart, int64_t k_apart, int64_t k, int64_t panels,
                           int64_t high, int64_t tall);
/* Lanes `to` and so on of a panel are numbers that lie together, from number `from` on. */
typedef struct tide__run {
  int64_t from, to, count;
} tide__run;
/* out[k][lane] = the number at base + (row[k] + from + lane - to) * item bytes of the lane's run, or 0 where there is
 * none. No other number is read. */
typedef void (*tide__pack_runs)(void *out, const void *base, const int64_t *row, int64_t k, const tide__run *runs,
                                int count, int item);
/* A tile of a matrix product: c[row * c_row + lane] = the sum over k of the number at a + row * a_row + k *
 * a_step bytes by b[k * b_step + lane], added to c or in its place. The first cache gets b's numbers b_ahead before
 * they are needed, the second gets tide__isa.product_next bytes from `next` on meanwhile. Placed: a is a packed panel,
 * and k's row of b begins at b[at[k]], where `at` goes on for TIDE__PRODUCT_AHEAD behind the last one. */
typedef struct tide__tile {
  void *c;
  const void *a, *b;
  const char *next; /* or NULL */
  const int64_t *at;
  int64_t c_row, a_row, a_step, b_step, b_ahead, k;
  bool add;
} tide__tile;
typedef void (*tide__product)(const tide__tile *t);

/* n elements of one dtype become another. */
typedef void (*tide__convert)(void *out, const void *in, int64_t n);

/* Pair i, (first[i], second[i]), takes element x[i], or where y is no NULL the pair (x[i], y[i]). */
typedef void (*tide__pair_fold)(double *first, double *second, const double *x, const double *y, int64_t n);

/* Row r of out, which follow each other, is the number a[r * a_step] times the elements from b[r * b_step] on. stream:
 * rows of whole 64 bytes are written around the caches. */
typedef void (*tide__row_products)(void *out, const void *a, int64_t a_step, const void *b, int64_t b_step,
                                   int64_t rows, int64_t cols, bool stream);

typedef struct tide__isa {
  const char *name;
  /* Stores the addresses of op, streamed and convert, before anything reads them. As data each address would need a
   * relocation: three times the bytes, and each applied at every start, for tables that a processor never uses. */
  void (*fill)(void);
  tide__loop (*op)[TIDE_CTYPES];
  /* Of float32, NULL where there is none: out, at a multiple of 64 bytes, is written around the caches. */
  tide__loop *streamed;
  tide__loop cube[2], root[2], exp_less[2]; /* x^3, x^0.5 and e^(x - p[0]) of float32 and float64 */
  void (*progress)(double *out, double first, double step, double start, int64_t n); /* fma(first + i, step, start) */
  void (*repeat[2])(void *out, const void *value, int64_t blocks); /* blocks of one value of 4 and of 8 bytes */
  tide__row_products row_products[2];                              /* of float32 and float64 */
  tide__convert (*convert)[TIDE_DTYPE_COUNT]; /* [to][from]; NULL where a float32 buffer lies between */
  /* Writes around the caches: for results larger than they are. */
  void (*stream)(void *out, const void *in, size_t bytes);
  void (*stream_end)(void);

  /* Reductions of n elements. Sums come in two lanes, of the even and of the odd elements, so that they serve complex
   * numbers too; floats are summed in 64 lanes, those in turns, that meet in double. */
  void (*sum_f32)(double out[2], const float *x, int64_t n);
  /* The sums of short rows that lie pitch numbers apart. */
  void (*sum_each_f32)(double *out, const float *x, int64_t pitch, int64_t rows, int64_t n);
  /* The 2-norms of n numbers each, which are `apart`, of float32 and float64. */
  void (*norm_each[2])(double *out, const void *x, int64_t pitch, int64_t apart, int64_t rows, int64_t n);
  void (*sum_f64)(double out[2], const double *x, int64_t n);
  int64_t (*sum_i64)(const int64_t *x, int64_t n);
  int64_t (*count_u8)(const uint8_t *x, int64_t n); /* of bytes that are 0 or 1 */
  double (*prod_f64)(const double *x, int64_t n);
  /* In float64. */
  double (*prod_f32)(const float *x, int64_t n);
  double (*squares_f32)(const float *x, int64_t n);
  int64_t (*prod_i64)(const int64_t *x, int64_t n);
  float (*max_f32)(const float *x, int64_t n); /* NaN if there is one */
  double (*max_f64)(const double *x, int64_t n);
  int32_t (*max_i32)(const int32_t *x, int64_t n);
  int64_t (*max_i64)(const int64_t *x, int64_t n);
  float (*min_f32)(const float *x, int64_t n);
  double (*min_f64)(const double *x, int64_t n);
  int32_t (*min_i32)(const int32_t *x, int64_t n);
  int64_t (*min_i64)(const int64_t *x, int64_t n);
  double (*square_dev_f64)(const double *x, double mean, int64_t n); /* sum of (x - mean)^2 */
  /* Column by column: acc[j] += the sum of x[r * pitch + j] over the rows. */
  void (*sum_rows_f32)(float *acc, const float *x, int64_t pitch, int64_t rows, int64_t n);
  /* Column by column: best and index take x where it is better; row is the index of x. */
  void (*argmax[4])(void *best, int64_t *index, const void *x, int64_t row, int64_t n); /* I32 I64 F32 F64 */
  void (*argmin[4])(void *best, int64_t *index, const void *x, int64_t row, int64_t n);
  /* Column by column: the k-th row enters mean and the sum of squared deviations (Welford). */
  void (*welford)(double *mean, double *square_dev, const double *x, double k, int64_t n);
  tide__pair_fold pair[TIDE_REDUCTION_COUNT]; /* of those whose fold is PAIR */

  /* Draws of groups group .. group + n - 1, four 32-bit words each. */
  void (*philox)(uint32_t *out, uint64_t seed, uint64_t offset, uint64_t group, int64_t groups);
  void (*unit_f32)(float *out, const uint32_t *bits, int64_t n, int width, float a, float scale, float end);
  void (*unit_f64)(double *out, const uint32_t *bits, int64_t n, double a, double scale, double end);
  void (*normal_f32)(float *out, const uint32_t *bits, int64_t groups, float mean, float deviation);
  void (*normal_f64)(double *out, const uint32_t *bits, int64_t groups, double mean, double deviation);

  /* Matrix products (product.h), for tiles of product_rows / 2 to product_rows rows and of product_bytes: I32 I64 F32
   * F64. pack: panels of so many rows or lanes of 4 and of 8 bytes each. */
  tide__product product[4][TIDE__PRODUCT_HEIGHTS], product_placed[2][TIDE__PRODUCT_HEIGHTS]; /* F32 F64 */
  int product_rows, product_bytes, product_next;
  tide__pack pack_rows[2], pack_lanes[2];
  tide__pack_runs pack_runs;
  /* Matrix by vector, F32 and F64: along the rows, which lie pitch apart, and along the columns, added to acc. */
  void (*dots[2])(double *out, const void *a, int64_t pitch, const void *x, int64_t rows, int64_t n);
  void (*columns[2])(void *acc, const void *a, int64_t pitch, const void *x, int64_t columns, int64_t n);
  /* For the lanes of two packed panels of columns, F32 and F64: the sum over k of |x - y|, or of its square. */
  void (*distances[2])(void *out, const void *x, const void *y, int64_t k, bool square);

  const struct tide__lanes *lanes; /* of the block interpreter: blocks.h */
} tide__isa;

/* The best one that this processor has. */
const tide__isa *tide__isa_get(void);
/* For tests: use the one of this name, NULL for the best; false if the processor lacks it. */
bool tide__isa_set(const char *name);

extern const tide__isa tide__isa_base;
#if defined(__x86_64__)
extern const tide__isa tide__isa_avx2;
extern const tide__isa tide__isa_avx512;
#endif
