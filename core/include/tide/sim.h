/* tide/sim.h: what a test can do with simulated devices (TIDE_SIM_DEVICES, tide_config.sim_devices). Everything here
 * may be called at any time, also before a simulated device is used; without simulated devices it changes nothing that
 * matters. */
#ifndef TIDE_SIM_H
#define TIDE_SIM_H

#include "tide/tide.h"

TIDE_C_BEGIN

/* Orders faults: a list "kind:number,kind:number". An empty string or NULL cancels the faults still to come. A
 * number k counts from 1, from this call on, over all simulated devices; d is a device. TIDE_SIM_FAULT in the
 * environment has the same grammar.
 * - alloc:k, the kth allocation of device memory fails; alloc:k+, so do all later ones.
 * - launch:k, the kth kernel fails when it runs. The next wait for its device reports it, once.
 * - sticky:k, the same, and the device is lost from then on.
 * - lost:d, the device is lost at once.
 * - slow:ms, every queued copy starts this many milliseconds late.
 * - peer:off, no device can reach another's memory.
 * - dead:d, the device starts nothing more and reports nothing. A wait for it ends when this is canceled.
 * - small:d, the device offers half the memory of the others.
 * - nccl:off, there is no collective library. */
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

TIDE_C_END
#endif
