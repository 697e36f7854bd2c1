/* scatter_sums.c: sums that are kept in a wider dtype while values join, where x is too large to be widened as a whole.
 *
 * A hash table with open addressing finds the sum of a place. A sum begins with what stands in x, and goes back there,
 * rounded once, when all values have joined. 16-bit floats are summed so wherever values may meet. In float32 and
 * complex64 only crowded places need it, which a sample of the index shows.
 *
 * Invariant: a place has one sum, and x is not written before the end, unless memory runs out: then all sums are
 * rounded and begin anew. */
#include "backend/cpu/scratch.h"
#include "scatter.h"

enum { CHUNK = 512, FIRST = 2048, MOST = 1 << 30 };
/* Of EVERY steps the sample has TOGETHER. A crowded place has more than CROWD, and more than AVERAGES times the
 * average. */
enum { EVERY = 1024, TOGETHER = 8, COUNTERS = 1024, CROWD = 16, AVERAGES = 4, LEAST = 4096 };

struct tide__sums {
  tide_index_args call; /* as for x, but in the wide dtype */
  int dtype, item;      /* of x */
  char *x, *sum;        /* sum: [room][row] */
  int64_t row, count, room;
  int64_t *place;  /* [room]: of each sum, in x */
  uint32_t *table; /* [2 * room]: number of a sum and 1 more, or 0 */
};

static int wide_of(int dtype) {
  return dtype == TIDE_FLOAT32 ? TIDE_FLOAT64 : dtype == TIDE_COMPLEX64 ? TIDE_COMPLEX128 : TIDE_FLOAT32;
}

static uint32_t mix(int64_t place) { return (uint32_t)(((uint64_t)place * UINT64_C(0x9E3779B97F4A7C15)) >> 32); }

/* ---- which calls ---- */

/* Counts those of the steps from `step` on that are in one run of dim `last`. Returns how many they are. */
static int64_t count_some(const tide_index_args *a, const int64_t *size, int last, int64_t step, uint32_t *counter) {
  int64_t x = 0, index = 0, at = 0, n;
  for (int d = last; d >= 0; d--) {
    int64_t q = d ? step / size[d] : 0, r = step - q * size[d];
    if (d == last) at = r;
    x += r * a->stride[1][d], index += r * a->stride[2][d];
    step = q;
  }
  n = size[last] - at < TOGETHER ? size[last] - at : TOGETHER;
  for (int64_t i = 0; i < n; i++, x += a->stride[1][last], index += a->stride[2][last]) {
    int64_t v = a->index_dtype == TIDE_INT32 ? ((const int32_t *)a->head.ptr[2])[index]
                                             : ((const int64_t *)a->head.ptr[2])[index];
    v = v < 0 ? (int64_t)((uint64_t)v + (uint64_t)a->length) : v - a->index_base;
    counter[mix((int64_t)((uint64_t)x + (uint64_t)v * (uint64_t)a->pitch)) % COUNTERS]++;
  }
  return n;
}

/* Of dims along which the index stands still only the first step counts: all steps there are alike. */
static bool is_crowded(const tide_index_args *a) {
  uint32_t counter[COUNTERS] = {0}, most = 0;
  int64_t n = 0, size[TIDE_MAX_DIMS], steps = 1;
  int last = 0;
  for (int d = 0; d < a->ndim; d++) {
    size[d] = a->stride[2][d] == 0 && a->stride[1][d] != 0 ? 1 : a->size[d];
    steps *= size[d], last = size[d] > 1 ? d : last;
  }
  if (steps < LEAST) return false;
  for (int64_t i = 0; i + EVERY <= steps; i += EVERY)
    n += count_some(a, size, last, i + mix(i) % (EVERY / TOGETHER) * TOGETHER, counter);
  for (int i = 0; i < COUNTERS; i++) most = counter[i] > most ? counter[i] : most;
  return most > CROWD + AVERAGES * n / COUNTERS;
}

bool tide__sums_wanted(const tide_index_args *a) {
  bool meets = false;
  if ((a->reduce != TIDE_INDEX_SUM && a->reduce != TIDE_INDEX_PROD) || a->narrow || a->bins) return false;
  for (int d = 0; d < a->ndim; d++) meets = meets || (a->stride[1][d] == 0 && a->size[d] > 1);
  if (a->dtype == TIDE_FLOAT16 || a->dtype == TIDE_BFLOAT16) return meets;
  return meets && (a->dtype == TIDE_FLOAT32 || a->dtype == TIDE_COMPLEX64) && is_crowded(a);
}

/* ---- the table ---- */

static void free_lists(tide__sums *s) {
  tide__room_put(s->sum);
  tide__room_put(s->place);
  tide__room_put(s->table);
}

/* The entry of a place, or the empty one where it belongs. */
static uint32_t *entry_of(const tide__sums *s, int64_t place) {
  uint32_t mask = (uint32_t)(2 * s->room - 1), i = mix(place) & mask;
  while (s->table[i] && s->place[s->table[i] - 1] != place) i = (i + 1) & mask;
  return &s->table[i];
}

/* Twice the room, with what is there. False if there is no memory: nothing has changed. */
static bool grow(tide__sums *s, int64_t room) {
  size_t row = (size_t)(s->row * s->call.item_size), n = (size_t)room;
  tide__sums old = *s;
  if (room > MOST || n > SIZE_MAX / 2 / row) return false;
  s->sum = tide__room_take(n * row), s->place = tide__room_take(n * sizeof *s->place);
  s->table = tide__room_take(2 * n * sizeof *s->table);
  if (!s->sum || !s->place || !s->table) {
    free_lists(s);
    *s = old;
    return false;
  }
  s->room = room;
  memset(s->table, 0, 2 * n * sizeof *s->table);
  if (s->count) memcpy(s->sum, old.sum, (size_t)s->count * row);
  for (int64_t i = 0; i < s->count; i++) {
    s->place[i] = old.place[i];
    *entry_of(s, s->place[i]) = (uint32_t)(i + 1);
  }
  free_lists(&old);
  return true;
}

tide__sums *tide__sums_open(const tide_index_args *a, char *x, int64_t row) {
  tide__sums *s = tide__room_take(sizeof *s);
  if (!s) return NULL;
  *s = (tide__sums){.call = *a, .dtype = a->dtype, .item = a->item_size, .x = x, .row = row};
  s->call.dtype = wide_of(a->dtype), s->call.item_size = tide__item(s->call.dtype);
  if (grow(s, FIRST)) return s;
  tide__room_put(s);
  return NULL;
}

const tide_index_args *tide__sums_call(const tide__sums *s) { return &s->call; }

#define COPY(T)                                                                                                        \
  for (int64_t i = 0; i < n; i++)                                                                                      \
    if (back)                                                                                                          \
      ((T *)(void *)s->x)[place[i]] = ((const T *)line)[i];                                                            \
    else                                                                                                               \
      ((T *)line)[i] = ((const T *)(void *)s->x)[place[i]];                                                            \
  break

/* Between a line and n elements of x. */
static void copy_elements(const tide__sums *s, bool back, const int64_t *place, void *line, int64_t n) {
  switch (s->item) {
  case 2: COPY(uint16_t);
  case 4: COPY(uint32_t);
  default: COPY(uint64_t);
  }
}

/* The sums from number `from` on are what stands in x; back: x becomes what they are. */
static void convert(const tide__sums *s, bool back, int64_t from) {
  _Alignas(16) char line[CHUNK * 8];
  const int wide = s->call.dtype;
  const int64_t bytes = s->row * s->call.item_size;
  tide__convert to = back ? tide__isa_get()->convert[s->dtype][wide] : tide__isa_get()->convert[wide][s->dtype];
  for (int64_t i = from, n; i < s->count; i += n) {
    char *sum = s->sum + i * bytes, *x = s->x + s->place[i] * s->item;
    n = s->row > 1 ? 1 : s->count - i < CHUNK ? s->count - i : CHUNK;
    if (s->row > 1) {
      to(back ? x : sum, back ? sum : x, s->row);
      continue;
    }
    if (back) to(line, sum, n);
    copy_elements(s, back, s->place + i, line, n);
    if (!back) to(sum, line, n);
  }
}

char *tide__sums_find(tide__sums *s, int64_t *place, int64_t offset, int64_t n) {
  if (s->count + n > s->room && !grow(s, 2 * s->room)) {
    convert(s, true, 0);
    s->count = 0;
    memset(s->table, 0, (size_t)(2 * s->room) * sizeof *s->table);
  }
  const int64_t before = s->count;
  for (int64_t i = 0; i < n; i++) {
    if (place[i] == INT64_MIN) continue;
    uint32_t *entry = entry_of(s, place[i] + offset);
    if (!*entry) s->place[s->count] = place[i] + offset, *entry = (uint32_t)++s->count;
    place[i] = (*entry - 1) * s->row;
  }
  convert(s, false, before);
  return s->sum;
}

void tide__sums_close(tide__sums *s) {
  convert(s, true, 0);
  free_lists(s);
  tide__room_put(s);
}
