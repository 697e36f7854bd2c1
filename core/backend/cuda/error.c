/* error.c: the runtime's error codes as statuses, and how far streams have come when one appears.
 *
 * Three kinds: memory that does not fit is TIDE_MEMORY, and the device goes on; faults that destroy the context are
 * sticky, and core then refuses the device; everything else is an error of this one call. The runtime keeps an error of
 * its own for each thread, which a host of ours may read: it is cleared here, so that our failures never become the
 * host's.
 *
 * A stream notes its progress by writing a number to a word of page-locked memory, an operation of the driver's that
 * needs no kernel and is ordered after everything before it. The host can read such a word whatever has become of the
 * device. Words are cut from pieces that every device may write and that stay until the library is closed. A word goes
 * back when its stream ends, and its next owner begins at 0 by an assignment of the host's; a number that the old
 * stream still had queued could spoil that, so a word rests until others have been used.
 *
 * Invariant: whoever gets a status other than TIDE_OK from tide__cuda_check finds the thread's error set. */
#include "internal.h"

#include <dlfcn.h>
#include <stdlib.h>

/* The driver says of a stream that its owner has destroyed that its context is, which is true of all the rest alone
 * when the device's own is. */
static bool context_gone(int device) {
  if (device < 0) return true;
  int least, greatest;
  CUDA_ON(device);
  bool gone = cudaDeviceGetStreamPriorityRange(&least, &greatest) != cudaSuccess;
  cudaGetLastError();
  return gone;
}

static bool sticky(int device, int code) {
  switch (code) {
  case cudaErrorContextIsDestroyed: return context_gone(device);
  case cudaErrorECCUncorrectable:
  case cudaErrorNvlinkUncorrectable:
  case cudaErrorIllegalAddress:
  case cudaErrorLaunchTimeout:
  case cudaErrorAssert:
  case cudaErrorHardwareStackError:
  case cudaErrorIllegalInstruction:
  case cudaErrorMisalignedAddress:
  case cudaErrorInvalidAddressSpace:
  case cudaErrorInvalidPc:
  case cudaErrorLaunchFailure:
  case cudaErrorTensorMemoryLeak:
  case cudaErrorMpsClientTerminated:
  case cudaErrorExternalDevice:
  case cudaErrorDevicesUnavailable:
  case cudaErrorUnknown: return true;
  default: return false;
  }
}

tide_status tide__cuda_fail(int device, const char *what, int code) {
  cudaGetLastError();
  if (code == cudaErrorMemoryAllocation)
    return tide__cuda_host->fail(TIDE_MEMORY, "%s: out of memory on cuda:%d", what, device);
  if (code == cudaErrorNoKernelImageForDevice || code == cudaErrorInvalidDeviceFunction)
    return tide__cuda_host->fail(
        TIDE_LIBRARY, "%s: libtide_cuda has no code for cuda:%d, expected a build for its architecture", what, device);
  return tide__cuda_host->fail_driver(device, what, code, cudaGetErrorName((cudaError_t)code),
                                      cudaGetErrorString((cudaError_t)code), sticky(device, code));
}

/* ---- progress ---- */

enum { WORDS = 1024 };

/* A queue: words are taken at the front and come back at the end. */
typedef struct piece {
  struct piece *next;
  volatile uint32_t *words;
} piece;

static struct {
  pthread_mutex_t lock;
  piece *pieces;
  volatile uint32_t **rest; /* a ring of `room` */
  size_t room, first, count;
} words = {.lock = PTHREAD_MUTEX_INITIALIZER};

static CUresult (*write_value)(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags);
static pthread_once_t write_once = PTHREAD_ONCE_INIT;

static void write_open(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library) *(void **)&write_value = dlsym(library, "cuStreamWriteValue32_v2");
}

static void give_word(volatile uint32_t *word) { words.rest[(words.first + words.count++) % words.room] = word; }

/* Page-locked memory even while this thread captures a graph on some stream: nothing of it is queued. */
static int alloc_words(void **out) {
  CUDA_RELAXED_FULLY;
  return (int)cudaHostAlloc(out, WORDS * sizeof(uint32_t), cudaHostAllocPortable | cudaHostAllocMapped);
}

/* The lock is held and the device current. */
static int grow_words(void) {
  piece *p = calloc(1, sizeof *p);
  volatile uint32_t **rest = p ? calloc(words.room + WORDS, sizeof *rest) : NULL;
  void *memory = NULL;
  int rc = rest ? alloc_words(&memory) : cudaErrorMemoryAllocation;
  if (rc) {
    free(rest);
    free(p);
    return rc;
  }
  for (size_t i = 0; i < words.count; i++) rest[i] = words.rest[(words.first + i) % words.room];
  free(words.rest);
  words.rest = rest, words.first = 0, words.room += WORDS;
  p->words = memory, p->next = words.pieces, words.pieces = p;
  for (int i = 0; i < WORDS; i++) give_word(&p->words[i]);
  return 0;
}

static tide_status take_word(cuda_stream *s) {
  pthread_mutex_lock(&words.lock);
  int rc = words.count < WORDS / 4 ? grow_words() : 0; /* some always rest */
  if (words.count && !atomic_load_explicit(&s->progress, memory_order_relaxed)) {
    volatile uint32_t *word = words.rest[words.first];
    words.first = (words.first + 1) % words.room, words.count--;
    *word = 0;
    atomic_store_explicit(&s->progress, word, memory_order_release);
    rc = 0;
  }
  pthread_mutex_unlock(&words.lock);
  return tide__cuda_check(s->device, "launch", rc);
}

void tide__cuda_progress_end(volatile uint32_t *word) {
  if (!word) return;
  TIDE_LOCKED(&words.lock);
  if (words.room) give_word(word);
}

/* Host memory has the same address on the device. */
static tide_status write_word(cuda_stream *s, uint32_t value) {
  volatile uint32_t *word = atomic_load_explicit(&s->progress, memory_order_acquire);
  if (!word) {
    TIDE_TRY(take_word(s));
    word = atomic_load_explicit(&s->progress, memory_order_acquire);
  }
  int rc = (int)write_value((CUstream)s->handle, (CUdeviceptr)(uintptr_t)word, value, 0);
  return tide__cuda_check(s->device, "launch", rc);
}

tide_status tide__cuda_progress_note(void *stream, uint32_t value) {
  cuda_stream *s = stream;
  pthread_once(&write_once, write_open);
  if (!write_value) return tide__cuda_host->fail(TIDE_SUPPORT, "launch: the driver cannot write a stream's progress");
  CUDA_ON(s->device);
  return write_word(s, value);
}

uint32_t tide__cuda_progress_read(void *stream) {
  volatile uint32_t *word = atomic_load_explicit(&((cuda_stream *)stream)->progress, memory_order_acquire);
  return word ? *word : 0;
}

void tide__cuda_progress_close(void) {
  int any = tide__cuda_any_device();
  if (any < 0) return;
  CUDA_ON(any);
  TIDE_LOCKED(&words.lock);
  while (words.pieces) {
    piece *p = words.pieces;
    words.pieces = p->next;
    cudaFreeHost((void *)p->words);
    free(p);
  }
  free(words.rest);
  words.rest = NULL, words.room = words.first = words.count = 0;
  cudaGetLastError();
}
