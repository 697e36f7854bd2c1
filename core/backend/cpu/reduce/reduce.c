/* reduce.c: the reductions, in one of two ways.
 *
 * Rows: each result folds its elements chunk by chunk; for few results the elements are cut into blocks of a fixed
 * size, which threads fold apart and which join in order. Columns: where neighbouring results have neighbouring
 * elements, or few elements each, up to TIDE_COLUMNS results are folded at once, one element of each at a time.
 *
 * Invariant: how elements are cut depends on sizes and strides alone, so results do not depend on the number of
 * threads. SUM and MEAN of float32 are sums of short float32 sums in float64. */
#include "reduce.h"

#include <math.h>
#include <stdlib.h>

#include "backend/cpu/loops/row_ops.h"

enum {
  SHORT_ROW = 32,         /* elements of a result that are too few for a loop of their own */
  NARROW = 16,            /* columns that are too few for a loop of their own */
  ROW_RESULTS = 64,       /* results of an item of work, at most, and items enough for any number of threads */
  ROW_BLOCK = 16,         /* chunks of a block of a row */
  WHOLE = 8,              /* chunks that are one where nothing is loaded into the room */
  COLUMN_BLOCK = 1 << 18, /* elements of a block of columns */
  STATES = 1 << 20,       /* of blocks, at most: strides of 0 let an input have any number of elements */
  LOOK_CHUNKS = 32,       /* of a long block between two looks whether the loop is to stop */
  LOOK_ELEMENTS = 1 << 18
};

typedef struct work {
  const tide_reduce_args *a;
  tide__fold fold;
  tide__grid keep, reduced;   /* operands of keep: result, input, second result */
  bool by_columns, direct;    /* direct: a sum of float32 that lie next to each other */
  int whole;                  /* chunks of the usual size in one of reduced */
  int64_t blocks, block_rows; /* of the elements of a result; rows of a block of columns, chunks of a block of a row */
  tide__state *states;        /* [results][blocks] where blocks > 1 */
} work;

/* ---- the fold ---- */

static bool is_integer_dtype(int dtype) { return dtype <= TIDE_INT64; }

/* MAX and MIN of narrow integers are computed in int32; products and norms in float64. */
static int best_dtype(int dtype) {
  if (is_integer_dtype(dtype)) return dtype == TIDE_INT64 ? TIDE_INT64 : TIDE_INT32;
  return dtype == TIDE_FLOAT64 ? TIDE_FLOAT64 : TIDE_FLOAT32;
}

static void norm_fold(tide__fold *f, const tide_reduce_args *a) {
  f->kind = TIDE_FOLD_SUM, f->map = TIDE_MAP_ABS, f->dtype = TIDE_FLOAT64, f->param = a->param;
  if (a->param == 0)
    f->map = TIDE_MAP_TRUTH, f->dtype = TIDE_INT64;
  else if (isinf(a->param))
    f->kind = a->param > 0 ? TIDE_FOLD_MAX : TIDE_FOLD_MIN, f->dtype = best_dtype(a->dtype[1]);
  else if (a->param == 1)
    f->dtype = a->acc;
  else
    f->map = a->param == 2 ? TIDE_MAP_SQUARE : TIDE_MAP_POWER;
}

/* What reduction.def says of each. */
enum { FOLDS_SUM, FOLDS_NUMBERS, FOLDS_PROD, FOLDS_MAX, FOLDS_MIN, FOLDS_TRUTH, FOLDS_NORM, FOLDS_VAR, FOLDS_PAIR };
static const uint8_t folds[] = {
#define REDUCTION(NAME, name, rule, empty, fold, kernels, form, doc) FOLDS_##fold,
#include "tide/reduction.def"
};

static bool is_single(const tide_reduce_args *a) {
  return a->dtype[1] == TIDE_FLOAT32 || a->dtype[1] == TIDE_FLOAT16 || a->dtype[1] == TIDE_BFLOAT16;
}

static void make_fold(tide__fold *f, const tide_reduce_args *a) {
  *f = (tide__fold){.isa = tide__isa_get(), .kind = TIDE_FOLD_SUM, .op = a->op, .dtype = a->acc};
  switch (folds[a->op]) {
  case FOLDS_NUMBERS: f->map = is_integer_dtype(a->acc) ? TIDE_MAP_NONE : TIDE_MAP_NUMBER; break;
  case FOLDS_PROD:
    f->kind = TIDE_FOLD_PROD;
    if (a->acc == TIDE_FLOAT32) f->dtype = TIDE_FLOAT64;
    if (a->acc == TIDE_COMPLEX64) f->dtype = TIDE_COMPLEX128;
    break;
  case FOLDS_MAX: f->kind = TIDE_FOLD_MAX, f->dtype = best_dtype(a->dtype[1]); break;
  case FOLDS_MIN: f->kind = TIDE_FOLD_MIN, f->dtype = best_dtype(a->dtype[1]); break;
  case FOLDS_TRUTH: f->map = TIDE_MAP_TRUTH, f->dtype = TIDE_INT64; break;
  case FOLDS_NORM: norm_fold(f, a); break;
  case FOLDS_VAR: f->kind = TIDE_FOLD_VAR, f->dtype = TIDE_FLOAT64; break;
  case FOLDS_PAIR:
    f->kind = TIDE_FOLD_PAIR;
    f->dtype = a->op == TIDE_LOGSUMEXP && is_single(a) ? TIDE_FLOAT32 : TIDE_FLOAT64;
    break;
  default: break;
  }
  f->index = a->op == TIDE_ARGMAX || a->op == TIDE_ARGMIN ||
             ((a->op == TIDE_MAX || a->op == TIDE_MIN) && a->head.ptr[2] != NULL);
}

/* Along rows squares and products of floats need no conversion to float64 before. */
static void fold_unmapped(tide__fold *f, const tide_reduce_args *a) {
  if (f->dtype != TIDE_FLOAT64) return;
  if (f->map == TIDE_MAP_SQUARE) f->squares = true, f->map = TIDE_MAP_NONE;
  if (is_single(a) && (f->squares || f->kind == TIDE_FOLD_PROD)) f->dtype = TIDE_FLOAT32;
}

/* ---- results ---- */

static double norm_end(double sum, double p) { return p == 1 ? sum : p == 2 ? sqrt(sum) : pow(sum, 1 / p); }

/* The value of a finished state: an integer in i, else in re and im. */
static tide_value value_of(const work *w, const tide__state *s) {
  const tide_reduce_args *a = w->a;
  tide_value v = {s->i, s->re * a->scale, s->im * a->scale};
  switch (a->op) {
  case TIDE_ALL: v.i = s->i == a->inner; break;
  case TIDE_ANY: v.i = s->i != 0; break;
  case TIDE_PROD:
  case TIDE_MAX:
  case TIDE_MIN: v.re = s->re, v.im = s->im; break;
  case TIDE_ARGMAX:
  case TIDE_ARGMIN: v.i = s->index + a->index_base; break;
  case TIDE_NORM:
    if (w->fold.map == TIDE_MAP_TRUTH)
      v.re = (double)s->i * a->scale;
    else
      v.re = (isinf(a->param) ? s->re : norm_end(s->re, a->param)) * a->scale;
    break;
  case TIDE_VAR:
  case TIDE_STD: {
    double divisor = (double)s->i - a->param, variance = s->im / (divisor > 0 ? divisor : 0);
    v.re = a->op == TIDE_STD ? sqrt(variance) : variance;
    break;
  }
  default: break;
  }
  return v;
}

static int value_dtype(const work *w) {
  const tide__fold *f = &w->fold;
  if (w->a->op == TIDE_NORM) return TIDE_FLOAT64;
  if (w->a->op == TIDE_ARGMAX || w->a->op == TIDE_ARGMIN) return TIDE_INT64;
  if (f->dtype == TIDE_INT32 || f->dtype == TIDE_INT64) return TIDE_INT64;
  return f->dtype == TIDE_COMPLEX64 || f->dtype == TIDE_COMPLEX128 ? TIDE_COMPLEX128 : TIDE_FLOAT64;
}

/* Writes the chunk's results from their states. */
static void store_states(const work *w, const tide__chunk *c, tide__state *states) {
  const tide_reduce_args *a = w->a;
  union {
    double f[2 * TIDE_COLUMNS];
    int64_t i[TIDE_COLUMNS];
  } first, second;
  char raw[TIDE_COLUMNS * 16];
  int dtype = value_dtype(w);
  bool var = w->fold.kind == TIDE_FOLD_VAR;
  if (w->fold.kind == TIDE_FOLD_PAIR) tide__states_end(states, &w->fold, c->n);
  for (int64_t j = 0; j < c->n; j++) {
    tide_value v = value_of(w, &states[j]);
    if (dtype == TIDE_INT64)
      first.i[j] = v.i;
    else if (dtype == TIDE_FLOAT64)
      first.f[j] = v.re;
    else
      first.f[2 * j] = v.re, first.f[2 * j + 1] = v.im;
    if (var)
      second.f[j] = states[j].re;
    else
      second.i[j] = states[j].index + a->index_base;
  }
  tide__chunk_store(w->fold.isa, a->head.ptr[0], raw, &first, &w->keep, c, 0, a->dtype[0], dtype, false);
  if (a->head.ptr[2])
    tide__chunk_store(w->fold.isa, a->head.ptr[2], raw, &second, &w->keep, c, 2, a->dtype[2],
                      var ? TIDE_FLOAT64 : TIDE_INT64, false);
}

/* ---- rows ---- */

static void fold_block(tide__state *s, const work *w, tide__fold_room *room, const char *base, int64_t block) {
  tide__chunk c;
  int64_t end = (block + 1) * w->block_rows;
  if (end > w->reduced.chunks) end = w->reduced.chunks;
  tide__state_init(s, &w->fold);
  if (w->whole > 1 && w->reduced.chunks == 1) {
    tide__state_fold(s, &w->fold, base, w->a->inner, 0);
    return;
  }
  for (int64_t i = block * w->block_rows; i < end; i++) {
    if (w->block_rows > LOOK_CHUNKS && i % LOOK_CHUNKS == 0 && tide__loop_stops()) return;
    tide__grid_chunk(&c, &w->reduced, i);
    const void *x = tide__fold_load(&w->fold, room, base, &w->reduced, &c, 0, w->a->dtype[1]);
    tide__state_fold(s, &w->fold, x, c.n, c.first);
  }
}

static const char *input_of(const work *w, const tide__chunk *c, int64_t j) {
  int64_t row = j / c->cols, col = j % c->cols;
  int64_t offset = c->offset[1][row] + col * w->keep.stride[1][w->keep.ndim - 1];
  return (const char *)w->a->head.ptr[1] + offset * tide__item(w->a->dtype[1]);
}

/* Items are chunks of results; every result has one block. */
static void run_rows(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  tide__fold_room room;
  tide__state states[ROW_RESULTS];
  tide__chunk c;
  for (int64_t i = begin; i < end; i++) {
    tide__grid_chunk(&c, &w->keep, i);
    for (int64_t j = 0; j < c.n; j++) fold_block(&states[j], w, &room, input_of(w, &c, j), 0);
    store_states(w, &c, states);
  }
}

/* Items are blocks of results; a chunk of results is one result. */
static void run_blocks(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  tide__fold_room room;
  tide__chunk c;
  for (int64_t i = begin; i < end; i++) {
    tide__grid_chunk(&c, &w->keep, i / w->blocks);
    fold_block(&w->states[i], w, &room, input_of(w, &c, 0), i % w->blocks);
  }
}

/* ---- many short sums of float32 ---- */

/* Scales and writes the sums of the chunk's results. */
static void store_sums(const work *w, char *raw, double *sums, const tide__chunk *c) {
  const tide_reduce_args *a = w->a;
  for (int64_t j = 0; j < c->n; j++) sums[j] *= a->scale;
  tide__chunk_store(w->fold.isa, a->head.ptr[0], raw, sums, &w->keep, c, 0, a->dtype[0], TIDE_FLOAT64, false);
}

/* Items are chunks of results, each of which sums one dense row. */
static void run_short_rows(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  double sums[ROW_RESULTS];
  char raw[ROW_RESULTS * 16];
  tide__chunk c;
  int64_t pitch = w->keep.stride[1][w->keep.ndim - 1];
  for (int64_t i = begin; i < end; i++) {
    tide__grid_chunk(&c, &w->keep, i);
    for (int64_t r = 0; r < c.rows; r++) {
      const float *x = (const float *)w->a->head.ptr[1] + c.offset[1][r];
      w->fold.isa->sum_each_f32(sums + r * c.cols, x, pitch, c.cols, w->a->inner);
    }
    store_sums(w, raw, sums, &c);
  }
}

/* Items are chunks of results, each of which is the logsumexp of one dense row of float32. */
static void run_short_exponentials(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  float results[ROW_RESULTS];
  char raw[ROW_RESULTS * 16];
  tide__chunk c;
  for (int64_t i = begin; i < end; i++) {
    tide__grid_chunk(&c, &w->keep, i);
    for (int64_t r = 0; r < c.rows; r++)
      tide__short_lines(w->fold.isa, TIDE__LINES_LOGSUMEXP, results + r * c.cols,
                        (const float *)w->a->head.ptr[1] + c.offset[1][r], w->a->inner, c.cols);
    tide__chunk_store(w->fold.isa, w->a->head.ptr[0], raw, results, &w->keep, &c, 0, w->a->dtype[0], TIDE_FLOAT32,
                      false);
  }
}

/* Items are chunks of results, each of which is the 2-norm of few numbers. */
static void run_short_norms(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  const tide_reduce_args *a = w->a;
  double norms[TIDE_COLUMNS];
  char raw[TIDE_COLUMNS * 16];
  tide__chunk c;
  int64_t pitch = w->keep.stride[1][w->keep.ndim - 1], item = tide__item(a->dtype[1]);
  for (int64_t i = begin; i < end; i++) {
    tide__grid_chunk(&c, &w->keep, i);
    for (int64_t r = 0; r < c.rows; r++)
      w->fold.isa->norm_each[item == 8](norms + r * c.cols, (const char *)a->head.ptr[1] + c.offset[1][r] * item, pitch,
                                        a->red_stride[0], c.cols, a->inner);
    store_sums(w, raw, norms, &c);
  }
}

/* Items are chunks of results, each of which sums a small block: its rows are parts of longer rows, of which those of
 * neighbouring results follow each other. So the long rows are added first, then their pieces are summed. */
static void run_short_blocks(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  const tide_reduce_args *a = w->a;
  _Alignas(64) float long_row[TIDE_COLUMNS];
  double sums[TIDE_COLUMNS];
  char raw[TIDE_COLUMNS * 16];
  tide__chunk c;
  int64_t piece = a->red_size[1];
  for (int64_t i = begin; i < end; i++) {
    tide__grid_chunk(&c, &w->keep, i);
    for (int64_t r = 0; r < c.rows; r++) {
      memset(long_row, 0, (size_t)(c.cols * piece) * sizeof *long_row);
      w->fold.isa->sum_rows_f32(long_row, (const float *)a->head.ptr[1] + c.offset[1][r], a->red_stride[0],
                                a->red_size[0], c.cols * piece);
      w->fold.isa->sum_each_f32(sums + r * c.cols, long_row, piece, c.cols, piece);
    }
    store_sums(w, raw, sums, &c);
  }
}

/* ---- columns ---- */

/* Walks over the reduced elements in row-major order: the offset of each from the first. */
typedef struct walk {
  const tide_reduce_args *a;
  int64_t at[TIDE_MAX_DIMS], offset;
} walk;

static void walk_begin(walk *k, const tide_reduce_args *a, int64_t row) {
  k->a = a, k->offset = 0;
  for (int d = a->nred - 1; d >= 0; d--) {
    k->at[d] = row % a->red_size[d], row /= a->red_size[d];
    k->offset += k->at[d] * a->red_stride[d];
  }
}

/* Steps over `count` elements, which do not pass the end of the last dim. */
static void walk_next(walk *k, int64_t count) {
  const tide_reduce_args *a = k->a;
  for (int d = a->nred - 1; d >= 0; d--, count = 1) {
    k->offset += count * a->red_stride[d];
    if ((k->at[d] += count) < a->red_size[d]) return;
    k->offset -= a->red_size[d] * a->red_stride[d];
    k->at[d] = 0;
  }
}

/* A chunk of `copies` times the columns, where the rows of the input follow each other without a gap. */
static int64_t joined_rows(const work *w, const tide__chunk *c) {
  const tide_reduce_args *a = w->a;
  if (w->fold.index || w->fold.kind == TIDE_FOLD_VAR || a->nred != 1 || a->red_stride[0] != c->n) return 1;
  return w->keep.chunks == 1 && c->joined[1] && c->n <= 4 * NARROW ? TIDE_COLUMNS / c->n : 1;
}

/* Folds rows [row, end), `copies` at a time as one row of the chunk; returns the row after the last, which is `end`
 * where the loop is to stop. Rows that are folded where they lie go in runs along the last dim of the walk. */
static int64_t fold_rows(const work *w, tide__fold_room *room, tide__columns *columns, const tide__chunk *c,
                         int64_t copies, int64_t row, int64_t end) {
  const tide_reduce_args *a = w->a;
  bool direct = c->joined[1] && a->dtype[1] == w->fold.dtype && w->fold.map == TIDE_MAP_NONE;
  int last = a->nred - 1;
  int64_t most = LOOK_ELEMENTS / c->n + 1, looked = row; /* rows between two looks */
  walk k;
  walk_begin(&k, a, row);
  for (; row + copies <= end;) {
    if (row - looked >= most) {
      if (tide__loop_stops()) return end;
      looked = row;
    }
    const char *base = (const char *)a->head.ptr[1] + k.offset * tide__item(a->dtype[1]);
    const void *x = tide__fold_load(&w->fold, room, base, &w->keep, c, 1, a->dtype[1]);
    int64_t run = direct ? tide__least(tide__least(a->red_size[last] - k.at[last], end - row) / copies, most) : 1;
    tide__columns_fold_rows(columns, x, copies * a->red_stride[last], row, run);
    row += run * copies;
    walk_next(&k, run * copies);
  }
  return row;
}

/* Folds rows [row, end) of the chunk's columns into states[j * pitch]. Narrow rows are folded several at a time, as one
 * wide row whose columns join at the end. */
static void fold_columns(const work *w, tide__fold_room *room, tide__columns *columns, const tide__chunk *c,
                         int64_t row, int64_t end, tide__state *states, int64_t pitch) {
  int64_t copies = joined_rows(w, c);
  tide__chunk wide = *c;
  if (copies > end - row) copies = end - row;
  wide.n = wide.cols = c->n * copies;
  if (copies == 1) wide.cols = c->cols;
  for (int64_t j = 0; j < c->n; j++) tide__state_init(&states[j * pitch], &w->fold);
  while (row < end) {
    tide__columns_init(columns, &w->fold, wide.n);
    row = fold_rows(w, room, columns, &wide, copies, row, end);
    tide__columns_end(columns);
    for (int64_t j = 0; j < wide.n; j++) {
      tide__state one;
      tide__columns_state(&one, columns, j);
      tide__state_join(&states[j % c->n * pitch], &w->fold, &one);
    }
    copies = end - row, wide.n = wide.cols = c->n * copies;
  }
}

/* Are the accumulators of columns the results, but for the scale? */
static bool is_plain(const work *w, const tide__chunk *c) {
  const tide_reduce_args *a = w->a;
  bool plain = w->fold.kind <= TIDE_FOLD_MIN && w->fold.map <= TIDE_MAP_NUMBER && !w->fold.index;
  plain = plain && joined_rows(w, c) == 1;
  return plain && (a->scale == 1 || w->fold.dtype == TIDE_FLOAT32 || w->fold.dtype == TIDE_FLOAT64);
}

/* Rows [row, end) of the chunk's columns, without states; the dtype of the accumulators. */
static int fold_plain(const work *w, tide__fold_room *room, tide__columns *columns, const tide__chunk *c, int64_t row,
                      int64_t end) {
  tide__columns_init(columns, &w->fold, c->n);
  fold_rows(w, room, columns, c, 1, row, end);
  return tide__columns_end(columns);
}

static void store_plain(const work *w, char *raw, tide__columns *columns, const tide__chunk *c, int dtype) {
  const tide_reduce_args *a = w->a;
  if (a->scale != 1 && dtype == TIDE_FLOAT64 && w->fold.kind == TIDE_FOLD_SUM)
    for (int64_t j = 0; j < c->n; j++) ((double *)columns->all)[j] *= a->scale;
  tide__chunk_store(w->fold.isa, a->head.ptr[0], raw, columns->all, &w->keep, c, 0, a->dtype[0], dtype, false);
}

/* Where a block's accumulators of a chunk are kept until the blocks join; there is room for a state of each. */
static char *plain_block(const work *w, const tide__chunk *c, int64_t block) {
  return (char *)w->states + (block * w->a->outer + c->first) * 16;
}

static void run_columns(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  tide__fold_room room;
  tide__columns columns;
  tide__state states[TIDE_COLUMNS];
  tide__chunk c;
  for (int64_t i = begin; i < end; i++) {
    tide__grid_chunk(&c, &w->keep, i / w->blocks);
    int64_t block = i % w->blocks, row = block * w->block_rows, stop = tide__least(row + w->block_rows, w->a->inner);
    if (is_plain(w, &c)) {
      int dtype = fold_plain(w, &room, &columns, &c, row, stop);
      if (w->blocks == 1)
        store_plain(w, room.raw, &columns, &c, dtype);
      else
        memcpy(plain_block(w, &c, block), columns.all, (size_t)(c.n * tide__item(dtype)));
    } else if (w->blocks == 1) {
      fold_columns(w, &room, &columns, &c, row, stop, states, 1);
      store_states(w, &c, states);
    } else {
      fold_columns(w, &room, &columns, &c, row, stop, w->states + c.first * w->blocks + block, w->blocks);
    }
  }
}

/* Joins the blocks of the chunk's results. */
static void finish_plain(const work *w, const tide__chunk *c) {
  tide__columns columns;
  char raw[TIDE_COLUMNS * 16];
  tide__columns_init(&columns, &w->fold, c->n);
  int dtype = tide__columns_end(&columns);
  memcpy(columns.all, plain_block(w, c, 0), (size_t)(c->n * tide__item(dtype)));
  for (int64_t b = 1; b < w->blocks; b++) tide__columns_join(&columns, plain_block(w, c, b));
  store_plain(w, raw, &columns, c, dtype);
}

/* ---- the plan ---- */

/* The kept dims with the one whose elements lie closest in the input as the last. */
static void make_keep(tide__grid *g, const tide_reduce_args *a, bool columns, int64_t most) {
  int64_t size[TIDE_MAX_DIMS], stride[3][TIDE_MAX_DIMS] = {{0}};
  int n = 0, closest = 0;
  for (int d = 0; d < a->nkeep; d++)
    if (tide__distance(a->keep_stride[1][d]) <= tide__distance(a->keep_stride[1][closest])) closest = d;
  for (int pass = 0; pass < 2; pass++)
    for (int d = 0; d < a->nkeep; d++) {
      if ((columns && d == closest) != (pass == 1)) continue;
      size[n] = a->keep_size[d];
      for (int k = 0; k < 3; k++) stride[k][n] = a->keep_stride[k][d];
      n++;
    }
  if (n == 0) size[n++] = 1;
  tide__grid_init(g, n, size, stride, a->head.ptr[2] ? 3 : 2, most, false);
}

static bool by_columns(const tide_reduce_args *a, const tide__fold *f) {
  if (a->outer == 1) return false;
  if (a->inner < SHORT_ROW && a->outer >= 2 * NARROW) return true;
  int keep = 0, reduced = 0;
  for (int d = 1; d < a->nkeep; d++)
    if (tide__distance(a->keep_stride[1][d]) <= tide__distance(a->keep_stride[1][keep])) keep = d;
  for (int d = 1; d < a->nred; d++)
    if (tide__distance(a->red_stride[d]) <= tide__distance(a->red_stride[reduced])) reduced = d;
  if (tide__distance(a->keep_stride[1][keep]) >= tide__distance(a->red_stride[reduced])) return false;
  bool joins = a->nred == 1 && a->red_stride[0] == a->outer && !f->index && f->kind != TIDE_FOLD_VAR;
  return a->keep_size[keep] >= NARROW || joins;
}

/* Joins the blocks of each result. */
static void finish(const work *w) {
  tide__state states[TIDE_COLUMNS];
  tide__chunk c;
  for (int64_t i = 0; i < w->keep.chunks; i++) {
    tide__grid_chunk(&c, &w->keep, i);
    if (w->by_columns && is_plain(w, &c)) {
      finish_plain(w, &c);
      continue;
    }
    for (int64_t j = 0; j < c.n; j++) {
      const tide__state *from = w->states + (c.first + j) * w->blocks;
      states[j] = from[0];
      for (int64_t b = 1; b < w->blocks; b++) tide__state_join(&states[j], &w->fold, &from[b]);
    }
    store_states(w, &c, states);
  }
}

/* A block of `smallest` of the `n` pieces, or more, so that all results together have few blocks. */
static int64_t block_of(const work *w, int64_t n, int64_t smallest) {
  int64_t most = STATES / (w->a->outer + 1), even = (n + most - 1) / most;
  return even > smallest ? even : smallest;
}

static tide_status run_with_blocks(work *w, int64_t each, tide_task_fn fn) {
  size_t bytes = (size_t)(w->a->outer * w->blocks) * sizeof(tide__state);
  w->states = malloc(bytes);
  if (!w->states)
    return tide__fail(TIDE_MEMORY, "reduce: no memory for partial results, got a need of %zu bytes", bytes);
  tide__spread(w->keep.chunks * w->blocks, each, fn, w);
  if (!tide__loop_stops()) finish(w); /* else not all of them have a state */
  free(w->states);
  return TIDE_OK;
}

static tide_status reduce_rows(work *w) {
  const tide_reduce_args *a = w->a;
  bool few = a->outer < ROW_RESULTS;
  make_keep(&w->keep, a, false, few ? 1 : tide__least(a->outer / ROW_RESULTS, ROW_RESULTS));
  w->block_rows = few ? block_of(w, w->reduced.chunks, ROW_BLOCK / w->whole) : w->reduced.chunks;
  w->blocks = (w->reduced.chunks + w->block_rows - 1) / w->block_rows;
  if (w->blocks > 1) return run_with_blocks(w, ROW_BLOCK * TIDE_PIECE, run_blocks);
  tide__spread(w->keep.chunks, w->keep.high * w->keep.wide * a->inner, run_rows, w);
  return TIDE_OK;
}

static tide_status reduce_columns(work *w) {
  const tide_reduce_args *a = w->a;
  make_keep(&w->keep, a, true, TIDE_COLUMNS);
  int64_t wide = w->keep.high * w->keep.wide;
  w->block_rows = w->keep.chunks < NARROW ? block_of(w, a->inner, COLUMN_BLOCK / wide) : a->inner;
  w->blocks = (a->inner + w->block_rows - 1) / w->block_rows;
  if (w->blocks > 1) return run_with_blocks(w, wide * w->block_rows, run_columns);
  tide__spread(w->keep.chunks, wide * a->inner, run_columns, w);
  return TIDE_OK;
}

/* Sums of dense rows that are too short for a call each, and of blocks whose rows are. */
static bool has_short_rows(const work *w) {
  const tide_reduce_args *a = w->a;
  return w->direct && a->nred == 1 && a->inner >= NARROW / 2 && a->inner <= TIDE_PIECE && a->outer >= ROW_RESULTS;
}
/* Do the rows of results, each of that length, lie one behind the other? */
static bool rows_follow(const tide_reduce_args *a, int64_t length) {
  bool follow = false;
  for (int d = 0; d < a->nkeep; d++) {
    const int64_t stride = a->keep_stride[1][d];
    if (stride != length && tide__distance(stride) <= length) return false;
    follow = follow || stride == length;
  }
  return follow;
}
static bool has_short_exponentials(const work *w) {
  const tide_reduce_args *a = w->a;
  if (a->op != TIDE_LOGSUMEXP || a->dtype[1] != TIDE_FLOAT32 || a->nred != 1 || a->red_stride[0] != 1) return false;
  return a->inner > 0 && a->inner <= TIDE__SHORT_LINE && a->outer >= ROW_RESULTS && rows_follow(a, a->inner);
}
static bool has_short_norms(const work *w) {
  const tide_reduce_args *a = w->a;
  bool real = a->dtype[1] == TIDE_FLOAT32 || a->dtype[1] == TIDE_FLOAT64;
  return a->op == TIDE_NORM && a->param == 2 && real && a->nred == 1 && a->inner < SHORT_ROW && a->outer >= SHORT_ROW;
}
static bool has_short_blocks(const work *w) {
  const tide_reduce_args *a = w->a;
  return w->direct && a->nred == 2 && a->red_size[1] <= NARROW && a->red_size[0] <= ROW_RESULTS &&
         rows_follow(a, a->red_size[1]);
}

static tide_status reduce_short(work *w, int64_t most, tide_task_fn fn) {
  make_keep(&w->keep, w->a, true, most);
  tide__spread(w->keep.chunks, w->keep.high * w->keep.wide * w->a->inner, fn, w);
  return TIDE_OK;
}

/* The least integer, and as the second result the greatest: one after the other. */
static tide_status reduce_ends(tide_stream *stream, const tide_reduce_args *a) {
  tide_reduce_args end = *a;
  end.param = 0, end.head.ptr[2] = NULL;
  TIDE_TRY(tide__cpu_reduce(stream, &end));
  end.op = TIDE_MAX, end.head.ptr[0] = a->head.ptr[2];
  memcpy(end.keep_stride[0], a->keep_stride[2], sizeof end.keep_stride[0]);
  return tide__cpu_reduce(stream, &end);
}

tide_status tide__cpu_reduce(tide_stream *stream, const tide_reduce_args *a) {
  if (a->op == TIDE_MIN && a->head.ptr[2] && a->param == 1) return reduce_ends(stream, a);
  work w;
  w.a = a, w.states = NULL;
  make_fold(&w.fold, a);
  bool as_is = a->dtype[1] == w.fold.dtype && w.fold.map == TIDE_MAP_NONE && a->red_stride[a->nred - 1] == 1;
  w.direct = as_is && w.fold.kind == TIDE_FOLD_SUM && w.fold.dtype == TIDE_FLOAT32;
  if (has_short_rows(&w)) return reduce_short(&w, ROW_RESULTS, run_short_rows);
  if (has_short_exponentials(&w)) return reduce_short(&w, ROW_RESULTS, run_short_exponentials);
  if (has_short_norms(&w)) return reduce_short(&w, TIDE_COLUMNS, run_short_norms);
  if (has_short_blocks(&w)) return reduce_short(&w, TIDE_COLUMNS / a->red_size[1], run_short_blocks);
  w.by_columns = by_columns(a, &w.fold);
  if (w.by_columns) return reduce_columns(&w);
  fold_unmapped(&w.fold, a);
  as_is = a->dtype[1] == w.fold.dtype && w.fold.map == TIDE_MAP_NONE && a->red_stride[a->nred - 1] == 1;
  w.whole = as_is && a->nred == 1 && w.fold.kind != TIDE_FOLD_VAR ? WHOLE : 1;
  tide__grid_init(&w.reduced, a->nred, a->red_size, &a->red_stride, 1, w.whole * tide__fold_piece(&w.fold), false);
  return reduce_rows(&w);
}
