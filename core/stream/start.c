/* start.c: what streams register with the rooms below.
 *
 * Invariant: it runs once in a process, before any backend is opened. */
#include "core.h"

void tide__stream_start(void) { tide__backend_host.fail_driver = tide__fail_driver; }
