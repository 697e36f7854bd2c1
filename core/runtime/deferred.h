/* deferred.h: what finalisers let go. Private to core. See deferred.c for the design. */
#pragma once

#include <stdatomic.h>

/* Part of what is to be let go. `release` runs once, with no lock held, on the thread that drains the list. */
typedef struct tide__deferred {
  struct tide__deferred *next;
  void (*release)(struct tide__deferred *self);
} tide__deferred;

/* Touches no driver and takes no lock. Nothing is in the list twice. */
void tide__deferred_push(tide__deferred *d, void (*release)(tide__deferred *self));

extern _Atomic(tide__deferred *) tide__deferred_last;
void tide__deferred_drain_slow(void);
/* By allocations, waits and the pump; where nothing is in the list, one load. */
static inline void tide__deferred_drain(void) {
  if (atomic_load_explicit(&tide__deferred_last, memory_order_relaxed)) tide__deferred_drain_slow();
}
