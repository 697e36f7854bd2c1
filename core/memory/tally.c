/* tally.c: labelled sums over the allocations of a part of a program.
 *
 * A tally is opened in a tide_current, so each coroutine has its own; a block that is allocated meanwhile holds the
 * tally until it is freed, by whatever thread and however much later, and the sums of the tally and of all its outer
 * ones move at these two moments. The sums are atomics, not guarded by a device's lock, because the allocations of one
 * tally may be on several devices. A label that nobody uses any more goes with the last block or event that carries it.
 *
 * Invariant: a tally holds a reference to its outer one, and live never exceeds peak once an allocation has been
 * counted. */
#include "tally.h"

#include <stdio.h>
#include <stdlib.h>

struct tide_tally {
  _Atomic int64_t refs, allocated, freed, peak, allocations;
  tide_tally *outer;
  char label[];
};

tide_status tide_tally_new(tide_tally **out, const char *label, tide_tally *outer) {
  if (!label) return tide__fail(TIDE_ARGUMENT, "tally: no label, got NULL, expected a string");
  size_t before = outer ? strlen(outer->label) + 1 : 0, size = before + strlen(label) + 1;
  tide_tally *t = calloc(1, sizeof *t + size);
  if (!t) return tide__fail(TIDE_MEMORY, "tally: no host memory");
  atomic_init(&t->refs, 1);
  snprintf(t->label, size, "%s%s%s", outer ? outer->label : "", outer ? "/" : "", label);
  t->outer = outer;
  if (outer) tide_tally_retain(outer);
  *out = t;
  return TIDE_OK;
}

void tide_tally_retain(tide_tally *t) { atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed); }

void tide_tally_release(tide_tally *t) {
  while (t && atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) == 1) {
    tide_tally *outer = t->outer;
    free(t);
    t = outer;
  }
}

const char *tide_tally_label(const tide_tally *t) { return t->label; }

void tide_tally_read(tide_tally_figures *out, const tide_tally *t) {
  out->freed_bytes = atomic_load(&t->freed);
  out->allocated_bytes = atomic_load(&t->allocated);
  out->peak_bytes = atomic_load(&t->peak);
  out->allocations = atomic_load(&t->allocations);
  out->live_bytes = out->allocated_bytes - out->freed_bytes;
}

void tide__tally_add(tide_tally *t, size_t bytes) {
  for (; t; t = t->outer) {
    int64_t live = atomic_fetch_add(&t->allocated, (int64_t)bytes) + (int64_t)bytes - atomic_load(&t->freed);
    int64_t peak = atomic_load_explicit(&t->peak, memory_order_relaxed);
    while (live > peak && !atomic_compare_exchange_weak(&t->peak, &peak, live)) continue;
    atomic_fetch_add_explicit(&t->allocations, 1, memory_order_relaxed);
  }
}

void tide__tally_sub(tide_tally *t, size_t bytes) {
  for (; t; t = t->outer) atomic_fetch_add(&t->freed, (int64_t)bytes);
}
