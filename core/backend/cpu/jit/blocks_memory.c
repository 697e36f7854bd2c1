/* blocks_memory.c: what the block interpreter reads and writes.
 *
 * Where every index goes up by the same step from lane to lane, the elements lie on a line: the indexes of the first
 * and the last lane that take part tell whether all lie inside, and the elements are copied or converted together. So
 * they are read where only these two lanes are elsewhere, at an edge of the grid. Else each lane has an offset, and a
 * byte that says whether it lies outside. What lies outside is reported, once, read as 0 and not written. Elements go
 * through a buffer of their dtype, so that every pair of dtypes is one of the loops that the CPU has for conversions
 * anyway.
 *
 * Invariant: lanes that do not take part touch no memory but their registers. */
#include "blocks.h"

#define RARE __attribute__((cold)) /* made small: what a block does once, or at an edge, or never */

static void *pointer_of(int64_t slot) { return (void *)(intptr_t)slot; }

/* The first one of all stays, as tide_mail says. */
RARE void tide__blocks_report(const tide__block_run *r, int32_t site, int64_t value, int64_t length, int base) {
  uint32_t *taken = pointer_of(r->slots[3]), none = 0;
  tide_mail *m = pointer_of(r->slots[4]);
  if (!__atomic_compare_exchange_n(taken, &none, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return;
  m->site = site ? (uint32_t)r->slots[6 + site] : 0, m->base = base, m->value = value, m->length = length;
  __atomic_store_n(&m->full, 1, __ATOMIC_RELEASE);
}

/* ---- where elements are ---- */

/* Either a line, which indexes of lanes may also be, from `first` to `last`, or offsets of all lanes and which of them
 * are to be touched. */
typedef struct reach {
  const tide__view *view;
  bool line;
  char *at; /* of a line: of lane 0, if that had an element; else of the array */
  int64_t step;
  int first, last;
  const uint8_t *on;
  bool all; /* every lane is on */
} reach;

enum { SMALL = 1 << 20 };
static const int64_t LARGE = (int64_t)1 << 40;

static int64_t add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

static int64_t first_index(const tide__block_run *r, const tide__access *a, int d) {
  int32_t reg = a->dim[d].reg;
  int64_t s = reg < 0 ? 0 : *(const int64_t *)tide__reg(r, reg);
  return add(s, a->dim[d].more);
}

static const int64_t *lanes_of(const tide__block_run *r, const tide__access *a, int d) {
  return tide__reg(r, a->dim[d].reg);
}

static void find_ends(reach *x, const tide__block_run *r, int mask) {
  x->first = 0, x->last = r->n - 1;
  if (r->on[mask] == r->n) return;
  const uint8_t *on = r->mask + mask * r->stride;
  const int end = tide__from(r) + tide__wide(r);
  x->first = tide__from(r);
  if (end < r->n) x->last = end - 1;
  const uint8_t *first = memchr(on + x->first, 1, (size_t)(x->last - x->first));
  x->first = first ? (int)(first - on) : x->last;
  while (x->first < x->last && !on[x->last]) x->last--;
}

/* Of lanes x->first to x->last; false where these have to be looked at one by one. */
static bool find_line(reach *x, const tide__block_run *r, const tide__access *a) {
  int64_t offset = 0;
  for (int d = 0; d < a->ndim; d++)
    if (a->dim[d].lanes && !r->lanes->steady(lanes_of(r, a, d) + x->first, x->last - x->first + 1)) return false;
  x->step = 0;
  for (int d = 0; d < a->ndim; d++) {
    int64_t s, step = a->dim[d].step;
    if (a->dim[d].lanes)
      s = add(lanes_of(r, a, d)[x->first], a->dim[d].more) - x->first, step = 1;
    else
      s = first_index(r, a, d);
    if (s >= LARGE || s <= -LARGE || step >= SMALL || step <= -SMALL) return false;
    int64_t one = s + step * x->first, other = s + step * x->last;
    int64_t low = one < other ? one : other, high = one < other ? other : one;
    if (a->tests && (low < 1 || high > x->view->size[d])) return false;
    offset += (s - 1) * x->view->stride[d];
    x->step += step * x->view->stride[d];
  }
  x->at += offset * ((int64_t)1 << x->view->item);
  x->line = true;
  return true;
}

/* The indexes in dim d of all lanes, into room that is theirs until the next call. */
static const int64_t *indexes(const tide__block_run *r, const tide__access *a, int d, int64_t *more) {
  int64_t *room = (int64_t *)(void *)r->middle;
  *more = 0;
  if (a->dim[d].lanes) {
    *more = a->dim[d].more;
    return tide__reg(r, a->dim[d].reg);
  }
  r->lanes->line(room, first_index(r, a, d), a->dim[d].step, r->n);
  return room;
}

/* The first lane of those on whose element is outside, and the first dim in which it is. */
RARE static void report_outside(const tide__block_run *r, const tide__access *a, const tide__view *v,
                                const uint8_t *on) {
  int lane = 0;
  while (!(on[lane] & r->bad[lane])) lane++;
  for (int d = 0; d < a->ndim; d++) {
    int64_t more;
    const int64_t *index = indexes(r, a, d, &more);
    int64_t k = (int64_t)((uint64_t)index[lane] + (uint64_t)more);
    if ((uint64_t)k - 1 < (uint64_t)v->size[d]) continue;
    tide__blocks_report(r, a->site, k, v->size[d], r->of->mail_index);
    return;
  }
}

static void find_each(reach *x, const tide__block_run *r, const tide__access *a, int mask) {
  const tide__view *v = x->view;
  const int from = tide__from(r), n = tide__wide(r);
  bool begin = true, outside = false;
  x->line = false, x->at = v->at;
  x->on = r->mask + mask * r->stride, x->all = r->on[mask] == r->n;
  for (int d = 0; d < a->ndim; d++) {
    int64_t more;
    if (!a->dim[d].lanes && !a->dim[d].step) {
      const int64_t k = add(first_index(r, a, d), -1);
      outside |= a->tests && (uint64_t)k >= (uint64_t)v->size[d];
      if (!outside) x->at += k * v->stride[d] * ((int64_t)1 << v->item);
      continue;
    }
    const int64_t *index = indexes(r, a, d, &more);
    r->lanes->index(r->offset + from, r->bad + from, index + from, more, v->size[d], v->stride[d], begin, n);
    begin = false;
  }
  if (begin) memset(r->offset + from, 0, sizeof *r->offset * (size_t)n), memset(r->bad + from, 0, (size_t)n);
  if (outside) memset(r->bad + from, 1, (size_t)n);
  if (!a->tests || !memchr(r->bad + from, 1, (size_t)n)) return;
  uint8_t any = 0;
  for (int i = from; i < from + n; i++) any |= r->bad[i] & x->on[i];
  if (any) report_outside(r, a, v, x->on);
  r->lanes->mask_less(r->bad + from, x->on + from, r->bad + from, n / TIDE_BLOCK);
  x->on = r->bad, x->all = false;
}

/* ---- conversions ---- */

static int dtype_of(const tide__block_run *r, int value) {
  return value == 'w' ? TIDE_INT64 : value == 'm' ? TIDE_BOOL : r->of->wide ? TIDE_FLOAT64 : TIDE_FLOAT32;
}

static void convert(const tide__block_run *r, void *to, int to_dtype, const void *from, int from_dtype, int64_t n) {
  tide__convert direct = r->isa->convert[to_dtype][from_dtype];
  if (to_dtype == from_dtype && to_dtype != TIDE_BOOL) {
    memcpy(to, from, (size_t)(n * tide__itemsize(to_dtype)));
  } else if (direct) {
    direct(to, from, n);
  } else {
    r->isa->convert[TIDE_FLOAT32][from_dtype](r->middle, from, n);
    r->isa->convert[to_dtype][TIDE_FLOAT32](to, r->middle, n);
  }
}

static int log2_of(int dtype) {
  int64_t size = tide__itemsize(dtype);
  return size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3;
}

/* ---- loads ---- */

/* A lane's element, into `to`; -1, or the dim in which it lies outside. */
RARE static int load_one(const tide__block_run *r, const tide__access *a, int lane, int64_t *index, char *to) {
  const tide__view *v = &r->view[a->place];
  int64_t offset = 0;
  for (int d = 0; d < a->ndim; d++) {
    *index = a->dim[d].lanes ? add(lanes_of(r, a, d)[lane], a->dim[d].more)
                             : add(first_index(r, a, d), a->dim[d].step * lane);
    if (a->tests && (uint64_t)*index - 1 >= (uint64_t)v->size[d]) return d;
    offset += (*index - 1) * v->stride[d];
  }
  convert(r, to, dtype_of(r, a->value), v->at + offset * ((int64_t)1 << v->item), v->dtype, 1);
  return -1;
}

RARE static void load_scalar(tide__block_run *r, const tide__inst *i, const tide__access *a) {
  char one[16] = {0};
  int64_t index;
  const int outside = load_one(r, a, 0, &index, one);
  if (outside >= 0) tide__blocks_report(r, a->site, index, r->view[a->place].size[outside], r->of->mail_index);
  r->lanes->fill[log2_of(dtype_of(r, a->value))](tide__reg(r, i->x[0]), one, TIDE_BLOCK_STRIP);
}

static void load_line(tide__block_run *r, const tide__inst *i, const tide__access *a, const reach *x) {
  const int dtype = dtype_of(r, a->value), from = x->first, n = x->last - x->first + 1, item = x->view->item;
  char *to = (char *)tide__reg(r, i->x[0]) + ((size_t)from << log2_of(dtype));
  const char *at = x->at + x->step * from * ((int64_t)1 << item);
  if (x->step == 1) {
    convert(r, to, dtype, at, x->view->dtype, n);
  } else if (x->step == 0) {
    char one[16];
    convert(r, one, dtype, at, x->view->dtype, 1);
    r->lanes->fill[log2_of(dtype)](to, one, n);
  } else {
    r->lanes->stride[item](r->stored, at, x->step, n);
    convert(r, to, dtype, r->stored, x->view->dtype, n);
  }
}

/* All lanes but the first and the last one lie on a line, since an edge of the grid is held or goes round there. */
RARE static bool load_inner(tide__block_run *r, const tide__inst *i, const tide__access *a, reach *x) {
  const int first = x->first, last = x->last, item = log2_of(dtype_of(r, a->value));
  char *to = tide__reg(r, i->x[0]), ends[2][16];
  int64_t index;
  if (last - first < TIDE_BLOCK) return false;
  x->first++, x->last--;
  if (!find_line(x, r, a) || load_one(r, a, first, &index, ends[0]) >= 0 || load_one(r, a, last, &index, ends[1]) >= 0)
    return false;
  load_line(r, i, a, x);
  memcpy(to + ((size_t)first << item), ends[0], (size_t)1 << item);
  memcpy(to + ((size_t)last << item), ends[1], (size_t)1 << item);
  return true;
}

static void load_each(tide__block_run *r, const tide__inst *i, const tide__access *a, const reach *x) {
  const int own = dtype_of(r, a->value), dtype = x->view->dtype, item = x->view->item, from = tide__from(r);
  const int n = tide__wide(r) < r->n - from ? tide__wide(r) : r->n - from;
  char *to = (char *)tide__reg(r, i->x[0]) + ((size_t)from << log2_of(own));
  char *raw = own == dtype && own != TIDE_BOOL ? to : r->stored;
  if (x->all)
    r->lanes->gather[item](raw, x->at, r->offset + from, n);
  else
    r->lanes->pick[item](raw, x->at, r->offset + from, x->on + from, n);
  if (raw != to) convert(r, to, own, raw, dtype, n);
}

void tide__blocks_load(tide__block_run *r, const tide__inst *i) {
  const tide__access *a = &r->code->access[i->x[1]];
  if (!(i->vary & 1)) {
    load_scalar(r, i, a);
    return;
  }
  const int mask = i->x[2];
  if (!r->on[mask]) return;
  reach x = {.view = &r->view[a->place], .at = r->view[a->place].at};
  find_ends(&x, r, mask);
  if (find_line(&x, r, a)) {
    load_line(r, i, a, &x);
  } else if (!load_inner(r, i, a, &x)) {
    find_each(&x, r, a, mask);
    load_each(r, i, a, &x);
  }
}

/* ---- stores ---- */

/* The value of each lane as it is stored. */
static const char *stored(tide__block_run *r, const tide__inst *i, int operand, int value, int dtype) {
  const void *v = tide__reg(r, i->x[operand]);
  const int own = dtype_of(r, value);
  if (i->vary >> operand & 1) {
    if (own == dtype) return v;
    convert(r, r->stored, dtype, v, own, r->n);
  } else {
    char one[16];
    convert(r, one, dtype, v, own, 1);
    r->lanes->fill[log2_of(dtype)](r->stored, one, r->n);
  }
  return r->stored;
}

static void store_line(tide__block_run *r, const reach *x, const char *value, int mask) {
  const int item = x->view->item, n = x->last - x->first + 1;
  char *at = x->at + x->step * x->first * ((int64_t)1 << item);
  if (x->step == 1 && r->on[mask] == n) {
    memcpy(at, value + ((size_t)x->first << item), (size_t)n << item);
    return;
  }
  if (x->step == 1) {
    r->lanes->keep[item](at, value + ((size_t)x->first << item), r->mask + mask * r->stride + x->first, n);
    return;
  }
  r->lanes->line(r->offset, 0, x->step, r->n);
  r->lanes->scatter[item](x->at, value, r->offset, r->mask + mask * r->stride, r->n);
}

void tide__blocks_store(tide__block_run *r, const tide__inst *i) {
  const tide__access *a = &r->code->access[i->x[0]];
  if (!r->on[i->x[2]]) return;
  reach x = {.view = &r->view[a->place], .at = r->view[a->place].at};
  find_ends(&x, r, i->x[2]);
  if (!find_line(&x, r, a)) find_each(&x, r, a, i->x[2]);
  const char *value = stored(r, i, 1, a->value, x.view->dtype);
  const int from = tide__from(r), n = tide__wide(r) < r->n - from ? tide__wide(r) : r->n - from;
  if (x.line)
    store_line(r, &x, value, i->x[2]);
  else
    r->lanes->scatter[x.view->item](x.at, value + ((size_t)from << x.view->item), r->offset + from, x.on + from, n);
}

/* ---- atomic operations, by compare and swap as the C++ text has them ---- */

enum { ADD, MIN, MAX, EXCHANGE, CAS, BAND, BOR, BXOR };

#define JOIN(T, wrap_add)                                                                                              \
  switch (kind) {                                                                                                      \
  case ADD: return wrap_add;                                                                                           \
  case MIN: return x < old ? x : old;                                                                                  \
  case MAX: return x > old ? x : old;                                                                                  \
  case CAS: return old == expected ? x : old;                                                                          \
  default: break;                                                                                                      \
  }
RARE static int64_t join_i(int kind, int64_t old, int64_t x, int64_t expected) {
  JOIN(int64_t, (int64_t)((uint64_t)old + (uint64_t)x))
  return kind == BAND ? old & x : kind == BOR ? old | x : kind == BXOR ? old ^ x : x;
}
RARE static float join_f(int kind, float old, float x, float expected) {
  JOIN(float, old + x)
  return x;
}
RARE static double join_d(int kind, double old, double x, double expected) {
  JOIN(double, old + x)
  return x;
}

#define EACH_WAY(name, S, W, V, join, to)                                                                              \
  RARE static void name(void *at, int kind, const void *value, const void *expected, void *old) {                      \
    W was = __atomic_load_n((W *)at, __ATOMIC_RELAXED), now;                                                           \
    S before, after;                                                                                                   \
    do {                                                                                                               \
      memcpy(&before, &was, sizeof was);                                                                               \
      after = (S)to(join(kind, (V)before, *(const V *)value, *(const V *)expected));                                   \
      memcpy(&now, &after, sizeof now);                                                                                \
    } while (!__atomic_compare_exchange_n((W *)at, &was, now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));             \
    *(V *)old = (V)before;                                                                                             \
  }
EACH_WAY(swap_int32, int32_t, uint32_t, int64_t, join_i, )
EACH_WAY(swap_int64, int64_t, uint64_t, int64_t, join_i, )
EACH_WAY(swap_float32, float, uint32_t, float, join_f, )
EACH_WAY(swap_float64, double, uint64_t, double, join_d, )
EACH_WAY(swap_float32_wide, float, uint32_t, double, join_d, )
EACH_WAY(swap_float64_narrow, double, uint64_t, float, join_f, )

typedef void (*swap_fn)(void *at, int kind, const void *value, const void *expected, void *old);

RARE static swap_fn swap_of(const tide__block_run *r, int dtype) {
  switch (dtype) {
  case TIDE_INT32: return swap_int32;
  case TIDE_INT64: return swap_int64;
  case TIDE_FLOAT32: return r->of->wide ? swap_float32_wide : swap_float32;
  default: return r->of->wide ? swap_float64 : swap_float64_narrow;
  }
}

RARE void tide__blocks_atomic(tide__block_run *r, const tide__inst *i) {
  const tide__access *a = &r->code->access[i->x[1]];
  reach x = {.view = &r->view[a->place]};
  find_each(&x, r, a, i->x[5]);
  const int size = a->value == 'w' || r->of->wide ? 8 : 4;
  const swap_fn swap = swap_of(r, x.view->dtype);
  char *old = tide__reg(r, i->x[0]), *value = tide__reg(r, i->x[3]), *expected = tide__reg(r, i->x[4]);
  const int value_step = i->vary >> 3 & 1 ? size : 0, expected_step = i->vary >> 4 & 1 ? size : 0;
  const uint8_t *part = r->mask + i->x[5] * r->stride;
  for (int lane = 0; lane < r->n; lane++) {
    if (!part[lane]) continue;
    char *to = old + lane * size, none[8] = {0};
    if (x.on[lane])
      swap(x.at + r->offset[lane] * ((int64_t)1 << x.view->item), i->x[2], value + lane * value_step,
           expected + lane * expected_step, none);
    memcpy(to, none, (size_t)size);
  }
}
