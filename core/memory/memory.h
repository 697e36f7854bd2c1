/* memory.h: the face of memory: storages, blocks, what waits to be freed. Private to core. */
#pragma once

#include "stream/stream.h"

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
/* The same behind the work, once it is queued, for what lives long: an event represents it, no stream is kept, and
 * passed events are forgotten. */
void tide__deferred_free_behind(tide__deferred_free *d, tide_stream *stream);
/* Calls done(arg), holding no lock, once the work now queued on the streams of `uses` has passed: at a later poll. */
void tide__deferred_free_begin(tide__deferred_free *d, void (*done)(void *arg), void *arg);
extern _Atomic int64_t tide__deferred_frees;
/* The same from a finaliser: touches no driver; a later poll begins. */
void tide__deferred_free_later(tide__deferred_free *d, void (*done)(void *arg), void *arg);
void tide__deferred_frees_poll_slow(int64_t most);     /* looks at `most` of them */
void tide__deferred_free_drop(tide__deferred_free *d); /* forgets the uses: the memory has gone */
/* The stream waits for the others that use it, and represents all of them from now on. */
tide_status tide__deferred_free_join(tide__deferred_free *d, tide_stream *stream);
void tide__deferred_frees_shutdown(void); /* the devices have been waited for: all of them pass */
static inline void tide__deferred_frees_poll(void) {
  if (atomic_load_explicit(&tide__deferred_frees, memory_order_relaxed) > 0) tide__deferred_frees_poll_slow(8);
}
/* Frees all dropped memory that no queued work uses any more, of every thread. Waits for nothing. Returns, as bits, the
 * devices whose events pieces wait for since this call. */
uint64_t tide__memory_settle(void);
/* Waits for the device and settles, until nothing new waits for it. */
tide_status tide__memory_wait(int device);

/* ---- allocator.c: blocks of device memory ---- */

typedef struct tide_block tide_block;
/* A block of at least `bytes` for use on stream, at once. Climbs the ladder of DESIGN when it does not fit. */
tide_status tide__block_alloc(tide_block **out, tide_stream *stream, size_t bytes);
bool tide__pool_counts(const tide_stream *stream); /* is what is allocated now counted with its pool's memory? */
/* Its two steps. The first one, in allocator_quick.c, is for a thread that has chosen no pool and no allocation scope:
 * a block that has just been freed, or NULL. */
tide_block *tide__block_quick(tide_stream *stream, size_t bytes);
tide_status tide__block_alloc_slow(tide_block **out, tide_stream *stream, size_t bytes);
/* As the first one, alone in a segment of its own, so that other processes can open it. */
tide_status tide__block_alloc_plain(tide_block **out, tide_stream *stream, size_t bytes);
/* The segment of the block, as mem_alloc gave it; false where other processes cannot open it. */
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
tide_status tide__scratch_try(void **out, tide_stream *stream, size_t bytes); /* no garbage is collected for a quota */
void tide__scratch_put(tide_stream *stream, void *ptr);
/* What a call was given, while `listens` points at it; `again`: another call is given the same, in the same order. */
typedef struct tide__scratch_list {
  bool again, failed;
  int n, at;
  struct {
    void *ptr;
    size_t bytes;
  } item[8];
} tide__scratch_list;
extern _Thread_local tide__scratch_list *tide__scratch_listens;

/* ---- mempool.c ---- */

bool tide__mempool_live(const tide_mempool *pool);    /* is it of the runtime that is running now? */
void tide__mempool_recorded(tide_mempool *pool);      /* a graph may write any of its memory from now on */
void tide__mempool_recorded_less(tide_mempool *pool); /* no more; not with the allocator's lock */

/* ---- reclaim.c: asking the host for memory ---- */

/* Runs the reclaim hooks: nonzero if any says that something was dropped. */
int tide__reclaim(int device, size_t bytes);
/* Waits for the threads that those have asked, for a bounded time; false: for none. Once behind each tide__reclaim. */
bool tide__reclaim_wait(void);
void tide__pace_add(size_t bytes);
bool tide__reclaiming(void); /* do hooks run on this thread? */

/* ---- pinned.c: page-locked host memory, from a small cache ---- */

typedef struct tide__pinned tide__pinned;
/* For a tenant (tide__tenant) all of what others have left there is cleared. */
tide_status tide__pinned_get(tide__pinned **out, void **ptr, size_t bytes);
void tide__pinned_put(tide__pinned *pinned);
/* Locks pages of the host's where they are, and unlocks them. */
tide_status tide__pinned_register(tide__pinned **out, void *ptr, size_t bytes);
void tide__pinned_unregister(tide__pinned *pinned);
void tide__pinned_limit(size_t most); /* keeps no more than this */
void tide__pinned_trim(void);         /* gives the cache back */
void tide__pinned_idle(void);         /* the same, if it was unused for two seconds and no device is at work */
void tide__pinned_shutdown(void);

/* ---- staged_copy.c: copies that have returned before the bytes are on the device ---- */

typedef struct tide__staged_copy tide__staged_copy;
/* The stream has queued a copy to the storage, and the host goes on as if it were done. */
void tide__staged_copy_note(tide_storage *s, tide_stream *stream);
/* Before the stream uses a storage that tide__storage_lands. */
void tide__staged_copy_before(tide_storage *s, tide_stream *stream);
void tide__staged_copy_before_all(tide_stream *stream); /* any storage at all */
void tide__staged_copy_settle(tide_storage *s);         /* before somebody uses it by its address */
void tide__staged_copy_end(tide_storage *s);            /* it goes */
void tide__staged_copy_many(void);                      /* a second stream was made */
void tide__staged_copy_shutdown(void);

/* ---- idle.c: freed memory that nobody has asked for goes back ---- */

/* A little of it, if it is time to look; never waits. */
void tide__idle_trim(void);
/* All of it: where the program itself asks, or nothing else goes on. */
void tide__idle_trim_all(void);
/* The same by a thread of ours, but not while it is held. */
void tide__idle_trim_background(void);
void tide__idle_hold(bool on);                   /* waits for such a thread */
void tide__allocator_trim(int device, bool all); /* of one device; in allocator_idle.c */
bool tide__allocators_idle_any(void);
bool tide__idle_any(void); /* is anything kept, or may it soon be? */
void tide__idle_forked(void);
void tide__memory_start(void);     /* registers with the rooms below, once */
void tide__idle_watch_forks(void); /* once, when the first device is opened: before the locks of a backend are taken */

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

/* ---- early_read.c: values that are read too early ---- */

/* Bytes that are on their way to page-locked memory, noted while the debug mode is on. */
typedef struct tide__early_read tide__early_read;
void tide__early_read_note(tide_storage *s, tide_stream *stream, uint32_t number, uint32_t site);
/* The host touches the storage's bytes: warns, or fails, if nobody has waited for them. */
tide_status tide__early_read_check(tide_storage *s, const char *what);
/* The same for an operand of an operation that is about to run on this thread: tide__early keeps what it found. */
void tide__early_read_touch(tide_storage *s);

/* ---- storage.c ---- */

/* Counts the replays of a graph for the storages that it writes, which may outlive it. */
typedef struct tide__replays {
  _Atomic int64_t refs;
  _Atomic uint16_t now; /* never 0 */
  _Atomic bool watched;
} tide__replays;
void tide__replays_drop(tide__replays *replays); /* NULL is allowed */

struct tide_storage {
  _Atomic int64_t refs; /* TIDE__STORAGE_BOUND for each graph whose input it is, 1 for every other holder */
  void *ptr;
  size_t nbytes;
  int device;
  uint32_t epoch;
  _Atomic uint32_t site; /* of the script line that made it; 0: unknown, as of small results on the CPU */
  bool pinned;
  bool foreign;                   /* not ours: `release`, if any, lets it go */
  bool tracked;                   /* streams use it: device memory and pinned memory */
  bool stream_held;               /* `stream` is retained: the default one need not be */
  bool external;                  /* of another API, and live in tide's turns alone */
  bool pending;                   /* has no memory yet: `user` is what computes its values (jit/fuse/pending.c) */
  bool counted;                   /* was pending: references count to 0, as its node may take some meanwhile */
  _Atomic uint32_t pending_reads; /* pending values that read it: a write computes them first */
  _Atomic bool let_go;            /* only graphs whose input it is still hold it, by name */
  _Atomic bool exported;          /* others know its address, so that it stays */
  tide_stream *stream;            /* the allocating stream; NULL on the CPU and for foreign memory */
  _Atomic uint64_t last_stream;   /* use_id of the stream that used it last: one compare on the hot path */
  _Atomic uint64_t capture;       /* the last capture that made it or holds it, see graph/capture.c */
  tide__replays *replays;         /* of the graph that writes it, once tide_graph_output was called; else NULL */
  tide_block *block;              /* NULL: CPU, pinned or foreign memory */
  void (*release)(void *user);    /* foreign memory's */
  void *user;
  tide__deferred_free deferred;
  _Atomic uint64_t readers;     /* devices, as bits, whose streams have read it since its own device used it: peer.c */
  tide__early_read *early_read; /* sync.c; NULL unless a debug mode is on */
  _Atomic(tide__staged_copy *) staged_copy; /* staged_copy.c; NULL: all copies to it are known to be there */
  uint32_t landed;                          /* the number of the last one */
  struct tide_quota *quota;                 /* that its bytes count in, or NULL */
  struct tide_storage *next;                /* free list */
};
tide_status tide__storage_new(tide_storage **out, size_t nbytes, int device, bool pinned);

/* ---- pending values: storages without memory; jit/fuse/pending.c computes them ---- */

/* Registered by jit, once. settle: computes the values. before_write: computes what reads the storage; if it
 * fails and the write goes on (`must`), those values are lost, and reading them fails. gone: nobody refers to the
 * storage; takes it over and ends it by tide__storage_end. graph: computes what a capture must not take
 * in, or with `replay` what a replay may overwrite. */
typedef struct tide__pending_ops {
  tide_status (*settle)(tide_storage *s);
  tide_status (*before_write)(tide_storage *s, bool must);
  void (*gone)(tide_storage *s);
  tide_status (*graph)(bool replay);
} tide__pending_ops;
extern tide__pending_ops tide__pending;
/* A storage whose values `node` computes. */
tide_status tide__storage_pending(tide_storage **out, size_t nbytes, int device, void *node);
/* Moves the memory of `from` to `to`, which has none; `from` has none afterwards. */
void tide__storage_move(tide_storage *to, tide_storage *from);
void tide__storage_end(tide_storage *s); /* frees the struct of a storage without memory */
static inline tide_status tide__storage_settle(tide_storage *s) {
  return TIDE_UNLIKELY(s->pending) ? tide__pending.settle(s) : TIDE_OK;
}
/* Before the storage's bytes change. */
static inline tide_status tide__storage_write(tide_storage *s) {
  return TIDE_UNLIKELY(atomic_load_explicit(&s->pending_reads, memory_order_relaxed))
             ? tide__pending.before_write(s, false)
             : TIDE_OK;
}
/* The same where the write can no longer be refused. */
static inline void tide__storage_overwrite(tide_storage *s) {
  if (TIDE_UNLIKELY(atomic_load_explicit(&s->pending_reads, memory_order_relaxed))) tide__pending.before_write(s, true);
}
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
  return atomic_load_explicit(&s->staged_copy, memory_order_relaxed) != NULL;
}
/* What a graph whose input the storage is adds to its references: one, and a count of its own above them. */
#define TIDE__STORAGE_BOUND (((int64_t)1 << 48) + 1)
static inline void tide__storage_bind(tide_storage *s) {
  atomic_fetch_add_explicit(&s->refs, TIDE__STORAGE_BOUND, memory_order_relaxed);
}
void tide__storage_unbind(tide_storage *s);
static inline bool tide__storage_is_bound(const tide_storage *s) {
  return atomic_load_explicit(&s->refs, memory_order_relaxed) >> 48 != 0;
}
/* How many hold it that are no graphs whose input it is. */
static inline int64_t tide__storage_unbound(const tide_storage *s) {
  int64_t refs = atomic_load_explicit(&s->refs, memory_order_relaxed);
  return refs - (refs >> 48) * TIDE__STORAGE_BOUND;
}
/* To be called for every storage that work queued on the stream reads or writes, pinned host memory included. */
void tide__storage_use_slow(tide_storage *s, tide_stream *stream);
static inline void tide__storage_use(tide_storage *s, tide_stream *stream) {
  if (s->tracked && atomic_load_explicit(&s->last_stream, memory_order_relaxed) !=
                        atomic_load_explicit(&stream->use_id, memory_order_relaxed))
    tide__storage_use_slow(s, stream);
}
/* As tide_storage_release, for a finaliser: nobody has said that the values are not needed any more. */
void tide__storage_collect(tide_storage *s);
void tide__storage_shutdown(void);
