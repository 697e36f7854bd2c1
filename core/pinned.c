/* pinned.c: page-locked host memory.
 *
 * Locking pages costs a driver call of up to milliseconds and may wait for the device, so pieces that are let go are
 * kept and serve again. Sizes are powers of two up to 1 MiB and whole MiB above; a kept piece serves a request of at
 * least half its size. What is kept is bounded, because locked pages are missing elsewhere. A piece comes here only
 * when no queued copy uses it any more (park.c).
 *
 * Invariant: a piece is in the list of all pieces while it exists, and marked `kept` exactly while nobody has it. */
#include "core.h"

#include <stdlib.h>

struct tide__pinned {
  tide__pinned *prev, *next;
  const tide_backend *backend;
  void *ptr;
  size_t size;
  bool kept;
};

static const size_t smallest = 4096, mib = (size_t)1 << 20, keep_most = (size_t)512 << 20;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tide__pinned *all;
static size_t kept_bytes;

static size_t size_for(size_t bytes) {
  if (bytes > mib) return (bytes + mib - 1) / mib * mib;
  size_t size = smallest;
  while (size < bytes) size *= 2;
  return size;
}

static tide__pinned *take_kept(size_t size) {
  tide__pinned *best = NULL;
  pthread_mutex_lock(&lock);
  for (tide__pinned *p = all; p; p = p->next)
    if (p->kept && p->size >= size && p->size / 2 <= size && (!best || p->size < best->size)) best = p;
  if (best) best->kept = false, kept_bytes -= best->size;
  pthread_mutex_unlock(&lock);
  return best;
}

static void unlink_piece(tide__pinned *p) {
  if (p->prev)
    p->prev->next = p->next;
  else
    all = p->next;
  if (p->next) p->next->prev = p->prev;
}

static tide_status make(tide__pinned **out, size_t size) {
  const tide_backend *b;
  TIDE_TRY(tide__backend(&b, tide_current_device()));
  if (!b->host_alloc) return tide__fail(TIDE_SUPPORT, "pin_memory: %s has no page-locked memory", b->name);
  tide__pinned *p = calloc(1, sizeof *p);
  if (!p) return tide__fail(TIDE_MEMORY, "pin_memory: no host memory");
  p->backend = b, p->size = size;
  tide_status status = b->host_alloc(&p->ptr, size);
  if (status != TIDE_OK) {
    free(p);
    return status;
  }
  pthread_mutex_lock(&lock);
  p->next = all;
  if (all) all->prev = p;
  all = p;
  pthread_mutex_unlock(&lock);
  *out = p;
  return TIDE_OK;
}

tide_status tide__pinned_get(tide__pinned **out, void **ptr, size_t bytes) {
  if (bytes > (size_t)PTRDIFF_MAX || tide__fault_now())
    return tide__fail_memory(TIDE_CPU, bytes, 0, 0, tide_memory_cpu_allocated(), tide_memory_cpu_allocated(),
                             "pin_memory: no page-locked memory for %zu bytes", bytes);
  size_t size = size_for(bytes);
  tide__pinned *p = take_kept(size);
  if (!p) {
    tide_status status = make(&p, size);
    if (status == TIDE_MEMORY) {
      tide__reclaim(TIDE_CPU, bytes);
      tide_memory_pump();
      tide__pinned_trim();
      status = make(&p, size);
    }
    if (status != TIDE_OK) return status;
  }
  *out = p, *ptr = p->ptr;
  return TIDE_OK;
}

static void destroy(tide__pinned *p) {
  p->backend->host_free(p->ptr, p->size);
  free(p);
}

void tide__pinned_put(tide__pinned *p) {
  pthread_mutex_lock(&lock);
  p->kept = kept_bytes + p->size <= keep_most;
  if (p->kept)
    kept_bytes += p->size;
  else
    unlink_piece(p);
  bool gone = !p->kept;
  pthread_mutex_unlock(&lock);
  if (gone) destroy(p);
}

/* Takes the pieces out under the lock and gives them back without it. */
static void clear(bool also_used) {
  tide__pinned *out = NULL;
  pthread_mutex_lock(&lock);
  for (tide__pinned *p = all, *next; p; p = next) {
    next = p->next;
    if (!p->kept && !also_used) continue;
    if (p->kept) kept_bytes -= p->size;
    unlink_piece(p);
    p->next = out, out = p;
  }
  pthread_mutex_unlock(&lock);
  while (out) {
    tide__pinned *p = out;
    out = p->next;
    destroy(p);
  }
}

void tide__pinned_trim(void) { clear(false); }
void tide__pinned_shutdown(void) { clear(true); }
