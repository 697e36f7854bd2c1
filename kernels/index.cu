/* index.cu: gather and scatter along one dim, positions from several indexes, and those of nonzero bytes.
 *
 * Elements are moved as words of their size, or of up to 16 bytes where the innermost dim is contiguous on both sides.
 * Where an order is asked for, a kernel before it finds which index is the last one for each destination.
 * A bad index touches no memory: the first one fills the mailbox, which the host reads at its next wait. */
#include <cub/device/device_select.cuh>
#include <thrust/iterator/counting_iterator.h>

#include "mailbox.cuh"
#include "types.cuh"

namespace tidek {

constexpr int THREADS = 256;

struct IndexArgs {
  void *to;
  const void *from, *index;
  const unsigned long long *last; /* of each destination, counted from 1; or NULL: any may stay */
  int64_t n, length, count, inner;
  Mail mail;
  int32_t wide, base, scatter, located, ndim, nouter;
  int32_t plain; /* one dim: no divisions */
  int64_t size[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS][2], pitch[2];
};

/* Divides by a size; both fit in 32 bits nearly always. */
static __device__ __forceinline__ int64_t divide(int64_t n, int64_t d) {
  if (((n | d) >> 32) == 0) return (uint32_t)n / (uint32_t)d;
  return n / d;
}

static __device__ __forceinline__ void dim_offsets(const IndexArgs &a, int64_t i, int low, int high, int64_t &to,
                                                   int64_t &from) {
  for (int d = high - 1; d >= low; d--) {
    int64_t q = d > low ? divide(i, a.size[d]) : 0, r = i - q * a.size[d];
    to += r * a.stride[d][0], from += r * a.stride[d][1];
    i = q;
  }
}

/* A bad one of several indexes, which locate_kernel has reported. */
static __device__ __forceinline__ bool is_known(const IndexArgs &a, int64_t value) {
  return a.located && value == INT64_MIN;
}

template <class W> static __device__ __forceinline__ W zero_word() {
  W w;
  memset(&w, 0, sizeof w);
  return w;
}

template <class W> __global__ void __launch_bounds__(THREADS) index_kernel(const __grid_constant__ IndexArgs a) {
  kernel_begin();
  constexpr int EACH = 4;
  int64_t start = (int64_t)blockIdx.x * (THREADS * EACH) + threadIdx.x, to[EACH], from[EACH], value[EACH], place[EACH];
#pragma unroll
  for (int e = 0; e < EACH; e++) {
    int64_t i = start + e * THREADS < a.n ? start + e * THREADS : a.n - 1, k = i;
    to[e] = from[e] = 0;
    if (!a.plain) {
      int64_t rest = divide(i, a.inner), outer = divide(rest, a.count);
      k = rest - outer * a.count;
      dim_offsets(a, i - rest * a.inner, a.nouter, a.ndim, to[e], from[e]);
      dim_offsets(a, outer, 0, a.nouter, to[e], from[e]);
    }
    value[e] = a.wide ? ((const int64_t *)a.index)[k] : ((const int32_t *)a.index)[k];
    place[e] = k;
    (a.scatter ? from[e] : to[e]) += k * a.pitch[a.scatter];
  }
  W word[EACH];
  bool good[EACH], stays[EACH];
#pragma unroll
  for (int e = 0; e < EACH; e++) {
    int64_t at = value[e] < 0 ? value[e] + a.length : value[e] - a.base;
    good[e] = at >= 0 && at < a.length;
    stays[e] = !a.scatter || (good[e] && (!a.last || a.last[at] == (unsigned long long)place[e] + 1));
    (a.scatter ? to[e] : from[e]) += (good[e] ? at : 0) * a.pitch[!a.scatter];
    word[e] = good[e] ? ((const W *)a.from)[from[e]] : zero_word<W>();
  }
#pragma unroll
  for (int e = 0; e < EACH; e++) {
    if (start + e * THREADS >= a.n) break;
    if (stays[e]) ((W *)a.to)[to[e]] = word[e];
    if (!good[e] && !is_known(a, value[e])) report(a.mail, value[e], a.length, a.base);
  }
}

/* Which index is the last one for each destination, whatever the order in which threads run. */
static __global__ void last_kernel(const IndexArgs a, unsigned long long *last) {
  kernel_begin();
  int64_t k = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  if (k >= a.count) return;
  int64_t value = a.wide ? ((const int64_t *)a.index)[k] : ((const int32_t *)a.index)[k];
  int64_t at = value < 0 ? value + a.length : value - a.base;
  if (at >= 0 && at < a.length) atomicMax(&last[at], (unsigned long long)k + 1);
}

/* ---- scatter that adds ---- */

/* 1 and 2 bytes are exchanged with the rest of the word that they lie in. */
template <class S> static __device__ __forceinline__ void add_atomic(S *p, S value) {
  static_assert(sizeof(S) < 4, "small");
  uint32_t *word = (uint32_t *)((uintptr_t)p & ~(uintptr_t)3), seen = *(volatile uint32_t *)word, before;
  int shift = 8 * (int)((uintptr_t)p & 3);
  uint32_t mask = (sizeof(S) == 1 ? 0xffu : 0xffffu) << shift;
  do {
    before = seen;
    uint32_t bits = (before & mask) >> shift, made = 0;
    S now;
    memcpy(&now, &bits, sizeof now);
    now = cast<S>(plain(now) + plain(value));
    memcpy(&made, &now, sizeof now);
    seen = atomicCAS(word, before, (before & ~mask) | (made << shift));
  } while (seen != before);
}
static __device__ __forceinline__ void add_atomic(Bool *p, Bool value) {
  if (value.v) p->v = 1;
}
static __device__ __forceinline__ void add_atomic(int32_t *p, int32_t value) { atomicAdd(p, value); }
static __device__ __forceinline__ void add_atomic(int64_t *p, int64_t value) {
  atomicAdd((unsigned long long *)p, (unsigned long long)value);
}
static __device__ __forceinline__ void add_atomic(float *p, float value) { atomicAdd(p, value); }
static __device__ __forceinline__ void add_atomic(double *p, double value) { atomicAdd(p, value); }
template <class T> static __device__ __forceinline__ void add_atomic(Complex<T> *p, Complex<T> value) {
  atomicAdd(&p->re, value.re);
  atomicAdd(&p->im, value.im);
}

template <class S> __global__ void __launch_bounds__(THREADS) add_kernel(const __grid_constant__ IndexArgs a) {
  kernel_begin();
  int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, to = 0, from = 0;
  if (i >= a.n) return;
  int64_t rest = divide(i, a.inner), outer = divide(rest, a.count), k = rest - outer * a.count;
  dim_offsets(a, i - rest * a.inner, a.nouter, a.ndim, to, from);
  dim_offsets(a, outer, 0, a.nouter, to, from);
  int64_t value = a.wide ? ((const int64_t *)a.index)[k] : ((const int32_t *)a.index)[k];
  int64_t at = value < 0 ? value + a.length : value - a.base;
  if (at >= 0 && at < a.length)
    add_atomic((S *)a.to + to + at * a.pitch[0], ((const S *)a.from)[from + k * a.pitch[1]]);
  else if (!is_known(a, value))
    report(a.mail, value, a.length, a.base);
}

static int launch_add(cudaStream_t stream, const IndexArgs &r, int dtype) {
  void (*kernel)(const IndexArgs) = nullptr;
  switch (dtype) {
#define X(NAME, S)                                                                                                     \
  case NAME: kernel = add_kernel<S>; break;
    TIDEK_STORAGES(X)
#undef X
  }
  return launch(kernel, ceil_div(r.n, THREADS), THREADS, stream, (const IndexArgs)r);
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

/* Moves wider words where the innermost dim allows it; returns their size. */
static int widen(IndexArgs &r, int bytes) {
  int last = r.ndim - 1;
  if (last < r.nouter || r.stride[last][0] != 1 || r.stride[last][1] != 1) return bytes;
  for (int wide = 16; wide > bytes; wide /= 2) {
    int64_t times = wide / bytes, misfit = r.size[last] % times | r.pitch[0] % times | r.pitch[1] % times;
    if (((uintptr_t)r.to | (uintptr_t)r.from) % wide) continue;
    for (int d = 0; d < last; d++) misfit |= r.stride[d][0] % times | r.stride[d][1] % times;
    if (misfit) continue;
    for (int d = 0; d < last; d++) r.stride[d][0] /= times, r.stride[d][1] /= times;
    r.pitch[0] /= times, r.pitch[1] /= times, r.size[last] /= times, r.inner /= times, r.n /= times;
    return wide;
  }
  return bytes;
}

static int launch_index(cudaStream_t stream, const tide_index_args *a, uint32_t *taken, tidek_mailbox *mailbox,
                        int scatter, void *last) {
  IndexArgs r = {};
  r.to = a->head.ptr[0], r.from = a->head.ptr[1], r.index = a->head.ptr[2];
  r.n = a->outer * a->count * a->inner, r.length = a->length, r.count = a->count, r.inner = a->inner;
  r.mail = {taken, mailbox, a->head.site};
  r.wide = a->index_dtype == TIDE_INT64, r.base = a->index_base, r.scatter = scatter;
  r.located = a->located, r.ndim = a->ndim, r.nouter = a->nouter;
  r.plain = a->outer == 1 && a->inner == 1;
  for (int k = 0; k < 2; k++) r.pitch[k] = a->pitch[k];
  for (int d = 0; d < a->ndim; d++) {
    r.size[d] = a->size[d];
    for (int k = 0; k < 2; k++) r.stride[d][k] = a->stride[k][d];
  }
  if (a->adds) return launch_add(stream, r, a->dtype);
  if (last) {
    cudaError_t rc = cudaMemsetAsync(last, 0, (size_t)a->length * sizeof(unsigned long long), stream);
    if (rc == cudaSuccess)
      rc = (cudaError_t)launch(last_kernel, ceil_div(r.count, THREADS), THREADS, stream, (const IndexArgs)r,
                               (unsigned long long *)last);
    if (rc != cudaSuccess) return (int)rc;
    r.last = (const unsigned long long *)last;
  }
  void (*kernel)(const IndexArgs);
  switch (widen(r, a->item_size)) {
  case 1: kernel = index_kernel<uint8_t>; break;
  case 2: kernel = index_kernel<uint16_t>; break;
  case 4: kernel = index_kernel<uint32_t>; break;
  case 8: kernel = index_kernel<uint2>; break;
  default: kernel = index_kernel<uint4>; break;
  }
  return launch(kernel, ceil_div(r.n, THREADS * 4), THREADS, stream, (const IndexArgs)r);
}

/* ---- compact ---- */

static cudaError_t select_positions(void *scratch, size_t &bytes, const tide_compact_args *a, cudaStream_t stream) {
  thrust::counting_iterator<int64_t> positions(0);
  return cub::DeviceSelect::Flagged(scratch, bytes, positions, (const uint8_t *)a->head.ptr[1],
                                    (int64_t *)a->head.ptr[0], (int64_t *)a->head.ptr[2], a->numel, stream);
}

} // namespace tidek

int tidek_gather(cudaStream_t stream, const tide_index_args *a, uint32_t *taken, tidek_mailbox *mailbox) {
  return tidek::launch_index(stream, a, taken, mailbox, 0, nullptr);
}

size_t tidek_scatter_scratch(const tide_index_args *a) {
  return a->ordered && a->count > 1 ? (size_t)a->length * sizeof(unsigned long long) : 0;
}

int tidek_scatter(cudaStream_t stream, const tide_index_args *a, uint32_t *taken, tidek_mailbox *mailbox, void *last) {
  return tidek::launch_index(stream, a, taken, mailbox, 1, last);
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

int tidek_compact_scratch(size_t *bytes, const tide_compact_args *a) {
  *bytes = 0;
  return (int)tidek::select_positions(nullptr, *bytes, a, nullptr);
}

int tidek_compact(cudaStream_t stream, const tide_compact_args *a, void *scratch, size_t bytes) {
  return (int)tidek::select_positions(scratch, bytes, a, stream);
}
