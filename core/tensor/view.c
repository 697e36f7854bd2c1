/* view.c: new shapes over the same storage. Nothing is copied and no device is asked; tide_reshape and tide_flatten
 * alone may copy, where no strides can express the new shape.
 *
 * A view starts as a copy of x's shape and is then changed in place, which keeps every function here to a few stores:
 * views are made in inner loops of scripts.
 *
 * Invariant: every element of a view lies inside x's storage. Strides are never negative outside plans. */
#include "tensor.h"

/* A view of so many dims, whose sizes and strides are still to be set; tide__tensor_layout completes it. */
static inline tide_tensor *begin_bare(const tide_tensor *x, int ndim) {
  tide_tensor *v = tide__tensor_header();
  if (TIDE_UNLIKELY(!v)) return NULL;
  tide__storage_ref(x->storage);
  v->storage = x->storage;
  v->offset = x->offset;
  v->dtype = x->dtype;
  v->replay = x->replay;
  v->ndim = ndim;
  return v;
}

/* A view that is x itself, for the caller to change. */
static inline tide_tensor *begin(const tide_tensor *x) {
  tide_tensor *v = begin_bare(x, x->ndim);
  if (TIDE_UNLIKELY(!v)) return NULL;
  for (int d = 0; d < x->ndim; d++) v->size[d] = x->size[d], v->stride[d] = x->stride[d];
  return v;
}

static inline tide_status end(tide_tensor **out, tide_tensor *v) {
  tide__tensor_layout(v);
  *out = v;
  return TIDE_OK;
}

static void remove_dim(tide_tensor *v, int dim) {
  v->ndim--;
  for (int d = dim; d < v->ndim; d++) v->size[d] = v->size[d + 1], v->stride[d] = v->stride[d + 1];
}

/* ---- one dim ---- */

static tide_status fail_zero_dim(const char *what) {
  return tide__fail(TIDE_INDEX, "%s: x has no dimensions, got a 0-d tensor, expected at least one dim", what);
}

tide_status tide_select(tide_tensor **out, const tide_tensor *x, int dim, int64_t index) {
  TIDE_TRY(tide__unary_check(out, x, "select"));
  if (TIDE_UNLIKELY(x->ndim == 0)) return fail_zero_dim("select");
  TIDE_TRY(tide__dim_check(&dim, dim, x->ndim, "select"));
  int64_t size = x->size[dim];
  if (TIDE_UNLIKELY(index < -size || index >= size))
    return tide__fail(TIDE_INDEX,
                      "select: index out of range for dim %lld of size %lld, got %lld, expected %lld to %lld "
                      "or -%lld to -1",
                      (long long)tide__shown(dim), (long long)size, (long long)tide__shown(index),
                      (long long)tide__shown(0), (long long)(size - 1 + tide_get_index_base()), (long long)size);
  tide_tensor *v = begin_bare(x, x->ndim - 1);
  if (TIDE_UNLIKELY(!v)) return TIDE_MEMORY;
  if (TIDE_LIKELY(x->numel != 0)) v->offset += (index < 0 ? index + size : index) * x->stride[dim];
  for (int d = 0; d < v->ndim; d++) {
    int from = d + (d >= dim);
    v->size[d] = x->size[from], v->stride[d] = x->stride[from];
  }
  return end(out, v);
}

tide_status tide_narrow(tide_tensor **out, const tide_tensor *x, int dim, int64_t start, int64_t length) {
  TIDE_TRY(tide__unary_check(out, x, "narrow"));
  if (TIDE_UNLIKELY(x->ndim == 0)) return fail_zero_dim("narrow");
  TIDE_TRY(tide__dim_check(&dim, dim, x->ndim, "narrow"));
  int64_t size = x->size[dim], first = start < 0 ? start + size : start;
  if (TIDE_UNLIKELY(first < 0 || first > size || length < 0 || length > size - first))
    return tide__fail(TIDE_INDEX,
                      "narrow: range out of bounds of dim %lld, got start %lld and length %lld, expected a range "
                      "inside size %lld",
                      (long long)tide__shown(dim), (long long)tide__shown(start), (long long)length, (long long)size);
  tide_tensor *v = begin(x);
  if (TIDE_UNLIKELY(!v)) return TIDE_MEMORY;
  if (length && x->numel) v->offset += first * x->stride[dim];
  v->size[dim] = length;
  return end(out, v);
}

tide_status tide_slice(tide_tensor **out, const tide_tensor *x, int dim, int64_t first, int64_t last, int64_t step) {
  TIDE_TRY(tide__unary_check(out, x, "slice"));
  if (TIDE_UNLIKELY(x->ndim == 0)) return fail_zero_dim("slice");
  TIDE_TRY(tide__dim_check(&dim, dim, x->ndim, "slice"));
  if (TIDE_UNLIKELY(step < 1))
    return tide__fail(TIDE_VALUE, "slice: wrong step, got %lld, expected at least 1", (long long)step);
  int64_t size = x->size[dim], from = first < 0 ? first + size : first, to = last < 0 ? last + size : last;
  bool empty = to == from - 1 && from >= 0 && from <= size;
  bool in_range = empty || (from >= 0 && to >= from && to < size);
  if (TIDE_UNLIKELY(!in_range))
    return tide__fail(TIDE_INDEX,
                      "slice: range out of bounds of dim %lld, got %lld to %lld, expected a range inside size "
                      "%lld",
                      (long long)tide__shown(dim), (long long)tide__shown(first), (long long)tide__shown(last),
                      (long long)size);
  tide_tensor *v = begin(x);
  if (TIDE_UNLIKELY(!v)) return TIDE_MEMORY;
  int64_t length = to - from + 1;
  if (length && x->numel) v->offset += from * x->stride[dim];
  v->size[dim] = length / step + (length % step != 0);
  v->stride[dim] = tide__size_mul(x->stride[dim], step);
  return end(out, v);
}

tide_status tide_unfold(tide_tensor **out, const tide_tensor *x, int dim, int64_t size, int64_t step) {
  TIDE_TRY(tide__unary_check(out, x, "unfold"));
  TIDE_TRY(tide__dim_check(&dim, dim, x->ndim, "unfold"));
  if (x->ndim == TIDE_MAX_DIMS)
    return tide__fail(TIDE_SHAPE, "unfold: too many dims, got %d, expected less than %d", x->ndim, TIDE_MAX_DIMS);
  int64_t length = x->ndim ? x->size[dim] : 1, stride = x->ndim ? x->stride[dim] : 1;
  if (size < 0 || size > length || step < 1)
    return tide__fail(TIDE_VALUE,
                      "unfold: wrong window, got size %lld and step %lld, expected size 0 to %lld and step of at "
                      "least 1",
                      (long long)size, (long long)step, (long long)length);
  int64_t full[TIDE_MAX_DIMS], numel; /* windows overlap: together they may have more elements than any memory */
  memcpy(full, x->size, sizeof full);
  if (x->ndim) full[dim] = (length - size) / step + 1;
  full[x->ndim] = size;
  TIDE_TRY(tide__size_check(&numel, full, x->ndim + 1, (tide_dtype)x->dtype, "unfold"));
  tide_tensor *v = begin(x);
  if (!v) return TIDE_MEMORY;
  if (x->ndim) {
    v->size[dim] = full[dim];
    v->stride[dim] = tide__size_mul(stride, step);
  }
  tide__dim_insert(v, v->ndim, size, stride);
  return end(out, v);
}

/* ---- dims of size 1 ---- */

tide_status tide_squeeze(tide_tensor **out, const tide_tensor *x) {
  TIDE_TRY(tide__unary_check(out, x, "squeeze"));
  tide_tensor *v = begin(x);
  if (!v) return TIDE_MEMORY;
  int n = 0;
  for (int d = 0; d < x->ndim; d++)
    if (x->size[d] != 1) v->size[n] = x->size[d], v->stride[n++] = x->stride[d];
  v->ndim = n;
  return end(out, v);
}

tide_status tide_squeeze_dim(tide_tensor **out, const tide_tensor *x, int dim) {
  TIDE_GIVEN("squeeze_dim", out);
  TIDE_TRY(tide__check(x, "squeeze", "x"));
  TIDE_TRY(tide__dim_check(&dim, dim, x->ndim, "squeeze"));
  tide_tensor *v = begin(x);
  if (!v) return TIDE_MEMORY;
  if (x->ndim && x->size[dim] == 1) remove_dim(v, dim);
  return end(out, v);
}

tide_status tide_unsqueeze(tide_tensor **out, const tide_tensor *x, int dim) {
  TIDE_TRY(tide__unary_check(out, x, "unsqueeze"));
  TIDE_TRY(tide__dim_check(&dim, dim, x->ndim + 1, "unsqueeze"));
  if (x->ndim == TIDE_MAX_DIMS)
    return tide__fail(TIDE_SHAPE, "unsqueeze: too many dims, got %d, expected less than %d", x->ndim, TIDE_MAX_DIMS);
  tide_tensor *v = begin(x);
  if (!v) return TIDE_MEMORY;
  tide__dim_insert(v, dim, 1, dim < x->ndim ? tide__size_mul(x->size[dim], x->stride[dim]) : 1);
  return end(out, v);
}

/* ---- order of dims ---- */

tide_status tide_transpose(tide_tensor **out, const tide_tensor *x, int d1, int d2) {
  TIDE_TRY(tide__unary_check(out, x, "transpose"));
  TIDE_TRY(tide__dim_check(&d1, d1, x->ndim, "transpose"));
  TIDE_TRY(tide__dim_check(&d2, d2, x->ndim, "transpose"));
  tide_tensor *v = begin(x);
  if (TIDE_UNLIKELY(!v)) return TIDE_MEMORY;
  if (x->ndim) tide__dims_swap(v, d1, d2);
  return end(out, v);
}

tide_status tide_permute(tide_tensor **out, const tide_tensor *x, const int *dims, int n) {
  TIDE_GIVEN("permute", out);
  TIDE_LIST("permute", dims, n);
  TIDE_TRY(tide__check(x, "permute", "x"));
  if (n != x->ndim) return tide__fail(TIDE_ARGUMENT, "permute: wrong number of dims, got %d, expected %d", n, x->ndim);
  int order[TIDE_MAX_DIMS];
  unsigned seen = 0;
  for (int i = 0; i < n; i++) {
    TIDE_TRY(tide__dim_check(&order[i], dims[i], x->ndim, "permute"));
    if (seen & 1u << order[i])
      return tide__fail(TIDE_ARGUMENT, "permute: dim %lld is given twice, expected every dim once",
                        (long long)tide__shown(order[i]));
    seen |= 1u << order[i];
  }
  tide_tensor *v = begin(x);
  if (!v) return TIDE_MEMORY;
  for (int i = 0; i < n; i++) v->size[i] = x->size[order[i]], v->stride[i] = x->stride[order[i]];
  return end(out, v);
}

tide_status tide_movedim(tide_tensor **out, const tide_tensor *x, const int *src, const int *dst, int n) {
  TIDE_LIST("movedim", dst, n);
  TIDE_GIVEN("movedim", out);
  TIDE_LIST("movedim", src, n);
  TIDE_TRY(tide__check(x, "movedim", "x"));
  int order[TIDE_MAX_DIMS], from, to, next = 0;
  unsigned moved = 0, filled = 0;
  for (int i = 0; i < n; i++) {
    TIDE_TRY(tide__dim_check(&from, src[i], x->ndim, "movedim"));
    TIDE_TRY(tide__dim_check(&to, dst[i], x->ndim, "movedim"));
    if ((moved & 1u << from) || (filled & 1u << to))
      return tide__fail(TIDE_ARGUMENT, "movedim: dim %lld is given twice, expected every dim at most once",
                        (long long)tide__shown(moved & 1u << from ? from : to));
    moved |= 1u << from, filled |= 1u << to;
    order[to] = from;
  }
  if (x->ndim == 0) return tide_permute(out, x, NULL, 0);
  for (int d = 0; d < x->ndim; d++) {
    if (filled & 1u << d) continue;
    while (moved & 1u << next) next++;
    order[d] = next++;
  }
  return tide_permute(out, x, order, x->ndim);
}

tide_status tide_diagonal(tide_tensor **out, const tide_tensor *x, int64_t offset, int d1, int d2) {
  TIDE_TRY(tide__unary_check(out, x, "diagonal"));
  TIDE_TRY(tide__dim_check(&d1, d1, x->ndim, "diagonal"));
  TIDE_TRY(tide__dim_check(&d2, d2, x->ndim, "diagonal"));
  if (d1 == d2)
    return tide__fail(TIDE_ARGUMENT, "diagonal: both dims are %lld, expected two different ones",
                      (long long)tide__shown(d1));
  int64_t rows = x->size[d1], columns = x->size[d2];
  int64_t skip_rows = offset < 0 ? (offset < -rows ? rows : -offset) : 0,
          skip_columns = offset > columns ? columns : offset;
  if (skip_columns < 0) skip_columns = 0;
  int64_t length = rows - skip_rows < columns - skip_columns ? rows - skip_rows : columns - skip_columns;
  tide_tensor *v = begin(x);
  if (!v) return TIDE_MEMORY;
  if (length > 0 && x->numel) v->offset += skip_rows * x->stride[d1] + skip_columns * x->stride[d2];
  remove_dim(v, d1 > d2 ? d1 : d2);
  remove_dim(v, d1 > d2 ? d2 : d1);
  tide__dim_insert(v, v->ndim, length, tide__size_add(x->stride[d1], x->stride[d2]));
  return end(out, v);
}

/* ---- repeated elements ---- */

tide_status tide_expand(tide_tensor **out, const tide_tensor *x, const int64_t *size, int ndim) {
  TIDE_GIVEN("expand", out);
  TIDE_LIST("expand", size, ndim);
  TIDE_TRY(tide__check(x, "expand", "x"));
  int64_t full[TIDE_MAX_DIMS], numel;
  int pad = ndim - x->ndim;
  bool fits = pad >= 0 && ndim <= TIDE_MAX_DIMS;
  for (int d = 0; fits && d < ndim; d++) {
    full[d] = size[d] == -1 && d >= pad ? x->size[d - pad] : size[d];
    fits = full[d] >= 0 && (d < pad || x->size[d - pad] == full[d] || x->size[d - pad] == 1);
  }
  if (!fits)
    return tide__fail(TIDE_SHAPE, "expand: x does not expand, got %s to %s, expected equal sizes or 1 in x",
                      tide__shape_text(x->size, x->ndim),
                      ndim <= TIDE_MAX_DIMS ? tide__shape_text(size, ndim) : "too many dims");
  TIDE_TRY(tide__size_check(&numel, full, ndim, (tide_dtype)x->dtype, "expand"));
  int64_t stride[TIDE_MAX_DIMS];
  tide__stride_broadcast(stride, x, full, ndim);
  return tide__tensor_view(out, x, full, stride, ndim, x->offset);
}

/* ---- other shapes of the same elements ---- */

/* Replaces the one -1 in size by what the number of elements leaves over. */
static tide_status infer_size(int64_t *full, const tide_tensor *x, const int64_t *size, int ndim, const char *what) {
  if (ndim < 0 || ndim > TIDE_MAX_DIMS)
    return tide__fail(TIDE_SHAPE, "%s: wrong number of dims, got %d, expected at most %d", what, ndim, TIDE_MAX_DIMS);
  int64_t known = 1;
  int open = -1;
  bool fits = true;
  for (int d = 0; d < ndim; d++) {
    full[d] = size[d];
    if (size[d] == -1 && open < 0) {
      open = d;
      continue;
    }
    fits &= size[d] >= 0;
    known = tide__size_mul(known, size[d]);
  }
  if (fits && open >= 0) {
    if (known == 0)
      return tide__fail(TIDE_SHAPE, "%s: the size for -1 is not determined, got %s beside a size of 0", what,
                        tide__shape_text(size, ndim));
    full[open] = x->numel / known;
    known *= full[open];
  }
  if (fits && known == x->numel) return TIDE_OK;
  return tide__fail(TIDE_SHAPE, "%s: sizes do not fit, got %s for a tensor of %lld elements (%s), expected as many",
                    what, tide__shape_text(size, ndim), (long long)x->numel, tide__shape_text(x->size, x->ndim));
}

/* Strides of x in another shape of as many elements; false if there are none. Runs of x's dims that lie in memory like
 * one dim are cut up anew; a new dim may not cross from one run into the next. */
static bool view_stride(int64_t *stride, const tide_tensor *x, const int64_t *size, int ndim) {
  if (x->numel == 0 || x->contiguous) {
    tide__stride_contiguous(stride, size, ndim);
    return true;
  }
  int next = ndim - 1;
  int64_t step = x->stride[x->ndim - 1], run = 1, made = 1;
  for (int d = x->ndim - 1; d >= 0; d--) {
    run *= x->size[d];
    bool run_ends = d == 0 || (x->size[d - 1] != 1 && x->stride[d - 1] != run * step);
    if (!run_ends) continue;
    while (next >= 0 && (made < run || size[next] == 1)) {
      stride[next] = made * step;
      made *= size[next--];
    }
    if (made != run) return false;
    if (d > 0) step = x->stride[d - 1], run = made = 1;
  }
  return next < 0;
}

/* Are these sizes written out, without -1, and of as many elements as x has? None of them is 0 then. */
static bool fits_plainly(const tide_tensor *x, const int64_t *size, int ndim) {
  int64_t n = 1;
  if (ndim < 0 || ndim > TIDE_MAX_DIMS) return false;
  for (int d = 0; d < ndim; d++) {
    if (size[d] < 1) return false;
    n = tide__size_mul(n, size[d]);
  }
  return n == x->numel;
}

tide_status tide_view(tide_tensor **out, const tide_tensor *x, const int64_t *size, int ndim) {
  TIDE_GIVEN("view", out);
  TIDE_LIST("view", size, ndim);
  TIDE_TRY(tide__check(x, "view", "x"));
  if (x->contiguous && fits_plainly(x, size, ndim)) {
    tide_tensor *v = begin_bare(x, ndim);
    if (TIDE_UNLIKELY(!v)) return TIDE_MEMORY;
    int64_t step = 1;
    for (int d = ndim - 1; d >= 0; step *= size[d--]) v->size[d] = size[d], v->stride[d] = step;
    v->numel = x->numel, v->contiguous = true;
    *out = v;
    return TIDE_OK;
  }
  int64_t full[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS];
  TIDE_TRY(infer_size(full, x, size, ndim, "view"));
  if (!view_stride(stride, x, full, ndim))
    return tide__fail(TIDE_SHAPE,
                      "view: no strides give this shape, got %s with strides %s to %s, expected a tensor whose "
                      "memory allows it: use reshape",
                      tide__shape_text(x->size, x->ndim), tide__shape_text(x->stride, x->ndim),
                      tide__shape_text(full, ndim));
  return tide__tensor_view(out, x, full, stride, ndim, x->offset);
}

static tide_status reshape(tide_tensor **out, const tide_tensor *x, const int64_t *size, int ndim, const char *what) {
  int64_t full[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS];
  TIDE_TRY(infer_size(full, x, size, ndim, what));
  if (view_stride(stride, x, full, ndim)) return tide__tensor_view(out, x, full, stride, ndim, x->offset);
  TIDE_OWNED tide_tensor *copy = NULL;
  TIDE_TRY(tide__as_contiguous(&copy, x, (tide_dtype)x->dtype));
  tide__stride_contiguous(stride, full, ndim);
  return tide__tensor_view(out, copy, full, stride, ndim, 0);
}

tide_status tide_reshape(tide_tensor **out, const tide_tensor *x, const int64_t *size, int ndim) {
  TIDE_GIVEN("reshape", out);
  TIDE_LIST("reshape", size, ndim);
  TIDE_TRY(tide__check(x, "reshape", "x"));
  return reshape(out, x, size, ndim, "reshape");
}

tide_status tide_flatten(tide_tensor **out, const tide_tensor *x, int start, int stop) {
  TIDE_TRY(tide__unary_check(out, x, "flatten"));
  TIDE_TRY(tide__dim_check(&start, start, x->ndim, "flatten"));
  TIDE_TRY(tide__dim_check(&stop, stop, x->ndim, "flatten"));
  if (start > stop)
    return tide__fail(TIDE_ARGUMENT,
                      "flatten: the first dim comes after the last, got %lld and %lld, expected them in order",
                      (long long)tide__shown(start), (long long)tide__shown(stop));
  int64_t size[TIDE_MAX_DIMS] = {1};
  int n = 0;
  for (int d = 0; d < x->ndim; d++) {
    if (d > start && d <= stop)
      size[n - 1] = tide__size_mul(size[n - 1], x->size[d]);
    else
      size[n++] = x->size[d];
  }
  int64_t numel;
  TIDE_TRY(tide__size_check(&numel, size, n, (tide_dtype)x->dtype, "flatten"));
  return reshape(out, x, size, n ? n : 1, "flatten");
}

tide_status tide_unflatten(tide_tensor **out, const tide_tensor *x, int dim, const int64_t *size, int n) {
  TIDE_GIVEN("unflatten", out);
  TIDE_LIST("unflatten", size, n);
  TIDE_TRY(tide__check(x, "unflatten", "x"));
  if (x->ndim == 0) return fail_zero_dim("unflatten");
  TIDE_TRY(tide__dim_check(&dim, dim, x->ndim, "unflatten"));
  if (n < 1 || n > TIDE_MAX_DIMS - x->ndim + 1)
    return tide__fail(TIDE_SHAPE, "unflatten: wrong number of sizes, got %d, expected 1 to %d", n,
                      TIDE_MAX_DIMS - x->ndim + 1);
  /* The sizes are checked against this dim alone, then stand in its place. */
  tide_tensor one = {.numel = x->size[dim], .ndim = 1, .size = {x->size[dim]}};
  int64_t part[TIDE_MAX_DIMS], stride = x->stride[dim];
  TIDE_TRY(infer_size(part, &one, size, n, "unflatten"));
  tide_tensor *v = begin(x);
  if (!v) return TIDE_MEMORY;
  remove_dim(v, dim);
  for (int i = n - 1; i >= 0; i--) {
    tide__dim_insert(v, dim, part[i], stride);
    stride = tide__size_mul(stride, part[i]);
  }
  return end(out, v);
}

/* ---- the storage under other eyes ---- */

tide_status tide_as_strided(tide_tensor **out, const tide_tensor *x, const int64_t *size, const int64_t *stride,
                            int ndim, int64_t offset) {
  TIDE_GIVEN("as_strided", out);
  TIDE_LIST("as_strided", stride, ndim);
  TIDE_LIST("as_strided", size, ndim);
  TIDE_TRY(tide__check(x, "as_strided", "x"));
  int64_t numel, reach = offset;
  TIDE_TRY(tide__size_check(&numel, size, ndim, (tide_dtype)x->dtype, "as_strided"));
  int64_t elements = (int64_t)x->storage->nbytes / tide__itemsize(x->dtype);
  /* What is empty may begin anywhere, as a row of an empty tensor with strides does. */
  bool fits = offset >= 0 && offset <= (numel ? elements : INT64_MAX / 16);
  for (int d = 0; d < ndim && fits; d++) {
    if (stride[d] < 0)
      return tide__fail(TIDE_VALUE, "as_strided: negative stride, got %s, expected strides of at least 0",
                        tide__shape_text(stride, ndim));
    if (numel) reach = tide__size_add(reach, tide__size_mul(size[d] - 1, stride[d]));
  }
  if (!fits || (numel && reach >= elements))
    return tide__fail(TIDE_INDEX,
                      "as_strided: outside of the storage, got size %s, strides %s and offset %lld, expected to "
                      "stay inside %lld elements",
                      tide__shape_text(size, ndim), tide__shape_text(stride, ndim), (long long)offset,
                      (long long)elements);
  return tide__tensor_view(out, x, size, stride, ndim, offset);
}

/* Each element of x becomes `ratio` smaller ones. */
static tide_status view_smaller(tide_tensor **out, const tide_tensor *x, tide_dtype dtype, int64_t ratio) {
  int last = x->ndim - 1;
  if (last < 0 || (x->stride[last] != 1 && x->size[last] > 1))
    return tide__fail(TIDE_SHAPE, "view_dtype: the last dim is not contiguous, got strides %s, expected 1 at the end",
                      tide__shape_text(x->stride, x->ndim));
  int64_t full[TIDE_MAX_DIMS], numel;
  memcpy(full, x->size, sizeof full);
  full[last] = tide__size_mul(full[last], ratio);
  TIDE_TRY(tide__size_check(&numel, full, x->ndim, dtype, "view_dtype"));
  tide_tensor *v = begin(x);
  if (!v) return TIDE_MEMORY;
  v->dtype = (uint8_t)dtype;
  v->offset *= ratio;
  for (int d = 0; d < last; d++) v->stride[d] = tide__size_mul(v->stride[d], ratio);
  v->size[last] = full[last];
  v->stride[last] = 1;
  return end(out, v);
}

/* `ratio` elements of x become one. */
static tide_status view_larger(tide_tensor **out, const tide_tensor *x, tide_dtype dtype, int64_t ratio) {
  int last = x->ndim - 1;
  bool fits = last >= 0 && x->stride[last] == 1 && x->size[last] % ratio == 0 && x->offset % ratio == 0;
  for (int d = 0; d < last; d++) fits = fits && (x->stride[d] % ratio == 0 || x->size[d] == 1);
  if (!fits)
    return tide__fail(TIDE_SHAPE,
                      "view_dtype: shape, strides and offset are not multiples of the new element, got %s with "
                      "strides %s and offset %lld, expected multiples of %lld and a contiguous last dim, as "
                      "a contiguous copy of whole elements has",
                      tide__shape_text(x->size, x->ndim), tide__shape_text(x->stride, x->ndim), (long long)x->offset,
                      (long long)ratio);
  tide_tensor *v = begin(x);
  if (!v) return TIDE_MEMORY;
  v->dtype = (uint8_t)dtype;
  v->offset /= ratio;
  for (int d = 0; d < last; d++) v->stride[d] /= ratio;
  v->size[last] /= ratio;
  return end(out, v);
}

tide_status tide_view_dtype(tide_tensor **out, const tide_tensor *x, tide_dtype dtype) {
  TIDE_TRY(tide__unary_check(out, x, "view_dtype"));
  if ((unsigned)dtype >= TIDE_DTYPE_COUNT)
    return tide__fail(TIDE_ARGUMENT, "view_dtype: unknown dtype, got %d, expected 0 to %d", (int)dtype,
                      TIDE_DTYPE_COUNT - 1);
  int64_t from = tide__itemsize(x->dtype), to = tide__itemsize(dtype);
  if (from > to) return view_smaller(out, x, dtype, from / to);
  if (from < to) return view_larger(out, x, dtype, to / from);
  tide_tensor *v = begin(x);
  if (!v) return TIDE_MEMORY;
  v->dtype = (uint8_t)dtype;
  return end(out, v);
}

static tide_dtype real_dtype(int dtype) { return dtype == TIDE_COMPLEX64 ? TIDE_FLOAT32 : TIDE_FLOAT64; }

static tide_status complex_check(const tide_tensor *x, const char *what) {
  TIDE_TRY(tide__check(x, what, "x"));
  return tide__category(x->dtype) == 3 ? TIDE_OK : tide__fail_dtype(what, x->dtype, "a complex dtype");
}

/* The real (part 0) or imaginary (part 1) numbers of a complex tensor. */
static tide_tensor *complex_part(const tide_tensor *x, int part) {
  tide_tensor *v = begin(x);
  if (!v) return NULL;
  v->dtype = (uint8_t)real_dtype(x->dtype);
  v->offset = 2 * x->offset + part;
  for (int d = 0; d < x->ndim; d++) v->stride[d] = tide__size_mul(v->stride[d], 2);
  return v;
}

tide_status tide_view_as_real(tide_tensor **out, const tide_tensor *x) {
  TIDE_GIVEN("view_as_real", out);
  TIDE_TRY(complex_check(x, "view_as_real"));
  if (x->ndim == TIDE_MAX_DIMS)
    return tide__fail(TIDE_SHAPE, "view_as_real: too many dims, got %d, expected less than %d", x->ndim, TIDE_MAX_DIMS);
  tide_tensor *v = complex_part(x, 0);
  if (!v) return TIDE_MEMORY;
  tide__dim_insert(v, v->ndim, 2, 1);
  return end(out, v);
}

tide_status tide_view_as_complex(tide_tensor **out, const tide_tensor *x) {
  TIDE_TRY(tide__unary_check(out, x, "view_as_complex"));
  if (x->dtype != TIDE_FLOAT32 && x->dtype != TIDE_FLOAT64)
    return tide__fail_dtype("view_as_complex", x->dtype, "float32 or float64");
  int last = x->ndim - 1;
  bool fits = last >= 0 && x->size[last] == 2 && x->stride[last] == 1 && x->offset % 2 == 0;
  for (int d = 0; d < last; d++) fits = fits && (x->stride[d] % 2 == 0 || x->size[d] == 1);
  if (!fits)
    return tide__fail(TIDE_SHAPE,
                      "view_as_complex: wrong layout, got %s with strides %s and offset %lld, expected a last dim "
                      "of 2 with stride 1 and the others even",
                      tide__shape_text(x->size, x->ndim), tide__shape_text(x->stride, x->ndim), (long long)x->offset);
  tide_tensor *v = begin(x);
  if (!v) return TIDE_MEMORY;
  v->dtype = x->dtype == TIDE_FLOAT32 ? TIDE_COMPLEX64 : TIDE_COMPLEX128;
  v->offset /= 2;
  v->ndim = last;
  for (int d = 0; d < last; d++) v->stride[d] /= 2;
  return end(out, v);
}

tide_status tide_real(tide_tensor **out, const tide_tensor *x) {
  TIDE_TRY(tide__unary_check(out, x, "real"));
  tide_tensor *v = tide__category(x->dtype) == 3 ? complex_part(x, 0) : begin(x);
  return v ? end(out, v) : TIDE_MEMORY;
}

tide_status tide_imag(tide_tensor **out, const tide_tensor *x) {
  TIDE_GIVEN("imag", out);
  TIDE_TRY(complex_check(x, "imag"));
  tide_tensor *v = complex_part(x, 1);
  return v ? end(out, v) : TIDE_MEMORY;
}
