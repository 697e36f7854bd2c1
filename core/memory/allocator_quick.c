/* allocator_quick.c: small blocks that are freed and taken again, without the trees.
 *
 * A script frees blocks of few sizes and takes the same again. So a small block of the default pool that no other
 * stream has used is not merged with its neighbours, but kept in a list of its stream and size, where the next request
 * of both finds it. A tree that has nothing for a request gets all of them before anything else is tried, and so does
 * everybody who looks at free blocks: they take the lock by tide__allocator_lock, and never see a kept one.
 *
 * The same holds for the statistics: what comes and goes here moves five rows of the table by the same number or size,
 * so three counts stand for all of them until somebody takes the lock in another way. The peaks come out right, since
 * nothing else has moved those rows meanwhile.
 *
 * Where blocks are watched (history, allocation scopes, requested faults) they take the other way.
 *
 * Invariant: a list holds blocks of one stream and size, and they are not in a tree. */
#include "allocator.h"

enum { MOST = 16384 }; /* a collector frees thousands at a time */
static const size_t unit = 512, small_most = (size_t)1 << 20;

/* ---- the statistics ---- */

static inline void up(tide__quick_count *c, int64_t by) {
  c->up += by;
  if (c->up - c->down > c->most) c->most = c->up - c->down;
}

static void add_to(tide_stat rows[TIDE_POOL_COUNT], const tide__quick_count *c) {
  const int both[2] = {TIDE_POOL_ALL, TIDE_POOL_SMALL};
  for (int i = 0; i < 2; i++) {
    tide_stat *s = &rows[both[i]];
    if (s->current + c->most > s->peak) s->peak = s->current + c->most;
    s->current += c->up - c->down;
    s->allocated += c->up, s->freed += c->down;
  }
}

void tide__quick_settle_counts_slow(tide__allocator *a) {
  add_to(a->stats.allocation, &a->quick.blocks), add_to(a->stats.active, &a->quick.blocks);
  add_to(a->stats.allocated_bytes, &a->quick.bytes), add_to(a->stats.active_bytes, &a->quick.bytes);
  add_to(a->stats.requested_bytes, &a->quick.requested);
  a->quick.blocks = a->quick.bytes = a->quick.requested = (tide__quick_count){0};
}

static inline void publish(tide__allocator *a, size_t more) {
  size_t now = atomic_load_explicit(&a->allocated, memory_order_relaxed) + more;
  atomic_store_explicit(&a->allocated, now, memory_order_relaxed);
}

/* ---- the lists ---- */

static inline unsigned list_of(uint64_t stream, size_t size) {
  return (unsigned)((size / unit + stream * 37) % TIDE__QUICK_LISTS);
}

static void settle_list(tide__allocator *a, unsigned k) {
  while (a->quick.list[k].head) {
    tide_block *b = a->quick.list[k].head;
    a->quick.list[k].head = b->right;
    a->quick.kept--;
    tide__block_settle(a, b);
  }
}

void tide__quick_settle_slow(tide__allocator *a) {
  for (unsigned k = 0; k < TIDE__QUICK_LISTS; k++) settle_list(a, k);
}

void tide__quick_settle_for(tide__allocator *a, tide__pool_key key, size_t size) {
  unsigned k = list_of(key.stream, size);
  if (!key.mempool && a->quick.list[k].stream == key.stream && a->quick.list[k].size == size) settle_list(a, k);
}

tide_block *tide__block_quick(tide_stream *stream, size_t bytes) {
  tide__allocator *a = tide__allocator_of(stream->device);
  if (bytes > small_most || stream->capture || atomic_load_explicit(&tide__fault_left, memory_order_relaxed) > 0 ||
      atomic_load_explicit(&tide__history_on, memory_order_relaxed))
    return NULL;
  tide__deferred_drain();
  tide__deferred_frees_poll();
  size_t size = (bytes + unit - 1) / unit * unit;
  unsigned k = list_of(stream->id, size);
  tide__biased_lock(&a->lock);
  tide_block *b = a->quick.list[k].head;
  uint64_t tenant = tide__tenant();
  if (!b || a->quick.list[k].size != size || a->quick.list[k].stream != stream->id || a->set.divided ||
      (tenant && b->tenant != tenant)) { /* which is to be cleared */
    tide__allocator_unlock(a);
    return NULL;
  }
  a->quick.list[k].head = b->right;
  a->quick.kept--;
  b->state = BLOCK_USED;
  b->requested = bytes;
  b->tenant = tenant;
  up(&a->quick.blocks, 1), up(&a->quick.bytes, (int64_t)size), up(&a->quick.requested, (int64_t)bytes);
  publish(a, size);
  tide__allocator_unlock(a);
  b->note.site = tide__site_now(), b->note.stack = 0;
  return b;
}

bool tide__quick_free(tide__allocator *a, tide_block *b) {
  if (b->deferred.uses || b->deferred.wait_all || b->note.scope ||
      atomic_load_explicit(&tide__history_on, memory_order_relaxed))
    return false;
  tide__biased_lock(&a->lock);
  uint64_t stream = b->key.stream; /* 0: it has ended */
  size_t size = b->size;
  unsigned k = list_of(stream, size);
  bool keep = stream && a->source == SOURCE_CACHE && a->quick.kept < MOST;
  if (keep) {
    if (a->quick.list[k].size != size || a->quick.list[k].stream != stream) {
      settle_list(a, k);
      a->quick.list[k].size = size, a->quick.list[k].stream = stream;
    }
    b->right = a->quick.list[k].head;
    a->quick.list[k].head = b;
    a->quick.kept++;
    b->state = BLOCK_KEPT;
    a->quick.blocks.down++, a->quick.bytes.down += (int64_t)size, a->quick.requested.down += (int64_t)b->requested;
    publish(a, (size_t)0 - size);
  }
  tide__allocator_unlock(a);
  return keep;
}
