/* window.c: the kernel window: the maximum or mean of windows, and fields in another size.
 *
 * A row of the result is made in two steps: the rows of the input that it needs are joined, each with its weight, which
 * is done in vectors; then the elements of that one row are. Long rows are made in segments. Where the places of maxima
 * are wanted, each row of the input is joined with the result's on its own. float16 and bfloat16 become float32 as rows
 * are read. int64 has maxima alone.
 *
 * Invariant: of the input nothing is read but what a window covers. */
#include "base/field.h"
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

#define TAKE(i, from_)                                                                                                 \
  {                                                                                                                    \
    const int64_t p = from_;                                                                                           \
    const bool better = BETTER(best[i], row[p]);                                                                       \
    best[i] = better ? row[p] : best[i], at[i] = better ? base + p : at[i];                                            \
  }

/* LEAST: what every element is more than. */
#define WINDOWS(T, s_, how, LEAST)                                                                                     \
  how static void join_##s_(void *out_, const void *row_, int64_t n, bool maximum, bool first, double weight) {        \
    T *restrict out = out_;                                                                                            \
    const T *restrict row = row_, by = (T)weight;                                                                      \
    if (maximum && !first)                                                                                             \
      for (int64_t i = 0; i < n; i++) out[i] = MAXIMUM(out[i], row[i]);                                                \
    else if (first)                                                                                                    \
      for (int64_t i = 0; i < n; i++) out[i] = by * row[i];                                                            \
    else                                                                                                               \
      for (int64_t i = 0; i < n; i++) out[i] += by * row[i];                                                           \
  }                                                                                                                    \
  static T window_##s_(const segment *s, const T *row, int64_t i) {                                                    \
    tide_reach r = tide_reach_of(s->a->op, &s->a->dim[2], i);                                                          \
    bool maximum = s->a->op == TIDE_WINDOW_MAX;                                                                        \
    T sum = maximum ? LEAST : 0;                                                                                       \
    for (int64_t t = 0; t < r.count && s->cells; t++) {                                                                \
      T x = row[r.first + t * r.step - s->low];                                                                        \
      sum = maximum ? MAXIMUM(sum, x) : sum + x;                                                                       \
    }                                                                                                                  \
    if (maximum) return sum;                                                                                           \
    int64_t n = s->a->divisor ? s->a->divisor : s->a->with_border ? r.all * s->all : r.count * s->cells;               \
    return r.count && s->cells ? sum / (T)n : 0;                                                                       \
  }                                                                                                                    \
  /* Windows that are whole, one element of all of them after the other. */                                            \
  how static void inner_##s_(const segment *s, const T *row, T *restrict out, int64_t from, int64_t to) {              \
    const tide_taps *d = &s->a->dim[2];                                                                                \
    const int64_t stride = d->stride, n = to - from;                                                                   \
    const T *in = row + from * stride - d->before - s->low;                                                            \
    const T by = (T)(s->a->divisor ? s->a->divisor : d->kernel * (s->a->with_border ? s->all : s->cells));             \
    const bool pairs = d->kernel == 2 && stride == 2 && d->dilation == 1; /* in numbers that vector code needs */      \
    if (pairs && s->a->op == TIDE_WINDOW_MAX)                                                                          \
      for (int64_t i = 0; i < n; i++) out[i] = MAXIMUM(in[2 * i], in[2 * i + 1]);                                      \
    else if (pairs)                                                                                                    \
      for (int64_t i = 0; i < n; i++) out[i] = in[2 * i] + in[2 * i + 1];                                              \
    else                                                                                                               \
      for (int64_t i = 0; i < n; i++) out[i] = in[i * stride];                                                         \
    for (int64_t t = 1; t < d->kernel && !pairs; t++) {                                                                \
      const T *at = in + t * d->dilation;                                                                              \
      if (s->a->op == TIDE_WINDOW_MAX)                                                                                 \
        for (int64_t i = 0; i < n; i++) out[i] = MAXIMUM(out[i], at[i * stride]);                                      \
      else                                                                                                             \
        for (int64_t i = 0; i < n; i++) out[i] += at[i * stride];                                                      \
    }                                                                                                                  \
    for (int64_t i = 0; i < n && s->a->op != TIDE_WINDOW_MAX; i++) out[i] /= by;                                       \
  }                                                                                                                    \
  static void across_##s_(const segment *s, const void *row_, void *out_) {                                            \
    const T *row = row_;                                                                                               \
    T *out = out_;                                                                                                     \
    int64_t from, to;                                                                                                  \
    whole(s, &from, &to);                                                                                              \
    if (!s->cells) from = to = s->to;                                                                                  \
    for (int64_t i = s->from; i < from; i++) out[i - s->from] = window_##s_(s, row, i);                                \
    if (from < to) inner_##s_(s, row, out + (from - s->from), from, to);                                               \
    for (int64_t i = to; i < s->to; i++) out[i - s->from] = window_##s_(s, row, i);                                    \
  }                                                                                                                    \
  /* A row of the input joins the maxima and where they stand; its first element is element `base` of its plane. */    \
  how static void place_##s_(const segment *s, const void *row_, int64_t base, void *best_, int64_t *restrict at) {    \
    const tide_taps *d = &s->a->dim[2];                                                                                \
    const T *row = (const T *)row_ - s->low;                                                                           \
    T *restrict best = best_;                                                                                          \
    int64_t from, to;                                                                                                  \
    whole(s, &from, &to);                                                                                              \
    for (int64_t i = s->from; i < s->to; i++) {                                                                        \
      if (i == from) i = to;                                                                                           \
      if (i == s->to) break;                                                                                           \
      tide_reach r = tide_reach_of(TIDE_WINDOW_MAX, d, i);                                                             \
      for (int64_t t = 0; t < r.count; t++) TAKE(i - s->from, r.first + t * r.step)                                    \
    }                                                                                                                  \
    for (int64_t t = 0; t < d->kernel; t++)                                                                            \
      for (int64_t i = from; i < to; i++) TAKE(i - s->from, i * d->stride - d->before + t * d->dilation)               \
  }
#define BETWEEN(T, s_, how)                                                                                            \
  how static void between_##s_(const segment *s, const void *row_, void *out_) {                                       \
    const T *row = row_, *w = s->weight;                                                                               \
    T *restrict out = out_;                                                                                            \
    const int32_t *at = s->at;                                                                                         \
    if (s->a->op == TIDE_WINDOW_LINEAR)                                                                                \
      for (int64_t i = sizeof(T) == 4 ? between_two(row_, s->weight, at, out_, s->to - s->from) : 0;                   \
           i < s->to - s->from; i++)                                                                                   \
        out[i] = w[2 * i] * row[at[2 * i]] + w[2 * i + 1] * row[at[2 * i + 1]];                                        \
    else                                                                                                               \
      for (int64_t i = 0; i < s->to - s->from; i++, at += 4, w += 4)                                                   \
        out[i] = w[0] * row[at[0]] + w[1] * row[at[1]] + w[2] * row[at[2]] + w[3] * row[at[3]];                        \
  }                                                                                                                    \
  /* The mean of at[1] elements from at[0] on. */                                                                      \
  how static void area_##s_(const segment *s, const void *row_, void *out_) {                                          \
    const T *row = row_;                                                                                               \
    T *restrict out = out_;                                                                                            \
    const int32_t *at = s->at;                                                                                         \
    for (int64_t i = 0; i < s->to - s->from; i++, at += 2) {                                                           \
      T sum = 0;                                                                                                       \
      for (int32_t t = 0; t < at[1]; t++) sum += row[at[0] + t];                                                       \
      out[i] = sum / (T)(at[1] * s->cells);                                                                            \
    }                                                                                                                  \
  }                                                                                                                    \
  /* The places, from s->low on, and the weights of each element of a segment; of AREA, the first and their number. */ \
  static void fill_##s_(segment *s, int32_t *at, void *weight) {                                                       \
    const bool cubic = s->a->op == TIDE_WINDOW_CUBIC;                                                                  \
    const int n = cubic ? 4 : 2;                                                                                       \
    int64_t from[MOST];                                                                                                \
    T *w = weight;                                                                                                     \
    s->at = at, s->weight = w;                                                                                         \
    for (int64_t i = s->from; i < s->to && s->a->op == TIDE_WINDOW_AREA; i++) {                                        \
      const tide_reach r = tide_reach_of(s->a->op, &s->a->dim[2], i);                                                  \
      *at++ = (int32_t)(r.first - s->low), *at++ = (int32_t)r.count;                                                   \
    }                                                                                                                  \
    for (int64_t i = s->from; i < s->to && s->a->op != TIDE_WINDOW_AREA; i++, w += n)                                  \
      for (int t = (tide_between_##s_(cubic, &s->a->dim[2], s->a->align, i, from, w), 0); t < n; t++)                  \
        *at++ = (int32_t)(from[t] - s->low);                                                                           \
  }
WINDOWS(float, f32, QUICK, -INFINITY)
WINDOWS(double, f64, PLAIN, -INFINITY)
WINDOWS(int64_t, i64, PLAIN, INT64_MIN)
BETWEEN(float, f32, QUICK)
BETWEEN(double, f64, PLAIN)

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
  (void)stream;
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
