/* index_many.c: reading and writing by several index tensors at once, which name elements one by one.
 *
 * The tensors broadcast together. A kernel for each turns their values into positions along one dim that stands for all
 * the indexed ones: it has a stride that divides theirs, and elements of its own that are never named lie in between.
 * What then remains is a gather or scatter along that dim. Masks become tensors of positions first.
 *
 * Invariant: only positions that were checked, or INT64_MIN in the place of bad ones, reach the gather or scatter. */
#include "index.h"

typedef struct many {
  const tide_tensor *x;
  tide_tensor *index[TIDE_MAX_DIMS]; /* of each dim of x, or NULL; references of our own */
  int dims;                          /* that entries were given for */
  int at;                            /* where the indexes' dims go, among the dims that remain */
  int64_t size[TIDE_MAX_DIMS];       /* of the broadcast indexes */
  int ndim;
  tide_tensor line;       /* x with one dim in place of the indexed ones; on the stack */
  tide_tensor *positions; /* along line's dim `at` */
} many;

static void many_end(many *m) {
  for (int d = 0; d < m->dims; d++) tide_tensor_release(m->index[d]);
  tide_tensor_release(m->positions);
}
#define MANY __attribute__((cleanup(many_end))) many

static tide_status check_room(const many *m, int more, const char *what) {
  if (m->dims + more <= m->x->ndim) return TIDE_OK;
  return tide__fail(TIDE_INDEX, "%s: too many indexes, got entries for %d dims, expected at most %d as the tensor has",
                    what, m->dims + more, m->x->ndim);
}

/* A mask takes as many dims as it has: a tensor of positions for each. Synchronises. */
static tide_status add_mask(many *m, const tide_tensor *mask, const char *what) {
  TIDE_OWNED tide_tensor *places = NULL;
  TIDE_TRY(check_room(m, mask->ndim, what));
  if (mask->ndim == 0 || memcmp(mask->size, m->x->size + m->dims, (size_t)mask->ndim * sizeof *mask->size) != 0)
    return tide__fail(TIDE_SHAPE, "%s: wrong shape of a mask, got %s, expected the sizes from dim %lld on of %s", what,
                      tide__shape_text(mask->size, mask->ndim), (long long)tide__shown(m->dims),
                      tide__shape_text(m->x->size, m->x->ndim));
  TIDE_TRY(tide_nonzero(&places, mask));
  for (int d = 0; d < mask->ndim; d++, m->dims++) TIDE_TRY(tide_select(&m->index[m->dims], places, 1, d));
  return TIDE_OK;
}

static tide_status add(many *m, tide_tensor *index, const char *what) {
  if (!index) {
    TIDE_TRY(check_room(m, 1, what));
    m->index[m->dims++] = NULL;
    return TIDE_OK;
  }
  TIDE_TRY(tide__check(index, what, "an index"));
  TIDE_TRY(tide__operand_device(m->x, "x", index, "an index", what));
  if (index->dtype == TIDE_BOOL) return add_mask(m, index, what);
  TIDE_TRY(check_room(m, 1, what));
  if (tide__category(index->dtype) != 1)
    return tide__fail(TIDE_DTYPE, "%s: wrong dtype of an index, got %s, expected integers or bool", what,
                      tide_dtype_name((tide_dtype)index->dtype));
  TIDE_TRY(tide__as_dtype(&m->index[m->dims], index, index->dtype == TIDE_INT32 ? TIDE_INT32 : TIDE_INT64));
  m->dims++;
  return TIDE_OK;
}

static tide_status join_sizes(many *m, const char *what) {
  m->ndim = 0;
  for (int d = 0; d < m->dims; d++) {
    if (!m->index[d]) continue;
    int64_t before[TIDE_MAX_DIMS];
    int ndim = m->ndim;
    memcpy(before, m->size, sizeof before);
    if (!tide__size_broadcast(m->size, &m->ndim, m->index[d]))
      return tide__fail(TIDE_SHAPE, "%s: the indexes' shapes do not fit, got %s and %s, expected equal sizes or 1",
                        what, tide__shape_text(before, ndim), tide__shape_text(m->index[d]->size, m->index[d]->ndim));
  }
  return TIDE_OK;
}

static int64_t common_divisor(int64_t a, int64_t b) {
  while (b) {
    int64_t rest = a % b;
    a = b, b = rest;
  }
  return a;
}

/* The line, and how far its elements lie apart. */
static int64_t make_line(many *m) {
  const tide_tensor *x = m->x;
  int64_t step = 0, span = 1;
  int first = -1, last = -1, indexed = 0;
  for (int d = 0; d < m->dims; d++) {
    if (!m->index[d]) continue;
    if (first < 0) first = d;
    last = d, indexed++;
    if (x->size[d] > 1) step = common_divisor(x->stride[d], step);
  }
  if (step == 0) step = 1;
  m->at = last - first + 1 == indexed ? first : 0; /* apart from each other they come first */
  m->line = tide__tensor_borrow(x);
  int n = 0;
  for (int d = 0; d <= x->ndim; d++) {
    if (n == m->at) m->line.stride[n++] = step; /* its size follows */
    if (d == x->ndim) break;
    if (d < m->dims && m->index[d]) {
      if (x->size[d] > 1 && x->numel) span += (x->size[d] - 1) * (x->stride[d] / step);
      continue;
    }
    m->line.size[n] = x->size[d], m->line.stride[n++] = x->stride[d];
  }
  m->line.ndim = n;
  m->line.size[m->at] = span;
  tide__tensor_layout(&m->line);
  return step;
}

static tide_status locate_dim(many *m, int dim, int64_t step, bool first) {
  tide__queue q;
  tide_locate_args a;
  const tide_tensor *x = m->x, *index = m->index[dim];
  TIDE_TRY(tide__operands(&a.head, &q, x->storage->device, 2, (const tide_tensor *[]){m->positions, index}));
  a.index_dtype = index->dtype, a.index_base = tide_get_index_base(), a.first = first;
  a.numel = m->positions->numel, a.length = x->size[dim], a.pitch = x->size[dim] > 1 ? x->stride[dim] / step : 0;
  int64_t stride[1][TIDE_MAX_DIMS];
  memcpy(a.size, m->size, sizeof a.size);
  tide__stride_broadcast(stride[0], index, m->size, m->ndim);
  a.ndim = tide__collapse(a.size, stride, 1, m->ndim, true);
  memcpy(a.stride, stride[0], sizeof a.stride);
  return TIDE_LAUNCH(&q, locate, &a, 0);
}

/* No index names an element of a dim that has none. */
static tide_status check_lengths(const many *m) {
  int64_t count = tide__size_product(m->size, m->ndim);
  for (int d = 0; d < m->dims && count; d++)
    if (m->index[d] && m->x->size[d] == 0)
      return tide__fail(TIDE_INDEX, "index: dim %lld has size 0, got %lld index values, expected none",
                        (long long)tide__shown(d), (long long)count);
  return TIDE_OK;
}

static tide_status locate(many *m) {
  TIDE_TRY(check_lengths(m));
  int64_t step = make_line(m);
  bool first = true;
  TIDE_TRY(tide__tensor_new(&m->positions, m->size, m->ndim, TIDE_INT64, m->x->storage->device));
  for (int d = 0; d < m->dims && m->positions->numel && m->x->numel; d++) {
    if (!m->index[d]) continue;
    TIDE_TRY(locate_dim(m, d, step, first));
    first = false;
  }
  return TIDE_OK;
}

/* The size of the result: the line's, with the indexes' dims in place of its own. */
static tide_status result_size(int64_t *size, int *ndim, const many *m, const char *what) {
  *ndim = m->line.ndim - 1 + m->ndim;
  if (*ndim > TIDE_MAX_DIMS)
    return tide__fail(TIDE_SHAPE, "%s: too many dims in the result, got %d, expected at most %d", what, *ndim,
                      TIDE_MAX_DIMS);
  memcpy(size, m->line.size, (size_t)m->at * sizeof *size);
  memcpy(size + m->at, m->size, (size_t)m->ndim * sizeof *size);
  memcpy(size + m->at + m->ndim, m->line.size + m->at + 1, (size_t)(m->line.ndim - m->at - 1) * sizeof *size);
  return TIDE_OK;
}

static tide_status many_begin(many *m, const tide_tensor *x, tide_tensor *const *index, int n, const char *what) {
  TIDE_TRY(tide__check(x, what, "x"));
  m->x = x;
  bool any = false;
  for (int i = 0; i < n; i++) {
    TIDE_TRY(add(m, index[i], what));
    any = any || index[i];
  }
  if (!any) return tide__fail(TIDE_ARGUMENT, "%s: no index among %d entries, expected at least one tensor", what, n);
  return join_sizes(m, what);
}

/* The dim of the one index, or -1 if there are several. */
static int only_dim(const many *m) {
  int found = -1;
  for (int d = 0; d < m->dims; d++)
    if (m->index[d]) {
      if (found >= 0) return -1;
      found = d;
    }
  return found;
}

static tide_status get(tide_tensor **out, many *m) {
  int64_t size[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS];
  int ndim, only = only_dim(m);
  if (only >= 0) return tide_index_get(out, m->x, only, m->index[only]);
  tide_tensor *made;
  TIDE_TRY(locate(m));
  TIDE_TRY(result_size(size, &ndim, m, "index"));
  TIDE_TRY(tide__tensor_new(&made, size, ndim, (tide_dtype)m->x->dtype, m->x->storage->device));
  tide__index_mode mode = {.located = true};
  int64_t pitch = tide__index_strides(stride, &m->line, m->at, m->positions->numel);
  return tide__hand_out(out, made, tide__index_move(&mode, &m->line, m->at, m->positions, made, stride, pitch));
}

tide_status tide_index_get_many(tide_tensor **out, const tide_tensor *x, tide_tensor *const *index, int n) {
  TIDE_GIVEN("index_get_many", out);
  TIDE_LIST("index_get_many", index, n);
  MANY m = {0};
  TIDE_TRY(many_begin(&m, x, index, n, "index"));
  return get(out, &m);
}

/* Into m's x, which may be wider than the value. */
static tide_status put_located(many *m, const tide_tensor *x, const tide_operand *value, bool accumulate) {
  int64_t size[TIDE_MAX_DIMS];
  int ndim;
  TIDE_TRY(locate(m));
  TIDE_TRY(result_size(size, &ndim, m, "index_put"));
  TIDE_OWNED tide_tensor *v = NULL;
  TIDE_TRY(tide__index_value(&v, x, value, "index_put"));
  tide__index_mode mode = {.scatter = true, .located = true};
  mode.reduce = accumulate ? TIDE_INDEX_SUM : TIDE_INDEX_WRITE;
  return tide__index_write(&mode, &m->line, m->at, m->positions, v, size, ndim);
}

static tide_status put(tide_tensor *x, many *m, const tide_operand *value, bool accumulate) {
  TIDE_OWNED tide_tensor *wide = NULL;
  int only = only_dim(m);
  if (only >= 0 && !accumulate) return tide_index_set(x, only, m->index[only], value);
  TIDE_TRY(tide__writable_check(x, "index_put", "x"));
  int64_t meeting = tide__size_product(m->size, m->ndim), values = meeting;
  for (int d = 0; d < x->ndim; d++)
    if (d >= m->dims || !m->index[d]) values = tide__size_mul(values, x->size[d]);
  tide_dtype dtype = tide__index_wide(x, values, meeting, accumulate ? TIDE_INDEX_SUM : TIDE_INDEX_WRITE);
  if (dtype == (tide_dtype)x->dtype) return put_located(m, x, value, accumulate);
  TIDE_TRY(tide__as_dtype(&wide, x, dtype));
  m->x = wide;
  TIDE_TRY(put_located(m, x, value, accumulate));
  return tide__copy_kernel(x, wide);
}

tide_status tide_index_put(tide_tensor *x, tide_tensor *const *index, int n, const tide_operand *value,
                           bool accumulate) {
  TIDE_GIVEN("index_put", value);
  TIDE_LIST("index_put", index, n);
  MANY m = {0};
  TIDE_TRY(many_begin(&m, x, index, n, "index_put"));
  return put(x, &m, value, accumulate);
}
