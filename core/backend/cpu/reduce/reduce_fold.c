/* reduce_fold.c: how elements are loaded, mapped and put together, along a row and column by column (reduce.h).
 *
 * Along a row the loops of isa.h fold a chunk in fixed lanes and the chunk joins the state in double. Column by column
 * the elementwise loops of add, mul, maximum and minimum do the work on rows of accumulators.
 *
 * Invariant: what a state says depends on the elements and on how the caller cuts them, never on threads. */
#include "reduce.h"

#include "base/pairs.h"

enum { PART_ROWS = 64, PAIR_LANES = 32 }; /* rows summed in float32; pairs that a row folds side by side */

static const struct {
  void (*none)(double *first, double *second);
  double (*end)(double first, double second);
} pair_ends[TIDE_REDUCTION_COUNT] = {
#define REDUCTION(NAME, name, rule, empty, fold, kernels, form, doc)                                                   \
  TIDE_IF_PAIR(fold, [TIDE_##NAME] = {tide_##name##_none_f64, tide_##name##_end_f64}, )
#include "tide/reduction.def"
};

static bool is_complex(int dtype) { return dtype == TIDE_COMPLEX64 || dtype == TIDE_COMPLEX128; }
static bool is_integer(int dtype) { return dtype == TIDE_INT32 || dtype == TIDE_INT64; }

/* out = op(a, b) over n elements of the dtype: whole blocks where they are, the rest through small buffers. */
static void apply(const tide__fold *f, int op, int dtype, void *out, const void *a, const void *b, const void *param,
                  int64_t n) {
  tide__loop loop = f->isa->op[op][tide__ctype_of(dtype)];
  int64_t whole = n / TIDE_BLOCK * TIDE_BLOCK, item = tide__item(dtype);
  loop(out, a, b, NULL, param, whole / TIDE_BLOCK);
  if (whole == n) return;
  _Alignas(64) char rest[3][TIDE_BLOCK * 16];
  memset(rest, 0, sizeof rest);
  memcpy(rest[1], (const char *)a + whole * item, (size_t)((n - whole) * item));
  if (b) memcpy(rest[2], (const char *)b + whole * item, (size_t)((n - whole) * item));
  loop(rest[0], rest[1], rest[2], NULL, param, 1);
  memcpy((char *)out + whole * item, rest[0], (size_t)((n - whole) * item));
}

/* ---- loading ---- */

int64_t tide__fold_piece(const tide__fold *f) {
  int item = f->map == TIDE_MAP_TRUTH ? 8 : tide__item(f->dtype);
  return item <= 4 ? TIDE_PIECE : TIDE_PIECE_BYTES / item;
}

static void power(const tide__fold *f, double *x, int64_t n) {
  double exponent[TIDE_BLOCK];
  const char no_param[48] = {0};
  for (int i = 0; i < TIDE_BLOCK; i++) exponent[i] = f->param;
  for (int64_t i = 0; i < n; i += TIDE_BLOCK)
    apply(f, TIDE_OP_pow, TIDE_FLOAT64, x + i, x + i, exponent, no_param, n - i < TIDE_BLOCK ? n - i : TIDE_BLOCK);
}

static void map(const tide__fold *f, void *out, const void *in, int64_t n) {
  static const float number_f32[3] = {0, INFINITY, -INFINITY};
  static const double number_f64[3] = {0, INFINITY, -INFINITY};
  const void *number = f->dtype == TIDE_FLOAT32 ? (const void *)number_f32 : (const void *)number_f64;
  switch (f->map) {
  case TIDE_MAP_NUMBER: apply(f, TIDE_OP_nan_to_num, f->dtype, out, in, NULL, number, n); return;
  case TIDE_MAP_SQUARE: apply(f, TIDE_OP_square, f->dtype, out, in, NULL, number, n); return;
  default: apply(f, TIDE_OP_abs, f->dtype, out, in, NULL, number, n); break;
  }
  if (f->map == TIDE_MAP_POWER) power(f, out, n);
}

const void *tide__fold_load(const tide__fold *f, tide__fold_room *room, const void *base, const tide__grid *g,
                            const tide__chunk *c, int k, int from) {
  if (f->map == TIDE_MAP_TRUTH) {
    uint8_t truth[TIDE_PIECE];
    const void *x = tide__chunk_load(f->isa, truth, room->raw, base, g, c, k, TIDE_BOOL, from);
    tide__cast(f->isa, room->buffer, TIDE_INT64, x, TIDE_BOOL, c->n);
    return room->buffer;
  }
  const void *x = tide__chunk_load(f->isa, room->buffer, room->raw, base, g, c, k, f->dtype, from);
  if (f->map == TIDE_MAP_NONE) return x;
  map(f, room->buffer, x, c->n);
  return room->buffer;
}

/* ---- along a row ---- */

void tide__state_init(tide__state *s, const tide__fold *f) {
  *s = (tide__state){0, 0, 0, -1};
  if (f->kind == TIDE_FOLD_PROD)
    s->re = 1, s->i = 1;
  else if (f->kind == TIDE_FOLD_PAIR)
    pair_ends[f->op].none(&s->re, &s->im);
}

static void fold_sum(tide__state *s, const tide__fold *f, const void *x, int64_t n) {
  double lanes[2];
  if (f->squares) {
    s->re += f->dtype == TIDE_FLOAT32 ? f->isa->squares_f32(x, n) : f->isa->square_dev_f64(x, 0, n);
    return;
  }
  switch (f->dtype) {
  case TIDE_INT64: s->i = (int64_t)((uint64_t)s->i + (uint64_t)f->isa->sum_i64(x, n)); return;
  case TIDE_FLOAT32: f->isa->sum_f32(lanes, x, n); break;
  case TIDE_FLOAT64: f->isa->sum_f64(lanes, x, n); break;
  case TIDE_COMPLEX64: f->isa->sum_f32(lanes, x, 2 * n); break;
  default: f->isa->sum_f64(lanes, x, 2 * n); break;
  }
  if (is_complex(f->dtype))
    s->re += lanes[0], s->im += lanes[1];
  else
    s->re += lanes[0] + lanes[1];
}

static void multiply(tide__state *s, double re, double im) {
  double was = s->re;
  s->re = was * re - s->im * im;
  s->im = was * im + s->im * re;
}

static void fold_prod(tide__state *s, const tide__fold *f, const void *x, int64_t n) {
  const double *pairs = x;
  if (f->dtype == TIDE_INT64)
    s->i = (int64_t)((uint64_t)s->i * (uint64_t)f->isa->prod_i64(x, n));
  else if (f->dtype == TIDE_FLOAT64)
    s->re *= f->isa->prod_f64(x, n);
  else if (f->dtype == TIDE_FLOAT32)
    s->re *= f->isa->prod_f32(x, n);
  else
    for (int64_t i = 0; i < n; i++) multiply(s, pairs[2 * i], pairs[2 * i + 1]);
}

/* Takes a value of index `index` if it is better, or the first NaN. */
static bool better(const tide__state *s, const tide__fold *f, double re, int64_t i) {
  if (s->index < 0) return true;
  bool max = f->kind == TIDE_FOLD_MAX;
  if (is_integer(f->dtype)) return max ? i > s->i : i < s->i;
  if (s->re != s->re) return false;
  return re != re || (max ? re > s->re : re < s->re);
}

/* The best of x, in re or i. */
static void best_of(double *re, int64_t *i, const tide__fold *f, const void *x, int64_t n) {
  bool max = f->kind == TIDE_FOLD_MAX;
  switch (f->dtype) {
  case TIDE_INT32: *i = max ? f->isa->max_i32(x, n) : f->isa->min_i32(x, n); break;
  case TIDE_INT64: *i = max ? f->isa->max_i64(x, n) : f->isa->min_i64(x, n); break;
  case TIDE_FLOAT32: *re = (double)(max ? f->isa->max_f32(x, n) : f->isa->min_f32(x, n)); break;
  default: *re = max ? f->isa->max_f64(x, n) : f->isa->min_f64(x, n); break;
  }
}

#define FIND(T, value)                                                                                                 \
  do {                                                                                                                 \
    const T *v = x, wanted = (T)(value);                                                                               \
    int64_t at = 0;                                                                                                    \
    if (wanted == wanted)                                                                                              \
      while (at < n - 1 && v[at] != wanted) at++;                                                                      \
    else                                                                                                               \
      while (at < n - 1 && v[at] == v[at]) at++;                                                                       \
    return at;                                                                                                         \
  } while (0)

static int64_t find(const tide__fold *f, const void *x, int64_t n, double re, int64_t i) {
  switch (f->dtype) {
  case TIDE_INT32: FIND(int32_t, i);
  case TIDE_INT64: FIND(int64_t, i);
  case TIDE_FLOAT32: FIND(float, re);
  default: FIND(double, re);
  }
}

static void fold_best(tide__state *s, const tide__fold *f, const void *x, int64_t n, int64_t first) {
  double re = 0;
  int64_t i = 0;
  best_of(&re, &i, f, x, n);
  if (!better(s, f, re, i)) return;
  s->re = re, s->i = i;
  s->index = f->index ? first + find(f, x, n, re, i) : first;
}

static void join_var(tide__state *s, double mean, double deviations, int64_t n) {
  double total = (double)(s->i + n), distance = mean - s->re;
  if (n == 0) return;
  s->im += deviations + distance * distance * ((double)s->i * (double)n / total);
  s->re += distance * ((double)n / total);
  s->i += n;
}

/* Every lane takes its elements; then the lanes meet by halves, and the first one the state. */
static void fold_pair(tide__state *s, const tide__fold *f, const double *x, int64_t n) {
  double first[PAIR_LANES], second[PAIR_LANES];
  tide__pair_fold fold = f->isa->pair[f->op];
  for (int i = 0; i < PAIR_LANES; i++) pair_ends[f->op].none(&first[i], &second[i]);
  for (int64_t i = 0; i < n; i += PAIR_LANES) fold(first, second, x + i, NULL, n - i < PAIR_LANES ? n - i : PAIR_LANES);
  for (int some = PAIR_LANES / 2; some; some /= 2) fold(first, second, first + some, second + some, some);
  fold(&s->re, &s->im, first, second, 1);
}

/* logsumexp, by the loops of exponentials: pieces give the largest element and the sum of what is below it. */
static void fold_exponentials(tide__state *s, const tide__fold *f, const char *x, int64_t n) {
  enum { PART = 1024 };
  _Alignas(64) char y[8 * PART], rest[8 * TIDE_BLOCK];
  const bool wide = f->dtype == TIDE_FLOAT64;
  const int64_t item = wide ? 8 : 4;
  for (int64_t i = 0; i < n; i += PART) {
    int64_t m = n - i < PART ? n - i : PART, whole = m / TIDE_BLOCK * TIDE_BLOCK;
    const char *in = x + i * item;
    double most = wide ? f->isa->max_f64((const void *)in, m) : (double)f->isa->max_f32((const void *)in, m);
    double sum = 1, lanes[2];
    float narrow = (float)most;
    const void *less = wide ? (const void *)&most : &narrow;
    if (most == -INFINITY) continue;
    if (most < INFINITY) {
      f->isa->exp_less[wide](y, in, NULL, NULL, less, whole / TIDE_BLOCK);
      if (whole < m) {
        memset(rest, 0, sizeof rest);
        memcpy(rest, in + whole * item, (size_t)((m - whole) * item));
        f->isa->exp_less[wide](y + whole * item, rest, NULL, NULL, less, 1);
      }
      if (wide)
        f->isa->sum_f64(lanes, (const void *)y, m);
      else
        f->isa->sum_f32(lanes, (const void *)y, m);
      sum = lanes[0] + lanes[1];
    } else if (most != most) {
      sum = most, most = -INFINITY;
    }
    f->isa->pair[f->op](&s->re, &s->im, &most, &sum, 1);
  }
}

void tide__states_end(tide__state *s, const tide__fold *f, int64_t n) {
  for (int64_t j = 0; j < n; j++) s[j].re = pair_ends[f->op].end(s[j].re, s[j].im);
}

void tide__state_fold(tide__state *s, const tide__fold *f, const void *x, int64_t n, int64_t first) {
  double lanes[2], mean;
  switch (f->kind) {
  case TIDE_FOLD_SUM: fold_sum(s, f, x, n); break;
  case TIDE_FOLD_PROD: fold_prod(s, f, x, n); break;
  case TIDE_FOLD_VAR:
    f->isa->sum_f64(lanes, x, n);
    mean = (lanes[0] + lanes[1]) / (double)n;
    join_var(s, mean, f->isa->square_dev_f64(x, mean, n), n);
    break;
  case TIDE_FOLD_PAIR:
    if (f->op == TIDE_LOGSUMEXP)
      fold_exponentials(s, f, x, n);
    else
      fold_pair(s, f, x, n);
    break;
  default: fold_best(s, f, x, n, first); break;
  }
}

void tide__state_join(tide__state *s, const tide__fold *f, const tide__state *t) {
  switch (f->kind) {
  case TIDE_FOLD_SUM:
    s->re += t->re, s->im += t->im;
    s->i = (int64_t)((uint64_t)s->i + (uint64_t)t->i);
    break;
  case TIDE_FOLD_PROD:
    if (is_complex(f->dtype))
      multiply(s, t->re, t->im);
    else
      s->re *= t->re;
    s->i = (int64_t)((uint64_t)s->i * (uint64_t)t->i);
    break;
  case TIDE_FOLD_VAR: join_var(s, t->re, t->im, t->i); break;
  case TIDE_FOLD_PAIR: f->isa->pair[f->op](&s->re, &s->im, &t->re, &t->im, 1); break;
  default:
    if (t->index >= 0 && better(s, f, t->re, t->i)) *s = *t;
    break;
  }
}

/* ---- column by column ---- */

static bool has_part(const tide__fold *f) {
  return f->kind == TIDE_FOLD_SUM && (f->dtype == TIDE_FLOAT32 || f->dtype == TIDE_COMPLEX64);
}
static int wide_dtype(const tide__fold *f) {
  if (f->kind == TIDE_FOLD_PAIR) return TIDE_FLOAT64;
  return !has_part(f) ? f->dtype : f->dtype == TIDE_FLOAT32 ? TIDE_FLOAT64 : TIDE_COMPLEX128;
}

/* The elementwise op that takes another row, but for VAR and PAIR. */
static int column_op(const tide__fold *f) {
  static const uint8_t ops[] = {[TIDE_FOLD_SUM] = TIDE_OP_add,
                                [TIDE_FOLD_PROD] = TIDE_OP_mul,
                                [TIDE_FOLD_MAX] = TIDE_OP_maximum,
                                [TIDE_FOLD_MIN] = TIDE_OP_minimum};
  return ops[f->kind];
}

void tide__columns_init(tide__columns *c, const tide__fold *f, int64_t n) {
  c->fold = f, c->n = n, c->rows = c->pending = 0;
}

/* The rows summed in float32 join the others. */
static void flush(tide__columns *c) {
  const tide__fold *f = c->fold;
  _Alignas(64) char wide[TIDE_COLUMNS * 16];
  const char no_param[48] = {0};
  int to = wide_dtype(f);
  bool first = c->rows == c->pending;
  tide__cast(f->isa, first ? c->all : wide, to, c->part, f->dtype, c->n);
  if (!first) apply(f, TIDE_OP_add, to, c->all, c->all, wide, no_param, c->n);
  c->pending = 0;
}

/* Rows of float32, which lie pitch numbers apart. */
static void fold_part_rows(tide__columns *c, const float *x, int64_t pitch, int64_t rows) {
  int64_t n = c->fold->dtype == TIDE_COMPLEX64 ? 2 * c->n : c->n;
  while (rows > 0) {
    int64_t some = rows < PART_ROWS - c->pending ? rows : PART_ROWS - c->pending;
    if (c->pending == 0) memset(c->part, 0, (size_t)n * sizeof(float));
    c->fold->isa->sum_rows_f32((float *)c->part, x, pitch, some, n);
    c->rows += some, c->pending += some, rows -= some, x += some * pitch;
    if (c->pending == PART_ROWS) flush(c);
  }
}

/* Where the columns of VAR and PAIR have their second numbers: VAR the deviations, behind the means. */
static double *second_of(const tide__columns *c) { return (double *)(uintptr_t)(c->all + TIDE_COLUMNS * 8); }

#if defined(__GNUC__) && !defined(__clang__)
#  define SMALL __attribute__((optimize("Os")))
#else
#  define SMALL
#endif

/* Rows pitch bytes apart. logsumexp takes float32 too: the largest elements of some rows and the sums of their
 * exponentials are pairs. The other pairs take rows of float64. */
SMALL static void fold_pairs(tide__columns *c, const char *x, int64_t pitch, int64_t rows) {
  const tide__fold *f = c->fold;
  const int64_t n = c->n, bytes = n * tide__item(f->dtype);
  const char no_param[48] = {0};
  double *first = (double *)c->all, *second = second_of(c), most[TIDE_COLUMNS], sum[TIDE_COLUMNS];
  _Alignas(64) char less[8 * TIDE_COLUMNS], y[8 * TIDE_COLUMNS], part[8 * TIDE_COLUMNS];
  for (int64_t j = 0; c->rows == 0 && j < n; j++) pair_ends[f->op].none(&first[j], &second[j]);
  for (; f->op != TIDE_LOGSUMEXP && rows > 0; rows--, c->rows++, x += pitch)
    f->isa->pair[f->op](first, second, (const void *)x, NULL, n);
  for (int64_t some; rows > 0; rows -= some, c->rows += some, x += some * pitch) {
    some = rows < PART_ROWS ? rows : PART_ROWS;
    memcpy(less, x, (size_t)bytes), memset(part, 0, (size_t)bytes);
    for (int64_t r = 1; r < some; r++) apply(f, TIDE_OP_maximum, f->dtype, less, less, x + r * pitch, no_param, n);
    tide__cast(f->isa, most, TIDE_FLOAT64, less, f->dtype, n);
    for (int64_t j = 0; j < n; j++) sum[j] = fabs(most[j]) < INFINITY ? most[j] : 0;
    tide__cast(f->isa, less, f->dtype, sum, TIDE_FLOAT64, n);
    for (int64_t r = 0; r < some; r++) {
      apply(f, TIDE_OP_sub, f->dtype, y, x + r * pitch, less, no_param, n);
      apply(f, TIDE_OP_exp, f->dtype, y, y, NULL, no_param, n);
      apply(f, TIDE_OP_add, f->dtype, part, part, y, no_param, n);
    }
    tide__cast(f->isa, sum, TIDE_FLOAT64, part, f->dtype, n);
    for (int64_t j = 0; j < n; j++) {
      if (most[j] == INFINITY) sum[j] = 1;
      if (most[j] != most[j]) most[j] = -INFINITY;
    }
    f->isa->pair[f->op](first, second, most, sum, n);
  }
}

static void fold_first(tide__columns *c, const void *x, int64_t row) {
  memcpy(c->all, x, (size_t)(c->n * tide__item(c->fold->dtype)));
  if (c->fold->kind == TIDE_FOLD_VAR) memset(second_of(c), 0, (size_t)c->n * 8);
  for (int64_t j = 0; j < c->n; j++) c->index[j] = row;
}

static void fold_row(tide__columns *c, const void *x, int64_t row) {
  const tide__fold *f = c->fold;
  const char no_param[48] = {0};
  int type = (int)tide__ctype_of(f->dtype);
  if (c->rows++ == 0)
    fold_first(c, x, row);
  else if (f->kind == TIDE_FOLD_VAR)
    f->isa->welford((double *)c->all, second_of(c), x, (double)c->rows, c->n);
  else if (f->index)
    (f->kind == TIDE_FOLD_MAX ? f->isa->argmax : f->isa->argmin)[type](c->all, c->index, x, row, c->n);
  else
    apply(f, column_op(f), f->dtype, c->all, c->all, x, no_param, c->n);
}

void tide__columns_fold_rows(tide__columns *c, const void *x, int64_t pitch, int64_t row, int64_t rows) {
  int64_t item = tide__item(c->fold->dtype);
  if (has_part(c->fold))
    fold_part_rows(c, x, pitch * item / (int64_t)sizeof(float), rows);
  else if (c->fold->kind == TIDE_FOLD_PAIR)
    fold_pairs(c, x, pitch * item, rows);
  else
    for (int64_t r = 0; r < rows; r++) fold_row(c, (const char *)x + r * pitch * item, row + r);
}

int tide__columns_end(tide__columns *c) {
  if (c->pending) flush(c);
  return wide_dtype(c->fold);
}

void tide__columns_join(tide__columns *c, const void *all) {
  const char no_param[48] = {0};
  apply(c->fold, column_op(c->fold), wide_dtype(c->fold), c->all, c->all, all, no_param, c->n);
}

void tide__columns_state(tide__state *s, const tide__columns *c, int64_t j) {
  const tide__fold *f = c->fold;
  *s = (tide__state){0, 0, 0, -1};
  switch (wide_dtype(f)) {
  case TIDE_INT32: s->i = ((const int32_t *)c->all)[j]; break;
  case TIDE_INT64: s->i = ((const int64_t *)c->all)[j]; break;
  case TIDE_FLOAT32: s->re = (double)((const float *)c->all)[j]; break;
  case TIDE_FLOAT64: s->re = ((const double *)c->all)[j]; break;
  default: s->re = ((const double *)c->all)[2 * j], s->im = ((const double *)c->all)[2 * j + 1]; break;
  }
  if (f->kind == TIDE_FOLD_MAX || f->kind == TIDE_FOLD_MIN)
    s->index = f->index ? c->index[j] : 0;
  else if (f->kind >= TIDE_FOLD_VAR)
    s->im = second_of(c)[j], s->i = c->rows;
}
