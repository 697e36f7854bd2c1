/* conv.c: convolutions, as matrix products whose second operand is never made.
 *
 * That operand has a row for each channel and tap of the kernel and a column for each element of the result. A row is
 * the channel's plane, shifted, so once the plane has its zeros around it, it is enough to know where each row begins:
 * panels for the inner loops of matrix products (isa.h) are copied from there. Where elements of the result lie
 * `stride` elements of the input apart, the plane is laid out as so many planes of every stride-th column, and their
 * rows in the same way, so that neighbours are neighbours again. Of a transposed convolution, the elements of the
 * result that the same taps reach are computed together, each such phase as a convolution of its own. One or two
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

typedef struct work {
  const tide_conv_args *a;
  const tide__isa *isa;
  axis axis[3];
  int dtype;                     /* of the products: FLOAT32 or FLOAT64 */
  int64_t item, wide;            /* bytes of an element of the tensors, and of the products */
  int64_t m, n, k, slice;        /* of the product for a group; k whose sums stay in registers */
  int64_t each;                  /* of n: an image's */
  bool joined, even;             /* n is of all images of a turn; the rows of a result follow each other */
  int64_t pitch, columns, plane; /* elements of a row, of every walk-th column, and of a laid out plane */
  int64_t down, high;            /* elements between two rows of a result; rows of them that are summed together */
  bool lies;                     /* the input serves as it lies */
  bool placed;                   /* panels of neighbours are read where they are */
  bool thin, near, direct;       /* sums of rows; of planes that are laid out for them alone; tiles go to the result */
  tide__panels rows;
  int64_t panels, width, across, blocks; /* of weights; lanes of a tile; tiles of a task; tasks of a group */
  int64_t image, images;                 /* of a turn */
  int64_t laid;                          /* the first image that is laid out now, or -1 */
  int64_t *row;                          /* where each row of the second operand begins */
  const char *given, *weights;           /* all of them and those of the phase, [results, k], as `dtype` */
  char *packed, *room;                   /* the weights in panels, and the laid out planes */
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
  x.size = x.taps && x.count ? x.low + x.at + (x.taps - 1) * x.at_step + (x.count - 1) * x.walk + 1 : 1;
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

static void lay_planes(void *arg, int64_t begin, int64_t end) {
  work *w = arg;
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

/* Row `row` of a result's plane, counted among the rows of the phase. */
static char *result_row(const work *w, int64_t image, int64_t result, int64_t row) {
  const axis *x = w->axis;
  const tide_taps *d = w->a->dim;
  const int64_t z = x[0].first + row / x[1].count * x[0].step, y = x[1].first + row % x[1].count * x[1].step;
  return (char *)w->a->head.ptr[0] +
         (((image * w->a->results + result) * d[0].out + z) * d[1].out + y) * d[2].out * w->item;
}

/* n sums for the elements of that row from number `from` of the phase on; raw is room for them. */
static void put(const work *w, char *row, int64_t from, char *raw, const char *sums, int64_t n) {
  const axis *x = &w->axis[2];
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
  const char *weights = w->weights + result * w->k * w->wide;
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
  char *to = result_row(w, image, result, row), *raw = sums + strip_bytes(w);
  for (int64_t r = 0; r < rows; r++, to += w->axis[1].step * w->a->dim[2].out * w->item)
    put(w, to, 0, raw, sums + r * w->pitch * w->wide, n);
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

/* Sums of a task's block into c: all results of the group for n lanes from `lane` on. */
static void run_products(const work *w, char *c, int64_t c_row, char *b, int64_t image, int64_t group, int64_t lane,
                         int64_t n) {
  const char *planes = planes_of(w, image, group);
  const char *packed = w->packed + group * w->panels * w->rows.width * w->k * w->wide;
  tide__run runs[MOST_WIDTH];
  for (int64_t from = 0; from < w->k && !tide__loop_stops(); from += w->slice) {
    const int64_t k = least(w->slice, w->k - from);
    for (int64_t left = 0; left < n; left += w->width) {
      const int64_t lanes = least(w->width, n - left);
      const char *weights = packed + from * w->panels * w->rows.width * w->wide;
      const int n_runs = runs_of(w, runs, lane + left, lanes);
      const bool placed = w->placed && n_runs == 1 && (lanes == w->width || !w->lies);
      if (!placed) w->isa->pack_runs(b, planes, w->row + from, k, runs, n_runs, (int)w->wide);
      for (int64_t p = 0; p < w->panels; p++, weights += w->rows.width * k * w->wide) {
        const int64_t top = tide__panel_lane(&w->rows, p);
        run_tile(w, c + (top * c_row + left) * w->wide, c_row, weights, placed ? planes + runs->from * w->wide : b,
                 placed ? w->row + from : NULL, tide__panel_lane(&w->rows, p + 1) - top, lanes, k,
                 from > 0 || w->a->head.ptr[3]);
      }
    }
  }
}

static void run_block(const work *w, char *memory, int64_t index) {
  const int64_t block = index % w->blocks, group = index / w->blocks % w->a->groups;
  const int64_t image = w->image + index / w->blocks / w->a->groups, columns = w->across * w->width;
  const int64_t lane = block * columns, n = least(columns, w->n - lane);
  char *b = memory, *raw = b + w->slice * w->width * w->wide + 2 * LINE, *sums = raw + w->width * MOST_ACROSS * w->wide;
  char *c = w->direct ? result_row(w, image, group * w->m, 0) + lane * w->wide : sums;
  const int64_t c_row = w->direct ? w->n : columns;
  for (int64_t i = 0; i < w->m && w->a->head.ptr[3]; i++) begin_row(w, c + i * c_row * w->wide, group * w->m + i, n);
  run_products(w, c, c_row, b, image, group, lane, n);
  const int64_t plane = w->a->dim[0].out * w->a->dim[1].out * w->a->dim[2].out * w->item;
  for (int64_t at = 0, some; at < n && !w->direct; at += some) {
    const int64_t l = (lane + at) % w->each, count = w->even ? w->each : w->axis[2].count, from = l % count;
    char *to = result_row(w, image + (lane + at) / w->each, group * w->m, l / count);
    some = least(count - from, n - at);
    for (int64_t i = 0; i < w->m; i++) {
      for (int64_t byte = 0; byte < some * w->axis[2].step * w->item; byte += LINE)
        __builtin_prefetch(to + (i + SOON) * plane + from * w->axis[2].step * w->item + byte, 1);
      put(w, to + i * plane, from, raw, sums + (i * c_row + at) * w->wide, some);
    }
  }
}

static void run_blocks(void *arg, int64_t begin, int64_t end) {
  work *w = arg;
  const int64_t columns = w->across * w->width;
  const int64_t numbers = w->slice * w->width + MOST_ACROSS * w->width + (w->direct ? 0 : w->m * columns);
  char *memory = tide__room_take((size_t)(numbers * w->wide + 2 * LINE));
  if (!memory) atomic_store_explicit(&w->failed, true, memory_order_relaxed);
  for (int64_t i = begin; memory && i < end && !tide__loop_stops(); i++) run_block(w, memory, i);
  tide__room_put(memory);
}

/* ---- a phase ---- */

/* Where the rows of the second operand begin, and the weights of the phase's taps, [results, k]. */
static void choose_taps(work *w, char *weights) {
  const axis *x = w->axis;
  const tide_taps *d = w->a->dim;
  const int64_t channels = w->a->channels / w->a->groups, kernel = d[0].kernel * d[1].kernel * d[2].kernel;
  const int64_t taps = x[0].taps * x[1].taps * x[2].taps;
  const bool all = taps == kernel && x[2].turn == 1;
  int64_t t = 0;
  w->weights = all ? w->given : weights;
  for (int64_t iz = 0; iz < x[0].taps; iz++)
    for (int64_t iy = 0; iy < x[1].taps; iy++)
      for (int64_t i = 0; i < x[2].turn; i++)
        for (int64_t ix = i; ix < x[2].taps; ix += x[2].turn, t++) {
          const int64_t z = x[0].at + iz * x[0].at_step + x[0].low, y = x[1].at + iy * x[1].at_step + x[1].low;
          const int64_t at = x[2].at + ix * x[2].at_step + x[2].low;
          const int64_t row = z * x[1].size + laid_row(w, y);
          const int64_t from = row * w->pitch + at % x[2].walk * w->columns + at / x[2].walk;
          const int64_t ky = (x[0].tap + iz * x[0].tap_step) * d[1].kernel + x[1].tap + iy * x[1].tap_step;
          const int64_t tap = ky * d[2].kernel + x[2].tap + ix * x[2].tap_step;
          for (int64_t c = 0; c < channels; c++) w->row[c * taps + t] = c * w->plane + from;
          if (!all)
            spread(weights + t * w->wide, taps, w->given + tap * w->wide, kernel, w->wide, w->a->results * channels);
        }
}

static void choose_products(work *w) {
  const tide__isa *isa = w->isa;
  w->panels = ceil_div(w->m, isa->product_rows), w->width = isa->product_bytes / w->wide;
  w->rows = (tide__panels){.isa = isa, .pack = isa->pack_rows[w->wide == 8], .dtype = w->dtype, .compute = w->dtype};
  w->rows.item = (int)w->wide, w->rows.width = isa->product_rows, w->rows.lanes_apart = w->k, w->rows.k_apart = 1;
  w->rows.lanes = w->m, w->rows.high = w->m / w->panels + 1, w->rows.tall = w->m % w->panels;
  for (int64_t g = 0; g < w->a->groups; g++)
    for (int64_t from = 0; from < w->k; from += w->slice)
      tide__gemm_pack(&w->rows, w->packed + (g * w->k + from) * w->panels * w->rows.width * w->wide,
                      w->weights + g * w->m * w->k * w->wide, 0, w->panels, from, least(w->slice, w->k - from));
}

/* Of how many tiles a task is, and how many tasks are for the images of a turn. */
static int64_t choose_tasks(work *w, int64_t images) {
  w->n = w->joined ? w->each * images : w->each;
  if (w->joined) images = 1;
  const int64_t tiles = ceil_div(w->n, w->width), wanted = EACH * tide_get_num_threads();
  w->across = least(least(MOST_ACROSS, tiles), BLOCK_BYTES / (w->m * w->width * w->wide) + 1);
  while (w->across > 1 && images * w->a->groups * ceil_div(tiles, w->across) < wanted) w->across--;
  w->blocks = ceil_div(tiles, w->across);
  return images * w->a->groups * w->blocks;
}

static tide_status run_phase(work *w) {
  const tide_conv_args *a = w->a;
  const axis *x = w->axis;
  bool lies = w->item == w->wide && x[2].walk == 1, even = true;
  for (int d = 0; d < 3; d++) {
    if (!x[d].count) return TIDE_OK;
    lies = lies && x[d].low == 0 && x[d].size <= a->dim[d].in, even = even && x[d].step == 1;
  }
  w->lies = lies, w->even = even, w->each = x[0].count * x[1].count * x[2].count;
  for (int d = 0; d < 3; d++) {
    axis *of = &w->axis[d];
    of->part = d ? ceil_div(of->size, of->walk) : of->size;
    of->size = lies ? a->dim[d].in : d ? of->part * of->walk : of->size;
  }
  w->pitch = lies ? x[2].size : x[2].part, w->columns = x[0].size * x[1].size * w->pitch,
  w->plane = x[2].walk * w->columns;
  /* Planes that lie apart by what a cache is a multiple of have the same places there. */
  if (!lies) w->plane = (ceil_div(w->plane * w->wide, LINE) | 1) * LINE / w->wide;
  w->placed = w->plane * w->wide % SAME_PLACES;
  w->down = lies ? x[1].walk * w->pitch : w->pitch;
  w->high = w->down == w->pitch ? least(x[1].count, STRIP_BYTES / (w->pitch * w->wide) + 1) : 1;
  w->k = a->channels / a->groups * x[0].taps * x[1].taps * x[2].taps;
  w->slice = w->k ? ceil_div(w->k, ceil_div(w->k, TIDE_GEMM_SLICE)) : 1;
  w->thin = w->m <= THIN || !w->k;
  w->images = w->lies ? a->batch : ROOM_BYTES / (a->channels * w->plane * w->wide) + 1;
  if (w->images > a->batch) w->images = a->batch;
  const int64_t width = w->isa->product_bytes / w->wide;
  w->joined = w->images > 1 && ceil_div(w->each, width) * width - w->each > w->each / 20;
  w->direct = even && !w->joined && w->item == w->wide;
  const int64_t weights = ceil_div(a->results * w->k * w->wide, 128) * 128,
                rows = ceil_div((w->k + TIDE__PRODUCT_AHEAD) * 8, 128) * 128;
  const int64_t panels = ceil_div(w->m, w->isa->product_rows) * w->isa->product_rows,
                packed = w->thin ? 0 : a->groups * panels * w->k * w->wide;
  w->near = w->thin && !lies && a->batch * a->groups >= EACH * tide_get_num_threads() &&
            a->channels / a->groups * w->plane * w->wide <= NEAR_BYTES;
  const bool laid = !w->lies && !w->near;
  char *memory = tide__room_take((size_t)(weights + rows + packed));
  if (laid && !w->room) w->room = tide__room_take((size_t)(w->images * a->channels * w->plane * w->wide + 2 * LINE));
  if (memory && (!laid || w->room)) {
    const int64_t each = (w->k + 8) * x[2].count; /* of a row of sums */
    w->row = (int64_t *)(void *)memory, w->packed = memory + rows + weights;
    memset(w->row + w->k, 0, TIDE__PRODUCT_AHEAD * sizeof *w->row);
    choose_taps(w, memory + rows);
    if (!w->thin) choose_products(w);
    if (w->near) tide__spread(a->batch * a->groups, w->m * x[0].count * x[1].count * each, run_groups, w);
    for (w->image = 0; !w->near && w->image < a->batch && !tide__loop_stops(); w->image += w->images) {
      const int64_t images = least(w->images, a->batch - w->image);
      if (laid && w->laid != w->image) tide__spread(images * a->channels, w->plane, lay_planes, w);
      if (laid) w->laid = w->image;
      const int64_t tasks = w->thin ? images * a->results * strips_of(w) : choose_tasks(w, images);
      if (w->thin)
        tide__spread(tasks, w->high * each, run_thin, w);
      else
        tide__spread(tasks, w->m * w->k * w->across * w->width, run_blocks, w);
    }
  } else {
    atomic_store_explicit(&w->failed, true, memory_order_relaxed);
  }
  tide__room_put(memory);
  if (!atomic_load_explicit(&w->failed, memory_order_relaxed)) return TIDE_OK;
  return tide__fail(TIDE_MEMORY, "conv: no memory for %lld images of %lld planes of %lld elements",
                    (long long)w->images, (long long)a->channels, (long long)w->plane);
}

tide_status tide__cpu_conv(tide_stream *stream, const tide_conv_args *a) {
  (void)stream;
  work w = {.a = a, .isa = tide__isa_get(), .item = tide__item(a->dtype), .m = a->results / a->groups, .laid = -1};
  w.dtype = a->dtype == TIDE_FLOAT64 ? TIDE_FLOAT64 : TIDE_FLOAT32, w.wide = tide__item(w.dtype);
  const tide_taps *d = a->dim;
  const int64_t n = a->results * (a->channels / a->groups) * d[0].kernel * d[1].kernel * d[2].kernel;
  char *wider = w.item != w.wide ? tide__room_take((size_t)(n * w.wide)) : NULL;
  if (w.item != w.wide && !wider) return tide__fail(TIDE_MEMORY, "conv: no memory for the weights as float32");
  if (wider) tide__cast(w.isa, wider, w.dtype, a->head.ptr[2], a->dtype, n);
  w.given = wider ? wider : a->head.ptr[2];
  tide_status status = TIDE_OK;
  int64_t reach[3][2] = {{0}};
  for (int i = 0; i < 3; i++) find_reach(a, i, reach[i]);
  for (int64_t z = 0; z < least(a->up[0], d[0].out); z++)
    for (int64_t y = 0; y < least(a->up[1], d[1].out); y++)
      for (int64_t x = 0; x < least(a->up[2], d[2].out) && status == TIDE_OK; x++) {
        const int64_t phase[3] = {z, y, x};
        for (int i = 0; i < 3; i++) {
          w.axis[i] = axis_of(a, i, phase[i]);
          w.axis[i].low = reach[i][0], w.axis[i].size = reach[i][0] + reach[i][1];
        }
        status = run_phase(&w);
      }
  tide__room_put(w.room);
  tide__room_put(wider);
  return status;
}
