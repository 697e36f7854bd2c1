/* gemm.h: what the files of the matrix products share. */
#pragma once

#include "backend/cpu/loops/layout.h"

/* Steps of k whose sums stay in registers, at most. */
enum { TIDE_GEMM_SLICE = 384 };

/* How one operand is packed: panels of `width` lanes (A's rows or B's columns), for each k one number of each lane.
 * Complex numbers are packed as real ones: a row of A as it lies, re and im one after the other along k; a column of B
 * as two lanes, which at the k of re hold (re, im) and at the k of im (-im, re). C then lies as it is, re beside im. */
typedef struct tide__panels {
  const tide__isa *isa;
  tide__pack pack;              /* of whole panels, where no number changes on the way; else NULL */
  int dtype, compute, item;     /* of the tensor; of the panel, and its bytes */
  int64_t width;                /* lanes of a panel, counted as real numbers as all that follows is */
  int64_t lanes_apart, k_apart; /* of numbers of dtype */
  int64_t lanes;                /* of the matrix */
  int64_t high, tall;           /* the first `tall` panels hold `high` lanes, the others one less */
  bool columns;                 /* they are B's */
} tide__panels;

/* The first lane of panel i, or the end of the lanes. */
static inline int64_t tide__panel_lane(const tide__panels *p, int64_t i) {
  int64_t lane = i * p->high - (i > p->tall ? i - p->tall : 0);
  return lane < p->lanes ? lane : p->lanes;
}

/* Panels first to first + count of base's matrix, k numbers of each lane from `from` on; lanes that are missing hold
 * some number. */
void tide__gemm_pack(const tide__panels *p, char *out, const char *base, int64_t first, int64_t count, int64_t from,
                     int64_t k);

/* What becomes of n numbers of a row of the result while they are in a cache. */
typedef void (*tide__gemm_finish)(const tide__isa *isa, int dtype, void *row, int64_t n);
/* Any dtype but the 16-bit floats, any strides. finish: NULL, or with beta 0. */
tide_status tide__gemm_own(const tide_gemm_args *a, tide__gemm_finish finish);
/* float32 and float64 of at most 8 by 8. */
bool tide__gemm_is_small(const tide_gemm_args *a);
tide_status tide__gemm_small(const tide_gemm_args *a);
/* float32 and float64 with one row or one column. */
tide_status tide__gemm_vector(const tide_gemm_args *a);
