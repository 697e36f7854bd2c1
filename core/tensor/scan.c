/* scan.c: running sums, products and extremes along a dim, softmax along one, and differences of neighbours.
 *
 * x is made contiguous, so that it is outer x n x inner and a line's elements are `inner` apart; a backend sees nothing
 * else. Casting to the dtype that was asked for comes first, as in torch, unless loading does it anyway.
 *
 * Invariant: the backend gets lines of at least one element, and a result that is the input itself or shares nothing
 * with it. */
#include "tide/scan.h"

#include "tensor.h"

enum { RULE_WIDE, RULE_FLOAT, RULE_CHOICE, RULE_SOFTMAX };
enum { KIND_VALUE, KIND_COSTLY, KIND_PLACE };
static const struct {
  const char *name;
  uint8_t rule, kind;
} scans[] = {
#define SCAN(NAME, name, rule, kind, none, join, doc) {#name, RULE_##rule, KIND_##kind},
#include "tide/scan.def"
    {"softmax", RULE_SOFTMAX, KIND_COSTLY},
    {"log_softmax", RULE_SOFTMAX, KIND_COSTLY},
};
enum { SOFTMAX = TIDE_SCAN_COUNT }; /* from here on they are no scans, but walk along a dim as these do */

/* Which dtype comes out, and whether the scan takes x. */
static tide_status result_dtype(tide_dtype *out, int op, const tide_tensor *x, tide_dtype wanted) {
  const char *what = scans[op].name;
  int category = tide__category(x->dtype), rule = scans[op].rule;
  if (wanted != TIDE_DTYPE_NONE && (unsigned)wanted >= TIDE_DTYPE_COUNT)
    return tide__fail(TIDE_ARGUMENT, "%s: unknown dtype, got %d, expected 0 to %d", what, (int)wanted,
                      TIDE_DTYPE_COUNT - 1);
  if (wanted == TIDE_BOOL) return tide__fail_dtype(what, wanted, "a dtype of numbers");
  if (rule == RULE_FLOAT && category != 2) return tide__fail_dtype(what, x->dtype, "a floating dtype");
  if (rule == RULE_CHOICE && category == 3) return tide__fail_dtype(what, x->dtype, "a real dtype");
  *out = (tide_dtype)x->dtype;
  if (rule == RULE_WIDE && category <= 1) *out = TIDE_INT64;
  if ((rule == RULE_WIDE || rule == RULE_SOFTMAX) && wanted != TIDE_DTYPE_NONE) *out = wanted;
  if (rule == RULE_SOFTMAX && tide__category(*out) != 2) return tide__fail_dtype(what, *out, "a floating dtype");
  return TIDE_OK;
}

static tide_status check_op(tide_scan_op op) {
  if ((unsigned)op < TIDE_SCAN_COUNT) return TIDE_OK;
  return tide__fail(TIDE_ARGUMENT, "scan: unknown scan, got %d, expected 0 to %d", (int)op, TIDE_SCAN_COUNT - 1);
}

static tide_status check(int op, const tide_tensor *x, int *dim) {
  TIDE_TRY(tide__check(x, scans[op].name, "x"));
  return tide__dim_check(dim, *dim, x->ndim, scans[op].name);
}

/* x as the backend takes it: contiguous, and of the result's dtype, or where it is a scan of a category that is loaded
 * as that of the result. */
static tide_status input(tide_tensor **out, int op, const tide_tensor *x, tide_dtype result) {
  int from = tide__category(x->dtype), to = tide__category(result);
  bool loads = op < SOFTMAX && (from == to || (from == 0 && to == 1));
  return tide__as_contiguous(out, x, loads ? (tide_dtype)x->dtype : result);
}

static tide_dtype work_dtype(tide_dtype result) {
  return tide__category(result) <= 1 ? TIDE_INT64 : tide__compute_dtype(result);
}

static tide_status run(int op, const tide_tensor *in, int dim, const tide_tensor *first, const tide_tensor *second) {
  tide__queue q;
  tide_scan_args a;
  if (first->numel == 0) return TIDE_OK;
  TIDE_TRY(tide__operands(&a.head, &q, in->storage->device, 3, (const tide_tensor *[]){first, in, second}));
  a.op = op < SOFTMAX ? op : op - SOFTMAX, a.index_base = tide_get_index_base();
  a.dtype[0] = first->dtype, a.dtype[1] = in->dtype;
  a.work = (int32_t)work_dtype((tide_dtype)first->dtype);
  a.n = in->ndim ? in->size[dim] : 1;
  a.outer = tide__size_product(in->size, in->ndim ? dim : 0);
  a.inner = in->numel / (a.outer * a.n);
  return op < SOFTMAX ? TIDE_LAUNCH(&q, scan, &a, a.op) : TIDE_LAUNCH(&q, softmax, &a, a.op);
}

static tide_status check_into(int op, tide_tensor *into, const tide_tensor *x, tide_dtype result) {
  TIDE_TRY(tide__into_check(into, x, "x", result, scans[op].name));
  return tide__size_give(into, x->size, x->ndim, into->storage == x->storage, scans[op].name);
}

/* Can the backend write there itself? */
static bool is_direct(const tide_tensor *into, const tide_tensor *x, tide_dtype result) {
  if (!into || !into->contiguous || into->dtype != (uint8_t)result) return false;
  return !tide__tensor_overlaps(into, x) || (into->dtype == x->dtype && tide__same_elements(into, x));
}

static tide_status along(tide_tensor **out, int op, const tide_tensor *x, int dim, tide_dtype dtype,
                         tide_tensor *into) {
  tide_dtype type;
  TIDE_OWNED tide_tensor *in = NULL;
  tide_tensor *result = into;
  TIDE_TRY(check(op, x, &dim));
  TIDE_TRY(result_dtype(&type, op, x, dtype));
  TIDE_TRY(tide__out_check(out, into, scans[op].name));
  if (into) TIDE_TRY(check_into(op, into, x, type));
  if (!is_direct(into, x, type)) TIDE_TRY(tide__tensor_new(&result, x->size, x->ndim, type, x->storage->device));
  tide_status status = input(&in, op, x, type);
  if (status == TIDE_OK) status = run(op, in, dim, result, NULL);
  return tide__deliver(out, result, into, status);
}

tide_status tide_scan(tide_tensor **out, tide_scan_op op, const tide_tensor *x, int dim, tide_dtype dtype,
                      tide_tensor *into) {
  TIDE_TRY(check_op(op));
  return along(out, op, x, dim, dtype, into);
}

tide_status tide_softmax(tide_tensor **out, const tide_tensor *x, int dim, bool logarithm, tide_dtype dtype,
                         tide_tensor *into) {
  return along(out, SOFTMAX + (logarithm ? TIDE_SOFTMAX_LOG : TIDE_SOFTMAX_PLAIN), x, dim, dtype, into);
}

tide_status tide_scan_index(tide_tensor **values, tide_tensor **indices, tide_scan_op op, const tide_tensor *x,
                            int dim) {
  tide_dtype type;
  TIDE_OWNED tide_tensor *in = NULL, *first = NULL, *second = NULL;
  TIDE_TRY(check_op(op));
  TIDE_TRY(check(op, x, &dim));
  if (scans[op].kind != KIND_PLACE)
    return tide__fail(TIDE_ARGUMENT, "scan_index: wrong scan, got %d, expected CUMMAX or CUMMIN", (int)op);
  if (!values || !indices)
    return tide__fail(TIDE_ARGUMENT, "%s: a place for a result is missing, got NULL, expected two", scans[op].name);
  TIDE_TRY(result_dtype(&type, op, x, TIDE_DTYPE_NONE));
  TIDE_TRY(input(&in, op, x, type));
  int device = x->storage->device;
  TIDE_TRY(tide__tensor_new(&first, x->size, x->ndim, type, device));
  TIDE_TRY(tide__tensor_new(&second, x->size, x->ndim, TIDE_INT64, device));
  TIDE_TRY(run(op, in, dim, first, second));
  tide__owned_give(values, &first);
  return tide__owned_give(indices, &second);
}

/* ---- differences ---- */

/* All but the first, or but the last, along dim: a view on the stack. */
static tide_tensor without(const tide_tensor *x, int dim, bool first) {
  tide_tensor v = tide__tensor_borrow(x);
  v.size[dim]--;
  if (first) v.offset += v.stride[dim];
  v.refs = 1;
  tide__tensor_layout(&v);
  return v;
}

tide_status tide_diff(tide_tensor **out, const tide_tensor *x, int64_t n, int dim) {
  TIDE_TRY(tide__check(x, "diff", "x"));
  TIDE_TRY(tide__out_check(out, NULL, "diff"));
  if (x->ndim == 0)
    return tide__fail(TIDE_SHAPE, "diff: x has no dims, got a tensor of one element, expected at least one dim");
  if (n < 0) return tide__fail(TIDE_VALUE, "diff: n is negative, got %lld, expected at least 0", (long long)n);
  TIDE_TRY(tide__dim_check(&dim, dim, x->ndim, "diff"));
  tide_tensor *now;
  if (n > x->size[dim]) n = x->size[dim];
  if (n == 0) return tide_clone(out, x);
  if (n == x->size[dim]) { /* nothing is left */
    int64_t size[TIDE_MAX_DIMS];
    memcpy(size, x->size, sizeof size);
    size[dim] = 0;
    return tide__tensor_new(out, size, x->ndim, (tide_dtype)x->dtype, x->storage->device);
  }
  for (now = tide__tensor_ref(x); n > 0; n--) {
    tide_tensor *next, high = without(now, dim, true), low = without(now, dim, false);
    tide_op op = x->dtype == TIDE_BOOL ? TIDE_OP_ne : TIDE_OP_sub;
    tide_status status = tide_binary(&next, op, &high, &low, NULL);
    tide_tensor_release(now);
    TIDE_TRY(status);
    now = next;
  }
  *out = now;
  return TIDE_OK;
}
