/* start.c: what streams register with the rooms below.
 *
 * Invariant: it runs once, when the code is loaded. */
#include "stream.h"

void tide__stream_start(void) {
  tide__backend_host.fail_driver = tide__fail_driver;
  tide__backend_host.wait_on = tide__wait_on;
  tide__device_current_set(tide_current_device);
}
