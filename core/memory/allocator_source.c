/* allocator_source.c: where memory comes from, and goes back to, where it is not mapped into a range.
 *
 * A segment remembers its kind. Those of the cache are asked of the driver, or of a pool's own functions, and are given
 * back when the cache is emptied. Where nothing is cached - caching is off, the driver's stream-ordered allocator does
 * it, a program brought its own - a block is alone in its segment and the two come and go together; they hold their
 * stream, which may be needed to give them back.
 *
 * Invariant: what a device's allocator does by default is settled when it is first used, in tide__allocator_ready; only
 * caching can be switched later. */
#include "allocator.h"

static const size_t small_segment = (size_t)2 << 20, middle_most = (size_t)10 << 20, middle_segment = (size_t)20 << 20,
                    large_unit = (size_t)2 << 20;

static size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

/* ---- a program's own, for all devices ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  tide_allocator *allocator; /* retained */
  uint32_t epoch;
} chosen;

/* Of this epoch; with the lock held. */
static tide_allocator *chosen_now(void) { return chosen.epoch == tide__epoch_now() ? chosen.allocator : NULL; }

tide_status tide_allocator_change(tide_allocator *a) {
  if (!a) return tide__fail(TIDE_ARGUMENT, "change_current_allocator: no allocator, got NULL, expected one");
  if (!tide__running())
    return tide__fail(TIDE_STATE, "change_current_allocator: tide is not started, expected tide_init first");
  if (tide__allocator_any_ready())
    return tide__fail(TIDE_STATE, "change_current_allocator: device memory has been used already, expected this "
                                  "before the first allocation");
  tide_allocator_retain(a);
  pthread_mutex_lock(&lock);
  tide_allocator *before = chosen.allocator;
  chosen.allocator = a, chosen.epoch = tide__epoch_now();
  pthread_mutex_unlock(&lock);
  tide_allocator_release(before);
  return TIDE_OK;
}

tide_status tide_allocator_backend(const char **out) {
  TIDE_GIVEN("allocator_backend", out);
  tide__settings s;
  TIDE_TRY(tide__settings_get(&s));
  TIDE_LOCKED(&lock);
  *out = chosen_now() ? "pluggable" : s.async ? "cudaMallocAsync" : "native";
  return TIDE_OK;
}

/* ---- getting ready ---- */

static tide__source source_for(const tide__settings *s) {
  TIDE_LOCKED(&lock);
  bool own = chosen_now();
  return own ? SOURCE_OWN : !s->caching ? SOURCE_DIRECT : s->async ? SOURCE_ASYNC : SOURCE_CACHE;
}

void tide__allocator_cap(tide__allocator *a, double fraction, size_t total) {
  a->cap_set = true;
  a->capped = fraction < 1; /* the device itself is the limit then */
  a->fraction = fraction;
  a->limit = (size_t)((double)total * fraction);
}

/* The lock of `a` is held. */
static void adopt_settings(tide__allocator *a, const tide__settings *s, bool cap) {
  a->set = *s;
  a->stats.max_split_size = tide__settings_max_split(s);
  if (cap && s->fraction >= 0) tide__allocator_cap(a, s->fraction, a->total);
}

tide_status tide__allocator_ready(tide__allocator *a, int device) {
  const tide_backend *backend;
  tide__settings s;
  TIDE_TRY(tide__backend(&backend, device));
  TIDE_TRY(tide__settings_get(&s));
  if (s.async && !backend->mem_alloc_async)
    return tide__fail(TIDE_SUPPORT, "TIDE_ALLOC_CONF: backend: %s has no cudaMallocAsync, expected native",
                      tide__device_text(device));
  size_t unused, total, granule = 0;
  TIDE_TRY(backend->device_mem_info(&unused, &total, device));
  if (backend->range_granularity && backend->range_granularity(&granule, device) != TIDE_OK) granule = 0;
  tide__source source = source_for(&s);
  tide__allocator_lock(a);
  if (a->source == SOURCE_UNREADY) {
    a->device = device, a->total = total;
    a->granule = granule ? round_up(large_unit, granule) : 0;
    adopt_settings(a, &s, !a->cap_set);
    a->source = source;
  }
  tide__allocator_unlock(a);
  return TIDE_OK;
}

bool tide__allocator_any_ready(void) {
  for (int d = 0; d < TIDE_MAX_DEVICES; d++)
    if (tide__allocator_of(d)->source != SOURCE_UNREADY) return true;
  return false;
}

void tide__allocators_refresh(const tide__settings *s, bool new_cap) {
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    tide__allocator *a = tide__allocator_of(d);
    tide__allocator_lock(a);
    if (a->source != SOURCE_UNREADY)
      adopt_settings(a, s, new_cap);
    else if (new_cap)
      a->cap_set = false; /* when it gets ready it takes the new one */
    if (a->source == SOURCE_DIRECT || a->source == SOURCE_CACHE || a->source == SOURCE_ASYNC) a->source = source_for(s);
    tide__allocator_unlock(a);
  }
}

tide_status tide_allocator_set_caching(bool enabled) {
  tide__settings s;
  TIDE_TRY(tide__settings_get(&s));
  tide__settings_set_caching(enabled);
  s.caching = enabled;
  tide__allocators_refresh(&s, false);
  return TIDE_OK;
}

bool tide_allocator_get_caching(void) {
  tide__settings s;
  return tide__settings_get(&s) == TIDE_OK && s.caching;
}

/* ---- taking ---- */

/* What the driver is asked for, as torch does. */
static size_t segment_size(const tide__request *r) {
  if (r->source == SOURCE_SHARED) return round_up(r->size, large_unit);
  if (r->source != SOURCE_CACHE) return r->size;
  if (r->pool == TIDE_POOL_SMALL) return small_segment;
  return r->size < middle_most ? middle_segment : round_up(r->size, large_unit);
}

static tide_allocator *own_for(const tide__request *r) {
  if (r->source == SOURCE_CACHE) return r->mempool ? r->mempool->source : NULL;
  if (r->source != SOURCE_OWN) return NULL;
  TIDE_LOCKED(&lock);
  return chosen_now();
}

static void *handle_of(const tide_stream *stream, const tide_backend *backend) {
  tide__order_expose(stream);
  return (void *)(uintptr_t)backend->stream_handle(stream->impl);
}

static tide_status ask(void **ptr, const tide_backend *backend, const tide__request *r, tide_allocator *own,
                       size_t size) {
  if (r->source == SOURCE_ASYNC) {
    tide__order_waited(r->stream, NULL, 0); /* the memory is there only behind this */
    return backend->mem_alloc_async(ptr, r->stream->impl, size);
  }
  if (!own) return backend->mem_alloc(ptr, r->stream->device, size);
  *ptr = own->alloc((ptrdiff_t)size, r->stream->device, handle_of(r->stream, backend));
  return *ptr ? TIDE_OK : TIDE_MEMORY;
}

/* What giving the segment back needs to know. */
static void describe(tide__segment *s, const tide__request *r, tide_allocator *own) {
  s->kind = r->source == SOURCE_ASYNC ? SEGMENT_ASYNC : own ? SEGMENT_OWN : SEGMENT_PLAIN;
  s->alone = r->source != SOURCE_CACHE && r->source != SOURCE_SHARED;
  if (own) tide_allocator_retain(own);
  s->source = own;
  if (s->kind == SEGMENT_PLAIN && !s->alone) return;
  tide_stream_retain(r->stream);
  s->stream = r->stream;
}

tide_status tide__source_grow(tide_block **out, tide__allocator *a, const tide_backend *backend,
                              const tide__request *r) {
  size_t size = segment_size(r);
  tide_allocator *own = own_for(r);
  if (!tide__may_reserve(a, size)) return TIDE_MEMORY;
  TIDE_TRY(tide__mempool_count(r->mempool, (int64_t)size));
  void *ptr;
  tide_status status = ask(&ptr, backend, r, own, size);
  tide_block *b = status == TIDE_OK ? tide__segment_new(a, ptr, size, r) : NULL;
  if (!b) tide__mempool_count(r->mempool, -(int64_t)size);
  if (status != TIDE_OK) return status;
  if (!b) {
    tide__segment lost = {.ptr = ptr, .size = size, .span = size};
    describe(&lost, r, own);
    tide__segment_give(&lost, backend, a->device);
    return TIDE_MEMORY;
  }
  describe(b->segment, r, own);
  tide__stat_reserve(a, r->pool, 1, (int64_t)size);
  if (b->segment->kind == SEGMENT_ASYNC) a->ordered += size;
  tide__history_add(TIDE_MEMORY_SEGMENT_ALLOC, a->device, ptr, size, r->key.stream, NULL);
  b->segment->oversize = size >= a->set.max_split;
  if (b->segment->oversize) tide__stat_one(&a->stats.oversize_segments, 1);
  *out = b;
  return TIDE_OK;
}

/* ---- giving back ---- */

static void unmap_range(const tide__segment *s, const tide_backend *backend, int device) {
  size_t granule = tide__allocator_of(device)->granule;
  for (size_t at = 0; at < s->span;) {
    size_t n = s->piece[at / granule];
    if (n) backend->range_unmap(device, s->ptr + at, n * granule);
    at += (n ? n : 1) * granule;
  }
  backend->range_release(device, s->ptr, s->span);
  free(s->piece);
}

void tide__segment_give(const tide__segment *s, const tide_backend *backend, int device) {
  if (tide__sync_watched()) TIDE_OBSERVE(memory_settled);
  switch (s->kind) {
  case SEGMENT_PLAIN: backend->mem_free(device, s->ptr, s->size); break;
  case SEGMENT_RANGE: unmap_range(s, backend, device); break;
  case SEGMENT_ASYNC: backend->mem_free_async(s->stream->impl, s->ptr); break;
  case SEGMENT_OWN:
    s->source->free(s->ptr, (ptrdiff_t)s->size, device, handle_of(s->stream, backend));
    tide_allocator_release(s->source);
    break;
  }
  tide_stream_release(s->stream);
}

/* Waits behind an event and not for the stream, which another thread may begin to capture meanwhile. */
static bool own_work_done(const tide_stream *stream, const tide_backend *backend) {
  void *event;
  tide__capture_lock();
  bool recorded = !stream->capture && tide__event_take(&event, backend, stream->device, 0) == TIDE_OK;
  bool done = recorded && backend->event_record(event, stream->impl) == TIDE_OK;
  tide__capture_unlock();
  if (done) done = backend->event_sync(event) == TIDE_OK;
  if (recorded) tide__event_give(event, stream->device, 0);
  return done;
}

bool tide__block_may_go(const tide__allocator *a, const tide_block *b) {
  const tide__segment *s = b->segment;
  int device = tide__allocator_device(a);
  const tide_backend *backend = tide__backend_peek(device);
  if (!backend || tide__device_lost(NULL, device)) return true;
  if (tide_thread_is_capturing() || s->stream->capture) return false;
  return s->kind != SEGMENT_PLAIN || own_work_done(s->stream, backend) || tide__device_lost(NULL, device);
}

void tide__block_give(tide__allocator *a, tide_block *b) {
  tide__segment *s = b->segment;
  tide__segment_give(s, tide__backend_peek(a->device), a->device);
  tide__allocator_lock(a);
  tide__segment_unhook(a, s);
  tide__stat_reserve(a, s->pool, -1, -(int64_t)s->size);
  if (s->kind == SEGMENT_ASYNC) a->ordered -= s->size;
  tide__history_add(TIDE_MEMORY_SEGMENT_FREE, a->device, s->ptr, s->size, s->key.stream, NULL);
  if (s->oversize) tide__stat_one(&a->stats.oversize_segments, -1);
  tide__block_drop(a, b);
  tide__segment_drop(a, s);
  tide__allocator_unlock(a);
}
