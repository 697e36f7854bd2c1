/* sort.cu: lines in order, and searching in them.
 *
 * warp_kernel    lines of at most 32 elements, by exchanges between the lanes of a warp
 * block_kernel   lines of at most SHORT_LINE, by a radix sort in shared memory
 * Longer ones are sorted by CUB's radix sort of the device. Elements become keys (order.h) of 32 or 64 bits, and where
 * the results say where they stood, those places go along in 32 bits. Lines are sorted together where the number of
 * the line fits into the key, above the element; where it does not, elements are sorted first and lines thereafter,
 * which keeps the order of the elements in each.
 *
 * Invariant: no block waits for another but in CUB. */
#include <cub/block/block_radix_sort.cuh>
#include <cub/device/device_radix_sort.cuh>

#include "sort.cuh"

namespace tidek {

constexpr int THREADS = 256, EACH = 4, MOST_ITEMS = 16;
constexpr int64_t MOST_BLOCKS = 0x7fffffff, MOST_TOGETHER = (int64_t)1 << 31, LONG_LINE = (int64_t)1 << 20;
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

/* ---- long lines ---- */

/* The keys of all elements, the line above that of the element where it fits, and their numbers: in the line, or of all
 * where several lines have no room in the key. */
template <class E, class K, class I>
__global__ void __launch_bounds__(THREADS)
    keys_kernel(const __grid_constant__ SortArgs<E> a, K *key, I *number, int shift, bool of_all) {
  kernel_begin();
  int64_t begin = (int64_t)blockIdx.x * THREADS * EACH + threadIdx.x, n = a.lines * a.n;
  E x[EACH];
#pragma unroll
  for (int e = 0; e < EACH; e++)
    if (begin + e * THREADS < n) x[e] = a.in[begin + e * THREADS];
#pragma unroll
  for (int e = 0; e < EACH; e++) {
    int64_t i = begin + e * THREADS, line = 0;
    if (i >= n) break;
    K k = (K)KeyOf<E>::key(x[e], a.order);
    if (a.lines > 1 && !of_all) line = i / a.n, k |= (K)line << shift;
    key[i] = k;
    if (number) number[i] = (I)(i - line * a.n);
  }
}

/* The lines that numbers of all elements belong to. */
__global__ void __launch_bounds__(THREADS)
    lines_kernel(uint32_t *line, const uint32_t *number, int64_t n, int64_t length) {
  kernel_begin();
  int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
  if (i < n) line[i] = (uint32_t)(number[i] / length);
}

/* Sorted keys and numbers become results. key: NULL where only numbers of all elements are known. */
template <class E, class K, class I>
__global__ void __launch_bounds__(THREADS)
    results_kernel(const __grid_constant__ SortArgs<E> a, const K *key, const I *number) {
  kernel_begin();
  int64_t begin = (int64_t)blockIdx.x * THREADS * EACH + threadIdx.x, n = a.lines * a.keep;
#pragma unroll
  for (int e = 0; e < EACH; e++) {
    int64_t i = begin + e * THREADS;
    if (i >= n) break;
    int64_t line = a.lines > 1 ? i / a.keep : 0, from = i + line * (a.n - a.keep) + a.first;
    int64_t at = number ? (int64_t)number[from] : 0;
    if (key) {
      put(a, i, line, (typename KeyOf<E>::Key)(key[from] & (K)a.order.mask), at);
      continue;
    }
    if (a.values) a.values[i] = a.in[at];
    if (a.places) a.places[i] = at - line * a.n + a.base;
  }
}

/* How long lines are sorted: in groups of lines, with what keys and numbers. */
struct Way {
  bool wide_key, places, wide_places, two; /* two: elements first, then lines */
  bool in_result;                          /* one of the two lists of numbers is the result itself */
  int64_t group;                           /* lines sorted together */
  int bits, line_bits;                     /* of a key in all; of a line's number */
};

static Way way_of(const tide_sort_args *a) {
  Way w = {};
  int bytes = dtype_bytes(a->dtype);
  int64_t lines = a->lines;
  w.places = a->head.ptr[2] != nullptr;
  w.wide_places = w.places && a->n > (int64_t)UINT32_MAX;
  if (a->n >= LONG_LINE) lines = 1;
  w.group = lines * a->n <= MOST_TOGETHER || lines == 1 ? lines : MOST_TOGETHER / a->n;
  w.line_bits = bits_below(w.group);
  w.bits = 8 * bytes + w.line_bits;
  w.two = w.bits > 64;
  if (w.two) w.bits = 64, w.places = true;
  w.wide_key = w.bits > 32;
  w.in_result = w.wide_places && a->keep == a->n;
  return w;
}

template <class K>
static cudaError_t sort_alone(void *room, size_t &bytes, cub::DoubleBuffer<K> &key, int64_t n, int bits,
                              cudaStream_t stream) {
  return cub::DeviceRadixSort::SortKeys(room, bytes, key, n, 0, bits, stream);
}

template <class K, class I>
static cudaError_t sort_pairs(void *room, size_t &bytes, cub::DoubleBuffer<K> &key, cub::DoubleBuffer<I> &number,
                              int64_t n, int bits, cudaStream_t stream) {
  return cub::DeviceRadixSort::SortPairs(room, bytes, key, number, n, 0, bits, stream);
}

/* Scratch memory holds the keys twice, the numbers twice or once, and what CUB asks for. */
static cudaError_t room_of(size_t *bytes, const Way &w, int64_t n) {
  cub::DoubleBuffer<uint32_t> key_32, number;
  cub::DoubleBuffer<unsigned long long> key_64;
  cub::DoubleBuffer<int64_t> wide;
  size_t most = 0, some = 0;
  cudaError_t rc;
  if (!w.places)
    rc = w.wide_key ? sort_alone(nullptr, most, key_64, n, w.bits, nullptr)
                    : sort_alone(nullptr, most, key_32, n, w.bits, nullptr);
  else if (w.wide_places)
    rc = w.wide_key ? sort_keys(nullptr, most, key_64, wide, n, w.bits, nullptr)
                    : sort_pairs(nullptr, most, key_32, wide, n, w.bits, nullptr);
  else
    rc = w.wide_key ? sort_pairs(nullptr, most, key_64, number, n, w.bits, nullptr)
                    : sort_pairs(nullptr, most, key_32, number, n, w.bits, nullptr);
  if (rc == cudaSuccess && w.two) rc = sort_pairs(nullptr, some, key_32, number, n, w.line_bits, nullptr);
  *bytes = most > some ? most : some;
  return rc;
}

static size_t key_bytes(const Way &w, int64_t n) { return aligned((size_t)n * (w.wide_key ? 8 : 4)); }
static size_t number_bytes(const Way &w, int64_t n) {
  return w.places ? aligned((size_t)n * (w.wide_places ? 8 : 4)) : 0;
}

/* One group of lines. */
template <class E, class K, class I, class Sort>
static int sort_group(cudaStream_t stream, const SortArgs<E> &a, const Way &w, char *room, Sort sort) {
  int64_t n = a.lines * a.n;
  size_t keys = key_bytes(w, n), numbers = number_bytes(w, n), bytes = 0;
  cub::DoubleBuffer<K> key((K *)room, (K *)(room + keys));
  char *rest = room + 2 * keys + numbers * (w.in_result ? 1 : 2);
  I *spare = (I *)(room + 2 * keys + numbers);
  if constexpr (sizeof(I) == 8)
    if (w.in_result) spare = (I *)a.places;
  cub::DoubleBuffer<I> number((I *)(room + 2 * keys), spare);
  int64_t blocks = ceil_div(n, THREADS * EACH), results = ceil_div(a.lines * a.keep, THREADS * EACH);
  int rc = (int)room_of(&bytes, w, n);
  if (rc) return rc;
  I *first = w.places ? number.Current() : nullptr;
  rc = launch(keys_kernel<E, K, I>, blocks, THREADS, stream, (const SortArgs<E>)a, key.Current(), first,
              8 * (int)sizeof(E), (bool)w.two);
  if (!rc) rc = (int)sort(rest, bytes, key, number, n);
  if (rc) return rc;
  const K *sorted = key.Current();
  if constexpr (sizeof(I) == 4)
    if (w.two) {
      cub::DoubleBuffer<uint32_t> line((uint32_t *)room, (uint32_t *)(room + keys));
      rc = launch(lines_kernel, ceil_div(n, THREADS), THREADS, stream, line.Current(),
                  (const uint32_t *)number.Current(), n, a.n);
      if (!rc) rc = (int)sort_pairs(rest, bytes, line, number, n, w.line_bits, stream);
      if (rc) return rc;
      sorted = nullptr;
    }
  return launch(results_kernel<E, K, I>, results, THREADS, stream, (const SortArgs<E>)a, sorted,
                (const I *)(w.places ? number.Current() : nullptr));
}

template <class E> static int sort_long(cudaStream_t stream, const tide_sort_args *args, void *scratch) {
  using Wide = unsigned long long;
  using Alone = std::conditional_t<sizeof(E) == 8, Wide, uint32_t>; /* no line stands above the element */
  SortArgs<E> all = sort_args<E>(args);
  Way w = way_of(args);
  char *room = (char *)scratch;
  int rc = 0;
  for (int64_t line = 0; line < all.lines && !rc; line += w.group) {
    SortArgs<E> a = from_line(all, line, all.lines - line < w.group ? all.lines - line : w.group);
    if (w.wide_places)
      rc = sort_group<E, Alone, int64_t>(stream, a, w, room,
                                         [&](void *rest, size_t &bytes, auto &key, auto &number, int64_t n) {
                                           if constexpr (sizeof(E) == 8)
                                             return sort_keys(rest, bytes, key, number, n, w.bits, stream);
                                           else
                                             return sort_pairs(rest, bytes, key, number, n, w.bits, stream);
                                         });
    else if (w.wide_key)
      rc = sort_group<E, Wide, uint32_t>(stream, a, w, room,
                                         [&](void *rest, size_t &bytes, auto &key, auto &number, int64_t n) {
                                           return w.places ? sort_pairs(rest, bytes, key, number, n, w.bits, stream)
                                                           : sort_alone(rest, bytes, key, n, w.bits, stream);
                                         });
    else if constexpr (sizeof(E) < 8)
      rc = sort_group<E, uint32_t, uint32_t>(stream, a, w, room,
                                             [&](void *rest, size_t &bytes, auto &key, auto &number, int64_t n) {
                                               return w.places ? sort_pairs(rest, bytes, key, number, n, w.bits, stream)
                                                               : sort_alone(rest, bytes, key, n, w.bits, stream);
                                             });
  }
  return rc;
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

template <class E> static int sort(cudaStream_t stream, const tide_sort_args *a, void *scratch) {
  return a->n <= SHORT_LINE ? sort_short(stream, sort_args<E>(a)) : sort_long<E>(stream, a, scratch);
}

} // namespace tidek

int tidek_sort_scratch(size_t *bytes, const tide_sort_args *a) {
  using namespace tidek;
  *bytes = 0;
  if (a->n <= SHORT_LINE) return 0;
  if (is_selection(a)) return *bytes = select_scratch(a), 0;
  Way w = way_of(a);
  int64_t n = w.group * a->n;
  size_t rest = 0;
  int rc = (int)room_of(&rest, w, n);
  *bytes = 2 * key_bytes(w, n) + number_bytes(w, n) * (w.in_result ? 1 : 2) + rest;
  return rc;
}

int tidek_sort(cudaStream_t stream, const tide_sort_args *a, void *scratch, size_t bytes) {
  using namespace tidek;
  (void)bytes;
  if (is_selection(a)) return select(stream, a, scratch);
  switch (dtype_bytes(a->dtype)) {
  case 1: return sort<uint8_t>(stream, a, scratch);
  case 2: return sort<uint16_t>(stream, a, scratch);
  case 4: return sort<uint32_t>(stream, a, scratch);
  default: return sort<uint64_t>(stream, a, scratch);
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
