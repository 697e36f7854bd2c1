/* observe.c: tells every operation to those who watch.
 *
 * An operation is collected in a struct of the thread's own while it is prepared: its operands as they are noted, then
 * where and what it is; so nothing is allocated and preparing looks the same whether somebody watches or not. There are
 * a few observers at most, each in a slot of its own; without any, one load at each entry is all that this costs.
 *
 * Invariant: `now` belongs to one operation from tide__observe_operands to tide__observe_queued; operations do not nest
 * between the two. */
#include "observe.h"

#include "capture_state.h"

_Atomic(const tide__observer *) tide__observers[TIDE__OBSERVERS];
static _Thread_local tide__operation now;

void tide__observer_set(tide__observer_slot slot, const tide__observer *observer) {
  const tide__observer *before = atomic_exchange(&tide__observers[slot], observer);
  atomic_fetch_add(&tide__sync_watch, (observer != NULL) - (before != NULL));
}

void tide__observe_operands(void) {
  tide__early = TIDE_OK;
  now.n = 0;
}

void tide__observe_access(const tide_tensor *x, bool write, int argument) {
  if (now.n < TIDE__ACCESSES) now.access[now.n++] = (tide__access){x, write, (int8_t)argument, 0};
}

/* Of the arguments of a kernel kernel.def knows which are written. */
static void find_writes(tide__launch what) {
#define WRITES(k)                                 (1u << (k))
#define KERNEL(name, args, writes, cost, library) [TIDE__LAUNCH_##name] = writes,
  static const uint8_t written[] = {
#include "backend/kernel.def"
  };
  if ((size_t)what >= sizeof written) return;
  for (int i = 0; i < now.n; i++)
    if (now.access[i].argument != TIDE__NO_ARGUMENT) now.access[i].write = written[what] >> now.access[i].argument & 1;
}

tide_status tide__observe_launch(tide_stream *stream, uint32_t site, tide__launch what, int detail,
                                 const struct tide_graph *graph, const void *subject) {
  if (tide__early != TIDE_OK) return tide__early;
  now.stream = stream, now.site = site, now.what = what, now.detail = detail, now.graph = graph;
  now.subject = subject;
  find_writes(what);
  if (stream->capture) tide__capture_touches(&now);
  TIDE__EACH_OBSERVER(o) if (o->before) TIDE_TRY(o->before(&now));
  if (stream->capture) tide__capture_launching(&now);
  return TIDE_OK;
}

void tide__observe_queued(tide_status status) {
  tide__capture_launched(status);
  TIDE_OBSERVE(after, &now, status);
}
