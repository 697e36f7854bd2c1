/* tide/sort.h: lines in order, their extremes and middles, and searching in what is in order.
 *
 * Real dtypes. NaN is greater than all others. Equal elements keep their order, also where the largest comes first, so
 * that equal calls give equal results. Indices are int64 and count from tide_get_index_base. A tensor without dims is a
 * line of one. */
#ifndef TIDE_SORT_H
#define TIDE_SORT_H

#include "tide/tide.h"

TIDE_C_BEGIN

/* The lines of x along dim in order, and where their elements stood. Either one may be NULL: it is not wanted. */
TIDE_API tide_status tide_sort(tide_tensor **values, tide_tensor **indices, const tide_tensor *x, int dim,
                               bool descending);
/* The first k of these along dim: the largest, or the smallest. */
TIDE_API tide_status tide_topk(tide_tensor **values, tide_tensor **indices, const tide_tensor *x, int64_t k, int dim,
                               bool largest);
/* The kth smallest along dim, from 1; dim goes unless it is kept. */
TIDE_API tide_status tide_kthvalue(tide_tensor **values, tide_tensor **indices, const tide_tensor *x, int64_t k,
                                   int dim, bool keepdim);
/* The lower one of the middles along dim; a line with NaN gives its first NaN. */
TIDE_API tide_status tide_median(tide_tensor **values, tide_tensor **indices, const tide_tensor *x, int dim,
                                 bool keepdim);
/* The least and the greatest element of integers, at least one. Synchronises. */
TIDE_API tide_status tide_extremes(int64_t *least, int64_t *greatest, const tide_tensor *x);
/* Of each value the place in its line of `sorted`, along the last dim, that keeps the order: the first such place, or
 * with right the last one. sorted: one line for all values, or one for each of x's lines; of x's dtype.
 * sorter: NULL, or the int64 indices that put each line in order. int64, from tide_get_index_base. NaN goes to the
 * end. */
TIDE_API tide_status tide_searchsorted(tide_tensor **out, const tide_tensor *sorted, const tide_tensor *x, bool right,
                                       const tide_tensor *sorter);

TIDE_C_END
#endif
