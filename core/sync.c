/* sync.c: what makes the host wait for a device, and who wants to know.
 *
 * Every function that waits begins with tide__sync_begin, one load when nobody is interested. */
#include "core.h"

_Atomic int tide__sync_watch;

tide_status tide__sync_slow(const char *what) {
  (void)what;
  return TIDE_OK;
}
