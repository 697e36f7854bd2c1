/* pairs.c: what vectors give in pairs: cross products, and distances.
 *
 * Distances are sums of differences: some of the vectors of y at a time are packed in panels that
 * the first cache holds (gemm.h), and for each vector of x the loop of isa.h has the sums of many of them in registers.
 * By a product they are |x|^2 + |y|^2 - 2 x y: of rows that are extended by the squares, and the
 * roots are taken while the sums are in a cache.
 *
 * Invariant: an element of the result is computed by one thread, in an order that depends on the sizes alone. */
#include "backend/cpu/simd4.h"
#include "backend/cpu/product/gemm.h"
#include "backend/cpu/scratch.h"

/* Bytes of panels; of a part of a row of the result; tasks of a thread; vectors of x of a task, at least. */
enum { NEAR_BYTES = 24 << 10, ROW_BYTES = 4096, EACH = 4, LEAST = 32 };

typedef struct work {
  const tide_pairs_args *a;
  const tide__isa *isa;
  int item;
  bool stream;                  /* the result does not fit in the caches */
  int64_t columns, rows, tasks; /* of y at a time; of x in a task; tasks of a matrix */
  char *x;                      /* its vectors, and behind them those of y, extended */
  _Atomic bool failed;
} work;

#define CROSS(T)                                                                                                       \
  {                                                                                                                    \
    const T *x = (const T *)a->head.ptr[1] + 3 * begin, *y = (const T *)a->head.ptr[2] + 3 * begin;                    \
    T *out = (T *)a->head.ptr[0] + 3 * begin, *stop = (T *)a->head.ptr[0] + 3 * end;                                   \
    for (; out < stop; out += 3, x += 3, y += 3) {                                                                     \
      const T u = x[1] * y[2] - x[2] * y[1], v = x[2] * y[0] - x[0] * y[2], w = x[0] * y[1] - x[1] * y[0];             \
      out[0] = u, out[1] = v, out[2] = w;                                                                              \
    }                                                                                                                  \
  }
static void run_cross(void *arg, int64_t begin, int64_t end) {
  const tide_pairs_args *a = ((work *)arg)->a;
  if (a->dtype == TIDE_FLOAT32)
    CROSS(float)
  else
    CROSS(double)
}

/* The square roots of n numbers, of which none should be below 0. */
static void take_roots(const tide__isa *isa, int dtype, void *x, int64_t n) {
  const tide__ctype type = tide__ctype_of(dtype);
  const tide__loop least_zero = isa->op[TIDE_OP_relu][type], root = isa->op[TIDE_OP_sqrt][type];
  const double zero[3] = {0};
  double last[TIDE_BLOCK] = {0};
  const size_t rest = (size_t)(n % TIDE_BLOCK * tide__item(dtype));
  char *end = (char *)x + n * tide__item(dtype) - rest;
  memcpy(last, end, rest);
  least_zero(x, x, NULL, NULL, zero, n / TIDE_BLOCK), least_zero(last, last, NULL, NULL, zero, 1);
  root(x, x, NULL, NULL, zero, n / TIDE_BLOCK), root(last, last, NULL, NULL, zero, 1);
  memcpy(end, last, rest);
}

/* The distances of one vector of x and those of y that are packed. */
static void run_row(const work *w, char *out, const char *x, const char *y, int64_t bytes) {
  const int64_t tile = 2 * w->isa->product_bytes;
  _Alignas(64) char sums[ROW_BYTES];
  const bool square = w->a->op != TIDE_PAIRS_SUM;
  for (int64_t n; bytes > 0; out += n, bytes -= n) {
    n = tide__least(bytes, sizeof sums);
    for (int64_t i = 0; i < n; i += tile, y += tile * w->a->k)
      w->isa->distances[w->item == 8](sums + i, x, y, w->a->k, square);
    if (square) take_roots(w->isa, w->a->dtype, sums, n / w->item);
    if (w->stream)
      w->isa->stream(out, sums, (size_t)n);
    else
      memcpy(out, sums, (size_t)n);
  }
}

static void run_tasks(void *arg, int64_t begin, int64_t end) {
  work *w = arg;
  const tide_pairs_args *a = w->a;
  tide__panels p = {.isa = w->isa, .dtype = a->dtype, .compute = a->dtype, .item = w->item, .lanes = a->m};
  p.pack = w->isa->pack_lanes[w->item == 8], p.width = w->isa->product_bytes / w->item, p.lanes_apart = a->k;
  p.k_apart = 1, p.high = p.width, p.tall = INT64_MAX, p.columns = true;
  char *panels = tide__room_take((size_t)(w->columns * a->k * w->item + 1));
  if (!panels) {
    atomic_store_explicit(&w->failed, true, memory_order_relaxed);
    return;
  }
  for (int64_t i = begin; i < end; i++) {
    const int64_t matrix = i / w->tasks, top = i % w->tasks * w->rows, bottom = tide__least(top + w->rows, a->n);
    const char *x = (const char *)a->head.ptr[1] + matrix * a->n * a->k * w->item;
    const char *y = (const char *)a->head.ptr[2] + matrix * a->m * a->k * w->item;
    for (int64_t left = 0; left < a->m; left += w->columns) {
      const int64_t n = tide__least(w->columns, a->m - left);
      tide__gemm_pack(&p, panels, y, left / p.width, tide__ceil_div(n, p.width), 0, a->k);
      for (int64_t row = top; row < bottom && !tide__loop_stops(); row++)
        run_row(w, (char *)a->head.ptr[0] + ((matrix * a->n + row) * a->m + left) * w->item, x + row * a->k * w->item,
                panels, n * w->item);
    }
  }
  if (w->stream) w->isa->stream_end();
  tide__room_put(panels);
}

/* x becomes (-2 x, |x|^2, 1), y (y, 1, |y|^2). */
#define EXTEND(T, s, V)                                                                                                \
  static void extend_##s(T *to, const T *from, int64_t k, bool of_y) {                                                 \
    const T by = of_y ? 1 : -2;                                                                                        \
    V part = {0}, v;                                                                                                   \
    T sum = 0, each[sizeof v / sizeof(T)];                                                                             \
    int64_t j = 0, n = (int64_t)(sizeof each / sizeof(T));                                                             \
    for (; j + n <= k; j += n) {                                                                                       \
      memcpy(&v, from + j, sizeof v);                                                                                  \
      part += v * v, v *= by;                                                                                          \
      memcpy(to + j, &v, sizeof v);                                                                                    \
    }                                                                                                                  \
    for (; j < k; j++) sum += from[j] * from[j], to[j] = by * from[j];                                                 \
    memcpy(each, &part, sizeof each);                                                                                  \
    for (j = 0; j < n; j++) sum += each[j];                                                                            \
    to[k + of_y] = sum, to[k + !of_y] = 1;                                                                             \
  }
EXTEND(float, f32, four)
EXTEND(double, f64, two)
static void extend(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  const int64_t k = w->a->k, first = w->a->batch * w->a->n;
  for (int64_t i = begin; i < end; i++) {
    const bool of_y = i >= first;
    const void *from = (const char *)w->a->head.ptr[1 + of_y] + (i - of_y * first) * k * w->item;
    char *to = w->x + i * (k + 2) * w->item;
    if (w->item == 4)
      extend_f32((float *)(void *)to, from, k, of_y);
    else
      extend_f64((double *)(void *)to, from, k, of_y);
  }
}

static tide_status run_product(work *w) {
  const tide_pairs_args *a = w->a;
  const int64_t k = a->k + 2, left = a->batch * a->n, right = a->batch * a->m;
  w->x = tide__room_take((size_t)((left + right) * k * w->item));
  if (!w->x) return tide__fail(TIDE_MEMORY, "cdist: no memory for %lld points", (long long)(left + right));
  tide__spread(left + right, k, extend, w);
  tide_gemm_args g = {.head = a->head, .dtype = a->dtype, .m = a->n, .n = a->m, .k = k, .batch = a->batch};
  g.head.ptr[1] = w->x, g.head.ptr[2] = w->x + left * k * w->item;
  g.a_row = k, g.a_col = 1, g.b_row = 1, g.b_col = k, g.c_row = a->m;
  g.a_batch = a->n * k, g.b_batch = a->m * k, g.c_batch = a->n * a->m, g.alpha.re = 1;
  tide_status status = tide__gemm_own(&g, take_roots);
  tide__room_put(w->x);
  return status;
}

tide_status tide__cpu_pairs(tide_stream *stream, const tide_pairs_args *a) {
  work w = {.a = a, .isa = tide__isa_get(), .item = tide__item(a->dtype)};
  if (a->op == TIDE_PAIRS_CROSS) {
    tide__spread(a->batch, 9, run_cross, &w);
    return TIDE_OK;
  }
  if (a->op == TIDE_PAIRS_PRODUCT) return run_product(&w);
  const int64_t tile = 2 * w.isa->product_bytes / w.item, bytes = tile * a->k * w.item;
  w.columns = tile * tide__least(tide__ceil_div(a->m, tile), 1 + NEAR_BYTES / (bytes + 1));
  w.rows = tide__ceil_div(a->n, EACH * tide_get_num_threads());
  if (w.rows < LEAST) w.rows = LEAST;
  w.tasks = tide__ceil_div(a->n, w.rows), w.stream = tide__beyond_cache(a->batch * a->n * a->m * w.item);
  tide__spread(a->batch * w.tasks, w.rows * a->m * a->k, run_tasks, &w);
  if (!atomic_load_explicit(&w.failed, memory_order_relaxed)) return TIDE_OK;
  return tide__fail(TIDE_MEMORY, "cdist: no memory for %lld points", (long long)w.columns);
}
