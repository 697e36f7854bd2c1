/* verify.c: values that an operation must not meet: zeros that integers are divided by, probabilities outside of 0
 * to 1.
 *
 * A kernel looks through the tensor before the operation reads it. On the CPU what it finds is the operation's error,
 * and nothing has been written; a device goes on, and reports it as it does a bad index, at the next wait for it.
 *
 * Invariant: an element that is repeated is looked at once. */
#include "tensor.h"

/* The dims along which x moves, collapsed. */
static void plan(tide_verify_args *a, const tide_tensor *x) {
  int n = 0;
  a->numel = 1;
  for (int d = 0; d < x->ndim; d++) {
    if (x->stride[d] == 0 || x->size[d] == 1) continue;
    a->numel *= x->size[d];
    a->size[n] = x->size[d], a->stride[0][n++] = x->stride[d];
  }
  a->ndim = tide__collapse(a->size, a->stride, 1, n, false);
}

tide_status tide__verify(const tide_tensor *x, int kind, const char *what) {
  tide__queue q;
  tide_verify_args a;
  if (x->numel == 0) return TIDE_OK;
  TIDE_TRY(tide__operands(&a.head, &q, x->storage->device, 2, (const tide_tensor *[]){NULL, x}));
  a.kind = kind, a.dtype = x->dtype, a.compute = tide__compute_dtype((tide_dtype)x->dtype);
  plan(&a, x);
  tide_status status = TIDE_LAUNCH(&q, verify, &a, 0);
  if (status != TIDE_VALUE || kind != TIDE_VERIFY_NONZERO) return status;
  return tide__fail(TIDE_VALUE,
                    "%s: integers cannot be divided by zero, got a tensor that holds divisor 0, expected others", what);
}
