/* elementwise_int32.cu: every op of op.def that computes in int32. See elementwise.cuh. */
#include "elementwise.cuh"
#include "tidek.h"

int tidek_elementwise_int32(cudaStream_t stream, const tide_elementwise_args *a) {
  using T = int32_t;
  static const tidek::Kernels<T> table[] = {
#define TIDE_EACH_OP(name, rule, loop, expr, doc) tidek::kernels_of<tidek::op_##name, T>(),
#include "tide/op.def"
  };
  return tidek::launch_elementwise(table[a->op], stream, a);
}
