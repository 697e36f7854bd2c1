/* accelerator.h: what the files of runtime share among themselves. */
#pragma once

#include "runtime.h"

/* backends.c: counts the visible devices without starting the driver. */
tide_status tide__visible_count(int *out);
