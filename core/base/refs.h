/* refs.h: reference counts. Private to core. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

static inline void tide__ref_take(_Atomic int64_t *refs) { atomic_fetch_add_explicit(refs, 1, memory_order_relaxed); }

/* One reference less, or some at once: were they the last? That one is found out without a locked instruction, and is
 * left in the count. Only for what is reached through references alone: who finds it in a list, and goes by its count,
 * would take it for alive; streams and pools count down all the way. */
static inline bool tide__ref_drop_some(_Atomic int64_t *refs, int64_t n) {
  return atomic_load_explicit(refs, memory_order_acquire) == n ||
         atomic_fetch_sub_explicit(refs, n, memory_order_acq_rel) == n;
}
static inline bool tide__ref_drop(_Atomic int64_t *refs) { return tide__ref_drop_some(refs, 1); }
