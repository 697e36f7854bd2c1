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
 * Here is what is chosen before; the tasks that it is shared out in are conv_run.c's. float16 and bfloat16 become
 * float32 on the way, and their sums are rounded once.
 *
 * Invariant: an element of the result is written by one task, and the order of its sum depends on the sizes alone. */
#include "conv.h"
#include "backend/cpu/scratch.h"

enum {
  ROOM_BYTES = 32 << 20,
  BLOCK_BYTES = 256 << 10,
  MOST_ACROSS = 16,
  EACH = 4,
  FEW = 16,
  SHARES = 2,
  LEAST_PANELS = 4,
  LAY_BYTES = 64 << 10,
  THIN = 2,
  LINE = 64,
  STRIP_BYTES = 4096,
  NEAR_BYTES = 128 << 10,
  SAME_PLACES = 512,
  SAME_LINES = 4096
};
typedef tide__conv_axis axis;
typedef tide__conv_phase phase;
typedef tide__conv work;

/* The elements r, r + up, ... of the result. */
static axis axis_of(const tide_conv_args *a, int d, int64_t r) {
  const tide_taps *t = &a->dim[d];
  const int64_t up = a->up[d];
  axis x = {.first = r, .step = up, .walk = t->stride, .tap_step = 1};
  x.count = r < t->out ? tide__ceil_div(t->out - r, up) : 0;
  while (x.tap < up && (r - t->before + x.tap * t->dilation) % up) x.tap++;
  while (x.tap_step < up && x.tap_step * t->dilation % up) x.tap_step++;
  x.taps = x.tap < t->kernel && x.tap < up ? tide__ceil_div(t->kernel - x.tap, x.tap_step) : 0;
  x.at = (r - t->before + x.tap * t->dilation) / up, x.at_step = x.tap_step * t->dilation / up;
  for (x.turn = 1; x.turn < x.taps && x.turn * x.at_step % x.walk;) x.turn++;
  return x;
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

/* ---- rows and weights ---- */

/* The taps of a phase, and where its rows begin in the planes and, where phases share them, in panels: in memory from
 * `at` on. Gives where the next phase's may begin. */
static int64_t *choose_taps(const work *w, phase *p, int64_t *at, const axis *box) {
  const axis *x = p->axis;
  const tide_taps *d = w->a->dim;
  const int64_t channels = w->a->channels / w->a->groups, taps = x[0].taps * x[1].taps * x[2].taps;
  int64_t *tap = at, *placed = tap + taps, *packed = placed + channels * taps + TIDE__PRODUCT_AHEAD, t = 0;
  int64_t *end = w->phases > 1 ? packed + channels * taps + TIDE__PRODUCT_AHEAD : packed;
  const int64_t volume = box[0].size * box[1].size * box[2].size;
  memset(at, 0, (size_t)(end - at) * sizeof *at);
  for (int64_t iz = 0; iz < x[0].taps; iz++)
    for (int64_t iy = 0; iy < x[1].taps; iy++)
      for (int64_t i = 0; i < x[2].turn; i++)
        for (int64_t ix = i; ix < x[2].taps; ix += x[2].turn, t++) {
          const int64_t oz = x[0].at + iz * x[0].at_step, oy = x[1].at + iy * x[1].at_step;
          const int64_t ox = x[2].at + ix * x[2].at_step;
          const int64_t row = (oz + x[0].low) * w->axis[1].size + tide__conv_row(w, oy + x[1].low), of = ox + x[2].low;
          const int64_t from = row * w->pitch + of % x[2].walk * w->columns + of / x[2].walk;
          const int64_t ky = (x[0].tap + iz * x[0].tap_step) * d[1].kernel + x[1].tap + iy * x[1].tap_step;
          const int64_t in_box = ((oz - box[0].at) * box[1].size + oy - box[1].at) * box[2].size + ox - box[2].at;
          tap[t] = ky * d[2].kernel + x[2].tap + ix * x[2].tap_step;
          for (int64_t c = 0; c < channels; c++) placed[c * taps + t] = c * w->plane + from;
          for (int64_t c = 0; c < channels && w->phases > 1; c++)
            packed[c * taps + t] = (c % w->some * volume + in_box) * w->width;
        }
  p->k = channels * taps, p->tap = tap, p->placed = placed, p->packed = w->phases > 1 ? packed : NULL;
  return end;
}

/* Every thread that comes takes tasks until there are no more: neighbours, which read the same planes, and fewer and
 * fewer of them. */
static void take_tasks(void *arg, int64_t begin, int64_t end) {
  work *w = arg;
  int64_t from = atomic_load_explicit(&w->next, memory_order_relaxed), n;
  while (from < w->tasks && !tide__loop_stops()) {
    n = tide__ceil_div(w->tasks - from, SHARES * tide_get_num_threads());
    if (!atomic_compare_exchange_weak_explicit(&w->next, &from, from + n, memory_order_relaxed, memory_order_relaxed))
      continue;
    w->task(w, from, from + n);
    from = atomic_load_explicit(&w->next, memory_order_relaxed);
  }
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

/* Of how many tiles a task is, and how many tasks are for the images of a turn. Of few tasks those that leave threads
 * without one are cut by panels, so that no thread waits long for the last ones. */
static int64_t choose_tasks(work *w, int64_t images) {
  const int64_t threads = tide_get_num_threads(), wanted = threads > 1 ? EACH * threads : 1;
  w->n = w->joined ? w->each * images : w->each;
  images = w->a->groups * (w->joined ? 1 : images);
  const int64_t tiles = tide__ceil_div(w->n, w->width);
  w->across = tide__least(tide__least(MOST_ACROSS, tiles), BLOCK_BYTES / (w->phases * w->m * w->width * w->wide) + 1);
  if (images * tide__ceil_div(tiles, w->across) < wanted) w->across = images * tiles / wanted;
  if (w->across < 1) w->across = 1;
  w->blocks = tide__ceil_div(tiles, w->across), w->across = tide__ceil_div(tiles, w->blocks);
  w->blocks = tide__ceil_div(tiles, w->across);
  const int64_t all = images * w->blocks, rest = all < FEW * threads ? all % threads : 0;
  w->parts = tide__least(w->panels / LEAST_PANELS, threads);
  w->whole_tasks = w->parts > 1 ? all - rest : all;
  return w->whole_tasks + (all - w->whole_tasks) * w->parts;
}

/* How many phases of each dim are computed together: all, if what they reach is less than what each of them does. */
static void choose_together(work *w) {
  int phases = 1;
  for (int d = 0; d < 3; d++) {
    w->together[d] = 1;
    if (w->thin || box_of(w->a, d, 0, tide__least(w->a->up[d], w->a->dim[d].out)).size > w->a->dim[d].kernel)
      phases = 0;
  }
  for (int d = 2; d >= 0 && phases; d--) {
    const int64_t n = tide__least(w->a->up[d], w->a->dim[d].out);
    if (n * phases <= TIDE__CONV_PHASES) w->together[d] = (int)n, phases *= (int)n;
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
    w->slices = tide__ceil_div(channels, TIDE_GEMM_SLICE / most + 1), w->some = tide__ceil_div(channels, w->slices);
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
    w->slices = w->k ? tide__ceil_div(w->k, TIDE_GEMM_SLICE) : 1, w->slice = w->k ? tide__ceil_div(w->k, w->slices) : 1;
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
  w->high = w->down == w->pitch ? tide__least(x[1].count, STRIP_BYTES / (w->pitch * w->wide) + 1) : 1;
  w->joined = w->images > 1 && tide__ceil_div(w->each, w->width) * w->width - w->each > w->each / 20;
  w->direct = w->even && w->item == w->wide;
  w->whole = x[2].turn == 1;
  for (int d = 0; d < 3; d++) w->whole = w->whole && x[d].taps == a->dim[d].kernel;
  /* Panels of short rows come from several, and are packed: then weights need not be. */
  const bool joins = w->down == x[2].count;
  w->placed = w->plane * w->wide % SAME_PLACES;
  choose_products(w, box);
  const bool apart = w->k * w->wide % SAME_LINES && w->m >= w->rows.width / 2;
  w->unpacked = w->whole && w->phases == 1 && apart && (!w->placed || (x[2].count < w->width && !joins));
  w->placed = w->placed && !w->unpacked;
}

static void run_phases(work *w, const int64_t first[3]) {
  const tide_conv_args *a = w->a;
  const axis *x = w->axis;
  find_phases(w, first);
  const bool laid = !w->lies && !w->near;
  const int64_t each = (w->k + 8) * x[2].count; /* of a row of sums */
  for (int64_t g = 0; g < a->groups && w->thin; g++) tide__conv_gather(w, w->phase, g);
  w->weighed = w->thin || w->unpacked ? 0 : w->phases * a->groups * (w->whole ? w->panels : 1);
  if (w->near) tide__spread(a->batch * a->groups, w->m * x[0].count * x[1].count * each, tide__conv_groups, w);
  for (w->image = 0; !w->near && w->image < a->batch && !tide__loop_stops(); w->image += w->images) {
    const int64_t images = tide__least(w->images, a->batch - w->image), planes = images * a->channels;
    const bool lay = laid && w->laid != w->image;
    const int64_t tasks = w->weighed + (lay ? tide__ceil_div(planes, w->lay) : 0);
    if (tasks) share_out(w, tasks, w->weighed * TIDE_GRAIN + (lay ? planes * w->plane : 0), tide__conv_prepare);
    if (laid) w->laid = w->image;
    w->weighed = 0;
    if (w->thin)
      tide__spread(images * a->results * tide__conv_strips_of(w), w->high * each, tide__conv_strips, w);
    else
      share_out(w, choose_tasks(w, images), images * a->results * w->each * w->k, tide__conv_blocks);
  }
}

/* How planes are laid out, for all phases. */
static void choose_layout(work *w) {
  const tide_conv_args *a = w->a;
  axis *x = w->axis;
  w->lies = w->item == w->wide && a->dim[2].stride == 1, w->even = true;
  for (int d = 0; d < 3; d++) {
    const axis box = box_of(a, d, 0, tide__least(a->up[d], a->dim[d].out));
    x[d] = axis_of(a, d, 0);
    x[d].low = box.size && box.at < 0 ? -box.at : 0;
    const int64_t last = box.at + box.size + (x[d].count - 1) * x[d].walk; /* behind the last element that is met */
    x[d].size = x[d].low + (box.size && last > 0 ? last : 1);
    w->lies = w->lies && x[d].low == 0 && x[d].size <= a->dim[d].in, w->even = w->even && a->up[d] == 1;
  }
  for (int d = 0; d < 3; d++) {
    x[d].part = d ? tide__ceil_div(x[d].size, x[d].walk) : x[d].size;
    x[d].size = w->lies ? a->dim[d].in : d ? x[d].part * x[d].walk : x[d].size;
  }
  w->pitch = w->lies ? x[2].size : x[2].part, w->columns = x[0].size * x[1].size * w->pitch;
  w->plane = x[2].walk * w->columns;
  /* Planes that lie apart by what a cache is a multiple of have the same places there. */
  if (!w->lies) w->plane = (tide__ceil_div(w->plane * w->wide, LINE) | 1) * LINE / w->wide;
  w->down = w->lies ? x[1].walk * w->pitch : w->pitch;
  w->lay = LAY_BYTES / (w->plane * w->wide) + 1;
  w->images = w->lies ? a->batch : tide__least(a->batch, ROOM_BYTES / (a->channels * w->plane * w->wide) + 1);
  w->thin = w->m <= THIN;
  w->near = w->thin && !w->lies && a->batch * a->groups >= EACH * tide_get_num_threads() &&
            a->channels / a->groups * w->plane * w->wide <= NEAR_BYTES;
}

/* All the memory that a call needs but what its threads take, so that it is one block; NULL if there is none. */
static char *take_memory(work *w) {
  const tide_conv_args *a = w->a;
  const int64_t taps = a->dim[0].kernel * a->dim[1].kernel * a->dim[2].kernel, channels = a->channels / a->groups;
  const int64_t lanes = a->groups * w->panels * w->rows.width, n = a->results * channels * taps;
  const int64_t parts[] = {((3 * channels + 1) * taps + (2 * TIDE__CONV_PHASES + 1) * TIDE__PRODUCT_AHEAD) * 8,
                           n * w->wide, w->thin ? 0 : lanes * channels * taps * w->wide,
                           w->item != w->wide ? n * w->wide : 0,
                           w->lies || w->near ? 0 : w->images * a->channels * w->plane * w->wide + 2 * LINE};
  int64_t at[6] = {0};
  for (int i = 0; i < 5; i++) at[i + 1] = at[i] + tide__ceil_div(parts[i], 2 * LINE) * 2 * LINE;
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
  work w = {.a = a, .isa = tide__isa_get(), .item = tide__item(a->dtype), .m = a->results / a->groups, .laid = -1};
  w.dtype = a->dtype == TIDE_FLOAT64 ? TIDE_FLOAT64 : TIDE_FLOAT32, w.wide = tide__item(w.dtype);
  w.panels = tide__ceil_div(w.m, w.isa->product_rows), w.width = w.isa->product_bytes / w.wide;
  w.rows = (tide__panels){.isa = w.isa, .pack = w.isa->pack_rows[w.wide == 8], .dtype = w.dtype, .compute = w.dtype};
  w.rows.item = (int)w.wide, w.rows.width = w.isa->product_rows, w.rows.k_apart = 1;
  w.rows.lanes = w.m, w.rows.high = w.m / w.panels + 1, w.rows.tall = w.m % w.panels;
  choose_layout(&w);
  choose_together(&w);
  char *memory = take_memory(&w);
  int64_t r[3];
  for (r[0] = 0; r[0] < tide__least(a->up[0], a->dim[0].out); r[0] += w.together[0])
    for (r[1] = 0; r[1] < tide__least(a->up[1], a->dim[1].out); r[1] += w.together[1])
      for (r[2] = 0; r[2] < tide__least(a->up[2], a->dim[2].out); r[2] += w.together[2])
        if (memory && !atomic_load_explicit(&w.failed, memory_order_relaxed)) run_phases(&w, r);
  tide__room_put(memory);
  if (memory && !atomic_load_explicit(&w.failed, memory_order_relaxed)) return TIDE_OK;
  return tide__fail(TIDE_MEMORY, "conv: no memory for %lld images of %lld planes of %lld elements", (long long)w.images,
                    (long long)a->channels, (long long)w.plane);
}
