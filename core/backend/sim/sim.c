/* sim.c: the state of the simulated devices, and how every call enters and leaves it.
 *
 * Invariant: one lock guards every struct of sim.h and is never held while a kernel runs or the host's functions are
 * called. A forked child has no workers, so every call there fails until it starts tide anew. */
#include "sim.h"

sim_state tide__sim = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};
_Atomic bool tide__sim_dry;
_Atomic bool tide__sim_forked;

/* The child of a fork gets the lock free and everything else as it was, but no workers. */
static void fork_before(void) { pthread_mutex_lock(&tide__sim.lock); }
static void fork_parent(void) { pthread_mutex_unlock(&tide__sim.lock); }
static void fork_child(void) {
  if (tide__sim.host) atomic_store(&tide__sim_forked, true);
  pthread_cond_init(&tide__sim.work, NULL);
  pthread_cond_init(&tide__sim.done, NULL);
  tide__sim.workers = 0;
  pthread_mutex_unlock(&tide__sim.lock);
}
void tide__sim_fork_watch(void) { pthread_atfork(fork_before, fork_parent, fork_child); }

/* xorshift64* (Marsaglia, Vigna): the scheduler's dice. */
uint32_t tide__sim_dice(uint32_t n) {
  uint64_t x = tide__sim.random;
  x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
  tide__sim.random = x;
  return (uint32_t)((x * 0x2545F4914F6CDD1Du) >> 33) % n;
}

tide_status tide__sim_enter(const char *what) {
  if (!atomic_load_explicit(&tide__sim_forked, memory_order_relaxed)) return TIDE_OK;
  return tide__sim.host->fail(TIDE_STATE,
                              "%s: the devices were opened before this process was forked, expected to start "
                              "tide in the child, or to fork first",
                              what);
}

tide_status tide__sim_leave(int device, const char *what) {
  sim_device *d = &tide__sim.device[device];
  sim_failure failure = d->failure;
  __typeof__(d->mailbox) mail = d->mailbox;
  if (failure.set && !failure.sticky) d->failure.set = false;
  if (!failure.set) d->mailbox.set = false;
  pthread_mutex_unlock(&tide__sim.lock);
  const tide_backend_host *host = tide__sim.host;
  if (failure.set) return host->fail_driver(device, what, failure.code, failure.name, failure.text, failure.sticky);
  if (mail.set) return host->fail_index(device, mail.site, mail.value, mail.length, mail.index_base);
  return TIDE_OK;
}
