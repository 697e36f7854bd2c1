/* indexed_count.cu: how often each of few places is named: scatters that add one number, the same for every value of a
 * contiguous index, as those of bincount and histc.
 *
 * A block counts in shared memory, in as many copies as fit: those of a place lie side by side, in banks of their own,
 * and neighbouring threads use different ones. The index is read 16 bytes at a time, and what is computed for a value
 * takes 32 bits. At the end each block adds what it has to memory.
 *
 * Invariant: the places are those of indexed.cuh's place_of; fewer than 2^32 values come to a block. */
#include <algorithm>

#include "indexed.cuh"

namespace tidek {

constexpr int THREADS = 512, LOADS = 4, BYTES = 49152, COPIES = 64;

struct CountArgs {
  unsigned long long *to;
  const int64_t *number; /* what is added for a value */
  const void *index, *edges;
  int64_t n, pitch;
  double low, high;
  Mail mail;
  int32_t length, base, bins, located, copies, aligned;
};

/* X: what the index holds. Floats fall in bins. */
template <class X> static __device__ __forceinline__ int32_t place_in(const CountArgs &a, X x) {
  if constexpr (std::is_floating_point_v<X>) {
    return tide_bin(x, (X)a.low, (X)a.high, a.length, (const X *)a.edges, a.bins);
  } else {
    int64_t at = x < 0 ? (int64_t)x + a.length : (int64_t)x - a.base;
    if (at >= 0 && at < a.length) return (int32_t)at;
    if (!a.located || (int64_t)x != INT64_MIN) report(a.mail, (int64_t)x, a.length, a.base);
    return -1;
  }
}

template <class X> __global__ void __launch_bounds__(THREADS) count_kernel(const __grid_constant__ CountArgs a) {
  constexpr int V = 16 / sizeof(X);
  extern __shared__ __align__(16) uint32_t counts[];
  kernel_begin();
  for (int k = threadIdx.x; k < a.copies * a.length; k += THREADS) counts[k] = 0;
  __syncthreads();
  uint32_t *own = counts + threadIdx.x % a.copies;
  const X *index = (const X *)a.index;
  int64_t whole = a.aligned ? a.n / V : 0, step = (int64_t)gridDim.x * THREADS;
  int64_t first = (int64_t)blockIdx.x * THREADS + threadIdx.x, i = first;
  for (; i + (LOADS - 1) * step < whole; i += LOADS * step) {
    Pack<X, V> pack[LOADS];
    TIDEK_EACH(e, LOADS) pack[e] = Pack<X, V>::load(index + (i + e * step) * V);
    TIDEK_EACH(e, LOADS * V) {
      int32_t place = place_in(a, pack[e / V].v[e % V]);
      if (place >= 0) atomicAdd(own + place * a.copies, 1u);
    }
  }
  /* Vectors for which not all threads have as many, then what is no vector. */
  for (; i < whole; i += step) {
    Pack<X, V> pack = Pack<X, V>::load(index + i * V);
    TIDEK_EACH(e, V) {
      int32_t place = place_in(a, pack.v[e]);
      if (place >= 0) atomicAdd(own + place * a.copies, 1u);
    }
  }
  for (i = whole * V + first; i < a.n; i += step) {
    int32_t place = place_in(a, index[i]);
    if (place >= 0) atomicAdd(own + place * a.copies, 1u);
  }
  __syncthreads();
  for (int k = threadIdx.x; k < a.length; k += THREADS) {
    uint32_t sum = 0;
    for (int c = 0; c < a.copies; c++) sum += counts[k * a.copies + (c + k) % a.copies];
    if (sum) atomicAdd(a.to + k * a.pitch, (unsigned long long)((int64_t)sum * *a.number));
  }
}

bool try_count(int &rc, cudaStream_t stream, const IndexArgs &r, int sms) {
  int last = r.ndim - 1;
  if (r.length * 4 > BYTES || r.n < 32768 || r.n / r.length < 64 || r.n >= (int64_t)1 << 36) return false;
  if (r.ndim != 1 || r.stride[last][0] != 0 || r.stride[last][1] != 0 || r.stride[last][2] != 1) return false;
  CountArgs a = {};
  a.to = (unsigned long long *)r.to, a.number = (const int64_t *)r.from, a.index = r.index, a.edges = r.edges;
  a.n = r.n, a.pitch = r.pitch, a.low = r.low, a.high = r.high, a.mail = r.mail;
  a.length = (int32_t)r.length, a.base = r.base, a.bins = r.bins, a.located = r.located;
  a.aligned = (uintptr_t)r.index % 16 == 0;
  int64_t copies = std::min<int64_t>(COPIES, BYTES / (4 * r.length));
  if (copies > 32) copies = copies / 32 * 32;
  a.copies = (int32_t)copies;
  int64_t most = std::max<int64_t>(1, r.n / std::max<int64_t>(4 * r.length, THREADS * 16));
  void (*kernel)(const CountArgs) = r.bins   ? r.wide ? count_kernel<double> : count_kernel<float>
                                      : r.wide ? count_kernel<int64_t>
                                             : count_kernel<int32_t>;
  rc = launch_shared(kernel, std::min<int64_t>(4 * (int64_t)sms, most), THREADS, (size_t)(copies * r.length * 4),
                     stream, (const CountArgs)a);
  return true;
}

} // namespace tidek
