/* linalg_small.cu: LU, solutions, inverses, determinants and Cholesky factors of many small square matrices.
 *
 * A group of 4, 8, 16 or 32 lanes of a warp holds a matrix in registers, a row each, so that nothing but operands and
 * results is read and written. Rows beyond n are those of the identity, of groups beyond the batch those of its last
 * matrix.
 *
 * Invariant: all lanes of a warp run the same steps, for n is the same; results alone are stored by some of them. */
#include "loops/opmath.cuh"
#include "tidek_linalg.h"

namespace tidek {

constexpr int SMALL_THREADS = 128;

/* The value of a lane of the group. */
template <int G, class T> TIDEK_MATH T of_lane(T x, int lane) { return __shfl_sync(~0u, x, lane, G); }
template <int G, class T> TIDEK_MATH Complex<T> of_lane(Complex<T> x, int lane) {
  return Complex<T>(of_lane<G>(x.re, lane), of_lane<G>(x.im, lane));
}

/* What pivots are compared by, as in LAPACK. */
template <class T> TIDEK_MATH T size_of(T x) { return fabs(x); }
template <class T> TIDEK_MATH T size_of(Complex<T> x) { return fabs(x.re) + fabs(x.im); }
template <class T> TIDEK_MATH T adjoint_of(T x) { return x; }
template <class T> TIDEK_MATH Complex<T> adjoint_of(Complex<T> x) { return Complex<T>(x.re, -x.im); }
template <class T> TIDEK_MATH T length_of(T x) { return fabs(x); }
template <class T> TIDEK_MATH T length_of(Complex<T> x) { return hypot(x.re, x.im); }
template <class T> TIDEK_MATH T real_part(T x) { return x; }
template <class T> TIDEK_MATH T real_part(Complex<T> x) { return x.re; }

/* A group's matrix. */
template <class T, int G> struct Small {
  T row[G];
  int lane, n;
  int64_t matrix;
  bool counts; /* it is one of the batch */
  int origin;  /* which row of A this one was */
  int pivot;   /* the row that this one changed places with */
  int info;
  bool is_odd; /* so many rows have changed places */
  T diagonal;  /* U's, of this row */

  __device__ __forceinline__ Small(const tide_linalg_args &a) {
    int64_t thread = (int64_t)blockIdx.x * SMALL_THREADS + threadIdx.x;
    lane = threadIdx.x % G, n = (int)a.n;
    counts = thread / G < a.batch;
    matrix = counts ? thread / G : a.batch - 1;
  }

  /* Element (i, c) stands at i * down + c * across. */
  __device__ __forceinline__ void read(const T *x, int down, int across) {
    TIDEK_EACH(c, G) row[c] = lane < n && c < n ? x[lane * down + c * across] : T(lane == c ? 1 : 0);
  }
  /* By columns, up to one of them. */
  __device__ __forceinline__ void write(T *x, int last) const {
    TIDEK_EACH(c, G)
      if (counts && lane < n && c <= last && c < n) x[lane + c * n] = row[c];
  }

  /* The row from `step` on whose element in that column is the largest; NaN is the smallest. */
  template <class R> __device__ __forceinline__ int find_pivot(R size, int step) const {
    if (!(size >= 0)) size = (R)-0.5;
    if (lane < step) size = -1;
    int at = lane;
#pragma unroll
    for (int by = G / 2; by; by /= 2) {
      R other = __shfl_xor_sync(~0u, size, by, G);
      int other_at = __shfl_xor_sync(~0u, at, by, G);
      if (other > size || (other == size && other_at < at)) size = other, at = other_at;
    }
    return at;
  }

  __device__ __forceinline__ void factor() {
    origin = pivot = lane, info = 0, is_odd = false, diagonal = T(1);
    TIDEK_EACH(j, G) {
      if (j >= n) break;
      int at = find_pivot(size_of(row[j]), j);
      if (lane == j) pivot = at;
      is_odd ^= at != j;
      int up = of_lane<G>(origin, at), down = of_lane<G>(origin, j);
      origin = lane == j ? up : lane == at ? down : origin;
      T head = of_lane<G>(row[j], at), factor = T(0);
      if (!head && !info) info = j + 1;
      TIDEK_EACH(c, G) {
        if (c >= n) break;
        T upper = of_lane<G>(row[c], at), lower = of_lane<G>(row[c], j);
        row[c] = lane == j ? upper : lane == at ? lower : row[c];
        if (c == j && lane > j && !!head) row[c] = row[c] / head;
        if (c == j) factor = row[c];
        if (c > j && lane > j) row[c] = row[c] - factor * upper;
      }
      if (lane == j) diagonal = head;
    }
  }

  /* U's rows are divided by their diagonal, so that a solution takes one division. */
  __device__ __forceinline__ void scale() {
    TIDEK_EACH(c, G)
      if (c > lane) row[c] = row[c] / diagonal;
  }
  /* y, in the order of L's rows, becomes the solution. */
  __device__ __forceinline__ T solve(T y) const {
    TIDEK_EACH(j, G) {
      if (j >= n) break;
      T known = of_lane<G>(y, j);
      if (lane > j) y = y - row[j] * known;
    }
    y = y / diagonal;
#pragma unroll
    for (int j = G - 1; j > 0; j--) {
      if (j >= n) continue;
      T known = of_lane<G>(y, j);
      if (lane < j) y = y - row[j] * known;
    }
    return y;
  }

  __device__ __forceinline__ void cholesky() {
    info = 0;
    TIDEK_EACH(j, G) {
      if (j >= n) break;
      auto head = real_part(of_lane<G>(row[j], j));
      if (!(head > 0) && !info) info = j + 1;
      auto root = sqrt(head);
      row[j] = lane == j ? T(root) : row[j] / T(root);
#pragma unroll
      for (int c = j + 1; c < G; c++) {
        if (c >= n) break;
        row[c] = row[c] - row[j] * adjoint_of(of_lane<G>(row[j], c));
      }
    }
  }
};

template <class T, int G> TIDEK_MATH void put_solutions(Small<T, G> &s, const tide_linalg_args &a) {
  T *x = (T *)a.head.ptr[0] + s.matrix * a.step;
  const bool inverse = a.flags & TIDE_LINALG_INVERSE;
  s.scale();
  for (int64_t c = 0; c < a.k; c++, x += s.n) {
    T y = s.lane >= s.n ? T(0) : inverse ? T(s.origin == c ? 1 : 0) : x[s.origin];
    y = s.solve(y);
    if (s.counts && s.lane < s.n) x[s.lane] = y;
  }
}

template <class T, int G> TIDEK_MATH void put_determinant(const Small<T, G> &s, const tide_linalg_args &a) {
  using R = typename real_of<T>::type;
  R size = length_of(s.diagonal), sum = a.head.ptr[1] ? log(size) : R(0);
  T product = a.head.ptr[1] && size != 0 ? s.diagonal / T(size) : s.diagonal;
#pragma unroll
  for (int by = G / 2; by; by /= 2) {
    product = product * of_lane<G>(product, s.lane ^ by);
    sum += of_lane<G>(sum, s.lane ^ by);
  }
  if (!s.counts || s.lane) return;
  ((T *)a.head.ptr[0])[s.matrix] = s.is_odd ? T(0) - product : product;
  if (a.head.ptr[1]) ((R *)a.head.ptr[1])[s.matrix] = sum;
}

template <class T, int G> static __global__ void small_lu_kernel(tide_linalg_args a) {
  kernel_begin();
  Small<T, G> s(a);
  bool by_rows = a.flags & TIDE_LINALG_TRANSPOSED;
  T *x = (T *)a.head.ptr[0] + s.matrix * a.step;
  if (a.routine == TIDE_LINALG_LU)
    s.read(x, 1, s.n);
  else
    s.read((const T *)a.head.ptr[5] + s.matrix * a.other_step, by_rows ? s.n : 1, by_rows ? 1 : s.n);
  s.factor();
  if (a.routine == TIDE_LINALG_LU) {
    s.write(x, s.n);
    if (s.counts && s.lane < s.n) ((int32_t *)a.head.ptr[1])[s.matrix * s.n + s.lane] = s.pivot + 1;
  } else if (a.routine == TIDE_LINALG_SOLVE)
    put_solutions(s, a);
  else
    put_determinant(s, a);
  if (a.head.ptr[4] && s.counts && s.lane == 0) ((int32_t *)a.head.ptr[4])[s.matrix] = s.info;
}

template <class T, int G> static __global__ void small_cholesky_kernel(tide_linalg_args a) {
  kernel_begin();
  Small<T, G> s(a);
  T *x = (T *)a.head.ptr[0] + s.matrix * a.step;
  s.read(x, 1, s.n);
  s.cholesky();
  s.write(x, s.lane);
  if (s.counts && s.lane == 0) ((int32_t *)a.head.ptr[4])[s.matrix] = s.info;
}

template <class T, int G> static int launch_small(cudaStream_t stream, const tide_linalg_args *a) {
  int64_t blocks = (a->batch * G + SMALL_THREADS - 1) / SMALL_THREADS;
  return launch(a->routine == TIDE_LINALG_CHOLESKY ? small_cholesky_kernel<T, G> : small_lu_kernel<T, G>, blocks,
                SMALL_THREADS, stream, *a);
}

/* Complex matrices of more than 16 rows do not fit. */
template <class T> static int launch_size(cudaStream_t stream, const tide_linalg_args *a) {
  if (a->n <= 4) return launch_small<T, 4>(stream, a);
  if (a->n <= 8) return launch_small<T, 8>(stream, a);
  if constexpr (!is_complex<T>::value)
    if (a->n > 16) return launch_small<T, 32>(stream, a);
  return launch_small<T, 16>(stream, a);
}

} // namespace tidek

bool tidek_linalg_is_small(const tide_linalg_args *a) {
  bool few = a->routine != TIDE_LINALG_SOLVE || a->k <= 64 || a->batch >= 1024; /* a group does one column at a time */
  return a->m == a->n && a->n <= (a->dtype >= TIDE_COMPLEX64 ? 16 : 32) && few && a->batch < (int64_t)1 << 30;
}

int tidek_linalg_small(cudaStream_t stream, const tide_linalg_args *a) {
  switch (a->dtype) {
  case TIDE_FLOAT32: return tidek::launch_size<float>(stream, a);
  case TIDE_FLOAT64: return tidek::launch_size<double>(stream, a);
  case TIDE_COMPLEX64: return tidek::launch_size<tidek::complex64>(stream, a);
  default: return tidek::launch_size<tidek::complex128>(stream, a);
  }
}
