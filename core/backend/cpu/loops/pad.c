/* pad.c: borders, and elements that are spread: the kernel pad.
 *
 * A table says where each element of a row comes from; the others dims give the row that it comes from, or none. The
 * part of a row whose elements stand beside each other in the input moves at once.
 *
 * Invariant: no element is read where the table has none. */
#include "base/mathematics/field.h"
#include "layout.h"
#include "backend/cpu/scratch.h"

enum { STREAMED_ROW = 512 }; /* bytes */

typedef struct work {
  const tide_pad_args *a;
  const int64_t *from;                                   /* of a row: offsets into the input's row; -1: none */
  int64_t rows, cols, first, end;                        /* the part [first, end) lies as it is */
  void (*move)(void *out, const void *in, size_t bytes); /* it, around the caches if the result is larger */
} work;

static void move_near(void *out, const void *in, size_t bytes) { memcpy(out, in, bytes); }

static void set(char *out, const tide_pad_args *a, int64_t n) {
  for (int64_t j = 0; j < n; j++) memcpy(out + j * a->item_size, a->bits, (size_t)a->item_size);
}

#define TAKE(T)                                                                                                        \
  {                                                                                                                    \
    T none;                                                                                                            \
    memcpy(&none, w->a->bits, sizeof none);                                                                            \
    for (int64_t j = begin; j < end; j++)                                                                              \
      ((T *)(void *)out)[j] = w->from[j] < 0 ? none : ((const T *)(const void *)in)[w->from[j]];                       \
  }                                                                                                                    \
  break

typedef struct wide {
  uint64_t part[2];
} wide;

static void take(const work *w, char *out, const char *in, int64_t begin, int64_t end) {
  switch (w->a->item_size) {
  case 1: TAKE(uint8_t);
  case 2: TAKE(uint16_t);
  case 4: TAKE(uint32_t);
  case 8: TAKE(uint64_t);
  default: TAKE(wide);
  }
}

/* Where the row comes from, as an offset; false: from nowhere. */
static bool row_offset(const tide_pad_args *a, int64_t row, int64_t *offset) {
  *offset = 0;
  for (int d = a->ndim - 2; d >= 0; d--) {
    int64_t p = tide_place(a->rule[d], row % a->size[d], a->before[d], a->in_size[d], a->scale[d]);
    if (p < 0) return false;
    *offset += p * a->stride[d], row /= a->size[d];
  }
  return true;
}

static void run(void *arg, int64_t begin, int64_t end) {
  const work *w = arg;
  const tide_pad_args *a = w->a;
  for (int64_t row = begin; row < end && !tide__loop_stops(); row++) {
    char *out = (char *)a->head.ptr[0] + row * w->cols * a->item_size;
    int64_t offset;
    if (!row_offset(a, row, &offset)) {
      set(out, a, w->cols);
      continue;
    }
    const char *in = (const char *)a->head.ptr[1] + offset * a->item_size;
    take(w, out, in, 0, w->first);
    if (w->first < w->end)
      w->move(out + w->first * a->item_size, in + w->from[w->first] * a->item_size,
              (size_t)((w->end - w->first) * a->item_size));
    take(w, out, in, w->end, w->cols);
  }
  tide__isa_get()->stream_end();
}

tide_status tide__cpu_pad(tide_stream *stream, const tide_pad_args *a) {
  int last = a->ndim - 1;
  work w = {.a = a, .cols = last < 0 ? 1 : a->size[last]};
  int64_t *from = tide__room_take((size_t)w.cols * sizeof *from);
  if (!from) return tide__fail(TIDE_MEMORY, "pad: no memory for %lld places", (long long)w.cols);
  for (int64_t j = 0; j < w.cols; j++) {
    int64_t p = last < 0 ? 0 : tide_place(a->rule[last], j, a->before[last], a->in_size[last], a->scale[last]);
    from[j] = p < 0 ? p : p * (last < 0 ? 1 : a->stride[last]);
  }
  w.from = from, w.rows = a->numel / w.cols;
  if (last >= 0 && a->stride[last] == 1 && a->rule[last] < TIDE_PLACE_NEAREST) {
    int64_t end = a->before[last] + a->in_size[last];
    w.first = a->before[last] > 0 ? a->before[last] : 0, w.end = end < w.cols ? end : w.cols;
    if (w.first > w.cols) w.first = w.cols;
    if (w.end < w.first) w.end = w.first;
  }
  const bool far = tide__beyond_cache(a->numel * a->item_size) && (w.end - w.first) * a->item_size >= STREAMED_ROW;
  w.move = far ? tide__isa_get()->stream : move_near;
  tide__spread(w.rows, w.cols, run, &w);
  tide__room_put(from);
  return TIDE_OK;
}
