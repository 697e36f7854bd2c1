/* elementwise_complex.cu: every op of op.def that computes in complex numbers. See elementwise.cuh. */
#include "elementwise.cuh"
#include "tidek.h"

template <class T> static int launch_complex(cudaStream_t stream, const tide_elementwise_args *a) {
  static const tidek::Kernels<T> table[] = {
#define TIDE_EACH_OP(name, rule, loop, expr, doc) tidek::kernels_of<tidek::op_##name, T>(),
#include "tide/op.def"
  };
  return tidek::launch_elementwise(table[a->op], stream, a);
}

int tidek_elementwise_complex(cudaStream_t stream, const tide_elementwise_args *a) {
  if (a->compute == TIDE_COMPLEX64) return launch_complex<tidek::complex64>(stream, a);
  return launch_complex<tidek::complex128>(stream, a);
}
