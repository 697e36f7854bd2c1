/* sample.c: the values of a field between its points. For a piece of the places it is found out once which elements
 * count and by how much; then they are picked from a few channels after another. Places may lie all over a plane, so
 * pieces are long enough that each of its lines is used several times while the second cache has it. float16 and
 * bfloat16 are computed in float32.
 *
 * In planes of float32 the elements of a place stand side by side in one, two or four rows, so that where the rows
 * begin is all that is noted, and vectors of four numbers are read; the few places for which that is not so are made
 * again, one by one.
 *
 * Invariant: no element is read where a place has none. */
#include "base/mathematics/field.h"
#include "backend/cpu/simd4.h"
#include "layout.h"
#include "backend/cpu/scratch.h"

/* ELEMENTS: those that count, of a piece; at least LEAST places are one, and at most LONGEST. */
enum { ELEMENTS = 16384, LONGEST = 4096, LEAST = 128, EACH = 4, MOST = 16 };
enum { CHUNK = 64, FAR = 1 << 22 }; /* places at once; what float32 still counts in quarters */

typedef struct work {
  const tide_sample_args *a;
  const tide__isa *isa;
  int dtype;                                /* FLOAT32 or FLOAT64 */
  int64_t item, wide, piece, pieces, plane; /* piece: places of one; pieces of an image */
  int across;                               /* elements side by side, or 0: each has a place of its own */
  _Atomic bool failed;
} work;

/* What is known of a piece. grid, value, sum and raw are for 16-bit floats, which are converted. */
typedef struct room {
  int64_t *from, *own, *order; /* own: of the places that are made again; order: 0, 1, ... */
  void *grid, *weight, *value, *sum;
  uint16_t *raw;
  int *place, beyond; /* those places, and how many they are */
} room;

/* Which elements count at a place of any kind; one function of each dtype, since its text is long. */
#define FIND(T, s)                                                                                                     \
  __attribute__((noinline)) static int find_##s(const tide_sample_args *a, const T *grid, int64_t *from, T *by) {      \
    return tide_sample_##s(a->mode, a->beyond, a->align, a->rank, a->size, grid, from, by);                            \
  }
FIND(float, f32)
FIND(double, f64)

/* The sums over a plane's elements at each place by their weights. There are 1, 4, 8 or 16 of them. */
#define WEIGH(T, s, how)                                                                                               \
  how static void weigh_##s(T *restrict out, const T *x, const int64_t *from, const T *by, int64_t n, int taps) {      \
    for (int64_t i = 0; i < n && taps == 1; i++) out[i] = by[i] * x[from[i]];                                          \
    for (int64_t i = 0; i < n && taps > 1; i++) {                                                                      \
      T sum = 0;                                                                                                       \
      for (int t = 0; t < taps; t += 4, from += 4, by += 4)                                                            \
        _Pragma("GCC unroll 4") for (int u = 0; u < 4; u++) sum += by[u] * x[from[u]];                                 \
      out[i] = sum;                                                                                                    \
    }                                                                                                                  \
  }                                                                                                                    \
  /* Again the few places that reach beyond the input, where a weight of 0 would not keep NaN out. */                  \
  static void again_##s(T *out, const T *x, const room *r, int taps) {                                                 \
    const T *by = r->weight;                                                                                           \
    for (int b = 0; b < r->beyond; b++) {                                                                              \
      T sum = 0;                                                                                                       \
      for (int t = 0; t < taps; t++)                                                                                   \
        if (r->own[b * taps + t] >= 0) sum += by[r->place[b] * taps + t] * x[r->own[b * taps + t]];                    \
      out[r->place[b]] = sum;                                                                                          \
    }                                                                                                                  \
  }
WEIGH(float, f32, QUICK)
WEIGH(double, f64, )

/* ---- rows of elements side by side ---- */

/* The sum of each of four vectors. */
static four sum_each(four a, four b, four c, four d) {
  const four low = __builtin_shufflevector(a, b, 0, 4, 1, 5), high = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const four end = __builtin_shufflevector(a, b, 2, 6, 3, 7), last = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  return ((__builtin_shufflevector(low, high, 0, 1, 4, 5) + __builtin_shufflevector(low, high, 2, 3, 6, 7)) +
          __builtin_shufflevector(end, last, 0, 1, 4, 5)) +
         __builtin_shufflevector(end, last, 2, 3, 6, 7);
}

static four pairs_at(const float *x, const int32_t *from, const float *by) {
  return load_pairs(x + from[0], x + from[1]) * load_four(by);
}

static four fours_at(const float *x, const int32_t *from, const float *by) {
  return (load_four(x + from[0]) * load_four(by) + load_four(x + from[1]) * load_four(by + 4)) +
         (load_four(x + from[2]) * load_four(by + 8) + load_four(x + from[3]) * load_four(by + 12));
}

/* The element of each place. */
QUICK static void pick_rows(float *restrict out, const float *x, const int32_t *from, int64_t n) {
  _Pragma("GCC unroll 4") for (int64_t i = 0; i < n; i++) out[i] = x[from[i]];
}

/* As many rows as elements across, of which there are two or four. n is padded to a multiple of four, but in the
 * result. */
QUICK static void weigh_rows(float *restrict out, const float *x, const int32_t *from, const float *by, int64_t n,
                             int across) {
  for (int64_t i = 0; i < n; i += 4, from += 4 * across, by += 4 * across * across) {
    four v;
    if (across == 2)
      v = sum_each(pairs_at(x, from, by), pairs_at(x, from + 2, by + 4), pairs_at(x, from + 4, by + 8),
                   pairs_at(x, from + 6, by + 12));
    else
      v = sum_each(fours_at(x, from, by), fours_at(x, from + 4, by + 16), fours_at(x, from + 8, by + 32),
                   fours_at(x, from + 12, by + 48));
    if (n - i >= 4)
      memcpy(out + i, &v, sizeof v);
    else
      memcpy(out + i, &v, (size_t)(n - i) * sizeof *out);
  }
}

/* Of places in a plane, along one of its dims of `size` points: the first element, which lies within +-2^23, and how
 * far the place lies behind it. */
QUICK static void find_along(const tide_sample_args *a, int64_t size, const float *restrict grid, int *restrict first,
                             float *restrict behind, int n) {
  const float points = (float)size, last = (float)(size - 1), round = 12582912;
  float at[CHUNK] = {0};
  for (int i = 0; i < n; i++) at[i] = grid[2 * i] + 1;
  if (a->align)
    for (int i = 0; i < CHUNK; i++) at[i] = at[i] / 2 * last;
  else
    for (int i = 0; i < CHUNK; i++) at[i] = (at[i] * points - 1) / 2;
  if (a->beyond != TIDE_BEYOND_ZEROS && a->mode != TIDE_SAMPLE_CUBIC)
    for (int i = 0; i < n; i++) at[i] = tide_inside_f32(at[i], size, a->beyond, a->align);
  for (int i = 0; i < CHUNK; i++) {
    at[i] = at[i] > -8e6f ? at[i] : -8e6f;
    at[i] = at[i] < 8e6f ? at[i] : 8e6f;
  }
  if (a->mode == TIDE_SAMPLE_NEAREST)
    for (int i = 0; i < CHUNK; i++) first[i] = (int)(at[i] + round - round);
  else
    for (int i = 0; i < CHUNK; i++) {
      const float whole = (float)(int)at[i], low = whole - (whole > at[i] ? 1.0f : 0.0f);
      first[i] = (int)low, behind[i] = at[i] - low;
    }
}

/* The number of the first element of a place, of as many rows as columns, or -1 where there are not all of them. */
QUICK static void join(const int *restrict y, const int *restrict x, int lead, int rows, int columns, int width,
                       int *restrict out) {
  for (int i = 0; i < CHUNK; i++) {
    const int down = y[i] - lead, right = x[i] - lead;
    const bool inside = (down >= 0) & (right >= 0) & (down <= rows) & (right <= columns);
    out[i] = inside ? down * width + right : -1;
  }
}

/* By how much each of sixteen elements counts. */
static void weigh_cubic(float *by, float behind, float beside) {
  float down[4], right[4];
  tide_cubic_f32(down, behind), tide_cubic_f32(right, beside);
  for (int t = 0; t < 4; t++) {
    const four row = load_four(right) * down[t];
    memcpy(by + 4 * t, &row, sizeof row);
  }
}

/* Where the rows of elements of n places of a plane begin, and by how much each element counts. */
static void find_rows(const work *w, room *r, const float *grid, int64_t n) {
  const tide_sample_args *a = w->a;
  const int across = w->across, taps = across * across, width = (int)a->size[2];
  int32_t *from = (int32_t *)r->from;
  float *by = r->weight;
  r->beyond = 0;
  for (int64_t begin = 0; begin < n; begin += CHUNK) {
    const int some = n - begin < CHUNK ? (int)(n - begin) : CHUNK;
    int first[3][CHUNK];
    float behind[2][CHUNK];
    for (int d = 0; d < 2; d++) find_along(a, a->size[1 + d], grid + 1 - d, first[d], behind[d], some);
    join(first[0], first[1], across == 4, (int)a->size[1] - across, width - across, width, first[2]);
    for (int i = 0; i < some; i++, from += across, by += taps, grid += 2) {
      const int at = first[2][i];
      for (int t = 0; t < across; t++) from[t] = at < 0 ? 0 : at + t * width;
      if (at < 0) {
        find_f32(a, grid, r->own + r->beyond * taps, by);
        r->place[r->beyond++] = (int)(begin + i);
      } else if (across == 2) {
        const float down = behind[0][i], right = behind[1][i];
        by[0] = (1 - down) * (1 - right), by[1] = (1 - down) * right, by[2] = down * (1 - right), by[3] = down * right;
      } else if (across == 4) {
        weigh_cubic(by, behind[0][i], behind[1][i]);
      }
    }
  }
  memset(from, 0, 3 * (size_t)across * sizeof *from), memset(by, 0, 3 * (size_t)taps * sizeof *by);
}

/* ---- any elements ---- */

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
  if (w->across) {
    find_rows(w, r, grid, n);
    return;
  }
  if (w->item == 2) {
    tide__cast(w->isa, r->grid, w->dtype, grid, a->dtype, n * a->rank);
    grid = r->grid;
  }
  for (int64_t i = 0; i < n; i++) {
    int64_t *from = r->from + i * count;
    if (w->dtype == TIDE_FLOAT64)
      find_f64(a, (const double *)grid + i * a->rank, from, (double *)r->weight + i * count);
    else
      find_f32(a, (const float *)grid + i * a->rank, from, (float *)r->weight + i * count);
  }
  if (w->item > 2) note_beyond(r, n, count);
}

/* The values of n places of an image, from number `first` on. */
static void run_piece(const work *w, room *r, int64_t image, int64_t first, int64_t n) {
  const tide_sample_args *a = w->a;
  const int count = taps_of(a);
  const int64_t plane = w->plane * w->item;
  find(w, r, (const char *)a->head.ptr[2] + (image * a->points + first) * a->rank * w->item, n);
  for (int64_t c = image * a->channels, last = c + a->channels; c < last; c++) {
    void *out = (char *)a->head.ptr[0] + (c * a->points + first) * w->item;
    const void *x = (const char *)a->head.ptr[1] + c * plane;
    if (w->item == 2) {
      pick(w, r, x, n * count);
      weigh_f32(r->sum, r->value, r->order, r->weight, n, count);
      tide__cast(w->isa, out, a->dtype, r->sum, w->dtype, n);
    } else if (w->dtype == TIDE_FLOAT64) {
      weigh_f64(out, x, r->from, r->weight, n, count);
      again_f64(out, x, r, count);
    } else {
      if (w->across == 1)
        pick_rows(out, x, (const int32_t *)r->from, n);
      else if (w->across)
        weigh_rows(out, x, (const int32_t *)r->from, r->weight, n, w->across);
      else
        weigh_f32(out, x, r->from, r->weight, n, count);
      again_f32(out, x, r, count);
    }
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
  const int64_t n = w->piece, all = (n + 4) * taps_of(a) + MOST, converted = w->item == 2 ? all : 0;
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
  work w = {.a = a, .isa = tide__isa_get(), .dtype = a->dtype == TIDE_FLOAT64 ? TIDE_FLOAT64 : TIDE_FLOAT32};
  w.item = tide__item(a->dtype), w.wide = tide__item(w.dtype);
  const int64_t tasks = EACH * tide_get_num_threads();
  w.piece = ELEMENTS / taps_of(a) < LONGEST ? ELEMENTS / taps_of(a) : LONGEST;
  while (w.piece > LEAST && a->batch * ((a->points + w.piece - 1) / w.piece) < tasks) w.piece /= 2;
  w.pieces = (a->points + w.piece - 1) / w.piece;
  w.plane = a->size[0] * a->size[1] * a->size[2];
  const int across = a->mode == TIDE_SAMPLE_CUBIC ? 4 : a->mode == TIDE_SAMPLE_LINEAR ? 2 : 1;
  if (a->dtype == TIDE_FLOAT32 && a->rank == 2 && a->size[2] >= across && w.plane < INT32_MAX && a->size[1] < FAR &&
      a->size[2] < FAR)
    w.across = across;
  tide__spread(a->batch * w.pieces, w.piece * (a->channels + 8) * taps_of(a), run, &w);
  if (!atomic_load_explicit(&w.failed, memory_order_relaxed)) return TIDE_OK;
  return tide__fail(TIDE_MEMORY, "grid_sample: no memory for %lld places", (long long)w.piece);
}
