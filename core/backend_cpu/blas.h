/* blas.h: a BLAS library, opened on first use. */
#ifndef TIDE_CPU_BLAS_H
#define TIDE_CPU_BLAS_H

#include <stdbool.h>
#include <stdint.h>

/* The constants of CBLAS. */
enum { TIDE_BLAS_ROWS = 101, TIDE_BLAS_PLAIN = 111, TIDE_BLAS_TRANSPOSED = 112 };

typedef void (*tide__sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                            const float *b, int ldb, float beta, float *c, int ldc);
typedef void (*tide__dgemm)(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                            const double *b, int ldb, double beta, double *c, int ldc);
typedef void (*tide__cgemm)(int order, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int lda,
                            const void *b, int ldb, const void *beta, void *c, int ldc);
typedef void (*tide__sgemv)(int order, int ta, int m, int n, float alpha, const float *a, int lda, const float *x,
                            int incx, float beta, float *y, int incy);
typedef void (*tide__dgemv)(int order, int ta, int m, int n, double alpha, const double *a, int lda, const double *x,
                            int incx, double beta, double *y, int incy);

typedef struct tide__blas {
  tide__sgemm sgemm;
  tide__dgemm dgemm;
  tide__cgemm cgemm, zgemm;
  tide__sgemv sgemv;
  tide__dgemv dgemv;
  void (*set_num_threads)(int n); /* NULL where the library has no such function */
  const char *name;
} tide__blas;

/* The library, or NULL if there is none on this machine. */
const tide__blas *tide__blas_get(void);
/* For tests: behave as if there were none. */
void tide__blas_hide(bool hidden);

#endif
