/* allocator.h: the structs of the caching allocator, shared by allocator*.c alone. */
#pragma once

#include "base/biased_mutex.h"
#include "history.h"
#include "idle.h"
#include "settings.h"

typedef struct tide__allocator tide__allocator;

/* A family of segments that serves nothing else. Its users hold it by `refs`; they all together and each of its
 * segments hold the struct by `life`. */
struct tide_mempool {
  _Atomic int64_t refs, life;
  _Atomic int64_t recordings; /* of graphs, which may write any of its memory whenever they are replayed */
  struct tide_quota *quota;   /* of its maker: its segments count there; or NULL; retained */
  tide_allocator *source;     /* a program's own, from which the segments come; retained; NULL: the driver */
  uint64_t id;                /* unique in the process: never reused; 0 is the default pool, which has no struct */
  int device;                 /* TIDE_ALL_DEVICES, or its device */
  uint32_t epoch;
};
/* A program's own pair of functions, out of a shared library. */
struct tide_allocator {
  _Atomic int64_t refs;
  void *library;
  tide_alloc_fn alloc;
  tide_free_fn free;
};

/* Has the last user let it go? NULL is the default pool, which stays. */
static inline bool tide__mempool_dead(const tide_mempool *pool) {
  return pool && atomic_load_explicit(&pool->refs, memory_order_relaxed) == 0;
}
void tide__mempool_drop(tide_mempool *pool); /* one `life` less */
/* Segments of the pool grow by `by` bytes, or shrink, which never fails. NULL: the default pool, counted nowhere. */
tide_status tide__mempool_count(tide_mempool *pool, int64_t by);
/* Whose free blocks may serve a request: those of one pool and one stream. What captures of the pool have used is
 * apart, under the complement of its id: their graphs write it at every replay. */
typedef struct tide__pool_key {
  uint64_t mempool, stream; /* ids */
} tide__pool_key;

static inline bool tide__pool_key_captured(tide__pool_key key) { return (int64_t)key.mempool < 0; }
/* Does the pool's memory of this key stay, free or not? */
static inline bool tide__pool_key_kept(tide__pool_key key, const tide_mempool *pool) {
  return tide__pool_key_captured(key) && atomic_load_explicit(&pool->recordings, memory_order_relaxed) > 0;
}

typedef enum {
  SEGMENT_PLAIN, /* one piece of the driver's */
  SEGMENT_RANGE, /* addresses that are backed piece by piece: allocator_range.c */
  SEGMENT_ASYNC, /* of the driver's stream-ordered allocator */
  SEGMENT_OWN    /* of a program's own functions */
} tide__segment_kind;

/* Addresses of the driver's. Its blocks are a chain without gaps. */
typedef struct tide__segment {
  struct tide__segment *prev, *next;
  tide_block *head;
  char *ptr;
  size_t size;           /* bytes of memory */
  size_t span;           /* bytes of addresses: more than `size` only in one that grows */
  tide_mempool *mempool; /* NULL: the default one */
  tide__pool_key key;    /* as in its blocks */
  int pool;              /* TIDE_POOL_LARGE or TIDE_POOL_SMALL */
  tide__segment_kind kind;
  bool oversize;          /* at least max_split_size, when it came */
  bool alone;             /* has one block and goes with it */
  uint32_t *piece;        /* of a RANGE: at the granule where a piece begins how many it has, else 0 */
  tide_allocator *source; /* of an OWN one: retained */
  tide_stream *stream;    /* of an ASYNC, OWN or alone one: retained */
} tide__segment;

/* UNMAPPED: addresses without memory. LEAVING: on the way back to the driver, see tide__leaving. KEPT: free, in a list
 * of allocator_quick.c. */
typedef enum { BLOCK_FREE, BLOCK_USED, BLOCK_DEFERRED, BLOCK_UNMAPPED, BLOCK_LEAVING, BLOCK_KEPT } tide__block_state;

struct tide_block {
  tide_block *left, *right; /* in the tree of the free ones; `right` links spare structs and scratch blocks too */
  tide_block *prev, *next;  /* in the segment */
  tide__segment *segment;
  tide__allocator *owner;
  char *ptr;
  size_t size, requested;
  tide__pool_key key;
  uint64_t tenant; /* all of its bytes hold only this tenant's data (tide__tenant), or 0: a host's, several ones' */
  uint32_t rank;   /* random, for the tree */
  tide__block_state state;
  bool oversize; /* at least max_split_size, when it was handed out */
  bool plain;    /* small, of the default pool: allocator_quick.c may keep it */
  tide__deferred_free deferred;
  tide__note note;   /* who asked for it: set while it is in use */
  tide_quota *quota; /* of a scratch block: where it counts, or NULL */
};
/* Does a tensor hold it, or work that is queued? */
static inline bool tide__block_busy(const tide_block *b) {
  return b->state == BLOCK_USED || b->state == BLOCK_DEFERRED;
}

/* Where a request's memory comes from; of an allocator: where most comes from. */
typedef enum {
  SOURCE_UNREADY, /* not used yet: nobody has asked for the settings */
  SOURCE_CACHE,
  SOURCE_DIRECT, /* the driver, each time */
  SOURCE_ASYNC,
  SOURCE_OWN,
  SOURCE_SHARED /* a segment of its own that other processes can open */
} tide__source;

enum { TIDE__RAW_BITS = 8 };

/* Since then at least `low` bytes of large memory were free all the time. */
typedef struct tide__idle_span {
  int64_t since;
  size_t low;
} tide__idle_span;

/* Blocks that have come and gone since the table of statistics was brought up to date, and how far ahead of that one
 * they have been. */
typedef struct tide__quick_count {
  int64_t up, down, most;
} tide__quick_count;

enum { TIDE__QUICK_LISTS = 64 };

struct tide__allocator {
  tide__biased lock;
  int device;
  _Atomic tide__source source;
  tide__settings set;
  tide_block *pool[TIDE_POOL_COUNT]; /* roots of the trees; TIDE_POOL_ALL is not used */
  tide__segment *segments, *spare_segments;
  tide_block *spare, *scratch;
  tide_block *raw[1 << TIDE__RAW_BITS]; /* by address, see allocator_raw.c */
  void *slabs;                          /* what the structs are cut from */
  uint32_t seed;
  _Atomic bool has_dead; /* there may be free segments of pools that nobody holds */
  bool capped, cap_set;  /* cap_set: asked for, not taken from the settings alone */
  double fraction;
  size_t limit;          /* bytes that `fraction` allows, if capped */
  size_t ordered;        /* bytes of the driver's stream-ordered allocator that blocks hold */
  size_t granule, total; /* of ranges, 0: there are none; bytes of the device */
  tide_memory_stats stats;
  struct {
    struct {
      tide_block *head; /* linked by `right`; the key of the list is its blocks' key and size */
      uint64_t stream;
      size_t size;
    } list[TIDE__QUICK_LISTS];
    int kept;
    tide__quick_count blocks, bytes, requested;
  } quick;                            /* allocator_quick.c */
  _Atomic size_t allocated, reserved; /* as in stats, to be read without the lock */
  struct {
    _Atomic int64_t used, look_at; /* when large memory was last taken or freed; when to look next */
    tide__idle_span soon, late;
    size_t rest; /* idle bytes that a call which gives back a little has left for the next ones */
  } idle;
};

/* One call for memory. */
typedef struct tide__request {
  tide_stream *stream;
  tide_mempool *mempool; /* NULL: the default one */
  tide__pool_key key;
  size_t bytes, size; /* asked for, rounded */
  int pool;
  tide__source source;
  size_t active;       /* bytes in use when the driver was asked last */
  tide_status unclean; /* why a block could not be cleared for the tenant, or OK */
  tide__note note;     /* of who asks */
} tide__request;

/* What is about to go back to the driver: taken from the trees under the lock, given back without it. */
typedef struct tide__leaving {
  tide__segment *segments; /* linked by `next` */
  tide_block *blocks;      /* of ranges; linked by `left` */
  size_t bytes;
} tide__leaving;

extern tide__allocator tide__allocators[TIDE_MAX_DEVICES]; /* state.c */
static inline tide__allocator *tide__allocator_of(int device) { return &tide__allocators[device]; }
static inline void tide__allocator_unlock(tide__allocator *a) { tide__biased_unlock(&a->lock); }

/* ---- allocator_quick.c; the lock is held ---- */

void tide__quick_settle_counts_slow(tide__allocator *a);
void tide__quick_settle_slow(tide__allocator *a);
void tide__quick_settle_for(tide__allocator *a, tide__pool_key key, size_t size); /* those of one list alone */
/* The statistics are what they should be. */
static inline void tide__quick_settle_counts(tide__allocator *a) {
  if (a->quick.blocks.up | a->quick.blocks.down) tide__quick_settle_counts_slow(a);
}
/* Every free block is in its tree. */
static inline void tide__quick_settle(tide__allocator *a) {
  if (a->quick.kept) tide__quick_settle_slow(a);
}
/* Two ways to take the lock: for callers that look at no free block, and for all others. */
static inline void tide__allocator_enter(tide__allocator *a) {
  tide__biased_lock(&a->lock);
  tide__quick_settle_counts(a);
}
static inline void tide__allocator_lock(tide__allocator *a) {
  tide__allocator_enter(a);
  tide__quick_settle(a);
}
/* Without the lock: keeps the block, or frees it like any other (false). */
bool tide__quick_free(tide__allocator *a, tide_block *b);
/* With the lock held: may the driver's stream-ordered allocator keep freed memory of ours? It does so, too, after
 * caching has been switched off. */
static inline bool tide__allocator_ordered(const tide__allocator *a) {
  return a->set.async && (a->source == SOURCE_ASYNC || a->source == SOURCE_DIRECT);
}
static inline int tide__allocator_device(const tide__allocator *a) { return (int)(a - tide__allocators); }

/* Makes a block, in no tree, its tenant's own: clears all of it where it is not. The lock is held. In
 * allocator_clear.c. */
void tide__block_claim_slow(tide_block *b, tide__request *r, uint64_t tenant);
static inline void tide__block_claim(tide_block *b, tide__request *r) {
  uint64_t tenant = tide__tenant();
  if (b->tenant != tenant) tide__block_claim_slow(b, r, tenant);
}
/* A block that nobody uses goes back among the free ones; the lock is held. In allocator_pool.c. */
void tide__block_settle(tide__allocator *a, tide_block *b);

/* ---- allocator_pool.c; all with the lock held ---- */

void tide__pool_insert(tide__allocator *a, tide_block *b);
void tide__pool_remove(tide__allocator *a, tide_block *b);
/* The smallest free block of the key with at least `size` bytes, the lowest of equals; NULL if there is none. */
tide_block *tide__pool_find(const tide__allocator *a, int pool, tide__pool_key key, size_t size);
/* The smallest free block with at least `size` bytes of the key's mempool, of any stream; NULL if there is none,
 * and never one that captured graphs write. */
tide_block *tide__pool_foreign(const tide__allocator *a, tide__pool_key key, size_t size);
tide_block *tide__block_new(tide__allocator *a);
void tide__block_drop(tide__allocator *a, tide_block *b);
/* Wraps a piece of the driver's in a segment and one block, not yet in a tree. NULL without host memory. */
tide_block *tide__segment_new(tide__allocator *a, void *ptr, size_t size, const tide__request *r);
void tide__segment_drop(tide__allocator *a, tide__segment *s);
/* A segment of an ended stream, of the same mempool and wholly free, becomes one of the key's stream; so does, where
 * the key is captured, one of this or an ended stream that is not. Its block, in no tree; NULL if there is none. */
tide_block *tide__pool_adopt(tide__allocator *a, int pool, tide__pool_key key, size_t size);
/* Of the same ones, a segment that can grow, used or not; NULL if there is none. */
tide__segment *tide__segment_adopt(tide__allocator *a, int pool, tide__pool_key key);
/* The block, not in a tree any more, shrinks to `size`; the rest becomes a free block. */
void tide__block_split(tide__allocator *a, tide_block *b, size_t size);
/* Takes in the free neighbours of a block that is in no tree. Returns how many; *bytes is what they had. */
int tide__block_merge(tide__allocator *a, tide_block *b, size_t *bytes);
/* The block takes in the one behind it. Neither is in a tree. */
void tide__block_join(tide__allocator *a, tide_block *b);
void tide__segment_unhook(tide__allocator *a, tide__segment *s);
size_t tide__pool_largest(const tide__allocator *a);
size_t tide__pool_of_graphs(const tide__allocator *a); /* free bytes that stay with captured graphs */
void tide__slabs_free(tide__allocator *a);

/* ---- allocator_stats.c ---- */

static inline void tide__stat_one(tide_stat *s, int64_t by) {
  s->current += by;
  if (by > 0)
    s->allocated += by;
  else
    s->freed -= by;
  if (s->current > s->peak) s->peak = s->current;
}

static inline void tide__stat_up(tide_stat rows[TIDE_POOL_COUNT], int pool, int64_t by) {
  const int both[2] = {TIDE_POOL_ALL, pool};
  for (int i = 0; i < 2; i++) {
    tide_stat *s = &rows[both[i]];
    s->current += by, s->allocated += by;
    if (s->current > s->peak) s->peak = s->current;
  }
}

static inline void tide__stat_down(tide_stat rows[TIDE_POOL_COUNT], int pool, int64_t by) {
  const int both[2] = {TIDE_POOL_ALL, pool};
  for (int i = 0; i < 2; i++) rows[both[i]].current -= by, rows[both[i]].freed += by;
}

static inline void tide__stat_move(tide_stat rows[TIDE_POOL_COUNT], int pool, int64_t by) {
  if (by > 0) tide__stat_up(rows, pool, by);
  if (by < 0) tide__stat_down(rows, pool, -by);
}

/* Memory of the driver's comes (by > 0) or goes: the count of segments and the bytes that are reserved. */
static inline void tide__stat_reserve(tide__allocator *a, int pool, int64_t segments, int64_t by) {
  tide__stat_move(a->stats.segment, pool, segments);
  tide__stat_move(a->stats.reserved_bytes, pool, by);
  if (by > 0)
    a->stats.num_device_alloc++;
  else
    a->stats.num_device_free++;
  atomic_store_explicit(&a->reserved, (size_t)a->stats.reserved_bytes[TIDE_POOL_ALL].current, memory_order_relaxed);
}

/* The error of an allocation that did not fit, with all its figures. */
tide_status tide__allocator_fail(tide__allocator *a, int device, size_t bytes);
/* The lines that hold most, most first; with the lock held. Returns how many. In snapshot.c. */
int tide__allocator_sites(tide_memory_site *out, int most, const tide__allocator *a);
/* Calls fn for each segment of the device, with its blocks from `head` on, under the lock: fn must not call back. */
void tide__allocator_visit(int device, void (*fn)(void *arg, const tide__segment *segment), void *arg);

/* ---- allocator_source.c ---- */

/* The lock is held. Memory for the request otherwise than by growing: a block in no tree. */
tide_status tide__source_grow(tide_block **out, tide__allocator *a, const tide_backend *backend,
                              const tide__request *r);
/* May `bytes` more be reserved? The lock is held. */
static inline bool tide__may_reserve(const tide__allocator *a, size_t bytes) {
  size_t reserved = (size_t)a->stats.reserved_bytes[TIDE_POOL_ALL].current;
  return !a->capped || (bytes <= a->limit && reserved <= a->limit - bytes);
}
/* Of a block that is alone in its segment: may its memory be given back, as far as its own stream is concerned? Waits
 * for that one where the driver's function takes no stream. Not while the stream, or anything by this thread, is
 * captured, nor where the wait has failed: then the block has to wait in deferred_free.c. Without the lock. */
bool tide__block_may_go(const tide__allocator *a, const tide_block *b);
/* It goes, and its memory with it: nothing that is queued uses it any more. Without the lock. */
void tide__block_give(tide__allocator *a, tide_block *b);
/* A segment's memory and addresses go back where they came from, in any state of its blocks. */
void tide__segment_give(const tide__segment *s, const tide_backend *backend, int device);
/* Once for each start of the runtime: opens the device, reads the settings. */
tide_status tide__allocator_ready(tide__allocator *a, int device);
bool tide__allocator_any_ready(void);
/* The settings have changed: ready allocators adopt them. new_cap: the fraction was named, and holds for all. */
void tide__allocators_refresh(const tide__settings *s, bool new_cap);
/* The lock is held. Of `total` bytes no more than the fraction may be reserved. */
void tide__allocator_cap(tide__allocator *a, double fraction, size_t total);

/* ---- allocator_range.c; all with the lock held ---- */

/* Memory for the request from a segment that grows: a block in no tree. TIDE_SUPPORT: there are no addresses. */
tide_status tide__range_grow(tide_block **out, tide__allocator *a, const tide_backend *backend, tide__request *r);
/* Takes free pieces of the request's own key out if new memory would make the cache too large a part of all, and where
 * that is not enough, pieces of other keys. */
void tide__range_trim(tide__leaving *out, tide__leaving *others, tide__allocator *a, const tide__request *r);
/* Takes the free pieces out, `most` bytes or a little more. */
void tide__range_leave(tide__leaving *out, tide__allocator *a, tide__segment *s, size_t most);
void tide__range_unmap(const tide_block *b, const tide_backend *backend, int device); /* without the lock */
void tide__range_left(tide__allocator *a, tide_block *b);                             /* its pieces are unmapped */
void tide__range_return(tide__allocator *a, tide_block *b);                           /* they are not */

/* ---- allocator_idle.c ---- */

/* Large memory is taken or freed; the lock is held. */
static inline void tide__idle_note(tide__allocator *a, int pool) {
  if (pool != TIDE_POOL_LARGE) return;
  tide_memory_stats *st = &a->stats;
  size_t free = (size_t)(st->reserved_bytes[pool].current - st->active_bytes[pool].current);
  if (free < a->idle.soon.low) a->idle.soon.low = free;
  if (free < a->idle.late.low) a->idle.late.low = free;
  if (free < a->idle.rest) a->idle.rest = free;
  atomic_store_explicit(&a->idle.used, tide__idle_now(), memory_order_relaxed);
}
/* Of what has been taken out, what no queued work can use goes back, the rest is free again; waits for nothing. */
void tide__release_idle(tide__allocator *a, tide__leaving *leaving);

/* ---- allocator_release.c ---- */

/* Take free pieces out, at least `most` bytes if there are any: of all pools, of dead pools alone, or of large
 * memory alone. The lock is held. */
void tide__release_collect(tide__leaving *out, tide__allocator *a, bool dead_alone, size_t most);
void tide__release_collect_large(tide__leaving *out, tide__allocator *a, size_t most);
/* What has been taken out goes back to the driver, without a wait; or is free again. */
void tide__release_now(tide__allocator *a, const tide__leaving *leaving);
void tide__release_undo(tide__allocator *a, const tide__leaving *leaving);
/* Waits for the stream, or for the device if it is NULL, and gives it all back. On failure it is all in the cache
 * again. */
tide_status tide__release(tide__allocator *a, const tide__leaving *leaving, tide_stream *stream);
/* Gives every free piece back. */
tide_status tide__allocator_release_cached(tide__allocator *a);
