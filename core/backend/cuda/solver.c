/* solver.c: what cuSOLVER computes; it is opened at the first call (library.def).
 *
 * Matrices are stored by columns there: the lower triangle of our rows is its upper one, and the factors are the same
 * bytes. One matrix, and large ones, are factored one after another in scratch memory of the stream; many small ones by
 * one call, which takes a list of their addresses. One handle for each device serves one call at a time.
 *
 * Invariant: a handle is bound to a stream under the lock, and so are the calls that use it. */
#include "internal.h"

#include <stdlib.h>

/* Values of cublas_api.h and cusolver_common.h, which are part of the binary interface. */
enum { TRIANGLE_LOWER = 0, TRIANGLE_UPPER = 1, STATUS_ALLOC_FAILED = 2 };
enum { SMALL = 512 };

static tide__cusolver solver;
static pthread_once_t solver_once = PTHREAD_ONCE_INIT;
static char solver_problem[512];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *handles[TIDE_MAX_DEVICES];

static void solver_open(void) {
  tide__library_open(&solver, TIDE__LIBRARY_cusolver, solver_problem, sizeof solver_problem);
}

static tide_status solver_fail(const char *what, int status) {
  cudaGetLastError();
  if (status == STATUS_ALLOC_FAILED)
    return tide__cuda_host->fail(TIDE_MEMORY, "%s: out of memory in cuSOLVER (code %d)", what, status);
  return tide__cuda_host->fail(TIDE_ACCELERATOR, "%s: cuSOLVER failed, got code %d", what, status);
}

void tide__cuda_solver_close(void) {
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    if (!handles[d]) continue;
    cuda_scope scope = cuda_enter(d);
    solver.destroy(handles[d]);
    handles[d] = NULL;
    cuda_leave(scope);
  }
  cudaGetLastError();
}

static int size_of(int dtype) {
  static const int sizes[] = {[TIDE_FLOAT32] = 4, [TIDE_FLOAT64] = 8, [TIDE_COMPLEX64] = 8, [TIDE_COMPLEX128] = 16};
  return sizes[dtype];
}

typedef struct potrf {
  int (*size)(void *handle, int triangle, int n, void *a, int ld, int *elements);
  int (*one)(void *handle, int triangle, int n, void *a, int ld, void *work, int elements, int *info);
  int (*batched)(void *handle, int triangle, int n, void **a, int ld, int *info, int batch);
} potrf;

static potrf potrf_of(int dtype) {
  switch (dtype) {
  case TIDE_FLOAT32: return (potrf){solver.spotrf_size, solver.spotrf, solver.spotrf_batched};
  case TIDE_FLOAT64: return (potrf){solver.dpotrf_size, solver.dpotrf, solver.dpotrf_batched};
  case TIDE_COMPLEX64: return (potrf){solver.cpotrf_size, solver.cpotrf, solver.cpotrf_batched};
  default: return (potrf){solver.zpotrf_size, solver.zpotrf, solver.zpotrf_batched};
  }
}

static void *matrix_of(const tide_cholesky_args *a, int64_t i) {
  return (char *)a->head.ptr[0] + (size_t)(i * a->n * a->n * size_of(a->dtype));
}

static tide_status factor_each(void *handle, tide_stream *stream, const tide_cholesky_args *a, int triangle) {
  potrf f = potrf_of(a->dtype);
  int n = (int)a->n, elements = 0, *info = a->head.ptr[1];
  void *work = NULL;
  int status = f.size(handle, triangle, n, a->head.ptr[0], n, &elements);
  if (status) return solver_fail("cholesky", status);
  size_t bytes = (size_t)elements * (size_t)size_of(a->dtype);
  TIDE_TRY(tide__cuda_host->scratch_get(&work, stream, bytes ? bytes : 1));
  for (int64_t i = 0; i < a->batch && !status; i++)
    status = f.one(handle, triangle, n, matrix_of(a, i), n, work, elements, info + i);
  tide__cuda_host->scratch_put(stream, work);
  return status ? solver_fail("cholesky", status) : TIDE_OK;
}

/* The list of addresses is pageable memory, which the runtime has read when the copy returns. */
static tide_status factor_many(void *handle, tide_stream *stream, const tide_cholesky_args *a, int triangle) {
  size_t bytes = (size_t)a->batch * sizeof(void *);
  int n = (int)a->n;
  void *list = NULL, **addresses = malloc(bytes);
  if (!addresses) return tide__cuda_host->fail(TIDE_MEMORY, "cholesky: no host memory for %zu bytes", bytes);
  for (int64_t i = 0; i < a->batch; i++) addresses[i] = matrix_of(a, i);
  tide_status status = tide__cuda_host->scratch_get(&list, stream, bytes);
  if (status == TIDE_OK) {
    const cuda_stream *s = cuda_stream_of(stream);
    int rc = cudaMemcpyAsync(list, addresses, bytes, cudaMemcpyHostToDevice, s->handle);
    status = tide__cuda_check(s->device, "cholesky", rc);
    rc =
        status == TIDE_OK ? potrf_of(a->dtype).batched(handle, triangle, n, list, n, a->head.ptr[1], (int)a->batch) : 0;
    if (rc) status = solver_fail("cholesky", rc);
    tide__cuda_host->scratch_put(stream, list);
  }
  free(addresses);
  return status;
}

tide_status tide__cuda_cholesky(tide_stream *stream, const tide_cholesky_args *a) {
  const cuda_stream *s = cuda_stream_of(stream);
  pthread_once(&solver_once, solver_open);
  if (solver_problem[0]) return tide__cuda_host->fail(TIDE_LIBRARY, "cholesky: %s", solver_problem);
  int triangle = a->upper ? TRIANGLE_LOWER : TRIANGLE_UPPER;
  cuda_scope scope = cuda_enter(s->device);
  pthread_mutex_lock(&lock);
  int rc = handles[s->device] ? 0 : solver.create(&handles[s->device]);
  void *handle = handles[s->device];
  if (!rc) rc = solver.set_stream(handle, s->handle);
  tide_status status = rc                              ? solver_fail("cholesky", rc)
                       : a->batch == 1 || a->n > SMALL ? factor_each(handle, stream, a, triangle)
                                                       : factor_many(handle, stream, a, triangle);
  pthread_mutex_unlock(&lock);
  cuda_leave(scope);
  return status;
}
