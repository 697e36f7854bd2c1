/* index.c: gather and scatter along one dim, and the positions of true bytes.
 *
 * A gather is cut by destination rows, one for each outer position and index. A scatter with repeated indexes must have
 * one outcome, the last in order; so threads share it by outer positions, or each takes a range of the destination and
 * looks for the indexes that fall there. Bad indexes are skipped; the first of them is reported when the work is done.
 *
 * Invariant: no index is used before it was checked. */
#include "layout.h"

#include <stdlib.h>

typedef struct work {
  const tide_index_args *a;
  int64_t inner_run; /* inner elements that are neighbours on both sides */
  int64_t inner_runs;
  int64_t parts;       /* of the destination's indexed dim, for scatter */
  _Atomic int64_t bad; /* place of the first bad index; count: none */
} work;

static int64_t read_index(const tide_index_args *a, int64_t k) {
  int64_t v =
      a->index_dtype == TIDE_INT32 ? ((const int32_t *)a->head.ptr[2])[k] : ((const int64_t *)a->head.ptr[2])[k];
  return v < 0 ? v + a->length : v - a->index_base;
}

static bool good(const tide_index_args *a, int64_t v) { return (uint64_t)v < (uint64_t)a->length; }

static void note_bad(work *w, int64_t k) {
  if (w->a->located && ((const int64_t *)w->a->head.ptr[2])[k] == INT64_MIN) return; /* is known */
  int64_t was = atomic_load_explicit(&w->bad, memory_order_relaxed);
  while (k < was &&
         !atomic_compare_exchange_weak_explicit(&w->bad, &was, k, memory_order_relaxed, memory_order_relaxed))
    continue;
}

/* The offset on one side of a row-major position in the dims [from, to). */
static int64_t offset_of(const tide_index_args *a, int side, int from, int to, int64_t position) {
  int64_t offset = 0;
  for (int d = to - 1; d >= from; d--) {
    offset += position % a->size[d] * a->stride[side][d];
    position /= a->size[d];
  }
  return offset;
}

#define MOVE_ELEMENTS(T)                                                                                               \
  for (int64_t i = 0; i < n; i++) ((T *)d)[i * d_step] = ((const T *)s)[i * s_step];                                   \
  break

typedef struct wide16 {
  uint64_t v[2];
} wide16;

static void move(void *d, int64_t d_step, const void *s, int64_t s_step, int64_t n, int item) {
  if (d_step == 1 && s_step == 1) {
    memcpy(d, s, (size_t)(n * item));
    return;
  }
  switch (item) {
  case 1: MOVE_ELEMENTS(uint8_t);
  case 2: MOVE_ELEMENTS(uint16_t);
  case 4: MOVE_ELEMENTS(uint32_t);
  case 8: MOVE_ELEMENTS(uint64_t);
  default: MOVE_ELEMENTS(wide16);
  }
}

#define ADD_ELEMENTS(T)                                                                                                \
  for (int64_t i = 0; i < n; i++) ((T *)d)[i * d_step] = (T)(((T *)d)[i * d_step] + ((const T *)s)[i * s_step]);       \
  break
#define ADD_HALVES(from, to)                                                                                           \
  for (int64_t i = 0; i < n; i++) {                                                                                    \
    uint16_t *at = (uint16_t *)d + i * d_step;                                                                         \
    *at = to(from(*at) + from(((const uint16_t *)s)[i * s_step]));                                                     \
  }                                                                                                                    \
  break

static void add(void *d, int64_t d_step, const void *s, int64_t s_step, int64_t n, int dtype) {
  switch (dtype) {
  case TIDE_BOOL:
    for (int64_t i = 0; i < n; i++) ((uint8_t *)d)[i * d_step] |= ((const uint8_t *)s)[i * s_step];
    break;
  case TIDE_UINT8: ADD_ELEMENTS(uint8_t);
  case TIDE_INT8: ADD_ELEMENTS(int8_t);
  case TIDE_INT16: ADD_ELEMENTS(int16_t);
  case TIDE_INT32: ADD_ELEMENTS(int32_t);
  case TIDE_INT64: ADD_ELEMENTS(int64_t);
  case TIDE_FLOAT16: ADD_HALVES(tide__from_half, tide__to_half);
  case TIDE_BFLOAT16: ADD_HALVES(tide__from_bfloat16, tide__to_bfloat16);
  case TIDE_FLOAT32: ADD_ELEMENTS(float);
  case TIDE_FLOAT64: ADD_ELEMENTS(double);
  case TIDE_COMPLEX64: ADD_ELEMENTS(float _Complex);
  default: ADD_ELEMENTS(double _Complex);
  }
}

/* The inner elements of one row; a NULL source gives zeros. */
static void move_row(const work *w, char *d, const char *s) {
  const tide_index_args *a = w->a;
  static const char zeros[16];
  int last = a->ndim - 1;
  bool inner = last >= a->nouter;
  int64_t d_step = inner ? a->stride[0][last] : 1, s_step = !s ? 0 : inner ? a->stride[1][last] : 1;
  for (int64_t r = 0; r < w->inner_runs; r++) {
    int64_t to = w->inner_runs > 1 ? offset_of(a, 0, a->nouter, last, r) : 0;
    int64_t from = w->inner_runs > 1 && s ? offset_of(a, 1, a->nouter, last, r) : 0;
    const char *in = s ? s + from * a->item_size : zeros;
    if (!a->adds)
      move(d + to * a->item_size, d_step, in, s_step, w->inner_run, a->item_size);
    else
      add(d + to * a->item_size, d_step, in, s_step, w->inner_run, a->dtype);
  }
}

/* Rows [begin, end) for one element each: the common x[index]. */
#define GATHER_ELEMENTS(T)                                                                                             \
  for (int64_t k = begin; k < end; k++) {                                                                              \
    int64_t v = read_index(a, k);                                                                                      \
    T value = {0};                                                                                                     \
    if (good(a, v))                                                                                                    \
      value = ((const T *)s)[v * a->pitch[1]];                                                                         \
    else                                                                                                               \
      note_bad(w, k);                                                                                                  \
    ((T *)d)[k * a->pitch[0]] = value;                                                                                 \
  }                                                                                                                    \
  break

static void gather_elements(work *w, char *d, const char *s, int64_t begin, int64_t end) {
  const tide_index_args *a = w->a;
  switch (a->item_size) {
  case 1: GATHER_ELEMENTS(uint8_t);
  case 2: GATHER_ELEMENTS(uint16_t);
  case 4: GATHER_ELEMENTS(uint32_t);
  case 8: GATHER_ELEMENTS(uint64_t);
  default: GATHER_ELEMENTS(wide16);
  }
}

static void gather_rows(work *w, char *d, const char *s, int64_t begin, int64_t end) {
  const tide_index_args *a = w->a;
  for (int64_t k = begin; k < end; k++) {
    int64_t v = read_index(a, k);
    bool ok = good(a, v);
    if (!ok) note_bad(w, k);
    move_row(w, d + k * a->pitch[0] * a->item_size, ok ? s + v * a->pitch[1] * a->item_size : NULL);
  }
}

/* Items are rows: outer position times index. */
static void run_gather(void *arg, int64_t begin, int64_t end) {
  work *w = arg;
  const tide_index_args *a = w->a;
  while (begin < end) {
    int64_t o = begin / a->count, k = begin % a->count, stop = a->count - k < end - begin ? a->count : k + end - begin;
    char *d = (char *)a->head.ptr[0] + offset_of(a, 0, 0, a->nouter, o) * a->item_size;
    const char *s = (const char *)a->head.ptr[1] + offset_of(a, 1, 0, a->nouter, o) * a->item_size;
    (a->inner == 1 ? gather_elements : gather_rows)(w, d, s, k, stop);
    begin += stop - k;
  }
}

/* Writes to the destination's indexes [low, low + width) alone. */
#define SCATTER_ELEMENTS(T)                                                                                            \
  for (int64_t k = 0; k < a->count; k++) {                                                                             \
    int64_t v = read_index(a, k);                                                                                      \
    if ((uint64_t)(v - low) < (uint64_t)width && good(a, v))                                                           \
      ((T *)d)[v * a->pitch[0]] = ((const T *)s)[k * a->pitch[1]];                                                     \
    else if (!good(a, v))                                                                                              \
      note_bad(w, k);                                                                                                  \
  }                                                                                                                    \
  break

static void scatter_elements(work *w, char *d, const char *s, int64_t low, int64_t width) {
  const tide_index_args *a = w->a;
  switch (a->item_size) {
  case 1: SCATTER_ELEMENTS(uint8_t);
  case 2: SCATTER_ELEMENTS(uint16_t);
  case 4: SCATTER_ELEMENTS(uint32_t);
  case 8: SCATTER_ELEMENTS(uint64_t);
  default: SCATTER_ELEMENTS(wide16);
  }
}

static void scatter_rows(work *w, char *d, const char *s, int64_t low, int64_t width) {
  const tide_index_args *a = w->a;
  for (int64_t k = 0; k < a->count; k++) {
    int64_t v = read_index(a, k);
    if (!good(a, v))
      note_bad(w, k);
    else if ((uint64_t)(v - low) < (uint64_t)width)
      move_row(w, d + v * a->pitch[0] * a->item_size, s + k * a->pitch[1] * a->item_size);
  }
}

/* Items are outer positions times parts of the destination. */
static void run_scatter(void *arg, int64_t begin, int64_t end) {
  work *w = arg;
  const tide_index_args *a = w->a;
  int64_t width = (a->length + w->parts - 1) / w->parts;
  for (int64_t item = begin; item < end; item++) {
    int64_t o = item / w->parts, low = item % w->parts * width;
    char *d = (char *)a->head.ptr[0] + offset_of(a, 0, 0, a->nouter, o) * a->item_size;
    const char *s = (const char *)a->head.ptr[1] + offset_of(a, 1, 0, a->nouter, o) * a->item_size;
    (a->inner == 1 && !a->adds ? scatter_elements : scatter_rows)(w, d, s, low, width);
  }
}

static void begin_work(work *w, const tide_index_args *a) {
  w->a = a, w->parts = 1;
  w->inner_run = a->ndim > a->nouter ? a->size[a->ndim - 1] : 1;
  w->inner_runs = a->inner / w->inner_run;
  atomic_init(&w->bad, a->count);
}

static tide_status end_work(const work *w) {
  const tide_index_args *a = w->a;
  int64_t k = atomic_load_explicit(&w->bad, memory_order_relaxed);
  if (k == a->count) return TIDE_OK;
  int64_t v =
      a->index_dtype == TIDE_INT32 ? ((const int32_t *)a->head.ptr[2])[k] : ((const int64_t *)a->head.ptr[2])[k];
  return tide__fail_index(a->head.device, a->head.site, v, a->length, a->index_base);
}

tide_status tide__cpu_gather(tide_stream *stream, const tide_index_args *a) {
  (void)stream;
  work w;
  begin_work(&w, a);
  tide__spread(a->outer * a->count, a->inner, run_gather, &w);
  return end_work(&w);
}

tide_status tide__cpu_scatter(tide_stream *stream, const tide_index_args *a) {
  (void)stream;
  work w;
  begin_work(&w, a);
  int64_t threads = tide_get_num_threads();
  if (a->outer < threads && a->count * a->inner >= TIDE_GRAIN) w.parts = threads < a->length ? threads : a->length;
  if (w.parts < 1) w.parts = 1;
  tide__spread(a->outer * w.parts, a->count * a->inner, run_scatter, &w);
  return end_work(&w);
}

/* ---- one of several indexes ---- */

typedef struct location {
  const tide_locate_args *a;
  _Atomic int64_t bad; /* number of the first bad index; numel: none */
} location;

static int64_t locate_read(const tide_locate_args *a, int64_t offset) {
  return a->index_dtype == TIDE_INT32 ? ((const int32_t *)a->head.ptr[1])[offset]
                                      : ((const int64_t *)a->head.ptr[1])[offset];
}

static int64_t locate_offset(const tide_locate_args *a, int64_t *at, int64_t i) {
  int64_t offset = 0;
  for (int d = a->ndim - 1; d >= 0; d--) {
    at[d] = i % a->size[d];
    offset += at[d] * a->stride[d];
    i /= a->size[d];
  }
  return offset;
}

static void run_locate(void *arg, int64_t begin, int64_t end) {
  location *l = arg;
  const tide_locate_args *a = l->a;
  int64_t at[TIDE_MAX_DIMS], offset = locate_offset(a, at, begin), *out = a->head.ptr[0];
  for (int64_t i = begin; i < end; i++) {
    int64_t raw = locate_read(a, offset), v = raw < 0 ? raw + a->length : raw - a->index_base;
    if ((uint64_t)v >= (uint64_t)a->length) {
      int64_t was = atomic_load_explicit(&l->bad, memory_order_relaxed);
      while (i < was && !atomic_compare_exchange_weak(&l->bad, &was, i)) continue;
      out[i] = INT64_MIN;
    } else if (a->first || out[i] != INT64_MIN) {
      out[i] = (a->first ? 0 : out[i]) + v * a->pitch;
    }
    for (int d = a->ndim - 1; d >= 0; d--) {
      offset += a->stride[d];
      if (++at[d] < a->size[d]) break;
      offset -= at[d] * a->stride[d], at[d] = 0;
    }
  }
}

bool tide__cpu_locate_bad(const tide_locate_args *a, int64_t *value) {
  location l = {.a = a};
  atomic_init(&l.bad, a->numel);
  tide__spread(a->numel, 2, run_locate, &l);
  int64_t at[TIDE_MAX_DIMS], bad = atomic_load(&l.bad);
  if (bad < a->numel) *value = locate_read(a, locate_offset(a, at, bad));
  return bad < a->numel;
}

tide_status tide__cpu_locate(tide_stream *stream, const tide_locate_args *a) {
  (void)stream;
  int64_t value;
  if (!tide__cpu_locate_bad(a, &value)) return TIDE_OK;
  return tide__fail_index(a->head.device, a->head.site, value, a->length, a->index_base);
}

/* ---- compact ---- */

enum { COMPACT_PIECE = 16384 };

typedef struct compaction {
  const tide_compact_args *a;
  const tide__isa *isa;
  int64_t *start; /* of each piece's positions in the output */
} compaction;

static void count_pieces(void *arg, int64_t begin, int64_t end) {
  const compaction *c = arg;
  for (int64_t p = begin; p < end; p++) {
    int64_t at = p * COMPACT_PIECE, n = c->a->numel - at < COMPACT_PIECE ? c->a->numel - at : COMPACT_PIECE;
    c->start[p] = c->isa->count_u8((const uint8_t *)c->a->head.ptr[1] + at, n);
  }
}

/* Eight bytes at a time are skipped where none is set. */
static void write_pieces(void *arg, int64_t begin, int64_t end) {
  const compaction *c = arg;
  const uint8_t *x = c->a->head.ptr[1];
  for (int64_t p = begin; p < end; p++) {
    int64_t i = p * COMPACT_PIECE, stop = c->a->numel - i < COMPACT_PIECE ? c->a->numel : i + COMPACT_PIECE;
    int64_t *out = (int64_t *)c->a->head.ptr[0] + c->start[p];
    while (i < stop) {
      uint64_t eight = 1;
      if (i + 8 <= stop) memcpy(&eight, x + i, 8);
      int64_t next = i + 8 <= stop ? i + 8 : stop;
      if (!eight) i = next;
      for (; i < next; i++)
        if (x[i]) *out++ = i;
    }
  }
}

tide_status tide__cpu_compact(tide_stream *stream, const tide_compact_args *a) {
  (void)stream;
  int64_t pieces = (a->numel + COMPACT_PIECE - 1) / COMPACT_PIECE, total = 0, few[64];
  compaction c = {a, tide__isa_get(), few};
  if (pieces > 64) c.start = malloc((size_t)pieces * sizeof *c.start);
  if (!c.start) return tide__fail(TIDE_MEMORY, "nonzero: no memory for the counts of %lld pieces", (long long)pieces);
  tide__spread(pieces, COMPACT_PIECE, count_pieces, &c);
  for (int64_t p = 0; p < pieces; p++) {
    int64_t here = c.start[p];
    c.start[p] = total;
    total += here;
  }
  tide__spread(pieces, COMPACT_PIECE, write_pieces, &c);
  memcpy(a->head.ptr[2], &total, sizeof total);
  if (c.start != few) free(c.start);
  return TIDE_OK;
}
