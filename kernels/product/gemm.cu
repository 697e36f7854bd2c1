/* gemm.cu: matrix products of integers, which cuBLAS does not do. Each block takes a tile of the result; both operands
 * pass through shared memory, so any strides do. Sums are kept in 64 bits, whose low bits are those of the wrapped
 * result. */
#include "tidek.h"
#include "types.cuh"

namespace tidek {

constexpr int SIDE = 32, LINES = 8;

struct IntegerGemm {
  void *c;
  const void *a, *b;
  int64_t m, n, k, a_row, a_col, b_row, b_col, c_row, a_batch, b_batch, c_batch, alpha, beta;
  Div tiles_n, tiles_m;
};

template <class S>
__global__ void __launch_bounds__(SIDE *LINES) integer_gemm_kernel(const __grid_constant__ IntegerGemm g) {
  kernel_begin();
  __shared__ S left[SIDE][SIDE + 1], right[SIDE][SIDE + 1];
  uint32_t rest = blockIdx.x, x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
  int64_t j0 = (int64_t)g.tiles_n.split(rest) * SIDE, i0 = (int64_t)g.tiles_m.split(rest) * SIDE, batch = rest;
  const S *a = (const S *)g.a + batch * g.a_batch, *b = (const S *)g.b + batch * g.b_batch;
  S *c = (S *)g.c + batch * g.c_batch;
  int64_t sum[SIDE / LINES] = {};
  for (int64_t k0 = 0; k0 < g.k; k0 += SIDE) {
    for (int r = y; r < SIDE; r += LINES) {
      left[r][x] = i0 + r < g.m && k0 + x < g.k ? a[(i0 + r) * g.a_row + (k0 + x) * g.a_col] : S{};
      right[r][x] = k0 + r < g.k && j0 + x < g.n ? b[(k0 + r) * g.b_row + (j0 + x) * g.b_col] : S{};
    }
    __syncthreads();
    for (int k = 0; k < SIDE; k++)
      TIDEK_EACH(r, SIDE / LINES) sum[r] += cast<int64_t>(left[y + r * LINES][k]) * cast<int64_t>(right[k][x]);
    __syncthreads();
  }
  TIDEK_EACH(r, SIDE / LINES) {
    int64_t i = i0 + y + r * LINES, j = j0 + x;
    if (i >= g.m || j >= g.n) continue;
    S *p = c + i * g.c_row + j;
    *p = cast<S>(g.alpha * sum[r] + (g.beta ? g.beta * cast<int64_t>(*p) : 0));
  }
}

} // namespace tidek

int tidek_gemm_integer(cudaStream_t stream, const tide_gemm_args *a) {
  using namespace tidek;
  IntegerGemm g = {};
  g.c = a->head.ptr[0], g.a = a->head.ptr[1], g.b = a->head.ptr[2];
  g.m = a->m, g.n = a->n, g.k = a->k;
  g.a_row = a->a_row, g.a_col = a->a_col, g.b_row = a->b_row, g.b_col = a->b_col, g.c_row = a->c_row;
  g.a_batch = a->a_batch, g.b_batch = a->b_batch, g.c_batch = a->c_batch;
  g.alpha = a->alpha.i, g.beta = a->beta.i;
  int64_t n = ceil_div(a->n, SIDE), m = ceil_div(a->m, SIDE);
  g.tiles_n = make_div(n), g.tiles_m = make_div(m);
  void (*kernel)(const IntegerGemm);
  switch (a->dtype) {
  case TIDE_BOOL: kernel = integer_gemm_kernel<Bool>; break;
  case TIDE_UINT8: kernel = integer_gemm_kernel<uint8_t>; break;
  case TIDE_INT8: kernel = integer_gemm_kernel<int8_t>; break;
  case TIDE_INT16: kernel = integer_gemm_kernel<int16_t>; break;
  case TIDE_INT32: kernel = integer_gemm_kernel<int32_t>; break;
  default: kernel = integer_gemm_kernel<int64_t>; break;
  }
  return launch(kernel, n * m * a->batch, SIDE * LINES, stream, (const IntegerGemm)g);
}
