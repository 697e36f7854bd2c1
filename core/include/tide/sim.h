/* tide/sim.h: what a test can do with simulated devices (TIDE_SIM_DEVICES, tide_config.sim_devices). Everything here
 * may be called at any time, also before a simulated device is used; without simulated devices it changes nothing that
 * matters. */
#ifndef TIDE_SIM_H
#define TIDE_SIM_H

#include "tide/tide.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Orders faults, as a list "kind:number,kind:number"; an empty string or NULL takes back what has not happened yet. A
 * number k counts from 1, from this call on, over all simulated devices. The environment's TIDE_SIM_FAULT has the same
 * grammar. alloc:k   allocation k of device memory fails; alloc:k+ this one and every later one launch:k  kernel launch
 * k fails when it runs: reported once, by the next wait on its device sticky:k  likewise, and the device is lost from
 * then on lost:d    device d is lost at once slow:ms   every queued copy starts so many milliseconds late peer:off  no
 * device can reach another's memory dead:d    device d starts nothing that is queued any more, and tells nobody:
 * whoever waits for it waits until this is taken back small:d   device d offers half the memory of the others nccl:off
 * there is no collective library */
TIDE_API tide_status tide_sim_fault(const char *faults);

/* In dry mode nothing is computed or copied; every stream has a modelled clock (3 us a launch, 4 TB/s) instead, which
 * timed events read, and device memory is address space only. Waits for the work that is queued. Default:
 * TIDE_SIM_DRY=1. */
TIDE_API tide_status tide_sim_set_dry(bool dry);

/* TIDE_SIM_CLOCK=virtual in the environment, at the first use of a simulated device, gives the devices a clock that
 * leaves out what the host only waits for: sleeps and delays of queued work are over at once, in their order, and
 * events measure them as they would have been. The host's own clock, and so a profile that is made of events, then
 * shows less time than the devices'. Default: real. */

/* Memory of a simulated device as its driver would give it, for a program's own allocator (tide_allocator_open). */
TIDE_API tide_status tide_sim_mem_alloc(void **out, int device, size_t bytes);
/* Gives it back; waits for the device. */
TIDE_API void tide_sim_mem_free(int device, void *ptr);

/* Ends every sleep of a minute or more (tide_stream_sleep) that is queued now. A test holds a stream with one, looks at
 * what waits for the stream and what does not, and lets it go on: no clock decides what it sees. */
TIDE_API void tide_sim_wake(void);

/* Seconds on the modelled clock of the stream that is furthest ahead; 0 outside dry mode. */
TIDE_API double tide_sim_time(void);

#ifdef __cplusplus
}
#endif
#endif
