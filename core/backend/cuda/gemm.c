/* gemm.c: matrix products by cuBLAS, which is opened at the first one. Integers and what is small have kernels of ours.
 *
 * cuBLAS stores matrices by columns: a row-major C = A B is its C' = B' A', so the operands change places and nothing
 * is transposed in memory. Handles are kept for each device and used by one call at a time, one that last served the
 * same stream if there is one; each call brings its own workspace from core's allocator, so two streams never share
 * one.
 *
 * Invariant: a handle in the list is idle; one in use is in no list. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* Values of cublas_api.h and library_types.h, which are part of cuBLAS's binary interface. */
enum { OP_NONE = 0, OP_TRANSPOSE = 1 };
enum { REAL32 = 0, REAL64 = 1, REAL16 = 2, COMPLEX32 = 4, COMPLEX64 = 5, BRAIN16 = 14 };
enum { COMPUTE_32 = 68, COMPUTE_64 = 70, COMPUTE_32_TF32 = 77 };
enum { ALGORITHM_DEFAULT = -1, STATUS_ALLOC_FAILED = 3 };

static tide__cublas blas;

/* ---- opening ---- */

static pthread_once_t blas_once = PTHREAD_ONCE_INIT;
static char blas_problem[512];

static void blas_open(void) { tide__library_open(&blas, TIDE__LIBRARY_cublas, blas_problem, sizeof blas_problem); }

bool tide__cuda_has_blas(void) {
  pthread_once(&blas_once, blas_open);
  return !blas_problem[0];
}

/* ---- handles ---- */

typedef struct blas_handle {
  void *handle;
  cudaStream_t stream;
  void *workspace; /* that it was given last, unless it was bound to another stream since */
  struct blas_handle *next;
} blas_handle;

static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;
static blas_handle *handles[TIDE_MAX_DEVICES];

static tide_status blas_fail(const char *what, int status) {
  cudaGetLastError();
  if (status == STATUS_ALLOC_FAILED)
    return tide__cuda_host->fail(TIDE_MEMORY, "matmul: out of memory in cuBLAS (%s)", what);
  return tide__cuda_host->fail(TIDE_ACCELERATOR, "matmul: cuBLAS failed in %s: %s", what, blas.status_string(status));
}

/* An idle handle, bound to the stream. */
static tide_status handle_take(blas_handle **out, const cuda_stream *s) {
  pthread_mutex_lock(&handles_lock);
  blas_handle **p = &handles[s->device];
  while (*p && (*p)->stream != s->handle) p = &(*p)->next;
  if (!*p) p = &handles[s->device];
  blas_handle *h = *p;
  if (h) *p = h->next;
  pthread_mutex_unlock(&handles_lock);
  int status = 0;
  if (!h) {
    h = calloc(1, sizeof *h);
    if (!h) return tide__cuda_host->fail(TIDE_MEMORY, "matmul: no host memory");
    CUDA_RELAXED;
    status = blas.create(&h->handle);
    if (!status) status = blas.set_stream(h->handle, s->handle);
  } else if (h->stream != s->handle) {
    status = blas.set_stream(h->handle, s->handle);
  }
  if (status) {
    if (h->handle) blas.destroy(h->handle);
    free(h);
    return blas_fail("cublasCreate", status);
  }
  if (h->stream != s->handle) h->stream = s->handle, h->workspace = NULL; /* binding it sets its own one */
  *out = h;
  return TIDE_OK;
}

static void handle_put(blas_handle *h, int device) {
  TIDE_LOCKED(&handles_lock);
  h->next = handles[device], handles[device] = h;
}

/* ---- the handle for others ---- */

/* One for each device, which no product of ours uses: what a caller sets in it stays. */
static void *user_handle[TIDE_MAX_DEVICES];

tide_status tide__cuda_blas_handle(uint64_t *out, tide_stream *stream) {
  CUDA_ON_STREAM(s, cuda_stream_of(stream));
  pthread_once(&blas_once, blas_open);
  if (blas_problem[0]) return tide__cuda_host->fail(TIDE_LIBRARY, "current_blas_handle: %s", blas_problem);
  TIDE_LOCKED(&handles_lock);
  int status = user_handle[s->device] ? 0 : blas.create(&user_handle[s->device]);
  if (!status) status = blas.set_stream(user_handle[s->device], s->handle);
  if (status) return blas_fail("cublasCreate", status);
  *out = (uint64_t)(uintptr_t)user_handle[s->device];
  return TIDE_OK;
}

void tide__cuda_gemm_close(void) {
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    if (user_handle[d]) {
      CUDA_ON(d);
      blas.destroy(user_handle[d]);
      user_handle[d] = NULL;
    }
    if (!handles[d]) continue;
    CUDA_ON(d);
    for (blas_handle *h = handles[d], *next; h; h = next) {
      next = h->next;
      blas.destroy(h->handle);
      free(h);
    }
    handles[d] = NULL;
  }
  cudaGetLastError();
}

/* ---- the product ---- */

/* How cuBLAS reads a row-major operand: as its transpose if its rows are contiguous. */
typedef struct operand {
  int op;
  int64_t ld;
} operand;

static operand operand_of(int64_t rows, int64_t cols, int64_t row, int64_t col) {
  bool by_rows = cols == 1 || (col == 1 && (rows == 1 || row >= cols));
  int64_t ld = by_rows ? row : col, least = by_rows ? cols : rows;
  bool one = by_rows ? rows == 1 : cols == 1;
  return (operand){by_rows ? OP_NONE : OP_TRANSPOSE, one || ld < least ? least : ld};
}

static int type_of(int dtype) {
  switch (dtype) {
  case TIDE_FLOAT16: return REAL16;
  case TIDE_BFLOAT16: return BRAIN16;
  case TIDE_FLOAT32: return REAL32;
  case TIDE_FLOAT64: return REAL64;
  case TIDE_COMPLEX64: return COMPLEX32;
  default: return COMPLEX64;
  }
}

typedef union factor {
  float f[2];
  double d[2];
} factor;

static factor factor_of(tide_value v, bool wide) {
  factor out;
  if (wide)
    out.d[0] = v.re, out.d[1] = v.im;
  else
    out.f[0] = (float)v.re, out.f[1] = (float)v.im;
  return out;
}

static int product(void *handle, const tide_gemm_args *a) {
  operand x = operand_of(a->m, a->k, a->a_row, a->a_col), y = operand_of(a->k, a->n, a->b_row, a->b_col);
  bool wide = a->dtype == TIDE_FLOAT64 || a->dtype == TIDE_COMPLEX128;
  int type = type_of(a->dtype), compute = wide ? COMPUTE_64 : COMPUTE_32;
  if (a->dtype == TIDE_FLOAT32 && a->tf32) compute = COMPUTE_32_TF32;
  factor alpha = factor_of(a->alpha, wide), beta = factor_of(a->beta, wide);
  int64_t ld_c = a->m == 1 || a->c_row < a->n ? a->n : a->c_row;
  if (a->batch == 1)
    return blas.gemm(handle, y.op, x.op, a->n, a->m, a->k, &alpha, a->head.ptr[2], type, y.ld, a->head.ptr[1], type,
                     x.ld, &beta, a->head.ptr[0], type, ld_c, compute, ALGORITHM_DEFAULT);
  return blas.gemm_batched(handle, y.op, x.op, a->n, a->m, a->k, &alpha, a->head.ptr[2], type, y.ld, a->b_batch,
                           a->head.ptr[1], type, x.ld, a->a_batch, &beta, a->head.ptr[0], type, ld_c, a->c_batch,
                           a->batch, compute, ALGORITHM_DEFAULT);
}

/* On Hopper and later cuBLAS's fast kernels want more room. Without any, slower ones are chosen. */
static tide_status with_workspace(const cuda_stream *s, tide_stream *stream, blas_handle *h, const tide_gemm_args *a) {
  size_t bytes = tide__cuda_devices[s->device].major >= 9 ? (size_t)32 << 20 : (size_t)8 << 20;
  void *workspace = NULL;
  if (tide__cuda_host->scratch_try(&workspace, stream, bytes) != TIDE_OK) workspace = NULL, bytes = 0;
  int status = workspace && workspace == h->workspace ? 0 : blas.set_workspace(h->handle, workspace, bytes);
  if (!status) h->workspace = workspace, status = product(h->handle, a);
  if (workspace) tide__cuda_host->scratch_put(stream, workspace);
  return status ? blas_fail("gemm", status) : TIDE_OK;
}

tide_status tide__cuda_gemm(tide_stream *stream, const tide_gemm_args *a) {
  CUDA_ON_STREAM(s, cuda_stream_of(stream));
  if (a->dtype <= TIDE_INT64) return tide__cuda_check(s->device, "matmul", tidek_gemm_integer(s->handle, a));
  if (tidek_gemm_is_small(a)) return tide__cuda_check(s->device, "matmul", tidek_gemm_small(s->handle, a));
  blas_handle *h = NULL;
  pthread_once(&blas_once, blas_open);
  if (blas_problem[0]) return tide__cuda_host->fail(TIDE_LIBRARY, "matmul: %s", blas_problem);
  TIDE_TRY(handle_take(&h, s));
  tide_status status = with_workspace(s, stream, h, a);
  handle_put(h, s->device);
  return status;
}
