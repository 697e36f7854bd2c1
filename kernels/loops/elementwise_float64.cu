/* elementwise_float64.cu: every op of op.def that computes in float64. See elementwise.cuh. */
#include "elementwise.cuh"
#include "tidek.h"

int tidek_elementwise_float64(cudaStream_t stream, const tide_elementwise_args *a) {
  using T = double;
  static const tidek::Kernels<T> table[] = {
#define TIDE_EACH_OP(name, rule, loop, expr, doc) tidek::kernels_of<tidek::op_##name, T>(),
#include "tide/op.def"
  };
  return tidek::launch_elementwise(table[a->op], stream, a);
}
