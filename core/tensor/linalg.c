/* linalg.c: linear algebra that libraries compute: check, copy, one kernel, look at what it says, clear what is no part
 * of the result.
 *
 * A library works in place and says for each matrix whether it succeeded; that is read back, so every function here
 * waits for the device. Nothing is computed for matrices without elements.
 *
 * Invariant: a function that fails has changed neither its operand nor its destination. */
#include "tide/linalg.h"

#include <stdio.h>
#include <stdlib.h>

#include "tensor.h"

static tide_status check_square(const tide_tensor *x, const char *what) {
  TIDE_TRY(tide__check(x, what, "x"));
  if (x->ndim < 2 || x->size[x->ndim - 1] != x->size[x->ndim - 2])
    return tide__fail(TIDE_SHAPE, "%s: x is not square, got %s, expected [..., n, n]", what,
                      tide__shape_text(x->size, x->ndim));
  if (x->dtype != TIDE_FLOAT32 && x->dtype != TIDE_FLOAT64 && tide__category(x->dtype) != 3)
    return tide__fail(TIDE_DTYPE, "%s: dtype not accepted, got %s, expected float32, float64 or a complex dtype", what,
                      tide_dtype_name((tide_dtype)x->dtype));
  if (x->size[x->ndim - 1] > INT32_MAX)
    return tide__fail(TIDE_SHAPE, "%s: x is too large, got %s, expected at most %d rows", what,
                      tide__shape_text(x->size, x->ndim), INT32_MAX);
  return TIDE_OK;
}

static tide_status run_cholesky(tide_tensor *factor, const tide_tensor *orders, bool upper) {
  tide__queue q;
  tide_cholesky_args a;
  int device = factor->storage->device;
  TIDE_TRY(tide__queue_begin(&q, device));
  tide__head_begin(&a.head, device, 2);
  tide__head_set(&a.head, 0, factor, &q);
  tide__head_set(&a.head, 1, orders, &q);
  a.dtype = factor->dtype, a.upper = upper;
  a.n = factor->size[factor->ndim - 1], a.batch = orders->numel;
  return TIDE_LAUNCH(&q, cholesky, &a, 0);
}

/* Which matrix of the batch it is, in words. */
static void batch_text(char *text, size_t size, const tide_tensor *x, int64_t at) {
  int64_t index[TIDE_MAX_DIMS], base = tide_get_index_base();
  text[0] = 0;
  for (int d = x->ndim - 3; d >= 0; d--) index[d] = at % x->size[d] + base, at /= x->size[d];
  if (x->ndim > 2) snprintf(text, size, " of batch %s", tide__shape_text(index, x->ndim - 2));
}

static tide_status fail_minor(const tide_tensor *x, const int32_t *order) {
  char which[160];
  int64_t at = 0;
  while (order[at] == 0) at++;
  batch_text(which, sizeof which, x, at);
  return tide__fail(TIDE_VALUE,
                    "cholesky: x%s is not positive definite, got a leading minor of order %d that is not, expected all "
                    "of them to be",
                    which, (int)order[at]);
}

/* Were all matrices positive definite? One number is read, and more only for the message. */
static tide_status check_orders(const tide_tensor *x, const tide_tensor *orders) {
  tide_tensor *most = NULL;
  tide_scalar worst = tide_int(0);
  tide_status status = tide_reduce(&most, TIDE_MAX, orders, NULL, NULL);
  if (status == TIDE_OK) status = tide__item_now(&worst, most);
  tide_tensor_release(most);
  if (status != TIDE_OK || worst.i == 0) return status;
  int32_t *order = malloc((size_t)orders->numel * sizeof *order);
  if (!order) return tide__fail(TIDE_MEMORY, "cholesky: no host memory to say which matrix is not positive definite");
  status = tide_read(order, orders);
  if (status == TIDE_OK) status = fail_minor(x, order);
  free(order);
  return status;
}

static tide_status factor(tide_tensor **out, const tide_tensor *x, bool upper) {
  int64_t n = x->size[x->ndim - 1], batch = tide__size_product(x->size, x->ndim - 2);
  tide_tensor *copy, *orders = NULL;
  TIDE_TRY(tide__tensor_new(&copy, x->size, x->ndim, (tide_dtype)x->dtype, x->storage->device));
  tide_status status = tide_copy(copy, x, false);
  if (status == TIDE_OK && n > 0 && batch > 0) {
    status = tide__tensor_new(&orders, &batch, 1, TIDE_INT32, x->storage->device);
    if (status == TIDE_OK) status = run_cholesky(copy, orders, upper);
    if (status == TIDE_OK) status = check_orders(x, orders);
    tide_tensor_release(orders);
  }
  if (status == TIDE_OK) status = tide_tril(out, copy, 0, upper);
  tide_tensor_release(copy);
  return status;
}

tide_status tide_linalg_cholesky(tide_tensor **out, const tide_tensor *x, bool upper, tide_tensor *into) {
  TIDE_TRY(check_square(x, "cholesky"));
  TIDE_TRY(tide__out_check(out, into, "cholesky"));
  if (into) {
    TIDE_TRY(tide__check(into, "cholesky", "the destination"));
    TIDE_TRY(tide__writable_check(into, "cholesky", "the destination"));
    TIDE_TRY(tide__same_device(into, "the destination", x, "x", "cholesky"));
    TIDE_TRY(tide__cast_expect(into, (tide_dtype)x->dtype, "cholesky"));
  }
  if (x->storage->device >= 0) TIDE_TRY(tide__sync_begin("cholesky"));
  tide_tensor *result;
  TIDE_TRY(factor(&result, x, upper));
  tide_status status =
      into ? tide__size_give(into, x->size, x->ndim, into->storage == x->storage, "cholesky") : TIDE_OK;
  if (status == TIDE_OK) return tide__deliver(out, result, into);
  tide_tensor_release(result);
  return status;
}
