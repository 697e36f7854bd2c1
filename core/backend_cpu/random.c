/* random.c: random numbers and permutations. random.h says what every element is; here it is computed in pieces.
 *
 * A piece starts at any element: the groups that cover it are drawn into a buffer, with the elements before the first one
 * dropped. Values come as float32, float64 or int64 and are converted and scattered by layout.c.
 *
 * A permutation is the stable order of 64-bit keys: three passes of a radix sort by the upper 33 bits, then insertion where
 * these are equal, which is rare.
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
  bool wide;        /* elements take 64-bit draws, two of a group */
  int value_dtype;  /* FLOAT32, FLOAT64 or INT64 */
} work;

typedef struct room {
  _Alignas(64) uint32_t bits[4 * GROUPS];
  _Alignas(64) char value[8 * (PIECE + 8)];
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

static uint64_t wide_draw(const uint32_t *bits, int64_t i) { return (uint64_t)bits[2 * i] | (uint64_t)bits[2 * i + 1] << 32; }

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

static const void *draw_bernoulli(const work *w, room *r, const tide__chunk *c, int64_t lead, int64_t n) {
  const tide_random_args *a = w->a;
  float *out = (float *)r->value;
  const uint32_t *bits = r->bits + (w->wide ? 2 * lead : lead);
  const void *p = NULL;
  int dtype = w->wide ? TIDE_FLOAT64 : TIDE_FLOAT32;
  if (a->head.ptr[1])
    p = tide__chunk_load(w->isa, r->chance, r->raw, a->head.ptr[1], &w->grid, c, 1, dtype, a->dtype2);
  float chance = (float)a->a;
  for (int64_t i = 0; i < n; i++)
    if (w->wide)
      out[i] = tide_unit_f64(wide_draw(bits, i)) < (p ? ((const double *)p)[i] : a->a);
    else
      out[i] = tide_unit_f32(bits[i], 24) < (p ? ((const float *)p)[i] : chance);
  return out;
}

#define ONE_BY_ONE(name, T, f, PI)                                                                                     \
  static T name(const tide_random_args *a, T unit, T open) {                                                           \
    switch (a->kind) {                                                                                                 \
    case TIDE_EXPONENTIAL: return -log##f(open) / (T)a->a;                                                             \
    case TIDE_CAUCHY: return (T)a->a + (T)a->b * tan##f(PI * (unit - (T)0.5));                                         \
    default: {                                                                                                         \
      T trials = ceil##f(log##f(open) / log1p##f(-(T)a->a));                                                           \
      return trials >= 1 ? trials : 1;                                                                                 \
    }                                                                                                                  \
    }                                                                                                                  \
  }
ONE_BY_ONE(one_f32, float, f, 3.14159265358979323846f)
ONE_BY_ONE(one_f64, double, , 3.14159265358979323846)

static const void *draw_others(const work *w, room *r, int64_t lead, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (w->wide) {
      uint64_t x = wide_draw(r->bits, lead + i);
      ((double *)r->value)[i] = one_f64(w->a, tide_unit_f64(x), tide_unit_open_f64(x));
    } else {
      uint32_t x = r->bits[lead + i];
      ((float *)r->value)[i] = one_f32(w->a, tide_unit_f32(x, 24), tide_unit_open_f32(x));
    }
  return r->value;
}

static const void *draw_log_normal(const work *w, room *r, int64_t lead, int64_t groups) {
  draw_normal(w, r, lead, groups);
  int64_t n = groups * (w->wide ? 2 : 4), blocks = (n + TIDE_BLOCK - 1) / TIDE_BLOCK;
  const char no_param[48] = {0};
  memset(r->value + n * tide__item(w->value_dtype), 0, (size_t)((blocks * TIDE_BLOCK - n) * tide__item(w->value_dtype)));
  w->isa->op[TIDE_OP_exp][tide__ctype_of(w->value_dtype)](r->value, r->value, NULL, NULL, no_param, blocks);
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
  work w;
  w.a = a, w.isa = tide__isa_get();
  w.wide = a->dtype == TIDE_FLOAT64;
  if (a->kind == TIDE_RANDINT) w.wide = a->range == 0 || a->range > UINT32_MAX;
  if (a->kind == TIDE_BERNOULLI) w.wide = a->head.ptr[1] ? a->dtype2 == TIDE_FLOAT64 : a->dtype == TIDE_FLOAT64;
  w.value_dtype = w.wide ? TIDE_FLOAT64 : TIDE_FLOAT32;
  if (a->kind == TIDE_RANDINT) w.value_dtype = TIDE_INT64;
  if (a->kind == TIDE_BERNOULLI) w.value_dtype = TIDE_FLOAT32;
  int operands = a->kind == TIDE_BERNOULLI && a->head.ptr[1] ? 2 : 1;
  if (a->flat)
    tide__grid_init_flat(&w.grid, a->numel, operands, PIECE);
  else
    tide__grid_init(&w.grid, a->ndim, a->size, a->stride, operands, PIECE, false);
  tide__spread(w.grid.chunks, 4 * w.grid.high * w.grid.wide, run_chunks, &w);
  return TIDE_OK;
}

/* ---- permutations ---- */

typedef struct keyed {
  uint64_t key;
  int64_t value;
} keyed;

typedef struct permutation {
  const tide_randperm_args *a;
  const tide__isa *isa;
  keyed *items;
} permutation;

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, SORTED_FROM = 64 - 3 * DIGIT_BITS };

static void make_keys(void *arg, int64_t begin, int64_t end) {
  const permutation *p = arg;
  uint32_t bits[4 * GROUPS];
  for (int64_t i = begin; i < end;) {
    int64_t n = end - i < PIECE ? end - i : PIECE, lead = i % 2;
    p->isa->philox(bits, p->a->seed, p->a->offset, (uint64_t)(i / 2), (lead + n + 1) / 2);
    for (int64_t j = 0; j < n; j++, i++) p->items[i] = (keyed){wide_draw(bits, lead + j), i + p->a->index_base};
  }
}

static void sort_digit(keyed *to, const keyed *from, int64_t n, int shift) {
  int64_t at[DIGITS] = {0}, sum = 0;
  for (int64_t i = 0; i < n; i++) at[from[i].key >> shift & (DIGITS - 1)]++;
  for (int d = 0; d < DIGITS; d++) {
    int64_t here = at[d];
    at[d] = sum;
    sum += here;
  }
  for (int64_t i = 0; i < n; i++) to[at[from[i].key >> shift & (DIGITS - 1)]++] = from[i];
}

/* Mends the order where the upper bits are equal; in a short list, all of the order. */
static void insert(keyed *items, int64_t n) {
  for (int64_t i = 1; i < n; i++) {
    keyed item = items[i];
    int64_t j = i;
    for (; j > 0 && items[j - 1].key > item.key; j--) items[j] = items[j - 1];
    items[j] = item;
  }
}

tide_status tide__cpu_randperm(tide_stream *stream, const tide_randperm_args *a) {
  (void)stream;
  size_t bytes = (size_t)a->n * sizeof(keyed);
  bool is_short = a->n <= 32;
  keyed *items = malloc(bytes), *other = is_short ? NULL : malloc(bytes);
  if (!items || (!other && !is_short)) {
    free(items), free(other);
    return tide__fail(TIDE_MEMORY, "randperm: no memory for the keys, got a need of %zu bytes", 2 * bytes);
  }
  permutation p = {a, tide__isa_get(), items};
  tide__spread(a->n, 4, make_keys, &p);
  keyed *sorted = items;
  if (!is_short) {
    sort_digit(other, items, a->n, SORTED_FROM);
    sort_digit(items, other, a->n, SORTED_FROM + DIGIT_BITS);
    sort_digit(other, items, a->n, SORTED_FROM + 2 * DIGIT_BITS);
    sorted = other;
  }
  insert(sorted, a->n);
  for (int64_t i = 0; i < a->n; i++) ((int64_t *)a->head.ptr[0])[i] = sorted[i].value;
  free(items), free(other);
  return TIDE_OK;
}
