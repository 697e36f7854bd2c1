/* scratch.c: memory that kernels need while they run.
 *
 * A few blocks are kept, one of them large, the others of at most KEPT_SMALL bytes: a call takes what it finds and puts
 * it back. Whatever does not fit there goes to the system. Large blocks are of huge pages where the system has them:
 * they are walked through again and again, the processor does not know so many small pages at a time, and touching and
 * freeing so many takes longer than what they are for.
 *
 * Invariant: a block is in a place, or one caller has it. */

#include "base/quota.h"
#include "os/os.h"
#include "scratch.h"

enum { PLACES = 16, KEPT_SMALL = 1 << 20, KEPT_LARGE = 40 << 20, AHEAD = 128, HUGE_PAGE = 2 << 20 };

typedef struct block {
  size_t bytes, counted;
  tide_quota *quota; /* in which `counted` bytes count, or NULL */
} block;

static _Atomic(block *) places[PLACES]; /* the first is for large ones */
static _Thread_local size_t refused;    /* bytes that the quota had no room for in this kernel */

void tide__room_close(void) {
  for (int i = 0; i < PLACES; i++) tide__os_aligned_free(atomic_exchange(&places[i], NULL));
}

static block *take(size_t bytes) {
  for (int i = bytes > KEPT_SMALL ? 0 : 1; i < (bytes > KEPT_SMALL ? 1 : PLACES); i++) {
    if (!atomic_load_explicit(&places[i], memory_order_relaxed)) continue;
    block *b = atomic_exchange(&places[i], NULL);
    if (b && b->bytes >= bytes) return b;
    tide__os_aligned_free(b);
  }
  const size_t to = bytes > KEPT_SMALL ? HUGE_PAGE : AHEAD, all = (bytes + AHEAD + to - 1) / to * to;
  block *b = tide__os_aligned(to, all);
  if (!b) return NULL;
  if (to == HUGE_PAGE) tide__os_huge(b, all);
  b->bytes = bytes;
  return b;
}

void *tide__room_take(size_t bytes) {
  tide_quota *quota = NULL;
  if (bytes > SIZE_MAX - 2 * HUGE_PAGE) return NULL;
  if (bytes > ROOM_FREE && tide__quota_any() && tide__quota_charge(&quota, bytes, TIDE_CPU) != TIDE_OK) {
    refused = bytes;
    return NULL;
  }
  block *b = take(bytes);
  if (!b && quota) tide__quota_give(quota, bytes, TIDE_CPU);
  if (!b) return NULL;
  b->quota = quota, b->counted = bytes;
  return (char *)b + AHEAD;
}

tide_status tide__room_status(tide_status status) {
  size_t bytes = refused;
  refused = 0;
  if (!bytes || status != TIDE_MEMORY) return status;
  return tide__fail(TIDE_QUOTA,
                    "quota: got a need of %zu bytes of working memory, expected at most what is left of the bytes in "
                    "host memory that the host allows",
                    bytes);
}

void tide__room_put(void *memory) {
  if (!memory) return;
  block *b = (block *)(void *)((char *)memory - AHEAD), *none = NULL;
  if (b->quota) tide__quota_give(b->quota, b->counted, TIDE_CPU);
  int i = b->bytes > KEPT_SMALL ? 0 : 1, end = b->bytes > KEPT_SMALL ? b->bytes <= KEPT_LARGE : PLACES;
  for (; i < end; i++, none = NULL)
    if (atomic_compare_exchange_strong(&places[i], &none, b)) return;
  tide__os_aligned_free(b);
}
