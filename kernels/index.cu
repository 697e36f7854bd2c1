/* index.cu: gather and scatter, and positions from several indexes.
 *
 * Elements are moved as words of their size, or of up to 16 bytes where the index stands still along the innermost dim
 * and it is contiguous on both sides. Scatters that reduce, or keep an order, are in files of their own. */
#include "indexed.cuh"

namespace tidek {

constexpr int THREADS = INDEX_THREADS;

template <class W> static __device__ __forceinline__ W zero_word() {
  W w;
  memset(&w, 0, sizeof w);
  return w;
}

template <class W, bool SCATTER>
__global__ void __launch_bounds__(THREADS) index_kernel(const __grid_constant__ IndexArgs a) {
  kernel_begin();
  constexpr int EACH = INDEX_EACH;
  int64_t start = (int64_t)blockIdx.x * (THREADS * EACH) + threadIdx.x, value[EACH], at[EACH];
  Offsets o[EACH];
#pragma unroll
  for (int e = 0; e < EACH; e++) {
    int64_t i = start + e * THREADS < a.n ? start + e * THREADS : a.n - 1;
    o[e] = offsets_of(a, i);
    value[e] = load_index(a, o[e].index);
  }
  W word[EACH];
#pragma unroll
  for (int e = 0; e < EACH; e++) {
    at[e] = place_of(a, value[e]);
    o[e].indexed += (at[e] < 0 ? 0 : at[e]) * a.pitch;
    if constexpr (SCATTER)
      word[e] = ((const W *)a.from)[o[e].dense];
    else
      word[e] = at[e] < 0 ? zero_word<W>() : ((const W *)a.from)[o[e].indexed];
  }
#pragma unroll
  for (int e = 0; e < EACH; e++) {
    if (start + e * THREADS >= a.n) break;
    if (at[e] < 0) report_index(a, value[e]);
    if constexpr (!SCATTER)
      ((W *)a.to)[o[e].dense] = word[e];
    else if (at[e] >= 0)
      ((W *)a.to)[o[e].indexed] = word[e];
  }
}

/* ---- one of several indexes ---- */

struct LocateArgs {
  int64_t *out;
  const void *index;
  int64_t n, length, pitch;
  Mail mail;
  int32_t wide, base, first, ndim;
  int64_t size[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS];
};

__global__ void __launch_bounds__(THREADS) locate_kernel(const __grid_constant__ LocateArgs a) {
  kernel_begin();
  int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, rest = i, offset = 0;
  if (i >= a.n) return;
  for (int d = a.ndim - 1; d >= 0; d--) {
    int64_t q = d ? divide(rest, a.size[d]) : 0;
    offset += (rest - q * a.size[d]) * a.stride[d];
    rest = q;
  }
  int64_t value = a.wide ? ((const int64_t *)a.index)[offset] : ((const int32_t *)a.index)[offset];
  int64_t at = value < 0 ? value + a.length : value - a.base, before = a.first ? 0 : a.out[i];
  if (at < 0 || at >= a.length) {
    report(a.mail, value, a.length, a.base);
    before = INT64_MIN;
  }
  a.out[i] = before == INT64_MIN ? before : before + at * a.pitch;
}

template <bool SCATTER> static int launch_move(cudaStream_t stream, IndexArgs r, int bytes) {
  for (int wide = 16; wide > bytes; wide /= 2)
    if (widen(r, wide / bytes, wide)) {
      bytes = wide;
      break;
    }
  void (*kernel)(const IndexArgs);
  switch (bytes) {
  case 1: kernel = index_kernel<uint8_t, SCATTER>; break;
  case 2: kernel = index_kernel<uint16_t, SCATTER>; break;
  case 4: kernel = index_kernel<uint32_t, SCATTER>; break;
  case 8: kernel = index_kernel<uint2, SCATTER>; break;
  default: kernel = index_kernel<uint4, SCATTER>; break;
  }
  return launch(kernel, ceil_div(r.n, THREADS * INDEX_EACH), THREADS, stream, (const IndexArgs)r);
}

} // namespace tidek

int tidek_gather(cudaStream_t stream, const tide_index_args *a, uint32_t *taken, tidek_mailbox *mailbox) {
  return tidek::launch_move<false>(stream, tidek::index_args(a, taken, mailbox), a->item_size);
}

int tidek_scatter_scratch(size_t *bytes, const tide_index_args *a) {
  *bytes = 0;
  return (int)tidek::order_scratch(*bytes, a);
}

int tidek_scatter(cudaStream_t stream, const tide_index_args *a, uint32_t *taken, tidek_mailbox *mailbox, int sms,
                  void *scratch, size_t bytes) {
  tidek::IndexArgs r = tidek::index_args(a, taken, mailbox);
  if (scratch) return tidek::launch_ordered(stream, r, a, scratch, bytes);
  if (a->reduce) return tidek::launch_reduce(stream, r, a->dtype, a->reduce, sms);
  return tidek::launch_move<true>(stream, r, a->item_size);
}

int tidek_locate(cudaStream_t stream, const tide_locate_args *a, uint32_t *taken, tidek_mailbox *mailbox) {
  using namespace tidek;
  LocateArgs r = {};
  r.out = (int64_t *)a->head.ptr[0], r.index = a->head.ptr[1];
  r.n = a->numel, r.length = a->length, r.pitch = a->pitch, r.mail = {taken, mailbox, a->head.site};
  r.wide = a->index_dtype == TIDE_INT64, r.base = a->index_base, r.first = a->first, r.ndim = a->ndim;
  for (int d = 0; d < a->ndim; d++) r.size[d] = a->size[d], r.stride[d] = a->stride[d];
  return launch(locate_kernel, ceil_div(r.n, THREADS), THREADS, stream, (const LocateArgs)r);
}
