/* allocator.h: the structs of the caching allocator, shared by allocator*.c alone. */
#ifndef TIDE_ALLOCATOR_H
#define TIDE_ALLOCATOR_H

#include "history.h"
#include "tide/memory.h"
#include "graph.h"

typedef struct tide__allocator tide__allocator;

/* A family of segments that serves nothing else. Its users hold it by `refs`; they all together and each of its
 * segments hold the struct by `life`. */
struct tide_mempool {
  _Atomic int64_t refs, life;
  _Atomic int64_t recordings; /* of graphs, which may write any of its memory whenever they are replayed */
  uint64_t id;                /* unique in the process: never reused; 0 is the default pool, which has no struct */
  int device;                 /* TIDE_ALL_DEVICES, or the one that it is for */
  uint32_t epoch;
};
/* Has the last user let it go? NULL is the default pool, which stays. */
static inline bool tide__mempool_dead(const tide_mempool *pool) {
  return pool && atomic_load_explicit(&pool->refs, memory_order_relaxed) == 0;
}
/* Does its memory stay, free or not? */
static inline bool tide__mempool_kept(const tide_mempool *pool) {
  return pool && atomic_load_explicit(&pool->recordings, memory_order_relaxed) > 0;
}
void tide__mempool_drop(tide_mempool *pool); /* one `life` less */

/* Whose free blocks may serve a request: those of one pool and one stream. */
typedef struct tide__lane {
  uint64_t mempool, stream; /* ids */
} tide__lane;

/* What the driver gave in one piece. Its blocks are a chain without gaps. */
typedef struct tide__segment {
  struct tide__segment *prev, *next;
  tide_block *head;
  char *ptr;
  size_t size;
  tide_mempool *mempool; /* NULL: the default one */
  tide__lane lane;       /* as in its blocks */
  int pool;              /* TIDE_POOL_LARGE or TIDE_POOL_SMALL */
} tide__segment;

typedef enum { BLOCK_FREE, BLOCK_USED, BLOCK_PARKED } tide__block_state;

struct tide_block {
  tide_block *left, *right; /* in the tree of the free ones; `right` links spare structs and scratch blocks too */
  tide_block *prev, *next;  /* in the segment */
  tide__segment *segment;
  tide__allocator *owner;
  char *ptr;
  size_t size, requested;
  tide__lane lane;
  uint32_t rank; /* random, for the tree */
  tide__block_state state;
  tide__park park;
  tide__note note; /* who asked for it: set while it is in use */
};

struct tide__allocator {
  pthread_mutex_t lock;
  tide_block *pool[TIDE_POOL_COUNT]; /* roots of the trees; TIDE_POOL_ALL is not used */
  tide__segment *segments, *spare_segments;
  tide_block *spare, *scratch;
  void *slabs; /* what the structs are cut from */
  uint32_t seed;
  _Atomic bool has_dead; /* there may be free segments of pools that nobody holds */
  bool capped;
  double fraction;
  size_t limit; /* bytes that `fraction` allows, if capped */
  tide_memory_stats stats;
  _Atomic size_t allocated, reserved; /* as in stats, to be read without the lock */
};

tide__allocator *tide__allocator_of(int device);
static inline int tide__allocator_device(const tide__allocator *a) { return (int)(a - tide__allocator_of(0)); }

/* ---- allocator_pool.c; all with the lock held ---- */

void tide__pool_insert(tide__allocator *a, tide_block *b);
void tide__pool_remove(tide__allocator *a, tide_block *b);
/* The smallest free block of the lane with at least `size` bytes, the lowest of equals; NULL if there is none. */
tide_block *tide__pool_find(const tide__allocator *a, int pool, tide__lane lane, size_t size);
tide_block *tide__block_new(tide__allocator *a);
void tide__block_drop(tide__allocator *a, tide_block *b);
/* Wraps a piece of the driver's in a segment and one block, not yet in a tree. NULL without host memory. */
tide_block *tide__segment_new(tide__allocator *a, void *ptr, size_t size, tide_mempool *mempool, uint64_t stream,
                              int pool);
void tide__segment_drop(tide__allocator *a, tide__segment *s);
/* A segment of an ended stream, of the same mempool and wholly free, becomes one of the lane's stream: its block, in no
 * tree; NULL if there is none. */
tide_block *tide__pool_adopt(tide__allocator *a, int pool, tide__lane lane, size_t size);
/* The block, not in a tree any more, shrinks to `size`; the rest becomes a free block. */
void tide__block_split(tide__allocator *a, tide_block *b, size_t size);
/* Takes in the free neighbours of a block that is in no tree. Returns how many; *bytes is what they had. */
int tide__block_merge(tide__allocator *a, tide_block *b, size_t *bytes);
/* Unhooks the segments that are wholly free, or those among them whose pool nobody holds; they are linked by `next`.
 * Those of a graph's pool stay: its replays write there, whoever has them. */
tide__segment *tide__segments_detach(tide__allocator *a, bool dead_alone);
size_t tide__pool_largest(const tide__allocator *a);
void tide__slabs_free(tide__allocator *a);

/* ---- allocator_stats.c ---- */

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

/* The error of an allocation that did not fit, with all its figures. */
tide_status tide__allocator_fail(tide__allocator *a, int device, size_t bytes);
/* The lines that hold most, most first; with the lock held. Returns how many. In snapshot.c. */
int tide__allocator_sites(tide_memory_site *out, int most, const tide__allocator *a);
/* Calls fn for each segment of the device, with its blocks from `head` on, under the lock: fn must not call back. */
void tide__allocator_visit(int device, void (*fn)(void *arg, const tide__segment *segment), void *arg);
/* Gives the wholly free segments back, after waiting for the device; in allocator.c. */
tide_status tide__allocator_release_cached(tide__allocator *a, int device);

#endif
