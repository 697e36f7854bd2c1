/* tidek_pack.h: the launcher of pack.cu, beside those of tidek.h. */
#pragma once

#include <cuda_runtime_api.h>

#include "base/pack.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The cudaError_t of queueing it; n is at least 1. */
int tidek_pack(cudaStream_t stream, const tide_pack_args *a);

#ifdef __cplusplus
}
#endif
