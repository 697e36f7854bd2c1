/* state.c: what the files of memory/ ask of each other all the time: the allocator of each device, and the clock of
 * what is idle.
 *
 * This is the bottom of the room: it calls none of its other files.
 *
 * Invariant: an allocator that was never used is all zeros, its lock too. */
#include "allocator.h"

tide__allocator tide__allocators[TIDE_MAX_DEVICES]; /* zeros take no room in the library */
_Atomic int64_t tide__idle_ahead;
