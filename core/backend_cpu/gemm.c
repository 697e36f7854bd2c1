/* gemm.c: matrix products.
 *
 * Floats and complex numbers go to a BLAS library if there is one and the strides are what it takes. 16-bit floats
 * become float32 first, a panel of rows at a time. Everything else, and all of it without a library, is done by
 * gemm_own.c.
 *
 * Invariant: with beta 0 the result's old values are not read, not even to be multiplied by zero. */
#include "gemm.h"

#include <limits.h>
#include <stdlib.h>

#include "blas.h"

enum { PANEL_ROWS = 256 };

/* How a matrix lies for BLAS: its leading dimension, and whether it is transposed; false if BLAS cannot take it. */
static bool layout(int *transposed, int *lead, int64_t rows, int64_t cols, int64_t row, int64_t col) {
  *transposed = TIDE_BLAS_PLAIN;
  if (rows == 1 && col == 1) row = cols;
  if (rows > INT_MAX || cols > INT_MAX || row > INT_MAX || col > INT_MAX) return false;
  if ((col == 1 || cols == 1) && row >= cols) {
    *lead = (int)row;
    return true;
  }
  *transposed = TIDE_BLAS_TRANSPOSED;
  *lead = (int)col;
  return (row == 1 || rows == 1) && col >= rows;
}

typedef struct blas_call {
  const tide__blas *blas;
  const tide_gemm_args *a;
  int ta, tb, lda, ldb;
} blas_call;

/* A product with one column: the matrix is read once, as it lies. */
static void product_vector(const blas_call *b, char *c, const char *x, const char *y) {
  const tide_gemm_args *a = b->a;
  bool plain = b->ta == TIDE_BLAS_PLAIN;
  int rows = (int)(plain ? a->m : a->k), cols = (int)(plain ? a->k : a->m);
  int step = a->m == 1 ? 1 : (int)a->c_row;
  int64_t item = tide__item(a->dtype);
  if (a->beta.re == 0)
    for (int64_t i = 0; i < a->m; i++) memset(c + i * step * item, 0, (size_t)item);
  if (a->dtype == TIDE_FLOAT32)
    b->blas->sgemv(TIDE_BLAS_ROWS, b->ta, rows, cols, (float)a->alpha.re, (const float *)x, b->lda, (const float *)y,
                   (int)a->b_row, (float)a->beta.re, (float *)c, step);
  else
    b->blas->dgemv(TIDE_BLAS_ROWS, b->ta, rows, cols, a->alpha.re, (const double *)x, b->lda, (const double *)y,
                   (int)a->b_row, a->beta.re, (double *)c, step);
}

static void product_matrix(const blas_call *b, char *c, const char *x, const char *y) {
  const tide_gemm_args *a = b->a;
  int m = (int)a->m, n = (int)a->n, k = (int)a->k, ldc = (int)(a->m == 1 ? a->n : a->c_row);
  float alpha[2] = {(float)a->alpha.re, (float)a->alpha.im}, beta[2] = {(float)a->beta.re, (float)a->beta.im};
  double wide_alpha[2] = {a->alpha.re, a->alpha.im}, wide_beta[2] = {a->beta.re, a->beta.im};
  switch (a->dtype) {
  case TIDE_FLOAT32:
    b->blas->sgemm(TIDE_BLAS_ROWS, b->ta, b->tb, m, n, k, alpha[0], (const float *)x, b->lda, (const float *)y, b->ldb,
                   beta[0], (float *)c, ldc);
    break;
  case TIDE_FLOAT64:
    b->blas->dgemm(TIDE_BLAS_ROWS, b->ta, b->tb, m, n, k, a->alpha.re, (const double *)x, b->lda, (const double *)y,
                   b->ldb, a->beta.re, (double *)c, ldc);
    break;
  case TIDE_COMPLEX64:
    b->blas->cgemm(TIDE_BLAS_ROWS, b->ta, b->tb, m, n, k, alpha, x, b->lda, y, b->ldb, beta, c, ldc);
    break;
  default:
    b->blas->zgemm(TIDE_BLAS_ROWS, b->ta, b->tb, m, n, k, wide_alpha, x, b->lda, y, b->ldb, wide_beta, c, ldc);
    break;
  }
}

static void run_batch(void *arg, int64_t begin, int64_t end) {
  const blas_call *b = arg;
  const tide_gemm_args *a = b->a;
  int64_t item = tide__item(a->dtype);
  bool vector = a->n == 1 && a->b_row > 0 && a->b_row <= INT_MAX && a->dtype <= TIDE_FLOAT64;
  for (int64_t i = begin; i < end; i++) {
    char *c = (char *)a->head.ptr[0] + i * a->c_batch * item;
    const char *x = (const char *)a->head.ptr[1] + i * a->a_batch * item;
    const char *y = (const char *)a->head.ptr[2] + i * a->b_batch * item;
    (vector ? product_vector : product_matrix)(b, c, x, y);
  }
}

/* Small products of a batch are shared out to our threads; large ones are left to the library's. */
static bool run_blas(const tide_gemm_args *a) {
  blas_call b = {.blas = tide__blas_get(), .a = a};
  bool fits = a->k > 0 && a->m <= INT_MAX && a->n <= INT_MAX && a->k <= INT_MAX && a->c_row <= INT_MAX;
  if (!b.blas || !fits || (a->m > 1 && a->c_row < a->n)) return false;
  if (!layout(&b.ta, &b.lda, a->m, a->k, a->a_row, a->a_col)) return false;
  if (!layout(&b.tb, &b.ldb, a->k, a->n, a->b_row, a->b_col)) return false;
  if (b.blas->set_num_threads) b.blas->set_num_threads(tide_get_num_threads());
  int64_t work = a->m * a->n * a->k;
  if (a->batch > 1 && work < 1 << 16)
    tide__spread(a->batch, work, run_batch, &b);
  else
    run_batch(&b, 0, a->batch);
  return true;
}

static tide_status product(const tide_gemm_args *a) { return run_blas(a) ? TIDE_OK : tide__gemm_own(a); }

/* ---- 16-bit floats ---- */

typedef struct widen_work {
  const tide__isa *isa;
  float *out;
  const uint16_t *in;
  int64_t cols, row, col;
  int dtype;
} widen_work;

static void widen_rows(void *arg, int64_t begin, int64_t end) {
  const widen_work *w = arg;
  uint16_t raw[512];
  for (int64_t i = begin; i < end; i++)
    for (int64_t j = 0; j < w->cols; j += 512) {
      int64_t n = w->cols - j < 512 ? w->cols - j : 512;
      const uint16_t *in = w->in + i * w->row + j * w->col;
      if (w->col != 1)
        for (int64_t x = 0; x < n; x++) raw[x] = in[x * w->col];
      tide__cast(w->isa, w->out + i * w->cols + j, TIDE_FLOAT32, w->col == 1 ? in : raw, w->dtype, n);
    }
}

/* rows x cols of a matrix as dense float32; walked along the dim that is contiguous. */
static bool widen(float *out, const tide_gemm_args *a, const uint16_t *in, int64_t rows, int64_t cols, int64_t row,
                  int64_t col) {
  bool across = row == 1 && col != 1 && rows > 1;
  widen_work w = {tide__isa_get(), out, in, across ? rows : cols, across ? col : row, across ? row : col, a->dtype};
  tide__spread(across ? cols : rows, w.cols, widen_rows, &w);
  return across;
}

/* c = alpha * product + beta * c, in float32, rounded once. */
static void narrow(const tide_gemm_args *a, uint16_t *c, float *product_row, int64_t n) {
  const tide__isa *isa = tide__isa_get();
  float alpha = (float)a->alpha.re, beta = (float)a->beta.re, old[512];
  for (int64_t j = 0; j < n; j += 512) {
    int64_t part = n - j < 512 ? n - j : 512;
    float *x = product_row + j;
    if (beta != 0) tide__cast(isa, old, TIDE_FLOAT32, c + j, a->dtype, part);
    for (int64_t i = 0; i < part; i++) x[i] = beta != 0 ? alpha * x[i] + beta * old[i] : alpha * x[i];
    tide__cast(isa, c + j, a->dtype, x, TIDE_FLOAT32, part);
  }
}

/* One matrix of the batch: b_wide holds B, dense or transposed. */
static tide_status half_matrix(const tide_gemm_args *a, int64_t index, float *a_wide, float *b_wide, float *c_wide) {
  const uint16_t *x = (const uint16_t *)a->head.ptr[1] + index * a->a_batch;
  uint16_t *c = (uint16_t *)a->head.ptr[0] + index * a->c_batch;
  bool b_across =
      widen(b_wide, a, (const uint16_t *)a->head.ptr[2] + index * a->b_batch, a->k, a->n, a->b_row, a->b_col);
  for (int64_t i = 0; i < a->m; i += PANEL_ROWS) {
    int64_t rows = a->m - i < PANEL_ROWS ? a->m - i : PANEL_ROWS;
    bool a_across = widen(a_wide, a, x + i * a->a_row, rows, a->k, a->a_row, a->a_col);
    tide_gemm_args part = *a;
    part.head.ptr[0] = c_wide, part.head.ptr[1] = a_wide, part.head.ptr[2] = b_wide;
    part.dtype = TIDE_FLOAT32, part.m = rows, part.batch = 1;
    part.a_row = a_across ? 1 : a->k, part.a_col = a_across ? rows : 1;
    part.b_row = b_across ? 1 : a->n, part.b_col = b_across ? a->k : 1;
    part.c_row = a->n, part.alpha.re = 1, part.beta.re = 0;
    TIDE_TRY(product(&part));
    for (int64_t r = 0; r < rows; r++) narrow(a, c + (i + r) * a->c_row, c_wide + r * a->n, a->n);
  }
  return TIDE_OK;
}

static tide_status product_half(const tide_gemm_args *a) {
  int64_t rows = a->m < PANEL_ROWS ? a->m : PANEL_ROWS;
  size_t floats = (size_t)(rows * a->k + a->k * a->n + rows * a->n);
  float *room = malloc((floats ? floats : 1) * sizeof *room);
  if (!room)
    return tide__fail(TIDE_MEMORY, "matmul: no memory for float32 panels, got a need of %zu bytes",
                      floats * sizeof *room);
  float *b_wide = room + rows * a->k, *c_wide = b_wide + a->k * a->n;
  tide_status status = TIDE_OK;
  for (int64_t i = 0; i < a->batch && status == TIDE_OK; i++) status = half_matrix(a, i, room, b_wide, c_wide);
  free(room);
  return status;
}

tide_status tide__cpu_gemm(tide_stream *stream, const tide_gemm_args *a) {
  (void)stream;
  if (a->dtype == TIDE_FLOAT16 || a->dtype == TIDE_BFLOAT16) return product_half(a);
  if (a->dtype >= TIDE_FLOAT32) return product(a);
  return tide__gemm_own(a);
}
