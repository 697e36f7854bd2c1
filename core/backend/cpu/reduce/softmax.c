/* softmax.c: exp(x) / sum(exp(x)) along a dim, and its logarithm.
 *
 * Elements are worked on as float32 or float64 by the loops of the instruction sets. Lines whose neighbours lie close
 * to each other are walked one by one: pieces that the first cache holds give the largest element so far and the sum of
 * what is below it, which is scaled when a larger one comes, so that a line of one piece is read once and a longer one
 * twice. A line that needs no conversion and stays in the second cache is read for its largest element, and what is
 * below that is written where the result stands. Long lines are cut into stretches, which threads share where there are
 * few lines. Lines that lie side by side are walked together, a row of them at a time, and so are very short ones; of
 * those row_ops.c does float32's that lie one behind the other.
 *
 * Invariant: what is added in what order depends on the sizes alone, not on the threads. */
#include <math.h>

#include "backend/cpu/loops/layout.h"
#include "backend/cpu/loops/row_ops.h"

enum { PIECE = 1024, LEAST_STRETCH = 32 * PIECE, MOST_STRETCHES = 256 };
enum { NEAR_BYTES = 1 << 19, TURN = 64 };
enum { COLUMNS = 256, LEAST_COLUMNS = 16 };

/* The largest of some elements, and the sum of exp(x - largest); of none: -inf and 0. */
typedef struct state {
  double most, sum;
} state;

typedef struct work {
  const tide_scan_args *a;
  const tide__isa *isa;
  int dtype, bytes; /* float32 or float64; of an element in memory */
  tide__ctype type;
  bool logarithm, plain, near; /* no element is converted; nor leaves a line the second cache */
  int64_t item, line, stretch, stretches, strips, columns; /* item: bytes of dtype */
  state *states;
} work;

typedef struct room {
  _Alignas(64) char x[8 * PIECE];
  _Alignas(64) char y[8 * PIECE];
  _Alignas(64) char number[8 * PIECE];
  _Alignas(64) char raw[8 * PIECE];
} room;

/* out = op(x, y) for n elements and what fills their last block. */
static void apply(const work *w, tide_op op, void *out, const void *x, const void *y, int64_t n) {
  static const double no_param[3];
  w->isa->op[op][w->type](out, x, y, NULL, no_param, tide__whole_blocks(n) / TIDE_BLOCK);
}

static void repeat(const work *w, void *out, double value, int64_t n) {
  float narrow = (float)value;
  w->isa->repeat[w->item / 8](out, w->item == 4 ? (void *)&narrow : (void *)&value, tide__whole_blocks(n) / TIDE_BLOCK);
}

/* out = op(x, value) */
static void apply_number(const work *w, room *r, tide_op op, void *out, const void *x, double value, int64_t n) {
  repeat(w, r->number, value, n);
  apply(w, op, out, x, r->number, n);
}

/* out = exp(x - less) */
static void apply_exp(const work *w, void *out, const void *x, double less, int64_t n) {
  float narrow = (float)less;
  w->isa->exp_less[w->item / 8](out, x, NULL, NULL, w->item == 4 ? (void *)&narrow : (void *)&less,
                                tide__whole_blocks(n) / TIDE_BLOCK);
}

static double largest(const work *w, const void *x, int64_t n) {
  return w->item == 4 ? (double)w->isa->max_f32(x, n) : w->isa->max_f64(x, n);
}

static double sum_of(const work *w, const void *x, int64_t n) {
  double sums[2] = {0, 0};
  if (w->item == 4)
    w->isa->sum_f32(sums, x, n);
  else
    w->isa->sum_f64(sums, x, n);
  return sums[0] + sums[1];
}

/* The elements of memory, `apart`, as a sequence, and back. */
static void move(void *to, int64_t to_apart, const void *from, int64_t from_apart, int64_t n, int bytes) {
#define MOVE(T)                                                                                                        \
  for (int64_t i = 0; i < n; i++) ((T *)to)[i * to_apart] = ((const T *)from)[i * from_apart]
  if (to_apart == 1 && from_apart == 1)
    memcpy(to, from, (size_t)(n * bytes));
  else if (bytes == 2)
    MOVE(uint16_t);
  else if (bytes == 4)
    MOVE(uint32_t);
  else
    MOVE(uint64_t);
}

static int64_t start_of(const work *w, int64_t line) {
  int64_t inner = w->a->inner;
  return line / inner * w->a->n * inner + line % inner;
}

static char *at(const work *w, int k, int64_t element) { return (char *)w->a->head.ptr[k] + element * w->bytes; }

/* ---- lines one by one ---- */

/* Are these elements whole blocks that the loops can take where they lie? */
static bool is_plain(const work *w, int64_t n) {
  return w->a->inner == 1 && n % TIDE_BLOCK == 0 && w->a->dtype[0] == w->dtype;
}

/* Where n elements of a line stand, in dtype. */
static const void *load(const work *w, room *r, int64_t line, int64_t from, int64_t n) {
  const void *in = at(w, 1, start_of(w, line) + from * w->a->inner);
  if (is_plain(w, n)) return in;
  if (w->a->inner > 1) {
    move(r->raw, 1, in, w->a->inner, n, w->bytes);
    in = r->raw;
  }
  tide__cast(w->isa, r->x, w->dtype, in, w->a->dtype[1], n);
  memset(r->x + n * w->item, 0, (size_t)((tide__whole_blocks(n) - n) * w->item));
  return r->x;
}

/* Elements of a line become op(y, value). */
static void store(const work *w, room *r, tide_op op, double value, int64_t line, int64_t from, int64_t n) {
  void *out = at(w, 0, start_of(w, line) + from * w->a->inner);
  apply_number(w, r, op, is_plain(w, n) ? out : r->y, r->y, value, n);
  if (is_plain(w, n)) return;
  tide__cast(w->isa, w->a->inner > 1 ? r->raw : out, w->a->dtype[0], r->y, w->dtype, n);
  if (w->a->inner > 1) move(out, w->a->inner, r->raw, 1, n, w->bytes);
}

static state join(state a, state b) {
  if (a.most == -INFINITY) return b;
  if (b.most == -INFINITY) return a;
  double most = a.most >= b.most ? a.most : b.most;
  return (state){most, a.sum * exp(a.most - most) + b.sum * exp(b.most - most)};
}

/* What a stretch of a line is together; of its last piece y = exp(x - most) stays in the room. */
static state measure(const work *w, room *r, int64_t line, int64_t from, int64_t end) {
  state all = {-INFINITY, 0};
  for (int64_t i = from; i < end; i += PIECE) {
    int64_t n = end - i < PIECE ? end - i : PIECE;
    const void *x = load(w, r, line, i, n);
    state now = {largest(w, x, n), 0};
    if (now.most == -INFINITY) continue;
    apply_exp(w, r->y, x, now.most, n);
    now.sum = sum_of(w, r->y, n);
    all = join(all, now);
  }
  return all;
}

/* kept: of the one piece exp(x - most) stands in the room. */
static void finish(const work *w, room *r, int64_t line, int64_t from, int64_t end, state all, bool kept) {
  for (int64_t i = from; i < end; i += PIECE) {
    int64_t n = end - i < PIECE ? end - i : PIECE;
    if (w->logarithm)
      apply_number(w, r, TIDE_OP_sub, r->y, load(w, r, line, i, n), all.most, n);
    else if (!kept || all.most == -INFINITY)
      apply_exp(w, r->y, load(w, r, line, i, n), all.most, n);
    store(w, r, w->logarithm ? TIDE_OP_sub : TIDE_OP_mul, w->logarithm ? log(all.sum) : 1 / all.sum, line, i, n);
  }
}

/* A line of one stretch whose elements need no conversion, in place: whole blocks, and the rest through a buffer. */
static void near_line(const work *w, room *r, int64_t line) {
  const char *in = at(w, 1, line * w->a->n);
  char *out = at(w, 0, line * w->a->n);
  int64_t n = w->a->n, whole = n / TIDE_BLOCK * TIDE_BLOCK, rest = (n - whole) * w->item;
  double most = largest(w, in, n), sum = 0;
  if (rest) {
    memset(r->x, 0, (size_t)(TIDE_BLOCK * w->item));
    memcpy(r->x, in + whole * w->item, (size_t)rest);
  }
  for (int64_t i = 0; i < whole; i += PIECE) {
    int64_t m = whole - i < PIECE ? whole - i : PIECE;
    char *y = w->logarithm ? r->y : out + i * w->item;
    apply_exp(w, y, in + i * w->item, most, m);
    sum += sum_of(w, y, m);
  }
  if (rest) {
    apply_exp(w, r->y, r->x, most, TIDE_BLOCK);
    sum += sum_of(w, r->y, n - whole);
  }
  if (w->logarithm) {
    repeat(w, r->number, most, n < PIECE ? n : PIECE);
    repeat(w, r->raw, log(sum), n < PIECE ? n : PIECE);
    for (int64_t i = 0; i < whole; i += PIECE) {
      int64_t m = whole - i < PIECE ? whole - i : PIECE;
      apply(w, TIDE_OP_sub, r->y, in + i * w->item, r->number, m);
      apply(w, TIDE_OP_sub, out + i * w->item, r->y, r->raw, m);
    }
    if (rest) apply(w, TIDE_OP_sub, r->y, r->x, r->number, TIDE_BLOCK);
    if (rest) apply(w, TIDE_OP_sub, r->y, r->y, r->raw, TIDE_BLOCK);
  } else {
    repeat(w, r->number, 1 / sum, n < PIECE ? n : PIECE);
    for (int64_t i = 0; i < whole; i += PIECE)
      apply(w, TIDE_OP_mul, out + i * w->item, out + i * w->item, r->number, whole - i < PIECE ? whole - i : PIECE);
    if (rest) apply(w, TIDE_OP_mul, r->y, r->y, r->number, TIDE_BLOCK);
  }
  memcpy(out + whole * w->item, r->y, (size_t)rest);
}

static int64_t end_of(const work *w, int64_t stretch) {
  return (stretch + 1) * w->stretch < w->a->n ? (stretch + 1) * w->stretch : w->a->n;
}

static void run_lines(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  room r;
  for (int64_t line = begin; line < end && !tide__loop_stops(); line++) {
    if (w->near && w->a->inner == 1) {
      near_line(w, &r, line);
      continue;
    }
    state all = {-INFINITY, 0};
    for (int64_t s = 0; s < w->stretches; s++) all = join(all, measure(w, &r, line, s * w->stretch, end_of(w, s)));
    finish(w, &r, line, 0, w->a->n, all, w->a->n <= PIECE);
  }
}

static void run_measures(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  room r;
  for (int64_t s = begin; s < end && !tide__loop_stops(); s++)
    w->states[s] = measure(w, &r, w->line, s * w->stretch, end_of(w, s));
}

static void run_finishes(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  room r;
  for (int64_t s = begin; s < end && !tide__loop_stops(); s++)
    finish(w, &r, w->line, s * w->stretch, end_of(w, s), w->states[0], false);
}

/* Lines that are few and long: all threads work on one. */
static void run_stretches(work *w) {
  state states[MOST_STRETCHES], all;
  w->states = states;
  for (w->line = 0; w->line < w->a->outer * w->a->inner && !tide__loop_stops(); w->line++) {
    tide__parallel_for(w->stretches, 1, run_measures, w);
    if (tide__loop_stops()) return;
    all = (state){-INFINITY, 0};
    for (int64_t s = 0; s < w->stretches; s++) all = join(all, states[s]);
    states[0] = all;
    tide__parallel_for(w->stretches, 1, run_finishes, w);
  }
}

/* ---- very short lines of float32, one behind the other ---- */

static void run_short(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  const int64_t n = w->a->n;
  const tide__lines_form form = w->logarithm ? TIDE__LINES_LOG_SOFTMAX : TIDE__LINES_SOFTMAX;
  _Alignas(64) float x[PIECE];
  for (int64_t i = begin; i < end && !tide__loop_stops(); i++) {
    const int64_t first = i * w->columns, left = w->a->outer - first, lines = left < w->columns ? left : w->columns;
    char *in = at(w, 1, first * n), *out = at(w, 0, first * n);
    if (w->plain) {
      tide__short_lines(w->isa, form, (float *)(void *)out, (float *)(void *)in, n, lines);
    } else {
      tide__cast(w->isa, x, w->dtype, in, w->a->dtype[1], lines * n);
      tide__short_lines(w->isa, form, x, x, n, lines);
      tide__cast(w->isa, out, w->a->dtype[0], x, w->dtype, lines * n);
    }
  }
}

/* ---- lines together ---- */

/* Some columns, `wide` apart in the room, `rows` rows of them at a time. */
typedef struct strip {
  int64_t first, columns, wide, rows; /* first: the line */
} strip;

static void load_rows(const work *w, room *r, const strip *s, int64_t row, int64_t rows) {
  int64_t inner = w->a->inner;
  memset(r->raw, 0, (size_t)(rows * s->wide * w->bytes));
  if (inner >= LEAST_COLUMNS)
    for (int64_t i = 0; i < rows; i++)
      memcpy(r->raw + i * s->wide * w->bytes, at(w, 1, start_of(w, s->first) + (row + i) * inner),
             (size_t)(s->columns * w->bytes));
  else
    for (int64_t j = 0; j < s->columns; j++)
      move(r->raw + j * w->bytes, s->wide, at(w, 1, start_of(w, s->first + j) + row * inner), inner, rows, w->bytes);
  tide__cast(w->isa, r->x, w->dtype, r->raw, w->a->dtype[1], rows * s->wide);
}

static void store_rows(const work *w, room *r, const strip *s, int64_t row, int64_t rows) {
  int64_t inner = w->a->inner;
  tide__cast(w->isa, r->raw, w->a->dtype[0], r->x, w->dtype, rows * s->wide);
  if (inner >= LEAST_COLUMNS)
    for (int64_t i = 0; i < rows; i++)
      memcpy(at(w, 0, start_of(w, s->first) + (row + i) * inner), r->raw + i * s->wide * w->bytes,
             (size_t)(s->columns * w->bytes));
  else
    for (int64_t j = 0; j < s->columns; j++)
      move(at(w, 0, start_of(w, s->first + j) + row * inner), inner, r->raw + j * w->bytes, s->wide, rows, w->bytes);
}

/* op of every row in the room and one row, where each of them stands, or in `one`. */
static void each_row(const work *w, room *r, const strip *s, tide_op op, char *one, int64_t rows, bool into_one) {
  for (int64_t i = 0; i < rows; i++) {
    char *x = r->x + i * s->wide * w->item;
    apply(w, op, into_one ? one : x, into_one ? one : x, into_one ? x : one, s->wide);
  }
}

static void run_strip(const work *w, room *r, const strip *s) {
  _Alignas(64) char most[8 * COLUMNS], sum[8 * COLUMNS], part[8 * COLUMNS];
  int64_t n = w->a->n;
  bool whole = n <= s->rows;
  for (int64_t row = 0; row < n; row += s->rows) {
    int64_t rows = n - row < s->rows ? n - row : s->rows;
    load_rows(w, r, s, row, rows);
    if (row == 0) memcpy(most, r->x, (size_t)(s->wide * w->item));
    each_row(w, r, s, TIDE_OP_maximum, most, rows, true);
  }
  memset(sum, 0, sizeof sum);
  for (int64_t row = 0; row < n && !tide__loop_stops(); row += s->rows) {
    int64_t rows = n - row < s->rows ? n - row : s->rows;
    if (!whole) load_rows(w, r, s, row, rows);
    each_row(w, r, s, TIDE_OP_sub, most, rows, false);
    if (w->logarithm) memcpy(r->y, r->x, (size_t)(rows * s->wide * w->item));
    apply(w, TIDE_OP_exp, r->x, r->x, NULL, rows * s->wide);
    memset(part, 0, sizeof part);
    each_row(w, r, s, TIDE_OP_add, part, rows, true);
    apply(w, TIDE_OP_add, sum, sum, part, s->wide);
  }
  if (w->logarithm) apply(w, TIDE_OP_log, sum, sum, NULL, s->wide);
  for (int64_t row = 0; row < n && !tide__loop_stops(); row += s->rows) {
    int64_t rows = n - row < s->rows ? n - row : s->rows;
    if (!whole) {
      load_rows(w, r, s, row, rows);
      each_row(w, r, s, TIDE_OP_sub, most, rows, false);
      if (!w->logarithm) apply(w, TIDE_OP_exp, r->x, r->x, NULL, rows * s->wide);
    } else if (w->logarithm) {
      memcpy(r->x, r->y, (size_t)(rows * s->wide * w->item));
    }
    each_row(w, r, s, w->logarithm ? TIDE_OP_sub : TIDE_OP_div, sum, rows, false);
    store_rows(w, r, s, row, rows);
  }
}

/* Whole blocks of columns that need no conversion, where they stand: three walks over their rows. */
static void near_strip(const work *w, int64_t first, int64_t columns) {
  _Alignas(64) char most[8 * COLUMNS], sum[8 * COLUMNS], part[8 * COLUMNS], y[8 * COLUMNS];
  const int64_t n = w->a->n, pitch = w->a->inner * w->item;
  const char *in = at(w, 1, start_of(w, first));
  char *out = at(w, 0, start_of(w, first));
  memcpy(most, in, (size_t)(columns * w->item));
  for (int64_t row = 1; row < n; row++) apply(w, TIDE_OP_maximum, most, most, in + row * pitch, columns);
  memset(sum, 0, sizeof sum);
  for (int64_t row = 0; row < n && !tide__loop_stops(); row++) {
    char *to = w->logarithm ? y : out + row * pitch;
    if (row % TURN == 0) memset(part, 0, sizeof part);
    apply(w, TIDE_OP_sub, to, in + row * pitch, most, columns);
    apply(w, TIDE_OP_exp, to, to, NULL, columns);
    apply(w, TIDE_OP_add, part, part, to, columns);
    if (row % TURN == TURN - 1 || row == n - 1) apply(w, TIDE_OP_add, sum, sum, part, columns);
  }
  if (w->logarithm) apply(w, TIDE_OP_log, sum, sum, NULL, columns);
  for (int64_t row = 0; row < n && !tide__loop_stops(); row++) {
    char *to = out + row * pitch;
    if (w->logarithm) apply(w, TIDE_OP_sub, y, in + row * pitch, most, columns);
    apply(w, w->logarithm ? TIDE_OP_sub : TIDE_OP_div, to, w->logarithm ? y : to, sum, columns);
  }
}

/* Item i is a strip of lines that lie side by side, or of any very short ones. */
static void run_strips(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  room r;
  int64_t lines = w->a->inner >= LEAST_COLUMNS ? w->a->inner : w->a->outer * w->a->inner;
  for (int64_t i = begin; i < end && !tide__loop_stops(); i++) {
    int64_t first = i % w->strips * w->columns, left = lines - first;
    strip s = {i / w->strips * lines + first, left < w->columns ? left : w->columns, 0, 0};
    if (w->plain && w->a->inner >= LEAST_COLUMNS) {
      int64_t whole = s.columns / TIDE_BLOCK * TIDE_BLOCK;
      if (whole) near_strip(w, s.first, whole);
      s.first += whole, s.columns -= whole;
    }
    s.wide = tide__whole_blocks(s.columns), s.rows = s.wide ? PIECE / s.wide : 0;
    if (s.columns) run_strip(w, &r, &s);
  }
}

tide_status tide__cpu_softmax(tide_stream *stream, const tide_scan_args *a) {
  bool wide = a->work == TIDE_FLOAT64;
  work w = {.a = a, .isa = tide__isa_get(), .dtype = a->work, .bytes = tide__item(a->dtype[0]), .item = wide ? 8 : 4};
  w.type = tide__ctype_of(a->work), w.logarithm = a->op == TIDE_SOFTMAX_LOG;
  w.plain = a->dtype[0] == w.dtype && a->dtype[1] == w.dtype, w.near = w.plain && a->n * w.item <= NEAR_BYTES;
  w.stretch = (a->n + MOST_STRETCHES - 1) / MOST_STRETCHES;
  w.stretch = w.stretch <= LEAST_STRETCH ? LEAST_STRETCH : (w.stretch + PIECE - 1) / PIECE * PIECE;
  w.stretches = (a->n + w.stretch - 1) / w.stretch;
  int64_t lines = a->outer * a->inner, side = a->inner >= LEAST_COLUMNS ? a->inner : lines;
  w.columns =
      a->n > PIECE / COLUMNS && a->n <= PIECE / LEAST_COLUMNS ? PIECE / a->n / TIDE_BLOCK * TIDE_BLOCK : COLUMNS;
  if (w.plain && a->inner >= LEAST_COLUMNS) w.columns = a->n * w.item * COLUMNS > NEAR_BYTES ? COLUMNS / 4 : COLUMNS;
  const bool is_short = a->inner == 1 && a->n > 0 && a->n <= TIDE__SHORT_LINE && !wide;
  if (is_short) w.columns = PIECE / a->n;
  w.strips = (side + w.columns - 1) / w.columns;
  if (is_short)
    tide__spread(w.strips, a->n * w.columns, run_short, &w);
  else if (a->inner >= LEAST_COLUMNS || a->n <= TIDE__SHORT_LINE)
    tide__spread(lines / side * w.strips, a->n * w.columns, run_strips, &w);
  else if (w.stretches >= 4 && lines < tide_get_num_threads())
    run_stretches(&w);
  else
    tide__spread(lines, a->n, run_lines, &w);
  return TIDE_OK;
}
