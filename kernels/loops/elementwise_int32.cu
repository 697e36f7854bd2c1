/* elementwise_int32.cu: every op of op.def that computes in int32. See elementwise.cuh. */
#include "elementwise.cuh"
#include "tidek.h"

int tidek_elementwise_int32(cudaStream_t stream, const tide_elementwise_args *a) {
  return tidek::launch_op<int32_t>(stream, a);
}
