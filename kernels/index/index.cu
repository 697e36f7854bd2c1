/* index.cu: gather and scatter, and positions from several indexes.
 *
 * Elements are moved as words of their size, or of up to 16 bytes where the index stands still along the innermost dim
 * and it is contiguous on both sides. Where 32 bits count everything, as nearly always, they do. Scatters that reduce,
 * or keep an order, are in files of their own. */
#include "indexed.cuh"

namespace tidek {

constexpr int THREADS = INDEX_THREADS;

template <class W> static __device__ __forceinline__ W zero_word() {
  W w;
  memset(&w, 0, sizeof w);
  return w;
}

/* Moves a thread's elements, whose indexes are `value`. I counts offsets, N elements. */
template <class W, bool SCATTER, class I, class N, int EACH>
static __device__ __forceinline__ void move(const IndexArgs &a, const int64_t (&value)[EACH], const I (&dense)[EACH],
                                            I (&indexed)[EACH], I pitch, N start, N n) {
  W word[EACH];
  bool found[EACH];
  TIDEK_EACH(e, EACH) {
    int64_t at = place_of(a, value[e]);
    found[e] = at >= 0;
    indexed[e] += (found[e] ? (I)at : 0) * pitch;
    if constexpr (SCATTER)
      word[e] = ((const W *)a.from)[dense[e]];
    else
      word[e] = found[e] ? ((const W *)a.from)[indexed[e]] : zero_word<W>();
  }
  TIDEK_EACH(e, EACH) {
    if (start + e * THREADS >= n) break;
    if (!found[e]) report_index(a, value[e]);
    if constexpr (!SCATTER)
      ((W *)a.to)[dense[e]] = word[e];
    else if (found[e])
      ((W *)a.to)[indexed[e]] = word[e];
  }
}

template <class W, bool SCATTER>
__global__ void __launch_bounds__(THREADS) index_kernel(const __grid_constant__ IndexArgs a) {
  kernel_begin();
  constexpr int EACH = INDEX_EACH;
  int64_t start = (int64_t)blockIdx.x * (THREADS * EACH) + threadIdx.x, value[EACH], dense[EACH], indexed[EACH];
  TIDEK_EACH(e, EACH) {
    const Offsets o = offsets_of(a, start + e * THREADS < a.n ? start + e * THREADS : a.n - 1);
    dense[e] = o.dense, indexed[e] = o.indexed;
    value[e] = load_index(a, o.index);
  }
  move<W, SCATTER>(a, value, dense, indexed, a.pitch, start, a.n);
}

/* ---- the usual case: every place is within 32 bits ---- */

struct SmallArgs {
  IndexArgs a;
  Div div[TIDE_MAX_DIMS];
  int32_t pitch, stride[TIDE_MAX_DIMS][3];
};

/* DIMS: how many, 0: as many as there are. */
template <class W, bool SCATTER, int DIMS>
__global__ void __launch_bounds__(THREADS) small_kernel(const __grid_constant__ SmallArgs s) {
  kernel_begin();
  constexpr int EACH = INDEX_EACH;
  const IndexArgs &a = s.a;
  const uint32_t n = (uint32_t)a.n, start = blockIdx.x * (THREADS * EACH) + threadIdx.x;
  int32_t dense[EACH], indexed[EACH];
  int64_t value[EACH];
  TIDEK_EACH(e, EACH) {
    uint32_t rest = start + e * THREADS < n ? start + e * THREADS : n - 1;
    int32_t index = 0;
    dense[e] = indexed[e] = 0;
#pragma unroll
    for (int d = (DIMS ? DIMS : a.ndim) - 1; d >= 0; d--) {
      int32_t r = (int32_t)(d ? s.div[d].split(rest) : rest);
      dense[e] += r * s.stride[d][0], indexed[e] += r * s.stride[d][1], index += r * s.stride[d][2];
    }
    value[e] = load_index(a, index);
  }
  move<W, SCATTER>(a, value, dense, indexed, s.pitch, start, n);
}

/* Whether all offsets are. */
static bool is_small(SmallArgs &s, const IndexArgs &a) {
  int64_t most[3] = {0, (a.length - 1) * (a.pitch < 0 ? -a.pitch : a.pitch), 0};
  if (a.n > INT32_MAX || a.length > INT32_MAX) return false;
  for (int d = 0; d < a.ndim; d++)
    for (int k = 0; k < 3; k++) most[k] += (a.size[d] - 1) * (a.stride[d][k] < 0 ? -a.stride[d][k] : a.stride[d][k]);
  for (int k = 0; k < 3; k++)
    if (most[k] > INT32_MAX) return false;
  s.a = a, s.pitch = (int32_t)a.pitch;
  for (int d = 0; d < a.ndim; d++) {
    s.div[d] = make_div(a.size[d]);
    for (int k = 0; k < 3; k++) s.stride[d][k] = (int32_t)a.stride[d][k];
  }
  return true;
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

template <class W, bool SCATTER> static int launch_words(cudaStream_t stream, const IndexArgs &r) {
  const int64_t blocks = ceil_div(r.n, THREADS * INDEX_EACH);
  SmallArgs s;
  if (!is_small(s, r)) return launch(index_kernel<W, SCATTER>, blocks, THREADS, stream, r);
  void (*kernel)(const SmallArgs) = r.ndim == 1   ? small_kernel<W, SCATTER, 1>
                                    : r.ndim == 2 ? small_kernel<W, SCATTER, 2>
                                                  : small_kernel<W, SCATTER, 0>;
  return launch(kernel, blocks, THREADS, stream, (const SmallArgs)s);
}

template <bool SCATTER> static int launch_move(cudaStream_t stream, IndexArgs r, int bytes) {
  for (int wide = 16; wide > bytes; wide /= 2)
    if (widen(r, wide / bytes, wide, wide)) {
      bytes = wide;
      break;
    }
  switch (bytes) {
  case 1: return launch_words<uint8_t, SCATTER>(stream, r);
  case 2: return launch_words<uint16_t, SCATTER>(stream, r);
  case 4: return launch_words<uint32_t, SCATTER>(stream, r);
  case 8: return launch_words<uint2, SCATTER>(stream, r);
  default: return launch_words<uint4, SCATTER>(stream, r);
  }
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
  int rc;
  if (scratch) return tidek::launch_ordered(stream, r, a, scratch, bytes);
  if (a->reduce) return tidek::launch_reduce(stream, r, a->dtype, a->narrow, a->reduce, sms);
  if (tidek::try_mark(rc, stream, r, a->item_size, sms)) return rc;
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
