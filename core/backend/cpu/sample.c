/* sample.c: the values of a field between its points. For a piece of the places it is found out once which elements
 * count and by how much; then they are picked from a few channels after another. Places may lie all over a plane, so
 * pieces are long enough that each of its lines is used several times while the second cache has it. float16 and
 * bfloat16 are computed in float32.
 *
 * Invariant: no element is read where a place has none. */
#include "base/field.h"
#include "layout.h"
#include "room.h"

/* ELEMENTS: those that count, of a piece; at least LEAST places are one, and at most LONGEST. */
enum { ELEMENTS = 16384, LONGEST = 4096, LEAST = 128, EACH = 4, MOST = 16, PLANES = 4 };

typedef struct work {
  const tide_sample_args *a;
  const tide__isa *isa;
  int dtype;                                /* FLOAT32 or FLOAT64 */
  int64_t item, wide, piece, pieces, plane; /* piece: places of one; pieces of an image */
  _Atomic bool failed;
} work;

/* What is known of a piece. grid, value, sum and raw are for 16-bit floats, which are converted. */
typedef struct room {
  int64_t *from, *own, *order; /* own: of the places that reach beyond the input; order: 0, 1, ... */
  void *grid, *weight, *value, *sum;
  uint16_t *raw;
  int *place, beyond;
} room;

#define FIND(T, s, mode, rank)                                                                                         \
  for (int64_t i = 0; i < n; i++)                                                                                      \
  count = tide_sample_##s(mode, a->beyond, a->align, rank, a->size, (const T *)grid + i * rank, r->from + i * count,   \
                          (T *)r->weight + i * count)
/* The sums over `count` elements of each of `planes` planes by their weights. A number that is known lets the loop be
 * unrolled; several planes at once read places and weights once for all. */
#define SUMS(T, planes, count, value)                                                                                  \
  for (int64_t i = 0; i < n; i++, from += count, by += count) {                                                        \
    T sum[planes] = {0};                                                                                               \
    _Pragma("GCC unroll 4") for (int t = 0; t < count; t++) _Pragma("GCC unroll 4") for (int p = 0; p < planes; p++)   \
        sum[p] += value;                                                                                               \
    _Pragma("GCC unroll 4") for (int p = 0; p < planes; p++) out[p * pitch + i] = sum[p];                              \
  }
#define WEIGH(T, s)                                                                                                    \
  static void weigh_##s(T *restrict out, int64_t pitch, const T *x, int64_t apart, int planes, const int64_t *from,    \
                        const T *by, int64_t n, int taps) {                                                            \
    if (planes < PLANES)                                                                                               \
      SUMS(T, 1, taps, by[t] * x[p * apart + from[t]])                                                                 \
    else if (taps == 1)                                                                                                \
      SUMS(T, PLANES, 1, x[p * apart + from[t]])                                                                       \
    else if (taps == 4)                                                                                                \
      SUMS(T, PLANES, 4, by[t] * x[p * apart + from[t]])                                                               \
    else                                                                                                               \
      SUMS(T, PLANES, taps, by[t] * x[p * apart + from[t]])                                                            \
  }                                                                                                                    \
  /* Again the few places that reach beyond the input, where a weight of 0 would not keep NaN out. */                  \
  static void again_##s(T *out, int64_t pitch, const T *x, int64_t apart, int planes, const room *r, int taps) {       \
    const T *by = r->weight;                                                                                           \
    for (int b = 0; b < r->beyond; b++)                                                                                \
      for (int p = 0; p < planes; p++) {                                                                               \
        T sum = 0;                                                                                                     \
        for (int t = 0; t < taps; t++)                                                                                 \
          if (r->own[b * taps + t] >= 0) sum += by[r->place[b] * taps + t] * x[p * apart + r->own[b * taps + t]];      \
        out[p * pitch + r->place[b]] = sum;                                                                            \
      }                                                                                                                \
  }
WEIGH(float, f32)
WEIGH(double, f64)

/* Notes the places that reach beyond the input, and lets their missing elements be the first ones. */
static void note_beyond(room *r, int64_t n, int taps) {
  r->beyond = 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t *from = r->from + i * taps, all = 0;
    for (int t = 0; t < taps; t++) all |= from[t];
    if (all >= 0) continue;
    memcpy(r->own + r->beyond * taps, from, (size_t)taps * sizeof *from);
    for (int t = 0; t < taps; t++) from[t] = from[t] < 0 ? 0 : from[t];
    r->place[r->beyond++] = (int)i;
  }
}

/* How many elements count at a place. */
static int taps_of(const tide_sample_args *a) {
  int each = a->mode == TIDE_SAMPLE_CUBIC ? 4 : a->mode == TIDE_SAMPLE_LINEAR ? 2 : 1, count = 1;
  for (int d = 0; d < a->rank; d++) count *= each;
  return count;
}

/* What counts of a plane of 16-bit floats, side by side as float32. */
static void pick(const work *w, room *r, const uint16_t *plane, int64_t n) {
  for (int64_t i = 0; i < n; i++) r->raw[i] = r->from[i] < 0 ? 0 : plane[r->from[i]];
  tide__cast(w->isa, r->value, w->dtype, r->raw, w->a->dtype, n);
}

/* Which elements count at n places, and by how much. */
static void find(const work *w, room *r, const void *grid, int64_t n) {
  const tide_sample_args *a = w->a;
  int count = taps_of(a);
  if (w->item == 2) {
    tide__cast(w->isa, r->grid, w->dtype, grid, a->dtype, n * a->rank);
    grid = r->grid;
  }
  if (w->dtype == TIDE_FLOAT64)
    FIND(double, f64, a->mode, a->rank);
  else if (a->mode == TIDE_SAMPLE_LINEAR && a->rank == 2)
    FIND(float, f32, TIDE_SAMPLE_LINEAR, 2);
  else if (a->mode == TIDE_SAMPLE_NEAREST && a->rank == 2)
    FIND(float, f32, TIDE_SAMPLE_NEAREST, 2);
  else
    FIND(float, f32, a->mode, a->rank);
  if (w->item > 2) note_beyond(r, n, count);
}

/* The values of n places of an image, from number `first` on. */
static void run_piece(const work *w, room *r, int64_t image, int64_t first, int64_t n) {
  const tide_sample_args *a = w->a;
  const int count = taps_of(a);
  find(w, r, (const char *)a->head.ptr[2] + (image * a->points + first) * a->rank * w->item, n);
  for (int64_t c = image * a->channels, last = c + a->channels; c < last;) {
    void *out = (char *)a->head.ptr[0] + (c * a->points + first) * w->item;
    const void *x = (const char *)a->head.ptr[1] + c * w->plane * w->item;
    const int planes = w->item > 2 && last - c >= PLANES ? PLANES : 1;
    if (w->item == 2) {
      pick(w, r, x, n * count);
      weigh_f32(r->sum, 0, r->value, 0, 1, r->order, r->weight, n, count);
      tide__cast(w->isa, out, a->dtype, r->sum, w->dtype, n);
    } else if (w->dtype == TIDE_FLOAT64) {
      weigh_f64(out, a->points, x, w->plane, planes, r->from, r->weight, n, count);
      again_f64(out, a->points, x, w->plane, planes, r, count);
    } else {
      weigh_f32(out, a->points, x, w->plane, planes, r->from, r->weight, n, count);
      again_f32(out, a->points, x, w->plane, planes, r, count);
    }
    c += planes;
  }
}

/* Some bytes of the memory that starts at *at, which goes on behind them. */
static void *part_of(char **at, int64_t bytes) {
  char *part = *at;
  *at += (bytes + 63) / 64 * 64;
  return part;
}

static void run(void *arg, int64_t begin, int64_t end) {
  work *w = arg;
  const tide_sample_args *a = w->a;
  const int64_t n = w->piece, all = n * taps_of(a) + MOST, converted = w->item == 2 ? all : 0;
  char *memory = tide__room_take((size_t)(all * 3 * 8 + n * 4 + converted * (8 + 4 + 4 + 2 + 4 * 3) + 9 * 64));
  if (!memory) {
    atomic_store_explicit(&w->failed, true, memory_order_relaxed);
    return;
  }
  char *at = memory;
  room r = {.from = part_of(&at, all * 8), .own = part_of(&at, all * 8), .weight = part_of(&at, all * w->wide)};
  r.place = part_of(&at, n * 4), r.order = part_of(&at, converted * 8), r.value = part_of(&at, converted * 4);
  r.sum = part_of(&at, converted * 4), r.raw = part_of(&at, converted * 2), r.grid = part_of(&at, converted * 4 * 3);
  for (int64_t i = 0; i < converted; i++) r.order[i] = i;
  for (int64_t k = begin; k < end && !tide__loop_stops(); k++) {
    const int64_t first = k % w->pieces * n, left = a->points - first;
    run_piece(w, &r, k / w->pieces, first, left < n ? left : n);
  }
  tide__room_put(memory);
}

tide_status tide__cpu_sample(tide_stream *stream, const tide_sample_args *a) {
  (void)stream;
  work w = {.a = a, .isa = tide__isa_get(), .dtype = a->dtype == TIDE_FLOAT64 ? TIDE_FLOAT64 : TIDE_FLOAT32};
  w.item = tide__item(a->dtype), w.wide = tide__item(w.dtype);
  const int64_t tasks = EACH * tide_get_num_threads();
  w.piece = ELEMENTS / taps_of(a) < LONGEST ? ELEMENTS / taps_of(a) : LONGEST;
  while (w.piece > LEAST && a->batch * ((a->points + w.piece - 1) / w.piece) < tasks) w.piece /= 2;
  w.pieces = (a->points + w.piece - 1) / w.piece;
  w.plane = a->size[0] * a->size[1] * a->size[2];
  tide__spread(a->batch * w.pieces, w.piece * (a->channels + 8) * taps_of(a), run, &w);
  if (!atomic_load_explicit(&w.failed, memory_order_relaxed)) return TIDE_OK;
  return tide__fail(TIDE_MEMORY, "grid_sample: no memory for %lld places", (long long)w.piece);
}
