/* oom.c: what is said, and to whom, when an allocation of device memory fails for good.
 *
 * The figures are gathered once the ladder has been climbed, so they describe what is left. The message names them, the
 * step that failed, the lines that hold most and what helps in that case; observers get the same as numbers, first,
 * while the thread's error is not yet set, because they may call tide. All of this runs without a lock, except for the
 * copy of the figures.
 *
 * Invariant: an observer that runs out of memory itself is not called again for that. */
#include <stdio.h>

#include "allocator.h"

enum { OBSERVERS = 64, TEXT = 600 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  tide_oom_fn fn;
  void *user;
} observers[OBSERVERS];
static int observer_count;

static _Thread_local struct {
  tide_memory_oom oom;
  bool any, observing;
} last;

const tide_memory_oom *tide_memory_oom_get(void) { return last.any ? &last.oom : NULL; }

/* ---- observers ---- */

tide_status tide_memory_on_oom_add(tide_oom_fn fn, void *user) {
  if (!fn) return tide__fail(TIDE_ARGUMENT, "on_oom: no function, got NULL");
  TIDE_LOCKED(&lock);
  bool fits = observer_count < OBSERVERS;
  if (fits) observers[observer_count].fn = fn, observers[observer_count++].user = user;
  return fits ? TIDE_OK : tide__fail(TIDE_STATE, "on_oom: too many observers, expected at most %d", OBSERVERS);
}

void tide_memory_on_oom_remove(tide_oom_fn fn, void *user) {
  TIDE_LOCKED(&lock);
  int n = 0;
  for (int i = 0; i < observer_count; i++)
    if (observers[i].fn != fn || observers[i].user != user) observers[n++] = observers[i];
  observer_count = n;
}

/* One by one, each looked up under the lock and called without it. */
static void observe(const tide_memory_oom *oom) {
  if (last.observing) return;
  last.observing = true;
  tide__stream_override before = tide__stream_override_suspend();
  for (int i = 0;; i++) {
    pthread_mutex_lock(&lock);
    tide_oom_fn fn = i < observer_count ? observers[i].fn : NULL;
    void *user = fn ? observers[i].user : NULL;
    pthread_mutex_unlock(&lock);
    if (!fn) break;
    fn(user, oom);
  }
  tide__stream_override_resume(before);
  last.observing = false;
}

/* ---- figures ---- */

/* Returns how much of the cache stays with graphs. */
static size_t gather(tide_memory_oom *o, tide__allocator *a, int device, size_t bytes) {
  *o = (tide_memory_oom){.device = device, .requested = bytes};
  const tide_backend *backend = tide__backend_peek(device);
  if (backend && !tide__device_lost(NULL, device) && backend->device_mem_info(&o->free, &o->total, device) != TIDE_OK)
    o->free = o->total = 0;
  tide__allocator_lock(a);
  o->allocated = (size_t)a->stats.allocated_bytes[TIDE_POOL_ALL].current;
  o->reserved = (size_t)a->stats.reserved_bytes[TIDE_POOL_ALL].current;
  o->largest_free = tide__pool_largest(a);
  size_t of_graphs = tide__pool_of_graphs(a);
  o->limit = a->capped ? a->limit : 0;
  bool limited = a->capped && (bytes > a->limit || o->reserved > a->limit - bytes);
  o->sites = tide__allocator_sites(o->site, TIDE_OOM_SITES, a);
  tide__allocator_unlock(a);
  size_t cached = o->reserved - o->allocated;
  o->fragmentation = cached ? 1 - (double)o->largest_free / (double)cached : 0;
  o->rung = bytes > (size_t)PTRDIFF_MAX || (o->total && bytes > o->total) ? "size" : limited ? "limit" : "driver";
  return of_graphs;
}

/* ---- text ---- */

/* "; most is held by a.lua:3 (1.00 GiB), ..." */
static void sites_text(char *out, size_t size, const tide_memory_oom *o) {
  size_t at = 0;
  out[0] = 0;
  for (int i = 0; i < o->sites; i++) {
    char line[100], bytes[32];
    if (!tide_site_describe(o->site[i].site, line, sizeof line)) snprintf(line, sizeof line, "the host");
    int n = snprintf(out + at, size - at, "%s%s (%s)", i ? ", " : "; most is held by ", line,
                     tide_bytes_text(bytes, o->site[i].bytes));
    if (n < 0 || (size_t)n >= size - at) {
      out[at] = 0; /* no half of a name */
      return;
    }
    at += (size_t)n;
  }
}

/* While a graph is captured nothing is waited for, so the cache stays where it is. */
static const char *what_failed(const tide_memory_oom *o) {
  bool captured = tide_thread_is_capturing();
  if (*o->rung == 's') return "no more than the device has can ever be given";
  if (captured && *o->rung == 'l')
    return "the limit of this process was in the way, and no cache can be given back while a graph is captured";
  if (captured) return "the driver refused, and no cache can be given back while a graph is captured";
  if (*o->rung == 'l') return "the limit of this process was in the way after its cache had been given back";
  return "the driver refused after garbage had been collected, the device waited for and the cache given back";
}

static const char *what_helps(const tide_memory_oom *o, size_t of_graphs, bool grows) {
  size_t cached = o->reserved - o->allocated;
  if (*o->rung == 's') return "work in smaller pieces";
  if (cached >= o->requested && cached - of_graphs < o->requested)
    return "the cache belongs to graphs that may be replayed: reset the ones you no longer need, or let them share a "
           "pool";
  if (*o->rung == 'l') return "free tensors (x:free(), tide.scope) or raise the memory fraction or the limit";
  if (cached >= o->requested && tide_thread_is_capturing())
    return "free tensors before the capture begins: what is freed outside its pool cannot serve it";
  if (cached >= o->requested)
    return grows ? "the cache holds enough, but between tensors that live on: allocate large ones first and reuse them"
                 : "the cache holds enough, but in pieces: set TIDE_ALLOC_CONF=expandable_segments:True";
  if (o->total && o->total - o->free > o->reserved && o->total - o->free - o->reserved > o->total / 2)
    return "most is used by other processes or libraries";
  return "free tensors (x:free(), tide.scope) or work in smaller pieces";
}

tide_status tide__allocator_fail(tide__allocator *a, int device, size_t bytes) {
  tide_memory_oom o;
  size_t of_graphs = gather(&o, a, device, bytes);
  tide__history_add(TIDE_MEMORY_OOM, device, NULL, bytes, 0, NULL);
  observe(&o);
  last.oom = o, last.any = true;
  char w[32], f[32], t[32], h[32], r[32], l[32], c[32], limit[80] = "", ratio[32] = "", sites[TEXT];
  if (o.limit)
    snprintf(limit, sizeof limit, "; this process may reserve %s (memory fraction)", tide_bytes_text(c, o.limit));
  if (o.reserved > o.allocated) snprintf(ratio, sizeof ratio, " (fragmentation %.2f)", o.fragmentation);
  sites_text(sites, sizeof sites, &o);
  return tide__fail_memory(device, bytes, o.free, o.total, o.allocated, o.reserved,
                           "memory: %s cannot give %s; %s of its %s are free; tensors hold %s and the cache %s more, "
                           "whose largest free block is %s%s%s; %s%s. What helps: %s",
                           tide__device_text(device), tide_bytes_text(w, bytes), tide_bytes_text(f, o.free),
                           tide_bytes_text(t, o.total), tide_bytes_text(h, o.allocated),
                           tide_bytes_text(r, o.reserved - o.allocated), tide_bytes_text(l, o.largest_free), ratio,
                           limit, what_failed(&o), sites, what_helps(&o, of_graphs, a->granule && a->set.expandable));
}
