/* tide/memory.h: how device memory is come by: settings, pools, allocators of a program's own, page-locked memory.
 * Conventions as in tide.h. */
#ifndef TIDE_MEMORY_H
#define TIDE_MEMORY_H

#include "tide/tide.h"

TIDE_C_BEGIN

#define TIDE_ALL_DEVICES (-3) /* where a pool is made or selected: every accelerator */

/* "1.50 GiB" or "12 bytes" into out, which it returns. */
enum { TIDE_BYTES_TEXT = 32 };
TIDE_API const char *tide_bytes_text(char out[TIDE_BYTES_TEXT], uint64_t bytes);

/* ---- The allocator ---- */

/* Sets options, "option:value,option:value", with the names and values of torch: backend (native, cudaMallocAsync),
 * expandable_segments, max_split_size_mb, garbage_collection_threshold, roundup_power2_divisions,
 * per_process_memory_fraction, pinned_max_cached_size_mb. The environment's TIDE_ALLOC_CONF has the same grammar and is
 * read when a device is first used. Others keep their values; nothing changes on failure. The backend can be set before
 * memory is first used. */
TIDE_API tide_status tide_allocator_configure(const char *settings);
/* "native", "cudaMallocAsync" or "pluggable". */
TIDE_API tide_status tide_allocator_backend(const char **out);
/* Without caching every allocation asks the driver and every release waits and goes back to it: for tools that look for
 * leaks. TIDE_NO_CUDA_MEMORY_CACHING=1 starts without. */
TIDE_API tide_status tide_allocator_set_caching(bool enabled);
/* Is caching on? */
TIDE_API bool tide_allocator_get_caching(void);
/* Memory for use on the stream, NULL for the current one of the device, for code that knows pointers alone. */
TIDE_API tide_status tide_allocator_take(void **out, size_t bytes, int device, tide_stream *stream);
/* Gives back what tide_allocator_take gave: its stream may use it at once for something else. */
TIDE_API tide_status tide_allocator_give(void *ptr);

/* A program's own allocator: two functions of a shared library. The first returns NULL when it has no memory; the
 * stream is the driver's handle. They may be called from any thread, with locks of tide held: they call nothing of
 * tide. */
typedef void *(*tide_alloc_fn)(ptrdiff_t size, int device, void *stream);
typedef void (*tide_free_fn)(void *ptr, ptrdiff_t size, int device, void *stream);
typedef struct tide_allocator tide_allocator;
/* Opens the library, which stays open until the process ends. LIBRARY if it or a name in it cannot be found. */
TIDE_API tide_status tide_allocator_open(tide_allocator **out, const char *path, const char *alloc, const char *free);
/* Functions that are at hand. */
TIDE_API tide_status tide_allocator_wrap(tide_allocator **out, tide_alloc_fn alloc, tide_free_fn free);
/* One reference more. */
TIDE_API void tide_allocator_retain(tide_allocator *allocator);
/* One reference less; NULL is allowed. */
TIDE_API void tide_allocator_release(tide_allocator *allocator);
/* From now on device memory comes from it, uncached. STATE once device memory has been used. */
TIDE_API tide_status tide_allocator_change(tide_allocator *allocator);

/* ---- Pools ---- */

/* A pool of memory of its own: what is allocated while it is current comes from segments that serve nothing else. The
 * default pool, for which NULL stands, is what is current elsewhere. A pool whose last reference has gone gives its
 * segments back as their blocks become free; tensors made in it live on. */
typedef struct tide_mempool tide_mempool;

/* A pool for one device, TIDE_CURRENT or TIDE_ALL_DEVICES; asks the driver for nothing yet. */
TIDE_API tide_status tide_mempool_new(tide_mempool **out, int device);
/* The same; its segments come from the program's own allocator, which it retains. They are cached. */
TIDE_API tide_status tide_mempool_new_from(tide_mempool **out, int device, tide_allocator *source);
/* One reference more. */
TIDE_API void tide_mempool_retain(tide_mempool *pool);
/* One reference less; NULL is allowed. For any thread, finalisers too: calls no driver. */
TIDE_API void tide_mempool_release(tide_mempool *pool);
/* Never 0 and never used again in this process; the id of the default pool, NULL, is 0. */
TIDE_API uint64_t tide_mempool_id(const tide_mempool *pool);
/* The device that it was made for, or TIDE_ALL_DEVICES. */
TIDE_API int tide_mempool_device(const tide_mempool *pool);
/* The pool from which the calling thread (or the bound tide_current) allocates on the device: borrowed, NULL if it is
 * the default one. */
TIDE_API tide_status tide_current_pool(tide_mempool **out, int device);
/* Selects it; NULL selects the default pool. The current holds a reference until another is selected. */
TIDE_API tide_status tide_current_set_pool(tide_mempool *pool, int device);

/* ---- Page-locked host memory ---- */

/* Of calls of the driver, in microseconds. */
typedef struct tide_duration_stat {
  int64_t total, count, max, min;
} tide_duration_stat;
/* Pieces that exist and those of them that are handed out, or still used by queued work; their sizes are powers of
 * two, but of memory that tide_host_register locked, which counts as existing alone. */
typedef struct tide_host_memory_stats {
  tide_stat allocations, allocated_bytes, active_requests, active_bytes;
  int64_t num_host_alloc, num_host_free;
  tide_duration_stat host_alloc_time, host_free_time;
} tide_host_memory_stats;
/* Zeros before first use. */
TIDE_API void tide_host_memory_get_stats(tide_host_memory_stats *out);
/* Every peak starts again from the present value. */
TIDE_API void tide_host_memory_reset_peak(void);
/* Sets totals, counts and times to 0. */
TIDE_API void tide_host_memory_reset_accumulated(void);
/* Gives back what is kept and not in use. */
TIDE_API void tide_host_memory_empty_cache(void);

/* ---- Memory of CPU tensors ---- */

/* What tensors hold, and what is cached of their freed memory in pieces of more than 64 KiB: at most 256 MiB or
 * a quarter of what tensors hold, or the piece that came last where tensors hold as much again. What has been idle for
 * two seconds is given back at the next call that allocates, waits or asks, and by an idle worker thread where CPU
 * loops have started one. num_alloc and num_free count the calls of the system's functions or the host's hooks. */
typedef struct tide_cpu_memory_stats {
  size_t allocated_bytes, peak_bytes; /* page-locked memory that tensors hold included */
  tide_stat cached_blocks, cached_bytes;
  int64_t num_alloc, num_free, num_cache_hits;
} tide_cpu_memory_stats;
/* Works before the start too. */
TIDE_API void tide_cpu_memory_get_stats(tide_cpu_memory_stats *out);
/* Every peak starts again from the present value. */
TIDE_API void tide_cpu_memory_reset_peak(void);
/* Gives back what is kept: by all threads together, and of small pieces by the calling thread. */
TIDE_API void tide_cpu_memory_empty_cache(void);

TIDE_C_END
#endif
