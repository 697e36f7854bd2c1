/* window.c: the kernel window: the maximum or mean of windows, and fields in another size.
 *
 * A row of the result is made in two steps: the rows of the input that it needs are joined, each with its weight, which
 * is done in vectors; then the elements of that one row are. Long rows are made in segments. Where the places of maxima
 * are wanted, each row of the input is joined with the result's on its own. float16 and bfloat16 become float32 as rows
 * are read. int64 has maxima alone.
 *
 * Invariant: of the input nothing is read but what a window covers. */
#include "base/mathematics/field.h"
#include "backend/cpu/simd4.h"
#include "layout.h"
#include "backend/cpu/scratch.h"

enum { SEGMENT = 2048, MOST = 4 };

typedef struct work {
  const tide_window_args *a;
  const tide__isa *isa;
  int work, item;                      /* FLOAT32, FLOAT64 or INT64; bytes of an element of the tensors */
  int64_t segments, most;              /* of a row; elements of the input that one of them covers, at most */
  int64_t in_row, in_plane, out_plane; /* elements of a row and of a plane; rows of a result's plane */
  _Atomic bool failed;
} work;

/* A row of the input that counts, and by how much. */
typedef struct source {
  int64_t at; /* elements from the plane's first one */
  double weight;
} source;

static bool is_between(const tide_window_args *a) { return a->op >= TIDE_WINDOW_LINEAR; }

/* The elements [*low, *end) of the input that the elements [from, to) of a dim need. */
static void span(const tide_window_args *a, int64_t from, int64_t to, int64_t *low, int64_t *end) {
  const tide_taps *d = &a->dim[2];
  if (is_between(a)) {
    int64_t at[MOST];
    double w[MOST];
    bool cubic = a->op == TIDE_WINDOW_CUBIC;
    tide_between_f64(cubic, d, a->align, from, at, w);
    *low = at[0];
    tide_between_f64(cubic, d, a->align, to - 1, at, w);
    *end = at[cubic ? 3 : 1] + 1;
    return;
  }
  if (a->op == TIDE_WINDOW_AREA) {
    tide_reach last = tide_reach_of(a->op, d, to - 1);
    *low = tide_reach_of(a->op, d, from).first, *end = last.first + last.count;
    return;
  }
  *low = from * d->stride - d->before, *end = (to - 1) * d->stride - d->before + (d->kernel - 1) * d->dilation + 1;
  *low = *low < 0 ? 0 : *low < d->in ? *low : d->in;
  if (*end > d->in) *end = d->in;
  if (*end < *low) *end = *low;
}

/* The positions along dim k that element i needs: at most MOST for modes between elements. */
static int64_t along(const tide_window_args *a, int k, int64_t i, tide_reach *r, int64_t *at, double *w) {
  if (!is_between(a)) {
    *r = tide_reach_of(a->op, &a->dim[k], i);
    return r->count;
  }
  if (a->dim[k].in == 1 && a->dim[k].out == 1) return at[0] = 0, w[0] = 1, 1;
  tide_between_f64(a->op == TIDE_WINDOW_CUBIC, &a->dim[k], a->align, i, at, w);
  return a->op == TIDE_WINDOW_CUBIC ? 4 : 2;
}

typedef struct needed {
  tide_reach r[2];
  int64_t count[2], at[2][MOST];
  double weight[2][MOST];
} needed;

static source row_of(const work *w, const needed *s, int64_t i, int64_t j) {
  const tide_window_args *a = w->a;
  int64_t z = is_between(a) ? s->at[0][i] : s->r[0].first + i * s->r[0].step;
  int64_t y = is_between(a) ? s->at[1][j] : s->r[1].first + j * s->r[1].step;
  return (source){(z * a->dim[1].in + y) * w->in_row, is_between(a) ? s->weight[0][i] * s->weight[1][j] : 1};
}

/* One segment of a row: joined: what the input's rows are together, from element `low` on. */
typedef struct segment {
  const tide_window_args *a;
  int64_t from, to, low;
  int64_t cells, all; /* what the windows cover of the other dims, and with borders */
  const int32_t *at;  /* of modes between elements: their places from `low` on; of AREA, see fill */
  const void *weight;
} segment;

/* The first and the end of the elements of [from, to) whose windows are whole. */
static void whole(const segment *s, int64_t *from, int64_t *to) {
  const tide_taps *d = &s->a->dim[2];
  int64_t first = (d->before + d->stride - 1) / d->stride;
  int64_t room = d->in + d->before - (d->kernel - 1) * d->dilation - 1, end = room < 0 ? 0 : room / d->stride + 1;
  *from = first > s->from ? first : s->from, *to = end < s->to ? end : s->to;
  if (*from >= *to) *from = *to = s->to;
}

#define BETTER(a, b)  (((b) > (a)) | ((b) != (b)))
#define MAXIMUM(a, b) (BETTER(a, b) ? (b) : (a))

/* The loops of float32 are worth more code than the rest of the file. */
#define PLAIN

/* By linear mode, four elements at once as long as they lie between two, which stand side by side: how many. */
QUICK static int64_t between_two(const float *row, const float *w, const int32_t *at, float *out, int64_t n) {
  int64_t i = 0;
  for (; i + 4 <= n && at[6] < at[7]; i += 4, at += 8, w += 8) {
    const four a = load_pairs(row + at[0], row + at[2]) * load_four(w);
    const four b = load_pairs(row + at[4], row + at[6]) * load_four(w + 4);
    const four v = __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
    memcpy(out + i, &v, sizeof v);
  }
  return i;
}

#define T       float
#define NAME(f) f##_f32
#define HOW     QUICK
#define LEAST   -INFINITY
#define BETWEEN tide_between_f32
#include "window_template.h"
#define T       double
#define NAME(f) f##_f64
#define HOW     PLAIN
#define LEAST   -INFINITY
#define BETWEEN tide_between_f64
#include "window_template.h"
#define T       int64_t
#define NAME(f) f##_i64
#define HOW     PLAIN
#define LEAST   INT64_MIN
#include "window_template.h"

typedef struct kernels {
  void (*join)(void *out, const void *row, int64_t n, bool maximum, bool first, double weight);
  void (*across)(const segment *s, const void *row, void *out);
  void (*between)(const segment *s, const void *row, void *out);
  void (*area)(const segment *s, const void *row, void *out);
  void (*fill)(segment *s, int32_t *at, void *weight);
  void (*place)(const segment *s, const void *row, int64_t base, void *best, int64_t *at);
} kernels;
static const kernels table[] = {{join_f32, across_f32, between_f32, area_f32, fill_f32, place_f32},
                                {join_f64, across_f64, between_f64, area_f64, fill_f64, place_f64},
                                {join_i64, across_i64, NULL, NULL, NULL, place_i64}};

static const kernels *kernels_of(const work *w) {
  return &table[w->work == TIDE_FLOAT32 ? 0 : w->work == TIDE_FLOAT64 ? 1 : 2];
}

/* What a thread works in. */
typedef struct room {
  char *row, *joined, *out; /* as the work type; out: of float16 and bfloat16 */
  int32_t *at;
  char *weight;
} room;

/* The input's elements [low, end) of a row as the work type. */
static const void *load(const work *w, const room *r, const char *row, int64_t low, int64_t end) {
  row += low * w->item;
  if (w->a->dtype == w->work) return row;
  tide__cast(w->isa, r->row, w->work, row, w->a->dtype, end - low);
  return r->row;
}

static void make(const work *w, const room *r, segment *s, int64_t row, int64_t end) {
  const tide_window_args *a = w->a;
  const kernels *k = kernels_of(w);
  const char *plane = (const char *)a->head.ptr[1] + row / w->out_plane * w->in_plane * w->item;
  const int64_t y = row % w->out_plane, n = s->to - s->from;
  const void *joined = r->joined;
  char *out = (char *)a->head.ptr[0] + (row * a->dim[2].out + s->from) * w->item;
  needed c = {0};
  c.count[0] = along(a, 0, y / a->dim[1].out, &c.r[0], c.at[0], c.weight[0]);
  c.count[1] = along(a, 1, y % a->dim[1].out, &c.r[1], c.at[1], c.weight[1]);
  s->cells = c.count[0] * c.count[1], s->all = is_between(a) ? 1 : c.r[0].all * c.r[1].all;
  char *to = a->dtype == w->work ? out : r->out;
  int64_t *places = a->head.ptr[2] ? (int64_t *)a->head.ptr[2] + row * a->dim[2].out + s->from : NULL;
  for (int64_t i = 0; i < n && places; i++) {
    tide_reach x = tide_reach_of(a->op, &a->dim[2], s->from + i);
    bool some = x.count && s->cells;
    if (w->work == TIDE_INT64)
      ((int64_t *)(void *)to)[i] = INT64_MIN;
    else if (w->work == TIDE_FLOAT64)
      ((double *)(void *)to)[i] = -INFINITY;
    else
      ((float *)(void *)to)[i] = -INFINITY;
    places[i] = some ? (c.r[0].first * a->dim[1].in + c.r[1].first) * w->in_row + x.first : 0;
  }
  for (int64_t i = 0; i < s->cells; i++) {
    source from = row_of(w, &c, i / c.count[1], i % c.count[1]);
    const void *x = load(w, r, plane + from.at * w->item, s->low, end);
    if (places)
      k->place(s, x, from.at, to, places);
    else if (s->cells == 1)
      joined = x;
    else
      k->join(r->joined, x, end - s->low, a->op == TIDE_WINDOW_MAX, i == 0, from.weight);
  }
  for (int64_t i = 0; i < n && places; i++) places[i] += a->index_base;
  if (!places) (is_between(a) ? k->between : a->op == TIDE_WINDOW_AREA ? k->area : k->across)(s, joined, to);
  if (to != out) tide__cast(w->isa, out, a->dtype, to, w->work, n);
}

/* Item i: a segment of a row; the rows of one segment follow each other. */
static void run(void *arg, int64_t begin, int64_t end) {
  work *w = arg;
  const tide_window_args *a = w->a;
  const int64_t rows = a->planes * w->out_plane, wide = tide__item(w->work), line = (w->most * wide + 63) / 64 * 64;
  char *memory = tide__room_take((size_t)(2 * line + SEGMENT * (wide + MOST * (wide + (int64_t)sizeof(int32_t)))));
  if (!memory) {
    atomic_store_explicit(&w->failed, true, memory_order_relaxed);
    return;
  }
  room r = {memory, memory + line, memory + 2 * line, NULL, NULL};
  r.weight = r.out + SEGMENT * wide, r.at = (int32_t *)(void *)(r.weight + SEGMENT * MOST * wide);
  segment s = {.a = a};
  int64_t last = -1, stop = 0;
  for (int64_t i = begin; i < end && !tide__loop_stops(); i++) {
    if (i / rows != last) {
      last = i / rows;
      s.from = last * SEGMENT, s.to = s.from + SEGMENT < a->dim[2].out ? s.from + SEGMENT : a->dim[2].out;
      span(a, s.from, s.to, &s.low, &stop);
      if ((is_between(a) || a->op == TIDE_WINDOW_AREA) && s.to > s.from) kernels_of(w)->fill(&s, r.at, r.weight);
    }
    make(w, &r, &s, i % rows, stop);
  }
  tide__room_put(memory);
}

tide_status tide__cpu_window(tide_stream *stream, const tide_window_args *a) {
  const tide_taps *d = a->dim;
  work w = {.a = a, .isa = tide__isa_get(), .item = tide__item(a->dtype)};
  w.work = a->dtype == TIDE_FLOAT64 || a->dtype == TIDE_INT64 ? a->dtype : TIDE_FLOAT32;
  w.in_row = d[2].in, w.in_plane = d[0].in * d[1].in * d[2].in, w.out_plane = d[0].out * d[1].out;
  const int64_t rows = a->planes * w.out_plane, cells = is_between(a) ? MOST : d[0].kernel * d[1].kernel;
  w.segments = (d[2].out + SEGMENT - 1) / SEGMENT;
  for (int64_t i = 0; i < w.segments; i++) {
    int64_t low, end, from = i * SEGMENT, to = from + SEGMENT < d[2].out ? from + SEGMENT : d[2].out;
    span(a, from, to, &low, &end);
    if (end - low > w.most) w.most = end - low;
  }
  if (w.most > INT32_MAX)
    return tide__fail(TIDE_SUPPORT, "window: the input's rows are too long for the CPU, got %lld elements at once",
                      (long long)w.most);
  tide__spread(rows * w.segments, cells * w.most, run, &w);
  if (!atomic_load_explicit(&w.failed, memory_order_relaxed)) return TIDE_OK;
  return tide__fail(TIDE_MEMORY, "window: no memory for rows of %lld elements", (long long)w.most);
}
