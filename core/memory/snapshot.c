/* snapshot.c: the state of the allocator as a value, and the lines that hold the memory.
 *
 * A snapshot is a copy, made under the lock of each device in turn: about 30 ns a block. It holds numbers; the texts of
 * its lines and stacks are looked up when somebody reads them, and its labels are held by reference. The sums by line
 * walk the blocks in the same way; lines have small dense numbers, so the sums are an array indexed by them.
 *
 * Invariant: the blocks of segment i are block[first .. first + blocks), in order of address and without gaps. */

#include "allocator.h"
#include "base/own.h"

/* ---- the sums by line ---- */

typedef struct site_sums {
  tide_memory_site *of; /* by site */
  uint32_t most;        /* the largest site with a block */
} site_sums;

static void each_used(const tide__allocator *a, void (*visit)(site_sums *, const tide_block *), site_sums *sums) {
  for (const tide__segment *s = a->segments; s; s = s->next)
    for (const tide_block *b = s->head; b; b = b->next)
      if (tide__block_busy(b)) visit(sums, b);
}

static void find_most(site_sums *sums, const tide_block *b) {
  if (b->note.site > sums->most) sums->most = b->note.site;
}

static void sum_up(site_sums *sums, const tide_block *b) {
  tide_memory_site *s = &sums->of[b->note.site];
  s->site = b->note.site;
  s->bytes += b->size;
  s->blocks++;
}

static int by_bytes(const void *x, const void *y) {
  const tide_memory_site *a = x, *b = y;
  return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : a->site < b->site ? -1 : 1;
}

int tide__allocator_sites(tide_memory_site *out, int most, const tide__allocator *a) {
  site_sums sums = {0};
  each_used(a, find_most, &sums);
  sums.of = calloc((size_t)sums.most + 1, sizeof *sums.of);
  if (!sums.of) return 0;
  each_used(a, sum_up, &sums);
  qsort(sums.of, (size_t)sums.most + 1, sizeof *sums.of, by_bytes);
  int n = 0;
  while (n < most && (uint32_t)n <= sums.most && sums.of[n].bytes) out[n] = sums.of[n], n++;
  free(sums.of);
  return n;
}

int tide_memory_sites(tide_memory_site *out, int most, int device) {
  if (device == TIDE_CURRENT) device = tide_current_device();
  if (device < 0 || device >= TIDE_MAX_DEVICES) return 0;
  tide__allocator *a = tide__allocator_of(device);
  tide__allocator_lock(a);
  int n = tide__allocator_sites(out, most, a);
  tide__allocator_unlock(a);
  return n;
}

/* ---- the copy ---- */

typedef struct builder {
  tide_memory_snapshot *snapshot;
  int segment_room, block_room;
  uint64_t pool; /* the wanted one; 0: all */
} builder;

static bool copy_block(builder *to, const tide_block *b) {
  tide_memory_snapshot *s = to->snapshot;
  if (!tide__grow(&s->block, &to->block_room, (int)s->blocks, sizeof *s->block)) return false;
  tide_block_info *out = &s->block[s->blocks++];
  *out = (tide_block_info){.address = (uintptr_t)b->ptr, .size = b->size};
  if (!tide__block_busy(b)) return true;
  out->state = b->state == BLOCK_USED ? TIDE_BLOCK_USED : TIDE_BLOCK_PENDING;
  out->requested = b->requested;
  out->site = b->note.site, out->stack = b->note.stack, out->scope = b->note.scope;
  if (out->scope) tide_allocation_scope_retain(out->scope);
  return true;
}

/* The blocks from *at on that lie in memory without a gap: of a segment that does not grow, all of them. */
static bool copy_run(builder *to, const tide__segment *from, const tide_block **at, int device) {
  tide_memory_snapshot *s = to->snapshot;
  if (!tide__grow(&s->segment, &to->segment_room, (int)s->segments, sizeof *s->segment)) return false;
  tide_segment_info *out = &s->segment[s->segments++];
  *out =
      (tide_segment_info){.device = device, .large = from->pool == TIDE_POOL_LARGE, .address = (uintptr_t)(*at)->ptr};
  out->stream = from->key.stream, out->pool = tide_mempool_id(from->mempool);
  out->first = s->blocks, out->expandable = from->kind == SEGMENT_RANGE;
  for (; *at && (*at)->state != BLOCK_UNMAPPED; *at = (*at)->next) {
    const tide_block *b = *at;
    if (!copy_block(to, b)) return false;
    out->total += b->size;
    if (tide__block_busy(b)) out->active += b->size;
    if (b->state == BLOCK_USED) out->allocated += b->size, out->requested += b->requested;
  }
  out->blocks = s->blocks - out->first;
  return true;
}

/* One that grows is shown, as torch does, as a segment for each stretch of memory in it. */
static bool copy_segment(builder *to, const tide__segment *from, int device) {
  const tide_block *at = from->head;
  while (at) {
    if (at->state == BLOCK_UNMAPPED)
      at = at->next;
    else if (!copy_run(to, from, &at, device))
      return false;
  }
  return true;
}

static bool copy_device(builder *to, int device) {
  tide__allocator *a = tide__allocator_of(device);
  bool fits = true;
  tide__allocator_lock(a);
  for (const tide__segment *s = a->segments; fits && s; s = s->next)
    if (!to->pool || tide_mempool_id(s->mempool) == to->pool) fits = copy_segment(to, s, device);
  tide__allocator_unlock(a);
  return fits;
}

static int by_address(const void *x, const void *y) {
  const tide_segment_info *a = x, *b = y;
  if (a->device != b->device) return a->device < b->device ? -1 : 1;
  return a->address < b->address ? -1 : a->address > b->address;
}

tide_status tide_memory_snapshot_new(tide_memory_snapshot **out, uint64_t pool, uint32_t flags) {
  TIDE_GIVEN("memory_snapshot_new", out);
  tide_memory_pump();
  builder to = {.snapshot = calloc(1, sizeof *to.snapshot), .pool = pool};
  tide_memory_snapshot *s = to.snapshot;
  bool fits = s != NULL;
  for (int d = 0; fits && d < TIDE_MAX_DEVICES; d++) fits = copy_device(&to, d);
  tide_status status = fits ? TIDE_OK : tide__fail(TIDE_MEMORY, "memory_snapshot: no host memory for the copy");
  if (fits && (flags & TIDE_SNAPSHOT_EVENTS)) status = tide__history_copy(&s->event, &s->events, &s->lost);
  if (status != TIDE_OK) {
    tide_memory_snapshot_free(s);
    return status;
  }
  if (s->segments) qsort(s->segment, (size_t)s->segments, sizeof *s->segment, by_address);
  *out = s;
  return TIDE_OK;
}

void tide_memory_snapshot_free(tide_memory_snapshot *s) {
  if (!s) return;
  for (int64_t i = 0; i < s->blocks; i++) tide_allocation_scope_release(s->block[i].scope);
  for (int64_t i = 0; i < s->events; i++) tide_allocation_scope_release(s->event[i].scope);
  free(s->segment);
  free(s->block);
  free(s->event);
  free(s);
}
