/* pairs.c: cross products and distances of vectors that stand side by side.
 *
 * Invariant: the backend gets contiguous operands of one dtype, and results that have elements. */
#include "tensor.h"

static tide_status check(const tide_tensor *x, const tide_tensor *y, int rest, const char *what) {
  TIDE_TRY(tide__check(x, what, "x"));
  TIDE_TRY(tide__check(y, what, "y"));
  TIDE_TRY(tide__same_device(x, "x", y, "y", what));
  if (x->dtype != y->dtype || (x->dtype != TIDE_FLOAT32 && x->dtype != TIDE_FLOAT64))
    return tide__fail(TIDE_DTYPE, "%s: got %s and %s, expected float32 or float64 for both", what,
                      tide_dtype_name((tide_dtype)x->dtype), tide_dtype_name((tide_dtype)y->dtype));
  const int last = x->ndim - 1;
  bool fits = x->ndim == y->ndim && last + 1 >= rest && x->size[last] == y->size[last];
  for (int d = 0; fits && d <= last - rest; d++) fits = x->size[d] == y->size[d];
  if (fits && (rest == 2 || x->size[last] == 3)) return TIDE_OK;
  return tide__fail(TIDE_SHAPE, "%s: got sizes %s and %s, expected %s", what, tide__shape_text(x->size, x->ndim),
                    tide__shape_text(y->size, y->ndim),
                    rest == 2 ? "[..., n, k] and [..., m, k]" : "[..., 3] for both");
}

static tide_status run(tide_pairs_args *a, const tide_tensor *result, const tide_tensor *x, const tide_tensor *y) {
  tide__queue q;
  TIDE_OWNED tide_tensor *left = NULL, *right = NULL;
  if (result->numel == 0) return TIDE_OK;
  TIDE_TRY(tide__as_contiguous(&left, x, (tide_dtype)x->dtype));
  TIDE_TRY(tide__as_contiguous(&right, y, (tide_dtype)x->dtype));
  TIDE_TRY(tide__operands(&a->head, &q, x->storage->device, 3, (const tide_tensor *[]){result, left, right}));
  return TIDE_LAUNCH(&q, pairs, a, 0);
}

/* The result has x's size, and y's number of vectors where there is one for each pair. */
static tide_status make(tide_tensor **out, tide_pairs_args *a, const tide_tensor *x, const tide_tensor *y) {
  tide_tensor *result;
  int64_t size[TIDE_MAX_DIMS];
  memcpy(size, x->size, sizeof size);
  if (a->op != TIDE_PAIRS_CROSS) size[x->ndim - 1] = a->m;
  TIDE_TRY(tide__tensor_new(&result, size, x->ndim, (tide_dtype)x->dtype, x->storage->device));
  return tide__hand_out(out, result, run(a, result, x, y));
}

tide_status tide_cross(tide_tensor **out, const tide_tensor *x, const tide_tensor *y) {
  TIDE_TRY(tide__out_check(out, NULL, "cross"));
  TIDE_TRY(check(x, y, 1, "cross"));
  tide_pairs_args a = {.op = TIDE_PAIRS_CROSS, .dtype = x->dtype, .batch = x->numel / 3, .n = 1, .m = 1, .k = 3};
  return make(out, &a, x, y);
}

tide_status tide_cdist(tide_tensor **out, const tide_tensor *x, const tide_tensor *y, tide_distance kind) {
  TIDE_TRY(tide__out_check(out, NULL, "cdist"));
  if ((unsigned)kind > TIDE_DISTANCE_BY_PRODUCT)
    return tide__fail(TIDE_ARGUMENT, "cdist: unknown kind, got %d, expected 0 to 2", (int)kind);
  TIDE_TRY(check(x, y, 2, "cdist"));
  const int last = x->ndim - 1;
  tide_pairs_args a = {.op = TIDE_PAIRS_SUM + (int)kind, .dtype = x->dtype, .batch = 1};
  for (int d = 0; d < last - 1; d++) a.batch *= x->size[d];
  a.n = x->size[last - 1], a.m = y->size[last - 1], a.k = x->size[last];
  return make(out, &a, x, y);
}
