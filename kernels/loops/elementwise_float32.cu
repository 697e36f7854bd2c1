/* elementwise_float32.cu: every op of op.def that computes in float32. See elementwise.cuh. */
#include "elementwise.cuh"
#include "tidek.h"

int tidek_elementwise_float32(cudaStream_t stream, const tide_elementwise_args *a) {
  return tidek::launch_op<float>(stream, a);
}
