/* operand.c: tensors as the operands of operations, for those who watch.
 *
 * In debug mode the handles that tide_graph_output gives carry the number of the replay whose values they stand for.
 * The storage knows the graph's counter, so a read through an old handle, or a view of one, is found out, whether the
 * host reads or an operation.
 *
 * Invariant: what is told of an operand is told before the operation is queued. */
#include "operand.h"

tide_status tide__replay_check_slow(const tide_tensor *x, const char *what) {
  const tide__replays *r = x->storage->replays;
  if (!r || !atomic_load_explicit(&r->watched, memory_order_relaxed)) return TIDE_OK;
  uint16_t now = atomic_load_explicit(&r->now, memory_order_relaxed);
  if (now == x->replay) return TIDE_OK;
  return tide__fail(TIDE_STATE,
                    "%s: the values are gone, got an output of a replay before the last %d, expected a copy of it, "
                    "taken before the graph was replayed again",
                    what, (uint16_t)(now - x->replay));
}

static void observe(const tide_tensor *x, bool write, int argument) {
  tide_status status = write ? TIDE_OK : tide__replay_check(x, "read");
  if (status != TIDE_OK) tide__early = status;
  tide__observe_access(x, write, argument);
}

void tide__observe_operand(const tide_tensor *x, bool write) { observe(x, write, TIDE__NO_ARGUMENT); }
void tide__observe_argument(const tide_tensor *x, int k) { observe(x, k == 0, k); }

tide_status tide__observe_read_slow(const tide_tensor *x) {
  tide_stream *host;
  TIDE_TRY(tide__stream_current(&host, TIDE_CPU));
  tide__observe_operands();
  tide__observe_operand(x, false);
  TIDE_TRY(tide__observe_launch(host, 0, TIDE__LAUNCH_ITEM, 0, NULL, NULL));
  tide__observe_queued(TIDE_OK);
  return TIDE_OK;
}
