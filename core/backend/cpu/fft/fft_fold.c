/* fft_fold.c: Fourier transforms of dense lines, each of which fills the lanes by itself.
 *
 * The line stays in the first caches: its columns are read as they lie, several side by side, and the results are
 * written so. Lines of pairs of reals go through a buffer more on the side where they are complex numbers. Threads take
 * lines.
 *
 * Invariant: a line is read completely before it is written, so a pass may work in place. */
#include "fft.h"

#include "backend/cpu/loops/layout.h"
#include "backend/cpu/scratch.h"

/* Where line number `line` begins, in bytes. */
static int64_t place(const fft_pass *s, int side, int64_t line) {
  int64_t at = 0;
  for (int d = 2; d >= 0; d--) {
    at += line % s->size[d] * s->distance[side][d];
    line /= s->size[d];
  }
  return at * s->plan->ops->item;
}

static void do_line(const fft_pass *s, int64_t line, char *middle, char *a, char *b, char *z) {
  const fft_plan *p = s->plan;
  const tide__fft_lanes *ops = p->ops;
  const tide__fft_fold fold = {&p->first->stages, &p->second->stages, p->factors};
  char *out = (char *)s->out + place(s, 0, line);
  const char *in = (const char *)s->in + place(s, 1, line);
  if (s->form == FFT_HALVE) {
    ops->fold(&fold, z, in, false, 1, middle, a, b);
    ops->unzip_along(out, z, p->half_root, p->n, s->scale);
  } else if (s->form == FFT_DOUBLE) {
    ops->zip_along(z, in, p->half_root, p->n);
    ops->fold(&fold, out, z, true, s->scale, middle, a, b);
  } else {
    ops->fold(&fold, out, in, s->to.re == 1, s->scale, middle, a, b);
  }
}

static void do_lines(void *arg, int64_t begin, int64_t end) {
  fft_pass *s = arg;
  const fft_plan *p = s->plan;
  int64_t lanes = p->ops->lanes, number = 2 * p->ops->item, columns = (p->first->n + lanes - 1) / lanes * lanes;
  int64_t longest = p->first->n > p->second->n ? p->first->n : p->second->n;
  int64_t middle = columns * p->second->n * number, buffer = longest * lanes * number, z = (p->n + 1) * number;
  char *room = tide__room_take((size_t)(middle + 2 * buffer + z));
  if (!room) atomic_store(&s->failed, true);
  char *a = room + middle;
  for (int64_t line = begin; room && line < end; line++) do_line(s, line, room, a, a + buffer, a + 2 * buffer);
  tide__room_put(room);
}

bool tide__fft_fold_pass(fft_pass *s) {
  atomic_store(&s->failed, false);
  tide__spread(s->size[0] * s->size[1] * s->size[2], 8 * s->plan->n, do_lines, s);
  return !atomic_load(&s->failed);
}
