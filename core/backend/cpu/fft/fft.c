/* fft.c: the Fourier kernel of the CPU: one dim after the other.
 *
 * A transform of several dims is a pass over each of them; the first one reads the input, the others work in place. The
 * halved dim is done first on the way forward and last on the way back. A backward transform is the forward one with
 * real and imaginary parts exchanged at both ends. A real line of even length is a complex one of half the length, with
 * the even elements as real parts; of odd length, a complex one without imaginary parts.
 *
 * Lengths that do not fit in lane buffers take the long way, one line at a time. */
#include "fft.h"

#include <stdlib.h>

typedef struct work {
  const tide_fft_args *a;
  const tide_fft_shape *shape;
  int64_t size[TIDE_FFT_RANK]; /* of the complex side */
  int item;                    /* bytes of a real */
} work;

static tide_status no_memory(void) {
  return tide__fail(TIDE_MEMORY, "fft: no memory for the work area, expected room for a few lines");
}

/* ---- the long way ---- */

/* A real line to n / 2 + 1 elements. a, b: room for n / 2 + 1 or n complex numbers. */
static bool long_forward(const fft_plan *p, const fft_pass *s, fft_line l, char *a, char *b) {
  const tide__fft_lanes *ops = p->ops;
  void *out = l.out;
  l.out = b, l.to = tide__fft_dense, l.scale = 1;
  if (!tide__fft_line(p, &l)) return false;
  if (s->form == FFT_HALVE) {
    tide__fft_unzip(p, a, b);
    b = a;
  }
  tide__fft_product(ops, out, s->to, b, tide__fft_dense, NULL, s->stores, false, s->scale);
  return true;
}

/* And back. */
static bool long_back(const fft_plan *p, const fft_pass *s, fft_line l, char *a, char *b) {
  const tide__fft_lanes *ops = p->ops;
  size_t item = (size_t)ops->item;
  if (s->form == FFT_DOUBLE) {
    tide__fft_product(ops, b, tide__fft_dense, l.in, s->from, NULL, p->n + 1, false, 1);
    tide__fft_zip(p, a, b);
  } else { /* conjugates in both halves: their forward transform is the real line */
    int64_t n = p->n;
    const tide__fft_access down = {-2, 2 * (n - 1), 2 * (n - 1) + 1};
    tide__fft_product(ops, a, tide__fft_dense, l.in, s->from, NULL, n / 2 + 1, true, 1);
    memset(a + item, 0, item); /* an imaginary part that no real line has does not count */
    tide__fft_product(ops, a, down, a + 2 * item, tide__fft_dense, NULL, n / 2, true, 1);
  }
  l.in = a, l.from = tide__fft_dense;
  return tide__fft_line(p, &l);
}

static bool long_line(const fft_plan *p, const fft_pass *s, fft_line l, tide_fft_type type, char *a, char *b) {
  if (type == TIDE_FFT_R2C) return long_forward(p, s, l, a, b);
  if (type == TIDE_FFT_C2R) return long_back(p, s, l, a, b);
  return tide__fft_line(p, &l);
}

static bool long_lines(const fft_plan *p, const fft_pass *s, tide_fft_type type) {
  size_t item = (size_t)p->ops->item, room = type == TIDE_FFT_C2C ? 1 : (size_t)(p->n + 1) * 2 * item;
  char *a = malloc(room), *b = malloc(room);
  bool good = a && b;
  for (int64_t i = 0; good && i < s->size[0] && !tide__loop_stops(); i++)
    for (int64_t j = 0; good && j < s->size[1] && !tide__loop_stops(); j++)
      for (int64_t k = 0; good && k < s->size[2] && !tide__loop_stops(); k++) {
        int64_t at[2];
        for (int side = 0; side < 2; side++)
          at[side] = i * s->distance[side][0] + j * s->distance[side][1] + k * s->distance[side][2];
        fft_line l = {(char *)s->out + at[0] * (int64_t)item, (const char *)s->in + at[1] * (int64_t)item, s->to,
                      s->from, s->scale};
        good = long_line(p, s, l, type, a, b);
      }
  free(a), free(b);
  return good;
}

/* ---- passes ---- */

/* The lines along dim d: the batch and the other dims count them. real: that side has reals. */
static void pass_begin(fft_pass *s, const work *w, int d, bool out_real, bool in_real) {
  const tide_fft_shape *g = w->shape;
  int at = 1;
  s->size[0] = g->batch, s->size[1] = s->size[2] = 1;
  s->distance[0][0] = g->distance[0] * (out_real ? 1 : 2), s->distance[1][0] = g->distance[1] * (in_real ? 1 : 2);
  s->distance[0][1] = s->distance[0][2] = s->distance[1][1] = s->distance[1][2] = 0;
  for (int e = 0; e < g->rank; e++) {
    if (e == d) continue;
    s->size[at] = w->size[e];
    s->distance[0][at] = g->stride[0][e] * (out_real ? 1 : 2);
    s->distance[1][at] = g->stride[1][e] * (in_real ? 1 : 2);
    at++;
  }
}

static bool is_access(tide__fft_access a, int64_t re, int64_t im) { return a.step == 2 && a.re == re && a.im == im; }

/* Do the lines lie as tide__fft_fold_pass wants them? */
static bool is_dense(const fft_pass *s) {
  if (s->form == FFT_COMPLEX) return is_access(s->from, s->to.re, s->to.im) && is_access(s->to, s->from.re, s->from.im);
  if (!is_access(s->from, 0, 1)) return false;
  return s->form == FFT_HALVE ? is_access(s->to, 0, 1) : s->form == FFT_DOUBLE && is_access(s->to, 1, 0);
}

static fft_use use_of(const fft_pass *s, int64_t n, bool wide) {
  if (is_dense(s) && tide__fft_folds(n, wide)) return FFT_DENSE;
  return s->size[0] * s->size[1] * s->size[2] < (wide ? 2 : 4) ? FFT_ALONE : FFT_MANY;
}

static tide_status finish(fft_pass *s, fft_plan *p, tide_fft_type type) {
  bool good = p && (p->way == FFT_FOLD ? tide__fft_fold_pass(s)
                    : fft_in_lanes(p)  ? tide__fft_pass(s)
                                       : long_lines(p, s, type));
  if (p) tide__fft_plan_put(p);
  return good ? TIDE_OK : no_memory();
}

/* Complex lines along dim d from one side, 0 output or 1 input, to another. */
static tide_status complex_pass(const work *w, int d, int to, int from, double scale) {
  const tide_fft_shape *g = w->shape;
  fft_pass s = {.out = w->a->head.ptr[to], .in = w->a->head.ptr[from], .loads = w->size[d], .stores = w->size[d]};
  pass_begin(&s, w, d, false, false);
  for (int k = 0; k < 3; k++) {
    int64_t out = s.distance[to][k], in = s.distance[from][k];
    s.distance[0][k] = out, s.distance[1][k] = in;
  }
  s.to = (tide__fft_access){2 * g->stride[to][d], w->a->backward, !w->a->backward};
  s.from = (tide__fft_access){2 * g->stride[from][d], w->a->backward, !w->a->backward};
  s.scale = scale;
  fft_plan *p = tide__fft_plan_get(s.loads, g->wide, false, use_of(&s, s.loads, g->wide));
  s.plan = p;
  return finish(&s, p, TIDE_FFT_C2C);
}

/* Real lines along the last dim, forward or back. */
static tide_status real_pass(const work *w, double scale) {
  const tide_fft_shape *g = w->shape;
  int d = g->rank - 1;
  bool back = g->type == TIDE_FFT_C2R;
  int64_t n = g->n[d], r = g->stride[back ? 0 : 1][d], c = 2 * g->stride[back ? 1 : 0][d];
  fft_pass s = {.out = w->a->head.ptr[0], .in = w->a->head.ptr[1], .scale = scale};
  pass_begin(&s, w, d, back, !back);
  bool pairs = n % 2 == 0;
  /* Pairs come back with their parts exchanged, see zip. */
  tide__fft_access real = pairs ? (tide__fft_access){2 * r, back ? r : 0, back ? 0 : r} : (tide__fft_access){r, 0, -1};
  tide__fft_access halved = {c, 0, 1};
  int64_t real_count = pairs ? n / 2 : n;
  s.from = back ? halved : real, s.to = back ? real : halved;
  s.loads = back ? n / 2 + 1 : real_count, s.stores = back ? real_count : n / 2 + 1;
  s.form = pairs ? (back ? FFT_DOUBLE : FFT_HALVE) : back ? FFT_MIRROR : FFT_COMPLEX;
  fft_plan *p = tide__fft_plan_get(real_count, g->wide, pairs, use_of(&s, real_count, g->wide));
  s.plan = p;
  return finish(&s, p, (tide_fft_type)g->type);
}

tide_status tide__cpu_fft(tide_stream *stream, const tide_fft_args *a) {
  work w = {.a = a, .shape = &a->shape, .item = a->shape.wide ? 8 : 4};
  int last = a->shape.rank - 1;
  for (int d = 0; d <= last; d++) w.size[d] = a->shape.n[d];
  if (a->shape.type == TIDE_FFT_C2C) {
    for (int d = last; d >= 0; d--) TIDE_TRY(complex_pass(&w, d, 0, d == last ? 1 : 0, d == 0 ? a->scale : 1));
    return TIDE_OK;
  }
  w.size[last] = a->shape.n[last] / 2 + 1;
  if (a->shape.type == TIDE_FFT_R2C) {
    TIDE_TRY(real_pass(&w, last == 0 ? a->scale : 1));
    for (int d = last - 1; d >= 0; d--) TIDE_TRY(complex_pass(&w, d, 0, 0, d == 0 ? a->scale : 1));
    return TIDE_OK;
  }
  for (int d = 0; d < last; d++) TIDE_TRY(complex_pass(&w, d, 1, 1, 1));
  return real_pass(&w, a->scale);
}
