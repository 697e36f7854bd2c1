/* stop.c: ends kernels that are running, those that look for it (lua_bindings/kernel/prelude.lua).
 *
 * They find a word of device memory for each owner of launches: the number up to which launches are to end. Behind it
 * stand the milliseconds that they report, and the address of both in page-locked memory, as a device sees it; then the
 * same three for launches that a graph replays, which all have number 1. A copy from there writes them: it needs no
 * multiprocessor, and its stream, of the highest priority, waits for no other's work. But where another thread is
 * within the driver, which waits for the device as it loads a kernel, the copy waits for that thread. So kernels look
 * into the host's memory, too, seldom, as that is far. Before a replay the word of graphs is cleared in its stream's
 * order.
 *
 * Invariant: the first word only grows; what is staged for an owner is written under the lock, but for that word by
 * tide__cuda_kernels_stop without milliseconds, which a signal's handler calls. */
#include <string.h>

#include "internal.h"

enum { NUMBER, MILLISECONDS, PLACE, GRAPHS, WORDS = 2 * GRAPHS, BYTES = TIDE_LAUNCH_OWNERS * WORDS * 8 };

static struct {
  pthread_mutex_t lock;
  struct {
    _Atomic(uint64_t *) words;
    _Atomic(uint64_t *) staged; /* page-locked, and behind it a 0 */
    cudaStream_t stream;
    _Atomic bool graphs; /* some word of graphs is set */
  } device[TIDE_MAX_DEVICES];
} stop = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The lock is held and the device is current. */
static int open_words(int device) {
  void *words = NULL, *staged = NULL, *seen = NULL;
  int least = 0, most = 0;
  cudaStream_t stream = NULL;
  int rc = (int)cudaDeviceGetStreamPriorityRange(&least, &most);
  if (!rc) rc = (int)cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, most);
  if (!rc) rc = (int)cudaMalloc(&words, BYTES);
  if (!rc) rc = (int)cudaHostAlloc(&staged, BYTES + 8, cudaHostAllocPortable | cudaHostAllocMapped);
  if (!rc) rc = (int)cudaHostGetDevicePointer(&seen, staged, 0);
  if (!rc) {
    uint64_t *word = memset(staged, 0, BYTES + 8);
    for (size_t i = 0; i < TIDE_LAUNCH_OWNERS * 2; i++, word += GRAPHS)
      word[PLACE] = (uintptr_t)seen + (size_t)(word - (uint64_t *)staged) * sizeof *word;
    rc = (int)cudaMemcpyAsync(words, staged, BYTES, cudaMemcpyHostToDevice, stream);
  }
  if (!rc) rc = (int)cudaStreamSynchronize(stream);
  if (rc) {
    cudaFree(words), cudaFreeHost(staged);
    if (stream) cudaStreamDestroy(stream);
    return rc;
  }
  stop.device[device].stream = stream;
  atomic_store_explicit(&stop.device[device].staged, (uint64_t *)staged, memory_order_release);
  atomic_store_explicit(&stop.device[device].words, (uint64_t *)words, memory_order_release);
  return 0;
}

/* The first launch may be in a capture. */
static int find_words(int device) {
  TIDE_LOCKED(&stop.lock);
  CUDA_ON_RELAXED(device);
  return atomic_load_explicit(&stop.device[device].words, memory_order_acquire) ? 0 : open_words(device);
}

tide_status tide__cuda_stop_word(uint64_t **word, uint64_t *number, const tide_launch *a, int device) {
  uint64_t *words = atomic_load_explicit(&stop.device[device].words, memory_order_acquire);
  if (!words) {
    TIDE_TRY(tide__cuda_check(device, "launch", find_words(device)));
    words = atomic_load_explicit(&stop.device[device].words, memory_order_acquire);
  }
  *word = words + (size_t)a->owner * WORDS + (a->number ? 0 : GRAPHS);
  *number = a->number ? a->number : 1;
  return TIDE_OK;
}

void tide__cuda_kernels_stop(int device, int owner, uint64_t number, int64_t ms) {
  uint64_t *words = atomic_load_explicit(&stop.device[device].words, memory_order_acquire);
  if (!words) return; /* there was no such launch */
  uint64_t *from = atomic_load_explicit(&stop.device[device].staged, memory_order_acquire) + (size_t)owner * WORDS;
  if (ms < 0) {
    if (number > from[NUMBER]) *(volatile uint64_t *)&from[NUMBER] = number;
    return;
  }
  TIDE_LOCKED(&stop.lock);
  from[MILLISECONDS] = from[GRAPHS + MILLISECONDS] = (uint64_t)ms, from[GRAPHS + NUMBER] = 1;
  atomic_thread_fence(memory_order_release);
  if (number > from[NUMBER]) *(volatile uint64_t *)&from[NUMBER] = number;
  atomic_store(&stop.device[device].graphs, true);
  CUDA_ON_RELAXED(device);
  if (cudaMemcpyAsync(words + (size_t)owner * WORDS, from, WORDS * 8, cudaMemcpyHostToDevice,
                      stop.device[device].stream) != cudaSuccess)
    cudaGetLastError();
}

int tide__cuda_stop_replays(int device, cudaStream_t stream) {
  int rc = 0;
  if (!atomic_load_explicit(&stop.device[device].graphs, memory_order_relaxed)) return 0;
  TIDE_LOCKED(&stop.lock);
  uint64_t *words = atomic_load(&stop.device[device].words), *staged = stop.device[device].staged;
  for (size_t i = 0; !rc && i < TIDE_LAUNCH_OWNERS; i++) {
    if (!staged[i * WORDS + GRAPHS]) continue;
    staged[i * WORDS + GRAPHS] = 0;
    rc = (int)cudaMemcpyAsync(words + i * WORDS + GRAPHS, staged + BYTES / 8, 8, cudaMemcpyHostToDevice, stream);
  }
  atomic_store(&stop.device[device].graphs, false);
  return rc;
}

void tide__cuda_stop_close(void) {
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    uint64_t *words = atomic_exchange(&stop.device[d].words, NULL);
    if (!words) continue;
    CUDA_ON(d);
    cudaStreamDestroy(stop.device[d].stream);
    cudaFree(words);
    cudaFreeHost(atomic_load(&stop.device[d].staged));
    atomic_store(&stop.device[d].graphs, false);
    cudaGetLastError();
  }
}
