/* radix.cu: long lines in order, by the bytes of their keys, from the lowest one up.
 *
 * One kernel counts how often each byte occurs in each line at each of its places, one makes positions of that, and
 * then each byte takes one pass. A block of a pass takes a tile of a line, ranks its elements (CUB), and learns from
 * the tiles before it where in the line they go: each publishes its counts first and the sums up to it when it knows
 * them. The first pass makes keys of elements and numbers them, the last one makes elements and places of these, so
 * that nothing else moves. A byte that is the same in all elements of a line, for all lines, takes no pass: the device
 * knows which, and which of two buffers a pass reads, and the host does not wait for it. (Source: A. Adinets, D.
 * Merrill, "Onesweep: a faster least significant digit radix sort for GPUs", 2022.)
 *
 * Invariant: blocks take tiles in the order in which they start, so that whom a block waits for has started. */
#include <algorithm>
#include <cub/block/block_radix_rank.cuh>

#include "sort.cuh"

namespace tidek {

constexpr int DIGITS = 256, MOST_PASSES = 8, COUNT_THREADS = 512;
constexpr int64_t MOST_TOGETHER = (int64_t)1 << 30, ENOUGH_BLOCKS = 528;

/* What all passes share. I: what counts the elements of a line; its two highest bits are free. */
template <class E, class I> struct RadixArgs {
  SortArgs<E> sort;
  E *key[2]; /* a pass that k others follow writes into [k % 2] and reads the other one */
  I *number[2];
  I *starts;        /* for each line and pass, where each digit begins in the line */
  uint32_t *same;   /* for each pass, in how many lines all elements have one digit */
  uint32_t *ticket; /* for each pass, how many blocks have started */
  I *status[2];     /* of each tile, for each digit; passes use them in turns, and clear the other one */
  uint32_t tiles;   /* of a line */
};

template <class E> constexpr int passes_of = (int)sizeof(E);

template <class I> struct Status {
  static constexpr I WHOLE = (I)1 << (8 * sizeof(I) - 1), PART = WHOLE >> 1, COUNT = PART - 1;
  static __device__ __forceinline__ I load(const I *p) { return *(const volatile I *)p; }
  static __device__ __forceinline__ void store(I *p, I v) { *(volatile I *)p = v; }
};

/* `blocks` blocks for a line, which read it 16 bytes at a time, but for its ends. */
template <class E, class I>
__global__ void __launch_bounds__(COUNT_THREADS)
    digits_kernel(const __grid_constant__ RadixArgs<E, I> a, uint32_t blocks) {
  constexpr int PASSES = passes_of<E>, V = 16 / sizeof(E), LOADS = 4;
  __shared__ uint32_t counts[PASSES * DIGITS];
  kernel_begin();
  uint32_t line = blockIdx.x / blocks, block = blockIdx.x - line * blocks;
  const E *in = a.sort.in + line * a.sort.n;
  for (int k = threadIdx.x; k < PASSES * DIGITS; k += COUNT_THREADS) counts[k] = 0;
  __syncthreads();
  auto count = [&](E x) {
    auto key = KeyOf<E>::key(x, a.sort.order);
    TIDEK_EACH(p, PASSES) atomicAdd(counts + p * DIGITS + (int)(key >> (8 * p) & 255), 1u);
  };
  int64_t ahead = (16 - (uintptr_t)in % 16) % 16 / sizeof(E), step = (int64_t)blocks * COUNT_THREADS;
  if (ahead > a.sort.n) ahead = a.sort.n;
  int64_t packs = (a.sort.n - ahead) / V, first = (int64_t)block * COUNT_THREADS + threadIdx.x;
  for (int64_t i = first; i < packs; i += LOADS * step) {
    Pack<E, V> x[LOADS];
    TIDEK_EACH(l, LOADS)
      if (i + l * step < packs) x[l] = Pack<E, V>::load(in + ahead + (i + l * step) * V);
    TIDEK_EACH(l, LOADS)
      if (i + l * step < packs)
        TIDEK_EACH(v, V) count(x[l].v[v]);
  }
  if (first < ahead) count(in[first]);
  if (ahead + packs * V + first < a.sort.n) count(in[ahead + packs * V + first]);
  __syncthreads();
  for (int k = threadIdx.x; k < PASSES * DIGITS; k += COUNT_THREADS) {
    using Word = std::conditional_t<sizeof(I) == 8, unsigned long long, unsigned>;
    if (counts[k]) atomicAdd((Word *)a.starts + (int64_t)line * PASSES * DIGITS + k, (Word)counts[k]);
  }
}

/* One block for a line and pass: counts become starts. */
template <class E, class I>
__global__ void __launch_bounds__(DIGITS) starts_kernel(const __grid_constant__ RadixArgs<E, I> a) {
  __shared__ I sums[DIGITS / 32];
  kernel_begin();
  I *start = a.starts + (int64_t)blockIdx.x * DIGITS + threadIdx.x;
  I count = *start, sum = count;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int by = 1; by < 32; by *= 2) {
    I before = __shfl_up_sync(0xffffffffu, sum, by);
    if (lane >= by) sum += before;
  }
  if (lane == 31) sums[warp] = sum;
  __syncthreads();
  for (int w = 0; w < warp; w++) sum += sums[w];
  *start = sum - count;
  if (count == (I)a.sort.n) atomicAdd(a.same + blockIdx.x % passes_of<E>, 1u);
}

struct DigitOf {
  int shift;
  template <class K> __device__ __forceinline__ uint32_t Digit(K key) const { return (uint32_t)(key >> shift) & 255u; }
};

template <class E, class I, bool PAIRS, int THREADS, int ITEMS> struct PassShared {
  using Rank =
      cub::BlockRadixRankMatchEarlyCounts<THREADS, 8, false, cub::BLOCK_SCAN_WARP_SCANS, cub::WARP_MATCH_ANY, 1>;
  union {
    typename Rank::TempStorage rank;
    struct {
      I number[PAIRS ? THREADS * ITEMS : 1];
      E key[THREADS * ITEMS];
    } tile;
  };
  I to[DIGITS]; /* where in the line an element with this digit goes, less its place in the tile */
  uint32_t ticket;
};

/* Sums of the counts of a digit in the tiles before this one. */
template <class I> static __device__ __forceinline__ I look_back(const I *status, bool goes_on) {
  I sum = 0;
  for (const I *other = status - DIGITS; __any_sync(0xffffffffu, goes_on); other -= DIGITS) {
    if (!goes_on) continue;
    I v = Status<I>::load(other);
    while (v == 0) v = Status<I>::load(other);
    sum += v & Status<I>::COUNT, goes_on = !(v & Status<I>::WHOLE);
  }
  return sum;
}

template <class E, class I, bool PAIRS, int THREADS, int ITEMS, int BLOCKS>
__global__ void __launch_bounds__(THREADS, BLOCKS) pass_kernel(const __grid_constant__ RadixArgs<E, I> a, int pass) {
  using K = typename KeyOf<E>::Key;
  using S = Status<I>;
  using Shared = PassShared<E, I, PAIRS, THREADS, ITEMS>;
  constexpr int TILE = THREADS * ITEMS, PASSES = passes_of<E>;
  static_assert(THREADS >= DIGITS, "a thread has a digit");
  extern __shared__ __align__(16) char shared[];
  Shared &s = *(Shared *)shared;
  kernel_begin();
  int before = 0, after = 0; /* passes that are needed */
  TIDEK_EACH(p, PASSES) {
    bool is_needed = a.same[p] != (uint32_t)a.sort.lines;
    if (p < pass) before += is_needed;
    if (p > pass) after += is_needed;
    if (p == pass && !is_needed && (before || p < PASSES - 1)) return; /* the last one, if none is needed, copies */
  }
  if (threadIdx.x == 0) s.ticket = atomicAdd(a.ticket + pass, 1u);
  __syncthreads();
  uint32_t ticket = s.ticket, line = ticket / a.tiles, tile = ticket - line * a.tiles;
  int digit = threadIdx.x;
  I *status = a.status[before & 1] + (size_t)ticket * DIGITS + digit;
  if (digit < DIGITS) a.status[~before & 1][(size_t)ticket * DIGITS + digit] = 0;

  const int64_t line_at = (int64_t)line * a.sort.n, tile_at = (int64_t)tile * TILE;
  const int left = a.sort.n - tile_at < TILE ? (int)(a.sort.n - tile_at) : TILE;
  const int own = threadIdx.x / 32 * 32 * ITEMS + threadIdx.x % 32;
  const E *from = (before ? a.key[~after & 1] : a.sort.in) + line_at + tile_at + own;
  K key[ITEMS];
  if (left == TILE) {
    TIDEK_EACH(e, ITEMS) key[e] = (K)from[e * 32];
  } else {
    TIDEK_EACH(e, ITEMS) key[e] = own + e * 32 < left ? (K)from[e * 32] : (K)0;
  }
  if (!before) {
    TIDEK_EACH(e, ITEMS) key[e] = KeyOf<E>::key((E)key[e], a.sort.order);
  }
  if (left < TILE) {
    TIDEK_EACH(e, ITEMS)
      if (own + e * 32 >= left) key[e] = a.sort.order.mask; /* behind all others */
  }

  int rank[ITEMS], prefix[1];
  I count = 0;
  typename Shared::Rank(s.rank).RankKeys(key, rank, DigitOf{8 * pass}, prefix, [&](int(&counts)[1]) {
    count = (I)counts[0];
    if (digit < DIGITS) S::store(status, count | (tile ? S::PART : S::WHOLE));
  });
  __syncthreads();
  TIDEK_EACH(e, ITEMS) s.tile.key[rank[e]] = (E)key[e];
  if constexpr (PAIRS) {
    if (before) {
      const I *numbers = a.number[~after & 1] + line_at + tile_at + own;
      I number[ITEMS];
      TIDEK_EACH(e, ITEMS) number[e] = left == TILE || own + e * 32 < left ? numbers[e * 32] : 0;
      TIDEK_EACH(e, ITEMS) s.tile.number[rank[e]] = number[e];
    } else {
      TIDEK_EACH(e, ITEMS) s.tile.number[rank[e]] = (I)(tile_at + own + e * 32);
    }
  }
  if (digit < DIGITS) {
    I sum = look_back(status, tile > 0);
    if (tile) S::store(status, (sum + count) | S::WHOLE);
    s.to[digit] = a.starts[((int64_t)line * PASSES + pass) * DIGITS + digit] + sum - (I)prefix[0];
  }
  __syncthreads();

  if (after) {
    E *out = a.key[after & 1] + line_at;
    I *numbers = PAIRS ? a.number[after & 1] + line_at : nullptr;
    TIDEK_EACH(e, ITEMS) {
      int i = e * THREADS + threadIdx.x;
      E k = s.tile.key[i];
      I to = s.to[(int)((K)k >> (8 * pass) & 255)] + (I)i;
      if (i >= left) continue;
      out[to] = k;
      if constexpr (PAIRS) numbers[to] = s.tile.number[i];
    }
    return;
  }
  E *values = a.sort.values + line * a.sort.keep;
  int64_t *places = a.sort.places + line * a.sort.keep;
  TIDEK_EACH(e, ITEMS) {
    int i = e * THREADS + threadIdx.x;
    K k = s.tile.key[i];
    I to = s.to[(int)(k >> (8 * pass) & 255)] + (I)i;
    if (i >= left || to >= (I)a.sort.keep) continue;
    int64_t at = PAIRS ? (int64_t)s.tile.number[i] : 0;
    if (a.sort.values)
      values[to] =
          PAIRS && KeyOf<E>::joined(k, a.sort.order) ? a.sort.in[line_at + at] : KeyOf<E>::bits(k, a.sort.order);
    if constexpr (PAIRS) places[to] = at + a.sort.base;
  }
}

/* ---- launching ---- */

/* A block's threads, the elements that each of them takes, and how many blocks a processor is to hold: the fastest of
 * those measured on an H200 whose shared memory every GPU has (64 KiB). */
template <int KEY, int NUMBER> struct Shape { static constexpr int THREADS = 256, ITEMS = 15, BLOCKS = 3; };
template <> struct Shape<1, 0> { static constexpr int THREADS = 512, ITEMS = 23, BLOCKS = 2; };
template <> struct Shape<1, 4> { static constexpr int THREADS = 512, ITEMS = 23, BLOCKS = 2; };
template <> struct Shape<2, 0> { static constexpr int THREADS = 512, ITEMS = 19, BLOCKS = 2; };
template <> struct Shape<2, 4> { static constexpr int THREADS = 384, ITEMS = 23, BLOCKS = 3; };
template <> struct Shape<4, 0> { static constexpr int THREADS = 512, ITEMS = 23, BLOCKS = 2; };
template <> struct Shape<4, 4> { static constexpr int THREADS = 512, ITEMS = 15, BLOCKS = 2; };
template <> struct Shape<8, 0> { static constexpr int THREADS = 256, ITEMS = 19, BLOCKS = 3; };

/* The kernel of a pass, and what its launches need. */
template <class E, class I, bool PAIRS> struct PassOf {
  using S = Shape<(int)sizeof(E), PAIRS ? (int)sizeof(I) : 0>;
  static constexpr int THREADS = S::THREADS, TILE = S::THREADS * S::ITEMS;
  static constexpr size_t SHARED = sizeof(PassShared<E, I, PAIRS, S::THREADS, S::ITEMS>);
  static_assert(SHARED <= 65536, "what every GPU has");
  static constexpr auto kernel = pass_kernel<E, I, PAIRS, S::THREADS, S::ITEMS, S::BLOCKS>;
};

/* Lines sorted together, and where their scratch memory lies: what is cleared before stands in one piece. */
struct Plan {
  int64_t group, tiles;
  size_t key[2], number[2], starts, counts, status[2], bytes;
};

template <class E, class I, bool PAIRS> static Plan plan_of(const tide_sort_args *a) {
  Plan p = {};
  p.group = a->lines * a->n <= MOST_TOGETHER || a->lines == 1 ? a->lines : std::max<int64_t>(1, MOST_TOGETHER / a->n);
  p.tiles = ceil_div(a->n, PassOf<E, I, PAIRS>::TILE);
  bool in_result = a->keep == a->n;
  auto take = [&](size_t bytes) {
    size_t at = p.bytes;
    p.bytes += aligned(bytes);
    return at;
  };
  /* A list that takes no room is in the result, or is not used. */
  int64_t n = p.group * a->n;
  bool is_used[2] = {passes_of<E> > 2, passes_of<E> > 1};
  bool has_room[2] = {in_result, false};
  for (int k = 0; k < 2; k++) {
    p.key[k] = take(is_used[k] && !(has_room[k] && a->head.ptr[0]) ? n * sizeof(E) : 0);
    p.number[k] = take(PAIRS && is_used[k] && !has_room[k] ? n * sizeof(I) : 0);
  }
  size_t status = (size_t)(p.group * p.tiles) * DIGITS * sizeof(I);
  p.starts = take((size_t)p.group * passes_of<E> * DIGITS * sizeof(I));
  p.counts = take(2 * MOST_PASSES * sizeof(uint32_t));
  p.status[0] = take(status), p.status[1] = take(status);
  return p;
}

template <class E, class I, bool PAIRS>
static int sort_group(cudaStream_t stream, const SortArgs<E> &sort, const Plan &p, char *room) {
  using P = PassOf<E, I, PAIRS>;
  constexpr int PASSES = passes_of<E>;
  RadixArgs<E, I> a = {};
  bool in_result = sort.keep == sort.n;
  a.sort = sort;
  for (int k = 0; k < 2; k++) {
    a.key[k] = k == 0 && in_result && sort.values ? sort.values : (E *)(room + p.key[k]);
    a.number[k] = k == 0 && in_result ? (I *)sort.places : (I *)(room + p.number[k]);
    a.status[k] = (I *)(room + p.status[k]);
  }
  a.starts = (I *)(room + p.starts), a.tiles = (uint32_t)p.tiles;
  a.same = (uint32_t *)(room + p.counts), a.ticket = a.same + MOST_PASSES;
  int64_t most = ceil_div(ENOUGH_BLOCKS, sort.lines), need = ceil_div(sort.n, COUNT_THREADS * 8);
  uint32_t blocks = (uint32_t)std::min(need, most);
  int rc = (int)cudaMemsetAsync(room + p.starts, 0, p.status[1] - p.starts, stream);
  if (!rc)
    rc = launch(digits_kernel<E, I>, sort.lines * blocks, COUNT_THREADS, stream, (const RadixArgs<E, I>)a, blocks);
  if (!rc) rc = launch(starts_kernel<E, I>, sort.lines * PASSES, DIGITS, stream, (const RadixArgs<E, I>)a);
  if (!rc) rc = (int)cudaFuncSetAttribute(P::kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)P::SHARED);
  for (int pass = 0; pass < PASSES && !rc; pass++)
    rc = launch_shared(P::kernel, sort.lines * p.tiles, P::THREADS, P::SHARED, stream, (const RadixArgs<E, I>)a, pass);
  return rc;
}

/* Without a stream to launch in: only how much scratch memory it takes. */
template <class E, class I, bool PAIRS>
static int sort_lines(size_t *bytes, cudaStream_t stream, const tide_sort_args *args, void *scratch) {
  Plan p = plan_of<E, I, PAIRS>(args);
  if (bytes) return *bytes = p.bytes, 0;
  SortArgs<E> all = sort_args<E>(args);
  int rc = 0;
  for (int64_t line = 0; line < all.lines && !rc; line += p.group)
    rc = sort_group<E, I, PAIRS>(stream, from_line(all, line, std::min(p.group, all.lines - line)), p, (char *)scratch);
  return rc;
}

template <class E> static int sort_of(size_t *bytes, cudaStream_t stream, const tide_sort_args *a, void *scratch) {
  bool wide = a->n >= (int64_t)Status<uint32_t>::PART, pairs = a->head.ptr[2] != nullptr;
  if (wide)
    return pairs ? sort_lines<E, uint64_t, true>(bytes, stream, a, scratch)
                 : sort_lines<E, uint64_t, false>(bytes, stream, a, scratch);
  return pairs ? sort_lines<E, uint32_t, true>(bytes, stream, a, scratch)
               : sort_lines<E, uint32_t, false>(bytes, stream, a, scratch);
}

static int sort_any(size_t *bytes, cudaStream_t stream, const tide_sort_args *a, void *scratch) {
  switch (dtype_bytes(a->dtype)) {
  case 1: return sort_of<uint8_t>(bytes, stream, a, scratch);
  case 2: return sort_of<uint16_t>(bytes, stream, a, scratch);
  case 4: return sort_of<uint32_t>(bytes, stream, a, scratch);
  default: return sort_of<uint64_t>(bytes, stream, a, scratch);
  }
}

size_t radix_scratch(const tide_sort_args *a) {
  size_t bytes = 0;
  sort_any(&bytes, nullptr, a, nullptr);
  return bytes;
}

int radix_sort(cudaStream_t stream, const tide_sort_args *a, void *scratch) {
  return sort_any(nullptr, stream, a, scratch);
}

} // namespace tidek
