/* sort.cu: short lines in order, and searching in lines.
 *
 * warp_kernel    lines of at most 32 elements, by exchanges between the lanes of a warp
 * block_kernel   lines of at most SHORT_LINE, by a radix sort in shared memory
 * Longer ones are those of radix.cu, or of select.cu where few elements are wanted. Elements become keys (order.h) of
 * 32 or 64 bits.
 *
 * Invariant: no block waits for another. */
#include <cub/block/block_radix_sort.cuh>

#include "sort.cuh"

namespace tidek {

constexpr int THREADS = 256, MOST_ITEMS = 16;
constexpr int64_t MOST_BLOCKS = 0x7fffffff;
static_assert(THREADS * MOST_ITEMS == SHORT_LINE, "a block takes a short line");

/* ---- short lines ---- */

/* Lane i ends up with the ith least of the pairs, none of which are equal. */
template <class K> static __device__ __forceinline__ void warp_sort(K &key, uint32_t &at) {
  uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (uint32_t size = 2; size <= 32; size *= 2)
#pragma unroll
    for (uint32_t apart = size / 2; apart > 0; apart /= 2) {
      K other = __shfl_xor_sync(0xffffffffu, key, apart);
      uint32_t other_at = __shfl_xor_sync(0xffffffffu, at, apart);
      bool less = other < key || (other == key && other_at < at);
      bool wants_less = ((lane & apart) == 0) == ((lane & size) == 0 || size == 32);
      if (less == wants_less) key = other, at = other_at;
    }
}

template <class E> __global__ void __launch_bounds__(THREADS) warp_kernel(const __grid_constant__ SortArgs<E> a) {
  using K = typename KeyOf<E>::Key;
  kernel_begin();
  uint32_t lane = threadIdx.x % 32;
  int64_t warps = (int64_t)gridDim.x * (THREADS / 32);
  for (int64_t line = (int64_t)blockIdx.x * (THREADS / 32) + threadIdx.x / 32; line < a.lines; line += warps) {
    bool is_there = lane < a.n;
    K key = is_there ? KeyOf<E>::key(a.in[line * a.n + lane], a.order) : (K) ~(K)0;
    uint32_t at = lane, nans = 0;
    if (a.median) nans = __popc(__ballot_sync(0xffffffffu, is_there && KeyOf<E>::nan(key, a.order)));
    warp_sort(key, at);
    int64_t rank = (int64_t)lane - (nans ? a.n - nans : a.first);
    if (rank >= 0 && rank < a.keep && lane < a.n) put(a, line * a.keep + rank, line, key, at);
  }
}

/* The line lies in order over the threads, ITEMS for each; what fills it up stands last and stays there. */
template <class E, int ITEMS>
__global__ void __launch_bounds__(THREADS) block_kernel(const __grid_constant__ SortArgs<E> a) {
  using K = typename KeyOf<E>::Key;
  using Sort = cub::BlockRadixSort<K, THREADS, ITEMS, uint16_t>;
  kernel_begin();
  __shared__ typename Sort::TempStorage room;
  for (int64_t line = blockIdx.x; line < a.lines; line += gridDim.x) {
    K key[ITEMS];
    uint16_t at[ITEMS];
    int nans = 0;
#pragma unroll
    for (int e = 0; e < ITEMS; e++) {
      int i = threadIdx.x * ITEMS + e;
      bool is_there = i < a.n;
      key[e] = is_there ? KeyOf<E>::key(a.in[line * a.n + i], a.order) : (K) ~(K)0;
      at[e] = (uint16_t)i;
      if (a.median) nans += __syncthreads_count(is_there && KeyOf<E>::nan(key[e], a.order));
    }
    Sort(room).SortBlockedToStriped(key, at, 0, 8 * (int)sizeof(E));
    int64_t first = nans ? a.n - nans : a.first;
#pragma unroll
    for (int e = 0; e < ITEMS; e++) {
      int64_t i = e * THREADS + threadIdx.x, rank = i - first;
      if (i < a.n && rank >= 0 && rank < a.keep) put(a, line * a.keep + rank, line, key[e], at[e]);
    }
    __syncthreads();
  }
}

template <class E> static int sort_short(cudaStream_t stream, const SortArgs<E> &a) {
  int64_t warps = ceil_div(a.lines, THREADS / 32), blocks = a.lines < MOST_BLOCKS ? a.lines : MOST_BLOCKS;
  if (warps > MOST_BLOCKS) warps = MOST_BLOCKS;
  if (a.n <= 32) return launch(warp_kernel<E>, warps, THREADS, stream, (const SortArgs<E>)a);
  auto kernel = a.n <= THREADS       ? block_kernel<E, 1>
                : a.n <= 4 * THREADS ? block_kernel<E, 4>
                                     : block_kernel<E, MOST_ITEMS>;
  return launch(kernel, blocks, THREADS, stream, (const SortArgs<E>)a);
}

/* ---- searching ---- */

struct SearchArgs {
  int64_t *out;
  const void *line, *value;
  const int64_t *sorter;
  int64_t n, m, all;
  int32_t base, right, one_line;
};

template <class E>
__global__ void __launch_bounds__(THREADS)
    search_kernel(const __grid_constant__ SearchArgs a, const __grid_constant__ typename KeyOf<E>::Order order) {
  using K = typename KeyOf<E>::Key;
  kernel_begin();
  for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < a.all; i += (int64_t)gridDim.x * THREADS) {
    int64_t line = a.one_line ? 0 : i / a.m * a.n, low = 0, high = a.n;
    const E *x = (const E *)a.line + line;
    K wanted = KeyOf<E>::key(((const E *)a.value)[i], order);
    if (KeyOf<E>::nan(wanted, order)) low = high;
    while (low < high) {
      int64_t middle = low + (high - low) / 2, at = middle;
      if (a.sorter) {
        at = a.sorter[line + middle] - a.base;
        at = at < 0 ? 0 : at >= a.n ? a.n - 1 : at;
      }
      K there = KeyOf<E>::key(x[at], order);
      bool goes_on = there < wanted || (a.right && there == wanted);
      low = goes_on ? middle + 1 : low, high = goes_on ? high : middle;
    }
    a.out[i] = low + a.base;
  }
}

template <class E> static int search(cudaStream_t stream, const tide_search_args *a) {
  SearchArgs r = {(int64_t *)a->head.ptr[0],
                  a->head.ptr[1],
                  a->head.ptr[2],
                  (const int64_t *)a->head.ptr[3],
                  a->n,
                  a->m,
                  a->lines * a->m,
                  a->index_base,
                  a->right,
                  a->one_line};
  tide_sort_args form = {};
  form.dtype = a->dtype;
  int64_t blocks = ceil_div(r.all, THREADS);
  return launch(search_kernel<E>, blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS, THREADS, stream, (const SearchArgs)r,
                KeyOf<E>::order(&form, true));
}

} // namespace tidek

int tidek_sort_scratch(size_t *bytes, const tide_sort_args *a) {
  using namespace tidek;
  *bytes = a->n <= SHORT_LINE ? 0 : is_selection(a) ? select_scratch(a) : radix_scratch(a);
  return 0;
}

int tidek_sort(cudaStream_t stream, const tide_sort_args *a, void *scratch, size_t bytes) {
  using namespace tidek;
  (void)bytes;
  if (a->n > SHORT_LINE) return is_selection(a) ? select(stream, a, scratch) : radix_sort(stream, a, scratch);
  switch (dtype_bytes(a->dtype)) {
  case 1: return sort_short(stream, sort_args<uint8_t>(a));
  case 2: return sort_short(stream, sort_args<uint16_t>(a));
  case 4: return sort_short(stream, sort_args<uint32_t>(a));
  default: return sort_short(stream, sort_args<uint64_t>(a));
  }
}

int tidek_search(cudaStream_t stream, const tide_search_args *a) {
  using namespace tidek;
  switch (dtype_bytes(a->dtype)) {
  case 1: return search<uint8_t>(stream, a);
  case 2: return search<uint16_t>(stream, a);
  case 4: return search<uint32_t>(stream, a);
  default: return search<uint64_t>(stream, a);
  }
}
