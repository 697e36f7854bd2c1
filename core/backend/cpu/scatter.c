/* scatter.c: reads and writes at indexed places: gather and scatter of kernel.def.
 *
 * The dims of a call are walked from the outermost to the innermost; the last one is a run, whose indexes become places
 * a few hundred at a time before elements move. Where the index stands still along it, it is a row.
 *
 * Values that meet in one element must do so in order, whatever the number of threads. So threads share a scatter along
 * a dim in which they cannot meet; where no such dim is long enough, each of them takes a range of the places, and
 * looks through the whole index for those that fall there. A scatter looks at its index before it writes anything.
 *
 * Invariant: no index is used before it was checked; every element is written by one thread. */
#include "base/bins.h"
#include "layout.h"

enum { RUN = 512, OUTSIDE = -1, LOOK = 1 << 16 };
#define SKIP INT64_MIN

typedef struct work {
  const tide_index_args *a;
  bool scatter, checks; /* checks: looks at the index and does nothing else */
  int split;            /* the dim along which threads share, or OUTSIDE: they share the places */
  int64_t shares;
  int64_t weight[TIDE_MAX_DIMS]; /* of each dim in the number of a step */
  _Atomic int64_t bad;           /* the first step with a bad index; numel: none */
} work;

/* Where one thread stands. */
typedef struct walk {
  work *w;
  int64_t begin, low, width; /* of the dim that is split; of the places that are its own */
  int64_t at[TIDE_MAX_DIMS], offset[3];
  int64_t place[RUN];
} walk;

static void note_bad(const walk *k, int64_t i) {
  work *w = k->w;
  int64_t step = i;
  for (int d = 0; d < w->a->ndim; d++) step += (k->at[d] + (d == w->split ? k->begin : 0)) * w->weight[d];
  int64_t was = atomic_load_explicit(&w->bad, memory_order_relaxed);
  while (step < was && !atomic_compare_exchange_weak(&w->bad, &was, step)) continue;
}

static int64_t raw_index(const tide_index_args *a, int64_t offset) {
  return a->index_dtype == TIDE_INT32 ? ((const int32_t *)a->head.ptr[2])[offset]
                                      : ((const int64_t *)a->head.ptr[2])[offset];
}

static int64_t bin(const tide_index_args *a, int64_t offset) {
  const void *edges = a->bins == TIDE_BINS_EVEN ? NULL : a->head.ptr[3];
  if (a->index_dtype == TIDE_FLOAT32)
    return tide_bin_f32(((const float *)a->head.ptr[2])[offset], (float)a->low, (float)a->high, a->length, edges,
                        a->bins);
  return tide_bin_f64(((const double *)a->head.ptr[2])[offset], a->low, a->high, a->length, edges, a->bins);
}

/* The places of the steps i .. i + n - 1 of the run, as offsets from the indexed side's element at its begin. */
static void locate(walk *k, int64_t i, int64_t n) {
  const tide_index_args *a = k->w->a;
  int last = a->ndim - 1;
  int64_t x_step = a->stride[1][last], index_step = a->stride[2][last];
  for (int64_t j = 0; j < n; j++) {
    int64_t offset = k->offset[2] + (i + j) * index_step, v;
    if (a->bins) {
      v = bin(a, offset);
    } else {
      int64_t raw = raw_index(a, offset);
      v = raw < 0 ? raw + a->length : raw - a->index_base;
      if ((uint64_t)v >= (uint64_t)a->length && !(a->located && raw == INT64_MIN)) note_bad(k, i + j);
    }
    bool mine = (uint64_t)v < (uint64_t)a->length && (uint64_t)(v - k->low) < (uint64_t)k->width;
    k->place[j] = mine ? v * a->pitch + (i + j) * x_step : SKIP;
  }
}

/* ---- elements ---- */

typedef struct wide16 {
  uint64_t v[2];
} wide16;

#define MOVE(T)                                                                                                        \
  if (scatter) {                                                                                                       \
    for (int64_t i = 0; i < n; i++)                                                                                    \
      if (place[i] != SKIP) ((T *)x)[place[i]] = ((T *)dense)[i * step];                                               \
  } else {                                                                                                             \
    for (int64_t i = 0; i < n; i++) ((T *)dense)[i * step] = place[i] == SKIP ? (T){0} : ((T *)x)[place[i]];           \
  }                                                                                                                    \
  break

static void move_elements(bool scatter, char *x, const int64_t *place, char *dense, int64_t step, int64_t n, int item) {
  switch (item) {
  case 1: MOVE(uint8_t);
  case 2: MOVE(uint16_t);
  case 4: MOVE(uint32_t);
  case 8: MOVE(uint64_t);
  default: MOVE(wide16);
  }
}

/* One value joins what is there; for the dtypes that have no loop of their own. */
static int64_t join_integers(int reduce, int64_t a, int64_t b) {
  switch (reduce) {
  case TIDE_INDEX_SUM: return (int64_t)((uint64_t)a + (uint64_t)b);
  case TIDE_INDEX_PROD: return (int64_t)((uint64_t)a * (uint64_t)b);
  case TIDE_INDEX_MAX: return a > b ? a : b;
  default: return a < b ? a : b;
  }
}

static float join_floats(int reduce, float a, float b) {
  switch (reduce) {
  case TIDE_INDEX_SUM: return a + b;
  case TIDE_INDEX_PROD: return a * b;
  case TIDE_INDEX_MAX: return a >= b || a != a ? a : b;
  default: return a <= b || a != a ? a : b;
  }
}

#define JOIN_INTEGER(T)                                                                                                \
  *(T *)x = (T)join_integers(reduce, *(T *)x, *(const T *)y);                                                          \
  break
#define JOIN_HALF(from, to)                                                                                            \
  *(uint16_t *)x = to(join_floats(reduce, from(*(uint16_t *)x), from(*(const uint16_t *)y)));                          \
  break
#define JOIN_COMPLEX(T)                                                                                                \
  if (reduce == TIDE_INDEX_SUM)                                                                                        \
    *(T *)x += *(const T *)y;                                                                                          \
  else                                                                                                                 \
    *(T *)x *= *(const T *)y;                                                                                          \
  break

static void join(int dtype, int reduce, void *x, const void *y) {
  switch (dtype) {
  case TIDE_BOOL: {
    bool either = reduce == TIDE_INDEX_SUM || reduce == TIDE_INDEX_MAX, a = *(uint8_t *)x, b = *(const uint8_t *)y;
    *(uint8_t *)x = either ? a || b : a && b;
    break;
  }
  case TIDE_UINT8: JOIN_INTEGER(uint8_t);
  case TIDE_INT8: JOIN_INTEGER(int8_t);
  case TIDE_INT16: JOIN_INTEGER(int16_t);
  case TIDE_FLOAT16: JOIN_HALF(tide__from_half, tide__to_half);
  case TIDE_BFLOAT16: JOIN_HALF(tide__from_bfloat16, tide__to_bfloat16);
  case TIDE_COMPLEX64: JOIN_COMPLEX(float _Complex);
  default: JOIN_COMPLEX(double _Complex);
  }
}

#define REDUCE(DTYPE, REDUCTION, T, EXPR)                                                                              \
  case DTYPE * 8 + REDUCTION:                                                                                          \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      if (place[i] == SKIP) continue;                                                                                  \
      T *at = (T *)x + place[i], a = *at, b = ((const T *)dense)[i * step];                                            \
      *at = (T)(EXPR);                                                                                                 \
    }                                                                                                                  \
    break;
#define REDUCE_EACH(DTYPE, T, U, KEEPS)                                                                                \
  REDUCE(DTYPE, TIDE_INDEX_SUM, T, (U)a + (U)b)                                                                        \
  REDUCE(DTYPE, TIDE_INDEX_PROD, T, (U)a *(U)b)                                                                        \
  REDUCE(DTYPE, TIDE_INDEX_MAX, T, a >= b || (KEEPS) ? a : b)                                                          \
  REDUCE(DTYPE, TIDE_INDEX_MIN, T, a <= b || (KEEPS) ? a : b)

static void reduce_elements(const tide_index_args *call, char *x, const int64_t *place, const char *dense, int64_t step,
                            int64_t n) {
  switch (call->dtype * 8 + call->reduce) {
    REDUCE_EACH(TIDE_FLOAT32, float, float, a != a)
    REDUCE_EACH(TIDE_FLOAT64, double, double, a != a)
    REDUCE_EACH(TIDE_INT32, int32_t, uint32_t, false)
    REDUCE_EACH(TIDE_INT64, int64_t, uint64_t, false)
  default:
    for (int64_t i = 0; i < n; i++)
      if (place[i] != SKIP)
        join(call->dtype, call->reduce, x + place[i] * call->item_size, dense + i * step * call->item_size);
  }
}

/* ---- rows ---- */

#define ADD_ROW(T)                                                                                                     \
  for (int64_t i = 0; i < n; i++) ((T *)x)[i] += ((const T *)dense)[i];                                                \
  return true

/* Sums of neighbours on both sides, of the dtypes that matter most. */
static bool add_row(int dtype, char *x, const char *dense, int64_t n) {
  switch (dtype) {
  case TIDE_FLOAT32: ADD_ROW(float);
  case TIDE_FLOAT64: ADD_ROW(double);
  case TIDE_INT64: ADD_ROW(uint64_t);
  default: return false;
  }
}

/* A row whose one index is good or not, without a walk over its elements; false: it takes one. */
static bool whole_row(walk *k, char *x, char *dense, int64_t n) {
  const tide_index_args *a = k->w->a;
  int last = a->ndim - 1;
  bool lined = (a->stride[0][last] == 1 && a->stride[1][last] == 1) || n == 1;
  if (!lined) return false;
  locate(k, 0, 1);
  if (k->place[0] == SKIP) {
    if (!k->w->scatter) memset(dense, 0, (size_t)(n * a->item_size));
    return true;
  }
  x += k->place[0] * a->item_size;
  if (a->reduce) {
    if (add_row(a->reduce == TIDE_INDEX_SUM ? a->dtype : -1, x, dense, n)) return true;
    for (int64_t i = 0; i < RUN; i++) k->place[i] = i;
    for (int64_t i = 0; i < n; i += RUN)
      reduce_elements(a, x + i * a->item_size, k->place, dense + i * a->item_size, 1, n - i < RUN ? n - i : RUN);
    return true;
  }
  memcpy(k->w->scatter ? x : dense, k->w->scatter ? dense : x, (size_t)(n * a->item_size));
  return true;
}

/* ---- walking ---- */

static void run(walk *k, int64_t n) {
  const work *w = k->w;
  const tide_index_args *a = w->a;
  int last = a->ndim - 1;
  char *dense = (char *)a->head.ptr[w->scatter] + k->offset[0] * a->item_size;
  char *x = (char *)a->head.ptr[!w->scatter] + k->offset[1] * a->item_size;
  bool row = a->stride[2][last] == 0;
  if (w->checks && row) {
    locate(k, 0, 1);
    return;
  }
  if (row && !w->checks && whole_row(k, x, dense, n)) return;
  for (int64_t i = 0; i < n; i += RUN) {
    int64_t m = n - i < RUN ? n - i : RUN, step = a->stride[0][last];
    if (i % LOOK == 0 && i && tide__loop_stops()) return;
    locate(k, i, m);
    if (w->checks) continue;
    if (a->reduce)
      reduce_elements(a, x, k->place, dense + i * step * a->item_size, step, m);
    else
      move_elements(w->scatter, x, k->place, dense + i * step * a->item_size, step, m, a->item_size);
  }
}

static void walk_steps(work *w, int64_t begin, int64_t end, int64_t low, int64_t width) {
  const tide_index_args *a = w->a;
  walk k;
  k.w = w, k.begin = begin, k.low = low, k.width = width;
  int64_t size[TIDE_MAX_DIMS], seen = 0;
  memcpy(size, a->size, sizeof size);
  if (w->split != OUTSIDE) size[w->split] = end - begin;
  memset(k.at, 0, sizeof k.at);
  for (int s = 0; s < 3; s++) k.offset[s] = w->split == OUTSIDE ? 0 : begin * a->stride[s][w->split];
  for (int d = 0; d >= 0;) {
    run(&k, size[a->ndim - 1]);
    seen += size[a->ndim - 1];
    if (seen >= LOOK && tide__loop_stops()) return;
    seen %= LOOK;
    for (d = a->ndim - 2; d >= 0; d--) {
      for (int s = 0; s < 3; s++) k.offset[s] += a->stride[s][d];
      if (++k.at[d] < size[d]) break;
      for (int s = 0; s < 3; s++) k.offset[s] -= size[d] * a->stride[s][d];
      k.at[d] = 0;
    }
  }
}

static void run_part(void *arg, int64_t begin, int64_t end) {
  work *w = arg;
  walk_steps(w, begin, end, 0, w->a->length);
}

static void run_share(void *arg, int64_t begin, int64_t end) {
  work *w = arg;
  int64_t width = (w->a->length + w->shares - 1) / w->shares;
  for (int64_t i = begin; i < end; i++) walk_steps(w, 0, 0, i * width, width);
}

/* The outermost dim that is long enough for all threads, else the longest; of a scatter where values cannot meet. */
static int choose_split(const tide_index_args *a, bool scatter, int64_t threads) {
  int best = OUTSIDE;
  for (int d = 0; d < a->ndim; d++) {
    if (scatter && a->stride[1][d] == 0 && a->size[d] > 1) continue;
    if (a->size[d] >= 4 * threads) return d;
    if (best == OUTSIDE || a->size[d] > a->size[best]) best = d;
  }
  return best;
}

static bool run_all(work *w, int64_t *value) {
  const tide_index_args *a = w->a;
  int64_t threads = tide_get_num_threads(), weight = 1;
  bool alone = threads == 1 || a->numel < TIDE_GRAIN;
  for (int d = a->ndim - 1; d >= 0; d--) w->weight[d] = weight, weight *= a->size[d];
  atomic_init(&w->bad, a->numel);
  w->shares = threads < a->length ? threads : a->length;
  w->split = choose_split(a, w->scatter && !w->checks, threads);
  bool shares = w->split == OUTSIDE || (w->scatter && !w->checks && !alone && a->size[w->split] < threads);
  if (shares) w->split = OUTSIDE;
  if (!shares)
    tide__spread(a->size[w->split], a->numel / a->size[w->split], run_part, w);
  else if (alone || w->shares == 1)
    walk_steps(w, 0, 0, 0, a->length);
  else
    tide__spread(w->shares, a->numel, run_share, w);
  int64_t step = atomic_load_explicit(&w->bad, memory_order_relaxed), offset = 0;
  if (step == a->numel) return false;
  for (int d = 0; d < a->ndim; d++) offset += step / w->weight[d] % a->size[d] * a->stride[2][d];
  *value = raw_index(a, offset);
  return true;
}

bool tide__cpu_gather_bad(const tide_index_args *a, int64_t *value) {
  work w = {.a = a};
  return run_all(&w, value);
}

bool tide__cpu_scatter_bad(const tide_index_args *a, int64_t *value) {
  work w = {.a = a, .scatter = true};
  return run_all(&w, value);
}

tide_status tide__cpu_gather(tide_stream *stream, const tide_index_args *a) {
  (void)stream;
  int64_t value;
  if (!tide__cpu_gather_bad(a, &value)) return TIDE_OK;
  return tide__fail_index(a->head.device, a->head.site, value, a->length, a->index_base);
}

tide_status tide__cpu_scatter(tide_stream *stream, const tide_index_args *a) {
  (void)stream;
  int64_t value;
  work w = {.a = a, .scatter = true, .checks = true};
  if (!a->bins && run_all(&w, &value))
    return tide__fail_index(a->head.device, a->head.site, value, a->length, a->index_base);
  tide__cpu_scatter_bad(a, &value);
  return TIDE_OK;
}
