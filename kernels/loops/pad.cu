/* pad.cu: borders, and elements that are spread. A thread makes four elements of the result, of one row, which it
 * writes at once where they lie at a multiple of their bytes; rows are filled up to whole fours.
 *
 * Invariant: no element is read where its dim has no place for it. */
#include "launch.cuh"
#include "base/mathematics/field.h"
#include "resize.cuh"
#include "tidek.h"

namespace tidek {

constexpr int PAD_THREADS = 256, PAD_EACH = 4;

struct PadArgs {
  void *out;
  const void *in;
  int ndim;
  int64_t fours, cols; /* of a row; elements of a row */
  int64_t size[TIDE_MAX_DIMS], in_size[TIDE_MAX_DIMS], before[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS];
  Div div[TIDE_MAX_DIMS];
  int rule[TIDE_MAX_DIMS];
  float scale[TIDE_MAX_DIMS];
  uint64_t count, bits[2];
};

/* S: an element. BIG: more threads than 32 bits count. */
template <class S, bool BIG>
__global__ void __launch_bounds__(PAD_THREADS) pad_kernel(const __grid_constant__ PadArgs a) {
  kernel_begin();
  using U = typename std::conditional<BIG, uint64_t, uint32_t>::type;
  int last = a.ndim - 1;
  S none = *(const S *)a.bits;
  for (uint64_t i = (uint64_t)blockIdx.x * PAD_THREADS + threadIdx.x; i < a.count;
       i += (uint64_t)gridDim.x * PAD_THREADS) {
    U rest = (U)i, four;
    if constexpr (BIG)
      four = rest % a.fours, rest /= a.fours;
    else
      four = a.div[last].split(rest);
    int64_t row = rest, offset = 0, j = (int64_t)four * PAD_EACH;
    bool found = true;
    for (int d = last - 1; d >= 0; d--) {
      U at;
      if constexpr (BIG)
        at = rest % a.size[d], rest /= a.size[d];
      else
        at = a.div[d].split(rest);
      int64_t p = tide_place(a.rule[d], at, a.before[d], a.in_size[d], a.scale[d]);
      found = found && p >= 0;
      offset += p * a.stride[d];
    }
    const S *in = (const S *)a.in + offset;
    Pack<S, PAD_EACH> v;
    TIDEK_EACH(e, PAD_EACH) {
      int64_t p = found && j + e < a.cols
                      ? tide_place(a.rule[last], j + e, a.before[last], a.in_size[last], a.scale[last])
                      : -1;
      v.v[e] = p < 0 ? none : in[p * a.stride[last]];
    }
    S *out = (S *)a.out + row * a.cols + j;
    if (sizeof(S) <= 4 && a.cols % PAD_EACH == 0) {
      if constexpr (sizeof(S) <= 4) v.store(out);
    } else {
      TIDEK_EACH(e, PAD_EACH)
        if (j + e < a.cols) out[e] = v.v[e];
    }
  }
}

template <class S> static int pad_run(cudaStream_t stream, const PadArgs &p) {
  int64_t blocks = ceil_div((int64_t)p.count, PAD_THREADS);
  if (blocks > 0x7fffffff) blocks = 0x7fffffff;
  return launch(p.count < MAX_PIECE ? pad_kernel<S, false> : pad_kernel<S, true>, blocks, PAD_THREADS, stream,
                (const PadArgs)p);
}

} // namespace tidek

int tidek_pad(cudaStream_t stream, const tide_pad_args *a) {
  using namespace tidek;
  if (is_resize(a)) return resize(stream, a);
  PadArgs p = {};
  p.out = a->head.ptr[0], p.in = a->head.ptr[1], p.ndim = a->ndim ? a->ndim : 1;
  p.size[0] = p.in_size[0] = p.stride[0] = 1, p.div[0] = make_div(1); /* of no dims: one element */
  for (int d = 0; d < a->ndim; d++) {
    p.size[d] = a->size[d], p.in_size[d] = a->in_size[d], p.before[d] = a->before[d], p.stride[d] = a->stride[d];
    p.rule[d] = a->rule[d], p.scale[d] = a->scale[d];
  }
  p.cols = p.size[p.ndim - 1], p.fours = ceil_div(p.cols, PAD_EACH);
  p.count = (uint64_t)(a->numel / p.cols * p.fours);
  for (int d = 0; d < p.ndim && p.count < (uint64_t)MAX_PIECE; d++)
    p.div[d] = make_div(d == p.ndim - 1 ? p.fours : p.size[d]);
  p.bits[0] = a->bits[0], p.bits[1] = a->bits[1];
  switch (a->item_size) {
  case 1: return pad_run<uint8_t>(stream, p);
  case 2: return pad_run<uint16_t>(stream, p);
  case 4: return pad_run<uint32_t>(stream, p);
  case 8: return pad_run<uint2>(stream, p);
  default: return pad_run<uint4>(stream, p);
  }
}
