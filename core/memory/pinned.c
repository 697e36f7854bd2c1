/* pinned.c: page-locked host memory.
 *
 * Locking pages costs a driver call of up to milliseconds and may wait for the device, so freed pieces are
 * kept and serve again. Sizes are powers of two, as torch's, and a kept piece serves requests of its own size alone:
 * one list for each. What is kept is bounded, because locked pages are missing elsewhere: by what the user has set,
 * else by 512 MiB, or so that all together is hardly more than was once in use at a time: a program that goes round in
 * the same work locks its pages once. A piece comes here only when no queued copy uses it any more (deferred_free.c),
 * so a kept piece may serve at once.
 *
 * Invariant: a piece is in the list of all pieces while it exists, and in the list of its size exactly while nobody has
 * it. */

#include "allocator.h"
#include "host_cache.h"
#include "os/os.h"

struct tide__pinned {
  tide__pinned *prev, *next; /* of all */
  tide__pinned *kept;        /* of those of its size that nobody has */
  const tide_backend *backend;
  void *ptr;
  size_t size;
  uint64_t tenant; /* whose data it holds */
  bool registered; /* the host's own, in no list of a size */
};

enum { SMALLEST = 12, SIZES = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tide__pinned *all, *kept[SIZES];
static size_t kept_bytes, used_bytes, used_most, most; /* `most`: SIZE_MAX where the user has set none */
static _Atomic uint32_t limit_epoch;                   /* when `most` was read from the settings */
static tide_host_memory_stats stats;
static int64_t used_at; /* as idle.h counts: when a piece was handed out or came back */

static int class_of(size_t bytes) {
  int c = bytes > 1 ? 64 - __builtin_clzll((unsigned long long)(bytes - 1)) : 0;
  return c < SMALLEST ? SMALLEST : c;
}

/* ---- the driver, with its times ---- */

static int64_t now(void) { return tide__os_ns() / 1000; }

/* The lock is held. */
static void add_time(tide_duration_stat *d, int64_t us) {
  d->total += us;
  if (us > d->max) d->max = us;
  if (!d->count++ || us < d->min) d->min = us;
}

/* ptr: the host's, or NULL. */
static tide_status make(tide__pinned **out, void *ptr, size_t size) {
  const tide_backend *b;
  TIDE_TRY(tide__backend(&b, tide_current_device()));
  if (ptr ? !b->external : !b->host_alloc)
    return tide__fail(TIDE_SUPPORT, "pin_memory: %s has no page-locked memory", b->name);
  tide__pinned *p = calloc(1, sizeof *p);
  if (!p) return tide__fail(TIDE_MEMORY, "pin_memory: no host memory");
  *p = (tide__pinned){.backend = b, .ptr = ptr, .size = size, .registered = ptr != NULL};
  int64_t start = now();
  tide_status status = ptr ? b->external->host_lock(ptr, size) : b->host_alloc(&p->ptr, size);
  if (status != TIDE_OK) {
    free(p);
    return status;
  }
  pthread_mutex_lock(&lock);
  add_time(&stats.host_alloc_time, now() - start);
  stats.num_host_alloc++;
  tide__stat_one(&stats.allocations, 1), tide__stat_one(&stats.allocated_bytes, (int64_t)size);
  p->next = all;
  if (all) all->prev = p;
  all = p;
  pthread_mutex_unlock(&lock);
  *out = p;
  return TIDE_OK;
}

static void destroy(tide__pinned *p) {
  int64_t start = now();
  if (p->registered)
    p->backend->external->host_unlock(p->ptr);
  else
    p->backend->host_free(p->ptr, p->size);
  pthread_mutex_lock(&lock);
  add_time(&stats.host_free_time, now() - start);
  stats.num_host_free++;
  tide__stat_one(&stats.allocations, -1), tide__stat_one(&stats.allocated_bytes, -(int64_t)p->size);
  pthread_mutex_unlock(&lock);
  free(p);
}

/* ---- the cache ---- */

static void unlink_piece(tide__pinned *p) {
  if (p->prev)
    p->prev->next = p->next;
  else
    all = p->next;
  if (p->next) p->next->prev = p->prev;
}

/* A kept piece, or NULL; the first call of an epoch reads the settings. */
static tide_status take_kept(tide__pinned **out, int class) {
  tide__settings s;
  bool known = limit_epoch == tide__epoch_now();
  if (!known) TIDE_TRY(tide__settings_get(&s));
  TIDE_LOCKED(&lock);
  if (!known) most = s.pinned_most, limit_epoch = tide__epoch_now();
  tide__pinned *p = *out = kept[class];
  if (p) kept[class] = p->kept, kept_bytes -= p->size;
  return TIDE_OK;
}

/* Pages that are kept, locked or not, are missing where pages are to be locked. */
static void make_room(void) {
  tide__memory_settle();
  tide__host_cache_flush();
  tide__pinned_trim();
}

static tide_status get(tide__pinned **out, size_t bytes) {
  int class = class_of(bytes);
  size_t size = (size_t)1 << class;
  TIDE_TRY(take_kept(out, class));
  if (*out) return TIDE_OK;
  /* One that waits for a copy which has ended meanwhile: to ask is cheap beside locking pages. */
  tide__memory_settle();
  TIDE_TRY(take_kept(out, class));
  if (*out) return TIDE_OK;
  tide_status status = make(out, NULL, size);
  if (status != TIDE_MEMORY) return status;
  tide__reclaim(TIDE_CPU, bytes);
  make_room();
  status = make(out, NULL, size);
  if (status != TIDE_MEMORY || !tide__reclaim_wait()) return status;
  make_room();
  return make(out, NULL, size);
}

tide_status tide__pinned_get(tide__pinned **out, void **ptr, size_t bytes) {
  if (bytes > (size_t)PTRDIFF_MAX / 4 || tide__fault_now())
    return tide__fail_memory(TIDE_CPU, bytes, 0, 0, tide_memory_cpu_allocated(), tide_memory_cpu_allocated(),
                             "pin_memory: no page-locked memory for %zu bytes", bytes);
  tide__pinned *p = NULL;
  TIDE_TRY(get(&p, bytes));
  pthread_mutex_lock(&lock);
  tide__stat_one(&stats.active_requests, 1), tide__stat_one(&stats.active_bytes, (int64_t)p->size);
  used_bytes += p->size;
  used_at = tide__idle_now();
  if (used_bytes > used_most) used_most = used_bytes;
  pthread_mutex_unlock(&lock);
  uint64_t tenant = tide__tenant();
  if (tenant && p->tenant != tenant) memset(p->ptr, 0, p->size);
  p->tenant = tenant;
  *out = p, *ptr = p->ptr;
  return TIDE_OK;
}

/* The lock is held. */
static bool may_keep(size_t size) {
  if (most != SIZE_MAX) return kept_bytes + size <= most;
  size_t all_bytes = used_bytes + kept_bytes + size;
  return kept_bytes + size <= (size_t)512 << 20 || all_bytes <= used_most + used_most / 8; /* the rest: other sizes */
}

void tide__pinned_put(tide__pinned *p) {
  pthread_mutex_lock(&lock);
  tide__stat_one(&stats.active_requests, -1), tide__stat_one(&stats.active_bytes, -(int64_t)p->size);
  used_bytes -= p->size;
  used_at = tide__idle_now();
  bool keep = may_keep(p->size);
  int class = class_of(p->size);
  if (keep)
    p->kept = kept[class], kept[class] = p, kept_bytes += p->size;
  else
    unlink_piece(p);
  pthread_mutex_unlock(&lock);
  if (!keep) destroy(p);
}

tide_status tide__pinned_register(tide__pinned **out, void *ptr, size_t bytes) { return make(out, ptr, bytes); }

void tide__pinned_unregister(tide__pinned *p) {
  pthread_mutex_lock(&lock);
  unlink_piece(p);
  pthread_mutex_unlock(&lock);
  destroy(p);
}

/* Takes kept pieces out under the lock until no more than `bound` bytes are kept, the largest first, and gives them
 * back without it. */
static void trim_to(size_t bound) {
  tide__pinned *out = NULL;
  pthread_mutex_lock(&lock);
  for (int class = SIZES - 1; class >= 0; class --) {
    while (kept[class] && kept_bytes > bound) {
      tide__pinned *p = kept[class];
      kept[class] = p->kept, kept_bytes -= p->size;
      unlink_piece(p);
      p->next = out, out = p;
    }
  }
  pthread_mutex_unlock(&lock);
  while (out) {
    tide__pinned *p = out;
    out = p->next;
    destroy(p);
  }
}

/* What is in use now is the measure from here on. */
void tide__pinned_trim(void) {
  trim_to(0);
  TIDE_LOCKED(&lock);
  used_most = used_bytes;
}

void tide__pinned_idle(void) {
  pthread_mutex_lock(&lock);
  bool idle = kept_bytes > 0 && tide__idle_now() - used_at >= TIDE__IDLE_MS;
  pthread_mutex_unlock(&lock);
  if (!idle) return;
  tide__capture_lock(); /* unlocking pages may wait for a device, and break a capture */
  idle = atomic_load_explicit(&tide__captures, memory_order_relaxed) == 0;
  for (int d = 0, n = tide__device_count_known(); d < n && idle; d++)
    idle = !tide__backend_peek(d) || tide__streams_idle(d, 0);
  if (idle) tide__pinned_trim();
  tide__capture_unlock();
}

void tide__pinned_limit(size_t bytes) {
  pthread_mutex_lock(&lock);
  most = bytes, limit_epoch = tide__epoch_now();
  pthread_mutex_unlock(&lock);
  trim_to(bytes);
}

/* Also what storages still hold: of an ended epoch they do not look at it. */
void tide__pinned_shutdown(void) {
  trim_to(0);
  while (all) {
    tide__pinned *p = all;
    unlink_piece(p);
    destroy(p);
  }
  stats = (tide_host_memory_stats){0};
  used_bytes = used_most = 0;
}

/* ---- statistics ---- */

void tide_host_memory_get_stats(tide_host_memory_stats *out) {
  if (!out) return;
  TIDE_LOCKED(&lock);
  *out = stats;
}

static tide_stat *const rows[] = {&stats.allocations, &stats.allocated_bytes, &stats.active_requests,
                                  &stats.active_bytes};
enum { ROWS = sizeof rows / sizeof *rows };

void tide_host_memory_reset_peak(void) {
  TIDE_LOCKED(&lock);
  for (int i = 0; i < ROWS; i++) rows[i]->peak = rows[i]->current;
}

void tide_host_memory_reset_accumulated(void) {
  TIDE_LOCKED(&lock);
  for (int i = 0; i < ROWS; i++) rows[i]->allocated = rows[i]->freed = 0;
  stats.num_host_alloc = stats.num_host_free = 0;
  stats.host_alloc_time = stats.host_free_time = (tide_duration_stat){0};
}

void tide_host_memory_empty_cache(void) {
  tide__memory_settle();
  tide__pinned_trim();
}
