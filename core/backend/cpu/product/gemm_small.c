/* gemm_small.c: products of matrices of at most 8 by 8, in float32 and float64, mostly of large batches.
 *
 * B's rows are vectors of 4 or 8 lanes, those that it has not are 0; a row of the result is a sum of them. There is
 * nothing to pack and nothing to allocate, so that a batch of 4 by 4 matrices goes as fast as memory brings it.
 *
 * Invariant: a sum runs in the order of k, whatever threads and sizes of the batch there are. */
#include "gemm.h"

typedef struct work {
  const tide_gemm_args *a;
  bool lies, plain; /* B's rows can be read whole; the result is the sum itself, written whole */
} work;

#define SMALL(T, LANES)                                                                                                \
  typedef T T##x##LANES __attribute__((vector_size(LANES * sizeof(T)), aligned(sizeof(T)), may_alias));                \
  static void T##_run##LANES(void *arg, int64_t begin, int64_t end) {                                                  \
    const work *w = arg;                                                                                               \
    const tide_gemm_args *g = w->a;                                                                                    \
    for (int64_t at = begin; at < end; at++) {                                                                         \
      const T *a = (const T *)g->head.ptr[1] + at * g->a_batch, *b = (const T *)g->head.ptr[2] + at * g->b_batch;      \
      T *c = (T *)g->head.ptr[0] + at * g->c_batch;                                                                    \
      T##x##LANES line[8] = {0};                                                                                       \
      for (int64_t p = 0; p < g->k; p++) {                                                                             \
        if (w->lies)                                                                                                   \
          line[p] = *(const T##x##LANES *)(b + p * g->b_row);                                                          \
        else                                                                                                           \
          for (int64_t j = 0; j < g->n; j++) line[p][j] = b[p * g->b_row + j * g->b_col];                              \
      }                                                                                                                \
      for (int64_t i = 0; i < g->m; i++, c += g->c_row) {                                                              \
        T##x##LANES sum = {0};                                                                                         \
        for (int64_t p = 0; p < g->k; p++) sum += a[i * g->a_row + p * g->a_col] * line[p];                            \
        if (w->plain)                                                                                                  \
          *(T##x##LANES *)c = sum;                                                                                     \
        else                                                                                                           \
          for (int64_t j = 0; j < g->n; j++)                                                                           \
            c[j] = (T)(g->alpha.re * (double)sum[j] + (g->beta.re == 0 ? 0 : g->beta.re * (double)c[j]));              \
      }                                                                                                                \
    }                                                                                                                  \
  }
SMALL(float, 4)
SMALL(float, 8)
SMALL(double, 4)
SMALL(double, 8)

/* 4 by 4 of float32 whose rows lie whole, written out. */
static void run_four(void *arg, int64_t begin, int64_t end) {
  const tide_gemm_args *g = ((const work *)arg)->a;
  const int64_t row = g->a_row;
  for (int64_t at = begin; at < end; at++) {
    const float *a = (const float *)g->head.ptr[1] + at * g->a_batch,
                *b = (const float *)g->head.ptr[2] + at * g->b_batch;
    float *c = (float *)g->head.ptr[0] + at * g->c_batch;
#define LINE(p) *(const floatx4 *)(b + (p)*g->b_row)
    const floatx4 b0 = LINE(0), b1 = LINE(1), b2 = LINE(2), b3 = LINE(3), none = {0};
#undef LINE
#define ROW(i)                                                                                                         \
  *(floatx4 *)(c + (i)*g->c_row) =                                                                                     \
      none + a[(i)*row] * b0 + a[(i)*row + 1] * b1 + a[(i)*row + 2] * b2 + a[(i)*row + 3] * b3
    ROW(0), ROW(1), ROW(2), ROW(3);
#undef ROW
  }
}

/* Many rows against one column or four are a batch, too: of so many rows each. Others are packed in half the time. */
enum { ROWS = 4 };

bool tide__gemm_is_small(const tide_gemm_args *a) {
  bool few_rows = a->m <= 8 || (a->batch == 1 && (a->n == 4 || a->n == 1));
  return few_rows && a->n <= 8 && a->k <= 8 && (a->dtype == TIDE_FLOAT32 || a->dtype == TIDE_FLOAT64);
}

static void run(const tide_gemm_args *a) {
  int64_t lanes = a->n <= 4 ? 4 : 8;
  work w = {a, a->b_col == 1 && a->n == lanes, a->n == lanes && a->alpha.re == 1 && a->beta.re == 0};
  tide_task_fn fn =
      a->dtype == TIDE_FLOAT32 ? (lanes == 4 ? float_run4 : float_run8) : (lanes == 4 ? double_run4 : double_run8);
  bool is_four = a->dtype == TIDE_FLOAT32 && a->m == 4 && a->n == 4 && a->k == 4 && a->a_col == 1;
  if (is_four && w.lies && w.plain) fn = run_four;
  tide__spread(a->batch, a->m * lanes * a->k, fn, &w);
}

tide_status tide__gemm_small(const tide_gemm_args *a) {
  tide_gemm_args part = *a;
  if (a->m > 8) {
    const int64_t item = tide__item(a->dtype), whole = a->m / ROWS * ROWS;
    part.batch = a->m / ROWS, part.m = ROWS;
    part.a_batch = ROWS * a->a_row, part.b_batch = 0, part.c_batch = ROWS * a->c_row;
    run(&part);
    part.batch = 1, part.m = a->m - whole;
    part.head.ptr[0] = (char *)a->head.ptr[0] + whole * a->c_row * item;
    part.head.ptr[1] = (char *)a->head.ptr[1] + whole * a->a_row * item;
  }
  if (part.m) run(&part);
  return TIDE_OK;
}
