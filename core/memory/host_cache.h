/* host_cache.h: the cache of large pieces of CPU memory, and the hooks behind it. */
#pragma once

#include "memory.h"

/* How much is taken for a large piece; pieces are cached by this. At least 64 KiB and a byte are large. */
size_t tide__host_room(size_t size);
/* A kept piece of just this room, or NULL. For a tenant (tide__tenant) what another one has left there is cleared. */
void *tide__host_cache_take(const tide__host_hooks *hooks, size_t room);
/* Keeps it, with the tenant's data, or gives it back to its hooks; older ones may go for it. */
void tide__host_cache_keep(const tide__host_hooks *hooks, void *ptr, size_t room, uint64_t tenant);
/* Gives back what has been idle: a little of it, or all. Two loads where there is nothing to do. */
void tide__host_cache_trim(bool all);
bool tide__host_cache_any(void);
bool tide__host_cache_flush(void); /* all that is kept; was there any? */
/* The hooks' own functions, counted. */
void *tide__host_alloc_now(const tide__host_hooks *hooks, size_t size);
void tide__host_free_now(const tide__host_hooks *hooks, void *ptr, size_t size);
void tide__host_cache_stats(tide_cpu_memory_stats *out);
void tide__host_cache_reset_peak(void);
void tide__host_cache_watch_forks(void); /* once */
/* Counts the bytes of CPU tensors, pinned ones too. */
extern _Atomic size_t tide__cpu_bytes;
void tide__cpu_bytes_add(size_t by);
static inline void tide__cpu_bytes_less(size_t by) {
  atomic_fetch_sub_explicit(&tide__cpu_bytes, by, memory_order_relaxed);
}
