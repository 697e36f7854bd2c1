/* window.cu: the maximum or mean of windows that pool.cu has none for, and fields of one or three dims in another size
 * (images: resize.cu). A thread makes some neighbours of a row of the result, which it writes at once where they lie at
 * a multiple of their bytes; what the other dims need of the input is known once for all of them. float16 and bfloat16
 * are computed in float32; int64 has maxima alone.
 *
 * Invariant: of the input nothing is read but what a window covers. */
#include "types.cuh"
#include "base/mathematics/field.h"
#include "pool.cuh"
#include "resize.cuh"
#include "tidek.h"

namespace tidek {

constexpr int WINDOW_THREADS = 256, WINDOW_EACH = 4;

struct WindowArgs {
  void *out;
  const void *in;
  int64_t *places;
  int align, with_border, base;
  int64_t divisor, in_plane;
  uint64_t count, fours;
  tide_taps dim[3];
  Div div[3]; /* by fours, and the sizes of dims 1 and 0 */
};

/* T: what is computed in; its functions of base/mathematics/field.h. */
template <class T> struct Between;
template <> struct Between<float> {
  static __device__ __forceinline__ void at(const tide_taps *d, bool align, int64_t i, int64_t *from, float *w) {
    tide_between_f32(false, d, align, i, from, w);
  }
};
template <> struct Between<double> {
  static __device__ __forceinline__ void at(const tide_taps *d, bool align, int64_t i, int64_t *from, double *w) {
    tide_between_f64(false, d, align, i, from, w);
  }
};

/* The two elements along a dim between which element i lies, as offsets. */
template <class T> struct Taps {
  int64_t from[2];
  T w[2];
  __device__ __forceinline__ Taps(const WindowArgs &a, int k, int64_t i, int64_t pitch) {
    Between<T>::at(&a.dim[k], a.align, i, from, w);
    from[0] *= pitch, from[1] *= pitch;
  }
};

template <int DEEP, class S, class T>
static __device__ __forceinline__ void between(T (&v)[WINDOW_EACH], const WindowArgs &a, const S *plane, int64_t z,
                                               int64_t y, int64_t x) {
  Taps<T> down(a, 1, y, a.dim[2].in);
  Taps<T> deep(a, 0, DEEP > 1 ? z : 0, a.dim[1].in * a.dim[2].in);
  TIDEK_EACH(e, WINDOW_EACH) {
    Taps<T> across(a, 2, x + e < a.dim[2].out ? x + e : x, 1);
    v[e] = 0;
    TIDEK_EACH(k, DEEP) {
      T flat = 0;
      TIDEK_EACH(j, 2) {
        const S *row = plane + (DEEP > 1 ? deep.from[k] : 0) + down.from[j];
        T line = 0;
        TIDEK_EACH(i, 2) line += across.w[i] * cast<T>(row[across.from[i]]);
        flat += down.w[j] * line;
      }
      v[e] += DEEP > 1 ? deep.w[k] * flat : flat;
    }
  }
}

template <class T> static __device__ __forceinline__ T least_of() {
  if constexpr (std::is_integral_v<T>)
    return INT64_MIN;
  else
    return (T)-INFINITY;
}

template <int OP, class S, class T>
static __device__ __forceinline__ void window(T (&v)[WINDOW_EACH], int64_t (&at)[WINDOW_EACH], const WindowArgs &a,
                                              const S *plane, int64_t z, int64_t y, int64_t x) {
  tide_reach deep = tide_reach_of(OP, &a.dim[0], z), down = tide_reach_of(OP, &a.dim[1], y);
  TIDEK_EACH(e, WINDOW_EACH) {
    tide_reach across = tide_reach_of(OP, &a.dim[2], x + e < a.dim[2].out ? x + e : x);
    bool any = false;
    v[e] = OP == TIDE_WINDOW_MAX ? least_of<T>() : (T)0, at[e] = 0;
    for (int64_t k = 0; k < deep.count; k++)
      for (int64_t j = 0; j < down.count; j++) {
        int64_t row =
            ((deep.first + k * deep.step) * a.dim[1].in + down.first + j * down.step) * a.dim[2].in + across.first;
        for (int i = 0; i < (int)across.count; i++, row += across.step) {
          T one = cast<T>(plane[row]);
          if (OP != TIDE_WINDOW_MAX) {
            v[e] += one;
          } else if (!any || one > v[e] || one != one) {
            v[e] = one, at[e] = row, any = true;
          }
        }
      }
    if (OP != TIDE_WINDOW_MAX) {
      int64_t n = deep.count * down.count * across.count;
      int64_t by = OP == TIDE_WINDOW_AREA ? n
                   : a.divisor            ? a.divisor
                   : a.with_border        ? deep.all * down.all * across.all
                                          : n;
      v[e] = n ? v[e] / (T)by : (T)0;
    }
  }
}

/* DEEP: elements along the first dim between which a result lies, 1: there is no such dim. BIG: more threads than 32
 * bits count. */
template <int OP, int DEEP, class S, bool BIG>
__global__ void __launch_bounds__(WINDOW_THREADS) window_kernel(const __grid_constant__ WindowArgs a) {
  kernel_begin();
  using T = typename std::conditional<sizeof(S) == 8, S, float>::type;
  using U = typename std::conditional<BIG, uint64_t, uint32_t>::type;
  for (uint64_t i = (uint64_t)blockIdx.x * WINDOW_THREADS + threadIdx.x; i < a.count;
       i += (uint64_t)gridDim.x * WINDOW_THREADS) {
    U rest = (U)i, four, y, z;
    if constexpr (BIG) {
      four = rest % a.fours, rest /= a.fours;
    } else {
      four = a.div[2].split(rest);
    }
    int64_t row = rest, x = (int64_t)four * WINDOW_EACH;
    if constexpr (BIG) {
      y = rest % a.dim[1].out, rest /= a.dim[1].out, z = rest % a.dim[0].out, rest /= a.dim[0].out;
    } else {
      y = a.div[1].split(rest), z = a.div[0].split(rest);
    }
    const S *plane = (const S *)a.in + (int64_t)rest * a.in_plane;
    T v[WINDOW_EACH];
    int64_t at[WINDOW_EACH];
    if constexpr (OP >= TIDE_WINDOW_LINEAR)
      between<DEEP>(v, a, plane, z, y, x);
    else
      window<OP>(v, at, a, plane, z, y, x);
    const int64_t offset = row * a.dim[2].out + x;
    S *out = (S *)a.out + offset;
    if (a.dim[2].out % WINDOW_EACH == 0 && sizeof(S) <= 4) {
      Pack<S, WINDOW_EACH> pack;
      TIDEK_EACH(e, WINDOW_EACH) pack.v[e] = cast<S>(v[e]);
      if constexpr (sizeof(S) <= 4) pack.store(out);
    } else {
      TIDEK_EACH(e, WINDOW_EACH)
        if (x + e < a.dim[2].out) out[e] = cast<S>(v[e]);
    }
    if (OP == TIDE_WINDOW_MAX && a.places)
      TIDEK_EACH(e, WINDOW_EACH)
        if (x + e < a.dim[2].out) a.places[offset + e] = at[e] + a.base;
  }
}

template <int OP, int DEEP, class S> static int window_run(cudaStream_t stream, const WindowArgs &w) {
  int64_t blocks = ceil_div((int64_t)w.count, WINDOW_THREADS);
  if (blocks > 0x7fffffff) blocks = 0x7fffffff;
  return launch(w.count < (uint64_t)MAX_PIECE ? window_kernel<OP, DEEP, S, false> : window_kernel<OP, DEEP, S, true>,
                blocks, WINDOW_THREADS, stream, (const WindowArgs)w);
}

template <class S> static int window_op(cudaStream_t stream, const WindowArgs &w, int op) {
  bool deep = w.dim[0].in > 1 || w.dim[0].out > 1;
  switch (op) {
  case TIDE_WINDOW_MAX: return window_run<TIDE_WINDOW_MAX, 1, S>(stream, w);
  case TIDE_WINDOW_MEAN: return window_run<TIDE_WINDOW_MEAN, 1, S>(stream, w);
  case TIDE_WINDOW_AREA: return window_run<TIDE_WINDOW_AREA, 1, S>(stream, w);
  default:
    return deep ? window_run<TIDE_WINDOW_LINEAR, 2, S>(stream, w) : window_run<TIDE_WINDOW_LINEAR, 1, S>(stream, w);
  }
}

} // namespace tidek

int tidek_window(cudaStream_t stream, const tide_window_args *a) {
  using namespace tidek;
  int rc;
  if (is_resize(a)) return resize(stream, a);
  if (pool(&rc, stream, a)) return rc;
  WindowArgs w = {};
  w.out = a->head.ptr[0], w.in = a->head.ptr[1], w.places = (int64_t *)a->head.ptr[2];
  w.align = a->align, w.with_border = a->with_border, w.base = a->index_base, w.divisor = a->divisor;
  w.in_plane = a->dim[0].in * a->dim[1].in * a->dim[2].in;
  w.fours = (uint64_t)ceil_div(a->dim[2].out, WINDOW_EACH);
  w.count = (uint64_t)(a->planes * a->dim[0].out * a->dim[1].out) * w.fours;
  for (int d = 0; d < 3; d++) w.dim[d] = a->dim[d];
  if (w.count < (uint64_t)MAX_PIECE) {
    w.div[0] = make_div(w.dim[0].out), w.div[1] = make_div(w.dim[1].out), w.div[2] = make_div((int64_t)w.fours);
  }
  switch (a->dtype) {
  case TIDE_FLOAT16: return window_op<half>(stream, w, a->op);
  case TIDE_BFLOAT16: return window_op<bfloat16>(stream, w, a->op);
  case TIDE_FLOAT32: return window_op<float>(stream, w, a->op);
  case TIDE_INT64: return window_run<TIDE_WINDOW_MAX, 1, int64_t>(stream, w);
  default: return window_op<double>(stream, w, a->op);
  }
}
