/* accelerator.h: what the files of runtime share among themselves. */
#ifndef TIDE_ACCELERATOR_H
#define TIDE_ACCELERATOR_H

#include "runtime.h"

/* backends.c: counts the visible devices without starting the driver. */
tide_status tide__visible_count(int *out);

#endif
