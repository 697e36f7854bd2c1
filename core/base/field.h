/* field.h: where the elements of fields on a grid come from, for C and for CUDA. The only definition of each. */
#ifndef TIDE_BASE_FIELD_H
#define TIDE_BASE_FIELD_H

#include <stdbool.h>

#include "plan.h"
#include "random.h"

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

/* Where element i of a result of another size lies between the elements of the input, by linear or cubic mode. */
#define TIDE_SOURCE(T, s, floor)                                                                                       \
  TIDE_FN T tide_source_##s(bool cubic, bool align, T scale, int64_t i) {                                              \
    T at = align ? scale * (T)i : scale * ((T)i + (T)0.5) - (T)0.5;                                                    \
    return !cubic && at < 0 ? 0 : at;                                                                                  \
  }                                                                                                                    \
  /* The weights of the four elements around a place that is t behind the second; Keys's with a = -0.75. */            \
  TIDE_FN void tide_cubic_##s(T w[4], T t) {                                                                           \
    const T a = (T)-0.75;                                                                                              \
    T far = t + 1, back = 1 - t, end = 2 - t;                                                                          \
    w[0] = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a;                                                            \
    w[1] = ((a + 2) * t - (a + 3)) * t * t + 1;                                                                        \
    w[2] = ((a + 2) * back - (a + 3)) * back * back + 1;                                                               \
    w[3] = ((a * end - 5 * a) * end + 8 * a) * end - 4 * a;                                                            \
  }                                                                                                                    \
  /* The elements that count at that place, and by how much: two for linear, four for cubic mode. */                   \
  TIDE_FN void tide_between_##s(bool cubic, const tide_taps *d, bool align, int64_t i, int64_t *from, T *w) {          \
    T at = tide_source_##s(cubic, align, (T)d->scale, i), low = floor(at);                                             \
    int64_t k = (int64_t)low, last = d->in - 1;                                                                        \
    if (!cubic) {                                                                                                      \
      if (k > last) k = last;                                                                                          \
      w[1] = at - (T)k < 1 ? at - (T)k : 1, w[0] = 1 - w[1];                                                           \
      from[0] = k, from[1] = k < last ? k + 1 : k;                                                                     \
      return;                                                                                                          \
    }                                                                                                                  \
    tide_cubic_##s(w, at - low);                                                                                       \
    for (int t = 0; t < 4; t++) {                                                                                      \
      int64_t p = k - 1 + t;                                                                                           \
      from[t] = p < 0 ? 0 : p < last ? p : last;                                                                       \
    }                                                                                                                  \
  }
TIDE_SOURCE(float, f32, floorf)
TIDE_SOURCE(double, f64, floor)

/* floor without a call, which the oldest x86-64 processors need. */
#ifdef __CUDACC__
#  define TIDE_FLOOR(T, s, floor)                                                                                      \
    TIDE_FN T tide_field_floor_##s(T x) { return floor(x); }
#else
#  define TIDE_FLOOR(T, s, floor)                                                                                      \
    TIDE_FN T tide_field_floor_##s(T x) {                                                                              \
      if (!(x > -1e9 && x < 1e9)) return floor(x);                                                                     \
      T whole = (T)(int32_t)x;                                                                                         \
      return whole > x ? whole - 1 : whole;                                                                            \
    }
#endif
TIDE_FLOOR(float, f32, floorf)
TIDE_FLOOR(double, f64, floor)

/* So is rint: a sum with 1.5 times a power of two has no room for fractions. */
#ifdef __CUDACC__
#  define TIDE_RINT(T, s, rint, bits)                                                                                  \
    TIDE_FN T tide_field_rint_##s(T x) { return rint(x); }
#else
#  define TIDE_RINT(T, s, rint, bits)                                                                                  \
    TIDE_FN T tide_field_rint_##s(T x) {                                                                               \
      const T whole = (T)((int64_t)3 << (bits - 1));                                                                   \
      if (!(x > -whole / 4 && x < whole / 4)) return rint(x);                                                          \
      return x + whole - whole;                                                                                        \
    }
#endif
TIDE_RINT(float, f32, rintf, 23)
TIDE_RINT(double, f64, rint, 52)

/* The elements that count at a place of a grid (plan.h, tide_sample_args), as offsets into a plane and weights; an
 * offset below 0 is of none. Returns how many there are: at most 16. */
#define TIDE_SAMPLE(T, s, floor, rint, fabs, fmod)                                                                     \
  TIDE_FN T tide_inside_##s(T at, int64_t n, int beyond, bool align) {                                                 \
    if (beyond == TIDE_BEYOND_ZEROS) return at;                                                                        \
    if (beyond == TIDE_BEYOND_REFLECTION) {                                                                            \
      T low = align ? (T)0 : (T)-0.5, span = align ? (T)(n - 1) : (T)n, far = fabs(at - low);                          \
      T rest = span > 0 ? fmod(far, span) : (T)0, turns = span > 0 ? floor(far / span) : (T)0;                         \
      at = span <= 0 ? (T)0 : fmod(turns, (T)2) == 0 ? rest + low : span - rest + low;                                 \
    }                                                                                                                  \
    return at > 0 ? at < (T)(n - 1) ? at : (T)(n - 1) : (T)0;                                                          \
  }                                                                                                                    \
  TIDE_FN int tide_sample_##s(int mode, int beyond, bool align, int rank, const int64_t *size, const T *grid,          \
                              int64_t *from, T *weight) {                                                              \
    const int taps = mode == TIDE_SAMPLE_CUBIC ? 4 : mode == TIDE_SAMPLE_LINEAR ? 2 : 1;                               \
    int count = 1;                                                                                                     \
    from[0] = 0, weight[0] = 1;                                                                                        \
    for (int d = 0; d < rank; d++) { /* the outermost first, so that the innermost comes last */                       \
      const int64_t n = size[3 - rank + d];                                                                            \
      T g = grid[rank - 1 - d], at = align ? (g + 1) / 2 * (T)(n - 1) : ((g + 1) * (T)n - 1) / 2, w[4], first;         \
      int64_t place[4];                                                                                                \
      if (mode != TIDE_SAMPLE_CUBIC) at = tide_inside_##s(at, n, beyond, align);                                       \
      first = mode == TIDE_SAMPLE_NEAREST ? rint(at) : floor(at);                                                      \
      w[0] = 1, w[1] = at - first;                                                                                     \
      if (mode == TIDE_SAMPLE_LINEAR) w[0] = 1 - w[1];                                                                 \
      if (mode == TIDE_SAMPLE_CUBIC) tide_cubic_##s(w, at - first), first -= 1;                                        \
      for (int t = 0; t < taps; t++) {                                                                                 \
        T p = first + (T)t;                                                                                            \
        if (mode == TIDE_SAMPLE_CUBIC) p = tide_inside_##s(p, n, beyond, align);                                       \
        place[t] = p >= 0 && p < (T)n ? (int64_t)p : -1;                                                               \
      }                                                                                                                \
      for (int c = count - 1; c >= 0; c--)                                                                             \
        for (int t = taps - 1; t >= 0; t--) {                                                                          \
          from[c * taps + t] = from[c] < 0 || place[t] < 0 ? -1 : from[c] * n + place[t];                              \
          weight[c * taps + t] = from[c * taps + t] < 0 ? 0 : weight[c] * w[t];                                        \
        }                                                                                                              \
      count *= taps;                                                                                                   \
    }                                                                                                                  \
    return count;                                                                                                      \
  }
TIDE_SAMPLE(float, f32, tide_field_floor_f32, tide_field_rint_f32, fabsf, fmodf)
TIDE_SAMPLE(double, f64, tide_field_floor_f64, tide_field_rint_f64, fabs, fmod)

#endif
