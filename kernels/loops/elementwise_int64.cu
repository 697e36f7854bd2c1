/* elementwise_int64.cu: every op of op.def that computes in int64. See elementwise.cuh. */
#include "elementwise.cuh"
#include "tidek.h"

int tidek_elementwise_int64(cudaStream_t stream, const tide_elementwise_args *a) {
  return tidek::launch_op<int64_t>(stream, a);
}
