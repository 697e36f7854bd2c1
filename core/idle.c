/* idle.c: when freed memory that is kept and that nobody has asked for goes back.
 *
 * No thread is started for it. Calls that allocate or wait look now and then and give back a little, so that nobody who
 * has work to do is held up; calls that ask about memory, and the pump, give back all; so does a worker thread of CPU
 * loops that has nothing to do. A host that neither allocates nor waits calls tide_memory_pump, as the prompt does.
 *
 * Invariant: what is given back has been free, and unused by queued work, for as long as idle.h says. */
#include "idle.h"

#include "host_cache.h"

_Atomic int64_t tide__idle_ahead;

void tide__idle_trim(void) { tide__host_cache_trim(false); }
void tide__idle_trim_all(void) { tide__host_cache_trim(true); }

bool tide__idle_any(void) { return tide_memory_cpu_allocated() >= (size_t)1 << 20 || tide__host_cache_any(); }
