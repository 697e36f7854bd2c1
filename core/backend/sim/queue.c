/* queue.c: streams, the workers that run them, and waiting.
 *
 * A stream is a list of operations. A worker looks at the heads of all lists, takes one at random among those that may
 * run now (an urgent stream is preferred three times in four), runs it without the lock and takes it off the list. What
 * may not run now: a wait for an event that has not been reached, a sleep that is not over, and whatever the scheduler
 * chose to delay when it was queued. Each stream has its own laziness, so streams that run side by side get out of
 * step.
 *
 * Waits look for an interruption every 20 ms and tell, when they end, what happened on the device.
 *
 * Invariants: seq grows along each list, so "everything queued before now" is every operation with a seq up to the
 * counter's; a stream lives while someone holds it or its list is not empty; only the worker that set `running` touches
 * the head. */
#include <errno.h>
#include <math.h>

#include "backend/cpu/jit/cxx.h"
#include "sim.h"

#include "os/os.h"

static const double WAIT_SLICE = 0.02, POLL = 0.0005;

/* ---- the scheduler ---- */

static bool may_run(sim_op *op, double now) {
  if (op->kind == SIM_SLEEP && !op->started) {
    op->started = true;
    op->not_before = now + op->seconds;
  }
  if (op->not_before > now) return false;
  if (op->kind != SIM_WAIT || tide__sim_mark_passed(op->mark)) return true;
  if (op->mark->page || op->mark->semaphore) op->not_before = now + POLL; /* nothing wakes us when others get there */
  return false;
}

/* The stream whose head is to run next. If there is none: NULL, in *wake the time at which to look again, and in *due
 * the time at which one will be ready, if nothing else can make one ready before; infinite without. */
static sim_stream *pick(double now, double *wake, double *due) {
  sim_stream *best = NULL;
  uint32_t seen = 0;
  bool running = false;
  *wake = now + 3600, *due = INFINITY;
  for (sim_stream *s = tide__sim.streams; s; s = s->next) {
    running = running || s->running;
    if (!s->head || s->running || tide__sim.faults.dead >> s->device & 1) continue;
    if (!may_run(s->head, now)) {
      double when = s->head->not_before;
      if (when > now && when < *wake) *wake = when;
      if (when > now && when < *due && tide__sim_clock_skips(s->head)) *due = when;
      continue;
    }
    bool urgent = best && s->priority != best->priority && tide__sim_dice(4) != 0;
    bool take = urgent ? s->priority < best->priority : tide__sim_dice(++seen) == 0;
    if (!best || take) best = s;
  }
  if (running) *due = INFINITY;
  return best;
}

static void stream_unlink(sim_stream *stream) {
  sim_stream **link = &tide__sim.streams;
  while (*link != stream) link = &(*link)->next;
  *link = stream->next;
  if (stream->clock > tide__sim.clock) tide__sim.clock = stream->clock;
  free(stream);
}

static void take_off(sim_stream *stream) {
  sim_op *op = stream->head;
  stream->head = op->next;
  if (!stream->head) stream->tail = NULL;
  tide__sim_op_free(op);
  if (!stream->head && stream->refs == 0) stream_unlink(stream);
}

static struct timespec timespec_of(double seconds) {
  struct timespec t = {(time_t)seconds, 0};
  t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
  return t;
}

/* Until `when`, or a signal. */
static void cond_wait_until(pthread_cond_t *cond, double when) {
  struct timespec t = timespec_of(tide__sim_clock_system(when));
  tide__os_wait_until(cond, &tide__sim.lock, &t);
}

static void *work(void *unused) {
  sim_state *s = &tide__sim;
  TIDE_LOCKED(&s->lock);
  while (!s->stopping) {
    double wake, due;
    sim_stream *stream = pick(tide__sim_now(), &wake, &due);
    if (!stream) {
      if (tide__sim_clock_skip(due))
        pthread_cond_signal(&s->work); /* the others wait for what is now sooner */
      else
        cond_wait_until(&s->work, wake);
      continue;
    }
    stream->running = true;
    bool reached = stream->head->kind == SIM_RECORD;
    bool traced = atomic_load_explicit(&tide__sim_tracing, memory_order_relaxed);
    double start = traced ? tide__sim_now() : 0;
    tide__sim.run(stream, stream->head);
    if (traced) tide__sim_note_run(stream, stream->head, start);
    stream->running = false;
    bool more = stream->head->next != NULL;
    take_off(stream);
    if (reached || more) pthread_cond_broadcast(&s->work);
    if (s->waiting) pthread_cond_broadcast(&s->done);
  }
  return NULL;
}

/* With the lock held. One worker is enough to go on; without any, queued work would wait for ever. */
static bool start_workers(void) {
  sim_state *s = &tide__sim;
  int most = (int)(sizeof s->worker / sizeof *s->worker);
  while (s->workers < most && pthread_create(&s->worker[s->workers], NULL, work, NULL) == 0) s->workers++;
  return s->workers > 0;
}

void tide__sim_stop(void) {
  sim_state *s = &tide__sim;
  pthread_mutex_lock(&s->lock);
  s->stopping = true;
  pthread_cond_broadcast(&s->work);
  int n = s->workers;
  s->workers = 0;
  pthread_mutex_unlock(&s->lock);
  for (int i = 0; i < n; i++) pthread_join(s->worker[i], NULL);
}

/* ---- operations ---- */

sim_op *tide__sim_op_new(sim_kind kind) {
  size_t bytes = kind == SIM_KERNEL ? sizeof(sim_op) : offsetof(sim_op, args);
  sim_op *op = calloc(1, bytes);
  if (!op) {
    tide__sim.host->fail(TIDE_MEMORY, "stream: no host memory to queue work");
    return NULL;
  }
  op->kind = kind;
  return op;
}

void tide__sim_op_free(sim_op *op) {
  if (op->mark) tide__sim_mark_unref(op->mark);
  if (op->staged) free(op->src);
  tide__blocks_free(op->code);
  free(op);
}

/* When the scheduler lets op run: mostly at once; copies between pinned memory and a device are always late, because
 * only then a host that does not wait for them is caught. */
static double whim(const sim_stream *stream, const sim_op *op) {
  double now = tide__sim_now();
  if (op->kind == SIM_COPY) return now + tide__sim.faults.slow + 1e-6 * (100 + tide__sim_dice(op->staged ? 100 : 400));
  if (op->kind != SIM_KERNEL || tide__sim_dice(stream->lazy)) return 0;
  return now + 1e-6 * (20 + tide__sim_dice(280));
}

tide_status tide__sim_submit(sim_stream *stream, sim_op *op, double cost, const char *what) {
  sim_state *s = &tide__sim;
  pthread_mutex_lock(&s->lock);
  bool lost = tide__sim_lost(stream->device);
  if (stream->capture && !lost) {
    tide__sim_capture_take(stream, op, cost, what);
    pthread_mutex_unlock(&s->lock);
    return TIDE_OK;
  }
  bool dry = atomic_load(&tide__sim_dry);
  bool stuck = !lost && !dry && s->workers == 0 && !start_workers();
  if (op->kind == SIM_KERNEL) tide__sim_fault_launch(op);
  if (lost || dry || stuck) {
    if (dry) stream->clock += cost;
    if (!lost) tide__sim_fault_fire(stream->device, op);
    if (op->kind == SIM_RECORD && !(lost && op->mark->semaphore))
      tide__sim_mark_pass(op->mark); /* other devices' streams may wait for it */
    tide__sim_op_free(op);
    if (lost) return tide__sim_leave(stream->device, what);
    pthread_mutex_unlock(&s->lock);
    return stuck ? s->host->fail(TIDE_MEMORY, "%s: the simulated device's threads could not be started", what)
                 : TIDE_OK;
  }
  op->seq = ++s->seq;
  op->not_before = whim(stream, op);
  op->traced = tide__sim_traced_now();
  if (!op->what) op->what = what;
  if (stream->tail)
    stream->tail->next = op;
  else
    stream->head = op;
  stream->tail = op;
  if (stream->head == op) pthread_cond_signal(&s->work);
  pthread_mutex_unlock(&s->lock);
  return TIDE_OK;
}

void tide__sim_queue_drop(void) {
  for (sim_stream *s = tide__sim.streams, *next; s; s = next) {
    next = s->next;
    for (sim_op *op = s->head, *after; op; op = after) {
      after = op->next;
      tide__sim_op_free(op);
    }
    free(s);
  }
  tide__sim.streams = NULL;
}

/* ---- streams ---- */

/* With the lock held, or NULL without memory. */
sim_stream *tide__sim_stream_make(int device, int priority) {
  sim_stream *stream = calloc(1, sizeof *stream);
  if (!stream) return NULL;
  stream->device = device, stream->priority = priority, stream->refs = 1;
  stream->lazy = 4u << 2 * tide__sim_dice(3);
  stream->next = tide__sim.streams;
  tide__sim.streams = stream;
  return stream;
}

tide_status tide__sim_stream_new(void **out, int device, int priority) {
  TIDE_TRY(tide__sim_enter("Stream"));
  pthread_mutex_lock(&tide__sim.lock);
  if (tide__sim_lost(device)) return tide__sim_leave(device, "Stream");
  sim_stream *stream = tide__sim_stream_make(device, priority);
  pthread_mutex_unlock(&tide__sim.lock);
  if (!stream) return tide__sim.host->fail(TIDE_MEMORY, "Stream: no host memory");
  *out = stream;
  return TIDE_OK;
}

/* Handle 0 is the device's legacy stream, which here is one more stream; another handle is that of a live stream. */
tide_status tide__sim_stream_wrap(void **out, int device, uint64_t handle) {
  TIDE_TRY(tide__sim_enter("ExternalStream"));
  sim_device *d = &tide__sim.device[device];
  pthread_mutex_lock(&tide__sim.lock);
  sim_stream *stream = NULL;
  if (!handle) {
    if (!d->legacy && (d->legacy = tide__sim_stream_make(device, 0))) d->legacy->legacy = true;
    stream = d->legacy;
  } else {
    for (stream = tide__sim.streams; stream; stream = stream->next)
      if ((uintptr_t)stream == handle && stream->device == device && stream->refs > 0) break;
  }
  if (stream) stream->refs++;
  pthread_mutex_unlock(&tide__sim.lock);
  if (!stream)
    return tide__sim.host->fail(TIDE_VALUE,
                                "ExternalStream: not a stream of cuda:%d, got handle %llu, expected 0 or the handle "
                                "of a live stream",
                                device, (unsigned long long)handle);
  *out = stream;
  return TIDE_OK;
}

/* Whoever wraps it holds it, so that its address is nobody else's meanwhile. */
uint64_t tide__sim_stream_identity(void *impl) { return (uint64_t)(uintptr_t)impl; }

void tide__sim_stream_free(void *impl) {
  sim_stream *stream = impl;
  if (!stream || atomic_load(&tide__sim_forked)) return;
  TIDE_LOCKED(&tide__sim.lock);
  if (--stream->refs == 0 && !stream->head) stream_unlink(stream);
}

uint64_t tide__sim_stream_handle(void *impl) {
  const sim_stream *stream = impl;
  return stream->legacy ? 0 : (uintptr_t)stream;
}

double tide_sim_time(void) {
  TIDE_LOCKED(&tide__sim.lock);
  double most = tide__sim.clock;
  for (const sim_stream *s = tide__sim.streams; s; s = s->next)
    if (s->clock > most) most = s->clock;
  return most;
}

/* ---- waiting ---- */

tide_status tide__sim_wait(bool (*passed)(const void *arg), const void *arg, int device, const char *what) {
  sim_state *s = &tide__sim;
  tide_status status = TIDE_OK;
  sim_waiter me = {s->waiting, passed, arg};
  s->waiting = &me;
  if (s->skips) pthread_cond_signal(&s->work); /* time may be skipped now */
  while (status == TIDE_OK && !passed(arg)) {
    cond_wait_until(&s->done, tide__sim_now() + WAIT_SLICE);
    if (passed(arg)) break;
    pthread_mutex_unlock(&s->lock);
    status = s->host->wait_on(device, what);
    pthread_mutex_lock(&s->lock);
  }
  sim_waiter **link = &s->waiting;
  while (*link != &me) link = &(*link)->next;
  *link = me.next;
  return status;
}

/* Everything up to `seq` on one stream, on the streams of one device, or on all. */
typedef struct target {
  const sim_stream *stream;
  int device;
  uint64_t seq;
} target;

static bool target_passed(const void *arg) {
  const target *t = arg;
  if (t->stream) return !t->stream->head || t->stream->head->seq > t->seq;
  for (const sim_stream *s = tide__sim.streams; s; s = s->next)
    if ((t->device < 0 || s->device == t->device) && s->head && s->head->seq <= t->seq) return false;
  return true;
}

static tide_status wait_for(sim_stream *stream, int device, const char *what) {
  TIDE_TRY(tide__sim_enter(what));
  pthread_mutex_lock(&tide__sim.lock);
  if (stream && stream->capture)
    return tide__sim_capture_break(stream, 900, "cudaErrorStreamCaptureUnsupported",
                                   "operation not permitted when stream is capturing", what);
  target t = {stream, device, tide__sim.seq};
  tide_status status = tide__sim_wait(target_passed, &t, device, what);
  if (status == TIDE_OK) return tide__sim_leave(device, what);
  pthread_mutex_unlock(&tide__sim.lock);
  return status;
}

tide_status tide__sim_stream_sync(void *impl) {
  sim_stream *stream = impl;
  return wait_for(stream, stream->device, "synchronize");
}

tide_status tide__sim_device_sync(int device) { return wait_for(NULL, device, "synchronize"); }

tide_status tide_sim_set_dry(bool dry) {
  pthread_mutex_lock(&tide__sim.lock);
  target t = {NULL, -1, tide__sim.seq};
  tide_status status = tide__sim.host ? tide__sim_wait(target_passed, &t, TIDE_CPU, "tide_sim_set_dry") : TIDE_OK;
  pthread_mutex_unlock(&tide__sim.lock);
  if (status == TIDE_OK) atomic_store(&tide__sim_dry, dry);
  return status;
}

tide_status tide__sim_stream_query(bool *done, void *impl) {
  TIDE_TRY(tide__sim_enter("query"));
  sim_stream *stream = impl;
  pthread_mutex_lock(&tide__sim.lock);
  if (stream->capture)
    return tide__sim_capture_break(stream, 900, "cudaErrorStreamCaptureUnsupported",
                                   "operation not permitted when stream is capturing", "query");
  if (tide__sim_lost(stream->device)) return tide__sim_leave(stream->device, "query");
  *done = !stream->head;
  pthread_mutex_unlock(&tide__sim.lock);
  return TIDE_OK;
}
