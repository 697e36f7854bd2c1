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
#include "base/field.h"
#include "layout.h"
#include "room.h"

/* ELEMENTS: those that count, of a piece; at least LEAST places are one, and at most LONGEST. */
enum { ELEMENTS = 16384, LONGEST = 4096, LEAST = 128, EACH = 4, MOST = 16, PLANES = 4 };
enum { CHUNK = 64, FAR = 1 << 22, NEAR_BYTES = 1 << 18 }; /* places at once; what float32 still counts in quarters */

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
/* Numbers of taps that are known: worth their code where most calls end up there. */
#define TAPS_1_AND_4                                                                                                   \
  else if (taps == 1) SUMS(double, PLANES, 1, x[p * apart + from[t]]) else if (taps == 4)                              \
      SUMS(double, PLANES, 4, by[t] * x[p * apart + from[t]])
#define WEIGH(T, s, KNOWN)                                                                                             \
  static void weigh_##s(T *restrict out, int64_t pitch, const T *x, int64_t apart, int planes, const int64_t *from,    \
                        const T *by, int64_t n, int taps) {                                                            \
    if (planes < PLANES) SUMS(T, 1, taps, by[t] * x[p * apart + from[t]])                                              \
    KNOWN                                                                                                              \
    else SUMS(T, PLANES, taps, by[t] * x[p * apart + from[t]])                                                         \
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
WEIGH(float, f32, )
WEIGH(double, f64, TAPS_1_AND_4)

/* ---- rows of elements side by side ---- */

typedef float four __attribute__((vector_size(16)));
typedef double two __attribute__((vector_size(16)));

static four load_four(const float *x) {
  four v;
  memcpy(&v, x, sizeof v);
  return v;
}

/* Two elements from each of two places. */
static four load_pairs(const float *x, const float *y) {
  double low, high;
  memcpy(&low, x, sizeof low), memcpy(&high, y, sizeof high);
  return (four)(two){low, high};
}

/* The sum of each of four vectors. */
static four sum_each(four a, four b, four c, four d) {
  const four low = __builtin_shufflevector(a, b, 0, 4, 1, 5), high = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const four end = __builtin_shufflevector(a, b, 2, 6, 3, 7), last = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  return ((__builtin_shufflevector(low, high, 0, 1, 4, 5) + __builtin_shufflevector(low, high, 2, 3, 6, 7)) +
          __builtin_shufflevector(end, last, 0, 1, 4, 5)) +
         __builtin_shufflevector(end, last, 2, 3, 6, 7);
}

static four pairs_at(const float *x, const int64_t *from, const float *by) {
  return load_pairs(x + from[0], x + from[1]) * load_four(by);
}

static four fours_at(const float *x, const int64_t *from, const float *by) {
  return (load_four(x + from[0]) * load_four(by) + load_four(x + from[1]) * load_four(by + 4)) +
         (load_four(x + from[2]) * load_four(by + 8) + load_four(x + from[3]) * load_four(by + 12));
}

/* As many rows as elements across. n is padded to a multiple of four, but in the result. Meanwhile the caches get the
 * plane of `bytes` at `next`, whose lines would each be waited for. */
static void weigh_rows(float *restrict out, const float *x, const int64_t *from, const float *by, int64_t n, int across,
                       const char *next, int64_t bytes) {
  const char *end = next + (bytes <= NEAR_BYTES ? bytes : 0);
  const int64_t step = 64 * ((bytes / 16 + n - 1) / n); /* of the plane, for four places */
  for (int64_t i = 0; i < n; i += 4, from += 4 * across, by += 4 * across * across) {
    four v;
    for (int64_t b = 0; b < step && next < end; b += 64, next += 64) __builtin_prefetch(next);
    if (across == 1)
      v = (four){x[from[0]], x[from[1]], x[from[2]], x[from[3]]};
    else if (across == 2)
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

/* Loops that are worth vectors. */
#if defined(__GNUC__) && !defined(__clang__)
#  define QUICK __attribute__((optimize("O2", "tree-vectorize", "vect-cost-model=dynamic")))
#else
#  define QUICK
#endif

/* Of places in a plane, along one of its dims: the first element, which lies within +-2^23, and how far the place lies
 * behind it. */
QUICK static void split(bool nearest, const float *restrict at, int *restrict first, float *restrict behind) {
  const float round = 12582912;
  for (int i = 0; i < CHUNK; i++) {
    const float near = at[i] > -8e6f ? at[i] < 8e6f ? at[i] : 8e6f : -8e6f;
    const float whole = nearest ? near + round - round : (float)(int)near;
    const float low = nearest || whole <= near ? whole : whole - 1;
    first[i] = (int)low, behind[i] = near - low;
  }
}

static void find_along(const tide_sample_args *a, int64_t size, const float *grid, int *first, float *behind, int n) {
  const float points = (float)size, last = (float)(size - 1);
  float at[CHUNK] = {0};
  for (int i = 0; i < n; i++) {
    const float g = grid[2 * i];
    at[i] = a->align ? (g + 1) / 2 * last : ((g + 1) * points - 1) / 2;
    if (a->beyond != TIDE_BEYOND_ZEROS && a->mode != TIDE_SAMPLE_CUBIC)
      at[i] = tide_inside_f32(at[i], size, a->beyond, a->align);
  }
  split(a->mode == TIDE_SAMPLE_NEAREST, at, first, behind);
}

/* Where the rows of elements of n places of a plane begin, and by how much each element counts. */
static void find_rows(const work *w, room *r, const float *grid, int64_t n) {
  const tide_sample_args *a = w->a;
  const int across = w->across, lead = across == 4, taps = across * across;
  int64_t *from = r->from;
  float *by = r->weight;
  r->beyond = 0;
  for (int64_t begin = 0; begin < n; begin += CHUNK) {
    const int some = n - begin < CHUNK ? (int)(n - begin) : CHUNK;
    int first[2][CHUNK];
    float behind[2][CHUNK];
    for (int d = 0; d < 2; d++) find_along(a, a->size[1 + d], grid + 1 - d, first[d], behind[d], some);
    for (int i = 0; i < some; i++, from += across, by += taps, grid += 2) {
      const int64_t y = first[0][i] - lead, x = first[1][i] - lead;
      const bool inside = (y >= 0) & (x >= 0) & (y + across <= a->size[1]) & (x + across <= a->size[2]);
      for (int t = 0; t < across; t++) from[t] = inside ? (y + t) * a->size[2] + x : 0;
      if (!inside) {
        tide_sample_f32(a->mode, a->beyond, a->align, 2, a->size, grid, r->own + r->beyond * taps, by);
        r->place[r->beyond++] = (int)(begin + i);
      } else if (across == 2) {
        const float down = behind[0][i], right = behind[1][i];
        by[0] = (1 - down) * (1 - right), by[1] = (1 - down) * right, by[2] = down * (1 - right), by[3] = down * right;
      } else if (across == 4) {
        float down[4], right[4];
        tide_cubic_f32(down, behind[0][i]), tide_cubic_f32(right, behind[1][i]);
        for (int t = 0; t < 4; t++)
          for (int u = 0; u < 4; u++) by[4 * t + u] = down[t] * right[u];
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
  if (w->dtype == TIDE_FLOAT64)
    FIND(double, f64, a->mode, a->rank);
  else
    FIND(float, f32, a->mode, a->rank);
  if (w->item > 2) note_beyond(r, n, count);
}

/* The values of n places of an image, from number `first` on. */
static void run_piece(const work *w, room *r, int64_t image, int64_t first, int64_t n) {
  const tide_sample_args *a = w->a;
  const int count = taps_of(a);
  const int64_t plane = w->plane * w->item;
  find(w, r, (const char *)a->head.ptr[2] + (image * a->points + first) * a->rank * w->item, n);
  for (int64_t c = image * a->channels, last = c + a->channels; c < last;) {
    void *out = (char *)a->head.ptr[0] + (c * a->points + first) * w->item;
    const void *x = (const char *)a->head.ptr[1] + c * plane;
    const int planes = w->item > 2 && !w->across && last - c >= PLANES ? PLANES : 1;
    if (w->item == 2) {
      pick(w, r, x, n * count);
      weigh_f32(r->sum, 0, r->value, 0, 1, r->order, r->weight, n, count);
      tide__cast(w->isa, out, a->dtype, r->sum, w->dtype, n);
    } else if (w->dtype == TIDE_FLOAT64) {
      weigh_f64(out, a->points, x, w->plane, planes, r->from, r->weight, n, count);
      again_f64(out, a->points, x, w->plane, planes, r, count);
    } else {
      if (w->across)
        weigh_rows(out, x, r->from, r->weight, n, w->across, (const char *)x + plane, c + 1 < last ? plane : 0);
      else
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
  (void)stream;
  work w = {.a = a, .isa = tide__isa_get(), .dtype = a->dtype == TIDE_FLOAT64 ? TIDE_FLOAT64 : TIDE_FLOAT32};
  w.item = tide__item(a->dtype), w.wide = tide__item(w.dtype);
  const int64_t tasks = EACH * tide_get_num_threads();
  w.piece = ELEMENTS / taps_of(a) < LONGEST ? ELEMENTS / taps_of(a) : LONGEST;
  while (w.piece > LEAST && a->batch * ((a->points + w.piece - 1) / w.piece) < tasks) w.piece /= 2;
  w.pieces = (a->points + w.piece - 1) / w.piece;
  w.plane = a->size[0] * a->size[1] * a->size[2];
  const int across = a->mode == TIDE_SAMPLE_CUBIC ? 4 : a->mode == TIDE_SAMPLE_LINEAR ? 2 : 1;
  if (a->dtype == TIDE_FLOAT32 && a->rank == 2 && a->size[2] >= across && a->size[1] < FAR && a->size[2] < FAR)
    w.across = across;
  tide__spread(a->batch * w.pieces, w.piece * (a->channels + 8) * taps_of(a), run, &w);
  if (!atomic_load_explicit(&w.failed, memory_order_relaxed)) return TIDE_OK;
  return tide__fail(TIDE_MEMORY, "grid_sample: no memory for %lld places", (long long)w.piece);
}
