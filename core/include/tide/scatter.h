/* scatter.h: reads and writes at places that a tensor of indexes names, element by element or slice by slice, and
 * counts of values. C11, usable from C++.
 *
 * Indexes are integer tensors on x's device, which count from tide_get_index_base; negative ones count from the end. A
 * bad value is an error at the next synchronising call on a GPU, at once on the CPU, where nothing is written then.
 * `into` is x itself for the form in place. Where several indexes name one element, all their values join it in sums
 * and the like; of written ones one stays, the last one on the CPU and with tide_set_deterministic. With that, and on
 * the CPU always, sums of floats have one order. */
#ifndef TIDE_SCATTER_H
#define TIDE_SCATTER_H

#include "tide/tide.h"

TIDE_C_BEGIN

/* out[.., i, ..] = x[.., index[.., i, ..], ..]: index has x's number of dims, and sizes no larger but along dim. */
TIDE_API tide_status tide_gather(tide_tensor **out, const tide_tensor *x, int dim, const tide_tensor *index,
                                 tide_tensor *into);
/* The elements of x, seen as one row-major line, in index's shape. */
TIDE_API tide_status tide_take(tide_tensor **out, const tide_tensor *x, const tide_tensor *index, tide_tensor *into);
/* As gather, but x and index broadcast in the other dims. */
TIDE_API tide_status tide_take_along_dim(tide_tensor **out, const tide_tensor *x, const tide_tensor *index, int dim,
                                         tide_tensor *into);

/* How a value joins the element that is there. */
typedef enum tide_scatter_op {
  TIDE_SCATTER_WRITE, /* takes its place */
  TIDE_SCATTER_SUM,
  TIDE_SCATTER_PROD,
  TIDE_SCATTER_MEAN, /* of integers rounded down */
  TIDE_SCATTER_MAX,  /* NaN wins in both */
  TIDE_SCATTER_MIN
} tide_scatter_op;
/* x with value[.., i, ..] joined to x[.., index[.., i, ..], ..]. value: a tensor of x's dtype and sizes no smaller than
 * index's, or a number. Without include_self the elements of x that are named do not count. */
TIDE_API tide_status tide_scatter(tide_tensor **out, const tide_tensor *x, int dim, const tide_tensor *index,
                                  const tide_operand *value, tide_scatter_op op, bool include_self, tide_tensor *into);
/* x with alpha * source[.., k, ..] added to slice index[k] of dim. source has x's dtype and sizes, but along dim
 * the length of index. */
TIDE_API tide_status tide_index_add(tide_tensor **out, const tide_tensor *x, int dim, const tide_tensor *index,
                                    const tide_tensor *source, tide_scalar alpha, tide_tensor *into);
/* The same, but source is written. */
TIDE_API tide_status tide_index_copy(tide_tensor **out, const tide_tensor *x, int dim, const tide_tensor *index,
                                     const tide_tensor *source, tide_tensor *into);
/* The same with a number, or a tensor without dims. */
TIDE_API tide_status tide_index_fill(tide_tensor **out, const tide_tensor *x, int dim, const tide_tensor *index,
                                     const tide_operand *value, tide_tensor *into);
/* x, seen as one row-major line, with source's elements written or added; index has the same number of elements. */
TIDE_API tide_status tide_put(tide_tensor **out, const tide_tensor *x, const tide_tensor *index,
                              const tide_tensor *source, bool accumulate, tide_tensor *into);
/* x with source's elements, in row-major order, where the bool tensor mask, broadcast to x, holds. Synchronises. */
TIDE_API tide_status tide_masked_scatter(tide_tensor **out, const tide_tensor *x, const tide_tensor *mask,
                                         const tide_tensor *source, tide_tensor *into);

/* int64, one more dim of `classes`: 1 at the index, 0 elsewhere. classes -1: the largest index decides, which
 * synchronizes. */
TIDE_API tide_status tide_one_hot(tide_tensor **out, const tide_tensor *index, int64_t classes);

/* ---- counts ---- */

/* out[v] counts the elements of the 1-d x that are v, or sums their weights; x holds integers from 0. At least `least`
 * elements. Synchronises. */
TIDE_API tide_status tide_bincount(tide_tensor **out, const tide_tensor *x, const tide_tensor *weights, int64_t least);
/* The elements of x in each of `bins` bins of equal width from low to high, both included, as x's dtype; equal bounds
 * stand for the smallest and the largest element, which synchronises. */
TIDE_API tide_status tide_histc(tide_tensor **out, const tide_tensor *x, int64_t bins, double low, double high,
                                tide_tensor *into);

typedef struct tide_histogram_options {
  const tide_tensor *edges;   /* ascending, 1-d, of x's dtype; or NULL: `bins` bins of equal width */
  int64_t bins;               /* 100 for 0 */
  double low, high;           /* equal: the smallest and the largest element, which synchronises */
  const tide_tensor *weights; /* of x's shape and dtype; or NULL: 1 */
  bool density;               /* divided by the sum and by the widths */
  size_t struct_size;         /* as in tide_options */
} tide_histogram_options;
/* The same, with the edges: of two neighbours the lower one belongs to the bin, and the last edge to the last one. */
TIDE_API tide_status tide_histogram(tide_tensor **out, tide_tensor **edges, const tide_tensor *x,
                                    const tide_histogram_options *options);

TIDE_C_END
#endif
