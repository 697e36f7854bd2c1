/* external.c: memory and semaphores of other APIs, for simulated devices.
 *
 * Memory is a file that the other side maps too: a block on its pages. A semaphore is a file that begins with its
 * count. A wait and a signal are a wait for a mark and a record of one, but the mark's place is in the count, which
 * somebody else may change: so waits look at it every half millisecond. The host's own pages, locked, are one more
 * piece of page-locked memory, which is not freed.
 *
 * Invariant: a semaphore is mapped while it is open or a queued operation is on it. */
#include "sim.h"

#include <stdlib.h>

#include "base/base.h"

/* ---- the host's pages ---- */

static tide_status host_lock(void *ptr, size_t bytes) {
  sim_state *s = &tide__sim;
  TIDE_TRY(tide__sim_enter("host_register"));
  sim_pinned *p = malloc(sizeof *p);
  if (!p) return s->host->fail(TIDE_MEMORY, "host_register: no host memory");
  *p = (sim_pinned){NULL, ptr, bytes, true};
  pthread_mutex_lock(&s->lock);
  const sim_pinned *other = s->pinned;
  while (other && (other->ptr >= p->ptr + bytes || p->ptr >= other->ptr + other->bytes)) other = other->next;
  if (!other) p->next = s->pinned, s->pinned = p;
  pthread_mutex_unlock(&s->lock);
  if (!other) return TIDE_OK;
  free(p);
  return s->host->fail(
      TIDE_VALUE, "host_register: ptr overlaps memory that is page-locked already, got %zu bytes at %p", bytes, ptr);
}

static void host_unlock(void *ptr) { tide__sim_host_free(ptr, 0); }

/* ---- memory ---- */

static tide_status check_file(int fd, size_t bytes, const char *what) {
  tide__os_about about;
  TIDE_TRY(tide__sim_enter(what));
  if (!tide__os_look_at(&about, fd) && (uint64_t)about.bytes >= bytes) return TIDE_OK;
  return tide__sim.host->fail(TIDE_VALUE, "%s: fd is not a file of %zu bytes, got %d, expected a memfd", what, bytes,
                              fd);
}

static tide_status memory_open(void **out, void **ptr, int device, int fd, size_t bytes, bool dedicated) {
  sim_block *block;
  TIDE_TRY(check_file(fd, bytes, "import_memory"));
  if (!tide__sim_adopt(&block, device, fd, bytes))
    return tide__sim.host->fail(TIDE_MEMORY, "import_memory: no addresses for %zu bytes", bytes);
  *out = *ptr = block->ptr;
  return TIDE_OK;
}

static void memory_close(int device, void *memory) { tide__sim_mem_free(device, memory, 0); }

/* ---- semaphores ---- */

static tide_status semaphore_open(void **out, int device, int fd, bool timeline) {
  TIDE_TRY(check_file(fd, sizeof(uint64_t), "import_semaphore"));
  sim_semaphore *s = malloc(sizeof *s);
  void *map = s ? tide__os_share_map(fd, sizeof *s->count) : NULL;
  if (!map) {
    free(s);
    return tide__sim.host->fail(TIDE_MEMORY, "import_semaphore: no host memory");
  }
  tide__os_share_close(fd);
  *s = (sim_semaphore){map, 1, timeline};
  *out = s;
  return TIDE_OK;
}

static void semaphore_close(int device, void *semaphore) {
  TIDE_LOCKED(&tide__sim.lock);
  tide__sim_semaphore_unref(semaphore);
}

static tide_status queue(sim_kind kind, void *stream, sim_semaphore *s, uint64_t value) {
  TIDE_TRY(tide__sim_enter("semaphore"));
  sim_mark *mark = calloc(1, sizeof *mark);
  if (!mark) return tide__sim.host->fail(TIDE_MEMORY, "semaphore: no host memory");
  pthread_mutex_lock(&tide__sim.lock);
  s->refs++;
  *mark = (sim_mark){.refs = 1, .semaphore = s, .ticket = value};
  pthread_mutex_unlock(&tide__sim.lock);
  return tide__sim_mark_queue(kind, mark, stream, "semaphore");
}

static tide_status semaphore_wait(void *stream, void *semaphore, uint64_t value) {
  return queue(SIM_WAIT, stream, semaphore, value);
}

static tide_status semaphore_signal(void *stream, void *semaphore, uint64_t value) {
  return queue(SIM_RECORD, stream, semaphore, value);
}

const tide_external tide__sim_external = {
    .host_lock = host_lock,
    .host_unlock = host_unlock,
    .memory_open = memory_open,
    .memory_close = memory_close,
    .semaphore_open = semaphore_open,
    .semaphore_close = semaphore_close,
    .semaphore_wait = semaphore_wait,
    .semaphore_signal = semaphore_signal,
};
