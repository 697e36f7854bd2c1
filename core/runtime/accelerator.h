/* accelerator.h: what the files of runtime share among themselves: the table before a device is opened, how many of the
 * machine's devices are visible, deferred calls. */
#ifndef TIDE_ACCELERATOR_H
#define TIDE_ACCELERATOR_H

#include "runtime.h"

/* ---- backends.c ---- */

/* Counts the visible devices without starting the driver. */
tide_status tide__visible_count(int *out);

/* ---- defer.c ---- */

/* What the opening of a device ends with: warns of one that is too old, runs what was deferred. */
tide_status tide__opened(int device);

#endif
