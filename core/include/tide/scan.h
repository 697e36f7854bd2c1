/* tide/scan.h: running sums and the like along a dim, softmax along one, and differences. */
#ifndef TIDE_SCAN_H
#define TIDE_SCAN_H

#include "tide/tide.h"

TIDE_C_BEGIN

typedef enum tide_scan_op {
#define SCAN(NAME, name, rule, kind, none, join, doc) TIDE_SCAN_##NAME,
#include "tide/scan.def"
  TIDE_SCAN_COUNT
} tide_scan_op;

/* The scan of x along dim, of x's size. dtype: of the result of CUMSUM and CUMPROD, to which x is cast before; NONE:
 * the rule's. `into` may be x itself. Equal calls give equal bits, however many threads there are. */
TIDE_API tide_status tide_scan(tide_tensor **out, tide_scan_op op, const tide_tensor *x, int dim, tide_dtype dtype,
                               tide_tensor *into);
/* CUMMAX or CUMMIN: the values and where they stand (int64, from tide_get_index_base), the last one of equals. */
TIDE_API tide_status tide_scan_index(tide_tensor **values, tide_tensor **indices, tide_scan_op op, const tide_tensor *x,
                                     int dim);
/* exp(x) divided by its sum along dim, or its logarithm, of x's size; without overflow. dtype: a floating one,
 * to which x is cast before, NONE: x's. Lines of -inf alone, with inf or with NaN become NaN. `into` may be x itself.
 * Equal calls give equal bits, however many threads there are. */
TIDE_API tide_status tide_softmax(tide_tensor **out, const tide_tensor *x, int dim, bool logarithm, tide_dtype dtype,
                                  tide_tensor *into);
/* The differences of neighbours along dim, n times over; of bools whether they differ. */
TIDE_API tide_status tide_diff(tide_tensor **out, const tide_tensor *x, int64_t n, int dim);

TIDE_C_END
#endif
