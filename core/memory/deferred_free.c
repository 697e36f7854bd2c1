/* deferred_free.c: memory that other streams may still be using when it is freed.
 *
 * A piece of memory belongs to one stream, whose own order makes its reuse safe. Work that other streams did with it is
 * noted as it is queued. When the memory is freed, an event is recorded on each of those streams and the piece waits
 * here; polls look at a few pieces each, in turn, and hand on those whose events have all passed. Device blocks, pinned
 * memory and foreign memory all go this way.
 *
 * On a stream that is being captured no event would ever pass. A piece with such a use begins to wait when the capture
 * is over: until then it stands in a second list, as do the pieces that finalisers bring. The thread that captures
 * polls nothing.
 *
 * Invariants: the lock is a leaf among core's locks, below it are only the event cache and the backend; `done` is
 * called with no lock held; a piece is in the list once or not at all. */
#include "memory.h"

#include <stdlib.h>

typedef struct tide__use {
  struct tide__use *next;
  tide_stream *stream; /* retained until the event is recorded, then NULL */
  void *event;
  int device;
  uint64_t behind; /* the stream's id, where the event is recorded behind each use */
} tide__use;

_Atomic int64_t tide__deferred_frees;
static _Thread_local uint64_t began; /* devices, as bits, that pieces of this thread's have begun to wait for */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tide__deferred_free *first, **last = &first;
static tide__deferred_free *later; /* not begun to wait; counted in tide__deferred_frees too */

void tide__deferred_free_use(tide__deferred_free *d, tide_stream *stream) {
  TIDE_LOCKED(&lock);
  tide__use *u = d->uses;
  while (u && u->stream != stream) u = u->next;
  if (!u) {
    u = malloc(sizeof *u);
    if (u) {
      tide_stream_retain(stream);
      *u = (tide__use){d->uses, stream, NULL, stream->device, 0};
      d->uses = u;
    } else {
      d->wait_all = true;
    }
  }
}

/* What has become of a use: nothing is to be waited for, or an event, or the wait that should have replaced an event
 * has failed, because the host interrupted it: the use stays as it is. */
typedef enum { DONE, RECORDED, FAILED } outcome;

/* Nothing: the device is lost, or the stream has been waited for instead, or all of the device where it takes no event:
 * the owner of a foreign one may have destroyed it, which drops none of its work. */
static outcome record(tide__use *u) {
  const tide_backend *b = tide__backend_peek(u->device);
  tide_status status = TIDE_OK;
  bool recorded = false;
  if (!u->stream) return RECORDED; /* before another one failed */
  if (b && u->stream->epoch == tide__epoch_now() && !tide__device_lost(NULL, u->device)) {
    if (tide__event_take(&u->event, b, u->device, 0) != TIDE_OK) {
      status = b->stream_sync(u->stream->impl);
    } else if (!(recorded = b->event_record(u->event, u->stream->impl) == TIDE_OK)) {
      tide__event_give(u->event, u->device, 0);
      status = b->device_sync(u->device);
    }
  }
  if (status != TIDE_OK && !tide__device_lost(NULL, u->device)) return FAILED;
  tide_stream_release(u->stream);
  u->stream = NULL;
  return recorded ? RECORDED : DONE;
}

static bool wait_for_all(void) {
  bool done = true;
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    const tide_backend *b = tide__backend_peek(d);
    if (b && !tide__device_lost(NULL, d) && b->device_sync(d) != TIDE_OK) done &= tide__device_lost(NULL, d);
  }
  return done;
}

void tide__deferred_free_later(tide__deferred_free *d, void (*done)(void *arg), void *arg) {
  d->done = done, d->arg = arg;
  TIDE_LOCKED(&lock);
  d->next = later, later = d;
  atomic_fetch_add_explicit(&tide__deferred_frees, 1, memory_order_relaxed);
}

/* Would the events be recorded in a capture, or the waits end one? */
static bool must_wait(const tide__deferred_free *d) {
  bool captured = d->wait_all && tide__sync_watched();
  for (const tide__use *u = d->uses; u && !captured; u = u->next) captured = u->stream && u->stream->capture;
  return captured;
}

/* True if one has failed: the next poll tries again. */
static bool begin_uses(tide__deferred_free *d) {
  bool failed = false;
  for (tide__use **at = &d->uses; *at;) {
    tide__use *u = *at;
    outcome what = record(u);
    failed |= what == FAILED;
    if (what != DONE) {
      at = &u->next;
      continue;
    }
    *at = u->next;
    free(u);
  }
  return failed;
}

void tide__deferred_free_begin(tide__deferred_free *d, void (*done)(void *arg), void *arg) {
  tide__capture_lock();
  if (must_wait(d)) {
    tide__capture_unlock();
    tide__deferred_free_later(d, done, arg);
    return;
  }
  bool failed = begin_uses(d);
  tide__capture_unlock();
  if (d->wait_all && !failed) failed = !wait_for_all();
  if (failed) {
    tide__deferred_free_later(d, done, arg);
    return;
  }
  d->wait_all = false;
  if (!d->uses) {
    done(arg);
    return;
  }
  d->done = done, d->arg = arg, d->next = NULL;
  for (const tide__use *u = d->uses; u; u = u->next) began |= (uint64_t)1 << u->device;
  TIDE_LOCKED(&lock);
  *last = d, last = &d->next;
  atomic_fetch_add_explicit(&tide__deferred_frees, 1, memory_order_relaxed);
}

/* A query that fails means that the device is lost: nothing will use the memory any more. */
static bool passed(tide__use *u) {
  const tide_backend *b = tide__backend_peek(u->device);
  bool done = true;
  if (!b || tide__device_lost(NULL, u->device)) return true;
  return b->event_query(&done, u->event) != TIDE_OK || done;
}

static void end_use(tide__use **at) {
  tide__use *u = *at;
  *at = u->next;
  if (u->event) tide__event_give(u->event, u->device, 0);
  free(u);
}

static bool all_passed(tide__deferred_free *d, bool forced) {
  while (d->uses) {
    if (!forced && !passed(d->uses)) return false;
    end_use(&d->uses);
  }
  return true;
}

/* ---- events behind each use ---- */

enum { KEPT = 8 }; /* uses before it is asked which have passed */

static void forget_passed(tide__deferred_free *d) {
  int n = 0;
  for (const tide__use *u = d->uses; u; u = u->next) n++;
  if (n < KEPT) return;
  for (tide__use **at = &d->uses; *at;) {
    if ((*at)->stream || !passed(*at))
      at = &(*at)->next;
    else
      end_use(at);
  }
}

/* The lock is held, and no capture begins meanwhile. */
static bool record_behind(tide__deferred_free *d, tide_stream *stream) {
  const tide_backend *b = tide__backend_peek(stream->device);
  if (!b || stream->capture) return false;
  tide__use **at = &d->uses;
  while (*at && (*at)->behind != stream->id) at = &(*at)->next;
  if (!*at) {
    forget_passed(d);
    tide__use *u = calloc(1, sizeof *u);
    if (!u) return false;
    *u = (tide__use){d->uses, NULL, NULL, stream->device, stream->id};
    d->uses = u;
    at = &d->uses;
  }
  tide__use *u = *at;
  bool good = (u->event || tide__event_take(&u->event, b, u->device, 0) == TIDE_OK) &&
              b->event_record(u->event, stream->impl) == TIDE_OK;
  if (!good) end_use(at);
  return good;
}

void tide__deferred_free_behind(tide__deferred_free *d, tide_stream *stream) {
  tide__capture_lock();
  pthread_mutex_lock(&lock);
  bool good = record_behind(d, stream);
  pthread_mutex_unlock(&lock);
  tide__capture_unlock();
  if (!good) tide__deferred_free_use(d, stream);
}

void tide__deferred_free_drop(tide__deferred_free *d) {
  while (d->uses) {
    tide_stream_release(d->uses->stream);
    end_use(&d->uses);
  }
}

/* A foreign stream that takes no event, as its owner has destroyed it, still has its work done: as in record(), all of
 * the device is waited for instead. What the driver says of a stream that is there is the caller's error. */
static tide_status join_one(tide_stream *stream, tide_stream *other) {
  static atomic_bool warned;
  const tide_backend *b = tide__backend_peek(other->device);
  tide_status status = tide_stream_wait_stream(stream, other);
  bool refused = status == TIDE_ACCELERATOR || status == TIDE_DEVICE;
  if (!refused || !other->external || !b || tide__device_lost(NULL, other->device)) return status;
  TIDE_TRY(b->device_sync(other->device));
  if (!atomic_exchange(&warned, true))
    tide__warn("tide: a stream of the host's that used memory was destroyed while tide had it: the host has waited for "
               "the device; release its wrapper (tide_stream_release) first");
  return TIDE_OK;
}

tide_status tide__deferred_free_join(tide__deferred_free *d, tide_stream *stream) {
  for (const tide__use *u = d->uses; u; u = u->next) /* waiting for such a stream would join its capture */
    if (u->stream->capture)
      return tide__fail(TIDE_STATE,
                        "release: work on the memory is being captured, expected the capture to end before");
  if (d->wait_all && !wait_for_all()) return tide__fail(TIDE_MEMORY, "release: no host memory");
  for (const tide__use *u = d->uses; u; u = u->next)
    if (u->stream != stream) TIDE_TRY(join_one(stream, u->stream));
  tide__deferred_free_drop(d);
  d->wait_all = false;
  tide__deferred_free_use(d, stream);
  return TIDE_OK;
}

/* Entries that have not begun to wait begin now, or are kept for later once more. */
static void begin_later(bool forced) {
  pthread_mutex_lock(&lock);
  tide__deferred_free *list = later;
  later = NULL;
  for (tide__deferred_free *p = list; p; p = p->next)
    atomic_fetch_sub_explicit(&tide__deferred_frees, 1, memory_order_relaxed);
  pthread_mutex_unlock(&lock);
  while (list) {
    tide__deferred_free *p = list;
    list = p->next;
    if (forced) tide__deferred_free_drop(p);
    if (forced) p->wait_all = false;
    tide__deferred_free_begin(p, p->done, p->arg);
  }
}

static void poll(int64_t most, bool forced) {
  tide__deferred_free *done = NULL;
  if (!forced && tide_thread_is_capturing()) return;
  begin_later(forced);
  pthread_mutex_lock(&lock);
  int64_t there = atomic_load_explicit(&tide__deferred_frees, memory_order_relaxed);
  if (most > there) most = there;
  for (int64_t i = 0; i < most && first; i++) {
    tide__deferred_free *p = first;
    first = p->next;
    if (!first) last = &first;
    if (all_passed(p, forced)) {
      p->next = done, done = p;
      atomic_fetch_sub_explicit(&tide__deferred_frees, 1, memory_order_relaxed);
    } else {
      p->next = NULL;
      *last = p, last = &p->next;
    }
  }
  pthread_mutex_unlock(&lock);
  while (done) {
    tide__deferred_free *p = done;
    done = p->next;
    p->done(p->arg);
  }
}

void tide__deferred_frees_poll_slow(int64_t most) { poll(most, false); }
void tide__deferred_frees_shutdown(void) { poll(INT64_MAX, true); }

uint64_t tide__memory_settle(void) {
  uint64_t outer = began;
  began = 0;
  tide__deferred_drain();
  if (atomic_load_explicit(&tide__deferred_frees, memory_order_relaxed) > 0) tide__deferred_frees_poll_slow(INT64_MAX);
  tide__stream_reap();
  uint64_t devices = began;
  began |= outer;
  return devices;
}

tide_status tide__memory_wait(int device) {
  const tide_backend *b;
  int rounds = 8;
  TIDE_TRY(tide__backend(&b, device));
  tide__memory_settle();
  do {
    TIDE_TRY(b->device_sync(device));
    if (tide__sync_watched()) TIDE_OBSERVE(memory_settled);
  } while (tide__memory_settle() >> device & 1 && --rounds > 0);
  return TIDE_OK;
}
