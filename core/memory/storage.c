/* storage.c: reference-counted bytes, wherever they lie.
 *
 * Four kinds: a block of the device's allocator, CPU memory, page-locked memory, foreign memory with a release
 * function. Structs and small CPU pieces come from caches of the calling thread, so that making a small tensor needs no
 * lock and no malloc; large CPU pieces are kept for all threads in host_cache.c. What is freed while other streams may
 * still use it (pinned and foreign memory; blocks see to it themselves) waits in deferred_free.c with its struct.
 *
 * Invariants: a storage of an ended epoch touches neither driver nor allocator when it goes; CPU memory goes back
 * through the hooks that it came from. */

#include "host_cache.h"
#include "os/os.h"

/* A collector frees thousands of tensors at a time: the caches must hold what one of its cycles gives. */
enum { CLASSES = 11, HEADERS = 16384 };
static const size_t smallest = 64, kept_bytes = (size_t)1 << 20; /* of each class */

typedef struct piece {
  struct piece *next;
} piece;

static _Thread_local struct {
  const tide__host_hooks *hooks; /* where the pieces came from */
  size_t count[CLASSES];
  piece *pieces[CLASSES];
  tide_storage *header;
  int headers;
} cache;

/* ---- the thread's caches ---- */

static void *piece_take(int k) {
  piece *p = cache.pieces[k];
  cache.pieces[k] = p->next;
  cache.count[k]--;
  return p;
}

static void flush_pieces(void) {
  for (int k = 0; k < CLASSES; k++)
    while (cache.count[k] > 0) tide__host_free_now(cache.hooks, piece_take(k), smallest << k);
}

static void flush_cache(void) {
  flush_pieces();
  while (cache.header) {
    tide_storage *s = cache.header;
    cache.header = s->next;
    free(s);
  }
  cache.headers = 0;
  cache.hooks = NULL; /* what is kept after this is claimed anew */
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void watch_threads(void) { tide__thread_at_end(flush_cache); }

/* Called before the thread keeps something for the first time. */
static void claim_cache(const tide__host_hooks *hooks) {
  flush_pieces();
  cache.hooks = hooks;
  pthread_once(&once, watch_threads);
  tide__thread_touch();
}

static tide_storage *header_new(void) {
  tide_storage *s = cache.header;
  if (s) {
    cache.header = s->next;
    cache.headers--;
  } else {
    s = malloc(sizeof *s);
    if (!s) {
      tide__fail(TIDE_MEMORY, "storage: no host memory");
      return NULL;
    }
  }
  tide__clear(s, sizeof *s);
  atomic_init(&s->refs, 1);
  return s;
}

static void header_free(tide_storage *s) {
  if (cache.headers >= HEADERS) {
    free(s);
    return;
  }
  if (!cache.hooks) claim_cache(tide__host_current());
  s->next = cache.header;
  cache.header = s;
  cache.headers++;
}

/* ---- CPU memory ---- */

/* The class of a small size, or -1. Under AddressSanitizer every piece keeps its own bounds. */
static int class_of(size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  return -1;
#else
  if (bytes > smallest << (CLASSES - 1)) return -1;
  return bytes <= smallest ? 0 : 64 - __builtin_clzll((unsigned long long)((bytes - 1) / smallest));
#endif
}

/* Large pieces are kept for all threads, but under AddressSanitizer not. */
static bool is_large(size_t bytes) { return class_of(64) >= 0 && bytes > smallest << (CLASSES - 1); }

static size_t room_for(size_t bytes) {
  int k = class_of(bytes);
  if (k >= 0) return smallest << k;
  return is_large(bytes) ? tide__host_room(bytes) : (bytes + smallest - 1) / smallest * smallest;
}

static void *cpu_take(const tide__host_hooks *hooks, size_t bytes) {
  int k = class_of(bytes);
  size_t room = room_for(bytes);
  void *p = is_large(bytes) ? tide__host_cache_take(hooks, room) : NULL;
  if (p) return p;
  p = k >= 0 && cache.hooks == hooks && cache.count[k] > 0 ? piece_take(k) : tide__host_alloc_now(hooks, room);
  if (p && tide__tenant() && !tide__host_zeroes(hooks, room)) memset(p, 0, room); /* whosever data it held */
  return p;
}

static void cpu_give(const tide__host_hooks *hooks, void *ptr, size_t bytes, bool keep, uint64_t tenant) {
  int k = keep ? class_of(bytes) : -1;
  if (k >= 0) {
    if (cache.hooks != hooks) claim_cache(hooks);
    if (cache.count[k] < kept_bytes / (smallest << k)) {
      piece *p = ptr;
      p->next = cache.pieces[k];
      cache.pieces[k] = p;
      cache.count[k]++;
      return;
    }
  }
  if (keep && is_large(bytes))
    tide__host_cache_keep(hooks, ptr, room_for(bytes), tenant);
  else
    tide__host_free_now(hooks, ptr, room_for(bytes));
}

static tide_status cpu_fail(size_t bytes) {
  size_t free_bytes, total, held = tide_memory_cpu_allocated();
  char w[TIDE_BYTES_TEXT], f[TIDE_BYTES_TEXT], t[TIDE_BYTES_TEXT], h[TIDE_BYTES_TEXT];
  tide__os_memory(&free_bytes, &total);
  return tide__fail_memory(TIDE_CPU, bytes, free_bytes, total, held, held,
                           "memory: cpu cannot give %s; %s of its %s are free; tensors hold %s",
                           tide_bytes_text(w, bytes), tide_bytes_text(f, free_bytes), tide_bytes_text(t, total),
                           tide_bytes_text(h, held));
}

static tide_status cpu_fill(tide_storage *s, size_t bytes) {
  const tide__host_hooks *hooks = tide__host_current();
  if (bytes > (size_t)PTRDIFF_MAX - smallest || tide__fault_now()) return cpu_fail(bytes);
  tide__deferred_drain();
  if (is_large(bytes)) tide__host_cache_trim(false);
  void *p = cpu_take(hooks, bytes);
  if (!p && tide__host_cache_flush()) p = cpu_take(hooks, bytes);
  if (!p) {
    tide__reclaim(TIDE_CPU, bytes);
    tide__deferred_drain();
    tide__host_cache_flush();
    p = cpu_take(hooks, bytes);
  }
  if (!p && tide__reclaim_wait()) {
    tide__deferred_drain();
    tide__host_cache_flush();
    p = cpu_take(hooks, bytes);
  }
  if (!p) return cpu_fail(bytes);
  s->ptr = p;
  s->user = (void *)(uintptr_t)hooks;
  tide__cpu_bytes_add(bytes);
  return TIDE_OK;
}

/* ---- what CPU memory there is ---- */

void tide_cpu_memory_get_stats(tide_cpu_memory_stats *out) {
  if (!out) return;
  tide__host_cache_trim(true);
  tide__host_cache_stats(out);
}

void tide_cpu_memory_reset_peak(void) { tide__host_cache_reset_peak(); }

void tide_cpu_memory_empty_cache(void) {
  tide__deferred_drain();
  flush_pieces();
  tide__host_cache_flush();
}

/* ---- making ---- */

static tide_status device_fill(tide_storage *s, size_t bytes) {
  tide_stream *stream;
  bool plain = false;
  TIDE_TRY(tide__stream_current_for(&stream, &plain, s->device));
  if (tide__quota_bound() && !tide__pool_counts(stream)) TIDE_TRY(tide__quota_charge(&s->quota, s->nbytes, s->device));
  if (bytes) {
    if (plain) s->block = tide__block_quick(stream, bytes);
    if (!s->block) TIDE_TRY(tide__block_alloc_slow(&s->block, stream, bytes));
    s->ptr = tide__block_ptr(s->block);
  }
  /* The block has asked already. */
  atomic_store_explicit(&s->site, bytes ? tide__block_site(s->block) : tide__site_now(), memory_order_relaxed);
  /* The default one is there as long as what is live. */
  if (!stream->is_default) tide_stream_retain(stream);
  s->stream = stream, s->stream_held = !stream->is_default;
  s->tracked = true;
  atomic_store_explicit(&s->last_stream, stream->use_id, memory_order_relaxed);
  if (stream->capture) atomic_store_explicit(&s->capture, tide__capture_id(stream), memory_order_relaxed);
  return TIDE_OK;
}

static tide_status pinned_fill(tide_storage *s, size_t bytes) {
  tide__pinned *p;
  TIDE_TRY(tide__pinned_get(&p, &s->ptr, bytes));
  s->user = p;
  s->tracked = true;
  tide__cpu_bytes_add(bytes);
  return TIDE_OK;
}

static tide_status fill(tide_storage *s, size_t nbytes) {
  if (s->device >= 0) return device_fill(s, nbytes);
  if (tide__quota_bound()) TIDE_TRY(tide__quota_charge(&s->quota, s->nbytes, s->device));
  if (s->pinned) return pinned_fill(s, nbytes);
  return nbytes ? cpu_fill(s, nbytes) : TIDE_OK;
}

tide_status tide__storage_new(tide_storage **out, size_t nbytes, int device, bool pinned) {
  static _Thread_local unsigned made;
  if (!tide__running()) return tide__fail(TIDE_STATE, "storage: tide is not started, expected tide_init first");
  if (pinned && device >= 0)
    return tide__fail(TIDE_ARGUMENT, "storage: pin_memory is for the CPU, got %s, expected cpu",
                      tide__device_text(device));
  tide_storage *s = header_new();
  if (!s) return TIDE_MEMORY;
  s->device = device;
  s->nbytes = nbytes;
  s->pinned = pinned;
  /* On the CPU the question costs a tenth of a small operation. */
  if (device < 0 && nbytes >= 16384) atomic_store_explicit(&s->site, tide__site_now(), memory_order_relaxed);
  tide_status status = fill(s, nbytes);
  if (status != TIDE_OK) {
    if (s->quota) tide__quota_give(s->quota, nbytes, device);
    header_free(s);
    return status;
  }
  tide__storage_enter(s);
  tide__pace_add(nbytes);
  if (!(++made & 255)) tide__idle_trim();
  *out = s;
  return TIDE_OK;
}

/* ---- pending values ---- */

tide__pending_ops tide__pending;

/* Its epoch is never the present one, so every check of a storage takes its slow path. */
tide_status tide__storage_pending(tide_storage **out, size_t nbytes, int device, void *node) {
  tide_storage *s = header_new();
  if (!s) return TIDE_MEMORY;
  s->device = device, s->nbytes = nbytes, s->user = node, s->pending = s->counted = true;
  *out = s;
  return TIDE_OK;
}

void tide__storage_move(tide_storage *to, tide_storage *from) {
  to->ptr = from->ptr, to->user = from->user, to->block = from->block, to->quota = from->quota;
  to->stream = from->stream, to->stream_held = from->stream_held, to->tracked = from->tracked;
  atomic_store(&to->site, atomic_load(&from->site));
  atomic_store(&to->last_stream, atomic_load(&from->last_stream));
  atomic_store(&to->capture, atomic_load(&from->capture));
  atomic_store(&to->readers, atomic_load(&from->readers));
  to->pending = false, to->epoch = from->epoch;
  from->ptr = from->user = NULL, from->block = NULL, from->quota = NULL, from->stream = NULL;
  from->stream_held = from->tracked = false, from->epoch = 0;
}

void tide__storage_end(tide_storage *s) { header_free(s); }

tide_status tide__storage_wrap(tide_storage **out, void *ptr, size_t nbytes, int device, void (*release)(void *user),
                               void *user) {
  if (!tide__running()) return tide__fail(TIDE_STATE, "storage: tide is not started, expected tide_init first");
  tide_storage *s = header_new();
  if (!s) return TIDE_MEMORY;
  s->device = device;
  s->nbytes = nbytes;
  s->ptr = ptr;
  s->foreign = true;
  s->release = release, s->user = user;
  s->tracked = device >= 0;
  tide__storage_enter(s);
  *out = s;
  return TIDE_OK;
}

/* ---- using and letting go ---- */

/* The allocating stream needs no note: what is queued there later comes later. Foreign memory has no such stream. What
 * a graph holds needs none either: its replays are noted by the graph. */
void tide__storage_use_slow(tide_storage *s, tide_stream *stream) {
  if (s->early_read && stream->device < 0) {
    tide__early_read_touch(s); /* and again at the next use */
    return;
  }
  if (tide__storage_lands(s)) tide__staged_copy_before(s, stream);
  if (s->device >= 0 && (stream->device != s->device || atomic_load_explicit(&s->readers, memory_order_relaxed) != 0))
    tide__peer_order(s, stream);
  if (stream->capture && tide__capture_holds(s, stream)) {
    atomic_store_explicit(&s->last_stream, stream->use_id, memory_order_relaxed);
    return;
  }
  if (stream->device >= 0 && !(s->stream && s->stream->id == stream->id)) {
    if (s->block)
      tide__block_use(s->block, stream);
    else if (s->ptr)
      tide__deferred_free_use(&s->deferred, stream);
  }
  atomic_store_explicit(&s->last_stream, stream->use_id, memory_order_relaxed);
}

void tide__replays_drop(tide__replays *replays) {
  if (!replays || !tide__ref_drop(&replays->refs)) return;
  if (atomic_load(&replays->watched)) atomic_fetch_sub(&tide__sync_watch, 1);
  free(replays);
}

/* No queued work uses the storage any more. */
static void finish(void *arg) {
  tide_storage *s = arg;
  bool live = tide__storage_live(s);
  if (tide__sync_watched() && s->tracked) TIDE_OBSERVE(storage_gone, s);
  if (s->foreign) {
    if (s->release) s->release(s->user);
  } else if (s->device < 0 && s->ptr) {
    tide__cpu_bytes_less(s->nbytes);
    if (!s->pinned)
      cpu_give(s->user, s->ptr, s->nbytes, live, tide__tenant_of(s->quota));
    else if (live)
      tide__pinned_put(s->user);
  } else if (live) {
    tide__block_free(s->block);
  }
  if (tide__storage_lands(s)) tide__staged_copy_end(s);
  tide__replays_drop(s->replays);
  if (s->stream_held) tide_stream_release(s->stream);
  if (s->quota) tide__quota_give(s->quota, s->nbytes, s->device);
  free(s->early_read);
  header_free(s);
}

void tide_storage_retain(tide_storage *s) {
  if (!s) return;
  tide__ref_take(&s->refs);
}

void tide_storage_release(tide_storage *s) {
  if (s && TIDE_UNLIKELY(atomic_load_explicit(&s->refs, memory_order_relaxed) > TIDE__STORAGE_BOUND) &&
      tide__storage_unbound(s) == 1)
    atomic_store_explicit(&s->let_go, true, memory_order_relaxed);
  tide__storage_collect(s);
}

static void drop(tide_storage *s, int64_t references) {
  if (TIDE_UNLIKELY(s->counted)) {
    if (atomic_fetch_sub(&s->refs, references) != references) return;
    if (s->pending) {
      tide__pending.gone(s);
      return;
    }
  } else if (!tide__ref_drop_some(&s->refs, references)) {
    return;
  }
  if (s->deferred.uses || s->deferred.wait_all)
    tide__deferred_free_begin(&s->deferred, finish, s);
  else
    finish(s);
}

void tide__storage_collect(tide_storage *s) {
  if (s) drop(s, 1);
}

void tide__storage_unbind(tide_storage *s) { drop(s, TIDE__STORAGE_BOUND); }

size_t tide_storage_nbytes(const tide_storage *s) { return s ? s->nbytes : 0; }
void *tide_storage_data(const tide_storage *s) {
  if (!s) return NULL;
  if (tide__storage_settle((tide_storage *)s) != TIDE_OK || tide__storage_write((tide_storage *)s) != TIDE_OK)
    return NULL;
  if (tide__storage_lands(s)) tide__staged_copy_settle((tide_storage *)s);
  return tide__storage_live(s) ? s->ptr : NULL;
}
int tide_storage_device(const tide_storage *s) { return s ? s->device : TIDE_CPU; }
bool tide_storage_is_pinned(const tide_storage *s) { return s && s->pinned; }
int64_t tide_storage_refs(const tide_storage *s) {
  if (!s) return 0;
  return atomic_load_explicit(&s->refs, memory_order_relaxed) & (TIDE__STORAGE_BOUND - 2);
}

void tide__storage_shutdown(void) {
  tide__deferred_drain();
  flush_cache();
  tide__host_cache_flush();
}
