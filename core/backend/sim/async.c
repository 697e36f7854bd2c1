/* async.c: the stream-ordered allocator of simulated devices.
 *
 * What is freed waits with an event behind the work of its stream. It serves that stream again at once, which the order
 * of the stream makes safe, if the size is the same; it goes back to the device when its event has passed and someone
 * asks for memory or trims. So a program that frees too early meets its memory in other hands, as on a real device.
 *
 * Invariant: a piece is in the list from its allocation until the device has it back; its event is set exactly while it
 * is free. */
#include <stdlib.h>

#include "sim.h"

#include "base/base.h"

typedef struct piece {
  struct piece *next;
  void *ptr;
  size_t bytes;
  int device;
  sim_stream *stream; /* compared, never followed */
  void *freed;        /* the event, or NULL */
} piece;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static piece *pieces;

static void take_out(piece **at) {
  piece *p = *at;
  *at = p->next;
  tide__sim_event_free(p->freed);
  tide__sim_mem_free(p->device, p->ptr, p->bytes);
  free(p);
}

/* The lock is held. Gives back what has passed, or, if `wait`, all that is free. */
static tide_status collect(int device, bool wait) {
  for (piece **at = &pieces; *at;) {
    piece *p = *at;
    bool passed = false;
    if (p->freed && p->device == device) {
      if (wait) TIDE_TRY(tide__sim_event_sync(p->freed));
      TIDE_TRY(tide__sim_event_query(&passed, p->freed));
    }
    if (passed)
      take_out(at);
    else
      at = &p->next;
  }
  return TIDE_OK;
}

static piece *find(const sim_stream *stream, size_t bytes) {
  piece *p = pieces;
  while (p && !(p->freed && p->stream == stream && p->bytes == bytes)) p = p->next;
  return p;
}

static tide_status make(void **out, sim_stream *stream, size_t bytes) {
  int device = stream->device;
  TIDE_TRY(collect(device, false));
  piece *p = malloc(sizeof *p);
  if (!p) return tide__sim.host->fail(TIDE_MEMORY, "alloc: no host memory");
  *p = (piece){pieces, NULL, bytes, device, stream, NULL};
  tide_status status = tide__sim_mem_alloc(&p->ptr, device, bytes);
  if (status == TIDE_MEMORY && collect(device, true) == TIDE_OK)
    p->next = pieces, status = tide__sim_mem_alloc(&p->ptr, device, bytes);
  if (status != TIDE_OK) {
    free(p);
    return status;
  }
  pieces = p;
  *out = p->ptr;
  return TIDE_OK;
}

tide_status tide__sim_mem_alloc_async(void **out, void *stream, size_t bytes) {
  tide_status status = TIDE_OK;
  TIDE_LOCKED(&lock);
  piece *p = find(stream, bytes);
  if (p) {
    tide__sim_event_free(p->freed);
    p->freed = NULL;
    *out = p->ptr;
  } else {
    status = make(out, stream, bytes);
  }
  return status;
}

tide_status tide__sim_mem_free_async(void *stream, void *ptr) {
  sim_stream *s = stream;
  void *event = NULL;
  TIDE_TRY(tide__sim_event_new(&event, s->device, 0));
  tide_status status = tide__sim_event_record(event, stream);
  pthread_mutex_lock(&lock);
  piece *p = pieces;
  while (p && p->ptr != ptr) p = p->next;
  if (p) p->freed = event, p->stream = stream;
  pthread_mutex_unlock(&lock);
  if (!p) tide__sim_event_free(event);
  return status;
}

tide_status tide__sim_mem_trim_async(int device) {
  TIDE_LOCKED(&lock);
  return collect(device, true);
}

tide_status tide__sim_mem_reserved_async(size_t *out, int device) {
  size_t bytes = 0;
  TIDE_LOCKED(&lock);
  for (const piece *p = pieces; p; p = p->next) bytes += p->device == device ? p->bytes : 0;
  *out = bytes;
  return TIDE_OK;
}

/* Events and memory go with the devices. */
void tide__sim_async_close(void) {
  while (pieces) {
    piece *p = pieces;
    pieces = p->next;
    free(p);
  }
}
