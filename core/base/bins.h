/* bins.h: the bin that a number falls in, as tide_index_args has it; for C and for CUDA. */
#pragma once

#include "plan.h"
#include "random.h"

/* -1: in none. n bins, whose edges, n + 1 ascending ones, may be NULL where all have one width. I holds n + 1. */
#define TIDE_BIN(name, T, I)                                                                                           \
  TIDE_FN I name(T x, T low, T high, I n, const T *edges, int kind) {                                                  \
    if (!(x >= low && x <= high)) return -1;                                                                           \
    I from = 0, to = n + 1, at = n;                                                                                    \
    if (kind != TIDE_BINS_EDGES) {                                                                                     \
      at = (I)((x - low) * (T)n / (high - low));                                                                       \
      from = at > 0 ? at - 1 : 0, to = at + 2 < n + 1 ? at + 2 : n + 1;                                                \
    }                                                                                                                  \
    if (kind != TIDE_BINS_EVEN) {                                                                                      \
      while (from < to) { /* the first edge above x */                                                                 \
        I middle = from + (to - from) / 2;                                                                             \
        if (edges[middle] <= x)                                                                                        \
          from = middle + 1;                                                                                           \
        else                                                                                                           \
          to = middle;                                                                                                 \
      }                                                                                                                \
      at = from - 1;                                                                                                   \
    }                                                                                                                  \
    return at < n ? at < 0 ? 0 : at : n - 1;                                                                           \
  }
TIDE_BIN(tide_bin_f32, float, int64_t)
TIDE_BIN(tide_bin_f64, double, int64_t)
#ifdef __CUDACC__
TIDE_BIN(tide_bin, float, int32_t)
TIDE_BIN(tide_bin, double, int32_t)
#endif
