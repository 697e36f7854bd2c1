/* gemm.c: matrix products: of at most 8 by 8 they are gemm_small.c, a matrix by a vector is gemm_vector.c, all else
 * gemm_own.c. 16-bit floats become float32
 * first, a panel of rows at a time.
 *
 * No library is asked: one that does not know the processor is many times slower than it could be, its threads stand
 * beside ours, and where it cannot have them, or memory, it may wait for ever.
 *
 * Invariant: with beta 0 the result's old values are not read, not even to be multiplied by zero. */
#include "gemm.h"
#include "backend/cpu/scratch.h"

#include <stdlib.h>

enum { PANEL_ROWS = 1024 };

/* Along k or along the other dim of both operands the distance is 1: a vector is read as it lies. */
static bool is_vector(const tide_gemm_args *a) {
  if (a->k == 0 || (a->dtype != TIDE_FLOAT32 && a->dtype != TIDE_FLOAT64)) return false;
  if (a->n == 1) return a->a_col == 1 || a->a_row == 1;
  return a->m == 1 && (a->b_row == 1 || a->b_col == 1);
}

static tide_status product(const tide_gemm_args *a) {
  if (tide__gemm_is_small(a)) return tide__gemm_small(a);
  return is_vector(a) ? tide__gemm_vector(a) : tide__gemm_own(a, NULL);
}

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
  for (int64_t i = 0; i < a->m && !tide__loop_stops(); i += PANEL_ROWS) {
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
  float *room = tide__room_take((floats ? floats : 1) * sizeof *room);
  if (!room)
    return tide__fail(TIDE_MEMORY, "matmul: no memory for float32 panels, got a need of %zu bytes",
                      floats * sizeof *room);
  float *b_wide = room + rows * a->k, *c_wide = b_wide + a->k * a->n;
  tide_status status = TIDE_OK;
  for (int64_t i = 0; i < a->batch && status == TIDE_OK; i++) status = half_matrix(a, i, room, b_wide, c_wide);
  tide__room_put(room);
  return status;
}

tide_status tide__cpu_gemm(tide_stream *stream, const tide_gemm_args *a) {
  if (a->dtype == TIDE_FLOAT16 || a->dtype == TIDE_BFLOAT16) return product_half(a);
  return product(a);
}
