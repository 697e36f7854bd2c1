/* matmul.c: products of vectors, matrices and batches of matrices.
 *
 * Every form is brought to one shape: C[batch..., n, m] = A[batch..., n, k] x B[batch..., k, m], as views on the stack
 * with stride 0 where a batch dim is repeated. From there:
 *   - a matrix is handed on as it lies if one of its two dims has stride 1 and its rows do not overlap; else it is
 * copied;
 *   - a result whose columns are contiguous is computed as its transpose;
 *   - a batch against one matrix becomes one large product where A's rows lie evenly;
 *   - what is left of the batch dims after collapsing is one batched call, or, if no single stride gives them, a few.
 *
 * Invariant: C never overlaps A or B when the backend is called. */
#include "tensor.h"

static _Atomic bool tf32_allowed;

void tide_set_tf32(bool allowed) { atomic_store_explicit(&tf32_allowed, allowed, memory_order_relaxed); }
bool tide_get_tf32(void) { return atomic_load_explicit(&tf32_allowed, memory_order_relaxed); }

/* ---- operands as views on the stack ---- */

typedef struct matrix {
  tide_tensor view;   /* [batch..., rows, columns]; a borrowed storage */
  tide_tensor *owned; /* a contiguous copy, if one was needed */
} matrix;

static int64_t rows(const tide_tensor *v) { return v->size[v->ndim - 2]; }
static int64_t columns(const tide_tensor *v) { return v->size[v->ndim - 1]; }
static int64_t row_stride(const tide_tensor *v) { return v->stride[v->ndim - 2]; }
static int64_t column_stride(const tide_tensor *v) { return v->stride[v->ndim - 1]; }

static void transpose(tide_tensor *v) { tide__dims_swap(v, v->ndim - 2, v->ndim - 1); }

/* Is the matrix one that BLAS takes: stride 1 along one dim, and along the other at least the length of the first? */
static bool friendly(const tide_tensor *v) {
  int64_t n = rows(v), m = columns(v), r = row_stride(v), c = column_stride(v);
  bool by_rows = (c == 1 || m == 1) && (n == 1 || r >= m), by_columns = (r == 1 || n == 1) && (m == 1 || c >= n);
  return by_rows || by_columns;
}

/* Strides of trivial dims become what the rest implies, so that BLAS accepts them as leading dimensions. */
static void normalise(int64_t *row, int64_t *column, const tide_tensor *v) {
  int64_t n = rows(v), m = columns(v);
  *row = row_stride(v), *column = column_stride(v);
  bool by_rows = (*column == 1 || m == 1) && (n == 1 || *row >= m);
  if (by_rows) {
    *column = 1;
    if (n == 1 || *row < m) *row = m;
  } else {
    *row = 1;
    if (m == 1) *column = n;
  }
}

static tide_status make_friendly(matrix *m) {
  if (friendly(&m->view)) return TIDE_OK;
  tide__tensor_layout(&m->view);
  TIDE_TRY(tide__tensor_new(&m->owned, m->view.size, m->view.ndim, (tide_dtype)m->view.dtype, m->view.storage->device));
  TIDE_TRY(tide__copy_kernel(m->owned, &m->view));
  m->view = tide__tensor_borrow(m->owned);
  return TIDE_OK;
}

/* Drops repeated batch dims before a copy, so that no element is copied twice: size 1 broadcasts later. */
static void shrink_batch(tide_tensor *v) {
  for (int d = 0; d < v->ndim - 2; d++)
    if (v->stride[d] == 0) v->size[d] = 1;
}

/* ---- the product itself ---- */

typedef struct product {
  tide_tensor *c;
  matrix a, b;
  tide_scalar alpha, beta;
} product;

static void batch_dims(const product *p, int64_t *size, int64_t (*stride)[TIDE_MAX_DIMS]) {
  const tide_tensor *v[3] = {p->c, &p->a.view, &p->b.view};
  for (int d = 0; d < p->c->ndim - 2; d++) {
    size[d] = p->c->size[d];
    for (int k = 0; k < 3; k++) {
      int at = d - (p->c->ndim - v[k]->ndim);
      stride[k][d] = at < 0 || v[k]->size[at] == 1 ? 0 : v[k]->stride[at];
    }
  }
}

/* [batch, n, k] x [k, m] with evenly spaced rows is one product of batch * n rows. */
static void fold(tide_gemm_args *a) {
  bool folds = a->b_batch == 0 && a->a_col == 1 && a->a_batch == a->m * a->a_row && a->c_batch == a->m * a->c_row;
  if (!folds || a->batch == 1) return;
  a->m *= a->batch;
  a->batch = 1;
}

static char *moved(const tide_tensor *v, int64_t elements) {
  return tide__tensor_ptr(v) + elements * tide__itemsize(v->dtype);
}

/* One call for the longest batch dim, for every position of the others. */
static tide_status run_batches(const product *p, tide_gemm_args *a, tide__queue *q) {
  int64_t size[TIDE_MAX_DIMS], stride[3][TIDE_MAX_DIMS];
  batch_dims(p, size, stride);
  int n = tide__collapse(size, stride, 3, p->c->ndim - 2, false), longest = 0;
  for (int d = 1; d < n; d++)
    if (size[d] > size[longest]) longest = d;
  bool one = size[longest] == 1;
  a->batch = size[longest];
  a->c_batch = one ? 0 : stride[0][longest];
  a->a_batch = one ? 0 : stride[1][longest];
  a->b_batch = one ? 0 : stride[2][longest];
  size[longest] = 1;
  fold(a);
  int64_t at[TIDE_MAX_DIMS] = {0}, offset[3] = {0};
  for (;;) {
    a->head.ptr[0] = moved(p->c, offset[0]);
    a->head.ptr[1] = moved(&p->a.view, offset[1]);
    a->head.ptr[2] = moved(&p->b.view, offset[2]);
    TIDE_TRY(TIDE_LAUNCH(q, gemm, a, 0));
    int d = n - 1;
    for (; d >= 0; d--) {
      for (int k = 0; k < 3; k++) offset[k] += size[d] > 1 ? stride[k][d] : 0;
      if (++at[d] < size[d]) break;
      for (int k = 0; k < 3; k++) offset[k] -= size[d] > 1 ? size[d] * stride[k][d] : 0;
      at[d] = 0;
    }
    if (d < 0) return TIDE_OK;
  }
}

static tide_status run(product *p) {
  tide__queue q;
  tide_gemm_args a;
  const tide_tensor *operands[] = {p->c, &p->a.view, &p->b.view};
  TIDE_TRY(make_friendly(&p->a));
  TIDE_TRY(make_friendly(&p->b));
  TIDE_TRY(tide__operands(&a.head, &q, p->c->storage->device, 3, operands));
  a.dtype = p->c->dtype, a.tf32 = tide_get_tf32();
  a.m = rows(p->c), a.n = columns(p->c), a.k = columns(&p->a.view);
  normalise(&a.a_row, &a.a_col, &p->a.view);
  normalise(&a.b_row, &a.b_col, &p->b.view);
  a.c_row = a.m == 1 ? a.n : row_stride(p->c);
  a.alpha = tide__value(p->alpha), a.beta = tide__value(p->beta);
  return run_batches(p, &a, &q);
}

/* C as it lies, or transposed, if the backend can write it so. */
static bool writable_as(const tide_tensor *c, bool *transposed) {
  int64_t n = rows(c), m = columns(c), r = row_stride(c), s = column_stride(c);
  *transposed = false;
  if ((s == 1 || m == 1) && (n == 1 || r >= m)) return true;
  *transposed = (r == 1 || n == 1) && (m == 1 || s >= n);
  return *transposed;
}

/* beta * c, where there is nothing to multiply. */
static tide_status scale_only(tide_tensor *c, tide_scalar beta) {
  if (beta.re == 0 && beta.i == 0) return tide_fill(c, tide_int(0));
  if (beta.kind == 'F' && beta.re == 1) return TIDE_OK;
  tide_operand in[2] = {{.tensor = c}, {.tensor = NULL, .number = beta}};
  return tide_elementwise(NULL, TIDE_OP_mul, in, NULL, c);
}

/* c = alpha * a b + beta * c. c is writable_as it lies or transposed and overlaps neither a nor b, which broadcast to
 * its batch. */
static tide_status multiply(tide_tensor *c, const tide_tensor *a, const tide_tensor *b, tide_scalar alpha,
                            tide_scalar beta) {
  if (c->numel == 0) return TIDE_OK;
  tide_tensor target = tide__tensor_borrow(c);
  product p = {.c = &target, .a = {.view = *a}, .b = {.view = *b}, .alpha = alpha, .beta = beta};
  bool transposed;
  writable_as(&target, &transposed);
  if (transposed) {
    matrix left = p.a;
    p.a = p.b, p.b = left;
    transpose(&target), transpose(&p.a.view), transpose(&p.b.view);
  }
  shrink_batch(&p.a.view);
  shrink_batch(&p.b.view);
  tide_status status = run(&p);
  tide_tensor_release(p.a.owned);
  tide_tensor_release(p.b.owned);
  return status;
}

/* ---- checks that all forms share ---- */

/* names: of the factors, "xy" or "ab" */
static tide_status check_pair(const tide_tensor *a, const tide_tensor *b, const char *names, const char *what) {
  const char name_a[] = {names[0], 0}, name_b[] = {names[1], 0};
  TIDE_TRY(tide__check(a, what, name_a));
  TIDE_TRY(tide__check(b, what, name_b));
  TIDE_TRY(tide__operand_device(a, name_a, b, name_b, what));
  if (a->dtype != b->dtype)
    return tide__fail(TIDE_DTYPE, "%s: different dtypes, got %s%s and %s%s, expected one dtype", what,
                      tide_dtype_name((tide_dtype)a->dtype), tide__made_text(a), tide_dtype_name((tide_dtype)b->dtype),
                      tide__made_text(b));
  if (a->dtype == TIDE_BOOL) return tide__fail(TIDE_DTYPE, "%s: dtype not accepted, got bool, expected numbers", what);
  return TIDE_OK;
}

static tide_status fail_shapes(const tide_tensor *a, const tide_tensor *b, const char *what, const char *expected) {
  return tide__fail(TIDE_SHAPE, "%s: shapes do not fit, got %s%s and %s%s, expected %s", what,
                    tide__shape_text(a->size, a->ndim), tide__made_text(a), tide__shape_text(b->size, b->ndim),
                    tide__made_text(b), expected);
}

typedef struct form {
  const char *what;
  tide_tensor a, b;            /* with matrix dims */
  bool vector_a, vector_b;     /* dims that were added and do not appear in the result */
  int64_t size[TIDE_MAX_DIMS]; /* [batch..., n, m] */
  int ndim;
  int64_t shown[TIDE_MAX_DIMS]; /* the result as the caller sees it */
  int shown_ndim;
} form;

static tide_status form_begin(form *f, const tide_tensor *a, const tide_tensor *b, const char *what) {
  f->what = what;
  f->vector_a = a->ndim == 1, f->vector_b = b->ndim == 1;
  if (a->ndim == 0 || b->ndim == 0) return fail_shapes(a, b, what, "at least one dim each");
  f->a = tide__tensor_borrow(a), f->b = tide__tensor_borrow(b);
  if (f->vector_a) tide__dim_insert(&f->a, 0, 1, a->size[0] * a->stride[0]);
  if (f->vector_b) tide__dim_insert(&f->b, 1, 1, 1);
  if (columns(&f->a) != rows(&f->b))
    return fail_shapes(a, b, what, "the last size of the first equal to the last but one of the second");
  tide_tensor batch_a = f->a, batch_b = f->b;
  batch_a.ndim -= 2, batch_b.ndim -= 2;
  f->ndim = 0;
  if (!tide__size_broadcast(f->size, &f->ndim, &batch_a) || !tide__size_broadcast(f->size, &f->ndim, &batch_b))
    return fail_shapes(a, b, what, "batch dims that are equal or 1");
  f->shown_ndim = f->ndim;
  memcpy(f->shown, f->size, (size_t)f->ndim * sizeof *f->size);
  f->size[f->ndim++] = rows(&f->a);
  f->size[f->ndim++] = columns(&f->b);
  if (!f->vector_a) f->shown[f->shown_ndim++] = rows(&f->a);
  if (!f->vector_b) f->shown[f->shown_ndim++] = columns(&f->b);
  return TIDE_OK;
}

/* ---- destinations ---- */

static tide_status check_into(const form *f, tide_tensor *into) {
  TIDE_TRY(tide__into_check(into, &f->a, "a", (tide_dtype)f->a.dtype, f->what));
  bool shared = into->storage == f->a.storage || into->storage == f->b.storage;
  return tide__size_give(into, f->shown, f->shown_ndim, shared, f->what);
}

/* The result with its matrix dims back: [batch..., n, m] over x. */
static tide_tensor with_matrix_dims(const form *f, const tide_tensor *x) {
  tide_tensor v = tide__tensor_borrow(x);
  int batch = f->ndim - 2;
  if (f->vector_a) tide__dim_insert(&v, batch, 1, f->size[f->ndim - 1]);
  if (f->vector_b) tide__dim_insert(&v, batch + 1, 1, 1);
  return v;
}

/* May the product be written straight to `into`? */
static bool direct(const form *f, const tide_tensor *into) {
  if (!into || into->dtype != f->a.dtype) return false;
  if (tide__tensor_overlaps(into, &f->a) || tide__tensor_overlaps(into, &f->b)) return false;
  tide_tensor v = with_matrix_dims(f, into);
  bool transposed;
  return writable_as(&v, &transposed);
}

/* result = alpha * a b + beta * result, or zeros times alpha where k is 0. */
static tide_status compute(const form *f, tide_tensor *result, tide_scalar alpha, tide_scalar beta) {
  if (columns(&f->a) == 0) return scale_only(result, beta);
  tide_tensor c = with_matrix_dims(f, result);
  return multiply(&c, &f->a, &f->b, alpha, beta);
}

static tide_status plain(tide_tensor **out, const form *f, tide_tensor *into) {
  TIDE_TRY(tide__out_check(out, into, f->what));
  if (into) TIDE_TRY(check_into(f, into));
  tide_tensor *result = into;
  if (!direct(f, into))
    TIDE_TRY(tide__tensor_new(&result, f->shown, f->shown_ndim, (tide_dtype)f->a.dtype, f->a.storage->device));
  return tide__deliver(out, result, into, compute(f, result, tide_float(1), tide_float(0)));
}

/* ---- the entries ---- */

tide_status tide_matmul(tide_tensor **out, const tide_tensor *a, const tide_tensor *b, tide_tensor *into) {
  form f;
  TIDE_TRY(check_pair(a, b, "xy", "matmul"));
  TIDE_TRY(form_begin(&f, a, b, "matmul"));
  return plain(out, &f, into);
}

/* The forms that fix the number of dims. */
static tide_status fixed(tide_tensor **out, const tide_tensor *a, const tide_tensor *b, tide_tensor *into, int a_dims,
                         int b_dims, const char *what) {
  form f;
  TIDE_TRY(check_pair(a, b, "xy", what));
  if (a->ndim != a_dims || b->ndim != b_dims)
    return tide__fail(TIDE_SHAPE, "%s: wrong number of dims, got %s and %s, expected %d and %d dims", what,
                      tide__shape_text(a->size, a->ndim), tide__shape_text(b->size, b->ndim), a_dims, b_dims);
  if (a_dims == 3 && a->size[0] != b->size[0]) return fail_shapes(a, b, what, "equal batch sizes");
  TIDE_TRY(form_begin(&f, a, b, what));
  return plain(out, &f, into);
}

tide_status tide_mm(tide_tensor **out, const tide_tensor *a, const tide_tensor *b, tide_tensor *into) {
  return fixed(out, a, b, into, 2, 2, "mm");
}

tide_status tide_bmm(tide_tensor **out, const tide_tensor *a, const tide_tensor *b, tide_tensor *into) {
  return fixed(out, a, b, into, 3, 3, "bmm");
}

tide_status tide_mv(tide_tensor **out, const tide_tensor *a, const tide_tensor *v, tide_tensor *into) {
  return fixed(out, a, v, into, 2, 1, "mv");
}

tide_status tide_dot(tide_tensor **out, const tide_tensor *a, const tide_tensor *b, tide_tensor *into) {
  return fixed(out, a, b, into, 1, 1, "dot");
}

static tide_status check_addend(const form *f, const tide_tensor *c) {
  TIDE_TRY(tide__check(c, f->what, "c"));
  TIDE_TRY(tide__same_device(c, "c", &f->a, "a", f->what));
  if (c->dtype != f->a.dtype)
    return tide__fail(TIDE_DTYPE, "%s: different dtypes, got %s for c beside %s, expected one dtype", f->what,
                      tide_dtype_name((tide_dtype)c->dtype), tide_dtype_name((tide_dtype)f->a.dtype));
  if (!tide__broadcasts_to(c, f->shown, f->shown_ndim))
    return tide__fail(TIDE_SHAPE, "%s: wrong shape of c, got %s, expected one that broadcasts to %s", f->what,
                      tide__shape_text(c->size, c->ndim), tide__shape_text(f->shown, f->shown_ndim));
  return TIDE_OK;
}

tide_status tide_addmm(tide_tensor **out, const tide_tensor *c, const tide_tensor *a, const tide_tensor *b, double beta,
                       double alpha, tide_tensor *into) {
  form f;
  tide_scalar scale = tide_float(beta), factor = tide_float(alpha);
  TIDE_TRY(tide__out_check(out, into, "addmm"));
  TIDE_TRY(check_pair(a, b, "ab", "addmm"));
  bool dims_fit = (a->ndim == 2 && (b->ndim == 2 || b->ndim == 1)) || (a->ndim == 3 && b->ndim == 3);
  if (!dims_fit) return fail_shapes(a, b, "addmm", "two matrices, two batches of matrices, or a matrix and a vector");
  TIDE_TRY(form_begin(&f, a, b, "addmm"));
  TIDE_TRY(check_addend(&f, c));
  if (tide__category(a->dtype) == 1 && (beta != trunc(beta) || alpha != trunc(alpha)))
    return tide__fail(TIDE_VALUE, "addmm: wrong factors for %s, got beta %g and alpha %g, expected integers",
                      tide_dtype_name((tide_dtype)a->dtype), beta, alpha);
  if (tide__category(a->dtype) == 1) scale = tide_int((int64_t)beta), factor = tide_int((int64_t)alpha);
  if (into && into->storage == c->storage)
    TIDE_TRY(tide__size_expect(into, f.shown, f.shown_ndim, "addmm", "the destination"));
  if (into) TIDE_TRY(check_into(&f, into));
  tide_tensor *result = into;
  if (!direct(&f, into))
    TIDE_TRY(tide__tensor_new(&result, f.shown, f.shown_ndim, (tide_dtype)a->dtype, a->storage->device));
  /* With beta 0 the addend is not read: what it holds, NaN included, does not count. */
  tide_status status = beta == 0 ? TIDE_OK : tide_copy(result, c, true);
  if (status == TIDE_OK) status = compute(&f, result, factor, scale);
  return tide__deliver(out, result, into, status);
}
