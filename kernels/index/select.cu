/* select.cu: the first few elements of long lines in order, or the kth one.
 *
 * What is compared is an element's key and, below it, the place where it stands: no two are equal, and the result does
 * not depend on the order in which threads run. Digits of this pair are gone through from the highest on. A pass counts
 * how often each value of a digit occurs among the elements that agree with what is known of the kth one; the block
 * that ends last looks up in which value the kth one lies. As soon as few elements are left they are copied to a list
 * of their own, which the later passes read instead of the line. Passes that are not needed any more end at once: which
 * ones these are is known on the device alone, so that nothing waits and a graph can replay it.
 *
 * Of a line that is long beside what is wanted, a bound is guessed first, from elements here and there: those below it
 * go to the list at once, and where they are enough and have room the line is read no more.
 *
 * In the end all elements up to the kth are collected, in any order, and a block sorts them.
 *
 * Invariant: the state of a line is written by the last block of a pass, and by nobody while others read it. */
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_scan.cuh>
#include <cmath>

#include "sort.cuh"

namespace tidek {

constexpr int THREADS = 512, AHEAD = 8, DIGIT_BITS = 11, VALUES = 1 << DIGIT_BITS, OWN = VALUES / THREADS;
constexpr int SORT_THREADS = 256, MOST_LEVELS = 12, GATHERS = 2, SAMPLES = 16384;
constexpr int64_t ENOUGH_BLOCKS = 1056, LEAST_LIST = 1 << 16, LIST_PART = 16, MOST_LINES = 1 << 14, MOST_KEEP = 4096;
constexpr int64_t LEAST_GUESS = 1 << 20;

/* What is known of a line's kth element. key, at: its known digits, the others 0. */
struct State {
  uint64_t key, at, key_mask, at_mask, bound;
  int64_t rank, count; /* which one it is, from 1, of how many that agree with it */
  unsigned long long nans, listed, collected;
  uint32_t blocks; /* that have ended in this pass */
  int32_t done, has_list;
};

/* One line's scratch memory. */
template <class E> struct Room {
  State *state;
  unsigned long long *count; /* VALUES of them */
  typename KeyOf<E>::Key *list_key, *result_key;
  int64_t *list_at, *result_at;
};

template <class E> struct SelectArgs {
  SortArgs<E> sort;
  char *scratch;
  int64_t each, list, blocks; /* bytes of a line's scratch memory; room in its list; blocks for a line */
  int32_t kth;                /* one element is wanted, not all before it */
  int32_t sample_rank;        /* which of the samples, from 1, is the bound; 0: none is guessed */
};

template <class E> static size_t line_bytes(int64_t list, int64_t keep) {
  size_t item = sizeof(typename KeyOf<E>::Key) + 8;
  return aligned(sizeof(State)) + aligned(VALUES * 8) + aligned((size_t)list * item) + aligned((size_t)keep * item);
}

template <class E> static __device__ __forceinline__ Room<E> room_of(const SelectArgs<E> &a, int64_t line) {
  using K = typename KeyOf<E>::Key;
  char *p = a.scratch + line * a.each;
  constexpr size_t state = (sizeof(State) + 255) / 256 * 256;
  size_t list = ((size_t)a.list * (sizeof(K) + 8) + 255) / 256 * 256;
  Room<E> r;
  r.state = (State *)p, p += state;
  r.count = (unsigned long long *)p, p += VALUES * 8;
  r.list_at = (int64_t *)p, r.list_key = (K *)(p + a.list * 8), p += list;
  r.result_at = (int64_t *)p, r.result_key = (K *)(p + a.sort.keep * 8);
  return r;
}

template <class E> __global__ void __launch_bounds__(THREADS) begin_kernel(const __grid_constant__ SelectArgs<E> a) {
  kernel_begin();
  Room<E> r = room_of(a, blockIdx.x);
  for (int i = threadIdx.x; i < VALUES; i += THREADS) r.count[i] = 0;
  if (threadIdx.x) return;
  State s = {};
  s.rank = a.kth ? a.sort.first + 1 : a.sort.keep, s.count = a.sort.n;
  *r.state = s;
}

/* Calls f(key, place) for each element that the block reads, of the line or of its list. */
template <class E, class F>
static __device__ __forceinline__ void each_element(const SelectArgs<E> &a, const Room<E> &r, const State &s,
                                                    int64_t line, int64_t block, F f) {
  using K = typename KeyOf<E>::Key;
  int64_t n = s.has_list ? (int64_t)s.listed : a.sort.n, step = a.blocks * THREADS * AHEAD;
  const E *in = a.sort.in + line * a.sort.n;
  for (int64_t begin = block * THREADS * AHEAD + threadIdx.x; begin < n; begin += step) {
    if (s.has_list) {
      TIDEK_EACH(e, AHEAD) {
        int64_t i = begin + e * THREADS;
        if (i < n) f(r.list_key[i], r.list_at[i]);
      }
      continue;
    }
    E x[AHEAD];
    TIDEK_EACH(e, AHEAD)
      if (begin + e * THREADS < n) x[e] = in[begin + e * THREADS];
    TIDEK_EACH(e, AHEAD) {
      int64_t i = begin + e * THREADS;
      if (i < n) f((K)KeyOf<E>::key(x[e], a.sort.order), i);
    }
  }
}

/* Below 0: before all that agree with what is known; 0: it agrees; above 0: behind them. */
static __device__ __forceinline__ int against(const State &s, uint64_t key, uint64_t at) {
  uint64_t k = key & s.key_mask, p = at & s.at_mask;
  if (k != s.key) return k < s.key ? -1 : 1;
  return p == s.at ? 0 : p < s.at ? -1 : 1;
}

/* Is this block the last one of its line to get here? */
static __device__ __forceinline__ bool ends_last(State *s, int64_t blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(&s->blocks, 1u) == (uint32_t)(blocks - 1);
    if (last) s->blocks = 0;
    __threadfence();
  }
  __syncthreads();
  return last;
}

/* A digit of so many bits of the key, or of the place, from `shift` on. */
struct Level {
  int32_t shift, bits, of_place, is_first;
};

/* By the last block of a pass: in which value the kth element lies. */
template <class E>
static __device__ __forceinline__ void look_up(const SelectArgs<E> &a, const Room<E> &r, const Level &level) {
  using Scan = cub::BlockScan<unsigned long long, THREADS>;
  __shared__ typename Scan::TempStorage room;
  State *s = r.state;
  unsigned long long own[OWN], sum = 0, before, nans = __ldcg(&s->nans);
  int64_t rank = s->rank;
  if (level.is_first && a.sort.median && nans) rank = a.sort.n - (int64_t)nans + 1;
  TIDEK_EACH(e, OWN) {
    own[e] = __ldcg(&r.count[threadIdx.x * OWN + e]), sum += own[e];
    r.count[threadIdx.x * OWN + e] = 0;
  }
  Scan(room).ExclusiveSum(sum, before);
  __syncthreads(); /* all have read the rank */
  if (before >= (unsigned long long)rank || before + sum < (unsigned long long)rank) return;
  int value = 0;
  TIDEK_EACH(e, OWN)
    if (value == e && before + own[e] < (unsigned long long)rank) before += own[e], value++;
  uint64_t digit = (uint64_t)(threadIdx.x * OWN + value) << level.shift;
  uint64_t mask = (((uint64_t)1 << level.bits) - 1) << level.shift;
  if (level.of_place)
    s->at |= digit, s->at_mask |= mask;
  else
    s->key |= digit, s->key_mask |= mask;
  unsigned long long count = 0;
  TIDEK_EACH(e, OWN)
    if (e == value) count = own[e];
  s->rank = rank - (int64_t)before, s->count = (int64_t)count;
  s->done = a.kth ? s->count == 1 : s->count == s->rank;
}

template <class E>
__global__ void __launch_bounds__(THREADS)
    level_kernel(const __grid_constant__ SelectArgs<E> a, const __grid_constant__ Level level) {
  kernel_begin();
  __shared__ uint32_t count[VALUES];
  int64_t line = blockIdx.x / a.blocks, block = blockIdx.x % a.blocks;
  Room<E> r = room_of(a, line);
  const State s = *r.state;
  if (s.done) return;
  for (int i = threadIdx.x; i < VALUES; i += THREADS) count[i] = 0;
  __syncthreads();
  uint32_t nans = 0, values = (1u << level.bits) - 1;
  each_element(a, r, s, line, block, [&](typename KeyOf<E>::Key key, int64_t at) {
    if (level.is_first && a.sort.median) nans += KeyOf<E>::nan(key, a.sort.order);
    if (against(s, key, (uint64_t)at) == 0)
      atomicAdd(&count[(uint32_t)((level.of_place ? (uint64_t)at : (uint64_t)key) >> level.shift) & values], 1u);
  });
  if (nans) atomicAdd(&r.state->nans, (unsigned long long)nans);
  __syncthreads();
  for (int i = threadIdx.x; i < VALUES; i += THREADS)
    if (count[i]) atomicAdd(&r.count[i], (unsigned long long)count[i]);
  if (ends_last(r.state, a.blocks)) look_up(a, r, level);
}

/* The place at which each of the running lanes may write, of a list that `fill` counts; others may have left. */
static __device__ __forceinline__ unsigned long long next_place(unsigned long long *fill) {
  unsigned lanes = __activemask(), lane = threadIdx.x % 32;
  int leader = __ffs(lanes) - 1;
  unsigned long long first = 0;
  if ((int)lane == leader) first = atomicAdd(fill, (unsigned long long)__popc(lanes));
  return __shfl_sync(lanes, first, leader) + __popc(lanes & ((1u << lane) - 1));
}

/* Those that may still be wanted go to the list, where there is room for them. */
template <class E> __global__ void __launch_bounds__(THREADS) gather_kernel(const __grid_constant__ SelectArgs<E> a) {
  kernel_begin();
  int64_t line = blockIdx.x / a.blocks, block = blockIdx.x % a.blocks;
  Room<E> r = room_of(a, line);
  const State s = *r.state;
  int64_t before = a.kth ? 0 : a.sort.keep - s.rank;
  if (s.done || s.has_list || before + s.count > a.list) return;
  each_element(a, r, s, line, block, [&](typename KeyOf<E>::Key key, int64_t at) {
    int side = against(s, key, (uint64_t)at);
    if (side > 0 || (side < 0 && a.kth)) return;
    unsigned long long to = next_place(&r.state->listed);
    r.list_key[to] = key, r.list_at[to] = at;
  });
  if (ends_last(r.state, a.blocks) && threadIdx.x == 0) r.state->has_list = 1;
}

/* The bound of a line: of its elements here and there that one which stands at sample_rank among them. */
template <class E> __global__ void __launch_bounds__(THREADS) bound_kernel(const __grid_constant__ SelectArgs<E> a) {
  using K = typename KeyOf<E>::Key;
  using Scan = cub::BlockScan<int, THREADS>;
  constexpr int EACH = SAMPLES / THREADS;
  kernel_begin();
  __shared__ typename Scan::TempStorage room;
  __shared__ int count[VALUES], rank;
  __shared__ K bound;
  const E *in = a.sort.in + blockIdx.x * a.sort.n;
  int64_t apart = a.sort.n / SAMPLES;
  K key[EACH], mask = 0;
  TIDEK_EACH(e, EACH) {
    uint32_t i = threadIdx.x + e * THREADS; /* not at equal distances, where a pattern may repeat */
    key[e] = (K)KeyOf<E>::key(in[i * apart + (int64_t)(i * 2654435769u >> 8) % apart], a.sort.order);
  }
  if (threadIdx.x == 0) rank = a.sample_rank, bound = 0;
  for (int high = 8 * (int)sizeof(E), bits; high > 0; high -= bits) {
    bits = high < DIGIT_BITS ? high : DIGIT_BITS;
    for (int i = threadIdx.x; i < VALUES; i += THREADS) count[i] = 0;
    __syncthreads();
    TIDEK_EACH(e, EACH)
      if ((key[e] & mask) == bound) atomicAdd(&count[(int)(key[e] >> (high - bits) & ((1u << bits) - 1))], 1);
    __syncthreads();
    int sum = 0, before, wanted = rank;
    for (int v = 0; v < OWN; v++) sum += count[threadIdx.x * OWN + v];
    Scan(room).ExclusiveSum(sum, before);
    __syncthreads(); /* all have read the rank and the bound */
    if (before < wanted && wanted <= before + sum) {
      int value = threadIdx.x * OWN;
      while (before + count[value] < wanted) before += count[value++];
      rank = wanted - before, bound |= (K)value << (high - bits);
    }
    mask |= (K)((1u << bits) - 1) << (high - bits);
    __syncthreads();
  }
  if (threadIdx.x == 0) room_of(a, blockIdx.x).state->bound = bound;
}

/* Those up to the bound become the list, if they are enough and have room. */
template <class E> __global__ void __launch_bounds__(THREADS) below_kernel(const __grid_constant__ SelectArgs<E> a) {
  kernel_begin();
  int64_t line = blockIdx.x / a.blocks, block = blockIdx.x % a.blocks;
  Room<E> r = room_of(a, line);
  const State s = *r.state;
  bool is_full = false;
  each_element(a, r, s, line, block, [&](typename KeyOf<E>::Key key, int64_t at) {
    if (key > s.bound || is_full) return;
    unsigned long long to = next_place(&r.state->listed);
    is_full = to >= (unsigned long long)a.list;
    if (!is_full) r.list_key[to] = key, r.list_at[to] = at;
  });
  if (!ends_last(r.state, a.blocks) || threadIdx.x) return;
  int64_t listed = (int64_t)__ldcg(&r.state->listed);
  if (listed >= s.rank && listed <= a.list)
    r.state->has_list = 1, r.state->count = listed, r.state->done = listed == s.rank;
  else
    r.state->listed = 0;
}

/* What is wanted. */
template <class E> __global__ void __launch_bounds__(THREADS) collect_kernel(const __grid_constant__ SelectArgs<E> a) {
  kernel_begin();
  int64_t line = blockIdx.x / a.blocks, block = blockIdx.x % a.blocks;
  Room<E> r = room_of(a, line);
  const State s = *r.state;
  each_element(a, r, s, line, block, [&](typename KeyOf<E>::Key key, int64_t at) {
    int side = against(s, key, (uint64_t)at);
    if (side > 0 || (side < 0 && a.kth)) return;
    if (a.sort.keep == 1) {
      put(a.sort, line, line, key, at);
      return;
    }
    unsigned long long to = next_place(&r.state->collected);
    r.result_key[to] = key, r.result_at[to] = at;
  });
}

/* The collected elements in order: first by their places, then, which keeps that, by their keys. */
template <class E, int ITEMS>
__global__ void __launch_bounds__(SORT_THREADS) order_kernel(const __grid_constant__ SelectArgs<E> a, int place_bits) {
  using Sort = cub::BlockRadixSort<uint64_t, SORT_THREADS, ITEMS, uint16_t>;
  kernel_begin();
  __shared__ typename Sort::TempStorage room;
  int64_t line = blockIdx.x, keep = a.sort.keep;
  Room<E> r = room_of(a, line);
  uint64_t key[ITEMS];
  uint16_t item[ITEMS];
  TIDEK_EACH(e, ITEMS) {
    int i = threadIdx.x * ITEMS + e;
    item[e] = (uint16_t)i;
    key[e] = i < keep ? (uint64_t)r.result_at[i] : ~(uint64_t)0;
  }
  Sort(room).Sort(key, item, 0, place_bits);
  __syncthreads();
  TIDEK_EACH(e, ITEMS) key[e] = item[e] < keep ? (uint64_t)r.result_key[item[e]] : ~(uint64_t)0;
  Sort(room).SortBlockedToStriped(key, item, 0, 8 * (int)sizeof(E));
  TIDEK_EACH(e, ITEMS) {
    int64_t i = e * SORT_THREADS + threadIdx.x;
    if (i < keep) put(a.sort, line * keep + i, line, (typename KeyOf<E>::Key)key[e], r.result_at[item[e]]);
  }
}

/* ---- launching ---- */

bool is_selection(const tide_sort_args *a) {
  return a->n > SHORT_LINE && a->keep < a->n && a->keep <= MOST_KEEP && (a->keep == 1 || a->first == 0);
}

static int64_t list_of(const tide_sort_args *a) { return a->n < LEAST_LIST ? 0 : a->n / LIST_PART; }

/* So that fewer than `keep` of n elements are seldom up to the bound: what is expected among the samples, and more. */
static int sample_rank(int64_t n, int64_t keep) {
  double expected = (double)SAMPLES * (double)keep / (double)n;
  return (int)(expected + 4 * sqrt(expected)) + 8;
}

/* So many lines at a time. */
static int64_t group_of(const tide_sort_args *a) {
  int64_t lines = ((int64_t)1 << 30) / a->n;
  lines = lines < 1 ? 1 : lines > MOST_LINES ? MOST_LINES : lines;
  return lines < a->lines ? lines : a->lines;
}

template <class E> static int levels_of(Level *level, int64_t n) {
  int count = 0;
  for (int of_place = 0; of_place < 2; of_place++) {
    int high = of_place ? bits_below(n) : 8 * (int)sizeof(E);
    while (high > 0) {
      int bits = high < DIGIT_BITS ? high : DIGIT_BITS;
      high -= bits;
      level[count] = Level{high, bits, of_place, count == 0};
      count++;
    }
  }
  return count;
}

template <class E> static int select_of(cudaStream_t stream, const tide_sort_args *args, void *scratch) {
  SortArgs<E> all = sort_args<E>(args);
  int64_t group = group_of(args);
  Level level[MOST_LEVELS];
  int levels = levels_of<E>(level, all.n), rc = 0;
  for (int64_t line = 0; line < all.lines && !rc; line += group) {
    SelectArgs<E> a = {};
    int64_t lines = all.lines - line < group ? all.lines - line : group;
    a.sort = from_line(all, line, lines);
    a.scratch = (char *)scratch, a.list = list_of(args), a.each = (int64_t)line_bytes<E>(a.list, all.keep);
    int64_t most = ceil_div(ENOUGH_BLOCKS, lines), need = ceil_div(all.n, THREADS * AHEAD);
    a.blocks = need < most ? need : most;
    a.kth = all.keep == 1 && (all.first > 0 || all.median);
    a.sample_rank = a.kth || all.n < LEAST_GUESS ? 0 : sample_rank(all.n, all.keep);
    rc = launch(begin_kernel<E>, lines, THREADS, stream, (const SelectArgs<E>)a);
    if (!rc && a.sample_rank) rc = launch(bound_kernel<E>, lines, THREADS, stream, (const SelectArgs<E>)a);
    if (!rc && a.sample_rank) rc = launch(below_kernel<E>, lines * a.blocks, THREADS, stream, (const SelectArgs<E>)a);
    for (int k = 0; k < levels && !rc; k++) {
      rc = launch(level_kernel<E>, lines * a.blocks, THREADS, stream, (const SelectArgs<E>)a, (const Level)level[k]);
      if (!rc && k < GATHERS && a.list)
        rc = launch(gather_kernel<E>, lines * a.blocks, THREADS, stream, (const SelectArgs<E>)a);
    }
    if (!rc) rc = launch(collect_kernel<E>, lines * a.blocks, THREADS, stream, (const SelectArgs<E>)a);
    if (rc || all.keep == 1) continue;
    auto order = all.keep <= SORT_THREADS ? order_kernel<E, 1> : order_kernel<E, (int)(MOST_KEEP / SORT_THREADS)>;
    rc = launch(order, lines, SORT_THREADS, stream, (const SelectArgs<E>)a, bits_below(all.n));
  }
  return rc;
}

size_t select_scratch(const tide_sort_args *a) {
  int64_t list = list_of(a);
  size_t each = dtype_bytes(a->dtype) == 8 ? line_bytes<uint64_t>(list, a->keep) : line_bytes<uint32_t>(list, a->keep);
  return (size_t)group_of(a) * each;
}

int select(cudaStream_t stream, const tide_sort_args *a, void *scratch) {
  switch (dtype_bytes(a->dtype)) {
  case 1: return select_of<uint8_t>(stream, a, scratch);
  case 2: return select_of<uint16_t>(stream, a, scratch);
  case 4: return select_of<uint32_t>(stream, a, scratch);
  default: return select_of<uint64_t>(stream, a, scratch);
  }
}

} // namespace tidek
