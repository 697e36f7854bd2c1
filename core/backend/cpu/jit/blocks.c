/* blocks.c: the block interpreter: kernels written in Lua, on the CPU without a compiler.
 *
 * A run of places is cut into blocks of TIDE_BLOCK_LANES, and each instruction is done for all lanes of a block before
 * the next one: its cost is shared by so many, and its loop is vector code. What all lanes have in common is computed
 * once: for a launch, for a row, for a block or where it stands. A branch that lanes may take differently works under a
 * mask of those that take it, and is left out where none does; a loop goes on until no lane is left in it, and works
 * meanwhile on the strips alone from the first to the last one that has any. Where the last dim is short several rows
 * share a block (`flat`). A block of threads that wait for each other is one block of as many lanes, so that whatever
 * stands before a barrier is done for all of them when it comes to it; a barrier that some have not reached is
 * reported, and ends the run.
 *
 * Invariant: no instruction that reads, writes or reports is done with an empty mask. */
#include "blocks.h"

#include <math.h>
#include <stdlib.h>

#include "base/mathematics/kernel_numbers.h"
#include "backend/cpu/loops/opmath.h"
#include "backend/cpu/scratch.h"

#define REG(j)     tide__reg(r, i->x[j])
#define INT(j)     (*(const int64_t *)REG(j))
#define VARIES(j)  (i->vary >> (j)&1)
#define LANE(j, l) (((const int64_t *)REG(j))[VARIES(j) ? (l) : 0])

static void set_scalar(const tide__block_run *r, int32_t reg, int64_t value) {
  r->lanes->fill[3](tide__reg(r, reg), &value, TIDE_BLOCK_STRIP);
}
static void set_real(const tide__block_run *r, int32_t reg, double value) {
  const float narrow = (float)value;
  r->lanes->fill[r->of->wide ? 3 : 2](tide__reg(r, reg), r->of->wide ? (const void *)&value : &narrow,
                                      TIDE_BLOCK_STRIP);
}
static void set_boolean(const tide__block_run *r, int32_t reg, bool value) {
  memset(tide__reg(r, reg), value, TIDE_BLOCK_STRIP);
}
static uint8_t *mask_of(const tide__block_run *r, int k) { return r->mask + k * r->stride; }

/* ---- what a launch brings ---- */

static void number(const tide__block_run *r, const tide__inst *i) {
  const int64_t slot = r->slots[i->x[1]];
  double real;
  memcpy(&real, &slot, sizeof real);
  if (i->x[2] == 0) set_scalar(r, i->x[0], slot);
  if (i->x[2] == 1) set_real(r, i->x[0], real);
  if (i->x[2] == 2) set_boolean(r, i->x[0], slot != 0);
}

static void special(const tide__block_run *r, const tide__inst *i) {
  static const double values[] = {-HUGE_VAL, NAN, HUGE_VAL, -0.0};
  set_real(r, i->x[0], values[i->wide + 1]);
}

/* ---- places ---- */

/* The coordinate of every lane in dim d, of places that are counted with the last dim fastest. */
static void place_flat(const tide__block_run *r, int64_t *to, int d) {
  int64_t below = 1, size = r->slots[d];
  for (int k = d + 1; k < r->of->ndim; k++) below *= r->slots[k];
  int64_t at = r->flat / below % size, left = below - r->flat % below;
  for (int l = 0; l < r->n; l++) {
    to[l] = at + 1;
    if (--left) continue;
    left = below;
    if (++at == size) at = 0;
  }
}

static void thread_of(const tide__block_run *r, int64_t *to, int d, int64_t before) {
  int below = 1;
  for (int k = d + 1; k < r->of->ndim; k++) below *= r->of->block[k];
  for (int l = 0; l < r->n; l++) to[l] = before + l / below % r->of->block[d] + 1;
}

static void place(const tide__block_run *r, const tide__inst *i) {
  const int d = i->x[1];
  if (r->code->mode == TIDE_BLOCK_ROWS)
    r->lanes->line(REG(0), r->place[d], d == r->of->ndim - 1, r->n);
  else if (r->code->mode == TIDE_BLOCK_FLAT)
    place_flat(r, REG(0), d);
  else
    thread_of(r, REG(0), d, r->place[d]);
}

/* ---- lanes in a line ---- */

/* How many of lanes 0 .. n - 1 have s + step * lane < limit, or at most it; step is above 0. */
static int64_t ahead(int64_t s, int64_t step, int64_t limit, bool equal, int64_t n) {
  int64_t room = limit - s - !equal;
  if (room < 0) return 0;
  return room / step + 1 < n ? room / step + 1 : n;
}

enum { LT, LE, GT, GE, EQ, NE };
static bool holds(int kind, int64_t a, int64_t b) {
  return kind == LT ? a < b : kind == LE ? a <= b : kind == GT ? a > b : kind == GE ? a >= b : (a == b) == (kind == EQ);
}

/* s + more + step * lane beside a number: as a rule the lanes up to one, or from one on. */
static void compare(const tide__block_run *r, const tide__inst *i) {
  const int64_t far = (int64_t)1 << 40, limit = INT(4);
  int64_t s = (int64_t)((uint64_t)INT(1) + (uint64_t)i->x[2]), step = i->x[3];
  uint8_t *to = REG(0);
  int kind = i->x[5];
  if (step == 0 || kind >= EQ || s >= far || s <= -far || limit >= far || limit <= -far) {
    for (int l = 0; l < r->n; l++) to[l] = holds(kind, (int64_t)((uint64_t)s + (uint64_t)step * (uint64_t)l), limit);
    return;
  }
  int64_t low = s, high = limit, by = step;
  bool turned = kind == GT || kind == GE; /* not (a <= b), not (a < b) */
  bool equal = kind == LE || kind == GT;
  if (by < 0) low = -s, high = -limit, by = -step, turned = !turned, equal = !equal;
  int64_t first = ahead(low, by, high, equal, r->n);
  memset(to, !turned, (size_t)first);
  memset(to + first, turned, (size_t)(r->n - first));
}

/* ---- masks ---- */

static void put(const tide__block_run *r, const tide__inst *i, int item) {
  const int k = i->x[1], from = tide__from(r);
  if (r->on[k] < r->n)
    r->lanes->put[item]((char *)REG(0) + ((size_t)from << item), mask_of(r, k) + from,
                        (char *)REG(2) + (VARIES(2) ? (size_t)from << item : 0), !VARIES(2), tide__wide(r));
  else if (VARIES(2))
    memcpy(REG(0), REG(2), (size_t)r->n << item);
  else
    r->lanes->fill[item](REG(0), REG(2), r->n);
}

static void mask_copy(tide__block_run *r, const tide__inst *i) {
  r->kept[i->x[0]] = r->now;
  memcpy(mask_of(r, i->x[0]), mask_of(r, i->x[1]), (size_t)r->blocks * TIDE_BLOCK);
  r->on[i->x[0]] = r->on[i->x[1]];
}

static bool strip_off(const uint8_t *mask) {
  uint64_t part[TIDE_BLOCK_STRIP / 8], all = 0;
  memcpy(part, mask, sizeof part);
  for (int k = 0; k < TIDE_BLOCK_STRIP / 8; k++) all |= part[k];
  return !all;
}

/* What a mask that has lost lanes leaves off at both ends is worked on no more, until it ends. */
static bool narrow(tide__block_run *r, int k, int64_t on) {
  const uint8_t *mask = mask_of(r, k) + tide__from(r);
  r->on[k] = (int)on;
  if (!on) return false;
  for (; strip_off(mask); mask += TIDE_BLOCK_STRIP) r->now.low++, r->now.strips--;
  while (strip_off(mask + tide__wide(r) - TIDE_BLOCK_STRIP)) r->now.strips--;
  return true;
}

typedef int64_t (*mask_join)(uint8_t *d, const uint8_t *a, const uint8_t *b, int64_t blocks);

/* False where no lane is left. */
static bool join_masks(tide__block_run *r, const tide__inst *i, mask_join join) {
  const int k = i->x[0];
  const bool same = k == i->x[1]; /* outside of the window it is off */
  const int from = same ? tide__from(r) : 0;
  const int64_t blocks = same ? tide__wide(r) / TIDE_BLOCK : r->blocks;
  const int64_t on = join(mask_of(r, k) + from, mask_of(r, i->x[1]) + from, (const uint8_t *)REG(2) + from, blocks);
  if (same) return narrow(r, k, on);
  return (r->on[k] = (int)on) != 0;
}

/* ---- counted loops ---- */

static int64_t add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

/* How often a loop goes on after the first time; false where it does not begin. */
static bool rounds(uint64_t *left, int64_t from, int64_t to, int64_t step) {
  if (step > 0 ? from > to : step == 0 || from < to) return false;
  *left = step > 0 ? (uint64_t)to - (uint64_t)from : (uint64_t)from - (uint64_t)to;
  if (step != 1) *left /= step > 0 ? (uint64_t)step : -(uint64_t)step;
  return true;
}

static bool for_begin(const tide__block_run *r, const tide__inst *i) {
  uint64_t left = 0;
  if (INT(4) == 0) tide__blocks_report(r, i->x[5], 0, 1, r->of->mail_zero); /* 1: a step */
  if (!rounds(&left, INT(2), INT(3), INT(4))) return false;
  set_scalar(r, i->x[0], INT(2));
  set_scalar(r, i->x[1], (int64_t)left);
  return true;
}

static bool for_next(const tide__block_run *r, const tide__inst *i) {
  if (INT(1) == 0) return false;
  set_scalar(r, i->x[1], (int64_t)((uint64_t)INT(1) - 1));
  set_scalar(r, i->x[0], add(INT(0), INT(2)));
  return true;
}

static bool each_begin(tide__block_run *r, const tide__inst *i) {
  r->kept[i->x[0]] = r->now;
  uint8_t *to = mask_of(r, i->x[0]);
  const uint8_t *from = mask_of(r, i->x[1]);
  uint64_t *left = REG(3);
  int on = 0;
  for (int l = 0; l < r->n; l++) {
    left[l] = 0, to[l] = 0;
    if (!from[l]) continue;
    if (LANE(6, l) == 0) tide__blocks_report(r, i->x[7], 0, 1, r->of->mail_zero);
    to[l] = rounds(&left[l], LANE(4, l), LANE(5, l), LANE(6, l));
    on += to[l];
  }
  for (int64_t l = r->n; l < r->blocks * TIDE_BLOCK; l++) to[l] = 0;
  if (VARIES(2))
    for (int l = 0; l < r->n; l++) ((int64_t *)REG(2))[l] = LANE(4, l);
  else
    set_scalar(r, i->x[2], INT(4));
  return (r->on[i->x[0]] = on) != 0;
}

static tide__lane_op whole(const tide__block_run *r, tide__lane_id id) {
  return r->lanes->whole[id - TIDE_LANE_FLOATS];
}

static bool each_next(tide__block_run *r, const tide__inst *i) {
  const int from = tide__from(r), strips = r->now.strips;
  uint8_t *on = mask_of(r, i->x[0]) + from;
  int64_t *left = (int64_t *)REG(2) + from, *at = (int64_t *)REG(1) + (VARIES(1) ? from : 0);
  whole(r, TIDE_LANE_truth_i)(r->bad, left, NULL, NULL, 1, strips);
  const int64_t some = r->lanes->mask_and(on, on, r->bad, tide__wide(r) / TIDE_BLOCK);
  r->lanes->count(left, on, -1, tide__wide(r));
  whole(r, TIDE_LANE_add_i)(at, at, (int64_t *)REG(3) + (VARIES(3) ? from : 0), NULL, (VARIES(1)) | (VARIES(3)) << 1,
                            VARIES(1) ? strips : 1);
  return narrow(r, i->x[0], some);
}

/* ---- division ---- */

static int64_t floor_divide(int64_t a, int64_t b, bool remainder) {
  return remainder ? tide_remainder_i64(a, b) : tide_div_floor_i64(a, b);
}

static void divide(const tide__block_run *r, const tide__inst *i, bool remainder) {
  const int64_t *a = REG(1), *b = REG(2);
  if (!VARIES(0)) {
    if (*b == 0) tide__blocks_report(r, i->x[3], *a, 0, r->of->mail_zero);
    set_scalar(r, i->x[0], floor_divide(*a, *b, remainder));
    return;
  }
  if (VARIES(1) && !VARIES(2) && *b > 0 && floor_divide(*a, *b, false) == floor_divide(a[r->n - 1], *b, false) &&
      r->lanes->steady(a, r->n)) {
    /* places of a row that none of the divisor's multiples parts */
    const int64_t q = floor_divide(*a, *b, false);
    r->lanes->line(REG(0), remainder ? *a - q * *b : q, remainder, r->n);
    return;
  }
  const int n = (int)r->blocks * TIDE_BLOCK;
  bool zero = false;
  for (int l = 0; l < (VARIES(2) ? r->n : 1); l++) zero |= b[l] == 0;
  if (!zero && VARIES(1) && r->lanes->small(a, n) && r->lanes->small(b, VARIES(2) ? n : 1)) {
    for (int64_t l = r->n; VARIES(2) && l < n; l++) ((int64_t *)REG(2))[l] = 1;
    r->lanes->divide_small(REG(0), a, b, VARIES(2), remainder, n);
    return;
  }
  const uint8_t *on = mask_of(r, i->x[4]);
  for (int l = 0; zero && l < r->n; l++) {
    if (!on[l] || LANE(2, l) != 0) continue;
    tide__blocks_report(r, i->x[3], LANE(1, l), 0, r->of->mail_zero);
    break;
  }
  int64_t *to = REG(0);
  for (int l = 0; l < r->n; l++) to[l] = floor_divide(LANE(1, l), LANE(2, l), remainder);
}

/* ---- random numbers ---- */

static int64_t lanes_of(const tide__block_run *r, bool all) { return all ? r->n : 1; }

static void draw(const tide__block_run *r, const tide__inst *i) {
  const int64_t apart = r->stride, n = lanes_of(r, i->vary);
  for (int l = 0; l < n; l++) {
    uint64_t first = (uint64_t)LANE(1, l), then = (uint64_t)LANE(2, l);
    r->words[l] = (uint32_t)first, r->words[apart + l] = (uint32_t)(first >> 32);
    r->words[2 * apart + l] = (uint32_t)then, r->words[3 * apart + l] = (uint32_t)(then >> 32);
  }
  r->lanes->philox(r->words, REG(0), VARIES(0), NULL, 0, apart, n);
}

static void more(const tide__block_run *r, const tide__inst *i) {
  r->lanes->philox(r->words, REG(0), VARIES(0), REG(1), VARIES(1), r->stride, r->n);
}

static tide_philox words_of(const tide__block_run *r, int64_t l) {
  const uint32_t *w = r->words + l;
  return (tide_philox){{w[0], w[r->stride], w[2 * r->stride], w[3 * r->stride]}};
}

static void random_float(const tide__block_run *r, const tide__inst *i, bool normal) {
  const int64_t n = lanes_of(r, VARIES(0));
  void *to = REG(0);
  for (int64_t l = 0; l < n; l++) {
    const tide_philox w = words_of(r, l);
    if (r->of->wide)
      ((double *)to)[l] = normal ? tk_normal_f64(w) : tk_uniform_f64(w);
    else
      ((float *)to)[l] = normal ? tk_normal_f32(w) : tk_uniform_f32(w);
  }
  if (!VARIES(0)) r->lanes->fill[r->of->wide ? 3 : 2](to, to, TIDE_BLOCK_STRIP);
}

static void between(const tide__block_run *r, const tide__inst *i) {
  const int64_t n = lanes_of(r, VARIES(0));
  int64_t *to = REG(0);
  for (int64_t l = 0; l < n; l++) to[l] = tk_integer(words_of(r, l), LANE(1, l), LANE(2, l));
  if (!VARIES(0)) set_scalar(r, i->x[0], *to);
}

/* ---- functions of one lane ---- */

static void math(const tide__block_run *r, const tide__inst *i, bool two) {
  const int64_t from = VARIES(0) ? tide__from(r) : 0, n = from + (VARIES(0) ? tide__wide(r) : TIDE_BLOCK_STRIP);
  for (int64_t l = from; l < n && (l < r->n || !VARIES(0)); l++) {
    if (r->of->wide) {
      const double a = ((const double *)REG(2))[l];
      ((double *)REG(0))[l] = two ? i->fn.d2(a, ((const double *)REG(3))[l]) : i->fn.d1(a);
    } else {
      const float a = ((const float *)REG(2))[l];
      ((float *)REG(0))[l] = two ? i->fn.f2(a, ((const float *)REG(3))[l]) : i->fn.f1(a);
    }
  }
}

static void loop(const tide__block_run *r, const tide__inst *i) {
  static const double none[3] = {0};
  const int64_t from = VARIES(0) ? (r->of->wide ? 8 : 4) * tide__from(r) : 0;
  i->fn.loop((char *)REG(0) + from, (char *)REG(2) + from, (char *)REG(3) + from, NULL, none,
             (VARIES(0) ? tide__wide(r) : TIDE_BLOCK_STRIP) / TIDE_BLOCK);
}

/* ---- blocks of threads ---- */

static bool together(tide__block_run *r, int mask, int site, int whole) {
  if (r->on[mask] == r->on[whole]) return true;
  tide__blocks_report(r, site, 0, 0, TIDE__MAIL_APART);
  return false;
}

/* Sums of 32 threads each in order, and these in order; a thread that does not take part counts as 0. */
#define SUM(name, T)                                                                                                   \
  static void name(const tide__block_run *r, const tide__inst *i) {                                                    \
    const uint8_t *on = mask_of(r, i->x[2]);                                                                           \
    const T *value = REG(1);                                                                                           \
    const bool warp = i->x[4];                                                                                         \
    T *to = REG(0), sums[TIDE_BLOCK_MOST / 32], all = 0;                                                               \
    for (int w = 0; w * 32 < r->n; w++) {                                                                              \
      sums[w] = 0;                                                                                                     \
      for (int l = w * 32; l < w * 32 + 32 && l < r->n; l++) sums[w] += on[l] ? value[VARIES(1) ? l : 0] : 0;          \
      all += sums[w];                                                                                                  \
    }                                                                                                                  \
    for (int l = 0; l < r->n; l++)                                                                                     \
      if (on[l]) to[l] = warp ? sums[l / 32] : all;                                                                    \
  }
SUM(sum_i, int64_t)
SUM(sum_f, float)
SUM(sum_d, double)

/* ---- the loop ---- */

enum { ASK_STEPS = 256 };

/* A loop inside a block may go on for ever; somebody may want to end it. */
static bool stops(tide__block_run *r) {
  if (++r->steps % ASK_STEPS) return false;
  return r->stop = tide__loop_stops();
}

#define STRIP(j) (r->arena + i->x[j] + (int64_t)r->now.low * i->x[4 + (j)])
#define GO_IF(test, j)                                                                                                 \
  if (test) i = r->code->inst + i->x[j] - 1;                                                                           \
  break
#define BACK_IF(test, j)                                                                                               \
  if (test) {                                                                                                          \
    if (stops(r)) return true;                                                                                         \
    i = r->code->inst + i->x[j] - 1;                                                                                   \
  }                                                                                                                    \
  break

/* From instruction `at` to the next `end`; false where threads came apart at a barrier. */
static bool run_part(tide__block_run *r, int at) {
  for (const tide__inst *i = r->code->inst + at;; i++) switch ((tide__block_code)i->code) {
    case TIDE_BLOCK_lane:
      if (!r->now.low)
        i->fn.lane(REG(0), REG(1), REG(2), REG(3), i->vary >> 1, i->scalar ? 1 : r->now.strips);
      else
        i->fn.lane(STRIP(0), STRIP(1), STRIP(2), STRIP(3), i->vary >> 1, i->scalar ? 1 : r->now.strips);
      break;
    case TIDE_BLOCK_end: return true;
    case TIDE_BLOCK_number: number(r, i); break;
    case TIDE_BLOCK_size: set_scalar(r, i->x[0], r->view[i->x[1]].size[i->x[2]]); break;
    case TIDE_BLOCK_integer: set_scalar(r, i->x[0], i->wide); break;
    case TIDE_BLOCK_real: set_real(r, i->x[0], ldexp((double)i->wide, i->x[2])); break;
    case TIDE_BLOCK_special: special(r, i); break;
    case TIDE_BLOCK_boolean: set_boolean(r, i->x[0], i->x[1] != 0); break;
    case TIDE_BLOCK_first: set_scalar(r, i->x[0], r->place[i->x[1]]); break;
    case TIDE_BLOCK_block: set_scalar(r, i->x[0], r->group[i->x[1]]); break;
    case TIDE_BLOCK_place: place(r, i); break;
    case TIDE_BLOCK_thread: thread_of(r, REG(0), i->x[1], 0); break;
    case TIDE_BLOCK_fill_w: r->lanes->fill[3](REG(0), REG(1), r->n); break;
    case TIDE_BLOCK_fill_r: r->lanes->fill[r->of->wide ? 3 : 2](REG(0), REG(1), r->n); break;
    case TIDE_BLOCK_fill_m: r->lanes->fill[0](REG(0), REG(1), r->n); break;
    case TIDE_BLOCK_line: r->lanes->line(REG(0), add(INT(1), i->x[2]), i->x[3], r->n); break;
    case TIDE_BLOCK_compare: compare(r, i); break;
    case TIDE_BLOCK_put_w: put(r, i, 3); break;
    case TIDE_BLOCK_put_r: put(r, i, r->of->wide ? 3 : 2); break;
    case TIDE_BLOCK_put_m: put(r, i, 0); break;
    case TIDE_BLOCK_count:
      r->lanes->count((int64_t *)REG(0) + tide__from(r), mask_of(r, i->x[1]) + tide__from(r), INT(2), tide__wide(r));
      break;
    case TIDE_BLOCK_jump: BACK_IF(true, 0);
    case TIDE_BLOCK_jump_zero: GO_IF(!*(const uint8_t *)REG(0), 1);
    case TIDE_BLOCK_jump_none: GO_IF(!r->on[i->x[0]], 1);
    case TIDE_BLOCK_mask_copy: mask_copy(r, i); break;
    case TIDE_BLOCK_mask_and: GO_IF(!join_masks(r, i, r->lanes->mask_and), 3);
    case TIDE_BLOCK_mask_less: GO_IF(!join_masks(r, i, r->lanes->mask_less), 3);
    case TIDE_BLOCK_mask_drop:
      r->on[i->x[0]] =
          (int)r->lanes->mask_less(mask_of(r, i->x[0]), mask_of(r, i->x[0]), mask_of(r, i->x[1]), r->blocks);
      break;
    case TIDE_BLOCK_widen: r->now = r->kept[i->x[0]]; break;
    case TIDE_BLOCK_for_begin: GO_IF(!for_begin(r, i), 6);
    case TIDE_BLOCK_for_next: BACK_IF(for_next(r, i), 3);
    case TIDE_BLOCK_each_begin: GO_IF(!each_begin(r, i), 8);
    case TIDE_BLOCK_each_next: GO_IF(!each_next(r, i), 4);
    case TIDE_BLOCK_idiv: divide(r, i, false); break;
    case TIDE_BLOCK_imod: divide(r, i, true); break;
    case TIDE_BLOCK_load: tide__blocks_load(r, i); break;
    case TIDE_BLOCK_store: tide__blocks_store(r, i); break;
    case TIDE_BLOCK_atomic: tide__blocks_atomic(r, i); break;
    case TIDE_BLOCK_loop: loop(r, i); break;
    case TIDE_BLOCK_math1: math(r, i, false); break;
    case TIDE_BLOCK_math2: math(r, i, true); break;
    case TIDE_BLOCK_draw: draw(r, i); break;
    case TIDE_BLOCK_more: more(r, i); break;
    case TIDE_BLOCK_uniform: random_float(r, i, false); break;
    case TIDE_BLOCK_normal: random_float(r, i, true); break;
    case TIDE_BLOCK_between: between(r, i); break;
    case TIDE_BLOCK_barrier:
      if (!together(r, i->x[0], i->x[1], i->x[2])) return false;
      break;
    case TIDE_BLOCK_sum:
      if (!i->x[4] && !together(r, i->x[2], i->x[3], i->x[5])) return false;
      (i->type == 'w' ? sum_i : r->of->wide ? sum_d : sum_f)(r, i);
      break;
    case TIDE_BLOCK_CODE_COUNT: return true;
    }
}

/* ---- a launch ---- */

static void begin_block(tide__block_run *r, int64_t n) {
  r->now = (tide__window){0, (int)((n + TIDE_BLOCK_STRIP - 1) / TIDE_BLOCK_STRIP)};
  r->n = (int)n, r->blocks = tide__wide(r) / TIDE_BLOCK;
  for (int k = 0; k < r->code->masks; k++) r->kept[k] = r->now;
  memset(r->mask, 1, (size_t)n);
  memset(r->mask + n, 0, (size_t)(r->blocks * TIDE_BLOCK - n));
  r->on[0] = (int)n;
}

static void run_rows(tide__block_run *r, int64_t begin, int64_t end) {
  const int last = r->of->ndim - 1, lanes = r->code->lanes;
  const int64_t size = r->slots[last], run = r->of->run, runs = (size + run - 1) / run;
  for (int64_t b = begin, many; b < end && !r->stop; b += many) {
    int64_t rest = b / runs, from = b % runs * run;
    many = runs - b % runs < end - b ? runs - b % runs : end - b;
    const int64_t to = size - from < many * run ? size : from + many * run;
    for (int d = last - 1; d >= 0; d--) {
      r->place[d] = (d ? rest % r->slots[d] : rest) + 1;
      rest /= r->slots[d];
    }
    if (!run_part(r, r->code->row)) return;
    for (; from < to && !r->stop; from += lanes) {
      r->place[last] = from + 1;
      begin_block(r, to - from < lanes ? to - from : lanes);
      run_part(r, r->code->block);
    }
  }
}

/* Whole rows, several to a block. */
static void run_flat(tide__block_run *r, int64_t begin, int64_t end) {
  const int64_t size = r->slots[r->of->ndim - 1], to = end * size, lanes = r->code->lanes;
  for (r->flat = begin * size; r->flat < to && !r->stop; r->flat += lanes) {
    begin_block(r, to - r->flat < lanes ? to - r->flat : lanes);
    run_part(r, r->code->block);
  }
}

/* Threads of the block that are places of the grid. */
static void find_threads(tide__block_run *r) {
  const tide__blocks *b = r->of;
  int on = 0;
  for (int l = 0; l < r->n; l++) {
    int rest = l;
    bool inside = true;
    for (int d = b->ndim - 1; d >= 0; d--) {
      inside &= r->place[d] + rest % b->block[d] < r->slots[d];
      rest /= b->block[d];
    }
    r->mask[l] = inside;
    on += inside;
  }
  r->on[0] = on;
}

static void run_threads(tide__block_run *r, int64_t begin, int64_t end) {
  const tide__blocks *b = r->of;
  int64_t threads = 1;
  for (int d = 0; d < b->ndim; d++) threads *= b->block[d];
  for (int64_t k = begin; k < end && !r->stop; k++) {
    int64_t rest = k;
    for (int d = b->ndim - 1; d >= 0; d--) {
      const int64_t groups = (r->slots[d] + b->block[d] - 1) / b->block[d], at = d ? rest % groups : rest;
      r->group[d] = at + 1, r->place[d] = at * b->block[d];
      rest /= groups;
    }
    memset(r->arena + r->code->shared, 0, r->code->bytes - r->code->shared); /* as in a sandbox's compiled code */
    begin_block(r, threads);
    find_threads(r);
    if (r->on[0] && (!run_part(r, r->code->row) || !run_part(r, r->code->block))) return;
  }
}

/* Where the arrays of a launch lie. */
static void see(tide__block_run *r) {
  for (int k = 0; k < r->of->places; k++) {
    const tide__place *p = &r->of->place[k];
    tide__view *v = &r->view[k];
    v->dtype = p->dtype, v->ndim = p->ndim;
    v->item = tide__itemsize(p->dtype) == 8 ? 3 : tide__itemsize(p->dtype) == 4 ? 2 : tide__itemsize(p->dtype) == 2;
    int64_t step = 1;
    for (int d = p->ndim - 1; d >= 0; d--, step *= p->size[d + 1])
      v->size[d] = p->kind == 't' ? r->slots[p->slot + 1 + d] : p->size[d],
      v->stride[d] = p->kind == 't' ? r->slots[p->slot + 1 + p->ndim + d] : step;
    v->at = p->kind == 't'   ? (char *)(intptr_t)r->slots[p->slot]
            : p->kind == 's' ? r->arena + r->code->shared + p->at
                             : r->of->tables + p->at;
  }
}

static const tide__code *code_for(const tide__blocks *b, const int64_t *slots) {
  return b->codes == 2 && slots[b->ndim - 1] < TIDE_BLOCK_LANES / 2 ? &b->code[1] : &b->code[0];
}

static char *carve(char **from, size_t bytes) {
  char *at = *from;
  *from += (bytes + 63) / 64 * 64;
  return at;
}

static size_t room_for(const tide__blocks *b, const tide__code *c) {
  const size_t lanes = (size_t)c->lanes;
  return c->bytes + (sizeof(tide__view) * (size_t)b->places + 64) + lanes * (size_t)c->masks +
         ((sizeof(int) + sizeof(tide__window)) * (size_t)c->masks + 128) + lanes * (8 + 1 + 8 + 8 + 16) + 1024;
}

int tide__blocks_run(const tide__blocks *b, const void *packed, int64_t begin, int64_t end) {
  const int64_t *slots = packed;
  const tide__code *c = code_for(b, slots);
  const size_t lanes = (size_t)c->lanes;
  char *memory = tide__room_take(room_for(b, c)), *at = memory;
  if (!memory) return TIDE_BLOCKS_MEMORY;
  tide__block_run r = {.of = b, .code = c, .slots = slots, .isa = tide__isa_get(), .stride = c->lanes, .blocks = 1};
  r.lanes = r.isa->lanes;
  r.arena = carve(&at, c->bytes);
  r.view = (tide__view *)(void *)carve(&at, sizeof *r.view * (size_t)b->places);
  r.mask = (uint8_t *)carve(&at, lanes * (size_t)c->masks);
  r.on = (int *)(void *)carve(&at, sizeof *r.on * (size_t)c->masks);
  r.kept = (tide__window *)(void *)carve(&at, sizeof *r.kept * (size_t)c->masks);
  r.offset = (int64_t *)(void *)carve(&at, lanes * 8);
  r.bad = (uint8_t *)carve(&at, lanes);
  r.stored = carve(&at, lanes * 8), r.middle = carve(&at, lanes * 8);
  r.words = (uint32_t *)(void *)carve(&at, lanes * 16);
  memset(r.arena, 0, c->bytes);
  memset(r.on, 0, sizeof *r.on * (size_t)c->masks);
  see(&r);
  begin_block(&r, c->lanes);
  run_part(&r, c->launch);
  if (c->mode == TIDE_BLOCK_ROWS) run_rows(&r, begin, end);
  if (c->mode == TIDE_BLOCK_FLAT) run_flat(&r, begin, end);
  if (c->mode == TIDE_BLOCK_THREADS) run_threads(&r, begin, end);
  tide__room_put(memory);
  return 0;
}
