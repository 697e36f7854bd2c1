/* ipc.c: memory and events of simulated devices in other processes.
 *
 * A block that is shared gets a file for its bytes: they are copied there while no worker runs anything, and the file
 * takes the place of the pages under the same addresses. Another process maps the file as a block of its own. Of an
 * event that is shared it maps the page (mark.c); since nothing wakes a worker across processes, waits for it are
 * looked at every half millisecond.
 *
 * Invariant: a block's or a page's file is open as long as the block or the page lives. */
#include "sim.h"

#include <stdlib.h>

#include "base/base.h"
#include "os/process.h"

enum { PAGE = 4096 };
static const char magic[8] = "tidesim";

/* What the 64 bytes of a handle hold. */
typedef struct name {
  char magic[8];
  tide__os_share share;
  int32_t is_event, device;
  uint64_t bytes;
} name;
_Static_assert(sizeof(name) <= TIDE_IPC_BYTES, "a name fits a handle");

static void pack(tide_ipc_handle *out, name n) {
  memcpy(n.magic, magic, sizeof magic);
  memset(out, 0, sizeof *out);
  memcpy(out, &n, sizeof n);
}

/* The file that the handle names, a descriptor of ours. */
static tide_status unpack(name *out, int *file, const tide_ipc_handle *handle, bool is_event, const char *what) {
  memcpy(out, handle, sizeof *out);
  if (memcmp(out->magic, magic, sizeof magic) != 0 || out->is_event != is_event)
    return tide__sim.host->fail(TIDE_VALUE, "%s: this is no handle of a simulated device's %s", what,
                                is_event ? "event" : "memory");
  *file = tide__os_share_open(&out->share);
  if (*file >= 0) return TIDE_OK;
  return tide__sim.host->fail(TIDE_STATE,
                              "%s: process %d does not share this any more, expected it to live and to hold "
                              "what it shared",
                              what, (int)out->share.process);
}

/* ---- memory ---- */

static size_t whole(const sim_block *block) { return (block->bytes + PAGE - 1) / PAGE * PAGE; }

static sim_block *find(int device, const void *ptr) {
  sim_block *b = tide__sim.device[device].blocks;
  while (b && b->ptr != ptr) b = b->next;
  return b;
}

static bool map_file(const sim_block *block, int file) {
  return tide__os_share_pages(block->ptr + tide__sim.shift, whole(block), file);
}

void tide__sim_unshare(sim_block *block) {
  tide__os_share_leave(block->ptr + tide__sim.shift, whole(block));
  tide__os_share_close(block->share.file);
  block->shared = false;
}

static bool nothing_runs(const void *unused) {
  for (const sim_stream *s = tide__sim.streams; s; s = s->next)
    if (s->running) return false;
  return true;
}

/* With the lock held and nothing running. */
static bool share(sim_block *block) {
  if (block->shared) return true;
  if (!tide__os_share_new(&block->share, whole(block))) return false;
  int file = block->share.file;
  block->shared = tide__os_write(file, block->ptr + tide__sim.shift, whole(block)) && map_file(block, file);
  if (!block->shared) tide__os_share_close(file);
  return block->shared;
}

tide_status tide__sim_ipc_mem_export(tide_ipc_handle *out, int device, void *ptr) {
  sim_state *s = &tide__sim;
  TIDE_TRY(tide__sim_enter("ipc_handle"));
  if (!TIDE_OS_SHARES_PAGES)
    return s->host->fail(TIDE_SUPPORT, "ipc_handle: simulated devices share no memory on Windows");
  pthread_mutex_lock(&s->lock);
  tide_status status = tide__sim_wait(nothing_runs, NULL, TIDE_CPU, "ipc_handle");
  sim_block *block = status == TIDE_OK ? find(device, ptr) : NULL;
  bool shared = block && share(block);
  name n = {.device = device, .bytes = block ? block->bytes : 0};
  if (shared) n.share = block->share;
  pthread_mutex_unlock(&s->lock);
  TIDE_TRY(status);
  if (!block) return s->host->fail(TIDE_VALUE, "ipc_handle: no memory begins at %p", ptr);
  if (!shared) return s->host->fail(TIDE_MEMORY, "ipc_handle: no host memory to share %zu bytes", (size_t)n.bytes);
  pack(out, n);
  return TIDE_OK;
}

bool tide__sim_adopt(sim_block **out, int device, int file, size_t bytes) {
  sim_block *block = calloc(1, sizeof *block);
  if (!block) return false;
  TIDE_LOCKED(&tide__sim.lock);
  block->bytes = bytes, block->share.file = file, block->shared = block->borrowed = true;
  sim_block **link = tide__sim_find_gap(&block->ptr, device, whole(block) + PAGE);
  bool done = link && map_file(block, file);
  if (done) {
    block->next = *link;
    *link = *out = block;
  }
  if (!done) free(block);
  return done;
}

tide_status tide__sim_ipc_mem_open(void **out, int device, const tide_ipc_handle *handle) {
  const sim_state *s = &tide__sim;
  name n;
  int file = -1;
  TIDE_TRY(tide__sim_enter("tensor_from_ipc"));
  TIDE_TRY(unpack(&n, &file, handle, false, "tensor_from_ipc"));
  sim_block *block;
  if (tide__sim_adopt(&block, device, file, n.bytes)) {
    *out = block->ptr;
    return TIDE_OK;
  }
  tide__os_share_close(file);
  return s->host->fail(TIDE_MEMORY, "tensor_from_ipc: no addresses for %zu bytes", (size_t)n.bytes);
}

void tide__sim_ipc_mem_close(int device, void *ptr) { tide__sim_mem_free(device, ptr, 0); }

/* ---- events ---- */

tide_status tide__sim_ipc_event_export(tide_ipc_handle *out, void *impl) {
  TIDE_TRY(tide__sim_enter("ipc_handle"));
  const sim_event *event = impl;
  if (!event->page)
    return tide__sim.host->fail(TIDE_VALUE, "ipc_handle: the event is not shared, expected one with interprocess");
  pack(out, (name){.share = event->page->share, .is_event = true, .device = event->device});
  return TIDE_OK;
}

tide_status tide__sim_ipc_event_open(void **out, int device, const tide_ipc_handle *handle) {
  name n;
  int file = -1;
  void *event;
  TIDE_TRY(tide__sim_enter("from_ipc_handle"));
  TIDE_TRY(unpack(&n, &file, handle, true, "from_ipc_handle"));
  tide__os_share share = n.share;
  share.file = file;
  sim_page *page = tide__sim_page_map(&share);
  if (!page) return tide__sim.host->fail(TIDE_MEMORY, "from_ipc_handle: no host memory");
  tide_status status = tide__sim_event_new(&event, device, 0);
  if (status != TIDE_OK) {
    tide__sim_page_unref(page);
    return status;
  }
  ((sim_event *)event)->page = page;
  ((sim_event *)event)->flags = TIDE_EVENT_INTERPROCESS;
  *out = event;
  return TIDE_OK;
}
