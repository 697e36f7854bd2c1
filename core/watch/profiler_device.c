/* profiler_device.c: when the devices did what was queued, for a recording.
 *
 * Where the backend has a tracer it is told which operation a thread is about to queue, and delivers the pieces of work
 * that came of it. Where it has none, or it cannot start, two events with timing are recorded around each operation,
 * and one event of a stream of our own, whose time on the host's clock was found by waiting for it, places them all.
 * Which of the two it is, the first operation of a device decides. What is captured runs later, so it is measured at
 * the replay.
 *
 * Invariant: an event is in `timed`, in a base, or in the thread that is between begin and end; the lock of `timed` is
 * held where backends are called, that of the recording never is. */
#include "profiler.h"

#include <stdio.h>

enum { UNDECIDED, TRACED, TIMED };
enum { LOOK = 2048, TRIES = 4 }; /* events that wait before the passed ones are read; attempts to place a base */

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int way;
static _Atomic uint64_t recording;          /* the number that the tracer delivers to */
static _Atomic(const tide_tracer *) tracer; /* while way is TRACED */
static uint32_t flags_now;

/* The event that the others of a device are counted from. */
static struct {
  void *event;
  uint64_t time; /* 0: not placed; 1: cannot be */
} base[TIDE_MAX_DEVICES];

typedef struct timed_op {
  uint64_t number, op;
  int device;
  void *first, *last;
} timed_op;
static pthread_mutex_t timed_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  timed_op *at;
  size_t n, room, look;
} timed;

static _Thread_local struct {
  void *event;
  int device;
} first;

/* ---- the tracer ---- */

static void take_activity(const tide_activity *a) {
  tide_profile *p = tide__profile_lock(atomic_load(&recording));
  if (!p) return;
  tide__span *s = TIDE__ADD(p, span);
  if (s) {
    *s = (tide__span){.op = -1, .correlation = a->correlation, .stream = a->stream, .bytes = a->bytes};
    s->kind = (uint8_t)a->kind, s->device = a->device;
    s->name = tide__profile_name(p, a->name);
    s->start = tide__profile_since(p, a->start), s->end = tide__profile_since(p, a->end);
  }
  tide__profile_unlock();
}

static void take_link(uint64_t correlation, uint64_t op) {
  tide_profile *p = tide__profile_lock(atomic_load(&recording));
  if (!p) return;
  tide__link *l = TIDE__ADD(p, link);
  if (l) *l = (tide__link){correlation, op};
  tide__profile_unlock();
}

static void take_lost(uint64_t count) {
  tide_profile *p = tide__profile_lock(atomic_load(&recording));
  if (!p) return;
  p->lost += (int64_t)count;
  tide__profile_unlock();
}

/* `start_lock` is held. */
static void decide(uint64_t number, const tide_backend *b) {
  static const tide_tracer_sink sink = {take_activity, take_link, take_lost};
  const char *note = "", *source = "events";
  bool wanted = !(flags_now & TIDE_PROFILE_EVENTS) && b->tracer && b->tracer->start;
  bool traced = wanted && b->tracer->start(&sink) == TIDE_OK;
  if (traced) atomic_store(&tracer, b->tracer), source = b->tracer->name;
  if (wanted && !traced) note = tide_error_get()->message;
  tide_profile *p = tide__profile_lock(number);
  if (p) {
    p->source = source;
    snprintf(p->note, sizeof p->note, "%s", note);
    tide__profile_unlock();
  }
  atomic_store_explicit(&way, traced ? TRACED : TIMED, memory_order_release);
}

static int way_of(uint64_t number, int device) {
  int now = atomic_load_explicit(&way, memory_order_acquire);
  const tide_backend *b = now == UNDECIDED ? tide__backend_peek(device) : NULL;
  if (!b) return now;
  TIDE_LOCKED(&start_lock);
  if (atomic_load(&way) == UNDECIDED && atomic_load(&recording) == number) decide(number, b);
  return atomic_load(&way);
}

void tide__profile_device_open(uint64_t number, uint32_t flags) {
  TIDE_LOCKED(&start_lock);
  atomic_store(&way, UNDECIDED);
  atomic_store(&recording, number);
  flags_now = flags;
  for (int d = 0; d < TIDE_MAX_DEVICES && atomic_load(&way) == UNDECIDED; d++) {
    const tide_backend *b = tide__backend_peek(d);
    if (b) decide(number, b);
  }
}

/* ---- events ---- */

/* Some waits for an event on a stream that has nothing else to do: it lies in the middle of the shortest. */
static bool place_base(int device, const tide_backend *b) {
  void *stream, *event;
  if (b->stream_new(&stream, device, 0) != TIDE_OK) return false;
  bool made = tide__event_take(&event, b, device, TIDE_EVENT_TIMING) == TIDE_OK;
  uint64_t shortest = UINT64_MAX, time = 0;
  for (int i = 0; made && i < TRIES; i++) {
    void *next;
    if (tide__event_take(&next, b, device, TIDE_EVENT_TIMING) != TIDE_OK) break;
    uint64_t before = tide__profile_clock();
    bool passed = b->event_record(next, stream) == TIDE_OK && b->event_sync(next) == TIDE_OK;
    uint64_t after = tide__profile_clock();
    bool better = passed && after - before < shortest;
    if (better) shortest = after - before, time = before + shortest / 2;
    tide__event_give(better ? event : next, device, TIDE_EVENT_TIMING);
    if (better) event = next;
  }
  b->stream_free(stream);
  if (made && !time) tide__event_give(event, device, TIDE_EVENT_TIMING);
  if (time) base[device].event = event, base[device].time = time;
  return time != 0;
}

static bool has_base(uint64_t number, int device, const tide_backend *b) {
  TIDE_LOCKED(&start_lock);
  if (atomic_load(&recording) != number) return false;
  if (!base[device].time && !place_base(device, b)) base[device].time = 1;
  return base[device].event != NULL;
}

static void *record_now(const tide_stream *stream, const tide_backend *b) {
  void *event;
  if (tide__event_take(&event, b, stream->device, TIDE_EVENT_TIMING) != TIDE_OK) return NULL;
  if (b->event_record(event, stream->impl) == TIDE_OK) return event;
  tide__event_give(event, stream->device, TIDE_EVENT_TIMING);
  return NULL;
}

static void give_back(const timed_op *t) {
  if (t->first) tide__event_give(t->first, t->device, TIDE_EVENT_TIMING);
  if (t->last) tide__event_give(t->last, t->device, TIDE_EVENT_TIMING);
}

static tide_work work_of(tide__launch what) {
  switch ((int)what) {
  case TIDE__LAUNCH_COPY_IN: return TIDE_WORK_COPY_IN;
  case TIDE__LAUNCH_COPY_OUT:
  case TIDE__LAUNCH_ITEM: return TIDE_WORK_COPY_OUT;
  case TIDE__LAUNCH_COPY_PEER: return TIDE_WORK_COPY_BETWEEN;
  case TIDE__LAUNCH_SLEEP: return TIDE_WORK_SLEEP;
  case TIDE__LAUNCH_GRAPH: return TIDE_WORK_GRAPH;
  default: return TIDE_WORK_KERNEL;
  }
}

/* The length comes from the two events alone: a driver tells distances with few digits. */
static void read_span(const timed_op *t, const tide_backend *b) {
  double from, length;
  bool known = b->event_elapsed(&from, base[t->device].event, t->first) == TIDE_OK &&
               b->event_elapsed(&length, t->first, t->last) == TIDE_OK;
  tide_profile *p = tide__profile_lock(t->number);
  if (!p) return;
  tide__span *s = known ? TIDE__ADD(p, span) : NULL;
  if (!known) p->lost++;
  if (s) {
    const tide__profiled *o = &p->op.at[t->op - 1];
    *s = (tide__span){.op = (int64_t)t->op - 1, .device = t->device, .kind = (uint8_t)work_of((tide__launch)o->what)};
    s->bytes = s->kind == TIDE_WORK_KERNEL ? 0 : o->bytes;
    int64_t start = (int64_t)base[t->device].time + (int64_t)(from * 1e6);
    s->start = tide__profile_since(p, start > 0 ? (uint64_t)start : 0);
    s->end = s->start + (uint64_t)(length > 0 ? length * 1e6 : 0);
  }
  tide__profile_unlock();
}

/* With the lock of `timed`: reads those at the front that have passed; `all`: drops the ones that have not. */
static void read_passed(bool all) {
  size_t i = 0;
  for (; i < timed.n; i++) {
    const timed_op *t = &timed.at[i];
    const tide_backend *b = tide__backend_peek(t->device);
    bool done = false;
    bool asked = b && !tide__device_lost(NULL, t->device) && b->event_query(&done, t->last) == TIDE_OK;
    if (asked && !done && !all) break;
    if (asked && done)
      read_span(t, b);
    else
      take_lost(1);
    give_back(t);
  }
  if (i) memmove(timed.at, timed.at + i, (timed.n - i) * sizeof *timed.at);
  timed.n -= i;
  timed.look = timed.n + LOOK;
}

static void keep(timed_op t) {
  pthread_mutex_lock(&timed_lock);
  if (timed.n >= timed.look && timed.look) read_passed(false);
  if (timed.n == timed.room) {
    size_t room = timed.room ? 2 * timed.room : LOOK;
    timed_op *at = realloc(timed.at, room * sizeof *at);
    if (at) timed.at = at, timed.room = room;
  }
  bool kept = timed.n < timed.room && atomic_load(&recording) == t.number;
  if (kept) timed.at[timed.n++] = t;
  if (!timed.look) timed.look = LOOK;
  pthread_mutex_unlock(&timed_lock);
  if (!kept) give_back(&t);
}

/* ---- for the recording ---- */

void tide__profile_device_begin(uint64_t number, uint64_t op, tide_stream *stream) {
  /* One that is left is of an operation whose end was not told: the recording had ended. */
  if (first.event) tide__event_give(first.event, first.device, TIDE_EVENT_TIMING);
  first.event = NULL;
  int now = way_of(number, stream->device);
  if (now == TRACED) atomic_load(&tracer)->begin(op);
  const tide_backend *b = tide__backend_peek(stream->device);
  if (now != TIMED || !b || stream->capture || !has_base(number, stream->device, b)) return;
  first.event = record_now(stream, b), first.device = stream->device;
}

void tide__profile_device_end(uint64_t number, uint64_t op, tide_stream *stream, bool queued) {
  if (atomic_load_explicit(&way, memory_order_acquire) == TRACED) atomic_load(&tracer)->end();
  const tide_backend *b = tide__backend_peek(stream->device);
  if (!first.event || !b) return;
  timed_op t = {number, op, stream->device, first.event, queued ? record_now(stream, b) : NULL};
  first.event = NULL;
  if (t.last)
    keep(t);
  else
    give_back(&t);
}

/* While anything is captured the devices are not waited for: that would break the capture. */
static void wait_for(uint64_t devices) {
  if (atomic_load(&tide__captures)) return;
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    const tide_backend *b = devices >> d & 1 ? tide__backend_peek(d) : NULL;
    if (b && !tide__device_lost(NULL, d)) b->device_sync(d);
  }
}

tide_status tide_profile_wait(void) {
  int count;
  if (!tide_is_initialized()) return TIDE_OK;
  TIDE_TRY(tide__device_count(&count));
  for (int d = 0; d < count && !atomic_load(&tide__captures); d++) TIDE_TRY(tide_device_synchronize(d));
  return TIDE_OK;
}

void tide__profile_device_close(uint64_t devices, bool wait) {
  if (wait) wait_for(devices);
  pthread_mutex_lock(&start_lock);
  if (atomic_load(&way) == TRACED) atomic_load(&tracer)->stop();
  atomic_store(&way, UNDECIDED);
  pthread_mutex_lock(&timed_lock);
  read_passed(true);
  atomic_store(&recording, 0);
  free(timed.at);
  timed.at = NULL, timed.n = timed.room = timed.look = 0;
  pthread_mutex_unlock(&timed_lock);
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    if (base[d].event) tide__event_give(base[d].event, d, TIDE_EVENT_TIMING);
    base[d].event = NULL, base[d].time = 0;
  }
  pthread_mutex_unlock(&start_lock);
}
