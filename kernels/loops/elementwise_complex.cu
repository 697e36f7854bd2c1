/* elementwise_complex.cu: every op of op.def that computes in complex numbers. See elementwise.cuh. */
#include "elementwise.cuh"
#include "tidek.h"

int tidek_elementwise_complex(cudaStream_t stream, const tide_elementwise_args *a) {
  if (a->compute == TIDE_COMPLEX64) return tidek::launch_op<tidek::complex64>(stream, a);
  return tidek::launch_op<tidek::complex128>(stream, a);
}
