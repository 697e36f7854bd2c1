/* start.c: what memory registers with the rooms below.
 *
 * Invariant: it runs once in a process, before any thread of ours is started and any backend is opened. */
#include "host_cache.h"

/* A fork has no worker, and with devices open it waits for one (idle.c). */
static void watch_forks(void) {
  pthread_atfork(NULL, NULL, tide__idle_forked);
  tide__host_cache_watch_forks();
}

void tide__memory_start(void) {
  static const tide__idle_work work = {tide__idle_any, tide__idle_trim_background, watch_forks};
  tide__parallel_idle(&work);
  tide__backend_host.scratch_get = tide__scratch_get;
  tide__backend_host.scratch_put = tide__scratch_put;
}
