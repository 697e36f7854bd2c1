/* linalg.c: linear algebra that libraries compute: check, copy, one kernel, look at what it says.
 *
 * Libraries work in place and store matrices by columns: x is copied into such a layout, in which results are handed
 * out as they are. They say for each matrix whether they succeeded; that is read back, so every function here waits for
 * the device. Nothing is computed for matrices without elements.
 *
 * Invariant: a function that fails has changed neither its operands nor its destination. */
#include "tide/linalg.h"

#include <stdio.h>

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
/* Begin it with {0}: it ends where its block is left. */
#define TASK __attribute__((cleanup(end))) task

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
  if (t->op[0]->numel == 0) return TIDE_OK;
  TIDE_TRY(tide__operands(&t->a.head, &q, t->op[0]->storage->device, 6, (const tide_tensor *const *)t->op));
  t->a.routine = routine;
  return TIDE_LAUNCH(&q, linalg, &t->a, t->a.routine);
}

/* The identity at op[k], of which there is at least a column, where no routine runs. */
static tide_status give_identity(const task *t, int k) {
  TIDE_OWNED tide_tensor *eye = NULL;
  tide_tensor *x = t->op[k];
  if (!x || x->numel == 0) return TIDE_OK;
  tide_options o = {(tide_dtype)x->dtype, x->storage->device, false};
  TIDE_TRY(tide_eye(&eye, x->size[x->ndim - 2], x->size[x->ndim - 1], &o));
  return tide_copy(x, eye, false);
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
  TIDE_OWNED tide_tensor *most = NULL;
  tide_scalar worst = tide_int(0);
  if (info->numel == 0 || t->a.m == 0 || t->a.n == 0) return TIDE_OK;
  TIDE_TRY(tide_reduce(&most, TIDE_MAX, info, NULL, NULL));
  TIDE_TRY(tide__item_now(&worst, most));
  if (worst.i == 0) return TIDE_OK;
  int32_t *host = malloc((size_t)info->numel * sizeof *host);
  if (!host) return tide__fail(TIDE_MEMORY, "%s: no host memory to say which matrix it failed for", t->what);
  tide_status status = tide_read(host, info);
  if (status == TIDE_OK) status = fail_matrix(t, host);
  free(host);
  return status;
}

static tide_status run(task *t, tide_linalg_routine routine) {
  TIDE_TRY(give(t, 4, 1, -1, TIDE_INT32));
  TIDE_TRY(launch(t, routine));
  return check_info(t, t->op[4]);
}

/* ---- Cholesky ---- */

tide_status tide_linalg_cholesky(tide_tensor **out, const tide_tensor *x, bool upper, tide_tensor *into) {
  TASK t = {0};
  tide_tensor *result = NULL;
  TIDE_TRY(begin(&t, "cholesky", "x", x, true));
  TIDE_TRY(tide__out_check(out, into, "cholesky"));
  if (into) TIDE_TRY(tide__into_check(into, x, "x", (tide_dtype)x->dtype, "cholesky"));
  /* x by rows is its transpose by columns, whose lower factor is, by rows, x's upper one. */
  TIDE_TRY(upper ? tide__tensor_new(&t.op[0], x->size, x->ndim, type_of(&t), x->storage->device)
                 : give_copy(&t, t.a.n));
  if (upper) TIDE_TRY(tide_copy(t.op[0], x, false));
  TIDE_TRY(run(&t, TIDE_LINALG_CHOLESKY));
  TIDE_TRY(tide_tril(&result, t.op[0], 0, upper));
  tide_status status =
      into ? tide__size_give(into, x->size, x->ndim, into->storage == x->storage, "cholesky") : TIDE_OK;
  return tide__deliver(out, result, into, status);
}

/* ---- LU ---- */

tide_status tide_linalg_lu_factor(tide_tensor **lu, tide_tensor **pivots, const tide_tensor *x) {
  TASK t = {0};
  TIDE_TRY(begin(&t, "lu", "x", x, false));
  TIDE_TRY(check_places("lu", lu, pivots));
  TIDE_TRY(give_copy(&t, t.a.n));
  TIDE_TRY(give(&t, 1, t.a.m < t.a.n ? t.a.m : t.a.n, -1, TIDE_INT32));
  TIDE_TRY(give(&t, 4, 1, -1, TIDE_INT32));
  TIDE_TRY(launch(&t, TIDE_LINALG_LU));
  *lu = take(&t, 0), *pivots = take(&t, 1);
  return TIDE_OK;
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
  TIDE_TRY(give(t, 0, t->a.n, t->a.k, type_of(t)));
  t->x = &wide;
  if (b) TIDE_TRY(tide_copy(t->op[0], b, false));
  TIDE_TRY(give(t, 4, 1, -1, TIDE_INT32));
  t->a.flags = !b ? TIDE_LINALG_INVERSE : columns ? 0 : TIDE_LINALG_TRANSPOSED;
  t->a.batch = tide__size_product(size, ndim - 2);
  t->a.step = t->a.n * t->a.k, t->a.other_step = t->a.n * t->a.n;
  if (batch_of(&wide) == 1) t->a.k *= t->a.batch, t->a.batch = 1; /* one matrix for all: just more columns */
  if (t->op[0]->numel > 0) {
    TIDE_TRY(launch(t, TIDE_LINALG_SOLVE));
    TIDE_TRY(check_info(t, t->op[4]));
  }
  if (!b && !columns) return tide_transpose(out, t->op[0], -2, -1); /* that of the transpose, by columns */
  *out = take(t, 0);
  return TIDE_OK;
}

tide_status tide_linalg_solve(tide_tensor **out, const tide_tensor *a, const tide_tensor *b) {
  int64_t size[TIDE_MAX_DIMS];
  int ndim;
  TASK t = {0};
  TIDE_OWNED tide_tensor *result = NULL;
  TIDE_TRY(begin(&t, b ? "solve" : "inv", b ? "a" : "x", a, true));
  TIDE_TRY(check_places(t.what, out, out));
  if (b) TIDE_TRY(tide__check(b, "solve", "b"));
  bool vector = b && is_vector(a, b);
  if (b) TIDE_TRY(check_sides(&t, b, vector, true));
  tide_tensor sides = as_columns(b ? b : a, vector);
  TIDE_TRY(size_sides(size, &ndim, &t, &sides));
  if (t.a.batch == 1) TIDE_TRY(check_counts(&t, 1, tide__size_product(size, ndim) / (t.a.n ? t.a.n : 1)));
  TIDE_TRY(solve(&result, &t, b ? &sides : NULL, size, ndim));
  return vector ? tide_squeeze_dim(out, result, -1) : tide__owned_give(out, &result);
}

tide_status tide_linalg_det(tide_tensor **det, tide_tensor **logarithm, const tide_tensor *x) {
  TASK t = {0};
  bool columns = false;
  TIDE_OWNED tide_tensor *first = NULL;
  TIDE_TRY(begin(&t, logarithm ? "slogdet" : "det", "x", x, true));
  TIDE_TRY(check_places(t.what, det, logarithm ? logarithm : det));
  TIDE_TRY(give_read(&t, x, x, &columns));
  TIDE_TRY(give(&t, 0, 1, -1, type_of(&t)));
  if (logarithm) TIDE_TRY(give(&t, 1, 1, -1, real_of(&t)));
  t.a.other_step = t.a.n * t.a.n;
  TIDE_TRY(t.a.n ? launch(&t, TIDE_LINALG_DET) : tide_fill(t.op[0], tide_int(1))); /* the product of no eigenvalues */
  if (t.a.n == 0 && logarithm) TIDE_TRY(tide_fill(t.op[1], tide_int(0)));
  TIDE_TRY(tide_squeeze_dim(&first, t.op[0], -1));
  if (logarithm) TIDE_TRY(tide_squeeze_dim(logarithm, t.op[1], -1));
  return tide__owned_give(det, &first);
}

/* ---- triangles ---- */

tide_status tide_linalg_triangular_solve(tide_tensor **out, const tide_tensor *a, const tide_tensor *b, bool upper,
                                         bool left, bool unit) {
  int64_t size[TIDE_MAX_DIMS];
  int ndim;
  TASK t = {0};
  tide_tensor wide;
  TIDE_TRY(begin(&t, "triangular_solve", "a", a, true));
  TIDE_TRY(check_places("triangular_solve", out, out));
  TIDE_TRY(tide__check(b, "triangular_solve", "b"));
  TIDE_TRY(check_sides(&t, b, false, left));
  TIDE_TRY(size_sides(size, &ndim, &t, b));
  TIDE_TRY(spread(&wide, a, size, ndim));
  /* Right sides stay stored by rows, which are the columns of the transposed system. */
  bool columns = false;
  TIDE_TRY(tide__tensor_new(&t.op[0], size, ndim, type_of(&t), a->storage->device));
  TIDE_TRY(tide_copy(t.op[0], b, false));
  TIDE_TRY(give_read(&t, a, &wide, &columns));
  t.a.flags = (left ? 0 : TIDE_LINALG_LEFT) | (columns ? TIDE_LINALG_TRANSPOSED : 0) |
              (columns == upper ? TIDE_LINALG_UPPER : 0) | (unit ? TIDE_LINALG_UNIT : 0);
  t.a.k = t.a.n;
  t.a.m = size[ndim - 1], t.a.n = size[ndim - 2], t.a.step = t.a.m * t.a.n;
  t.a.batch = tide__size_product(size, ndim - 2);
  t.a.other_step = batch_of(&wide) == 1 ? 0 : t.a.k * t.a.k;
  TIDE_TRY(launch(&t, TIDE_LINALG_TRIANGULAR));
  *out = take(&t, 0);
  return TIDE_OK;
}

/* ---- QR ---- */

tide_status tide_linalg_qr(tide_tensor **q, tide_tensor **r, const tide_tensor *x, bool complete) {
  TASK t = {0};
  TIDE_OWNED tide_tensor *top = NULL, *left = NULL, *triangle = NULL;
  TIDE_TRY(begin(&t, "qr", "x", x, false));
  TIDE_TRY(check_places("qr", q ? q : r, r));
  int64_t m = t.a.m, n = t.a.n, least = m < n ? m : n, columns = complete ? m : least, room = n > columns ? n : columns;
  t.a.step = m * room;
  TIDE_TRY(give_copy(&t, room));
  TIDE_TRY(give(&t, 1, least, -1, type_of(&t)));
  if (least) TIDE_TRY(launch(&t, TIDE_LINALG_QR));
  TIDE_TRY(tide_narrow(&left, t.op[0], -1, 0, n));
  TIDE_TRY(tide_narrow(&top, left, -2, 0, complete ? m : least));
  TIDE_TRY(tide_tril(&triangle, top, 0, true));
  if (q) {
    t.a.k = least, t.a.n = columns;
    TIDE_TRY(least ? launch(&t, TIDE_LINALG_QR_Q) : give_identity(&t, 0));
    TIDE_TRY(tide_narrow(q, t.op[0], -1, 0, columns));
  }
  return tide__owned_give(r, &triangle);
}

/* ---- singular values and eigenvalues ---- */

/* Libraries differ in what they do with other values: some never end. */
static tide_status check_finite(const task *t) {
  const tide_tensor *x = t->x;
  TIDE_OWNED tide_tensor *each = NULL, *all = NULL;
  tide_scalar finite = tide_bool(true);
  if (x->numel == 0) return TIDE_OK;
  TIDE_TRY(tide_unary(&each, TIDE_OP_isfinite, x, NULL));
  TIDE_TRY(tide_reduce(&all, TIDE_ALL, each, NULL, NULL));
  TIDE_TRY(tide__item_now(&finite, all));
  if (finite.i) return TIDE_OK;
  return tide__fail(TIDE_VALUE, "%s: x holds infinities or NaN, expected finite values", t->what);
}

/* Routines take matrices that are not wider than high; a wide one is turned over, and its factors change places. */
tide_status tide_linalg_svd(tide_tensor **u, tide_tensor **s, tide_tensor **vh, const tide_tensor *x, bool full) {
  TASK t = {0};
  TIDE_TRY(begin(&t, "svd", "x", x, false));
  TIDE_TRY(check_places("svd", s, u ? vh : s));
  TIDE_TRY(check_finite(&t));
  TIDE_OWNED tide_tensor *left = NULL, *right = NULL;
  tide_tensor turned = tide__tensor_borrow(x);
  turned.refs = 1;
  bool wide = t.a.m < t.a.n;
  if (wide) {
    int d = x->ndim - 2;
    tide__dims_swap(&turned, d, d + 1);
    tide__tensor_layout(&turned);
    t.x = &turned, t.a.m = turned.size[d], t.a.n = turned.size[d + 1];
  }
  t.a.flags = full ? TIDE_LINALG_FULL : 0;
  TIDE_TRY(give_copy(&t, t.a.n));
  TIDE_TRY(give(&t, 1, t.a.n, -1, real_of(&t)));
  if (u) TIDE_TRY(give(&t, 2, t.a.m, full ? t.a.m : t.a.n, type_of(&t)));
  if (u) TIDE_TRY(give(&t, 3, t.a.n, t.a.n, type_of(&t)));
  TIDE_TRY(run(&t, TIDE_LINALG_SVD));
  if (t.a.n == 0) TIDE_TRY(give_identity(&t, 2));
  if (u && wide) {
    TIDE_TRY(tide_transpose(&left, t.op[3], -2, -1));
    TIDE_TRY(tide_transpose(&right, t.op[2], -2, -1));
  }
  if (u) *u = wide ? left : take(&t, 2), *vh = wide ? right : take(&t, 3);
  *s = take(&t, 1);
  left = right = NULL; /* given away */
  return TIDE_OK;
}

tide_status tide_linalg_eigh(tide_tensor **w, tide_tensor **v, const tide_tensor *x, bool upper) {
  TASK t = {0};
  TIDE_TRY(begin(&t, "eigh", "x", x, true));
  TIDE_TRY(check_places("eigh", w, w));
  TIDE_TRY(check_finite(&t));
  t.a.flags = (upper ? TIDE_LINALG_UPPER : 0) | (v ? TIDE_LINALG_VECTORS : 0);
  TIDE_TRY(give_copy(&t, t.a.n));
  TIDE_TRY(give(&t, 1, t.a.n, -1, real_of(&t)));
  TIDE_TRY(run(&t, TIDE_LINALG_EIGH));
  *w = take(&t, 1);
  if (v) *v = take(&t, 0);
  return TIDE_OK;
}

tide_status tide_linalg_eig(tide_tensor **w, tide_tensor **v, const tide_tensor *x) {
  TASK t = {0};
  TIDE_TRY(begin(&t, "eig", "x", x, true));
  TIDE_TRY(check_places("eig", w, w));
  TIDE_TRY(check_finite(&t));
  tide_dtype type = real_of(&t) == TIDE_FLOAT32 ? TIDE_COMPLEX64 : TIDE_COMPLEX128;
  TIDE_TRY(give_copy(&t, t.a.n));
  TIDE_TRY(give(&t, 1, t.a.n, -1, type));
  if (v) TIDE_TRY(give(&t, 2, t.a.n, t.a.n, type));
  TIDE_TRY(run(&t, TIDE_LINALG_EIG));
  *w = take(&t, 1);
  if (v) *v = take(&t, 2);
  return TIDE_OK;
}
