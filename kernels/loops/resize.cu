/* resize.cu: images in another size, by nearest, linear or cubic mode.
 *
 * A thread makes a run of some rows of one column. What the column needs of a row of the input it finds once, the block
 * what its rows need of the columns, and a row of the input that several rows of the result need is read once. Blocks
 * are as wide as the image or of 256 columns, and take several images where those are narrow. float16 and bfloat16 are
 * computed in float32.
 *
 * Invariant: all threads of a block make the same rows, so that what they keep of the input moves on together. */
#include "base/mathematics/field.h"
#include "resize.cuh"
#include "tidek.h"
#include "types.cuh"

namespace tidek {

constexpr int LOG_THREADS = 8, RESIZE_THREADS = 1 << LOG_THREADS;
constexpr int RUN = 16, AHEAD = 4; /* rows of a thread; those whose loads are in flight together, of nearest mode */

struct ResizeArgs {
  void *out;
  const void *in;
  int64_t planes, pitch[3];     /* pitch: of an image of the input, a row and a column */
  int64_t blocks, runs, chunks; /* runs of rows and chunks of columns of an image */
  int32_t width, shift;         /* columns of a block, and their log2 */
  int32_t align, rule[2];
  float scale[2];
  tide_taps dim[2];
};

/* Which N elements along dim k element i needs, and their weights. */
template <int N>
static __device__ __forceinline__ void taps(const ResizeArgs &a, int k, int64_t i, int32_t (&from)[N], float (&w)[N]) {
  int64_t place[N];
  if constexpr (N == 1)
    place[0] = tide_place(a.rule[k], i, 0, a.dim[k].in, a.scale[k]);
  else
    tide_between_f32(N == 4, &a.dim[k], a.align, i, place, w);
  TIDEK_EACH(t, N) from[t] = (int32_t)place[t];
}
template <int N>
static __device__ __forceinline__ void taps(const ResizeArgs &a, int k, int64_t i, int32_t (&from)[N], double (&w)[N]) {
  int64_t place[N];
  tide_between_f64(N == 4, &a.dim[k], a.align, i, place, w);
  TIDEK_EACH(t, N) from[t] = (int32_t)place[t];
}

template <int N, class T> struct Run {
  int32_t from[RUN][N];
  T w[RUN][N];
};

/* One column, at `out`, of the rows of a run. */
template <int N, class S, class T>
static __device__ __forceinline__ void column(const ResizeArgs &a, S *out, const S *in, const int32_t (&across)[N],
                                              const T (&weight)[N], const Run<N, T> &run, int rows) {
  int32_t held[N];
  T line[N];
  TIDEK_EACH(j, N) held[j] = -1;
  for (int r = 0; r < rows; r++, out += a.dim[1].out) {
    T sum = 0;
    TIDEK_EACH(j, N) {
      const int32_t row = run.from[r][j];
      if (j + 1 < N && row == held[j + 1 < N ? j + 1 : j]) {
        line[j] = line[j + 1 < N ? j + 1 : j];
      } else if (row != held[j]) {
        const S *at = in + row * a.pitch[1];
        line[j] = 0;
        TIDEK_EACH(i, N) line[j] += weight[i] * cast<T>(at[across[i]]);
      }
      held[j] = row;
      sum += run.w[r][j] * line[j];
    }
    *out = cast<S>(sum);
  }
}

/* The same of nearest mode, where nothing is computed. */
template <class S>
static __device__ __forceinline__ void column(const ResizeArgs &a, S *out, const S *in, const int32_t (&across)[1],
                                              const float (&)[1], const Run<1, float> &run, int rows) {
  in += across[0];
  for (int r = 0; r < rows; r += AHEAD) {
    S v[AHEAD];
    TIDEK_EACH(e, AHEAD) v[e] = in[run.from[r + e < rows ? r + e : r][0] * a.pitch[1]];
#pragma unroll
    for (int e = 0; e < AHEAD; e++, out += a.dim[1].out)
      if (r + e < rows) *out = v[e];
  }
}

template <int N, class S, class T>
__global__ void __launch_bounds__(RESIZE_THREADS) resize_kernel(const __grid_constant__ ResizeArgs a) {
  kernel_begin();
  __shared__ Run<N, T> shared;
  const int column_of = (int)threadIdx.x & (a.width - 1), image_of = (int)threadIdx.x >> a.shift;
  for (int64_t b = blockIdx.x; b < a.blocks; b += gridDim.x) {
    int64_t rest = b / a.chunks, first = rest % a.runs * RUN;
    int rows = (int)(a.dim[0].out - first < RUN ? a.dim[0].out - first : RUN);
    if ((int)threadIdx.x < rows) taps<N>(a, 0, first + threadIdx.x, shared.from[threadIdx.x], shared.w[threadIdx.x]);
    __syncthreads();
    int64_t x = b % a.chunks * a.width + column_of, plane = (rest / a.runs << (LOG_THREADS - a.shift)) + image_of;
    if (x < a.dim[1].out && plane < a.planes) {
      int32_t across[N];
      T weight[N];
      taps<N>(a, 1, x, across, weight);
      TIDEK_EACH(i, N) across[i] *= (int32_t)a.pitch[2];
      column(a, (S *)a.out + (plane * a.dim[0].out + first) * a.dim[1].out + x, (const S *)a.in + plane * a.pitch[0],
             across, weight, shared, rows);
    }
    __syncthreads();
  }
}

/* Completes the arguments, of which the dims are known. */
template <int N, class S, class T = float> static int resize_run(cudaStream_t stream, ResizeArgs r) {
  while (r.shift < LOG_THREADS && 1 << r.shift < r.dim[1].out) r.shift++;
  r.width = 1 << r.shift;
  r.chunks = ceil_div(r.dim[1].out, r.width), r.runs = ceil_div(r.dim[0].out, RUN);
  r.blocks = r.chunks * r.runs * ceil_div(r.planes, RESIZE_THREADS >> r.shift);
  return launch(resize_kernel<N, S, T>, r.blocks < 0x7fffffff ? r.blocks : 0x7fffffff, RESIZE_THREADS, stream,
                (const ResizeArgs)r);
}

template <int N> static int resize_floats(cudaStream_t stream, const ResizeArgs &r, int dtype) {
  switch (dtype) {
  case TIDE_FLOAT16: return resize_run<N, half>(stream, r);
  case TIDE_BFLOAT16: return resize_run<N, bfloat16>(stream, r);
  case TIDE_FLOAT32: return resize_run<N, float>(stream, r);
  default: return resize_run<N, double, double>(stream, r);
  }
}

/* Do 32 bits count it? */
static bool counts(int64_t n, int64_t pitch) { return n * (pitch < 0 ? -pitch : pitch) <= INT32_MAX; }

bool is_resize(const tide_window_args *a) {
  if (a->op == TIDE_WINDOW_CUBIC) return true;
  const tide_taps *deep = &a->dim[0], *down = &a->dim[1];
  return a->op == TIDE_WINDOW_LINEAR && deep->in == 1 && deep->out == 1 && down->out > 1 && down->scale < 2;
}

int resize(cudaStream_t stream, const tide_window_args *a) {
  ResizeArgs r = {};
  if (!counts(a->dim[1].in, 1) || !counts(a->dim[2].in, 1)) return cudaErrorNotSupported;
  r.out = a->head.ptr[0], r.in = a->head.ptr[1], r.planes = a->planes, r.align = a->align;
  r.dim[0] = a->dim[1], r.dim[1] = a->dim[2];
  r.pitch[0] = a->dim[1].in * a->dim[2].in, r.pitch[1] = a->dim[2].in, r.pitch[2] = 1;
  return a->op == TIDE_WINDOW_CUBIC ? resize_floats<4>(stream, r, a->dtype) : resize_floats<2>(stream, r, a->dtype);
}

static bool spreads(int rule) { return rule == TIDE_PLACE_NEAREST || rule == TIDE_PLACE_NEAREST_EXACT; }
static bool stays(const tide_pad_args *a, int d) {
  return a->rule[d] == TIDE_PLACE_CONSTANT && a->before[d] == 0 && a->size[d] == a->in_size[d];
}

bool is_resize(const tide_pad_args *a) {
  int last = a->ndim - 1;
  if (last < 1 || last > 2 || (last == 2 && !stays(a, 0))) return false;
  return spreads(a->rule[last - 1]) && (spreads(a->rule[last]) || stays(a, last)) && counts(a->in_size[last - 1], 1) &&
         counts(a->in_size[last], a->stride[last]);
}

int resize(cudaStream_t stream, const tide_pad_args *a) {
  ResizeArgs r = {};
  int last = a->ndim - 1;
  r.out = a->head.ptr[0], r.in = a->head.ptr[1], r.planes = last == 2 ? a->size[0] : 1;
  for (int k = 0; k < 3; k++) r.pitch[k] = last - 2 + k < 0 ? 0 : a->stride[last - 2 + k];
  for (int k = 0; k < 2; k++) {
    int d = last - 1 + k;
    r.dim[k].in = a->in_size[d], r.dim[k].out = a->size[d], r.rule[k] = a->rule[d], r.scale[k] = a->scale[d];
  }
  switch (a->item_size) {
  case 1: return resize_run<1, uint8_t>(stream, r);
  case 2: return resize_run<1, uint16_t>(stream, r);
  case 4: return resize_run<1, uint32_t>(stream, r);
  case 8: return resize_run<1, uint2>(stream, r);
  default: return resize_run<1, uint4>(stream, r);
  }
}

} // namespace tidek
