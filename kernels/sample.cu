/* sample.cu: the values of a field between its points. A thread finds once which elements count at its place and by how
 * much, and picks them from some channels of the image. float16 and bfloat16 are computed in float32.
 *
 * Invariant: no element is read where a place has none. */
#include "types.cuh"
#include "base/field.h"
#include "tidek.h"

namespace tidek {

constexpr int SAMPLE_THREADS = 256, SAMPLE_CHANNELS = 32;

struct SampleArgs {
  void *out;
  const void *in, *grid;
  int beyond, align;
  int64_t channels, points, plane, size[3], parts, blocks,
      count; /* parts of the channels; blocks of an image's places */
};

template <int MODE, int RANK> TIDE_FN int sample_at(const SampleArgs &a, const float *g, int64_t *from, float *w) {
  return tide_sample_f32(MODE, a.beyond, a.align, RANK, a.size, g, from, w);
}
template <int MODE, int RANK> TIDE_FN int sample_at(const SampleArgs &a, const double *g, int64_t *from, double *w) {
  return tide_sample_f64(MODE, a.beyond, a.align, RANK, a.size, g, from, w);
}

template <int MODE, int RANK, class S>
__global__ void __launch_bounds__(SAMPLE_THREADS) sample_kernel(const __grid_constant__ SampleArgs a) {
  kernel_begin();
  using T = typename std::conditional<std::is_same<S, double>::value, double, float>::type;
  constexpr int EACH = MODE == TIDE_SAMPLE_CUBIC ? 4 : MODE == TIDE_SAMPLE_LINEAR ? 2 : 1;
  constexpr int TAPS = RANK == 3 ? EACH * EACH * EACH : EACH * EACH;
  for (int64_t b = blockIdx.x; b < a.count; b += gridDim.x) {
    int64_t point = b % a.blocks * SAMPLE_THREADS + threadIdx.x, rest = b / a.blocks, part = rest % a.parts,
            image = rest / a.parts;
    if (point >= a.points) continue;
    const S *at = (const S *)a.grid + (image * a.points + point) * RANK;
    T g[RANK], w[TAPS];
    int64_t from[TAPS];
#pragma unroll
    for (int d = 0; d < RANK; d++) g[d] = cast<T>(at[d]);
    sample_at<MODE, RANK>(a, g, from, w);
    int64_t first = part * SAMPLE_CHANNELS,
            end = first + SAMPLE_CHANNELS < a.channels ? first + SAMPLE_CHANNELS : a.channels;
    const S *plane = (const S *)a.in + (image * a.channels + first) * a.plane;
    S *out = (S *)a.out + (image * a.channels + first) * a.points + point;
    for (int64_t c = first; c < end; c++, plane += a.plane, out += a.points) {
      T sum = 0;
#pragma unroll
      for (int t = 0; t < TAPS; t++)
        if (from[t] >= 0) sum += w[t] * cast<T>(plane[from[t]]);
      *out = cast<S>(sum);
    }
  }
}

template <class S> static int sample_run(cudaStream_t stream, const SampleArgs &s, int mode, int rank) {
  void (*kernel)(const SampleArgs) = NULL;
  if (mode == TIDE_SAMPLE_CUBIC)
    kernel = sample_kernel<TIDE_SAMPLE_CUBIC, 2, S>;
  else if (mode == TIDE_SAMPLE_NEAREST)
    kernel = rank == 3 ? sample_kernel<TIDE_SAMPLE_NEAREST, 3, S> : sample_kernel<TIDE_SAMPLE_NEAREST, 2, S>;
  else
    kernel = rank == 3 ? sample_kernel<TIDE_SAMPLE_LINEAR, 3, S> : sample_kernel<TIDE_SAMPLE_LINEAR, 2, S>;
  int64_t blocks = s.count < 0x7fffffff ? s.count : 0x7fffffff;
  return launch(kernel, blocks, SAMPLE_THREADS, stream, (const SampleArgs)s);
}

} // namespace tidek

int tidek_sample(cudaStream_t stream, const tide_sample_args *a) {
  using namespace tidek;
  SampleArgs s = {};
  s.out = a->head.ptr[0], s.in = a->head.ptr[1], s.grid = a->head.ptr[2], s.beyond = a->beyond, s.align = a->align;
  s.channels = a->channels, s.points = a->points, s.plane = a->size[0] * a->size[1] * a->size[2];
  for (int d = 0; d < 3; d++) s.size[d] = a->size[d];
  s.parts = ceil_div(a->channels, SAMPLE_CHANNELS), s.blocks = ceil_div(a->points, SAMPLE_THREADS);
  s.count = a->batch * s.parts * s.blocks;
  switch (a->dtype) {
  case TIDE_FLOAT16: return sample_run<half>(stream, s, a->mode, a->rank);
  case TIDE_BFLOAT16: return sample_run<bfloat16>(stream, s, a->mode, a->rank);
  case TIDE_FLOAT32: return sample_run<float>(stream, s, a->mode, a->rank);
  default: return sample_run<double>(stream, s, a->mode, a->rank);
  }
}
