/* buckets.c: places and values put apart by where they go.
 *
 * A bucket of a part is a list of blocks of entries, each a place, of 32 bits, and the value behind it. Blocks are
 * handed out as they are needed, so that nothing is counted beforehand. They are an odd number of cache lines long, or
 * those that are filled at a time would lie in the same few sets of the caches.
 *
 * Invariant: a part is written by one thread; lists are read when all parts are filled. */

#include "buckets.h"
#include "backend/cpu/scratch.h"

/* HEAD: bytes of a block before its entries, where the next block is named. STRETCH: bytes that a bucket is for, unless
 * that makes more than MOST of them, or fewer than LEAST, which threads could not share. */
enum { BLOCK = TIDE_BUCKET_BLOCK, HEAD = 16, LINE = 64, STRETCH = 1 << 19, LEAST = 16, MOST = 512 };

typedef struct pile { /* a bucket of a part: where its next entry goes, and where its last block ends */
  char *next, *end;
} pile;

struct tide__buckets {
  int64_t parts, count, block_bytes;
  int shift, item, entry; /* a bucket has 2^shift places; bytes of a value and of an entry */
  pile *piles;            /* [parts][count] */
  char **first, **unused; /* the first block of each pile, or NULL; each part's next block */
};

static int64_t up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

tide__buckets *tide__buckets_open(int64_t parts, int64_t most, int64_t span, int bytes, int item) {
  int shift = 0, entry = 4 + item;
  while ((int64_t)bytes << shift < STRETCH || (span - 1) >> shift >= MOST) shift++;
  while (shift > 0 && (span - 1) >> shift < LEAST) shift--;
  int64_t count = ((span - 1) >> shift) + 1, each = (up(HEAD + BLOCK * entry, LINE) / LINE | 1) * LINE,
          blocks = most / BLOCK + count + 1, piles = parts * count,
          head = up((int64_t)sizeof(tide__buckets) + piles * (int64_t)(sizeof(pile) + 8) + parts * 8, LINE);
  char *memory = tide__room_take((size_t)(head + parts * blocks * each));
  if (!memory) return NULL;
  tide__buckets *b = (tide__buckets *)(void *)memory;
  *b = (tide__buckets){.parts = parts, .count = count, .block_bytes = each, .shift = shift, .item = item};
  b->entry = entry, b->piles = (pile *)(void *)(b + 1);
  b->first = (char **)(void *)(b->piles + piles), b->unused = b->first + piles;
  for (int64_t i = 0; i < piles; i++) b->piles[i] = (pile){NULL, NULL}, b->first[i] = NULL;
  for (int64_t p = 0; p < parts; p++) b->unused[p] = memory + head + p * blocks * each;
  return b;
}

void tide__buckets_close(tide__buckets *b) { tide__room_put(b); }
int64_t tide__buckets_count(const tide__buckets *b) { return b->count; }

static char **link_of(char *block) { return (char **)(void *)block; }

__attribute__((noinline)) static char *start_block(tide__buckets *b, int64_t part, pile *p) {
  char *block = b->unused[part];
  b->unused[part] += b->block_bytes;
  *link_of(block) = NULL;
  if (p->end)
    *link_of(p->end - BLOCK * b->entry - HEAD) = block;
  else
    b->first[p - b->piles] = block;
  p->end = block + HEAD + BLOCK * b->entry;
  return block + HEAD;
}

#define ADD(bytes, write)                                                                                              \
  for (int64_t i = 0; i < n; i++) {                                                                                    \
    uint64_t at = (uint64_t)(place[i] - base);                                                                         \
    if (at > last) return i;                                                                                           \
    at += (uint64_t)shift;                                                                                             \
    pile *p = piles + (at >> bits);                                                                                    \
    char *to = p->next;                                                                                                \
    if (to == p->end) to = start_block(b, part, p);                                                                    \
    p->next = to + (bytes);                                                                                            \
    write;                                                                                                             \
  }                                                                                                                    \
  break
/* 4 bytes go with the place in one write. */
#define SHORT(T) *(uint64_t *)(void *)to = at | (uint64_t)((const T *)(const void *)values)[i * step] << 32
#define LONG(T)                                                                                                        \
  *(uint32_t *)(void *)to = (uint32_t)at;                                                                              \
  memcpy(to + 4, (const T *)(const void *)values + i * step, sizeof(T))

int64_t tide__buckets_add(tide__buckets *b, int64_t part, const int64_t *place, int64_t base, uint64_t last,
                          int64_t shift, const char *values, int64_t step, int64_t n) {
  pile *piles = b->piles + part * b->count;
  const int bits = b->shift;
  switch (b->item) {
  case 0: ADD(4, *(uint32_t *)(void *)to = (uint32_t)at);
  case 4: ADD(8, SHORT(uint32_t));
  default: ADD(12, LONG(uint64_t));
  }
  return n;
}

#define TAKE(T, entry)                                                                                                 \
  for (int64_t i = 0; i < n; i++, from += (entry)) {                                                                   \
    place[i] = *(const uint32_t *)(const void *)from;                                                                  \
    memcpy((T *)values + i, from + 4, sizeof(T));                                                                      \
  }                                                                                                                    \
  break

int64_t tide__buckets_next(const tide__buckets *b, int64_t bucket, tide__bucket_walk *walk, int64_t *place,
                           void *values) {
  const char *block = walk->block;
  for (; !block && walk->part < b->parts; walk->part++) block = b->first[walk->part * b->count + bucket];
  if (!block) return 0;
  const pile *p = &b->piles[(walk->part - 1) * b->count + bucket];
  const char *from = block + HEAD;
  int64_t n = p->end == from + BLOCK * b->entry ? (p->next - from) / b->entry : BLOCK;
  walk->block = *(char *const *)(const void *)block;
  switch (b->item) {
  case 0:
    for (int64_t i = 0; i < n; i++) place[i] = ((const uint32_t *)(const void *)from)[i];
    break;
  case 4: TAKE(uint32_t, 8);
  default: TAKE(uint64_t, 12);
  }
  return n;
}
