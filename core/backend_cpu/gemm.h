/* gemm.h: what the files of the matrix products share. */
#ifndef TIDE_CPU_GEMM_H
#define TIDE_CPU_GEMM_H

#include "layout.h"

/* Any dtype but the 16-bit floats, any strides. */
tide_status tide__gemm_own(const tide_gemm_args *a);

#endif
