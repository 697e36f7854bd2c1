/* tidek_linalg.h: a launcher of linalg.cu, beside those of tidek.h. */
#ifndef TIDEK_LINALG_H
#define TIDEK_LINALG_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The cudaError_t of queueing it. to = the adjoint of each n by n matrix; type: 0 to 3, float32 to complex128. They may
 * not overlap. */
int tidek_adjoint(cudaStream_t stream, int type, void *to, const void *from, int64_t n, int64_t batch);

#ifdef __cplusplus
}
#endif
#endif
