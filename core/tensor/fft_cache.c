/* fft_cache.c: plans of Fourier transforms, kept for each device, the least recently used dropped first.
 *
 * A plan takes milliseconds to make and may hold device memory; the same geometry asks for the same plan, so it is
 * kept. Entries hang in a list by their last use and in chains by the hash of their shape. A plan is used by one call
 * at a time; an entry that is dropped while in use goes when it is given back. A plan whose call was captured into a
 * graph is kept out of reach instead of freed, because the graph runs its kernels without asking.
 *
 * Invariants: the cache's lock guards lists, chains and counts, never a plan; an entry with users or listed is
 * alive. */
#include "fft.h"

#include <stdlib.h>

enum { CHAINS = 256, DEFAULT_MOST = 4096 };

typedef struct cache {
  int64_t size;
  tide__fft_entry *newest, *oldest, *chain[CHAINS];
  tide__fft_entry *kept; /* captured ones that were dropped, by `chain` */
} cache;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cache *caches[TIDE_MAX_DEVICES];
static struct {
  bool set;
  int64_t most;
} limits[TIDE_MAX_DEVICES];

static int64_t most_of(int device) { return limits[device].set ? limits[device].most : DEFAULT_MOST; }

/* FNV-1a. */
static uint32_t chain_of(const tide_fft_shape *shape) {
  const unsigned char *p = (const unsigned char *)shape;
  uint64_t h = 14695981039346656037u;
  for (size_t i = 0; i < sizeof *shape; i++) h = (h ^ p[i]) * 1099511628211u;
  return (uint32_t)(h >> 32) % CHAINS;
}

/* ---- lists, with the lock held ---- */

static void link_newest(cache *c, tide__fft_entry *e) {
  e->older = c->newest, e->newer = NULL;
  if (c->newest)
    c->newest->newer = e;
  else
    c->oldest = e;
  c->newest = e;
}

static void unlink_use(cache *c, tide__fft_entry *e) {
  *(e->newer ? &e->newer->older : &c->newest) = e->older;
  *(e->older ? &e->older->newer : &c->oldest) = e->newer;
}

static tide__fft_entry *find(cache *c, const tide_fft_shape *shape) {
  tide__fft_entry *e = c->chain[chain_of(shape)];
  while (e && memcmp(&e->shape, shape, sizeof *shape) != 0) e = e->chain;
  return e;
}

/* Takes the entry out of the cache; true if the caller is to free it, without the lock. */
static bool drop(cache *c, tide__fft_entry *e) {
  tide__fft_entry **p = &c->chain[chain_of(&e->shape)];
  while (*p != e) p = &(*p)->chain;
  *p = e->chain;
  unlink_use(c, e);
  c->size--;
  e->listed = false;
  if (!e->captured) return e->users == 0;
  e->chain = c->kept, c->kept = e;
  return false;
}

/* Entries beyond `most`, as a chain. */
static tide__fft_entry *shrink(cache *c, int64_t most) {
  tide__fft_entry *freed = NULL;
  while (c->size > most) {
    tide__fft_entry *e = c->oldest;
    if (drop(c, e)) e->chain = freed, freed = e;
  }
  return freed;
}

/* ---- plans, without the lock ---- */

static void entry_free(tide__fft_entry *e) {
  const tide_backend *b = tide__backend_peek(e->device);
  if (e->plan && b) b->fft_plan_free(e->device, e->plan);
  pthread_mutex_destroy(&e->lock);
  free(e);
}

static void free_all(tide__fft_entry *e) {
  while (e) {
    tide__fft_entry *next = e->chain;
    entry_free(e);
    e = next;
  }
}

static void clear(int device, int64_t most) {
  pthread_mutex_lock(&lock);
  tide__fft_entry *freed = caches[device] ? shrink(caches[device], most) : NULL;
  pthread_mutex_unlock(&lock);
  free_all(freed);
}

/* Plans take device memory past our allocator: where there is none left, what both caches hold goes first. */
static tide_status make(tide__fft_entry **out, const tide_backend *b, int device, const tide_fft_shape *shape) {
  tide__fft_entry *e = calloc(1, sizeof *e);
  if (!e) return tide__fail(TIDE_MEMORY, "fft: no host memory for a plan");
  pthread_mutex_init(&e->lock, NULL);
  e->shape = *shape, e->device = device;
  tide_status status = b->fft_plan_new(&e->plan, &e->work, device, shape);
  if (status == TIDE_MEMORY) {
    clear(device, 0);
    tide_memory_empty_cache(device);
    status = b->fft_plan_new(&e->plan, &e->work, device, shape);
  }
  if (status != TIDE_OK) {
    e->plan = NULL;
    entry_free(e);
    return status;
  }
  *out = e;
  return TIDE_OK;
}

/* With the lock held: e enters the cache, unless it holds none or another thread was quicker. */
static tide__fft_entry *insert(int device, tide__fft_entry *e) {
  if (!caches[device]) caches[device] = calloc(1, sizeof *caches[device]);
  cache *c = caches[device];
  if (!c || most_of(device) <= 0 || find(c, &e->shape)) return NULL;
  uint32_t at = chain_of(&e->shape);
  e->chain = c->chain[at], c->chain[at] = e;
  e->listed = true;
  link_newest(c, e);
  c->size++;
  return shrink(c, most_of(device));
}

static tide__fft_entry *take_known(int device, const tide_fft_shape *shape) {
  tide__fft_entry *e = NULL;
  TIDE_LOCKED(&lock);
  cache *c = caches[device];
  if (c) e = find(c, shape);
  if (e) {
    e->users++;
    unlink_use(c, e);
    link_newest(c, e);
  }
  return e;
}

tide_status tide__fft_take(tide__fft_entry **out, const tide_backend *backend, const tide_stream *stream,
                           const tide_fft_shape *shape) {
  tide__fft_entry *e = take_known(stream->device, shape), *freed = NULL;
  if (!e) {
    TIDE_TRY(make(&e, backend, stream->device, shape));
    pthread_mutex_lock(&lock);
    e->users = 1;
    freed = insert(stream->device, e);
    pthread_mutex_unlock(&lock);
    free_all(freed);
  }
  if (stream->capture) {
    TIDE_LOCKED(&lock);
    e->captured = true;
  }
  pthread_mutex_lock(&e->lock);
  *out = e;
  return TIDE_OK;
}

void tide__fft_give(tide__fft_entry *e) {
  pthread_mutex_unlock(&e->lock);
  pthread_mutex_lock(&lock);
  bool last = --e->users == 0 && !e->listed;
  if (last && e->captured && caches[e->device]) { /* made for a capture while the cache was off */
    tide__fft_entry *k = caches[e->device]->kept;
    while (k && k != e) k = k->chain;
    if (!k) e->chain = caches[e->device]->kept, caches[e->device]->kept = e;
    last = false;
  }
  pthread_mutex_unlock(&lock);
  if (last) entry_free(e);
}

pthread_mutex_t *tide__fft_lock(int device, const void *plan) {
  TIDE_LOCKED(&lock);
  cache *c = caches[device];
  tide__fft_entry *e = c ? c->oldest : NULL;
  while (e && e->plan != plan) e = e->newer;
  if (!e && c)
    for (e = c->kept; e && e->plan != plan;) e = e->chain;
  return e ? &e->lock : NULL;
}

/* The devices have been waited for and are still open. */
void tide__fft_shutdown(void) {
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    limits[d].set = false;
    if (!caches[d]) continue;
    clear(d, 0);
    free_all(caches[d]->kept);
    free(caches[d]);
    caches[d] = NULL;
  }
}

/* ---- the public face ---- */

tide_status tide_fft_cache_set_max(int device, int64_t most) {
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, "cufft_plan_cache"));
  if (most < 0)
    return tide__fail(TIDE_VALUE, "cufft_plan_cache: max_size is negative, got %lld, expected at least 0",
                      (long long)most);
  pthread_mutex_lock(&lock);
  limits[device].set = true, limits[device].most = most;
  pthread_mutex_unlock(&lock);
  clear(device, most);
  return TIDE_OK;
}

tide_status tide_fft_cache_get_max(int64_t *most, int device) {
  TIDE_GIVEN("fft_cache_get_max", most);
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, "cufft_plan_cache"));
  TIDE_LOCKED(&lock);
  *most = most_of(device);
  return TIDE_OK;
}

tide_status tide_fft_cache_size(int64_t *size, int device) {
  TIDE_GIVEN("fft_cache_size", size);
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, "cufft_plan_cache"));
  TIDE_LOCKED(&lock);
  *size = caches[device] ? caches[device]->size : 0;
  return TIDE_OK;
}

tide_status tide_fft_cache_clear(int device) {
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, "cufft_plan_cache"));
  clear(device, 0);
  return TIDE_OK;
}
