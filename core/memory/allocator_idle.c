/* allocator_idle.c: cached device memory that nobody has asked for goes back to the driver, without a wait.
 *
 * Large memory alone is looked at; small blocks hold little. Where nothing large was taken or freed for two seconds,
 * all that is free is idle. In a program that goes on, what was free all the time between two looks is: after two
 * seconds it goes, and after a quarter of one as much of it as is more than the cap of idle.h. So a loop that takes
 * again what it frees keeps that, at any size.
 *
 * Nothing is waited for: a piece goes if its stream has no work queued, else it is free again, and one that is not
 * mapped, whose return may make the driver wait for the device, if no stream of ours there has. While anything is
 * captured nothing goes.
 *
 * Invariant: a piece that leaves was taken out of its tree before its stream was asked. */
#include "allocator.h"

enum { SOON_MS = 250, AGAIN_MS = 10 };
static const size_t a_little = (size_t)64 << 20;

/* ---- how much; the lock is held ---- */

static size_t cached(const tide__allocator *a) {
  int64_t now = a->stats.reserved_bytes[TIDE_POOL_LARGE].current - a->stats.active_bytes[TIDE_POOL_LARGE].current;
  return now > 0 ? (size_t)now : 0;
}

static size_t least(size_t x, size_t y) { return x < y ? x : y; }

/* What was free throughout a time that began `since`, if that is as long ago; a new one begins then. */
static size_t free_since(tide__idle_span *span, size_t now_free, int64_t now, int64_t length) {
  size_t low = least(span->low, now_free);
  if (now - span->since < length) return 0;
  *span = (tide__idle_span){now, now_free};
  return low;
}

static size_t excess(tide__allocator *a, int64_t now) {
  size_t free = cached(a), cap = tide__idle_cap((size_t)a->stats.allocated_bytes[TIDE_POOL_ALL].current);
  size_t over = free > cap ? free - cap : 0;
  size_t soon = least(free_since(&a->idle.soon, free, now, SOON_MS), over);
  size_t late = free_since(&a->idle.late, free, now, TIDE__IDLE_MS);
  int64_t quiet = now - atomic_load_explicit(&a->idle.used, memory_order_relaxed);
  if (quiet >= TIDE__IDLE_MS) return free;
  if (quiet >= SOON_MS && soon < over) soon = over;
  return soon > late ? soon : late;
}

/* ---- giving back ---- */

/* Has the key's stream nothing queued? It may have ended. One of somebody else's is never known to be idle. */
static bool key_idle(const tide__allocator *a, tide__pool_key key) {
  return !key.stream || tide__streams_idle(a->device, key.stream);
}

/* Splits off what may not go yet. */
static tide__leaving take_busy(tide__leaving *leaving, const tide__allocator *a) {
  tide__leaving busy = {0};
  bool all_idle = tide__streams_idle(a->device, 0);
  for (tide__segment **at = &leaving->segments; *at;) {
    tide__segment *s = *at;
    if ((all_idle || !s->size) && key_idle(a, s->key)) {
      at = &s->next;
      continue;
    }
    *at = s->next;
    s->next = busy.segments, busy.segments = s;
  }
  for (tide_block **at = &leaving->blocks; *at;) {
    tide_block *b = *at;
    if (key_idle(a, b->key)) {
      at = &b->left;
      continue;
    }
    *at = b->left;
    b->left = busy.blocks, busy.blocks = b;
  }
  return busy;
}

void tide__release_idle(tide__allocator *a, tide__leaving *leaving) {
  if (!leaving->segments && !leaving->blocks) return;
  tide__capture_lock(); /* no capture begins meanwhile, which what follows might break */
  bool captured = atomic_load_explicit(&tide__captures, memory_order_relaxed) > 0;
  tide__leaving busy = captured ? *leaving : take_busy(leaving, a);
  if (!captured) tide__release_now(a, leaving);
  tide__capture_unlock();
  tide__release_undo(a, &busy);
}

void tide__allocator_trim(int device, bool all) {
  tide__allocator *a = tide__allocator_of(device);
  if (a->source != SOURCE_CACHE) return;
  int64_t now = tide__idle_now();
  if (now < atomic_load_explicit(&a->idle.look_at, memory_order_relaxed)) return;
  if (tide__device_lost(NULL, device) || atomic_load_explicit(&tide__captures, memory_order_relaxed) > 0) return;
  tide__leaving leaving = {0};
  tide__allocator_enter(a); /* large blocks are never kept */
  size_t most = excess(a, now);
  if (most < a->idle.rest) most = least(a->idle.rest, cached(a));
  size_t step = all ? most : least(most, a_little);
  atomic_store_explicit(&a->idle.look_at, now + (most > step ? AGAIN_MS : SOON_MS), memory_order_relaxed);
  a->idle.rest = most - step;
  if (step) tide__release_collect_large(&leaving, a, step);
  tide__allocator_unlock(a);
  tide__release_idle(a, &leaving);
}

/* Only looks: who asks holds a lock, and perhaps nothing may be given back now. */
bool tide__allocators_idle_any(void) {
  bool any = false;
  for (int d = 0, n = tide__device_count_known(); d < n && !any; d++) {
    const tide__allocator *a = tide__allocator_of(d);
    any = a->source == SOURCE_CACHE && atomic_load_explicit(&a->reserved, memory_order_relaxed) > 0;
  }
  return any;
}

/* What is kept and idle counts as free. */
tide_status tide_device_mem_info(size_t *free, size_t *total, int device) {
  TIDE_GIVEN("device_mem_info", free);
  TIDE_GIVEN("device_mem_info", total);
  const tide_backend *b;
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, "mem_get_info"));
  TIDE_TRY(tide__backend(&b, device));
  tide__allocator_trim(device, true);
  return b->device_mem_info(free, total, device);
}
