/* gemm_own.c: matrix products, of any dtype but the 16-bit floats.
 *
 * An operand of floats whose rows are dense is read as it lies where the caches bear it: A unless its rows all fall on
 * the same places of the first cache, B if A has few rows as well. Otherwise:
 *
 * A part of B, so many columns and so many k, is packed in panels (gemm.h), by all threads. The result is split into
 * tasks, which threads take from a counter: for each slice of k a task packs its rows of A, and the inner loop of isa.h
 * multiplies panel by panel, with B's in the first cache and A's in the second. Where there is a single task down the
 * rows, each packs the columns of B that it needs itself. (K. Goto and R. van de Geijn, "Anatomy of high-performance
 * matrix multiplication", ACM TOMS 34, 2008.)
 *
 * Integers narrower than 64 bits are computed in int32, which wraps as they do; complex numbers as real ones twice as
 * wide and deep.
 *
 * Invariant: the order of the sums depends on the sizes alone. */
#include "gemm.h"
#include "os/os.h"
#include "backend/cpu/scratch.h"

/* Panels of rows, at most, whose sums are changed further: of rows that are far apart, few fit in the second cache. */
enum { FINISHED = 6 };
enum { PART_K = 11 * TIDE_GEMM_SLICE, PART_BYTES = 64 << 20, GROUP = 8, EACH = 4, LOOK = 16 };
/* Of A's rows that a task packs: three eighths of the second cache, within these bounds. */
enum { LEAST_ROWS_BYTES = 256 << 10, MOST_ROWS_BYTES = 768 << 10 };
/* Bytes of a tile, at most; work that one thread does alone, and in one matrix of many. */
enum { TILE_BYTES = 2048, ALONE = 1 << 18, LITTLE = 1 << 24, MATRIX_ALONE = 1 << 24 };
/* What lies so many bytes apart has the same places in the first cache. */
enum { SAME_LINES = 4096 };
/* Panels of A up to which B is read as it lies: with more it pays to pack it, and much sooner where the first cache
 * cannot hold a panel of it. */
enum { MOST_PANELS = 40, FEW_PANELS = 4 };
/* Rows, or bytes of a packed panel, of B that are asked for before they are needed. */
enum { B_ROWS_AHEAD = 4, B_AHEAD = 2048 };
/* k from which on the next panel of B is asked for while one is multiplied. */
enum { LEAST_AHEAD = 192 };

typedef struct work {
  const tide_gemm_args *a;
  const tide__isa *isa;
  tide__gemm_finish finish;
  tide__panels rows, columns; /* how A and B are packed */
  int compute, item;          /* dtype that is computed in; bytes of its real numbers */
  int64_t m, n, k;            /* as real numbers */
  int64_t panels;             /* of rows */
  bool a_lies, b_lies;        /* it is not packed, B but for a part of a panel */
  bool direct;                /* whole tiles go straight to C */
  bool little;
  int threads;
  int64_t matrix, slice;
  int64_t from, depth, left, wide; /* the part of B: k and panels */
  int64_t down, across;            /* tasks */
  char *b, *rooms;                 /* B's part; a room of each thread for rows of A */
  int64_t room_bytes;
  _Atomic int64_t next, packed;
  _Atomic int taken; /* rooms */
  _Atomic bool failed;
} work;

static int64_t rows_bytes(void) {
  static _Atomic int64_t known; /* the system may ask the processor each time, which is slow on virtual ones */
  int64_t bytes = atomic_load_explicit(&known, memory_order_relaxed);
  if (bytes) return bytes;
  bytes = tide__os_cache(2) / 8 * 3;
  if (bytes < LEAST_ROWS_BYTES) bytes = LEAST_ROWS_BYTES;
  if (bytes > MOST_ROWS_BYTES) bytes = MOST_ROWS_BYTES;
  atomic_store_explicit(&known, bytes, memory_order_relaxed);
  return bytes;
}

static bool is_complex(const work *w) { return w->compute >= TIDE_COMPLEX64; }

/* ---- the result ---- */

/* x = alpha * x + beta * old for a row of a tile. Numbers of integer dtypes are in tide_value.i. */
#define SCALE_REAL(U, alpha_, beta_)                                                                                   \
  {                                                                                                                    \
    const U by = (U)(alpha_), back = (U)(beta_);                                                                       \
    U *v = (U *)x;                                                                                                     \
    const U *o = (const U *)old;                                                                                       \
    for (int64_t j = 0; j < n; j++) v[j] = o ? by * v[j] + back * o[j] : by * v[j];                                    \
  }
#define SCALE_COMPLEX(part)                                                                                            \
  {                                                                                                                    \
    const part ar = (part)alpha.re, ai = (part)alpha.im, br = (part)beta.re, bi = (part)beta.im;                       \
    part *v = (part *)x;                                                                                               \
    const part *o = (const part *)old;                                                                                 \
    for (int64_t j = 0; j < n; j++) {                                                                                  \
      part re = ar * v[2 * j] - ai * v[2 * j + 1], im = ar * v[2 * j + 1] + ai * v[2 * j];                             \
      if (o) re += br * o[2 * j] - bi * o[2 * j + 1], im += br * o[2 * j + 1] + bi * o[2 * j];                         \
      v[2 * j] = re, v[2 * j + 1] = im;                                                                                \
    }                                                                                                                  \
  }

static void scale_row(const work *w, char *x, const char *old, tide_value alpha, tide_value beta, int64_t n) {
  switch (w->compute) {
  case TIDE_INT32: SCALE_REAL(uint32_t, alpha.i, beta.i) break;
  case TIDE_INT64: SCALE_REAL(uint64_t, alpha.i, beta.i) break;
  case TIDE_FLOAT32: SCALE_REAL(float, alpha.re, beta.re) break;
  case TIDE_FLOAT64: SCALE_REAL(double, alpha.re, beta.re) break;
  case TIDE_COMPLEX64: SCALE_COMPLEX(float) break;
  default: SCALE_COMPLEX(double) break;
  }
}

static bool is_number(const work *w, tide_value v, int number) {
  if (w->compute <= TIDE_INT64) return v.i == number;
  return v.re == number && (!is_complex(w) || v.im == 0);
}

/* A tile of sums that is not whole, or whose numbers change on the way, into C. */
static void merge(const work *w, char *c, char *sums, int64_t rows, int64_t lanes, bool first) {
  const tide_gemm_args *a = w->a;
  _Alignas(64) char room[TILE_BYTES];
  tide_value beta = first ? a->beta : (tide_value){.i = 1, .re = 1};
  int64_t n = is_complex(w) ? lanes / 2 : lanes, width = w->columns.width * w->item;
  for (int64_t r = 0; r < rows; r++) {
    char *to = c + r * a->c_row * tide__item(a->dtype), *x = sums + r * width, *old = NULL;
    if (!first || !is_number(w, beta, 0)) tide__cast(w->isa, old = room, w->compute, to, a->dtype, n);
    scale_row(w, x, old, a->alpha, beta, n);
    tide__cast(w->isa, to, a->dtype, x, w->compute, n);
  }
}

/* The same where nothing changes on the way. */
#define ADD_EDGE(T)                                                                                                    \
  for (int64_t r = 0; r < rows; r++) {                                                                                 \
    T *to = (T *)c + r * apart;                                                                                        \
    const T *x = (const T *)sums + r * width;                                                                          \
    for (int64_t j = 0; j < lanes; j++) to[j] = add ? to[j] + x[j] : x[j];                                             \
  }
static void add_edge(const work *w, char *c, char *sums, int64_t rows, int64_t lanes, bool first) {
  const bool add = !first || !is_number(w, w->a->beta, 0);
  const int64_t apart = w->a->c_row * (is_complex(w) ? 2 : 1), width = w->columns.width;
  switch (w->columns.compute) {
  case TIDE_INT32: ADD_EDGE(uint32_t) break;
  case TIDE_INT64: ADD_EDGE(uint64_t) break;
  case TIDE_FLOAT32: ADD_EDGE(float) break;
  default: ADD_EDGE(double) break;
  }
}

/* One tile: panels of A and of B at a and b, k deep. */
static void run_tile(const work *w, int64_t row, int64_t column, const char *a, const char *b, int64_t k, bool first,
                     const char *next) {
  _Alignas(64) char sums[TILE_BYTES];
  const tide_gemm_args *g = w->a;
  int64_t top = tide__panel_lane(&w->rows, row), rows = tide__panel_lane(&w->rows, row + 1) - top;
  int64_t width = w->columns.width, lanes = tide__least(width, w->n - column * width), parts = is_complex(w) ? 2 : 1;
  int64_t place = w->matrix * g->c_batch + top * g->c_row + column * width / parts;
  char *c = (char *)g->head.ptr[0] + place * tide__item(g->dtype);
  int64_t lowest = w->isa->product_rows / 2;
  tide__product product = w->isa->product[tide__ctype_of(w->columns.compute)][rows > lowest ? rows - lowest : 0];
  tide__tile t = {.c = c,
                  .a = a,
                  .b = b,
                  .next = next,
                  .c_row = g->c_row * parts,
                  .a_row = (w->a_lies ? g->a_row : 1) * w->item,
                  .a_step = (w->a_lies ? g->a_col : w->rows.width) * w->item,
                  .b_step = width,
                  .b_ahead = B_AHEAD / w->item,
                  .k = k};
  if (w->b_lies && lanes == width) t.b_step = g->b_row, t.b_ahead = B_ROWS_AHEAD * g->b_row;
  if (w->direct && rows >= lowest && lanes == width) {
    t.add = !first || !is_number(w, g->beta, 0);
    product(&t);
  } else {
    t.c = sums, t.c_row = width;
    product(&t);
    (w->direct ? add_edge : merge)(w, c, sums, rows, lanes, first);
  }
}

/* ---- tasks ---- */

static char *part_of_b(const work *w, int64_t from, int64_t k, int64_t column) {
  return w->b + ((from - w->from) * w->wide + (column - w->left) * k) * w->columns.width * w->item;
}

/* A panel of B. */
static const char *columns_at(const work *w, int64_t from, int64_t k, int64_t column) {
  const tide_gemm_args *a = w->a;
  if (!w->b_lies || (column + 1) * w->columns.width > w->n) return part_of_b(w, from, k, column);
  return (const char *)a->head.ptr[2] +
         (w->matrix * a->b_batch + from * a->b_row + column * w->columns.width) * w->item;
}

static void pack_columns(const work *w, int64_t from, int64_t k, int64_t column, int64_t count) {
  const tide_gemm_args *a = w->a;
  const char *base = (const char *)a->head.ptr[2] + w->matrix * a->b_batch * tide__item(a->dtype);
  if (w->b_lies) {
    if ((column + count) * w->columns.width <= w->n) return;
    column += count - 1, count = 1;
  }
  tide__gemm_pack(&w->columns, part_of_b(w, from, k, column), base, column, count, from, k);
}

/* What a task computes, in panels. */
typedef struct span {
  int64_t top, bottom, left, right;
} span;

/* Where share i begins of n things that are split into `parts` evenly. */
static int64_t split_at(int64_t n, int64_t parts, int64_t i) { return n / parts * i + tide__least(n % parts, i); }

/* Panel `row` of a task's rows of A, of which the first is `top`: at `a` is that one. */
static const char *rows_at(const work *w, const char *a, int64_t top, int64_t row, int64_t k) {
  if (!w->a_lies) return a + (row - top) * w->rows.width * k * w->item;
  return a + (tide__panel_lane(&w->rows, row) - tide__panel_lane(&w->rows, top)) * w->a->a_row * w->item;
}

/* A column of panels. The first touch of its rows may cost a page of memory for each, so some tiles are much. `ahead`
 * is the panel of B that comes next, or NULL. */
static void run_column(const work *w, const span *s, int64_t column, const char *a, const char *b, const char *ahead,
                       int64_t from, int64_t k) {
  int64_t left = ahead ? k * w->columns.width * w->item : 0;
  for (int64_t row = s->top; row < s->bottom && !tide__loop_stops();)
    for (int64_t to = tide__least(row + LOOK, s->bottom); row < to; row++) {
      run_tile(w, row, column, rows_at(w, a, s->top, row, k), b, k, from == 0, left > 0 ? ahead : NULL);
      if (left > 0) ahead += w->isa->product_next, left -= w->isa->product_next;
    }
}

/* Columns of panels that have all of their sums. */
static void finish(const work *w, const span *s, int64_t left, int64_t right) {
  const tide_gemm_args *g = w->a;
  left *= w->columns.width, right = tide__least(right * w->columns.width, w->n);
  for (int64_t row = tide__panel_lane(&w->rows, s->top); row < tide__panel_lane(&w->rows, s->bottom); row++)
    w->finish(w->isa, g->dtype, (char *)g->head.ptr[0] + (w->matrix * g->c_batch + row * g->c_row + left) * w->item,
              right - left);
}

/* One slice of a task: its rows of A are at a. */
static void run_slice(const work *w, const span *s, int64_t from, int64_t k, const char *a) {
  for (int64_t left = s->left; left < s->right && !tide__loop_stops(); left += GROUP) {
    int64_t right = tide__least(s->right, left + GROUP), packed = w->down == 1 ? right : s->right;
    if (w->down == 1) pack_columns(w, from, k, left, right - left);
    for (int64_t column = left; column < right; column++) {
      bool asks = !w->b_lies && k >= LEAST_AHEAD && column + 1 < packed;
      run_column(w, s, column, a, columns_at(w, from, k, column), asks ? part_of_b(w, from, k, column + 1) : NULL, from,
                 k);
    }
    if (w->finish && from + k == w->k) finish(w, s, left, right);
  }
}

static void run_task(const work *w, int64_t task, char *room) {
  const tide_gemm_args *a = w->a;
  const char *base = (const char *)a->head.ptr[1] + w->matrix * a->a_batch * tide__item(a->dtype);
  int64_t panels = w->panels, i = task % w->down, j = task / w->down;
  span s = {split_at(panels, w->down, i), split_at(panels, w->down, i + 1), w->left + split_at(w->wide, w->across, j),
            w->left + split_at(w->wide, w->across, j + 1)};
  int64_t from = w->from, end = w->from + w->depth;
  do {
    int64_t k = tide__least(w->slice, end - from);
    if (w->a_lies) {
      run_slice(w, &s, from, k, base + (tide__panel_lane(&w->rows, s.top) * a->a_row + from * a->a_col) * w->item);
    } else {
      tide__gemm_pack(&w->rows, room, base, s.top, s.bottom - s.top, from, k);
      run_slice(w, &s, from, k, room);
    }
    from += w->slice;
  } while (from < end && !tide__loop_stops());
}

/* Every thread that comes takes a room, and tasks until there are no more. */
static void run_tasks(void *arg, int64_t begin, int64_t end) {
  work *w = arg;
  int64_t tasks = w->down * w->across, task;
  if (atomic_load_explicit(&w->next, memory_order_relaxed) >= tasks) return;
  char *room = w->rooms + atomic_fetch_add_explicit(&w->taken, 1, memory_order_relaxed) * w->room_bytes;
  while (!tide__loop_stops() && (task = atomic_fetch_add_explicit(&w->next, 1, memory_order_relaxed)) < tasks)
    run_task(w, task, room);
}

static void run_packing(void *arg, int64_t begin, int64_t end) {
  work *w = arg;
  int64_t groups = tide__ceil_div(w->wide, GROUP), slices = tide__ceil_div(w->depth, w->slice);
  for (;;) {
    int64_t i = atomic_fetch_add_explicit(&w->packed, 1, memory_order_relaxed);
    if (i >= groups * slices || tide__loop_stops()) return;
    int64_t from = w->from + i / groups * w->slice, column = i % groups * GROUP;
    pack_columns(w, from, tide__least(w->slice, w->from + w->depth - from), w->left + column,
                 tide__least(GROUP, w->wide - column));
  }
}

static void on_threads(work *w, tide_task_fn fn) {
  if (w->threads > 1)
    tide__parallel_for(w->threads, 1, fn, w);
  else
    fn(w, 0, 1);
}

/* Panels of rows that a task has at most: what the second cache holds, so many that each thread has some tasks and an
 * uneven load evens out, but not so few that B's panels come from memory for nothing. Little work is split by columns
 * alone, once for each thread: then nobody waits for B to be packed. */
static int64_t task_rows(const work *w) {
  int64_t high = rows_bytes() / (w->rows.width * w->slice * w->item), panels = w->panels;
  if (w->little) return panels;
  if (w->finish) high = tide__least(high, FINISHED);
  high = tide__least(high, tide__ceil_div(panels, w->threads > 1 ? w->threads * EACH : 1));
  return high < 4 ? 4 : high;
}

static void choose_tasks(work *w) {
  int64_t panels = w->panels, wanted = w->threads;
  w->down = tide__ceil_div(panels, task_rows(w));
  if (w->down > w->threads) w->down = tide__least(panels, tide__ceil_div(w->down, w->threads) * w->threads);
  if (w->threads > 1 && !w->little) wanted *= EACH;
  w->across = tide__least(tide__ceil_div(wanted, w->down), w->little ? w->wide : tide__ceil_div(w->wide, 4));
}

static void run_part(work *w) {
  choose_tasks(w);
  atomic_store_explicit(&w->next, 0, memory_order_relaxed);
  atomic_store_explicit(&w->packed, 0, memory_order_relaxed);
  atomic_store_explicit(&w->taken, 0, memory_order_relaxed);
  if (w->down > 1 && w->b_lies)
    run_packing(w, 0, 1);
  else if (w->down > 1)
    on_threads(w, run_packing);
  on_threads(w, run_tasks);
}

/* One matrix of the batch, part by part of B. */
static void run_matrix(work *w, int64_t deep, int64_t most) {
  int64_t panels = tide__ceil_div(w->n, w->columns.width);
  for (w->left = 0; w->left < panels; w->left += most) {
    w->wide = tide__least(most, panels - w->left), w->from = 0;
    do {
      w->depth = tide__least(deep, w->k - w->from);
      run_part(w);
      w->from += deep;
    } while (w->from < w->k && !tide__loop_stops());
  }
}

/* Some matrices of the batch, with their own memory. */
static void run_batch(void *arg, int64_t begin, int64_t end) {
  work *all = arg, w = *all;
  /* Few rows: a part of B is small enough to stay in the caches until it is used. */
  int64_t deep = w.m <= 4 * w.rows.width ? w.slice : PART_K / TIDE_GEMM_SLICE * w.slice;
  int64_t panel = w.columns.width * w.item * tide__least(deep, w.k), most = PART_BYTES / (panel + 1) + 1;
  most = tide__least(most, tide__ceil_div(w.n, w.columns.width));
  w.room_bytes = tide__ceil_div(task_rows(&w) * w.rows.width * w.slice * w.item, 128) * 128;
  int64_t part_bytes = tide__ceil_div(panel * most, 128) * 128;
  char *memory = tide__room_take((size_t)(part_bytes + w.threads * w.room_bytes));
  if (!memory) {
    atomic_store_explicit(&all->failed, true, memory_order_relaxed);
    return;
  }
  w.b = memory, w.rooms = memory + part_bytes;
  for (w.matrix = begin; w.matrix < end && !tide__loop_stops(); w.matrix++) run_matrix(&w, deep, most);
  tide__room_put(memory);
}

/* How the operands are packed. */
static void choose_panels(work *w, const tide_gemm_args *a, int real) {
  bool quick = a->dtype == w->compute && !is_complex(w);
  const tide__isa *isa = w->isa;
  w->rows = (tide__panels){.isa = isa, .width = isa->product_rows, .lanes_apart = a->a_row, .k_apart = a->a_col};
  w->columns = (tide__panels){.isa = isa, .lanes_apart = a->b_col, .k_apart = a->b_row, .columns = true};
  w->columns.width = isa->product_bytes / w->item;
  w->rows.lanes = w->m, w->columns.lanes = w->n;
  w->panels = tide__ceil_div(w->m, w->rows.width);
  w->rows.high = w->panels ? w->m / w->panels + 1 : 1, w->rows.tall = w->panels ? w->m % w->panels : 0;
  w->columns.high = w->columns.width, w->columns.tall = INT64_MAX;
  w->rows.dtype = w->columns.dtype = a->dtype, w->rows.compute = w->columns.compute = real;
  w->rows.item = w->columns.item = w->item;
  if (quick && (a->a_row == 1 || a->a_col == 1)) w->rows.pack = isa->pack_rows[w->item == 8];
  w->a_lies = quick && a->a_col == 1 && w->m >= isa->product_rows / 2 && a->a_row * w->item % SAME_LINES;
  w->b_lies = quick && a->b_col == 1 && w->panels <= (a->b_row * w->item % SAME_LINES ? MOST_PANELS : FEW_PANELS);
  if (quick && (a->b_row == 1 || a->b_col == 1)) w->columns.pack = isa->pack_lanes[w->item == 8];
}

tide_status tide__gemm_own(const tide_gemm_args *a, tide__gemm_finish change) {
  work w = {.a = a, .isa = tide__isa_get(), .finish = change, .compute = a->dtype < TIDE_INT64 ? TIDE_INT32 : a->dtype};
  int real = w.compute == TIDE_COMPLEX64 ? TIDE_FLOAT32 : w.compute == TIDE_COMPLEX128 ? TIDE_FLOAT64 : w.compute;
  int64_t parts = is_complex(&w) ? 2 : 1;
  w.item = tide__item(real), w.m = a->m, w.n = a->n * parts, w.k = a->k * parts;
  /* Even, because a complex number has two k, and evenly split. */
  w.slice = w.k ? tide__ceil_div(tide__ceil_div(w.k, tide__ceil_div(w.k, TIDE_GEMM_SLICE)), 2) * 2 : 2;
  choose_panels(&w, a, real);
  w.direct =
      a->dtype == w.compute && is_number(&w, a->alpha, 1) && (is_number(&w, a->beta, 0) || is_number(&w, a->beta, 1));
  int64_t each = w.m * w.n * w.k;
  w.little = each < LITTLE && w.m * w.slice * w.item <= LEAST_ROWS_BYTES;
  w.threads = each < ALONE ? 1 : tide_get_num_threads();
  if (a->batch > 1 && (w.threads == 1 || (a->batch >= 4 * w.threads && each < MATRIX_ALONE))) {
    w.threads = 1;
    tide__spread(a->batch, each, run_batch, &w);
  } else {
    run_batch(&w, 0, a->batch);
  }
  if (atomic_load_explicit(&w.failed, memory_order_relaxed))
    return tide__fail(TIDE_MEMORY, "matmul: no memory for the panels of the operands");
  return TIDE_OK;
}
