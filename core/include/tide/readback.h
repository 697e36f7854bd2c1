/* tide/readback.h: the values of a tensor for a host that does not wait, such as a frame loop. Conventions as in
 * tide.h. */
#ifndef TIDE_READBACK_H
#define TIDE_READBACK_H

#include "tide/tide.h"

TIDE_C_BEGIN

/* Queues a copy of x to page-locked host memory on the current stream of x's device: *host is a new contiguous tensor
 * on the CPU, whose values are there when tide_readback_poll says so of *ready, a new event. Nothing waits. A tensor on
 * the CPU is copied at once. The caller releases both, whenever it likes; the next of that size takes the memory again,
 * and the first locks pages, which may take milliseconds for many of them. */
TIDE_API tide_status tide_readback(tide_tensor **host, tide_event **ready, const tide_tensor *x);
/* Are the values there? Never waits; an error of the device that made them comes out here. */
TIDE_API tide_status tide_readback_poll(bool *done, tide_event *ready);

TIDE_C_END
#endif
