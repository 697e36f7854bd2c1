/* allocator.c: the caching allocator, one for each device, above any backend.
 *
 * torch's policy, so that its statistics mean the same here: sizes are rounded up to 512 bytes; requests up to 1 MiB
 * come from segments of 2 MiB (small pool), those below 10 MiB from segments of 20 MiB, larger ones from segments of
 * their size rounded up to 2 MiB (large pool). The best fit among the free blocks of the same stream is split where the
 * rest is worth keeping. Blocks are ordered by streams: a block that is let go serves its own stream again at once,
 * because what is queued there runs later; a block that other streams used waits in park.c for their events. The
 * segments of a stream that has ended serve whichever stream asks first, so a host that makes a stream for each frame
 * does not grow.
 *
 * An allocation that finds nothing asks the driver; when that fails too it climbs: deferred releases and passed events,
 * the host's garbage (reclaim hooks), everything queued on the device, the cache itself. After every rung the pool is
 * searched again. One mutex for each device guards all of this; it is never held while a hook runs or while the device
 * is waited for.
 *
 * Invariant: the blocks of a segment cover it without gaps, and two free neighbours never exist. */
#include "allocator.h"

static const size_t unit = 512, small_most = (size_t)1 << 20, small_segment = (size_t)2 << 20,
                    middle_most = (size_t)10 << 20, middle_segment = (size_t)20 << 20, large_unit = (size_t)2 << 20;

static tide__allocator allocators[TIDE_MAX_DEVICES] = {
    [0 ... TIDE_MAX_DEVICES - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER, .seed = 1}};

tide__allocator *tide__allocator_of(int device) { return &allocators[device]; }

typedef struct request {
  tide_stream *stream;
  tide_mempool *mempool; /* NULL: the default one */
  tide__lane lane;
  size_t bytes, size, segment; /* asked for, rounded, what the driver would be asked for */
  int pool;
  tide__note note; /* of who asks */
} request;

static size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

static bool prepare(request *r, tide_stream *stream, size_t bytes) {
  if (bytes > (size_t)PTRDIFF_MAX) return false;
  r->stream = stream, r->bytes = bytes;
  r->note = tide__note_now();
  r->mempool = stream->capture ? tide__capture_pool(stream->capture) : tide__current_pool(stream->device);
  r->lane = (tide__lane){r->mempool ? r->mempool->id : 0, stream->id};
  r->size = round_up(bytes ? bytes : 1, unit);
  r->pool = r->size <= small_most ? TIDE_POOL_SMALL : TIDE_POOL_LARGE;
  r->segment = r->pool == TIDE_POOL_SMALL ? small_segment
               : r->size < middle_most    ? middle_segment
                                          : round_up(r->size, large_unit);
  return true;
}

static void publish(tide__allocator *a) {
  atomic_store_explicit(&a->allocated, (size_t)a->stats.allocated_bytes[TIDE_POOL_ALL].current, memory_order_relaxed);
}

/* ---- taking a block; the lock is held ---- */

/* The block, in no tree, becomes the answer to the request. */
static tide_block *carve(tide__allocator *a, tide_block *b, const request *r) {
  tide_memory_stats *st = &a->stats;
  bool was_split = b->prev || b->next;
  size_t whole = b->size, rest = whole - r->size;
  if (r->pool == TIDE_POOL_SMALL ? rest >= unit : rest > small_most) tide__block_split(a, b, r->size);
  if (b->size != whole) {
    tide__stat_move(st->inactive_split_bytes, r->pool, was_split ? -(int64_t)b->size : (int64_t)rest);
    if (!was_split) tide__stat_up(st->inactive_split, r->pool, 1);
  } else if (was_split) {
    tide__stat_down(st->inactive_split_bytes, r->pool, (int64_t)b->size);
    tide__stat_down(st->inactive_split, r->pool, 1);
  }
  b->requested = r->bytes;
  tide__stat_up(st->allocation, r->pool, 1);
  tide__stat_up(st->allocated_bytes, r->pool, (int64_t)b->size);
  tide__stat_up(st->active, r->pool, 1);
  tide__stat_up(st->active_bytes, r->pool, (int64_t)b->size);
  tide__stat_up(st->requested_bytes, r->pool, (int64_t)r->bytes);
  publish(a);
  b->note = r->note;
  tide__note_begin(&b->note, b->size);
  tide__history_add(TIDE_MEMORY_ALLOC, r->stream->device, b->ptr, b->size, r->stream->id, &b->note);
  return b;
}

static tide_block *take(tide__allocator *a, const request *r) {
  tide_block *b = tide__pool_find(a, r->pool, r->lane, r->size);
  if (b)
    tide__pool_remove(a, b);
  else
    b = tide__pool_adopt(a, r->pool, r->lane, r->size);
  return b ? carve(a, b, r) : NULL;
}

/* A new segment from the driver. TIDE_MEMORY, with no error text of ours, when it does not fit. */
static tide_status grow(tide__allocator *a, const request *r, bool retry, tide_block **out) {
  int device = r->stream->device;
  const tide_backend *backend;
  TIDE_TRY(tide__backend(&backend, device));
  if (retry) a->stats.num_alloc_retries++;
  size_t reserved = (size_t)a->stats.reserved_bytes[TIDE_POOL_ALL].current;
  if (a->capped && (r->segment > a->limit || reserved > a->limit - r->segment)) return TIDE_MEMORY;
  void *ptr;
  TIDE_TRY(backend->mem_alloc(&ptr, device, r->segment));
  tide_block *b = tide__segment_new(a, ptr, r->segment, r->mempool, r->stream->id, r->pool);
  if (!b) {
    backend->mem_free(device, ptr, r->segment);
    return TIDE_MEMORY;
  }
  a->stats.num_device_alloc++;
  tide__history_add(TIDE_MEMORY_SEGMENT_ALLOC, device, ptr, r->segment, r->stream->id, NULL);
  tide__stat_up(a->stats.segment, r->pool, 1);
  tide__stat_up(a->stats.reserved_bytes, r->pool, (int64_t)r->segment);
  atomic_store_explicit(&a->reserved, reserved + r->segment, memory_order_relaxed);
  *out = carve(a, b, r);
  return TIDE_OK;
}

/* ---- the ladder; no lock is held between its rungs ---- */

static tide_block *search(tide__allocator *a, const request *r) {
  tide__deferred_drain();
  tide__park_poll_slow(INT64_MAX);
  tide__stream_reap();
  pthread_mutex_lock(&a->lock);
  tide_block *b = take(a, r);
  pthread_mutex_unlock(&a->lock);
  return b;
}

static tide_status wait_for_device(tide__allocator *a, int device) {
  const tide_backend *backend;
  TIDE_TRY(tide__backend(&backend, device));
  pthread_mutex_lock(&a->lock);
  a->stats.num_sync_all_streams++;
  pthread_mutex_unlock(&a->lock);
  return backend->device_sync(device);
}

static void put_back(tide__allocator *a, tide__segment *list) {
  pthread_mutex_lock(&a->lock);
  while (list) {
    tide__segment *s = list;
    list = s->next;
    s->prev = NULL, s->next = a->segments;
    if (s->next) s->next->prev = s;
    a->segments = s;
    tide__pool_insert(a, s->head);
  }
  pthread_mutex_unlock(&a->lock);
}

/* The segments are unhooked first, so nothing new can be queued on them while the device is waited for. */
static tide_status release_segments(tide__allocator *a, int device, bool dead_alone) {
  const tide_backend *backend = tide__backend_peek(device);
  if (!backend) return TIDE_OK;
  pthread_mutex_lock(&a->lock);
  tide__segment *list = tide__segments_detach(a, dead_alone);
  pthread_mutex_unlock(&a->lock);
  if (!list) return TIDE_OK;
  tide_status status = tide__device_lost(NULL, device) ? TIDE_OK : backend->device_sync(device);
  if (status != TIDE_OK && !tide__device_lost(NULL, device)) {
    put_back(a, list); /* interrupted */
    return status;
  }
  for (tide__segment *s = list; s; s = s->next) backend->mem_free(device, s->ptr, s->size);
  pthread_mutex_lock(&a->lock);
  while (list) {
    tide__segment *s = list;
    list = s->next;
    a->stats.num_device_free++;
    tide__history_add(TIDE_MEMORY_SEGMENT_FREE, device, s->ptr, s->size, s->lane.stream, NULL);
    tide__stat_down(a->stats.segment, s->pool, 1);
    tide__stat_down(a->stats.reserved_bytes, s->pool, (int64_t)s->size);
    tide__block_drop(a, s->head);
    tide__segment_drop(a, s);
  }
  atomic_store_explicit(&a->reserved, (size_t)a->stats.reserved_bytes[TIDE_POOL_ALL].current, memory_order_relaxed);
  pthread_mutex_unlock(&a->lock);
  return status;
}

tide_status tide__allocator_release_cached(tide__allocator *a, int device) {
  return release_segments(a, device, false);
}

tide_status tide__allocator_reap(int device) {
  tide__allocator *a = &allocators[device];
  return a->has_dead ? release_segments(a, device, true) : TIDE_OK;
}

static tide_status give_up(tide__allocator *a, int device, size_t bytes) {
  pthread_mutex_lock(&a->lock);
  a->stats.num_ooms++;
  pthread_mutex_unlock(&a->lock);
  return tide__allocator_fail(a, device, bytes);
}

static tide_status climb(tide__allocator *a, const request *r, tide_block **out) {
  int device = r->stream->device;
  if ((*out = search(a, r))) return TIDE_OK;
  tide__reclaim(device, r->bytes);
  if ((*out = search(a, r))) return TIDE_OK;
  if (tide_thread_is_capturing()) return give_up(a, device, r->bytes); /* a wait would end the capture */
  TIDE_TRY(wait_for_device(a, device));
  if ((*out = search(a, r))) return TIDE_OK;
  TIDE_TRY(tide__allocator_release_cached(a, device));
  pthread_mutex_lock(&a->lock);
  *out = take(a, r); /* another thread may have let something go meanwhile */
  tide_status status = *out ? TIDE_OK : grow(a, r, true, out);
  if (status == TIDE_MEMORY) a->stats.num_ooms++;
  pthread_mutex_unlock(&a->lock);
  return status == TIDE_MEMORY ? tide__allocator_fail(a, device, r->bytes) : status;
}

/* Before the driver is asked for more, it gets back what pools have left behind that nobody holds any more. */
static tide_status grow_reaping(tide__allocator *a, const request *r, tide_block **out) {
  TIDE_TRY(release_segments(a, r->stream->device, true));
  pthread_mutex_lock(&a->lock);
  tide_status status = grow(a, r, false, out);
  pthread_mutex_unlock(&a->lock);
  return status;
}

/* ---- what core calls ---- */

tide_status tide__block_alloc(tide_block **out, tide_stream *stream, size_t bytes) {
  tide__allocator *a = &allocators[stream->device];
  request r;
  if (!prepare(&r, stream, bytes) || tide__fault_now()) return tide__allocator_fail(a, stream->device, bytes);
  tide__deferred_drain();
  tide__park_poll();
  pthread_mutex_lock(&a->lock);
  tide_block *b = take(a, &r);
  bool reap = !b && a->has_dead && !tide_thread_is_capturing();
  tide_status status = b ? TIDE_OK : reap ? TIDE_MEMORY : grow(a, &r, false, &b);
  pthread_mutex_unlock(&a->lock);
  if (reap) status = grow_reaping(a, &r, &b);
  if (status == TIDE_MEMORY) status = climb(a, &r, &b);
  if (status == TIDE_OK) *out = b;
  return status;
}

tide_status tide__block_alloc_plain(tide_block **out, tide_stream *stream, size_t bytes) {
  return tide__block_alloc(out, stream, bytes);
}

bool tide__block_base(const tide_block *block, void **base, size_t *bytes) {
  *base = block->segment->ptr, *bytes = block->segment->size;
  return true;
}

void *tide__block_ptr(const tide_block *block) { return block->ptr; }
void tide__block_use(tide_block *block, tide_stream *stream) { tide__park_use(&block->park, stream); }

/* The lock is held; no stream but the block's own has work on it any more. */
static void settle(tide__allocator *a, tide_block *b) {
  tide_memory_stats *st = &a->stats;
  int pool = b->segment->pool;
  size_t size = b->size, merged;
  tide__history_add(TIDE_MEMORY_FREE_COMPLETED, tide__allocator_device(a), b->ptr, size, b->lane.stream, &b->note);
  tide__note_end(&b->note);
  int64_t blocks = -tide__block_merge(a, b, &merged), bytes = -(int64_t)merged;
  if (b->prev || b->next) blocks++, bytes += (int64_t)b->size;
  tide__pool_insert(a, b);
  tide__stat_move(st->inactive_split, pool, blocks);
  tide__stat_move(st->inactive_split_bytes, pool, bytes);
  tide__stat_down(st->active, pool, 1);
  tide__stat_down(st->active_bytes, pool, (int64_t)size);
  tide__stat_down(st->requested_bytes, pool, (int64_t)b->requested);
  if (tide__mempool_dead(b->segment->mempool)) a->has_dead = true;
}

static void unpark(void *arg) {
  tide_block *b = arg;
  tide__allocator *a = b->owner;
  pthread_mutex_lock(&a->lock);
  settle(a, b);
  pthread_mutex_unlock(&a->lock);
}

void tide__block_free(tide_block *b) {
  if (!b) return;
  tide__allocator *a = b->owner;
  bool shared = b->park.uses || b->park.wait_all;
  pthread_mutex_lock(&a->lock);
  tide__stat_down(a->stats.allocation, b->segment->pool, 1);
  tide__stat_down(a->stats.allocated_bytes, b->segment->pool, (int64_t)b->size);
  publish(a);
  tide__history_add(TIDE_MEMORY_FREE_REQUESTED, tide__allocator_device(a), b->ptr, b->size, b->lane.stream, &b->note);
  tide__note_freed(&b->note, b->size);
  if (shared)
    b->state = BLOCK_PARKED;
  else
    settle(a, b);
  pthread_mutex_unlock(&a->lock);
  if (shared) tide__park_begin(&b->park, unpark, b);
}

/* Every wait has been done. Blocks that storages still hold go too: a storage of an ended epoch does not look at its
 * block. */
tide_status tide__allocator_shutdown(void) {
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    tide__allocator *a = &allocators[d];
    const tide_backend *backend = tide__backend_peek(d);
    pthread_mutex_lock(&a->lock);
    for (tide__segment *s = a->segments; backend && s; s = s->next) {
      for (tide_block *b = s->head; b; b = b->next) {
        tide__park_drop(&b->park);
        tide__note_end(&b->note);
      }
      backend->mem_free(d, s->ptr, s->size);
      tide__mempool_drop(s->mempool);
    }
    tide__slabs_free(a);
    a->stats = (tide_memory_stats){0};
    a->capped = false;
    atomic_store_explicit(&a->reserved, 0, memory_order_relaxed);
    publish(a);
    pthread_mutex_unlock(&a->lock);
  }
  tide__history_shutdown();
  return TIDE_OK;
}

/* ---- scratch memory for backends ---- */

tide_status tide__scratch_get(void **out, tide_stream *stream, size_t bytes) {
  if (stream->device < 0)
    return tide__fail(TIDE_SUPPORT, "scratch: the CPU has no streams, expected one of an accelerator");
  tide_block *b;
  TIDE_TRY(tide__block_alloc(&b, stream, bytes));
  tide__allocator *a = b->owner;
  pthread_mutex_lock(&a->lock);
  b->right = a->scratch, a->scratch = b;
  pthread_mutex_unlock(&a->lock);
  *out = b->ptr;
  return TIDE_OK;
}

/* Few pieces are out at a time: a backend gives them back as soon as the work is queued. */
void tide__scratch_put(tide_stream *stream, void *ptr) {
  if (!ptr) return;
  tide__allocator *a = &allocators[stream->device];
  pthread_mutex_lock(&a->lock);
  tide_block **at = &a->scratch;
  while (*at && (*at)->ptr != ptr) at = &(*at)->right;
  tide_block *b = *at;
  if (b) *at = b->right;
  pthread_mutex_unlock(&a->lock);
  tide__block_free(b);
}
