/* core.h: the structs behind tide.h and what core's files share. Private: nothing outside core/ includes it. */
#ifndef TIDE_CORE_H
#define TIDE_CORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "backend/backend.h"
#include "base/likely.h"
#include "base/refs.h"
#include "base/try.h"
#include "runtime/deferred.h"

/* ---- status.c: errors ---- */

/* Sets the thread's error and returns status: return tide__fail(TIDE_SHAPE, "cat: tensor %d has ...", i). */
tide_status tide__fail(tide_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
tide_status tide__fail_memory(int device, size_t requested, size_t free, size_t total, size_t allocated,
                              size_t reserved, const char *format, ...);
tide_status tide__fail_index(int device, uint32_t site, int64_t value, int64_t length, int index_base);
/* Sets the thread's error to one that was kept: the cause of a lost device, the reason why a library did not open. */
tide_status tide__fail_again(const tide_error *error);
/* Makes `error` the thread's, with copies of the two texts, which must fit. */
enum { TIDE__MESSAGE_MOST = 6144 }; /* the message of a device's error lists launches and is longer than others */
tide_status tide__error_set(const tide_error *error, const char *message, const char *name);
/* "[2, 3]" into a ring of per-thread buffers: at most 8 alive at once, for messages. */
const char *tide__shape_text(const int64_t *size, int ndim);
/* "cpu" or "cuda:1", likewise. */
const char *tide__device_text(int device);

/* ---- trace.c: script lines ---- */

uint32_t tide__site_now(void); /* interned site of the running script line; 0 if unknown */
void tide__site_text(uint32_t site, char *text, size_t size);
void tide__site_recent(char *text, size_t size); /* the last few distinct lines, newest first: "a.lua:3, a.lua:7" */

/* ---- host.c: what the host brings ---- */

/* Counts starts and ends: odd while tide runs. What was made in another epoch holds nothing of this one's. The first
 * one is that of ordinary CPU memory; the second one, of all that belongs to accelerators, also moves on by two when
 * they are reset. */
extern _Atomic uint32_t tide__epochs[2];
static inline uint32_t tide__epoch_now(void) { return atomic_load_explicit(&tide__epochs[1], memory_order_acquire); }
const tide_config *tide__config(void);
bool tide__running(void);
tide_status tide__host_install(const tide_config *config); /* at the start; the config holds until the reset */
void tide__host_reset(void);
bool tide__interrupt_asked(void); /* does the host's hook of this thread say so? Then it is dealt with. */
void tide__log(const char *format, ...) __attribute__((format(printf, 1, 2)));
void tide__warn(const char *message); /* to the calling thread's hook */
/* Where CPU memory comes from: the host's hooks or our own. A record lives as long as the process, so memory goes back
 * where it came from even after the runtime that took it has ended. */
typedef struct tide__host_hooks tide__host_hooks;
const tide__host_hooks *tide__host_current(void);
void *tide__host_take(const tide__host_hooks *hooks, size_t bytes);
void tide__host_give(const tide__host_hooks *hooks, void *ptr, size_t bytes);
void *tide__host_alloc(size_t bytes); /* through the host's hook; 64-byte aligned */
void tide__host_free(void *ptr, size_t bytes);
/* For tests: the nth allocation from now, on the CPU or a device, fails with TIDE_MEMORY; 0 switches it off. */
extern _Atomic int64_t tide__fault_left;
void tide__fault_alloc(int64_t n);
bool tide__fault_hit(void);
static inline bool tide__fault_now(void) {
  return atomic_load_explicit(&tide__fault_left, memory_order_relaxed) > 0 && tide__fault_hit();
}

/* ---- backends.c: which devices there are ---- */

/* The table of a device's backend; opens library and device at first use. Fast path inline: device < 0 is the CPU. */
tide_status tide__backend(const tide_backend **out, int device);
extern const tide_backend tide__backend_cpu;         /* backend_cpu/ */
void tide__sim_uuid(unsigned char *uuid, int index); /* of the simulated device with that number */
const tide_backend *tide__backend_sim_open(const tide_backend_host *host, int devices, const int *picked, size_t memory,
                                           uint64_t seed);
/* How many accelerators there are, at least one; opens the library, not a device. Fails with the reason why there is
 * none. */
tide_status tide__device_count(int *out);
int tide__device_count_known(void);                 /* 0 until someone has asked; opens nothing */
const tide_backend *tide__backend_peek(int device); /* of an opened device, lost or not; else NULL. Sets no error. */
bool tide__device_any_open(void);
/* The first cause stays; first(device) is called for it, before anybody can see that the device is lost. */
void tide__device_set_lost(int device, const tide_error *cause, void (*first)(int device));
/* What backends are given. The rooms that own its slots fill them in before any backend is opened. */
extern tide_backend_host tide__backend_host;
bool tide__device_lost(tide_error *cause, int device); /* cause may be NULL; its strings live as long as the epoch */
/* reset: the devices lose their contexts too. In between, closed(all) drops what was made of the backends' kernels:
 * all, or those of accelerators alone. */
void tide__backends_close(bool reset, void (*closed)(bool all));
/* Runs once, when the first device is opened, before the locks of a backend are taken. */
typedef void (*tide__on_open_fn)(void);
void tide__device_on_first_open(tide__on_open_fn fn);
/* What a start reads. */
tide_status tide__configure(const tide_config *given);

/* ---- thread.c: what a thread leaves behind ---- */

/* fn runs on every thread that called tide__thread_touch, when it ends; to be added once for the process. */
void tide__thread_at_end(void (*fn)(void));
void tide__thread_touch(void);

/* ---- parallel.c ---- */

void tide__parallel_for(int64_t n, int64_t grain, tide_task_fn fn, void *arg);
/* What worker threads do for the memory above them, and what they are told; set once. */
typedef struct tide__idle_work {
  bool (*any)(void);         /* is anything kept, or may it soon be? */
  void (*trim)(void);        /* by a worker that has nothing else to do: gives back what is idle */
  void (*watch_forks)(void); /* once, before the first worker starts */
} tide__idle_work;
void tide__parallel_idle(const tide__idle_work *work);
void tide__parallel_shutdown(void);
/* Between these two, which stand around a kernel of the CPU, the thread's interrupt hook can end loops. The second
 * gives INTERRUPTED where it has, else the status that it is given. */
void tide__loops_begin(void);
tide_status tide__loops_end(tide_status status);
/* Must what is left of the running loop be skipped? Long loops ask about every millisecond. */
bool tide__loop_stops(void);
/* The same as tide__parallel_for, in order and on the calling thread, which may be in such a loop. */
void tide__serial_for(int64_t n, int64_t grain, tide_task_fn fn, void *arg);

/* ---- fft_cache.c ---- */

void tide__fft_shutdown(void);

/* ---- device.c ---- */

/* TIDE_CURRENT becomes the current accelerator; checks the range: `what` names the function in the error. */
tide_status tide__device_resolve(int *out, int device, const char *what);
/* Likewise, but the CPU is an error. */
tide_status tide__device_resolve_accelerator(int *out, int device, const char *what);
/* Whose answer TIDE_CURRENT is. */
typedef int (*tide__device_current_fn)(void);
void tide__device_current_set(tide__device_current_fn fn);

/* ---- peer.c: operands on another device ---- */

extern _Atomic bool tide__peer_any;
bool tide__peer_reads_slow(int device, int peer);
/* May operations on `device` read operands that lie on `peer`? */
static inline bool tide__peer_reads(int device, int peer) {
  return TIDE_UNLIKELY(atomic_load_explicit(&tide__peer_any, memory_order_relaxed)) &&
         tide__peer_reads_slow(device, peer);
}
/* Can kernels of `device` use the memory that `peer` allocated? For operations that see to the order themselves. */
bool tide__peer_path(int device, int peer);
void tide__peer_order(struct tide_storage *s, tide_stream *stream); /* before the stream uses the storage */
void tide__peer_shutdown(void);

/* ---- fault.c: errors of devices ---- */

tide_status tide__fail_driver(int device, const char *what, int code, const char *name, const char *text, bool sticky);
/* ACCELERATOR, not sticky, with a message of our own: a device that takes part in something keeps the others waiting.
 */
tide_status tide__fail_peer(int device, int code, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- start.c of stream ---- */

void tide__stream_start(void); /* registers with the rooms below, once */

/* ---- sync.c: what makes the host wait ---- */

/* Nonzero while a debug mode for synchronisation is on or a capture is under way anywhere. */
extern _Atomic int tide__sync_watch;
/* `asked`: the wait is what the caller asked for, so it matters to a capture alone. */
tide_status tide__sync_slow(const char *what, bool asked);
static inline bool tide__sync_watched(void) {
  return TIDE_UNLIKELY(atomic_load_explicit(&tide__sync_watch, memory_order_relaxed) != 0);
}
/* First line of whatever makes the host wait for a device: fails where that is not allowed; warns where that is asked.
 */
static inline tide_status tide__sync_begin(const char *what) {
  return tide__sync_watched() ? tide__sync_slow(what, false) : TIDE_OK;
}
/* Likewise for the waits that a program asks for by name: synchronize and the like. */
static inline tide_status tide__sync_asked(const char *what) {
  return tide__sync_watched() ? tide__sync_slow(what, true) : TIDE_OK;
}
/* May a wait for the device go on? Not if the host interrupts it, or if an operation there is overdue. */
tide_status tide__wait_on(int device, const char *what);
/* What every wait ends with: deferred releases, passed events and dead streams are dealt with. */
void tide__after_wait(void);
/* Operations that may be overdue: how many; while there are any, who waits for a device asks fn. Set once. */
extern _Atomic int tide__overdue_watched;
typedef tide_status (*tide__overdue_fn)(int device);
void tide__overdue_set(tide__overdue_fn fn);
tide_status tide__overdue_slow(int device);
static inline tide_status tide__overdue(int device) {
  return atomic_load_explicit(&tide__overdue_watched, memory_order_relaxed) ? tide__overdue_slow(device) : TIDE_OK;
}
/* Bytes that are on their way to page-locked memory, noted while the debug mode is on. */
typedef struct tide__arrival tide__arrival;
void tide__arrival_note(tide_storage *s, tide_stream *stream, uint32_t number, uint32_t site);
/* The host touches the storage's bytes: warns, or fails, if nobody has waited for them. */
tide_status tide__arrival_check(tide_storage *s, const char *what);
/* Likewise for an operand of an operation that is about to run on this thread: tide__early keeps what it found. */
void tide__arrival_touch(tide_storage *s);
extern _Thread_local tide_status tide__early;

/* ---- stream.c ---- */

struct tide_stream {
  void *impl; /* as in tide_stream_head */
  int device;
  int priority;
  bool external, is_default;
  uint64_t identity;       /* of a foreign one: the backend's name for it, whoever wraps it; 0: not known */
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
/* Asks the driver, without a wait, whether the device still answers; not while anything is captured. */
tide_status tide__stream_health(int device);
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
/* The pool that this thread allocates from on the device; NULL for the default one. Borrowed; setting takes a
 * reference.
 */
struct tide_mempool *tide__current_pool(int device);
void tide__current_pool_set(struct tide_mempool *pool, int device);
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

/* A driver's event with these flags, from a cache; to be given back, whatever was recorded in it. */
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
void tide__point_drop(const tide__point *point); /* whoever waits for it goes on waiting */
void tide__event_reap(void);                     /* frees those of captures that have ended */
void tide__event_shutdown(void);

/* ---- comm_watch.c: collective operations that do not end ---- */

void tide__comm_start(void); /* start.c: registers with the rooms below, once */
tide_status tide__comm_overdue(int device);
void tide__comm_ending(void);   /* the devices are about to be waited for, for the last time */
void tide__comm_shutdown(void); /* they have been */

/* ---- deferred_free.c: memory that other streams may still be using ---- */

/* One for each piece of memory. `uses` lists the streams, besides its own, that work on it. */
typedef struct tide__deferred_free {
  struct tide__use *uses;
  struct tide__deferred_free *next;
  void (*done)(void *arg);
  void *arg;
  bool wait_all; /* a use could not be noted for want of memory: wait for everything */
} tide__deferred_free;
void tide__deferred_free_use(tide__deferred_free *d, tide_stream *stream);
/* Calls done(arg), holding no lock, once the work now queued on the streams of `uses` has passed: at a later poll. */
void tide__deferred_free_begin(tide__deferred_free *d, void (*done)(void *arg), void *arg);
extern _Atomic int64_t tide__deferred_frees;
/* Likewise, from a finaliser: touches no driver; a later poll begins. */
void tide__deferred_free_later(tide__deferred_free *d, void (*done)(void *arg), void *arg);
void tide__deferred_frees_poll_slow(int64_t most);     /* looks at `most` of them */
void tide__deferred_free_drop(tide__deferred_free *d); /* forgets the uses: the memory has gone */
void tide__deferred_frees_shutdown(void);              /* the devices have been waited for: all of them pass */
static inline void tide__deferred_frees_poll(void) {
  if (atomic_load_explicit(&tide__deferred_frees, memory_order_relaxed) > 0) tide__deferred_frees_poll_slow(8);
}
/* What was let go and is not used by queued work any more goes: all of it, whoever let it go. Waits for nothing. */
void tide__memory_settle(void);

/* ---- allocator.c: blocks of device memory ---- */

typedef struct tide_block tide_block;
/* A block of at least `bytes` for use on stream, at once. Climbs the ladder of DESIGN when it does not fit. */
tide_status tide__block_alloc(tide_block **out, tide_stream *stream, size_t bytes);
/* Likewise, alone in a segment of its own, so that other processes can open it. */
tide_status tide__block_alloc_plain(tide_block **out, tide_stream *stream, size_t bytes);
/* The segment, as mem_alloc gave it, in which the block lies; false where other processes cannot open it. */
bool tide__block_base(const tide_block *block, void **base, size_t *bytes);
/* Did the backend allocate it, so that peers can reach it? Not what a program's own functions gave. */
bool tide__block_of_driver(const tide_block *block);
void *tide__block_ptr(const tide_block *block);
uint32_t tide__block_site(const tide_block *block); /* of the line that asked for it */
/* The block was used on this stream as well: it is not reused before that work is done. */
void tide__block_use(tide_block *block, tide_stream *stream);
void tide__block_free(tide_block *block);
void tide__allocator_shutdown(void);
/* Gives back what pools have left behind that nobody holds any more: may wait for the device. */
tide_status tide__allocator_reap(int device);
/* A stream has ended, all its work is done: its cached segments may serve any stream. */
void tide__allocator_orphan(int device, uint64_t stream);
/* Scratch memory for backends: a block by its address. */
tide_status tide__scratch_get(void **out, tide_stream *stream, size_t bytes);
void tide__scratch_put(tide_stream *stream, void *ptr);

/* ---- reclaim.c: asking the host for memory ---- */

/* Runs the reclaim hooks: nonzero if any says that something was dropped. */
int tide__reclaim(int device, size_t bytes);
/* Waits for the threads that those have asked, for a bounded time; false: for none. Once behind each tide__reclaim. */
bool tide__reclaim_wait(void);
void tide__pace_add(size_t bytes);
bool tide__reclaiming(void); /* do hooks run on this thread? */

/* ---- pinned.c: page-locked host memory, from a small cache ---- */

typedef struct tide__pinned tide__pinned;
tide_status tide__pinned_get(tide__pinned **out, void **ptr, size_t bytes);
void tide__pinned_put(tide__pinned *pinned);
void tide__pinned_limit(size_t most); /* keeps no more than this */
void tide__pinned_trim(void);         /* gives the cache back */
void tide__pinned_idle(void);         /* likewise if it has not been used for two seconds, and no device is at work */
void tide__pinned_shutdown(void);

/* ---- landing.c: copies that have returned before the bytes are on the device ---- */

typedef struct tide__landing tide__landing;
/* The stream has queued a copy to the storage, and the host goes on as if it were done. */
void tide__landing_note(tide_storage *s, tide_stream *stream);
/* Before the stream uses a storage that tide__storage_lands. */
void tide__landing_before(tide_storage *s, tide_stream *stream);
void tide__landing_before_all(tide_stream *stream); /* any storage at all */
void tide__landing_settle(tide_storage *s);         /* before somebody uses it by its address */
void tide__landing_end(tide_storage *s);            /* it goes */
void tide__landing_many(void);                      /* a second stream was made */
void tide__landing_shutdown(void);

/* ---- idle.c: freed memory that nobody has asked for goes back ---- */

/* A little of it, if it is time to look; never waits. */
void tide__idle_trim(void);
/* All of it: where the program itself asks, or nothing else goes on. */
void tide__idle_trim_all(void);
/* Likewise by a thread of ours, but not while it is held. */
void tide__idle_trim_background(void);
void tide__idle_hold(bool on);                   /* waits for such a thread */
void tide__allocator_trim(int device, bool all); /* of one device; in allocator_idle.c */
bool tide__allocators_idle_any(void);
bool tide__idle_any(void); /* is anything kept, or may it soon be? */
void tide__idle_forked(void);
void tide__memory_start(void);     /* registers with the rooms below, once */
void tide__idle_watch_forks(void); /* once, when the first device is opened: before the locks of a backend are taken */

/* ---- storage.c ---- */

/* Counts the replays of a graph for the storages that it writes, which may outlive it. */
typedef struct tide__replays {
  _Atomic int64_t refs;
  _Atomic uint16_t now; /* never 0 */
  _Atomic bool watched;
} tide__replays;
void tide__replays_drop(tide__replays *replays); /* NULL is allowed */

struct tide_storage {
  _Atomic int64_t refs;
  void *ptr;
  size_t nbytes;
  int device;
  uint32_t epoch;
  _Atomic uint32_t site; /* of the script line that made it; 0: unknown, as of small results on the CPU */
  bool pinned;
  bool foreign;                 /* not ours: `release`, if any, lets it go */
  bool tracked;                 /* streams use it: device memory and pinned memory */
  tide_stream *stream;          /* the allocating stream, retained; NULL on the CPU and for foreign memory */
  _Atomic uint64_t last_stream; /* use_id of the stream that used it last: one compare on the hot path */
  _Atomic uint64_t capture;     /* the last capture that made it or holds it, see graph/capture.c */
  tide__replays *replays;       /* of the graph that writes it, once tide_graph_output was called; else NULL */
  tide_block *block;            /* NULL: CPU, pinned or foreign memory */
  void (*release)(void *user);  /* foreign memory's */
  void *user;
  tide__deferred_free deferred;
  _Atomic uint64_t readers; /* devices, as bits, whose streams have read it since its own device used it: peer.c */
  tide__arrival *arrival;   /* sync.c; NULL unless a debug mode is on */
  _Atomic(tide__landing *) landing; /* landing.c; NULL: all copies to it are known to be there */
  uint32_t landed;                  /* the number of the last one */
  struct tide_storage *next;        /* free list */
};
tide_status tide__storage_new(tide_storage **out, size_t nbytes, int device, bool pinned);
/* Foreign memory: release(user), if any, runs when the last reference has gone and the work queued on it is done. */
tide_status tide__storage_wrap(tide_storage **out, void *ptr, size_t nbytes, int device, void (*release)(void *user),
                               void *user);
/* Is it of the runtime that is running now? */
static inline bool tide__storage_live(const tide_storage *s) {
  return s->epoch == atomic_load_explicit(&tide__epochs[s->tracked], memory_order_acquire);
}
static inline void tide__storage_enter(tide_storage *s) { /* once `tracked` is known */
  s->epoch = atomic_load_explicit(&tide__epochs[s->tracked], memory_order_acquire);
}
/* May a copy to it still be under way? */
static inline bool tide__storage_lands(const tide_storage *s) {
  return atomic_load_explicit(&s->landing, memory_order_relaxed) != NULL;
}
/* To be called for every storage that work queued on the stream reads or writes, pinned host memory included. */
void tide__storage_use_slow(tide_storage *s, tide_stream *stream);
static inline void tide__storage_use(tide_storage *s, tide_stream *stream) {
  if (s->tracked && atomic_load_explicit(&s->last_stream, memory_order_relaxed) !=
                        atomic_load_explicit(&stream->use_id, memory_order_relaxed))
    tide__storage_use_slow(s, stream);
}
void tide__storage_shutdown(void);

/* ---- tensor.c ---- */

struct tide_tensor {
  _Atomic int64_t refs;
  tide_storage *storage;
  int64_t offset, numel;
  int32_t ndim;
  uint8_t dtype;
  bool contiguous;
  uint16_t replay;          /* the replay whose values it stands for; 0: whatever is there */
  struct tide_tensor *next; /* free list */
  int64_t size[TIDE_MAX_DIMS], stride[TIDE_MAX_DIMS];
  tide__deferred deferred;
};
tide_tensor *tide__tensor_header(void); /* from a free list, refs 1, fields unset; NULL without memory (error set) */
/* A view of x's storage with its own size, stride, offset; checks nothing. */
tide_status tide__tensor_view(tide_tensor **out, const tide_tensor *x, const int64_t *size, const int64_t *stride,
                              int ndim, int64_t offset);
void tide__tensor_layout(tide_tensor *x); /* sets numel and contiguous from size and stride */
/* A new contiguous tensor. */
tide_status tide__tensor_new(tide_tensor **out, const int64_t *size, int ndim, tide_dtype dtype, int device);
static inline char *tide__tensor_ptr(const tide_tensor *x) {
  static const uint8_t bytes[] = {
#define DTYPE(name, NAME, type, size_, kind, alias) size_,
#include "tide/dtype.def"
#undef DTYPE
  };
  return (char *)x->storage->ptr + x->offset * bytes[x->dtype];
}
static inline int tide__tensor_device(const tide_tensor *x) { return x->storage->device; }
/* STATE if x is NULL, freed, or its runtime has ended; `what` names the function and `name` the argument. */
tide_status tide__tensor_check(const tide_tensor *x, const char *what, const char *name);
/* 0 <= *dim < ndim after counting negatives from the end; a 0-d tensor accepts 0 and -1. */
tide_status tide__dim_check(int *out, int dim, int ndim, const char *what);

/* ---- op.c, plan.c ---- */

tide_dtype tide__compute_dtype(tide_dtype common); /* of plan.h: INT32, INT64, FLOAT32, ... */
tide_value tide__value(tide_scalar s);
/* Packs a scalar into the storage form of dtype. */
void tide__scalar_pack(uint64_t bits[2], tide_scalar s, tide_dtype dtype);
tide_scalar tide__scalar_unpack(const void *bits, tide_dtype dtype);
uint16_t tide__to_half(float f);
float tide__from_half(uint16_t h);
uint16_t tide__to_bfloat16(float f);
float tide__from_bfloat16(uint16_t h);
/* Drops dims of size 1, orders by stride of operand 0 (unless keep_order) and merges neighbours that all operands
 * allow. stride[k][d] for k < operands; returns the new number of dims (at least 1). */
int tide__collapse(int64_t *size, int64_t (*stride)[TIDE_MAX_DIMS], int operands, int ndim, bool keep_order);
extern const char *const tide__random_names[]; /* of each kind of random numbers */

/* ---- jit_module.c ---- */

void tide__jit_ahead_stop(void);    /* waits for what compiles kernels on threads of its own; it may start again */
void tide__jit_unload(bool of_cpu); /* drops the kernels that were made at run time on accelerators; of_cpu: all */

/* ---- generator.c ---- */

/* Where one call's numbers begin, for the fields of these names in plan.h. */
typedef struct tide__draw {
  uint64_t seed, offset;
  const uint64_t *state;
} tide__draw;
/* Takes the place for one call, queued on the stream, and advances the generator by 4: at once, or at each replay of
 * the graph that is being captured there. */
tide_status tide__generator_take(tide__draw *out, tide_generator *g, tide_stream *stream);
/* Where the generator stands, after which it advances by so many calls. */
void tide__generator_advance(uint64_t *seed, uint64_t *offset, tide_generator *g, uint64_t calls);
/* Undo the two for what was not queued after all, unless somebody has drawn since. */
void tide__generator_untake(const tide__draw *draw, tide_generator *g, tide_stream *stream);
bool tide__generator_same(const tide_generator *g, const tide_generator *other); /* at one place? */
void tide__generator_retreat(uint64_t seed, uint64_t offset, tide_generator *g, uint64_t calls);

#endif
