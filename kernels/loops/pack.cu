/* pack.cu: many pieces of memory, each copied by a few blocks of one launch.
 *
 * Every piece gets as many blocks as the largest one wants, up to a limit, and walks it with them; a block that finds
 * nothing left ends at once, which costs less than balancing would. The list of pieces travels as the kernel's
 * argument: a short one, which is the common case, in a smaller kernel of its own.
 *
 * Invariant: a thread has all its reads of one step on the way before it writes, since what it reads may be a link
 * away. */
#include "launch.cuh"
#include "base/pack.h"
#include "tidek_pack.h"

namespace tidek {

constexpr int PACK_THREADS = 256, PACK_DEEP = 4, PACK_BLOCKS = 64;

template <int N> struct Pieces {
  int each; /* blocks of a piece */
  tide_pack_piece piece[N];
};

template <class T>
static __device__ __forceinline__ void move(T *to, const T *from, uint64_t n, uint64_t first, uint64_t step) {
  for (uint64_t i = first; i < n; i += PACK_DEEP * step) {
    T held[PACK_DEEP];
    TIDEK_EACH(k, PACK_DEEP)
      if (i + k * step < n) held[k] = from[i + k * step];
    TIDEK_EACH(k, PACK_DEEP)
      if (i + k * step < n) to[i + k * step] = held[k];
  }
}

template <int N> __global__ void __launch_bounds__(PACK_THREADS) pack_kernel(const __grid_constant__ Pieces<N> list) {
  kernel_begin();
  const tide_pack_piece &p = list.piece[blockIdx.x / list.each];
  uint64_t first = (uint64_t)(blockIdx.x % list.each) * PACK_THREADS + threadIdx.x;
  uint64_t step = (uint64_t)list.each * PACK_THREADS, both = (uint64_t)p.to | (uint64_t)p.from | p.bytes;
  if (both % 16 == 0)
    move((uint4 *)p.to, (const uint4 *)p.from, p.bytes / 16, first, step);
  else if (both % 4 == 0)
    move((uint32_t *)p.to, (const uint32_t *)p.from, p.bytes / 4, first, step);
  else
    move((uint8_t *)p.to, (const uint8_t *)p.from, p.bytes, first, step);
}

template <int N> static int launch_pack(cudaStream_t stream, const tide_pack_args *a, int each) {
  Pieces<N> list;
  list.each = each;
  for (int i = 0; i < a->n; i++) list.piece[i] = a->piece[i];
  return launch(pack_kernel<N>, (int64_t)a->n * each, PACK_THREADS, stream, list);
}

} // namespace tidek

int tidek_pack(cudaStream_t stream, const tide_pack_args *a) {
  const uint64_t tile = (uint64_t)tidek::PACK_THREADS * tidek::PACK_DEEP * 16;
  uint64_t most = 0;
  for (int i = 0; i < a->n; i++) most = a->piece[i].bytes > most ? a->piece[i].bytes : most;
  uint64_t each = (most + tile - 1) / tile;
  int blocks = each > (uint64_t)tidek::PACK_BLOCKS ? tidek::PACK_BLOCKS : (int)each;
  return a->n <= 16 ? tidek::launch_pack<16>(stream, a, blocks)
                    : tidek::launch_pack<TIDE_PACK_PIECES>(stream, a, blocks);
}
