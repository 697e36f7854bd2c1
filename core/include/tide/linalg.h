/* tide/linalg.h: linear algebra by LAPACK on the CPU and by cuSOLVER on CUDA, which are opened at the first call.
 * LAPACK is the library that the environment's TIDE_LAPACK names, else libopenblas.so.0 or liblapack.so.3.
 *
 * x and a are [..., m, n], or [..., n, n] where they have to be square: a batch of matrices, of float32, float64,
 * complex64 or complex128, in any layout. Every function waits for the device, but where nothing has elements. VALUE
 * where a matrix has no such factors or solution: the message names the first such one. */
#ifndef TIDE_LINALG_H
#define TIDE_LINALG_H

#include "tide/tide.h"

TIDE_C_BEGIN

/* The Cholesky factor of each matrix of x, square: lower with L L^H = x, or upper with U^H U = x. Only that triangle of
 * x is read. VALUE where a matrix is not positive definite: the message names its leading minor. */
TIDE_API tide_status tide_linalg_cholesky(tide_tensor **out, const tide_tensor *x, bool upper, tide_tensor *into);
/* x = P L U, with L (whose diagonal is 1 and is not there) and U in one, [..., m, n]. pivots: int32, [..., min(m, n)],
 * the row that each row changed places with, one after the other, from 1. Singular matrices are factored, too. */
TIDE_API tide_status tide_linalg_lu_factor(tide_tensor **lu, tide_tensor **pivots, const tide_tensor *x);
/* The solution of a X = b for square a; batches broadcast. b: [..., n, k], or [..., n] where it has one dim or the size
 * of a without its last one; NULL: the identity, which gives the inverse. VALUE where a matrix is singular. */
TIDE_API tide_status tide_linalg_solve(tide_tensor **out, const tide_tensor *a, const tide_tensor *b);
/* The determinant of each square matrix. logarithm, unless it is NULL: of its absolute value, real, -inf for 0;
 * det is what it is divided by its absolute value then, or 0. */
TIDE_API tide_status tide_linalg_det(tide_tensor **det, tide_tensor **logarithm, const tide_tensor *x);
/* The solution of a X = b, or X a = b unless `left`, for triangular a. The other triangle is not read, nor the
 * diagonal if `unit`, which then counts as 1; batches broadcast. A zero on the diagonal gives infinities or NaN. */
TIDE_API tide_status tide_linalg_triangular_solve(tide_tensor **out, const tide_tensor *a, const tide_tensor *b,
                                                  bool upper, bool left, bool unit);
/* x = Q R. complete: Q is [..., m, m] and R [..., m, n], else [..., m, min(m, n)] and [..., min(m, n), n]. q NULL: it
 * is not computed. */
TIDE_API tide_status tide_linalg_qr(tide_tensor **q, tide_tensor **r, const tide_tensor *x, bool complete);
/* x = U diag(s) V^H, s falling. full: U and V^H are square. u and vh NULL: they are not computed. VALUE where it does
 * not converge, as for NaN. */
TIDE_API tide_status tide_linalg_svd(tide_tensor **u, tide_tensor **s, tide_tensor **vh, const tide_tensor *x,
                                     bool full);
/* The real eigenvalues, rising, and eigenvectors, in columns, of each Hermitian matrix; one triangle is read.
 * v NULL: they are not computed. VALUE where it does not converge. */
TIDE_API tide_status tide_linalg_eigh(tide_tensor **w, tide_tensor **v, const tide_tensor *x, bool upper);
/* The eigenvalues, in no order, and eigenvectors, in columns of length 1, of each square matrix; complex. v NULL: they
 * are not computed. VALUE where it does not converge, and for infinities and NaN. */
TIDE_API tide_status tide_linalg_eig(tide_tensor **w, tide_tensor **v, const tide_tensor *x);

TIDE_C_END
#endif
