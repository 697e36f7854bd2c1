/* scatter.c: reads and writes at indexed places: the walk of gather and scatter of kernel.def.
 *
 * The dims of a call are walked from the outermost to the innermost; the last one is a run, whose indexes become places
 * a few hundred at a time before anything moves. What moves is an element, or a row: where the index stands still along
 * the innermost dim and both sides have its elements side by side, that dim is taken as one.
 *
 * Values that meet in one element must do so in order, whatever the number of threads. So threads share a scatter along
 * a dim in which they cannot meet. Where no such dim is long enough, elements go to their places by way of buckets; of
 * rows each thread takes a range of the places, and looks through the whole index for those that fall there.
 *
 * Invariant: no index is used as a place before it was checked; every element is written by one thread. */
#include "scatter.h"
#include "base/bins.h"

enum { RUN = 512, OUTSIDE = TIDE_SCATTER_OUTSIDE, LOOK = 1 << 16, AHEAD = 8, SOON = 32 };
enum { FAR = 1 << 20, LINE = 64 }; /* bytes */
#define SKIP INT64_MIN
#define ANY  UINT64_MAX

typedef tide__scatter work;

/* Where one thread stands. */
typedef struct walk {
  work *w;
  int64_t begin, low, width; /* of the dim that is split; of the places that are its own */
  int64_t part, outside;     /* outside: the place of what falls in no bin */
  char *x;                   /* the indexed side */
  tide__sums *sums;          /* or NULL: values join x itself */
  const tide_index_args *a;  /* how they join */
  int64_t at[TIDE_MAX_DIMS + 1], offset[3], row;
  int64_t place[RUN];
} walk;

static void note_bad(const walk *k, int64_t i) {
  work *w = k->w;
  int64_t step = i;
  for (int d = 0; d < w->ndim; d++) step += (k->at[d] + (d == w->split ? k->begin : 0)) * w->weight[d];
  int64_t was = atomic_load_explicit(&w->bad, memory_order_relaxed);
  while (step < was && !atomic_compare_exchange_weak(&w->bad, &was, step)) continue;
}

static int64_t raw_index(const tide_index_args *a, int64_t offset) {
  return a->index_dtype == TIDE_INT32 ? ((const int32_t *)a->head.ptr[2])[offset]
                                      : ((const int64_t *)a->head.ptr[2])[offset];
}

#define BIN(T, name)                                                                                                   \
  name(((const T *)a->head.ptr[2])[offset + j * step], (T)a->low, (T)a->high, a->length,                               \
       a->bins == TIDE_BINS_EVEN ? NULL : a->head.ptr[3], a->bins)
/* The same of bins of one width, without a branch. */
#define EVEN_BINS(T)                                                                                                   \
  do {                                                                                                                 \
    const T *x = (const T *)a->head.ptr[2] + offset, low = (T)a->low, high = (T)a->high, many = (T)a->length;          \
    for (int64_t j = 0; j < n; j++) {                                                                                  \
      T y = x[j] >= low ? x[j] <= high ? x[j] : low : low;                                                             \
      int32_t v = (int32_t)((y - low) * many / (high - low));                                                          \
      v = v > last ? last : v < 0 ? 0 : v;                                                                             \
      bin[j] = y == x[j] ? v : -1;                                                                                     \
    }                                                                                                                  \
  } while (0)

/* The bins that values fall in as places. True if some fall in none and have no place for that. */
static bool find_bins(walk *k, int64_t offset, int64_t step, int64_t n) {
  const tide_index_args *a = k->w->a;
  const int32_t last = (int32_t)(a->length - 1);
  int32_t bin[RUN];
  int64_t inside = 0;
  bool even = a->bins == TIDE_BINS_EVEN && step == 1 && a->length < INT32_MAX;
  if (even && a->index_dtype == TIDE_FLOAT32)
    EVEN_BINS(float);
  else if (even)
    EVEN_BINS(double);
  for (int64_t j = 0; j < n; j++) {
    int64_t v = even ? bin[j] : a->index_dtype == TIDE_FLOAT32 ? BIN(float, tide_bin_f32) : BIN(double, tide_bin_f64);
    k->place[j] = v < 0 ? k->outside : v * a->pitch, inside += v >= 0;
  }
  return inside < n && k->outside == SKIP;
}

/* Are all n values, from `offset` on, not below base and below base + length? Those that count from the end are not. */
static bool count_from_base(const tide_index_args *a, int64_t offset, int64_t step, int64_t n) {
  int64_t base = a->index_base, last = a->length - 1, outside = 0;
  const int64_t *index = (const int64_t *)a->head.ptr[2] + offset;
  if (a->index_dtype == TIDE_INT64 && step == 1) {
    for (int64_t j = n; j < 2 * n; j += LINE / 8) __builtin_prefetch(index + j); /* the next ones */
    for (int64_t j = 0; j < n; j++) outside |= (index[j] - base) | (last - (index[j] - base));
  } else {
    for (int64_t j = 0; j < n; j++) {
      int64_t v = raw_index(a, offset + j * step) - base;
      outside |= v | (last - v);
    }
  }
  return outside >= 0;
}

#define PLACES(T)                                                                                                      \
  for (int64_t j = 0; j < n; j++) k->place[j] = ((const T *)index)[j * index_step] * pitch + j * x_step - base * pitch

/* The places of the steps i .. i + n - 1 of the run, as offsets from the indexed side's element of step i, in k->place.
 * True if some of them are none of this thread's. */
static bool locate(walk *k, int64_t i, int64_t n) {
  const work *w = k->w;
  const tide_index_args *a = w->a;
  int last = w->ndim - 1;
  int64_t x_step = w->stride[1][last], index_step = w->stride[2][last], offset = k->offset[2] + i * index_step;
  int64_t length = a->length, base = a->index_base, pitch = a->pitch;
  const char *index = (const char *)a->head.ptr[2] + offset * tide__item(a->index_dtype);
  if (a->bins) return find_bins(k, offset, index_step, n);
  bool plain = count_from_base(a, offset, index_step, n);
  if (plain && w->checks) return false;
  if (plain && k->width == length) {
    if (a->index_dtype == TIDE_INT32)
      PLACES(int32_t);
    else
      PLACES(int64_t);
    return false;
  }
  bool others = false;
  for (int64_t j = 0; j < n; j++) {
    int64_t raw = raw_index(a, offset + j * index_step), v = raw < 0 ? raw + length : raw - base;
    bool own = (uint64_t)(v - k->low) < (uint64_t)k->width;
    k->place[j] = own ? v * pitch + j * x_step : SKIP, others |= !own;
    if ((uint64_t)v >= (uint64_t)length && (!a->located || raw != INT64_MIN)) note_bad(k, i + j);
  }
  return others;
}

/* ---- elements ---- */

typedef struct wide16 {
  uint64_t v[2];
} wide16;

/* Moves at places, which count from `base`, as far as none is beyond `most`; how many that were. */
#define PLACE_OR_END                                                                                                   \
  int64_t v = place[i] - base;                                                                                         \
  if ((uint64_t)v > most) return i
#define MOVE(T)                                                                                                        \
  if (scatter)                                                                                                         \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      PLACE_OR_END;                                                                                                    \
      ((T *)x)[v] = ((T *)dense)[i * step];                                                                            \
    }                                                                                                                  \
  else                                                                                                                 \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      PLACE_OR_END;                                                                                                    \
      ((T *)dense)[i * step] = ((T *)x)[v];                                                                            \
    }                                                                                                                  \
  break

static int64_t move_elements(bool scatter, char *x, const int64_t *place, int64_t base, uint64_t most, char *dense,
                             int64_t step, int64_t n, int item) {
  switch (item) {
  case 1: MOVE(uint8_t);
  case 2: MOVE(uint16_t);
  case 4: MOVE(uint32_t);
  case 8: MOVE(uint64_t);
  default: MOVE(wide16);
  }
  return n;
}

/* What moves to places of this thread's goes together, without a branch that nobody can
 * foresee. Returns how many. */
#define KEEP(T)                                                                                                        \
  for (int64_t i = 0; i < n; i++) {                                                                                    \
    ((T *)kept)[count] = ((const T *)dense)[i * step];                                                                 \
    place[count] = place[i];                                                                                           \
    count += place[i] != SKIP;                                                                                         \
  }                                                                                                                    \
  break

static int64_t keep_own(int64_t *place, void *kept, const char *dense, int64_t step, int64_t n, int item) {
  int64_t count = 0;
  switch (item) {
  case 1: KEEP(uint8_t);
  case 2: KEEP(uint16_t);
  case 4: KEEP(uint32_t);
  case 8: KEEP(uint64_t);
  default: KEEP(wide16);
  }
  return count;
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
      PLACE_OR_END;                                                                                                    \
      T *at = (T *)x + v, a = *at, b = ((const T *)dense)[i * step];                                                   \
      *at = (T)(EXPR);                                                                                                 \
    }                                                                                                                  \
    break;
#define REDUCE_EACH(DTYPE, T, U, KEEPS)                                                                                \
  REDUCE(DTYPE, TIDE_INDEX_SUM, T, (U)a + (U)b)                                                                        \
  REDUCE(DTYPE, TIDE_INDEX_PROD, T, (U)a *(U)b)                                                                        \
  REDUCE(DTYPE, TIDE_INDEX_MAX, T, (a >= b) | (KEEPS) ? a : b)                                                         \
  REDUCE(DTYPE, TIDE_INDEX_MIN, T, (a <= b) | (KEEPS) ? a : b)

static int64_t reduce_elements(const tide_index_args *call, char *x, const int64_t *place, int64_t base, uint64_t most,
                               const char *dense, int64_t step, int64_t n) {
  switch (call->dtype * 8 + call->reduce) {
    REDUCE_EACH(TIDE_FLOAT32, float, float, a != a)
    REDUCE_EACH(TIDE_FLOAT64, double, double, a != a)
    REDUCE_EACH(TIDE_INT32, int32_t, uint32_t, false)
    REDUCE_EACH(TIDE_INT64, int64_t, uint64_t, false)
  default:
    for (int64_t i = 0; i < n; i++) {
      PLACE_OR_END;
      join(call->dtype, call->reduce, x + v * call->item_size, dense + i * step * call->item_size);
    }
  }
  return n;
}

/* ---- rows ---- */

#define ADD_ROW(T)                                                                                                     \
  for (int64_t i = 0; i < n; i++) ((T *)x)[i] += ((const T *)dense)[i];                                                \
  break

void tide__scatter_row(const tide_index_args *a, char *x, const char *dense, int64_t n) {
  int64_t place[RUN];
  switch (a->reduce == TIDE_INDEX_SUM ? a->dtype : -1) {
  case TIDE_FLOAT32: ADD_ROW(float);
  case TIDE_FLOAT64: ADD_ROW(double);
  case TIDE_INT64: ADD_ROW(uint64_t);
  default:
    for (int64_t i = 0; i < RUN && i < n; i++) place[i] = i;
    for (int64_t i = 0; i < n; i += RUN)
      reduce_elements(a, x + i * a->item_size, place, 0, ANY, dense + i * a->item_size, 1, n - i < RUN ? n - i : RUN);
  }
}

/* n values, `step` apart, as those that they become before they join. */
static void widen(const tide_index_args *a, int from, void *out, char *values, int64_t step, int64_t n) {
  _Alignas(16) char line[RUN * 8];
  int64_t place[RUN];
  if (step != 1) {
    for (int64_t j = 0; j < n; j++) place[j] = j * step;
    move_elements(false, values, place, 0, ANY, line, 1, n, tide__item(from));
    values = line;
  }
  tide__isa_get()->convert[a->dtype][from](out, values, n);
}

/* A row joins one of a wider dtype. */
static __attribute__((noinline)) void join_wide_row(const walk *k, char *x, char *dense) {
  const int from = tide__scatter_dense(k->w), item = tide__scatter_item(k->w);
  _Alignas(16) char wide[RUN * 16];
  for (int64_t i = 0, m; i < k->row; i += m) {
    m = k->row - i < RUN ? k->row - i : RUN;
    widen(k->a, from, wide, dense + i * item, 1, m);
    tide__scatter_row(k->a, x + i * k->a->item_size, wide, m);
  }
}

/* Rows join those at k->place. */
static void join_rows(const walk *k, char *x, char *dense, int64_t step, int64_t n) {
  const tide_index_args *a = k->a;
  const bool widens = tide__scatter_dense(k->w) != a->dtype;
  const int64_t item = a->item_size, row = k->row;
  step *= tide__scatter_item(k->w);
  for (int64_t i = 0; i < n; i++, dense += step) {
    if (i + AHEAD < n && k->place[i + AHEAD] != SKIP) __builtin_prefetch(x + k->place[i + AHEAD] * item);
    if (k->place[i] == SKIP) continue;
    if (widens)
      join_wide_row(k, x + k->place[i] * item, dense);
    else
      tide__scatter_row(a, x + k->place[i] * item, dense, row);
  }
}

/* The rows of a run, at k->place; the processor is told of those to come, which it cannot guess. */
static void move_rows(const walk *k, char *x, char *dense, int64_t step, int64_t n) {
  const tide_index_args *a = k->w->a;
  size_t bytes = (size_t)(k->row * a->item_size);
  if (a->reduce) {
    join_rows(k, x, dense, step, n);
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    if (i + AHEAD < n && k->place[i + AHEAD] != SKIP) __builtin_prefetch(x + k->place[i + AHEAD] * a->item_size);
    char *one = dense + i * step * a->item_size;
    if (k->place[i] == SKIP) {
      if (!k->w->scatter) memset(one, 0, bytes);
      continue;
    }
    char *other = x + k->place[i] * a->item_size;
    if (k->w->fills) {
      memcpy(other, one, (size_t)a->item_size);
      for (size_t done = (size_t)a->item_size; done < bytes; done *= 2)
        memcpy(other + done, other, bytes - done < done ? bytes - done : done);
    } else {
      char *to = k->w->scatter ? other : one, *from = k->w->scatter ? one : other;
      if (bytes == 16)
        memcpy(to, from, 16);
      else
        memcpy(to, from, bytes);
    }
  }
}

/* ---- walking ---- */

/* Elements of a run. Where each place lies at random in what no cache holds, the processor is told of those to come. */
static int64_t move_some(const walk *k, char *x, const int64_t *place, int64_t base, uint64_t most, char *dense,
                         int64_t step, int64_t n) {
  const work *w = k->w;
  const tide_index_args *a = k->a;
  const uint64_t item = (uint64_t)a->item_size;
  for (int64_t i = 0, some = w->far ? SOON : n; i < n; i += some) {
    char *from = dense + i * step * a->item_size;
    if (some > n - i) some = n - i;
    for (int64_t t = i + some; w->far && t < n && t < i + some + SOON; t++)
      __builtin_prefetch((void *)((uintptr_t)x + (uint64_t)(place[t] - base) * item), 1);
    int64_t done = a->reduce ? reduce_elements(a, x, place + i, base, most, from, step, some)
                             : move_elements(w->scatter, x, place + i, base, most, from, step, some, a->item_size);
    if (done < some) return i + done;
  }
  return n;
}

static void run(walk *k, int64_t n) {
  const work *w = k->w;
  const tide_index_args *a = w->a;
  int64_t step = w->stride[0][w->ndim - 1], x_step = w->stride[1][w->ndim - 1];
  const int from = tide__scatter_dense(w), item = tide__scatter_item(w), joined = k->a->item_size;
  const bool row = w->size[w->ndim] > 1, widens = from != k->a->dtype && !row && !w->checks;
  char *dense = (char *)a->head.ptr[w->scatter] + k->offset[0] * item;
  char *x = k->x + k->offset[1] * a->item_size;
  const int64_t *index = (const int64_t *)a->head.ptr[2] + k->offset[2];
  /* The values themselves are places, as long as none is bad or counts from the end. */
  const bool direct = a->index_dtype == TIDE_INT64 && !a->bins && !w->checks && a->pitch == 1 && x_step == 0 &&
                      w->stride[2][w->ndim - 1] == 1 && !row && k->width == a->length && a->length > 0 && !k->sums;
  for (int64_t i = 0, m; i < n; i += m) {
    m = n - i < RUN ? n - i : RUN;
    if (i && i % LOOK == 0 && tide__loop_stops()) return;
    char *there = x + i * x_step * a->item_size, *here = dense + i * step * item;
    int64_t shift = k->offset[1] + i * x_step - w->lowest, apart = step;
    _Alignas(16) char kept[RUN * 16], wide[RUN * 16];
    if (widens) widen(k->a, from, wide, here, step, m), here = wide, apart = 1;
    if (direct) {
      const uint64_t last = (uint64_t)a->length - 1;
      int64_t done = w->buckets
                         ? tide__buckets_add(w->buckets, k->part, index + i, a->index_base, last, shift, here, apart, m)
                         : move_some(k, there, index + i, a->index_base, last, here, apart, m);
      if (done == m) continue;
      i += done, m -= done, here += done * apart * joined;
    }
    bool others = locate(k, i, m);
    if (w->checks) continue;
    if (k->sums) there = tide__sums_find(k->sums, k->place, k->offset[1] + i * x_step, m);
    int64_t count = m;
    if (row || (others && !w->scatter)) {
      move_rows(k, there, here, step, m);
      continue;
    }
    if (others) count = keep_own(k->place, kept, here, apart, m, joined), here = kept, apart = 1;
    if (w->buckets)
      tide__buckets_add(w->buckets, k->part, k->place, 0, ANY, shift, here, apart, count);
    else
      move_some(k, there, k->place, 0, ANY, here, apart, count);
  }
}

char *tide__scatter_line(const work *w, int64_t line) {
  const tide_index_args *a = w->a;
  return (char *)a->head.ptr[0] + line * w->stride[1][0] * a->item_size;
}

static void save_line(const walk *k) {
  const work *w = k->w;
  const size_t bytes = (size_t)(w->a->length * w->a->item_size);
  int64_t line = k->begin + k->at[0];
  tide__isa_get()->stream(w->saved + line * (int64_t)bytes, tide__scatter_line(w, line), bytes);
}

static void walk_steps(work *w, int64_t part, int64_t begin, int64_t end, int64_t low, int64_t width) {
  const int64_t item = w->a->item_size;
  walk k;
  k.w = w, k.begin = begin, k.low = low, k.width = width, k.part = part;
  k.x = w->sums ? w->sums + part * w->each - w->lowest * item : w->a->head.ptr[!w->scatter];
  k.outside = w->sums ? w->lowest + w->span : SKIP;
  int64_t size[TIDE_MAX_DIMS + 1], seen = 0;
  memcpy(size, w->size, sizeof size);
  if (w->split != OUTSIDE) size[w->split] = end - begin;
  k.row = size[w->ndim];
  k.sums = w->apart && !w->checks ? tide__sums_open(w->a, k.x, k.row) : NULL;
  k.a = k.sums ? tide__sums_call(k.sums) : w->a;
  memset(k.at, 0, sizeof k.at);
  for (int s = 0; s < 3; s++) k.offset[s] = w->split == OUTSIDE ? 0 : begin * w->stride[s][w->split];
  for (int d = 0; d >= 0;) {
    if (w->saved) save_line(&k);
    run(&k, size[w->ndim - 1]);
    seen += size[w->ndim - 1] * k.row;
    if (seen >= LOOK && tide__loop_stops()) break;
    seen %= LOOK;
    for (d = w->ndim - 2; d >= 0; d--) {
      for (int s = 0; s < 3; s++) k.offset[s] += w->stride[s][d];
      if (++k.at[d] < size[d]) break;
      for (int s = 0; s < 3; s++) k.offset[s] -= size[d] * w->stride[s][d];
      k.at[d] = 0;
    }
  }
  if (k.sums) tide__sums_close(k.sums);
  if (w->saved) tide__isa_get()->stream_end();
}

/* Items are parts of the dim that is split, or shares of the places. */
void tide__scatter_parts(void *arg, int64_t begin, int64_t end) {
  work *w = arg;
  int64_t n = w->split == OUTSIDE ? w->a->length : w->steps, each = (n + w->parts - 1) / w->parts;
  for (int64_t i = begin; i < end && i * each < n; i++) {
    int64_t from = i * each, to = from + each < n ? from + each : n;
    if (w->split == OUTSIDE)
      walk_steps(w, i, 0, 0, from, to - from);
    else
      walk_steps(w, i, w->first + from, w->first + to, 0, w->a->length);
  }
}

/* Can steps that lie apart along dim d meet in one element? */
static bool meets(const work *w, int d) { return w->scatter && !w->checks && w->stride[1][d] == 0 && w->size[d] > 1; }

/* The outermost dim, if no other is outside of it along which values meet; else the longest one, as long as what is
 * left of a run is long; else the places. */
static void choose_parts(work *w, int64_t threads) {
  enum { LEAST_RUN = 32 };
  const tide_index_args *a = w->a;
  int longest = OUTSIDE;
  w->split = OUTSIDE, w->parts = 1, w->first = 0;
  if (threads == 1 || a->numel < TIDE_GRAIN) return;
  for (int d = 0; d <= w->ndim; d++) {
    if (meets(w, d) || (w->checks && d == w->ndim)) continue;
    if (longest == OUTSIDE || w->size[d] > w->size[longest]) longest = d;
    bool outer = d < w->ndim;
    for (int e = 0; e < d; e++) outer = outer && !meets(w, e);
    if (!outer || w->size[d] < threads) continue;
    w->split = d, w->parts = w->size[d] < 16 * threads ? w->size[d] : 16 * threads;
    return;
  }
  bool wide = longest != OUTSIDE && (w->size[longest] >= LEAST_RUN * threads || !w->scatter || a->length < threads);
  /* Every thread would read the whole index, which pays where each place is waited for, and there is a row to move. */
  if (!wide && (w->size[w->ndim] == 1 || !tide__beyond_cache(a->length * a->item_size))) return;
  if (wide) w->split = longest;
  w->parts = wide && w->size[longest] < threads ? w->size[longest] : threads;
  if (!wide && a->length < threads) w->parts = 1;
}

/* Takes the row apart from the other dims, of which there is one at least. */
static void copy_dims(work *w) {
  const tide_index_args *a = w->a;
  memcpy(w->size, a->size, sizeof a->size);
  for (int s = 0; s < 3; s++) memcpy(w->stride[s], a->stride[s], sizeof a->stride[s]);
  int last = a->ndim - 1;
  bool row = a->size[last] > 1 && a->stride[1][last] == 1 && a->stride[2][last] == 0;
  w->fills = row && w->scatter && !a->reduce && a->stride[0][last] == 0;
  row = row && (a->stride[0][last] == 1 || w->fills);
  w->ndim = row ? last : a->ndim;
  if (row && !last) { /* one row: a run of one step before it */
    w->ndim = 1, w->size[1] = w->size[0], w->size[0] = 1;
    for (int s = 0; s < 3; s++) w->stride[s][1] = w->stride[s][0], w->stride[s][0] = 0;
  }
  if (!row) w->size[w->ndim] = 1;
}

/* The elements that the index may name: w->span of them, from w->lowest on. */
static void find_span(work *w) {
  const tide_index_args *a = w->a;
  int64_t high = 0, far = (a->length - 1) * a->pitch;
  w->lowest = far < 0 ? far : 0, high = far > 0 ? far : 0;
  for (int d = 0; d < a->ndim; d++) {
    far = a->stride[1][d] * (a->size[d] - 1);
    *(far < 0 ? &w->lowest : &high) += far;
  }
  w->span = high - w->lowest + 1;
}

void tide__scatter_prepare(work *w) {
  const tide_index_args *a = w->a;
  int64_t weight = 1;
  copy_dims(w);
  find_span(w);
  w->far = w->scatter && !w->apart && a->length * a->item_size >= FAR;
  for (int d = w->ndim - 1; d >= 0; d--) w->weight[d] = weight, weight *= w->size[d];
  atomic_init(&w->bad, INT64_MAX);
  choose_parts(w, tide_get_num_threads());
  w->steps = w->split == OUTSIDE ? 0 : w->size[w->split];
}

bool tide__scatter_find_bad(const work *w, int64_t *value) {
  int64_t step = atomic_load_explicit(&w->bad, memory_order_relaxed), offset = 0;
  if (step == INT64_MAX) return false;
  for (int d = 0; d < w->ndim; d++) offset += step / w->weight[d] % w->size[d] * w->stride[2][d];
  *value = raw_index(w->a, offset);
  return true;
}

bool tide__scatter_run(work *w, int64_t *value) {
  if (w->parts == 1)
    w->split = OUTSIDE, walk_steps(w, 0, 0, 0, 0, w->a->length);
  else
    tide__spread(w->parts, w->a->numel / w->parts + 1, tide__scatter_parts, w);
  return tide__scatter_find_bad(w, value);
}

void tide__scatter_values(const tide_index_args *a, char *x, const int64_t *place, char *values, int64_t step,
                          int64_t n) {
  if (a->reduce) {
    reduce_elements(a, x, place, 0, ANY, values, step, n);
    return;
  }
  /* Who only writes does not run ahead of what it waits for as far as who reads first. */
  for (int64_t i = 0; i < n; i++) __builtin_prefetch(x + place[i] * a->item_size, 1);
  move_elements(true, x, place, 0, ANY, values, step, n, a->item_size);
}
