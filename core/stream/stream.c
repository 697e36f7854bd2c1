/* stream.c: streams: making them, the driver's behind them, letting them go.
 *
 * Each device has a default stream of ours, made when it is first needed. Which stream is current is in current.c.
 *
 * A stream whose last reference goes may still have work queued, and the allocator may hold blocks that only its own
 * order makes safe. It is put on a list without a call of the driver, so a finaliser may do it; later, once its work is
 * done, its cached segments may serve any other, and the driver's stream waits idle for the next one that is asked for:
 * making one costs a driver call of microseconds, and ending one may wait. Each stream that is alive has a driver's
 * stream of its own.
 *
 * The handle of one of ours, wrapped, is that stream again. An ended foreign stream is not asked whether its work is
 * done, since its owner may have destroyed it; its blocks stay cached under its number until the cache is given back.
 * The ones wrapped last are kept for who wraps them again, as a script may in every frame: it finds its memory and what
 * it has launched.
 *
 * Invariant: ids are never reused. */
#include <stdlib.h>

#include "capture_state.h"
#include "hooks.h"
#include "order.h"

static _Atomic uint64_t last_id;
_Atomic uint32_t tide__streams_made;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* to make default streams, and of the lists */
_Atomic(tide_stream *) tide__stream_defaults[TIDE_MAX_DEVICES];
static tide_stream *alive, *ended; /* ours; what has ended waits for its work */
static _Atomic bool any_ended;

enum { MOST_IDLE = 64 };
static struct {
  int count;
  struct {
    void *impl;
    int priority;
  } item[MOST_IDLE];
  bool known; /* the range of priorities, asked once */
  int least, greatest;
} idle[TIDE_MAX_DEVICES]; /* the lock guards it */

enum { MOST_WRAPPED = 32 };
static tide_stream *wrapped[MOST_WRAPPED]; /* guarded by the lock; retained; a new one replaces the oldest */
static int wrapped_next;

/* ---- making and ending ---- */

tide_status tide__stream_check(const tide_stream *stream, const char *what) {
  if (!stream) return tide__fail(TIDE_ARGUMENT, "%s: no stream, got NULL, expected a stream", what);
  if (stream->device < 0)
    return tide__fail(TIDE_DEVICE, "%s: the CPU has no streams, expected one of an accelerator", what);
  if (stream->epoch != tide__epoch_now())
    return tide__fail(TIDE_STATE, "%s: the stream belongs to a runtime that has ended or was reset", what);
  return TIDE_OK;
}

uint64_t tide__stream_number(void) { return atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1; }

static tide_status header_new(tide_stream **out, int device) {
  tide_stream *s = calloc(1, sizeof *s);
  if (!s) return tide__fail(TIDE_MEMORY, "stream_new: no host memory");
  s->device = device;
  s->epoch = tide__epoch_now();
  s->id = tide__stream_number();
  atomic_init(&s->use_id, s->id);
  atomic_init(&s->refs, 1);
  *out = s;
  return TIDE_OK;
}

/* With the lock held: the idle one of the device with this priority that was used last; or NULL. */
static void *take_idle(int device, int priority) {
  for (int i = idle[device].count - 1; i >= 0; i--) {
    if (idle[device].item[i].priority != priority) continue;
    void *impl = idle[device].item[i].impl;
    idle[device].item[i] = idle[device].item[--idle[device].count];
    return impl;
  }
  return NULL;
}

static bool keep_idle(void *impl, int device, int priority) {
  TIDE_LOCKED(&lock);
  bool room = idle[device].count < MOST_IDLE;
  if (room) {
    int i = idle[device].count++;
    idle[device].item[i].impl = impl, idle[device].item[i].priority = priority;
  }
  return room;
}

/* With the lock held. */
static tide_status clamp(int *priority, const tide_backend *b, int device) {
  if (!idle[device].known) TIDE_TRY(b->stream_priority_range(&idle[device].least, &idle[device].greatest, device));
  idle[device].known = true;
  if (*priority < idle[device].greatest) *priority = idle[device].greatest;
  if (*priority > idle[device].least) *priority = idle[device].least;
  return TIDE_OK;
}

/* With the lock held. */
static tide_status make(tide_stream **out, const tide_backend *b, int device, int priority) {
  tide_stream *s = NULL;
  TIDE_TRY(clamp(&priority, b, device));
  TIDE_TRY(header_new(&s, device));
  s->priority = priority;
  s->impl = take_idle(device, priority);
  tide_status status = s->impl ? TIDE_OK : b->stream_new(&s->impl, device, priority);
  if (status != TIDE_OK) {
    free(s);
  } else {
    s->next = alive, alive = s;
    if (s->next) s->next->prev = s;
    *out = s;
  }
  return status;
}

/* The copies that have gone on are to be told from what is queued behind them. */
static void count_made(void) {
  if (atomic_fetch_add_explicit(&tide__streams_made, 1, memory_order_relaxed) == 1) tide__stream_hooks->streams_many();
}

tide_status tide_stream_new(tide_stream **out, int device, int priority) {
  TIDE_GIVEN("stream_new", out);
  const tide_backend *b;
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, "stream_new"));
  TIDE_TRY(tide__backend(&b, device));
  tide__stream_reap();
  tide_quota *quota;
  TIDE_TRY(tide__quota_take_object(&quota, TIDE__STREAM_COST));
  pthread_mutex_lock(&lock);
  tide_status status = make(out, b, device, priority);
  pthread_mutex_unlock(&lock);
  if (status != TIDE_OK) return tide__quota_give_object(quota, TIDE__STREAM_COST), status;
  (*out)->quota = quota;
  count_made();
  return TIDE_OK;
}

/* The stream of ours that has this handle, retained, or NULL. One whose last reference has just gone is not taken. */
static tide_stream *ours(const tide_backend *b, int device, uint64_t handle) {
  TIDE_LOCKED(&lock);
  tide_stream *s = handle ? alive : NULL;
  while (s && (s->device != device || b->stream_handle(s->impl) != handle)) s = s->next;
  int64_t refs = s ? atomic_load_explicit(&s->refs, memory_order_relaxed) : 0;
  while (refs > 0 &&
         !atomic_compare_exchange_weak_explicit(&s->refs, &refs, refs + 1, memory_order_relaxed, memory_order_relaxed))
    ;
  return refs > 0 ? s : NULL;
}

/* With the lock held: an earlier wrapper of the same foreign stream, retained, or NULL. */
static tide_stream *wrapped_before(const tide_stream *s) {
  for (int i = 0; s->identity && i < MOST_WRAPPED; i++) {
    tide_stream *known = wrapped[i];
    if (!known || known->device != s->device || known->identity != s->identity) continue;
    tide_stream_retain(known);
    return known;
  }
  return NULL;
}

/* What is to be handed out for the new wrapper s: itself, or the one before. */
static tide_stream *share_wrapped(tide_stream *s, const tide_backend *b) {
  tide_stream *oldest = NULL;
  pthread_mutex_lock(&lock);
  tide_stream *known = wrapped_before(s);
  if (!known && s->identity) {
    oldest = wrapped[wrapped_next];
    tide_stream_retain(s);
    wrapped[wrapped_next] = s;
    wrapped_next = (wrapped_next + 1) % MOST_WRAPPED;
  }
  pthread_mutex_unlock(&lock);
  tide_stream_release(oldest);
  if (!known) return s;
  b->stream_free(s->impl);
  free(s);
  return known;
}

tide_status tide_stream_wrap(tide_stream **out, int device, uint64_t handle) {
  TIDE_GIVEN("stream_wrap", out);
  const tide_backend *b;
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, "stream_wrap"));
  TIDE_TRY(tide__backend(&b, device));
  if (!b->stream_wrap)
    return tide__fail(TIDE_SUPPORT, "stream_wrap: %s has no foreign streams", tide__device_text(device));
  tide_stream *s = ours(b, device, handle);
  if (s) {
    tide__order_expose(s);
    *out = s;
    return TIDE_OK;
  }
  TIDE_TRY(header_new(&s, device));
  s->external = true;
  tide__order_expose(s);
  tide_status status = b->stream_wrap(&s->impl, device, handle);
  if (status != TIDE_OK) {
    free(s);
    return status;
  }
  s->identity = b->stream_identity ? b->stream_identity(s->impl) : 0;
  *out = share_wrapped(s, b);
  count_made();
  return TIDE_OK;
}

tide_status tide_stream_default(tide_stream **out, int device) {
  TIDE_GIVEN("stream_default", out);
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, "stream_default"));
  tide_stream *s = atomic_load_explicit(&tide__stream_defaults[device], memory_order_acquire);
  if (!s) {
    const tide_backend *b;
    TIDE_TRY(tide__backend(&b, device));
    pthread_mutex_lock(&lock);
    s = atomic_load_explicit(&tide__stream_defaults[device], memory_order_relaxed);
    bool missing = !s; /* another thread may have made it since, and may be reading it */
    tide_status status = missing ? make(&s, b, device, 0) : TIDE_OK;
    if (missing && status == TIDE_OK) {
      s->is_default = true;
      atomic_store_explicit(&tide__stream_defaults[device], s, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    if (status != TIDE_OK) return status;
    if (missing) count_made();
  }
  *out = s;
  return TIDE_OK;
}

void tide_stream_retain(tide_stream *s) {
  if (!s) return;
  tide__ref_take(&s->refs);
}

void tide_stream_release(tide_stream *s) {
  if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
  tide__quota_give_object(s->quota, TIDE__STREAM_COST);
  if (s->epoch != tide__epoch_now()) {
    free(s);
    return;
  }
  TIDE_LOCKED(&lock);
  if (s->prev) s->prev->next = s->next;
  if (s->next) s->next->prev = s->prev;
  if (alive == s) alive = s->next;
  s->prev = NULL;
  s->next = ended, ended = s;
  atomic_store_explicit(&any_ended, true, memory_order_relaxed);
}

/* Frees an ended stream if its work is done; a query that fails means that its device is lost. */
static bool reap(tide_stream *s) {
  const tide_backend *b = tide__backend_peek(s->device);
  bool done = true;
  if (!s->external && b && !tide__device_lost(NULL, s->device) && b->stream_query(&done, s->impl) == TIDE_OK && !done)
    return false;
  if (!s->external) tide__stream_hooks->stream_gone(s->device, s->id);
  bool again = b && !s->external && !tide__device_lost(NULL, s->device);
  tide__progress_free(s);
  if (b && !(again && keep_idle(s->impl, s->device, s->priority))) b->stream_free(s->impl);
  free(s);
  return true;
}

void tide__stream_reap(void) {
  if (!atomic_load_explicit(&any_ended, memory_order_relaxed) || tide_thread_is_capturing()) return;
  pthread_mutex_lock(&lock);
  tide_stream *list = ended, *kept = NULL;
  ended = NULL;
  atomic_store_explicit(&any_ended, false, memory_order_relaxed);
  pthread_mutex_unlock(&lock);
  while (list) {
    tide_stream *s = list;
    list = s->next;
    if (!reap(s)) s->next = kept, kept = s;
  }
  while (kept) {
    tide_stream *s = kept;
    kept = s->next;
    pthread_mutex_lock(&lock);
    s->next = ended, ended = s;
    atomic_store_explicit(&any_ended, true, memory_order_relaxed);
    pthread_mutex_unlock(&lock);
  }
}

/* What has ended and is not reaped yet may be at work. Those of somebody else are in no list: they may be gone. */
bool tide__streams_idle(int device, uint64_t id) {
  const tide_backend *b = tide__backend_peek(device);
  TIDE_LOCKED(&lock);
  bool found = id == 0, idle_now = b && !tide__device_lost(NULL, device);
  for (tide_stream *s = ended; s && idle_now; s = s->next)
    if (s->device == device && (id == 0 || s->id == id)) idle_now = false;
  for (tide_stream *s = alive; s && idle_now; s = s->next) {
    if (s->device != device || (id != 0 && s->id != id)) continue;
    found = true;
    if (b->stream_query(&idle_now, s->impl) != TIDE_OK) idle_now = false;
  }
  return found && idle_now;
}

/* With the lock held: held ones are in no list. */
static void forget_alive(void) {
  while (alive) {
    tide_stream *s = alive;
    alive = s->next;
    s->prev = s->next = NULL;
  }
}

/* With the lock held. */
static void forget_wrapped(void) {
  for (int i = 0; i < MOST_WRAPPED; i++) {
    tide_stream *s = wrapped[i];
    const tide_backend *b = s ? tide__backend_peek(s->device) : NULL;
    wrapped[i] = NULL;
    if (!s || atomic_fetch_sub(&s->refs, 1) != 1) continue;
    if (b) b->stream_free(s->impl);
    free(s);
  }
}

/* The devices have been waited for and the allocator is gone. Streams that others still hold keep their headers. */
void tide__stream_shutdown(void) {
  tide__progress_shutdown();
  pthread_mutex_lock(&lock);
  forget_wrapped();
  forget_alive();
  tide_stream *list = ended;
  ended = NULL;
  atomic_store_explicit(&any_ended, false, memory_order_relaxed);
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    tide_stream *s = atomic_exchange(&tide__stream_defaults[d], NULL);
    const tide_backend *b = tide__backend_peek(d);
    for (int i = 0; b && i < idle[d].count; i++) b->stream_free(idle[d].item[i].impl);
    idle[d].count = 0, idle[d].known = false;
    if (!s) continue;
    if (b) b->stream_free(s->impl);
    s->impl = NULL;
    if (atomic_fetch_sub(&s->refs, 1) == 1) free(s);
  }
  pthread_mutex_unlock(&lock);
  while (list) {
    tide_stream *s = list;
    list = s->next;
    const tide_backend *b = tide__backend_peek(s->device);
    if (b) b->stream_free(s->impl);
    free(s);
  }
}

/* ---- what a stream tells ---- */

int tide_stream_device(const tide_stream *s) { return s ? s->device : TIDE_CPU; }
int tide_stream_priority(const tide_stream *s) { return s ? s->priority : 0; }

uint64_t tide__stream_handle(const tide_stream *s) {
  const tide_backend *b = s->epoch == tide__epoch_now() ? tide__backend_peek(s->device) : NULL;
  return b ? b->stream_handle(s->impl) : 0;
}

uint64_t tide_stream_handle(const tide_stream *s) {
  if (!s) return 0;
  tide__order_expose(s);
  return tide__stream_handle(s);
}

bool tide_stream_is_live(const tide_stream *s) { return s && s->epoch == tide__epoch_now(); }

bool tide_stream_same(const tide_stream *a, const tide_stream *b) {
  if (!a || !b) return false;
  if (a == b) return true;
  return tide_stream_is_live(a) && tide_stream_is_live(b) && a->device == b->device &&
         tide__stream_handle(a) == tide__stream_handle(b);
}

bool tide__stream_legacy(const tide_stream *s) { return s->external && tide__stream_handle(s) == 0; }

tide_status tide_stream_priority_range(int *least, int *greatest, int device) {
  TIDE_GIVEN("stream_priority_range", least);
  TIDE_GIVEN("stream_priority_range", greatest);
  const tide_backend *b;
  TIDE_TRY(tide__device_resolve_accelerator(&device, device, "stream_priority_range"));
  TIDE_TRY(tide__backend(&b, device));
  return b->stream_priority_range(least, greatest, device);
}
