/* scatter_whole.c: gather and scatter of kernel.def: all of a scatter is done, or, of a bad index, nothing.
 *
 * A scatter looks at its index before it writes anything. Or it has written nothing to the tensor yet when it has seen
 * all of it: what is counted, or added up in integers, comes to the same in any order, so each thread has sums of its
 * own where these are few, and what goes by way of buckets is still in them. Or, where what it writes to is small
 * beside the index, it keeps a copy, which a bad index brings back.
 *
 * Invariant: whatever way is taken, values that meet join in order, but for those sums. */
#include "backend/cpu/scratch.h"
#include "scatter.h"

/* FAR: bytes of what one thread cannot keep near while it writes. The others are sizes of what is kept meanwhile. */
enum { SAVED = 1 << 14, FAR = 2 << 20, SUMS = 1 << 15, BUCKETS = 38 << 20, LINE = 64 };
enum { LEAST_APART = 4096 }; /* elements of a call that may go another way */

typedef tide__scatter work;

static bool run_all(work *w, int64_t *value) {
  tide__scatter_prepare(w);
  return tide__scatter_run(w, value);
}

/* ---- reads ---- */

bool tide__cpu_gather_bad(const tide_index_args *a, int64_t *value) {
  work w = {.a = a};
  return run_all(&w, value);
}

tide_status tide__cpu_gather(tide_stream *stream, const tide_index_args *a) {
  int64_t value;
  if (!tide__cpu_gather_bad(a, &value)) return TIDE_OK;
  return tide__fail_index(a->head.device, a->head.site, value, a->length, a->index_base);
}

/* ---- sums of one's own ---- */

static bool wants_sums(const work *w) {
  const tide_index_args *a = w->a;
  bool adds = a->reduce == TIDE_INDEX_SUM && (a->dtype == TIDE_INT64 || a->dtype == TIDE_INT32);
  return adds && w->size[w->ndim] == 1 && a->length > 0 && w->span == a->length && a->pitch == 1 &&
         a->length <= SUMS / a->item_size && a->length <= a->numel / 16;
}

/* False: there is no memory, and nothing is done. If an index is bad, only `always` adds what the others name. */
static bool by_sums(work *w, bool always) {
  const tide_index_args *a = w->a;
  int64_t threads = a->numel < 2 * TIDE_GRAIN ? 1 : tide_get_num_threads();
  w->split = 0, w->steps = w->size[0], w->parts = w->size[0] < threads ? w->size[0] : threads;
  w->each = (w->span * a->item_size / LINE + 2) * LINE;
  w->sums = tide__room_take((size_t)(w->parts * w->each));
  if (!w->sums) return false;
  memset(w->sums, 0, (size_t)(w->parts * w->each));
  w->far = false;
  tide__spread(w->parts, a->numel / w->parts + 1, tide__scatter_parts, w);
  bool adds = always || atomic_load_explicit(&w->bad, memory_order_relaxed) == INT64_MAX;
  for (int64_t p = 0; p < w->parts && adds; p++)
    tide__scatter_row(a, (char *)a->head.ptr[0] + w->lowest * a->item_size, w->sums + p * w->each, w->span);
  tide__room_put(w->sums);
  return true;
}

/* ---- buckets ---- */

/* Dense values: of one, only its places are kept. */
static int bucket_item(const work *w) {
  for (int d = 0; d < w->ndim; d++)
    if (w->stride[0][d] && w->size[d] > 1) return w->a->item_size;
  return w->a->narrow ? w->a->item_size : 0;
}

/* How many steps of the outermost dim are put in buckets at a time; 0: none are. */
static int64_t bucket_steps(const work *w) {
  const tide_index_args *a = w->a;
  int64_t threads = tide_get_num_threads(), inner = a->numel / w->size[0], bytes = w->span * a->item_size;
  int64_t steps = BUCKETS / (4 + bucket_item(w)) / inner;
  if (w->apart || w->size[w->ndim] > 1 || w->parts > 1 || a->numel < 2 * TIDE_GRAIN || w->span > UINT32_MAX) return 0;
  if (a->item_size != 4 && a->item_size != 8) return 0;
  /* One thread gains only where a line of the tensor is written more than once. */
  if (threads == 1) bytes = a->length * (a->pitch < 0 ? -a->pitch : a->pitch) * a->item_size;
  if (bytes * threads < FAR || (threads == 1 && a->numel < bytes / (LINE / 2))) return 0;
  if (w->size[0] < 2 * threads || steps < 2 * threads) return 0;
  return steps < w->size[0] ? steps : w->size[0];
}

static void empty_buckets(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  const tide_index_args *a = w->a;
  _Alignas(16) char many[TIDE_BUCKET_BLOCK * 16];
  char *x = (char *)a->head.ptr[0] + w->lowest * a->item_size, *values = bucket_item(w) ? many : a->head.ptr[1];
  const int64_t step = bucket_item(w) != 0;
  int64_t place[TIDE_BUCKET_BLOCK], n;
  for (int64_t i = begin; i < end && !tide__loop_stops(); i++) {
    tide__bucket_walk at = {0, NULL};
    while ((n = tide__buckets_next(w->buckets, i, &at, place, many)) > 0)
      tide__scatter_values(a, x, place, values, step, n);
  }
}

/* Likewise. */
static bool by_buckets(work *w, int64_t steps, bool always) {
  const tide_index_args *a = w->a;
  w->split = 0, w->parts = tide_get_num_threads();
  for (w->first = 0; w->first < w->size[0]; w->first += steps) {
    w->steps = w->size[0] - w->first < steps ? w->size[0] - w->first : steps;
    int64_t most = (w->steps + w->parts - 1) / w->parts * (a->numel / w->size[0]);
    w->buckets = tide__buckets_open(w->parts, most, w->span, a->item_size, bucket_item(w));
    if (!w->buckets && w->first == 0) return false;
    if (!w->buckets) {
      w->parts = 1;
      tide__scatter_parts(w, 0, 1);
      continue;
    }
    tide__spread(w->parts, a->numel / w->parts + 1, tide__scatter_parts, w);
    bool writes = always || atomic_load_explicit(&w->bad, memory_order_relaxed) == INT64_MAX;
    if (writes && !tide__loop_stops()) tide__spread(tide__buckets_count(w->buckets), TIDE_GRAIN, empty_buckets, w);
    tide__buckets_close(w->buckets);
    if (!writes || tide__loop_stops()) break;
  }
  return true;
}

/* True if that is done which sees the whole index before it writes, or need not: `always` writes what can be. */
static bool scatter_apart(work *w, bool always) {
  if (w->a->numel < LEAST_APART) return false;
  tide__scatter_prepare(w);
  if (wants_sums(w) && by_sums(w, always)) return true;
  tide__scatter_prepare(w), w->sums = NULL;
  int64_t steps = bucket_steps(w);
  return steps && (always || steps == w->size[0]) && by_buckets(w, steps, always);
}

bool tide__cpu_scatter_bad(const tide_index_args *a, int64_t *value) {
  work w = {.a = a, .scatter = true, .apart = tide__sums_wanted(a)};
  if (!w.apart && scatter_apart(&w, true)) return tide__scatter_find_bad(&w, value);
  w = (work){.a = a, .scatter = true, .apart = w.apart};
  return run_all(&w, value);
}

/* Can what the index names be put back? It is read and written then, and the index not read twice. */
static bool can_save(const work *w) {
  const tide_index_args *a = w->a;
  int64_t bytes = w->span * a->item_size, elements = a->length;
  for (int d = 0; d < a->ndim; d++)
    if (a->stride[1][d]) elements *= a->size[d];
  /* Of more than a little, nothing lies between the elements: that may be another thread's. */
  bool little = bytes <= SAVED && w->span <= a->numel;
  return a->length > 0 && (little || (elements == w->span && bytes <= a->numel * tide__item(a->index_dtype) / 4));
}

/* Likewise, line by line, just before each is written. */
static bool can_save_lines(const work *w) {
  const tide_index_args *a = w->a;
  int64_t bytes = w->size[0] * a->length * a->item_size;
  return w->ndim == 2 && w->size[2] == 1 && w->stride[1][1] == 0 && a->pitch == 1 && w->stride[1][0] >= a->length &&
         a->numel >= TIDE_GRAIN && a->length * a->item_size >= 4 * LINE && bytes <= BUCKETS &&
         bytes <= a->numel * tide__item(a->index_dtype) / 2;
}

/* As it is done where values go straight to their places. True if an index was bad, and nothing is written. */
static bool scatter_checked(const tide_index_args *a, int64_t *value, bool sums) {
  work w = {.a = a, .scatter = true, .apart = sums}, check = {.a = a, .scatter = true, .checks = true};
  tide__scatter_prepare(&w);
  bool apart = a->numel >= LEAST_APART && bucket_steps(&w), lines = !apart && can_save_lines(&w),
       all = !apart && !lines && can_save(&w), bad;
  const int64_t line = a->length * a->item_size;
  size_t bytes = (size_t)(lines ? w.size[0] * line : w.span * a->item_size);
  char *x = (char *)a->head.ptr[0] + w.lowest * a->item_size, *saved = lines || all ? tide__room_take(bytes) : NULL;
  if (saved && all) memcpy(saved, x, bytes);
  if (lines) w.saved = saved;
  if (saved)
    bad = tide__scatter_run(&w, value);
  else
    bad = run_all(&check, value) || tide__cpu_scatter_bad(a, value);
  if (bad && saved && all) memcpy(x, saved, bytes);
  for (int64_t i = 0; bad && saved && lines && i < w.size[0] && !tide__loop_stops(); i++)
    memcpy(tide__scatter_line(&w, i), saved + i * line, (size_t)line);
  tide__room_put(saved);
  return bad;
}

/* Of a bad index nothing may be written. */
tide_status tide__cpu_scatter(tide_stream *stream, const tide_index_args *a) {
  int64_t value;
  const bool good = a->bins || a->located;
  work w = {.a = a, .scatter = true, .apart = tide__sums_wanted(a)};
  bool done = !w.apart && scatter_apart(&w, good), bad = done   ? tide__scatter_find_bad(&w, &value)
                                                         : good ? tide__cpu_scatter_bad(a, &value)
                                                                : scatter_checked(a, &value, w.apart);
  return bad ? tide__fail_index(a->head.device, a->head.site, value, a->length, a->index_base) : TIDE_OK;
}
