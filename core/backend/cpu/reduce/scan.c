/* scan.c: running sums, products and extremes along a dim.
 *
 * Elements are worked on as double, int64 or complex double, in pieces that the first cache holds; the conversions of
 * the instruction sets load and store them. Where neighbours of a line lie far apart, many lines are walked side by
 * side, a row at a time, and short lines one behind the other. Else a line is cut into tiles: each is scanned on its
 * own, and then joined with what all tiles before it are together. With one thread a tile's total is known when it has
 * been scanned; with several the totals of a window of tiles are computed first, and what the caches keep is read
 * again.
 *
 * Invariant: what is joined with what depends on the sizes alone, not on the threads. */
#include <stdlib.h>

#include "backend/cpu/loops/layout.h"
#include "base/special.h"
#include "tide/scan.h"

#undef I
#define tide_log_add tide_log_add_f64

enum {
  PIECE = 1024,
  TILE = 16 * PIECE,
  COLUMNS = 256,
  LEAST_COLUMNS = 16,
  WINDOW = 64,
  NEAR = 8,
  GROUP = 64,
  SHORT = 64,
  VERY_SHORT = 4
};

/* What is known of some elements: their value, as one of the work types, and where it stands; at < 0: of none. */
typedef struct state {
  _Alignas(16) char value[16];
  int64_t at;
} state;

/* The loops of one scan over one work type. each: out becomes x's own scan, which goes on from s, joined with `before`,
 * of the tiles before; `first` is where x[0] stands, by the index base; out may be x. after: s, of elements after those
 * of t, becomes what both are. rows: column j of s takes x[j], which becomes what s then is. none: s is of no element.
 * lines: scans of n elements each, one behind the other. */
typedef struct loops {
  void (*each)(void *out, const void *x, int64_t *at, int64_t n, int64_t first, state *s, const state *before);
  void (*after)(state *s, const state *t);
  void (*rows)(void *s, int64_t *s_at, void *x, int64_t *at, int64_t n, int64_t row);
  void (*none)(state *s);
  void (*lines)(void *x, int64_t *at, int64_t n, int64_t lines, int64_t first);
} loops;

#define LOOPS_JOIN(name, W, none_value, join)                                                                          \
  static inline W join_##name##_##W(W a, W b) { return (W)(join); }                                                    \
  static void none_##name##_##W(state *s) {                                                                            \
    W v = (W)(none_value);                                                                                             \
    memcpy(s->value, &v, sizeof v), s->at = -1;                                                                        \
  }                                                                                                                    \
  static void after_##name##_##W(state *s, const state *t) {                                                           \
    W value, before;                                                                                                   \
    memcpy(&value, s->value, sizeof value), memcpy(&before, t->value, sizeof before);                                  \
    value = join_##name##_##W(before, value);                                                                          \
    memcpy(s->value, &value, sizeof value);                                                                            \
  }                                                                                                                    \
  static void lines_##name##_##W(void *x_, int64_t *at, int64_t n, int64_t lines, int64_t first) {                     \
    W *x = x_;                                                                                                         \
    for (; lines > 0; lines--, x += n) {                                                                               \
      W all = (W)(none_value);                                                                                         \
      for (int64_t i = 0; i < n; i++) x[i] = all = join_##name##_##W(all, x[i]);                                       \
    }                                                                                                                  \
  }                                                                                                                    \
  static void rows_##name##_##W(void *s_, int64_t *s_at, void *x_, int64_t *at, int64_t n, int64_t row) {              \
    W *s = s_, *x = x_;                                                                                                \
    for (int64_t j = 0; j < n; j++) x[j] = s[j] = join_##name##_##W(s[j], x[j]);                                       \
  }

/* A chain over eight numbers that is one operation long, as what they are together is known without those before:
 * floats in vectors of two, and integers one by one, as few processors multiply vectors of int64. own, all: what is
 * known of the tile and of all numbers, in each lane. Complex numbers go one by one (COSTLY). */
typedef double double_two __attribute__((vector_size(16), aligned(8), may_alias));
typedef double double_lanes __attribute__((vector_size(16)));
typedef int64_t int64_t_lanes;
#define LANES_double(v)  ((double_lanes){v, v})
#define LANES_int64_t(v) (v)
#define LANE_double(v)   ((v)[1])
#define LANE_int64_t(v)  (v)
#define EIGHT_double(name, join)                                                                                       \
  static inline double_lanes two_##name(double_lanes a, double_lanes b) { return join; }                               \
  /* The scan of two numbers, behind `before`, whose second one is of all before them. */                              \
  static inline double_lanes scan_##name(double_lanes before, double_lanes x, double none) {                           \
    x = two_##name((double_lanes){none, x[0]}, x);                                                                     \
    return two_##name(LANES_double(before[1]), x);                                                                     \
  }                                                                                                                    \
  static inline void eight_##name##_double(double *out, const double *x, double_lanes *own, double_lanes *all,         \
                                           double none) {                                                              \
    const double_two *v = (const double_two *)(const void *)x;                                                         \
    double_two *to = (double_two *)(void *)out;                                                                        \
    const double_lanes a = scan_##name(LANES_double(none), v[0], none), b = scan_##name(a, v[1], none);                \
    const double_lanes c = scan_##name(b, v[2], none), d = scan_##name(c, v[3], none), last = two_##name(*all, d);     \
    to[0] = two_##name(*all, a), to[1] = two_##name(*all, b), to[2] = two_##name(*all, c), to[3] = last;               \
    *own = two_##name(*own, d), *all = LANES_double(last[1]);                                                          \
  }
#define EIGHT_int64_t(name, join)                                                                                      \
  static inline void eight_##name##_int64_t(int64_t *out, const int64_t *x, int64_t *own, int64_t *all,                \
                                            int64_t none) {                                                            \
    int64_t part = none;                                                                                               \
    const int64_t base = *all;                                                                                         \
    _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++) {                                                              \
      part = join_##name##_int64_t(part, x[j]), out[j] = join_##name##_int64_t(base, part);                            \
    }                                                                                                                  \
    *own = join_##name##_int64_t(*own, part), *all = join_##name##_int64_t(base, part);                                \
  }
#define LOOPS_VALUE(name, W, none_value, join)                                                                         \
  LOOPS_JOIN(name, W, none_value, join)                                                                                \
  EIGHT_##W(name, join) static void each_##name##_##W(void *out_, const void *x_, int64_t *at, int64_t n,              \
                                                      int64_t first, state *s, const state *before) {                  \
    const W *x = x_;                                                                                                   \
    W *out = out_, own, all;                                                                                           \
    int64_t i = 0;                                                                                                     \
    memcpy(&own, s->value, sizeof own), memcpy(&all, before->value, sizeof all);                                       \
    W##_lanes owns = LANES_##W(own), alls = LANES_##W(join_##name##_##W(all, own));                                    \
    for (; i + 8 <= n; i += 8) eight_##name##_##W(out + i, x + i, &owns, &alls, none_value);                           \
    own = LANE_##W(owns), all = LANE_##W(alls);                                                                        \
    for (; i < n; i++) own = join_##name##_##W(own, x[i]), out[i] = all = join_##name##_##W(all, x[i]);                \
    memcpy(s->value, &own, sizeof own), s->at = 0;                                                                     \
  }
#define LOOPS_COSTLY(name, W, none_value, join)                                                                        \
  LOOPS_JOIN(name, W, none_value, join)                                                                                \
  static void each_##name##_##W(void *out_, const void *x_, int64_t *at, int64_t n, int64_t first, state *s,           \
                                const state *before) {                                                                 \
    const W *x = x_;                                                                                                   \
    W *out = out_, own, all;                                                                                           \
    memcpy(&own, s->value, sizeof own), memcpy(&all, before->value, sizeof all);                                       \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      own = join_##name##_##W(own, x[i]);                                                                              \
      out[i] = before->at < 0 ? own : join_##name##_##W(all, own);                                                     \
    }                                                                                                                  \
    memcpy(s->value, &own, sizeof own), s->at = 0;                                                                     \
  }

/* The best of a group says whether it changes anything: most groups do not. */
#define BEST_cummax_double  max_f64
#define BEST_cummin_double  min_f64
#define BEST_cummax_int64_t max_i64
#define BEST_cummin_int64_t min_i64
#define LOOPS_PLACE(name, W, none_value, join)                                                                         \
  static inline bool takes_##name##_##W(W a, W b) { return b != b || (a == a && (join)); }                             \
  static void none_##name##_##W(state *s) {                                                                            \
    W v = none_value;                                                                                                  \
    memcpy(s->value, &v, sizeof v), s->at = -1;                                                                        \
  }                                                                                                                    \
  static void after_##name##_##W(state *s, const state *t) {                                                           \
    W best, before;                                                                                                    \
    memcpy(&best, s->value, sizeof best), memcpy(&before, t->value, sizeof before);                                    \
    if (!takes_##name##_##W(before, best)) *s = *t;                                                                    \
  }                                                                                                                    \
  /* s takes those before as well, which changes nothing where they join: the later of equals is taken. */             \
  static void each_##name##_##W(void *out_, const void *x_, int64_t *at, int64_t n, int64_t first, state *s,           \
                                const state *before) {                                                                 \
    const state *const known = s->at < 0 ? before : s;                                                                 \
    const W *x = x_;                                                                                                   \
    W *out = out_, best;                                                                                               \
    int64_t where = known->at, i = 0;                                                                                  \
    memcpy(&best, known->value, sizeof best);                                                                          \
    if (where < 0) best = x[0], where = first;                                                                         \
    while (i < n) {                                                                                                    \
      if (i + GROUP <= n && !takes_##name##_##W(best, tide__isa_get()->BEST_##name##_##W(x + i, GROUP))) {             \
        for (const int64_t end = i + GROUP; i < end; i++) out[i] = best, at[i] = where;                                \
        continue;                                                                                                      \
      }                                                                                                                \
      for (const int64_t end = i + GROUP < n ? i + GROUP : n; i < end; i++) {                                          \
        if (takes_##name##_##W(best, x[i])) best = x[i], where = first + i;                                            \
        out[i] = best, at[i] = where;                                                                                  \
      }                                                                                                                \
    }                                                                                                                  \
    memcpy(s->value, &best, sizeof best), s->at = where;                                                               \
  }                                                                                                                    \
  static void lines_##name##_##W(void *x_, int64_t *at, int64_t n, int64_t lines, int64_t first) {                     \
    W *x = x_;                                                                                                         \
    for (; lines > 0; lines--, x += n, at += n) {                                                                      \
      W best = x[0];                                                                                                   \
      int64_t where = first;                                                                                           \
      for (int64_t i = 0; i < n; i++) {                                                                                \
        if (takes_##name##_##W(best, x[i])) best = x[i], where = first + i;                                            \
        x[i] = best, at[i] = where;                                                                                    \
      }                                                                                                                \
    }                                                                                                                  \
  }                                                                                                                    \
  static void rows_##name##_##W(void *s_, int64_t *s_at, void *x_, int64_t *at, int64_t n, int64_t row) {              \
    W *s = s_, *x = x_;                                                                                                \
    for (int64_t j = 0; j < n; j++) {                                                                                  \
      if (row == 0 || takes_##name##_##W(s[j], x[j])) s[j] = x[j], s_at[j] = row;                                      \
      x[j] = s[j], at[j] = s_at[j];                                                                                    \
    }                                                                                                                  \
  }

typedef double complex wide;
#define FOR_WIDE(...) __VA_ARGS__
#define FOR_FLOAT(...)
#define FOR_CHOICE(...)
#define INTS_WIDE(...) __VA_ARGS__
#define INTS_FLOAT(...)
#define INTS_CHOICE(...) __VA_ARGS__

#define SCAN(NAME, name, rule, kind, none, join, doc)                                                                  \
  LOOPS_##kind(name, double, none, join) INTS_##rule(LOOPS_##kind(name, int64_t, none, join))                          \
      FOR_##rule(LOOPS_COSTLY(name, wide, none, join))
#include "tide/scan.def"

#define SLOT(name, W)                                                                                                  \
  { each_##name##_##W, after_##name##_##W, rows_##name##_##W, none_##name##_##W, lines_##name##_##W }
#define NO_SLOT                                                                                                        \
  { NULL, NULL, NULL, NULL, NULL }
#define INTS_SLOT_WIDE(name)   SLOT(name, int64_t)
#define INTS_SLOT_FLOAT(name)  NO_SLOT
#define INTS_SLOT_CHOICE(name) SLOT(name, int64_t)
#define FOR_SLOT_WIDE(name)    SLOT(name, wide)
#define FOR_SLOT_FLOAT(name)   NO_SLOT
#define FOR_SLOT_CHOICE(name)  NO_SLOT

enum { OF_DOUBLE, OF_INT64, OF_WIDE, WORK_TYPES };
static const loops table[][WORK_TYPES] = {
#define SCAN(NAME, name, rule, kind, none, join, doc)                                                                  \
  {SLOT(name, double), INTS_SLOT_##rule(name), FOR_SLOT_##rule(name)},
#include "tide/scan.def"
};

/* ---- the walk ---- */

typedef struct work {
  const tide_scan_args *a;
  const tide__isa *isa;
  loops f;
  bool exponentials;                 /* logcumsumexp of real numbers */
  int dtype;                         /* FLOAT64, INT64 or COMPLEX128 */
  int64_t item, tiles, first, count; /* bytes of a work type; of a line; of a window, in tiles of the line */
  int64_t line;
  state *totals;
} work;

typedef struct room {
  _Alignas(64) char x[16 * PIECE];
  _Alignas(64) char raw[16 * PIECE];
  int64_t at[PIECE];
} room;

/* n elements of line `line` from `from` on, in the work type: in the room, or where they stand if they are of it. */
static const void *load(const work *w, room *r, int64_t line, int64_t from, int64_t n) {
  const tide_scan_args *a = w->a;
  int64_t item = tide__item(a->dtype[1]), apart = a->inner;
  const char *in = (const char *)a->head.ptr[1];
  in += (line / apart * a->n * apart + line % apart + from * apart) * item;
  if (apart > 1) {
    for (int64_t i = 0; i < n; i++) memcpy(r->raw + i * item, in + i * apart * item, (size_t)item);
    in = r->raw;
  }
  if (apart == 1 && !w->exponentials && a->dtype[1] == w->dtype) return in;
  tide__cast(w->isa, r->x, w->dtype, in, a->dtype[1], n);
  return r->x;
}

/* Where n results in the work type go: to where they belong if that is of it, else to the room. */
static void *target(const work *w, room *r, int64_t line, int64_t from) {
  const tide_scan_args *a = w->a;
  if (a->inner > 1 || w->exponentials || a->dtype[0] != w->dtype) return r->x;
  return (char *)a->head.ptr[0] + (line * a->n + from) * w->item;
}

/* What stands in x, which `target` gave. */
static void put(const work *w, room *r, const void *x, int64_t line, int64_t from, int64_t n) {
  const tide_scan_args *a = w->a;
  int64_t item = tide__item(a->dtype[0]), apart = a->inner;
  int64_t at = line / apart * a->n * apart + line % apart + from * apart;
  char *out = (char *)a->head.ptr[0] + at * item;
  int64_t *places = a->head.ptr[2] ? (int64_t *)a->head.ptr[2] + at : NULL;
  if (x != out) tide__cast(w->isa, apart > 1 ? r->raw : out, a->dtype[0], x, w->dtype, n);
  if (apart > 1)
    for (int64_t i = 0; i < n; i++) memcpy(out + i * apart * item, r->raw + i * item, (size_t)item);
  if (places && apart > 1)
    for (int64_t i = 0; i < n; i++) places[i * apart] = r->at[i];
}

/* logcumsumexp of n numbers in the room as logarithms of running sums of exponentials, many at once, as `each` does it
 * one by one. false, and nothing is done, where a number's digits might be lost: those of a sum far below the largest
 * one, or of what is not finite. */
static bool by_exponentials(const work *w, room *r, int64_t n, state *s, const state *before, bool stores) {
  static const double no_param[3];
  double *x = (double *)(void *)r->x, *y = (double *)(void *)r->raw, own, all, scale = 1, rest = 0;
  const int64_t blocks = (n + TIDE_BLOCK - 1) / TIDE_BLOCK;
  memcpy(&own, s->value, sizeof own), memcpy(&all, before->value, sizeof all);
  const double alone = own == -INFINITY && all == -INFINITY ? x[0] : NAN, here = w->isa->max_f64(x, n);
  const double most = here < own ? own : here; /* NaN where there is one */
  if (!(isfinite(most) && all < INFINITY && fmax(own, x[0]) >= most - NEAR)) return false;
  memset(x + n, 0, (size_t)(blocks * TIDE_BLOCK - n) * sizeof *x);
  w->isa->exp_less[1](y, x, NULL, NULL, &most, blocks);
  state sum = {.at = 0}, none;
  const double first = exp(own - most);
  memcpy(sum.value, &first, sizeof first);
  none_cumsum_double(&none);
  each_cumsum_double(y, y, NULL, n, 0, &sum, &none);
  own = most + log(y[n - 1]);
  memcpy(s->value, &own, sizeof own), s->at = 0;
  if (!stores) return true;
  const double top = fmax(most, all);
  if (all > -INFINITY) scale = exp(most - top), rest = exp(all - top);
  for (int64_t i = 0; i < n; i++) y[i] = y[i] * scale + rest;
  w->isa->op[TIDE_OP_log][TIDE_C_F64](x, y, NULL, NULL, no_param, blocks);
  for (int64_t i = 0; i < n; i++) x[i] += top;
  if (alone == alone) x[0] = alone;
  return true;
}

/* A tile's own scan: its total in s, and what is stored joined with `before`. Places that follow each other are written
 * where they belong. */
static void tile(const work *w, room *r, int64_t line, int64_t number, state *s, const state *before, bool stores) {
  int64_t end = (number + 1) * TILE < w->a->n ? (number + 1) * TILE : w->a->n, *places = NULL;
  if (stores && w->a->inner == 1 && w->a->head.ptr[2]) places = (int64_t *)w->a->head.ptr[2] + line * w->a->n;
  w->f.none(s);
  for (int64_t i = number * TILE; i < end; i += PIECE) {
    int64_t n = end - i < PIECE ? end - i : PIECE;
    int64_t *const at = places ? places + i : r->at, first = i + w->a->index_base;
    const void *x = load(w, r, line, i, n);
    void *out = stores ? target(w, r, line, i) : r->x;
    if (!w->exponentials || !by_exponentials(w, r, n, s, before, stores)) w->f.each(out, x, at, n, first, s, before);
    if (stores) put(w, r, out, line, i, n);
  }
}

/* before becomes what it and a total behind it are together. */
static void advance(const work *w, state *before, const state *total) {
  state next = *total;
  if (before->at >= 0) w->f.after(&next, before);
  *before = next;
}

static void run_lines(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  room r;
  for (int64_t line = begin; line < end; line++) {
    state before, total;
    w->f.none(&before);
    for (int64_t t = 0; t < w->tiles && !tide__loop_stops(); t++) {
      tile(w, &r, line, t, &total, &before, true);
      advance(w, &before, &total);
    }
  }
}

static void run_totals(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  room r;
  state none;
  w->f.none(&none);
  for (int64_t t = begin; t < end && !tide__loop_stops(); t++)
    tile(w, &r, w->line, w->first + t, &w->totals[t], &none, false);
}

static void run_tiles(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  room r;
  for (int64_t t = begin; t < end && !tide__loop_stops(); t++) {
    state total;
    tile(w, &r, w->line, w->first + t, &total, &w->totals[t], true);
  }
}

/* Lines that are few and long: all threads work on one. */
static void run_windows(work *w) {
  state totals[WINDOW];
  w->totals = totals;
  for (w->line = 0; w->line < w->a->outer * w->a->inner; w->line++) {
    state before;
    w->f.none(&before);
    for (w->first = 0; w->first < w->tiles; w->first += WINDOW) {
      w->count = w->tiles - w->first < WINDOW ? w->tiles - w->first : WINDOW;
      tide__parallel_for(w->count, 1, run_totals, w);
      if (tide__loop_stops()) return;
      for (int64_t t = 0; t < w->count; t++) {
        state total = totals[t];
        totals[t] = before;
        advance(w, &before, &total);
      }
      tide__parallel_for(w->count, 1, run_tiles, w);
    }
  }
}

/* Short lines, one behind the other, some of them at once. */
static void run_short(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  const tide_scan_args *a = w->a;
  const int64_t most = PIECE / a->n, lines = a->outer;
  room r;
  for (int64_t i = begin; i < end && !tide__loop_stops(); i++) {
    const int64_t first = i * most, some = lines - first < most ? lines - first : most;
    int64_t *const at = a->head.ptr[2] ? (int64_t *)a->head.ptr[2] + first * a->n : r.at;
    const void *x = load(w, &r, first, 0, some * a->n);
    if (x != r.x) memcpy(r.x, x, (size_t)(some * a->n * w->item));
    w->f.lines(r.x, at, a->n, some, a->index_base);
    put(w, &r, r.x, first, 0, some * a->n);
  }
}

/* Lines side by side: item i is a strip of columns. */
static void run_strips(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  const tide_scan_args *a = w->a;
  int64_t strips = (a->inner + COLUMNS - 1) / COLUMNS;
  _Alignas(64) char s[16 * COLUMNS], x[16 * COLUMNS];
  int64_t s_at[COLUMNS], at[COLUMNS];
  for (int64_t i = begin; i < end; i++) {
    int64_t column = i % strips * COLUMNS, n = a->inner - column < COLUMNS ? a->inner - column : COLUMNS;
    state none;
    w->f.none(&none);
    for (int64_t j = 0; j < n; j++) memcpy(s + j * w->item, none.value, (size_t)w->item);
    for (int64_t row = 0; row < a->n; row++) {
      if (row % 256 == 0 && tide__loop_stops()) return;
      int64_t from = (i / strips * a->n + row) * a->inner + column;
      const char *in = (const char *)a->head.ptr[1] + from * tide__item(a->dtype[1]);
      tide__cast(w->isa, x, w->dtype, in, a->dtype[1], n);
      w->f.rows(s, s_at, x, at, n, row);
      tide__cast(w->isa, (char *)a->head.ptr[0] + from * tide__item(a->dtype[0]), a->dtype[0], x, w->dtype, n);
      if (!a->head.ptr[2]) continue;
      int64_t *places = (int64_t *)a->head.ptr[2] + from;
      for (int64_t j = 0; j < n; j++) places[j] = at[j] + a->index_base;
    }
  }
}

tide_status tide__cpu_scan(tide_stream *stream, const tide_scan_args *a) {
  int place = a->work == TIDE_INT64 ? OF_INT64 : tide__category(a->work) == 3 ? OF_WIDE : OF_DOUBLE;
  static const int dtypes[] = {TIDE_FLOAT64, TIDE_INT64, TIDE_COMPLEX128};
  work w = {.a = a, .isa = tide__isa_get(), .f = table[a->op][place], .dtype = dtypes[place]};
  w.exponentials = a->op == TIDE_SCAN_LOGCUMSUMEXP && place == OF_DOUBLE;
  if (!w.f.each)
    return tide__fail(TIDE_SUPPORT, "scan: operation %d does not compute in dtype %d on the CPU", a->op, a->work);
  w.item = tide__item(w.dtype), w.tiles = (a->n + TILE - 1) / TILE;
  int64_t lines = a->outer * a->inner, strips = (a->inner + COLUMNS - 1) / COLUMNS;
  if (a->inner >= LEAST_COLUMNS)
    tide__spread(a->outer * strips, a->n * (a->inner / strips), run_strips, &w);
  else if (a->inner == 1 && a->n > 0 && a->n <= (w.exponentials ? VERY_SHORT : SHORT))
    tide__spread((lines + PIECE / a->n - 1) / (PIECE / a->n), PIECE, run_short, &w);
  else if (w.tiles >= 4 && lines < tide_get_num_threads())
    run_windows(&w);
  else
    tide__spread(lines, a->n, run_lines, &w);
  return TIDE_OK;
}
