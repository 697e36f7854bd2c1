/* solver.c: what cuSOLVER and cuBLAS compute of linear algebra; both are opened at the first call (library.def).
 *
 * Matrices are stored by columns there, as plan.h has them. One matrix, and large ones, are done one after another in
 * scratch memory of the stream; many small ones by one call, which takes a list of their addresses or all of them. One
 * handle of each library for each device serves one call at a time.
 *
 * Invariant: a handle is bound to a stream under the lock, and so are the calls that use it. */
#include "internal.h"
#include "tidek_linalg.h"

#include <stdlib.h>
#include <string.h>

/* Values of cublas_api.h, cusolver_common.h and library_types.h, which are part of the binary interfaces. */
enum { TRIANGLE_LOWER = 0, TRIANGLE_UPPER = 1, OP_NONE = 0, OP_TRANSPOSE = 1, OP_ADJOINT = 2, STATUS_ALLOC_FAILED = 2 };
enum { COMPUTE_64 = 70, ALGORITHM_DEFAULT = -1 };
enum { BLAS_ALLOC_FAILED = 3 };
static const int cuda_types[] = {0, 1, 4, 5}, item_sizes[] = {4, 8, 8, 16};

static tide__cusolver solver;
static tide__cublas blas;
static tide__cusolver_eig newer;
static pthread_once_t solver_once = PTHREAD_ONCE_INIT;
static char solver_problem[512], newer_problem[512];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { void *solver, *params, *blas; } handles[TIDE_MAX_DEVICES];

static void solver_open(void) {
  if (tide__library_open(&solver, TIDE__LIBRARY_cusolver, solver_problem, sizeof solver_problem))
    tide__library_open(&blas, TIDE__LIBRARY_cublas, solver_problem, sizeof solver_problem);
  tide__library_open(&newer, TIDE__LIBRARY_cusolver_eig, newer_problem, sizeof newer_problem);
}

void tide__cuda_solver_close(void) {
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    if (!handles[d].solver) continue;
    CUDA_ON(d);
    if (handles[d].params) solver.destroy_params(handles[d].params);
    if (handles[d].blas) blas.destroy(handles[d].blas);
    solver.destroy(handles[d].solver);
    memset(&handles[d], 0, sizeof handles[d]);
  }
  cudaGetLastError();
}

/* A call, with its handles. */
typedef struct job {
  const tide_linalg_args *a;
  const char *what;
  tide_stream *stream;
  const cuda_stream *s;
  void *solver, *params, *blas;
  int type, m, n, k, triangle, *info; /* type: 0 to 3, float32 to complex128 */
} job;

static tide_status check_solver(const job *j, int rc) {
  if (!rc) return TIDE_OK;
  cudaGetLastError();
  if (rc == STATUS_ALLOC_FAILED)
    return tide__cuda_host->fail(TIDE_MEMORY, "%s: out of memory in cuSOLVER (code %d)", j->what, rc);
  return tide__cuda_host->fail(TIDE_ACCELERATOR, "%s: cuSOLVER failed, got code %d", j->what, rc);
}

static tide_status check_blas(const job *j, int rc) {
  if (!rc) return TIDE_OK;
  cudaGetLastError();
  if (rc == BLAS_ALLOC_FAILED)
    return tide__cuda_host->fail(TIDE_MEMORY, "%s: out of memory in cuBLAS (code %d)", j->what, rc);
  return tide__cuda_host->fail(TIDE_ACCELERATOR, "%s: cuBLAS failed, got code %d", j->what, rc);
}

static tide_status check_cuda(const job *j, int rc) { return tide__cuda_check(j->s->device, j->what, rc); }

/* Matrix i of ptr[k], of so many elements of `size` bytes each. */
static void *at(const job *j, int k, int64_t i, int64_t elements, int size) {
  return j->a->head.ptr[k] ? (char *)j->a->head.ptr[k] + i * elements * size : NULL;
}
static void *matrix(const job *j, int64_t i) { return at(j, 0, i, j->a->step, item_sizes[j->type]); }

static int item_of(const job *j) { return item_sizes[j->type]; }
static int real_of(const job *j) { return j->type & 1 ? 8 : 4; }

/* Scratch memory in elements, then one int more, for what a routine says where nobody reads it. */
static tide_status scratch_get(cuda_scratch *work, int **ignored, const job *j, int elements) {
  size_t bytes = ((size_t)elements * (size_t)item_of(j) + 15) / 16 * 16;
  TIDE_TRY(cuda_scratch_get(work, j->stream, bytes + 16));
  *ignored = (int *)(void *)((char *)work->memory + bytes);
  return TIDE_OK;
}

/* A list of the addresses of the batch's matrices, the first at `first`. */
static tide_status list_get(cuda_scratch *list, const job *j, void *first, int64_t bytes) {
  TIDE_TRY(cuda_scratch_get(list, j->stream, (size_t)j->a->batch * sizeof(void *)));
  return check_cuda(j, tidek_addresses(j->s->handle, list->memory, first, bytes, j->a->batch));
}

/* Many small matrices, which one call does faster than one for each. */
static bool is_many(const job *j, int most) { return j->a->batch > 1 && j->n <= most && j->m <= most; }

/* ---- Cholesky, LU ---- */

static tide_status do_small(const job *j) { return check_cuda(j, tidek_linalg_small(j->s->handle, j->a)); }

static tide_status do_cholesky(const job *j) {
  int elements = 0, *ignored, rc = 0;
  CUDA_SCRATCH(work);
  if (tidek_linalg_is_small(j->a)) return do_small(j);
  if (is_many(j, 512)) {
    TIDE_TRY(list_get(&work, j, j->a->head.ptr[0], j->a->step * item_of(j)));
    return check_solver(j, solver.potrf_batched[j->type](j->solver, TRIANGLE_LOWER, j->n, work.memory, j->n, j->info,
                                                         (int)j->a->batch));
  }
  TIDE_TRY(check_solver(j, solver.potrf_size[j->type](j->solver, TRIANGLE_LOWER, j->n, matrix(j, 0), j->n, &elements)));
  TIDE_TRY(scratch_get(&work, &ignored, j, elements));
  for (int64_t i = 0; i < j->a->batch && !rc; i++)
    rc = solver.potrf[j->type](j->solver, TRIANGLE_LOWER, j->n, matrix(j, i), j->n, work.memory, elements, j->info + i);
  return check_solver(j, rc);
}

/* Many square ones by one call; info may be memory that nobody reads. */
static bool is_lu_many(const job *j) { return j->m == j->n && is_many(j, j->a->batch > 8 ? 256 : 16); }

/* The LU of each matrix in `lu`: ptr[0], or a copy of ptr[5]. */
static tide_status factor(const job *j, void *lu, int *pivots, int *info) {
  int elements = 0, *ignored, least = j->m < j->n ? j->m : j->n, rc = 0;
  int64_t step = (int64_t)j->m * j->n * item_of(j);
  CUDA_SCRATCH(work);
  if (is_lu_many(j)) {
    TIDE_TRY(list_get(&work, j, lu, step));
    return check_blas(j, blas.getrf_batched[j->type](j->blas, j->n, work.memory, j->n, pivots, info, (int)j->a->batch));
  }
  TIDE_TRY(check_solver(j, solver.getrf_size[j->type](j->solver, j->m, j->n, lu, j->m, &elements)));
  TIDE_TRY(scratch_get(&work, &ignored, j, elements));
  for (int64_t i = 0; i < j->a->batch && !rc; i++)
    rc = solver.getrf[j->type](j->solver, j->m, j->n, (char *)lu + i * step, j->m, work.memory, pivots + i * least,
                               info + i);
  return check_solver(j, rc);
}

static tide_status do_lu(const job *j) {
  return tidek_linalg_is_small(j->a) ? do_small(j) : factor(j, j->a->head.ptr[0], j->a->head.ptr[1], j->a->head.ptr[4]);
}

static const void *one_of(const job *j) {
  static const float one_float[2] = {1, 0};
  static const double one_double[2] = {1, 0};
  return j->type & 1 ? (const void *)one_double : (const void *)one_float;
}

/* An LU of each matrix of ptr[5]; behind its pivots stands what is said of it where nobody asks. `turned`: what is
 * factored is the transpose of what lies there. */
static tide_status lu_of_copy(cuda_scratch *lu, int **pivots, const job *j, bool turned) {
  static const double zero[2];
  int64_t n = j->n, batch = j->a->batch;
  size_t bytes = (size_t)(n * n * batch * item_of(j) + 15) / 16 * 16, ints = (size_t)(n * batch) * sizeof(int);
  TIDE_TRY(cuda_scratch_get(lu, j->stream, bytes + ints + (size_t)batch * sizeof(int)));
  *pivots = (int *)(void *)((char *)lu->memory + bytes);
  if (!turned)
    TIDE_TRY(check_cuda(j, cudaMemcpyAsync(lu->memory, j->a->head.ptr[5], (size_t)(n * n * batch * item_of(j)),
                                           cudaMemcpyDeviceToDevice, j->s->handle)));
  for (int64_t i = 0; i < batch && turned; i++) {
    const void *from = at(j, 5, i, n * n, item_of(j));
    TIDE_TRY(check_blas(j, blas.geam[j->type](j->blas, OP_TRANSPOSE, OP_NONE, j->n, j->n, one_of(j), from, j->n, zero,
                                              from, j->n, (char *)lu->memory + i * n * n * item_of(j), j->n)));
  }
  return factor(j, lu->memory, *pivots, j->a->head.ptr[4] ? j->a->head.ptr[4] : *pivots + n * batch);
}

/* Right sides for which two triangles are solved faster than the library does it. */
static bool is_wide(const job *j) { return j->n >= 128 && j->k >= 64; }

static tide_status solve_wide(const job *j, const void *lu, const int *pivots, void *x) {
  int n = j->n, k = j->k;
  TIDE_TRY(check_solver(j, solver.laswp[j->type](j->solver, k, x, n, 1, n, pivots, 1)));
  int rc = blas.trsm[j->type](j->blas, 0, TRIANGLE_LOWER, OP_NONE, 1, n, k, one_of(j), lu, n, x, n);
  if (!rc) rc = blas.trsm[j->type](j->blas, 0, TRIANGLE_UPPER, OP_NONE, 0, n, k, one_of(j), lu, n, x, n);
  return check_blas(j, rc);
}

static tide_status solve_by(const job *j, void *all, int *pivots, int op) {
  int64_t n = j->n, batch = j->a->batch, step = n * n * item_of(j);
  int rc = 0, wrong = 0;
  if (is_lu_many(j)) {
    CUDA_SCRATCH(list);
    CUDA_SCRATCH(sides);
    TIDE_TRY(list_get(&list, j, all, step));
    TIDE_TRY(list_get(&sides, j, j->a->head.ptr[0], j->a->step * item_of(j)));
    return check_blas(j, blas.getrs_batched[j->type](j->blas, op, j->n, j->k, list.memory, j->n, pivots, sides.memory,
                                                     j->n, &wrong, (int)batch));
  }
  for (int64_t i = 0; i < batch && !rc; i++) {
    const void *lu = (char *)all + i * step;
    if (is_wide(j))
      TIDE_TRY(solve_wide(j, lu, pivots + i * n, matrix(j, i)));
    else
      rc = solver.getrs[j->type](j->solver, op, j->n, j->k, lu, j->n, pivots + i * n, matrix(j, i), j->n,
                                 pivots + n * batch);
  }
  return check_solver(j, rc);
}

static tide_status do_solve(const job *j) {
  bool by_rows = j->a->flags & TIDE_LINALG_TRANSPOSED, turned = by_rows && is_wide(j) && !is_lu_many(j);
  int *pivots;
  CUDA_SCRATCH(lu);
  if (tidek_linalg_is_small(j->a)) return do_small(j);
  TIDE_TRY(lu_of_copy(&lu, &pivots, j, turned));
  if (j->a->flags & TIDE_LINALG_INVERSE)
    TIDE_TRY(check_cuda(j, tidek_identities(j->s->handle, j->type, j->a->head.ptr[0], j->n, j->a->batch)));
  return solve_by(j, lu.memory, pivots, by_rows && !turned ? OP_TRANSPOSE : OP_NONE);
}

/* That of the transpose is the same. */
static tide_status do_det(const job *j) {
  int *pivots;
  CUDA_SCRATCH(lu);
  if (tidek_linalg_is_small(j->a)) return do_small(j);
  TIDE_TRY(lu_of_copy(&lu, &pivots, j, false));
  return check_cuda(j, tidek_determinants(j->s->handle, j->a, lu.memory, pivots));
}

/* ---- triangles, QR ---- */

static tide_status do_triangular(const job *j) {
  int flags = j->a->flags, side = flags & TIDE_LINALG_LEFT ? 0 : 1, unit = flags & TIDE_LINALG_UNIT ? 1 : 0;
  int op = flags & TIDE_LINALG_TRANSPOSED ? OP_TRANSPOSE : OP_NONE, rc = 0;
  if (j->a->batch > 1 && j->k <= 512) {
    CUDA_SCRATCH(list);
    CUDA_SCRATCH(sides);
    TIDE_TRY(list_get(&list, j, j->a->head.ptr[5], j->a->other_step * item_of(j)));
    TIDE_TRY(list_get(&sides, j, j->a->head.ptr[0], j->a->step * item_of(j)));
    return check_blas(j, blas.trsm_batched[j->type](j->blas, side, j->triangle, op, unit, j->m, j->n, one_of(j),
                                                    list.memory, j->k, sides.memory, j->m, (int)j->a->batch));
  }
  for (int64_t i = 0; i < j->a->batch && !rc; i++)
    rc = blas.trsm[j->type](j->blas, side, j->triangle, op, unit, j->m, j->n, one_of(j),
                            at(j, 5, i, j->a->other_step, item_of(j)), j->k, matrix(j, i), j->m);
  return check_blas(j, rc);
}

static tide_status do_qr(const job *j, bool q) {
  int elements = 0, *ignored, reflectors = q ? j->k : j->m < j->n ? j->m : j->n;
  void *tau = j->a->head.ptr[1];
  CUDA_SCRATCH(work);
  int rc = q ? solver.orgqr_size[j->type](j->solver, j->m, j->n, j->k, matrix(j, 0), j->m, tau, &elements)
             : solver.geqrf_size[j->type](j->solver, j->m, j->n, matrix(j, 0), j->m, &elements);
  TIDE_TRY(check_solver(j, rc));
  TIDE_TRY(scratch_get(&work, &ignored, j, elements));
  for (int64_t i = 0; i < j->a->batch && !rc; i++) {
    tau = at(j, 1, i, reflectors, item_of(j));
    rc = q ? solver.orgqr[j->type](j->solver, j->m, j->n, j->k, matrix(j, i), j->m, tau, work.memory, elements, ignored)
           : solver.geqrf[j->type](j->solver, j->m, j->n, matrix(j, i), j->m, tau, work.memory, elements, ignored);
  }
  return check_solver(j, rc);
}

/* ---- routines that work on the host, too ---- */

typedef struct room {
  void *device, *host;
  size_t bytes, host_bytes;
} room;

/* `more` bytes lie behind those that the routine wants, at (char *)r->device + r->bytes. */
static tide_status room_get(room *r, const job *j, size_t more) {
  r->host = NULL;
  r->bytes = (r->bytes + 255) / 256 * 256;
  TIDE_TRY(tide__cuda_host->scratch_get(&r->device, j->stream, r->bytes + more + 1));
  if (r->host_bytes && !(r->host = malloc(r->host_bytes))) {
    tide__cuda_host->scratch_put(j->stream, r->device);
    return tide__cuda_host->fail(TIDE_MEMORY, "%s: no host memory for %zu bytes", j->what, r->host_bytes);
  }
  return TIDE_OK;
}

/* The routine may still read its host memory. */
static tide_status room_put(const room *r, const job *j, int rc) {
  int waited = r->host ? cudaStreamSynchronize(j->s->handle) : 0;
  tide__cuda_host->scratch_put(j->stream, r->device);
  free(r->host);
  TIDE_TRY(check_solver(j, rc));
  return check_cuda(j, waited);
}

/* ---- singular values ---- */

/* Many small ones, by Jacobi's method. It gives all columns of U, and V. They are made where only the values are wanted
 * too: without them, and asked for its memory without their places, the method wrote outside of what it was given. */
static tide_status do_svd_jacobi(const job *j) {
  enum { VECTORS = 1, APART = 256 };
  int64_t n = j->n, m = j->m, batch = j->a->batch, columns = j->a->flags & TIDE_LINALG_FULL ? m : n;
  size_t item = (size_t)item_of(j), all_u = (size_t)(m * m * batch) * item, all_v = (size_t)(n * n * batch) * item;
  void *a = matrix(j, 0), *s = j->a->head.ptr[1], *jacobi = NULL;
  int elements = 0;
  TIDE_TRY(check_solver(j, solver.create_jacobi(&jacobi)));
  int rc = solver.gesvdj_batched_size[j->type](j->solver, VECTORS, j->m, j->n, a, j->m, s, a, j->m, a, j->n, &elements,
                                               jacobi, (int)batch);
  tide_status status = check_solver(j, rc);
  room r = {.bytes = ((size_t)elements * item + APART - 1) / APART * APART};
  all_u = (all_u + APART - 1) / APART * APART;
  if (status == TIDE_OK) status = room_get(&r, j, all_u + all_v);
  if (status == TIDE_OK) {
    char *u = (char *)r.device + r.bytes, *v = u + all_u;
    rc = solver.gesvdj_batched[j->type](j->solver, VECTORS, j->m, j->n, a, j->m, s, u, j->m, v, j->n, r.device,
                                        elements, j->info, jacobi, (int)batch);
    if (!rc && j->a->head.ptr[2]) {
      size_t row = (size_t)(m * columns) * item;
      int moved = cudaMemcpy2DAsync(j->a->head.ptr[2], row, u, (size_t)(m * m) * item, row, (size_t)batch,
                                    cudaMemcpyDeviceToDevice, j->s->handle);
      if (!moved) moved = tidek_adjoint(j->s->handle, j->type, j->a->head.ptr[3], v, n, batch);
      status = check_cuda(j, moved);
    }
    tide_status last = room_put(&r, j, rc);
    if (status == TIDE_OK) status = last;
  }
  solver.destroy_jacobi(jacobi);
  return status;
}

/* By reduction to two diagonals. */
static tide_status do_svd_diagonals(const job *j, int64_t i) {
  int type = cuda_types[j->type], real = j->type & 1, full = j->a->flags & TIDE_LINALG_FULL;
  signed char jobs = !j->a->head.ptr[2] ? 'N' : full ? 'A' : 'S';
  int64_t square = (int64_t)j->n * j->n, left = (int64_t)j->m * (full ? j->m : j->n);
  void *a = matrix(j, i), *s = at(j, 1, i, j->n, real_of(j)), *u = at(j, 2, i, left, item_of(j));
  void *vh = at(j, 3, i, square, item_of(j));
  room r;
  TIDE_TRY(check_solver(j, solver.gesvd_size(j->solver, j->params, jobs, jobs, j->m, j->n, type, a, j->m, real, s, type,
                                             u, j->m, type, vh, j->n, type, &r.bytes, &r.host_bytes)));
  TIDE_TRY(room_get(&r, j, 0));
  int rc = solver.gesvd(j->solver, j->params, jobs, jobs, j->m, j->n, type, a, j->m, real, s, type, u, j->m, type, vh,
                        j->n, type, r.device, r.bytes, r.host, r.host_bytes, j->info + i);
  return room_put(&r, j, rc);
}

/* Matrices of eigenvalues, of twice the width: A, A^H A, its vectors with the last one first, and A by these. */
typedef struct wide_svd {
  char *a, *gram, *turned, *u, *values, *tau, *diagonal;
} wide_svd;

/* u becomes A V, whose QR has the left vectors in Q: its R differs from the diagonal of singular values by less than
 * the narrow type can tell from the largest one. */
static tide_status wide_vectors(const job *j, int64_t i, const wide_svd *w, void *work, int elements, int *ignored) {
  static const double zero[2], one[2] = {1, 0};
  int type = j->type + 1, wide = cuda_types[type], item = item_sizes[type];
  int64_t n = j->n, m = j->m, columns = j->a->flags & TIDE_LINALG_FULL ? m : n;
  TIDE_TRY(
      check_cuda(j, tidek_turn_vectors(j->s->handle, j->type, at(j, 3, i, n * n, item_of(j)), w->turned, w->gram, n)));
  TIDE_TRY(check_blas(j, blas.gemm(j->blas, OP_NONE, OP_NONE, m, n, n, one, w->a, wide, m, w->turned, wide, n, zero,
                                   w->u, wide, m, COMPUTE_64, ALGORITHM_DEFAULT)));
  TIDE_TRY(check_solver(j, solver.geqrf[type](j->solver, j->m, j->n, w->u, j->m, w->tau, work, elements, ignored)));
  TIDE_TRY(check_cuda(j, cudaMemcpy2DAsync(w->diagonal, (size_t)item, w->u, (size_t)((m + 1) * item), (size_t)item,
                                           (size_t)n, cudaMemcpyDeviceToDevice, j->s->handle)));
  TIDE_TRY(check_solver(
      j, solver.orgqr[type](j->solver, j->m, (int)columns, j->n, w->u, j->m, w->tau, work, elements, ignored)));
  return check_cuda(j, tidek_narrow_columns(j->s->handle, j->type, at(j, 2, i, m * columns, item_of(j)), w->u,
                                            w->diagonal, m, columns, n));
}

static tide_status wide_one(const job *j, int64_t i, const wide_svd *w, const room *r, int elements, int *ignored) {
  static const double zero[2], one[2] = {1, 0};
  int type = j->type + 1, wide = cuda_types[type], vectors = j->a->head.ptr[2] != NULL;
  int64_t n = j->n, m = j->m;
  TIDE_TRY(check_cuda(j, tidek_widen(j->s->handle, j->type, w->a, matrix(j, i), m * n)));
  TIDE_TRY(check_blas(j, blas.gemm(j->blas, OP_ADJOINT, OP_NONE, n, n, m, one, w->a, wide, m, w->a, wide, m, zero,
                                   w->gram, wide, n, COMPUTE_64, ALGORITHM_DEFAULT)));
  TIDE_TRY(check_solver(j, solver.syevd(j->solver, j->params, vectors, TRIANGLE_LOWER, n, wide, w->gram, n, 1,
                                        w->values, wide, r->device, r->bytes, r->host, r->host_bytes, j->info + i)));
  TIDE_TRY(check_cuda(j, tidek_singular_values(j->s->handle, at(j, 1, i, n, 4), (const double *)(void *)w->values, n)));
  return vectors ? wide_vectors(j, i, w, r->device, elements, ignored) : TIDE_OK;
}

/* Those of float32 and complex64 by the eigenvalues of A^H A in twice the width, several times as fast: the square of a
 * singular value has the 48 bits that its 24 need. */
static tide_status do_svd_wide(const job *j) {
  int type = j->type + 1, wide = cuda_types[type], vectors = j->a->head.ptr[2] != NULL, most = 0, elements = 0;
  int64_t n = j->n, m = j->m, columns = !vectors ? 0 : j->a->flags & TIDE_LINALG_FULL ? m : n, item = item_sizes[type];
  room r;
  TIDE_TRY(check_solver(j, solver.syevd_size(j->solver, j->params, vectors, TRIANGLE_LOWER, n, wide, NULL, n, 1, NULL,
                                             wide, &r.bytes, &r.host_bytes)));
  if (vectors) {
    TIDE_TRY(check_solver(j, solver.geqrf_size[type](j->solver, j->m, j->n, NULL, j->m, &elements)));
    TIDE_TRY(check_solver(j, solver.orgqr_size[type](j->solver, j->m, (int)columns, j->n, NULL, j->m, NULL, &most)));
    if (most > elements) elements = most;
    if (r.bytes < (size_t)(elements * item)) r.bytes = (size_t)(elements * item);
  }
  int64_t all = m * n * item, square = n * n * item, vector = n * item;
  TIDE_TRY(room_get(&r, j, (size_t)(all + 2 * square + m * columns * item + 3 * vector + 16)));
  wide_svd w = {.a = (char *)r.device + r.bytes};
  w.gram = w.a + all, w.turned = w.gram + square, w.u = w.turned + square, w.values = w.u + m * columns * item;
  w.tau = w.values + vector, w.diagonal = w.tau + vector;
  tide_status status = TIDE_OK;
  for (int64_t i = 0; i < j->a->batch && status == TIDE_OK; i++)
    status = wide_one(j, i, &w, &r, elements, (int *)(void *)(w.diagonal + vector));
  tide_status last = room_put(&r, j, 0);
  return status == TIDE_OK ? last : status;
}

static tide_status do_svd(const job *j) {
  tide_status status = TIDE_OK;
  if (is_many(j, 32)) return do_svd_jacobi(j);
  if (j->type % 2 == 0) return do_svd_wide(j);
  for (int64_t i = 0; i < j->a->batch && status == TIDE_OK; i++) status = do_svd_diagonals(j, i);
  return status;
}

/* ---- eigenvalues ---- */

static tide_status do_eigh(const job *j) {
  int type = cuda_types[j->type], real = j->type & 1, vectors = j->a->flags & TIDE_LINALG_VECTORS ? 1 : 0;
  bool many = j->a->batch > 1 && !newer_problem[0];
  void *w = at(j, 1, 0, 0, 0);
  room r;
  int rc = many ? newer.syev_batched_size(j->solver, j->params, vectors, j->triangle, j->n, type, matrix(j, 0), j->n,
                                          real, w, type, &r.bytes, &r.host_bytes, j->a->batch)
                : solver.syevd_size(j->solver, j->params, vectors, j->triangle, j->n, type, matrix(j, 0), j->n, real, w,
                                    type, &r.bytes, &r.host_bytes);
  TIDE_TRY(check_solver(j, rc));
  TIDE_TRY(room_get(&r, j, 0));
  if (many)
    rc = newer.syev_batched(j->solver, j->params, vectors, j->triangle, j->n, type, matrix(j, 0), j->n, real, w, type,
                            r.device, r.bytes, r.host, r.host_bytes, j->info, j->a->batch);
  for (int64_t i = 0; i < j->a->batch && !many && !rc; i++)
    rc = solver.syevd(j->solver, j->params, vectors, j->triangle, j->n, type, matrix(j, i), j->n, real,
                      at(j, 1, i, j->n, real_of(j)), type, r.device, r.bytes, r.host, r.host_bytes, j->info + i);
  return room_put(&r, j, rc);
}

/* The eigenvectors of a real matrix come packed, behind the room that the routine wants, and are unpacked. */
static tide_status do_eig(const job *j) {
  if (newer_problem[0]) return tide__cuda_host->fail(TIDE_LIBRARY, "eig: %s", newer_problem);
  int type = cuda_types[j->type], values = j->type & 1 ? 5 : 4, vectors = j->a->head.ptr[2] != NULL;
  bool packed = vectors && j->type < 2;
  int64_t n = j->n;
  room r;
  int rc = newer.geev_size(j->solver, j->params, 0, vectors, n, type, matrix(j, 0), n, values, at(j, 1, 0, 0, 0), type,
                           NULL, n, type, at(j, 2, 0, 0, 0), n, type, &r.bytes, &r.host_bytes);
  TIDE_TRY(check_solver(j, rc));
  TIDE_TRY(room_get(&r, j, packed ? (size_t)(n * n) * (size_t)item_of(j) : 0));
  tide_status status = TIDE_OK;
  for (int64_t i = 0; i < j->a->batch && status == TIDE_OK && !rc; i++) {
    void *w = at(j, 1, i, n, 2 * real_of(j)), *v = at(j, 2, i, n * n, 2 * real_of(j));
    void *to = packed ? (char *)r.device + r.bytes : v;
    rc = newer.geev(j->solver, j->params, 0, vectors, n, type, matrix(j, i), n, values, w, type, NULL, n, type, to, n,
                    type, r.device, r.bytes, r.host, r.host_bytes, j->info + i);
    if (!rc && packed) status = check_cuda(j, tidek_unpack_eig(j->s->handle, j->type & 1, v, to, w, n));
  }
  tide_status last = room_put(&r, j, rc);
  return status == TIDE_OK ? last : status;
}

/* ---- the slot ---- */

static tide_status do_routine(const job *j) {
  switch (j->a->routine) {
  case TIDE_LINALG_CHOLESKY: return do_cholesky(j);
  case TIDE_LINALG_LU: return do_lu(j);
  case TIDE_LINALG_SOLVE: return do_solve(j);
  case TIDE_LINALG_DET: return do_det(j);
  case TIDE_LINALG_QR: return do_qr(j, false);
  case TIDE_LINALG_QR_Q: return do_qr(j, true);
  case TIDE_LINALG_SVD: return do_svd(j);
  case TIDE_LINALG_EIGH: return do_eigh(j);
  case TIDE_LINALG_EIG: return do_eig(j);
  default: return do_triangular(j);
  }
}

/* The device's handles, made where they are not there, on the stream. */
static tide_status take_handles(job *j) {
  int d = j->s->device, rc = 0, blas_rc = 0;
  CUDA_RELAXED;
  if (!handles[d].solver) rc = solver.create(&handles[d].solver);
  if (!rc && !handles[d].params) rc = solver.create_params(&handles[d].params);
  if (!rc && !handles[d].blas) blas_rc = blas.create(&handles[d].blas);
  if (!rc && !blas_rc) rc = solver.set_stream(handles[d].solver, j->s->handle);
  if (!rc && !blas_rc) blas_rc = blas.set_stream(handles[d].blas, j->s->handle);
  j->solver = handles[d].solver, j->params = handles[d].params, j->blas = handles[d].blas;
  TIDE_TRY(check_solver(j, rc));
  return check_blas(j, blas_rc);
}

tide_status tide__cuda_linalg(tide_stream *stream, const tide_linalg_args *a) {
#define ROUTINE(NAME, name) #name,
  static const char *const names[] = {TIDE_LINALG_ROUTINES(ROUTINE)};
  job j = {.a = a, .what = names[a->routine], .stream = stream, .s = cuda_stream_of(stream)};
  pthread_once(&solver_once, solver_open);
  if (solver_problem[0]) return tide__cuda_host->fail(TIDE_LIBRARY, "%s: %s", j.what, solver_problem);
  j.type = a->dtype - TIDE_FLOAT32, j.m = (int)a->m, j.n = (int)a->n, j.k = (int)a->k;
  j.triangle = a->flags & TIDE_LINALG_UPPER ? TRIANGLE_UPPER : TRIANGLE_LOWER, j.info = a->head.ptr[4];
  CUDA_ON(j.s->device);
  TIDE_LOCKED(&lock);
  TIDE_TRY(take_handles(&j));
  return do_routine(&j);
}
