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
} work;

typedef struct room {
  int64_t from[PIECE * MOST + MOST];
  double grid[PIECE * 3], weight[PIECE * MOST + MOST], value[PIECE * MOST], sum[PIECE];
  uint64_t raw[PIECE * MOST];
} room;

#define FIND(T, s)                                                                                                     \
  for (int64_t i = 0; i < n; i++)                                                                                      \
  count = tide_sample_##s(a->mode, a->beyond, a->align, a->rank, a->size, (T *)(void *)r->grid + i * a->rank,          \
                          r->from + i * count, (T *)(void *)r->weight + i * count)
#define PICK(T, to)                                                                                                    \
  for (int64_t i = 0; i < n; i++) ((T *)(void *)to)[i] = from[i] < 0 ? 0 : ((const T *)(const void *)plane)[from[i]]
#define WEIGH(T)                                                                                                       \
  for (int64_t i = 0; i < n; i++) {                                                                                    \
    const T *x = (const T *)(const void *)r->value + i * count, *by = (const T *)(const void *)r->weight + i * count;  \
    T sum = 0;                                                                                                         \
    for (int t = 0; t < count; t++) sum += by[t] * x[t];                                                               \
    ((T *)(void *)r->sum)[i] = sum;                                                                                    \
  }

/* How many elements count at a place. */
static int taps_of(const tide_sample_args *a) {
  int each = a->mode == TIDE_SAMPLE_CUBIC ? 4 : a->mode == TIDE_SAMPLE_LINEAR ? 2 : 1, count = 1;
  for (int d = 0; d < a->rank; d++) count *= each;
  return count;
}

static void pick(const work *w, room *r, const char *plane, int64_t n) {
  const int64_t *from = r->from;
  if (w->item == 2) {
    PICK(uint16_t, r->raw);
    tide__cast(w->isa, r->value, w->dtype, r->raw, w->a->dtype, n);
  } else if (w->item == 4)
    PICK(float, r->value);
  else
    PICK(double, r->value);
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
      FIND(double, f64);
    else
      FIND(float, f32);
    for (int64_t c = image * a->channels; c < (image + 1) * a->channels; c++) {
      char *out = (char *)a->head.ptr[0] + (c * a->points + first) * w->item;
      pick(w, r, (const char *)a->head.ptr[1] + c * w->plane * w->item, n * count);
      if (w->dtype == TIDE_FLOAT64)
        WEIGH(double)
      else
        WEIGH(float)
      tide__cast(w->isa, out, a->dtype, r->sum, w->dtype, n);
    }
  }
}

tide_status tide__cpu_sample(tide_stream *stream, const tide_sample_args *a) {
  (void)stream;
  work w = {a, tide__isa_get(), a->dtype == TIDE_FLOAT64 ? TIDE_FLOAT64 : TIDE_FLOAT32, tide__item(a->dtype), 0, 0, 0};
  w.wide = tide__item(w.dtype), w.pieces = (a->points + PIECE - 1) / PIECE,
  w.plane = a->size[0] * a->size[1] * a->size[2];
  tide__spread(a->batch * w.pieces, PIECE * (a->channels + 8) * taps_of(a), run, &w);
  return TIDE_OK;
}
