/* memory.c: the memory of simulated devices.
 *
 * Address space is reserved twice, for all devices at once. The first range holds the addresses that core sees; no
 * access is ever allowed there. The second one, at a fixed distance, is where the workers find the bytes; only live
 * blocks are accessible, each has a gap behind it, and freed pages go back to the system. So a use after free and an
 * overrun fault instead of reading something that looks plausible. Fresh memory is filled with bytes that read as NaN
 * in every floating dtype and as -1 in every integer one, up to POISON bytes of a block, so that the pages of a huge
 * block that is never written stay unused.
 *
 * Each device has many times more addresses than memory: a block that fits the cap finds a place by first fit whatever
 * was freed, and there is room for ranges that grow (range.c).
 *
 * Invariants: the blocks of a device are in order of their addresses and do not touch; `used` is the sum of the bytes
 * that are backed. */
#include "sim.h"

#include "base/base.h"
#include "os/os.h"

enum { PAGE = 4096 };
#ifdef __SANITIZE_THREAD__ /* which keeps four bytes beside each that is written */
static const size_t POISON = (size_t)1 << 20;
#else
static const size_t POISON = (size_t)16 << 20;
#endif

static size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/* Addresses for so many times the memory of the devices. */
static bool reserve_times(size_t times) {
  sim_state *s = &tide__sim;
  s->span = round_up(times * s->memory, (size_t)1 << 21) + ((size_t)1 << 21);
  size_t total = s->span * (size_t)s->devices;
  s->base = tide__os_reserve(total);
  char *seen = s->base ? tide__os_reserve(total) : NULL;
  if (seen) s->shift = seen - s->base;
  if (s->base && !seen) tide__os_unmap(s->base, total);
  return seen != NULL;
}

/* As much room as the system gives: under a sanitizer, or for very large devices, that may be little. */
bool tide__sim_memory_open(void) {
  const sim_state *s = &tide__sim;
  if (s->memory > SIZE_MAX / 8 / TIDE_MAX_DEVICES) return false;
  size_t times = 64;
  while (times > 2 && s->memory > ((size_t)1 << 44) / times / (size_t)s->devices) times /= 2;
  bool reserved = reserve_times(times);
  while (!reserved && times > 2) reserved = reserve_times(times /= 2);
  return reserved;
}

void tide__sim_memory_close(void) {
  sim_state *s = &tide__sim;
  size_t total = s->span * (size_t)s->devices;
  tide__os_unmap(s->base + s->shift, total);
  tide__os_unmap(s->base, total);
  for (int d = 0; d < s->devices; d++) {
    for (sim_block *b = s->device[d].blocks, *next; b; b = next) {
      next = b->next;
      if (b->shared) tide__os_share_close(b->share.file);
      free(b->piece);
      free(b);
    }
  }
  for (sim_pinned *p = s->pinned, *next; p; p = next) {
    next = p->next;
    if (!p->registered) tide__os_aligned_free(p->ptr);
    free(p);
  }
  s->pinned = NULL;
}

/* ---- device memory ---- */

size_t tide__sim_memory_of(int device) {
  return tide__sim.faults.small >> device & 1 ? tide__sim.memory / 2 : tide__sim.memory;
}

/* The first gap of at least `bytes`: the link after which the block goes, its address in *ptr; NULL if there is
 * none. */
sim_block **tide__sim_find_gap(char **ptr, int device, size_t bytes) {
  sim_block **link = &tide__sim.device[device].blocks;
  char *at = tide__sim.base + tide__sim.span * (size_t)device;
  char *end = at + tide__sim.span;
  for (; *link; link = &(*link)->next) {
    if ((size_t)((*link)->ptr - at) >= bytes) break;
    at = (*link)->ptr + round_up((*link)->bytes, PAGE) + PAGE;
  }
  *ptr = at;
  return *link || (size_t)(end - at) >= bytes ? link : NULL;
}

bool tide__sim_back(char *ptr, size_t bytes) {
  char *seen = ptr + tide__sim.shift;
  if (!tide__os_back(seen, bytes)) return false;
  if (!atomic_load(&tide__sim_dry)) memset(seen, 0xFF, bytes < POISON ? bytes : POISON);
  return true;
}

void tide__sim_unback(char *ptr, size_t bytes) { tide__os_unback(ptr + tide__sim.shift, bytes); }

tide_status tide__sim_mem_alloc(void **out, int device, size_t bytes) {
  sim_state *s = &tide__sim;
  TIDE_TRY(tide__sim_enter("alloc"));
  sim_block *block = malloc(sizeof *block);
  size_t whole = round_up(bytes, PAGE);
  pthread_mutex_lock(&s->lock);
  if (tide__sim_lost(device)) {
    free(block);
    return tide__sim_leave(device, "alloc");
  }
  size_t used = s->device[device].used, cap = tide__sim_memory_of(device), left = cap > used ? cap - used : 0;
  bool fits = block && bytes <= left && !tide__sim_fault_alloc();
  char *ptr = NULL;
  sim_block **link = fits ? tide__sim_find_gap(&ptr, device, whole + PAGE) : NULL;
  if (link && !tide__sim_back(ptr, whole)) link = NULL;
  if (link) {
    *block = (sim_block){.next = *link, .ptr = ptr, .bytes = bytes};
    *link = block;
    s->device[device].used += bytes;
  }
  pthread_mutex_unlock(&s->lock);
  if (!link) {
    free(block);
    return s->host->fail(TIDE_MEMORY, "alloc: no memory on cuda:%d, got %zu bytes, expected at most %zu", device, bytes,
                         left);
  }
  *out = ptr;
  return TIDE_OK;
}

void tide__sim_mem_free(int device, void *ptr, size_t bytes) {
  sim_state *s = &tide__sim;
  if (!ptr || atomic_load(&tide__sim_forked)) return;
  TIDE_LOCKED(&s->lock);
  sim_block **link = &s->device[device].blocks;
  while (*link && (*link)->ptr != ptr) link = &(*link)->next;
  sim_block *block = *link;
  if (block) {
    if (!block->borrowed) s->device[device].used -= block->bytes;
    if (block->shared) tide__sim_unshare(block);
    tide__sim_unback(block->ptr, round_up(block->bytes, PAGE));
    *link = block->next;
  }
  free(block);
}

tide_status tide_sim_mem_alloc(void **out, int device, size_t bytes) {
  if (device < 0 || device >= tide__sim.devices)
    return tide__fail(TIDE_DEVICE, "tide_sim_mem_alloc: no such simulated device, got %d, expected less than %d",
                      device, tide__sim.devices);
  return tide__sim_mem_alloc(out, device, bytes);
}

/* What is queued is done first, as drivers do. */
void tide_sim_mem_free(int device, void *ptr) {
  if (device < 0 || device >= tide__sim.devices) return;
  tide__sim_device_sync(device);
  tide__sim_mem_free(device, ptr, 0);
}

char *tide__sim_seen(int device, const void *ptr, size_t bytes) {
  const char *p = ptr;
  for (const sim_block *b = tide__sim.device[device].blocks; b && b->ptr <= p; b = b->next)
    if (p < b->ptr + b->bytes && bytes <= b->bytes - (size_t)(p - b->ptr))
      return !b->piece || tide__sim_range_backed(b, p, bytes) ? (char *)ptr + tide__sim.shift : NULL;
  return NULL;
}

char *tide__sim_operand(int device, const void *ptr) {
  char *seen = tide__sim_seen(device, ptr, 1);
  for (int d = 0; d < tide__sim.devices && !seen; d++)
    if (tide__sim.peers[device] >> d & 1) seen = tide__sim_seen(d, ptr, 1);
  for (const sim_pinned *p = tide__sim.pinned; p && !seen; p = p->next)
    if ((const char *)ptr >= p->ptr && (const char *)ptr < p->ptr + p->bytes) seen = (char *)ptr;
  return seen;
}

/* ---- page-locked host memory ---- */

tide_status tide__sim_host_alloc(void **out, size_t bytes) {
  sim_state *s = &tide__sim;
  TIDE_TRY(tide__sim_enter("pin_memory"));
  size_t whole = round_up(bytes, PAGE);
  sim_pinned *pinned = malloc(sizeof *pinned);
  char *ptr = pinned && whole >= bytes ? tide__os_aligned(PAGE, whole) : NULL;
  if (!ptr) {
    free(pinned);
    return s->host->fail(TIDE_MEMORY, "pin_memory: no host memory, got %zu bytes", bytes);
  }
  memset(ptr, 0xFF, whole < POISON ? whole : POISON);
  TIDE_LOCKED(&s->lock);
  *pinned = (sim_pinned){s->pinned, ptr, bytes, false};
  s->pinned = pinned;
  *out = ptr;
  return TIDE_OK;
}

void tide__sim_host_free(void *ptr, size_t bytes) {
  if (!ptr) return;
  pthread_mutex_lock(&tide__sim.lock);
  sim_pinned **link = &tide__sim.pinned;
  while (*link && (*link)->ptr != ptr) link = &(*link)->next;
  sim_pinned *pinned = *link;
  if (pinned) *link = pinned->next;
  pthread_mutex_unlock(&tide__sim.lock);
  if (!pinned) return;
  if (!pinned->registered) tide__os_aligned_free(pinned->ptr);
  free(pinned);
}
