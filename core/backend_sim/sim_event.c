/* sim_event.c: events of simulated devices.
 *
 * A record is an operation of its stream that, when it is reached, sets `passed` to its own number; a wait is an
 * operation that is not ready before that. Both take the event's state at the call: recording again changes nothing for
 * those who wait already. In dry mode nothing is queued: a record notes the stream's clock, a wait moves another
 * stream's clock up to it.
 *
 * Invariant: passed <= recorded; the event lives while its owner or a queued operation holds it. */
#include <stdlib.h>

#include "sim.h"

#include "core.h"

tide_status tide__sim_event_new(void **out, int device, uint32_t flags) {
  TIDE_TRY(tide__sim_enter("Event"));
  sim_event *event = calloc(1, sizeof *event);
  if (!event) return tide__sim.host->fail(TIDE_MEMORY, "Event: no host memory");
  event->device = device, event->flags = flags, event->refs = 1;
  pthread_mutex_lock(&tide__sim.lock);
  event->next = tide__sim.events;
  if (event->next) event->next->prev = event;
  tide__sim.events = event;
  pthread_mutex_unlock(&tide__sim.lock);
  *out = event;
  return TIDE_OK;
}

void tide__sim_event_unref(sim_event *event) {
  if (--event->refs) return;
  if (event->prev)
    event->prev->next = event->next;
  else
    tide__sim.events = event->next;
  if (event->next) event->next->prev = event->prev;
  free(event);
}

void tide__sim_event_free(void *impl) {
  if (!impl || atomic_load(&tide__sim_forked)) return;
  pthread_mutex_lock(&tide__sim.lock);
  tide__sim_event_unref(impl);
  pthread_mutex_unlock(&tide__sim.lock);
}

void tide__sim_event_drop(void) {
  for (sim_event *e = tide__sim.events, *next; e; e = next) {
    next = e->next;
    free(e);
  }
  tide__sim.events = NULL;
}

uint64_t tide__sim_event_handle(void *event) { return (uintptr_t)event; }

/* Queues an operation that concerns the event as it is now. */
static tide_status queue(sim_kind kind, sim_event *event, sim_stream *stream, const char *what) {
  sim_op *op = tide__sim_op_new(kind);
  if (!op) return TIDE_MEMORY;
  pthread_mutex_lock(&tide__sim.lock);
  op->event = event;
  event->refs++;
  if (kind == SIM_RECORD) event->recorded++;
  op->generation = event->recorded;
  if (atomic_load(&tide__sim_dry)) {
    if (kind == SIM_RECORD)
      event->passed = event->recorded, event->time = stream->clock;
    else if (event->time > stream->clock)
      stream->clock = event->time;
  }
  pthread_mutex_unlock(&tide__sim.lock);
  return tide__sim_submit(stream, op, 0, what);
}

tide_status tide__sim_event_record(void *impl, void *stream) {
  TIDE_TRY(tide__sim_enter("record"));
  sim_event *event = impl;
  sim_stream *s = stream;
  if (event->device != s->device)
    return tide__sim.host->fail(TIDE_DEVICE,
                                "record: stream of another device, got cuda:%d, expected the event's, cuda:%d",
                                s->device, event->device);
  return queue(SIM_RECORD, event, s, "record");
}

tide_status tide__sim_event_wait(void *stream, void *event) {
  TIDE_TRY(tide__sim_enter("wait_event"));
  return queue(SIM_WAIT, event, stream, "wait_event");
}

/* The device is lost: what it should still do is never done, so nobody may wait for it. */
static bool lost(int device) { return tide__sim.device[device].failure.set && tide__sim.device[device].failure.sticky; }

tide_status tide__sim_event_query(bool *done, void *impl) {
  TIDE_TRY(tide__sim_enter("query"));
  const sim_event *event = impl;
  pthread_mutex_lock(&tide__sim.lock);
  if (lost(event->device)) return tide__sim_leave(event->device, "query");
  *done = event->passed == event->recorded;
  pthread_mutex_unlock(&tide__sim.lock);
  return TIDE_OK;
}

typedef struct target {
  const sim_event *event;
  uint64_t generation;
} target;

static bool target_passed(const void *arg) {
  const target *t = arg;
  return t->event->passed >= t->generation || lost(t->event->device);
}

tide_status tide__sim_event_sync(void *impl) {
  TIDE_TRY(tide__sim_enter("synchronize"));
  sim_event *event = impl;
  pthread_mutex_lock(&tide__sim.lock);
  target t = {event, event->recorded};
  tide_status status = tide__sim_wait(target_passed, &t, "synchronize");
  if (status == TIDE_OK) return tide__sim_leave(event->device, "synchronize");
  pthread_mutex_unlock(&tide__sim.lock);
  return status;
}

tide_status tide__sim_event_elapsed(double *ms, void *start, void *end) {
  TIDE_TRY(tide__sim_enter("elapsed_time"));
  const sim_event *a = start, *b = end;
  pthread_mutex_lock(&tide__sim.lock);
  bool timed = a->flags & b->flags & TIDE_EVENT_TIMING;
  bool recorded = a->recorded && b->recorded;
  bool done = a->passed == a->recorded && b->passed == b->recorded;
  double seconds = b->time - a->time;
  pthread_mutex_unlock(&tide__sim.lock);
  const tide_backend_host *host = tide__sim.host;
  if (!timed) return host->fail(TIDE_VALUE, "elapsed_time: event without timing, expected both with enable_timing");
  if (!recorded) return host->fail(TIDE_VALUE, "elapsed_time: event was never recorded, expected both recorded");
  if (!done) return host->fail(TIDE_STATE, "elapsed_time: event is not complete, expected both complete");
  *ms = seconds * 1e3;
  return TIDE_OK;
}
