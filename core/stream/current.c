/* current.c: which device, streams and pools are current.
 *
 * The current device, the current stream of each device, the pool it allocates from and the open allocation scope live
 * in a tide_current: every thread has one of its own, and a host with coroutines binds the one of the coroutine that
 * runs, which costs a count and a store to thread-local memory. A current holds references to the streams set in it and
 * nothing for the default ones. One that is freed while it is bound on other threads lasts until these look at it; from
 * then on their own holds there.
 *
 * Invariant: a current of another epoch is emptied before it is used. */
#include <stdlib.h>

#include "capture_state.h"
#include "hooks.h"

struct tide_current {
  int device;
  _Atomic uint32_t epoch; /* one that never is: freed */
  _Atomic int refs;       /* its maker's, and one of each thread where it is bound */
  _Atomic bool freed;
  tide_stream *stream[TIDE_MAX_DEVICES]; /* retained; NULL: the default one */
  tide_mempool *pool[TIDE_MAX_DEVICES];  /* retained; NULL: the default one */
  tide_allocation_scope *scope;          /* retained: what allocations count in; NULL: nothing */
  tide_quota *quota;                     /* retained, or NULL */
  int default_device;                    /* of factories */
  bool has_default;                      /* else the process's is in force */
};

static tide_stream cpu_stream = {.device = TIDE_CPU, .is_default = true, .refs = 1};

static _Thread_local tide_current own;
static _Thread_local tide_stream *used_on; /* retained: see tide__stream_keep */
static _Thread_local tide_current *bound;  /* retained */
static _Thread_local void (*on_bind)(void);

static void clear_streams(tide_current *c) {
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    tide_stream_release(c->stream[d]);
    tide__stream_hooks->pool_release(c->pool[d]);
    c->stream[d] = NULL, c->pool[d] = NULL;
  }
}

static void release(tide_current *c) {
  if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1) return;
  clear_streams(c);
  tide__stream_hooks->scope_release(c->scope);
  tide_quota_release(c->quota);
  free(c);
}

static void clear_own(void) {
  clear_streams(&own);
  tide__stream_hooks->scope_release(own.scope);
  own.scope = NULL;
  release(bound);
  bound = NULL;
  tide__quota_bind(NULL);
  tide__default_device_bind(NULL);
  tide_stream_release(used_on);
  used_on = NULL;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void watch_threads(void) { tide__thread_at_end(clear_own); }

void tide__stream_keep(tide_stream *stream) {
  tide_stream *before = used_on;
  pthread_once(&once, watch_threads);
  tide__thread_touch();
  used_on = stream;
  tide_stream_release(before);
}

tide_current *tide_current_bind(tide_current *c) {
  tide_current *before = bound;
  if (c == before) return before;
  if (c) {
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    pthread_once(&once, watch_threads);
    tide__thread_touch();
  }
  bound = c;
  tide__quota_bind(c ? c->quota : NULL);
  tide__default_device_bind(c && c->has_default ? &c->default_device : NULL);
  bool lasts = before && !atomic_load_explicit(&before->freed, memory_order_relaxed);
  release(before);
  if (on_bind) on_bind();
  return lasts ? before : NULL;
}

void tide_current_on_bind(void (*fn)(void)) { on_bind = fn; }

static inline tide_current *bound_or_own(void) {
  if (bound && atomic_load_explicit(&bound->freed, memory_order_relaxed)) tide_current_bind(NULL);
  return bound ? bound : &own;
}

static __attribute__((noinline)) tide_current *renewed(uint32_t epoch) {
  tide_current *c = bound_or_own();
  if (c->epoch == epoch) return c;
  clear_streams(c);
  c->device = 0;
  c->epoch = epoch;
  return c;
}

static inline tide_current *now(void) {
  tide_current *c = bound ? bound : &own;
  uint32_t epoch = tide__epoch_now();
  bool known = atomic_load_explicit(&c->epoch, memory_order_relaxed) == epoch;
  return TIDE_LIKELY(known) ? c : renewed(epoch);
}

tide_current *tide_current_new(const tide_current *inherit) {
  tide_current *c = calloc(1, sizeof *c);
  if (!c) {
    tide__fail(TIDE_MEMORY, "current_new: no host memory");
    return NULL;
  }
  atomic_init(&c->refs, 1);
  c->epoch = tide__epoch_now();
  if (inherit) {
    c->quota = tide__quota_retain(inherit->quota);
    tide_current_copy(c, inherit);
  }
  return c;
}

void tide_current_copy(tide_current *c, const tide_current *from) {
  if (!c) return;
  if (!from) return;
  tide_current before = *c;
  if (c == from || atomic_load(&c->freed)) return;
  c->has_default = from->has_default, c->default_device = from->default_device;
  if (c == bound) tide__default_device_bind(c->has_default ? &c->default_device : NULL);
  c->epoch = tide__epoch_now();
  bool holds = from->epoch == c->epoch;
  c->device = holds ? from->device : 0;
  c->scope = holds ? from->scope : NULL;
  if (c->scope) tide__stream_hooks->scope_retain(c->scope);
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    c->stream[d] = holds ? from->stream[d] : NULL;
    if (c->stream[d]) tide_stream_retain(c->stream[d]);
    c->pool[d] = holds ? from->pool[d] : NULL;
    if (c->pool[d]) tide__stream_hooks->pool_retain(c->pool[d]);
  }
  clear_streams(&before);
  tide__stream_hooks->scope_release(before.scope);
}

void tide_current_free(tide_current *c) {
  if (!c) return;
  if (bound == c) tide_current_bind(NULL);
  atomic_store(&c->freed, true);
  atomic_store(&c->epoch, UINT32_MAX);
  release(c);
}

int tide_current_device(void) { return now()->device; }

tide_status tide_current_set_device(int device) {
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, "set_device"));
  now()->device = device;
  return TIDE_OK;
}

tide_status tide__stream_current_for(tide_stream **out, bool *plain, int device) {
  if (device >= TIDE_MAX_DEVICES) return tide_stream_default(out, device); /* fails */
  const tide_current *c = now();
  *plain = !c->pool[device] && !c->scope;
  tide_stream *s = c->stream[device];
  if (!s) s = atomic_load_explicit(&tide__stream_defaults[device], memory_order_acquire);
  if (!s) return tide_stream_default(out, device);
  *out = s;
  return TIDE_OK;
}

tide_status tide__stream_current(tide_stream **out, int device) {
  bool plain;
  if (device >= 0) return tide__stream_current_for(out, &plain, device);
  *out = &cpu_stream;
  return TIDE_OK;
}

bool tide__current_plain(int device) {
  const tide_current *c = now();
  return !c->pool[device] && !c->scope;
}

tide_status tide_current_stream(tide_stream **out, int device) {
  TIDE_GIVEN("current_stream", out);
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, "current_stream"));
  return tide__stream_current(out, device);
}

/* What the thread's own current holds is released when the thread ends. */
static void watch(const tide_current *c) {
  if (c != &own) return;
  pthread_once(&once, watch_threads);
  tide__thread_touch();
}

tide_mempool *tide__current_pool(int device) { return now()->pool[device]; }

void tide__current_pool_set(tide_mempool *pool, int device) {
  tide_current *c = now();
  tide_mempool *before = c->pool[device];
  watch(c);
  if (pool) tide__stream_hooks->pool_retain(pool);
  c->pool[device] = pool;
  tide__stream_hooks->pool_release(before);
}

/* The streams that nobody has made yet are not captured. */
bool tide_current_is_capturing(void) {
  tide_current *c = now();
  tide_stream *s = c->stream[c->device];
  if (!s) s = atomic_load_explicit(&tide__stream_defaults[c->device], memory_order_acquire);
  return s && s->epoch == tide__epoch_now() && s->capture;
}

/* What every way of selecting ends in. NULL is the default stream. */
static void put(tide_current *c, int device, tide_stream *selected) {
  tide_stream *before = c->stream[device];
  if (before == selected) return;
  watch(c);
  if (selected) tide_stream_retain(selected);
  c->stream[device] = selected;
  tide_stream_release(before);
}

tide_status tide_current_set_stream(tide_stream *s) {
  TIDE_TRY(tide__stream_check(s, "set_stream"));
  if (tide__sync_watched()) TIDE_TRY(tide__capture_legacy(s, "set_stream"));
  put(now(), s->device, s->is_default ? NULL : s);
  return TIDE_OK;
}

tide_stream *tide_current_selected(int device) {
  return device >= 0 && device < TIDE_MAX_DEVICES ? now()->stream[device] : NULL;
}

/* Nothing is asked of the stream: a block is left also when its device has been lost meanwhile. */
void tide_current_select(int device, tide_stream *selected) {
  if (device < 0 || device >= TIDE_MAX_DEVICES || (selected && selected->epoch != tide__epoch_now())) return;
  put(now(), device, selected);
}

tide__selection tide__selection_begin(tide_stream *on) {
  tide_current *c = now();
  tide_stream *wanted = on->is_default ? NULL : on;
  tide__selection s = {on->device, c->stream[on->device] != wanted, c->stream[on->device]};
  if (!s.changed) return s;
  if (s.before) tide_stream_retain(s.before);
  put(c, on->device, wanted);
  return s;
}

void tide__selection_end(tide__selection s) {
  if (!s.changed) return;
  tide_current_select(s.device, s.before);
  tide_stream_release(s.before);
}

static _Thread_local tide__stream_override override;

static void swap_override(void) {
  tide_stream *selected = tide_current_selected(override.device);
  if (selected) tide_stream_retain(selected);
  tide_current_select(override.device, override.other);
  tide_stream_release(override.other);
  override.other = selected;
}

tide_status tide_current_override(int device, tide_stream *stream) {
  if (stream) {
    TIDE_TRY(tide__stream_check(stream, "current_override"));
    if (stream->device != device)
      return tide__fail(TIDE_DEVICE, "current_override: wrong device of the stream, got %s, expected %s",
                        tide__device_text(stream->device), tide__device_text(device));
    tide_stream_retain(stream);
    override = (tide__stream_override){.on = true, .device = device, .other = stream};
  }
  if (override.on) swap_override();
  if (stream) return TIDE_OK;
  tide_stream_release(override.other);
  override = (tide__stream_override){.on = false};
  return TIDE_OK;
}

tide__stream_override tide__stream_override_suspend(void) {
  if (override.on) swap_override();
  tide__stream_override before = override;
  override = (tide__stream_override){.on = false};
  return before;
}

void tide__stream_override_resume(tide__stream_override before) {
  override = before;
  if (override.on) swap_override();
}

void tide_current_set_quota(tide_current *current, tide_quota *quota) {
  tide_current *c = current ? current : bound;
  if (!c) return;
  tide_quota *before = c->quota;
  c->quota = tide__quota_retain(quota);
  if (c == bound) tide__quota_bind(quota);
  tide_quota_release(before);
}

tide_status tide_current_set_default_device(tide_current *current, int device) {
  TIDE_GIVEN("current_set_default_device", current);
  int checked;
  TIDE_TRY(tide__device_resolve(&checked, device, "current_set_default_device"));
  current->default_device = device, current->has_default = true;
  if (current == bound) tide__default_device_bind(&current->default_device);
  return TIDE_OK;
}

tide_quota *tide_current_quota(void) { return tide__quota_bound(); }

tide_allocation_scope *tide_current_allocation_scope(void) { return bound_or_own()->scope; }

void tide_current_set_allocation_scope(tide_allocation_scope *scope) {
  tide_current *c = bound_or_own();
  watch(c);
  if (scope) tide__stream_hooks->scope_retain(scope);
  tide__stream_hooks->scope_release(c->scope);
  c->scope = scope;
}
