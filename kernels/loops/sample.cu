/* sample.cu: the values of a field between its points. A thread finds once which elements count at its place and by how
 * much, and picks them from some channels of the image, several channels at a time, so that many loads are in flight.
 * Blocks are large, so that they hold several rows of places, which need the same rows of the image: L2 would be asked
 * for them again. float16 and bfloat16 are computed in float32.
 *
 * Invariant: no element is read where a place has none. */
#include "types.cuh"
#include "base/mathematics/field.h"
#include "tidek.h"

namespace tidek {

constexpr int SAMPLE_CHANNELS = 32, SAMPLE_LOADS = 8; /* of a thread; loads that are in flight at once */

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

/* How a kernel is cut: taps of a place, threads of a block, channels that are read before one is written, and blocks
 * that a multiprocessor holds at once, at least, since loads that depend on places wait long. Many taps and doubles
 * take the registers of large blocks. */
template <int MODE, int RANK, class S> struct Cut {
  using T = typename std::conditional<std::is_same<S, double>::value, double, float>::type;
  static constexpr int EACH = MODE == TIDE_SAMPLE_CUBIC ? 4 : MODE == TIDE_SAMPLE_LINEAR ? 2 : 1;
  static constexpr int TAPS = RANK == 3 ? EACH * EACH * EACH : EACH * EACH;
  static constexpr int THREADS = TAPS > SAMPLE_LOADS || sizeof(T) > 4 ? 256 : 1024;
  static constexpr int AHEAD = TAPS < SAMPLE_LOADS ? SAMPLE_LOADS / TAPS : 1;
  static constexpr int BLOCKS = THREADS == 1024 && TAPS <= 4 ? 2 : 1;
};

template <int MODE, int RANK, class S>
__global__ void __launch_bounds__((Cut<MODE, RANK, S>::THREADS), (Cut<MODE, RANK, S>::BLOCKS))
    sample_kernel(const __grid_constant__ SampleArgs a) {
  using C = Cut<MODE, RANK, S>;
  using T = typename C::T;
  constexpr int TAPS = C::TAPS, AHEAD = C::AHEAD;
  kernel_begin();
  for (int64_t b = blockIdx.x; b < a.count; b += gridDim.x) {
    int64_t point = b % a.blocks * C::THREADS + threadIdx.x, rest = b / a.blocks, part = rest % a.parts,
            image = rest / a.parts;
    if (point >= a.points) continue;
    const S *at = (const S *)a.grid + (image * a.points + point) * RANK;
    T g[RANK], w[TAPS];
    int64_t from[TAPS];
    TIDEK_EACH(d, RANK) g[d] = cast<T>(at[d]);
    sample_at<MODE, RANK>(a, g, from, w);
    int64_t first = part * SAMPLE_CHANNELS,
            end = first + SAMPLE_CHANNELS < a.channels ? first + SAMPLE_CHANNELS : a.channels;
    const S *plane = (const S *)a.in + (image * a.channels + first) * a.plane;
    S *out = (S *)a.out + (image * a.channels + first) * a.points + point;
    for (int64_t c = first; c < end; c += AHEAD, plane += AHEAD * a.plane, out += AHEAD * a.points) {
      T v[AHEAD][TAPS], sum[AHEAD];
      if constexpr (AHEAD > 1) {
        TIDEK_EACH(e, AHEAD)
          TIDEK_EACH(t, TAPS) v[e][t] = from[t] >= 0 && c + e < end ? cast<T>(plane[e * a.plane + from[t]]) : (T)0;
      }
      TIDEK_EACH(e, AHEAD) {
        sum[e] = 0;
        TIDEK_EACH(t, TAPS)
          if (AHEAD > 1)
            sum[e] += w[t] * v[e][t];
          else if (from[t] >= 0)
            sum[e] += w[t] * cast<T>(plane[from[t]]);
        if (c + e < end) out[e * a.points] = cast<S>(sum[e]);
      }
    }
  }
}

template <int MODE, int RANK, class S> static int sample_launch(cudaStream_t stream, SampleArgs s, int64_t batch) {
  constexpr int THREADS = Cut<MODE, RANK, S>::THREADS;
  s.blocks = ceil_div(s.points, THREADS), s.count = batch * s.parts * s.blocks;
  return launch(sample_kernel<MODE, RANK, S>, s.count < 0x7fffffff ? s.count : 0x7fffffff, THREADS, stream,
                (const SampleArgs)s);
}

template <class S> static int sample_run(cudaStream_t stream, const SampleArgs &s, const tide_sample_args *a) {
  bool deep = a->rank == 3;
  switch (a->mode) {
  case TIDE_SAMPLE_CUBIC: return sample_launch<TIDE_SAMPLE_CUBIC, 2, S>(stream, s, a->batch);
  case TIDE_SAMPLE_NEAREST:
    return deep ? sample_launch<TIDE_SAMPLE_NEAREST, 3, S>(stream, s, a->batch)
                : sample_launch<TIDE_SAMPLE_NEAREST, 2, S>(stream, s, a->batch);
  default:
    return deep ? sample_launch<TIDE_SAMPLE_LINEAR, 3, S>(stream, s, a->batch)
                : sample_launch<TIDE_SAMPLE_LINEAR, 2, S>(stream, s, a->batch);
  }
}

} // namespace tidek

int tidek_sample(cudaStream_t stream, const tide_sample_args *a) {
  using namespace tidek;
  SampleArgs s = {};
  s.out = a->head.ptr[0], s.in = a->head.ptr[1], s.grid = a->head.ptr[2], s.beyond = a->beyond, s.align = a->align;
  s.channels = a->channels, s.points = a->points, s.plane = a->size[0] * a->size[1] * a->size[2];
  for (int d = 0; d < 3; d++) s.size[d] = a->size[d];
  s.parts = ceil_div(a->channels, SAMPLE_CHANNELS);
  switch (a->dtype) {
  case TIDE_FLOAT16: return sample_run<half>(stream, s, a);
  case TIDE_BFLOAT16: return sample_run<bfloat16>(stream, s, a);
  case TIDE_FLOAT32: return sample_run<float>(stream, s, a);
  default: return sample_run<double>(stream, s, a);
  }
}
