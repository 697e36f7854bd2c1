/* allocator_pool.c: the free blocks of a device, and how blocks split and merge.
 *
 * Free blocks of each pool stand in a treap ordered by (key, size, address), where a key is a mempool and a stream;
 * so the best fit is the first block that is not below (key, size): a handful of compares and no allocation for any
 * number of blocks. Blocks of a segment are a chain in order of address; a block that becomes free takes in its free
 * neighbours at once, so two free blocks never touch. The structs come from slabs that live as long as the allocator.
 *
 * Invariant: a block is in the tree of its pool exactly while its state is BLOCK_FREE. */
#include "allocator.h"

/* ---- the tree ---- */

static inline bool same_key(tide__pool_key x, tide__pool_key y) {
  return x.stream == y.stream && x.mempool == y.mempool;
}
static inline bool key_before(tide__pool_key x, tide__pool_key y) {
  return x.stream != y.stream ? x.stream < y.stream : x.mempool < y.mempool;
}

static bool before(const tide_block *x, const tide_block *y) {
  if (!same_key(x->key, y->key)) return key_before(x->key, y->key);
  if (x->size != y->size) return x->size < y->size;
  return x->ptr < y->ptr;
}

/* Splits the tree into what stands before the key and what does not. */
static void split(tide_block *t, const tide_block *key, tide_block **l, tide_block **r) {
  while (t) {
    if (before(t, key)) {
      *l = t, l = &t->right, t = t->right;
    } else {
      *r = t, r = &t->left, t = t->left;
    }
  }
  *l = *r = NULL;
}

void tide__pool_insert(tide__allocator *a, tide_block *b) {
  tide_block **at = &a->pool[b->segment->pool];
  while (*at && (*at)->rank >= b->rank) at = before(b, *at) ? &(*at)->left : &(*at)->right;
  split(*at, b, &b->left, &b->right);
  *at = b;
  b->state = BLOCK_FREE;
}

void tide__pool_remove(tide__allocator *a, tide_block *b) {
  tide_block **at = &a->pool[b->segment->pool];
  while (*at != b) at = before(b, *at) ? &(*at)->left : &(*at)->right;
  tide_block *l = b->left, *r = b->right;
  while (l && r) {
    if (l->rank > r->rank) {
      *at = l, at = &l->right, l = l->right;
    } else {
      *at = r, at = &r->left, r = r->left;
    }
  }
  *at = l ? l : r;
  b->state = BLOCK_USED;
}

/* The first block of the key that does not stand before (size, ptr). */
static inline tide_block *find_from(const tide__allocator *a, int pool, tide__pool_key key, size_t size,
                                    const char *ptr) {
  tide_block *best = NULL, *t = a->pool[pool];
  while (t) {
    bool below =
        same_key(t->key, key) ? t->size < size || (ptr && t->size == size && t->ptr < ptr) : key_before(t->key, key);
    if (below)
      t = t->right;
    else
      best = t, t = t->left;
  }
  return best && same_key(best->key, key) ? best : NULL;
}

tide_block *tide__pool_find(const tide__allocator *a, int pool, tide__pool_key key, size_t size) {
  return find_from(a, pool, key, size, NULL);
}

/* ---- structs ---- */

enum { SLAB_BLOCKS = 64 };

typedef struct slab {
  struct slab *next;
  union {
    tide_block block[SLAB_BLOCKS];
    tide__segment segment[SLAB_BLOCKS];
  } of;
} slab;

static slab *slab_new(tide__allocator *a) {
  slab *s = malloc(sizeof *s);
  if (!s) return NULL;
  s->next = a->slabs;
  a->slabs = s;
  return s;
}

static bool refill(tide__allocator *a) {
  slab *s = slab_new(a);
  for (int i = 0; s && i < SLAB_BLOCKS; i++) tide__block_drop(a, &s->of.block[i]);
  return s != NULL;
}

tide_block *tide__block_new(tide__allocator *a) {
  if (!a->spare && !refill(a)) return NULL;
  tide_block *b = a->spare;
  a->spare = b->right;
  *b = (tide_block){.owner = a};
  a->seed = a->seed * 1664525u + 1013904223u;
  b->rank = a->seed >> 4;
  return b;
}

void tide__block_drop(tide__allocator *a, tide_block *b) {
  b->right = a->spare;
  a->spare = b;
}

static tide__segment *segment_struct(tide__allocator *a) {
  if (!a->spare_segments) {
    slab *s = slab_new(a);
    if (!s) return NULL;
    for (int i = 0; i < SLAB_BLOCKS; i++) {
      s->of.segment[i].next = a->spare_segments;
      a->spare_segments = &s->of.segment[i];
    }
  }
  tide__segment *s = a->spare_segments;
  a->spare_segments = s->next;
  return s;
}

tide_block *tide__segment_new(tide__allocator *a, void *ptr, size_t size, const tide__request *r) {
  tide_block *b = tide__block_new(a);
  if (!b) return NULL;
  tide__segment *s = segment_struct(a);
  if (!s) {
    tide__block_drop(a, b);
    return NULL;
  }
  *s = (tide__segment){.next = a->segments,
                       .head = b,
                       .ptr = ptr,
                       .size = size,
                       .span = size,
                       .mempool = r->mempool,
                       .key = r->key,
                       .pool = r->pool};
  if (r->mempool) atomic_fetch_add_explicit(&r->mempool->life, 1, memory_order_relaxed);
  if (s->next) s->next->prev = s;
  a->segments = s;
  b->segment = s, b->key = r->key;
  b->ptr = ptr, b->size = size;
  b->state = BLOCK_USED;
  return b;
}

void tide__segment_drop(tide__allocator *a, tide__segment *s) {
  tide__mempool_count(s->mempool, -(int64_t)s->size);
  tide__mempool_drop(s->mempool);
  s->next = a->spare_segments;
  a->spare_segments = s;
}

void tide__slabs_free(tide__allocator *a) {
  for (slab *s = a->slabs; s;) {
    slab *next = s->next;
    free(s);
    s = next;
  }
  a->slabs = NULL, a->spare = NULL, a->spare_segments = NULL, a->segments = NULL, a->scratch = NULL;
  memset(a->pool, 0, sizeof a->pool);
}

/* ---- splitting and merging ---- */

void tide__block_split(tide__allocator *a, tide_block *b, size_t size) {
  tide_block *rest = tide__block_new(a);
  if (!rest) return; /* without a struct the block stays whole: it is large enough */
  rest->segment = b->segment, rest->key = b->key, rest->tenant = b->tenant;
  rest->ptr = b->ptr + size, rest->size = b->size - size;
  rest->prev = b, rest->next = b->next;
  if (rest->next) rest->next->prev = rest;
  b->next = rest;
  b->size = size;
  tide__pool_insert(a, rest);
}

void tide__block_join(tide__allocator *a, tide_block *b) {
  tide_block *n = b->next;
  b->size += n->size;
  if (b->tenant != n->tenant) b->tenant = 0;
  b->next = n->next;
  if (b->next) b->next->prev = b;
  tide__block_drop(a, n);
}

/* The struct of this block stays, the other goes: its owner may hold it. */
static void join_before(tide__allocator *a, tide_block *b) {
  tide_block *p = b->prev;
  b->ptr = p->ptr, b->size += p->size;
  if (b->tenant != p->tenant) b->tenant = 0;
  b->prev = p->prev;
  if (b->prev)
    b->prev->next = b;
  else
    b->segment->head = b;
  tide__block_drop(a, p);
}

int tide__block_merge(tide__allocator *a, tide_block *b, size_t *bytes) {
  int count = 0;
  *bytes = 0;
  if (b->prev && b->prev->state == BLOCK_FREE) {
    tide__pool_remove(a, b->prev);
    *bytes += b->prev->size, count++;
    join_before(a, b);
  }
  if (b->next && b->next->state == BLOCK_FREE) {
    tide__pool_remove(a, b->next);
    *bytes += b->next->size, count++;
    tide__block_join(a, b);
  }
  return count;
}

/* ---- segments ---- */

void tide__segment_unhook(tide__allocator *a, tide__segment *s) {
  if (s->prev)
    s->prev->next = s->next;
  else
    a->segments = s->next;
  if (s->next) s->next->prev = s->prev;
}

size_t tide__pool_largest(const tide__allocator *a) {
  size_t largest = 0;
  for (const tide__segment *s = a->segments; s; s = s->next)
    for (const tide_block *b = s->head; b; b = b->next)
      if (b->state == BLOCK_FREE && b->size > largest) largest = b->size;
  return largest;
}

tide_block *tide__pool_foreign(const tide__allocator *a, tide__pool_key key, size_t size) {
  tide_block *best = NULL;
  for (const tide__segment *s = a->segments; s; s = s->next)
    for (tide_block *b = s->key.mempool == key.mempool && !tide__pool_key_captured(s->key) ? s->head : NULL; b;
         b = b->next)
      if (b->state == BLOCK_FREE && b->size >= size && (!best || b->size < best->size)) best = b;
  return best;
}

size_t tide__pool_of_graphs(const tide__allocator *a) {
  size_t bytes = 0;
  for (const tide__segment *s = a->segments; s; s = s->next)
    for (const tide_block *b = tide__pool_key_kept(s->key, s->mempool) ? s->head : NULL; b; b = b->next)
      if (b->state == BLOCK_FREE) bytes += b->size;
  return bytes;
}

/* The number of no stream. */
enum { ORPHAN = 0 };

/* The order of the tree depends on the key, so the blocks are out of it while the key changes. */
static void move_segment(tide__allocator *a, tide__segment *s, tide__pool_key to) {
  tide_block *out = NULL;
  for (tide_block *b = s->head; b; b = b->next) {
    bool in_tree = b->state == BLOCK_FREE;
    if (in_tree) tide__pool_remove(a, b);
    b->key = to;
    if (in_tree) b->left = out, out = b;
  }
  s->key = to;
  while (out) {
    tide_block *b = out;
    out = b->left;
    tide__pool_insert(a, b);
  }
}

static bool idle(const tide__segment *s) {
  for (const tide_block *b = s->head; b; b = b->next)
    if (b->state != BLOCK_FREE && b->state != BLOCK_UNMAPPED) return false; /* LEAVING is another thread's */
  return true;
}

/* Whose segments, once idle, may serve the key: keys of ended streams and, if the key is captured, keys that are
 * not. Returns how many keys there are, the first ones to be preferred. */
enum { DONORS = 3 };
static int donors(tide__pool_key out[DONORS], tide__pool_key key) {
  out[0] = (tide__pool_key){key.mempool, ORPHAN};
  out[1] = (tide__pool_key){~key.mempool, key.stream};
  out[2] = (tide__pool_key){~key.mempool, ORPHAN};
  return tide__pool_key_captured(key) ? DONORS : 1;
}

/* A better fit may lie in a segment that is in use, behind which idle ones must not pile up unseen. */
static tide_block *find_idle(const tide__allocator *a, int pool, tide__pool_key key, size_t size) {
  tide_block *b = tide__pool_find(a, pool, key, size);
  while (b && !idle(b->segment)) b = find_from(a, pool, key, b->size, b->ptr + 1);
  return b;
}

tide_block *tide__pool_adopt(tide__allocator *a, int pool, tide__pool_key key, size_t size) {
  tide__pool_key from[DONORS];
  tide_block *b = NULL;
  for (int i = 0, n = donors(from, key); i < n && !b; i++) b = find_idle(a, pool, from[i], size);
  if (!b) return NULL;
  move_segment(a, b->segment, key);
  tide__pool_remove(a, b);
  return b;
}

static tide__segment *adopt_range(tide__allocator *a, int pool, tide__pool_key from, tide__pool_key key) {
  for (tide__segment *s = a->segments; s; s = s->next) {
    if (s->kind != SEGMENT_RANGE || s->pool != pool || !same_key(s->key, from) || !idle(s)) continue;
    move_segment(a, s, key);
    return s;
  }
  return NULL;
}

tide__segment *tide__segment_adopt(tide__allocator *a, int pool, tide__pool_key key) {
  tide__pool_key from[DONORS];
  tide__segment *s = NULL;
  for (int i = 0, n = donors(from, key); i < n && !s; i++) s = adopt_range(a, pool, from[i], key);
  return s;
}

void tide__allocator_orphan(int device, uint64_t stream) {
  tide__allocator *a = tide__allocator_of(device);
  tide__allocator_lock(a);
  for (tide__segment *s = a->segments; s; s = s->next)
    if (s->key.stream == stream) move_segment(a, s, (tide__pool_key){s->key.mempool, ORPHAN});
  tide__allocator_unlock(a);
}

void tide__block_settle(tide__allocator *a, tide_block *b) {
  int pool = b->segment->pool;
  size_t merged;
  int64_t blocks = -tide__block_merge(a, b, &merged), bytes = -(int64_t)merged;
  if (b->prev || b->next) blocks++, bytes += (int64_t)b->size;
  if (!b->segment->alone) tide__pool_insert(a, b);
  if (b->segment->kind == SEGMENT_RANGE) return;
  tide__stat_move(a->stats.inactive_split, pool, blocks);
  tide__stat_move(a->stats.inactive_split_bytes, pool, bytes);
}

void tide__mempool_recorded_less(tide_mempool *pool) {
  if (atomic_fetch_sub(&pool->recordings, 1) != 1) return;
  for (int d = 0; d < TIDE_MAX_DEVICES; d++) {
    tide__allocator *a = tide__allocator_of(d);
    if (a->source == SOURCE_UNREADY) continue;
    tide__allocator_lock(a); /* a capture that has begun meanwhile keeps them */
    for (tide__segment *s = a->segments; s; s = s->next)
      if (s->mempool == pool && tide__pool_key_captured(s->key) && !tide__pool_key_kept(s->key, pool))
        move_segment(a, s, (tide__pool_key){pool->id, s->key.stream});
    tide__allocator_unlock(a);
  }
}
