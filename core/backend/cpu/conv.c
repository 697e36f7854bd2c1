/* conv.c: convolutions, as matrix products whose second operand is never made.
 *
 * That operand has a row for each channel and tap of the kernel and a column for each element of the result. A row is
 * the channel's plane, shifted, so once the plane has its zeros around it, it is enough to know where each row begins:
 * panels for the inner loops of matrix products (isa.h) are copied from there. Where elements of the result lie
 * `stride` elements of the input apart, the plane is laid out as so many planes of every stride-th column, and their
 * rows in the same way, so that neighbours are neighbours again. Of a transposed convolution, the elements of the
 * result that the same taps reach are computed together, each such phase as a convolution of its own; phases that read
 * the same elements of the input share their panels, and write their neighbouring elements together. One or two
 * results of a group, as of a kernel for each channel, are sums of some rows at a time instead, of planes that are laid
 * out just before where they are small.
 *
 * float16 and bfloat16 become float32 on the way, and their sums are rounded once.
 *
 * Invariant: an element of the result is written by one task, and the order of its sum depends on the sizes alone. */
#include "gemm.h"
#include "room.h"

enum {
  ROOM_BYTES = 32 << 20,
  BLOCK_BYTES = 256 << 10,
  MOST_ACROSS = 16,
  MOST_WIDTH = 64,
  EACH = 4,
  TASKS = 16,
  LEAST_PANELS = 4,
  MOST_PHASES = 16,
  LAY_BYTES = 64 << 10,
  THIN = 2,
  LINE = 64,
  TILE_BYTES = 2048,
  STRIP_BYTES = 4096,
  NEAR_BYTES = 128 << 10,
  SAME_PLACES = 512,
  SOON = 4
};

/* One dim of a phase. */
typedef struct axis {
  int64_t count, first, step;  /* elements of the result: first, first + step, ... */
  int64_t walk;                /* elements of the input from one to the next */
  int64_t taps, tap, tap_step; /* of the kernel: tap, tap + tap_step, ... */
  int64_t at, at_step;         /* the place that the first tap meets for the first element; from tap to tap */
  int64_t turn;                /* every turn-th tap falls on the same columns of a plane that is laid out by `walk` */
  int64_t low, size;           /* of a laid out plane: elements before the input's, and all of them */
  int64_t part;                /* of a laid out plane: those that lie together, every walk-th */
} axis;

/* The elements of the result that the same taps reach. */
typedef struct phase {
  axis axis[3];
  int64_t k, slice;   /* of its product, and how much of it is summed in registers */
  const int64_t *tap; /* numbers of its taps among all of the kernel's */
  const int64_t *placed,
      *packed;       /* where each row of the second operand begins, in the planes and in a panel, or NULL */
  const char *given; /* the weights of its taps, [results, k], as the products' dtype */
  char *panels;      /* the same in panels */
} phase;

typedef struct work {
  const tide_conv_args *a;
  const tide__isa *isa;
  axis axis[3];                  /* of the first phase, which has the most elements */
  phase phase[MOST_PHASES];      /* those that are computed together */
  int phases, together[3];       /* in each dim */
  int dtype;                     /* of the products: FLOAT32 or FLOAT64 */
  int64_t item, wide;            /* bytes of an element of the tensors, and of the products */
  int64_t m, n, k, slice;        /* of the product for a group: k and a slice of it are the phases' together */
  int64_t slices, some;          /* of k; channels of one, where phases share it */
  int64_t each;                  /* of n: an image's */
  bool joined, even;             /* n is of all images of a turn; the rows of a result follow each other */
  int64_t pitch, columns, plane; /* elements of a row, of every walk-th column, and of a laid out plane */
  int64_t down, high;            /* elements between two rows of a result; rows of them that are summed together */
  bool lies;                     /* the input serves as it lies */
  bool placed;                   /* panels of neighbours are read where they are */
  bool thin, near, direct;       /* sums of rows; of planes that are laid out for them alone; tiles go to the result */
  bool whole;                    /* the weights serve as they are given */
  tide__panels rows;
  int64_t panels, width, across; /* of weights; lanes of a tile; tiles of a task */
  int64_t blocks, parts;         /* tasks of a group: of tiles, and of panels */
  int64_t image, images;         /* of a turn */
  int64_t laid;                  /* the first image that is laid out now, or -1 */
  int64_t lay, weighed;          /* planes that a task lays out; tasks that pack weights */
  const int64_t *row;            /* where each row of the second operand begins */
  const char *given;             /* all weights, as `dtype` */
  char *gathered, *packed;       /* room for those of phases, and for panels of them */
  int64_t *table;                /* room for the rows */
  char *room;                    /* the laid out planes */
  tide_task_fn task;             /* what is shared out */
  int64_t tasks;
  _Atomic int64_t next;
  _Atomic bool failed;
} work;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* n elements that are `apart` to every `step`th place. */
#define SPREAD(bytes)                                                                                                  \
  if (apart == 0 && step == 1)                                                                                         \
    for (int64_t i = 0; i < n; i++) memcpy(to + i * bytes, from, bytes);                                               \
  else if (apart == 2 && step == 1)                                                                                    \
    for (int64_t i = 0; i < n; i++) memcpy(to + i * bytes, from + i * 2 * bytes, bytes);                               \
  else                                                                                                                 \
    for (int64_t i = 0; i < n; i++) memcpy(to + i * step * bytes, from + i * apart * bytes, bytes)
static void spread(char *restrict to, int64_t step, const char *restrict from, int64_t apart, int64_t item, int64_t n) {
  switch (item) {
  case 2: SPREAD(2); break;
  case 4: SPREAD(4); break;
  default: SPREAD(8); break;
  }
}

/* n numbers of 4 bytes, every second one to `even`, the others to `odd`. */
typedef uint32_t four __attribute__((vector_size(16)));
static void part(char *restrict even, char *restrict odd, const char *restrict from, int64_t n) {
  for (; n >= 8; n -= 8, from += 32, even += 16, odd += 16) {
    four a, b, some[2];
    memcpy(&a, from, 16), memcpy(&b, from + 16, 16);
    some[0] = __builtin_shufflevector(a, b, 0, 2, 4, 6), some[1] = __builtin_shufflevector(a, b, 1, 3, 5, 7);
    memcpy(even, &some[0], 16), memcpy(odd, &some[1], 16);
  }
  spread(even, 1, from, 2, 4, (n + 1) / 2);
  spread(odd, 1, from + 4, 2, 4, n / 2);
}

/* The other way: n numbers, the first, third and so on of `even`. */
static void join(char *restrict to, const char *restrict even, const char *restrict odd, int64_t n) {
  for (; n >= 8; n -= 8, to += 32, even += 16, odd += 16) {
    four a, b, some[2];
    memcpy(&a, even, 16), memcpy(&b, odd, 16);
    some[0] = __builtin_shufflevector(a, b, 0, 4, 1, 5), some[1] = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    memcpy(to, some, 32);
  }
  spread(to, 2, even, 1, 4, (n + 1) / 2);
  spread(to + 4, 2, odd, 1, 4, n / 2);
}

/* The elements r, r + up, ... of the result. */
static axis axis_of(const tide_conv_args *a, int d, int64_t r) {
  const tide_taps *t = &a->dim[d];
  const int64_t up = a->up[d];
  axis x = {.first = r, .step = up, .walk = t->stride, .tap_step = 1};
  x.count = r < t->out ? ceil_div(t->out - r, up) : 0;
  while (x.tap < up && (r - t->before + x.tap * t->dilation) % up) x.tap++;
  while (x.tap_step < up && x.tap_step * t->dilation % up) x.tap_step++;
  x.taps = x.tap < t->kernel && x.tap < up ? ceil_div(t->kernel - x.tap, x.tap_step) : 0;
  x.at = (r - t->before + x.tap * t->dilation) / up, x.at_step = x.tap_step * t->dilation / up;
  for (x.turn = 1; x.turn < x.taps && x.turn * x.at_step % x.walk;) x.turn++;
  x.low = x.taps && x.at < 0 ? -x.at : 0;
  x.size = x.taps ? x.low + x.at + (x.taps - 1) * x.at_step + (ceil_div(t->out, up) - 1) * x.walk + 1 : 1;
  if (x.size < 1) x.size = 1;
  return x;
}

/* What planes that are laid out for all phases of dim d have before the input's first element, and from it on. */
static void find_reach(const tide_conv_args *a, int d, int64_t reach[2]) {
  for (int64_t r = 0; r < least(a->up[d], a->dim[d].out); r++) {
    const axis x = axis_of(a, d, r);
    if (reach[0] < x.low) reach[0] = x.low;
    if (reach[1] < x.size - x.low) reach[1] = x.size - x.low;
  }
}

/* ---- the input ---- */

/* Row y of the input's, as it is counted with the zeros before the first one, in a laid out plane. */
static int64_t laid_row(const work *w, int64_t y) {
  const axis *x = &w->axis[1];
  return w->lies ? y : y % x->walk * x->part + y / x->walk;
}

/* Elements of dim d that the input has of a laid out plane. */
static int64_t given(const work *w, int d) { return least(w->a->dim[d].in, w->axis[d].size - w->axis[d].low); }

/* A plane of the input's, among zeros that are there; `line` is room for a row of the input's. */
static void lay_plane(const work *w, char *to, char *line, int64_t plane) {
  const axis *x = w->axis;
  const tide_taps *d = w->a->dim;
  const int64_t n = given(w, 2), walk = x[2].walk, low = x[2].low;
  const int64_t first = low % walk, turn = low / walk, whole = n / walk, rest = n % walk;
  const char *in = (const char *)w->a->head.ptr[1] + plane * d[0].in * d[1].in * d[2].in * w->item;
  for (int64_t z = 0; z < given(w, 0) && n > 0; z++)
    for (int64_t y = 0; y < given(w, 1); y++) {
      const char *from = in + (z * d[1].in + y) * d[2].in * w->item;
      char *row = to + ((z + x[0].low) * x[1].size + laid_row(w, y + x[1].low)) * w->pitch * w->wide;
      if (walk == 1 || w->item != w->wide)
        tide__cast(w->isa, walk > 1 ? line : row + low * w->wide, w->dtype, from, w->a->dtype, n);
      if (w->item != w->wide) from = line;
      if (walk == 2 && w->wide == 4)
        part(row + (first * w->columns + turn) * 4, row + ((1 - first) * w->columns + turn + first) * 4, from, n);
      for (int64_t i = 0, at = first, of = turn; i < walk && walk > 1 && (walk > 2 || w->wide > 4); i++, at++) {
        if (at == walk) at = 0, of++;
        spread(row + (at * w->columns + of) * w->wide, 1, from + i * w->wide, walk, w->wide, whole + (i < rest));
      }
    }
}

/* Room for a row of the input's and, behind it, some planes, all zeros. */
static char *zeros(work *w, int64_t planes) {
  const size_t bytes = (size_t)((planes * w->plane + w->a->dim[2].in) * w->wide + LINE);
  char *room = tide__room_take(bytes);
  if (room)
    memset(room, 0, bytes);
  else
    atomic_store_explicit(&w->failed, true, memory_order_relaxed);
  return room;
}

static void lay_planes(work *w, int64_t begin, int64_t end) {
  char *line = zeros(w, 0);
  for (int64_t i = begin; line && i < end && !tide__loop_stops(); i++) {
    char *to = w->room + i * w->plane * w->wide;
    memset(to, 0, (size_t)(w->plane * w->wide));
    lay_plane(w, to, line, w->image * w->a->channels + i);
  }
  tide__room_put(line);
}

static const char *planes_of(const work *w, int64_t image, int64_t group) {
  const int64_t first = image * w->a->channels + group * (w->a->channels / w->a->groups);
  if (w->lies) return (const char *)w->a->head.ptr[1] + first * w->plane * w->wide;
  return w->room + (first - w->image * w->a->channels) * w->plane * w->wide;
}

/* ---- the result ---- */

/* Row `row` of a result's plane, counted among the rows of a phase. */
static char *result_row(const work *w, const axis *x, int64_t image, int64_t result, int64_t row) {
  const tide_taps *d = w->a->dim;
  const int64_t down = w->axis[1].count;
  const int64_t z = x[0].first + row / down * x[0].step, y = x[1].first + row % down * x[1].step;
  return (char *)w->a->head.ptr[0] +
         (((image * w->a->results + result) * d[0].out + z) * d[1].out + y) * d[2].out * w->item;
}

/* n sums for the elements of that row from number `from` of the phase on; raw is room for them. */
static void put(const work *w, const axis *x, char *row, int64_t from, char *raw, const char *sums, int64_t n) {
  row += (x->first + from * x->step) * w->item;
  if (x->step == 1 || w->item != w->wide) {
    tide__cast(w->isa, x->step == 1 ? row : raw, w->a->dtype, sums, w->dtype, n);
    sums = raw;
  }
  if (x->step > 1) spread(row, x->step, sums, 1, w->item, n);
}

/* What sums begin with: the bias of the result, or 0. */
static void begin_row(const work *w, char *sums, int64_t result, int64_t n) {
  char value[8];
  if (!w->a->head.ptr[3]) {
    memset(sums, 0, (size_t)(n * w->wide));
    return;
  }
  tide__cast(w->isa, value, w->dtype, (const char *)w->a->head.ptr[3] + result * w->item, w->a->dtype, 1);
  spread(sums, 1, value, 0, w->wide, n);
}

/* Where the first tap of row `row` of the phase begins. */
static int64_t row_from(const work *w, int64_t row) {
  const axis *x = w->axis;
  return row / x[1].count * x[0].walk * x[1].size * w->pitch + row % x[1].count * w->down;
}

/* ---- as sums of rows ---- */

/* Sums of n elements from that row on, those between two rows with them. */
static void thin_rows(const work *w, char *sums, const char *planes, int64_t result, int64_t row, int64_t n) {
  const axis *x = &w->axis[2];
  const char *weights = w->phase->given + result * w->k * w->wide;
  const int64_t from = row_from(w, row), line = LINE / w->wide;
  if (!w->lies) n = ceil_div(n, line) * line; /* whole vectors */
  begin_row(w, sums, result, n);
  for (int64_t r = 0; r < w->k;)
    for (int64_t i = 0, taps; i < x->turn && i < x->taps; i++, r += taps) {
      taps = ceil_div(x->taps - i, x->turn);
      w->isa->columns[w->wide == 8](sums, planes + (w->row[r] + from) * w->wide, x->at_step * x->turn / x->walk,
                                    weights + r * w->wide, taps, n);
    }
}

static int64_t strip_bytes(const work *w) {
  return ceil_div(((w->high - 1) * w->pitch + w->axis[2].count) * w->wide, 2 * LINE) * 2 * LINE;
}

static int64_t strips_of(const work *w) { return w->axis[0].count * ceil_div(w->axis[1].count, w->high); }

/* A strip: `high` rows of a plane of the result, or what is left of it. */
static void thin_strip(const work *w, char *sums, const char *planes, int64_t image, int64_t result, int64_t strip) {
  const int64_t down = w->axis[1].count, strips = ceil_div(down, w->high), n = w->axis[2].count;
  const int64_t from = strip % strips * w->high, row = strip / strips * down + from, rows = least(w->high, down - from);
  thin_rows(w, sums, planes, result, row, (rows - 1) * w->pitch + n);
  char *to = result_row(w, w->axis, image, result, row), *raw = sums + strip_bytes(w);
  for (int64_t r = 0; r < rows; r++, to += w->axis[1].step * w->a->dim[2].out * w->item)
    put(w, &w->axis[2], to, 0, raw, sums + r * w->pitch * w->wide, n);
}

static void run_thin(void *arg, int64_t begin, int64_t end) {
  work *w = arg;
  char *sums = tide__room_take((size_t)(strip_bytes(w) + w->axis[2].count * w->wide));
  if (!sums) atomic_store_explicit(&w->failed, true, memory_order_relaxed);
  for (int64_t i = begin; sums && i < end && !tide__loop_stops(); i++) {
    const int64_t plane = i / strips_of(w), image = w->image + plane / w->a->results, result = plane % w->a->results;
    thin_strip(w, sums, planes_of(w, image, result / w->m), image, result, i % strips_of(w));
  }
  tide__room_put(sums);
}

/* The groups of all images whose planes are laid out while a cache holds them. */
static void run_groups(void *arg, int64_t begin, int64_t end) {
  work *w = arg;
  const int64_t channels = w->a->channels / w->a->groups;
  char *sums = tide__room_take((size_t)(strip_bytes(w) + w->axis[2].count * w->wide));
  char *line = sums ? zeros(w, channels) : NULL, *planes = line + w->a->dim[2].in * w->wide;
  if (!line) atomic_store_explicit(&w->failed, true, memory_order_relaxed);
  for (int64_t i = begin; line && i < end && !tide__loop_stops(); i++) {
    for (int64_t c = 0; c < channels; c++) lay_plane(w, planes + c * w->plane * w->wide, line, i * channels + c);
    for (int64_t j = 0; j < w->m * strips_of(w); j++)
      thin_strip(w, sums, planes, i / w->a->groups, i % w->a->groups * w->m + j / strips_of(w), j % strips_of(w));
  }
  tide__room_put(line);
  tide__room_put(sums);
}

/* ---- as products ---- */

/* The runs of some lanes. */
static int runs_of(const work *w, tide__run *runs, int64_t lane, int64_t lanes) {
  const axis *x = w->axis;
  int n = 0;
  for (int64_t to = 0; to < lanes; n++) {
    const int64_t image = (lane + to) / w->each, l = (lane + to) % w->each, in_row = l % x[2].count;
    const int64_t from = image * w->a->channels * w->plane + row_from(w, l / x[2].count) + in_row;
    runs[n] = (tide__run){from, to, least(x[2].count - in_row, lanes - to)};
    to += runs[n].count;
    if (n && runs[n - 1].from + runs[n - 1].count == from) runs[n - 1].count += runs[n].count, n--;
  }
  return n;
}

/* One tile; c is in the result, or among a task's sums, and holds what it is added to, or nothing yet. b is a panel, or
 * where its rows begin at `at`. */
static void run_tile(const work *w, char *c, int64_t c_row, const char *weights, const char *b, const int64_t *at,
                     int64_t rows, int64_t lanes, int64_t k, bool add) {
  _Alignas(64) char sums[TILE_BYTES];
  const int64_t lowest = w->isa->product_rows / 2;
  const bool whole = rows >= lowest && lanes == w->width;
  tide__tile t = {
      .c = whole ? c : sums, .a = weights, .b = b, .at = at, .c_row = whole ? c_row : w->width, .a_row = w->wide};
  t.a_step = w->rows.width * w->wide, t.b_step = w->width, t.b_ahead = 2048 / w->wide, t.k = k, t.add = whole && add;
  const int height = rows > lowest ? (int)(rows - lowest) : 0;
  (at ? w->isa->product_placed[w->wide == 8] : w->isa->product[tide__ctype_of(w->dtype)])[height](&t);
  for (int64_t r = 0; r < rows && !whole; r++, c += c_row * w->wide) {
    if (!add)
      memcpy(c, sums + r * w->width * w->wide, (size_t)(lanes * w->wide));
    else if (w->wide == 8)
      for (int64_t i = 0; i < lanes; i++) ((double *)(void *)c)[i] += ((double *)(void *)sums)[r * w->width + i];
    else
      for (int64_t i = 0; i < lanes; i++) ((float *)(void *)c)[i] += ((float *)(void *)sums)[r * w->width + i];
  }
}

/* What a task computes: panels top to bottom of a group, for n lanes from `lane` on. */
typedef struct block {
  int64_t image, group, top, bottom, lane, n;
  char *b;       /* room for a panel of the second operand */
  char *c;       /* its sums, of a result and phase after the other */
  int64_t c_row; /* between two results */
} block;

/* Tiles of a panel of the second operand, which begins at b, or in the planes. */
static void run_phase(const work *w, const phase *p, const block *o, char *c, const char *b, bool placed, int64_t slice,
                      int64_t lanes) {
  const int64_t from = slice * p->slice, k = least(p->slice, p->k - from), rows = w->rows.width * w->wide;
  const int64_t *at = placed ? p->placed + from : p->packed ? p->packed + from : NULL;
  const char *weights = p->panels + ((o->group * p->k + from) * w->panels + o->top * k) * rows;
  for (int64_t i = o->top; i < o->bottom && k > 0; i++, weights += rows * k) {
    const int64_t top = tide__panel_lane(&w->rows, i);
    run_tile(w, c + top * o->c_row * w->wide, o->c_row, weights, b, at, tide__panel_lane(&w->rows, i + 1) - top, lanes,
             k, slice > 0 || w->a->head.ptr[3]);
  }
}

static void run_products(const work *w, const block *o) {
  const char *planes = planes_of(w, o->image, o->group);
  tide__run runs[MOST_WIDTH];
  for (int64_t slice = 0; slice < w->slices && !tide__loop_stops(); slice++)
    for (int64_t left = 0; left < o->n; left += w->width) {
      const int64_t from = slice * w->slice, lanes = least(w->width, o->n - left);
      const int count = runs_of(w, runs, o->lane + left, lanes);
      const bool placed = w->placed && count == 1 && (lanes == w->width || !w->lies);
      const char *b = placed ? planes + runs->from * w->wide : o->b;
      if (!placed)
        w->isa->pack_runs(o->b, planes, w->row + from, least(w->slice, w->k - from), runs, count, (int)w->wide);
      for (int i = 0; i < w->phases; i++)
        run_phase(w, &w->phase[i], o, o->c + (i * w->m * o->c_row + left) * w->wide, b, placed, slice, lanes);
    }
}

/* Sums of some phase for n elements of row `row` from number `from` on, to results first to last of the group. Two
 * phases that are neighbours in a row are written together. */
static void put_phase(const work *w, const phase *p, const block *o, const char *sums, char *raw, int64_t image,
                      int64_t row, int64_t from, int64_t n) {
  const axis *x = p->axis;
  const int64_t plane = w->a->dim[0].out * w->a->dim[1].out * w->a->dim[2].out * w->item;
  const int64_t first = tide__panel_lane(&w->rows, o->top), last = tide__panel_lane(&w->rows, o->bottom);
  const int64_t count = least(n, (w->even ? w->each : x[2].count) - from), bytes = n * x[2].step * w->item;
  const bool pairs = w->together[2] == 2 && x[2].step == 2 && w->wide == 4 && w->item == 4;
  if (count <= 0 || row / w->axis[1].count >= x[0].count || row % w->axis[1].count >= x[1].count) return;
  if (pairs && x[2].first % 2) return;
  char *to = result_row(w, x, image, o->group * w->m + first, row);
  for (int64_t i = first; i < last; i++, to += plane) {
    const char *some = sums + i * o->c_row * w->wide;
    for (int64_t byte = 0; byte < bytes; byte += LINE)
      __builtin_prefetch(to + SOON * plane + from * x[2].step * w->item + byte, 1);
    if (pairs)
      join(to + from * 8, some, some + w->m * o->c_row * 4, count + least(n, p[1].axis[2].count - from));
    else
      put(w, &x[2], to, from, raw, some, count);
  }
}

static void run_block(const work *w, char *memory, int64_t index) {
  const int64_t columns = w->across * w->width, part = index / w->blocks % w->parts;
  index = index / w->blocks / w->parts * w->blocks + index % w->blocks;
  block o = {.lane = index % w->blocks * columns, .group = index / w->blocks % w->a->groups, .b = memory};
  o.image = w->image + index / w->blocks / w->a->groups, o.n = least(columns, w->n - o.lane);
  o.top = w->panels * part / w->parts, o.bottom = w->panels * (part + 1) / w->parts;
  char *raw = memory + w->slice * w->width * w->wide;
  o.c = raw + columns * w->wide, o.c_row = columns;
  if (w->direct) o.c = result_row(w, w->axis, o.image, o.group * w->m, 0) + o.lane * w->wide, o.c_row = w->n;
  for (int p = 0; p < w->phases; p++)
    for (int64_t i = tide__panel_lane(&w->rows, o.top);
         i < tide__panel_lane(&w->rows, o.bottom) && (w->a->head.ptr[3] || !w->phase[p].k); i++)
      begin_row(w, o.c + (p * w->m + i) * o.c_row * w->wide, o.group * w->m + i, o.n);
  run_products(w, &o);
  for (int64_t at = 0, some; at < o.n && !w->direct; at += some) {
    const int64_t l = (o.lane + at) % w->each, count = w->even ? w->each : w->axis[2].count, from = l % count;
    some = least(count - from, o.n - at);
    for (int p = 0; p < w->phases; p++)
      put_phase(w, &w->phase[p], &o, o.c + (p * w->m * columns + at) * w->wide, raw, o.image + (o.lane + at) / w->each,
                l / count, from, some);
  }
}

static void run_blocks(void *arg, int64_t begin, int64_t end) {
  work *w = arg;
  const int64_t columns = w->across * w->width;
  const int64_t numbers = w->slice * w->width + columns + (w->direct ? 0 : w->phases * w->m * columns);
  char *memory = tide__room_take((size_t)(numbers * w->wide));
  if (!memory) atomic_store_explicit(&w->failed, true, memory_order_relaxed);
  for (int64_t i = begin; memory && i < end && !tide__loop_stops(); i++) run_block(w, memory, i);
  tide__room_put(memory);
}

/* ---- what is made before ---- */

/* The taps of a phase, and where its rows begin: in the planes at `row`, and in panels where phases share them, at
 * what is returned, behind which the next phase may write. */
static int64_t *choose_taps(const work *w, phase *p, int64_t *at, const axis *box) {
  const axis *x = p->axis;
  const tide_taps *d = w->a->dim;
  const int64_t channels = w->a->channels / w->a->groups, taps = x[0].taps * x[1].taps * x[2].taps;
  int64_t *tap = at, *placed = tap + taps, *packed = placed + channels * taps + TIDE__PRODUCT_AHEAD, t = 0;
  int64_t *end = w->phases > 1 ? packed + channels * taps + TIDE__PRODUCT_AHEAD : packed;
  const int64_t wide = w->width, volume = box[0].size * box[1].size * box[2].size;
  memset(at, 0, (size_t)(end - at) * sizeof *at);
  for (int64_t iz = 0; iz < x[0].taps; iz++)
    for (int64_t iy = 0; iy < x[1].taps; iy++)
      for (int64_t i = 0; i < x[2].turn; i++)
        for (int64_t ix = i; ix < x[2].taps; ix += x[2].turn, t++) {
          const int64_t oz = x[0].at + iz * x[0].at_step, oy = x[1].at + iy * x[1].at_step;
          const int64_t ox = x[2].at + ix * x[2].at_step;
          const int64_t row = (oz + x[0].low) * w->axis[1].size + laid_row(w, oy + x[1].low), of = ox + x[2].low;
          const int64_t from = row * w->pitch + of % x[2].walk * w->columns + of / x[2].walk;
          const int64_t ky = (x[0].tap + iz * x[0].tap_step) * d[1].kernel + x[1].tap + iy * x[1].tap_step;
          const int64_t in_box = ((oz - box[0].at) * box[1].size + oy - box[1].at) * box[2].size + ox - box[2].at;
          tap[t] = ky * d[2].kernel + x[2].tap + ix * x[2].tap_step;
          for (int64_t c = 0; c < channels; c++) placed[c * taps + t] = c * w->plane + from;
          for (int64_t c = 0; c < channels && w->phases > 1; c++)
            packed[c * taps + t] = (c % w->some * volume + in_box) * wide;
        }
  p->k = channels * taps, p->tap = tap, p->placed = placed, p->packed = w->phases > 1 ? packed : NULL;
  return end;
}

/* The weights of a phase's taps for group g, where they do not serve as they are. */
static void gather_weights(const work *w, const phase *p, int64_t g) {
  const tide_taps *d = w->a->dim;
  const int64_t channels = w->a->channels / w->a->groups, kernel = d[0].kernel * d[1].kernel * d[2].kernel;
  const int64_t taps = p->k / channels, n = w->m * channels;
  char *to = w->gathered + (p->given - w->gathered) + g * n * taps * w->wide;
  for (int64_t t = 0; t < taps && !w->whole; t++)
    spread(to + t * w->wide, taps, w->given + (g * n * kernel + p->tap[t]) * w->wide, kernel, w->wide, n);
}

/* Panels of the weights: of a phase and group, and where nothing is gathered of a slice. */
static void pack_weights(const work *w, int64_t index) {
  const int64_t parts = w->whole ? w->slices : 1, g = index / parts % w->a->groups, part = index % parts;
  const phase *p = &w->phase[index / parts / w->a->groups];
  tide__panels rows = w->rows;
  rows.lanes_apart = p->k;
  gather_weights(w, p, g);
  for (int64_t from = part * p->slice; from < (w->whole ? least(p->k, (part + 1) * p->slice) : p->k); from += p->slice)
    tide__gemm_pack(&rows, p->panels + (g * p->k + from) * w->panels * rows.width * w->wide,
                    p->given + g * w->m * p->k * w->wide, 0, w->panels, from, least(p->slice, p->k - from));
}

/* The first tasks pack weights, the others lay out planes. */
static void prepare(void *arg, int64_t begin, int64_t end) {
  work *w = arg;
  for (; begin < end && begin < w->weighed; begin++) pack_weights(w, begin);
  if (begin < end)
    lay_planes(w, (begin - w->weighed) * w->lay,
               least((end - w->weighed) * w->lay, least(w->images, w->a->batch - w->image) * w->a->channels));
}

/* Every thread that comes takes one task after the other. */
static void take_tasks(void *arg, int64_t begin, int64_t end) {
  work *w = arg;
  (void)begin, (void)end;
  for (int64_t i; !tide__loop_stops() && (i = atomic_fetch_add_explicit(&w->next, 1, memory_order_relaxed)) < w->tasks;)
    w->task(w, i, i + 1);
}

static void share_out(work *w, int64_t tasks, int64_t each, tide_task_fn fn) {
  w->task = fn, w->tasks = tasks;
  atomic_store_explicit(&w->next, 0, memory_order_relaxed);
  if (tasks < 2 || tasks * each < TIDE_GRAIN || tide_get_num_threads() == 1)
    fn(w, 0, tasks);
  else
    tide__parallel_for(tide_get_num_threads(), 1, take_tasks, w);
}

/* ---- some phases ---- */

/* Of how many tiles and panels a task is, and how many tasks are for the images of a turn: so many that no thread waits
 * long for the last one. */
static int64_t choose_tasks(work *w, int64_t images) {
  const int threads = tide_get_num_threads();
  w->n = w->joined ? w->each * images : w->each;
  if (w->joined) images = 1;
  images *= w->a->groups;
  const int64_t tiles = ceil_div(w->n, w->width), wanted = threads > 1 ? TASKS * threads : 1;
  w->across = least(least(MOST_ACROSS, tiles), BLOCK_BYTES / (w->phases * w->m * w->width * w->wide) + 1);
  if (images * ceil_div(tiles, w->across) < wanted) w->across = images * tiles / wanted;
  if (w->across < 1) w->across = 1;
  w->blocks = ceil_div(tiles, w->across), w->across = ceil_div(tiles, w->blocks), w->parts = 1;
  if (images * w->blocks < wanted) w->parts = least(w->panels / LEAST_PANELS, ceil_div(wanted, images * w->blocks));
  if (w->parts < 1) w->parts = 1;
  return images * w->blocks * w->parts;
}

/* Which elements of the input, counted from the first of the result, the taps of dim d's phases reach. */
static axis box_of(const tide_conv_args *a, int d, int64_t begin, int64_t end) {
  axis box = {.at = INT64_MAX};
  int64_t last = INT64_MIN;
  for (int64_t r = begin; r < end; r++) {
    const axis x = axis_of(a, d, r);
    const int64_t to = x.at + (x.taps - 1) * x.at_step;
    if (x.taps && box.at > x.at) box.at = x.at;
    if (x.taps && last < to) last = to;
  }
  box.size = last < box.at ? 0 : last - box.at + 1;
  return box;
}

/* How many phases of each dim are computed together: all, if what they reach is less than what each of them does. */
static void choose_together(work *w) {
  int phases = 1;
  for (int d = 0; d < 3; d++) {
    w->together[d] = 1;
    if (w->thin || box_of(w->a, d, 0, least(w->a->up[d], w->a->dim[d].out)).size > w->a->dim[d].kernel) phases = 0;
  }
  for (int d = 2; d >= 0 && phases; d--) {
    const int64_t n = least(w->a->up[d], w->a->dim[d].out);
    if (n * phases <= MOST_PHASES) w->together[d] = (int)n, phases *= (int)n;
  }
}

/* Rows of the second operand, slices of them, and weights for the phases that begin with `first`. */
static void choose_products(work *w, const axis *box) {
  const tide_conv_args *a = w->a;
  const int64_t channels = a->channels / a->groups, volume = box[0].size * box[1].size * box[2].size;
  int64_t *at = w->table, most = 1;
  char *gathered = w->gathered, *panels = w->packed;
  for (int i = 0; i < w->phases; i++) {
    const axis *x = w->phase[i].axis;
    const int64_t taps = x[0].taps * x[1].taps * x[2].taps;
    if (most < taps) most = taps;
  }
  if (w->phases > 1) {
    w->slices = ceil_div(channels, TIDE_GEMM_SLICE / most + 1), w->some = ceil_div(channels, w->slices);
    w->slice = w->some * volume;
  }
  for (int i = 0; i < w->phases; i++) {
    phase *p = &w->phase[i];
    at = choose_taps(w, p, at, box);
    p->given = w->whole ? w->given : gathered, p->panels = panels;
    p->slice = w->some * (p->k / channels);
    gathered += a->results * p->k * w->wide, panels += a->groups * w->panels * w->rows.width * p->k * w->wide;
  }
  w->k = w->phases > 1 ? channels * volume : w->phase->k, w->row = at;
  if (w->phases == 1) {
    w->row = w->phase->placed;
    w->slices = w->k ? ceil_div(w->k, TIDE_GEMM_SLICE) : 1, w->slice = w->k ? ceil_div(w->k, w->slices) : 1;
    w->phase->slice = w->slice;
  }
  for (int64_t c = 0, i = 0; c < channels && w->phases > 1; c++)
    for (int64_t z = 0; z < box[0].size; z++)
      for (int64_t y = 0; y < box[1].size; y++)
        for (int64_t x = 0; x < box[2].size; x++, i++)
          at[i] = c * w->plane +
                  ((z + box[0].at + w->axis[0].low) * w->axis[1].size + y + box[1].at + w->axis[1].low) * w->pitch + x +
                  box[2].at + w->axis[2].low;
}

/* The phases from element `first` of the result on. */
static void find_phases(work *w, const int64_t first[3]) {
  const tide_conv_args *a = w->a;
  axis box[3];
  w->phases = w->together[0] * w->together[1] * w->together[2];
  for (int i = 0; i < w->phases; i++) {
    const int64_t at[3] = {first[0] + i / w->together[2] / w->together[1],
                           first[1] + i / w->together[2] % w->together[1], first[2] + i % w->together[2]};
    for (int d = 0; d < 3; d++) {
      axis *x = &w->phase[i].axis[d];
      *x = axis_of(a, d, at[d]);
      x->low = w->axis[d].low, x->size = w->axis[d].size, x->part = w->axis[d].part;
    }
  }
  memcpy(w->axis, w->phase->axis, sizeof w->axis);
  for (int d = 0; d < 3; d++) box[d] = box_of(a, d, first[d], first[d] + w->together[d]);
  const axis *x = w->axis;
  w->each = x[0].count * x[1].count * x[2].count;
  w->high = w->down == w->pitch ? least(x[1].count, STRIP_BYTES / (w->pitch * w->wide) + 1) : 1;
  w->joined = w->images > 1 && ceil_div(w->each, w->width) * w->width - w->each > w->each / 20;
  w->direct = w->even && !w->joined && w->item == w->wide;
  w->whole = x[2].turn == 1;
  for (int d = 0; d < 3; d++) w->whole = w->whole && x[d].taps == a->dim[d].kernel;
  choose_products(w, box);
}

static void run_phases(work *w, const int64_t first[3]) {
  const tide_conv_args *a = w->a;
  const axis *x = w->axis;
  find_phases(w, first);
  const bool laid = !w->lies && !w->near;
  const int64_t each = (w->k + 8) * x[2].count; /* of a row of sums */
  for (int64_t g = 0; g < a->groups && w->thin; g++) gather_weights(w, w->phase, g);
  w->weighed = w->thin ? 0 : w->phases * a->groups * (w->whole ? w->slices : 1);
  if (w->near) tide__spread(a->batch * a->groups, w->m * x[0].count * x[1].count * each, run_groups, w);
  for (w->image = 0; !w->near && w->image < a->batch && !tide__loop_stops(); w->image += w->images) {
    const int64_t images = least(w->images, a->batch - w->image), planes = images * a->channels;
    const bool lay = laid && w->laid != w->image;
    const int64_t tasks = w->weighed + (lay ? ceil_div(planes, w->lay) : 0);
    if (tasks) share_out(w, tasks, w->weighed * TIDE_GRAIN + (lay ? planes * w->plane : 0), prepare);
    if (laid) w->laid = w->image;
    w->weighed = 0;
    if (w->thin)
      tide__spread(images * a->results * strips_of(w), w->high * each, run_thin, w);
    else
      share_out(w, choose_tasks(w, images), images * a->results * w->each * w->k, run_blocks);
  }
}

/* How planes are laid out, for all phases. */
static void choose_layout(work *w) {
  const tide_conv_args *a = w->a;
  axis *x = w->axis;
  w->lies = w->item == w->wide && a->dim[2].stride == 1, w->even = true;
  for (int d = 0; d < 3; d++) {
    int64_t reach[2] = {0};
    find_reach(a, d, reach);
    x[d] = axis_of(a, d, 0);
    x[d].low = reach[0], x[d].size = reach[0] + reach[1];
    w->lies = w->lies && reach[0] == 0 && reach[1] <= a->dim[d].in, w->even = w->even && a->up[d] == 1;
  }
  for (int d = 0; d < 3; d++) {
    x[d].part = d ? ceil_div(x[d].size, x[d].walk) : x[d].size;
    x[d].size = w->lies ? a->dim[d].in : d ? x[d].part * x[d].walk : x[d].size;
  }
  w->pitch = w->lies ? x[2].size : x[2].part, w->columns = x[0].size * x[1].size * w->pitch;
  w->plane = x[2].walk * w->columns;
  /* Planes that lie apart by what a cache is a multiple of have the same places there. */
  if (!w->lies) w->plane = (ceil_div(w->plane * w->wide, LINE) | 1) * LINE / w->wide;
  w->placed = w->plane * w->wide % SAME_PLACES;
  w->down = w->lies ? x[1].walk * w->pitch : w->pitch;
  w->lay = LAY_BYTES / (w->plane * w->wide) + 1;
  w->images = w->lies ? a->batch : least(a->batch, ROOM_BYTES / (a->channels * w->plane * w->wide) + 1);
  w->thin = w->m <= THIN;
  w->near = w->thin && !w->lies && a->batch * a->groups >= EACH * tide_get_num_threads() &&
            a->channels / a->groups * w->plane * w->wide <= NEAR_BYTES;
}

/* All the memory that a call needs but what its threads take, so that it is one block; NULL if there is none. */
static char *take_memory(work *w) {
  const tide_conv_args *a = w->a;
  const int64_t taps = a->dim[0].kernel * a->dim[1].kernel * a->dim[2].kernel, channels = a->channels / a->groups;
  const int64_t lanes = a->groups * w->panels * w->rows.width, n = a->results * channels * taps;
  const int64_t parts[] = {((3 * channels + 1) * taps + (2 * MOST_PHASES + 1) * TIDE__PRODUCT_AHEAD) * 8, n * w->wide,
                           w->thin ? 0 : lanes * channels * taps * w->wide, w->item != w->wide ? n * w->wide : 0,
                           w->lies || w->near ? 0 : w->images * a->channels * w->plane * w->wide + 2 * LINE};
  int64_t at[6] = {0};
  for (int i = 0; i < 5; i++) at[i + 1] = at[i] + ceil_div(parts[i], 2 * LINE) * 2 * LINE;
  char *memory = tide__room_take((size_t)at[5]);
  if (!memory) return NULL;
  w->table = (int64_t *)(void *)memory, w->gathered = memory + at[1], w->packed = memory + at[2],
  w->room = memory + at[4];
  w->given = a->head.ptr[2];
  if (w->item != w->wide) {
    tide__cast(w->isa, memory + at[3], w->dtype, w->given, a->dtype, n);
    w->given = memory + at[3];
  }
  return memory;
}

tide_status tide__cpu_conv(tide_stream *stream, const tide_conv_args *a) {
  (void)stream;
  work w = {.a = a, .isa = tide__isa_get(), .item = tide__item(a->dtype), .m = a->results / a->groups, .laid = -1};
  w.dtype = a->dtype == TIDE_FLOAT64 ? TIDE_FLOAT64 : TIDE_FLOAT32, w.wide = tide__item(w.dtype);
  w.panels = ceil_div(w.m, w.isa->product_rows), w.width = w.isa->product_bytes / w.wide;
  w.rows = (tide__panels){.isa = w.isa, .pack = w.isa->pack_rows[w.wide == 8], .dtype = w.dtype, .compute = w.dtype};
  w.rows.item = (int)w.wide, w.rows.width = w.isa->product_rows, w.rows.k_apart = 1;
  w.rows.lanes = w.m, w.rows.high = w.m / w.panels + 1, w.rows.tall = w.m % w.panels;
  choose_layout(&w);
  choose_together(&w);
  char *memory = take_memory(&w);
  int64_t r[3];
  for (r[0] = 0; r[0] < least(a->up[0], a->dim[0].out); r[0] += w.together[0])
    for (r[1] = 0; r[1] < least(a->up[1], a->dim[1].out); r[1] += w.together[1])
      for (r[2] = 0; r[2] < least(a->up[2], a->dim[2].out); r[2] += w.together[2])
        if (memory && !atomic_load_explicit(&w.failed, memory_order_relaxed)) run_phases(&w, r);
  tide__room_put(memory);
  if (memory && !atomic_load_explicit(&w.failed, memory_order_relaxed)) return TIDE_OK;
  return tide__fail(TIDE_MEMORY, "conv: no memory for %lld images of %lld planes of %lld elements", (long long)w.images,
                    (long long)a->channels, (long long)w.plane);
}
