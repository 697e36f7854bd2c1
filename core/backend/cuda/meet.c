/* meet.c: where a stream and the host meet: two words of page-locked memory. The stream writes the first one and waits
 * for the second one, by operations of the driver's that need no kernel.
 *
 * Places serve again, and a stream may still be on its way to one that was open: so words count turns. A turn writes
 * its number, waits for its number or a later one, and the words only grow.
 *
 * Invariant: a place is handed out, in the list of those that are free, or a stream is still to write to it. */
#include "internal.h"

#include <stdlib.h>

enum { PLACES = 256 };

typedef struct place {
  struct place *next;
  _Atomic uint32_t *words; /* arrived, opened */
  uint32_t turn;
  bool begun; /* in this turn */
} place;

typedef struct piece {
  struct piece *next;
  void *words;
  place place[PLACES];
} piece;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static piece *pieces;
static place *unused;

static CUresult (*write_value)(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags);
static CUresult (*wait_value)(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags);
static const char *driver_lacks;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void driver_open(void) {
  const cuda_symbol wanted[] = {{&write_value, "cuStreamWriteValue32_v2"}, {&wait_value, "cuStreamWaitValue32_v2"}};
  driver_lacks = tide__cuda_find(wanted, sizeof wanted / sizeof *wanted);
}

/* The lock is held and the device current. Page-locked memory even while this thread captures a graph. */
static int grow(void) {
  piece *p = calloc(1, sizeof *p);
  if (!p) return cudaErrorMemoryAllocation;
  CUDA_RELAXED_FULLY;
  int rc = (int)cudaHostAlloc(&p->words, 2 * PLACES * sizeof(uint32_t), cudaHostAllocPortable | cudaHostAllocMapped);
  if (rc) {
    free(p);
    return rc;
  }
  for (int i = 0; i < PLACES; i++) {
    p->place[i] = (place){unused, (_Atomic uint32_t *)p->words + 2 * i, 0, false};
    atomic_init(&p->place[i].words[0], 0);
    atomic_init(&p->place[i].words[1], 0);
    unused = &p->place[i];
  }
  p->next = pieces, pieces = p;
  return 0;
}

tide_status tide__cuda_meet_new(void **out, int device) {
  pthread_once(&once, driver_open);
  if (driver_lacks) return tide__cuda_host->fail(TIDE_SUPPORT, "host_job: the driver lacks %s", driver_lacks);
  CUDA_ON(device);
  pthread_mutex_lock(&lock);
  int rc = unused ? 0 : grow();
  place *p = rc ? NULL : unused;
  if (p) unused = p->next, p->turn++, p->begun = false;
  pthread_mutex_unlock(&lock);
  *out = p;
  return tide__cuda_check(device, "host_job", rc);
}

/* Host memory has the same address on the device. */
static CUdeviceptr address(const place *p, int word) { return (CUdeviceptr)(uintptr_t)&p->words[word]; }

tide_status tide__cuda_meet_arrive(void *stream, void *place_) {
  CUDA_ON_STREAM(s, stream);
  place *p = place_;
  p->begun = true;
  return tide__cuda_check(s->device, "host_job",
                          (int)write_value((CUstream)s->handle, address(p, 0), p->turn, CU_STREAM_WRITE_VALUE_DEFAULT));
}

static bool has_come(const place *p) {
  return (int32_t)(atomic_load_explicit(&p->words[0], memory_order_acquire) - p->turn) >= 0;
}

bool tide__cuda_meet_arrived(const void *place_) { return has_come(place_); }

tide_status tide__cuda_meet_wait(void *stream, void *place_) {
  CUDA_ON_STREAM(s, stream);
  const place *p = place_;
  return tide__cuda_check(s->device, "host_job",
                          (int)wait_value((CUstream)s->handle, address(p, 1), p->turn, CU_STREAM_WAIT_VALUE_GEQ));
}

void tide__cuda_meet_open(void *place_) {
  const place *p = place_;
  atomic_store_explicit(&p->words[1], p->turn, memory_order_release);
}

void tide__cuda_meet_free(void *place_) {
  place *p = place_;
  if (p->begun && !has_come(p)) return; /* its late number would hide the next one */
  TIDE_LOCKED(&lock);
  p->next = unused, unused = p;
}

void tide__cuda_meet_close(void) {
  int any = tide__cuda_any_device();
  if (any < 0) return;
  CUDA_ON(any);
  TIDE_LOCKED(&lock);
  while (pieces) {
    piece *p = pieces;
    pieces = p->next;
    cudaFreeHost(p->words);
    free(p);
  }
  unused = NULL;
  cudaGetLastError();
}
