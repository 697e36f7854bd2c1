/* sample.c: the values of a field between its points. For a piece of the places it is found out once which elements
 * count and by how much; then they are picked from each channel. float16 and bfloat16 are computed in float32.
 *
 * Invariant: no element is read where a place has none. */
#include "base/field.h"
#include "layout.h"

enum { PIECE = 128, MOST = 16, PLANES = 4 };

typedef struct work {
  const tide_sample_args *a;
  const tide__isa *isa;
  int dtype; /* FLOAT32 or FLOAT64 */
  int64_t item, wide, pieces, plane;
  int64_t order[PIECE * MOST]; /* 0, 1, ...: what was picked stands side by side */
} work;

typedef struct room {
  int64_t from[PIECE * MOST + MOST];
  double grid[PIECE * 3], weight[PIECE * MOST + MOST], value[PIECE * MOST], sum[PLANES * PIECE];
  uint64_t raw[PIECE * MOST];
  int64_t own[PIECE * MOST]; /* of the places that reach beyond the input */
  int beyond, place[PIECE];
} room;

#define FIND(T, s, mode, rank)                                                                                         \
  for (int64_t i = 0; i < n; i++)                                                                                      \
  count = tide_sample_##s(mode, a->beyond, a->align, rank, a->size, (T *)(void *)r->grid + i * rank,                   \
                          r->from + i * count, (T *)(void *)r->weight + i * count)
/* The sums over `count` elements of each of `planes` planes by their weights. A number that is known lets the loop be
 * unrolled; several planes at once read places and weights once for all. */
#define SUMS(T, planes, count, value)                                                                                  \
  for (int64_t i = 0; i < n; i++, from += count, by += count) {                                                        \
    T sum[planes] = {0};                                                                                               \
    _Pragma("GCC unroll 4") for (int t = 0; t < count; t++) _Pragma("GCC unroll 4") for (int p = 0; p < planes; p++)   \
        sum[p] += value;                                                                                               \
    _Pragma("GCC unroll 4") for (int p = 0; p < planes; p++) out[p * PIECE + i] = sum[p];                              \
  }
#define WEIGH(T, s)                                                                                                    \
  static void weigh_##s(T *restrict out, const T *x, int64_t apart, int planes, const int64_t *from, const T *by,      \
                        int64_t n, int taps) {                                                                         \
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
  static void again_##s(T *out, const T *x, int64_t apart, int planes, const room *r, const T *by, int taps) {         \
    for (int b = 0; b < r->beyond; b++)                                                                                \
      for (int p = 0; p < planes; p++) {                                                                               \
        T sum = 0;                                                                                                     \
        for (int t = 0; t < taps; t++)                                                                                 \
          if (r->own[b * taps + t] >= 0) sum += by[r->place[b] * taps + t] * x[p * apart + r->own[b * taps + t]];      \
        out[p * PIECE + r->place[b]] = sum;                                                                            \
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
  uint16_t *raw = (uint16_t *)(void *)r->raw;
  for (int64_t i = 0; i < n; i++) raw[i] = r->from[i] < 0 ? 0 : plane[r->from[i]];
  tide__cast(w->isa, r->value, w->dtype, raw, w->a->dtype, n);
}

static void run(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  const tide_sample_args *a = w->a;
  room here, *r = &here;
  int count = taps_of(a);
  for (int64_t k = begin; k < end && !tide__loop_stops(); k++) {
    const int64_t image = k / w->pieces, first = k % w->pieces * PIECE;
    const int64_t n = a->points - first < PIECE ? a->points - first : PIECE;
    const char *grid = (const char *)a->head.ptr[2] + (image * a->points + first) * a->rank * w->item;
    tide__cast(w->isa, r->grid, w->dtype, grid, a->dtype, n * a->rank);
    if (w->dtype == TIDE_FLOAT64)
      FIND(double, f64, a->mode, a->rank);
    else if (a->mode == TIDE_SAMPLE_LINEAR && a->rank == 2)
      FIND(float, f32, TIDE_SAMPLE_LINEAR, 2);
    else
      FIND(float, f32, a->mode, a->rank);
    if (w->item > 2) note_beyond(r, n, count);
    for (int64_t c = image * a->channels, last = c + a->channels; c < last;) {
      char *out = (char *)a->head.ptr[0] + (c * a->points + first) * w->item;
      const void *x = (const char *)a->head.ptr[1] + c * w->plane * w->item;
      const int planes = w->item > 2 && last - c >= PLANES ? PLANES : 1;
      if (w->item == 2) pick(w, r, x, n * count), x = r->value;
      if (w->dtype == TIDE_FLOAT64) {
        weigh_f64(r->sum, x, w->plane, planes, r->from, r->weight, n, count);
        again_f64(r->sum, x, w->plane, planes, r, r->weight, count);
      } else {
        weigh_f32((void *)r->sum, x, w->plane, planes, w->item == 2 ? w->order : r->from, (void *)r->weight, n, count);
        if (w->item == 4) again_f32((void *)r->sum, x, w->plane, planes, r, (void *)r->weight, count);
      }
      for (int p = 0; p < planes; p++, c++, out += a->points * w->item)
        tide__cast(w->isa, out, a->dtype, (char *)r->sum + p * PIECE * w->wide, w->dtype, n);
    }
  }
}

tide_status tide__cpu_sample(tide_stream *stream, const tide_sample_args *a) {
  (void)stream;
  work w = {a,  tide__isa_get(), a->dtype == TIDE_FLOAT64 ? TIDE_FLOAT64 : TIDE_FLOAT32, tide__item(a->dtype), 0, 0, 0,
            {0}};
  for (int64_t i = 0; i < PIECE * MOST; i++) w.order[i] = i;
  w.wide = tide__item(w.dtype), w.pieces = (a->points + PIECE - 1) / PIECE,
  w.plane = a->size[0] * a->size[1] * a->size[2];
  tide__spread(a->batch * w.pieces, PIECE * (a->channels + 8) * taps_of(a), run, &w);
  return TIDE_OK;
}
