/* linalg.c: linear algebra that libraries compute: check, copy, one kernel, look at what it says.
 *
 * Libraries work in place and store matrices by columns: x is copied into such a layout, in which results are handed
 * out as they are. They say for each matrix whether they succeeded; that is read back, so every function here waits for
 * the device. Nothing is computed for matrices without elements.
 *
 * Invariant: a function that fails has changed neither its operands nor its destination. */
#include "tide/linalg.h"

#include <stdio.h>
#include <stdlib.h>

#include "tensor.h"

/* A call of one routine: its operands (plan.h), which are released at the end unless they are taken out. */
typedef struct task {
  const char *what, *name; /* of the function, and of x in it */
  const tide_tensor *x;    /* the matrices whose batch it is */
  tide_tensor *op[6];
  tide_linalg_args a;
} task;

static tide_status check_matrices(const tide_tensor *x, const char *what, const char *name, bool square) {
  TIDE_TRY(tide__check(x, what, name));
  if (x->ndim < 2 || (square && x->size[x->ndim - 1] != x->size[x->ndim - 2]))
    return tide__fail(TIDE_SHAPE, "%s: %s is %s, got %s, expected %s", what, name,
                      square ? "not square" : "no batch of matrices", tide__shape_text(x->size, x->ndim),
                      square ? "[..., n, n]" : "[..., m, n]");
  if (x->dtype < TIDE_FLOAT32)
    return tide__fail(TIDE_DTYPE, "%s: dtype of %s not accepted, got %s, expected float32, float64 or a complex dtype",
                      what, name, tide_dtype_name((tide_dtype)x->dtype));
  for (int d = x->ndim - 2; d < x->ndim; d++)
    if (x->size[d] > INT32_MAX)
      return tide__fail(TIDE_SHAPE, "%s: %s is too large, got %s, expected at most %d rows and columns", what, name,
                        tide__shape_text(x->size, x->ndim), INT32_MAX);
  return TIDE_OK;
}

/* Libraries count matrices and right sides in 32 bits. */
static tide_status check_counts(const task *t, int64_t batch, int64_t sides) {
  if (batch <= INT32_MAX && sides <= INT32_MAX) return TIDE_OK;
  return tide__fail(TIDE_SHAPE, "%s: too many %s, got %lld, expected at most %d", t->what,
                    batch > INT32_MAX ? "matrices" : "right sides", (long long)(batch > INT32_MAX ? batch : sides),
                    INT32_MAX);
}

static tide_status check_places(const char *what, tide_tensor **first, tide_tensor **second) {
  TIDE_TRY(tide__out_check(first, NULL, what));
  return tide__out_check(second, NULL, what);
}

static int64_t batch_of(const tide_tensor *x) { return tide__size_product(x->size, x->ndim - 2); }

/* Before anything is acquired. */
static tide_status begin(task *t, const char *what, const char *name, const tide_tensor *x, bool square) {
  TIDE_TRY(check_matrices(x, what, name, square));
  *t = (task){.what = what, .name = name, .x = x};
  t->a.dtype = x->dtype;
  t->a.m = x->size[x->ndim - 2], t->a.n = x->size[x->ndim - 1], t->a.batch = batch_of(x);
  t->a.step = t->a.m * t->a.n;
  TIDE_TRY(check_counts(t, t->a.batch, 0));
  return x->storage->device >= 0 ? tide__sync_begin(what) : TIDE_OK;
}

static void end(task *t) {
  for (int k = 0; k < 6; k++) tide_tensor_release(t->op[k]);
}

static tide_tensor *take(task *t, int k) {
  tide_tensor *x = t->op[k];
  t->op[k] = NULL;
  return x;
}

/* A new matrix for each of the batch at op[k], by columns; columns < 0: a vector. */
static tide_status give(task *t, int k, int64_t rows, int64_t columns, tide_dtype dtype) {
  int64_t size[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS], numel;
  int n = t->x->ndim - 2, ndim = columns < 0 ? n + 1 : n + 2;
  memcpy(size, t->x->size, sizeof size);
  size[n] = rows;
  if (columns >= 0) size[n + 1] = columns;
  TIDE_TRY(tide__size_check(&numel, size, ndim, dtype, t->what));
  tide__stride_contiguous(stride, size, ndim);
  if (columns >= 0) stride[n] = 1, stride[n + 1] = rows ? rows : 1;
  return tide__tensor_new_strided(&t->op[k], size, stride, ndim, dtype, t->x->storage->device);
}

static tide_dtype type_of(const task *t) { return (tide_dtype)t->a.dtype; }
static tide_dtype real_of(const task *t) {
  return t->a.dtype == TIDE_FLOAT32 || t->a.dtype == TIDE_COMPLEX64 ? TIDE_FLOAT32 : TIDE_FLOAT64;
}

/* op[0]: a copy of x, behind whose columns there is room for others, up to `columns`. */
static tide_status give_copy(task *t, int64_t columns) {
  int64_t n = t->x->size[t->x->ndim - 1];
  TIDE_TRY(give(t, 0, t->x->size[t->x->ndim - 2], columns, type_of(t)));
  tide_tensor part = tide__tensor_borrow(t->op[0]);
  part.refs = 1;
  part.size[part.ndim - 1] = n;
  tide__tensor_layout(&part);
  return tide_copy(&part, t->x, false);
}

static tide_status launch(task *t, tide_linalg_routine routine) {
  tide__queue q;
  int device = t->op[0]->storage->device;
  if (t->op[0]->numel == 0) return TIDE_OK;
  TIDE_TRY(tide__queue_begin(&q, device));
  tide__head_begin(&t->a.head, device, 6);
  for (int k = 0; k < 6; k++)
    if (t->op[k])
      tide__head_set(&t->a.head, k, t->op[k], &q);
    else
      t->a.head.ptr[k] = NULL;
  t->a.routine = routine;
  return TIDE_LAUNCH(&q, linalg, &t->a, t->a.routine);
}

/* The identity at op[k], of which there is at least a column, where no routine runs. */
static tide_status give_identity(const task *t, int k) {
  tide_tensor *eye, *x = t->op[k];
  if (!x || x->numel == 0) return TIDE_OK;
  tide_options o = {(tide_dtype)x->dtype, x->storage->device, false};
  TIDE_TRY(tide_eye(&eye, x->size[x->ndim - 2], x->size[x->ndim - 1], &o));
  tide_status status = tide_copy(x, eye, false);
  tide_tensor_release(eye);
  return status;
}

/* ---- what routines say of each matrix ---- */

/* Which matrix of the batch it is, in words. */
static void batch_text(char *text, size_t size, const tide_tensor *x, int64_t at) {
  int64_t index[TIDE_MAX_DIMS], base = tide_get_index_base();
  text[0] = 0;
  for (int d = x->ndim - 3; d >= 0; d--) index[d] = at % x->size[d] + base, at /= x->size[d];
  if (x->ndim > 2) snprintf(text, size, " of batch %s", tide__shape_text(index, x->ndim - 2));
}

static tide_status fail_matrix(const task *t, const int32_t *info) {
  static const char *const texts[][2] = {
      [TIDE_LINALG_CHOLESKY] = {"is not positive definite, got a leading minor of order",
                                "that is not, expected all of "
                                "them to be"},
      [TIDE_LINALG_SOLVE] = {"is singular, got a zero on the diagonal of U in row", "expected an invertible matrix"},
      [TIDE_LINALG_SVD] = {"did not converge, got code", "expected finite values"},
  };
  char which[160];
  int64_t at = 0;
  while (info[at] == 0) at++;
  batch_text(which, sizeof which, t->x, at);
  int routine = t->a.routine;
  const char *const *text = texts[routine <= TIDE_LINALG_SOLVE ? routine : TIDE_LINALG_SVD];
  return tide__fail(TIDE_VALUE, "%s: %s%s %s %d%s %s", t->what, t->name, which, text[0], (int)info[at],
                    routine == TIDE_LINALG_CHOLESKY ? "" : ",", text[1]);
}

/* Did it succeed for every matrix? One number is read, and more only for the message. */
static tide_status check_info(const task *t, const tide_tensor *info) {
  tide_tensor *most = NULL;
  tide_scalar worst = tide_int(0);
  if (info->numel == 0 || t->a.m == 0 || t->a.n == 0) return TIDE_OK;
  tide_status status = tide_reduce(&most, TIDE_MAX, info, NULL, NULL);
  if (status == TIDE_OK) status = tide__item_now(&worst, most);
  tide_tensor_release(most);
  if (status != TIDE_OK || worst.i == 0) return status;
  int32_t *host = malloc((size_t)info->numel * sizeof *host);
  if (!host) return tide__fail(TIDE_MEMORY, "%s: no host memory to say which matrix it failed for", t->what);
  status = tide_read(host, info);
  if (status == TIDE_OK) status = fail_matrix(t, host);
  free(host);
  return status;
}

static tide_status run(task *t, tide_linalg_routine routine) {
  tide_status status = give(t, 4, 1, -1, TIDE_INT32);
  if (status == TIDE_OK) status = launch(t, routine);
  return status == TIDE_OK ? check_info(t, t->op[4]) : status;
}

/* ---- Cholesky ---- */

tide_status tide_linalg_cholesky(tide_tensor **out, const tide_tensor *x, bool upper, tide_tensor *into) {
  task t;
  tide_tensor *result = NULL;
  TIDE_TRY(begin(&t, "cholesky", "x", x, true));
  TIDE_TRY(tide__out_check(out, into, "cholesky"));
  if (into) {
    TIDE_TRY(tide__check(into, "cholesky", "the destination"));
    TIDE_TRY(tide__writable_check(into, "cholesky", "the destination"));
    TIDE_TRY(tide__same_device(into, "the destination", x, "x", "cholesky"));
    TIDE_TRY(tide__cast_expect(into, (tide_dtype)x->dtype, "cholesky"));
  }
  /* x by rows is its transpose by columns, whose lower factor is, by rows, x's upper one. */
  tide_status status =
      upper ? tide__tensor_new(&t.op[0], x->size, x->ndim, type_of(&t), x->storage->device) : give_copy(&t, t.a.n);
  if (status == TIDE_OK && upper) status = tide_copy(t.op[0], x, false);
  if (status == TIDE_OK) status = run(&t, TIDE_LINALG_CHOLESKY);
  if (status == TIDE_OK) status = tide_tril(&result, t.op[0], 0, upper);
  end(&t);
  if (status == TIDE_OK && into)
    status = tide__size_give(into, x->size, x->ndim, into->storage == x->storage, "cholesky");
  if (status == TIDE_OK) return tide__deliver(out, result, into);
  tide_tensor_release(result);
  return status;
}

/* ---- LU ---- */

tide_status tide_linalg_lu_factor(tide_tensor **lu, tide_tensor **pivots, const tide_tensor *x) {
  task t;
  TIDE_TRY(begin(&t, "lu", "x", x, false));
  TIDE_TRY(check_places("lu", lu, pivots));
  tide_status status = give_copy(&t, t.a.n);
  if (status == TIDE_OK) status = give(&t, 1, t.a.m < t.a.n ? t.a.m : t.a.n, -1, TIDE_INT32);
  if (status == TIDE_OK) status = give(&t, 4, 1, -1, TIDE_INT32);
  if (status == TIDE_OK) status = launch(&t, TIDE_LINALG_LU);
  if (status == TIDE_OK) *lu = take(&t, 0), *pivots = take(&t, 1);
  end(&t);
  return status;
}

static bool is_vector(const tide_tensor *a, const tide_tensor *b) {
  return b->ndim == 1 || (b->ndim == a->ndim - 1 && tide__size_equal(b, a->size, b->ndim));
}

/* Right sides: on a's device, of its dtype, and of as many rows, or columns unless `left`. */
static tide_status check_sides(const task *t, const tide_tensor *b, bool vector, bool left) {
  const tide_tensor *a = t->x;
  if (b->ndim < 2 && !vector)
    return tide__fail(TIDE_SHAPE, "%s: b is no batch of matrices, got %s, expected [..., n, k]", t->what,
                      tide__shape_text(b->size, b->ndim));
  TIDE_TRY(tide__same_device(b, "b", a, t->name, t->what));
  if (b->dtype != a->dtype)
    return tide__fail(TIDE_DTYPE, "%s: a and b have different dtypes, got %s and %s, expected one", t->what,
                      tide_dtype_name((tide_dtype)a->dtype), tide_dtype_name((tide_dtype)b->dtype));
  int64_t got = b->size[b->ndim - (left && !vector ? 2 : 1)];
  if (got == t->a.n) return TIDE_OK;
  return tide__fail(TIDE_SHAPE, "%s: b does not fit a, got %s of b and %lld of a, expected as many", t->what,
                    tide__shape_text(&got, 1), (long long)t->a.n);
}

/* The size that the batches of a and b broadcast to, and b's last dims: 2. */
static tide_status size_sides(int64_t *size, int *ndim, const task *t, const tide_tensor *b) {
  tide_tensor first = tide__tensor_borrow(t->x), second = tide__tensor_borrow(b);
  first.ndim -= 2, second.ndim -= 2;
  *ndim = 0;
  if (!tide__size_broadcast(size, ndim, &first) || !tide__size_broadcast(size, ndim, &second))
    return tide__fail(TIDE_SHAPE, "%s: batches do not broadcast, got %s and %s", t->what,
                      tide__shape_text(first.size, first.ndim), tide__shape_text(second.size, second.ndim));
  if (*ndim + 2 > TIDE_MAX_DIMS)
    return tide__fail(TIDE_SHAPE, "%s: too many dims, got %d, expected at most %d", t->what, *ndim + 2, TIDE_MAX_DIMS);
  size[(*ndim)++] = b->size[b->ndim - 2], size[(*ndim)++] = b->size[b->ndim - 1];
  return check_counts(t, tide__size_product(size, *ndim - 2), size[*ndim - 1]);
}

/* b with the missing dim of a vector, on the stack. */
static tide_tensor as_columns(const tide_tensor *b, bool vector) {
  tide_tensor v = tide__tensor_borrow(b);
  v.refs = 1;
  if (vector) v.size[v.ndim] = 1, v.stride[v.ndim++] = 1;
  tide__tensor_layout(&v);
  return v;
}

/* The batch of a, where it is neither one matrix nor as many as there are right sides: as many. */
static tide_status spread(tide_tensor *wide, const tide_tensor *a, const int64_t *size, int ndim) {
  *wide = tide__tensor_borrow(a);
  wide->refs = 1;
  if (batch_of(a) == 1 || batch_of(a) == tide__size_product(size, ndim - 2)) return TIDE_OK;
  int64_t full[TIDE_MAX_DIMS];
  memcpy(full, size, sizeof full);
  full[ndim - 2] = a->size[a->ndim - 2], full[ndim - 1] = a->size[a->ndim - 1];
  tide__stride_broadcast(wide->stride, a, full, ndim);
  memcpy(wide->size, full, sizeof full);
  wide->ndim = ndim;
  tide__tensor_layout(wide);
  return TIDE_OK;
}

/* Is each matrix without gaps, and the next one behind it, by rows or, if `columns`, by columns? */
static bool is_packed(const tide_tensor *x, bool columns) {
  tide_tensor v = tide__tensor_borrow(x);
  int n = v.ndim;
  if (columns) v.stride[n - 2] = x->stride[n - 1], v.stride[n - 1] = x->stride[n - 2];
  tide__tensor_layout(&v); /* it is square */
  return v.contiguous;
}

/* op[5]: a's matrices, spread as `wide` says, as they lie if they are packed; *columns: by columns. */
static tide_status give_read(task *t, const tide_tensor *a, const tide_tensor *wide, bool *columns) {
  *columns = !is_packed(wide, false) && is_packed(wide, true);
  return *columns || wide->contiguous ? tide__tensor_view(&t->op[5], a, wide->size, wide->stride, wide->ndim, a->offset)
                                      : tide__as_contiguous(&t->op[5], wide, type_of(t));
}

/* b NULL: the identity. */
static tide_status solve(tide_tensor **out, task *t, const tide_tensor *b, const int64_t *size, int ndim) {
  tide_tensor wide, shape = tide__tensor_borrow(t->x);
  bool columns = false;
  TIDE_TRY(spread(&wide, t->x, size, ndim));
  TIDE_TRY(give_read(t, t->x, &wide, &columns));
  memcpy(shape.size, size, sizeof shape.size);
  shape.ndim = ndim;
  t->x = &shape, t->a.k = size[ndim - 1];
  tide_status status = give(t, 0, t->a.n, t->a.k, type_of(t));
  t->x = &wide;
  if (status == TIDE_OK && b) status = tide_copy(t->op[0], b, false);
  if (status == TIDE_OK) status = give(t, 4, 1, -1, TIDE_INT32);
  t->a.flags = !b ? TIDE_LINALG_INVERSE : columns ? 0 : TIDE_LINALG_TRANSPOSED;
  t->a.batch = tide__size_product(size, ndim - 2);
  t->a.step = t->a.n * t->a.k, t->a.other_step = t->a.n * t->a.n;
  if (batch_of(&wide) == 1) t->a.k *= t->a.batch, t->a.batch = 1; /* one matrix for all: just more columns */
  if (status == TIDE_OK && t->op[0]->numel > 0) {
    status = launch(t, TIDE_LINALG_SOLVE);
    if (status == TIDE_OK) status = check_info(t, t->op[4]);
  }
  if (status != TIDE_OK) return status;
  if (!b && !columns) return tide_transpose(out, t->op[0], -2, -1); /* that of the transpose, by columns */
  *out = take(t, 0);
  return TIDE_OK;
}

tide_status tide_linalg_solve(tide_tensor **out, const tide_tensor *a, const tide_tensor *b) {
  int64_t size[TIDE_MAX_DIMS];
  int ndim;
  task t;
  tide_tensor *result = NULL;
  TIDE_TRY(begin(&t, b ? "solve" : "inv", b ? "a" : "x", a, true));
  TIDE_TRY(check_places(t.what, out, out));
  if (b) TIDE_TRY(tide__check(b, "solve", "b"));
  bool vector = b && is_vector(a, b);
  if (b) TIDE_TRY(check_sides(&t, b, vector, true));
  tide_tensor sides = as_columns(b ? b : a, vector);
  TIDE_TRY(size_sides(size, &ndim, &t, &sides));
  if (t.a.batch == 1) TIDE_TRY(check_counts(&t, 1, tide__size_product(size, ndim) / (t.a.n ? t.a.n : 1)));
  tide_status status = solve(&result, &t, b ? &sides : NULL, size, ndim);
  end(&t);
  TIDE_TRY(status);
  if (!vector) return *out = result, TIDE_OK;
  status = tide_squeeze_dim(out, result, -1);
  tide_tensor_release(result);
  return status;
}

tide_status tide_linalg_det(tide_tensor **det, tide_tensor **logarithm, const tide_tensor *x) {
  task t;
  bool columns = false;
  tide_tensor *first = NULL;
  TIDE_TRY(begin(&t, logarithm ? "slogdet" : "det", "x", x, true));
  TIDE_TRY(check_places(t.what, det, logarithm ? logarithm : det));
  tide_status status = give_read(&t, x, x, &columns);
  if (status == TIDE_OK) status = give(&t, 0, 1, -1, type_of(&t));
  if (status == TIDE_OK && logarithm) status = give(&t, 1, 1, -1, real_of(&t));
  t.a.other_step = t.a.n * t.a.n;
  if (status == TIDE_OK && t.a.n == 0) { /* the product of no eigenvalues */
    status = tide_fill(t.op[0], tide_int(1));
    if (status == TIDE_OK && logarithm) status = tide_fill(t.op[1], tide_int(0));
  } else if (status == TIDE_OK)
    status = launch(&t, TIDE_LINALG_DET);
  if (status == TIDE_OK) status = tide_squeeze_dim(&first, t.op[0], -1);
  if (status == TIDE_OK && logarithm) status = tide_squeeze_dim(logarithm, t.op[1], -1);
  end(&t);
  if (status == TIDE_OK)
    *det = first;
  else
    tide_tensor_release(first);
  return status;
}

/* ---- triangles ---- */

tide_status tide_linalg_triangular_solve(tide_tensor **out, const tide_tensor *a, const tide_tensor *b, bool upper,
                                         bool left, bool unit) {
  int64_t size[TIDE_MAX_DIMS];
  int ndim;
  task t;
  tide_tensor wide;
  TIDE_TRY(begin(&t, "triangular_solve", "a", a, true));
  TIDE_TRY(check_places("triangular_solve", out, out));
  TIDE_TRY(tide__check(b, "triangular_solve", "b"));
  TIDE_TRY(check_sides(&t, b, false, left));
  TIDE_TRY(size_sides(size, &ndim, &t, b));
  TIDE_TRY(spread(&wide, a, size, ndim));
  /* Right sides stay stored by rows, which are the columns of the transposed system. */
  bool columns = false;
  tide_tensor *sides;
  TIDE_TRY(tide__tensor_new(&sides, size, ndim, type_of(&t), a->storage->device));
  tide_status status = tide_copy(sides, b, false);
  t.op[0] = sides;
  if (status == TIDE_OK) status = give_read(&t, a, &wide, &columns);
  t.a.flags = (left ? 0 : TIDE_LINALG_LEFT) | (columns ? TIDE_LINALG_TRANSPOSED : 0) |
              (columns == upper ? TIDE_LINALG_UPPER : 0) | (unit ? TIDE_LINALG_UNIT : 0);
  t.a.k = t.a.n;
  t.a.m = size[ndim - 1], t.a.n = size[ndim - 2], t.a.step = t.a.m * t.a.n;
  t.a.batch = tide__size_product(size, ndim - 2);
  t.a.other_step = batch_of(&wide) == 1 ? 0 : t.a.k * t.a.k;
  if (status == TIDE_OK) status = launch(&t, TIDE_LINALG_TRIANGULAR);
  if (status == TIDE_OK) *out = take(&t, 0);
  end(&t);
  return status;
}

/* ---- QR ---- */

tide_status tide_linalg_qr(tide_tensor **q, tide_tensor **r, const tide_tensor *x, bool complete) {
  task t;
  tide_tensor *top = NULL, *left = NULL, *triangle = NULL;
  TIDE_TRY(begin(&t, "qr", "x", x, false));
  TIDE_TRY(check_places("qr", q ? q : r, r));
  int64_t m = t.a.m, n = t.a.n, least = m < n ? m : n, columns = complete ? m : least, room = n > columns ? n : columns;
  t.a.step = m * room;
  tide_status status = give_copy(&t, room);
  if (status == TIDE_OK) status = give(&t, 1, least, -1, type_of(&t));
  if (status == TIDE_OK && least) status = launch(&t, TIDE_LINALG_QR);
  if (status == TIDE_OK) status = tide_narrow(&left, t.op[0], -1, 0, n);
  if (status == TIDE_OK) status = tide_narrow(&top, left, -2, 0, complete ? m : least);
  if (status == TIDE_OK) status = tide_tril(&triangle, top, 0, true);
  tide_tensor_release(left), tide_tensor_release(top);
  if (status == TIDE_OK && q) {
    t.a.k = least, t.a.n = columns;
    status = least ? launch(&t, TIDE_LINALG_QR_Q) : give_identity(&t, 0);
    if (status == TIDE_OK) status = tide_narrow(q, t.op[0], -1, 0, columns);
  }
  end(&t);
  if (status == TIDE_OK)
    *r = triangle;
  else
    tide_tensor_release(triangle);
  return status;
}

/* ---- singular values and eigenvalues ---- */

/* Libraries differ in what they do with other values: some never end. */
static tide_status check_finite(const task *t) {
  const tide_tensor *x = t->x;
  tide_tensor *each = NULL, *all = NULL;
  tide_scalar finite = tide_bool(true);
  if (x->numel == 0) return TIDE_OK;
  tide_status status = tide_unary(&each, TIDE_OP_isfinite, x, NULL);
  if (status == TIDE_OK) status = tide_reduce(&all, TIDE_ALL, each, NULL, NULL);
  if (status == TIDE_OK) status = tide__item_now(&finite, all);
  tide_tensor_release(each), tide_tensor_release(all);
  if (status != TIDE_OK || finite.i) return status;
  return tide__fail(TIDE_VALUE, "%s: x holds infinities or NaN, expected finite values", t->what);
}

/* Routines take matrices that are not wider than high; a wide one is turned over, and its factors change places. */
tide_status tide_linalg_svd(tide_tensor **u, tide_tensor **s, tide_tensor **vh, const tide_tensor *x, bool full) {
  task t;
  TIDE_TRY(begin(&t, "svd", "x", x, false));
  TIDE_TRY(check_places("svd", s, u ? vh : s));
  TIDE_TRY(check_finite(&t));
  tide_tensor turned = tide__tensor_borrow(x), *left = NULL, *right = NULL;
  turned.refs = 1;
  bool wide = t.a.m < t.a.n;
  if (wide) {
    int d = x->ndim - 2;
    turned.size[d] = x->size[d + 1], turned.size[d + 1] = x->size[d];
    turned.stride[d] = x->stride[d + 1], turned.stride[d + 1] = x->stride[d];
    tide__tensor_layout(&turned);
    t.x = &turned, t.a.m = turned.size[d], t.a.n = turned.size[d + 1];
  }
  t.a.flags = full ? TIDE_LINALG_FULL : 0;
  tide_status status = give_copy(&t, t.a.n);
  if (status == TIDE_OK) status = give(&t, 1, t.a.n, -1, real_of(&t));
  if (status == TIDE_OK && u) status = give(&t, 2, t.a.m, full ? t.a.m : t.a.n, type_of(&t));
  if (status == TIDE_OK && u) status = give(&t, 3, t.a.n, t.a.n, type_of(&t));
  if (status == TIDE_OK) status = run(&t, TIDE_LINALG_SVD);
  if (status == TIDE_OK && t.a.n == 0) status = give_identity(&t, 2);
  if (status == TIDE_OK && u && wide) {
    status = tide_transpose(&left, t.op[3], -2, -1);
    if (status == TIDE_OK) status = tide_transpose(&right, t.op[2], -2, -1);
  } else if (status == TIDE_OK && u)
    left = take(&t, 2), right = take(&t, 3);
  if (status == TIDE_OK) {
    *s = take(&t, 1);
    if (u) *u = left, *vh = right;
  } else
    tide_tensor_release(left);
  end(&t);
  return status;
}

tide_status tide_linalg_eigh(tide_tensor **w, tide_tensor **v, const tide_tensor *x, bool upper) {
  task t;
  TIDE_TRY(begin(&t, "eigh", "x", x, true));
  TIDE_TRY(check_places("eigh", w, w));
  TIDE_TRY(check_finite(&t));
  t.a.flags = (upper ? TIDE_LINALG_UPPER : 0) | (v ? TIDE_LINALG_VECTORS : 0);
  tide_status status = give_copy(&t, t.a.n);
  if (status == TIDE_OK) status = give(&t, 1, t.a.n, -1, real_of(&t));
  if (status == TIDE_OK) status = run(&t, TIDE_LINALG_EIGH);
  if (status == TIDE_OK) *w = take(&t, 1);
  if (status == TIDE_OK && v) *v = take(&t, 0);
  end(&t);
  return status;
}

tide_status tide_linalg_eig(tide_tensor **w, tide_tensor **v, const tide_tensor *x) {
  task t;
  TIDE_TRY(begin(&t, "eig", "x", x, true));
  TIDE_TRY(check_places("eig", w, w));
  TIDE_TRY(check_finite(&t));
  tide_dtype type = real_of(&t) == TIDE_FLOAT32 ? TIDE_COMPLEX64 : TIDE_COMPLEX128;
  tide_status status = give_copy(&t, t.a.n);
  if (status == TIDE_OK) status = give(&t, 1, t.a.n, -1, type);
  if (status == TIDE_OK && v) status = give(&t, 2, t.a.n, t.a.n, type);
  if (status == TIDE_OK) status = run(&t, TIDE_LINALG_EIG);
  if (status == TIDE_OK) *w = take(&t, 1);
  if (status == TIDE_OK && v) *v = take(&t, 2);
  end(&t);
  return status;
}
