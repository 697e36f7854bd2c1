/* fft.h: lines of Fourier transforms on the CPU: what fft.c, fft_lines.c and fft_plan.c share. */
#pragma once

#include "backend/cpu/cpu.h"

#include "fft_lanes.h"

/* What a plan is for. MANY: many lines at once. ALONE: few, so that one line had better fill the lanes. INNER: the two
 * factors of a long line, which are done in lanes whatever their length. DENSE: lines that fill the lanes one by
 * one. */
typedef enum fft_use { FFT_MANY, FFT_ALONE, FFT_INNER, FFT_DENSE } fft_use;

/* How lines of one length are transformed. DIRECT: in lanes, by stages. CHIRP: as a convolution of length m, which
 * `first` does. SPLIT: one line at a time, as `first` over its columns and `second` over its rows. FOLD: the same
 * within a thread's buffers. */
typedef enum fft_way { FFT_DIRECT, FFT_CHIRP, FFT_SPLIT, FFT_FOLD } fft_way;

typedef struct fft_plan {
  /* What it was asked for. half: it has the table for real lines of 2n. */
  int64_t n;
  bool wide, half;
  fft_use use;
  fft_way way;
  int64_t m; /* elements of a lane buffer */
  const tide__fft_lanes *ops;
  tide__fft_stages stages;         /* DIRECT: of ops; none for n = 1 */
  void *roots;                     /* theirs */
  struct fft_plan *first, *second; /* CHIRP, SPLIT, FOLD */
  double *chirp, *spectrum;        /* CHIRP: exp(-pi i k k / n); the conjugate of its conjugate's transform, over m */
  double *coarse, *fine;           /* SPLIT: exp(-2 pi i e / n) = coarse[e >> shift] * fine[e & ((1 << shift) - 1)] */
  int shift;
  void *spread;    /* SPLIT: the twiddle factors of each lane relative to the first one */
  void *half_root; /* exp(-pi i k / n), k <= n, of ops */
  void *factors;   /* FOLD: see tide__fft_fold */
  /* Of the cache, with its lock. */
  int refs;
  size_t bytes; /* of its tables, about */
  uint64_t used;
} fft_plan;

/* A plan with one reference; NULL without memory, and after an interruption. */
fft_plan *tide__fft_plan_get(int64_t n, bool wide, bool half, fft_use use);
void tide__fft_plan_put(fft_plan *p);

/* Is a line of the plan transformed within lane buffers? */
static inline bool fft_in_lanes(const fft_plan *p) {
  return p->way == FFT_DIRECT || (p->way == FFT_CHIRP && p->first->way == FFT_DIRECT);
}

/* What a pass does with a line of n. COMPLEX: transforms it. HALVE: n pairs of reals become n + 1 elements. DOUBLE: and
 * back. MIRROR: n / 2 + 1 elements become n reals, n odd. */
typedef enum fft_form { FFT_COMPLEX, FFT_HALVE, FFT_DOUBLE, FFT_MIRROR } fft_form;

/* Forward transforms of many lines by a plan in lanes. Lines are counted by three dims whose distances, like all
 * positions here, are in reals; [0] is the output, [1] the input. Output and input are the same lines or do not
 * overlap. */
typedef struct fft_pass {
  const fft_plan *plan;
  void *out;
  const void *in;
  tide__fft_access to, from;
  int64_t size[3], distance[2][3];
  int64_t loads, stores; /* elements of a line */
  fft_form form;
  double scale;
  const fft_plan *split; /* the pass makes the columns of this plan: line j gets the twiddle factors j k */
  _Atomic bool failed;   /* for want of memory */
} fft_pass;

/* false without memory */
bool tide__fft_pass(fft_pass *pass);

/* Can dense lines of n elements fill the lanes one by one, and does that pay? */
bool tide__fft_folds(int64_t n, bool wide);
/* The pass by a plan of that kind; lines are dense on both sides, their parts as the pass's form wants them. */
bool tide__fft_fold_pass(fft_pass *pass);

/* One line of p->n elements, forward, whatever its plan; out may be in, with the same access. */
typedef struct fft_line {
  void *out;
  const void *in;
  tide__fft_access to, from;
  double scale;
} fft_line;
/* What a long line needs beside, on all threads and to be interrupted: ops->product; elements [from, n) of complex
 * numbers become 0; ops->unzip_line and ops->zip_line of a plan for reals. */
void tide__fft_product(const tide__fft_lanes *ops, void *out, tide__fft_access to, const void *in,
                       tide__fft_access access, const double *w, int64_t n, bool conj, double scale);
void tide__fft_clear(const tide__fft_lanes *ops, void *x, int64_t from, int64_t n);
void tide__fft_unzip(const fft_plan *p, void *out, const void *in);
void tide__fft_zip(const fft_plan *p, void *out, const void *in);
static const tide__fft_access tide__fft_dense = {2, 0, 1};
bool tide__fft_line(const fft_plan *p, const fft_line *l); /* false without memory */
