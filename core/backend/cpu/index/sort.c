/* sort.c: lines in order, the first of them or a single one, and searching.
 *
 * An element becomes a key (order.h), and a key an item: alone where nobody asks where elements stood; else with that
 * place behind it, in one number of 64 bits if both fit, or in a pair, so that no two items are equal and every way of
 * ordering them gives the same result. Long lists are put apart by their highest digit, of eight bits, until a near
 * cache holds what shares one; that is sorted by digits from the lowest on, but for those that hardly tell any items
 * apart. Where a part of the order is wanted, only what shares the highest digits with the item in question is looked
 * at further; few of many are found by letting pass what is less than the last of those found before.
 *
 * Many lines are given to the threads; a long line is cut into parts, whose items keep their order, and then into what
 * shares a digit.
 *
 * Invariant: a loop that was ended leaves nothing behind that is used as a place. */

#include "backend/cpu/loops/layout.h"
#include "base/mathematics/order.h"
#include "base/quota.h"
#include "os/os.h"
#include "backend/cpu/scratch.h"

enum { DIGITS = 256, RUN = 4, SHORT_LIST = 256, FEW_ITEMS = 8192, LOOK = 1 << 16, PIECE = 256, GROUP = 64, RARE = 32 };
/* Bytes that a near cache holds, for certain and at most; log2 of the pairs that are as many. */
enum { NEAR = 1 << 18, NEAR_MOST = 1 << 20, PLACE_BITS = 16 };
enum { NARROW_PLACE = 24 }; /* bits of the place behind a key of 8 bytes that needs no more than the others */
enum { MOST_PARTS = 16, PART_ITEMS = 1 << 15, SPARE = 4096, FEW = 8, VERY_FEW = 16 };

typedef struct sorting sorting; /* of a line */

/* One pass over items, or over the elements of a line. at: for each part and digit where its next item goes. */
typedef struct moves {
  sorting *line; /* or NULL */
  const void *from;
  void *to;
  int64_t n, parts;
  int shift;
  int64_t (*at)[DIGITS];
} moves;

/* Items that were put apart by a digit: those of digit i lie from begin[i] on. */
typedef struct digits {
  sorting *l;
  char *items, *room;
  int64_t first, parts, most, begin[DIGITS + 1];
  uint64_t varying;
} digits;

static int bits_of(uint64_t x) { return x ? 64 - __builtin_clzll(x) : 0; }

static int64_t cut(int64_t n, int64_t parts, int64_t part) { return part == parts ? n : n / parts * part; }
static int64_t part_begin(const moves *m, int64_t part) { return cut(m->n, m->parts, part); }

static void spread(int64_t parts, tide_task_fn fn, void *arg) {
  if (parts == 1)
    fn(arg, 0, 1);
  else
    tide__parallel_for(parts, 1, fn, arg);
}

/* Counts become places; false: all items have one digit. begin: where each digit's items begin. */
static bool make_places(moves *m, int64_t begin[DIGITS + 1]) {
  int64_t sum = 0;
  bool many = true;
  for (int d = 0; d < DIGITS; d++) {
    begin[d] = sum;
    for (int64_t part = 0; part < m->parts; part++) {
      int64_t here = m->at[part][d];
      m->at[part][d] = sum;
      sum += here;
    }
    if (sum - begin[d] == m->n) many = false;
  }
  begin[DIGITS] = sum;
  return many;
}

typedef struct pair {
  uint64_t key, at;
} pair;

/* ---- elements and items ---- */

/* What a loop has met among keys: the bits that are set in one of them, and in all. */
typedef struct seen {
  int64_t nans;
  uint64_t any, all;
} seen;

/* low to high: the bits of the key in an item. load: n items of a line from element `from` on. store: n elements of the
 * result. */
struct work;
typedef struct kind {
  int item, low;
  void (*load)(const struct work *w, void *items, const char *line, int64_t from, int64_t n, seen *s);
  void (*store)(const struct work *w, char *values, int64_t *places, const void *items, const char *line, int64_t n);
  void *(*sort)(void *x, void *room, int64_t n, int low, int top);
  void (*order)(sorting *l, void *x, void *room, int64_t n, int64_t first, uint64_t varying, int64_t parts);
  void (*choose)(void *x, void *room, int64_t n, int64_t k, int64_t parts, int high);
  int64_t (*filter)(void *list, int64_t m, const void *items, int64_t n, const void *limit);
  bool (*admit)(void *list, int64_t k, const void *items, int64_t n);
} kind;

typedef struct work {
  const tide_sort_args *a;
  const kind *k;
  const tide__isa *isa;
  tide_order_32 o32;
  tide_order_64 o64;
  int bytes, high; /* of an element; the end of the key in an item */
  uint64_t common; /* of keys that are narrow: the bits above them */
  int64_t near;    /* bytes of items that are put apart no further */
  _Atomic bool failed;
} work;

struct sorting {
  const work *w;
  const char *in;
  char *values, *items, *room; /* items, room: for `wide` of them each */
  int64_t *places, parts, wide, keep;
  seen seen;
  int64_t at[MOST_PARTS][DIGITS]; /* for a pass that threads share */
};

/* Of what threads have seen of a line. */
static pthread_mutex_t seen_lock = PTHREAD_MUTEX_INITIALIZER;

static void join_seen(sorting *l, const seen *s) {
  if (l->parts > 1) pthread_mutex_lock(&seen_lock);
  l->seen.nans += s->nans, l->seen.any |= s->any, l->seen.all &= s->all;
  if (l->parts > 1) pthread_mutex_unlock(&seen_lock);
}

/* The bits in which keys differ, as far as was seen. */
static uint64_t varying_of(const sorting *l) {
  return (l->seen.any ^ l->seen.all) & (UINT64_MAX >> (64 - 8 * l->w->bytes));
}

/* Of a loop that was ended items may be anything. */
static void store_items(const sorting *l, const void *items, int64_t first, int64_t n) {
  if (tide__loop_stops()) return;
  l->w->k->store(l->w, l->values ? l->values + first * l->w->bytes : NULL, l->places ? l->places + first : NULL, items,
                 l->in, n);
}

/* How items that a near cache holds are put in order and stored. */
#define NEAR_OF(T, s)                                                                                                  \
  static void *sort_##s(void *x, void *room, int64_t n, int low, int top);                                             \
  static void near_##s(sorting *l, T *x, T *room, int64_t n, int64_t first, uint64_t varying) {                        \
    const int low = l->w->k->low;                                                                                      \
    store_items(l, sort_##s(x, room, n, low, low + bits_of(varying)), first, n);                                       \
  }
NEAR_OF(uint32_t, 32)
NEAR_OF(uint64_t, 64)
static void near_pair(sorting *l, pair *x, pair *room, int64_t n, int64_t first, uint64_t varying);

#define ITEM            uint32_t
#define NAME(f)         f##_32
#define LESS(x, y)      ((x) < (y))
#define DIGIT(x, shift) ((x) >> (shift)&255)
#include "sort_template.h"
#define ITEM            uint64_t
#define NAME(f)         f##_64
#define LESS(x, y)      ((x) < (y))
#define DIGIT(x, shift) ((x) >> (shift)&255)
#include "sort_template.h"
#define ITEM            pair
#define NAME(f)         f##_pair
#define LESS(x, y)      ((x).key < (y).key || ((x).key == (y).key && (x).at < (y).at))
#define DIGIT(x, shift) (((shift) < 64 ? (x).at >> (shift) : (x).key >> ((shift)-64)) & 255)
#include "sort_template.h"

/* Do the pairs that p and q name stand in the other order? Only where the keys in them do not tell. */
static inline bool stands_before(const pair *x, uint64_t q, uint64_t p) {
  const uint64_t places = ((uint64_t)1 << PLACE_BITS) - 1;
  const pair *a = &x[q & places], *b = &x[p & places];
  return q >> PLACE_BITS == p >> PLACE_BITS && (a->key < b->key || (a->key == b->key && a->at < b->at));
}

/* Pairs are sorted by the highest bits of their keys with the pairs' places among them, and these where that is all the
 * same. */
static bool order_places(uint64_t *p, int64_t n, const pair *x) {
  int64_t moves_left = 2 * n;
  for (int64_t i = 1; i < n && moves_left >= 0; i++) {
    const uint64_t one = p[i];
    int64_t j = i;
    for (; j > 0 && stands_before(x, one, p[j - 1]) && moves_left >= 0; j--, moves_left--) p[j] = p[j - 1];
    p[j] = one;
  }
  return moves_left >= 0;
}

static void near_pair(sorting *l, pair *x, pair *room, int64_t n, int64_t first, uint64_t varying) {
  uint64_t any = 0, all = ~any, *p = (uint64_t *)(void *)room;
  if (n <= SHORT_LIST) {
    store_items(l, merge_pair(x, room, n), first, n);
    return;
  }
  for (int64_t i = 0; i < n; i++) any |= x[i].key, all &= x[i].key;
  varying = any ^ all;
  const int up = varying ? 64 - bits_of(varying) : 0;
  const uint64_t places = ((uint64_t)1 << PLACE_BITS) - 1;
  for (int64_t i = 0; i < n; i++) p[i] = (x[i].key << up & ~places) | (uint64_t)i;
  p = sort_64(p, p + n, n, PLACE_BITS, 64);
  if (tide__loop_stops()) return;
  if (!order_places(p, n, x)) {
    store_items(l, sort_pair(x, room, n, 64, 64 + bits_of(varying)), first, n);
    return;
  }
  for (int64_t i = 0, m; i < n; i += m) {
    pair piece[PIECE];
    m = n - i < PIECE ? n - i : PIECE;
    for (int64_t k = 0; k < m; k++) piece[k] = x[p[i + k] & places];
    store_items(l, piece, first + i, m);
  }
}

/* ---- elements and items ---- */

#define LOAD(K, get, make)                                                                                             \
  for (int64_t i = 0; i < n; i++) {                                                                                    \
    const K k = get;                                                                                                   \
    const uint64_t at = (uint64_t)(from + i);                                                                          \
    (void)at;                                                                                                          \
    any |= k, all &= k;                                                                                                \
    out[i] = make;                                                                                                     \
  }
#define KIND_OF(name, E, bits, T, make, key, place)                                                                    \
  static void load_##name(const work *w, void *items, const char *from_line, int64_t from, int64_t n, seen *s) {       \
    const E *x = (const E *)(const void *)from_line + from;                                                            \
    const tide_order_##bits o = w->o##bits;                                                                            \
    const uint##bits##_t turn = o.sign ^ o.flip;                                                                       \
    T *out = items;                                                                                                    \
    uint##bits##_t any = 0, all = ~any;                                                                                \
    if (sizeof(E) > 1 && o.infinity)                                                                                   \
      LOAD(uint##bits##_t, tide_order_key_##bits(x[i], o), make)                                                       \
    else                                                                                                               \
      LOAD(uint##bits##_t, x[i] ^ turn, make)                                                                          \
    s->any |= any, s->all &= all;                                                                                      \
    if (w->a->median && o.infinity)                                                                                    \
      for (int64_t i = 0; i < n; i++) s->nans += (E)(x[i] & ~o.sign) > o.infinity;                                     \
  }                                                                                                                    \
  static void store_##name(const work *w, char *values, int64_t *places, const void *items, const char *line,          \
                           int64_t n) {                                                                                \
    const E *x = (const E *)(const void *)line;                                                                        \
    const tide_order_##bits o = w->o##bits;                                                                            \
    const T *item = items;                                                                                             \
    E *out = (E *)(void *)values;                                                                                      \
    const uint##bits##_t turn = o.sign ^ o.flip;                                                                       \
    if (values && !o.infinity)                                                                                         \
      for (int64_t i = 0; i < n; i++) out[i] = (E)((uint##bits##_t)(item[i] key) ^ turn);                              \
    for (int64_t i = 0; i < n && values && o.infinity; i++) {                                                          \
      uint##bits##_t k = (uint##bits##_t)(item[i] key);                                                                \
      out[i] = o.joins && tide_order_is_joined_##bits(k, o) ? x[place] : (E)tide_order_bits_##bits(k, o);              \
    }                                                                                                                  \
    for (int64_t i = 0; i < n && places; i++) places[i] = (int64_t)(place) + w->a->index_base;                         \
  }

KIND_OF(key_32, uint32_t, 32, uint32_t, k, , 0)
KIND_OF(key_64, uint64_t, 64, uint64_t, k, , 0)
KIND_OF(packed_8, uint8_t, 32, uint64_t, (uint64_t)k << 32 | at, >> 32, item[i] & UINT32_MAX)
KIND_OF(packed_16, uint16_t, 32, uint64_t, (uint64_t)k << 32 | at, >> 32, item[i] & UINT32_MAX)
KIND_OF(packed_32, uint32_t, 32, uint64_t, (uint64_t)k << 32 | at, >> 32, item[i] & UINT32_MAX)

/* Pairs, of elements of any size: those of 8 bytes, and those of lines that numbers of 32 bits do not count. */
static inline uint64_t bits_at(const char *line, int64_t i, int bytes) {
  const void *at = line + i * bytes;
  return bytes == 8   ? *(const uint64_t *)at
         : bytes == 4 ? *(const uint32_t *)at
         : bytes == 2 ? *(const uint16_t *)at
                      : *(const uint8_t *)at;
}

static void load_pair(const work *w, void *items, const char *line, int64_t from, int64_t n, seen *s) {
  const tide_order_64 o = w->o64;
  const uint64_t *x = (const uint64_t *)(const void *)line + from, turn = o.sign ^ o.flip;
  pair *out = items;
  uint64_t any = 0, all = ~any;
  if (w->bytes == 8 && o.infinity)
    LOAD(uint64_t, tide_order_key_64(x[i], o), ((pair){k, at}))
  else if (w->bytes == 8)
    LOAD(uint64_t, x[i] ^ turn, ((pair){k, at}))
  else
    LOAD(uint64_t, tide_order_key_64(bits_at(line, from + i, w->bytes), o), ((pair){k, at}))
  s->any |= any, s->all &= all;
  for (int64_t i = 0; i < n && w->a->median && o.infinity; i++) s->nans += tide_order_is_nan_64(out[i].key, o);
}

static void store_pair(const work *w, char *values, int64_t *places, const void *items, const char *line, int64_t n) {
  const pair *item = items;
  for (int64_t i = 0; i < n && values; i++) {
    uint64_t bits = tide_order_is_joined_64(item[i].key, w->o64) ? bits_at(line, (int64_t)item[i].at, w->bytes)
                                                                 : tide_order_bits_64(item[i].key, w->o64);
    memcpy(values + i * w->bytes, &bits, (size_t)w->bytes);
  }
  for (int64_t i = 0; i < n && places; i++) places[i] = (int64_t)item[i].at + w->a->index_base;
}

/* Whole numbers of 8 bytes that differ in few bits, with their places in the other ones. */
static void load_narrow(const work *w, void *items, const char *line, int64_t from, int64_t n, seen *s) {
  const uint64_t *x = (const uint64_t *)(const void *)line + from, turn = w->o64.sign ^ w->o64.flip;
  uint64_t *out = items, any = 0, all = ~any;
  LOAD(uint64_t, x[i] ^ turn, k << NARROW_PLACE | at)
  s->any |= any, s->all &= all;
}

static void store_narrow(const work *w, char *values, int64_t *places, const void *items, const char *line, int64_t n) {
  const uint64_t *item = items, turn = w->common ^ w->o64.sign ^ w->o64.flip, mask = ((uint64_t)1 << NARROW_PLACE) - 1;
  uint64_t *out = (uint64_t *)(void *)values;
  for (int64_t i = 0; i < n && out; i++) out[i] = item[i] >> NARROW_PLACE ^ turn;
  for (int64_t i = 0; i < n && places; i++) places[i] = (int64_t)(item[i] & mask) + w->a->index_base;
}

#define KIND(T, low, name, s)                                                                                          \
  { sizeof(T), low, load_##name, store_##name, sort_##s, order_##s, choose_##s, filter_##s, admit_##s }
#define PAIR KIND(pair, 64, pair, pair)
/* By what an item holds and log2 of an element's bytes. Of a few bits the place costs nothing. */
enum { KEYS, PACKED, PAIRS };
#define SHORTER KIND(uint64_t, 32, packed_8, 64), KIND(uint64_t, 32, packed_16, 64)
static const kind kinds[3][4] = {{SHORTER, KIND(uint32_t, 0, key_32, 32), KIND(uint64_t, 0, key_64, 64)},
                                 {SHORTER, KIND(uint64_t, 32, packed_32, 64), PAIR},
                                 {PAIR, PAIR, PAIR, PAIR}};
static const kind narrow = KIND(uint64_t, NARROW_PLACE, narrow, 64);

/* ---- a line ---- */

static void load_parts(void *arg, int64_t begin, int64_t end) {
  sorting *l = arg;
  const work *w = l->w;
  seen s = {0, 0, UINT64_MAX};
  for (int64_t part = begin; part < end; part++) {
    int64_t first = cut(w->a->n, l->parts, part), stop = cut(w->a->n, l->parts, part + 1);
    for (int64_t i = first; i < stop && !tide__loop_stops(); i += LOOK)
      w->k->load(w, l->items + i * w->k->item, l->in, i, stop - i < LOOK ? stop - i : LOOK, &s);
  }
  join_seen(l, &s);
}

/* What bits vary is guessed from a few elements. */
static void look(sorting *l) {
  enum { LOOKS = 8 };
  pair piece[PIECE];
  for (int64_t i = 0; i < LOOKS; i++)
    l->w->k->load(l->w, piece, l->in, cut(l->w->a->n, LOOKS, i), PIECE / LOOKS, &l->seen);
}

/* May none of n elements come before `last`, the last one of a list of those before them? Their best one tells; of
 * equals the later one stands behind. Says no of what holds a NaN, and of the dtypes without such a loop. */
#define BEST_OF(K, T, s)                                                                                               \
  case TIDE_##K: {                                                                                                     \
    T end;                                                                                                             \
    memcpy(&end, last, sizeof end);                                                                                    \
    const T best = (w->a->descending ? isa->max_##s : isa->min_##s)((const T *)x, n);                                  \
    return (w->a->descending ? best < end : best > end) || (best == end && equals);                                    \
  }
static bool none_before(const work *w, const void *x, int64_t n, const void *last) {
  const tide__isa *const isa = w->isa;
  const bool equals = w->a->head.ptr[2] || !w->o64.infinity; /* else -0.0 and 0.0 have an order */
  switch (w->a->dtype) {
    BEST_OF(INT32, int32_t, i32)
    BEST_OF(INT64, int64_t, i64)
    BEST_OF(FLOAT32, float, f32)
    BEST_OF(FLOAT64, double, f64)
  default: return false;
  }
}

/* Each part has its own list, which is left with the part's first few. Its last item is the limit that others have to
 * come before; in a list that is not in order it stays where it is until others take its place. */
static void find_few(void *arg, int64_t begin, int64_t end) {
  const sorting *l = arg;
  const work *w = l->w;
  const int item = w->k->item;
  for (int64_t part = begin; part < end; part++) {
    int64_t first = cut(w->a->n, l->parts, part), stop = cut(w->a->n, l->parts, part + 1), m = 0,
            apart = l->wide / l->parts;
    char *list = l->items + part * apart * item, *room = l->room + part * apart * item, piece[GROUP * sizeof(pair)];
    char *const limit = list + (l->keep - 1) * item, last[8];
    bool full = l->keep <= VERY_FEW, changed = true;
    const bool very_few = full;
    seen s = {0, 0, 0};
    if (very_few) {
      w->k->load(w, list, l->in, first, l->keep, &s);
      void *sorted = w->k->sort(list, room, l->keep, w->k->low, w->high);
      if (sorted != list) memcpy(list, sorted, (size_t)(l->keep * item));
      first += l->keep;
    }
    for (int64_t i = first; i < stop; i += GROUP) {
      if ((i - first) % LOOK == 0 && tide__loop_stops()) return;
      int64_t n = stop - i < GROUP ? stop - i : GROUP;
      const bool rare = full && i - first >= RARE * l->keep; /* till then most groups have one of the few */
      if (rare && changed) w->k->store(w, last, NULL, limit, l->in, 1), changed = false;
      const bool passes = rare && none_before(w, l->in + i * w->bytes, n, last);
      if (!passes) w->k->load(w, full ? piece : list + m * item, l->in, i, n, &s);
      if (very_few) {
        if (!passes) changed |= w->k->admit(list, l->keep, piece, n);
        continue;
      }
      if (!passes) m = full ? w->k->filter(list, m, piece, n, limit) : m + n;
      if (m + GROUP < apart && stop - i > GROUP) continue;
      w->k->choose(list, room, m, l->keep - 1, 1, w->high);
      m = l->keep, full = changed = true;
    }
  }
}

/* Few of many: the first few of each part, and of these. */
static void few_of_many(sorting *l) {
  const work *w = l->w;
  const int item = w->k->item;
  int64_t apart = l->wide / l->parts;
  spread(l->parts, find_few, l);
  for (int64_t part = 1; part < l->parts; part++)
    memcpy(l->items + part * l->keep * item, l->items + part * apart * item, (size_t)(l->keep * item));
  if (l->parts > 1 && !tide__loop_stops()) w->k->choose(l->items, l->room, l->parts * l->keep, l->keep - 1, 1, w->high);
}

static void one_line(sorting *l) {
  const work *w = l->w;
  const tide_sort_args *a = w->a;
  const int item = w->k->item;
  int64_t first = a->first;
  const bool few = l->wide < a->n, whole = !few && a->keep == a->n && a->n * item > NEAR;
  l->seen = (seen){0, 0, UINT64_MAX};
  if (few) {
    few_of_many(l);
    l->seen.any = UINT64_MAX, l->seen.all = 0;
  } else if (whole) {
    look(l);
  } else {
    spread(l->parts, load_parts, l);
    if (tide__loop_stops()) return;
    if (a->median && l->seen.nans) first = a->n - l->seen.nans;
    if (a->keep < a->n) w->k->choose(l->items, l->room, a->n, first + a->keep - 1, l->parts, w->high);
  }
  if (tide__loop_stops()) return;
  /* Elements of a long list that is wanted whole become items where they are put apart. */
  if (a->keep == 1)
    store_items(l, l->items + first * item, 0, 1);
  else
    w->k->order(l, whole ? NULL : l->items, l->room, a->keep, 0, varying_of(l), a->keep < PART_ITEMS ? 1 : l->parts);
}

/* Are the places room for items until they are written? All of them are as many bytes; they may be the line itself. */
static bool shares_room(const work *w) {
  const tide_sort_args *a = w->a;
  const char *in = a->head.ptr[1], *places = a->head.ptr[2];
  return places && a->keep == a->n && w->k->item == (int)sizeof(int64_t) &&
         (in + a->lines * a->n * w->bytes <= places || places + a->lines * a->n * w->k->item <= in);
}

static size_t room_bytes(const sorting *l) { return (size_t)((shares_room(l->w) ? 1 : 2) * l->wide * l->w->k->item); }

/* What parts of a line and how many items a call needs. */
static void plan_line(sorting *l, work *w, int64_t parts) {
  const tide_sort_args *a = w->a;
  bool few = a->first == 0 && !a->median && a->keep <= a->n / FEW;
  int64_t list = 2 * a->keep + (a->keep <= VERY_FEW ? 0 : SPARE);
  if (few && parts > a->n / (2 * list)) parts = a->n / (2 * list);
  if (few && parts < 1) few = false, parts = 1;
  l->w = w, l->parts = parts, l->wide = few ? parts * list : a->n, l->keep = a->keep;
}

static bool open_line(sorting *l, work *w, int64_t parts) {
  plan_line(l, w, parts);
  l->items = tide__room_take(room_bytes(l));
  if (!l->items) w->failed = true;
  l->room = l->items + (shares_room(w) ? 0 : l->wide * w->k->item);
  return l->items != NULL;
}

static void sort_line(sorting *l, int64_t number) {
  const tide_sort_args *a = l->w->a;
  l->in = (const char *)a->head.ptr[1] + number * a->n * l->w->bytes;
  l->values = a->head.ptr[0] ? (char *)a->head.ptr[0] + number * a->keep * l->w->bytes : NULL;
  l->places = a->head.ptr[2] ? (int64_t *)a->head.ptr[2] + number * a->keep : NULL;
  const bool shares = shares_room(l->w);
  if (shares) l->room = (char *)l->places;
  one_line(l);
  if (shares && tide__loop_stops()) memset(l->places, 0, (size_t)a->n * sizeof *l->places);
}

static void run_lines(void *arg, int64_t begin, int64_t end) {
  sorting l;
  if (!open_line(&l, arg, 1)) return;
  for (int64_t i = begin; i < end && !tide__loop_stops(); i++) sort_line(&l, i);
  tide__room_put(l.items);
}

/* Each thread has room for a line. That of the pool's threads counts here, as the quota is bound to this one alone. */
static tide_status run_all_lines(work *w, int64_t threads) {
  sorting l;
  tide_quota *quota = NULL;
  plan_line(&l, w, 1);
  size_t bytes = (size_t)(threads < w->a->lines ? threads - 1 : w->a->lines - 1) * room_bytes(&l);
  if (bytes > ROOM_FREE && tide__quota_any()) TIDE_TRY(tide__quota_charge(&quota, bytes, TIDE_CPU));
  tide__spread(w->a->lines, 8 * w->a->n, run_lines, w);
  if (quota) tide__quota_give(quota, bytes, TIDE_CPU);
  return TIDE_OK;
}

static void run_parts(work *w, int64_t parts) {
  sorting l;
  if (!open_line(&l, w, parts)) return;
  for (int64_t i = 0; i < w->a->lines && !tide__loop_stops(); i++) sort_line(&l, i);
  tide__room_put(l.items);
}

static void scan_parts(void *arg, int64_t begin, int64_t end) {
  sorting *l = arg;
  seen s = {0, 0, UINT64_MAX};
  for (int64_t part = begin; part < end; part++) {
    const uint64_t *x = (const uint64_t *)(const void *)l->in;
    uint64_t any = 0, all = ~any;
    const int64_t stop = cut(l->w->a->n, l->parts, part + 1);
    for (int64_t i = cut(l->w->a->n, l->parts, part); i < stop; i++) any |= x[i], all &= x[i];
    s.any |= any, s.all &= all;
  }
  join_seen(l, &s);
}

/* A long line of whole numbers of 8 bytes: do its places fit into the bits that they share? A few are asked first. */
static void try_narrow(work *w, int64_t parts) {
  const tide_sort_args *a = w->a;
  if (w->k->item < 16 || w->bytes < 8 || w->o64.infinity || a->lines > 1 || a->keep < a->n ||
      (a->n - 1) >> NARROW_PLACE || a->n * w->k->item <= NEAR)
    return;
  sorting l = {.w = w, .in = a->head.ptr[1], .parts = parts, .seen = {0, 0, UINT64_MAX}};
  look(&l);
  if (varying_of(&l) >> (64 - NARROW_PLACE)) return;
  l.seen = (seen){0, 0, UINT64_MAX};
  spread(parts, scan_parts, &l);
  if (varying_of(&l) >> (64 - NARROW_PLACE)) return;
  w->k = &narrow, w->high = 64;
  w->common = (l.seen.all ^ w->o64.sign ^ w->o64.flip) >> (64 - NARROW_PLACE) << (64 - NARROW_PLACE);
}

/* So much that the items and the room beside them are a processor's own cache, NEAR where nobody knows it. */
static int64_t near_bytes(void) {
  static _Atomic int64_t near;
  if (!near) {
    int64_t now = tide__os_cache(2) / 2;
    near = now < NEAR ? NEAR : now > NEAR_MOST ? NEAR_MOST : now;
  }
  return near;
}

tide_status tide__cpu_sort(tide_stream *stream, const tide_sort_args *a) {
  int bytes = tide__item(a->dtype), place = bytes == 8 ? 3 : bytes / 2, joins = a->head.ptr[2] != NULL;
  int holds = a->head.ptr[2] || a->median || bytes < 4 ? a->n <= (int64_t)UINT32_MAX ? PACKED : PAIRS : KEYS;
  work w = {.a = a, .isa = tide__isa_get(), .bytes = bytes, .near = near_bytes()};
  w.k = &kinds[holds][place];
  w.o32 = tide_order_of_32(a->dtype, bytes > 4 ? 4 : bytes, a->descending, joins);
  w.o64 = tide_order_of_64(a->dtype, bytes, a->descending, joins);
  w.high = w.k->low + 8 * bytes;
  int64_t threads = tide_get_num_threads(), parts = a->n / PART_ITEMS;
  parts = parts > threads ? threads : parts > MOST_PARTS ? MOST_PARTS : parts;
  try_narrow(&w, parts > 1 ? parts : 1);
  if (parts > 1 && a->lines < threads)
    run_parts(&w, parts);
  else
    TIDE_TRY(run_all_lines(&w, threads));
  if (w.failed)
    return tide__fail(TIDE_MEMORY, "sort: no memory for the keys of lines of %lld elements", (long long)a->n);
  return TIDE_OK;
}
