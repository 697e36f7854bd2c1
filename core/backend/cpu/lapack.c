/* lapack.c: what LAPACK computes; it is opened at the first call (library.def).
 *
 * LAPACK stores matrices by columns: what it finds in our rows is the transpose, of which the upper triangle is our
 * lower one. Its factor U there, with U^H U the transposed matrix, read by rows is the lower factor. Matrices of a
 * batch are spread over the threads; the library's own threads, if it has any, are its affair.
 *
 * Invariant: nothing is computed where a function of the library is missing. */
#include "backend/library.h"
#include "layout.h"

static tide__lapack lapack;
static pthread_once_t lapack_once = PTHREAD_ONCE_INIT;
static char lapack_problem[512];

static void lapack_open(void) {
  tide__library_open(&lapack, TIDE__LIBRARY_lapack, lapack_problem, sizeof lapack_problem);
}

tide_status tide__cpu_has_lapack(const char *kernel) {
  pthread_once(&lapack_once, lapack_open);
  return lapack_problem[0] ? tide__fail(TIDE_LIBRARY, "%s: %s", kernel, lapack_problem) : TIDE_OK;
}

static void factor_some(void *arg, int64_t begin, int64_t end) {
  const tide_cholesky_args *a = arg;
  const char *triangle = a->upper ? "L" : "U";
  const int n = (int)a->n;
  size_t bytes = (size_t)(a->n * a->n * tide__item(a->dtype));
  int32_t *order = a->head.ptr[1];
  for (int64_t i = begin; i < end; i++) {
    void *matrix = (char *)a->head.ptr[0] + (size_t)i * bytes;
    int info = 0;
    switch (a->dtype) {
    case TIDE_FLOAT32: lapack.spotrf(triangle, &n, matrix, &n, &info, 1); break;
    case TIDE_FLOAT64: lapack.dpotrf(triangle, &n, matrix, &n, &info, 1); break;
    case TIDE_COMPLEX64: lapack.cpotrf(triangle, &n, matrix, &n, &info, 1); break;
    default: lapack.zpotrf(triangle, &n, matrix, &n, &info, 1); break;
    }
    order[i] = info;
  }
}

tide_status tide__cpu_cholesky(tide_stream *stream, const tide_cholesky_args *a) {
  (void)stream;
  TIDE_TRY(tide__cpu_has_lapack("cholesky"));
  tide_cholesky_args copy = *a;
  tide__spread(a->batch, a->n * a->n * a->n / 8 + 1, factor_some, &copy);
  return TIDE_OK;
}
