/* select_line.cu: the first few elements in order, or the kth one, of lines that one block each goes through.
 *
 * Key and place of an element make one word, of which none are equal. Digits of the words are gone through from the
 * highest on: counts say in which value of the digit the last wanted one lies, until so few lie there, and, unless the
 * kth alone is wanted, before, that a thread can have one each. A thread then counts how many of these are less than
 * its own.
 *
 * Invariant: a place fits into 16 bits, and a key into 32. */
#include <cub/block/block_scan.cuh>

#include "sort.cuh"

namespace tidek {

constexpr int THREADS = 512, AHEAD = 8, DIGIT_BITS = 11, VALUES = 1 << DIGIT_BITS, OWN = VALUES / THREADS;
constexpr int PLACE_BITS = 16;
constexpr int64_t LEAST = 512, MOST_KEEP = 256, MOST_BLOCKS = 0x7fffffff;

template <class E, class F> static __device__ __forceinline__ void each_word(const SortArgs<E> &a, const E *in, F f) {
  int n = (int)a.n;
  for (int begin = threadIdx.x; begin < n; begin += THREADS * AHEAD) {
    E x[AHEAD];
    TIDEK_EACH(e, AHEAD)
      if (begin + e * THREADS < n) x[e] = in[begin + e * THREADS];
    TIDEK_EACH(e, AHEAD) {
      int i = begin + e * THREADS;
      if (i < n) f((uint64_t)KeyOf<E>::key(x[e], a.order) << PLACE_BITS | (uint32_t)i);
    }
  }
}

template <class E> __global__ void __launch_bounds__(THREADS) line_kernel(const __grid_constant__ SortArgs<E> a) {
  using Scan = cub::BlockScan<int, THREADS>;
  kernel_begin();
  __shared__ typename Scan::TempStorage room;
  __shared__ int count[VALUES], rank, before, inside, listed, nans;
  __shared__ uint64_t known, word[THREADS];
  const bool is_kth = a.keep == 1;
  for (int64_t line = blockIdx.x; line < a.lines; line += gridDim.x) {
    const E *in = a.in + line * a.n;
    if (threadIdx.x == 0) rank = (int)(a.first + a.keep), before = 0, listed = 0, nans = 0, known = 0;
    uint64_t mask = 0;
    int high = 8 * (int)sizeof(E) + PLACE_BITS;
    do {
      int bits = high < DIGIT_BITS ? high : DIGIT_BITS;
      bool is_first = mask == 0;
      high -= bits;
      for (int i = threadIdx.x; i < VALUES; i += THREADS) count[i] = 0;
      __syncthreads();
      each_word(a, in, [&](uint64_t w) {
        if (is_first && a.median && KeyOf<E>::nan((uint32_t)(w >> PLACE_BITS), a.order)) atomicAdd(&nans, 1);
        if ((w & mask) == known) atomicAdd(&count[(int)(w >> high) & ((1 << bits) - 1)], 1);
      });
      __syncthreads();
      int wanted = is_first && nans ? (int)a.n - nans + 1 : rank, sum = 0, less;
      for (int v = 0; v < OWN; v++) sum += count[threadIdx.x * OWN + v];
      Scan(room).ExclusiveSum(sum, less);
      __syncthreads(); /* all have read the rank */
      if (less < wanted && wanted <= less + sum) {
        int value = threadIdx.x * OWN;
        while (less + count[value] < wanted) less += count[value++];
        rank = wanted - less, before += less, inside = count[value];
        known |= (uint64_t)value << high;
      }
      mask |= (uint64_t)((1 << bits) - 1) << high;
      __syncthreads();
    } while ((is_kth ? 0 : before) + inside > THREADS);
    each_word(a, in, [&](uint64_t w) {
      if ((w & mask) == known || (!is_kth && (w & mask) < known)) word[atomicAdd(&listed, 1)] = w;
    });
    __syncthreads();
    if ((int)threadIdx.x < listed) {
      uint64_t own = word[threadIdx.x];
      int less = 0;
      for (int i = 0; i < listed; i++) less += word[i] < own;
      uint32_t key = (uint32_t)(own >> PLACE_BITS), at = (uint32_t)own & ((1u << PLACE_BITS) - 1);
      if (is_kth ? less == rank - 1 : less < a.keep) put(a, is_kth ? line : line * a.keep + less, line, key, at);
    }
    __syncthreads();
  }
}

bool is_line_selection(const tide_sort_args *a) {
  bool is_few = a->keep <= MOST_KEEP && 4 * a->keep <= a->n && (a->keep == 1 || (a->first == 0 && !a->median));
  return is_few && a->n > LEAST && a->n <= (int64_t)1 << PLACE_BITS && dtype_bytes(a->dtype) <= 4;
}

template <class E> static int select(cudaStream_t stream, const tide_sort_args *args) {
  SortArgs<E> a = sort_args<E>(args);
  return launch(line_kernel<E>, a.lines < MOST_BLOCKS ? a.lines : MOST_BLOCKS, THREADS, stream, (const SortArgs<E>)a);
}

int select_of_lines(cudaStream_t stream, const tide_sort_args *a) {
  switch (dtype_bytes(a->dtype)) {
  case 1: return select<uint8_t>(stream, a);
  case 2: return select<uint16_t>(stream, a);
  default: return select<uint32_t>(stream, a);
  }
}

} // namespace tidek
