/* index_plan.c: from tensors to the one plan of all reads and writes by indexes, and what they write to.
 *
 * An operation says which dims are walked together and how far each of its three sides moves along them: an index that
 * is one dim of a slice has stride 0 in the others, a value that is one number has it everywhere, and the indexed side
 * has it along what the index counts.
 *
 * Invariant: dims along which several steps may meet in one element keep their order. */
#include "index.h"

#include "base/determinism.h"

void tide__index_along(tide__index_space *s, const tide_tensor *x, int dim) {
  s->length = x->ndim ? x->size[dim] : 1;
  s->pitch = x->ndim ? x->stride[dim] : 1;
  s->bins = TIDE_BINS_NONE;
  s->low = s->high = 0;
  s->edges = NULL;
}

static bool is_sum(tide_index_reduce reduce) { return reduce == TIDE_INDEX_SUM || reduce == TIDE_INDEX_PROD; }

/* Sums and products of floats come out differently in another order. Of 16-bit floats that meet the kernel keeps wide
 * ones only in order. */
static bool is_ordered(const tide__index_mode *m, int dtype, bool meets) {
  if (!m->scatter) return false;
  bool deterministic = tide__deterministic();
  if (m->reduce == TIDE_INDEX_WRITE) return deterministic;
  if (tide__category(dtype) < 2 || !is_sum(m->reduce)) return false;
  return deterministic || (meets && tide__itemsize(dtype) == 2);
}

tide_dtype tide__index_wide(const tide_tensor *x, int64_t values, int64_t meeting, tide_index_reduce reduce) {
  enum { SPARSE = 16, DENSE = 16 }; /* elements of x for a value, and values for an element */
  tide_dtype own = (tide_dtype)x->dtype;
  if (!is_sum(reduce) || meeting < 2) return own;
  switch (own) {
  case TIDE_FLOAT16:
  case TIDE_BFLOAT16: return x->numel / SPARSE <= values ? TIDE_FLOAT32 : own;
  case TIDE_FLOAT32: return x->numel <= values / DENSE ? TIDE_FLOAT64 : own;
  case TIDE_COMPLEX64: return x->numel <= values / DENSE ? TIDE_COMPLEX128 : own;
  default: return own;
  }
}

tide_status tide__index_run(const tide__index_mode *m, const tide_tensor *indexed, const tide_tensor *dense,
                            const tide_tensor *index, tide__index_space *s) {
  tide__queue q;
  tide_index_args a;
  int meets = 0;
  a.numel = tide__size_product(s->size, s->ndim);
  if (a.numel == 0) return TIDE_OK;
  if (s->length == 0)
    return tide__fail(TIDE_INDEX, "index: the indexed dim has size 0, got %lld index values, expected none",
                      (long long)index->numel);
  const tide_tensor *written = m->scatter ? indexed : dense, *read = m->scatter ? dense : indexed;
  TIDE_TRY(tide__operands(&a.head, &q, indexed->storage->device, 4,
                          (const tide_tensor *[]){written, read, index, s->edges}));
  a.item_size = (int32_t)tide__itemsize(indexed->dtype), a.dtype = indexed->dtype;
  a.index_dtype = index->dtype, a.index_base = m->base;
  a.located = m->located, a.reduce = (int32_t)m->reduce;
  a.narrow = dense->dtype == indexed->dtype ? 0 : dense->dtype;
  a.bins = s->bins, a.low = s->low, a.high = s->high;
  a.length = s->length, a.pitch = s->pitch;
  for (int d = 0; d < s->ndim; d++) meets += s->size[d] > 1 && s->stride[1][d] == 0;
  a.ordered = is_ordered(m, indexed->dtype, meets > 0);
  a.ndim = tide__collapse(s->size, s->stride, 3, s->ndim, m->scatter && meets > 1);
  memcpy(a.size, s->size, sizeof a.size);
  memcpy(a.stride, s->stride, sizeof a.stride);
  return m->scatter ? TIDE_LAUNCH(&q, scatter, &a, a.reduce) : TIDE_LAUNCH(&q, gather, &a, 0);
}

tide_status tide__index_tensor(tide_tensor **out, const tide_tensor *x, const tide_tensor *index,
                               const tide_tensor *written, const char *what) {
  TIDE_TRY(tide__check(index, what, "the index"));
  TIDE_TRY(tide__operand_device(x, "x", index, "the index", what));
  if (tide__category(index->dtype) != 1)
    return tide__fail(TIDE_DTYPE, "%s: wrong dtype of the index, got %s, expected integers", what,
                      tide_dtype_name((tide_dtype)index->dtype));
  if (index->dtype == TIDE_INT32 || index->dtype == TIDE_INT64)
    return written && tide__tensor_overlaps(written, index) ? tide_clone(out, index) : tide__index_same(out, index);
  return tide__as_dtype(out, index, TIDE_INT64);
}

/* ---- what is written ---- */

tide_status tide__written_check(const tide_tensor *x, const tide_tensor *into, const char *what) {
  if (!into) return TIDE_OK;
  TIDE_TRY(tide__check(into, what, "the destination"));
  TIDE_TRY(tide__writable_check(into, what, into == x ? "x" : "the destination"));
  if (into == x) return TIDE_OK;
  TIDE_TRY(tide__same_device(into, "the destination", x, "x", what));
  TIDE_TRY(tide__cast_expect(into, (tide_dtype)x->dtype, what));
  return tide__size_takes(into, x->size, x->ndim, into->storage == x->storage, what);
}

tide_status tide__written_begin(tide_tensor **target, const tide_tensor *x, const tide_tensor *into, tide_dtype dtype) {
  if (dtype != (tide_dtype)x->dtype) return tide__as_dtype(target, x, dtype);
  if (into != x) return tide_clone(target, x);
  *target = tide__tensor_ref(x);
  return TIDE_OK;
}

tide_status tide__written_end(tide_tensor **out, tide_tensor *target, const tide_tensor *x, tide_tensor *into,
                              tide_status status, const char *what) {
  if (status == TIDE_OK && into && into != x)
    status = tide__size_give(into, target->size, target->ndim, into->storage == x->storage, what);
  if (status == TIDE_OK && target->dtype != x->dtype && (!into || into->dtype != x->dtype)) {
    tide_tensor *rounded;
    status = tide__as_dtype(&rounded, target, (tide_dtype)x->dtype);
    if (status == TIDE_OK) tide_tensor_release(target), target = rounded;
  }
  if (status != TIDE_OK || target == x) tide_tensor_release(target);
  TIDE_TRY(status);
  return tide__deliver(out, target == x ? into : target, into, TIDE_OK);
}
