/* info.c: what simulated devices report of themselves.
 *
 * What they know they tell: the memory that is taken, whether work is queued (busy devices are at 100 percent), the
 * clock that a sleep counts. Of what they have not, they tell the same as a cool card at rest does: 40 degrees, 50 W.
 * They pose as devices of the capability that TIDE_SIM_CAPABILITY names ("8.6"; 9.0 without it) and there is code for
 * exactly 9.0 and what comes later, so that a device which is too old can be tried. */
#include "sim.h"

#include <stdlib.h>

#include "base/base.h"
#include "os/process.h"

enum { DEGREES = 40, MILLIWATTS = 50000, MEGAHERTZ = 1000 };

void tide__sim_capability(int *major, int *minor) {
  const char *text = getenv("TIDE_SIM_CAPABILITY");
  if (!text || sscanf(text, "%3d.%3d", major, minor) != 2) *major = 9, *minor = 0;
}

tide_status tide__sim_arch_list(char *text, size_t size) {
  snprintf(text, size, "sm_90 compute_90");
  return TIDE_OK;
}

/* With the lock held. */
static bool busy(int device) {
  for (const sim_stream *s = tide__sim.streams; s; s = s->next)
    if (s->device == device && s->head) return true;
  return false;
}

tide_status tide__sim_telemetry(int64_t *out, int device, tide_telemetry what) {
  TIDE_TRY(tide__sim_enter("telemetry"));
  TIDE_LOCKED(&tide__sim.lock);
  switch (what) {
  case TIDE_UTILIZATION:
  case TIDE_MEMORY_UTILIZATION: *out = busy(device) ? 100 : 0; break;
  case TIDE_TEMPERATURE: *out = DEGREES; break;
  case TIDE_POWER: *out = MILLIWATTS; break;
  case TIDE_CLOCK: *out = MEGAHERTZ; break;
  case TIDE_MEMORY_USED: *out = (int64_t)tide__sim.device[device].used; break;
  }
  return TIDE_OK;
}

/* This process alone, once it holds memory there. */
tide_status tide__sim_processes(tide_device_process *list, int *count, int device) {
  TIDE_TRY(tide__sim_enter("list_gpu_processes"));
  pthread_mutex_lock(&tide__sim.lock);
  size_t used = tide__sim.device[device].used;
  pthread_mutex_unlock(&tide__sim.lock);
  if (used && *count > 0) list[0] = (tide_device_process){tide__os_self(), (int64_t)used};
  *count = used ? 1 : 0;
  return TIDE_OK;
}
