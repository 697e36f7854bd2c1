/* conv_run.c: the tasks of convolutions (conv.h), each of which may run on any thread: planes are laid out and weights
 * packed first, and then either rows are summed, or tiles of products, whose panels are packed a slice at a time.
 *
 * Invariant: a task writes nothing that another one reads or writes. */
#include "conv.h"
#include "backend/cpu/scratch.h"

enum { MOST_WIDTH = 64, LINE = 64, TILE_BYTES = 2048, SOON = 4 };
typedef tide__conv_axis axis;
typedef tide__conv_phase phase;
typedef tide__conv work;

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

/* ---- the input ---- */

/* Elements of dim d that the input has of a laid out plane. */
static int64_t given(const work *w, int d) { return tide__least(w->a->dim[d].in, w->axis[d].size - w->axis[d].low); }

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
      char *row = to + ((z + x[0].low) * x[1].size + tide__conv_row(w, y + x[1].low)) * w->pitch * w->wide;
      if (w->item != w->wide)
        tide__cast(w->isa, walk > 1 ? line : row + low * w->wide, w->dtype, from, w->a->dtype, n);
      else if (walk == 1)
        memcpy(row + low * w->wide, from, (size_t)(n * w->wide));
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
  if (!w->lies) n = tide__ceil_div(n, line) * line; /* whole vectors */
  begin_row(w, sums, result, n);
  for (int64_t r = 0; r < w->k;)
    for (int64_t i = 0, taps; i < x->turn && i < x->taps; i++, r += taps) {
      taps = tide__ceil_div(x->taps - i, x->turn);
      w->isa->columns[w->wide == 8](sums, planes + (w->row[r] + from) * w->wide, x->at_step * x->turn / x->walk,
                                    weights + r * w->wide, taps, n);
    }
}

static int64_t strip_bytes(const work *w) {
  return tide__ceil_div(((w->high - 1) * w->pitch + w->axis[2].count) * w->wide, 2 * LINE) * 2 * LINE;
}

/* A strip: `high` rows of a plane of the result, or what is left of it. */
static void thin_strip(const work *w, char *sums, const char *planes, int64_t image, int64_t result, int64_t strip) {
  const int64_t down = w->axis[1].count, strips = tide__ceil_div(down, w->high), n = w->axis[2].count;
  const int64_t from = strip % strips * w->high, row = strip / strips * down + from,
                rows = tide__least(w->high, down - from);
  thin_rows(w, sums, planes, result, row, (rows - 1) * w->pitch + n);
  char *to = result_row(w, w->axis, image, result, row), *raw = sums + strip_bytes(w);
  for (int64_t r = 0; r < rows; r++, to += w->axis[1].step * w->a->dim[2].out * w->item)
    put(w, &w->axis[2], to, 0, raw, sums + r * w->pitch * w->wide, n);
}

void tide__conv_strips(void *arg, int64_t begin, int64_t end) {
  work *w = arg;
  char *sums = tide__room_take((size_t)(strip_bytes(w) + w->axis[2].count * w->wide));
  if (!sums) atomic_store_explicit(&w->failed, true, memory_order_relaxed);
  for (int64_t i = begin; sums && i < end && !tide__loop_stops(); i++) {
    const int64_t plane = i / tide__conv_strips_of(w), image = w->image + plane / w->a->results,
                  result = plane % w->a->results;
    thin_strip(w, sums, planes_of(w, image, result / w->m), image, result, i % tide__conv_strips_of(w));
  }
  tide__room_put(sums);
}

void tide__conv_groups(void *arg, int64_t begin, int64_t end) {
  work *w = arg;
  const int64_t channels = w->a->channels / w->a->groups;
  char *sums = tide__room_take((size_t)(strip_bytes(w) + w->axis[2].count * w->wide));
  char *line = sums ? zeros(w, channels) : NULL, *planes = line + w->a->dim[2].in * w->wide;
  if (!line) atomic_store_explicit(&w->failed, true, memory_order_relaxed);
  for (int64_t i = begin; line && i < end && !tide__loop_stops(); i++) {
    for (int64_t c = 0; c < channels; c++) lay_plane(w, planes + c * w->plane * w->wide, line, i * channels + c);
    for (int64_t j = 0; j < w->m * tide__conv_strips_of(w); j++)
      thin_strip(w, sums, planes, i / w->a->groups, i % w->a->groups * w->m + j / tide__conv_strips_of(w),
                 j % tide__conv_strips_of(w));
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
    runs[n] = (tide__run){from, to, tide__least(x[2].count - in_row, lanes - to)};
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
  tide__tile t = {.c = whole ? c : sums, .a = weights, .b = b, .at = at, .c_row = whole ? c_row : w->width};
  t.a_row = (w->unpacked ? w->k : 1) * w->wide, t.a_step = (w->unpacked ? 1 : w->rows.width) * w->wide,
  t.b_step = w->width, t.b_ahead = 2048 / w->wide, t.k = k, t.add = add;
  const int64_t row = w->width * w->wide;
  const size_t part = (size_t)(lanes * w->wide);
  for (int64_t r = 0; r < rows && add && !whole; r++) memcpy(sums + r * row, c + r * c_row * w->wide, part);
  const int height = rows > lowest ? (int)(rows - lowest) : 0;
  (at ? w->isa->product_placed[w->wide == 8] : w->isa->product[tide__ctype_of(w->dtype)])[height](&t);
  for (int64_t r = 0; r < rows && !whole; r++) memcpy(c + r * c_row * w->wide, sums + r * row, part);
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
  const int64_t from = slice * p->slice, k = tide__least(p->slice, p->k - from), rows = w->rows.width * w->wide;
  const int64_t *at = placed ? p->placed + from : p->packed ? p->packed + from : NULL;
  const int64_t first = o->group * w->m + tide__panel_lane(&w->rows, o->top);
  const char *weights = w->unpacked ? p->given + (first * p->k + from) * w->wide
                                    : p->panels + ((o->group * p->k + from) * w->panels + o->top * k) * rows;
  for (int64_t i = o->top; i < o->bottom && k > 0; i++) {
    const int64_t top = tide__panel_lane(&w->rows, i), high = tide__panel_lane(&w->rows, i + 1) - top;
    run_tile(w, c + top * o->c_row * w->wide, o->c_row, weights, b, at, high, lanes, k, slice > 0 || w->a->head.ptr[3]);
    weights += w->unpacked ? high * p->k * w->wide : rows * k;
  }
}

static void run_products(const work *w, const block *o) {
  const char *planes = planes_of(w, o->image, o->group);
  tide__run runs[MOST_WIDTH];
  for (int64_t slice = 0; slice < w->slices && !tide__loop_stops(); slice++)
    for (int64_t left = 0; left < o->n; left += w->width) {
      const int64_t from = slice * w->slice, lanes = tide__least(w->width, o->n - left);
      const int count = runs_of(w, runs, o->lane + left, lanes);
      const bool placed = w->placed && count == 1 && (lanes == w->width || !w->lies);
      const char *b = placed ? planes + runs->from * w->wide : o->b;
      if (!placed)
        w->isa->pack_runs(o->b, planes, w->row + from, tide__least(w->slice, w->k - from), runs, count, (int)w->wide);
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
  const int64_t count = tide__least(n, (w->even ? w->each : x[2].count) - from), bytes = n * x[2].step * w->item;
  const bool pairs = w->together[2] == 2 && x[2].step == 2 && w->wide == 4 && w->item == 4;
  if (count <= 0 || row / w->axis[1].count >= x[0].count || row % w->axis[1].count >= x[1].count) return;
  if (pairs && x[2].first % 2) return;
  char *to = result_row(w, x, image, o->group * w->m + first, row);
  for (int64_t i = first; i < last; i++, to += plane) {
    const char *some = sums + i * o->c_row * w->wide;
    for (int64_t byte = 0; byte < bytes; byte += LINE)
      __builtin_prefetch(to + SOON * plane + from * x[2].step * w->item + byte, 1);
    if (pairs)
      join(to + from * 8, some, some + w->m * o->c_row * 4, count + tide__least(n, p[1].axis[2].count - from));
    else
      put(w, &x[2], to, from, raw, some, count);
  }
}

static void run_block(const work *w, char *memory, int64_t index) {
  const int64_t columns = w->across * w->width, cut = index - w->whole_tasks, parts = cut < 0 ? 1 : w->parts;
  const int64_t part = cut < 0 ? 0 : cut % parts;
  if (cut >= 0) index = w->whole_tasks + cut / parts;
  block o = {.lane = index % w->blocks * columns, .group = index / w->blocks % w->a->groups, .b = memory};
  o.image = w->image + index / w->blocks / w->a->groups, o.n = tide__least(columns, w->n - o.lane);
  o.top = w->panels * part / parts, o.bottom = w->panels * (part + 1) / parts;
  char *raw = memory + w->slice * w->width * w->wide;
  o.c = raw + columns * w->wide, o.c_row = columns;
  const int64_t inside = o.lane % w->each;
  const bool direct = w->direct && inside + o.n <= w->each;
  if (direct) {
    o.c = result_row(w, w->axis, o.image + o.lane / w->each, o.group * w->m, 0) + inside * w->wide;
    o.c_row = w->each;
  }
  for (int p = 0; p < w->phases; p++)
    for (int64_t i = tide__panel_lane(&w->rows, o.top);
         i < tide__panel_lane(&w->rows, o.bottom) && (w->a->head.ptr[3] || !w->phase[p].k); i++)
      begin_row(w, o.c + (p * w->m + i) * o.c_row * w->wide, o.group * w->m + i, o.n);
  run_products(w, &o);
  for (int64_t at = 0, some; at < o.n && !direct; at += some) {
    const int64_t l = (o.lane + at) % w->each, count = w->even ? w->each : w->axis[2].count, from = l % count;
    some = tide__least(count - from, o.n - at);
    for (int p = 0; p < w->phases; p++)
      put_phase(w, &w->phase[p], &o, o.c + (p * w->m * columns + at) * w->wide, raw, o.image + (o.lane + at) / w->each,
                l / count, from, some);
  }
}

void tide__conv_blocks(void *arg, int64_t begin, int64_t end) {
  work *w = arg;
  const int64_t columns = w->across * w->width;
  const int64_t numbers = w->slice * w->width + columns + w->phases * w->m * columns;
  char *memory = tide__room_take((size_t)(numbers * w->wide));
  if (!memory) atomic_store_explicit(&w->failed, true, memory_order_relaxed);
  for (int64_t i = begin; memory && i < end && !tide__loop_stops(); i++) run_block(w, memory, i);
  tide__room_put(memory);
}

/* ---- what is made before ---- */

void tide__conv_gather(const work *w, const phase *p, int64_t g) {
  const tide_taps *d = w->a->dim;
  const int64_t channels = w->a->channels / w->a->groups, kernel = d[0].kernel * d[1].kernel * d[2].kernel;
  const int64_t taps = p->k / channels, n = w->m * channels;
  char *to = w->gathered + (p->given - w->gathered) + g * n * taps * w->wide;
  for (int64_t t = 0; t < taps && !w->whole; t++)
    spread(to + t * w->wide, taps, w->given + (g * n * kernel + p->tap[t]) * w->wide, kernel, w->wide, n);
}

/* Weights in panels: all of a phase and group, and where nothing is gathered one panel. Slice by slice of a panel, rows
 * of weights are read as they lie. */
static void pack_weights(const work *w, int64_t index) {
  const int64_t parts = w->whole ? w->panels : 1, g = index / parts % w->a->groups, some = w->panels / parts;
  const phase *p = &w->phase[index / parts / w->a->groups];
  tide__panels rows = w->rows;
  rows.lanes_apart = p->k;
  tide__conv_gather(w, p, g);
  for (int64_t i = index % parts; i < index % parts + some; i++)
    for (int64_t from = 0, k; from < p->k; from += k) {
      k = tide__least(p->slice, p->k - from);
      tide__gemm_pack(&rows, p->panels + ((g * p->k + from) * w->panels + i * k) * rows.width * w->wide,
                      p->given + g * w->m * p->k * w->wide, i, 1, from, k);
    }
}

void tide__conv_prepare(void *arg, int64_t begin, int64_t end) {
  work *w = arg;
  for (; begin < end && begin < w->weighed; begin++) pack_weights(w, begin);
  if (begin < end)
    lay_planes(
        w, (begin - w->weighed) * w->lay,
        tide__least((end - w->weighed) * w->lay, tide__least(w->images, w->a->batch - w->image) * w->a->channels));
}
