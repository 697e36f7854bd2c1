/* depthwise.cu: convolutions whose every group has one channel, for the usual sizes of kernels: nothing is laid out,
 * and the elements of a kernel stay in registers. float16 and bfloat16 are summed in float32. */
#include "loops/strip.cuh"
#include "conv.cuh"

namespace tidek {

struct DepthwiseArgs : StripArgs {
  const void *w, *bias;
  Div by_results;
};

template <class S, int KY, int KX, int ROWS, int COLS> struct Weighted {
  using T = typename std::conditional<std::is_same<S, double>::value, double, float>::type;
  T w[KY * KX], sum[ROWS][COLS];
  S *out;
  static __device__ __forceinline__ T beyond() { return 0; }
  __device__ __forceinline__ Weighted(const DepthwiseArgs &a, uint32_t plane) : out((S *)a.out) {
    uint32_t result = a.by_results.split(plane);
    const S *from = (const S *)a.w + (int64_t)result * (KY * KX);
    const T bias = a.bias ? cast<T>(((const S *)a.bias)[result]) : (T)0;
    TIDEK_EACH(k, KY * KX) w[k] = cast<T>(from[k]);
    TIDEK_EACH(r, ROWS)
      TIDEK_EACH(c, COLS) sum[r][c] = bias;
  }
  __device__ __forceinline__ void join(int r, int c, int ky, int kx, T v, int) { sum[r][c] += w[ky * KX + kx] * v; }
  __device__ __forceinline__ void store(int r, int c, int64_t offset, int, int) { out[offset] = cast<S>(sum[r][c]); }
};

template <class S, int KY, int KX, int STRIDE, int ROWS, int COLS>
__global__ void __launch_bounds__(STRIP_THREADS) depthwise_kernel(const __grid_constant__ DepthwiseArgs a) {
  kernel_begin();
  strip<Weighted<S, KY, KX, ROWS, COLS>, S, KY, KX, STRIDE, ROWS, COLS>(a);
}

template <class S, int KY, int KX, int STRIDE, int ROWS, int COLS>
static bool depthwise_run(int *rc, cudaStream_t stream, const tide_conv_args *a) {
  DepthwiseArgs d = {};
  if (!strip_sizes(d, a->dim, a->batch * a->results, a->results / a->channels, ROWS, COLS)) return false;
  d.out = a->head.ptr[0], d.in = a->head.ptr[1], d.w = a->head.ptr[2], d.bias = a->head.ptr[3];
  d.by_results = make_div(a->results);
  *rc = launch(depthwise_kernel<S, KY, KX, STRIDE, ROWS, COLS>, ceil_div(d.count, STRIP_THREADS), STRIP_THREADS, stream,
               (const DepthwiseArgs)d);
  return true;
}

template <class S> static bool depthwise_pick(int *rc, cudaStream_t stream, const tide_conv_args *a) {
  const tide_taps *y = &a->dim[1], *x = &a->dim[2];
#define CASE(KY, KX, STRIDE, ROWS, COLS)                                                                               \
  if (y->kernel == KY && x->kernel == KX && x->stride == STRIDE && (y->stride == STRIDE || y->out == 1))               \
    return depthwise_run<S, KY, KX, STRIDE, ROWS, COLS>(rc, stream, a);
  CASE(3, 3, 1, 4, 2)
  CASE(3, 3, 2, 2, 2)
  CASE(5, 5, 1, 4, 2)
  CASE(7, 7, 1, 4, 2)
  CASE(1, 3, 1, 1, 4)
  CASE(1, 4, 1, 1, 4)
#undef CASE
  return false;
}

bool conv_depthwise(int *rc, cudaStream_t stream, const tide_conv_args *a) {
  const tide_taps *d = a->dim;
  if (a->channels != a->groups || d[0].in * d[0].out * d[0].kernel != 1 || d[0].before) return false;
  for (int i = 0; i < 3; i++)
    if (a->up[i] != 1 || (d[i].dilation != 1 && d[i].kernel != 1)) return false;
  switch (a->dtype) {
  case TIDE_FLOAT16: return depthwise_pick<half>(rc, stream, a);
  case TIDE_BFLOAT16: return depthwise_pick<bfloat16>(rc, stream, a);
  case TIDE_FLOAT32: return depthwise_pick<float>(rc, stream, a);
  default: return depthwise_pick<double>(rc, stream, a);
  }
}

} // namespace tidek
