/* simd4.h: four float32 at once, and loops that are worth vectors, for files that are compiled once, and small. */
#pragma once

#include <string.h>

/* What the compiler is to take time for. */
#if defined(__GNUC__) && !defined(__clang__)
#  define QUICK __attribute__((optimize("O2", "tree-vectorize", "vect-cost-model=dynamic")))
#else
#  define QUICK
#endif

typedef float four __attribute__((vector_size(16)));
typedef double two __attribute__((vector_size(16)));

static inline four load_four(const float *x) {
  four v;
  memcpy(&v, x, sizeof v);
  return v;
}

/* Two elements from each of two places. */
static inline four load_pairs(const float *x, const float *y) {
  double low, high;
  memcpy(&low, x, sizeof low), memcpy(&high, y, sizeof high);
  return (four)(two){low, high};
}
