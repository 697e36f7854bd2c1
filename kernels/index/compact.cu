/* compact.cu: elements, or positions, where bytes are true.
 *
 * A block takes a piece, a warp an eighth of it. A lane reads 64 of its bytes in four loads and keeps them as bits; a
 * word of these says which of 32 neighbouring elements the lanes of the warp are to move, side by side, and how many
 * there are before. Where a piece begins has been counted before, by the same reading.
 *
 * Invariant: bytes are 0 or 1, and the pieces are those of plan.h. */
#include "launch.cuh"
#include "tidek.h"

namespace tidek {

constexpr int THREADS = 256, WARPS = THREADS / 32, SHARE = TIDE_COMPACT_PIECE / WARPS, SCAN_THREADS = 1024, AHEAD = 8;
static_assert(SHARE == 32 * 64, "a lane has 64 bits");

/* Four bytes become four bits. */
static __device__ __forceinline__ uint32_t bits_of(uint32_t bytes) { return (bytes & 0x01010101u) * 0x10204080u >> 28; }

/* The 64 bytes from `at` on; what is beyond n is 0. */
static __device__ __forceinline__ void read_bits(uint32_t (&bits)[2], const uint8_t *flags, int64_t at, int64_t n) {
  bits[0] = bits[1] = 0;
  if ((uintptr_t)flags % 16 == 0 && at + 64 <= n) {
    uint4 v[4];
    TIDEK_EACH(k, 4) v[k] = *(const uint4 *)(flags + at + 16 * k);
    TIDEK_EACH(k, 4)
      bits[k / 2] |= (bits_of(v[k].x) | bits_of(v[k].y) << 4 | bits_of(v[k].z) << 8 | bits_of(v[k].w) << 12)
                     << (k % 2 * 16);
    return;
  }
#pragma unroll 1
  for (int k = 0; k < 64 && at + k < n; k++)
    if (flags[at + k] & 1) bits[k / 32] |= 1u << (k % 32);
}

static __device__ __forceinline__ int sum_of_warp(int x) {
  for (int by = 16; by > 0; by /= 2) x += __shfl_xor_sync(0xffffffffu, x, by);
  return x;
}

__global__ void __launch_bounds__(THREADS) mask_count_kernel(int64_t *starts, const uint8_t *flags, int64_t n) {
  kernel_begin();
  __shared__ int totals[WARPS];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  uint32_t bits[2];
  read_bits(bits, flags, (int64_t)blockIdx.x * TIDE_COMPACT_PIECE + warp * SHARE + lane * 64, n);
  int total = sum_of_warp(__popc(bits[0]) + __popc(bits[1]));
  if (lane == 0) totals[warp] = total;
  __syncthreads();
  if (threadIdx.x) return;
  total = 0;
  for (int w = 0; w < WARPS; w++) total += totals[w];
  starts[blockIdx.x] = total;
}

/* One block: counts become the sums of those before, and behind the last one stands the sum of all. */
__global__ void __launch_bounds__(SCAN_THREADS) starts_kernel(int64_t *starts, int64_t pieces) {
  kernel_begin();
  __shared__ int64_t sums[SCAN_THREADS];
  int64_t each = (pieces + SCAN_THREADS - 1) / SCAN_THREADS, from = threadIdx.x * each;
  int64_t to = from + each < pieces ? from + each : pieces, sum = 0;
  for (int64_t p = from; p < to; p++) sum += starts[p];
  sums[threadIdx.x] = sum;
  for (int by = 1; by < SCAN_THREADS; by *= 2) {
    __syncthreads();
    int64_t before = (int)threadIdx.x >= by ? sums[threadIdx.x - by] : 0;
    __syncthreads();
    sums[threadIdx.x] += before;
  }
  int64_t before = sums[threadIdx.x] - sum;
  for (int64_t p = from; p < to; p++) {
    int64_t here = starts[p];
    starts[p] = before;
    before += here;
  }
  if (threadIdx.x == SCAN_THREADS - 1) starts[pieces] = sums[threadIdx.x];
}

/* POSITIONS: T is int64_t, and no elements are read; positions count from base. */
template <class T, bool POSITIONS>
__global__ void __launch_bounds__(THREADS)
    compact_kernel(T *out, const uint8_t *flags, const int64_t *starts, const T *x, int64_t n, int64_t base) {
  kernel_begin();
  __shared__ int totals[WARPS];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int64_t first = (int64_t)blockIdx.x * TIDE_COMPACT_PIECE + warp * SHARE;
  uint32_t bits[2];
  read_bits(bits, flags, first + lane * 64, n);
  int total = sum_of_warp(__popc(bits[0]) + __popc(bits[1]));
  if (lane == 0) totals[warp] = total;
  __syncthreads();
  int64_t to = starts[blockIdx.x];
  for (int w = 0; w < warp; w++) to += totals[w];
  if (total == 0) return;
  for (int g = 0; g < SHARE / 32; g += AHEAD) {
    uint32_t mask[AHEAD];
    T v[AHEAD];
    TIDEK_EACH(e, AHEAD) {
      int64_t i = first + (g + e) * 32 + lane;
      mask[e] = __shfl_sync(0xffffffffu, bits[e % 2], (g + e) / 2);
      if constexpr (POSITIONS)
        v[e] = i + base;
      else if (mask[e] >> lane & 1)
        v[e] = x[i];
    }
    TIDEK_EACH(e, AHEAD) {
      if (mask[e] >> lane & 1) out[to + __popc(mask[e] & ((1u << lane) - 1))] = v[e];
      to += __popc(mask[e]);
    }
  }
}

template <class T, bool POSITIONS> static int run(cudaStream_t stream, const tide_compact_args *a) {
  return launch(compact_kernel<T, POSITIONS>, ceil_div(a->numel, TIDE_COMPACT_PIECE), THREADS, stream,
                (T *)a->head.ptr[0], (const uint8_t *)a->head.ptr[1], (const int64_t *)a->head.ptr[2],
                (const T *)a->head.ptr[3], a->numel, (int64_t)a->item_size);
}

} // namespace tidek

int tidek_mask_count(cudaStream_t stream, const tide_compact_args *a) {
  using namespace tidek;
  int64_t pieces = ceil_div(a->numel, TIDE_COMPACT_PIECE);
  int rc = launch(mask_count_kernel, pieces, THREADS, stream, (int64_t *)a->head.ptr[0],
                  (const uint8_t *)a->head.ptr[1], a->numel);
  return rc ? rc : launch(starts_kernel, 1, SCAN_THREADS, stream, (int64_t *)a->head.ptr[0], pieces);
}

int tidek_compact(cudaStream_t stream, const tide_compact_args *a) {
  using namespace tidek;
  if (!a->head.ptr[3]) return run<int64_t, true>(stream, a);
  switch (a->item_size) {
  case 1: return run<uint8_t, false>(stream, a);
  case 2: return run<uint16_t, false>(stream, a);
  case 4: return run<uint32_t, false>(stream, a);
  case 8: return run<int64_t, false>(stream, a);
  default: return run<uint4, false>(stream, a);
  }
}
