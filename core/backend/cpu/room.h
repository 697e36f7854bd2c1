/* room.h: memory that kernels need while they run, kept from call to call, because pages that are new to the process
 * cost more than what is computed in them. */
#ifndef TIDE_CPU_ROOM_H
#define TIDE_CPU_ROOM_H

#include <stddef.h>

/* At a multiple of 128 bytes; NULL if there is none. */
void *tide__room_take(size_t bytes);
void tide__room_put(void *memory);
/* Gives back what is kept. */
void tide__room_close(void);

#endif
