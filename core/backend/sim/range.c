/* range.c: ranges of addresses that are backed piece by piece, as a driver's virtual memory management has them.
 *
 * A range is a block of its device that has no memory of its own. Its pieces are whole granules and are unmapped as
 * they were mapped: a real driver refuses anything else, so here it is a fault of the device. What the device has in
 * use grows and shrinks with the pieces, not with the ranges.
 *
 * Invariant: in `piece`, the first granule of a piece has its number of granules, its other ones have INSIDE, and a
 * granule without memory has 0. */
#include <stdlib.h>

#include "sim.h"

#include "base/base.h"

static const size_t GRANULE = (size_t)2 << 20;
static const uint32_t INSIDE = UINT32_MAX;

tide_status tide__sim_range_granularity(size_t *out, int device) {
  *out = GRANULE;
  return TIDE_OK;
}

/* With the lock held: the range that has all these bytes. */
static sim_block *range_of(int device, const char *ptr, size_t bytes) {
  for (sim_block *b = tide__sim.device[device].blocks; b && b->ptr <= ptr; b = b->next)
    if (b->piece && ptr < b->ptr + b->bytes && bytes <= b->bytes - (size_t)(ptr - b->ptr)) return b;
  return NULL;
}

/* A gap is found at any page; the range begins at the first granule in it. */
tide_status tide__sim_range_reserve(void **out, int device, size_t bytes) {
  sim_state *s = &tide__sim;
  TIDE_TRY(tide__sim_enter("reserve"));
  sim_block *range = malloc(sizeof *range);
  uint32_t *piece = calloc(bytes / GRANULE, sizeof *piece);
  char *ptr = NULL;
  pthread_mutex_lock(&s->lock);
  sim_block **link = range && piece ? tide__sim_find_gap(&ptr, device, bytes + 2 * GRANULE) : NULL;
  if (link) {
    ptr += GRANULE - (size_t)(uintptr_t)ptr % GRANULE;
    *range = (sim_block){.next = *link, .ptr = ptr, .bytes = bytes, .piece = piece};
    *link = range;
  }
  pthread_mutex_unlock(&s->lock);
  if (!link) {
    free(range);
    free(piece);
    return s->host->fail(TIDE_MEMORY, "reserve: no addresses on cuda:%d, got %zu bytes", device, bytes);
  }
  *out = ptr;
  return TIDE_OK;
}

void tide__sim_range_release(int device, void *ptr, size_t bytes) {
  if (atomic_load(&tide__sim_forked)) return;
  TIDE_LOCKED(&tide__sim.lock);
  sim_block **link = &tide__sim.device[device].blocks;
  while (*link && (*link)->ptr != ptr) link = &(*link)->next;
  sim_block *range = *link;
  if (range) *link = range->next;
  if (range) free(range->piece);
  free(range);
}

static void fault(int device, const char *text) { tide__sim_fail(device, true, 1, "cudaErrorInvalidValue", text); }

tide_status tide__sim_range_map(int device, void *ptr, size_t bytes) {
  sim_state *s = &tide__sim;
  TIDE_TRY(tide__sim_enter("map"));
  pthread_mutex_lock(&s->lock);
  if (s->device[device].failure.set && s->device[device].failure.sticky) return tide__sim_leave(device, "map");
  sim_block *range = range_of(device, ptr, bytes);
  size_t used = s->device[device].used, cap = tide__sim_memory_of(device), left = cap > used ? cap - used : 0;
  bool fits = range && bytes <= left && !tide__sim_fault_alloc() && tide__sim_back(ptr, bytes);
  if (fits) {
    size_t first = (size_t)((char *)ptr - range->ptr) / GRANULE, n = bytes / GRANULE;
    for (size_t i = 0; i < n; i++) {
      if (range->piece[first + i]) fault(device, "memory was mapped where there is some");
      range->piece[first + i] = i ? INSIDE : (uint32_t)n;
    }
    s->device[device].used += bytes;
  }
  pthread_mutex_unlock(&s->lock);
  if (fits) return TIDE_OK;
  return s->host->fail(TIDE_MEMORY, "map: no memory on cuda:%d, got %zu bytes, expected at most %zu", device, bytes,
                       left);
}

void tide__sim_range_unmap(int device, void *ptr, size_t bytes) {
  if (atomic_load(&tide__sim_forked)) return;
  TIDE_LOCKED(&tide__sim.lock);
  sim_block *range = range_of(device, ptr, bytes);
  size_t first = range ? (size_t)((char *)ptr - range->ptr) / GRANULE : 0, n = bytes / GRANULE;
  if (range && range->piece[first] == n) {
    memset(range->piece + first, 0, n * sizeof *range->piece);
    tide__sim_unback(ptr, bytes);
    tide__sim.device[device].used -= bytes;
  } else {
    fault(device, "memory was unmapped otherwise than it was mapped");
  }
}

bool tide__sim_range_backed(const sim_block *range, const char *ptr, size_t bytes) {
  size_t first = (size_t)(ptr - range->ptr) / GRANULE;
  size_t last = (size_t)(ptr - range->ptr + (ptrdiff_t)(bytes ? bytes - 1 : 0)) / GRANULE;
  for (size_t g = first; g <= last; g++)
    if (!range->piece[g]) return false;
  return true;
}
