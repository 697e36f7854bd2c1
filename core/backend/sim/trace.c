/* trace.c: tells when simulated devices did what, as a driver's tracing library does.
 *
 * While it is on, what a thread queues carries the number of the operation that the thread is at, also through a
 * replay; whoever has run a piece of work notes its times here, and all of it is delivered at the end. Every operation
 * is its own correlation. In dry mode there are no times but those of a model, which events tell.
 *
 * Invariant: the list is guarded by the lock of sim.h and is empty while tracing is off. */

#include "sim.h"

#include "base/own.h"
#include "base/base.h"

_Atomic bool tide__sim_tracing;
_Thread_local uint64_t tide__sim_traced_op;

static const uint64_t OF_NONE = UINT64_MAX; /* queued while tracing, by no operation */
static tide_tracer_sink sink;
static struct {
  tide_activity *at;
  int n, room;
  uint64_t lost;
} noted;

static uint64_t nanoseconds(double seconds) { return (uint64_t)(seconds * 1e9); }

void tide__sim_note(tide_work kind, const sim_stream *stream, uint64_t op, double start, size_t bytes,
                    const char *name) {
  if (!tide__grow(&noted.at, &noted.room, noted.n, sizeof *noted.at)) {
    noted.lost++;
    return;
  }
  noted.at[noted.n++] = (tide_activity){.kind = kind,
                                        .device = stream->device,
                                        .correlation = op == OF_NONE ? 0 : op,
                                        .stream = (uintptr_t)stream,
                                        .start = nanoseconds(tide__sim_clock_system(start)),
                                        .end = nanoseconds(tide__sim_clock_system(tide__sim_now())),
                                        .bytes = bytes,
                                        .name = kind == TIDE_WORK_KERNEL ? name : ""};
}

tide_work tide__sim_copy_work(int dst_device, int src_device) {
  return dst_device == TIDE_CPU   ? TIDE_WORK_COPY_OUT
         : src_device == TIDE_CPU ? TIDE_WORK_COPY_IN
                                  : TIDE_WORK_COPY_BETWEEN;
}

uint64_t tide__sim_traced_now(void) {
  if (!atomic_load_explicit(&tide__sim_tracing, memory_order_relaxed)) return 0;
  return tide__sim_traced_op ? tide__sim_traced_op : OF_NONE;
}

/* What was queued before tracing began is left out, as a driver's library does. */
void tide__sim_note_run(const sim_stream *stream, const sim_op *op, double start) {
  if (!op->traced) return;
  if (op->kind == SIM_KERNEL) tide__sim_note(TIDE_WORK_KERNEL, stream, op->traced, start, 0, op->what);
  if (op->kind == SIM_SLEEP) tide__sim_note(TIDE_WORK_SLEEP, stream, op->traced, op->not_before - op->seconds, 0, "");
  if (op->kind == SIM_COPY)
    tide__sim_note(tide__sim_copy_work(op->dst_device, op->src_device), stream, op->traced, start, op->bytes, "");
}

/* ---- the tracer ---- */

static tide_status start(const tide_tracer_sink *to) {
  TIDE_TRY(tide__sim_enter("profiler"));
  if (atomic_load(&tide__sim_dry))
    return tide__sim.host->fail(TIDE_SUPPORT, "profiler: simulated devices in dry mode have no clock of their own");
  sink = *to;
  TIDE_LOCKED(&tide__sim.lock); /* no time is skipped from here on */
  atomic_store(&tide__sim_tracing, true);
  return TIDE_OK;
}

static void begin(uint64_t op) { tide__sim_traced_op = op; }
static void end(void) { tide__sim_traced_op = 0; }

static void stop(void) {
  atomic_store(&tide__sim_tracing, false);
  pthread_mutex_lock(&tide__sim.lock);
  __typeof__(noted) all = noted;
  memset(&noted, 0, sizeof noted);
  pthread_mutex_unlock(&tide__sim.lock);
  for (int i = 0; i < all.n; i++) {
    if (all.at[i].correlation) sink.link(all.at[i].correlation, all.at[i].correlation);
    sink.activity(&all.at[i]);
  }
  if (all.lost) sink.lost(all.lost);
  free(all.at);
}

const tide_tracer tide__sim_tracer = {.name = "sim", .start = start, .begin = begin, .end = end, .stop = stop};
