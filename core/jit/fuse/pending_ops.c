/* pending_ops.c: the operations that give pending values, and what they check.
 *
 * Shapes, dtypes and devices are checked as in eager execution, and the result gets the strides that it would have
 * there. What cannot be pending runs at once. */
#include "jit/fuse/pending.h"

enum {
  DEPTH = 48, /* of nodes one behind the other, before values are computed on the way */
  PACE = 2048 /* bytes that a pending value counts for the collector: what it takes of the host */
};

/* ---- what can be pending ---- */

/* What the state decides about dtypes, and for gathers about indexes, is the same for all nodes there are. */
static tide_status begin(tide_fuse *f, bool gathers) {
  tide_dtype dtype = tide_get_default_dtype();
  int base = gathers ? tide_get_index_base() : f->base;
  if (f->oldest && (f->dtype != dtype || f->base != base)) TIDE_TRY(tide__fuse_settle(f, NULL, false));
  f->dtype = dtype, f->base = base;
  return TIDE_OK;
}

/* On the current stream. */
static tide_status place(tide__node *n) {
  TIDE_TRY(tide__stream_current(&n->stream, n->device));
  n->holds_stream = !n->stream->is_default;
  if (n->holds_stream) tide_stream_retain(n->stream);
  return TIDE_OK;
}

/* The operands' nodes, which say the device. The node is linked behind the leaves that are made for it. *fits: they can
 * be used together. */
static tide_status use_operands(bool *fits, tide__node *n, const tide_operand *in, int operands) {
  const tide__node *first = NULL;
  *fits = true;
  n->operands = (uint8_t)operands;
  for (int k = 0; k < operands && *fits; k++) {
    if (!in[k].tensor) {
      n->number[k] = in[k].number, n->kinds |= (in[k].number.kind & 7u) << (3 * k);
      *fits = in[k].number.kind != 'C';
      continue;
    }
    tide__node *x = n->in[k] = tide__node_use(n->fuse, in[k].tensor);
    *fits = x && (!first || x->device == first->device);
    if (!x) continue;
    if (!first) first = x, n->device = x->device;
    if (n->depth <= x->depth) n->depth = (uint16_t)(x->depth + 1);
  }
  *fits = *fits && first;
  tide_status status = *fits ? place(n) : TIDE_OK;
  for (int k = 0; k < operands && status == TIDE_OK && *fits; k++)
    if (n->in[k]) *fits = tide__node_is_leaf(n->in[k]) || n->in[k]->stream == n->stream;
  tide__node_link(n);
  return status;
}

/* Chains that are long enough are cut: the operands of n are computed. */
static tide_status cut(tide__node *n) {
  if (TIDE_LIKELY(n->depth <= DEPTH)) return TIDE_OK;
  for (int k = 0; k < 3; k++)
    if (n->in[k] && n->in[k]->storage && !tide__node_is_leaf(n->in[k]))
      TIDE_TRY(tide__storage_settle(n->in[k]->storage));
  return TIDE_OK;
}

static tide_status give(tide_tensor **out, tide__node *n) {
  tide_storage *s;
  TIDE_TRY(tide__storage_pending(&s, (size_t)(n->x.numel * tide__itemsize(n->x.dtype)), n->device, n));
  if (tide__node_tensor(out, n, s) != TIDE_OK) {
    tide__storage_end(s);
    return TIDE_MEMORY;
  }
  n->storage = s, n->users++;
  tide__pace_add(PACE);
  return TIDE_OK;
}

/* Ends the making of a node, which has no user yet: an error or a refusal frees it. */
static tide_status end(tide_tensor **out, tide_status status, tide__node *n, bool fits) {
  if (status == TIDE_OK && fits) status = cut(n);
  if (status == TIDE_OK && fits) status = give(out, n);
  if (status != TIDE_OK || !fits) n->users = 1, tide__node_unuse(n);
  return status;
}

/* As eager execution lays a result out: like the first operand of its size, if that is dense. */
static void lay_out(tide__node *n, const int64_t *size, int ndim, int dtype) {
  int64_t stride[TIDE_MAX_DIMS];
  const tide_tensor *like = NULL;
  for (int k = 0; k < n->operands && !like; k++)
    if (n->in[k] && tide__size_equal(&n->in[k]->x, size, ndim)) like = &n->in[k]->x;
  if (!like || !tide__tensor_dense(like)) {
    tide__stride_contiguous(stride, size, ndim);
    like = NULL;
  }
  tide__node_describe(n, size, like ? like->stride : stride, ndim, dtype);
}

/* x^2 is a product, as it is where it runs alone. */
static tide_op plain_op(tide_op op, const tide_operand *in) {
  bool is_square = op == TIDE_OP_pow && in[0].tensor && !in[1].tensor && tide__category(in[0].tensor->dtype) == 2 &&
                   tide__value(in[1].number).re == 2;
  return is_square ? TIDE_OP_square : op;
}

/* Its dtype, size and layout; false: it is refused, or cannot be pending. *once: the answer depends on values. */
static bool find_form(bool *once, tide__node *n, const tide_operand *in) {
  const tide__op_traits *t = tide__op_traits_get((tide_op)n->op);
  int64_t size[TIDE_MAX_DIMS];
  int ndim = 0;
  tide__types types;
  *once = false;
  for (int k = 0; k < n->operands; k++) {
    if (!n->in[k]) continue;
    if (!tide__size_broadcast(size, &ndim, &n->in[k]->x)) return false;
    *once = *once || ((t->divides || n->op == TIDE_OP_pow) && tide__category(n->in[k]->x.dtype) < 2);
  }
  if (ndim > TIDE_MAX_DIMS || tide__op_types(&types, (tide_op)n->op, in, n->params ? n->param : NULL) != TIDE_OK)
    return false;
  if (!tide_fuse_takes(types.op, types.common)) return false;
  lay_out(n, size, ndim, types.result);
  return true;
}

/* The form of what the same operation gave for operands of these forms, or find_form. */
static bool take_form(tide__node *n, const tide_operand *in) {
  tide_fuse *f = n->fuse;
  uint64_t key[4] = {n->op | (uint64_t)(f->dtype + 1) << 8 | (uint64_t)n->kinds << 32};
  for (int k = 0; k < n->operands; k++)
    if (n->in[k]) key[k + 1] = n->in[k]->form;
  uint64_t hash = ((key[0] * 31 + key[1]) * 31 + key[2]) * 31 + key[3];
  tide__fuse_result *known = &f->result[hash * 0x9E3779B97F4A7C15u >> 32 & (TIDE__FUSE_FORMS - 1)];
  bool same = known->key[0] == key[0] && known->key[1] == key[1] && known->key[2] == key[2] && known->key[3] == key[3];
  if (TIDE_LIKELY(same && f->form[known->place].number == known->form)) {
    tide__node_take_form(n, &f->form[known->place]);
    return true;
  }
  bool once;
  if (!find_form(&once, n, in)) return false;
  for (int i = 0; i < TIDE__FUSE_FORMS && !once; i++)
    if (f->form[i].number == n->form) *known = (tide__fuse_result){{key[0], key[1], key[2], key[3]}, n->form, i};
  return true;
}

static bool fits_into(const tide__node *n, const tide_tensor *into) {
  return tide__node_usable(into) && into->dtype == n->x.dtype && into->storage->device == n->device &&
         tide__same_size(into, &n->x);
}

/* A node between its operands and its result, while the fuse is locked. fits: it can be pending. */
typedef struct making {
  tide__node *n;
  tide_status status;
  bool fits;
} making;

static making make(tide_fuse *f, tide_fuse_kind kind, const tide_operand *in, int operands) {
  making m = {.fits = false};
  tide__fuse_lock(f);
  m.status = begin(f, kind == TIDE_FUSE_GATHER);
  if (m.status == TIDE_OK && !(m.n = tide__node_new(f, kind))) m.status = TIDE_MEMORY;
  if (m.n) m.status = use_operands(&m.fits, m.n, in, operands);
  m.fits = m.fits && m.status == TIDE_OK;
  return m;
}

static tide_status made(tide_tensor **out, tide_fuse *f, const making *m) {
  tide_status status = m->n ? end(out, m->status, m->n, m->fits) : m->status;
  tide__fuse_unlock(f);
  return status;
}

/* ---- operations ---- */

/* The pending value that x stands for gets the value of n instead. */
static tide_status replace(tide_tensor *x, tide__node *n) {
  tide__node *old = tide__node_of(x);
  n->storage = x->storage, n->users++;
  tide__node_describe(n, x->size, x->stride, x->ndim, x->dtype);
  x->storage->user = n;
  old->storage = NULL;
  tide__node_unuse(old);
  return cut(n);
}

static tide_status write(tide_fuse *f, tide__node *n, tide_tensor *into) {
  const tide__node *now = tide__node_of(into);
  if (now && now->fuse == f && now->stream == n->stream && into->offset == 0) return replace(into, n);
  n->users++;
  tide_status status = tide__storage_settle(into->storage);
  if (status == TIDE_OK) status = tide__writable_check(into, tide_op_get((tide_op)n->op)->name, "the destination");
  if (status == TIDE_OK) status = tide__fuse_overwrite(f, n, into);
  tide__node_unuse(n);
  return status;
}

tide_status tide_fuse_elementwise(tide_tensor **out, tide_fuse *f, tide_op op, const tide_operand *in,
                                  const tide_scalar *params, tide_tensor *into) {
  if (!f) return tide__fail_null("fuse_elementwise", "fuse");
  TIDE_GIVEN("fuse_elementwise", in);
  TIDE_TRY(tide__out_check(out, into, "fuse_elementwise"));
  if (into && tide__node_usable(into) && atomic_load(&into->storage->pending_reads)) {
    /* Other fuses' values that read it; ours are computed with this operation. */
    tide_status status = TIDE_OK;
    for (tide_fuse *other = tide__fuse_next(NULL); other; other = tide__fuse_next(other))
      if (other != f && status == TIDE_OK) status = tide__fuse_settle(other, into->storage, false);
    TIDE_TRY(status);
  }
  const tide_op plain = plain_op(op, in);
  const tide__op_traits *t = (unsigned)op < TIDE_OP_COUNT ? tide__op_traits_get(plain) : NULL;
  if (!t || (t->params && !params)) return tide_elementwise(out, op, in, params, into);
  making m = make(f, TIDE_FUSE_OP, in, t->operands);
  if (m.fits) {
    tide__node *n = m.n;
    n->op = (uint8_t)plain, n->params = t->params;
    for (int k = 0; k < t->params; k++) n->param[k] = params[k], n->kinds |= (params[k].kind & 7u) << (9 + 3 * k);
    m.fits = take_form(n, in) && (!into || fits_into(n, into));
  }
  if (into && m.fits) m.status = write(f, m.n, into), m.n = NULL;
  TIDE_TRY(made(out, f, &m));
  return m.fits ? TIDE_OK : tide_elementwise(out, op, in, params, into);
}

/* Are the dims the last ones, or the first? */
static bool find_dims(tide__node *n, const tide_reduce_options *o, int ndim) {
  int dims = o->ndims ? o->ndims : ndim;
  if (o->ndims < 0 || (o->ndims && !o->dims)) return false;
  uint64_t last = 0, first = 0;
  for (int i = 0; i < o->ndims; i++) {
    int d = o->dims[i] < 0 ? o->dims[i] + ndim : o->dims[i];
    if (d < 0 || d >= ndim) return false;
    if (d >= ndim - dims) last |= (uint64_t)1 << d;
    if (d < dims) first |= (uint64_t)1 << d;
  }
  bool is_last = !o->ndims || __builtin_popcountll(last) == dims;
  n->dims = (uint8_t)dims, n->leading = !is_last, n->keepdim = o->keepdim;
  return dims > 0 && dims <= ndim && (is_last || __builtin_popcountll(first) == dims);
}

/* Rows that are done in parts the CPU's own loops read once for these, and more precisely. */
static bool is_better_alone(tide_reduction op, const tide__node *n, const tide_tensor *x) {
  bool spreads = op == TIDE_VAR || op == TIDE_STD || op == TIDE_NORM;
  int64_t columns = tide__size_product(x->size + (n->leading ? 0 : x->ndim - n->dims), n->dims);
  return columns < 2 || (x->storage->device < 0 && spreads && (n->leading || columns > 16384));
}

static void lay_out_rows(tide__node *n, const int64_t *size, int ndim, int dtype) {
  int64_t stride[TIDE_MAX_DIMS];
  tide__stride_contiguous(stride, size, ndim);
  tide__node_describe(n, size, stride, ndim, dtype);
}

tide_status tide_fuse_reduce(tide_tensor **out, tide_fuse *f, tide_reduction op, const tide_tensor *x,
                             const tide_reduce_options *o) {
  if (!f) return tide__fail_null("fuse_reduce", "fuse");
  TIDE_GIVEN("fuse_reduce", out);
  if (o) TIDE_SIZED("fuse_reduce", o);
  if ((unsigned)op >= TIDE_REDUCTION_COUNT || !tide__node_usable(x) || !o || o->dtype != TIDE_DTYPE_NONE ||
      !tide_fuse_reduces(op, (tide_dtype)x->dtype))
    return tide_reduce(out, op, x, o, NULL);
  making m = make(f, TIDE_FUSE_REDUCE, &(tide_operand){.tensor = x}, 1);
  tide__node *n = m.n;
  m.fits = m.fits && find_dims(n, o, x->ndim) && !is_better_alone(op, n, x);
  if (m.fits) {
    int64_t size[TIDE_MAX_DIMS];
    int ndim = 0;
    n->op = (uint8_t)op, n->params = op == TIDE_VAR || op == TIDE_STD || op == TIDE_NORM;
    n->param[0] = tide_float(o->param);
    if (n->params) n->kinds = (n->param[0].kind & 7u) << 9;
    for (int d = 0; d < x->ndim; d++) {
      bool reduced = n->leading ? d < n->dims : d >= x->ndim - n->dims;
      if (!reduced || n->keepdim) size[ndim++] = reduced ? 1 : x->size[d];
    }
    lay_out_rows(n, size, ndim, tide__reduced_dtype(op, (tide_dtype)x->dtype));
  }
  TIDE_TRY(made(out, f, &m));
  return m.fits ? TIDE_OK : tide_reduce(out, op, x, o, NULL);
}

tide_status tide_fuse_cast(bool *done, tide_tensor **out, tide_fuse *f, const tide_tensor *x, tide_dtype dtype) {
  TIDE_GIVEN("fuse_cast", done);
  TIDE_GIVEN("fuse_cast", out);
  if (!f) return tide__fail_null("fuse_cast", "fuse");
  TIDE_GIVEN("fuse_cast", x);
  TIDE_RANGE("fuse_cast", dtype, TIDE_DTYPE_COUNT);
  *done = tide__node_usable(x) && (unsigned)dtype < TIDE_DTYPE_COUNT && dtype != (tide_dtype)x->dtype &&
          tide__category(dtype) < 3 && tide__category(x->dtype) < 3;
  if (!*done) return TIDE_OK;
  making m = make(f, TIDE_FUSE_CAST, &(tide_operand){.tensor = x}, 1);
  *done = m.fits;
  if (m.fits) lay_out(m.n, x->size, x->ndim, dtype);
  return made(out, f, &m);
}

/* May the index stand for a dim of x, or for all of x where that is a line? */
static bool is_gatherable(const tide_tensor *x, const tide_tensor *index, int dim, int places) {
  bool along = places == TIDE_FUSE_ALONG;
  if (!tide__node_usable(x) || !tide__node_usable(index) || tide__category(index->dtype) != 1 ||
      tide__category(x->dtype) > 2 || x->storage->device != index->storage->device)
    return false;
  if (places == TIDE_FUSE_LINE) return x->contiguous;
  if (dim < 0 || dim >= x->ndim || (along && x->ndim != index->ndim)) return false;
  for (int d = 0; along && d < x->ndim; d++)
    if (d != dim && x->size[d] != index->size[d]) return false;
  return x->ndim - 1 + (along ? 1 : index->ndim) <= TIDE_MAX_DIMS;
}

tide_status tide_fuse_gather(bool *done, tide_tensor **out, tide_fuse *f, const tide_tensor *x,
                             const tide_tensor *index, int dim, int places, const char *file, int line) {
  TIDE_GIVEN("fuse_gather", done);
  TIDE_GIVEN("fuse_gather", out);
  if (!f) return tide__fail_null("fuse_gather", "fuse");
  TIDE_GIVEN("fuse_gather", x);
  TIDE_GIVEN("fuse_gather", index);
  TIDE_RANGE("fuse_gather", places, TIDE_FUSE_LINE + 1);
  if (line < 0 || (line && !file))
    return tide__fail(TIDE_ARGUMENT, "fuse_gather: line: got %d%s, expected 0, or a line of a file", line,
                      file ? "" : " without a file");
  if (places != TIDE_FUSE_LINE) TIDE_TRY(tide__dim_check(&dim, dim, x->ndim, "fuse_gather"));
  *done = is_gatherable(x, index, dim, places);
  if (!*done) return TIDE_OK;
  TIDE_TRY(tide__storage_settle(x->storage));
  making m = make(f, TIDE_FUSE_GATHER, (tide_operand[]){{.tensor = index}, {.tensor = x}}, 2);
  tide__node *n = m.n;
  *done = m.fits;
  if (m.fits) {
    int64_t size[TIDE_MAX_DIMS];
    int ndim = 0;
    n->op = (uint8_t)places, n->dims = (uint8_t)(places == TIDE_FUSE_LINE ? 0 : dim), n->file = file, n->line = line;
    for (int d = 0; places == TIDE_FUSE_SLICES && d < dim; d++) size[ndim++] = x->size[d];
    for (int d = 0; d < index->ndim; d++) size[ndim++] = index->size[d];
    for (int d = dim + 1; places == TIDE_FUSE_SLICES && d < x->ndim; d++) size[ndim++] = x->size[d];
    lay_out_rows(n, size, ndim, x->dtype);
  }
  return made(out, f, &m);
}

tide_status tide_fuse_compute(tide_fuse *f, tide_tensor *const *list, int n) {
  if (!f) return tide__fail_null("fuse_compute", "fuse");
  TIDE_LIST("fuse_compute", list, n);
  enum { MOST = 1 << 20 };
  if (n > MOST) return tide__fail(TIDE_ARGUMENT, "fuse_compute: n: got %d, expected at most %d", n, MOST);
  tide__node *own[32], **node = n <= 32 ? own : malloc((size_t)n * sizeof *node);
  if (!node) return tide__fail(TIDE_MEMORY, "fuse: no host memory");
  int count = 0;
  tide__fuse_lock(f);
  for (int i = 0; i < n; i++) {
    tide__node *one = list[i] && list[i]->storage ? tide__node_of(list[i]) : NULL;
    bool before = false;
    for (int k = 0; k < count; k++) before = before || node[k] == one;
    if (one && one->fuse == f && !before) node[count++] = one;
  }
  tide_status status = tide__fuse_compute_all(f, node, count, NULL, NULL);
  tide__fuse_unlock(f);
  if (node != own) free(node);
  return status;
}

bool tide_tensor_is_pending(const tide_tensor *x) { return x && x->storage && x->storage->pending; }
