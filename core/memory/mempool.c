/* mempool.c: pools, as far as they are more than a number in the allocator's trees.
 *
 * A pool owns nothing itself. Its id is part of the key under which free blocks are found (the key), so blocks of
 * different pools never serve each other's requests and never merge, on any device. Nor does what
 * captures of a pool have used serve other requests of it, until the last graph of the pool is gone. Letting a pool go
 * only drops a count: a finaliser may do it. The allocator gives the segments of a pool that nobody holds back to the
 * driver when their blocks are free, at the next occasion at which it waits for the device anyway; they do not go to
 * other pools, because captured work may still be replayed on streams that the allocator does not know.
 *
 * Invariant: the struct lives while it has users or segments. */

#include "allocator.h"

static _Atomic uint64_t last_id;

/* TIDE_ALL_DEVICES stays what it is. */
static tide_status resolve(int *out, int device, const char *what) {
  *out = device;
  return device == TIDE_ALL_DEVICES ? TIDE_OK : tide__device_resolve_accelerator(out, device, what);
}

tide_status tide_mempool_new(tide_mempool **out, int device) {
  TIDE_GIVEN("mempool_new", out);
  return tide_mempool_new_from(out, device, NULL);
}

tide_status tide_mempool_new_from(tide_mempool **out, int device, tide_allocator *source) {
  TIDE_GIVEN("mempool_new_from", out);
  if (!tide__running()) return tide__fail(TIDE_STATE, "mempool_new: tide is not started, expected tide_init first");
  TIDE_TRY(resolve(&device, device, "mempool_new"));
  tide_mempool *pool = malloc(sizeof *pool);
  if (!pool) return tide__fail(TIDE_MEMORY, "mempool_new: no host memory");
  *pool = (tide_mempool){.device = device, .epoch = tide__epoch_now(), .source = source};
  if (source) tide_allocator_retain(source);
  pool->quota = tide__quota_retain(tide__quota_bound());
  atomic_init(&pool->refs, 1);
  atomic_init(&pool->life, 1);
  pool->id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
  *out = pool;
  return TIDE_OK;
}

void tide__mempool_drop(tide_mempool *pool) {
  if (!pool || atomic_fetch_sub_explicit(&pool->life, 1, memory_order_acq_rel) != 1) return;
  tide_allocator_release(pool->source);
  tide_quota_release(pool->quota);
  free(pool);
}

tide_status tide__mempool_count(tide_mempool *pool, int64_t by) {
  return pool && pool->quota ? tide__quota_move(pool->quota, by, 0) : TIDE_OK;
}

void tide_mempool_retain(tide_mempool *pool) {
  if (!pool) return;
  tide__ref_take(&pool->refs);
}

void tide_mempool_release(tide_mempool *pool) {
  if (!pool || atomic_fetch_sub_explicit(&pool->refs, 1, memory_order_acq_rel) != 1) return;
  bool empty = atomic_load_explicit(&pool->life, memory_order_relaxed) == 1;
  for (int d = 0; !empty && d < TIDE_MAX_DEVICES; d++)
    if (pool->device == TIDE_ALL_DEVICES || pool->device == d) tide__allocator_of(d)->has_dead = true;
  tide__mempool_drop(pool);
}

bool tide__mempool_live(const tide_mempool *pool) { return pool->epoch == tide__epoch_now(); }

void tide__mempool_recorded(tide_mempool *pool) {
  atomic_fetch_add_explicit(&pool->recordings, 1, memory_order_relaxed);
}

uint64_t tide_mempool_id(const tide_mempool *pool) { return pool ? pool->id : 0; }
int tide_mempool_device(const tide_mempool *pool) { return pool ? pool->device : TIDE_ALL_DEVICES; }

tide_status tide_current_pool(tide_mempool **out, int device) {
  TIDE_GIVEN("current_pool", out);
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, "current_pool"));
  *out = tide__current_pool(device);
  return TIDE_OK;
}

tide_status tide_current_set_pool(tide_mempool *pool, int device) {
  TIDE_TRY(resolve(&device, device, "set_pool"));
  if (pool && !tide__mempool_live(pool))
    return tide__fail(TIDE_STATE, "set_pool: the pool belongs to a runtime that has ended or was reset");
  if (pool && pool->device != TIDE_ALL_DEVICES && pool->device != device)
    return tide__fail(TIDE_DEVICE, "set_pool: wrong device, got %s for a pool of %s",
                      device == TIDE_ALL_DEVICES ? "all devices" : tide__device_text(device),
                      tide__device_text(pool->device));
  if (device != TIDE_ALL_DEVICES) tide__current_pool_set(pool, device);
  for (int d = 0; device == TIDE_ALL_DEVICES && d < TIDE_MAX_DEVICES; d++) tide__current_pool_set(pool, d);
  return TIDE_OK;
}
