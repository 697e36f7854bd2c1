/* stream.c: streams and events.
 *
 * Streams of ours never synchronise with the legacy stream. They stand in a list in the order of creation, so that a
 * wait for the device can go through them without holding the lock: it remembers the last one's id and holds a
 * reference to the one it waits for. A destroyed stream's queued work still completes; the runtime sees to that.
 *
 * Invariant: a handle is destroyed exactly once, when its last reference goes, and only if it is ours. */
#include "internal.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;
static cuda_stream *streams; /* oldest first */
static uint64_t streams_made;

/* ---- streams ---- */

static void add(cuda_stream *s) {
  TIDE_LOCKED(&streams_lock);
  s->id = ++streams_made;
  cuda_stream **p = &streams;
  while (*p) p = &(*p)->next;
  *p = s;
}

static void release(cuda_stream *s) {
  if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
  if (s->owned) {
    CUDA_ON(s->device);
    if (cudaStreamDestroy(s->handle) != cudaSuccess) cudaGetLastError();
  }
  tide__cuda_progress_end(atomic_load_explicit(&s->progress, memory_order_relaxed));
  free(s);
}

static tide_status make(cuda_stream **out, int device, cudaStream_t handle, bool owned) {
  cuda_stream *s = calloc(1, sizeof *s);
  if (!s) return tide__cuda_host->fail(TIDE_MEMORY, "stream_new: no host memory");
  s->handle = handle, s->device = device, s->owned = owned;
  atomic_init(&s->refs, 1);
  *out = s;
  return TIDE_OK;
}

tide_status tide__cuda_stream_new(void **out, int device, int priority) {
  cuda_stream *s = NULL;
  TIDE_TRY(make(&s, device, NULL, true));
  CUDA_ON(device);
  int least = 0, greatest = 0, rc = (int)cudaDeviceGetStreamPriorityRange(&least, &greatest);
  int clamped = priority > least ? least : priority < greatest ? greatest : priority;
  if (!rc) rc = (int)cudaStreamCreateWithPriority(&s->handle, cudaStreamNonBlocking, clamped);
  if (rc) {
    free(s);
    return tide__cuda_fail(device, "stream_new", rc);
  }
  add(s);
  *out = s;
  return TIDE_OK;
}

/* The driver reads what a handle points to, whatever it is: a number that points nowhere would end the process. */
static bool points_somewhere(uint64_t handle) {
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  if (handle == (uintptr_t)cudaStreamPerThread) return true;
  return handle % sizeof(void *) == 0 && !msync((void *)(uintptr_t)(handle / page * page), 1, MS_ASYNC);
}

/* The driver counts its streams, and the number tells one from a later one at the same address. Code 0: it may be one;
 * what cannot be asked at the moment leaves 0 for the number. */
static int look_at(uint64_t *id, int device, uint64_t handle) {
  if (!points_somewhere(handle)) return cudaErrorInvalidResourceHandle;
  unsigned long long number = 0;
  int owner = device;
  CUDA_ON(device);
  int rc = (int)cudaStreamGetId((cudaStream_t)(uintptr_t)handle, &number);
#if CUDART_VERSION >= 12080
  if (!rc) rc = (int)cudaStreamGetDevice((cudaStream_t)(uintptr_t)handle, &owner);
#endif
  if (rc) cudaGetLastError();
  *id = rc ? 0 : number;
  if (rc == cudaErrorContextIsDestroyed || rc == cudaErrorInvalidValue || owner != device)
    return cudaErrorInvalidResourceHandle;
  return rc == cudaErrorInvalidResourceHandle ? rc : 0;
}

tide_status tide__cuda_stream_wrap(void **out, int device, uint64_t handle) {
  uint64_t id = UINT64_MAX; /* of the legacy stream, of which nothing is asked: captures forbid that */
  if (handle == (uintptr_t)cudaStreamLegacy) handle = 0;
  if (handle && look_at(&id, device, handle))
    return tide__cuda_host->fail(TIDE_VALUE,
                                 "ExternalStream: not a stream of cuda:%d, got handle 0x%llx, expected 0 or the handle "
                                 "of a live stream",
                                 device, (unsigned long long)handle);
  cuda_stream *s = NULL;
  TIDE_TRY(make(&s, device, (cudaStream_t)(uintptr_t)handle, false));
  s->id = id;
  *out = s;
  return TIDE_OK;
}

void tide__cuda_stream_free(void *stream) {
  cuda_stream *s = stream;
  pthread_mutex_lock(&streams_lock);
  for (cuda_stream **p = &streams; *p; p = &(*p)->next) {
    if (*p != s) continue;
    *p = s->next;
    break;
  }
  pthread_mutex_unlock(&streams_lock);
  release(s);
}

uint64_t tide__cuda_stream_handle(void *stream) { return (uint64_t)(uintptr_t)((cuda_stream *)stream)->handle; }

uint64_t tide__cuda_stream_identity(void *stream) { return ((cuda_stream *)stream)->id; }

tide_status tide__cuda_stream_priority_range(int *least, int *greatest, int device) {
  CUDA_ON(device);
  return tide__cuda_check(device, "priority_range", (int)cudaDeviceGetStreamPriorityRange(least, greatest));
}

tide_status tide__cuda_stream_query(bool *done, void *stream) {
  CUDA_ON_STREAM(s, stream);
  CUDA_RELAXED;
  int rc = (int)tide__cuda_ask_stream((CUstream)s->handle);
  *done = rc == cudaSuccess;
  return rc == cudaErrorNotReady ? TIDE_OK : tide__cuda_check(s->device, "stream_query", rc);
}

tide_status tide__cuda_stream_sync(void *stream) {
  CUDA_ON_STREAM(s, stream);
  tide_status status = tide__cuda_stream_drain(s, "stream_synchronize");
  return status == TIDE_OK ? tide__cuda_mail(s->device) : status;
}

/* The oldest stream of the device that is younger than `after`, with a reference for the caller; NULL at the end. */
static cuda_stream *next_stream(int device, uint64_t after) {
  TIDE_LOCKED(&streams_lock);
  cuda_stream *s = streams;
  while (s && (s->device != device || s->id <= after)) s = s->next;
  if (s) atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
  return s;
}

tide_status tide__cuda_streams_drain(int device) {
  uint64_t after = 0;
  tide_status status = TIDE_OK;
  for (cuda_stream *s; status == TIDE_OK && (s = next_stream(device, after)); release(s)) {
    after = s->id;
    CUDA_ON(device);
    status = tide__cuda_stream_drain_any(s, "synchronize");
  }
  return status;
}

/* The driver has ended them: nobody may ask it about them any more. Whoever still holds one keeps its struct. */
void tide__cuda_streams_forget(int device) {
  TIDE_LOCKED(&streams_lock);
  for (cuda_stream **p = &streams; *p;)
    if ((*p)->device == device)
      *p = (*p)->next;
    else
      p = &(*p)->next;
}

tide_status tide__cuda_stream_sleep(void *stream, int64_t cycles) {
  CUDA_ON_STREAM(s, stream);
  return tide__cuda_check(s->device, "stream_sleep", tidek_sleep(s->handle, cycles));
}

/* ---- events ---- */

tide_status tide__cuda_event_new(void **out, int device, uint32_t flags) {
  cuda_event *e = calloc(1, sizeof *e);
  if (!e) return tide__cuda_host->fail(TIDE_MEMORY, "event_new: no host memory");
  unsigned driver_flags = flags & TIDE_EVENT_TIMING ? 0 : cudaEventDisableTiming;
  if (flags & TIDE_EVENT_BLOCKING) driver_flags |= cudaEventBlockingSync;
  if (flags & TIDE_EVENT_INTERPROCESS) driver_flags |= cudaEventInterprocess;
  e->device = device, e->flags = flags;
  CUDA_ON_RELAXED(device);
  int rc = (int)cudaEventCreateWithFlags(&e->handle, driver_flags);
  if (rc) {
    free(e);
    return tide__cuda_fail(device, "event_new", rc);
  }
  *out = e;
  return TIDE_OK;
}

void tide__cuda_event_free(void *event) {
  cuda_event *e = event;
  CUDA_ON_RELAXED(e->device);
  if (cudaEventDestroy(e->handle) != cudaSuccess) cudaGetLastError();
  free(e);
}

uint64_t tide__cuda_event_handle(void *event) { return (uint64_t)(uintptr_t)((cuda_event *)event)->handle; }

tide_status tide__cuda_event_record(void *event, void *stream) {
  CUDA_ON_STREAM(s, stream);
  return tide__cuda_check(s->device, "event_record", (int)cudaEventRecord(((cuda_event *)event)->handle, s->handle));
}

tide_status tide__cuda_event_wait(void *stream, void *event) {
  CUDA_ON_STREAM(s, stream);
  bool may_join = atomic_load_explicit(&tide__cuda_captures, memory_order_relaxed) != 0;
  if (may_join) pthread_mutex_lock(&tide__cuda_capture_lock);
  int rc = (int)cudaStreamWaitEvent(s->handle, ((cuda_event *)event)->handle, 0);
  if (may_join) pthread_mutex_unlock(&tide__cuda_capture_lock);
  return tide__cuda_check(s->device, "stream_wait_event", rc);
}

tide_status tide__cuda_event_query(bool *done, void *event) {
  const cuda_event *e = event;
  CUDA_ON_RELAXED(e->device);
  int rc = (int)cudaEventQuery(e->handle);
  *done = rc == cudaSuccess;
  if (rc == cudaErrorNotReady) {
    cudaGetLastError();
    return TIDE_OK;
  }
  return tide__cuda_check(e->device, "event_query", rc);
}

tide_status tide__cuda_event_sync(void *event) {
  const cuda_event *e = event;
  CUDA_ON(e->device);
  tide_status status = tide__cuda_event_drain(e, (e->flags & TIDE_EVENT_BLOCKING) != 0);
  return status == TIDE_OK ? tide__cuda_mail(e->device) : status;
}

tide_status tide__cuda_event_elapsed(double *ms, void *start, void *end) {
  const cuda_event *e = end;
  float out = 0;
  CUDA_ON(e->device);
  TIDE_TRY(tide__cuda_check(e->device, "event_elapsed",
                            (int)cudaEventElapsedTime(&out, ((cuda_event *)start)->handle, e->handle)));
  *ms = (double)out;
  return TIDE_OK;
}
