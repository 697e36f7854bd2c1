/* random.c: random numbers. random.h says what every element is; here it is computed in pieces.
 *
 * A piece starts at any element: the groups that cover it are drawn into a buffer, with the elements before the first
 * one dropped. Values come as float32, float64 or int64 and are converted and scattered by layout.c.
 *
 * Invariant: an element depends on seed, offset and its number alone. */
#include "backend/cpu/loops/layout.h"
#include "base/draws.h"

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
    w->isa->unit_f64((double *)r->value, r->bits + 2 * lead, n, a->a, a->b, a->most);
  else
    w->isa->unit_f32((float *)r->value, r->bits + lead, n, unit_bits(a->dtype), (float)a->a, (float)a->b,
                     (float)a->most);
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

/* x % range, without a division: D. Lemire, O. Kaser and N. Kurz, "Faster remainder by direct computation", Software:
 * Practice and Experience 49, 2019. */
static inline uint32_t remainder_of(uint32_t x, uint32_t range, uint64_t inverse) {
  return (uint32_t)(((unsigned __int128)(inverse * x) * range) >> 64);
}

/* Draws again for the elements whose own draws are above `last`, behind which no whole range is left: where these are
 * many, all elements at once and without a branch, which nothing could foresee. */
static __attribute__((noinline, cold)) void redraw(const work *w, room *r, const uint32_t *bits, int64_t first,
                                                   int64_t n, uint64_t last, bool many) {
  const tide_random_args *a = w->a;
  const tide_philox *groups = (const tide_philox *)(void *)r->raw;
  const int64_t step = w->wide ? 2 : 1;
  const uint64_t upper = w->wide ? UINT64_MAX : UINT32_MAX, lo = (uint64_t)a->lo;
  uint64_t *out = (uint64_t *)(void *)r->value;
  if (!many) {
    for (int64_t i = 0; i < n; i++) {
      if ((w->wide ? wide_draw(bits, i) : bits[i]) <= last) continue;
      out[i] =
          lo + tide_bounded(tide_random_group(a->seed, a->offset, tide_spare_group((uint64_t)(first + i))), a->range);
    }
    return;
  }
  w->isa->philox((uint32_t *)(void *)r->raw, a->seed, a->offset, tide_spare_group((uint64_t)first), n);
  for (int64_t i = 0; i < n; i++, bits += step) {
    const uint64_t x = ((uint64_t)bits[0] | (uint64_t)bits[step - 1] << 32) & upper;
    const uint64_t kept = -(uint64_t)(x <= last);
    out[i] = (out[i] & kept) | ((lo + tide_bounded(groups[i], a->range)) & ~kept);
  }
}

static const void *draw_integers(const work *w, room *r, int64_t first, int64_t lead, int64_t n) {
  const tide_random_args *a = w->a;
  int64_t *out = (int64_t *)r->value;
  uint64_t lo = (uint64_t)a->lo;
  bool above = false;
  if (w->wide) {
    const uint32_t *bits = r->bits + 2 * lead;
    const uint64_t last = a->range ? UINT64_MAX - (0 - a->range) % a->range : UINT64_MAX;
    for (int64_t i = 0; i < n; i++) {
      uint64_t x = wide_draw(bits, i);
      above |= x > last;
      out[i] = (int64_t)(lo + (a->range >> 63 ? x - (x >= a->range ? a->range : 0) : a->range ? x % a->range : x));
    }
    if (above) redraw(w, r, bits, first, n, last, last < UINT64_MAX / 8 * 7);
  } else {
    const uint32_t *bits = r->bits + lead, range = (uint32_t)a->range, last = UINT32_MAX - (0u - range) % range;
    const uint64_t inverse = UINT64_MAX / range + 1;
    if ((range & (range - 1)) == 0)
      for (int64_t i = 0; i < n; i++) out[i] = (int64_t)(lo + (bits[i] & (range - 1)));
    else
      for (int64_t i = 0; i < n; i++)
        above |= bits[i] > last, out[i] = (int64_t)(lo + remainder_of(bits[i], range, inverse));
    if (above) redraw(w, r, bits, first, n, last, last < UINT32_MAX / 8 * 7);
  }
  return out;
}

/* Uniform numbers in [0, 1) as float32 or float64. */
static void draw_units(const work *w, room *r, int64_t lead, int64_t n) {
  if (w->wide)
    w->isa->unit_f64((double *)r->value, r->bits + 2 * lead, n, 0, 1, 1);
  else
    w->isa->unit_f32((float *)r->value, r->bits + lead, n, 24, 0, 1, 1);
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

static const void *draw_poisson(const work *w, room *r, const tide__chunk *c, int64_t n) {
  const tide_random_args *a = w->a;
  double *out = (double *)r->value;
  const double *rate =
      tide__chunk_load(w->isa, r->chance, r->raw, a->head.ptr[1], &w->grid, c, 1, TIDE_FLOAT64, a->dtype2);
  for (int64_t i = 0; i < n; i++) out[i] = tide_poisson_draw(rate[i], a->seed, a->offset, (uint64_t)(c->first + i));
  return out;
}

/* The places that tide_pick_place gives, several at once and without a branch, which nothing could foresee: their loads
 * are waited for together. */
static const void *draw_picks(const work *w, room *r, int64_t first, int64_t lead, int64_t n) {
  enum { TOGETHER = 8 };
  const tide_random_args *a = w->a;
  const double *unit = (const double *)r->value, *sums = a->head.ptr[1];
  int64_t *out = (int64_t *)r->chance, length = (int64_t)a->range, each = (int64_t)a->a;
  draw_units(w, r, lead, n);
  for (int64_t i = 0; i < n; i += TOGETHER) {
    const double *line[TOGETHER];
    double at[TOGETHER];
    int64_t from[TOGETHER] = {0};
    for (int j = 0; j < TOGETHER; j++) {
      const int64_t k = i + j < n ? i + j : n - 1;
      line[j] = sums + (first + k) / each * length, at[j] = tide_pick_sum(unit[k], line[j][length - 1]);
    }
    for (int64_t left = length, half; left > 1; left -= half) {
      half = left / 2;
      for (int j = 0; j < TOGETHER; j++) from[j] += half & -(int64_t) !(line[j][from[j] + half - 1] > at[j]);
    }
    for (int64_t j = 0; j < TOGETHER && i + j < n; j++) out[i + j] = a->lo + from[j];
  }
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
      for (int64_t i = 0; i < n; i++) x[i] = (-x[i] > SPACING / 2 ? -x[i] : SPACING / 2) / a;                          \
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

/* Keeps n values within the limits. */
static void limit(const work *w, const void *value, int64_t n) {
  const tide_random_args *a = w->a;
  const float least = (float)a->least, most = (float)a->most;
  float *narrow = (float *)value;
  double *wide = (double *)value;
  if (w->value_dtype == TIDE_FLOAT64)
    for (int64_t i = 0; i < n; i++) wide[i] = tide_within_f64(wide[i], a->least, a->most);
  else
    for (int64_t i = 0; i < n; i++) narrow[i] = tide_within_f32(narrow[i], least, most);
}

/* The n elements from number `first` on, of chunk c. */
static const void *draw(const work *w, room *r, const tide__chunk *c, int64_t first, int64_t n) {
  const tide_random_args *a = w->a;
  int64_t each = w->wide ? 2 : 4, lead = first % each, groups = (lead + n + each - 1) / each;
  if (a->kind == TIDE_POISSON) return draw_poisson(w, r, c, n);
  w->isa->philox(r->bits, a->seed, a->offset, (uint64_t)(first / each), groups);
  switch (a->kind) {
  case TIDE_UNIFORM: return draw_uniform(w, r, lead, n);
  case TIDE_NORMAL: return draw_normal(w, r, lead, groups);
  case TIDE_LOG_NORMAL: return draw_log_normal(w, r, lead, groups);
  case TIDE_PICK: return draw_picks(w, r, first, lead, n);
  case TIDE_RANDINT: return draw_integers(w, r, first, lead, n);
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
    if (w->a->limited) limit(w, value, c.n);
    tide__chunk_store(w->isa, w->a->head.ptr[0], r.raw, value, &w->grid, &c, 0, w->a->dtype, w->value_dtype, false);
  }
}

tide_status tide__cpu_random(tide_stream *stream, const tide_random_args *a) {
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
  if (a->kind == TIDE_POISSON || a->kind == TIDE_PICK) w.wide = true;
  w.value_dtype = w.wide ? TIDE_FLOAT64 : TIDE_FLOAT32;
  if (a->kind == TIDE_RANDINT || a->kind == TIDE_PICK) w.value_dtype = TIDE_INT64;
  if (a->kind == TIDE_BERNOULLI) w.value_dtype = TIDE_BOOL;
  int operands = (a->kind == TIDE_BERNOULLI || a->kind == TIDE_POISSON) && a->head.ptr[1] ? 2 : 1;
  if (a->flat)
    tide__grid_init_flat(&w.grid, a->numel, operands, PIECE);
  else
    tide__grid_init(&w.grid, a->ndim, a->size, a->stride, operands, PIECE, false);
  tide__spread(w.grid.chunks, 4 * w.grid.high * w.grid.wide, run_chunks, &w);
  return TIDE_OK;
}
