/* start.c: what comm registers with the rooms below, and in which order its parts end.
 *
 * Invariant: it runs once, when the code is loaded. */
#include "comm.h"

void tide__comm_start(void) { tide__overdue_set(TIDE__OVERDUE_COLLECTIVE, tide__comm_overdue); }

void tide__comm_shutdown(void) {
  tide__comm_watch_shutdown();
  tide__rank_shutdown();
  tide__communicator_shutdown();
}
