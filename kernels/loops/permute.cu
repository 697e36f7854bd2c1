/* permute.cu: random permutations: the numbers from index_base on, in the stable order of their random keys. */
#include <cub/device/device_radix_sort.cuh>

#include "launch.cuh"
#include "base/random.h"
#include "tidek.h"

namespace tidek {

constexpr int THREADS = 256;

__global__ void __launch_bounds__(THREADS) keys_kernel(uint64_t *keys, int64_t *values, int64_t n, int64_t base,
                                                       uint64_t seed, uint64_t offset, const uint64_t *state) {
  kernel_begin();
  if (state) seed = state[0], offset += state[1];
  int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) * 2;
  if (i >= n) return;
  tide_philox p = tide_random_group(seed, offset, (uint64_t)i / 2);
  keys[i] = tide_random_u64(&p, 0), values[i] = base + i;
  if (i + 1 < n) keys[i + 1] = tide_random_u64(&p, 1), values[i + 1] = base + i + 1;
}

static size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

/* Scratch memory holds two arrays of keys, one of values, and what the sort asks for. */
static cudaError_t sort(void *scratch, size_t &sort_bytes, const tide_randperm_args *a, cudaStream_t stream) {
  size_t array = aligned((size_t)a->n * 8);
  char *room = (char *)scratch;
  uint64_t *keys = (uint64_t *)room, *sorted = (uint64_t *)(room + array);
  int64_t *values = (int64_t *)(room + 2 * array);
  return cub::DeviceRadixSort::SortPairs(room ? room + 3 * array : nullptr, sort_bytes, keys, sorted, values,
                                         (int64_t *)a->head.ptr[0], a->n, 0, 64, stream);
}

} // namespace tidek

int tidek_randperm_scratch(size_t *bytes, const tide_randperm_args *a) {
  size_t sort_bytes = 0;
  int rc = (int)tidek::sort(nullptr, sort_bytes, a, nullptr);
  *bytes = 3 * tidek::aligned((size_t)a->n * 8) + sort_bytes;
  return rc;
}

int tidek_randperm(cudaStream_t stream, const tide_randperm_args *a, void *scratch, size_t bytes) {
  using namespace tidek;
  size_t array = aligned((size_t)a->n * 8), sort_bytes = bytes - 3 * array;
  int rc = launch(keys_kernel, ceil_div(a->n, THREADS * 2), THREADS, stream, (uint64_t *)scratch,
                  (int64_t *)((char *)scratch + 2 * array), a->n, (int64_t)a->index_base, a->seed, a->offset, a->state);
  return rc ? rc : (int)sort(scratch, sort_bytes, a, stream);
}
