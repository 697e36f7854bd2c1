/* permute.c: permutations, which are the stable order of 64-bit keys (random.h).
 *
 * An item is the upper half of a key and the number of its element. Keys are spread evenly, so that their upper bits
 * say very nearly where an item goes: one pass moves all items to buckets that the caches hold, and in a bucket a
 * second one moves them to cells of about one item. What is still in disorder then lies side by side.
 *
 * Invariant: the order is that of the whole keys, whatever the threads and the buckets. */
#include "layout.h"
#include "base/random.h"
#include "backend/cpu/scratch.h"

/* Items of a bucket on average, and the most of a list that is one; lists are counted and moved in PARTS at most. */
enum { BUCKET = 2048, PARTS = 32, PART_ITEMS = 1 << 13, SHORT_LIST = 32, GROUPS = 512, MOST_CELLS = 1 << 13 };
/* Items that are moved between two looks at the interrupt; while pages of so many items are fresh, each of which takes
 * up to a millisecond, for so many items for each page. */
enum { MOST_LOOK = 1 << 12, FRESH_LOOK = 2, FRESH_LOOKS = 8, PAGE_ITEMS = (2 << 20) / 8 };

typedef struct permutation {
  const tide_randperm_args *a;
  const tide__isa *isa;
  uint64_t *items, *buckets; /* the result, where items are made too unless there is one bucket; NULL in a short list */
  uint32_t *at;              /* for each part of the list and each bucket: where its next item goes */
  int64_t parts, count;      /* parts and buckets */
  int bits, cell_bits;       /* of a key: the upper ones number the bucket, the next ones the cell */
} permutation;

static int64_t part_begin(const permutation *p, int64_t part) {
  return part == p->parts ? p->a->n : p->a->n / p->parts / 2 * 2 * part;
}

/* How far an item or a key is shifted to be the number of its bucket; there are several. */
static inline int bucket_shift(const permutation *p) { return 64 - p->bits; }

static void make_items(void *arg, int64_t begin, int64_t end) {
  const permutation *p = arg;
  uint64_t key[2 * GROUPS];
  for (int64_t part = begin; part < end; part++) {
    uint32_t *restrict at = p->at + part * p->count;
    const int shift = bucket_shift(p);
    memset(at, 0, (size_t)p->count * sizeof *at);
    int64_t stop = part_begin(p, part + 1);
    for (int64_t i = part_begin(p, part); i < stop && !tide__loop_stops(); i += 2 * GROUPS) {
      int64_t n = stop - i < 2 * GROUPS ? stop - i : 2 * GROUPS;
      p->isa->philox((uint32_t *)key, p->a->seed, p->a->offset, (uint64_t)(i / 2), (n + 1) / 2);
      uint64_t *items = (p->count > 1 || !p->buckets ? p->items : p->buckets) + i;
      for (int64_t j = 0; j < n; j++) items[j] = key[j] >> 32 << 32 | (uint64_t)(i + j);
      if (p->count > 1)
        for (int64_t j = 0; j < n; j++) at[key[j] >> shift]++;
    }
  }
}

static void move_items(void *arg, int64_t begin, int64_t end) {
  const permutation *p = arg;
  const uint64_t *restrict items = p->items;
  uint64_t *restrict buckets = p->buckets;
  const int shift = bucket_shift(p);
  for (int64_t part = begin; part < end; part++) {
    uint32_t *restrict at = p->at + part * p->count;
    int64_t i = part_begin(p, part), stop = part_begin(p, part + 1);
    /* A part of a long list takes long, and the first items of it longest: each touches a fresh page, until all that
     * there are have been touched. */
    const int64_t fresh = i + FRESH_LOOKS * (p->a->n / PAGE_ITEMS);
    while (i < stop && !tide__loop_stops()) {
      int64_t look = i < fresh ? FRESH_LOOK : MOST_LOOK, to = stop - i < look ? stop : i + look;
      for (; i < to; i++) buckets[at[items[i] >> shift]++] = items[i];
    }
  }
}

/* Counts become the places of the first items. */
static void place_buckets(const permutation *p) {
  uint32_t sum = 0;
  for (int64_t b = 0; b < p->count; b++)
    for (int64_t part = 0; part < p->parts; part++) {
      uint32_t *at = p->at + part * p->count + b, here = *at;
      *at = sum;
      sum += here;
    }
}

static bool comes_after(const permutation *p, uint64_t x, uint64_t y) {
  if (x >> 32 != y >> 32) return x > y;
  return tide_random_key(p->a->seed, p->a->offset, (uint32_t)x) >
         tide_random_key(p->a->seed, p->a->offset, (uint32_t)y);
}

/* Sorts n items. Those that are in disorder are close to where they belong, so that a pass without a branch, which
 * swaps neighbours, leaves little to the insertion behind it. */
static void settle(const permutation *p, uint64_t *items, int64_t n) {
  uint64_t last = items[0];
  for (int64_t i = 1; i < n; i++) {
    uint64_t item = items[i];
    items[i - 1] = last < item ? last : item;
    last = last < item ? item : last;
  }
  items[n - 1] = last;
  for (int64_t i = 1; i < n; i++) {
    uint64_t item = items[i];
    int64_t j = i;
    if (TIDE_LIKELY(items[i - 1] >> 32 < item >> 32)) continue;
    for (; j > 0 && comes_after(p, items[j - 1], item); j--) items[j] = items[j - 1];
    items[j] = item;
  }
}

/* The items of a bucket go to the cells of the result, each cell's in their order. */
static void fill_cells(const permutation *p, uint64_t *out, const uint64_t *in, int64_t n) {
  uint32_t at[MOST_CELLS], sum = 0;
  const int shift = 64 - p->bits - p->cell_bits;
  const uint64_t mask = ((uint64_t)1 << p->cell_bits) - 1;
  memset(at, 0, sizeof *at << p->cell_bits);
  for (int64_t i = 0; i < n; i++) at[in[i] >> shift & mask]++;
  for (uint64_t c = 0; c <= mask; c++) {
    uint32_t here = at[c];
    at[c] = sum;
    sum += here;
  }
  for (int64_t i = 0; i < n; i++) out[at[in[i] >> shift & mask]++] = in[i];
}

/* Where the items of bucket b begin, after they have been moved. */
static int64_t bucket_begin(const permutation *p, int64_t b) {
  return b == 0 ? 0 : p->at[(p->parts - 1) * p->count + b - 1];
}

static void sort_buckets(void *arg, int64_t begin, int64_t end) {
  const permutation *p = arg;
  const int64_t base = p->a->index_base;
  for (int64_t b = begin; b < end; b++) {
    int64_t first = bucket_begin(p, b), n = (b + 1 == p->count ? p->a->n : bucket_begin(p, b + 1)) - first;
    uint64_t *items = p->items + first;
    if (n == 0) continue;
    if (p->buckets) fill_cells(p, items, p->buckets + first, n);
    settle(p, items, n);
    for (int64_t i = 0; i < n; i++) items[i] = (uint64_t)((int64_t)(items[i] & UINT32_MAX) + base);
  }
}

static int log2_of(int64_t n) {
  int bits = 0;
  while ((int64_t)1 << bits < n) bits++;
  return bits;
}

static void sort(permutation *p) {
  tide__spread(p->parts, 4 * p->a->n / p->parts, make_items, p);
  if (tide__loop_stops()) return;
  if (p->count > 1) {
    place_buckets(p);
    tide__spread(p->parts, 4 * p->a->n / p->parts, move_items, p);
  }
  if (tide__loop_stops()) return;
  tide__spread(p->count, 4 * p->a->n / p->count, sort_buckets, p);
}

tide_status tide__cpu_randperm(tide_stream *stream, const tide_randperm_args *a) {
  tide_randperm_args placed;
  if (a->state) {
    placed = *a;
    placed.seed = a->state[0], placed.offset += a->state[1];
    a = &placed;
  }
  if (a->n > (int64_t)UINT32_MAX)
    return tide__fail(TIDE_SUPPORT, "randperm: too many elements, got %lld, expected at most %lld", (long long)a->n,
                      (long long)UINT32_MAX);
  permutation p = {.a = a, .isa = tide__isa_get(), .items = a->head.ptr[0], .parts = 1, .count = 1};
  if (a->n <= SHORT_LIST) {
    uint32_t one;
    p.at = &one;
    sort(&p);
    return TIDE_OK;
  }
  p.bits = a->n > 2 * BUCKET ? log2_of(a->n / BUCKET) : 0, p.count = (int64_t)1 << p.bits;
  p.cell_bits = log2_of(a->n / p.count);
  if (p.cell_bits > 32 - p.bits) p.cell_bits = 32 - p.bits;
  p.parts = a->n < 2 * PART_ITEMS ? 1 : a->n / PART_ITEMS < PARTS ? a->n / PART_ITEMS : PARTS;
  size_t list = (size_t)a->n * sizeof *p.items, counts = (size_t)(p.parts * p.count) * sizeof *p.at;
  p.buckets = tide__room_take(list + counts);
  if (!p.buckets)
    return tide__fail(TIDE_MEMORY, "randperm: no memory for the keys, got a need of %zu bytes", list + counts);
  p.at = (uint32_t *)(void *)(p.buckets + a->n);
  sort(&p);
  tide__room_put(p.buckets);
  return TIDE_OK;
}
