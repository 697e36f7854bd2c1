/* start.c: what memory registers with the rooms below.
 *
 * Invariant: it runs once, when the code is loaded. */
#include "host_cache.h"

/* A fork has no worker, and with devices open it waits for one (idle.c). */
static void watch_forks(void) {
  pthread_atfork(NULL, NULL, tide__idle_forked);
  tide__host_cache_watch_forks();
}

/* What scripts have dropped counts until it is collected. */
static void collect(int device, size_t bytes) {
  tide__reclaim(device, bytes);
  tide__deferred_drain();
}

static void poll(void) { tide__deferred_frees_poll(); }

void tide__memory_start(void) {
  static const tide__stream_hooks_table hooks = {
      .poll = poll,
      .settle = tide__memory_settle,
      .idle = tide__idle_trim,
      .stream_gone = tide__allocator_orphan,
      .streams_many = tide__staged_copy_many,
      .pool_retain = tide_mempool_retain,
      .pool_release = tide_mempool_release,
      .scope_retain = tide_allocation_scope_retain,
      .scope_release = tide_allocation_scope_release,
  };
  static const tide__idle_work work = {tide__idle_any, tide__idle_trim_background, watch_forks};
  tide__parallel_idle(&work);
  tide__quota_collect_by(collect);
  tide__stream_hooks = &hooks;
  tide__device_on_first_open(tide__idle_watch_forks);
  tide__backend_host.scratch_get = tide__scratch_get;
  tide__backend_host.scratch_try = tide__scratch_try;
  tide__backend_host.scratch_put = tide__scratch_put;
}
