/* idle.h: what the caches of freed memory share: a cheap clock, their bounds, and when idle pieces go. */
#pragma once

#include <stdatomic.h>

#include "os/os.h"

extern _Atomic int64_t tide__idle_ahead; /* for tests: milliseconds added to the clock */
static inline int64_t tide__idle_now(void) {
  return tide__os_coarse_ms() + atomic_load_explicit(&tide__idle_ahead, memory_order_relaxed);
}

enum { TIDE__IDLE_MS = 2000 }; /* what nobody has asked for so long goes */

/* How much freed memory may be kept beside so much that is in use. */
static inline size_t tide__idle_cap(size_t live) {
  const size_t least = (size_t)256 << 20;
  return live / 4 > least ? live / 4 : least;
}
