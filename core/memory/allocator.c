/* allocator.c: the caching allocator, one for each device, above any backend.
 *
 * torch's policy, so that its statistics mean the same here: sizes are rounded up to 512 bytes; requests up to 1 MiB
 * come from segments of 2 MiB (small pool), those below 10 MiB from segments of 20 MiB, larger ones from segments of
 * their size rounded up to 2 MiB (large pool). The best fit among the free blocks of the same stream is split where the
 * rest is worth keeping. Blocks are ordered by streams: a freed block serves its own stream again at once,
 * because what is queued there runs later; a block that other streams used waits in deferred_free.c for their events.
 * The segments of a stream that has ended serve whichever stream asks first, so a host that makes a stream for each
 * frame does not grow.
 *
 * An allocation that finds nothing asks the driver; when that fails too it climbs: deferred releases and passed events,
 * the host's garbage (reclaim hooks), everything queued on the device, the cache itself, what is free between the
 * blocks of other streams. After every rung the pool is searched again. One lock for each device guards all of this; it
 * is never held while a hook runs or while the device is waited for.
 *
 * Invariant: the blocks of a segment cover it without gaps, and two free neighbours never exist. */
#include "allocator.h"

static const size_t unit = 512, small_most = (size_t)1 << 20, kept_whole = (size_t)20 << 20,
                    claimed_whole = (size_t)128 << 20;

static tide_mempool *pool_for(const tide_stream *stream) {
  return stream->capture ? tide__capture_pool(stream) : tide__current_pool(stream->device);
}

bool tide__pool_counts(const tide_stream *stream) {
  const tide_mempool *pool = pool_for(stream);
  return pool && pool->quota;
}

static bool prepare(tide__request *r, tide_stream *stream, size_t bytes) {
  if (bytes > (size_t)PTRDIFF_MAX / 4) return false;
  *r = (tide__request){.stream = stream, .bytes = bytes, .note = tide__note_now()};
  r->mempool = pool_for(stream);
  uint64_t id = r->mempool ? r->mempool->id : 0;
  r->key = (tide__pool_key){stream->capture && r->mempool ? ~id : id, stream->id};
  return true;
}

/* With the lock held, because it depends on the settings. What is captured is always cached: it must stay. */
static void measure(tide__allocator *a, tide__request *r) {
  r->size = tide__settings_round(&a->set, r->bytes ? r->bytes : 1, unit);
  r->pool = r->size <= small_most && r->source != SOURCE_SHARED ? TIDE_POOL_SMALL : TIDE_POOL_LARGE;
  if (r->source != SOURCE_SHARED) r->source = r->mempool || r->stream->capture ? SOURCE_CACHE : a->source;
}

static void publish(tide__allocator *a) {
  atomic_store_explicit(&a->allocated, (size_t)a->stats.allocated_bytes[TIDE_POOL_ALL].current, memory_order_relaxed);
}

/* ---- taking a block; the lock is held ---- */

/* A range has no segments to keep whole: any rest is worth keeping apart. */
static bool splits(const tide__allocator *a, const tide_block *b, const tide__request *r) {
  size_t rest = b->size - r->size;
  if (r->source != SOURCE_CACHE) return false;
  if (r->pool == TIDE_POOL_SMALL || b->segment->kind == SEGMENT_RANGE) return rest >= unit;
  return r->size < a->set.max_split && rest > small_most;
}

/* As torch counts: the free rests of ranges are not counted as splits. */
static void count_split(tide__allocator *a, const tide_block *b, size_t whole, bool was_split) {
  tide_memory_stats *st = &a->stats;
  int pool = b->segment->pool;
  if (b->segment->kind == SEGMENT_RANGE) return;
  if (b->size != whole) {
    tide__stat_move(st->inactive_split_bytes, pool, was_split ? -(int64_t)b->size : (int64_t)(whole - b->size));
    if (!was_split) tide__stat_up(st->inactive_split, pool, 1);
  } else if (was_split) {
    tide__stat_down(st->inactive_split_bytes, pool, (int64_t)b->size);
    tide__stat_down(st->inactive_split, pool, 1);
  }
}

/* The block, in no tree, becomes the answer to the request. */
static tide_block *carve(tide__allocator *a, tide_block *b, tide__request *r) {
  tide_memory_stats *st = &a->stats;
  bool was_split = b->prev || b->next;
  size_t whole = b->size;
  /* The rest too, unless it is much: else the two, one again, would hold the data of two owners. */
  if (tide__tenant() && (whole <= claimed_whole || whole / 4 <= r->size)) tide__block_claim(b, r);
  if (splits(a, b, r)) tide__block_split(a, b, r->size);
  tide__block_claim(b, r);
  count_split(a, b, whole, was_split);
  b->requested = r->bytes;
  tide__stat_up(st->allocation, r->pool, 1);
  tide__stat_up(st->allocated_bytes, r->pool, (int64_t)b->size);
  tide__stat_up(st->active, r->pool, 1);
  tide__stat_up(st->active_bytes, r->pool, (int64_t)b->size);
  tide__stat_up(st->requested_bytes, r->pool, (int64_t)r->bytes);
  b->oversize = b->size >= a->set.max_split;
  b->plain = r->pool == TIDE_POOL_SMALL && r->source == SOURCE_CACHE && !r->key.mempool && !b->oversize;
  if (b->oversize) tide__stat_one(&st->oversize_allocations, 1);
  publish(a);
  tide__idle_note(a, r->pool);
  b->note = r->note;
  tide__note_begin(&b->note, b->size);
  tide__history_add(TIDE_MEMORY_ALLOC, r->stream->device, b->ptr, b->size, r->stream->id, &b->note);
  return b;
}

/* Blocks of max_split_size and more are kept for requests of about their size. */
static bool suits(const tide__allocator *a, const tide_block *b, const tide__request *r) {
  if (b->size < a->set.max_split || b->segment->kind == SEGMENT_RANGE) return true;
  return r->size >= a->set.max_split && b->size < r->size + kept_whole;
}

static tide_block *take(tide__allocator *a, tide__request *r) {
  measure(a, r);
  if (r->source != SOURCE_CACHE) return NULL;
  if (a->quick.kept) tide__quick_settle_for(a, r->key, r->size); /* the block freed last would serve */
  tide_block *b = tide__pool_find(a, r->pool, r->key, r->size);
  if (!b && a->quick.kept) {
    tide__quick_settle(a);
    b = tide__pool_find(a, r->pool, r->key, r->size);
  }
  if (b && !suits(a, b, r)) return NULL;
  if (b)
    tide__pool_remove(a, b);
  else
    b = tide__pool_adopt(a, r->pool, r->key, r->size);
  return b ? carve(a, b, r) : NULL;
}

/* ---- more from the driver; the lock is held ---- */

/* Can the request be served from a segment that grows? Not one that no device could hold: its addresses alone would
 * need a table of gigabytes. */
static bool grows(const tide__allocator *a, const tide__request *r) {
  return r->source == SOURCE_CACHE && a->granule && a->set.expandable && r->size <= a->total &&
         !(r->mempool && r->mempool->source);
}

/* TIDE_MEMORY, with no error text of ours, when it does not fit. */
static tide_status grow(tide__allocator *a, tide__request *r, tide_block **out) {
  const tide_backend *backend;
  TIDE_TRY(tide__backend(&backend, a->device));
  tide_status status = TIDE_SUPPORT;
  if (grows(a, r)) status = tide__range_grow(out, a, backend, r);
  if (status == TIDE_SUPPORT) status = tide__source_grow(out, a, backend, r);
  if (status == TIDE_OK) *out = carve(a, *out, r);
  return status;
}

/* garbage_collection_threshold: above it the cache is given back until what is reserved is below it again. */
static void collect_excess(tide__leaving *out, tide__allocator *a, const tide__request *r) {
  size_t reserved = (size_t)a->stats.reserved_bytes[TIDE_POOL_ALL].current + r->size;
  size_t most = (size_t)(a->set.collect_above * (double)(a->capped ? a->limit : a->total));
  if (a->set.collect_above > 0 && reserved > most) tide__release_collect(out, a, false, reserved - most);
}

/* Nothing that is cached fits. Before the driver is asked, it gets back what no pool holds any more and what is in
 * holes; while a stream is captured nothing can be waited for. */
static tide_status find_more(tide__allocator *a, tide__request *r, tide_block **out) {
  if (a->source == SOURCE_UNREADY) TIDE_TRY(tide__allocator_ready(a, r->stream->device));
  tide__leaving idle = {0}, holes = {0}, others = {0};
  tide__allocator_lock(a);
  measure(a, r);
  if (!tide_thread_is_capturing()) {
    if (a->has_dead) tide__release_collect(&idle, a, true, SIZE_MAX);
    collect_excess(&idle, a, r);
    if (grows(a, r)) tide__range_trim(&holes, &others, a, r);
  }
  tide__allocator_unlock(a);
  tide__release_idle(a, &others);
  tide_status status = tide__release(a, &idle, NULL), second = tide__release(a, &holes, r->stream);
  if (status != TIDE_OK || second != TIDE_OK) return status != TIDE_OK ? status : second;
  tide__allocator_lock(a);
  *out = take(a, r); /* another thread may have let something go meanwhile */
  status = *out ? TIDE_OK : grow(a, r, out);
  r->active = (size_t)a->stats.active_bytes[TIDE_POOL_ALL].current;
  tide__allocator_unlock(a);
  return status;
}

/* ---- the ladder; no lock is held between its rungs ---- */

/* TIDE_MEMORY: still nothing. What has become free may need more beside it, so the driver is asked again; but only if
 * something has become free. */
static tide_status search(tide__allocator *a, tide__request *r, tide_block **out) {
  tide__deferred_drain();
  tide__deferred_frees_poll_slow(INT64_MAX);
  tide__stream_reap();
  tide__allocator_lock(a);
  *out = take(a, r);
  size_t active = (size_t)a->stats.active_bytes[TIDE_POOL_ALL].current;
  bool more = active < r->active && grows(a, r);
  tide__allocator_unlock(a);
  if (*out) return TIDE_OK;
  return more ? find_more(a, r, out) : TIDE_MEMORY;
}

static tide_status wait_for_device(tide__allocator *a, int device) {
  tide__allocator_lock(a);
  a->stats.num_sync_all_streams++;
  tide__allocator_unlock(a);
  return tide__memory_wait(device);
}

/* A block that nobody has, back among the free ones. */
static void put_back(tide__allocator *a, tide_block *b) {
  size_t size = b->size, merged;
  bool was_split = b->prev || b->next;
  int64_t blocks = -tide__block_merge(a, b, &merged) - was_split, bytes = -(int64_t)merged;
  if (was_split) bytes -= (int64_t)size;
  if (b->prev || b->next) blocks++, bytes += (int64_t)b->size;
  tide__pool_insert(a, b);
  if (b->segment->kind == SEGMENT_RANGE) return;
  tide__stat_move(a->stats.inactive_split, b->segment->pool, blocks);
  tide__stat_move(a->stats.inactive_split_bytes, b->segment->pool, bytes);
}

/* What is free in the segment of another stream, between blocks that are in use. Once it is out of the tree the device
 * is waited for, so nothing that is queued uses it. It stays that stream's: once freed it waits for this one. */
static tide_status borrow(tide__allocator *a, tide__request *r, tide_block **out) {
  tide__allocator_lock(a);
  tide_block *b = tide__pool_foreign(a, r->key, r->size);
  if (b && !suits(a, b, r)) b = NULL;
  if (b) tide__pool_remove(a, b);
  tide__allocator_unlock(a);
  if (!b) return TIDE_MEMORY;
  tide_status status = wait_for_device(a, r->stream->device);
  if (status == TIDE_OK) tide__deferred_free_use(&b->deferred, r->stream);
  tide__allocator_lock(a);
  r->pool = b->segment->pool;
  if (status == TIDE_OK)
    *out = carve(a, b, r);
  else
    put_back(a, b);
  tide__allocator_unlock(a);
  return status;
}

static tide_status out_of_memory(tide__allocator *a, const tide__request *r) {
  tide__allocator_lock(a);
  a->stats.num_ooms++;
  tide__allocator_unlock(a);
  return tide__allocator_fail(a, r->stream->device, r->bytes);
}

/* The last rungs: the driver once more, then what other streams do not use. */
static tide_status retry(tide__allocator *a, tide__request *r, tide_block **out) {
  tide__allocator_lock(a);
  *out = take(a, r);
  if (!*out) a->stats.num_alloc_retries++;
  tide_status status = *out ? TIDE_OK : grow(a, r, out);
  tide__allocator_unlock(a);
  if (status == TIDE_MEMORY && r->source == SOURCE_CACHE && !tide_thread_is_capturing()) status = borrow(a, r, out);
  return status;
}

/* What may be there by now, or is once the device has been waited for. */
static tide_status lower_rungs(tide__allocator *a, tide__request *r, tide_block **out) {
  tide_status status = search(a, r, out);
  if (status != TIDE_MEMORY) return status;
  if (!tide_thread_is_capturing()) { /* a wait would end the capture */
    TIDE_TRY(wait_for_device(a, r->stream->device));
    status = search(a, r, out);
    if (status != TIDE_MEMORY) return status;
    TIDE_TRY(tide__allocator_release_cached(a));
  }
  return retry(a, r, out);
}

static tide_status rungs(tide__allocator *a, tide__request *r, tide_block **out) {
  tide_status status = search(a, r, out);
  if (status != TIDE_MEMORY) return status;
  tide__reclaim(r->stream->device, r->bytes);
  status = lower_rungs(a, r, out);
  if (status == TIDE_MEMORY && tide__reclaim_wait()) status = lower_rungs(a, r, out);
  return status == TIDE_MEMORY ? out_of_memory(a, r) : status;
}

/* The hooks run finalisers, which may make another stream or pool current and drop the request's. */
static tide_status climb(tide__allocator *a, tide__request *r, tide_block **out, tide_status status) {
  tide_stream_retain(r->stream);
  if (r->mempool) tide_mempool_retain(r->mempool);
  if (status == TIDE_QUOTA) { /* what scripts have dropped counts until it is collected */
    tide__reclaim(r->stream->device, r->bytes);
    tide__deferred_drain();
    status = find_more(a, r, out);
  } else {
    status = rungs(a, r, out);
  }
  tide_mempool_release(r->mempool);
  tide__stream_keep(r->stream);
  return status;
}

/* ---- what core calls ---- */

static tide_status alloc(tide_block **out, tide__request *r) {
  tide__allocator *a = tide__allocator_of(r->stream->device);
  tide__deferred_drain();
  tide__deferred_frees_poll();
  tide__allocator_enter(a);
  tide_block *b = take(a, r);
  tide__allocator_unlock(a);
  tide_status status = b ? TIDE_OK : find_more(a, r, &b);
  if (status == TIDE_MEMORY || status == TIDE_QUOTA) status = climb(a, r, &b, status);
  if (status == TIDE_OK && r->unclean) tide__block_free(b), status = r->unclean;
  if (status == TIDE_OK) *out = b;
  return status;
}

tide_status tide__block_alloc(tide_block **out, tide_stream *stream, size_t bytes) {
  tide_block *b = tide__current_plain(stream->device) ? tide__block_quick(stream, bytes) : NULL;
  if (!b) return tide__block_alloc_slow(out, stream, bytes);
  *out = b;
  return TIDE_OK;
}

tide_status tide__block_alloc_slow(tide_block **out, tide_stream *stream, size_t bytes) {
  tide__request r;
  if (!prepare(&r, stream, bytes) || tide__fault_now())
    return tide__allocator_fail(tide__allocator_of(stream->device), stream->device, bytes);
  return alloc(out, &r);
}

tide_status tide__block_alloc_plain(tide_block **out, tide_stream *stream, size_t bytes) {
  tide__request r;
  if (!prepare(&r, stream, bytes) || tide__fault_now())
    return tide__allocator_fail(tide__allocator_of(stream->device), stream->device, bytes);
  r.source = SOURCE_SHARED;
  return alloc(out, &r);
}

bool tide__block_base(const tide_block *block, void **base, size_t *bytes) {
  if (block->segment->kind != SEGMENT_PLAIN) return false;
  *base = block->segment->ptr, *bytes = block->segment->size;
  return true;
}

bool tide__block_of_driver(const tide_block *block) { return block->segment->kind != SEGMENT_OWN; }
void *tide__block_ptr(const tide_block *block) { return block->ptr; }
uint32_t tide__block_site(const tide_block *block) { return block->note.site; }
void tide__block_use(tide_block *block, tide_stream *stream) { tide__deferred_free_use(&block->deferred, stream); }

/* The lock is held; no stream but the block's own has work on it any more. */
static void settle(tide__allocator *a, tide_block *b) {
  tide_memory_stats *st = &a->stats;
  int pool = b->segment->pool;
  size_t size = b->size;
  tide__history_add(TIDE_MEMORY_FREE_COMPLETED, tide__allocator_device(a), b->ptr, size, b->key.stream, &b->note);
  tide__note_end(&b->note);
  tide__block_settle(a, b);
  tide__stat_down(st->active, pool, 1);
  tide__stat_down(st->active_bytes, pool, (int64_t)size);
  tide__stat_down(st->requested_bytes, pool, (int64_t)b->requested);
  tide__idle_note(a, pool);
  if (tide__mempool_dead(b->segment->mempool)) a->has_dead = true;
}

/* No stream works on it any more, but perhaps its own; nor does that one if the block is alone in its segment. */
static void release(tide__allocator *a, tide_block *b) {
  tide__allocator_enter(a);
  bool alone = b->segment->alone;
  settle(a, b);
  tide__allocator_unlock(a);
  if (alone) tide__block_give(a, b);
}

static void free_now(void *arg) {
  tide_block *b = arg;
  release(b->owner, b);
}

/* Must the block wait in deferred_free.c? Always for the other streams that used it; where its memory goes back to the
 * driver, for its own stream too, unless that is known to have nothing queued any more. */
static bool must_defer(const tide__allocator *a, tide_block *b) {
  bool shared = b->deferred.uses || b->deferred.wait_all;
  if (!b->segment->alone || (!shared && tide__block_may_go(a, b))) return shared;
  tide__deferred_free_use(&b->deferred, b->segment->stream);
  return true;
}

void tide__block_free(tide_block *b) {
  if (!b) return;
  tide__allocator *a = b->owner;
  if (b->plain && tide__quick_free(a, b)) return;
  bool shared = must_defer(a, b), alone = b->segment->alone;
  tide__allocator_enter(a);
  tide__stat_down(a->stats.allocation, b->segment->pool, 1);
  tide__stat_down(a->stats.allocated_bytes, b->segment->pool, (int64_t)b->size);
  if (b->oversize) tide__stat_one(&a->stats.oversize_allocations, -1);
  publish(a);
  tide__history_add(TIDE_MEMORY_FREE_REQUESTED, tide__allocator_device(a), b->ptr, b->size, b->key.stream, &b->note);
  tide__note_freed(&b->note, b->size);
  if (shared)
    b->state = BLOCK_DEFERRED;
  else
    settle(a, b);
  tide__allocator_unlock(a);
  if (shared)
    tide__deferred_free_begin(&b->deferred, free_now, b);
  else if (alone)
    tide__block_give(a, b);
}

/* Every wait has been done. Blocks that storages still hold go too: a storage of an ended epoch does not look at its
 * block. */
void tide__allocator_shutdown(void) {
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    tide__allocator *a = tide__allocator_of(d);
    const tide_backend *backend = tide__backend_peek(d);
    tide__allocator_lock(a);
    for (tide__segment *s = a->segments; backend && s; s = s->next) {
      for (tide_block *b = s->head; b; b = b->next) {
        tide__deferred_free_drop(&b->deferred);
        tide__note_end(&b->note);
      }
      tide__segment_give(s, backend, d);
      tide__mempool_count(s->mempool, -(int64_t)s->size);
      tide__mempool_drop(s->mempool);
    }
    tide__slabs_free(a);
    memset(a->raw, 0, sizeof a->raw);
    a->stats = (tide_memory_stats){0};
    a->capped = a->cap_set = false, a->has_dead = false;
    a->ordered = 0;
    memset(&a->idle, 0, sizeof a->idle);
    memset(&a->quick, 0, sizeof a->quick);
    a->source = SOURCE_UNREADY;
    atomic_store_explicit(&a->reserved, 0, memory_order_relaxed);
    publish(a);
    tide__allocator_unlock(a);
  }
  tide__history_shutdown();
}
