/* gemm_small.cu: products of floating numbers that are too small for cuBLAS, whose calls cost the host more than the
 * work takes.
 *
 * Batches of matrices of at most 8 by 8: a block brings some of them to shared memory as they lie, all bytes of a run
 * at once, and each thread computes elements of the result in the order in which they are written. 4 by 4 matrices of
 * float32 need no shared memory: a thread has one row of each operand, and the rows of B go round among four threads.
 * Both move every byte once, at the speed of memory. Rows against one such matrix count as a batch of rows.
 *
 * Other small products: a block of 16 by 16 threads has as many elements of the result and brings 64 columns of A and
 * rows of B to shared memory at a time, so that a product of 64 waits for memory once.
 *
 * Sums run in the order of k, in float32 for 16-bit numbers, so equal calls give equal bits. */
#include "tidek.h"
#include "types.cuh"

namespace tidek {

constexpr int TINY = 8, THREADS = 256, SIDE = 16, DEPTH = 64, ROOM = 40 << 10;

template <class T> static __device__ __forceinline__ T multiply_add(T a, T b, T sum) {
  if constexpr (is_complex<T>::value)
    return T(fma(a.re, b.re, fma(-a.im, b.im, sum.re)), fma(a.re, b.im, fma(a.im, b.re, sum.im)));
  else
    return fma(a, b, sum);
}

template <class T> struct Factors {
  T alpha, beta;
  bool adds; /* beta is not 0 */
};

template <class T> static Factors<T> factors_of(const tide_gemm_args *a) {
  return {value_of<T>(a->alpha), value_of<T>(a->beta), a->beta.re != 0 || a->beta.im != 0};
}

template <class S, class T> static __device__ __forceinline__ void finish(S *c, T sum, const Factors<T> &f) {
  T value = multiply_add(f.alpha, sum, T(0));
  if (f.adds) value = multiply_add(f.beta, cast<T>(*c), value);
  *c = cast<S>(value);
}

/* {==== One product, or a few */

template <class T> struct Tiles {
  void *c;
  const void *a, *b;
  int64_t a_row, a_col, b_row, b_col, c_row, a_batch, b_batch, c_batch;
  int m, n, k;
  Div tiles_n, tiles_m;
  Factors<T> factors;
};

template <class S, class T>
__global__ void __launch_bounds__(THREADS) tiles_kernel(const __grid_constant__ Tiles<T> g) {
  kernel_begin();
  __shared__ T left[SIDE][DEPTH + 1], right[DEPTH][SIDE + 1];
  uint32_t rest = blockIdx.x, x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
  int j0 = g.tiles_n.split(rest) * SIDE, i0 = g.tiles_m.split(rest) * SIDE;
  const S *a = (const S *)g.a + rest * g.a_batch, *b = (const S *)g.b + rest * g.b_batch;
  bool a_rows = g.a_col == 1, b_rows = g.b_col == 1; /* threads go along what is contiguous */
  T sum = T(0);
  for (int k0 = 0; k0 < g.k; k0 += DEPTH) {
    TIDEK_EACH(r, SIDE * DEPTH / THREADS) {
      int e = threadIdx.x + r * THREADS;
      int i = a_rows ? e / DEPTH : e % SIDE, p = a_rows ? e % DEPTH : e / SIDE;
      int j = b_rows ? e % SIDE : e / DEPTH, q = b_rows ? e / SIDE : e % DEPTH;
      bool in_a = i0 + i < g.m && k0 + p < g.k, in_b = j0 + j < g.n && k0 + q < g.k;
      left[i][p] = in_a ? cast<T>(a[(i0 + i) * g.a_row + (k0 + p) * g.a_col]) : T(0);
      right[q][j] = in_b ? cast<T>(b[(k0 + q) * g.b_row + (j0 + j) * g.b_col]) : T(0);
    }
    __syncthreads();
    int depth = g.k - k0 < DEPTH ? g.k - k0 : DEPTH;
#pragma unroll 8
    for (int p = 0; p < depth; p++) sum = multiply_add(left[y][p], right[p][x], sum);
    __syncthreads();
  }
  if (i0 + (int)y >= g.m || j0 + (int)x >= g.n) return;
  finish((S *)g.c + rest * g.c_batch + (i0 + y) * g.c_row + j0 + x, sum, g.factors);
}

template <class S, class T> static int run_tiles(cudaStream_t stream, const tide_gemm_args *a) {
  int64_t n = ceil_div(a->n, SIDE), m = ceil_div(a->m, SIDE);
  Tiles<T> g = {};
  g.c = a->head.ptr[0], g.a = a->head.ptr[1], g.b = a->head.ptr[2];
  g.a_row = a->a_row, g.a_col = a->a_col, g.b_row = a->b_row, g.b_col = a->b_col, g.c_row = a->c_row;
  g.a_batch = a->a_batch, g.b_batch = a->b_batch, g.c_batch = a->c_batch;
  g.m = (int)a->m, g.n = (int)a->n, g.k = (int)a->k;
  g.tiles_n = make_div(n), g.tiles_m = make_div(m);
  g.factors = factors_of<T>(a);
  return launch(tiles_kernel<S, T>, n * m * a->batch, THREADS, stream, (const Tiles<T>)g);
}

/* {==== Many of at most 8 by 8 */

/* How an operand lies in memory and in shared memory. inner: the size of the dim that is contiguous. */
struct Staged {
  const void *from;
  int64_t inner_stride, outer_stride, batch_stride;
  Div inner, outer;
  int each;      /* elements of a matrix */
  int row, col;  /* strides in shared memory */
  bool one, run; /* the same matrix for all; all of them are one run of memory */
};

template <class T> struct Tiny {
  void *c;
  Staged a, b;
  int64_t c_row, c_batch, batch;
  int group, k; /* group: matrices of a block */
  Div n, m;
  Factors<T> factors;
};

/* Brings `count` matrices, from the first one on, to `to`. */
template <class S> static __device__ __forceinline__ void stage(S *to, const Staged &s, int64_t first, int count) {
  const S *from = (const S *)s.from + (s.one ? 0 : first * s.batch_stride);
  int total = s.each * (s.one ? 1 : count), at = 0;
  if (s.run && !s.one) { /* groups of 16 keep the alignment */
    int packs = total * (int)sizeof(S) / 16;
    for (int e = threadIdx.x; e < packs; e += THREADS) ((uint4 *)to)[e] = ((const uint4 *)from)[e];
    at = packs * (16 / (int)sizeof(S));
  }
  for (int e = at + threadIdx.x; e < total; e += THREADS) {
    uint32_t rest = e, inner = s.inner.split(rest), outer = s.outer.split(rest);
    to[e] = from[rest * s.batch_stride + outer * s.outer_stride + inner * s.inner_stride];
  }
}

template <class S, class T> __global__ void __launch_bounds__(THREADS) tiny_kernel(const __grid_constant__ Tiny<T> g) {
  kernel_begin();
  extern __shared__ __align__(16) unsigned char room[];
  S *left = (S *)room, *right = left + g.a.each * (g.a.one ? 16 : g.group);
  int64_t first = (int64_t)blockIdx.x * g.group;
  int count = g.batch - first < g.group ? (int)(g.batch - first) : g.group;
  stage(left, g.a, first, count);
  stage(right, g.b, first, count);
  __syncthreads();
  int total = count * g.m.d * g.n.d;
  for (int e = threadIdx.x; e < total; e += THREADS) {
    uint32_t rest = e, j = g.n.split(rest), i = g.m.split(rest);
    const S *a = left + (g.a.one ? 0 : rest * g.a.each) + i * g.a.row;
    const S *b = right + (g.b.one ? 0 : rest * g.b.each) + j * g.b.col;
    T sum = T(0);
    TIDEK_EACH(k, TINY)
      if (k < g.k) sum = multiply_add(cast<T>(a[k * g.a.col]), cast<T>(b[k * g.b.row]), sum);
    finish((S *)g.c + (first + rest) * g.c_batch + i * g.c_row + j, sum, g.factors);
  }
}

static Staged staged(const void *from, int64_t rows, int64_t cols, int64_t row, int64_t col, int64_t batch, int bytes) {
  bool by_rows = col == 1 || cols == 1;
  int64_t inner = by_rows ? cols : rows, outer = by_rows ? rows : cols;
  Staged s = {};
  s.from = from, s.batch_stride = batch;
  s.inner_stride = by_rows ? col : row, s.outer_stride = by_rows ? row : col;
  s.inner = make_div(inner), s.outer = make_div(outer);
  s.each = (int)(rows * cols);
  s.row = by_rows ? (int)cols : 1, s.col = by_rows ? 1 : (int)rows;
  s.one = batch == 0;
  bool packed = (inner == 1 || s.inner_stride == 1) && (outer == 1 || s.outer_stride == inner);
  s.run = packed && batch == s.each && (uintptr_t)from % 16 == 0 && 16 % bytes == 0;
  return s;
}

template <class S, class T> static int run_tiny(cudaStream_t stream, const tide_gemm_args *a) {
  constexpr int64_t least = 16, outputs = 2048, blocks = 256;
  Tiny<T> g = {};
  g.c = a->head.ptr[0];
  g.a = staged(a->head.ptr[1], a->m, a->k, a->a_row, a->a_col, a->a_batch, sizeof(S));
  g.b = staged(a->head.ptr[2], a->k, a->n, a->b_row, a->b_col, a->b_batch, sizeof(S));
  g.c_row = a->c_row, g.c_batch = a->c_batch, g.batch = a->batch, g.k = (int)a->k;
  g.n = make_div(a->n), g.m = make_div(a->m);
  g.factors = factors_of<T>(a);
  int64_t group = outputs / (a->m * a->n), fits = ROOM / ((g.a.each + g.b.each) * (int64_t)sizeof(S));
  if (group > fits) group = fits;
  if (group > ceil_div(a->batch, blocks)) group = ceil_div(a->batch, blocks);
  g.group = (int)(group <= least ? least : group / least * least);
  size_t shared =
      ((size_t)g.a.each * (g.a.one ? 16 : g.group) + (size_t)g.b.each * (g.b.one ? 16 : g.group)) * sizeof(S);
  return launch_shared(tiny_kernel<S, T>, ceil_div(a->batch, g.group), THREADS, shared, stream, (const Tiny<T>)g);
}

/* {==== 4 by 4 of float32 */

struct Rows4 {
  float4 *c;
  const float4 *a, *b;
  int64_t rows;
  float alpha;
};

__global__ void __launch_bounds__(THREADS) rows4_kernel(const __grid_constant__ Rows4 g) {
  kernel_begin();
  int64_t row = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  bool is_in = row < g.rows;
  float4 none = {0, 0, 0, 0}, a = is_in ? g.a[row] : none, mine = is_in ? g.b[row] : none, sum = none;
  const float factor[4] = {a.x, a.y, a.z, a.w};
  TIDEK_EACH(k, 4) {
    int lane = (threadIdx.x & 28) + k;
    sum.x = fma(factor[k], __shfl_sync(~0u, mine.x, lane), sum.x);
    sum.y = fma(factor[k], __shfl_sync(~0u, mine.y, lane), sum.y);
    sum.z = fma(factor[k], __shfl_sync(~0u, mine.z, lane), sum.z);
    sum.w = fma(factor[k], __shfl_sync(~0u, mine.w, lane), sum.w);
  }
  if (is_in) g.c[row] = {g.alpha * sum.x, g.alpha * sum.y, g.alpha * sum.z, g.alpha * sum.w};
}

static bool is_packed4(const void *p, int64_t row, int64_t batch) {
  return row == 4 && batch == 16 && (uintptr_t)p % 16 == 0;
}

static bool is_rows4(const tide_gemm_args *a) {
  bool square = a->dtype == TIDE_FLOAT32 && a->m == 4 && a->n == 4 && a->k == 4 && a->a_col == 1 && a->b_col == 1;
  return square && a->beta.re == 0 && is_packed4(a->head.ptr[0], a->c_row, a->c_batch) &&
         is_packed4(a->head.ptr[1], a->a_row, a->a_batch) && is_packed4(a->head.ptr[2], a->b_row, a->b_batch);
}

static int run_rows4(cudaStream_t stream, const tide_gemm_args *a) {
  Rows4 g = {(float4 *)a->head.ptr[0], (const float4 *)a->head.ptr[1], (const float4 *)a->head.ptr[2], 4 * a->batch,
             (float)a->alpha.re};
  return launch(rows4_kernel, ceil_div(g.rows, THREADS), THREADS, stream, (const Rows4)g);
}

/* {==== The choice */

/* The product with its rows as a batch, where that makes them small and they lie well. */
static tide_gemm_args as_rows(const tide_gemm_args *a) {
  tide_gemm_args r = *a;
  if (a->batch > 1 || a->m <= TINY || (a->a_col != 1 && a->k != 1)) return r;
  r.batch = a->m, r.m = 1;
  r.a_batch = a->a_row, r.b_batch = 0, r.c_batch = a->c_row;
  r.a_row = a->k, r.c_row = a->n;
  return r;
}

static bool is_tiny(const tide_gemm_args *a) { return a->m <= TINY && a->n <= TINY && a->k <= TINY; }

static bool is_few(const tide_gemm_args *a) {
  constexpr int64_t most_blocks = 256, most_depth = 256;
  return a->k <= most_depth && a->m <= SIDE * most_blocks && a->n <= SIDE * most_blocks && a->batch <= most_blocks &&
         ceil_div(a->m, SIDE) * ceil_div(a->n, SIDE) * a->batch <= most_blocks;
}

template <class S, class T> static int run_small(cudaStream_t stream, const tide_gemm_args *a) {
  return is_tiny(a) ? run_tiny<S, T>(stream, a) : run_tiles<S, T>(stream, a);
}

} // namespace tidek

bool tidek_gemm_is_small(const tide_gemm_args *a) {
  tide_gemm_args rows = tidek::as_rows(a);
  return tidek::is_tiny(&rows) || tidek::is_few(a);
}

int tidek_gemm_small(cudaStream_t stream, const tide_gemm_args *given) {
  using namespace tidek;
  tide_gemm_args rows = as_rows(given);
  const tide_gemm_args *a = is_tiny(&rows) ? &rows : given;
  if (is_rows4(a)) return run_rows4(stream, a);
  switch (a->dtype) {
  case TIDE_FLOAT16: return run_small<half, float>(stream, a);
  case TIDE_BFLOAT16: return run_small<bfloat16, float>(stream, a);
  case TIDE_FLOAT32: return run_small<float, float>(stream, a);
  case TIDE_FLOAT64: return run_small<double, double>(stream, a);
  case TIDE_COMPLEX64: return run_small<complex64, complex64>(stream, a);
  default: return run_small<complex128, complex128>(stream, a);
  }
}
