/* gemm_vector.c: matrix by vector, in float32 and float64.
 *
 * The matrix is read once, as it lies: along its rows, two at a time, or along its columns, four at a time. Threads
 * share out its rows, and k in chunks whose sums meet in double.
 *
 * Invariant: the order of the sums depends on the sizes alone. */
#include "gemm.h"
#include "backend/cpu/scratch.h"

#include <stdlib.h>

/* k of a chunk; rows of a task, of either kind; bytes of one column's rows. */
enum { CHUNK = 8192, DOT_ROWS = 16, COLUMN_ROWS = 1024 };

typedef struct work {
  const tide__isa *isa;
  const char *matrix, *vector;
  int64_t rows, k, pitch; /* pitch: from row to row, or from column to column */
  int64_t high, chunks;   /* rows of a task */
  int item;
  bool by_columns, wide;
  double *sums; /* [chunk][row] */
} work;

static void add_columns(const work *w, double *out, const char *in, const char *x, int64_t rows, int64_t k) {
  _Alignas(64) char acc[COLUMN_ROWS * 8];
  memset(acc, 0, sizeof acc);
  w->isa->columns[w->wide](acc, in, w->pitch, x, k, rows);
  for (int64_t r = 0; r < rows; r++) out[r] = w->wide ? ((double *)acc)[r] : (double)((float *)acc)[r];
}

static void run_tasks(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  for (int64_t i = begin; i < end; i++) {
    int64_t row = i / w->chunks * w->high, from = i % w->chunks * CHUNK;
    int64_t rows = tide__least(w->high, w->rows - row), k = tide__least(CHUNK, w->k - from);
    double *out = w->sums + i % w->chunks * w->rows + row;
    const char *x = w->vector + from * w->item;
    if (w->by_columns)
      add_columns(w, out, w->matrix + (from * w->pitch + row) * w->item, x, rows, k);
    else
      w->isa->dots[w->wide](out, w->matrix + (row * w->pitch + from) * w->item, w->pitch, x, rows, k);
  }
}

/* c[row] = alpha * the sums of the chunks + beta * c[row]. */
static void finish(const work *w, const tide_gemm_args *a, char *c, int64_t apart) {
  for (int64_t r = 0; r < w->rows; r++) {
    double sum = 0;
    for (int64_t i = 0; i < w->chunks; i++) sum += w->sums[i * w->rows + r];
    char *to = c + r * apart * w->item;
    double old = a->beta.re == 0 ? 0 : w->wide ? *(double *)to : (double)*(float *)to;
    sum = a->alpha.re * sum + (a->beta.re == 0 ? 0 : a->beta.re * old);
    if (w->wide)
      *(double *)to = sum;
    else
      *(float *)to = (float)sum;
  }
}

/* The vector as it lies dense: where it is, or gathered. */
static void gather(char *out, const char *in, int64_t apart, int64_t n, int item) {
  for (int64_t i = 0; i < n; i++) {
    if (i % CHUNK == 0 && tide__loop_stops()) return;
    memcpy(out + i * item, in + i * apart * item, (size_t)item);
  }
}

tide_status tide__gemm_vector(const tide_gemm_args *a) {
  bool column = a->n == 1; /* else A is one row, and B's transpose the matrix */
  int item = tide__item(a->dtype);
  int64_t row_apart = column ? a->a_row : a->b_col, k_apart = column ? a->a_col : a->b_row;
  int64_t vector_apart = column ? a->b_row : a->a_col;
  work w = {.isa = tide__isa_get(), .rows = column ? a->m : a->n, .k = a->k, .item = item};
  w.by_columns = k_apart != 1, w.pitch = w.by_columns ? k_apart : row_apart, w.wide = a->dtype == TIDE_FLOAT64;
  w.chunks = (w.k + CHUNK - 1) / CHUNK, w.high = w.by_columns ? COLUMN_ROWS : DOT_ROWS;
  size_t dense = vector_apart == 1 ? 0 : (size_t)(w.k * item);
  w.sums = tide__room_take((size_t)(w.chunks * w.rows) * sizeof *w.sums + dense);
  if (!w.sums) return tide__fail(TIDE_MEMORY, "matmul: no memory for the sums of a vector");
  for (int64_t i = 0; i < a->batch; i++) {
    const char *x = (const char *)a->head.ptr[1] + i * a->a_batch * item;
    const char *y = (const char *)a->head.ptr[2] + i * a->b_batch * item;
    w.matrix = column ? x : y, w.vector = column ? y : x;
    if (dense) {
      gather((char *)(w.sums + w.chunks * w.rows), w.vector, vector_apart, w.k, item);
      w.vector = (char *)(w.sums + w.chunks * w.rows);
    }
    int64_t tasks = (w.rows + w.high - 1) / w.high * w.chunks;
    tide__spread(tasks, tide__least(w.high, w.rows) * tide__least(CHUNK, w.k), run_tasks, &w);
    finish(&w, a, (char *)a->head.ptr[0] + i * a->c_batch * item, column ? a->c_row : 1);
  }
  tide__room_put(w.sums);
  return TIDE_OK;
}
