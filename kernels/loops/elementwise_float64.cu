/* elementwise_float64.cu: every op of op.def that computes in float64. See elementwise.cuh. */
#include "elementwise.cuh"
#include "tidek.h"

int tidek_elementwise_float64(cudaStream_t stream, const tide_elementwise_args *a) {
  return tidek::launch_op<double>(stream, a);
}
