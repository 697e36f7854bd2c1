/* sample.c: the values of a field between its points.
 *
 * Invariant: the backend gets contiguous operands of one dtype, and results that have elements. */
#include "field.h"

static tide_status check(const tide_tensor *x, const tide_tensor *grid, tide_sample_mode mode,
                         tide_sample_beyond beyond) {
  const char *what = "grid_sample";
  TIDE_TRY(tide__check(x, what, "x"));
  TIDE_TRY(tide__check(grid, what, "grid"));
  if ((unsigned)mode > TIDE_SAMPLE_BY_CUBIC || (unsigned)beyond > TIDE_SAMPLE_REFLECTION)
    return tide__fail(TIDE_ARGUMENT, "%s: unknown mode, got %d and %d, expected 0 to 2", what, (int)mode, (int)beyond);
  TIDE_TRY(tide__same_device(x, "x", grid, "grid", what));
  if (tide__category(x->dtype) != 2)
    return tide__fail(TIDE_DTYPE, "%s: dtype not accepted, got %s, expected a real floating dtype", what,
                      tide_dtype_name((tide_dtype)x->dtype));
  if (grid->dtype != x->dtype)
    return tide__fail(TIDE_DTYPE, "%s: dtypes differ, got %s for grid, expected that of x, %s", what,
                      tide_dtype_name((tide_dtype)grid->dtype), tide_dtype_name((tide_dtype)x->dtype));
  if (x->ndim != 5 && (x->ndim != 4))
    return tide__fail(TIDE_SHAPE, "%s: x has the wrong number of dims, got %d, expected 4 or 5", what, x->ndim);
  if (mode == TIDE_SAMPLE_BY_CUBIC && x->ndim != 4)
    return tide__fail(TIDE_SHAPE, "%s: x has the wrong number of dims, got %d, expected 4 for the cubic mode", what,
                      x->ndim);
  if (grid->ndim != x->ndim || grid->size[0] != x->size[0] || grid->size[grid->ndim - 1] != x->ndim - 2)
    return tide__fail(TIDE_SHAPE,
                      "%s: grid does not fit x, got size %s, expected %d dims, x's batch of %lld first and %d last",
                      what, tide__shape_text(grid->size, grid->ndim), x->ndim, (long long)x->size[0], x->ndim - 2);
  for (int d = 2; d < x->ndim; d++)
    if (x->size[d] == 0)
      return tide__fail(TIDE_SHAPE, "%s: x has no elements, got size %s, expected some in spatial dims", what,
                        tide__shape_text(x->size, x->ndim));
  return TIDE_OK;
}

static tide_status run(tide_sample_args *a, const tide_tensor *result, const tide_tensor *x, const tide_tensor *grid) {
  tide__queue q;
  TIDE_OWNED tide_tensor *field = NULL, *points = NULL;
  if (result->numel == 0) return TIDE_OK;
  TIDE_TRY(tide__as_contiguous(&field, x, (tide_dtype)x->dtype));
  TIDE_TRY(tide__as_contiguous(&points, grid, (tide_dtype)x->dtype));
  TIDE_TRY(tide__operands(&a->head, &q, x->storage->device, 3, (const tide_tensor *[]){result, field, points}));
  return TIDE_LAUNCH(&q, sample, a, 0);
}

tide_status tide_grid_sample(tide_tensor **out, const tide_tensor *x, const tide_tensor *grid, tide_sample_mode mode,
                             tide_sample_beyond beyond, bool align) {
  tide_tensor *result;
  int64_t size[TIDE_MAX_DIMS];
  TIDE_TRY(tide__out_check(out, NULL, "grid_sample"));
  TIDE_TRY(check(x, grid, mode, beyond));
  int rank = x->ndim - 2;
  tide_sample_args a = {.mode = mode, .beyond = beyond, .align = align, .rank = rank, .dtype = x->dtype};
  a.batch = x->size[0], a.channels = x->size[1];
  for (int d = 0; d < 3; d++) a.size[d] = d < 3 - rank ? 1 : x->size[x->ndim - 3 + d];
  a.points = tide__size_product(grid->size + 1, rank);
  size[0] = a.batch, size[1] = a.channels;
  for (int d = 0; d < rank; d++) size[2 + d] = grid->size[1 + d];
  TIDE_TRY(tide__tensor_new(&result, size, x->ndim, (tide_dtype)x->dtype, x->storage->device));
  return tide__hand_out(out, result, run(&a, result, x, grid));
}
