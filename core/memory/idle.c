/* idle.c: when freed memory that is kept and that nobody has asked for goes back.
 *
 * No thread is started for it. Calls that allocate or wait look now and then and give back a little, so that nobody who
 * has work to do is held up; calls that ask about memory, and the pump, give back all; so does a worker thread of CPU
 * loops that has nothing to do. A host that neither allocates nor waits calls tide_memory_pump, as the prompt does.
 *
 * Invariant: what is given back has been free, and unused by queued work, for as long as idle.h says. */
#include "idle.h"

#include "host_cache.h"

static void trim(bool all) {
  tide__host_cache_trim(all);
  for (int d = 0, n = tide__device_count_known(); d < n; d++) tide__allocator_trim(d, all);
}

void tide__idle_trim(void) { trim(false); }
void tide__idle_trim_all(void) {
  trim(true);
  tide__pinned_idle();
}

/* So that the devices do not go while a worker is at it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool held;

void tide__idle_hold(bool on) {
  TIDE_LOCKED(&lock);
  held = on;
}

void tide__idle_trim_background(void) {
  TIDE_LOCKED(&lock);
  if (!held && tide__running()) tide__idle_trim_all();
}

/* In the child of a fork there is no worker, even if the lock is held. */
void tide__idle_forked(void) { pthread_mutex_init(&lock, NULL); }

/* Where devices are open the worker may hold locks of theirs too: a fork waits for it. */
static void fork_begins(void) { pthread_mutex_lock(&lock); }
static void fork_ends(void) { pthread_mutex_unlock(&lock); }
void tide__idle_watch_forks(void) { pthread_atfork(fork_begins, fork_ends, tide__idle_forked); }

bool tide__idle_any(void) {
  return tide_memory_cpu_allocated() >= (size_t)1 << 20 || tide__host_cache_any() || tide__allocators_idle_any();
}

void tide_memory_pump(void) {
  tide__memory_settle();
  tide__idle_trim_all();
}
