/* pairs.cu: cross products, and distances: a thread for each of the result's vectors, or numbers. */
#include "launch.cuh"
#include "tidek.h"

namespace tidek {

constexpr int PAIRS_THREADS = 256;

template <class T> __global__ void __launch_bounds__(PAIRS_THREADS) cross_kernel(tide_pairs_args a) {
  kernel_begin();
  int64_t i = ((int64_t)blockIdx.x * PAIRS_THREADS + threadIdx.x) * 3;
  if (i >= 3 * a.batch) return;
  const T *x = (const T *)a.head.ptr[1] + i, *y = (const T *)a.head.ptr[2] + i;
  T *out = (T *)a.head.ptr[0] + i;
  for (int d = 0; d < 3; d++) {
    const int j = (d + 1) % 3, k = (d + 2) % 3;
    out[d] = x[j] * y[k] - x[k] * y[j];
  }
}

template <class T> __global__ void __launch_bounds__(PAIRS_THREADS) distance_kernel(tide_pairs_args a) {
  kernel_begin();
  const int64_t i = (int64_t)blockIdx.x * PAIRS_THREADS + threadIdx.x;
  if (i >= a.batch * a.n * a.m) return;
  const int64_t row = i / a.m, column = row / a.n * a.m + i % a.m;
  const T *x = (const T *)a.head.ptr[1] + row * a.k, *y = (const T *)a.head.ptr[2] + column * a.k;
  T sum = 0;
  for (int64_t p = 0; p < a.k; p++) {
    const T d = x[p] - y[p];
    sum += a.op == TIDE_PAIRS_SUM ? fabs(d) : d * d;
  }
  ((T *)a.head.ptr[0])[i] = a.op == TIDE_PAIRS_SUM ? sum : sqrt(sum);
}

template <class T> static int pairs_run(cudaStream_t stream, const tide_pairs_args *a) {
  const int64_t count = a->batch * a->n * a->m;
  return launch(a->op == TIDE_PAIRS_CROSS ? cross_kernel<T> : distance_kernel<T>, ceil_div(count, PAIRS_THREADS),
                PAIRS_THREADS, stream, (tide_pairs_args)*a);
}

} // namespace tidek

int tidek_pairs(cudaStream_t stream, const tide_pairs_args *a) {
  return a->dtype == TIDE_FLOAT32 ? tidek::pairs_run<float>(stream, a) : tidek::pairs_run<double>(stream, a);
}
