/* linalg.cu: what libraries of linear algebra want beside their own kernels: lists of addresses, adjoints, identities,
 * determinants from an LU, eigenvectors of real matrices as complex numbers, and singular vectors from eigenvectors of
 * twice the width. */
#include "tidek_linalg.h"
#include "loops/opmath.cuh"

namespace tidek {

constexpr int LINALG_THREADS = 256;

template <class T> static __device__ __forceinline__ T magnitude(T x) { return fabs(x); }
template <class T> static __device__ __forceinline__ T magnitude(Complex<T> x) { return hypot(x.re, x.im); }
template <class T> static __device__ __forceinline__ T lane_xor(T x, int by) { return __shfl_xor_sync(~0u, x, by); }
template <class T> static __device__ __forceinline__ Complex<T> lane_xor(Complex<T> x, int by) {
  return Complex<T>(lane_xor(x.re, by), lane_xor(x.im, by));
}

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

template <class T, int N> static __global__ void identities_kernel(T *to, int64_t n, int64_t total) {
  kernel_begin();
  int64_t i = (int64_t)blockIdx.x * LINALG_THREADS + threadIdx.x;
  if (i >= total) return;
  int64_t at = i % (n * n);
  to[N * i] = at % n == at / n ? T(1) : T(0);
  if (N == 2) to[N * i + 1] = T(0);
}

static __global__ void widen_kernel(double *to, const float *from, int64_t n) {
  kernel_begin();
  int64_t i = (int64_t)blockIdx.x * LINALG_THREADS + threadIdx.x;
  if (i < n) to[i] = from[i];
}

static __global__ void singular_values_kernel(float *s, const double *w, int64_t n) {
  kernel_begin();
  int64_t i = (int64_t)blockIdx.x * LINALG_THREADS + threadIdx.x;
  if (i < n) s[i] = (float)sqrt(fmax(w[n - 1 - i], 0.0));
}

template <int N> static __global__ void turn_vectors_kernel(float *vh, double *turned, const double *v, int64_t n) {
  kernel_begin();
  int64_t at = (int64_t)blockIdx.x * LINALG_THREADS + threadIdx.x, i = at % n, j = at / n;
  if (at >= n * n) return;
  const double *from = v + N * ((n - 1 - j) * n + i);
  for (int k = 0; k < N; k++) {
    turned[N * at + k] = from[k];
    vh[N * (i * n + j) + k] = (float)(k ? -from[k] : from[k]);
  }
}

template <int N>
static __global__ void narrow_kernel(float *to, const double *from, const double *diagonal, int64_t m, int64_t total,
                                     int64_t n) {
  kernel_begin();
  int64_t at = (int64_t)blockIdx.x * LINALG_THREADS + threadIdx.x, j = at / m;
  if (at >= total) return;
  double sign = j < n && diagonal[N * j] < 0 ? -1 : 1;
  for (int k = 0; k < N; k++) to[N * at + k] = (float)(from[N * at + k] * sign);
}

/* A warp multiplies the diagonal of a matrix. */
template <class T> static __global__ void determinants_kernel(tide_linalg_args a, const T *lu, const int *pivots) {
  using R = typename real_of<T>::type;
  kernel_begin();
  int64_t n = a.n, i = ((int64_t)blockIdx.x * LINALG_THREADS + threadIdx.x) / 32;
  const bool counts = i < a.batch, logs = a.head.ptr[1];
  T product = T(1);
  R sum = 0;
  for (int64_t j = threadIdx.x % 32; counts && j < n; j += 32) {
    T x = lu[i * n * n + j * (n + 1)];
    R size = magnitude(x);
    if (logs) sum += log(size);
    if (logs && size != 0) x = x / T(size);
    product = product * (pivots[i * n + j] == j + 1 ? x : T(0) - x);
  }
  for (int by = 16; by; by /= 2) {
    product = product * lane_xor(product, by);
    sum += lane_xor(sum, by);
  }
  if (!counts || threadIdx.x % 32) return;
  ((T *)a.head.ptr[0])[i] = product;
  if (logs) ((R *)a.head.ptr[1])[i] = sum;
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

int tidek_identities(cudaStream_t stream, int type, void *to, int64_t n, int64_t batch) {
  int64_t total = n * n * batch, blocks = tidek::blocks_for(total);
  const unsigned threads = tidek::LINALG_THREADS;
  switch (type) {
  case 0: return tidek::launch(tidek::identities_kernel<float, 1>, blocks, threads, stream, (float *)to, n, total);
  case 1: return tidek::launch(tidek::identities_kernel<double, 1>, blocks, threads, stream, (double *)to, n, total);
  case 2: return tidek::launch(tidek::identities_kernel<float, 2>, blocks, threads, stream, (float *)to, n, total);
  default: return tidek::launch(tidek::identities_kernel<double, 2>, blocks, threads, stream, (double *)to, n, total);
  }
}

int tidek_determinants(cudaStream_t stream, const tide_linalg_args *a, const void *lu, const int *pivots) {
  int64_t blocks = tidek::blocks_for(a->batch * 32);
  const unsigned threads = tidek::LINALG_THREADS;
#define DETERMINANTS(T)                                                                                                \
  return tidek::launch(tidek::determinants_kernel<T>, blocks, threads, stream, *a, (const T *)lu, pivots)
  switch (a->dtype) {
  case TIDE_FLOAT32: DETERMINANTS(float);
  case TIDE_FLOAT64: DETERMINANTS(double);
  case TIDE_COMPLEX64: DETERMINANTS(tidek::complex64);
  default: DETERMINANTS(tidek::complex128);
  }
#undef DETERMINANTS
}

int tidek_widen(cudaStream_t stream, int type, void *to, const void *from, int64_t n) {
  if (type == 2) n *= 2;
  return tidek::launch(tidek::widen_kernel, tidek::blocks_for(n), tidek::LINALG_THREADS, stream, (double *)to,
                       (const float *)from, n);
}

int tidek_singular_values(cudaStream_t stream, float *s, const double *eigenvalues, int64_t n) {
  return tidek::launch(tidek::singular_values_kernel, tidek::blocks_for(n), tidek::LINALG_THREADS, stream, s,
                       eigenvalues, n);
}

int tidek_turn_vectors(cudaStream_t stream, int type, void *vh, void *turned, const void *vectors, int64_t n) {
  return tidek::launch(type == 2 ? tidek::turn_vectors_kernel<2> : tidek::turn_vectors_kernel<1>,
                       tidek::blocks_for(n * n), tidek::LINALG_THREADS, stream, (float *)vh, (double *)turned,
                       (const double *)vectors, n);
}

int tidek_narrow_columns(cudaStream_t stream, int type, void *to, const void *from, const void *diagonal, int64_t m,
                         int64_t columns, int64_t n) {
  return tidek::launch(type == 2 ? tidek::narrow_kernel<2> : tidek::narrow_kernel<1>, tidek::blocks_for(m * columns),
                       tidek::LINALG_THREADS, stream, (float *)to, (const double *)from, (const double *)diagonal, m,
                       m * columns, n);
}
