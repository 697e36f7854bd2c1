/* index.c: positions: those that several indexes name together, and those of true bytes.
 *
 * Bad indexes leave a mark in their place; the first of them is reported when the work is done. */
#include "backend/cpu/loops/layout.h"

/* ---- one of several indexes ---- */

typedef struct location {
  const tide_locate_args *a;
  _Atomic int64_t bad; /* number of the first bad index; numel: none */
} location;

static int64_t locate_read(const tide_locate_args *a, int64_t offset) {
  return a->index_dtype == TIDE_INT32 ? ((const int32_t *)a->head.ptr[1])[offset]
                                      : ((const int64_t *)a->head.ptr[1])[offset];
}

static int64_t locate_offset(const tide_locate_args *a, int64_t *at, int64_t i) {
  int64_t offset = 0;
  for (int d = a->ndim - 1; d >= 0; d--) {
    at[d] = i % a->size[d];
    offset += at[d] * a->stride[d];
    i /= a->size[d];
  }
  return offset;
}

static void run_locate(void *arg, int64_t begin, int64_t end) {
  location *l = arg;
  const tide_locate_args *a = l->a;
  int64_t at[TIDE_MAX_DIMS], offset = locate_offset(a, at, begin), *out = a->head.ptr[0];
  for (int64_t i = begin; i < end; i++) {
    int64_t raw = locate_read(a, offset), v = raw < 0 ? raw + a->length : raw - a->index_base;
    if ((uint64_t)v >= (uint64_t)a->length) {
      int64_t was = atomic_load_explicit(&l->bad, memory_order_relaxed);
      while (i < was && !atomic_compare_exchange_weak(&l->bad, &was, i)) continue;
      out[i] = INT64_MIN;
    } else if (a->first || out[i] != INT64_MIN) {
      out[i] = (a->first ? 0 : out[i]) + v * a->pitch;
    }
    for (int d = a->ndim - 1; d >= 0; d--) {
      offset += a->stride[d];
      if (++at[d] < a->size[d]) break;
      offset -= at[d] * a->stride[d], at[d] = 0;
    }
  }
}

bool tide__cpu_locate_bad(const tide_locate_args *a, int64_t *value) {
  location l = {.a = a};
  atomic_init(&l.bad, a->numel);
  tide__spread(a->numel, 2, run_locate, &l);
  int64_t at[TIDE_MAX_DIMS], bad = atomic_load(&l.bad);
  if (bad < a->numel) *value = locate_read(a, locate_offset(a, at, bad));
  return bad < a->numel;
}

tide_status tide__cpu_locate(tide_stream *stream, const tide_locate_args *a) {
  int64_t value;
  if (!tide__cpu_locate_bad(a, &value)) return TIDE_OK;
  return tide__fail_index(a->head.device, a->head.site, value, a->length, a->index_base);
}

/* ---- compact ---- */

/* n elements, from the places that `at` names, or these places themselves. */
static void take(char *out, const char *from, const int64_t *at, int64_t n, int64_t item) {
#define TAKE(T)                                                                                                        \
  for (int64_t k = 0; k < n; k++) ((T *)out)[k] = ((const T *)from)[at[k]]
  typedef struct wide {
    uint64_t half[2];
  } wide;
  if (!from)
    memcpy(out, at, (size_t)n * sizeof *at);
  else if (item == 1)
    TAKE(uint8_t);
  else if (item == 2)
    TAKE(uint16_t);
  else if (item == 4)
    TAKE(uint32_t);
  else if (item == 8)
    TAKE(uint64_t);
  else
    TAKE(wide);
#undef TAKE
}

typedef struct compaction {
  const tide_compact_args *a;
  const tide__isa *isa;
} compaction;

static int64_t piece_end(const tide_compact_args *a, int64_t piece) {
  int64_t end = (piece + 1) * TIDE_COMPACT_PIECE;
  return end < a->numel ? end : a->numel;
}

static void count_pieces(void *arg, int64_t begin, int64_t end) {
  const compaction *c = arg;
  for (int64_t p = begin; p < end; p++) {
    int64_t at = p * TIDE_COMPACT_PIECE;
    ((int64_t *)c->a->head.ptr[0])[p] =
        c->isa->count_u8((const uint8_t *)c->a->head.ptr[1] + at, piece_end(c->a, p) - at);
  }
}

tide_status tide__cpu_mask_count(tide_stream *stream, const tide_compact_args *a) {
  int64_t pieces = (a->numel + TIDE_COMPACT_PIECE - 1) / TIDE_COMPACT_PIECE, total = 0, *start = a->head.ptr[0];
  compaction c = {a, tide__isa_get()};
  tide__spread(pieces, TIDE_COMPACT_PIECE, count_pieces, &c);
  for (int64_t p = 0; p < pieces; p++) {
    int64_t here = start[p];
    start[p] = total;
    total += here;
  }
  start[pieces] = total;
  return TIDE_OK;
}

/* Eight bytes at a time are skipped where none is set. */
static void write_pieces(void *arg, int64_t begin, int64_t end) {
  const compaction *c = arg;
  const uint8_t *x = c->a->head.ptr[1];
  const char *from = c->a->head.ptr[3];
  int64_t item = from ? c->a->item_size : 8, base = from ? 0 : c->a->item_size, at[256];
  for (int64_t p = begin; p < end; p++) {
    int64_t i = p * TIDE_COMPACT_PIECE, stop = piece_end(c->a, p), n = 0;
    char *out = (char *)c->a->head.ptr[0] + ((const int64_t *)c->a->head.ptr[2])[p] * item;
    while (i < stop) {
      uint64_t eight = 1;
      if (i + 8 <= stop) memcpy(&eight, x + i, 8);
      int64_t next = i + 8 <= stop ? i + 8 : stop;
      if (!eight) i = next;
      for (; i < next; i++) at[n] = i + base, n += x[i] != 0; /* no branch: of masks it is hard to foretell */
      if (n <= 248 && i < stop) continue;
      take(out, from, at, n, item);
      out += n * item, n = 0;
    }
  }
}

tide_status tide__cpu_compact(tide_stream *stream, const tide_compact_args *a) {
  compaction c = {a, tide__isa_get()};
  tide__spread((a->numel + TIDE_COMPACT_PIECE - 1) / TIDE_COMPACT_PIECE, TIDE_COMPACT_PIECE, write_pieces, &c);
  return TIDE_OK;
}
