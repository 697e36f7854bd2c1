/* wait.cu: two kernels that serve waiting: one tells the host a small value, one keeps the device busy. */
#include "launch.cuh"
#include "tidek.h"

int tidek_plain_launches;

namespace tidek {

/* One thread: the value first, then, visible later to the host, the sequence number. */
__global__ void tell_kernel(tidek_slot *slot, const uint8_t *src, int bytes, uint32_t sequence) {
  kernel_begin();
  uint32_t data[4] = {};
  if (bytes == 4 && (uintptr_t)src % 4 == 0) {
    data[0] = *(const uint32_t *)src;
  } else if (bytes == 8 && (uintptr_t)src % 8 == 0) {
    uint2 two = *(const uint2 *)src;
    data[0] = two.x, data[1] = two.y;
  } else {
    TIDEK_EACH(i, 16)
      if (i < bytes) data[i / 4] |= (uint32_t)src[i] << (8 * (i % 4));
  }
  *(uint4 *)slot->data = make_uint4(data[0], data[1], data[2], data[3]);
  __threadfence_system();
  slot->sequence = sequence;
}

__global__ void sleep_kernel(int64_t cycles) {
  kernel_begin();
  int64_t start = clock64();
  while (clock64() - start < cycles) __nanosleep(100);
}

} // namespace tidek

int tidek_tell(cudaStream_t stream, tidek_slot *slot, const void *src, size_t bytes, uint32_t sequence) {
  return tidek::launch(tidek::tell_kernel, 1, 1, stream, slot, (const uint8_t *)src, (int)bytes, sequence);
}

int tidek_sleep(cudaStream_t stream, int64_t cycles) {
  return tidek::launch(tidek::sleep_kernel, 1, 1, stream, cycles);
}
