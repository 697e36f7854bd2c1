/* fft_lines.c: transforms of many lines, a vector of them at a time, and of one long line.
 *
 * A pass gathers as many lines as a vector has lanes into a buffer, transforms them there and writes them back, so the
 * layout of memory matters only at its two ends; groups of lines go to the threads. A long line is two such passes,
 * over its columns and over its rows.
 *
 * Invariant: a group is read completely before it is written, so a pass may work in place. */
#include "fft.h"

#include <stdlib.h>

#include "backend/cpu/loops/layout.h"
#include "backend/cpu/scratch.h"

static void *room(int64_t elements, const tide__fft_lanes *ops) {
  return tide__room_take((size_t)elements * 2 * (size_t)(ops->lanes * ops->item));
}

/* ---- one group, in lane buffers ---- */

/* A thread's own means: two buffers. */
typedef struct bench {
  void *a, *b;
  double *factors;
} bench;

static bool bench_begin(bench *w, const fft_pass *s) {
  const fft_plan *p = s->plan;
  *w = (bench){room(p->m + 1, p->ops), room(p->m + 1, p->ops), NULL};
  if (s->split) w->factors = malloc((size_t)p->n * 2 * sizeof *w->factors);
  return w->a && w->b && (w->factors || !s->split);
}

static void bench_end(bench *w) { tide__room_put(w->a), tide__room_put(w->b), free(w->factors); }

static void swap(bench *w) {
  void *a = w->a;
  w->a = w->b, w->b = a;
}

/* Buffer a, or lines in memory, are transformed; the result is buffer a again, or in memory. */
static void stages(const fft_plan *p, bench *w, const tide__fft_side *to, const tide__fft_side *from) {
  if (p->ops->run(&p->stages, to, from, w->a, w->b) != w->a) swap(w);
}

static void transform(const fft_plan *p, bench *w, const tide__fft_side *to, const tide__fft_side *from) {
  const tide__fft_lanes *ops = p->ops;
  if (p->n == 1) return;
  if (p->way == FFT_DIRECT) {
    stages(p, w, to, from);
    return;
  }
  ops->multiply(w->a, p->chirp, p->n, false);
  ops->clear(w->a, p->n, p->m);
  stages(p->first, w, NULL, NULL);
  ops->multiply(w->a, p->spectrum, p->m, true);
  stages(p->first, w, NULL, NULL);
  ops->multiply(w->a, p->chirp, p->n, true);
}

/* Line j of a split plan's columns: element k is multiplied by the root of j k. */
static void twist(const fft_pass *s, bench *w, int64_t j) {
  const fft_plan *p = s->split;
  int64_t mask = ((int64_t)1 << p->shift) - 1, e = 0;
  for (int64_t k = 0; k < s->plan->n; k++) {
    const double *c = p->coarse + 2 * (e >> p->shift), *f = p->fine + 2 * (e & mask);
    w->factors[2 * k] = c[0] * f[0] - c[1] * f[1];
    w->factors[2 * k + 1] = c[0] * f[1] + c[1] * f[0];
    e += j;
    if (e >= p->n) e -= p->n;
  }
  p->ops->twiddle(w->a, p->spread, w->factors, s->plan->n);
}

/* Where line number `line` begins on both sides. */
static void locate(int64_t at[2], const fft_pass *s, int64_t line) {
  at[0] = at[1] = 0;
  for (int d = 2; d >= 0; d--) {
    int64_t i = line % s->size[d];
    line /= s->size[d];
    at[0] += i * s->distance[0][d], at[1] += i * s->distance[1][d];
  }
}

/* Do lanes lie side by side, as the parts of complex numbers do? */
static bool together(const int64_t *at, int lanes) {
  bool yes = true;
  for (int l = 1; l < lanes; l++) yes = yes && at[l] == at[0] + 2 * l;
  return yes;
}

/* May the first stage read the lines where they lie, and may the last one write them there? Parts that are exchanged at
 * both ends are a result in reverse order. */
static void choose_sides(bool fused[2], const fft_pass *s, const int64_t *to, const int64_t *from, int used) {
  const tide__fft_stages *g = &s->plan->stages;
  const int lanes = s->plan->ops->lanes;
  fused[0] = fused[1] = false;
  if (s->plan->way != FFT_DIRECT || g->count < 2 || s->form == FFT_MIRROR || s->form == FFT_DOUBLE) return;
  bool first = tide__fft_is_short(g->radix[0]) && s->from.re + s->from.im == 1 && together(from, lanes);
  bool last = tide__fft_is_short(g->radix[g->count - 1]) && s->to.re + s->to.im == 1 && together(to, lanes);
  last = last && used == lanes && s->form == FFT_COMPLEX && !s->split;
  if (s->from.re || s->to.re) first = last = first && last && s->from.re == s->to.re;
  fused[0] = last, fused[1] = first;
}

static void do_group(const fft_pass *s, bench *w, int64_t line, int used) {
  const fft_plan *p = s->plan;
  const tide__fft_lanes *ops = p->ops;
  int64_t to[TIDE_FFT_LANES], from[TIDE_FFT_LANES], at[2];
  bool fused[2];
  for (int l = 0; l < ops->lanes; l++) {
    locate(at, s, l < used ? line + l : line);
    to[l] = at[0], from[l] = at[1];
  }
  choose_sides(fused, s, to, from, used);
  tide__fft_side out = {(char *)s->out + to[0] * ops->item, s->to.step, s->to.re == 1, s->scale};
  tide__fft_side in = {(char *)(uintptr_t)s->in + from[0] * ops->item, s->from.step, false, 1};
  if (!fused[1]) ops->load(w->a, s->in, from, s->from, s->loads);
  if (s->form == FFT_MIRROR) ops->mirror(w->a, p->n);
  if (s->form == FFT_DOUBLE) {
    ops->zip(w->b, w->a, p->half_root, p->n);
    swap(w);
  }
  transform(p, w, fused[0] ? &out : NULL, fused[1] ? &in : NULL);
  if (fused[0]) return;
  if (s->form == FFT_HALVE) {
    ops->unzip(w->b, w->a, p->half_root, p->n);
    swap(w);
  }
  if (s->split) twist(s, w, line);
  ops->store(s->out, w->a, to, s->to, s->stores, s->scale, used);
}

/* ---- all groups ---- */

static int64_t lines_of(const fft_pass *s) { return s->size[0] * s->size[1] * s->size[2]; }

static void do_groups(void *arg, int64_t begin, int64_t end) {
  fft_pass *s = arg;
  bench w;
  int lanes = s->plan->ops->lanes;
  bool good = bench_begin(&w, s);
  if (!good) atomic_store(&s->failed, true);
  for (int64_t g = begin; good && g < end; g++) {
    int64_t left = lines_of(s) - g * lanes;
    do_group(s, &w, g * lanes, left < lanes ? (int)left : lanes);
  }
  bench_end(&w);
}

bool tide__fft_pass(fft_pass *s) {
  int lanes = s->plan->ops->lanes;
  atomic_store(&s->failed, false);
  tide__spread((lines_of(s) + lanes - 1) / lanes, 8 * lanes * s->plan->m, do_groups, s);
  return !atomic_load(&s->failed);
}

/* ---- one line ---- */

static bool line_split(const fft_plan *p, const fft_line *l) {
  int64_t columns = p->first->n, rows = p->second->n;
  void *middle = tide__room_take((size_t)p->n * 2 * (size_t)p->ops->item);
  if (!middle) return false;
  /* Column j (elements j, j + rows, ...) becomes line j of middle; line k of its transpose becomes k, k + columns... */
  fft_pass s = {.plan = p->first, .out = middle, .in = l->in, .to = tide__fft_dense, .from = l->from};
  s.from.step = rows * l->from.step;
  s.size[0] = s.size[1] = 1, s.size[2] = rows;
  s.distance[0][2] = 2 * columns, s.distance[1][2] = l->from.step;
  s.loads = s.stores = columns, s.scale = 1, s.split = p;
  bool good = tide__fft_pass(&s);
  if (good) {
    s.plan = p->second, s.split = NULL, s.out = l->out, s.in = middle;
    s.from = (tide__fft_access){2 * columns, 0, 1}, s.to = l->to;
    s.to.step = columns * l->to.step;
    s.size[2] = columns, s.distance[0][2] = l->to.step, s.distance[1][2] = 2;
    s.loads = s.stores = rows, s.scale = l->scale;
    good = tide__fft_pass(&s);
  }
  tide__room_put(middle);
  return good;
}

typedef struct beside {
  const tide__fft_lanes *ops;
  char *out;
  const char *in;
  tide__fft_access to, from;
  const double *w; /* of product */
  void (*along)(void *out, const void *in, const void *root, int64_t h, int64_t begin, int64_t end);
  const void *root;
  int64_t h;
  bool conj;
  double scale;
} beside;

static void run_product(void *arg, int64_t begin, int64_t end) {
  const beside *b = arg;
  int64_t item = b->ops->item;
  b->ops->product(b->out + begin * b->to.step * item, b->to, b->in + begin * b->from.step * item, b->from,
                  b->w ? b->w + 2 * begin : NULL, end - begin, b->conj, b->scale);
}

void tide__fft_product(const tide__fft_lanes *ops, void *out, tide__fft_access to, const void *in,
                       tide__fft_access access, const double *w, int64_t n, bool conj, double scale) {
  beside b = {.ops = ops, .out = out, .in = in, .to = to, .from = access, .w = w, .conj = conj, .scale = scale};
  tide__spread(n, 4, run_product, &b);
}

static void run_clear(void *arg, int64_t begin, int64_t end) {
  const beside *b = arg;
  size_t item = 2 * (size_t)b->ops->item;
  memset(b->out + (size_t)begin * item, 0, (size_t)(end - begin) * item);
}

void tide__fft_clear(const tide__fft_lanes *ops, void *x, int64_t from, int64_t n) {
  beside b = {.ops = ops, .out = (char *)x + from * 2 * ops->item};
  tide__spread(n - from, 1, run_clear, &b);
}

static void run_along(void *arg, int64_t begin, int64_t end) {
  const beside *b = arg;
  b->along(b->out, b->in, b->root, b->h, begin, end);
}

void tide__fft_unzip(const fft_plan *p, void *out, const void *in) {
  beside b = {.along = p->ops->unzip_line, .out = out, .in = in, .root = p->half_root, .h = p->n};
  tide__spread(p->n + 1, 4, run_along, &b);
}

void tide__fft_zip(const fft_plan *p, void *out, const void *in) {
  beside b = {.along = p->ops->zip_line, .out = out, .in = in, .root = p->half_root, .h = p->n};
  tide__spread(p->n, 4, run_along, &b);
}

static bool line_chirp(const fft_plan *p, const fft_line *l) {
  size_t item = 2 * (size_t)p->ops->item;
  char *a = tide__room_take((size_t)p->m * item), *b = tide__room_take((size_t)p->m * item);
  bool good = a && b;
  fft_line there = {b, a, tide__fft_dense, tide__fft_dense, 1}, back = {a, b, tide__fft_dense, tide__fft_dense, 1};
  if (good) {
    tide__fft_product(p->ops, a, tide__fft_dense, l->in, l->from, p->chirp, p->n, false, 1);
    tide__fft_clear(p->ops, a, p->n, p->m);
    good = tide__fft_line(p->first, &there);
  }
  if (good) {
    tide__fft_product(p->ops, b, tide__fft_dense, b, tide__fft_dense, p->spectrum, p->m, true, 1);
    good = tide__fft_line(p->first, &back);
  }
  if (good) tide__fft_product(p->ops, l->out, l->to, a, tide__fft_dense, p->chirp, p->n, true, l->scale);
  tide__room_put(a), tide__room_put(b);
  return good;
}

bool tide__fft_line(const fft_plan *p, const fft_line *l) {
  if (p->way == FFT_SPLIT) return line_split(p, l);
  if (!fft_in_lanes(p)) return line_chirp(p, l);
  fft_pass s = {.plan = p, .out = l->out, .in = l->in, .to = l->to, .from = l->from, .size = {1, 1, 1}};
  s.loads = s.stores = p->n, s.scale = l->scale;
  return tide__fft_pass(&s);
}
