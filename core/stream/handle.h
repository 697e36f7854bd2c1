/* handle.h: streams, events and waits. Private to core. */
#pragma once

#include "base/lock.h"
#include "base/quota.h"
#include "runtime/runtime.h"

/* ---- fault.c: errors of devices ---- */

tide_status tide__fail_driver(int device, const char *what, int code, const char *name, const char *text, bool sticky);
/* ACCELERATOR, not sticky, with a message of our own: a device that takes part in something keeps the others
 * waiting. */
tide_status tide__fail_peer(int device, int code, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- sync.c: what makes the host wait ---- */

/* Nonzero while a debug mode for synchronisation is on or a capture is under way anywhere. */
extern _Atomic int tide__sync_watch;
/* `asked`: the wait is what the caller asked for, so it matters to a capture alone. */
tide_status tide__sync_slow(const char *what, bool asked);
static inline bool tide__sync_watched(void) {
  return TIDE_UNLIKELY(atomic_load_explicit(&tide__sync_watch, memory_order_relaxed) != 0);
}
/* First line of every function that makes the host wait for a device: fails where that is not allowed; warns where that
 * is asked. */
static inline tide_status tide__sync_begin(const char *what) {
  if (tide__sync_watched()) TIDE_TRY(tide__sync_slow(what, false));
  return tide__quota_waits(what);
}
/* The same for the waits that a program asks for by name: synchronize and the like. */
static inline tide_status tide__sync_asked(const char *what) {
  if (tide__sync_watched()) TIDE_TRY(tide__sync_slow(what, true));
  return tide__waits_refused(what);
}
/* May a wait for the device go on? Not if the host interrupts it, or if an operation there is overdue. */
tide_status tide__wait_on(int device, const char *what);
/* What every wait ends with: deferred releases, passed events and dead streams are dealt with. */
void tide__after_wait(void);
/* How many operations may be overdue. While there are any, each wait for a device asks the fn of every kind. */
extern _Atomic int tide__overdue_watched;
typedef tide_status (*tide__overdue_fn)(int device);
enum { TIDE__OVERDUE_JOB, TIDE__OVERDUE_COLLECTIVE, TIDE__OVERDUE_KINDS };
void tide__overdue_set(int kind, tide__overdue_fn fn);
tide_status tide__overdue_slow(int device);
static inline tide_status tide__overdue(int device) {
  return atomic_load_explicit(&tide__overdue_watched, memory_order_relaxed) ? tide__overdue_slow(device) : TIDE_OK;
}
void tide__host_job_shutdown(void);
/* What an operation under preparation has met: a failure refuses it. */
extern _Thread_local tide_status tide__early;

/* ---- stream.c ---- */

struct tide_stream {
  void *impl; /* as in tide_stream_head */
  int device;
  int priority;
  bool external, is_default;
  uint64_t identity;       /* of a foreign one: the backend's name for it, the same for every wrapper; 0: not known */
  uint64_t id;             /* unique in the process: never reused */
  _Atomic uint64_t use_id; /* what storages compare: `id`, and while it is captured a number of the capture's own */
  _Atomic(struct tide__capture *) capture;   /* the capture that takes in what this stream does; else NULL */
  _Atomic(struct tide__progress *) progress; /* progress.h; NULL before the first launch */
  struct {
    _Atomic uint64_t behind[4]; /* which states of other streams it has waited for */
    _Atomic uint64_t done;      /* in which state of its own the driver had done all; 0: in none */
    _Atomic uint64_t watched;   /* in which a point that is watched stood behind all; 0: in none */
    _Atomic uint32_t waits;     /* how many it was told */
    _Atomic bool exposed;
  } order; /* order.c */
  _Atomic int64_t refs;
  uint32_t epoch;
  tide_quota *quota;               /* it counts there; or NULL */
  struct tide_stream *prev, *next; /* in the list of ours that are alive; of the ended ones, `next` alone */
};
extern _Atomic uint32_t tide__streams_made; /* in this epoch */
/* A number that no stream has. */
uint64_t tide__stream_number(void);
/* The driver's, or 0; it stays inside: who gives it away calls tide_stream_handle. */
uint64_t tide__stream_handle(const tide_stream *stream);
/* Is it the device's legacy stream? */
bool tide__stream_legacy(const tide_stream *stream);
/* Has this stream of the device nothing queued that we know of, or no stream of ours there, for 0? Waits for nothing;
 * tide__capture_lock is held and nothing is captured. */
bool tide__streams_idle(int device, uint64_t id);
/* Ends the released streams whose work is done: their cached memory may serve any other. */
void tide__stream_reap(void);
void tide__stream_shutdown(void);
/* STATE if the stream is NULL or of a runtime that has ended; `what` names the function. */
tide_status tide__stream_check(const tide_stream *stream, const char *what);
/* The default streams, NULL where nobody has asked for one yet. */
extern _Atomic(tide_stream *) tide__stream_defaults[TIDE_MAX_DEVICES];

/* ---- current.c ---- */

/* The current stream of the device for this thread; on the CPU one fixed stream. Borrowed. */
tide_status tide__stream_current(tide_stream **out, int device);
/* The same on an accelerator; *plain: the thread has chosen neither a pool there nor an allocation scope. */
tide_status tide__stream_current_for(tide_stream **out, bool *plain, int device);
bool tide__current_plain(int device); /* that alone */
/* The pool that this thread allocates from on the device; NULL for the default one. Borrowed; setting takes a
 * reference. */
struct tide_mempool *tide__current_pool(int device);
void tide__current_pool_set(struct tide_mempool *pool, int device);
/* The stream is current between the two, for what core does on it by functions that take the current one. */
typedef struct tide__selection {
  int device;
  bool changed;
  tide_stream *before; /* retained if it has changed */
} tide__selection;
tide__selection tide__selection_begin(tide_stream *on);
void tide__selection_end(tide__selection s);
/* A stream that is current for a while (tide_current_override): of it and the one before, the one not current now. */
typedef struct tide__stream_override {
  bool on;
  int device;
  tide_stream *other; /* retained; NULL: the default one */
} tide__stream_override;
/* Around what hooks run. */
tide__stream_override tide__stream_override_suspend(void);
void tide__stream_override_resume(tide__stream_override before);
/* Takes over a reference, and holds it until the next call on this thread: an operation under way uses the stream on,
 * though the host has run code that may have let it go. */
void tide__stream_keep(tide_stream *stream);

/* ---- event.c ---- */

/* A driver's event with these flags, from a cache; to be given back with any record in it. */
/* `backend` is the table of the device. */
tide_status tide__event_take(void **out, const tide_backend *backend, int device, uint32_t flags);
void tide__event_give(void *event, int device, uint32_t flags);
/* A place in a stream: a driver's event that was recorded there, for streams of any device to wait for. */
typedef struct tide__point {
  void *event;
  uint64_t captured, stream; /* the capture that it is in, 0 for none; the stream's id */
  int device;
  uint32_t number;    /* of the last launch before it */
  tide_stream *place; /* borrowed, for waits alone */
  uint64_t then;      /* of tide__order_now */
} tide__point;
tide_status tide__point_set(tide__point *out, tide_stream *stream, const char *what);
tide_status tide__point_wait(tide_stream *stream, const tide__point *point, const char *what);
void tide__point_drop(const tide__point *point); /* waits for it go on */
void tide__event_reap(void);                     /* frees those of captures that have ended */
void tide__event_shutdown(void);
