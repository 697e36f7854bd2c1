/* start.c: what comm registers with the rooms below.
 *
 * Invariant: it runs once, when the code is loaded. */
#include "comm.h"

void tide__comm_start(void) { tide__overdue_set(TIDE__OVERDUE_COLLECTIVE, tide__comm_overdue); }
