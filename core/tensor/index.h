/* index.h: what reading and writing by one index share with those by several. */
#ifndef TIDE_INDEX_H
#define TIDE_INDEX_H

#include "tensor.h"

typedef struct tide__index_mode {
  bool scatter, located, adds; /* as in tide_index_args */
  int base;
} tide__index_mode;
/* Moves elements between `sparse` (indexed along dim) and `dense`, whose strides over sparse's other dims are given and
 * whose positions lie `pitch` apart. */
tide_status tide__index_move(const tide__index_mode *m, const tide_tensor *sparse, int dim, const tide_tensor *index,
                             const tide_tensor *dense, const int64_t *dense_stride, int64_t pitch);
/* Writes `value`, which has x's dtype, to the indexed places of x, which are a tensor of `size`. */
tide_status tide__index_write(const tide__index_mode *m, const tide_tensor *x, int dim, const tide_tensor *index,
                              const tide_tensor *value, const int64_t *size, int ndim);
/* Strides of a contiguous dense side with `count` positions in place of dim; returns their distance. */
int64_t tide__index_strides(int64_t *stride, const tide_tensor *x, int dim, int64_t count);
/* The value of a write as a tensor of x's dtype on x's device, apart from x's memory. */
tide_status tide__index_value(tide_tensor **out, const tide_tensor *x, const tide_operand *value, const char *what);

#endif
