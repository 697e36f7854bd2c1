/* event.c: events of simulated devices, and how far a stream has come.
 *
 * Each record of an event is a mark of its own. A record is an operation that, when it is reached, says so in its mark;
 * a wait is an operation that is not ready before its mark is reached. The wait takes the event's mark at the call, so
 * recording again, on whatever stream, changes nothing for those who wait already. In dry mode nothing is queued: a
 * record notes the stream's clock, a wait moves another stream's clock up to it.
 *
 * Invariant: a mark lives while its event, a queued operation or a waiting host holds it. */
#include <stdlib.h>

#include "sim.h"

#include "base/base.h"

tide_status tide__sim_event_new(void **out, int device, uint32_t flags) {
  TIDE_TRY(tide__sim_enter("Event"));
  sim_event *event = calloc(1, sizeof *event);
  if (!event) return tide__sim.host->fail(TIDE_MEMORY, "Event: no host memory");
  event->device = device, event->flags = flags;
  if (flags & TIDE_EVENT_INTERPROCESS && !(event->page = tide__sim_page_new())) {
    free(event);
    return tide__sim.host->fail(TIDE_MEMORY, "Event: no host memory to share");
  }
  TIDE_LOCKED(&tide__sim.lock);
  event->next = tide__sim.events;
  if (event->next) event->next->prev = event;
  tide__sim.events = event;
  *out = event;
  return TIDE_OK;
}

void tide__sim_event_free(void *impl) {
  sim_event *event = impl;
  if (!event || atomic_load(&tide__sim_forked)) return;
  TIDE_LOCKED(&tide__sim.lock);
  if (event->prev)
    event->prev->next = event->next;
  else
    tide__sim.events = event->next;
  if (event->next) event->next->prev = event->prev;
  tide__sim_mark_unref(event->mark);
  tide__sim_page_unref(event->page);
  free(event);
}

void tide__sim_event_drop(void) {
  for (sim_event *e = tide__sim.events, *next; e; e = next) {
    next = e->next;
    tide__sim_mark_unref(e->mark);
    tide__sim_page_unref(e->page);
    free(e);
  }
  tide__sim.events = NULL;
}

uint64_t tide__sim_event_handle(void *event) { return (uintptr_t)event; }

tide_status tide__sim_mark_queue(sim_kind kind, sim_mark *mark, sim_stream *stream, const char *what) {
  sim_op *op = tide__sim_op_new(kind);
  if (op) op->mark = mark;
  pthread_mutex_lock(&tide__sim.lock);
  if (!op)
    tide__sim_mark_unref(mark);
  else if (kind == SIM_WAIT && atomic_load(&tide__sim_dry) && mark->time > stream->clock)
    stream->clock = mark->time;
  pthread_mutex_unlock(&tide__sim.lock);
  return op ? tide__sim_submit(stream, op, 0, what) : TIDE_MEMORY;
}

tide_status tide__sim_event_record(void *impl, void *stream) {
  TIDE_TRY(tide__sim_enter("record"));
  sim_event *event = impl;
  sim_stream *s = stream;
  const tide_backend_host *host = tide__sim.host;
  if (event->device != s->device)
    return host->fail(TIDE_DEVICE, "record: stream of another device, got cuda:%d, expected the event's, cuda:%d",
                      s->device, event->device);
  sim_mark *mark = calloc(1, sizeof *mark);
  if (!mark) return host->fail(TIDE_MEMORY, "record: no host memory");
  mark->refs = 2; /* the event's and the operation's */
  pthread_mutex_lock(&tide__sim.lock);
  if (atomic_load(&tide__sim_dry)) mark->time = s->clock;
  if (event->page) tide__sim_page_record(mark, event->page);
  sim_mark *before = event->mark;
  event->mark = mark;
  pthread_mutex_unlock(&tide__sim.lock);
  tide_status status = tide__sim_mark_queue(SIM_RECORD, mark, s, "record");
  TIDE_LOCKED(&tide__sim.lock);
  if (status == TIDE_MEMORY && event->mark == mark) event->mark = before, before = mark; /* as it was */
  tide__sim_mark_unref(before);
  return status;
}

/* With the lock held: another process may have recorded a shared event since; then that is its last record. */
static void refresh(sim_event *event) {
  uint64_t ticket = event->page ? tide__sim_page_ticket(event->page) : 0;
  if (!ticket || (event->mark && event->mark->ticket == ticket)) return;
  sim_mark *mark = calloc(1, sizeof *mark);
  if (!mark) return;
  *mark = (sim_mark){.refs = 1, .page = tide__sim_page_ref(event->page), .ticket = ticket};
  tide__sim_mark_unref(event->mark);
  event->mark = mark;
}

/* The event's last mark with a reference of the caller's, or NULL. */
static sim_mark *take_mark(sim_event *event) {
  TIDE_LOCKED(&tide__sim.lock);
  refresh(event);
  sim_mark *mark = event->mark;
  if (mark) mark->refs++;
  return mark;
}

tide_status tide__sim_event_wait(void *stream, void *event) {
  TIDE_TRY(tide__sim_enter("wait_event"));
  sim_mark *mark = take_mark(event);
  sim_stream *s = stream;
  if (mark) {
    pthread_mutex_lock(&tide__sim.lock);
    tide_status status = s->capture || mark->frontier ? tide__sim_capture_join(s, mark) : TIDE_OK;
    if (status != TIDE_OK) pthread_mutex_lock(&tide__sim.lock);
    if (status != TIDE_OK) tide__sim_mark_unref(mark);
    pthread_mutex_unlock(&tide__sim.lock);
    if (status != TIDE_OK) return status;
  }
  return mark ? tide__sim_mark_queue(SIM_WAIT, mark, stream, "wait_event") : TIDE_OK;
}

tide_status tide__sim_event_query(bool *done, void *impl) {
  TIDE_TRY(tide__sim_enter("query"));
  sim_event *event = impl;
  pthread_mutex_lock(&tide__sim.lock);
  if (tide__sim_lost(event->device)) return tide__sim_leave(event->device, "query");
  if (event->mark && event->mark->frontier)
    return tide__sim_capture_break(NULL, 907, "cudaErrorCapturedEvent",
                                   "operation not permitted on an event last recorded in a capturing stream", "query");
  refresh(event);
  *done = !event->mark || tide__sim_mark_passed(event->mark);
  pthread_mutex_unlock(&tide__sim.lock);
  return TIDE_OK;
}

typedef struct target {
  sim_mark *mark;
  int device;
} target;

static bool target_passed(const void *arg) {
  const target *t = arg;
  return tide__sim_mark_passed(t->mark) || tide__sim_lost(t->device);
}

tide_status tide__sim_event_sync(void *impl) {
  TIDE_TRY(tide__sim_enter("synchronize"));
  sim_event *event = impl;
  target t = {take_mark(event), event->device};
  if (!t.mark) return TIDE_OK;
  pthread_mutex_lock(&tide__sim.lock);
  tide_status status = tide__sim_wait(target_passed, &t, event->device, "synchronize");
  tide__sim_mark_unref(t.mark);
  if (status == TIDE_OK) return tide__sim_leave(t.device, "synchronize");
  pthread_mutex_unlock(&tide__sim.lock);
  return status;
}

tide_status tide__sim_event_elapsed(double *ms, void *start, void *end) {
  TIDE_TRY(tide__sim_enter("elapsed_time"));
  const sim_event *a = start, *b = end;
  pthread_mutex_lock(&tide__sim.lock);
  bool timed = a->flags & b->flags & TIDE_EVENT_TIMING;
  bool recorded = a->mark && b->mark;
  bool done = recorded && a->mark->passed && b->mark->passed;
  double seconds = done ? b->mark->time - a->mark->time : 0;
  pthread_mutex_unlock(&tide__sim.lock);
  const tide_backend_host *host = tide__sim.host;
  if (!timed) return host->fail(TIDE_VALUE, "elapsed_time: event without timing, expected both with enable_timing");
  if (!recorded) return host->fail(TIDE_VALUE, "elapsed_time: event was never recorded, expected both recorded");
  if (!done) return host->fail(TIDE_STATE, "elapsed_time: event is not complete, expected both complete");
  *ms = seconds * 1e3;
  return TIDE_OK;
}

/* ---- where a stream and the host meet ---- */

typedef struct sim_place {
  sim_mark *arrived, *opened;
} sim_place;

static sim_mark *take(sim_mark *mark) {
  TIDE_LOCKED(&tide__sim.lock);
  mark->refs++;
  return mark;
}

tide_status tide__sim_meet_new(void **out, int device) {
  TIDE_TRY(tide__sim_enter("host_job"));
  sim_place *place = malloc(sizeof *place);
  sim_mark *arrived = calloc(1, sizeof *arrived), *opened = calloc(1, sizeof *opened);
  if (!place || !arrived || !opened) {
    free(place), free(arrived), free(opened);
    return tide__sim.host->fail(TIDE_MEMORY, "host_job: no host memory");
  }
  arrived->refs = opened->refs = 1;
  *place = (sim_place){arrived, opened};
  *out = place;
  return TIDE_OK;
}

tide_status tide__sim_meet_arrive(void *stream, void *place) {
  TIDE_TRY(tide__sim_enter("host_job"));
  return tide__sim_mark_queue(SIM_RECORD, take(((sim_place *)place)->arrived), stream, "host_job");
}

bool tide__sim_meet_arrived(const void *place) {
  TIDE_LOCKED(&tide__sim.lock);
  return ((const sim_place *)place)->arrived->passed;
}

tide_status tide__sim_meet_wait(void *stream, void *place) {
  TIDE_TRY(tide__sim_enter("host_job"));
  return tide__sim_mark_queue(SIM_WAIT, take(((sim_place *)place)->opened), stream, "host_job");
}

void tide__sim_meet_open(void *place) {
  TIDE_LOCKED(&tide__sim.lock);
  tide__sim_mark_pass(((sim_place *)place)->opened);
  pthread_cond_broadcast(&tide__sim.work);
}

void tide__sim_meet_free(void *place) {
  sim_place *p = place;
  TIDE_LOCKED(&tide__sim.lock);
  tide__sim_mark_unref(p->arrived);
  tide__sim_mark_unref(p->opened);
  free(p);
}

/* ---- notes of progress ---- */

tide_status tide__sim_progress_note(void *impl, uint32_t value) {
  TIDE_TRY(tide__sim_enter("launch"));
  sim_stream *stream = impl;
  if (atomic_load(&tide__sim_dry)) {
    pthread_mutex_lock(&tide__sim.lock);
    if (!tide__sim.device[stream->device].failure.set) stream->progress = value;
    pthread_mutex_unlock(&tide__sim.lock);
    return TIDE_OK;
  }
  sim_op *op = tide__sim_op_new(SIM_NOTE);
  if (!op) return TIDE_MEMORY;
  op->note = value;
  return tide__sim_submit(stream, op, 0, "launch");
}

uint32_t tide__sim_progress_read(void *impl) {
  const sim_stream *stream = impl;
  TIDE_LOCKED(&tide__sim.lock);
  return stream->progress;
}
