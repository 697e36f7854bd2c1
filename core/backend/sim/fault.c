/* fault.c: faults on demand.
 *
 * A fault is ordered by count: the k-th allocation or launch from the order on. Launches are counted when they are
 * queued, so the count does not depend on the schedule; they fail when they run, as on a real device.
 *
 * Invariant: of the failures of a device the first one stays until it is told; a sticky one stays for good, whatever
 * came before it. */
#include <stdlib.h>

#include "sim.h"

#include "base/base.h"

void tide__sim_fail(int device, bool sticky, int code, const char *name, const char *text) {
  sim_failure *failure = &tide__sim.device[device].failure;
  if (failure->set && (failure->sticky || !sticky)) return;
  *failure = (sim_failure){.set = true, .sticky = sticky, .code = code, .name = name, .text = text};
}

bool tide__sim_fault_alloc(void) {
  sim_faults *f = &tide__sim.faults;
  if (f->alloc == 0) return false;
  if (f->alloc > 1) {
    f->alloc--;
    return false;
  }
  if (!f->alloc_on) f->alloc = 0;
  return true;
}

static bool counted_down(int64_t *count) { return *count > 0 && --*count == 0; }

void tide__sim_fault_launch(sim_op *op) {
  bool once = counted_down(&tide__sim.faults.launch);
  op->fails_sticky = counted_down(&tide__sim.faults.sticky);
  op->fails = once || op->fails_sticky;
}

bool tide__sim_fault_fire(int device, const sim_op *op) {
  if (op->fails) tide__sim_fail(device, op->fails_sticky, 719, "cudaErrorLaunchFailure", "unspecified launch failure");
  return op->fails;
}

/* ---- the grammar ---- */

/* One "kind:number"; `end` is behind it. */
static bool parse_fault(sim_faults *f, bool *lost, const char *text, const char *end) {
  const char *colon = memchr(text, ':', (size_t)(end - text));
  if (!colon) return false;
  size_t length = (size_t)(colon - text);
#define KIND_IS(word) (length == sizeof(word) - 1 && !memcmp(text, word, sizeof(word) - 1))
  if (KIND_IS("peer")) {
    f->peer_off = end - colon == 4 && !memcmp(colon, ":off", 4);
    return f->peer_off;
  }
  if (KIND_IS("nccl")) {
    f->nccl_off = end - colon == 4 && !memcmp(colon, ":off", 4);
    return f->nccl_off;
  }
  char *rest;
  long number = strtol(colon + 1, &rest, 10);
  bool forever = KIND_IS("alloc") && rest + 1 == end && *rest == '+';
  if (rest == colon + 1 || (rest != end && !forever) || number < 0) return false;
  if (KIND_IS("alloc"))
    f->alloc = number, f->alloc_on = forever;
  else if (KIND_IS("launch"))
    f->launch = number;
  else if (KIND_IS("sticky"))
    f->sticky = number;
  else if (KIND_IS("slow"))
    f->slow = (double)number * 1e-3;
  else if (KIND_IS("dead") && number < TIDE_MAX_DEVICES)
    f->dead |= (uint64_t)1 << number;
  else if (KIND_IS("small") && number < TIDE_MAX_DEVICES)
    f->small |= (uint64_t)1 << number;
  else if (KIND_IS("lost") && number < TIDE_MAX_DEVICES)
    lost[number] = true;
  else
    return false;
#undef KIND_IS
  return true;
}

static bool parse_faults(sim_faults *f, bool *lost, const char *text) {
  while (*text) {
    const char *end = text + strcspn(text, ",");
    if (!parse_fault(f, lost, text, end)) return false;
    text = *end ? end + 1 : end;
  }
  return true;
}

static bool order(const char *text) {
  sim_faults faults = {0};
  bool lost[TIDE_MAX_DEVICES] = {false};
  if (text && !parse_faults(&faults, lost, text)) return false;
  tide__sim.faults = faults;
  pthread_cond_broadcast(&tide__sim.work); /* what was dead goes on */
  for (int d = 0; d < TIDE_MAX_DEVICES; d++)
    if (lost[d]) tide__sim_fail(d, true, 46, "cudaErrorDevicesUnavailable", "the device is gone");
  return true;
}

void tide__sim_fault_env(void) {
  const char *faults = getenv("TIDE_SIM_FAULT"), *dry = getenv("TIDE_SIM_DRY");
  tide__sim.env_bad = faults && *faults && !order(faults);
  if (dry && *dry) atomic_store(&tide__sim_dry, *dry != '0');
}

/* ---- the public functions ---- */

tide_status tide_sim_fault(const char *faults) {
  pthread_mutex_lock(&tide__sim.lock);
  bool ok = order(faults);
  pthread_mutex_unlock(&tide__sim.lock);
  if (ok) return TIDE_OK;
  return tide__fail(TIDE_VALUE,
                    "tide_sim_fault: not understood, got \"%s\", expected a list of alloc:k, alloc:k+, launch:k, "
                    "sticky:k, lost:d, dead:d, small:d, slow:ms, peer:off, nccl:off",
                    faults);
}

void tide_sim_wake(void) {
  TIDE_LOCKED(&tide__sim.lock);
  double now = tide__sim_now();
  for (sim_stream *s = tide__sim.streams; s; s = s->next) {
    for (sim_op *op = s->head; op; op = op->next) {
      if (op->kind != SIM_SLEEP || op->seconds < TIDE_SIM_HOLD) continue;
      op->seconds = op->started ? op->seconds - (op->not_before - now) : 0; /* what a trace shows of it */
      op->not_before = now;
    }
  }
  pthread_cond_broadcast(&tide__sim.work);
}
