/* host_cache.c: large freed pieces of CPU memory, kept for the next tensors.
 *
 * The system gives fresh pages, each filled with zeros at a fault, which costs more than the loop that fills a tensor.
 * Pieces above those of the threads' own caches (storage.c) are therefore kept here, for all threads and from all
 * hooks. Sizes are rounded up to an eighth of a power of two, and a piece serves requests of its own size
 * alone: one list for each, the newest first, whose lines may still be in a processor's cache. The list of a size does
 * not know on which memory node its pages lie: loops hand their chunks to whichever thread is free, so no thread has
 * pages of its own. Kept are at most 256 MiB, or a quarter of what tensors hold, or the piece that came last where
 * tensors hold as much again; beyond that the oldest go. What nobody has asked for in two seconds goes too: a little at
 * a time where something else is under way.
 *
 * Invariants: a piece is in the list of its size and in the list by age, or in neither; hooks are called without the
 * lock. */
#include "host_cache.h"

#include "idle.h"

typedef struct piece {         /* stands in the kept memory */
  struct piece *next, *prev;   /* of its size */
  struct piece *older, *newer; /* by age; of leaving ones, `older` alone */
  const tide__host_hooks *hooks;
  size_t size;
  int64_t since;
  uint64_t tenant;
} piece;

enum { LEAST = 16, STEPS = 8, CLASSES = (48 - LEAST) * STEPS };
static const size_t a_little = (size_t)16 << 20;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static piece *kept[CLASSES], *newest, *oldest;
static tide_stat blocks, bytes;
static int64_t hits;
static _Atomic int64_t look_at; /* the next time to look for idle pieces; INT64_MAX while there are none */
static _Atomic int64_t calls[2];
_Atomic size_t tide__cpu_bytes;
static _Atomic size_t cpu_peak;

/* ---- what tensors hold, large or small ---- */

size_t tide_memory_cpu_allocated(void) { return atomic_load_explicit(&tide__cpu_bytes, memory_order_relaxed); }

void tide__cpu_bytes_add(size_t by) {
  size_t now = atomic_fetch_add_explicit(&tide__cpu_bytes, by, memory_order_relaxed) + by;
  size_t peak = atomic_load_explicit(&cpu_peak, memory_order_relaxed);
  while (now > peak &&
         !atomic_compare_exchange_weak_explicit(&cpu_peak, &peak, now, memory_order_relaxed, memory_order_relaxed))
    ;
}

/* ---- sizes ---- */

static int class_of(size_t size) {
  int e = 63 - __builtin_clzll((unsigned long long)(size - 1));
  return (e - LEAST) * STEPS + (int)((size - 1) >> (e - 3) & (STEPS - 1));
}

size_t tide__host_room(size_t size) {
  if (size > (size_t)1 << 47) return size;
  int e = 63 - __builtin_clzll((unsigned long long)(size - 1));
  size_t step = (size_t)1 << (e - 3);
  return (size + step - 1) / step * step;
}

/* ---- the lists; the lock is held ---- */

static void unlink_piece(piece *p) {
  if (p->prev)
    p->prev->next = p->next;
  else
    kept[class_of(p->size)] = p->next;
  if (p->next) p->next->prev = p->prev;
  if (p->newer)
    p->newer->older = p->older;
  else
    newest = p->older;
  if (p->older)
    p->older->newer = p->newer;
  else
    oldest = p->newer;
  blocks.current--, blocks.freed++;
  bytes.current -= (int64_t)p->size, bytes.freed += (int64_t)p->size;
}

static void count_up(tide_stat *s, int64_t by) {
  s->current += by, s->allocated += by;
  if (s->current > s->peak) s->peak = s->current;
}

static void link_piece(piece *p) {
  piece **head = &kept[class_of(p->size)];
  p->prev = NULL, p->next = *head;
  if (p->next) p->next->prev = p;
  *head = p;
  p->newer = NULL, p->older = newest;
  if (newest) newest->newer = p;
  newest = p;
  if (!oldest) oldest = p;
  count_up(&blocks, 1);
  count_up(&bytes, (int64_t)p->size);
}

/* Takes the oldest out until no more than `most` bytes are kept. */
static piece *take_beyond(size_t most) {
  piece *out = NULL;
  while (oldest && (size_t)bytes.current > most) {
    piece *p = oldest;
    unlink_piece(p);
    p->older = out, out = p;
  }
  return out;
}

/* The same for idle pieces, `most` bytes or a little more. */
static piece *take_idle(int64_t now, size_t most) {
  piece *out = NULL;
  size_t taken = 0;
  while (oldest && now - oldest->since >= TIDE__IDLE_MS && taken < most) {
    piece *p = oldest;
    unlink_piece(p);
    taken += p->size;
    p->older = out, out = p;
  }
  int64_t next = !oldest ? INT64_MAX : oldest->since + TIDE__IDLE_MS;
  atomic_store_explicit(&look_at, next > now ? next : now + 10, memory_order_relaxed);
  return out;
}

/* ---- what others call ---- */

static void give_back(piece *out) {
  while (out) {
    piece *p = out;
    out = p->older;
    tide__host_free_now(p->hooks, p, p->size);
  }
}

void *tide__host_cache_take(const tide__host_hooks *hooks, size_t room) {
  if (room > (size_t)1 << 47) return NULL;
  pthread_mutex_lock(&lock);
  piece *p = kept[class_of(room)];
  while (p && p->hooks != hooks) p = p->next;
  if (p) unlink_piece(p), hits++;
  pthread_mutex_unlock(&lock);
  uint64_t tenant = tide__tenant();
  if (p && tenant) memset(p, 0, p->tenant == tenant ? sizeof *p : room);
  return p;
}

void tide__host_cache_keep(const tide__host_hooks *hooks, void *ptr, size_t room, uint64_t tenant) {
  size_t live = tide_memory_cpu_allocated(), most = tide__idle_cap(live);
  if (room > (size_t)1 << 47) {
    tide__host_free_now(hooks, ptr, room);
    return;
  }
  piece *p = ptr;
  *p = (piece){.hooks = hooks, .size = room, .since = tide__idle_now(), .tenant = tenant};
  if (most < room && room <= live) most = room;
  pthread_mutex_lock(&lock);
  link_piece(p);
  if (newest == oldest) atomic_store_explicit(&look_at, p->since + TIDE__IDLE_MS, memory_order_relaxed);
  piece *out = take_beyond(most);
  pthread_mutex_unlock(&lock);
  give_back(out);
}

void tide__host_cache_trim(bool all) {
  if (atomic_load_explicit(&look_at, memory_order_relaxed) == INT64_MAX) return;
  int64_t now = tide__idle_now();
  if (now < atomic_load_explicit(&look_at, memory_order_relaxed)) return;
  pthread_mutex_lock(&lock);
  piece *out = take_idle(now, all ? SIZE_MAX : a_little);
  pthread_mutex_unlock(&lock);
  give_back(out);
}

bool tide__host_cache_any(void) {
  TIDE_LOCKED(&lock);
  return newest;
}

bool tide__host_cache_flush(void) {
  pthread_mutex_lock(&lock);
  piece *out = take_beyond(0);
  pthread_mutex_unlock(&lock);
  give_back(out);
  return out != NULL;
}

void *tide__host_alloc_now(const tide__host_hooks *hooks, size_t size) {
  void *p = tide__host_take(hooks, size);
  if (p) atomic_fetch_add_explicit(&calls[0], 1, memory_order_relaxed);
  return p;
}

void tide__host_free_now(const tide__host_hooks *hooks, void *ptr, size_t size) {
  atomic_fetch_add_explicit(&calls[1], 1, memory_order_relaxed);
  tide__host_give(hooks, ptr, size);
}

/* ---- forks: a worker that gives back may hold the lock in that moment ---- */

static void fork_begins(void) { pthread_mutex_lock(&lock); }
static void fork_ends(void) { pthread_mutex_unlock(&lock); }
void tide__host_cache_watch_forks(void) { pthread_atfork(fork_begins, fork_ends, fork_ends); }

/* ---- statistics ---- */

void tide__host_cache_stats(tide_cpu_memory_stats *out) {
  pthread_mutex_lock(&lock);
  out->cached_blocks = blocks, out->cached_bytes = bytes;
  out->num_cache_hits = hits;
  pthread_mutex_unlock(&lock);
  out->num_alloc = atomic_load_explicit(&calls[0], memory_order_relaxed);
  out->num_free = atomic_load_explicit(&calls[1], memory_order_relaxed);
  out->allocated_bytes = tide_memory_cpu_allocated();
  out->peak_bytes = atomic_load_explicit(&cpu_peak, memory_order_relaxed);
}

void tide__host_cache_reset_peak(void) {
  pthread_mutex_lock(&lock);
  blocks.peak = blocks.current, bytes.peak = bytes.current;
  pthread_mutex_unlock(&lock);
  atomic_store_explicit(&cpu_peak, tide_memory_cpu_allocated(), memory_order_relaxed);
}
