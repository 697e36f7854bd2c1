/* allocator_release.c: memory on its way back to the driver.
 *
 * In three steps, because the device must be waited for and the lock is never held meanwhile: under the lock the free
 * pieces are taken from the trees, so that nothing new can be queued on them; then the wait, and the driver's calls;
 * then, under the lock again, the structs go. If the wait is interrupted everything goes back to the trees.
 *
 * Invariant: a block or segment that is leaving is reached by the thread that took it out and nobody else, though its
 * neighbours in a range may change meanwhile. */
#include "allocator.h"

/* ---- what leaves ---- */

static void collect(tide__leaving *out, tide__allocator *a, bool dead_alone, bool large_alone, size_t most) {
  for (tide__segment *s = a->segments, *next; s && out->bytes < most; s = next) {
    next = s->next;
    if (s->alone || tide__pool_key_kept(s->key, s->mempool) || (dead_alone && !tide__mempool_dead(s->mempool)))
      continue;
    if (large_alone && s->pool != TIDE_POOL_LARGE) continue;
    if (s->kind == SEGMENT_RANGE && s->size) {
      tide__range_leave(out, a, s, most - out->bytes);
      continue;
    }
    if (s->size && (s->head->state != BLOCK_FREE || s->head->next)) continue;
    if (s->size) tide__pool_remove(a, s->head);
    tide__segment_unhook(a, s);
    s->next = out->segments, out->segments = s;
    out->bytes += s->size;
  }
}

void tide__release_collect(tide__leaving *out, tide__allocator *a, bool dead_alone, size_t most) {
  if (most == SIZE_MAX) a->has_dead = false;
  collect(out, a, dead_alone, false, most);
}

void tide__release_collect_large(tide__leaving *out, tide__allocator *a, size_t most) {
  collect(out, a, false, true, most);
}

/* ---- the three steps ---- */

void tide__release_undo(tide__allocator *a, const tide__leaving *leaving) {
  tide__allocator_lock(a);
  for (tide__segment *s = leaving->segments, *next; s; s = next) {
    next = s->next;
    s->prev = NULL, s->next = a->segments;
    if (s->next) s->next->prev = s;
    a->segments = s;
    if (s->size) tide__pool_insert(a, s->head);
  }
  for (tide_block *b = leaving->blocks, *next; b; b = next) {
    next = b->left;
    tide__range_return(a, b);
  }
  tide__allocator_unlock(a);
}

static void drop_segment(tide__allocator *a, tide__segment *s) {
  tide__block_drop(a, s->head);
  tide__segment_drop(a, s);
}

/* Structs and statistics of what has gone. Ranges that have nothing any more go too, and their addresses with them. */
static void finish(tide__allocator *a, const tide__leaving *leaving, const tide_backend *backend) {
  tide__allocator_lock(a);
  for (tide__segment *s = leaving->segments, *next; s; s = next) {
    next = s->next;
    if (s->size) {
      tide__stat_reserve(a, s->pool, -1, -(int64_t)s->size);
      tide__history_add(TIDE_MEMORY_SEGMENT_FREE, a->device, s->ptr, s->size, s->key.stream, NULL);
    }
    if (s->oversize) tide__stat_one(&a->stats.oversize_segments, -1);
    drop_segment(a, s);
  }
  for (tide_block *b = leaving->blocks, *next; b; b = next) {
    next = b->left;
    tide__segment *s = b->segment;
    tide__range_left(a, b);
    if (s->size || s->head->next) continue;
    tide__segment_give(s, backend, a->device);
    tide__segment_unhook(a, s);
    drop_segment(a, s);
  }
  tide__allocator_unlock(a);
}

void tide__release_now(tide__allocator *a, const tide__leaving *leaving) {
  const tide_backend *backend = tide__backend_peek(a->device);
  for (const tide__segment *s = leaving->segments; s; s = s->next) tide__segment_give(s, backend, a->device);
  if (leaving->blocks && tide__sync_watched()) TIDE_OBSERVE(memory_settled);
  for (const tide_block *b = leaving->blocks; b; b = b->left) tide__range_unmap(b, backend, a->device);
  finish(a, leaving, backend);
}

tide_status tide__release(tide__allocator *a, const tide__leaving *leaving, tide_stream *stream) {
  const tide_backend *backend = tide__backend_peek(a->device);
  if (!backend || (!leaving->segments && !leaving->blocks)) return TIDE_OK;
  tide_status status = TIDE_OK;
  if (!tide__device_lost(NULL, a->device))
    status = stream ? backend->stream_sync(stream->impl) : backend->device_sync(a->device);
  if (status != TIDE_OK && !tide__device_lost(NULL, a->device)) {
    tide__release_undo(a, leaving); /* interrupted */
    return status;
  }
  tide__release_now(a, leaving);
  return status;
}

tide_status tide__allocator_release_cached(tide__allocator *a) {
  tide__leaving leaving = {0};
  tide__allocator_lock(a);
  tide__release_collect(&leaving, a, false, SIZE_MAX);
  bool ordered = tide__allocator_ordered(a);
  tide__allocator_unlock(a);
  TIDE_TRY(tide__release(a, &leaving, NULL));
  const tide_backend *backend = ordered ? tide__backend_peek(a->device) : NULL;
  return backend && !tide__device_lost(NULL, a->device) ? backend->mem_trim_async(a->device) : TIDE_OK;
}

tide_status tide__allocator_reap(int device) {
  tide__allocator *a = tide__allocator_of(device);
  tide__leaving leaving = {0};
  tide__allocator_lock(a);
  if (a->has_dead) tide__release_collect(&leaving, a, true, SIZE_MAX);
  tide__allocator_unlock(a);
  return tide__release(a, &leaving, NULL);
}
