/* allocator_stats.c: what the allocator tells and what one may ask of it.
 *
 * The counters are torch's, kept by allocator.c as things happen; here they are read, reset and put into words. The two
 * that programs ask for in their loops are kept as atomics beside the table, so asking takes no lock. Asking about a
 * device that was never used answers zero and opens nothing.
 *
 * Invariant: a stat's peak is never below its current value. */
#include "allocator.h"

/* ---- reading ---- */

/* An index of `allocators`, or -1 for what is no accelerator; opens nothing. */
static int index_of(int device) {
  if (device == TIDE_CURRENT) device = tide_current_device();
  return device >= 0 && device < TIDE_MAX_DEVICES ? device : -1;
}

static tide_status index_check(int *out, int device, const char *what) {
  *out = index_of(device);
  if (*out >= 0 && tide__backend_peek(*out)) return TIDE_OK;
  if (*out < 0)
    return tide__fail(TIDE_DEVICE, "%s: wrong device, got %s, expected an accelerator", what,
                      tide__device_text(device));
  int known = tide__device_count_known();
  if (known > 0 && *out >= known)
    return tide__fail(TIDE_DEVICE, "%s: no such device, got cuda:%d, expected a number from 0 to %d", what, *out,
                      known - 1);
  return TIDE_OK;
}

/* The driver's stream-ordered allocator has a cache of its own, which only the driver knows: its bytes. */
static size_t driver_cache(tide__allocator *a, int device) {
  if (a->source != SOURCE_ASYNC && a->source != SOURCE_DIRECT) return 0; /* most often, without the lock */
  const tide_backend *backend = tide__backend_peek(device);
  size_t reserved;
  tide__allocator_lock(a);
  bool ask = tide__allocator_ordered(a);
  size_t held = a->ordered;
  tide__allocator_unlock(a);
  if (!ask || !backend || tide__device_lost(NULL, device)) return 0;
  return backend->mem_reserved_async(&reserved, device) == TIDE_OK && reserved > held ? reserved - held : 0;
}

/* The lock is held. The driver does not tell the peak of its cache, so what is read now is what is known of it. */
static void raise_reserved(tide__allocator *a, int64_t cached) {
  tide_stat *row = &a->stats.reserved_bytes[TIDE_POOL_ALL];
  if (row->peak < row->current + cached) row->peak = row->current + cached;
}

tide_status tide_memory_get_stats(tide_memory_stats *out, int device) {
  TIDE_GIVEN("memory_get_stats", out);
  int d;
  tide__idle_trim_all();
  TIDE_TRY(index_check(&d, device, "memory_stats"));
  tide__allocator *a = tide__allocator_of(d);
  int64_t cached = (int64_t)driver_cache(a, d);
  tide__allocator_lock(a);
  raise_reserved(a, cached);
  *out = a->stats;
  tide__allocator_unlock(a);
  out->reserved_bytes[TIDE_POOL_ALL].current += cached;
  tide__settings set;
  if (a->source == SOURCE_UNREADY && tide__backend_peek(d) && tide__settings_get(&set) == TIDE_OK)
    out->max_split_size = tide__settings_max_split(&set);
  return TIDE_OK;
}

void tide__allocator_visit(int device, void (*fn)(void *arg, const tide__segment *segment), void *arg) {
  tide__allocator *a = tide__allocator_of(device);
  tide__allocator_lock(a);
  for (const tide__segment *s = a->segments; s; s = s->next) fn(arg, s);
  tide__allocator_unlock(a);
}

size_t tide_memory_allocated(int device) {
  int d = index_of(device);
  return d < 0 ? 0 : atomic_load_explicit(&tide__allocator_of(d)->allocated, memory_order_relaxed);
}

size_t tide_memory_reserved(int device) {
  int d = index_of(device);
  if (d < 0) return 0;
  tide__allocator *a = tide__allocator_of(d);
  tide__allocator_trim(d, true);
  size_t cached = driver_cache(a, d);
  if (cached) {
    tide__allocator_lock(a);
    raise_reserved(a, (int64_t)cached);
    tide__allocator_unlock(a);
  }
  return atomic_load_explicit(&a->reserved, memory_order_relaxed) + cached;
}

/* ---- resetting ---- */

/* Every row of the table is a tide_stat, from the first field up to the counters. */
enum { ROWS = offsetof(tide_memory_stats, max_split_size) / sizeof(tide_stat) };

tide_status tide_memory_reset_peak(int device) {
  int d;
  TIDE_TRY(index_check(&d, device, "reset_peak_memory_stats"));
  tide__allocator *a = tide__allocator_of(d);
  tide__allocator_lock(a);
  tide_stat *row = (tide_stat *)&a->stats;
  for (int i = 0; i < ROWS; i++) row[i].peak = row[i].current;
  tide__allocator_unlock(a);
  return TIDE_OK;
}

tide_status tide_memory_reset_accumulated(int device) {
  int d;
  TIDE_TRY(index_check(&d, device, "reset_accumulated_memory_stats"));
  tide__allocator *a = tide__allocator_of(d);
  tide__allocator_lock(a);
  tide_stat *row = (tide_stat *)&a->stats;
  for (int i = 0; i < ROWS; i++) row[i].allocated = row[i].freed = 0;
  a->stats.num_alloc_retries = a->stats.num_ooms = 0;
  tide__allocator_unlock(a);
  return TIDE_OK;
}

/* ---- the cache and its cap ---- */

static tide_status empty_one(int device) {
  tide__allocator *a = tide__allocator_of(device);
  if (!tide__backend_peek(device)) return TIDE_OK;
  TIDE_TRY(tide__sync_asked("empty_cache"));
  if (tide__device_lost(NULL, device))
    tide__memory_settle();
  else
    TIDE_TRY(tide__memory_wait(device));
  tide__allocator_lock(a);
  a->stats.num_sync_all_streams++;
  tide__allocator_unlock(a);
  return tide__allocator_release_cached(a);
}

tide_status tide_memory_empty_cache(int device) {
  int d;
  if (device != TIDE_CURRENT) {
    TIDE_TRY(index_check(&d, device, "empty_cache"));
    return empty_one(d);
  }
  for (d = 0; d < TIDE_MAX_DEVICES; d++) TIDE_TRY(empty_one(d));
  tide__pinned_trim();
  return TIDE_OK;
}

tide_status tide_memory_set_fraction(double fraction, int device) {
  if (!(fraction >= 0 && fraction <= 1))
    return tide__fail(TIDE_VALUE, "set_per_process_memory_fraction: wrong fraction, got %g, expected 0 to 1", fraction);
  size_t unused, total;
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, "set_per_process_memory_fraction"));
  TIDE_TRY(tide_device_mem_info(&unused, &total, device));
  tide__allocator *a = tide__allocator_of(device);
  tide__allocator_lock(a);
  tide__allocator_cap(a, fraction, total);
  tide__allocator_unlock(a);
  return TIDE_OK;
}

double tide_memory_get_fraction(int device) {
  int d = index_of(device);
  if (d < 0) return 1;
  tide__allocator *a = tide__allocator_of(d);
  tide__settings set;
  tide__allocator_lock(a);
  double fraction = a->capped ? a->fraction : 1;
  bool settled = a->cap_set || a->source != SOURCE_UNREADY;
  tide__allocator_unlock(a);
  if (!settled && tide__settings_get(&set) == TIDE_OK && set.fraction >= 0) return set.fraction;
  return fraction;
}
