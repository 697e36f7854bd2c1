/* scratch.h: memory that kernels need while they run, kept from call to call, because pages that are new to the process
 * cost more than what is computed in them. */
#pragma once

#include <stddef.h>

#include "base/base.h"

/* At a multiple of 128 bytes; NULL if there is none. More than ROOM_FREE bytes count as host memory of the quota that
 * is bound to this thread: NULL, too, where it refuses them. */
void *tide__room_take(size_t bytes);
void tide__room_put(void *memory);
enum { ROOM_FREE = 1 << 20 };
/* The status of a kernel: QUOTA in the place of MEMORY where the quota has refused its working memory. */
tide_status tide__room_status(tide_status status);
/* Gives back what is kept. */
void tide__room_close(void);
