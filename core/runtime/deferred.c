/* deferred.c: what finalisers let go.
 *
 * A finaliser may run anywhere: on a thread that holds locks of ours, while a graph is captured, in a collection that
 * an allocation has asked for. So it only hands over what is to be released, without a lock and without a call of the
 * driver; the next allocation, wait or pump, at a place where releasing is safe, goes through the list.
 *
 * Invariant: whoever takes the list takes all of it, so each entry is released exactly once. */
#include "deferred.h"

#include <stddef.h>

_Atomic(tide__deferred *) tide__deferred_last;

void tide__deferred_push(tide__deferred *d, void (*release)(tide__deferred *self)) {
  d->release = release;
  d->next = atomic_load_explicit(&tide__deferred_last, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(&tide__deferred_last, &d->next, d, memory_order_release,
                                                memory_order_relaxed))
    ;
}

void tide__deferred_drain_slow(void) {
  tide__deferred *d = atomic_exchange_explicit(&tide__deferred_last, NULL, memory_order_acquire);
  while (d) {
    tide__deferred *next = d->next;
    d->release(d);
    d = next;
  }
}
