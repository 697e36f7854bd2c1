/* sample.c: the values of a field between its points. For a piece of the places it is found out once which elements
 * count and by how much; then they are picked from each channel. float16 and bfloat16 are computed in float32.
 *
 * Invariant: no element is read where a place has none. */
#include "base/field.h"
#include "layout.h"

enum { PIECE = 128, MOST = 16 };

typedef struct work {
  const tide_sample_args *a;
  const tide__isa *isa;
  int dtype; /* FLOAT32 or FLOAT64 */
  int64_t item, wide, pieces, plane;
  int64_t order[PIECE * MOST]; /* 0, 1, ...: what was picked stands side by side */
} work;

typedef struct room {
  int64_t from[PIECE * MOST + MOST];
  double grid[PIECE * 3], weight[PIECE * MOST + MOST], value[PIECE * MOST], sum[PIECE];
  uint64_t raw[PIECE * MOST];
} room;

#define FIND(T, s, mode, rank)                                                                                         \
  for (int64_t i = 0; i < n; i++)                                                                                      \
  count = tide_sample_##s(mode, a->beyond, a->align, rank, a->size, (T *)(void *)r->grid + i * rank,                   \
                          r->from + i * count, (T *)(void *)r->weight + i * count)
/* The sums over `count` elements of a plane by their weights. A number that is known lets the loop be unrolled. */
#define SUMS(T, count)                                                                                                 \
  for (int64_t i = 0; i < n; i++, from += count, by += count) {                                                        \
    T sum = 0;                                                                                                         \
    for (int t = 0; t < count; t++) sum += from[t] < 0 ? 0 : by[t] * plane[from[t]];                                   \
    out[i] = sum;                                                                                                      \
  }
#define WEIGH(T, s)                                                                                                    \
  static void weigh_##s(T *out, const T *plane, const int64_t *from, const T *by, int64_t n, int taps) {               \
    if (taps == 4)                                                                                                     \
      SUMS(T, 4)                                                                                                       \
    else                                                                                                               \
      SUMS(T, taps)                                                                                                    \
  }
WEIGH(float, f32)
WEIGH(double, f64)

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
    for (int64_t c = image * a->channels; c < (image + 1) * a->channels; c++) {
      char *out = (char *)a->head.ptr[0] + (c * a->points + first) * w->item;
      const void *plane = (const char *)a->head.ptr[1] + c * w->plane * w->item;
      if (w->item == 2) pick(w, r, plane, n * count), plane = r->value;
      if (w->dtype == TIDE_FLOAT64)
        weigh_f64(r->sum, plane, r->from, r->weight, n, count);
      else
        weigh_f32((void *)r->sum, plane, w->item == 2 ? w->order : r->from, (void *)r->weight, n, count);
      tide__cast(w->isa, out, a->dtype, r->sum, w->dtype, n);
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
