/* allocation_scope.c: labelled sums over the allocations of a part of a program.
 *
 * An allocation scope is opened in a tide_current, so each coroutine has its own; a block that is allocated meanwhile
 * holds the allocation scope until it is freed, by any thread and at any time, and the sums of the
 * allocation scope and of all its outer ones move at these two moments. The sums are atomics, not guarded by a device's
 * lock, because the allocations of one allocation scope may be on several devices. A label that nobody uses any more
 * goes with the last block or event that carries it.
 *
 * Invariant: an allocation scope holds a reference to its outer one, and live never exceeds peak once an allocation has
 * been counted. */
#include "allocation_scope.h"

#include <stdio.h>
#include <stdlib.h>

struct tide_allocation_scope {
  _Atomic int64_t refs, allocated, freed, peak, allocations;
  tide_allocation_scope *outer;
  char label[];
};

tide_status tide_allocation_scope_new(tide_allocation_scope **out, const char *label, tide_allocation_scope *outer) {
  TIDE_GIVEN("allocation_scope_new", out);
  if (!label) return tide__fail(TIDE_ARGUMENT, "allocation_scope: no label, got NULL, expected a string");
  size_t before = outer ? strlen(outer->label) + 1 : 0, size = before + strlen(label) + 1;
  tide_allocation_scope *t = calloc(1, sizeof *t + size);
  if (!t) return tide__fail(TIDE_MEMORY, "allocation_scope: no host memory");
  atomic_init(&t->refs, 1);
  snprintf(t->label, size, "%s%s%s", outer ? outer->label : "", outer ? "/" : "", label);
  t->outer = outer;
  if (outer) tide_allocation_scope_retain(outer);
  *out = t;
  return TIDE_OK;
}

void tide_allocation_scope_retain(tide_allocation_scope *t) {
  if (!t) return;
  tide__ref_take(&t->refs);
}

void tide_allocation_scope_release(tide_allocation_scope *t) {
  while (t && tide__ref_drop(&t->refs)) {
    tide_allocation_scope *outer = t->outer;
    free(t);
    t = outer;
  }
}

const char *tide_allocation_scope_label(const tide_allocation_scope *t) { return t ? t->label : NULL; }

void tide_allocation_scope_read(tide_allocation_figures *out, const tide_allocation_scope *t) {
  if (!out) return;
  if (!t) return;
  out->freed_bytes = atomic_load(&t->freed);
  out->allocated_bytes = atomic_load(&t->allocated);
  out->peak_bytes = atomic_load(&t->peak);
  out->allocations = atomic_load(&t->allocations);
  out->live_bytes = out->allocated_bytes - out->freed_bytes;
}

void tide__allocation_scope_add(tide_allocation_scope *t, size_t bytes) {
  for (; t; t = t->outer) {
    int64_t live = atomic_fetch_add(&t->allocated, (int64_t)bytes) + (int64_t)bytes - atomic_load(&t->freed);
    int64_t peak = atomic_load_explicit(&t->peak, memory_order_relaxed);
    while (live > peak && !atomic_compare_exchange_weak(&t->peak, &peak, live)) continue;
    atomic_fetch_add_explicit(&t->allocations, 1, memory_order_relaxed);
  }
}

void tide__allocation_scope_sub(tide_allocation_scope *t, size_t bytes) {
  for (; t; t = t->outer) atomic_fetch_add(&t->freed, (int64_t)bytes);
}
