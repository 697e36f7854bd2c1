/* still_time.c: a time() that stands still, for counts of instructions. Preloaded into the runner.
 *
 * Lua seeds the hash of its strings with the time, so that names collide differently in each run and look-ups take a
 * few instructions more or less. Everything else that enters the seed is an address, which valgrind keeps the same. */
#include <time.h>

time_t time(time_t *out) {
  const time_t still = 1700000000;
  if (out) *out = still;
  return still;
}
