/* tide/memory.h: pools of device memory. Conventions as in tide.h. */
#ifndef TIDE_MEMORY_H
#define TIDE_MEMORY_H

#include "tide/tide.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TIDE_ALL_DEVICES (-3) /* where a pool is made or selected: every accelerator */

/* A pool of memory of its own: what is allocated while it is current comes from segments that serve nothing else. The
 * default pool, for which NULL stands, is what is current elsewhere. A pool whose last reference has gone gives its
 * segments back as their blocks become free; tensors made in it live on. */
typedef struct tide_mempool tide_mempool;

/* A pool for one device, TIDE_CURRENT or TIDE_ALL_DEVICES; asks the driver for nothing yet. */
TIDE_API tide_status tide_mempool_new(tide_mempool **out, int device);
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

#ifdef __cplusplus
}
#endif
#endif
