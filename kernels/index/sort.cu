/* sort.cu: short lines in order, and searching in lines.
 *
 * warp_kernel    lines of at most 512 elements, by exchanges between the lanes of a warp
 * block_kernel   lines of at most SHORT_LINE, by a radix sort in shared memory
 * Longer ones are those of radix.cu, or of select.cu and select_line.cu where few elements are wanted. Elements become
 * keys (order.h) of 32 or 64 bits.
 *
 * Invariant: no block waits for another. */
#include <cub/block/block_radix_sort.cuh>

#include "sort.cuh"

namespace tidek {

constexpr int THREADS = 256, MOST_ITEMS = 16;
constexpr int64_t MOST_BLOCKS = 0x7fffffff;
static_assert(THREADS * MOST_ITEMS == SHORT_LINE, "a block takes a short line");

/* ---- short lines ---- */

/* A key and the place where it stands, which decides between equal keys. One of 32 bits shares a word with it. */
template <class K> struct Item {
  K own_key;
  uint32_t own_at;
  static __device__ __forceinline__ Item of(K key, uint32_t at) { return {key, at}; }
  __device__ __forceinline__ K key() const { return own_key; }
  __device__ __forceinline__ uint32_t at() const { return own_at; }
  __device__ __forceinline__ bool operator<(const Item &b) const {
    return own_key < b.own_key || (own_key == b.own_key && own_at < b.own_at);
  }
  __device__ __forceinline__ Item across(int lanes) const {
    return {__shfl_xor_sync(0xffffffffu, own_key, lanes), __shfl_xor_sync(0xffffffffu, own_at, lanes)};
  }
};
template <> struct Item<uint32_t> {
  uint64_t word;
  static __device__ __forceinline__ Item of(uint32_t key, uint32_t at) { return {(uint64_t)key << 32 | at}; }
  __device__ __forceinline__ uint32_t key() const { return (uint32_t)(word >> 32); }
  __device__ __forceinline__ uint32_t at() const { return (uint32_t)word; }
  __device__ __forceinline__ bool operator<(const Item &b) const { return word < b.word; }
  __device__ __forceinline__ Item across(int lanes) const { return {__shfl_xor_sync(0xffffffffu, word, lanes)}; }
};

/* Of the N = LANES * ITEMS items of a group of lanes those of its lane i become the ones from the (i * ITEMS)th on. */
template <int LANES, class K, int ITEMS> static __device__ __forceinline__ void warp_sort(Item<K> (&item)[ITEMS]) {
  constexpr int N = LANES * ITEMS;
  int lane = threadIdx.x % LANES;
#pragma unroll
  for (int size = 2; size <= N; size *= 2)
#pragma unroll
    for (int apart = size / 2; apart > 0; apart /= 2)
      TIDEK_EACH(e, ITEMS) {
        bool falls = size < N && ((lane * ITEMS + e) & size);
        if (apart >= ITEMS) {
          Item<K> other = item[e].across(apart / ITEMS);
          bool is_low = (lane & (apart / ITEMS)) == 0;
          if ((other < item[e]) == (is_low != falls)) item[e] = other;
        } else if (!(e & apart)) {
          Item<K> low = item[e], high = item[e | apart];
          if ((high < low) != falls) item[e] = high, item[e | apart] = low;
        }
      }
}

/* A line for each group of lanes. Results of several items leave by shared memory, so that neighbouring lanes write
 * neighbours. */
template <class E, int LANES, int ITEMS>
__global__ void __launch_bounds__(THREADS) warp_kernel(const __grid_constant__ SortArgs<E> a) {
  using K = typename KeyOf<E>::Key;
  constexpr int GROUPS = THREADS / LANES;
  static_assert(ITEMS == 1 || LANES == 32, "a group that shares memory is a warp");
  kernel_begin();
  __shared__ K keys[GROUPS][ITEMS > 1 ? 33 * ITEMS : 1];
  __shared__ uint16_t ats[GROUPS][ITEMS > 1 ? 34 * ITEMS : 1];
  int lane = threadIdx.x % LANES, group = threadIdx.x / LANES, of_warp = threadIdx.x % 32 / LANES;
  uint32_t members = 0xffffffffu >> (32 - LANES) << (of_warp * LANES);
  for (int64_t begin = (int64_t)blockIdx.x * GROUPS + group - of_warp; begin < a.lines;
       begin += (int64_t)gridDim.x * GROUPS) { /* the same for a whole warp */
    int64_t line = begin + of_warp, nans = 0;
    bool is_line = line < a.lines;
    Item<K> item[ITEMS];
    TIDEK_EACH(e, ITEMS) {
      int i = e * LANES + lane;
      bool is_there = is_line && i < a.n;
      K key = is_there ? KeyOf<E>::key(a.in[line * a.n + i], a.order) : (K) ~(K)0;
      item[e] = Item<K>::of(key, (uint32_t)i);
      if (a.median) nans += __popc(__ballot_sync(0xffffffffu, is_there && KeyOf<E>::nan(key, a.order)) & members);
    }
    warp_sort<LANES>(item);
    if constexpr (ITEMS > 1) {
      TIDEK_EACH(e, ITEMS) {
        int i = lane * ITEMS + e;
        keys[group][i + i / 32] = item[e].key(), ats[group][i + i / 32 * 2] = (uint16_t)item[e].at();
      }
      __syncwarp();
    }
    int64_t first = nans ? a.n - nans : a.first;
    TIDEK_EACH(e, ITEMS) {
      int i = e * LANES + lane;
      if constexpr (ITEMS > 1) item[e] = Item<K>::of(keys[group][i + e], ats[group][i + e * 2]);
      int64_t rank = i - first;
      if (is_line && rank >= 0 && rank < a.keep && i < a.n)
        put(a, line * a.keep + rank, line, item[e].key(), item[e].at());
    }
    __syncwarp();
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
    TIDEK_EACH(e, ITEMS) {
      int i = threadIdx.x * ITEMS + e;
      bool is_there = i < a.n;
      key[e] = is_there ? KeyOf<E>::key(a.in[line * a.n + i], a.order) : (K) ~(K)0;
      at[e] = (uint16_t)i;
      if (a.median) nans += __syncthreads_count(is_there && KeyOf<E>::nan(key[e], a.order));
    }
    Sort(room).SortBlockedToStriped(key, at, 0, 8 * (int)sizeof(E));
    int64_t first = nans ? a.n - nans : a.first;
    TIDEK_EACH(e, ITEMS) {
      int64_t i = e * THREADS + threadIdx.x, rank = i - first;
      if (i < a.n && rank >= 0 && rank < a.keep) put(a, line * a.keep + rank, line, key[e], at[e]);
    }
    __syncthreads();
  }
}

template <class E, int LANES, int ITEMS> static int sort_by_warps(cudaStream_t stream, const SortArgs<E> &a) {
  int64_t blocks = ceil_div(a.lines, THREADS / LANES);
  return launch(warp_kernel<E, LANES, ITEMS>, blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS, THREADS, stream,
                (const SortArgs<E>)a);
}

template <class E> static int sort_short(cudaStream_t stream, const SortArgs<E> &a) {
  if (a.n <= 8) return sort_by_warps<E, 8, 1>(stream, a);
  if (a.n <= 16) return sort_by_warps<E, 16, 1>(stream, a);
  if (a.n <= 32) return sort_by_warps<E, 32, 1>(stream, a);
  if (a.n <= 64) return sort_by_warps<E, 32, 2>(stream, a);
  if (a.n <= 128) return sort_by_warps<E, 32, 4>(stream, a);
  if (a.n <= 256) return sort_by_warps<E, 32, 8>(stream, a);
  if (a.n <= 512) return sort_by_warps<E, 32, 16>(stream, a);
  auto kernel = a.n <= 4 * THREADS ? block_kernel<E, 4> : block_kernel<E, MOST_ITEMS>;
  return launch(kernel, a.lines < MOST_BLOCKS ? a.lines : MOST_BLOCKS, THREADS, stream, (const SortArgs<E>)a);
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
  *bytes = a->n <= SHORT_LINE || is_line_selection(a) ? 0 : is_selection(a) ? select_scratch(a) : radix_scratch(a);
  return 0;
}

int tidek_sort(cudaStream_t stream, const tide_sort_args *a, void *scratch, size_t bytes) {
  using namespace tidek;
  (void)bytes;
  if (is_line_selection(a)) return select_of_lines(stream, a);
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
