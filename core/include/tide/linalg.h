/* tide/linalg.h: linear algebra by LAPACK on the CPU and by cuSOLVER on CUDA, which are opened at the first call. */
#ifndef TIDE_LINALG_H
#define TIDE_LINALG_H

#include "tide/tide.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The Cholesky factor of each matrix of x, [..., n, n] of a floating or complex dtype of at least 32 bits: lower with
 * L L^H = x, or upper with U^H U = x. Only that triangle of x is read. Waits for the device. VALUE where a matrix is
 * not positive definite: the message names the first such one and its leading minor. */
TIDE_API tide_status tide_linalg_cholesky(tide_tensor **out, const tide_tensor *x, bool upper, tide_tensor *into);

#ifdef __cplusplus
}
#endif
#endif
