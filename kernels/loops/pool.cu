/* pool.cu: the maximum or mean of the usual windows, of 2 x 2 and 3 x 3 elements of planes; window.cu has all others.
 * float16 and bfloat16 are computed in float32. */
#include "strip.cuh"
#include "pool.cuh"

namespace tidek {

struct PoolArgs : StripArgs {
  int64_t *places;
  double divisor; /* 0: what the windows cover */
  int base, with_border;
};

template <class S> using pool_type = typename std::conditional<std::is_same<S, double>::value, double, float>::type;

template <class S, int K, int STRIDE, int ROWS, int COLS, bool PLACES> struct Maximum {
  using T = pool_type<S>;
  T best[ROWS][COLS];
  int place[PLACES ? ROWS : 1][PLACES ? COLS : 1]; /* -1: nothing was seen */
  const PoolArgs &a;
  static __device__ __forceinline__ T beyond() { return (T)-INFINITY; }
  __device__ __forceinline__ Maximum(const PoolArgs &args, uint32_t) : a(args) {
    TIDEK_EACH(r, ROWS)
      TIDEK_EACH(c, COLS) {
        best[r][c] = beyond();
        if constexpr (PLACES) place[r][c] = -1;
      }
  }
  __device__ __forceinline__ void join(int r, int c, int, int, T v, int at) {
    if constexpr (PLACES) {
      if (at >= 0 && (place[r][c] < 0 || v > best[r][c] || v != v)) best[r][c] = v, place[r][c] = at;
    } else {
      best[r][c] = v > best[r][c] || v != v ? v : best[r][c];
    }
  }
  __device__ __forceinline__ void store(int r, int c, int64_t offset, int, int) {
    ((S *)a.out)[offset] = cast<S>(best[r][c]);
    if constexpr (PLACES) a.places[offset] = (place[r][c] < 0 ? 0 : place[r][c]) + a.base;
  }
};

template <class S, int K, int STRIDE, int ROWS, int COLS> struct Mean {
  using T = pool_type<S>;
  T sum[ROWS][COLS] = {};
  const PoolArgs &a;
  static __device__ __forceinline__ T beyond() { return 0; }
  __device__ __forceinline__ Mean(const PoolArgs &args, uint32_t) : a(args) {}
  __device__ __forceinline__ void join(int r, int c, int, int, T v, int) { sum[r][c] += v; }
  /* How many elements a window that begins at `from` covers of n: tide_reach_of in 32 bits. */
  static __device__ __forceinline__ int covered(int from, int n, int low, int high) {
    return max(min(from + K, n + high) - max(from, low), 0);
  }
  __device__ __forceinline__ void store(int r, int c, int64_t offset, int y, int x) {
    const int from_y = y * STRIDE - a.before_y, from_x = x * STRIDE - a.before_x;
    const int n = covered(from_y, a.in_y, 0, 0) * covered(from_x, a.in_x, 0, 0);
    int by = n;
    if (a.with_border)
      by = covered(from_y, a.in_y, -a.before_y, a.before_y) * covered(from_x, a.in_x, -a.before_x, a.before_x);
    const T divisor = a.divisor ? (T)a.divisor : (T)by;
    ((S *)a.out)[offset] = cast<S>(n > 0 ? sum[r][c] / divisor : (T)0);
  }
};

template <class Policy, class S, int K, int STRIDE, int ROWS, int COLS>
__global__ void __launch_bounds__(STRIP_THREADS) pool_kernel(const __grid_constant__ PoolArgs a) {
  kernel_begin();
  strip<Policy, S, K, K, STRIDE, ROWS, COLS>(a);
}

template <class S, int K, int STRIDE, int ROWS, int COLS>
static bool pool_run(int *rc, cudaStream_t stream, const tide_window_args *a) {
  PoolArgs p = {};
  if (!strip_sizes(p, a->dim, a->planes, 1, ROWS, COLS)) return false;
  p.out = a->head.ptr[0], p.in = a->head.ptr[1], p.places = (int64_t *)a->head.ptr[2];
  p.divisor = (double)a->divisor, p.base = a->index_base, p.with_border = a->with_border;
#define KERNEL(...) pool_kernel<__VA_ARGS__, S, K, STRIDE, ROWS, COLS>
  auto kernel = a->op == TIDE_WINDOW_MEAN ? KERNEL(Mean<S, K, STRIDE, ROWS, COLS>)
                : p.places                ? KERNEL(Maximum<S, K, STRIDE, ROWS, COLS, true>)
                                          : KERNEL(Maximum<S, K, STRIDE, ROWS, COLS, false>);
#undef KERNEL
  *rc = launch(kernel, ceil_div(p.count, STRIP_THREADS), STRIP_THREADS, stream, (const PoolArgs)p);
  return true;
}

template <class S> static bool pool_pick(int *rc, cudaStream_t stream, const tide_window_args *a) {
  const int64_t kernel = a->dim[2].kernel, stride = a->dim[2].stride;
  if (kernel == 2 && stride == 2) return pool_run<S, 2, 2, 2, 2>(rc, stream, a);
  if (kernel == 3 && stride == 2) return pool_run<S, 3, 2, 4, 2>(rc, stream, a);
  if (kernel == 3 && stride == 1) return pool_run<S, 3, 1, 4, 2>(rc, stream, a);
  return false;
}

bool pool(int *rc, cudaStream_t stream, const tide_window_args *a) {
  const tide_taps *d = a->dim;
  if ((a->op != TIDE_WINDOW_MAX && a->op != TIDE_WINDOW_MEAN) || a->dtype == TIDE_INT64) return false;
  if (d[0].in * d[0].out * d[0].kernel != 1 || d[0].before || d[1].dilation * d[2].dilation != 1) return false;
  if (d[1].kernel != d[2].kernel || d[1].stride != d[2].stride) return false;
  switch (a->dtype) {
  case TIDE_FLOAT16: return pool_pick<half>(rc, stream, a);
  case TIDE_BFLOAT16: return pool_pick<bfloat16>(rc, stream, a);
  case TIDE_FLOAT32: return pool_pick<float>(rc, stream, a);
  default: return pool_pick<double>(rc, stream, a);
  }
}

} // namespace tidek
