/* indexed_mark.cu: one byte written to each of the places that a long list names, over and over: which values occur.
 *
 * A block notes in shared memory, one bit for a place, what the part of the list that it reads names; most of that it
 * has noted before, and then it only reads. It writes its bytes at the end. The index is read 16 bytes at a time.
 *
 * Invariant: all blocks write the same byte, so that it does not matter which of them does. */
#include "indexed.cuh"

namespace tidek {

constexpr int THREADS = 1024, LOADS = 4;

struct MarkArgs {
  uint8_t *to;
  const uint8_t *value;
  const void *index;
  int64_t n, length, pitch;
  Mail mail;
  int32_t base, located;
};

template <class X> static __device__ __forceinline__ void mark(const MarkArgs &a, uint32_t *bits, X x) {
  int64_t at = x < 0 ? (int64_t)x + a.length : (int64_t)x - a.base;
  if (at < 0 || at >= a.length) {
    if (!a.located || (int64_t)x != INT64_MIN) report(a.mail, (int64_t)x, a.length, a.base);
    return;
  }
  uint32_t bit = 1u << (at & 31), *word = bits + (at >> 5);
  if (!(*(volatile uint32_t *)word & bit)) atomicOr(word, bit);
}

template <class X> __global__ void __launch_bounds__(THREADS) mark_kernel(const __grid_constant__ MarkArgs a) {
  constexpr int V = 16 / sizeof(X);
  extern __shared__ __align__(16) uint32_t bits[];
  kernel_begin();
  int words = (int)((a.length + 31) / 32);
  for (int k = threadIdx.x; k < words; k += THREADS) bits[k] = 0;
  __syncthreads();
  const X *index = (const X *)a.index;
  int64_t whole = a.n / V, step = (int64_t)gridDim.x * THREADS, first = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  for (int64_t i = first; i < whole; i += LOADS * step) {
    Pack<X, V> pack[LOADS];
    TIDEK_EACH(e, LOADS)
      if (i + e * step < whole) pack[e] = Pack<X, V>::load(index + (i + e * step) * V);
    TIDEK_EACH(e, LOADS * V)
      if (i + e / V * step < whole) mark(a, bits, pack[e / V].v[e % V]);
  }
  if (whole * V + first < a.n) mark(a, bits, index[whole * V + first]);
  __syncthreads();
  uint8_t value = *a.value;
  int lane = threadIdx.x % 32;
  for (int w = threadIdx.x / 32; w < words; w += THREADS / 32)
    if (bits[w] >> lane & 1) a.to[((int64_t)w * 32 + lane) * a.pitch] = value;
}

bool try_mark(int &rc, cudaStream_t stream, const IndexArgs &r, int bytes, int sms) {
  int last = r.ndim - 1, device, most;
  if (bytes != 1 || r.n < (int64_t)1 << 20 || r.n / r.length < 16 || (uintptr_t)r.index % 16) return false;
  if (r.ndim != 1 || r.stride[last][0] != 0 || r.stride[last][1] != 0 || r.stride[last][2] != 1) return false;
  rc = (int)cudaGetDevice(&device);
  if (!rc) rc = (int)cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  int64_t shared = (r.length + 31) / 32 * 4;
  if (!rc && shared > most) return false;
  MarkArgs a = {(uint8_t *)r.to, (const uint8_t *)r.from, r.index, r.n, r.length, r.pitch, r.mail, r.base, r.located};
  auto kernel = r.wide ? mark_kernel<int64_t> : mark_kernel<int32_t>;
  if (!rc) rc = (int)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
  int64_t blocks = (int64_t)sms * (shared * 2 <= most ? 2 : 1);
  if (!rc) rc = launch_shared(kernel, blocks, THREADS, (size_t)shared, stream, (const MarkArgs)a);
  return true;
}

} // namespace tidek
