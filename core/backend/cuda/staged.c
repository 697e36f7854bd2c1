/* staged.c: large copies of pageable memory, by several threads through page-locked buffers.
 *
 * The runtime stages such copies with one thread, whose memcpy is then the limit: a fifth of what the bus carries. Here
 * up to four threads, which live as long as the copy, move pieces in turn; each has two buffers, so that its memcpy and
 * the device's transfer overlap. The buffers are made at the first such copy. One copy uses them at a time; a second
 * one at the same moment takes the runtime's way.
 *
 * Invariants: a buffer is written only after its event has passed; when tide__cuda_staged_copy returns, the host memory
 * is its owner's again, while transfers to the device may still be queued. */
#include "internal.h"

#include <string.h>
#include <unistd.h>

enum { WORKERS = 4, BUFFERS = 2 };
#define PIECE ((size_t)2 << 20)

typedef struct buffer {
  char *memory;
  cudaEvent_t event[TIDE_MAX_DEVICES]; /* an event is of one device; made when that one first needs it */
  int queued;                          /* the device whose event tells the end of the transfer; -1: there is none */
} buffer;

typedef struct worker {
  pthread_t thread;
  bool started;
  int number, rc;
  buffer buffers[BUFFERS];
} worker;

typedef struct job {
  cudaStream_t stream;
  char *dst;
  const char *src;
  size_t bytes;
  int device, workers;
  bool to_host;
} job;

static struct {
  pthread_mutex_t lock;
  int device; /* in whose context the memory was made; -1: there is none */
  worker worker[WORKERS];
  job job;
} staging = {.lock = PTHREAD_MUTEX_INITIALIZER, .device = -1};

/* ---- buffers ---- */

static void drop_buffers(void) {
  for (int w = 0; w < WORKERS; w++) {
    for (int b = 0; b < BUFFERS; b++) {
      buffer *x = &staging.worker[w].buffers[b];
      for (int d = 0; d < TIDE_MAX_DEVICES; d++)
        if (x->event[d]) cudaEventDestroy(x->event[d]);
      if (x->memory) cudaFreeHost(x->memory);
      *x = (buffer){.queued = -1};
    }
  }
  staging.device = -1;
  cudaGetLastError();
}

/* The memory serves all devices. */
static int make_buffers(int device) {
  if (staging.device >= 0) return 0;
  int rc = 0;
  for (int i = 0; !rc && i < WORKERS * BUFFERS; i++) {
    buffer *x = &staging.worker[i / BUFFERS].buffers[i % BUFFERS];
    void *memory = NULL;
    rc = (int)cudaHostAlloc(&memory, PIECE, cudaHostAllocPortable);
    x->memory = memory, x->queued = -1;
  }
  if (rc)
    drop_buffers();
  else
    staging.device = device;
  return rc;
}

/* ---- one worker ---- */

static size_t piece_size(const job *j, size_t piece) {
  size_t left = j->bytes - piece * PIECE;
  return left < PIECE ? left : PIECE;
}

static int passed(buffer *b) {
  int device = b->queued;
  b->queued = -1;
  return device < 0 ? 0 : (int)cudaEventSynchronize(b->event[device]);
}

static int queue_transfer(const job *j, buffer *b, void *dst, const void *src, size_t bytes) {
  enum cudaMemcpyKind kind = j->to_host ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
  cudaEvent_t *event = &b->event[j->device];
  int rc = *event ? 0 : (int)cudaEventCreateWithFlags(event, cudaEventDisableTiming);
  if (!rc) rc = (int)cudaMemcpyAsync(dst, src, bytes, kind, j->stream);
  if (!rc) rc = (int)cudaEventRecord(*event, j->stream);
  if (!rc) b->queued = j->device;
  return rc;
}

static int push_pieces(const job *j, worker *w) {
  int rc = 0, turn = 0;
  for (size_t piece = (size_t)w->number; !rc && piece * PIECE < j->bytes; piece += (size_t)j->workers, turn ^= 1) {
    buffer *b = &w->buffers[turn];
    size_t bytes = piece_size(j, piece);
    rc = passed(b);
    if (rc) break;
    memcpy(b->memory, j->src + piece * PIECE, bytes);
    rc = queue_transfer(j, b, j->dst + piece * PIECE, b->memory, bytes);
  }
  return rc;
}

/* The transfer of the next piece is queued before the one at hand is copied out. */
static int pull_pieces(const job *j, worker *w) {
  size_t piece = (size_t)w->number, step = (size_t)j->workers;
  int rc = 0, turn = 0;
  for (int b = 0; b < BUFFERS && !rc; b++) rc = passed(&w->buffers[b]);
  if (!rc && piece * PIECE < j->bytes)
    rc = queue_transfer(j, &w->buffers[0], w->buffers[0].memory, j->src + piece * PIECE, piece_size(j, piece));
  for (; !rc && piece * PIECE < j->bytes; piece += step, turn ^= 1) {
    buffer *b = &w->buffers[turn], *next = &w->buffers[turn ^ 1];
    size_t after = piece + step;
    if (after * PIECE < j->bytes)
      rc = queue_transfer(j, next, next->memory, j->src + after * PIECE, piece_size(j, after));
    if (!rc) rc = passed(b);
    if (!rc) memcpy(j->dst + piece * PIECE, b->memory, piece_size(j, piece));
  }
  return rc;
}

static void *work(void *arg) {
  worker *w = arg;
  const job *j = &staging.job;
  CUDA_ON(j->device);
  w->rc = j->to_host ? pull_pieces(j, w) : push_pieces(j, w);
  if (w->rc) cudaGetLastError();
  return NULL;
}

/* ---- the copy ---- */

static int worker_count(void) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  return cores < 1 ? 1 : cores > WORKERS ? WORKERS : (int)cores;
}

static int run_workers(void) {
  int rc = 0;
  for (int w = 0; w < staging.job.workers; w++) {
    worker *x = &staging.worker[w];
    x->number = w, x->rc = 0;
    x->started = w > 0 && pthread_create(&x->thread, NULL, work, x) == 0;
  }
  /* The caller is worker 0, and does what a thread that did not start would have done. */
  for (int w = 0; w < staging.job.workers; w++)
    if (!staging.worker[w].started) work(&staging.worker[w]);
  for (int w = 0; w < staging.job.workers; w++) {
    if (staging.worker[w].started) pthread_join(staging.worker[w].thread, NULL);
    if (!rc) rc = staging.worker[w].rc;
  }
  return rc;
}

bool tide__cuda_staged_copy(int *rc, const cuda_stream *s, void *dst, const void *src, size_t bytes, bool to_host) {
  if (bytes < 4 * WORKERS * PIECE || pthread_mutex_trylock(&staging.lock)) return false;
  bool ready = make_buffers(s->device) == 0;
  if (ready) {
    staging.job = (job){s->handle, dst, src, bytes, s->device, worker_count(), to_host};
    *rc = run_workers();
  }
  pthread_mutex_unlock(&staging.lock);
  return ready;
}

void tide__cuda_staged_close(void) {
  if (staging.device < 0) return;
  CUDA_ON(staging.device);
  drop_buffers();
}
