/* tidek_linalg.h: the launchers of linalg.cu and linalg_small.cu, beside those of tidek.h. Each returns the cudaError_t
 * of queueing its kernel. type: 0 to 3, float32 to complex128. Matrices are stored by columns without gaps. */
#pragma once

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "base/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* list[i] = first + i * bytes. */
int tidek_addresses(cudaStream_t stream, void **list, void *first, int64_t bytes, int64_t n);
/* to = the adjoint of each n by n matrix. They may not overlap. */
int tidek_adjoint(cudaStream_t stream, int type, void *to, const void *from, int64_t n, int64_t batch);
/* Eigenvectors of a real n by n matrix, float64 if `wide`, as LAPACK packs them, become complex ones; `values`: the
 * complex eigenvalues. */
int tidek_unpack_eig(cudaStream_t stream, int wide, void *to, const void *from, const void *values, int64_t n);

/* CHOLESKY, LU, SOLVE and DET of plan.h, where the matrices are so small that a warp holds one. */
bool tidek_linalg_is_small(const tide_linalg_args *a);
int tidek_linalg_small(cudaStream_t stream, const tide_linalg_args *a);
/* DET of plan.h, from the LU of each matrix and its pivots. */
int tidek_determinants(cudaStream_t stream, const tide_linalg_args *a, const void *lu, const int *pivots);
/* Identities of n rows. */
int tidek_identities(cudaStream_t stream, int type, void *to, int64_t n, int64_t batch);

/* Singular values and vectors by way of eigenvalues of twice the width, where type is float32 or complex64. */
/* n numbers in twice the width. */
int tidek_widen(cudaStream_t stream, int type, void *to, const void *from, int64_t n);
/* s[i] = the root of the last eigenvalue but i. */
int tidek_singular_values(cudaStream_t stream, float *s, const double *eigenvalues, int64_t n);
/* The last eigenvector becomes the first: `turned`, and in type's width its adjoint, `vh`. */
int tidek_turn_vectors(cudaStream_t stream, int type, void *vh, void *turned, const void *vectors, int64_t n);
/* Column j of m rows in type's width, times the sign of diagonal[j] where j < n. */
int tidek_narrow_columns(cudaStream_t stream, int type, void *to, const void *from, const void *diagonal, int64_t m,
                         int64_t columns, int64_t n);

#ifdef __cplusplus
}
#endif
