/* clock.c: the time of simulated devices, real or virtual (TIDE_SIM_CLOCK).
 *
 * Real time is the system's. Virtual time goes with it, but skips what nobody does anything in: when a thread of the
 * host waits for what has not come, no worker runs anything and no head of a queue may run, it jumps to the earliest
 * moment at which one may. So sleeps and delays cost no time, while their order and what events measure stay as they
 * are: a schedule in virtual time is one that real time has too. While the host computes, or asks instead of waiting,
 * nothing is skipped, since a device that hurried would hide what the host forgot to wait for.
 *
 * Never skipped are sleeps of a minute or more, which hold a stream until tide_sim_wake, waits for another process,
 * which lives in real time, and anything while a profile is recorded, whose other half are the host's times.
 *
 * Invariant: `ahead` is 0 in real time, never falls, and is changed with the lock held. */
#include <stdlib.h>

#include "sim.h"
#include "os/os.h"

static _Atomic double ahead; /* seconds that were skipped so far */

static double skipped(void) { return atomic_load_explicit(&ahead, memory_order_relaxed); }

double tide__sim_now(void) { return tide__os_seconds() + skipped(); }

double tide__sim_clock_system(double when) { return when - skipped(); }

bool tide__sim_clock_env(void) {
  const char *clock = getenv("TIDE_SIM_CLOCK");
  tide__sim.skips = clock && !strcmp(clock, "virtual");
  if (!tide__sim.skips) atomic_store(&ahead, 0);
  return tide__sim.skips || !clock || !*clock || !strcmp(clock, "real");
}

bool tide__sim_clock_skips(const sim_op *op) {
  return op->kind != SIM_WAIT && !(op->kind == SIM_SLEEP && op->seconds >= TIDE_SIM_HOLD);
}

static bool host_waits(void) {
  for (const sim_waiter *w = tide__sim.waiting; w; w = w->next)
    if (!w->passed(w->arg)) return true;
  return false;
}

bool tide__sim_clock_skip(double when) {
  double now = tide__sim_now();
  if (!tide__sim.skips || atomic_load(&tide__sim_tracing) || when - now > TIDE_SIM_HOLD || !host_waits()) return false;
  if (when > now) atomic_store(&ahead, skipped() + (when - now));
  return true;
}
