/* host.c: what the host brings: its configuration, memory, log, warnings, and what interrupts a thread.
 *
 * It stands on nothing, so that every room can log, warn and allocate. CPU memory comes from the hooks in force or from
 * here; a record of hooks lives as long as the process, so memory goes back where it came from even after the runtime
 * that took it has ended.
 *
 * Invariant: the configuration changes only while the epoch is even. */
#include "own.h"
#include "quota.h"

#include <stdarg.h>
#include <stdio.h>

#include "os/os.h"
#include "tide/debug.h"

struct tide__host_hooks {
  void *user;
  void *(*alloc)(void *user, size_t bytes, size_t align);
  void (*free)(void *user, void *ptr, size_t bytes);
  tide__host_hooks *next;
};

static tide_config config;
static tide__host_hooks *records; /* every pair of hooks that was ever in force; never freed */

static _Thread_local struct {
  tide_interrupt_fn fn;
  void *user;
} interrupt;

static _Thread_local struct {
  tide_warn_fn fn;
  void *user;
} warner;

_Atomic uint32_t tide__epochs[2];
_Atomic int64_t tide__fault_left;

const char *tide_version(void) { return TIDE_VERSION; }
bool tide__running(void) { return tide__epoch_now() & 1; }
const tide_config *tide__config(void) { return &config; }

/* ---- host memory ---- */

enum { ALIGN = 64 };
static const size_t huge_page = (size_t)2 << 20;

/* Pieces of 1 MiB and more are mapped, so that freeing them gives their pages back at once wherever they lie; the large
 * ones among them are aligned to huge pages: a fault for each 4 KiB costs more than the loop that fills the tensor.
 * Under AddressSanitizer all comes from malloc, which guards its bounds. */
static bool mapped(size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  return false;
#else
  return bytes >= huge_page / 2;
#endif
}

/* Of any size that a kernel may have. */
static size_t whole_pages(size_t bytes) { return (bytes + 65535) / 65536 * 65536; }

static void *map_piece(size_t bytes) {
  return tide__os_map(whole_pages(bytes), bytes >= 2 * huge_page ? huge_page : 0);
}

static void *own_alloc(void *user, size_t bytes, size_t align) {
  if (bytes > (size_t)PTRDIFF_MAX - 2 * huge_page) return NULL;
  if (mapped(bytes)) return map_piece(bytes);
  return tide__os_aligned(align, bytes);
}

static void own_free(void *user, void *ptr, size_t bytes) {
  if (mapped(bytes))
    tide__os_unmap(ptr, whole_pages(bytes));
  else
    tide__os_aligned_free(ptr);
}

static const tide__host_hooks own = {.alloc = own_alloc, .free = own_free};
static _Atomic(const tide__host_hooks *) hooks_now = &own;

const tide__host_hooks *tide__host_current(void) { return atomic_load_explicit(&hooks_now, memory_order_acquire); }
void *tide__host_take(const tide__host_hooks *h, size_t bytes) { return h->alloc(h->user, bytes, ALIGN); }
void tide__host_give(const tide__host_hooks *h, void *ptr, size_t bytes) { h->free(h->user, ptr, bytes); }

bool tide__host_zeroes(const tide__host_hooks *h, size_t bytes) { return h == &own && mapped(bytes); }

void *tide__host_alloc(size_t bytes) { return tide__host_take(tide__host_current(), bytes); }
void tide__host_free(void *ptr, size_t bytes) {
  if (ptr) tide__host_give(tide__host_current(), ptr, bytes);
}

/* The record of the configured hooks, made when they are seen for the first time. */
static tide_status hooks_install(const tide_config *given) {
  if (!given->alloc != !given->free)
    return tide__fail(TIDE_ARGUMENT, "init: alloc and free belong together, got one of them, expected both or none");
  const tide__host_hooks *use = &own;
  if (given->alloc) {
    tide__host_hooks *h = records;
    while (h && (h->alloc != given->alloc || h->free != given->free || h->user != given->user)) h = h->next;
    if (!h) {
      h = malloc(sizeof *h);
      if (!h) return tide__fail(TIDE_MEMORY, "init: no host memory for the hooks");
      *h = (tide__host_hooks){given->user, given->alloc, given->free, records};
      records = h;
    }
    use = h;
  }
  atomic_store_explicit(&hooks_now, use, memory_order_release);
  return TIDE_OK;
}

tide_status tide__host_install(const tide_config *given) {
  TIDE_TRY(hooks_install(given));
  config = *given;
  return TIDE_OK;
}

void tide__host_reset(void) {
  atomic_store_explicit(&hooks_now, &own, memory_order_release);
  config = (tide_config){0};
}

/* ---- what it is told, and what it asks for ---- */

void tide_interrupt_set(tide_interrupt_fn fn, void *user) { interrupt.fn = fn, interrupt.user = user; }
bool tide__interrupt_asked(void) { return (interrupt.fn && interrupt.fn(interrupt.user)) || tide__quota_ends(); }

bool tide_log(const char *message) {
  if (!tide__running() || !config.log) return false;
  if (message) config.log(config.user, message);
  return true;
}

void tide__log(const char *format, ...) {
  if (!tide_log(NULL)) return;
  char text[1024];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  tide_log(text);
}

void tide_warn_set(tide_warn_fn fn, void *user) { warner.fn = fn, warner.user = user; }

void tide__warn(const char *message) {
  if (warner.fn)
    warner.fn(warner.user, message);
  else
    tide__log("%s", message);
}

void tide__fault_alloc(int64_t n) { atomic_store(&tide__fault_left, n); }
bool tide__fault_hit(void) { return atomic_fetch_sub(&tide__fault_left, 1) == 1; }

/* ---- lists ---- */

bool tide__grow(void *list, int *room, int count, size_t item) {
  void *now;
  if (count < *room) return true;
  memcpy(&now, list, sizeof now);
  int wider = *room ? 2 * *room : 4;
  if (!(now = realloc(now, (size_t)wider * item))) return false;
  memcpy(list, &now, sizeof now);
  *room = wider;
  return true;
}
