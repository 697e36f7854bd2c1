/* event.c: events, and the cache of the driver's events.
 *
 * An event is bound to a device by its first record, and gets a driver's event only then. Making one costs a driver
 * call and some microseconds, so ended ones are kept by device and flags and serve again: recording overwrites what
 * an event held before, and a wait that was queued on it keeps what it was queued for. Because releasing only hands the
 * driver's event to the cache, a finaliser may release events. One that other processes may have opened never serves
 * again. Nor does one that was recorded in a capture: the driver ties it to that, and another thread that records it
 * anew meanwhile is not what a driver expects. It is freed when nobody captures.
 *
 * Invariant: a driver's event is either in one tide_event, in one use of deferred_free.c, in one point, or in the
 * cache. */

#include "capture_state.h"
#include "base/own.h"
#include "observe.h"
#include "order.h"

enum { ALL_FLAGS = TIDE_EVENT_TIMING | TIDE_EVENT_BLOCKING | TIDE_EVENT_INTERPROCESS };
enum { CAPTURED = ALL_FLAGS + 1 }; /* in the cache: what was recorded in a capture, with any flags */

struct tide_event {
  _Atomic int64_t refs;
  uint32_t flags, epoch;
  int device; /* TIDE_CPU before the first record */
  void *impl;
  _Atomic bool passed; /* the last record has been seen to be reached: the driver need not be asked again */
  uint64_t captured;   /* the capture of its last record; 0: outside */
  uint64_t stream;     /* where it was recorded last, by id, and behind which launch */
  uint32_t number;
  tide_quota *quota; /* it counts there; or NULL */
};

/* ---- the cache ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  void **item;
  int count, room;
} cache[TIDE_MAX_DEVICES][CAPTURED + 1];
static _Atomic bool any_captured;

static void free_all(const tide_backend *backend, int device, uint32_t flags) {
  void *event = NULL;
  do {
    if (event) backend->event_free(event);
    pthread_mutex_lock(&lock);
    event = cache[device][flags].count > 0 ? cache[device][flags].item[--cache[device][flags].count] : NULL;
    pthread_mutex_unlock(&lock);
  } while (event);
}

tide_status tide__event_take(void **out, const tide_backend *backend, int device, uint32_t flags) {
  void *event = NULL;
  /* Ended ones that other processes may know still: the next one that is asked for lets them go. */
  if (flags & TIDE_EVENT_INTERPROCESS) free_all(backend, device, flags);
  pthread_mutex_lock(&lock);
  if (cache[device][flags].count > 0) event = cache[device][flags].item[--cache[device][flags].count];
  pthread_mutex_unlock(&lock);
  if (!event) return backend->event_new(out, device, flags);
  *out = event;
  return TIDE_OK;
}

void tide__event_reap(void) {
  if (!atomic_load_explicit(&any_captured, memory_order_relaxed)) return;
  tide__capture_lock(); /* no capture begins meanwhile */
  if (atomic_load_explicit(&tide__captures, memory_order_relaxed) == 0) {
    atomic_store_explicit(&any_captured, false, memory_order_relaxed);
    for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
      const tide_backend *b = tide__backend_peek(d);
      if (b) free_all(b, d, CAPTURED);
    }
  }
  tide__capture_unlock();
}

void tide__event_give(void *event, int device, uint32_t flags) {
  pthread_mutex_lock(&lock);
  __typeof__(cache[0][0]) *c = &cache[device][flags];
  bool room = c->count < c->room || tide__grow(&c->item, &c->room, c->count, sizeof *c->item);
  if (room) c->item[c->count++] = event;
  if (flags == CAPTURED) atomic_store_explicit(&any_captured, true, memory_order_relaxed);
  pthread_mutex_unlock(&lock);
  const tide_backend *b = room ? NULL : tide__backend_peek(device);
  if (b) b->event_free(event);
}

void tide__event_shutdown(void) {
  TIDE_LOCKED(&lock);
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    const tide_backend *b = tide__backend_peek(d);
    for (int f = 0; f <= CAPTURED; f++) {
      for (int i = 0; b && i < cache[d][f].count; i++) b->event_free(cache[d][f].item[i]);
      free(cache[d][f].item);
      cache[d][f].item = NULL, cache[d][f].count = cache[d][f].room = 0;
    }
  }
}

/* ---- events ---- */

bool tide__event_shared(const tide_event *event) { return event->flags & TIDE_EVENT_INTERPROCESS; }

static tide_status check(const tide_event *event, const char *what) {
  if (!event) return tide__fail(TIDE_ARGUMENT, "%s: no event, got NULL, expected an event", what);
  if (event->epoch != tide__epoch_now())
    return tide__fail(TIDE_STATE, "%s: the event belongs to a runtime that has ended or was reset", what);
  return TIDE_OK;
}

tide_status tide_event_new(tide_event **out, uint32_t flags) {
  TIDE_GIVEN("event_new", out);
  if (flags & ~(uint32_t)ALL_FLAGS)
    return tide__fail(TIDE_ARGUMENT, "event_new: unknown flags, got 0x%x, expected bits of 0x%x", flags, ALL_FLAGS);
  if ((flags & TIDE_EVENT_INTERPROCESS) && (flags & TIDE_EVENT_TIMING))
    return tide__fail(TIDE_VALUE, "event_new: an event shared between processes has no timing, got both, expected one");
  if (!tide__running()) return tide__fail(TIDE_STATE, "event_new: tide is not started, expected tide_init first");
  tide_quota *quota;
  TIDE_TRY(tide__quota_take_object(&quota, TIDE__EVENT_COST));
  tide_event *event = malloc(sizeof *event);
  if (!event) {
    tide__quota_give_object(quota, TIDE__EVENT_COST);
    return tide__fail(TIDE_MEMORY, "event_new: no host memory");
  }
  *event = (tide_event){.refs = 1, .quota = quota, .flags = flags, .epoch = tide__epoch_now(), .device = TIDE_CPU};
  *out = event;
  return TIDE_OK;
}

void tide_event_retain(tide_event *event) {
  if (!event) return;
  tide__ref_take(&event->refs);
}

void tide_event_release(tide_event *event) {
  if (!event || !tide__ref_drop(&event->refs)) return;
  if (tide__sync_watched()) TIDE_OBSERVE(mark_gone, event);
  if (event->impl && event->epoch == tide__epoch_now())
    tide__event_give(event->impl, event->device, event->captured ? CAPTURED : event->flags);
  tide__quota_give_object(event->quota, TIDE__EVENT_COST);
  free(event);
}

tide_status tide_event_record(tide_event *event, tide_stream *stream) {
  TIDE_TRY(check(event, "event_record"));
  TIDE_TRY(tide__stream_check(stream, "event_record"));
  if (event->impl && event->device != stream->device)
    return tide__fail(TIDE_DEVICE,
                      "event_record: the event was first recorded on another device, got a stream of %s, expected %s",
                      tide__device_text(stream->device), tide__device_text(event->device));
  const tide_backend *b;
  if (tide__sync_watched()) TIDE_TRY(tide__capture_legacy(stream, "event_record"));
  TIDE_TRY(tide__backend(&b, stream->device));
  void *impl = event->impl;
  if (!impl) TIDE_TRY(tide__event_take(&impl, b, stream->device, event->flags));
  atomic_store_explicit(&event->passed, false, memory_order_relaxed);
  tide_status status = b->event_record(impl, stream->impl);
  if (status == TIDE_OK) {
    event->impl = impl, event->device = stream->device, event->captured = tide__capture_id(stream);
    event->stream = stream->id, event->number = tide__progress_now(stream);
    if (tide__sync_watched()) TIDE_OBSERVE(recorded, event, stream);
  } else if (!event->impl)
    tide__event_give(impl, stream->device, event->flags);
  return status;
}

tide_status tide_event_query(bool *done, tide_event *event) {
  TIDE_GIVEN("event_query", done);
  TIDE_TRY(check(event, "event_query"));
  TIDE_TRY(tide__capture_event(event->captured, "event_query"));
  if (!event->impl) {
    *done = true;
    return TIDE_OK;
  }
  const tide_backend *b;
  TIDE_TRY(tide__backend(&b, event->device)); /* fails if the device is lost */
  *done = atomic_load_explicit(&event->passed, memory_order_relaxed);
  if (*done) {
    if (tide__sync_watched()) TIDE_OBSERVE(host_event, event);
    return TIDE_OK;
  }
  TIDE_TRY(b->event_query(done, event->impl));
  if (!*done) return tide__overdue(event->device);
  /* One that other processes know may be recorded there at any moment. */
  if (!(event->flags & TIDE_EVENT_INTERPROCESS)) atomic_store_explicit(&event->passed, true, memory_order_relaxed);
  if (tide__sync_watched()) tide__progress_reached_id(event->stream, event->number);
  if (tide__sync_watched()) TIDE_OBSERVE(host_event, event);
  return TIDE_OK;
}

tide_status tide_event_peek(bool *done, const tide_event *event) {
  const tide_backend *b;
  TIDE_GIVEN("event_peek", done);
  TIDE_TRY(check(event, "event_peek"));
  TIDE_TRY(tide__capture_event(event->captured, "event_peek"));
  TIDE_TRY(tide__backend(&b, event->device));
  *done = true;
  return event->impl ? b->event_query(done, event->impl) : TIDE_OK;
}

tide_status tide_event_synchronize(tide_event *event) {
  TIDE_TRY(check(event, "event_synchronize"));
  if (!event->impl) return TIDE_OK;
  const tide_backend *b;
  TIDE_TRY(tide__sync_asked("event_synchronize"));
  TIDE_TRY(tide__capture_event(event->captured, "event_synchronize"));
  TIDE_TRY(tide__backend(&b, event->device));
  TIDE_TRY(b->event_sync(event->impl));
  tide__progress_reached_id(event->stream, event->number);
  if (tide__sync_watched()) TIDE_OBSERVE(host_event, event);
  tide__after_wait();
  return TIDE_OK;
}

static tide_status check_timed(tide_event *event, const char *name) {
  TIDE_TRY(check(event, "event_elapsed"));
  if (!(event->flags & TIDE_EVENT_TIMING))
    return tide__fail(TIDE_VALUE, "event_elapsed: the %s event keeps no time, expected one made with enable_timing",
                      name);
  if (!event->impl) return tide__fail(TIDE_VALUE, "event_elapsed: the %s event was never recorded", name);
  TIDE_TRY(tide__capture_event(event->captured, "event_elapsed"));
  bool done;
  TIDE_TRY(tide_event_query(&done, event));
  if (!done)
    return tide__fail(TIDE_STATE, "event_elapsed: the %s event is not complete, expected synchronize() on it first",
                      name);
  return TIDE_OK;
}

tide_status tide_event_elapsed(double *ms, tide_event *start, tide_event *end) {
  TIDE_TRY(check_timed(start, "start"));
  TIDE_TRY(check_timed(end, "end"));
  if (start->device != end->device)
    return tide__fail(TIDE_VALUE, "event_elapsed: the events are of two devices, got %s and %s, expected one",
                      tide__device_text(start->device), tide__device_text(end->device));
  const tide_backend *b;
  TIDE_TRY(tide__backend(&b, start->device));
  return b->event_elapsed(ms, start->impl, end->impl);
}

int tide_event_device(const tide_event *event) { return event ? event->device : TIDE_CPU; }

uint64_t tide_event_handle(const tide_event *event) {
  if (!event) return 0;
  const tide_backend *b = event->epoch == tide__epoch_now() ? tide__backend_peek(event->device) : NULL;
  return b && event->impl ? b->event_handle(event->impl) : 0;
}

/* ---- events of other processes ---- */

tide_status tide_event_ipc_handle(tide_ipc_handle *out, tide_event *event) {
  TIDE_TRY(check(event, "ipc_handle"));
  if (!(event->flags & TIDE_EVENT_INTERPROCESS))
    return tide__fail(TIDE_VALUE,
                      "ipc_handle: the event is for this process alone, expected one made with interprocess");
  const tide_backend *b;
  int device = event->impl ? event->device : TIDE_CURRENT;
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, "ipc_handle"));
  TIDE_TRY(tide__backend(&b, device));
  if (!b->ipc_event_export)
    return tide__fail(TIDE_SUPPORT, "ipc_handle: %s shares no events", tide__device_text(device));
  if (!event->impl) {
    TIDE_TRY(tide__event_take(&event->impl, b, device, event->flags));
    event->device = device;
  }
  return b->ipc_event_export(out, event->impl);
}

tide_status tide_event_from_ipc(tide_event **out, int device, const tide_ipc_handle *handle) {
  TIDE_GIVEN("event_from_ipc", out);
  TIDE_GIVEN("event_from_ipc", handle);
  const tide_backend *b;
  tide_event *event;
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, "from_ipc_handle"));
  TIDE_TRY(tide__backend(&b, device));
  if (!b->ipc_event_open)
    return tide__fail(TIDE_SUPPORT, "from_ipc_handle: %s shares no events", tide__device_text(device));
  TIDE_TRY(tide_event_new(&event, TIDE_EVENT_INTERPROCESS));
  tide_status status = b->ipc_event_open(&event->impl, device, handle);
  if (status != TIDE_OK) {
    event->impl = NULL;
    tide_event_release(event);
    return status;
  }
  event->device = device;
  *out = event;
  return TIDE_OK;
}

/* ---- streams that wait ---- */

tide_status tide_stream_wait_event(tide_stream *stream, tide_event *event) {
  TIDE_TRY(tide__stream_check(stream, "stream_wait_event"));
  TIDE_TRY(check(event, "stream_wait_event"));
  if (!event->impl) return TIDE_OK;
  const tide_backend *b;
  TIDE_TRY(tide__backend(&b, event->device)); /* a lost device would never let the stream go on */
  TIDE_TRY(tide__backend(&b, stream->device));
  if (event->captured || stream->capture) TIDE_TRY(tide__capture_wait(stream, event->captured, "stream_wait_event"));
  TIDE_TRY(b->event_wait(stream->impl, event->impl));
  tide__order_waited(stream, NULL, 0);
  if (!tide__sync_watched()) return TIDE_OK;
  tide__progress_behind(stream, event->stream, event->number);
  TIDE_OBSERVE(waits_event, stream, event);
  return TIDE_OK;
}

tide_status tide__point_set(tide__point *out, tide_stream *stream, const char *what) {
  const tide_backend *b;
  void *event;
  if (tide__sync_watched()) TIDE_TRY(tide__capture_legacy(stream, what));
  TIDE_TRY(tide__backend(&b, stream->device));
  TIDE_TRY(tide__event_take(&event, b, stream->device, 0));
  uint64_t captured = tide__capture_id(stream), then = tide__order_now(stream);
  tide_status status = b->event_record(event, stream->impl);
  *out = (tide__point){event, captured, stream->id, stream->device, tide__progress_now(stream), stream, then};
  if (status != TIDE_OK)
    tide__point_drop(out);
  else if (tide__sync_watched())
    TIDE_OBSERVE(recorded, event, stream);
  return status;
}

tide_status tide__point_wait(tide_stream *stream, const tide__point *point, const char *what) {
  const tide_backend *b;
  if (stream->id == point->stream) return TIDE_OK;
  if (tide__sync_watched()) {
    TIDE_TRY(tide__capture_legacy(stream, what));
    TIDE_TRY(tide__capture_wait(stream, point->captured, what));
    tide__progress_behind(stream, point->stream, point->number);
  }
  TIDE_TRY(tide__backend(&b, stream->device));
  TIDE_TRY(b->event_wait(stream->impl, point->event));
  tide__order_waited(stream, point->place, point->then);
  if (tide__sync_watched()) TIDE_OBSERVE(waits_mark, stream, point->event);
  return TIDE_OK;
}

void tide__point_drop(const tide__point *point) {
  if (tide__sync_watched()) TIDE_OBSERVE(mark_gone, point->event);
  tide__event_give(point->event, point->device, point->captured ? CAPTURED : 0);
}

tide_status tide_stream_wait_stream(tide_stream *stream, tide_stream *other) {
  static const char what[] = "stream_wait_stream";
  TIDE_TRY(tide__stream_check(stream, what));
  TIDE_TRY(tide__stream_check(other, what));
  if (stream == other) return TIDE_OK;
  const tide_backend *b;
  tide__point point;
  if (tide__sync_watched()) { /* refused before anything is recorded */
    TIDE_TRY(tide__capture_legacy(stream, what));
    TIDE_TRY(tide__capture_legacy(other, what));
    TIDE_TRY(tide__capture_wait(stream, tide__capture_id(other), what));
  }
  TIDE_TRY(tide__backend(&b, stream->device));
  TIDE_TRY(tide__point_set(&point, other, what));
  tide_status status = tide__point_wait(stream, &point, what);
  tide__point_drop(&point);
  return status;
}
