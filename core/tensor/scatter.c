/* scatter.c: reads and writes at places that a tensor of indexes names, element by element (gather, scatter, take, put)
 * or slice by slice (index_add, index_copy, index_fill).
 *
 * Each checks its operands, says along which dims they are walked, and leaves the rest to tide__index_run. A form out
 * of place works on a copy. Sizes are not compared where the index has no elements, as in torch.
 *
 * Invariant: operands are checked before anything is copied or written. */
#include "tide/scatter.h"

#include "index.h"

/* ---- shared ---- */

/* A tensor without dims counts as a line of one element. */
static int line_ndim(const tide_tensor *x) { return x->ndim ? x->ndim : 1; }
static int64_t line_size(const tide_tensor *x, int d) { return x->ndim ? x->size[d] : 1; }
static int64_t line_stride(const tide_tensor *x, int d) { return x->ndim ? x->stride[d] : 1; }

static tide_status check_dims(const tide_tensor *x, const tide_tensor *y, const char *name, const char *what) {
  if (line_ndim(x) == line_ndim(y)) return TIDE_OK;
  return tide__fail(TIDE_SHAPE, "%s: wrong number of dims of %s, got %s, expected %d as x has", what, name,
                    tide__shape_text(y->size, y->ndim), x->ndim);
}

/* The index is nowhere larger than y, but along dim (-1: everywhere). */
static tide_status check_within(const tide_tensor *index, const tide_tensor *y, int dim, const char *name,
                                const char *what) {
  for (int d = 0; d < line_ndim(index); d++)
    if (d != dim && line_size(index, d) > line_size(y, d))
      return tide__fail(TIDE_SHAPE, "%s: the index is larger than %s, got %s, expected at most %s%s", what, name,
                        tide__shape_text(index->size, index->ndim), tide__shape_text(y->size, y->ndim),
                        dim < 0 ? "" : ", but along dim");
  return TIDE_OK;
}

/* A source has x's dtype and lies where x can read it. */
static tide_status check_source(const tide_tensor *x, const tide_tensor *source, const char *what) {
  TIDE_TRY(tide__check(source, what, "the source"));
  TIDE_TRY(tide__operand_device(x, "x", source, "the source", what));
  if (source->dtype == x->dtype) return TIDE_OK;
  return tide__fail(TIDE_DTYPE, "%s: wrong dtype of the source, got %s, expected %s as x has", what,
                    tide_dtype_name((tide_dtype)source->dtype), tide_dtype_name((tide_dtype)x->dtype));
}

/* The source as it may be read while `written` is. */
static tide_status apart(tide_tensor **out, const tide_tensor *source, const tide_tensor *written) {
  if (tide__tensor_overlaps(written, source)) return tide_clone(out, source);
  *out = tide__tensor_ref(source);
  return TIDE_OK;
}

/* A destination of a read: written directly where it can be. */
static tide_status read_begin(tide_tensor **target, const tide_tensor *x, const tide_tensor *index, const int64_t *size,
                              int ndim, tide_tensor *into, const char *what) {
  if (into) {
    TIDE_TRY(tide__into_check(into, x, "x", (tide_dtype)x->dtype, what));
    bool shared = into->storage == x->storage || into->storage == index->storage;
    TIDE_TRY(tide__size_give(into, size, ndim, shared, what));
    if (into->dtype == x->dtype && !tide__tensor_overlaps(into, x) && !tide__tensor_overlaps(into, index)) {
      *target = into;
      return TIDE_OK;
    }
  }
  return tide__tensor_new(target, size, ndim, (tide_dtype)x->dtype, x->storage->device);
}

/* The space of an index that has x's dims, over its own sizes. */
static void space_of_index(tide__index_space *s, const tide_tensor *x, int dim, const tide_tensor *index,
                           const tide_tensor *dense) {
  tide__index_along(s, x, dim);
  s->ndim = index->ndim;
  for (int d = 0; d < index->ndim; d++) {
    s->size[d] = index->size[d];
    s->stride[0][d] = dense->ndim ? dense->stride[d] : 0;
    s->stride[1][d] = d == dim ? 0 : line_stride(x, d);
    s->stride[2][d] = index->stride[d];
  }
}

/* ---- gather ---- */

static tide_status gather(tide_tensor **out, const tide_tensor *x, int dim, const tide_tensor *index, tide_tensor *into,
                          const char *what) {
  tide__index_space s;
  TIDE_OWNED tide_tensor *places = NULL;
  tide_tensor *target;
  if (index->numel) TIDE_TRY(check_within(index, x, dim, "x", what));
  TIDE_TRY(tide__index_tensor(&places, x, index, NULL, what));
  TIDE_TRY(read_begin(&target, x, places, index->size, index->ndim, into, what));
  space_of_index(&s, x, dim, places, target);
  tide__index_mode m = {.base = tide_get_index_base()};
  return tide__deliver(out, target, into, tide__index_run(&m, x, target, places, &s));
}

static tide_status check_along(int *dim, const tide_tensor *x, const tide_tensor *index, const char *what) {
  TIDE_TRY(tide__check(x, what, "x"));
  TIDE_TRY(tide__check(index, what, "the index"));
  TIDE_TRY(tide__dim_check(dim, *dim, x->ndim, what));
  return index->numel || index->ndim == x->ndim ? check_dims(x, index, "the index", what) : TIDE_OK;
}

tide_status tide_gather(tide_tensor **out, const tide_tensor *x, int dim, const tide_tensor *index, tide_tensor *into) {
  TIDE_TRY(tide__out_check(out, into, "gather"));
  TIDE_TRY(check_along(&dim, x, index, "gather"));
  return gather(out, x, dim, index, into, "gather");
}

tide_status tide_take_along_dim(tide_tensor **out, const tide_tensor *x, const tide_tensor *index, int dim,
                                tide_tensor *into) {
  static const char *what = "take_along_dim";
  int64_t size[TIDE_MAX_DIMS];
  TIDE_OWNED tide_tensor *wide_x = NULL, *wide_index = NULL;
  TIDE_TRY(tide__out_check(out, into, what));
  TIDE_TRY(check_along(&dim, x, index, what));
  TIDE_TRY(check_dims(x, index, "the index", what));
  for (int d = 0; d < index->ndim; d++) {
    size[d] = index->size[d];
    if (d == dim || index->size[d] == line_size(x, d) || line_size(x, d) == 1) continue;
    if (index->size[d] != 1)
      return tide__fail(TIDE_SHAPE,
                        "%s: the shapes do not fit, got %s and %s, expected equal sizes or 1, but along dim", what,
                        tide__shape_text(x->size, x->ndim), tide__shape_text(index->size, index->ndim));
    size[d] = x->size[d];
  }
  TIDE_TRY(tide_expand(&wide_index, index, size, index->ndim));
  if (x->ndim) size[dim] = x->size[dim];
  TIDE_TRY(x->ndim ? tide_expand(&wide_x, x, size, x->ndim) : tide__index_same(&wide_x, x));
  return gather(out, wide_x, dim, wide_index, into, what);
}

/* ---- x as one line ---- */

/* x, row-major, as a line with one stride, if it is one; else false. */
static bool as_line(tide__index_space *s, const tide_tensor *x) {
  int64_t size[TIDE_MAX_DIMS], stride[1][TIDE_MAX_DIMS];
  tide__index_along(s, x, 0);
  memcpy(size, x->size, sizeof size);
  memcpy(stride[0], x->stride, sizeof stride[0]);
  bool line = x->ndim == 0 || tide__collapse(size, stride, 1, x->ndim, true) == 1;
  s->length = x->numel, s->pitch = x->contiguous || x->ndim == 0 ? 1 : stride[0][0];
  return line;
}

/* The rest of the space: the index's dims, and the strides of what is read or written there. */
static void space_of_line(tide__index_space *s, const tide_tensor *index, const int64_t *dense_stride) {
  s->ndim = index->ndim;
  for (int d = 0; d < index->ndim; d++) {
    s->size[d] = index->size[d];
    s->stride[0][d] = dense_stride[d];
    s->stride[1][d] = 0;
    s->stride[2][d] = index->stride[d];
  }
}

tide_status tide_take(tide_tensor **out, const tide_tensor *x, const tide_tensor *index, tide_tensor *into) {
  tide__index_space s;
  TIDE_OWNED tide_tensor *places = NULL, *packed = NULL;
  tide_tensor *target;
  TIDE_TRY(tide__out_check(out, into, "take"));
  TIDE_TRY(tide__check(x, "take", "x"));
  TIDE_TRY(tide__index_tensor(&places, x, index, NULL, "take"));
  TIDE_TRY(as_line(&s, x) ? tide__index_same(&packed, x) : tide__as_contiguous(&packed, x, (tide_dtype)x->dtype));
  if (packed != x) s.pitch = 1;
  TIDE_TRY(read_begin(&target, x, places, places->size, places->ndim, into, "take"));
  space_of_line(&s, places, target->stride);
  tide__index_mode m = {.base = tide_get_index_base()};
  return tide__deliver(out, target, into, tide__index_run(&m, packed, target, places, &s));
}

/* Into a target that is one line. */
static tide_status put_line(const tide_tensor *target, const tide_tensor *index, const tide_tensor *source,
                            bool accumulate, tide__index_space *s) {
  TIDE_OWNED tide_tensor *lined = NULL, *read = NULL;
  TIDE_TRY(tide_reshape(&lined, source, index->size, index->ndim));
  TIDE_TRY(apart(&read, lined, target));
  space_of_line(s, index, read->stride);
  tide__index_mode m = {.scatter = true, .base = tide_get_index_base()};
  m.reduce = accumulate ? TIDE_INDEX_SUM : TIDE_INDEX_WRITE;
  return tide__index_run(&m, target, read, index, s);
}

static tide_status put(tide_tensor *target, const tide_tensor *index, const tide_tensor *source, bool accumulate) {
  tide__index_space s;
  if (as_line(&s, target)) return put_line(target, index, source, accumulate, &s);
  TIDE_OWNED tide_tensor *packed = NULL;
  TIDE_TRY(tide__as_contiguous(&packed, target, (tide_dtype)target->dtype));
  s.pitch = 1;
  TIDE_TRY(put_line(packed, index, source, accumulate, &s));
  return tide__copy_kernel(target, packed);
}

tide_status tide_put(tide_tensor **out, const tide_tensor *x, const tide_tensor *index, const tide_tensor *source,
                     bool accumulate, tide_tensor *into) {
  TIDE_OWNED tide_tensor *places = NULL;
  tide_tensor *target;
  TIDE_TRY(tide__out_check(out, into, "put"));
  TIDE_TRY(tide__check(x, "put", "x"));
  TIDE_TRY(tide__written_check(x, into, "put"));
  TIDE_TRY(check_source(x, source, "put"));
  TIDE_TRY(tide__check(index, "put", "the index"));
  if (source->numel != index->numel)
    return tide__fail(TIDE_SHAPE, "put: wrong number of elements of the source, got %s, expected %lld as the index has",
                      tide__shape_text(source->size, source->ndim), (long long)index->numel);
  TIDE_TRY(tide__index_tensor(&places, x, index, into == x ? x : NULL, "put"));
  tide_index_reduce reduce = accumulate ? TIDE_INDEX_SUM : TIDE_INDEX_WRITE;
  TIDE_TRY(tide__written_begin(&target, x, into, tide__index_wide(x, index->numel, index->numel, reduce)));
  return tide__written_end(out, target, x, into, put(target, places, source, accumulate), "put");
}

/* ---- scatter ---- */

/* What every value joins without change. */
static tide_scalar neutral(tide_scatter_op op, tide_dtype dtype) {
  if (op == TIDE_SCATTER_PROD) return tide_int(1);
  if (op != TIDE_SCATTER_MAX && op != TIDE_SCATTER_MIN) return tide_int(0);
  int category = tide__category(dtype), bits = 8 * (int)tide__itemsize(dtype);
  if (category == 0) return tide_bool(op == TIDE_SCATTER_MIN);
  if (category == 2) return tide_float(op == TIDE_SCATTER_MAX ? -HUGE_VAL : HUGE_VAL);
  if (dtype == TIDE_UINT8) return tide_int(op == TIDE_SCATTER_MAX ? 0 : 255);
  int64_t most = (int64_t)((UINT64_C(1) << (bits - 1)) - 1);
  return tide_int(op == TIDE_SCATTER_MAX ? -most - 1 : most);
}

static tide_status run_scatter(const tide_tensor *target, int dim, const tide_tensor *index, const tide_tensor *dense,
                               tide_index_reduce reduce) {
  tide__index_space s;
  space_of_index(&s, target, dim, index, dense);
  tide__index_mode m = {.scatter = true, .reduce = reduce, .base = tide_get_index_base()};
  return tide__index_run(&m, target, dense, index, &s);
}

static tide_status scatter_number(const tide_tensor *target, int dim, const tide_tensor *index, tide_scalar value,
                                  tide_index_reduce reduce) {
  TIDE_OWNED tide_tensor *dense = NULL;
  TIDE_TRY(tide__index_number(&dense, target, (tide_dtype)target->dtype, value));
  return run_scatter(target, dim, index, dense, reduce);
}

/* How many values each element of the sum has, and the division. */
static tide_status divide(tide_tensor *target, int dim, const tide_tensor *index, bool include_self) {
  tide_options o = {TIDE_INT64, target->storage->device, false};
  TIDE_OWNED tide_tensor *count = NULL;
  TIDE_TRY(tide_full(&count, target->size, target->ndim, tide_int(include_self), &o));
  TIDE_TRY(scatter_number(count, dim, index, tide_int(1), TIDE_INDEX_SUM));
  tide_operand most[2] = {{.tensor = count}, {.number = tide_int(1)}};
  if (!include_self) TIDE_TRY(tide_elementwise(NULL, TIDE_OP_maximum, most, NULL, count));
  tide_op op = tide__category(target->dtype) >= 2 ? TIDE_OP_div : TIDE_OP_floor_divide;
  return tide_binary(NULL, op, target, count, target);
}

static const tide_index_reduce reduces[] = {TIDE_INDEX_WRITE, TIDE_INDEX_SUM, TIDE_INDEX_PROD,
                                            TIDE_INDEX_SUM,   TIDE_INDEX_MAX, TIDE_INDEX_MIN};

/* The number has the dtype of x, the target maybe a wider one. */
static tide_status scatter(tide_tensor *target, tide_dtype dtype, int dim, const tide_tensor *index,
                           const tide_operand *value, tide_scatter_op op, bool include_self) {
  TIDE_OWNED tide_tensor *dense = NULL;
  TIDE_TRY(value->tensor ? apart(&dense, value->tensor, target)
                         : tide__index_number(&dense, target, dtype, value->number));
  if (op != TIDE_SCATTER_WRITE && !include_self)
    TIDE_TRY(scatter_number(target, dim, index, neutral(op, (tide_dtype)target->dtype), TIDE_INDEX_WRITE));
  TIDE_TRY(run_scatter(target, dim, index, dense, reduces[op]));
  return op == TIDE_SCATTER_MEAN ? divide(target, dim, index, include_self) : TIDE_OK;
}

/* A mean is made in a dtype that holds the sum of any values. */
static tide_dtype scatter_dtype(const tide_tensor *x, int dim, const tide_tensor *index, tide_scatter_op op) {
  if (op != TIDE_SCATTER_MEAN) return tide__index_wide(x, index->numel, line_size(index, dim), reduces[op]);
  int category = tide__category(x->dtype);
  if (category == 1) return TIDE_INT64;
  return category == 3 ? TIDE_COMPLEX128 : tide__itemsize(x->dtype) == 2 ? TIDE_FLOAT32 : TIDE_FLOAT64;
}

static tide_status check_op(const tide_tensor *x, tide_scatter_op op, const char *what) {
  if ((unsigned)op > TIDE_SCATTER_MIN)
    return tide__fail(TIDE_ARGUMENT, "%s: unknown operation, got %d, expected one of tide_scatter_op", what, (int)op);
  bool orders = op == TIDE_SCATTER_MAX || op == TIDE_SCATTER_MIN;
  if (orders && tide__category(x->dtype) == 3)
    return tide__fail(TIDE_DTYPE, "%s: complex numbers have no order, got %s, expected a real dtype", what,
                      tide_dtype_name((tide_dtype)x->dtype));
  return op == TIDE_SCATTER_MEAN && x->dtype == TIDE_BOOL ? tide__fail_dtype(what, TIDE_BOOL, "numbers") : TIDE_OK;
}

tide_status tide_scatter(tide_tensor **out, const tide_tensor *x, int dim, const tide_tensor *index,
                         const tide_operand *value, tide_scatter_op op, bool include_self, tide_tensor *into) {
  TIDE_GIVEN("scatter", value);
  static const char *what = "scatter";
  TIDE_OWNED tide_tensor *places = NULL;
  tide_tensor *target;
  TIDE_TRY(tide__out_check(out, into, what));
  TIDE_TRY(check_along(&dim, x, index, what));
  TIDE_TRY(tide__written_check(x, into, what));
  TIDE_TRY(check_op(x, op, what));
  if (index->numel) TIDE_TRY(check_within(index, x, dim, "x", what));
  if (value->tensor) {
    TIDE_TRY(check_source(x, value->tensor, what));
    if (index->numel) TIDE_TRY(check_dims(x, value->tensor, "the source", what));
    if (index->numel) TIDE_TRY(check_within(index, value->tensor, -1, "the source", what));
  } else {
    TIDE_TRY(tide__scalar_check(value->number, (tide_dtype)x->dtype, what));
  }
  TIDE_TRY(tide__index_tensor(&places, x, index, into == x ? x : NULL, what));
  /* A mean takes memory on its way: x changes when all is done. */
  TIDE_TRY(tide__written_begin(&target, x, op == TIDE_SCATTER_MEAN ? NULL : into, scatter_dtype(x, dim, places, op)));
  tide_status status =
      places->numel ? scatter(target, (tide_dtype)x->dtype, dim, places, value, op, include_self) : TIDE_OK;
  return tide__written_end(out, target, x, into, status, what);
}

/* ---- slices ---- */

static tide_status check_line(const tide_tensor *index, const char *what) {
  if (index->ndim <= 1) return TIDE_OK;
  return tide__fail(TIDE_SHAPE, "%s: wrong shape of the index, got %s, expected one dim", what,
                    tide__shape_text(index->size, index->ndim));
}

static tide_status check_slices(const tide_tensor *x, int dim, const tide_tensor *index, const tide_tensor *source,
                                const char *what) {
  TIDE_TRY(check_source(x, source, what));
  bool same = line_ndim(x) == line_ndim(source);
  for (int d = 0; d < line_ndim(x) && same; d++)
    same = line_size(source, d) == (d == dim ? index->numel : line_size(x, d));
  if (same) return TIDE_OK;
  return tide__fail(TIDE_SHAPE,
                    "%s: wrong shape of the source, got %s, expected that of x, %s, with %lld along dim %lld", what,
                    tide__shape_text(source->size, source->ndim), tide__shape_text(x->size, x->ndim),
                    (long long)index->numel, (long long)tide__shown(dim));
}

static tide_status run_slices(const tide_tensor *target, int dim, const tide_tensor *index, const tide_tensor *dense,
                              tide_index_reduce reduce) {
  tide__index_space s;
  tide__index_along(&s, target, dim);
  s.ndim = line_ndim(target);
  for (int d = 0; d < s.ndim; d++) {
    bool along = d == dim;
    s.size[d] = along ? index->numel : target->size[d];
    s.stride[0][d] = dense->ndim ? dense->stride[d] : 0;
    s.stride[1][d] = along ? 0 : target->stride[d];
    s.stride[2][d] = along ? line_stride(index, 0) : 0;
  }
  tide__index_mode m = {.scatter = true, .reduce = reduce, .base = tide_get_index_base()};
  return tide__index_run(&m, target, dense, index, &s);
}

/* `dense` has been checked; it may share memory with x. */
static tide_status slices(tide_tensor **out, const tide_tensor *x, int dim, const tide_tensor *index,
                          const tide_tensor *dense, tide_index_reduce reduce, tide_tensor *into, const char *what) {
  TIDE_OWNED tide_tensor *places = NULL, *read = NULL;
  tide_tensor *target;
  TIDE_TRY(tide__index_tensor(&places, x, index, into == x ? x : NULL, what));
  TIDE_TRY(tide__written_begin(&target, x, into, tide__index_wide(x, dense->numel, index->numel, reduce)));
  tide_status status = apart(&read, dense, target);
  if (status == TIDE_OK) status = run_slices(target, dim, places, read, reduce);
  return tide__written_end(out, target, x, into, status, what);
}

static tide_status slices_check(tide_tensor **out, const tide_tensor *x, int *dim, const tide_tensor *index,
                                const tide_tensor *into, const char *what) {
  TIDE_TRY(tide__out_check(out, (tide_tensor *)into, what));
  TIDE_TRY(tide__check(x, what, "x"));
  TIDE_TRY(tide__check(index, what, "the index"));
  TIDE_TRY(tide__written_check(x, into, what));
  TIDE_TRY(tide__dim_check(dim, *dim, x->ndim, what));
  return check_line(index, what);
}

tide_status tide_index_add(tide_tensor **out, const tide_tensor *x, int dim, const tide_tensor *index,
                           const tide_tensor *source, tide_scalar alpha, tide_tensor *into) {
  static const char *what = "index_add";
  bool one = alpha.kind == 'F' || alpha.kind == 'C' ? alpha.re == 1 && alpha.im == 0 : alpha.i == 1;
  TIDE_OWNED tide_tensor *scaled = NULL;
  TIDE_TRY(slices_check(out, x, &dim, index, into, what));
  TIDE_TRY(check_slices(x, dim, index, source, what));
  int category = tide__category(x->dtype);
  if (tide__scalar_category(alpha.kind) > (category ? category : 1) && !one)
    return tide__fail(TIDE_DTYPE, "%s: wrong alpha, got a number of another kind, expected one that %s can hold", what,
                      tide_dtype_name((tide_dtype)x->dtype));
  if (one) return slices(out, x, dim, index, source, TIDE_INDEX_SUM, into, what);
  if (category == 0) alpha = tide_bool(alpha.i != 0);
  tide_operand in[2] = {{.tensor = source}, {.number = alpha}};
  TIDE_TRY(tide_elementwise(&scaled, TIDE_OP_mul, in, NULL, NULL));
  return slices(out, x, dim, index, scaled, TIDE_INDEX_SUM, into, what);
}

tide_status tide_index_copy(tide_tensor **out, const tide_tensor *x, int dim, const tide_tensor *index,
                            const tide_tensor *source, tide_tensor *into) {
  TIDE_TRY(slices_check(out, x, &dim, index, into, "index_copy"));
  TIDE_TRY(check_slices(x, dim, index, source, "index_copy"));
  return slices(out, x, dim, index, source, TIDE_INDEX_WRITE, into, "index_copy");
}

tide_status tide_index_fill(tide_tensor **out, const tide_tensor *x, int dim, const tide_tensor *index,
                            const tide_operand *value, tide_tensor *into) {
  TIDE_GIVEN("index_fill", value);
  static const char *what = "index_fill";
  TIDE_OWNED tide_tensor *one = NULL;
  TIDE_TRY(slices_check(out, x, &dim, index, into, what));
  if (value->tensor && value->tensor->ndim)
    return tide__fail(TIDE_SHAPE, "%s: wrong shape of the value, got %s, expected a number or a tensor without dims",
                      what, tide__shape_text(value->tensor->size, value->tensor->ndim));
  TIDE_TRY(tide__index_value(&one, x, value, what));
  return slices(out, x, dim, index, one, TIDE_INDEX_WRITE, into, what);
}

/* ---- one_hot ---- */

static tide_status largest(int64_t *out, const tide_tensor *index) {
  TIDE_OWNED tide_tensor *most = NULL;
  tide_scalar value = tide_int(0);
  if (index->numel == 0)
    return tide__fail(TIDE_VALUE, "one_hot: the index has no elements, expected the number of classes to be given");
  TIDE_TRY(tide_reduce(&most, TIDE_MAX, index, NULL, NULL));
  TIDE_TRY(tide_item(&value, most));
  *out = value.i - tide_get_index_base() + 1;
  return TIDE_OK;
}

tide_status tide_one_hot(tide_tensor **out, const tide_tensor *index, int64_t classes) {
  TIDE_GIVEN("one_hot", out);
  int64_t size[TIDE_MAX_DIMS];
  TIDE_OWNED tide_tensor *places = NULL, *made = NULL, *last = NULL;
  TIDE_TRY(tide__check(index, "one_hot", "the index"));
  if (index->ndim == TIDE_MAX_DIMS)
    return tide__fail(TIDE_SHAPE, "one_hot: too many dims, got %d, expected at most %d", index->ndim,
                      TIDE_MAX_DIMS - 1);
  if (classes < -1 || (classes == 0 && index->numel))
    return tide__fail(TIDE_VALUE, "one_hot: wrong number of classes, got %lld, expected at least 1",
                      (long long)classes);
  TIDE_TRY(tide__index_tensor(&places, index, index, NULL, "one_hot"));
  if (classes < 0) TIDE_TRY(largest(&classes, index));
  if (classes < 1 && index->numel)
    return tide__fail(TIDE_INDEX, "one_hot: the largest index is %lld, expected at least %d",
                      (long long)(classes - 1 + tide_get_index_base()), tide_get_index_base());
  memcpy(size, index->size, sizeof size);
  size[index->ndim] = classes;
  tide_options o = {TIDE_INT64, index->storage->device, false};
  TIDE_TRY(tide_full(&made, size, index->ndim + 1, tide_int(0), &o));
  TIDE_TRY(tide_unsqueeze(&last, places, places->ndim));
  if (index->numel) TIDE_TRY(scatter_number(made, index->ndim, last, tide_int(1), TIDE_INDEX_WRITE));
  return tide__owned_give(out, &made);
}
