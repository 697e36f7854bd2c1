/* entropy.c: numbers that nobody can foresee, of 53 bits: every kind of Lua number holds one, so that a seed that is
 * printed can be set again.
 *
 * Invariant: it never fails: without the system's entropy the clock has to do. */

#include "os/os.h"
#include "tide/tide.h"

uint64_t tide_random_seed(void) {
  uint64_t seed;
  if (tide__os_random(&seed, sizeof seed)) return seed >> 11;
  /* No entropy call in this kernel or sandbox: the clock's nanoseconds, spread by a multiplication. */
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec) * UINT64_C(0x9E3779B97F4A7C15) >> 11;
}
