/* configure.c: what a start of the runtime reads: the host's configuration and the environment.
 *
 * What the configuration leaves open is read from the environment. Nothing is in force before all of it was understood.
 *
 * Invariant: the configuration changes only while tide does not run. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "accelerator.h"

static char cuda_path[PATH_MAX];

/* A whole number with an optional k, M or G (powers of 1024). An unset or empty variable leaves *out alone. */
static tide_status read_number(uint64_t *out, const char *variable, bool suffix) {
  const char *text = getenv(variable);
  if (!text || !*text) return TIDE_OK;
  char *end;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 0);
  int shift = 0;
  if (suffix && *end) {
    const char *units = "kKmMgG", *unit = strchr(units, *end);
    if (unit) shift = 10 * (int)((unit - units) / 2 + 1), end++;
  }
  if (errno || end == text || *end || *text == '-' || (shift && value >> (64 - shift)))
    return tide__fail(TIDE_VALUE, "init: %s is not a number, got \"%s\", expected a whole number%s", variable, text,
                      suffix ? ", with k, M or G after it if you like" : "");
  *out = (uint64_t)value << shift;
  return TIDE_OK;
}

tide_status tide__configure(const tide_config *given) {
  tide_config c = {.struct_size = sizeof c};
  if (given) memcpy(&c, given, given->struct_size < sizeof c ? given->struct_size : sizeof c);
  uint64_t devices = 0, memory = (uint64_t)1 << 30, seed = 0;
  TIDE_TRY(read_number(&devices, "TIDE_SIM_DEVICES", false));
  TIDE_TRY(read_number(&memory, "TIDE_SIM_MEMORY", true));
  TIDE_TRY(read_number(&seed, "TIDE_SIM_SEED", false));
  if (!c.sim_devices) c.sim_devices = devices > INT_MAX ? INT_MAX : (int)devices;
  if (c.sim_devices < 0 || c.sim_devices > TIDE_MAX_DEVICES)
    return tide__fail(TIDE_VALUE, "init: wrong number of simulated devices, got %d, expected 0 to %d", c.sim_devices,
                      TIDE_MAX_DEVICES);
  if (!c.sim_memory) c.sim_memory = (size_t)memory;
  if (!c.sim_seed) c.sim_seed = seed;
  if (c.cuda_path) {
    if (strlen(c.cuda_path) >= sizeof cuda_path) return tide__fail(TIDE_VALUE, "init: cuda_path is too long");
    memcpy(cuda_path, c.cuda_path, strlen(c.cuda_path) + 1);
    c.cuda_path = cuda_path;
  }
  TIDE_TRY(tide__host_install(&c));
  if (c.num_threads > 0) tide_set_num_threads(c.num_threads);
  return TIDE_OK;
}
