/* gemm_own.c: matrix products without a library: integers, odd strides, and machines that have no BLAS.
 *
 * The result is cut into tiles; each tile belongs to one thread. For slices of k, panels of A (six rows wide) and of B
 * (one 64-byte vector wide) are packed in the compute type, whatever their strides and dtype, and the inner loop of
 * isa.h adds their product to the tile's sums. Integers narrower than 64 bits are computed in int32, which wraps as
 * they do; complex numbers by plain loops over the packed panels.
 *
 * Invariant: the order of the sums depends on the sizes alone. */
#include "gemm.h"

#include <complex.h>
#include <stdlib.h>

#undef I

enum { SLICE = 256, TILE_ROWS = 96, TILE_BYTES = 1024, PANEL = 6 };

typedef struct work {
  const tide_gemm_args *a;
  const tide__isa *isa;
  int compute, item;        /* dtype that is computed in, and its bytes */
  int64_t lanes, tile_cols; /* of a panel of B; of a tile */
  int64_t tiles_down, tiles_across;
  _Atomic bool failed;
} work;

/* One tile: room for the panels and the sums, and where it lies. */
typedef struct tile {
  char *a, *b, *sums;
  int64_t matrix, row, col, rows, cols;
} tile;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int compute_dtype(int dtype) { return dtype < TIDE_INT64 ? TIDE_INT32 : dtype; }

static bool is_complex(const work *w) { return w->compute >= TIDE_COMPLEX64; }

/* Elements of a strided vector, in the compute type, one every `step` elements of out. */
static void pack_line(const work *w, char *out, int64_t step, const char *in, int64_t stride, int64_t n) {
  _Alignas(16) char raw[SLICE * 16], line[SLICE * 16];
  int dtype = w->a->dtype, item = tide__item(dtype);
  const char *from = in;
  if (stride != 1) {
    for (int64_t i = 0; i < n; i++) memcpy(raw + i * item, in + i * stride * item, (size_t)item);
    from = raw;
  }
  if (dtype != w->compute) {
    tide__cast(w->isa, line, w->compute, from, dtype, n);
    from = line;
  }
  switch (w->item) {
  case 4:
    for (int64_t i = 0; i < n; i++) ((uint32_t *)out)[i * step] = ((const uint32_t *)from)[i];
    break;
  case 8:
    for (int64_t i = 0; i < n; i++) ((uint64_t *)out)[i * step] = ((const uint64_t *)from)[i];
    break;
  default:
    for (int64_t i = 0; i < n; i++) memcpy(out + i * step * 16, from + i * 16, 16);
    break;
  }
}

/* A's rows in panels of six: panel p holds, for each k, elements of rows 6p to 6p + 5; rows that are missing are zero.
 */
static void pack_a(const work *w, const tile *t, int64_t from, int64_t n) {
  const tide_gemm_args *a = w->a;
  int64_t item = tide__item(a->dtype);
  const char *base =
      (const char *)a->head.ptr[1] + (t->matrix * a->a_batch + t->row * a->a_row + from * a->a_col) * item;
  int64_t panels = (t->rows + PANEL - 1) / PANEL;
  memset(t->a, 0, (size_t)(panels * PANEL * n * w->item));
  for (int64_t r = 0; r < t->rows; r++)
    pack_line(w, t->a + ((r / PANEL) * PANEL * n + r % PANEL) * w->item, PANEL, base + r * a->a_row * item, a->a_col,
              n);
}

/* B's columns in panels of one vector: panel p holds, for each k, `lanes` neighbouring elements. */
static void pack_b(const work *w, const tile *t, int64_t from, int64_t n) {
  const tide_gemm_args *a = w->a;
  int64_t item = tide__item(a->dtype);
  const char *base =
      (const char *)a->head.ptr[2] + (t->matrix * a->b_batch + from * a->b_row + t->col * a->b_col) * item;
  int64_t panels = (t->cols + w->lanes - 1) / w->lanes;
  memset(t->b, 0, (size_t)(panels * w->lanes * n * w->item));
  for (int64_t p = 0; p < panels; p++) {
    int64_t cols = least(w->lanes, t->cols - p * w->lanes);
    char *panel = t->b + p * w->lanes * n * w->item;
    const char *in = base + p * w->lanes * a->b_col * item;
    if (a->b_col == 1)
      for (int64_t k = 0; k < n; k++)
        pack_line(w, panel + k * w->lanes * w->item, 1, in + k * a->b_row * item, 1, cols);
    else
      for (int64_t c = 0; c < cols; c++)
        pack_line(w, panel + c * w->item, w->lanes, in + c * a->b_col * item, a->b_row, n);
  }
}

#define COMPLEX_PRODUCT(T)                                                                                             \
  for (int64_t k = 0; k < n; k++)                                                                                      \
    for (int64_t r = 0; r < PANEL; r++) {                                                                              \
      T x = ((const T *)a)[k * PANEL + r];                                                                             \
      for (int64_t c = 0; c < w->lanes; c++) {                                                                         \
        T y = ((const T *)b)[k * w->lanes + c];                                                                        \
        T *sum = (T *)sums + r * w->tile_cols + c;                                                                     \
        __real__ *sum += __real__ x * __real__ y - __imag__ x * __imag__ y;                                            \
        __imag__ *sum += __real__ x * __imag__ y + __imag__ x * __real__ y;                                            \
      }                                                                                                                \
    }

static void multiply_panels(const work *w, char *sums, const char *a, const char *b, int64_t n) {
  if (w->compute == TIDE_COMPLEX64) {
    COMPLEX_PRODUCT(float _Complex)
  } else if (w->compute == TIDE_COMPLEX128) {
    COMPLEX_PRODUCT(double _Complex)
  } else {
    w->isa->product[tide__ctype_of(w->compute)](sums, w->tile_cols, a, b, n);
  }
}

static void add_slice(const work *w, const tile *t, int64_t from, int64_t n) {
  pack_a(w, t, from, n);
  pack_b(w, t, from, n);
  for (int64_t r = 0; r < t->rows; r += PANEL)
    for (int64_t c = 0; c < t->cols; c += w->lanes)
      multiply_panels(w, t->sums + (r * w->tile_cols + c) * w->item, t->a + r * n * w->item, t->b + c * n * w->item, n);
}

/* x = alpha * x + beta * old for a row of the tile. Numbers of integer dtypes are in tide_value.i. */
#define SCALE_REAL(T, U, alpha_, beta_)                                                                                \
  {                                                                                                                    \
    U alpha = (U)(alpha_), beta = (U)(beta_);                                                                          \
    U *v = (U *)x;                                                                                                     \
    const U *o = (const U *)old;                                                                                       \
    for (int64_t j = 0; j < n; j++) v[j] = o ? alpha * v[j] + beta * o[j] : alpha * v[j];                              \
  }
#define SCALE_COMPLEX(T, part)                                                                                         \
  {                                                                                                                    \
    const part ar = (part)a->alpha.re, ai = (part)a->alpha.im, br = (part)a->beta.re, bi = (part)a->beta.im;           \
    part *v = (part *)x;                                                                                               \
    const part *o = (const part *)old;                                                                                 \
    for (int64_t j = 0; j < n; j++) {                                                                                  \
      part re = ar * v[2 * j] - ai * v[2 * j + 1], im = ar * v[2 * j + 1] + ai * v[2 * j];                             \
      if (o) re += br * o[2 * j] - bi * o[2 * j + 1], im += br * o[2 * j + 1] + bi * o[2 * j];                         \
      v[2 * j] = re, v[2 * j + 1] = im;                                                                                \
    }                                                                                                                  \
  }

static void scale_row(const work *w, char *x, const char *old, int64_t n) {
  const tide_gemm_args *a = w->a;
  switch (w->compute) {
  case TIDE_INT32: SCALE_REAL(int32_t, uint32_t, a->alpha.i, a->beta.i) break;
  case TIDE_INT64: SCALE_REAL(int64_t, uint64_t, a->alpha.i, a->beta.i) break;
  case TIDE_FLOAT32: SCALE_REAL(float, float, a->alpha.re, a->beta.re) break;
  case TIDE_FLOAT64: SCALE_REAL(double, double, a->alpha.re, a->beta.re) break;
  case TIDE_COMPLEX64: SCALE_COMPLEX(float _Complex, float) break;
  default: SCALE_COMPLEX(double _Complex, double) break;
  }
}

static bool keeps_old(const work *w) {
  const tide_value *beta = &w->a->beta;
  return w->compute <= TIDE_INT64 ? beta->i != 0 : beta->re != 0 || (is_complex(w) && beta->im != 0);
}

static void store_tile(const work *w, const tile *t) {
  const tide_gemm_args *a = w->a;
  int item = tide__item(a->dtype);
  for (int64_t r = 0; r < t->rows; r++) {
    char *c = (char *)a->head.ptr[0] + (t->matrix * a->c_batch + (t->row + r) * a->c_row + t->col) * item;
    char *x = t->sums + r * w->tile_cols * w->item, *old = NULL;
    if (keeps_old(w)) {
      old = t->b; /* no longer needed, and large enough for a row */
      tide__cast(w->isa, old, w->compute, c, a->dtype, t->cols);
    }
    scale_row(w, x, old, t->cols);
    tide__cast(w->isa, c, a->dtype, x, w->compute, t->cols);
  }
}

static void run_tiles(void *arg, int64_t begin, int64_t end) {
  work *w = arg;
  const tide_gemm_args *a = w->a;
  size_t a_bytes = (size_t)(TILE_ROWS * SLICE * w->item), b_bytes = (size_t)(w->tile_cols * SLICE * w->item);
  size_t sum_bytes = (size_t)(TILE_ROWS * w->tile_cols * w->item);
  char *room = aligned_alloc(64, (a_bytes + b_bytes + sum_bytes + 63) / 64 * 64);
  if (!room) {
    atomic_store_explicit(&w->failed, true, memory_order_relaxed);
    return;
  }
  tile t = {.a = room, .b = room + a_bytes, .sums = room + a_bytes + b_bytes};
  for (int64_t i = begin; i < end; i++) {
    int64_t place = i % (w->tiles_down * w->tiles_across);
    t.matrix = i / (w->tiles_down * w->tiles_across);
    t.row = place / w->tiles_across * TILE_ROWS, t.col = place % w->tiles_across * w->tile_cols;
    t.rows = least(TILE_ROWS, a->m - t.row), t.cols = least(w->tile_cols, a->n - t.col);
    memset(t.sums, 0, sum_bytes);
    for (int64_t k = 0; k < a->k; k += SLICE) add_slice(w, &t, k, least(SLICE, a->k - k));
    store_tile(w, &t);
  }
  free(room);
}

tide_status tide__gemm_own(const tide_gemm_args *a) {
  work w;
  w.a = a, w.isa = tide__isa_get();
  w.compute = compute_dtype(a->dtype), w.item = tide__item(w.compute);
  w.lanes = 64 / w.item, w.tile_cols = TILE_BYTES / w.item;
  w.tiles_down = (a->m + TILE_ROWS - 1) / TILE_ROWS, w.tiles_across = (a->n + w.tile_cols - 1) / w.tile_cols;
  atomic_init(&w.failed, false);
  int64_t each = least(a->m, TILE_ROWS) * least(a->n, w.tile_cols) * a->k;
  tide__spread(a->batch * w.tiles_down * w.tiles_across, each, run_tiles, &w);
  if (atomic_load_explicit(&w.failed, memory_order_relaxed))
    return tide__fail(TIDE_MEMORY, "matmul: no memory for the panels of a tile");
  return TIDE_OK;
}
