/* random.c: random numbers and permutations. random.h says what every element is; here it is computed in pieces.
 *
 * A piece starts at any element: the groups that cover it are drawn into a buffer, with the elements before the first
 * one dropped. Values come as float32, float64 or int64 and are converted and scattered by layout.c.
 *
 * A permutation is the stable order of 64-bit keys: three passes of a radix sort by the upper 32 bits, then insertion
 * where these are equal, which is rare.
 *
 * Invariant: an element depends on seed, offset and its number alone. */
#include "layout.h"
#include "random.h"

#include <math.h>
#include <stdlib.h>

enum { PIECE = 1024, GROUPS = PIECE / 2 + 2 };

typedef struct work {
  const tide_random_args *a;
  const tide__isa *isa;
  tide__grid grid;
  bool wide;       /* elements take 64-bit draws, two of a group */
  int value_dtype; /* FLOAT32, FLOAT64 or INT64 */
} work;

typedef struct room {
  _Alignas(64) uint32_t bits[4 * GROUPS];
  _Alignas(64) char value[8 * (PIECE + 16)];
  _Alignas(64) char raw[16 * PIECE], chance[8 * PIECE];
} room;

/* ---- the kinds; r->bits holds the draws, lead of them to be dropped ---- */

static int unit_bits(int dtype) { return dtype == TIDE_FLOAT16 ? 11 : dtype == TIDE_BFLOAT16 ? 8 : 24; }

static const void *draw_uniform(const work *w, room *r, int64_t lead, int64_t n) {
  const tide_random_args *a = w->a;
  if (w->wide)
    w->isa->unit_f64((double *)r->value, r->bits + 2 * lead, n, a->a, a->b);
  else
    w->isa->unit_f32((float *)r->value, r->bits + lead, n, unit_bits(a->dtype), (float)a->a, (float)a->b);
  return r->value;
}

static const void *draw_normal(const work *w, room *r, int64_t lead, int64_t groups) {
  const tide_random_args *a = w->a;
  if (w->wide)
    w->isa->normal_f64((double *)r->value, r->bits, groups, a->a, a->b);
  else
    w->isa->normal_f32((float *)r->value, r->bits, groups, (float)a->a, (float)a->b);
  return r->value + lead * tide__item(w->value_dtype);
}

static uint64_t wide_draw(const uint32_t *bits, int64_t i) {
  return (uint64_t)bits[2 * i] | (uint64_t)bits[2 * i + 1] << 32;
}

static const void *draw_integers(const work *w, room *r, int64_t lead, int64_t n) {
  const tide_random_args *a = w->a;
  int64_t *out = (int64_t *)r->value;
  uint64_t lo = (uint64_t)a->lo;
  if (w->wide) {
    const uint32_t *bits = r->bits + 2 * lead;
    for (int64_t i = 0; i < n; i++)
      out[i] = (int64_t)(lo + (a->range ? wide_draw(bits, i) % a->range : wide_draw(bits, i)));
  } else {
    const uint32_t *bits = r->bits + lead, range = (uint32_t)a->range;
    if ((range & (range - 1)) == 0)
      for (int64_t i = 0; i < n; i++) out[i] = (int64_t)(lo + (bits[i] & (range - 1)));
    else
      for (int64_t i = 0; i < n; i++) out[i] = (int64_t)(lo + bits[i] % range);
  }
  return out;
}

/* Uniform numbers in [0, 1) as float32 or float64. */
static void draw_units(const work *w, room *r, int64_t lead, int64_t n) {
  if (w->wide)
    w->isa->unit_f64((double *)r->value, r->bits + 2 * lead, n, 0, 1);
  else
    w->isa->unit_f32((float *)r->value, r->bits + lead, n, 24, 0, 1);
}

static const void *draw_bernoulli(const work *w, room *r, const tide__chunk *c, int64_t lead, int64_t n) {
  const tide_random_args *a = w->a;
  int dtype = w->wide ? TIDE_FLOAT64 : TIDE_FLOAT32;
  uint8_t *out = (uint8_t *)r->bits; /* the draws are units by then */
  const double *wide = (const double *)r->value;
  const float *narrow = (const float *)r->value, chance = (float)a->a;
  draw_units(w, r, lead, n);
  if (!a->head.ptr[1]) {
    if (w->wide)
      for (int64_t i = 0; i < n; i++) out[i] = wide[i] < a->a;
    else
      for (int64_t i = 0; i < n; i++) out[i] = narrow[i] < chance;
    return out;
  }
  const void *p = tide__chunk_load(w->isa, r->chance, r->raw, a->head.ptr[1], &w->grid, c, 1, dtype, a->dtype2);
  if (w->wide)
    for (int64_t i = 0; i < n; i++) out[i] = wide[i] < ((const double *)p)[i];
  else
    for (int64_t i = 0; i < n; i++) out[i] = narrow[i] < ((const float *)p)[i];
  return out;
}

/* x = op(x) in the type of the values, whose number is rounded up to whole blocks. */
static void apply(const work *w, room *r, int op, int64_t n) {
  const char no_param[48] = {0};
  int64_t blocks = (n + TIDE_BLOCK - 1) / TIDE_BLOCK, item = tide__item(w->value_dtype);
  memset(r->value + n * item, 0, (size_t)((blocks * TIDE_BLOCK - n) * item));
  w->isa->op[op][tide__ctype_of(w->value_dtype)](r->value, r->value, NULL, NULL, no_param, blocks);
}

/* The kinds that are a function of a unit: adding the spacing of units moves [0, 1) to (0, 1], exactly. */
#define OTHERS(name, T, f, SPACING, PI)                                                                                \
  static void name(const work *w, room *r, int64_t n) {                                                                \
    T *x = (T *)r->value, a = (T)w->a->a, b = (T)w->a->b, scale = log1p##f(-a);                                        \
    bool cauchy = w->a->kind == TIDE_CAUCHY;                                                                           \
    for (int64_t i = 0; i < n; i++) x[i] = cauchy ? PI * (x[i] - (T)0.5) : x[i] + SPACING;                             \
    apply(w, r, cauchy ? TIDE_OP_tan : TIDE_OP_log, n);                                                                \
    if (cauchy)                                                                                                        \
      for (int64_t i = 0; i < n; i++) x[i] = a + b * x[i];                                                             \
    else if (w->a->kind == TIDE_EXPONENTIAL)                                                                           \
      for (int64_t i = 0; i < n; i++) x[i] = -x[i] / a;                                                                \
    else                                                                                                               \
      for (int64_t i = 0; i < n; i++) x[i] = x[i] / scale > 1 ? ceil##f(x[i] / scale) : 1;                             \
  }
OTHERS(others_f32, float, f, 0x1p-24f, 3.14159265358979323846f)
OTHERS(others_f64, double, , 0x1p-53, 3.14159265358979323846)

static const void *draw_others(const work *w, room *r, int64_t lead, int64_t n) {
  draw_units(w, r, lead, n);
  (w->wide ? others_f64 : others_f32)(w, r, n);
  return r->value;
}

static const void *draw_log_normal(const work *w, room *r, int64_t lead, int64_t groups) {
  draw_normal(w, r, lead, groups);
  apply(w, r, TIDE_OP_exp, groups * (w->wide ? 2 : 4));
  return r->value + lead * tide__item(w->value_dtype);
}

/* The n elements from number `first` on, of chunk c. */
static const void *draw(const work *w, room *r, const tide__chunk *c, int64_t first, int64_t n) {
  const tide_random_args *a = w->a;
  int64_t each = w->wide ? 2 : 4, lead = first % each, groups = (lead + n + each - 1) / each;
  w->isa->philox(r->bits, a->seed, a->offset, (uint64_t)(first / each), groups);
  switch (a->kind) {
  case TIDE_UNIFORM: return draw_uniform(w, r, lead, n);
  case TIDE_NORMAL: return draw_normal(w, r, lead, groups);
  case TIDE_LOG_NORMAL: return draw_log_normal(w, r, lead, groups);
  case TIDE_RANDINT: return draw_integers(w, r, lead, n);
  case TIDE_BERNOULLI: return draw_bernoulli(w, r, c, lead, n);
  default: return draw_others(w, r, lead, n);
  }
}

static void run_chunks(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  room r;
  tide__chunk c;
  for (int64_t i = begin; i < end; i++) {
    tide__grid_chunk(&c, &w->grid, i);
    const void *value = draw(w, &r, &c, c.first, c.n);
    tide__chunk_store(w->isa, w->a->head.ptr[0], r.raw, value, &w->grid, &c, 0, w->a->dtype, w->value_dtype, false);
  }
}

tide_status tide__cpu_random(tide_stream *stream, const tide_random_args *a) {
  (void)stream;
  tide_random_args placed;
  if (a->state) {
    placed = *a;
    placed.seed = a->state[0], placed.offset += a->state[1];
    a = &placed;
  }
  work w;
  w.a = a, w.isa = tide__isa_get();
  w.wide = a->dtype == TIDE_FLOAT64;
  if (a->kind == TIDE_RANDINT) w.wide = a->range == 0 || a->range > UINT32_MAX;
  if (a->kind == TIDE_BERNOULLI) w.wide = a->head.ptr[1] ? a->dtype2 == TIDE_FLOAT64 : a->dtype == TIDE_FLOAT64;
  w.value_dtype = w.wide ? TIDE_FLOAT64 : TIDE_FLOAT32;
  if (a->kind == TIDE_RANDINT) w.value_dtype = TIDE_INT64;
  if (a->kind == TIDE_BERNOULLI) w.value_dtype = TIDE_BOOL;
  int operands = a->kind == TIDE_BERNOULLI && a->head.ptr[1] ? 2 : 1;
  if (a->flat)
    tide__grid_init_flat(&w.grid, a->numel, operands, PIECE);
  else
    tide__grid_init(&w.grid, a->ndim, a->size, a->stride, operands, PIECE, false);
  tide__spread(w.grid.chunks, 4 * w.grid.high * w.grid.wide, run_chunks, &w);
  return TIDE_OK;
}

/* ---- permutations ---- */

/* An item is the upper half of a key and the number of its element. */
typedef struct permutation {
  const tide_randperm_args *a;
  const tide__isa *isa;
  uint64_t *items, *other; /* sorted from items to other */
  int64_t (*at)[1 << 11];  /* for each part of the list and each digit: where its next item goes */
  int64_t parts;
  int shift;
} permutation;

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, SHORT_LIST = 32, PARTS = 8, PART_ITEMS = 1 << 16 };

static void make_items(void *arg, int64_t begin, int64_t end) {
  const permutation *p = arg;
  uint32_t bits[4 * GROUPS];
  for (int64_t i = begin; i < end;) {
    int64_t n = end - i < PIECE ? end - i : PIECE, lead = i % 2;
    p->isa->philox(bits, p->a->seed, p->a->offset, (uint64_t)(i / 2), (lead + n + 1) / 2);
    for (int64_t j = 0; j < n; j++, i++) p->items[i] = (uint64_t)bits[2 * (lead + j) + 1] << 32 | (uint64_t)i;
  }
}

static int64_t part_begin(const permutation *p, int64_t part) { return p->a->n / p->parts * part; }
static int64_t part_end(const permutation *p, int64_t part) {
  return part + 1 == p->parts ? p->a->n : part_begin(p, part + 1);
}

static void count_digits(void *arg, int64_t begin, int64_t end) {
  const permutation *p = arg;
  for (int64_t part = begin; part < end; part++) {
    memset(p->at[part], 0, sizeof p->at[part]);
    for (int64_t i = part_begin(p, part), stop = part_end(p, part); i < stop; i++)
      p->at[part][p->items[i] >> p->shift & (DIGITS - 1)]++;
  }
}

static void move_items(void *arg, int64_t begin, int64_t end) {
  const permutation *p = arg;
  for (int64_t part = begin; part < end; part++)
    for (int64_t i = part_begin(p, part), stop = part_end(p, part); i < stop; i++)
      p->other[p->at[part][p->items[i] >> p->shift & (DIGITS - 1)]++] = p->items[i];
}

/* One stable pass; the sorted list is items again. */
static void sort_digit(permutation *p, int shift) {
  p->shift = shift;
  tide__spread(p->parts, PART_ITEMS, count_digits, p);
  int64_t sum = 0;
  for (int d = 0; d < DIGITS; d++)
    for (int64_t part = 0; part < p->parts; part++) {
      int64_t here = p->at[part][d];
      p->at[part][d] = sum;
      sum += here;
    }
  tide__spread(p->parts, PART_ITEMS, move_items, p);
  uint64_t *sorted = p->other;
  p->other = p->items, p->items = sorted;
}

static bool comes_after(const permutation *p, uint64_t x, uint64_t y) {
  if (x >> 32 != y >> 32) return x > y;
  return tide_random_key(p->a->seed, p->a->offset, (uint32_t)x) >
         tide_random_key(p->a->seed, p->a->offset, (uint32_t)y);
}

/* Mends the order where upper halves are equal; in a short list, all of the order. */
static void insert(const permutation *p) {
  for (int64_t i = 1; i < p->a->n; i++) {
    uint64_t item = p->items[i];
    int64_t j = i;
    for (; j > 0 && comes_after(p, p->items[j - 1], item); j--) p->items[j] = p->items[j - 1];
    p->items[j] = item;
  }
}

tide_status tide__cpu_randperm(tide_stream *stream, const tide_randperm_args *a) {
  (void)stream;
  tide_randperm_args placed;
  if (a->state) {
    placed = *a;
    placed.seed = a->state[0], placed.offset += a->state[1];
    a = &placed;
  }
  if (a->n > (int64_t)UINT32_MAX)
    return tide__fail(TIDE_SUPPORT, "randperm: too many elements, got %lld, expected at most %lld", (long long)a->n,
                      (long long)UINT32_MAX);
  permutation p = {.a = a, .isa = tide__isa_get(), .parts = a->n < PARTS * PART_ITEMS ? 1 : PARTS};
  bool is_short = a->n <= SHORT_LIST;
  size_t list = (size_t)a->n * sizeof *p.items, counts = is_short ? 0 : (size_t)p.parts * sizeof *p.at;
  uint64_t *lists = malloc((is_short ? 1 : 2) * list + counts);
  if (!lists)
    return tide__fail(TIDE_MEMORY, "randperm: no memory for the keys, got a need of %zu bytes", 2 * list + counts);
  p.items = lists, p.other = lists + a->n, p.at = (int64_t(*)[DIGITS])(void *)(lists + 2 * a->n);
  tide__spread(a->n, 4, make_items, &p);
  for (int shift = 32; shift < 64 && !is_short; shift += DIGIT_BITS) sort_digit(&p, shift);
  insert(&p);
  for (int64_t i = 0; i < a->n; i++) ((int64_t *)a->head.ptr[0])[i] = (int64_t)(uint32_t)p.items[i] + a->index_base;
  free(lists);
  return TIDE_OK;
}
