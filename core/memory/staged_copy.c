/* staged_copy.c: copies from pageable memory, which return before the bytes are on the device.
 *
 * Such a copy returns when the host may change its memory. The last bytes may still be queued on the copy's stream. To
 * hide that, a storage remembers this stream. The first use on another stream makes that stream wait, for this copy and
 * those before it. Each stream that copies so has one event behind its last copy. With a single stream the event is not
 * needed: it is recorded when a second stream is made, or at the use. The host waits before an address is given away.
 *
 * A stream that is captured does not wait, because the event is not of its capture. Instead each replay waits for all
 * staged copies.
 *
 * Invariants: a tide__staged_copy lives as long as storages refer to it, and holds its stream. Copies are numbered, and
 * those up to `done` are on the device. The lock is above the locks of stream lists, events and observers. */
#include "memory.h"

#include <stdlib.h>

struct tide__staged_copy {
  struct tide__staged_copy *next; /* of all */
  tide_stream *stream;            /* retained */
  void *event;                    /* NULL: none is recorded yet */
  uint32_t queued, recorded, done;
  int refs;
  uint32_t epoch;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tide__staged_copy *all;

static const tide_backend *backend_of(const tide__staged_copy *l) {
  if (l->epoch != tide__epoch_now() || tide__device_lost(NULL, l->stream->device)) return NULL;
  return tide__backend_peek(l->stream->device);
}

/* ---- with the lock held ---- */

static tide__staged_copy *find(tide_stream *stream) {
  tide__staged_copy *l = all;
  while (l && l->stream != stream) l = l->next;
  return l;
}

static tide__staged_copy *staged_copy_of(tide_stream *stream) {
  tide__staged_copy *l = find(stream);
  if (l || !(l = calloc(1, sizeof *l))) return l;
  tide_stream_retain(stream);
  *l = (tide__staged_copy){.next = all, .stream = stream, .epoch = tide__epoch_now()};
  return all = l;
}

/* The one to be freed, or NULL. */
static tide__staged_copy *unref(tide__staged_copy *l) {
  if (!l || --l->refs > 0) return NULL;
  tide__staged_copy **at = &all;
  while (*at != l) at = &(*at)->next;
  *at = l->next;
  return l;
}

static bool reached(const tide__staged_copy *l, uint32_t number) { return (int32_t)(l->done - number) >= 0; }
static bool has_event(const tide__staged_copy *l, uint32_t number) {
  return l->event && (int32_t)(l->recorded - number) >= 0;
}

/* An event behind all that has been copied so far; where there can be none, that is waited for. Nothing is recorded in
 * a capture: it cannot begin while copies are without their event and other streams exist. */
static void record(tide__staged_copy *l) {
  const tide_backend *b = backend_of(l);
  bool recorded = false;
  if (b && !l->event && tide__event_take(&l->event, b, l->stream->device, 0) != TIDE_OK) l->event = NULL;
  tide__capture_lock();
  bool captured = l->stream->capture;
  if (b && l->event && !captured) recorded = b->event_record(l->event, l->stream->impl) == TIDE_OK;
  tide__capture_unlock();
  if (recorded) l->recorded = l->queued;
  if (recorded && tide__sync_watched()) TIDE_OBSERVE(recorded, l->event, l->stream);
  if (!recorded && !captured && (!b || b->stream_sync(l->stream->impl) == TIDE_OK)) l->done = l->queued;
}

/* Is the copy there, so that nobody need wait any more? Else the stream waits. */
static bool wait_for(tide__staged_copy *l, uint32_t number, tide_stream *stream) {
  const tide_backend *b = backend_of(l);
  bool passed = !b || reached(l, number), watched = tide__sync_watched();
  if (passed || stream->capture) return passed;
  if (!has_event(l, number)) record(l);
  if (reached(l, number)) return true;
  if (!has_event(l, number)) return false;
  if (!watched && b->event_query(&passed, l->event) == TIDE_OK && passed) {
    l->done = l->recorded;
    return true;
  }
  if (b->event_wait(stream->impl, l->event) != TIDE_OK) b->event_sync(l->event);
  tide__order_waited(stream, NULL, 0);
  if (watched) TIDE_OBSERVE(waits_mark, stream, l->event);
  return false;
}

/* ---- without ---- */

static void drop(tide__staged_copy *l) {
  if (!l) return;
  if (l->event && tide__sync_watched()) TIDE_OBSERVE(mark_gone, l->event);
  if (l->event) tide__event_give(l->event, l->stream->device, 0);
  tide_stream_release(l->stream);
  free(l);
}

void tide__staged_copy_note(tide_storage *s, tide_stream *stream) {
  pthread_mutex_lock(&lock);
  tide__staged_copy *l = staged_copy_of(stream), *old = NULL;
  if (l && s->staged_copy != l) {
    l->refs++;
    old = unref(s->staged_copy);
    s->staged_copy = l;
  }
  if (l) {
    s->landed = ++l->queued;
    if (tide__sync_watched() || atomic_load_explicit(&tide__streams_made, memory_order_relaxed) > 1) record(l);
  }
  pthread_mutex_unlock(&lock);
  drop(old);
  if (l) return;
  const tide_backend *b = tide__backend_peek(stream->device);
  if (b) b->stream_sync(stream->impl); /* for want of memory */
}

void tide__staged_copy_before(tide_storage *s, tide_stream *stream) {
  tide__staged_copy *gone = NULL;
  pthread_mutex_lock(&lock);
  tide__staged_copy *l = s->staged_copy;
  if (l && l->stream != stream && wait_for(l, s->landed, stream)) {
    s->staged_copy = NULL;
    gone = unref(l);
  }
  pthread_mutex_unlock(&lock);
  drop(gone);
}

void tide__staged_copy_before_all(tide_stream *stream) {
  TIDE_LOCKED(&lock);
  for (tide__staged_copy *l = all; l; l = l->next)
    if (l->stream != stream) wait_for(l, l->queued, stream);
}

void tide__staged_copy_end(tide_storage *s) {
  pthread_mutex_lock(&lock);
  tide__staged_copy *gone = unref(s->staged_copy);
  s->staged_copy = NULL;
  pthread_mutex_unlock(&lock);
  drop(gone);
}

/* While the host waits, other threads may do so too, or copy to the storage again. */
void tide__staged_copy_settle(tide_storage *s) {
  pthread_mutex_lock(&lock);
  tide__staged_copy *l = s->staged_copy;
  uint32_t number = s->landed;
  const tide_backend *b = l ? backend_of(l) : NULL;
  if (b && !reached(l, number) && !has_event(l, number)) record(l);
  bool there = !b || reached(l, number);
  void *event = !there && has_event(l, number) ? l->event : NULL;
  if (l) l->refs++;
  pthread_mutex_unlock(&lock);
  if (event) there = b->event_sync(event) == TIDE_OK;
  pthread_mutex_lock(&lock);
  if (there && l && s->staged_copy == l && s->landed == number) {
    s->staged_copy = NULL;
    unref(l);
  }
  tide__staged_copy *gone = unref(l);
  pthread_mutex_unlock(&lock);
  drop(gone);
}

void tide__staged_copy_many(void) {
  TIDE_LOCKED(&lock);
  for (tide__staged_copy *l = all; l; l = l->next)
    if (l->queued != l->recorded && l->queued != l->done) record(l);
}

/* The devices have been waited for. */
void tide__staged_copy_shutdown(void) {
  pthread_mutex_lock(&lock);
  for (tide__staged_copy *l = all; l; l = l->next) {
    if (l->event) tide__event_give(l->event, l->stream->device, 0);
    l->event = NULL, l->done = l->queued;
  }
  pthread_mutex_unlock(&lock);
  atomic_store_explicit(&tide__streams_made, 0, memory_order_relaxed);
}
