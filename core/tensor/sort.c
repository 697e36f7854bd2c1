/* sort.c: lines in order, the first of them, the kth one, and searching in what is in order.
 *
 * The dim goes behind all others and x is made contiguous there, so that a line's elements are neighbours; the results
 * go back where the dim was. A backend sees lines and nothing else.
 *
 * Invariant: the backend gets lines of at least one element, of a real dtype, and results that share nothing with
 * them. */
#include "tide/sort.h"

#include "tensor.h"

/* What is wanted of each line: `keep` elements in order from `first` on. */
typedef struct job {
  const char *what;
  int dim;
  bool descending, median, drops; /* drops: the dim goes */
  int64_t first, keep;
} job;

static tide_status check(job *j, tide_tensor **values, tide_tensor **indices, const tide_tensor *x) {
  TIDE_TRY(tide__check(x, j->what, "x"));
  if (!values && !indices)
    return tide__fail(TIDE_ARGUMENT, "%s: a place for a result is missing, got NULL, expected one", j->what);
  if (tide__category(x->dtype) == 3) return tide__fail_dtype(j->what, x->dtype, "a real dtype");
  return tide__dim_check(&j->dim, j->dim, x->ndim, j->what);
}

static int64_t length_of(const job *j, const tide_tensor *x) { return x->ndim ? x->size[j->dim] : 1; }

/* x with its dim behind the others, contiguous. */
static tide_status lines_of(tide_tensor **out, const job *j, const tide_tensor *x) {
  if (x->ndim < 2 || j->dim == x->ndim - 1) return tide__as_contiguous(out, x, (tide_dtype)x->dtype);
  TIDE_OWNED tide_tensor *moved = NULL;
  int last = x->ndim - 1;
  TIDE_TRY(tide_movedim(&moved, x, &j->dim, &last, 1));
  return tide__as_contiguous(out, moved, (tide_dtype)x->dtype);
}

/* The other way round: the result's last dim goes to the place of the dim, or goes. */
static tide_status give(tide_tensor **out, const job *j, tide_tensor *made, int ndim) {
  int last = made->ndim - 1;
  if (ndim == 0 || (j->drops && ndim > 0)) return tide_select(out, made, last, 0);
  if (j->dim == last) return *out = tide__tensor_ref(made), TIDE_OK;
  TIDE_OWNED tide_tensor *moved = NULL;
  TIDE_TRY(tide_movedim(&moved, made, &last, &j->dim, 1));
  return tide__as_contiguous(out, moved, (tide_dtype)made->dtype);
}

static tide_status launch(const job *j, const tide_tensor *in, const tide_tensor *values, const tide_tensor *indices) {
  tide__queue q;
  tide_sort_args a;
  TIDE_TRY(tide__operands(&a.head, &q, in->storage->device, 3, (const tide_tensor *[]){values, in, indices}));
  a.dtype = in->dtype, a.descending = j->descending, a.index_base = tide_get_index_base(), a.median = j->median;
  a.n = in->ndim ? in->size[in->ndim - 1] : 1, a.lines = in->numel / a.n;
  a.first = j->first, a.keep = j->keep;
  return TIDE_LAUNCH(&q, sort, &a, 0);
}

static tide_status run(job *j, tide_tensor **values, tide_tensor **indices, const tide_tensor *x) {
  TIDE_OWNED tide_tensor *in = NULL, *value = NULL, *place = NULL, *given = NULL;
  int64_t size[TIDE_MAX_DIMS];
  TIDE_TRY(lines_of(&in, j, x));
  int ndim = in->ndim ? in->ndim : 1;
  memcpy(size, in->size, sizeof size);
  size[ndim - 1] = j->keep;
  if (values) TIDE_TRY(tide__tensor_new(&value, size, ndim, (tide_dtype)x->dtype, x->storage->device));
  if (indices) TIDE_TRY(tide__tensor_new(&place, size, ndim, TIDE_INT64, x->storage->device));
  if (x->numel && j->keep) TIDE_TRY(launch(j, in, value, place));
  if (values) TIDE_TRY(give(&given, j, value, x->ndim));
  if (indices) TIDE_TRY(give(indices, j, place, x->ndim));
  return values ? tide__owned_give(values, &given) : TIDE_OK;
}

tide_status tide_sort(tide_tensor **values, tide_tensor **indices, const tide_tensor *x, int dim, bool descending) {
  job j = {.what = "sort", .dim = dim, .descending = descending};
  TIDE_TRY(check(&j, values, indices, x));
  j.keep = length_of(&j, x);
  return run(&j, values, indices, x);
}

tide_status tide_topk(tide_tensor **values, tide_tensor **indices, const tide_tensor *x, int64_t k, int dim,
                      bool largest) {
  job j = {.what = "topk", .dim = dim, .descending = largest, .keep = k};
  TIDE_TRY(check(&j, values, indices, x));
  if (k < 0 || k > length_of(&j, x))
    return tide__fail(TIDE_VALUE, "topk: k does not fit, got %lld, expected 0 to %lld", (long long)k,
                      (long long)length_of(&j, x));
  if (x->ndim == 0 && k == 0)
    return tide__fail(TIDE_VALUE, "topk: k does not fit, got 0 of a tensor without dims, expected 1");
  /* NaN is the largest, and the first of equals comes first, in both. */
  if (k == 1 && largest && values && indices && x->ndim > 0 && x->storage->device == TIDE_CPU)
    return tide_reduce_index(values, indices, TIDE_MAX, x, dim, true);
  return run(&j, values, indices, x);
}

tide_status tide_kthvalue(tide_tensor **values, tide_tensor **indices, const tide_tensor *x, int64_t k, int dim,
                          bool keepdim) {
  job j = {.what = "kthvalue", .dim = dim, .drops = !keepdim, .keep = 1};
  TIDE_TRY(check(&j, values, indices, x));
  if (k < 1 || k > length_of(&j, x))
    return tide__fail(TIDE_VALUE, "kthvalue: k does not fit, got %lld, expected 1 to %lld", (long long)k,
                      (long long)length_of(&j, x));
  j.first = k - 1;
  return run(&j, values, indices, x);
}

tide_status tide_median(tide_tensor **values, tide_tensor **indices, const tide_tensor *x, int dim, bool keepdim) {
  job j = {.what = "median", .dim = dim, .drops = !keepdim, .median = true, .keep = 1};
  TIDE_TRY(check(&j, values, indices, x));
  if (length_of(&j, x) == 0)
    return tide__fail(TIDE_SHAPE,
                      "median: nothing along dim %lld, got a tensor of size %s, expected at least one "
                      "element there",
                      (long long)tide__shown(j.dim), tide__shape_text(x->size, x->ndim));
  j.first = (length_of(&j, x) - 1) / 2;
  return run(&j, values, indices, x);
}

/* ---- searching ---- */

static tide_status check_search(const tide_tensor *sorted, const tide_tensor *x, const tide_tensor *sorter) {
  static const char *what = "searchsorted";
  TIDE_TRY(tide__check(sorted, what, "sorted"));
  TIDE_TRY(tide__check(x, what, "x"));
  TIDE_TRY(tide__operand_device(x, "x", sorted, "sorted", what));
  if (tide__category(x->dtype) == 3 || x->dtype != sorted->dtype)
    return tide__fail(TIDE_DTYPE, "%s: wrong dtypes, got sorted %s and x %s, expected one real dtype", what,
                      tide_dtype_name((tide_dtype)sorted->dtype), tide_dtype_name((tide_dtype)x->dtype));
  bool fits = sorted->ndim == 1 || (sorted->ndim == x->ndim && sorted->ndim > 0);
  for (int d = 0; fits && d + 1 < sorted->ndim; d++) fits = sorted->size[d] == x->size[d];
  if (!fits)
    return tide__fail(TIDE_SHAPE,
                      "%s: wrong shape of sorted, got %s, expected one dim, or the dims of x, %s, but for "
                      "the last",
                      what, tide__shape_text(sorted->size, sorted->ndim), tide__shape_text(x->size, x->ndim));
  if (!sorter) return TIDE_OK;
  TIDE_TRY(tide__check(sorter, what, "the sorter"));
  TIDE_TRY(tide__operand_device(x, "x", sorter, "the sorter", what));
  if (sorter->dtype != TIDE_INT64)
    return tide__fail(TIDE_DTYPE, "%s: wrong dtype of the sorter, got %s, expected int64", what,
                      tide_dtype_name((tide_dtype)sorter->dtype));
  return tide__size_expect(sorter, sorted->size, sorted->ndim, what, "the sorter");
}

static tide_status launch_search(const tide_tensor *out, const tide_tensor *sorted, const tide_tensor *x,
                                 const tide_tensor *sorter, bool right) {
  tide__queue q;
  tide_search_args a;
  TIDE_TRY(tide__operands(&a.head, &q, x->storage->device, 4, (const tide_tensor *[]){out, sorted, x, sorter}));
  a.dtype = x->dtype, a.index_base = tide_get_index_base(), a.right = right, a.one_line = sorted->ndim == 1;
  a.n = sorted->size[sorted->ndim - 1], a.m = a.one_line ? x->numel : x->size[x->ndim - 1], a.lines = x->numel / a.m;
  return TIDE_LAUNCH(&q, search, &a, 0);
}

tide_status tide_searchsorted(tide_tensor **out, const tide_tensor *sorted, const tide_tensor *x, bool right,
                              const tide_tensor *sorter) {
  TIDE_TRY(tide__out_check(out, NULL, "searchsorted"));
  TIDE_TRY(check_search(sorted, x, sorter));
  TIDE_OWNED tide_tensor *lines = NULL, *values = NULL, *order = NULL, *made = NULL;
  TIDE_TRY(tide__as_contiguous(&lines, sorted, (tide_dtype)sorted->dtype));
  TIDE_TRY(tide__as_contiguous(&values, x, (tide_dtype)x->dtype));
  if (sorter) TIDE_TRY(tide__as_contiguous(&order, sorter, TIDE_INT64));
  TIDE_TRY(tide__tensor_new(&made, x->size, x->ndim, TIDE_INT64, x->storage->device));
  if (x->numel)
    TIDE_TRY(sorted->size[sorted->ndim - 1] == 0 ? tide_fill(made, tide_int(tide_get_index_base()))
                                                 : launch_search(made, lines, values, order, right));
  return tide__owned_give(out, &made);
}
