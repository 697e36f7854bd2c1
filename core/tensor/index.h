/* index.h: what reading and writing by indexes share: one plan for all of them. */
#pragma once

#include "tensor.h"

typedef struct tide__index_mode {
  bool scatter, located; /* as in tide_index_args */
  tide_index_reduce reduce;
  int base;
} tide__index_mode;

/* The dims that are walked together, and of each side its strides there: dense, indexed, index. */
typedef struct tide__index_space {
  int ndim;
  int64_t size[TIDE_MAX_DIMS], stride[3][TIDE_MAX_DIMS];
  int64_t length, pitch; /* of the indexed side, along what the index counts */
  int bins;
  double low, high;         /* of the bins */
  const tide_tensor *edges; /* or NULL */
} tide__index_space;

/* Begins the space of an x whose dim `dim` is indexed: its length and pitch. A tensor without dims is a line of one. */
void tide__index_along(tide__index_space *s, const tide_tensor *x, int dim);
/* Moves elements between `indexed` and `dense`, at places of `index`, an int32 or int64 tensor. Collapses the space. */
tide_status tide__index_run(const tide__index_mode *m, const tide_tensor *indexed, const tide_tensor *dense,
                            const tide_tensor *index, tide__index_space *s);
/* One more reference to x. */
static inline tide_status tide__index_same(tide_tensor **out, const tide_tensor *x) {
  *out = tide__tensor_ref(x);
  return TIDE_OK;
}
/* The index as int32 or int64, in any layout, on x's device and apart from `written`'s memory, which may be NULL. */
tide_status tide__index_tensor(tide_tensor **out, const tide_tensor *x, const tide_tensor *index,
                               const tide_tensor *written, const char *what);
/* Moves elements between `sparse` (indexed along dim) and `dense`, whose strides over sparse's other dims are given and
 * whose positions lie `pitch` apart; index is contiguous. */
tide_status tide__index_move(const tide__index_mode *m, const tide_tensor *sparse, int dim, const tide_tensor *index,
                             const tide_tensor *dense, const int64_t *dense_stride, int64_t pitch);
/* Writes `value`, which has x's dtype, to the indexed places of x, which are a tensor of `size`. */
tide_status tide__index_write(const tide__index_mode *m, const tide_tensor *x, int dim, const tide_tensor *index,
                              const tide_tensor *value, const int64_t *size, int ndim);
/* Strides of a contiguous dense side with `count` positions in place of dim; returns their distance. */
int64_t tide__index_strides(int64_t *stride, const tide_tensor *x, int dim, int64_t count);
/* A number as a tensor without dims on x's device. */
tide_status tide__index_number(tide_tensor **out, const tide_tensor *x, tide_dtype dtype, tide_scalar value);
/* The value of a write as a tensor of x's dtype on x's device, apart from x's memory. */
tide_status tide__index_value(tide_tensor **out, const tide_tensor *x, const tide_operand *value, const char *what);

/* The dtype that x has while `values` values join it, up to `meeting` of them in one element: a wider one than its own
 * where it pays for all of x. Else the kernel keeps the sums of 16-bit floats apart. */
tide_dtype tide__index_wide(const tide_tensor *x, int64_t values, int64_t meeting, tide_index_reduce reduce);

/* What an operation with `into` writes to: x itself, or a copy of it that tide__written_end delivers, as x's dtype. */
tide_status tide__written_check(const tide_tensor *x, const tide_tensor *into, const char *what);
/* dtype: the target's. */
tide_status tide__written_begin(tide_tensor **target, const tide_tensor *x, const tide_tensor *into, tide_dtype dtype);
tide_status tide__written_end(tide_tensor **out, tide_tensor *target, const tide_tensor *x, tide_tensor *into,
                              tide_status status, const char *what);
