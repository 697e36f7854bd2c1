/* field.h: where the elements of fields on a grid come from, for C and for CUDA. The only definition of each. */
#pragma once

#include <stdbool.h>

#include "base/plan.h"
#include "base/random.h"

/* How a dim of a result reads its input: the first four are tide_pad_mode, the others spread it by a scale, which is
 * a float32 as in PyTorch, so that the same elements are taken. */
enum {
  TIDE_PLACE_CONSTANT,
  TIDE_PLACE_REFLECT,
  TIDE_PLACE_REPLICATE,
  TIDE_PLACE_CIRCULAR,
  TIDE_PLACE_NEAREST,
  TIDE_PLACE_NEAREST_EXACT
};

/* The place in the input, of n elements, of element i of the result; -1: there is none. */
TIDE_FN int64_t tide_place(int rule, int64_t i, int64_t before, int64_t n, float scale) {
  int64_t p = i - before;
  if (rule >= TIDE_PLACE_NEAREST) {
    p = (int64_t)floorf(rule == TIDE_PLACE_NEAREST ? (float)i * scale : (float)(((double)i + 0.5) * (double)scale));
    return p < n - 1 ? p : n - 1;
  }
  if ((uint64_t)p < (uint64_t)n) return p;
  switch (rule) {
  case TIDE_PLACE_REFLECT: return p < 0 ? -p : 2 * (n - 1) - p;
  case TIDE_PLACE_REPLICATE: return p < 0 ? 0 : n - 1;
  case TIDE_PLACE_CIRCULAR: return p < 0 ? p + n : p - n;
  default: return -1;
  }
}

/* a / b of numbers that are not negative. GPUs divide 32 bits much faster. */
TIDE_FN int64_t tide_quotient(int64_t a, int64_t b) {
#ifdef __CUDA_ARCH__
  if (((uint64_t)(a | b) >> 32) == 0) return (uint32_t)a / (uint32_t)b;
#endif
  return a / b;
}

/* The elements that a window of element i of the result covers: first + t * step for t < count; all: their number with
 * those beyond the borders that count. */
typedef struct tide_reach {
  int64_t first, count, step, all;
} tide_reach;
TIDE_FN tide_reach tide_reach_of(int op, const tide_taps *d, int64_t i) {
  tide_reach r;
  if (op == TIDE_WINDOW_AREA) {
    r.first = tide_quotient(i * d->in, d->out), r.step = 1;
    r.count = r.all = tide_quotient((i + 1) * d->in + d->out - 1, d->out) - r.first;
    return r;
  }
  int64_t start = i * d->stride - d->before, step = d->dilation, skipped = start < 0 ? step - 1 - start : 0;
  int64_t end = start < d->in ? d->in - start + step - 1 : 0, least = d->in + d->before - start;
  if (step > 1) skipped = tide_quotient(skipped, step), end = tide_quotient(end, step);
  if (end > d->kernel) end = d->kernel;
  r.first = start + skipped * step, r.step = step, r.count = end > skipped ? end - skipped : 0;
  r.all = d->kernel < least ? d->kernel : least;
  return r;
}

#define T             float
#define NAME(f)       f##_f32
#define LIBRARY(name) name##f
#define BITS          23
#include "field_template.h"
#define T             double
#define NAME(f)       f##_f64
#define LIBRARY(name) name
#define BITS          52
#include "field_template.h"
