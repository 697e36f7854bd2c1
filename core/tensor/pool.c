/* pool.c: the maximum or mean of windows, and fields in another size: all are one kernel that reads planes, but for the
 * nearest elements, which are moved as they are, by the kernel of pad.
 *
 * Invariant: the backend gets contiguous planes that have elements, and results that have some. */
#include "field.h"

static tide_status check_float(const tide_tensor *x, const char *what) {
  return tide__category(x->dtype) == 2 ? TIDE_OK : tide__fail_dtype(what, x->dtype, "a real floating dtype");
}

/* x: `least` to `most` dims, of which the last `rank`, the spatial ones, have elements. */
static tide_status check_dims(const tide_tensor *x, int least, int most, int rank, const char *what) {
  if (x->ndim < least || x->ndim > most)
    return tide__fail(TIDE_SHAPE, "%s: x has the wrong number of dims, got %d, expected %d%s", what, x->ndim, most,
                      least < most ? " or one less, without a batch" : "");
  for (int d = x->ndim - rank; d < x->ndim; d++)
    if (x->size[d] == 0)
      return tide__fail(TIDE_SHAPE, "%s: x has no elements along dim %lld, got size %s, expected some in spatial dims",
                        what, (long long)tide__shown(d), tide__shape_text(x->size, x->ndim));
  return TIDE_OK;
}

/* a's dims: those of x and of `size`, the missing ones in front. */
static void set_dims(tide_window_args *a, const tide_tensor *x, int rank) {
  a->planes = tide__size_product(x->size, x->ndim - rank);
  for (int d = 0; d < 3; d++) {
    a->dim[d] = (tide_taps){1, 1, 1, 1, 0, 1, 1};
    if (d >= 3 - rank) a->dim[d].in = x->size[x->ndim - 3 + d];
  }
}

static tide_status run(tide_window_args *a, const tide_tensor *first, const tide_tensor *second, const tide_tensor *x) {
  tide__queue q;
  TIDE_OWNED tide_tensor *in = NULL;
  if (first->numel == 0) return TIDE_OK;
  TIDE_TRY(tide__as_contiguous(&in, x, (tide_dtype)x->dtype));
  TIDE_TRY(tide__operands(&a->head, &q, x->storage->device, 3, (const tide_tensor *[]){first, in, second}));
  a->dtype = x->dtype, a->index_base = tide_get_index_base();
  return TIDE_LAUNCH(&q, window, a, a->op);
}

/* The result's size, and everything computed into it. */
static tide_status windows(tide_tensor **out, tide_tensor **indices, tide_window_args *a, const tide_tensor *x,
                           int rank) {
  int64_t size[TIDE_MAX_DIMS];
  TIDE_OWNED tide_tensor *first = NULL, *second = NULL;
  memcpy(size, x->size, sizeof size);
  for (int d = 3 - rank; d < 3; d++) size[x->ndim - 3 + d] = a->dim[d].out;
  TIDE_TRY(tide__tensor_new(&first, size, x->ndim, (tide_dtype)x->dtype, x->storage->device));
  if (indices) TIDE_TRY(tide__tensor_new(&second, size, x->ndim, TIDE_INT64, x->storage->device));
  TIDE_TRY(run(a, first, second, x));
  if (indices) tide__owned_give(indices, &second);
  return tide__owned_give(out, &first);
}

/* ---- windows ---- */

static tide_status check_window(const tide_taps *t, int dim, const char *what) {
  const struct {
    const char *name;
    int64_t value, least;
  } parts[] = {
      {"kernel", t->kernel, 1}, {"stride", t->stride, 1}, {"dilation", t->dilation, 1}, {"padding", t->before, 0}};
  for (int i = 0; i < 4; i++)
    if (parts[i].value < parts[i].least || parts[i].value > INT32_MAX)
      return tide__fail(TIDE_VALUE, "%s: %s, got %lld for spatial dim %lld, expected %lld to %d", what, parts[i].name,
                        (long long)parts[i].value, (long long)tide__shown(dim), (long long)parts[i].least, INT32_MAX);
  int64_t wide = (t->kernel - 1) * t->dilation + 1;
  if (t->before > wide / 2)
    return tide__fail(TIDE_VALUE, "%s: padding, got %lld, expected at most half of what a window covers, %lld", what,
                      (long long)t->before, (long long)(wide / 2));
  return TIDE_OK;
}

static tide_status pool_dims(tide_window_args *a, int rank, const tide_pool *pool, const char *what) {
  for (int i = 0; i < rank; i++) {
    tide_taps *t = &a->dim[3 - rank + i];
    t->kernel = pool->kernel[i], t->stride = pool->stride[i], t->before = pool->padding[i];
    t->dilation = a->op == TIDE_WINDOW_MAX ? pool->dilation[i] : 1;
    TIDE_TRY(check_window(t, i, what));
    int64_t room = t->in + 2 * t->before - (t->kernel - 1) * t->dilation - 1;
    if (room < 0 && !(pool->ceil_mode && room + t->stride - 1 >= 0))
      return tide__fail(TIDE_SHAPE, "%s: a window is larger than what it stands in, got %lld elements for %lld", what,
                        (long long)((t->kernel - 1) * t->dilation + 1), (long long)(t->in + 2 * t->before));
    t->out = (room + (pool->ceil_mode ? t->stride - 1 : 0)) / t->stride + 1;
    if (pool->ceil_mode && (t->out - 1) * t->stride >= t->in + t->before) t->out--;
  }
  return TIDE_OK;
}

/* Of maxima integers are accepted, too. */
static tide_status check_pool(const tide_tensor *x, int op, const char *what) {
  if (op != TIDE_WINDOW_MAX) return check_float(x, what);
  int category = tide__category(x->dtype);
  if (category == 1 || category == 2) return TIDE_OK;
  return tide__fail_dtype(what, x->dtype, "a real floating or an integer dtype");
}

static tide_status pool_begin(tide_window_args *a, const tide_tensor *x, int rank, const tide_pool *pool,
                              const char *what) {
  TIDE_GIVEN(what, pool);
  TIDE_SIZED(what, pool);
  TIDE_TRY(tide__check(x, what, "x"));
  if (rank < 1 || rank > 3)
    return tide__fail(TIDE_ARGUMENT, "%s: number of spatial dims, got %d, expected 1 to 3", what, rank);
  TIDE_TRY(check_pool(x, a->op, what));
  TIDE_TRY(check_dims(x, rank + 1, rank + 2, rank, what));
  set_dims(a, x, rank);
  return pool_dims(a, rank, pool, what);
}

tide_status tide_max_pool(tide_tensor **out, tide_tensor **indices, const tide_tensor *x, int rank,
                          const tide_pool *pool) {
  tide_window_args a = {.op = TIDE_WINDOW_MAX};
  TIDE_TRY(tide__out_check(out, NULL, "max_pool"));
  TIDE_TRY(pool_begin(&a, x, rank, pool, "max_pool"));
  if (tide__category(x->dtype) == 2) return windows(out, indices, &a, x, rank);
  TIDE_OWNED tide_tensor *wide = NULL, *made = NULL, *places = NULL; /* kernels know one integer dtype */
  TIDE_TRY(tide__as_dtype(&wide, x, TIDE_INT64));
  TIDE_TRY(windows(&made, indices ? &places : NULL, &a, wide, rank));
  TIDE_TRY(tide__as_dtype(out, made, (tide_dtype)x->dtype));
  return indices ? tide__owned_give(indices, &places) : TIDE_OK;
}

tide_status tide_avg_pool(tide_tensor **out, const tide_tensor *x, int rank, const tide_pool *pool) {
  TIDE_GIVEN("avg_pool", pool);
  tide_window_args a = {.op = TIDE_WINDOW_MEAN, .with_border = pool->count_include_pad, .divisor = pool->divisor};
  TIDE_TRY(tide__out_check(out, NULL, "avg_pool"));
  TIDE_TRY(pool_begin(&a, x, rank, pool, "avg_pool"));
  return windows(out, NULL, &a, x, rank);
}

/* ---- other sizes ---- */

static tide_status nearest(tide_tensor **out, const tide_tensor *x, const int64_t *size, const double *scale,
                           bool exact) {
  tide_pad_args a = {0};
  tide_tensor *result;
  int64_t all[TIDE_MAX_DIMS];
  memcpy(all, x->size, sizeof all);
  for (int d = 2; d < x->ndim; d++) {
    double grows = scale ? scale[d - 2] : 0;
    all[d] = size[d - 2];
    if (all[d] == x->size[d] && (grows <= 0 || grows == 1)) continue; /* as it is */
    a.rule[d] = exact ? TIDE_PLACE_NEAREST_EXACT : TIDE_PLACE_NEAREST;
    a.scale[d] = grows > 0 ? (float)(1 / grows) : (float)x->size[d] / (float)all[d];
  }
  TIDE_TRY(tide__tensor_new(&result, all, x->ndim, (tide_dtype)x->dtype, x->storage->device));
  return tide__hand_out(out, result, tide__place(result, x, &a));
}

tide_status tide_interpolate(tide_tensor **out, const tide_tensor *x, const int64_t *size, const double *scale,
                             tide_interpolate_mode mode, bool align) {
  TIDE_GIVEN("interpolate", size);
  static const int ops[] = {0, 0, TIDE_WINDOW_AREA, TIDE_WINDOW_LINEAR, TIDE_WINDOW_CUBIC};
  TIDE_TRY(tide__check(x, "interpolate", "x"));
  TIDE_TRY(tide__out_check(out, NULL, "interpolate"));
  if ((unsigned)mode > TIDE_INTERPOLATE_CUBIC)
    return tide__fail(TIDE_ARGUMENT, "interpolate: unknown mode, got %d, expected 0 to %d", (int)mode,
                      TIDE_INTERPOLATE_CUBIC);
  if (x->ndim < 3 || x->ndim > 5 || (mode == TIDE_INTERPOLATE_CUBIC && x->ndim != 4))
    return tide__fail(TIDE_SHAPE, "interpolate: x has the wrong number of dims, got %d, expected %s", x->ndim,
                      mode == TIDE_INTERPOLATE_CUBIC ? "4 for the cubic mode"
                                                     : "3 to 5: batch, channels and up to three more");
  int rank = x->ndim - 2;
  TIDE_TRY(check_dims(x, rank + 2, rank + 2, rank, "interpolate"));
  for (int d = 0; d < rank; d++)
    if (size[d] < 1)
      return tide__fail(TIDE_VALUE, "interpolate: size, got %lld, expected at least 1", (long long)size[d]);
  if (mode <= TIDE_INTERPOLATE_EXACT) return nearest(out, x, size, scale, mode == TIDE_INTERPOLATE_EXACT);
  TIDE_TRY(check_float(x, "interpolate"));
  tide_window_args a = {.op = ops[mode], .align = align};
  set_dims(&a, x, rank);
  for (int d = 0; d < rank; d++) {
    tide_taps *t = &a.dim[3 - rank + d];
    double grows = scale ? scale[d] : 0;
    t->out = size[d];
    t->scale = align ? (t->out > 1 ? (double)(t->in - 1) / (double)(t->out - 1) : 0)
               : t->in == t->out && mode == TIDE_INTERPOLATE_LINEAR ? 1
               : grows > 0                                          ? 1 / grows
                                                                    : (double)t->in / (double)t->out;
  }
  return windows(out, NULL, &a, x, rank);
}
