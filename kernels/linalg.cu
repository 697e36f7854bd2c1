/* linalg.cu: what libraries of linear algebra want beside their own kernels: lists of addresses, adjoints, and
 * eigenvectors of real matrices as complex numbers. */
#include "launch.cuh"
#include "tidek.h"

namespace tidek {

constexpr int LINALG_THREADS = 256;

static __global__ void addresses_kernel(char **list, char *first, int64_t bytes, int64_t n) {
  kernel_begin();
  int64_t i = (int64_t)blockIdx.x * LINALG_THREADS + threadIdx.x;
  if (i < n) list[i] = first + i * bytes;
}

/* Where values are a conjugate pair, the first one's column has the real part of its vector and the next column the
 * imaginary part; the second one's vector is its conjugate. */
template <class T> static __global__ void unpack_eig_kernel(T *to, const T *from, const T *values, int64_t n) {
  kernel_begin();
  int64_t at = (int64_t)blockIdx.x * LINALG_THREADS + threadIdx.x, j = at / n, i = at % n;
  if (at >= n * n) return;
  T w = values[2 * j + 1];
  int64_t first = w < 0 ? j - 1 : j;
  T im = w == 0 ? 0 : from[(first + 1) * n + i];
  to[2 * at] = from[first * n + i];
  to[2 * at + 1] = w < 0 ? -im : im;
}

/* Each n by n matrix becomes its adjoint, in another place. A number is of N real ones. */
template <class T, int N> static __global__ void adjoint_kernel(T *to, const T *from, int64_t n, int64_t total) {
  kernel_begin();
  int64_t i = (int64_t)blockIdx.x * LINALG_THREADS + threadIdx.x;
  if (i >= total) return;
  int64_t square = n * n, at = i % square, source = i - at + at % n * n + at / n;
  to[N * i] = from[N * source];
  if (N == 2) to[N * i + 1] = -from[N * source + 1];
}

static int64_t blocks_for(int64_t n) { return (n + LINALG_THREADS - 1) / LINALG_THREADS; }

} // namespace tidek

int tidek_addresses(cudaStream_t stream, void **list, void *first, int64_t bytes, int64_t n) {
  return tidek::launch(tidek::addresses_kernel, tidek::blocks_for(n), tidek::LINALG_THREADS, stream, (char **)list,
                       (char *)first, bytes, n);
}

int tidek_adjoint(cudaStream_t stream, int type, void *to, const void *from, int64_t n, int64_t batch) {
  int64_t total = n * n * batch, blocks = tidek::blocks_for(total);
  const unsigned threads = tidek::LINALG_THREADS;
  switch (type) {
  case 0:
    return tidek::launch(tidek::adjoint_kernel<float, 1>, blocks, threads, stream, (float *)to, (const float *)from, n,
                         total);
  case 1:
    return tidek::launch(tidek::adjoint_kernel<double, 1>, blocks, threads, stream, (double *)to, (const double *)from,
                         n, total);
  case 2:
    return tidek::launch(tidek::adjoint_kernel<float, 2>, blocks, threads, stream, (float *)to, (const float *)from, n,
                         total);
  default:
    return tidek::launch(tidek::adjoint_kernel<double, 2>, blocks, threads, stream, (double *)to, (const double *)from,
                         n, total);
  }
}

int tidek_unpack_eig(cudaStream_t stream, int wide, void *to, const void *from, const void *values, int64_t n) {
  int64_t blocks = tidek::blocks_for(n * n);
  return wide ? tidek::launch(tidek::unpack_eig_kernel<double>, blocks, tidek::LINALG_THREADS, stream, (double *)to,
                              (const double *)from, (const double *)values, n)
              : tidek::launch(tidek::unpack_eig_kernel<float>, blocks, tidek::LINALG_THREADS, stream, (float *)to,
                              (const float *)from, (const float *)values, n);
}
